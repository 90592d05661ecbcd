/* SPDX-License-Identifier: Apache-2.0 */
/* Many stretches of addresses under one range: each extent lies somewhere in a space of offsets of 1 TiB. So
   one search finds the best hole of all of them, at the cost of a search in one. Not thread-safe: the owner
   locks. Memory is never touched. */
#ifndef DAO_ALLOCATORS_SPACE_H
#define DAO_ALLOCATORS_SPACE_H

#include "allocators/range/range.h"
#include "base/report/assert.h"

#include <stddef.h>

/* Most bytes of one extent: the whole space but for what must stay around it. */
#define DAO_SPACE_EXTENT_MAX (DAO_RANGE_CAPACITY_MAX - 4 * DAO_RANGE_PAGE_BYTES)

/* One stretch of addresses. Offset and address agree modulo a page, so that alignments up to a page hold for
   both. */
typedef struct dao_extent {
    char *address;
    size_t size_bytes;
    uint64_t offset_bytes;
    uint32_t part; /* its id in the range */
} dao_extent_t;

typedef struct dao_space {
    dao_range_t *range; /* of the blocks, a part for an extent; NULL before the first extent */
    dao_extent_t *list; /* in order of address */
    size_t count;
    size_t capacity;
    uintptr_t *bases; /* by page of offsets: what is added to one to give the address, modulo 2^64; 0: none */
    uintptr_t *found; /* by page of addresses, some sharing an entry: the base of an address found there */
    size_t page_mask; /* the last page of both; both have a power of two, or none */
    dao_range_fit_t fit; /* of the range */
} dao_space_t;

/* Frees the tables; the extents' memory is the owner's. All zero is an empty space. */
void dao_space_finish(dao_space_t *space);

/* Finds a place for an extent of size_bytes (a multiple of the granule, at most DAO_SPACE_EXTENT_MAX) and
   makes all that dao_space_add() needs. DAO_ERR_NO_HOST_MEMORY with a message; DAO_ERR_LIMIT without: no
   place is that large. The space is not changed between this and dao_space_add(). */
DAO_NODISCARD dao_status_t dao_space_find_place(dao_space_t *space, size_t size_bytes,
                                                dao_range_place_t *out_place);

/* Adds an extent, all of it free. Extents do not overlap. Needs no memory. O(extents). */
void dao_space_add(dao_space_t *space, const dao_range_place_t *place, void *address, size_t size_bytes);

/* Takes an extent out that is free. Needs no memory. O(extents). */
void dao_space_remove(dao_space_t *space, size_t index);

/* Returns true if nothing in an extent is used or fenced. O(1). */
bool dao_space_is_free(const dao_space_t *space, size_t index);

/* Returns the extent that an address lies in, or NULL. O(log extents). Nothing branches on what is compared,
   so that random addresses are not mispredicted. */
static inline const dao_extent_t *dao_space_extent(const dao_space_t *space, const void *address)
{
    if (space->count == 0) {
        return NULL;
    }
    const dao_extent_t *extent = space->list; /* the last one that begins at the address or before it */
    for (size_t count = space->count; count > 1; count -= count / 2) {
        const dao_extent_t *middle = extent + count / 2;
        extent = (uintptr_t)middle->address <= (uintptr_t)address ? middle : extent;
    }
    return (uintptr_t)address - (uintptr_t)extent->address < extent->size_bytes ? extent : NULL;
}

/* Finds the block, free or used, around an address. DAO_ERR_FOREIGN_POINTER outside of the extents. O(blocks
   of the extent), O(1) for the start of a used block. */
dao_status_t dao_space_query(const dao_space_t *space, const void *address, dao_range_block_t *out_block);

/* Returns the address of an offset that lies in an extent. */
static inline char *dao_space_address(const dao_space_t *space, uint64_t offset_bytes)
{
    return (char *)(space->bases[offset_bytes / DAO_RANGE_PAGE_BYTES] + offset_bytes);
}

/* Returns the offset of an address that lies in an extent. */
static inline uint64_t dao_extent_offset(const dao_extent_t *extent, const void *address)
{
    return (uint64_t)((uintptr_t)address - (uintptr_t)extent->address) + extent->offset_bytes;
}

static inline uintptr_t *dao_space_entry(dao_space_t *space, const void *address)
{
    return &space->found[(uintptr_t)address / DAO_RANGE_PAGE_BYTES & space->page_mask];
}

/* As dao_space_extent(), and dao_space_offset() knows it from then on. */
static inline const dao_extent_t *dao_space_find_extent(dao_space_t *space, const void *address)
{
    const dao_extent_t *extent = dao_space_extent(space, address);
    if (extent != NULL) {
        *dao_space_entry(space, address) = (uintptr_t)extent->address - extent->offset_bytes;
    }
    return extent;
}

/* An offset that is in no extent. */
#define DAO_SPACE_NONE (DAO_RANGE_CAPACITY_MAX - DAO_RANGE_PAGE_BYTES)

/* Returns the offset of an address in an extent, or an offset that is in none: where the address is in none,
   and where another extent with a part in its page was found before. There is an extent. O(1) mostly, O(log
   extents) where an entry was another page's. */
static inline uint64_t dao_space_offset(dao_space_t *space, const void *address)
{
    DAO_ASSERT(space->count > 0);
    uintptr_t base = *dao_space_entry(space, address);
    uint64_t offset_bytes = (uintptr_t)address - base;
    uint64_t page = offset_bytes / DAO_RANGE_PAGE_BYTES;
    if (page <= space->page_mask && space->bases[page] == base) {
        return offset_bytes;
    }
    const dao_extent_t *extent = dao_space_find_extent(space, address);
    return extent != NULL ? dao_extent_offset(extent, address) : DAO_SPACE_NONE;
}

bool dao_space_is_valid(const dao_space_t *space);

#endif
