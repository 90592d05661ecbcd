/* The table behind dao_slab_map_find().

       root   [ leaf | - | - | leaf | ... ]        a leaf for 2 GiB of addresses, 2^17 leaves
       leaf   [ 0 | 0 | slab | slab | 0 | ... ]    an entry for 16 KiB of addresses, 2^17 entries

   A leaf is never moved and never freed before the end, so that readers need no lock. */
#include "allocators/slab_map.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"

#include <assert.h>

/* Alignment of the tables: what the system gives anyway. */
#define TABLE_ALIGNMENT_BYTES ((size_t)4096)

static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_POINTER_LOCK_FREE == 2, "look-ups take no lock");

dao_status_t dao_slab_map_init(dao_slab_map_t *map)
{
    map->root = dao_host_map(sizeof(*map->root), TABLE_ALIGNMENT_BYTES);
    if (map->root == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a table of addresses");
    }
    return DAO_OK;
}

void dao_slab_map_finish(dao_slab_map_t *map)
{
    if (map->root == NULL) {
        return;
    }
    for (uintptr_t i = map->first_place; i < map->end_place; i++) {
        dao_slab_map_leaf_t *leaf = atomic_load_explicit(&map->root->leaves[i], memory_order_relaxed);
        if (leaf != NULL) {
            dao_host_unmap(leaf, sizeof(*leaf));
        }
    }
    dao_host_unmap(map->root, sizeof(*map->root));
    *map = (dao_slab_map_t){0};
}

static uintptr_t place_of(uintptr_t address)
{
    return address >> DAO_SLAB_GRANULE_SHIFT >> DAO_SLAB_MAP_LEAF_SHIFT;
}

bool dao_slab_map_reserve(dao_slab_map_t *map, const void *address, size_t size_bytes)
{
    DAO_ASSERT(size_bytes > 0);
    uintptr_t last = place_of((uintptr_t)address + (size_bytes - 1));
    if (last >= DAO_SLAB_MAP_ROOT_COUNT) {
        return false;
    }
    for (uintptr_t place = place_of((uintptr_t)address); place <= last; place++) {
        if (atomic_load_explicit(&map->root->leaves[place], memory_order_relaxed) != NULL) {
            continue;
        }
        dao_slab_map_leaf_t *leaf = dao_host_map(sizeof(*leaf), TABLE_ALIGNMENT_BYTES);
        if (leaf == NULL) {
            return false;
        }
        atomic_store_explicit(&map->root->leaves[place], leaf, memory_order_release);
        bool is_first = map->end_place == 0;
        map->first_place = is_first || place < map->first_place ? place : map->first_place;
        map->end_place = place >= map->end_place ? place + 1 : map->end_place;
    }
    return true;
}

void dao_slab_map_set(dao_slab_map_t *map, const void *address, uint64_t entry)
{
    uintptr_t granule = (uintptr_t)address >> DAO_SLAB_GRANULE_SHIFT;
    DAO_ASSERT((uintptr_t)address % DAO_SLAB_GRANULE_BYTES == 0);
    dao_slab_map_leaf_t *leaf =
        atomic_load_explicit(&map->root->leaves[granule >> DAO_SLAB_MAP_LEAF_SHIFT], memory_order_relaxed);
    DAO_ASSERT(leaf != NULL);
    atomic_store_explicit(&leaf->entries[granule & (DAO_SLAB_MAP_LEAF_COUNT - 1)], entry,
                          memory_order_release);
}
