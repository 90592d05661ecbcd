/* SPDX-License-Identifier: Apache-2.0 */
/* The pass that decides which parts leave in which inactive periods: the step is played several times in
   logical time with calendars of both links. */
#ifndef DAO_PLANNING_SWAP_CHOOSE_H
#define DAO_PLANNING_SWAP_CHOOSE_H

#include "planning/swap/step/swap_parts.h"

/* How victims are chosen and how early copies in are planned. */
typedef struct dao_swap_variant {
    /* Of so many victims with the furthest next use, the first whose memory is there in time; 1: the
       furthest. */
    uint32_t choice_count;
    uint32_t lead_kernels; /* copies in are planned for so many kernels ahead */
    bool weighs_copies;    /* what need not be copied out leaves before what lasts little longer */
} dao_swap_variant_t;

/* Plays `step_count` (at least 3) steps with `capacity_bytes`, which hold the largest kernel. Writes the
   decisions of the last step but one to `inactive periods` (inactive_count), and the time of the last step.
   DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_choose(const dao_swap_parts_t *parts, uint64_t capacity_bytes,
                                           const dao_swap_variant_t *variant, uint32_t step_count,
                                           dao_swap_decision_t *decisions, uint64_t *out_step_ns);

#endif
