/* SPDX-License-Identifier: Apache-2.0 */
/* What may be said about a place before it starts: names of strategies, the environment's DAO_STRATEGY, and
   which settings go together. What was said is kept by the core (context.c) and reclaimed by
   place_start.c. */
#include "allocators/slab/slab.h"
#include "allocators/strategies/strategy.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "runtime/core/thread.h"
#include "runtime/start/context.h"
#include "runtime/start/hardening.h"
#include "runtime/start/settings.h"
#include "runtime/start/step_plan_settings.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Most bytes of one piece of memory. */
#define PIECE_BYTES_MAX ((size_t)DAO_RANGE_CAPACITY_MAX)

/* Sizes that a strategy cannot use. */
static dao_status_t check_sizes(const char *place, const dao_place_config_t *config, dao_strategy_t strategy)
{
    const char *name = dao_strategy_name(strategy);
    bool takes_blocks = strategy == DAO_STRATEGY_SIZE_CLASS || strategy == DAO_STRATEGY_SYSTEM;
    if (takes_blocks && (config->initial_bytes != 0 || config->segment_bytes != 0)) {
        return dao_error(DAO_ERR_INVALID, "%s: the strategy %s takes every block by itself: %s has to be 0",
                         place, name, config->initial_bytes != 0 ? "initial_bytes" : "segment_bytes");
    }
    bool is_odd_chunk =
        !dao_is_power_of_two(config->segment_bytes) || config->segment_bytes < DAO_BINARY_BUDDY_BLOCK_BYTES;
    if (strategy == DAO_STRATEGY_BINARY_BUDDY && config->segment_bytes != 0 && is_odd_chunk) {
        return dao_error(DAO_ERR_INVALID,
                         "%s: segment_bytes is %zu; the strategy %s needs a power of two from %u up", place,
                         config->segment_bytes, name, DAO_BINARY_BUDDY_BLOCK_BYTES);
    }
    if (config->initial_bytes > PIECE_BYTES_MAX || config->segment_bytes > PIECE_BYTES_MAX) {
        return dao_error(DAO_ERR_INVALID, "%s: %s is above 1 TiB", place,
                         config->initial_bytes > PIECE_BYTES_MAX ? "initial_bytes" : "segment_bytes");
    }
    if (config->limit_bytes != 0 && config->initial_bytes > config->limit_bytes) {
        return dao_error(DAO_ERR_INVALID, "%s: initial_bytes is %zu, above limit_bytes, which is %zu", place,
                         config->initial_bytes, config->limit_bytes);
    }
    return DAO_OK;
}

// NOLINTNEXTLINE(misc-redundant-expression): two constants that have to stay the same
static_assert(DAO_SMALL_BYTES_MAX == DAO_SLAB_OBJECT_BYTES_MAX, "slabs have objects of all that can be said");

static dao_status_t check_host_pages(dao_place_t place, const char *text, const dao_place_config_t *config)
{
    size_t page_bytes = config->host_page_bytes;
    if (config->host_pages && place.kind != DAO_PLACE_KIND_CPU) {
        return dao_error(DAO_ERR_INVALID, "%s: host_pages is for the host's place; devices map pages anyway",
                         text);
    }
    if (page_bytes == 0) {
        return DAO_OK;
    }
    if (place.kind != DAO_PLACE_KIND_CPU) {
        return dao_error(DAO_ERR_INVALID, "%s: host_page_bytes is for the host's place", text);
    }
    if (!config->host_pages) {
        return dao_error(DAO_ERR_INVALID,
                         "%s: host_page_bytes is of host_pages, which is not set: set it too, also for a "
                         "place with step plans",
                         text);
    }
    if (!dao_is_power_of_two(page_bytes) || page_bytes < DAO_HOST_PAGE_BYTES_MIN ||
        page_bytes > DAO_HOST_PAGE_BYTES_MAX) {
        return dao_error(DAO_ERR_INVALID,
                         "%s: host_page_bytes is %zu; it is a power of two from %zu to %zu, or 0", text,
                         page_bytes, DAO_HOST_PAGE_BYTES_MIN, DAO_HOST_PAGE_BYTES_MAX);
    }
    return DAO_OK;
}

static dao_status_t check_small_bytes(dao_place_t place, const char *text, const dao_place_config_t *config,
                                      dao_strategy_t strategy)
{
    bool has_slabs = place.kind != DAO_PLACE_KIND_CPU &&
                     (strategy == DAO_STRATEGY_GOOD_FIT || strategy == DAO_STRATEGY_BEST_FIT);
    if (config->small_bytes != 0 && !has_slabs) {
        return dao_error(DAO_ERR_INVALID,
                         "%s: small_bytes is for device and pinned places with good_fit or best_fit", text);
    }
    if (config->small_bytes > DAO_SMALL_BYTES_MAX) {
        return dao_error(DAO_ERR_INVALID,
                         "%s: small_bytes is %zu; it goes up to %zu, larger blocks are placed one by one",
                         text, config->small_bytes, DAO_SMALL_BYTES_MAX);
    }
    return DAO_OK;
}

/* Checks a config for a place, of which `strategy` will be in effect. */
static dao_status_t config_check(dao_place_t place, const dao_place_config_t *config, dao_strategy_t strategy)
{
    char text[DAO_PLACE_TEXT_BYTES];
    (void)dao_place_format(place, text);
    dao_status_t status = dao_hardening_flags_check(text, config->hardening);
    if (status != DAO_OK) {
        return status;
    }
    status = check_host_pages(place, text, config);
    if (status != DAO_OK) {
        return status;
    }
    if (config->no_page_mapping && place.kind != DAO_PLACE_KIND_DEVICE) {
        return dao_error(DAO_ERR_INVALID, "%s: no_page_mapping is for device places; this one has no pages",
                         text);
    }
    if (config->memory_pool && place.kind != DAO_PLACE_KIND_DEVICE) {
        return dao_error(DAO_ERR_INVALID, "%s: memory_pool is for device places", text);
    }
    status = check_small_bytes(place, text, config, strategy);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_step_plan_config_check(text, &config->step_plan);
    return status == DAO_OK ? check_sizes(text, config, strategy) : status;
}

dao_status_t dao_place_configure(dao_place_t place, const dao_place_config_t *config)
{
    if (config == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_place_configure: config is NULL");
    }
    if (!dao_strategy_is_valid(config->strategy)) {
        return dao_error(DAO_ERR_INVALID,
                         "dao_place_configure: strategy is %d; it goes from 0 (default) to %d",
                         (int)config->strategy, DAO_STRATEGY_COUNT);
    }
    dao_core_t *core;
    dao_status_t status = dao_thread_check();
    if (status == DAO_OK) {
        status = dao_place_enter(place, &core);
    }
    if (status == DAO_OK) {
        dao_place_config_t effective = *config;
        effective.strategy = dao_core_strategy(core, place.kind, config->strategy);
        status = config_check(place, config, effective.strategy);
        return status == DAO_OK ? dao_context_configure(core, place, &effective) : status;
    }
    return status;
}
