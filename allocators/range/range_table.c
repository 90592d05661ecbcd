/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a range: creating them, making room in them, freeing them. */
#include "allocators/range/range_internal.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <string.h>

/* Unused nodes that are made at a time: not all that there is memory for, so that what is never used stays
   untouched and no call takes long. At most as many as a page of the system has. */
#define NODES_MIN  16u
#define NODES_MOST 128u

/* Nodes that a block takes at most, and a part. */
#define NODES_A_BLOCK 2u
#define NODES_A_PART  2u

#define NODE_BYTES ((uint32_t)sizeof(dao_range_node_t))

/* Part of itself that a table grows by: less of it is unused, and no growth takes long. */
#define GROWTH_SHARE 8u

/* Bytes of starts that are given back at a time: the largest page of a system that this runs on. */
#define SYSTEM_PAGE_BYTES ((size_t)64 << 10)

/* A table has this part in unused nodes at least before it shrinks, and so many nodes that both stay
   mappings: then shrinking needs no memory. */
#define IDLE_SHARE      2u
#define SHRUNK_NODE_MIN ((uint32_t)(DAO_HOST_SPARSE_BYTES / sizeof(dao_range_fence_t)))

static_assert(sizeof(dao_range_fence_t) <= sizeof(dao_range_node_t),
              "the table of fences is the smaller one");

static size_t cell_count(const dao_range_t *range)
{
    return (size_t)((range->capacity_units - 1) >> CELL_UNIT_SHIFT) + 1;
}

/* Makes room for `count` nodes in all. */
static bool tables_grow(dao_range_t *range, uint32_t count)
{
    if (count > UINT32_MAX / NODE_BYTES) {
        return false; /* a link has 32 bits */
    }
    unsigned char *table = range->table_room >= count
                               ? range->table
                               : dao_host_sparse_resize(range->table, range->table_room, count, NODE_BYTES);
    if (table == NULL) {
        return false;
    }
    range->table = table;
    range->table_room = range->table_room > count ? range->table_room : count;
    if (range->fences_room >= count) {
        return true;
    }
    dao_range_fence_t *fences =
        dao_host_sparse_resize(range->fences, range->fences_room, count, sizeof(*fences));
    if (fences == NULL) {
        return false;
    }
    range->fences = fences;
    range->fences_room = count;
    return true;
}

/* Returns how many nodes there are with some more: an eighth, within bounds. */
static uint32_t count_with_more(uint32_t count)
{
    uint32_t growth = count / GROWTH_SHARE;
    growth = growth < NODES_MIN ? NODES_MIN : growth;
    return count + (growth < NODES_MOST ? growth : NODES_MOST);
}

/* Makes more nodes, and chains them as unused ones. */
static bool nodes_grow(dao_range_t *range)
{
    uint32_t first_count = NODES_BEGIN / NODE_BYTES;
    uint32_t before = range->node_count == 0 ? first_count : range->node_count;
    uint32_t count = count_with_more(before);
    uint32_t room = before + before / GROWTH_SHARE;
    bool has_room = count <= range->table_room && count <= range->fences_room;
    if (!has_room && !tables_grow(range, room > count ? room : count)) {
        return false;
    }
    unsigned char *table = range->table;
    if (range->node_count == 0) {
        memset(table, 0, NODES_BEGIN); /* all bins are empty */
        *dao_range_at(range, DAO_RANGE_NONE) =
            (dao_range_node_t){.offset_units = UINT32_MAX, .state = NODE_BORDER};
        range->node_count = first_count;
    }
    for (uint32_t place = count; place > range->node_count; place--) {
        dao_range_node_give(range, (place - 1) * NODE_BYTES);
    }
    range->node_count = count;
    return true;
}

/* Returns true if so many nodes can be taken. */
static bool has_unused(const dao_range_t *range, uint32_t count)
{
    uint32_t node = range->unused;
    for (; count > 0 && node != DAO_RANGE_NONE; count--) {
        node = dao_range_at(range, node)->bin_after;
    }
    return count == 0;
}

static dao_status_t reserve(dao_range_t *range, uint32_t count)
{
    if (!has_unused(range, count) && !nodes_grow(range)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the table of %" PRIu32 " blocks",
                         range->node_count);
    }
    DAO_ASSERT(has_unused(range, count));
    return DAO_OK;
}

dao_status_t dao_range_reserve(dao_range_t *range)
{
    return reserve(range, NODES_A_BLOCK);
}

dao_status_t dao_range_reserve_part(dao_range_t *range)
{
    return reserve(range, NODES_A_PART + NODES_A_BLOCK);
}

/* Returns how many nodes there have to be at least: up to the last one with a block, and the bins of
   streams. */
static uint32_t needed_count(const dao_range_t *range)
{
    uint32_t least = NODES_BEGIN / NODE_BYTES;
    for (uint32_t i = DAO_RANGE_MIXED + 1; i < DAO_RANGE_SET_COUNT; i++) {
        const dao_range_set_t *set = range->sets[i];
        uint32_t end = set != NULL ? (set->place + (uint32_t)BINS_BYTES) / NODE_BYTES : 0;
        least = end > least ? end : least;
    }
    uint32_t count = range->node_count;
    while (count > least && dao_range_at(range, (count - 1) * NODE_BYTES)->state == NODE_UNUSED) {
        count--;
    }
    return count;
}

/* Leaves the unused nodes below `end` in their chain, in their order. */
static void drop_unused_from(dao_range_t *range, uint32_t end)
{
    uint32_t *place = &range->unused;
    for (uint32_t i = range->unused; i != DAO_RANGE_NONE; i = dao_range_at(range, i)->bin_after) {
        if (i < end) {
            *place = i;
            place = &dao_range_at(range, i)->bin_after;
        }
    }
    *place = DAO_RANGE_NONE;
}

/* Gives back the memory of starts in holes, where there are none. */
static void forget_starts(dao_range_t *range)
{
    uint64_t page_cells = SYSTEM_PAGE_BYTES / sizeof(*range->starts);
    for (uint32_t i = dao_range_first(range); i != DAO_RANGE_NONE; i = dao_range_at(range, i)->after) {
        const dao_range_node_t *node = dao_range_at(range, i);
        uint64_t begin = node->offset_units >> CELL_UNIT_SHIFT; /* this cell may be another block's, too */
        uint64_t end = (node->offset_units + node->size_units) >> CELL_UNIT_SHIFT;
        begin = (begin + page_cells) / page_cells * page_cells;
        end = end / page_cells * page_cells;
        if (dao_range_is_free(range, i) && begin < end) {
            dao_host_discard(&range->starts[begin], (size_t)(end - begin) * sizeof(*range->starts));
        }
    }
}

void dao_range_shrink(dao_range_t *range)
{
    if (cell_count(range) * sizeof(*range->starts) >= DAO_HOST_SPARSE_BYTES) {
        forget_starts(range);
    }
    uint32_t needed = needed_count(range);
    needed += needed / GROWTH_SHARE;
    needed = needed > SHRUNK_NODE_MIN ? needed : SHRUNK_NODE_MIN;
    if (needed > range->node_count - range->node_count / IDLE_SHARE) {
        return;
    }
    drop_unused_from(range, needed * NODE_BYTES);
    range->table = dao_host_sparse_resize(range->table, range->table_room, needed, NODE_BYTES);
    range->fences = dao_host_sparse_resize(range->fences, range->fences_room, needed, sizeof(*range->fences));
    range->node_count = range->table_room = range->fences_room = needed;
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
}

void dao_range_announce(dao_range_t *range, uint32_t stream)
{
    DAO_ASSERT(stream > 0 && stream < DAO_RANGE_SET_COUNT);
    if (__builtin_expect(range->sets[stream] != NULL, true)) {
        return;
    }
    uint32_t place = range->node_count;
    dao_range_set_t *set = dao_host_calloc(1, sizeof(*set));
    if (set == NULL || !tables_grow(range, place + BINS_BYTES / NODE_BYTES)) {
        dao_host_free(set);
        return;
    }
    set->place = place * NODE_BYTES;
    memset(range->table + set->place, 0, BINS_BYTES);
    range->node_count += BINS_BYTES / NODE_BYTES;
    range->bins_count += BINS_BYTES / NODE_BYTES;
    range->sets[stream] = set;
    range->set_bits |= UINT64_C(1) << stream;
}

static bool mixed_create(dao_range_t *range)
{
    dao_range_set_t *set = dao_host_calloc(1, sizeof(*set));
    if (set != NULL) {
        set->place = MIXED_PLACE;
        range->sets[DAO_RANGE_MIXED] = set;
        range->set_bits = UINT64_C(1) << DAO_RANGE_MIXED;
    }
    return set != NULL;
}

static bool starts_create(dao_range_t *range)
{
    range->starts = dao_host_sparse(cell_count(range), sizeof(*range->starts));
    return range->starts != NULL;
}

static bool index_create(dao_range_t *range)
{
    if (!range->config.is_indexed) {
        return true;
    }
    range->page_count = (uint32_t)(((range->capacity_units - 1) >> PAGE_UNIT_SHIFT) + 1);
    range->firsts = dao_host_sparse(range->page_count, sizeof(*range->firsts));
    range->page_words =
        dao_host_calloc((range->page_count + WORD_BITS - 1) / WORD_BITS, sizeof(*range->page_words));
    return range->firsts != NULL && range->page_words != NULL;
}

bool dao_range_tables_create(dao_range_t *range)
{
    return starts_create(range) && nodes_grow(range) && mixed_create(range) && index_create(range);
}

void dao_range_tables_destroy(dao_range_t *range)
{
    dao_host_sparse_free(range->starts, cell_count(range), sizeof(*range->starts));
    for (uint32_t i = 0; i < DAO_RANGE_SET_COUNT; i++) {
        dao_host_free(range->sets[i]);
    }
    dao_host_sparse_free(range->fences, range->fences_room, sizeof(*range->fences));
    dao_host_sparse_free(range->table, range->table_room, NODE_BYTES);
    dao_host_free(range->page_words);
    dao_host_sparse_free(range->firsts, range->page_count, sizeof(*range->firsts));
}
