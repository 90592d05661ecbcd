/* SPDX-License-Identifier: Apache-2.0 */
/* Leases in front of an allocator that has none, and stream order where it has none either.

                      ┌───────────────── reuse: a request that gets just such a block ────────────────┐
                      v                                                                               │
       alloc ──> live block ──free, behind a fence or of a lease──> retired: in waiting[] ──────────────┤
                      │                                                                               v
                      └──free──> the allocator behind  <──────── reclaimed: fence done, no lease ─── settle

   Of live blocks only those are known here that a stream was recorded on (`marked`: the streams, as bits) or
   that a lease has (`leased`: the lease's id). A block that is retired is live for the allocator behind,
   whose table says that it is none for its owner: so a second free, a query and all counters need nothing of
   this layer.

   An allocator behind that follows streams itself is asked for that: it places a request in a part of what a
   stream may still use, which is more than to reuse a whole block. Then only blocks of leases are known here,
   and wait here, with the streams marked on them.

   What holds between calls:

       waiting_capacity >= waiting_count + marked.count + leased.count + in_hand_count, so that a free never
           needs memory
       marked and leased have room for those blocks in hand that came out of them, or go into them
       known_count == marked.count + leased.count

   A call takes a block out of these tables, calls the allocator behind without the lock, and puts the block
   where it belongs then. The allocator behind may wait, as a hardened one does for the device. in_hand_count
   is the number of such blocks. A lease is known by an id that is never used again, so that nothing has to be
   looked for when it ends. */
#include "allocators/layers/stream_ordered.h"

#include "allocators/accounting/block_map.h"
#include "allocators/accounting/ledger.h"
#include "allocators/front.h"
#include "allocators/layers/inner.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

#define WAITING_MIN 64u

/* Blocks that wait and are offered to the allocator behind for one request, the best first: each costs a look
   at all that wait. */
#define REUSE_OFFER_MAX 8u

/* A block that was retired. */
typedef struct waiting {
    char *address;
    size_t requested_bytes; /* of the request that it was freed by */
    size_t block_bytes;
    dao_stream_fence_t fence;
    uint64_t lease_id; /* it stays as long as that lasts; 0: none */
} waiting_t;

typedef struct ordered {
    dao_allocator_t base;
    dao_allocator_t *inner; /* owned */
    dao_allocator_ops_t ops;
    dao_stream_fences_t *fences;
    bool follows_streams; /* the allocator behind does */

    dao_mutex_t lock;
    dao_block_map_t marked; /* the word of an entry is the set of streams */
    dao_block_map_t leased; /* the word of an entry is the lease's id */
    waiting_t *waiting;
    size_t waiting_capacity;
    size_t in_hand_count;
    uint64_t lease_ids[DAO_STREAM_ORDERED_LEASE_MAX]; /* by number - 1; 0: no lease */
    uint64_t lease_serial;                            /* of the latest one */
    uint64_t failed_count;                            /* requests that failed here */
    _Atomic size_t waiting_count;                     /* written with the lock, as the next one */
    _Atomic size_t known_count;
} stream_ordered_t;
DAO_FRONT_ASSERT(stream_ordered_t);

/* A live block that a free has taken out of the tables. */
typedef struct claim {
    void *address;
    uint64_t marks;    /* 0: it was not marked */
    uint64_t lease_id; /* 0: it was not leased, or its lease has ended */
} claim_t;

static stream_ordered_t *stream_ordered_of(dao_allocator_t *allocator)
{
    return (stream_ordered_t *)allocator;
}

/* ---- the tables, with the lock ---- */

static size_t waiting_count_of(const stream_ordered_t *ordered)
{
    return atomic_load_explicit(&ordered->waiting_count, memory_order_relaxed);
}

static void count_known_locked(stream_ordered_t *ordered)
{
    atomic_store_explicit(&ordered->known_count, ordered->marked.count + ordered->leased.count,
                          memory_order_relaxed);
}

static bool is_valid_locked(const stream_ordered_t *ordered)
{
    size_t known_count = ordered->marked.count + ordered->leased.count;
    return dao_block_map_is_valid(&ordered->marked) && dao_block_map_is_valid(&ordered->leased) &&
           ordered->waiting_capacity >= waiting_count_of(ordered) + known_count + ordered->in_hand_count &&
           atomic_load(&ordered->known_count) == known_count;
}

static void lock(stream_ordered_t *ordered)
{
    dao_mutex_lock(&ordered->lock);
    DAO_ASSERT_HEAVY(is_valid_locked(ordered));
}

static void unlock(stream_ordered_t *ordered)
{
    DAO_ASSERT_HEAVY(is_valid_locked(ordered));
    dao_mutex_unlock(&ordered->lock);
}

/* Makes room for one more block that may come to wait, in `map` too unless that is NULL; false without
   memory. */
static bool reserve_locked(stream_ordered_t *ordered, dao_block_map_t *map)
{
    size_t needed = waiting_count_of(ordered) + ordered->marked.count + ordered->leased.count +
                    ordered->in_hand_count + 1;
    if (needed > ordered->waiting_capacity) {
        size_t capacity = ordered->waiting_capacity * 2 + WAITING_MIN;
        waiting_t *waiting = dao_host_realloc(ordered->waiting, capacity, sizeof(*waiting));
        if (waiting == NULL) {
            return false;
        }
        ordered->waiting = waiting;
        ordered->waiting_capacity = capacity;
    }
    return map == NULL || dao_block_map_reserve(map, ordered->in_hand_count + 1);
}

/* Notes a block in a map for which there is room. */
static void note_locked(stream_ordered_t *ordered, dao_block_map_t *map, void *address, uint64_t word,
                        size_t block_bytes)
{
    DAO_ASSERT(word != 0);
    dao_block_entry_t *stale =
        dao_block_map_find(map, address); /* of a block that went without a free here */
    if (stale != NULL) {
        dao_block_map_erase(map, stale);
    }
    dao_block_entry_t entry = {.address = address, .word = word, .piece = {address, block_bytes}};
    dao_block_map_insert(map, &entry);
    count_known_locked(ordered);
}

/* Takes a block out of a map; returns its word, or 0. */
static uint64_t forget_locked(stream_ordered_t *ordered, dao_block_map_t *map, const void *address)
{
    dao_block_entry_t *entry = dao_block_map_find(map, address);
    uint64_t word = entry != NULL ? entry->word : 0;
    if (entry != NULL) {
        dao_block_map_erase(map, entry);
        count_known_locked(ordered);
    }
    return word;
}

static bool lease_lasts_locked(const stream_ordered_t *ordered, uint64_t lease_id)
{
    return lease_id != 0 && ordered->lease_ids[lease_id % DAO_STREAM_ORDERED_LEASE_MAX] == lease_id;
}

/* Takes a block that waits into this call's hands. */
static waiting_t pick_locked(stream_ordered_t *ordered, size_t index)
{
    DAO_ASSERT(index < waiting_count_of(ordered));
    waiting_t picked = ordered->waiting[index];
    size_t last = waiting_count_of(ordered) - 1;
    ordered->waiting[index] = ordered->waiting[last];
    atomic_store_explicit(&ordered->waiting_count, last, memory_order_relaxed);
    ordered->in_hand_count++;
    return picked;
}

/* Lets a block out of this call's hands wait. */
static void put(stream_ordered_t *ordered, const waiting_t *block)
{
    lock(ordered);
    DAO_ASSERT(ordered->in_hand_count > 0);
    ordered->in_hand_count--;
    size_t count = waiting_count_of(ordered);
    DAO_ASSERT(count < ordered->waiting_capacity);
    ordered->waiting[count] = *block;
    atomic_store_explicit(&ordered->waiting_count, count + 1, memory_order_relaxed);
    unlock(ordered);
}

/* A block is in this call's hands no more, and none of the tables has it. */
static void drop(stream_ordered_t *ordered)
{
    lock(ordered);
    DAO_ASSERT(ordered->in_hand_count > 0);
    ordered->in_hand_count--;
    unlock(ordered);
}

/* ---- what waits ---- */

/* Takes a block that waits for nobody any more into this call's hands, the last of the first *count. Sets it
   to the number of those before it, 0 if there is none. */
static bool pick_done(stream_ordered_t *ordered, size_t *count, waiting_t *out_block)
{
    bool is_found = false;
    lock(ordered);
    size_t index = *count < waiting_count_of(ordered) ? *count : waiting_count_of(ordered);
    while (!is_found && index > 0) {
        const waiting_t *block = &ordered->waiting[--index];
        is_found = !lease_lasts_locked(ordered, block->lease_id) &&
                   dao_stream_fences_is_done(ordered->fences, &block->fence);
    }
    if (is_found) {
        *out_block = pick_locked(ordered, index);
    }
    unlock(ordered);
    *count = index;
    return is_found;
}

/* Releases what waits for nobody any more; `polls`: asks the backend's events before. What the allocator
   behind refuses to take back waits on. */
static void settle(stream_ordered_t *ordered, bool polls)
{
    size_t count = waiting_count_of(ordered);
    if (count == 0) {
        return;
    }
    dao_error_record_t record; /* what fails here is not this caller's error */
    dao_error_save(&record, dao_last_status());
    if (polls) {
        (void)dao_stream_fences_poll(
            ordered->fences); /* it may be news to another allocator's blocks alone */
    }
    waiting_t block;
    while (pick_done(ordered, &count, &block)) {
        if (ordered->inner->ops->reclaim(ordered->inner, block.address) == DAO_OK) {
            drop(ordered);
        } else {
            put(ordered, &block);
        }
    }
    (void)dao_error_restore(&record);
}

/* Returns true if a request may have a block that waits, as far as streams and leases go. */
static bool may_have_locked(const stream_ordered_t *ordered, const waiting_t *block,
                            const dao_block_request_t *request, uint64_t lease_id, bool takes_fenced)
{
    uint64_t lasting_id = lease_lasts_locked(ordered, block->lease_id) ? block->lease_id : 0;
    bool is_ready = dao_stream_fence_is_own(&block->fence, dao_block_request_order(request)) ||
                    (takes_fenced && dao_block_request_takes_fenced(request)) ||
                    dao_stream_fences_is_done(ordered->fences, &block->fence);
    return lasting_id == lease_id && is_ready;
}

/* Returns true if a block that waits holds a request where it lies. */
static bool fits_request(const waiting_t *block, const dao_block_request_t *request)
{
    return block->block_bytes >= request->size_bytes &&
           (request->alignment_bytes == 0 || (uintptr_t)block->address % request->alignment_bytes == 0);
}

/* The order in which blocks are offered to a request: first those that were asked for by the same size, then
   smaller ones, then lower ones. */
static bool comes_before(const waiting_t *block, const waiting_t *other, size_t size_bytes)
{
    bool is_same = block->requested_bytes == size_bytes;
    if (is_same != (other->requested_bytes == size_bytes)) {
        return is_same;
    }
    return block->block_bytes != other->block_bytes ? block->block_bytes < other->block_bytes
                                                    : block->address < other->address;
}

/* Takes the first block to be offered to a request into this call's hands, of those behind `refused` unless
   that is NULL. */
static bool pick_fitting(stream_ordered_t *ordered, const dao_block_request_t *request, uint64_t lease_id,
                         bool takes_fenced, const waiting_t *refused, waiting_t *out_block)
{
    lock(ordered);
    size_t count = waiting_count_of(ordered), best = count;
    for (size_t i = 0; i < count; i++) {
        const waiting_t *block = &ordered->waiting[i];
        bool is_left = refused == NULL || comes_before(refused, block, request->size_bytes);
        if (is_left && fits_request(block, request) &&
            (best == count || comes_before(block, &ordered->waiting[best], request->size_bytes)) &&
            may_have_locked(ordered, block, request, lease_id, takes_fenced)) {
            best = i;
        }
    }
    if (best < count) {
        *out_block = pick_locked(ordered, best);
    }
    unlock(ordered);
    return best < count;
}

/* Serves a request with a block that waits; false if none suits. The allocator behind knows which are as it
   would give them. */
static bool reuse(stream_ordered_t *ordered, const dao_block_request_t *request, uint64_t lease_id,
                  bool takes_fenced, dao_block_grant_t *out_grant)
{
    waiting_t block, last;
    const waiting_t *refused = NULL;
    bool takes_order = dao_block_request_order(request) != 0;
    for (uint32_t i = 0; i < REUSE_OFFER_MAX && waiting_count_of(ordered) > 0; i++) {
        if (!pick_fitting(ordered, request, lease_id, takes_fenced, refused, &block)) {
            return false;
        }
        if (ordered->inner->ops->reuse(ordered->inner, block.address, request) == DAO_OK) {
            DAO_ASSERT(fits_request(&block, request));
            drop(ordered);
            *out_grant = (dao_block_grant_t){.address = block.address,
                                             .fence = takes_order ? block.fence : (dao_stream_fence_t){0}};
            return true;
        }
        put(ordered, &block);
        last = block;
        refused = &last;
    }
    return false;
}

/* ---- alloc ---- */

static dao_status_t serve(stream_ordered_t *ordered, const dao_block_request_t *request, uint64_t lease_id,
                          dao_block_grant_t *out_grant)
{
    bool takes_order = dao_block_request_order(request) != 0;
    if ((takes_order || lease_id != 0) && reuse(ordered, request, lease_id, false, out_grant)) {
        return DAO_OK;
    }
    settle(ordered, lease_id == 0);
    dao_allocator_t *inner = ordered->inner;
    dao_status_t status = inner->ops->alloc(inner, request, out_grant);
    if (dao_allocator_is_short(status) && reuse(ordered, request, lease_id, true, out_grant)) {
        atomic_fetch_add(&inner->ledger->cured_count, 1);
        return DAO_OK;
    }
    return status;
}

/* Makes room for one more block of a lease, and gives the lease's id. */
static dao_status_t lease_promise(stream_ordered_t *ordered, const dao_block_request_t *request,
                                  uint64_t *out_id)
{
    lock(ordered);
    *out_id = ordered->lease_ids[request->lease - 1];
    DAO_ASSERT(*out_id != 0);
    bool has_room = reserve_locked(ordered, &ordered->leased);
    ordered->in_hand_count += has_room;
    ordered->failed_count += !has_room;
    unlock(ordered);
    return has_room ? DAO_OK
                    : dao_error(DAO_ERR_NO_HOST_MEMORY,
                                "%s: %zu bytes asked for; no host memory for the table of a lease's blocks",
                                ordered->inner->ledger->name, request->size_bytes);
}

static dao_status_t alloc_leased(stream_ordered_t *ordered, const dao_block_request_t *request,
                                 dao_block_grant_t *out_grant)
{
    uint64_t lease_id;
    dao_status_t status = lease_promise(ordered, request, &lease_id);
    if (status != DAO_OK) {
        return status;
    }
    dao_block_t block = {0};
    status = serve(ordered, request, lease_id, out_grant);
    if (status == DAO_OK) {
        status = ordered->inner->ops->query(ordered->inner, out_grant->address, &block);
        DAO_ASSERT(status == DAO_OK);
    }
    lock(ordered);
    DAO_ASSERT(ordered->in_hand_count > 0);
    ordered->in_hand_count--;
    if (status == DAO_OK) {
        note_locked(ordered, &ordered->leased, block.address, lease_id, block.block_bytes);
    }
    unlock(ordered);
    return status;
}

static dao_status_t stream_ordered_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                         dao_block_grant_t *out_grant)
{
    stream_ordered_t *ordered = stream_ordered_of(allocator);
    if (request->lease != 0) {
        DAO_ASSERT(request->lease <= DAO_STREAM_ORDERED_LEASE_MAX);
        return alloc_leased(ordered, request, out_grant);
    }
    return waiting_count_of(ordered) == 0 ? ordered->inner->ops->alloc(ordered->inner, request, out_grant)
                                          : serve(ordered, request, 0, out_grant);
}

/* Where nothing waits, this layer has nothing for a request. */
static void *stream_ordered_alloc_fast(dao_allocator_t *allocator, size_t size_bytes)
{
    stream_ordered_t *ordered = stream_ordered_of(allocator);
    return waiting_count_of(ordered) == 0 ? ordered->inner->ops->alloc_fast(ordered->inner, size_bytes)
                                          : dao_allocator_alloc_fallback(allocator, size_bytes);
}

/* ---- free ---- */

/* Takes a block out of the tables, into this call's hands; false without memory to let it wait. */
static bool claim_begin(stream_ordered_t *ordered, void *address, claim_t *out_claim)
{
    lock(ordered);
    uint64_t marks = forget_locked(ordered, &ordered->marked, address);
    uint64_t lease_id = forget_locked(ordered, &ordered->leased, address);
    bool has_room = marks != 0 || lease_id != 0 || reserve_locked(ordered, NULL);
    ordered->in_hand_count += has_room;
    *out_claim = (claim_t){
        .address = address, .marks = marks, .lease_id = lease_lasts_locked(ordered, lease_id) ? lease_id : 0};
    unlock(ordered);
    return has_room;
}

/* Ends a claim whose block has not been freed: all is as it was. */
static void claim_cancel(stream_ordered_t *ordered, const claim_t *claim)
{
    dao_block_t block;
    bool is_live = ordered->inner->ops->query(ordered->inner, claim->address, &block) == DAO_OK &&
                   block.address == claim->address;
    lock(ordered);
    DAO_ASSERT(ordered->in_hand_count > 0);
    ordered->in_hand_count--;
    if (is_live && claim->marks != 0) {
        note_locked(ordered, &ordered->marked, claim->address, claim->marks, block.block_bytes);
    }
    if (is_live && claim->lease_id != 0) {
        note_locked(ordered, &ordered->leased, claim->address, claim->lease_id, block.block_bytes);
    }
    unlock(ordered);
}

/* Returns true if a free goes to the allocator behind at once: no stream uses the block, or it is left to
   that one. */
static bool goes_behind(const stream_ordered_t *ordered, const claim_t *claim,
                        const dao_stream_fence_t *fence)
{
    bool waits = fence != NULL && !dao_stream_fence_is_empty(fence);
    return claim->lease_id == 0 && (!waits || (ordered->follows_streams && claim->marks == 0));
}

/* Frees a block behind: a fence is for one that follows streams. */
static dao_status_t free_behind(stream_ordered_t *ordered, void *address, dao_stream_fence_t *fence,
                                dao_block_owner_t owner)
{
    return ordered->inner->ops->free_owned(ordered->inner, address, ordered->follows_streams ? fence : NULL,
                                           owner);
}

/* Frees a claimed block, or lets it wait for `fence` (NULL: nobody) and its lease. */
static dao_status_t free_claimed(stream_ordered_t *ordered, const claim_t *claim, dao_stream_fence_t *fence,
                                 dao_block_owner_t owner)
{
    dao_allocator_t *inner = ordered->inner;
    if (goes_behind(ordered, claim, fence)) {
        dao_status_t status = free_behind(ordered, claim->address, fence, owner);
        if (status == DAO_OK) {
            drop(ordered);
        }
        return status;
    }
    dao_block_t block;
    dao_status_t status = inner->ops->retire(inner, claim->address, owner, &block);
    if (status == DAO_OK) {
        waiting_t waiting = {.address = claim->address,
                             .requested_bytes = block.requested_bytes,
                             .block_bytes = block.block_bytes,
                             .fence = fence != NULL ? *fence : (dao_stream_fence_t){0},
                             .lease_id = claim->lease_id};
        put(ordered, &waiting);
    }
    return status;
}

static dao_status_t stream_ordered_free_owned(dao_allocator_t *allocator, void *address,
                                              dao_stream_fence_t *fence, dao_block_owner_t owner)
{
    stream_ordered_t *ordered = stream_ordered_of(allocator);
    bool waits = fence != NULL && !dao_stream_fence_is_empty(fence);
    bool is_left_behind = !waits || ordered->follows_streams;
    if (is_left_behind && atomic_load_explicit(&ordered->known_count, memory_order_relaxed) == 0) {
        return free_behind(ordered, address, fence, owner);
    }
    claim_t claim;
    if (!claim_begin(ordered, address, &claim)) { /* it is in no table */
        return is_left_behind
                   ? free_behind(ordered, address, fence, owner)
                   : dao_error(DAO_ERR_UNSUPPORTED, "%s: no host memory to let the block at %p wait",
                               ordered->inner->ledger->name, address);
    }
    if (fence != NULL) {
        fence->streams |= claim.marks;
    }
    dao_status_t status = free_claimed(ordered, &claim, fence, owner);
    if (status != DAO_OK) {
        dao_error_record_t record;
        dao_error_save(&record, status);
        claim_cancel(ordered, &claim);
        return dao_error_restore(&record);
    }
    return DAO_OK;
}

static dao_status_t stream_ordered_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence)
{
    return stream_ordered_free_owned(allocator, address, fence, DAO_BLOCK_OWNER_RAW);
}

/* Where no block is known here, frees that wait for nothing are the inner allocator's. */
static dao_status_t stream_ordered_free_fast(dao_allocator_t *allocator, void *address)
{
    stream_ordered_t *ordered = stream_ordered_of(allocator);
    return atomic_load_explicit(&ordered->known_count, memory_order_relaxed) == 0
               ? ordered->inner->ops->free_fast(ordered->inner, address)
               : dao_allocator_free_fallback(allocator, address);
}

/* Returns true if a live block was allocated under a lease, which may have ended. */
static bool is_leased(stream_ordered_t *ordered, const void *address)
{
    if (atomic_load_explicit(&ordered->known_count, memory_order_relaxed) == 0) {
        return false;
    }
    lock(ordered);
    bool is_leased = dao_block_map_find(&ordered->leased, address) != NULL;
    unlock(ordered);
    return is_leased;
}

static dao_status_t stream_ordered_stream_mark(dao_allocator_t *allocator, void *address, uint32_t stream)
{
    stream_ordered_t *ordered = stream_ordered_of(allocator);
    DAO_ASSERT(stream > 0 && stream <= DAO_STREAM_FENCE_STREAM_MAX);
    if (ordered->follows_streams && !is_leased(ordered, address)) {
        return ordered->inner->ops->stream_mark(ordered->inner, address, stream);
    }
    dao_block_t block;
    dao_status_t status = ordered->inner->ops->query(ordered->inner, address, &block);
    if (status != DAO_OK) {
        return status;
    }
    if (block.address != address || block.stream == 0) {
        status = block.address != address ? DAO_ERR_INTERIOR_POINTER : DAO_ERR_UNSUPPORTED;
        return dao_ledger_check_query(ordered->inner->ledger, status, address);
    }
    lock(ordered);
    dao_block_entry_t *entry = dao_block_map_find(&ordered->marked, address);
    bool has_room = entry != NULL || reserve_locked(ordered, &ordered->marked);
    if (entry != NULL) {
        entry->word |= UINT64_C(1) << stream;
    } else if (has_room) {
        note_locked(ordered, &ordered->marked, address, UINT64_C(1) << stream, block.block_bytes);
    }
    unlock(ordered);
    return has_room
               ? DAO_OK
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory to note a stream of the block at %p",
                           ordered->inner->ledger->name, address);
}

/* ---- leases ---- */

static dao_status_t stream_ordered_lease_begin(dao_allocator_t *allocator, uint32_t *out_lease)
{
    stream_ordered_t *ordered = stream_ordered_of(allocator);
    uint32_t slot = 0;
    lock(ordered);
    while (slot < DAO_STREAM_ORDERED_LEASE_MAX && ordered->lease_ids[slot] != 0) {
        slot++;
    }
    if (slot < DAO_STREAM_ORDERED_LEASE_MAX) {
        ordered->lease_ids[slot] = ++ordered->lease_serial * DAO_STREAM_ORDERED_LEASE_MAX + slot;
        *out_lease = slot + 1;
    }
    unlock(ordered);
    return slot < DAO_STREAM_ORDERED_LEASE_MAX
               ? DAO_OK
               : dao_error(DAO_ERR_TOO_MANY, "%s: there are %u leases; release leases",
                           ordered->inner->ledger->name, DAO_STREAM_ORDERED_LEASE_MAX);
}

static void stream_ordered_lease_end(dao_allocator_t *allocator, uint32_t lease)
{
    stream_ordered_t *ordered = stream_ordered_of(allocator);
    lock(ordered);
    DAO_ASSERT(ordered->lease_ids[lease - 1] != 0);
    ordered->lease_ids[lease - 1] = 0;
    unlock(ordered);
    settle(ordered, true);
}

static void stream_ordered_lease_stats(dao_allocator_t *allocator, uint32_t lease,
                                       dao_block_lease_stats_t *out_stats)
{
    stream_ordered_t *ordered = stream_ordered_of(allocator);
    dao_block_lease_stats_t stats = {0};
    lock(ordered);
    uint64_t lease_id = ordered->lease_ids[lease - 1];
    for (size_t i = 0; i < ordered->leased.capacity; i++) {
        const dao_block_entry_t *entry = &ordered->leased.entries[i];
        if (entry->address != NULL && entry->word == lease_id) {
            stats.used_bytes += entry->piece.size_bytes;
            stats.live_count++;
        }
    }
    stats.held_bytes = stats.used_bytes;
    for (size_t i = 0; i < waiting_count_of(ordered); i++) {
        const waiting_t *block = &ordered->waiting[i];
        stats.held_bytes += block->lease_id == lease_id ? block->block_bytes : 0;
    }
    unlock(ordered);
    *out_stats = stats;
}

/* ---- what the allocator behind answers ---- */

static dao_status_t stream_ordered_trim(dao_allocator_t *allocator, size_t keep_bytes,
                                        size_t *out_released_bytes)
{
    stream_ordered_t *ordered = stream_ordered_of(allocator);
    dao_allocator_t *inner = ordered->inner;
    uint64_t before_bytes = dao_inner_reserved_bytes(inner);
    settle(ordered, true);
    return dao_inner_trim(inner, before_bytes, keep_bytes, out_released_bytes);
}

static dao_status_t stream_ordered_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    stream_ordered_t *ordered = stream_ordered_of(allocator);
    settle(ordered, true);
    return ordered->inner->ops->limit_set(ordered->inner, limit_bytes);
}

static void stream_ordered_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    stream_ordered_t *ordered = stream_ordered_of(allocator);
    ordered->inner->ops->stats_get(ordered->inner, out_stats);
    lock(ordered);
    out_stats->failed_count += ordered->failed_count;
    unlock(ordered);
}

static void stream_ordered_free_deferred(dao_allocator_t *allocator, void *address, dao_block_owner_t owner)
{
    dao_allocator_t *inner = stream_ordered_of(allocator)->inner;
    inner->ops->free_deferred(inner, address, owner);
}

static void stream_ordered_drain(dao_allocator_t *allocator)
{
    dao_allocator_t *inner = stream_ordered_of(allocator)->inner;
    inner->ops->drain(inner);
}

static bool stream_ordered_is_valid(dao_allocator_t *allocator)
{
    stream_ordered_t *ordered = stream_ordered_of(allocator);
    dao_mutex_lock(&ordered->lock);
    bool is_valid = is_valid_locked(ordered);
    dao_mutex_unlock(&ordered->lock);
    return is_valid && ordered->inner->ops->is_valid(ordered->inner);
}

static void stream_ordered_destroy(dao_allocator_t *allocator)
{
    stream_ordered_t *ordered = stream_ordered_of(allocator);
    dao_allocator_t *inner = ordered->inner;
    for (size_t i = 0; i < waiting_count_of(ordered);
         i++) { /* a hardened one looks at each for the last time */
        (void)inner->ops->reclaim(inner, ordered->waiting[i].address); /* else it goes with all the rest */
    }
    inner->ops->destroy(inner);
    dao_block_map_finish(&ordered->marked);
    dao_block_map_finish(&ordered->leased);
    dao_host_free(ordered->waiting);
    dao_mutex_finish(&ordered->lock);
    dao_host_free(ordered);
}

static const dao_allocator_ops_t stream_ordered_ops = {
    .alloc = stream_ordered_alloc,
    .alloc_fast = stream_ordered_alloc_fast,
    .free_fast = stream_ordered_free_fast,
    .free = stream_ordered_free,
    .free_owned = stream_ordered_free_owned,
    .trim = stream_ordered_trim,
    .limit_set = stream_ordered_limit_set,
    .stats_get = stream_ordered_stats_get,
    .is_valid = stream_ordered_is_valid,
    .destroy = stream_ordered_destroy,
    .free_deferred = stream_ordered_free_deferred,
    .drain = stream_ordered_drain,
};

dao_status_t dao_stream_ordered_create(dao_stream_fences_t *fences, dao_allocator_t *inner,
                                       dao_allocator_t **out_allocator)
{
    DAO_ASSERT(inner->ops->retire != NULL && inner->ops->lease_begin == NULL);
    stream_ordered_t *ordered = dao_host_calloc(1, sizeof(*ordered));
    if (ordered == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", inner->ledger->name);
    }
    ordered->ops = stream_ordered_ops;
    ordered->ops.name = inner->ops->name;
    dao_front_init((dao_front_t *)ordered, inner, &ordered->ops);
    /* what the allocator behind need not have */
    ordered->ops.stream_mark = stream_ordered_stream_mark;
    ordered->ops.lease_begin = stream_ordered_lease_begin;
    ordered->ops.lease_end = stream_ordered_lease_end;
    ordered->ops.lease_stats = stream_ordered_lease_stats;
    ordered->fences = fences;
    ordered->follows_streams = inner->ops->stream_mark != NULL;
    dao_mutex_init(&ordered->lock, DAO_RANK_LEAF);
    *out_allocator = &ordered->base;
    return DAO_OK;
}

dao_allocator_t *dao_stream_ordered_behind(dao_allocator_t *allocator)
{
    return allocator->ops->alloc == stream_ordered_alloc ? stream_ordered_of(allocator)->inner : allocator;
}
