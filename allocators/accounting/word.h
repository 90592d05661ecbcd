/* SPDX-License-Identifier: Apache-2.0 */
/* What an allocator keeps of a request beside a block, in one word. */
#ifndef DAO_ALLOCATORS_WORD_H
#define DAO_ALLOCATORS_WORD_H

#include "allocators/allocator.h"

#include <dao/tag.h>

#include <assert.h>

/* requested bytes, the tag, the stream, the owner, from the lowest bit up; four bits are spare */
#define DAO_WORD_REQUESTED_BITS 41
#define DAO_WORD_TAG_BITS       10
#define DAO_WORD_STREAM_BITS    6
#define DAO_WORD_OWNER_SHIFT    (DAO_WORD_REQUESTED_BITS + DAO_WORD_TAG_BITS + DAO_WORD_STREAM_BITS)

static_assert(DAO_TAG_COUNT_MAX <= 1u << DAO_WORD_TAG_BITS, "a tag fits");
static_assert(DAO_STREAM_FENCE_STREAM_MAX < 1u << DAO_WORD_STREAM_BITS, "a stream fits");

static inline uint64_t dao_word_of(const dao_block_request_t *request)
{
    return request->size_bytes | (uint64_t)request->tag << DAO_WORD_REQUESTED_BITS |
           (uint64_t)request->stream << (DAO_WORD_REQUESTED_BITS + DAO_WORD_TAG_BITS) |
           (uint64_t)request->owner << DAO_WORD_OWNER_SHIFT;
}

/* Returns true if a word has nothing but requested bytes, which it then is. */
static inline bool dao_word_is_plain(uint64_t word)
{
    return word >> DAO_WORD_REQUESTED_BITS == 0;
}

/* Returns true if a word has nothing but requested bytes, a stream and this owner. */
static inline bool dao_word_is_ordered(uint64_t word, dao_block_owner_t owner)
{
    uint64_t streams = ((UINT64_C(1) << DAO_WORD_STREAM_BITS) - 1)
                       << (DAO_WORD_REQUESTED_BITS + DAO_WORD_TAG_BITS);
    return (word & ~streams) >> DAO_WORD_REQUESTED_BITS ==
           (uint64_t)owner << (DAO_WORD_OWNER_SHIFT - DAO_WORD_REQUESTED_BITS);
}

static inline size_t dao_word_requested_bytes(uint64_t word)
{
    return word & ((UINT64_C(1) << DAO_WORD_REQUESTED_BITS) - 1);
}

static inline uint32_t dao_word_tag(uint64_t word)
{
    return word >> DAO_WORD_REQUESTED_BITS & ((1u << DAO_WORD_TAG_BITS) - 1);
}

static inline uint32_t dao_word_stream(uint64_t word)
{
    return word >> (DAO_WORD_REQUESTED_BITS + DAO_WORD_TAG_BITS) & ((1u << DAO_WORD_STREAM_BITS) - 1);
}

static inline dao_block_owner_t dao_word_owner(uint64_t word)
{
    return (dao_block_owner_t)(word >> DAO_WORD_OWNER_SHIFT);
}

#endif
