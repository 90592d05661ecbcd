/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes by the time from which they are free, in logical time. */
#ifndef DAO_PLANNING_SWAP_ROOM_H
#define DAO_PLANNING_SWAP_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* Free bytes by the time from which they are free, earliest first. */
typedef struct dao_swap_room_entry {
    uint64_t from_ns;
    uint64_t size_bytes; /* at least 1 */
} dao_swap_room_entry_t;

#define DAO_SWAP_ROOM_BLOCK 32u /* entries of a block */

/* Some entries in a row. */
typedef struct dao_swap_room_block {
    uint64_t first_ns; /* of the first one */
    uint32_t slot;     /* its entries: slots[slot x DAO_SWAP_ROOM_BLOCK ..] */
    uint32_t count;
} dao_swap_room_block_t;

typedef struct dao_swap_room {
    dao_swap_room_entry_t *slots;
    dao_swap_room_block_t *blocks; /* in order; behind the last one those whose slots are free */
    uint32_t block_count, block_capacity;
    uint64_t size_bytes; /* sum of the entries */
} dao_swap_room_t;

void dao_swap_room_init(dao_swap_room_t *room);
void dao_swap_room_finish(dao_swap_room_t *room);

/* False if there is no host memory: nothing is changed. Cost: O(log n), and a move of all blocks each time
   that one is split. */
bool dao_swap_room_give(dao_swap_room_t *room, uint64_t from_ns, uint64_t size_bytes);

/* Takes bytes, of which there are enough, and tells from when on all of them are free: those that are free
   first, or with `until_ns` those that become free last, but not after it, as far as there are such. */
uint64_t dao_swap_room_take_first(dao_swap_room_t *room, uint64_t size_bytes);
uint64_t dao_swap_room_take_last(dao_swap_room_t *room, uint64_t size_bytes, uint64_t until_ns);

bool dao_swap_room_is_valid(const dao_swap_room_t *room);

#endif
