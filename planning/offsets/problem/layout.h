/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a method: an offset and a pool for each item, and the score that layouts are compared by. */
#ifndef DAO_PLANNING_LAYOUT_H
#define DAO_PLANNING_LAYOUT_H

#include "planning/offsets/problem/instance.h"

/* Where the items are: one offset an item, DAO_PLAN_NOWHERE for one that is not placed (yet). */
typedef struct dao_plan_layout {
    uint64_t *offsets;
    uint16_t *pools; /* NULL: there is only one */
} dao_plan_layout_t;

/* Makes a layout in which nothing is placed, by a pass. False without memory. */
bool dao_plan_layout_init(dao_plan_layout_t *layout, dao_plan_instance_t *instance, dao_plan_work_t *work);
void dao_plan_layout_finish(dao_plan_layout_t *layout, dao_plan_instance_t *instance);

/* Puts the fixed items where they have to be, by a pass. */
void dao_plan_layout_put_fixed(dao_plan_layout_t *layout, const dao_plan_instance_t *instance,
                               dao_plan_work_t *work);

static inline void dao_plan_layout_put(dao_plan_layout_t *layout, uint32_t item, uint64_t offset,
                                       uint32_t pool)
{
    layout->offsets[item] = offset;
    if (layout->pools != NULL) {
        layout->pools[item] = (uint16_t)pool;
    }
}

static inline uint32_t dao_plan_layout_pool(const dao_plan_layout_t *layout, uint32_t item)
{
    return layout->pools == NULL ? 0 : layout->pools[item];
}

/* What layouts are compared by: fewer bytes that did not fit, then the lower peak. */
typedef struct dao_plan_score {
    uint64_t unplaced_bytes;
    size_t unplaced_count;
    uint64_t peak_bytes;
    uint64_t pool_peaks[DAO_PLAN_POOL_COUNT_MAX];
} dao_plan_score_t;

/* Computes the score of a layout, in a pass. */
void dao_plan_layout_score(const dao_plan_instance_t *instance, const dao_plan_layout_t *layout,
                           dao_plan_work_t *work, dao_plan_score_t *out_score);

static inline bool dao_plan_score_is_better(const dao_plan_score_t *left, const dao_plan_score_t *right)
{
    return left->unplaced_bytes < right->unplaced_bytes ||
           (left->unplaced_bytes == right->unplaced_bytes && left->peak_bytes < right->peak_bytes);
}

#endif
