/* SPDX-License-Identifier: Apache-2.0 */
/* The table behind dao_slab_map_find().

       root   [ leaf | - | - | leaf | ... ]        a leaf for 2 GiB of addresses, 2^17 leaves
       leaf   [ 0 | 0 | slab | slab | 0 | ... ]    an entry for 16 KiB of addresses, 2^17 entries
       pages  ...0100...                           a bit for 2 MiB of addresses, 2^16 bits

   Many places never have a slab: their tables share one root that nobody writes.

   It is no probe table (base/memory/probe_table.h): readers take no lock, and an entry that never moves needs
   no proof of what they see while others are erased. A look-up takes four loads at most.

   What holds between calls, under the owner's lock:

       a page's count == entries that are not 0, of granules whose page it is; its bit is set if the count is
       not 0

   Whoever has an address of a slab has it from a call after which the bit was set, and the bit stays until
   the slab has no objects outside. A leaf is never moved and never freed before the end, so that readers need
   no lock. */
#include "allocators/slab/slab_map.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

#include <assert.h>

/* Alignment of the tables: what the system gives anyway. */
#define TABLE_ALIGNMENT_BYTES ((size_t)4096)

static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_POINTER_LOCK_FREE == 2, "look-ups take no lock");

dao_slab_map_root_t dao_slab_map_none;

void dao_slab_map_init(dao_slab_map_t *map)
{
    *map = (dao_slab_map_t){.root = &dao_slab_map_none};
}

static dao_slab_map_root_t *root_of(const dao_slab_map_t *map)
{
    return atomic_load_explicit(&map->root, memory_order_relaxed);
}

void dao_slab_map_finish(dao_slab_map_t *map)
{
    dao_slab_map_root_t *root = root_of(map);
    if (root == NULL || root == &dao_slab_map_none) {
        return;
    }
    for (uintptr_t i = map->first_place; i < map->end_place; i++) {
        dao_slab_map_leaf_t *leaf = atomic_load_explicit(&root->leaves[i], memory_order_relaxed);
        if (leaf != NULL) {
            dao_host_unmap(leaf, sizeof(*leaf));
        }
    }
    dao_host_unmap(root, sizeof(*root));
    *map = (dao_slab_map_t){.root = NULL};
}

static uintptr_t place_of(uintptr_t address)
{
    return address >> DAO_SLAB_GRANULE_SHIFT >> DAO_SLAB_MAP_LEAF_SHIFT;
}

/* Returns the table's own root. NULL without host memory. */
static dao_slab_map_root_t *own_root(dao_slab_map_t *map)
{
    dao_slab_map_root_t *root = root_of(map);
    if (root == &dao_slab_map_none) {
        root = dao_host_map(sizeof(*root), TABLE_ALIGNMENT_BYTES);
        if (root != NULL) {
            atomic_store_explicit(&map->root, root, memory_order_release);
        }
    }
    return root;
}

bool dao_slab_map_reserve(dao_slab_map_t *map, const void *address, size_t size_bytes)
{
    DAO_ASSERT(size_bytes > 0);
    uintptr_t last = place_of((uintptr_t)address + (size_bytes - 1));
    dao_slab_map_root_t *root = last < DAO_SLAB_MAP_ROOT_COUNT ? own_root(map) : NULL;
    if (root == NULL) {
        return false;
    }
    for (uintptr_t place = place_of((uintptr_t)address); place <= last; place++) {
        if (atomic_load_explicit(&root->leaves[place], memory_order_relaxed) != NULL) {
            continue;
        }
        dao_slab_map_leaf_t *leaf = dao_host_map(sizeof(*leaf), TABLE_ALIGNMENT_BYTES);
        if (leaf == NULL) {
            return false;
        }
        atomic_store_explicit(&root->leaves[place], leaf, memory_order_release);
        bool is_first = map->end_place == 0;
        map->first_place = is_first || place < map->first_place ? place : map->first_place;
        map->end_place = place >= map->end_place ? place + 1 : map->end_place;
    }
    return true;
}

/* Counts an entry that comes or goes. */
static void page_count(dao_slab_map_root_t *root, uintptr_t granule, bool is_there)
{
    size_t page =
        granule >> (DAO_SLAB_MAP_PAGE_SHIFT - DAO_SLAB_GRANULE_SHIFT) & (DAO_SLAB_MAP_PAGE_COUNT - 1);
    _Atomic uint64_t *word = &root->page_words[page / DAO_SLAB_MAP_WORD_BITS];
    uint64_t bit = UINT64_C(1) << page % DAO_SLAB_MAP_WORD_BITS;
    uint64_t others = atomic_load_explicit(word, memory_order_relaxed) & ~bit;
    DAO_ASSERT(is_there || root->page_counts[page] > 0);
    root->page_counts[page] += is_there ? 1u : UINT32_MAX;
    atomic_store_explicit(word, root->page_counts[page] > 0 ? others | bit : others, memory_order_relaxed);
}

void dao_slab_map_set(dao_slab_map_t *map, const void *address, uint64_t entry)
{
    uintptr_t granule = (uintptr_t)address >> DAO_SLAB_GRANULE_SHIFT;
    DAO_ASSERT((uintptr_t)address % DAO_SLAB_GRANULE_BYTES == 0);
    dao_slab_map_root_t *root = root_of(map);
    DAO_ASSERT(root != &dao_slab_map_none);
    dao_slab_map_leaf_t *leaf =
        atomic_load_explicit(&root->leaves[granule >> DAO_SLAB_MAP_LEAF_SHIFT], memory_order_relaxed);
    DAO_ASSERT(leaf != NULL);
    _Atomic uint64_t *place = &leaf->entries[granule & (DAO_SLAB_MAP_LEAF_COUNT - 1)];
    bool was_there = atomic_load_explicit(place, memory_order_relaxed) != 0;
    atomic_store_explicit(place, entry, memory_order_release);
    if (was_there != (entry != 0)) {
        page_count(root, granule, entry != 0);
    }
}
