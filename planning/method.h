/* What the methods share: how their work is counted and stopped, and where they leave offsets. */
#ifndef DAO_PLANNING_METHOD_H
#define DAO_PLANNING_METHOD_H

#include "planning/instance.h"

#include <stdatomic.h>

/* Counts work. A method goes on while dao_plan_meter_has(), and looks often enough: every few thousand operations. */
typedef struct dao_plan_meter {
    uint64_t used;
    uint64_t limit;                   /* the slice ends when `used` has reached it */
    const _Atomic bool *is_cancelled; /* the slice ends when it is set */
} dao_plan_meter_t;

static inline bool dao_plan_meter_has(const dao_plan_meter_t *meter)
{
    return meter->used < meter->limit && !atomic_load_explicit(meter->is_cancelled, memory_order_relaxed);
}

/* Where the items are: one offset an item, DAO_PLAN_NOWHERE for one that is not placed (yet). */
typedef struct dao_plan_layout {
    uint64_t *offsets;
    uint16_t *pools; /* NULL: there is only one */
} dao_plan_layout_t;

/* Makes a layout in which nothing is placed. False without memory. */
bool dao_plan_layout_init(dao_plan_layout_t *layout, dao_plan_instance_t *instance);
void dao_plan_layout_finish(dao_plan_layout_t *layout, dao_plan_instance_t *instance);

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
