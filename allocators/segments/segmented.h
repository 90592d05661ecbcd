/* SPDX-License-Identifier: Apache-2.0 */
/* What device_memory.c, pinned.c and host.c are alike in: segments and a ledger behind one lock. It is the
   first member of each of them, and those calls of the allocator's table are here that are no different. The
   fast paths of good fit are in segmented_fast.c.

       stats.reserved_bytes == the segments, and what else the allocator has
       stats.used_bytes == sum of the live blocks' sizes */
#ifndef DAO_ALLOCATORS_SEGMENTED_H
#define DAO_ALLOCATORS_SEGMENTED_H

#include "allocators/segments/segments.h"
#include "base/report/assert.h"
#include "base/threads/sync.h"

typedef struct dao_segmented dao_segmented_t;

/* What differs. */
typedef struct dao_segmented_ways {
    bool (*is_valid_locked)(const dao_segmented_t *segmented);
    void (*lock)(dao_segmented_t *segmented);   /* and does what has to be done first */
    void (*unlock)(dao_segmented_t *segmented); /* and may log: not at the end of a look at the counters */
} dao_segmented_ways_t;

struct dao_segmented {
    dao_allocator_t base;
    const dao_segmented_ways_t *ways;

    dao_spin_t lock; /* guards the rest */
    dao_ledger_t ledger;
    dao_segments_t segments;
    uint64_t fast_count; /* the fast path makes so many live blocks at most; 0: none, as with best fit */
};

static inline dao_segmented_t *dao_segmented_of(dao_allocator_t *allocator)
{
    return (dao_segmented_t *)allocator;
}

/* Makes one without memory; dao_segmented_name() begins its ledger. */
void dao_segmented_init(dao_segmented_t *segmented, const dao_allocator_ops_t *ops,
                        const dao_segmented_ways_t *ways, const dao_segments_config_t *config);

/* Releases everything, also what is half made, but for the memory that it lies in. */
void dao_segmented_finish(dao_segmented_t *segmented);

/* Begins the ledger, with the place's name, which is copied. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_segmented_name(dao_segmented_t *segmented, const char *name);

/* Checks the segments, and that they and what `recount` has already are what the ledger says. With the
   lock. */
bool dao_segmented_recounts(const dao_segmented_t *segmented, dao_recount_t *recount);

/* As dao_ledger_fail(), with the largest hole of the segments. With the lock. */
dao_status_t dao_segmented_fail(dao_segmented_t *segmented, dao_status_t status,
                                const dao_block_request_t *request);

/* As dao_ledger_check_free(): the message of a call that found no block. */
dao_status_t dao_segmented_check_free(const dao_segmented_t *segmented, dao_status_t status,
                                      const void *address);

/* The lock alone. */
static inline void dao_segmented_lock(dao_segmented_t *segmented)
{
    dao_spin_lock(&segmented->lock);
    DAO_ASSERT_HEAVY(segmented->ways->is_valid_locked(segmented));
}

static inline void dao_segmented_unlock(dao_segmented_t *segmented)
{
    DAO_ASSERT_HEAVY(segmented->ways->is_valid_locked(segmented));
    dao_spin_unlock(&segmented->lock);
}

/* The fast paths: an idle block of a size alone where a hole suits, and the free of one that no stream uses
   and no tag is charged for. */
void *dao_segmented_alloc_fast(dao_allocator_t *allocator, size_t size_bytes);
dao_status_t dao_segmented_free_fast(dao_allocator_t *allocator, void *address);

/* As the table says. */
dao_status_t dao_segmented_stream_mark(dao_allocator_t *allocator, void *address, uint32_t stream);
dao_status_t dao_segmented_query(dao_allocator_t *allocator, const void *address, dao_block_t *out_block);
dao_status_t dao_segmented_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes);
dao_status_t dao_segmented_limit_set(dao_allocator_t *allocator, size_t limit_bytes);
uint64_t dao_segmented_used_get(dao_allocator_t *allocator);
void dao_segmented_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats);
void dao_segmented_stats_reset_peaks(dao_allocator_t *allocator, dao_peaks_t *out_peaks);
void dao_segmented_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user);
void dao_segmented_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user);
bool dao_segmented_is_valid(dao_allocator_t *allocator);

#endif
