/* SPDX-License-Identifier: Apache-2.0 */
/* When a known step is planned, with what figures, and which of its plans stays. */
#ifndef DAO_RUNTIME_EXECUTOR_STEP_PLANNING_H
#define DAO_RUNTIME_EXECUTOR_STEP_PLANNING_H

#include "runtime/executor/learned/step_learner.h"

/* Returns true if a plan was made beside the tensors that are pinned now. NULL is allowed. */
static inline bool dao_step_planning_fits(const dao_step_learner_t *learner, const dao_compiled_plan_t *plan)
{
    return plan != NULL && plan->pins == learner->engine->pins;
}

/* Returns the plan that the step's next run is to follow; NULL: none. */
static inline const dao_compiled_plan_t *dao_step_planning_usual(const dao_step_learner_t *learner,
                                                                 const dao_known_step_t *known)
{
    return known->is_online || !dao_step_planning_fits(learner, known->plan) ? NULL : known->plan;
}

/* Of the latest measurements the middle one, of two the longer; 0: there is none. */
uint64_t dao_step_time_ns(const dao_step_time_t *time);

/* Makes a first plan of a step that has none, before it is measured: on this thread, with the times that
   were measured last, else those that the program says, while no plan is followed. `work_limit` as of
   dao_swap_plan_config_t; with DAO_COMPILED_PLAN_FIRST a better one is looked for behind it, if no other step
   is being planned. What fits gets none. What dao_link_probe() and dao_compiled_plan_create() answer. */
DAO_NODISCARD dao_status_t dao_step_planning_first(dao_step_learner_t *learner, dao_known_step_t *known,
                                                   uint64_t work_limit);

/* Looks what measurements and plans have come to. */
void dao_step_planning_look(dao_step_learner_t *learner);

#endif
