/* SPDX-License-Identifier: Apache-2.0 */
/* A list of blocks of intervals.

       groups   |          40           |     80     |       largest hole
       blocks   |  20   |  40   |   5   |  80  | 10  |
       busy     |= = == | =    =|==  == |=   = | ====|

   A block that is full is split, and one that is empty leaves the list; its slot is used again.

   Invariants: intervals ascend strictly in time, with time between them; each block has at least one; a
   block's and a group's largest hole are those of their intervals. */
#include "planning/swap/times/swap_calendar.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"

#include <string.h>

#define FIRST_BLOCK_CAPACITY 2u
#define BLOCK                DAO_SWAP_CALENDAR_BLOCK
#define GROUP                DAO_SWAP_CALENDAR_GROUP

void dao_swap_calendar_init(dao_swap_calendar_t *calendar, uint64_t least_hole_ns)
{
    *calendar = (dao_swap_calendar_t){.least_hole_ns = least_hole_ns};
}

void dao_swap_calendar_finish(dao_swap_calendar_t *calendar)
{
    dao_host_free(calendar->slots);
    dao_host_free(calendar->blocks);
    dao_host_free(calendar->largest_holes);
    *calendar = (dao_swap_calendar_t){0};
}

static dao_swap_interval_t *intervals_of(const dao_swap_calendar_t *calendar, uint32_t block)
{
    return calendar->slots + (size_t)calendar->blocks[block].slot * BLOCK;
}

dao_swap_calendar_place_t dao_swap_calendar_first(const dao_swap_calendar_t *calendar, uint64_t time_ns)
{
    uint32_t low = 0, high = calendar->block_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (calendar->blocks[middle].last_end_ns > time_ns) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    dao_swap_calendar_place_t place = {.block = low};
    if (low < calendar->block_count) {
        const dao_swap_interval_t *busy = intervals_of(calendar, low);
        uint32_t end = calendar->blocks[low].count;
        while (place.index < end) {
            uint32_t middle = place.index + (end - place.index) / 2;
            if (busy[middle].end_ns > time_ns) {
                end = middle;
            } else {
                place.index = middle + 1;
            }
        }
    }
    return place;
}

/* ---- holes ---- */

/* The first interval from a place on with a hole of `length_ns` behind it. The last one has. */
static uint64_t first_hole(const dao_swap_calendar_t *calendar, dao_swap_calendar_place_t place,
                           uint64_t length_ns)
{
    uint32_t block = place.block;
    for (;;) {
        const dao_swap_interval_t *busy = intervals_of(calendar, block);
        uint32_t count = calendar->blocks[block].count;
        for (uint32_t i = place.index; i + 1 < count; i++) {
            if (busy[i + 1].begin_ns - busy[i].end_ns >= length_ns) {
                return busy[i].end_ns;
            }
        }
        if (block + 1 == calendar->block_count ||
            calendar->blocks[block + 1].first_begin_ns - busy[count - 1].end_ns >= length_ns) {
            return busy[count - 1].end_ns;
        }
        place.index = 0;
        for (block++; calendar->blocks[block].largest_hole_ns < length_ns;) {
            bool passes_group = block % GROUP == 0 && calendar->largest_holes[block / GROUP] < length_ns;
            block += passes_group ? GROUP : 1;
        }
        DAO_ASSERT(block < calendar->block_count); /* the last hole is endless */
    }
}

uint64_t dao_swap_calendar_find(const dao_swap_calendar_t *calendar, uint64_t from_ns, uint64_t length_ns)
{
    dao_swap_calendar_place_t place = dao_swap_calendar_first(calendar, from_ns);
    const dao_swap_interval_t *busy = dao_swap_calendar_at(calendar, place);
    return busy == NULL || busy->begin_ns >= from_ns + length_ns ? from_ns
                                                                 : first_hole(calendar, place, length_ns);
}

static uint64_t largest_hole_in(const dao_swap_calendar_t *calendar, uint32_t block)
{
    const dao_swap_interval_t *busy = intervals_of(calendar, block);
    uint32_t count = calendar->blocks[block].count;
    uint64_t next_ns =
        block + 1 < calendar->block_count ? intervals_of(calendar, block + 1)[0].begin_ns : UINT64_MAX;
    uint64_t largest_ns = next_ns - busy[count - 1].end_ns;
    for (uint32_t i = 0; i + 1 < count; i++) {
        largest_ns = dao_larger(largest_ns, busy[i + 1].begin_ns - busy[i].end_ns);
    }
    return next_ns == UINT64_MAX ? UINT64_MAX : largest_ns;
}

static uint64_t largest_hole_of_group(const dao_swap_calendar_t *calendar, uint32_t group)
{
    uint64_t largest_ns = 0;
    for (uint32_t block = group * GROUP; block < calendar->block_count && block < (group + 1) * GROUP;
         block++) {
        largest_ns = dao_larger(largest_ns, calendar->blocks[block].largest_hole_ns);
    }
    return largest_ns;
}

/* Sees again to what is known of the blocks `low` to `high` - 1. `has_moved`: others have another place in
   the list. */
static void know(dao_swap_calendar_t *calendar, uint32_t low, uint32_t high, bool has_moved)
{
    for (uint32_t i = low; i < high; i++) {
        dao_swap_calendar_block_t *block = &calendar->blocks[i];
        const dao_swap_interval_t *busy = intervals_of(calendar, i);
        block->first_begin_ns = busy[0].begin_ns;
        block->last_end_ns = busy[block->count - 1].end_ns;
        block->largest_hole_ns = largest_hole_in(calendar, i);
    }
    uint32_t end = has_moved ? calendar->block_count : high;
    for (uint32_t group = low / GROUP; group * GROUP < end; group++) {
        calendar->largest_holes[group] = largest_hole_of_group(calendar, group);
    }
}

/* ---- booking ---- */

static bool grow(dao_swap_calendar_t *calendar)
{
    uint32_t capacity = calendar->block_capacity == 0 ? FIRST_BLOCK_CAPACITY : 2 * calendar->block_capacity;
    size_t slots = (size_t)capacity * BLOCK, groups = capacity / GROUP + 1;
    dao_swap_interval_t *intervals = dao_host_realloc(calendar->slots, slots, sizeof(*intervals));
    calendar->slots = intervals != NULL ? intervals : calendar->slots;
    dao_swap_calendar_block_t *blocks = dao_host_realloc(calendar->blocks, capacity, sizeof(*blocks));
    calendar->blocks = blocks != NULL ? blocks : calendar->blocks;
    uint64_t *holes = dao_host_realloc(calendar->largest_holes, groups, sizeof(*holes));
    calendar->largest_holes = holes != NULL ? holes : calendar->largest_holes;
    if (intervals == NULL || blocks == NULL || holes == NULL) {
        return false;
    }
    for (uint32_t i = calendar->block_capacity; i < capacity; i++) {
        calendar->blocks[i] = (dao_swap_calendar_block_t){.slot = i};
    }
    calendar->block_capacity = capacity;
    return true;
}

/* Puts an empty block at a place in the list. */
static void insert_block(dao_swap_calendar_t *calendar, uint32_t at)
{
    DAO_ASSERT(calendar->block_count < calendar->block_capacity);
    dao_swap_calendar_block_t block = {.slot = calendar->blocks[calendar->block_count].slot};
    memmove(calendar->blocks + at + 1, calendar->blocks + at,
            (calendar->block_count - at) * sizeof(*calendar->blocks));
    calendar->blocks[at] = block;
    calendar->block_count++;
}

static void remove_block(dao_swap_calendar_t *calendar, uint32_t at)
{
    dao_swap_calendar_block_t block = calendar->blocks[at];
    calendar->block_count--;
    memmove(calendar->blocks + at, calendar->blocks + at + 1,
            (calendar->block_count - at) * sizeof(*calendar->blocks));
    calendar->blocks[calendar->block_count] = block;
}

/* Moves the second half of a full block into a new one behind it; nothing where an interval comes behind all
   of it, as most do. There is a free slot. Returns the count that stays. */
static uint32_t split(dao_swap_calendar_t *calendar, uint32_t at, bool is_behind_all)
{
    uint32_t kept = is_behind_all ? BLOCK : BLOCK / 2;
    insert_block(calendar, at + 1);
    memcpy(intervals_of(calendar, at + 1), intervals_of(calendar, at) + kept,
           (BLOCK - kept) * sizeof(*calendar->slots));
    calendar->blocks[at].count = kept;
    calendar->blocks[at + 1].count = BLOCK - kept;
    return kept;
}

/* Puts an interval before the one at a place. There is a free slot. */
static void insert(dao_swap_calendar_t *calendar, dao_swap_calendar_place_t place,
                   const dao_swap_interval_t *time)
{
    uint32_t block_count = calendar->block_count;
    bool is_first = place.index == 0;
    if (is_first && place.block > 0) { /* behind the last one of the block before */
        place.block--;
        place.index = calendar->blocks[place.block].count;
        is_first = false;
    }
    uint32_t low = place.block, high = place.block + 1;
    if (block_count == 0) {
        insert_block(calendar, 0);
    } else if (calendar->blocks[place.block].count == BLOCK) {
        uint32_t kept = split(calendar, place.block, place.index == BLOCK);
        bool is_behind = place.index > kept || kept == BLOCK;
        place.index -= is_behind ? kept : 0;
        place.block += is_behind ? 1 : 0;
        high++;
    }
    dao_swap_calendar_block_t *block = &calendar->blocks[place.block];
    dao_swap_interval_t *busy = intervals_of(calendar, place.block);
    memmove(busy + place.index + 1, busy + place.index, (block->count - place.index) * sizeof(*busy));
    busy[place.index] = *time;
    block->count++;
    DAO_ASSERT(!is_first || place.block == 0); /* no block before has another hole behind it */
    know(calendar, low, high, calendar->block_count != block_count);
}

/* Takes an interval out. */
static void take_out(dao_swap_calendar_t *calendar, dao_swap_calendar_place_t place)
{
    dao_swap_calendar_block_t *block = &calendar->blocks[place.block];
    dao_swap_interval_t *busy = intervals_of(calendar, place.block);
    block->count--;
    memmove(busy + place.index, busy + place.index + 1, (block->count - place.index) * sizeof(*busy));
    if (block->count == 0) {
        remove_block(calendar, place.block);
    }
}

/* Puts an interval in the place of some in a row, at least one. */
static void replace(dao_swap_calendar_t *calendar, dao_swap_calendar_place_t place, uint32_t count,
                    const dao_swap_interval_t *time)
{
    uint32_t block_count = calendar->block_count;
    intervals_of(calendar, place.block)[place.index] = *time;
    for (uint32_t i = 1; i < count; i++) {
        take_out(calendar, dao_swap_calendar_next(calendar, place));
    }
    uint32_t low = place.index == 0 && place.block > 0 ? place.block - 1 : place.block;
    uint32_t high = place.block + (count > 1 && place.block + 1 < calendar->block_count ? 2 : 1);
    know(calendar, low, high, calendar->block_count != block_count);
}

bool dao_swap_calendar_book(dao_swap_calendar_t *calendar, uint64_t begin_ns, uint64_t length_ns)
{
    if (calendar->block_count == calendar->block_capacity && !grow(calendar)) {
        return false;
    }
    dao_swap_interval_t time = {begin_ns, begin_ns + length_ns};
    uint64_t near_ns = calendar->least_hole_ns;
    dao_swap_calendar_place_t first =
        dao_swap_calendar_first(calendar, begin_ns > near_ns ? begin_ns - near_ns - 1 : 0);
    dao_swap_calendar_place_t place = first;
    const dao_swap_interval_t *busy;
    uint32_t count = 0; /* that melt into the new one */
    while ((busy = dao_swap_calendar_at(calendar, place)) != NULL &&
           busy->begin_ns <= time.end_ns + near_ns) {
        time.begin_ns = dao_smaller(time.begin_ns, busy->begin_ns);
        time.end_ns = dao_larger(time.end_ns, busy->end_ns);
        place = dao_swap_calendar_next(calendar, place);
        count++;
    }
    if (count > 0) {
        replace(calendar, first, count, &time);
    } else {
        insert(calendar, first, &time);
    }
    return true;
}

bool dao_swap_calendar_is_valid(const dao_swap_calendar_t *calendar)
{
    uint64_t before_ns = 0;
    bool is_valid = calendar->block_count <= calendar->block_capacity, is_first = true;
    for (uint32_t i = 0; i < calendar->block_count && is_valid; i++) {
        const dao_swap_calendar_block_t *block = &calendar->blocks[i];
        const dao_swap_interval_t *busy = intervals_of(calendar, i);
        is_valid = block->count > 0 && block->count <= BLOCK && block->first_begin_ns == busy[0].begin_ns &&
                   block->last_end_ns == busy[block->count - 1].end_ns &&
                   block->largest_hole_ns == largest_hole_in(calendar, i) &&
                   calendar->largest_holes[i / GROUP] == largest_hole_of_group(calendar, i / GROUP);
        for (uint32_t k = 0; k < block->count && is_valid; k++) {
            is_valid = busy[k].begin_ns < busy[k].end_ns && (is_first || before_ns < busy[k].begin_ns);
            before_ns = busy[k].end_ns;
            is_first = false;
        }
    }
    return is_valid;
}
