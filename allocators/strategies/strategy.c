/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator around a placer: what all strategies that place whole blocks share.

       alloc ──> lock ──> queue is emptied ──> placer.take ──> table of blocks           supply <──> upstream
       free  ──> lock ──> queue is emptied ──> table ──> placer.give                        ^
                                                           placer takes and gives ──────────┘
       retire ──> table (the word goes, the piece stays) ──reclaim──> placer.give, or ──reuse──> a live block

   What holds between calls:

       sum of the pieces in the table == what the placer has handed out
       sum of those whose blocks live == stats.used_bytes: the others were retired, and have no word
       stats.reserved_bytes == what the supply has taken and not given back
       slots of the queue >= blocks of the table + spare ones, if there is one

   All that needs host memory (the table, the queue) is made before the placer is asked, so that a failure
   changes nothing. The lock is held over the upstream's calls, as in device_memory.c: a second thread that
   misses would wait for the same call. */
#include "allocators/strategies/strategy.h"

#include "allocators/segments/free_queue.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

typedef struct strategy {
    dao_allocator_t base;
    dao_allocator_ops_t ops; /* with the placer's name */
    dao_free_queue_t queue;  /* its slot_count is guarded by the lock */

    dao_mutex_t lock;
    dao_ledger_t ledger;
    dao_block_map_t blocks;
    uint64_t retired_bytes; /* of the blocks among these that were retired */
    dao_supply_t supply;
    dao_placer_t *placer;
} strategy_t;

static strategy_t *strategy_of(dao_allocator_t *allocator)
{
    return (strategy_t *)allocator;
}

/* ---- the supply ---- */

size_t dao_supply_padded(const dao_supply_t *supply, size_t size_bytes, size_t alignment_bytes)
{
    return alignment_bytes > supply->alignment_bytes ? size_bytes + alignment_bytes - supply->alignment_bytes
                                                     : size_bytes;
}

uint64_t dao_supply_room(const dao_supply_t *supply)
{
    return dao_ledger_room(supply->ledger);
}

uint64_t dao_supply_budget_room(const dao_supply_t *supply)
{
    return dao_ledger_budget_room(supply->ledger);
}

dao_status_t dao_supply_make_room(dao_supply_t *supply, size_t size_bytes)
{
    uint64_t room_bytes = dao_ledger_room(supply->ledger);
    if (room_bytes >= size_bytes) {
        return DAO_OK;
    }
    if (supply->placer->ops->idle_bytes(supply->placer) < size_bytes - room_bytes) {
        return dao_ledger_limit_error(supply->ledger, size_bytes);
    }
    return supply->placer->ops->release(supply->placer, size_bytes - room_bytes);
}

static dao_status_t take_address(dao_supply_t *supply, size_t size_bytes, void **out_address)
{
    dao_status_t status = dao_ledger_grow_begin(supply->ledger, size_bytes);
    if (status != DAO_OK) {
        return status;
    }
    status = supply->upstream.take(supply->upstream.user, size_bytes, out_address);
    if (status != DAO_OK) {
        dao_ledger_grow_cancel(supply->ledger, size_bytes);
    }
    return status;
}

dao_status_t dao_supply_take(dao_supply_t *supply, size_t size_bytes, bool presses, dao_piece_t *out_piece)
{
    void *address = NULL;
    dao_status_t status = take_address(supply, size_bytes, &address);
    if (presses && dao_allocator_is_short(status) && supply->placer->ops->idle_bytes(supply->placer) > 0) {
        dao_status_t released = supply->placer->ops->release(supply->placer, UINT64_MAX);
        status = released != DAO_OK ? released : take_address(supply, size_bytes, &address);
    }
    if (status != DAO_OK) {
        return status;
    }
    DAO_ASSERT((uintptr_t)address % supply->alignment_bytes == 0);
    dao_ledger_count_grow(supply->ledger, size_bytes);
    *out_piece = (dao_piece_t){address, size_bytes};
    return DAO_OK;
}

dao_status_t dao_supply_give(dao_supply_t *supply, const dao_piece_t *piece)
{
    dao_status_t status = supply->upstream.give(supply->upstream.user, piece->address, piece->size_bytes);
    if (status == DAO_OK) {
        dao_ledger_count_shrink(supply->ledger, piece->size_bytes);
    }
    return status;
}

/* ---- the lock ---- */

/* Returns true if an entry of the table is a live block: one that was retired has no word, a live one at
   least a byte. */
static bool is_live(const dao_block_entry_t *entry)
{
    return entry->word != 0;
}

static bool is_valid_locked(const strategy_t *strategy)
{
    dao_recount_t recount = {0};
    uint64_t taken_bytes = 0;
    for (size_t i = 0; i < strategy->blocks.capacity; i++) {
        const dao_block_entry_t *entry = &strategy->blocks.entries[i];
        taken_bytes += entry->piece.size_bytes;
        if (is_live(entry)) {
            recount.requested_bytes += dao_word_requested_bytes(entry->word);
            recount.used_bytes += entry->piece.size_bytes;
            recount.live_count++;
        }
    }
    size_t block_count = strategy->blocks.count;
    uint64_t slots_needed = block_count > 0 ? block_count + DAO_FREE_QUEUE_SPARE_COUNT : 0;
    return dao_block_map_is_valid(&strategy->blocks) &&
           strategy->retired_bytes == taken_bytes - recount.used_bytes &&
           strategy->queue.slot_count >= slots_needed &&
           strategy->placer->ops->is_valid(strategy->placer, taken_bytes, &recount.reserved_bytes) &&
           dao_ledger_matches(&strategy->ledger, &recount);
}

/* Returns the live block that begins at an address, or NULL. */
static dao_block_entry_t *find_live_locked(const strategy_t *strategy, const void *address)
{
    dao_block_entry_t *entry = dao_block_map_find(&strategy->blocks, address);
    return entry != NULL && is_live(entry) ? entry : NULL;
}

/* Returns the block that begins at an address and was retired, or NULL. */
static dao_block_entry_t *find_retired_locked(const strategy_t *strategy, const void *address)
{
    dao_block_entry_t *entry = dao_block_map_find(&strategy->blocks, address);
    return entry != NULL && !is_live(entry) ? entry : NULL;
}

/* Tells why no live block begins at an address. */
static dao_status_t refusal_locked(const strategy_t *strategy, const void *address)
{
    const dao_block_entry_t *around = dao_block_map_around(&strategy->blocks, address);
    if (around != NULL && is_live(around)) {
        return DAO_ERR_INTERIOR_POINTER;
    }
    if (around != NULL) {
        return around->address == address ? DAO_ERR_DOUBLE_FREE : DAO_ERR_FOREIGN_POINTER;
    }
    bool was_freed = dao_ledger_freed_lately(&strategy->ledger, address) ||
                     strategy->placer->ops->is_hole(strategy->placer, address);
    return was_freed ? DAO_ERR_DOUBLE_FREE : DAO_ERR_FOREIGN_POINTER;
}

static dao_status_t free_locked(void *user, void *address, dao_block_owner_t owner)
{
    strategy_t *strategy = user;
    dao_block_entry_t *entry = find_live_locked(strategy, address);
    if (entry == NULL) {
        return refusal_locked(strategy, address);
    }
    if (dao_word_owner(entry->word) != owner) {
        return DAO_ERR_NOT_YOURS;
    }
    dao_block_entry_t freed = *entry;
    dao_status_t status = strategy->placer->ops->give(strategy->placer, &freed.piece);
    if (status == DAO_OK) {
        dao_block_map_erase(&strategy->blocks, entry);
        dao_ledger_count_free_slow(&strategy->ledger, address, freed.word, freed.piece.size_bytes);
    }
    return status;
}

/* Takes the lock and reclaims deferred frees. Returns the slots of wrong addresses, for
   unlock_and_report(). */
static uint32_t lock_and_drain(strategy_t *strategy)
{
    dao_mutex_lock(&strategy->lock);
    DAO_ASSERT_HEAVY(is_valid_locked(strategy));
    return dao_free_queue_reclaim(&strategy->queue, DAO_FREE_QUEUE_NONE, free_locked, strategy);
}

static void unlock_and_report(strategy_t *strategy, uint32_t wrong)
{
    DAO_ASSERT_HEAVY(is_valid_locked(strategy));
    dao_mutex_unlock(&strategy->lock);
    dao_free_queue_report(&strategy->queue, wrong, strategy->ledger.name);
}

/* ---- alloc ---- */

/* Returns the alignment that a request's block has. */
static size_t alignment_of(const strategy_t *strategy, const dao_block_request_t *request)
{
    size_t own_bytes = strategy->supply.alignment_bytes;
    return request->alignment_bytes > own_bytes ? request->alignment_bytes : own_bytes;
}

/* Refuses what no placer could ever give. */
static dao_status_t check_request(const strategy_t *strategy, const dao_block_request_t *request)
{
    if (request->size_bytes > PTRDIFF_MAX) {
        return dao_error(DAO_ERR_OVERFLOW, "no block can be that large");
    }
    if (request->size_bytes > DAO_STRATEGY_BLOCK_BYTES_MAX ||
        request->alignment_bytes > DAO_STRATEGY_BLOCK_BYTES_MAX) {
        return dao_error(strategy->supply.full_status, "a block and its alignment have at most 1 TiB");
    }
    return DAO_OK;
}

/* Makes room in the tables for one more block. */
static dao_status_t reserve_locked(strategy_t *strategy)
{
    if (!dao_block_map_reserve(&strategy->blocks, 1)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the table of blocks");
    }
    return dao_free_queue_reserve(&strategy->queue, strategy->blocks.count + 1);
}

/* Takes a piece, charged to the request's tag. */
static dao_status_t charge_and_take_locked(strategy_t *strategy, const dao_block_request_t *request,
                                           size_t alignment_bytes, dao_piece_t *out_piece)
{
    dao_placer_t *placer = strategy->placer;
    size_t charged_bytes = 0;
    if (request->tag != 0) {
        charged_bytes = placer->ops->block_bytes(placer, request->size_bytes, alignment_bytes);
    }
    dao_status_t status = dao_ledger_charge(&strategy->ledger, request, charged_bytes);
    if (status != DAO_OK) {
        return status;
    }
    dao_ledger_t *ledger = &strategy->ledger;
    uint64_t grow_count = ledger->stats.grow_count;
    dao_grow_reason_t reason = dao_ledger_grow_reason(ledger, request->size_bytes, ledger->stats.used_bytes,
                                                      strategy->retired_bytes);
    status = placer->ops->take(placer, request->size_bytes, alignment_bytes, out_piece);
    dao_ledger_count_reason(ledger, reason, grow_count);
    ledger->stats.miss_count += status == DAO_OK && ledger->stats.grow_count != grow_count;
    DAO_ASSERT(status != DAO_OK || request->tag == 0 || out_piece->size_bytes == charged_bytes);
    if (status != DAO_OK) {
        dao_ledger_refund(&strategy->ledger, request, charged_bytes);
    }
    return status;
}

static dao_status_t alloc_locked(strategy_t *strategy, const dao_block_request_t *request, void **out_address)
{
    size_t alignment_bytes = alignment_of(strategy, request);
    dao_piece_t piece = {0};
    dao_status_t status = check_request(strategy, request);
    if (status == DAO_OK) {
        status = reserve_locked(strategy);
    }
    if (status == DAO_OK) {
        status = charge_and_take_locked(strategy, request, alignment_bytes, &piece);
    }
    if (status != DAO_OK) {
        return dao_ledger_fail(&strategy->ledger, status, request,
                               strategy->placer->ops->largest_hole(strategy->placer));
    }
    size_t over_bytes = (uintptr_t)piece.address % alignment_bytes;
    dao_block_entry_t entry = {.address = piece.address + (over_bytes > 0 ? alignment_bytes - over_bytes : 0),
                               .word = dao_word_of(request),
                               .piece = piece};
    DAO_ASSERT((size_t)(entry.address - piece.address) + request->size_bytes <= piece.size_bytes);
    DAO_ASSERT(is_live(&entry));
    dao_block_map_insert(&strategy->blocks, &entry);
    dao_ledger_count_alloc(&strategy->ledger, request, piece.size_bytes);
    *out_address = entry.address;
    return DAO_OK;
}

static dao_status_t strategy_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                   dao_block_grant_t *out_grant)
{
    strategy_t *strategy = strategy_of(allocator);
    DAO_ASSERT(request->size_bytes > 0);
    out_grant->fence = (dao_stream_fence_t){0};
    uint32_t wrong = lock_and_drain(strategy);
    dao_status_t status = alloc_locked(strategy, request, &out_grant->address);
    unlock_and_report(strategy, wrong);
    return status;
}

/* ---- the rest of the table ---- */

/* Returns the message of a free that failed; DAO_OK passes. */
static dao_status_t check_free(const strategy_t *strategy, dao_status_t status, const void *address)
{
    if (status == DAO_ERR_FOREIGN_POINTER || status == DAO_ERR_INTERIOR_POINTER ||
        status == DAO_ERR_DOUBLE_FREE || status == DAO_ERR_NOT_YOURS) {
        return dao_ledger_check_free(&strategy->ledger, status, address);
    }
    if (status != DAO_OK) { /* the upstream's, which has said why */
        dao_error_prefix("%s: %p could not be given back and stays taken: ", strategy->ledger.name, address);
    }
    return status;
}

static dao_status_t strategy_free_owned(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence,
                                        dao_block_owner_t owner)
{
    DAO_ASSERT(fence == NULL || dao_stream_fence_is_empty(fence));
    (void)fence; /* nobody uses the block */
    strategy_t *strategy = strategy_of(allocator);
    uint32_t wrong = lock_and_drain(strategy);
    dao_status_t status = free_locked(strategy, address, owner);
    unlock_and_report(strategy, wrong);
    return check_free(strategy, status, address);
}

static dao_status_t strategy_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence)
{
    return strategy_free_owned(allocator, address, fence, DAO_BLOCK_OWNER_RAW);
}

static dao_block_t describe(const dao_block_entry_t *entry)
{
    return (dao_block_t){.address = entry->address,
                         .requested_bytes = dao_word_requested_bytes(entry->word),
                         .block_bytes = entry->piece.size_bytes,
                         .tag = dao_word_tag(entry->word),
                         .stream = dao_word_stream(entry->word),
                         .owner = dao_word_owner(entry->word),
                         .state = is_live(entry) ? DAO_BLOCK_STATE_LIVE : DAO_BLOCK_STATE_PENDING};
}

/* ---- frees in two steps ---- */

static dao_status_t strategy_retire(dao_allocator_t *allocator, void *address, dao_block_owner_t owner,
                                    dao_block_t *out_block)
{
    strategy_t *strategy = strategy_of(allocator);
    uint32_t wrong = lock_and_drain(strategy);
    dao_block_entry_t *entry = find_live_locked(strategy, address);
    dao_status_t status = entry == NULL                          ? refusal_locked(strategy, address)
                          : dao_word_owner(entry->word) == owner ? DAO_OK
                                                                 : DAO_ERR_NOT_YOURS;
    if (status == DAO_OK) {
        *out_block = describe(entry);
        dao_ledger_count_free_slow(&strategy->ledger, address, entry->word, entry->piece.size_bytes);
        entry->word = 0;
        strategy->retired_bytes += entry->piece.size_bytes;
        DAO_ASSERT(find_retired_locked(strategy, address) == entry);
    }
    unlock_and_report(strategy, wrong);
    return check_free(strategy, status, address);
}

static dao_status_t strategy_reclaim(dao_allocator_t *allocator, void *address)
{
    strategy_t *strategy = strategy_of(allocator);
    uint32_t wrong = lock_and_drain(strategy);
    dao_block_entry_t *entry = find_retired_locked(strategy, address);
    dao_status_t status = DAO_ERR_FOREIGN_POINTER;
    if (entry != NULL) {
        dao_piece_t piece = entry->piece;
        status = strategy->placer->ops->give(strategy->placer, &piece);
    }
    if (status == DAO_OK) {
        strategy->retired_bytes -= entry->piece.size_bytes;
        dao_block_map_erase(&strategy->blocks, entry);
    }
    unlock_and_report(strategy, wrong);
    return check_free(strategy, status, address);
}

/* Returns true if a request would get a piece like that of an entry, and may lie where the entry's block
   does. */
static bool suits_locked(const strategy_t *strategy, const dao_block_entry_t *entry,
                         const dao_block_request_t *request)
{
    size_t alignment_bytes = alignment_of(strategy, request);
    size_t usable_bytes = entry->piece.size_bytes - (size_t)(entry->address - entry->piece.address);
    return request->size_bytes <= usable_bytes && (uintptr_t)entry->address % alignment_bytes == 0 &&
           strategy->placer->ops->block_bytes(strategy->placer, request->size_bytes, alignment_bytes) ==
               entry->piece.size_bytes;
}

static dao_status_t strategy_reuse(dao_allocator_t *allocator, void *address,
                                   const dao_block_request_t *request)
{
    strategy_t *strategy = strategy_of(allocator);
    uint32_t wrong = lock_and_drain(strategy);
    dao_block_entry_t *entry = find_retired_locked(strategy, address);
    bool suits = entry != NULL && suits_locked(strategy, entry, request);
    dao_status_t status =
        suits ? dao_ledger_charge(&strategy->ledger, request, entry->piece.size_bytes) : DAO_ERR_LIMIT;
    if (status == DAO_OK) {
        entry->word = dao_word_of(request);
        strategy->retired_bytes -= entry->piece.size_bytes;
        DAO_ASSERT(find_live_locked(strategy, address) == entry);
        dao_ledger_count_alloc(&strategy->ledger, request, entry->piece.size_bytes);
    }
    unlock_and_report(strategy, wrong);
    return status;
}

static dao_status_t strategy_query(dao_allocator_t *allocator, const void *address, dao_block_t *out_block)
{
    strategy_t *strategy = strategy_of(allocator);
    dao_mutex_lock(&strategy->lock);
    const dao_block_entry_t *entry = dao_block_map_around(&strategy->blocks, address);
    bool is_found = entry != NULL && is_live(entry);
    if (is_found) {
        *out_block = describe(entry);
    }
    dao_mutex_unlock(&strategy->lock);
    return dao_ledger_check_query(&strategy->ledger, is_found ? DAO_OK : DAO_ERR_FOREIGN_POINTER, address);
}

static dao_status_t strategy_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    strategy_t *strategy = strategy_of(allocator);
    uint32_t wrong = lock_and_drain(strategy);
    uint64_t before_bytes = strategy->ledger.stats.reserved_bytes;
    uint64_t idle_bytes = strategy->placer->ops->idle_bytes(strategy->placer);
    dao_status_t status = DAO_OK;
    if (idle_bytes > keep_bytes) {
        status = strategy->placer->ops->release(strategy->placer, idle_bytes - keep_bytes);
    }
    *out_released_bytes = (size_t)(before_bytes - strategy->ledger.stats.reserved_bytes);
    unlock_and_report(strategy, wrong);
    return status;
}

static dao_status_t limit_set_locked(strategy_t *strategy, uint64_t limit_bytes)
{
    dao_stats_t *stats = &strategy->ledger.stats;
    if (limit_bytes != 0 && stats->reserved_bytes > limit_bytes) {
        uint64_t excess_bytes = stats->reserved_bytes - limit_bytes;
        uint64_t idle_bytes = strategy->placer->ops->idle_bytes(strategy->placer);
        dao_status_t status =
            idle_bytes > 0
                ? strategy->placer->ops->release(strategy->placer, dao_smaller(idle_bytes, excess_bytes))
                : DAO_OK;
        if (status != DAO_OK) {
            return status;
        }
        if (stats->reserved_bytes > limit_bytes) {
            return dao_error(
                DAO_ERR_LIMIT,
                "%s: live blocks hold %zu bytes, in pieces of memory of %zu, which is more than the"
                " new limit of %zu",
                strategy->ledger.name, (size_t)stats->used_bytes, (size_t)stats->reserved_bytes,
                (size_t)limit_bytes);
        }
    }
    DAO_ASSERT(limit_bytes == 0 || stats->reserved_bytes <= limit_bytes);
    stats->limit_bytes = limit_bytes;
    return DAO_OK;
}

static dao_status_t strategy_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    strategy_t *strategy = strategy_of(allocator);
    uint32_t wrong = lock_and_drain(strategy);
    dao_status_t status = limit_set_locked(strategy, limit_bytes);
    unlock_and_report(strategy, wrong);
    return status;
}

static uint64_t strategy_used_get(dao_allocator_t *allocator)
{
    strategy_t *strategy = strategy_of(allocator);
    uint32_t wrong = lock_and_drain(strategy);
    uint64_t used_bytes = strategy->ledger.stats.used_bytes;
    unlock_and_report(strategy, wrong);
    return used_bytes;
}

static void strategy_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    strategy_t *strategy = strategy_of(allocator);
    uint32_t wrong = lock_and_drain(strategy);
    *out_stats = strategy->ledger.stats;
    out_stats->largest_hole_bytes = strategy->placer->ops->largest_hole(strategy->placer);
    out_stats->deferred_count = atomic_load(&strategy->queue.pending_count);
    unlock_and_report(strategy, wrong);
}

static void strategy_stats_reset_peaks(dao_allocator_t *allocator, dao_peaks_t *out_peaks)
{
    strategy_t *strategy = strategy_of(allocator);
    uint32_t wrong = lock_and_drain(strategy);
    dao_stats_peaks_to_now(&strategy->ledger.stats, out_peaks);
    unlock_and_report(strategy, wrong);
}

static void walk_locked(const strategy_t *strategy, dao_block_visit_t visit, void *user)
{
    for (size_t i = 0; i < strategy->blocks.capacity; i++) {
        if (is_live(&strategy->blocks.entries[i])) {
            dao_block_t block = describe(&strategy->blocks.entries[i]);
            visit(&block, user);
        }
    }
}

static void strategy_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    strategy_t *strategy = strategy_of(allocator);
    dao_mutex_lock(&strategy->lock);
    walk_locked(strategy, visit, user);
    dao_mutex_unlock(&strategy->lock);
}

/* A walk over the pieces of a placer, as blocks. */
typedef struct placed_walk {
    const strategy_t *strategy;
    dao_block_visit_t visit;
    void *user;
} placed_walk_t;

/* Returns the block of a piece: it begins with it, or behind what its alignment has cost. */
static const dao_block_entry_t *entry_of(const dao_block_map_t *blocks, const dao_piece_t *piece)
{
    const dao_block_entry_t *entry = dao_block_map_find(blocks, piece->address);
    return entry != NULL ? entry : dao_block_map_around(blocks, piece->address + piece->size_bytes - 1);
}

/* Shows a piece with its block, or NULL. What an alignment has cost lies before the block, and is shown as a
   free one: blocks of a segment follow each other, and fill it. */
static void show_placed(const placed_walk_t *walk, const dao_placed_t *placed, const dao_block_entry_t *entry)
{
    size_t free_bytes =
        entry == NULL ? placed->piece.size_bytes : (size_t)(entry->address - placed->piece.address);
    if (free_bytes > 0) {
        dao_block_t hole = {.address = placed->piece.address,
                            .block_bytes = free_bytes,
                            .state = DAO_BLOCK_STATE_FREE,
                            .begins_segment = placed->begins_segment};
        walk->visit(&hole, walk->user);
    }
    if (entry != NULL) {
        dao_block_t block = describe(entry);
        block.block_bytes -= free_bytes;
        block.begins_segment = placed->begins_segment && free_bytes == 0;
        walk->visit(&block, walk->user);
    }
}

static void visit_placed(const dao_placed_t *placed, void *user)
{
    const placed_walk_t *walk = user;
    show_placed(walk, placed, placed->is_used ? entry_of(&walk->strategy->blocks, &placed->piece) : NULL);
}

/* Shows live blocks whose pieces are segments of their own. */
static void show_alone_locked(const placed_walk_t *walk)
{
    const dao_block_map_t *blocks = &walk->strategy->blocks;
    for (size_t i = 0; i < blocks->capacity; i++) {
        const dao_block_entry_t *entry = &blocks->entries[i];
        if (entry->address != NULL) {
            dao_placed_t placed = {.piece = entry->piece, .is_used = true, .begins_segment = true};
            show_placed(walk, &placed, entry);
        }
    }
}

static void strategy_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    strategy_t *strategy = strategy_of(allocator);
    placed_walk_t walk = {.strategy = strategy, .visit = visit, .user = user};
    dao_mutex_lock(&strategy->lock);
    if (!strategy->placer->ops->walks_used) {
        show_alone_locked(&walk);
    }
    strategy->placer->ops->walk(strategy->placer, visit_placed, &walk);
    dao_mutex_unlock(&strategy->lock);
}

static bool strategy_is_valid(dao_allocator_t *allocator)
{
    strategy_t *strategy = strategy_of(allocator);
    dao_mutex_lock(&strategy->lock);
    bool is_valid = is_valid_locked(strategy);
    dao_mutex_unlock(&strategy->lock);
    return is_valid;
}

static void strategy_free_deferred(dao_allocator_t *allocator, void *address, dao_block_owner_t owner)
{
    dao_free_queue_push(&strategy_of(allocator)->queue, address, owner);
}

static void strategy_drain(dao_allocator_t *allocator)
{
    strategy_t *strategy = strategy_of(allocator);
    unlock_and_report(strategy, lock_and_drain(strategy));
}

static void strategy_destroy(dao_allocator_t *allocator)
{
    strategy_t *strategy = strategy_of(allocator);
    for (size_t i = 0; i < strategy->blocks.capacity; i++) {
        if (strategy->blocks.entries[i].address != NULL) {
            (void)strategy->placer->ops->give(strategy->placer, &strategy->blocks.entries[i].piece);
        }
    }
    strategy->placer->ops->destroy(strategy->placer);
    dao_block_map_finish(&strategy->blocks);
    dao_free_queue_finish(&strategy->queue);
    dao_ledger_finish(&strategy->ledger);
    dao_mutex_finish(&strategy->lock);
    dao_host_free(strategy);
}

static const dao_allocator_ops_t strategy_ops = {
    .alloc = strategy_alloc,
    .alloc_fast = dao_allocator_alloc_fallback,
    .free_fast = dao_allocator_free_fallback,
    .free = strategy_free,
    .free_owned = strategy_free_owned,
    .query = strategy_query,
    .trim = strategy_trim,
    .limit_set = strategy_limit_set,
    .used_get = strategy_used_get,
    .stats_get = strategy_stats_get,
    .stats_reset_peaks = strategy_stats_reset_peaks,
    .walk = strategy_walk,
    .walk_all = strategy_walk_all,
    .is_valid = strategy_is_valid,
    .destroy = strategy_destroy,
    .free_deferred = strategy_free_deferred,
    .drain = strategy_drain,
    .retire = strategy_retire,
    .reclaim = strategy_reclaim,
    .reuse = strategy_reuse,
};

/* ---- create ---- */

/* Makes an empty allocator what its config says. */
static dao_status_t strategy_start(strategy_t *strategy, const dao_strategy_config_t *config)
{
    dao_status_t status = dao_ledger_init(&strategy->ledger, config->name);
    if (status != DAO_OK) {
        return status;
    }
    strategy->ledger.stats.limit_bytes = config->limit_bytes;
    strategy->ledger.capacity_bytes = config->capacity_bytes;
    strategy->ledger.budget = config->budget;
    status = dao_free_queue_reserve(&strategy->queue, 0);
    if (status == DAO_OK && config->initial_bytes != 0) {
        DAO_ASSERT(strategy->placer->ops->start != NULL);
        status = strategy->placer->ops->start(strategy->placer, config->initial_bytes);
    }
    return status;
}

dao_status_t dao_strategy_create(const dao_strategy_config_t *config, dao_placer_t *placer,
                                 dao_allocator_t **out_allocator)
{
    DAO_ASSERT(dao_is_power_of_two(config->alignment_bytes) && config->alignment_bytes >= 64);
    strategy_t *strategy = dao_host_calloc(1, sizeof(*strategy));
    if (strategy == NULL) {
        placer->ops->destroy(placer);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    strategy->ops = strategy_ops;
    strategy->ops.name = placer->ops->name;
    strategy->base = (dao_allocator_t){.ops = &strategy->ops, .ledger = &strategy->ledger};
    strategy->placer = placer;
    strategy->supply = (dao_supply_t){.upstream = config->upstream,
                                      .full_status = config->full_status,
                                      .alignment_bytes = config->alignment_bytes,
                                      .ledger = &strategy->ledger,
                                      .placer = placer};
    placer->supply = &strategy->supply;
    dao_mutex_init(&strategy->lock, DAO_RANK_ALLOCATOR);
    dao_free_queue_init(&strategy->queue);
    dao_status_t status = strategy_start(strategy, config);
    if (status != DAO_OK) {
        strategy_destroy(&strategy->base);
        return status;
    }
    DAO_ASSERT_HEAVY(strategy_is_valid(&strategy->base));
    *out_allocator = &strategy->base;
    return DAO_OK;
}
