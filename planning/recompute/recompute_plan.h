/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of what others would run again. */
#ifndef DAO_PLANNING_RECOMPUTE_PLAN_H
#define DAO_PLANNING_RECOMPUTE_PLAN_H

#include "planning/recompute/published/recompute_published.h"

/* Plans what a published way, below DAO_RECOMPUTE_PUBLISHED_COUNT, runs again, with as much work as
   dao_recompute_plan_make() has for a longer step. The caller owns the plan; the problem is borrowed as
   long. As dao_swap_plan_make(); what dao_recompute_published_draft() answers. */
DAO_NODISCARD dao_status_t dao_recompute_plan_published(const dao_swap_problem_t *problem, uint32_t way,
                                                        const dao_swap_plan_config_t *config,
                                                        dao_recompute_plan_t **out_plan);

#endif
