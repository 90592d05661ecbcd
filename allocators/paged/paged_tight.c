/* SPDX-License-Identifier: Apache-2.0 */
/* The hole for a block where memory is tight: paged.c says when that is.

   Of the first holes that are large enough, smaller ones before larger ones, and of both their ends, the
   place of least cost is taken, if all of it is mapped. A place costs its offset, so that blocks gather at
   low addresses; what its hole has more than the block, so that large holes stay; and much for each page that
   no other block keeps, so that pages stay free as a whole, which can be moved to where some are missing:

       pages      [        ][        ][        ]
       hole           [                  ]             a block at its front takes no page that is free,
       block          [====]                           in its middle it would */
#include "allocators/paged/paged_internal.h"

#include "allocators/range/range_internal.h"
#include "base/numbers/path.h"

/* Holes that are looked at. */
#define LOOK_COUNT 8u

typedef struct search {
    const arena_t *arena;
    uint64_t size_units;
    uint64_t alignment_mask; /* units of an alignment less one */
    uint32_t page_unit_shift;
    uint64_t page_units; /* what a page costs */
    uint64_t least_cost; /* UINT64_MAX: nothing yet */
    tight_place_t best;
} search_t;

/* Looks at a block's place in a hole. False: none that is higher up in the hole is better. */
static DAO_ON_THE_PATH bool look_at_place(search_t *search, uint32_t hole, uint64_t start_units)
{
    const dao_range_node_t *node = dao_range_at(search->arena->segment.range, hole);
    uint32_t shift = search->page_unit_shift;
    uint64_t cost = start_units + node->size_units - search->size_units;
    if (cost >= search->least_cost) {
        return false;
    }
    uint64_t hole_end_units = node->offset_units + node->size_units;
    uint64_t first = start_units >> shift, last = (start_units + search->size_units - 1) >> shift;
    bool shares_first = first << shift < node->offset_units || (first + 1) << shift > hole_end_units;
    bool shares_last = last > first && (last + 1) << shift > hole_end_units;
    uint64_t taken_count = last - first + 1 - shares_first - shares_last;
    cost += taken_count * search->page_units;
    if (cost >= search->least_cost ||
        !dao_paged_is_mapped(search->arena, start_units << UNIT_SHIFT, search->size_units << UNIT_SHIFT)) {
        return true;
    }
    search->least_cost = cost;
    search->best = (tight_place_t){.hole = hole, .offset_bytes = start_units << UNIT_SHIFT};
    return taken_count > 0;
}

/* Looks at both ends of a hole. */
static DAO_ON_THE_PATH void look_at_hole(search_t *search, uint32_t hole)
{
    const dao_range_t *range = search->arena->segment.range;
    const dao_range_node_t *node = dao_range_at(range, hole);
    if (node->size_units < search->size_units) {
        return;
    }
    uint64_t base = range->base_units, mask = search->alignment_mask;
    uint64_t last_units = node->offset_units + node->size_units - search->size_units;
    uint64_t front_units = ((base + node->offset_units + mask) & ~mask) - base;
    uint64_t back_units = ((base + last_units) & ~mask) - base;
    if (front_units <= last_units && look_at_place(search, hole, front_units)) {
        (void)look_at_place(search, hole, back_units); /* in the hole, too, as the front is */
    }
}

bool dao_paged_find_tight(const arena_t *arena, uint64_t block_bytes, uint64_t alignment_bytes,
                          tight_place_t *out_place)
{
    const dao_range_t *range = arena->segment.range;
    search_t search = {.arena = arena,
                       .size_units = block_bytes >> UNIT_SHIFT,
                       .alignment_mask =
                           alignment_bytes > DAO_RANGE_GRANULE ? (alignment_bytes >> UNIT_SHIFT) - 1 : 0,
                       .page_unit_shift = arena->page_shift - UNIT_SHIFT,
                       .page_units = arena->tight_page_bytes >> UNIT_SHIFT,
                       .least_cost = UINT64_MAX};
    uint32_t looks_left = LOOK_COUNT;
    size_t bin = dao_range_bin_of(search.size_units);
    uint32_t link = dao_range_next_first(range, NULL, bin);
    while (link != DAO_RANGE_NONE && looks_left > 0) {
        bin = dao_range_at(range, link)->bin;
        uint64_t least_units = dao_range_bin_least(bin);
        if (least_units > search.size_units && least_units - search.size_units >= search.least_cost) {
            break; /* this and all that follow cost more */
        }
        for (; link != DAO_RANGE_NONE && looks_left > 0; looks_left--) {
            look_at_hole(&search, link);
            link = dao_range_at(range, link)->bin_after;
        }
        link = dao_range_next_first(range, NULL, bin + 1);
    }
    *out_place = search.best;
    return search.least_cost != UINT64_MAX;
}
