/* SPDX-License-Identifier: Apache-2.0 */
/* Numbered operations on a few streams.

       lane      completed                issued
       ----------|------------------------|-----> numbers
        finished   in flight: an event each,
                   at most DAO_TIMELINE_DEPTH

   Invariants, per lane: completed <= issued; issued - completed <= DAO_TIMELINE_DEPTH; waited[m] <=
   lanes[m].issued. An operation whose event could not be made or recorded is waited for at once, so that
   every number above `completed` has an event. */
#include "runtime/executor/tiers/timeline.h"

#include "base/report/assert.h"

#include <string.h>

static_assert((DAO_TIMELINE_SLOTS & (DAO_TIMELINE_SLOTS - 1)) == 0, "slots are found with a mask");

static dao_backend_event_t **event_slot(dao_lane_t *lane, uint64_t sequence)
{
    return &lane->events[sequence & (DAO_TIMELINE_SLOTS - 1)];
}

void dao_timeline_init(dao_timeline_t *timeline, const dao_backend_ops_t *ops, dao_backend_device_t *device,
                       dao_backend_stream_t *const streams[DAO_STREAM_ROLE_COUNT])
{
    memset(timeline, 0, sizeof(*timeline));
    timeline->ops = ops;
    timeline->device = device;
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        timeline->lanes[i].stream = streams[i];
    }
}

void dao_timeline_add_lane(dao_timeline_t *timeline, dao_stream_role_t lane, dao_backend_stream_t *stream)
{
    DAO_ASSERT(timeline->lanes[lane].stream == NULL);
    timeline->lanes[lane].stream = stream;
}

void dao_timeline_finish(dao_timeline_t *timeline)
{
    for (int i = 0; i < DAO_LANE_COUNT; i++) {
        for (uint32_t slot = 0; slot < DAO_TIMELINE_SLOTS; slot++) {
            if (timeline->lanes[i].events[slot] != NULL) {
                timeline->ops->event_destroy(timeline->lanes[i].events[slot]);
            }
        }
    }
    memset(timeline, 0, sizeof(*timeline));
}

/* The host waits until operation `sequence` of a lane has finished. */
static dao_status_t wait_on_host(dao_timeline_t *timeline, dao_lane_t *lane, uint64_t sequence)
{
    if (sequence <= lane->completed) {
        return DAO_OK;
    }
    DAO_ASSERT(sequence <= lane->issued);
    dao_status_t status = timeline->ops->event_synchronize(*event_slot(lane, sequence));
    if (status == DAO_OK) {
        lane->completed = sequence;
    }
    return status;
}

/* Makes `lane` wait for operation `sequence` of `other`; the host does it if the device cannot. */
static dao_status_t wait_on_device(dao_timeline_t *timeline, dao_lane_t *lane, dao_stream_role_t other,
                                   uint64_t sequence)
{
    dao_lane_t *source = &timeline->lanes[other];
    if (lane == source || sequence <= source->completed || sequence <= lane->waited[other]) {
        return DAO_OK;
    }
    DAO_ASSERT(sequence <= source->issued);
    if (timeline->ops->stream_wait_event(lane->stream, *event_slot(source, sequence)) == DAO_OK) {
        lane->waited[other] = sequence;
        return DAO_OK;
    }
    timeline->throttle_count++;
    return wait_on_host(timeline, source, sequence);
}

dao_status_t dao_timeline_before(dao_timeline_t *timeline, dao_stream_role_t lane_index,
                                 const dao_fence_t *fence)
{
    dao_lane_t *lane = &timeline->lanes[lane_index];
    if (lane->issued - lane->completed == DAO_TIMELINE_DEPTH) {
        dao_status_t status = dao_timeline_poll(timeline);
        if (status == DAO_OK && lane->issued - lane->completed == DAO_TIMELINE_DEPTH) {
            timeline->throttle_count++;
            status = wait_on_host(timeline, lane, lane->completed + 1);
        }
        if (status != DAO_OK) {
            return status;
        }
    }
    for (int other = 0; other < DAO_LANE_COUNT; other++) {
        dao_status_t status =
            wait_on_device(timeline, lane, (dao_stream_role_t)other, fence->sequence[other]);
        if (status != DAO_OK) {
            return status;
        }
    }
    return DAO_OK;
}

dao_status_t dao_timeline_after(dao_timeline_t *timeline, dao_stream_role_t lane_index,
                                uint64_t *out_sequence)
{
    dao_lane_t *lane = &timeline->lanes[lane_index];
    DAO_ASSERT(lane->issued - lane->completed < DAO_TIMELINE_DEPTH);
    dao_backend_event_t **event = event_slot(lane, lane->issued + 1);
    dao_status_t status =
        *event != NULL ? DAO_OK : timeline->ops->event_create(timeline->device, true, event);
    if (status == DAO_OK) {
        status = timeline->ops->event_record(*event, lane->stream);
    }
    bool has_event = status == DAO_OK;
    if (!has_event) {
        timeline->throttle_count++;
        status = timeline->ops->stream_synchronize(lane->stream);
    }
    if (status != DAO_OK) {
        return status;
    }
    lane->issued++;
    if (has_event) {
        lane->recorded = lane->issued;
    } else {
        lane->completed = lane->issued;
    }
    *out_sequence = lane->issued;
    return DAO_OK;
}

/* Finds the last operation of a lane that has finished: ever further ahead, then halfway back. A lane with n
   operations finished since it was asked last is asked about 2 log n times, one where none has finished once,
   an idle one not at all. */
static dao_status_t poll_lane(const dao_timeline_t *timeline, dao_lane_t *lane)
{
    uint64_t end = lane->issued + 1; /* from here on none is known to have finished */
    uint64_t stride = 1;
    bool is_halving = false;
    dao_status_t status = DAO_OK;
    while ((status == DAO_OK || status == DAO_ERR_NOT_READY) && lane->completed + 1 < end) {
        uint64_t open_count = end - 1 - lane->completed;
        uint64_t ahead = is_halving ? (open_count + 1) / 2 : stride < open_count ? stride : open_count;
        status = timeline->ops->event_query(*event_slot(lane, lane->completed + ahead));
        if (status == DAO_OK) {
            lane->completed += ahead;
            stride *= 2;
        } else {
            end = lane->completed + ahead;
            is_halving = true;
        }
    }
    return status == DAO_ERR_NOT_READY ? DAO_OK : status;
}

dao_status_t dao_timeline_poll(dao_timeline_t *timeline)
{
    dao_status_t first = DAO_OK;
    for (int i = 0; i < DAO_LANE_COUNT; i++) {
        dao_status_t status = poll_lane(timeline, &timeline->lanes[i]);
        first = first == DAO_OK ? status : first;
    }
    return first;
}

bool dao_timeline_is_done(const dao_timeline_t *timeline, const dao_fence_t *fence)
{
    for (int i = 0; i < DAO_LANE_COUNT; i++) {
        if (fence->sequence[i] > timeline->lanes[i].completed) {
            return false;
        }
    }
    return true;
}

dao_status_t dao_timeline_wait(dao_timeline_t *timeline, const dao_fence_t *fence)
{
    for (int i = 0; i < DAO_LANE_COUNT; i++) {
        dao_status_t status = wait_on_host(timeline, &timeline->lanes[i], fence->sequence[i]);
        if (status != DAO_OK) {
            return status;
        }
    }
    return DAO_OK;
}

dao_status_t dao_timeline_wait_all(dao_timeline_t *timeline)
{
    dao_status_t first = DAO_OK;
    for (int i = 0; i < DAO_LANE_COUNT; i++) {
        dao_lane_t *lane = &timeline->lanes[i];
        dao_status_t status = lane->stream != NULL ? timeline->ops->stream_synchronize(lane->stream) : DAO_OK;
        if (status == DAO_OK) {
            lane->completed = lane->issued;
        } else if (first == DAO_OK) {
            first = status;
        }
    }
    return first;
}

bool dao_timeline_is_valid(const dao_timeline_t *timeline)
{
    for (int i = 0; i < DAO_LANE_COUNT; i++) {
        const dao_lane_t *lane = &timeline->lanes[i];
        if (lane->completed > lane->issued || lane->issued - lane->completed > DAO_TIMELINE_DEPTH) {
            return false;
        }
        for (int other = 0; other < DAO_LANE_COUNT; other++) {
            if (lane->waited[other] > timeline->lanes[other].issued) {
                return false;
            }
        }
    }
    return true;
}
