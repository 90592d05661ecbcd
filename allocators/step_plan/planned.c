/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and frees of a place that is served from plans.

       alloc -- no step, a lease, too small ---------------------------------------------------+
         |                                                                                          |
         +--> recorded --> follow.h: which entry of the script is it?                               |
                             |                                                                      v
                             +-- its offset in the arena is really free: a hit               inner allocator
                             +-- a hole that the plan leaves idle for as long as it lives           ^
                             +-- any hole, where going beside would make the place larger           |
                             |   than it ever had to be                                             |
                             +-- beside the arena --------------------------------------------------+

   Where the inner allocator has windows, the arena is one, and beside it is no further away than in it: what
   is idle in a window the inner allocator has, too, and before the place grows, what is gone before the
   step ends is put into pages that are used in part; and so is all else before the place has more than
   it would have without a plan (planned_shadow.c). Else the arena is a block of it with a range over it, and
   beside it memory is taken sparingly: from what is free there; as much more as the place surely had without
   a plan; from any hole of the arena; and what is left is a segment for the block alone. Where a step
   goes astray, places by a plan that others lie in waste more than good fit does: then the arena is a segment
   like any other, until the next step begins; and of a window, for as long as there is a shadow, what is
   free goes to all requests, each of which lies where it takes the fewest pages that nothing lives in.

   So no two blocks ever share a byte, whatever a plan says. Blocks of steps are tracked by their
   address, wherever they lie, so that their frees end their lifetimes.

   What holds between calls:

       tracked   live blocks of steps: a word of item_t, and what they asked for
       live_bytes, beside_bytes are sums over `tracked`
       is_open   only within a step; recordings[serial & 1] is its recording
       retire   blocks in `tracked` that are marked so, each once; none outside of steps */
#include "allocators/step_plan/planned_internal.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/thread_number.h"

/* Beside the arena such a part more than was ever alive is used before memory of the arena is taken that is
   planned for others; and DAO_PLANNED_GROWTH_PART where they are larger than what asks. */
#define ALLOWANCE_PART 32u

/* Requests that are in no plan may take so much beside the arena before they borrow of it. */
#define BESIDE_PART 1024u

/* A request that is in no plan is taken to live for this part of the script, at least so many allocations. */
#define UNPLANNED_LIFE_PART 16u
#define UNPLANNED_LIFE_MIN  32u

/* Blocks of bins that a request tries. */
#define BIN_TRY_COUNT 4u

/* Largest alignment that is planned. */
#define ALIGNMENT_SHIFT_MAX 30u

static _Thread_local uint64_t thread_key;

uint64_t dao_planned_key_set(uint64_t key)
{
    uint64_t before = thread_key;
    thread_key = key;
    return before;
}

/* A request, as it is recorded. */
typedef struct ask {
    const dao_block_request_t *request;
    dao_lifetime_t item;             /* that it has in the recording once it is served */
    uint32_t serial;                 /* of its step, which may be over before it is served */
    uint64_t *other_count;           /* of the step's counts, the one that says why it is no hit; or NULL */
    const dao_script_entry_t *entry; /* of the script; NULL: it is in none */
    uint32_t move_count;             /* of its lane, with it */
    bool
        is_beside_block; /* it got no place in an arena that is a block, beside which memory is taken sparingly */
    bool is_astray;      /* so is its step */
    bool is_guest;       /* it may lie in the arena for as long as it lives */
    bool is_passing;     /* it is known to be gone before its step ends */
    bool is_stray;       /* it was counted as one */
    bool has_grown;      /* the place has grown for it */
    dao_stand_in_t stand_in;
    uint64_t usual_bytes; /* beside a window: the place may come to have so much */
} ask_t;

/* ---- who a tracked block is ---- */

/* In the word of a tracked block: the serial of its step, whether its free was retired, its index in the
   recording. */
#define ITEM_SERIAL_SHIFT 32
#define ITEM_PUT_OFF      (UINT64_C(1) << 31)
#define ITEM_NOT_RECORDED (ITEM_PUT_OFF - 1)

static_assert(DAO_LIFETIME_COUNT_MAX < ITEM_NOT_RECORDED, "an index fits");

static uint64_t item_word(uint32_t serial, uint32_t index)
{
    return (uint64_t)serial << ITEM_SERIAL_SHIFT | (index == DAO_LIFETIME_NONE ? ITEM_NOT_RECORDED : index);
}

/* Ends the lifetime of a tracked block, if its recording is still there. */
static void item_end(dao_planned_t *planned, uint64_t word)
{
    uint32_t serial = (uint32_t)(word >> ITEM_SERIAL_SHIFT);
    uint32_t index = (uint32_t)(word & ITEM_NOT_RECORDED);
    dao_lifetimes_t *recording = &planned->recordings[serial & 1];
    if (index == ITEM_NOT_RECORDED || recording->serial != serial || index >= recording->count) {
        return;
    }
    bool is_carried = serial != planned->serial;
    dao_lifetimes_end(recording, index, is_carried,
                      is_carried ? planned->recordings[planned->serial & 1].count : 0);
    recording->items[index].end_ticks = planned->config.records_time ? dao_ticks() : 0;
}

/* Tells whether the step of a request is under way. */
static bool is_of_now(const dao_planned_t *planned, const ask_t *ask)
{
    return ask->serial == planned->serial && atomic_load_explicit(&planned->is_open, memory_order_relaxed);
}

/* Records a request that is served; gives the index of its item. */
static uint32_t record(dao_planned_t *planned, const ask_t *ask)
{
    if (!is_of_now(planned, ask)) {
        return DAO_LIFETIME_NONE;
    }
    uint32_t index = dao_lifetimes_add(&planned->recordings[ask->serial & 1], &ask->item);
    planned->counts.dropped_count += index == DAO_LIFETIME_NONE;
    return index;
}

/* Adds a block to those of steps. Without memory for it, it is a block like any other, whose end nobody
   learns. */
static void track(dao_planned_t *planned, const ask_t *ask, void *address)
{
    size_t size_bytes = ask->request->size_bytes;
    uint32_t index = record(planned, ask);
    if (ask->stand_in.serial != 0) {
        dao_planned_shadow_bind(planned, &ask->stand_in, address, size_bytes);
    }
    if (!dao_block_map_reserve(&planned->tracked, 1)) {
        return;
    }
    dao_block_entry_t entry = {.address = address,
                               .word = item_word(ask->serial, index),
                               .piece = {.address = address, .size_bytes = size_bytes}};
    uint64_t beside_bytes = dao_planned_in_arena(planned, address) ? 0 : dao_planned_rounded(size_bytes);
    dao_block_map_insert(&planned->tracked, &entry);
    atomic_store_explicit(&planned->tracked_count, planned->tracked.count, memory_order_relaxed);
    planned->live_bytes += size_bytes;
    planned->beside_bytes += beside_bytes;
    dao_stats_raise(&planned->peak_live_bytes, planned->live_bytes);
    if (ask->serial == planned->serial) {
        planned->own.live_bytes += size_bytes;
        planned->own.used_bytes += dao_planned_rounded(size_bytes);
        planned->own.beside_bytes += beside_bytes;
        dao_stats_raise(&planned->own.peak_used_bytes, planned->own.used_bytes);
        dao_stats_raise(&planned->own.peak_beside_bytes, planned->own.beside_bytes);
        dao_stats_raise(&planned->recordings[planned->serial & 1].bound_bytes, planned->own.live_bytes);
    }
}

static void untrack(dao_planned_t *planned, dao_block_entry_t *entry)
{
    size_t size_bytes = entry->piece.size_bytes;
    uint64_t beside_bytes =
        dao_planned_in_arena(planned, entry->address) ? 0 : dao_planned_rounded(size_bytes);
    item_end(planned, entry->word);
    DAO_ASSERT(planned->live_bytes >= size_bytes && planned->beside_bytes >= beside_bytes);
    planned->live_bytes -= size_bytes;
    planned->beside_bytes -= beside_bytes;
    if (entry->word >> ITEM_SERIAL_SHIFT == planned->serial) {
        planned->own.live_bytes -= size_bytes;
        planned->own.used_bytes -= dao_planned_rounded(size_bytes);
        planned->own.beside_bytes -= beside_bytes;
    }
    dao_block_map_erase(&planned->tracked, entry);
    atomic_store_explicit(&planned->tracked_count, planned->tracked.count, memory_order_relaxed);
}

/* ---- alloc ---- */

/* Gives the lane of a thread by its number: its own, else the first that nobody has; where there is none, one
   whose thread has ended in this step, or the last one, which others share. */
static uint32_t lane_of_thread(dao_planned_t *planned, uint64_t thread)
{
    const uint32_t none = DAO_LIFETIME_LANE_COUNT;
    uint32_t idle = none, ended = none;
    for (uint32_t lane = 0; lane < DAO_LIFETIME_LANE_COUNT; lane++) {
        uint64_t other = planned->lane_threads[lane];
        if (other == thread && thread != 0) {
            return lane;
        }
        idle = idle == none && other == 0 ? lane : idle;
    }
    for (uint32_t lane = 0; idle == none && ended == none && lane < DAO_LIFETIME_LANE_COUNT; lane++) {
        ended = dao_thread_number_lives(planned->lane_threads[lane]) ? none : lane;
    }
    uint32_t lane = idle != none ? idle : ended;
    if (lane == none || thread == 0) {
        return DAO_LIFETIME_LANE_COUNT - 1;
    }
    planned->lane_threads[lane] = thread;
    return lane;
}

/* Counts a request and finds it in the script. */
static ask_t ask_note(dao_planned_t *planned, const dao_block_request_t *request, uint64_t thread)
{
    dao_lifetime_t item = {.size_bytes = request->size_bytes,
                           .key = thread_key,
                           .begin_ticks = planned->config.records_time ? dao_ticks() : 0,
                           .lane = (uint16_t)lane_of_thread(planned, thread)};
    if (item.key == 0 && planned->config.uses_tags) {
        item.key = request->tag;
    }
    if (request->alignment_bytes > 1) {
        item.alignment_shift = (uint8_t)__builtin_ctzll(request->alignment_bytes);
    }
    ask_t ask = {.request = request, .item = item, .serial = planned->serial};
    if (planned->shadow != NULL) {
        ask.stand_in = dao_planned_shadow_take(planned, request);
    }
    planned->counts.request_count++;
    planned->counts.requested_bytes += request->size_bytes;
    uint32_t place = dao_follow_next(&planned->served.follow, item.lane, item.key, item.size_bytes);
    ask.move_count = planned->served.follow.lanes[item.lane].move_count;
    if (place != DAO_SCRIPT_NONE) {
        ask.entry = &planned->served.script->entries[place];
        planned->now = place + 1;
    }
    return ask;
}

/* Takes back what was counted of a request that nobody could serve, and its place in the script: such as a
   large buffer that is tried before a small one. */
static void ask_drop(dao_planned_t *planned, const ask_t *ask)
{
    dao_spin_lock(&planned->lock);
    dao_planned_shadow_drop(planned, &ask->stand_in);
    if (is_of_now(planned, ask)) {
        uint32_t entry =
            ask->entry != NULL ? (uint32_t)(ask->entry - planned->served.script->entries) : DAO_SCRIPT_NONE;
        dao_follow_take_back(&planned->served.follow, ask->item.lane, ask->item.key, entry, ask->move_count);
        planned->counts.request_count--;
        planned->counts.requested_bytes -= ask->request->size_bytes;
        planned->stray_count -= ask->is_stray;
        if (ask->other_count != NULL) {
            (*ask->other_count)--;
        }
    }
    dao_spin_unlock(&planned->lock);
}

/* Counts a request that is no hit. */
static void ask_miss(ask_t *ask, uint64_t *count)
{
    ask->other_count = count;
    (*count)++;
}

/* Tells whether a block of an entry outlives its step, or may. */
static bool is_lasting(const dao_planned_t *planned, const dao_script_entry_t *entry)
{
    return entry->end == DAO_LIFETIME_OPEN || entry->end > planned->served.script->count;
}

/* Tells whether a request may lie in the arena for as long as it lives: in one that is to be empty at the
   next border, only what surely is gone by then. */
static bool is_guest(const dao_planned_t *planned, const ask_t *ask)
{
    return !planned->is_draining || (ask->entry != NULL && !is_lasting(planned, ask->entry));
}

/* Counts a request that is in no plan or found its place taken. */
static void stray_note(dao_planned_t *planned, ask_t *ask)
{
    ask->is_stray = true;
    planned->stray_count++;
    dao_planned_strays_judge(planned, false);
}

/* Tells whether an arena, which may be smaller than the plan, reaches over an entry. */
static bool is_inside(const dao_planned_t *planned, const dao_script_entry_t *entry)
{
    return entry->offset_bytes + dao_planned_rounded(entry->most_bytes) <= planned->arena.segment.size_bytes;
}

/* Serves an entry's own offset. */
static dao_status_t take_offset(dao_planned_t *planned, ask_t *ask, dao_block_grant_t *out_grant)
{
    const dao_script_entry_t *entry = ask->entry;
    if (entry == NULL || !dao_script_is_placed(entry)) {
        ask_miss(ask, &planned->counts.unplanned_count);
        stray_note(planned, ask);
        return DAO_ERR_LIMIT;
    }
    bool fits = dao_lifetime_units(ask->request->size_bytes) <= dao_lifetime_units(entry->most_bytes);
    bool is_due = fits && is_guest(planned, ask);
    dao_status_t status =
        is_due ? dao_planned_take_at(planned, entry->offset_bytes, ask->request, out_grant) : DAO_ERR_LIMIT;
    if (is_due && status == DAO_ERR_LIMIT && is_inside(planned, entry)) {
        stray_note(planned, ask);
    }
    if (status == DAO_OK) {
        planned->counts.hit_count++;
    } else {
        ask_miss(ask, &planned->counts.missed_count);
    }
    return status;
}

/* Serves a block of the request's bin, or of one that it may borrow from. Those that others lie in, or a
   stream holds, are the last that their bins hand out. */
static dao_status_t take_bin(dao_planned_t *planned, ask_t *ask, dao_block_grant_t *out_grant)
{
    dao_bins_t *bins = planned->served.bins;
    uint64_t offsets[BIN_TRY_COUNT];
    uint32_t count = 0;
    dao_status_t status = DAO_ERR_LIMIT;
    dao_bins_answer_t answer = DAO_BINS_HIT;
    while (status != DAO_OK && count < BIN_TRY_COUNT && answer == DAO_BINS_HIT) {
        answer = dao_bins_take(bins, ask->request->size_bytes, &offsets[count]);
        if (answer == DAO_BINS_HIT) {
            status = dao_planned_take_at(planned, offsets[count], ask->request, out_grant);
            count += status != DAO_OK;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        (void)dao_bins_give(bins, offsets[i], true);
    }
    bool is_null = answer == DAO_BINS_NULL && count == 0;
    if (status == DAO_OK) {
        planned->counts.hit_count++;
    } else {
        ask_miss(ask, is_null ? &planned->counts.null_bin_count : &planned->counts.missed_count);
    }
    return status;
}

/* Tells whether a request is so small that it is better off beside the arena, where it is in nobody's way. */
static bool is_better_beside(const dao_planned_t *planned, const ask_t *ask)
{
    return ask->entry == NULL && planned->beside_bytes + dao_planned_rounded(ask->request->size_bytes) <=
                                     planned->arena.segment.size_bytes / BESIDE_PART;
}

/* Tells whether a block may lie beside the arena without making the place larger, by more than a part, than
   it had to be. It is the estimate of dao_planned_growth_room() without asking the inner allocator, as the
   lock is held: of blocks of steps alone. */
static bool may_go_beside(const dao_planned_t *planned, uint64_t size_bytes, uint32_t part)
{
    uint64_t arena_bytes = planned->arena.segment.size_bytes;
    uint64_t usual_bytes = planned->peak_live_bytes > arena_bytes ? planned->peak_live_bytes : arena_bytes;
    return arena_bytes + planned->beside_bytes + dao_planned_rounded(size_bytes) <=
           usual_bytes + usual_bytes / part;
}

/* Serves what has no place from free memory of the arena: where nothing else is planned for as long as it
   lives; and where there is too much beside the arena already, where it is least in the way. DAO_ERR_LIMIT:
   it is better off beside; DAO_ERR_BUSY: so it is, as it would keep memory of a window from others. */
static dao_status_t borrow(dao_planned_t *planned, const ask_t *ask, dao_block_grant_t *out_grant)
{
    const dao_script_entry_t *entry = ask->entry;
    uint32_t count = planned->served.script->count;
    size_t size_bytes = ask->request->size_bytes;
    bool lasts = entry != NULL && is_lasting(planned, entry);
    uint32_t until = entry != NULL && !lasts ? entry->end : count;
    dao_status_t status = DAO_ERR_LIMIT;
    if (!is_guest(planned, ask)) {
        return status;
    }
    if (!lasts) {
        status = dao_planned_take_quiet(planned, until, 0, ask->request, out_grant);
    }
    if (status != DAO_ERR_LIMIT || dao_planned_has_window(planned) ||
        may_go_beside(planned, size_bytes, ALLOWANCE_PART)) {
        return status;
    }
    if (entry == NULL) { /* nobody knows how long it lives */
        uint32_t life = count / UNPLANNED_LIFE_PART;
        until = planned->now + (life > UNPLANNED_LIFE_MIN ? life : UNPLANNED_LIFE_MIN);
    }
    bool has_choice = may_go_beside(planned, size_bytes, DAO_PLANNED_GROWTH_PART);
    uint64_t most_harm = has_choice ? dao_planned_rounded(size_bytes) : UINT64_MAX;
    status = dao_planned_take_quiet(planned, until, most_harm, ask->request, out_grant);
    return status == DAO_ERR_LIMIT && !has_choice ? dao_planned_take_any(planned, ask->request, out_grant)
                                                  : status;
}

/* Serves an entry's offset, or what the plan leaves idle. */
static dao_status_t take_planned(dao_planned_t *planned, ask_t *ask, dao_block_grant_t *out_grant)
{
    dao_status_t status = DAO_ERR_LIMIT;
    bool is_astray = planned->is_astray; /* it may be so from the next request on */
    if (is_astray) {
        bool is_placed = ask->entry != NULL && dao_script_is_placed(ask->entry);
        ask_miss(ask, is_placed ? &planned->counts.missed_count : &planned->counts.unplanned_count);
    } else {
        status = take_offset(planned, ask, out_grant);
        if (status != DAO_OK && !is_better_beside(planned, ask)) {
            status = borrow(planned, ask, out_grant);
            planned->counts.borrowed_count += status == DAO_OK;
        }
    }
    if (status != DAO_OK) {
        ask->is_beside_block = planned->arena.segment.range != NULL;
        ask->is_astray = is_astray;
        ask->is_guest = is_guest(planned, ask); /* the script may be gone by the time that it is asked for */
        ask->is_passing = ask->entry != NULL && !is_lasting(planned, ask->entry);
        ask->usual_bytes = ask->is_passing ? 0 : dao_planned_window_usual(planned);
    }
    return status;
}

/* Serves from the arena: DAO_ERR_LIMIT or DAO_ERR_BUSY where it does not. */
static dao_status_t take_in_arena(dao_planned_t *planned, ask_t *ask, dao_block_grant_t *out_grant)
{
    if (!dao_planned_has_arena(planned)) {
        return DAO_ERR_LIMIT;
    }
    if (planned->served.script == NULL) { /* the plan was given up: what it leaves is for all */
        ask->is_beside_block = ask->is_astray = ask->is_guest = planned->arena.segment.range != NULL;
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = planned->served.bins != NULL ? take_bin(planned, ask, out_grant)
                                                       : take_planned(planned, ask, out_grant);
    if (status == DAO_OK) {
        planned->counts.planned_bytes += ask->request->size_bytes;
        track(planned, ask, out_grant->address);
    }
    return status;
}

/* Serves from what is free in an arena that is a block, whatever is planned for it. */
static dao_status_t take_rest(dao_planned_t *planned, const ask_t *ask, dao_block_grant_t *out_grant)
{
    dao_spin_lock(&planned->lock);
    dao_status_t status = planned->arena.segment.range != NULL
                              ? dao_planned_take_any(planned, ask->request, out_grant)
                              : DAO_ERR_LIMIT;
    if (status == DAO_OK && is_of_now(planned, ask)) {
        planned->counts.borrowed_count++;
        planned->counts.planned_bytes += ask->request->size_bytes;
    }
    dao_spin_unlock(&planned->lock);
    return status;
}

/* Serves a request beside an arena that is a block so that the place grows late, and by no more than the
   block needs. What must not keep a draining arena from being empty is never in it. */
static dao_status_t take_sparingly(dao_planned_t *planned, ask_t *ask, dao_block_grant_t *out_grant)
{
    dao_allocator_t *inner = planned->inner;
    dao_status_t status =
        ask->is_astray && ask->is_guest ? take_rest(planned, ask, out_grant) : DAO_ERR_LIMIT;
    if (status != DAO_OK) {
        status = inner->ops->alloc_within(inner, ask->request, 0, out_grant);
    }
    if (status != DAO_OK && !ask->is_astray) {
        uint64_t room_bytes = dao_planned_growth_room(planned);
        status = inner->ops->alloc_within(inner, ask->request, room_bytes, out_grant);
        status = status == DAO_OK || !ask->is_guest ? status : take_rest(planned, ask, out_grant);
    }
    if (status != DAO_OK) { /* what is idle in segments, and too small, is given back first */
        size_t released_bytes;
        (void)inner->ops->trim(inner, 0, &released_bytes); /* else the place grows by more */
        status = inner->ops->alloc_within(inner, ask->request, UINT64_MAX, out_grant);
        ask->has_grown = status == DAO_OK;
    }
    return status;
}

/* Serves what got no place in the arena; where there is nothing else, from what is free in it. */
static dao_status_t take_beside(dao_planned_t *planned, ask_t *ask, dao_block_grant_t *out_grant)
{
    bool is_sparing = ask->is_beside_block && planned->inner->ops->alloc_within != NULL;
    dao_status_t status = is_sparing ? take_sparingly(planned, ask, out_grant) : DAO_ERR_LIMIT;
    if (status != DAO_OK) {
        dao_block_request_t request = *ask->request;
        request.takes_windows = ask->is_passing || ask->usual_bytes > 0;
        request.windows_from_bytes = ask->usual_bytes;
        request.takes_fewest_pages = ask->is_astray && !ask->is_beside_block;
        status = planned->inner->ops->alloc(planned->inner, &request, out_grant);
        if (status != DAO_OK && take_rest(planned, ask, out_grant) == DAO_OK) {
            atomic_fetch_add(&planned->base.ledger->cured_count, 1);
            status = DAO_OK;
        }
    }
    if (status == DAO_OK) {
        dao_spin_lock(&planned->lock);
        track(planned, ask, out_grant->address);
        planned->has_grown |= ask->has_grown && is_of_now(planned, ask);
        dao_spin_unlock(&planned->lock);
    } else {
        ask_drop(planned, ask);
    }
    return status;
}

/* Tells whether plans are for such requests. */
static bool is_for_plans(dao_planned_t *planned, const dao_block_request_t *request)
{
    if (request->size_bytes < planned->config.smallest_bytes) {
        atomic_fetch_add_explicit(&planned->small_count, 1, memory_order_relaxed);
        return false;
    }
    return request->lease == 0 && request->size_bytes <= DAO_RANGE_CAPACITY_MAX &&
           request->alignment_bytes <= (size_t)1 << ALIGNMENT_SHIFT_MAX;
}

/* Serves what no plan is for. */
static dao_status_t alloc_inner(dao_planned_t *planned, const dao_block_request_t *request,
                                dao_block_grant_t *out_grant)
{
    return atomic_load_explicit(&planned->is_shadowed, memory_order_relaxed)
               ? dao_planned_shadow_alloc(planned, request, out_grant)
               : planned->inner->ops->alloc(planned->inner, request, out_grant);
}

static dao_status_t planned_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                  dao_block_grant_t *out_grant)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    bool is_open = atomic_load_explicit(&planned->is_open, memory_order_relaxed);
    if (!is_open || !is_for_plans(planned, request)) {
        return alloc_inner(planned, request, out_grant);
    }
    uint64_t thread = dao_thread_number(); /* not under the lock: it may wait */
    dao_spin_lock(&planned->lock);
    if (!atomic_load_explicit(&planned->is_open, memory_order_relaxed)) { /* it was over meanwhile */
        dao_spin_unlock(&planned->lock);
        return alloc_inner(planned, request, out_grant);
    }
    ask_t ask = ask_note(planned, request, thread);
    dao_status_t status = take_in_arena(planned, &ask, out_grant);
    dao_spin_unlock(&planned->lock);
    return status == DAO_OK ? DAO_OK : take_beside(planned, &ask, out_grant);
}

/* Within a step there is no shorter way, nor where a shadow is to know of all. */
static void *planned_alloc_fast(dao_allocator_t *allocator, size_t size_bytes)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    return atomic_load_explicit(&planned->is_open, memory_order_relaxed) ||
                   atomic_load_explicit(&planned->is_shadowed, memory_order_relaxed)
               ? dao_allocator_alloc_fallback(allocator, size_bytes)
               : planned->inner->ops->alloc_fast(planned->inner, size_bytes);
}

/* ---- free ---- */

/* What a free under the lock comes to. */
typedef enum free_answer {
    FREE_DONE,  /* with its status */
    FREE_INNER, /* it is the inner allocator's */
} free_answer_t;

/* A block of the arena is free: it may be one of a bin. */
static void bins_give(dao_planned_t *planned, const void *address)
{
    if (planned->served.bins != NULL) {
        uint64_t offset_bytes = (uint64_t)((const char *)address - planned->arena.segment.address);
        (void)dao_bins_give(planned->served.bins, offset_bytes, false);
    }
}

static free_answer_t free_locked(dao_planned_t *planned, void *address, dao_stream_fence_t *fence,
                                 dao_status_t *out_status)
{
    dao_block_entry_t *entry = dao_block_map_find(&planned->tracked, address);
    bool is_in_arena = dao_planned_in_arena(planned, address);
    if (planned->shadow != NULL) {
        dao_shadow_free(planned->shadow, address);
    }
    if (!is_in_arena || dao_planned_has_window(planned)) {
        if (entry != NULL) {
            untrack(planned, entry);
            if (is_in_arena) {
                bins_give(planned, address);
            }
        }
        return FREE_INNER;
    }
    *out_status = dao_segment_free(&planned->arena.segment, &planned->arena.ledger, address, fence);
    if (*out_status == DAO_OK) {
        if (entry != NULL) {
            untrack(planned, entry);
        }
        bins_give(planned, address);
    }
    return FREE_DONE;
}

dao_status_t dao_planned_free_now(dao_planned_t *planned, void *address, dao_stream_fence_t *fence)
{
    dao_status_t status = DAO_OK;
    dao_spin_lock(&planned->lock);
    free_answer_t answer = free_locked(planned, address, fence, &status);
    dao_spin_unlock(&planned->lock);
    return answer == FREE_INNER ? planned->inner->ops->free(planned->inner, address, fence)
                                : dao_ledger_check_free(&planned->arena.ledger, status, address);
}

/* Makes room for one more free that is retired; without memory for it, it is reclaimed at once. */
static bool put_off_reserve(dao_planned_t *planned)
{
    if (planned->retired_count < planned->put_off_capacity) {
        return true;
    }
    size_t capacity = 2 * planned->put_off_capacity;
    dao_put_off_t *larger = dao_host_realloc(planned->retire, capacity, sizeof(*larger));
    if (larger != NULL) {
        planned->retire = larger;
        planned->put_off_capacity = capacity;
    }
    return larger != NULL;
}

/* Puts a free off to the end of the step; tells whether it did, or has refused it. */
static bool puts_off(dao_planned_t *planned, void *address, const dao_stream_fence_t *fence,
                     dao_status_t *out_status)
{
    dao_spin_lock(&planned->lock);
    dao_block_entry_t *entry = dao_block_map_find(&planned->tracked, address);
    bool is_double = entry != NULL && (entry->word & ITEM_PUT_OFF) != 0;
    bool is_retired = entry != NULL && !is_double &&
                      atomic_load_explicit(&planned->is_open, memory_order_relaxed) &&
                      put_off_reserve(planned);
    if (is_retired) {
        entry->word |= ITEM_PUT_OFF;
        if (planned->shadow != NULL) {
            dao_shadow_free(planned->shadow, address); /* without plans it was not retired */
        }
        planned->retire[planned->retired_count++] =
            (dao_put_off_t){.address = address, .fence = fence != NULL ? *fence : (dao_stream_fence_t){0}};
    }
    dao_spin_unlock(&planned->lock);
    *out_status =
        is_double ? dao_ledger_check_free(&planned->arena.ledger, DAO_ERR_DOUBLE_FREE, address) : DAO_OK;
    return is_double || is_retired;
}

static dao_status_t planned_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_status_t status;
    if (atomic_load_explicit(&planned->tracked_count, memory_order_relaxed) == 0 &&
        !dao_planned_in_arena(planned, address) &&
        !atomic_load_explicit(&planned->is_shadowed, memory_order_relaxed)) {
        return planned->inner->ops->free(planned->inner, address, fence);
    }
    if (planned->config.defers_frees && puts_off(planned, address, fence, &status)) {
        return status;
    }
    return dao_planned_free_now(planned, address, fence);
}

/* ---- the rest of the table ---- */

static dao_status_t planned_stream_mark(dao_allocator_t *allocator, void *address, uint32_t stream)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    if (dao_planned_in_arena(planned, address)) {
        dao_spin_lock(&planned->lock);
        bool is_here = dao_planned_in_arena(planned, address) && !dao_planned_has_window(planned);
        dao_status_t status = is_here ? dao_segment_mark(&planned->arena.segment, address, stream) : DAO_OK;
        dao_spin_unlock(&planned->lock);
        if (is_here) {
            return dao_ledger_check_query(&planned->arena.ledger, status, address);
        }
    }
    return planned->inner->ops->stream_mark(planned->inner, address, stream);
}

static dao_status_t planned_query(dao_allocator_t *allocator, const void *address, dao_block_t *out_block)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    if (dao_planned_in_arena(planned, address)) {
        dao_spin_lock(&planned->lock);
        bool is_here = dao_planned_in_arena(planned, address) && !dao_planned_has_window(planned);
        dao_status_t status =
            is_here ? dao_segment_query(&planned->arena.segment, address, out_block) : DAO_OK;
        dao_spin_unlock(&planned->lock);
        if (is_here) {
            return dao_ledger_check_query(&planned->arena.ledger, status, address);
        }
    }
    return planned->inner->ops->query(planned->inner, address, out_block);
}

/* Gives the arena back where that is asked for and nothing lives in it; the plan stays, and takes another
   one. */
static void arena_trim(dao_planned_t *planned)
{
    if (dao_planned_boundary_try_lock(planned)) {
        if (planned->depth == 0) {
            (void)dao_planned_arena_give(planned); /* what lives there is no cached memory */
        }
        dao_planned_boundary_unlock(planned);
    }
}

static dao_status_t planned_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    if (keep_bytes < atomic_load_explicit(&planned->arena_bytes, memory_order_relaxed)) {
        arena_trim(planned);
    }
    dao_planned_shadow_trim(planned, keep_bytes);
    return planned->inner->ops->trim(planned->inner, keep_bytes, out_released_bytes);
}

static dao_status_t planned_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_status_t status = planned->inner->ops->limit_set(planned->inner, limit_bytes);
    if (status == DAO_ERR_LIMIT) { /* the arena may be what is too large */
        arena_trim(planned);
        status = planned->inner->ops->limit_set(planned->inner, limit_bytes);
    }
    if (status == DAO_OK) {
        dao_planned_shadow_limit(planned, limit_bytes);
    }
    return status;
}

static dao_status_t planned_lease_begin(dao_allocator_t *allocator, uint32_t *out_lease)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_status_t status = planned->inner->ops->lease_begin(planned->inner, out_lease);
    if (status == DAO_OK) { /* its pages are its own: without a plan, too, which a shadow knows nothing of */
        dao_spin_lock(&planned->lock);
        atomic_fetch_add_explicit(&planned->lease_count, 1, memory_order_relaxed);
        dao_planned_shadow_end(planned);
        dao_spin_unlock(&planned->lock);
    }
    return status;
}

static void planned_lease_end(dao_allocator_t *allocator, uint32_t lease)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    planned->inner->ops->lease_end(planned->inner, lease);
    atomic_fetch_sub_explicit(&planned->lease_count, 1, memory_order_relaxed);
}

static void planned_lease_stats(dao_allocator_t *allocator, uint32_t lease,
                                dao_block_lease_stats_t *out_stats)
{
    dao_allocator_t *inner = dao_planned_of(allocator)->inner;
    inner->ops->lease_stats(inner, lease, out_stats);
}

/* ---- create and destroy ---- */

/* Frees all but the inner allocator. */
static void planned_finish(dao_planned_t *planned)
{
    dao_planned_boundary_finish(planned);
    dao_served_finish(&planned->served);
    dao_shadow_destroy(planned->shadow);
    dao_script_destroy(planned->learnt);
    dao_range_destroy(planned->arena.segment.range);
    dao_lifetimes_finish(&planned->recordings[0]);
    dao_lifetimes_finish(&planned->recordings[1]);
    dao_block_map_finish(&planned->tracked);
    dao_host_free(planned->retire);
    dao_cond_finish(&planned->changed);
    dao_mutex_finish(&planned->border);
    dao_host_free(planned->name);
    dao_host_free(planned);
}

static void planned_destroy(dao_allocator_t *allocator)
{
    if (allocator != NULL) {
        dao_allocator_t *inner = dao_planned_of(allocator)->inner;
        planned_finish(dao_planned_of(allocator));
        inner->ops->destroy(inner);
    }
}

static const dao_allocator_ops_t planned_ops = {
    .name = "planned",
    .alloc = planned_alloc,
    .alloc_fast = planned_alloc_fast,
    .free_fast = dao_allocator_free_fallback,
    .free = planned_free,
    .stream_mark = planned_stream_mark,
    .query = planned_query,
    .trim = planned_trim,
    .limit_set = planned_limit_set,
    .used_get = dao_planned_used_get,
    .stats_get = dao_planned_table_stats_get,
    .stats_reset_peaks = dao_planned_stats_reset_peaks,
    .walk = dao_planned_table_walk,
    .walk_all = dao_planned_table_walk_all,
    .is_valid = dao_planned_is_valid,
    .destroy = planned_destroy,
    .lease_begin = planned_lease_begin,
    .lease_end = planned_lease_end,
    .lease_stats = planned_lease_stats,
};

bool dao_is_planned(const dao_allocator_t *allocator)
{
    return allocator->ops->destroy == planned_destroy;
}

static void fill_defaults(dao_step_plan_config_t *config)
{
    bool has_bins = config->mode == DAO_STEP_PLAN_BINS;
    config->allocation_count =
        config->allocation_count != 0 ? config->allocation_count : DAO_PLANNED_ALLOCATION_COUNT;
    config->work_limit = config->work_limit != 0 ? config->work_limit : DAO_STEP_PLAN_WORK_DEFAULT;
    config->smallest_bytes = config->smallest_bytes != 0 ? config->smallest_bytes
                             : has_bins                  ? DAO_PLANNED_BINS_SMALL_BYTES + 1
                                                         : 1;
}

/* Makes the tables, large enough that requests need no memory for them. */
static dao_status_t make_room(dao_planned_t *planned)
{
    uint32_t count = planned->config.allocation_count;
    dao_status_t status = dao_lifetimes_init(&planned->recordings[0], count);
    if (status == DAO_OK) {
        status = dao_lifetimes_init(&planned->recordings[1], count);
    }
    bool has_room = status == DAO_OK && dao_block_map_reserve(&planned->tracked, count);
    if (has_room && planned->config.defers_frees) {
        planned->put_off_capacity = count;
        planned->retire = dao_host_calloc(count, sizeof(*planned->retire));
        has_room = planned->retire != NULL;
    }
    return has_room ? DAO_OK : DAO_ERR_NO_HOST_MEMORY;
}

/* What the inner allocator cannot do is not offered. */
static void fill_ops(dao_planned_t *planned)
{
    planned->ops = planned_ops;
    dao_allocator_ops_limit(&planned->ops, planned->inner->ops);
    planned->base = (dao_allocator_t){.ops = &planned->ops, .ledger = planned->inner->ledger};
    dao_allocator_stand_before(&planned->base, planned->inner);
}

dao_status_t dao_planned_create(const dao_planned_config_t *config, dao_allocator_t *inner,
                                dao_allocator_t **out_allocator)
{
    dao_planned_t *planned = dao_host_calloc(1, sizeof(*planned));
    if (planned == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    planned->inner = inner;
    planned->config = config->step_plan;
    planned->fences = config->fences;
    planned->is_host_memory = config->is_host_memory;
    planned->is_enabled = true;
    planned->arena_gap = 1;
    fill_defaults(&planned->config);
    fill_ops(planned);
    dao_mutex_init(&planned->border, DAO_RANK_STEP_BOUNDARY);
    dao_cond_init(&planned->changed);
    dao_spin_init(&planned->lock, DAO_RANK_STEP_PLAN);
    dao_ledger_init_part(&planned->arena.ledger, inner->ledger);
    planned->name = dao_host_strdup(config->name);
    if (planned->name == NULL || make_room(planned) != DAO_OK) {
        dao_status_t status =
            dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory to record steps of %u allocations",
                      config->name, planned->config.allocation_count);
        planned_finish(planned);
        return status;
    }
    *out_allocator = &planned->base;
    return DAO_OK;
}
