/* SPDX-License-Identifier: Apache-2.0 */
/* Running items.

       enqueue                    run                              retire
     ----------> [ taken in ] ------------> launched or skipped ------------> drop called
                 uses are in     operands resident, fences          compute stream
                 access lists    queued, kernel launched            has passed it

   A kernel is prepared: every operand gets a part of the arena and its bytes. Then it is launched and
   committed: residencies and fences say what holds once it has run. Until the launch every move can be
   undone or is harmless: a fetched operand stays fetched, a victim stays evicted, a part that nothing was
   written to is given back.

   Invariants between two items: no tensor is pinned or landing; the arena's used bytes are the parts of
   tensors that are DEVICE or BOTH; the host tier's used bytes are the slots of tensors that are BOTH or
   HOST, and its pending ones; the file's used bytes are the slots of tensors with a copy there; a tensor
   is in the table while it has a handle and was used, or has bytes, or has pending uses; now <= next_time,
   and the oldest item is not the frontier any more once it runs. */
#include "runtime/executor/engine.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/learned/step_learner.h"
#include "runtime/executor/online/eviction.h"
#include "runtime/executor/online/prefetch.h"
#include "runtime/executor/online/writeback.h"
#include "runtime/executor/records/access.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/requests.h"
#include "runtime/executor/state/failure.h"
#include "runtime/executor/state/file_copy.h"
#include "runtime/executor/state/partial.h"
#include "runtime/executor/state/residency.h"
#include "runtime/executor/state/victims.h"
#include "runtime/observe/annotate.h"

#include <inttypes.h>
#include <string.h>

static dao_status_t init_file_tier(dao_engine_t *engine)
{
    const dao_engine_config_t *config = &engine->config;
    dao_file_tier_config_t tier = {
        .ops = config->ops,
        .streams = {config->file_streams[0], config->file_streams[1]},
        .staging_streams = {config->staging_streams[0], config->staging_streams[1]},
        .host = config->host,
        .arena_bytes = config->arena_bytes,
        .file = config->file};
    return dao_file_tier_init(&engine->file_tier, &engine->timeline, &tier);
}

dao_status_t dao_engine_init(dao_engine_t *engine, const dao_engine_config_t *config)
{
    memset(engine, 0, sizeof(*engine));
    engine->config = *config;
    dao_status_t status = dao_device_arena_init(&engine->arena, config->arena_address, config->arena_bytes);
    if (status != DAO_OK) {
        return status;
    }
    status = config->on_demand ? DAO_OK : dao_demand_init(&engine->demand);
    if (status == DAO_OK && config->learns) {
        status = dao_step_learner_create(engine, config->plans_at_once, &engine->learner);
    }
    if (status != DAO_OK) {
        dao_demand_finish(&engine->demand);
        dao_device_arena_finish(&engine->arena);
        return status;
    }
    dao_timeline_init(&engine->timeline, config->ops, config->device, config->streams);
    engine->pages =
        (dao_device_pages_t){.ops = config->ops, .device = config->device, .base = config->arena_address};
    dao_profiler_init(&engine->profiler, &engine->timeline);
    dao_host_tier_init(&engine->host_tier, config->host, config->host_limit_bytes, config->ops->has_no_bytes);
    if (config->learns) {
        status = dao_device_pages_init(&engine->pages, config->streams[DAO_STREAM_ROLE_COMPUTE],
                                       config->streams[DAO_STREAM_ROLE_D2H], config->arena_bytes,
                                       config->addresses);
    }
    status = status == DAO_OK && config->file.directory != NULL ? init_file_tier(engine) : status;
    if (status != DAO_OK) {
        dao_step_learner_destroy(engine->learner);
        dao_demand_finish(&engine->demand);
        dao_device_arena_finish(&engine->arena);
    }
    return status;
}

/* Tensors enter the table with their first use, and leave it when they have no bytes and no pending use. */
static void list_tensor(dao_engine_t *engine, dao_managed_t *tensor)
{
    if (tensor->is_listed) {
        return;
    }
    dao_managed_reference(tensor);
    tensor->is_listed = true;
    tensor->table_previous = NULL;
    tensor->table_next = engine->table;
    if (engine->table != NULL) {
        engine->table->table_previous = tensor;
    }
    DAO_ASSERT(engine->table == NULL || engine->table->table_previous == tensor);
    engine->table = tensor;
}

static void unlist_tensor(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(tensor->is_listed);
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_EMPTY);
    if (tensor->table_previous != NULL) {
        tensor->table_previous->table_next = tensor->table_next;
    } else {
        engine->table = tensor->table_next;
    }
    if (tensor->table_next != NULL) {
        tensor->table_next->table_previous = tensor->table_previous;
    }
    tensor->is_listed = false;
    dao_managed_unreference(tensor);
}

/* After a use has passed or a handle has gone: a content that cannot be asked for any more is freed at
   once. */
static void settle_tensor(dao_engine_t *engine, dao_managed_t *tensor)
{
    if (!tensor->is_listed) {
        return;
    }
    if (dao_access_is_dead(tensor)) {
        dao_residency_discard(engine, tensor);
        if (tensor->first_use == NULL) {
            unlist_tensor(engine, tensor);
        }
    }
}

void dao_engine_stay(const dao_engine_t *engine)
{
    if (engine->config.has_thread && engine->config.ops->thread_stay != NULL) {
        (void)engine->config.ops->thread_stay(engine->config.device); /* its next call reports it */
    }
}

void dao_engine_part(const dao_engine_t *engine)
{
    if (engine->config.has_thread && engine->config.ops->thread_part != NULL) {
        engine->config.ops->thread_part(engine->config.device);
    }
}

/* Calls the item's drop, which is the program's, if it has one. */
static void destroy_item(const dao_engine_t *engine, dao_item_t *item)
{
    bool has_drop = item->drop != NULL;
    dao_item_destroy(item);
    if (has_drop) {
        dao_engine_stay(engine);
    }
}

void dao_engine_enqueue(dao_engine_t *engine, dao_item_t *item)
{
    if (item->kind == DAO_ITEM_RELEASE) {
        dao_managed_t *tensor = item->released;
        tensor->is_released = true;
        settle_tensor(engine, tensor);
        dao_managed_unreference(tensor);
        return;
    }
    DAO_ASSERT((engine->first_item == NULL) == (engine->last_item == NULL));
    DAO_ASSERT(engine->next_time >= engine->now);
    item->time = engine->next_time;
    for (uint32_t i = 0; i < item->use_count; i++) {
        list_tensor(engine, item->uses[i].tensor);
        dao_access_append(&item->uses[i], engine->next_time);
        dao_victims_update(engine, item->uses[i].tensor);
    }
    if (item->kind == DAO_ITEM_DISCARD) {
        settle_tensor(engine, item->uses[0].tensor); /* if nothing is to happen before, it can go now */
    }
    if (item->kind == DAO_ITEM_KERNEL) {
        engine->next_time++;
    }
    item->next = NULL;
    if (engine->last_item == NULL) {
        engine->first_item = item;
    } else {
        engine->last_item->next = item;
    }
    engine->last_item = item;
    dao_prefetch_enqueued(engine, item);
}

const dao_item_t *dao_engine_peek(const dao_engine_t *engine)
{
    return engine->first_item;
}

static void pass_uses(dao_engine_t *engine, dao_item_t *item)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        dao_access_pop(&item->uses[i]);
        dao_residency_not_early(engine, item->uses[i].tensor);
        settle_tensor(engine, item->uses[i].tensor);
        dao_victims_update(engine, item->uses[i].tensor);
    }
}

/* Kernels. */

uint64_t dao_engine_least_bytes(const dao_item_t *kernel)
{
    uint64_t bytes = dao_device_arena_part_bytes(kernel->workspace_bytes);
    for (uint32_t i = 0; i < kernel->use_count; i++) {
        bytes += dao_device_arena_part_bytes(kernel->uses[i].tensor->size_bytes);
    }
    return bytes;
}

/* What can be refused before anything is moved. */
static dao_status_t check_kernel(const dao_engine_t *engine, const dao_item_t *item)
{
    uint64_t need = dao_engine_least_bytes(item);
    for (uint32_t i = 0; i < item->use_count; i++) {
        const dao_managed_t *tensor = item->uses[i].tensor;
        bool reads = item->uses[i].is_partial ? !dao_slice_is_empty(item->uses[i].reads)
                                              : item->uses[i].kind != DAO_USE_WRITE;
        if (reads && tensor->residency == DAO_RESIDENCY_EMPTY && !tensor->zero_first_touch) {
            return dao_error(DAO_ERR_NEVER_WRITTEN,
                             "kernel \"%s\" (number %" PRIu64
                             ") reads tensor \"%s\", but nothing was written to it",
                             item->name, engine->now, tensor->name);
        }
    }
    if (need > engine->config.arena_bytes) {
        return dao_error(
            DAO_ERR_KERNEL_TOO_LARGE,
            "kernel \"%s\" (number %" PRIu64 ") needs %" PRIu64 " bytes at once for %u tensors and %zu bytes "
            "of workspace; the device arena has %" PRIu64 ": raise capacity_bytes or split the kernel",
            item->name, engine->now, need, item->use_count, item->workspace_bytes,
            engine->config.arena_bytes);
    }
    return DAO_OK;
}

static void set_pinned(dao_item_t *item, bool is_pinned)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        item->uses[i].tensor->is_pinned = is_pinned;
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

/* Gives back what was taken for a kernel that will not run now, behind what its function may have queued.
   A part that this may have written is given up if the host or the file has the tensor's bytes. */
static void undo_landing(dao_engine_t *engine, dao_item_t *item, const dao_placement_t *placement,
                         const dao_fence_t *fence)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        dao_managed_t *tensor = item->uses[i].tensor;
        if (!tensor->has_device) {
            continue;
        }
        bool is_spoilt = item->uses[i].kind != DAO_USE_READ && fence->sequence[DAO_STREAM_ROLE_COMPUTE] != 0;
        dao_fence_join(&tensor->device_busy, fence);
        if (dao_residency_is_landing(tensor)) {
            dao_residency_unland(engine, tensor);
        } else if (is_spoilt && dao_residency_is_clean(tensor)) {
            dao_residency_drop_device(engine, tensor);
        } else if (is_spoilt && (tensor->residency == DAO_RESIDENCY_PARTIAL || tensor->is_zero_elsewhere)) {
            dao_partial_spoilt(engine, &item->uses[i], fence);
        }
    }
    give_workspace(engine, placement, fence);
}

static dao_use_t *largest_without_device(dao_item_t *item)
{
    dao_use_t *largest = NULL;
    for (uint32_t i = 0; i < item->use_count; i++) {
        dao_use_t *use = &item->uses[i];
        if (!use->tensor->has_device &&
            (largest == NULL || use->tensor->size_bytes > largest->tensor->size_bytes)) {
            largest = use;
        }
    }
    return largest;
}

/* Brings one operand onto the device. */
static dao_status_t bring(dao_engine_t *engine, const dao_use_t *use)
{
    dao_managed_t *tensor = use->tensor;
    DAO_ASSERT(tensor->is_pinned);
    DAO_ASSERT(!tensor->has_device);
    uint64_t offset = 0;
    dao_status_t status = dao_eviction_take(engine, tensor->size_bytes, (uint64_t)(uintptr_t)tensor, &offset);
    if (status != DAO_OK) {
        return status;
    }
    dao_residency_land(engine, tensor, offset);
    if (use->kind == DAO_USE_WRITE) {
        return DAO_OK;
    }
    if (tensor->residency == DAO_RESIDENCY_EMPTY) {
        return use->is_partial ? dao_partial_zero(engine, tensor) : dao_residency_zero(engine, tensor);
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

/* Gives every operand and the workspace a place, the largest first. */
static dao_status_t bring_all(dao_engine_t *engine, dao_item_t *item, dao_placement_t *placement)
{
    for (;;) {
        dao_use_t *use = largest_without_device(item);
        bool wants_workspace = item->workspace_bytes > 0 && !placement->has_workspace;
        if (use == NULL && !wants_workspace) {
            return DAO_OK;
        }
        dao_status_t status = DAO_OK;
        if (wants_workspace && (use == NULL || item->workspace_bytes >= use->tensor->size_bytes)) {
            status = dao_eviction_take(engine, item->workspace_bytes, DAO_OWNER_WORKSPACE,
                                       &placement->workspace_offset);
            placement->has_workspace = status == DAO_OK;
            placement->workspace_bytes = item->workspace_bytes;
        } else {
            status = bring(engine, use);
        }
        if (status != DAO_OK) {
            return status;
        }
    }
}

/* What comes from the file has to be there: it can fail where no event would tell. */
static dao_status_t verify_all(dao_engine_t *engine, dao_item_t *item)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < item->use_count; i++) {
        if (item->uses[i].kind != DAO_USE_WRITE) {
            status = dao_file_copy_verify(engine, item->uses[i].tensor);
        }
    }
    return status;
}

static dao_status_t prepare(dao_engine_t *engine, dao_item_t *item, dao_placement_t *placement)
{
    static const dao_fence_t no_fence;
    set_pinned(item, true);
    dao_status_t status = bring_all(engine, item, placement);
    if (status == DAO_ERR_LIMIT) {
        /* The kernel fits, but operands that are resident cut the arena into holes that are too small. They
           are not in use by a kernel that the host has yet to queue, so all can leave, and come back side by
           side. */
        undo_landing(engine, item, placement, &no_fence);
        *placement = (dao_placement_t){.has_workspace = false};
        set_pinned(item, false);
        engine->stats.compaction_count++;
        status = dao_eviction_clear(engine);
        set_pinned(item, true);
        if (status == DAO_OK) {
            status = bring_all(engine, item, placement);
        }
        DAO_ASSERT(status != DAO_ERR_LIMIT); /* check_kernel() has seen that it fits an empty arena */
    }
    status = status == DAO_OK ? complete_all(engine, item) : status;
    return status == DAO_OK ? verify_all(engine, item) : status;
}

/* All that the kernel has to wait for on the compute stream. */
static dao_fence_t kernel_fence(const dao_engine_t *engine, const dao_item_t *item,
                                const dao_placement_t *placement)
{
    dao_fence_t fence = placement->fence;
    for (uint32_t i = 0; i < item->use_count; i++) {
        const dao_managed_t *tensor = item->uses[i].tensor;
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

/* Calls the kernel's function and numbers what it queued, also if it reports an error: it may have queued a
   part. */
static dao_status_t launch(dao_engine_t *engine, dao_item_t *item, const dao_placement_t *placement,
                           uint64_t *out_sequence)
{
    dao_fence_t fence = kernel_fence(engine, item, placement);
    dao_status_t status = dao_timeline_before(&engine->timeline, DAO_STREAM_ROLE_COMPUTE, &fence);
    if (status != DAO_OK) {
        dao_engine_fail(engine, status, true);
        return status;
    }
    for (uint32_t i = 0; i < item->operand_count; i++) {
        const dao_managed_t *tensor = item->uses[item->operand_uses[i]].tensor;
        DAO_ASSERT(tensor->has_device);
        DAO_ASSERT(!tensor->is_unverified);
        item->addresses[i] = dao_device_arena_at(&engine->arena, tensor->device_offset_bytes);
    }
    dao_launch_t launch_info = {
        .name = item->name,
        .index = engine->now,
        .device_index = engine->config.device_index,
        .stream = engine->config.compute_stream,
        .addresses = item->addresses,
        .operand_count = item->operand_count,
        .workspace = placement->has_workspace
                         ? dao_device_arena_at(&engine->arena, placement->workspace_offset)
                         : NULL,
    };
    dao_step_learner_measure(engine, &fence);
    dao_annotate_begin(item->name);
    dao_status_t launch_status = item->launch(&launch_info, item->user);
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
    status = dao_timeline_after(&engine->timeline, DAO_STREAM_ROLE_COMPUTE, out_sequence);
    if (status != DAO_OK) {
        dao_engine_fail(engine, status, true);
        return status;
    }
    if (engine->plan == NULL) {
        dao_pace_queue(&engine->pace, DAO_STREAM_ROLE_COMPUTE, *out_sequence, &fence,
                       dao_prefetch_cost_ns(engine, item));
    }
    dao_profiler_after(&engine->profiler, DAO_STREAM_ROLE_COMPUTE);
    return launch_status != DAO_OK ? DAO_ERR_KERNEL_FAILED : DAO_OK;
}

/* The kernel is queued: residencies and fences say so. */
static void commit(dao_engine_t *engine, dao_item_t *item, const dao_placement_t *placement,
                   uint64_t sequence)
{
    dao_fence_t fence = {{0}};
    DAO_ASSERT(sequence == engine->timeline.streams[DAO_STREAM_ROLE_COMPUTE].issued);
    dao_fence_add(&fence, DAO_STREAM_ROLE_COMPUTE, sequence);
    for (uint32_t i = 0; i < item->use_count; i++) {
        const dao_use_t *use = &item->uses[i];
        if (use->kind == DAO_USE_READ) {
            DAO_ASSERT(!dao_residency_is_landing(use->tensor));
            dao_fence_join(&use->tensor->device_busy, &fence);
        } else if (use->is_partial && engine->plan == NULL) {
            dao_partial_written(engine, use->tensor, use->writes, DAO_STREAM_ROLE_COMPUTE, sequence);
        } else {
            dao_residency_written(engine, use->tensor, sequence);
        }
    }
    give_workspace(engine, placement, &fence);
    item->finish_sequence = sequence;
    engine->stats.kernel_count++;
}

/* Gives the operands and the workspace their places: by the plan if one is followed and goes on as
   planned, else by eviction. */
static dao_status_t place(dao_engine_t *engine, dao_item_t *item, dao_placement_t *placement)
{
    dao_status_t status = DAO_OK;
    *placement = (dao_placement_t){.has_workspace = false};
    if (engine->plan != NULL) {
        status = dao_plan_follow_prepare(engine, item, &engine->learner->log, placement);
        if (status != DAO_OK && engine->is_lost) {
            return status;
        }
        if (status != DAO_OK) {
            dao_plan_follow_leave(engine);
            *placement = (dao_placement_t){.has_workspace = false};
        }
    }
    status = engine->plan != NULL ? verify_all(engine, item) : prepare(engine, item, placement);
    if (status != DAO_OK) {
        dao_error_prefix("kernel \"%s\" (number %" PRIu64 "): ", item->name, engine->now);
    }
    return status;
}

/* Returns true if an operand has a part of the arena that nothing was written to. */
static bool has_landing(const dao_item_t *item)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        if (dao_residency_is_landing(item->uses[i].tensor)) {
            return true;
        }
    }
    return false;
}

static dao_status_t run_kernel(dao_engine_t *engine, dao_item_t *item)
{
    dao_status_t status = check_kernel(engine, item);
    if (status != DAO_OK) {
        return status;
    }
    dao_placement_t placement;
    uint64_t sequence = 0;
    status = place(engine, item, &placement);
    if (status == DAO_OK) {
        status = launch(engine, item, &placement, &sequence);
    }
    if (status == DAO_OK) {
        commit(engine, item, &placement, sequence);
    } else {
        dao_fence_t fence = {{0}};
        dao_fence_add(&fence, DAO_STREAM_ROLE_COMPUTE, sequence);
        undo_landing(engine, item, &placement, &fence);
    }
    set_pinned(item, false);
    DAO_ASSERT(!has_landing(item) || engine->is_lost);
    return status;
}

static void keep_until_finished(dao_engine_t *engine, dao_item_t *item)
{
    DAO_ASSERT(engine->last_retired == NULL ||
               engine->last_retired->finish_sequence <= item->finish_sequence);
    item->next = NULL;
    if (engine->last_retired == NULL) {
        engine->first_retired = item;
    } else {
        engine->last_retired->next = item;
    }
    engine->last_retired = item;
}

void dao_engine_retire(dao_engine_t *engine)
{
    while (engine->first_retired != NULL && engine->first_retired->finish_sequence <=
                                                engine->timeline.streams[DAO_STREAM_ROLE_COMPUTE].completed) {
        dao_item_t *item = engine->first_retired;
        engine->first_retired = item->next;
        if (engine->first_retired == NULL) {
            engine->last_retired = NULL;
        }
        destroy_item(engine, item);
    }
    DAO_ASSERT((engine->first_retired == NULL) == (engine->last_retired == NULL));
}

/* Looks which operations have finished, and releases what they used. */
static void look(dao_engine_t *engine)
{
    engine->unseen_count = 0;
    dao_status_t status = dao_timeline_poll(&engine->timeline);
    dao_engine_lose_unless_ok(engine, status);
    dao_throttle_look(&engine->throttle, &engine->timeline);
    dao_pace_look(&engine->pace, &engine->timeline);
    dao_device_arena_purge(&engine->arena, &engine->timeline);
    dao_host_tier_purge(&engine->host_tier, &engine->timeline);
    dao_file_copy_settle(engine);
    dao_engine_retire(engine);
    if (engine->learner != NULL) {
        dao_step_learner_look(engine->learner);
    }
}

/* Runs a kernel, or skips it after a failure. Returns true if it was launched. */
static bool try_kernel(dao_engine_t *engine, dao_item_t *item)
{
    if (engine->has_failed || engine->is_lost) {
        engine->stats.skipped_count++;
        return false;
    }
    if (engine->learner != NULL) {
        dao_step_learner_kernel(engine->learner, item);
    }
    dao_status_t status = run_kernel(engine, item);
    if (status != DAO_OK) {
        dao_engine_fail(engine, status, false);
    }
    return status == DAO_OK;
}

/* The kernel has had its turn: its uses are over, and others may follow. */
static void pass_kernel(dao_engine_t *engine, dao_item_t *item, bool is_launched)
{
    if (engine->learner != NULL && is_launched) {
        dao_step_learner_forecast(engine->learner, item);
    } else if (engine->learner != NULL) {
        dao_step_learner_break(engine->learner);
    }
    DAO_ASSERT(item->time == engine->now);
    engine->now++;
    DAO_ASSERT(engine->now <= engine->next_time);
    pass_uses(engine, item);
    if (engine->plan != NULL) {
        dao_plan_follow_launched(engine, item->finish_sequence);
    }
    if (!engine->config.on_demand) {
        dao_demand_pass(&engine->demand, engine->now - 1);
    }
    if (!engine->config.on_demand && engine->plan == NULL) {
        dao_prefetch_fetch(engine);
        dao_writeback_run(engine);
    }
}

/* Waits while the device has more kernels in flight than the program wants. */
static void keep_within_time(dao_engine_t *engine)
{
    const dao_timeline_stream_t *stream = &engine->timeline.streams[DAO_STREAM_ROLE_COMPUTE];
    if (engine->unseen_count > 0 &&
        dao_throttle_is_ahead(&engine->throttle, &engine->timeline, engine->config.in_flight_ns)) {
        look(engine); /* perhaps it is not */
    }
    while (!engine->is_lost &&
           dao_throttle_is_ahead(&engine->throttle, &engine->timeline, engine->config.in_flight_ns)) {
        dao_fence_t fence = {{0}};
        dao_fence_add(&fence, DAO_STREAM_ROLE_COMPUTE, stream->completed + 1);
        engine->timeline.throttle_count++;
        dao_status_t status = dao_timeline_wait(&engine->timeline, &fence);
        dao_engine_lose_unless_ok(engine, status);
        look(engine);
    }
}

static void run_kernel_item(dao_engine_t *engine, dao_item_t *item)
{
    if (engine->plan == NULL) {
        keep_within_time(engine); /* a plan's copies are queued as far ahead as it wants */
    }
    bool is_launched = try_kernel(engine, item);
    pass_kernel(engine, item, is_launched);
    if (engine->plan == NULL) {
        dao_file_copy_ahead(engine); /* a plan has its own copies out */
    }
    bool is_owned_elsewhere = item->drop == NULL && item->list == NULL; /* nothing waits for its end */
    if (is_launched && !is_owned_elsewhere) {
        keep_until_finished(engine, item);
    } else {
        destroy_item(engine, item);
    }
    if (dao_throttle_wants_look(&engine->throttle, ++engine->unseen_count)) {
        look(engine);
    }
    if (engine->config.check && !dao_engine_is_valid(engine)) {
        dao_engine_fail(engine,
                        dao_error(DAO_ERR_CORRUPT,
                                  "the executor's structures contradict each other after kernel %" PRIu64,
                                  engine->now - 1),
                        true);
    }
}

/* Requests. */

/* A write of a command list: no thread waits for it. */
static void run_list_write(dao_engine_t *engine, dao_item_t *item)
{
    dao_managed_t *tensor = item->uses[0].tensor;
    dao_status_t status =
        engine->has_failed || engine->is_lost
            ? DAO_OK /* skipped, as kernels are */
            : dao_requests_write(engine, tensor, (dao_slice_t){0, tensor->size_bytes}, item->source);
    if (status != DAO_OK) {
        dao_engine_fail(engine, status, false);
    }
    pass_uses(engine, item);
    destroy_item(engine, item);
}

static void run_request(dao_engine_t *engine, dao_item_t *item)
{
    dao_status_t status = dao_requests_run(engine, item);
    if (status != DAO_OK) {
        dao_error_save(&item->request->error, status);
    }
    pass_uses(engine, item);
}

static void run_sync(dao_engine_t *engine, dao_item_t *item)
{
    dao_status_t status = dao_timeline_wait_all(&engine->timeline);
    dao_engine_lose_unless_ok(engine, status);
    if (engine->plan != NULL && engine->table == NULL) {
        dao_plan_follow_leave(engine); /* no tensor is left that it could move: what it holds goes back */
    }
    look(engine);
    if (engine->has_failed || engine->is_lost) {
        item->request->error = engine->failure;
        engine->has_failed = false;
    }
    engine->is_file_refusing = false; /* perhaps the program has made room */
    DAO_ASSERT(!engine->has_failed);
    DAO_ASSERT_HEAVY(engine->is_lost || dao_engine_is_valid(engine));
}

dao_item_t *dao_engine_run(dao_engine_t *engine)
{
    dao_item_t *item = engine->first_item;
    DAO_ASSERT(item != NULL);
    engine->first_item = item->next;
    if (engine->first_item == NULL) {
        engine->last_item = NULL;
    }
    dao_prefetch_running(engine, item);
    DAO_ASSERT((engine->first_item == NULL) == (engine->last_item == NULL));
    DAO_ASSERT(engine->frontier != item);
    switch (item->kind) {
    case DAO_ITEM_KERNEL:
        run_kernel_item(engine, item);
        return NULL;
    case DAO_ITEM_DISCARD:
        dao_residency_discard(engine, item->uses[0].tensor);
        pass_uses(engine, item);
        destroy_item(engine, item);
        return NULL;
    case DAO_ITEM_STEP_BOUNDARY:
        if (engine->learner != NULL) {
            dao_step_learner_boundary(engine->learner);
        }
        destroy_item(engine, item);
        return NULL;
    case DAO_ITEM_WRITE:
        if (item->request == NULL) {
            run_list_write(engine, item);
            return NULL;
        }
        run_request(engine, item);
        return item;
    case DAO_ITEM_READ:
        run_request(engine, item);
        return item;
    case DAO_ITEM_SYNC:
        run_sync(engine, item);
        return item;
    case DAO_ITEM_RELEASE:
        break;
    }
    DAO_ASSERT(false); /* releases are done when they are taken in */
    return NULL;
}

void dao_engine_finish(dao_engine_t *engine)
{
    DAO_ASSERT(engine->first_item == NULL);
    dao_status_t status = dao_timeline_wait_all(&engine->timeline);
    dao_engine_lose_unless_ok(engine, status);
    if (engine->learner != NULL) {
        dao_step_learner_break(engine->learner);
    }
    while (engine->first_retired != NULL) {
        dao_item_t *item = engine->first_retired;
        engine->first_retired = item->next;
        destroy_item(engine, item);
    }
    while (engine->table != NULL) {
        dao_managed_t *tensor = engine->table;
        dao_residency_discard(engine, tensor);
        unlist_tensor(engine, tensor);
    }
    DAO_ASSERT(engine->plan == NULL);
    DAO_ASSERT(engine->backed_bytes == 0);
    dao_step_learner_destroy(engine->learner);
    dao_file_copy_close(engine);
    dao_host_tier_finish(&engine->host_tier);
    dao_profiler_finish(&engine->profiler);
    dao_timeline_finish(&engine->timeline);
    dao_device_arena_finish(&engine->arena);
    dao_demand_finish(&engine->demand);
    dao_host_free(engine->view_blocks);
}

void dao_engine_stats(const dao_engine_t *engine, dao_executor_stats_t *out_stats)
{
    *out_stats = engine->stats;
    out_stats->throttle_count = engine->timeline.throttle_count;
    out_stats->capacity_bytes = engine->config.arena_bytes;
    out_stats->device_used_bytes =
        engine->plan != NULL ? engine->plan->schedule->arena_bytes : dao_range_used(engine->arena.range);
    out_stats->peak_device_used_bytes = engine->arena.peak_used_bytes;
    out_stats->host_used_bytes = engine->host_tier.used_bytes;
    out_stats->peak_host_used_bytes = engine->host_tier.peak_used_bytes;
    out_stats->paged_plan_count = engine->learner != NULL ? dao_step_learner_paged_count(engine->learner) : 0;
    out_stats->mapped_page_count = atomic_load(&engine->pages.mapped);
    out_stats->page_call_count = atomic_load(&engine->pages.map_calls);
    out_stats->plan_count = engine->learner != NULL ? dao_step_learner_plan_count(engine->learner) : 0;
    if (engine->file_tier.is_there) {
        out_stats->file_used_bytes = dao_range_used(engine->file_tier.slots.range);
        out_stats->peak_file_used_bytes = engine->file_tier.slots.peak_used_bytes;
    }
}

bool dao_engine_is_valid(const dao_engine_t *engine)
{
    if (!dao_timeline_is_valid(&engine->timeline) || !dao_device_arena_is_valid(&engine->arena) ||
        !dao_file_copy_is_valid(engine) || !dao_victims_is_valid(engine)) {
        return false;
    }
    uint64_t device_bytes = 0;
    uint64_t host_bytes = 0;
    for (const dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        if (!tensor->is_listed || tensor->is_pinned || !dao_residency_is_valid(tensor) ||
            !dao_access_is_valid(tensor)) {
            return false;
        }
        if (tensor->has_device && engine->plan == NULL) {
            uint64_t part_bytes = 0;
            if (!dao_device_arena_has(&engine->arena, tensor->device_offset_bytes, tensor->size_bytes,
                                      (uint64_t)(uintptr_t)tensor, &part_bytes)) {
                return false;
            }
            device_bytes += part_bytes;
        }
        host_bytes += tensor->host_address != NULL ? tensor->size_bytes : 0;
        bool is_foreign = tensor->plan_role == NULL;
        if (is_foreign ? engine->plan != NULL && tensor->has_device : engine->plan == NULL) {
            return false; /* with a plan, tensors on the device have roles; without one none has */
        }
    }
    if (engine->plan != NULL) {
        host_bytes += dao_plan_follow_idle_bytes(engine->plan);
        if (!dao_plan_follow_is_valid(engine->plan)) {
            return false;
        }
    }
    for (size_t i = 0; i < engine->host_tier.pending_count; i++) {
        host_bytes += engine->host_tier.pending[i].size_bytes;
    }
    return device_bytes == dao_range_used(engine->arena.range) && host_bytes == engine->host_tier.used_bytes;
}
