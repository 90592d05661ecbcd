/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory of one device, cut from large regions, no rounding to powers of two; small blocks come
   out of slabs in front (slab/thread_cache.h). A free made while another device is the caller's current one
   is put on a lock-free queue: of a large block on the one here, drained at every alloc, free, trim and
   activate that comes here, of a small one in the mail of the slabs, taken out as they are refilled, flushed,
   trimmed or drained. */
#ifndef DAO_ALLOCATORS_PINNED_H
#define DAO_ALLOCATORS_PINNED_H

#include "allocators/accounting/budget.h"
#include "allocators/allocator.h"
#include "allocators/range/range.h"
#include "backends/backend.h"

/* Smallest region that is taken from the backend, if the config does not say. */
#define DAO_PINNED_REGION_BYTES ((size_t)64 << 20)

/* The first one: a program that needs little takes little. */
#define DAO_PINNED_FIRST_BYTES ((size_t)4 << 20)

typedef struct dao_pinned_config {
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device; /* borrowed; outlives the allocator */
    const char *name;             /* the place, for messages; copied */
    dao_budget_t *budget;         /* of all host memory; borrowed; NULL: none */
    dao_stream_fences_t *fences;  /* of the device's streams; borrowed; NULL: no stream order */
    dao_range_fit_t fit;          /* how a hole is chosen */
    size_t segment_bytes;         /* smallest region; 0: DAO_PINNED_REGION_BYTES */
    size_t initial_bytes;         /* taken at once, as one region */
    size_t limit_bytes;           /* as for limit_set */
} dao_pinned_config_t;

/* As dao_device_memory_create(). */
DAO_NODISCARD dao_status_t dao_pinned_create(const dao_pinned_config_t *config,
                                             dao_allocator_t **out_allocator);

/* Both for any allocator of pinned memory. Puts a live block on the queue of deferred frees: for callers that
   must not take the allocator's lock or whose current device is another one. A large block counts as live
   until the queue is drained; errors in the address are found then, and logged. One out of a slab counts as
   free at once, and errors are logged at once, by the caller. Lock-free; the link is kept in a table outside
   of the block. DAO_ERR_NO_HOST_MEMORY is never answered. */
void dao_pinned_free_deferred(dao_allocator_t *allocator, void *address, dao_block_owner_t owner);

/* Reclaims deferred frees, if the allocator has a queue of them. */
void dao_pinned_drain(dao_allocator_t *allocator);

#endif
