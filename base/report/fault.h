/* SPDX-License-Identifier: Apache-2.0 */
/* Fault points: numbered places where the library takes something that can run out. A test arms one, and the
   n-th time it is reached the call fails as if the system had refused. In release builds the points cost
   nothing. */
#ifndef DAO_BASE_FAULT_H
#define DAO_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#define DAO_FAULT_LIST(X)                                                                                    \
    X(HOST_MEMORY, "host-memory")                                                                            \
    X(THREAD, "thread")                                                                                      \
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

/* Armed with this, every point counts together. */
#define DAO_FAULT_ANY DAO_FAULT_COUNT

#if defined(DAO_FAULTS)

/* Tells whether the call that asks has to fail now. Threads: any. */
bool dao_fault_fires(dao_fault_t fault);

/* Makes the `skip_count`-th next call (0: the very next) of a point fail; with `persistent` all after it too.
   */
void dao_fault_arm(dao_fault_t fault, uint64_t skip_count, bool persistent);

/* Lets everything succeed again. Gives the number of calls that failed since dao_fault_arm(). */
uint64_t dao_fault_disarm(void);

/* Spares this thread's calls, or no more: they do not count and do not fail. For what a test does beside what
   it tests. */
void dao_fault_spare(bool is_spared);

/* Gives a point's text, for messages of tests. */
const char *dao_fault_text(dao_fault_t fault);

#else

static inline bool dao_fault_fires(dao_fault_t fault)
{
    (void)fault;
    return false;
}

/* So that a test which arms a point compiles in every build; it sees a run without a failure. */
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

static inline void dao_fault_spare(bool is_spared)
{
    (void)is_spared;
}

static inline const char *dao_fault_text(dao_fault_t fault)
{
    (void)fault;
    return "";
}

#endif

#endif
