/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events: counted objects around the backend's own.

   A stream of the program lives until the program, as often as it has adopted it, and every memory handle
   that names it have released it. A device's own streams live as long as its runtime. A stream or an event
   holds a reference to its runtime, so it works, and can be destroyed, after dao_finalize(). */
#include <dao/stream.h>

#include "base/memory/host.h"
#include "base/report/error.h"
#include "runtime/device/deferred_free.h"
#include "runtime/handles/stream_internal.h"
#include "runtime/own/own_device.h"
#include "runtime/place/lookup.h"

#include <inttypes.h>

/* A stream that the program made: what the report at shutdown needs is behind the common part. */
typedef struct made_stream {
    dao_stream_t stream; /* first: see dao_stream_end() */
    dao_live_t live;
} made_stream_t;

struct dao_event {
    dao_runtime_t *runtime; /* a reference of its own */
    dao_backend_event_t *backend;
    dao_live_t live;
};

/* A stream or event may be used unless it is NULL or came here by a fork. */
static dao_status_t runtime_check(const dao_runtime_t *runtime, const char *function)
{
    if (dao_core_is_forked(runtime->core)) {
        return dao_error(DAO_ERR_FORKED, "%s: the stream or event was made in the parent process", function);
    }
    return DAO_OK;
}

/* Work needs a device that is not lost. */
static dao_status_t work_check(const dao_runtime_t *runtime, const char *function)
{
    dao_status_t status = runtime_check(runtime, function);
    return status == DAO_OK ? dao_runtime_health(runtime, function) : status;
}

static dao_status_t stream_check(const dao_stream_t *stream, const char *function)
{
    if (stream == NULL) {
        return dao_error_null(function, "stream");
    }
    dao_status_t status = work_check(stream->runtime, function);
    return status == DAO_OK ? dao_stream_alive_check(stream, function) : status;
}

static dao_status_t event_check(const dao_event_t *event, const char *function)
{
    return event == NULL ? dao_error_null(function, "event") : work_check(event->runtime, function);
}

/* ---- life of streams ---- */

void *dao_stream_native_on(const dao_runtime_t *runtime, void *native)
{
    return native != NULL || runtime->ops->has_default_stream
               ? native
               : runtime->ops->stream_native(runtime->streams[DAO_STREAM_ROLE_COMPUTE].backend);
}

/* Returns the runtime of a device on which something is to be made, with a reference. */
static dao_status_t runtime_acquire_healthy(int32_t device_index, const char *function,
                                            dao_runtime_t **out_runtime)
{
    dao_runtime_t *runtime;
    dao_status_t status = dao_runtime_acquire(device_index, &runtime);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_runtime_health(runtime, function);
    if (status != DAO_OK) {
        dao_runtime_release(runtime);
        return status;
    }
    *out_runtime = runtime;
    return DAO_OK;
}

/* Makes a stream around a new one of the backend, or around that of a handle. */
static dao_status_t stream_make(dao_runtime_t *runtime, const char *noun, bool adopts, void *native,
                                made_stream_t **out_made)
{
    const dao_backend_ops_t *ops = runtime->ops;
    made_stream_t *made = dao_host_calloc(1, sizeof(*made));
    if (made == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a stream on device:%" PRId32,
                         runtime->device_index);
    }
    dao_stream_t *stream = &made->stream;
    dao_status_t status =
        dao_runtime_told(runtime, adopts ? ops->stream_adopt(runtime->device, native, &stream->backend)
                                         : ops->stream_create(runtime->device, &stream->backend));
    if (status != DAO_OK) {
        dao_host_free(made);
        return status;
    }
    stream->runtime = dao_runtime_retain(runtime);
    stream->adopted.native = native;
    stream->adopted.owner_count = 1;
    atomic_init(&stream->reference_count, 1);
    made->live =
        (dao_live_t){.noun = noun, .place = {DAO_PLACE_KIND_DEVICE, runtime->device_index}, .address = made};
    dao_live_add(runtime->core, &made->live);
    *out_made = made;
    return DAO_OK;
}

/* Ends what the program has of a stream. */
static void stream_leave(dao_stream_t *stream, bool is_idle)
{
    dao_live_remove(stream->runtime->core, &((made_stream_t *)(void *)stream)->live);
    if (dao_stream_drop(stream)) {
        dao_stream_end(stream, is_idle);
    }
}

void dao_stream_disown(dao_stream_t *stream, bool is_idle)
{
    if (dao_adopted_disown(&stream->runtime->adopted, stream)) {
        stream_leave(stream, is_idle);
    }
}

dao_status_t dao_stream_create_on(dao_runtime_t *runtime, const char *noun, dao_stream_t **out_stream)
{
    made_stream_t *made;
    dao_status_t status = dao_runtime_health(runtime, "dao_stream_create");
    status = status == DAO_OK ? stream_make(runtime, noun, false, NULL, &made) : status;
    if (status == DAO_OK) {
        *out_stream = &made->stream;
    }
    return status;
}

dao_status_t dao_stream_create(int32_t device_index, dao_stream_t **out_stream)
{
    dao_runtime_t *runtime;
    if (out_stream == NULL) {
        return dao_error_null("dao_stream_create", "out_stream");
    }
    dao_status_t status = dao_runtime_acquire(device_index, &runtime);
    if (status == DAO_OK) {
        status = dao_stream_create_on(runtime, "stream", out_stream);
        dao_runtime_release(runtime);
    }
    return status;
}

/* Finds the stream of a handle, or makes it: another thread may do the same meanwhile, and be faster. */
dao_status_t dao_stream_adopt_on(dao_runtime_t *runtime, void *native, dao_stream_t **out_stream)
{
    if (runtime->ops->stream_adopt == NULL) {
        return dao_error(DAO_ERR_UNSUPPORTED, "the backend \"%s\" knows no streams but its own",
                         runtime->ops->name);
    }
    native = dao_stream_native_on(runtime, native);
    *out_stream = dao_adopted_find(&runtime->adopted, native);
    if (*out_stream != NULL) {
        return DAO_OK;
    }
    made_stream_t *made;
    dao_status_t status = stream_make(runtime, "adopted stream", true, native, &made);
    if (status == DAO_OK) {
        *out_stream = dao_adopted_add(&runtime->adopted, &made->stream);
        if (*out_stream != &made->stream) {
            stream_leave(&made->stream, true); /* nobody has used it */
        }
    }
    return status;
}

dao_status_t dao_stream_adopt(int32_t device_index, void *native, dao_stream_t **out_stream)
{
    dao_runtime_t *runtime;
    dao_stream_t *stream = NULL;
    if (out_stream == NULL) {
        return dao_error_null("dao_stream_adopt", "out_stream");
    }
    dao_status_t status = runtime_acquire_healthy(device_index, "dao_stream_adopt", &runtime);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_stream_adopt_on(runtime, native, &stream);
    if (status == DAO_OK) {
        *out_stream = stream;
    }
    dao_runtime_release(runtime);
    return status;
}

/* Whether a stream may be destroyed. */
static dao_status_t destroy_check(const dao_stream_t *stream)
{
    dao_status_t status = runtime_check(stream->runtime, "dao_stream_destroy");
    if (status != DAO_OK) {
        return status; /* in a child process the stream's work and its locks are the parent's */
    }
    if (stream->is_builtin) {
        return dao_error(DAO_ERR_INVALID,
                         "dao_stream_destroy: the stream is device:%" PRId32 "'s own, nothing was done",
                         stream->runtime->device_index);
    }
    if (!dao_runtime_is_lost(stream->runtime) && dao_stream_is_captured(stream)) {
        return dao_error(DAO_ERR_BUSY,
                         "dao_stream_destroy: a stream of device:%" PRId32
                         " is being captured into a graph, nothing was done; end the capture first",
                         stream->runtime->device_index);
    }
    return DAO_OK;
}

dao_status_t dao_stream_destroy(dao_stream_t *stream)
{
    dao_status_t status = stream != NULL ? destroy_check(stream) : DAO_OK;
    if (stream == NULL || status != DAO_OK) {
        return status;
    }
    dao_error_record_t record; /* an error of the work has no caller left to report to */
    dao_error_save(&record, dao_last_status());
    (void)dao_runtime_told(stream->runtime, stream->runtime->ops->stream_synchronize(stream->backend));
    (void)dao_error_restore(&record);
    dao_runtime_drain_late(stream->runtime, stream);
    dao_runtime_drain(stream->runtime);
    dao_stream_disown(stream, false);
    return DAO_OK;
}

dao_status_t dao_stream_get(int32_t device_index, dao_stream_role_t role, dao_stream_t **out_stream)
{
    if (out_stream == NULL) {
        return dao_error_null("dao_stream_get", "out_stream");
    }
    if ((int)role < 0 || (int)role >= DAO_STREAM_ROLE_COUNT) {
        return dao_error(DAO_ERR_INVALID, "dao_stream_get: role %d is none; see dao_stream_role_t",
                         (int)role);
    }
    dao_runtime_t *runtime;
    dao_status_t status = dao_runtime_borrow(device_index, &runtime);
    if (status == DAO_OK) {
        *out_stream = &runtime->streams[role];
    }
    return status;
}

int32_t dao_stream_device(const dao_stream_t *stream)
{
    return stream != NULL ? stream->runtime->device_index : -1;
}

void *dao_stream_native(const dao_stream_t *stream)
{
    return stream != NULL ? stream->runtime->ops->stream_native(stream->backend) : NULL;
}

/* ---- work ---- */

dao_status_t dao_stream_synchronize(dao_stream_t *stream)
{
    dao_status_t status = stream_check(stream, "dao_stream_synchronize");
    if (status != DAO_OK) {
        return status;
    }
    status = dao_stream_wait(stream);
    dao_runtime_drain(stream->runtime); /* leaves the message as it is */
    return status;
}

/* Asks an event that is recorded behind the work on a stream. */
static dao_status_t ask(dao_stream_t *stream, dao_backend_event_t *event)
{
    dao_runtime_t *runtime = stream->runtime;
    uint32_t number = atomic_load_explicit(&stream->number, memory_order_acquire);
    uint64_t epoch =
        dao_stream_fences_close(runtime->fences); /* before the event: later frees are not behind it */
    dao_status_t status = dao_runtime_record(runtime, event, stream);
    if (status == DAO_ERR_BUSY) {
        return dao_error(status,
                         "dao_stream_query: a stream of device:%" PRId32 " is being captured into a graph",
                         runtime->device_index);
    }
    status = status == DAO_OK ? dao_runtime_told(runtime, runtime->ops->event_query(event)) : status;
    if (status == DAO_OK && number != 0) {
        dao_stream_fences_finished(runtime->fences, number, epoch);
    }
    return status;
}

dao_status_t dao_stream_query(dao_stream_t *stream)
{
    dao_backend_event_t *event;
    dao_status_t status = stream_check(stream, "dao_stream_query");
    if (status != DAO_OK || (status = dao_runtime_event_take(stream->runtime, &event)) != DAO_OK) {
        return status;
    }
    status = ask(stream, event);
    dao_runtime_event_give(stream->runtime, event);
    return status;
}

/* A copy whose arguments are checked. */
typedef struct copy {
    dao_place_t dst_place, src_place;
    void *dst;
    const void *src;
    size_t size_bytes;
} copy_t;

/* Queues a copy between the stream's device and another one. */
static dao_status_t copy_between_devices(const char *function, dao_stream_t *stream, const copy_t *copy)
{
    dao_runtime_t *runtime = stream->runtime;
    if (runtime->ops->copy_peer == NULL) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "the %s backend has no copy between devices; dao_copy() has one through "
                         "pinned memory",
                         runtime->ops->name);
    }
    int32_t own_device = dao_own_home(runtime->core, runtime->device_index);
    int32_t dst_device = copy->dst_place.index, src_device = copy->src_place.index;
    int32_t other_device = dst_device == own_device ? src_device : dst_device;
    dao_runtime_t *other;
    dao_status_t status = runtime_acquire_healthy(other_device, function, &other);
    if (status != DAO_OK) {
        return status;
    }
    if (other->core != runtime->core) {
        dao_runtime_release(other);
        return dao_error(DAO_ERR_INVALID, "%s: the stream is of a start that was finalized", function);
    }
    if (other->ops != runtime->ops) {
        dao_runtime_release(other);
        return dao_error(
            DAO_ERR_UNSUPPORTED,
            "%s: no stream copies between a device and a program's own memory on none; dao_copy() "
            "does",
            function);
    }
    dao_backend_device_t *dst_handle = dst_device == other_device ? other->device : runtime->device;
    dao_backend_device_t *src_handle = src_device == other_device ? other->device : runtime->device;
    status = dao_runtime_told_of_two(runtime, other,
                                     runtime->ops->copy_peer(stream->backend, dst_handle, copy->dst,
                                                             src_handle, copy->src, copy->size_bytes));
    dao_runtime_release(other);
    return status;
}

/* Returns the place as streams see it: a program's own memory is its device's. */
static dao_place_t home_of(const dao_stream_t *stream, dao_place_t place)
{
    place.index =
        place.kind == DAO_PLACE_KIND_DEVICE ? dao_own_home(stream->runtime->core, place.index) : place.index;
    return place;
}

static bool is_between_devices(dao_place_t dst_place, dao_place_t src_place)
{
    return dst_place.kind == DAO_PLACE_KIND_DEVICE && src_place.kind == DAO_PLACE_KIND_DEVICE &&
           dst_place.index != src_place.index;
}

static dao_copy_kind_t copy_kind(dao_place_t dst_place, dao_place_t src_place)
{
    bool from_device = src_place.kind == DAO_PLACE_KIND_DEVICE;
    return dst_place.kind == DAO_PLACE_KIND_DEVICE ? (from_device ? DAO_COPY_KIND_D2D : DAO_COPY_KIND_H2D)
                                                   : (from_device ? DAO_COPY_KIND_D2H : DAO_COPY_KIND_H2H);
}

static dao_status_t copy_queue(const char *function, dao_stream_t *stream, copy_t copy)
{
    copy.dst_place = home_of(stream, copy.dst_place);
    copy.src_place = home_of(stream, copy.src_place);
    if (is_between_devices(copy.dst_place, copy.src_place)) {
        return copy_between_devices(function, stream, &copy);
    }
    dao_copy_kind_t kind = copy_kind(copy.dst_place, copy.src_place);
    return dao_runtime_told(stream->runtime, stream->runtime->ops->copy(stream->backend, kind, copy.dst,
                                                                        copy.src, copy.size_bytes));
}

/* A copy that touches devices has to touch the stream's. */
static dao_status_t copy_direction_check(const char *function, const dao_stream_t *stream,
                                         dao_place_t dst_place, dao_place_t src_place)
{
    int32_t own = dao_own_home(stream->runtime->core, stream->runtime->device_index);
    bool to_device = dst_place.kind == DAO_PLACE_KIND_DEVICE;
    bool from_device = src_place.kind == DAO_PLACE_KIND_DEVICE;
    bool touches_own = (to_device && home_of(stream, dst_place).index == own) ||
                       (from_device && home_of(stream, src_place).index == own);
    if ((to_device || from_device) && !touches_own) {
        char dst_text[DAO_PLACE_TEXT_BYTES];
        char src_text[DAO_PLACE_TEXT_BYTES];
        return dao_error(
            DAO_ERR_INVALID, "%s: from %s to %s on a stream of device:%" PRId32 "; use a stream of either",
            function, dao_place_format(src_place, src_text), dao_place_format(dst_place, dst_text), own);
    }
    return DAO_OK;
}

/* Checks what copies on a stream have in common. */
static dao_status_t copy_check(const char *function, const dao_stream_t *stream, dao_place_t dst_place,
                               dao_place_t src_place)
{
    dao_status_t status = stream_check(stream, function);
    if (status != DAO_OK) {
        return status;
    }
    const dao_core_t *core = stream->runtime->core;
    if ((status = dao_place_check(core, dst_place)) != DAO_OK ||
        (status = dao_place_check(core, src_place)) != DAO_OK) {
        return status == DAO_ERR_NO_DEVICE ? dao_error(DAO_ERR_INVALID, "%s", dao_last_message()) : status;
    }
    return copy_direction_check(function, stream, dst_place, src_place);
}

/* Returns what a failed copy answers: that it has failed, unless it could never have been made. */
static dao_status_t copy_answer(dao_status_t status, dao_place_t dst_place, dao_place_t src_place,
                                size_t size_bytes)
{
    return status == DAO_OK || status == DAO_ERR_UNSUPPORTED || status == DAO_ERR_INVALID
               ? status
               : dao_copy_error(status, dst_place, src_place, size_bytes);
}

dao_status_t dao_stream_copy(dao_stream_t *stream, dao_place_t dst_place, void *dst, dao_place_t src_place,
                             const void *src, size_t size_bytes)
{
    dao_status_t status = copy_check("dao_stream_copy", stream, dst_place, src_place);
    if (status != DAO_OK) {
        return status;
    }
    if (size_bytes == 0) {
        return DAO_OK;
    }
    if (dst == NULL || src == NULL) {
        return dao_error_null("dao_stream_copy", dst == NULL ? "dst" : "src");
    }
    if ((status = dao_copy_check("dao_stream_copy", dst_place, dst, src_place, src, size_bytes)) != DAO_OK) {
        return status;
    }
    copy_t copy = {dst_place, src_place, dst, src, size_bytes};
    return copy_answer(copy_queue("dao_stream_copy", stream, copy), dst_place, src_place, size_bytes);
}

static dao_status_t batch_check(dao_place_t dst_place, dao_place_t src_place, const dao_copy_batch_t *batch)
{
    if (batch == NULL) {
        return dao_error_null("dao_stream_copy_batch", "batch");
    }
    if (batch->count > 0 && (batch->dsts == NULL || batch->srcs == NULL || batch->sizes_bytes == NULL)) {
        return dao_error_null("dao_stream_copy_batch", "one of the batch's arrays");
    }
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->dsts[i] == NULL || batch->srcs[i] == NULL || batch->sizes_bytes[i] == 0) {
            return dao_error(DAO_ERR_INVALID, "dao_stream_copy_batch: copy %zu is of %zu bytes from %p to %p",
                             i, batch->sizes_bytes[i], batch->srcs[i], batch->dsts[i]);
        }
        dao_status_t status = dao_copy_check("dao_stream_copy_batch", dst_place, batch->dsts[i], src_place,
                                             batch->srcs[i], batch->sizes_bytes[i]);
        if (status != DAO_OK) {
            return status;
        }
    }
    return DAO_OK;
}

/* Queues a batch by one call, or one copy after the other. */
static dao_status_t batch_queue(dao_stream_t *stream, dao_place_t dst_place, dao_place_t src_place,
                                const dao_copy_batch_t *batch)
{
    dao_runtime_t *runtime = stream->runtime;
    dao_copy_kind_t kind = copy_kind(dst_place, src_place);
    dao_status_t status = DAO_ERR_UNSUPPORTED;
    bool is_between = is_between_devices(home_of(stream, dst_place), home_of(stream, src_place));
    if (batch->count > 1 && kind != DAO_COPY_KIND_H2H && !is_between && runtime->ops->copy_batch != NULL) {
        status = dao_runtime_told(runtime,
                                  runtime->ops->copy_batch(stream->backend, kind, batch->dsts, batch->srcs,
                                                           batch->sizes_bytes, batch->count));
    }
    if (status != DAO_ERR_UNSUPPORTED) {
        return status;
    }
    status = DAO_OK;
    for (size_t i = 0; i < batch->count && status == DAO_OK; i++) {
        copy_t copy = {dst_place, src_place, batch->dsts[i], batch->srcs[i], batch->sizes_bytes[i]};
        status = copy_queue("dao_stream_copy_batch", stream, copy);
    }
    return status;
}

dao_status_t dao_stream_copy_batch(dao_stream_t *stream, dao_place_t dst_place, dao_place_t src_place,
                                   const dao_copy_batch_t *batch)
{
    dao_status_t status = copy_check("dao_stream_copy_batch", stream, dst_place, src_place);
    if (status == DAO_OK) {
        status = batch_check(dst_place, src_place, batch);
    }
    if (status != DAO_OK || batch->count == 0) {
        return status;
    }
    size_t total_bytes = 0;
    for (size_t i = 0; i < batch->count; i++) {
        total_bytes += batch->sizes_bytes[i];
    }
    return copy_answer(batch_queue(stream, dst_place, src_place, batch), dst_place, src_place, total_bytes);
}

dao_status_t dao_stream_fill(dao_stream_t *stream, void *dst, uint8_t value, size_t size_bytes)
{
    dao_status_t status = stream_check(stream, "dao_stream_fill");
    if (status != DAO_OK || size_bytes == 0) {
        return status;
    }
    if (dst == NULL) {
        return dao_error_null("dao_stream_fill", "dst");
    }
    if ((status = dao_error_unless_range("dao_stream_fill", dst, size_bytes)) != DAO_OK) {
        return status;
    }
    return dao_runtime_told(stream->runtime,
                            stream->runtime->ops->fill(stream->backend, dst, value, size_bytes));
}

dao_status_t dao_stream_host_func(dao_stream_t *stream, dao_host_func_t function, void *user)
{
    dao_status_t status = stream_check(stream, "dao_stream_host_func");
    if (status != DAO_OK) {
        return status;
    }
    if (function == NULL) {
        return dao_error_null("dao_stream_host_func", "function");
    }
    return dao_runtime_told(stream->runtime,
                            stream->runtime->ops->host_func(stream->backend, function, user));
}

/* ---- events ---- */

dao_status_t dao_event_create(int32_t device_index, dao_event_t **out_event)
{
    if (out_event == NULL) {
        return dao_error_null("dao_event_create", "out_event");
    }
    dao_runtime_t *runtime;
    dao_status_t status = runtime_acquire_healthy(device_index, "dao_event_create", &runtime);
    if (status != DAO_OK) {
        return status;
    }
    dao_event_t *event = dao_host_calloc(1, sizeof(*event));
    if (event == NULL) {
        status =
            dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for an event on device:%" PRId32, device_index);
    } else {
        status =
            dao_runtime_told(runtime, runtime->ops->event_create(runtime->device, true, &event->backend));
    }
    if (status != DAO_OK) {
        dao_host_free(event);
        dao_runtime_release(runtime);
        return status;
    }
    event->runtime = runtime;
    event->live =
        (dao_live_t){.noun = "event", .place = {DAO_PLACE_KIND_DEVICE, device_index}, .address = event};
    dao_live_add(runtime->core, &event->live);
    *out_event = event;
    return DAO_OK;
}

dao_status_t dao_event_destroy(dao_event_t *event)
{
    dao_status_t status = event != NULL ? runtime_check(event->runtime, "dao_event_destroy") : DAO_OK;
    if (event == NULL || status != DAO_OK) {
        return status;
    }
    dao_runtime_t *runtime = event->runtime;
    dao_live_remove(runtime->core, &event->live);
    runtime->ops->event_destroy(event->backend);
    dao_host_free(event);
    dao_runtime_release(runtime);
    return DAO_OK;
}

/* An event and a stream can meet in one start of the library, on devices of its backend, or on one place of a
   program's own memory. */
static dao_status_t meeting_check(const dao_runtime_t *of_event, const dao_runtime_t *of_stream,
                                  const char *function)
{
    if (of_event->core != of_stream->core) {
        return dao_error(
            DAO_ERR_INVALID,
            "%s: the event and the stream are of different starts of the library; dao_finalize() has "
            "ended one",
            function);
    }
    if (of_event->ops != of_stream->ops ||
        (of_event->ops == &dao_own_ops && of_event->device != of_stream->device)) {
        return dao_error(DAO_ERR_INVALID,
                         "%s: the event is of device:%" PRId32 ", the stream of device:%" PRId32
                         "; a program's own memory on no device has events for its own streams only",
                         function, of_event->device_index, of_stream->device_index);
    }
    return DAO_OK;
}

dao_status_t dao_event_record(dao_event_t *event, dao_stream_t *stream)
{
    dao_status_t status;
    if ((status = event_check(event, "dao_event_record")) != DAO_OK ||
        (status = stream_check(stream, "dao_event_record")) != DAO_OK ||
        (status = meeting_check(event->runtime, stream->runtime, "dao_event_record")) != DAO_OK) {
        return status;
    }
    if (event->runtime != stream->runtime) {
        return dao_error(DAO_ERR_INVALID,
                         "dao_event_record: the event is of device:%" PRId32
                         ", the stream of device:%" PRId32,
                         event->runtime->device_index, stream->runtime->device_index);
    }
    return dao_runtime_told(event->runtime,
                            event->runtime->ops->event_record(event->backend, stream->backend));
}

dao_status_t dao_stream_wait_event(dao_stream_t *stream, dao_event_t *event)
{
    dao_status_t status;
    if ((status = stream_check(stream, "dao_stream_wait_event")) != DAO_OK ||
        (status = event_check(event, "dao_stream_wait_event")) != DAO_OK ||
        (status = meeting_check(event->runtime, stream->runtime, "dao_stream_wait_event")) != DAO_OK) {
        return status;
    }
    return dao_runtime_told(stream->runtime,
                            stream->runtime->ops->stream_wait_event(stream->backend, event->backend));
}

dao_status_t dao_event_query(dao_event_t *event)
{
    dao_status_t status = event_check(event, "dao_event_query");
    return status == DAO_OK
               ? dao_runtime_told(event->runtime, event->runtime->ops->event_query(event->backend))
               : status;
}

dao_status_t dao_event_synchronize(dao_event_t *event)
{
    dao_status_t status = event_check(event, "dao_event_synchronize");
    return status == DAO_OK
               ? dao_runtime_told(event->runtime, event->runtime->ops->event_synchronize(event->backend))
               : status;
}

dao_status_t dao_event_elapsed(dao_event_t *begin, dao_event_t *end, int64_t *out_elapsed_ns)
{
    dao_status_t status;
    if ((status = event_check(begin, "dao_event_elapsed")) != DAO_OK ||
        (status = event_check(end, "dao_event_elapsed")) != DAO_OK) {
        return status;
    }
    if (out_elapsed_ns == NULL) {
        return dao_error_null("dao_event_elapsed", "out_elapsed_ns");
    }
    if (begin->runtime != end->runtime) {
        return dao_error(DAO_ERR_INVALID,
                         "dao_event_elapsed: events of device:%" PRId32 " and device:%" PRId32,
                         begin->runtime->device_index, end->runtime->device_index);
    }
    return dao_runtime_told(begin->runtime,
                            begin->runtime->ops->event_elapsed(begin->backend, end->backend, out_elapsed_ns));
}
