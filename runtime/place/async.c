/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation and free in stream order: dao_alloc_async(), dao_free_async(), dao_record_stream().

   The device's table of stream fences (allocators/stream_fence.h) keeps the order, and free blocks carry
   fences. Here each public stream gets its number in that table, and the calls are made in the order that
   makes them safe:

       usual    number --> the allocator's alloc_ordered, free_ordered
       alloc    number --> device/block.h allocates, and the stream waits, on the device
       free     number --> device/block.h frees behind the stream
       record   number --> the stream is marked as shared --> the allocator marks the block

   A stream has a number from its first such call until it is destroyed. */
#include <dao/async.h>
#include <dao/memory.h>

#include "allocators/slow_path.h"
#include "base/numbers/path.h"
#include "base/report/error.h"

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
    if (status != DAO_OK) {
        return status;
    }
    dao_runtime_t *runtime = out_order->runtime;
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

/* Returns the stream to follow where none is named; NULL: the device was not used yet, or it is none. */
static inline const dao_stream_t *stream_of(dao_place_t place)
{
    dao_runtime_t *runtime = place.kind == DAO_PLACE_KIND_DEVICE ? dao_runtime_started(place.index) : NULL;
    return runtime != NULL ? &runtime->streams[DAO_STREAM_ROLE_COMPUTE] : NULL;
}

/* Finds the runtime of a device, and the number of the stream to follow. Returns false unless that has one,
   which still is that of its handle. */
static DAO_ON_THE_PATH bool order_find_fast(dao_place_t place, const dao_stream_t *stream,
                                            dao_runtime_t **out_runtime, uint32_t *out_number)
{
    stream = __builtin_expect(stream != NULL, true) ? stream : stream_of(place);
    if (stream == NULL) {
        return false;
    }
    *out_runtime = stream->runtime;
    *out_number = atomic_load_explicit(&stream->fast_number, memory_order_acquire);
    return dao_runtime_is_shown_at(*out_runtime, place) && *out_number != 0;
}

static DAO_OFF_THE_PATH void *alloc_slow(dao_place_t place, size_t size_bytes, dao_stream_t *stream)
{
    order_t order;
    return order_find("dao_alloc_async", place, stream, &order) == DAO_OK
               ? dao_block_alloc_ordered(place, order.runtime, size_bytes, order.number)
               : NULL;
}

/* The allocator falls back on device/block.c. */
void *dao_alloc_async(dao_place_t place, size_t size_bytes, dao_stream_t *stream)
{
    dao_runtime_t *runtime;
    uint32_t number;
    if (!order_find_fast(place, stream, &runtime, &number) || dao_tag_of_thread != 0 ||
        dao_slow_path_is_needed()) {
        return alloc_slow(place, size_bytes, stream);
    }
    return runtime->device_memory->ops->alloc_ordered(runtime->device_memory, size_bytes, number);
}

static DAO_OFF_THE_PATH dao_status_t free_slow(dao_place_t place, void *address, dao_stream_t *stream)
{
    if (address == NULL) {
        return DAO_OK;
    }
    dao_runtime_t *runtime = place.kind != DAO_PLACE_KIND_CPU ? dao_runtime_started(place.index) : NULL;
    if (runtime != NULL && dao_runtime_is_lost(runtime)) {
        return dao_free(place, address); /* there is no order any more */
    }
    order_t order;
    dao_status_t status = order_find("dao_free_async", place, stream, &order);
    if (status == DAO_OK) {
        status = dao_block_free_behind(place, order.runtime, address, order.number, DAO_BLOCK_OWNER_RAW);
    }
    return status == DAO_OK ? DAO_OK : dao_block_free_error("dao_free_async", place, address, status);
}

/* The allocator falls back on device/block.c, and looks at the slow path itself. */
dao_status_t dao_free_async(dao_place_t place, void *address, dao_stream_t *stream)
{
    dao_runtime_t *runtime;
    uint32_t number;
    if (!order_find_fast(place, stream, &runtime, &number) || dao_retained_any(&runtime->retained)) {
        return free_slow(place, address, stream);
    }
    return runtime->device_memory->ops->free_ordered(runtime->device_memory, address, number,
                                                     DAO_BLOCK_OWNER_RAW);
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
