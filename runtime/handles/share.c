/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that several processes have. dao_memory_from_pointer() makes a handle around the backend's object,
   and the handle's deleter ends it. Here is what the deleter needs, and what travels to the other process:

       dao_memory_t --deleter--> dao_shared_memory --> runtime (a reference), the backend's object
                                      |
                                      +-- in the list of its device, where dao_copy() finds it by address

       dao_share_t.bytes   [ magic | check | size | exporting process | backend's name | the backend's bytes ]

   Memory that this process has exported is not imported again: with some drivers that would free the same
   memory twice. */
#include <dao/share.h>

#include "base/log.h"
#include "base/memory/host.h"
#include "base/memory/shared.h"
#include "base/report/error.h"
#include "runtime/core/thread.h"
#include "runtime/device/deferred_free.h"
#include "runtime/handles/memory_internal.h"
#include "runtime/observe/segment_notifier.h"
#include "runtime/start/context.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define WIRE_MAGIC UINT64_C(0x3165726168736f64) /* "doshare1" */

/* What a share's bytes hold. Both processes run on one machine, and have the same order of bytes. */
typedef struct wire {
    uint64_t magic;
    uint64_t check; /* of all behind it */
    uint64_t size_bytes;
    uint64_t exporter; /* dao_process_token() */
    uint64_t has_descriptor;
    char backend_name[16];
    unsigned char backend_bytes[sizeof(((dao_backend_share_t *)NULL)->bytes)];
} wire_t;
static_assert(sizeof(wire_t) <= DAO_SHARE_BYTES, "the bytes of a share hold it");
static_assert(offsetof(wire_t, magic) == 0, "dao_share_close() looks there");

/* ---- handles ---- */

/* The deleter of a handle. */
static void shared_end(void *address, size_t size_bytes, void *user)
{
    dao_shared_memory_t *shared = user;
    dao_runtime_t *runtime = shared->runtime;
    bool is_lost = dao_runtime_is_lost(runtime);                  /* then there is no work */
    if (!is_lost && dao_runtime_synchronize(runtime) != DAO_OK) { /* which is an end of the work, too */
        dao_log(DAO_LOG_LEVEL_WARNING, "shared memory of device:%" PRId32 " goes after failed work: %s",
                runtime->device_index, dao_last_message());
    }
    dao_shares_remove(&runtime->shares, shared);
    dao_segment_notify(runtime->device_index, DAO_SEGMENT_EVENT_RELEASING, address, size_bytes);
    if (runtime->ops->shared_destroy(runtime->device, shared->backend) != DAO_OK) {
        dao_log(DAO_LOG_LEVEL_ERROR, "shared memory of device:%" PRId32 " could not be given back: %s",
                runtime->device_index, dao_last_message());
        dao_segment_notify(runtime->device_index, DAO_SEGMENT_EVENT_OBTAINED, address, size_bytes);
    }
    dao_host_free(shared);
    dao_runtime_release(runtime);
}

/* Begins to make shared memory on a device: checks the place, and allocates what it will need. */
static dao_status_t shared_begin(const char *function, dao_place_t place, dao_shared_memory_t **out_shared)
{
    dao_core_t *core;
    dao_runtime_t *runtime;
    dao_status_t status;
    if ((status = dao_thread_check()) != DAO_OK || (status = dao_place_enter(place, &core)) != DAO_OK) {
        return status;
    }
    char text[DAO_PLACE_TEXT_BYTES];
    bool is_own = place.index >= core->device_count; /* of the program */
    if (place.kind != DAO_PLACE_KIND_DEVICE || is_own || !dao_backend_has_shared(core->ops)) {
        return dao_error(DAO_ERR_UNSUPPORTED, "%s: %s of backend \"%s\" is not shared between processes",
                         function, dao_place_format(place, text), core->ops->name);
    }
    if ((status = dao_runtime_borrow(place.index, &runtime)) != DAO_OK ||
        (status = dao_runtime_health(runtime, function)) != DAO_OK) {
        return status;
    }
    dao_shared_memory_t *shared = dao_host_calloc(1, sizeof(*shared));
    if (shared == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for a handle", function);
    }
    shared->runtime = dao_runtime_retain(runtime);
    *out_shared = shared;
    return DAO_OK;
}

static void shared_cancel(dao_shared_memory_t *shared)
{
    dao_runtime_release(shared->runtime);
    dao_host_free(shared);
}

/* Makes the handle around what the backend gave; takes over both in any case. */
static dao_status_t shared_publish(dao_shared_memory_t *shared, dao_place_t place, dao_memory_t **out_memory)
{
    dao_shares_add(&shared->runtime->shares, shared);
    dao_segment_notify(place.index, DAO_SEGMENT_EVENT_OBTAINED, shared->address, shared->size_bytes);
    dao_status_t status =
        dao_memory_from_pointer(place, shared->address, shared->size_bytes, shared_end, shared, out_memory);
    if (status != DAO_OK) {
        dao_error_record_t record;
        dao_error_save(&record, status);
        shared_end(shared->address, shared->size_bytes, shared);
        return dao_error_restore(&record);
    }
    return DAO_OK;
}

/* Has a place give back to its device what is free in it. True: there was something. The last error stays as
   it is. */
static bool gives_back(dao_runtime_t *runtime, dao_place_t place)
{
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    size_t released_bytes = 0;
    dao_allocator_t *allocator = runtime->device_memory;
    dao_place_drain(place, runtime);
    bool has_given = allocator->ops->trim(allocator, 0, &released_bytes) == DAO_OK && released_bytes > 0;
    (void)dao_error_restore(&record);
    return has_given;
}

dao_status_t dao_memory_create_shared(dao_place_t place, size_t size_bytes, dao_memory_t **out_memory)
{
    if (out_memory == NULL || size_bytes == 0) {
        return dao_error(DAO_ERR_INVALID, "dao_memory_create_shared: %s",
                         out_memory == NULL ? "out_memory is NULL" : "0 bytes");
    }
    dao_shared_memory_t *shared;
    dao_status_t status = shared_begin("dao_memory_create_shared", place, &shared);
    if (status != DAO_OK) {
        return status;
    }
    void *address;
    dao_runtime_t *runtime = shared->runtime;
    status = runtime->ops->shared_create(runtime->device, size_bytes, &shared->backend, &address);
    if (status == DAO_ERR_NO_DEVICE_MEMORY && gives_back(runtime, place)) {
        status = runtime->ops->shared_create(runtime->device, size_bytes, &shared->backend, &address);
    }
    status = dao_runtime_told(runtime, status);
    if (status != DAO_OK) {
        shared_cancel(shared);
        return status;
    }
    shared->address = address;
    shared->size_bytes = size_bytes;
    return shared_publish(shared, place, out_memory);
}

/* ---- export ---- */

/* FNV-1a (Fowler, Noll, Vo) of all behind `check`. */
static uint64_t wire_check(const wire_t *wire)
{
    const unsigned char *byte = (const unsigned char *)&wire->size_bytes;
    const unsigned char *end = (const unsigned char *)wire + sizeof(*wire);
    uint64_t check = UINT64_C(0xcbf29ce484222325);
    for (; byte < end; byte++) {
        check = (check ^ *byte) * UINT64_C(0x100000001b3);
    }
    return check;
}

dao_status_t dao_memory_export(dao_memory_t *memory, dao_share_t *out_share)
{
    if (memory == NULL || out_share == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_memory_export: %s is NULL",
                         memory == NULL ? "memory" : "out_share");
    }
    if (dao_memory_is_forked(memory)) {
        return dao_error(DAO_ERR_FORKED, "dao_memory_export: the handle was made in the parent process");
    }
    const dao_shared_memory_t *shared = dao_memory_user_of(memory, shared_end);
    if (shared == NULL || shared->is_imported) {
        return dao_error(DAO_ERR_UNSUPPORTED, "dao_memory_export: %s",
                         shared == NULL ? "the memory is not of dao_memory_create_shared()"
                                        : "imported memory is exported by the process that has created it");
    }
    dao_runtime_t *runtime = shared->runtime;
    dao_status_t status = dao_runtime_health(runtime, "dao_memory_export");
    dao_backend_share_t share;
    if (status == DAO_OK) {
        status =
            dao_runtime_told(runtime, runtime->ops->shared_export(runtime->device, shared->backend, &share));
    }
    if (status != DAO_OK) {
        return status;
    }
    wire_t wire = {.magic = WIRE_MAGIC,
                   .size_bytes = shared->size_bytes,
                   .exporter = dao_process_token(),
                   .has_descriptor = share.descriptor != DAO_NO_DESCRIPTOR};
    strncpy(wire.backend_name, runtime->ops->name, sizeof(wire.backend_name) - 1);
    memcpy(wire.backend_bytes, share.bytes, sizeof(wire.backend_bytes));
    wire.check = wire_check(&wire);
    *out_share = (dao_share_t){.descriptor = share.descriptor};
    memcpy(out_share->bytes, &wire, sizeof(wire));
    return DAO_OK;
}

/* ---- import ---- */

/* Reads a share's bytes. DAO_ERR_INVALID. */
static dao_status_t wire_read(const char *function, const dao_share_t *share, wire_t *out_wire)
{
    memcpy(out_wire, share->bytes, sizeof(*out_wire));
    if (out_wire->magic != WIRE_MAGIC || out_wire->check != wire_check(out_wire)) {
        return dao_error(DAO_ERR_INVALID, "%s: the bytes are no share, or one that was closed", function);
    }
    return DAO_OK;
}

/* Returns the descriptor of a share that was read, if it has one. DAO_ERR_INVALID if it should and does
   not. */
static dao_status_t descriptor_find(const char *function, const dao_share_t *share, const wire_t *wire,
                                    int *out_descriptor)
{
    if (wire->has_descriptor != 0 && share->descriptor < 0) {
        return dao_error(
            DAO_ERR_INVALID,
            "%s: the share's descriptor is missing: dao_share_send() carries it from the process "
            "that has exported",
            function);
    }
    *out_descriptor = wire->has_descriptor != 0 ? share->descriptor : DAO_NO_DESCRIPTOR;
    return DAO_OK;
}

static dao_status_t import_check(const dao_share_t *share, const char *backend_name, wire_t *out_wire)
{
    dao_status_t status = wire_read("dao_memory_import", share, out_wire);
    if (status != DAO_OK) {
        return status;
    }
    if (strncmp(out_wire->backend_name, backend_name, sizeof(out_wire->backend_name)) != 0) {
        return dao_error(DAO_ERR_UNSUPPORTED, "dao_memory_import: memory of backend \"%.*s\", here is \"%s\"",
                         (int)sizeof(out_wire->backend_name), out_wire->backend_name, backend_name);
    }
    if (out_wire->exporter == dao_process_token()) {
        return dao_error(DAO_ERR_INVALID,
                         "dao_memory_import: this process has exported it: dao_memory_retain() it");
    }
    if (out_wire->size_bytes == 0) { /* dao_memory_create_shared() makes none */
        return dao_error(DAO_ERR_INVALID, "dao_memory_import: a share of 0 bytes");
    }
    return DAO_OK;
}

dao_status_t dao_memory_import(dao_place_t place, const dao_share_t *share, dao_memory_t **out_memory)
{
    if (share == NULL || out_memory == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_memory_import: %s is NULL",
                         share == NULL ? "share" : "out_memory");
    }
    dao_shared_memory_t *shared;
    dao_status_t status = shared_begin("dao_memory_import", place, &shared);
    if (status != DAO_OK) {
        return status;
    }
    wire_t wire;
    void *address;
    dao_runtime_t *runtime = shared->runtime;
    dao_backend_share_t inner;
    status = import_check(share, runtime->ops->name, &wire);
    status =
        status == DAO_OK ? descriptor_find("dao_memory_import", share, &wire, &inner.descriptor) : status;
    if (status == DAO_OK) {
        memcpy(inner.bytes, wire.backend_bytes, sizeof(inner.bytes));
        status =
            dao_runtime_told(runtime, runtime->ops->shared_import(runtime->device, &inner, wire.size_bytes,
                                                                  &shared->backend, &address));
    }
    if (status != DAO_OK) {
        shared_cancel(shared);
        return status;
    }
    shared->address = address;
    shared->size_bytes = (size_t)wire.size_bytes;
    shared->is_imported = true;
    return shared_publish(shared, place, out_memory);
}

/* ---- from one process to another ---- */

dao_status_t dao_share_send(const dao_share_t *share, int socket)
{
    wire_t wire;
    if (share == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_share_send: share is NULL");
    }
    int descriptor = DAO_NO_DESCRIPTOR;
    dao_status_t status = wire_read("dao_share_send", share, &wire);
    status = status == DAO_OK ? descriptor_find("dao_share_send", share, &wire, &descriptor) : status;
    if (status != DAO_OK) {
        return status;
    }
    int reason = dao_descriptor_send(socket, share->bytes, sizeof(share->bytes), descriptor);
    return reason == 0 ? DAO_OK
                       : dao_error(DAO_ERR_IO, "dao_share_send: socket %d: %s", socket, strerror(reason));
}

dao_status_t dao_share_receive(int socket, dao_share_t *out_share)
{
    if (out_share == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_share_receive: out_share is NULL");
    }
    dao_share_t share;
    wire_t wire;
    int reason = dao_descriptor_receive(socket, share.bytes, sizeof(share.bytes), &share.descriptor);
    if (reason != 0) {
        return dao_error(DAO_ERR_IO, "dao_share_receive: socket %d: %s", socket,
                         reason == ENODATA ? "the other side is closed" : strerror(reason));
    }
    int descriptor = DAO_NO_DESCRIPTOR;
    dao_status_t status = wire_read("dao_share_receive", &share, &wire);
    status = status == DAO_OK ? descriptor_find("dao_share_receive", &share, &wire, &descriptor) : status;
    if (status != DAO_OK || descriptor == DAO_NO_DESCRIPTOR) {
        dao_descriptor_close(share.descriptor); /* of nothing that was shared */
    }
    if (status != DAO_OK) {
        return status;
    }
    *out_share = share;
    out_share->descriptor = descriptor;
    return DAO_OK;
}

void dao_share_close(dao_share_t *share)
{
    uint64_t magic = 0;
    if (share != NULL) {
        memcpy(&magic, share->bytes, sizeof(magic));
    }
    if (magic == WIRE_MAGIC) { /* the descriptor of anything else is not ours to close */
        dao_descriptor_close(share->descriptor);
        *share = (dao_share_t){.descriptor = DAO_NO_DESCRIPTOR};
    }
}
