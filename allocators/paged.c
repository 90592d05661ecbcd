/* Device memory in pages, kept for the next request.

       arena 0   addresses  [ block ][ hole ][ block ]      hole      [block]      hole ...     4 times the device
                 pages      [ mapped  ][ mapped  ][    -    ][ mapped  ][    -    ]
       arena 1   addresses  ...                                    a window of addresses, a range and a lock of its own

   A block is placed first and backed then; pages stay mapped when their blocks are freed. A thread keeps to one arena, and
   there is one until threads wait for each other: then a thread that finds its arena taken goes to another one. Pages
   belong to all arenas: what one has free is moved to another before the device or the limit is said to be full.

   The usual path takes the arena's lock alone: a hole that is mapped throughout and that nobody holds, or only the request's
   own stream. Everything else takes the locks of all arenas, in their order ("the world"), and goes on in this order, each
   step bounded:

       once more the usual path, in any arena: another thread may have freed something
       what streams held and has finished since is free for all
       a part that other streams hold, mapped throughout, behind a wait on the device (requests of a stream)
       the place that lacks the fewest pages: free pages are moved there or new ones taken (pages.c)
       parts that different streams hold side by side, joined (requests of a stream)
       what streams hold, waited for on the host, once

   then an error with the figures. Whatever is asked of all arenas takes the world's locks, too.

   What holds between calls, with the world's locks:

       stats.reserved_bytes == pages * page_bytes <= stats.limit_bytes, if there is a limit
       every page that a live block touches is mapped, and every page below an arena's mapped_floor_bytes
       an arena's used_bytes == sum of its live blocks' sizes; the place's are the sums over its arenas

   Peaks: each arena knows its own since they were last added up. With one arena the place's peak is exact, with more it is
   never too low.

   Backend calls are made under the world's locks, which is the exception to the rule that none which may wait is made under
   a lock: a miss changes placement, pages and counters in one step, and nobody else may take the pages on their way. In
   steady state there are none. Waiting for streams is done without a lock. */
#include "allocators/paged.h"

#include "allocators/pages.h"
#include "allocators/range_internal.h"
#include "allocators/segments.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"
#include "base/math.h"
#include "base/sync.h"

/* Addresses reserved for each byte of the device: free pages can be moved to any hole, so that only addresses fragment. */
#define RESERVATION_FACTOR 4u

/* Holes that are looked at for the one that lacks the fewest pages. */
#define HOLE_LOOK_COUNT 1024u

/* Times that threads found an arena taken before there is one more. */
#define WAITS_PER_ARENA 32u

typedef struct arena {
    _Alignas(64) dao_spin_t lock;
    uint32_t page_shift;
    const uint64_t *mapped;      /* a bit a page of the window */
    uint64_t mapped_floor_bytes; /* all of the window below this is mapped */
    dao_segment_t segment;       /* the window, and the range over it */
    uint32_t window;
    dao_ledger_t ledger;          /* of this arena's blocks */
    _Atomic uint64_t taken_count; /* times the lock was found taken */
} arena_t;

typedef struct paged {
    dao_allocator_t base;
    _Atomic uint32_t arena_count;
    arena_t *arenas[DAO_PAGED_ARENA_MAX];
    dao_holds_t *holds; /* borrowed; NULL: no streams */
    uint64_t page_bytes;
    uint64_t window_bytes;
    /* guarded by the world's locks */
    dao_ledger_t ledger; /* of the place; what arenas count is added up by gather() */
    dao_pages_t *pages;
} paged_t;

/* The arena of this thread, at every place that has so many. */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint32_t home_arena;

static paged_t *paged_of(dao_allocator_t *allocator)
{
    return (paged_t *)allocator;
}

/* ---- locks ---- */

static uint32_t arena_count(const paged_t *paged)
{
    return atomic_load_explicit(&paged->arena_count, memory_order_acquire);
}

/* New arenas come with the first one's lock held: their number stays what it is. */
static void world_lock(paged_t *paged)
{
    dao_spin_lock(&paged->arenas[0]->lock);
    for (uint32_t i = 1; i < arena_count(paged); i++) {
        dao_spin_lock_beside(&paged->arenas[i]->lock);
    }
}

static void world_unlock(paged_t *paged)
{
    for (uint32_t i = arena_count(paged); i-- > 1;) {
        dao_spin_unlock_beside(&paged->arenas[i]->lock);
    }
    dao_spin_unlock(&paged->arenas[0]->lock);
}

static dao_status_t add_arena(paged_t *paged);

/* The arena that this thread wanted is taken: takes another one that is free, makes one if that happens often, or waits. */
static __attribute__((noinline)) arena_t *arena_enter_another(paged_t *paged, arena_t *wanted)
{
    uint64_t taken_count = atomic_fetch_add_explicit(&wanted->taken_count, 1, memory_order_relaxed) + 1;
    uint32_t count = arena_count(paged);
    for (uint32_t i = 0; i < count; i++) {
        if (dao_spin_try(&paged->arenas[i]->lock)) {
            home_arena = i;
            return paged->arenas[i];
        }
    }
    if (count < DAO_PAGED_ARENA_MAX && taken_count % WAITS_PER_ARENA == 0) {
        world_lock(paged);
        if (arena_count(paged) == count && add_arena(paged) == DAO_OK) {
            home_arena = count; /* without memory for one, the thread goes on waiting */
        }
        world_unlock(paged);
        wanted = paged->arenas[home_arena < arena_count(paged) ? home_arena : 0];
    }
    dao_spin_lock(&wanted->lock);
    return wanted;
}

/* Gives this thread's arena, or another one, locked. */
static inline arena_t *arena_enter(paged_t *paged)
{
    uint32_t home = home_arena;
    arena_t *arena = paged->arenas[home < arena_count(paged) ? home : 0];
    return __builtin_expect(dao_spin_try(&arena->lock), true) ? arena : arena_enter_another(paged, arena);
}

/* Gives the arena that an address lies in, or NULL. */
static inline arena_t *arena_around(const paged_t *paged, const void *address)
{
    uint32_t count = arena_count(paged);
    for (uint32_t i = 0; i < count; i++) {
        if ((uintptr_t)address - (uintptr_t)paged->arenas[i]->segment.address < paged->window_bytes) {
            return paged->arenas[i];
        }
    }
    return NULL;
}

/* Takes a certain arena's lock. */
static inline void arena_lock(arena_t *arena)
{
    if (__builtin_expect(!dao_spin_try(&arena->lock), false)) {
        atomic_fetch_add_explicit(&arena->taken_count, 1, memory_order_relaxed);
        dao_spin_lock(&arena->lock);
    }
}

/* ---- what is asked of all arenas: with the world's locks ---- */

static dao_pages_ranges_t ranges_of(const paged_t *paged)
{
    dao_pages_ranges_t ranges = {.count = arena_count(paged)};
    for (uint32_t i = 0; i < ranges.count; i++) {
        ranges.ranges[i] = paged->arenas[i]->segment.range;
    }
    return ranges;
}

/* Adds up what the arenas have counted. */
static void gather(paged_t *paged)
{
    dao_stats_t *stats = &paged->ledger.stats;
    uint64_t most_requested_bytes = 0, most_used_bytes = 0;
    stats->requested_bytes = stats->used_bytes = stats->live_count = 0;
    stats->alloc_count = stats->free_count = stats->lock_wait_count = 0;
    for (uint32_t i = 0; i < arena_count(paged); i++) {
        dao_stats_t *part = &paged->arenas[i]->ledger.stats;
        stats->requested_bytes += part->requested_bytes;
        stats->used_bytes += part->used_bytes;
        stats->live_count += part->live_count;
        stats->alloc_count += part->alloc_count;
        stats->free_count += part->free_count;
        stats->lock_wait_count += atomic_load_explicit(&paged->arenas[i]->taken_count, memory_order_relaxed);
        most_requested_bytes += part->peak_requested_bytes;
        most_used_bytes += part->peak_used_bytes;
        dao_stats_peaks_to_now(part);
    }
    dao_stats_raise(&stats->peak_requested_bytes, most_requested_bytes);
    dao_stats_raise(&stats->peak_used_bytes, most_used_bytes);
    dao_pages_counts_t counts = dao_pages_counts(paged->pages);
    stats->remap_count = counts.moved_count;
    stats->driver_call_count = counts.call_count;
}

/* Notes what has become of the pages: what the backend has given or got back, and where they are. */
static void note_pages(paged_t *paged)
{
    for (uint32_t i = 0; i < arena_count(paged); i++) {
        paged->arenas[i]->mapped_floor_bytes = dao_pages_mapped_floor(paged->pages, i) * paged->page_bytes;
    }
    uint64_t reserved_bytes = dao_pages_count(paged->pages) * paged->page_bytes;
    dao_stats_t *stats = &paged->ledger.stats;
    if (reserved_bytes > stats->reserved_bytes) {
        dao_stats_count_grow(stats, (size_t)(reserved_bytes - stats->reserved_bytes));
    } else if (reserved_bytes < stats->reserved_bytes) {
        dao_stats_count_shrink(stats, (size_t)(stats->reserved_bytes - reserved_bytes));
    }
}

static uint64_t largest_hole(const paged_t *paged)
{
    uint64_t largest_bytes = 0;
    for (uint32_t i = 0; i < arena_count(paged); i++) {
        uint64_t bytes = dao_pages_largest_hole(paged->pages, i, paged->arenas[i]->segment.range);
        largest_bytes = bytes > largest_bytes ? bytes : largest_bytes;
    }
    return largest_bytes;
}

static bool world_is_valid(paged_t *paged)
{
    dao_pages_ranges_t ranges = ranges_of(paged);
    dao_recount_t total = {.reserved_bytes = dao_pages_count(paged->pages) * paged->page_bytes};
    for (uint32_t i = 0; i < ranges.count; i++) {
        dao_recount_t part = {0};
        if (!dao_segment_is_valid(&paged->arenas[i]->segment, &part) ||
            !dao_ledger_matches(&paged->arenas[i]->ledger, &part)) {
            return false;
        }
        total.requested_bytes += part.requested_bytes;
        total.used_bytes += part.used_bytes;
        total.live_count += part.live_count;
    }
    gather(paged);
    return dao_ledger_matches(&paged->ledger, &total) && dao_pages_is_valid(paged->pages, &ranges);
}

static bool is_done(const dao_hold_t *hold, void *user)
{
    return dao_holds_is_done(user, hold);
}

/* Lets go of what streams held and have finished with; true if anything may be free now. */
static bool settle_holds(paged_t *paged)
{
    bool has_holds = false;
    for (uint32_t i = 0; i < arena_count(paged); i++) {
        has_holds = has_holds || dao_range_has_holds(paged->arenas[i]->segment.range);
    }
    if (!has_holds) {
        return false;
    }
    (void)dao_holds_poll(paged->holds);
    for (uint32_t i = 0; i < arena_count(paged); i++) {
        dao_range_settle(paged->arenas[i]->segment.range, is_done, paged->holds);
    }
    return true;
}

/* ---- placing a block ---- */

/* A block on its way: what is asked for, and where it came to be. */
typedef struct placing {
    const dao_block_request_t *request;
    uint64_t block_bytes;
    arena_t *arena;
    dao_range_grant_t grant;
} placing_t;

static inline bool is_mapped(const arena_t *arena, uint64_t offset_bytes, uint64_t size_bytes)
{
    return __builtin_expect(offset_bytes + size_bytes <= arena->mapped_floor_bytes, true) ||
           dao_pages_are_mapped(arena->mapped, offset_bytes >> arena->page_shift,
                                (offset_bytes + size_bytes - 1) >> arena->page_shift);
}

/* Undoes dao_range_alloc(): the part is held as it was. */
static void take_back(arena_t *arena, const dao_range_grant_t *grant)
{
    dao_hold_t hold = grant->hold;
    dao_range_block_t block;
    (void)dao_range_free(arena->segment.range, grant->offset_bytes, dao_hold_is_empty(&hold) ? NULL : &hold,
                         &block); /* it was placed there a moment ago */
}

/* Takes a block in an arena where that needs no pages. DAO_ERR_LIMIT, without a message, if there is no such place. */
static inline dao_status_t place_in(arena_t *arena, placing_t *placing, bool takes_held)
{
    const dao_block_request_t *request = placing->request;
    dao_range_request_t wish = {.size_bytes = placing->block_bytes,
                                .alignment_bytes = request->alignment_bytes,
                                .user = dao_word_of(request),
                                .stream = request->stream,
                                .takes_held = takes_held};
    dao_status_t status = dao_range_alloc(arena->segment.range, &wish, &placing->grant);
    if (status != DAO_OK) {
        return status;
    }
    if (__builtin_expect(!is_mapped(arena, placing->grant.offset_bytes, placing->block_bytes), false)) {
        take_back(arena, &placing->grant);
        return DAO_ERR_LIMIT;
    }
    placing->arena = arena;
    return DAO_OK;
}

/* place_in() for every arena, this thread's own first. */
static dao_status_t place_anywhere(paged_t *paged, placing_t *placing, bool takes_held)
{
    uint32_t count = arena_count(paged);
    uint32_t home = home_arena < count ? home_arena : 0;
    dao_status_t status = DAO_ERR_LIMIT;
    for (uint32_t i = 0; i < count && status == DAO_ERR_LIMIT; i++) {
        status = place_in(paged->arenas[(home + i) % count], placing, takes_held);
    }
    return status;
}

/* The search for the place that lacks the fewest pages. */
typedef struct search {
    const paged_t *paged;
    const placing_t *placing;
    uint32_t looks_left;
    uint32_t fewest_missing; /* UINT32_MAX: nothing yet */
    arena_t *arena;          /* the one that is searched */
    arena_t *best_arena;
    uint32_t best_hole;
    uint64_t best_offset_bytes;
} search_t;

static void look_at_place(search_t *search, const dao_range_block_t *hole, uint64_t offset_bytes)
{
    uint64_t block_bytes = search->placing->block_bytes;
    if (offset_bytes < hole->offset_bytes || offset_bytes > hole->offset_bytes + hole->size_bytes ||
        block_bytes > hole->offset_bytes + hole->size_bytes - offset_bytes) {
        return;
    }
    uint32_t missing =
        dao_pages_missing(search->paged->pages, search->arena->window, offset_bytes, block_bytes);
    if (missing < search->fewest_missing) {
        search->fewest_missing = missing;
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
    if (dao_hold_is_empty(&hole->hold)) {
        uint64_t base = (uintptr_t)search->arena->segment.address;
        uint64_t last = base + hole->offset_bytes + hole->size_bytes - search->placing->block_bytes;
        look_at_place(search, hole, dao_round_up(base + hole->offset_bytes, alignment_bytes) - base);
        look_at_place(search, hole, (last & ~(alignment_bytes - 1)) - base);
    }
    search->looks_left--;
    return search->looks_left > 0 && search->fewest_missing > 0;
}

/* Places a block where it lacks the fewest pages, and brings them there. */
static dao_status_t place_and_back(paged_t *paged, placing_t *placing)
{
    search_t search = {.paged = paged, .placing = placing, .fewest_missing = UINT32_MAX};
    for (uint32_t i = 0; i < arena_count(paged); i++) {
        search.arena = paged->arenas[i];
        search.looks_left = HOLE_LOOK_COUNT;
        dao_range_walk_holes_from(search.arena->segment.range, placing->block_bytes, look_at_hole, &search);
    }
    if (search.fewest_missing == UINT32_MAX) {
        return dao_error(DAO_ERR_NO_DEVICE_MEMORY, "no hole among the addresses is that large; free blocks");
    }
    placing->arena = search.best_arena;
    placing->grant = (dao_range_grant_t){.offset_bytes = search.best_offset_bytes};
    dao_status_t status =
        dao_range_alloc_in(placing->arena->segment.range, search.best_hole, search.best_offset_bytes,
                           placing->block_bytes, dao_word_of(placing->request));
    if (status != DAO_OK) {
        return status;
    }
    uint64_t room_pages = dao_ledger_room(&paged->ledger) / paged->page_bytes;
    uint32_t new_page_max = room_pages > UINT32_MAX ? UINT32_MAX : (uint32_t)room_pages;
    dao_pages_ranges_t ranges = ranges_of(paged);
    status = dao_pages_back(paged->pages, &ranges, placing->arena->window, search.best_offset_bytes,
                            placing->block_bytes, new_page_max);
    note_pages(paged); /* after a failure too: the backend may have refused to take a page back */
    if (status != DAO_OK) {
        take_back(placing->arena, &placing->grant);
    }
    return status;
}

/* All ways to place a block that need no waiting, in the order of the head comment. */
static dao_status_t place_with_the_world(paged_t *paged, placing_t *placing)
{
    dao_status_t status = place_anywhere(paged, placing, false);
    if (status == DAO_ERR_LIMIT && settle_holds(paged)) {
        status = place_anywhere(paged, placing, false);
    }
    bool is_ordered = placing->request->stream != 0;
    if (status == DAO_ERR_LIMIT && is_ordered) {
        status = place_anywhere(paged, placing, true);
    }
    if (status != DAO_ERR_LIMIT) {
        return status;
    }
    status = place_and_back(paged, placing);
    if (status == DAO_OK || !is_ordered) {
        return status;
    }
    for (uint32_t i = 0; i < arena_count(paged); i++) {
        dao_range_join(paged->arenas[i]->segment.range);
    }
    dao_status_t joined = place_anywhere(paged, placing, true);
    return joined == DAO_ERR_LIMIT ? status : joined;
}

/* Waits on the host for all that streams hold; without a lock. False if there is nothing to wait for. */
static bool wait_for_holds(paged_t *paged)
{
    dao_hold_t all = {0};
    world_lock(paged);
    for (uint32_t i = 0; i < arena_count(paged); i++) {
        dao_hold_t held = dao_range_all_holds(paged->arenas[i]->segment.range);
        dao_hold_join(&all, &held);
    }
    world_unlock(paged);
    return !dao_hold_is_empty(&all) && dao_holds_wait(paged->holds, &all) != DAO_ERR_REENTRANT;
}

static bool is_shortage(dao_status_t status)
{
    return status == DAO_ERR_NO_DEVICE_MEMORY || status == DAO_ERR_LIMIT;
}

static inline void finish_placing(placing_t *placing, dao_block_grant_t *out_grant)
{
    arena_t *arena = placing->arena;
    dao_ledger_count_alloc(&arena->ledger, placing->request, (size_t)placing->block_bytes);
    out_grant->address = arena->segment.address + placing->grant.offset_bytes;
    out_grant->hold = placing->grant.hold;
}

/* What is behind the usual path. */
static __attribute__((noinline)) dao_status_t alloc_slowly(paged_t *paged, placing_t *placing,
                                                           dao_block_grant_t *out_grant)
{
    dao_status_t status = DAO_OK;
    for (int round = 0; round < 2; round++) {
        world_lock(paged);
        DAO_ASSERT_HEAVY(world_is_valid(paged));
        status = place_with_the_world(paged, placing);
        if (status == DAO_OK) {
            finish_placing(placing, out_grant);
        }
        DAO_ASSERT_HEAVY(world_is_valid(paged));
        world_unlock(paged);
        if (!is_shortage(status) || round > 0) {
            break;
        }
        dao_error_record_t record; /* waiting may leave errors of its own */
        dao_error_save(&record, status);
        bool has_waited = wait_for_holds(paged);
        status = dao_error_restore(&record);
        if (!has_waited) {
            break;
        }
    }
    return status;
}

static dao_status_t fail(paged_t *paged, const dao_block_request_t *request, dao_status_t status)
{
    world_lock(paged);
    gather(paged);
    status = dao_ledger_fail(&paged->ledger, status, request->size_bytes, largest_hole(paged));
    world_unlock(paged);
    return status;
}

/* ---- the table ---- */

/* Any request, in general terms. */
static __attribute__((noinline)) dao_status_t alloc_generally(paged_t *paged,
                                                              const dao_block_request_t *request,
                                                              dao_block_grant_t *out_grant)
{
    if (request->size_bytes > PTRDIFF_MAX) {
        return fail(paged, request, dao_error(DAO_ERR_OVERFLOW, "no block can be that large"));
    }
    placing_t placing = {.request = request,
                         .block_bytes = dao_round_up(request->size_bytes, DAO_RANGE_GRANULE)};
    dao_status_t status = dao_ledger_charge(&paged->ledger, request, placing.block_bytes);
    if (status != DAO_OK) {
        return fail(paged, request, status);
    }
    arena_t *arena = arena_enter(paged);
    status = place_in(arena, &placing, false);
    if (status == DAO_OK) {
        finish_placing(&placing, out_grant);
    }
    dao_spin_unlock(&arena->lock);
    if (status == DAO_ERR_LIMIT) {
        status = alloc_slowly(paged, &placing, out_grant);
    }
    if (status != DAO_OK) {
        dao_ledger_refund(&paged->ledger, request, placing.block_bytes);
        return fail(paged, request, status);
    }
    return DAO_OK;
}

/* Takes a block where nothing but a size is asked for, nothing is held, and the hole that suits is mapped: alloc_generally()
   for most requests, in a third of its instructions. False: nothing was done. */
static inline bool alloc_usually(arena_t *arena, const dao_block_request_t *request, uint64_t block_bytes,
                                 dao_block_grant_t *out_grant)
{
    dao_range_t *range = arena->segment.range;
    uint64_t size_units = block_bytes >> UNIT_SHIFT;
    uint32_t hole = range->held_count == 0 ? dao_range_find_good(range, size_units) : DAO_RANGE_NONE;
    if (hole == DAO_RANGE_NONE || !dao_range_has_room(range)) {
        return false;
    }
    uint64_t offset_bytes = (uint64_t)range->nodes[hole].offset_units << UNIT_SHIFT;
    if (!is_mapped(arena, offset_bytes, block_bytes)) {
        return false;
    }
    if (range->nodes[hole].size_units == size_units) {
        dao_range_take_whole(range, hole, request->size_bytes);
    } else {
        (void)dao_range_take_front(range, hole, size_units, request->size_bytes);
    }
    dao_ledger_count_alloc(&arena->ledger, request, (size_t)block_bytes);
    out_grant->address = arena->segment.address + offset_bytes;
    out_grant->hold = (dao_hold_t){0};
    return true;
}

static dao_status_t paged_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                dao_block_grant_t *out_grant)
{
    paged_t *paged = paged_of(allocator);
    DAO_ASSERT(request->size_bytes > 0 && (request->stream == 0 || paged->holds != NULL));
    bool is_usual = (request->tag | request->stream) == 0 && request->alignment_bytes <= DAO_RANGE_GRANULE &&
                    request->size_bytes <= paged->window_bytes;
    if (__builtin_expect(is_usual, true)) {
        arena_t *arena = arena_enter(paged);
        uint64_t block_bytes = dao_round_up(request->size_bytes, DAO_RANGE_GRANULE);
        bool is_done = alloc_usually(arena, request, block_bytes, out_grant);
        DAO_ASSERT_HEAVY(dao_range_is_valid(arena->segment.range));
        dao_spin_unlock(&arena->lock);
        if (__builtin_expect(is_done, true)) {
            return DAO_OK;
        }
    }
    return alloc_generally(paged, request, out_grant);
}

/* Gives the status and the message of a free or mark that found no block. */
static dao_status_t free_error(paged_t *paged, const void *address, dao_status_t status)
{
    return dao_ledger_check_free(&paged->ledger, status, address);
}

/* Frees any block, or says why it cannot be freed. */
static __attribute__((noinline)) dao_status_t free_generally(paged_t *paged, const void *address,
                                                             dao_hold_t *hold)
{
    arena_t *arena = arena_around(paged, address);
    dao_status_t status = DAO_ERR_FOREIGN_POINTER;
    if (arena != NULL) {
        arena_lock(arena);
        status = dao_segment_free(&arena->segment, &arena->ledger, address, hold);
        dao_spin_unlock(&arena->lock);
    }
    return status == DAO_OK ? DAO_OK : free_error(paged, address, status);
}

/* Frees a block that nobody holds: free_generally() for most blocks. False: nothing was done. */
static inline bool free_usually(arena_t *arena, const void *address)
{
    dao_range_t *range = arena->segment.range;
    uint32_t entry = dao_range_find_used(range, (uintptr_t)address - (uintptr_t)arena->segment.address);
    if (entry == DAO_RANGE_NO_ENTRY) {
        return false;
    }
    uint32_t index = dao_range_entry_node(range, entry);
    const dao_range_node_t *node = &range->nodes[index];
    if (node->state != NODE_USED) {
        return false;
    }
    dao_ledger_count_free(&arena->ledger, address, range->users[index],
                          (size_t)(node->size_units << UNIT_SHIFT));
    dao_range_leave_used(range, entry, node);
    dao_range_make_free(range, index);
    return true;
}

static dao_status_t paged_free(dao_allocator_t *allocator, void *address, dao_hold_t *hold)
{
    paged_t *paged = paged_of(allocator);
    arena_t *arena = arena_around(paged, address);
    if (__builtin_expect(arena != NULL && hold == NULL, true)) {
        arena_lock(arena);
        bool is_done = free_usually(arena, address);
        DAO_ASSERT_HEAVY(dao_range_is_valid(arena->segment.range));
        dao_spin_unlock(&arena->lock);
        if (__builtin_expect(is_done, true)) {
            return DAO_OK;
        }
    }
    return free_generally(paged, address, hold);
}

static dao_status_t paged_stream_mark(dao_allocator_t *allocator, void *address, uint32_t stream)
{
    paged_t *paged = paged_of(allocator);
    arena_t *arena = arena_around(paged, address);
    dao_status_t status = DAO_ERR_FOREIGN_POINTER;
    if (arena != NULL) {
        arena_lock(arena);
        status = dao_segment_mark(&arena->segment, address, stream);
        dao_spin_unlock(&arena->lock);
    }
    return dao_ledger_check_query(&paged->ledger, status, address);
}

static dao_status_t paged_query(dao_allocator_t *allocator, const void *address, dao_block_t *out_block)
{
    paged_t *paged = paged_of(allocator);
    arena_t *arena = arena_around(paged, address);
    dao_status_t status = DAO_ERR_FOREIGN_POINTER;
    if (arena != NULL) {
        arena_lock(arena);
        status = dao_segment_query(&arena->segment, address, out_block);
        dao_spin_unlock(&arena->lock);
    }
    return dao_ledger_check_query(&paged->ledger, status, address);
}

/* Gives back up to page_count free pages; gives their number. */
static dao_status_t release_pages(paged_t *paged, uint32_t page_count)
{
    dao_pages_ranges_t ranges = ranges_of(paged);
    dao_status_t status = dao_pages_release(paged->pages, &ranges, page_count);
    note_pages(paged);
    return status;
}

static uint32_t free_pages(paged_t *paged)
{
    dao_pages_ranges_t ranges = ranges_of(paged);
    return dao_pages_free_count(paged->pages, &ranges);
}

static dao_status_t paged_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    paged_t *paged = paged_of(allocator);
    world_lock(paged);
    uint64_t before_bytes = paged->ledger.stats.reserved_bytes;
    (void)settle_holds(paged);
    uint32_t free_count = free_pages(paged);
    uint64_t keep_count = keep_bytes / paged->page_bytes;
    dao_status_t status =
        free_count > keep_count ? release_pages(paged, free_count - (uint32_t)keep_count) : DAO_OK;
    *out_released_bytes = (size_t)(before_bytes - paged->ledger.stats.reserved_bytes);
    DAO_ASSERT_HEAVY(world_is_valid(paged));
    world_unlock(paged);
    return status;
}

/* Gives back what a new limit does not leave room for. */
static dao_status_t shrink_to(paged_t *paged, uint64_t limit_bytes)
{
    uint64_t reserved_bytes = paged->ledger.stats.reserved_bytes;
    if (limit_bytes == 0 || reserved_bytes <= limit_bytes) {
        return DAO_OK;
    }
    uint64_t excess = (reserved_bytes - limit_bytes + paged->page_bytes - 1) / paged->page_bytes;
    (void)settle_holds(paged);
    if (free_pages(paged) < excess) {
        return dao_error(DAO_ERR_LIMIT, "%s: live blocks hold more than the new limit of %zu bytes",
                         paged->ledger.name, (size_t)limit_bytes);
    }
    return release_pages(paged, (uint32_t)excess);
}

static dao_status_t paged_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    paged_t *paged = paged_of(allocator);
    world_lock(paged);
    dao_status_t status = shrink_to(paged, limit_bytes);
    if (status == DAO_OK) {
        paged->ledger.stats.limit_bytes = limit_bytes;
    }
    DAO_ASSERT_HEAVY(world_is_valid(paged));
    world_unlock(paged);
    return status;
}

static uint64_t paged_used_get(dao_allocator_t *allocator)
{
    paged_t *paged = paged_of(allocator);
    world_lock(paged);
    uint64_t used_bytes = 0;
    for (uint32_t i = 0; i < arena_count(paged); i++) {
        used_bytes += paged->arenas[i]->ledger.stats.used_bytes;
    }
    world_unlock(paged);
    return used_bytes;
}

static void paged_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    paged_t *paged = paged_of(allocator);
    world_lock(paged);
    gather(paged);
    *out_stats = paged->ledger.stats;
    out_stats->largest_hole_bytes = largest_hole(paged);
    world_unlock(paged);
}

static void paged_stats_reset_peaks(dao_allocator_t *allocator)
{
    paged_t *paged = paged_of(allocator);
    world_lock(paged);
    gather(paged);
    dao_stats_peaks_to_now(&paged->ledger.stats);
    world_unlock(paged);
}

static void paged_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    paged_t *paged = paged_of(allocator);
    world_lock(paged);
    for (uint32_t i = 0; i < arena_count(paged); i++) {
        dao_segment_walk(&paged->arenas[i]->segment, visit, user);
    }
    world_unlock(paged);
}

static void paged_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    paged_t *paged = paged_of(allocator);
    world_lock(paged);
    for (uint32_t i = 0; i < arena_count(paged); i++) {
        const arena_t *arena = paged->arenas[i];
        dao_segment_walk_mapped(&arena->segment, arena->mapped, arena->page_shift, visit, user);
    }
    world_unlock(paged);
}

static bool paged_is_valid(dao_allocator_t *allocator)
{
    paged_t *paged = paged_of(allocator);
    world_lock(paged);
    bool valid = world_is_valid(paged);
    world_unlock(paged);
    return valid;
}

static void paged_destroy(dao_allocator_t *allocator)
{
    paged_t *paged = paged_of(allocator);
    if (paged == NULL) {
        return;
    }
    for (uint32_t i = 0; i < arena_count(paged); i++) {
        dao_range_destroy(paged->arenas[i]->segment.range);
        dao_host_free(paged->arenas[i]);
    }
    dao_pages_destroy(paged->pages);
    dao_ledger_finish(&paged->ledger);
    dao_host_free(paged);
}

static const dao_allocator_ops_t paged_ops = {
    .name = "caching",
    .alloc = paged_alloc,
    .free = paged_free,
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
};

/* ---- create ---- */

/* Adds an arena: with the world's locks held, and takes the new one's. */
static dao_status_t add_arena(paged_t *paged)
{
    uint32_t index = arena_count(paged);
    uint32_t window = 0;
    arena_t *arena = dao_host_aligned(sizeof(*arena), _Alignof(arena_t));
    if (arena == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for an arena");
    }
    dao_status_t status = dao_pages_window_add(paged->pages, &window);
    if (status != DAO_OK) {
        dao_host_free(arena);
        return status;
    }
    DAO_ASSERT(window == index);
    char *address = dao_pages_address(paged->pages, window);
    *arena = (arena_t){.page_shift = (uint32_t)__builtin_ctzll(paged->page_bytes),
                       .mapped = dao_pages_mapped(paged->pages, window),
                       .segment = {.address = address,
                                   .size_bytes = (size_t)paged->window_bytes,
                                   .bound_bytes = paged->window_bytes},
                       .window = window};
    dao_range_config_t config = {.capacity_bytes = paged->window_bytes, .base = (uintptr_t)address};
    status = dao_range_create(&config, &arena->segment.range);
    if (status != DAO_OK) {
        dao_pages_window_drop(paged->pages);
        dao_host_free(arena);
        return status;
    }
    dao_ledger_init_part(&arena->ledger, &paged->ledger);
    dao_spin_init(&arena->lock, DAO_RANK_ALLOCATOR);
    if (index > 0) {
        dao_spin_lock_beside(&arena->lock);
    }
    paged->arenas[index] = arena;
    atomic_store_explicit(&paged->arena_count, index + 1, memory_order_release);
    return DAO_OK;
}

static dao_status_t create_pages(paged_t *paged, const dao_caching_config_t *config, uint64_t total_bytes)
{
    uint64_t most_places = DAO_RANGE_CAPACITY_MAX / paged->page_bytes;
    uint64_t page_count = total_bytes / paged->page_bytes;
    page_count = page_count > most_places ? most_places : page_count;
    uint64_t place_count = page_count * RESERVATION_FACTOR;
    place_count = place_count > most_places ? most_places : place_count;
    paged->window_bytes = place_count * paged->page_bytes;
    dao_pages_config_t pages = {.ops = config->ops,
                                .device = config->device,
                                .page_bytes = paged->page_bytes,
                                .page_count = (uint32_t)page_count,
                                .place_count = (uint32_t)place_count};
    dao_status_t status = dao_pages_create(&pages, &paged->pages);
    return status == DAO_OK ? add_arena(paged) : status;
}

/* Takes the first memory: what a block needs that is given up at once. */
static dao_status_t take_initial(paged_t *paged, size_t initial_bytes)
{
    dao_block_request_t request = {.size_bytes = initial_bytes};
    placing_t placing = {.request = &request, .block_bytes = dao_round_up(initial_bytes, DAO_RANGE_GRANULE)};
    dao_status_t status = place_and_back(paged, &placing);
    if (status == DAO_OK) {
        take_back(placing.arena, &placing.grant);
    }
    return status;
}

dao_status_t dao_paged_create(const dao_caching_config_t *config, const dao_device_info_t *info,
                              dao_allocator_t **out_allocator)
{
    paged_t *paged = dao_host_calloc(1, sizeof(*paged));
    if (paged == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    paged->base = (dao_allocator_t){.ops = &paged_ops, .ledger = &paged->ledger};
    paged->holds = config->holds;
    paged->page_bytes = dao_pages_bytes_for(config->ops, info);
    dao_status_t status = dao_ledger_init(&paged->ledger, config->name);
    paged->ledger.stats.limit_bytes = config->limit_bytes;
    if (status == DAO_OK) {
        status = create_pages(paged, config, info->total_bytes);
    }
    if (status == DAO_OK && config->initial_bytes != 0) {
        status = take_initial(paged, config->initial_bytes);
    }
    if (status != DAO_OK) {
        paged_destroy(&paged->base);
        return status;
    }
    DAO_ASSERT_HEAVY(paged_is_valid(&paged->base));
    *out_allocator = &paged->base;
    return DAO_OK;
}
