/* SPDX-License-Identifier: Apache-2.0 */
/* Running a step for real: every operator is a kernel that checks what it reads and writes new content. */
#ifndef DAO_TOOLS_RUN_STEP_H
#define DAO_TOOLS_RUN_STEP_H

#include "backends/backend.h"
#include "tools/model/step_trace.h"
#include "tools/write/write_run_trace.h"

typedef enum dao_run_mode {
    DAO_RUN_MODE_STEP = 0,  /* the step is registered first: every later access is known */
    DAO_RUN_MODE_QUEUE = 1, /* kernels are pushed one by one: the queue is all that is known */
    DAO_RUN_MODE_LEARN =
        2, /* the same, step after step with boundaries between: the executor plans them by itself */
} dao_run_mode_t;

/* Steps of DAO_RUN_MODE_LEARN: until the executor has a plan, at least; one that takes tensors to where the
   plan has them; and those that are measured. */
enum { DAO_RUN_LEARN_STEPS = 3, DAO_RUN_ENTER_STEPS = 1, DAO_RUN_FOLLOW_STEPS = 5 };

/* All zero but capacity_bytes means defaults. */
typedef struct dao_run_config {
    uint64_t capacity_bytes; /* of device memory; at least the trace's largest operator */
    dao_policy_t policy;
    uint64_t host_bytes;                /* most pinned memory; 0: no limit */
    dao_file_config_t file;             /* what is beyond that; all zero: nothing */
    uint64_t link_in_bytes_per_second;  /* host to device, cpu backend only; 0: as fast as it goes */
    uint64_t link_out_bytes_per_second; /* device to host */
    double time_scale;                  /* an operator takes at least its recorded cost times this */
    dao_run_mode_t mode;
    dao_swap_addresses_t addresses; /* of plans, as in dao_executor_config_t */
    bool is_read_back;              /* everything that is alive after the step is read and looked at */
    bool is_walked;                 /* the executor checks all of its structures after every kernel: slow */
    bool is_staged;         /* contents go through pinned memory, as on a device that the host cannot touch */
    bool runs_again;        /* pure operators may run again; with DAO_RUN_MODE_LEARN */
    bool copies_nothing;    /* with runs_again: plans copy nothing, all that left runs again */
    bool is_planned_first;  /* with DAO_RUN_MODE_STEP: the step is planned before it runs */
    bool is_repeat_checked; /* what may run again is launched twice, and what it writes compared */
    bool is_without_comparison; /* no second run with unlimited memory */
    bool keeps_streams;         /* operators run on the streams of the trace, not all on one; without plans */
    bool is_warmed_up; /* every run is made twice and the second one measured; not with DAO_RUN_MODE_LEARN */
    const dao_backend_ops_t *ops; /* NULL: the backend of this build */
    dao_run_spans_t
        *spans; /* get what ran when, borrowed; NULL: nothing is traced. Not of unlimited memory */
} dao_run_config_t;

/* Bytes that hold the text about the first mismatch. */
enum { DAO_RUN_MISMATCH_BYTES = 224 };

typedef struct dao_run_result {
    dao_step_figures_t figures;
    uint64_t capacity_bytes;
    uint32_t stream_count; /* compute streams that operators ran on */
    /* counters of the step alone, or the mean of steps; peaks and levels at its end; of plans and stalls:
       of all that was run */
    dao_executor_stats_t stats;
    uint64_t verified_count;                     /* tensors read, and found right or not */
    uint64_t temporary_count;                    /* temporaries looked at again before they went */
    uint64_t mismatch_count;                     /* 8-byte words that were not as they had to be */
    char first_mismatch[DAO_RUN_MISMATCH_BYTES]; /* "" or what it was, in either run */
    uint64_t step_ns;
    uint64_t unlimited_ns; /* 0: not measured, or the device is too small for it */
    uint64_t unlimited_mismatch_count;
} dao_run_result_t;

/**
 * Runs a step on its own library context, and again with unlimited memory. The library must not be started.
 *
 * @param trace       A packed trace.
 * @param out_result  Written on DAO_OK; where the run itself fails, only its reads and mismatches are true.
 *                    Mismatches are no failure of the call.
 * @return DAO_OK; DAO_ERR_INVALID for more streams than DAO_EXECUTOR_STREAM_COUNT_MAX, where they are kept;
 *         DAO_ERR_KERNEL_TOO_LARGE for a capacity below the largest operator, which the message
 *         names; DAO_ERR_LIMIT where nothing is to be copied and no such plan is found; what the executor
 *         answers.
 *
 * Threads: one. Waits: for the whole run.
 */
DAO_NODISCARD dao_status_t dao_run_step(const dao_run_config_t *config, const dao_step_trace_t *trace,
                                        dao_run_result_t *out_result);

#endif
