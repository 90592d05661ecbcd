/* SPDX-License-Identifier: Apache-2.0 */
/* Victims for steps that stream: they go through most of what they read over and over, as inference and
   diffusion go through their weights. */
#ifndef DAO_PLANNING_SWAP_SPREAD_H
#define DAO_PLANNING_SWAP_SPREAD_H

#include "planning/swap/step/swap_parts.h"

/* Finds out if enough of a step is used at about equal distances, and at no time most of that: not as a
   training uses the state of its optimizer. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_is_streamed(const dao_swap_step_t *step, bool *out_is_streamed);

/* Lets parts of such tensors leave each time, so many that `capacity_bytes` less `ahead_bytes` hold what
   stays, spread over the step. The rest is for copies in that are ahead of their kernels. Writes all of
   `inactive periods`, for dao_swap_cycle(). DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_spread(const dao_swap_parts_t *parts, uint64_t capacity_bytes,
                                           uint64_t ahead_bytes, dao_swap_decision_t *decisions);

#endif
