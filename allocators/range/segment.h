/* SPDX-License-Identifier: Apache-2.0 */
/* A segment: a stretch of addresses with a range over it, whose used blocks carry a word (word.h). All of
   device memory with page mapping is one segment; segments.h keeps sets of them. Not thread-safe: the owner
   locks. Memory is never touched. */
#ifndef DAO_ALLOCATORS_SEGMENT_H
#define DAO_ALLOCATORS_SEGMENT_H

#include "allocators/accounting/ledger.h"
#include "allocators/accounting/word.h"
#include "allocators/range/range.h"

static_assert(DAO_RANGE_CAPACITY_MAX < UINT64_C(1) << DAO_WORD_REQUESTED_BITS, "a block's size fits");
static_assert(DAO_WORD_OWNER_SHIFT == DAO_RANGE_MARK_SHIFT, "the owner is what a range looks at");

typedef struct dao_segment {
    char *address;
    size_t size_bytes;
    dao_range_t *range; /* its blocks; their `user` is a word of word.h */
} dao_segment_t;

/* Returns true if a part of a range is a live block: a retired one is used and has no word. */
static inline bool dao_segment_block_is_live(const dao_range_block_t *block)
{
    return !block->is_free && block->user != 0;
}

/* Returns a part of a range, which begins at an address, as a block. */
static inline dao_block_t dao_segment_describe(char *address, const dao_range_block_t *block)
{
    return (dao_block_t){.address = address,
                         .requested_bytes = dao_word_requested_bytes(block->user),
                         .block_bytes = (size_t)block->size_bytes,
                         .tag = dao_word_tag(block->user),
                         .stream = dao_word_stream(block->user),
                         .owner = dao_word_owner(block->user),
                         .state = dao_segment_block_is_live(block) ? DAO_BLOCK_STATE_LIVE
                                  : block->is_free && dao_stream_fence_is_empty(&block->fence)
                                      ? DAO_BLOCK_STATE_FREE
                                      : DAO_BLOCK_STATE_PENDING};
}

/* Adds a part of a range to a recount, if it is a live block: a visit of dao_range_walk(). */
static inline bool dao_segment_recount(const dao_range_block_t *block, void *user)
{
    dao_recount_t *recount = user;
    if (dao_segment_block_is_live(block)) {
        recount->requested_bytes += dao_word_requested_bytes(block->user);
        recount->used_bytes += block->size_bytes;
        recount->live_count++;
    }
    return true;
}

/* Frees a block of an owner and counts it. The statuses of dao_allocator_ops_t.free_owned, without a
   message. */
dao_status_t dao_segment_free(dao_segment_t *segment, dao_ledger_t *ledger, const void *address,
                              dao_stream_fence_t *fence, dao_block_owner_t owner);

/* Marks a block of a stream as used by one more stream. The statuses of dao_allocator_ops_t.stream_mark,
   without a message. */
dao_status_t dao_segment_mark(dao_segment_t *segment, const void *address, uint32_t stream);

/* Finds the live block around an address of the segment. DAO_ERR_FOREIGN_POINTER, without a message. */
dao_status_t dao_segment_query(const dao_segment_t *segment, const void *address, dao_block_t *out_block);

/* Sees the live blocks of a segment. */
void dao_segment_walk(const dao_segment_t *segment, dao_block_visit_t visit, void *user);

/* Sees the live and the free blocks of a segment, as dao_allocator_ops_t.walk_all. */
void dao_segment_walk_all(const dao_segment_t *segment, dao_block_visit_t visit, void *user);

/* The same for a segment of which only some pages are there: page p is if bit p of `mapped` is set. A run of
   them is shown as a segment; every live block is mapped. */
void dao_segment_walk_mapped(const dao_segment_t *segment, const uint64_t *mapped, uint32_t page_shift,
                             dao_block_visit_t visit, void *user);

/* Checks the range and adds its live blocks to a recount, unless that is NULL; reserved_bytes is left to the
   owner. */
bool dao_segment_is_valid(const dao_segment_t *segment, dao_recount_t *recount);

#endif
