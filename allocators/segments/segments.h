/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: stretches of addresses, each with a range over it, and sets of them that are taken from and given
   back to somebody else (the upstream). Device memory without page mapping, pinned memory and large host
   blocks are such sets; device memory with page mapping is one segment. Not thread-safe: the owner locks.
   Memory is never touched. */
#ifndef DAO_ALLOCATORS_SEGMENTS_H
#define DAO_ALLOCATORS_SEGMENTS_H

#include "allocators/accounting/ledger.h"
#include "allocators/accounting/word.h"
#include "allocators/range/range.h"
#include "allocators/range/segment.h"
#include "allocators/range/space.h"

/* Where segments come from. Both call dao_error() when they fail; take answers DAO_ERR_NO_DEVICE_MEMORY or
   DAO_ERR_NO_HOST_MEMORY when it has nothing left, which giving back free segments may help. */
typedef struct dao_upstream {
    dao_status_t (*take)(void *user, size_t size_bytes, void **out_address);
    dao_status_t (*give)(void *user, void *address, size_t size_bytes);
    void *user;
} dao_upstream_t;

typedef struct dao_segments_config {
    dao_upstream_t upstream;
    size_t
        unit_bytes; /* segments of other sizes are multiples of this, if the limit allows; a power of two */
    size_t minimum_bytes; /* the usual size of a segment, if limit and upstream allow */
    size_t first_bytes;   /* without a limit segments begin with this size, and each is as large as all before
                             it   until that is the usual size; 0: there is no such beginning */
    uint32_t growth_share;    /* or this part of what is reserved, if that is more; 0: never */
    uint32_t own_share;       /* a block of at least this part of the usual size gets its own; 1: all of it */
    dao_range_fit_t fit;      /* how a hole is chosen */
    dao_status_t full_status; /* for requests that no segment can hold */
    dao_stream_fences_t *fences; /* of the streams that use the blocks; borrowed; NULL: there are none */
} dao_segments_config_t;

typedef struct dao_segments {
    dao_segments_config_t config;
    dao_ledger_t *ledger; /* borrowed from the owner; counts the blocks and the bytes of the segments */
    dao_space_t space;    /* an extent a segment */
    size_t retired_count; /* blocks that were retired: used ones of the range whose word is 0 */
    uint64_t easy_bytes;  /* where more is used, memory is tight; as of the last growth or change of limit */
} dao_segments_t;

/* Returns true if memory is tight, as segments.c says. */
static inline bool dao_segments_is_tight(const dao_segments_t *segments)
{
    return segments->ledger->stats.used_bytes > segments->easy_bytes;
}

void dao_segments_init(dao_segments_t *segments, const dao_segments_config_t *config, dao_ledger_t *ledger);

/* Releases everything, live blocks too; zeroed memory is allowed. */
void dao_segments_finish(dao_segments_t *segments);

/* Takes a segment before the first block: size_bytes rounded up to the granule. DAO_ERR_LIMIT;
   config.full_status; DAO_ERR_NO_HOST_MEMORY; the upstream's answer. */
DAO_NODISCARD dao_status_t dao_segments_take_initial(dao_segments_t *segments, size_t size_bytes);

/* As the members of dao_allocator_ops_t; free, mark, query, retire, reclaim and reuse without a message. A
   fence that is not empty, and marks, need config.fences. */
dao_status_t dao_segments_alloc(dao_segments_t *segments, const dao_block_request_t *request,
                                dao_block_grant_t *out_grant);
dao_status_t dao_segments_free(dao_segments_t *segments, const void *address, dao_stream_fence_t *fence,
                               dao_block_owner_t owner);
dao_status_t dao_segments_mark(dao_segments_t *segments, const void *address, uint32_t stream);
dao_status_t dao_segments_retire(dao_segments_t *segments, const void *address, dao_block_owner_t owner,
                                 dao_block_t *out_block);
dao_status_t dao_segments_reclaim(dao_segments_t *segments, const void *address);
dao_status_t dao_segments_reuse(dao_segments_t *segments, const void *address,
                                const dao_block_request_t *request);
dao_status_t dao_segments_query(const dao_segments_t *segments, const void *address, dao_block_t *out_block);
dao_status_t dao_segments_trim(dao_segments_t *segments, uint64_t keep_bytes);
dao_status_t dao_segments_limit_set(dao_segments_t *segments, uint64_t limit_bytes);
void dao_segments_walk(const dao_segments_t *segments, dao_block_visit_t visit, void *user);
void dao_segments_walk_all(const dao_segments_t *segments, dao_block_visit_t visit, void *user);
uint64_t dao_segments_largest_hole(const dao_segments_t *segments);

/* Checks all segments and adds their blocks and bytes to a recount. */
bool dao_segments_is_valid(const dao_segments_t *segments, dao_recount_t *recount);

#endif
