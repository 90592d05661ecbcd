/* SPDX-License-Identifier: Apache-2.0 */
/* From a place to its allocator. */
#ifndef DAO_RUNTIME_LOOKUP_H
#define DAO_RUNTIME_LOOKUP_H

#include "runtime/core/thread.h"
#include "runtime/device/runtime.h"
#include "runtime/start/context.h"

/* Finds the host's allocator, starting its place if need be. Says why a place is none. */
DAO_NODISCARD dao_status_t dao_place_find_host(dao_place_t place, dao_allocator_t **out_allocator);

/* Finds a place's allocator and runtime, borrowed, starting the place if need be. The runtime is NULL for the
   host. Every allocation comes here, so a device that is started is found in line. */
static inline dao_status_t dao_place_find(dao_place_t place, dao_allocator_t **out_allocator,
                                          dao_runtime_t **out_runtime)
{
    *out_runtime = NULL;
    if (dao_thread_check() != DAO_OK) {
        return DAO_ERR_REENTRANT;
    }
    if (place.kind == DAO_PLACE_KIND_PINNED || place.kind == DAO_PLACE_KIND_DEVICE) {
        dao_runtime_t *runtime = dao_runtime_started(place.index);
        if (runtime == NULL) {
            dao_status_t status = dao_runtime_borrow(place.index, &runtime);
            if (status != DAO_OK) {
                return status;
            }
        }
        *out_runtime = runtime;
        *out_allocator =
            place.kind == DAO_PLACE_KIND_PINNED ? runtime->pinned_memory : runtime->device_memory;
        return DAO_OK;
    }
    return dao_place_find_host(place, out_allocator);
}

/* dao_place_peek() where the place was not used yet, and for the host. */
DAO_NODISCARD dao_status_t dao_place_peek_slow(dao_place_t place, dao_allocator_t **out_allocator,
                                               dao_runtime_t **out_runtime);

/* As dao_place_find(), but a place that was not used yet is left alone: *out_allocator is NULL then. */
static inline dao_status_t dao_place_peek(dao_place_t place, dao_allocator_t **out_allocator,
                                          dao_runtime_t **out_runtime)
{
    if (dao_thread_check() != DAO_OK) {
        return DAO_ERR_REENTRANT;
    }
    if (place.kind == DAO_PLACE_KIND_PINNED || place.kind == DAO_PLACE_KIND_DEVICE) {
        dao_runtime_t *runtime = dao_runtime_started(place.index);
        if (runtime != NULL) {
            *out_runtime = runtime;
            *out_allocator =
                place.kind == DAO_PLACE_KIND_PINNED ? runtime->pinned_memory : runtime->device_memory;
            return DAO_OK;
        }
    }
    return dao_place_peek_slow(place, out_allocator, out_runtime);
}

/* As dao_place_peek(), after the frees that wait were reclaimed as far as they can be. *out_runtime is not
   asked for. */
DAO_NODISCARD dao_status_t dao_place_peek_drained(dao_place_t place, dao_allocator_t **out_allocator);

/* Checks what every copy needs: both ranges end in the address space, and share no byte: copy.c. */
DAO_NODISCARD dao_status_t dao_copy_check(const char *function, dao_place_t dst_place, const void *dst,
                                          dao_place_t src_place, const void *src, size_t size_bytes);

/* Prepares an error of a copy: copy.c. DAO_ERR_DEVICE_LOST stays, all else becomes DAO_ERR_COPY_FAILED with
   the same text. */
dao_status_t dao_copy_error(dao_status_t status, dao_place_t dst_place, dao_place_t src_place,
                            size_t size_bytes);

#endif
