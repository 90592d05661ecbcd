/* SPDX-License-Identifier: Apache-2.0 */
/* Writeback: likely victims are copied to the host while that direction of the link is idle, so that their
   memory can be had at once when it is needed. */
#ifndef DAO_RUNTIME_EXECUTOR_WRITEBACK_H
#define DAO_RUNTIME_EXECUTOR_WRITEBACK_H

#include "runtime/executor/core/engine_state.h"

/* Of the arena: copies begin when less than the first share could be had without one, and go on up to the
   second. */
#define DAO_WRITEBACK_LOW_PERCENT  50u
#define DAO_WRITEBACK_HIGH_PERCENT 90u

/* Victims that are looked at for one that can be copied. */
#define DAO_WRITEBACK_LOOK_MAX 16u

/* Writeback begins only while the host is ahead of the device by less than this, in device time. Further
   ahead, evictions themselves are queued long before their memory is needed, and every other copy delays
   them. */
#define DAO_WRITEBACK_NS_MAX UINT64_C(50000000)

/* After a kernel was queued: begins a copy if there is reason to. What fails is left to the eviction. */
void dao_writeback_run(dao_engine_t *engine);

#endif
