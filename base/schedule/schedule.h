/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks for a scheduler of threads. In builds with DAO_SCHEDULE a test installs a table, and then decides at
   each lock, condition, thread start and atomic operation of the library which thread runs. Other builds have
   none of it. */
#ifndef DAO_BASE_SCHEDULE_H
#define DAO_BASE_SCHEDULE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A wait that no clock ends. */
#define DAO_SCHEDULE_NEVER UINT64_MAX

#if defined(DAO_SCHEDULE)

/* What a scheduler fills in. `what` names the operation ("lock", "atomic"), `object` is what it is about, and
   `from` the address of the code that asked. All but is_mine() are called on its own threads only. */
typedef struct dao_schedule_ops {
    bool (*is_mine)(void); /* whether this thread is one of the scheduler's */
    void (*point)(const char *what, const volatile void *object, const void *from); /* another may run */
    /* Waits for a wake of the object. Returns false if clock() has come to until_ns first. */
    bool (*wait)(const char *what, const volatile void *object, uint64_t until_ns, const void *from);
    void (*wake)(const volatile void *object, bool all); /* lets one or all that wait for it go on */
    void (*yield)(const void *from);                     /* the thread waits for others, whoever they are */
    uint64_t (*clock)(void);                             /* ns of its own time */
    /* A thread of its own: begin() makes a record, main() is what the thread runs with that, and begun()
       learns the handle, or that the system refused (NULL). join() returns when that thread is at its end. */
    void *(*begin)(const char *name, void *(*function)(void *), void *user);
    void *(*main)(void *record);
    void (*begun)(void *record, const pthread_t *handle);
    void (*join)(pthread_t handle);
    bool (*splits)(void); /* a defect on purpose: additions to atomics are a load and a store */
} dao_schedule_ops_t;

/* NULL: threads run as the system lets them. Set while there is one thread. */
extern const dao_schedule_ops_t *dao_schedule_ops;

/* Returns true if this thread is a scheduler's. What follows is called on such threads only, and calls the
   table. */
static inline bool dao_schedule_is_on(void)
{
    return __builtin_expect(dao_schedule_ops != NULL, 0) && dao_schedule_ops->is_mine();
}

void dao_schedule_point(const char *what, const volatile void *object, const void *from);
bool dao_schedule_wait(const char *what, const volatile void *object, uint64_t until_ns, const void *from);
void dao_schedule_wake(const volatile void *object, bool all);
void dao_schedule_yield(void);
uint64_t dao_schedule_clock(void);
void *dao_schedule_begin(const char *name, void *(*function)(void *), void *user);
void *dao_schedule_main(void *record);
void dao_schedule_begun(void *record, const pthread_t *handle);
void dao_schedule_join(pthread_t handle);

/* A point before an atomic operation, if this thread is a scheduler's. */
void dao_schedule_atomic(const volatile void *object);

/* As dao_schedule_atomic(); returns the object. */
static inline void *dao_schedule_at(const volatile void *object)
{
    if (__builtin_expect(dao_schedule_ops != NULL, 0)) {
        dao_schedule_atomic(object);
    }
    return (void *)(uintptr_t)object;
}

/* Returns true if additions are to be split, see dao_schedule_ops_t. */
static inline bool dao_schedule_splits(void)
{
    return dao_schedule_is_on() && dao_schedule_ops->splits();
}

#else

/* A constant, so that no compiler keeps what stands behind it. */
#define dao_schedule_is_on() false

/* What is called behind it alone. */
static inline void dao_schedule_point(const char *what, const volatile void *object, const void *from)
{
    (void)what, (void)object, (void)from;
}
static inline bool dao_schedule_wait(const char *what, const volatile void *object, uint64_t until_ns,
                                     const void *from)
{
    (void)what, (void)object, (void)until_ns, (void)from;
    return true;
}
static inline void dao_schedule_wake(const volatile void *object, bool all)
{
    (void)object, (void)all;
}
static inline void dao_schedule_yield(void)
{
}
static inline uint64_t dao_schedule_clock(void)
{
    return 0;
}
static inline void *dao_schedule_begin(const char *name, void *(*function)(void *), void *user)
{
    (void)name, (void)function, (void)user;
    return NULL;
}
static inline void *dao_schedule_main(void *record)
{
    return record;
}
static inline void dao_schedule_begun(void *record, const pthread_t *handle)
{
    (void)record, (void)handle;
}
static inline void dao_schedule_join(pthread_t handle)
{
    (void)handle;
}

#endif

#endif
