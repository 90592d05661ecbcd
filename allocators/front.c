/* SPDX-License-Identifier: Apache-2.0 */
/* Each function hands its arguments on to the inner allocator. */
#include "allocators/front.h"

#include "base/report/assert.h"

static dao_allocator_t *inner_of(dao_allocator_t *allocator)
{
    return ((dao_front_t *)allocator)->inner;
}

static dao_status_t forward_stream_mark(dao_allocator_t *allocator, void *address, uint32_t stream)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->stream_mark(inner, address, stream);
}

static dao_status_t forward_query(dao_allocator_t *allocator, const void *address, dao_block_t *out_block)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->query(inner, address, out_block);
}

static dao_status_t forward_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->trim(inner, keep_bytes, out_released_bytes);
}

static dao_status_t forward_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->limit_set(inner, limit_bytes);
}

static uint64_t forward_used_get(dao_allocator_t *allocator)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->used_get(inner);
}

static void forward_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    dao_allocator_t *inner = inner_of(allocator);
    inner->ops->stats_get(inner, out_stats);
}

static void forward_stats_reset_peaks(dao_allocator_t *allocator, dao_peaks_t *out_peaks)
{
    dao_allocator_t *inner = inner_of(allocator);
    inner->ops->stats_reset_peaks(inner, out_peaks);
}

static void forward_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    dao_allocator_t *inner = inner_of(allocator);
    inner->ops->walk(inner, visit, user);
}

static void forward_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    dao_allocator_t *inner = inner_of(allocator);
    inner->ops->walk_all(inner, visit, user);
}

static dao_status_t forward_lease_begin(dao_allocator_t *allocator, uint32_t *out_lease)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->lease_begin(inner, out_lease);
}

static void forward_lease_end(dao_allocator_t *allocator, uint32_t lease)
{
    dao_allocator_t *inner = inner_of(allocator);
    inner->ops->lease_end(inner, lease);
}

static void forward_lease_stats(dao_allocator_t *allocator, uint32_t lease,
                                dao_block_lease_stats_t *out_stats)
{
    dao_allocator_t *inner = inner_of(allocator);
    inner->ops->lease_stats(inner, lease, out_stats);
}

static dao_status_t forward_lease_resume(dao_allocator_t *allocator, void *address,
                                         const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->lease_resume(inner, address, request, out_grant);
}

static dao_status_t forward_window_begin(dao_allocator_t *allocator, dao_window_t *out_window)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->window_begin(inner, out_window);
}

static dao_status_t forward_alloc_at(dao_allocator_t *allocator, const dao_window_t *window, void *address,
                                     const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->alloc_at(inner, window, address, request, out_grant);
}

static dao_status_t forward_window_back(dao_allocator_t *allocator, const dao_window_t *window,
                                        size_t offset_bytes, size_t size_bytes)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->window_back(inner, window, offset_bytes, size_bytes);
}

void dao_front_init(dao_front_t *front, dao_allocator_t *inner, dao_allocator_ops_t *ops)
{
    DAO_ASSERT(ops->alloc != NULL && ops->alloc_fast != NULL && ops->free != NULL &&
               ops->free_owned != NULL && ops->is_valid != NULL && ops->destroy != NULL);
#define FORWARD(member) ops->member = ops->member != NULL ? ops->member : forward_##member
    FORWARD(stream_mark);
    FORWARD(query);
    FORWARD(trim);
    FORWARD(limit_set);
    FORWARD(used_get);
    FORWARD(stats_get);
    FORWARD(stats_reset_peaks);
    FORWARD(walk);
    FORWARD(walk_all);
    FORWARD(lease_begin);
    FORWARD(lease_end);
    FORWARD(lease_stats);
    FORWARD(lease_resume);
    FORWARD(window_begin);
    FORWARD(alloc_at);
    FORWARD(window_back);
#undef FORWARD
    dao_allocator_ops_limit(ops, inner->ops);
    front->base = (dao_allocator_t){.ops = ops, .ledger = inner->ledger};
    front->inner = inner;
    dao_allocator_stand_before(&front->base, inner);
}
