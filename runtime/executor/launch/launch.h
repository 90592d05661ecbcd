/* SPDX-License-Identifier: Apache-2.0 */
/* Placing a kernel's operands without a plan, and launching kernels, first runs and runs again. */
#ifndef DAO_RUNTIME_EXECUTOR_LAUNCH_H
#define DAO_RUNTIME_EXECUTOR_LAUNCH_H

#include "runtime/executor/core/engine_state.h"

/* Its tensors do not leave the device, or may again. */
void dao_launch_mark(dao_item_t *item, bool is_operand);

/* Brings all operands by eviction, and takes the workspace; they are marked also on an error, which
   dao_launch_undo() is for. What dao_eviction_take() and copies answer. */
DAO_NODISCARD dao_status_t dao_launch_prepare(dao_engine_t *engine, dao_item_t *item,
                                              dao_placement_t *placement);

/* What comes from the file has to be there: it can fail where no event would tell. */
DAO_NODISCARD dao_status_t dao_launch_verify(dao_engine_t *engine, dao_item_t *item);

/* Calls the kernel's function and numbers what it queued, also if it reports an error: it may have queued a
   part. DAO_ERR_KERNEL_FAILED, or what the device answers: the engine has failed. */
DAO_NODISCARD dao_status_t dao_launch_queue(dao_engine_t *engine, dao_item_t *item,
                                            const dao_placement_t *placement, uint64_t *out_sequence);

/* The kernel is queued: residencies and fences say so. */
void dao_launch_commit(dao_engine_t *engine, dao_item_t *item, const dao_placement_t *placement,
                       uint64_t sequence);

/* Gives back what was taken for a kernel that will not run now, behind what its function may have queued.
   A part that this may have written is given up if the host or the file has the tensor's bytes. */
void dao_launch_undo(dao_engine_t *engine, dao_item_t *item, const dao_placement_t *placement,
                     const dao_fence_t *fence);

/* Returns true if an operand has a part of the arena that nothing was written to. */
bool dao_launch_has_landing(const dao_item_t *item);

/* The executor's own thread stays on the device. Arrive: as it begins; part: before it ends; stay: after each
   function of the program but those that are called as something goes (drop.h), which need nothing more. */
void dao_engine_arrive(const dao_engine_t *engine);
void dao_engine_stay(const dao_engine_t *engine);
void dao_engine_part(const dao_engine_t *engine);

/* Destroys it once all work has finished that is queued now: its own may use the item. */
void dao_launch_keep(dao_engine_t *engine, dao_item_t *item);

/* Calls drop of the kernels whose work has finished. */
void dao_engine_retire(dao_engine_t *engine);

#endif
