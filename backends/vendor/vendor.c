/* SPDX-License-Identifier: Apache-2.0 */
/* The backend for CUDA and for HIP. The two spell alike what is needed here, so that it is written once, in
   plain C over backends/cuda/names.h or backends/hip/names.h, whichever folder compiles it.

       dao_backend_t         how many devices there are
         dao_backend_device_t    a device's number and name; its primary context belongs to the whole process
           dao_backend_stream_t    a stream that does not wait for the default stream, nor that for it
           dao_backend_event_t     an event with a time; `is_recorded` tells one that never got any

   Every slot is a guard, one vendor call, and one status. The guard makes the device current for the call and
   then puts back what was current before. A failure is mapped by dao_vendor_answer(); the vendor keeps its
   own last error for the thread, which is cleared after a failure of ours alone, so that the caller's own
   checks do not find it.

   Virtual memory is in vendor_pages.c, the driver's pools in vendor_pool.c, memory of several processes in
   vendor_share.c. */
#include "backends/vendor/vendor_internal.h"

#include "base/numbers/units.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What both vendors promise of every address that they give. */
#define ALIGNMENT_BYTES 256

/* "0": devices are used as if they had no virtual memory. */
#define MAP_PAGES_VARIABLE "DAO_MAP_PAGES"

struct dao_backend_stream {
    dao_backend_device_t *device;
    vendorStream_t stream;
    bool is_adopted; /* somebody else destroys it */
};

struct dao_backend_event {
    dao_backend_device_t *device;
    vendorEvent_t event;
    _Atomic bool is_recorded; /* threads may record and ask at the same time */
    bool has_time;            /* from its creation on; without, records are cheaper */
};

/* A copy within host memory, on its way through a stream. */
typedef struct host_copy {
    void *dst;
    const void *src;
    size_t size_bytes;
} host_copy_t;

/* Errors. */

bool dao_vendor_is_lost(vendorError_t error)
{
#define LOST_CASE(code) case code:
    switch ((int)error) {
        VENDOR_LOST_LIST(LOST_CASE)
        return true;
    default:
        return false;
    }
#undef LOST_CASE
}

static dao_status_t status_of(vendorError_t error, dao_status_t no_memory)
{
    switch ((int)error) {
    case vendorErrorMemoryAllocation:
        return no_memory;
    case vendorErrorNotReady:
        return DAO_ERR_NOT_READY;
    case vendorErrorInvalidDevice:
    case vendorErrorNoDevice:
        return DAO_ERR_NO_DEVICE;
    case vendorErrorNotSupported:
    case vendorErrorPeerAccessUnsupported:
        return DAO_ERR_UNSUPPORTED;
    case vendorErrorHostMemoryAlreadyRegistered:
    case vendorErrorPeerAccessAlreadyEnabled:
    case vendorErrorStreamCaptureUnsupported:
    case vendorErrorCapturedEvent:
        return DAO_ERR_BUSY;
    case vendorErrorHostMemoryNotRegistered:
        return DAO_ERR_FOREIGN_POINTER;
    default:
        return dao_vendor_is_lost(error) ? DAO_ERR_DEVICE_LOST : DAO_ERR_BACKEND;
    }
}

dao_status_t dao_vendor_answer(vendorError_t error, const char *call, int index, dao_status_t no_memory)
{
    if (error == vendorSuccess) {
        return DAO_OK;
    }
    (void)vendorGetLastError(); /* it is reported here; a lost device keeps it all the same */
    return dao_error_vendor(status_of(error, no_memory), (int)error, "device:%d: %s: %s (%s)", index, call,
                            vendorGetErrorString(error), vendorGetErrorName(error));
}

/* The guard. */

#ifdef vendorContextStart
static vendorError_t start(int index)
{
    return vendorContextStart(index);
}

static vendorError_t make_current(int index, int *out_previous)
{
    return vendorContextEnter(index, out_previous);
}

static void put_back(int index, int previous)
{
    (void)index;
    vendorContextLeave(previous);
}
#else /* making a device current makes nothing on it */
static vendorError_t start(int index)
{
    (void)index;
    return vendorSuccess;
}

static vendorError_t make_current(int index, int *out_previous)
{
    vendorError_t error = vendorGetDevice(out_previous);
    if (error == vendorSuccess && *out_previous != index) {
        error = vendorSetDevice(index);
    }
    return error;
}

static void put_back(int index, int previous)
{
    if (previous != index) {
        (void)vendorSetDevice(previous); /* it was current before; if it is lost, its next call says so */
    }
}
#endif

/* Gives the thread a mode of capture and takes the one that it had. Of a lost device the call that follows
   says so. */
static void exchange_mode(vendorStreamCaptureMode_t *mode)
{
    (void)vendorThreadExchangeStreamCaptureMode(mode);
}

/* The mode is exchanged with the device current: nothing is asked of the vendor in a thread without one. */
vendorError_t dao_vendor_enter(int index, dao_vendor_guard_t *out_guard)
{
    *out_guard = (dao_vendor_guard_t){.mode = vendorStreamCaptureModeRelaxed};
    vendorError_t error = make_current(index, &out_guard->device);
    if (error == vendorSuccess) {
        exchange_mode(&out_guard->mode);
    }
    return error;
}

void dao_vendor_leave(int index, dao_vendor_guard_t *guard)
{
    exchange_mode(&guard->mode);
    put_back(index, guard->device);
}

/* The driver and its devices. */

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
    (void)config; /* it describes virtual devices */
    int count = 0;
    uint64_t maps_pages = 1;
    const char *setting = getenv(MAP_PAGES_VARIABLE);
    if (setting != NULL && setting[0] != '\0' && dao_units_parse_switch(setting, &maps_pages) != DAO_OK) {
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

/* Says what does not change of a device. */
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

static dao_status_t device_open(dao_backend_t *backend, int32_t index, dao_backend_device_t **out_device)
{
    if (index < 0 || index >= backend->device_count) {
        return dao_error(DAO_ERR_NO_DEVICE, "there is no device:%d: %s has %d", (int)index, VENDOR_NAME,
                         (int)backend->device_count);
    }
    vendorDeviceProp_t properties;
    size_t page_bytes = 0;
    bool has_pools = false;
    dao_status_t status = dao_vendor_answer(start(index), "start", index, DAO_ERR_NO_DEVICE_MEMORY);
    if (status == DAO_OK) {
        CALL(status, index, DAO_ERR_NO_HOST_MEMORY, vendorGetDeviceProperties, (&properties, index));
    }
    if (status == DAO_OK) {
        /* Freeing nothing starts the device, which can fail and takes a while: here, not at the first
           allocation. */
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
    *out_device = device;
    return DAO_OK;
}

static void device_close(dao_backend_device_t *device)
{
    while (device->mapped != NULL) { /* what the driver refused to take back, which was logged */
        dao_vendor_pages_forget(device, device->mapped);
    }
    dao_mutex_finish(&device->lock);
    dao_host_free(device); /* the primary context stays: others in the process may use it */
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

static dao_status_t device_synchronize(dao_backend_device_t *device)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorDeviceSynchronize, ());
    return status;
}

/* Memory. */

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

/* Others' host memory: for all devices, and mapped for their kernels, as what pinned_alloc() gives. */

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

/* Peers. */

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

/* What the vendor enables is what it has allocated; what is mapped is opened page by page. Where the second
   fails the first stays: the vendor would take it from others in the process, too, who may have enabled it
   before. */
static dao_status_t peer_enable(dao_backend_device_t *device, dao_backend_device_t *peer)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorDeviceEnablePeerAccess, (peer->index, 0));
    return status == DAO_OK || status == DAO_ERR_BUSY ? dao_vendor_pages_open(peer, device->index) : status;
}

/* Streams. */

/* Gives the structure around a stream that there is not yet; NULL, which is an error already, without memory.
   */
static dao_backend_stream_t *stream_wrap(dao_backend_device_t *device)
{
    dao_backend_stream_t *stream = dao_host_calloc(1, sizeof(*stream));
    if (stream == NULL) {
        (void)dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a stream of device:%d", device->index);
        return NULL;
    }
    stream->device = device;
    return stream;
}

static dao_status_t stream_create(dao_backend_device_t *device, dao_backend_stream_t **out_stream)
{
    dao_backend_stream_t *stream = stream_wrap(device);
    if (stream == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorStreamCreateWithFlags,
         (&stream->stream, vendorStreamNonBlocking));
    if (status != DAO_OK) {
        dao_host_free(stream);
        return status;
    }
    *out_stream = stream;
    return DAO_OK;
}

/* The vendor finds a wrong handle when it is used. */
static dao_status_t stream_adopt(dao_backend_device_t *device, void *native,
                                 dao_backend_stream_t **out_stream)
{
    dao_backend_stream_t *stream = stream_wrap(device);
    if (stream == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    stream->stream = (vendorStream_t)native;
    stream->is_adopted = true;
    *out_stream = stream;
    return DAO_OK;
}

static dao_status_t stream_synchronize(dao_backend_stream_t *stream)
{
    dao_status_t status;
    CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorStreamSynchronize, (stream->stream));
    return status;
}

static void stream_destroy(dao_backend_stream_t *stream)
{
    (void)stream_synchronize(
        stream); /* the vendor's destroy does not wait; the work's error has no taker any more */
    if (!stream->is_adopted) {
        dao_status_t status;
        CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorStreamDestroy, (stream->stream));
        (void)status; /* a lost device: its streams went with it */
    }
    dao_host_free(stream);
}

static dao_status_t stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event)
{
    dao_status_t status;
    CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorStreamWaitEvent,
         (stream->stream, event->event, 0));
    return status;
}

/* The default stream is a part of what any other stream captures that waits for it: the answer is an error
   then. */
static vendorError_t capture_ask(vendorStream_t stream, uint64_t *out_capture)
{
    vendorStreamCaptureStatus_t status = vendorStreamCaptureStatusNone;
    unsigned long long id = 0;
    vendorError_t error = vendorStreamGetCaptureInfo(stream, &status, &id);
    if (error == vendorErrorStreamCaptureImplicit) {
        (void)vendorGetLastError();
        status = vendorStreamCaptureStatusInvalidated;
        error = vendorSuccess;
    }
    if (error == vendorSuccess) {
        *out_capture = status == vendorStreamCaptureStatusNone     ? 0
                       : status == vendorStreamCaptureStatusActive ? id
                                                                   : DAO_CAPTURE_UNKNOWN;
    }
    return error;
}

static dao_status_t stream_capture(dao_backend_stream_t *stream, uint64_t *out_capture)
{
    dao_vendor_guard_t guard;
    int index = stream->device->index;
    vendorError_t error = dao_vendor_enter(index, &guard);
    if (error == vendorSuccess) {
        error = capture_ask(stream->stream, out_capture);
        dao_vendor_leave(index, &guard);
    }
    return dao_vendor_answer(error, NAME_OF(vendorStreamGetCaptureInfo), index, DAO_ERR_NO_DEVICE_MEMORY);
}

static void *stream_native(dao_backend_stream_t *stream)
{
    return (void *)stream->stream;
}

/* Events. */

static dao_status_t event_create(dao_backend_device_t *device, bool has_time, dao_backend_event_t **out_event)
{
    dao_backend_event_t *event = dao_host_calloc(1, sizeof(*event));
    if (event == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for an event of device:%d", device->index);
    }
    event->device = device;
    event->has_time = has_time;
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorEventCreateWithFlags,
         (&event->event, has_time ? vendorEventDefault : vendorEventDisableTiming));
    if (status != DAO_OK) {
        dao_host_free(event);
        return status;
    }
    *out_event = event;
    return DAO_OK;
}

static void event_destroy(dao_backend_event_t *event)
{
    dao_status_t status;
    CALL(status, event->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorEventDestroy, (event->event));
    (void)status; /* a lost device: its events went with it */
    dao_host_free(event);
}

static dao_status_t event_record(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    dao_status_t status;
    CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorEventRecord,
         (event->event, stream->stream));
    if (status == DAO_OK) {
        atomic_store_explicit(&event->is_recorded, true, memory_order_release);
    }
    return status;
}

static dao_status_t event_query(dao_backend_event_t *event)
{
    dao_status_t status;
    CALL(status, event->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorEventQuery, (event->event));
    return status == DAO_ERR_BUSY ? DAO_ERR_NOT_READY
                                  : status; /* part of a capture: nobody knows when it will be */
}

static dao_status_t event_synchronize(dao_backend_event_t *event)
{
    dao_status_t status;
    CALL(status, event->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorEventSynchronize, (event->event));
    return status;
}

static dao_status_t event_elapsed(dao_backend_event_t *begin, dao_backend_event_t *end,
                                  int64_t *out_elapsed_ns)
{
    if (!begin->has_time || !end->has_time) {
        return dao_error(DAO_ERR_INVALID, "device:%d: an event was created without a time",
                         end->device->index);
    }
    if (!atomic_load_explicit(&begin->is_recorded, memory_order_acquire) ||
        !atomic_load_explicit(&end->is_recorded, memory_order_acquire)) {
        return dao_error(DAO_ERR_NOT_READY, "device:%d: an event without a record has no time",
                         end->device->index);
    }
    float elapsed_ms = 0;
    dao_status_t status;
    CALL(status, end->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorEventElapsedTime,
         (&elapsed_ms, begin->event, end->event));
    if (status != DAO_OK) {
        return status;
    }
    *out_elapsed_ns = (int64_t)((double)elapsed_ms * 1e6);
    return DAO_OK;
}

/* Work. */

static dao_status_t host_func(dao_backend_stream_t *stream, dao_host_func_t function, void *user)
{
    dao_status_t status;
    CALL(status, stream->device->index, DAO_ERR_NO_HOST_MEMORY, vendorLaunchHostFunc,
         (stream->stream, function, user));
    return status;
}

static void run_host_copy(void *user)
{
    host_copy_t *copy = user;
    memcpy(copy->dst, copy->src, copy->size_bytes);
    dao_host_free(copy);
}

/* The vendor's own copy within host memory makes the caller wait for the stream; a host function does not. In
   a graph it would run more than once, with what was freed behind the first time. */
static dao_status_t copy_on_host(dao_backend_stream_t *stream, void *dst, const void *src, size_t size_bytes)
{
    uint64_t capture = 0;
    dao_status_t status = stream_capture(stream, &capture);
    if (status != DAO_OK || capture != 0) {
        return status != DAO_OK
                   ? status
                   : dao_error(DAO_ERR_UNSUPPORTED, "device:%d: a copy within host memory cannot be captured",
                               stream->device->index);
    }
    host_copy_t *copy = dao_host_calloc(1, sizeof(*copy));
    if (copy == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to queue a copy of %zu bytes", size_bytes);
    }
    *copy = (host_copy_t){.dst = dst, .src = src, .size_bytes = size_bytes};
    status = host_func(stream, run_host_copy, copy);
    if (status != DAO_OK) {
        dao_host_free(copy);
    }
    return status;
}

static dao_status_t copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                         size_t size_bytes)
{
    static const vendorMemcpyKind_t kinds[] = {
        [DAO_COPY_KIND_H2D] = vendorMemcpyHostToDevice,
        [DAO_COPY_KIND_D2H] = vendorMemcpyDeviceToHost,
        [DAO_COPY_KIND_D2D] = vendorMemcpyDeviceToDevice,
    };
    if (kind == DAO_COPY_KIND_H2H) {
        return copy_on_host(stream, dst, src, size_bytes);
    }
    dao_status_t status;
    CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorMemcpyAsync,
         (dst, src, size_bytes, kinds[kind], stream->stream));
    return status;
}

#ifdef vendorCopyBatch
static dao_status_t copy_batch(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *const *dsts,
                               const void *const *srcs, const size_t *sizes_bytes, size_t count)
{
    (void)kind; /* the vendor sees it from the addresses */
    dao_status_t status;
    CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorCopyBatch,
         (dsts, srcs, sizes_bytes, count, stream->stream));
    return status;
}
#define COPY_BATCH copy_batch
#else
#define COPY_BATCH NULL /* the vendor has none */
#endif

static dao_status_t fill(dao_backend_stream_t *stream, void *dst, uint8_t value, size_t size_bytes)
{
    dao_status_t status;
    CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorMemsetAsync,
         (dst, value, size_bytes, stream->stream));
    return status;
}

static dao_status_t copy_peer(dao_backend_stream_t *stream, dao_backend_device_t *dst_device, void *dst,
                              dao_backend_device_t *src_device, const void *src, size_t size_bytes)
{
    dao_status_t status;
    CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorMemcpyPeerAsync,
         (dst, dst_device->index, src, src_device->index, size_bytes, stream->stream));
    return status;
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
    .device_synchronize = device_synchronize,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .pinned_alloc = pinned_alloc,
    .pinned_free = pinned_free,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_synchronize = stream_synchronize,
    .stream_wait_event = stream_wait_event,
    .stream_native = stream_native,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
    .event_elapsed = event_elapsed,
    .copy = copy,
    .fill = fill,
    .host_func = host_func,
    .copy_peer = copy_peer,
    .address_reserve = dao_vendor_address_reserve,
    .address_release = dao_vendor_address_release,
    .pages_create = dao_vendor_pages_create,
    .pages_create_mapped = dao_vendor_pages_create_mapped,
    .pages_destroy = dao_vendor_pages_destroy,
    .pages_map = dao_vendor_pages_map,
    .pages_map_run = dao_vendor_pages_map_run,
    .pages_unmap = dao_vendor_pages_unmap,
    .pages_size = dao_vendor_pages_size,
    .stream_adopt = stream_adopt,
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
    .copy_batch = COPY_BATCH,
    .stream_capture = stream_capture,
};
