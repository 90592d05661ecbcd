/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of an allocator, kept under its lock. What holds between calls:

       requested_bytes <= used_bytes <= reserved_bytes
       alloc_count - free_count == live_count
       each peak is at least what it is the peak of */
#ifndef DAO_ALLOCATORS_STATS_H
#define DAO_ALLOCATORS_STATS_H

#include <dao/stats.h>

#include "base/report/assert.h"

static inline void dao_stats_raise(uint64_t *peak, uint64_t value)
{
    if (__builtin_expect(value > *peak, false)) {
        *peak = value;
    }
}

static inline void dao_stats_count_alloc(dao_stats_t *stats, size_t requested_bytes, size_t block_bytes)
{
    DAO_ASSERT(requested_bytes <= block_bytes);
    stats->requested_bytes += requested_bytes;
    stats->used_bytes += block_bytes;
    stats->live_count++;
    stats->alloc_count++;
    dao_stats_raise(&stats->peak_requested_bytes, stats->requested_bytes);
    dao_stats_raise(&stats->peak_used_bytes, stats->used_bytes);
}

static inline void dao_stats_count_free(dao_stats_t *stats, size_t requested_bytes, size_t block_bytes)
{
    DAO_ASSERT(stats->live_count > 0);
    DAO_ASSERT(stats->requested_bytes >= requested_bytes && stats->used_bytes >= block_bytes);
    stats->requested_bytes -= requested_bytes;
    stats->used_bytes -= block_bytes;
    stats->live_count--;
    stats->free_count++;
    DAO_ASSERT(stats->alloc_count - stats->free_count == stats->live_count);
}

static inline void dao_stats_count_grow(dao_stats_t *stats, size_t bytes)
{
    stats->reserved_bytes += bytes;
    stats->grow_count++;
    dao_stats_raise(&stats->peak_reserved_bytes, stats->reserved_bytes);
    DAO_ASSERT(stats->limit_bytes == 0 || stats->reserved_bytes <= stats->limit_bytes);
}

static inline void dao_stats_count_shrink(dao_stats_t *stats, size_t bytes)
{
    DAO_ASSERT(stats->reserved_bytes >= bytes);
    stats->reserved_bytes -= bytes;
    stats->shrink_count++;
}

/* *out_peaks, which may be NULL, is what they were. */
static inline void dao_stats_peaks_to_now(dao_stats_t *stats, dao_peaks_t *out_peaks)
{
    if (out_peaks != NULL) {
        *out_peaks =
            (dao_peaks_t){stats->peak_requested_bytes, stats->peak_used_bytes, stats->peak_reserved_bytes};
    }
    stats->peak_requested_bytes = stats->requested_bytes;
    stats->peak_used_bytes = stats->used_bytes;
    stats->peak_reserved_bytes = stats->reserved_bytes;
}

#endif
