/* SPDX-License-Identifier: Apache-2.0 */
/* A list of blocks of entries. One that is full is split, one that is empty leaves the list, and its slot is
   used again.

   Invariants: entries ascend strictly in time and have at least one byte; each block has at least one entry;
   size_bytes is their sum. */
#include "planning/swap/times/swap_room.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"

#include <stddef.h>
#include <string.h>

#define FIRST_CAPACITY 2u
#define BLOCK          DAO_SWAP_ROOM_BLOCK

void dao_swap_room_init(dao_swap_room_t *room)
{
    *room = (dao_swap_room_t){0};
}

void dao_swap_room_finish(dao_swap_room_t *room)
{
    dao_host_free(room->slots);
    dao_host_free(room->blocks);
    *room = (dao_swap_room_t){0};
}

static dao_swap_room_entry_t *entries_of(const dao_swap_room_t *room, uint32_t block)
{
    return room->slots + (size_t)room->blocks[block].slot * BLOCK;
}

static_assert(sizeof(dao_swap_room_block_t) == sizeof(dao_swap_room_entry_t) &&
                  offsetof(dao_swap_room_block_t, first_ns) == 0 &&
                  offsetof(dao_swap_room_entry_t, from_ns) == 0,
              "time_of() reads both");

static uint64_t time_of(const void *rows, uint32_t index)
{
    uint64_t time_ns;
    memcpy(&time_ns, (const char *)rows + index * sizeof(dao_swap_room_entry_t), sizeof(time_ns));
    return time_ns;
}

/* How many of some blocks or entries begin at `time_ns` or before. Most times that are asked for are near the
   end, so the search begins there, and goes back by steps that double. */
static uint32_t count_until(const void *rows, uint32_t count, uint64_t time_ns)
{
    uint32_t low = 0, high = count;
    for (uint32_t step = 1; step <= high; step *= 2) {
        if (time_of(rows, high - step) <= time_ns) {
            low = high - step + 1;
            break;
        }
        high -= step;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (time_of(rows, middle) > time_ns) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static uint32_t count_blocks(const dao_swap_room_t *room, uint64_t time_ns)
{
    return count_until(room->blocks, room->block_count, time_ns);
}

static uint32_t count_entries(const dao_swap_room_t *room, uint32_t block, uint64_t time_ns)
{
    return count_until(entries_of(room, block), room->blocks[block].count, time_ns);
}

static bool grow(dao_swap_room_t *room)
{
    uint32_t capacity = room->block_capacity == 0 ? FIRST_CAPACITY : 2 * room->block_capacity;
    dao_swap_room_entry_t *slots = dao_host_realloc(room->slots, (size_t)capacity * BLOCK, sizeof(*slots));
    room->slots = slots != NULL ? slots : room->slots;
    dao_swap_room_block_t *blocks = dao_host_realloc(room->blocks, capacity, sizeof(*blocks));
    room->blocks = blocks != NULL ? blocks : room->blocks;
    if (slots == NULL || blocks == NULL) {
        return false;
    }
    for (uint32_t i = room->block_capacity; i < capacity; i++) {
        room->blocks[i] = (dao_swap_room_block_t){.slot = i};
    }
    room->block_capacity = capacity;
    return true;
}

/* Puts an empty block at a place in the list. There is a free slot. */
static void insert_block(dao_swap_room_t *room, uint32_t at)
{
    DAO_ASSERT(room->block_count < room->block_capacity);
    dao_swap_room_block_t block = {.slot = room->blocks[room->block_count].slot};
    memmove(room->blocks + at + 1, room->blocks + at, (room->block_count - at) * sizeof(block));
    room->blocks[at] = block;
    room->block_count++;
}

/* Takes out `count` entries of a block, which leaves the list with its last one. */
static void take_out(dao_swap_room_t *room, uint32_t at, uint32_t index, uint32_t count)
{
    dao_swap_room_block_t *block = &room->blocks[at];
    dao_swap_room_entry_t *entries = entries_of(room, at);
    DAO_ASSERT(index + count <= block->count);
    if (count == 0) {
        return;
    }
    block->count -= count;
    memmove(entries + index, entries + index + count, (block->count - index) * sizeof(*entries));
    if (block->count > 0) {
        block->first_ns = entries[0].from_ns;
        return;
    }
    dao_swap_room_block_t empty = *block;
    room->block_count--;
    memmove(room->blocks + at, room->blocks + at + 1, (room->block_count - at) * sizeof(empty));
    room->blocks[room->block_count] = empty;
}

/* Puts an entry before the one at an index of a block. There is a free slot. */
static void insert(dao_swap_room_t *room, uint32_t at, uint32_t index, const dao_swap_room_entry_t *entry)
{
    if (room->blocks[at].count == BLOCK) {
        uint32_t kept = index == BLOCK ? BLOCK : BLOCK / 2; /* most come behind all others */
        insert_block(room, at + 1);
        memcpy(entries_of(room, at + 1), entries_of(room, at) + kept, (BLOCK - kept) * sizeof(*entry));
        room->blocks[at].count = kept;
        room->blocks[at + 1].count = BLOCK - kept;
        room->blocks[at + 1].first_ns = entries_of(room, at + 1)[0].from_ns;
        bool is_behind = index > kept || kept == BLOCK;
        index -= is_behind ? kept : 0;
        at += is_behind ? 1 : 0;
    }
    dao_swap_room_block_t *block = &room->blocks[at];
    dao_swap_room_entry_t *entries = entries_of(room, at);
    memmove(entries + index + 1, entries + index, (block->count - index) * sizeof(*entries));
    entries[index] = *entry;
    block->count++;
    block->first_ns = entries[0].from_ns;
}

bool dao_swap_room_give(dao_swap_room_t *room, uint64_t from_ns, uint64_t size_bytes)
{
    DAO_ASSERT(size_bytes > 0);
    if (room->block_count == room->block_capacity && !grow(room)) {
        return false;
    }
    if (room->block_count == 0) {
        insert_block(room, 0);
    }
    uint32_t before = count_blocks(room, from_ns), at = before > 0 ? before - 1 : 0;
    uint32_t index = count_entries(room, at, from_ns);
    dao_swap_room_entry_t *entries = entries_of(room, at);
    if (index > 0 && entries[index - 1].from_ns == from_ns) {
        entries[index - 1].size_bytes += size_bytes;
    } else {
        insert(room, at, index, &(dao_swap_room_entry_t){from_ns, size_bytes});
    }
    room->size_bytes += size_bytes;
    return true;
}

uint64_t dao_swap_room_take_first(dao_swap_room_t *room, uint64_t size_bytes)
{
    DAO_ASSERT(size_bytes <= room->size_bytes);
    uint64_t ready_ns = 0;
    room->size_bytes -= size_bytes;
    while (size_bytes > 0) {
        dao_swap_room_entry_t *entries = entries_of(room, 0);
        uint32_t count = 0;
        for (; count < room->blocks[0].count && entries[count].size_bytes <= size_bytes; count++) {
            size_bytes -= entries[count].size_bytes;
            ready_ns = entries[count].from_ns;
        }
        if (size_bytes > 0 && count < room->blocks[0].count) {
            entries[count].size_bytes -= size_bytes;
            ready_ns = entries[count].from_ns;
            size_bytes = 0;
        }
        take_out(room, 0, 0, count);
    }
    DAO_ASSERT((room->block_count == 0) == (room->size_bytes == 0));
    return ready_ns;
}

uint64_t dao_swap_room_take_last(dao_swap_room_t *room, uint64_t size_bytes, uint64_t until_ns)
{
    DAO_ASSERT(size_bytes <= room->size_bytes);
    uint64_t left = size_bytes, ready_ns = 0;
    for (uint32_t end = count_blocks(room, until_ns); end > 0 && left > 0; end--) {
        uint32_t index = count_entries(room, end - 1, until_ns), last = index;
        dao_swap_room_entry_t *entries = entries_of(room, end - 1);
        for (; index > 0 && left > 0; index--) {
            dao_swap_room_entry_t *entry = &entries[index - 1];
            uint64_t part = dao_smaller(entry->size_bytes, left);
            ready_ns = dao_larger(ready_ns, entry->from_ns);
            left -= part;
            entry->size_bytes -= part;
            if (entry->size_bytes > 0) {
                break;
            }
        }
        take_out(room, end - 1, index, last - index);
    }
    room->size_bytes -= size_bytes - left;
    DAO_ASSERT((room->block_count == 0) == (room->size_bytes == 0));
    return left > 0 ? dao_swap_room_take_first(room, left) : ready_ns;
}

bool dao_swap_room_is_valid(const dao_swap_room_t *room)
{
    uint64_t sum = 0, before_ns = 0;
    bool is_first = true;
    for (uint32_t at = 0; at < room->block_count; at++) {
        const dao_swap_room_block_t *block = &room->blocks[at];
        const dao_swap_room_entry_t *entries = entries_of(room, at);
        if (block->count == 0 || block->count > BLOCK || block->first_ns != entries[0].from_ns) {
            return false;
        }
        for (uint32_t i = 0; i < block->count; i++) {
            if (entries[i].size_bytes == 0 || (!is_first && before_ns >= entries[i].from_ns)) {
                return false;
            }
            sum += entries[i].size_bytes;
            before_ns = entries[i].from_ns;
            is_first = false;
        }
    }
    return sum == room->size_bytes && room->block_count <= room->block_capacity;
}
