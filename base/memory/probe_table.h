/* SPDX-License-Identifier: Apache-2.0 */
/* Probe table: open addressing with linear probes, for entries that carry their key in themselves.

       entries   [ - ][ A ][ B ][ - ][ - ][ C ][ D ][ E ][ - ]   at its home or behind, without a gap

   An erased entry is closed by moving later ones back, so there are no tombstones. What holds between calls,
   and what dao_probe_is_valid() checks:

       capacity is a power of two
       the owner's count is the number of entries that are not empty; at least one entry is empty
       every entry is found by probing from its home

   A table is the owner's: it has the memory, the count, the limit on the load, and the lock. What differs
   between tables is a kind, a `static const` of this struct. All functions are inlined, so a kind folds into
   constants and a table takes the instructions of one that is written for its entries. They need
   nothing of the library to be linked: the plug-in over malloc() uses them, too. */
#ifndef DAO_BASE_PROBE_TABLE_H
#define DAO_BASE_PROBE_TABLE_H

#include "base/numbers/path.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct dao_probe_kind {
    size_t entry_bytes;
    uint64_t (*key_of)(const void *entry);
    uint64_t (*hash_of)(uint64_t key); /* its low bits are the home */
    bool (*is_empty)(const void *entry);
    /* Optional: false for an entry that must stay where it stands, as where it belongs cannot be known. */
    bool (*may_move)(const void *entry, const void *owner);
} dao_probe_kind_t;

/* The hash of addresses that are multiples of 64: the bits above those times 2^64 over the golden ratio, of
   which the upper half is mixed best. */
static DAO_ON_THE_PATH uint64_t dao_probe_hash_address(uint64_t address)
{
    return (address / 64 * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
}

/* Returns true if `count` entries are at most three quarters of a table: probes stay short. */
static DAO_ON_THE_PATH bool dao_probe_has_room(size_t capacity, size_t count)
{
    return count * 4 <= capacity * 3;
}

static DAO_ON_THE_PATH void *dao_probe_at(const dao_probe_kind_t *kind, void *entries, size_t index)
{
    return (char *)entries + index * kind->entry_bytes;
}

static DAO_ON_THE_PATH size_t dao_probe_home(const dao_probe_kind_t *kind, size_t capacity, uint64_t key)
{
    return (size_t)kind->hash_of(key) & (capacity - 1);
}

/* Returns the entry of a key, or the empty one where it would go. */
static DAO_ON_THE_PATH void *dao_probe_find(const dao_probe_kind_t *kind, void *entries, size_t capacity,
                                            uint64_t key)
{
    size_t i = dao_probe_home(kind, capacity, key);
    void *entry = dao_probe_at(kind, entries, i);
    while (!kind->is_empty(entry) && kind->key_of(entry) != key) {
        i = (i + 1) & (capacity - 1);
        entry = dao_probe_at(kind, entries, i);
    }
    return entry;
}

/* Returns the first empty entry from a key's home on. */
static DAO_ON_THE_PATH void *dao_probe_empty(const dao_probe_kind_t *kind, void *entries, size_t capacity,
                                             uint64_t key)
{
    size_t i = dao_probe_home(kind, capacity, key);
    while (!kind->is_empty(dao_probe_at(kind, entries, i))) {
        i = (i + 1) & (capacity - 1);
    }
    return dao_probe_at(kind, entries, i);
}

/* Enters all entries of a table into a larger one, all zero. */
static DAO_ON_THE_PATH void dao_probe_copy_all(const dao_probe_kind_t *kind, void *entries, size_t capacity,
                                               void *to_entries, size_t to_capacity)
{
    for (size_t i = 0; i < capacity; i++) {
        const void *entry = dao_probe_at(kind, entries, i);
        if (!kind->is_empty(entry)) {
            void *to = dao_probe_empty(kind, to_entries, to_capacity, kind->key_of(entry));
            memcpy(to, entry, kind->entry_bytes);
        }
    }
}

/* Takes an entry out: each later one moves back into the hole, unless its home lies behind the hole. `owner`
   is for kind->may_move. */
static DAO_ON_THE_PATH void dao_probe_erase(const dao_probe_kind_t *kind, void *entries, size_t capacity,
                                            void *entry, const void *owner)
{
    size_t mask = capacity - 1;
    size_t hole = (size_t)((char *)entry - (char *)entries) / kind->entry_bytes;
    for (size_t i = (hole + 1) & mask; !kind->is_empty(dao_probe_at(kind, entries, i)); i = (i + 1) & mask) {
        const void *later = dao_probe_at(kind, entries, i);
        size_t home = dao_probe_home(kind, capacity, kind->key_of(later));
        bool may_move = kind->may_move == NULL || kind->may_move(later, owner);
        if (may_move && ((i - home) & mask) >= ((i - hole) & mask)) {
            memcpy(dao_probe_at(kind, entries, hole), later, kind->entry_bytes);
            hole = i;
        }
    }
    memset(dao_probe_at(kind, entries, hole), 0, kind->entry_bytes);
}

/* Checks what the head of this file says of a table; NULL and 0 stand for one before its first entry. */
static DAO_ON_THE_PATH bool dao_probe_is_valid(const dao_probe_kind_t *kind, void *entries, size_t capacity,
                                               size_t count)
{
    size_t seen_count = 0;
    bool is_valid = (capacity & (capacity - 1)) == 0 && (capacity > 0 ? count < capacity : count == 0);
    for (size_t i = 0; i < capacity && is_valid; i++) {
        const void *entry = dao_probe_at(kind, entries, i);
        if (!kind->is_empty(entry)) {
            seen_count++;
            is_valid = dao_probe_find(kind, entries, capacity, kind->key_of(entry)) == entry;
        }
    }
    return is_valid && seen_count == count;
}

#endif
