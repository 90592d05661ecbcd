/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of parts: offsets behind which there is something lie between gaps behind which there is nothing.

       chain of nodes    gap <-> [ blocks of a part ] <-> gap <-> [ blocks of a part ] <-> gap

   A gap's node is in no bin and no cell of starts, so that nothing is placed there. It is neither free nor
   used, so that nothing is merged over it. Gaps are chained through bin_before and bin_after, from `gaps`. A
   part's id is the gap before it. The last block of a range of parts is always a gap. */
#include "allocators/range/range_internal.h"

#define NONE DAO_RANGE_NONE

/* ---- gaps ---- */

static void gap_remove(dao_range_t *range, uint32_t link)
{
    const dao_range_node_t *node = dao_range_at(range, link);
    dao_range_at(range, node->bin_after)->bin_before = node->bin_before;
    if (node->bin_before != NONE) {
        dao_range_at(range, node->bin_before)->bin_after = node->bin_after;
    } else {
        range->gaps = node->bin_after;
    }
}

/* Returns the first offset, a multiple of a page, where a part in a gap may begin: a granule of the gap stays
   before it, and it begins in no page that the part before the gap ends in. */
static uint64_t first_start(const dao_range_node_t *gap)
{
    return (((uint64_t)gap->offset_units >> PAGE_UNIT_SHIFT) + 1) << PAGE_UNIT_SHIFT;
}

/* Returns true if a gap has room for a part: a granule stays behind it, too, and it ends in no page that the
   part behind the gap begins in. */
static bool gap_suffices(const dao_range_node_t *gap, uint64_t size_units)
{
    uint64_t end_units = gap->offset_units + gap->size_units;
    uint64_t last_page_units = end_units >> PAGE_UNIT_SHIFT << PAGE_UNIT_SHIFT;
    uint64_t part_end_units = first_start(gap) + size_units;
    return part_end_units < end_units && part_end_units <= last_page_units;
}

dao_status_t dao_range_part_find(dao_range_t *range, uint64_t size_bytes, dao_range_place_t *out_place)
{
    uint32_t best = NONE;
    for (uint32_t i = range->gaps; i != NONE; i = dao_range_at(range, i)->bin_after) {
        const dao_range_node_t *gap = dao_range_at(range, i);
        bool is_lower = best == NONE || gap->offset_units < dao_range_at(range, best)->offset_units;
        best = is_lower && gap_suffices(gap, size_bytes >> UNIT_SHIFT) ? i : best;
    }
    if (best == NONE) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = dao_range_reserve_part(range);
    if (status != DAO_OK) {
        return status;
    }
    *out_place = (dao_range_place_t){.offset_bytes = first_start(dao_range_at(range, best)) << UNIT_SHIFT,
                                     .gap = best};
    return DAO_OK;
}

/* ---- parts ---- */

/* Puts a node before another one in the chain. */
static void chain_before(dao_range_t *range, uint32_t next, uint32_t link)
{
    uint32_t before = dao_range_at(range, next)->before;
    dao_range_at(range, link)->before = before;
    dao_range_at(range, link)->after = next;
    dao_range_at(range, next)->before = link;
    dao_range_at(range, before)->after = link;
}

static void unchain(dao_range_t *range, uint32_t link)
{
    const dao_range_node_t *node = dao_range_at(range, link);
    dao_range_at(range, node->after)->before = node->before;
    dao_range_at(range, node->before)->after = node->after;
    dao_range_node_give(range, link);
}

uint32_t dao_range_part_add(dao_range_t *range, const dao_range_place_t *place, uint64_t size_bytes)
{
    DAO_ASSERT(!range->config.is_indexed);
    uint64_t start_units = place->offset_bytes >> UNIT_SHIFT;
    uint64_t size_units = size_bytes >> UNIT_SHIFT;
    uint32_t front = dao_range_node_take(range), part = dao_range_node_take(range);
    dao_range_node_t *rest =
        dao_range_at(range, place->gap); /* keeps its node: a part behind it has that id */
    uint64_t end_units = rest->offset_units + rest->size_units;
    DAO_ASSERT(rest->state == NODE_GAP);
    DAO_ASSERT(start_units > rest->offset_units && start_units + size_units < end_units);
    *dao_range_at(range, front) = (dao_range_node_t){.size_units = start_units - rest->offset_units,
                                                     .offset_units = rest->offset_units};
    *dao_range_at(range, part) =
        (dao_range_node_t){.size_units = size_units, .offset_units = (uint32_t)start_units};
    rest->offset_units = (uint32_t)(start_units + size_units);
    rest->size_units = end_units - rest->offset_units;
    chain_before(range, place->gap, front);
    chain_before(range, place->gap, part);
    dao_range_gap_insert(range, front);
    dao_range_put(range, part, &(dao_stream_fence_t){0});
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    return front;
}

bool dao_range_part_is_free(const dao_range_t *range, uint32_t part)
{
    DAO_ASSERT(dao_range_at(range, part)->state == NODE_GAP);
    const dao_range_node_t *node = dao_range_at(range, dao_range_at(range, part)->after);
    return node->state == NODE_FREE && dao_range_at(range, node->after)->state == NODE_GAP;
}

void dao_range_part_remove(dao_range_t *range, uint32_t part)
{
    DAO_ASSERT(dao_range_part_is_free(range, part));
    uint32_t block = dao_range_at(range, part)->after;
    dao_range_node_t *rest = dao_range_at(range, dao_range_at(range, block)->after);
    rest->size_units += dao_range_at(range, part)->size_units + dao_range_at(range, block)->size_units;
    rest->offset_units = dao_range_at(range, part)->offset_units;
    gap_remove(range, part);
    dao_range_bin_remove(range, block);
    unchain(range, part);
    unchain(range, block);
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
}

dao_status_t dao_range_part_query(const dao_range_t *range, uint32_t part, uint64_t offset_bytes,
                                  dao_range_block_t *out_block)
{
    uint32_t used = dao_range_find_used(range, offset_bytes);
    uint32_t link = used != NONE ? used : dao_range_at(range, part)->after;
    uint64_t offset_units = offset_bytes >> UNIT_SHIFT;
    while (dao_range_at(range, link)->state != NODE_GAP &&
           offset_units - dao_range_at(range, link)->offset_units >= dao_range_at(range, link)->size_units) {
        link = dao_range_at(range, link)->after;
    }
    if (dao_range_at(range, link)->state == NODE_GAP) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    *out_block = dao_range_describe(range, link);
    return DAO_OK;
}
