/* SPDX-License-Identifier: Apache-2.0 */
/* A backend's table over a program's own memory (dao/own_memory.h). A device of it is one registered place;
   there is no driver, so nothing opens or closes one but its maker. */
#ifndef DAO_RUNTIME_OWN_DEVICE_H
#define DAO_RUNTIME_OWN_DEVICE_H

#include "backends/backend.h"
#include "runtime/core/core.h"

#include <dao/own_memory.h>

/* Memory and pages of every device of program's own memory; streams of those that are on no other device. */
extern const dao_backend_ops_t dao_own_ops;

/* Copies a valid table. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_own_device_create(const dao_own_memory_t *memory,
                                                 dao_backend_device_t **out_device);
void dao_own_device_destroy(dao_backend_device_t *device); /* nothing of it is left; NULL is allowed */

/* Returns the number of the device whose streams and copies serve a device place. */
int32_t dao_own_home(const dao_core_t *core, int32_t device_index);

/* Has pinned memory come from the device that it is on. */
void dao_own_device_lend(dao_backend_device_t *device, const dao_backend_ops_t *ops,
                         dao_backend_device_t *lender);

#endif
