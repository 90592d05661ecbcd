/* SPDX-License-Identifier: Apache-2.0 */
/* Traces the copies of a run: before and behind each one a host function on its stream looks at the clock.
   What a file tier reads and writes is not seen. One tracer at a time. */
#ifndef DAO_TOOLS_COPY_TRACER_H
#define DAO_TOOLS_COPY_TRACER_H

#include "backends/backend.h"
#include "base/threads/sync.h"
#include "tools/write/write_run_trace.h"

typedef struct dao_copy_tracer {
    const dao_backend_ops_t *base; /* that does the work */
    dao_backend_ops_t ops;         /* its table, but for copies */
    dao_mutex_t mutex;             /* guards `copies` and `has_failed` */
    struct dao_traced_copy *copies;
    bool has_failed;
} dao_copy_tracer_t;

/* Begins to trace a backend; the library is started with the table that this returns, and the tracer is
   ended after the library has. */
const dao_backend_ops_t *dao_copy_tracer_begin(dao_copy_tracer_t *tracer, const dao_backend_ops_t *base);

/* Ends it and adds what was seen to spans. Nothing for a tracer that was not begun. */
void dao_copy_tracer_end(dao_copy_tracer_t *tracer, dao_run_spans_t *spans);

#endif
