/* SPDX-License-Identifier: Apache-2.0 */
/* A step trace as the numbers that bounds, plans and simulations work on. */
#ifndef DAO_TOOLS_STEP_PROBLEM_H
#define DAO_TOOLS_STEP_PROBLEM_H

#include "tools/model/step_trace.h"

#include <dao/swap.h>

/* Of every copy, where nobody says another one: what dao simulate takes without --latency. */
#define DAO_STEP_LATENCY_NS UINT64_C(10000)

typedef struct dao_step_problem {
    dao_swap_problem_t problem; /* without a capacity and tiers: those are for the caller to set */
    uint32_t *trace_tensors;    /* of each tensor: its index in the trace, which has some of size 0 */
    dao_swap_tensor_t *tensors;
    dao_swap_kernel_t *kernels;
    dao_swap_use_t *uses;
} dao_step_problem_t;

/* Returns DAO_ERR_INVALID for a step without operators, which nothing can run; DAO_ERR_OVERFLOW for a tensor
   beyond DAO_SWAP_SIZE_MAX. */
DAO_NODISCARD dao_status_t dao_step_problem_check(const dao_step_trace_t *trace);

/* Turns a packed trace into a problem. Sizes are rounded up to DAO_TRACE_ALIGNMENT_BYTES, as they are
   allocated. What is alive before the step is persistent, inputs too: they are not fed anew. What the trace
   keeps to its end without a further use is free after its last use. The errors of dao_step_problem_check();
   DAO_ERR_NO_HOST_MEMORY. The caller owns the result. */
DAO_NODISCARD dao_status_t dao_step_problem_make(const dao_step_trace_t *trace, dao_step_problem_t *out_step);

void dao_step_problem_finish(dao_step_problem_t *step);

#endif
