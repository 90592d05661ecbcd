/* SPDX-License-Identifier: Apache-2.0 */
/* The arena. Whatever is planned, a part of it is handed out only while it is really free: that is for the
   range to know which lies over it.

   Where the inner allocator has windows, the arena is one, and its blocks are the inner allocator's own: what
   is free in it goes where it is needed, so that it costs nothing to keep. It is never given back.

   Else it is one block of the inner allocator under a range of its own:

       inner block   [ used ][ free  ][ used ][ free, held by a stream ][ free ]
                               ^                 ^
                               |                 `- to that stream, to others behind its event, to nobody else before that
                               `- by its planned offset, or to others while the plan leaves it idle

   What holds: the blocks of the range are those that arena.ledger counts, and each has a word of word.h. */
#include "allocators/step_plan/planned_internal.h"

#include "base/memory/host_policy.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <string.h>

/* A block brings memory into a window only while what lies idle in the place, where it cannot be moved, is at
   most the arena over WASTE_PART times the share of requests that are in no plan or found their place taken,
   of those that were not refused: the more deviate, the lower the limit. WASTE_KEPT_COUNT requests more count
   as kept places. Where the divisor is below WASTE_PART_LEAST there is no limit but that for places that are
   larger than usual, and each block asks. */
#define WASTE_PART       1536u
#define WASTE_PART_LEAST 4u
#define WASTE_KEPT_COUNT 128u

/* While they are so few, DAO_WINDOW_EDGE_PAGES more may lie idle: recorded steps have two or three more
   requests at the front, and what they refuse to begin with is refused to the end. */
#define WASTE_FEW_COUNT 16u

/* A place may have this part more than without plans before its waste is looked at more strictly, and before
   what is idle in the window is taken instead of growing; and twice as much where the step keeps to its
   plan, and where it is a guess, before a plan is given up that the program has left. */
#define USUAL_PART 64u

/* Where it is known, such a plan is given up once the place has this part more. */
#define COSTS_PART 24u

/* A step is astray once more than this part of its requests have strayed, STRAY_FREE_COUNT counted in.
   */
#define STRAY_PART       50u
#define STRAY_FREE_COUNT 1024u

/* The same where the arena is a window and it is known what the place would have without a plan: one request
   in STRAY_PAGES over the pages that this is; or in REFUSED_STRAY_PAGES, where a hit was refused its free
   pages. WINDOW_STRAY_FREE_COUNT requests are counted in. What strays keeps pages, whatever it is a part of,
   and a place of few pages feels each: where 1 in 20 strayed in 60 pages, hits made it a twentieth larger
   than good fit. */
#define STRAY_PAGES             1000u
#define REFUSED_STRAY_PAGES     3000u
#define WINDOW_STRAY_FREE_COUNT 256u

/* Such an arena has no limit but that of the place before more than one request in CLOSE_STRAY_PAGES over its
   pages, FEW_STRAY_COUNT at least, has strayed or was no hit in the step before. Then a hit may take
   free pages only as long as no more are in use than without plans, and USUAL_PART of the place. Where
   without plans some would be free, as before and behind the peak, FREE_PART of these may be in use as well.
   */
#define CLOSE_STRAY_PAGES 10000u
#define FEW_STRAY_COUNT   3u
#define FREE_PART         10u

/* A step keeps to its plan while at most this part of its requests were no hits. */
#define KEEPING_PART 200u

/* An arena of less than the plan asks for is at least this part of it. */
#define ARENA_PART_LEAST 2u

/* An arena is safe while so many blocks of the largest size may lie beside it. One did not do: where 5 events
   in 10000 deviated, two of a sixth of the place found no hole in the same step, and the place was a
   fifteenth larger than without plans. */
#define SAFE_BLOCK_COUNT 2u

/* Such an arena is replaced by a larger one where that has this part more. */
#define ARENA_GAIN_PART 16u

/* The block of an arena of at least so many pages ends with one: nothing else comes to live in the rest of
   that page, where it would keep the arena's memory when a larger one is to be taken. */
#define ARENA_WHOLE_PAGES 16u

/* Requests that do not ask again after a refusal, at most. Where few deviate each asks: otherwise up to 7 %
   fewer of the recorded step of lstm were served, and hardly any memory was saved. */
#define REFUSAL_GAP_MAX 64u

/* Holes that a search for a quiet one looks at. */
#define QUIET_HOLE_COUNT_MAX 64u

/* ---- taking and giving back ---- */

/* Lets the inner allocator give its free memory back, where the arena would not fit into it as it is: so the
   arena takes its place instead of coming beside it. */
static void make_room(dao_planned_t *planned, uint64_t size_bytes)
{
    dao_stats_t stats;
    size_t released_bytes;
    planned->inner->ops->stats_get(planned->inner, &stats);
    if (stats.largest_hole_bytes < size_bytes) {
        (void)planned->inner->ops->trim(planned->inner, 0,
                                        &released_bytes); /* what stays is in the way, no more */
    }
}

static dao_status_t range_make(char *address, uint64_t size_bytes, dao_range_t **out_range)
{
    dao_range_config_t config = {
        .capacity_bytes = size_bytes, .base = (uint64_t)(uintptr_t)address, .is_indexed = true};
    return dao_range_create(&config, out_range);
}

/* Says where requests and frees find the arena. The lock is held. */
static void arena_show(dao_planned_t *planned, const void *address, size_t size_bytes)
{
    atomic_store_explicit(&planned->arena_begin, (uintptr_t)address, memory_order_relaxed);
    atomic_store_explicit(&planned->arena_bytes, size_bytes, memory_order_relaxed);
}

/* Touches the memory of the first bytes of a window, if that was asked for: what was not touched before, if
   it is idle. */
static void window_prefault(dao_planned_t *planned, const dao_window_t *window, uint64_t size_bytes)
{
    uint64_t done_bytes = planned->arena.touched_bytes;
    if (!planned->config.prefault || !planned->is_host_memory || size_bytes <= done_bytes) {
        return;
    }
    size_t new_bytes = (size_t)(size_bytes - done_bytes);
    if (planned->inner->ops->window_back(planned->inner, window, (size_t)done_bytes, new_bytes) == DAO_OK) {
        bool is_done = dao_host_touch((char *)window->address + done_bytes, new_bytes);
        planned->arena.touched_bytes = is_done ? size_bytes : done_bytes;
    } /* else pages are touched as they are needed */
}

/* Gives the most that the place had before its first arena: what was given back meanwhile it would take
   again. */
static dao_planned_usual_t usual_now(dao_planned_t *planned)
{
    dao_stats_t stats;
    planned->inner->ops->stats_get(planned->inner, &stats);
    dao_spin_lock(&planned->lock);
    dao_planned_usual_t usual = {dao_larger(stats.peak_reserved_bytes, stats.reserved_bytes),
                                 planned->peak_live_bytes};
    dao_spin_unlock(&planned->lock);
    return usual;
}

/* Gives how much the place may have, of which *out_reserved_bytes are there. Without a plan it had what it
   had before the first arena, and at least all that ever lived at one time. */
static uint64_t growth_most(dao_planned_t *planned, uint64_t *out_reserved_bytes)
{
    dao_stats_t stats;
    planned->inner->ops->stats_get(planned->inner, &stats);
    dao_spin_lock(&planned->lock);
    uint64_t own_bytes = planned->arena.given_bytes + planned->beside_bytes;
    uint64_t other_bytes = stats.used_bytes > own_bytes ? stats.used_bytes - own_bytes : 0;
    uint64_t live_bytes = other_bytes + planned->peak_live_bytes;
    uint64_t usual_bytes = planned->arena.usual.reserved_bytes;
    dao_spin_unlock(&planned->lock);
    uint64_t least_bytes = dao_larger(live_bytes, usual_bytes);
    *out_reserved_bytes = stats.reserved_bytes;
    return least_bytes + least_bytes / DAO_PLANNED_GROWTH_PART;
}

uint64_t dao_planned_growth_room(dao_planned_t *planned)
{
    uint64_t reserved_bytes;
    uint64_t most_bytes = growth_most(planned, &reserved_bytes);
    return most_bytes > reserved_bytes ? most_bytes - reserved_bytes : 0;
}

/* Makes the part of the window in which plans are served as large as they ask for. */
static dao_status_t window_fit(dao_planned_t *planned, uint64_t size_bytes)
{
    dao_window_t window = planned->arena.window;
    bool is_new = window.size_bytes == 0;
    dao_planned_usual_t usual = {0};
    dao_status_t status = DAO_OK;
    if (is_new) {
        usual = usual_now(planned);
        status = planned->inner->ops->window_begin(planned->inner, &window);
    }
    if (status == DAO_OK && size_bytes > window.size_bytes) {
        status = dao_error(DAO_ERR_LIMIT, "%s: a plan needs %" PRIu64 " bytes, of %zu addresses",
                           planned->name, size_bytes, window.size_bytes);
    }
    if (status == DAO_OK) { /* what fronts keep of small blocks would keep pages from the window */
        size_t released_bytes;
        (void)planned->inner->ops->trim(planned->inner, SIZE_MAX, &released_bytes); /* else they are kept */
    }
    if (status == DAO_OK) {
        window_prefault(planned, &window, size_bytes);
    }
    dao_spin_lock(&planned->lock);
    if (window.size_bytes > 0) {
        planned->arena.window = window;
        if (is_new) {
            planned->arena.usual = usual;
            planned->alone_bytes = usual.reserved_bytes;
        }
        arena_show(planned, window.address, window.size_bytes);
        planned->arena.segment = (dao_segment_t){.address = window.address,
                                                 .size_bytes = status == DAO_OK ? (size_t)size_bytes : 0};
    }
    dao_spin_unlock(&planned->lock);
    return status;
}

/* Tells whether an arena may be smaller than the plan. */
static bool takes_less(const dao_planned_t *planned)
{
    return planned->inner->ops->alloc_within != NULL && planned->served.bins == NULL;
}

/* Takes a block for an arena, where the place has room for it beside what lives there; or a smaller one, of
   which a part of the plan can be served. *request is what was taken. */
static dao_status_t block_take(dao_planned_t *planned, dao_block_request_t *request,
                               dao_block_grant_t *out_grant)
{
    dao_allocator_t *inner = planned->inner;
    if (!takes_less(planned)) {
        return inner->ops->alloc(inner, request, out_grant);
    }
    uint64_t room_bytes = dao_planned_growth_room(planned) & ~(DAO_PAGE_BYTES - 1);
    dao_status_t status = inner->ops->alloc_within(inner, request, room_bytes, out_grant);
    if (status != DAO_OK) {
        dao_stats_t stats;
        inner->ops->stats_get(inner, &stats);
        uint64_t most_bytes = dao_larger(stats.largest_hole_bytes, room_bytes);
        most_bytes = most_bytes > request->alignment_bytes ? most_bytes - request->alignment_bytes : 0;
        if (most_bytes < request->size_bytes / ARENA_PART_LEAST) {
            return dao_error(DAO_ERR_LIMIT,
                             "%s: with %zu bytes for a plan the place would be larger than without",
                             planned->name, request->size_bytes);
        }
        most_bytes = dao_smaller(most_bytes, request->size_bytes);
        request->size_bytes = (size_t)(most_bytes & ~(uint64_t)(DAO_RANGE_GRANULE - 1));
        status = inner->ops->alloc_within(inner, request, room_bytes, out_grant);
    }
    return status;
}

/* Notes what the place has as it gets its first arena: where the plan was made elsewhere, also what it will
   surely need. */
static void usual_note(dao_planned_t *planned)
{
    if (planned->arena.take_count == 0) {
        dao_planned_usual_t usual = usual_now(planned);
        usual.reserved_bytes += usual.live_bytes == 0 ? planned->stats.plan_bound_bytes : 0;
        dao_spin_lock(&planned->lock);
        planned->arena.usual = usual;
        dao_spin_unlock(&planned->lock);
    }
}

bool dao_planned_arena_is_safe(dao_planned_t *planned, uint64_t size_bytes, uint64_t largest_bytes)
{
    uint64_t reserved_bytes;
    usual_note(planned);
    uint64_t needed_bytes = dao_planned_used_get(&planned->base) + dao_round_up(size_bytes, DAO_PAGE_BYTES) +
                            SAFE_BLOCK_COUNT * dao_round_up(largest_bytes, DAO_PAGE_BYTES) +
                            DAO_PAGE_BYTES; /* for what is small beside them */
    return needed_bytes <= growth_most(planned, &reserved_bytes);
}

dao_status_t dao_planned_arena_take(dao_planned_t *planned, uint64_t size_bytes, uint64_t alignment_bytes)
{
    if (planned->inner->ops->window_begin != NULL) {
        return window_fit(planned, size_bytes);
    }
    DAO_ASSERT(planned->arena.segment.range == NULL);
    bool is_whole = size_bytes >= ARENA_WHOLE_PAGES * DAO_PAGE_BYTES;
    uint64_t rounded_bytes = dao_round_up(size_bytes > 0 ? size_bytes : 1, DAO_RANGE_GRANULE);
    dao_block_request_t request = {
        .size_bytes = (size_t)dao_round_up(rounded_bytes, is_whole ? DAO_PAGE_BYTES : DAO_RANGE_GRANULE),
        .alignment_bytes = (size_t)alignment_bytes};
    dao_block_grant_t grant;
    dao_block_t block;
    dao_range_t *range = NULL;
    usual_note(planned);
    make_room(planned, request.size_bytes);
    dao_status_t status = block_take(planned, &request, &grant);
    rounded_bytes = dao_smaller(rounded_bytes, request.size_bytes);
    if (status != DAO_OK) {
        return status;
    }
    status = planned->inner->ops->query(planned->inner, grant.address, &block);
    DAO_ASSERT(status == DAO_OK); /* it was allocated just now */
    status = range_make(grant.address, rounded_bytes, &range);
    if (status != DAO_OK) {
        (void)planned->inner->ops->free(planned->inner, grant.address, NULL); /* the same */
        return status;
    }
    if (planned->config.prefault && planned->is_host_memory) {
        memset(grant.address, 0, (size_t)rounded_bytes);
    }
    dao_spin_lock(&planned->lock);
    planned->arena.segment = (dao_segment_t){grant.address, (size_t)rounded_bytes, range};
    planned->arena.given_bytes = block.block_bytes;
    planned->arena.take_count++;
    arena_show(planned, grant.address, (size_t)rounded_bytes);
    dao_spin_unlock(&planned->lock);
    return DAO_OK;
}

/* A walk over all that the inner allocator has, as it is without the arena. */
typedef struct idle_walk {
    const char *arena;
    uint64_t hole_bytes, largest_hole_bytes;
    uint64_t segment_bytes,
        idle_segments_bytes; /* of the one at hand; of those in which nothing else lives */
    bool is_used;            /* the one at hand is */
} idle_walk_t;

static void segment_end(idle_walk_t *walk)
{
    walk->idle_segments_bytes += walk->is_used ? 0 : walk->segment_bytes;
    walk->segment_bytes = walk->hole_bytes = 0;
    walk->is_used = false;
}

static void look_at_block(const dao_block_t *block, void *user)
{
    idle_walk_t *walk = user;
    bool is_idle = block->state == DAO_BLOCK_STATE_FREE || block->address == walk->arena;
    if (block->begins_segment) {
        segment_end(walk);
    }
    walk->segment_bytes += block->block_bytes;
    walk->hole_bytes = is_idle ? walk->hole_bytes + block->block_bytes : 0;
    walk->largest_hole_bytes = dao_larger(walk->largest_hole_bytes, walk->hole_bytes);
    walk->is_used |= !is_idle;
}

/* A new arena would be the largest hole, or what the place may grow by once idle segments are given back. */
bool dao_planned_arena_is_due(dao_planned_t *planned, uint64_t size_bytes)
{
    const dao_segment_t *segment = &planned->arena.segment;
    if (segment->range == NULL || !takes_less(planned) || segment->size_bytes >= size_bytes ||
        segment->size_bytes < size_bytes / ARENA_PART_LEAST) {
        return true;
    }
    idle_walk_t walk = {.arena = segment->address};
    planned->inner->ops->walk_all(planned->inner, look_at_block, &walk);
    segment_end(&walk);
    uint64_t reserved_bytes;
    uint64_t most_bytes = growth_most(planned, &reserved_bytes) + walk.idle_segments_bytes;
    uint64_t next_bytes = most_bytes > reserved_bytes ? most_bytes - reserved_bytes : 0;
    next_bytes = dao_larger(next_bytes, walk.largest_hole_bytes);
    return next_bytes >= size_bytes ||
           next_bytes >= segment->size_bytes + segment->size_bytes / ARENA_GAIN_PART;
}

bool dao_planned_arena_give(dao_planned_t *planned)
{
    dao_spin_lock(&planned->lock);
    dao_segment_t segment = planned->arena.segment;
    if (segment.range == NULL) { /* of a window nothing has to be given back */
        planned->arena.segment.size_bytes = 0;
    }
    if (segment.range == NULL || dao_range_used(segment.range) > 0) {
        dao_spin_unlock(&planned->lock);
        return segment.range == NULL;
    }
    dao_stream_fence_t fence = dao_range_all_fences(segment.range);
    arena_show(planned, NULL, 0);
    planned->arena.segment = (dao_segment_t){0};
    planned->arena.given_bytes = 0;
    dao_spin_unlock(&planned->lock);
    dao_range_destroy(segment.range);
    dao_status_t status = planned->inner->ops->free(planned->inner, segment.address,
                                                    dao_stream_fence_is_empty(&fence) ? NULL : &fence);
    DAO_ASSERT(status == DAO_OK); /* it is the inner allocator's block, and nobody else knows of it */
    (void)status;
    return true;
}

/* ---- blocks ---- */

static bool is_done(const dao_stream_fence_t *fence, void *user)
{
    return dao_stream_fences_is_done(user, fence);
}

/* Lets go of what streams held and have finished with; tells whether anything may be free now. */
static bool settle(dao_planned_t *planned)
{
    dao_range_t *range = planned->arena.segment.range;
    if (planned->fences == NULL || !dao_range_has_fences(range)) {
        return false;
    }
    (void)dao_stream_fences_poll(planned->fences); /* it may be news to another allocator's blocks alone */
    dao_range_settle(range, is_done, planned->fences);
    return true;
}

static dao_range_request_t range_request(const dao_block_request_t *request)
{
    return (dao_range_request_t){.size_bytes = request->size_bytes,
                                 .alignment_bytes = request->alignment_bytes,
                                 .user = dao_word_of(request),
                                 .stream = request->stream,
                                 .takes_fenced = dao_block_request_takes_fenced(request)};
}

/* Hands a block of the range out, if its tag allows it. */
static dao_status_t hand_out(dao_planned_t *planned, uint64_t offset_bytes, const dao_stream_fence_t *fence,
                             const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    dao_arena_t *arena = &planned->arena;
    uint64_t block_bytes = dao_planned_rounded(request->size_bytes);
    if (dao_ledger_charge(&arena->ledger, request, block_bytes) != DAO_OK) {
        dao_range_block_t block;
        dao_stream_fence_t old_fence = *fence;
        dao_status_t status = dao_range_free(arena->segment.range, offset_bytes, &old_fence, &block);
        DAO_ASSERT(status == DAO_OK); /* it was taken just now */
        (void)status;
        return DAO_ERR_LIMIT;
    }
    dao_ledger_count_alloc(&arena->ledger, request, (size_t)block_bytes);
    out_grant->address = arena->segment.address + offset_bytes;
    out_grant->fence = *fence;
    return DAO_OK;
}

/* Gives how much of the place's memory may lie idle where it cannot be moved, for a block to bring memory
   into the window: the less, the more requests deviate, as then nobody will come for what the plan has beside
   the block. Bins have no limit, as they are known to take more: no request of theirs counts as deviating. */
static uint64_t waste_limit(dao_planned_t *planned)
{
    uint64_t refusal_count = planned->refusals.count; /* nobody knows how these would have gone */
    uint64_t request_count = planned->counts.request_count + WASTE_KEPT_COUNT;
    uint64_t judged_count = dao_larger(request_count, refusal_count + 1) - refusal_count;
    uint64_t part = WASTE_PART * planned->stray_count / judged_count;
    if (part < WASTE_PART_LEAST) {
        return UINT64_MAX;
    }
    if (planned->refusals.left > 0) {
        planned->refusals.left--;
        return 0;
    }
    uint64_t edge_bytes = planned->stray_count <= WASTE_FEW_COUNT
                              ? DAO_WINDOW_EDGE_PAGES * planned->arena.window.page_bytes
                              : 0;
    return planned->arena.segment.size_bytes / part + edge_bytes;
}

/* Gives what the place would have without a plan: its shadow knows; else about what it had before, and what
   has come to live in it since. And a part more, or two for a step that keeps to its plan. Bins are
   known to take more. */
static uint64_t usual_bytes(const dao_planned_t *planned, bool keeps)
{
    if (planned->served.bins != NULL || !dao_planned_has_window(planned)) {
        return UINT64_MAX;
    }
    if (planned->shadow != NULL) { /* which is right to a page or two */
        uint64_t alone_bytes = dao_shadow_reserved(planned->shadow);
        uint64_t page_bytes = planned->arena.window.page_bytes;
        bool is_small = alone_bytes < DAO_WINDOW_SMALL_PAGES * page_bytes;
        return alone_bytes + (is_small ? DAO_WINDOW_EDGE_PAGES * page_bytes : alone_bytes / USUAL_PART);
    }
    const dao_planned_usual_t *usual = &planned->arena.usual;
    uint64_t live_bytes = planned->peak_live_bytes;
    uint64_t more_bytes = live_bytes > usual->live_bytes ? live_bytes - usual->live_bytes : 0;
    uint64_t part_bytes = usual->reserved_bytes / USUAL_PART;
    return usual->reserved_bytes + more_bytes + (keeps ? 2 : 1) * part_bytes;
}

/* Tells whether hardly a request of this step was no hit. The one at hand is counted already. */
static bool keeps_to_plan(const dao_planned_t *planned)
{
    const dao_step_counts_t *counts = &planned->counts;
    return counts->request_count - 1 - counts->hit_count <= counts->request_count / KEEPING_PART;
}

uint64_t dao_planned_window_usual(const dao_planned_t *planned)
{
    return usual_bytes(planned, keeps_to_plan(planned));
}

bool dao_planned_window_costs(dao_planned_t *planned)
{
    dao_stats_t stats;
    planned->inner->ops->stats_get(planned->inner, &stats);
    dao_spin_lock(&planned->lock);
    const dao_planned_usual_t *usual = &planned->arena.usual;
    bool is_known = dao_planned_has_window(planned) && planned->served.bins == NULL &&
                    (usual->live_bytes > 0 || planned->shadow != NULL);
    uint64_t most_bytes = UINT64_MAX;
    if (is_known && planned->shadow != NULL) {
        most_bytes = dao_shadow_reserved(planned->shadow);
        most_bytes = dao_larger(most_bytes + most_bytes / COSTS_PART, usual_bytes(planned, true));
    } else if (is_known) {
        uint64_t other_bytes = stats.used_bytes - dao_smaller(stats.used_bytes, planned->live_bytes);
        most_bytes = dao_larger(usual_bytes(planned, true),
                                other_bytes + planned->peak_live_bytes + usual->reserved_bytes / USUAL_PART);
    }
    bool costs = stats.reserved_bytes > most_bytes;
    dao_spin_unlock(&planned->lock);
    return costs;
}

void dao_planned_excess_give(dao_planned_t *planned)
{
    dao_stats_t stats;
    planned->inner->ops->stats_get(planned->inner, &stats);
    dao_spin_lock(&planned->lock);
    bool is_known = planned->shadow != NULL;
    uint64_t alone_bytes = is_known ? dao_shadow_reserved(planned->shadow) : 0;
    bool has_more = is_known && stats.reserved_bytes > usual_bytes(planned, false);
    dao_spin_unlock(&planned->lock);
    if (has_more) {
        uint64_t used_bytes = planned->inner->ops->used_get(planned->inner);
        size_t released_bytes;
        (void)planned->inner->ops->trim(planned->inner,
                                        alone_bytes > used_bytes ? (size_t)(alone_bytes - used_bytes) : 0,
                                        &released_bytes); /* what stays is looked at again */
    }
}

/* Gives how many of so many requests may stray where there is a shadow: one in `stray_pages` over its pages.
   */
static uint64_t stray_limit(const dao_planned_t *planned, uint64_t request_count, uint64_t stray_pages)
{
    uint64_t page_count = dao_shadow_reserved(planned->shadow) / planned->arena.window.page_bytes;
    return request_count * dao_larger(page_count, DAO_WINDOW_SMALL_PAGES) / stray_pages;
}

void dao_planned_strays_judge(dao_planned_t *planned, bool is_refused)
{
    uint64_t request_count = planned->counts.request_count;
    uint64_t most_count = UINT64_MAX;
    if (planned->arena.segment.range != NULL) {
        most_count = (request_count + STRAY_FREE_COUNT) / STRAY_PART;
    } else if (planned->shadow != NULL) {
        most_count = stray_limit(planned, request_count + WINDOW_STRAY_FREE_COUNT,
                                 is_refused ? REFUSED_STRAY_PAGES : STRAY_PAGES);
    }
    planned->is_astray |= planned->stray_count > most_count;
}

/* Tells whether hardly a request has strayed, or was no hit in the step before. Of a program that is
   known to be steady these were refused, or found their places taken by what was refused. */
static bool keeps_close(const dao_planned_t *planned)
{
    uint64_t request_count = planned->counts.request_count + WINDOW_STRAY_FREE_COUNT;
    uint64_t now_count = stray_limit(planned, request_count, CLOSE_STRAY_PAGES);
    uint64_t before_count = stray_limit(planned, planned->served.script->count, CLOSE_STRAY_PAGES);
    return planned->stray_count <= dao_larger(now_count, FEW_STRAY_COUNT) &&
           (planned->is_steady || planned->others_before <= dao_larger(before_count, FEW_STRAY_COUNT));
}

/* Gives how many bytes of pages may be in use for a hit that takes free ones, where there is a shadow. */
static uint64_t used_limit(const dao_planned_t *planned)
{
    uint64_t usual = usual_bytes(planned, false);
    if (keeps_close(planned)) {
        return usual;
    }
    uint64_t alone_bytes = dao_shadow_reserved(planned->shadow);
    uint64_t used_bytes = dao_shadow_used(planned->shadow);
    return used_bytes + dao_larger(usual - alone_bytes, (alone_bytes - used_bytes) / FREE_PART);
}

/* Asks for a place in the window; where there is a shadow, first for one that takes no free page, as its
   answer takes time. */
static dao_status_t ask_window(dao_planned_t *planned, uint64_t offset_bytes,
                               const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    dao_window_t *window = &planned->arena.window;
    dao_allocator_t *inner = planned->inner;
    char *address = planned->arena.segment.address + offset_bytes;
    bool is_known = planned->shadow != NULL;
    window->waste_limit_bytes = is_known ? UINT64_MAX : waste_limit(planned);
    window->usual_bytes = dao_planned_window_usual(planned);
    window->used_limit_bytes = is_known ? 0 : UINT64_MAX;
    dao_status_t status = inner->ops->alloc_at(inner, window, address, request, out_grant);
    if (status == DAO_ERR_BUSY && is_known) {
        window->used_limit_bytes = used_limit(planned);
        status = inner->ops->alloc_at(inner, window, address, request, out_grant);
    }
    return status;
}

/* Lets the next requests go without asking, where there is no shadow. */
static void refusal_note(dao_planned_t *planned)
{
    dao_planned_refusals_t *refusals = &planned->refusals;
    refusals->count++;
    if (planned->arena.window.waste_limit_bytes > 0) { /* it was looked at, which takes time */
        refusals->gap = refusals->gap == 0                ? 1
                        : refusals->gap < REFUSAL_GAP_MAX ? 2 * refusals->gap
                                                          : REFUSAL_GAP_MAX;
        refusals->left = refusals->gap;
    }
}

/* Takes a place in the window, if it is free and need not bring memory that others could have. */
static dao_status_t take_in_window(dao_planned_t *planned, uint64_t offset_bytes,
                                   const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    dao_status_t status = ask_window(planned, offset_bytes, request, out_grant);
    if (status == DAO_ERR_BUSY && planned->shadow != NULL) {
        dao_planned_strays_judge(planned, true);
    } else if (status == DAO_ERR_BUSY) {
        refusal_note(planned);
    }
    return status;
}

dao_status_t dao_planned_take_at(dao_planned_t *planned, uint64_t offset_bytes,
                                 const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    dao_arena_t *arena = &planned->arena;
    dao_range_request_t wanted = range_request(request);
    dao_stream_fence_t fence;
    uintptr_t address = (uintptr_t)arena->segment.address + offset_bytes;
    if (dao_planned_has_window(planned)) {
        return take_in_window(planned, offset_bytes, request, out_grant);
    }
    if (request->alignment_bytes > 0 && address % request->alignment_bytes != 0) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = dao_range_alloc_over(arena->segment.range, offset_bytes, &wanted, &fence);
    if (status == DAO_ERR_LIMIT && !wanted.takes_fenced && settle(planned)) {
        status = dao_range_alloc_over(arena->segment.range, offset_bytes, &wanted, &fence);
    }
    return status == DAO_OK ? hand_out(planned, offset_bytes, &fence, request, out_grant) : status;
}

/* A search for a part of a hole that is in the way of nothing large. */
typedef struct quiet_search {
    const dao_planned_t *planned;
    const dao_block_request_t *request;
    uint32_t until;
    uint32_t hole_count;
    uint64_t harm; /* of the best so far; UINT64_MAX: there is none */
    uint64_t offset_bytes;
} quiet_search_t;

static void look_at_place(quiet_search_t *search, uint64_t offset_bytes)
{
    uint64_t harm = dao_outlook_harm(&search->planned->served.outlook, offset_bytes,
                                     dao_planned_rounded(search->request->size_bytes), search->planned->now,
                                     search->until);
    if (harm < search->harm) {
        search->harm = harm;
        search->offset_bytes = offset_bytes;
    }
}

/* Looks at both ends of an idle part. */
static bool look_at_idle(const dao_idle_t *idle, void *user)
{
    quiet_search_t *search = user;
    const dao_block_request_t *request = search->request;
    uint64_t alignment_bytes =
        request->alignment_bytes > DAO_RANGE_GRANULE ? request->alignment_bytes : DAO_RANGE_GRANULE;
    uint64_t base = (uint64_t)(uintptr_t)search->planned->arena.segment.address;
    uint64_t size_bytes = dao_planned_rounded(request->size_bytes);
    uint64_t low = dao_round_up(base + idle->offset_bytes, alignment_bytes) - base;
    uint64_t end = idle->offset_bytes + idle->size_bytes;
    bool is_held =
        !dao_stream_fence_is_empty(&idle->fence) && !dao_stream_fence_is_own(&idle->fence, request->stream);
    if (!is_held && low <= end && end - low >= size_bytes) {
        look_at_place(search, low);
        look_at_place(search, ((base + end - size_bytes) & ~(alignment_bytes - 1)) - base);
    }
    return search->harm > 0 && ++search->hole_count < QUIET_HOLE_COUNT_MAX;
}

static bool look_at_hole(const dao_range_block_t *hole, void *user)
{
    dao_idle_t idle = {
        .offset_bytes = hole->offset_bytes, .size_bytes = hole->size_bytes, .fence = hole->fence};
    return look_at_idle(&idle, user);
}

dao_status_t dao_planned_take_quiet(dao_planned_t *planned, uint32_t until, uint64_t most_harm,
                                    const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    quiet_search_t search = {.planned = planned, .request = request, .until = until, .harm = UINT64_MAX};
    dao_arena_t *arena = &planned->arena;
    if (dao_planned_has_window(planned)) {
        planned->inner->ops->window_walk(planned->inner, &arena->window, request->size_bytes, look_at_idle,
                                         &search);
    } else {
        dao_range_walk_holes_from(arena->segment.range, request->size_bytes, look_at_hole, &search);
    }
    return search.harm <= most_harm && search.harm < UINT64_MAX
               ? dao_planned_take_at(planned, search.offset_bytes, request, out_grant)
               : DAO_ERR_LIMIT;
}

dao_status_t dao_planned_take_any(dao_planned_t *planned, const dao_block_request_t *request,
                                  dao_block_grant_t *out_grant)
{
    dao_range_request_t wanted = range_request(request);
    dao_range_grant_t grant;
    dao_status_t status = dao_range_alloc(planned->arena.segment.range, &wanted, &grant);
    if (status == DAO_ERR_LIMIT && settle(planned)) {
        status = dao_range_alloc(planned->arena.segment.range, &wanted, &grant);
    }
    return status == DAO_OK ? hand_out(planned, grant.offset_bytes, &grant.fence, request, out_grant)
                            : status;
}
