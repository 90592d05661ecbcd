/* SPDX-License-Identifier: Apache-2.0 */
/* The arenas of a place in pages: taking their locks, adding one, and what is asked of all of them. */
#include "allocators/paged/paged_internal.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"

/* Times that threads found an arena taken before there is one more. */
#define WAITS_PER_ARENA 32u

/* Memory is tight where at most this part of the pages that a place may have is still to be taken. */
#define TIGHT_SHARE 8u

/* There a block is placed higher by up to this part of the place where that leaves a page free. Of the
   recorded training steps those of lstm need the least between a ninth and a thirtieth; the others hardly
   tell. */
#define TIGHT_PAGE_PART 16u

DAO_FAST_THREAD_LOCAL size_t dao_paged_home_arena;

/* ---- locks ---- */

/* New arenas come with the first one's lock held: their number stays what it is. */
void dao_paged_lock(paged_t *paged)
{
    dao_spin_lock(&paged->arenas[0]->lock);
    for (uint32_t i = 1; i < dao_paged_arena_count(paged); i++) {
        dao_spin_lock_beside(&paged->arenas[i]->lock);
    }
}

void dao_paged_unlock(paged_t *paged)
{
    for (uint32_t i = dao_paged_arena_count(paged); i-- > 1;) {
        dao_spin_unlock_beside(&paged->arenas[i]->lock);
    }
    dao_spin_unlock(&paged->arenas[0]->lock);
}

/* The arena that this thread wanted is taken: takes another one that is free, makes one if that happens
   often, or waits. */
arena_t *dao_paged_enter_another(paged_t *paged, arena_t *wanted)
{
    uint64_t taken_count = atomic_fetch_add_explicit(&wanted->taken_count, 1, memory_order_relaxed) + 1;
    uint32_t count = dao_paged_shared_count(paged);
    for (uint32_t i = 0; i < count; i++) {
        arena_t *arena = dao_paged_shared(paged, i);
        if (dao_spin_try(&arena->lock)) {
            dao_paged_home_arena = i;
            return arena;
        }
    }
    if (count < DAO_PAGED_ARENA_MAX && taken_count % WAITS_PER_ARENA == 0) {
        dao_paged_lock(paged);
        if (dao_paged_shared_count(paged) == count && dao_paged_add_arena(paged, ARENA_SHARED) == DAO_OK) {
            dao_paged_home_arena = count; /* without memory for one, the thread goes on waiting */
        }
        dao_paged_unlock(paged);
        wanted = dao_paged_home(paged);
    }
    dao_spin_lock(&wanted->lock);
    return wanted;
}

/* Returns true if the shared arenas are listed as such, once each and in their order. */
static bool shared_is_valid(const paged_t *paged)
{
    uint32_t found_count = 0;
    for (uint32_t i = 0; i < dao_paged_arena_count(paged); i++) {
        const arena_t *arena = paged->arenas[i];
        bool is_listed =
            found_count < dao_paged_shared_count(paged) && dao_paged_shared(paged, found_count) == arena;
        if (arena->window != i || is_listed != (arena->role == ARENA_SHARED)) {
            return false;
        }
        found_count += is_listed;
    }
    return found_count == dao_paged_shared_count(paged) && found_count > 0;
}

/* Adds an arena: with the world's locks held, and takes the new one's. */
dao_status_t dao_paged_add_arena(paged_t *paged, arena_role_t role)
{
    uint32_t index = dao_paged_arena_count(paged);
    DAO_ASSERT(index > 0 || role == ARENA_SHARED);
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
                       .segment = {.address = address, .size_bytes = (size_t)paged->window_bytes},
                       .window = window,
                       .role = role,
                       .fast_bytes = paged->window_bytes};
    dao_range_config_t config = {.capacity_bytes = paged->window_bytes,
                                 .base = (uintptr_t)address,
                                 .fit = paged->fit,
                                 .is_indexed = role == ARENA_WINDOW};
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
    if (role == ARENA_SHARED) {
        uint32_t shared_count = dao_paged_shared_count(paged);
        for (uint32_t i = shared_count; i < (shared_count == 0 ? DAO_PAGED_ARENA_MAX : shared_count + 1);
             i++) {
            atomic_store_explicit(&paged->shared[i], arena, memory_order_release);
        }
        atomic_store_explicit(&paged->shared_count, shared_count + 1, memory_order_release);
    }
    DAO_ASSERT_HEAVY(shared_is_valid(paged));
    return DAO_OK;
}

/* ---- what is asked of all arenas: with the world's locks ---- */

dao_pages_ranges_t dao_paged_ranges(const paged_t *paged)
{
    dao_pages_ranges_t ranges = {.count = dao_paged_arena_count(paged)};
    for (uint32_t i = 0; i < ranges.count; i++) {
        ranges.ranges[i] = paged->arenas[i]->segment.range;
        ranges.stays[i] = paged->arenas[i]->role == ARENA_LEASED;
    }
    return ranges;
}

uint32_t dao_paged_used_count(paged_t *paged)
{
    dao_pages_ranges_t ranges = dao_paged_ranges(paged);
    return dao_pages_count(paged->pages) - dao_pages_free_count(paged->pages, &ranges);
}

/* Adds up what the arenas have counted. */
void dao_paged_gather(paged_t *paged)
{
    dao_stats_t *stats = &paged->ledger.stats;
    uint64_t most_requested_bytes = 0, most_used_bytes = 0;
    stats->requested_bytes = stats->used_bytes = stats->live_count = 0;
    stats->alloc_count = stats->free_count = stats->slow_count = stats->lock_wait_count = 0;
    for (uint32_t i = 0; i < dao_paged_arena_count(paged); i++) {
        dao_stats_t *part = &paged->arenas[i]->ledger.stats;
        stats->requested_bytes += part->requested_bytes;
        stats->used_bytes += part->used_bytes;
        stats->live_count += part->live_count;
        stats->alloc_count += part->alloc_count;
        stats->free_count += part->free_count;
        stats->slow_count += part->slow_count;
        stats->lock_wait_count += atomic_load_explicit(&paged->arenas[i]->taken_count, memory_order_relaxed);
        most_requested_bytes += part->peak_requested_bytes;
        most_used_bytes += part->peak_used_bytes;
        dao_stats_peaks_to_now(part, NULL);
    }
    /* Arenas need not have had their peaks together, but all that was used lay in what was reserved. */
    dao_stats_raise(&stats->peak_requested_bytes,
                    dao_smaller(most_requested_bytes, stats->peak_reserved_bytes));
    dao_stats_raise(&stats->peak_used_bytes, dao_smaller(most_used_bytes, stats->peak_reserved_bytes));
    dao_pages_counts_t counts = dao_pages_counts(paged->pages);
    stats->remap_count = counts.moved_count;
    stats->driver_call_count = counts.call_count;
}

uint64_t dao_paged_live_bytes(const paged_t *paged)
{
    uint64_t used_bytes = 0;
    for (uint32_t i = 0; i < dao_paged_arena_count(paged); i++) {
        used_bytes += paged->arenas[i]->ledger.stats.used_bytes;
    }
    return used_bytes;
}

dao_grow_reason_t dao_paged_grow_reason(const paged_t *paged, uint64_t block_bytes)
{
    dao_pages_ranges_t ranges = dao_paged_ranges(paged);
    return dao_ledger_grow_reason(&paged->ledger, block_bytes, dao_paged_live_bytes(paged),
                                  dao_pages_fenced_bytes(paged->pages, &ranges));
}

uint32_t dao_paged_room(const paged_t *paged)
{
    uint64_t count = dao_ledger_room(&paged->ledger) / paged->page_bytes;
    return count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
}

uint32_t dao_paged_growable(const paged_t *paged)
{
    return dao_pages_growable(paged->pages, dao_paged_room(paged));
}

/* Sends the usual path of shared arenas round by place_tightly(), or straight on. */
static void note_tightness(paged_t *paged)
{
    uint64_t growable = dao_paged_growable(paged);
    uint64_t most_count = dao_pages_count(paged->pages) + growable;
    bool is_tight = paged->fit == DAO_RANGE_FIT_GOOD && growable * TIGHT_SHARE <= most_count;
    for (uint32_t i = 0; i < dao_paged_shared_count(paged); i++) {
        arena_t *arena = dao_paged_shared(paged, i);
        arena->tight_page_bytes = is_tight ? most_count * paged->page_bytes / TIGHT_PAGE_PART : 0;
        arena->fast_bytes = arena->tight_page_bytes != 0 ? 0 : paged->window_bytes;
    }
}

/* Notes what has become of the pages: what the backend has given or got back, where they are, and whether
   memory is tight. */
void dao_paged_note_pages(paged_t *paged)
{
    for (uint32_t i = 0; i < dao_paged_arena_count(paged); i++) {
        paged->arenas[i]->mapped_floor_bytes = dao_pages_mapped_floor(paged->pages, i) * paged->page_bytes;
    }
    uint64_t reserved_bytes = dao_pages_count(paged->pages) * paged->page_bytes;
    dao_stats_t *stats = &paged->ledger.stats;
    if (reserved_bytes > stats->reserved_bytes) {
        dao_stats_count_grow(stats, (size_t)(reserved_bytes - stats->reserved_bytes));
    } else if (reserved_bytes < stats->reserved_bytes) {
        dao_stats_count_shrink(stats, (size_t)(stats->reserved_bytes - reserved_bytes));
    }
    DAO_ASSERT(stats->reserved_bytes == reserved_bytes);
    note_tightness(paged);
}

uint64_t dao_paged_largest_hole(const paged_t *paged)
{
    uint64_t largest_bytes = 0;
    for (uint32_t i = 0; i < dao_paged_shared_count(paged); i++) {
        const arena_t *arena = dao_paged_shared(paged, i);
        uint64_t bytes = dao_pages_largest_hole(paged->pages, arena->window, arena->segment.range);
        largest_bytes = bytes > largest_bytes ? bytes : largest_bytes;
    }
    return largest_bytes;
}

bool dao_paged_is_valid_locked(paged_t *paged)
{
    dao_pages_ranges_t ranges = dao_paged_ranges(paged);
    dao_recount_t total = {.reserved_bytes = dao_pages_count(paged->pages) * paged->page_bytes};
    for (uint32_t i = 0; i < ranges.count; i++) {
        dao_recount_t part = {0};
        const arena_t *arena = paged->arenas[i];
        bool is_tight = arena->tight_page_bytes != 0;
        if (!dao_segment_is_valid(&arena->segment, &part) || !dao_ledger_matches(&arena->ledger, &part) ||
            (is_tight && arena->role != ARENA_SHARED) ||
            arena->fast_bytes != (is_tight ? 0 : paged->window_bytes)) {
            return false;
        }
        total.requested_bytes += part.requested_bytes;
        total.used_bytes += part.used_bytes;
        total.live_count += part.live_count;
    }
    dao_paged_gather(paged);
    return shared_is_valid(paged) && dao_ledger_matches(&paged->ledger, &total) &&
           dao_pages_is_valid(paged->pages, &ranges);
}

/* Frees up to `most` fenced parts of each arena that have passed; *out_has_fences: there were any. */
static bool settle_known(paged_t *paged, uint32_t most, bool *out_has_fences)
{
    uint32_t count = 0;
    *out_has_fences = false;
    for (uint32_t i = 0; i < dao_paged_arena_count(paged); i++) {
        dao_range_t *range = paged->arenas[i]->segment.range;
        if (dao_range_has_fences(range)) {
            *out_has_fences = true;
            count += dao_range_settle(range, dao_stream_fences_done_epoch, paged->fences, most);
        }
    }
    return count > 0;
}

bool dao_paged_settle(paged_t *paged, uint32_t most)
{
    bool has_fences;
    bool is_settled = settle_known(paged, most, &has_fences);
    if (is_settled || !has_fences) {
        return is_settled;
    }
    DAO_ASSERT(paged->fences != NULL);
    (void)dao_stream_fences_poll(paged->fences); /* it may be news to another allocator's blocks alone */
    return settle_known(paged, most, &has_fences);
}

void dao_paged_settle_all(paged_t *paged)
{
    while (dao_paged_settle(paged, UINT32_MAX)) {
    }
}

/* Waits on the host for all fences that may help a request, which is not what other leases
   keep; without a lock. False if there is nothing to wait for. */
bool dao_paged_wait_for_fences(paged_t *paged, const dao_block_request_t *request)
{
    dao_stream_fence_t all = {0};
    dao_paged_lock(paged);
    for (uint32_t i = 0; i < dao_paged_arena_count(paged); i++) {
        const arena_t *arena = paged->arenas[i];
        if (arena->role != ARENA_LEASED || request->lease == i + 1) {
            dao_stream_fence_t pending = dao_range_all_fences(arena->segment.range);
            dao_stream_fence_join(&all, &pending);
        }
    }
    dao_paged_unlock(paged);
    return !dao_stream_fence_is_empty(&all) &&
           dao_stream_fences_wait(paged->fences, &all) != DAO_ERR_REENTRANT;
}

void dao_paged_drop_arenas(paged_t *paged)
{
    for (uint32_t i = 0; i < dao_paged_arena_count(paged); i++) {
        dao_range_destroy(paged->arenas[i]->segment.range);
        dao_host_free(paged->arenas[i]);
    }
}

void dao_paged_finish_slow(placing_t *placing, dao_block_grant_t *out_grant)
{
    dao_paged_finish(placing, out_grant);
}
