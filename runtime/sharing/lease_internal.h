/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of runtime/ share of leases: what this thread allocates under, and frees that are retired.
   */
#ifndef DAO_RUNTIME_LEASE_INTERNAL_H
#define DAO_RUNTIME_LEASE_INTERNAL_H

#include "base/threads/thread_local.h"

#include "runtime/core/runtime_internal.h"

#include <dao/lease.h>

/* Number of leases that this thread allocates under, each at another place. Written by lease.c alone. Every
   allocation reads it, so it has a fixed place in the thread's own memory. */
extern DAO_FAST_THREAD_LOCAL uint32_t dao_lease_count_of_thread;

/* Gives the number of the lease that this thread allocates under on a device; 0: none. */
uint32_t dao_lease_find(const dao_runtime_t *runtime);

/* Names the lease in a request at a place: gives `request`, or a copy of it. */
static inline const dao_block_request_t *dao_lease_name(const dao_block_request_t *request, dao_place_t place,
                                                        const dao_runtime_t *runtime,
                                                        dao_block_request_t *copy)
{
    if (__builtin_expect(dao_lease_count_of_thread == 0, true) || place.kind != DAO_PLACE_KIND_DEVICE) {
        return request;
    }
    *copy = *request;
    copy->lease = dao_lease_find(runtime);
    return copy;
}

/* Tells whether a free at a place is of a retained block: then it is retired, or refused, as *out_status
   says. `fence` as for dao_allocator_ops_t.free. */
bool dao_lease_retires_slow(dao_runtime_t *runtime, const void *address, const dao_stream_fence_t *fence,
                            dao_status_t *out_status);
static inline bool dao_lease_retires(dao_runtime_t *runtime, dao_place_kind_t kind, const void *address,
                                     const dao_stream_fence_t *fence, dao_status_t *out_status)
{
    return dao_retained_any(&runtime->retained) && kind == DAO_PLACE_KIND_DEVICE &&
           dao_lease_retires_slow(runtime, address, fence, out_status);
}

#endif
