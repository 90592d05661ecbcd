/* SPDX-License-Identifier: Apache-2.0 */
/* Published ways to choose what is computed again, without any copies, beside our own:

       dtr            DTR (Kirisame et al., ICLR'21): where memory lacks, that content leaves whose
                      (its time + that of all around it that has left) / (bytes x staleness) is least
       dtr-class      the same; what has left around it is summed by classes: they are merged as contents
                      leave, and only their sums shrink as contents come back
       dtr-local      the same with its own time alone
       again-lru, again-largest
                      the one that was used longest ago; the largest one
       sqrt           Chen et al. ('16): the forward run is cut into segments; what is read in another segment
                      stays. All counts of segments up to twice the root of its kernels are tried
       selective      Megatron (Korthikanti et al., '22), its choice by hand replaced: the same tensor of all
                      layers, that with the least time a byte first
       greedy         least time a byte first, until the rest fits
       knapsack       the most time that may stay in so many bytes, by dynamic programming, as PyTorch's
                      budget of activation memory does; several budgets are tried

   The last four choose once, of contents that live from the forward into the backward run; the moment with
   the most live bytes parts the two. All of them count bytes, no addresses, which flatters them: our own
   plans have addresses. */
#ifndef DAO_PLANNING_RECOMPUTE_BASELINES_H
#define DAO_PLANNING_RECOMPUTE_BASELINES_H

#include "planning/recompute/play/recompute_player.h"

typedef enum dao_recompute_baseline {
    DAO_RECOMPUTE_BASELINE_DTR = 0,
    DAO_RECOMPUTE_BASELINE_DTR_CLASS = 1,
    DAO_RECOMPUTE_BASELINE_DTR_LOCAL = 2,
    DAO_RECOMPUTE_BASELINE_LRU = 3,
    DAO_RECOMPUTE_BASELINE_LARGEST = 4,
    DAO_RECOMPUTE_BASELINE_SQRT = 5,
    DAO_RECOMPUTE_BASELINE_SELECTIVE = 6,
    DAO_RECOMPUTE_BASELINE_GREEDY = 7,
    DAO_RECOMPUTE_BASELINE_KNAPSACK = 8,
} dao_recompute_baseline_t;

#define DAO_RECOMPUTE_BASELINE_COUNT 9

typedef struct dao_recompute_baseline_run {
    uint64_t step_ns; /* all runs of kernels */
    uint64_t again_ns;
    uint32_t again_count;
} dao_recompute_baseline_run_t;

/* Drafts what a baseline runs again in the capacity of the player's problem. DAO_ERR_LIMIT, with a message:
   it does not get through; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_recompute_baseline_draft(dao_recompute_player_t *player,
                                                        dao_recompute_baseline_t baseline);

/* Runs a step in the problem's capacity. DAO_ERR_LIMIT, with a message: it does not get through;
   DAO_ERR_NO_HOST_MEMORY; as dao_swap_find_bound(). */
DAO_NODISCARD dao_status_t dao_recompute_baseline(const dao_swap_problem_t *problem,
                                                  dao_recompute_baseline_t baseline,
                                                  dao_recompute_baseline_run_t *out_run);

#endif
