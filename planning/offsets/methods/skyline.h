/* SPDX-License-Identifier: Apache-2.0 */
/* The skyline: its lowest run gets the first item, in some order, that fits above it. */
#ifndef DAO_PLANNING_LOWEST_H
#define DAO_PLANNING_LOWEST_H

#include "planning/offsets/methods/order.h"
#include "planning/offsets/problem/layout.h"

typedef struct dao_plan_skyline dao_plan_skyline_t;

typedef struct dao_plan_skyline_config {
    dao_plan_order_t order; /* not DAO_PLAN_ORDER_BREADTH or DAO_PLAN_ORDER_OFFSET */
    const float
        *weights; /* one an item, by which the order's value is multiplied; borrowed; NULL: all are 1 */
} dao_plan_skyline_config_t;

/* In passes. The instance outlives it. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_skyline_create(dao_plan_instance_t *instance,
                                                   const dao_plan_skyline_config_t *config,
                                                   dao_plan_work_t *work, dao_plan_skyline_t **out_skyline);
void dao_plan_skyline_destroy(dao_plan_skyline_t *skyline);

/* Goes on until it is done or the work counter ends. DAO_ERR_NO_HOST_MEMORY: it can be called again. */
DAO_NODISCARD dao_status_t dao_plan_skyline_step(dao_plan_skyline_t *skyline, dao_plan_work_t *work,
                                                 bool *out_is_done);

/* Valid once it is done: no two items whose times overlap share bytes. Borrowed. */
dao_plan_layout_t *dao_plan_skyline_layout(dao_plan_skyline_t *skyline);

bool dao_plan_skyline_is_valid(const dao_plan_skyline_t *skyline);

#endif
