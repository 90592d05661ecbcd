/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks at a place that was found: the fallbacks of the fast paths, the order of a stream, and the error of
   a free that was refused.

       alloc    number --> the allocator returns block and fence --> the stream waits, on the device
       free     number --> epoch --> the allocator takes block and fence --> events are recorded behind it */
#include "runtime/device/block.h"

#include "allocators/accounting/ledger.h"
#include "allocators/accounting/owner.h"
#include "base/internal_error.h"
#include "base/log.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/observe/snapshot_file.h"

/* ---- refused requests ---- */

/* Logs this thread's message: a warning for the first refusal of a kind at a place since the start, since a
   program may ask until it is refused, and debugging for the others. Damage is an error each time. The
   callback may call the library; the message stays. */
static void refusal_log(_Atomic uint64_t *refused, dao_place_t place, dao_status_t status, const char *what)
{
    char text[DAO_PLACE_TEXT_BYTES];
    dao_error_record_t record;
    dao_error_save(&record, status);
    uint64_t place_bit = UINT64_C(1) << place.index;
    bool is_first = (atomic_fetch_or(&refused[place.kind], place_bit) & place_bit) == 0;
    if (status == DAO_ERR_CORRUPT) {
        dao_log(DAO_LOG_LEVEL_ERROR, "%s", dao_last_message());
    } else if (is_first) {
        dao_log(DAO_LOG_LEVEL_WARNING, "%s (the first of the refused %s at %s; DAO_LOG=debug shows all)",
                dao_last_message(), what, dao_place_format(place, text));
    } else {
        dao_log(DAO_LOG_LEVEL_DEBUG, "%s", dao_last_message());
    }
    (void)dao_error_restore(&record);
}

void dao_block_note_failure(dao_place_t place, dao_allocator_t *allocator, dao_runtime_t *runtime,
                            const dao_block_request_t *request, dao_status_t status)
{
    if (status == DAO_ERR_LIMIT && request->tag != 0 && dao_error_tag() == request->tag) {
        dao_tags_count_refused(allocator->ledger->tags, request->tag);
    }
    if (runtime != NULL) {
        (void)dao_runtime_told(runtime, status);
    }
    if (dao_allocator_is_short(status)) {
        dao_snapshot_note_refusal(place, allocator);
    }
    dao_core_t *core = dao_core_started();
    if (core != NULL) {
        refusal_log(core->refused_allocs, place, status, "allocations");
    }
}

/* ---- refused frees ---- */

/* Returns the allocator of a place that was used already, else NULL. */
static dao_allocator_t *allocator_of(dao_place_t place)
{
    const dao_core_t *core = dao_core_started();
    if (core == NULL || place.kind == DAO_PLACE_KIND_CPU) {
        return core != NULL ? atomic_load(&core->host_memory) : NULL;
    }
    dao_runtime_t *runtime = dao_runtime_started(place.index);
    return runtime != NULL ? dao_runtime_allocator(runtime, place.kind) : NULL;
}

/* Returns true if a place that was used already has a live block at an address. */
static bool place_owns(dao_place_t place, const void *address)
{
    dao_allocator_t *allocator = allocator_of(place);
    dao_block_t block;
    return allocator != NULL && allocator->ops->query(allocator, address, &block) == DAO_OK;
}

bool dao_block_place_find(const dao_core_t *core, dao_place_t named, const void *address,
                          dao_place_t *out_place)
{
    static const dao_place_kind_t kinds[] = {DAO_PLACE_KIND_CPU, DAO_PLACE_KIND_DEVICE,
                                             DAO_PLACE_KIND_PINNED};
    for (int i = 0; i < 3; i++) {
        int32_t count = kinds[i] == DAO_PLACE_KIND_CPU ? 1 : dao_core_device_end(core);
        for (int32_t index = 0; index < count; index++) {
            *out_place = (dao_place_t){kinds[i], index};
            if (!dao_place_equal(*out_place, named) && place_owns(*out_place, address)) {
                return true;
            }
        }
    }
    return false;
}

/* Names the owner of a block at a place that was used already. */
static dao_status_t not_yours_error(const char *function, dao_place_t place, const void *address)
{
    char text[DAO_PLACE_TEXT_BYTES];
    dao_block_t block;
    dao_allocator_t *allocator = allocator_of(place);
    if (allocator == NULL || allocator->ops->query(allocator, address, &block) != DAO_OK) {
        return dao_error(DAO_ERR_NOT_YOURS, "%s: %p at %s belonged to another owner; nothing was freed",
                         function, address, dao_place_format(place, text));
    }
    return dao_error(DAO_ERR_NOT_YOURS,
                     "%s: %p at %s, a block of %zu bytes, belongs to %s and ends with %s; nothing was freed",
                     function, address, dao_place_format(place, text), block.requested_bytes,
                     dao_block_owner_text(block.owner), dao_block_owner_end(block.owner));
}

static dao_status_t free_error(const char *function, dao_place_t place, const void *address,
                               dao_status_t status)
{
    if (status == DAO_ERR_NOT_YOURS) {
        return not_yours_error(function, place, address);
    }
    if (status != DAO_ERR_FOREIGN_POINTER && status != DAO_ERR_DOUBLE_FREE && status != DAO_ERR_NO_DEVICE) {
        return status; /* it is not elsewhere */
    }
    const dao_core_t *core = dao_core_started();
    dao_error_record_t record;
    dao_error_save(&record, status);
    dao_place_t owner;
    if (core != NULL && dao_block_place_find(core, place, address, &owner)) {
        char named_text[DAO_PLACE_TEXT_BYTES];
        char owner_text[DAO_PLACE_TEXT_BYTES];
        return dao_error(DAO_ERR_WRONG_PLACE, "%s: %p was given for %s but belongs to %s; nothing was freed",
                         function, address, dao_place_format(place, named_text),
                         dao_place_format(owner, owner_text));
    }
    return dao_error_restore(&record);
}

dao_status_t dao_block_free_error(const char *function, dao_place_t place, const void *address,
                                  dao_status_t status)
{
    dao_core_t *core = dao_core_started();
    bool is_place = status != DAO_ERR_NO_DEVICE && status != DAO_ERR_INVALID;
    status = free_error(function, place, address, status);
    if (core != NULL && is_place && !dao_thread_is_in_callback) { /* or an allocator's lock is held */
        refusal_log(core->refused_frees, place, status, "frees");
    }
    return status;
}

/* ---- in the order of a stream ---- */

/* What a request is about. */
typedef struct order {
    dao_runtime_t *runtime; /* borrowed */
    dao_allocator_t *allocator;
    uint32_t number; /* of the stream */
} order_t;

/* Returns a block that its stream could not be made to wait for: its fences stay, and this
   stream does if it held it before. */
static void give_back(const order_t *order, const dao_block_grant_t *grant)
{
    dao_stream_fence_t fence = dao_stream_fences_mark(order->runtime->fences, order->number);
    dao_stream_fence_join(&fence, &grant->fence);
    DAO_MUST_FREE(order->allocator->ops->free(order->allocator, grant->address, &fence));
}

/* Allocates a block, and makes the stream wait for its fence. */
static dao_status_t order_take(const order_t *order, dao_place_t place, const dao_block_request_t *request,
                               dao_block_grant_t *out_grant)
{
    dao_status_t status = order->allocator->ops->alloc(order->allocator, request, out_grant);
    if (dao_allocator_is_short(status)) {
        dao_pressure_need_t need = {.place = place,
                                    .allocator = order->allocator,
                                    .runtime = order->runtime,
                                    .request = request,
                                    .out_grant = out_grant};
        status = dao_pressure_relieve(&need, status);
    }
    if (status != DAO_OK || dao_stream_fence_follows(&out_grant->fence, order->number)) {
        return status;
    }
    status = dao_stream_fences_wait_on(order->runtime->fences, &out_grant->fence, order->number);
    if (status != DAO_OK) {
        dao_error_record_t record;
        dao_error_save(&record, status);
        give_back(order, out_grant);
        status = dao_error_restore(&record);
    }
    return status;
}

/* A block that is fenced by a stream under capture has to stay free: then an unfenced one is asked for. */
static dao_status_t order_alloc(const order_t *order, dao_place_t place, size_t size_bytes,
                                void **out_address)
{
    dao_block_request_t request = {
        .size_bytes = size_bytes, .tag = dao_tag_of_thread, .stream = dao_stream_fence_line(order->number)};
    dao_block_request_t leased;
    dao_block_grant_t grant = {0};
    dao_runtime_drain(order->runtime);
    dao_status_t status =
        order_take(order, place, dao_thread_lease_name(&request, place, order->runtime, &leased), &grant);
    if (status == DAO_ERR_BUSY) {
        request.wants_unfenced = true;
        status =
            order_take(order, place, dao_thread_lease_name(&request, place, order->runtime, &leased), &grant);
    }
    dao_events_note_alloc(place, &request, status == DAO_OK ? grant.address : NULL, status);
    if (status == DAO_OK) {
        *out_address = grant.address;
    } else {
        dao_block_note_failure(place, order->allocator, order->runtime, &request, status);
    }
    return status;
}

void *dao_block_alloc_ordered(dao_place_t place, dao_runtime_t *runtime, size_t size_bytes, uint32_t number)
{
    order_t order = {runtime, dao_runtime_allocator(runtime, place.kind), number};
    void *address = NULL;
    return size_bytes > 0 && order_alloc(&order, place, size_bytes, &address) == DAO_OK ? address : NULL;
}

/* Frees a block with its fence. One that follows no stream, as small ones of dao_alloc(), is waited for
   instead. */
dao_status_t dao_block_free_fenced(dao_runtime_t *runtime, dao_allocator_t *allocator, void *address,
                                   dao_stream_fence_t *fence, dao_block_owner_t owner)
{
    dao_status_t status = allocator->ops->free_owned(allocator, address, fence, owner);
    if (status != DAO_ERR_UNSUPPORTED) {
        return status;
    }
    status = dao_stream_fences_wait(runtime->fences, fence);
    if (dao_stream_fence_must_wait_elsewhere(status)) {
        return status;
    }
    *fence = (dao_stream_fence_t){0};
    return dao_allocator_free_owned(allocator, address, owner);
}

dao_status_t dao_block_free_behind(dao_place_t place, dao_runtime_t *runtime, void *address, uint32_t number,
                                   dao_block_owner_t owner)
{
    dao_allocator_t *allocator = dao_runtime_allocator(runtime, place.kind);
    dao_stream_fence_t fence = dao_stream_fences_mark(runtime->fences, number);
    dao_freeing_t freeing = {0};
    dao_status_t status;
    if (!dao_retained_retires(&runtime->retained, place.kind, address, &fence, owner, &status)) {
        freeing = dao_events_free_begins(allocator, place, address);
        status = dao_block_free_fenced(runtime, allocator, address, &fence, owner);
    }
    if (status == DAO_OK) {
        dao_events_note_freed(runtime->core, place, &freeing);
        dao_stream_fences_record(runtime->fences, &fence);
        dao_waiters_note_free();
    }
    return status;
}

dao_status_t dao_block_free_owned_behind(dao_place_t place, dao_runtime_t *runtime, void *address,
                                         uint32_t number, dao_block_owner_t owner)
{
    DAO_ASSERT(owner != DAO_BLOCK_OWNER_RAW);
    dao_allocator_t *allocator = dao_runtime_allocator(runtime, place.kind);
    bool is_fast = place.kind == DAO_PLACE_KIND_DEVICE && number < DAO_STREAM_FENCE_CROWD &&
                   allocator->ops->free_ordered != NULL && !dao_retained_any(&runtime->retained);
    return is_fast ? allocator->ops->free_ordered(allocator, address, number, owner)
                   : dao_block_free_behind(place, runtime, address, number, owner);
}

/* ---- where the fast paths fall back ---- */

static void *alloc_at(dao_place_t place, dao_allocator_t *allocator, dao_runtime_t *runtime,
                      size_t size_bytes)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .tag = dao_tag_of_thread};
    void *address = NULL;
    dao_status_t status = dao_thread_check();
    if (status == DAO_OK) {
        status = dao_block_alloc(place, allocator, runtime, &request, &address);
    }
    return status == DAO_OK ? address : NULL;
}

static dao_status_t free_at(dao_place_t place, dao_allocator_t *allocator, dao_runtime_t *runtime,
                            void *address)
{
    if (address == NULL) {
        return DAO_OK;
    }
    dao_status_t status = dao_thread_check();
    if (status == DAO_OK) {
        status = dao_block_free(place, allocator, runtime, address);
    }
    return status == DAO_OK ? DAO_OK : dao_block_free_error("dao_free", place, address, status);
}

static void *device_alloc(void *user, size_t size_bytes)
{
    dao_runtime_t *runtime = user;
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, runtime->device_index};
    return alloc_at(place, runtime->device_memory, runtime, size_bytes);
}

static dao_status_t device_free(void *user, void *address)
{
    dao_runtime_t *runtime = user;
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, runtime->device_index};
    return free_at(place, runtime->device_memory, runtime, address);
}

/* Whoever asks for a free by its owner makes the error; that of the program is made here. */
static dao_status_t device_free_ordered(void *user, void *address, uint32_t number, dao_block_owner_t owner)
{
    dao_runtime_t *runtime = user;
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, runtime->device_index};
    if (owner != DAO_BLOCK_OWNER_RAW) {
        return dao_block_free_behind(place, runtime, address, number, owner);
    }
    if (address == NULL || dao_runtime_is_lost(runtime)) { /* there is no order any more */
        return free_at(place, runtime->device_memory, runtime, address);
    }
    dao_status_t status = dao_thread_check();
    status = status == DAO_OK ? dao_runtime_health(runtime, "dao_free_async") : status;
    if (status == DAO_OK) {
        status = dao_block_free_behind(place, runtime, address, number, owner);
    }
    return status == DAO_OK ? DAO_OK : dao_block_free_error("dao_free_async", place, address, status);
}

static void *device_alloc_ordered(void *user, size_t size_bytes, uint32_t number)
{
    dao_runtime_t *runtime = user;
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, runtime->device_index};
    return dao_thread_check() == DAO_OK && dao_runtime_health(runtime, "dao_alloc_async") == DAO_OK
               ? dao_block_alloc_ordered(place, runtime, size_bytes, number)
               : NULL;
}

static void *host_alloc(void *user, size_t size_bytes)
{
    return alloc_at((dao_place_t){DAO_PLACE_KIND_CPU, 0}, user, NULL, size_bytes);
}

static dao_status_t host_free(void *user, void *address)
{
    return free_at((dao_place_t){DAO_PLACE_KIND_CPU, 0}, user, NULL, address);
}

void dao_block_host_fallback_set(dao_allocator_t *host_memory)
{
    host_memory->fallback = (dao_fallback_t){.alloc = host_alloc, .free = host_free, .user = host_memory};
}

void dao_block_fallback_set(dao_runtime_t *runtime)
{
    runtime->device_memory->fallback = (dao_fallback_t){.alloc = device_alloc,
                                                        .free = device_free,
                                                        .alloc_ordered = device_alloc_ordered,
                                                        .free_ordered = device_free_ordered,
                                                        .user = runtime};
}
