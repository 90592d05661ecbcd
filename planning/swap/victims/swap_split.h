/* SPDX-License-Identifier: Apache-2.0 */
/* What has to leave so that residency intervals that found no address may find one. */
#ifndef DAO_PLANNING_SWAP_SPLIT_H
#define DAO_PLANNING_SWAP_SPLIT_H

#include "planning/swap/addresses/swap_layout.h"

/* Lets tensors whose residency intervals did not fit leave where they stay longest, or one that is in their
   way: sets its inactive periods to away. False if none can, or it was cancelled before one was found. */
bool dao_swap_split(const dao_swap_parts_t *parts, const dao_swap_layout_t *layout,
                    dao_swap_decision_t *decisions);

#endif
