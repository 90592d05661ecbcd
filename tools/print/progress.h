/* SPDX-License-Identifier: Apache-2.0 */
/* Prints how far a long work is, how fast it goes and how long it will take: nothing during the first second,
   then one line on a terminal that is rewritten, or a line every two seconds elsewhere. On standard error.
   Ctrl-C meanwhile leaves the line clean before it ends the process. */
#ifndef DAO_TOOLS_PROGRESS_H
#define DAO_TOOLS_PROGRESS_H

#include "base/threads/sync.h"

#include <stdatomic.h>

typedef struct dao_progress {
    bool is_running; /* the thread */
    dao_thread_t thread;
    _Atomic(const char *) phase;
    _Atomic uint64_t phase_ns; /* when it began */
    _Atomic uint64_t done_count;
    _Atomic uint64_t total_count;
    _Atomic bool is_stopping;
} dao_progress_t;

/* Starts telling, if `is_wanted`. A thread that cannot be had only means that nothing is told. */
void dao_progress_start(dao_progress_t *progress, bool is_wanted);

/* Begins a phase of `total_count` parts; `phase` stays valid until the end. */
void dao_progress_phase(dao_progress_t *progress, const char *phase, uint64_t total_count);

/* One part is done. Threads: any; takes no lock. */
static inline void dao_progress_step(dao_progress_t *progress)
{
    atomic_fetch_add_explicit(&progress->done_count, 1, memory_order_relaxed);
}

void dao_progress_stop(dao_progress_t *progress);

#endif
