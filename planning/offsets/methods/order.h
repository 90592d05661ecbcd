/* SPDX-License-Identifier: Apache-2.0 */
/* By what methods order items. */
#ifndef DAO_PLANNING_ORDER_H
#define DAO_PLANNING_ORDER_H

#include "planning/offsets/problem/instance.h"

/* By what items are ordered; the largest first, of equal ones the one that begins first. */
typedef enum dao_plan_order {
    DAO_PLAN_ORDER_START, /* the one that begins first */
    DAO_PLAN_ORDER_DURATION,
    DAO_PLAN_ORDER_AREA,
    DAO_PLAN_ORDER_SIZE,
    DAO_PLAN_ORDER_BREADTH, /* the one that is alive when most is; of one such time the largest */
    DAO_PLAN_ORDER_OFFSET,  /* lowest offset in a layout first */
} dao_plan_order_t;

/* Returns a number that is larger for what comes earlier. Not for DAO_PLAN_ORDER_OFFSET. */
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
