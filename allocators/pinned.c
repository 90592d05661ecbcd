/* Pinned host memory: segments of 64 MiB and more (segments.c), and a queue of deferred frees beside them.

       alloc, free, trim, stats, drain ──> lock ──> queue is emptied ──> segments
       free_deferred ────────────────────> queue, without the lock

   What holds between calls, beside what segments.c says:

       slots of the queue >= live blocks + spare ones, so that a deferred free of a live block needs no memory
       a deferred block is live, and counted as such, until the queue is emptied

   Addresses in the queue that turn out wrong are kept in their slots until the lock is given up, then logged. The lock is
   held while a region is pinned, which may take long: a second thread that needs a region waits for this one anyway, and
   free() makes no backend call. */
#include "allocators/pinned.h"

#include "allocators/buddy.h"
#include "allocators/deferred.h"
#include "allocators/segments.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"
#include "base/sync.h"

typedef struct pinned {
    dao_allocator_t base;
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device;
    dao_deferred_t deferred; /* its slot_count is guarded by the lock */

    dao_mutex_t lock;
    dao_ledger_t ledger;
    dao_segments_t segments;
} pinned_t;

static pinned_t *pinned_of(dao_allocator_t *allocator)
{
    return (pinned_t *)allocator;
}

static bool is_valid_locked(const pinned_t *pinned)
{
    dao_recount_t recount = {0};
    return dao_segments_is_valid(&pinned->segments, &recount) &&
           dao_ledger_matches(&pinned->ledger, &recount) &&
           pinned->deferred.slot_count >=
               (recount.live_count > 0 ? recount.live_count + DAO_DEFERRED_SPARE_COUNT : 0);
}

static dao_status_t free_locked(void *owner, void *address)
{
    pinned_t *pinned = owner;
    return dao_segments_free(&pinned->segments, address, NULL);
}

/* Takes the lock and carries out deferred frees. Gives the slots of wrong addresses, for unlock_and_report(). */
static uint32_t lock_and_drain(pinned_t *pinned)
{
    dao_mutex_lock(&pinned->lock);
    DAO_ASSERT_HEAVY(is_valid_locked(pinned));
    return dao_deferred_carry_out(&pinned->deferred, free_locked, pinned);
}

/* Gives the lock up, then logs the wrong addresses. */
static void unlock_and_report(pinned_t *pinned, uint32_t wrong)
{
    DAO_ASSERT_HEAVY(is_valid_locked(pinned));
    dao_mutex_unlock(&pinned->lock);
    dao_deferred_report(&pinned->deferred, wrong, pinned->ledger.name);
}

static dao_status_t pinned_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                 dao_block_grant_t *out_grant)
{
    pinned_t *pinned = pinned_of(allocator);
    DAO_ASSERT(request->size_bytes > 0);
    uint32_t wrong = lock_and_drain(pinned);
    dao_status_t status = dao_deferred_reserve(&pinned->deferred, pinned->ledger.stats.live_count + 1);
    if (status == DAO_OK) {
        status = dao_segments_alloc(&pinned->segments, request, out_grant);
    } else {
        status =
            dao_ledger_fail(&pinned->ledger, status, request, dao_segments_largest_hole(&pinned->segments));
    }
    unlock_and_report(pinned, wrong);
    return status;
}

static dao_status_t pinned_alloc_within(dao_allocator_t *allocator, const dao_block_request_t *request,
                                        uint64_t growth_bytes, dao_block_grant_t *out_grant)
{
    pinned_t *pinned = pinned_of(allocator);
    uint32_t wrong = lock_and_drain(pinned);
    dao_status_t status = dao_deferred_reserve(&pinned->deferred, pinned->ledger.stats.live_count + 1);
    status = status == DAO_OK ? dao_segments_alloc_within(&pinned->segments, request, growth_bytes, out_grant)
                              : DAO_ERR_LIMIT;
    unlock_and_report(pinned, wrong);
    return status;
}

static dao_status_t pinned_free(dao_allocator_t *allocator, void *address, dao_hold_t *hold)
{
    pinned_t *pinned = pinned_of(allocator);
    uint32_t wrong = lock_and_drain(pinned);
    dao_status_t status = dao_segments_free(&pinned->segments, address, hold);
    unlock_and_report(pinned, wrong);
    return dao_ledger_check_free(&pinned->ledger, status, address);
}

static dao_status_t pinned_stream_mark(dao_allocator_t *allocator, void *address, uint32_t stream)
{
    pinned_t *pinned = pinned_of(allocator);
    uint32_t wrong = lock_and_drain(pinned);
    dao_status_t status = dao_segments_mark(&pinned->segments, address, stream);
    unlock_and_report(pinned, wrong);
    return dao_ledger_check_query(&pinned->ledger, status, address);
}

static dao_status_t pinned_query(dao_allocator_t *allocator, const void *address, dao_block_t *out_block)
{
    pinned_t *pinned = pinned_of(allocator);
    dao_mutex_lock(&pinned->lock);
    dao_status_t status = dao_segments_query(&pinned->segments, address, out_block);
    dao_mutex_unlock(&pinned->lock);
    return dao_ledger_check_query(&pinned->ledger, status, address);
}

static dao_status_t pinned_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    pinned_t *pinned = pinned_of(allocator);
    uint32_t wrong = lock_and_drain(pinned);
    uint64_t before_bytes = pinned->ledger.stats.reserved_bytes;
    dao_status_t status = dao_segments_trim(&pinned->segments, keep_bytes);
    uint64_t released_bytes = before_bytes - pinned->ledger.stats.reserved_bytes;
    unlock_and_report(pinned, wrong);
    *out_released_bytes = (size_t)released_bytes;
    return status;
}

static dao_status_t pinned_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    pinned_t *pinned = pinned_of(allocator);
    uint32_t wrong = lock_and_drain(pinned);
    dao_status_t status = dao_segments_limit_set(&pinned->segments, limit_bytes);
    unlock_and_report(pinned, wrong);
    return status;
}

static uint64_t pinned_used_get(dao_allocator_t *allocator)
{
    pinned_t *pinned = pinned_of(allocator);
    uint32_t wrong = lock_and_drain(pinned);
    uint64_t used_bytes = pinned->ledger.stats.used_bytes;
    unlock_and_report(pinned, wrong);
    return used_bytes;
}

static void pinned_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    pinned_t *pinned = pinned_of(allocator);
    uint32_t wrong = lock_and_drain(pinned);
    *out_stats = pinned->ledger.stats;
    out_stats->largest_hole_bytes = dao_segments_largest_hole(&pinned->segments);
    out_stats->deferred_count = atomic_load(&pinned->deferred.pending_count);
    unlock_and_report(pinned, wrong);
}

static void pinned_stats_reset_peaks(dao_allocator_t *allocator)
{
    pinned_t *pinned = pinned_of(allocator);
    uint32_t wrong = lock_and_drain(pinned);
    dao_stats_peaks_to_now(&pinned->ledger.stats);
    unlock_and_report(pinned, wrong);
}

static void pinned_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    pinned_t *pinned = pinned_of(allocator);
    dao_mutex_lock(&pinned->lock);
    dao_segments_walk(&pinned->segments, visit, user);
    dao_mutex_unlock(&pinned->lock);
}

static void pinned_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    pinned_t *pinned = pinned_of(allocator);
    dao_mutex_lock(&pinned->lock);
    dao_segments_walk_all(&pinned->segments, visit, user);
    dao_mutex_unlock(&pinned->lock);
}

static bool pinned_is_valid(dao_allocator_t *allocator)
{
    pinned_t *pinned = pinned_of(allocator);
    dao_mutex_lock(&pinned->lock);
    bool is_valid = is_valid_locked(pinned);
    dao_mutex_unlock(&pinned->lock);
    return is_valid;
}

static void pinned_destroy(dao_allocator_t *allocator)
{
    pinned_t *pinned = pinned_of(allocator);
    if (pinned == NULL) {
        return;
    }
    dao_segments_finish(&pinned->segments);
    dao_deferred_finish(&pinned->deferred);
    dao_ledger_finish(&pinned->ledger);
    dao_mutex_finish(&pinned->lock);
    dao_host_free(pinned);
}

static void pinned_free_deferred(dao_allocator_t *allocator, void *address)
{
    dao_deferred_push(&pinned_of(allocator)->deferred, address);
}

static void pinned_drain(dao_allocator_t *allocator)
{
    pinned_t *pinned = pinned_of(allocator);
    unlock_and_report(pinned, lock_and_drain(pinned));
}

static const dao_allocator_ops_t pinned_ops = {
    .name = "pinned",
    .alloc = pinned_alloc,
    .alloc_within = pinned_alloc_within,
    .alloc_plain = dao_allocator_alloc_otherwise,
    .free_plain = dao_allocator_free_otherwise,
    .free = pinned_free,
    .stream_mark = pinned_stream_mark,
    .query = pinned_query,
    .trim = pinned_trim,
    .limit_set = pinned_limit_set,
    .used_get = pinned_used_get,
    .stats_get = pinned_stats_get,
    .stats_reset_peaks = pinned_stats_reset_peaks,
    .walk = pinned_walk,
    .walk_all = pinned_walk_all,
    .is_valid = pinned_is_valid,
    .destroy = pinned_destroy,
    .free_deferred = pinned_free_deferred,
    .drain = pinned_drain,
};

void dao_pinned_free_deferred(dao_allocator_t *allocator, void *address)
{
    DAO_ASSERT(allocator->ops->free_deferred != NULL);
    allocator->ops->free_deferred(allocator, address);
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
    dao_status_t status = dao_ledger_init(&pinned->ledger, config->name);
    if (status != DAO_OK) {
        return status;
    }
    pinned->ledger.stats.limit_bytes = config->limit_bytes;
    pinned->ledger.budget = config->budget;
    status = dao_deferred_reserve(&pinned->deferred, 0);
    if (status == DAO_OK && config->initial_bytes != 0) {
        status = dao_segments_take_initial(&pinned->segments, config->initial_bytes);
    }
    return status;
}

dao_status_t dao_pinned_create(const dao_pinned_config_t *config, dao_allocator_t **out_allocator)
{
    pinned_t *pinned = dao_host_calloc(1, sizeof(*pinned));
    if (pinned == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    pinned->base = (dao_allocator_t){.ops = &pinned_ops, .ledger = &pinned->ledger};
    pinned->ops = config->ops;
    pinned->device = config->device;
    dao_mutex_init(&pinned->lock, DAO_RANK_ALLOCATOR);
    dao_deferred_init(&pinned->deferred);
    dao_segments_config_t segments = {.upstream = {.take = take_region, .give = give_region, .user = pinned},
                                      .unit_bytes = DAO_PAGE_BYTES,
                                      .minimum_bytes = config->segment_bytes != 0 ? config->segment_bytes
                                                                                  : DAO_PINNED_REGION_BYTES,
                                      .own_share = 1,
                                      .fit = config->fit,
                                      .full_status = DAO_ERR_NO_HOST_MEMORY,
                                      .holds = config->holds};
    dao_segments_init(&pinned->segments, &segments, &pinned->ledger);
    dao_status_t status = pinned_start(pinned, config);
    if (status != DAO_OK) {
        pinned_destroy(&pinned->base);
        return status;
    }
    DAO_ASSERT_HEAVY(pinned_is_valid(&pinned->base));
    *out_allocator = &pinned->base;
    return DAO_OK;
}
