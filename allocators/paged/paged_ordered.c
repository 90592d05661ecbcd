/* SPDX-License-Identifier: Apache-2.0 */
/* The fast path of requests and frees in the order of a stream: one arena's lock, and what that stream fences
   or nobody. paged.c says when it ends. */
#include "allocators/paged/paged_internal.h"

#include "allocators/range/range_internal.h"
#include "allocators/slow_path.h"
#include "base/numbers/path.h"

/* Ends a fast path: unlocks, and goes on in every other way. */
static DAO_OFF_THE_PATH void *give_up(paged_t *paged, arena_t *arena, size_t size_bytes, uint32_t stream)
{
    dao_spin_unlock(&arena->lock);
    return dao_allocator_alloc_ordered_fallback(&paged->base, size_bytes, stream);
}

/* Takes a block in an arena whose lock is held, and unlocks it. */
static DAO_ON_THE_PATH void *take(paged_t *paged, arena_t *arena, size_t size_bytes, uint32_t stream)
{
    dao_range_t *range = arena->segment.range;
    uint64_t size_units = (size_bytes + DAO_RANGE_GRANULE - 1) >> UNIT_SHIFT;
    dao_range_set_t *set = range->sets[stream];
    if (__builtin_expect(set == NULL, false)) {
        return give_up(paged, arena, size_bytes, stream);
    }
    uint32_t hole = dao_range_find_for(range, set, size_units);
    uint64_t offset_bytes = (uint64_t)dao_range_at(range, hole)->offset_units << UNIT_SHIFT;
    uint64_t block_bytes = size_units << UNIT_SHIFT;
    if (__builtin_expect(hole == DAO_RANGE_NONE || range->unused == DAO_RANGE_NONE ||
                             !dao_paged_is_mapped(arena, offset_bytes, block_bytes),
                         false)) {
        return give_up(paged, arena, size_bytes, stream);
    }
    dao_block_request_t request = {.size_bytes = size_bytes, .stream = stream};
    dao_range_take_for(range, set, hole, size_units, dao_word_of(&request));
    dao_stats_count_alloc(&arena->ledger.stats, size_bytes, block_bytes);
    DAO_ASSERT_HEAVY(dao_segment_is_valid(&arena->segment, NULL));
    dao_spin_unlock(&arena->lock);
    return arena->segment.address + offset_bytes;
}

/* dao_paged_alloc_ordered() where this thread's arena is taken. */
static DAO_OFF_THE_PATH void *take_elsewhere(paged_t *paged, arena_t *arena, size_t size_bytes,
                                             uint32_t stream)
{
    return take(paged, dao_paged_enter_another(paged, arena), size_bytes, stream);
}

void *dao_paged_alloc_ordered(dao_allocator_t *allocator, size_t size_bytes, uint32_t stream)
{
    paged_t *paged = dao_paged_of(allocator);
    if (__builtin_expect(size_bytes - 1 >= paged->window_bytes, false)) { /* too large, or 0 */
        return dao_allocator_alloc_ordered_fallback(allocator, size_bytes, stream);
    }
    arena_t *arena = dao_paged_home(paged);
    return __builtin_expect(dao_spin_try(&arena->lock), true)
               ? take(paged, arena, size_bytes, stream)
               : take_elsewhere(paged, arena, size_bytes, stream);
}

/* Returns true if a node is an owner's block that only its own stream may use, of a plain range, and the slow
   path is not asked for; with the lock. */
static DAO_ON_THE_PATH bool is_straight(const dao_range_t *range, const dao_range_node_t *node,
                                        uint32_t offset_units, dao_block_owner_t owner)
{
    return node->offset_units == offset_units && node->state == NODE_USED &&
           dao_word_is_ordered(node->user, owner) && range->is_plain && !dao_slow_path_is_needed();
}

/* Frees such a block. */
static DAO_ON_THE_PATH void give(arena_t *arena, dao_range_t *range, const void *address, uint32_t link,
                                 uint32_t stream, dao_range_set_t *set, uint64_t epoch)
{
    const dao_range_node_t *node = dao_range_at(range, link);
    dao_range_leave_used(range, link);
    dao_ledger_count_untagged_free(&arena->ledger, address, dao_word_requested_bytes(node->user),
                                   (size_t)(node->size_units << UNIT_SHIFT));
    dao_range_make_fenced(range, set, link, stream, epoch);
    DAO_ASSERT_HEAVY(dao_segment_is_valid(&arena->segment, NULL));
}

/* dao_paged_free_ordered() where this thread's arena is taken, or the block lies in another one. As for a
   plain free the slow path is looked at before the lock, too. */
static DAO_OFF_THE_PATH dao_status_t free_elsewhere(paged_t *paged, void *address, uint32_t stream,
                                                    dao_block_owner_t owner)
{
    arena_t *arena = dao_slow_path_is_needed() ? NULL : arena_around(paged, address);
    uint64_t offset_units = arena != NULL ? dao_arena_unit(arena, address) : UINT64_MAX;
    if (offset_units >= paged->window_units) {
        return dao_allocator_free_ordered_fallback(&paged->base, address, stream, owner);
    }
    dao_arena_lock(arena);
    dao_range_t *range = arena->segment.range;
    uint64_t epoch = dao_stream_fences_mark_own(paged->fences, stream);
    uint32_t link = dao_range_find_start(range, (uint32_t)offset_units);
    dao_range_set_t *set = range->sets[stream];
    bool is_done =
        set != NULL && is_straight(range, dao_range_at(range, link), (uint32_t)offset_units, owner);
    if (is_done) {
        give(arena, range, address, link, stream, set, epoch);
    }
    dao_spin_unlock(&arena->lock);
    if (!is_done) {
        return dao_allocator_free_ordered_fallback(&paged->base, address, stream, owner);
    }
    dao_stream_fences_record_own(paged->fences, stream, epoch);
    return DAO_OK;
}

/* The epoch is read with the lock, so that the parts of a stream become free in its order. A free that is
   refused has read it in vain. */
dao_status_t dao_paged_free_ordered(dao_allocator_t *allocator, void *address, uint32_t stream,
                                    dao_block_owner_t owner)
{
    paged_t *paged = dao_paged_of(allocator);
    arena_t *arena = dao_paged_home(paged);
    uint64_t offset_units = dao_arena_unit(arena, address);
    if (offset_units >= paged->window_units || !dao_spin_try_beside(&arena->lock)) {
        return free_elsewhere(paged, address, stream, owner);
    }
    dao_range_t *range = arena->segment.range;
    uint64_t epoch = dao_stream_fences_mark_own(paged->fences, stream);
    uint32_t link = dao_range_find_start(range, (uint32_t)offset_units);
    dao_range_set_t *set = range->sets[stream];
    if (__builtin_expect(set == NULL ||
                             !is_straight(range, dao_range_at(range, link), (uint32_t)offset_units, owner),
                         false)) {
        dao_spin_unlock_beside(&arena->lock);
        return dao_allocator_free_ordered_fallback(allocator, address, stream, owner);
    }
    give(arena, range, address, link, stream, set, epoch);
    dao_spin_unlock_beside(&arena->lock);
    dao_stream_fences_record_own(paged->fences, stream, epoch);
    return DAO_OK;
}
