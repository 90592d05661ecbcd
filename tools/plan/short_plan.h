/* SPDX-License-Identifier: Apache-2.0 */
/* The plan that dao fit and dao report show beside other figures: the best one that some work finds, which is
   a second of it at most. The same lives have the same plan. */
#ifndef DAO_TOOLS_SHORT_PLAN_H
#define DAO_TOOLS_SHORT_PLAN_H

#include "tools/model/plan_input.h"

#include <dao/plan.h>

/* Makes it, and tells how far it is. The caller releases it. What dao_plan_make() answers. */
DAO_NODISCARD dao_status_t dao_short_plan_make(const dao_plan_input_t *lifetimes, dao_plan_t **out_plan,
                                               dao_plan_report_t *out_report);

#endif
