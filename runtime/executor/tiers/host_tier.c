/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of pinned memory.

       taken --give, copies in flight--> pending --purge, copies done--> free
         `------------give, no copy in flight----------------------------^

   Invariants: used_bytes == bytes of taken slots + bytes of pending ones; used_bytes <= limit_bytes,
   unless that is 0; used_bytes <= peak_used_bytes; pending_count <= pending_capacity. */
#include "runtime/executor/tiers/host_tier.h"

#include "base/internal_error.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <string.h>

/* Pending slots that the list holds at first. */
#define PENDING_AT_FIRST 64

void dao_host_tier_init(dao_host_tier_t *tier, dao_allocator_t *allocator, uint64_t limit_bytes,
                        bool has_no_bytes)
{
    memset(tier, 0, sizeof(*tier));
    tier->allocator = allocator;
    tier->limit_bytes = limit_bytes;
    tier->has_no_bytes = has_no_bytes;
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

static void free_slot(dao_host_tier_t *tier, void *address, size_t size_bytes)
{
    DAO_ASSERT(tier->used_bytes >= size_bytes);
    DAO_MUST_FREE(dao_allocator_free_owned(tier->allocator, address, DAO_BLOCK_OWNER_POOL));
    tier->used_bytes -= size_bytes;
}

bool dao_host_tier_is_valid(const dao_host_tier_t *tier)
{
    uint64_t pending_bytes = 0;
    for (size_t i = 0; i < tier->pending_count; i++) {
        pending_bytes += tier->pending[i].size_bytes;
    }
    return pending_bytes <= tier->used_bytes && tier->used_bytes <= tier->peak_used_bytes &&
           (tier->limit_bytes == 0 || tier->used_bytes <= tier->limit_bytes) &&
           tier->pending_count <= tier->pending_capacity;
}

void dao_host_tier_purge(dao_host_tier_t *tier, const dao_timeline_t *timeline)
{
    size_t kept = 0;
    for (size_t i = 0; i < tier->pending_count; i++) {
        dao_host_pending_t *pending = &tier->pending[i];
        if (dao_timeline_is_done(timeline, &pending->fence)) {
            free_slot(tier, pending->address, pending->size_bytes);
        } else {
            tier->pending[kept++] = *pending;
        }
    }
    tier->pending_count = kept;
    DAO_ASSERT_HEAVY(dao_host_tier_is_valid(tier));
}

void dao_host_tier_finish(dao_host_tier_t *tier)
{
    for (size_t i = 0; i < tier->pending_count; i++) {
        free_slot(tier, tier->pending[i].address, tier->pending[i].size_bytes);
    }
    DAO_ASSERT(tier->used_bytes == 0);
    dao_host_free(tier->pending);
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
        if (status != DAO_ERR_HOST_FULL || tier->pending_count == 0) {
            return status;
        }
        status = dao_timeline_poll(timeline);
        if (status == DAO_OK && !dao_timeline_is_done(timeline, &tier->pending[0].fence)) {
            timeline->throttle_count++;
            status = dao_timeline_wait(timeline, &tier->pending[0].fence);
        }
        if (status != DAO_OK) {
            return status;
        }
        dao_host_tier_purge(tier, timeline);
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

static bool make_room_for_pending(dao_host_tier_t *tier)
{
    if (tier->pending_count < tier->pending_capacity) {
        return true;
    }
    size_t capacity = tier->pending_capacity == 0 ? PENDING_AT_FIRST : 2 * tier->pending_capacity;
    dao_host_pending_t *pending = dao_host_realloc(tier->pending, capacity, sizeof(*pending));
    if (pending == NULL) {
        return false;
    }
    tier->pending = pending;
    tier->pending_capacity = capacity;
    return true;
}

dao_status_t dao_host_tier_give(dao_host_tier_t *tier, dao_timeline_t *timeline, void *address,
                                size_t size_bytes, const dao_fence_t *fence)
{
    dao_status_t status = DAO_OK;
    DAO_ASSERT(address != NULL);
    DAO_ASSERT(tier->used_bytes >= size_bytes);
    if (!dao_timeline_is_done(timeline, fence)) {
        if (tier->pending_count == tier->pending_capacity) {
            dao_host_tier_purge(tier, timeline); /* seldom, as every purge walks the list */
        }
        if (make_room_for_pending(tier)) {
            DAO_ASSERT(tier->pending_count < tier->pending_capacity);
            tier->pending[tier->pending_count++] = (dao_host_pending_t){address, size_bytes, *fence};
            return DAO_OK;
        }
        status = dao_timeline_wait(timeline, fence);
    }
    free_slot(tier, address, size_bytes);
    return status;
}
