/* SPDX-License-Identifier: Apache-2.0 */
/* The squeaky wheel: the skyline is filled again and again. What lay too high gets more weight, so that it
   comes sooner in the next round (squeaky wheel optimization: Joslin and Clements, 1999). */
#ifndef DAO_PLANNING_SQUEAKY_WHEEL_H
#define DAO_PLANNING_SQUEAKY_WHEEL_H

#include "planning/offsets/problem/layout.h"

typedef struct dao_plan_squeaky_wheel dao_plan_squeaky_wheel_t;

/* In a pass. The instance outlives it. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_squeaky_wheel_create(dao_plan_instance_t *instance, uint64_t seed,
                                                         dao_plan_work_t *work,
                                                         dao_plan_squeaky_wheel_t **out_squeaky_wheel);
void dao_plan_squeaky_wheel_destroy(dao_plan_squeaky_wheel_t *squeaky_wheel);

/* Only layouts better than this one are of interest. */
void dao_plan_squeaky_wheel_set_best(dao_plan_squeaky_wheel_t *squeaky_wheel, const dao_plan_score_t *best);

/* Goes on until the work counter ends or there is a layout that is better than all before.
   DAO_ERR_NO_HOST_MEMORY: it can be called again. */
DAO_NODISCARD dao_status_t dao_plan_squeaky_wheel_step(dao_plan_squeaky_wheel_t *squeaky_wheel,
                                                       dao_plan_work_t *work, bool *out_is_found);

/* Valid when one was found, until the next step. Borrowed. */
dao_plan_layout_t *dao_plan_squeaky_wheel_layout(dao_plan_squeaky_wheel_t *squeaky_wheel);

/* Returns true if nothing better came for so long that more is hardly worth it. */
bool dao_plan_squeaky_wheel_is_exhausted(const dao_plan_squeaky_wheel_t *squeaky_wheel);

bool dao_plan_squeaky_wheel_is_valid(const dao_plan_squeaky_wheel_t *squeaky_wheel);

#endif
