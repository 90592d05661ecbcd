/* SPDX-License-Identifier: Apache-2.0 */
/* Writeback: likely victims are copied to the host while that direction of the link is idle, so that their
   memory can be had at once when it is needed. */
#ifndef DAO_RUNTIME_EXECUTOR_WRITEBACK_H
#define DAO_RUNTIME_EXECUTOR_WRITEBACK_H

#include "runtime/executor/engine.h"

/* Of the arena: copies begin when less than the first share could be had without one, and go on up to the
   second. */
#define DAO_WRITEBACK_LOW_PERCENT  50u
#define DAO_WRITEBACK_HIGH_PERCENT 90u

/* Kernels are queued so far ahead of the device at most, in device time, while copies begin: beyond it
   evictions themselves are queued long before their room is needed, and every other copy is only in their
   way. */
#define DAO_WRITEBACK_NS_MAX UINT64_C(50000000)

/* After a kernel was queued: begins a copy if there is reason to. What fails is left to the eviction. */
void dao_writeback_run(dao_engine_t *engine);

#endif
