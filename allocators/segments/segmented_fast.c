/* SPDX-License-Identifier: Apache-2.0 */
/* The fast paths of places in segments: see segmented.h. One lock, a hole as range.c chooses it, no call of
   the upstream. Whatever else there is ends with the allocator's fallback, and nothing is changed before. */
#include "allocators/segments/segmented.h"

#include "allocators/range/range_internal.h"
#include "allocators/slow_path.h"
#include "base/numbers/path.h"

/* Ends the fast path: unlocks, and goes on in every other way. */
static DAO_OFF_THE_PATH void *give_up(dao_segmented_t *segmented, size_t size_bytes)
{
    dao_spin_unlock(&segmented->lock);
    return dao_allocator_alloc_fallback(&segmented->base, size_bytes);
}

/* Takes a block at the front of a hole with the lock held, and unlocks. */
static DAO_ON_THE_PATH void *take_and_unlock(dao_segmented_t *segmented, uint32_t hole, size_t size_bytes)
{
    dao_range_t *range = segmented->segments.space.range;
    uint64_t size_units = (size_bytes + DAO_RANGE_GRANULE - 1) >> UNIT_SHIFT;
    if (__builtin_expect(hole == DAO_RANGE_NONE || range->unused == DAO_RANGE_NONE, false)) {
        return give_up(segmented, size_bytes);
    }
    const dao_range_node_t *node = dao_range_at(range, hole);
    DAO_ASSERT(node->state == NODE_FREE);
    char *address = dao_space_address(&segmented->segments.space, (uint64_t)node->offset_units << UNIT_SHIFT);
    if (node->size_units == size_units) {
        dao_range_take_whole(range, hole, size_bytes);
    } else {
        (void)dao_range_take_front(range, NULL, hole, size_units, size_bytes);
    }
    dao_stats_count_alloc(&segmented->ledger.stats, size_bytes, size_units << UNIT_SHIFT);
    dao_segmented_unlock(segmented);
    return address;
}

/* take() where memory is tight. */
static DAO_OFF_THE_PATH void *take_tightly(dao_segmented_t *segmented, size_t size_bytes)
{
    uint64_t size_units = (size_bytes + DAO_RANGE_GRANULE - 1) >> UNIT_SHIFT;
    return take_and_unlock(segmented, dao_range_find_tight(segmented->segments.space.range, size_units),
                           size_bytes);
}

/* Takes a block with the lock held, and unlocks. */
static DAO_ON_THE_PATH void *take(dao_segmented_t *segmented, size_t size_bytes)
{
    const dao_range_t *range = segmented->segments.space.range;
    const dao_stats_t *stats = &segmented->ledger.stats;
    if (__builtin_expect(stats->live_count >= segmented->fast_count || range == NULL, false)) {
        return give_up(segmented, size_bytes);
    }
    if (stats->used_bytes > segmented->segments.easy_bytes) {
        return take_tightly(segmented, size_bytes);
    }
    uint64_t size_units = (size_bytes + DAO_RANGE_GRANULE - 1) >> UNIT_SHIFT;
    return take_and_unlock(segmented, dao_range_find_good(range, NULL, size_units), size_bytes);
}

/* dao_segmented_alloc_fast() where the lock is taken. */
static DAO_OFF_THE_PATH void *take_later(dao_segmented_t *segmented, size_t size_bytes)
{
    dao_spin_lock(&segmented->lock);
    return take(segmented, size_bytes);
}

void *dao_segmented_alloc_fast(dao_allocator_t *allocator, size_t size_bytes)
{
    dao_segmented_t *segmented = dao_segmented_of(allocator);
    if (__builtin_expect(size_bytes - 1 >= DAO_SPACE_EXTENT_MAX, false)) { /* too large, or 0 */
        return dao_allocator_alloc_fallback(allocator, size_bytes);
    }
    return __builtin_expect(dao_spin_try(&segmented->lock), true) ? take(segmented, size_bytes)
                                                                  : take_later(segmented, size_bytes);
}

/* Frees a block that no stream uses and no tag is charged for, with the lock held, which is where the slow
   path is looked at. False: nothing was done. */
static DAO_ON_THE_PATH bool free_if_plain(dao_segmented_t *segmented, const void *address)
{
    dao_space_t *space = &segmented->segments.space;
    if (dao_slow_path_is_needed() || space->count == 0 || (uintptr_t)address % DAO_RANGE_GRANULE != 0) {
        return false;
    }
    uint32_t offset_units = (uint32_t)(dao_space_offset(space, address) >> UNIT_SHIFT);
    uint32_t link = dao_range_find_start(space->range, offset_units);
    const dao_range_node_t *node = dao_range_at(space->range, link);
    uint64_t word = node->user;
    if (node->offset_units != offset_units || node->state != NODE_USED || !dao_word_is_plain(word) ||
        word == 0) { /* a retired block has none */
        return false;
    }
    dao_ledger_count_free(&segmented->ledger, address, word, (size_t)(node->size_units << UNIT_SHIFT));
    dao_range_leave_used(space->range, link);
    dao_range_make_free(space->range, link);
    DAO_ASSERT_HEAVY(segmented->ways->is_valid_locked(segmented));
    return true;
}

/* dao_segmented_free_fast() where the lock is taken. The look at the slow path before is for segment
   callbacks, in which this thread holds it. */
static DAO_OFF_THE_PATH dao_status_t free_later(dao_segmented_t *segmented, void *address)
{
    bool is_done = false;
    if (!dao_slow_path_is_needed()) {
        dao_spin_lock(&segmented->lock);
        is_done = free_if_plain(segmented, address);
        dao_spin_unlock(&segmented->lock);
    }
    return is_done ? DAO_OK : dao_allocator_free_fallback(&segmented->base, address);
}

/* Nothing waits here and no lock is taken under this one, so the thread may hold others, as in a segment
   callback of another place. */
dao_status_t dao_segmented_free_fast(dao_allocator_t *allocator, void *address)
{
    dao_segmented_t *segmented = dao_segmented_of(allocator);
    if (!dao_spin_try_beside(&segmented->lock)) {
        return free_later(segmented, address);
    }
    bool is_done = free_if_plain(segmented, address);
    dao_spin_unlock_beside(&segmented->lock);
    return __builtin_expect(is_done, true) ? DAO_OK : dao_allocator_free_fallback(allocator, address);
}
