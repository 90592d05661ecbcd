/* Several threads on one place, each with a trace and slots of its own: what a pair costs all of them together, by the
   clock on the wall and in processor time, the replay itself included. The clock tells what threads gain, if nothing else
   wants the processors; processor time tells what they cost each other, whatever else runs: waits without sleep, and lines
   of the cache that they share.

       worker    builds up, warms up, is ready ... | timed: the rest of its trace | clears
       crew      waits until all are ready, goes                                  ^ the last one's end counts  */
#include "tools/bench.h"

#include "base/error.h"
#include "base/host.h"
#include "base/measure.h"
#include "base/sync.h"

/* One thread and all of them take turns so often, and the best of each counts: what else the machine does makes it only
   slower. */
enum { REPEAT_COUNT = 5 };

/* The steady part is warm after one of so many parts. */
enum { WARM_UP_PARTS = 4 };

typedef struct crew {
    const dao_bench_peer_t *peer;
    dao_mutex_t lock;
    dao_cond_t changed;
    size_t ready_count; /* guarded, as what follows */
    bool is_going;
} crew_t;

typedef struct worker {
    crew_t *crew;
    const dao_alloc_trace_t *trace;
    void **slots;
    dao_thread_t thread;
    bool is_done; /* no block was refused */
    uint64_t end_ns;
    uint64_t cpu_ns;
} worker_t;

/* Of a pair. */
typedef struct pair_cost {
    double wall_ns;
    double cpu_ns;
} pair_cost_t;

static void wait_for_go(crew_t *crew)
{
    dao_mutex_lock(&crew->lock);
    crew->ready_count++;
    dao_cond_broadcast(&crew->changed);
    while (!crew->is_going) {
        dao_cond_wait(&crew->changed, &crew->lock);
    }
    dao_mutex_unlock(&crew->lock);
}

static size_t warm_end(const dao_alloc_trace_t *trace)
{
    return trace->steady_begin + (trace->event_count - trace->steady_begin) / WARM_UP_PARTS;
}

static void *work(void *user)
{
    worker_t *worker = user;
    const dao_bench_peer_t *peer = worker->crew->peer;
    const dao_alloc_trace_t *trace = worker->trace;
    size_t begin = warm_end(trace);
    size_t count = trace->event_count - begin;
    worker->is_done = dao_bench_replay(peer, trace->events, begin, worker->slots) == begin;
    wait_for_go(worker->crew);
    uint64_t begin_ns = dao_measure_thread_ns();
    worker->is_done =
        worker->is_done && dao_bench_replay(peer, &trace->events[begin], count, worker->slots) == count;
    worker->end_ns = dao_clock_ns();
    worker->cpu_ns = dao_measure_thread_ns() - begin_ns;
    dao_bench_clear(peer, trace, worker->slots);
    return NULL;
}

/* Lets those that were started go, and waits for them. */
static uint64_t go(crew_t *crew, worker_t *workers, size_t started_count)
{
    dao_mutex_lock(&crew->lock);
    while (crew->ready_count < started_count) {
        dao_cond_wait(&crew->changed, &crew->lock);
    }
    crew->is_going = true;
    uint64_t begin_ns = dao_clock_ns();
    dao_cond_broadcast(&crew->changed);
    dao_mutex_unlock(&crew->lock);
    uint64_t elapsed_ns = 0;
    for (size_t i = 0; i < started_count; i++) {
        dao_thread_join(&workers[i].thread);
        uint64_t own_ns = workers[i].end_ns - begin_ns;
        elapsed_ns = own_ns > elapsed_ns ? own_ns : elapsed_ns;
    }
    return elapsed_ns;
}

static dao_status_t run_crew(crew_t *crew, worker_t *workers, size_t count, pair_cost_t *out_cost)
{
    dao_status_t status = DAO_OK;
    size_t started_count = 0;
    double pair_count = 0;
    for (; started_count < count && status == DAO_OK; started_count++) {
        worker_t *worker = &workers[started_count];
        worker->crew = crew;
        pair_count += (double)(worker->trace->event_count - warm_end(worker->trace)) / 2;
        status = dao_thread_start(&worker->thread, "bench", work, worker);
    }
    started_count -= status != DAO_OK ? 1 : 0;
    uint64_t elapsed_ns = go(crew, workers, started_count);
    uint64_t cpu_ns = 0;
    for (size_t i = 0; i < started_count && status == DAO_OK; i++) {
        cpu_ns += workers[i].cpu_ns;
        if (!workers[i].is_done) {
            status = dao_error(DAO_ERR_NO_HOST_MEMORY, "%s refused a block of trace %s", crew->peer->name,
                               workers[i].trace->name);
        }
    }
    *out_cost =
        (pair_cost_t){.wall_ns = (double)elapsed_ns / pair_count, .cpu_ns = (double)cpu_ns / pair_count};
    return status;
}

/* Once, on a device of its own. */
static dao_status_t time_once(const dao_bench_peer_t *peer, worker_t *workers, size_t count,
                              pair_cost_t *out_cost)
{
    crew_t crew = {.peer = peer};
    uint64_t room_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        room_bytes += dao_bench_room(workers[i].trace);
    }
    dao_status_t status = peer->is_device ? dao_bench_device_start(peer, room_bytes, true) : DAO_OK;
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_init(&crew.lock, DAO_RANK_LEAF);
    dao_cond_init(&crew.changed);
    status = run_crew(&crew, workers, count, out_cost);
    dao_cond_finish(&crew.changed);
    dao_mutex_finish(&crew.lock);
    if (peer->is_device) {
        dao_bench_device_stop();
    }
    return status;
}

static void keep_best(pair_cost_t *best, const pair_cost_t *cost)
{
    best->wall_ns = best->wall_ns == 0 || cost->wall_ns < best->wall_ns ? cost->wall_ns : best->wall_ns;
    best->cpu_ns = best->cpu_ns == 0 || cost->cpu_ns < best->cpu_ns ? cost->cpu_ns : best->cpu_ns;
}

/* One thread alone, and all of them, in turns. */
static dao_status_t time_best(const dao_bench_peer_t *peer, worker_t *workers, size_t count,
                              pair_cost_t *out_one, pair_cost_t *out_all)
{
    *out_one = *out_all = (pair_cost_t){0};
    dao_status_t status = DAO_OK;
    for (int i = 0; i < 2 * REPEAT_COUNT && status == DAO_OK; i++) {
        bool is_alone = i % 2 == 0;
        pair_cost_t cost;
        status = time_once(peer, workers, is_alone ? 1 : count, &cost);
        if (status == DAO_OK) {
            keep_best(is_alone ? out_one : out_all, &cost);
        }
    }
    return status;
}

dao_status_t dao_bench_threads(const dao_bench_peer_t *peer, const dao_alloc_trace_t *traces,
                               size_t trace_count, size_t thread_count, dao_bench_figures_t *figures)
{
    worker_t *workers = dao_host_calloc(thread_count, sizeof(*workers));
    dao_status_t status = workers != NULL ? DAO_OK : DAO_ERR_NO_HOST_MEMORY;
    for (size_t i = 0; i < thread_count && status == DAO_OK; i++) {
        workers[i].trace = &traces[i % trace_count];
        workers[i].slots = dao_host_calloc(workers[i].trace->slot_count, sizeof(void *));
        status = workers[i].slots != NULL ? DAO_OK : DAO_ERR_NO_HOST_MEMORY;
    }
    if (status != DAO_OK) {
        status = dao_error(status, "no memory for %zu threads", thread_count);
    }
    pair_cost_t one = {0};
    pair_cost_t all = {0};
    if (status == DAO_OK) {
        status = time_best(peer, workers, thread_count, &one, &all);
    }
    if (status == DAO_OK) {
        figures->threads_ns = all.wall_ns;
        figures->threads_scaling = one.wall_ns / all.wall_ns;
        figures->threads_cpu_ratio = all.cpu_ns / one.cpu_ns;
    }
    for (size_t i = 0; workers != NULL && i < thread_count; i++) {
        dao_host_free(workers[i].slots);
    }
    dao_host_free(workers);
    return status;
}
