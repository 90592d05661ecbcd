/* SPDX-License-Identifier: Apache-2.0 */
/* Makes decisions hold for a step that repeats. */
#ifndef DAO_PLANNING_SWAP_CYCLE_H
#define DAO_PLANNING_SWAP_CYCLE_H

#include "planning/swap/step/swap_parts.h"

/* Bytes on the device in each kernel, by the decisions. Ends early if cancelled. Cost: O(inactive periods).
 */
void dao_swap_sum_residents(const dao_swap_parts_t *parts, const dao_swap_decision_t *decisions,
                            uint64_t *kernel_bytes);

/* Changes decisions such that in no kernel more than `capacity_bytes`, which hold the largest kernel, are on
   the device when every step does the same; with `keeps_most` then keeps parts that need not leave.
   DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_cycle(const dao_swap_parts_t *parts, uint64_t capacity_bytes,
                                          bool keeps_most, dao_swap_decision_t *decisions);

/* Walks all inactive periods: whether in every kernel at most `capacity_bytes` are on the device.
   `kernel_bytes` is scratch, one a kernel. */
bool dao_swap_cycle_is_valid(const dao_swap_parts_t *parts, uint64_t capacity_bytes,
                             const dao_swap_decision_t *decisions, uint64_t *kernel_bytes);

#endif
