/* SPDX-License-Identifier: Apache-2.0 */
/* How a plan that is followed, or entered, takes a tensor off the device and brings it there. */
#ifndef DAO_RUNTIME_EXECUTOR_PLAN_MOVES_H
#define DAO_RUNTIME_EXECUTOR_PLAN_MOVES_H

#include "runtime/executor/plans/plan_follow.h"

/* All that was queued so far and may use the device's memory. */
dao_fence_t dao_plan_everything(const dao_timeline_t *timeline);

/* Where the arena has an address of the plan: those of its pages are in its window. */
uint64_t dao_plan_place(const dao_compiled_plan_t *plan, uint64_t address);

/* The step's role of a role of the plan. */
uint32_t dao_plan_source(const dao_compiled_plan_t *plan, uint32_t role);

/* A copy that is refused is no failure yet: the operand's kernel tries again. */
dao_status_t dao_plan_unless_refused(const dao_engine_t *engine, dao_status_t status);

/* Takes a tensor off the device, which the plan gives up there: what may still be asked for is saved. NULL,
   and one that is not there, are allowed. What copies answer. */
DAO_NODISCARD dao_status_t dao_plan_drop(dao_engine_t *engine, dao_compiled_plan_t *plan,
                                         dao_managed_t *tensor);

/* The same for all tensors that lie where an operation of the plan puts its bytes. */
DAO_NODISCARD dao_status_t dao_plan_drop_all(dao_engine_t *engine, dao_compiled_plan_t *plan, uint32_t index);

/* Returns true if a drop of this operation would have to be saved. */
bool dao_plan_drops_live_content(const dao_compiled_plan_t *plan, uint32_t index);

/* Returns true if the host or the file has a content that the device has not. */
bool dao_plan_can_come(const dao_managed_t *tensor);

/* Queues the copy of a tensor that can come, to an offset of the arena, behind a fence. */
DAO_NODISCARD dao_status_t dao_plan_copy_in(dao_engine_t *engine, dao_managed_t *tensor, uint64_t address,
                                            const dao_fence_t *fence);

/* Queues a copy of the plan for this tensor. It goes from where the bytes are, or to where there is place for
   them, which need not be the plan's tier; one that there is nothing to do for is left out. */
DAO_NODISCARD dao_status_t dao_plan_move(dao_engine_t *engine, dao_compiled_plan_t *plan,
                                         dao_managed_t *tensor, const dao_swap_copy_t *copy,
                                         const dao_fence_t *fence);

#endif
