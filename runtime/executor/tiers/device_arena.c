/* SPDX-License-Identifier: Apache-2.0 */
/* The device arena.

       range    | A used | free        | B used | free |        which owner has which part now
       fences      [ A's old user ]  [ evicted C ]               parts freed lately, each with a fence

   A fence stays in the list until its work was seen to finish, even if its part was taken again since: the
   new owner joins all fences that overlap its part. Invariants: every free byte that work in flight may
   use lies under a fence of that work; fence_count <= fence_capacity; peak_used_bytes is never less than
   the range's used bytes. */
#include "runtime/executor/tiers/device_arena.h"

#include "base/internal_error.h"
#include "base/memory/host.h"
#include "base/report/assert.h"

#include <string.h>

/* Fences that the list holds at first. */
#define FENCES_AT_FIRST 64

dao_status_t dao_device_arena_init(dao_device_arena_t *arena, void *address, uint64_t capacity_bytes)
{
    memset(arena, 0, sizeof(*arena));
    arena->address = address;
    dao_range_config_t config = {.capacity_bytes = capacity_bytes, .is_indexed = true};
    return dao_range_create(&config, &arena->range);
}

void dao_device_arena_finish(dao_device_arena_t *arena)
{
    dao_range_destroy(arena->range);
    dao_host_free(arena->fences);
    memset(arena, 0, sizeof(*arena));
}

void dao_device_arena_note_used(dao_device_arena_t *arena, uint64_t used_bytes)
{
    if (used_bytes > arena->peak_used_bytes) {
        arena->peak_used_bytes = used_bytes;
    }
}

dao_status_t dao_device_arena_take(dao_device_arena_t *arena, uint64_t size_bytes, uint64_t user,
                                   uint64_t *out_offset_bytes)
{
    DAO_ASSERT(user != 0);
    if (size_bytes > dao_range_capacity(arena->range) - dao_range_used(arena->range)) {
        return DAO_ERR_LIMIT; /* else all holes would be looked at */
    }
    dao_range_request_t request = {.size_bytes = size_bytes, .user = user};
    dao_range_grant_t grant;
    dao_status_t status = dao_range_alloc(arena->range, &request, &grant);
    if (status == DAO_OK) {
        *out_offset_bytes = grant.offset_bytes;
        DAO_ASSERT(grant.offset_bytes % DAO_RANGE_GRANULE == 0);
    }
    dao_device_arena_note_used(arena, dao_range_used(arena->range));
    return status;
}

dao_status_t dao_device_arena_take_at(dao_device_arena_t *arena, uint64_t offset_bytes, uint64_t size_bytes,
                                      uint64_t user)
{
    DAO_ASSERT(user != 0);
    dao_status_t status = dao_range_alloc_at(arena->range, offset_bytes, size_bytes, user);
    dao_device_arena_note_used(arena, dao_range_used(arena->range));
    return status;
}

static bool make_room_for_fence(dao_device_arena_t *arena)
{
    if (arena->fence_count < arena->fence_capacity) {
        return true;
    }
    size_t capacity = arena->fence_capacity == 0 ? FENCES_AT_FIRST : 2 * arena->fence_capacity;
    dao_device_arena_fence_t *fences = dao_host_realloc(arena->fences, capacity, sizeof(*fences));
    if (fences == NULL) {
        return false;
    }
    arena->fences = fences;
    arena->fence_capacity = capacity;
    return true;
}

/* Work up to `fence` may still use a stretch that is about to be free. Without memory the host waits for
   it. */
static dao_status_t add_fence(dao_device_arena_t *arena, dao_timeline_t *timeline, uint64_t offset_bytes,
                              uint64_t size_bytes, const dao_fence_t *fence)
{
    if (dao_timeline_is_done(timeline, fence)) {
        return DAO_OK;
    }
    if (arena->fence_count == arena->fence_capacity) {
        dao_device_arena_purge(arena, timeline); /* seldom, as every purge walks the list */
    }
    if (!make_room_for_fence(arena)) {
        return dao_timeline_wait(timeline, fence);
    }
    DAO_ASSERT(arena->fence_count < arena->fence_capacity);
    arena->fences[arena->fence_count++] = (dao_device_arena_fence_t){offset_bytes, size_bytes, *fence};
    return DAO_OK;
}

dao_status_t dao_device_arena_give(dao_device_arena_t *arena, dao_timeline_t *timeline, uint64_t offset_bytes,
                                   const dao_fence_t *fence)
{
    dao_range_block_t block = {0};
    DAO_MUST(dao_range_free(arena->range, offset_bytes, NULL, &block));
    DAO_ASSERT(block.offset_bytes == offset_bytes && block.size_bytes > 0);
    dao_status_t status = add_fence(arena, timeline, offset_bytes, block.size_bytes, fence);
    DAO_ASSERT_HEAVY(dao_device_arena_is_valid(arena));
    return status;
}

void dao_device_arena_forget(dao_device_arena_t *arena, uint64_t offset_bytes)
{
    dao_range_block_t block;
    DAO_MUST(dao_range_free(arena->range, offset_bytes, NULL, &block));
}

/* The range keeps what it needed for as many parts, with holes between them. */
dao_status_t dao_device_arena_reserve(dao_device_arena_t *arena, uint32_t part_count)
{
    uint64_t stride = 2 * (uint64_t)DAO_RANGE_GRANULE;
    uint64_t most = dao_range_capacity(arena->range) / stride;
    uint64_t wanted = part_count < most ? part_count : most;
    uint64_t count = 0;
    dao_status_t status = DAO_OK;
    DAO_ASSERT(dao_range_used(arena->range) == 0);
    if (wanted <= arena->reserved_count) {
        return DAO_OK;
    }
    while (status == DAO_OK && count < wanted) {
        status = dao_range_alloc_at(arena->range, count * stride, DAO_RANGE_GRANULE, 1);
        count += status == DAO_OK ? 1 : 0;
    }
    arena->reserved_count = status == DAO_OK ? wanted : arena->reserved_count;
    for (uint64_t i = 0; i < count; i++) {
        dao_device_arena_forget(arena, i * stride);
    }
    DAO_ASSERT(dao_range_used(arena->range) == 0);
    DAO_ASSERT_HEAVY(dao_device_arena_is_valid(arena));
    return status;
}

dao_status_t dao_device_arena_fence_all(dao_device_arena_t *arena, dao_timeline_t *timeline,
                                        const dao_fence_t *fence)
{
    return add_fence(arena, timeline, 0, dao_range_capacity(arena->range), fence);
}

void dao_device_arena_fence(const dao_device_arena_t *arena, uint64_t offset_bytes, uint64_t size_bytes,
                            dao_fence_t *fence)
{
    for (size_t i = 0; i < arena->fence_count; i++) {
        const dao_device_arena_fence_t *entry = &arena->fences[i];
        if (entry->offset_bytes < offset_bytes + size_bytes &&
            offset_bytes < entry->offset_bytes + entry->size_bytes) {
            dao_fence_join(fence, &entry->fence);
        }
    }
}

void dao_device_arena_purge(dao_device_arena_t *arena, const dao_timeline_t *timeline)
{
    size_t kept = 0;
    for (size_t i = 0; i < arena->fence_count; i++) {
        if (!dao_timeline_is_done(timeline, &arena->fences[i].fence)) {
            arena->fences[kept++] = arena->fences[i];
        }
    }
    arena->fence_count = kept;
    DAO_ASSERT(arena->fence_count <= arena->fence_capacity);
}

bool dao_device_arena_is_valid(const dao_device_arena_t *arena)
{
    if (arena->fence_count > arena->fence_capacity || !dao_range_is_valid(arena->range)) {
        return false;
    }
    for (size_t i = 0; i < arena->fence_count; i++) {
        const dao_device_arena_fence_t *entry = &arena->fences[i];
        if (entry->offset_bytes + entry->size_bytes > dao_range_capacity(arena->range)) {
            return false;
        }
    }
    return arena->peak_used_bytes >= dao_range_used(arena->range);
}
