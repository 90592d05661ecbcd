#include "planning/shelf.h"

#include "base/assert.h"
#include "base/math.h"

#include <string.h>

bool dao_plan_shelf_init(dao_plan_shelf_t *shelf, dao_plan_memory_t *memory, uint32_t capacity)
{
    *shelf = (dao_plan_shelf_t){.capacity = capacity};
    shelf->entries = dao_plan_take(memory, capacity, sizeof(*shelf->entries));
    return shelf->entries != NULL;
}

void dao_plan_shelf_finish(dao_plan_shelf_t *shelf, dao_plan_memory_t *memory)
{
    dao_plan_give(memory, shelf->entries);
    *shelf = (dao_plan_shelf_t){0};
}

void dao_plan_shelf_put(dao_plan_shelf_t *shelf, const dao_plan_shelf_entry_t *entry)
{
    DAO_ASSERT(shelf->count < shelf->capacity);
    uint32_t low = 0, high = shelf->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (shelf->entries[middle].low <= entry->low) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    memmove(shelf->entries + low + 1, shelf->entries + low, (shelf->count - low) * sizeof(*shelf->entries));
    shelf->entries[low] = *entry;
    shelf->count++;
}

/* No branch: whether an entry is alive is as good as random. */
static bool is_alive(const dao_plan_shelf_entry_t *entry, const dao_plan_shelf_life_t *life)
{
    bool in_first = (entry->begin < life->end) & (entry->end > life->begin);
    bool in_second = (entry->begin < life->second_end) & (entry->end > life->second_begin);
    return in_first | in_second;
}

uint64_t dao_plan_shelf_find(const dao_plan_shelf_t *shelf, const dao_plan_shelf_life_t *life,
                             uint64_t size_bytes, uint64_t alignment_bytes, bool is_best_fit)
{
    uint64_t offset = 0, chosen = 0, least_hole = UINT64_MAX;
    for (uint32_t i = 0; i < shelf->count; i++) {
        const dao_plan_shelf_entry_t *entry = &shelf->entries[i];
        bool counts = is_alive(entry, life);
        if (counts & (offset + size_bytes <= entry->low)) { /* a hole from `offset` to the entry */
            uint64_t hole = entry->low - offset;
            chosen = hole < least_hole ? offset : chosen;
            least_hole = hole < least_hole ? hole : least_hole;
            if (!is_best_fit) {
                break;
            }
        }
        uint64_t top = counts ? dao_round_up(entry->high, alignment_bytes) : 0;
        offset = top > offset ? top : offset;
    }
    return least_hole == UINT64_MAX ? offset : chosen;
}

bool dao_plan_shelf_is_valid(const dao_plan_shelf_t *shelf)
{
    bool is_valid = shelf->count <= shelf->capacity;
    for (uint32_t i = 0; i < shelf->count && is_valid; i++) {
        const dao_plan_shelf_entry_t *entry = &shelf->entries[i];
        is_valid =
            entry->low < entry->high && entry->begin < entry->end && (i == 0 || entry[-1].low <= entry->low);
    }
    return is_valid;
}
