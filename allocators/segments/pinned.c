/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory: segments of 64 MiB and more (segments.c), and a queue of deferred frees beside them.

       alloc, free, trim, stats, drain ──> lock ──> queue is emptied ──> segments
       free_deferred ────────────────────> queue, without the lock

   What holds between calls, beside what segments.c says:

       slots of the queue >= live blocks + spare ones, so that a deferred free of a live block needs no memory
       a deferred block is live, and counted as such, until the queue is emptied

   Addresses in the queue that turn out wrong are kept in their slots until the lock is given up by a call
   that may log them. Counters may be looked at, and slabs freed, by who holds a lock of their own. The lock
   is held while a region is pinned, which may take long: a second thread that needs a region waits for this
   one anyway, and free() makes no backend call. */
#include "allocators/segments/pinned.h"

#include "allocators/segments/free_queue.h"
#include "allocators/segments/segmented.h"
#include "base/memory/host.h"
#include "base/report/error.h"

typedef struct pinned {
    dao_segmented_t segmented;
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device;
    dao_free_queue_t queue; /* its slot_count is guarded by the lock */
    _Atomic uint32_t wrong; /* slots of wrong addresses that are to be logged; written with the lock */
} pinned_t;

static pinned_t *pinned_of(dao_allocator_t *allocator)
{
    return (pinned_t *)allocator;
}

static bool is_valid_locked(const dao_segmented_t *segmented)
{
    const pinned_t *pinned = (const pinned_t *)segmented;
    dao_recount_t recount = {0};
    return dao_segmented_recounts(segmented, &recount) &&
           pinned->queue.slot_count >=
               (recount.live_count > 0 ? recount.live_count + DAO_FREE_QUEUE_SPARE_COUNT : 0);
}

static dao_status_t free_locked(void *user, void *address, dao_block_owner_t owner)
{
    pinned_t *pinned = user;
    return dao_segments_free(&pinned->segmented.segments, address, NULL, owner);
}

/* Takes the lock and reclaims deferred frees. */
static void lock_and_drain(dao_segmented_t *segmented)
{
    pinned_t *pinned = pinned_of(&segmented->base);
    dao_segmented_lock(segmented);
    uint32_t wrong = atomic_load_explicit(&pinned->wrong, memory_order_relaxed);
    wrong = dao_free_queue_reclaim(&pinned->queue, wrong, free_locked, pinned);
    atomic_store_explicit(&pinned->wrong, wrong, memory_order_relaxed);
}

/* Unlocks, then logs the wrong addresses. */
static void unlock_and_report(dao_segmented_t *segmented)
{
    pinned_t *pinned = pinned_of(&segmented->base);
    uint32_t wrong = atomic_load_explicit(&pinned->wrong, memory_order_relaxed);
    atomic_store_explicit(&pinned->wrong, DAO_FREE_QUEUE_NONE, memory_order_relaxed);
    dao_segmented_unlock(segmented);
    dao_free_queue_report(&pinned->queue, wrong, segmented->ledger.name);
}

static const dao_segmented_ways_t pinned_ways = {
    .is_valid_locked = is_valid_locked, .lock = lock_and_drain, .unlock = unlock_and_report};

/* Makes slots for deferred frees of one more live block. */
static dao_status_t reserve_locked(pinned_t *pinned)
{
    dao_segmented_t *segmented = &pinned->segmented;
    dao_status_t status = dao_free_queue_reserve(&pinned->queue, segmented->ledger.stats.live_count + 1);
    if (status == DAO_OK && segmented->fast_count > 0) {
        segmented->fast_count = pinned->queue.slot_count - DAO_FREE_QUEUE_SPARE_COUNT;
    }
    return status;
}

static dao_status_t pinned_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                 dao_block_grant_t *out_grant)
{
    pinned_t *pinned = pinned_of(allocator);
    DAO_ASSERT(request->size_bytes > 0);
    lock_and_drain(&pinned->segmented);
    dao_status_t status = reserve_locked(pinned);
    if (status == DAO_OK) {
        status = dao_segments_alloc(&pinned->segmented.segments, request, out_grant);
    } else {
        status = dao_segmented_fail(&pinned->segmented, status, request);
    }
    unlock_and_report(&pinned->segmented);
    return status;
}

static dao_status_t pinned_free_owned(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence,
                                      dao_block_owner_t owner)
{
    pinned_t *pinned = pinned_of(allocator);
    lock_and_drain(&pinned->segmented);
    dao_status_t status = dao_segments_free(&pinned->segmented.segments, address, fence, owner);
    if (owner == DAO_BLOCK_OWNER_SLAB) {
        dao_segmented_unlock(&pinned->segmented);
    } else {
        unlock_and_report(&pinned->segmented);
    }
    return dao_segmented_check_free(&pinned->segmented, status, address);
}

static dao_status_t pinned_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence)
{
    return pinned_free_owned(allocator, address, fence, DAO_BLOCK_OWNER_RAW);
}

/* Deferred frees come first: the queue is emptied, and what was wrong is logged, off the fast paths. */
static bool has_deferred(dao_allocator_t *allocator)
{
    const pinned_t *pinned = pinned_of(allocator);
    return atomic_load_explicit(&pinned->queue.pending_count, memory_order_relaxed) != 0 ||
           atomic_load_explicit(&pinned->wrong, memory_order_relaxed) != DAO_FREE_QUEUE_NONE;
}

static void *pinned_alloc_fast(dao_allocator_t *allocator, size_t size_bytes)
{
    return has_deferred(allocator) ? dao_allocator_alloc_fallback(allocator, size_bytes)
                                   : dao_segmented_alloc_fast(allocator, size_bytes);
}

static dao_status_t pinned_free_fast(dao_allocator_t *allocator, void *address)
{
    return has_deferred(allocator) ? dao_allocator_free_fallback(allocator, address)
                                   : dao_segmented_free_fast(allocator, address);
}

static void pinned_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    dao_segmented_stats_get(allocator, out_stats);
    out_stats->deferred_count = atomic_load(&pinned_of(allocator)->queue.pending_count);
}

static void pinned_destroy(dao_allocator_t *allocator)
{
    pinned_t *pinned = pinned_of(allocator);
    dao_segmented_finish(&pinned->segmented);
    dao_free_queue_finish(&pinned->queue);
    dao_host_free(pinned);
}

static void pinned_free_deferred(dao_allocator_t *allocator, void *address, dao_block_owner_t owner)
{
    dao_free_queue_push(&pinned_of(allocator)->queue, address, owner);
}

static void pinned_drain(dao_allocator_t *allocator)
{
    dao_segmented_t *segmented = dao_segmented_of(allocator);
    lock_and_drain(segmented);
    unlock_and_report(segmented);
}

static const dao_allocator_ops_t pinned_ops = {
    .name = "pinned",
    .alloc = pinned_alloc,
    .alloc_fast = pinned_alloc_fast,
    .free_fast = pinned_free_fast,
    .free = pinned_free,
    .free_owned = pinned_free_owned,
    .stream_mark = dao_segmented_stream_mark,
    .query = dao_segmented_query,
    .trim = dao_segmented_trim,
    .limit_set = dao_segmented_limit_set,
    .used_get = dao_segmented_used_get,
    .stats_get = pinned_stats_get,
    .stats_reset_peaks = dao_segmented_stats_reset_peaks,
    .walk = dao_segmented_walk,
    .walk_all = dao_segmented_walk_all,
    .is_valid = dao_segmented_is_valid,
    .destroy = pinned_destroy,
    .free_deferred = pinned_free_deferred,
    .drain = pinned_drain,
};

void dao_pinned_free_deferred(dao_allocator_t *allocator, void *address, dao_block_owner_t owner)
{
    DAO_ASSERT(allocator->ops->free_deferred != NULL);
    allocator->ops->free_deferred(allocator, address, owner);
}

void dao_pinned_drain(dao_allocator_t *allocator)
{
    if (allocator->ops->drain != NULL) {
        allocator->ops->drain(allocator);
    }
}

static dao_status_t take_region(void *user, size_t size_bytes, void **out_address)
{
    const pinned_t *pinned = user;
    return pinned->ops->pinned_alloc(pinned->device, size_bytes, out_address);
}

static dao_status_t give_region(void *user, void *address, size_t size_bytes)
{
    const pinned_t *pinned = user;
    return pinned->ops->pinned_free(pinned->device, address, size_bytes);
}

/* Makes an empty allocator what its config says. */
static dao_status_t pinned_start(pinned_t *pinned, const dao_pinned_config_t *config)
{
    dao_status_t status = dao_segmented_name(&pinned->segmented, config->name);
    if (status != DAO_OK) {
        return status;
    }
    pinned->segmented.ledger.stats.limit_bytes = config->limit_bytes;
    pinned->segmented.ledger.budget = config->budget;
    status = dao_free_queue_reserve(&pinned->queue, 0);
    if (status == DAO_OK && config->initial_bytes != 0) {
        status = dao_segments_take_initial(&pinned->segmented.segments, config->initial_bytes);
    }
    return status;
}

dao_status_t dao_pinned_create(const dao_pinned_config_t *config, dao_allocator_t **out_allocator)
{
    pinned_t *pinned = dao_host_calloc(1, sizeof(*pinned));
    if (pinned == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    pinned->ops = config->ops;
    pinned->device = config->device;
    atomic_init(&pinned->wrong, DAO_FREE_QUEUE_NONE);
    dao_free_queue_init(&pinned->queue);
    dao_segments_config_t segments = {.upstream = {.take = take_region, .give = give_region, .user = pinned},
                                      .unit_bytes = DAO_PAGE_BYTES,
                                      .minimum_bytes = config->segment_bytes != 0 ? config->segment_bytes
                                                                                  : DAO_PINNED_REGION_BYTES,
                                      .first_bytes = config->segment_bytes != 0 ? 0 : DAO_PINNED_FIRST_BYTES,
                                      .own_share = 1,
                                      .fit = config->fit,
                                      .full_status = DAO_ERR_NO_HOST_MEMORY,
                                      .fences = config->fences};
    dao_segmented_init(&pinned->segmented, &pinned_ops, &pinned_ways, &segments);
    dao_status_t status = pinned_start(pinned, config);
    if (status != DAO_OK) {
        pinned_destroy(&pinned->segmented.base);
        return status;
    }
    DAO_ASSERT_HEAVY(dao_segmented_is_valid(&pinned->segmented.base));
    *out_allocator = &pinned->segmented.base;
    return DAO_OK;
}
