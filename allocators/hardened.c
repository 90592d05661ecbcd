/* Hardening around another allocator.

       inner block   [ bytes of the caller | rounding | guard ]
                       junk when new, FREED or 0 when freed
                                           GUARD from alloc to the end of the quarantine

       alloc ──> LIVE ──> FREEING ──> back to inner
                             |  └──> HELD (quarantine, first in first out) ──> LEAVING ──> back to inner
                             └─────────────> DAMAGED <───────────────────────────┘

   Every block of the inner allocator has a descriptor, but for those that a call has in its hands: alloc before it has
   prepared the bytes, free after it has checked them. What holds between calls:

       LIVE, LIVE_CHECKED and FREEING descriptors are the live blocks that ledger.stats counts
       the queue has exactly the HELD and HELD_CHECKED ones; held_bytes is their sum
       queue_capacity >= descriptors in use and promised, so that a free never needs memory

   The bytes are reached without the lock, in states that nobody else leaves. Who finds a block in a state *_CHECKED waits for
   its check to end. The inner allocator is called without the lock, too, but for questions and walks; its counters are read
   under it, so that used_bytes <= reserved_bytes holds in one answer. */
#include "allocators/hardened.h"

#include "allocators/descriptors.h"
#include "allocators/ledger.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"
#include "base/log.h"
#include "base/math.h"
#include "base/sync.h"

#define QUEUE_MIN 64u

typedef struct hardened {
    dao_allocator_t base;
    dao_allocator_t *inner; /* owned */
    uint32_t flags;
    size_t quarantine_bytes;
    dao_bytes_t bytes;

    dao_mutex_t lock;
    dao_cond_t changed; /* a check of a block has ended */
    dao_ledger_t ledger;
    dao_descriptors_t descriptors;
    uint64_t *queue; /* addresses; a ring */
    size_t queue_capacity;
    size_t queue_first;
    size_t queue_count;
    uint64_t held_bytes;
} hardened_t;

/* A block in the hands of a call. */
typedef struct taken {
    char *address;
    size_t requested_bytes;
    size_t block_bytes;
    uint64_t word;
} taken_t;

static hardened_t *hardened_of(dao_allocator_t *allocator)
{
    return (hardened_t *)allocator;
}

static bool has(const hardened_t *hardened, dao_hardening_t flag)
{
    return (hardened->flags & (uint32_t)flag) != 0;
}

/* Gives the bytes that are asked of the inner allocator; a size that cannot be is left for it to refuse. */
static size_t padded_bytes(const hardened_t *hardened, size_t size_bytes)
{
    if (!has(hardened, DAO_HARDENING_GUARD) || size_bytes > PTRDIFF_MAX - 2 * DAO_HARDENED_GUARD_BYTES) {
        return size_bytes;
    }
    return (size_t)dao_round_up(size_bytes, DAO_HARDENED_GUARD_BYTES) + DAO_HARDENED_GUARD_BYTES;
}

static taken_t taken_of(const dao_descriptor_t *descriptor)
{
    return (taken_t){.address = (char *)(uintptr_t)descriptor->address,
                     .requested_bytes = dao_word_requested_bytes(descriptor->word),
                     .block_bytes = (size_t)descriptor->block_bytes,
                     .word = descriptor->word};
}

/* ---- bytes, without the lock ---- */

static uint8_t freed_value(const hardened_t *hardened)
{
    return has(hardened, DAO_HARDENING_ZERO) ? 0 : DAO_HARDENED_FREED_VALUE;
}

/* Tells whether freed bytes are set to freed_value(): a quarantine has to know what it will find. */
static bool fills_freed(const hardened_t *hardened)
{
    return (hardened->flags & (DAO_HARDENING_JUNK | DAO_HARDENING_ZERO | DAO_HARDENING_QUARANTINE)) != 0;
}

static dao_status_t bytes_prepare(const hardened_t *hardened, char *address, size_t size_bytes)
{
    const dao_bytes_t *bytes = &hardened->bytes;
    size_t guard_bytes = padded_bytes(hardened, size_bytes) - size_bytes;
    dao_status_t status = DAO_OK;
    if (has(hardened, DAO_HARDENING_JUNK)) {
        status = bytes->fill(bytes->user, address, DAO_HARDENED_JUNK_VALUE, size_bytes);
    }
    if (status == DAO_OK && guard_bytes > 0) {
        status = bytes->fill(bytes->user, address + size_bytes, DAO_HARDENED_GUARD_VALUE, guard_bytes);
    }
    return status;
}

/* Finds the first wrong byte of [begin, end) of a block; *out_offset counts from its start. DAO_ERR_CORRUPT, without a
   message, if there is one; the answer of `scan` if it fails. */
static dao_status_t bytes_check(const hardened_t *hardened, const taken_t *taken, uint8_t value, size_t begin,
                                size_t end, size_t *out_offset)
{
    if (begin == end) {
        return DAO_OK;
    }
    size_t offset = 0;
    dao_status_t status =
        hardened->bytes.scan(hardened->bytes.user, taken->address + begin, value, end - begin, &offset);
    if (status == DAO_OK && offset < end - begin) {
        *out_offset = begin + offset;
        return DAO_ERR_CORRUPT;
    }
    return status;
}

static dao_status_t corrupt_error(const hardened_t *hardened, const taken_t *taken, size_t offset)
{
    const char *what =
        offset >= taken->requested_bytes ? "was written past its end" : "was written after its free";
    return dao_error(DAO_ERR_CORRUPT,
                     "%s: the block of %zu bytes at %p %s: the first wrong byte is at offset %zu",
                     hardened->ledger.name, taken->requested_bytes, (void *)taken->address, what, offset);
}

static dao_status_t guard_check(const hardened_t *hardened, const taken_t *taken)
{
    size_t offset = 0;
    dao_status_t status = bytes_check(hardened, taken, DAO_HARDENED_GUARD_VALUE, taken->requested_bytes,
                                      padded_bytes(hardened, taken->requested_bytes), &offset);
    return status == DAO_ERR_CORRUPT ? corrupt_error(hardened, taken, offset) : status;
}

/* Checks a block of the quarantine: its bytes and its guard. */
static dao_status_t held_check(const hardened_t *hardened, const taken_t *taken)
{
    size_t offset = 0;
    dao_status_t status =
        bytes_check(hardened, taken, freed_value(hardened), 0, taken->requested_bytes, &offset);
    if (status == DAO_ERR_CORRUPT) {
        return corrupt_error(hardened, taken, offset);
    }
    return status == DAO_OK ? guard_check(hardened, taken) : status;
}

/* ---- the quarantine ---- */

/* Makes room in the queue for all blocks and one more. */
static bool queue_reserve_locked(hardened_t *hardened)
{
    if (hardened->queue_capacity > hardened->descriptors.count + hardened->descriptors.promised_count) {
        return true;
    }
    size_t capacity = hardened->queue_capacity * 2 + QUEUE_MIN;
    uint64_t *queue = dao_host_calloc(capacity, sizeof(*queue));
    if (queue == NULL) {
        return false;
    }
    for (size_t i = 0; i < hardened->queue_count; i++) {
        queue[i] = hardened->queue[(hardened->queue_first + i) % hardened->queue_capacity];
    }
    dao_host_free(hardened->queue);
    hardened->queue = queue;
    hardened->queue_capacity = capacity;
    hardened->queue_first = 0;
    return true;
}

static void queue_push_locked(hardened_t *hardened, const taken_t *taken)
{
    DAO_ASSERT(hardened->queue_count < hardened->queue_capacity);
    hardened->queue[(hardened->queue_first + hardened->queue_count) % hardened->queue_capacity] =
        (uintptr_t)taken->address;
    hardened->queue_count++;
    hardened->held_bytes += taken->block_bytes;
}

/* Finds the descriptor of an address when no check has it in its hands. */
static dao_descriptor_search_t find_locked(hardened_t *hardened, const void *address)
{
    for (;;) {
        dao_descriptor_search_t search = dao_descriptors_find(&hardened->descriptors, address);
        if (search.descriptor == NULL || !search.is_intact ||
            (search.descriptor->state != DAO_DESCRIPTOR_LIVE_CHECKED &&
             search.descriptor->state != DAO_DESCRIPTOR_HELD_CHECKED)) {
            return search;
        }
        dao_cond_wait(&hardened->changed, &hardened->lock);
    }
}

/* Sets the state of a block that this call has in its hands, unless its descriptor was damaged meanwhile. */
static void state_set_locked(hardened_t *hardened, const taken_t *taken, dao_descriptor_state_t state)
{
    dao_descriptor_search_t search = dao_descriptors_find(&hardened->descriptors, taken->address);
    if (search.descriptor != NULL && search.is_intact) {
        dao_descriptors_set_state(search.descriptor, state);
    }
}

/* Takes the oldest block out of the quarantine if it holds more than keep_bytes; false if there is none to take. One whose
   descriptor was damaged stays out of use. */
static bool queue_pop(hardened_t *hardened, uint64_t keep_bytes, taken_t *out_taken)
{
    bool is_found = false;
    dao_mutex_lock(&hardened->lock);
    while (!is_found && hardened->queue_count > 0 && hardened->held_bytes > keep_bytes) {
        const void *address = (const void *)(uintptr_t)hardened->queue[hardened->queue_first];
        dao_descriptor_search_t search = find_locked(hardened, address); /* may wait, and others take it */
        if (hardened->queue_count == 0 || hardened->queue[hardened->queue_first] != (uintptr_t)address) {
            continue;
        }
        hardened->queue_first = (hardened->queue_first + 1) % hardened->queue_capacity;
        hardened->queue_count--;
        if (search.descriptor == NULL || !search.is_intact) {
            hardened->held_bytes =
                hardened->queue_count == 0 ? 0 : hardened->held_bytes; /* its size is lost */
            continue;
        }
        *out_taken = taken_of(search.descriptor);
        hardened->held_bytes -= out_taken->block_bytes;
        dao_descriptors_set_state(search.descriptor, DAO_DESCRIPTOR_LEAVING);
        is_found = true;
    }
    dao_mutex_unlock(&hardened->lock);
    return is_found;
}

/* Forgets a block and gives it back to the inner allocator. */
static void give_back(hardened_t *hardened, const taken_t *taken)
{
    dao_mutex_lock(&hardened->lock);
    dao_descriptor_search_t search = dao_descriptors_find(&hardened->descriptors, taken->address);
    bool is_known = search.descriptor != NULL && search.is_intact;
    if (is_known) {
        dao_descriptors_erase(&hardened->descriptors, search.descriptor);
    }
    dao_mutex_unlock(&hardened->lock);
    if (!is_known || dao_allocator_free(hardened->inner, taken->address) != DAO_OK) {
        dao_log(DAO_LOG_LEVEL_ERROR, "%s: the block at %p could not be given back: %s", hardened->ledger.name,
                (void *)taken->address, is_known ? dao_last_message() : "its descriptor was damaged");
    }
}

/* Lets blocks leave the quarantine until it holds at most keep_bytes; gives the number of those that went back. Damaged
   ones are logged and kept out of use; so are those whose bytes cannot be reached. */
static uint64_t quarantine_shrink(hardened_t *hardened, uint64_t keep_bytes)
{
    dao_error_record_t record; /* what is found is not this caller's error */
    dao_error_save(&record, dao_last_status());
    uint64_t given_count = 0;
    taken_t taken;
    while (queue_pop(hardened, keep_bytes, &taken)) {
        if (held_check(hardened, &taken) == DAO_OK) {
            give_back(hardened, &taken);
            given_count++;
            continue;
        }
        dao_mutex_lock(&hardened->lock);
        state_set_locked(hardened, &taken, DAO_DESCRIPTOR_DAMAGED);
        dao_mutex_unlock(&hardened->lock);
        dao_log(DAO_LOG_LEVEL_ERROR, "%s; it is kept out of use", dao_last_message());
    }
    (void)dao_error_restore(&record);
    return given_count;
}

/* ---- alloc ---- */

static dao_status_t reserve(hardened_t *hardened, size_t size_bytes)
{
    dao_mutex_lock(&hardened->lock);
    dao_status_t status = DAO_OK;
    if (!queue_reserve_locked(hardened) || !dao_descriptors_reserve(&hardened->descriptors)) {
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

static bool is_short(dao_status_t status)
{
    return status == DAO_ERR_NO_DEVICE_MEMORY || status == DAO_ERR_NO_HOST_MEMORY || status == DAO_ERR_LIMIT;
}

/* Takes a block of the inner allocator, after the quarantine if need be, and prepares its bytes. */
static dao_status_t take_prepared(hardened_t *hardened, const dao_block_request_t *request,
                                  dao_block_t *out_block)
{
    dao_allocator_t *inner = hardened->inner;
    dao_block_request_t padded = {.size_bytes = padded_bytes(hardened, request->size_bytes),
                                  .alignment_bytes = request->alignment_bytes};
    dao_block_grant_t grant;
    dao_status_t status = inner->ops->alloc(inner, &padded, &grant);
    if (is_short(status) && quarantine_shrink(hardened, 0) > 0) {
        status = inner->ops->alloc(inner, &padded, &grant);
    }
    if (status != DAO_OK) {
        return status;
    }
    status = bytes_prepare(hardened, grant.address, request->size_bytes);
    if (status == DAO_OK) {
        status = inner->ops->query(inner, grant.address, out_block);
    }
    if (status == DAO_OK) {
        status = dao_ledger_charge(&hardened->ledger, request, out_block->block_bytes);
    }
    if (status != DAO_OK) {
        dao_error_record_t record;
        dao_error_save(&record, status);
        (void)dao_allocator_free(inner, grant.address); /* it was taken just now */
        return dao_error_restore(&record);
    }
    return DAO_OK;
}

static dao_status_t hardened_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                   dao_block_grant_t *out_grant)
{
    hardened_t *hardened = hardened_of(allocator);
    DAO_ASSERT(request->size_bytes > 0);
    dao_status_t status = reserve(hardened, request->size_bytes);
    if (status != DAO_OK) {
        return status;
    }
    dao_block_t block;
    status = take_prepared(hardened, request, &block);
    dao_mutex_lock(&hardened->lock);
    if (status == DAO_OK) {
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

/* Takes a live block into this call's hands. DAO_ERR_CORRUPT and the errors of a wrong free, without a message. */
static dao_status_t free_begin(hardened_t *hardened, const void *address, taken_t *out_taken)
{
    dao_mutex_lock(&hardened->lock);
    dao_descriptor_search_t search = find_locked(hardened, address);
    dao_status_t status = DAO_OK;
    if (search.descriptor == NULL) {
        status = unknown_error_locked(hardened, address, search.met_damage);
    } else if (!search.is_intact) {
        status = DAO_ERR_CORRUPT;
    } else if (search.descriptor->state != DAO_DESCRIPTOR_LIVE) {
        status = DAO_ERR_DOUBLE_FREE;
    } else {
        *out_taken = taken_of(search.descriptor);
        dao_descriptors_set_state(search.descriptor, DAO_DESCRIPTOR_FREEING);
    }
    dao_mutex_unlock(&hardened->lock);
    return status;
}

/* Ends a free in a state; a block that stays live is not counted as freed. */
static void free_end(hardened_t *hardened, const taken_t *taken, dao_descriptor_state_t state)
{
    dao_mutex_lock(&hardened->lock);
    state_set_locked(hardened, taken, state);
    if (state != DAO_DESCRIPTOR_LIVE) {
        dao_ledger_count_free(&hardened->ledger, taken->address, taken->word, taken->block_bytes);
        dao_stats_count_shrink(&hardened->ledger.stats, taken->block_bytes);
    }
    if (state == DAO_DESCRIPTOR_HELD) {
        queue_push_locked(hardened, taken);
    }
    dao_mutex_unlock(&hardened->lock);
}

static dao_status_t free_taken(hardened_t *hardened, const taken_t *taken)
{
    const dao_bytes_t *bytes = &hardened->bytes;
    dao_status_t status = guard_check(hardened, taken);
    if (status == DAO_OK && fills_freed(hardened)) {
        status = bytes->fill(bytes->user, taken->address, freed_value(hardened), taken->requested_bytes);
    }
    if (status != DAO_OK) {
        free_end(hardened, taken, status == DAO_ERR_CORRUPT ? DAO_DESCRIPTOR_DAMAGED : DAO_DESCRIPTOR_LIVE);
        return status;
    }
    bool is_held =
        has(hardened, DAO_HARDENING_QUARANTINE) && taken->block_bytes <= hardened->quarantine_bytes;
    free_end(hardened, taken, is_held ? DAO_DESCRIPTOR_HELD : DAO_DESCRIPTOR_LEAVING);
    if (is_held) {
        (void)quarantine_shrink(hardened, hardened->quarantine_bytes); /* as many as have to go */
    } else {
        give_back(hardened, taken);
    }
    return DAO_OK;
}

static dao_status_t hardened_free(dao_allocator_t *allocator, void *address, dao_hold_t *hold)
{
    DAO_ASSERT(hold == NULL || dao_hold_is_empty(hold));
    (void)hold;
    hardened_t *hardened = hardened_of(allocator);
    taken_t taken;
    dao_status_t status = free_begin(hardened, address, &taken);
    if (status == DAO_OK) {
        return free_taken(hardened, &taken);
    }
    if (status == DAO_ERR_CORRUPT) {
        return dao_error(status, "%s: what is known of the block at %p is damaged; it is kept out of use",
                         hardened->ledger.name, address);
    }
    return dao_ledger_check_free(&hardened->ledger, status, address);
}

/* ---- looking ---- */

static dao_block_t describe(const dao_descriptor_t *descriptor)
{
    return (dao_block_t){.address = (void *)(uintptr_t)descriptor->address,
                         .requested_bytes = dao_word_requested_bytes(descriptor->word),
                         .block_bytes = (size_t)descriptor->block_bytes,
                         .tag = dao_word_tag(descriptor->word),
                         .stream = dao_word_stream(descriptor->word)};
}

static dao_status_t hardened_query(dao_allocator_t *allocator, const void *address, dao_block_t *out_block)
{
    hardened_t *hardened = hardened_of(allocator);
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
    hardened_t *hardened = hardened_of(allocator);
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
        block.state = is_live ? DAO_BLOCK_STATE_LIVE : DAO_BLOCK_STATE_PENDING;
    }
    walk->visit(&block, walk->user);
}

static void hardened_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    hardened_t *hardened = hardened_of(allocator);
    walk_t walk = {.hardened = hardened, .visit = visit, .user = user};
    dao_mutex_lock(&hardened->lock);
    hardened->inner->ops->walk_all(hardened->inner, walk_inner_block, &walk);
    dao_mutex_unlock(&hardened->lock);
}

static void hardened_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    hardened_t *hardened = hardened_of(allocator);
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
    out_stats->failed_count = own->failed_count;
    dao_mutex_unlock(&hardened->lock);
    if (has(hardened, DAO_HARDENING_GUARD)) { /* a guard has to fit, too */
        uint64_t whole_bytes =
            out_stats->largest_hole_bytes / DAO_HARDENED_GUARD_BYTES * DAO_HARDENED_GUARD_BYTES;
        out_stats->largest_hole_bytes =
            whole_bytes > DAO_HARDENED_GUARD_BYTES ? whole_bytes - DAO_HARDENED_GUARD_BYTES : 0;
    }
}

static uint64_t hardened_used_get(dao_allocator_t *allocator)
{
    hardened_t *hardened = hardened_of(allocator);
    dao_mutex_lock(&hardened->lock);
    uint64_t used_bytes = hardened->ledger.stats.used_bytes;
    dao_mutex_unlock(&hardened->lock);
    return used_bytes;
}

static void hardened_stats_reset_peaks(dao_allocator_t *allocator)
{
    hardened_t *hardened = hardened_of(allocator);
    dao_mutex_lock(&hardened->lock);
    dao_stats_peaks_to_now(&hardened->ledger.stats);
    hardened->inner->ops->stats_reset_peaks(hardened->inner);
    dao_mutex_unlock(&hardened->lock);
}

/* ---- the rest of the table ---- */

static dao_status_t hardened_trim(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes)
{
    hardened_t *hardened = hardened_of(allocator);
    (void)quarantine_shrink(hardened, 0); /* its blocks are cached memory */
    return hardened->inner->ops->trim(hardened->inner, keep_bytes, out_released_bytes);
}

static dao_status_t hardened_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    hardened_t *hardened = hardened_of(allocator);
    dao_allocator_t *inner = hardened->inner;
    dao_status_t status = inner->ops->limit_set(inner, limit_bytes);
    if (status == DAO_ERR_LIMIT && quarantine_shrink(hardened, 0) > 0) {
        status = inner->ops->limit_set(inner, limit_bytes);
    }
    return status;
}

/* Compares the descriptors with the counters and the queue. */
static bool counts_are_valid(const hardened_t *hardened)
{
    dao_recount_t recount = {0};
    size_t held_count = 0;
    uint64_t held_bytes = 0;
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
        bool is_held =
            descriptor->state == DAO_DESCRIPTOR_HELD || descriptor->state == DAO_DESCRIPTOR_HELD_CHECKED;
        held_count += is_held;
        held_bytes += is_held ? descriptor->block_bytes : 0;
    }
    return dao_ledger_matches(&hardened->ledger, &recount) && held_count == hardened->queue_count &&
           held_bytes == hardened->held_bytes &&
           hardened->queue_capacity >= hardened->descriptors.count + hardened->descriptors.promised_count;
}

static bool hardened_is_valid(dao_allocator_t *allocator)
{
    hardened_t *hardened = hardened_of(allocator);
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
    if (allocator != NULL) {
        hardened_t *hardened = hardened_of(allocator);
        (void)quarantine_shrink(hardened, 0); /* looks at each for the last time */
        hardened->inner->ops->destroy(hardened->inner);
        hardened_finish(hardened);
    }
}

static const dao_allocator_ops_t hardened_ops = {
    .name = "hardened",
    .alloc = hardened_alloc,
    .alloc_plain = dao_allocator_alloc_otherwise,
    .free_plain = dao_allocator_free_otherwise,
    .free = hardened_free,
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
    dao_descriptors_init(&hardened->descriptors, has(hardened, DAO_HARDENING_CHECKSUM));
    dao_status_t status = dao_ledger_init(&hardened->ledger, config->name);
    if (status != DAO_OK) {
        hardened_finish(hardened);
        return status;
    }
    hardened->ledger.budget = inner->ledger->budget; /* for questions: the inner allocator takes from it */
    hardened->ledger.capacity_bytes = inner->ledger->capacity_bytes;
    hardened->ledger.maps_pages = inner->ledger->maps_pages;
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
    return hardened_of(allocator)->inner;
}

/* ---- the check of all ---- */

/* Copies the addresses of all intact descriptors, as far as there is room; gives their number. `*out_damaged` is whether
   there are others. */
static size_t addresses_copy(hardened_t *hardened, uint64_t *addresses, size_t capacity, bool *out_damaged)
{
    size_t count = 0;
    dao_mutex_lock(&hardened->lock);
    *out_damaged = false;
    for (size_t i = 0; i < hardened->descriptors.capacity; i++) {
        const dao_descriptor_t *descriptor = &hardened->descriptors.entries[i];
        if (dao_descriptor_is_empty(descriptor)) {
            continue;
        }
        if (!dao_descriptor_is_intact(&hardened->descriptors, descriptor)) {
            *out_damaged = true;
            continue;
        }
        if (count < capacity) {
            addresses[count] = descriptor->address;
        }
        count++;
    }
    dao_mutex_unlock(&hardened->lock);
    return count;
}

/* Takes a block into this call's hands to look at it. Gives the state that it had; 0 if there is nothing to look at. */
static uint64_t check_begin(hardened_t *hardened, const void *address, taken_t *out_taken)
{
    dao_mutex_lock(&hardened->lock);
    dao_descriptor_search_t search = find_locked(hardened, address);
    uint64_t state = 0;
    if (search.descriptor != NULL && search.is_intact) {
        state = search.descriptor->state;
        *out_taken = taken_of(search.descriptor);
        if (state == DAO_DESCRIPTOR_LIVE || state == DAO_DESCRIPTOR_HELD) {
            dao_descriptors_set_state(search.descriptor, state == DAO_DESCRIPTOR_LIVE
                                                             ? DAO_DESCRIPTOR_LIVE_CHECKED
                                                             : DAO_DESCRIPTOR_HELD_CHECKED);
        }
    }
    dao_mutex_unlock(&hardened->lock);
    return state;
}

static dao_status_t check_one(hardened_t *hardened, const void *address)
{
    taken_t taken;
    uint64_t state = check_begin(hardened, address, &taken);
    if (state == DAO_DESCRIPTOR_DAMAGED) {
        return dao_error(DAO_ERR_CORRUPT, "%s: the block of %zu bytes at %p was found damaged before",
                         hardened->ledger.name, taken.requested_bytes, (void *)taken.address);
    }
    if (state != DAO_DESCRIPTOR_LIVE && state != DAO_DESCRIPTOR_HELD) {
        return DAO_OK; /* it is gone, or on its way */
    }
    dao_status_t status =
        state == DAO_DESCRIPTOR_LIVE ? guard_check(hardened, &taken) : held_check(hardened, &taken);
    dao_mutex_lock(&hardened->lock);
    state_set_locked(hardened, &taken, (dao_descriptor_state_t)state);
    dao_cond_broadcast(&hardened->changed);
    dao_mutex_unlock(&hardened->lock);
    return status;
}

dao_status_t dao_hardened_check(dao_allocator_t *allocator)
{
    DAO_ASSERT(dao_is_hardened(allocator));
    hardened_t *hardened = hardened_of(allocator);
    bool is_damaged;
    size_t count = addresses_copy(hardened, NULL, 0, &is_damaged);
    uint64_t *addresses = count > 0 ? dao_host_calloc(count, sizeof(*addresses)) : NULL;
    if (count > 0 && addresses == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for a list of %zu blocks",
                         hardened->ledger.name, count);
    }
    size_t seen_count = addresses_copy(hardened, addresses, count, &is_damaged);
    count = seen_count < count ? seen_count : count;
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < count && status == DAO_OK; i++) {
        status = check_one(hardened, (const void *)(uintptr_t)addresses[i]);
    }
    dao_host_free(addresses);
    if (status == DAO_OK && is_damaged) {
        return dao_error(DAO_ERR_CORRUPT, "%s: the table of blocks is damaged", hardened->ledger.name);
    }
    return status;
}

void *dao_hardened_descriptor(dao_allocator_t *allocator, const void *address, size_t *out_size_bytes)
{
    DAO_ASSERT(dao_is_hardened(allocator));
    hardened_t *hardened = hardened_of(allocator);
    dao_mutex_lock(&hardened->lock);
    dao_descriptor_t *descriptor = dao_descriptors_find(&hardened->descriptors, address).descriptor;
    dao_mutex_unlock(&hardened->lock);
    *out_size_bytes = sizeof(*descriptor);
    return descriptor;
}
