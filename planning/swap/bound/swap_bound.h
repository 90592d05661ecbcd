/* SPDX-License-Identifier: Apache-2.0 */
/* The bound of a step as a search takes it: hundreds of times, and a little lower if need be. */
#ifndef DAO_PLANNING_SWAP_BOUND_H
#define DAO_PLANNING_SWAP_BOUND_H

#include "base/report/error.h"

#include <dao/swap.h>

#define DAO_SWAP_BOUND_CUT_LEAST 4u

/* As dao_swap_find_bound() of one compute stream, with windows that begin and end at `cut_max` places at
   most, at least DAO_SWAP_BOUND_CUT_LEAST; with fewer than DAO_SWAP_CUT_MAX, bytes of both ways are not taken
   together. Cost: O(uses + cut_max^2). */
DAO_NODISCARD dao_status_t dao_swap_find_bound_cut(const dao_swap_problem_t *problem, uint32_t cut_max,
                                                   dao_swap_bound_t *out_bound);

#endif
