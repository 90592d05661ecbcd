/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a device in virtual time (backends/virtual_memory.h). Without bytes, address space is reserved:
   addresses are unlike all others of the process, and touching one faults. */
#include "backends/sim/sim_internal.h"

dao_status_t dao_sim_memory_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    dao_status_t status = dao_sim_check_thread();
    return status == DAO_OK ? dao_virtual_memory_alloc(&device->memory, size_bytes, out_address) : status;
}

dao_status_t dao_sim_memory_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    dao_status_t status = dao_sim_check_thread();
    return status == DAO_OK ? dao_virtual_memory_free(&device->memory, address, size_bytes) : status;
}

dao_status_t dao_sim_pinned_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    dao_status_t status = dao_sim_check_thread();
    return status == DAO_OK ? dao_virtual_memory_alloc_pinned(&device->memory, size_bytes, out_address)
                            : status;
}

dao_status_t dao_sim_pinned_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    dao_status_t status = dao_sim_check_thread();
    return status == DAO_OK ? dao_virtual_memory_free_pinned(&device->memory, address, size_bytes) : status;
}

/* Registered host memory: copies take the same time from all host memory, and devices use the process's
   addresses. Nothing has to be done. */

dao_status_t dao_sim_host_register(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    (void)device;
    (void)address;
    (void)size_bytes;
    return dao_sim_check_thread();
}

dao_status_t dao_sim_host_unregister(dao_backend_device_t *device, void *address)
{
    (void)device;
    (void)address;
    return dao_sim_check_thread();
}

dao_status_t dao_sim_host_device_address(dao_backend_device_t *device, void *address, void **out_address)
{
    (void)device;
    dao_status_t status = dao_sim_check_thread();
    if (status == DAO_OK) {
        *out_address = address;
    }
    return status;
}
