/* SPDX-License-Identifier: Apache-2.0 */
/* The arena. Whatever is planned, a part of it is handed out only while it is really free: that is for the
   range to know which lies over it.

   Where the inner allocator has windows, the arena is one, and its blocks are the inner allocator's own: what
   is free in it goes where it is needed. It is never given back.

   Else it is one block of the inner allocator under a range of its own. A fixed arena cannot lend its idle
   bytes to the place:

       none ------ a plan is ready ------> used ------ a plan needs a larger one ------> closed
         ^                                  |  no plan is ready: it is like any                |
         |                                  |  other segment of the place                      |
         +----------------- nothing lives in it (arena_give) ---------------------------------+

   Nothing new goes into a closed arena. What holds: the blocks of the range are those that arena.ledger
   counts, and each has a word of word.h. */
#include "allocators/step_plan/planned_internal.h"

#include "base/memory/host_policy.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <string.h>

/* ---- taking and giving back ---- */

static dao_status_t range_make(char *address, uint64_t size_bytes, dao_range_t **out_range)
{
    dao_range_config_t config = {
        .capacity_bytes = size_bytes, .base = (uint64_t)(uintptr_t)address, .is_indexed = true};
    return dao_range_create(&config, out_range);
}

/* Says where requests and frees find the arena. The lock is held. */
static void arena_show(dao_planned_t *planned, const void *address, size_t size_bytes)
{
    atomic_store_explicit(&planned->arena_begin, (uintptr_t)address, memory_order_relaxed);
    atomic_store_explicit(&planned->arena_bytes, size_bytes, memory_order_relaxed);
}

/* Touches the memory of the first bytes of a window, if that was asked for: what was not touched before, if
   it is idle. */
static void window_prefault(dao_planned_t *planned, uint64_t size_bytes)
{
    const dao_window_t *window = &planned->arena.window;
    uint64_t done_bytes = planned->arena.touched_bytes;
    if (!planned->config.prefault || !planned->is_host_memory || size_bytes <= done_bytes) {
        return;
    }
    size_t new_bytes = (size_t)(size_bytes - done_bytes);
    if (planned->inner->ops->window_back(planned->inner, window, (size_t)done_bytes, new_bytes) == DAO_OK) {
        bool is_done = dao_host_touch((char *)window->address + done_bytes, new_bytes);
        planned->arena.touched_bytes = is_done ? size_bytes : done_bytes;
    } /* else pages are touched as they are needed */
}

/* Begins the window, and makes the part of it that plans use as large as they ask for. */
static dao_status_t window_fit(dao_planned_t *planned, uint64_t size_bytes)
{
    dao_window_t window = planned->arena.window;
    dao_status_t status = DAO_OK;
    if (window.size_bytes == 0) {
        size_t released_bytes;
        status = planned->inner->ops->window_begin(planned->inner, &window);
        /* What fronts keep of small blocks would keep pages from the window; else they are kept. */
        (void)planned->inner->ops->trim(planned->inner, SIZE_MAX, &released_bytes);
    }
    if (status == DAO_OK && size_bytes > window.size_bytes) {
        status = dao_error(DAO_ERR_LIMIT, "%s: a plan needs %" PRIu64 " bytes, of %zu addresses",
                           planned->name, size_bytes, window.size_bytes);
    }
    dao_spin_lock(&planned->lock);
    if (window.size_bytes > 0) {
        planned->arena.window = window;
        arena_show(planned, window.address, window.size_bytes);
        planned->arena.segment = (dao_segment_t){.address = window.address,
                                                 .size_bytes = status == DAO_OK ? (size_t)size_bytes : 0};
    }
    dao_spin_unlock(&planned->lock);
    if (status == DAO_OK) {
        window_prefault(planned, size_bytes);
    }
    return status;
}

/* Takes a block of the inner allocator. What that has free goes first, so that the arena takes its place
   instead of coming beside it. */
static dao_status_t block_take(dao_planned_t *planned, uint64_t size_bytes, uint64_t alignment_bytes)
{
    dao_allocator_t *inner = planned->inner;
    size_t released_bytes, rounded_bytes = (size_t)dao_round_up(size_bytes, DAO_RANGE_GRANULE);
    dao_block_request_t request = {.size_bytes = rounded_bytes, .alignment_bytes = (size_t)alignment_bytes};
    dao_block_grant_t grant;
    dao_block_t block;
    dao_range_t *range = NULL;
    DAO_ASSERT(planned->arena.segment.range == NULL);
    (void)inner->ops->trim(inner, 0, &released_bytes); /* what stays is in the way, no more */
    dao_status_t status = inner->ops->alloc(inner, &request, &grant);
    if (status != DAO_OK) {
        return status;
    }
    status = inner->ops->query(inner, grant.address, &block);
    DAO_ASSERT(status == DAO_OK); /* it was allocated just now */
    status = range_make(grant.address, rounded_bytes, &range);
    if (status != DAO_OK) {
        (void)inner->ops->free(inner, grant.address, NULL); /* the same */
        return status;
    }
    if (planned->config.prefault && planned->is_host_memory) {
        memset(grant.address, 0, rounded_bytes);
    }
    dao_spin_lock(&planned->lock);
    planned->arena.segment = (dao_segment_t){grant.address, rounded_bytes, range};
    planned->arena.given_bytes = block.block_bytes;
    planned->arena.take_count++;
    arena_show(planned, grant.address, rounded_bytes);
    dao_spin_unlock(&planned->lock);
    return DAO_OK;
}

bool dao_planned_arena_give(dao_planned_t *planned)
{
    dao_spin_lock(&planned->lock);
    dao_segment_t segment = planned->arena.segment;
    if (segment.range == NULL || dao_range_used(segment.range) > 0) {
        dao_spin_unlock(&planned->lock);
        return segment.range == NULL;
    }
    dao_stream_fence_t fence = dao_range_all_fences(segment.range);
    DAO_ASSERT(planned->arena.ledger.stats.live_count == 0);
    arena_show(planned, NULL, 0);
    planned->arena.segment = (dao_segment_t){0};
    planned->arena.given_bytes = 0;
    planned->arena.is_closed = false;
    dao_spin_unlock(&planned->lock);
    dao_range_destroy(segment.range);
    dao_status_t status = planned->inner->ops->free(planned->inner, segment.address,
                                                    dao_stream_fence_is_empty(&fence) ? NULL : &fence);
    DAO_ASSERT(status == DAO_OK); /* it is the inner allocator's block, and nobody else knows of it */
    (void)status;
    return true;
}

/* Closes an arena that is too small, or opens it; true if it is to be replaced and nothing lives in it. */
static bool block_is_due(dao_planned_t *planned, uint64_t wanted_bytes)
{
    bool is_small = planned->arena.segment.range != NULL && planned->arena.segment.size_bytes < wanted_bytes;
    bool is_given = (is_small || wanted_bytes == 0) && dao_planned_arena_give(planned);
    dao_spin_lock(&planned->lock);
    planned->arena.is_closed = is_small && !is_given;
    dao_spin_unlock(&planned->lock);
    return wanted_bytes > 0 && planned->arena.segment.range == NULL;
}

void dao_planned_arena_fit(dao_planned_t *planned)
{
    uint64_t wanted_bytes = 0, alignment_bytes = 1;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        const dao_learnt_plan_t *plan = &planned->plans[i];
        if (plan->is_ready) {
            wanted_bytes = dao_larger(wanted_bytes, plan->arena_bytes);
            alignment_bytes = dao_larger(alignment_bytes, plan->script->alignment_bytes);
        }
    }
    bool is_due = dao_planned_has_block(planned) ? block_is_due(planned, wanted_bytes)
                                                 : planned->arena.segment.size_bytes < wanted_bytes;
    if (!is_due || planned->number < planned->arena_retry) {
        return;
    }
    dao_status_t status = dao_planned_has_block(planned) ? block_take(planned, wanted_bytes, alignment_bytes)
                                                         : window_fit(planned, wanted_bytes);
    if (status == DAO_OK) {
        planned->arena_failure_count = 0;
        return;
    }
    planned->arena_retry = planned->number + (UINT64_C(1) << planned->arena_failure_count);
    planned->arena_failure_count += planned->arena_failure_count < DAO_PLANNED_BACKOFF_SHIFT_MAX;
    planned->stats.failed_count++;
}

void dao_planned_arena_trim(dao_planned_t *planned)
{
    if (dao_planned_boundary_try_lock(planned)) {
        if (planned->depth == 0) {
            (void)dao_planned_arena_give(planned); /* what lives there is no cached memory */
        }
        dao_planned_boundary_unlock(planned);
    }
}

/* ---- blocks ---- */

static bool is_done(const dao_stream_fence_t *fence, void *user)
{
    return dao_stream_fences_is_done(user, fence);
}

/* Lets go of what streams held and have finished with; true if anything may be free now. */
static bool settle(dao_planned_t *planned)
{
    dao_range_t *range = planned->arena.segment.range;
    if (planned->fences == NULL || !dao_range_has_fences(range)) {
        return false;
    }
    (void)dao_stream_fences_poll(planned->fences); /* it may be news to another allocator's blocks alone */
    dao_range_settle(range, is_done, planned->fences);
    return true;
}

static dao_range_request_t range_request(const dao_block_request_t *request)
{
    return (dao_range_request_t){.size_bytes = request->size_bytes,
                                 .alignment_bytes = request->alignment_bytes,
                                 .user = dao_word_of(request),
                                 .stream = request->stream,
                                 .takes_fenced = dao_block_request_takes_fenced(request)};
}

/* Hands a block of the range out, if its tag allows it. */
static dao_status_t hand_out(dao_planned_t *planned, uint64_t offset_bytes, const dao_stream_fence_t *fence,
                             const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    dao_planned_arena_t *arena = &planned->arena;
    uint64_t block_bytes = dao_planned_rounded(request->size_bytes);
    if (dao_ledger_charge(&arena->ledger, request, block_bytes) != DAO_OK) {
        dao_range_block_t block;
        dao_stream_fence_t old_fence = *fence;
        dao_status_t status = dao_range_free(arena->segment.range, offset_bytes, &old_fence, &block);
        DAO_ASSERT(status == DAO_OK); /* it was taken just now */
        (void)status;
        return DAO_ERR_LIMIT;
    }
    dao_ledger_count_alloc(&arena->ledger, request, (size_t)block_bytes);
    out_grant->address = arena->segment.address + offset_bytes;
    out_grant->fence = *fence;
    return DAO_OK;
}

dao_status_t dao_planned_take_at(dao_planned_t *planned, uint64_t offset_bytes,
                                 const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    dao_planned_arena_t *arena = &planned->arena;
    dao_range_request_t wanted = range_request(request);
    dao_stream_fence_t fence;
    char *address = arena->segment.address + offset_bytes;
    if (dao_planned_has_window(planned)) {
        return planned->inner->ops->alloc_at(planned->inner, &arena->window, address, request, out_grant);
    }
    if ((request->alignment_bytes > 0 && (uintptr_t)address % request->alignment_bytes != 0) ||
        offset_bytes + dao_planned_rounded(request->size_bytes) > arena->segment.size_bytes) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = dao_range_alloc_over(arena->segment.range, offset_bytes, &wanted, &fence);
    if (status == DAO_ERR_LIMIT && !wanted.takes_fenced && settle(planned)) {
        status = dao_range_alloc_over(arena->segment.range, offset_bytes, &wanted, &fence);
    }
    return status == DAO_OK ? hand_out(planned, offset_bytes, &fence, request, out_grant) : status;
}

dao_status_t dao_planned_take_any(dao_planned_t *planned, const dao_block_request_t *request,
                                  dao_block_grant_t *out_grant)
{
    dao_range_request_t wanted = range_request(request);
    dao_range_grant_t grant;
    dao_status_t status = dao_range_alloc(planned->arena.segment.range, &wanted, &grant);
    if (status == DAO_ERR_LIMIT && settle(planned)) {
        status = dao_range_alloc(planned->arena.segment.range, &wanted, &grant);
    }
    return status == DAO_OK ? hand_out(planned, grant.offset_bytes, &grant.fence, request, out_grant)
                            : status;
}
