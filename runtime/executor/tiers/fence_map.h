/* SPDX-License-Identifier: Apache-2.0 */
/* Fences of stretches of an arena, found by what they overlap. */
#ifndef DAO_RUNTIME_EXECUTOR_FENCE_MAP_H
#define DAO_RUNTIME_EXECUTOR_FENCE_MAP_H

#include "runtime/executor/streams/fence_queue.h"

/* Cells that the arena is divided into. */
#define DAO_FENCE_MAP_CELLS 1024u

typedef struct dao_fence_map {
    dao_fence_queue_t queue;
    uint64_t cell_bytes;
    uint64_t reach_bytes;                     /* the largest stretch in a cell since all were last empty */
    uint32_t latest[DAO_FENCE_MAP_CELLS + 1]; /* entry of the queue; the last one is of long stretches */
} dao_fence_map_t;

void dao_fence_map_init(dao_fence_map_t *map, uint64_t capacity_bytes);
void dao_fence_map_finish(dao_fence_map_t *map);

/* As those of the queue. */
bool dao_fence_map_push(dao_fence_map_t *map, const dao_timeline_t *timeline, const dao_fenced_t *entry);
void dao_fence_map_clear(dao_fence_map_t *map);

/* Joins into `fence` those of all stretches that have a byte from `begin` to below `end`. */
void dao_fence_map_join(const dao_fence_map_t *map, uint64_t begin, uint64_t end, dao_fence_t *fence);

/* Returns the furthest end of the stretches that have a byte from `begin` to below `end` and that others than
   one stream still use, as far as that was seen; 0: there are none. */
uint64_t dao_fence_map_busy_end(const dao_fence_map_t *map, const dao_timeline_t *timeline,
                                dao_stream_role_t but, uint64_t begin, uint64_t end);

#endif
