/* Device memory, kept for the next request: in pages where the device has them (paged.c), else in segments, which is what
   this file does: segments.c behind a lock.

   What holds between calls:

       stats.reserved_bytes == sum of the segments <= stats.limit_bytes, if there is a limit
       stats.used_bytes == sum of the live blocks' sizes

   What is done when no idle block suits is said in segments.c.

   One lock guards everything and is held over backend calls, which is the exception to the rule that none which may wait is
   made under a lock: a miss changes placement, segments and counters in one step. In steady state there are no backend
   calls. */
#include "allocators/caching.h"

#include "allocators/buddy.h"
#include "allocators/paged.h"
#include "allocators/segments.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"
#include "base/sync.h"

/* A segment has at least this part of what is reserved. Of 2, 4, 8, 16, 32 and none this one needed the least memory on random
   sizes, on those of language models and on recorded steps, at a tenth of the backend calls of none. */
#define SEGMENT_GROWTH_SHARE 16u

/* A block of at least this part of a usual segment gets a segment of its own. */
#define SEGMENT_OWN_SHARE 2u

typedef struct caching {
    dao_allocator_t base;
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device;

    dao_mutex_t lock;
    dao_ledger_t ledger;
    dao_segments_t segments;
} caching_t;

static caching_t *caching_of(dao_allocator_t *allocator)
{
    return (caching_t *)allocator;
}

static bool is_valid_locked(const caching_t *caching)
{
    dao_recount_t recount = {0};
    return dao_segments_is_valid(&caching->segments, &recount) &&
           dao_ledger_matches(&caching->ledger, &recount);
}

static void lock(caching_t *caching)
{
    dao_mutex_lock(&caching->lock);
    DAO_ASSERT_HEAVY(is_valid_locked(caching));
}

static void unlock(caching_t *caching)
{
    DAO_ASSERT_HEAVY(is_valid_locked(caching));
    dao_mutex_unlock(&caching->lock);
}

/* ---- the table ---- */

static dao_status_t caching_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                  dao_block_grant_t *out_grant)
{
    caching_t *caching = caching_of(allocator);
    DAO_ASSERT(request->size_bytes > 0);
    lock(caching);
    dao_status_t status = dao_segments_alloc(&caching->segments, request, out_grant);
    unlock(caching);
    return status;
}

static dao_status_t caching_alloc_within(dao_allocator_t *allocator, const dao_block_request_t *request,
                                         uint64_t growth_bytes, dao_block_grant_t *out_grant)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    dao_status_t status = dao_segments_alloc_within(&caching->segments, request, growth_bytes, out_grant);
    unlock(caching);
    return status;
}

static dao_status_t caching_free(dao_allocator_t *allocator, void *address, dao_hold_t *hold)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    dao_status_t status = dao_segments_free(&caching->segments, address, hold);
    unlock(caching);
    return dao_ledger_check_free(&caching->ledger, status, address);
}

static dao_status_t caching_stream_mark(dao_allocator_t *allocator, void *address, uint32_t stream)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    dao_status_t status = dao_segments_mark(&caching->segments, address, stream);
    unlock(caching);
    return dao_ledger_check_query(&caching->ledger, status, address);
}

static dao_status_t caching_put_off(dao_allocator_t *allocator, void *address, dao_block_t *out_block)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    dao_status_t status = dao_segments_put_off(&caching->segments, address, out_block);
    unlock(caching);
    return dao_ledger_check_free(&caching->ledger, status, address);
}

static dao_status_t caching_carry_out(dao_allocator_t *allocator, void *address)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    dao_status_t status = dao_segments_carry_out(&caching->segments, address);
    unlock(caching);
    return dao_ledger_check_free(&caching->ledger, status, address);
}

static dao_status_t caching_renew(dao_allocator_t *allocator, void *address,
                                  const dao_block_request_t *request)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    dao_status_t status = dao_segments_renew(&caching->segments, address, request);
    unlock(caching);
    return status;
}

static dao_status_t caching_query(dao_allocator_t *allocator, const void *address, dao_block_t *out_block)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    dao_status_t status = dao_segments_query(&caching->segments, address, out_block);
    unlock(caching);
    return dao_ledger_check_query(&caching->ledger, status, address);
}

static dao_status_t caching_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    uint64_t before_bytes = caching->ledger.stats.reserved_bytes;
    dao_status_t status = dao_segments_trim(&caching->segments, keep_bytes);
    uint64_t released_bytes = before_bytes - caching->ledger.stats.reserved_bytes;
    unlock(caching);
    *out_released_bytes = (size_t)released_bytes;
    return status;
}

static dao_status_t caching_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    dao_status_t status = dao_segments_limit_set(&caching->segments, limit_bytes);
    unlock(caching);
    return status;
}

static uint64_t caching_used_get(dao_allocator_t *allocator)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    uint64_t used_bytes = caching->ledger.stats.used_bytes;
    unlock(caching);
    return used_bytes;
}

static void caching_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    *out_stats = caching->ledger.stats;
    out_stats->largest_hole_bytes = dao_segments_largest_hole(&caching->segments);
    unlock(caching);
}

static void caching_stats_reset_peaks(dao_allocator_t *allocator)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    dao_stats_peaks_to_now(&caching->ledger.stats);
    unlock(caching);
}

static void caching_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    dao_segments_walk(&caching->segments, visit, user);
    unlock(caching);
}

static void caching_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    dao_segments_walk_all(&caching->segments, visit, user);
    unlock(caching);
}

static bool caching_is_valid(dao_allocator_t *allocator)
{
    caching_t *caching = caching_of(allocator);
    dao_mutex_lock(&caching->lock);
    bool is_valid = is_valid_locked(caching);
    dao_mutex_unlock(&caching->lock);
    return is_valid;
}

static void caching_destroy(dao_allocator_t *allocator)
{
    caching_t *caching = caching_of(allocator);
    if (caching == NULL) {
        return;
    }
    dao_segments_finish(&caching->segments);
    dao_ledger_finish(&caching->ledger);
    dao_mutex_finish(&caching->lock);
    dao_host_free(caching);
}

static const dao_allocator_ops_t caching_ops = {
    .name = "caching",
    .alloc = caching_alloc,
    .alloc_within = caching_alloc_within,
    .alloc_plain = dao_allocator_alloc_otherwise,
    .free_plain = dao_allocator_free_otherwise,
    .free = caching_free,
    .stream_mark = caching_stream_mark,
    .query = caching_query,
    .trim = caching_trim,
    .limit_set = caching_limit_set,
    .used_get = caching_used_get,
    .stats_get = caching_stats_get,
    .stats_reset_peaks = caching_stats_reset_peaks,
    .walk = caching_walk,
    .walk_all = caching_walk_all,
    .is_valid = caching_is_valid,
    .destroy = caching_destroy,
    .put_off = caching_put_off,
    .carry_out = caching_carry_out,
    .renew = caching_renew,
};

/* ---- create ---- */

static dao_status_t take_memory(void *user, size_t size_bytes, void **out_address)
{
    const caching_t *caching = user;
    return caching->ops->memory_alloc(caching->device, size_bytes, out_address);
}

static dao_status_t give_memory(void *user, void *address, size_t size_bytes)
{
    const caching_t *caching = user;
    return caching->ops->memory_free(caching->device, address, size_bytes);
}

static dao_status_t segmented_create(const dao_caching_config_t *config, const dao_device_info_t *info,
                                     dao_allocator_t **out_allocator)
{
    DAO_ASSERT(config->budget == NULL && config->full_status == DAO_OK); /* of pages alone */
    caching_t *caching = dao_host_calloc(1, sizeof(*caching));
    if (caching == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    caching->base = (dao_allocator_t){.ops = &caching_ops, .ledger = &caching->ledger};
    caching->ops = config->ops;
    caching->device = config->device;
    dao_mutex_init(&caching->lock, DAO_RANK_ALLOCATOR);
    dao_segments_config_t segments = {.upstream = {.take = take_memory, .give = give_memory, .user = caching},
                                      .unit_bytes = DAO_PAGE_BYTES,
                                      .minimum_bytes = config->segment_bytes != 0 ? config->segment_bytes
                                                                                  : DAO_CACHING_SEGMENT_BYTES,
                                      .growth_share = SEGMENT_GROWTH_SHARE,
                                      .own_share = SEGMENT_OWN_SHARE,
                                      .fit = config->fit,
                                      .full_status = DAO_ERR_NO_DEVICE_MEMORY,
                                      .holds = config->holds};
    dao_segments_init(&caching->segments, &segments, &caching->ledger);
    dao_status_t status = dao_ledger_init(&caching->ledger, config->name);
    caching->ledger.stats.limit_bytes = config->limit_bytes;
    caching->ledger.capacity_bytes = info->total_bytes;
    if (status == DAO_OK && config->initial_bytes != 0) {
        status = dao_segments_take_initial(&caching->segments, config->initial_bytes);
    }
    if (status != DAO_OK) {
        caching_destroy(&caching->base);
        return status;
    }
    DAO_ASSERT_HEAVY(caching_is_valid(&caching->base));
    *out_allocator = &caching->base;
    return DAO_OK;
}

dao_status_t dao_caching_create(const dao_caching_config_t *config, dao_allocator_t **out_allocator)
{
    dao_device_info_t info = {0};
    dao_status_t status = config->ops->device_query(config->device, &info);
    if (status != DAO_OK) {
        return status;
    }
    bool has_pages = !config->no_page_mapping && dao_paged_page_bytes(config->ops, &info) != 0;
    return has_pages ? dao_paged_create(config, &info, out_allocator)
                     : segmented_create(config, &info, out_allocator);
}
