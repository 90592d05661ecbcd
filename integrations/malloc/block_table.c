/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing, a table and a lock for each of the stripes that addresses are spread over:

       hash   [ stripe ][ ...        slot ]      entries   [ a ][ b ][ - ][ c ] ...    a's slot, or behind it without a gap

   count <= capacity / 2, so that a gap is near. */
#define _GNU_SOURCE
#include "integrations/malloc/block_table.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#define STRIPE_BITS     6
#define STRIPE_COUNT    ((size_t)1 << STRIPE_BITS)
#define HASH_SLOT_SHIFT 26            /* 2^32 slots below the stripe's bits */
#define FIRST_CAPACITY  ((size_t)256) /* a page of entries */

typedef struct entry {
    uintptr_t address; /* 0: a gap */
    size_t size_bytes;
} entry_t;

typedef struct stripe {
    _Alignas(64) pthread_mutex_t lock;
    /* guarded by it */
    entry_t *entries;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
} stripe_t;

static stripe_t stripes[STRIPE_COUNT];

/* All addresses that were ever put in lie between them. */
static _Atomic uintptr_t lowest = UINTPTR_MAX;
static _Atomic uintptr_t highest;

void dao_block_table_init(void)
{
    for (size_t i = 0; i < STRIPE_COUNT; i++) {
        (void)pthread_mutex_init(&stripes[i].lock, NULL);
    }
}

static uint64_t hash(uintptr_t address)
{
    return address / DAO_BLOCK_TABLE_ALIGNMENT *
           UINT64_C(0x9e3779b97f4a7c15); /* 2^64 over the golden ratio */
}

static stripe_t *stripe_of(uintptr_t address)
{
    return &stripes[hash(address) >> (64 - STRIPE_BITS)];
}

/* Gives the slot that an address wants, by bits that do not say its stripe: of pages the lowest bits of the
   hash are all equal. */
static size_t own_slot(const stripe_t *stripe, uintptr_t address)
{
    return (size_t)(hash(address) >> HASH_SLOT_SHIFT) & (stripe->capacity - 1);
}

/* Gives where an address is, or else the gap where it would be put. */
static size_t slot_of(const stripe_t *stripe, uintptr_t address)
{
    size_t slot = own_slot(stripe, address);
    while (stripe->entries[slot].address != 0 && stripe->entries[slot].address != address) {
        slot = (slot + 1) & (stripe->capacity - 1);
    }
    return slot;
}

static bool grow(stripe_t *stripe)
{
    stripe_t larger = {.capacity = stripe->capacity > 0 ? 2 * stripe->capacity : FIRST_CAPACITY};
    void *entries = mmap(NULL, larger.capacity * sizeof(entry_t), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (entries == MAP_FAILED) {
        return false;
    }
    larger.entries = entries;
    for (size_t i = 0; i < stripe->capacity; i++) {
        if (stripe->entries[i].address != 0) {
            larger.entries[slot_of(&larger, stripe->entries[i].address)] = stripe->entries[i];
        }
    }
    if (stripe->capacity > 0) {
        (void)munmap(stripe->entries, stripe->capacity * sizeof(entry_t));
    }
    stripe->entries = larger.entries;
    stripe->capacity = larger.capacity;
    return true;
}

static void widen(uintptr_t address)
{
    uintptr_t seen = atomic_load_explicit(&lowest, memory_order_relaxed);
    while (address < seen && !atomic_compare_exchange_weak(&lowest, &seen, address)) {
    }
    seen = atomic_load_explicit(&highest, memory_order_relaxed);
    while (address > seen && !atomic_compare_exchange_weak(&highest, &seen, address)) {
    }
}

bool dao_block_table_put(void *address, size_t size_bytes)
{
    uintptr_t number = (uintptr_t)address;
    stripe_t *stripe = stripe_of(number);
    (void)pthread_mutex_lock(&stripe->lock);
    bool has_room = 2 * stripe->count < stripe->capacity || grow(stripe);
    if (has_room) {
        stripe->entries[slot_of(stripe, number)] = (entry_t){number, size_bytes};
        stripe->count++;
    }
    (void)pthread_mutex_unlock(&stripe->lock);
    widen(number); /* before anybody is told of the address */
    return has_room;
}

/* Closes the gap that an entry leaves: moves up each one behind it that its own slot does not lie behind the
   gap of. */
static void erase(stripe_t *stripe, size_t gap)
{
    size_t mask = stripe->capacity - 1;
    for (size_t slot = (gap + 1) & mask; stripe->entries[slot].address != 0; slot = (slot + 1) & mask) {
        size_t own = own_slot(stripe, stripe->entries[slot].address);
        if (((slot - own) & mask) >= ((slot - gap) & mask)) {
            stripe->entries[gap] = stripe->entries[slot];
            gap = slot;
        }
    }
    stripe->entries[gap] = (entry_t){0};
    stripe->count--;
}

static bool may_be_there(uintptr_t address)
{
    return address % DAO_BLOCK_TABLE_ALIGNMENT == 0 &&
           address >= atomic_load_explicit(&lowest, memory_order_relaxed) &&
           address <= atomic_load_explicit(&highest, memory_order_relaxed);
}

static size_t look_up(const void *address, bool takes)
{
    uintptr_t number = (uintptr_t)address;
    size_t size_bytes = 0;
    if (!may_be_there(number)) {
        return 0;
    }
    stripe_t *stripe = stripe_of(number);
    (void)pthread_mutex_lock(&stripe->lock);
    if (stripe->count > 0) {
        size_t slot = slot_of(stripe, number);
        size_bytes = stripe->entries[slot].size_bytes;
        if (takes && size_bytes > 0) {
            erase(stripe, slot);
        }
    }
    (void)pthread_mutex_unlock(&stripe->lock);
    return size_bytes;
}

size_t dao_block_table_get(const void *address)
{
    return look_up(address, false);
}

size_t dao_block_table_take(const void *address)
{
    return look_up(address, true);
}

void dao_block_table_lock(void)
{
    for (size_t i = 0; i < STRIPE_COUNT; i++) {
        (void)pthread_mutex_lock(&stripes[i].lock);
    }
}

void dao_block_table_unlock(void)
{
    for (size_t i = STRIPE_COUNT; i-- > 0;) {
        (void)pthread_mutex_unlock(&stripes[i].lock);
    }
}
