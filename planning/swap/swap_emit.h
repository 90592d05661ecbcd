/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as a replayer sees it: copies in the order of their streams, each with its fence. */
#ifndef DAO_PLANNING_SWAP_EMIT_H
#define DAO_PLANNING_SWAP_EMIT_H

#include "planning/swap/addresses/swap_layout.h"

/* The schedule and the arrays that it points to. */
typedef struct dao_swap_program {
    dao_swap_schedule_t schedule;
    dao_swap_copy_t *copies; /* of all streams, one after the other */
    dao_swap_fence_t *kernel_after;
    uint64_t *use_address;
    uint64_t *workspace_address;
    dao_swap_resident_t *residents;
    uint32_t *pages;
} dao_swap_program_t;

/* Writes down decisions with their times and addresses; `layout` NULL: without addresses. The schedule's
   step_ns, part_bytes and variants are the caller's. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_emit(const dao_swap_parts_t *parts, const dao_swap_decision_t *decisions,
                                         const dao_swap_timing_t *timing, const dao_swap_layout_t *layout,
                                         dao_swap_program_t *program);

void dao_swap_program_finish(dao_swap_program_t *program);

#endif
