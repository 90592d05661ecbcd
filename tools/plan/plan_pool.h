/* SPDX-License-Identifier: Apache-2.0 */
/* How much a run takes without a plan, from allocators of others, for comparison: what programs had before
   they planned. */
#ifndef DAO_TOOLS_PLAN_POOL_H
#define DAO_TOOLS_PLAN_POOL_H

#include "tools/model/alloc_trace.h"
#include "tools/plan/tree_pool.h"

/**
 * Replays a trace on an empty pool.
 *
 * @param out_bytes  What it has taken from the system at the end; it gives nothing back. Written only on
 *                   DAO_OK.
 * @return DAO_OK; DAO_ERR_OVERFLOW if that does not fit 64 bits; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(log free blocks) an event.
 */
DAO_NODISCARD dao_status_t dao_plan_pool_run(const dao_alloc_trace_t *trace, dao_tree_pool_variant_t variant,
                                             uint64_t *out_bytes);

/**
 * Replays a trace on one range of addresses, growing at its end, that merges free neighbours at once: what
 * the strategies good_fit and best_fit of a place do in one contiguous segment.
 *
 * @param is_best    The smallest hole that fits; else a good one.
 * @param out_bytes  The highest address that was used. Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_LIMIT if it does not fit the largest range there is; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: that of the allocator.
 */
DAO_NODISCARD dao_status_t dao_plan_online_run(const dao_alloc_trace_t *trace, bool is_best,
                                               uint64_t *out_bytes);

#endif
