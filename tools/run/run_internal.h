/* SPDX-License-Identifier: Apache-2.0 */
/* What run_step.c (what the executor is told, and when) and run_kernels.c (what runs on the stream) share. */
#ifndef DAO_TOOLS_RUN_INTERNAL_H
#define DAO_TOOLS_RUN_INTERNAL_H

#include "tools/base/progress.h"
#include "tools/run/run_step.h"
#include "tools/run/trace/copy_tracer.h"

#include "base/threads/sync.h"

#include <dao/command_list.h>

typedef struct run run_t;
typedef struct run_kernel run_kernel_t;

/* The action is on the kernel's workspace. */
#define RUN_WORKSPACE UINT32_MAX

/* Something done to a range of device memory when the kernel's turn comes. Actions of a kernel run in
   order. */
typedef struct run_action {
    run_kernel_t *kernel;
    bool is_check;    /* else: fill */
    uint32_t operand; /* index among the kernel's, or RUN_WORKSPACE */
    uint32_t owner;   /* tensor, or the temporary's number in the trace */
    uint64_t offset_bytes;
    uint64_t size_bytes;
    uint64_t base; /* of the pattern that has to be there, or that is put there */
    void *address; /* set at launch: on the device, or the staging buffer */
} run_action_t;

/* An operator. Its actions are fixed before the step begins; only addresses come at launch. */
struct run_kernel {
    run_t *run;
    uint32_t index;
    uint32_t stream_index; /* of the executor's compute streams */
    run_action_t *actions;
    size_t action_count;
    uint64_t compute_ns; /* it takes at least this long */
    uint64_t begin_ns, end_ns;
    run_kernel_t *next; /* of the runs again */
    bool is_again;      /* progress counts the first run alone */
};

struct run {
    const dao_step_trace_t *trace;
    run_kernel_t *kernels; /* one an operator, step after step */
    run_action_t *actions;
    size_t action_count;
    uint32_t *versions;     /* of each tensor: writes so far; after preparation, at the step's end */
    uint64_t largest_bytes; /* of any tensor or temporary */
    uint32_t stream_count;  /* compute streams: those of the trace, or 1 */
    /* Of each compute stream, pinned, largest_bytes; NULL: kernels touch device memory themselves. */
    void *stagings[DAO_EXECUTOR_STREAM_COUNT_MAX];
    dao_executor_t *executor;
    dao_managed_t **tensors;  /* NULL for those of size 0 */
    dao_operand_t *operands;  /* of the kernel that is being pushed */
    uint64_t salt;            /* of this pass: added to every base */
    bool is_warming_up;       /* kernels do not wait for their recorded time; set while nothing runs */
    dao_command_list_t *step; /* NULL in queue mode */
    size_t first_kernel;      /* of the step that is being pushed */
    bool keeps_inputs;        /* what no operator produces is not released: more steps follow */
    bool runs_again;          /* pure operators may run again */
    run_kernel_t *again;      /* a copy of the kernel for each time that one did, the last one first */
    void *host_buffer;        /* largest_bytes */
    dao_mutex_t lock;         /* of these four while kernels run; after a sync they are the caller's */
    uint64_t verified_count;
    uint64_t temporary_count;
    uint64_t mismatch_count;
    char first_mismatch[DAO_RUN_MISMATCH_BYTES];
};

/* Fixes what every kernel checks and writes, and on which stream, in so many steps that follow each other.
   DAO_ERR_NO_HOST_MEMORY; DAO_ERR_INVALID for more streams than an executor has. */
DAO_NODISCARD dao_status_t dao_run_prepare_kernels(run_t *run, double time_scale, uint32_t step_count,
                                                   bool keeps_streams);
void dao_run_free_kernels(run_t *run);

/* Takes staging buffers from device 0's pinned place, and gives them back. */
DAO_NODISCARD dao_status_t dao_run_take_stagings(run_t *run);
void dao_run_give_stagings(run_t *run);

/* Adds when kernels ran to spans; the first `count`, those that did. */
void dao_run_collect_kernels(const run_t *run, size_t count, dao_run_spans_t *spans);

/* The launch functions; `user` is the run_kernel. */
dao_status_t dao_run_launch_direct(const dao_launch_t *launch, void *user);
dao_status_t dao_run_launch_staged(const dao_launch_t *launch, void *user);

/* Counts a look at content of `size_bytes` that is expected to have `base`; `when` is for the message. */
void dao_run_verify_tensor(run_t *run, uint32_t tensor, const void *address, uint64_t base, const char *when);

#endif
