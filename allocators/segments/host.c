/* SPDX-License-Identifier: Apache-2.0 */
/* Ordinary host memory: segments.c over regions of the system. Small blocks come out of slabs, which a thread
   cache (slab/thread_cache.h) takes from here.

   Regions are mapped and unmapped under the lock: the system does not make that wait for a device. The first
   ones, up to the usual size, have no huge pages unless they were asked for: a program that needs little
   takes little.

   Decay gives idle pages back without a thread and a clock. There is a pass whenever as many bytes were freed
   as are reserved; it remembers the largest holes, and discards what it finds free that the last pass has
   remembered. An allocation out of a remembered hole takes its part, and all below, out of memory. So pages
   go that were free while everything could have been freed once, and of the pages that a program uses again
   and again none does. Trimming discards all holes. */
#include "allocators/segments/host.h"

#include "allocators/segments/segmented.h"
#include "base/log.h"
#include "base/memory/host.h"
#include "base/memory/host_policy.h"
#include "base/memory/poison.h"
#include "base/numbers/math.h"
#include "base/report/error.h"

#include <string.h>

/* What of the regions' settings the system has refused, and whether that was logged. */
typedef struct refusal {
    int error; /* errno of the first time; 0: none yet */
    bool is_logged;
} refusal_t;

/* Holes that decay remembers, and their least size. What is not remembered stays: the largest are most of it,
   and each allocation looks at all of them. */
#define IDLE_HOLE_COUNT 16u
#define IDLE_HOLE_BYTES ((size_t)256 << 10)

/* Discarded are multiples of this, whatever pages the system has. */
#define DISCARD_UNIT_BYTES ((uintptr_t)64 << 10)

/* A part of a hole, in whole units. */
typedef struct hole {
    uintptr_t begin;
    uintptr_t end;
    bool is_clean; /* it was discarded */
} hole_t;

typedef struct holes {
    hole_t items[IDLE_HOLE_COUNT];
    size_t count;
} holes_t;

typedef struct host {
    dao_segmented_t segmented;
    dao_host_memory_config_t settings; /* of regions */
    /* guarded by the lock */
    refusal_t huge_pages;
    refusal_t numa;
    holes_t idle;         /* as of the last pass of decay, without what was taken since */
    uint64_t freed_bytes; /* since then */
} host_t;

static host_t *host_of(dao_allocator_t *allocator)
{
    return (host_t *)allocator;
}

static bool is_valid_locked(const dao_segmented_t *segmented)
{
    dao_recount_t recount = {0};
    return dao_segmented_recounts(segmented, &recount);
}

static const dao_segmented_ways_t host_ways = {
    .is_valid_locked = is_valid_locked, .lock = dao_segmented_lock, .unlock = dao_segmented_unlock};

/* Returns the error of a refusal that is to be logged now, else 0. */
static int refusal_take(refusal_t *refusal)
{
    int error = refusal->is_logged ? 0 : refusal->error;
    refusal->is_logged = refusal->error != 0;
    return error;
}

static void warn(const host_t *host, const char *what, int error)
{
    if (error != 0) {
        dao_log(DAO_LOG_LEVEL_WARNING, "%s: the system refuses %s: %s; the memory is as by default",
                host->segmented.ledger.name, what, strerror(error));
    }
}

/* Unlocks, then logs what was refused under the lock. */
static void unlock_and_warn(host_t *host)
{
    int huge_pages = refusal_take(&host->huge_pages);
    int numa = refusal_take(&host->numa);
    dao_segmented_unlock(&host->segmented);
    warn(host, "huge pages", huge_pages);
    warn(host, "to choose the NUMA node", numa);
}

/* ---- decay ---- */

/* Returns true if pages may be given back: the settings want none of them there at all times. */
static bool may_discard(const host_t *host)
{
    return !host->settings.prefault && host->settings.huge_pages != DAO_HUGE_PAGES_EXPLICIT;
}

/* Returns the whole units in a free block. */
static hole_t hole_of(const host_t *host, const dao_range_block_t *block)
{
    uintptr_t address = (uintptr_t)dao_space_address(&host->segmented.segments.space, block->offset_bytes);
    uintptr_t begin = (address + DISCARD_UNIT_BYTES - 1) & ~(DISCARD_UNIT_BYTES - 1);
    uintptr_t end = (address + block->size_bytes) & ~(DISCARD_UNIT_BYTES - 1);
    return (hole_t){.begin = begin, .end = end > begin ? end : begin};
}

static void discard(uintptr_t begin, uintptr_t end)
{
    if (begin < end) {
        dao_host_discard((void *)begin, end - begin);
    }
}

/* A walk over holes, the largest first. */
typedef struct hole_walk {
    const host_t *host;
    holes_t *out_holes;    /* NULL: they are discarded instead, */
    uint64_t excess_bytes; /* so many bytes of them */
} hole_walk_t;

static bool see_hole(const dao_range_block_t *block, void *user)
{
    hole_walk_t *walk = user;
    hole_t hole = hole_of(walk->host, block);
    if (walk->out_holes == NULL) {
        discard(hole.begin, hole.end);
        walk->excess_bytes -= dao_smaller(walk->excess_bytes, hole.end - hole.begin);
        return walk->excess_bytes > 0;
    }
    if (block->size_bytes < IDLE_HOLE_BYTES || walk->out_holes->count == IDLE_HOLE_COUNT) {
        return false;
    }
    walk->out_holes->items[walk->out_holes->count++] = hole;
    return true;
}

static void walk_holes_locked(hole_walk_t *walk)
{
    const dao_space_t *space = &walk->host->segmented.segments.space;
    if (space->range != NULL) {
        dao_range_walk_holes(space->range, see_hole, walk);
    }
}

/* Discards holes until no more than keep_bytes are idle. */
static void discard_holes_locked(const host_t *host, uint64_t keep_bytes)
{
    const dao_stats_t *stats = &host->segmented.ledger.stats;
    uint64_t idle_bytes = stats->reserved_bytes - stats->used_bytes;
    if (idle_bytes > keep_bytes) {
        walk_holes_locked(&(hole_walk_t){.host = host, .excess_bytes = idle_bytes - keep_bytes});
    }
}

/* Discards what of a hole was one at the last pass, too. */
static void settle_hole(const holes_t *before, hole_t *hole)
{
    for (size_t i = 0; i < before->count; i++) {
        const hole_t *old = &before->items[i];
        uintptr_t begin = old->begin > hole->begin ? old->begin : hole->begin;
        uintptr_t end = old->end < hole->end ? old->end : hole->end;
        if (begin >= end) {
            continue;
        }
        if (!old->is_clean) {
            discard(begin, end);
        }
        hole->is_clean = begin == hole->begin && end == hole->end;
    }
}

/* Notes freed bytes, and makes a pass if it is time. */
static void decay_locked(host_t *host, uint64_t freed_bytes)
{
    host->freed_bytes += freed_bytes;
    if (host->freed_bytes < host->segmented.ledger.stats.reserved_bytes || !may_discard(host)) {
        return;
    }
    holes_t holes = {.count = 0};
    walk_holes_locked(&(hole_walk_t){.host = host, .out_holes = &holes});
    for (size_t i = 0; i < holes.count; i++) {
        settle_hole(&host->idle, &holes.items[i]);
    }
    host->idle = holes;
    host->freed_bytes = 0;
}

/* A block has been taken. */
static void note_used_locked(host_t *host, uintptr_t begin, size_t size_bytes)
{
    uintptr_t end = (begin + size_bytes + DISCARD_UNIT_BYTES - 1) & ~(DISCARD_UNIT_BYTES - 1);
    for (size_t i = 0; i < host->idle.count; i++) {
        hole_t *hole = &host->idle.items[i];
        if (begin < hole->end && end > hole->begin) {
            hole->begin = end < hole->end ? end : hole->end;
        }
    }
}

/* ---- alloc and free ---- */

static dao_status_t host_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                               dao_block_grant_t *out_grant)
{
    host_t *host = host_of(allocator);
    DAO_ASSERT(request->size_bytes > 0);
    dao_segmented_lock(&host->segmented);
    dao_status_t status = dao_segments_alloc(&host->segmented.segments, request, out_grant);
    if (status == DAO_OK) {
        note_used_locked(host, (uintptr_t)out_grant->address, request->size_bytes);
    }
    unlock_and_warn(host);
    return status;
}

static dao_status_t host_free_owned(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence,
                                    dao_block_owner_t owner)
{
    DAO_ASSERT(fence == NULL || dao_stream_fence_is_empty(fence));
    (void)fence;
    host_t *host = host_of(allocator);
    dao_segmented_lock(&host->segmented);
    uint64_t before_bytes = host->segmented.ledger.stats.used_bytes;
    dao_status_t status = dao_segments_free(&host->segmented.segments, address, NULL, owner);
    if (status == DAO_OK) {
        decay_locked(host, before_bytes - host->segmented.ledger.stats.used_bytes);
    }
    dao_segmented_unlock(&host->segmented);
    return dao_segmented_check_free(&host->segmented, status, address);
}

static dao_status_t host_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence)
{
    return host_free_owned(allocator, address, fence, DAO_BLOCK_OWNER_RAW);
}

static dao_status_t host_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    host_t *host = host_of(allocator);
    dao_status_t status = dao_segmented_trim(allocator, keep_bytes, out_released_bytes);
    if (may_discard(host)) {
        dao_segmented_lock(&host->segmented);
        discard_holes_locked(host, keep_bytes);
        dao_segmented_unlock(&host->segmented);
    }
    return status;
}

static void host_destroy(dao_allocator_t *allocator)
{
    host_t *host = host_of(allocator);
    dao_segmented_finish(&host->segmented);
    dao_host_free(host);
}

static const dao_allocator_ops_t host_ops = {
    .name = "host",
    .alloc = host_alloc,
    .alloc_fast = dao_allocator_alloc_fallback,
    .free_fast = dao_allocator_free_fallback,
    .free = host_free,
    .free_owned = host_free_owned,
    .query = dao_segmented_query,
    .trim = host_trim,
    .limit_set = dao_segmented_limit_set,
    .used_get = dao_segmented_used_get,
    .stats_get = dao_segmented_stats_get,
    .stats_reset_peaks = dao_segmented_stats_reset_peaks,
    .walk = dao_segmented_walk,
    .walk_all = dao_segmented_walk_all,
    .is_valid = dao_segmented_is_valid,
    .destroy = host_destroy,
};

static dao_status_t take_region(void *user, size_t size_bytes, void **out_address)
{
    host_t *host = user;
    dao_host_refusals_t refusals;
    dao_host_memory_config_t settings = host->settings;
    if (settings.huge_pages != DAO_HUGE_PAGES_EXPLICIT && size_bytes < DAO_HOST_REGION_BYTES) {
        settings.huge_pages = DAO_HUGE_PAGES_NEVER;
    }
    void *address = dao_host_map_by(&settings, size_bytes, DAO_PAGE_BYTES, &refusals);
    host->huge_pages.error = host->huge_pages.error != 0 ? host->huge_pages.error : refusals.huge_pages;
    host->numa.error = host->numa.error != 0 ? host->numa.error : refusals.numa;
    if (address == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "the system refuses a region of %zu bytes", size_bytes);
    }
    *out_address = address;
    return DAO_OK;
}

static dao_status_t give_region(void *user, void *address, size_t size_bytes)
{
    (void)user; /* there is one system */
    dao_unpoison(address, size_bytes);
    dao_host_unmap(address, size_bytes);
    return DAO_OK;
}

/* Makes an empty allocator what its config says. */
static dao_status_t host_start(host_t *host, const dao_host_config_t *config)
{
    dao_status_t status = dao_segmented_name(&host->segmented, config->name);
    if (status != DAO_OK) {
        return status;
    }
    host->segmented.ledger.stats.limit_bytes = config->limit_bytes;
    host->segmented.ledger.budget = config->budget;
    return config->initial_bytes != 0
               ? dao_segments_take_initial(&host->segmented.segments, config->initial_bytes)
               : DAO_OK;
}

dao_status_t dao_host_allocator_create(const dao_host_config_t *config, dao_allocator_t **out_allocator)
{
    host_t *host = dao_host_calloc(1, sizeof(*host));
    if (host == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    host->settings = config->settings;
    dao_segments_config_t segments = {.upstream = {.take = take_region, .give = give_region, .user = host},
                                      .unit_bytes = DAO_PAGE_BYTES,
                                      .minimum_bytes = config->segment_bytes != 0 ? config->segment_bytes
                                                                                  : DAO_HOST_REGION_BYTES,
                                      .first_bytes = config->segment_bytes != 0 ? 0 : DAO_HOST_FIRST_BYTES,
                                      .own_share = 1,
                                      .fit = config->fit,
                                      .full_status = DAO_ERR_NO_HOST_MEMORY};
    dao_segmented_init(&host->segmented, &host_ops, &host_ways, &segments);
    dao_status_t status = host_start(host, config);
    if (status != DAO_OK) {
        host_destroy(&host->segmented.base);
        return status;
    }
    DAO_ASSERT_HEAVY(dao_segmented_is_valid(&host->segmented.base));
    *out_allocator = &host->segmented.base;
    return DAO_OK;
}
