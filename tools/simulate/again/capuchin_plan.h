/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of a step by Capuchin's order (planning/recompute/capuchin.h). What memory still lacks behind it,
   because nothing else is hidden or made again, or because runs again need memory themselves, leaves as in
   our own plans. Our planner places the copies of the step with these runs, and may find others than the ones
   that were chosen. Both flatter the order. */
#ifndef DAO_TOOLS_CAPUCHIN_PLAN_H
#define DAO_TOOLS_CAPUCHIN_PLAN_H

#include "base/report/error.h"

#include <dao/recompute.h>

/* Plans a step with what is chosen to run again. The caller owns the plan, until
   dao_recompute_plan_destroy(); the problem is borrowed as long. As dao_swap_plan_make(); DAO_ERR_LIMIT where
   the chosen runs are more than four times the step's. */
DAO_NODISCARD dao_status_t dao_capuchin_plan_make(const dao_swap_problem_t *problem,
                                                  const dao_swap_plan_config_t *config,
                                                  dao_recompute_plan_t **out_plan);

#endif
