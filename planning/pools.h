/* Several pools and a few items: the best plan there is, by looking at all splits. */
#ifndef DAO_PLANNING_POOLS_H
#define DAO_PLANNING_POOLS_H

#include "planning/method.h"

/* Tells whether an instance has several pools, and so few items that all splits can be looked at. */
bool dao_plan_pools_knows(const dao_plan_instance_t *instance);

/* Finds the layout that leaves out the fewest bytes, and of those one with the lowest peak. It is not taken up again halfway; a
   cancellation ends it. `out_is_exact`: there is no better one. It may be false where offsets are in the way of each other in
   ways that are too many, or that are not looked at. `layout` is one that was made for the instance; what it holds is open
   before, and after a cancellation. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_pools_find(dao_plan_instance_t *instance, dao_plan_layout_t *layout,
                                               dao_plan_meter_t *meter, bool *out_is_exact);

#endif
