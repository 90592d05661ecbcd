/* SPDX-License-Identifier: Apache-2.0 */
/* A step with kernels that run again, as a trace: what dao/recompute.h plans, for all that reads steps. */
#ifndef DAO_TOOLS_LONGER_STEP_H
#define DAO_TOOLS_LONGER_STEP_H

#include "tools/model/step_problem.h"

#include <dao/recompute.h>

/* Makes the trace of a longer step. Its operators are the runs, under the names of their operators; a content
   that is made again is a tensor "ID@N", N from 2. Tensors have their rounded sizes and are released behind
   their last use; aliases and saved tensors are left out. `trace` is that which `step` was made of, and
   `longer` was planned for. DAO_ERR_OVERFLOW, DAO_ERR_NO_HOST_MEMORY; on an error there is nothing to finish.
 */
DAO_NODISCARD dao_status_t dao_longer_step_make(const dao_step_trace_t *trace, const dao_step_problem_t *step,
                                                const dao_recompute_step_t *longer,
                                                dao_step_trace_t *out_trace);

/* Checks the trace of a longer step, read from its file, against the step: what dao_recompute_check() answers
   for its operators and tensors with the runs of `longer`; DAO_ERR_CORRUPT too if they do not match. */
DAO_NODISCARD dao_status_t dao_longer_step_check(const dao_step_problem_t *step,
                                                 const dao_recompute_step_t *longer,
                                                 const dao_step_trace_t *trace);

#endif
