/* SPDX-License-Identifier: Apache-2.0 */
/* How the engine fails: kernels are skipped until a sync reports it, or for good. */
#ifndef DAO_RUNTIME_EXECUTOR_FAILURE_H
#define DAO_RUNTIME_EXECUTOR_FAILURE_H

#include "runtime/executor/core/engine_state.h"

/* Keeps the first failure; later ones are consequences. With `lost`, or for DAO_ERR_DEVICE_LOST, the
   device is given up. */
void dao_engine_fail(dao_engine_t *engine, dao_status_t status, bool lost);

/* For what the device cannot refuse and go on, such as a wait on the host: an error gives the device up. */
static inline void dao_engine_lose_unless_ok(dao_engine_t *engine, dao_status_t status)
{
    if (status != DAO_OK) {
        dao_engine_fail(engine, status, true);
    }
}

/* Before an operation is queued on a stream, as dao_timeline_before(). On an error nothing was queued: that
   of dao_stream_takes_work() for a stream of the program's, after which the executor can go on; else the
   device is given up. */
DAO_NODISCARD dao_status_t dao_engine_before(dao_engine_t *engine, dao_stream_role_t role,
                                             const dao_fence_t *fence);

#endif
