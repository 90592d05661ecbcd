/* SPDX-License-Identifier: Apache-2.0 */
/* A stream is a list of commands. An event points to the mark of its latest record, which the command that
   reaches it sets. One lock guards everything; a host function runs without it, so whoever runs a stream
   keeps it, and looks again afterwards.

   Invariant: a mark is counted once for its event, for its record and for each wait. */
#include "tests/harness/device.h"

#include "base/report/error.h"
#include "base/threads/sync.h"

#include <dao/dlpack_abi.h>

#include <stdlib.h>
#include <string.h>

#define QUERIES_TO_MOVE 3u

typedef struct mark {
    uint32_t reference_count;
    bool is_done;
    struct dao_backend_stream *stream; /* that reaches it; NULL once it is done */
} mark_t;

typedef enum command_kind {
    COMMAND_COPY,
    COMMAND_FILL,
    COMMAND_FUNCTION,
    COMMAND_RECORD,
    COMMAND_WAIT
} command_kind_t;

typedef struct command {
    struct command *next;
    command_kind_t kind;
    void *dst;
    const void *src;
    size_t size_bytes;
    uint8_t value;
    dao_host_func_t function;
    void *user;
    mark_t *mark;
} command_t;

struct dao_backend_stream {
    struct dao_backend_stream *next; /* of all streams */
    dao_backend_device_t *device;
    uint32_t owner_count; /* who created it, who adopted it, who runs it */
    command_t *first, *last;
    bool is_running; /* a host function of it */
};

struct dao_backend_event {
    mark_t *mark; /* NULL: never recorded */
    uint32_t query_count;
    bool has_time;
};

static const dao_backend_ops_t *inner;
static dao_backend_ops_t table;
static dao_mutex_t lock = DAO_MUTEX_INITIALIZER(DAO_RANK_BACKEND);
static dao_cond_t ran = DAO_COND_INITIALIZER; /* a host function has ended */
static dao_backend_stream_t *streams;
static int64_t live_count;
static _Thread_local bool is_in_function;

static dao_status_t check_thread(void)
{
    return is_in_function ? dao_error(DAO_ERR_REENTRANT, "a host function must not call the device") : DAO_OK;
}

static void *make(size_t size_bytes)
{
    void *object = calloc(1, size_bytes);
    if (object == NULL) {
        abort();
    }
    live_count++;
    return object;
}

static void drop(void *object)
{
    live_count--;
    free(object);
}

static void unreference(mark_t *mark)
{
    if (mark != NULL && --mark->reference_count == 0) {
        drop(mark);
    }
}

/* ---- running: the lock is held ---- */

static void keep_locked(dao_backend_stream_t *stream)
{
    stream->owner_count++;
}

static void give_up_locked(dao_backend_stream_t *stream)
{
    if (--stream->owner_count == 0) {
        dao_backend_stream_t **link = &streams;
        while (*link != stream) {
            link = &(*link)->next;
        }
        *link = stream->next;
        drop(stream);
    }
}

static void run_function_locked(dao_backend_stream_t *stream, const command_t *command)
{
    stream->is_running = true;
    dao_mutex_unlock(&lock);
    is_in_function = true;
    command->function(command->user);
    is_in_function = false;
    dao_mutex_lock(&lock);
    stream->is_running = false;
    dao_cond_broadcast(&ran);
}

/* Runs the next command of a stream. Returns false if it has none or has to wait. */
static bool run_next_locked(dao_backend_stream_t *stream)
{
    while (stream->is_running) {
        dao_cond_wait(&ran, &lock);
    }
    command_t *command = stream->first;
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the command has a reference to its mark
    if (command == NULL || (command->kind == COMMAND_WAIT && !command->mark->is_done)) {
        return false;
    }
    stream->first = command->next;
    stream->last = stream->first != NULL ? stream->last : NULL;
    switch (command->kind) {
    case COMMAND_COPY:
        memcpy(command->dst, command->src, command->size_bytes);
        break;
    case COMMAND_FILL:
        memset(command->dst, command->value, command->size_bytes);
        break;
    case COMMAND_FUNCTION:
        run_function_locked(stream, command);
        break;
    case COMMAND_RECORD:
        command->mark->is_done = true;
        command->mark->stream = NULL;
        break;
    case COMMAND_WAIT:
        break;
    }
    unreference(command->mark);
    drop(command);
    return true;
}

static bool is_done_locked(const mark_t *mark)
{
    return mark == NULL || mark->is_done;
}

/* Runs a stream until a mark is reached or, with NULL, to its end; others as far as it waits for them. Waits
   lead to records that were queued earlier, so that they end. */
static void run_until_locked(dao_backend_stream_t *stream, const mark_t *mark)
{
    keep_locked(stream);
    while (stream->first != NULL && (mark == NULL || !mark->is_done)) {
        if (!run_next_locked(stream) && stream->first != NULL && stream->first->kind == COMMAND_WAIT) {
            mark_t *other = stream->first->mark;
            other->reference_count++;
            if (!other->is_done && other->stream != NULL) {
                run_until_locked(other->stream, other);
            }
            unreference(other);
        }
    }
    while (stream->is_running) {
        dao_cond_wait(&ran, &lock);
    }
    give_up_locked(stream);
}

uint32_t harness_device_run(void *native, uint32_t command_count)
{
    uint32_t count = 0;
    dao_mutex_lock(&lock);
    keep_locked(native);
    while (count < command_count && run_next_locked(native)) {
        count++;
    }
    give_up_locked(native);
    dao_mutex_unlock(&lock);
    return count;
}

int64_t harness_device_live_count(void)
{
    return live_count;
}

/* ---- streams ---- */

static dao_status_t stream_create(dao_backend_device_t *device, dao_backend_stream_t **out_stream)
{
    dao_status_t status = check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&lock);
    dao_backend_stream_t *stream = make(sizeof(*stream));
    stream->device = device;
    stream->owner_count = 1;
    stream->next = streams;
    streams = stream;
    dao_mutex_unlock(&lock);
    *out_stream = stream;
    return DAO_OK;
}

static dao_status_t stream_adopt(dao_backend_device_t *device, void *native,
                                 dao_backend_stream_t **out_stream)
{
    dao_status_t status = check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&lock);
    dao_backend_stream_t *stream = streams;
    while (stream != NULL && (stream != native || stream->device != device)) {
        stream = stream->next;
    }
    if (stream != NULL) {
        stream->owner_count++;
        *out_stream = stream;
    }
    dao_mutex_unlock(&lock);
    return stream != NULL ? DAO_OK : dao_error(DAO_ERR_INVALID, "%p is no stream of the device", native);
}

static void stream_destroy(dao_backend_stream_t *stream)
{
    dao_mutex_lock(&lock);
    run_until_locked(stream, NULL);
    give_up_locked(stream);
    dao_mutex_unlock(&lock);
}

static dao_status_t stream_synchronize(dao_backend_stream_t *stream)
{
    dao_status_t status = check_thread();
    if (status == DAO_OK) {
        dao_mutex_lock(&lock);
        run_until_locked(stream, NULL);
        dao_mutex_unlock(&lock);
    }
    return status;
}

static dao_status_t device_synchronize(dao_backend_device_t *device)
{
    dao_status_t status = check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&lock);
    for (dao_backend_stream_t *stream = streams, *next; stream != NULL; stream = next) {
        keep_locked(stream);
        if (stream->device == device) {
            run_until_locked(stream, NULL);
        }
        next = stream->next;
        give_up_locked(stream);
    }
    dao_mutex_unlock(&lock);
    return DAO_OK;
}

static void *stream_native(dao_backend_stream_t *stream)
{
    return stream;
}

/* ---- work ---- */

static void queue_locked(dao_backend_stream_t *stream, const command_t *work)
{
    command_t *command = make(sizeof(*command));
    *command = *work;
    if (command->mark != NULL) {
        command->mark->reference_count++;
    }
    if (stream->first == NULL) {
        stream->first = command;
    } else {
        stream->last->next = command;
    }
    stream->last = command;
}

static dao_status_t queue(dao_backend_stream_t *stream, const command_t *work)
{
    dao_status_t status = check_thread();
    if (status == DAO_OK) {
        dao_mutex_lock(&lock);
        queue_locked(stream, work);
        dao_mutex_unlock(&lock);
    }
    return status;
}

static dao_status_t copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                         size_t size_bytes)
{
    (void)kind;
    return queue(stream,
                 &(command_t){.kind = COMMAND_COPY, .dst = dst, .src = src, .size_bytes = size_bytes});
}

static dao_status_t copy_peer(dao_backend_stream_t *stream, dao_backend_device_t *dst_device, void *dst,
                              dao_backend_device_t *src_device, const void *src, size_t size_bytes)
{
    (void)dst_device;
    (void)src_device;
    return copy(stream, DAO_COPY_KIND_D2D, dst, src, size_bytes);
}

static dao_status_t fill(dao_backend_stream_t *stream, void *dst, uint8_t value, size_t size_bytes)
{
    return queue(stream,
                 &(command_t){.kind = COMMAND_FILL, .dst = dst, .value = value, .size_bytes = size_bytes});
}

static dao_status_t host_func(dao_backend_stream_t *stream, dao_host_func_t function, void *user)
{
    return queue(stream, &(command_t){.kind = COMMAND_FUNCTION, .function = function, .user = user});
}

/* ---- events ---- */

static dao_status_t event_create(dao_backend_device_t *device, bool has_time, dao_backend_event_t **out_event)
{
    (void)device;
    dao_status_t status = check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&lock);
    dao_backend_event_t *event = make(sizeof(*event));
    event->has_time = has_time;
    dao_mutex_unlock(&lock);
    *out_event = event;
    return DAO_OK;
}

static void event_destroy(dao_backend_event_t *event)
{
    dao_mutex_lock(&lock);
    unreference(event->mark);
    drop(event);
    dao_mutex_unlock(&lock);
}

static dao_status_t event_record(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    dao_status_t status = check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&lock);
    mark_t *mark = make(sizeof(*mark));
    mark->stream = stream;
    mark->reference_count = 1; /* the event's; the command has one of its own */
    queue_locked(stream, &(command_t){.kind = COMMAND_RECORD, .mark = mark});
    unreference(event->mark);
    event->mark = mark;
    event->query_count = 0;
    dao_mutex_unlock(&lock);
    return DAO_OK;
}

static dao_status_t stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event)
{
    dao_status_t status = check_thread();
    dao_mutex_lock(&lock);
    if (status == DAO_OK && !is_done_locked(event->mark)) {
        queue_locked(stream, &(command_t){.kind = COMMAND_WAIT, .mark = event->mark});
    }
    dao_mutex_unlock(&lock);
    return status;
}

/* Runs one command of a stream, or of the one that it waits for: a chain moves at its front. */
static void move_locked(dao_backend_stream_t *stream)
{
    keep_locked(stream);
    if (!run_next_locked(stream) && stream->first != NULL && stream->first->kind == COMMAND_WAIT &&
        stream->first->mark->stream != NULL) {
        dao_backend_stream_t *front = stream->first->mark->stream;
        keep_locked(front);
        (void)run_next_locked(front);
        give_up_locked(front);
    }
    give_up_locked(stream);
}

static dao_status_t event_query(dao_backend_event_t *event)
{
    dao_status_t status = check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&lock);
    bool is_done = is_done_locked(event->mark);
    if (!is_done && ++event->query_count >= QUERIES_TO_MOVE) {
        move_locked(event->mark->stream);
    }
    dao_mutex_unlock(&lock);
    return is_done ? DAO_OK : DAO_ERR_NOT_READY;
}

static dao_status_t event_synchronize(dao_backend_event_t *event)
{
    dao_status_t status = check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&lock);
    mark_t *mark = event->mark;
    if (!is_done_locked(mark)) {
        mark->reference_count++;
        run_until_locked(mark->stream, mark);
        unreference(mark);
    }
    dao_mutex_unlock(&lock);
    return DAO_OK;
}

static dao_status_t event_elapsed(dao_backend_event_t *begin, dao_backend_event_t *end,
                                  int64_t *out_elapsed_ns)
{
    dao_mutex_lock(&lock);
    bool has_time = begin->has_time && end->has_time;
    bool is_done = begin->mark != NULL && end->mark != NULL && begin->mark->is_done && end->mark->is_done;
    dao_mutex_unlock(&lock);
    if (!has_time || !is_done) {
        return dao_error(has_time ? DAO_ERR_NOT_READY : DAO_ERR_INVALID, "no time between these events");
    }
    *out_elapsed_ns = 0;
    return DAO_OK;
}

/* ---- pools: they are the device's own memory ---- */

static dao_status_t device_query(dao_backend_device_t *device, dao_device_info_t *out_info)
{
    dao_status_t status = inner->device_query(device, out_info);
    if (status == DAO_OK) {
        out_info->memory_pools = true;
        out_info->page_bytes = table.pages_map != NULL ? out_info->page_bytes : 0;
    }
    return status;
}

static dao_status_t pool_create(dao_backend_device_t *device, dao_backend_pool_t **out_pool)
{
    dao_status_t status = check_thread();
    *out_pool = (dao_backend_pool_t *)device; /* it has no state of its own */
    return status;
}

static void pool_destroy(dao_backend_device_t *device, dao_backend_pool_t *pool)
{
    (void)device;
    (void)pool;
}

typedef struct pooled {
    struct pooled *next;
    void *address;
    size_t size_bytes;
} pooled_t;

static pooled_t *pooled;

static dao_status_t pool_alloc(dao_backend_device_t *device, dao_backend_pool_t *pool, size_t size_bytes,
                               void **out_address)
{
    (void)pool;
    dao_status_t status = inner->memory_alloc(device, size_bytes, out_address);
    if (status == DAO_OK) {
        dao_mutex_lock(&lock);
        pooled_t *piece = make(sizeof(*piece));
        *piece = (pooled_t){.next = pooled, .address = *out_address, .size_bytes = size_bytes};
        pooled = piece;
        dao_mutex_unlock(&lock);
    }
    return status;
}

static dao_status_t pool_free(dao_backend_device_t *device, dao_backend_pool_t *pool, void *address)
{
    (void)pool;
    dao_mutex_lock(&lock);
    pooled_t **link = &pooled;
    while (*link != NULL && (*link)->address != address) {
        link = &(*link)->next;
    }
    pooled_t *piece = *link;
    size_t size_bytes = 0;
    if (piece != NULL) {
        size_bytes = piece->size_bytes;
        *link = piece->next;
        drop(piece);
    }
    dao_mutex_unlock(&lock);
    return inner->memory_free(device, address, size_bytes);
}

static void hide_pages(void)
{
    table.address_reserve = NULL;
    table.address_release = NULL;
    table.pages_create = NULL;
    table.pages_destroy = NULL;
    table.pages_map = NULL;
    table.pages_unmap = NULL;
    table.pages_size = NULL;
    table.pages_create_mapped = NULL;
    table.pages_map_run = NULL;
    table.pages_unmap_run = NULL;
    table.alias_prepare = NULL;
    table.alias_map = NULL;
    table.alias_unmap = NULL;
}

const dao_backend_ops_t *harness_device_wrap(const dao_backend_ops_t *ops, bool hides_pages)
{
    inner = ops;
    table = *ops;
    table.device_synchronize = device_synchronize;
    table.device_query = device_query;
    table.stream_create = stream_create;
    table.stream_adopt = stream_adopt;
    table.stream_destroy = stream_destroy;
    table.stream_synchronize = stream_synchronize;
    table.stream_wait_event = stream_wait_event;
    table.stream_native = stream_native;
    table.event_create = event_create;
    table.event_destroy = event_destroy;
    table.event_record = event_record;
    table.event_query = event_query;
    table.event_synchronize = event_synchronize;
    table.event_elapsed = event_elapsed;
    table.copy = copy;
    table.copy_batch = NULL;
    table.stream_wait_word = NULL;
    table.copy_peer = copy_peer;
    table.fill = fill;
    table.host_func = host_func;
    table.pool_create = pool_create;
    table.pool_destroy = pool_destroy;
    table.pool_alloc = pool_alloc;
    table.pool_free = pool_free;
    if (hides_pages) {
        hide_pages();
    }
    return &table;
}
