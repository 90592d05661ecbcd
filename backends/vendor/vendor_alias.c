/* SPDX-License-Identifier: Apache-2.0 */
/* Pages at several addresses, which CUDA defines ("Virtual Aliasing Support" of its programming guide): what
   work writes by one address is seen by another one in work that events order behind it. The pages are found
   by the addresses that they are mapped at already.

       alias_map     reserves, maps a handle a page, enters the list -> allows all reachers by one call
       peer_enable   walks the list, as it does that of vendor_pages.c, under the device's lock
       alias_unmap   leaves the list -> unmaps page by page, as ROCm takes no more at a time, from the end on
                     -> releases the addresses with the first page, else enters the list again

   Devices before CUDA's compute capability 8 fault where mappings change beside running kernels, and drivers
   of ROCm have lost writes by a new address: both are asked only if DAO_ALIAS_PAGES says so. */
#include "backends/vendor/vendor_internal.h"

#include "base/numbers/units.h"
#include "base/text/setting.h"

#define ALIAS_PAGES_VARIABLE "DAO_ALIAS_PAGES"

/* Returns whether the device is asked, if the environment does not say. */
static bool is_good_by_default(const dao_backend_device_t *device)
{
    return VENDOR_ALIASES_FROM_MAJOR != 0 && device->info.compute_major >= VENDOR_ALIASES_FROM_MAJOR;
}

static dao_status_t check_setting(const dao_backend_device_t *device)
{
    uint64_t is_wanted = is_good_by_default(device) ? 1 : 0;
    const char *setting = dao_setting(ALIAS_PAGES_VARIABLE);
    if (setting != NULL && dao_units_parse_switch(setting, &is_wanted) != DAO_OK) {
        return dao_error(DAO_ERR_INVALID, "the environment's %s: %s", ALIAS_PAGES_VARIABLE,
                         dao_last_message());
    }
    return is_wanted != 0 ? DAO_OK
                          : dao_error(DAO_ERR_UNSUPPORTED,
                                      "device:%d: pages are not mapped at several addresses; %s=1 tries it",
                                      device->index, ALIAS_PAGES_VARIABLE);
}

/* Returns the handles of all pages in a range; the caller frees them. NULL, with the error set, if one is not
   there. */
static vendorVmm_t *handles_of(dao_backend_device_t *device, const void *base, size_t page_bytes,
                               size_t page_count)
{
    vendorVmm_t *handles = dao_host_calloc(page_count + 1, sizeof(*handles));
    if (handles == NULL) {
        (void)dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for %zu pages of device:%d", page_count,
                        device->index);
    } else if (!dao_vendor_pages_find(device, base, page_bytes, page_count, handles)) {
        dao_host_free(handles);
        handles = NULL;
        (void)dao_error(DAO_ERR_UNSUPPORTED, "device:%d: %zu bytes at %p are not mapped pages of %zu bytes",
                        device->index, page_count * page_bytes, base, page_bytes);
    }
    return handles;
}

dao_status_t dao_vendor_alias_prepare(dao_backend_device_t *device, void *base, size_t size_bytes,
                                      size_t *out_page_bytes)
{
    dao_status_t status = check_setting(device);
    size_t page_bytes = status == DAO_OK ? dao_vendor_pages_bytes_at(device, base) : 0;
    if (status == DAO_OK && (page_bytes == 0 || size_bytes < page_bytes)) {
        status = dao_error(DAO_ERR_UNSUPPORTED, "device:%d: %zu bytes at %p are not mapped pages",
                           device->index, size_bytes, base);
    }
    if (status != DAO_OK) {
        return status;
    }
    vendorVmm_t *handles = handles_of(device, base, page_bytes, size_bytes / page_bytes);
    if (handles == NULL) {
        return dao_last_status();
    }
    dao_host_free(handles);
    *out_page_bytes = page_bytes;
    return DAO_OK;
}

/* Enters a range into the list. Returns the set of devices that are to access it. */
static uint64_t enter(dao_backend_device_t *device, dao_vendor_alias_t *alias)
{
    dao_mutex_lock(&device->lock);
    alias->next = device->aliases;
    device->aliases = alias;
    uint64_t reachers = device->reachers;
    dao_mutex_unlock(&device->lock);
    return reachers;
}

/* Takes the range at an address out of the list. NULL: there is none. */
static dao_vendor_alias_t *leave(dao_backend_device_t *device, const void *address)
{
    dao_mutex_lock(&device->lock);
    dao_vendor_alias_t **link = &device->aliases;
    while (*link != NULL && (*link)->address != address) {
        link = &(*link)->next;
    }
    dao_vendor_alias_t *alias = *link;
    if (alias != NULL) {
        *link = alias->next;
    }
    dao_mutex_unlock(&device->lock);
    return alias;
}

dao_status_t dao_vendor_aliases_allow_locked(const dao_backend_device_t *device, int reacher)
{
    dao_status_t status = DAO_OK;
    for (const dao_vendor_alias_t *alias = device->aliases; alias != NULL && status == DAO_OK;
         alias = alias->next) {
        status = dao_vendor_allow(device, alias->address, alias->page_bytes * alias->page_count,
                                  UINT64_C(1) << reacher);
    }
    return status;
}

/* Unmaps the pages of a range from keep_count to mapped_count; with a keep_count of 0 it releases the
   addresses. An answer other than DAO_OK and DAO_ERR_DEVICE_LOST leaves the rest mapped. */
static dao_status_t take_down(const dao_backend_device_t *device, const dao_vendor_alias_t *alias,
                              size_t mapped_count, size_t keep_count)
{
    char *address = alias->address;
    size_t page_bytes = alias->page_bytes;
    dao_status_t status = DAO_OK;
    for (size_t i = keep_count; i < mapped_count && (status == DAO_OK || status == DAO_ERR_DEVICE_LOST);
         i++) {
        CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorVmmUnmap,
             (address + i * page_bytes, page_bytes));
    }
    if (status == DAO_OK && keep_count == 0) {
        CALL(status, device->index, DAO_ERR_NO_HOST_MEMORY, vendorVmmRelease,
             (address, alias->reserved_count * page_bytes));
    }
    return status == DAO_ERR_DEVICE_LOST ? DAO_OK : status; /* the driver has taken it down */
}

/* Maps pages behind reserved addresses; *out_count of them were. */
static dao_status_t map_pages(const dao_backend_device_t *device, vendorVmm_t const *handles,
                              size_t page_bytes, const uint32_t *pages, size_t page_count, char *address,
                              size_t *out_count)
{
    dao_status_t status = DAO_OK;
    for (*out_count = 0; *out_count < page_count && status == DAO_OK;) {
        CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorVmmMap,
             (address + *out_count * page_bytes, page_bytes, handles[pages[*out_count]]));
        *out_count += status == DAO_OK ? 1 : 0;
    }
    return status;
}

static dao_status_t map_alias(dao_backend_device_t *device, vendorVmm_t const *handles, const uint32_t *pages,
                              dao_vendor_alias_t *alias)
{
    size_t size_bytes = alias->page_count * alias->page_bytes, mapped_count = 0;
    dao_status_t status = dao_vendor_address_reserve(device, size_bytes, &alias->address);
    if (status != DAO_OK) {
        return status;
    }
    status = map_pages(device, handles, alias->page_bytes, pages, alias->page_count, alias->address,
                       &mapped_count);
    if (status == DAO_OK) {
        status = dao_vendor_allow(device, alias->address, size_bytes, enter(device, alias));
        if (status != DAO_OK) {
            (void)leave(device, alias->address);
        }
    }
    if (status != DAO_OK) {
        dao_error_record_t record;
        dao_error_save(&record, status);
        (void)take_down(device, alias, mapped_count, 0);
        status = dao_error_restore(&record); /* the first failure is the one to report */
    }
    return status;
}

dao_status_t dao_vendor_alias_map(dao_backend_device_t *device, void *base, size_t page_bytes,
                                  const uint32_t *pages, size_t page_count, void **out_address)
{
    size_t base_count = 0;
    for (size_t i = 0; i < page_count; i++) {
        base_count = pages[i] + (size_t)1 > base_count ? pages[i] + (size_t)1 : base_count;
    }
    vendorVmm_t *handles = handles_of(device, base, page_bytes, base_count);
    if (handles == NULL) {
        return dao_last_status();
    }
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    dao_vendor_alias_t *alias = dao_host_calloc(1, sizeof(*alias));
    if (alias == NULL) {
        (void)dao_error(status, "no host memory for pages of device:%d", device->index);
    } else {
        alias->page_bytes = page_bytes;
        alias->page_count = alias->reserved_count = page_count;
        status = map_alias(device, handles, pages, alias);
    }
    dao_host_free(handles);
    if (status != DAO_OK) {
        dao_host_free(alias);
        return status;
    }
    *out_address = alias->address;
    return DAO_OK;
}

dao_status_t dao_vendor_alias_unmap(dao_backend_device_t *device, void *address, size_t page_bytes,
                                    size_t page_count, size_t keep_count)
{
    DAO_ASSERT(keep_count < page_count);
    dao_vendor_alias_t *alias = leave(device, address);
    if (alias == NULL || alias->page_bytes != page_bytes || alias->page_count != page_count) {
        if (alias != NULL) {
            (void)enter(device, alias);
        }
        return dao_error(DAO_ERR_INVALID, "device:%d: %zu pages are not mapped once more at %p",
                         device->index, page_count, address);
    }
    dao_status_t status = take_down(device, alias, page_count, keep_count);
    if (status == DAO_OK && keep_count > 0) {
        alias->page_count = keep_count;
        (void)enter(device, alias);
    } else {
        dao_host_free(alias); /* after a refusal nothing uses the addresses, and nobody asks again */
    }
    return status;
}
