/* SPDX-License-Identifier: Apache-2.0 */
/* A scheduler of real threads by a seed. One thread at a time holds the baton and runs; at each lock,
   condition, thread start and atomic operation of the library the seed says who has it next. A seed gives the
   same order of events each time, also under ThreadSanitizer, which sees the order that locks and atomics
   make and not that of the baton. Time is the baton's own: it goes on with events, and jumps where all
   threads wait.

   A third of the seeds draws priorities and a few points at which they change (PCT), a third walks at random,
   and a third (swarm) also leaves out kinds of operations, wakes conditions for nothing and lets timeouts
   come early. */
#ifndef DAO_TESTS_SCHEDULER_BATON_H
#define DAO_TESTS_SCHEDULER_BATON_H

#include <stdbool.h>
#include <stdint.h>

/* Defects that a test turns on to see that they are found. */
typedef enum baton_defect {
    BATON_DEFECT_NONE,
    BATON_DEFECT_DROP_LOCK, /* a lock of one rank is entered although it is taken */
    BATON_DEFECT_SPLIT_ADD, /* atomic additions are a load and a store */
    BATON_DEFECT_DROP_WAKE, /* every other wake of a condition is lost */
} baton_defect_t;

typedef struct baton_config {
    uint64_t seed;
    uint32_t event_count; /* contended events of a usual run, for the points of PCT; 0: not known */
    baton_defect_t defect;
    uint32_t rank; /* of BATON_DEFECT_DROP_LOCK: a dao_rank_t */
} baton_config_t;

typedef struct baton_result {
    uint64_t hash;            /* of all events in their order */
    uint64_t event_count;     /* all of them */
    uint64_t contended_count; /* those at which more than one thread could run */
    uint64_t switch_count;    /* those after which another thread ran */
} baton_result_t;

/* How a process ends that found something. */
enum { BATON_EXIT_CHECK = 10, BATON_EXIT_DEADLOCK = 11, BATON_EXIT_ENDLESS = 12, BATON_EXIT_THREADS = 13 };

/* Makes the key by which it sees threads end, before the library makes its own. Once a process. */
void baton_prepare(void);

/* Schedules this thread, and those that it and they start by dao_thread_start(), until baton_end(). */
void baton_begin(const baton_config_t *config);
void baton_end(baton_result_t *out_result);

/* Returns true if the seed leaves out operations of a kind; `kind` below 64. */
bool baton_leaves_out(unsigned kind);

/* Prints what went wrong, the seed, and each thread's last point, and ends the process. */
_Noreturn void baton_fail(int exit_code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ends the process if the condition does not hold. */
#define BATON_CHECK(condition)                                                                               \
    ((condition) ? (void)0                                                                                   \
                 : baton_fail(BATON_EXIT_CHECK, "%s:%d: %s does not hold", __FILE__, __LINE__, #condition))

#endif
