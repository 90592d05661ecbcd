/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of a vendor's runtime: memory, streams, events, work. */
#include "tests/loopback/driver.h"
#include "tests/loopback/veil.h"

#include "backends/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const dao_backend_ops_t *const cpu = &dao_cpu_backend_ops;

/* What an event's handle points to. */
#define OBJECT(handle) ((loopback_object_t *)(void *)(handle))

vendorError_t loopback_begin_on(const char *call, const loopback_object_t *object, loopback_kind_t kind)
{
    if (!loopback_object_check(object, kind, call)) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    return loopback_begin(call, object->device);
}

/* ---- the driver ---- */

static const struct {
    vendorError_t error;
    const char *name;
    const char *text;
} errors[] = {
#define ERROR_ROW(error, text)                                                                               \
    {                                                                                                        \
        error, ERROR_NAME(error), text                                                                       \
    }
#define ERROR_NAME(error)      ERROR_NAME_TEXT(error)
#define ERROR_NAME_TEXT(error) #error
    ERROR_ROW(vendorErrorMemoryAllocation, "out of memory"),
    ERROR_ROW(vendorErrorInsufficientDriver, "the driver is too old"),
    ERROR_ROW(vendorErrorNoDevice, "no device"),
    ERROR_ROW(vendorErrorInvalidDevice, "no such device"),
    ERROR_ROW(vendorErrorNotReady, "not ready"),
    ERROR_ROW(vendorErrorNotSupported, "not supported"),
    ERROR_ROW(vendorErrorPeerAccessUnsupported, "devices that cannot reach each other"),
    ERROR_ROW(vendorErrorPeerAccessAlreadyEnabled, "peer access is enabled already"),
    ERROR_ROW(vendorErrorHostMemoryAlreadyRegistered, "host memory that is registered already"),
    ERROR_ROW(vendorErrorHostMemoryNotRegistered, "host memory that is not registered"),
};

const char *vendorGetErrorName(vendorError_t error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].error == error) {
            return errors[i].name;
        }
    }
    return "error";
}

const char *vendorGetErrorString(vendorError_t error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].error == error) {
            return errors[i].text;
        }
    }
    return "something failed";
}

vendorError_t vendorDriverGetVersion(int *out_version)
{
    *out_version = loopback_driver.settings.driver_version;
    return vendorSuccess;
}

vendorError_t vendorRuntimeGetVersion(int *out_version)
{
    *out_version = loopback_driver.settings.runtime_version;
    return vendorSuccess;
}

vendorError_t vendorGetDeviceCount(int *out_count)
{
    vendorError_t error = loopback_begin_question("get device count", LOOPBACK_NO_DEVICE);
    if (error == vendorSuccess && loopback_driver.settings.has_no_driver) {
        error = loopback_error(vendorErrorInsufficientDriver);
    }
    if (error == vendorSuccess) {
        int shown = loopback_driver.settings.device_count;
        *out_count = shown == 0 ? (int)loopback_driver.device_count : shown > 0 ? shown : 0;
    }
    return error;
}

vendorError_t vendorGetDeviceProperties(vendorDeviceProp_t *out_properties, int device)
{
    vendorError_t error = loopback_begin_question("get device properties", device);
    dao_device_info_t info;
    if (error == vendorSuccess) {
        error = loopback_from(cpu->device_query(loopback_device(), &info));
    }
    if (error != vendorSuccess) {
        return error;
    }
    memset(out_properties, 0, sizeof(*out_properties));
    out_properties->major = 9;
    out_properties->multiProcessorCount = 132;
    out_properties->pciBusID = 0xa0 + device;
    if (loopback_driver.settings.has_long_names) {
        memset(out_properties->name, 'x', sizeof(out_properties->name) - 1);
    } else {
        (void)snprintf(out_properties->name, sizeof(out_properties->name), "%s", info.name);
    }
    return vendorSuccess;
}

vendorError_t vendorDeviceSynchronize(void)
{
    vendorError_t error = loopback_begin("device synchronize", LOOPBACK_NO_DEVICE);
    if (error == vendorSuccess) {
        error = loopback_capture_check("device synchronize", loopback_current_device(), NULL);
    }
    return error != vendorSuccess ? error : loopback_from(cpu->device_synchronize(loopback_device()));
}

vendorError_t vendorMemGetInfo(size_t *out_free, size_t *out_total)
{
    vendorError_t error = loopback_begin("memory info", LOOPBACK_NO_DEVICE);
    dao_device_info_t info;
    if (error == vendorSuccess) {
        error = loopback_from(cpu->device_query(loopback_device(), &info));
    }
    if (error == vendorSuccess) {
        *out_free = (size_t)info.free_bytes;
        *out_total = (size_t)info.total_bytes;
    }
    return error;
}

/* ---- memory ---- */

/* A real driver waits for all work of the device before it takes memory back, and sometimes before it unmaps:
   a test that holds a stream up meanwhile hangs. */
void loopback_wait_for_device(void)
{
    if (loopback_driver.is_like_real) {
        (void)cpu->device_synchronize(loopback_device());
    }
}

static void remember(const loopback_span_t *span)
{
    dao_mutex_lock(&loopback_driver.lock);
    loopback_spans_add(&loopback_driver.memory, *span);
    dao_mutex_unlock(&loopback_driver.lock);
}

/* Takes an allocation out of the books. False, a breach, if there is none of that kind. */
static bool forget(const char *call, void *address, bool is_pinned, loopback_span_t *out_span)
{
    dao_mutex_lock(&loopback_driver.lock);
    loopback_span_t *span = loopback_spans_at(&loopback_driver.memory, address);
    bool is_known = span != NULL && span->is_pinned == is_pinned && !span->is_pooled;
    if (is_known) {
        *out_span = *span;
        loopback_spans_remove(&loopback_driver.memory, span);
    }
    dao_mutex_unlock(&loopback_driver.lock);
    if (!is_known) {
        (void)loopback_breach(LOOPBACK_RULE_UNKNOWN, call);
    }
    return is_known;
}

vendorError_t vendorMalloc(void **out_address, size_t size_bytes)
{
    loopback_span_t span;
    vendorError_t error = loopback_begin("malloc", LOOPBACK_NO_DEVICE);
    if (error == vendorSuccess) {
        error = loopback_memory_take(size_bytes, &span);
    }
    if (error == vendorSuccess) {
        remember(&span);
        *out_address = span.begin;
    }
    return error;
}

vendorError_t vendorHostAlloc(void **out_address, size_t size_bytes, unsigned flags)
{
    if (flags != (vendorHostAllocPortable | vendorHostAllocMapped)) {
        return loopback_breach(LOOPBACK_RULE_BAD_FLAGS, "host alloc");
    }
    void *address = NULL;
    vendorError_t error = loopback_begin("host alloc", LOOPBACK_NO_DEVICE);
    if (error == vendorSuccess) {
        error = loopback_from(cpu->pinned_alloc(loopback_device(), size_bytes, &address));
    }
    if (error == vendorSuccess) {
        loopback_span_t span = {.begin = address,
                                .size_bytes = size_bytes,
                                .device = loopback_current_device(),
                                .is_pinned = true};
        remember(&span);
        *out_address = address;
    }
    return error;
}

vendorError_t vendorFree(void *address)
{
    vendorError_t error = loopback_begin("free", LOOPBACK_NO_DEVICE);
    loopback_span_t span;
    if (error != vendorSuccess || address == NULL) {
        return error;
    }
    if (!loopback_share_check_free("free", address)) {
        return (vendorError_t)LOOPBACK_INVALID_VALUE;
    }
    if (!forget("free", address, false, &span)) {
        return (vendorError_t)LOOPBACK_INVALID_VALUE;
    }
    if (span.device != loopback_current_device()) {
        (void)loopback_breach(LOOPBACK_RULE_WRONG_DEVICE, "free");
    }
    loopback_wait_for_device();
    return loopback_memory_give(&span);
}

vendorError_t vendorFreeHost(void *address)
{
    vendorError_t error = loopback_begin("free host", LOOPBACK_NO_DEVICE);
    loopback_span_t span;
    if (error != vendorSuccess) {
        return error;
    }
    if (!forget("free host", address, true, &span)) {
        return (vendorError_t)LOOPBACK_INVALID_VALUE;
    }
    loopback_wait_for_device();
    return loopback_from(cpu->pinned_free(loopback_driver.devices[span.device], address, span.size_bytes));
}

/* ---- others' host memory ---- */

vendorError_t vendorHostRegister(void *address, size_t size_bytes, unsigned flags)
{
    vendorError_t error = loopback_begin("host register", LOOPBACK_NO_DEVICE);
    if (error != vendorSuccess) {
        return error;
    }
    if (flags != (vendorHostRegisterPortable | vendorHostRegisterMapped)) {
        return loopback_breach(LOOPBACK_RULE_BAD_FLAGS, "host register");
    }
    loopback_driver_t *driver = &loopback_driver;
    loopback_span_t span = {.begin = address, .size_bytes = size_bytes, .is_pinned = true};
    dao_mutex_lock(&driver->lock);
    bool is_taken = loopback_spans_in(&driver->registered, address, size_bytes) != NULL ||
                    loopback_spans_in(&driver->memory, address, size_bytes) != NULL;
    if (!is_taken) {
        loopback_spans_add(&driver->registered, span);
    }
    dao_mutex_unlock(&driver->lock);
    return is_taken ? loopback_error(vendorErrorHostMemoryAlreadyRegistered) : vendorSuccess;
}

vendorError_t vendorHostUnregister(void *address)
{
    vendorError_t error = loopback_begin("host unregister", LOOPBACK_NO_DEVICE);
    if (error != vendorSuccess) {
        return error;
    }
    loopback_wait_for_device();
    loopback_driver_t *driver = &loopback_driver;
    dao_mutex_lock(&driver->lock);
    const loopback_span_t *span = loopback_spans_at(&driver->registered, address);
    if (span != NULL) {
        loopback_spans_remove(&driver->registered, span);
    }
    dao_mutex_unlock(&driver->lock);
    return span == NULL ? loopback_error(vendorErrorHostMemoryNotRegistered) : vendorSuccess;
}

/* Returns true if a range lies within host memory that devices reach: pinned or registered. */
static bool is_mapped_host(const void *address, size_t size_bytes)
{
    dao_mutex_lock(&loopback_driver.lock);
    const loopback_span_t *span = loopback_spans_in(&loopback_driver.memory, address, size_bytes);
    if (span == NULL) {
        span = loopback_spans_in(&loopback_driver.registered, address, size_bytes);
    }
    bool is_inside = span != NULL && span->is_pinned && span->begin <= (const char *)address &&
                     span->begin + span->size_bytes >= (const char *)address + size_bytes;
    dao_mutex_unlock(&loopback_driver.lock);
    return is_inside;
}

/* One address for host and devices, as all have that both vendors' virtual memory serves. */
vendorError_t vendorHostGetDevicePointer(void **out_address, void *address, unsigned flags)
{
    vendorError_t error = loopback_begin("host get device pointer", LOOPBACK_NO_DEVICE);
    if (error != vendorSuccess) {
        return error;
    }
    if (flags != 0) {
        return loopback_breach(LOOPBACK_RULE_BAD_FLAGS, "host get device pointer");
    }
    if (!is_mapped_host(address, 1)) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    *out_address = address;
    return vendorSuccess;
}

/* ---- peers ---- */

vendorError_t vendorDeviceCanAccessPeer(int *out_can, int device, int peer)
{
    vendorError_t error = loopback_begin("can access peer", device);
    if (error == vendorSuccess && (peer < 0 || peer >= loopback_driver.device_count)) {
        error = loopback_error(vendorErrorInvalidDevice);
    }
    if (error == vendorSuccess) {
        *out_can = device != peer && !loopback_driver.settings.has_no_peers;
    }
    return error;
}

vendorError_t vendorDeviceEnablePeerAccess(int peer, unsigned flags)
{
    vendorError_t error = loopback_begin("enable peer access", LOOPBACK_NO_DEVICE);
    int device = loopback_current_device();
    if (error != vendorSuccess) {
        return error;
    }
    if (flags != 0) {
        return loopback_breach(LOOPBACK_RULE_BAD_FLAGS, "enable peer access");
    }
    if (peer < 0 || peer >= loopback_driver.device_count || peer == device) {
        return loopback_error(vendorErrorInvalidDevice);
    }
    if (loopback_driver.settings.has_no_peers) {
        return loopback_error(vendorErrorPeerAccessUnsupported);
    }
    dao_mutex_lock(&loopback_driver.lock);
    bool is_enabled = (loopback_driver.reached[device] >> peer & 1) != 0;
    loopback_driver.reached[device] |= UINT64_C(1) << peer;
    dao_mutex_unlock(&loopback_driver.lock);
    return is_enabled ? loopback_error(vendorErrorPeerAccessAlreadyEnabled) : vendorSuccess;
}

/* ---- streams ---- */

vendorError_t vendorStreamCreateWithFlags(vendorStream_t *out_stream, unsigned flags)
{
    if (flags != vendorStreamNonBlocking) {
        return loopback_breach(LOOPBACK_RULE_BAD_FLAGS, "stream create");
    }
    dao_backend_stream_t *inner = NULL;
    vendorError_t error = loopback_begin("stream create", LOOPBACK_NO_DEVICE);
    if (error == vendorSuccess) {
        error = loopback_from(cpu->stream_create(loopback_device(), &inner));
    }
    if (error == vendorSuccess) {
        *out_stream = (vendorStream_t)(void *)loopback_object_add(LOOPBACK_KIND_STREAM, inner, 0);
    }
    return error;
}

/* As with a real vendor, a failing destroy reports older work: the stream goes all the same. */
vendorError_t vendorStreamDestroy(vendorStream_t stream)
{
    if (!loopback_object_check(loopback_stream(stream), LOOPBACK_KIND_STREAM, "stream destroy")) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    vendorError_t error = loopback_begin("stream destroy", loopback_stream(stream)->device);
    loopback_object_remove(loopback_stream(stream));
    cpu->stream_destroy(loopback_stream(stream)->inner);
    return error;
}

vendorError_t vendorStreamSynchronize(vendorStream_t stream)
{
    vendorError_t error =
        loopback_begin_on("stream synchronize", loopback_stream(stream), LOOPBACK_KIND_STREAM);
    if (error == vendorSuccess) {
        error = loopback_capture_check("stream synchronize", LOOPBACK_NO_DEVICE, loopback_stream(stream));
    }
    return error != vendorSuccess ? error
                                  : loopback_from(cpu->stream_synchronize(loopback_stream(stream)->inner));
}

vendorError_t loopback_stream_id(vendorStream_t stream, unsigned long long *out_id)
{
    vendorError_t error = loopback_begin_on("stream id", loopback_stream(stream), LOOPBACK_KIND_STREAM);
    if (error == vendorSuccess) {
        *out_id = loopback_stream(stream)->id;
    }
    return error;
}

/* The work of the stream before is done: vendorStreamDestroy() has waited for it. */
void loopback_stream_make_again(void *handle)
{
    loopback_object_t *object = handle;
    dao_backend_stream_t *inner = NULL;
    if (!object->is_gone || cpu->stream_create(loopback_driver.devices[object->device], &inner) != DAO_OK) {
        abort(); /* the stream is to be destroyed before */
    }
    dao_mutex_lock(&loopback_driver.lock);
    object->inner = inner;
    object->id = ++loopback_driver.stream_serial;
    object->is_gone = false;
    dao_mutex_unlock(&loopback_driver.lock);
}

vendorError_t vendorStreamWaitEvent(vendorStream_t stream, vendorEvent_t event, unsigned flags)
{
    vendorError_t error =
        loopback_begin_on("stream wait event", loopback_stream(stream), LOOPBACK_KIND_STREAM);
    if (flags != 0) {
        return loopback_breach(LOOPBACK_RULE_BAD_FLAGS, "stream wait event");
    }
    if (!loopback_object_check(OBJECT(event), LOOPBACK_KIND_EVENT, "stream wait event")) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    if (error != vendorSuccess || loopback_capture_wait(loopback_stream(stream), OBJECT(event), &error)) {
        return error;
    }
    return loopback_from(cpu->stream_wait_event(loopback_stream(stream)->inner, OBJECT(event)->inner));
}

/* ---- events ---- */

vendorError_t vendorEventCreateWithFlags(vendorEvent_t *out_event, unsigned flags)
{
    if (flags != vendorEventDefault && flags != vendorEventDisableTiming) {
        return loopback_breach(LOOPBACK_RULE_BAD_FLAGS, "event create");
    }
    dao_backend_event_t *inner = NULL;
    vendorError_t error = loopback_begin("event create", LOOPBACK_NO_DEVICE);
    if (error == vendorSuccess) {
        error = loopback_from(cpu->event_create(loopback_device(), flags == vendorEventDefault, &inner));
    }
    if (error == vendorSuccess) {
        *out_event = (vendorEvent_t)(void *)loopback_object_add(LOOPBACK_KIND_EVENT, inner, 0);
    }
    return error;
}

vendorError_t vendorEventDestroy(vendorEvent_t event)
{
    if (!loopback_object_check(OBJECT(event), LOOPBACK_KIND_EVENT, "event destroy")) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    vendorError_t error = loopback_begin("event destroy", OBJECT(event)->device);
    loopback_object_remove(OBJECT(event));
    cpu->event_destroy(OBJECT(event)->inner);
    return error;
}

vendorError_t vendorEventRecord(vendorEvent_t event, vendorStream_t stream)
{
    vendorError_t error = loopback_begin_on("event record", loopback_stream(stream), LOOPBACK_KIND_STREAM);
    if (!loopback_object_check(OBJECT(event), LOOPBACK_KIND_EVENT, "event record")) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    if (OBJECT(event)->device != loopback_stream(stream)->device) {
        return loopback_breach(LOOPBACK_RULE_WRONG_DEVICE, "event record");
    }
    if (error != vendorSuccess || loopback_capture_record(OBJECT(event), loopback_stream(stream))) {
        return error;
    }
    return loopback_from(cpu->event_record(OBJECT(event)->inner, loopback_stream(stream)->inner));
}

vendorError_t vendorEventQuery(vendorEvent_t event)
{
    vendorError_t error = loopback_begin_on("event query", OBJECT(event), LOOPBACK_KIND_EVENT);
    if (error == vendorSuccess) {
        error = loopback_capture_check_event("event query", OBJECT(event));
    }
    return error != vendorSuccess ? error : loopback_from(cpu->event_query(OBJECT(event)->inner));
}

vendorError_t vendorEventSynchronize(vendorEvent_t event)
{
    vendorError_t error = loopback_begin_on("event synchronize", OBJECT(event), LOOPBACK_KIND_EVENT);
    if (error == vendorSuccess) {
        error = loopback_capture_check_event("event synchronize", OBJECT(event));
    }
    return error != vendorSuccess ? error : loopback_from(cpu->event_synchronize(OBJECT(event)->inner));
}

vendorError_t vendorEventElapsedTime(float *out_ms, vendorEvent_t begin, vendorEvent_t end)
{
    vendorError_t error = loopback_begin_on("event elapsed time", OBJECT(end), LOOPBACK_KIND_EVENT);
    if (!loopback_object_check(OBJECT(begin), LOOPBACK_KIND_EVENT, "event elapsed time")) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    int64_t elapsed_ns = 0;
    if (error == vendorSuccess) {
        error = loopback_from(cpu->event_elapsed(OBJECT(begin)->inner, OBJECT(end)->inner, &elapsed_ns));
    }
    if (error == vendorSuccess) {
        *out_ms = (float)((double)elapsed_ns / 1e6);
    }
    return error;
}

/* ---- work ---- */

/* Finds the device whose memory a range is, in one allocation or in mapped pages side by side;
   LOOPBACK_NO_DEVICE: no one's. Returns the devices that may touch all of it. */
static int find_owner_locked(const char *at, size_t size_bytes, uint64_t *out_allowed)
{
    const loopback_driver_t *driver = &loopback_driver;
    const char *end = at + size_bytes;
    const loopback_span_t *span = loopback_spans_in(&driver->memory, at, size_bytes);
    *out_allowed = UINT64_MAX;
    if (span != NULL) {
        for (int device = 0; device < driver->device_count; device++) {
            bool may = device == span->device || (driver->reached[device] >> span->device & 1) != 0;
            if (span->is_pooled && device != span->device) { /* beside peers, a pool has to let them */
                may = may && (((const loopback_object_t *)span->owner)->allowed >> device & 1) != 0;
            }
            *out_allowed &= ~((uint64_t)!may << device);
        }
        bool is_inside = !span->is_pinned && span->begin <= at && span->begin + span->size_bytes >= end;
        return is_inside ? span->device : LOOPBACK_NO_DEVICE;
    }
    size_t first = loopback_spans_from(&driver->mapped, at);
    for (size_t i = first; i < driver->mapped.count && driver->mapped.items[i].begin <= at &&
                           driver->mapped.items[i].device == driver->mapped.items[first].device;
         i++) {
        *out_allowed &= driver->mapped.items[i].allowed;
        at = driver->mapped.items[i].begin + driver->mapped.items[i].size_bytes;
        if (at >= end) {
            return driver->mapped.items[i].device;
        }
    }
    return LOOPBACK_NO_DEVICE;
}

/* Returns true if a range is memory of a device, of `owner` unless that is LOOPBACK_NO_DEVICE, and may be
   touched by `device`. */
static bool check_device_range(const char *call, int device, int owner, const void *address,
                               size_t size_bytes)
{
    uint64_t allowed;
    dao_mutex_lock(&loopback_driver.lock);
    int found = find_owner_locked(address, size_bytes, &allowed);
    dao_mutex_unlock(&loopback_driver.lock);
    if (found == LOOPBACK_NO_DEVICE || (owner != LOOPBACK_NO_DEVICE && found != owner)) {
        (void)loopback_breach(LOOPBACK_RULE_BAD_RANGE, call);
        return false;
    }
    if ((allowed >> device & 1) == 0) {
        (void)loopback_breach(LOOPBACK_RULE_NOT_ALLOWED, call);
        return false;
    }
    return true;
}

/* Returns true if a range has no byte of a device, and lies within pinned memory if it touches any. */
static bool check_host_range(const char *call, const void *address, size_t size_bytes)
{
    loopback_driver_t *driver = &loopback_driver;
    dao_mutex_lock(&driver->lock);
    const loopback_span_t *span = loopback_spans_in(&driver->memory, address, size_bytes);
    bool is_host = loopback_spans_in(&driver->reserved, address, size_bytes) == NULL &&
                   (span == NULL || (span->is_pinned && span->begin <= (const char *)address &&
                                     span->begin + span->size_bytes >= (const char *)address + size_bytes));
    dao_mutex_unlock(&driver->lock);
    if (!is_host) {
        (void)loopback_breach(LOOPBACK_RULE_BAD_RANGE, call);
    }
    return is_host;
}

/* Queues a copy of a stream's device whose call may be made. */
static vendorError_t queue_copy(const char *call, loopback_object_t *stream, void *dst, bool to_device,
                                const void *src, bool from_device, size_t size_bytes)
{
    int device = stream->device;
    bool is_right = to_device || from_device;
    is_right = is_right && (to_device ? check_device_range(call, device, LOOPBACK_NO_DEVICE, dst, size_bytes)
                                      : check_host_range(call, dst, size_bytes));
    is_right =
        is_right && (from_device ? check_device_range(call, device, LOOPBACK_NO_DEVICE, src, size_bytes)
                                 : check_host_range(call, src, size_bytes));
    if (!is_right) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    if (loopback_capture_work(stream)) {
        return vendorSuccess;
    }
    dao_copy_kind_t way = !from_device ? DAO_COPY_KIND_H2D
                          : to_device  ? DAO_COPY_KIND_D2D
                                       : DAO_COPY_KIND_D2H;
    return loopback_from(cpu->copy(stream->inner, way, loopback_bytes(dst, size_bytes),
                                   loopback_bytes(src, size_bytes), size_bytes));
}

vendorError_t vendorMemcpyAsync(void *dst, const void *src, size_t size_bytes, vendorMemcpyKind_t kind,
                                vendorStream_t stream)
{
    vendorError_t error = loopback_begin_on("memcpy", loopback_stream(stream), LOOPBACK_KIND_STREAM);
    bool to_device = kind == vendorMemcpyHostToDevice || kind == vendorMemcpyDeviceToDevice;
    bool from_device = kind == vendorMemcpyDeviceToHost || kind == vendorMemcpyDeviceToDevice;
    return error != vendorSuccess
               ? error
               : queue_copy("memcpy", loopback_stream(stream), dst, to_device, src, from_device, size_bytes);
}

/* Returns true if a byte is some device's. */
static bool is_of_device(const void *address)
{
    uint64_t allowed;
    dao_mutex_lock(&loopback_driver.lock);
    bool is_found = find_owner_locked(address, 1, &allowed) != LOOPBACK_NO_DEVICE;
    dao_mutex_unlock(&loopback_driver.lock);
    return is_found;
}

vendorError_t loopback_queue_batch(const char *call, void *const *dsts, const void *const *srcs,
                                   const size_t *sizes, size_t count, vendorStream_t stream)
{
    vendorError_t error = loopback_begin_on(call, loopback_stream(stream), LOOPBACK_KIND_STREAM);
    if (error == vendorSuccess && loopback_stream(stream)->capture != 0) {
        (void)loopback_breach(LOOPBACK_RULE_CAPTURED, call); /* a graph has no node for it */
        return loopback_error(vendorErrorStreamCaptureUnsupported);
    }
    for (size_t i = 0; i < count && error == vendorSuccess; i++) {
        error = queue_copy(call, loopback_stream(stream), dsts[i], is_of_device(dsts[i]), srcs[i],
                           is_of_device(srcs[i]), sizes[i]);
    }
    return error;
}

vendorError_t vendorMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
                                    size_t size_bytes, vendorStream_t stream)
{
    vendorError_t error = loopback_begin_on("memcpy peer", loopback_stream(stream), LOOPBACK_KIND_STREAM);
    if (error != vendorSuccess) {
        return error;
    }
    if ((error = loopback_lost(dst_device)) != vendorSuccess ||
        (error = loopback_lost(src_device)) != vendorSuccess) {
        return error;
    }
    if (!check_device_range("memcpy peer to", dst_device, dst_device, dst, size_bytes) ||
        !check_device_range("memcpy peer from", src_device, src_device, src, size_bytes)) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    if (loopback_capture_work(loopback_stream(stream))) {
        return vendorSuccess;
    }
    return loopback_from(cpu->copy_peer(loopback_stream(stream)->inner, loopback_driver.devices[dst_device],
                                        loopback_bytes(dst, size_bytes), loopback_driver.devices[src_device],
                                        loopback_bytes(src, size_bytes), size_bytes));
}

vendorError_t vendorMemsetAsync(void *dst, int value, size_t size_bytes, vendorStream_t stream)
{
    vendorError_t error = loopback_begin_on("memset", loopback_stream(stream), LOOPBACK_KIND_STREAM);
    if (error != vendorSuccess) {
        return error;
    }
    if (!is_mapped_host(dst, size_bytes) &&
        !check_device_range("memset", loopback_stream(stream)->device, LOOPBACK_NO_DEVICE, dst, size_bytes)) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    if (loopback_capture_work(loopback_stream(stream))) {
        return vendorSuccess;
    }
    return loopback_from(cpu->fill(loopback_stream(stream)->inner, loopback_bytes(dst, size_bytes),
                                   (uint8_t)value, size_bytes));
}

/* ---- host functions ---- */

typedef struct box {
    void (*function)(void *);
    void *user;
} box_t;

static void run_box(void *user)
{
    box_t box = *(box_t *)user;
    free(user);
    loopback_run_host_func(box.function, box.user);
}

vendorError_t loopback_host_func(const char *call, vendorStream_t stream, void (*function)(void *),
                                 void *user)
{
    vendorError_t error = loopback_begin_on(call, loopback_stream(stream), LOOPBACK_KIND_STREAM);
    if (error != vendorSuccess || loopback_capture_work(loopback_stream(stream))) {
        return error; /* what is captured does not run */
    }
    box_t *box = calloc(1, sizeof(*box));
    if (box == NULL) {
        abort(); /* the test machine is full */
    }
    *box = (box_t){.function = function, .user = user};
    dao_status_t status = cpu->host_func(loopback_stream(stream)->inner, run_box, box);
    if (status != DAO_OK) {
        free(box);
    }
    return loopback_from(status);
}

/* A wait for a word: as a device polls, not in a thread of host functions. */
typedef struct word_wait {
    const _Atomic uint32_t *word;
    uint32_t value;
} word_wait_t;

static void wait_for_value(void *user)
{
    word_wait_t wait = *(word_wait_t *)user;
    free(user);
    while ((int32_t)(atomic_load(wait.word) - wait.value) < 0) {
        dao_sleep_until(dao_clock_ns() + LOOPBACK_LOOK_NS);
    }
}

vendorError_t loopback_wait_word(const char *call, vendorStream_t stream, void *word, uint32_t value)
{
    vendorError_t error = loopback_begin_on(call, loopback_stream(stream), LOOPBACK_KIND_STREAM);
    if (error == vendorSuccess && loopback_driver.settings.has_no_words) {
        error = loopback_error(vendorErrorNotSupported);
    }
    if (error == vendorSuccess && ((uintptr_t)word % sizeof(uint32_t) != 0 || !is_mapped_host(word, 4))) {
        error = loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    if (error != vendorSuccess || loopback_capture_work(loopback_stream(stream))) {
        return error;
    }
    word_wait_t *wait = calloc(1, sizeof(*wait));
    if (wait == NULL) {
        abort(); /* the test machine is full */
    }
    *wait = (word_wait_t){.word = word, .value = value};
    dao_status_t status = cpu->host_func(loopback_stream(stream)->inner, wait_for_value, wait);
    if (status != DAO_OK) {
        free(wait);
    }
    return loopback_from(status);
}
