/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses behind which lie pages of an arena, in any order. */
#ifndef DAO_PLANNING_PAGE_MAP_H
#define DAO_PLANNING_PAGE_MAP_H

#include <stdint.h>

typedef struct dao_page_map {
    uint64_t begin_bytes; /* the first of the addresses */
    uint64_t page_bytes;
    const uint32_t *pages; /* of the arena */
    uint32_t page_count;
} dao_page_map_t;

/* Bytes of the arena. */
typedef struct dao_swap_run {
    uint64_t begin_bytes, end_bytes;
} dao_swap_run_t;

/* Returns the bytes of the arena behind those from `address_bytes` on, as far as they lie in one piece and
   before `end_bytes`. All of them are the map's. */
static inline dao_swap_run_t dao_page_map_run(const dao_page_map_t *map, uint64_t address_bytes,
                                              uint64_t end_bytes)
{
    uint64_t from = address_bytes - map->begin_bytes, left = end_bytes - address_bytes;
    uint64_t page = from / map->page_bytes, inside = from % map->page_bytes;
    uint64_t begin = map->pages[page] * map->page_bytes + inside, length = map->page_bytes - inside;
    while (length < left && map->pages[page + 1] == map->pages[page] + 1) {
        length += map->page_bytes;
        page++;
    }
    return (dao_swap_run_t){begin, begin + (length < left ? length : left)};
}

#endif
