/* SPDX-License-Identifier: Apache-2.0 */
/* Replays; the pools themselves are elsewhere. */
#include "tools/plan/plan_pool.h"

#include "allocators/range/range.h"
#include "base/memory/host.h"
#include "base/report/error.h"

/* `slots` has one for each of the trace's. */
static dao_status_t replay(dao_tree_pool_t *pool, const dao_alloc_trace_t *trace, uint32_t *slots)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < trace->event_count && status == DAO_OK; i++) {
        const dao_alloc_event_t *event = &trace->events[i];
        if (event->size_bytes != 0) {
            status = dao_tree_pool_alloc(pool, event->size_bytes, &slots[event->slot]);
        } else {
            dao_tree_pool_free(pool, slots[event->slot]);
        }
    }
    return status;
}

dao_status_t dao_plan_pool_run(const dao_alloc_trace_t *trace, dao_tree_pool_variant_t variant,
                               uint64_t *out_bytes)
{
    dao_tree_pool_t pool;
    dao_tree_pool_init(&pool, variant);
    uint32_t *slots = dao_host_calloc(trace->slot_count + 1, sizeof(*slots));
    dao_status_t status = slots != NULL
                              ? replay(&pool, trace, slots)
                              : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the blocks of a pool");
    dao_host_free(slots);
    if (status == DAO_OK) {
        *out_bytes = pool.total_bytes;
    }
    dao_tree_pool_finish(&pool);
    return status;
}

/* `offsets` has one for each of the trace's slots. */
static dao_status_t replay_on_range(dao_range_t *range, const dao_alloc_trace_t *trace, uint64_t *offsets,
                                    uint64_t *out_bytes)
{
    dao_status_t status = DAO_OK;
    *out_bytes = 0;
    for (size_t i = 0; i < trace->event_count && status == DAO_OK; i++) {
        const dao_alloc_event_t *event = &trace->events[i];
        dao_range_block_t block;
        if (event->size_bytes == 0) {
            status = dao_range_free(range, offsets[event->slot], NULL, &block);
            continue;
        }
        dao_range_request_t request = {.size_bytes = event->size_bytes};
        dao_range_grant_t grant;
        status = dao_range_alloc(range, &request, &grant);
        if (status == DAO_ERR_LIMIT) {
            status = dao_error(status, "the buffers take more than %llu bytes",
                               (unsigned long long)DAO_RANGE_CAPACITY_MAX);
        }
        if (status == DAO_OK) {
            uint64_t end = grant.offset_bytes + event->size_bytes;
            offsets[event->slot] = grant.offset_bytes;
            *out_bytes = end > *out_bytes ? end : *out_bytes;
        }
    }
    return status;
}

dao_status_t dao_plan_online_run(const dao_alloc_trace_t *trace, bool is_best, uint64_t *out_bytes)
{
    dao_range_config_t config = {.capacity_bytes = DAO_RANGE_CAPACITY_MAX,
                                 .fit = is_best ? DAO_RANGE_FIT_BEST : DAO_RANGE_FIT_GOOD};
    dao_range_t *range = NULL;
    uint64_t bytes = 0;
    dao_status_t status = dao_range_create(&config, &range);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t *offsets = dao_host_calloc(trace->slot_count + 1, sizeof(*offsets));
    status = offsets != NULL ? replay_on_range(range, trace, offsets, &bytes)
                             : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a replay");
    dao_host_free(offsets);
    dao_range_destroy(range);
    if (status == DAO_OK) {
        *out_bytes = bytes;
    }
    return status;
}
