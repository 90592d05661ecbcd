/* SPDX-License-Identifier: Apache-2.0 */
/* How long a planner works until it hears that it is cancelled. */
#ifndef DAO_TOOLS_PLAN_LOOKS_H
#define DAO_TOOLS_PLAN_LOOKS_H

#include <dao/plan.h>

/**
 * Works on a problem and cancels when the budget is used up.
 *
 * @param problem         Borrowed.
 * @param budget_ns       Of processor time, what the clocks take included.
 * @param out_longest_ns  Longest processor time from one look at the cancellation to the next, the last one
 *                        to the end of the work. Written only on DAO_OK.
 * @return DAO_OK; what the work answers, but that it was cancelled.
 *
 * Threads: any. Waits: never. Cost: the budget.
 */
DAO_NODISCARD dao_status_t dao_plan_looks_measure(const dao_plan_problem_t *problem, dao_plan_method_t method,
                                                  uint64_t budget_ns, uint64_t *out_longest_ns);

#endif
