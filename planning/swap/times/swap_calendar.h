/* SPDX-License-Identifier: Apache-2.0 */
/* Busy times of a link, and bytes by the time from which they are free, both in logical time. */
#ifndef DAO_PLANNING_SWAP_CALENDAR_H
#define DAO_PLANNING_SWAP_CALENDAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* When a link is busy: intervals in order, with time between any two of them. */
typedef struct dao_swap_interval {
    uint64_t begin_ns, end_ns;
} dao_swap_interval_t;

typedef struct dao_swap_calendar {
    dao_swap_interval_t *busy;
    size_t busy_count, busy_capacity;
    uint64_t least_hole_ns; /* shorter times between two intervals are forgotten: nothing fits there */
} dao_swap_calendar_t;

void dao_swap_calendar_init(dao_swap_calendar_t *calendar, uint64_t least_hole_ns);
void dao_swap_calendar_finish(dao_swap_calendar_t *calendar);

/* The first interval that ends after `time_ns`; busy_count if there is none. */
size_t dao_swap_calendar_first(const dao_swap_calendar_t *calendar, uint64_t time_ns);

/* The earliest time from `from_ns` on at which `length_ns` (at least 1) are free. */
uint64_t dao_swap_calendar_find(const dao_swap_calendar_t *calendar, uint64_t from_ns, uint64_t length_ns);

/* Takes that time. False if there is no host memory: nothing is changed. */
bool dao_swap_calendar_book(dao_swap_calendar_t *calendar, uint64_t begin_ns, uint64_t length_ns);

/* The end of the last time that is taken; 0 if there is none. */
static inline uint64_t dao_swap_calendar_end(const dao_swap_calendar_t *calendar)
{
    return calendar->busy_count > 0 ? calendar->busy[calendar->busy_count - 1].end_ns : 0;
}

bool dao_swap_calendar_is_valid(const dao_swap_calendar_t *calendar);

/* Free bytes by the time from which they are free, earliest first. */
typedef struct dao_swap_room_entry {
    uint64_t from_ns;
    uint64_t size_bytes; /* at least 1 */
} dao_swap_room_entry_t;

typedef struct dao_swap_room {
    dao_swap_room_entry_t *entries;
    size_t first, count, capacity; /* entries[first .. first + count - 1] */
    uint64_t size_bytes;           /* sum of the entries */
} dao_swap_room_t;

void dao_swap_room_init(dao_swap_room_t *room);
void dao_swap_room_finish(dao_swap_room_t *room);

/* False if there is no host memory: nothing is changed. */
bool dao_swap_room_give(dao_swap_room_t *room, uint64_t from_ns, uint64_t size_bytes);

/* Takes bytes, of which there are enough, and tells from when on all of them are free: those that are free
   first, or with `until_ns` those that become free last, but not after it, as far as there are such. */
uint64_t dao_swap_room_take_first(dao_swap_room_t *room, uint64_t size_bytes);
uint64_t dao_swap_room_take_last(dao_swap_room_t *room, uint64_t size_bytes, uint64_t until_ns);

bool dao_swap_room_is_valid(const dao_swap_room_t *room);

#endif
