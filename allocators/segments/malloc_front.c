/* SPDX-License-Identifier: Apache-2.0 */
/* An open-addressing table of the blocks that malloc gave, linear probes; an erased entry is closed by moving
   later ones back, so that there are no tombstones. What holds between calls:

       count entries are not empty, at most three quarters of them
       every entry is found by probing from its home
       sum of block bytes is this part of ledger->stats.reserved_bytes */
#include "allocators/segments/malloc_front.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

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

static size_t home_of(const dao_malloc_front_t *small, const void *address)
{
    uint64_t mixed =
        (uint64_t)((uintptr_t)address / DAO_MALLOC_FRONT_ALIGNMENT_BYTES) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) & (small->capacity - 1);
}

/* Gives the entry of an address, or the empty one where it would go. The table is not empty. */
static dao_malloc_front_entry_t *probe(const dao_malloc_front_t *small, const void *address)
{
    size_t i = home_of(small, address);
    while (small->entries[i].address != NULL && small->entries[i].address != address) {
        i = (i + 1) & (small->capacity - 1);
    }
    return &small->entries[i];
}

static void erase(dao_malloc_front_t *small, dao_malloc_front_entry_t *entry)
{
    size_t mask = small->capacity - 1;
    size_t hole = (size_t)(entry - small->entries);
    for (size_t i = (hole + 1) & mask; small->entries[i].address != NULL; i = (i + 1) & mask) {
        size_t home = home_of(small, small->entries[i].address);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            small->entries[hole] = small->entries[i];
            hole = i;
        }
    }
    small->entries[hole] = (dao_malloc_front_entry_t){0};
    small->count--;
}

/* Makes room for one more entry. */
static bool reserve(dao_malloc_front_t *small)
{
    if ((small->count + 1) * 4 <= small->capacity * 3) {
        return true;
    }
    dao_malloc_front_t larger = *small;
    larger.capacity = small->capacity == 0 ? CAPACITY_MIN : small->capacity * 2;
    larger.entries = dao_host_calloc(larger.capacity, sizeof(*larger.entries));
    if (larger.entries == NULL) {
        return false;
    }
    for (size_t i = 0; i < small->capacity; i++) {
        if (small->entries[i].address != NULL) {
            *probe(&larger, small->entries[i].address) = small->entries[i];
        }
    }
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
    *probe(small, address) = (dao_malloc_front_entry_t){.address = address, .word = dao_word_of(request)};
    small->count++;
    dao_ledger_count_grow(small->ledger, block_bytes);
    dao_ledger_count_alloc(small->ledger, request, block_bytes);
    *out_address = address;
    return DAO_OK;
}

dao_status_t dao_malloc_front_free(dao_malloc_front_t *small, const void *address)
{
    dao_malloc_front_entry_t *entry = small->capacity == 0 ? NULL : probe(small, address);
    if (entry == NULL || entry->address == NULL) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    dao_malloc_front_entry_t freed = *entry;
    erase(small, entry);
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
    size_t count = 0;
    for (size_t i = 0; i < small->capacity; i++) {
        const dao_malloc_front_entry_t *entry = &small->entries[i];
        if (entry->address == NULL) {
            continue;
        }
        size_t requested_bytes = dao_word_requested_bytes(entry->word);
        if (probe(small, entry->address) != entry || requested_bytes == 0) {
            return false;
        }
        size_t block_bytes = dao_malloc_front_block_bytes(requested_bytes);
        count++;
        recount->requested_bytes += requested_bytes;
        recount->used_bytes += block_bytes;
        recount->reserved_bytes += block_bytes;
        recount->live_count++;
    }
    return count == small->count && count * 4 <= small->capacity * 3;
}

void dao_malloc_front_finish(dao_malloc_front_t *small)
{
    for (size_t i = 0; i < small->capacity; i++) {
        dao_host_free(small->entries[i].address);
    }
    dao_host_free(small->entries);
    *small = (dao_malloc_front_t){0};
}
