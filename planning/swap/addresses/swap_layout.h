/* SPDX-License-Identifier: Apache-2.0 */
/* Static addresses of tensors, for decisions that have their times. */
#ifndef DAO_PLANNING_SWAP_LAYOUT_H
#define DAO_PLANNING_SWAP_LAYOUT_H

#include "planning/swap/addresses/page_map.h"
#include "planning/swap/addresses/swap_place.h"
#include "planning/swap/step/swap_parts.h"
#include "planning/swap/times/swap_timing.h"

#define DAO_SWAP_NOWHERE UINT64_MAX

/* One life of a tensor at one address: from an access up to the one behind whose inactive period all of its
   parts are gone. */
typedef struct dao_swap_residency {
    uint64_t address_bytes; /* DAO_SWAP_NOWHERE: it did not fit */
    uint32_t tensor;
    uint32_t first_access; /* a tensor that never goes as a whole: its first one */
} dao_swap_residency_t;

typedef struct dao_swap_layout {
    dao_swap_residency_t *residencies;
    uint32_t residency_count;
    uint32_t unplaced_count;
    uint64_t unplaced_bytes;
    uint32_t *residency_of; /* of each access */
    uint64_t arena_bytes;   /* highest byte used */
    bool is_repeated;       /* it was looked for before: nothing is placed */
    uint64_t page_bytes;    /* 0: nothing lies in pages */
    uint64_t paged_begin;   /* addresses from here on are those of `pages`, one after the other */
    uint32_t *pages;        /* pages of the arena */
    uint32_t page_count;
} dao_swap_layout_t;

/* The bytes of the arena behind those from `address_bytes` on, as far as they lie in one piece and before
   `end_bytes`. */
static inline dao_swap_run_t dao_swap_layout_run(const dao_swap_layout_t *layout, uint64_t address_bytes,
                                                 uint64_t end_bytes)
{
    if (layout->page_bytes == 0 || address_bytes < layout->paged_begin) {
        return (dao_swap_run_t){address_bytes, end_bytes};
    }
    dao_page_map_t map = {layout->paged_begin, layout->page_bytes, layout->pages, layout->page_count};
    return dao_page_map_run(&map, address_bytes, end_bytes);
}

/* Finds addresses below `capacity_bytes` for as many residency intervals as it can. What is known from the
   past not to fit is not looked for again; `is_thorough` as for dao_swap_place(). DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_layout_init(dao_swap_layout_t *layout, const dao_swap_parts_t *parts,
                                                const dao_swap_decision_t *decisions,
                                                const dao_swap_timing_t *timing, uint64_t capacity_bytes,
                                                bool is_thorough, dao_swap_past_t *past);

/* A layout without residencies, with room for one an access. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_layout_init_empty(dao_swap_layout_t *layout, const dao_swap_step_t *step);

void dao_swap_layout_finish(dao_swap_layout_t *layout);

/* Returns true if a part is not on the device in an inactive period. */
static inline bool dao_swap_is_absent(const dao_swap_access_t *one, const dao_swap_decision_t *decision)
{
    return !one->inactive_is_live || decision->is_away;
}

/* Steps between an access and the next one of its tensor: 0 or 1. */
static inline int64_t dao_swap_steps_to_next(const dao_swap_step_t *step, uint32_t access)
{
    return step->accesses[access].next <= access ? 1 : 0;
}

#endif
