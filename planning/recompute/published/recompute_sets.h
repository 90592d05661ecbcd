/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of contents that are chosen before a step runs, to be computed again: those of recompute_baselines.h
   that look at no moment of the step. */
#ifndef DAO_PLANNING_RECOMPUTE_SETS_H
#define DAO_PLANNING_RECOMPUTE_SETS_H

#include "planning/recompute/play/recompute_play.h"
#include "planning/recompute/published/recompute_baselines.h"

/* A content that lives over the turn from the forward to the backward run, and may be made again. */
typedef struct dao_recompute_item {
    uint32_t access; /* the last one before the turn */
    uint64_t size_bytes, time_ns;
    uint32_t quanta; /* of the knapsack, rounded down, so that all fit into a budget of all */
} dao_recompute_item_t;

typedef struct dao_recompute_sets {
    const dao_recompute_contents_t *contents; /* borrowed */
    uint32_t turn;                            /* kernel with the most live bytes */
    dao_recompute_item_t *items;              /* the least time a byte first */
    uint32_t item_count;
    bool *is_taken;    /* of each item and sum of quanta: the best set of the items so far has it */
    bool *is_given_up; /* of each access: the set that was chosen */
} dao_recompute_sets_t;

/* On an error dao_recompute_sets_finish() follows, too. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_recompute_sets_init(dao_recompute_sets_t *sets,
                                                   const dao_recompute_contents_t *contents,
                                                   const dao_recompute_play_t *play);
void dao_recompute_sets_finish(dao_recompute_sets_t *sets);

/* Solves the knapsack for all budgets, before its sets are chosen. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_recompute_sets_fill_knapsack(dao_recompute_sets_t *sets);

/* Returns how many sets a baseline has. */
uint32_t dao_recompute_sets_count(const dao_recompute_sets_t *sets, dao_recompute_baseline_t baseline);

/* Writes one of them. */
void dao_recompute_sets_choose(dao_recompute_sets_t *sets, dao_recompute_baseline_t baseline, uint32_t index);

/* Returns the kernel with the most live bytes. */
uint32_t dao_recompute_sets_turn(const dao_swap_step_t *step);

#endif
