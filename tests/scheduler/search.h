/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a scenario under many seeds, each in a process of its own, so that what one leaves is nothing to the
   next and a seed alone says what happens. */
#ifndef DAO_TESTS_SCHEDULER_SEARCH_H
#define DAO_TESTS_SCHEDULER_SEARCH_H

#include "tests/scheduler/baton.h"

#include <stdbool.h>
#include <stdint.h>

/* Most threads of a scenario, the first of which is the process's own. */
#define SCENARIO_THREAD_MAX 4u

/* A small program of a few threads. Each runs its part; all have a generator of their own from the seed. */
typedef struct scenario {
    const char *name;
    uint32_t thread_count;                                                /* that run `part` */
    void (*begin)(const void *program, uint64_t *random);                 /* one thread; may be NULL */
    void (*part)(const void *program, uint32_t thread, uint64_t *random); /* all threads at once */
    void (*end)(const void *program); /* one thread: contents and books; may be NULL */
    const void *program;              /* handed to all three */
} scenario_t;

typedef struct search {
    uint64_t first_seed;
    uint64_t count;
    baton_defect_t defect;
    uint32_t rank; /* of BATON_DEFECT_DROP_LOCK */
    bool is_quiet; /* what a run prints is not shown */
} search_t;

typedef struct search_result {
    uint64_t run_count;  /* seeds that were run, the one that was found included */
    uint64_t found_seed; /* of the first run that did not end well, if has_found */
    bool has_found;
    int exit_status;          /* of that run, as waitpid() says it */
    uint64_t contended_count; /* of all runs */
    uint64_t hash;            /* of all runs */
} search_result_t;

/* Searches until a run does not end well. The first run, of seed 0, only says how many events there are. */
void search_run(const scenario_t *scenario, const search_t *search, search_result_t *out_result);

/* Starts the program once more without random addresses, which hashes of addresses would show, unless it
   already runs so. To be called first in main(). */
void search_prepare(char **arguments);

#endif
