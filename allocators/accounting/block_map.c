/* SPDX-License-Identifier: Apache-2.0 */
/* An open-addressing table, linear probes; an erased entry is closed by moving later ones back, so that there
   are no tombstones.

       entries   [ - ][ A ][ B ][ - ][ - ][ C ][ D ][ E ][ - ]     a block stands at its home or behind it, without a gap

   What holds between calls:

       count entries are not empty, at most three quarters of them
       every entry is found by probing from its home */
#include "allocators/accounting/block_map.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

#define CAPACITY_MIN 64u

/* Addresses differ by at least this many bytes. */
#define ADDRESS_STEP_BYTES 64u

static size_t home_of(const dao_block_map_t *map, const void *address)
{
    uint64_t mixed = (uint64_t)((uintptr_t)address / ADDRESS_STEP_BYTES) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32) & (map->capacity - 1);
}

/* Gives the entry of an address, or the empty one where it would go. The table is not empty. */
static dao_block_entry_t *probe(const dao_block_map_t *map, const void *address)
{
    size_t i = home_of(map, address);
    while (map->entries[i].address != NULL && map->entries[i].address != address) {
        i = (i + 1) & (map->capacity - 1);
    }
    return &map->entries[i];
}

static bool has_room(const dao_block_map_t *map, size_t count)
{
    return (map->count + count) * 4 <= map->capacity * 3;
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
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->entries[i].address != NULL) {
            *probe(&larger, map->entries[i].address) = map->entries[i];
        }
    }
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
    size_t mask = map->capacity - 1;
    size_t hole = (size_t)(entry - map->entries);
    for (size_t i = (hole + 1) & mask; map->entries[i].address != NULL; i = (i + 1) & mask) {
        size_t home = home_of(map, map->entries[i].address);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->entries[hole] = map->entries[i];
            hole = i;
        }
    }
    map->entries[hole] = (dao_block_entry_t){0};
    map->count--;
}

bool dao_block_map_is_valid(const dao_block_map_t *map)
{
    size_t count = 0;
    for (size_t i = 0; i < map->capacity; i++) {
        const dao_block_entry_t *entry = &map->entries[i];
        if (entry->address == NULL) {
            continue;
        }
        count++;
        if (probe(map, entry->address) != entry ||
            (uintptr_t)entry->address - (uintptr_t)entry->piece.address >= entry->piece.size_bytes) {
            return false;
        }
    }
    return count == map->count && count * 4 <= map->capacity * 3;
}

void dao_block_map_finish(dao_block_map_t *map)
{
    dao_host_free(map->entries);
    *map = (dao_block_map_t){0};
}
