/* SPDX-License-Identifier: Apache-2.0 */
/* A run of an executor, real or simulated, as Chrome's trace events: a thread for kernels, and one for each
   direction of copies. */
#ifndef DAO_TOOLS_WRITE_RUN_TRACE_H
#define DAO_TOOLS_WRITE_RUN_TRACE_H

#include "tools/model/step_trace.h"

#include <stdio.h>

/* Symbol, name of the thread. */
#define DAO_RUN_LANE_LIST(X)                                                                                 \
    X(COMPUTE, "kernels")                                                                                    \
    X(IN, "copies in")                                                                                       \
    X(OUT, "copies out")                                                                                     \
    X(FILE, "file")

typedef enum dao_run_lane {
#define DAO_RUN_LANE(symbol, name) DAO_RUN_LANE_##symbol,
    DAO_RUN_LANE_LIST(DAO_RUN_LANE)
#undef DAO_RUN_LANE
        DAO_RUN_LANE_COUNT,
} dao_run_lane_t;

/* Something that took time. */
typedef struct dao_run_span {
    dao_run_lane_t lane;
    uint64_t begin_ns, end_ns;
    uint64_t size_bytes; /* of a copy */
    uint32_t kernel;     /* of the step: its number */
} dao_run_span_t;

/* Spans in any order; the first failure to keep one stays. */
typedef struct dao_run_spans {
    dao_run_span_t *spans;
    size_t count, capacity;
    bool has_failed;
} dao_run_spans_t;

void dao_run_spans_add(dao_run_spans_t *spans, const dao_run_span_t *span);
void dao_run_spans_finish(dao_run_spans_t *spans);

/* Writes what lies between the first kernel's begin and the last one's end, from that begin on, and sorts the
   spans. `title` says what ran. DAO_ERR_NO_HOST_MEMORY for spans that were not kept; DAO_ERR_IO. */
DAO_NODISCARD dao_status_t dao_write_run_trace(const char *path, const char *title,
                                               const dao_step_trace_t *trace, dao_run_spans_t *spans);

#endif
