/* SPDX-License-Identifier: Apache-2.0 */
/* Streams are queues of commands, which sim_clock.c runs. An event points to the mark of its latest record;
   every record makes a new mark, so a wait stays bound to the record that was the latest when it was
   queued. */
#include "backends/sim/sim_internal.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>

/* ---- queueing ---- */

static dao_status_t queue_locked(dao_backend_stream_t *stream, const sim_command_t *command)
{
    if (!dao_ring_push(&stream->queue, command)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to queue a command on virtual device %" PRId32,
                         stream->device->index);
    }
    stream->queued_count++;
    return DAO_OK;
}

static dao_status_t queue_command(dao_backend_stream_t *stream, const sim_command_t *command)
{
    dao_status_t status = dao_sim_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&stream->device->backend->lock);
    status = queue_locked(stream, command);
    dao_mutex_unlock(&stream->device->backend->lock);
    return status;
}

dao_status_t dao_sim_copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                          size_t size_bytes)
{
    sim_command_t command = {.kind = SIM_COMMAND_COPY, .dst = dst, .src = src, .size_bytes = size_bytes};
    if (kind == DAO_COPY_KIND_H2D) {
        command.link = &stream->device->h2d;
    } else if (kind == DAO_COPY_KIND_D2H) {
        command.link = &stream->device->d2h;
    }
    return queue_command(stream, &command);
}

dao_status_t dao_sim_fill(dao_backend_stream_t *stream, void *dst, uint8_t value, size_t size_bytes)
{
    sim_command_t command = {.kind = SIM_COMMAND_FILL, .dst = dst, .size_bytes = size_bytes, .value = value};
    return queue_command(stream, &command);
}

dao_status_t dao_sim_host_func(dao_backend_stream_t *stream, dao_host_func_t function, void *user)
{
    sim_command_t command = {.kind = SIM_COMMAND_FUNCTION, .function = function, .user = user};
    return queue_command(stream, &command);
}

dao_status_t dao_sim_stream_work(dao_backend_stream_t *stream, uint64_t duration_ns)
{
    sim_command_t command = {.kind = SIM_COMMAND_WORK, .duration_ns = duration_ns};
    return queue_command(stream, &command);
}

dao_status_t dao_sim_stream_delay(dao_backend_stream_t *stream, uint64_t duration_ns)
{
    sim_command_t command = {.kind = SIM_COMMAND_DELAY, .duration_ns = duration_ns};
    return queue_command(stream, &command);
}

/* ---- streams ---- */

dao_status_t dao_sim_stream_create(dao_backend_device_t *device, dao_backend_stream_t **out_stream)
{
    dao_status_t status = dao_sim_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_backend_stream_t *stream = dao_host_calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a stream of virtual device %" PRId32,
                         device->index);
    }
    stream->device = device;
    dao_ring_init(&stream->queue, sizeof(sim_command_t));
    dao_mutex_lock(&device->backend->lock);
    dao_backend_stream_t **link = &device->backend->streams;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = stream;
    dao_mutex_unlock(&device->backend->lock);
    *out_stream = stream;
    return DAO_OK;
}

/* A wait for a stream ends when all commands that were queued before it have ended. */
typedef struct stream_target {
    const dao_backend_stream_t *stream;
    uint64_t queued_count;
} stream_target_t;

static bool stream_is_reached(const void *user)
{
    const stream_target_t *target = user;
    return target->stream->done_count >= target->queued_count;
}

static dao_status_t synchronize(dao_backend_stream_t *stream)
{
    dao_mutex_lock(&stream->device->backend->lock);
    stream_target_t target = {stream, stream->queued_count};
    dao_mutex_unlock(&stream->device->backend->lock);
    return dao_sim_run(stream->device->backend, stream_is_reached, &target);
}

dao_status_t dao_sim_stream_synchronize(dao_backend_stream_t *stream)
{
    dao_status_t status = dao_sim_check_thread();
    return status == DAO_OK ? synchronize(stream) : status;
}

/* Commands that can never run are dropped. */
static void drop_commands_locked(dao_backend_stream_t *stream)
{
    for (size_t i = 0; i < stream->queue.count; i++) {
        const sim_command_t *command = dao_ring_at(&stream->queue, i);
        if (command->kind == SIM_COMMAND_RECORD) {
            command->mark->is_done = true;
        }
        if (command->mark != NULL) {
            dao_sim_mark_unreference_locked(command->mark);
        }
    }
}

void dao_sim_stream_destroy(dao_backend_stream_t *stream)
{
    dao_backend_t *backend = stream->device->backend;
    (void)synchronize(stream);   /* if nothing can end the wait, the rest is dropped */
    dao_sim_lock_still(backend); /* the thread that moves the time may be reading it */
    drop_commands_locked(stream);
    dao_backend_stream_t **link = &backend->streams;
    while (*link != stream) {
        link = &(*link)->next;
    }
    *link = stream->next;
    dao_mutex_unlock(&backend->lock);
    dao_ring_finish(&stream->queue);
    dao_host_free(stream);
}

void *dao_sim_stream_native(dao_backend_stream_t *stream)
{
    return stream;
}

static bool device_is_reached(const void *user)
{
    const dao_backend_device_t *device = user;
    const dao_backend_stream_t *stream = device->backend->streams;
    while (stream != NULL && (stream->device != device || stream->queue.count == 0)) {
        stream = stream->next;
    }
    return stream == NULL;
}

dao_status_t dao_sim_device_synchronize(dao_backend_device_t *device)
{
    dao_status_t status = dao_sim_check_thread();
    return status == DAO_OK ? dao_sim_run(device->backend, device_is_reached, device) : status;
}

/* ---- events ---- */

static sim_mark_t *create_mark(bool is_done)
{
    sim_mark_t *mark = dao_host_calloc(1, sizeof(*mark));
    if (mark != NULL) {
        *mark = (sim_mark_t){.reference_count = 1, .is_done = is_done};
    }
    return mark;
}

dao_status_t dao_sim_event_create(dao_backend_device_t *device, bool has_time,
                                  dao_backend_event_t **out_event)
{
    dao_status_t status = dao_sim_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_backend_event_t *event = dao_host_calloc(1, sizeof(*event));
    sim_mark_t *mark = event != NULL ? create_mark(true) : NULL;
    if (mark == NULL) {
        dao_host_free(event);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for an event of virtual device %" PRId32,
                         device->index);
    }
    *event = (dao_backend_event_t){.backend = device->backend, .mark = mark, .has_time = has_time};
    *out_event = event;
    return DAO_OK;
}

void dao_sim_event_destroy(dao_backend_event_t *event)
{
    dao_mutex_lock(&event->backend->lock);
    dao_sim_mark_unreference_locked(event->mark);
    dao_mutex_unlock(&event->backend->lock);
    dao_host_free(event);
}

/* Queues a command with a reference to a mark. */
static dao_status_t queue_mark_locked(dao_backend_stream_t *stream, sim_command_kind_t kind, sim_mark_t *mark)
{
    sim_command_t command = {.kind = kind, .mark = mark};
    dao_status_t status = queue_locked(stream, &command);
    mark->reference_count += status == DAO_OK ? 1 : 0;
    return status;
}

/* Records with a new mark, or with the old one if only the event refers to it. */
static dao_status_t record_locked(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    bool is_alone = event->mark->reference_count == 1;
    sim_mark_t *mark = is_alone ? event->mark : create_mark(false);
    if (mark == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to record an event on virtual device %" PRId32,
                         stream->device->index);
    }
    dao_status_t status = queue_mark_locked(stream, SIM_COMMAND_RECORD, mark);
    if (status == DAO_OK) {
        mark->is_done = false;
        event->is_recorded = true;
    }
    sim_mark_t *unused = is_alone ? NULL : status == DAO_OK ? event->mark : mark;
    if (status == DAO_OK) {
        event->mark = mark;
    }
    if (unused != NULL) {
        dao_sim_mark_unreference_locked(unused);
    }
    return status;
}

dao_status_t dao_sim_event_record(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    dao_status_t status = dao_sim_check_thread();
    if (status == DAO_OK) {
        dao_mutex_lock(&event->backend->lock);
        status = record_locked(event, stream);
        dao_mutex_unlock(&event->backend->lock);
    }
    return status;
}

dao_status_t dao_sim_stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event)
{
    dao_status_t status = dao_sim_check_thread();
    if (status == DAO_OK) {
        dao_mutex_lock(&event->backend->lock);
        status = event->mark->is_done ? DAO_OK : queue_mark_locked(stream, SIM_COMMAND_WAIT, event->mark);
        dao_mutex_unlock(&event->backend->lock);
    }
    return status;
}

dao_status_t dao_sim_event_query(dao_backend_event_t *event)
{
    dao_status_t status = dao_sim_check_thread();
    if (status == DAO_OK) {
        dao_mutex_lock(&event->backend->lock);
        status = event->mark->is_done ? DAO_OK : DAO_ERR_NOT_READY;
        dao_mutex_unlock(&event->backend->lock);
    }
    return status;
}

static bool mark_is_reached(const void *user)
{
    const sim_mark_t *mark = user;
    return mark->is_done;
}

dao_status_t dao_sim_event_synchronize(dao_backend_event_t *event)
{
    dao_status_t status = dao_sim_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&event->backend->lock);
    sim_mark_t *mark = event->mark;
    mark->reference_count++;
    dao_mutex_unlock(&event->backend->lock);
    status = dao_sim_run(event->backend, mark_is_reached, mark);
    dao_mutex_lock(&event->backend->lock);
    dao_sim_mark_unreference_locked(mark);
    dao_mutex_unlock(&event->backend->lock);
    return status;
}

dao_status_t dao_sim_event_elapsed(dao_backend_event_t *begin, dao_backend_event_t *end,
                                   int64_t *out_elapsed_ns)
{
    dao_status_t status = dao_sim_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    if (!begin->has_time || !end->has_time) {
        return dao_error(DAO_ERR_INVALID, "an event was created without a time");
    }
    dao_mutex_lock(&begin->backend->lock);
    bool is_known = begin->is_recorded && begin->mark->is_done && end->is_recorded && end->mark->is_done;
    uint64_t elapsed_ns = end->mark->time_ns - begin->mark->time_ns;
    dao_mutex_unlock(&begin->backend->lock);
    if (!is_known) {
        return dao_error(DAO_ERR_NOT_READY,
                         "the time between two events is known when both were recorded and have finished");
    }
    *out_elapsed_ns = (int64_t)elapsed_ns;
    return DAO_OK;
}

/* ---- gates ---- */

dao_status_t dao_sim_gate_create(dao_backend_stream_t *stream, dao_sim_gate_t **out_gate)
{
    dao_sim_gate_t *gate = dao_host_calloc(1, sizeof(*gate));
    sim_mark_t *mark = gate != NULL ? create_mark(false) : NULL;
    if (mark == NULL) {
        dao_host_free(gate);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a gate");
    }
    *gate = (dao_sim_gate_t){.backend = stream->device->backend, .mark = mark};
    dao_mutex_lock(&gate->backend->lock);
    dao_status_t status = queue_mark_locked(stream, SIM_COMMAND_WAIT, mark);
    dao_mutex_unlock(&gate->backend->lock);
    if (status != DAO_OK) {
        dao_sim_gate_destroy(gate);
        return status;
    }
    *out_gate = gate;
    return DAO_OK;
}

void dao_sim_gate_open(dao_sim_gate_t *gate)
{
    dao_mutex_lock(&gate->backend->lock);
    gate->mark->is_done = true;
    dao_mutex_unlock(&gate->backend->lock);
}

void dao_sim_gate_destroy(dao_sim_gate_t *gate)
{
    dao_mutex_lock(&gate->backend->lock);
    dao_sim_mark_unreference_locked(gate->mark);
    dao_mutex_unlock(&gate->backend->lock);
    dao_host_free(gate);
}
