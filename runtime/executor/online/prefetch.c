/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetch.

       taken in:   now                        frontier
       ------------ | k k k k k k k k k k k k | k k k k k k
                    [        admitted        ]

   A kernel is *admitted* when all that it and the admitted kernels before it use fits the device together.
   A tensor that exists counts from now to the last admitted kernel that uses it. One that an admitted
   kernel creates counts from that kernel on, a workspace at its kernel alone. demand.c has the sums by
   kernel. So a prefetch for an admitted kernel never evicts another one's operand: its victims are needed
   after all of them.

   The host queues work far ahead of the device. So a prefetch starts as soon as the device has the memory
   and the link, not when its kernel is near.

   State of the frontier: NULL, all items are admitted; an item with is_counted false, not yet in the
   demand; with is_counted true, in the demand, but not all its operands are fetched. Invariant: the
   frontier is an item that has not run. */
#include "runtime/executor/online/prefetch.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "runtime/executor/online/eviction.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/residency.h"

/* Memory that admitted kernels may not count on: a share for holes between tensors. */
#define HOLES_SHARE 6

void dao_prefetch_enqueued(dao_engine_t *engine, dao_item_t *item)
{
    if (engine->frontier == NULL) {
        engine->frontier = item;
        engine->is_counted = false;
    }
}

void dao_prefetch_running(dao_engine_t *engine, const dao_item_t *item)
{
    DAO_ASSERT(item != NULL);
    DAO_ASSERT(engine->frontier == NULL || engine->frontier->time >= item->time);
    if (engine->frontier == item) {
        engine->frontier = item->next;
        engine->is_counted = false;
    }
}

/* Returns the time from which on a use needs its tensor's memory. */
static uint64_t begin_of(const dao_engine_t *engine, const dao_use_t *use)
{
    if (use->kind == DAO_USE_WRITE) {
        return use->time; /* what it held before is not needed */
    }
    return use->tensor->admitted_until > engine->now ? use->tensor->admitted_until : engine->now;
}

/* Adds what a kernel needs to the demand, or takes it off. */
static void count(dao_engine_t *engine, const dao_item_t *item, bool is_off)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        int64_t bytes = (int64_t)dao_device_arena_part_bytes(item->uses[i].tensor->size_bytes);
        dao_demand_add(&engine->demand, begin_of(engine, &item->uses[i]), item->time,
                       is_off ? -bytes : bytes);
    }
    if (item->workspace_bytes > 0) {
        int64_t bytes = (int64_t)dao_device_arena_part_bytes(item->workspace_bytes);
        dao_demand_add(&engine->demand, item->time, item->time, is_off ? -bytes : bytes);
    }
}

/* Returns true if a kernel and those admitted fit together; then it counts. */
static bool admit(dao_engine_t *engine, const dao_item_t *item)
{
    DAO_ASSERT(item->time >= engine->now);
    if (item->time - engine->now >= DAO_DEMAND_KERNELS) {
        return false;
    }
    count(engine, item, false);
    uint64_t budget_bytes = engine->config.arena_bytes - engine->config.arena_bytes / HOLES_SHARE;
    if (dao_demand_most(&engine->demand) > budget_bytes) {
        count(engine, item, true);
        return false;
    }
    for (uint32_t i = 0; i < item->use_count; i++) {
        item->uses[i].tensor->admitted_until = item->time + 1;
    }
    return true;
}

static bool is_missing(const dao_use_t *use)
{
    const dao_managed_t *tensor = use->tensor;
    return use->kind != DAO_USE_WRITE && tensor->first_use == use && !tensor->has_device &&
           tensor->residency != DAO_RESIDENCY_EMPTY;
}

static bool fetch_use(dao_engine_t *engine, const dao_use_t *use)
{
    dao_managed_t *tensor = use->tensor;
    uint64_t offset = 0;
    DAO_ASSERT(!tensor->is_pinned);
    dao_status_t status =
        dao_eviction_take_early(engine, tensor->size_bytes, (uint64_t)(uintptr_t)tensor, use->time, &offset);
    if (status != DAO_OK) {
        return false;
    }
    dao_residency_land(tensor, offset);
    status = dao_residency_fetch(engine, tensor);
    if (status != DAO_OK) {
        dao_residency_unland(engine, tensor);
    }
    DAO_ASSERT(tensor->has_device == (status == DAO_OK));
    return status == DAO_OK;
}

static bool fetch_all(dao_engine_t *engine, const dao_item_t *item)
{
    bool is_done = true;
    for (uint32_t i = 0; is_done && i < item->use_count; i++) {
        is_done = !is_missing(&item->uses[i]) || fetch_use(engine, &item->uses[i]);
    }
    return is_done;
}

void dao_prefetch_fetch(dao_engine_t *engine)
{
    DAO_ASSERT(engine->plan == NULL);
    while (engine->frontier != NULL && !engine->has_failed && !engine->is_lost) {
        const dao_item_t *item = engine->frontier;
        if (item->kind == DAO_ITEM_KERNEL) {
            engine->is_counted = engine->is_counted || admit(engine, item);
            if (!engine->is_counted || !fetch_all(engine, item)) {
                return;
            }
        }
        engine->frontier = item->next;
        engine->is_counted = false;
    }
}
