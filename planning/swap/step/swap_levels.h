/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in each kernel of a step that repeats, and the most of them in kernels in a row.

   A tree of maxima over the kernels: what is added to all kernels below a node is kept there once.

   Invariant: most[node] is the larger one of its two children's, and what was added to the node. */
#ifndef DAO_PLANNING_SWAP_LEVELS_H
#define DAO_PLANNING_SWAP_LEVELS_H

#include "base/report/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct dao_swap_levels {
    uint32_t kernel_count, leaf_count; /* a power of two */
    int64_t *most;                     /* 2 x leaf_count */
    int64_t *added;                    /* leaf_count: to all below, and in `most` */
} dao_swap_levels_t;

/* False without host memory: there is nothing to finish. */
bool dao_swap_levels_init(dao_swap_levels_t *levels, const uint64_t *kernel_bytes, uint32_t kernel_count);
void dao_swap_levels_finish(dao_swap_levels_t *levels); /* also one that is all zero */

/* Adds bytes, which may be negative, to `count` kernels from `kernel` on, around the step's end. Cost:
   O(log kernels). */
void dao_swap_levels_add(dao_swap_levels_t *levels, uint32_t kernel, uint32_t count, int64_t size_bytes);

/* The most bytes in one of these kernels; 0 if there are none. Cost: O(log kernels). */
uint64_t dao_swap_levels_most(const dao_swap_levels_t *levels, uint32_t kernel, uint32_t count);

bool dao_swap_levels_is_valid(const dao_swap_levels_t *levels);

#endif
