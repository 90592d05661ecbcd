/* SPDX-License-Identifier: Apache-2.0 */
/* Takes parts of the device arena, and evicts victims for them where that is necessary. */
#ifndef DAO_RUNTIME_EXECUTOR_EVICTION_H
#define DAO_RUNTIME_EXECUTOR_EVICTION_H

#include "runtime/executor/core/engine_state.h"

/* Takes a part of the arena, evicting as the policy says. DAO_ERR_LIMIT without a message: what must stay
   leaves no hole that is large enough. DAO_ERR_HOST_FULL, DAO_ERR_COPY_FAILED, DAO_ERR_NO_HOST_MEMORY: some
   tensors may have left, none is lost. */
DAO_NODISCARD dao_status_t dao_eviction_take(dao_engine_t *engine, uint64_t size_bytes, uint64_t owner,
                                             uint64_t *out_offset_bytes);

/* The same for a tensor that is used at `time` and not before: victims are used later, or at no known
   time. DAO_ERR_LIMIT, DAO_ERR_HOST_FULL: it has to wait. */
DAO_NODISCARD dao_status_t dao_eviction_take_early(dao_engine_t *engine, uint64_t size_bytes, uint64_t owner,
                                                   uint64_t time, uint64_t *out_offset_bytes);

/* Takes the part of the arena at a place for a tensor, and evicts whatever lies there, its own part not
   excepted. As dao_eviction_take(). */
DAO_NODISCARD dao_status_t dao_eviction_take_at(dao_engine_t *engine, dao_managed_t *tensor,
                                                uint64_t offset_bytes);

/* Moves every tensor off the device but those that are pinned. None is marked as an operand, and nothing is
   landing. */
DAO_NODISCARD dao_status_t dao_eviction_clear(dao_engine_t *engine);

#endif
