/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory behind the calls of a vendor: files, which can be mapped at several addresses. Beside each
   there are pages of the cpu backend, which count them; pages of another process have none. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "tests/loopback/vmm.h"
#include "tests/loopback/veil.h"

#include "backends/cpu/cpu.h"
#include "base/memory/shared.h"

#include <sys/mman.h>

static const dao_backend_ops_t *const cpu = &dao_cpu_backend_ops;

static dao_backend_device_t *device_of(const loopback_object_t *pages)
{
    return loopback_driver.devices[pages->device];
}

vendorError_t loopback_vmm_granularity(size_t *out_bytes, int device)
{
    vendorError_t error = loopback_begin("granularity", device);
    dao_device_info_t info;
    if (error == vendorSuccess) {
        error = loopback_from(cpu->device_query(loopback_device(), &info));
    }
    if (error == vendorSuccess) {
        *out_bytes = (size_t)info.page_bytes;
    }
    return error;
}

/* ---- addresses ---- */

vendorError_t loopback_vmm_reserve(void **out_address, size_t size_bytes)
{
    vendorError_t error = loopback_begin("reserve", LOOPBACK_NO_DEVICE);
    void *bytes = NULL;
    if (error == vendorSuccess) {
        error = loopback_from(cpu->address_reserve(loopback_device(), size_bytes, &bytes));
    }
    if (error != vendorSuccess) {
        return error;
    }
    void *address = loopback_veil(size_bytes);
    if (address == NULL) {
        (void)cpu->address_release(loopback_device(), bytes, size_bytes);
        return loopback_error(vendorErrorMemoryAllocation);
    }
    loopback_span_t span = {
        .begin = address, .size_bytes = size_bytes, .bytes = bytes, .device = loopback_current_device()};
    dao_mutex_lock(&loopback_driver.lock);
    loopback_spans_add(&loopback_driver.reserved, span);
    dao_mutex_unlock(&loopback_driver.lock);
    *out_address = address;
    return vendorSuccess;
}

vendorError_t loopback_vmm_release(void *address, size_t size_bytes)
{
    loopback_driver_t *driver = &loopback_driver;
    vendorError_t error = loopback_begin("release", LOOPBACK_NO_DEVICE);
    if (error != vendorSuccess) {
        return error;
    }
    dao_mutex_lock(&driver->lock);
    loopback_span_t reserved = {0};
    const loopback_span_t *span = loopback_spans_at(&driver->reserved, address);
    bool is_known = span != NULL && span->size_bytes == size_bytes;
    bool is_mapped = loopback_spans_in(&driver->mapped, address, size_bytes) != NULL;
    if (is_known && !is_mapped) {
        reserved = *span;
        loopback_spans_remove(&driver->reserved, span);
    }
    dao_mutex_unlock(&driver->lock);
    if (!is_known || is_mapped) {
        return loopback_breach(is_known ? LOOPBACK_RULE_MAPPED : LOOPBACK_RULE_UNKNOWN, "release");
    }
    loopback_unveil(&reserved);
    return loopback_from(cpu->address_release(driver->devices[reserved.device], reserved.bytes, size_bytes));
}

/* ---- pages ---- */

vendorError_t loopback_vmm_create(void **out_handle, size_t size_bytes, int device)
{
    dao_backend_pages_t *inner = NULL;
    vendorError_t error = loopback_begin("create", device);
    if (error == vendorSuccess) {
        error = loopback_from(cpu->pages_create(loopback_device(), size_bytes, &inner));
    }
    if (error != vendorSuccess) {
        return error;
    }
    int descriptor = dao_shared_create(size_bytes);
    if (descriptor == DAO_NO_DESCRIPTOR) {
        (void)cpu->pages_destroy(loopback_device(), inner);
        return loopback_error(vendorErrorMemoryAllocation);
    }
    loopback_object_t *pages = loopback_object_add(LOOPBACK_KIND_PAGES, inner, size_bytes);
    pages->descriptor = descriptor;
    *out_handle = pages;
    return vendorSuccess;
}

vendorError_t loopback_vmm_shareable(int *out_is_shareable, int device)
{
    vendorError_t error = loopback_begin("shareable", device);
    if (error == vendorSuccess) {
        *out_is_shareable = !loopback_driver.settings.is_unshareable;
    }
    return error;
}

vendorError_t loopback_vmm_create_shared(void **out_handle, size_t size_bytes, int device)
{
    return loopback_vmm_create(out_handle, size_bytes, device);
}

vendorError_t loopback_vmm_export(int *out_descriptor, void *handle)
{
    const loopback_object_t *pages = handle;
    if (!loopback_object_check(pages, LOOPBACK_KIND_PAGES, "export")) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    vendorError_t error = loopback_begin("export", pages->device);
    if (error != vendorSuccess) {
        return error;
    }
    int descriptor = dao_descriptor_copy(pages->descriptor);
    if (descriptor == DAO_NO_DESCRIPTOR) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    *out_descriptor = descriptor;
    return vendorSuccess;
}

vendorError_t loopback_vmm_import(void **out_handle, int descriptor)
{
    vendorError_t error = loopback_begin("import", LOOPBACK_NO_DEVICE);
    if (error != vendorSuccess) {
        return error;
    }
    size_t size_bytes;
    int own = dao_shared_size(descriptor, &size_bytes) ? dao_descriptor_copy(descriptor) : DAO_NO_DESCRIPTOR;
    if (own == DAO_NO_DESCRIPTOR) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    loopback_object_t *pages = loopback_object_add(LOOPBACK_KIND_PAGES, NULL, size_bytes);
    pages->descriptor = own;
    *out_handle = pages;
    return vendorSuccess;
}

/* ---- which memory is behind an address ---- */

static vendorError_t put(const loopback_object_t *pages, const void *address)
{
    void *bytes = loopback_bytes(address, pages->size_bytes);
    void *mapped =
        mmap(bytes, pages->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, pages->descriptor, 0);
    return mapped == bytes ? vendorSuccess : loopback_error(vendorErrorMemoryAllocation);
}

static vendorError_t take_off(const loopback_object_t *pages, const void *address)
{
    void *bytes = loopback_bytes(address, pages->size_bytes);
    void *reserved = mmap(bytes, pages->size_bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return reserved == bytes ? vendorSuccess : loopback_error(vendorErrorMemoryAllocation);
}

void loopback_pages_end(loopback_object_t *pages)
{
    if (pages->inner != NULL) {
        (void)cpu->pages_destroy(device_of(pages), pages->inner);
    }
    dao_descriptor_close(pages->descriptor); /* what is still mapped goes with its addresses */
}

vendorError_t loopback_vmm_destroy(void *handle)
{
    loopback_object_t *pages = handle;
    if (!loopback_object_check(pages, LOOPBACK_KIND_PAGES, "destroy")) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    vendorError_t error = loopback_begin("destroy", pages->device);
    if (error != vendorSuccess) {
        return error;
    }
    if (pages->mapped_count > 0) {
        return loopback_breach(LOOPBACK_RULE_MAPPED, "destroy");
    }
    loopback_object_remove(pages);
    loopback_pages_end(pages);
    return vendorSuccess;
}

vendorError_t loopback_vmm_map(void *address, size_t size_bytes, void *handle)
{
    loopback_driver_t *driver = &loopback_driver;
    loopback_object_t *pages = handle;
    if (!loopback_object_check(pages, LOOPBACK_KIND_PAGES, "map")) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    vendorError_t error = loopback_begin("map", pages->device);
    if (error != vendorSuccess) {
        return error;
    }
    dao_mutex_lock(&driver->lock);
    const loopback_span_t *around = loopback_spans_in(&driver->reserved, address, size_bytes);
    bool is_reserved = around != NULL && around->device == pages->device &&
                       around->begin <= (char *)address &&
                       around->begin + around->size_bytes >= (char *)address + size_bytes;
    bool is_taken = loopback_spans_in(&driver->mapped, address, size_bytes) != NULL;
    dao_mutex_unlock(&driver->lock);
    if (!is_reserved || size_bytes != pages->size_bytes || is_taken) {
        return loopback_breach(is_taken ? LOOPBACK_RULE_MAPPED : LOOPBACK_RULE_BAD_RANGE, "map");
    }
    error = put(pages, address);
    if (error == vendorSuccess) {
        loopback_span_t span = {
            .begin = address, .size_bytes = size_bytes, .owner = pages, .device = pages->device};
        dao_mutex_lock(&driver->lock);
        pages->mapped_count++;
        loopback_spans_add(&driver->mapped, span);
        dao_mutex_unlock(&driver->lock);
    }
    return error;
}

/* What is mapped from `address` to the end of a range, all of it; NULL: less is. */
static loopback_object_t *next_mapped(const char *call, char *address, const char *end)
{
    dao_mutex_lock(&loopback_driver.lock);
    const loopback_span_t *span = loopback_spans_at(&loopback_driver.mapped, address);
    loopback_object_t *pages = span != NULL && span->begin + span->size_bytes <= end ? span->owner : NULL;
    dao_mutex_unlock(&loopback_driver.lock);
    if (pages == NULL) {
        (void)loopback_breach(LOOPBACK_RULE_UNKNOWN, call);
    }
    return pages;
}

vendorError_t loopback_vmm_unmap(void *address, size_t size_bytes)
{
    loopback_driver_t *driver = &loopback_driver;
    vendorError_t error = loopback_begin("unmap", LOOPBACK_NO_DEVICE);
    char *end = (char *)address + size_bytes;
    if (error == vendorSuccess) {
        loopback_wait_for_device();
    }
    for (char *at = address; at < end && error == vendorSuccess;) {
        loopback_object_t *pages = next_mapped("unmap", at, end);
        if (pages == NULL) {
            return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
        }
        error = take_off(pages, at);
        if (error == vendorSuccess) {
            dao_mutex_lock(&driver->lock);
            pages->mapped_count--;
            loopback_spans_remove(&driver->mapped, loopback_spans_at(&driver->mapped, at));
            dao_mutex_unlock(&driver->lock);
            at += pages->size_bytes;
        }
    }
    return error;
}

/* What a driver may not like about a range that is mapped. */
static vendorError_t refusal(const void *address, size_t size_bytes)
{
    loopback_driver_t *driver = &loopback_driver;
    vendorError_t error = vendorSuccess;
    dao_mutex_lock(&driver->lock);
    const loopback_span_t *around = loopback_spans_in(&driver->reserved, address, size_bytes);
    if (driver->settings.busy_allows > 0) {
        driver->settings.busy_allows--;
        error = vendorErrorNotReady;
    } else if (driver->settings.refuses_tails && around != NULL && around->begin != (const char *)address) {
        error = vendorErrorInvalidValue;
    }
    dao_mutex_unlock(&driver->lock);
    return loopback_error(error);
}

vendorError_t loopback_vmm_allow(void *address, size_t size_bytes, uint64_t devices)
{
    vendorError_t error = loopback_begin("allow", LOOPBACK_NO_DEVICE);
    char *end = (char *)address + size_bytes;
    if (error == vendorSuccess) {
        error = refusal(address, size_bytes);
    }
    for (char *at = address; at < end && error == vendorSuccess;) {
        loopback_object_t *pages = next_mapped("allow", at, end);
        if (pages == NULL) {
            return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
        }
        dao_mutex_lock(&loopback_driver.lock);
        loopback_spans_at(&loopback_driver.mapped, at)->allowed |= devices;
        dao_mutex_unlock(&loopback_driver.lock);
        at += pages->size_bytes;
    }
    return error;
}
