/* SPDX-License-Identifier: Apache-2.0 */
/* A plan of a longer step that somebody else has drafted. */
#ifndef DAO_PLANNING_RECOMPUTE_PLAN_H
#define DAO_PLANNING_RECOMPUTE_PLAN_H

#include "planning/recompute/recompute_step.h"

/* Plans the copies of the step in a draft, which is the plan's then; on an error it is finished. `problem`,
   borrowed as long as the plan: what the draft was made of, with the capacity and pages to plan for. As
   dao_swap_plan_make(). */
DAO_NODISCARD dao_status_t dao_recompute_plan_draft(dao_recompute_draft_t *draft,
                                                    const dao_swap_problem_t *problem,
                                                    const dao_swap_plan_config_t *config,
                                                    dao_recompute_plan_t **out_plan);

#endif
