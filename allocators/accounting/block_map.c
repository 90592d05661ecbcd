/* SPDX-License-Identifier: Apache-2.0 */
/* A probe table (base/memory/probe_table.h) by the address that the caller has. What holds between calls
   besides its invariants:

       count entries are not empty, at most three quarters of them
       the address of an entry lies in its piece */
#include "allocators/accounting/block_map.h"

#include "base/memory/host.h"
#include "base/memory/probe_table.h"
#include "base/report/assert.h"

#define CAPACITY_MIN 64u

static uint64_t key_of(const void *entry)
{
    return (uintptr_t)((const dao_block_entry_t *)entry)->address;
}

static uint64_t hash_of(uint64_t key)
{
    return dao_probe_hash_address(key);
}

static bool is_empty(const void *entry)
{
    return ((const dao_block_entry_t *)entry)->address == NULL;
}

static const dao_probe_kind_t kind = {
    .entry_bytes = sizeof(dao_block_entry_t), .key_of = key_of, .hash_of = hash_of, .is_empty = is_empty};

/* Returns the entry of an address, or the empty one where it would go. The table is not empty. */
static dao_block_entry_t *probe(const dao_block_map_t *map, const void *address)
{
    return dao_probe_find(&kind, map->entries, map->capacity, (uintptr_t)address);
}

static bool has_room(const dao_block_map_t *map, size_t count)
{
    return dao_probe_has_room(map->capacity, map->count + count);
}

bool dao_block_map_reserve(dao_block_map_t *map, size_t count)
{
    if (has_room(map, count)) {
        return true;
    }
    dao_block_map_t larger = {.capacity = map->capacity == 0 ? CAPACITY_MIN : map->capacity * 2,
                              .count = map->count};
    while (!has_room(&larger, count)) {
        larger.capacity *= 2;
    }
    larger.entries = dao_host_calloc(larger.capacity, sizeof(*larger.entries));
    if (larger.entries == NULL) {
        return false;
    }
    dao_probe_copy_all(&kind, map->entries, map->capacity, larger.entries, larger.capacity);
    dao_host_free(map->entries);
    *map = larger;
    return true;
}

void dao_block_map_insert(dao_block_map_t *map, const dao_block_entry_t *entry)
{
    DAO_ASSERT(has_room(map, 1));
    dao_block_entry_t *empty = probe(map, entry->address);
    DAO_ASSERT(empty->address == NULL);
    *empty = *entry;
    map->count++;
}

dao_block_entry_t *dao_block_map_find(const dao_block_map_t *map, const void *address)
{
    if (map->capacity == 0 || address == NULL) {
        return NULL;
    }
    dao_block_entry_t *entry = probe(map, address);
    return entry->address != NULL ? entry : NULL;
}

static size_t bytes_behind_address(const dao_block_entry_t *entry)
{
    return entry->piece.size_bytes - (size_t)(entry->address - entry->piece.address);
}

dao_block_entry_t *dao_block_map_around(const dao_block_map_t *map, const void *address)
{
    dao_block_entry_t *found = dao_block_map_find(map, address);
    for (size_t i = 0; i < map->capacity && found == NULL; i++) {
        dao_block_entry_t *entry = &map->entries[i];
        bool is_inside = entry->address != NULL &&
                         (uintptr_t)address - (uintptr_t)entry->address < bytes_behind_address(entry);
        found = is_inside ? entry : NULL;
    }
    return found;
}

void dao_block_map_erase(dao_block_map_t *map, dao_block_entry_t *entry)
{
    dao_probe_erase(&kind, map->entries, map->capacity, entry, NULL);
    map->count--;
}

bool dao_block_map_is_valid(const dao_block_map_t *map)
{
    for (size_t i = 0; i < map->capacity; i++) {
        const dao_block_entry_t *entry = &map->entries[i];
        if (entry->address != NULL &&
            (uintptr_t)entry->address - (uintptr_t)entry->piece.address >= entry->piece.size_bytes) {
            return false;
        }
    }
    return dao_probe_is_valid(&kind, map->entries, map->capacity, map->count) && has_room(map, 0);
}

void dao_block_map_finish(dao_block_map_t *map)
{
    dao_host_free(map->entries);
    *map = (dao_block_map_t){0};
}
