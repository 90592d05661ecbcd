/* SPDX-License-Identifier: Apache-2.0 */
/* Live blocks by their address, for allocators whose own structures do not know them. Not thread-safe: the
   owner locks. Memory is never touched. */
#ifndef DAO_ALLOCATORS_BLOCK_MAP_H
#define DAO_ALLOCATORS_BLOCK_MAP_H

#include <dao/status.h>

/* A stretch of memory. */
typedef struct dao_piece {
    char *address;
    size_t size_bytes;
} dao_piece_t;

typedef struct dao_block_entry {
    char *address;     /* what the caller holds; NULL: an empty entry */
    uint64_t word;     /* of word.h */
    dao_piece_t piece; /* what it takes; the address lies in it, behind what an alignment has cost */
} dao_block_entry_t;

typedef struct dao_block_map {
    dao_block_entry_t *entries;
    size_t capacity; /* a power of two, or 0 before the first block */
    size_t count;
} dao_block_map_t;

/* Makes room for so many more blocks. False without memory: nothing is changed. */
bool dao_block_map_reserve(dao_block_map_t *map, size_t count);

/* Adds a block, for which room was made. Never needs memory. */
void dao_block_map_insert(dao_block_map_t *map, const dao_block_entry_t *entry);

/* Returns the block that begins at an address, or NULL. O(1). */
dao_block_entry_t *dao_block_map_find(const dao_block_map_t *map, const void *address);

/* Returns the block that an address lies in, or NULL. O(1) for its start, else O(blocks). */
dao_block_entry_t *dao_block_map_around(const dao_block_map_t *map, const void *address);

/* Takes a block out. Other entries may be moved. */
void dao_block_map_erase(dao_block_map_t *map, dao_block_entry_t *entry);

bool dao_block_map_is_valid(const dao_block_map_t *map);
void dao_block_map_finish(dao_block_map_t *map); /* zeroed memory is allowed */

#endif
