/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory of CUDA and HIP: address ranges are reserved, pages are physical memory without an address,
   and mapping joins the two. A mapping is usable once access is allowed, by a second call. Both are one step
   here and are undone together. The vendor's calls are the `vendorVmm` names of backends/cuda/names.h and
   backends/hip/names.h.

   A device lists its mapped handles, for peers that are enabled later:

       pages_map     maps, enters the list, reads the set of reachers (under the lock) -> allows those
       peer_enable   walks the list, allows the peer on each, adds it to the set (all under the lock)
       pages_unmap   leaves the list (under the lock) -> unmaps

   Pages that are mapped once more are ranges in a list of their own (vendor_alias.c), under the same rules.

   Whichever of the first two takes the lock first, the other one sees its effect. Pages that are being
   unmapped are not in the list, so access is never allowed on them. */
#include "backends/vendor/vendor_internal.h"

#include <assert.h>

struct dao_backend_pages {
    vendorVmm_t handle;
    size_t size_bytes;
    bool is_imported; /* of another process or device: peers get no access through it */
    /* Guarded by the device's lock; all NULL while not mapped. */
    void *address;
    dao_backend_pages_t *previous;
    dao_backend_pages_t *next;
};

static_assert(DAO_DEVICE_COUNT_MAX <= 64, "a set of devices is a bit each");

/* A driver that allows no access while work is queued, as WSL's, is asked again after 1, 2, 4, ... ms: a
   second in all. Waiting for the device instead would end captures. */
#define ALLOW_RETRY_COUNT 10
#define ALLOW_RETRY_NS    (UINT64_C(1000) * 1000)

/* Pages that a device is tried with. */
#define TRIED_COUNT 3

/* ---- addresses ---- */

dao_status_t dao_vendor_address_reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    void *address = NULL;
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_HOST_MEMORY, vendorVmmReserve, (&address, size_bytes));
    if (status != DAO_OK) {
        dao_error_prefix("%zu bytes of addresses: ", size_bytes);
        return status;
    }
    *out_address = address;
    return DAO_OK;
}

dao_status_t dao_vendor_address_release(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_HOST_MEMORY, vendorVmmRelease, (address, size_bytes));
    return status;
}

/* ---- which devices access the mapped pages ---- */

static bool is_valid_locked(const dao_backend_device_t *device)
{
    const dao_backend_pages_t *previous = NULL;
    for (const dao_backend_pages_t *pages = device->mapped; pages != NULL; pages = pages->next) {
        if (pages->address == NULL || pages->previous != previous) {
            return false;
        }
        previous = pages;
    }
    return (device->reachers >> device->index & 1) != 0;
}

/* Enters pages into the list. Returns the set of devices that are to access them. */
static uint64_t enter(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    dao_mutex_lock(&device->lock);
    pages->address = address;
    pages->previous = NULL;
    pages->next = device->mapped;
    if (pages->next != NULL) {
        pages->next->previous = pages;
    }
    device->mapped = pages;
    uint64_t reachers = pages->is_imported ? UINT64_C(1) << device->index : device->reachers;
    DAO_ASSERT_HEAVY(is_valid_locked(device));
    dao_mutex_unlock(&device->lock);
    return reachers;
}

static void take_out_locked(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    if (pages->next != NULL) {
        pages->next->previous = pages->previous;
    }
    if (pages->previous != NULL) {
        pages->previous->next = pages->next;
    } else {
        DAO_ASSERT(device->mapped == pages);
        device->mapped = pages->next;
    }
    pages->address = NULL;
    pages->previous = NULL;
    pages->next = NULL;
}

/* Takes pages out of the list. Those of a lost device may have left it in an unmap that failed. */
static void leave(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    dao_mutex_lock(&device->lock);
    if (pages->address != NULL) {
        take_out_locked(device, pages);
    }
    DAO_ASSERT_HEAVY(is_valid_locked(device));
    dao_mutex_unlock(&device->lock);
}

dao_status_t dao_vendor_allow(const dao_backend_device_t *device, void *address, size_t size_bytes,
                              uint64_t devices)
{
    dao_status_t status;
    uint64_t pause_ns = ALLOW_RETRY_NS;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorVmmAllow, (address, size_bytes, devices));
    for (int i = 0; i < ALLOW_RETRY_COUNT && status == DAO_ERR_NOT_READY; i++) {
        dao_sleep_until(dao_clock_ns() + pause_ns);
        pause_ns *= 2;
        CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorVmmAllow, (address, size_bytes, devices));
    }
    if (status == DAO_ERR_NOT_READY) {
        dao_error_prefix("access to %zu bytes of mapped pages, asked for %d times: ", size_bytes,
                         ALLOW_RETRY_COUNT + 1);
    }
    return status;
}

/* The only vendor calls under a lock: they are rare, and the list must not change meanwhile. */
dao_status_t dao_vendor_pages_open(dao_backend_device_t *device, int reacher)
{
    uint64_t bit = UINT64_C(1) << reacher;
    dao_status_t status = DAO_OK;
    dao_mutex_lock(&device->lock);
    const dao_backend_pages_t *pages = (device->reachers & bit) == 0 ? device->mapped : NULL;
    while (pages != NULL && status == DAO_OK) {
        status =
            pages->is_imported ? DAO_OK : dao_vendor_allow(device, pages->address, pages->size_bytes, bit);
        pages = pages->next;
    }
    if (status == DAO_OK && (device->reachers & bit) == 0) {
        status = dao_vendor_aliases_allow_locked(device, reacher);
    }
    if (status == DAO_OK && (device->reachers & bit) == 0) {
        status = dao_vendor_pools_allow_locked(device, reacher);
    }
    device->reachers |=
        status == DAO_OK ? bit : 0; /* after a failure some pages are open early, which does no harm */
    dao_mutex_unlock(&device->lock);
    return status;
}

/* ---- pages ---- */

/* Returns the structure for a handle that is still to be made; NULL, with the error set, without host
   memory. */
static dao_backend_pages_t *pages_wrap(const dao_backend_device_t *device, size_t size_bytes)
{
    dao_backend_pages_t *pages = dao_host_calloc(1, sizeof(*pages));
    if (pages == NULL) {
        (void)dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for pages of device:%d", device->index);
        return NULL;
    }
    pages->size_bytes = size_bytes;
    return pages;
}

/* Hands over pages whose handle was made, or frees the structure if it was refused. */
static dao_status_t pages_finish(dao_backend_pages_t *pages, dao_status_t status,
                                 dao_backend_pages_t **out_pages)
{
    if (status != DAO_OK) {
        dao_error_prefix("pages of %zu bytes: ", pages->size_bytes);
        dao_host_free(pages);
        return status;
    }
    *out_pages = pages;
    return DAO_OK;
}

dao_status_t dao_vendor_pages_create(dao_backend_device_t *device, size_t size_bytes,
                                     dao_backend_pages_t **out_pages)
{
    dao_backend_pages_t *pages = pages_wrap(device, size_bytes);
    if (pages == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorVmmCreate,
         (&pages->handle, size_bytes, device->index));
    return pages_finish(pages, status, out_pages);
}

/* ---- pages for several processes ---- */

dao_status_t dao_vendor_pages_create_shared(dao_backend_device_t *device, size_t size_bytes,
                                            dao_backend_pages_t **out_pages)
{
    dao_backend_pages_t *pages = pages_wrap(device, size_bytes);
    if (pages == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorVmmCreateShared,
         (&pages->handle, size_bytes, device->index));
    return pages_finish(pages, status, out_pages);
}

dao_status_t dao_vendor_pages_import(dao_backend_device_t *device, int descriptor, size_t size_bytes,
                                     dao_backend_pages_t **out_pages)
{
    dao_backend_pages_t *pages = pages_wrap(device, size_bytes);
    if (pages == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    pages->is_imported = true;
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorVmmImport, (&pages->handle, descriptor));
    return pages_finish(pages, status, out_pages);
}

dao_status_t dao_vendor_pages_export(dao_backend_device_t *device, const dao_backend_pages_t *pages,
                                     int *out_descriptor)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_HOST_MEMORY, vendorVmmExport, (out_descriptor, pages->handle));
    return status;
}

dao_status_t dao_vendor_pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorVmmDestroy, (pages->handle));
    if (status != DAO_OK && status != DAO_ERR_DEVICE_LOST) {
        return status;
    }
    leave(device, pages);
    dao_host_free(pages); /* a lost device took the memory with it */
    return DAO_OK;
}

void dao_vendor_pages_forget(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    leave(device, pages);
    dao_host_free(pages);
}

void dao_vendor_pages_discard(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    if (dao_vendor_pages_destroy(device, pages) != DAO_OK) {
        dao_vendor_pages_forget(device, pages);
    }
}

size_t dao_vendor_pages_size(const dao_backend_pages_t *pages)
{
    return pages->size_bytes;
}

/* ---- handles by their addresses ---- */

bool dao_vendor_pages_find(dao_backend_device_t *device, const void *base, size_t page_bytes,
                           size_t page_count, vendorVmm_t *out_handles)
{
    uintptr_t begin = (uintptr_t)base, end = begin + page_count * page_bytes;
    size_t found_count = 0;
    dao_mutex_lock(&device->lock);
    for (const dao_backend_pages_t *pages = device->mapped; pages != NULL; pages = pages->next) {
        uintptr_t address = (uintptr_t)pages->address;
        bool is_page = address >= begin && address < end && (address - begin) % page_bytes == 0 &&
                       pages->size_bytes == page_bytes && !pages->is_imported;
        if (is_page) {
            out_handles[(address - begin) / page_bytes] = pages->handle;
            found_count++; /* no address is behind two */
        }
    }
    dao_mutex_unlock(&device->lock);
    return found_count == page_count;
}

size_t dao_vendor_pages_bytes_at(dao_backend_device_t *device, const void *address)
{
    size_t size_bytes = 0;
    dao_mutex_lock(&device->lock);
    for (const dao_backend_pages_t *pages = device->mapped; pages != NULL && size_bytes == 0;
         pages = pages->next) {
        size_bytes = pages->address == address ? pages->size_bytes : 0;
    }
    dao_mutex_unlock(&device->lock);
    return size_bytes;
}

/* ---- mapping ---- */

static dao_status_t map_alone(dao_backend_device_t *device, const dao_backend_pages_t *pages, void *address)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorVmmMap,
         (address, pages->size_bytes, pages->handle));
    return status;
}

dao_status_t dao_vendor_pages_unmap_run(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                        size_t page_count, void *address)
{
    dao_status_t status;
    size_t size_bytes = 0;
    for (size_t i = 0; i < page_count; i++) {
        leave(device, pages[i]);
        size_bytes += pages[i]->size_bytes;
    }
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorVmmUnmap, (address, size_bytes));
    if (status == DAO_OK || status == DAO_ERR_DEVICE_LOST) {
        return status;
    }
    dao_error_record_t record;
    dao_error_save(&record, status);
    uint64_t reachers = 0;
    char *next = address;
    for (size_t i = 0; i < page_count; i++) {
        reachers = enter(device, pages[i], next);
        next += pages[i]->size_bytes;
    }
    /* Peers enabled in between have no access yet; a refusal here has no caller to report to. */
    (void)dao_vendor_allow(device, address, size_bytes, reachers);
    return dao_error_restore(&record);
}

dao_status_t dao_vendor_pages_unmap(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    return dao_vendor_pages_unmap_run(device, &pages, 1, address);
}

/* Allows access to the whole run by one call instead of one a handle. */
dao_status_t dao_vendor_pages_map_run(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                      size_t page_count, void *address)
{
    char *end = address;
    uint64_t reachers = 0;
    size_t count = 0;
    dao_status_t status = DAO_OK;
    while (count < page_count && (status = map_alone(device, pages[count], end)) == DAO_OK) {
        reachers = enter(device, pages[count], end);
        end += pages[count++]->size_bytes;
    }
    if (status == DAO_OK) {
        status = dao_vendor_allow(device, address, (size_t)(end - (char *)address), reachers);
    }
    if (status == DAO_OK) {
        return DAO_OK;
    }
    dao_error_record_t record;
    dao_error_save(&record, status);
    while (count > 0) {
        end -= pages[--count]->size_bytes;
        (void)dao_vendor_pages_unmap(device, pages[count], end); /* the first failure is the one to report */
    }
    return dao_error_restore(&record);
}

dao_status_t dao_vendor_pages_map(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    return dao_vendor_pages_map_run(device, &pages, 1, address);
}

dao_status_t dao_vendor_pages_create_mapped(dao_backend_device_t *device, size_t page_bytes,
                                            size_t page_count, void *address, dao_backend_pages_t **out_pages)
{
    size_t count = 0;
    dao_status_t status = DAO_OK;
    while (count < page_count &&
           (status = dao_vendor_pages_create(device, page_bytes, &out_pages[count])) == DAO_OK) {
        count++;
    }
    if (status == DAO_OK) {
        status = dao_vendor_pages_map_run(device, out_pages, page_count, address);
    }
    if (status == DAO_OK) {
        return DAO_OK;
    }
    dao_error_record_t record;
    dao_error_save(&record, status);
    while (count > 0) {
        dao_vendor_pages_discard(device, out_pages[--count]);
    }
    return dao_error_restore(&record);
}

/* ---- whether pages can be used at all ---- */

static dao_status_t first_failure(dao_status_t first, dao_status_t second)
{
    return first != DAO_OK ? first : second;
}

/* Pages enter behind others twice, and one leaves and enters again, as allocators let them. */
static dao_status_t grow_and_remap(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                   char *base)
{
    size_t page_bytes = device->page_bytes;
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < TRIED_COUNT && status == DAO_OK; i++) {
        status = dao_vendor_pages_map(device, pages[i], base + i * page_bytes);
    }
    status = status != DAO_OK ? status : dao_vendor_pages_unmap(device, pages[1], base + page_bytes);
    return status != DAO_OK ? status : dao_vendor_pages_map(device, pages[1], base + page_bytes);
}

/* Gives back what was tried. What the driver does not unmap is left to it, as all is on a lost device. */
static dao_status_t give_back(dao_backend_device_t *device, dao_backend_pages_t *const *pages, char *base,
                              bool is_lost)
{
    dao_status_t status = is_lost ? DAO_ERR_DEVICE_LOST : DAO_OK;
    for (size_t i = 0; i < TRIED_COUNT && pages[i] != NULL && status == DAO_OK; i++) {
        if (pages[i]->address != NULL) {
            status = dao_vendor_pages_unmap(device, pages[i], base + i * device->page_bytes);
        }
    }
    bool is_free = status == DAO_OK;
    for (size_t i = 0; i < TRIED_COUNT && pages[i] != NULL; i++) {
        dao_status_t destroyed = is_free ? dao_vendor_pages_destroy(device, pages[i]) : status;
        if (destroyed != DAO_OK) {
            dao_vendor_pages_forget(device, pages[i]);
        }
        status = first_failure(status, destroyed);
    }
    if (is_free && base != NULL) {
        dao_status_t released = dao_vendor_address_release(device, base, TRIED_COUNT * device->page_bytes);
        status = first_failure(status, released);
    }
    return status;
}

dao_status_t dao_vendor_pages_try(dao_backend_device_t *device)
{
    dao_backend_pages_t *pages[TRIED_COUNT] = {NULL};
    void *base = NULL;
    dao_status_t status = dao_vendor_address_reserve(device, TRIED_COUNT * device->page_bytes, &base);
    for (size_t i = 0; i < TRIED_COUNT && status == DAO_OK; i++) {
        status = dao_vendor_pages_create(device, device->page_bytes, &pages[i]);
    }
    status = status != DAO_OK ? status : grow_and_remap(device, pages, base);
    dao_error_record_t record;
    dao_error_save(&record, status);
    dao_status_t given_back = give_back(device, pages, base, status == DAO_ERR_DEVICE_LOST);
    return status != DAO_OK ? dao_error_restore(&record) : given_back;
}
