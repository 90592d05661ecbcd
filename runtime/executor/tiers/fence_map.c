/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of fences with chains through it.

       cell      | 0 | 1 | 2 | ... | 1023 | long |     latest entry of each
                       |                             entry -> earlier entry of the cell -> ... -> none

   A stretch is in the chain of the cell where it begins, if it ends at most REACH_CELLS behind it. All longer
   ones are in one chain: an arena has few of them at a time. What has left the queue stays in its chain,
   behind all that has not.

   Invariant: along a chain entries get earlier; every entry of the queue is in the chain of its cell; none in
   a cell's chain is larger than reach_bytes. */
#include "runtime/executor/tiers/fence_map.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"

#include <string.h>

#define NO_ENTRY UINT32_MAX

/* So many cells before a stretch are looked at, at most, for what reaches into it. */
#define REACH_CELLS 16u

static void forget_chains(dao_fence_map_t *map)
{
    memset(map->latest, 0xff, sizeof(map->latest));
    map->reach_bytes = 0;
    DAO_ASSERT(map->latest[0] == NO_ENTRY);
}

void dao_fence_map_init(dao_fence_map_t *map, uint64_t capacity_bytes)
{
    memset(map, 0, sizeof(*map));
    map->cell_bytes = capacity_bytes / DAO_FENCE_MAP_CELLS + 1;
    forget_chains(map);
}

void dao_fence_map_finish(dao_fence_map_t *map)
{
    dao_fence_queue_finish(&map->queue);
}

static void link_entry(dao_fence_map_t *map, size_t index)
{
    dao_fenced_t *entry = &map->queue.entries[index];
    DAO_ASSERT(index < NO_ENTRY);
    DAO_ASSERT(entry->begin / map->cell_bytes < DAO_FENCE_MAP_CELLS);
    bool is_long = entry->size_bytes > REACH_CELLS * map->cell_bytes;
    map->reach_bytes = is_long ? map->reach_bytes : dao_larger(map->reach_bytes, entry->size_bytes);
    uint32_t *latest = &map->latest[is_long ? DAO_FENCE_MAP_CELLS : entry->begin / map->cell_bytes];
    entry->earlier = *latest;
    *latest = (uint32_t)index;
}

bool dao_fence_map_push(dao_fence_map_t *map, const dao_timeline_t *timeline, const dao_fenced_t *entry)
{
    bool is_renumbered = map->queue.end == map->queue.capacity;
    bool is_there = dao_fence_queue_push(&map->queue, timeline, entry);
    if (is_renumbered) {
        forget_chains(map);
    }
    size_t first = is_renumbered ? map->queue.first : map->queue.end - 1;
    for (size_t i = first; i < map->queue.end; i++) {
        link_entry(map, i);
    }
    return is_there;
}

void dao_fence_map_clear(dao_fence_map_t *map)
{
    dao_fence_queue_clear(&map->queue);
    forget_chains(map);
}

/* The latest entry of a chain, from an index on, that has a byte of a stretch; NO_ENTRY: none. */
static inline uint32_t find_in_chain(const dao_fence_map_t *map, uint32_t index, uint64_t begin, uint64_t end)
{
    while (index != NO_ENTRY && index >= map->queue.first) {
        const dao_fenced_t *entry = &map->queue.entries[index];
        if (entry->begin < end && begin < entry->begin + entry->size_bytes) {
            return index;
        }
        DAO_ASSERT(entry->earlier == NO_ENTRY || entry->earlier < index);
        index = entry->earlier;
    }
    return NO_ENTRY;
}

/* The first cell where a stretch may begin that has a byte from `begin` on. */
static uint64_t first_cell(const dao_fence_map_t *map, uint64_t begin)
{
    return begin > map->reach_bytes ? (begin - map->reach_bytes) / map->cell_bytes : 0;
}

static void join_chain(const dao_fence_map_t *map, uint64_t chain, uint64_t begin, uint64_t end,
                       dao_fence_t *fence)
{
    uint32_t index = find_in_chain(map, map->latest[chain], begin, end);
    while (index != NO_ENTRY) {
        const dao_fenced_t *entry = &map->queue.entries[index];
        dao_fence_join(fence, &entry->fence);
        index = find_in_chain(map, entry->earlier, begin, end);
    }
}

void dao_fence_map_join(const dao_fence_map_t *map, uint64_t begin, uint64_t end, dao_fence_t *fence)
{
    DAO_ASSERT(begin < end);
    for (uint64_t cell = first_cell(map, begin); cell <= (end - 1) / map->cell_bytes; cell++) {
        join_chain(map, cell, begin, end, fence);
    }
    join_chain(map, DAO_FENCE_MAP_CELLS, begin, end, fence);
}

static uint64_t busy_end_in_chain(const dao_fence_map_t *map, const dao_timeline_t *timeline,
                                  dao_stream_role_t but, uint64_t chain, uint64_t begin, uint64_t end)
{
    uint64_t busy_end = 0;
    uint32_t index = find_in_chain(map, map->latest[chain], begin, end);
    while (index != NO_ENTRY) {
        const dao_fenced_t *entry = &map->queue.entries[index];
        dao_fence_t others = entry->fence;
        dao_fence_drop(&others, but);
        if (!dao_timeline_is_done(timeline, &others)) {
            busy_end = dao_larger(busy_end, entry->begin + entry->size_bytes);
        }
        index = find_in_chain(map, entry->earlier, begin, end);
    }
    return busy_end;
}

uint64_t dao_fence_map_busy_end(const dao_fence_map_t *map, const dao_timeline_t *timeline,
                                dao_stream_role_t but, uint64_t begin, uint64_t end)
{
    DAO_ASSERT(begin < end);
    uint64_t busy_end = busy_end_in_chain(map, timeline, but, DAO_FENCE_MAP_CELLS, begin, end);
    for (uint64_t cell = first_cell(map, begin); cell <= (end - 1) / map->cell_bytes; cell++) {
        busy_end = dao_larger(busy_end, busy_end_in_chain(map, timeline, but, cell, begin, end));
    }
    return busy_end;
}
