/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of streams into graphs: they begin, follow their rules, and end. The captured work is not kept.

       begin(S)                      S is a part of capture 1, its origin
       record(E, S), wait(T, E)      T is a part of it, too: forked
       record(F, T), wait(S, F)      T is joined
       end(S)                        no stream is a part of it; every fork has to be joined

   An event of a capture stands for no work until it is recorded anew. Querying one, waiting for a stream of
   the capture or for its device, or tying the capture to other work ends it: a breach here, and the capture
   is spoiled. */
#include "tests/loopback/driver.h"

static bool is_active_locked(uint64_t capture)
{
    const loopback_object_t *object = loopback_driver.objects;
    while (object != NULL && (object->is_gone || object->kind != LOOPBACK_KIND_STREAM || object->is_forked ||
                              object->capture != capture)) {
        object = object->next;
    }
    return object != NULL;
}

/* Ends a capture for all its streams, or all captures of a device. */
static void spoil_locked(uint64_t capture, int device)
{
    for (loopback_object_t *object = loopback_driver.objects; object != NULL; object = object->next) {
        bool is_meant = capture != 0 ? object->capture == capture : object->device == device;
        if (object->kind == LOOPBACK_KIND_STREAM && object->capture != 0 && is_meant) {
            object->is_spoiled = true;
        }
    }
}

vendorError_t loopback_capture_info(vendorStream_t handle, vendorStreamCaptureStatus_t *out_status,
                                    unsigned long long *out_id)
{
    loopback_object_t *stream = loopback_stream(handle);
    vendorError_t error = loopback_begin_on("stream capture", stream, LOOPBACK_KIND_STREAM);
    if (error != vendorSuccess) {
        return error;
    }
    dao_mutex_lock(&loopback_driver.lock);
    *out_id = stream->capture;
    *out_status = stream->is_spoiled     ? vendorStreamCaptureStatusInvalidated
                  : stream->capture != 0 ? vendorStreamCaptureStatusActive
                                         : vendorStreamCaptureStatusNone;
    dao_mutex_unlock(&loopback_driver.lock);
    return vendorSuccess;
}

bool loopback_capture_work(loopback_object_t *stream)
{
    dao_mutex_lock(&loopback_driver.lock);
    bool is_captured = stream->capture != 0;
    if (is_captured) {
        stream->captured_count++;
        stream->is_joined = false;
    }
    dao_mutex_unlock(&loopback_driver.lock);
    return is_captured;
}

vendorError_t loopback_capture_check(const char *call, int device, const loopback_object_t *stream)
{
    dao_mutex_lock(&loopback_driver.lock);
    bool is_captured = stream != NULL && stream->capture != 0;
    for (const loopback_object_t *object = loopback_driver.objects; stream == NULL && object != NULL;
         object = object->next) {
        is_captured = is_captured || (!object->is_gone && object->kind == LOOPBACK_KIND_STREAM &&
                                      object->device == device && object->capture != 0);
    }
    if (is_captured) {
        spoil_locked(stream != NULL ? stream->capture : 0, device);
    }
    dao_mutex_unlock(&loopback_driver.lock);
    if (!is_captured) {
        return vendorSuccess;
    }
    (void)loopback_breach(LOOPBACK_RULE_CAPTURED, call);
    return loopback_error(vendorErrorStreamCaptureUnsupported);
}

vendorError_t loopback_capture_check_event(const char *call, const loopback_object_t *event)
{
    dao_mutex_lock(&loopback_driver.lock);
    bool is_captured = event->capture != 0;
    bool is_active = is_captured && is_active_locked(event->capture);
    if (is_active) {
        spoil_locked(event->capture, LOOPBACK_NO_DEVICE);
    }
    dao_mutex_unlock(&loopback_driver.lock);
    if (is_active) {
        (void)loopback_breach(LOOPBACK_RULE_CAPTURED, call);
    }
    return is_captured ? loopback_error(vendorErrorCapturedEvent) : vendorSuccess;
}

bool loopback_capture_record(loopback_object_t *event, loopback_object_t *stream)
{
    dao_mutex_lock(&loopback_driver.lock);
    event->capture = stream->capture;
    event->recorded_on = stream;
    event->captured_count = stream->captured_count;
    bool is_captured = stream->capture != 0;
    dao_mutex_unlock(&loopback_driver.lock);
    return is_captured;
}

bool loopback_capture_wait(loopback_object_t *stream, const loopback_object_t *event,
                           vendorError_t *out_error)
{
    dao_mutex_lock(&loopback_driver.lock);
    bool is_captured = stream->capture != 0 || event->capture != 0;
    bool is_right = stream->capture == event->capture ||
                    (stream->capture == 0 && is_active_locked(event->capture)) || event->recorded_on == NULL;
    if (is_right && stream->capture == 0 && event->capture != 0) {
        stream->capture = event->capture;
        stream->is_forked = true;
    } else if (is_right && event->recorded_on != NULL && event->recorded_on->is_forked) {
        bool has_all = event->captured_count == event->recorded_on->captured_count;
        event->recorded_on->is_joined = event->recorded_on->is_joined || has_all;
    } else if (!is_right) {
        spoil_locked(stream->capture != 0 ? stream->capture : event->capture, LOOPBACK_NO_DEVICE);
    }
    dao_mutex_unlock(&loopback_driver.lock);
    *out_error = is_right ? vendorSuccess : loopback_breach(LOOPBACK_RULE_CAPTURED, "stream wait event");
    return is_captured;
}

vendorError_t loopback_capture_begin(vendorStream_t handle)
{
    loopback_object_t *stream = loopback_stream(handle);
    dao_mutex_lock(&loopback_driver.lock);
    bool can_begin = handle != NULL && stream->capture == 0;
    if (can_begin) {
        stream->capture = ++loopback_driver.capture_serial;
        stream->is_forked = false;
    }
    dao_mutex_unlock(&loopback_driver.lock);
    return can_begin ? vendorSuccess : loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
}

vendorError_t loopback_capture_end(vendorStream_t handle, void **out_graph)
{
    loopback_object_t *origin = loopback_stream(handle);
    bool is_joined = true;
    dao_mutex_lock(&loopback_driver.lock);
    uint64_t capture = origin->is_forked ? 0 : origin->capture;
    bool is_spoiled = capture != 0 && origin->is_spoiled;
    for (loopback_object_t *object = loopback_driver.objects; capture != 0 && object != NULL;
         object = object->next) {
        if (object->kind == LOOPBACK_KIND_STREAM && object->capture == capture) {
            is_joined = is_joined && (!object->is_forked || object->is_joined);
            object->capture = 0;
            object->is_spoiled = false;
            object->is_forked = false;
            object->is_joined = false;
        }
    }
    dao_mutex_unlock(&loopback_driver.lock);
    if (is_spoiled) {
        *out_graph = NULL;
        return loopback_error(vendorErrorStreamCaptureUnsupported);
    }
    *out_graph = capture != 0 && is_joined ? (void *)(uintptr_t)capture : NULL;
    return *out_graph != NULL ? vendorSuccess : loopback_breach(LOOPBACK_RULE_CAPTURED, "stream end capture");
}
