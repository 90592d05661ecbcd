/* SPDX-License-Identifier: Apache-2.0 */
#include "planning/offsets/support/shelf.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"

#include <string.h>

/* Entries that are looked at together: a bit each. */
#define STRETCH 64u

/* Gathers the lowest bits of a word's eight bytes in the highest one of the product. */
#define GATHER_BITS UINT64_C(0x0102040810204080)

bool dao_plan_shelf_init(dao_plan_shelf_t *shelf, dao_plan_memory_t *memory, uint32_t capacity)
{
    size_t padded = dao_round_up((uint64_t)capacity + 1, STRETCH);
    *shelf = (dao_plan_shelf_t){.capacity = capacity};
    if ((shelf->spans = dao_plan_memory_alloc(memory, padded, sizeof(*shelf->spans))) == NULL ||
        (shelf->begins = dao_plan_memory_alloc(memory, padded, sizeof(*shelf->begins))) == NULL ||
        (shelf->ends = dao_plan_memory_alloc(memory, padded, sizeof(*shelf->ends))) == NULL) {
        dao_plan_shelf_finish(shelf, memory);
        return false;
    }
    return true;
}

void dao_plan_shelf_finish(dao_plan_shelf_t *shelf, dao_plan_memory_t *memory)
{
    dao_plan_memory_free(memory, shelf->spans);
    dao_plan_memory_free(memory, shelf->begins);
    dao_plan_memory_free(memory, shelf->ends);
    *shelf = (dao_plan_shelf_t){0};
}

void dao_plan_shelf_put(dao_plan_shelf_t *shelf, const dao_plan_shelf_entry_t *entry)
{
    DAO_ASSERT(shelf->count < shelf->capacity);
    DAO_ASSERT(entry->begin < entry->end && entry->end <= DAO_PLAN_SHELF_TIME_MAX);
    DAO_ASSERT(entry->low < entry->high);
    uint32_t low = 0, high = shelf->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (shelf->spans[middle].low <= entry->low) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    size_t behind = shelf->count - low;
    memmove(shelf->spans + low + 1, shelf->spans + low, behind * sizeof(*shelf->spans));
    memmove(shelf->begins + low + 1, shelf->begins + low, behind * sizeof(*shelf->begins));
    memmove(shelf->ends + low + 1, shelf->ends + low, behind * sizeof(*shelf->ends));
    shelf->spans[low] = (dao_plan_span_t){.low = entry->low, .high = entry->high};
    shelf->begins[low] = (int16_t)entry->begin;
    shelf->ends[low] = (int16_t)entry->end;
    shelf->count++;
    DAO_ASSERT(low == 0 || shelf->spans[low - 1].low <= entry->low);
    DAO_ASSERT(low + 1 == shelf->count || entry->low <= shelf->spans[low + 1].low);
}

/* The entries of a stretch that are alive in [begin, end), a bit each. No branch: whether an entry is alive
   is as good as random. */
static uint64_t alive_between(const int16_t *begins, const int16_t *ends, uint32_t begin, uint32_t end)
{
    const int16_t first = (int16_t)begin, last = (int16_t)end;
    uint8_t is_alive[STRETCH];
    for (uint32_t i = 0; i < STRETCH; i++) {
        is_alive[i] = (begins[i] < last) & (ends[i] > first);
    }
    uint64_t alive = 0;
    for (uint32_t i = 0; i < STRETCH; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, is_alive + i, sizeof(word));
        word = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(word) : word;
        alive |= (word * GATHER_BITS >> 56) << i;
    }
    return alive;
}

static uint64_t alive_of(const dao_plan_shelf_t *shelf, uint32_t first, const dao_plan_shelf_life_t *life)
{
    const int16_t *begins = shelf->begins + first, *ends = shelf->ends + first;
    uint64_t alive = alive_between(begins, ends, life->begin, life->end);
    if (life->second_begin < life->second_end) {
        alive |= alive_between(begins, ends, life->second_begin, life->second_end);
    }
    return alive;
}

uint64_t dao_plan_shelf_find(const dao_plan_shelf_t *shelf, const dao_plan_shelf_life_t *life,
                             uint64_t size_bytes, uint64_t alignment_bytes, bool is_best_fit)
{
    DAO_ASSERT(dao_is_power_of_two(alignment_bytes));
    DAO_ASSERT(life->end <= DAO_PLAN_SHELF_TIME_MAX && life->second_end <= DAO_PLAN_SHELF_TIME_MAX);
    uint64_t offset = 0, chosen = 0, least_hole = UINT64_MAX;
    uint64_t enough_bytes = is_best_fit ? size_bytes : UINT64_MAX - 1; /* no hole is better */
    for (uint32_t first = 0; first < shelf->count; first += STRETCH) {
        for (uint64_t alive = alive_of(shelf, first, life); alive != 0; alive &= alive - 1) {
            const dao_plan_span_t *span = &shelf->spans[first + (uint32_t)__builtin_ctzll(alive)];
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
    bool is_valid = shelf->count <= shelf->capacity;
    for (uint32_t i = 0; i < shelf->count && is_valid; i++) {
        const dao_plan_span_t *span = &shelf->spans[i];
        is_valid = span->low < span->high && shelf->begins[i] < shelf->ends[i] &&
                   (i == 0 || span[-1].low <= span->low);
    }
    return is_valid;
}
