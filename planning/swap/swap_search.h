/* SPDX-License-Identifier: Apache-2.0 */
/* The search for the best plan of a step, over variants, parts of the capacity and addresses. */
#ifndef DAO_PLANNING_SWAP_SEARCH_H
#define DAO_PLANNING_SWAP_SEARCH_H

#include "planning/swap/times/swap_emit.h"

/* Finds a program for a step whose kernels each fit, and which takes less than `known_ns`; UINT64_MAX: any.
   Its schedule has all but what the step takes by its fences: the time that it says is that of the search.
   DAO_ERR_HOST_FULL where the tiers' limits do not hold what has to leave; DAO_ERR_STOPPED;
   DAO_ERR_NO_HOST_MEMORY. On an error, and where none is found, there is nothing to finish. */
DAO_NODISCARD dao_status_t dao_swap_search(const dao_swap_step_t *step, const dao_swap_plan_config_t *config,
                                           uint64_t known_ns, dao_swap_program_t *out_program,
                                           bool *out_is_found);

#endif
