/* SPDX-License-Identifier: Apache-2.0 */
/* Extents of addresses in one space of offsets.

       list       extent, extent, ...               by address: from an address to its extent and an offset
       range      gap [ part ] gap [ part ] gap ...      by offset, see range_parts.c
       bases      -     +3 +3   -   +9 +9 +9  -          by page of offsets: an offset leads to an address
       found      +9 +3 -  -                             by page of addresses: an address leads to an offset

   What holds between calls:

       each extent is a part of the range, and there are no others
       offset and address of an extent are equal modulo a page, but for what is less than a granule
       extents do not overlap and are listed in order of address
       a page of offsets with a base is one of an extent's

   An entry of `found` is a guess, which `bases` confirms. */
#include "allocators/range/space.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

#define LIST_MIN  8u
#define PAGES_MIN 64u /* a power of two */

/* ---- room ---- */

static dao_status_t no_memory(void)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the list of segments");
}

static dao_status_t range_reserve(dao_space_t *space)
{
    dao_range_config_t config = {
        .capacity_bytes = DAO_RANGE_CAPACITY_MAX, .fit = space->fit, .is_parts = true};
    return space->range == NULL ? dao_range_create(&config, &space->range) : DAO_OK;
}

static dao_status_t list_reserve(dao_space_t *space)
{
    if (space->count < space->capacity) {
        return DAO_OK;
    }
    size_t capacity = space->capacity * 2 + LIST_MIN;
    dao_extent_t *list = dao_host_realloc(space->list, capacity, sizeof(*list));
    if (list == NULL) {
        return no_memory();
    }
    space->list = list;
    space->capacity = capacity;
    return DAO_OK;
}

static size_t page_count(const dao_space_t *space)
{
    return space->found != NULL ? space->page_mask + 1 : 0;
}

static dao_status_t bases_reserve(dao_space_t *space, size_t page_end)
{
    size_t before = page_count(space), count = before > 0 ? before : PAGES_MIN;
    while (count < page_end) {
        count *= 2;
    }
    if (count == before) {
        return DAO_OK;
    }
    uintptr_t *bases = dao_host_realloc(space->bases, count, sizeof(*bases));
    space->bases = bases != NULL ? bases : space->bases;
    uintptr_t *found = bases != NULL ? dao_host_realloc(space->found, count, sizeof(*found)) : NULL;
    if (found == NULL) {
        return no_memory();
    }
    memset(&bases[before], 0, (count - before) * sizeof(*bases));
    memset(&found[before], 0, (count - before) * sizeof(*found));
    space->found = found;
    space->page_mask = count - 1;
    return DAO_OK;
}

dao_status_t dao_space_find_place(dao_space_t *space, size_t size_bytes, dao_range_place_t *out_place)
{
    DAO_ASSERT(size_bytes > 0 && size_bytes % DAO_RANGE_GRANULE == 0 && size_bytes <= DAO_SPACE_EXTENT_MAX);
    uint64_t most_bytes = size_bytes + DAO_RANGE_PAGE_BYTES; /* wherever in a page it begins */
    dao_status_t status = range_reserve(space);
    if (status == DAO_OK) {
        status = list_reserve(space);
    }
    if (status == DAO_OK) {
        status = dao_range_part_find(space->range, most_bytes, out_place);
    }
    if (status == DAO_OK) {
        status = bases_reserve(space, (out_place->offset_bytes + most_bytes) / DAO_RANGE_PAGE_BYTES + 1);
    }
    return status;
}

/* ---- looking ---- */

bool dao_space_is_free(const dao_space_t *space, size_t index)
{
    return dao_range_part_is_free(space->range, space->list[index].part);
}

dao_status_t dao_space_query(const dao_space_t *space, const void *address, dao_range_block_t *out_block)
{
    const dao_extent_t *extent = dao_space_extent(space, address);
    return extent != NULL ? dao_range_part_query(space->range, extent->part,
                                                 dao_extent_offset(extent, address), out_block)
                          : DAO_ERR_FOREIGN_POINTER;
}

/* ---- extents ---- */

/* Sets the base of each page of an extent. */
static void set_bases(dao_space_t *space, const dao_extent_t *extent, uintptr_t base)
{
    uint64_t last_page = (extent->offset_bytes + extent->size_bytes - 1) / DAO_RANGE_PAGE_BYTES;
    DAO_ASSERT(last_page <= space->page_mask);
    for (uint64_t page = extent->offset_bytes / DAO_RANGE_PAGE_BYTES; page <= last_page; page++) {
        space->bases[page] = base;
    }
}

void dao_space_add(dao_space_t *space, const dao_range_place_t *place, void *address, size_t size_bytes)
{
    DAO_ASSERT(space->count < space->capacity);
    dao_range_place_t at = *place;
    at.offset_bytes += (uintptr_t)address % DAO_RANGE_PAGE_BYTES / DAO_RANGE_GRANULE * DAO_RANGE_GRANULE;
    dao_extent_t extent = {.address = address, .size_bytes = size_bytes, .offset_bytes = at.offset_bytes};
    extent.part = dao_range_part_add(space->range, &at, size_bytes);
    set_bases(space, &extent, (uintptr_t)address - extent.offset_bytes);
    size_t index = space->count;
    while (index > 0 && (uintptr_t)space->list[index - 1].address > (uintptr_t)address) {
        index--;
    }
    memmove(&space->list[index + 1], &space->list[index], (space->count - index) * sizeof(extent));
    space->list[index] = extent;
    space->count++;
    DAO_ASSERT_HEAVY(dao_space_is_valid(space));
}

void dao_space_remove(dao_space_t *space, size_t index)
{
    DAO_ASSERT(index < space->count);
    dao_range_part_remove(space->range, space->list[index].part);
    set_bases(space, &space->list[index], 0);
    space->count--;
    memmove(&space->list[index], &space->list[index + 1], (space->count - index) * sizeof(space->list[0]));
    DAO_ASSERT_HEAVY(dao_space_is_valid(space));
}

void dao_space_finish(dao_space_t *space)
{
    dao_range_destroy(space->range);
    dao_host_free(space->list);
    dao_host_free(space->bases);
    dao_host_free(space->found);
    *space = (dao_space_t){0};
}

/* ---- is_valid ---- */

/* Adds up the blocks, each of which lies in one extent. */
typedef struct recount {
    const dao_space_t *space;
    uint64_t block_bytes;
    bool is_valid;
} recount_t;

static bool check_block(const dao_range_block_t *block, void *user)
{
    recount_t *recount = user;
    const char *address = dao_space_address(recount->space, block->offset_bytes);
    const dao_extent_t *extent = dao_space_extent(recount->space, address);
    recount->block_bytes += block->size_bytes;
    recount->is_valid =
        extent != NULL &&
        address - extent->address == (ptrdiff_t)(block->offset_bytes - extent->offset_bytes) &&
        block->offset_bytes + block->size_bytes <= extent->offset_bytes + extent->size_bytes;
    return recount->is_valid;
}

/* Returns true if no page has a base but those of extents. */
static bool bases_are_extents(const dao_space_t *space)
{
    size_t count = 0;
    for (size_t i = 0; i < page_count(space); i++) {
        count += space->bases[i] != 0;
    }
    for (size_t i = 0; i < space->count; i++) {
        const dao_extent_t *extent = &space->list[i];
        uint64_t first_page = extent->offset_bytes / DAO_RANGE_PAGE_BYTES;
        uint64_t last_page = (extent->offset_bytes + extent->size_bytes - 1) / DAO_RANGE_PAGE_BYTES;
        count -= space->bases[first_page] != 0 ? last_page - first_page + 1 : 0;
    }
    return count == 0;
}

bool dao_space_is_valid(const dao_space_t *space)
{
    if (space->range == NULL) {
        return space->count == 0;
    }
    if (!bases_are_extents(space)) {
        return false;
    }
    uint64_t extent_bytes = 0;
    for (size_t i = 0; i < space->count; i++) {
        const dao_extent_t *extent = &space->list[i];
        const char *last = dao_space_address(space, extent->offset_bytes + extent->size_bytes - 1);
        bool in_order = i == 0 || extent[-1].address + extent[-1].size_bytes <= extent->address;
        if (!in_order || dao_space_address(space, extent->offset_bytes) != extent->address ||
            last != extent->address + extent->size_bytes - 1) {
            return false;
        }
        extent_bytes += extent->size_bytes;
    }
    recount_t recount = {.space = space, .is_valid = true};
    dao_range_walk(space->range, check_block, &recount);
    return recount.is_valid && recount.block_bytes == extent_bytes && dao_range_is_valid(space->range);
}
