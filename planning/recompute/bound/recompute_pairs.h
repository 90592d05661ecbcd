/* SPDX-License-Identifier: Apache-2.0 */
/* What two windows that follow each other add to a step, see recompute_pairs.c. */
#ifndef DAO_PLANNING_RECOMPUTE_PAIRS_H
#define DAO_PLANNING_RECOMPUTE_PAIRS_H

#include "planning/recompute/bound/recompute_windows.h"

/* Window A goes from place `begin` on, B follows it. */
typedef struct dao_recompute_pair {
    uint32_t begin;
    uint32_t first_length, second_length; /* in places, of A and of B: at least 1, together at most all */
    double in_weight, out_weight;         /* how much the links count, not the kernels: 0 .. 1 */
    uint64_t added_ns;                    /* to the kernels of both */
} dao_recompute_pair_t;

/* Looks for the pair that adds most; one that adds 0 if there is none. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_recompute_pairs_best(const dao_recompute_windows_t *windows,
                                                    dao_recompute_pair_t *out_pair);

#endif
