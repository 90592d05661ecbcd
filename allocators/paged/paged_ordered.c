/* SPDX-License-Identifier: Apache-2.0 */
/* The fast path of requests and frees in the order of a stream: one arena's lock, and what that stream fences
   or nobody. paged.c says when it ends. */
#include "allocators/paged/paged_internal.h"

#include "allocators/range/range_internal.h"
#include "allocators/slow_path.h"
#include "base/numbers/path.h"

/* Takes a block in an arena whose lock is held. NULL: it is asked in every other way. */
static DAO_ON_THE_PATH void *take(arena_t *arena, size_t size_bytes, uint32_t stream)
{
    dao_range_t *range = arena->segment.range;
    uint64_t size_units = (size_bytes + DAO_RANGE_GRANULE - 1) >> UNIT_SHIFT;
    dao_range_set_t *set = range->sets[stream];
    if (__builtin_expect(set == NULL || range->unused == DAO_RANGE_NONE, false)) {
        return NULL;
    }
    uint32_t hole = dao_range_find_for(range, set, size_units);
    uint64_t offset_bytes = (uint64_t)dao_range_at(range, hole)->offset_units << UNIT_SHIFT;
    uint64_t block_bytes = size_units << UNIT_SHIFT;
    if (__builtin_expect(hole == DAO_RANGE_NONE || !dao_paged_is_mapped(arena, offset_bytes, block_bytes),
                         false)) {
        return NULL;
    }
    dao_block_request_t request = {.size_bytes = size_bytes, .stream = stream};
    dao_range_take_for(range, set, hole, size_units, dao_word_of(&request));
    dao_stats_count_alloc(&arena->ledger.stats, size_bytes, block_bytes);
    DAO_ASSERT_HEAVY(dao_segment_is_valid(&arena->segment, NULL));
    return arena->segment.address + offset_bytes;
}

void *dao_paged_alloc_ordered(dao_allocator_t *allocator, size_t size_bytes, uint32_t stream)
{
    paged_t *paged = dao_paged_of(allocator);
    if (__builtin_expect(size_bytes - 1 >= paged->window_bytes, false)) { /* too large, or 0 */
        return NULL;
    }
    arena_t *arena = dao_paged_enter(paged);
    void *address = take(arena, size_bytes, stream);
    dao_spin_unlock(&arena->lock);
    return address;
}

/* Frees a block in an arena whose lock is held, behind a fence up to an epoch; false: nothing was done. */
static DAO_ON_THE_PATH bool give(arena_t *arena, const void *address, uint32_t offset_units, uint32_t stream,
                                 uint64_t epoch)
{
    dao_range_t *range = arena->segment.range;
    dao_range_set_t *set = range->sets[stream];
    uint32_t link = dao_range_find_start(range, offset_units);
    const dao_range_node_t *node = dao_range_at(range, link);
    uint64_t word = node->user;
    if (node->offset_units != offset_units || node->state != NODE_USED || !dao_word_is_ordered(word) ||
        set == NULL || !range->is_plain || dao_slow_path_is_needed()) {
        return false;
    }
    dao_ledger_count_free(&arena->ledger, address, word, (size_t)(node->size_units << UNIT_SHIFT));
    dao_range_leave_used(range, link);
    dao_range_make_fenced(range, set, link, stream, epoch);
    DAO_ASSERT_HEAVY(dao_segment_is_valid(&arena->segment, NULL));
    return true;
}

/* Frees a block of an arena, and records its event. The epoch is read with the lock, so that the parts of a
   stream become free in its order. A free that is refused has read it in vain. */
static DAO_ON_THE_PATH bool free_in(const paged_t *paged, arena_t *arena, const void *address,
                                    uint64_t offset_units, uint32_t stream)
{
    dao_arena_lock(arena);
    uint64_t epoch = dao_stream_fences_mark_own(paged->fences, stream);
    bool is_done = give(arena, address, (uint32_t)offset_units, stream, epoch);
    dao_spin_unlock(&arena->lock);
    if (is_done) {
        dao_stream_fences_record_own(paged->fences, stream, epoch);
    }
    return is_done;
}

/* dao_paged_free_ordered() where the block lies in another arena than this thread's. */
static DAO_OFF_THE_PATH bool free_elsewhere(const paged_t *paged, const void *address, uint32_t stream)
{
    arena_t *arena = arena_around(paged, address);
    uint64_t offset_units = arena != NULL ? dao_arena_unit(arena, address) : UINT64_MAX;
    return offset_units < paged->window_units && free_in(paged, arena, address, offset_units, stream);
}

bool dao_paged_free_ordered(dao_allocator_t *allocator, void *address, uint32_t stream)
{
    const paged_t *paged = dao_paged_of(allocator);
    arena_t *arena = dao_paged_home(paged);
    uint64_t offset_units = dao_arena_unit(arena, address);
    return offset_units < paged->window_units ? free_in(paged, arena, address, offset_units, stream)
                                              : free_elsewhere(paged, address, stream);
}
