/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation and free in stream order: dao_alloc_async(), dao_free_async(), dao_record_stream().

   The device's table of stream fences (allocators/stream_fence.h) keeps the order, and free blocks carry
   fences. Here each public stream gets its number in that table, and the calls are made in the order that
   makes them safe:

       usual    number --> the allocator's alloc_ordered, free_ordered
       alloc    number --> the allocator returns block and fence --> the stream waits, on the device
       free     number --> epoch --> the allocator takes block and fence --> events are recorded behind it
       record   number --> the stream is marked as shared --> the allocator marks the block

   A stream has a number from its first such call until it is destroyed. */
#include <dao/async.h>
#include <dao/memory.h>

#include "allocators/slow_path.h"
#include "base/numbers/path.h"
#include "base/report/error.h"

#include "base/internal_error.h"
#include "runtime/device/block.h"
#include "runtime/place/lookup.h"

#include <inttypes.h>

/* In this file they are functions. */
#undef dao_free

/* What a call is about. */
typedef struct order {
    dao_runtime_t *runtime; /* borrowed */
    dao_allocator_t *allocator;
    uint32_t number; /* of the stream */
    uint32_t line;   /* of that number: allocators know it */
} order_t;

/* Checks place and stream, and finds what a call needs; a device that was not used yet is started. */
static dao_status_t order_find(const char *function, dao_place_t place, dao_stream_t *stream,
                               order_t *out_order)
{
    char text[DAO_PLACE_TEXT_BYTES];
    dao_status_t status = dao_place_find(place, &out_order->allocator, &out_order->runtime);
    dao_runtime_t *runtime = out_order->runtime;
    if (status != DAO_OK) {
        return status;
    }
    if (runtime == NULL) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "%s: host memory follows no stream; use dao_alloc() and dao_free()", function);
    }
    stream = stream != NULL ? stream : &runtime->streams[DAO_STREAM_ROLE_COMPUTE];
    if (!dao_runtime_follows(runtime, stream)) {
        return dao_error(DAO_ERR_INVALID, "%s: a stream of device:%" PRId32 "%s for memory at %s", function,
                         stream->runtime->device_index,
                         stream->runtime->device_index == place.index ? " before dao_finalize()" : "",
                         dao_place_format(place, text));
    }
    if (out_order->allocator->ops->stream_mark == NULL) {
        return dao_error(DAO_ERR_UNSUPPORTED, "%s: the %s allocator of %s knows no streams", function,
                         out_order->allocator->ops->name, dao_place_format(place, text));
    }
    status = dao_runtime_health(runtime, function);
    status = status == DAO_OK ? dao_stream_alive_check(stream, function) : status;
    if (status == DAO_OK) {
        status = dao_runtime_told(runtime, dao_stream_number_find(stream, &out_order->number));
    }
    out_order->line = status == DAO_OK ? dao_stream_fence_line(out_order->number) : 0;
    return status;
}

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
    dao_block_request_t request = {.size_bytes = size_bytes, .tag = dao_tag_of_thread, .stream = order->line};
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

/* Returns the runtime of a device if nothing unusual is going on there, and the number of the stream to
   follow, which has one and still is that of its handle; else NULL. */
static DAO_ON_THE_PATH dao_runtime_t *order_find_fast(dao_place_t place, const dao_stream_t *stream,
                                                      uint32_t *out_number)
{
    if (place.kind != DAO_PLACE_KIND_DEVICE || dao_slow_path_is_needed()) {
        return NULL;
    }
    dao_runtime_t *runtime = dao_runtime_started(place.index);
    if (runtime == NULL) {
        return NULL;
    }
    stream = stream != NULL ? stream : &runtime->streams[DAO_STREAM_ROLE_COMPUTE];
    *out_number = atomic_load_explicit(&stream->fast_number, memory_order_acquire);
    return stream->runtime == runtime && *out_number != 0 ? runtime : NULL;
}

static DAO_OFF_THE_PATH void *alloc_slow(dao_place_t place, size_t size_bytes, dao_stream_t *stream)
{
    order_t order;
    void *address = NULL;
    if (order_find("dao_alloc_async", place, stream, &order) != DAO_OK || size_bytes == 0) {
        return NULL;
    }
    return order_alloc(&order, place, size_bytes, &address) == DAO_OK ? address : NULL;
}

void *dao_alloc_async(dao_place_t place, size_t size_bytes, dao_stream_t *stream)
{
    uint32_t number;
    dao_runtime_t *runtime = dao_tag_of_thread == 0 ? order_find_fast(place, stream, &number) : NULL;
    if (runtime != NULL) {
        dao_allocator_t *allocator = runtime->device_memory;
        void *address = allocator->ops->alloc_ordered(allocator, size_bytes, number);
        if (address != NULL) {
            return address;
        }
    }
    return alloc_slow(place, size_bytes, stream);
}

/* Frees a block with its fence. One that follows no stream, as small ones of dao_alloc(), is waited for
   instead. */
dao_status_t dao_place_free_fenced(dao_runtime_t *runtime, dao_allocator_t *allocator, void *address,
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

dao_status_t dao_place_free_behind(dao_runtime_t *runtime, dao_place_t place, void *address, uint32_t number,
                                   dao_block_owner_t owner)
{
    dao_allocator_t *allocator = dao_runtime_allocator(runtime, place.kind);
    dao_stream_fence_t fence = dao_stream_fences_mark(runtime->fences, number);
    dao_freeing_t freeing = {0};
    dao_status_t status;
    if (!dao_retained_retires(&runtime->retained, place.kind, address, &fence, owner, &status)) {
        freeing = dao_events_free_begins(allocator, place, address);
        status = dao_place_free_fenced(runtime, allocator, address, &fence, owner);
    }
    if (status == DAO_OK) {
        dao_events_note_freed(runtime->core, place, &freeing);
        dao_stream_fences_record(runtime->fences, &fence);
        dao_waiters_note_free();
    }
    return status;
}

/* Returns true if a place's device is lost, and its streams with it. */
static bool is_lost(dao_place_t place)
{
    dao_runtime_t *runtime = place.kind != DAO_PLACE_KIND_CPU ? dao_runtime_started(place.index) : NULL;
    return runtime != NULL && dao_runtime_is_lost(runtime);
}

static DAO_OFF_THE_PATH dao_status_t free_slow(dao_place_t place, void *address, dao_stream_t *stream)
{
    if (address == NULL) {
        return DAO_OK;
    }
    if (is_lost(place)) {
        return dao_free(place, address); /* there is no order any more */
    }
    order_t order;
    dao_status_t status = order_find("dao_free_async", place, stream, &order);
    if (status == DAO_OK) {
        status = dao_place_free_behind(order.runtime, place, address, order.number, DAO_BLOCK_OWNER_RAW);
    }
    return status == DAO_OK ? DAO_OK : dao_block_free_error("dao_free_async", place, address, status);
}

dao_status_t dao_free_async(dao_place_t place, void *address, dao_stream_t *stream)
{
    uint32_t number;
    dao_runtime_t *runtime = order_find_fast(place, stream, &number);
    return runtime != NULL && !dao_retained_any(&runtime->retained) &&
                   runtime->device_memory->ops->free_ordered(runtime->device_memory, address, number)
               ? DAO_OK
               : free_slow(place, address, stream);
}

dao_status_t dao_record_stream(dao_place_t place, void *address, dao_stream_t *stream)
{
    order_t order;
    dao_status_t status = order_find("dao_record_stream", place, stream, &order);
    if (status == DAO_OK) {
        dao_stream_fences_share(order.runtime->fences, order.number);
        status = order.allocator->ops->stream_mark(order.allocator, address, order.line);
        if (status == DAO_ERR_UNSUPPORTED) { /* the place knows streams, this block none */
            status = dao_error(status,
                               "dao_record_stream: the block at %p follows no stream; dao_alloc_async() "
                               "makes blocks that do",
                               address);
        }
    }
    return status;
}
