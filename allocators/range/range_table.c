/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a range: creating them, making room in them, freeing them. */
#include "allocators/range/range_internal.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <string.h>

/* Of the first table, behind the sentinel and the bins. */
#define NODES_MIN 16u

#define NODE_BYTES ((uint32_t)sizeof(dao_range_node_t))

/* Makes room for `count` nodes in all. */
static bool tables_grow(dao_range_t *range, uint32_t count)
{
    if (count > UINT32_MAX / NODE_BYTES) {
        return false; /* a link has 32 bits */
    }
    unsigned char *table = dao_host_realloc(range->table, count, sizeof(dao_range_node_t));
    range->table = table != NULL ? table : range->table;
    dao_range_fence_t *fences =
        table != NULL ? dao_host_realloc(range->fences, count, sizeof(*fences)) : NULL;
    range->fences = fences != NULL ? fences : range->fences;
    return fences != NULL; /* else some have more room than node_count says, which harms nothing */
}

/* Makes room for more nodes, and chains them as unused ones. */
static bool nodes_grow(dao_range_t *range)
{
    uint32_t first_count = NODES_BEGIN / NODE_BYTES;
    uint32_t count = range->node_count == 0 ? first_count + NODES_MIN : range->node_count * 2;
    if (!tables_grow(range, count)) {
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

dao_status_t dao_range_reserve(dao_range_t *range)
{
    if (!dao_range_has_room(range) && !nodes_grow(range)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the table of %" PRIu32 " blocks",
                         range->node_count);
    }
    return DAO_OK;
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

static size_t cell_count(const dao_range_t *range)
{
    return (size_t)((range->capacity_units - 1) >> CELL_UNIT_SHIFT) + 1;
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
    dao_host_free(range->fences);
    dao_host_free(range->table);
    dao_host_free(range->page_words);
    dao_host_sparse_free(range->firsts, range->page_count, sizeof(*range->firsts));
}
