/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for callers that make several of a step, or of steps much like it. */
#ifndef DAO_PLANNING_SWAP_PLAN_H
#define DAO_PLANNING_SWAP_PLAN_H

#include "planning/swap/swap_search.h"

/* dao_swap_plan_make() that knows which variants to try; if the count of `ranking` is 0, it is written. */
DAO_NODISCARD dao_status_t dao_swap_plan_make_ranked(const dao_swap_problem_t *problem,
                                                     const dao_swap_plan_config_t *config,
                                                     dao_swap_ranking_t *ranking, dao_swap_plan_t **out_plan);

#endif
