/* SPDX-License-Identifier: Apache-2.0 */
/* See segmented.h. Calls that look at blocks take the lock alone; those that change something, and those that
   give sums, do as the allocator's ways say: frees that were retired are counted then. */
#include "allocators/segments/segmented.h"

void dao_segmented_init(dao_segmented_t *segmented, const dao_allocator_ops_t *ops,
                        const dao_segmented_ways_t *ways, const dao_segments_config_t *config)
{
    segmented->base = (dao_allocator_t){.ops = ops, .ledger = &segmented->ledger};
    segmented->ways = ways;
    dao_spin_init(&segmented->lock, DAO_RANK_ALLOCATOR);
    dao_segments_init(&segmented->segments, config, &segmented->ledger);
    segmented->fast_count = config->fit == DAO_RANGE_FIT_GOOD ? UINT64_MAX : 0;
}

void dao_segmented_finish(dao_segmented_t *segmented)
{
    dao_segments_finish(&segmented->segments);
    dao_ledger_finish(&segmented->ledger);
}

dao_status_t dao_segmented_name(dao_segmented_t *segmented, const char *name)
{
    return dao_ledger_init(&segmented->ledger, name);
}

bool dao_segmented_recounts(const dao_segmented_t *segmented, dao_recount_t *recount)
{
    return dao_segments_is_valid(&segmented->segments, recount) &&
           dao_ledger_matches(&segmented->ledger, recount);
}

dao_status_t dao_segmented_fail(dao_segmented_t *segmented, dao_status_t status,
                                const dao_block_request_t *request)
{
    return dao_ledger_fail(&segmented->ledger, status, request,
                           dao_segments_largest_hole(&segmented->segments));
}

dao_status_t dao_segmented_check_free(const dao_segmented_t *segmented, dao_status_t status,
                                      const void *address)
{
    return dao_ledger_check_free(&segmented->ledger, status, address);
}

/* ---- the table ---- */

dao_status_t dao_segmented_stream_mark(dao_allocator_t *allocator, void *address, uint32_t stream)
{
    dao_segmented_t *segmented = dao_segmented_of(allocator);
    segmented->ways->lock(segmented);
    dao_status_t status = dao_segments_mark(&segmented->segments, address, stream);
    segmented->ways->unlock(segmented);
    return dao_ledger_check_query(&segmented->ledger, status, address);
}

dao_status_t dao_segmented_query(dao_allocator_t *allocator, const void *address, dao_block_t *out_block)
{
    dao_segmented_t *segmented = dao_segmented_of(allocator);
    dao_spin_lock(&segmented->lock);
    dao_status_t status = dao_segments_query(&segmented->segments, address, out_block);
    dao_spin_unlock(&segmented->lock);
    return dao_ledger_check_query(&segmented->ledger, status, address);
}

dao_status_t dao_segmented_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    dao_segmented_t *segmented = dao_segmented_of(allocator);
    segmented->ways->lock(segmented);
    uint64_t before_bytes = segmented->ledger.stats.reserved_bytes;
    dao_status_t status = dao_segments_trim(&segmented->segments, keep_bytes);
    uint64_t released_bytes = before_bytes - segmented->ledger.stats.reserved_bytes;
    segmented->ways->unlock(segmented);
    *out_released_bytes = (size_t)released_bytes;
    return status;
}

dao_status_t dao_segmented_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    dao_segmented_t *segmented = dao_segmented_of(allocator);
    segmented->ways->lock(segmented);
    dao_status_t status = dao_segments_limit_set(&segmented->segments, limit_bytes);
    segmented->ways->unlock(segmented);
    return status;
}

uint64_t dao_segmented_used_get(dao_allocator_t *allocator)
{
    dao_segmented_t *segmented = dao_segmented_of(allocator);
    segmented->ways->lock(segmented);
    uint64_t used_bytes = segmented->ledger.stats.used_bytes;
    dao_segmented_unlock(segmented);
    return used_bytes;
}

void dao_segmented_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    dao_segmented_t *segmented = dao_segmented_of(allocator);
    segmented->ways->lock(segmented);
    *out_stats = segmented->ledger.stats;
    out_stats->largest_hole_bytes = dao_segments_largest_hole(&segmented->segments);
    dao_segmented_unlock(segmented);
}

void dao_segmented_stats_reset_peaks(dao_allocator_t *allocator, dao_peaks_t *out_peaks)
{
    dao_segmented_t *segmented = dao_segmented_of(allocator);
    segmented->ways->lock(segmented);
    dao_stats_peaks_to_now(&segmented->ledger.stats, out_peaks);
    segmented->ways->unlock(segmented);
}

void dao_segmented_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    dao_segmented_t *segmented = dao_segmented_of(allocator);
    dao_spin_lock(&segmented->lock);
    dao_segments_walk(&segmented->segments, visit, user);
    dao_spin_unlock(&segmented->lock);
}

void dao_segmented_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    dao_segmented_t *segmented = dao_segmented_of(allocator);
    dao_spin_lock(&segmented->lock);
    dao_segments_walk_all(&segmented->segments, visit, user);
    dao_spin_unlock(&segmented->lock);
}

bool dao_segmented_is_valid(dao_allocator_t *allocator)
{
    dao_segmented_t *segmented = dao_segmented_of(allocator);
    dao_spin_lock(&segmented->lock);
    bool is_valid = segmented->ways->is_valid_locked(segmented);
    dao_spin_unlock(&segmented->lock);
    return is_valid;
}
