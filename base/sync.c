/* pthread and the system clock behind names of our own, with lock ranks checked. */
#define _GNU_SOURCE
#include "base/sync.h"

#include "base/error.h"
#include "base/fault.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND UINT64_C(1000000000)

void dao_assert_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

#if defined(DAO_ASSERTS)

/* Bit r is set while this thread holds a lock of rank r. */
static _Thread_local unsigned held_ranks;

unsigned dao_mutex_held_count(void)
{
    return (unsigned)__builtin_popcount(held_ranks);
}

static void rank_take(const dao_mutex_t *mutex)
{
    DAO_ASSERT(held_ranks >> mutex->rank == 0); /* nothing of this rank or a later one is held */
    held_ranks |= 1u << mutex->rank;
}

static void rank_give(const dao_mutex_t *mutex)
{
    DAO_ASSERT((held_ranks >> mutex->rank & 1u) != 0);
    held_ranks &= ~(1u << mutex->rank);
}

#else

static void rank_take(const dao_mutex_t *mutex)
{
    (void)mutex;
}

static void rank_give(const dao_mutex_t *mutex)
{
    (void)mutex;
}

#endif

/* These calls fail only if they are misused. */
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

void dao_mutex_lock(dao_mutex_t *mutex)
{
    rank_take(mutex);
    must(pthread_mutex_lock(&mutex->handle));
}

void dao_mutex_unlock(dao_mutex_t *mutex)
{
    must(pthread_mutex_unlock(&mutex->handle));
    rank_give(mutex);
}

bool dao_mutex_try_lock(dao_mutex_t *mutex)
{
    if (pthread_mutex_trylock(&mutex->handle) != 0) {
        return false;
    }
    rank_take(mutex);
    return true;
}

void dao_cond_init(dao_cond_t *cond)
{
    must(pthread_cond_init(&cond->handle, NULL));
}

void dao_cond_finish(dao_cond_t *cond)
{
    must(pthread_cond_destroy(&cond->handle));
}

void dao_cond_wait(dao_cond_t *cond, dao_mutex_t *mutex)
{
    must(pthread_cond_wait(&cond->handle, &mutex->handle));
}

void dao_cond_signal(dao_cond_t *cond)
{
    must(pthread_cond_signal(&cond->handle));
}

void dao_cond_broadcast(dao_cond_t *cond)
{
    must(pthread_cond_broadcast(&cond->handle));
}

dao_status_t dao_thread_start(dao_thread_t *thread, const char *name, void *(*function)(void *), void *user)
{
    int result =
        dao_fault_fires(DAO_FAULT_THREAD) ? EAGAIN : pthread_create(&thread->handle, NULL, function, user);
    if (result != 0) {
        return dao_error(DAO_ERR_THREAD, "thread \"%s\" could not be started: %s; raise the limit of threads",
                         name, strerror(result));
    }
    char short_name[16]; /* the system's limit */
    (void)snprintf(short_name, sizeof(short_name), "%s", name);
    (void)pthread_setname_np(thread->handle, short_name); /* for debuggers only */
    return DAO_OK;
}

void dao_thread_join(dao_thread_t *thread)
{
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
    (void)sched_yield();
}

void dao_fork_hooks(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    (void)pthread_atfork(before, parent, child); /* fails only without memory: forks are then not noticed */
}

uint64_t dao_clock_ns(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_MONOTONIC, &now));
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

void dao_sleep_until(uint64_t time_ns)
{
    struct timespec until = {.tv_sec = (time_t)(time_ns / NS_PER_SECOND),
                             .tv_nsec = (long)(time_ns % NS_PER_SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}
