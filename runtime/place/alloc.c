/* SPDX-License-Identifier: Apache-2.0 */
/* Raw memory at a place: dao_alloc() and dao_free(), for a place of each type.

       a device, the host  --started, nothing unusual-->  the allocator's alloc_fast
       all others          -->  lookup.h finds the allocator  -->  device/block.h allocates from it */
#include <dao/memory.h>

#include "allocators/slow_path.h"
#include "base/numbers/path.h"
#include "base/report/error.h"
#include "runtime/device/block.h"
#include "runtime/place/lookup.h"
#include "runtime/place/tag_check.h"

/* In this file they are functions. */
#undef dao_alloc
#undef dao_free

static bool is_host(dao_place_t place)
{
    return place.kind == DAO_PLACE_KIND_CPU && place.index == 0;
}

/* ---- alloc ---- */

static DAO_ON_THE_PATH void *place_alloc(dao_place_t place, const dao_block_request_t *request)
{
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    void *address = NULL;
    dao_status_t status = dao_place_find(place, &allocator, &runtime);
    if (status == DAO_OK) {
        status = dao_block_alloc(place, allocator, runtime, request, &address);
    }
    return status == DAO_OK ? address : NULL;
}

static DAO_ON_THE_PATH void *alloc_or_null(dao_place_t place, size_t size_bytes)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .tag = dao_tag_of_thread};
    return place_alloc(place, &request);
}

void *dao_alloc_pinned(dao_pinned_place_t place, size_t size_bytes)
{
    return alloc_or_null(dao_place_from_pinned(place), size_bytes);
}

static DAO_OFF_THE_PATH void *alloc_device_slow(dao_device_place_t place, size_t size_bytes)
{
    return alloc_or_null(dao_place_from_device(place), size_bytes);
}

/* The fast paths, for the places that are asked most. The allocator falls back on device/block.c. */
void *dao_alloc_device(dao_device_place_t place, size_t size_bytes)
{
    dao_runtime_t *runtime = dao_runtime_started(place.index);
    if (runtime == NULL || dao_tag_of_thread != 0 || dao_slow_path_is_needed()) {
        return alloc_device_slow(place, size_bytes);
    }
    return runtime->device_memory->ops->alloc_fast(runtime->device_memory, size_bytes);
}

static DAO_OFF_THE_PATH void *alloc_cpu_slow(dao_cpu_place_t place, size_t size_bytes)
{
    return alloc_or_null(dao_place_from_cpu(place), size_bytes);
}

void *dao_alloc_cpu(dao_cpu_place_t place, size_t size_bytes)
{
    dao_allocator_t *allocator = dao_host_started();
    if (allocator == NULL || dao_tag_of_thread != 0 || dao_slow_path_is_needed()) {
        return alloc_cpu_slow(place, size_bytes);
    }
    return allocator->ops->alloc_fast(allocator, size_bytes);
}

void *dao_alloc(dao_place_t place, size_t size_bytes)
{
    if (place.kind == DAO_PLACE_KIND_DEVICE) {
        return dao_alloc_device((dao_device_place_t){place.index}, size_bytes);
    }
    return is_host(place) ? dao_alloc_cpu((dao_cpu_place_t){0}, size_bytes)
                          : alloc_or_null(place, size_bytes);
}

static dao_status_t options_check(const dao_alloc_options_t *options)
{
    if ((options->alignment_bytes & (options->alignment_bytes - 1)) != 0) {
        return dao_error(DAO_ERR_INVALID, "dao_alloc_with: an alignment of %zu bytes is no power of two",
                         options->alignment_bytes);
    }
    return options->tag == 0 ? DAO_OK : dao_tag_check("dao_alloc_with", options->tag);
}

void *dao_alloc_with(dao_place_t place, size_t size_bytes, const dao_alloc_options_t *options)
{
    static const dao_alloc_options_t defaults;
    options = options != NULL ? options : &defaults;
    if (options_check(options) != DAO_OK) {
        return NULL;
    }
    dao_block_request_t request = {.size_bytes = size_bytes,
                                   .alignment_bytes = options->alignment_bytes,
                                   .tag = options->tag != 0 ? options->tag : dao_tag_of_thread};
    return place_alloc(place, &request);
}

/* ---- free ---- */

static DAO_ON_THE_PATH dao_status_t free_at(dao_place_t place, void *address)
{
    if (address == NULL) {
        return DAO_OK;
    }
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    dao_status_t status = dao_place_peek(place, &allocator, &runtime);
    if (status == DAO_OK && allocator != NULL) {
        status = dao_block_free(place, allocator, runtime, address);
    } else if (status == DAO_OK) {
        char text[DAO_PLACE_TEXT_BYTES];
        status =
            dao_error(DAO_ERR_FOREIGN_POINTER, "dao_free: %p was not handed out at %s, which was never used",
                      address, dao_place_format(place, text));
    }
    return status == DAO_OK ? DAO_OK : dao_block_free_error("dao_free", place, address, status);
}

dao_status_t dao_free_pinned(dao_pinned_place_t place, void *address)
{
    return free_at(dao_place_from_pinned(place), address);
}

static DAO_OFF_THE_PATH dao_status_t free_device_slow(dao_device_place_t place, void *address)
{
    return free_at(dao_place_from_device(place), address);
}

/* The fast paths, as in dao_alloc_device(); it is free_fast that asks whether the slow path is needed. */
dao_status_t dao_free_device(dao_device_place_t place, void *address)
{
    dao_runtime_t *runtime = dao_runtime_started(place.index);
    return runtime != NULL && !dao_retained_any(&runtime->retained)
               ? runtime->device_memory->ops->free_fast(runtime->device_memory, address)
               : free_device_slow(place, address);
}

static DAO_OFF_THE_PATH dao_status_t free_cpu_slow(dao_cpu_place_t place, void *address)
{
    return free_at(dao_place_from_cpu(place), address);
}

dao_status_t dao_free_cpu(dao_cpu_place_t place, void *address)
{
    dao_allocator_t *allocator = dao_host_started();
    return allocator != NULL ? allocator->ops->free_fast(allocator, address) : free_cpu_slow(place, address);
}

dao_status_t dao_free(dao_place_t place, void *address)
{
    if (place.kind == DAO_PLACE_KIND_DEVICE) {
        return dao_free_device((dao_device_place_t){place.index}, address);
    }
    return is_host(place) ? dao_free_cpu((dao_cpu_place_t){0}, address) : free_at(place, address);
}
