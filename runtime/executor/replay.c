/* Lanes of a plan as lanes of the timeline:

       plan       COMPUTE     HOST_IN     HOST_OUT           thing n of this step (from 1) has
       timeline   COMPUTE     H2D         D2H                number base + n

   With half duplex both directions are on HOST_IN. A fence of the plan names things of this step and of the step before;
   either way they have numbers, and those of before the first step are over. A thing is queued once all that its fence
   names is queued, so that no event is waited for before it is recorded. */
#include "runtime/executor/replay.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"

#include <inttypes.h>

/* Lanes of a plan that go through the host's link, and their streams. */
static const struct {
    dao_swap_lane_t lane;
    dao_stream_role_t role;
} lanes[] = {
    {DAO_SWAP_LANE_COMPUTE, DAO_STREAM_ROLE_COMPUTE},
    {DAO_SWAP_LANE_HOST_IN, DAO_STREAM_ROLE_H2D},
    {DAO_SWAP_LANE_HOST_OUT, DAO_STREAM_ROLE_D2H},
};

enum { LANE_COUNT = sizeof(lanes) / sizeof(lanes[0]) };

dao_status_t dao_replay_init(dao_replay_t *replay, const dao_replay_config_t *config)
{
    uint32_t most_uses = 1;
    *replay = (dao_replay_t){.config = *config};
    if (config->schedule->copy_count[DAO_SWAP_LANE_FILE_IN] > 0 ||
        config->schedule->copy_count[DAO_SWAP_LANE_FILE_OUT] > 0) {
        return dao_error(DAO_ERR_UNSUPPORTED, "a plan with a file tier cannot be replayed");
    }
    for (uint32_t i = 0; i < config->problem->kernel_count; i++) {
        uint32_t use_count = config->problem->kernels[i].use_count;
        most_uses = use_count > most_uses ? use_count : most_uses;
    }
    replay->addresses = dao_host_calloc(most_uses, sizeof(*replay->addresses));
    if (replay->addresses == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %" PRIu32 " operands", most_uses);
    }
    for (int i = 0; i < LANE_COUNT; i++) {
        replay->first[lanes[i].role] = config->timeline->lanes[lanes[i].role].issued;
        replay->base[lanes[i].role] = replay->first[lanes[i].role];
    }
    return DAO_OK;
}

void dao_replay_finish(dao_replay_t *replay)
{
    dao_host_free(replay->addresses);
    replay->addresses = NULL;
}

static void *device_at(const dao_replay_t *replay, uint64_t offset_bytes)
{
    return (char *)replay->config.device_address + offset_bytes;
}

static void *host_at(const dao_replay_t *replay, uint64_t offset_bytes)
{
    return (char *)replay->config.host_address + offset_bytes;
}

/* ---- before the first step ---- */

/* Tells whether a copy in brings bytes that this step's copy out has put into the slot. */
static bool is_of_this_step(const dao_replay_t *replay, const dao_swap_copy_t *in, uint32_t index)
{
    const dao_swap_schedule_t *schedule = replay->config.schedule;
    for (int lane = DAO_SWAP_LANE_HOST_IN; lane <= DAO_SWAP_LANE_HOST_OUT; lane++) {
        int64_t before = lane == DAO_SWAP_LANE_HOST_IN ? (int64_t)index : in->after.done[lane];
        for (int64_t i = 0; i < before; i++) {
            const dao_swap_copy_t *out = &schedule->copies[lane][i];
            if (!out->is_in && out->tensor == in->tensor &&
                out->offset_bytes < in->offset_bytes + in->size_bytes &&
                in->offset_bytes < out->offset_bytes + out->size_bytes) {
                return true;
            }
        }
    }
    return false;
}

static void place_slots(dao_replay_t *replay, dao_replay_read_t read)
{
    const dao_swap_schedule_t *schedule = replay->config.schedule;
    for (uint32_t i = 0; i < schedule->copy_count[DAO_SWAP_LANE_HOST_IN]; i++) {
        const dao_swap_copy_t *copy = &schedule->copies[DAO_SWAP_LANE_HOST_IN][i];
        if (copy->is_in && !is_of_this_step(replay, copy, i)) {
            read(copy->tensor, copy->offset_bytes, copy->size_bytes, host_at(replay, copy->slot_bytes),
                 replay->config.user);
        }
    }
}

static dao_status_t copy_now(dao_replay_t *replay, void *dst, const void *src, uint64_t size_bytes)
{
    static const dao_fence_t no_fence;
    dao_timeline_t *timeline = replay->config.timeline;
    dao_fence_t fence = no_fence;
    dao_status_t status = dao_timeline_before(timeline, DAO_STREAM_ROLE_H2D, &no_fence);
    if (status == DAO_OK) {
        status = timeline->ops->copy(timeline->lanes[DAO_STREAM_ROLE_H2D].stream, DAO_COPY_KIND_H2D, dst, src,
                                     size_bytes);
    }
    if (status == DAO_OK) {
        status = dao_timeline_after(timeline, DAO_STREAM_ROLE_H2D, &fence.sequence[DAO_STREAM_ROLE_H2D]);
    }
    return status == DAO_OK ? dao_timeline_wait(timeline, &fence) : status;
}

dao_status_t dao_replay_place(dao_replay_t *replay, dao_replay_read_t read, void *staging)
{
    const dao_swap_schedule_t *schedule = replay->config.schedule;
    dao_status_t status = DAO_OK;
    place_slots(replay, read);
    for (uint32_t i = 0; status == DAO_OK && i < schedule->resident_count; i++) {
        const dao_swap_resident_t *resident = &schedule->residents[i];
        read(resident->tensor, resident->offset_bytes, resident->size_bytes, staging, replay->config.user);
        status = copy_now(replay, device_at(replay, resident->address_bytes), staging, resident->size_bytes);
    }
    for (int i = 0; i < LANE_COUNT; i++) {
        dao_stream_role_t role = lanes[i].role;
        replay->first[role] = replay->base[role] = replay->config.timeline->lanes[role].issued;
    }
    return status;
}

/* ---- a step ---- */

/* The plan's fence in numbers. False: it names a thing that is not queued yet. */
static bool find_fence(const dao_replay_t *replay, const dao_swap_fence_t *after, dao_stream_role_t own,
                       dao_fence_t *out_fence)
{
    *out_fence = (dao_fence_t){{0}};
    for (int i = 0; i < LANE_COUNT; i++) {
        dao_stream_role_t role = lanes[i].role;
        int32_t done = after->done[lanes[i].lane];
        if (done == DAO_SWAP_NO_WAIT || role == own) {
            continue;
        }
        if (done > 0 && (uint32_t)done > replay->next[role]) {
            return false;
        }
        int64_t number = (int64_t)replay->base[role] + done;
        if (number > (int64_t)replay->first[role]) {
            dao_fence_add(out_fence, role, (uint64_t)number);
        }
    }
    return true;
}

static dao_status_t queue_kernel(dao_replay_t *replay, uint32_t index)
{
    const dao_replay_config_t *config = &replay->config;
    const dao_swap_kernel_t *kernel = &config->problem->kernels[index];
    for (uint32_t i = 0; i < kernel->use_count; i++) {
        replay->addresses[i] = device_at(replay, config->schedule->use_address[replay->next_use++]);
    }
    void *workspace =
        kernel->workspace_bytes > 0 ? device_at(replay, config->schedule->workspace_address[index]) : NULL;
    return config->launch(index, replay->addresses, workspace, config->user);
}

static dao_status_t queue_copy(dao_replay_t *replay, dao_stream_role_t role, const dao_swap_copy_t *copy)
{
    dao_timeline_t *timeline = replay->config.timeline;
    void *device = device_at(replay, copy->address_bytes);
    void *host = host_at(replay, copy->slot_bytes);
    return timeline->ops->copy(timeline->lanes[role].stream,
                               copy->is_in ? DAO_COPY_KIND_H2D : DAO_COPY_KIND_D2H,
                               copy->is_in ? device : host, copy->is_in ? host : device, copy->size_bytes);
}

static uint32_t thing_count(const dao_replay_t *replay, int lane)
{
    return lanes[lane].lane == DAO_SWAP_LANE_COMPUTE ? replay->config.problem->kernel_count
                                                     : replay->config.schedule->copy_count[lanes[lane].lane];
}

/* Queues the next thing of a lane if all that it waits for is queued. */
static dao_status_t queue_next(dao_replay_t *replay, int lane, bool *out_has_queued)
{
    const dao_swap_schedule_t *schedule = replay->config.schedule;
    dao_stream_role_t role = lanes[lane].role;
    bool is_kernel = lanes[lane].lane == DAO_SWAP_LANE_COMPUTE;
    uint32_t index = replay->next[role];
    dao_fence_t fence;
    uint64_t number = 0;
    *out_has_queued = false;
    if (index == thing_count(replay, lane)) {
        return DAO_OK;
    }
    const dao_swap_copy_t *copy = is_kernel ? NULL : &schedule->copies[lanes[lane].lane][index];
    if (!find_fence(replay, is_kernel ? &schedule->kernel_after[index] : &copy->after, role, &fence)) {
        return DAO_OK;
    }
    dao_status_t status = dao_timeline_before(replay->config.timeline, role, &fence);
    if (status == DAO_OK) {
        status = is_kernel ? queue_kernel(replay, index) : queue_copy(replay, role, copy);
    }
    if (status == DAO_OK) {
        status = dao_timeline_after(replay->config.timeline, role, &number);
    }
    DAO_ASSERT(status != DAO_OK || number == replay->base[role] + index + 1);
    replay->next[role] = index + 1;
    *out_has_queued = status == DAO_OK;
    return status;
}

/* Copies go first, as far as they can: they wait on the device for what they need. */
static dao_status_t queue_some(dao_replay_t *replay, bool *out_has_queued)
{
    dao_status_t status = DAO_OK;
    *out_has_queued = false;
    for (int lane = LANE_COUNT - 1; status == DAO_OK && lane >= 0 && !*out_has_queued; lane--) {
        status = queue_next(replay, lane, out_has_queued);
    }
    return status;
}

dao_status_t dao_replay_step(dao_replay_t *replay)
{
    bool has_queued = true;
    dao_status_t status = DAO_OK;
    replay->next_use = 0;
    for (int i = 0; i < LANE_COUNT; i++) {
        replay->next[lanes[i].role] = 0;
    }
    while (status == DAO_OK && has_queued) {
        status = queue_some(replay, &has_queued);
    }
    for (int i = 0; status == DAO_OK && i < LANE_COUNT; i++) {
        if (replay->next[lanes[i].role] != thing_count(replay, i)) {
            return dao_error(DAO_ERR_INVALID,
                             "the plan's step cannot be queued: a thing waits for a later one");
        }
        replay->base[lanes[i].role] += replay->next[lanes[i].role];
    }
    return status;
}
