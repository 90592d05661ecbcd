/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of step plans, and the allocator that they ask for. */
#ifndef DAO_RUNTIME_STEP_PLAN_SETTINGS_H
#define DAO_RUNTIME_STEP_PLAN_SETTINGS_H

#include "allocators/step_plan/planned.h"

/* Reads what the environment says for places whose config does not. DAO_ERR_INVALID with a message. */
DAO_NODISCARD dao_status_t dao_step_plan_find(dao_step_plan_config_t *out_defaults);

/* Checks a place's config. DAO_ERR_INVALID with a message. */
DAO_NODISCARD dao_status_t dao_step_plan_config_check(const char *place,
                                                      const dao_step_plan_config_t *config);

/* Returns true if a place's config, or the defaults, ask for step plans. */
bool dao_step_plan_is_on(const dao_step_plan_config_t *config, const dao_step_plan_config_t *defaults);

/* Puts the allocator that serves from plans in front of a place's own, if these ask for it. A failure
   leaves *allocator as it was. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_step_plan_wrap(dao_place_t place, const dao_step_plan_config_t *config,
                                              const dao_step_plan_config_t *defaults,
                                              dao_allocator_t **allocator);

/* Returns the allocator with plans in front of a place's own, or NULL. */
dao_allocator_t *dao_step_plan_of(dao_allocator_t *allocator);

/* Ends what is under way at a place that is about to stop: frees that were retired are reclaimed. */
void dao_step_plan_settle(dao_allocator_t *allocator);

#endif
