/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, locks, conditions and the clock. No other part of the library calls pthread or reads a clock. */
#ifndef DAO_BASE_SYNC_H
#define DAO_BASE_SYNC_H

#include "base/report/assert.h"
#include "base/schedule/schedule.h"

#include <dao/status.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A thread takes locks in the order of their ranks only, and no two of one rank. Builds with assertions check
   it. */
typedef enum dao_rank {
    DAO_RANK_STEP_BOUNDARY = 1, /* begin and end of steps; held while a callback is shown a plan */
    DAO_RANK_CONTEXT = 2,
    DAO_RANK_EXECUTOR = 3,
    DAO_RANK_RUNTIME = 4,
    DAO_RANK_THREADS = 5,   /* which threads cache blocks of which device */
    DAO_RANK_LAYER = 6,     /* a hardened allocator */
    DAO_RANK_STEP_PLAN = 7, /* requests and frees of a place with step plans */
    DAO_RANK_FRONT = 8,     /* slabs */
    DAO_RANK_ALLOCATOR = 9,
    DAO_RANK_STREAM_FENCES = 10, /* which streams may still use free blocks */
    DAO_RANK_BACKEND = 11,
    DAO_RANK_LEAF = 12, /* nothing is taken under it */
} dao_rank_t;

typedef struct dao_mutex {
    pthread_mutex_t handle;
    dao_rank_t rank;
} dao_mutex_t;

/* A lock for a few instructions. Uncontended, it costs one atomic exchange to take and one store to release.
   A thread that finds it taken spins, then yields, then sleeps. It may be held over longer work that is
   rare. */
typedef struct dao_spin {
    _Atomic uint32_t is_taken;
    dao_rank_t rank;
} dao_spin_t;

typedef struct dao_cond {
    pthread_cond_t handle;
} dao_cond_t;

typedef struct dao_thread {
    pthread_t handle;
} dao_thread_t;

void dao_mutex_init(dao_mutex_t *mutex, dao_rank_t rank);
void dao_mutex_finish(dao_mutex_t *mutex);
void dao_mutex_lock(dao_mutex_t *mutex);
void dao_mutex_unlock(dao_mutex_t *mutex);

/* Locks it if it is free. Returns true if it did. */
bool dao_mutex_try_lock(dao_mutex_t *mutex);

/* A mutex with static storage: `static dao_mutex_t lock = DAO_MUTEX_INITIALIZER(DAO_RANK_CONTEXT);` */
#define DAO_MUTEX_INITIALIZER(mutex_rank)                                                                    \
    {                                                                                                        \
        .handle = PTHREAD_MUTEX_INITIALIZER, .rank = (mutex_rank)                                            \
    }

/* A condition with static storage. */
#define DAO_COND_INITIALIZER                                                                                 \
    {                                                                                                        \
        .handle = PTHREAD_COND_INITIALIZER                                                                   \
    }

void dao_spin_init(dao_spin_t *spin, dao_rank_t rank);

/* The slow path of dao_spin_lock(): waits for a lock that is taken. */
void dao_spin_wait(dao_spin_t *spin);

#if defined(DAO_ASSERTS)
void dao_rank_take(dao_rank_t rank); /* asserts that nothing of this rank or a later one is held */
void dao_rank_give(dao_rank_t rank);
#else
static inline void dao_rank_take(dao_rank_t rank)
{
    (void)rank;
}
static inline void dao_rank_give(dao_rank_t rank)
{
    (void)rank;
}
#endif

/* Takes a lock while another one of its rank is held, without the check of ranks. The caller takes such locks
   in one order everywhere. */
static inline bool dao_spin_try_beside(dao_spin_t *spin)
{
    return atomic_exchange_explicit(&spin->is_taken, 1, memory_order_acquire) == 0;
}

static inline void dao_spin_lock_beside(dao_spin_t *spin)
{
    if (!dao_spin_try_beside(spin)) {
        dao_spin_wait(spin);
    }
}

static inline void dao_spin_unlock_beside(dao_spin_t *spin)
{
    atomic_store_explicit(&spin->is_taken, 0, memory_order_release);
    if (dao_schedule_is_on()) {
        dao_schedule_wake(spin, true);
    }
}

/* Takes a lock if it is free. Returns true if it did. */
static inline bool dao_spin_try(dao_spin_t *spin)
{
    dao_rank_take(spin->rank);
    bool is_mine = dao_spin_try_beside(spin);
    if (!is_mine) {
        dao_rank_give(spin->rank);
    }
    return is_mine;
}

static inline void dao_spin_lock(dao_spin_t *spin)
{
    dao_rank_take(spin->rank);
    dao_spin_lock_beside(spin);
}

static inline void dao_spin_unlock(dao_spin_t *spin)
{
    dao_spin_unlock_beside(spin);
    dao_rank_give(spin->rank);
}

/* Put off a pthread_cancel() of this thread around a call of the system in which it would end, with locks of
   the library taken. The state is handed from the first to the second. A few stores each. */
int dao_thread_cancel_defer(void);
void dao_thread_cancel_restore(int state);

void dao_cond_init(dao_cond_t *cond);
void dao_cond_finish(dao_cond_t *cond);
void dao_cond_wait(dao_cond_t *cond, dao_mutex_t *mutex);

/* As dao_cond_wait(), at the latest until dao_clock_ns() is time_ns. Returns false if that time has come. */
bool dao_cond_wait_until(dao_cond_t *cond, dao_mutex_t *mutex, uint64_t time_ns);

void dao_cond_signal(dao_cond_t *cond);
void dao_cond_broadcast(dao_cond_t *cond);

/* Starts a thread named `name` (at most 15 characters are kept). DAO_ERR_THREAD if the system refuses. */
DAO_NODISCARD dao_status_t dao_thread_start(dao_thread_t *thread, const char *name, void *(*function)(void *),
                                            void *user);
void dao_thread_join(dao_thread_t *thread);

/* Returns a number that no other living thread has; never 0. */
uintptr_t dao_thread_self(void);

/* A function that runs as a thread ends, with a value of the thread's own. */
typedef struct dao_thread_exit {
    pthread_key_t handle;
} dao_thread_exit_t;

/* DAO_ERR_THREAD if the process has too many of them. */
DAO_NODISCARD dao_status_t dao_thread_exit_init(dao_thread_exit_t *thread_exit, void (*function)(void *user));

/* Threads that still have a value end without the call. */
void dao_thread_exit_finish(dao_thread_exit_t *thread_exit);

/* Sets this thread's value; NULL: no call. A value that is set while the thread ends causes another call.
   Returns false if there is no memory. */
bool dao_thread_exit_set(dao_thread_exit_t *thread_exit, void *user);

/* Returns the id of this process; a forked child has another one. */
int dao_process_self(void);

/* Lets other threads run. */
void dao_thread_yield(void);

/* Registers hooks of fork() for the life of the process: `before` and `parent` run in the forking thread,
   `child` in the child's only thread. */
void dao_fork_hooks(void (*before)(void), void (*parent)(void), void (*child)(void));

/* The thread that forks holds such a lock meanwhile, so that the child finds it free and what it guards
   whole. For a lock with static storage and the rank of a leaf that is taken before a call looks whether this
   is a child: a line of the file that has it. */
#define DAO_HELD_OVER_FORK(mutex)                                                                            \
    __attribute__((constructor)) static void hold_over_fork(void)                                            \
    {                                                                                                        \
        dao_fork_hold(&(mutex));                                                                             \
    }

#define DAO_FORK_LOCK_MAX 8

/* See DAO_HELD_OVER_FORK; at most DAO_FORK_LOCK_MAX locks, before there are threads. */
void dao_fork_hold(dao_mutex_t *mutex);

/* Returns ns of a clock that never goes back. */
uint64_t dao_clock_ns(void);

/* Returns a count that grows at a steady rate and costs a few ns to read: the processor's time stamp counter
   where there is one, else dao_clock_ns(). */
static inline uint64_t dao_ticks(void)
{
    if (dao_schedule_is_on()) {
        return dao_schedule_clock();
    }
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return dao_clock_ns();
#endif
}

/* Converts a dao_ticks() of this process to dao_clock_ns(). The first call measures the rate, which takes a
   few milliseconds. */
uint64_t dao_ticks_to_ns(uint64_t ticks);

/* Makes every thread of the process that runs pass a full barrier: what this thread has stored before, they
   see from then on, and what they have stored before, this thread sees. So their side of a hand-over needs
   none. False where the system has no such call: nothing is promised then. A few microseconds. */
bool dao_threads_barrier(void);

/* Sleeps until dao_clock_ns() is at least `time_ns`. */
void dao_sleep_until(uint64_t time_ns);

#if defined(DAO_ASSERTS)
/* Returns the number of locks that this thread holds, without STEP_BOUNDARY: callbacks of the program run
   under that one, and calls that need it are refused there. */
unsigned dao_mutex_held_count(void);
#define DAO_ASSERT_UNLOCKED() DAO_ASSERT(dao_mutex_held_count() == 0)
#else
#define DAO_ASSERT_UNLOCKED() ((void)0)
#endif

#endif
