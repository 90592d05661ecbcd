/* SPDX-License-Identifier: Apache-2.0 */
/* Lowest segment first: the skyline's lowest run gets the first buffer, in some order, that fits above it. */
#ifndef DAO_PLANNING_LOWEST_H
#define DAO_PLANNING_LOWEST_H

#include "planning/offsets/methods/method.h"

typedef struct dao_plan_lowest dao_plan_lowest_t;

typedef struct dao_plan_lowest_config {
    dao_plan_order_t order; /* not DAO_PLAN_ORDER_BREADTH or DAO_PLAN_ORDER_OFFSET */
    const float
        *weights; /* one an item, by which the order's value is multiplied; borrowed; NULL: all are 1 */
} dao_plan_lowest_config_t;

/* In passes. The instance outlives it. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_lowest_create(dao_plan_instance_t *instance,
                                                  const dao_plan_lowest_config_t *config,
                                                  dao_plan_meter_t *meter, dao_plan_lowest_t **out_lowest);
void dao_plan_lowest_destroy(dao_plan_lowest_t *lowest);

/* Goes on until it is done or the meter ends. DAO_ERR_NO_HOST_MEMORY: it can be called again. */
DAO_NODISCARD dao_status_t dao_plan_lowest_step(dao_plan_lowest_t *lowest, dao_plan_meter_t *meter,
                                                bool *out_is_done);

/* Valid once it is done: no two items whose times overlap share bytes. Borrowed. */
dao_plan_layout_t *dao_plan_lowest_layout(dao_plan_lowest_t *lowest);

bool dao_plan_lowest_is_valid(const dao_plan_lowest_t *lowest);

#endif
