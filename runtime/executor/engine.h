/* SPDX-License-Identifier: Apache-2.0 */
/* The executor's engine: a state machine without threads, clocks or locks, so that it runs the same in
   virtual time and under seeded schedules. executor.c puts a thread around it. Everything here is called by
   one thread at a time. */
#ifndef DAO_RUNTIME_EXECUTOR_ENGINE_H
#define DAO_RUNTIME_EXECUTOR_ENGINE_H

#include "runtime/executor/core/engine_state.h"

/* Everything in `config` is borrowed and outlives the engine. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_engine_init(dao_engine_t *engine, const dao_engine_config_t *config);

/* Runs nothing more: gives back all memory of all tensors. No items are left. The file tier is closed, but
   not finished: that is left to the destroyer of its streams. */
void dao_engine_finish(dao_engine_t *engine);

/* Takes an item in: from now on the policy sees its uses. */
void dao_engine_enqueue(dao_engine_t *engine, dao_item_t *item);

/* The oldest item that has not run; NULL if there is none. */
const dao_item_t *dao_engine_peek(const dao_engine_t *engine);

/* Runs the oldest item. Returns it if a thread waits for its request; NULL: it is done with. */
dao_item_t *dao_engine_run(dao_engine_t *engine);

/* The arena is another one from now on: `arena`, in which nothing is. A request of another capacity was run
   and not refused, so that nothing is in the old one, which is not used any more. */
void dao_engine_take_arena(dao_engine_t *engine, const dao_device_arena_t *arena);

/* Likewise: there is none. Kernels without memory run, all others are refused. */
void dao_engine_take_no_arena(dao_engine_t *engine);

/* Makes the file tier, for sources if there is no file: its streams are in `config`. On the device, before
   anything needs it. DAO_ERR_IO, DAO_ERR_UNSUPPORTED, DAO_ERR_NO_HOST_MEMORY, DAO_ERR_THREAD: there is none.
 */
DAO_NODISCARD dao_status_t dao_engine_make_file_tier(dao_engine_t *engine);

/* The counters as of now. */
void dao_engine_stats(const dao_engine_t *engine, dao_executor_stats_t *out_stats);

/* The least arena that a kernel can run in: all of its operands and its workspace at once. */
uint64_t dao_engine_least_bytes(const dao_item_t *kernel);

/* Walks all tensors and both tiers. */
bool dao_engine_is_valid(const dao_engine_t *engine);

#endif
