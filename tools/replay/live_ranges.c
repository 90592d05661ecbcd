/* SPDX-License-Identifier: Apache-2.0 */
/* An array in the order of addresses. As its ranges share no byte, both their begins and their ends ascend,
   and a new one has to be compared with its two neighbours alone:

       ranges    [0 .. 64)   [64 .. 96)   [256 .. 512)
       new                     ^    [96 .. 256) fits; [80 .. 128) shares bytes with the one before it

   A program has some thousand live blocks: moving what is behind a range takes less than finding a place in a
   tree. */
#include "tools/replay/live_ranges.h"

#include "base/report/assert.h"
#include "tools/base/grow.h"

#include <string.h>

void dao_live_ranges_finish(dao_live_ranges_t *live)
{
    dao_host_free(live->ranges);
    *live = (dao_live_ranges_t){0};
}

/* Finds the first range that begins there or later. */
static size_t find(const dao_live_ranges_t *live, uint64_t begin)
{
    size_t low = 0, high = live->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (live->ranges[middle].begin < begin) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

dao_status_t dao_live_ranges_add(dao_live_ranges_t *live, const dao_live_range_t *range,
                                 const dao_live_range_t **out_other)
{
    DAO_ASSERT(range->begin < range->end);
    DAO_ASSERT_HEAVY(dao_live_ranges_is_valid(live));
    size_t index = find(live, range->begin);
    *out_other = NULL;
    if (index < live->count && live->ranges[index].begin < range->end) {
        *out_other = &live->ranges[index];
    } else if (index > 0 && live->ranges[index - 1].end > range->begin) {
        *out_other = &live->ranges[index - 1];
    }
    if (*out_other != NULL) {
        return DAO_OK;
    }
    dao_live_range_t *grown =
        dao_tool_grow(live->ranges, &live->capacity, live->count, sizeof(*live->ranges));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    live->ranges = grown;
    memmove(&grown[index + 1], &grown[index], (live->count - index) * sizeof(*grown));
    grown[index] = *range;
    live->count++;
    DAO_ASSERT_HEAVY(dao_live_ranges_is_valid(live));
    return DAO_OK;
}

void dao_live_ranges_remove(dao_live_ranges_t *live, uint64_t begin, uint32_t owner)
{
    DAO_ASSERT_HEAVY(dao_live_ranges_is_valid(live));
    size_t index = find(live, begin);
    if (index == live->count || live->ranges[index].begin != begin || live->ranges[index].owner != owner) {
        return;
    }
    live->count--;
    memmove(&live->ranges[index], &live->ranges[index + 1], (live->count - index) * sizeof(*live->ranges));
    DAO_ASSERT_HEAVY(dao_live_ranges_is_valid(live));
}

bool dao_live_ranges_is_valid(const dao_live_ranges_t *live)
{
    bool is_valid = live->count <= live->capacity && (live->capacity == 0 || live->ranges != NULL);
    for (size_t i = 0; i < live->count && is_valid; i++) {
        is_valid = live->ranges[i].begin < live->ranges[i].end &&
                   (i == 0 || live->ranges[i - 1].end <= live->ranges[i].begin);
    }
    return is_valid;
}
