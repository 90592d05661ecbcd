/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads on one place, each with a trace and slots of its own and on a processor of its own: what a
   pair costs all of them together, by the clock on the wall and in processor time, the replay itself
   included. The clock tells what threads gain; processor time tells what they cost each other, whatever else
   runs: waits without sleep, and lines of the cache that they share.

       worker    builds up, warms up, is ready ... | meet | slice | meet | slice | ... | clears
       crew      waits until all are ready, goes          ^ from the first one's begin to the last one's end

   What else the machine does makes a slice only slower. So the same is done in rounds, one thread and all of
   them in turns; of each slice the fastest round counts, and rounds go on until no slice gets much faster. A
   slice is short: two processors need to be undisturbed that long at a time, not for a whole trace. */
#include "bench/alloc/bench.h"

#include "base/memory/host.h"
#include "base/memory/measure.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

#include <string.h>

enum {
    SLICE_COUNT_MAX = 64,     /* of the timed part of a trace */
    SLICE_EVENT_COUNT = 2048, /* at least, of one of several */
    ROUND_COUNT_MIN = 10,     /* one thread, and all of them */
    ROUND_COUNT_MAX = 24,
    STEADY_COUNT = 4, /* rounds without a gain that end it */
    LINE_BYTES = 128, /* two lines of the cache, which a processor may fetch together */
};

/* What counts as a gain of a round: this part of the time. */
#define GAIN_SHARE 0.01

/* The steady part is warm after one of so many parts. */
enum { WARM_UP_PARTS = 4 };

typedef struct crew {
    const dao_bench_peer_t *peer;
    size_t slice_count;
    _Atomic uint64_t met_count; /* workers that came to a slice, of all slices */
    dao_mutex_t lock;
    dao_cond_t changed;
    size_t ready_count;  /* guarded, as what follows */
    size_t worker_count; /* once they are going */
    bool is_going;
} crew_t;

typedef struct bench_worker {
    crew_t *crew;
    uint32_t index;
    const dao_alloc_trace_t *trace;
    void **slots;
    dao_thread_t thread;
    bool is_done;                        /* no block was refused */
    uint64_t begins_ns[SLICE_COUNT_MAX]; /* of slices */
    uint64_t ends_ns[SLICE_COUNT_MAX];
    uint64_t cpu_ns;
} bench_worker_t;

/* The best of the rounds so far. */
typedef struct tally {
    double pair_count;                  /* of a round */
    uint64_t walls_ns[SLICE_COUNT_MAX]; /* 0 where there is no slice */
    double overlaps[SLICE_COUNT_MAX];   /* the part of it in which all threads ran */
    double cpu_ns;
} tally_t;

/* Returns the least overlap of a slice. */
static double least_overlap_of(const tally_t *tally)
{
    double least = 1;
    for (size_t i = 0; i < SLICE_COUNT_MAX; i++) {
        least = tally->walls_ns[i] > 0 && tally->overlaps[i] < least ? tally->overlaps[i] : least;
    }
    return least;
}

static double wall_ns_of(const tally_t *tally)
{
    double wall_ns = 0;
    for (size_t i = 0; i < SLICE_COUNT_MAX; i++) {
        wall_ns += (double)tally->walls_ns[i];
    }
    return wall_ns;
}

/* ---- a worker ---- */

static size_t wait_for_go(crew_t *crew)
{
    dao_mutex_lock(&crew->lock);
    crew->ready_count++;
    dao_cond_broadcast(&crew->changed);
    while (!crew->is_going) {
        dao_cond_wait(&crew->changed, &crew->lock);
    }
    size_t worker_count = crew->worker_count;
    dao_mutex_unlock(&crew->lock);
    return worker_count;
}

/* Comes to the next slice, and waits for the others without sleep. */
static void meet(crew_t *crew, uint64_t expected_count)
{
    atomic_fetch_add(&crew->met_count, 1);
    while (atomic_load(&crew->met_count) < expected_count) {
        dao_thread_yield();
    }
}

static size_t warm_end(const dao_alloc_trace_t *trace)
{
    return trace->steady_begin + (trace->event_count - trace->steady_begin) / WARM_UP_PARTS;
}

static size_t slice_count_for(const dao_alloc_trace_t *trace)
{
    size_t count = (trace->event_count - warm_end(trace)) / SLICE_EVENT_COUNT;
    count = count < SLICE_COUNT_MAX ? count : SLICE_COUNT_MAX;
    return count > 0 ? count : 1;
}

/* Returns where a slice of a worker's timed part begins, or behind the last one that part's end. */
static size_t slice_begin(const bench_worker_t *worker, size_t slice)
{
    size_t begin = warm_end(worker->trace);
    return begin + (worker->trace->event_count - begin) * slice / worker->crew->slice_count;
}

static void work_slice(bench_worker_t *worker, size_t slice)
{
    const dao_alloc_event_t *events = worker->trace->events;
    size_t begin = slice_begin(worker, slice);
    size_t count = slice_begin(worker, slice + 1) - begin;
    uint64_t cpu_begin_ns = dao_measure_thread_ns();
    worker->begins_ns[slice] = dao_clock_ns();
    worker->is_done = worker->is_done &&
                      dao_bench_replay(worker->crew->peer, &events[begin], count, worker->slots) == count;
    worker->ends_ns[slice] = dao_clock_ns();
    worker->cpu_ns += dao_measure_thread_ns() - cpu_begin_ns;
}

static void *work(void *user)
{
    bench_worker_t *worker = user;
    const dao_alloc_trace_t *trace = worker->trace;
    (void)dao_measure_stay(worker->index); /* else the system moves it about, which is slower at worst */
    worker->cpu_ns = 0;
    size_t begin = warm_end(trace);
    worker->is_done = dao_bench_replay(worker->crew->peer, trace->events, begin, worker->slots) == begin;
    size_t worker_count = wait_for_go(worker->crew);
    for (size_t i = 0; i < worker->crew->slice_count; i++) {
        meet(worker->crew, (i + 1) * worker_count);
        work_slice(worker, i);
    }
    dao_bench_clear(worker->crew->peer, trace, worker->slots);
    return NULL;
}

/* ---- a round ---- */

/* Lets those that were started go, and waits for them. */
static void go(crew_t *crew, bench_worker_t *workers, size_t started_count)
{
    dao_mutex_lock(&crew->lock);
    while (crew->ready_count < started_count) {
        dao_cond_wait(&crew->changed, &crew->lock);
    }
    crew->worker_count = started_count;
    crew->is_going = true;
    dao_cond_broadcast(&crew->changed);
    dao_mutex_unlock(&crew->lock);
    for (size_t i = 0; i < started_count; i++) {
        dao_thread_join(&workers[i].thread);
    }
}

/* Keeps what was faster than in the rounds before. */
static void keep_best(tally_t *best, const bench_worker_t *workers, size_t count)
{
    double cpu_ns = 0;
    best->pair_count = 0;
    for (size_t i = 0; i < count; i++) {
        const dao_alloc_trace_t *trace = workers[i].trace;
        best->pair_count += (double)(trace->event_count - warm_end(trace)) / 2;
        cpu_ns += (double)workers[i].cpu_ns;
    }
    best->cpu_ns = best->cpu_ns == 0 || cpu_ns < best->cpu_ns ? cpu_ns : best->cpu_ns;
    for (size_t slice = 0; slice < workers->crew->slice_count; slice++) {
        uint64_t begin_ns = UINT64_MAX, end_ns = 0, last_begin_ns = 0, first_end_ns = UINT64_MAX;
        for (size_t i = 0; i < count; i++) {
            begin_ns = workers[i].begins_ns[slice] < begin_ns ? workers[i].begins_ns[slice] : begin_ns;
            end_ns = workers[i].ends_ns[slice] > end_ns ? workers[i].ends_ns[slice] : end_ns;
            last_begin_ns =
                workers[i].begins_ns[slice] > last_begin_ns ? workers[i].begins_ns[slice] : last_begin_ns;
            first_end_ns =
                workers[i].ends_ns[slice] < first_end_ns ? workers[i].ends_ns[slice] : first_end_ns;
        }
        uint64_t wall_ns = end_ns - begin_ns;
        if (wall_ns > 0 && (best->walls_ns[slice] == 0 || wall_ns < best->walls_ns[slice])) {
            uint64_t shared_ns = first_end_ns > last_begin_ns ? first_end_ns - last_begin_ns : 0;
            best->walls_ns[slice] = wall_ns;
            best->overlaps[slice] = (double)shared_ns / (double)wall_ns;
        }
    }
}

static dao_status_t run_crew(crew_t *crew, bench_worker_t *workers, size_t count, tally_t *best)
{
    dao_status_t status = DAO_OK;
    size_t started_count = 0;
    for (; started_count < count && status == DAO_OK; started_count++) {
        bench_worker_t *worker = &workers[started_count];
        worker->crew = crew;
        status = dao_thread_start(&worker->thread, "bench", work, worker);
    }
    started_count -= status != DAO_OK ? 1 : 0;
    go(crew, workers, started_count);
    for (size_t i = 0; i < started_count && status == DAO_OK; i++) {
        if (!workers[i].is_done) {
            status = dao_error(DAO_ERR_NO_HOST_MEMORY, "%s refused a block of trace %s", crew->peer->name,
                               workers[i].trace->name);
        }
    }
    if (status == DAO_OK) {
        keep_best(best, workers, count);
    }
    return status;
}

/* A round, on a device of its own. */
static dao_status_t time_round(const dao_bench_peer_t *peer, bench_worker_t *workers, size_t count,
                               tally_t *best)
{
    crew_t crew = {.peer = peer, .slice_count = slice_count_for(workers->trace)};
    uint64_t room_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        room_bytes += dao_bench_room(workers[i].trace);
    }
    bool needs_library = dao_bench_needs_library(peer);
    dao_status_t status = needs_library ? dao_bench_device_start(peer, room_bytes, true) : DAO_OK;
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_init(&crew.lock, DAO_RANK_LEAF);
    dao_cond_init(&crew.changed);
    status = run_crew(&crew, workers, count, best);
    dao_cond_finish(&crew.changed);
    dao_mutex_finish(&crew.lock);
    if (needs_library) {
        dao_bench_device_stop();
    }
    return status;
}

/* One thread alone, and all of them, in turns, until neither gets faster. */
static dao_status_t time_best(const dao_bench_peer_t *peer, bench_worker_t *workers, size_t count,
                              tally_t *one, tally_t *all)
{
    dao_status_t status = DAO_OK;
    int steady_count = 0;
    for (int i = 0; i < ROUND_COUNT_MAX && (i < ROUND_COUNT_MIN || steady_count < STEADY_COUNT); i++) {
        double before_ns = wall_ns_of(one) + wall_ns_of(all);
        status = time_round(peer, workers, 1, one);
        if (status == DAO_OK) {
            status = time_round(peer, workers, count, all);
        }
        if (status != DAO_OK) {
            return status;
        }
        bool has_gained = wall_ns_of(one) + wall_ns_of(all) < before_ns * (1 - GAIN_SHARE);
        steady_count = has_gained ? 0 : steady_count + 1;
    }
    return DAO_OK;
}

/* Slots that share no line of the cache with those of another thread, all NULL. */
static void **slots_create(size_t count)
{
    size_t size_bytes = dao_round_up(count * sizeof(void *), LINE_BYTES);
    void **slots = dao_host_aligned(size_bytes, LINE_BYTES);
    return slots != NULL ? memset(slots, 0, size_bytes) : NULL;
}

dao_status_t dao_bench_threads(const dao_bench_peer_t *peer, const dao_alloc_trace_t *traces,
                               size_t trace_count, size_t thread_count, dao_bench_figures_t *figures)
{
    bench_worker_t *workers = dao_host_calloc(thread_count, sizeof(*workers));
    dao_status_t status = workers != NULL ? DAO_OK : DAO_ERR_NO_HOST_MEMORY;
    for (size_t i = 0; i < thread_count && status == DAO_OK; i++) {
        workers[i].index = (uint32_t)i;
        workers[i].trace = &traces[i % trace_count];
        workers[i].slots = slots_create(workers[i].trace->slot_count);
        status = workers[i].slots != NULL ? DAO_OK : DAO_ERR_NO_HOST_MEMORY;
    }
    if (status != DAO_OK) {
        status = dao_error(status, "no memory for %zu threads", thread_count);
    }
    tally_t one = {0};
    tally_t all = {0};
    if (status == DAO_OK) {
        status = time_best(peer, workers, thread_count, &one, &all);
    }
    if (status == DAO_OK) {
        figures->threads_ns = wall_ns_of(&all) / all.pair_count;
        figures->threads_scaling = wall_ns_of(&one) / one.pair_count / figures->threads_ns;
        figures->threads_cpu_ratio = all.cpu_ns / all.pair_count / (one.cpu_ns / one.pair_count);
        figures->threads_overlap = least_overlap_of(&all);
    }
    for (size_t i = 0; workers != NULL && i < thread_count; i++) {
        dao_host_free(workers[i].slots);
    }
    dao_host_free(workers);
    return status;
}
