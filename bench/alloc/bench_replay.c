/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a trace and takes its time.

   A trace is cut into rounds of about ROUND_PAIR_COUNT pairs. What builds it up and its first round are not
   timed; when it is at its end and more rounds are wanted, it starts anew. Each round is also replayed with
   calls that do nothing, and beside it the lock pair is taken, so that all three see the same machine:

       | build up | warm up |  timed  |  timed  | ... |

   ns_per_pair = median(round - empty round) / pairs */
#include "bench/alloc/bench.h"

#include "base/memory/host.h"
#include "base/memory/measure.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

#include <stdlib.h>

enum {
    ROUND_PAIR_COUNT = 20000,
    LOCK_PAIR_COUNT = 20000,
    SINGLE_OPERATION_MAX = 400000, /* timed one by one */
};

/* As dao_bench_replay(), each slot on one of the device's streams. */
static __attribute__((noinline)) size_t replay_ordered(const dao_bench_peer_t *peer,
                                                       const dao_alloc_event_t *events, size_t event_count,
                                                       void **slots)
{
    uint32_t stream_count;
    dao_stream_t *const *streams = dao_bench_streams(&stream_count);
    DAO_ASSERT(stream_count > 0);
    for (size_t i = 0; i < event_count; i++) {
        void **slot = &slots[events[i].slot];
        dao_stream_t *stream = streams[events[i].slot % stream_count];
        if (events[i].size_bytes == 0) {
            peer->free_on(*slot, stream);
            *slot = NULL;
        } else if ((*slot = peer->alloc_on((size_t)events[i].size_bytes, stream)) == NULL) {
            return i;
        }
    }
    return event_count;
}

/* A slot is NULL while it is empty. */
__attribute__((noinline)) size_t dao_bench_replay(const dao_bench_peer_t *peer,
                                                  const dao_alloc_event_t *events, size_t event_count,
                                                  void **slots)
{
    if (peer->is_ordered) {
        return replay_ordered(peer, events, event_count, slots);
    }
    void *(*alloc)(size_t) = peer->alloc;
    void (*give)(void *) = peer->free;
    for (size_t i = 0; i < event_count; i++) {
        void **slot = &slots[events[i].slot];
        if (events[i].size_bytes == 0) {
            give(*slot);
            *slot = NULL;
        } else if ((*slot = alloc((size_t)events[i].size_bytes)) == NULL) {
            return i;
        }
    }
    return event_count;
}

void dao_bench_clear(const dao_bench_peer_t *peer, const dao_alloc_trace_t *trace, void **slots)
{
    for (size_t i = 0; i < trace->slot_count; i++) {
        if (slots[i] != NULL) {
            peer->free(slots[i]); /* of an ordered peer as well: after all its streams */
            slots[i] = NULL;
        }
    }
}

/* ---- rounds ---- */

/* What is measured, while it is measured. */
typedef struct stopwatch {
    const dao_bench_peer_t *peer;
    const dao_alloc_trace_t *trace;
    void **slots;       /* of the peer */
    void **empty_slots; /* of the call that does nothing */
    size_t part_count;  /* rounds in the trace */
    uint64_t round_count;
    double *pair_ns; /* of the timed rounds */
    double *lock_ns;
    uint64_t done_count;
} stopwatch_t;

static size_t part_begin(const stopwatch_t *watch, size_t part)
{
    size_t steady_count = watch->trace->event_count - watch->trace->steady_begin;
    return watch->trace->steady_begin + steady_count * part / watch->part_count;
}

static dao_status_t refused(const stopwatch_t *watch)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s refused a block of trace %s", watch->peer->name,
                     watch->trace->name);
}

static const dao_bench_peer_t *empty_of(const stopwatch_t *watch)
{
    return watch->peer->is_ordered ? &dao_bench_empty_ordered : &dao_bench_empty;
}

/* Returns the processor time of a replay. */
static dao_status_t timed_replay(const stopwatch_t *watch, const dao_bench_peer_t *peer, void **slots,
                                 size_t part, double *out_ns)
{
    size_t begin = part_begin(watch, part);
    size_t count = part_begin(watch, part + 1) - begin;
    uint64_t begin_ns = dao_measure_thread_ns();
    size_t done = dao_bench_replay(peer, &watch->trace->events[begin], count, slots);
    *out_ns = (double)(dao_measure_thread_ns() - begin_ns);
    return done == count ? DAO_OK : refused(watch);
}

/* The first empty replay brings the events near, so that the other two find them alike. */
static dao_status_t run_part(stopwatch_t *watch, size_t part, bool is_timed)
{
    double ns[3] = {0};
    dao_status_t status = DAO_OK;
    for (int i = 0; i < 3 && status == DAO_OK; i++) {
        bool is_peer = i == 2;
        status = timed_replay(watch, is_peer ? watch->peer : empty_of(watch),
                              is_peer ? watch->slots : watch->empty_slots, part, &ns[i]);
    }
    if (status == DAO_OK && is_timed) {
        double pair_count = (double)(part_begin(watch, part + 1) - part_begin(watch, part)) / 2;
        watch->pair_ns[watch->done_count] = (ns[2] - ns[1]) / pair_count;
        watch->lock_ns[watch->done_count] = (double)dao_measure_lock_pairs(LOCK_PAIR_COUNT) / LOCK_PAIR_COUNT;
        watch->done_count++;
    }
    return status;
}

static dao_status_t build_up(const stopwatch_t *watch)
{
    size_t count = watch->trace->steady_begin;
    return dao_bench_replay(watch->peer, watch->trace->events, count, watch->slots) == count ? DAO_OK
                                                                                             : refused(watch);
}

/* Goes through the trace once, or as far as rounds are wanted. */
static dao_status_t run_pass(stopwatch_t *watch, bool is_first)
{
    dao_status_t status = build_up(watch);
    for (size_t part = 0; part < watch->part_count && status == DAO_OK; part++) {
        bool is_warm_up = part == 0 && (is_first || watch->part_count > 1);
        if (watch->done_count < watch->round_count) {
            status = run_part(watch, part, !is_warm_up);
        }
    }
    dao_bench_clear(watch->peer, watch->trace, watch->slots);
    return status;
}

/* ---- single operations ---- */

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static int compare_times(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static double median(double *values, uint64_t count)
{
    qsort(values, (size_t)count, sizeof(*values), compare_doubles);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* Times operations one by one; gives the number of them. */
static size_t time_operations(const dao_bench_peer_t *peer, const dao_alloc_event_t *events,
                              size_t event_count, void **slots, uint32_t *times)
{
    for (size_t i = 0; i < event_count; i++) {
        uint64_t begin_ns = dao_clock_ns();
        size_t done = dao_bench_replay(peer, &events[i], 1, slots);
        uint64_t elapsed_ns = dao_clock_ns() - begin_ns;
        if (done == 0) {
            return i;
        }
        times[i] = elapsed_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)elapsed_ns;
    }
    qsort(times, event_count, sizeof(*times), compare_times);
    return event_count;
}

/* Returns the time that so many of ten thousand take at most. */
static double percentile(const uint32_t *times, size_t count, size_t of_10000)
{
    size_t rank = (count - 1) * of_10000 / 10000;
    return times[rank];
}

/* The same without what an empty operation takes. */
static double net_percentile(const uint32_t *times, size_t count, size_t of_10000, double empty_ns)
{
    double ns = percentile(times, count, of_10000) - empty_ns;
    return ns > 0 ? ns : 0;
}

/* The clock and the empty call, which the median of empty operations tells, are taken off. */
static dao_status_t time_singles(const stopwatch_t *watch, dao_bench_figures_t *figures)
{
    size_t count = watch->trace->event_count - watch->trace->steady_begin;
    count = count > SINGLE_OPERATION_MAX ? SINGLE_OPERATION_MAX : count;
    const dao_alloc_event_t *events = &watch->trace->events[watch->trace->steady_begin];
    uint32_t *times = dao_host_calloc(count, sizeof(*times));
    if (times == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu times", count);
    }
    (void)time_operations(empty_of(watch), events, count, watch->empty_slots, times);
    double empty_ns = percentile(times, count, 5000);
    dao_status_t status = build_up(watch);
    if (status == DAO_OK && time_operations(watch->peer, events, count, watch->slots, times) < count) {
        status = refused(watch);
    }
    if (status == DAO_OK) {
        figures->p99_ns = net_percentile(times, count, 9900, empty_ns);
        figures->p999_ns = net_percentile(times, count, 9990, empty_ns);
        figures->p9999_ns = net_percentile(times, count, 9999, empty_ns);
        figures->max_ns = net_percentile(times, count, 10000, empty_ns);
    }
    dao_bench_clear(watch->peer, watch->trace, watch->slots);
    dao_host_free(times);
    return status;
}

dao_status_t dao_bench_speed(const dao_bench_peer_t *peer, const dao_alloc_trace_t *trace,
                             uint64_t round_count, dao_bench_figures_t *figures)
{
    uint64_t part_count = trace->pair_count / ROUND_PAIR_COUNT;
    stopwatch_t watch = {.peer = peer,
                         .trace = trace,
                         .part_count = part_count > 0 ? (size_t)part_count : 1,
                         .round_count = round_count,
                         .slots = dao_host_calloc(trace->slot_count, sizeof(void *)),
                         .empty_slots = dao_host_calloc(trace->slot_count, sizeof(void *)),
                         .pair_ns = dao_host_calloc((size_t)round_count, sizeof(double)),
                         .lock_ns = dao_host_calloc((size_t)round_count, sizeof(double))};
    dao_status_t status = DAO_OK;
    if (watch.slots == NULL || watch.empty_slots == NULL || watch.pair_ns == NULL || watch.lock_ns == NULL) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu slots", trace->slot_count);
    }
    for (bool is_first = true; status == DAO_OK && watch.done_count < round_count; is_first = false) {
        status = run_pass(&watch, is_first);
    }
    if (status == DAO_OK) {
        figures->ns_per_pair = median(watch.pair_ns, round_count);
        figures->lock_ns = median(watch.lock_ns, round_count);
        status = time_singles(&watch, figures);
    }
    dao_host_free(watch.lock_ns);
    dao_host_free(watch.pair_ns);
    dao_host_free(watch.empty_slots);
    dao_host_free(watch.slots);
    return status;
}
