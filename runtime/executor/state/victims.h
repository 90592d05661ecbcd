/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors on the device that are not pinned, in the order in which they leave it: by next use, by age or
   by size, as the policy has it. A pairing heap whose links lie in the tensors, so that nothing here needs
   memory. Empty while a plan is followed, which chooses its victims itself. */
#ifndef DAO_RUNTIME_EXECUTOR_VICTIMS_H
#define DAO_RUNTIME_EXECUTOR_VICTIMS_H

#include "runtime/executor/core/engine_state.h"

/* When a tensor is used next: by what is queued, else by what the step was the time before; a use that is
   overdue counts as the next one. DAO_TIME_NEVER if none is known. */
uint64_t dao_victims_next_use(const dao_engine_t *engine, const dao_managed_t *tensor);

/* When a tensor was used last. One that was fetched early is as young as the use that it waits for, which is
   yet to come: it is not to leave before that. */
uint64_t dao_victims_last_use(const dao_managed_t *tensor);

/* Puts a tensor to its place, or takes it out if it is not on the device or pinned. O(1), and amortized O(log
   tensors) where it was in. */
void dao_victims_place(dao_engine_t *engine, dao_managed_t *tensor);

/* After whatever changes a tensor's uses, its residency, its forecast or its pin, and after an early fetch.
 */
static inline void dao_victims_update(dao_engine_t *engine, dao_managed_t *tensor)
{
    if (engine->plan == NULL) {
        dao_victims_place(engine, tensor);
    }
}

/* Takes it out; nothing if it is not in. */
void dao_victims_remove(dao_engine_t *engine, dao_managed_t *tensor);

/* Takes the tensor out that leaves first, and sets it aside; NULL: there is none. Amortized O(log tensors).
   Nothing else is called here until dao_victims_put_back(). */
dao_managed_t *dao_victims_pop(dao_engine_t *engine);

/* Puts back all that was set aside. O(1) each. */
void dao_victims_put_back(dao_engine_t *engine);

/* Everything that is on the device and may leave is in, once; of a parent and a child the parent leaves
 * first. */
bool dao_victims_is_valid(const dao_engine_t *engine);

#endif
