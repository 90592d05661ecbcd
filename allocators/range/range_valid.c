/* SPDX-License-Identifier: Apache-2.0 */
/* Checks all that range.c says holds between calls. */
#include "allocators/range/range_internal.h"

#define NONE DAO_RANGE_NONE

/* What a walk over the blocks has counted. */
typedef struct recount {
    uint64_t used_units;
    uint32_t free_count;
    uint32_t fenced_count;
    uint64_t fenced_units;
    uint32_t gap_count;
    uint32_t page_count; /* pages that a block starts in */
    uint64_t last_cell;  /* that a used block starts in */
} recount_t;

/* Checks that the first block that starts in a page is the index's. */
static bool index_is_valid(const dao_range_t *range, uint32_t link, uint32_t before, recount_t *recount)
{
    uint32_t page = dao_range_at(range, link)->offset_units >> PAGE_UNIT_SHIFT;
    if (range->firsts == NULL ||
        (before != NONE && dao_range_at(range, before)->offset_units >> PAGE_UNIT_SHIFT == page)) {
        return true;
    }
    recount->page_count++;
    return (range->page_words[page / WORD_BITS] >> page % WORD_BITS & 1) != 0 && range->firsts[page] == link;
}

/* Checks one block against the one before it and against map, bins and index. */
static bool block_is_valid(const dao_range_t *range, uint32_t link, uint32_t before, uint64_t offset_units,
                           recount_t *recount)
{
    const dao_range_node_t *node = dao_range_at(range, link);
    if (node->offset_units != offset_units || node->before != before || node->size_units == 0 ||
        node->size_units > range->capacity_units - offset_units ||
        !index_is_valid(range, link, before, recount) ||
        ((node->state >= NODE_FENCED || node->state == NODE_MARKED) &&
         dao_range_fence_of(range, link).streams == 0)) {
        return false;
    }
    if (node->state == NODE_GAP) {
        recount->gap_count++;
        return range->config.is_parts && dao_range_at(range, before)->state != NODE_GAP;
    }
    if (!dao_range_is_free(range, link)) {
        uint64_t cell = offset_units >> CELL_UNIT_SHIFT;
        bool is_first = recount->used_units == 0 || cell != recount->last_cell;
        recount->used_units += node->size_units;
        recount->last_cell = cell;
        return (node->state == NODE_USED || node->state == NODE_MARKED) &&
               (!is_first || range->starts[cell] == link); /* the others in the cell are found from it */
    }
    recount->free_count++;
    recount->fenced_count += node->state >= NODE_FENCED;
    recount->fenced_units += node->state >= NODE_FENCED ? node->size_units : 0;
    return node->bin == dao_range_bin_of(node->size_units) && !dao_range_are_alike(range, before, link);
}

/* Returns true if a link leads to a node of the table other than the sentinel. */
static bool is_node(const dao_range_t *range, uint32_t link)
{
    return link % sizeof(dao_range_node_t) == 0 && link >= NODES_BEGIN &&
           link / sizeof(dao_range_node_t) < range->node_count;
}

static bool blocks_are_valid(const dao_range_t *range, recount_t *recount)
{
    uint64_t offset_units = 0;
    uint32_t before = NONE;
    uint32_t count = NODES_BEGIN / sizeof(dao_range_node_t) + range->bins_count;
    for (uint32_t i = dao_range_first(range); i != NONE; before = i, i = dao_range_at(range, i)->after) {
        if (!is_node(range, i) || ++count > range->node_count ||
            !block_is_valid(range, i, before, offset_units, recount)) {
            return false;
        }
        offset_units += dao_range_at(range, i)->size_units;
    }
    if (range->config.is_parts && dao_range_at(range, before)->state != NODE_GAP) {
        return false;
    }
    uint32_t unused_count = 0;
    for (uint32_t i = range->unused; i != NONE; i = dao_range_at(range, i)->bin_after) {
        if (!is_node(range, i) || ++unused_count > range->node_count ||
            dao_range_at(range, i)->state != NODE_UNUSED) {
            return false;
        }
    }
    return offset_units == range->capacity_units && dao_range_at(range, NONE)->before == before &&
           dao_range_at(range, NONE)->state == NODE_BORDER && count + unused_count == range->node_count;
}

/* Checks the list of a bin, whose nodes have one state, and counts these. */
static bool bin_is_valid(const dao_range_t *range, dao_range_set_t *bins, size_t bin, uint32_t state,
                         uint32_t most, uint32_t *count)
{
    uint32_t before = dao_range_bin_link(bins, bin);
    for (uint32_t i = dao_range_bin_first(range, bins, bin); i != NONE;
         before = i, i = dao_range_at(range, i)->bin_after) {
        const dao_range_node_t *node = dao_range_at(range, i);
        if (++*count > most || node->state != state || node->bin != bin || node->bin_before != before) {
            return false;
        }
    }
    return true;
}

/* Checks some bins, most of which are empty. */
static bool bins_are_valid(const dao_range_t *range, dao_range_set_t *bins, uint32_t state, uint32_t most,
                           uint32_t *out_count)
{
    const uint64_t *words = dao_range_words(range, bins);
    const uint32_t *firsts = dao_range_bin_place(range, bins, BIN_FIRST);
    *out_count = 0;
    for (size_t i = 0; i < BIN_COUNT; i++) {
        if (firsts[i] != NONE && ((words[i / WORD_BITS] >> i % WORD_BITS & 1) == 0 ||
                                  !bin_is_valid(range, bins, BIN_FIRST + i, state, most, out_count))) {
            return false;
        }
    }
    return true;
}

/* Checks the queue of a stream's set; that of MIXED is empty. */
static bool queue_is_valid(const dao_range_t *range, uint32_t number)
{
    const dao_range_set_t *set = range->sets[number];
    uint32_t count = 0, before = NONE;
    for (uint32_t i = set->oldest; i != NONE; before = i, i = dao_range_fence(range, i)->newer) {
        if (++count > set->count || dao_range_at(range, i)->state != NODE_FENCED + number ||
            dao_range_fence(range, i)->older != before ||
            (before != NONE && dao_range_fence(range, before)->epoch > dao_range_fence(range, i)->epoch)) {
            return false;
        }
    }
    return set->newest == before && count == (number != DAO_RANGE_MIXED ? set->count : 0);
}

static bool sets_are_valid(const dao_range_t *range, const recount_t *recount)
{
    uint32_t free_count = 0, fenced_count = 0;
    if (!bins_are_valid(range, NULL, NODE_FREE, recount->free_count, &free_count)) {
        return false;
    }
    for (uint32_t i = 0; i < DAO_RANGE_SET_COUNT; i++) {
        dao_range_set_t *set = range->sets[i];
        uint32_t count = 0;
        if ((range->set_bits >> i & 1) != (set != NULL)) {
            return false;
        }
        if (set != NULL && (!bins_are_valid(range, set, NODE_FENCED + i, recount->fenced_count, &count) ||
                            count != set->count || !queue_is_valid(range, i))) {
            return false;
        }
        fenced_count += count;
    }
    return fenced_count == recount->fenced_count && free_count + fenced_count == recount->free_count;
}

static bool gaps_are_valid(const dao_range_t *range, const recount_t *recount)
{
    uint32_t gap_count = 0;
    uint32_t before = NONE;
    for (uint32_t i = range->gaps; i != NONE; before = i, i = dao_range_at(range, i)->bin_after) {
        if (++gap_count > recount->gap_count || dao_range_at(range, i)->state != NODE_GAP ||
            dao_range_at(range, i)->bin_before != before) {
            return false;
        }
    }
    return gap_count == recount->gap_count;
}

static bool tables_are_valid(const dao_range_t *range, const recount_t *recount)
{
    for (uint64_t cell = 0; cell <= recount->last_cell; cell++) {
        uint32_t start = range->starts[cell];
        if (start != NONE && (dao_range_at(range, start)->state > NODE_MARKED ||
                              dao_range_at(range, start)->offset_units >> CELL_UNIT_SHIFT != cell)) {
            return false;
        }
    }
    uint32_t page_count = 0;
    for (uint32_t word = 0; range->firsts != NULL && word < (range->page_count + WORD_BITS - 1) / WORD_BITS;
         word++) {
        page_count += (uint32_t)__builtin_popcountll(range->page_words[word]);
    }
    return page_count == recount->page_count;
}

bool dao_range_is_valid(const dao_range_t *range)
{
    recount_t recount = {0};
    return blocks_are_valid(range, &recount) && sets_are_valid(range, &recount) &&
           gaps_are_valid(range, &recount) && tables_are_valid(range, &recount) &&
           recount.used_units == range->used_units && recount.fenced_units == range->fenced_units;
}
