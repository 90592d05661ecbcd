/* SPDX-License-Identifier: Apache-2.0 */
/* Two sorted arrays. Both stay short: a link that is busy has one long interval, and free bytes of one moment
   are one entry.

   Invariants: busy[i].end_ns < busy[i + 1].begin_ns; entries ascend strictly in time and have at least one
   byte; size_bytes is their sum. */
#include "planning/swap/times/swap_calendar.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

#include <string.h>

#define FIRST_CAPACITY 64u

void dao_swap_calendar_init(dao_swap_calendar_t *calendar, uint64_t least_hole_ns)
{
    *calendar = (dao_swap_calendar_t){.least_hole_ns = least_hole_ns};
}

void dao_swap_calendar_finish(dao_swap_calendar_t *calendar)
{
    dao_host_free(calendar->busy);
    *calendar = (dao_swap_calendar_t){0};
}

size_t dao_swap_calendar_first(const dao_swap_calendar_t *calendar, uint64_t time_ns)
{
    size_t low = 0, high = calendar->busy_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (calendar->busy[middle].end_ns > time_ns) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

uint64_t dao_swap_calendar_find(const dao_swap_calendar_t *calendar, uint64_t from_ns, uint64_t length_ns)
{
    for (size_t i = dao_swap_calendar_first(calendar, from_ns); i < calendar->busy_count; i++) {
        if (calendar->busy[i].begin_ns >= from_ns + length_ns) {
            break;
        }
        from_ns = calendar->busy[i].end_ns;
    }
    return from_ns;
}

bool dao_swap_calendar_book(dao_swap_calendar_t *calendar, uint64_t begin_ns, uint64_t length_ns)
{
    uint64_t end_ns = begin_ns + length_ns, near_ns = calendar->least_hole_ns;
    size_t at = dao_swap_calendar_first(calendar, begin_ns > near_ns ? begin_ns - near_ns - 1 : 0);
    size_t end = at; /* busy[at .. end - 1] melt into the new one */
    for (; end < calendar->busy_count && calendar->busy[end].begin_ns <= end_ns + near_ns; end++) {
        begin_ns = calendar->busy[end].begin_ns < begin_ns ? calendar->busy[end].begin_ns : begin_ns;
        end_ns = calendar->busy[end].end_ns > end_ns ? calendar->busy[end].end_ns : end_ns;
    }
    if (end == at && calendar->busy_count == calendar->busy_capacity) {
        size_t capacity = calendar->busy_capacity == 0 ? FIRST_CAPACITY : 2 * calendar->busy_capacity;
        dao_swap_interval_t *busy = dao_host_realloc(calendar->busy, capacity, sizeof(*busy));
        if (busy == NULL) {
            return false;
        }
        calendar->busy = busy;
        calendar->busy_capacity = capacity;
    }
    memmove(calendar->busy + at + 1, calendar->busy + end,
            (calendar->busy_count - end) * sizeof(*calendar->busy));
    calendar->busy[at] = (dao_swap_interval_t){begin_ns, end_ns};
    calendar->busy_count = calendar->busy_count + 1 - (end - at);
    DAO_ASSERT(calendar->busy_count <= calendar->busy_capacity);
    DAO_ASSERT(at == 0 || calendar->busy[at - 1].end_ns < begin_ns);
    DAO_ASSERT(at + 1 == calendar->busy_count || end_ns < calendar->busy[at + 1].begin_ns);
    return true;
}

bool dao_swap_calendar_is_valid(const dao_swap_calendar_t *calendar)
{
    for (size_t i = 0; i < calendar->busy_count; i++) {
        if (calendar->busy[i].begin_ns >= calendar->busy[i].end_ns ||
            (i > 0 && calendar->busy[i - 1].end_ns >= calendar->busy[i].begin_ns)) {
            return false;
        }
    }
    return calendar->busy_count <= calendar->busy_capacity;
}

void dao_swap_room_init(dao_swap_room_t *room)
{
    *room = (dao_swap_room_t){0};
}

void dao_swap_room_finish(dao_swap_room_t *room)
{
    dao_host_free(room->entries);
    *room = (dao_swap_room_t){0};
}

/* The number of entries, from the first on, that are free at `time_ns`. */
static size_t free_count(const dao_swap_room_t *room, uint64_t time_ns)
{
    size_t low = 0, high = room->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (room->entries[room->first + middle].from_ns > time_ns) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Makes place for one more behind the last: moves all to the front, or grows. */
static bool make_place(dao_swap_room_t *room)
{
    if (room->first + room->count < room->capacity) {
        return true;
    }
    if (room->first > room->capacity / 2) {
        memmove(room->entries, room->entries + room->first, room->count * sizeof(*room->entries));
        room->first = 0;
        return true;
    }
    size_t capacity = room->capacity == 0 ? FIRST_CAPACITY : 2 * room->capacity;
    dao_swap_room_entry_t *entries = dao_host_realloc(room->entries, capacity, sizeof(*entries));
    if (entries == NULL) {
        return false;
    }
    room->entries = entries;
    room->capacity = capacity;
    return true;
}

bool dao_swap_room_give(dao_swap_room_t *room, uint64_t from_ns, uint64_t size_bytes)
{
    DAO_ASSERT(size_bytes > 0);
    if (!make_place(room)) {
        return false;
    }
    size_t at = free_count(room, from_ns);
    dao_swap_room_entry_t *entry = room->entries + room->first + at;
    if (at > 0 && entry[-1].from_ns == from_ns) {
        entry[-1].size_bytes += size_bytes;
    } else {
        memmove(entry + 1, entry, (room->count - at) * sizeof(*entry));
        *entry = (dao_swap_room_entry_t){from_ns, size_bytes};
        room->count++;
    }
    room->size_bytes += size_bytes;
    DAO_ASSERT(room->first + room->count <= room->capacity);
    DAO_ASSERT(at == 0 || room->entries[room->first + at - 1].from_ns <= from_ns);
    return true;
}

uint64_t dao_swap_room_take_first(dao_swap_room_t *room, uint64_t size_bytes)
{
    DAO_ASSERT(size_bytes <= room->size_bytes);
    uint64_t ready_ns = 0;
    room->size_bytes -= size_bytes;
    while (size_bytes > 0) {
        dao_swap_room_entry_t *entry = &room->entries[room->first];
        ready_ns = entry->from_ns;
        if (entry->size_bytes > size_bytes) {
            entry->size_bytes -= size_bytes;
            break;
        }
        size_bytes -= entry->size_bytes;
        room->first++;
        room->count--;
    }
    DAO_ASSERT((room->count == 0) == (room->size_bytes == 0));
    return ready_ns;
}

uint64_t dao_swap_room_take_last(dao_swap_room_t *room, uint64_t size_bytes, uint64_t until_ns)
{
    DAO_ASSERT(size_bytes <= room->size_bytes);
    size_t end = free_count(room, until_ns), begin = end;
    uint64_t taken = 0, ready_ns = 0;
    while (begin > 0 && taken < size_bytes) {
        dao_swap_room_entry_t *entry = &room->entries[room->first + begin - 1];
        ready_ns = entry->from_ns > ready_ns ? entry->from_ns : ready_ns;
        uint64_t part = entry->size_bytes < size_bytes - taken ? entry->size_bytes : size_bytes - taken;
        taken += part;
        room->size_bytes -= part;
        entry->size_bytes -= part;
        if (entry->size_bytes > 0) {
            break;
        }
        begin--;
    }
    dao_swap_room_entry_t *first = room->entries + room->first;
    memmove(first + begin, first + end, (room->count - end) * sizeof(*first));
    room->count -= end - begin;
    DAO_ASSERT((room->count == 0) == (room->size_bytes == 0));
    return taken < size_bytes ? dao_swap_room_take_first(room, size_bytes - taken) : ready_ns;
}

bool dao_swap_room_is_valid(const dao_swap_room_t *room)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < room->count; i++) {
        const dao_swap_room_entry_t *entry = &room->entries[room->first + i];
        sum += entry->size_bytes;
        if (entry->size_bytes == 0 || (i > 0 && entry[-1].from_ns >= entry->from_ns)) {
            return false;
        }
    }
    return sum == room->size_bytes && room->first + room->count <= room->capacity;
}
