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

/* Pages at several addresses. What a call takes of the host's time is what kvcached's bench_vmm measured on
   an A100, for pages of 2 MiB. */
#define ALIAS_MAP_NS    UINT64_C(1450)
#define ALIAS_ACCESS_NS UINT64_C(36000) /* a call for all pages that are mapped together */
#define ALIAS_UNMAP_NS  UINT64_C(25600)

static dao_status_t pay(dao_backend_device_t *device, uint64_t duration_ns)
{
    return dao_sim_pass(device, dao_sim_now_ns(device) + duration_ns);
}

dao_status_t dao_sim_alias_prepare(dao_backend_device_t *device, void *base, size_t size_bytes,
                                   size_t *out_page_bytes)
{
    dao_status_t status = dao_sim_check_thread();
    return status == DAO_OK
               ? dao_virtual_memory_alias_prepare(&device->memory, base, size_bytes, out_page_bytes)
               : status;
}

dao_status_t dao_sim_alias_map(dao_backend_device_t *device, void *base, size_t page_bytes,
                               const uint32_t *pages, size_t page_count, void **out_address)
{
    void *address = NULL;
    dao_status_t status = dao_sim_check_thread();
    if (status == DAO_OK) {
        status = dao_virtual_memory_alias_map(&device->memory, base, page_bytes, pages, page_count, &address);
    }
    if (status == DAO_OK) {
        status = pay(device, page_count * ALIAS_MAP_NS + ALIAS_ACCESS_NS);
        DAO_ASSERT(status == DAO_OK); /* the thread was checked */
        *out_address = address;
    }
    return status;
}

dao_status_t dao_sim_alias_unmap(dao_backend_device_t *device, void *address, size_t page_bytes,
                                 size_t page_count, size_t keep_count)
{
    dao_status_t status = dao_sim_check_thread();
    if (status == DAO_OK) {
        status = dao_virtual_memory_alias_unmap(&device->memory, address, page_bytes, page_count, keep_count);
    }
    return status == DAO_OK ? pay(device, (page_count - keep_count) * ALIAS_UNMAP_NS) : status;
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
