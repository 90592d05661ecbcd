/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and stopping the library, and its devices with their first use. */
#ifndef DAO_RUNTIME_CONTEXT_H
#define DAO_RUNTIME_CONTEXT_H

#include "runtime/device/runtime.h"

#include <dao/context.h>

/* Starts the library on a given backend instead of the built one, for tests. As dao_init() otherwise. */
DAO_NODISCARD dao_status_t dao_context_start(const dao_config_t *config, const dao_backend_ops_t *ops);

/* Starts the library if need be, and finds its core, borrowed. DAO_ERR_SHUTDOWN, DAO_ERR_FORKED, and
   the errors of dao_init(). */
DAO_NODISCARD dao_status_t dao_context_enter(dao_core_t **out_core);

/* Makes sure as well that the library has a place. The errors of dao_place_check(). */
DAO_NODISCARD static inline dao_status_t dao_place_enter(dao_place_t place, dao_core_t **out_core)
{
    dao_status_t status = dao_context_enter(out_core);
    return status == DAO_OK ? dao_place_check(*out_core, place) : status;
}

/* Keeps a checked config, in which the strategy is named, for a place that the core has. DAO_ERR_BUSY if it
   has started. */
DAO_NODISCARD dao_status_t dao_context_configure(dao_core_t *core, dao_place_t place,
                                                 const dao_place_config_t *config);

/* Starts the host's place if need be, and finds its allocator. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_core_host_start(dao_core_t *core, dao_allocator_t **out_allocator);

/* Starts a device if need be, and finds its runtime, borrowed. As dao_runtime_acquire()
   otherwise. */
DAO_NODISCARD dao_status_t dao_runtime_borrow(int32_t device_index, dao_runtime_t **out_runtime);

/* Finds the runtime of a device, starting it if need be, with a reference for the caller.
   DAO_ERR_NO_DEVICE, DAO_ERR_SHUTDOWN, DAO_ERR_NO_HOST_MEMORY, DAO_ERR_THREAD, DAO_ERR_BACKEND. */
DAO_NODISCARD dao_status_t dao_runtime_acquire(int32_t device_index, dao_runtime_t **out_runtime);

#endif
