/* Checks all that range.c says holds between calls. */
#include "allocators/range_internal.h"

#define NONE DAO_RANGE_NONE

/* What a walk over the blocks has counted. */
typedef struct recount {
    uint64_t used_units;
    uint32_t free_count;
    uint32_t held_count;
    uint32_t gap_count;
    uint32_t page_count; /* pages that a block starts in */
    uint64_t last_cell;  /* that a used block starts in */
} recount_t;

/* Checks that the first block that starts in a page is the index's. */
static bool index_is_valid(const dao_range_t *range, uint32_t index, uint32_t before, recount_t *recount)
{
    uint32_t page = range->nodes[index].offset_units >> PAGE_UNIT_SHIFT;
    if (range->firsts == NULL ||
        (before != NONE && range->nodes[before].offset_units >> PAGE_UNIT_SHIFT == page)) {
        return true;
    }
    recount->page_count++;
    return (range->page_words[page / WORD_BITS] >> page % WORD_BITS & 1) != 0 && range->firsts[page] == index;
}

/* Checks one block against the one before it and against map, bins and index. */
static bool block_is_valid(const dao_range_t *range, uint32_t index, uint32_t before, uint64_t offset_units,
                           recount_t *recount)
{
    const dao_range_node_t *node = &range->nodes[index];
    if (node->offset_units != offset_units || node->before != before || node->size_units == 0 ||
        node->size_units > range->capacity_units - offset_units ||
        !index_is_valid(range, index, before, recount) ||
        ((node->state == NODE_HELD || node->state == NODE_MARKED) &&
         dao_hold_is_empty(&range->holds[index]))) {
        return false;
    }
    if (node->state == NODE_GAP) {
        recount->gap_count++;
        return range->config.is_parts && range->nodes[before].state != NODE_GAP;
    }
    if (!dao_range_is_free(range, index)) {
        recount->used_units += node->size_units;
        recount->last_cell = offset_units >> CELL_UNIT_SHIFT;
        return (node->state == NODE_USED || node->state == NODE_MARKED) &&
               dao_range_find_used(range, (uint64_t)node->offset_units << UNIT_SHIFT) == index;
    }
    recount->free_count++;
    recount->held_count += node->state == NODE_HELD;
    return node->bin == dao_range_bin_of(node->size_units) && !dao_range_are_alike(range, before, index);
}

static bool blocks_are_valid(const dao_range_t *range, recount_t *recount)
{
    uint64_t offset_units = 0;
    uint32_t before = NONE;
    uint32_t count = 1; /* the border */
    for (uint32_t i = dao_range_first(range); i != NONE; before = i, i = range->nodes[i].after) {
        if (i >= range->node_count || ++count > range->node_count ||
            !block_is_valid(range, i, before, offset_units, recount)) {
            return false;
        }
        offset_units += range->nodes[i].size_units;
    }
    if (range->config.is_parts && range->nodes[before].state != NODE_GAP) {
        return false;
    }
    uint32_t unused_count = 0;
    for (uint32_t i = range->unused; i != NONE; i = range->nodes[i].bin_after) {
        if (i >= range->node_count || ++unused_count > range->node_count ||
            range->nodes[i].state != NODE_UNUSED) {
            return false;
        }
    }
    return offset_units == range->capacity_units && range->nodes[NONE].before == before &&
           range->nodes[NONE].state == NODE_BORDER && count + unused_count == range->node_count;
}

static bool bins_are_valid(const dao_range_t *range, const recount_t *recount)
{
    uint32_t free_count = 0;
    for (uint32_t bin = 0; bin < BIN_COUNT; bin++) {
        bool has_bit = (range->bin_words[bin / WORD_BITS] >> bin % WORD_BITS & 1) != 0;
        if (has_bit != (range->bins[bin] != NONE)) {
            return false;
        }
        uint32_t before = NONE;
        for (uint32_t i = range->bins[bin]; i != NONE; before = i, i = range->nodes[i].bin_after) {
            const dao_range_node_t *node = &range->nodes[i];
            if (++free_count > recount->free_count || !dao_range_is_free(range, i) || node->bin != bin ||
                node->bin_before != before) {
                return false;
            }
        }
    }
    for (uint32_t word = 0; word < BIN_WORDS; word++) {
        if ((range->bin_words[word] != 0) != ((range->bin_summary >> word & 1) != 0)) {
            return false;
        }
    }
    return free_count == recount->free_count;
}

static bool gaps_are_valid(const dao_range_t *range, const recount_t *recount)
{
    uint32_t gap_count = 0;
    uint32_t before = NONE;
    for (uint32_t i = range->gaps; i != NONE; before = i, i = range->nodes[i].bin_after) {
        if (++gap_count > recount->gap_count || range->nodes[i].state != NODE_GAP ||
            range->nodes[i].bin_before != before) {
            return false;
        }
    }
    return gap_count == recount->gap_count;
}

static bool tables_are_valid(const dao_range_t *range, const recount_t *recount)
{
    for (uint64_t cell = 0; cell <= recount->last_cell; cell++) {
        uint32_t start = range->starts[cell];
        if (start != NONE && (range->nodes[start].state < NODE_USED ||
                              range->nodes[start].offset_units >> CELL_UNIT_SHIFT != cell)) {
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
    return blocks_are_valid(range, &recount) && bins_are_valid(range, &recount) &&
           gaps_are_valid(range, &recount) && tables_are_valid(range, &recount) &&
           recount.used_units == range->used_units && recount.held_count == range->held_count;
}
