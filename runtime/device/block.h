/* SPDX-License-Identifier: Apache-2.0 */
/* Allocating and freeing at a place that was found: everything around the allocator's own call. Deferred
   frees are reclaimed first, a shortage is relieved, retained blocks are retired, and observers are told. */
#ifndef DAO_RUNTIME_BLOCK_H
#define DAO_RUNTIME_BLOCK_H

#include "base/numbers/path.h"
#include "runtime/core/thread.h"
#include "runtime/core/waiters.h"
#include "runtime/device/deferred_free.h"
#include "runtime/device/pressure_ladder.h"
#include "runtime/observe/event_ring.h"

/* A request has failed for good: its tag, the device's health and the log are told. */
void dao_block_note_failure(dao_place_t place, dao_allocator_t *allocator, dao_runtime_t *runtime,
                            const dao_block_request_t *request, dao_status_t status);

/* Allocates at a place; `runtime` is NULL for the host. */
static DAO_ON_THE_PATH dao_status_t dao_block_alloc(dao_place_t place, dao_allocator_t *allocator,
                                                    dao_runtime_t *runtime,
                                                    const dao_block_request_t *request, void **out_address)
{
    if (request->size_bytes == 0) {
        *out_address = NULL;
        return DAO_OK;
    }
    if (runtime != NULL) {
        if (dao_runtime_is_lost(runtime) && place.kind == DAO_PLACE_KIND_DEVICE) {
            return dao_runtime_health(runtime, "no memory");
        }
        dao_runtime_drain(runtime);
    }
    dao_block_grant_t grant;
    dao_block_request_t leased;
    request = dao_thread_lease_name(request, place, runtime, &leased);
    dao_status_t status = allocator->ops->alloc(allocator, request, &grant);
    if (dao_allocator_is_short(status)) {
        dao_pressure_need_t need = {.place = place,
                                    .allocator = allocator,
                                    .runtime = runtime,
                                    .request = request,
                                    .out_grant = &grant};
        status = dao_pressure_relieve(&need, status);
    }
    if (status == DAO_OK) {
        *out_address = grant.address;
    } else {
        dao_block_note_failure(place, allocator, runtime, request, status);
    }
    dao_events_note_alloc(place, request, *out_address, status);
    return status;
}

/* Frees at a place; `runtime` is NULL for the host. */
static DAO_ON_THE_PATH dao_status_t dao_block_free(dao_place_t place, dao_allocator_t *allocator,
                                                   dao_runtime_t *runtime, void *address)
{
    dao_status_t status = DAO_OK;
    if (runtime != NULL) {
        dao_runtime_drain(runtime);
    }
    if (runtime == NULL ||
        !dao_retained_retires(&runtime->retained, place.kind, address, NULL, DAO_BLOCK_OWNER_RAW, &status)) {
        status = dao_events_are_on() ? dao_events_free(allocator, place, address)
                                     : dao_allocator_free(allocator, address);
    }
    dao_waiters_note_free();
    return status;
}

/* ---- in the order of a stream, which has a number in runtime->fences ---- */

/* dao_alloc_async() at a device or pinned place that was found. NULL: says why, but for a size of 0. */
void *dao_block_alloc_ordered(dao_place_t place, dao_runtime_t *runtime, size_t size_bytes, uint32_t number);

/* Frees a block with its fence, or once that has ended where the block follows no stream. As free_owned of
   dao_allocator_ops_t; DAO_ERR_REENTRANT if this thread must not wait. */
dao_status_t dao_block_free_fenced(dao_runtime_t *runtime, dao_allocator_t *allocator, void *address,
                                   dao_stream_fence_t *fence, dao_block_owner_t owner);

/* dao_free_async() at a device or pinned place, for an owner. After dao_finalize(), too. The answers of
   dao_block_free_fenced(). */
dao_status_t dao_block_free_behind(dao_place_t place, dao_runtime_t *runtime, void *address, uint32_t number,
                                   dao_block_owner_t owner);

/* The same by the allocator's fast path, where it has one; not for DAO_BLOCK_OWNER_RAW. */
dao_status_t dao_block_free_owned_behind(dao_place_t place, dao_runtime_t *runtime, void *address,
                                         uint32_t number, dao_block_owner_t owner);

/* ---- errors, and where the fast paths end ---- */

/* Finds the place, other than `named`, that was used already and has a live block at an address. */
bool dao_block_place_find(const dao_core_t *core, dao_place_t named, const void *address,
                          dao_place_t *out_place);

/* Logs and returns the error of a free that was refused with `status`, naming the place that the address
   belongs to, if there is one. */
dao_status_t dao_block_free_error(const char *function, dao_place_t place, const void *address,
                                  dao_status_t status);

/* Makes the host's allocator fall back from its fast path on dao_block_alloc() and dao_block_free(). Nobody
   else knows of it yet. */
void dao_block_host_fallback_set(dao_allocator_t *host_memory);

/* Makes a runtime's device memory fall back from its fast paths on dao_block_alloc(), dao_block_free() and
   those in the order of a stream. Nobody else knows of the runtime yet. */
void dao_block_fallback_set(dao_runtime_t *runtime);

#endif
