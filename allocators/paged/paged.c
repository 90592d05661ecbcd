/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory in pages, kept for the next request.

       arena 0   addresses  [ block ][ hole ][ block ]      hole      [block]     hole ...  4 times the device
                 pages      [ mapped  ][ mapped  ][    -    ][ mapped  ][    -    ]
       arena 1   addresses  ...              a window of addresses, a range and a lock of its own

   A block is placed first and backed then; pages stay mapped when their blocks are freed. A thread keeps to
   one arena, and there is one until threads wait for each other: then a thread that finds its arena taken
   goes to another one. Pages belong to all arenas: what one has free is moved to another before the device or
   the limit is said to be full. Leases are the exception: each has an arena of its own, which keeps its pages
   (paged_lease.c).

   The usual path takes the arena's lock alone: a hole that is mapped throughout and not fenced, or fenced by
   the request's own stream (paged_ordered.c). Everything else takes the locks of all arenas, in their order
   ("the world"), and goes on in this order, each step bounded:

       1. once more the usual path: another thread may have freed something
       2. fenced parts whose streams have passed since are free for all, some at a time
       3. a part that other streams fence, mapped throughout, behind a wait on the device (stream requests)
       4. the place that lacks the fewest pages: new ones are taken, or free ones moved there (pages.c)
       5. all of this in the arenas of other threads
       6. a block over parts that different streams fence side by side (stream requests)
       7. all fences, waited for on the host, once; then all steps again

   Then an error with the figures.

   Where little may still be taken, memory is tight; that is judged as pages or the limit change, and by trim.
   Requests without a stream then go where paged_tight.c says, so that small blocks keep out of pages that are
   free as a whole.

   What holds between calls, with the world's locks:

       stats.reserved_bytes == pages * page_bytes <= stats.limit_bytes, if there is a limit
       every page that a live block touches is mapped, and every page below an arena's mapped_floor_bytes
       an arena's used_bytes == sum of its live blocks' sizes; the place's are the sums over its arenas
       the shared arenas are those of role ARENA_SHARED, in their order; the first arena is one of them

   Peaks: each arena knows its own since they were last added up. With one arena the place's peak is exact,
   with more it is never too low.

   Backend calls are made under the world's locks, an exception to the rule that none which may wait is made
   under a lock: a miss changes placement, pages and counters in one step, and nobody else may take the pages
   on their way. In steady state there are none. Waiting for streams is done without a lock. */
#include "allocators/paged/paged_internal.h"

#include "allocators/range/range_internal.h"
#include "allocators/slow_path.h"
#include "base/internal_error.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/numbers/path.h"
#include "base/report/assert.h"
#include "base/report/error.h"

/* Addresses reserved for each byte of the device: free pages can be moved to any hole, so that only addresses
   fragment. */
#define RESERVATION_FACTOR 4u

/* A driver makes and destroys pages one by one, tens of microseconds each: a place that may take more of
   them has larger ones, so that taking all of its memory takes about a second. */
#define PAGE_COUNT_MAX (UINT64_C(1) << 15)

static dao_status_t fail(paged_t *paged, const dao_block_request_t *request, dao_status_t status)
{
    status = status == DAO_ERR_NO_DEVICE_MEMORY ? paged->full_status : status;
    dao_paged_lock(paged);
    dao_paged_gather(paged);
    status = dao_ledger_fail(&paged->ledger, status, request, dao_paged_largest_hole(paged));
    dao_paged_unlock(paged);
    return status;
}

/* ---- the table ---- */

/* Returns the arena where a request is tried first, locked. */
static arena_t *enter(paged_t *paged, const dao_block_request_t *request)
{
    if (request->lease == 0) {
        return dao_paged_enter(paged);
    }
    arena_t *arena = dao_paged_leased(paged, request->lease);
    dao_arena_lock(arena);
    DAO_ASSERT(arena->role == ARENA_LEASED || arena->role == ARENA_WINDOW);
    return arena;
}

/* Places a block that is charged: in one arena, if that has a place, else in every way there is. */
static dao_status_t place(paged_t *paged, const dao_block_request_t *request, uint64_t block_bytes,
                          dao_block_grant_t *out_grant)
{
    placing_t placing = {.request = request, .block_bytes = block_bytes};
    arena_t *arena = enter(paged, request);
    dao_status_t status = dao_paged_place_in(arena, &placing, false);
    if (status == DAO_OK) {
        dao_paged_finish(&placing, out_grant);
    }
    dao_spin_unlock(&arena->lock);
    return status == DAO_ERR_LIMIT ? dao_paged_alloc_slow(paged, &placing, out_grant) : status;
}

static dao_status_t paged_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                dao_block_grant_t *out_grant)
{
    paged_t *paged = dao_paged_of(allocator);
    DAO_ASSERT(request->size_bytes > 0 && (request->stream == 0 || paged->fences != NULL));
    if (request->size_bytes > PTRDIFF_MAX) {
        return fail(paged, request, dao_error(DAO_ERR_OVERFLOW, "no block can be that large"));
    }
    uint64_t block_bytes = dao_round_up(request->size_bytes, DAO_RANGE_GRANULE);
    dao_status_t status = dao_ledger_charge(&paged->ledger, request, block_bytes);
    if (status != DAO_OK) {
        return fail(paged, request, status);
    }
    status = place(paged, request, block_bytes, out_grant);
    if (status != DAO_OK) {
        dao_ledger_refund(&paged->ledger, request, block_bytes);
        return fail(paged, request, status);
    }
    return DAO_OK;
}

/* Takes a block at the front of a hole that is mapped so far, and unlocks the arena. */
static DAO_ON_THE_PATH void *take_and_unlock(arena_t *arena, uint32_t hole, size_t size_bytes)
{
    dao_range_t *range = arena->segment.range;
    uint64_t size_units = (size_bytes + DAO_RANGE_GRANULE - 1) >> UNIT_SHIFT;
    DAO_ASSERT(dao_range_at(range, hole)->state == NODE_FREE);
    DAO_ASSERT(dao_paged_is_mapped(arena, (uint64_t)dao_range_at(range, hole)->offset_units << UNIT_SHIFT,
                                   size_units << UNIT_SHIFT));
    char *address =
        arena->segment.address + ((uint64_t)dao_range_at(range, hole)->offset_units << UNIT_SHIFT);
    if (dao_range_at(range, hole)->size_units == size_units) {
        dao_range_take_whole(range, hole, size_bytes);
    } else {
        (void)dao_range_take_front(range, NULL, hole, size_units, size_bytes);
    }
    dao_stats_count_alloc(&arena->ledger.stats, size_bytes, size_units << UNIT_SHIFT);
    DAO_ASSERT_HEAVY(dao_segment_is_valid(&arena->segment, NULL));
    dao_spin_unlock(&arena->lock);
    return address;
}

/* Ends the fast path: unlocks, and goes on in every other way. */
static DAO_OFF_THE_PATH void *give_up_fast(paged_t *paged, arena_t *arena, size_t size_bytes)
{
    dao_spin_unlock(&arena->lock);
    return dao_allocator_alloc_fallback(&paged->base, size_bytes);
}

/* take_fast() for a hole that is not below the arena's mapped_floor_bytes. */
static DAO_OFF_THE_PATH void *take_above_floor(paged_t *paged, arena_t *arena, uint32_t hole,
                                               size_t size_bytes)
{
    uint64_t offset_bytes = (uint64_t)dao_range_at(arena->segment.range, hole)->offset_units << UNIT_SHIFT;
    return dao_paged_is_mapped(arena, offset_bytes, dao_round_up(size_bytes, DAO_RANGE_GRANULE))
               ? take_and_unlock(arena, hole, size_bytes)
               : give_up_fast(paged, arena, size_bytes);
}

/* take_fast() where memory is tight, and for sizes that no block has. */
static DAO_OFF_THE_PATH void *take_tightly(paged_t *paged, arena_t *arena, size_t size_bytes)
{
    dao_range_t *range = arena->segment.range;
    if (size_bytes - 1 >= paged->window_bytes || !dao_range_has_room(range)) { /* too large, or 0 */
        return give_up_fast(paged, arena, size_bytes);
    }
    uint64_t block_bytes = dao_round_up(size_bytes, DAO_RANGE_GRANULE);
    tight_place_t place;
    if (!dao_paged_find_tight(arena, block_bytes, 0, &place)) {
        return give_up_fast(paged, arena, size_bytes);
    }
    if (place.offset_bytes >> UNIT_SHIFT == dao_range_at(range, place.hole)->offset_units) {
        return take_and_unlock(arena, place.hole, size_bytes);
    }
    DAO_MUST(dao_range_alloc_in(range, place.hole, place.offset_bytes, block_bytes, size_bytes));
    dao_stats_count_alloc(&arena->ledger.stats, size_bytes, block_bytes);
    DAO_ASSERT_HEAVY(dao_segment_is_valid(&arena->segment, NULL));
    dao_spin_unlock(&arena->lock);
    return arena->segment.address + place.offset_bytes;
}

/* Takes a block in an arena whose lock is held, and unlocks it: place() for most requests, in a third of its
   instructions. For requests of a size alone, where nothing is fenced and the hole that suits is mapped. */
static DAO_ON_THE_PATH void *take_fast(paged_t *paged, arena_t *arena, size_t size_bytes)
{
    dao_range_t *range = arena->segment.range;
    if (__builtin_expect(size_bytes - 1 >= arena->fast_bytes, false)) {
        return take_tightly(paged, arena, size_bytes);
    }
    uint64_t size_units = (size_bytes + DAO_RANGE_GRANULE - 1) >> UNIT_SHIFT;
    uint32_t hole = dao_range_find_good(range, NULL, size_units);
    if (__builtin_expect(hole == DAO_RANGE_NONE || range->unused == DAO_RANGE_NONE, false)) {
        return give_up_fast(paged, arena, size_bytes);
    }
    uint64_t end_units = dao_range_at(range, hole)->offset_units + size_units;
    return __builtin_expect(end_units << UNIT_SHIFT <= arena->mapped_floor_bytes, true)
               ? take_and_unlock(arena, hole, size_bytes)
               : take_above_floor(paged, arena, hole, size_bytes);
}

/* paged_alloc_fast() where this thread's arena is taken. */
static DAO_OFF_THE_PATH void *take_elsewhere(paged_t *paged, arena_t *arena, size_t size_bytes)
{
    return take_fast(paged, dao_paged_enter_another(paged, arena), size_bytes);
}

/* For good fit. */
static void *paged_alloc_fast(dao_allocator_t *allocator, size_t size_bytes)
{
    paged_t *paged = dao_paged_of(allocator);
    arena_t *arena = dao_paged_home(paged);
    return __builtin_expect(dao_spin_try(&arena->lock), true) ? take_fast(paged, arena, size_bytes)
                                                              : take_elsewhere(paged, arena, size_bytes);
}

/* Returns the status and the message of a free or mark that found no block. */
static dao_status_t free_error(paged_t *paged, const void *address, dao_status_t status)
{
    return dao_ledger_check_free(&paged->ledger, status, address);
}

/* Frees any block, or says why it cannot be freed. */
static dao_status_t paged_free_owned(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence,
                                     dao_block_owner_t owner)
{
    paged_t *paged = dao_paged_of(allocator);
    arena_t *arena = arena_around(paged, address);
    dao_status_t status = DAO_ERR_FOREIGN_POINTER;
    if (arena != NULL) {
        dao_arena_lock(arena);
        if (fence != NULL && fence->streams != 0) {
            dao_range_announce(arena->segment.range, (uint32_t)__builtin_ctzll(fence->streams));
        }
        status = dao_segment_free(&arena->segment, &arena->ledger, address, fence, owner);
        dao_spin_unlock(&arena->lock);
    }
    return status == DAO_OK ? DAO_OK : free_error(paged, address, status);
}

static dao_status_t paged_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence)
{
    return paged_free_owned(allocator, address, fence, DAO_BLOCK_OWNER_RAW);
}

/* Frees a block that no stream uses and no tag is charged for: paged_free() for most blocks. False: nothing
   was done. */
static DAO_ON_THE_PATH bool free_fast(arena_t *arena, const void *address, uint32_t offset_units)
{
    dao_range_t *range = arena->segment.range;
    uint32_t link = dao_range_find_start(range, offset_units);
    const dao_range_node_t *node = dao_range_at(range, link);
    uint64_t word = node->user;
    if (node->offset_units != offset_units || node->state != NODE_USED || !dao_word_is_plain(word)) {
        return false;
    }
    dao_ledger_count_free(&arena->ledger, address, word, (size_t)(node->size_units << UNIT_SHIFT));
    dao_range_leave_used(range, link);
    dao_range_make_free(range, link);
    return true;
}

/* free_fast() in an arena whose lock is held, which is where the slow path is looked at. */
static DAO_ON_THE_PATH bool free_if_straight(arena_t *arena, const void *address, uint64_t offset_units)
{
    bool is_done = !dao_slow_path_is_needed() && free_fast(arena, address, (uint32_t)offset_units);
    DAO_ASSERT_HEAVY(dao_segment_is_valid(&arena->segment, NULL));
    return is_done;
}

/* paged_free_fast() where this thread's arena is taken, or the block lies in another one. The look at
   the slow path before the lock is for segment callbacks, in which the thread holds it. */
static DAO_OFF_THE_PATH dao_status_t free_elsewhere(paged_t *paged, void *address)
{
    arena_t *arena = dao_slow_path_is_needed() ? NULL : arena_around(paged, address);
    uint64_t offset_units = arena != NULL ? dao_arena_unit(arena, address) : UINT64_MAX;
    bool is_done = false;
    if (offset_units < paged->window_units) {
        dao_arena_lock(arena);
        is_done = free_if_straight(arena, address, offset_units);
        dao_spin_unlock(&arena->lock);
    }
    return is_done ? DAO_OK : dao_allocator_free_fallback(&paged->base, address);
}

/* Looks in this thread's arena. Nothing waits here and no lock is taken under the arena's, so the thread may
   hold others, as in a segment callback of another place. */
static dao_status_t paged_free_fast(dao_allocator_t *allocator, void *address)
{
    paged_t *paged = dao_paged_of(allocator);
    arena_t *arena = dao_paged_home(paged);
    uint64_t offset_units = dao_arena_unit(arena, address);
    if (offset_units >= paged->window_units || !dao_spin_try_beside(&arena->lock)) {
        return free_elsewhere(paged, address);
    }
    bool is_done = free_if_straight(arena, address, offset_units);
    dao_spin_unlock_beside(&arena->lock);
    return __builtin_expect(is_done, true) ? DAO_OK : dao_allocator_free_fallback(allocator, address);
}

static dao_status_t paged_stream_mark(dao_allocator_t *allocator, void *address, uint32_t stream)
{
    paged_t *paged = dao_paged_of(allocator);
    arena_t *arena = arena_around(paged, address);
    dao_status_t status = DAO_ERR_FOREIGN_POINTER;
    if (arena != NULL) {
        dao_arena_lock(arena);
        status = dao_segment_mark(&arena->segment, address, stream);
        dao_spin_unlock(&arena->lock);
    }
    return dao_ledger_check_query(&paged->ledger, status, address);
}

static dao_status_t paged_query(dao_allocator_t *allocator, const void *address, dao_block_t *out_block)
{
    paged_t *paged = dao_paged_of(allocator);
    arena_t *arena = arena_around(paged, address);
    dao_status_t status = DAO_ERR_FOREIGN_POINTER;
    if (arena != NULL) {
        dao_arena_lock(arena);
        status = dao_segment_query(&arena->segment, address, out_block);
        dao_spin_unlock(&arena->lock);
    }
    return dao_ledger_check_query(&paged->ledger, status, address);
}

/* Releases up to page_count free pages; returns their number. */
static dao_status_t release_pages(paged_t *paged, uint32_t page_count)
{
    dao_pages_ranges_t ranges = dao_paged_ranges(paged);
    dao_status_t status = dao_pages_release(paged->pages, &ranges, page_count);
    dao_paged_note_pages(paged);
    return status;
}

static uint32_t free_pages(paged_t *paged)
{
    dao_pages_ranges_t ranges = dao_paged_ranges(paged);
    return dao_pages_free_count(paged->pages, &ranges);
}

static dao_status_t paged_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_paged_lock(paged);
    uint64_t before_bytes = paged->ledger.stats.reserved_bytes;
    dao_paged_settle_all(paged);
    uint32_t free_count = free_pages(paged);
    uint64_t keep_count = keep_bytes / paged->page_bytes;
    uint32_t excess_count = free_count > keep_count ? free_count - (uint32_t)keep_count : 0;
    dao_status_t status = release_pages(paged, excess_count); /* of none, too: memory may be tight no more */
    *out_released_bytes = (size_t)(before_bytes - paged->ledger.stats.reserved_bytes);
    for (uint32_t i = 0; *out_released_bytes > 0 && i < dao_paged_arena_count(paged); i++) {
        dao_range_shrink(paged->arenas[i]->segment.range); /* not for each request that is refused */
    }
    DAO_ASSERT_HEAVY(dao_paged_is_valid_locked(paged));
    dao_paged_unlock(paged);
    return status;
}

/* Releases what a new limit does not leave room for. */
static dao_status_t shrink_to(paged_t *paged, uint64_t limit_bytes)
{
    uint64_t reserved_bytes = paged->ledger.stats.reserved_bytes;
    if (limit_bytes == 0 || reserved_bytes <= limit_bytes) {
        return DAO_OK;
    }
    uint64_t excess = (reserved_bytes - limit_bytes + paged->page_bytes - 1) / paged->page_bytes;
    dao_paged_settle_all(paged);
    uint64_t free_count = free_pages(paged);
    if (free_count < excess) {
        uint64_t kept_bytes = reserved_bytes - free_count * paged->page_bytes;
        return dao_error(
            DAO_ERR_LIMIT,
            "%s: live blocks of %zu bytes, what streams may still use, and leases keep %zu bytes "
            "in pages of %zu, which is more than the new limit of %zu; free blocks, or end "
            "leases, first",
            paged->ledger.name, (size_t)dao_paged_live_bytes(paged), (size_t)kept_bytes,
            (size_t)paged->page_bytes, (size_t)limit_bytes);
    }
    return release_pages(paged, (uint32_t)excess);
}

static dao_status_t paged_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_paged_lock(paged);
    dao_status_t status = shrink_to(paged, limit_bytes);
    if (status == DAO_OK) {
        paged->ledger.stats.limit_bytes = limit_bytes;
        dao_paged_note_pages(paged);
    }
    DAO_ASSERT_HEAVY(dao_paged_is_valid_locked(paged));
    dao_paged_unlock(paged);
    return status;
}

static uint64_t paged_used_get(dao_allocator_t *allocator)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_paged_lock(paged);
    uint64_t used_bytes = dao_paged_live_bytes(paged);
    dao_paged_unlock(paged);
    return used_bytes;
}

static void paged_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_paged_lock(paged);
    dao_paged_gather(paged);
    *out_stats = paged->ledger.stats;
    out_stats->largest_hole_bytes = dao_paged_largest_hole(paged);
    dao_paged_unlock(paged);
}

static void paged_stats_reset_peaks(dao_allocator_t *allocator, dao_peaks_t *out_peaks)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_paged_lock(paged);
    dao_paged_gather(paged);
    dao_stats_peaks_to_now(&paged->ledger.stats, out_peaks);
    dao_paged_unlock(paged);
}

static void paged_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_paged_lock(paged);
    for (uint32_t i = 0; i < dao_paged_arena_count(paged); i++) {
        dao_segment_walk(&paged->arenas[i]->segment, visit, user);
    }
    dao_paged_unlock(paged);
}

static void paged_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_paged_lock(paged);
    for (uint32_t i = 0; i < dao_paged_arena_count(paged); i++) {
        const arena_t *arena = paged->arenas[i];
        dao_segment_walk_mapped(&arena->segment, arena->mapped, arena->page_shift, visit, user);
    }
    dao_paged_unlock(paged);
}

static bool paged_is_valid(dao_allocator_t *allocator)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_paged_lock(paged);
    bool valid = dao_paged_is_valid_locked(paged);
    dao_paged_unlock(paged);
    return valid;
}

static void paged_destroy(dao_allocator_t *allocator)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_paged_drop_arenas(paged);
    dao_pages_destroy(paged->pages);
    paged->ledger.budget = NULL; /* the backend has given back what its pages took */
    dao_ledger_finish(&paged->ledger);
    dao_host_free(paged);
}

static const dao_allocator_ops_t paged_ops = {
    .name = "caching",
    .alloc = paged_alloc,
    .alloc_fast = paged_alloc_fast,
    .free = paged_free,
    .free_owned = paged_free_owned,
    .free_fast = paged_free_fast,
    .alloc_ordered = dao_paged_alloc_ordered,
    .free_ordered = dao_paged_free_ordered,
    .stream_mark = paged_stream_mark,
    .query = paged_query,
    .trim = paged_trim,
    .limit_set = paged_limit_set,
    .used_get = paged_used_get,
    .stats_get = paged_stats_get,
    .stats_reset_peaks = paged_stats_reset_peaks,
    .walk = paged_walk,
    .walk_all = paged_walk_all,
    .is_valid = paged_is_valid,
    .destroy = paged_destroy,
    .lease_begin = dao_paged_lease_begin,
    .lease_end = dao_paged_lease_end,
    .lease_stats = dao_paged_lease_stats,
    .lease_resume = dao_paged_lease_resume,
    .window_begin = dao_paged_window_begin,
    .alloc_at = dao_paged_alloc_at,
    .window_back = dao_paged_window_back,
};

/* ---- create ---- */

uint64_t dao_paged_page_bytes(const dao_device_memory_config_t *config, const dao_device_info_t *info)
{
    if (!dao_backend_has_pages(config->ops) || info->page_bytes == 0 ||
        (info->page_bytes & (info->page_bytes - 1)) != 0) {
        return 0;
    }
    uint64_t least_bytes = config->page_bytes != 0 ? config->page_bytes : DAO_PAGE_BYTES;
    uint64_t page_bytes = info->page_bytes > least_bytes ? info->page_bytes : least_bytes;
    uint64_t most_bytes =
        config->limit_bytes == 0 ? info->total_bytes : dao_smaller(config->limit_bytes, info->total_bytes);
    while (config->page_bytes == 0 && most_bytes / page_bytes > PAGE_COUNT_MAX) {
        page_bytes *= 2;
    }
    return info->total_bytes < page_bytes || page_bytes > DAO_RANGE_CAPACITY_MAX ? 0 : page_bytes;
}

static dao_status_t create_pages(paged_t *paged, const dao_device_memory_config_t *config,
                                 uint64_t total_bytes)
{
    uint64_t most_places = DAO_RANGE_CAPACITY_MAX / paged->page_bytes;
    uint64_t page_count = total_bytes / paged->page_bytes;
    page_count = page_count > most_places ? most_places : page_count;
    uint64_t place_count = page_count * RESERVATION_FACTOR;
    place_count = place_count > most_places ? most_places : place_count;
    paged->window_bytes = place_count * paged->page_bytes;
    paged->window_units = paged->window_bytes >> UNIT_SHIFT;
    dao_pages_config_t pages = {.ops = config->ops,
                                .device = config->device,
                                .page_bytes = paged->page_bytes,
                                .page_count = (uint32_t)page_count,
                                .place_count = (uint32_t)place_count};
    dao_status_t status = dao_pages_create(&pages, &paged->pages);
    return status == DAO_OK ? dao_paged_add_arena(paged, ARENA_SHARED) : status;
}

/* Takes the first memory: what a block needs that is given up at once. */
static dao_status_t take_initial(paged_t *paged, size_t initial_bytes)
{
    dao_block_request_t request = {.size_bytes = initial_bytes};
    placing_t placing = {.request = &request, .block_bytes = dao_round_up(initial_bytes, DAO_RANGE_GRANULE)};
    dao_status_t status = dao_paged_place_and_back(paged, &placing, 1);
    if (status == DAO_OK) {
        dao_paged_take_back(placing.arena, &placing.grant);
    }
    return status;
}

dao_status_t dao_paged_create(const dao_device_memory_config_t *config, const dao_device_info_t *info,
                              dao_allocator_t **out_allocator)
{
    paged_t *paged = dao_host_calloc(1, sizeof(*paged));
    if (paged == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    paged->ops = paged_ops;
    if (config->fit != DAO_RANGE_FIT_GOOD) {
        paged->ops.alloc_fast = dao_allocator_alloc_fallback;
        paged->ops.alloc_ordered = NULL;
        paged->ops.free_ordered = NULL;
    }
    paged->base = (dao_allocator_t){.ops = &paged->ops, .ledger = &paged->ledger};
    paged->fences = config->fences;
    paged->fit = config->fit;
    paged->full_status = config->full_status != DAO_OK ? config->full_status : DAO_ERR_NO_DEVICE_MEMORY;
    paged->page_bytes = dao_paged_page_bytes(config, info);
    dao_status_t status = dao_ledger_init(&paged->ledger, config->name);
    paged->ledger.stats.limit_bytes = config->limit_bytes;
    paged->ledger.capacity_bytes = info->total_bytes / paged->page_bytes * paged->page_bytes;
    paged->ledger.page_bytes = paged->page_bytes;
    paged->ledger.budget = config->budget;
    if (status == DAO_OK) {
        status = create_pages(paged, config, info->total_bytes);
    }
    if (status == DAO_OK && config->initial_bytes != 0) {
        status = take_initial(paged, config->initial_bytes);
        status = status == DAO_ERR_NO_DEVICE_MEMORY ? paged->full_status : status;
    }
    if (status != DAO_OK) {
        paged_destroy(&paged->base);
        return status;
    }
    DAO_ASSERT_HEAVY(paged_is_valid(&paged->base));
    *out_allocator = &paged->base;
    return DAO_OK;
}
