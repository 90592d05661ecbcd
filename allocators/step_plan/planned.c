/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and frees of a place with step plans.

       alloc -- no step, a lease, too small ---------------------------------------------------+
         |                                                                                     |
         +--> learnt_plans.c: which plan is it, and which entry of its script?                 |
                |                                                                              v
                +-- the entry's place in the window is free: a hit                      inner allocator
                +-- else what is free in the window, by good fit ------------------------------^
                +-- no plan, or it would be in the way of others there: beside the window -----+

   The window is the inner allocator's: it has pages only where blocks live, and what is free in it serves
   other requests, so that it costs nothing to keep. Blocks of a step stay together in few pages there,
   whether or not they keep to the plan.

   All blocks are the inner allocator's own, so no two share a byte, whatever a plan says. Blocks of steps are
   tracked by their address, wherever they lie, so that their frees end their lifetimes.

   What holds between calls:

       tracked   live blocks of steps: their item in a recording, and what they asked for
       beside_bytes is the sum over `tracked` of what lies beside the window
       is_open   only within a step, which is then recorded
       deferred  blocks in `tracked` that are marked so, each once; none outside of steps */
#include "allocators/step_plan/planned_internal.h"

#include "allocators/accounting/ledger.h"
#include "allocators/range/range.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/thread_number.h"

/* Blocks in no plan lie beside the window while they come to at most this part of the arena: twice what the
   two batches take with which recorded steps begin (0.8 % of mobilenet_v2). In the window they would be in
   the way of others: resnet50 would find 750 of its 3,858 places free. */
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

/* A request that belongs to a step. */
typedef struct ask {
    const dao_block_request_t *request;
    dao_lifetime_t item; /* that it has in the recording once it has a block */
    uint32_t serial;     /* of its step, which may be over before it has one */
    uint32_t entry;      /* in the plan that the step follows */
    uint64_t *outcome;   /* of the step's counts, what it comes to; NULL: no plan is used */
    bool uses_window;    /* it follows a plan, and lies in the window */
} ask_t;

/* ---- who a tracked block is ---- */

/* In the word of a tracked block: the serial of its step, whether its free is deferred, its owner, its index
   in the recording. */
#define ITEM_SERIAL_SHIFT 32
#define ITEM_DEFERRED     (UINT64_C(1) << 31)
#define ITEM_OWNER_SHIFT  28 /* three bits, up to ITEM_DEFERRED */
#define ITEM_NOT_RECORDED ((UINT64_C(1) << ITEM_OWNER_SHIFT) - 1)

static_assert(DAO_LIFETIME_COUNT_MAX < ITEM_NOT_RECORDED, "an index fits");
#define OWNER_FITS(number, name, text, end)                                                                  \
    static_assert((number) < ITEM_DEFERRED >> ITEM_OWNER_SHIFT, "an owner fits");
DAO_BLOCK_OWNER_LIST(OWNER_FITS)
#undef OWNER_FITS

static dao_block_owner_t item_owner(uint64_t word)
{
    return (dao_block_owner_t)((word & (ITEM_DEFERRED - 1)) >> ITEM_OWNER_SHIFT);
}

static uint64_t item_word(uint32_t serial, uint32_t index)
{
    return (uint64_t)serial << ITEM_SERIAL_SHIFT | (index == DAO_LIFETIME_NONE ? ITEM_NOT_RECORDED : index);
}

/* Ends the lifetime of a tracked block, if its recording is still there. */
static void item_end(dao_planned_t *planned, uint64_t word)
{
    uint32_t index = (uint32_t)(word & ITEM_NOT_RECORDED);
    if (index != ITEM_NOT_RECORDED && word >> ITEM_SERIAL_SHIFT == planned->recording.serial) {
        dao_lifetimes_end(&planned->recording, index);
        planned->recording.items[index].end_ticks = planned->config.records_time ? dao_ticks() : 0;
    }
}

/* Returns true if the step of a request is under way. */
static bool is_of_now(const dao_planned_t *planned, const ask_t *ask)
{
    return ask->serial == planned->recording.serial &&
           atomic_load_explicit(&planned->is_open, memory_order_relaxed);
}

/* Records and counts a request of this step that got a block; returns the index of its item. */
static uint32_t record(dao_planned_t *planned, const ask_t *ask, const void *address)
{
    dao_step_counts_t *counts = &planned->counts;
    bool is_hit = ask->outcome == &counts->hit_count;
    bool is_borrowed =
        !is_hit && ask->uses_window && dao_planned_offset(planned, address) < planned->arena_bytes;
    uint32_t index = dao_lifetimes_add(&planned->recording, &ask->item);
    counts->request_count++;
    counts->requested_bytes += ask->request->size_bytes;
    counts->planned_bytes += is_hit || is_borrowed ? ask->request->size_bytes : 0;
    counts->borrowed_count += is_borrowed;
    counts->dropped_count += index == DAO_LIFETIME_NONE;
    if (ask->outcome != NULL) {
        (*ask->outcome)++;
    }
    return index;
}

/* Adds a block to those of steps. Without memory for it, it is a block like any other, whose end nobody
   learns. */
static void track(dao_planned_t *planned, const ask_t *ask, void *address)
{
    size_t size_bytes = ask->request->size_bytes;
    uint64_t used_bytes = dao_planned_rounded(size_bytes);
    uint32_t index = is_of_now(planned, ask) ? record(planned, ask, address) : DAO_LIFETIME_NONE;
    if (!dao_block_map_reserve(&planned->tracked, 1)) {
        return;
    }
    uint64_t owner = (uint64_t)ask->request->owner << ITEM_OWNER_SHIFT;
    dao_block_entry_t entry = {.address = address,
                               .word = item_word(ask->serial, index) | owner,
                               .piece = {.address = address, .size_bytes = size_bytes}};
    dao_block_map_insert(&planned->tracked, &entry);
    atomic_store_explicit(&planned->tracked_count, planned->tracked.count, memory_order_relaxed);
    planned->beside_bytes += dao_planned_in_window(planned, address) ? 0 : used_bytes;
    if (ask->serial == planned->recording.serial) {
        planned->own.live_bytes += size_bytes;
        planned->own.used_bytes += used_bytes;
        dao_stats_raise(&planned->own.peak_used_bytes, planned->own.used_bytes);
        dao_stats_raise(&planned->recording.bound_bytes, planned->own.live_bytes);
    }
}

/* Forgets a block that is about to be freed: it may be one of a bin, of any plan. */
static void untrack(dao_planned_t *planned, dao_block_entry_t *entry)
{
    size_t size_bytes = entry->piece.size_bytes;
    uint64_t used_bytes = dao_planned_rounded(size_bytes);
    bool is_in_window = dao_planned_in_window(planned, entry->address);
    item_end(planned, entry->word);
    DAO_ASSERT(is_in_window || planned->beside_bytes >= used_bytes);
    planned->beside_bytes -= is_in_window ? 0 : used_bytes;
    if (entry->word >> ITEM_SERIAL_SHIFT == planned->recording.serial) {
        planned->own.live_bytes -= size_bytes;
        planned->own.used_bytes -= used_bytes;
    }
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        if (is_in_window && planned->plans[i].bins != NULL) {
            (void)dao_bins_give(planned->plans[i].bins, dao_planned_offset(planned, entry->address), false);
        }
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

/* Notes who asks, and finds the request in the plans. */
static ask_t ask_note(dao_planned_t *planned, const dao_block_request_t *request, uint64_t thread)
{
    ask_t ask = {.request = request,
                 .serial = planned->recording.serial,
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
    ask.entry = dao_planned_recognise(planned, &ask.item);
    return ask;
}

static dao_status_t take_at(dao_planned_t *planned, uint64_t offset_bytes, const ask_t *ask,
                            dao_block_grant_t *out_grant)
{
    return planned->inner->ops->alloc_at(planned->inner, &planned->window,
                                         planned->window.address + offset_bytes, ask->request, out_grant);
}

/* Takes the place of the request's entry. */
static dao_status_t take_offset(dao_planned_t *planned, const dao_script_t *script, ask_t *ask,
                                dao_block_grant_t *out_grant)
{
    const dao_script_entry_t *entry = ask->entry != DAO_SCRIPT_NONE ? &script->entries[ask->entry] : NULL;
    if (entry == NULL || !dao_script_is_placed(entry)) {
        ask->outcome = &planned->counts.unplanned_count;
        return DAO_ERR_LIMIT;
    }
    bool fits = dao_lifetime_units(ask->request->size_bytes) <= dao_lifetime_units(entry->size_bytes);
    dao_status_t status = fits ? take_at(planned, entry->offset_bytes, ask, out_grant) : DAO_ERR_LIMIT;
    ask->outcome = status == DAO_OK ? &planned->counts.hit_count : &planned->counts.missed_count;
    return status;
}

/* Takes a block of the request's bin, or of one that it may borrow from. Those that others lie in, or a
   stream holds, are the last that their bins hand out. */
static dao_status_t take_bin(dao_planned_t *planned, dao_bins_t *bins, ask_t *ask,
                             dao_block_grant_t *out_grant)
{
    uint64_t offsets[BIN_TRY_COUNT];
    uint32_t count = 0;
    dao_status_t status = DAO_ERR_LIMIT;
    dao_bins_answer_t answer = DAO_BINS_HIT;
    while (status != DAO_OK && count < BIN_TRY_COUNT && answer == DAO_BINS_HIT) {
        answer = dao_bins_take(bins, dao_planned_rounded(ask->request->size_bytes), &offsets[count]);
        if (answer == DAO_BINS_HIT) {
            status = take_at(planned, offsets[count], ask, out_grant);
            count += status != DAO_OK;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        (void)dao_bins_give(bins, offsets[i], true);
    }
    bool is_null = answer == DAO_BINS_NULL && count == 0;
    ask->outcome = status == DAO_OK ? &planned->counts.hit_count
                   : is_null        ? &planned->counts.null_bin_count
                                    : &planned->counts.missed_count;
    return status;
}

/* Returns true if a request that got no place is better off beside the window, where it is in the way of
   none: if it outlives the step, or is in no plan and small. */
static bool is_better_beside(const dao_planned_t *planned, const dao_script_t *script, const ask_t *ask)
{
    uint64_t beside_bytes = planned->beside_bytes + dao_planned_rounded(ask->request->size_bytes);
    return ask->entry != DAO_SCRIPT_NONE ? script->entries[ask->entry].end > script->count
                                         : beside_bytes <= planned->arena_bytes / BESIDE_PART;
}

/* Takes the place that a plan has for a request: DAO_ERR_LIMIT where there is none. What has no bin, or finds
   it empty, lies beside the window: in it, it would be in the way of other bins. */
static dao_status_t take_planned(dao_planned_t *planned, ask_t *ask, dao_block_grant_t *out_grant)
{
    const dao_learnt_plan_t *plan =
        planned->current < DAO_PLANNED_PLAN_COUNT ? &planned->plans[planned->current] : NULL;
    if (plan == NULL || !plan->is_ready || planned->arena_bytes == 0) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = plan->bins != NULL ? take_bin(planned, plan->bins, ask, out_grant)
                                             : take_offset(planned, plan->script, ask, out_grant);
    ask->uses_window = plan->bins == NULL && !is_better_beside(planned, plan->script, ask);
    if (status == DAO_OK) {
        track(planned, ask, out_grant->address);
    }
    return status;
}

/* Takes memory for what has no place: in the window, if it is to lie there, else anywhere. */
static dao_status_t take_unplanned(dao_planned_t *planned, const ask_t *ask, dao_block_grant_t *out_grant)
{
    dao_allocator_t *inner = planned->inner;
    dao_block_request_t request = *ask->request;
    request.lease = ask->uses_window ? planned->window.lease : 0;
    dao_status_t status = inner->ops->alloc(inner, &request, out_grant);
    if (status != DAO_OK && ask->uses_window) {
        request.lease = 0;
        status = inner->ops->alloc(inner, &request, out_grant);
        atomic_fetch_add(&planned->base.ledger->cured_count, 1); /* the caller sees one failure at most */
    }
    if (status == DAO_OK) {
        dao_spin_lock(&planned->lock);
        track(planned, ask, out_grant->address);
        dao_spin_unlock(&planned->lock);
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

/* A block that could not be tracked would never return to its bin: then the step goes by. */
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
    is_open = atomic_load_explicit(&planned->is_open, memory_order_relaxed); /* it may be over meanwhile */
    if (!is_open || !dao_block_map_reserve(&planned->tracked, 1)) {
        dao_spin_unlock(&planned->lock);
        return planned->inner->ops->alloc(planned->inner, request, out_grant);
    }
    ask_t ask = ask_note(planned, request, thread);
    dao_status_t status = take_planned(planned, &ask, out_grant);
    dao_spin_unlock(&planned->lock);
    return status == DAO_OK ? DAO_OK : take_unplanned(planned, &ask, out_grant);
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

dao_status_t dao_planned_free_now(dao_planned_t *planned, void *address, dao_stream_fence_t *fence,
                                  dao_block_owner_t owner)
{
    dao_spin_lock(&planned->lock);
    dao_block_entry_t *entry = dao_block_map_find(&planned->tracked, address);
    if (entry != NULL && item_owner(entry->word) == owner) { /* else the inner allocator refuses it */
        untrack(planned, entry);
    }
    dao_spin_unlock(&planned->lock);
    return planned->inner->ops->free_owned(planned->inner, address, fence, owner);
}

/* Makes room for one more deferred free; without memory for it, the block is freed at once. */
static bool deferred_reserve(dao_planned_t *planned)
{
    if (planned->deferred_count < planned->deferred_capacity) {
        return true;
    }
    size_t capacity = 2 * planned->deferred_count + 1;
    dao_planned_deferred_t *larger = dao_host_realloc(planned->deferred, capacity, sizeof(*larger));
    if (larger != NULL) {
        planned->deferred = larger;
        planned->deferred_capacity = capacity;
    }
    return larger != NULL;
}

/* Returns true if the inner allocator would refuse a free behind a fence: this free is for its caller to
   make again once the streams are done, so that it must be refused now, and not deferred. */
static bool must_be_idle(dao_planned_t *planned, const void *address, const dao_stream_fence_t *fence)
{
    dao_block_t block;
    return fence != NULL && !dao_stream_fence_is_empty(fence) &&
           planned->inner->ops->query(planned->inner, address, &block) == DAO_OK && block.is_idle_at_free;
}

/* Defers a free to the end of the step; true if it did, or has refused it. */
static bool defers(dao_planned_t *planned, void *address, const dao_stream_fence_t *fence,
                   dao_block_owner_t owner, dao_status_t *out_status)
{
    bool is_early = must_be_idle(planned, address, fence);
    dao_spin_lock(&planned->lock);
    dao_block_entry_t *entry = dao_block_map_find(&planned->tracked, address);
    bool is_double = entry != NULL && (entry->word & ITEM_DEFERRED) != 0;
    bool is_deferred = entry != NULL && !is_double && !is_early && item_owner(entry->word) == owner &&
                       atomic_load_explicit(&planned->is_open, memory_order_relaxed) &&
                       deferred_reserve(planned);
    if (is_deferred) {
        entry->word |= ITEM_DEFERRED;
        planned->deferred[planned->deferred_count++] = (dao_planned_deferred_t){
            .address = address, .fence = fence != NULL ? *fence : (dao_stream_fence_t){0}, .owner = owner};
    }
    dao_spin_unlock(&planned->lock);
    *out_status =
        is_double ? dao_ledger_check_free(planned->base.ledger, DAO_ERR_DOUBLE_FREE, address) : DAO_OK;
    return is_double || is_deferred;
}

static dao_status_t planned_free_owned(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence,
                                       dao_block_owner_t owner)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_status_t status;
    if (atomic_load_explicit(&planned->tracked_count, memory_order_relaxed) == 0) {
        return planned->inner->ops->free_owned(planned->inner, address, fence, owner);
    }
    if (planned->config.defers_frees && defers(planned, address, fence, owner, &status)) {
        return status;
    }
    return dao_planned_free_now(planned, address, fence, owner);
}

static dao_status_t planned_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence)
{
    return planned_free_owned(allocator, address, fence, DAO_BLOCK_OWNER_RAW);
}

/* ---- the check ---- */

static bool plan_is_valid(const dao_planned_t *planned, uint32_t number)
{
    const dao_learnt_plan_t *plan = &planned->plans[number];
    bool is_followed = (planned->candidates >> number & 1) != 0;
    return ((!plan->is_ready && !is_followed) || plan->script != NULL) &&
           (planned->current != number || is_followed) && dao_follow_is_valid(&plan->follow) &&
           (plan->bins == NULL || dao_bins_is_valid(plan->bins));
}

static bool planned_is_valid(dao_allocator_t *allocator)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    uint64_t beside_bytes = 0;
    dao_spin_lock(&planned->lock);
    for (size_t i = 0; i < planned->tracked.capacity; i++) {
        const dao_block_entry_t *entry = &planned->tracked.entries[i];
        bool is_beside = entry->address != NULL && !dao_planned_in_window(planned, entry->address);
        beside_bytes += is_beside ? dao_planned_rounded(entry->piece.size_bytes) : 0;
    }
    bool is_valid = beside_bytes == planned->beside_bytes && dao_block_map_is_valid(&planned->tracked) &&
                    dao_lifetimes_is_valid(&planned->recording);
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        is_valid = is_valid && plan_is_valid(planned, i);
    }
    dao_spin_unlock(&planned->lock);
    return is_valid && planned->inner->ops->is_valid(planned->inner);
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
    dao_lifetimes_finish(&planned->recording);
    dao_block_map_finish(&planned->tracked);
    dao_host_free(planned->deferred);
    dao_cond_finish(&planned->changed);
    dao_mutex_finish(&planned->boundary);
    dao_host_free(planned->name);
    dao_host_free(planned);
}

static void planned_destroy(dao_allocator_t *allocator)
{
    dao_allocator_t *inner = dao_planned_of(allocator)->inner;
    planned_finish(dao_planned_of(allocator));
    inner->ops->destroy(inner);
}

static const dao_allocator_ops_t planned_ops = {
    .name = "planned",
    .alloc = planned_alloc,
    .alloc_fast = planned_alloc_fast,
    .free = planned_free,
    .free_owned = planned_free_owned,
    .free_fast = dao_allocator_free_fallback,
    .is_valid = planned_is_valid,
    .destroy = planned_destroy,
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

dao_status_t dao_planned_create(const dao_planned_config_t *config, dao_allocator_t *inner,
                                dao_allocator_t **out_allocator)
{
    dao_planned_t *planned = dao_host_calloc(1, sizeof(*planned));
    if (planned == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    planned->ops = planned_ops;
    dao_front_init((dao_front_t *)planned, inner, &planned->ops);
    planned->config = config->step_plan;
    planned->is_host_memory = config->is_host_memory;
    planned->is_enabled = true;
    planned->current = DAO_PLANNED_PLAN_COUNT;
    fill_defaults(&planned->config);
    dao_mutex_init(&planned->boundary, DAO_RANK_STEP_BOUNDARY);
    dao_cond_init(&planned->changed);
    dao_spin_init(&planned->lock, DAO_RANK_STEP_PLAN);
    planned->name = dao_host_strdup(config->name);
    uint32_t count = planned->config.allocation_count;
    if (planned->name == NULL || dao_lifetimes_init(&planned->recording, count) != DAO_OK ||
        !dao_block_map_reserve(&planned->tracked, count)) {
        dao_status_t status =
            dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory to record steps of %u allocations",
                      config->name, count);
        planned_finish(planned);
        return status;
    }
    *out_allocator = &planned->base;
    return DAO_OK;
}
