/* SPDX-License-Identifier: Apache-2.0 */
/* The clock: a discrete-event simulation. Each stream's first command either runs and ends at a known time,
   or waits for a mark or a wire.

       begin_all    begins all commands that can begin; those without duration end at once
       end_next     moves the time to the earliest end, and ends all commands that end then

   The two alternate until the caller's condition holds. Streams are visited in the order of their creation,
   so equal calls give equal times. The lock is dropped only for host functions and the span callback, with
   is_moving set: other threads may queue commands meanwhile, but neither move the time nor destroy a stream.

   Invariants: end_ns >= now_ns of every running stream; the stream that uses a wire runs a copy over it. */
#include "backends/sim/sim_internal.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <string.h>

static _Thread_local bool is_in_function;

dao_status_t dao_sim_check_thread(void)
{
    return is_in_function
               ? dao_error(DAO_ERR_REENTRANT, "a host function on a stream must not call the device")
               : DAO_OK;
}

void dao_sim_mark_unreference_locked(sim_mark_t *mark)
{
    if (--mark->reference_count == 0) {
        dao_host_free(mark);
    }
}

/* Returns how long a copy occupies its link, in ns, rounded up. */
static uint64_t copy_ns(const dao_backend_t *backend, const sim_command_t *command)
{
    uint64_t rate = command->link->bytes_per_second;
    uint64_t moving_ns = rate == 0 ? 0 : dao_transfer_ns(command->size_bytes, rate);
    return dao_add_capped(moving_ns, backend->config.cpu.copy_latency_ns);
}

static const sim_command_t *first_command(const dao_backend_stream_t *stream)
{
    return stream->queue.count > 0 ? dao_ring_at(&stream->queue, 0) : NULL;
}

/* Removes the first command, which has ended. */
static void pop_locked(dao_backend_stream_t *stream)
{
    dao_ring_pop(&stream->queue);
    stream->done_count++;
    stream->is_running = false;
    stream->wire_rank = 0;
}

static void run_until_locked(dao_backend_stream_t *stream, uint64_t duration_ns)
{
    stream->is_running = true;
    stream->begin_ns = stream->device->backend->now_ns;
    stream->end_ns = dao_add_capped(stream->device->backend->now_ns, duration_ns);
}

/* Returns true if a wire is free and no other stream has waited longer for it. */
static bool has_turn_locked(const dao_backend_stream_t *stream, const sim_wire_t *wire)
{
    const dao_backend_stream_t *other = stream->device->backend->streams;
    for (; other != NULL; other = other->next) {
        if (other->wire_rank != 0 && !other->is_running && other->wire_rank < stream->wire_rank &&
            first_command(other)->link->wire == wire) {
            return false;
        }
    }
    return wire->user == NULL;
}

/* Begins a copy if it is its turn on the wire. Returns true if it has begun. */
static bool begin_copy_locked(dao_backend_stream_t *stream, const sim_command_t *command)
{
    dao_backend_t *backend = stream->device->backend;
    if (command->link == NULL) {
        run_until_locked(stream, 0);
        return true;
    }
    if (stream->wire_rank == 0) {
        stream->wire_rank = ++backend->wire_ranks;
    }
    if (!has_turn_locked(stream, command->link->wire)) {
        return false;
    }
    command->link->wire->user = stream;
    run_until_locked(stream, copy_ns(backend, command));
    return true;
}

static void call_function_locked(dao_backend_stream_t *stream, const sim_command_t *command)
{
    dao_backend_t *backend = stream->device->backend;
    dao_host_func_t function = command->function;
    void *user = command->user;
    dao_mutex_unlock(&backend->lock);
    is_in_function = true;
    function(user);
    is_in_function = false;
    dao_mutex_lock(&backend->lock);
}

static void call_span_callback_locked(dao_backend_t *backend, const dao_sim_span_t *span)
{
    dao_sim_span_callback_t callback = backend->span_callback;
    void *user = backend->span_user;
    dao_mutex_unlock(&backend->lock);
    is_in_function = true;
    callback(span, user);
    is_in_function = false;
    dao_mutex_lock(&backend->lock);
}

/* Begins the first command of a stream. Returns true if anything has changed. */
static bool begin_locked(dao_backend_stream_t *stream)
{
    const sim_command_t *command = first_command(stream);
    if (command == NULL || stream->is_running) {
        return false;
    }
    switch (command->kind) {
    case SIM_COMMAND_COPY:
        return begin_copy_locked(stream, command);
    case SIM_COMMAND_FILL:
        run_until_locked(stream, 0);
        return true;
    case SIM_COMMAND_WORK:
    case SIM_COMMAND_DELAY:
        run_until_locked(stream, command->duration_ns);
        return true;
    case SIM_COMMAND_FUNCTION:
        call_function_locked(stream, command);
        break;
    case SIM_COMMAND_RECORD:
        command->mark->is_done = true;
        command->mark->time_ns = stream->device->backend->now_ns;
        dao_sim_mark_unreference_locked(command->mark);
        break;
    case SIM_COMMAND_WAIT:
        if (!command->mark->is_done) {
            return false;
        }
        dao_sim_mark_unreference_locked(command->mark);
        break;
    }
    pop_locked(stream);
    return true;
}

static void begin_all_locked(dao_backend_t *backend)
{
    bool has_changed = true;
    while (has_changed) {
        has_changed = false;
        for (dao_backend_stream_t *stream = backend->streams; stream != NULL; stream = stream->next) {
            while (begin_locked(stream)) {
                has_changed = true;
            }
        }
    }
}

/* Ends the first command of a stream: its bytes arrive and its wire becomes free. */
static void end_locked(dao_backend_stream_t *stream)
{
    const sim_command_t *command = first_command(stream);
    if (command->kind == SIM_COMMAND_COPY && command->link != NULL) {
        DAO_ASSERT(command->link->wire->user == stream);
        command->link->wire->user = NULL;
    }
    if (stream->device->backend->has_bytes && command->kind == SIM_COMMAND_COPY) {
        memcpy(command->dst, command->src, command->size_bytes);
    } else if (stream->device->backend->has_bytes && command->kind == SIM_COMMAND_FILL) {
        memset(command->dst, command->value, command->size_bytes);
    }
    pop_locked(stream);
}

/* Describes the running first command as a span. Returns false for a command that takes no time. */
static bool describe_span(dao_backend_stream_t *stream, dao_sim_span_t *out_span)
{
    const sim_command_t *command = first_command(stream);
    bool is_work = command->kind == SIM_COMMAND_WORK, is_delay = command->kind == SIM_COMMAND_DELAY;
    *out_span = (dao_sim_span_t){
        .kind = is_work                                 ? DAO_SIM_SPAN_WORK
                : is_delay                              ? DAO_SIM_SPAN_DELAY
                : command->link == &stream->device->h2d ? DAO_SIM_SPAN_IN
                                                        : DAO_SIM_SPAN_OUT,
        .begin_ns = stream->begin_ns,
        .end_ns = stream->end_ns,
        .size_bytes = command->size_bytes,
        .stream = stream,
    };
    return is_work || is_delay || command->link != NULL;
}

static void end_and_report_locked(dao_backend_stream_t *stream)
{
    dao_backend_t *backend = stream->device->backend;
    dao_sim_span_t span;
    bool is_span = describe_span(stream, &span);
    end_locked(stream);
    if (is_span && backend->span_callback != NULL) {
        call_span_callback_locked(backend, &span);
    }
}

/* Returns false if nothing runs. */
static bool end_next_locked(dao_backend_t *backend)
{
    uint64_t next_ns = UINT64_MAX;
    bool is_any = false;
    for (const dao_backend_stream_t *stream = backend->streams; stream != NULL; stream = stream->next) {
        if (stream->is_running) {
            is_any = true;
            next_ns = stream->end_ns < next_ns ? stream->end_ns : next_ns;
        }
    }
    if (!is_any) {
        return false;
    }
    DAO_ASSERT(next_ns >= backend->now_ns);
    backend->now_ns = next_ns;
    for (dao_backend_stream_t *stream = backend->streams; stream != NULL; stream = stream->next) {
        if (stream->is_running && stream->end_ns == next_ns) {
            end_and_report_locked(stream);
        }
    }
    return true;
}

void dao_sim_lock_still(dao_backend_t *backend)
{
    dao_mutex_lock(&backend->lock);
    while (backend->is_moving) {
        dao_cond_wait(&backend->idle, &backend->lock);
    }
}

static void stand_still_locked(dao_backend_t *backend)
{
    backend->is_moving = false;
    dao_cond_broadcast(&backend->idle);
}

dao_status_t dao_sim_run(dao_backend_t *backend, sim_reached_t is_reached, const void *target)
{
    bool has_next = true;
    dao_sim_lock_still(backend);
    backend->is_moving = true;
    while (has_next && !is_reached(target)) {
        begin_all_locked(backend);
        has_next = is_reached(target) || end_next_locked(backend);
    }
    stand_still_locked(backend);
    dao_mutex_unlock(&backend->lock);
    return has_next
               ? DAO_OK
               : dao_error(DAO_ERR_BACKEND, "virtual time stands still: nothing that runs can end this wait");
}

uint64_t dao_sim_now_ns(dao_backend_device_t *device)
{
    dao_mutex_lock(&device->backend->lock);
    uint64_t now_ns = device->backend->now_ns;
    dao_mutex_unlock(&device->backend->lock);
    return now_ns;
}

void dao_sim_span_callback_set(dao_backend_device_t *device, dao_sim_span_callback_t callback, void *user)
{
    dao_mutex_lock(&device->backend->lock);
    device->backend->span_callback = callback;
    device->backend->span_user = user;
    dao_mutex_unlock(&device->backend->lock);
}

/* Returns true if no running command ends by `until_ns`. */
static bool is_quiet_before_locked(const dao_backend_t *backend, uint64_t until_ns)
{
    for (const dao_backend_stream_t *stream = backend->streams; stream != NULL; stream = stream->next) {
        if (stream->is_running && stream->end_ns <= until_ns) {
            return false;
        }
    }
    return true;
}

dao_status_t dao_sim_pass(dao_backend_device_t *device, uint64_t until_ns)
{
    dao_backend_t *backend = device->backend;
    dao_status_t status = dao_sim_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_sim_lock_still(backend);
    backend->is_moving = true;
    begin_all_locked(backend);
    while (!is_quiet_before_locked(backend, until_ns)) {
        (void)end_next_locked(backend); /* something ends */
        begin_all_locked(backend);
    }
    backend->now_ns = until_ns > backend->now_ns ? until_ns : backend->now_ns;
    stand_still_locked(backend);
    dao_mutex_unlock(&backend->lock);
    return DAO_OK;
}
