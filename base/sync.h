/* Threads, locks, conditions and the clock. Nothing outside this layer calls pthread or reads a clock. */
#ifndef DAO_BASE_SYNC_H
#define DAO_BASE_SYNC_H

#include "base/assert.h"

#include <dao/status.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A thread takes locks in the order of their ranks only, and no two of one rank; builds with assertions check it. */
typedef enum dao_rank {
    DAO_RANK_CONTEXT = 1,
    DAO_RANK_EXECUTOR = 2,
    DAO_RANK_RUNTIME = 3,
    DAO_RANK_THREADS = 4, /* which threads keep something for whom */
    DAO_RANK_FRONT = 5,   /* an allocator that is stacked over another one */
    DAO_RANK_ALLOCATOR = 6,
    DAO_RANK_UPSTREAM = 7, /* an allocator that another allocator takes from */
    DAO_RANK_BACKEND = 8,
    DAO_RANK_LEAF = 9, /* nothing is taken under it */
} dao_rank_t;

typedef struct dao_mutex {
    pthread_mutex_t handle;
    dao_rank_t rank;
} dao_mutex_t;

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

/* Locks it if nobody holds it; tells whether it did. */
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

void dao_cond_init(dao_cond_t *cond);
void dao_cond_finish(dao_cond_t *cond);
void dao_cond_wait(dao_cond_t *cond, dao_mutex_t *mutex);
void dao_cond_signal(dao_cond_t *cond);
void dao_cond_broadcast(dao_cond_t *cond);

/* Starts a thread named `name` (at most 15 characters are kept). DAO_ERR_THREAD if the system refuses. */
DAO_NODISCARD dao_status_t dao_thread_start(dao_thread_t *thread, const char *name, void *(*function)(void *),
                                            void *user);
void dao_thread_join(dao_thread_t *thread);

/* A number that is this thread's own while it lives; never 0. */
uintptr_t dao_thread_self(void);

/* What is called as a thread ends, with a value that is the thread's own. */
typedef struct dao_thread_exit {
    pthread_key_t handle;
} dao_thread_exit_t;

/* DAO_ERR_THREAD if the process has too many of them. */
DAO_NODISCARD dao_status_t dao_thread_exit_init(dao_thread_exit_t *thread_exit, void (*function)(void *user));

/* No thread has a value any more, or none of them will be told. */
void dao_thread_exit_finish(dao_thread_exit_t *thread_exit);

/* Sets this thread's value; NULL: nothing is called for it. The function may be called again in the same thread, for a
   value that was set while it ended. False without memory. */
bool dao_thread_exit_set(dao_thread_exit_t *thread_exit, void *user);

/* Gives the number of this process; a child of a fork has another one. */
int dao_process_self(void);

/* Gives the other threads a turn. */
void dao_thread_yield(void);

/* From now on calls `before` in a thread that forks, then `parent` in it and `child` in its copy, which has no other
   thread. Once for the life of the process. */
void dao_fork_hooks(void (*before)(void), void (*parent)(void), void (*child)(void));

/* Nanoseconds of a clock that never goes back. */
uint64_t dao_clock_ns(void);

/* Sleeps until dao_clock_ns() is at least `time_ns`. */
void dao_sleep_until(uint64_t time_ns);

#if defined(DAO_ASSERTS)
/* The number of dao_mutex locks that this thread holds. */
unsigned dao_mutex_held_count(void);
#define DAO_ASSERT_UNLOCKED() DAO_ASSERT(dao_mutex_held_count() == 0)
#else
#define DAO_ASSERT_UNLOCKED() ((void)0)
#endif

#endif
