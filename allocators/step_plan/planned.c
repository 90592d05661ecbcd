/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and frees of a place with step plans.

       alloc -- no step, a lease, too small ---------------------------------------------------+
         |                                                                                     |
         +--> recorded --> learnt_plans.c: which plan is it, and which entry of its script?    |
                             |                                                                 v
                             +-- the entry's place in the arena is free: a hit          inner allocator
                             +-- else any part of the arena that is free                       ^
                             +-- no plan, or no room in the arena -----------------------------+

   Where the inner allocator has windows, the arena is one: what is free in it the inner allocator has, too,
   so that it costs nothing to keep. What got no place lies in the window as well, where good fit puts it:
   blocks of a step stay together in few pages, whether or not they keep to the plan. Else the arena is a
   block of the inner allocator under a range, and what has no room in it lies beside it.

   So no two blocks share a byte, whatever a plan says. Blocks of steps are tracked by their address, wherever
   they lie, so that their frees end their lifetimes.

   What holds between calls:

       tracked   live blocks of steps: a word of item_t, and what they asked for
       live_bytes, beside_bytes are sums over `tracked`
       is_open   only within a step; recordings[serial & 1] is its recording
       deferred  blocks in `tracked` that are marked so, each once; none outside of steps */
#include "allocators/step_plan/planned_internal.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/thread_number.h"

/* Blocks in no plan lie beside a window while they come to at most this part of what plans ask for: in it,
   the two batches with which recorded steps begin would be in the way of hundreds of places. */
#define BESIDE_PART 64u

/* Blocks of its bin that a request tries: others may lie in one, or a stream hold it. */
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
    dao_lifetime_t item;   /* that it has in the recording once it has a block */
    uint32_t serial;       /* of its step, which may be over before it has one */
    uint64_t *other_count; /* of the step's counts, the one that says why it is no hit; or NULL */
    bool uses_window;      /* it follows a plan, and lies in the window */
    uint32_t entries[DAO_PLANNED_PLAN_COUNT]; /* in each plan that the step may follow, to take it back */
    uint32_t counts[DAO_PLANNED_PLAN_COUNT];
} ask_t;

/* ---- who a tracked block is ---- */

/* In the word of a tracked block: the serial of its step, whether its free is deferred, its index in the
   recording. */
#define ITEM_SERIAL_SHIFT 32
#define ITEM_DEFERRED     (UINT64_C(1) << 31)
#define ITEM_NOT_RECORDED (ITEM_DEFERRED - 1)

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

/* Returns true if the step of a request is under way. */
static bool is_of_now(const dao_planned_t *planned, const ask_t *ask)
{
    return ask->serial == planned->serial && atomic_load_explicit(&planned->is_open, memory_order_relaxed);
}

/* Records a request that got a block; returns the index of its item. */
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

/* Returns the slot of a thread by its number: its own, else the first that nobody has; where there is none,
   one whose thread has ended in this step, or the last one, which others share. */
static uint32_t slot_of_thread(dao_planned_t *planned, uint64_t thread)
{
    const uint32_t none = DAO_LIFETIME_SLOT_COUNT;
    uint32_t idle = none, ended = none;
    for (uint32_t slot = 0; slot < DAO_LIFETIME_SLOT_COUNT; slot++) {
        uint64_t other = planned->slot_threads[slot];
        if (other == thread && thread != 0) {
            return slot;
        }
        idle = idle == none && other == 0 ? slot : idle;
    }
    for (uint32_t slot = 0; idle == none && ended == none && slot < DAO_LIFETIME_SLOT_COUNT; slot++) {
        ended = dao_thread_number_lives(planned->slot_threads[slot]) ? none : slot;
    }
    uint32_t slot = idle != none ? idle : ended;
    if (slot == none || thread == 0) {
        return DAO_LIFETIME_SLOT_COUNT - 1;
    }
    planned->slot_threads[slot] = thread;
    return slot;
}

/* Counts a request and finds it in the plans. */
static ask_t ask_note(dao_planned_t *planned, const dao_block_request_t *request, uint64_t thread)
{
    ask_t ask = {.request = request,
                 .serial = planned->serial,
                 .item = {.size_bytes = request->size_bytes,
                          .key = thread_key,
                          .begin_ticks = planned->config.records_time ? dao_ticks() : 0,
                          .slot = (uint16_t)slot_of_thread(planned, thread)}};
    if (ask.item.key == 0 && planned->config.uses_tags) {
        ask.item.key = request->tag;
    }
    if (request->alignment_bytes > 1) {
        ask.item.alignment_shift = (uint8_t)__builtin_ctzll(request->alignment_bytes);
    }
    planned->counts.request_count++;
    planned->counts.requested_bytes += request->size_bytes;
    dao_planned_recognise(planned, &ask.item, ask.entries, ask.counts);
    return ask;
}

/* Takes back what was counted of a request that failed, and its place in the scripts: such as a large buffer
   that is tried before a small one. */
static void ask_drop(dao_planned_t *planned, const ask_t *ask)
{
    dao_spin_lock(&planned->lock);
    if (is_of_now(planned, ask)) {
        dao_planned_recognise_undo(planned, &ask->item, ask->entries, ask->counts);
        planned->counts.request_count--;
        planned->counts.requested_bytes -= ask->request->size_bytes;
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

/* Takes the place of the request's entry. */
static dao_status_t take_offset(dao_planned_t *planned, ask_t *ask, dao_block_grant_t *out_grant)
{
    uint32_t number = ask->entries[planned->current];
    const dao_script_entry_t *entry =
        number != DAO_SCRIPT_NONE ? &planned->plans[planned->current].script->entries[number] : NULL;
    if (entry == NULL || !dao_script_is_placed(entry)) {
        ask_miss(ask, &planned->counts.unplanned_count);
        return DAO_ERR_LIMIT;
    }
    bool fits = dao_lifetime_units(ask->request->size_bytes) <= dao_lifetime_units(entry->most_bytes);
    dao_status_t status =
        fits ? dao_planned_take_at(planned, entry->offset_bytes, ask->request, out_grant) : DAO_ERR_LIMIT;
    if (status == DAO_OK) {
        planned->counts.hit_count++;
    } else {
        ask_miss(ask, &planned->counts.missed_count);
    }
    return status;
}

/* Takes a block of the request's bin, or of one that it may borrow from. Those that others lie in, or a
   stream holds, are the last that their bins hand out. */
static dao_status_t take_bin(dao_planned_t *planned, ask_t *ask, dao_block_grant_t *out_grant)
{
    dao_bins_t *bins = planned->plans[planned->current].bins;
    uint64_t offsets[BIN_TRY_COUNT];
    uint32_t count = 0;
    dao_status_t status = DAO_ERR_LIMIT;
    dao_bins_answer_t answer = DAO_BINS_HIT;
    while (status != DAO_OK && count < BIN_TRY_COUNT && answer == DAO_BINS_HIT) {
        answer = dao_bins_take(bins, dao_planned_rounded(ask->request->size_bytes), &offsets[count]);
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

/* Takes any free part of an arena that is a block. */
static dao_status_t take_rest(dao_planned_t *planned, const ask_t *ask, dao_block_grant_t *out_grant)
{
    dao_status_t status = planned->arena.segment.range != NULL
                              ? dao_planned_take_any(planned, ask->request, out_grant)
                              : DAO_ERR_LIMIT;
    planned->counts.borrowed_count += status == DAO_OK && ask->other_count != NULL && is_of_now(planned, ask);
    return status;
}

/* Returns true if a request that got no place is better off beside the window, where it is in the way of
   none: if it outlives the step, or is in no plan and small. */
static bool is_better_beside(const dao_planned_t *planned, const ask_t *ask)
{
    const dao_script_t *script = planned->plans[planned->current].script;
    uint32_t entry = ask->entries[planned->current];
    uint64_t beside_bytes = planned->beside_bytes + dao_planned_rounded(ask->request->size_bytes);
    return entry != DAO_SCRIPT_NONE ? script->entries[entry].end > script->count
                                    : beside_bytes <= planned->arena.segment.size_bytes / BESIDE_PART;
}

/* Takes memory of the arena: DAO_ERR_LIMIT where there is none for it, or only with the lock given up. What
   has no bin, or finds it empty, lies beside the arena: in it, it would be in the way of other bins. */
static dao_status_t take_in_arena(dao_planned_t *planned, ask_t *ask, dao_block_grant_t *out_grant)
{
    if (!dao_planned_has_arena(planned)) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = DAO_ERR_LIMIT;
    const dao_learnt_plan_t *plan =
        planned->current < DAO_PLANNED_PLAN_COUNT ? &planned->plans[planned->current] : NULL;
    bool is_open = dao_planned_has_window(planned) || !planned->arena.is_closed;
    bool is_used = plan != NULL && plan->is_ready && is_open;
    bool has_bins = is_used && plan->bins != NULL;
    if (has_bins) {
        status = take_bin(planned, ask, out_grant);
    } else if (is_used) {
        status = take_offset(planned, ask, out_grant);
        ask->uses_window = dao_planned_has_window(planned) && !is_better_beside(planned, ask);
    }
    if (status != DAO_OK && is_open && !has_bins) {
        status = take_rest(planned, ask, out_grant);
    }
    if (status == DAO_OK) {
        planned->counts.planned_bytes += ask->request->size_bytes;
        track(planned, ask, out_grant->address);
    }
    return status;
}

/* Counts and tracks a block that the inner allocator has given. */
static void track_beside(dao_planned_t *planned, const ask_t *ask, void *address)
{
    dao_spin_lock(&planned->lock);
    uint64_t offset_bytes = (uintptr_t)address - (uintptr_t)planned->arena.segment.address;
    if (ask->uses_window && is_of_now(planned, ask) && offset_bytes < planned->arena.segment.size_bytes) {
        planned->counts.borrowed_count++;
        planned->counts.planned_bytes += ask->request->size_bytes;
    }
    track(planned, ask, address);
    dao_spin_unlock(&planned->lock);
}

/* Takes memory for what has none in an arena that is a block: of the inner allocator, and where that has none
   what is free in the arena after all. In a window the inner allocator places it as well; then anywhere. */
static dao_status_t take_beside(dao_planned_t *planned, ask_t *ask, dao_block_grant_t *out_grant)
{
    dao_allocator_t *inner = planned->inner;
    dao_block_request_t request = *ask->request;
    request.lease = ask->uses_window ? planned->arena.window.lease : 0;
    dao_status_t status = inner->ops->alloc(inner, &request, out_grant);
    bool is_cured = false;
    if (status != DAO_OK && ask->uses_window) {
        request.lease = 0;
        is_cured = inner->ops->alloc(inner, &request, out_grant) == DAO_OK;
    } else if (status != DAO_OK) {
        dao_spin_lock(&planned->lock);
        is_cured = take_rest(planned, ask, out_grant) == DAO_OK;
        dao_spin_unlock(&planned->lock);
    }
    if (is_cured) {
        atomic_fetch_add(&planned->base.ledger->cured_count, 1);
        status = DAO_OK;
    }
    if (status == DAO_OK) {
        track_beside(planned, ask, out_grant->address);
    } else {
        ask_drop(planned, ask);
    }
    return status;
}

/* Returns true if plans are for such requests. */
static bool is_for_plans(dao_planned_t *planned, const dao_block_request_t *request)
{
    if (request->size_bytes < planned->config.smallest_bytes) {
        atomic_fetch_add_explicit(&planned->small_count, 1, memory_order_relaxed);
        return false;
    }
    return request->lease == 0 && request->size_bytes <= DAO_RANGE_CAPACITY_MAX &&
           request->alignment_bytes <= (size_t)1 << ALIGNMENT_SHIFT_MAX;
}

static dao_status_t planned_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                  dao_block_grant_t *out_grant)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    bool is_open = atomic_load_explicit(&planned->is_open, memory_order_relaxed);
    if (!is_open || !is_for_plans(planned, request)) {
        return planned->inner->ops->alloc(planned->inner, request, out_grant);
    }
    uint64_t thread = dao_thread_number(); /* not under the lock: it may wait */
    dao_spin_lock(&planned->lock);
    if (!atomic_load_explicit(&planned->is_open, memory_order_relaxed)) { /* it was over meanwhile */
        dao_spin_unlock(&planned->lock);
        return planned->inner->ops->alloc(planned->inner, request, out_grant);
    }
    ask_t ask = ask_note(planned, request, thread);
    dao_status_t status = take_in_arena(planned, &ask, out_grant);
    dao_spin_unlock(&planned->lock);
    return status == DAO_OK ? DAO_OK : take_beside(planned, &ask, out_grant);
}

/* Within a step there is no shorter way. */
static void *planned_alloc_fast(dao_allocator_t *allocator, size_t size_bytes)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    return atomic_load_explicit(&planned->is_open, memory_order_relaxed)
               ? dao_allocator_alloc_fallback(allocator, size_bytes)
               : planned->inner->ops->alloc_fast(planned->inner, size_bytes);
}

/* ---- free ---- */

/* What a free under the lock comes to. */
typedef enum free_answer {
    FREE_DONE,  /* with its status */
    FREE_INNER, /* it is the inner allocator's */
} free_answer_t;

/* A block of the arena is free: it may be one of a bin, of any plan. */
static void bins_give(dao_planned_t *planned, const void *address)
{
    uint64_t offset_bytes = (uint64_t)((const char *)address - planned->arena.segment.address);
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        if (planned->plans[i].bins != NULL) {
            (void)dao_bins_give(planned->plans[i].bins, offset_bytes, false);
        }
    }
}

static free_answer_t free_locked(dao_planned_t *planned, void *address, dao_stream_fence_t *fence,
                                 dao_status_t *out_status)
{
    dao_block_entry_t *entry = dao_block_map_find(&planned->tracked, address);
    bool is_in_arena = dao_planned_in_arena(planned, address);
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

/* Returns true if an arena that is a block has just lost its last one, and no plan is for it. */
static bool is_left_over(const dao_planned_t *planned)
{
    const dao_range_t *range = planned->arena.segment.range;
    bool is_wanted = false;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        is_wanted = is_wanted || planned->plans[i].is_ready;
    }
    return range != NULL && !is_wanted && dao_range_used(range) == 0;
}

dao_status_t dao_planned_free_now(dao_planned_t *planned, void *address, dao_stream_fence_t *fence)
{
    dao_status_t status = DAO_OK;
    dao_spin_lock(&planned->lock);
    free_answer_t answer = free_locked(planned, address, fence, &status);
    bool is_last = answer == FREE_DONE && is_left_over(planned);
    dao_spin_unlock(&planned->lock);
    if (answer == FREE_INNER) {
        return planned->inner->ops->free(planned->inner, address, fence);
    }
    status = dao_ledger_check_free(&planned->arena.ledger, status, address);
    if (is_last) {
        dao_planned_arena_trim(planned);
    }
    return status;
}

/* Makes room for one more deferred free; without memory for it, the block is freed at once. */
static bool deferred_reserve(dao_planned_t *planned)
{
    if (planned->deferred_count < planned->deferred_capacity) {
        return true;
    }
    size_t capacity = 2 * planned->deferred_capacity;
    dao_planned_deferred_t *larger = dao_host_realloc(planned->deferred, capacity, sizeof(*larger));
    if (larger != NULL) {
        planned->deferred = larger;
        planned->deferred_capacity = capacity;
    }
    return larger != NULL;
}

/* Defers a free to the end of the step; true if it did, or has refused it. */
static bool defers(dao_planned_t *planned, void *address, const dao_stream_fence_t *fence,
                   dao_status_t *out_status)
{
    dao_spin_lock(&planned->lock);
    dao_block_entry_t *entry = dao_block_map_find(&planned->tracked, address);
    bool is_double = entry != NULL && (entry->word & ITEM_DEFERRED) != 0;
    bool is_deferred = entry != NULL && !is_double &&
                       atomic_load_explicit(&planned->is_open, memory_order_relaxed) &&
                       deferred_reserve(planned);
    if (is_deferred) {
        entry->word |= ITEM_DEFERRED;
        planned->deferred[planned->deferred_count++] = (dao_planned_deferred_t){
            .address = address, .fence = fence != NULL ? *fence : (dao_stream_fence_t){0}};
    }
    dao_spin_unlock(&planned->lock);
    *out_status =
        is_double ? dao_ledger_check_free(&planned->arena.ledger, DAO_ERR_DOUBLE_FREE, address) : DAO_OK;
    return is_double || is_deferred;
}

static dao_status_t planned_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_status_t status;
    if (atomic_load_explicit(&planned->tracked_count, memory_order_relaxed) == 0 &&
        !dao_planned_in_arena(planned, address)) {
        return planned->inner->ops->free(planned->inner, address, fence);
    }
    if (planned->config.defers_frees && defers(planned, address, fence, &status)) {
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

static dao_status_t planned_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    if (keep_bytes < atomic_load_explicit(&planned->arena_bytes, memory_order_relaxed)) {
        dao_planned_arena_trim(planned);
    }
    return planned->inner->ops->trim(planned->inner, keep_bytes, out_released_bytes);
}

static dao_status_t planned_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_status_t status = planned->inner->ops->limit_set(planned->inner, limit_bytes);
    if (status == DAO_ERR_LIMIT) { /* the arena may be what is too large */
        dao_planned_arena_trim(planned);
        status = planned->inner->ops->limit_set(planned->inner, limit_bytes);
    }
    return status;
}

static dao_status_t planned_lease_begin(dao_allocator_t *allocator, uint32_t *out_lease)
{
    dao_allocator_t *inner = dao_planned_of(allocator)->inner;
    return inner->ops->lease_begin(inner, out_lease);
}

static void planned_lease_end(dao_allocator_t *allocator, uint32_t lease)
{
    dao_allocator_t *inner = dao_planned_of(allocator)->inner;
    inner->ops->lease_end(inner, lease);
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
    if (planned->learning != NULL) {
        DAO_ASSERT(!planned->learning->is_under_way && planned->learning->reference_count == 1);
        dao_planned_learning_release(planned->learning);
    }
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        dao_learnt_plan_finish(&planned->plans[i]);
    }
    dao_range_destroy(planned->arena.segment.range);
    dao_lifetimes_finish(&planned->recordings[0]);
    dao_lifetimes_finish(&planned->recordings[1]);
    dao_block_map_finish(&planned->tracked);
    dao_host_free(planned->deferred);
    dao_cond_finish(&planned->changed);
    dao_mutex_finish(&planned->boundary);
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
        planned->deferred_capacity = count;
        planned->deferred = dao_host_calloc(count, sizeof(*planned->deferred));
        has_room = planned->deferred != NULL;
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
    planned->current = DAO_PLANNED_PLAN_COUNT;
    fill_defaults(&planned->config);
    fill_ops(planned);
    dao_mutex_init(&planned->boundary, DAO_RANK_STEP_BOUNDARY);
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
