/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of pinned memory.

       taken --give, copies in flight--> pending --purge, copies done--> free
         `------------give, no copy in flight----------------------------^

   Invariants: used_bytes == bytes of taken slots + bytes of pending ones; used_bytes <= limit_bytes,
   unless that is 0; used_bytes <= peak_used_bytes. */
#include "runtime/executor/tiers/host_tier.h"

#include "base/internal_error.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <string.h>

static void free_slot(dao_host_tier_t *tier, void *address, size_t size_bytes)
{
    DAO_ASSERT(tier->used_bytes >= size_bytes);
    DAO_MUST_FREE(dao_allocator_free_owned(tier->allocator, address, DAO_BLOCK_OWNER_POOL));
    tier->used_bytes -= size_bytes;
}

/* A pending slot is in use no more. */
static void free_pending(void *user, const dao_fenced_t *slot)
{
    free_slot(user, (void *)(uintptr_t)slot->begin, slot->size_bytes);
}

void dao_host_tier_init(dao_host_tier_t *tier, dao_allocator_t *allocator, uint64_t limit_bytes,
                        bool has_no_bytes)
{
    memset(tier, 0, sizeof(*tier));
    tier->allocator = allocator;
    tier->limit_bytes = limit_bytes;
    tier->has_no_bytes = has_no_bytes;
    tier->pending.leave = free_pending;
    tier->pending.user = tier;
}

void dao_host_tier_copy(const dao_host_tier_t *tier, void *destination, const void *source, size_t size_bytes)
{
    if (!tier->has_no_bytes) {
        memcpy(destination, source, size_bytes);
    }
}

void dao_host_tier_zero_around(const dao_host_tier_t *tier, void *address, size_t size_bytes,
                               dao_slice_t kept)
{
    DAO_ASSERT(kept.end_bytes <= size_bytes);
    if (!tier->has_no_bytes) {
        memset(address, 0, kept.begin_bytes);
        memset((char *)address + kept.end_bytes, 0, size_bytes - kept.end_bytes);
    }
}

uint64_t dao_host_tier_pending_bytes(const dao_host_tier_t *tier)
{
    uint64_t pending_bytes = 0;
    for (size_t i = tier->pending.first; i < tier->pending.end; i++) {
        pending_bytes += tier->pending.entries[i].size_bytes;
    }
    return pending_bytes;
}

bool dao_host_tier_is_valid(const dao_host_tier_t *tier)
{
    return dao_fence_queue_is_valid(&tier->pending) &&
           dao_host_tier_pending_bytes(tier) <= tier->used_bytes &&
           tier->used_bytes <= tier->peak_used_bytes &&
           (tier->limit_bytes == 0 || tier->used_bytes <= tier->limit_bytes);
}

void dao_host_tier_look(dao_host_tier_t *tier, const dao_timeline_t *timeline)
{
    dao_fence_queue_trim(&tier->pending, timeline);
}

void dao_host_tier_purge(dao_host_tier_t *tier, const dao_timeline_t *timeline)
{
    dao_fence_queue_sweep(&tier->pending, timeline);
    DAO_ASSERT_HEAVY(dao_host_tier_is_valid(tier));
}

void dao_host_tier_finish(dao_host_tier_t *tier)
{
    dao_fence_queue_finish(&tier->pending);
    DAO_ASSERT(tier->used_bytes == 0);
    memset(tier, 0, sizeof(*tier));
}

/* One try, without waiting. */
static dao_status_t try_take(dao_host_tier_t *tier, size_t size_bytes, void **out_address)
{
    if (tier->limit_bytes != 0 &&
        (size_bytes > tier->limit_bytes || tier->used_bytes > tier->limit_bytes - size_bytes)) {
        return dao_error(DAO_ERR_HOST_FULL,
                         "host memory: %zu bytes asked for, %" PRIu64 " of the limit of %" PRIu64
                         " in use; raise host_bytes",
                         size_bytes, tier->used_bytes, tier->limit_bytes);
    }
    dao_status_t status =
        dao_allocator_alloc_owned(tier->allocator, size_bytes, DAO_BLOCK_OWNER_POOL, out_address);
    if (status != DAO_OK) {
        return dao_error(DAO_ERR_HOST_FULL, "host memory: %zu bytes asked for, %" PRIu64 " in use: %s",
                         size_bytes, tier->used_bytes, dao_last_message());
    }
    tier->used_bytes += size_bytes;
    if (tier->used_bytes > tier->peak_used_bytes) {
        tier->peak_used_bytes = tier->used_bytes;
    }
    DAO_ASSERT_HEAVY(dao_host_tier_is_valid(tier));
    return DAO_OK;
}

dao_status_t dao_host_tier_take(dao_host_tier_t *tier, dao_timeline_t *timeline, size_t size_bytes,
                                void **out_address)
{
    for (;;) {
        dao_status_t status = try_take(tier, size_bytes, out_address);
        size_t pending_count = dao_fence_queue_count(&tier->pending);
        if (status != DAO_ERR_HOST_FULL || pending_count == 0) {
            return status;
        }
        status = dao_timeline_poll(timeline);
        dao_host_tier_purge(tier, timeline);
        if (status == DAO_OK && dao_fence_queue_count(&tier->pending) == pending_count) {
            timeline->throttle_count++;
            status = dao_timeline_wait(timeline, &tier->pending.entries[tier->pending.first].fence);
            dao_host_tier_purge(tier, timeline);
        }
        if (status != DAO_OK) {
            return status;
        }
    }
}

bool dao_host_tier_could_hold(const dao_host_tier_t *tier, size_t size_bytes)
{
    return tier->limit_bytes == 0 || size_bytes <= tier->limit_bytes;
}

bool dao_host_tier_has_spare(const dao_host_tier_t *tier, size_t size_bytes)
{
    uint64_t kept_bytes = tier->limit_bytes / 100 * DAO_HOST_TIER_SPARE_PERCENT;
    return tier->limit_bytes == 0 || (dao_host_tier_could_hold(tier, size_bytes) &&
                                      tier->used_bytes + kept_bytes <= tier->limit_bytes - size_bytes);
}

dao_status_t dao_host_tier_give(dao_host_tier_t *tier, dao_timeline_t *timeline, void *address,
                                size_t size_bytes, const dao_fence_t *fence)
{
    dao_status_t status = DAO_OK;
    DAO_ASSERT(address != NULL);
    DAO_ASSERT(tier->used_bytes >= size_bytes);
    if (!dao_timeline_is_done(timeline, fence)) {
        dao_fenced_t slot = {
            .begin = (uint64_t)(uintptr_t)address, .size_bytes = size_bytes, .fence = *fence};
        if (dao_fence_queue_push(&tier->pending, timeline, &slot)) {
            return DAO_OK;
        }
        status = dao_timeline_wait(timeline, fence);
    }
    free_slot(tier, address, size_bytes);
    return status;
}
