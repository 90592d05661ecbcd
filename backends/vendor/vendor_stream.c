/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, and the copies, fills and host functions that are queued on streams. */
#include "backends/vendor/vendor_internal.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

struct dao_backend_stream {
    dao_backend_device_t *device;
    vendorStream_t stream;
    bool is_adopted;      /* the program destroys it */
    uint64_t id;          /* of an adopted one; 0: the vendor has none */
    _Atomic bool is_gone; /* its owner has destroyed it: the handle is nobody's, or another stream's */
};

struct dao_backend_event {
    dao_backend_device_t *device;
    vendorEvent_t event;
    _Atomic bool is_recorded; /* threads may record and query at the same time */
    bool has_time;            /* chosen at creation; records without a time are cheaper */
};

/* A copy within host memory that is queued on a stream. */
typedef struct host_copy {
    void *dst;
    const void *src;
    size_t size_bytes;
} host_copy_t;

/* ---- streams ---- */

/* Returns the structure for a stream that is still to be made; NULL, with the error set, without host
   memory. */
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

dao_status_t dao_vendor_stream_create(dao_backend_device_t *device, dao_backend_stream_t **out_stream)
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

/* A handle that stands for one stream in each thread has no order that memory could follow. The default
   stream is never destroyed. */
dao_status_t dao_vendor_stream_adopt(dao_backend_device_t *device, void *native,
                                     dao_backend_stream_t **out_stream)
{
    unsigned long long id = 0;
    if (native == (void *)vendorStreamPerThread) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "device:%d: %s stands for another stream in each thread, and memory follows one; "
                         "adopt a stream that the program has created, or NULL for the default stream",
                         device->index, VENDOR_PER_THREAD);
    }
    if (native != NULL) {
        dao_status_t status;
        CALL(status, device->index, DAO_ERR_NO_HOST_MEMORY, vendorStreamGetId, ((vendorStream_t)native, &id));
        if (status != DAO_OK) {
            return status;
        }
    }
    dao_backend_stream_t *stream = stream_wrap(device);
    if (stream == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    stream->stream = (vendorStream_t)native;
    stream->is_adopted = true;
    stream->id = id;
    *out_stream = stream;
    return DAO_OK;
}

/* Asks for the number of the stream that a handle stands for now. An error that says nothing of the handle is
   left to the next call. */
static bool look_if_gone(dao_backend_stream_t *stream)
{
    dao_vendor_guard_t guard;
    unsigned long long id = stream->id;
    vendorError_t error = dao_vendor_enter(stream->device->index, &guard);
    if (error == vendorSuccess) {
        error = vendorStreamGetId(stream->stream, &id);
        dao_vendor_leave(stream->device->index, &guard);
    }
    if (error != vendorSuccess) {
        (void)vendorGetLastError();
    }
    return error == vendorErrorInvalidHandle || (error == vendorSuccess && id != stream->id);
}

bool dao_vendor_stream_is_gone(dao_backend_stream_t *stream)
{
    if (!stream->is_adopted || stream->stream == NULL) {
        return false;
    }
    if (!atomic_load_explicit(&stream->is_gone, memory_order_acquire) && look_if_gone(stream)) {
        atomic_store_explicit(&stream->is_gone, true, memory_order_release);
    }
    return atomic_load_explicit(&stream->is_gone, memory_order_acquire);
}

dao_status_t dao_vendor_device_synchronize(dao_backend_device_t *device)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorDeviceSynchronize, ());
    return status;
}

/* Work on a stream that is gone may still run: its owner's destroy did not wait. */
dao_status_t dao_vendor_stream_synchronize(dao_backend_stream_t *stream)
{
    if (dao_vendor_stream_is_gone(stream)) {
        return dao_vendor_device_synchronize(stream->device);
    }
    dao_status_t status;
    CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorStreamSynchronize, (stream->stream));
    return status;
}

void dao_vendor_stream_destroy(dao_backend_stream_t *stream)
{
    if (!stream->is_adopted) {
        /* The vendor's destroy does not wait. An error of the work has no caller to report to. */
        (void)dao_vendor_stream_synchronize(stream);
        dao_status_t status;
        CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorStreamDestroy, (stream->stream));
        (void)status; /* a lost device: its streams went with it */
    }
    dao_host_free(stream);
}

dao_status_t dao_vendor_stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event)
{
    dao_status_t status;
    CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorStreamWaitEvent,
         (stream->stream, event->event, 0));
    return status;
}

/* While another stream is captured, the default stream may not be used, and asking for its capture is an
   error. */
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

dao_status_t dao_vendor_stream_capture(dao_backend_stream_t *stream, uint64_t *out_capture)
{
    dao_vendor_guard_t guard;
    int index = stream->device->index;
    if (dao_vendor_stream_is_gone(stream)) {
        *out_capture = 0;
        return DAO_OK;
    }
    vendorError_t error = dao_vendor_enter(index, &guard);
    if (error == vendorSuccess) {
        error = capture_ask(stream->stream, out_capture);
        dao_vendor_leave(index, &guard);
    }
    return dao_vendor_answer(error, NAME_OF(vendorStreamGetCaptureInfo), index, DAO_ERR_NO_DEVICE_MEMORY);
}

void *dao_vendor_stream_native(dao_backend_stream_t *stream)
{
    return (void *)stream->stream;
}

/* ---- events ---- */

dao_status_t dao_vendor_event_create(dao_backend_device_t *device, bool has_time,
                                     dao_backend_event_t **out_event)
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

void dao_vendor_event_destroy(dao_backend_event_t *event)
{
    dao_status_t status;
    CALL(status, event->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorEventDestroy, (event->event));
    (void)status; /* a lost device: its events went with it */
    dao_host_free(event);
}

/* Behind the work of a stream that is gone no event can be recorded; once the device has been waited for, the
   event needs not to stand for it. */
dao_status_t dao_vendor_event_record(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    if (dao_vendor_stream_is_gone(stream)) {
        return dao_vendor_device_synchronize(stream->device);
    }
    dao_status_t status;
    CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorEventRecord,
         (event->event, stream->stream));
    if (status == DAO_OK) {
        atomic_store_explicit(&event->is_recorded, true, memory_order_release);
    }
    return status;
}

dao_status_t dao_vendor_event_query(dao_backend_event_t *event)
{
    dao_status_t status;
    CALL(status, event->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorEventQuery, (event->event));
    /* BUSY: the record is part of a capture, which runs later if at all. */
    return status == DAO_ERR_BUSY ? DAO_ERR_NOT_READY : status;
}

dao_status_t dao_vendor_event_synchronize(dao_backend_event_t *event)
{
    dao_status_t status;
    CALL(status, event->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorEventSynchronize, (event->event));
    return status;
}

dao_status_t dao_vendor_event_elapsed(dao_backend_event_t *begin, dao_backend_event_t *end,
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

#ifdef vendorStreamWaitWord
dao_status_t dao_vendor_stream_wait_word(dao_backend_stream_t *stream, _Atomic uint32_t *word, uint32_t value)
{
    int32_t index = stream->device->index;
    void *mapped = NULL;
    dao_status_t status;
    CALL(status, index, DAO_ERR_NO_HOST_MEMORY, vendorHostGetDevicePointer, (&mapped, (void *)word, 0));
    if (status == DAO_OK) {
        CALL(status, index, DAO_ERR_NO_DEVICE_MEMORY, vendorStreamWaitWord, (stream->stream, mapped, value));
    }
    return status;
}
#endif

/* ---- work ---- */

dao_status_t dao_vendor_host_func(dao_backend_stream_t *stream, dao_host_func_t function, void *user)
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

/* The vendor's own copy within host memory waits for the stream; a host function does not. In a graph the
   function would run more than once, after its argument was freed. */
static dao_status_t copy_on_host(dao_backend_stream_t *stream, void *dst, const void *src, size_t size_bytes)
{
    uint64_t capture = 0;
    dao_status_t status = dao_vendor_stream_capture(stream, &capture);
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
    status = dao_vendor_host_func(stream, run_host_copy, copy);
    if (status != DAO_OK) {
        dao_host_free(copy);
    }
    return status;
}

dao_status_t dao_vendor_copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
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
/* A graph has a node for a copy and none for a batch. */
dao_status_t dao_vendor_copy_batch(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *const *dsts,
                                   const void *const *srcs, const size_t *sizes_bytes, size_t count)
{
    (void)kind; /* the vendor tells it from the addresses */
    uint64_t capture = 0;
    dao_status_t status = dao_vendor_stream_capture(stream, &capture);
    if (status != DAO_OK || capture != 0) {
        return status != DAO_OK ? status
                                : dao_error(DAO_ERR_UNSUPPORTED, "device:%d: a batch cannot be captured",
                                            stream->device->index);
    }
    CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorCopyBatch,
         (dsts, srcs, sizes_bytes, count, stream->stream));
    return status;
}
#endif

dao_status_t dao_vendor_fill(dao_backend_stream_t *stream, void *dst, uint8_t value, size_t size_bytes)
{
    dao_status_t status;
    CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorMemsetAsync,
         (dst, value, size_bytes, stream->stream));
    return status;
}

dao_status_t dao_vendor_copy_peer(dao_backend_stream_t *stream, dao_backend_device_t *dst_device, void *dst,
                                  dao_backend_device_t *src_device, const void *src, size_t size_bytes)
{
    dao_status_t status;
    CALL(status, stream->device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorMemcpyPeerAsync,
         (dst, dst_device->index, src, src_device->index, size_bytes, stream->stream));
    return status;
}
