/* SPDX-License-Identifier: Apache-2.0 */
/* Threads in turns:

       current ----> [ 0 main | 1 running | 2 wants a lock | 3 asleep until t ]
                        waits for its word, a futex, as all do but the current one

   Only the thread that has the baton reads or writes this file's data. It is built without ThreadSanitizer:
   the hand-over must not look like an order between the threads. */
#define _GNU_SOURCE
#include "tests/scheduler/baton.h"

#include "base/numbers/random.h"
#include "base/threads/sync.h"

#include <dao/status.h>

#include <dlfcn.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREAD_COUNT_MAX 64
#define EVENT_NS         100     /* what an event takes */
#define YIELD_NS         10000   /* and a thread that waits for others by yielding */
#define EVENT_COUNT_MAX  2000000 /* a program with more does not end: usual ones have some thousands */
#define RUN_COUNT_MAX    2000    /* events of one thread while others wait for the baton */
#define POINT_COUNT_MAX  3 /* changes of priority: finds what needs so many switches at the right place */
#define PRIORITY_BEGIN   1000000 /* above those that changed */

typedef enum state { STATE_RUNNABLE, STATE_WAITING, STATE_ENDED } state_t;

typedef struct record {
    _Atomic uint32_t word; /* 1: has the baton */
    state_t state;
    bool is_timed_out;
    char name[16];
    const char *what; /* the last point: the operation, its object and who asked */
    const volatile void *object;
    const void *from;
    uint64_t until_ns;
    int64_t priority; /* higher runs first */
    void *(*function)(void *);
    void *user;
    pthread_t handle;
    bool has_handle;
    int exit_round;
} record_t;

typedef enum mode { MODE_PCT, MODE_WALK, MODE_SWARM, MODE_COUNT } mode_t_;

static struct {
    baton_config_t config;
    record_t threads[THREAD_COUNT_MAX];
    uint32_t thread_count;
    uint32_t current;
    uint64_t random;
    mode_t_ mode;
    uint32_t stay_of_16; /* how often, of 16 events, the thread keeps the baton */
    uint64_t left_out;   /* kinds of operations, a bit each */
    bool wakes_for_nothing, times_out_early;
    uint64_t points[POINT_COUNT_MAX];
    uint32_t point_count;
    int64_t lowest_priority;
    uint32_t run_count; /* events since the baton changed hands */
    uint32_t wake_count;
    uint64_t clock_ns;
    baton_result_t result;
} baton;

static pthread_key_t exit_key;
static _Thread_local record_t *own;

static uint64_t draw(uint64_t count)
{
    return dao_random_next(&baton.random) % count;
}

static void count_event(const char *what)
{
    baton.result.event_count++;
    baton.clock_ns += EVENT_NS;
    baton.result.hash = (baton.result.hash ^ (uint64_t)what[0] ^ (uint64_t)baton.current << 8) *
                        UINT64_C(0x100000001b3); /* FNV-1a's prime */
    if (baton.result.event_count > EVENT_COUNT_MAX) {
        baton_fail(BATON_EXIT_ENDLESS, "%d events, and no end", EVENT_COUNT_MAX);
    }
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    (void)syscall(SYS_futex, word, operation, value, NULL, NULL, 0); /* the word says whether it worked */
}

static void wait_for_baton(record_t *record)
{
    while (atomic_load_explicit(&record->word, memory_order_acquire) == 0) {
        futex(&record->word, FUTEX_WAIT_PRIVATE, 0);
    }
    atomic_store_explicit(&record->word, 0, memory_order_relaxed);
}

/* The other thread runs, and this one waits for its next turn, or for none if it has ended. */
static void hand_to(uint32_t next)
{
    record_t *record = own;
    if (&baton.threads[next] == record) {
        return;
    }
    baton.result.switch_count++;
    baton.run_count = 0;
    baton.current = next;
    atomic_store_explicit(&baton.threads[next].word, 1, memory_order_release);
    futex(&baton.threads[next].word, FUTEX_WAKE_PRIVATE, 1);
    if (record->state != STATE_ENDED) {
        wait_for_baton(record);
    }
}

static void wake(record_t *record, bool is_timed_out)
{
    record->state = STATE_RUNNABLE;
    record->is_timed_out = is_timed_out;
    record->until_ns = DAO_SCHEDULE_NEVER;
}

/* The thread whose time comes first; NULL if all wait without one. */
static record_t *earliest(void)
{
    record_t *found = NULL;
    for (uint32_t i = 0; i < baton.thread_count; i++) {
        record_t *record = &baton.threads[i];
        if (record->state == STATE_WAITING && record->until_ns != DAO_SCHEDULE_NEVER &&
            (found == NULL || record->until_ns < found->until_ns)) {
            found = record;
        }
    }
    return found;
}

/* Wakes those whose time has come. Returns the number of threads that can run. */
static uint32_t count_runnable(void)
{
    record_t *record = earliest();
    if (record != NULL && baton.times_out_early && draw(256) == 0 && baton.clock_ns < record->until_ns) {
        baton.clock_ns = record->until_ns;
    }
    while (record != NULL && record->until_ns <= baton.clock_ns) {
        wake(record, true);
        record = earliest();
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < baton.thread_count; i++) {
        count += baton.threads[i].state == STATE_RUNNABLE;
    }
    return count;
}

/* The thread with the highest priority. */
static uint32_t choose_by_priority(void)
{
    uint32_t best = THREAD_COUNT_MAX;
    for (uint32_t i = 0; i < baton.thread_count; i++) {
        if (baton.threads[i].state == STATE_RUNNABLE &&
            (best == THREAD_COUNT_MAX || baton.threads[i].priority > baton.threads[best].priority)) {
            best = i;
        }
    }
    return best;
}

/* One of `count` that can run. */
static uint32_t choose_any(uint32_t count)
{
    uint64_t skip = draw(count);
    uint32_t i = 0;
    while (baton.threads[i].state != STATE_RUNNABLE || skip-- > 0) {
        i++;
    }
    return i;
}

static uint32_t choose(uint32_t count)
{
    return baton.mode == MODE_PCT ? choose_by_priority() : choose_any(count);
}

static void demote(record_t *record)
{
    record->priority = --baton.lowest_priority;
}

/* Lets another thread run if the seed says so. This one can run, too. */
static void reschedule(bool is_yield)
{
    uint32_t count = count_runnable();
    if (count == 1) {
        return;
    }
    uint64_t at = baton.result.contended_count++;
    bool is_change = is_yield || ++baton.run_count > RUN_COUNT_MAX;
    for (uint32_t i = 0; i < baton.point_count; i++) {
        is_change = is_change || (baton.mode == MODE_PCT && baton.points[i] == at);
    }
    if (is_change) {
        demote(own);
    }
    if (is_change || baton.mode == MODE_PCT || draw(16) >= baton.stay_of_16) {
        hand_to(choose(count));
    }
}

/* This thread cannot run: another one does. */
static void pass_on(void)
{
    uint32_t count = count_runnable();
    record_t *first = earliest();
    if (count == 0 && first == NULL) {
        baton_fail(BATON_EXIT_DEADLOCK, "each thread waits for another: deadlock, or a lost wake");
    }
    if (count == 0) {
        baton.clock_ns = first->until_ns;
        count = count_runnable();
    }
    hand_to(choose(count));
}

static void note(const char *what, const volatile void *object, const void *from)
{
    own->what = what;
    own->object = object;
    own->from = from;
    count_event(what);
}

static bool is_mine(void)
{
    return own != NULL;
}

static void point(const char *what, const volatile void *object, const void *from)
{
    note(what, object, from);
    reschedule(false);
}

/* Whether the lock is one that is dropped on purpose. */
static bool is_dropped(const char *what, const volatile void *object)
{
    if (baton.config.defect != BATON_DEFECT_DROP_LOCK) {
        return false;
    }
    return (strcmp(what, "lock") == 0 &&
            ((const volatile dao_mutex_t *)object)->rank == (dao_rank_t)baton.config.rank) ||
           (strcmp(what, "spin") == 0 &&
            ((const volatile dao_spin_t *)object)->rank == (dao_rank_t)baton.config.rank);
}

static bool wait_for(const char *what, const volatile void *object, uint64_t until_ns, const void *from)
{
    note(what, object, from);
    if (is_dropped(what, object)) {
        return false;
    }
    if (baton.wakes_for_nothing && strcmp(what, "condition") == 0 && draw(16) == 0) {
        reschedule(true);
        return true;
    }
    own->state = STATE_WAITING;
    own->until_ns = until_ns;
    own->is_timed_out = false;
    pass_on();
    return !own->is_timed_out;
}

static void wake_waiters(const volatile void *object, bool all)
{
    record_t *waiting[THREAD_COUNT_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < baton.thread_count; i++) {
        record_t *record = &baton.threads[i];
        if (record->state == STATE_WAITING && record->object == object) {
            waiting[count++] = record;
        }
    }
    if (count == 0 || (baton.config.defect == BATON_DEFECT_DROP_WAKE &&
                       strcmp(waiting[0]->what, "condition") == 0 && baton.wake_count++ % 2 == 0)) {
        return;
    }
    if (!all) {
        waiting[0] = waiting[draw(count)];
        count = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        wake(waiting[i], false);
    }
}

static void yield_for_others(const void *from)
{
    note("yield", NULL, from);
    baton.clock_ns += YIELD_NS;
    reschedule(true);
}

static uint64_t clock_now(void)
{
    return baton.clock_ns;
}

static record_t *record_create(const char *name)
{
    if (baton.thread_count == THREAD_COUNT_MAX) {
        baton_fail(BATON_EXIT_THREADS, "more than %d threads", THREAD_COUNT_MAX);
    }
    record_t *record = &baton.threads[baton.thread_count++];
    *record = (record_t){.what = "start",
                         .until_ns = DAO_SCHEDULE_NEVER,
                         .priority = PRIORITY_BEGIN + (int64_t)draw(PRIORITY_BEGIN)};
    (void)snprintf(record->name, sizeof(record->name), "%s", name);
    return record;
}

static void *thread_begin(const char *name, void *(*function)(void *), void *user)
{
    record_t *record = record_create(name);
    record->function = function;
    record->user = user;
    return record;
}

static void *thread_main(void *user)
{
    record_t *record = user;
    wait_for_baton(record);
    own = record;
    (void)pthread_setspecific(exit_key, record);
    return record->function(record->user);
}

static void thread_begun(void *user, const pthread_t *handle)
{
    record_t *record = user;
    if (handle == NULL) {
        record->state = STATE_ENDED;
        return;
    }
    record->handle = *handle;
    record->has_handle = true;
    point("begin", record, __builtin_return_address(0));
}

/* Runs as a thread ends, again and again: the library's own functions that run then still have points. The
   last time, the thread is at its end. */
static void thread_end(void *user)
{
    record_t *record = user;
    if (++record->exit_round < PTHREAD_DESTRUCTOR_ITERATIONS) {
        (void)pthread_setspecific(exit_key, record);
        return;
    }
    note("end", record, NULL);
    record->state = STATE_ENDED;
    wake_waiters(record, true);
    pass_on();
    own = NULL;
}

static void thread_join(pthread_t handle)
{
    for (uint32_t i = 0; i < baton.thread_count; i++) {
        record_t *record = &baton.threads[i];
        if (record->has_handle && pthread_equal(record->handle, handle)) {
            point("join", record, __builtin_return_address(0));
            while (record->state != STATE_ENDED) {
                (void)wait_for("join", record, DAO_SCHEDULE_NEVER, __builtin_return_address(0)); /* woken */
            }
            record->has_handle = false; /* the system may use it again */
            return;
        }
    }
}

static bool splits(void)
{
    return baton.config.defect == BATON_DEFECT_SPLIT_ADD;
}

static const dao_schedule_ops_t ops = {.is_mine = is_mine,
                                       .point = point,
                                       .wait = wait_for,
                                       .wake = wake_waiters,
                                       .yield = yield_for_others,
                                       .clock = clock_now,
                                       .begin = thread_begin,
                                       .main = thread_main,
                                       .begun = thread_begun,
                                       .join = thread_join,
                                       .splits = splits};

/* The child of fork() has one thread. */
static void forget_others(void)
{
    for (uint32_t i = 0; i < baton.thread_count; i++) {
        if (&baton.threads[i] != own) {
            baton.threads[i].state = STATE_ENDED;
            baton.threads[i].has_handle = false;
        }
    }
}

void baton_prepare(void)
{
    if (pthread_key_create(&exit_key, thread_end) != 0 || pthread_atfork(NULL, NULL, forget_others) != 0) {
        abort();
    }
}

void baton_begin(const baton_config_t *config)
{
    memset(&baton, 0, sizeof(baton));
    baton.config = *config;
    baton.random = config->seed;
    baton.mode = (mode_t_)(config->seed % MODE_COUNT);
    baton.stay_of_16 = (uint32_t)(UINT64_C(8) + 2 * draw(4));
    baton.point_count = 1 + (uint32_t)draw(POINT_COUNT_MAX);
    for (uint32_t i = 0; i < baton.point_count; i++) {
        baton.points[i] = draw(config->event_count != 0 ? config->event_count : 1000);
    }
    if (baton.mode == MODE_SWARM) {
        baton.left_out = dao_random_next(&baton.random);
        baton.wakes_for_nothing = draw(2) == 0;
        baton.times_out_early = draw(2) == 0;
    }
    own = record_create("main");
    dao_schedule_ops = &ops;
}

void baton_end(baton_result_t *out_result)
{
    for (uint32_t i = 1; i < baton.thread_count; i++) {
        if (baton.threads[i].state != STATE_ENDED) {
            baton_fail(BATON_EXIT_THREADS, "thread %u (%s) is left", i, baton.threads[i].name);
        }
    }
    dao_schedule_ops = NULL;
    own = NULL;
    *out_result = baton.result;
}

bool baton_leaves_out(unsigned kind)
{
    return (baton.left_out >> kind & 1) != 0;
}

/* Prints where an address of code is, by addr2line if that is there: the function around what is inlined. */
static void print_place(const void *from)
{
    Dl_info info;
    if (from == NULL || dladdr(from, &info) == 0) {
        return;
    }
    char command[PATH_MAX + 64], line[256], place[256];
    size_t offset = (size_t)((const char *)from - (const char *)info.dli_fbase) - 1; /* within the call */
    (void)snprintf(place, sizeof(place), "%s+0x%zx", info.dli_fname, offset);
    (void)snprintf(command, sizeof(command), "addr2line -e '%s' -s -f -i -p 0x%zx 2>/dev/null",
                   info.dli_fname, offset);
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): a tool of the developer's
    while (pipe != NULL && fgets(line, sizeof(line), pipe) != NULL) {
        const char *text = strncmp(line, " (inlined by) ", 14) == 0 ? line + 14 : line;
        (void)snprintf(place, sizeof(place), "%.*s", (int)strcspn(text, "\n"), text);
    }
    if (pipe != NULL) {
        (void)pclose(pipe);
    }
    (void)fprintf(stderr, ", %s", place);
}

_Noreturn void baton_fail(int exit_code, const char *format, ...)
{
    static const char *const states[] = {"can run", "waits", "ended"};
    dao_schedule_ops = NULL; /* the process ends; nothing is scheduled any more */
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(stderr, "seed %llu, event %llu, thread %u: ", (unsigned long long)baton.config.seed,
                  (unsigned long long)baton.result.event_count, baton.current);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    if (exit_code == BATON_EXIT_CHECK && dao_last_status() != DAO_OK) {
        (void)fprintf(stderr, "\n    the last error of the library: %s", dao_last_message());
    }
    for (uint32_t i = 0; i < baton.thread_count; i++) {
        const record_t *record = &baton.threads[i];
        if (record->state != STATE_ENDED) {
            (void)fprintf(stderr, "\n    thread %u (%s) %s: %s", i, record->name, states[record->state],
                          record->what);
            print_place(record->from);
        }
    }
    (void)fprintf(stderr, "\n");
    _exit(exit_code);
}
