/* SPDX-License-Identifier: Apache-2.0 */
/* Replaying a step: its operations are queued in the order of issue_order.c. On its stream operation n of
   a stream (from 1) has the number base + n. A fence of the plan names operations of this step and of the
   step before; either way they have numbers, and those of before the first step are over. */
#include "tools/run/plan_replay.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>

dao_status_t dao_plan_replay_init(dao_plan_replay_t *replay, const dao_plan_replay_config_t *config)
{
    uint32_t most_uses = 1;
    *replay = (dao_plan_replay_t){.config = *config};
    for (uint32_t i = 0; i < config->problem->kernel_count; i++) {
        uint32_t use_count = config->problem->kernels[i].use_count;
        most_uses = use_count > most_uses ? use_count : most_uses;
    }
    DAO_ASSERT(config->file != NULL || !dao_plan_replay_file_is_needed(config->schedule));
    dao_status_t status = dao_issue_order_init(&replay->order, config->schedule, config->problem, NULL);
    if (status != DAO_OK) {
        return status;
    }
    replay->addresses = dao_host_calloc(most_uses, sizeof(*replay->addresses));
    if (replay->addresses == NULL) {
        dao_issue_order_finish(&replay->order);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %" PRIu32 " operands", most_uses);
    }
    return DAO_OK;
}

void dao_plan_replay_finish(dao_plan_replay_t *replay)
{
    dao_issue_order_finish(&replay->order);
    dao_host_free(replay->addresses);
    replay->addresses = NULL;
}

static void *device_at(const dao_plan_replay_t *replay, uint64_t offset_bytes)
{
    return dao_plan_replay_at(replay->config.schedule, replay->config.device_address,
                              replay->config.paged_address, offset_bytes);
}

static void *host_at(const dao_plan_replay_t *replay, uint64_t offset_bytes)
{
    return (char *)replay->config.host_address + offset_bytes;
}

/* ---- before the first step ---- */

static bool overlap(const dao_swap_copy_t *a, const dao_swap_copy_t *b)
{
    return a->tensor == b->tensor && a->offset_bytes < b->offset_bytes + b->size_bytes &&
           b->offset_bytes < a->offset_bytes + a->size_bytes;
}

/* Returns true if a copy in, the order's `at`-th operation, brings bytes that this step has put into the
   slot. The order has every copy out before the copies in that bring its bytes back, whatever their fences
   name. */
static bool is_of_this_step(const dao_plan_replay_t *replay, const dao_swap_copy_t *in, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++) {
        const dao_swap_copy_t *copy =
            dao_issue_order_copy(replay->config.schedule, replay->order.operations[i]);
        if (copy != NULL && !copy->is_in && overlap(copy, in)) {
            return true;
        }
    }
    return false;
}

static dao_status_t place_slots(dao_plan_replay_t *replay, dao_plan_replay_read_t read, void *staging)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < replay->order.count; i++) {
        const dao_swap_copy_t *copy =
            dao_issue_order_copy(replay->config.schedule, replay->order.operations[i]);
        if (copy == NULL || !copy->is_in || is_of_this_step(replay, copy, i)) {
            continue;
        }
        void *bytes = copy->is_file ? staging : host_at(replay, copy->slot_bytes);
        read(copy->tensor, copy->offset_bytes, copy->size_bytes, bytes, replay->config.user);
        if (copy->is_file) {
            status = dao_plan_replay_file_put(replay->config.file, copy->slot_bytes, bytes, copy->size_bytes);
        }
    }
    return status;
}

static dao_status_t copy_now(dao_plan_replay_t *replay, void *dst, const void *src, uint64_t size_bytes)
{
    static const dao_fence_t no_fence;
    dao_timeline_t *timeline = replay->config.timeline;
    dao_fence_t fence = no_fence;
    uint64_t number = 0;
    dao_status_t status = dao_timeline_before(timeline, DAO_STREAM_ROLE_H2D, &no_fence);
    if (status == DAO_OK) {
        status = timeline->ops->copy(timeline->streams[DAO_STREAM_ROLE_H2D].backend, DAO_COPY_KIND_H2D, dst,
                                     src, size_bytes);
    }
    if (status == DAO_OK) {
        status = dao_timeline_after(timeline, DAO_STREAM_ROLE_H2D, &number);
        dao_fence_add(&fence, DAO_STREAM_ROLE_H2D, number);
    }
    return status == DAO_OK ? dao_timeline_wait(timeline, &fence) : status;
}

dao_status_t dao_plan_replay_place(dao_plan_replay_t *replay, dao_plan_replay_read_t read, void *staging)
{
    const dao_swap_schedule_t *schedule = replay->config.schedule;
    dao_status_t status = place_slots(replay, read, staging);
    for (uint32_t i = 0; status == DAO_OK && i < schedule->resident_count; i++) {
        const dao_swap_resident_t *resident = &schedule->residents[i];
        read(resident->tensor, resident->offset_bytes, resident->size_bytes, staging, replay->config.user);
        status = copy_now(replay, device_at(replay, resident->address_bytes), staging, resident->size_bytes);
    }
    for (int i = 0; i < DAO_ISSUE_ORDER_LANE_COUNT; i++) {
        dao_stream_role_t role = dao_issue_order_roles[i];
        replay->first[role] = replay->base[role] = replay->config.timeline->streams[role].issued;
    }
    return status;
}

/* ---- a step ---- */

/* What lies before the first step is over. */
static uint64_t number_of(const void *user, uint32_t lane, int64_t done)
{
    const dao_plan_replay_t *replay = user;
    dao_stream_role_t role = dao_issue_order_roles[lane];
    int64_t number = (int64_t)replay->base[role] + done;
    return number > (int64_t)replay->first[role] ? (uint64_t)number : 0;
}

static dao_status_t queue_kernel(dao_plan_replay_t *replay, uint32_t index)
{
    const dao_plan_replay_config_t *config = &replay->config;
    const dao_swap_kernel_t *kernel = &config->problem->kernels[index];
    for (uint32_t i = 0; i < kernel->use_count; i++) {
        replay->addresses[i] = device_at(replay, config->schedule->use_address[replay->next_use++]);
    }
    void *workspace =
        kernel->workspace_bytes > 0 ? device_at(replay, config->schedule->workspace_address[index]) : NULL;
    return config->launch(index, replay->addresses, workspace, config->user);
}

static dao_status_t tell_copy(const dao_plan_replay_t *replay, dao_stream_role_t role,
                              const dao_swap_copy_t *copy, bool is_behind)
{
    const dao_plan_replay_config_t *config = &replay->config;
    return config->on_copy != NULL ? config->on_copy(role, copy, is_behind, config->user) : DAO_OK;
}

static dao_status_t queue_host_copy(const dao_plan_replay_t *replay, dao_backend_stream_t *stream,
                                    const dao_swap_copy_t *copy)
{
    void *device = device_at(replay, copy->address_bytes);
    void *host = host_at(replay, copy->slot_bytes);
    return replay->config.timeline->ops->copy(stream, copy->is_in ? DAO_COPY_KIND_H2D : DAO_COPY_KIND_D2H,
                                              copy->is_in ? device : host, copy->is_in ? host : device,
                                              copy->size_bytes);
}

static dao_status_t queue_copy(dao_plan_replay_t *replay, dao_issue_operation_t operation,
                               const dao_swap_copy_t *copy)
{
    dao_stream_role_t role = dao_issue_order_roles[operation.stream];
    dao_backend_stream_t *stream = replay->config.timeline->streams[role].backend;
    dao_status_t status = tell_copy(replay, role, copy, false);
    if (status == DAO_OK) {
        status = copy->is_file ? dao_plan_replay_file_copy(replay->config.file,
                                                           dao_issue_order_streams[operation.stream],
                                                           operation.index, stream)
                               : queue_host_copy(replay, stream, copy);
    }
    return status == DAO_OK ? tell_copy(replay, role, copy, true) : status;
}

static dao_status_t queue_thing(dao_plan_replay_t *replay, dao_issue_operation_t operation)
{
    const dao_swap_schedule_t *schedule = replay->config.schedule;
    const dao_swap_copy_t *copy = dao_issue_order_copy(schedule, operation);
    dao_issue_place_t place = dao_issue_order_place(&replay->order, operation);
    dao_stream_role_t role = dao_issue_order_roles[place.lane];
    dao_fence_t fence =
        dao_issue_order_fence_in_numbers(&replay->order, schedule, operation, number_of, replay);
    uint64_t number = 0;
    dao_status_t status = dao_timeline_before(replay->config.timeline, role, &fence);
    if (status == DAO_OK) {
        status = copy == NULL ? queue_kernel(replay, operation.index) : queue_copy(replay, operation, copy);
    }
    if (status == DAO_OK) {
        status = dao_timeline_after(replay->config.timeline, role, &number);
    }
    DAO_ASSERT(status != DAO_OK || number == replay->base[role] + place.index + 1);
    return status;
}

dao_status_t dao_plan_replay_step(dao_plan_replay_t *replay)
{
    dao_status_t status = DAO_OK;
    replay->next_use = 0;
    for (uint32_t i = 0; status == DAO_OK && i < replay->order.count; i++) {
        status = queue_thing(replay, replay->order.operations[i]);
    }
    for (int i = 0; status == DAO_OK && i < DAO_ISSUE_ORDER_LANE_COUNT; i++) {
        replay->base[dao_issue_order_roles[i]] += replay->order.lane_counts[i];
    }
    return status;
}
