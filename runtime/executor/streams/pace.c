/* SPDX-License-Identifier: Apache-2.0 */
/* Streams in estimated time: an operation begins when the one before it on its stream and all that its fence
   names have ended. The speed of a link is the most bytes over time between the ends of two copies that were
   seen to finish: what the link did while it was busy; idle times only make it less. Invariant: the ends of a
   stream's operations never fall. */
#include "runtime/executor/streams/pace.h"

#include "base/report/assert.h"

/* The streams that it has, as those of a fence. */
#define PACED ((UINT32_C(1) << DAO_TIMELINE_PACED_COUNT) - 1)

#define SLOT(sequence) ((sequence) & (DAO_TIMELINE_SLOTS - 1))

double dao_pace_fence_ns(const dao_pace_t *pace, const dao_fence_t *fence)
{
    double end_ns = 0;
    for (uint32_t left = dao_fence_streams(fence) & PACED; left != 0;) {
        dao_stream_role_t role = dao_fence_next(&left);
        double ns = pace->streams[role].ends_ns[SLOT(dao_fence_number(fence, role))]; /* an old one: later */
        end_ns = ns > end_ns ? ns : end_ns;
    }
    return end_ns;
}

void dao_pace_queue(dao_pace_t *pace, dao_stream_role_t role, uint64_t sequence, const dao_fence_t *fence,
                    double cost_ns)
{
    dao_pace_stream_t *stream = &pace->streams[role];
    double begin_ns = dao_pace_fence_ns(pace, fence);
    begin_ns = begin_ns > stream->end_ns ? begin_ns : stream->end_ns;
    DAO_ASSERT(cost_ns >= 0);
    bool is_next = stream->last != 0 && sequence == stream->last + 1;
    stream->first = is_next ? stream->first : sequence;
    stream->last = sequence;
    stream->end_ns = begin_ns + cost_ns;
    stream->ends_ns[SLOT(sequence)] = stream->end_ns;
    stream->bytes_by[SLOT(sequence)] = stream->bytes;
}

void dao_pace_copy(dao_pace_t *pace, dao_stream_role_t role, uint64_t sequence, const dao_fence_t *fence,
                   uint64_t size_bytes)
{
    pace->streams[role].bytes += size_bytes;
    dao_pace_queue(pace, role, sequence, fence, dao_pace_copy_ns(pace, role, (double)size_bytes));
}

double dao_pace_copy_ns(const dao_pace_t *pace, dao_stream_role_t role, double bytes)
{
    double speed = pace->streams[role].bytes_per_ns;
    return speed > 0 ? bytes / speed : 0;
}

static void look_at_stream(dao_pace_stream_t *stream, const dao_timeline_t *timeline, int role)
{
    const dao_timeline_stream_t *watched = &timeline->streams[role];
    uint64_t from = stream->seen > stream->first ? stream->seen : stream->first;
    uint64_t to = watched->completed < stream->last ? watched->completed : stream->last;
    if (to <= from) {
        return;
    }
    stream->seen = to;
    dao_backend_event_t *begin = watched->events[SLOT(from)];
    dao_backend_event_t *end = watched->events[SLOT(to)];
    int64_t ns = 0;
    bool is_known = from > 0 && watched->issued - from < DAO_TIMELINE_SLOTS && begin != NULL && end != NULL &&
                    timeline->ops->event_elapsed(begin, end, &ns) == DAO_OK && ns > 0;
    double bytes = (double)(stream->bytes_by[SLOT(to)] - stream->bytes_by[SLOT(from)]);
    if (is_known && bytes / (double)ns > stream->bytes_per_ns) {
        stream->bytes_per_ns = bytes / (double)ns;
    }
}

void dao_pace_look(dao_pace_t *pace, const dao_timeline_t *timeline)
{
    look_at_stream(&pace->streams[DAO_STREAM_ROLE_H2D], timeline, DAO_STREAM_ROLE_H2D);
    look_at_stream(&pace->streams[DAO_STREAM_ROLE_D2H], timeline, DAO_STREAM_ROLE_D2H);
}
