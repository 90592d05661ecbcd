/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that the program keeps on the device. Each has a place of the arena of its own: it is there while
   it is on the device, and comes back there if it was not. */
#ifndef DAO_RUNTIME_EXECUTOR_PINS_H
#define DAO_RUNTIME_EXECUTOR_PINS_H

#include "runtime/executor/core/engine_state.h"
#include "runtime/executor/records/tensor.h"

/* Finds the topmost place for a tensor among those that are pinned, or below them. DAO_ERR_LIMIT, with a
   message that says what is pinned. */
DAO_NODISCARD dao_status_t dao_pins_find_place(const dao_engine_t *engine, const dao_managed_t *tensor,
                                               uint64_t *out_offset_bytes);

/* Pins a tensor at a place that was found, or takes the pin away again, whatever its count is. */
void dao_pins_add(dao_engine_t *engine, dao_managed_t *tensor, uint64_t offset_bytes);
void dao_pins_remove(dao_engine_t *engine, dao_managed_t *tensor);

/* Returns the bytes below all pinned tensors: what all others can count on together. O(pinned). */
uint64_t dao_pins_free_bytes(const dao_engine_t *engine);

uint32_t dao_pins_count(const dao_engine_t *engine);

/* Places are in the arena and apart, and tensors on the device lie at them. */
bool dao_pins_are_valid(const dao_engine_t *engine);

#endif
