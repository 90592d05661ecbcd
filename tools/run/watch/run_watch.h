/* SPDX-License-Identifier: Apache-2.0 */
/* Watches the copies of a run: before and behind each one a host function on its stream looks at the clock.
   What a file tier reads and writes is not seen. One watch at a time. */
#ifndef DAO_TOOLS_RUN_WATCH_H
#define DAO_TOOLS_RUN_WATCH_H

#include "backends/backend.h"
#include "base/threads/sync.h"
#include "tools/write/write_run_trace.h"

typedef struct dao_run_watch {
    const dao_backend_ops_t *base; /* that does the work */
    dao_backend_ops_t ops;         /* its table, but for copies */
    dao_mutex_t mutex;             /* guards `copies` and `has_failed` */
    struct dao_watched_copy *copies;
    bool has_failed;
} dao_run_watch_t;

/* Begins to watch a backend; the library is started with the table that this returns, and the watch is
   ended after the library has. */
const dao_backend_ops_t *dao_run_watch_begin(dao_run_watch_t *watch, const dao_backend_ops_t *base);

/* Ends it and adds what was seen to spans. Nothing for a watch that was not begun. */
void dao_run_watch_end(dao_run_watch_t *watch, dao_run_spans_t *spans);

#endif
