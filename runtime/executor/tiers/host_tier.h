/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory of the executor: a slot for every tensor that has bytes on the host. */
#ifndef DAO_RUNTIME_EXECUTOR_HOST_TIER_H
#define DAO_RUNTIME_EXECUTOR_HOST_TIER_H

#include "allocators/allocator.h"
#include "runtime/executor/records/slice.h"
#include "runtime/executor/streams/fence_queue.h"

/* The share of the limit that is not counted as room to spare. */
#define DAO_HOST_TIER_SPARE_PERCENT 10u

typedef struct dao_host_tier {
    dao_allocator_t *allocator; /* borrowed */
    uint64_t limit_bytes;       /* 0: only the allocator's own */
    bool has_no_bytes;          /* slots are addresses alone, see dao_backend_ops_t */
    uint64_t used_bytes;        /* slots of tensors, and pending ones */
    uint64_t peak_used_bytes;
    dao_fence_queue_t pending; /* slots that were given back while copies could still use them */
} dao_host_tier_t;

void dao_host_tier_init(dao_host_tier_t *tier, dao_allocator_t *allocator, uint64_t limit_bytes,
                        bool has_no_bytes);

/* Copies bytes of the program into a slot, or a slot's to the program; nothing where slots have no bytes. */
void dao_host_tier_copy(const dao_host_tier_t *tier, void *destination, const void *source,
                        size_t size_bytes);

/* Fills a slot with zeros but for some bytes; nothing where slots have no bytes. */
void dao_host_tier_zero_around(const dao_host_tier_t *tier, void *address, size_t size_bytes,
                               dao_slice_t kept);

/* All slots have been given back and their fences are done. */
void dao_host_tier_finish(dao_host_tier_t *tier);

/* Takes a slot. If it does not fit, waits for slots that were given back but are still in use.
   DAO_ERR_HOST_FULL with a message; the device's error from such a wait. */
DAO_NODISCARD dao_status_t dao_host_tier_take(dao_host_tier_t *tier, dao_timeline_t *timeline,
                                              size_t size_bytes, void **out_address);

/* Returns true if a slot of this size fits the limit at all. */
bool dao_host_tier_could_hold(const dao_host_tier_t *tier, size_t size_bytes);

/* Returns true if a slot of this size fits now and leaves a share of the limit free. */
bool dao_host_tier_has_spare(const dao_host_tier_t *tier, size_t size_bytes);

/* Gives back a slot that copies up to `fence` still use. Never fails: without memory for the record the host
   waits; the answer is the error of that wait, with the slot given back all the same. */
dao_status_t dao_host_tier_give(dao_host_tier_t *tier, dao_timeline_t *timeline, void *address,
                                size_t size_bytes, const dao_fence_t *fence);

uint64_t dao_host_tier_pending_bytes(const dao_host_tier_t *tier);

/* Walks the pending slots. */
bool dao_host_tier_is_valid(const dao_host_tier_t *tier);

/* Frees pending slots whose copies are done, oldest first, up to one that is in use. */
void dao_host_tier_look(dao_host_tier_t *tier, const dao_timeline_t *timeline);

/* Frees all pending slots whose copies are done. */
void dao_host_tier_purge(dao_host_tier_t *tier, const dao_timeline_t *timeline);

#endif
