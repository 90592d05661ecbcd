/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that are kept to run again, and contents that are given up meanwhile. */
#ifndef DAO_RUNTIME_EXECUTOR_AGAIN_H
#define DAO_RUNTIME_EXECUTOR_AGAIN_H

#include "runtime/executor/core/engine_state.h"

/* A kernel has run for the first time, and will `count` times more, in `again_ns` each: its tensors are held,
   so that what it reads lives on. The item is the keeper's, until dao_again_pass() or dao_again_leave(). */
void dao_again_keep(dao_item_t *item, uint32_t count, uint64_t again_ns);

/* It was queued once more. Returns true if that was the last time: its tensors are
   not held any more, and the item is gone. */
bool dao_again_pass(dao_engine_t *engine, dao_item_t *item);

/* Gives up a content that a kept kernel is going to make again: the tensor is EMPTY. */
void dao_again_give_up(dao_engine_t *engine, dao_managed_t *tensor);

/* The program discards a tensor. Returns true if it is held: that happens once it is not. */
bool dao_again_puts_off_discard(dao_managed_t *tensor);

/* The plan that a kept kernel belongs to was left; of several, the one that ran first comes first. */
void dao_again_leave(dao_engine_t *engine, dao_item_t *item);

/* Makes all contents again that are given up, while no plan is followed, and lets go of all kernels that were
   left; mostly there is nothing to do. A kernel that fails is the engine's failure. Returns false if the
   engine has failed. */
bool dao_again_restore(dao_engine_t *engine);

/* Lets go of them; nothing runs any more. */
void dao_again_abandon(dao_engine_t *engine);

#endif
