/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and pages of a program's own table, as a backend gives them. What the table answers is checked where
   the library could not bear it otherwise: addresses that are NULL or not aligned. Invariant: held_bytes is
   what was obtained and created and is not given back, at most capacity_bytes. */
#include "runtime/own/own_internal.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"

#include <inttypes.h>
#include <stdio.h>

/* Least alignment of what is obtained: that of every backend's memory. */
#define ALIGNMENT_BYTES ((size_t)256)

struct dao_backend_pages {
    size_t size_bytes;
    void *own; /* the program's */
};

static size_t alignment_of(const dao_backend_device_t *device)
{
    return device->table.alignment_bytes > ALIGNMENT_BYTES ? device->table.alignment_bytes : ALIGNMENT_BYTES;
}

/* Takes a part of the capacity. */
static dao_status_t hold(dao_backend_device_t *device, uint64_t size_bytes)
{
    uint64_t held_bytes = atomic_load(&device->held_bytes);
    do {
        if (size_bytes > device->table.capacity_bytes - held_bytes) {
            return dao_error(DAO_ERR_NO_DEVICE_MEMORY,
                             "the memory \"%s\" has %" PRIu64 " of its %" PRIu64 " bytes left", device->name,
                             device->table.capacity_bytes - held_bytes, device->table.capacity_bytes);
        }
    } while (!atomic_compare_exchange_weak(&device->held_bytes, &held_bytes, held_bytes + size_bytes));
    return DAO_OK;
}

static void let_go(dao_backend_device_t *device, uint64_t size_bytes)
{
    uint64_t before_bytes = atomic_fetch_sub(&device->held_bytes, size_bytes);
    DAO_ASSERT(before_bytes >= size_bytes);
    (void)before_bytes;
}

static dao_status_t own_device_query(dao_backend_device_t *device, dao_device_info_t *out_info)
{
    uint64_t capacity_bytes = device->table.capacity_bytes;
    *out_info =
        (dao_device_info_t){.total_bytes = capacity_bytes,
                            .free_bytes = capacity_bytes - atomic_load(&device->held_bytes),
                            .page_bytes = device->table.page_bytes,
                            .alignment_bytes = alignment_of(device),
                            .host_accessible = device->table.copy == NULL && !device->table.is_on_device};
    (void)snprintf(out_info->name, sizeof(out_info->name), "%s", device->name);
    return DAO_OK;
}

/* ---- memory ---- */

static bool is_usable(const void *address, size_t alignment_bytes)
{
    return address != NULL && (uintptr_t)address % alignment_bytes == 0;
}

/* Names what a function gave that cannot be used. */
static dao_status_t address_error(const dao_backend_device_t *device, const char *function,
                                  const void *address, size_t alignment_bytes)
{
    return dao_error(DAO_ERR_BACKEND, "%s of the memory \"%s\" gave %p, which is not aligned to %zu",
                     function, device->name, address, alignment_bytes);
}

static dao_status_t own_memory_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    void *address = NULL;
    dao_status_t status = hold(device, size_bytes);
    if (status != DAO_OK) {
        return status;
    }
    OWN_CALL(status, device, obtain, size_bytes, &address);
    if (status == DAO_OK && !is_usable(address, alignment_of(device))) {
        if (address != NULL) {
            OWN_CALL(status, device, release, address, size_bytes);
        }
        status = address_error(device, "obtain", address, alignment_of(device));
    }
    if (status != DAO_OK) {
        let_go(device, size_bytes);
        return status;
    }
    *out_address = address;
    return DAO_OK;
}

static dao_status_t own_memory_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    dao_status_t status;
    OWN_CALL(status, device, release, address, size_bytes);
    if (status == DAO_OK) {
        let_go(device, size_bytes);
    }
    return status;
}

static dao_status_t own_pinned_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    if (device->lender != NULL) {
        return device->lender_ops->pinned_alloc(device->lender, size_bytes, out_address);
    }
    void *address = dao_host_aligned(dao_round_up(size_bytes, ALIGNMENT_BYTES), ALIGNMENT_BYTES);
    if (address == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "the system refuses %zu bytes", size_bytes);
    }
    *out_address = address;
    return DAO_OK;
}

static dao_status_t own_pinned_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    if (device->lender != NULL) {
        return device->lender_ops->pinned_free(device->lender, address, size_bytes);
    }
    dao_host_free(address);
    return DAO_OK;
}

/* ---- pages ---- */

static dao_status_t own_address_reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    void *address = NULL;
    dao_status_t status;
    OWN_CALL(status, device, reserve, size_bytes, &address);
    size_t page_bytes =
        device->table.page_bytes > ALIGNMENT_BYTES ? device->table.page_bytes : ALIGNMENT_BYTES;
    if (status == DAO_OK && !is_usable(address, page_bytes)) {
        if (address != NULL) {
            OWN_CALL(status, device, unreserve, address, size_bytes);
        }
        status = address_error(device, "reserve", address, page_bytes);
    }
    if (status == DAO_OK) {
        *out_address = address;
    }
    return status;
}

static dao_status_t own_address_release(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    dao_status_t status;
    OWN_CALL(status, device, unreserve, address, size_bytes);
    return status;
}

static dao_status_t own_pages_create(dao_backend_device_t *device, size_t size_bytes,
                                     dao_backend_pages_t **out_pages)
{
    dao_backend_pages_t *pages = dao_host_calloc(1, sizeof(*pages));
    if (pages == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for pages of \"%s\"", device->name);
    }
    pages->size_bytes = size_bytes;
    dao_status_t status = hold(device, size_bytes);
    if (status == DAO_OK) {
        OWN_CALL(status, device, page_create, size_bytes, &pages->own);
        if (status != DAO_OK) {
            let_go(device, size_bytes);
        }
    }
    if (status != DAO_OK) {
        dao_host_free(pages);
        return status;
    }
    *out_pages = pages;
    return DAO_OK;
}

static dao_status_t own_pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    dao_status_t status;
    OWN_CALL(status, device, page_destroy, pages->own, pages->size_bytes);
    if (status != DAO_OK && status != DAO_ERR_DEVICE_LOST) {
        return status;
    }
    let_go(device, pages->size_bytes);
    dao_host_free(pages);
    return DAO_OK;
}

static dao_status_t own_pages_map(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    dao_status_t status;
    OWN_CALL(status, device, page_map, pages->own, address, pages->size_bytes);
    return status;
}

static dao_status_t own_pages_unmap(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    dao_status_t status;
    OWN_CALL(status, device, page_unmap, pages->own, address, pages->size_bytes);
    return status;
}

static size_t own_pages_size(const dao_backend_pages_t *pages)
{
    return pages->size_bytes;
}

/* ---- the table ---- */

const dao_backend_ops_t dao_own_ops = {
    .version = DAO_BACKEND_OPS_VERSION,
    .name = "own",
    .device_query = own_device_query,
    .device_synchronize = dao_own_synchronize,
    .memory_alloc = own_memory_alloc,
    .memory_free = own_memory_free,
    .pinned_alloc = own_pinned_alloc,
    .pinned_free = own_pinned_free,
    .stream_create = dao_own_stream_create,
    .stream_destroy = dao_own_stream_destroy,
    .stream_synchronize = dao_own_stream_synchronize,
    .stream_wait_event = dao_own_stream_wait_event,
    .stream_native = dao_own_stream_native,
    .event_create = dao_own_event_create,
    .event_destroy = dao_own_event_destroy,
    .event_record = dao_own_event_record,
    .event_query = dao_own_event_query,
    .event_synchronize = dao_own_event_synchronize,
    .event_elapsed = dao_own_event_elapsed,
    .copy = dao_own_copy,
    .fill = dao_own_fill,
    .host_func = dao_own_host_func,
    .address_reserve = own_address_reserve,
    .address_release = own_address_release,
    .pages_create = own_pages_create,
    .pages_destroy = own_pages_destroy,
    .pages_map = own_pages_map,
    .pages_unmap = own_pages_unmap,
    .pages_size = own_pages_size,
    .stream_adopt = dao_own_stream_adopt,
    .has_default_stream = true,
    .made_streams_wait_on_host = true,
};

dao_status_t dao_own_device_create(const dao_own_memory_t *memory, dao_backend_device_t **out_device)
{
    dao_backend_device_t *device = dao_host_calloc(1, sizeof(*device));
    if (device == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the place of \"%s\"", memory->name);
    }
    device->table = *memory;
    (void)snprintf(device->name, sizeof(device->name), "%s", memory->name);
    device->table.name = device->name;
    atomic_init(&device->held_bytes, 0);
    dao_mutex_init(&device->lock, DAO_RANK_BACKEND);
    dao_cond_init(&device->walked);
    *out_device = device;
    return DAO_OK;
}

void dao_own_device_destroy(dao_backend_device_t *device)
{
    if (device != NULL) {
        DAO_ASSERT(device->adopted == NULL);
        dao_cond_finish(&device->walked);
        dao_mutex_finish(&device->lock);
        dao_host_free(device);
    }
}

/* Returns the index of the device that it is on; -1: none. */
static int32_t host_of(const dao_backend_device_t *device)
{
    return device->table.is_on_device ? device->table.device_index : -1;
}

int32_t dao_own_home(const dao_core_t *core, int32_t device_index)
{
    int32_t host_index = device_index < core->device_count ? -1 : host_of(core->own_devices[device_index]);
    return host_index < 0 ? device_index : host_index;
}

void dao_own_device_lend(dao_backend_device_t *device, const dao_backend_ops_t *ops,
                         dao_backend_device_t *lender)
{
    device->lender_ops = ops;
    device->lender = lender;
}
