/* SPDX-License-Identifier: Apache-2.0 */
/* Items are dropped one after the other, and each lies on the highest top beneath it. */
#ifndef DAO_PLANNING_DROP_H
#define DAO_PLANNING_DROP_H

#include "planning/offsets/problem/layout.h"

/* Returns true if a problem can be dropped: one pool, nothing fixed, no clocks. */
bool dao_plan_drop_is_possible(const dao_plan_instance_t *instance);

/* Drops all items into a layout in which nothing is placed, in the order of `offsets`, one an item; those
   that would lie above the capacity find no place. In passes, whose output is of no use if they were
   cancelled. DAO_ERR_NO_HOST_MEMORY. Cost: O(pieces log times). */
DAO_NODISCARD dao_status_t dao_plan_drop_items(dao_plan_instance_t *instance, const uint64_t *offsets,
                                               dao_plan_work_t *work, dao_plan_layout_t *layout);

#endif
