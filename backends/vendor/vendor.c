/* SPDX-License-Identifier: Apache-2.0 */
/* The backend for CUDA and for HIP. Both APIs have the same calls under two prefixes, so the backend is
   written once in C, over backends/cuda/names.h or backends/hip/names.h. Here: its table, devices, memory,
   and peers.

       dao_backend_t               the count of devices
         dao_backend_device_t      a device's number and properties; its primary context is the process's
           dao_backend_stream_t    a stream that does not synchronize with the default stream
           dao_backend_event_t     an event, and whether it was ever recorded

   Every slot of the table is a guard, one vendor call and one status (vendor_guard.c).

       vendor_stream.c   streams, events, copies        vendor_pool.c    the driver's pools
       vendor_pages.c    virtual memory                 vendor_share.c   memory for several processes */
#include "backends/vendor/vendor_internal.h"

#include "base/log.h"
#include "base/numbers/units.h"
#include "base/text/setting.h"

#include <stdint.h>
#include <stdio.h>

/* Alignment that both vendors promise for every allocation. */
#define ALIGNMENT_BYTES 256

/* The environment: "0" makes devices look as if they had no virtual memory; "1" has it used without a try. */
#define MAP_PAGES_VARIABLE "DAO_MAP_PAGES"

/* ---- the driver and its devices ---- */

static dao_status_t no_device(vendorError_t error)
{
    int driver = 0;
    int runtime = 0;
    if (error == vendorErrorInsufficientDriver && vendorDriverGetVersion(&driver) == vendorSuccess &&
        vendorRuntimeGetVersion(&runtime) == vendorSuccess && driver > 0) {
        return dao_error_vendor(DAO_ERR_NO_DEVICE, (int)error,
                                "%s is too old: it serves %s %d.%d, the library was built with %d.%d",
                                VENDOR_DRIVER, VENDOR_NAME, VENDOR_VERSION_MAJOR(driver),
                                VENDOR_VERSION_MINOR(driver), VENDOR_VERSION_MAJOR(runtime),
                                VENDOR_VERSION_MINOR(runtime));
    }
    if (error == vendorErrorInsufficientDriver) {
        return dao_error_vendor(DAO_ERR_NO_DEVICE, (int)error, "there is no %s device: %s is not installed",
                                VENDOR_NAME, VENDOR_DRIVER);
    }
    if (error == vendorSuccess || error == vendorErrorNoDevice) {
        return dao_error_vendor(
            DAO_ERR_NO_DEVICE, (int)error,
            "there is no %s device: see whether %s runs, what %s lists, and whether %s hides it", VENDOR_NAME,
            VENDOR_DRIVER, VENDOR_LIST_DEVICES, VENDOR_VISIBLE_DEVICES);
    }
    return dao_error_vendor(DAO_ERR_NO_DEVICE, (int)error, "no %s device can be used: %s (%s)", VENDOR_NAME,
                            vendorGetErrorString(error), vendorGetErrorName(error));
}

static dao_status_t open_backend(const dao_config_t *config, dao_backend_t **out_backend)
{
    (void)config; /* describes virtual devices only */
    int count = 0;
    uint64_t maps_pages = 1;
    const char *setting = dao_setting(MAP_PAGES_VARIABLE);
    if (setting != NULL && dao_units_parse_switch(setting, &maps_pages) != DAO_OK) {
        return dao_error(DAO_ERR_INVALID, "the environment's %s: %s", MAP_PAGES_VARIABLE, dao_last_message());
    }
    vendorError_t error = vendorGetDeviceCount(&count);
    if (error != vendorSuccess || count < 1) {
        (void)vendorGetLastError();
        return no_device(error);
    }
    dao_backend_t *backend = dao_host_calloc(1, sizeof(*backend));
    if (backend == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to open the %s backend", VENDOR_NAME);
    }
    backend->device_count = count;
    backend->maps_pages = maps_pages != 0;
    backend->tries_pages = VENDOR_TRIES_PAGES && setting == NULL;
    *out_backend = backend;
    return DAO_OK;
}

static void close_backend(dao_backend_t *backend)
{
    dao_host_free(backend);
}

static dao_status_t device_count(dao_backend_t *backend, int32_t *out_count)
{
    if (backend->device_count > DAO_DEVICE_COUNT_MAX) {
        return dao_error(
            DAO_ERR_UNSUPPORTED, "there are %d %s devices, the library handles %d: choose some with %s",
            (int)backend->device_count, VENDOR_NAME, DAO_DEVICE_COUNT_MAX, VENDOR_VISIBLE_DEVICES);
    }
    *out_count = backend->device_count;
    return DAO_OK;
}

/* Fills in the properties that never change. */
static void describe(const vendorDeviceProp_t *properties, size_t page_bytes, dao_device_info_t *out_info)
{
    *out_info = (dao_device_info_t){
        .page_bytes = page_bytes,
        .alignment_bytes = ALIGNMENT_BYTES,
        .compute_major = properties->major,
        .compute_minor = properties->minor,
        .multiprocessor_count = properties->multiProcessorCount,
    };
    (void)snprintf(out_info->name, sizeof(out_info->name), "%.*s", (int)sizeof(out_info->name) - 1,
                   properties->name);
    (void)snprintf(out_info->pci_address, sizeof(out_info->pci_address), "%04x:%02x:%02x.0",
                   (unsigned)properties->pciDomainID & 0xffff, (unsigned)properties->pciBusID & 0xff,
                   (unsigned)properties->pciDeviceID & 0xff);
}

static void device_close(dao_backend_device_t *device)
{
    while (device->mapped != NULL) { /* pages whose unmapping the driver refused, which was logged */
        dao_vendor_pages_forget(device, device->mapped);
    }
    dao_mutex_finish(&device->lock);
    dao_host_free(device); /* the primary context stays: others in the process may use it */
}

/* A driver that allows no access to pages behind others, such as ROCm's up to 7.2 (rocm-systems issue 2516),
   is used without them. A full device says nothing of them, and its pages stay. */
static dao_status_t find_pages(const dao_backend_t *backend, dao_backend_device_t *device)
{
    if (device->page_bytes == 0 || !backend->tries_pages) {
        return DAO_OK;
    }
    dao_status_t status = dao_vendor_pages_try(device);
    if (status == DAO_ERR_BACKEND) {
        dao_log(DAO_LOG_LEVEL_WARNING,
                "device:%d is used in segments: its pages cannot be mapped one behind "
                "the other: %s",
                device->index, dao_last_message());
        device->page_bytes = 0;
        device->info.page_bytes = 0;
        return DAO_OK;
    }
    return status == DAO_ERR_NO_DEVICE_MEMORY ? DAO_OK : status;
}

static dao_status_t device_open(dao_backend_t *backend, int32_t index, dao_backend_device_t **out_device)
{
    if (index < 0 || index >= backend->device_count) {
        return dao_error(DAO_ERR_NO_DEVICE, "there is no device:%d: %s has %d", (int)index, VENDOR_NAME,
                         (int)backend->device_count);
    }
    vendorDeviceProp_t properties;
    size_t page_bytes = 0;
    bool has_pools = false;
    dao_status_t status =
        dao_vendor_answer(dao_vendor_start(index), "start", index, DAO_ERR_NO_DEVICE_MEMORY);
    if (status == DAO_OK) {
        CALL(status, index, DAO_ERR_NO_HOST_MEMORY, vendorGetDeviceProperties, (&properties, index));
    }
    if (status == DAO_OK) {
        /* Freeing NULL initializes the device. That is slow and can fail, so it is done here and not at the
           first allocation. */
        CALL(status, index, DAO_ERR_NO_DEVICE_MEMORY, vendorFree, (NULL));
    }
    if (status == DAO_OK && backend->maps_pages) {
        CALL(status, index, DAO_ERR_NO_HOST_MEMORY, vendorVmmGranularity, (&page_bytes, index));
    }
    if (status == DAO_OK) {
        status = dao_vendor_pools_find(index, &has_pools);
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_backend_device_t *device = dao_host_calloc(1, sizeof(*device));
    if (device == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to open device:%d", (int)index);
    }
    device->index = index;
    device->page_bytes = page_bytes;
    device->reachers = UINT64_C(1) << index;
    dao_mutex_init(&device->lock, DAO_RANK_BACKEND);
    describe(&properties, page_bytes, &device->info);
    device->info.memory_pools = has_pools;
    status = find_pages(backend, device);
    if (status != DAO_OK) {
        device_close(device);
        return status;
    }
    *out_device = device;
    return DAO_OK;
}

static dao_status_t device_query(dao_backend_device_t *device, dao_device_info_t *out_info)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorMemGetInfo, (&free_bytes, &total_bytes));
    if (status != DAO_OK) {
        return status;
    }
    *out_info = device->info;
    out_info->total_bytes = total_bytes;
    out_info->free_bytes = free_bytes;
    return DAO_OK;
}

/* ---- memory ---- */

static dao_status_t memory_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    void *address = NULL;
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorMalloc, (&address, size_bytes));
    if (status != DAO_OK) {
        dao_error_prefix("%zu bytes: ", size_bytes);
        return status;
    }
    *out_address = address;
    return DAO_OK;
}

static dao_status_t memory_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    (void)size_bytes;
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorFree, (address));
    return status;
}

static dao_status_t pinned_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    void *address = NULL;
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_HOST_MEMORY, vendorHostAlloc,
         (&address, size_bytes, vendorHostAllocPortable | vendorHostAllocMapped));
    if (status != DAO_OK) {
        dao_error_prefix("%zu bytes of page-locked memory: ", size_bytes);
        return status;
    }
    *out_address = address;
    return DAO_OK;
}

static dao_status_t pinned_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    (void)size_bytes;
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_HOST_MEMORY, vendorFreeHost, (address));
    return status;
}

/* Host memory of the program is registered for all devices and mapped for kernels, as pinned memory is. */

static dao_status_t host_register(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_HOST_MEMORY, vendorHostRegister,
         (address, size_bytes, vendorHostRegisterPortable | vendorHostRegisterMapped));
    if (status != DAO_OK) {
        dao_error_prefix("%zu bytes at %p: ", size_bytes, address);
    }
    return status;
}

static dao_status_t host_unregister(dao_backend_device_t *device, void *address)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_HOST_MEMORY, vendorHostUnregister, (address));
    return status;
}

static dao_status_t host_device_address(dao_backend_device_t *device, void *address, void **out_address)
{
    void *mapped = NULL;
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_HOST_MEMORY, vendorHostGetDevicePointer, (&mapped, address, 0));
    if (status == DAO_OK) {
        *out_address = mapped;
    }
    return status;
}

/* ---- peers ---- */

static dao_status_t peer_can(dao_backend_device_t *device, dao_backend_device_t *peer, bool *out_can)
{
    int can = 0;
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorDeviceCanAccessPeer,
         (&can, device->index, peer->index));
    if (status == DAO_OK) {
        *out_can = can != 0;
    }
    return status;
}

/* The vendor's call opens allocations; mapped pages are opened one by one. If the second fails, the first
   stays: disabling it would affect other libraries of the process, which may have enabled it before. */
static dao_status_t peer_enable(dao_backend_device_t *device, dao_backend_device_t *peer)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorDeviceEnablePeerAccess, (peer->index, 0));
    return status == DAO_OK || status == DAO_ERR_BUSY ? dao_vendor_pages_open(peer, device->index) : status;
}

const dao_backend_ops_t dao_vendor_backend_ops = {
    .version = DAO_BACKEND_OPS_VERSION,
    .name = VENDOR_BACKEND_NAME,
    .open = open_backend,
    .close = close_backend,
    .device_count = device_count,
    .device_open = device_open,
    .device_close = device_close,
    .device_query = device_query,
    .device_synchronize = dao_vendor_device_synchronize,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .pinned_alloc = pinned_alloc,
    .pinned_free = pinned_free,
    .stream_create = dao_vendor_stream_create,
    .stream_destroy = dao_vendor_stream_destroy,
    .stream_synchronize = dao_vendor_stream_synchronize,
    .stream_wait_event = dao_vendor_stream_wait_event,
    .stream_native = dao_vendor_stream_native,
    .event_create = dao_vendor_event_create,
    .event_destroy = dao_vendor_event_destroy,
    .event_record = dao_vendor_event_record,
    .event_query = dao_vendor_event_query,
    .event_synchronize = dao_vendor_event_synchronize,
    .event_elapsed = dao_vendor_event_elapsed,
    .copy = dao_vendor_copy,
    .fill = dao_vendor_fill,
    .host_func = dao_vendor_host_func,
    .copy_peer = dao_vendor_copy_peer,
    .address_reserve = dao_vendor_address_reserve,
    .address_release = dao_vendor_address_release,
    .pages_create = dao_vendor_pages_create,
    .pages_create_mapped = dao_vendor_pages_create_mapped,
    .pages_destroy = dao_vendor_pages_destroy,
    .pages_map = dao_vendor_pages_map,
    .pages_map_run = dao_vendor_pages_map_run,
    .pages_unmap = dao_vendor_pages_unmap,
    .pages_unmap_run = VENDOR_UNMAPS_RUNS ? dao_vendor_pages_unmap_run : NULL,
    .pages_size = dao_vendor_pages_size,
    .alias_prepare = dao_vendor_alias_prepare,
    .alias_map = dao_vendor_alias_map,
    .alias_unmap = dao_vendor_alias_unmap,
    .thread_stay = dao_vendor_thread_stay,
    .thread_part = dao_vendor_thread_part,
    .stream_adopt = dao_vendor_stream_adopt,
    .stream_is_gone = dao_vendor_stream_is_gone,
    .pool_create = dao_vendor_pool_create,
    .pool_destroy = dao_vendor_pool_destroy,
    .pool_alloc = dao_vendor_pool_alloc,
    .pool_free = dao_vendor_pool_free,
    .shared_create = dao_vendor_shared_create,
    .shared_export = dao_vendor_shared_export,
    .shared_import = dao_vendor_shared_import,
    .shared_destroy = dao_vendor_shared_destroy,
    .has_default_stream = true,
    .dlpack_device = VENDOR_DLPACK_DEVICE,
    .dlpack_managed = VENDOR_DLPACK_MANAGED,
    .dlpack_pinned = VENDOR_DLPACK_PINNED,
    .peer_can = peer_can,
    .peer_enable = peer_enable,
    .host_register = host_register,
    .host_unregister = host_unregister,
    .host_device_address = host_device_address,
#ifdef vendorCopyBatch
    .copy_batch = dao_vendor_copy_batch,
#endif
#ifdef vendorStreamWaitWord
    .stream_wait_word = dao_vendor_stream_wait_word,
#endif
    .stream_capture = dao_vendor_stream_capture,
};
