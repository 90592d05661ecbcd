/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a device that leases retain. A free of one is retired: it waits until the last of these leases
   has ended. The lock guards the leases' own state as well; unless it is said, functions are called with
   it. */
#ifndef DAO_RUNTIME_RETAINED_H
#define DAO_RUNTIME_RETAINED_H

#include "allocators/stream_fence.h"
#include "base/threads/sync.h"

#include <dao/observe.h>

#include <stdatomic.h>

typedef struct dao_retained_block {
    void *address;
    uint64_t block_bytes;
    dao_block_owner_t owner;
    uint32_t lease_count;     /* leases that retain it; at least 1 */
    bool is_freed;            /* its owner has freed it */
    dao_stream_fence_t fence; /* by which streams it may be in use then */
} dao_retained_block_t;

typedef struct dao_retained {
    dao_mutex_t lock;
    dao_retained_block_t *blocks; /* by their addresses */
    size_t capacity;
    _Atomic size_t count; /* written with the lock */
    int32_t device_index; /* whose blocks they are, for messages */
    size_t leaving_count; /* dropped before dao_retained_drop_end(): their room is kept for a way back */
} dao_retained_t;

void dao_retained_init(dao_retained_t *retained, int32_t device_index);
void dao_retained_finish(dao_retained_t *retained); /* nothing is retained any more */

/* Returns true if any block is retained. Threads: any. One load. */
static inline bool dao_retained_any(const dao_retained_t *retained)
{
    return __builtin_expect(atomic_load_explicit(&retained->count, memory_order_relaxed) != 0, false);
}

/* Returns the retained block at an address, until the next change; NULL if there is none. O(log blocks). */
dao_retained_block_t *dao_retained_find(const dao_retained_t *retained, const void *address);

/* Makes room for one more block. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_retained_reserve(dao_retained_t *retained);

/* Counts one more lease that retains a block, for which there is room. */
void dao_retained_add(dao_retained_t *retained, void *address, uint64_t block_bytes, dao_block_owner_t owner);

/* Counts one lease less; *out_block is what the block was before. True if that was the last one and its owner
   has freed it: the caller frees it now, and then calls dao_retained_drop_end(). */
bool dao_retained_drop(dao_retained_t *retained, const void *address, dao_retained_block_t *out_block);

/* Ends a drop that gave true. `back`: NULL, or the block, which could not be freed and is retained again. */
void dao_retained_drop_end(dao_retained_t *retained, const dao_retained_block_t *back);

/* Retires a block that its owner frees, if it is retained. Returns false if it is not: the caller frees it.
   Else the free waits for the leases, or is refused, as *out_status says. `fence` as for
   dao_allocator_ops_t.free. Called without the lock. */
bool dao_retained_retires_slow(dao_retained_t *retained, const void *address, const dao_stream_fence_t *fence,
                               dao_block_owner_t owner, dao_status_t *out_status);
static inline bool dao_retained_retires(dao_retained_t *retained, dao_place_kind_t kind, const void *address,
                                        const dao_stream_fence_t *fence, dao_block_owner_t owner,
                                        dao_status_t *out_status)
{
    return dao_retained_any(retained) && kind == DAO_PLACE_KIND_DEVICE &&
           dao_retained_retires_slow(retained, address, fence, owner, out_status);
}

/* Returns true if a block is retained and its owner has freed it. Called without the lock. */
bool dao_retained_is_freed(dao_retained_t *retained, const void *address);

bool dao_retained_is_valid(const dao_retained_t *retained);

#endif
