/* SPDX-License-Identifier: Apache-2.0 */
/* Priority bumping: the skyline is filled again and again, and what came too high is given more weight, so
   that it comes sooner the next time. */
#ifndef DAO_PLANNING_BUMP_H
#define DAO_PLANNING_BUMP_H

#include "planning/offsets/problem/plan.h"

typedef struct dao_plan_bump dao_plan_bump_t;

/* In a pass. The instance outlives it. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_bump_create(dao_plan_instance_t *instance, uint64_t seed,
                                                dao_plan_meter_t *meter, dao_plan_bump_t **out_bump);
void dao_plan_bump_destroy(dao_plan_bump_t *bump);

/* Only layouts better than this one are of interest. */
void dao_plan_bump_set_best(dao_plan_bump_t *bump, const dao_plan_worth_t *best);

/* Goes on until the meter ends or there is a layout that is better than all before. DAO_ERR_NO_HOST_MEMORY:
   it can be called again. */
DAO_NODISCARD dao_status_t dao_plan_bump_step(dao_plan_bump_t *bump, dao_plan_meter_t *meter,
                                              bool *out_is_found);

/* Valid when one was found, until the next step. Borrowed. */
dao_plan_layout_t *dao_plan_bump_layout(dao_plan_bump_t *bump);

/* Tells whether nothing better came for so long that more is hardly worth it. */
bool dao_plan_bump_is_tired(const dao_plan_bump_t *bump);

bool dao_plan_bump_is_valid(const dao_plan_bump_t *bump);

#endif
