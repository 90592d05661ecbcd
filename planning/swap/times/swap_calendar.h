/* SPDX-License-Identifier: Apache-2.0 */
/* Busy times of a link, in logical time. */
#ifndef DAO_PLANNING_SWAP_CALENDAR_H
#define DAO_PLANNING_SWAP_CALENDAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dao_swap_interval {
    uint64_t begin_ns, end_ns;
} dao_swap_interval_t;

#define DAO_SWAP_CALENDAR_BLOCK 32u /* intervals of a block */
#define DAO_SWAP_CALENDAR_GROUP 32u /* blocks of a group */

/* Some intervals in a row. A hole is behind each interval, up to the next one's begin. */
typedef struct dao_swap_calendar_block {
    uint64_t first_begin_ns, last_end_ns;
    uint64_t largest_hole_ns;
    uint32_t slot; /* its intervals: slots[slot x DAO_SWAP_CALENDAR_BLOCK ..] */
    uint32_t count;
} dao_swap_calendar_block_t;

/* When a link is busy: intervals in order, with time between any two of them. Blocks, and groups of blocks,
   know their largest hole, so those in which a copy finds none are passed at once. */
typedef struct dao_swap_calendar {
    dao_swap_interval_t *slots;
    dao_swap_calendar_block_t *blocks; /* in order; behind the last one those whose slots are free */
    uint64_t *largest_holes;           /* of each group of blocks */
    uint32_t block_count, block_capacity;
    uint64_t least_hole_ns; /* shorter times between two intervals are forgotten: nothing fits there */
} dao_swap_calendar_t;

/* An interval of a calendar, until it changes. */
typedef struct dao_swap_calendar_place {
    uint32_t block, index;
} dao_swap_calendar_place_t;

void dao_swap_calendar_init(dao_swap_calendar_t *calendar, uint64_t least_hole_ns);
void dao_swap_calendar_finish(dao_swap_calendar_t *calendar);

/* The first interval that ends after `time_ns`, or the place behind the last one. Cost: O(log n). */
dao_swap_calendar_place_t dao_swap_calendar_first(const dao_swap_calendar_t *calendar, uint64_t time_ns);

/* The interval at a place; NULL behind the last one. */
static inline const dao_swap_interval_t *dao_swap_calendar_at(const dao_swap_calendar_t *calendar,
                                                              dao_swap_calendar_place_t place)
{
    if (place.block >= calendar->block_count) {
        return NULL;
    }
    return calendar->slots + (size_t)calendar->blocks[place.block].slot * DAO_SWAP_CALENDAR_BLOCK +
           place.index;
}

/* The place behind one that has an interval. */
static inline dao_swap_calendar_place_t dao_swap_calendar_next(const dao_swap_calendar_t *calendar,
                                                               dao_swap_calendar_place_t place)
{
    bool is_last = place.index + 1 == calendar->blocks[place.block].count;
    return is_last ? (dao_swap_calendar_place_t){place.block + 1, 0}
                   : (dao_swap_calendar_place_t){place.block, place.index + 1};
}

/* The earliest time from `from_ns` on at which `length_ns` (at least 1) are free. Cost: a walk over a block,
   a group and the groups up to there. */
uint64_t dao_swap_calendar_find(const dao_swap_calendar_t *calendar, uint64_t from_ns, uint64_t length_ns);

/* Takes that time. False if there is no host memory: nothing is changed. Cost: that of a walk over a block,
   and over all blocks each time that one is split. */
bool dao_swap_calendar_book(dao_swap_calendar_t *calendar, uint64_t begin_ns, uint64_t length_ns);

/* The end of the last time that is taken; 0 if there is none. */
static inline uint64_t dao_swap_calendar_end(const dao_swap_calendar_t *calendar)
{
    return calendar->block_count > 0 ? calendar->blocks[calendar->block_count - 1].last_end_ns : 0;
}

bool dao_swap_calendar_is_valid(const dao_swap_calendar_t *calendar);

#endif
