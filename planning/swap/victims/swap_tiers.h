/* SPDX-License-Identifier: Apache-2.0 */
/* To which tier a victim leaves. */
#ifndef DAO_PLANNING_SWAP_TIERS_H
#define DAO_PLANNING_SWAP_TIERS_H

#include "planning/swap/step/swap_parts.h"

/* Of the parts that move equally often, which go to the file first. */
typedef enum dao_swap_tier_order {
    DAO_SWAP_TIER_ORDER_LONG = 0, /* those that are away long: the file has time for them */
    DAO_SWAP_TIER_ORDER_SPREAD =
        1, /* every so manieth of those in a row: the host's link is busy beside the file's */
} dao_swap_tier_order_t;

/* Chooses for each part that is ever away one tier for the whole step: the host as far as its limit goes, the
   file for the rest, those first that move seldom. `out_has_file`: something went to the file; it is written
   with DAO_ERR_HOST_FULL too, as another order may fill the file better. DAO_ERR_HOST_FULL if the file's
   limit is reached too or there is no file; dao_swap_step_give_up(). */
DAO_NODISCARD dao_status_t dao_swap_tiers(const dao_swap_parts_t *parts, dao_swap_tier_order_t order,
                                          dao_swap_decision_t *decisions, bool *out_has_file);

#endif
