#include "planning/shelf.h"

#include "base/assert.h"
#include "base/math.h"

#include <string.h>

/* Entries that are looked at together: their numbers fit a byte. */
#define STRETCH 64u

bool dao_plan_shelf_init(dao_plan_shelf_t *shelf, dao_plan_memory_t *memory, uint32_t capacity)
{
    size_t padded = dao_round_up((uint64_t)capacity + 1, STRETCH);
    *shelf = (dao_plan_shelf_t){.capacity = capacity};
    if ((shelf->spans = dao_plan_take(memory, padded, sizeof(*shelf->spans))) == NULL ||
        (shelf->begins = dao_plan_take(memory, padded, sizeof(*shelf->begins))) == NULL ||
        (shelf->ends = dao_plan_take(memory, padded, sizeof(*shelf->ends))) == NULL) {
        dao_plan_shelf_finish(shelf, memory);
        return false;
    }
    return true;
}

void dao_plan_shelf_finish(dao_plan_shelf_t *shelf, dao_plan_memory_t *memory)
{
    dao_plan_give(memory, shelf->spans);
    dao_plan_give(memory, shelf->begins);
    dao_plan_give(memory, shelf->ends);
    *shelf = (dao_plan_shelf_t){0};
}

void dao_plan_shelf_put(dao_plan_shelf_t *shelf, const dao_plan_shelf_entry_t *entry)
{
    DAO_ASSERT(shelf->count < shelf->capacity);
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
    shelf->begins[low] = entry->begin;
    shelf->ends[low] = entry->end;
    shelf->count++;
}

/* Lists the entries of a stretch that are alive, by their places in it, and gives their number. No branch: whether an entry is
   alive is as good as random. */
static uint32_t list_alive(const uint32_t *begins, const uint32_t *ends, const dao_plan_shelf_life_t *life,
                           uint8_t alive[STRETCH])
{
    const uint32_t begin = life->begin, end = life->end;
    const uint32_t second_begin = life->second_begin, second_end = life->second_end;
    uint8_t is_alive[STRETCH];
    for (uint32_t i = 0; i < STRETCH; i++) {
        is_alive[i] =
            ((begins[i] < end) & (ends[i] > begin)) | ((begins[i] < second_end) & (ends[i] > second_begin));
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < STRETCH; i++) {
        alive[count] = (uint8_t)i;
        count += is_alive[i];
    }
    return count;
}

uint64_t dao_plan_shelf_find(const dao_plan_shelf_t *shelf, const dao_plan_shelf_life_t *life,
                             uint64_t size_bytes, uint64_t alignment_bytes, bool is_best_fit)
{
    uint64_t offset = 0, chosen = 0, least_hole = UINT64_MAX;
    for (uint32_t first = 0; first < shelf->count; first += STRETCH) {
        const dao_plan_span_t *spans = shelf->spans + first;
        uint8_t alive[STRETCH];
        uint32_t count = list_alive(shelf->begins + first, shelf->ends + first, life, alive);
        for (uint32_t i = 0; i < count; i++) {
            const dao_plan_span_t *span = &spans[alive[i]];
            if (offset + size_bytes <= span->low) { /* a hole from `offset` to the entry */
                uint64_t hole = span->low - offset;
                if (!is_best_fit) {
                    return offset;
                }
                chosen = hole < least_hole ? offset : chosen;
                least_hole = hole < least_hole ? hole : least_hole;
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
