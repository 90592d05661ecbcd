/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a virtual device (backends/virtual_memory.h). Page handles count against the same capacity. While
   it is not mapped, a handle's pages lie at a home address of their own; mapping moves them with mremap,
   without copying. */
#include "backends/cpu/cpu_internal.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/error.h"

#include <inttypes.h>

struct dao_backend_pages {
    size_t size_bytes;
    void *address; /* where the pages are: home, or where they are mapped */
    bool is_mapped;
    bool is_refused; /* the system had no address for them to go home to */
};

dao_status_t dao_cpu_memory_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    dao_status_t status = dao_cpu_check_thread();
    return status == DAO_OK ? dao_virtual_memory_alloc(&device->memory, size_bytes, out_address) : status;
}

dao_status_t dao_cpu_memory_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    dao_status_t status = dao_cpu_check_thread();
    return status == DAO_OK ? dao_virtual_memory_free(&device->memory, address, size_bytes) : status;
}

dao_status_t dao_cpu_pinned_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    dao_status_t status = dao_cpu_check_thread();
    return status == DAO_OK ? dao_virtual_memory_alloc_pinned(&device->memory, size_bytes, out_address)
                            : status;
}

dao_status_t dao_cpu_pinned_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    dao_status_t status = dao_cpu_check_thread();
    return status == DAO_OK ? dao_virtual_memory_free_pinned(&device->memory, address, size_bytes) : status;
}

/* Registered host memory. Virtual devices copy from all host memory at the speed of their links and use the
   process's addresses: there is nothing to lock and nothing to map. */

dao_status_t dao_cpu_host_register(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    (void)device;
    (void)address;
    (void)size_bytes;
    return dao_cpu_check_thread();
}

dao_status_t dao_cpu_host_unregister(dao_backend_device_t *device, void *address)
{
    (void)device;
    (void)address;
    return dao_cpu_check_thread();
}

dao_status_t dao_cpu_host_device_address(dao_backend_device_t *device, void *address, void **out_address)
{
    (void)device;
    dao_status_t status = dao_cpu_check_thread();
    if (status == DAO_OK) {
        *out_address = address;
    }
    return status;
}

/* ---- pages at several addresses ---- */

dao_status_t dao_cpu_alias_prepare(dao_backend_device_t *device, void *base, size_t size_bytes,
                                   size_t *out_page_bytes)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status == DAO_OK && !device->backend->has_pages) {
        status = dao_error(DAO_ERR_UNSUPPORTED, "virtual device %" PRId32 " maps no pages", device->index);
    }
    return status == DAO_OK
               ? dao_virtual_memory_alias_prepare(&device->memory, base, size_bytes, out_page_bytes)
               : status;
}

dao_status_t dao_cpu_alias_map(dao_backend_device_t *device, void *base, size_t page_bytes,
                               const uint32_t *pages, size_t page_count, void **out_address)
{
    dao_status_t status = dao_cpu_check_thread();
    return status == DAO_OK ? dao_virtual_memory_alias_map(&device->memory, base, page_bytes, pages,
                                                           page_count, out_address)
                            : status;
}

dao_status_t dao_cpu_alias_unmap(dao_backend_device_t *device, void *address, size_t page_bytes,
                                 size_t page_count, size_t keep_count)
{
    dao_status_t status = dao_cpu_check_thread();
    return status == DAO_OK
               ? dao_virtual_memory_alias_unmap(&device->memory, address, page_bytes, page_count, keep_count)
               : status;
}

/* ---- virtual memory ---- */

dao_status_t dao_cpu_address_reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    void *address = dao_host_reserve(size_bytes, DAO_CPU_PAGE_BYTES);
    if (address == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY,
                         "the system refused %zu bytes of address space for virtual device %" PRId32
                         "; give it less (DAO_CPU_DEVICE_BYTES) or the process more (ulimit -v)",
                         size_bytes, device->index);
    }
    *out_address = address;
    return DAO_OK;
}

dao_status_t dao_cpu_address_release(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    (void)device; /* reservations belong to the process */
    dao_host_unmap(address, size_bytes);
    return DAO_OK;
}

static void count_page_handle(dao_backend_device_t *device, int32_t change)
{
    dao_mutex_lock(&device->memory.lock);
    device->page_handle_count = (uint32_t)((int64_t)device->page_handle_count + change);
    dao_mutex_unlock(&device->memory.lock);
}

dao_status_t dao_cpu_pages_create(dao_backend_device_t *device, size_t size_bytes,
                                  dao_backend_pages_t **out_pages)
{
    DAO_ASSERT(size_bytes % DAO_CPU_PAGE_BYTES == 0);
    dao_status_t status = dao_cpu_check_thread();
    if (status == DAO_OK) {
        status = dao_virtual_memory_take(&device->memory, size_bytes);
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_backend_pages_t *pages = dao_host_calloc(1, sizeof(*pages));
    void *home = pages != NULL ? dao_host_map(size_bytes, DAO_CPU_PAGE_BYTES) : NULL;
    if (home == NULL) {
        dao_host_free(pages);
        dao_virtual_memory_give(&device->memory, size_bytes);
        return dao_error(DAO_ERR_NO_HOST_MEMORY,
                         "the system refused %zu bytes of pages for virtual device %" PRId32, size_bytes,
                         device->index);
    }
    *pages = (dao_backend_pages_t){.size_bytes = size_bytes, .address = home};
    count_page_handle(device, 1);
    *out_pages = pages;
    return DAO_OK;
}

/* Makes handles without pages; none if there is no memory for all. */
static bool make_handles(size_t page_bytes, size_t page_count, dao_backend_pages_t **out_pages)
{
    for (size_t i = 0; i < page_count; i++) {
        out_pages[i] = dao_host_calloc(1, sizeof(*out_pages[i]));
        if (out_pages[i] == NULL) {
            while (i > 0) {
                dao_host_free(out_pages[--i]);
            }
            return false;
        }
        out_pages[i]->size_bytes = page_bytes;
        out_pages[i]->is_mapped = true;
    }
    return true;
}

dao_status_t dao_cpu_pages_create_mapped(dao_backend_device_t *device, size_t page_bytes, size_t page_count,
                                         void *address, dao_backend_pages_t **out_pages)
{
    DAO_ASSERT(page_bytes % DAO_CPU_PAGE_BYTES == 0 && (uintptr_t)address % DAO_CPU_PAGE_BYTES == 0);
    size_t size_bytes = page_bytes * page_count;
    dao_status_t status = dao_cpu_check_thread();
    if (status == DAO_OK) {
        status = dao_virtual_memory_take(&device->memory, size_bytes);
    }
    if (status != DAO_OK) {
        return status;
    }
    bool has_handles = make_handles(page_bytes, page_count, out_pages);
    if (!has_handles || !dao_host_map_at(address, size_bytes)) {
        for (size_t i = 0; has_handles && i < page_count; i++) {
            dao_host_free(out_pages[i]);
        }
        dao_virtual_memory_give(&device->memory, size_bytes);
        return dao_error(DAO_ERR_NO_HOST_MEMORY,
                         "the system refused %zu bytes of pages for virtual device %" PRId32, size_bytes,
                         device->index);
    }
    for (size_t i = 0; i < page_count; i++) {
        out_pages[i]->address = (char *)address + i * page_bytes;
    }
    count_page_handle(device, (int32_t)page_count);
    return DAO_OK;
}

dao_status_t dao_cpu_pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    if (pages->is_mapped && !pages->is_refused) {
        return dao_error(DAO_ERR_BUSY,
                         "virtual device %" PRId32
                         ": pages mapped at %p cannot be destroyed; unmap them first",
                         device->index, pages->address);
    }
    if (!pages->is_mapped) { /* else they go with the addresses that they are mapped at */
        dao_host_unmap(pages->address, pages->size_bytes);
    }
    dao_virtual_memory_give(&device->memory, pages->size_bytes);
    count_page_handle(device, -1);
    dao_host_free(pages);
    return DAO_OK;
}

dao_status_t dao_cpu_pages_map(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    DAO_ASSERT((uintptr_t)address % DAO_CPU_PAGE_BYTES == 0);
    if (pages->is_mapped) {
        return dao_error(DAO_ERR_BUSY, "virtual device %" PRId32 ": the pages are mapped at %p already",
                         device->index, pages->address);
    }
    if (!dao_host_move(pages->address, address, pages->size_bytes)) {
        return dao_error(DAO_ERR_BACKEND,
                         "virtual device %" PRId32 ": the system refused to map %zu bytes at %p",
                         device->index, pages->size_bytes, address);
    }
    pages->address = address;
    pages->is_mapped = true;
    return DAO_OK;
}

dao_status_t dao_cpu_pages_unmap(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    if (!pages->is_mapped || pages->address != address) {
        return dao_error(DAO_ERR_INVALID, "virtual device %" PRId32 ": the pages are not mapped at %p",
                         device->index, address);
    }
    void *home = dao_host_move_home(address, pages->size_bytes, DAO_CPU_PAGE_BYTES);
    pages->is_refused = home == NULL;
    if (home == NULL) {
        return dao_error(DAO_ERR_BACKEND,
                         "virtual device %" PRId32 ": the system refused to unmap %zu bytes at %p",
                         device->index, pages->size_bytes, address);
    }
    pages->address = home;
    pages->is_mapped = false;
    return DAO_OK;
}

size_t dao_cpu_pages_size(const dao_backend_pages_t *pages)
{
    return pages->size_bytes;
}
