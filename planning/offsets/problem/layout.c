/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts: their memory, their fixed items and their score. */
#include "planning/offsets/problem/layout.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"

#include <assert.h>

bool dao_plan_layout_init(dao_plan_layout_t *layout, dao_plan_instance_t *instance, dao_plan_work_t *work)
{
    *layout = (dao_plan_layout_t){0};
    layout->offsets =
        dao_plan_memory_alloc(&instance->memory, instance->item_count, sizeof(*layout->offsets));
    if (instance->pool_count > 1) {
        layout->pools =
            dao_plan_memory_alloc(&instance->memory, instance->item_count, sizeof(*layout->pools));
    }
    if (layout->offsets == NULL || (instance->pool_count > 1 && layout->pools == NULL)) {
        dao_plan_layout_finish(layout, instance);
        return false;
    }
    static_assert(DAO_PLAN_NOWHERE == UINT64_MAX, "all ones");
    dao_plan_pass_fill(layout->offsets, 0xff, instance->item_count * sizeof(*layout->offsets), work);
    return true;
}

void dao_plan_layout_finish(dao_plan_layout_t *layout, dao_plan_instance_t *instance)
{
    dao_plan_memory_free(&instance->memory, layout->offsets);
    dao_plan_memory_free(&instance->memory, layout->pools);
    *layout = (dao_plan_layout_t){0};
}

void dao_plan_layout_put_fixed(dao_plan_layout_t *layout, const dao_plan_instance_t *instance,
                               dao_plan_work_t *work)
{
    dao_plan_pass_t pass = {.count = instance->fixed_offsets == NULL ? 0 : instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (uint32_t i = (uint32_t)pass.begin; i < pass.end; i++) {
            if (instance->items[i].is_fixed) {
                DAO_ASSERT(instance->items[i].pool < instance->pool_count); /* any pool is pool 0 there */
                dao_plan_layout_put(layout, i, instance->fixed_offsets[i], instance->items[i].pool);
            }
        }
    }
}

static void add_score(const dao_plan_instance_t *instance, const dao_plan_layout_t *layout, uint32_t item,
                      dao_plan_score_t *score)
{
    uint64_t size_bytes = instance->items[item].size_bytes;
    if (layout->offsets[item] == DAO_PLAN_NOWHERE) {
        score->unplaced_bytes += size_bytes;
        score->unplaced_count++;
        return;
    }
    DAO_ASSERT(dao_plan_layout_pool(layout, item) < instance->pool_count);
    uint64_t *peak_bytes = &score->pool_peaks[dao_plan_layout_pool(layout, item)];
    uint64_t end = layout->offsets[item] + size_bytes;
    *peak_bytes = end > *peak_bytes ? end : *peak_bytes;
}

void dao_plan_layout_score(const dao_plan_instance_t *instance, const dao_plan_layout_t *layout,
                           dao_plan_work_t *work, dao_plan_score_t *out_score)
{
    *out_score = (dao_plan_score_t){0};
    dao_plan_pass_t pass = {.count = instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            add_score(instance, layout, (uint32_t)i, out_score);
        }
    }
    for (uint32_t i = 0; i < instance->pool_count; i++) {
        out_score->peak_bytes = dao_add_capped(out_score->peak_bytes, out_score->pool_peaks[i]);
    }
}
