/* Running items.

       enqueue                    run                              retire
     ----------> [ taken in ] ------------> launched or skipped ------------> drop called
                 uses are in     operands resident, fences          compute lane
                 access lists    queued, kernel launched            has passed it

   A kernel is prepared (every operand gets a part of the arena and its bytes), launched, and committed (residences and
   fences say what holds once it has run). Until the launch every step can be undone or is harmless: a fetched operand
   stays fetched, a victim stays evicted, a part that nothing was written to is given back.

   Invariants between two items: no tensor is pinned or landing; the arena's used bytes are the parts of tensors that are
   DEVICE or BOTH; the host tier's used bytes are the slots of tensors that are BOTH or HOST, and its pending ones; a
   tensor is in the table while it has a handle and was used, or has bytes, or has pending uses. */
#include "runtime/executor/core.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"
#include "base/math.h"
#include "runtime/executor/access.h"
#include "runtime/executor/managed.h"
#include "runtime/executor/residence.h"
#include "runtime/executor/room.h"

#include <inttypes.h>
#include <string.h>

dao_status_t dao_core_init(dao_core_t *core, const dao_core_config_t *config)
{
    memset(core, 0, sizeof(*core));
    core->config = *config;
    dao_status_t status = dao_arena_init(&core->arena, config->arena_address, config->arena_bytes);
    if (status != DAO_OK) {
        return status;
    }
    dao_timeline_init(&core->timeline, config->ops, config->device, config->streams);
    dao_host_tier_init(&core->host_tier, config->host, config->host_limit_bytes);
    return DAO_OK;
}

void dao_core_fail(dao_core_t *core, dao_status_t status, bool lost)
{
    lost = lost || status == DAO_ERR_DEVICE_LOST;
    if (core->is_lost || (core->has_failed && !lost)) {
        return;
    }
    if (core->has_failed) { /* the first failure was perhaps the loss, seen from elsewhere */
        (void)dao_error_vendor(status, dao_last_vendor_code(), "%.240s; before it: %.240s",
                               dao_last_message(), core->failure.message);
    }
    core->has_failed = true;
    core->is_lost = lost;
    dao_error_save(&core->failure, status);
}

/* Tensors enter the table with their first use and leave it when nobody needs them any more. */
static void list_tensor(dao_core_t *core, dao_managed_t *tensor)
{
    if (tensor->is_listed) {
        return;
    }
    dao_managed_reference(tensor);
    tensor->is_listed = true;
    tensor->table_previous = NULL;
    tensor->table_next = core->table;
    if (core->table != NULL) {
        core->table->table_previous = tensor;
    }
    core->table = tensor;
}

static void unlist_tensor(dao_core_t *core, dao_managed_t *tensor)
{
    DAO_ASSERT(tensor->is_listed && tensor->residence == DAO_RESIDENCE_EMPTY);
    if (tensor->table_previous != NULL) {
        tensor->table_previous->table_next = tensor->table_next;
    } else {
        core->table = tensor->table_next;
    }
    if (tensor->table_next != NULL) {
        tensor->table_next->table_previous = tensor->table_previous;
    }
    tensor->is_listed = false;
    dao_managed_unreference(tensor);
}

/* After a use has passed or a handle has gone: a content that nobody can ask for is freed at once. */
static void settle_tensor(dao_core_t *core, dao_managed_t *tensor)
{
    if (!tensor->is_listed) {
        return;
    }
    if (dao_access_is_dead(tensor)) {
        dao_residence_discard(core, tensor);
        if (tensor->first_use == NULL) {
            unlist_tensor(core, tensor);
        }
    }
}

void dao_core_enqueue(dao_core_t *core, dao_item_t *item)
{
    if (item->kind == DAO_ITEM_RELEASE) {
        dao_managed_t *tensor = item->released;
        tensor->is_released = true;
        settle_tensor(core, tensor);
        dao_managed_unreference(tensor);
        return;
    }
    for (uint32_t i = 0; i < item->use_count; i++) {
        list_tensor(core, item->uses[i].tensor);
        dao_access_append(&item->uses[i], core->next_time);
    }
    if (item->kind == DAO_ITEM_DISCARD) {
        settle_tensor(core, item->uses[0].tensor); /* if nothing is to happen before, it can go now */
    }
    if (item->kind == DAO_ITEM_KERNEL) {
        core->next_time++;
    }
    item->next = NULL;
    if (core->last_item == NULL) {
        core->first_item = item;
    } else {
        core->last_item->next = item;
    }
    core->last_item = item;
}

const dao_item_t *dao_core_peek(const dao_core_t *core)
{
    return core->first_item;
}

static void pass_uses(dao_core_t *core, dao_item_t *item)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        dao_access_pop(&item->uses[i]);
        settle_tensor(core, item->uses[i].tensor);
    }
}

/* Kernels. */

static uint64_t part_bytes(uint64_t size_bytes)
{
    return dao_round_up(size_bytes, DAO_RANGE_GRANULE);
}

/* What can be refused before anything is moved. */
static dao_status_t check_kernel(const dao_core_t *core, const dao_item_t *item)
{
    uint64_t need = part_bytes(item->workspace_bytes);
    for (uint32_t i = 0; i < item->use_count; i++) {
        const dao_managed_t *tensor = item->uses[i].tensor;
        need += part_bytes(tensor->size_bytes);
        if (item->uses[i].kind != DAO_USE_WRITE && tensor->residence == DAO_RESIDENCE_EMPTY &&
            !tensor->zero_first_touch) {
            return dao_error(DAO_ERR_NEVER_WRITTEN,
                             "kernel \"%s\" (number %" PRIu64
                             ") reads tensor \"%s\", but nothing was written to it",
                             item->name, core->now, tensor->name);
        }
    }
    if (need > core->config.arena_bytes) {
        return dao_error(
            DAO_ERR_KERNEL_TOO_LARGE,
            "kernel \"%s\" (number %" PRIu64 ") needs %" PRIu64 " bytes at once for %u tensors and %zu bytes "
            "of workspace; the device arena has %" PRIu64 ": raise capacity_bytes or split the kernel",
            item->name, core->now, need, item->use_count, item->workspace_bytes, core->config.arena_bytes);
    }
    return DAO_OK;
}

static void set_pinned(dao_item_t *item, bool is_pinned)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        item->uses[i].tensor->is_pinned = is_pinned;
    }
}

/* Gives back what was taken for a kernel that will not run now, behind what its function may have queued. A part that
   this may have written is given up if the host has the tensor's bytes. */
static void undo_landing(dao_core_t *core, dao_item_t *item, bool has_workspace, uint64_t workspace_offset,
                         const dao_fence_t *fence)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        dao_managed_t *tensor = item->uses[i].tensor;
        if (!tensor->has_device) {
            continue;
        }
        bool is_spoilt = item->uses[i].kind != DAO_USE_READ && fence->sequence[DAO_STREAM_ROLE_COMPUTE] != 0;
        dao_fence_join(&tensor->device_busy, fence);
        if (dao_residence_is_landing(tensor)) {
            dao_residence_unland(core, tensor);
        } else if (is_spoilt && tensor->residence == DAO_RESIDENCE_BOTH) {
            dao_residence_drop_device(core, tensor);
        }
    }
    if (has_workspace) {
        dao_status_t status = dao_arena_give(&core->arena, &core->timeline, workspace_offset, fence);
        if (status != DAO_OK) {
            dao_core_fail(core, status, true);
        }
    }
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
static dao_status_t bring(dao_core_t *core, const dao_use_t *use)
{
    dao_managed_t *tensor = use->tensor;
    uint64_t offset = 0;
    dao_status_t status = dao_room_take(core, tensor->size_bytes, (uint64_t)(uintptr_t)tensor, &offset);
    if (status != DAO_OK) {
        return status;
    }
    dao_residence_land(tensor, offset);
    if (use->kind == DAO_USE_WRITE) {
        return DAO_OK;
    }
    return tensor->residence == DAO_RESIDENCE_HOST ? dao_residence_fetch(core, tensor)
                                                   : dao_residence_zero(core, tensor);
}

/* Gives every operand and the workspace a place, the largest first. */
static dao_status_t bring_all(dao_core_t *core, dao_item_t *item, bool *has_workspace,
                              uint64_t *workspace_offset)
{
    for (;;) {
        dao_use_t *use = largest_without_device(item);
        bool wants_workspace = item->workspace_bytes > 0 && !*has_workspace;
        if (use == NULL && !wants_workspace) {
            return DAO_OK;
        }
        dao_status_t status = DAO_OK;
        if (wants_workspace && (use == NULL || item->workspace_bytes >= use->tensor->size_bytes)) {
            status = dao_room_take(core, item->workspace_bytes, DAO_OWNER_WORKSPACE, workspace_offset);
            *has_workspace = status == DAO_OK;
        } else {
            status = bring(core, use);
        }
        if (status != DAO_OK) {
            return status;
        }
    }
}

static dao_status_t prepare(dao_core_t *core, dao_item_t *item, bool *has_workspace,
                            uint64_t *workspace_offset)
{
    static const dao_fence_t no_fence;
    set_pinned(item, true);
    dao_status_t status = bring_all(core, item, has_workspace, workspace_offset);
    if (status == DAO_ERR_LIMIT) {
        /* The kernel fits, but operands that are resident cut the arena into holes that are too small. They are not in
           use by a kernel that the host has yet to queue, so all can leave, and come back side by side. */
        undo_landing(core, item, *has_workspace, *workspace_offset, &no_fence);
        *has_workspace = false;
        set_pinned(item, false);
        core->stats.compaction_count++;
        status = dao_room_clear(core);
        set_pinned(item, true);
        if (status == DAO_OK) {
            status = bring_all(core, item, has_workspace, workspace_offset);
        }
        DAO_ASSERT(status != DAO_ERR_LIMIT); /* check_kernel() has seen that it fits an empty arena */
    }
    return status;
}

/* All that the kernel has to wait for on the compute lane. */
static dao_fence_t kernel_fence(const dao_core_t *core, const dao_item_t *item, bool has_workspace,
                                uint64_t workspace_offset)
{
    dao_fence_t fence = {{0}};
    for (uint32_t i = 0; i < item->use_count; i++) {
        const dao_managed_t *tensor = item->uses[i].tensor;
        dao_fence_join(&fence, &tensor->device_written);
        if (item->uses[i].kind != DAO_USE_READ) {
            dao_fence_join(&fence, &tensor->device_busy);
            dao_arena_fence(&core->arena, tensor->device_offset_bytes, tensor->size_bytes, &fence);
        }
    }
    if (has_workspace) {
        dao_arena_fence(&core->arena, workspace_offset, item->workspace_bytes, &fence);
    }
    return fence;
}

/* Calls the kernel's function and numbers what it queued, also if it reports an error: it may have queued a part. */
static dao_status_t launch(dao_core_t *core, dao_item_t *item, bool has_workspace, uint64_t workspace_offset,
                           uint64_t *out_sequence)
{
    dao_fence_t fence = kernel_fence(core, item, has_workspace, workspace_offset);
    dao_status_t status = dao_timeline_before(&core->timeline, DAO_STREAM_ROLE_COMPUTE, &fence);
    if (status != DAO_OK) {
        dao_core_fail(core, status, true);
        return status;
    }
    for (uint32_t i = 0; i < item->operand_count; i++) {
        const dao_managed_t *tensor = item->uses[item->operand_uses[i]].tensor;
        item->addresses[i] = core->arena.address + tensor->device_offset_bytes;
    }
    dao_launch_t launch_info = {
        .name = item->name,
        .index = core->now,
        .device_index = core->config.device_index,
        .stream = core->config.compute_stream,
        .addresses = item->addresses,
        .operand_count = item->operand_count,
        .workspace = has_workspace ? core->arena.address + workspace_offset : NULL,
    };
    dao_status_t launch_status = item->launch(&launch_info, item->user);
    if (launch_status != DAO_OK) {
        (void)dao_error(DAO_ERR_KERNEL_FAILED,
                        "kernel \"%s\" (number %" PRIu64 "): its launch function answered %s: %.300s",
                        item->name, core->now, dao_status_name(launch_status), dao_last_message());
        dao_core_fail(core, DAO_ERR_KERNEL_FAILED, false);
    }
    status = dao_timeline_after(&core->timeline, DAO_STREAM_ROLE_COMPUTE, out_sequence);
    if (status != DAO_OK) {
        dao_core_fail(core, status, true);
        return status;
    }
    return launch_status != DAO_OK ? DAO_ERR_KERNEL_FAILED : DAO_OK;
}

/* The kernel is queued: residences and fences say so. */
static void commit(dao_core_t *core, dao_item_t *item, bool has_workspace, uint64_t workspace_offset,
                   uint64_t sequence)
{
    dao_fence_t fence = {{0}};
    dao_fence_add(&fence, DAO_STREAM_ROLE_COMPUTE, sequence);
    for (uint32_t i = 0; i < item->use_count; i++) {
        if (item->uses[i].kind == DAO_USE_READ) {
            dao_fence_join(&item->uses[i].tensor->device_busy, &fence);
        } else {
            dao_residence_written(core, item->uses[i].tensor, sequence);
        }
    }
    if (has_workspace) {
        dao_status_t status = dao_arena_give(&core->arena, &core->timeline, workspace_offset, &fence);
        if (status != DAO_OK) {
            dao_core_fail(core, status, true);
        }
    }
    item->finish_sequence = sequence;
    core->stats.kernel_count++;
}

static dao_status_t run_kernel(dao_core_t *core, dao_item_t *item)
{
    dao_status_t status = check_kernel(core, item);
    if (status != DAO_OK) {
        return status;
    }
    bool has_workspace = false;
    uint64_t workspace_offset = 0;
    uint64_t sequence = 0;
    status = prepare(core, item, &has_workspace, &workspace_offset);
    if (status != DAO_OK) {
        dao_error_prefix("kernel \"%s\" (number %" PRIu64 "): ", item->name, core->now);
    } else {
        status = launch(core, item, has_workspace, workspace_offset, &sequence);
    }
    if (status == DAO_OK) {
        commit(core, item, has_workspace, workspace_offset, sequence);
    } else {
        dao_fence_t fence = {{0}};
        dao_fence_add(&fence, DAO_STREAM_ROLE_COMPUTE, sequence);
        undo_landing(core, item, has_workspace, workspace_offset, &fence);
    }
    set_pinned(item, false);
    return status;
}

static void keep_until_finished(dao_core_t *core, dao_item_t *item)
{
    item->next = NULL;
    if (core->last_retired == NULL) {
        core->first_retired = item;
    } else {
        core->last_retired->next = item;
    }
    core->last_retired = item;
}

void dao_core_retire(dao_core_t *core)
{
    while (core->first_retired != NULL &&
           core->first_retired->finish_sequence <= core->timeline.lanes[DAO_STREAM_ROLE_COMPUTE].completed) {
        dao_item_t *item = core->first_retired;
        core->first_retired = item->next;
        if (core->first_retired == NULL) {
            core->last_retired = NULL;
        }
        dao_item_destroy(item);
    }
}

/* Looks what has finished, and lets go of it. */
static void look(dao_core_t *core)
{
    dao_status_t status = dao_timeline_poll(&core->timeline);
    if (status != DAO_OK) {
        dao_core_fail(core, status, true);
    }
    dao_arena_purge(&core->arena, &core->timeline);
    dao_host_tier_purge(&core->host_tier, &core->timeline);
    dao_core_retire(core);
}

static void run_kernel_item(dao_core_t *core, dao_item_t *item)
{
    bool is_launched = false;
    if (core->has_failed || core->is_lost) {
        core->stats.skipped_count++;
    } else {
        dao_status_t status = run_kernel(core, item);
        is_launched = status == DAO_OK;
        if (!is_launched) {
            dao_core_fail(core, status, false);
        }
    }
    core->now++;
    pass_uses(core, item);
    bool is_owned_elsewhere =
        item->drop == NULL && item->step == NULL; /* nobody waits to hear that it has finished */
    if (is_launched && !is_owned_elsewhere) {
        keep_until_finished(core, item);
    } else {
        dao_item_destroy(item);
    }
    look(core);
    if (core->config.check && !dao_core_is_valid(core)) {
        dao_core_fail(core,
                      dao_error(DAO_ERR_CORRUPT,
                                "the executor's structures contradict each other after kernel %" PRIu64,
                                core->now - 1),
                      true);
    }
}

/* Requests. */

static dao_status_t busy_error(const dao_core_t *core)
{
    return dao_error(DAO_ERR_BUSY,
                     "an earlier failure has not been reported yet; call dao_executor_sync(): %.300s",
                     core->failure.message);
}

/* Once the program knows that the device is lost: what the host has in full may still be read. */
static dao_status_t run_request_without_device(dao_core_t *core, const dao_item_t *item)
{
    const dao_managed_t *tensor = item->uses[0].tensor;
    if (item->kind == DAO_ITEM_READ && tensor->host_address != NULL &&
        dao_timeline_wait(&core->timeline, &tensor->host_written) == DAO_OK) {
        memcpy(item->request->destination, tensor->host_address, tensor->size_bytes);
        return DAO_OK;
    }
    return dao_error_vendor(core->failure.status, core->failure.vendor_code,
                            "tensor \"%s\" cannot be %s, the executor has given up its device: %.300s",
                            tensor->name, item->kind == DAO_ITEM_READ ? "read" : "written",
                            core->failure.message);
}

/* With the host full, a tensor that is nowhere gets a part of the device for the program's bytes. */
static dao_status_t write_tensor(dao_core_t *core, dao_managed_t *tensor, const void *source)
{
    dao_status_t status = dao_residence_write(core, tensor, source);
    if (status != DAO_ERR_HOST_FULL || tensor->has_device ||
        part_bytes(tensor->size_bytes) > core->config.arena_bytes) {
        return status;
    }
    uint64_t offset = 0;
    status = dao_room_take(core, tensor->size_bytes, (uint64_t)(uintptr_t)tensor, &offset);
    if (status != DAO_OK) {
        return status;
    }
    dao_residence_land(tensor, offset);
    status = dao_residence_write(core, tensor, source);
    if (dao_residence_is_landing(tensor)) {
        dao_residence_unland(core, tensor);
    }
    return status;
}

static void run_request(dao_core_t *core, dao_item_t *item)
{
    dao_managed_t *tensor = item->uses[0].tensor;
    dao_status_t status = DAO_OK;
    if (core->has_failed) {
        status = busy_error(core);
    } else if (core->is_lost) {
        status = run_request_without_device(core, item);
    } else if (item->kind == DAO_ITEM_WRITE) {
        status = write_tensor(core, tensor, item->request->source);
    } else {
        status = dao_residence_read(core, tensor, item->request->destination);
    }
    if (status != DAO_OK) {
        dao_error_save(&item->request->error, status);
    }
    pass_uses(core, item);
}

static void run_sync(dao_core_t *core, dao_item_t *item)
{
    dao_status_t status = dao_timeline_wait_all(&core->timeline);
    if (status != DAO_OK) {
        dao_core_fail(core, status, true);
    }
    look(core);
    if (core->has_failed || core->is_lost) {
        item->request->error = core->failure;
        core->has_failed = false;
    }
}

dao_item_t *dao_core_run(dao_core_t *core)
{
    dao_item_t *item = core->first_item;
    DAO_ASSERT(item != NULL);
    core->first_item = item->next;
    if (core->first_item == NULL) {
        core->last_item = NULL;
    }
    switch (item->kind) {
    case DAO_ITEM_KERNEL:
        run_kernel_item(core, item);
        return NULL;
    case DAO_ITEM_DISCARD:
        dao_residence_discard(core, item->uses[0].tensor);
        pass_uses(core, item);
        dao_item_destroy(item);
        return NULL;
    case DAO_ITEM_WRITE:
    case DAO_ITEM_READ:
        run_request(core, item);
        return item;
    case DAO_ITEM_SYNC:
        run_sync(core, item);
        return item;
    case DAO_ITEM_RELEASE:
        break;
    }
    DAO_ASSERT(false); /* releases are done when they are taken in */
    return NULL;
}

void dao_core_finish(dao_core_t *core)
{
    DAO_ASSERT(core->first_item == NULL);
    dao_status_t status = dao_timeline_wait_all(&core->timeline);
    if (status != DAO_OK) {
        dao_core_fail(core, status, true);
    }
    while (core->first_retired != NULL) {
        dao_item_t *item = core->first_retired;
        core->first_retired = item->next;
        dao_item_destroy(item);
    }
    while (core->table != NULL) {
        dao_managed_t *tensor = core->table;
        dao_residence_discard(core, tensor);
        unlist_tensor(core, tensor);
    }
    dao_host_tier_finish(&core->host_tier);
    dao_timeline_finish(&core->timeline);
    dao_arena_finish(&core->arena);
    dao_host_free(core->view_blocks);
}

void dao_core_stats(const dao_core_t *core, dao_executor_stats_t *out_stats)
{
    *out_stats = core->stats;
    out_stats->throttle_count = core->timeline.throttle_count;
    out_stats->capacity_bytes = core->config.arena_bytes;
    out_stats->device_used_bytes = dao_range_used(core->arena.range);
    out_stats->peak_device_used_bytes = core->arena.peak_used_bytes;
    out_stats->host_used_bytes = core->host_tier.used_bytes;
    out_stats->peak_host_used_bytes = core->host_tier.peak_used_bytes;
}

bool dao_core_is_valid(const dao_core_t *core)
{
    if (!dao_timeline_is_valid(&core->timeline) || !dao_arena_is_valid(&core->arena)) {
        return false;
    }
    uint64_t device_bytes = 0;
    uint64_t host_bytes = 0;
    for (const dao_managed_t *tensor = core->table; tensor != NULL; tensor = tensor->table_next) {
        if (!tensor->is_listed || tensor->is_pinned || !dao_residence_is_valid(tensor) ||
            !dao_access_is_valid(tensor)) {
            return false;
        }
        if (tensor->has_device) {
            dao_range_block_t block;
            if (dao_range_query(core->arena.range, tensor->device_offset_bytes, &block) != DAO_OK ||
                block.is_free || block.user != (uint64_t)(uintptr_t)tensor ||
                block.offset_bytes != tensor->device_offset_bytes) {
                return false;
            }
            device_bytes += block.size_bytes;
        }
        host_bytes += tensor->host_address != NULL ? tensor->size_bytes : 0;
    }
    for (size_t i = 0; i < core->host_tier.pending_count; i++) {
        host_bytes += core->host_tier.pending[i].size_bytes;
    }
    return device_bytes == dao_range_used(core->arena.range) && host_bytes == core->host_tier.used_bytes;
}
