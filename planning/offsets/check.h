/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a layout keeps all rules: for the public check, for fixed items, and for assertions. */
#ifndef DAO_PLANNING_CHECK_H
#define DAO_PLANNING_CHECK_H

#include "planning/offsets/problem/layout.h"

/* Checks in passes that no two placed items share bytes at the same time. `is_fixed_alone`: looks at fixed
   items alone. DAO_ERR_INVALID names two that do; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_layout_check(dao_plan_instance_t *instance,
                                                 const dao_plan_layout_t *layout, bool is_fixed_alone,
                                                 dao_plan_work_t *work);

/* Makes a layout of a problem's offsets (and pools, or NULL) after checking all that can be wrong with
   them. */
DAO_NODISCARD dao_status_t dao_plan_layout_make(dao_plan_instance_t *instance,
                                                const dao_plan_problem_t *problem, const uint64_t *offsets,
                                                const uint32_t *pools, dao_plan_layout_t *out_layout);

#endif
