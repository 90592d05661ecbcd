/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory, kept for the next request: in pages where the device has them (paged.c), else in segments,
   which is what this file does: segments.c behind a lock.

   What holds between calls:

       stats.reserved_bytes == sum of the segments <= stats.limit_bytes, if there is a limit
       stats.used_bytes == sum of the live blocks' sizes

   What is done when no idle block suits is said in segments.c.

   One lock guards everything and is held over backend calls, which is the exception to the rule that none
   which may wait is made under a lock: a miss changes placement, segments and counters in one step. In steady
   state there are no backend calls. */
#include "allocators/paged/device_memory.h"

#include "allocators/paged/paged.h"
#include "allocators/segments/segmented.h"
#include "base/memory/host.h"
#include "base/report/error.h"

/* A segment has at least this part of what is reserved. Of 2, 4, 8, 16, 32 and none this one needed the least
   memory, at a tenth of the backend calls of none: on random sizes, on those of language models and on
   recorded steps. */
#define SEGMENT_GROWTH_SHARE 16u

/* A block of at least this part of a usual segment gets a segment of its own. */
#define SEGMENT_OWN_SHARE 2u

typedef struct memory {
    dao_segmented_t segmented;
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device;
} device_t;

static bool is_valid_locked(const dao_segmented_t *memory)
{
    dao_recount_t recount = {0};
    return dao_segmented_recounts(memory, &recount);
}

static const dao_segmented_ways_t device_ways = {
    .is_valid_locked = is_valid_locked, .lock = dao_segmented_lock, .unlock = dao_segmented_unlock};

/* ---- the table ---- */

static dao_status_t device_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                 dao_block_grant_t *out_grant)
{
    dao_segmented_t *memory = dao_segmented_of(allocator);
    DAO_ASSERT(request->size_bytes > 0);
    dao_segmented_lock(memory);
    dao_status_t status = dao_segments_alloc(&memory->segments, request, out_grant);
    dao_segmented_unlock(memory);
    return status;
}

static dao_status_t device_free_owned(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence,
                                      dao_block_owner_t owner)
{
    dao_segmented_t *memory = dao_segmented_of(allocator);
    dao_segmented_lock(memory);
    dao_status_t status = dao_segments_free(&memory->segments, address, fence, owner);
    dao_segmented_unlock(memory);
    return dao_segmented_check_free(memory, status, address);
}

static dao_status_t device_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence)
{
    return device_free_owned(allocator, address, fence, DAO_BLOCK_OWNER_RAW);
}

static dao_status_t device_retire(dao_allocator_t *allocator, void *address, dao_block_owner_t owner,
                                  dao_block_t *out_block)
{
    dao_segmented_t *memory = dao_segmented_of(allocator);
    dao_segmented_lock(memory);
    dao_status_t status = dao_segments_retire(&memory->segments, address, owner, out_block);
    dao_segmented_unlock(memory);
    return dao_segmented_check_free(memory, status, address);
}

static dao_status_t device_reclaim(dao_allocator_t *allocator, void *address)
{
    dao_segmented_t *memory = dao_segmented_of(allocator);
    dao_segmented_lock(memory);
    dao_status_t status = dao_segments_reclaim(&memory->segments, address);
    dao_segmented_unlock(memory);
    return dao_segmented_check_free(memory, status, address);
}

static dao_status_t device_reuse(dao_allocator_t *allocator, void *address,
                                 const dao_block_request_t *request)
{
    dao_segmented_t *memory = dao_segmented_of(allocator);
    dao_segmented_lock(memory);
    dao_status_t status = dao_segments_reuse(&memory->segments, address, request);
    dao_segmented_unlock(memory);
    return status;
}

static void device_destroy(dao_allocator_t *allocator)
{
    dao_segmented_finish(dao_segmented_of(allocator));
    dao_host_free(allocator);
}

static const dao_allocator_ops_t device_ops = {
    .name = "caching",
    .alloc = device_alloc,
    .alloc_fast = dao_segmented_alloc_fast,
    .free_fast = dao_segmented_free_fast,
    .free = device_free,
    .free_owned = device_free_owned,
    .stream_mark = dao_segmented_stream_mark,
    .query = dao_segmented_query,
    .trim = dao_segmented_trim,
    .limit_set = dao_segmented_limit_set,
    .used_get = dao_segmented_used_get,
    .stats_get = dao_segmented_stats_get,
    .stats_reset_peaks = dao_segmented_stats_reset_peaks,
    .walk = dao_segmented_walk,
    .walk_all = dao_segmented_walk_all,
    .is_valid = dao_segmented_is_valid,
    .destroy = device_destroy,
    .retire = device_retire,
    .reclaim = device_reclaim,
    .reuse = device_reuse,
};

/* ---- create ---- */

static dao_status_t take_memory(void *user, size_t size_bytes, void **out_address)
{
    const device_t *memory = user;
    return memory->ops->memory_alloc(memory->device, size_bytes, out_address);
}

static dao_status_t give_memory(void *user, void *address, size_t size_bytes)
{
    const device_t *memory = user;
    return memory->ops->memory_free(memory->device, address, size_bytes);
}

static dao_status_t segmented_create(const dao_device_memory_config_t *config, const dao_device_info_t *info,
                                     dao_allocator_t **out_allocator)
{
    DAO_ASSERT(config->budget == NULL && config->full_status == DAO_OK); /* of pages alone */
    device_t *memory = dao_host_calloc(1, sizeof(*memory));
    if (memory == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    memory->ops = config->ops;
    memory->device = config->device;
    dao_segments_config_t segments = {
        .upstream = {.take = take_memory, .give = give_memory, .user = memory},
        .unit_bytes = DAO_PAGE_BYTES,
        .minimum_bytes = config->segment_bytes != 0 ? config->segment_bytes : DAO_DEVICE_MEMORY_SEGMENT_BYTES,
        .growth_share = SEGMENT_GROWTH_SHARE,
        .own_share = SEGMENT_OWN_SHARE,
        .fit = config->fit,
        .full_status = DAO_ERR_NO_DEVICE_MEMORY,
        .fences = config->fences};
    dao_segmented_t *segmented = &memory->segmented;
    dao_segmented_init(segmented, &device_ops, &device_ways, &segments);
    dao_status_t status = dao_segmented_name(segmented, config->name);
    segmented->ledger.stats.limit_bytes = config->limit_bytes;
    segmented->ledger.capacity_bytes = info->total_bytes;
    if (status == DAO_OK && config->initial_bytes != 0) {
        status = dao_segments_take_initial(&segmented->segments, config->initial_bytes);
    }
    if (status != DAO_OK) {
        device_destroy(&segmented->base);
        return status;
    }
    DAO_ASSERT_HEAVY(dao_segmented_is_valid(&segmented->base));
    *out_allocator = &segmented->base;
    return DAO_OK;
}

dao_status_t dao_device_memory_create(const dao_device_memory_config_t *config,
                                      dao_allocator_t **out_allocator)
{
    dao_device_info_t info = {0};
    dao_status_t status = config->ops->device_query(config->device, &info);
    if (status != DAO_OK) {
        return status;
    }
    bool has_pages = !config->no_page_mapping && dao_paged_page_bytes(config, &info) != 0;
    return has_pages ? dao_paged_create(config, &info, out_allocator)
                     : segmented_create(config, &info, out_allocator);
}
