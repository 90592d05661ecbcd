/* SPDX-License-Identifier: Apache-2.0 */
/* Several pools and few items: the best plan, by trying all splits of the items over the pools. */
#ifndef DAO_PLANNING_POOLS_H
#define DAO_PLANNING_POOLS_H

#include "planning/offsets/problem/layout.h"

typedef struct dao_plan_pools dao_plan_pools_t;

/* So many times an item is placed at most, over all sets of items: some hundred milliseconds. Nothing is
   exact then. */
#define DAO_PLAN_POOLS_STEPS_MAX ((uint64_t)1 << 22)

/* Returns true if an instance has several pools, and so few items and pieces that all splits can be looked
   at. */
bool dao_plan_pools_knows(const dao_plan_instance_t *instance);

/* Begins to look for the layout that leaves out the fewest bytes, and of those for one with the lowest peak;
   places items so many times at most. The instance outlives it. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_pools_create(dao_plan_instance_t *instance, uint64_t step_limit,
                                                 dao_plan_work_t *work, dao_plan_pools_t **out_pools);
void dao_plan_pools_destroy(dao_plan_pools_t *pools);

/* Goes on until the work counter ends. True: the layout is there. */
bool dao_plan_pools_step(dao_plan_pools_t *pools, dao_plan_work_t *work);

/* Returns true if the layout is there, and none is better. It may not be known where offsets are in the way
   of each other in ways that are too many, or that are not looked at. */
bool dao_plan_pools_is_exact(const dao_plan_pools_t *pools);

/* Valid when all steps are done; borrowed. */
const dao_plan_layout_t *dao_plan_pools_layout(const dao_plan_pools_t *pools);

bool dao_plan_pools_is_valid(const dao_plan_pools_t *pools);

#endif
