/* Ordinary host memory: small.c up to 32 KiB, segments.c above, one ledger and one limit for both.

       stats.reserved_bytes == small blocks + regions

   Regions are mapped and unmapped under the lock: the system does not make that wait for a device. */
#include "allocators/host.h"

#include "allocators/buddy.h"
#include "allocators/segments.h"
#include "allocators/small.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"
#include "base/sync.h"

typedef struct host {
    dao_allocator_t base;

    dao_mutex_t lock;
    dao_ledger_t ledger;
    dao_small_t small;
    dao_segments_t segments;
} host_t;

static host_t *host_of(dao_allocator_t *allocator)
{
    return (host_t *)allocator;
}

static bool is_valid_locked(const host_t *host)
{
    dao_recount_t recount = {0};
    return dao_small_is_valid(&host->small, &recount) && dao_segments_is_valid(&host->segments, &recount) &&
           dao_ledger_matches(&host->ledger, &recount);
}

static void lock(host_t *host)
{
    dao_mutex_lock(&host->lock);
    DAO_ASSERT_HEAVY(is_valid_locked(host));
}

static void unlock(host_t *host)
{
    DAO_ASSERT_HEAVY(is_valid_locked(host));
    dao_mutex_unlock(&host->lock);
}

static dao_status_t alloc_small_locked(host_t *host, const dao_block_request_t *request, void **out_address)
{
    size_t size_bytes = request->size_bytes;
    dao_status_t status = dao_segments_make_room(&host->segments, dao_small_block_bytes(size_bytes));
    if (status == DAO_OK) {
        status = dao_small_alloc(&host->small, request, out_address);
    }
    uint64_t released_bytes = 0;
    if (status == DAO_ERR_NO_HOST_MEMORY &&
        dao_segments_trim(&host->segments, 0, &released_bytes) == DAO_OK && released_bytes > 0) {
        status = dao_small_alloc(&host->small, request, out_address);
    }
    return status == DAO_OK ? DAO_OK
                            : dao_ledger_fail(&host->ledger, status, size_bytes,
                                              dao_segments_largest_hole(&host->segments));
}

static dao_status_t host_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                               dao_block_grant_t *out_grant)
{
    host_t *host = host_of(allocator);
    DAO_ASSERT(request->size_bytes > 0);
    out_grant->hold = (dao_hold_t){0};
    lock(host);
    bool is_small =
        request->size_bytes <= DAO_HOST_SMALL_BYTES && request->alignment_bytes <= DAO_SMALL_ALIGNMENT_BYTES;
    dao_status_t status = is_small ? alloc_small_locked(host, request, &out_grant->address)
                                   : dao_segments_alloc(&host->segments, request, &out_grant->address);
    unlock(host);
    return status;
}

static dao_status_t free_locked(host_t *host, void *address)
{
    dao_status_t status = dao_small_free(&host->small, address);
    if (status == DAO_OK) {
        return DAO_OK;
    }
    status = dao_segments_free(&host->segments, address);
    dao_block_t block;
    if (status != DAO_OK && dao_small_query(&host->small, address, &block) == DAO_OK) {
        return DAO_ERR_INTERIOR_POINTER;
    }
    return status;
}

static dao_status_t host_free(dao_allocator_t *allocator, void *address, dao_hold_t *hold)
{
    DAO_ASSERT(hold == NULL || dao_hold_is_empty(hold));
    (void)hold;
    host_t *host = host_of(allocator);
    lock(host);
    dao_status_t status = free_locked(host, address);
    unlock(host);
    return dao_ledger_check_free(&host->ledger, status, address);
}

static dao_status_t host_query(dao_allocator_t *allocator, const void *address, dao_block_t *out_block)
{
    host_t *host = host_of(allocator);
    lock(host);
    dao_status_t status = dao_segments_query(&host->segments, address, out_block);
    if (status != DAO_OK) {
        status = dao_small_query(&host->small, address, out_block);
    }
    unlock(host);
    return dao_ledger_check_query(&host->ledger, status, address);
}

static dao_status_t host_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    host_t *host = host_of(allocator);
    uint64_t released_bytes = 0;
    lock(host);
    dao_status_t status = dao_segments_trim(&host->segments, keep_bytes, &released_bytes);
    unlock(host);
    *out_released_bytes = (size_t)released_bytes;
    return status;
}

static dao_status_t host_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    host_t *host = host_of(allocator);
    lock(host);
    dao_status_t status = dao_segments_limit_set(&host->segments, limit_bytes);
    unlock(host);
    return status;
}

static uint64_t host_used_get(dao_allocator_t *allocator)
{
    host_t *host = host_of(allocator);
    lock(host);
    uint64_t used_bytes = host->ledger.stats.used_bytes;
    unlock(host);
    return used_bytes;
}

static void host_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    host_t *host = host_of(allocator);
    lock(host);
    *out_stats = host->ledger.stats;
    out_stats->largest_hole_bytes = dao_segments_largest_hole(&host->segments);
    unlock(host);
}

static const dao_stats_t *host_stats_view(dao_allocator_t *allocator)
{
    return &host_of(allocator)->ledger.stats;
}

static void host_stats_reset_peaks(dao_allocator_t *allocator)
{
    host_t *host = host_of(allocator);
    lock(host);
    dao_stats_peaks_to_now(&host->ledger.stats);
    unlock(host);
}

static void host_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    host_t *host = host_of(allocator);
    lock(host);
    dao_small_walk(&host->small, visit, user);
    dao_segments_walk(&host->segments, visit, user);
    unlock(host);
}

static bool host_is_valid(dao_allocator_t *allocator)
{
    host_t *host = host_of(allocator);
    dao_mutex_lock(&host->lock);
    bool is_valid = is_valid_locked(host);
    dao_mutex_unlock(&host->lock);
    return is_valid;
}

static void host_destroy(dao_allocator_t *allocator)
{
    host_t *host = host_of(allocator);
    if (host == NULL) {
        return;
    }
    dao_small_finish(&host->small);
    dao_segments_finish(&host->segments);
    dao_ledger_finish(&host->ledger);
    dao_mutex_finish(&host->lock);
    dao_host_free(host);
}

static const dao_allocator_ops_t host_ops = {
    .name = "host",
    .alloc = host_alloc,
    .free = host_free,
    .query = host_query,
    .trim = host_trim,
    .limit_set = host_limit_set,
    .used_get = host_used_get,
    .stats_get = host_stats_get,
    .stats_reset_peaks = host_stats_reset_peaks,
    .walk = host_walk,
    .is_valid = host_is_valid,
    .destroy = host_destroy,
    .stats_view = host_stats_view,
};

static dao_status_t take_region(void *user, size_t size_bytes, void **out_address)
{
    (void)user; /* there is one system */
    void *address = dao_host_map(size_bytes, DAO_PAGE_BYTES);
    if (address == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "the system refuses a region of %zu bytes", size_bytes);
    }
    *out_address = address;
    return DAO_OK;
}

static dao_status_t give_region(void *user, void *address, size_t size_bytes)
{
    (void)user; /* there is one system */
    dao_host_unmap(address, size_bytes);
    return DAO_OK;
}

dao_status_t dao_host_allocator_create(const char *name, dao_allocator_t **out_allocator)
{
    host_t *host = dao_host_calloc(1, sizeof(*host));
    if (host == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", name);
    }
    host->base.ops = &host_ops;
    dao_mutex_init(&host->lock, DAO_RANK_ALLOCATOR);
    dao_small_init(&host->small, &host->ledger);
    dao_segments_config_t config = {.upstream = {.take = take_region, .give = give_region},
                                    .unit_bytes = DAO_PAGE_BYTES,
                                    .minimum_bytes = DAO_HOST_REGION_BYTES,
                                    .full_status = DAO_ERR_NO_HOST_MEMORY};
    dao_segments_init(&host->segments, &config, &host->ledger);
    dao_status_t status = dao_ledger_init(&host->ledger, name);
    if (status != DAO_OK) {
        host_destroy(&host->base);
        return status;
    }
    DAO_ASSERT_HEAVY(host_is_valid(&host->base));
    *out_allocator = &host->base;
    return DAO_OK;
}
