/* SPDX-License-Identifier: Apache-2.0 */
/* Running a planned step for real, again and again: every operator is a kernel that checks what it reads and
   writes new content, and the plan alone moves tensors. */
#ifndef DAO_TOOLS_RUN_PLAN_H
#define DAO_TOOLS_RUN_PLAN_H

#include "tools/run/run_step.h"

#include <dao/swap.h>

/* All zero but capacity_bytes means defaults. */
typedef struct dao_run_plan_config {
    uint64_t capacity_bytes;
    uint64_t link_in_bytes_per_second, link_out_bytes_per_second; /* as in dao_run_config_t */
    uint64_t host_bytes;    /* most host memory to move to; 0: no limit */
    dao_file_config_t file; /* what host_bytes leaves over goes there; without a directory: nothing does */
    double time_scale;
    uint32_t step_count;            /* at least 2; 0: DAO_RUN_PLAN_STEPS_DEFAULT */
    dao_swap_addresses_t addresses; /* as in dao_executor_config_t */
    uint64_t plan_work;             /* as work_limit of dao_swap_plan_config_t */
    bool keeps_streams;             /* as in dao_run_config_t */
    const dao_backend_ops_t *ops;   /* NULL: the backend of this build */
    dao_run_spans_t *spans;         /* as in dao_run_config_t */
} dao_run_plan_config_t;

enum {
    DAO_RUN_PLAN_FIRST_STEPS = 4, /* of which the last half is measured */
    DAO_RUN_PLAN_STEPS_DEFAULT = 5,
};

typedef struct dao_run_plan_result {
    dao_step_figures_t figures;
    uint64_t capacity_bytes;
    uint32_t step_count;
    dao_swap_tier_t link; /* as measured */
    dao_swap_tier_t file; /* the same of the file, by way of pinned memory; without speed: there is none */
    uint64_t plan_ns;     /* to plan, with measured times */
    uint64_t forecast_ns; /* of a step, by the plan, with the times that kernels had before */
    /* of the same steps as step_ns, by the plan, with the times that kernels had in them, and copies in
       the mean */
    uint64_t replayed_ns;
    uint64_t step_ns;             /* measured: the mean of the last half of the steps */
    uint64_t compute_ns;          /* of its kernels, as they ran in these steps */
    uint64_t dispatch_ns;         /* from the end of a kernel to the begin of the next one, in the median */
    uint64_t copy_ns;             /* of a copy besides what its bytes take, in the mean */
    uint64_t file_copy_ns;        /* the same of a copy with the file */
    dao_swap_bound_t bound;       /* with these times and this link */
    uint64_t in_bytes, out_bytes; /* of a step, those of the file too */
    uint64_t file_in_bytes, file_out_bytes;
    uint64_t part_bytes;     /* that tensors move in; 0: whole */
    uint64_t verified_count; /* tensors read, and found right or not */
    uint64_t mismatch_count; /* 8-byte words that were not as they had to be */
    char first_mismatch[DAO_RUN_MISMATCH_BYTES];
} dao_run_plan_result_t;

/**
 * Measures the link and the file; plans the step with its recorded times and runs it DAO_RUN_PLAN_FIRST_STEPS
 * times to measure its kernels; plans it with those and runs it. The library must not be started.
 *
 * @param trace       A packed trace.
 * @param out_result  Written only on DAO_OK. Mismatches are no failure of the call.
 * @return DAO_OK; DAO_ERR_INVALID for one step; DAO_ERR_KERNEL_TOO_LARGE and all else that
 *         dao_swap_plan_make() answers; what the device answers.
 *
 * Threads: one. Waits: for the whole run.
 */
DAO_NODISCARD dao_status_t dao_run_plan(const dao_run_plan_config_t *config, const dao_step_trace_t *trace,
                                        dao_run_plan_result_t *out_result);

#endif
