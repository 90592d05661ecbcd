/* SPDX-License-Identifier: Apache-2.0 */
#include "planning/offsets/support/shelf.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"

#include <string.h>

#define STRETCH DAO_PLAN_SHELF_STRETCH

/* Gathers the lowest bits of a word's eight bytes in the highest one of the product. */
#define GATHER_BITS UINT64_C(0x0102040810204080)

/* Entries that are looked at together: a byte each of a word. */
#define GROUP ((uint32_t)sizeof(uint64_t))

/* Splits leave stretches at least half full, but for the last one. */
#define FULL_ENOUGH (STRETCH / 2)

bool dao_plan_shelf_init(dao_plan_shelf_t *shelf, dao_plan_memory_t *memory, uint32_t capacity,
                         uint32_t last_time)
{
    *shelf = (dao_plan_shelf_t){.capacity = capacity, .stretch_capacity = capacity / FULL_ENOUGH + 2};
    while (last_time >> shelf->time_shift >= INT16_MAX) {
        shelf->time_shift++;
    }
    if ((shelf->stretches =
             dao_plan_memory_alloc(memory, shelf->stretch_capacity, sizeof(*shelf->stretches))) == NULL ||
        (shelf->order = dao_plan_memory_alloc(memory, shelf->stretch_capacity, sizeof(*shelf->order))) ==
            NULL) {
        dao_plan_shelf_finish(shelf, memory);
        return false;
    }
    return true;
}

void dao_plan_shelf_finish(dao_plan_shelf_t *shelf, dao_plan_memory_t *memory)
{
    dao_plan_memory_free(memory, shelf->stretches);
    dao_plan_memory_free(memory, shelf->order);
    *shelf = (dao_plan_shelf_t){0};
}

static dao_plan_shelf_stretch_t *stretch_at(const dao_plan_shelf_t *shelf, uint32_t place)
{
    return &shelf->stretches[shelf->order[place]];
}

/* Rounded outwards. */
static int16_t short_begin(const dao_plan_shelf_t *shelf, uint32_t time)
{
    return (int16_t)(time >> shelf->time_shift);
}

static int16_t short_end(const dao_plan_shelf_t *shelf, uint32_t time)
{
    uint32_t lost = ((uint32_t)1 << shelf->time_shift) - 1;
    return (int16_t)((time + lost) >> shelf->time_shift);
}

/* Puts an empty stretch at a place in the order. */
static dao_plan_shelf_stretch_t *insert_stretch(dao_plan_shelf_t *shelf, uint32_t place)
{
    DAO_ASSERT(shelf->stretch_count < shelf->stretch_capacity);
    memmove(shelf->order + place + 1, shelf->order + place,
            (shelf->stretch_count - place) * sizeof(*shelf->order));
    shelf->order[place] = shelf->stretch_count++;
    dao_plan_shelf_stretch_t *stretch = stretch_at(shelf, place);
    memset(stretch, 0, sizeof(*stretch));
    return stretch;
}

/* Moves `count` entries from an index of a stretch on into another place, which may overlap. */
static void move_entries(dao_plan_shelf_stretch_t *to, uint32_t to_index,
                         const dao_plan_shelf_stretch_t *from, uint32_t index, uint32_t count)
{
    memmove(to->entries + to_index, from->entries + index, count * sizeof(*to->entries));
    memmove(to->begins + to_index, from->begins + index, count * sizeof(*to->begins));
    memmove(to->ends + to_index, from->ends + index, count * sizeof(*to->ends));
}

/* Moves the second half of a full stretch into a new one behind it. */
static void split(dao_plan_shelf_t *shelf, uint32_t place)
{
    dao_plan_shelf_stretch_t *behind = insert_stretch(shelf, place + 1), *stretch = stretch_at(shelf, place);
    move_entries(behind, 0, stretch, FULL_ENOUGH, STRETCH - FULL_ENOUGH);
    memset(stretch->begins + FULL_ENOUGH, 0, (STRETCH - FULL_ENOUGH) * sizeof(*stretch->begins));
    memset(stretch->ends + FULL_ENOUGH, 0, (STRETCH - FULL_ENOUGH) * sizeof(*stretch->ends));
    stretch->count = FULL_ENOUGH;
    behind->count = STRETCH - FULL_ENOUGH;
}

/* The last stretch whose first entry is not above `low_byte`; the first one if there is none. */
static uint32_t find_stretch(const dao_plan_shelf_t *shelf, uint64_t low_byte)
{
    uint32_t low = 0, high = shelf->stretch_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (stretch_at(shelf, middle)->entries[0].low <= low_byte) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The entries of a stretch that are not above `low_byte`. */
static uint32_t count_until(const dao_plan_shelf_stretch_t *stretch, uint64_t low_byte)
{
    uint32_t low = 0, high = stretch->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (stretch->entries[middle].low <= low_byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void dao_plan_shelf_put(dao_plan_shelf_t *shelf, const dao_plan_shelf_entry_t *entry)
{
    DAO_ASSERT(shelf->count < shelf->capacity);
    DAO_ASSERT(entry->begin < entry->end && (entry->end - 1) >> shelf->time_shift < INT16_MAX);
    DAO_ASSERT(entry->low < entry->high);
    if (shelf->stretch_count == 0) {
        (void)insert_stretch(shelf, 0);
    }
    uint32_t place = find_stretch(shelf, entry->low);
    if (stretch_at(shelf, place)->count == STRETCH) {
        split(shelf, place);
        place += stretch_at(shelf, place + 1)->entries[0].low <= entry->low ? 1 : 0;
    }
    dao_plan_shelf_stretch_t *stretch = stretch_at(shelf, place);
    uint32_t at = count_until(stretch, entry->low);
    move_entries(stretch, at + 1, stretch, at, stretch->count - at);
    stretch->entries[at] = *entry;
    stretch->begins[at] = short_begin(shelf, entry->begin);
    stretch->ends[at] = short_end(shelf, entry->end);
    stretch->count++;
    shelf->count++;
    DAO_ASSERT(at == 0 || stretch->entries[at - 1].low <= entry->low);
    DAO_ASSERT(at + 1 == stretch->count || entry->low <= stretch->entries[at + 1].low);
}

/* The entries of a stretch that are alive in [begin, end), a bit each. No branch: whether an entry is alive
   is as good as random. Vectors, so that builds for tests do not look at them one by one. */
static uint64_t alive_between(const int16_t *begins, const int16_t *ends, int16_t first, int16_t last)
{
    typedef int16_t times_t __attribute__((vector_size(GROUP * sizeof(int16_t))));
    typedef uint8_t bytes_t __attribute__((vector_size(GROUP)));
    uint64_t alive = 0;
    for (uint32_t i = 0; i < STRETCH; i += GROUP) {
        times_t begin, end;
        memcpy(&begin, begins + i, sizeof(begin));
        memcpy(&end, ends + i, sizeof(end));
        bytes_t is_alive = __builtin_convertvector((begin < last) & (end > first) & 1, bytes_t);
        uint64_t word;
        memcpy(&word, &is_alive, sizeof(word));
        word = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(word) : word;
        alive |= (word * GATHER_BITS >> 56) << i;
    }
    return alive;
}

static uint64_t alive_of(const dao_plan_shelf_t *shelf, const dao_plan_shelf_stretch_t *stretch,
                         const dao_plan_shelf_life_t *life)
{
    uint64_t alive = alive_between(stretch->begins, stretch->ends, short_begin(shelf, life->begin),
                                   short_end(shelf, life->end));
    if (life->second_begin < life->second_end) {
        alive |= alive_between(stretch->begins, stretch->ends, short_begin(shelf, life->second_begin),
                               short_end(shelf, life->second_end));
    }
    return alive;
}

static bool is_alive(const dao_plan_shelf_entry_t *entry, const dao_plan_shelf_life_t *life)
{
    return (entry->begin < life->end && entry->end > life->begin) ||
           (entry->begin < life->second_end && entry->end > life->second_begin &&
            life->second_begin < life->second_end);
}

uint64_t dao_plan_shelf_find(const dao_plan_shelf_t *shelf, const dao_plan_shelf_life_t *life,
                             uint64_t size_bytes, uint64_t alignment_bytes, bool is_best_fit)
{
    DAO_ASSERT(dao_is_power_of_two(alignment_bytes));
    uint64_t offset = 0, chosen = 0, least_hole = UINT64_MAX;
    uint64_t enough_bytes = is_best_fit ? size_bytes : UINT64_MAX - 1; /* no hole is better */
    for (uint32_t place = 0; place < shelf->stretch_count; place++) {
        const dao_plan_shelf_stretch_t *stretch = stretch_at(shelf, place);
        for (uint64_t alive = alive_of(shelf, stretch, life); alive != 0; alive &= alive - 1) {
            const dao_plan_shelf_entry_t *span = &stretch->entries[__builtin_ctzll(alive)];
            if (shelf->time_shift > 0 && !is_alive(span, life)) {
                continue;
            }
            if (offset + size_bytes <= span->low && span->low - offset < least_hole) {
                chosen = offset;
                least_hole = span->low - offset; /* from `offset` to the entry */
                if (least_hole <= enough_bytes) {
                    return chosen;
                }
            }
            uint64_t top = dao_round_up(span->high, alignment_bytes);
            offset = top > offset ? top : offset;
        }
    }
    return least_hole == UINT64_MAX ? offset : chosen;
}

bool dao_plan_shelf_is_valid(const dao_plan_shelf_t *shelf)
{
    bool is_valid = shelf->count <= shelf->capacity && shelf->stretch_count <= shelf->stretch_capacity;
    uint64_t before = 0;
    uint32_t count = 0;
    for (uint32_t place = 0; place < shelf->stretch_count && is_valid; place++) {
        const dao_plan_shelf_stretch_t *stretch = stretch_at(shelf, place);
        is_valid = stretch->count > 0 && stretch->count <= STRETCH;
        for (uint32_t i = 0; i < STRETCH && is_valid; i++) {
            const dao_plan_shelf_entry_t *entry = &stretch->entries[i];
            if (i >= stretch->count) {
                is_valid = stretch->begins[i] == 0 && stretch->ends[i] == 0;
                continue;
            }
            is_valid = entry->low < entry->high && entry->begin < entry->end && before <= entry->low &&
                       stretch->begins[i] == short_begin(shelf, entry->begin) &&
                       stretch->ends[i] == short_end(shelf, entry->end);
            before = entry->low;
        }
        count += stretch->count;
    }
    return is_valid && count == shelf->count;
}
