/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of a program's own memory that is on no device of the library's.

       stream    native handle   its work                            an event recorded on it
       the library's   none      is done as it is queued             has passed
       adopted         program's is the program's, between events    is the program's

   Copies and fills are done on return. On an adopted stream they wait for its work first, which keeps the
   order in the simplest way. */
#include "runtime/own/own_internal.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

#include <string.h>

/* Bytes that a fill writes at a time where the host cannot touch the memory. */
#define FILL_BYTES ((size_t)64 << 10)

struct dao_backend_stream {
    dao_backend_device_t *device;
    bool is_adopted;
    void *native;
    /* of adopted ones; guarded by the device's lock */
    dao_backend_stream_t *next;
    uint32_t walker_count; /* threads that wait for it in dao_own_synchronize() */
    bool is_ending;        /* nobody begins to */
};

struct dao_backend_event {
    dao_backend_device_t *device;
    void *own;              /* the program's; NULL where it has no events */
    _Atomic bool is_of_own; /* its latest record is on a stream of the program's */
};

static bool has_events(const dao_backend_device_t *device)
{
    return device->table.event_create != NULL;
}

/* ---- events ---- */

dao_status_t dao_own_event_create(dao_backend_device_t *device, bool has_time,
                                  dao_backend_event_t **out_event)
{
    (void)has_time; /* dao_own_event_elapsed() says that there is none */
    dao_backend_event_t *event = dao_host_calloc(1, sizeof(*event));
    if (event == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for an event of \"%s\"", device->name);
    }
    event->device = device;
    atomic_init(&event->is_of_own, false);
    dao_status_t status = DAO_OK;
    if (has_events(device)) {
        OWN_CALL(status, device, event_create, &event->own);
    }
    if (status != DAO_OK) {
        dao_host_free(event);
        return status;
    }
    *out_event = event;
    return DAO_OK;
}

void dao_own_event_destroy(dao_backend_event_t *event)
{
    if (has_events(event->device)) {
        bool was_inside = own_enter();
        event->device->table.event_destroy(event->device->table.user, event->own);
        own_exit(was_inside);
    }
    dao_host_free(event);
}

dao_status_t dao_own_event_record(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    dao_status_t status = DAO_OK;
    if (stream->is_adopted) {
        OWN_CALL(status, event->device, event_record, event->own, stream->native);
    }
    if (status == DAO_OK) {
        atomic_store(&event->is_of_own, stream->is_adopted);
    }
    return status;
}

dao_status_t dao_own_event_query(dao_backend_event_t *event)
{
    dao_status_t status = DAO_OK;
    if (atomic_load(&event->is_of_own)) {
        OWN_CALL(status, event->device, event_query, event->own);
    }
    return status;
}

dao_status_t dao_own_event_synchronize(dao_backend_event_t *event)
{
    dao_status_t status = DAO_OK;
    if (atomic_load(&event->is_of_own)) {
        OWN_CALL(status, event->device, event_synchronize, event->own);
    }
    return status;
}

dao_status_t dao_own_event_elapsed(dao_backend_event_t *begin, dao_backend_event_t *end,
                                   int64_t *out_elapsed_ns)
{
    (void)end;
    (void)out_elapsed_ns;
    return dao_error(DAO_ERR_UNSUPPORTED, "events of the memory \"%s\" have no time", begin->device->name);
}

/* ---- streams ---- */

dao_status_t dao_own_stream_create(dao_backend_device_t *device, dao_backend_stream_t **out_stream)
{
    dao_backend_stream_t *stream = dao_host_calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a stream of \"%s\"", device->name);
    }
    stream->device = device;
    *out_stream = stream;
    return DAO_OK;
}

dao_status_t dao_own_stream_adopt(dao_backend_device_t *device, void *native,
                                  dao_backend_stream_t **out_stream)
{
    if (!has_events(device)) {
        return dao_error(DAO_ERR_UNSUPPORTED, "the memory \"%s\" has no events: it can follow no stream",
                         device->name);
    }
    dao_backend_stream_t *stream = NULL;
    dao_status_t status = dao_own_stream_create(device, &stream);
    if (status != DAO_OK) {
        return status;
    }
    stream->is_adopted = true;
    stream->native = native;
    dao_mutex_lock(&device->lock);
    stream->next = device->adopted;
    device->adopted = stream;
    dao_mutex_unlock(&device->lock);
    *out_stream = stream;
    return DAO_OK;
}

/* Waits for the work of a handle, by an event of its own. */
static dao_status_t wait_for(dao_backend_device_t *device, void *native)
{
    void *event = NULL;
    dao_status_t status;
    OWN_CALL(status, device, event_create, &event);
    if (status != DAO_OK) {
        return status;
    }
    OWN_CALL(status, device, event_record, event, native);
    if (status == DAO_OK) {
        OWN_CALL(status, device, event_synchronize, event);
    }
    bool was_inside = own_enter();
    device->table.event_destroy(device->table.user, event);
    own_exit(was_inside);
    return status;
}

dao_status_t dao_own_stream_synchronize(dao_backend_stream_t *stream)
{
    return stream->is_adopted ? wait_for(stream->device, stream->native) : DAO_OK;
}

/* The program's handle may be gone on return, so it waits for threads that use it. */
void dao_own_stream_destroy(dao_backend_stream_t *stream)
{
    dao_backend_device_t *device = stream->device;
    if (stream->is_adopted) {
        dao_mutex_lock(&device->lock);
        stream->is_ending = true;
        while (stream->walker_count > 0) {
            dao_cond_wait(&device->walked, &device->lock);
        }
        dao_backend_stream_t **link = &device->adopted;
        while (*link != stream) {
            link = &(*link)->next;
        }
        *link = stream->next;
        dao_mutex_unlock(&device->lock);
    }
    dao_host_free(stream);
}

dao_status_t dao_own_stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event)
{
    dao_status_t status = DAO_OK;
    if (stream->is_adopted && atomic_load(&event->is_of_own)) {
        OWN_CALL(status, stream->device, stream_wait_event, stream->native, event->own);
    } else if (!stream->is_adopted) {
        status = dao_own_event_synchronize(event); /* its later work is done as it is queued */
    }
    return status;
}

void *dao_own_stream_native(dao_backend_stream_t *stream)
{
    return stream->native;
}

/* Goes from one adopted stream to the next, or to the first from NULL. The one that it is at stays in the
   list. NULL at the end. */
static dao_backend_stream_t *walk_on(dao_backend_device_t *device, dao_backend_stream_t *stream)
{
    dao_mutex_lock(&device->lock);
    dao_backend_stream_t *next = stream != NULL ? stream->next : device->adopted;
    while (next != NULL && next->is_ending) {
        next = next->next; /* whoever destroys it has waited for its work */
    }
    if (next != NULL) {
        next->walker_count++;
    }
    if (stream != NULL && --stream->walker_count == 0) {
        dao_cond_broadcast(&device->walked);
    }
    dao_mutex_unlock(&device->lock);
    return next;
}

dao_status_t dao_own_synchronize(dao_backend_device_t *device)
{
    dao_status_t status = DAO_OK;
    dao_backend_stream_t *stream = walk_on(device, NULL);
    while (stream != NULL) {
        status = status == DAO_OK ? wait_for(device, stream->native) : status;
        stream = walk_on(device, stream);
    }
    return status;
}

/* ---- work ---- */

static dao_own_copy_t way_of(dao_copy_kind_t kind)
{
    return kind == DAO_COPY_KIND_H2D   ? DAO_OWN_COPY_IN
           : kind == DAO_COPY_KIND_D2H ? DAO_OWN_COPY_OUT
                                       : DAO_OWN_COPY_WITHIN;
}

static dao_status_t copy_now(dao_backend_device_t *device, dao_copy_kind_t kind, void *dst, const void *src,
                             size_t size_bytes)
{
    dao_status_t status = DAO_OK;
    if (device->table.copy == NULL || kind == DAO_COPY_KIND_H2H) {
        memcpy(dst, src, size_bytes);
    } else {
        OWN_CALL(status, device, copy, way_of(kind), dst, src, size_bytes);
    }
    return status;
}

dao_status_t dao_own_copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                          size_t size_bytes)
{
    dao_status_t status = dao_own_stream_synchronize(stream);
    return status == DAO_OK ? copy_now(stream->device, kind, dst, src, size_bytes) : status;
}

dao_status_t dao_own_fill(dao_backend_stream_t *stream, void *dst, uint8_t value, size_t size_bytes)
{
    dao_status_t status = dao_own_stream_synchronize(stream);
    if (status != DAO_OK) {
        return status;
    }
    if (stream->device->table.copy == NULL) {
        memset(dst, value, size_bytes);
        return DAO_OK;
    }
    size_t piece_bytes = size_bytes < FILL_BYTES ? size_bytes : FILL_BYTES;
    char *piece = dao_host_calloc(1, piece_bytes);
    if (piece == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a fill of \"%s\"", stream->device->name);
    }
    memset(piece, value, piece_bytes);
    for (size_t done = 0; status == DAO_OK && done < size_bytes; done += piece_bytes) {
        size_t left = size_bytes - done;
        status = copy_now(stream->device, DAO_COPY_KIND_H2D, (char *)dst + done, piece,
                          left < piece_bytes ? left : piece_bytes);
    }
    dao_host_free(piece);
    return status;
}

dao_status_t dao_own_host_func(dao_backend_stream_t *stream, dao_host_func_t function, void *user)
{
    dao_status_t status = dao_own_stream_synchronize(stream);
    if (status == DAO_OK) {
        bool was_inside = own_enter();
        function(user);
        own_exit(was_inside);
    }
    return status;
}
