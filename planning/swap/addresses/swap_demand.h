/* SPDX-License-Identifier: Apache-2.0 */
/* What stays and where, as if each tensor came when its kernel does: the plan where no other gets addresses.
 */
#ifndef DAO_PLANNING_SWAP_DEMAND_H
#define DAO_PLANNING_SWAP_DEMAND_H

#include "planning/swap/addresses/swap_layout.h"

/* Decides for whole tensors which live inactive periods are away, and gives addresses below `capacity_bytes`
   to all that is on the device between. There is a way for every step whose kernels fit, each by itself. On
   an error there is nothing to finish. dao_swap_step_give_up(). */
DAO_NODISCARD dao_status_t dao_swap_demand(const dao_swap_parts_t *parts, uint64_t capacity_bytes,
                                           dao_swap_decision_t *decisions, dao_swap_layout_t *layout);

#endif
