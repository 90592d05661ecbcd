/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of `dao-bench alloc`: a table for people with the limits beside the figures, or one JSON array. */
#ifndef DAO_TOOLS_BENCH_REPORT_H
#define DAO_TOOLS_BENCH_REPORT_H

#include "bench/alloc/bench.h"
#include "tools/print/json_rows.h"

typedef struct dao_bench_report {
    bool is_json;
    bool is_checked;
    bool in_segments; /* capacities are of places that grow in segments */
    bool has_notes;   /* the rows are of traces, and need them */
    uint64_t row_count;
    uint64_t breach_count;
    dao_json_rows_t json;
} dao_bench_report_t;

/* No figure taken yet. */
dao_bench_figures_t dao_bench_figures_none(void);

/* The mean of each figure; one that a row lacks is lacking. `count` is at least 1. */
dao_bench_figures_t dao_bench_figures_mean(const dao_bench_figures_t *rows, size_t count);

/* With `is_checked`, rows of the default strategy are held to their limits, and a breach makes the command
   fail; with `in_segments`, their capacities are those of places in segments. */
void dao_bench_report_begin(dao_bench_report_t *report, bool is_json, bool is_checked, bool in_segments);

void dao_bench_report_row(dao_bench_report_t *report, const char *trace, const char *strategy,
                          const dao_bench_figures_t *figures);

void dao_bench_report_case(dao_bench_report_t *report, const dao_bench_case_t *item);

/* Says that a trace was not replayed, on standard error if the rows are JSON. */
void dao_bench_report_skip(dao_bench_report_t *report, const char *trace, const char *strategy,
                           const char *why);

/* Prints what is left to print. Returns an exit code. */
int dao_bench_report_end(dao_bench_report_t *report);

/* Prints nothing more. */
void dao_bench_report_drop(dao_bench_report_t *report);

#endif
