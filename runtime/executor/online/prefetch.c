/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetch.

       taken in:   now                        frontier           horizon
       ------------ | k k k k k k k k k k k k | k k k k k k k k k k |
                    [        admitted        ]  [ looked at ]

   A kernel is *admitted* when all that it and the admitted kernels before it use fits the device together.
   A tensor that exists counts from now to the last admitted kernel that uses it. One that an admitted
   kernel creates counts from that kernel on, a workspace at its kernel alone. demand.c has the sums by
   kernel. So a prefetch for an admitted kernel never evicts another one's operand: its victims are needed
   after all of them.

   What is fetched early takes memory from what could have stayed: the device then holds less of what it
   will need, and moves more. So a fetch begins when two things hold, in the estimated time of pace.c:

       it is due       some kernel up to the horizon would wait for its operands if the link began later
       the link asks   what is queued on it ends before the kernel that is next does

   The first one keeps bytes as few as on demand while there is time; the second one while there is none,
   when the link always has work, and a later choice of victims knows more. What is early takes a share of
   the device at most, and beside that only what is free; that alone holds before the speed of the link is
   known. So before something is to leave for an early fetch, the host waits once for copies to tell it: where
   the link is slow, a device would else be emptied of what comes next, steps long.

   State of the frontier: NULL, all items are admitted; an item with is_counted false, not yet in the
   demand; with is_counted true, in the demand, but not all its operands are fetched. Invariants: the
   frontier is an item that has not run; ahead_ns is the delay by the kernels before it that have not. */
#include "runtime/executor/online/prefetch.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "runtime/executor/core/failure.h"
#include "runtime/executor/online/eviction.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/partial.h"
#include "runtime/executor/state/residency.h"
#include "runtime/executor/state/victims.h"

/* Memory that admitted kernels may not count on: a share for holes between tensors. */
#define HOLES_SHARE 6

/* Kernels behind the frontier that are looked at for what is due, and kernels that run before they are looked
   at again: a look costs as much as so many kernels. */
#define HORIZON_KERNELS 512u
#define LOOK_KERNELS    16u

/* What was fetched early and is not used yet takes at most this share of the device: 4 to 16 were compared on
   seven steps at 90 to 20 % (docs/swap.md); a larger share overlaps more, and moves more. */
#define EARLY_SHARE 8

/* Copies in behind the first one that are queued when the speed of the link is asked for, at least. */
#define COPIES_TO_LEARN 2u

/* A copy is taken to need this much more time than it should, for what the estimate does not know. */
#define MARGIN 1.25

double dao_prefetch_cost_ns(const dao_engine_t *engine, const dao_item_t *item)
{
    return item->cost_ns != 0 ? (double)item->cost_ns : engine->throttles[item->stream_index].kernel_ns;
}

/* By how much a kernel delays those behind it, at least: those of other compute streams run beside it. */
static double delay_ns(const dao_engine_t *engine, const dao_item_t *item)
{
    return dao_prefetch_cost_ns(engine, item) / engine->config.stream_count;
}

/* When all that is queued on the compute streams has run. */
static double compute_end_ns(const dao_engine_t *engine)
{
    double end_ns = engine->pace.streams[DAO_STREAM_ROLE_COMPUTE].end_ns;
    for (uint32_t i = 1; i < engine->config.stream_count; i++) {
        double other_ns = engine->pace.streams[dao_timeline_compute(i)].end_ns;
        end_ns = other_ns > end_ns ? other_ns : end_ns;
    }
    return end_ns;
}

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
        engine->ahead_ns = 0;
    } else if (item->kind == DAO_ITEM_KERNEL) {
        double left_ns = engine->ahead_ns - delay_ns(engine, item);
        engine->ahead_ns = left_ns > 0 ? left_ns : 0; /* the mean cost may have changed */
    }
}

void dao_prefetch_restart(dao_engine_t *engine)
{
    engine->frontier = engine->first_item;
    engine->is_counted = false;
    engine->ahead_ns = 0;
    engine->next_look = engine->now;
    for (dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        tensor->admitted_until = 0;
    }
    if (!engine->config.on_demand) {
        dao_demand_clear(&engine->demand);
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
        bool is_pinned = item->uses[i].tensor->pin.count > 0; /* its memory is no part of the budget */
        int64_t bytes = (int64_t)dao_device_arena_part_bytes(item->uses[i].tensor->size_bytes);
        bytes = is_pinned ? 0 : bytes;
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
    uint64_t free_bytes = engine->config.arena_bytes - engine->pinned_bytes;
    uint64_t budget_bytes = free_bytes - free_bytes / HOLES_SHARE;
    if (dao_demand_most(&engine->demand) > budget_bytes) {
        count(engine, item, true);
        return false;
    }
    for (uint32_t i = 0; i < item->use_count; i++) {
        item->uses[i].tensor->admitted_until = item->time + 1;
    }
    return true;
}

/* Bytes that a fetch would bring for a use. Behind one that is partial others have bytes of their own to wait
   for. */
static uint64_t missing_bytes_of(const dao_use_t *use)
{
    const dao_managed_t *tensor = use->tensor;
    if (tensor->residency == DAO_RESIDENCY_DEVICE || tensor->residency == DAO_RESIDENCY_BOTH) {
        return 0;
    }
    bool is_next = tensor->first_use == use || (tensor->first_use != NULL && tensor->first_use->is_partial);
    if (use->kind == DAO_USE_WRITE || !is_next || tensor->residency == DAO_RESIDENCY_EMPTY) {
        return 0;
    }
    bool is_partial = tensor->residency == DAO_RESIDENCY_PARTIAL ||
                      (use->is_partial && tensor->residency == DAO_RESIDENCY_HOST);
    return is_partial ? dao_partial_missing_bytes(tensor, use) : tensor->has_device ? 0 : tensor->size_bytes;
}

/* ---- when ---- */

/* Bytes that a kernel has to wait for. */
static uint64_t missing_bytes(const dao_item_t *item)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < item->use_count; i++) {
        bytes += missing_bytes_of(&item->uses[i]);
    }
    return bytes;
}

/* Returns true if some fetch cannot wait for so long. */
static bool must_begin_within(const dao_engine_t *engine, double wait_ns)
{
    const dao_pace_t *pace = &engine->pace;
    double now_ns = compute_end_ns(engine);
    double link_ns = pace->streams[DAO_STREAM_ROLE_H2D].end_ns;
    double time_ns = now_ns + engine->ahead_ns; /* when the kernel that is looked at begins */
    double need_ns = 0;                         /* of the link, for it and those before it */
    double ns_per_byte = MARGIN * dao_pace_copy_ns(pace, DAO_STREAM_ROLE_H2D, 1);
    bool must_begin = false;
    uint32_t count = 0;
    link_ns = link_ns > now_ns ? link_ns : now_ns;
    for (const dao_item_t *item = engine->frontier; item != NULL && count < HORIZON_KERNELS && !must_begin;
         item = item->next) {
        uint64_t bytes = missing_bytes(item);
        if (bytes > 0) {
            need_ns += (double)bytes * ns_per_byte;
            must_begin = time_ns - link_ns - need_ns <= wait_ns;
        }
        time_ns += item->kind == DAO_ITEM_KERNEL ? delay_ns(engine, item) : 0;
        count += item->kind == DAO_ITEM_KERNEL ? 1 : 0;
    }
    return must_begin;
}

/* Returns true if a fetch cannot wait until this is looked at again. */
static bool is_due(dao_engine_t *engine)
{
    if (engine->now >= engine->next_look) {
        double until_look_ns = 0;
        uint32_t count = 0;
        for (const dao_item_t *item = engine->first_item; item != NULL && count < LOOK_KERNELS;
             item = item->next) {
            until_look_ns += item->kind == DAO_ITEM_KERNEL ? delay_ns(engine, item) : 0;
            count += item->kind == DAO_ITEM_KERNEL ? 1 : 0;
        }
        engine->is_due = must_begin_within(engine, until_look_ns);
        engine->next_look = engine->now + LOOK_KERNELS;
    }
    return engine->is_due;
}

/* Returns true if the link will have nothing to do before the kernel that is next has run. */
static bool does_link_ask(const dao_engine_t *engine)
{
    const dao_pace_t *pace = &engine->pace;
    const dao_item_t *item = engine->first_item;
    double end_ns = compute_end_ns(engine);
    if (item == engine->frontier) {
        return true;
    }
    for (uint32_t i = 0; i < item->use_count; i++) {
        const dao_managed_t *tensor = item->uses[i].tensor;
        double ready_ns = tensor->has_device ? dao_pace_fence_ns(pace, &tensor->device_written) : 0;
        end_ns = ready_ns > end_ns ? ready_ns : end_ns;
    }
    end_ns += item->kind == DAO_ITEM_KERNEL ? dao_prefetch_cost_ns(engine, item) : 0;
    return pace->streams[DAO_STREAM_ROLE_H2D].end_ns <= end_ns;
}

/* Returns true if a tensor of this size may be early: few are, or the device has room for it without an
   eviction, and some to spare. */
static bool may_be_early(const dao_engine_t *engine, uint64_t size_bytes)
{
    uint64_t share_bytes = engine->config.arena_bytes / EARLY_SHARE;
    return engine->early_bytes <= share_bytes ||
           dao_range_used(engine->arena.range) + size_bytes + share_bytes <= engine->config.arena_bytes;
}

/* Learns the speed of the link from the copies in that are queued, once: waits for them but for the latest,
   so that the link goes on. The host may be far ahead of the device, and would else not know it for long. */
static void learn_speed(dao_engine_t *engine)
{
    const dao_pace_stream_t *link = &engine->pace.streams[DAO_STREAM_ROLE_H2D];
    if (link->seen > 0 || link->last < link->first + COPIES_TO_LEARN) {
        return;
    }
    dao_fence_t fence = {0};
    dao_fence_add(&fence, DAO_STREAM_ROLE_H2D, link->last - 1);
    dao_status_t status = dao_timeline_wait(&engine->timeline, &fence);
    dao_engine_lose_unless_ok(engine, status);
    dao_pace_look(&engine->pace, &engine->timeline);
}

static bool may_fetch(dao_engine_t *engine, uint64_t size_bytes)
{
    bool is_free = dao_range_used(engine->arena.range) + size_bytes <= engine->config.arena_bytes;
    if (!is_free && engine->pace.streams[DAO_STREAM_ROLE_H2D].bytes_per_ns <= 0) {
        learn_speed(engine);
    }
    bool is_known = engine->pace.streams[DAO_STREAM_ROLE_H2D].bytes_per_ns > 0;
    return !engine->is_lost && may_be_early(engine, size_bytes) &&
           (!is_known || (does_link_ask(engine) && is_due(engine)));
}

/* ---- what ---- */

static bool fetch_use(dao_engine_t *engine, const dao_use_t *use)
{
    dao_managed_t *tensor = use->tensor;
    uint64_t offset = 0;
    DAO_ASSERT(!tensor->is_operand);
    if (tensor->has_device) {
        return dao_partial_fetch(engine, tensor, use) == DAO_OK;
    }
    dao_status_t status =
        dao_eviction_take_early(engine, tensor->size_bytes, (uint64_t)(uintptr_t)tensor, use->time, &offset);
    if (status != DAO_OK) {
        return false;
    }
    dao_residency_land(engine, tensor, offset);
    bool is_partial = use->is_partial && tensor->residency == DAO_RESIDENCY_HOST;
    status = is_partial ? dao_partial_fetch(engine, tensor, use) : dao_residency_fetch(engine, tensor);
    if (dao_residency_is_landing(tensor)) {
        dao_residency_unland(engine, tensor);
    }
    DAO_ASSERT(tensor->has_device || status != DAO_OK);
    tensor->is_early = tensor->has_device;
    engine->early_bytes += tensor->is_early ? tensor->size_bytes : 0;
    dao_victims_update(engine, tensor);
    return status == DAO_OK;
}

static bool fetch_all(dao_engine_t *engine, const dao_item_t *item)
{
    bool is_done = true;
    for (uint32_t i = 0; is_done && i < item->use_count; i++) {
        const dao_use_t *use = &item->uses[i];
        uint64_t part_bytes = use->tensor->has_device ? 0 : use->tensor->size_bytes;
        is_done = missing_bytes_of(use) == 0 || (may_fetch(engine, part_bytes) && fetch_use(engine, use));
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
            engine->ahead_ns += delay_ns(engine, item);
        }
        engine->frontier = item->next;
        engine->is_counted = false;
    }
}
