/* SPDX-License-Identifier: Apache-2.0 */
/* Numbered operations on a few streams.

       stream    completed                issued
       ----------|------------------------|-----> numbers
        finished   in flight: an event each,
                   at most DAO_TIMELINE_DEPTH

   Invariants, per stream: completed <= issued; issued - completed <= DAO_TIMELINE_DEPTH; recorded <=
   issued; waited[m] <= streams[m].issued. An operation whose event could not be made or recorded is waited
   for at once, so that every number above `completed` has an event. */
#include "runtime/executor/streams/timeline.h"

#include "base/report/assert.h"

#include <string.h>

static_assert((DAO_TIMELINE_SLOTS & (DAO_TIMELINE_SLOTS - 1)) == 0, "slots are found with a mask");

static dao_backend_event_t **event_slot(dao_timeline_stream_t *stream, uint64_t sequence)
{
    return &stream->events[sequence & (DAO_TIMELINE_SLOTS - 1)];
}

void dao_timeline_init(dao_timeline_t *timeline, const dao_backend_ops_t *ops, dao_backend_device_t *device,
                       dao_backend_stream_t *const streams[DAO_STREAM_ROLE_COUNT])
{
    memset(timeline, 0, sizeof(*timeline));
    timeline->ops = ops;
    timeline->device = device;
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        timeline->streams[i].backend = streams[i];
    }
}

void dao_timeline_add_stream(dao_timeline_t *timeline, dao_stream_role_t role, dao_backend_stream_t *stream)
{
    DAO_ASSERT(timeline->streams[role].backend == NULL);
    timeline->streams[role].backend = stream;
}

void dao_timeline_finish(dao_timeline_t *timeline)
{
    for (int i = 0; i < DAO_TIMELINE_STREAM_COUNT; i++) {
        for (uint32_t slot = 0; slot < DAO_TIMELINE_SLOTS; slot++) {
            if (timeline->streams[i].events[slot] != NULL) {
                timeline->ops->event_destroy(timeline->streams[i].events[slot]);
            }
        }
    }
    memset(timeline, 0, sizeof(*timeline));
}

/* The host waits until operation `sequence` of a stream has finished. */
static dao_status_t wait_on_host(dao_timeline_t *timeline, dao_timeline_stream_t *stream, uint64_t sequence)
{
    if (sequence <= stream->completed) {
        return DAO_OK;
    }
    DAO_ASSERT(sequence <= stream->issued);
    dao_status_t status = timeline->ops->event_synchronize(*event_slot(stream, sequence));
    if (status == DAO_OK) {
        stream->completed = sequence;
    }
    return status;
}

/* Makes `stream` wait for operation `sequence` of `other`; the host does it if the device cannot. */
static dao_status_t wait_on_device(dao_timeline_t *timeline, dao_timeline_stream_t *stream,
                                   dao_stream_role_t other, uint64_t sequence)
{
    dao_timeline_stream_t *source = &timeline->streams[other];
    if (stream == source || sequence <= source->completed || sequence <= stream->waited[other]) {
        return DAO_OK;
    }
    DAO_ASSERT(sequence <= source->issued);
    if (timeline->ops->stream_wait_event(stream->backend, *event_slot(source, sequence)) == DAO_OK) {
        stream->waited[other] = sequence;
        return DAO_OK;
    }
    timeline->throttle_count++;
    return wait_on_host(timeline, source, sequence);
}

dao_status_t dao_timeline_before(dao_timeline_t *timeline, dao_stream_role_t role, const dao_fence_t *fence)
{
    dao_timeline_stream_t *stream = &timeline->streams[role];
    DAO_ASSERT(stream->backend != NULL);
    if (stream->issued - stream->completed == DAO_TIMELINE_DEPTH) {
        dao_status_t status = dao_timeline_poll(timeline);
        if (status == DAO_OK && stream->issued - stream->completed == DAO_TIMELINE_DEPTH) {
            timeline->throttle_count++;
            status = wait_on_host(timeline, stream, stream->completed + 1);
        }
        if (status != DAO_OK) {
            return status;
        }
    }
    for (uint32_t left = dao_fence_streams(fence); left != 0;) {
        dao_stream_role_t other = dao_fence_next(&left);
        dao_status_t status = wait_on_device(timeline, stream, other, dao_fence_number(fence, other));
        if (status != DAO_OK) {
            return status;
        }
    }
    return DAO_OK;
}

dao_status_t dao_timeline_after(dao_timeline_t *timeline, dao_stream_role_t role, uint64_t *out_sequence)
{
    dao_timeline_stream_t *stream = &timeline->streams[role];
    DAO_ASSERT(stream->issued - stream->completed < DAO_TIMELINE_DEPTH);
    dao_backend_event_t **event = event_slot(stream, stream->issued + 1);
    dao_status_t status =
        *event != NULL ? DAO_OK : timeline->ops->event_create(timeline->device, true, event);
    if (status == DAO_OK) {
        status = timeline->ops->event_record(*event, stream->backend);
    }
    bool has_event = status == DAO_OK;
    if (!has_event) {
        timeline->throttle_count++;
        status = timeline->ops->stream_synchronize(stream->backend);
    }
    if (status != DAO_OK) {
        return status;
    }
    DAO_ASSERT(stream->completed <= stream->issued);
    stream->issued++;
    if (has_event) {
        stream->recorded = stream->issued;
    } else {
        stream->completed = stream->issued;
    }
    *out_sequence = stream->issued;
    return DAO_OK;
}

/* Finds the last operation of a stream that has finished: ever further ahead, then halfway back. A stream
   with n operations finished since it was asked last is asked about 2 log n times, one where none has
   finished once, an idle one not at all. */
static dao_status_t poll_stream(const dao_timeline_t *timeline, dao_timeline_stream_t *stream)
{
    uint64_t end = stream->issued + 1; /* from here on none was seen to finish */
    uint64_t stride = 1;
    bool is_halving = false;
    dao_status_t status = DAO_OK;
    while ((status == DAO_OK || status == DAO_ERR_NOT_READY) && stream->completed + 1 < end) {
        uint64_t open_count = end - 1 - stream->completed;
        uint64_t ahead = is_halving ? (open_count + 1) / 2 : stride < open_count ? stride : open_count;
        status = timeline->ops->event_query(*event_slot(stream, stream->completed + ahead));
        if (status == DAO_OK) {
            stream->completed += ahead;
            stride *= 2;
        } else {
            end = stream->completed + ahead;
            is_halving = true;
        }
    }
    DAO_ASSERT(stream->completed <= stream->issued);
    return status == DAO_ERR_NOT_READY ? DAO_OK : status;
}

dao_status_t dao_timeline_poll(dao_timeline_t *timeline)
{
    dao_status_t first = DAO_OK;
    for (int i = 0; i < DAO_TIMELINE_STREAM_COUNT; i++) {
        dao_status_t status = poll_stream(timeline, &timeline->streams[i]);
        first = first == DAO_OK ? status : first;
    }
    return first;
}

bool dao_timeline_is_done(const dao_timeline_t *timeline, const dao_fence_t *fence)
{
    for (uint32_t left = dao_fence_streams(fence); left != 0;) {
        dao_stream_role_t role = dao_fence_next(&left);
        if (dao_fence_number(fence, role) > timeline->streams[role].completed) {
            return false;
        }
    }
    return true;
}

dao_status_t dao_timeline_wait(dao_timeline_t *timeline, const dao_fence_t *fence)
{
    for (uint32_t left = dao_fence_streams(fence); left != 0;) {
        dao_stream_role_t role = dao_fence_next(&left);
        dao_status_t status = wait_on_host(timeline, &timeline->streams[role], dao_fence_number(fence, role));
        if (status != DAO_OK) {
            return status;
        }
    }
    return DAO_OK;
}

dao_status_t dao_timeline_wait_all(dao_timeline_t *timeline)
{
    dao_status_t first = DAO_OK;
    for (int i = 0; i < DAO_TIMELINE_STREAM_COUNT; i++) {
        dao_timeline_stream_t *stream = &timeline->streams[i];
        dao_status_t status = wait_on_host(timeline, stream, stream->issued);
        first = first == DAO_OK ? status : first;
    }
    DAO_ASSERT_HEAVY(dao_timeline_is_valid(timeline));
    return first;
}

bool dao_timeline_is_valid(const dao_timeline_t *timeline)
{
    for (int i = 0; i < DAO_TIMELINE_STREAM_COUNT; i++) {
        const dao_timeline_stream_t *stream = &timeline->streams[i];
        if (stream->completed > stream->issued || stream->recorded > stream->issued ||
            stream->issued - stream->completed > DAO_TIMELINE_DEPTH) {
            return false;
        }
        for (int other = 0; other < DAO_TIMELINE_STREAM_COUNT; other++) {
            if (stream->waited[other] > timeline->streams[other].issued) {
                return false;
            }
        }
    }
    return true;
}
