/* SPDX-License-Identifier: Apache-2.0 */
/* A granularity in which tensors move, and how a plan of that granularity is worked out but for its
   addresses: a variant chooses victims, then they are made the same in every step, get tiers and times. */
#ifndef DAO_PLANNING_SWAP_GRAIN_H
#define DAO_PLANNING_SWAP_GRAIN_H

#include "planning/swap/times/swap_timing.h"

/* Ways to choose victims, in the order in which they are tried. */
#define DAO_SWAP_VARIANT_COUNT 19u

typedef struct dao_swap_grain {
    dao_swap_parts_t parts;
    dao_swap_decision_t *decisions; /* what is worked out */
    dao_swap_timing_t timing;       /* of these */
    dao_swap_timing_t late;         /* the same with copies in delayed */
    dao_swap_decision_t *improved;  /* what the variants were bettered to with the whole capacity */
    dao_swap_decision_t *kept_decisions;
    dao_swap_timing_t kept_timing;
} dao_swap_grain_t;

/* `part_bytes` as for dao_swap_parts_init(). On an error dao_swap_grain_finish() follows, too. */
DAO_NODISCARD dao_status_t dao_swap_grain_init(dao_swap_grain_t *grain, const dao_swap_step_t *step,
                                               uint64_t part_bytes);
void dao_swap_grain_finish(dao_swap_grain_t *grain); /* also one that is all zero */

/* Returns true for a variant that is for steps that stream, see swap_spread.h. */
bool dao_swap_variant_streams(uint32_t variant);

/* Chooses victims by a variant. */
DAO_NODISCARD dao_status_t dao_swap_grain_choose(dao_swap_grain_t *grain, uint32_t variant,
                                                 uint64_t capacity_bytes);

/* Times decisions that hold for a step that repeats, with the better order of those that go to the file.
   DAO_ERR_HOST_FULL, and what else may go wrong. */
DAO_NODISCARD dao_status_t dao_swap_grain_time(dao_swap_grain_t *grain, uint64_t capacity_bytes);

/* Makes decisions the same in every step, see dao_swap_cycle(), and times them. */
DAO_NODISCARD dao_status_t dao_swap_grain_time_choice(dao_swap_grain_t *grain, uint64_t capacity_bytes,
                                                      bool keeps_most);

#endif
