/* SPDX-License-Identifier: Apache-2.0 */
/* pthread and the system clock, with a check of lock ranks. A thread of a scheduler (schedule.h) takes the
   same locks, but waits for nothing but its turn. */
#define _GNU_SOURCE
#include "base/threads/sync.h"

#include "base/report/error.h"
#include "base/report/fault.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND UINT64_C(1000000000)

/* How long the rate of dao_ticks() is measured: long against the time that reading the clocks takes. */
#define TICKS_MEASURE_NS UINT64_C(4000000)

#if defined(DAO_ASSERTS)

/* Bit r is set while this thread holds a lock of rank r. */
static _Thread_local unsigned held_ranks;

unsigned dao_mutex_held_count(void)
{
    return (unsigned)__builtin_popcount(held_ranks & ~(1u << DAO_RANK_STEP_BOUNDARY));
}

void dao_rank_take(dao_rank_t rank)
{
    DAO_ASSERT(held_ranks >> rank == 0);
    held_ranks |= 1u << rank;
}

void dao_rank_give(dao_rank_t rank)
{
    DAO_ASSERT((held_ranks >> rank & 1u) != 0);
    held_ranks &= ~(1u << rank);
}

#endif

/* ---- a barrier in all threads ---- */

/* Kernels since 4.14; a sandbox may forbid it. */
bool dao_threads_barrier(void)
{
    enum { UNASKED, THERE, MISSING };
    static _Atomic int system;
    int error = errno;
    if (atomic_load(&system) == UNASKED) {
        bool is_there = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
        atomic_store(&system, is_there ? THERE : MISSING);
    }
    bool is_made = !dao_fault_fires(DAO_FAULT_THREADS_BARRIER) && atomic_load(&system) == THERE &&
                   syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
    errno = error;
    return is_made;
}

/* For calls that fail only on misuse. */
static void must(int result)
{
    DAO_ASSERT(result == 0);
    (void)result;
}

void dao_mutex_init(dao_mutex_t *mutex, dao_rank_t rank)
{
    must(pthread_mutex_init(&mutex->handle, NULL));
    mutex->rank = rank;
}

void dao_mutex_finish(dao_mutex_t *mutex)
{
    must(pthread_mutex_destroy(&mutex->handle));
}

/* `from` is the address of the code that asked for it. */
static void lock_handle(dao_mutex_t *mutex, const void *from)
{
    if (!dao_schedule_is_on()) {
        must(pthread_mutex_lock(&mutex->handle));
        return;
    }
    dao_schedule_point("lock", mutex, from);
    while (pthread_mutex_trylock(&mutex->handle) != 0) {
        if (!dao_schedule_wait("lock", mutex, DAO_SCHEDULE_NEVER, from)) {
            return; /* a defect on purpose: the lock is dropped */
        }
    }
}

static void unlock_handle(dao_mutex_t *mutex)
{
    must(pthread_mutex_unlock(&mutex->handle));
    if (dao_schedule_is_on()) { /* it may be gone: what follows looks at its address alone */
        dao_schedule_wake(mutex, true);
    }
}

void dao_mutex_lock(dao_mutex_t *mutex)
{
    dao_rank_take(mutex->rank);
    lock_handle(mutex, __builtin_return_address(0));
}

void dao_mutex_unlock(dao_mutex_t *mutex)
{
    dao_rank_give(mutex->rank); /* before the unlock: the next owner may free the struct around the mutex */
    unlock_handle(mutex);
    if (dao_schedule_is_on()) {
        dao_schedule_point("unlock", mutex, __builtin_return_address(0));
    }
}

/* Reads of a taken lock between two yields, and yields before the thread sleeps. */
#define SPIN_COUNT    64
#define YIELD_COUNT   64
#define SPIN_SLEEP_NS 20000

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void dao_spin_init(dao_spin_t *spin, dao_rank_t rank)
{
    atomic_init(&spin->is_taken, 0);
    spin->rank = rank;
}

void dao_spin_wait(dao_spin_t *spin)
{
    if (dao_schedule_is_on()) {
        const void *from = __builtin_return_address(0);
        while (dao_schedule_wait("spin", spin, DAO_SCHEDULE_NEVER, from) && !dao_spin_try_beside(spin)) {
        }
        return;
    }
    for (uint64_t round = 0;; round++) {
        for (int i = 0; i < SPIN_COUNT; i++) {
            if (atomic_load_explicit(&spin->is_taken, memory_order_relaxed) == 0 &&
                dao_spin_try_beside(spin)) {
                return;
            }
            pause_briefly();
        }
        if (round < YIELD_COUNT) {
            dao_thread_yield();
        } else {
            dao_sleep_until(dao_clock_ns() + SPIN_SLEEP_NS);
        }
    }
}

bool dao_mutex_try_lock(dao_mutex_t *mutex)
{
    if (dao_schedule_is_on()) {
        dao_schedule_point("try lock", mutex, __builtin_return_address(0));
    }
    if (pthread_mutex_trylock(&mutex->handle) != 0) {
        return false;
    }
    dao_rank_take(mutex->rank);
    return true;
}

int dao_thread_cancel_defer(void)
{
    int state;
    must(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state));
    return state;
}

void dao_thread_cancel_restore(int state)
{
    int deferred;
    must(pthread_setcancelstate(state, &deferred));
}

void dao_cond_init(dao_cond_t *cond)
{
    must(pthread_cond_init(&cond->handle, NULL));
}

void dao_cond_finish(dao_cond_t *cond)
{
    must(pthread_cond_destroy(&cond->handle));
}

/* The part of pthread_cond_clockwait() of a scheduler's thread. Nothing runs between the unlock and the wait.
   Returns false if until_ns has come. */
static bool cond_wait_scheduled(dao_cond_t *cond, dao_mutex_t *mutex, uint64_t until_ns, const void *from)
{
    unlock_handle(mutex);
    bool is_woken = dao_schedule_wait("condition", cond, until_ns, from);
    lock_handle(mutex, from);
    return is_woken;
}

void dao_cond_wait(dao_cond_t *cond, dao_mutex_t *mutex)
{
    if (dao_schedule_is_on()) {
        (void)cond_wait_scheduled(cond, mutex, DAO_SCHEDULE_NEVER, __builtin_return_address(0)); /* woken */
        return;
    }
    int state = dao_thread_cancel_defer();
    must(pthread_cond_wait(&cond->handle, &mutex->handle));
    dao_thread_cancel_restore(state);
}

static struct timespec timespec_of(uint64_t time_ns)
{
    return (struct timespec){.tv_sec = (time_t)(time_ns / NS_PER_SECOND),
                             .tv_nsec = (long)(time_ns % NS_PER_SECOND)};
}

bool dao_cond_wait_until(dao_cond_t *cond, dao_mutex_t *mutex, uint64_t time_ns)
{
    if (dao_schedule_is_on()) {
        return cond_wait_scheduled(cond, mutex, time_ns, __builtin_return_address(0));
    }
    struct timespec until = timespec_of(time_ns);
    int state = dao_thread_cancel_defer();
    int result = pthread_cond_clockwait(&cond->handle, &mutex->handle, CLOCK_MONOTONIC, &until);
    dao_thread_cancel_restore(state);
    must(result == ETIMEDOUT ? 0 : result);
    return result != ETIMEDOUT;
}

void dao_cond_signal(dao_cond_t *cond)
{
    if (dao_schedule_is_on()) {
        dao_schedule_point("signal", cond, __builtin_return_address(0));
        dao_schedule_wake(cond, false);
    }
    must(pthread_cond_signal(&cond->handle));
}

void dao_cond_broadcast(dao_cond_t *cond)
{
    if (dao_schedule_is_on()) {
        dao_schedule_point("broadcast", cond, __builtin_return_address(0));
        dao_schedule_wake(cond, true);
    }
    must(pthread_cond_broadcast(&cond->handle));
}

/* Signals of what a thread itself does: while one of these is blocked the system ends the process without a
   handler, and so without the report of a sanitizer or a crash reporter. */
static const int own_signals[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};

/* Starts a thread with all other signals blocked: the program's handlers run on its own threads. */
static int create_without_signals(pthread_t *handle, const char *name, void *(*function)(void *), void *user)
{
    void *record = NULL;
    if (dao_schedule_is_on()) {
        record = dao_schedule_begin(name, function, user);
        function = dao_schedule_main;
        user = record;
    }
    sigset_t all, before;
    (void)sigfillset(&all);
    for (size_t i = 0; i < sizeof(own_signals) / sizeof(own_signals[0]); i++) {
        (void)sigdelset(&all, own_signals[i]);
    }
    must(pthread_sigmask(SIG_SETMASK, &all, &before)); /* a thread inherits the mask of its creator */
    int result = pthread_create(handle, NULL, function, user);
    must(pthread_sigmask(SIG_SETMASK, &before, NULL));
    if (record != NULL) {
        dao_schedule_begun(record, result == 0 ? handle : NULL);
    }
    return result;
}

dao_status_t dao_thread_start(dao_thread_t *thread, const char *name, void *(*function)(void *), void *user)
{
    int result = dao_fault_fires(DAO_FAULT_THREAD)
                     ? EAGAIN
                     : create_without_signals(&thread->handle, name, function, user);
    if (result != 0) {
        return dao_error(DAO_ERR_THREAD, "thread \"%s\" could not be started: %s; raise the limit of threads",
                         name, strerror(result));
    }
    if (!dao_schedule_is_on()) { /* a scheduler has the name, and runs too many programs for files in /proc */
        char short_name[16];     /* the system's limit */
        (void)snprintf(short_name, sizeof(short_name), "%s", name);
        (void)pthread_setname_np(thread->handle, short_name); /* for debuggers only */
    }
    return DAO_OK;
}

void dao_thread_join(dao_thread_t *thread)
{
    if (dao_schedule_is_on()) {
        dao_schedule_join(thread->handle);
    }
    must(pthread_join(thread->handle, NULL));
}

uintptr_t dao_thread_self(void)
{
    static _Thread_local char own;
    return (uintptr_t)&own;
}

dao_status_t dao_thread_exit_init(dao_thread_exit_t *thread_exit, void (*function)(void *user))
{
    int result =
        dao_fault_fires(DAO_FAULT_THREAD) ? EAGAIN : pthread_key_create(&thread_exit->handle, function);
    if (result != 0) {
        return dao_error(DAO_ERR_THREAD, "the ends of threads cannot be seen: %s", strerror(result));
    }
    return DAO_OK;
}

void dao_thread_exit_finish(dao_thread_exit_t *thread_exit)
{
    must(pthread_key_delete(thread_exit->handle));
}

bool dao_thread_exit_set(dao_thread_exit_t *thread_exit, void *user)
{
    return !dao_fault_fires(DAO_FAULT_THREAD) && pthread_setspecific(thread_exit->handle, user) == 0;
}

int dao_process_self(void)
{
    return (int)getpid();
}

void dao_thread_yield(void)
{
    if (dao_schedule_is_on()) {
        dao_schedule_yield();
        return;
    }
    (void)sched_yield();
}

void dao_fork_hooks(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    (void)pthread_atfork(before, parent, child); /* fails only without memory; forks then go unnoticed */
}

static dao_mutex_t *fork_locks[DAO_FORK_LOCK_MAX];
static uint32_t fork_lock_count;

/* All of one rank, and nothing is taken under them: so no thread that has one waits for another. */
static void fork_locks_take(void)
{
    for (uint32_t i = 0; i < fork_lock_count; i++) {
        lock_handle(fork_locks[i], __builtin_return_address(0));
    }
}

static void fork_locks_give(void)
{
    for (uint32_t i = fork_lock_count; i-- > 0;) {
        unlock_handle(fork_locks[i]);
    }
}

void dao_fork_hold(dao_mutex_t *mutex)
{
    DAO_ASSERT(mutex->rank == DAO_RANK_LEAF && fork_lock_count < DAO_FORK_LOCK_MAX);
    if (fork_lock_count == 0) { /* first of all hooks: these locks are taken last, and given back first */
        dao_fork_hooks(fork_locks_take, fork_locks_give, fork_locks_give);
    }
    fork_locks[fork_lock_count++] = mutex;
}

uint64_t dao_clock_ns(void)
{
    if (dao_schedule_is_on()) {
        return dao_schedule_clock();
    }
    struct timespec now;
    must(clock_gettime(CLOCK_MONOTONIC, &now));
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* The same moment on both clocks. */
typedef struct moment {
    uint64_t ticks;
    uint64_t ns;
} moment_t;

/* Reads both clocks together. Takes the closest of a few pairs, in case the thread is interrupted between two
   reads. */
static moment_t moment_now(void)
{
    moment_t best = {0};
    uint64_t best_gap = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = dao_ticks();
        uint64_t ns = dao_clock_ns();
        uint64_t gap = dao_ticks() - before;
        if (gap < best_gap) {
            best_gap = gap;
            best = (moment_t){.ticks = before + gap / 2, .ns = ns};
        }
    }
    return best;
}

static dao_mutex_t rate_lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF);
static moment_t rate_origin; /* guarded by the lock */
static double tick_ns;       /* ns a tick; 0: not measured yet; guarded, too */

uint64_t dao_ticks_to_ns(uint64_t ticks)
{
    dao_mutex_lock(&rate_lock);
    if (tick_ns == 0) {
        moment_t begin = moment_now();
        dao_sleep_until(begin.ns + TICKS_MEASURE_NS);
        rate_origin = moment_now();
        tick_ns = (double)(rate_origin.ns - begin.ns) / (double)(rate_origin.ticks - begin.ticks);
    }
    moment_t origin = rate_origin;
    double ns_per_tick = tick_ns;
    dao_mutex_unlock(&rate_lock);
    double offset_ns = (double)(int64_t)(ticks - origin.ticks) * ns_per_tick;
    return origin.ns + (uint64_t)(int64_t)offset_ns;
}

void dao_sleep_until(uint64_t time_ns)
{
    while (dao_schedule_is_on() && dao_schedule_clock() < time_ns) {
        (void)dao_schedule_wait("sleep", &time_ns, time_ns,
                                __builtin_return_address(0)); /* the clock ends it */
    }
    if (dao_schedule_is_on()) {
        return;
    }
    struct timespec until = timespec_of(time_ns);
    int state = dao_thread_cancel_defer();
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
    dao_thread_cancel_restore(state);
}
