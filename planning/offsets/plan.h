/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as the planner makes them. */
#ifndef DAO_PLANNING_PLAN_H
#define DAO_PLANNING_PLAN_H

#include "planning/offsets/problem/layout.h"

/* Writes what the policies of bins need into a plan that was not handed out yet. */
void dao_plan_set_policy_bytes(dao_plan_t *plan, const uint64_t policy_bytes[DAO_PLAN_BIN_POLICY_COUNT]);

/* Makes a plan with one reference out of a layout and its score, in a pass. The report's other fields are
   the caller's. DAO_ERR_NO_HOST_MEMORY; DAO_ERR_STOPPED if it was cancelled. */
DAO_NODISCARD dao_status_t dao_plan_make_of(const dao_plan_instance_t *instance,
                                            const dao_plan_layout_t *layout, const dao_plan_score_t *score,
                                            const dao_plan_report_t *report, dao_plan_work_t *work,
                                            dao_plan_t **out_plan);

/* Makes a plan with one reference out of another one, with the instance's bound and the rest of `report`. Its
   peak and all offsets stay. In a pass; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_STOPPED if it was cancelled. */
DAO_NODISCARD dao_status_t dao_plan_make_again(const dao_plan_instance_t *instance, const dao_plan_t *plan,
                                               const dao_plan_report_t *report, dao_plan_work_t *work,
                                               dao_plan_t **out_plan);

/* The host memory of a plan of so many buffers. */
uint64_t dao_plan_memory_of(const dao_plan_instance_t *instance);

#endif
