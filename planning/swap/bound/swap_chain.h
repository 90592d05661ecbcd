/* SPDX-License-Identifier: Apache-2.0 */
/* The bound of a step on several compute streams by windows of one of them. */
#ifndef DAO_PLANNING_SWAP_CHAIN_H
#define DAO_PLANNING_SWAP_CHAIN_H

#include "base/report/error.h"

#include <dao/swap.h>

/* Finds a time that no scheme beats which only moves bytes: *step_ns becomes it, if it is longer. The problem
   is valid and fits its capacity; `stream` is one of `streams`. Cost: O(uses + cuts x kernels + cuts^3), cuts
   at most DAO_SWAP_CHAIN_CUT_MAX. */
DAO_NODISCARD dao_status_t dao_swap_chain_bound(const dao_swap_problem_t *problem, const uint32_t *streams,
                                                uint32_t stream, uint64_t *step_ns);

#define DAO_SWAP_CHAIN_CUT_MAX 64u

#endif
