/* SPDX-License-Identifier: Apache-2.0 */
/* A probe table (base/memory/probe_table.h) and a lock for each of the 64 stripes that addresses are hashed
   to. The hash's highest bits select the stripe, other bits the slot. */
#define _GNU_SOURCE
#include "integrations/malloc/block_table.h"

#include "base/memory/probe_table.h"

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

/* The range of all addresses that were ever added. */
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

static uint64_t key_of(const void *entry)
{
    return ((const entry_t *)entry)->address;
}

/* Bits that do not select the stripe. The lowest are left out: for page-aligned addresses they are all
   equal. */
static uint64_t slot_hash_of(uint64_t address)
{
    return hash((uintptr_t)address) >> HASH_SLOT_SHIFT;
}

static bool is_empty(const void *entry)
{
    return ((const entry_t *)entry)->address == 0;
}

static const dao_probe_kind_t kind = {
    .entry_bytes = sizeof(entry_t), .key_of = key_of, .hash_of = slot_hash_of, .is_empty = is_empty};

/* Returns the entry of an address, or else the empty one where it would be put. */
static entry_t *probe(const stripe_t *stripe, uintptr_t address)
{
    return dao_probe_find(&kind, stripe->entries, stripe->capacity, address);
}

static bool grow(stripe_t *stripe)
{
    size_t capacity = stripe->capacity > 0 ? 2 * stripe->capacity : FIRST_CAPACITY;
    void *entries =
        mmap(NULL, capacity * sizeof(entry_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (entries == MAP_FAILED) {
        return false;
    }
    dao_probe_copy_all(&kind, stripe->entries, stripe->capacity, entries, capacity);
    if (stripe->capacity > 0) {
        (void)munmap(stripe->entries, stripe->capacity * sizeof(entry_t));
    }
    stripe->entries = entries;
    stripe->capacity = capacity;
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
        *probe(stripe, number) = (entry_t){number, size_bytes};
        stripe->count++;
    }
    (void)pthread_mutex_unlock(&stripe->lock);
    widen(number); /* before the address is returned to the program */
    return has_room;
}

static bool may_contain(uintptr_t address)
{
    return address % DAO_BLOCK_TABLE_ALIGNMENT == 0 &&
           address >= atomic_load_explicit(&lowest, memory_order_relaxed) &&
           address <= atomic_load_explicit(&highest, memory_order_relaxed);
}

static size_t look_up(const void *address, bool takes)
{
    uintptr_t number = (uintptr_t)address;
    size_t size_bytes = 0;
    if (!may_contain(number)) {
        return 0;
    }
    stripe_t *stripe = stripe_of(number);
    (void)pthread_mutex_lock(&stripe->lock);
    if (stripe->count > 0) {
        entry_t *entry = probe(stripe, number);
        size_bytes = entry->size_bytes;
        if (takes && size_bytes > 0) {
            dao_probe_erase(&kind, stripe->entries, stripe->capacity, entry, NULL);
            stripe->count--;
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
