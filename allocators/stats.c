/* The counters of an allocator, kept under its lock. What holds between calls:

       requested_bytes <= used_bytes <= reserved_bytes
       alloc_count - free_count == live_count
       each peak is at least what it is the peak of

   requested_bytes and used_bytes are written so that others may read them without the lock. */
#include "allocators/allocator.h"

#include "base/assert.h"

static void write_field(uint64_t *field, uint64_t value)
{
    __atomic_store_n(field, value, __ATOMIC_RELAXED);
}

static void raise_peak(uint64_t *peak, uint64_t value)
{
    if (value > *peak) {
        *peak = value;
    }
}

void dao_stats_count_alloc(dao_stats_t *stats, size_t requested_bytes, size_t block_bytes)
{
    DAO_ASSERT(requested_bytes <= block_bytes);
    write_field(&stats->requested_bytes, stats->requested_bytes + requested_bytes);
    write_field(&stats->used_bytes, stats->used_bytes + block_bytes);
    stats->live_count++;
    stats->alloc_count++;
    raise_peak(&stats->peak_requested_bytes, stats->requested_bytes);
    raise_peak(&stats->peak_used_bytes, stats->used_bytes);
    DAO_ASSERT(stats->used_bytes <= stats->reserved_bytes);
}

void dao_stats_count_free(dao_stats_t *stats, size_t requested_bytes, size_t block_bytes)
{
    DAO_ASSERT(stats->live_count > 0);
    DAO_ASSERT(stats->requested_bytes >= requested_bytes && stats->used_bytes >= block_bytes);
    write_field(&stats->requested_bytes, stats->requested_bytes - requested_bytes);
    write_field(&stats->used_bytes, stats->used_bytes - block_bytes);
    stats->live_count--;
    stats->free_count++;
    DAO_ASSERT(stats->alloc_count - stats->free_count == stats->live_count);
}

void dao_stats_count_grow(dao_stats_t *stats, size_t bytes)
{
    stats->reserved_bytes += bytes;
    stats->grow_count++;
    raise_peak(&stats->peak_reserved_bytes, stats->reserved_bytes);
    DAO_ASSERT(stats->limit_bytes == 0 || stats->reserved_bytes <= stats->limit_bytes);
}

void dao_stats_count_shrink(dao_stats_t *stats, size_t bytes)
{
    DAO_ASSERT(stats->reserved_bytes >= bytes);
    stats->reserved_bytes -= bytes;
    stats->shrink_count++;
}

void dao_stats_peaks_to_now(dao_stats_t *stats)
{
    stats->peak_requested_bytes = stats->requested_bytes;
    stats->peak_used_bytes = stats->used_bytes;
    stats->peak_reserved_bytes = stats->reserved_bytes;
}
