/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of a place in pages: an arena each, in which blocks lie where the caller says. Its pages belong to
   all arenas: a block brings those that it lacks, and what is free in the window goes where it is needed.

       window   [ block ][ free  ][ block ]     -     [ block ]        addresses
                [ mapped ][   -   ][ mapped ]   -     [ mapped ]       pages; free ones stay mapped until others need them

   The usual path takes the window's lock alone: the place is free and mapped. Else the locks of all arenas.

   Pages that are used in part cannot go anywhere. So a block may be refused the pages that it lacks
   (waste_limit_bytes), or all that nothing lives in (used_limit_bytes), and what is idle in such pages is
   shown to the window's owner (window_walk). */
#include "allocators/paged/paged_internal.h"

#include "base/numbers/math.h"
#include "base/report/error.h"

/* Holes that a walk looks at. */
#define HOLE_LOOK_MAX 1024u

dao_status_t dao_paged_window_begin(dao_allocator_t *allocator, dao_window_t *out_window)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_paged_lock(paged);
    dao_status_t status = paged->window_count < DAO_PAGED_WINDOW_MAX
                              ? dao_paged_add_arena(paged, ARENA_WINDOW)
                              : dao_error(DAO_ERR_TOO_MANY, "%s: there are %u windows already",
                                          paged->ledger.name, DAO_PAGED_WINDOW_MAX);
    if (status == DAO_OK) {
        paged->window_count++;
        const arena_t *arena = paged->arenas[dao_paged_arena_count(paged) - 1];
        *out_window = (dao_window_t){.address = arena->segment.address,
                                     .size_bytes = arena->segment.size_bytes,
                                     .number = arena->window,
                                     .waste_limit_bytes = UINT64_MAX,
                                     .usual_bytes = UINT64_MAX,
                                     .used_limit_bytes = UINT64_MAX,
                                     .page_bytes = paged->page_bytes,
                                     .first_address = paged->arenas[0]->segment.address,
                                     .fit = paged->fit};
    }
    DAO_ASSERT_HEAVY(dao_paged_is_valid_locked(paged));
    dao_paged_unlock(paged);
    return status;
}

/* Takes the place of a block, if it is free. */
static dao_status_t take(placing_t *placing, uint64_t offset_bytes)
{
    const dao_block_request_t *request = placing->request;
    dao_range_request_t wish = {.size_bytes = placing->block_bytes,
                                .user = dao_word_of(request),
                                .stream = request->stream,
                                .takes_fenced = dao_block_request_takes_fenced(request)};
    placing->grant.offset_bytes = offset_bytes;
    return dao_range_alloc_over(placing->arena->segment.range, offset_bytes, &wish, &placing->grant.fence);
}

/* Tells whether the place would come to have more than usual for a block that lacks pages. */
static bool grows_too_large(paged_t *paged, const placing_t *placing, uint64_t offset_bytes,
                            const dao_window_t *window)
{
    if (window->usual_bytes == UINT64_MAX) {
        return false;
    }
    dao_pages_ranges_t ranges = dao_paged_ranges(paged);
    uint32_t missing_count =
        dao_pages_missing(paged->pages, placing->arena->window, offset_bytes, placing->block_bytes);
    return dao_paged_grows_beyond(paged, &ranges, missing_count, window->usual_bytes);
}

/* Tells whether more bytes than the window's owner allows, or any in a place that is larger than usual, lie
   idle in pages that are used in part, but in a small place for some at the edges. */
static bool wastes_more(paged_t *paged, const dao_window_t *window)
{
    uint64_t reserved_bytes = dao_pages_count(paged->pages) * paged->page_bytes;
    bool is_small = dao_pages_count(paged->pages) < DAO_WINDOW_SMALL_PAGES;
    uint64_t edge_bytes = is_small ? DAO_WINDOW_EDGE_PAGES * paged->page_bytes : 0;
    uint64_t limit_bytes = reserved_bytes > window->usual_bytes ? 0 : window->waste_limit_bytes;
    if (limit_bytes == UINT64_MAX) {
        return false;
    }
    dao_pages_ranges_t ranges = dao_paged_ranges(paged);
    uint64_t page_count = dao_paged_used_count(paged);
    uint64_t used_bytes = 0;
    for (uint32_t i = 0; i < ranges.count; i++) {
        used_bytes += ranges.stays[i] ? dao_pages_mapped_count(paged->pages, i) * paged->page_bytes
                                      : dao_range_used(ranges.ranges[i]);
    }
    uint64_t waste_bytes = page_count * paged->page_bytes - used_bytes;
    return waste_bytes > limit_bytes && waste_bytes - limit_bytes > edge_bytes;
}

/* Tells whether a block, if its place is free, would take pages that nothing lives in, and more be in use
   then than the window's owner allows. */
static bool uses_more(paged_t *paged, const placing_t *placing, uint64_t offset_bytes,
                      const dao_window_t *window)
{
    arena_t *arena = placing->arena;
    dao_range_block_t hole;
    if (window->used_limit_bytes == UINT64_MAX) {
        return false;
    }
    dao_arena_lock(arena);
    dao_status_t status = dao_range_query(arena->segment.range, offset_bytes, &hole);
    dao_spin_unlock(&arena->lock);
    if (status != DAO_OK || !hole.is_free ||
        !dao_stream_fence_is_empty(&hole.fence) || /* which keeps its pages in use */
        hole.offset_bytes + hole.size_bytes < offset_bytes + placing->block_bytes) {
        return false;
    }
    uint64_t taken = dao_paged_pages_taken(arena, &hole, offset_bytes, placing->block_bytes);
    if (taken == 0 || window->used_limit_bytes == 0) {
        return taken > 0;
    }
    dao_paged_lock(paged);
    uint64_t used_count = dao_paged_used_count(paged);
    dao_paged_unlock(paged);
    return (used_count + taken) * paged->page_bytes > window->used_limit_bytes;
}

/* Takes it and brings the pages that it lacks, with all locks held. */
static dao_status_t take_and_back(paged_t *paged, placing_t *placing, uint64_t offset_bytes)
{
    dao_status_t status = take(placing, offset_bytes);
    if (status == DAO_ERR_LIMIT && !dao_block_request_takes_fenced(placing->request) &&
        dao_paged_settle(paged)) {
        status = take(placing, offset_bytes);
    }
    return status == DAO_OK ? dao_paged_back(paged, placing) : status;
}

static dao_status_t place_at(paged_t *paged, placing_t *placing, uint64_t offset_bytes,
                             const dao_window_t *window, dao_block_grant_t *out_grant)
{
    arena_t *arena = placing->arena;
    if (uses_more(paged, placing, offset_bytes, window)) {
        return DAO_ERR_BUSY;
    }
    dao_arena_lock(arena);
    dao_status_t status = take(placing, offset_bytes);
    bool is_mapped = status == DAO_OK && dao_paged_is_mapped(arena, offset_bytes, placing->block_bytes);
    bool may_settle = status == DAO_ERR_LIMIT && dao_range_has_fences(arena->segment.range);
    if (is_mapped) {
        dao_paged_finish(placing, out_grant);
    } else if (status == DAO_OK) {
        dao_paged_take_back(arena, &placing->grant);
    }
    dao_spin_unlock(&arena->lock);
    if (is_mapped || (status != DAO_OK && !may_settle)) {
        return status;
    }
    dao_status_t refusal = status == DAO_OK ? DAO_ERR_BUSY : status; /* free but not mapped, or taken */
    if (window->waste_limit_bytes == 0) {
        return refusal;
    }
    dao_paged_lock(paged);
    bool is_refused = wastes_more(paged, window) || grows_too_large(paged, placing, offset_bytes, window);
    status = is_refused ? refusal : take_and_back(paged, placing, offset_bytes);
    if (status == DAO_OK) {
        dao_paged_finish(placing, out_grant);
    }
    DAO_ASSERT_HEAVY(dao_paged_is_valid_locked(paged));
    dao_paged_unlock(paged);
    return status;
}

dao_status_t dao_paged_alloc_at(dao_allocator_t *allocator, const dao_window_t *window, void *address,
                                const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    paged_t *paged = dao_paged_of(allocator);
    placing_t placing = {.request = request,
                         .block_bytes = dao_round_up(request->size_bytes, DAO_RANGE_GRANULE),
                         .arena = paged->arenas[window->number]};
    DAO_ASSERT(placing.arena->role == ARENA_WINDOW &&
               dao_arena_offset(placing.arena, address) < window->size_bytes);
    if (request->alignment_bytes > 0 && (uintptr_t)address % request->alignment_bytes != 0) {
        return DAO_ERR_LIMIT;
    }
    if (dao_ledger_charge(&paged->ledger, request, placing.block_bytes) != DAO_OK) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status =
        place_at(paged, &placing, dao_arena_offset(placing.arena, address), window, out_grant);
    if (status != DAO_OK) {
        dao_ledger_refund(&paged->ledger, request, placing.block_bytes);
    }
    return status;
}

/* A block brings the memory, and is taken back before anybody sees it. */
dao_status_t dao_paged_window_back(dao_allocator_t *allocator, const dao_window_t *window,
                                   size_t offset_bytes, size_t size_bytes)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_block_request_t request = {.size_bytes = size_bytes};
    placing_t placing = {.request = &request,
                         .block_bytes = dao_round_up(size_bytes, DAO_RANGE_GRANULE),
                         .arena = paged->arenas[window->number]};
    DAO_ASSERT(placing.arena->role == ARENA_WINDOW);
    DAO_ASSERT(size_bytes > 0 && offset_bytes < window->size_bytes);
    dao_paged_lock(paged);
    dao_status_t status = take_and_back(paged, &placing, offset_bytes);
    if (status == DAO_OK) {
        dao_paged_take_back(placing.arena, &placing.grant);
    }
    DAO_ASSERT_HEAVY(dao_paged_is_valid_locked(paged));
    dao_paged_unlock(paged);
    return status;
}

/* ---- what is idle ---- */

typedef struct idle_walk {
    const arena_t *arena;
    uint64_t page_bytes;
    uint64_t least_bytes;
    uint32_t looks_left;
    dao_idle_visit_t visit;
    void *user;
} idle_walk_t;

/* Shows [begin, end) of a hole, if it is large enough. */
static bool show_part(const idle_walk_t *walk, const dao_range_block_t *hole, uint64_t begin, uint64_t end)
{
    if (begin >= end || end - begin < walk->least_bytes) {
        return true;
    }
    dao_idle_t idle = {.offset_bytes = begin, .size_bytes = end - begin, .fence = hole->fence};
    return walk->visit(&idle, walk->user);
}

/* Shows what is mapped at both ends of a hole, from pages on that others live in: those that are idle as a
   whole can go where they are needed. Of much no more than a block is sure to find its place in. */
static bool show_ends(const dao_range_block_t *hole, void *user)
{
    idle_walk_t *walk = user;
    uint64_t begin = hole->offset_bytes, end = begin + hole->size_bytes;
    uint64_t most_bytes = walk->least_bytes + walk->page_bytes; /* of a part: more would take time */
    uint64_t low_end = begin, high_begin = end;
    bool has_low = begin % walk->page_bytes != 0, has_high = end % walk->page_bytes != 0;
    while (has_low && low_end < end && low_end - begin < most_bytes &&
           dao_paged_is_mapped(walk->arena, low_end, 1)) {
        low_end = dao_round_up(low_end + 1, walk->page_bytes);
    }
    while (has_high && high_begin > low_end && end - high_begin < most_bytes &&
           dao_paged_is_mapped(walk->arena, high_begin - 1, 1)) {
        high_begin = (high_begin - 1) / walk->page_bytes * walk->page_bytes;
    }
    low_end = low_end < end ? low_end : end;
    high_begin = high_begin > low_end ? high_begin : low_end;
    walk->looks_left--;
    return show_part(walk, hole, begin, low_end) && show_part(walk, hole, high_begin, end) &&
           walk->looks_left > 0;
}

void dao_paged_window_walk(dao_allocator_t *allocator, const dao_window_t *window, size_t size_bytes,
                           dao_idle_visit_t visit, void *user)
{
    paged_t *paged = dao_paged_of(allocator);
    arena_t *arena = paged->arenas[window->number];
    idle_walk_t walk = {.arena = arena,
                        .page_bytes = paged->page_bytes,
                        .least_bytes = dao_round_up(size_bytes, DAO_RANGE_GRANULE),
                        .looks_left = HOLE_LOOK_MAX,
                        .visit = visit,
                        .user = user};
    dao_arena_lock(arena);
    dao_range_walk_holes_from(arena->segment.range, walk.least_bytes, show_ends, &walk);
    dao_spin_unlock(&arena->lock);
}
