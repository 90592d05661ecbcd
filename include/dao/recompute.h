/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Running kernels again beside swapping, from numbers alone: what left the device comes back by a copy, or by
 * the kernel that made it, which runs once more on inputs that are there, or are brought back the same way.
 *
 * Which kernels may run again is said by `is_repeatable` of dao_swap_kernel_t. A kernel that changes in place
 * what lives on into the next step never may, whatever it says.
 */
#ifndef DAO_RECOMPUTE_H
#define DAO_RECOMPUTE_H

#include <dao/swap.h>

DAO_BEGIN_DECLS

/**
 * A bound that no schedule beats which copies tensors and runs repeatable kernels again. Not covered:
 * another order of the kernels' first runs, two kernels at once, compressing, another kernel for the same
 * content.
 */
typedef struct dao_recompute_bound {
    uint64_t step_ns;    /**< the greater one of the two forms below */
    uint64_t compute_ns; /**< sum of kernel times, each run once */
    uint64_t window_ns;  /**< sum over the best cut of the step into windows of kernels */
    uint64_t pair_ns;    /**< with two windows that share contents, as a forward and a backward run do */
    /** The window that adds most to window_ns: kernels first .. first + count - 1, around the step's end.
        Count 0: none takes longer than its kernels. */
    uint32_t window_first_kernel;
    uint32_t window_kernel_count;
    uint64_t window_added_ns; /**< by which it is longer than its kernels */
} dao_recompute_bound_t;

/**
 * Computes the bound of a step. With no repeatable kernel its windows are those of dao_swap_find_bound(), but
 * for limits of the host, which count as none.
 *
 * @param problem    Borrowed.
 * @param out_bound  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID, DAO_ERR_OVERFLOW for a problem beyond its limits; DAO_ERR_KERNEL_TOO_LARGE
 *         where the capacity is less than one kernel needs; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(places x (uses + places x log kernels)) with at most 1,024 places;
 *        some 50 ms for 2,500 kernels.
 */
DAO_API DAO_NODISCARD dao_status_t dao_recompute_find_bound(const dao_swap_problem_t *problem,
                                                            dao_recompute_bound_t *out_bound);

DAO_END_DECLS

#endif
