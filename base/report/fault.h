/* SPDX-License-Identifier: Apache-2.0 */
/* Fault points: named places where the library asks the system for something that can run out. A test arms
   one, and its n-th call fails as if the system had refused. Release builds compile them out. */
#ifndef DAO_BASE_FAULT_H
#define DAO_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#define DAO_FAULT_LIST(X)                                                                                    \
    X(HOST_MEMORY, "host-memory")                                                                            \
    X(THREAD, "thread")                                                                                      \
    X(THREADS_BARRIER, "threads-barrier")                                                                    \
    X(SYSTEM_MEMORY, "system-memory")                                                                        \
    X(FILE_READ, "file-read")                                                                                \
    X(FILE_WRITE, "file-write")                                                                              \
    X(FILE_SHORT, "file-short") /* the system moves fewer bytes than it was asked to */

typedef enum dao_fault {
#define DAO_FAULT_ENUMERATOR(name, text) DAO_FAULT_##name,
    DAO_FAULT_LIST(DAO_FAULT_ENUMERATOR)
#undef DAO_FAULT_ENUMERATOR
        DAO_FAULT_COUNT,
} dao_fault_t;

/* Arms all points, counted together. */
#define DAO_FAULT_ANY DAO_FAULT_COUNT

#if defined(DAO_FAULTS)

/* Returns true if the asking call has to fail. Threads: any. */
bool dao_fault_fires(dao_fault_t fault);

/* Makes the `skip_count`-th next call (0: the very next) of a point fail; with `persistent` all after it
   too. */
void dao_fault_arm(dao_fault_t fault, uint64_t skip_count, bool persistent);

/* Disarms. Returns the number of calls that failed since dao_fault_arm(). */
uint64_t dao_fault_disarm(void);

/* Returns the number of calls that failed since dao_fault_arm(). */
uint64_t dao_fault_fired_count(void);

/* Returns the number of calls of a point since dao_fault_arm(), while any was armed. */
uint64_t dao_fault_passed_count(dao_fault_t fault);

/* Has the next call of a point call a function first, which may wait for the test: so what happens meanwhile
   does not depend on time. Arms nothing. */
void dao_fault_meet(dao_fault_t fault, void (*function)(void *user), void *user);

/* Exempts this thread's calls from counting and failing, until it is called with false. For what a test does
   beside what it tests. */
void dao_fault_exempt(bool is_exempt);

/* Returns the name of a point, one of them and not all, for messages of tests. */
const char *dao_fault_text(dao_fault_t fault);

#else

static inline bool dao_fault_fires(dao_fault_t fault)
{
    (void)fault;
    return false;
}

/* A test that arms a point compiles in every build; here it sees no failure. */
static inline void dao_fault_arm(dao_fault_t fault, uint64_t skip_count, bool persistent)
{
    (void)fault;
    (void)skip_count;
    (void)persistent;
}

static inline uint64_t dao_fault_disarm(void)
{
    return 0;
}

static inline uint64_t dao_fault_fired_count(void)
{
    return 0;
}

static inline uint64_t dao_fault_passed_count(dao_fault_t fault)
{
    (void)fault;
    return 0;
}

static inline void dao_fault_meet(dao_fault_t fault, void (*function)(void *user), void *user)
{
    (void)fault;
    (void)function;
    (void)user;
}

static inline void dao_fault_exempt(bool is_exempt)
{
    (void)is_exempt;
}

static inline const char *dao_fault_text(dao_fault_t fault)
{
    (void)fault;
    return "";
}

#endif

#endif
