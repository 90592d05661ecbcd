/* SPDX-License-Identifier: Apache-2.0 */
/* What the methods share: where they leave offsets, and by what they order items. */
#ifndef DAO_PLANNING_METHOD_H
#define DAO_PLANNING_METHOD_H

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

/* By what items are ordered; the largest first, of equal ones the one that begins first. */
typedef enum dao_plan_order {
    DAO_PLAN_ORDER_START, /* the one that begins first */
    DAO_PLAN_ORDER_DURATION,
    DAO_PLAN_ORDER_AREA,
    DAO_PLAN_ORDER_SIZE,
    DAO_PLAN_ORDER_BREADTH, /* the one that is alive when most is; of one such time the largest */
    DAO_PLAN_ORDER_OFFSET,  /* lowest offset in a layout first */
} dao_plan_order_t;

/* Gives a number that is larger for what comes earlier. Not for DAO_PLAN_ORDER_OFFSET. */
static inline double dao_plan_order_value(dao_plan_order_t order, const dao_plan_item_t *item)
{
    double duration = (double)(item->end - item->begin);
    switch (order) {
    case DAO_PLAN_ORDER_DURATION:
        return duration;
    case DAO_PLAN_ORDER_AREA:
        return duration * (double)item->size_bytes; /* the same on every machine: one IEEE product */
    case DAO_PLAN_ORDER_SIZE:
    case DAO_PLAN_ORDER_BREADTH: /* of those of one time */
        return (double)item->size_bytes;
    case DAO_PLAN_ORDER_START:
    case DAO_PLAN_ORDER_OFFSET:
        break;
    }
    return 1.0;
}

#endif
