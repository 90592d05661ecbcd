/* SPDX-License-Identifier: Apache-2.0 */
/* A probe table (base/memory/probe_table.h) of the blocks that malloc gave. What holds between calls besides
   its invariants:

       count entries are not empty, at most three quarters of them
       an entry's word is not 0: it says what was asked for, which is what the block takes, rounded up
       sum of block bytes is this part of ledger->stats.reserved_bytes */
#include "allocators/segments/malloc_front.h"

#include "base/memory/host.h"
#include "base/memory/probe_table.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <assert.h>

#define CAPACITY_MIN 64u

void dao_malloc_front_init(dao_malloc_front_t *small, dao_ledger_t *ledger)
{
    *small = (dao_malloc_front_t){.ledger = ledger};
}

size_t dao_malloc_front_block_bytes(size_t size_bytes)
{
    return (size_bytes + DAO_MALLOC_FRONT_ALIGNMENT_BYTES - 1) &
           ~(size_t)(DAO_MALLOC_FRONT_ALIGNMENT_BYTES - 1);
}

static uint64_t key_of(const void *entry)
{
    return (uintptr_t)((const dao_malloc_front_entry_t *)entry)->address;
}

static uint64_t hash_of(uint64_t key)
{
    static_assert(DAO_MALLOC_FRONT_ALIGNMENT_BYTES == 64, "what the hash divides by");
    return dao_probe_hash_address(key);
}

static bool is_empty(const void *entry)
{
    return ((const dao_malloc_front_entry_t *)entry)->address == NULL;
}

static const dao_probe_kind_t kind = {.entry_bytes = sizeof(dao_malloc_front_entry_t),
                                      .key_of = key_of,
                                      .hash_of = hash_of,
                                      .is_empty = is_empty};

/* Returns the entry of an address, or the empty one where it would go. The table is not empty. */
static dao_malloc_front_entry_t *probe(const dao_malloc_front_t *small, const void *address)
{
    return dao_probe_find(&kind, small->entries, small->capacity, (uintptr_t)address);
}

static void erase(dao_malloc_front_t *small, dao_malloc_front_entry_t *entry)
{
    dao_probe_erase(&kind, small->entries, small->capacity, entry, NULL);
    small->count--;
}

/* Makes room for one more entry. */
static bool reserve(dao_malloc_front_t *small)
{
    if (dao_probe_has_room(small->capacity, small->count + 1)) {
        return true;
    }
    dao_malloc_front_t larger = *small;
    larger.capacity = small->capacity == 0 ? CAPACITY_MIN : small->capacity * 2;
    larger.entries = dao_host_calloc(larger.capacity, sizeof(*larger.entries));
    if (larger.entries == NULL) {
        return false;
    }
    dao_probe_copy_all(&kind, small->entries, small->capacity, larger.entries, larger.capacity);
    dao_host_free(small->entries);
    *small = larger;
    return true;
}

static dao_status_t take(dao_malloc_front_t *small, size_t block_bytes, void **out_address)
{
    dao_status_t status = dao_ledger_grow_begin(small->ledger, block_bytes);
    if (status != DAO_OK) {
        return status;
    }
    *out_address = reserve(small) ? dao_host_aligned(block_bytes, DAO_MALLOC_FRONT_ALIGNMENT_BYTES) : NULL;
    if (*out_address == NULL) {
        dao_ledger_grow_cancel(small->ledger, block_bytes);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "the system refuses");
    }
    return DAO_OK;
}

dao_status_t dao_malloc_front_alloc(dao_malloc_front_t *small, const dao_block_request_t *request,
                                    void **out_address)
{
    size_t block_bytes = dao_malloc_front_block_bytes(request->size_bytes);
    dao_status_t status = dao_ledger_charge(small->ledger, request, block_bytes);
    if (status != DAO_OK) {
        return status;
    }
    void *address = NULL;
    status = take(small, block_bytes, &address);
    if (status != DAO_OK) {
        dao_ledger_refund(small->ledger, request, block_bytes);
        return status;
    }
    DAO_ASSERT(dao_word_of(request) != 0);
    DAO_ASSERT(probe(small, address)->address == NULL);
    *probe(small, address) = (dao_malloc_front_entry_t){.address = address, .word = dao_word_of(request)};
    small->count++;
    dao_ledger_count_grow(small->ledger, block_bytes);
    dao_ledger_count_alloc(small->ledger, request, block_bytes);
    *out_address = address;
    return DAO_OK;
}

dao_status_t dao_malloc_front_free(dao_malloc_front_t *small, const void *address, dao_block_owner_t owner)
{
    dao_malloc_front_entry_t *entry = small->capacity == 0 ? NULL : probe(small, address);
    if (entry == NULL || entry->address == NULL) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    if (dao_word_owner(entry->word) != owner) {
        return DAO_ERR_NOT_YOURS;
    }
    dao_malloc_front_entry_t freed = *entry;
    DAO_ASSERT(small->count > 0);
    DAO_ASSERT(freed.word != 0);
    erase(small, entry);
    DAO_ASSERT(probe(small, address)->address == NULL);
    dao_host_free(freed.address);
    size_t block_bytes = dao_malloc_front_block_bytes(dao_word_requested_bytes(freed.word));
    dao_ledger_count_free(small->ledger, address, freed.word, block_bytes);
    dao_ledger_count_shrink(small->ledger, block_bytes);
    return DAO_OK;
}

static dao_block_t describe(const dao_malloc_front_entry_t *entry)
{
    size_t requested_bytes = dao_word_requested_bytes(entry->word);
    return (dao_block_t){.address = entry->address,
                         .requested_bytes = requested_bytes,
                         .block_bytes = dao_malloc_front_block_bytes(requested_bytes),
                         .tag = dao_word_tag(entry->word),
                         .stream = dao_word_stream(entry->word),
                         .owner = dao_word_owner(entry->word),
                         .begins_segment = true};
}

dao_status_t dao_malloc_front_query(const dao_malloc_front_t *small, const void *address,
                                    dao_block_t *out_block)
{
    const dao_malloc_front_entry_t *entry = small->capacity == 0 ? NULL : probe(small, address);
    if (entry != NULL && entry->address != NULL) {
        *out_block = describe(entry);
        return DAO_OK;
    }
    for (size_t i = 0; i < small->capacity; i++) {
        dao_block_t block = describe(&small->entries[i]);
        if ((uintptr_t)address - (uintptr_t)block.address < block.block_bytes) {
            *out_block = block;
            return DAO_OK;
        }
    }
    return DAO_ERR_FOREIGN_POINTER;
}

void dao_malloc_front_walk(const dao_malloc_front_t *small, dao_block_visit_t visit, void *user)
{
    for (size_t i = 0; i < small->capacity; i++) {
        if (small->entries[i].address != NULL) {
            dao_block_t block = describe(&small->entries[i]);
            visit(&block, user);
        }
    }
}

bool dao_malloc_front_is_valid(const dao_malloc_front_t *small, dao_recount_t *recount)
{
    for (size_t i = 0; i < small->capacity; i++) {
        const dao_malloc_front_entry_t *entry = &small->entries[i];
        if (entry->address == NULL) {
            continue;
        }
        size_t requested_bytes = dao_word_requested_bytes(entry->word);
        if (requested_bytes == 0) {
            return false;
        }
        size_t block_bytes = dao_malloc_front_block_bytes(requested_bytes);
        recount->requested_bytes += requested_bytes;
        recount->used_bytes += block_bytes;
        recount->reserved_bytes += block_bytes;
        recount->live_count++;
    }
    return dao_probe_is_valid(&kind, small->entries, small->capacity, small->count) &&
           dao_probe_has_room(small->capacity, small->count);
}

void dao_malloc_front_finish(dao_malloc_front_t *small)
{
    for (size_t i = 0; i < small->capacity; i++) {
        dao_host_free(small->entries[i].address);
    }
    dao_host_free(small->entries);
    *small = (dao_malloc_front_t){0};
}
