/* SPDX-License-Identifier: Apache-2.0 */
/* The device arena.

       range    | A used | free        | B used | free |        which owner has which part now
       fences      [ A's old user ]  [ evicted C ]               parts freed lately, each with a fence

   A fence stays in the queue until its work was seen to finish, even if its part was taken again since: the
   new owner joins all fences that overlap its part. What lies in a window is in several parts, a page or more
   each, that have one user.

   Invariants: every free byte that work in flight may use lies under a fence of that work; peak_used_bytes is
   never less than the range's used bytes; no two windows share an offset, none has one of the block; a
   retired window is there only while somebody uses it. */
#include "runtime/executor/tiers/device_arena.h"

#include "base/internal_error.h"
#include "base/report/assert.h"

#include <string.h>

/* Places that are looked at for one that is idle: a search costs as much as so many of them. */
#define IDLE_TRIES_MAX 64u

dao_status_t dao_device_arena_init(dao_device_arena_t *arena, void *address, uint64_t capacity_bytes)
{
    memset(arena, 0, sizeof(*arena));
    arena->address = address;
    dao_fence_map_init(&arena->fences, capacity_bytes);
    dao_range_config_t config = {.capacity_bytes = capacity_bytes, .is_indexed = true};
    return dao_range_create(&config, &arena->range);
}

void dao_device_arena_finish(dao_device_arena_t *arena)
{
    while (arena->windows != NULL) {
        dao_device_window_t *window = arena->windows;
        arena->windows = window->next;
        dao_device_window_destroy(window);
    }
    dao_range_destroy(arena->range);
    dao_fence_map_finish(&arena->fences);
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

/* ---- parts, in the block or in a window ---- */

/* The part of the block behind an offset, as far as it is one piece. */
static dao_swap_run_t part_at(const dao_device_window_t *window, uint64_t offset_bytes, uint64_t end_bytes)
{
    if (window == NULL) {
        return (dao_swap_run_t){offset_bytes, end_bytes};
    }
    return dao_page_map_run(&window->map, offset_bytes, end_bytes);
}

/* What lies in a window has its last page as a whole. */
static uint64_t end_of(const dao_device_window_t *window, uint64_t offset_bytes, uint64_t size_bytes)
{
    uint64_t unit = window != NULL ? window->map.page_bytes : DAO_RANGE_GRANULE;
    return offset_bytes + dao_round_up(size_bytes, unit);
}

void dao_device_arena_forget(dao_device_arena_t *arena, uint64_t offset_bytes, uint64_t size_bytes)
{
    const dao_device_window_t *window = dao_device_arena_window(arena, offset_bytes);
    uint64_t end = end_of(window, offset_bytes, size_bytes);
    while (offset_bytes < end) {
        dao_swap_run_t part = part_at(window, offset_bytes, end);
        dao_range_block_t block;
        DAO_MUST(dao_range_free(arena->range, part.begin_bytes, NULL, &block));
        DAO_ASSERT(block.size_bytes == part.end_bytes - part.begin_bytes);
        offset_bytes += part.end_bytes - part.begin_bytes;
    }
}

dao_status_t dao_device_arena_take_at(dao_device_arena_t *arena, uint64_t offset_bytes, uint64_t size_bytes,
                                      uint64_t user)
{
    const dao_device_window_t *window = dao_device_arena_window(arena, offset_bytes);
    uint64_t end = end_of(window, offset_bytes, size_bytes);
    dao_status_t status = DAO_OK;
    DAO_ASSERT(user != 0);
    for (uint64_t at = offset_bytes; status == DAO_OK && at < end;) {
        dao_swap_run_t part = part_at(window, at, end);
        status = dao_range_alloc_at(arena->range, part.begin_bytes, part.end_bytes - part.begin_bytes, user);
        if (status != DAO_OK && at > offset_bytes) {
            dao_device_arena_forget(arena, offset_bytes, at - offset_bytes);
        }
        at += part.end_bytes - part.begin_bytes;
    }
    dao_device_arena_note_used(arena, dao_range_used(arena->range));
    return status;
}

/* A search for bytes that nobody but one stream uses. */
typedef struct idle_search {
    const dao_device_arena_t *arena;
    const dao_timeline_t *timeline;
    dao_stream_role_t but;
    uint64_t size_bytes;
    uint64_t offset_bytes; /* found */
    bool is_found;
    uint32_t tries;
} idle_search_t;

/* Looks behind what is in use, from the hole's begin on. Returns true to look into the next hole. */
static bool look_into_hole(const dao_range_block_t *hole, void *user)
{
    idle_search_t *search = user;
    uint64_t end = hole->offset_bytes + hole->size_bytes;
    uint64_t at = hole->offset_bytes;
    while (!search->is_found && search->tries < IDLE_TRIES_MAX && at + search->size_bytes <= end) {
        uint64_t busy_end = dao_fence_map_busy_end(&search->arena->fences, search->timeline, search->but, at,
                                                   at + search->size_bytes);
        DAO_ASSERT(busy_end == 0 || busy_end > at);
        search->tries++;
        search->is_found = busy_end == 0;
        search->offset_bytes = at;
        at = busy_end;
    }
    return !search->is_found && search->tries < IDLE_TRIES_MAX;
}

dao_status_t dao_device_arena_take_idle(dao_device_arena_t *arena, const dao_timeline_t *timeline,
                                        dao_stream_role_t but, uint64_t size_bytes, uint64_t user,
                                        uint64_t *out_offset_bytes)
{
    idle_search_t search = {.arena = arena,
                            .timeline = timeline,
                            .but = but,
                            .size_bytes = dao_device_arena_part_bytes(size_bytes)};
    DAO_ASSERT(user != 0);
    dao_range_walk_holes_from(arena->range, search.size_bytes, look_into_hole, &search);
    if (!search.is_found) {
        return DAO_ERR_LIMIT;
    }
    *out_offset_bytes = search.offset_bytes;
    return dao_device_arena_take_at(arena, search.offset_bytes, search.size_bytes, user);
}

/* Work up to `fence` may still use a stretch that is about to be free. Without memory the host waits for
   it. */
static dao_status_t add_fence(dao_device_arena_t *arena, dao_timeline_t *timeline, uint64_t offset_bytes,
                              uint64_t size_bytes, const dao_fence_t *fence)
{
    dao_fenced_t part = {.begin = offset_bytes, .size_bytes = size_bytes, .fence = *fence};
    bool is_over =
        dao_timeline_is_done(timeline, fence) || dao_fence_map_push(&arena->fences, timeline, &part);
    return is_over ? DAO_OK : dao_timeline_wait(timeline, fence);
}

dao_status_t dao_device_arena_give(dao_device_arena_t *arena, dao_timeline_t *timeline, uint64_t offset_bytes,
                                   uint64_t size_bytes, const dao_fence_t *fence)
{
    const dao_device_window_t *window = dao_device_arena_window(arena, offset_bytes);
    uint64_t end = end_of(window, offset_bytes, size_bytes);
    dao_status_t first = DAO_OK;
    dao_device_arena_forget(arena, offset_bytes, size_bytes);
    while (offset_bytes < end) {
        dao_swap_run_t part = part_at(window, offset_bytes, end);
        dao_status_t status =
            add_fence(arena, timeline, part.begin_bytes, part.end_bytes - part.begin_bytes, fence);
        first = first == DAO_OK ? status : first;
        offset_bytes += part.end_bytes - part.begin_bytes;
    }
    DAO_ASSERT_HEAVY(dao_device_arena_is_valid(arena));
    return first;
}

bool dao_device_arena_has(const dao_device_arena_t *arena, uint64_t offset_bytes, uint64_t size_bytes,
                          uint64_t user, uint64_t *out_part_bytes)
{
    const dao_device_window_t *window = dao_device_arena_window(arena, offset_bytes);
    uint64_t end = end_of(window, offset_bytes, size_bytes);
    *out_part_bytes = end - offset_bytes;
    while (offset_bytes < end) {
        dao_swap_run_t part = part_at(window, offset_bytes, end);
        dao_range_block_t block;
        if (dao_range_query(arena->range, part.begin_bytes, &block) != DAO_OK || block.is_free ||
            block.user != user || block.offset_bytes != part.begin_bytes ||
            block.size_bytes != part.end_bytes - part.begin_bytes) {
            return false;
        }
        offset_bytes += part.end_bytes - part.begin_bytes;
    }
    return true;
}

/* The range keeps what it needed for as many parts, with holes between them. */
dao_status_t dao_device_arena_reserve(dao_device_arena_t *arena, uint64_t end_bytes, uint32_t part_count)
{
    uint64_t stride = 2 * (uint64_t)DAO_RANGE_GRANULE;
    uint64_t most = end_bytes / stride;
    uint64_t wanted = part_count < most ? part_count : most;
    uint64_t count = 0;
    dao_status_t status = DAO_OK;
    DAO_ASSERT(end_bytes <= dao_range_capacity(arena->range));
    if (wanted <= arena->reserved_count) {
        return DAO_OK;
    }
    while (status == DAO_OK && count < wanted) {
        status = dao_range_alloc_at(arena->range, count * stride, DAO_RANGE_GRANULE, 1);
        count += status == DAO_OK ? 1 : 0;
    }
    arena->reserved_count = status == DAO_OK ? wanted : arena->reserved_count;
    for (uint64_t i = 0; i < count; i++) {
        dao_device_arena_forget(arena, i * stride, DAO_RANGE_GRANULE);
    }
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
    const dao_device_window_t *window = dao_device_arena_window(arena, offset_bytes);
    uint64_t end = offset_bytes + size_bytes;
    while (dao_fence_queue_count(&arena->fences.queue) > 0 && offset_bytes < end) {
        dao_swap_run_t part = part_at(window, offset_bytes, end);
        dao_fence_map_join(&arena->fences, part.begin_bytes, part.end_bytes, fence);
        offset_bytes += part.end_bytes - part.begin_bytes;
    }
}

/* ---- windows ---- */

void dao_device_arena_open(dao_device_arena_t *arena, dao_device_window_t *window)
{
    DAO_ASSERT(window->map.begin_bytes == 0 && !window->is_retired);
    if (arena->next_window_bytes == 0) {
        arena->next_window_bytes = dao_round_up(dao_range_capacity(arena->range), window->map.page_bytes);
    }
    window->map.begin_bytes = arena->next_window_bytes;
    arena->next_window_bytes += window->map.page_count * window->map.page_bytes;
    window->next = arena->windows;
    arena->windows = window;
}

static void shrink_windows(dao_device_arena_t *arena, const dao_timeline_t *timeline)
{
    dao_device_window_t **link = &arena->windows;
    while (*link != NULL) {
        dao_device_window_t *window = *link, *next = window->next;
        if (dao_device_window_may_go(window, timeline) && dao_device_window_shrink(window)) {
            *link = next;
        } else {
            link = &window->next;
        }
    }
}

void dao_device_arena_close(dao_device_arena_t *arena, const dao_timeline_t *timeline)
{
    while (arena->windows != NULL && dao_device_window_may_go(arena->windows, timeline)) {
        dao_device_window_t *window = arena->windows;
        arena->windows = window->next;
        dao_device_window_destroy(window);
    }
}

void dao_device_arena_purge(dao_device_arena_t *arena, const dao_timeline_t *timeline)
{
    dao_fence_queue_trim(&arena->fences.queue, timeline);
    shrink_windows(arena, timeline);
}

bool dao_device_arena_is_valid(const dao_device_arena_t *arena)
{
    if (!dao_fence_queue_is_valid(&arena->fences.queue) || !dao_range_is_valid(arena->range)) {
        return false;
    }
    for (size_t i = arena->fences.queue.first; i < arena->fences.queue.end; i++) {
        const dao_fenced_t *entry = &arena->fences.queue.entries[i];
        if (entry->begin + entry->size_bytes > dao_range_capacity(arena->range)) {
            return false;
        }
    }
    for (const dao_device_window_t *window = arena->windows; window != NULL; window = window->next) {
        uint64_t end = window->map.begin_bytes + window->map.page_count * window->map.page_bytes;
        bool is_below =
            window->next == NULL ||
            window->next->map.begin_bytes + window->next->map.page_count * window->next->map.page_bytes <=
                window->map.begin_bytes; /* the latest comes first */
        if (!is_below || window->map.begin_bytes < dao_range_capacity(arena->range) ||
            end > arena->next_window_bytes) {
            return false;
        }
        for (uint32_t i = 0; i < window->map.page_count; i++) {
            if ((window->pages[i] + UINT64_C(1)) * window->map.page_bytes >
                dao_range_capacity(arena->range)) {
                return false;
            }
        }
    }
    return arena->peak_used_bytes >= dao_range_used(arena->range);
}
