/* SPDX-License-Identifier: Apache-2.0 */
/* Placing blocks of a place in pages where the usual path finds no way: paged.c says in which order. */
#include "allocators/paged/paged_internal.h"

#include "base/internal_error.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"

/* Holes of each arena that are looked at: while new pages can be had, and when they must be moved. */
#define HOLE_LOOK_FEW  64u
#define HOLE_LOOK_MANY 1024u

/* Fenced parts of each arena that are freed before the request is tried again: a try costs as much as ten of
   them. Before each further try there are twice as many. */
#define SETTLE_COUNT 16u

/* ---- looking for a place ---- */

typedef enum aim {
    AIM_LACKS_LEAST, /* the fewest pages are missing there; for new ones */
    /* The fewest pages that no other block keeps, mapped or not, then the fewest missing ones. For where
       pages must be moved: a free page that the block covers cannot go to where the block lacks one. */
    AIM_TAKES_LEAST,
} aim_t;

/* The search for the place of least cost. */
typedef struct search {
    const dao_pages_t *pages;
    const placing_t *placing;
    aim_t aim;
    uint32_t looks_left;
    uint64_t least_cost; /* UINT64_MAX: nothing yet */
    arena_t *arena;      /* the one that is searched */
    arena_t *best_arena;
    uint32_t best_hole;
    uint64_t best_offset_bytes;
} search_t;

/* Returns the number of pages that a block in a hole would take: all but those that others than the hole keep
   where they are. */
static uint64_t pages_taken(const arena_t *arena, const dao_range_block_t *hole, uint64_t offset_bytes,
                            uint64_t block_bytes)
{
    uint64_t first = offset_bytes >> arena->page_shift;
    uint64_t last = (offset_bytes + block_bytes - 1) >> arena->page_shift;
    uint64_t hole_end_bytes = hole->offset_bytes + hole->size_bytes;
    bool shares_first = (first << arena->page_shift) < hole->offset_bytes ||
                        (first + 1) << arena->page_shift > hole_end_bytes;
    bool shares_last = last > first && (last + 1) << arena->page_shift > hole_end_bytes;
    shares_first = shares_first && dao_pages_are_mapped(arena->mapped, first, first);
    shares_last = shares_last && dao_pages_are_mapped(arena->mapped, last, last);
    return last - first + 1 - shares_first - shares_last;
}

static uint64_t cost_of(const search_t *search, const dao_range_block_t *hole, uint64_t offset_bytes)
{
    const arena_t *arena = search->arena;
    uint64_t block_bytes = search->placing->block_bytes;
    uint64_t missing = dao_pages_missing(search->pages, arena->window, offset_bytes, block_bytes);
    bool lacks = search->aim == AIM_LACKS_LEAST || arena->role == ARENA_LEASED; /* whose free pages stay */
    return (lacks ? missing : pages_taken(arena, hole, offset_bytes, block_bytes)) << 32 | missing;
}

/* Returns the number of pages that the best place lacks, or takes; UINT32_MAX: there is none yet. */
static uint32_t fewest_pages(const search_t *search)
{
    return (uint32_t)(search->least_cost >> 32);
}

static void look_at_place(search_t *search, const dao_range_block_t *hole, uint64_t offset_bytes)
{
    uint64_t block_bytes = search->placing->block_bytes;
    if (offset_bytes < hole->offset_bytes || offset_bytes > hole->offset_bytes + hole->size_bytes ||
        block_bytes > hole->offset_bytes + hole->size_bytes - offset_bytes) {
        return;
    }
    uint64_t cost = cost_of(search, hole, offset_bytes);
    if (cost < search->least_cost) {
        search->least_cost = cost;
        search->best_arena = search->arena;
        search->best_hole = hole->id;
        search->best_offset_bytes = offset_bytes;
    }
}

/* Tries both ends of a hole. */
static bool look_at_hole(const dao_range_block_t *hole, void *user)
{
    search_t *search = user;
    uint64_t alignment_bytes = search->placing->request->alignment_bytes;
    alignment_bytes = alignment_bytes > DAO_RANGE_GRANULE ? alignment_bytes : DAO_RANGE_GRANULE;
    if (dao_stream_fence_is_empty(&hole->fence)) {
        uint64_t base = (uintptr_t)search->arena->segment.address;
        uint64_t last = base + hole->offset_bytes + hole->size_bytes - search->placing->block_bytes;
        look_at_place(search, hole, dao_round_up(base + hole->offset_bytes, alignment_bytes) - base);
        look_at_place(search, hole, (last & ~(alignment_bytes - 1)) - base);
    }
    search->looks_left--;
    return search->looks_left > 0 && search->least_cost > 0;
}

/* Looks at so many holes of an arena, smaller ones first. */
static void search_arena(search_t *search, arena_t *arena, uint32_t look_count)
{
    search->arena = arena;
    search->looks_left = look_count;
    dao_range_walk_holes_from(arena->segment.range, search->placing->block_bytes, look_at_hole, search);
}

/* Takes the best place that was found. */
static dao_status_t take_best(const search_t *search, placing_t *placing)
{
    DAO_ASSERT(search->least_cost != UINT64_MAX);
    placing->arena = search->best_arena;
    placing->grant = (dao_range_grant_t){.offset_bytes = search->best_offset_bytes};
    return dao_range_alloc_in(placing->arena->segment.range, search->best_hole, search->best_offset_bytes,
                              placing->block_bytes, dao_word_of(placing->request));
}

/* ---- placing ---- */

/* Undoes dao_range_alloc(): the part is fenced as it was. */
void dao_paged_take_back(arena_t *arena, const dao_range_grant_t *grant)
{
    dao_stream_fence_t fence = grant->fence;
    dao_range_block_t block;
    DAO_MUST(dao_range_free(arena->segment.range, grant->offset_bytes,
                            dao_stream_fence_is_empty(&fence) ? NULL : &fence, &block));
}

/* dao_paged_place_in() where memory is tight, for requests without a stream: those with one have the parts
   that it holds. */
static dao_status_t place_tightly(arena_t *arena, placing_t *placing)
{
    const dao_block_request_t *request = placing->request;
    tight_place_t place;
    if (!dao_paged_find_tight(arena, placing->block_bytes, request->alignment_bytes, &place)) {
        return DAO_ERR_LIMIT;
    }
    placing->arena = arena;
    placing->grant = (dao_range_grant_t){.offset_bytes = place.offset_bytes};
    return dao_range_alloc_in(arena->segment.range, place.hole, place.offset_bytes, placing->block_bytes,
                              dao_word_of(request));
}

/* Takes a block in an arena where that needs no pages. DAO_ERR_LIMIT, without a message, if there is no such
   place. */
dao_status_t dao_paged_place_in(arena_t *arena, placing_t *placing, bool takes_fenced)
{
    const dao_block_request_t *request = placing->request;
    DAO_ASSERT(placing->block_bytes >= request->size_bytes);
    DAO_ASSERT((arena->role == ARENA_SHARED) == (request->lease == 0));
    dao_range_request_t wish = {.size_bytes = placing->block_bytes,
                                .alignment_bytes = request->alignment_bytes,
                                .user = dao_word_of(request),
                                .stream = dao_block_request_order(request),
                                .takes_fenced = takes_fenced};
    bool is_tight = arena->tight_page_bytes != 0 && wish.stream == 0;
    dao_status_t status = is_tight ? place_tightly(arena, placing) : DAO_ERR_LIMIT;
    if (status != DAO_ERR_LIMIT) {
        return status;
    }
    status = dao_range_alloc(arena->segment.range, &wish, &placing->grant);
    if (status != DAO_OK) {
        return status;
    }
    if (__builtin_expect(!dao_paged_is_mapped(arena, placing->grant.offset_bytes, placing->block_bytes),
                         false)) {
        dao_paged_take_back(arena, &placing->grant);
        return DAO_ERR_LIMIT;
    }
    placing->arena = arena;
    return DAO_OK;
}

/* Returns the number of arenas that a request may be placed in: a lease has one, all others go where threads
   share them. */
static uint32_t choice_count(const paged_t *paged, const dao_block_request_t *request)
{
    return request->lease != 0 ? 1 : dao_paged_shared_count(paged);
}

/* Returns one of these arenas, this thread's own first. */
static arena_t *arena_at(const paged_t *paged, const dao_block_request_t *request, uint32_t place)
{
    if (request->lease != 0) {
        return dao_paged_leased(paged, request->lease);
    }
    uint32_t count = dao_paged_shared_count(paged);
    size_t home = dao_paged_home_arena < count ? dao_paged_home_arena : 0;
    return dao_paged_shared(paged, (home + place) % count);
}

/* dao_paged_place_in() for the first `count` arenas, this thread's own before the others. */
static dao_status_t place_among(paged_t *paged, placing_t *placing, uint32_t count, bool takes_fenced)
{
    dao_status_t status = DAO_ERR_LIMIT;
    for (uint32_t i = 0; i < count && status == DAO_ERR_LIMIT; i++) {
        status = dao_paged_place_in(arena_at(paged, placing->request, i), placing, takes_fenced);
    }
    return status;
}

/* Looks at so many holes of each of the first `count` arenas. */
static void search_holes(const paged_t *paged, search_t *search, uint32_t count, uint32_t look_count)
{
    for (uint32_t i = 0; i < count; i++) {
        search_arena(search, arena_at(paged, search->placing->request, i), look_count);
    }
}

/* Returns how many new pages a placed block may have: where there is a window, it has pages that stand free
   for the next step, and no more are taken than these lack. */
static uint32_t new_pages(paged_t *paged, const placing_t *placing, const dao_pages_ranges_t *ranges)
{
    uint32_t most = dao_paged_room(paged);
    if (paged->window_count == 0) {
        return most;
    }
    uint32_t missing = dao_pages_missing(paged->pages, placing->arena->window, placing->grant.offset_bytes,
                                         placing->block_bytes);
    uint32_t free_count = dao_pages_free_count(paged->pages, ranges);
    uint32_t lacking = missing > free_count ? missing - free_count : 0;
    return lacking < most ? lacking : most;
}

/* Counts pages that were moved, by what was in the way of new ones: a limit, the device's end, or a window,
   whose pages are to be used first. */
static void count_moved(paged_t *paged, uint64_t moved_count, bool is_for_window)
{
    dao_stats_t *stats = &paged->ledger.stats;
    bool is_for_limit = !is_for_window && dao_paged_room(paged) == 0;
    stats->remap_limit_count += is_for_limit ? moved_count : 0;
    stats->remap_device_count += is_for_limit || is_for_window ? 0 : moved_count;
}

/* Says which limit is in the way of the pages that a placed block lacks: the place's own, which has been
   said, or the one of all host memory. */
static dao_status_t limit_error(paged_t *paged, const placing_t *placing, const dao_pages_ranges_t *ranges)
{
    uint32_t missing = dao_pages_missing(paged->pages, placing->arena->window, placing->grant.offset_bytes,
                                         placing->block_bytes);
    uint32_t free_count = dao_pages_free_count(paged->pages, ranges);
    uint64_t lacking_bytes = (uint64_t)(missing > free_count ? missing - free_count : 0) * paged->page_bytes;
    return dao_ledger_budget_room(&paged->ledger) < lacking_bytes
               ? dao_ledger_limit_error(&paged->ledger, lacking_bytes)
               : DAO_ERR_LIMIT;
}

dao_status_t dao_paged_back(paged_t *paged, placing_t *placing)
{
    dao_pages_ranges_t ranges = dao_paged_ranges(paged);
    uint32_t most = new_pages(paged, placing, &ranges);
    bool is_for_window = most < dao_paged_room(paged);
    uint64_t moved_count = dao_pages_counts(paged->pages).moved_count;
    uint64_t grow_count = paged->ledger.stats.grow_count;
    dao_grow_reason_t reason = dao_paged_grow_reason(paged, placing->block_bytes);
    dao_status_t status = dao_pages_back(paged->pages, &ranges, placing->arena->window,
                                         placing->grant.offset_bytes, placing->block_bytes, most);
    dao_paged_note_pages(paged); /* after a failure too: the backend may have refused to take a page back */
    dao_ledger_count_reason(&paged->ledger, reason, grow_count);
    if (status != DAO_OK) {
        status = status == DAO_ERR_LIMIT ? limit_error(paged, placing, &ranges) : status;
        dao_paged_take_back(placing->arena, &placing->grant);
        return status;
    }
    count_moved(paged, dao_pages_counts(paged->pages).moved_count - moved_count, is_for_window);
    DAO_ASSERT(dao_paged_is_mapped(placing->arena, placing->grant.offset_bytes, placing->block_bytes));
    return DAO_OK;
}

/* Starts anew, for the place that takes the fewest free pages: where new ones will not do, or are to be
   few. */
static void search_free(const paged_t *paged, search_t *search, uint32_t count)
{
    search->aim = AIM_TAKES_LEAST;
    search->least_cost = UINT64_MAX;
    search_holes(paged, search, count, HOLE_LOOK_MANY);
}

dao_status_t dao_paged_place_and_back(paged_t *paged, placing_t *placing, uint32_t count)
{
    search_t search = {.pages = paged->pages, .placing = placing, .least_cost = UINT64_MAX};
    search_holes(paged, &search, count, HOLE_LOOK_FEW);
    if (fewest_pages(&search) > dao_paged_growable(paged)) {
        search_free(paged, &search, count);
    }
    if (search.least_cost == UINT64_MAX) { /* all of these were fenced, or too small for the alignment */
        search_holes(paged, &search, count, UINT32_MAX);
    }
    if (search.least_cost == UINT64_MAX) {
        return dao_error(DAO_ERR_NO_DEVICE_MEMORY, "no hole among the addresses is that large");
    }
    dao_status_t status = take_best(&search, placing);
    return status == DAO_OK ? dao_paged_back(paged, placing) : status;
}

/* What the first `count` arenas have mapped, then what can be brought there. */
static dao_status_t place_or_back(paged_t *paged, placing_t *placing, uint32_t count)
{
    dao_status_t status = place_among(paged, placing, count, false);
    uint32_t most = SETTLE_COUNT;
    while (status == DAO_ERR_LIMIT && dao_paged_settle(paged, most)) {
        status = place_among(paged, placing, count, false);
        most = most <= UINT32_MAX / 2 ? 2 * most : most;
    }
    if (status == DAO_ERR_LIMIT && dao_block_request_takes_fenced(placing->request)) {
        status = place_among(paged, placing, count, true);
    }
    return status == DAO_ERR_LIMIT ? dao_paged_place_and_back(paged, placing, count) : status;
}

/* ---- over several parts ---- */

dao_status_t dao_paged_take_at(placing_t *placing, uint64_t offset_bytes)
{
    const dao_block_request_t *request = placing->request;
    dao_range_request_t wish = {.size_bytes = placing->block_bytes,
                                .user = dao_word_of(request),
                                .stream = dao_block_request_order(request),
                                .takes_fenced = dao_block_request_takes_fenced(request)};
    placing->grant.offset_bytes = offset_bytes;
    return dao_range_alloc_over(placing->arena->segment.range, offset_bytes, &wish, &placing->grant.fence);
}

/* The search for free parts side by side that hold a block, mapped throughout. */
typedef struct stretch {
    const arena_t *arena;
    const placing_t *placing;
    uint64_t begin_bytes;  /* all is free and mapped from here to where the search is */
    uint64_t offset_bytes; /* of the block; UINT64_MAX: not found yet */
} stretch_t;

/* Returns true if the block fits between the begin of the stretch and an end. */
static bool fits_before(stretch_t *stretch, uint64_t end_bytes)
{
    uint64_t alignment_bytes = stretch->placing->request->alignment_bytes;
    uint64_t base = (uintptr_t)stretch->arena->segment.address;
    uint64_t offset_bytes = alignment_bytes > DAO_RANGE_GRANULE
                                ? dao_round_up(base + stretch->begin_bytes, alignment_bytes) - base
                                : stretch->begin_bytes;
    bool fits = offset_bytes + stretch->placing->block_bytes <= end_bytes;
    stretch->offset_bytes = fits ? offset_bytes : UINT64_MAX;
    return fits;
}

static bool look_at_part(const dao_range_block_t *part, void *user)
{
    stretch_t *stretch = user;
    const arena_t *arena = stretch->arena;
    uint64_t end_bytes = part->offset_bytes + part->size_bytes;
    if (!part->is_free) {
        stretch->begin_bytes = end_bytes;
        return true;
    }
    for (uint64_t page = part->offset_bytes >> arena->page_shift; page << arena->page_shift < end_bytes;
         page++) {
        uint64_t word = arena->mapped[page / 64];
        page = word == 0 ? page | 63 : page; /* so are its neighbours */
        uint64_t page_end_bytes = dao_smaller((page + 1) << arena->page_shift, end_bytes);
        if ((word >> page % 64 & 1) == 0) {
            stretch->begin_bytes = page_end_bytes;
        } else if (fits_before(stretch, page_end_bytes)) {
            return false;
        }
    }
    return true;
}

/* Takes a block over parts that different streams fence. What is left of them stays as it is. */
static dao_status_t place_over_parts(arena_t *arena, placing_t *placing)
{
    stretch_t stretch = {.arena = arena, .placing = placing, .offset_bytes = UINT64_MAX};
    dao_range_walk(arena->segment.range, look_at_part, &stretch);
    if (stretch.offset_bytes == UINT64_MAX) {
        return DAO_ERR_LIMIT;
    }
    placing->arena = arena;
    return dao_paged_take_at(placing, stretch.offset_bytes);
}

static bool is_shortage(dao_status_t status)
{
    return status == DAO_ERR_NO_DEVICE_MEMORY || status == DAO_ERR_LIMIT;
}

/* All ways to place a block that need no waiting, in the order of the head comment. */
static dao_status_t place_with_the_world(paged_t *paged, placing_t *placing)
{
    uint32_t count = choice_count(paged, placing->request);
    dao_status_t status = place_or_back(paged, placing, 1);
    if (is_shortage(status) && count > 1) {
        status = place_or_back(paged, placing, count);
    }
    if (!is_shortage(status) || !dao_block_request_takes_fenced(placing->request)) {
        return status;
    }
    dao_status_t placed = DAO_ERR_LIMIT;
    for (uint32_t i = 0; i < count && placed == DAO_ERR_LIMIT; i++) {
        placed = place_over_parts(arena_at(paged, placing->request, i), placing);
    }
    return placed == DAO_ERR_LIMIT ? status : placed;
}

/* What is behind the usual path. */
dao_status_t dao_paged_alloc_slow(paged_t *paged, placing_t *placing, dao_block_grant_t *out_grant)
{
    dao_status_t status = DAO_OK;
    for (int round = 0; round < 2; round++) {
        dao_paged_lock(paged);
        DAO_ASSERT_HEAVY(dao_paged_is_valid_locked(paged));
        status = place_with_the_world(paged, placing);
        if (status == DAO_OK) {
            dao_paged_finish_slow(placing, out_grant);
            paged->ledger.stats.miss_count++;
        }
        DAO_ASSERT_HEAVY(dao_paged_is_valid_locked(paged));
        dao_paged_unlock(paged);
        if (!is_shortage(status) || round > 0) {
            break;
        }
        dao_error_record_t record; /* waiting may leave errors of its own */
        dao_error_save(&record, status);
        bool has_waited = dao_paged_wait_for_fences(paged, placing->request);
        status = dao_error_restore(&record);
        if (!has_waited) {
            break;
        }
    }
    return status;
}
