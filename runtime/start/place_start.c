/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the allocator that a place's config asks for. Each line reads "over": the first takes its memory from
   the next.

       strategy      device                 pinned                 cpu
       good, best    thread_cache.c         thread_cache.c         thread_cache.c
                     device_memory.c        pinned.c               host.c, or host_pages.c
       the others    stream_ordered.c       stream_ordered.c       strategy.c
                     strategy.c             strategy.c             malloc and mmap
                     memory_alloc, _free    pinned_alloc, _free

   The host is in pages (host_pages.c) with step plans, or if the config says host_pages.

   With step plans, planned.c is in front of it, and in builds with AddressSanitizer poisoned.c in front of
   all. */
#include "runtime/start/place_start.h"

#include "allocators/layers/poisoned.h"
#include "allocators/layers/stream_ordered.h"
#include "allocators/paged/device_memory.h"
#include "allocators/pages/page_buddy.h"
#include "allocators/segments/host.h"
#include "allocators/segments/pinned.h"
#include "allocators/slab/thread_cache.h"
#include "allocators/strategies/strategy.h"
#include "base/memory/host.h"
#include "base/memory/poison.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "runtime/start/step_plan_settings.h"

/* ---- where memory comes from ---- */

static dao_status_t device_take(void *user, size_t size_bytes, void **out_address)
{
    const dao_place_origin_t *origin = user;
    return origin->ops->memory_alloc(origin->device, size_bytes, out_address);
}

static dao_status_t device_give(void *user, void *address, size_t size_bytes)
{
    const dao_place_origin_t *origin = user;
    return origin->ops->memory_free(origin->device, address, size_bytes);
}

static dao_status_t pinned_take(void *user, size_t size_bytes, void **out_address)
{
    const dao_place_origin_t *origin = user;
    return origin->ops->pinned_alloc(origin->device, size_bytes, out_address);
}

static dao_status_t pinned_give(void *user, void *address, size_t size_bytes)
{
    const dao_place_origin_t *origin = user;
    return origin->ops->pinned_free(origin->device, address, size_bytes);
}

/* Blocks of the host that are malloc's are aligned to this, as those out of slabs. */
#define HOST_ALIGNMENT_BYTES ((size_t)1 << 6)

/* Whole pages are mapped, in huge ones where the system has them; anything less is malloc's. */
static bool host_maps(size_t size_bytes)
{
    return size_bytes >= DAO_PAGE_BYTES;
}

static dao_status_t host_take(void *user, size_t size_bytes, void **out_address)
{
    (void)user; /* there is one system */
    void *address = host_maps(size_bytes) ? dao_host_map(size_bytes, DAO_PAGE_BYTES)
                                          : dao_host_aligned(size_bytes, HOST_ALIGNMENT_BYTES);
    if (address == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "the system refuses %zu bytes", size_bytes);
    }
    *out_address = address;
    return DAO_OK;
}

static dao_status_t host_give(void *user, void *address, size_t size_bytes)
{
    (void)user; /* there is one system */
    if (host_maps(size_bytes)) {
        dao_unpoison(address, size_bytes);
        dao_host_unmap(address, size_bytes);
    } else {
        dao_host_free(address);
    }
    return DAO_OK;
}

/* ---- the allocators ---- */

/* Destroys what was made before a step that failed; returns its status. */
static dao_status_t undo(dao_allocator_t *made, dao_status_t status)
{
    dao_error_record_t record;
    dao_error_save(&record, status);
    made->ops->destroy(made);
    return dao_error_restore(&record);
}

/* Makes small blocks come out of slabs. Takes `large` over in any case. */
static dao_status_t put_slabs_before(dao_allocator_t *large, const char *name, const dao_slab_sizes_t *sizes,
                                     size_t small_bytes, dao_allocator_t **out_allocator)
{
    dao_status_t status = dao_thread_cache_create(large, name, sizes, small_bytes, out_allocator);
    return status == DAO_OK ? DAO_OK : undo(large, status);
}

/* The host in pages, of which plans can have windows. */
static dao_status_t start_host_pages(const char *name, dao_range_fit_t fit, const dao_place_config_t *config,
                                     const dao_place_origin_t *origin, dao_allocator_t **out_allocator)
{
    dao_host_pages_config_t pages = {.pages = origin->host_pages,
                                     .name = name,
                                     .fit = fit,
                                     .initial_bytes = config->initial_bytes,
                                     .limit_bytes = config->limit_bytes,
                                     .page_bytes = config->host_page_bytes};
    return dao_host_pages_create(&pages, out_allocator);
}

/* The host in regions. */
static dao_status_t start_host_regions(const char *name, dao_range_fit_t fit,
                                       const dao_place_config_t *config, const dao_place_origin_t *origin,
                                       dao_allocator_t **out_allocator)
{
    dao_host_config_t host = {.name = name,
                              .settings = *origin->host_settings,
                              .budget = origin->budget,
                              .fit = fit,
                              .segment_bytes = (size_t)dao_round_up(config->segment_bytes, DAO_RANGE_GRANULE),
                              .initial_bytes = config->initial_bytes,
                              .limit_bytes = config->limit_bytes};
    return dao_host_allocator_create(&host, out_allocator);
}

static dao_status_t start_host(const char *name, dao_range_fit_t fit, const dao_place_config_t *config,
                               const dao_place_origin_t *origin, dao_allocator_t **out_allocator)
{
    dao_allocator_t *large = NULL;
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    if ((config->host_pages || dao_step_plan_is_on(&config->step_plan, origin->step_plan)) &&
        dao_host_pages_suit(origin->host_settings)) {
        status = start_host_pages(name, fit, config, origin, &large);
    }
    if (status == DAO_ERR_NO_HOST_MEMORY) { /* so many addresses may be refused where regions are not */
        status = start_host_regions(name, fit, config, origin, &large);
    }
    return status == DAO_OK ? put_slabs_before(large, name, &dao_slab_host_sizes, 0, out_allocator) : status;
}

static dao_status_t start_pinned(const char *name, dao_range_fit_t fit, const dao_place_config_t *config,
                                 const dao_place_origin_t *origin, dao_allocator_t **out_allocator)
{
    dao_pinned_config_t pinned = {.ops = origin->ops,
                                  .device = origin->device,
                                  .name = name,
                                  .budget = origin->budget,
                                  .fences = origin->fences,
                                  .fit = fit,
                                  .segment_bytes =
                                      (size_t)dao_round_up(config->segment_bytes, DAO_RANGE_GRANULE),
                                  .initial_bytes = config->initial_bytes,
                                  .limit_bytes = config->limit_bytes};
    return dao_pinned_create(&pinned, out_allocator);
}

static dao_status_t start_device(const char *name, dao_range_fit_t fit, const dao_place_config_t *config,
                                 const dao_place_origin_t *origin, dao_allocator_t **out_allocator)
{
    dao_device_memory_config_t caching = {.ops = origin->ops,
                                          .device = origin->device,
                                          .name = name,
                                          .fences = origin->fences,
                                          .fit = fit,
                                          .segment_bytes =
                                              (size_t)dao_round_up(config->segment_bytes, DAO_RANGE_GRANULE),
                                          .initial_bytes = config->initial_bytes,
                                          .limit_bytes = config->limit_bytes,
                                          .no_page_mapping = config->no_page_mapping || origin->has_pool};
    dao_status_t status = dao_device_memory_create(&caching, out_allocator);
    if (status == DAO_OK && (*out_allocator)->ops->lease_begin == NULL) {
        dao_allocator_t *segments = *out_allocator;
        status = dao_stream_ordered_create(origin->fences, segments, out_allocator);
        status = status == DAO_OK ? DAO_OK : undo(segments, status);
    }
    return status;
}

/* Good fit and best fit. */
static dao_status_t start_fit(dao_place_t place, const char *name, const dao_place_config_t *config,
                              const dao_place_origin_t *origin, dao_allocator_t **out_allocator)
{
    dao_range_fit_t fit = config->strategy == DAO_STRATEGY_BEST_FIT ? DAO_RANGE_FIT_BEST : DAO_RANGE_FIT_GOOD;
    if (place.kind == DAO_PLACE_KIND_CPU) {
        return start_host(name, fit, config, origin, out_allocator);
    }
    dao_allocator_t *large = NULL;
    dao_status_t status = place.kind == DAO_PLACE_KIND_PINNED
                              ? start_pinned(name, fit, config, origin, &large)
                              : start_device(name, fit, config, origin, &large);
    return status == DAO_OK
               ? put_slabs_before(large, name, &dao_slab_device_sizes, config->small_bytes, out_allocator)
               : status;
}

/* Returns what a place takes its memory from. */
static dao_upstream_t upstream_of(dao_place_t place, dao_place_origin_t *origin)
{
    dao_upstream_t upstream = {.take = host_take, .give = host_give};
    if (place.kind == DAO_PLACE_KIND_PINNED) {
        upstream = (dao_upstream_t){.take = pinned_take, .give = pinned_give, .user = origin};
    } else if (place.kind == DAO_PLACE_KIND_DEVICE) {
        upstream = (dao_upstream_t){.take = device_take, .give = device_give, .user = origin};
    }
    return upstream;
}

static dao_status_t blocks_create(dao_strategy_t strategy, const dao_strategy_config_t *config,
                                  dao_allocator_t **out_allocator)
{
    switch (strategy) {
    case DAO_STRATEGY_BINARY_BUDDY:
        return dao_binary_buddy_create(config, out_allocator);
    case DAO_STRATEGY_SIZE_CLASS:
        return dao_size_class_create(config, out_allocator);
    default:
        DAO_ASSERT(strategy == DAO_STRATEGY_SYSTEM);
        return dao_system_create(config, out_allocator);
    }
}

/* The strategies that place whole blocks. */
static dao_status_t start_blocks(dao_place_t place, const char *name, const dao_place_config_t *config,
                                 dao_place_origin_t *origin, dao_allocator_t **out_allocator)
{
    bool is_host = place.kind == DAO_PLACE_KIND_CPU;
    bool is_device = place.kind == DAO_PLACE_KIND_DEVICE;
    dao_strategy_config_t strategy = {
        .name = name,
        .budget = is_device ? NULL : origin->budget,
        .upstream = upstream_of(place, origin),
        .full_status = is_device ? DAO_ERR_NO_DEVICE_MEMORY : DAO_ERR_NO_HOST_MEMORY,
        .alignment_bytes = is_host ? HOST_ALIGNMENT_BYTES : DAO_RANGE_GRANULE,
        .segment_bytes = config->segment_bytes,
        .initial_bytes = config->initial_bytes,
        .limit_bytes = config->limit_bytes,
    };
    dao_allocator_t *blocks = NULL;
    dao_status_t status = DAO_OK;
    if (is_device) {
        dao_device_info_t info = {0};
        status = origin->ops->device_query(origin->device, &info);
        strategy.capacity_bytes = info.total_bytes;
    }
    status = status == DAO_OK ? blocks_create(config->strategy, &strategy, &blocks) : status;
    if (status != DAO_OK || is_host) { /* the host has no streams */
        *out_allocator = blocks;
        return status;
    }
    status = dao_stream_ordered_create(origin->fences, blocks, out_allocator);
    return status == DAO_OK ? DAO_OK : undo(blocks, status);
}

dao_status_t dao_place_start(dao_place_t place, const dao_place_config_t *config, dao_place_origin_t *origin,
                             dao_allocator_t **out_allocator)
{
    char name[DAO_PLACE_TEXT_BYTES];
    (void)dao_place_format(place, name);
    bool is_fit = config->strategy == DAO_STRATEGY_GOOD_FIT || config->strategy == DAO_STRATEGY_BEST_FIT;
    dao_status_t status = is_fit ? start_fit(place, name, config, origin, out_allocator)
                                 : start_blocks(place, name, config, origin, out_allocator);
    if (status != DAO_OK && config->initial_bytes != 0) {
        dao_error_prefix("%s, to begin with initial_bytes, %zu bytes: ", name, config->initial_bytes);
    }
    if (status != DAO_OK) {
        return status;
    }
    status = dao_step_plan_wrap(place, &config->step_plan, origin->step_plan, out_allocator);
    if (status == DAO_OK && origin->is_poisoned) {
        status = dao_poisoned_create(*out_allocator, out_allocator);
    }
    if (status != DAO_OK) {
        status = undo(*out_allocator, status);
        *out_allocator = NULL;
    }
    return status;
}
