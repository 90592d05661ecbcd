/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for several processes. Where the vendor exports pages by file descriptor, it is one handle of pages
   at addresses of its own. Elsewhere it is a plain allocation with the vendor's 64-byte handle:

       share    descriptor   bytes
       pages    yes          the mapped size
       plain    no           the vendor's handle, valid while the allocation lives

   Sizes are rounded up, pages to the granularity, plain allocations to PLAIN_UNIT_BYTES: smaller ones may lie
   in a block with others, which the importer would see too (CUDA C Programming Guide, Interprocess
   Communication). */
#include "backends/vendor/vendor_internal.h"

#include "base/memory/shared.h"
#include "base/numbers/math.h"

#include <string.h>

/* The driver takes allocations of this size from no shared block. */
#define PLAIN_UNIT_BYTES ((size_t)2 << 20)

struct dao_backend_shared {
    void *address;
    size_t mapped_bytes;
    dao_backend_pages_t *pages; /* NULL: it is plain */
    bool is_imported;
};

static_assert(sizeof(vendorIpcMemHandle_t) <= sizeof(((dao_backend_share_t *)NULL)->bytes),
              "a share has room for the vendor's handle");

static dao_status_t shared_wrap(const dao_backend_device_t *device, dao_backend_shared_t **out_shared)
{
    *out_shared = dao_host_calloc(1, sizeof(**out_shared));
    return *out_shared != NULL ? DAO_OK
                               : dao_error(DAO_ERR_NO_HOST_MEMORY,
                                           "no host memory for shared memory of device:%d", device->index);
}

/* ---- pages ---- */

/* Maps pages at a new reservation. */
static dao_status_t pages_place(dao_backend_device_t *device, dao_backend_pages_t *pages, size_t size_bytes,
                                void **out_address)
{
    void *address;
    dao_status_t status = dao_vendor_address_reserve(device, size_bytes, &address);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_vendor_pages_map(device, pages, address);
    if (status != DAO_OK) {
        dao_error_record_t record;
        dao_error_save(&record, status);
        (void)dao_vendor_address_release(device, address, size_bytes); /* the first failure is reported */
        return dao_error_restore(&record);
    }
    *out_address = address;
    return DAO_OK;
}

/* Maps pages and takes them over; a failure destroys them. */
static dao_status_t pages_share(dao_backend_device_t *device, dao_backend_pages_t *pages,
                                dao_backend_shared_t *shared)
{
    size_t size_bytes = dao_vendor_pages_size(pages);
    dao_status_t status = pages_place(device, pages, size_bytes, &shared->address);
    if (status != DAO_OK) {
        dao_error_record_t record;
        dao_error_save(&record, status);
        dao_vendor_pages_discard(device, pages);
        return dao_error_restore(&record);
    }
    shared->pages = pages;
    shared->mapped_bytes = size_bytes;
    return DAO_OK;
}

static dao_status_t pages_unshare(dao_backend_device_t *device, const dao_backend_shared_t *shared)
{
    dao_status_t status = dao_vendor_pages_unmap(device, shared->pages, shared->address);
    if (status == DAO_ERR_DEVICE_LOST) {
        dao_vendor_pages_forget(device, shared->pages);
        return DAO_OK;
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_vendor_pages_discard(device, shared->pages);
    (void)dao_vendor_address_release(device, shared->address, shared->mapped_bytes); /* addresses alone */
    return DAO_OK;
}

/* ---- the slots ---- */

static dao_status_t create_pages(dao_backend_device_t *device, size_t size_bytes,
                                 dao_backend_shared_t *shared)
{
    dao_backend_pages_t *pages;
    dao_status_t status = dao_vendor_pages_create_shared(device, size_bytes, &pages);
    return status == DAO_OK ? pages_share(device, pages, shared) : status;
}

static dao_status_t create_plain(const dao_backend_device_t *device, size_t size_bytes,
                                 dao_backend_shared_t *shared)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorMalloc, (&shared->address, size_bytes));
    shared->mapped_bytes = size_bytes;
    return status;
}

static dao_status_t create(dao_backend_device_t *device, size_t size_bytes, dao_backend_shared_t *shared)
{
    int is_shareable = 0;
    dao_status_t status = DAO_OK;
    if (device->page_bytes != 0) {
        CALL(status, device->index, DAO_ERR_NO_HOST_MEMORY, vendorVmmShareable,
             (&is_shareable, device->index));
    }
    if (status != DAO_OK) {
        return status;
    }
    size_t unit_bytes = is_shareable ? device->page_bytes : PLAIN_UNIT_BYTES;
    if (size_bytes > SIZE_MAX - unit_bytes) {
        return dao_error(DAO_ERR_NO_DEVICE_MEMORY, "device:%d: no device has %zu bytes", device->index,
                         size_bytes);
    }
    size_t rounded_bytes = (size_t)dao_round_up(size_bytes, unit_bytes);
    return is_shareable ? create_pages(device, rounded_bytes, shared)
                        : create_plain(device, rounded_bytes, shared);
}

dao_status_t dao_vendor_shared_create(dao_backend_device_t *device, size_t size_bytes,
                                      dao_backend_shared_t **out_shared, void **out_address)
{
    dao_backend_shared_t *shared;
    dao_status_t status = shared_wrap(device, &shared);
    if (status != DAO_OK) {
        return status;
    }
    status = create(device, size_bytes, shared);
    if (status != DAO_OK) {
        dao_host_free(shared);
        dao_error_prefix("%zu bytes of shared memory: ", size_bytes);
        return status;
    }
    *out_shared = shared;
    *out_address = shared->address;
    return DAO_OK;
}

dao_status_t dao_vendor_shared_export(dao_backend_device_t *device, dao_backend_shared_t *shared,
                                      dao_backend_share_t *out_share)
{
    dao_backend_share_t share = {.descriptor = DAO_NO_DESCRIPTOR};
    dao_status_t status;
    if (shared->pages != NULL) {
        status = dao_vendor_pages_export(device, shared->pages, &share.descriptor);
        memcpy(share.bytes, &shared->mapped_bytes, sizeof(shared->mapped_bytes));
    } else {
        vendorIpcMemHandle_t handle;
        CALL(status, device->index, DAO_ERR_NO_HOST_MEMORY, vendorIpcGetMemHandle,
             (&handle, shared->address));
        if (status == DAO_OK) {
            memcpy(share.bytes, &handle, sizeof(handle));
        }
    }
    if (status == DAO_OK) {
        *out_share = share;
    }
    return status;
}

/* A driver fails on a stale or forged handle; to the caller that is an invalid argument. */
static dao_status_t handle_answer(dao_status_t status)
{
    if (status != DAO_ERR_BACKEND) {
        return status;
    }
    dao_error_prefix("gone or never shared: ");
    dao_error_record_t record;
    dao_error_save(&record, DAO_ERR_INVALID);
    return dao_error_restore(&record);
}

static dao_status_t import_pages(dao_backend_device_t *device, const dao_backend_share_t *share,
                                 size_t size_bytes, dao_backend_shared_t *shared)
{
    dao_backend_pages_t *pages;
    size_t mapped_bytes;
    memcpy(&mapped_bytes, share->bytes, sizeof(mapped_bytes));
    if (device->page_bytes == 0 || mapped_bytes % device->page_bytes != 0) {
        return dao_error(DAO_ERR_UNSUPPORTED, "device:%d does not map pages as the one that exported them",
                         device->index);
    }
    if (mapped_bytes < size_bytes) {
        return dao_error(DAO_ERR_INVALID, "device:%d: pages of %zu bytes", device->index, mapped_bytes);
    }
    dao_status_t status =
        handle_answer(dao_vendor_pages_import(device, share->descriptor, mapped_bytes, &pages));
    return status == DAO_OK ? pages_share(device, pages, shared) : status;
}

/* The size that a peer claims is not its allocation's: the driver knows that one. */
static dao_status_t check_plain(const dao_backend_device_t *device, char *address, size_t size_bytes)
{
    void *base = NULL;
    size_t real_bytes = 0;
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorMemGetAddressRange,
         (&base, &real_bytes, address));
    if (status == DAO_OK && (base != address || real_bytes < size_bytes)) {
        return dao_error(DAO_ERR_INVALID,
                         "device:%d: the other process claims more than the %zu bytes it has", device->index,
                         real_bytes);
    }
    return status;
}

static dao_status_t import_plain(const dao_backend_device_t *device, const dao_backend_share_t *share,
                                 size_t size_bytes, dao_backend_shared_t *shared)
{
    vendorIpcMemHandle_t handle;
    dao_status_t status;
    memcpy(&handle, share->bytes, sizeof(handle));
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorIpcOpenMemHandle,
         (&shared->address, handle, vendorIpcMemLazyEnablePeerAccess));
    if (status != DAO_OK) {
        return handle_answer(status);
    }
    status = check_plain(device, shared->address, size_bytes);
    if (status != DAO_OK) {
        dao_error_record_t record;
        dao_error_save(&record, status);
        CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorIpcCloseMemHandle, (shared->address));
        status = dao_error_restore(&record); /* the first failure is reported */
    }
    return status;
}

dao_status_t dao_vendor_shared_import(dao_backend_device_t *device, const dao_backend_share_t *share,
                                      size_t size_bytes, dao_backend_shared_t **out_shared,
                                      void **out_address)
{
    dao_backend_shared_t *shared;
    dao_status_t status = shared_wrap(device, &shared);
    if (status != DAO_OK) {
        return status;
    }
    shared->is_imported = true;
    status = share->descriptor != DAO_NO_DESCRIPTOR ? import_pages(device, share, size_bytes, shared)
                                                    : import_plain(device, share, size_bytes, shared);
    if (status != DAO_OK) {
        dao_host_free(shared);
        dao_error_prefix("%zu bytes of another process: ", size_bytes);
        return status;
    }
    *out_shared = shared;
    *out_address = shared->address;
    return DAO_OK;
}

dao_status_t dao_vendor_shared_destroy(dao_backend_device_t *device, dao_backend_shared_t *shared)
{
    dao_status_t status;
    if (shared->pages != NULL) {
        status = pages_unshare(device, shared);
    } else if (shared->is_imported) {
        CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorIpcCloseMemHandle, (shared->address));
    } else {
        CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorFree, (shared->address));
    }
    if (status != DAO_OK && status != DAO_ERR_DEVICE_LOST) {
        return status;
    }
    dao_host_free(shared); /* a lost device took the memory with it */
    return DAO_OK;
}
