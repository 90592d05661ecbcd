/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring a step.

       compute stream   ... end(n-1) | waits | begin(n) kernel n end(n) ...
                                   <-stall-><-------- time ----------->

   Ends are the timeline's events; begins are the profiler's own, recorded behind the waits. A stall is put
   down to the copy or kernel that the kernel waited for and that ended last, or to the host if that ended
   before the stall began. Each compute stream is measured by itself; a step takes what it takes the slowest.
   Events are used again after DAO_TIMELINE_SLOTS operations: an operation that is looked at later than that
   spoils the measurement.

   A copy for the step's first kernels may be over before the device has come to the step, while the one
   before still computes. So times count from an event at the step's begin, the origin, and nothing is
   looked at before it has come.

   Whether the two directions of the link slow each other shows where copies of both are under way:

       H2D stream   |--- copy ---|        |--------- copy ----------|
       D2H stream            |---------- copy ----------|
                  <- one -><both><-one-><---- both --><--- one --->

   Alone, at the speeds of copies without others, they would take work = one + 2 (1 - lost) both. So lost
   is 0 where each direction has its own speed. It is 1/2 where only one moves at a time, whether the other
   waits or both go half as fast.

       state      holds                                                    left by
       IDLE       nothing is measured                                      start
       RUNNING    operations that are queued are measured                  stop, reset
       DRAINING   `end` names each stream's last one; next <= end + 1      collect, reset
       DONE       all were looked at: the figures stand                    reset

   Invariants: next <= issued + 1 of each stream, while not IDLE; kernel_count <= kernel_capacity; only
   operations that were seen to finish are looked at. */
#include "runtime/executor/streams/profiler.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"

#include <string.h>

/* Kernels, and copies, that their lists hold at first. */
#define KERNELS_AT_FIRST 256u
#define SPANS_AT_FIRST   256u

/* A copy counts as alone if at most 1 / this of its time others of the other direction were under way. */
#define ALONE_PART 50u

/* Of the time in which copies are under way, both directions are for at least 1 / this; else nothing is said
   of both. */
#define BOTH_PART 20u

/* Most that is lost while both directions are under way: all that one of them moves. */
#define LOST_SHARE_MAX 0.5

void dao_profiler_init(dao_profiler_t *profiler, dao_timeline_t *timeline)
{
    *profiler = (dao_profiler_t){.timeline = timeline};
}

void dao_profiler_finish(dao_profiler_t *profiler)
{
    for (int role = 0; role < DAO_TIMELINE_PACED_COUNT; role++) {
        for (uint32_t i = 0; profiler->slots[role] != NULL && i < DAO_TIMELINE_SLOTS; i++) {
            if (profiler->slots[role][i].begin != NULL) {
                profiler->timeline->ops->event_destroy(profiler->slots[role][i].begin);
            }
        }
        dao_host_free(profiler->slots[role]);
        dao_host_free(profiler->copies[role].spans);
    }
    if (profiler->origin != NULL) {
        profiler->timeline->ops->event_destroy(profiler->origin);
    }
    dao_host_free(profiler->kernel_ns);
    *profiler = (dao_profiler_t){.timeline = NULL};
}

static bool has_slots(dao_profiler_t *profiler)
{
    bool has_all = true;
    for (int role = 0; role < DAO_TIMELINE_PACED_COUNT; role++) {
        if (profiler->timeline->streams[role].backend == NULL) {
            continue;
        }
        if (profiler->slots[role] == NULL) {
            profiler->slots[role] = dao_host_calloc(DAO_TIMELINE_SLOTS, sizeof(dao_profiler_slot_t));
        }
        has_all = has_all && profiler->slots[role] != NULL;
    }
    return has_all;
}

/* Records the event from which the step's times count. */
static bool record_origin(dao_profiler_t *profiler)
{
    const dao_timeline_t *timeline = profiler->timeline;
    return (profiler->origin != NULL ||
            timeline->ops->event_create(timeline->device, true, &profiler->origin) == DAO_OK) &&
           timeline->ops->event_record(profiler->origin,
                                       timeline->streams[DAO_STREAM_ROLE_COMPUTE].backend) == DAO_OK;
}

void dao_profiler_start(dao_profiler_t *profiler)
{
    DAO_ASSERT(profiler->state == DAO_PROFILER_IDLE);
    if (!has_slots(profiler) || !record_origin(profiler)) {
        return;
    }
    profiler->state = DAO_PROFILER_RUNNING;
    profiler->is_spoilt = false;
    profiler->kernel_count = 0;
    memset(profiler->lane_ns, 0, sizeof(profiler->lane_ns));
    memset(profiler->stall_ns, 0, sizeof(profiler->stall_ns));
    memset(profiler->links, 0, sizeof(profiler->links));
    memset(profiler->is_crowded, 0, sizeof(profiler->is_crowded));
    profiler->lost_share = -1;
    for (int role = 0; role < DAO_TIMELINE_PACED_COUNT; role++) {
        profiler->copies[role].count = 0;
        profiler->next[role] = profiler->timeline->streams[role].issued + 1;
    }
    profiler->first_kernel = profiler->next[DAO_STREAM_ROLE_COMPUTE];
    DAO_ASSERT(dao_profiler_is_valid(profiler));
}

void dao_profiler_stop(dao_profiler_t *profiler)
{
    DAO_ASSERT(profiler->state == DAO_PROFILER_RUNNING);
    for (int role = 0; role < DAO_TIMELINE_PACED_COUNT; role++) {
        profiler->end[role] = profiler->timeline->streams[role].issued;
    }
    profiler->state = DAO_PROFILER_DRAINING;
    DAO_ASSERT(dao_profiler_is_valid(profiler));
}

void dao_profiler_reset(dao_profiler_t *profiler)
{
    profiler->state = DAO_PROFILER_IDLE;
}

bool dao_profiler_is_valid(const dao_profiler_t *profiler)
{
    bool is_valid = profiler->kernel_count <= profiler->kernel_capacity;
    for (int role = 0; is_valid && role < DAO_TIMELINE_PACED_COUNT; role++) {
        bool is_ahead = profiler->next[role] > profiler->timeline->streams[role].issued + 1;
        is_valid = profiler->copies[role].count <= profiler->copies[role].capacity &&
                   (profiler->state == DAO_PROFILER_IDLE || !is_ahead);
    }
    return is_valid;
}

static dao_profiler_slot_t *slot_of(const dao_profiler_t *profiler, int role, uint64_t sequence)
{
    return &profiler->slots[role][sequence & (DAO_TIMELINE_SLOTS - 1)];
}

/* Records the begin of the operation that is queued next on a stream; NULL: it is not measured. */
static dao_profiler_slot_t *begin(dao_profiler_t *profiler, dao_stream_role_t role)
{
    const dao_timeline_t *timeline = profiler->timeline;
    const dao_timeline_stream_t *stream = &timeline->streams[role];
    if (profiler->state != DAO_PROFILER_IDLE &&
        stream->issued + 1 - profiler->next[role] >= DAO_TIMELINE_DEPTH / 2) {
        dao_profiler_collect(profiler); /* before events are used again */
    }
    if (profiler->state != DAO_PROFILER_RUNNING) {
        return NULL;
    }
    dao_profiler_slot_t *slot = slot_of(profiler, (int)role, stream->issued + 1);
    slot->sequence = 0;
    if ((slot->begin == NULL &&
         timeline->ops->event_create(timeline->device, true, &slot->begin) != DAO_OK) ||
        timeline->ops->event_record(slot->begin, stream->backend) != DAO_OK) {
        profiler->is_spoilt = true;
        return NULL;
    }
    slot->sequence = stream->issued + 1;
    return slot;
}

void dao_profiler_before_kernel(dao_profiler_t *profiler, dao_stream_role_t role, uint32_t kernel,
                                const dao_fence_t *fence)
{
    dao_profiler_slot_t *slot = begin(profiler, role);
    if (slot != NULL) {
        slot->kernel = kernel;
        slot->fence = *fence;
    }
}

void dao_profiler_before_copy(dao_profiler_t *profiler, dao_stream_role_t role, uint64_t size_bytes)
{
    dao_profiler_slot_t *slot = begin(profiler, role);
    if (slot != NULL) {
        slot->size_bytes = size_bytes;
    }
}

void dao_profiler_after(dao_profiler_t *profiler, dao_stream_role_t role)
{
    const dao_timeline_stream_t *stream = &profiler->timeline->streams[role];
    if (profiler->state == DAO_PROFILER_RUNNING && stream->recorded != stream->issued) {
        profiler->is_spoilt = true; /* there is no event behind it */
        slot_of(profiler, (int)role, stream->issued)->sequence = 0;
    }
}

/* The event behind an operation, if it is still that of this operation. */
static dao_backend_event_t *event_of(const dao_profiler_t *profiler, int role, uint64_t sequence)
{
    const dao_timeline_stream_t *stream = &profiler->timeline->streams[role];
    bool is_kept =
        sequence > 0 && sequence <= stream->issued && stream->issued - sequence < DAO_TIMELINE_SLOTS;
    return is_kept ? stream->events[sequence & (DAO_TIMELINE_SLOTS - 1)] : NULL;
}

/* Nanoseconds between two events, below 0 if the second one is the earlier; what the device cannot tell
   spoils the measurement. */
static int64_t between(dao_profiler_t *profiler, dao_backend_event_t *from, dao_backend_event_t *to)
{
    int64_t ns = 0;
    if (profiler->timeline->ops->event_elapsed(from, to, &ns) != DAO_OK) {
        profiler->is_spoilt = true;
    }
    return ns;
}

/* The same for events of a stream, the first one before the second. */
static uint64_t elapsed(dao_profiler_t *profiler, dao_backend_event_t *from, dao_backend_event_t *to)
{
    int64_t ns = between(profiler, from, to);
    return ns > 0 ? (uint64_t)ns : 0;
}

static bool is_compute(int role)
{
    return role == DAO_STREAM_ROLE_COMPUTE || role >= DAO_STREAM_ROLE_COUNT;
}

static void note_stall(dao_profiler_t *profiler, int role, const dao_profiler_slot_t *slot, uint64_t idle_ns)
{
    static const struct {
        dao_stream_role_t role;
        dao_stall_cause_t cause;
    } others[] = {{DAO_STREAM_ROLE_COMPUTE, DAO_STALL_CAUSE_KERNEL},
                  {(dao_stream_role_t)DAO_STREAM_ROLE_COUNT, DAO_STALL_CAUSE_KERNEL},
                  {(dao_stream_role_t)(DAO_STREAM_ROLE_COUNT + 1), DAO_STALL_CAUSE_KERNEL},
                  {(dao_stream_role_t)(DAO_STREAM_ROLE_COUNT + 2), DAO_STALL_CAUSE_KERNEL},
                  {DAO_STREAM_ROLE_H2D, DAO_STALL_CAUSE_IN},
                  {DAO_TIMELINE_STAGE_IN, DAO_STALL_CAUSE_IN},
                  {DAO_STREAM_ROLE_D2H, DAO_STALL_CAUSE_OUT},
                  {DAO_TIMELINE_STAGE_OUT, DAO_STALL_CAUSE_OUT}};
    dao_stall_cause_t cause = DAO_STALL_CAUSE_HOST;
    uint64_t least_ns = idle_ns;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        dao_backend_event_t *event =
            event_of(profiler, (int)others[i].role, dao_fence_number(&slot->fence, others[i].role));
        int64_t since_ns = 0;
        if (event != NULL &&
            profiler->timeline->ops->event_elapsed(event, slot->begin, &since_ns) == DAO_OK &&
            since_ns >= 0 && (uint64_t)since_ns < least_ns) {
            least_ns = (uint64_t)since_ns;
            cause = others[i].cause;
        }
    }
    profiler->stall_ns[cause] += idle_ns;
    profiler->lane_ns[role] += idle_ns;
}

static void note_kernel(dao_profiler_t *profiler, int role, const dao_profiler_slot_t *slot, uint64_t time_ns)
{
    profiler->lane_ns[role] += time_ns;
    if (slot->kernel == DAO_PROFILER_AGAIN) {
        return;
    }
    if (slot->kernel >= profiler->kernel_capacity) {
        uint32_t capacity = profiler->kernel_capacity == 0 ? KERNELS_AT_FIRST : 2 * profiler->kernel_capacity;
        capacity = capacity > slot->kernel ? capacity : slot->kernel + 1;
        uint64_t *times = dao_host_realloc(profiler->kernel_ns, capacity, sizeof(*times));
        if (times == NULL) {
            profiler->is_spoilt = true;
            return;
        }
        profiler->kernel_ns = times;
        profiler->kernel_capacity = capacity;
    }
    DAO_ASSERT(slot->kernel < profiler->kernel_capacity);
    profiler->kernel_ns[slot->kernel] = time_ns;
    profiler->kernel_count++;
}

static void note_copy(dao_profiler_t *profiler, int role, const dao_profiler_slot_t *slot,
                      dao_backend_event_t *end)
{
    dao_profiler_spans_t *copies = &profiler->copies[role];
    if (copies->count == copies->capacity) {
        uint32_t capacity = copies->capacity == 0 ? SPANS_AT_FIRST : 2 * copies->capacity;
        dao_profiler_span_t *spans = dao_host_realloc(copies->spans, capacity, sizeof(*spans));
        if (spans == NULL) {
            profiler->is_spoilt = true;
            return;
        }
        copies->spans = spans;
        copies->capacity = capacity;
    }
    int64_t end_ns = between(profiler, profiler->origin, end);
    int64_t begin_ns = end_ns - (int64_t)elapsed(profiler, slot->begin, end);
    copies->spans[copies->count++] = (dao_profiler_span_t){begin_ns, end_ns, slot->size_bytes};
}

static void look_at(dao_profiler_t *profiler, int role, uint64_t sequence)
{
    const dao_profiler_slot_t *slot = slot_of(profiler, role, sequence);
    DAO_ASSERT(sequence <= profiler->timeline->streams[role].completed);
    dao_backend_event_t *end = event_of(profiler, role, sequence);
    if (end == NULL) {
        profiler->is_spoilt = true;
        return;
    }
    if (slot->sequence != sequence) {
        return; /* it is not measured: a fill, a request of the program */
    }
    if (!is_compute(role)) {
        note_copy(profiler, role, slot, end);
        return;
    }
    dao_backend_event_t *before = event_of(profiler, role, sequence - 1);
    note_stall(profiler, role, slot, before != NULL ? elapsed(profiler, before, slot->begin) : 0);
    note_kernel(profiler, role, slot, elapsed(profiler, slot->begin, end));
}

/* ---- both directions ---- */

/* The time of a span that spans of the other direction share with it. `first`: of these the first that ends
   behind the span's begin; it moves on with the spans. */
static uint64_t shared_ns(const dao_profiler_span_t *span, const dao_profiler_spans_t *others,
                          uint32_t *first)
{
    uint64_t ns = 0;
    while (*first < others->count && others->spans[*first].end_ns <= span->begin_ns) {
        (*first)++;
    }
    for (uint32_t i = *first; i < others->count && others->spans[i].begin_ns < span->end_ns; i++) {
        const dao_profiler_span_t *other = &others->spans[i];
        int64_t begin_ns = other->begin_ns > span->begin_ns ? other->begin_ns : span->begin_ns;
        int64_t end_ns = other->end_ns < span->end_ns ? other->end_ns : span->end_ns;
        ns += end_ns > begin_ns ? (uint64_t)(end_ns - begin_ns) : 0;
    }
    return ns;
}

/* Figures of a direction's copies, of all and of those alone; the time in which the other direction was under
   way, too. */
static uint64_t sum_up(const dao_profiler_spans_t *copies, const dao_profiler_spans_t *others,
                       dao_link_speed_t *all, dao_link_speed_t *alone)
{
    uint64_t both_ns = 0;
    uint32_t first = 0;
    for (uint32_t i = 0; i < copies->count; i++) {
        const dao_profiler_span_t *span = &copies->spans[i];
        uint64_t time_ns = (uint64_t)(span->end_ns - span->begin_ns);
        uint64_t with_others_ns = shared_ns(span, others, &first);
        both_ns += with_others_ns;
        dao_link_speed_note(all, span->size_bytes, time_ns);
        if (with_others_ns <= time_ns / ALONE_PART) {
            dao_link_speed_note(alone, span->size_bytes, time_ns);
        }
    }
    return both_ns;
}

/* The time that copies would take if each was alone. */
static double work_ns(const dao_link_speed_t *all, const dao_link_speed_t *alone)
{
    uint64_t bytes_per_second = 0, latency_ns = 0;
    dao_link_speed_fit(alone, &bytes_per_second, &latency_ns);
    return (double)all->count * (double)latency_ns +
           all->bytes / (double)bytes_per_second * (double)DAO_NS_PER_S;
}

/* All copies are there: what they say of the link. */
static void note_links(dao_profiler_t *profiler)
{
    static const dao_stream_role_t roles[] = {DAO_STREAM_ROLE_H2D, DAO_STREAM_ROLE_D2H};
    dao_link_speed_t all[2] = {{.count = 0}};
    dao_link_speed_t *links[] = {&profiler->links[roles[0]], &profiler->links[roles[1]]};
    double both_ns = 0; /* the same from either side */
    for (int i = 0; i < 2; i++) {
        both_ns =
            (double)sum_up(&profiler->copies[roles[i]], &profiler->copies[roles[1 - i]], &all[i], links[i]);
    }
    double one_ns = all[0].ns + all[1].ns - 2 * both_ns;
    if (links[0]->count > 0 && links[1]->count > 0 && both_ns * BOTH_PART >= one_ns + both_ns) {
        double work = work_ns(&all[0], links[0]) + work_ns(&all[1], links[1]);
        double lost = 1 - (work - one_ns) / (2 * both_ns);
        profiler->lost_share = lost < 0 ? 0 : lost > LOST_SHARE_MAX ? LOST_SHARE_MAX : lost;
    }
    for (int i = 0; i < 2; i++) {
        profiler->is_crowded[roles[i]] = links[i]->count == 0 && all[i].count > 0;
        *links[i] = profiler->is_crowded[roles[i]] ? all[i] : *links[i];
    }
}

/* Returns true if the origin is in the past: it is before the step's first kernel. In a step without kernels,
   such as where links are measured, nothing behind it tells, and it is waited for. */
static bool has_origin_come(dao_profiler_t *profiler)
{
    const dao_timeline_t *timeline = profiler->timeline;
    if (timeline->streams[DAO_STREAM_ROLE_COMPUTE].completed >= profiler->first_kernel) {
        return true;
    }
    bool is_without_kernels = profiler->state == DAO_PROFILER_DRAINING &&
                              profiler->end[DAO_STREAM_ROLE_COMPUTE] < profiler->first_kernel;
    if (is_without_kernels && timeline->ops->event_synchronize(profiler->origin) != DAO_OK) {
        profiler->is_spoilt = true;
    }
    return is_without_kernels;
}

void dao_profiler_collect(dao_profiler_t *profiler)
{
    bool is_done = profiler->state == DAO_PROFILER_DRAINING;
    if (profiler->state != DAO_PROFILER_RUNNING && profiler->state != DAO_PROFILER_DRAINING) {
        return;
    }
    if (!has_origin_come(profiler)) {
        return;
    }
    for (int i = 0; i < DAO_TIMELINE_PACED_COUNT; i++) {
        const dao_timeline_stream_t *stream = &profiler->timeline->streams[i];
        uint64_t end = profiler->state == DAO_PROFILER_RUNNING ? stream->issued : profiler->end[i];
        for (; profiler->next[i] <= end && profiler->next[i] <= stream->completed; profiler->next[i]++) {
            look_at(profiler, i, profiler->next[i]);
        }
        is_done = is_done && profiler->next[i] > end;
    }
    if (is_done) {
        note_links(profiler);
        profiler->step_ns = 0;
        for (int i = 0; i < DAO_TIMELINE_PACED_COUNT; i++) {
            profiler->step_ns = dao_larger(profiler->step_ns, profiler->lane_ns[i]);
        }
        profiler->state = DAO_PROFILER_DONE;
    }
    DAO_ASSERT(dao_profiler_is_valid(profiler));
}
