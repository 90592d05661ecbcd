/* Several threads on one place, each with a trace and slots of its own: what a pair costs all of them together, by the
   clock on the wall, the replay itself included.

       worker    builds up, warms up, is ready ... | timed: the rest of its trace | clears
       crew      waits until all are ready, goes                                  ^ the last one's end counts  */
#include "tools/bench.h"

#include "base/error.h"
#include "base/host.h"
#include "base/sync.h"

/* Each is done so often, and the best counts: what else the machine does makes it only slower. */
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
} worker_t;

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
    worker->is_done =
        worker->is_done && dao_bench_replay(peer, &trace->events[begin], count, worker->slots) == count;
    worker->end_ns = dao_clock_ns();
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

static dao_status_t run_crew(crew_t *crew, worker_t *workers, size_t count, double *out_ns)
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
    for (size_t i = 0; i < started_count && status == DAO_OK; i++) {
        if (!workers[i].is_done) {
            status = dao_error(DAO_ERR_NO_HOST_MEMORY, "%s refused a block of trace %s", crew->peer->name,
                               workers[i].trace->name);
        }
    }
    *out_ns = (double)elapsed_ns / pair_count;
    return status;
}

/* Once, on a device of its own. */
static dao_status_t time_once(const dao_bench_peer_t *peer, worker_t *workers, size_t count, double *out_ns)
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
    status = run_crew(&crew, workers, count, out_ns);
    dao_cond_finish(&crew.changed);
    dao_mutex_finish(&crew.lock);
    if (peer->is_device) {
        dao_bench_device_stop();
    }
    return status;
}

static dao_status_t time_best(const dao_bench_peer_t *peer, worker_t *workers, size_t count, double *out_ns)
{
    dao_status_t status = time_once(peer, workers, count, out_ns);
    for (int i = 1; i < REPEAT_COUNT && status == DAO_OK; i++) {
        double ns = 0;
        status = time_once(peer, workers, count, &ns);
        *out_ns = status == DAO_OK && ns < *out_ns ? ns : *out_ns;
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
    double one_ns = 0;
    double all_ns = 0;
    if (status == DAO_OK) {
        status = time_best(peer, workers, 1, &one_ns);
    }
    if (status == DAO_OK) {
        status = time_best(peer, workers, thread_count, &all_ns);
    }
    if (status == DAO_OK) {
        figures->threads_ns = all_ns;
        figures->threads_scaling = one_ns / all_ns;
    }
    for (size_t i = 0; workers != NULL && i < thread_count; i++) {
        dao_host_free(workers[i].slots);
    }
    dao_host_free(workers);
    return status;
}
