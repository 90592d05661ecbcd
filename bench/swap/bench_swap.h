/* SPDX-License-Identifier: Apache-2.0 */
/* What the sets of `dao-bench swap` share: where their steps lie, and what a figure over its limit does. */
#ifndef DAO_TOOLS_BENCH_SWAP_H
#define DAO_TOOLS_BENCH_SWAP_H

#include "tools/model/step_trace.h"
#include "tools/print/json_rows.h"

/* Of the pages that devices map: CUDA's, the smallest there are. */
#define DAO_BENCH_PAGE_BYTES ((uint64_t)2 << 20)

/* A recorded step: a file of the data folder, and which batch if it has several. */
typedef struct dao_bench_step {
    const char *file;
    const char *batch; /* NULL: the file has one */
} dao_bench_step_t;

typedef struct dao_bench_swap {
    const char *data; /* folder of recorded steps */
    bool is_checked;  /* a figure over its limit is told and counted */
    bool is_json;
    bool is_static; /* plans of the set `links` have static addresses */
    size_t row_count;
    size_t breach_count;
    dao_json_rows_t json;
} dao_bench_swap_t;

enum { DAO_BENCH_STEP_NAME_BYTES = 64 };

/* The file's name without its endings, and the batch. */
void dao_bench_step_name(const dao_bench_step_t *step, char text[DAO_BENCH_STEP_NAME_BYTES]);

/* Reads a step, or says on standard error that it is not there, which is no failure; dao_step_trace_finish()
   follows where it is. */
DAO_NODISCARD dao_status_t dao_bench_step_read(const dao_bench_swap_t *bench, const dao_bench_step_t *step,
                                               dao_step_trace_t *out_trace, bool *out_is_there);

/* Begins a JSON row with the step. */
void dao_bench_step_json(dao_bench_swap_t *bench, const dao_bench_step_t *step);

/* Holds a figure of a row to its limit. */
void dao_bench_swap_hold(dao_bench_swap_t *bench, const char *row, const char *what, double figure,
                         double most);

/* The set `links`: steps over their bounds, over several links. */
DAO_NODISCARD dao_status_t dao_bench_swap_links(dao_bench_swap_t *bench);

/* The set `recompute`: steps that swap, that run kernels again, and that do both, over the bound of both. */
DAO_NODISCARD dao_status_t dao_bench_swap_recompute(dao_bench_swap_t *bench);

/* The set `again`: steps without copies, beside published ways to choose what is computed again. */
DAO_NODISCARD dao_status_t dao_bench_swap_again(dao_bench_swap_t *bench);

/* The set `device`: planned steps run for real, measured beside their forecast and their bound. */
DAO_NODISCARD dao_status_t dao_bench_swap_device(dao_bench_swap_t *bench);

#endif
