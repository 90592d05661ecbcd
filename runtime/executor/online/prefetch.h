/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches operands before their kernel is next: as soon as there is memory that no kernel before it needs. */
#ifndef DAO_RUNTIME_EXECUTOR_PREFETCH_H
#define DAO_RUNTIME_EXECUTOR_PREFETCH_H

#include "runtime/executor/core/engine_state.h"

/* Looks at kernels behind the one that is next, in their order, and fetches what they read, as far as memory
   allows. What fails is left to the kernel's own turn. */
void dao_prefetch_fetch(dao_engine_t *engine);

/* Device time of a kernel: what the program says, else the mean of those that were seen. */
double dao_prefetch_cost_ns(const dao_engine_t *engine, const dao_item_t *item);

/* What kernels can have of the device is another amount: none is admitted as yet. */
void dao_prefetch_restart(dao_engine_t *engine);

/* An item was taken in; the oldest one is about to run. */
void dao_prefetch_enqueued(dao_engine_t *engine, dao_item_t *item);
void dao_prefetch_running(dao_engine_t *engine, const dao_item_t *item);

#endif
