/* SPDX-License-Identifier: Apache-2.0 */
/* Hardening around another allocator.

       inner block   [ bytes of the caller | rounding | guard ]
                       junk when new, FREED or 0 when freed
                                           GUARD from alloc to the end of the quarantine

       alloc ──> LIVE ──> FREEING ──> back to inner
                  ^ |        |  └──> QUARANTINED (first in first out) ──> LEAVING ──> back to inner
             reuse| |retire └─────────────> DAMAGED <───────────────────────────┘   │
                  | v                                                                │
                RETIRED ─────────────────reclaim───────────────────────────────────┴──> as a free from here on

   A free in two steps (retire, reclaim) may come while work of a stream still uses the block: its guard
   and its bytes are looked at and filled by the second step, and what that finds is logged, as what a
   quarantine finds. A block that is reused keeps bytes and guard as they are.

   Every block of the inner allocator has a descriptor, but for those that a call has in its hands: alloc
   before it has prepared the bytes, free after it has checked them. What holds between calls:

       LIVE, LIVE_CHECKED and FREEING descriptors are the live blocks that ledger.stats counts
       the queue has exactly the QUARANTINED and QUARANTINED_CHECKED ones; quarantined_bytes is their sum
       queue_capacity >= descriptors in use and promised, so that a free never needs memory

   The bytes are reached without the lock, in states that nobody else leaves. Who finds a block in a state
   *_CHECKED waits for its check to end. The inner allocator is called without the lock, too, but for
   questions and walks; its counters are read under it, so that used_bytes <= reserved_bytes holds in one
   answer.

   hardened_bytes.c fills bytes and looks at them, hardened_quarantine.c has the queue of freed blocks, and
   hardened_check.c looks at all blocks. */
#include "allocators/layers/hardened_internal.h"

#include "allocators/layers/inner.h"
#include "base/internal_error.h"
#include "base/log.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

/* ---- alloc ---- */

static dao_status_t reserve(hardened_t *hardened, size_t size_bytes)
{
    dao_mutex_lock(&hardened->lock);
    dao_status_t status = DAO_OK;
    if (!dao_hardened_queue_reserve_locked(hardened) || !dao_descriptors_reserve(&hardened->descriptors)) {
        hardened->ledger.stats.failed_count++;
        status = DAO_ERR_NO_HOST_MEMORY;
    }
    dao_mutex_unlock(&hardened->lock);
    if (status != DAO_OK) {
        dao_stats_t stats;
        hardened->inner->ops->stats_get(hardened->inner, &stats);
        return dao_error(status,
                         "%s: %zu bytes asked for; no host memory for the table of blocks; largest hole %zu",
                         hardened->ledger.name, size_bytes, (size_t)stats.largest_hole_bytes);
    }
    return DAO_OK;
}

/* Takes a block of the inner allocator, after the quarantine if need be, and prepares its bytes. */
static dao_status_t take_prepared(hardened_t *hardened, const dao_block_request_t *request,
                                  dao_block_t *out_block)
{
    dao_allocator_t *inner = hardened->inner;
    dao_block_request_t padded = {.size_bytes = dao_hardened_padded_bytes(hardened, request->size_bytes),
                                  .alignment_bytes = request->alignment_bytes};
    dao_block_grant_t grant;
    dao_status_t status = inner->ops->alloc(inner, &padded, &grant);
    if (dao_allocator_is_short(status) && dao_hardened_quarantine_shrink(hardened, 0) > 0) {
        status = inner->ops->alloc(inner, &padded, &grant);
    }
    if (status != DAO_OK) {
        return status;
    }
    status = dao_hardened_bytes_prepare(hardened, grant.address, request->size_bytes);
    if (status == DAO_OK) {
        status = inner->ops->query(inner, grant.address, out_block);
    }
    if (status == DAO_OK) {
        status = dao_ledger_charge(&hardened->ledger, request, out_block->block_bytes);
    }
    if (status != DAO_OK) {
        dao_error_record_t record;
        dao_error_save(&record, status);
        DAO_MUST_FREE(dao_allocator_free(inner, grant.address)); /* it was taken just now */
        return dao_error_restore(&record);
    }
    return DAO_OK;
}

static dao_status_t hardened_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                   dao_block_grant_t *out_grant)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    DAO_ASSERT(request->size_bytes > 0);
    dao_status_t status = reserve(hardened, request->size_bytes);
    if (status != DAO_OK) {
        return status;
    }
    dao_block_t block;
    status = take_prepared(hardened, request, &block);
    dao_mutex_lock(&hardened->lock);
    if (status == DAO_OK) {
        DAO_ASSERT(block.block_bytes >= dao_hardened_padded_bytes(hardened, request->size_bytes));
        dao_descriptors_insert(&hardened->descriptors, block.address, dao_word_of(request),
                               block.block_bytes);
        dao_stats_count_grow(&hardened->ledger.stats, block.block_bytes);
        dao_ledger_count_alloc(&hardened->ledger, request, block.block_bytes);
    } else {
        dao_descriptors_unreserve(&hardened->descriptors);
        hardened->ledger.stats.failed_count++;
    }
    dao_mutex_unlock(&hardened->lock);
    if (status == DAO_OK) {
        *out_grant = (dao_block_grant_t){.address = block.address};
    }
    return status;
}

/* ---- free ---- */

/* Looks for a free block that starts at an address. */
typedef struct start_search {
    const void *address;
    bool is_found;
} start_search_t;

static void match_free_start(const dao_block_t *block, void *user)
{
    start_search_t *search = user;
    search->is_found |= block->state != DAO_BLOCK_STATE_LIVE && block->address == search->address;
}

/* Tells why no block can be freed at an address without a descriptor. */
static dao_status_t unknown_error_locked(hardened_t *hardened, const void *address, bool met_damage)
{
    dao_allocator_t *inner = hardened->inner;
    dao_block_t block;
    if (inner->ops->query(inner, address, &block) == DAO_OK) {
        if (block.address == address) { /* a call has it in its hands, or its descriptor is not to be found */
            return met_damage ? DAO_ERR_CORRUPT : DAO_ERR_DOUBLE_FREE;
        }
        dao_descriptor_search_t around = dao_descriptors_find(&hardened->descriptors, block.address);
        bool is_live =
            around.descriptor != NULL && around.is_intact && dao_descriptor_is_live(around.descriptor);
        return is_live ? DAO_ERR_INTERIOR_POINTER : DAO_ERR_FOREIGN_POINTER;
    }
    start_search_t search = {.address = address,
                             .is_found = dao_ledger_freed_lately(&hardened->ledger, address)};
    if (!search.is_found) {
        inner->ops->walk_all(inner, match_free_start, &search);
    }
    return search.is_found ? DAO_ERR_DOUBLE_FREE : DAO_ERR_FOREIGN_POINTER;
}

/* Takes a live block into this call's hands. DAO_ERR_CORRUPT and the errors of a wrong free, without a
   message. */
static dao_status_t free_begin(hardened_t *hardened, const void *address, dao_block_owner_t owner,
                               taken_t *out_taken)
{
    dao_mutex_lock(&hardened->lock);
    dao_descriptor_search_t search = dao_hardened_find_locked(hardened, address);
    dao_status_t status = DAO_OK;
    if (search.descriptor == NULL) {
        status = unknown_error_locked(hardened, address, search.met_damage);
    } else if (!search.is_intact) {
        status = DAO_ERR_CORRUPT;
    } else if (search.descriptor->state != DAO_DESCRIPTOR_LIVE) {
        status = DAO_ERR_DOUBLE_FREE;
    } else if (dao_word_owner(search.descriptor->word) != owner) {
        status = DAO_ERR_NOT_YOURS;
    } else {
        *out_taken = dao_hardened_taken_of(search.descriptor);
        dao_descriptors_set_state(search.descriptor, DAO_DESCRIPTOR_FREEING);
    }
    dao_mutex_unlock(&hardened->lock);
    return status;
}

/* Counts a block as freed, in a state. */
static void count_free_locked(hardened_t *hardened, const taken_t *taken, dao_descriptor_state_t state)
{
    dao_hardened_state_set_locked(hardened, taken, state);
    dao_ledger_count_free(&hardened->ledger, taken->address, taken->word, taken->block_bytes);
    dao_stats_count_shrink(&hardened->ledger.stats, taken->block_bytes);
}

/* Puts a block that was counted as freed and has retired bytes into the quarantine, or gives it back. */
static void let_go(hardened_t *hardened, const taken_t *taken)
{
    if (!dao_hardened_has(hardened, DAO_HARDENING_QUARANTINE) ||
        taken->block_bytes > hardened->quarantine_bytes) {
        dao_hardened_give_back(hardened, taken);
        return;
    }
    dao_hardened_quarantine(hardened, taken);
    (void)dao_hardened_quarantine_shrink(hardened, hardened->quarantine_bytes); /* as many as have to go */
}

static dao_status_t free_taken(hardened_t *hardened, const taken_t *taken)
{
    dao_status_t status = dao_hardened_bytes_retire(hardened, taken);
    dao_mutex_lock(&hardened->lock);
    if (status == DAO_OK || status == DAO_ERR_CORRUPT) {
        count_free_locked(hardened, taken,
                          status == DAO_OK ? DAO_DESCRIPTOR_LEAVING : DAO_DESCRIPTOR_DAMAGED);
    } else {
        dao_hardened_state_set_locked(hardened, taken, DAO_DESCRIPTOR_LIVE);
    }
    dao_mutex_unlock(&hardened->lock);
    if (status == DAO_OK) {
        let_go(hardened, taken);
    }
    return status;
}

/* Returns the message of a free that did not find its block. */
static dao_status_t free_error(const hardened_t *hardened, dao_status_t status, const void *address)
{
    return status == DAO_ERR_CORRUPT
               ? dao_error(status, "%s: what is known of the block at %p is damaged; it is kept out of use",
                           hardened->ledger.name, address)
               : dao_ledger_check_free(&hardened->ledger, status, address);
}

static dao_status_t hardened_free_owned(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence,
                                        dao_block_owner_t owner)
{
    DAO_ASSERT(fence == NULL || dao_stream_fence_is_empty(fence));
    (void)fence;
    hardened_t *hardened = dao_hardened_of(allocator);
    taken_t taken;
    dao_status_t status = free_begin(hardened, address, owner, &taken);
    return status == DAO_OK ? free_taken(hardened, &taken) : free_error(hardened, status, address);
}

static dao_status_t hardened_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence)
{
    return hardened_free_owned(allocator, address, fence, DAO_BLOCK_OWNER_RAW);
}

/* ---- frees in two steps ---- */

static dao_block_t describe(const dao_descriptor_t *descriptor)
{
    return (dao_block_t){.address = (void *)(uintptr_t)descriptor->address,
                         .requested_bytes = dao_word_requested_bytes(descriptor->word),
                         .block_bytes = (size_t)descriptor->block_bytes,
                         .tag = dao_word_tag(descriptor->word),
                         .stream = dao_word_stream(descriptor->word),
                         .owner = dao_word_owner(descriptor->word)};
}

static dao_status_t hardened_retire(dao_allocator_t *allocator, void *address, dao_block_owner_t owner,
                                    dao_block_t *out_block)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    taken_t taken;
    dao_status_t status = free_begin(hardened, address, owner, &taken);
    if (status != DAO_OK) {
        return free_error(hardened, status, address);
    }
    dao_mutex_lock(&hardened->lock);
    *out_block = (dao_block_t){.address = address,
                               .requested_bytes = taken.requested_bytes,
                               .block_bytes = taken.block_bytes,
                               .tag = dao_word_tag(taken.word),
                               .stream = dao_word_stream(taken.word),
                               .owner = owner};
    count_free_locked(hardened, &taken, DAO_DESCRIPTOR_RETIRED);
    dao_mutex_unlock(&hardened->lock);
    return DAO_OK;
}

/* Finds the intact descriptor of a block that was retired; NULL if there is none. */
static dao_descriptor_t *find_retired_locked(const hardened_t *hardened, const void *address)
{
    dao_descriptor_search_t search = dao_descriptors_find(&hardened->descriptors, address);
    bool is_retired =
        search.descriptor != NULL && search.is_intact && search.descriptor->state == DAO_DESCRIPTOR_RETIRED;
    return is_retired ? search.descriptor : NULL;
}

static dao_status_t hardened_reclaim(dao_allocator_t *allocator, void *address)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    taken_t taken = {0};
    dao_mutex_lock(&hardened->lock);
    dao_descriptor_t *descriptor = find_retired_locked(hardened, address);
    if (descriptor != NULL) {
        taken = dao_hardened_taken_of(descriptor);
        dao_descriptors_set_state(descriptor, DAO_DESCRIPTOR_LEAVING);
    }
    dao_mutex_unlock(&hardened->lock);
    if (descriptor == NULL) { /* damaged meanwhile: it stays out of use */
        return DAO_OK;
    }
    dao_status_t status = dao_hardened_bytes_retire(hardened, &taken);
    if (status == DAO_OK) {
        let_go(hardened, &taken);
    } else if (status == DAO_ERR_CORRUPT) {
        dao_hardened_keep_damaged(hardened, &taken);
        status = DAO_OK; /* nobody has it any more */
    } else {             /* its bytes cannot be reached now */
        dao_mutex_lock(&hardened->lock);
        dao_hardened_state_set_locked(hardened, &taken, DAO_DESCRIPTOR_RETIRED);
        dao_mutex_unlock(&hardened->lock);
    }
    return status;
}

/* Under a lease alone: elsewhere a block goes through the quarantine first. Only for a request of the same
   size, whose guard is where it was: what was recorded with the address may run at any time, and may write
   all but that. */
static dao_status_t hardened_reuse(dao_allocator_t *allocator, void *address,
                                   const dao_block_request_t *request)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    if (request->lease == 0) {
        return DAO_ERR_LIMIT;
    }
    dao_mutex_lock(&hardened->lock);
    dao_descriptor_t *descriptor = find_retired_locked(hardened, address);
    bool suits = descriptor != NULL && dao_word_requested_bytes(descriptor->word) == request->size_bytes &&
                 (request->alignment_bytes == 0 || (uintptr_t)address % request->alignment_bytes == 0);
    dao_status_t status =
        suits ? dao_ledger_charge(&hardened->ledger, request, descriptor->block_bytes) : DAO_ERR_LIMIT;
    if (status == DAO_OK) {
        dao_descriptors_reuse(descriptor, dao_word_of(request));
        dao_stats_count_grow(&hardened->ledger.stats, (size_t)descriptor->block_bytes);
        dao_ledger_count_alloc(&hardened->ledger, request, (size_t)descriptor->block_bytes);
    }
    dao_mutex_unlock(&hardened->lock);
    return status;
}

/* ---- looking ---- */

static dao_status_t hardened_query(dao_allocator_t *allocator, const void *address, dao_block_t *out_block)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    dao_block_t block;
    dao_mutex_lock(&hardened->lock);
    dao_status_t status = hardened->inner->ops->query(hardened->inner, address, &block);
    if (status == DAO_OK) {
        dao_descriptor_search_t search = dao_descriptors_find(&hardened->descriptors, block.address);
        bool is_live =
            search.descriptor != NULL && search.is_intact && dao_descriptor_is_live(search.descriptor);
        status = is_live ? DAO_OK : DAO_ERR_FOREIGN_POINTER;
        if (is_live) {
            *out_block = describe(search.descriptor);
        }
    }
    dao_mutex_unlock(&hardened->lock);
    return dao_ledger_check_query(&hardened->ledger, status, address);
}

static void hardened_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    const dao_descriptors_t *descriptors = &hardened->descriptors;
    dao_mutex_lock(&hardened->lock);
    for (size_t i = 0; i < descriptors->capacity; i++) {
        const dao_descriptor_t *descriptor = &descriptors->entries[i];
        if (!dao_descriptor_is_empty(descriptor) && dao_descriptor_is_intact(descriptors, descriptor) &&
            dao_descriptor_is_live(descriptor)) {
            dao_block_t block = describe(descriptor);
            visit(&block, user);
        }
    }
    dao_mutex_unlock(&hardened->lock);
}

typedef struct walk {
    const hardened_t *hardened;
    dao_block_visit_t visit;
    void *user;
} walk_t;

/* What is live for the inner allocator is pending, unless it is live here. */
static void walk_inner_block(const dao_block_t *inner_block, void *user)
{
    const walk_t *walk = user;
    dao_block_t block = *inner_block;
    if (block.state == DAO_BLOCK_STATE_LIVE) {
        dao_descriptor_search_t search = dao_descriptors_find(&walk->hardened->descriptors, block.address);
        bool is_live =
            search.descriptor != NULL && search.is_intact && dao_descriptor_is_live(search.descriptor);
        uint64_t word = is_live ? search.descriptor->word : 0;
        block.requested_bytes = dao_word_requested_bytes(word);
        block.tag = dao_word_tag(word);
        block.stream = dao_word_stream(word);
        block.owner = dao_word_owner(word);
        block.state = is_live ? DAO_BLOCK_STATE_LIVE : DAO_BLOCK_STATE_PENDING;
    }
    walk->visit(&block, walk->user);
}

static void hardened_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    walk_t walk = {.hardened = hardened, .visit = visit, .user = user};
    dao_mutex_lock(&hardened->lock);
    hardened->inner->ops->walk_all(hardened->inner, walk_inner_block, &walk);
    dao_mutex_unlock(&hardened->lock);
}

static void hardened_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    dao_mutex_lock(&hardened->lock);
    hardened->inner->ops->stats_get(hardened->inner, out_stats);
    const dao_stats_t *own = &hardened->ledger.stats;
    out_stats->requested_bytes = own->requested_bytes;
    out_stats->used_bytes = own->used_bytes;
    out_stats->peak_requested_bytes = own->peak_requested_bytes;
    out_stats->peak_used_bytes = own->peak_used_bytes;
    out_stats->live_count = own->live_count;
    out_stats->alloc_count = own->alloc_count;
    out_stats->free_count = own->free_count;
    out_stats->slow_count = own->alloc_count + own->free_count; /* it has no other path */
    out_stats->failed_count = own->failed_count;
    dao_mutex_unlock(&hardened->lock);
    if (dao_hardened_has(hardened, DAO_HARDENING_GUARD)) { /* a guard has to fit, too */
        uint64_t whole_bytes =
            out_stats->largest_hole_bytes / DAO_HARDENED_GUARD_BYTES * DAO_HARDENED_GUARD_BYTES;
        out_stats->largest_hole_bytes =
            whole_bytes > DAO_HARDENED_GUARD_BYTES ? whole_bytes - DAO_HARDENED_GUARD_BYTES : 0;
    }
}

static uint64_t hardened_used_get(dao_allocator_t *allocator)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    dao_mutex_lock(&hardened->lock);
    uint64_t used_bytes = hardened->ledger.stats.used_bytes;
    dao_mutex_unlock(&hardened->lock);
    return used_bytes;
}

static void hardened_stats_reset_peaks(dao_allocator_t *allocator, dao_peaks_t *out_peaks)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    dao_mutex_lock(&hardened->lock);
    dao_peaks_t own, inner;
    dao_stats_peaks_to_now(&hardened->ledger.stats, &own);
    hardened->inner->ops->stats_reset_peaks(hardened->inner, &inner);
    if (out_peaks != NULL) {
        *out_peaks = (dao_peaks_t){own.requested_bytes, own.used_bytes, inner.reserved_bytes};
    }
    dao_mutex_unlock(&hardened->lock);
}

/* ---- the rest of the table ---- */

/* The blocks of the quarantine are cached memory. */
static dao_status_t hardened_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    dao_allocator_t *inner = hardened->inner;
    uint64_t before_bytes = dao_inner_reserved_bytes(inner);
    (void)dao_hardened_quarantine_shrink(hardened, 0); /* how many blocks that were */
    return dao_inner_trim(inner, before_bytes, keep_bytes, out_released_bytes);
}

static dao_status_t hardened_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    dao_allocator_t *inner = hardened->inner;
    dao_status_t status = inner->ops->limit_set(inner, limit_bytes);
    if (status == DAO_ERR_LIMIT && dao_hardened_quarantine_shrink(hardened, 0) > 0) {
        status = inner->ops->limit_set(inner, limit_bytes);
    }
    return status;
}

/* Compares the descriptors with the counters and the queue. */
static bool counts_are_valid(const hardened_t *hardened)
{
    dao_recount_t recount = {0};
    size_t quarantined_count = 0;
    uint64_t quarantined_bytes = 0;
    for (size_t i = 0; i < hardened->descriptors.capacity; i++) {
        const dao_descriptor_t *descriptor = &hardened->descriptors.entries[i];
        if (dao_descriptor_is_empty(descriptor)) {
            continue;
        }
        if (dao_descriptor_is_live(descriptor)) {
            recount.requested_bytes += dao_word_requested_bytes(descriptor->word);
            recount.used_bytes += descriptor->block_bytes;
            recount.reserved_bytes += descriptor->block_bytes;
            recount.live_count++;
        }
        bool is_quarantined = descriptor->state == DAO_DESCRIPTOR_QUARANTINED ||
                              descriptor->state == DAO_DESCRIPTOR_QUARANTINED_CHECKED;
        quarantined_count += is_quarantined;
        quarantined_bytes += is_quarantined ? descriptor->block_bytes : 0;
    }
    return dao_ledger_matches(&hardened->ledger, &recount) && quarantined_count == hardened->queue_count &&
           quarantined_bytes == hardened->quarantined_bytes &&
           hardened->queue_capacity >= hardened->descriptors.count + hardened->descriptors.promised_count;
}

static bool hardened_is_valid(dao_allocator_t *allocator)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    dao_mutex_lock(&hardened->lock);
    bool is_valid = dao_descriptors_is_valid(&hardened->descriptors) && counts_are_valid(hardened);
    dao_mutex_unlock(&hardened->lock);
    return is_valid && hardened->inner->ops->is_valid(hardened->inner);
}

static void hardened_finish(hardened_t *hardened)
{
    dao_descriptors_finish(&hardened->descriptors);
    dao_host_free(hardened->queue);
    hardened->ledger.budget = NULL;
    dao_ledger_finish(&hardened->ledger);
    dao_cond_finish(&hardened->changed);
    dao_mutex_finish(&hardened->lock);
    dao_host_free(hardened);
}

static void hardened_destroy(dao_allocator_t *allocator)
{
    hardened_t *hardened = dao_hardened_of(allocator);
    (void)dao_hardened_quarantine_shrink(hardened, 0); /* looks at each for the last time */
    hardened->inner->ops->destroy(hardened->inner);
    hardened_finish(hardened);
}

static const dao_allocator_ops_t hardened_ops = {
    .name = "hardened",
    .alloc = hardened_alloc,
    .alloc_fast = dao_allocator_alloc_fallback,
    .free_fast = dao_allocator_free_fallback,
    .free = hardened_free,
    .free_owned = hardened_free_owned,
    .query = hardened_query,
    .trim = hardened_trim,
    .limit_set = hardened_limit_set,
    .used_get = hardened_used_get,
    .stats_get = hardened_stats_get,
    .stats_reset_peaks = hardened_stats_reset_peaks,
    .walk = hardened_walk,
    .walk_all = hardened_walk_all,
    .is_valid = hardened_is_valid,
    .destroy = hardened_destroy,
    .retire = hardened_retire,
    .reclaim = hardened_reclaim,
    .reuse = hardened_reuse,
};

dao_status_t dao_hardened_create(const dao_hardened_config_t *config, dao_allocator_t *inner,
                                 dao_allocator_t **out_allocator)
{
    hardened_t *hardened = dao_host_calloc(1, sizeof(*hardened));
    if (hardened == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    hardened->base.ops = &hardened_ops;
    hardened->base.ledger = &hardened->ledger;
    hardened->inner = inner;
    hardened->flags = config->flags;
    hardened->quarantine_bytes = config->quarantine_bytes;
    hardened->bytes = config->bytes;
    dao_mutex_init(&hardened->lock, DAO_RANK_LAYER);
    dao_cond_init(&hardened->changed);
    dao_descriptors_init(&hardened->descriptors, dao_hardened_has(hardened, DAO_HARDENING_CHECKSUM));
    dao_status_t status = dao_ledger_init(&hardened->ledger, config->name);
    if (status != DAO_OK) {
        hardened_finish(hardened);
        return status;
    }
    hardened->ledger.budget = inner->ledger->budget; /* for questions: the inner allocator takes from it */
    hardened->ledger.capacity_bytes = inner->ledger->capacity_bytes;
    hardened->ledger.page_bytes = inner->ledger->page_bytes;
    *out_allocator = &hardened->base;
    return DAO_OK;
}

bool dao_is_hardened(const dao_allocator_t *allocator)
{
    return allocator->ops == &hardened_ops;
}

dao_allocator_t *dao_hardened_inner(dao_allocator_t *allocator)
{
    DAO_ASSERT(dao_is_hardened(allocator));
    return dao_hardened_of(allocator)->inner;
}
