/* SPDX-License-Identifier: Apache-2.0 */
/* Stream order and leases for an allocator that has neither: block strategies (strategy.c) and hardened
   places (hardened.c); and leases for one that follows streams itself: device memory in segments
   (device_memory.c), which is asked for all that is not leased. One layer in front of any of them, which
   keeps what was freed until nobody may use it any more:

   - A block that is freed behind a fence goes back to the allocator when its streams have passed. Until then
     a request of the one stream that its fence names gets it at once, if the allocator would give it just
     such a block. A request of another stream gets it where there is nothing else, and waits for the fence
     on the device.
   - A block of a lease that is freed keeps its place until the lease ends, and only requests under the lease
     get it.

   What else is asked goes to the allocator behind; a program that uses neither pays one load a call. */
#ifndef DAO_ALLOCATORS_STREAM_ORDERED_H
#define DAO_ALLOCATORS_STREAM_ORDERED_H

#include "allocators/allocator.h"

/* Leases of a place at a time. */
#define DAO_STREAM_ORDERED_LEASE_MAX 8u

/* Takes over `inner`, which is nobody else's any more. It has retire, reclaim and reuse. It answers requests
   of any stream with idle memory, or follows streams (stream_mark is not NULL). The table of stream fences is
   borrowed. On failure `inner` stays the caller's. DAO_ERR_NO_HOST_MEMORY.

   Of the result: an alloc with blocks that wait asks the backend's events what has finished, but under a
   lease, where a stream may be captured. free answers DAO_ERR_UNSUPPORTED where there is no host memory to
   note a fence: nothing is changed, wait for the fence and free without one. stream_mark also answers
   DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_stream_ordered_create(dao_stream_fences_t *fences, dao_allocator_t *inner,
                                                     dao_allocator_t **out_allocator);

/* Returns the allocator behind an ordered one, borrowed; any other allocator itself. */
dao_allocator_t *dao_stream_ordered_behind(dao_allocator_t *allocator);

#endif
