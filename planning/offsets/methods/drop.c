/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy placement looks at all that is placed for each item. Where that is too much, an item is dropped
   instead: it lies on the highest top beneath any of its pieces, and holes below that stay empty.

       height  |      +-----+
               |  +---+  x  +--+        x has two pieces, which have one offset: the top of a
               |  | a |     |..|
               +--+---+-----+--+--->    time

   The tops are a segment tree over the times. What covers all times of a node is written down there alone, as
   tops only rise. So a top is found, and raised, in as many steps as the tree is high.

   What holds: highest[node] is the most of its children's and of covers[node]. */
#include "planning/offsets/methods/drop.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/support/sort.h"

/* Work of an item, some 100 ns: that many steps up and down the tree. */
#define DROP_WORK 8u

typedef struct drop {
    const dao_plan_instance_t *instance;
    uint64_t *highest; /* 2 x leaf_count: of all times of a node */
    uint64_t *covers;  /* the same: of what covers a node and not its parent */
    uint32_t leaf_count;
    dao_plan_key_t *order;
    dao_plan_key_t *scratch;
} drop_t;

bool dao_plan_drop_is_possible(const dao_plan_instance_t *instance)
{
    return instance->pool_count == 1 && instance->fixed_offsets == NULL && instance->clock_count == 0;
}

/* The highest top at the times [begin, end). */
static uint64_t top_between(const drop_t *drop, uint32_t begin, uint32_t end)
{
    uint64_t top = 0;
    uint32_t left = begin + drop->leaf_count, right = end + drop->leaf_count;
    for (; left < right; left /= 2, right /= 2) {
        top = left % 2 != 0 ? dao_larger(top, drop->highest[left++]) : top;
        top = right % 2 != 0 ? dao_larger(top, drop->highest[--right]) : top;
    }
    for (left = begin + drop->leaf_count; left > 0; left /= 2) {
        top = dao_larger(top, drop->covers[left]);
    }
    for (right = end - 1 + drop->leaf_count; right > 0; right /= 2) {
        top = dao_larger(top, drop->covers[right]);
    }
    return top;
}

static void cover(drop_t *drop, uint32_t node, uint64_t top)
{
    drop->highest[node] = dao_larger(drop->highest[node], top);
    drop->covers[node] = dao_larger(drop->covers[node], top);
}

static void raise_parents(drop_t *drop, uint32_t leaf, uint64_t top)
{
    for (uint32_t node = (leaf + drop->leaf_count) / 2; node > 0; node /= 2) {
        drop->highest[node] = dao_larger(drop->highest[node], top);
    }
}

/* Raises the tops of the times [begin, end). */
static void raise_between(drop_t *drop, uint32_t begin, uint32_t end, uint64_t top)
{
    uint32_t left = begin + drop->leaf_count, right = end + drop->leaf_count;
    for (; left < right; left /= 2, right /= 2) {
        if (left % 2 != 0) {
            cover(drop, left++, top);
        }
        if (right % 2 != 0) {
            cover(drop, --right, top);
        }
    }
    raise_parents(drop, begin, top);
    raise_parents(drop, end - 1, top);
}

static void drop_item(drop_t *drop, uint32_t index, dao_plan_layout_t *layout)
{
    const dao_plan_instance_t *instance = drop->instance;
    const dao_plan_item_t *item = &instance->items[index];
    uint32_t piece_count = dao_plan_instance_piece_count(instance, index);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < piece_count; i++) {
        dao_plan_piece_t piece =
            dao_plan_instance_piece(instance, dao_plan_instance_piece_at(instance, index, i));
        uint64_t top = top_between(drop, piece.begin, piece.end);
        offset = dao_larger(offset, top > piece.low ? top - piece.low : 0);
    }
    offset = dao_round_up(offset, UINT64_C(1) << item->alignment_log2);
    if (offset + item->size_bytes > instance->capacities[0]) {
        return;
    }
    dao_plan_layout_put(layout, index, offset, 0);
    for (uint32_t i = 0; i < piece_count; i++) {
        dao_plan_piece_t piece =
            dao_plan_instance_piece(instance, dao_plan_instance_piece_at(instance, index, i));
        raise_between(drop, piece.begin, piece.end, offset + piece.high);
    }
}

static void drop_all(drop_t *drop, const uint64_t *offsets, dao_plan_work_t *work, dao_plan_layout_t *layout)
{
    uint32_t count = drop->instance->item_count;
    for (uint32_t i = 0; i < count; i++) {
        drop->order[i] = (dao_plan_key_t){.key = offsets[i], .value = i};
    }
    dao_plan_sort_keys(drop->order, drop->scratch, count, work);
    dao_plan_pass_t pass = {.count = count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            drop_item(drop, drop->order[i].value, layout);
        }
        work->used += (pass.end - pass.begin) * DROP_WORK;
    }
}

dao_status_t dao_plan_drop_items(dao_plan_instance_t *instance, const uint64_t *offsets,
                                 dao_plan_work_t *work, dao_plan_layout_t *layout)
{
    DAO_ASSERT(dao_plan_drop_is_possible(instance));
    dao_plan_memory_t *memory = &instance->memory;
    drop_t drop = {.instance = instance, .leaf_count = 1};
    while (drop.leaf_count < instance->time_count) {
        drop.leaf_count *= 2;
    }
    size_t nodes = 2 * (size_t)drop.leaf_count;
    drop.highest = dao_plan_memory_alloc(memory, nodes, sizeof(*drop.highest));
    drop.covers = dao_plan_memory_alloc(memory, nodes, sizeof(*drop.covers));
    drop.order = dao_plan_memory_alloc(memory, instance->item_count, sizeof(*drop.order));
    drop.scratch = dao_plan_memory_alloc(memory, instance->item_count, sizeof(*drop.scratch));
    bool is_complete =
        drop.highest != NULL && drop.covers != NULL && drop.order != NULL && drop.scratch != NULL;
    if (is_complete) {
        drop_all(&drop, offsets, work, layout);
    }
    dao_plan_memory_free(memory, drop.highest);
    dao_plan_memory_free(memory, drop.covers);
    dao_plan_memory_free(memory, drop.order);
    dao_plan_memory_free(memory, drop.scratch);
    return is_complete
               ? DAO_OK
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to drop %u buffers", instance->item_count);
}
