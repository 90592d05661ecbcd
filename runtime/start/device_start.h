/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a device. */
#ifndef DAO_RUNTIME_DEVICE_START_H
#define DAO_RUNTIME_DEVICE_START_H

#include "runtime/device/runtime.h"

/* Starts a device. `lender` is the device that a program's own memory is on, borrowed; NULL: none. The caller
   gets the first reference; the last one ends it. The backend's errors, DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_runtime_create(dao_core_t *core, int32_t device_index, dao_runtime_t *lender,
                                              dao_runtime_t **out_runtime);

#endif
