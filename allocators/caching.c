/* Device memory, kept for the next request.

   With page mapping there is one reservation of addresses, a range over it that places blocks, and pages behind it:

       addresses  [ block ][ hole ][ block ]      hole      [block]        hole ...       4 times the device
       pages      [ mapped  ][ mapped  ][    -    ][ mapped  ][    -    ]

   A block is placed first and backed then; pages stay mapped when their blocks are freed. If pages are missing, the block
   goes to the hole that lacks the fewest of them, whole free pages are moved there from elsewhere, and new ones are taken:
   pages.c. Without page mapping the blocks live in segments: segments.c.

   What holds between calls:

       stats.reserved_bytes == pages * page_bytes, or the sum of the segments
       stats.reserved_bytes <= stats.limit_bytes, if there is a limit
       every page that a live block touches is mapped
       stats.used_bytes == sum of the live blocks' sizes

   When memory is short, in this order, each step bounded: free pages are moved, new ones are taken (or first the other way
   round, see pages.c), free segments are given back; then an error with the figures. Free pages need no giving back before
   an error: the first step has used them all.

   One lock guards everything and is held over backend calls, which is the exception to the rule that none which may wait is
   made under a lock. A miss changes placement, pages and counters in one step, and nobody else may take the pages on their
   way; free() makes no backend call, but may wait for another thread's miss. In steady state there are no backend calls. */
#include "allocators/caching.h"

#include "allocators/buddy.h"
#include "allocators/pages.h"
#include "allocators/segments.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"
#include "base/sync.h"

/* Addresses reserved for each byte of the device: free pages can be moved to any hole, so that only addresses fragment. */
#define RESERVATION_FACTOR 4u

/* Smallest segment that is taken without page mapping. */
#define SEGMENT_BYTES ((size_t)20 << 20)

/* Holes that are looked at for the one that lacks the fewest pages. */
#define HOLE_LOOK_COUNT 256u

typedef struct caching {
    dao_allocator_t base;
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device;
    uint64_t page_bytes; /* 0: segments */

    dao_mutex_t lock;
    dao_ledger_t ledger;
    dao_segments_t segments;   /* without page mapping */
    dao_pages_t *pages;        /* with page mapping */
    dao_segment_t reservation; /* with page mapping */
} caching_t;

static caching_t *caching_of(dao_allocator_t *allocator)
{
    return (caching_t *)allocator;
}

static bool is_valid_locked(const caching_t *caching)
{
    dao_recount_t recount = {0};
    bool is_valid = false;
    if (caching->page_bytes == 0) {
        is_valid = dao_segments_is_valid(&caching->segments, &recount);
    } else {
        recount.reserved_bytes = dao_pages_count(caching->pages) * caching->page_bytes;
        is_valid = dao_segment_is_valid(&caching->reservation, &recount) &&
                   dao_pages_is_valid(caching->pages, caching->reservation.range);
    }
    return is_valid && dao_ledger_matches(&caching->ledger, &recount);
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

static uint64_t largest_hole_locked(const caching_t *caching)
{
    return caching->page_bytes == 0 ? dao_segments_largest_hole(&caching->segments)
                                    : dao_pages_largest_hole(caching->pages, caching->reservation.range);
}

/* ---- with page mapping ---- */

/* Counts what the backend has given or got back since the last count. */
static void count_pages_locked(caching_t *caching)
{
    uint64_t reserved_bytes = dao_pages_count(caching->pages) * caching->page_bytes;
    dao_stats_t *stats = &caching->ledger.stats;
    if (reserved_bytes > stats->reserved_bytes) {
        dao_stats_count_grow(stats, (size_t)(reserved_bytes - stats->reserved_bytes));
    } else if (reserved_bytes < stats->reserved_bytes) {
        dao_stats_count_shrink(stats, (size_t)(stats->reserved_bytes - reserved_bytes));
    }
}

/* The search for the hole that lacks the fewest pages. */
typedef struct hole_search {
    const dao_pages_t *pages;
    uint64_t size_bytes;
    uint32_t looks_left;
    uint32_t fewest_missing;
    uint64_t offset_bytes;
} hole_search_t;

/* Tries both ends of a hole. */
static bool look_at_hole(const dao_range_block_t *hole, void *user)
{
    hole_search_t *search = user;
    if (hole->size_bytes >= search->size_bytes) {
        uint64_t ends[] = {hole->offset_bytes, hole->offset_bytes + hole->size_bytes - search->size_bytes};
        for (size_t i = 0; i < 2; i++) {
            uint32_t missing = dao_pages_missing(search->pages, ends[i], search->size_bytes);
            if (missing < search->fewest_missing) {
                search->fewest_missing = missing;
                search->offset_bytes = ends[i];
            }
        }
    }
    search->looks_left--;
    return search->looks_left > 0 && search->fewest_missing > 0 &&
           hole->size_bytes + hole->size_bytes / 8 + DAO_RANGE_GRANULE >= search->size_bytes;
}

/* Moves a block that lacks pages to where it lacks the fewest. */
static dao_status_t place_better_locked(caching_t *caching, uint64_t size_bytes, uint64_t word,
                                        uint32_t missing, uint64_t *offset_bytes)
{
    dao_range_t *range = caching->reservation.range;
    hole_search_t search = {.pages = caching->pages,
                            .size_bytes = size_bytes,
                            .looks_left = HOLE_LOOK_COUNT,
                            .fewest_missing = missing,
                            .offset_bytes = *offset_bytes};
    dao_range_walk_holes(range, look_at_hole, &search);
    if (search.offset_bytes == *offset_bytes) {
        return DAO_OK;
    }
    dao_status_t status = dao_range_alloc_at(range, search.offset_bytes, size_bytes, word);
    if (status != DAO_OK) {
        return status;
    }
    (void)dao_range_free(range, *offset_bytes); /* it was placed there a moment ago */
    *offset_bytes = search.offset_bytes;
    return DAO_OK;
}

/* Backs a block that lacks pages, perhaps elsewhere: off the usual path. */
static dao_status_t back_locked(caching_t *caching, uint64_t word, uint64_t block_bytes, uint32_t missing,
                                uint64_t *offset_bytes)
{
    dao_status_t status = place_better_locked(caching, block_bytes, word, missing, offset_bytes);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t room_pages = dao_ledger_room(&caching->ledger) / caching->page_bytes;
    uint32_t new_page_max = room_pages > UINT32_MAX ? UINT32_MAX : (uint32_t)room_pages;
    status = dao_pages_back(caching->pages, caching->reservation.range, *offset_bytes, block_bytes,
                            new_page_max, &caching->ledger.stats.remap_count);
    count_pages_locked(caching); /* after a failure too: the backend may have refused to take a page back */
    return status;
}

/* Places a block and backs it with pages. */
static dao_status_t place_locked(caching_t *caching, const dao_block_request_t *request, uint64_t block_bytes,
                                 uint64_t *out_offset)
{
    dao_range_t *range = caching->reservation.range;
    uint64_t offset_bytes = 0;
    dao_status_t status =
        dao_range_alloc(range, block_bytes, request->alignment_bytes, dao_word_of(request), &offset_bytes);
    if (status == DAO_ERR_LIMIT) {
        return dao_error(DAO_ERR_NO_DEVICE_MEMORY, "no hole among the addresses is that large; free blocks");
    }
    if (status != DAO_OK) {
        return status;
    }
    uint32_t missing = dao_pages_missing(caching->pages, offset_bytes, block_bytes);
    if (missing > 0) {
        status = back_locked(caching, dao_word_of(request), block_bytes, missing, &offset_bytes);
    }
    if (status != DAO_OK) {
        (void)dao_range_free(range, offset_bytes); /* it was placed there a moment ago */
        return status;
    }
    *out_offset = offset_bytes;
    return DAO_OK;
}

static dao_status_t alloc_paged_locked(caching_t *caching, const dao_block_request_t *request,
                                       void **out_address)
{
    size_t size_bytes = request->size_bytes;
    uint64_t offset_bytes = 0;
    uint64_t block_bytes = 0;
    dao_status_t status = DAO_OK;
    if (size_bytes > PTRDIFF_MAX) {
        status = dao_error(DAO_ERR_OVERFLOW, "no block can be that large");
    } else {
        block_bytes = (size_bytes + DAO_RANGE_GRANULE - 1) & ~(uint64_t)(DAO_RANGE_GRANULE - 1);
        status = place_locked(caching, request, block_bytes, &offset_bytes);
    }
    if (status != DAO_OK) {
        return dao_ledger_fail(&caching->ledger, status, size_bytes, largest_hole_locked(caching));
    }
    dao_stats_count_alloc(&caching->ledger.stats, size_bytes, (size_t)block_bytes);
    *out_address = caching->reservation.address + offset_bytes;
    return DAO_OK;
}

static bool in_reservation(const caching_t *caching, const void *address)
{
    return (uintptr_t)address - (uintptr_t)caching->reservation.address < caching->reservation.size_bytes;
}

static dao_status_t free_paged_locked(caching_t *caching, const void *address)
{
    return in_reservation(caching, address)
               ? dao_segment_free(&caching->reservation, &caching->ledger, address)
               : DAO_ERR_FOREIGN_POINTER;
}

/* Gives back free pages until at most keep_bytes of them are left. */
static dao_status_t trim_paged_locked(caching_t *caching, uint64_t keep_bytes)
{
    uint32_t free_count = dao_pages_free_count(caching->pages, caching->reservation.range, UINT32_MAX);
    uint64_t keep_count = keep_bytes / caching->page_bytes;
    if (free_count <= keep_count) {
        return DAO_OK;
    }
    dao_status_t status =
        dao_pages_release(caching->pages, caching->reservation.range, free_count - (uint32_t)keep_count);
    count_pages_locked(caching);
    return status;
}

static dao_status_t limit_set_paged_locked(caching_t *caching, uint64_t limit_bytes)
{
    dao_stats_t *stats = &caching->ledger.stats;
    if (limit_bytes != 0 && stats->reserved_bytes > limit_bytes) {
        uint64_t excess =
            (stats->reserved_bytes - limit_bytes + caching->page_bytes - 1) / caching->page_bytes;
        if (dao_pages_free_count(caching->pages, caching->reservation.range, (uint32_t)excess) < excess) {
            return dao_error(DAO_ERR_LIMIT, "%s: live blocks hold more than the new limit of %zu bytes",
                             caching->ledger.name, (size_t)limit_bytes);
        }
        dao_status_t status = dao_pages_release(caching->pages, caching->reservation.range, (uint32_t)excess);
        count_pages_locked(caching);
        if (status != DAO_OK) {
            return status;
        }
    }
    stats->limit_bytes = limit_bytes;
    return DAO_OK;
}

/* ---- the table ---- */

static dao_status_t caching_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                  dao_block_grant_t *out_grant)
{
    caching_t *caching = caching_of(allocator);
    DAO_ASSERT(request->size_bytes > 0);
    out_grant->hold = (dao_hold_t){0};
    lock(caching);
    dao_status_t status = caching->page_bytes == 0
                              ? dao_segments_alloc(&caching->segments, request, &out_grant->address)
                              : alloc_paged_locked(caching, request, &out_grant->address);
    unlock(caching);
    return status;
}

static dao_status_t caching_free(dao_allocator_t *allocator, void *address, dao_hold_t *hold)
{
    DAO_ASSERT(hold == NULL || dao_hold_is_empty(hold));
    (void)hold;
    caching_t *caching = caching_of(allocator);
    lock(caching);
    dao_status_t status = caching->page_bytes == 0 ? dao_segments_free(&caching->segments, address)
                                                   : free_paged_locked(caching, address);
    unlock(caching);
    return dao_ledger_check_free(&caching->ledger, status, address);
}

static dao_status_t caching_query(dao_allocator_t *allocator, const void *address, dao_block_t *out_block)
{
    caching_t *caching = caching_of(allocator);
    dao_status_t status = DAO_ERR_FOREIGN_POINTER;
    lock(caching);
    if (caching->page_bytes == 0) {
        status = dao_segments_query(&caching->segments, address, out_block);
    } else if (in_reservation(caching, address)) {
        status = dao_segment_query(&caching->reservation, address, out_block);
    }
    unlock(caching);
    return dao_ledger_check_query(&caching->ledger, status, address);
}

static dao_status_t caching_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    uint64_t before_bytes = caching->ledger.stats.reserved_bytes;
    uint64_t released_bytes = 0;
    dao_status_t status = caching->page_bytes == 0
                              ? dao_segments_trim(&caching->segments, keep_bytes, &released_bytes)
                              : trim_paged_locked(caching, keep_bytes);
    released_bytes = before_bytes - caching->ledger.stats.reserved_bytes;
    unlock(caching);
    *out_released_bytes = (size_t)released_bytes;
    return status;
}

static dao_status_t caching_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    caching_t *caching = caching_of(allocator);
    lock(caching);
    dao_status_t status = caching->page_bytes == 0 ? dao_segments_limit_set(&caching->segments, limit_bytes)
                                                   : limit_set_paged_locked(caching, limit_bytes);
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
    out_stats->largest_hole_bytes = largest_hole_locked(caching);
    unlock(caching);
}

static const dao_stats_t *caching_stats_view(dao_allocator_t *allocator)
{
    return &caching_of(allocator)->ledger.stats;
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
    if (caching->page_bytes == 0) {
        dao_segments_walk(&caching->segments, visit, user);
    } else {
        dao_segment_walk(&caching->reservation, visit, user);
    }
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
    dao_range_destroy(caching->reservation.range);
    dao_pages_destroy(caching->pages);
    dao_segments_finish(&caching->segments);
    dao_ledger_finish(&caching->ledger);
    dao_mutex_finish(&caching->lock);
    dao_host_free(caching);
}

static const dao_allocator_ops_t caching_ops = {
    .name = "caching",
    .alloc = caching_alloc,
    .free = caching_free,
    .query = caching_query,
    .trim = caching_trim,
    .limit_set = caching_limit_set,
    .used_get = caching_used_get,
    .stats_get = caching_stats_get,
    .stats_reset_peaks = caching_stats_reset_peaks,
    .walk = caching_walk,
    .is_valid = caching_is_valid,
    .destroy = caching_destroy,
    .stats_view = caching_stats_view,
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

/* Gives the size of pages that the device's own are put together to; 0 for a device that is to have segments. */
static uint64_t page_bytes_for(const dao_backend_ops_t *ops, const dao_device_info_t *info)
{
    if (!dao_backend_has_pages(ops) || info->page_bytes == 0) {
        return 0;
    }
    uint64_t page_bytes = (DAO_PAGE_BYTES + info->page_bytes - 1) / info->page_bytes * info->page_bytes;
    return info->total_bytes < page_bytes || page_bytes > DAO_RANGE_CAPACITY_MAX ? 0 : page_bytes;
}

static dao_status_t create_pages(caching_t *caching, uint64_t total_bytes)
{
    uint64_t most_places = DAO_RANGE_CAPACITY_MAX / caching->page_bytes;
    uint64_t page_count = total_bytes / caching->page_bytes;
    page_count = page_count > most_places ? most_places : page_count;
    uint64_t place_count = page_count * RESERVATION_FACTOR;
    place_count = place_count > most_places ? most_places : place_count;
    dao_pages_config_t config = {.ops = caching->ops,
                                 .device = caching->device,
                                 .page_bytes = caching->page_bytes,
                                 .page_count = (uint32_t)page_count,
                                 .place_count = (uint32_t)place_count};
    dao_status_t status = dao_pages_create(&config, &caching->pages);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t size_bytes = place_count * caching->page_bytes;
    caching->reservation = (dao_segment_t){.address = dao_pages_address(caching->pages),
                                           .size_bytes = (size_t)size_bytes,
                                           .bound_bytes = size_bytes};
    return dao_range_create(size_bytes, &caching->reservation.range);
}

dao_status_t dao_caching_create(const dao_backend_ops_t *ops, dao_backend_device_t *device, const char *name,
                                dao_allocator_t **out_allocator)
{
    dao_device_info_t info = {0};
    dao_status_t status = ops->device_query(device, &info);
    if (status != DAO_OK) {
        return status;
    }
    caching_t *caching = dao_host_calloc(1, sizeof(*caching));
    if (caching == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", name);
    }
    caching->base.ops = &caching_ops;
    caching->ops = ops;
    caching->device = device;
    dao_mutex_init(&caching->lock, DAO_RANK_ALLOCATOR);
    dao_segments_config_t config = {.upstream = {.take = take_memory, .give = give_memory, .user = caching},
                                    .unit_bytes = DAO_PAGE_BYTES,
                                    .minimum_bytes = SEGMENT_BYTES,
                                    .full_status = DAO_ERR_NO_DEVICE_MEMORY};
    dao_segments_init(&caching->segments, &config, &caching->ledger);
    status = dao_ledger_init(&caching->ledger, name);
    caching->page_bytes = page_bytes_for(ops, &info);
    if (status == DAO_OK && caching->page_bytes != 0) {
        status = create_pages(caching, info.total_bytes);
    }
    if (status != DAO_OK) {
        caching_destroy(&caching->base);
        return status;
    }
    DAO_ASSERT_HEAVY(caching_is_valid(&caching->base));
    *out_allocator = &caching->base;
    return DAO_OK;
}
