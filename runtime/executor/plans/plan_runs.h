/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan with runs again has besides: which run each kernel of its longer step is (dao/recompute.h), and
   the kernels that are kept for them. */
#ifndef DAO_RUNTIME_EXECUTOR_PLAN_RUNS_H
#define DAO_RUNTIME_EXECUTOR_PLAN_RUNS_H

#include "runtime/executor/plans/issue_order.h"
#include "runtime/executor/records/item.h"

#include <dao/recompute.h>

typedef struct dao_plan_runs {
    dao_recompute_plan_t *plan;
    const dao_recompute_step_t *step;
    uint32_t *roles;      /* of each use: a tensor of the longer step */
    bool *is_scratch;     /* of each tensor of it: a run again writes it, and nothing reads it */
    uint32_t *counts;     /* of each kernel of the step: its runs again */
    uint32_t *makers;     /* of each role of the step: the kernel that makes it again */
    uint32_t *made_until; /* of each role: behind the last operation that makes it again; 0: none does */
    dao_item_t **kept;    /* of each kernel of the step: while it has runs again to come; else NULL */
    uint64_t *scratch;    /* of each use of a kernel: where a run again writes it */
    uint32_t kernel_count;
} dao_plan_runs_t;

/* Looks through a plan, which it takes over, also on an error, whose operations have this order. `problem` is
   that of the step, without runs again. DAO_ERR_UNSUPPORTED if it has tensors in two versions at a time,
   which cannot be followed; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_runs_init(dao_plan_runs_t *runs, dao_recompute_plan_t *plan,
                                              const dao_swap_problem_t *problem,
                                              const dao_issue_order_t *order);
void dao_plan_runs_finish(dao_plan_runs_t *runs); /* no kernel is kept */

/* Returns true if the executor can run a kernel again: it is repeatable, changes nothing in place, and what
   it writes is written by no other kernel and does not live on after the step. */
bool dao_plan_runs_may_repeat(const dao_swap_problem_t *problem, uint32_t kernel,
                              const uint32_t *writer_counts);

#endif
