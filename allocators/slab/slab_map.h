/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses belong to slabs: a table of two levels with an entry for every granule of the addresses
   below 2^48, and before it a few bits that tell most addresses which do not. Reading takes no lock; the
   owner locks for the rest. */
#ifndef DAO_ALLOCATORS_SLAB_MAP_H
#define DAO_ALLOCATORS_SLAB_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Slabs begin at multiples of this many bytes, so that no two of them share a granule. */
#define DAO_SLAB_GRANULE_SHIFT 14u
#define DAO_SLAB_GRANULE_BYTES ((size_t)1 << DAO_SLAB_GRANULE_SHIFT)

#define DAO_SLAB_MAP_ADDRESS_BITS 48u
#define DAO_SLAB_MAP_LEAF_SHIFT   17u
#define DAO_SLAB_MAP_LEAF_COUNT   ((size_t)1 << DAO_SLAB_MAP_LEAF_SHIFT) /* entries of a leaf */
#define DAO_SLAB_MAP_ROOT_COUNT                                                                              \
    ((size_t)1 << (DAO_SLAB_MAP_ADDRESS_BITS - DAO_SLAB_GRANULE_SHIFT - DAO_SLAB_MAP_LEAF_SHIFT))

/* Bits for pages of addresses. Pages that are so many times DAO_SLAB_MAP_PAGE_COUNT apart share one: 128 GiB
   of addresses have a bit a page in 8 KiB, which stay in the nearest cache, as the entries of all these
   addresses cannot. */
#define DAO_SLAB_MAP_PAGE_SHIFT 21u
#define DAO_SLAB_MAP_PAGE_COUNT ((size_t)1 << 16)
#define DAO_SLAB_MAP_WORD_BITS  64u

typedef struct dao_slab_map_leaf {
    _Atomic uint64_t entries[DAO_SLAB_MAP_LEAF_COUNT]; /* 0: no slab */
} dao_slab_map_leaf_t;

typedef struct dao_slab_map_root {
    _Atomic uint64_t
        page_words[DAO_SLAB_MAP_PAGE_COUNT / DAO_SLAB_MAP_WORD_BITS]; /* set: the page's count is not 0 */
    uint32_t page_counts[DAO_SLAB_MAP_PAGE_COUNT]; /* entries of the page's granules that are not 0 */
    _Atomic(dao_slab_map_leaf_t *) leaves[DAO_SLAB_MAP_ROOT_COUNT]; /* NULL: all entries are 0 */
} dao_slab_map_root_t;

typedef struct dao_slab_map {
    /* dao_slab_map_none, until there is an entry. Pages of zeros, as every leaf: only what is written takes
       memory. */
    _Atomic(dao_slab_map_root_t *) root;
    uintptr_t first_place; /* leaves are in [first_place, end_place) of the root */
    uintptr_t end_place;
} dao_slab_map_t;

/* The root of every table without an entry; never written. */
extern dao_slab_map_root_t dao_slab_map_none;

void dao_slab_map_init(dao_slab_map_t *map);
void dao_slab_map_finish(dao_slab_map_t *map); /* zeroed memory is allowed */

/* Makes sure that the entries of [address, address + size) can be written. False without host memory, or if
   there are addresses among them that the table does not know. */
bool dao_slab_map_reserve(dao_slab_map_t *map, const void *address, size_t size_bytes);

/* Writes the entry of the granule that begins at an address, after dao_slab_map_reserve(). What was written
   before is seen by whoever finds the entry. */
void dao_slab_map_set(dao_slab_map_t *map, const void *address, uint64_t entry);

/* Returns true if there may be a slab in the page of a granule. */
static inline bool dao_slab_map_has_page(const dao_slab_map_root_t *root, uint64_t granule)
{
    uint64_t page =
        granule >> (DAO_SLAB_MAP_PAGE_SHIFT - DAO_SLAB_GRANULE_SHIFT) & (DAO_SLAB_MAP_PAGE_COUNT - 1);
    uint64_t word =
        atomic_load_explicit(&root->page_words[page / DAO_SLAB_MAP_WORD_BITS], memory_order_relaxed);
    return (word >> page % DAO_SLAB_MAP_WORD_BITS & 1) != 0;
}

/* Returns the entry of a granule, address / DAO_SLAB_GRANULE_BYTES. Threads: any. Cost: two loads for most
   that have none, else four. */
static inline uint64_t dao_slab_map_find_granule(const dao_slab_map_t *map, uint64_t granule)
{
    uint64_t place = granule >> DAO_SLAB_MAP_LEAF_SHIFT;
    const dao_slab_map_root_t *root = atomic_load_explicit(&map->root, memory_order_acquire);
    if (!dao_slab_map_has_page(root, granule) || place >= DAO_SLAB_MAP_ROOT_COUNT) {
        return 0;
    }
    dao_slab_map_leaf_t *leaf = atomic_load_explicit(&root->leaves[place], memory_order_acquire);
    if (leaf == NULL) {
        return 0;
    }
    return atomic_load_explicit(&leaf->entries[granule & (DAO_SLAB_MAP_LEAF_COUNT - 1)],
                                memory_order_acquire);
}

/* Returns the entry of the granule that an address lies in. */
static inline uint64_t dao_slab_map_find(const dao_slab_map_t *map, const void *address)
{
    return dao_slab_map_find_granule(map, (uintptr_t)address >> DAO_SLAB_GRANULE_SHIFT);
}

/* The same for an address that is known to lie in a slab. */
static inline uint64_t dao_slab_map_get(const dao_slab_map_t *map, const void *address)
{
    uint64_t granule = (uintptr_t)address >> DAO_SLAB_GRANULE_SHIFT;
    const dao_slab_map_root_t *root = atomic_load_explicit(&map->root, memory_order_acquire);
    dao_slab_map_leaf_t *leaf =
        atomic_load_explicit(&root->leaves[granule >> DAO_SLAB_MAP_LEAF_SHIFT], memory_order_acquire);
    return atomic_load_explicit(&leaf->entries[granule & (DAO_SLAB_MAP_LEAF_COUNT - 1)],
                                memory_order_acquire);
}

#endif
