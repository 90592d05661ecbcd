/* SPDX-License-Identifier: Apache-2.0 */
/* Victims for steps that stream: most of what they read is used in one place of the step, as weights are in
   inference. */
#ifndef DAO_PLANNING_SWAP_SPREAD_H
#define DAO_PLANNING_SWAP_SPREAD_H

#include "planning/swap/step/swap_parts.h"

/* Returns true if enough of a step is used in one place each, and at no time most of that: not as a training
   uses the state of its optimizer. */
bool dao_swap_is_streamed(const dao_swap_step_t *step);

/* Lets tensors leave that are used in one place of the step, so many that `capacity_bytes` less `ahead_bytes`
   hold what stays, spread over the step. The rest is for copies in that are ahead of their kernels. Writes
   all of `inactive periods`, for dao_swap_cycle(). */
void dao_swap_spread(const dao_swap_parts_t *parts, uint64_t capacity_bytes, uint64_t ahead_bytes,
                     dao_swap_decision_t *decisions);

#endif
