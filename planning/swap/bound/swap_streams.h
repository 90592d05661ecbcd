/* SPDX-License-Identifier: Apache-2.0 */
/* The bound of a step whose kernels run on several compute streams. */
#ifndef DAO_PLANNING_SWAP_STREAMS_H
#define DAO_PLANNING_SWAP_STREAMS_H

#include "base/report/error.h"

#include <dao/swap.h>

/**
 * Computes a time that no scheme which only moves bytes beats in the long run, where the kernels of a stream
 * run in their order, and those of two streams beside each other but where one reads what the other writes.
 * Steps may overlap.
 *
 * @param problem      Borrowed.
 * @param streams      The stream of each kernel, from 0 on without gaps; borrowed.
 * @param out_step_ns  Of a step; on one stream that of dao_swap_find_bound(). Written only on DAO_OK.
 * @return As dao_swap_find_bound().
 *
 * Threads: any. Waits: never. Cost: streams + 1 times that of dao_swap_find_bound(), at most, and of
 * dao_swap_chain_bound() for each stream.
 */
DAO_NODISCARD dao_status_t dao_swap_find_streams_bound(const dao_swap_problem_t *problem,
                                                       const uint32_t *streams, uint64_t *out_step_ns);

#endif
