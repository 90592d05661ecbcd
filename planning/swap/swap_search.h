/* SPDX-License-Identifier: Apache-2.0 */
/* The search for the best plan of a step, over variants, parts of the capacity and addresses. */
#ifndef DAO_PLANNING_SWAP_SEARCH_H
#define DAO_PLANNING_SWAP_SEARCH_H

#include "planning/swap/swap_emit.h"

/* Variants of a granularity that are given addresses. */
#define DAO_SWAP_RANKED_MAX 2u

/* The best variants of a step over some links, as one search has found them. Another search, with pages or
   without, need not try the others. */
typedef struct dao_swap_ranking {
    uint32_t count;
    struct {
        uint8_t variant;
        bool is_in_parts; /* the granularity */
    } rows[2 * DAO_SWAP_RANKED_MAX];
} dao_swap_ranking_t;

/* What a search has found. */
typedef enum dao_swap_found {
    DAO_SWAP_FOUND_NONE,      /* no plan is quicker than what is known */
    DAO_SWAP_FOUND_ON_DEMAND, /* no choice got addresses: tensors come as kernels ask for them */
    DAO_SWAP_FOUND_PLAN,
} dao_swap_found_t;

/* How much work may go into a plan. */
uint64_t dao_swap_work_limit(const dao_swap_problem_t *problem, const dao_swap_plan_config_t *config);

/* Finds a program for a step whose kernels each fit, and which takes less than `known_ns`; UINT64_MAX: any.
   `ranking` says what to try, or is written if its count is 0. Work ends with `work_end` of the step's cancel
   state, but for what a first plan takes. The schedule has all but what the step takes by its fences: the
   time that it says is that of the search. DAO_ERR_HOST_FULL where the tiers' limits do not hold what has to
   leave; DAO_ERR_STOPPED; DAO_ERR_NO_HOST_MEMORY. On an error, and where none is found, there is nothing to
   finish. */
DAO_NODISCARD dao_status_t dao_swap_search(const dao_swap_step_t *step, const dao_swap_plan_config_t *config,
                                           uint64_t known_ns, dao_swap_ranking_t *ranking,
                                           dao_swap_program_t *out_program, dao_swap_found_t *out_found);

/* Writes down a program in which tensors come as kernels ask for them, see dao_swap_demand(): the only one
   where no other gets addresses, and better than others where those get them from few choices. Errors as of
   dao_swap_search(). */
DAO_NODISCARD dao_status_t dao_swap_write_on_demand(const dao_swap_step_t *step,
                                                    dao_swap_program_t *out_program);

#endif
