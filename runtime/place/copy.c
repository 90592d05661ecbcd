/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between any two places that are done when the call returns.

       from \ to     host (cpu, pinned)    device d
       host          memcpy                H2D stream of d
       device s      D2H stream of s       s == d: compute stream; else between devices, see below

   Between devices, copy_peer runs on the D2H stream of the source. It goes directly where dao_peer_enable()
   allows it, else through the host. A backend without copy_peer copies D2H and H2D, through a pinned staging
   buffer of the source.

   A copy waits for its own bytes and for what was queued before it on its stream. It does not wait for work
   of other streams that writes its source: that is up to the caller. */
#include <dao/memory.h>

#include "base/report/assert.h"

#include "base/internal_error.h"
#include "base/report/error.h"
#include "runtime/place/lookup.h"

#include <string.h>

/* Bytes that go through the staging buffer at a time. */
#define STAGING_BYTES ((size_t)4 << 20)

/* One copy, checked. A runtime is NULL where the place is the host. */
typedef struct transfer {
    dao_place_t dst_place;
    dao_place_t src_place;
    char *dst;
    const char *src;
    size_t size_bytes;
    dao_runtime_t *dst_runtime;
    dao_runtime_t *src_runtime;
} transfer_t;

dao_status_t dao_copy_error(dao_status_t status, dao_place_t dst_place, dao_place_t src_place,
                            size_t size_bytes)
{
    char dst_text[DAO_PLACE_TEXT_BYTES];
    char src_text[DAO_PLACE_TEXT_BYTES];
    return dao_error_vendor(status == DAO_ERR_DEVICE_LOST ? status : DAO_ERR_COPY_FAILED,
                            dao_last_vendor_code(), "copy of %zu bytes from %s to %s failed: %s", size_bytes,
                            dao_place_format(src_place, src_text), dao_place_format(dst_place, dst_text),
                            dao_last_message());
}

/* Queues on a stream of a runtime and waits. */
static dao_status_t copy_on(dao_runtime_t *runtime, dao_stream_role_t role, dao_copy_kind_t kind, void *dst,
                            const void *src, size_t size_bytes)
{
    DAO_ASSERT(runtime != NULL);
    dao_backend_stream_t *stream = runtime->streams[role].backend;
    dao_status_t status = runtime->ops->copy(stream, kind, dst, src, size_bytes);
    return status == DAO_OK ? dao_runtime_wait(runtime, stream) : dao_runtime_told(runtime, status);
}

static dao_status_t copy_peers(const transfer_t *transfer)
{
    dao_runtime_t *runtime = transfer->src_runtime;
    dao_backend_stream_t *stream = runtime->streams[DAO_STREAM_ROLE_D2H].backend;
    dao_status_t status = runtime->ops->copy_peer(stream, transfer->dst_runtime->device, transfer->dst,
                                                  runtime->device, transfer->src, transfer->size_bytes);
    return status == DAO_OK ? dao_runtime_wait(runtime, stream)
                            : dao_runtime_told_of_two(runtime, transfer->dst_runtime, status);
}

/* Moves the bytes through a staging buffer, a piece after the other. */
static dao_status_t copy_pieces(const transfer_t *transfer, char *staging, size_t staging_bytes)
{
    dao_status_t status = DAO_OK;
    size_t piece;
    for (size_t done = 0; status == DAO_OK && done < transfer->size_bytes; done += piece) {
        size_t left = transfer->size_bytes - done;
        piece = left < staging_bytes ? left : staging_bytes;
        status = copy_on(transfer->src_runtime, DAO_STREAM_ROLE_D2H, DAO_COPY_KIND_D2H, staging,
                         transfer->src + done, piece);
        if (status == DAO_OK) {
            status = copy_on(transfer->dst_runtime, DAO_STREAM_ROLE_H2D, DAO_COPY_KIND_H2D,
                             transfer->dst + done, staging, piece);
        }
    }
    return status;
}

/* Through pinned memory of the source's device. */
static dao_status_t copy_staged(const transfer_t *transfer)
{
    dao_allocator_t *pinned = transfer->src_runtime->pinned_memory;
    size_t staging_bytes = transfer->size_bytes < STAGING_BYTES ? transfer->size_bytes : STAGING_BYTES;
    void *staging;
    dao_status_t status = dao_allocator_alloc_owned(pinned, staging_bytes, DAO_BLOCK_OWNER_POOL, &staging);
    if (status != DAO_OK) {
        return status;
    }
    status = copy_pieces(transfer, staging, staging_bytes);
    DAO_MUST_FREE(dao_allocator_free_owned(pinned, staging, DAO_BLOCK_OWNER_POOL));
    return status;
}

static dao_status_t copy_devices(const transfer_t *transfer)
{
    DAO_ASSERT(transfer->src_runtime != NULL);
    DAO_ASSERT(transfer->dst_runtime != NULL);
    if (transfer->src_runtime->device == transfer->dst_runtime->device) {
        return copy_on(transfer->dst_runtime, DAO_STREAM_ROLE_COMPUTE, DAO_COPY_KIND_D2D, transfer->dst,
                       transfer->src, transfer->size_bytes);
    }
    dao_status_t status =
        transfer->src_runtime->ops->copy_peer != NULL &&
                transfer->src_runtime->ops == transfer->dst_runtime->ops /* a program's own memory is not */
            ? copy_peers(transfer)
            : DAO_ERR_UNSUPPORTED;
    return status == DAO_ERR_UNSUPPORTED ? copy_staged(transfer) : status;
}

static dao_status_t copy_route(const transfer_t *transfer)
{
    bool to_device = transfer->dst_place.kind == DAO_PLACE_KIND_DEVICE;
    bool from_device = transfer->src_place.kind == DAO_PLACE_KIND_DEVICE;
    if (to_device && from_device) {
        return copy_devices(transfer);
    }
    if (to_device) {
        return copy_on(transfer->dst_runtime, DAO_STREAM_ROLE_H2D, DAO_COPY_KIND_H2D, transfer->dst,
                       transfer->src, transfer->size_bytes);
    }
    if (from_device) {
        return copy_on(transfer->src_runtime, DAO_STREAM_ROLE_D2H, DAO_COPY_KIND_D2H, transfer->dst,
                       transfer->src, transfer->size_bytes);
    }
    memcpy(transfer->dst, transfer->src, transfer->size_bytes);
    return DAO_OK;
}

/* Finds the runtime of a place; the bytes of a device or pinned place have to lie in one live block of it. A
   lost device's pinned memory can be used, its own cannot. */
static dao_status_t range_check(dao_place_t place, const void *address, size_t size_bytes,
                                dao_runtime_t **out_runtime)
{
    *out_runtime = NULL;
    if (place.kind == DAO_PLACE_KIND_CPU) {
        return DAO_OK;
    }
    dao_status_t status = dao_runtime_borrow(place.index, out_runtime);
    if (status == DAO_OK && place.kind == DAO_PLACE_KIND_DEVICE) {
        status = dao_runtime_health(*out_runtime, "dao_copy");
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_allocator_t *allocator = dao_runtime_allocator(*out_runtime, place.kind);
    char text[DAO_PLACE_TEXT_BYTES];
    dao_block_t block;
    char *begin = NULL;
    size_t block_bytes = 0;
    if (allocator->ops->query(allocator, address, &block) == DAO_OK) {
        begin = block.address;
        block_bytes = block.requested_bytes;
    } else if (place.kind != DAO_PLACE_KIND_DEVICE ||
               !dao_shares_find(&(*out_runtime)->shares, address, &begin, &block_bytes)) {
        return dao_error(DAO_ERR_OUT_OF_BOUNDS, "dao_copy: %p is not in a live block of %s", address,
                         dao_place_format(place, text));
    }
    size_t offset = (size_t)((const char *)address - begin);
    if (offset > block_bytes || size_bytes > block_bytes - offset) {
        return dao_error(DAO_ERR_OUT_OF_BOUNDS,
                         "dao_copy: %zu bytes at %p end outside of their block of %zu bytes at %s",
                         size_bytes, address, block_bytes, dao_place_format(place, text));
    }
    return DAO_OK;
}

/* Only addresses of one memory can overlap: both on the host, or both on one device. */
static bool overlaps(dao_place_t dst_place, const void *dst, dao_place_t src_place, const void *src,
                     size_t size_bytes)
{
    bool to_device = dst_place.kind == DAO_PLACE_KIND_DEVICE;
    bool from_device = src_place.kind == DAO_PLACE_KIND_DEVICE;
    if (to_device != from_device || (to_device && dst_place.index != src_place.index)) {
        return false;
    }
    uintptr_t to = (uintptr_t)dst;
    uintptr_t from = (uintptr_t)src;
    return to < from ? from - to < size_bytes : to - from < size_bytes;
}

dao_status_t dao_copy_check(const char *function, dao_place_t dst_place, const void *dst,
                            dao_place_t src_place, const void *src, size_t size_bytes)
{
    dao_status_t status;
    if ((status = dao_error_unless_range(function, dst, size_bytes)) != DAO_OK ||
        (status = dao_error_unless_range(function, src, size_bytes)) != DAO_OK) {
        return status;
    }
    return !overlaps(dst_place, dst, src_place, src, size_bytes)
               ? DAO_OK
               : dao_error(DAO_ERR_INVALID, "%s: %zu bytes from %p to %p overlap", function, size_bytes, src,
                           dst);
}

dao_status_t dao_copy(dao_place_t dst_place, void *dst, dao_place_t src_place, const void *src,
                      size_t size_bytes)
{
    dao_core_t *core;
    dao_status_t status;
    if ((status = dao_context_enter(&core)) != DAO_OK ||
        (status = dao_place_check(core, dst_place)) != DAO_OK ||
        (status = dao_place_check(core, src_place)) != DAO_OK || size_bytes == 0) {
        return status;
    }
    if (dst == NULL || src == NULL) {
        return dao_error_null("dao_copy", dst == NULL ? "dst" : "src");
    }
    transfer_t transfer = {
        .dst_place = dst_place, .src_place = src_place, .dst = dst, .src = src, .size_bytes = size_bytes};
    if ((status = range_check(dst_place, dst, size_bytes, &transfer.dst_runtime)) != DAO_OK ||
        (status = range_check(src_place, src, size_bytes, &transfer.src_runtime)) != DAO_OK ||
        (status = dao_copy_check("dao_copy", dst_place, dst, src_place, src, size_bytes)) != DAO_OK) {
        return status;
    }
    status = copy_route(&transfer);
    if (status == DAO_OK || status == DAO_ERR_NO_HOST_MEMORY || status == DAO_ERR_LIMIT) {
        return status; /* the last two: no staging buffer was to be had */
    }
    return dao_copy_error(status, dst_place, src_place, size_bytes);
}
