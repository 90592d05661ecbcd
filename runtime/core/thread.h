/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread carries with it from call to call. What every allocation reads has a fixed place in the
   thread's own memory. */
#ifndef DAO_RUNTIME_THREAD_H
#define DAO_RUNTIME_THREAD_H

#include "base/threads/thread_local.h"

#include "runtime/core/core.h"

#include <dao/lease.h>
#include <dao/tag.h>

/* ---- segment callbacks ---- */

/* Whether this thread is inside of a segment callback: with an allocator's lock held. Written by
   observe/segment_notifier.c, and by own/ around functions of a program's own memory. */
extern DAO_FAST_THREAD_LOCAL bool dao_thread_is_in_callback;

/* DAO_ERR_REENTRANT, with a message. */
dao_status_t dao_thread_reentrant_error(void);

/* DAO_ERR_REENTRANT, with a message, from inside of a segment callback. */
static inline dao_status_t dao_thread_check(void)
{
    return __builtin_expect(dao_thread_is_in_callback, false) ? dao_thread_reentrant_error() : DAO_OK;
}

/* ---- tags ---- */

/* The tag that this thread's allocations are counted for when they name none. Written by place/tag.c
   alone. */
extern DAO_FAST_THREAD_LOCAL dao_tag_t dao_tag_of_thread;

/* ---- leases ---- */

/* That a thread allocates under a lease. A list: an array for as many leases as there can be is too much for
   the thread-local room of a library that is loaded into a running program. */
typedef struct dao_lease_stay {
    struct dao_lease_stay *next;
    const dao_lease_t *lease;
    const dao_runtime_t *runtime;
    uint32_t number; /* the allocator's, of the lease */
} dao_lease_stay_t;

/* Number of leases that this thread allocates under, each on another device. */
extern DAO_FAST_THREAD_LOCAL uint32_t dao_lease_count_of_thread;

/* Begins a stay, which is the thread's from now on. */
void dao_thread_lease_enter(dao_lease_stay_t *stay);

/* Ends this thread's stay in a lease and returns it; there is one. */
dao_lease_stay_t *dao_thread_lease_leave(const dao_lease_t *lease);

/* Returns true if this thread allocates under a lease. */
bool dao_thread_is_inside(const dao_lease_t *lease);

/* Returns the number of the lease that this thread allocates under on a device; 0: none. */
uint32_t dao_thread_lease_find(const dao_runtime_t *runtime);

/* Names the lease in a request at a place: returns `request`, or a copy of it. */
static inline const dao_block_request_t *dao_thread_lease_name(const dao_block_request_t *request,
                                                               dao_place_t place,
                                                               const dao_runtime_t *runtime,
                                                               dao_block_request_t *copy)
{
    if (__builtin_expect(dao_lease_count_of_thread == 0, true) || place.kind != DAO_PLACE_KIND_DEVICE) {
        return request;
    }
    *copy = *request;
    copy->lease = dao_thread_lease_find(runtime);
    return copy;
}

/* ---- the current device ---- */

/* Sets what dao_device_get_current() returns in this thread. */
void dao_thread_device_set(int32_t device_index);

#endif
