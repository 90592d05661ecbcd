/* SPDX-License-Identifier: Apache-2.0 */
/* A running mean of the time between the ends of kernels, stalls included. It is read from the timeline's
   own events, so that measuring costs nothing on the device. Invariant: seen <= completed of the
   compute stream that it is about. */
#include "runtime/executor/streams/throttle.h"

#include "base/report/assert.h"

static const dao_timeline_stream_t *stream_of(const dao_throttle_t *throttle, const dao_timeline_t *timeline)
{
    return &timeline->streams[dao_timeline_compute(throttle->stream_index)];
}

/* The time between the ends of two operations of a stream, the earlier one not finished before the latest
   look; 0 if it is not known any more. */
static double between_ns(const dao_timeline_t *timeline, const dao_timeline_stream_t *stream, uint64_t from,
                         uint64_t to)
{
    dao_backend_event_t *begin = stream->events[from & (DAO_TIMELINE_SLOTS - 1)];
    dao_backend_event_t *end = stream->events[to & (DAO_TIMELINE_SLOTS - 1)];
    int64_t ns = 0;
    bool is_known = from > 0 && stream->issued - from < DAO_TIMELINE_SLOTS && begin != NULL && end != NULL &&
                    timeline->ops->event_elapsed(begin, end, &ns) == DAO_OK;
    return is_known && ns > 0 ? (double)ns : 0;
}

void dao_throttle_look(dao_throttle_t *throttle, const dao_timeline_t *timeline)
{
    const dao_timeline_stream_t *stream = stream_of(throttle, timeline);
    uint64_t completed = stream->completed;
    DAO_ASSERT(completed >= throttle->seen);
    if (completed == throttle->seen) {
        return;
    }
    double ns = between_ns(timeline, stream, throttle->seen, completed);
    if (ns > 0) {
        double count = (double)(completed - throttle->seen);
        double weight = throttle->kernel_ns > 0 ? count / (count + DAO_THROTTLE_KERNELS) : 1;
        throttle->kernel_ns += (ns / count - throttle->kernel_ns) * weight;
    }
    throttle->seen = completed;
}

bool dao_throttle_is_ahead(const dao_throttle_t *throttle, const dao_timeline_t *timeline,
                           uint64_t in_flight_ns)
{
    const dao_timeline_stream_t *stream = stream_of(throttle, timeline);
    DAO_ASSERT(stream->completed <= stream->issued);
    uint64_t in_flight = stream->issued - stream->completed;
    return in_flight >= 2 && (double)in_flight * throttle->kernel_ns > (double)in_flight_ns;
}

bool dao_throttle_wants_look(const dao_throttle_t *throttle, uint64_t kernel_count)
{
    return kernel_count >= DAO_THROTTLE_LOOK_KERNELS_MAX ||
           (double)kernel_count * throttle->kernel_ns >= DAO_THROTTLE_LOOK_NS || throttle->kernel_ns <= 0;
}
