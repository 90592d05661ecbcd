/* SPDX-License-Identifier: Apache-2.0 */
/* The thread cache: an allocator that serves small requests from objects that each thread keeps, and hands
   everything else to the allocator that it is stacked over. The objects are cut from slabs (slab.h). */
#ifndef DAO_ALLOCATORS_THREAD_CACHE_H
#define DAO_ALLOCATORS_THREAD_CACHE_H

#include "allocators/allocator.h"
#include "allocators/slab/slab.h"

/* Stacks it over `inner`, which belongs to it from then on: destroying it destroys `inner`. A failure leaves
   `inner` with the caller. `name` is the place, for messages; copied. `sizes` is one of slab.h.
   DAO_ERR_NO_HOST_MEMORY.

   Small are requests of at most `small_bytes`, which is at most DAO_SLAB_OBJECT_BYTES_MAX (0:
   sizes->default_bytes), aligned to at most a unit of `sizes`, that follow no stream. Such a block
   takes an empty fence alone: freed with another one, the answer is DAO_ERR_UNSUPPORTED and nothing is
   changed; wait for the fence first. stream_mark(), free_deferred() and drain() are there if `inner` has
   them: a small block that is freed so is counted as free at once, and its object is in the mail (slab.h)
   until the next refill, flush, trim or drain; what is wrong with the address is logged at once.

   What the contract of allocator.h leaves open:

   - An allocation that fails for want of memory has given back what all threads kept; those that were in a
     call meanwhile do so at their next one. So does trim(), and what threads keep that have long been idle
     goes back as others allocate and free.
   - Peaks are those of `inner`, in which whole slabs count: never too low, too high by at most what slabs
     keep.
   - Counters belong to one moment, but for what other threads are doing just then.
   - is_valid() may answer false while another thread allocates or frees.

   Threads: any. Waits: as `inner`, and only where it is asked. Cost: a small pair about 160 instructions, no
   lock, and one atomic exchange, in the free: of two threads that free one block at the same time one is told
   so; another one about 25 more than `inner`. */
DAO_NODISCARD dao_status_t dao_thread_cache_create(dao_allocator_t *inner, const char *name,
                                                   const dao_slab_sizes_t *sizes, size_t small_bytes,
                                                   dao_allocator_t **out_allocator);

#endif
