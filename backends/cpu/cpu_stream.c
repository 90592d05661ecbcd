/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of a virtual device: one thread each, from the first command on, which runs commands in the order
   in which they were queued.

       stream: ring of commands [ first ... first + count )  --worker-->  copy, fill, function, record, wait

   An event points to the mark of its latest record. Every record makes a new mark, so a wait stays bound to
   the record that was the latest when it was queued. Marks are reference-counted: the event, the command and
   each waiter have a reference. A mark that only its event refers to is reused, so recording rarely
   allocates.

   Invariant: done_count <= queued_count. Locks, never two at a time: a stream's (its ring and counters),
   marks_lock (the state of all marks), a wire's. */
#include "backends/cpu/cpu_internal.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "base/ring.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* With which copies take turns on the link that all devices share. */
#define HOST_PIECE_BYTES ((size_t)1 << 20)

typedef struct mark {
    _Atomic uint32_t reference_count;
    bool is_done;     /* guarded by marks_lock */
    uint64_t time_ns; /* guarded: when the record was reached */
} mark_t;

typedef enum command_kind {
    COMMAND_COPY,
    COMMAND_FILL,
    COMMAND_FUNCTION,
    COMMAND_RECORD,
    COMMAND_WAIT
} command_kind_t;

typedef struct command {
    command_kind_t kind;
    union {
        struct {
            void *dst;
            const void *src;
            size_t size_bytes;
            cpu_link_t *first_link; /* NULL: not limited */
            cpu_link_t *second_link;
            cpu_link_t *host_link; /* NULL: the host's memory has no part in it */
        } copy;
        struct {
            void *dst;
            size_t size_bytes;
            uint8_t value;
        } fill;
        struct {
            dao_host_func_t function;
            void *user;
        } function;
        mark_t *mark; /* of RECORD and WAIT: a counted reference */
    };
} command_t;

struct dao_backend_stream {
    dao_backend_device_t *device;
    dao_backend_stream_t *next; /* guarded by the device's stream_lock */
    uint32_t owner_count;       /* likewise: its creator, adopters, and device_synchronize */
    dao_thread_t thread;

    dao_mutex_t lock; /* guards what follows */
    dao_cond_t work;  /* the worker waits for it */
    dao_cond_t done;  /* threads that synchronize wait for it */
    dao_ring_t queue; /* of command_t, without the running one */
    uint64_t queued_count;
    uint64_t done_count;
    bool is_started; /* the thread: by the first command */
    bool is_stopping;
};

struct dao_backend_event { /* guarded by marks_lock */
    mark_t *mark;          /* of the latest record; done before the first one */
    bool is_recorded;      /* at least once */
    bool has_time;         /* from its creation on */
};

static dao_mutex_t marks_lock = DAO_MUTEX_INITIALIZER(DAO_RANK_BACKEND);
static dao_cond_t marks_done = DAO_COND_INITIALIZER;

static _Thread_local bool is_worker;

dao_status_t dao_cpu_check_thread(void)
{
    return is_worker ? dao_error(DAO_ERR_REENTRANT, "a host function on a stream must not call the device")
                     : DAO_OK;
}

/* ---- marks ---- */

static mark_t *mark_create(void)
{
    mark_t *mark = dao_host_calloc(1, sizeof(*mark));
    if (mark != NULL) {
        atomic_init(&mark->reference_count, 1);
        mark->is_done = true;
    }
    return mark;
}

static mark_t *mark_reference(mark_t *mark)
{
    atomic_fetch_add(&mark->reference_count, 1);
    return mark;
}

static void mark_unreference(mark_t *mark)
{
    if (mark != NULL && atomic_fetch_sub(&mark->reference_count, 1) == 1) {
        dao_host_free(mark);
    }
}

/* Returns the mark of an event's latest record, with a reference for the caller. */
static mark_t *latest_mark(dao_backend_event_t *event)
{
    dao_mutex_lock(&marks_lock);
    mark_t *mark = mark_reference(event->mark);
    dao_mutex_unlock(&marks_lock);
    return mark;
}

static bool mark_is_done(const mark_t *mark)
{
    dao_mutex_lock(&marks_lock);
    bool is_done = mark->is_done;
    dao_mutex_unlock(&marks_lock);
    return is_done;
}

static void mark_wait(const mark_t *mark)
{
    dao_mutex_lock(&marks_lock);
    while (!mark->is_done) {
        dao_cond_wait(&marks_done, &marks_lock);
    }
    dao_mutex_unlock(&marks_lock);
}

static void mark_finish(mark_t *mark, uint64_t time_ns)
{
    dao_mutex_lock(&marks_lock);
    mark->time_ns = time_ns;
    mark->is_done = true;
    dao_cond_broadcast(&marks_done);
    dao_mutex_unlock(&marks_lock);
}

/* ---- the worker ---- */

/* Books a link for a copy that begins now. Returns when its last byte is through. */
static uint64_t book_link(cpu_link_t *link, size_t size_bytes, uint64_t now_ns)
{
    if (link == NULL || (link->bytes_per_second == 0 && link->latency_ns == 0)) {
        return now_ns;
    }
    uint64_t transfer_ns = 0;
    if (link->bytes_per_second != 0) {
        transfer_ns = dao_transfer_ns(size_bytes, link->bytes_per_second);
    }
    cpu_wire_t *wire = link->wire;
    dao_mutex_lock(&wire->lock);
    uint64_t begin_ns = wire->free_at_ns > now_ns ? wire->free_at_ns : now_ns;
    wire->free_at_ns = begin_ns + transfer_ns;
    dao_mutex_unlock(&wire->lock);
    return begin_ns + transfer_ns + link->latency_ns;
}

/* Passes a link that all devices share. Copies take turns piece by piece, so that each has its share. Returns
   when the last byte is through. */
static uint64_t pass_host_link(cpu_link_t *link, size_t size_bytes, uint64_t now_ns)
{
    uint64_t end_ns = now_ns;
    if (link == NULL || link->bytes_per_second == 0) {
        return end_ns;
    }
    for (size_t left_bytes = size_bytes; left_bytes > 0;) {
        size_t piece_bytes = left_bytes < HOST_PIECE_BYTES ? left_bytes : HOST_PIECE_BYTES;
        dao_sleep_until(end_ns);
        end_ns = book_link(link, piece_bytes, end_ns);
        left_bytes -= piece_bytes;
    }
    return end_ns;
}

static void run_copy(const command_t *command)
{
    uint64_t now_ns = dao_clock_ns();
    uint64_t end_ns = book_link(command->copy.first_link, command->copy.size_bytes, now_ns);
    end_ns = book_link(command->copy.second_link, command->copy.size_bytes, end_ns);
    memcpy(command->copy.dst, command->copy.src, command->copy.size_bytes);
    uint64_t passed_ns = pass_host_link(command->copy.host_link, command->copy.size_bytes, now_ns);
    end_ns = passed_ns > end_ns ? passed_ns : end_ns;
    if (end_ns > now_ns) {
        dao_sleep_until(end_ns);
    }
}

static void run_command(const command_t *command)
{
    switch (command->kind) {
    case COMMAND_COPY:
        run_copy(command);
        break;
    case COMMAND_FILL:
        memset(command->fill.dst, command->fill.value, command->fill.size_bytes);
        break;
    case COMMAND_FUNCTION:
        command->function.function(command->function.user);
        break;
    case COMMAND_RECORD:
        mark_finish(command->mark, dao_clock_ns());
        mark_unreference(command->mark);
        break;
    case COMMAND_WAIT:
        mark_wait(command->mark);
        mark_unreference(command->mark);
        break;
    }
}

/* Notes that the command before has run, if there was one, and takes the next one, for which it waits.
   Returns false if the stream is stopping and its queue is empty. */
static bool take_command(dao_backend_stream_t *stream, bool has_run, command_t *out_command)
{
    dao_mutex_lock(&stream->lock);
    if (has_run) {
        stream->done_count++;
        DAO_ASSERT(stream->done_count <= stream->queued_count);
        dao_cond_broadcast(&stream->done);
    }
    while (stream->queue.count == 0 && !stream->is_stopping) {
        dao_cond_wait(&stream->work, &stream->lock);
    }
    bool has_command = stream->queue.count > 0;
    if (has_command) {
        *out_command = *(const command_t *)dao_ring_at(&stream->queue, 0);
        dao_ring_pop(&stream->queue);
    }
    dao_mutex_unlock(&stream->lock);
    return has_command;
}

static void *run_stream(void *user)
{
    dao_backend_stream_t *stream = user;
    is_worker = true;
    command_t command;
    bool has_run = false;
    while (take_command(stream, has_run, &command)) {
        run_command(&command);
        has_run = true;
    }
    return NULL;
}

/* ---- queueing ---- */

/* Starts the thread of a stream, under its lock: most streams that a runtime has never get a command. */
static dao_status_t start_worker(dao_backend_stream_t *stream)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "dao-cpu-%" PRId32, stream->device->index);
    dao_status_t status = dao_thread_start(&stream->thread, name, run_stream, stream);
    stream->is_started = status == DAO_OK;
    return status;
}

static dao_status_t queue_command(dao_backend_stream_t *stream, const command_t *command)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&stream->lock);
    if (!stream->is_started) {
        status = start_worker(stream);
    }
    bool is_queued = status == DAO_OK && dao_ring_push(&stream->queue, command);
    if (is_queued) {
        stream->queued_count++;
        dao_cond_signal(&stream->work);
    }
    dao_mutex_unlock(&stream->lock);
    if (status == DAO_OK && !is_queued) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to queue a command on virtual device %" PRId32,
                           stream->device->index);
    }
    return status;
}

dao_status_t dao_cpu_copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                          size_t size_bytes)
{
    command_t command = {.kind = COMMAND_COPY, .copy = {.dst = dst, .src = src, .size_bytes = size_bytes}};
    if (kind == DAO_COPY_KIND_H2D) {
        command.copy.first_link = &stream->device->h2d;
    } else if (kind == DAO_COPY_KIND_D2H) {
        command.copy.first_link = &stream->device->d2h;
    }
    command.copy.host_link = command.copy.first_link != NULL ? &stream->device->backend->host_link : NULL;
    return queue_command(stream, &command);
}

dao_status_t dao_cpu_copy_peer(dao_backend_stream_t *stream, dao_backend_device_t *dst_device, void *dst,
                               dao_backend_device_t *src_device, const void *src, size_t size_bytes)
{
    command_t command = {.kind = COMMAND_COPY,
                         .copy = {.dst = dst,
                                  .src = src,
                                  .size_bytes = size_bytes,
                                  .first_link = &src_device->d2h,
                                  .second_link = &dst_device->h2d}};
    return queue_command(stream, &command);
}

dao_status_t dao_cpu_fill(dao_backend_stream_t *stream, void *dst, uint8_t value, size_t size_bytes)
{
    command_t command = {.kind = COMMAND_FILL,
                         .fill = {.dst = dst, .size_bytes = size_bytes, .value = value}};
    return queue_command(stream, &command);
}

dao_status_t dao_cpu_host_func(dao_backend_stream_t *stream, dao_host_func_t function, void *user)
{
    command_t command = {.kind = COMMAND_FUNCTION, .function = {.function = function, .user = user}};
    return queue_command(stream, &command);
}

/* ---- streams ---- */

static void free_stream(dao_backend_stream_t *stream)
{
    dao_cond_finish(&stream->done);
    dao_cond_finish(&stream->work);
    dao_mutex_finish(&stream->lock);
    dao_ring_finish(&stream->queue);
    dao_host_free(stream);
}

dao_status_t dao_cpu_stream_create(dao_backend_device_t *device, dao_backend_stream_t **out_stream)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_backend_stream_t *stream = dao_host_calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a stream of virtual device %" PRId32,
                         device->index);
    }
    stream->device = device;
    dao_ring_init(&stream->queue, sizeof(command_t));
    dao_mutex_init(&stream->lock, DAO_RANK_BACKEND);
    dao_cond_init(&stream->work);
    dao_cond_init(&stream->done);
    dao_mutex_lock(&device->stream_lock);
    stream->owner_count = 1;
    stream->next = device->streams;
    device->streams = stream;
    dao_mutex_unlock(&device->stream_lock);
    *out_stream = stream;
    return DAO_OK;
}

/* The native handle of a virtual stream is the stream itself; adopting it adds an owner. */
dao_status_t dao_cpu_stream_adopt(dao_backend_device_t *device, void *native,
                                  dao_backend_stream_t **out_stream)
{
    dao_mutex_lock(&device->stream_lock);
    dao_backend_stream_t *stream = device->streams;
    while (stream != NULL && stream != native) {
        stream = stream->next;
    }
    if (stream != NULL) {
        stream->owner_count++;
    }
    dao_mutex_unlock(&device->stream_lock);
    if (stream == NULL) {
        return dao_error(DAO_ERR_INVALID, "%p is no stream of virtual device %" PRId32, native,
                         device->index);
    }
    *out_stream = stream;
    return DAO_OK;
}

/* Removes an owner; the last one takes the stream out of its device's list. Returns true if it was the
   last. */
static bool disown_stream(dao_backend_stream_t *stream)
{
    dao_backend_device_t *device = stream->device;
    dao_mutex_lock(&device->stream_lock);
    bool is_last = --stream->owner_count == 0;
    if (is_last) {
        dao_backend_stream_t **link = &device->streams;
        while (*link != stream) {
            link = &(*link)->next;
        }
        *link = stream->next;
    }
    dao_mutex_unlock(&device->stream_lock);
    return is_last;
}

void dao_cpu_stream_destroy(dao_backend_stream_t *stream)
{
    (void)dao_cpu_stream_synchronize(stream); /* other owners keep the stream */
    if (!disown_stream(stream)) {
        return;
    }
    dao_mutex_lock(&stream->lock);
    stream->is_stopping = true;
    bool is_started = stream->is_started;
    dao_cond_signal(&stream->work);
    dao_mutex_unlock(&stream->lock);
    if (is_started) {
        dao_thread_join(&stream->thread);
    }
    free_stream(stream);
}

dao_status_t dao_cpu_stream_synchronize(dao_backend_stream_t *stream)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&stream->lock);
    uint64_t target = stream->queued_count;
    while (stream->done_count < target) {
        dao_cond_wait(&stream->done, &stream->lock);
    }
    dao_mutex_unlock(&stream->lock);
    return DAO_OK;
}

/* Returns the next stream of the list, or the first for NULL, and adds an owner to it. NULL at the end. */
static dao_backend_stream_t *own_next(dao_backend_device_t *device, const dao_backend_stream_t *stream)
{
    dao_mutex_lock(&device->stream_lock);
    dao_backend_stream_t *next = stream != NULL ? stream->next : device->streams;
    if (next != NULL) {
        next->owner_count++;
    }
    dao_mutex_unlock(&device->stream_lock);
    return next;
}

/* Waits for one stream after the other, as one of its owners: the list's lock is not held during the wait,
   and other threads may destroy streams. */
dao_status_t dao_cpu_device_synchronize(dao_backend_device_t *device)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_backend_stream_t *stream = own_next(device, NULL);
    while (stream != NULL) {
        dao_backend_stream_t *next = own_next(device, stream);
        dao_cpu_stream_destroy(stream); /* waits, and gives up ownership: the last owner destroys it */
        stream = next;
    }
    return DAO_OK;
}

void *dao_cpu_stream_native(dao_backend_stream_t *stream)
{
    return stream;
}

dao_status_t dao_cpu_stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event)
{
    mark_t *mark = latest_mark(event); /* the reference becomes the command's */
    dao_status_t status = DAO_OK;
    bool is_done = mark_is_done(mark);
    if (is_done) {
        status = dao_cpu_check_thread();
    } else {
        command_t command = {.kind = COMMAND_WAIT, .mark = mark};
        status = queue_command(stream, &command);
    }
    if (is_done || status != DAO_OK) {
        mark_unreference(mark);
    }
    return status;
}

/* ---- events ---- */

dao_status_t dao_cpu_event_create(dao_backend_device_t *device, bool has_time,
                                  dao_backend_event_t **out_event)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_backend_event_t *event = dao_host_calloc(1, sizeof(*event));
    mark_t *mark = event != NULL ? mark_create() : NULL;
    if (mark == NULL) {
        dao_host_free(event);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for an event of virtual device %" PRId32,
                         device->index);
    }
    event->mark = mark;
    event->has_time = has_time;
    *out_event = event;
    return DAO_OK;
}

void dao_cpu_event_destroy(dao_backend_event_t *event)
{
    mark_unreference(event->mark);
    dao_host_free(event);
}

/* Returns a mark for the next record, with a reference for the caller: the event's own if nothing else refers
   to it (its record is then done), else a new one. NULL without memory. */
static mark_t *begin_mark(dao_backend_event_t *event)
{
    mark_t *mark = NULL;
    dao_mutex_lock(&marks_lock);
    if (atomic_load(&event->mark->reference_count) == 1) {
        mark = mark_reference(event->mark);
        mark->is_done = false;
    }
    dao_mutex_unlock(&marks_lock);
    if (mark == NULL) {
        mark = mark_create();
        if (mark != NULL) {
            mark->is_done = false;
        }
    }
    return mark;
}

/* Makes a queued mark the event's latest. */
static void adopt_mark(dao_backend_event_t *event, mark_t *mark)
{
    mark_t *old = NULL;
    dao_mutex_lock(&marks_lock);
    if (event->mark != mark) {
        old = event->mark;
        event->mark = mark_reference(mark);
    }
    event->is_recorded = true;
    dao_mutex_unlock(&marks_lock);
    mark_unreference(old);
}

static bool stream_is_idle(dao_backend_stream_t *stream)
{
    dao_mutex_lock(&stream->lock);
    bool is_idle = stream->done_count == stream->queued_count;
    dao_mutex_unlock(&stream->lock);
    return is_idle;
}

/* Records an event without a time that nothing refers to on a stream without work: there is nothing to wait
   for. Returns false if nothing was done. */
static bool record_at_once(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    if (event->has_time || !stream_is_idle(stream)) {
        return false;
    }
    dao_mutex_lock(&marks_lock);
    bool is_alone = atomic_load(&event->mark->reference_count) == 1;
    if (is_alone) { /* then its mark is done */
        event->is_recorded = true;
    }
    dao_mutex_unlock(&marks_lock);
    return is_alone;
}

dao_status_t dao_cpu_event_record(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK || record_at_once(event, stream)) {
        return status;
    }
    mark_t *mark = begin_mark(event);
    if (mark == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to record an event on virtual device %" PRId32,
                         stream->device->index);
    }
    command_t command = {.kind = COMMAND_RECORD, .mark = mark_reference(mark)};
    status = queue_command(stream, &command);
    if (status == DAO_OK) {
        adopt_mark(event, mark);
    } else {
        mark_finish(mark, mark->time_ns); /* undoes begin_mark(): done, at the time of the record before */
        mark_unreference(mark);
    }
    mark_unreference(mark);
    return status;
}

dao_status_t dao_cpu_event_query(dao_backend_event_t *event)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&marks_lock);
    bool is_done = event->mark->is_done;
    dao_mutex_unlock(&marks_lock);
    return is_done ? DAO_OK : DAO_ERR_NOT_READY;
}

dao_status_t dao_cpu_event_synchronize(dao_backend_event_t *event)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status == DAO_OK) {
        mark_t *mark = latest_mark(event);
        mark_wait(mark);
        mark_unreference(mark);
    }
    return status;
}

/* Finds when an event's latest record was reached. Returns false if there is none or it is not done. */
static bool recorded_time(dao_backend_event_t *event, uint64_t *out_time_ns)
{
    dao_mutex_lock(&marks_lock);
    bool is_known = event->is_recorded && event->mark->is_done;
    *out_time_ns = event->mark->time_ns;
    dao_mutex_unlock(&marks_lock);
    return is_known;
}

dao_status_t dao_cpu_event_elapsed(dao_backend_event_t *begin, dao_backend_event_t *end,
                                   int64_t *out_elapsed_ns)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    if (!begin->has_time || !end->has_time) {
        return dao_error(DAO_ERR_INVALID, "an event was created without a time");
    }
    uint64_t begin_ns = 0;
    uint64_t end_ns = 0;
    if (!recorded_time(begin, &begin_ns) || !recorded_time(end, &end_ns)) {
        return dao_error(DAO_ERR_NOT_READY,
                         "the time between two events is known when both were recorded and have finished");
    }
    *out_elapsed_ns = (int64_t)(end_ns - begin_ns);
    return DAO_OK;
}
