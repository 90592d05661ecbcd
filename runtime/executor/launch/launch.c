/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel's way to the device:

     prepare   every operand gets a part of the arena and its bytes, the workspace a part
     queue     waits, the program's function, a number on the compute stream
     commit    residencies and fences say what holds once it has run
     undo      instead of both: what was taken goes back

   Between prepare and commit the kernel's tensors are marked, so that none leaves. Items whose work is queued
   are kept in the order of their numbers until it has finished. */
#include "runtime/executor/launch/launch.h"

#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/core/failure.h"
#include "runtime/executor/launch/repeat_check.h"
#include "runtime/executor/online/eviction.h"
#include "runtime/executor/online/prefetch.h"
#include "runtime/executor/records/drop.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/file_copy.h"
#include "runtime/executor/state/partial.h"
#include "runtime/executor/state/plan_role.h"
#include "runtime/executor/state/residency.h"
#include "runtime/observe/annotate.h"

#include <inttypes.h>

/* The compute stream that a kernel runs on. */
static dao_stream_role_t role_of(const dao_item_t *item)
{
    return dao_timeline_compute(item->stream_index);
}

void dao_launch_mark(dao_item_t *item, bool is_operand)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        item->uses[i].tensor->is_operand = is_operand;
    }
}

static void give_workspace(dao_engine_t *engine, const dao_placement_t *placement, const dao_fence_t *fence)
{
    if (placement->has_workspace && !placement->is_planned) {
        DAO_ASSERT(engine->plan == NULL); /* else the plan has the arena */
        dao_status_t status =
            dao_device_arena_give(&engine->arena, &engine->timeline, placement->workspace_offset,
                                  placement->workspace_bytes, fence);
        dao_engine_lose_unless_ok(engine, status);
    }
}

void dao_launch_undo(dao_engine_t *engine, dao_item_t *item, const dao_placement_t *placement,
                     const dao_fence_t *fence)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        dao_managed_t *tensor = item->uses[i].tensor;
        if (!tensor->has_device) {
            continue;
        }
        bool is_spoilt = item->uses[i].kind != DAO_USE_READ && dao_fence_number(fence, role_of(item)) != 0;
        dao_fence_join(&tensor->device_busy, fence);
        if (dao_residency_is_landing(tensor)) {
            dao_residency_unland(engine, tensor);
        } else if (item->uses[i].made_content) {
            item->uses[i].made_content = false;
            tensor->is_operand = false;
            dao_residency_discard(engine, tensor);
        } else if (is_spoilt && dao_residency_is_clean(tensor)) {
            dao_residency_drop_device(engine, tensor);
        } else if (is_spoilt && (tensor->residency == DAO_RESIDENCY_PARTIAL || tensor->is_zero_elsewhere)) {
            dao_partial_spoilt(engine, &item->uses[i], fence);
        }
    }
    give_workspace(engine, placement, fence);
}

/* Pinned tensors are placed before all others, which may lie anywhere; of these, the largest. */
static bool goes_before(const dao_managed_t *a, const dao_managed_t *b)
{
    bool is_a_pinned = a->pin.count > 0, is_b_pinned = b->pin.count > 0;
    return is_a_pinned != is_b_pinned ? is_a_pinned : a->size_bytes > b->size_bytes;
}

static dao_use_t *next_without_device(dao_item_t *item)
{
    dao_use_t *next = NULL;
    for (uint32_t i = 0; i < item->use_count; i++) {
        dao_use_t *use = &item->uses[i];
        if (!use->tensor->has_device && (next == NULL || goes_before(use->tensor, next->tensor))) {
            next = use;
        }
    }
    return next;
}

/* Takes a part of the arena for a kernel. Of several streams, one that its stream need not wait for, if there
   is one: what others have given back just now would tie the kernel to them. That may lie anywhere. */
static dao_status_t take(dao_engine_t *engine, const dao_item_t *item, const dao_placement_t *placement,
                         uint64_t size_bytes, uint64_t owner, uint64_t *out_offset_bytes)
{
    dao_status_t status = DAO_ERR_LIMIT;
    if (engine->config.stream_count > 1 && !placement->is_packed) {
        status = dao_device_arena_take_idle(&engine->arena, &engine->timeline, role_of(item), size_bytes,
                                            owner, out_offset_bytes);
    }
    return status == DAO_ERR_LIMIT ? dao_eviction_take(engine, size_bytes, owner, out_offset_bytes) : status;
}

/* Brings one operand of a kernel onto the device. */
static dao_status_t bring(dao_engine_t *engine, const dao_item_t *item, const dao_placement_t *placement,
                          dao_use_t *use)
{
    dao_managed_t *tensor = use->tensor;
    DAO_ASSERT(tensor->is_operand);
    DAO_ASSERT(!tensor->has_device);
    uint64_t offset = 0;
    uint64_t owner = (uint64_t)(uintptr_t)tensor;
    dao_status_t status = tensor->pin.count > 0
                              ? dao_eviction_take(engine, tensor->size_bytes, owner, &offset) /* its place */
                              : take(engine, item, placement, tensor->size_bytes, owner, &offset);
    if (status != DAO_OK) {
        return status;
    }
    dao_residency_land(engine, tensor, offset);
    if (use->kind == DAO_USE_WRITE) {
        return DAO_OK;
    }
    if (tensor->residency == DAO_RESIDENCY_EMPTY) {
        status = use->is_partial ? dao_partial_zero(engine, tensor) : dao_residency_zero(engine, tensor);
        use->made_content = status == DAO_OK;
        return status;
    }
    return use->is_partial && tensor->residency == DAO_RESIDENCY_HOST ? dao_partial_fetch(engine, tensor, use)
                                                                      : dao_residency_fetch(engine, tensor);
}

/* Brings what operands lack that are on the device in part. */
static dao_status_t complete_all(dao_engine_t *engine, const dao_item_t *item)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < item->use_count; i++) {
        if (item->uses[i].tensor->residency == DAO_RESIDENCY_PARTIAL) {
            status = dao_partial_fetch(engine, item->uses[i].tensor, &item->uses[i]);
        }
    }
    return status;
}

/* Gives every operand and the workspace a place, the largest first but for those that have one. */
static dao_status_t bring_all(dao_engine_t *engine, dao_item_t *item, dao_placement_t *placement)
{
    for (;;) {
        dao_use_t *use = next_without_device(item);
        bool wants_workspace = item->workspace_bytes > 0 && !placement->has_workspace;
        if (use == NULL && !wants_workspace) {
            return DAO_OK;
        }
        dao_status_t status = DAO_OK;
        bool is_workspace_next =
            use == NULL || (use->tensor->pin.count == 0 && item->workspace_bytes >= use->tensor->size_bytes);
        if (wants_workspace && is_workspace_next) {
            status = take(engine, item, placement, item->workspace_bytes, DAO_OWNER_WORKSPACE,
                          &placement->workspace_offset);
            placement->has_workspace = status == DAO_OK;
            placement->workspace_bytes = item->workspace_bytes;
        } else {
            status = bring(engine, item, placement, use);
        }
        if (status != DAO_OK) {
            return status;
        }
    }
}

dao_status_t dao_launch_verify(dao_engine_t *engine, dao_item_t *item)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < item->use_count; i++) {
        if (item->uses[i].kind != DAO_USE_WRITE) {
            status = dao_file_copy_verify(engine, item->uses[i].tensor);
        }
    }
    return status;
}

dao_status_t dao_launch_prepare(dao_engine_t *engine, dao_item_t *item, dao_placement_t *placement)
{
    static const dao_fence_t no_fence;
    dao_launch_mark(item, true);
    dao_status_t status = bring_all(engine, item, placement);
    if (status == DAO_ERR_LIMIT) {
        /* The kernel fits, but operands that are resident cut the arena into holes that are too small. They
           are not in use by a kernel that the host has yet to queue, so all can leave, and come back side by
           side. */
        dao_launch_undo(engine, item, placement, &no_fence);
        *placement = (dao_placement_t){.is_packed = true, .is_again = placement->is_again};
        dao_launch_mark(item, false);
        engine->stats.compaction_count++;
        status = dao_eviction_clear(engine);
        dao_launch_mark(item, true);
        if (status == DAO_OK) {
            status = bring_all(engine, item, placement);
        }
        DAO_ASSERT(status != DAO_ERR_LIMIT); /* check_kernel() has seen that it fits an empty arena */
    }
    status = status == DAO_OK ? complete_all(engine, item) : status;
    return status == DAO_OK ? dao_launch_verify(engine, item) : status;
}

/* Returns true if a run again writes this use's bytes to a place that is no tensor's. */
static bool is_scratch(const dao_placement_t *placement, uint32_t use)
{
    return placement->scratch != NULL && placement->scratch[use] != DAO_PLAN_NOWHERE;
}

/* All that the kernel has to wait for on its stream. */
static dao_fence_t kernel_fence(const dao_engine_t *engine, const dao_item_t *item,
                                const dao_placement_t *placement)
{
    dao_fence_t fence = placement->fence;
    for (uint32_t i = 0; i < item->use_count; i++) {
        const dao_managed_t *tensor = item->uses[i].tensor;
        if (is_scratch(placement, i)) {
            continue; /* the plan's fence stands for its place */
        }
        dao_fence_join(&fence, &tensor->device_written);
        if (item->uses[i].kind != DAO_USE_READ) {
            dao_fence_join(&fence, &tensor->device_busy);
            dao_device_arena_fence(&engine->arena, tensor->device_offset_bytes, tensor->size_bytes, &fence);
        }
    }
    if (placement->has_workspace) {
        dao_device_arena_fence(&engine->arena, placement->workspace_offset, item->workspace_bytes, &fence);
    }
    return fence;
}

static void set_addresses(const dao_engine_t *engine, dao_item_t *item, const dao_placement_t *placement)
{
    for (uint32_t i = 0; i < item->operand_count; i++) {
        uint32_t use = item->operand_uses[i];
        const dao_managed_t *tensor = item->uses[use].tensor;
        bool is_other = is_scratch(placement, use);
        DAO_ASSERT(is_other || tensor->has_device);
        DAO_ASSERT(is_other || !tensor->is_unverified || item->uses[use].kind == DAO_USE_WRITE);
        uint64_t offset = is_other ? placement->scratch[use] : tensor->device_offset_bytes;
        item->addresses[i] = dao_device_arena_at(&engine->arena, offset) + item->operand_offsets[i];
    }
}

/* Behind the waits of the kernel's stream, in front of the kernel: has it measured. */
static void measure(dao_engine_t *engine, const dao_item_t *item, const dao_placement_t *placement,
                    const dao_fence_t *fence)
{
    if (engine->profiler.state != DAO_PROFILER_IDLE) {
        dao_profiler_before_kernel(&engine->profiler, role_of(item),
                                   placement->is_again ? DAO_PROFILER_AGAIN : engine->step_kernel, fence);
    }
}

dao_status_t dao_launch_queue(dao_engine_t *engine, dao_item_t *item, const dao_placement_t *placement,
                              uint64_t *out_sequence)
{
    dao_stream_role_t role = role_of(item);
    dao_fence_t fence = kernel_fence(engine, item, placement);
    dao_status_t status = dao_engine_before(engine, role, &fence);
    if (status != DAO_OK) {
        dao_error_prefix("kernel \"%s\" (number %" PRIu64 "): ", item->name, engine->now);
        return status;
    }
    set_addresses(engine, item, placement);
    dao_launch_t launch_info = {
        .name = item->name,
        .index = engine->now,
        .is_again = placement->is_again,
        .device_index = engine->config.device_index,
        .stream = engine->config.compute_streams[item->stream_index],
        .addresses = item->addresses,
        .operand_count = item->operand_count,
        .workspace = placement->has_workspace
                         ? dao_device_arena_at(&engine->arena, placement->workspace_offset)
                         : NULL,
    };
    measure(engine, item, placement, &fence);
    item->is_called = true;
    dao_annotate_begin(item->name);
    bool is_checked = engine->config.check_repeatable && item->is_repeatable && !placement->is_again &&
                      !engine->config.ops->has_no_bytes;
    dao_status_t launch_status =
        is_checked ? dao_repeat_check(engine, item, &launch_info) : item->launch(&launch_info, item->user);
    dao_annotate_end();
    dao_engine_stay(engine); /* the program's function may have made another device current */
    if (launch_status != DAO_OK) {
        (void)dao_error(DAO_ERR_KERNEL_FAILED,
                        "kernel \"%s\" (number %" PRIu64 "): its launch function answered %s: %.300s",
                        item->name, engine->now, dao_status_name(launch_status),
                        launch_status == dao_last_status() ? dao_last_message()
                                                           : dao_status_text(launch_status));
        dao_engine_fail(engine, DAO_ERR_KERNEL_FAILED, false);
    }
    status = dao_timeline_after(&engine->timeline, role, out_sequence);
    if (status != DAO_OK) {
        dao_engine_fail(engine, status, true);
        return status;
    }
    if (engine->plan == NULL && !placement->is_again) {
        dao_pace_queue(&engine->pace, role, *out_sequence, &fence, dao_prefetch_cost_ns(engine, item));
    }
    dao_profiler_after(&engine->profiler, role);
    return launch_status != DAO_OK ? DAO_ERR_KERNEL_FAILED : DAO_OK;
}

void dao_launch_commit(dao_engine_t *engine, dao_item_t *item, const dao_placement_t *placement,
                       uint64_t sequence)
{
    dao_stream_role_t role = role_of(item);
    dao_fence_t fence = {0};
    DAO_ASSERT(sequence == engine->timeline.streams[role].issued);
    dao_fence_add(&fence, role, sequence);
    for (uint32_t i = 0; i < item->use_count; i++) {
        if (is_scratch(placement, i)) {
            continue;
        }
        dao_use_t *use = &item->uses[i];
        use->made_content = false;
        if (use->kind == DAO_USE_READ) {
            DAO_ASSERT(!dao_residency_is_landing(use->tensor));
            dao_fence_join(&use->tensor->device_busy, &fence);
        } else if (use->is_partial && engine->plan == NULL) {
            dao_partial_written(engine, use->tensor, use->writes, role, sequence);
        } else {
            dao_residency_written(engine, use->tensor, role, sequence);
            use->tensor->is_given_up = false;
        }
    }
    give_workspace(engine, placement, &fence);
    item->finish_sequence = sequence;
    engine->stats.kernel_count += placement->is_again ? 0 : 1;
}

bool dao_launch_has_landing(const dao_item_t *item)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        if (dao_residency_is_landing(item->uses[i].tensor)) {
            return true;
        }
    }
    return false;
}

/* ---- items ---- */

void dao_engine_stay(const dao_engine_t *engine)
{
    if (engine->config.has_thread && engine->config.ops->thread_stay != NULL) {
        (void)engine->config.ops->thread_stay(engine->config.device); /* its next call reports it */
    }
}

static void stay_behind_drop(const void *owner)
{
    dao_engine_stay(owner);
}

void dao_engine_arrive(const dao_engine_t *engine)
{
    dao_engine_stay(engine);
    dao_drop_set_behind(stay_behind_drop, engine);
}

void dao_engine_part(const dao_engine_t *engine)
{
    dao_drop_set_behind(NULL, NULL);
    if (engine->config.has_thread && engine->config.ops->thread_part != NULL) {
        engine->config.ops->thread_part(engine->config.device);
    }
}

void dao_launch_keep(dao_engine_t *engine, dao_item_t *item)
{
    item->finish_sequence = engine->timeline.streams[role_of(item)].issued;
    DAO_ASSERT(engine->last_retired == NULL || engine->last_retired->stream_index != item->stream_index ||
               engine->last_retired->finish_sequence <= item->finish_sequence);
    item->next = NULL;
    if (engine->last_retired == NULL) {
        engine->first_retired = item;
    } else {
        engine->last_retired->next = item;
    }
    engine->last_retired = item;
}

static bool is_over(const dao_engine_t *engine, const dao_item_t *item)
{
    return item->finish_sequence <= engine->timeline.streams[role_of(item)].completed;
}

void dao_engine_retire(dao_engine_t *engine)
{
    while (engine->first_retired != NULL && is_over(engine, engine->first_retired)) {
        dao_item_t *item = engine->first_retired;
        engine->first_retired = item->next;
        if (engine->first_retired == NULL) {
            engine->last_retired = NULL;
        }
        dao_item_destroy(item);
    }
    DAO_ASSERT((engine->first_retired == NULL) == (engine->last_retired == NULL));
}
