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

#endif
