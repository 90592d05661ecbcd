/* SPDX-License-Identifier: Apache-2.0 */
/* The executor's device memory: one block, divided by the range allocator, with the fences of the parts'
   last users. The next owner of a part waits, on the device, only for the earlier users of that part.

   Offsets beyond the block are those of windows: what lies there is in whole pages of the block, which are
   parts of its range each. All functions take such offsets, too. */
#ifndef DAO_RUNTIME_EXECUTOR_DEVICE_ARENA_H
#define DAO_RUNTIME_EXECUTOR_DEVICE_ARENA_H

#include "allocators/range/range.h"
#include "base/numbers/math.h"
#include "runtime/executor/tiers/device_window.h"
#include "runtime/executor/tiers/fence_map.h"

typedef struct dao_device_arena {
    char *address;
    dao_range_t *range;
    uint64_t peak_used_bytes;
    uint64_t reserved_count; /* parts for which the range has memory */
    dao_fence_map_t fences;  /* parts that were freed while work on the device could still use them */
    dao_device_window_t *windows;
    uint64_t next_window_bytes; /* offset of the next window; 0: there was none yet */
} dao_device_arena_t;

/* What a request takes of the arena. */
static inline uint64_t dao_device_arena_part_bytes(uint64_t size_bytes)
{
    return dao_round_up(size_bytes, DAO_RANGE_GRANULE);
}

/* `address` is borrowed; capacity_bytes a multiple of DAO_RANGE_GRANULE. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_device_arena_init(dao_device_arena_t *arena, void *address,
                                                 uint64_t capacity_bytes);
void dao_device_arena_finish(dao_device_arena_t *arena);

/* So many bytes are in use: by the range allocator, or by a plan that has the arena instead. */
void dao_device_arena_note_used(dao_device_arena_t *arena, uint64_t used_bytes);

/* Takes a part. DAO_ERR_LIMIT without a message if no hole is large enough. `user` is not 0. */
DAO_NODISCARD dao_status_t dao_device_arena_take(dao_device_arena_t *arena, uint64_t size_bytes,
                                                 uint64_t user, uint64_t *out_offset_bytes);

/* Takes a part whose earlier users have ended, as far as that was seen, but for those on one stream: work of
   that stream need not wait for others then. DAO_ERR_LIMIT without a message if none was found; the whole
   arena is not searched. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_device_arena_take_idle(dao_device_arena_t *arena,
                                                      const dao_timeline_t *timeline, dao_stream_role_t but,
                                                      uint64_t size_bytes, uint64_t user,
                                                      uint64_t *out_offset_bytes);

/* Takes a part at a place that is free; DAO_ERR_LIMIT: it is not. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_device_arena_take_at(dao_device_arena_t *arena, uint64_t offset_bytes,
                                                    uint64_t size_bytes, uint64_t user);

/* Gives a part back that work up to `fence` still uses. Never fails: without memory for the fence the host
   waits for it; the answer is the error of that wait, with the part given back all the same. */
dao_status_t dao_device_arena_give(dao_device_arena_t *arena, dao_timeline_t *timeline, uint64_t offset_bytes,
                                   uint64_t size_bytes, const dao_fence_t *fence);

/* Gives a part back without a fence: the caller keeps the bytes, and the order of their users. */
void dao_device_arena_forget(dao_device_arena_t *arena, uint64_t offset_bytes, uint64_t size_bytes);

/* Gives a window offsets, and keeps it until its plan is gone and nobody uses it any more. */
void dao_device_arena_open(dao_device_arena_t *arena, dao_device_window_t *window);

/* Returns the window that an offset is of; NULL: it is of the block. */
static inline dao_device_window_t *dao_device_arena_window(const dao_device_arena_t *arena,
                                                           uint64_t offset_bytes)
{
    dao_device_window_t *window = NULL;
    if (arena->windows != NULL && offset_bytes >= dao_range_capacity(arena->range)) {
        window = arena->windows;
        while (offset_bytes - window->map.begin_bytes >= window->map.page_count * window->map.page_bytes) {
            window = window->next;
        }
    }
    return window;
}

/* Returns the address of an offset. */
static inline char *dao_device_arena_at(const dao_device_arena_t *arena, uint64_t offset_bytes)
{
    const dao_device_window_t *window = dao_device_arena_window(arena, offset_bytes);
    return window == NULL ? arena->address + offset_bytes
                          : window->address + (offset_bytes - window->map.begin_bytes);
}

/* Returns true if all of a tensor's parts are its own. */
bool dao_device_arena_has(const dao_device_arena_t *arena, uint64_t offset_bytes, uint64_t size_bytes,
                          uint64_t user, uint64_t *out_part_bytes);

/* Makes sure, while no part below `end_bytes` is taken, that so many can be taken at any places there without
   more memory. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_device_arena_reserve(dao_device_arena_t *arena, uint64_t end_bytes,
                                                    uint32_t part_count);

/* Whatever is taken from now on waits for `fence`, wherever it lies. As dao_device_arena_give() without
   memory. */
dao_status_t dao_device_arena_fence_all(dao_device_arena_t *arena, dao_timeline_t *timeline,
                                        const dao_fence_t *fence);

/* Joins into `fence` what the earlier users of a part still have in flight. */
void dao_device_arena_fence(const dao_device_arena_t *arena, uint64_t offset_bytes, uint64_t size_bytes,
                            dao_fence_t *fence);

/* Forgets fences that are done, in the order of their frees, up to one that is not, and unmaps a page of each
   window that nobody uses any more. */
void dao_device_arena_purge(dao_device_arena_t *arena, const dao_timeline_t *timeline);

/* Unmaps windows, up to one that is in use: before the memory goes. */
void dao_device_arena_close(dao_device_arena_t *arena, const dao_timeline_t *timeline);

bool dao_device_arena_is_valid(const dao_device_arena_t *arena);

#endif
