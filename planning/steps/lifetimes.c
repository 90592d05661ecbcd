/* SPDX-License-Identifier: Apache-2.0 */
/* An array of allocations in the order in which they were made.

       items   [ 0 ][ 1 ][ 2 ] ... [ count - 1 ]        item i begins at time i and ends at items[i].end
                  `--------------> end == 2: freed before the third allocation

   What holds between calls:

       count <= capacity; items[i].end is above i and at most count, or DAO_LIFETIME_OPEN */
#include "planning/steps/lifetimes.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

dao_status_t dao_lifetimes_init(dao_lifetimes_t *lifetimes, uint32_t capacity)
{
    DAO_ASSERT(capacity > 0 && capacity <= DAO_LIFETIME_COUNT_MAX);
    *lifetimes = (dao_lifetimes_t){.capacity = capacity};
    lifetimes->items = dao_host_calloc(capacity, sizeof(*lifetimes->items));
    if (lifetimes->items == NULL) {
        lifetimes->capacity = 0;
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to record %u allocations", capacity);
    }
    return DAO_OK;
}

void dao_lifetimes_finish(dao_lifetimes_t *lifetimes)
{
    dao_host_free(lifetimes->items);
    *lifetimes = (dao_lifetimes_t){0};
}

void dao_lifetimes_clear(dao_lifetimes_t *lifetimes, uint32_t serial)
{
    lifetimes->count = 0;
    lifetimes->dropped_count = 0;
    lifetimes->serial = serial;
    lifetimes->bound_bytes = 0;
}

/* Makes room for twice as many; false without memory for it. */
static bool grow(dao_lifetimes_t *lifetimes)
{
    uint32_t capacity = 2 * lifetimes->capacity;
    dao_lifetime_t *items = capacity <= DAO_LIFETIME_COUNT_MAX
                                ? dao_host_realloc(lifetimes->items, capacity, sizeof(*items))
                                : NULL;
    if (items != NULL) {
        lifetimes->items = items;
        lifetimes->capacity = capacity;
    }
    return items != NULL;
}

uint32_t dao_lifetimes_add(dao_lifetimes_t *lifetimes, const dao_lifetime_t *lifetime)
{
    if (lifetimes->count == lifetimes->capacity && !grow(lifetimes)) {
        lifetimes->dropped_count++;
        return DAO_LIFETIME_NONE;
    }
    lifetimes->items[lifetimes->count] = *lifetime;
    lifetimes->items[lifetimes->count].end = DAO_LIFETIME_OPEN;
    return lifetimes->count++;
}

void dao_lifetimes_end(dao_lifetimes_t *lifetimes, uint32_t index)
{
    DAO_ASSERT(index < lifetimes->count && lifetimes->items[index].end == DAO_LIFETIME_OPEN);
    lifetimes->items[index].end = lifetimes->count;
}

bool dao_lifetimes_is_valid(const dao_lifetimes_t *lifetimes)
{
    for (uint32_t i = 0; i < lifetimes->count; i++) {
        const dao_lifetime_t *item = &lifetimes->items[i];
        bool has_end = item->end > i && (item->end <= lifetimes->count || item->end == DAO_LIFETIME_OPEN);
        if (item->size_bytes == 0 || !has_end || item->slot >= DAO_LIFETIME_SLOT_COUNT) {
            return false;
        }
    }
    return lifetimes->count <= lifetimes->capacity;
}
