/* SPDX-License-Identifier: Apache-2.0 */
/* Counted handles to memory. A handle has one of three owners:

       BLOCK     memory of the library: the last reference frees it; on a device, in its stream's order
       POINTER   memory of the program: the last reference calls its deleter
       PARENT    a part of another handle's memory: holds a reference to that one

   A block of a device or of pinned memory is idle when a handle gets it, since the host may copy into it at
   once, and follows the handle's stream. Where that has no number in the device's table of stream fences, as
   there are too many or no memory for it, the block follows no stream, and its free is deferred.

   A handle keeps what its end needs: the core, and for device and pinned memory the runtime, the stream and
   its number. So the last release needs no memory, and works after dao_finalize().

   Invariants: a BLOCK of a device or pinned place has a runtime and a stream; only a PARENT has a parent. */
#include <dao/memory.h>

#include "base/log.h"

#include "base/internal_error.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/core/handle.h"
#include "runtime/device/block.h"
#include "runtime/handles/memory_internal.h"
#include "runtime/place/lookup.h"

#include <inttypes.h>

typedef enum owner { OWNER_BLOCK, OWNER_POINTER, OWNER_PARENT } owner_t;

struct dao_memory {
    dao_handle_t handle; /* first: see dao_handle_bury() */
    owner_t owner;
    dao_place_t place;
    void *address;
    size_t size_bytes;
    dao_core_t *core;       /* a reference of its own */
    dao_runtime_t *runtime; /* BLOCK on a device or pinned: a reference of its own; else NULL */
    dao_stream_t *stream;   /* with a reference of its own, or NULL */
    dao_memory_t *parent;   /* PARENT: a reference of its own */
    dao_memory_deleter_t deleter;
    void *user;
    dao_live_t live;
    uint32_t number;              /* BLOCK: of its stream in runtime->fences; 0: it follows none */
    dao_deferred_free_t deferred; /* BLOCK with a runtime, where it is needed at the end */
};

/* The invariants of the head. */
static bool is_valid(const dao_memory_t *memory)
{
    bool has_runtime = memory->runtime != NULL;
    bool is_counted_block = memory->owner == OWNER_BLOCK && memory->place.kind != DAO_PLACE_KIND_CPU;
    return has_runtime == is_counted_block && (!has_runtime || memory->stream != NULL) &&
           (memory->parent != NULL) == (memory->owner == OWNER_PARENT);
}

/* ---- creation ---- */

/* Returns a handle with one reference that is not in the list of live ones yet. */
static dao_status_t handle_create(dao_core_t *core, owner_t owner, dao_place_t place,
                                  dao_memory_t **out_memory)
{
    dao_memory_t *memory = dao_host_calloc(1, sizeof(*memory));
    if (memory == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a memory handle: %zu bytes",
                         sizeof(*memory));
    }
    atomic_init(&memory->handle.reference_count, 1);
    memory->core = dao_core_retain(core);
    memory->owner = owner;
    memory->place = place;
    *out_memory = memory;
    return DAO_OK;
}

/* Releases what a handle has kept. */
static void kept_release(dao_core_t *core, dao_runtime_t *runtime, dao_stream_t *stream)
{
    if (stream != NULL) {
        dao_stream_release(stream);
    }
    if (runtime != NULL) {
        dao_runtime_release(runtime);
    }
    dao_core_release(core);
}

/* Undoes handle_create() for a handle that was not published. */
static void handle_discard(dao_memory_t *memory)
{
    kept_release(memory->core, memory->runtime, memory->stream);
    dao_host_free(memory);
}

static void handle_publish(dao_memory_t *memory, void *address, size_t size_bytes, dao_memory_t **out_memory)
{
    memory->address = address;
    memory->size_bytes = size_bytes;
    memory->live = (dao_live_t){
        .noun = "memory handle",
        .place = memory->place,
        .address = address,
        .size_bytes = size_bytes,
        .is_block = memory->owner == OWNER_BLOCK && address != NULL,
    };
    DAO_ASSERT(is_valid(memory));
    dao_live_add(memory->core, &memory->live);
    *out_memory = memory;
}

/* The stream of a handle lies on its place's device, as it is started now; the host has none. */
static dao_status_t stream_fits(dao_place_t place, const dao_stream_t *stream)
{
    if (stream == NULL) {
        return DAO_OK;
    }
    if (place.kind != DAO_PLACE_KIND_CPU && stream->runtime == dao_runtime_started(place.index)) {
        return dao_stream_alive_check(stream, "dao_memory_create");
    }
    if (place.kind != DAO_PLACE_KIND_CPU && stream->runtime->device_index == place.index) {
        return dao_error(DAO_ERR_INVALID, "dao_memory_create: the stream is of a start that was finalized");
    }
    char text[DAO_PLACE_TEXT_BYTES];
    return dao_error(DAO_ERR_INVALID, "dao_memory_create: a stream of device:%" PRId32 " for memory at %s",
                     stream->runtime->device_index, dao_place_format(place, text));
}

/* Returns the number of a stream; the first call gives it one, if there is one: else 0. This thread's last
   error stays as it is. */
static uint32_t number_of(dao_stream_t *stream)
{
    uint32_t number = atomic_load_explicit(&stream->number, memory_order_acquire);
    if (number == 0) {
        dao_error_record_t record;
        dao_error_save(&record, dao_last_status());
        if (dao_stream_number_find(stream, &number) != DAO_OK) {
            number = 0;
            (void)dao_error_restore(&record);
        }
    }
    return number;
}

/* Makes a handle follow a stream; NULL is the device's compute stream. */
static void stream_take(dao_memory_t *memory, dao_runtime_t *runtime, dao_stream_t *stream)
{
    memory->runtime = dao_runtime_retain(runtime);
    memory->stream = stream != NULL ? stream : &runtime->streams[DAO_STREAM_ROLE_COMPUTE];
    dao_stream_retain(memory->stream);
    memory->number = number_of(memory->stream);
}

/* Allocates the block of a handle. */
static dao_status_t block_take(dao_memory_t *memory, size_t size_bytes, dao_stream_t *stream)
{
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    dao_status_t status = dao_place_find(memory->place, &allocator, &runtime);
    if (status != DAO_OK) {
        return status;
    }
    dao_block_request_t request = {
        .size_bytes = size_bytes, .tag = dao_tag_of_thread, .owner = DAO_BLOCK_OWNER_HANDLE};
    if (runtime != NULL) {
        stream_take(memory, runtime, stream);
        request.stream = dao_stream_fence_line(memory->number);
        request.wants_unfenced = true;
    }
    return dao_block_alloc(memory->place, allocator, runtime, &request, &memory->address);
}

dao_status_t dao_memory_create(dao_place_t place, size_t size_bytes, dao_stream_t *stream,
                               dao_memory_t **out_memory)
{
    if (out_memory == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_memory_create: out_memory is NULL");
    }
    dao_core_t *core;
    dao_status_t status;
    dao_memory_t *memory;
    if ((status = dao_place_enter(place, &core)) != DAO_OK ||
        (status = stream_fits(place, stream)) != DAO_OK ||
        (status = handle_create(core, OWNER_BLOCK, place, &memory)) != DAO_OK) {
        return status;
    }
    status = block_take(memory, size_bytes, stream);
    if (status != DAO_OK) {
        handle_discard(memory);
        return status;
    }
    handle_publish(memory, memory->address, size_bytes, out_memory);
    return DAO_OK;
}

dao_status_t dao_memory_from_pointer(dao_place_t place, void *address, size_t size_bytes,
                                     dao_memory_deleter_t deleter, void *user, dao_memory_t **out_memory)
{
    if (out_memory == NULL || (address == NULL && size_bytes > 0)) {
        return dao_error(DAO_ERR_INVALID, "dao_memory_from_pointer: %s is NULL",
                         out_memory == NULL ? "out_memory" : "address");
    }
    dao_core_t *core;
    dao_status_t status;
    dao_memory_t *memory;
    if ((status = dao_error_unless_range("dao_memory_from_pointer", address, size_bytes)) != DAO_OK ||
        (status = dao_place_enter(place, &core)) != DAO_OK ||
        (status = handle_create(core, OWNER_POINTER, place, &memory)) != DAO_OK) {
        return status;
    }
    memory->deleter = deleter;
    memory->user = user;
    handle_publish(memory, address, size_bytes, out_memory);
    return DAO_OK;
}

dao_status_t dao_memory_sub_range(dao_memory_t *memory, size_t offset_bytes, size_t size_bytes,
                                  dao_memory_t **out_memory)
{
    if (memory == NULL || out_memory == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_memory_sub_range: %s is NULL",
                         memory == NULL ? "memory" : "out_memory");
    }
    if (dao_core_is_forked(memory->core)) {
        return dao_error(DAO_ERR_FORKED, "dao_memory_sub_range: the handle was made in the parent process");
    }
    if (offset_bytes > memory->size_bytes || size_bytes > memory->size_bytes - offset_bytes) {
        return dao_error(DAO_ERR_OUT_OF_BOUNDS,
                         "dao_memory_sub_range: %zu bytes from offset %zu of a handle of %zu bytes",
                         size_bytes, offset_bytes, memory->size_bytes);
    }
    dao_status_t status = dao_handle_retain(&memory->handle, "memory");
    if (status != DAO_OK) {
        return status;
    }
    dao_memory_t *part;
    status = handle_create(memory->core, OWNER_PARENT, memory->place, &part);
    if (status != DAO_OK) {
        (void)dao_memory_release(memory); /* not the last one: the caller has one */
        return status;
    }
    part->parent = memory;
    if (memory->stream != NULL) {
        part->stream = memory->stream;
        dao_stream_retain(part->stream);
    }
    void *address = memory->address != NULL ? (char *)memory->address + offset_bytes : NULL;
    handle_publish(part, address, size_bytes, out_memory);
    return DAO_OK;
}

/* ---- the end ---- */

static void log_unless_freed(dao_status_t status)
{
    if (status != DAO_OK) {
        dao_log(DAO_LOG_LEVEL_ERROR, "the memory of a handle could not be freed: %s", dao_last_message());
    }
}

/* Frees a block of a device or pinned memory behind its stream; buries the handle. */
static void block_give(dao_memory_t *memory)
{
    dao_runtime_t *runtime = memory->runtime;
    dao_runtime_drain(runtime);
    if (memory->address != NULL && dao_runtime_is_lost(runtime)) { /* there is no order any more */
        dao_runtime_block_free(runtime, memory->place.kind, memory->address);
    } else if (memory->address != NULL) {
        dao_status_t status = memory->number == 0
                                  ? DAO_ERR_BUSY
                                  : dao_block_free_owned_behind(memory->place, runtime, memory->address,
                                                                memory->number, DAO_BLOCK_OWNER_HANDLE);
        if (dao_stream_fence_must_wait_elsewhere(status)) {
            memory->deferred = (dao_deferred_free_t){.kind = memory->place.kind,
                                                     .address = memory->address,
                                                     .stream = memory->stream,
                                                     .container = &memory->handle};
            dao_runtime_defer(runtime, &memory->deferred);
            return;
        }
        log_unless_freed(status);
    }
    dao_handle_bury(&memory->handle);
}

static void host_block_free(const dao_memory_t *memory)
{
    dao_allocator_t *allocator = atomic_load(&memory->core->host_memory);
    dao_events_note_free(memory->core, allocator, memory->place, memory->address);
    log_unless_freed(dao_allocator_free_owned(allocator, memory->address, DAO_BLOCK_OWNER_HANDLE));
}

/* Ends a handle without references. What it kept is released last, from copies: the handle may be gone. */
static void handle_end(dao_memory_t *memory)
{
    dao_core_t *core = memory->core;
    dao_runtime_t *runtime = memory->runtime;
    dao_stream_t *stream = memory->stream;
    DAO_ASSERT(is_valid(memory));
    DAO_ASSERT(atomic_load(&memory->handle.reference_count) == 0);
    dao_live_remove(core, &memory->live);
    if (memory->owner == OWNER_BLOCK && runtime != NULL) {
        block_give(memory);
    } else {
        if (memory->owner == OWNER_BLOCK && memory->address != NULL) {
            host_block_free(memory);
        }
        dao_waiters_note_free();
        if (memory->owner == OWNER_POINTER && memory->deleter != NULL) {
            DAO_ASSERT_UNLOCKED();
            memory->deleter(memory->address, memory->size_bytes, memory->user);
        }
        dao_handle_bury(&memory->handle);
    }
    kept_release(core, runtime, stream);
}

dao_status_t dao_memory_retain(dao_memory_t *memory)
{
    return dao_handle_retain(memory != NULL ? &memory->handle : NULL, "memory");
}

dao_status_t dao_memory_release(dao_memory_t *memory)
{
    if (dao_thread_check() != DAO_OK) {
        return DAO_ERR_REENTRANT;
    }
    while (memory != NULL) { /* then its parent, and so on */
        bool is_last;
        dao_status_t status = dao_handle_release(&memory->handle, "memory", &is_last);
        if (status != DAO_OK) {
            return status;
        }
        if (!is_last || dao_core_is_forked(memory->core)) {
            return DAO_OK; /* in a child process the memory is the parent's, and stays */
        }
        dao_memory_t *parent = memory->parent;
        handle_end(memory);
        memory = parent;
    }
    return DAO_OK;
}

bool dao_memory_is_forked(const dao_memory_t *memory)
{
    return dao_core_is_forked(memory->core);
}

const dao_backend_ops_t *dao_memory_backend(const dao_memory_t *memory)
{
    return memory->core->ops;
}

bool dao_memory_is_own(const dao_memory_t *memory)
{
    return memory->place.kind != DAO_PLACE_KIND_CPU && memory->place.index >= memory->core->device_count;
}

void *dao_memory_user_of(const dao_memory_t *memory, dao_memory_deleter_t deleter)
{
    return memory->owner == OWNER_POINTER && memory->deleter == deleter ? memory->user : NULL;
}

void dao_memory_deleter_set(dao_memory_t *memory, dao_memory_deleter_t deleter, void *user)
{
    DAO_ASSERT(memory->owner == OWNER_POINTER);
    DAO_ASSERT(memory->deleter == NULL);
    memory->deleter = deleter;
    memory->user = user;
}

/* ---- fields ---- */

void *dao_memory_address(const dao_memory_t *memory)
{
    return memory != NULL ? memory->address : NULL;
}

size_t dao_memory_size(const dao_memory_t *memory)
{
    return memory != NULL ? memory->size_bytes : 0;
}

dao_place_t dao_memory_place(const dao_memory_t *memory)
{
    dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
    return memory != NULL ? memory->place : host;
}

dao_stream_t *dao_memory_stream(const dao_memory_t *memory)
{
    return memory != NULL ? memory->stream : NULL;
}

uint32_t dao_memory_use_count(const dao_memory_t *memory)
{
    return memory != NULL ? atomic_load_explicit(&memory->handle.reference_count, memory_order_relaxed) : 0;
}
