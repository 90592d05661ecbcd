/* SPDX-License-Identifier: Apache-2.0 */
/* The exact search: the lowest peak, and the proof that it is. */
#ifndef DAO_PLANNING_SEARCH_H
#define DAO_PLANNING_SEARCH_H

#include "planning/offsets/problem/layout.h"

typedef struct dao_plan_search dao_plan_search_t;

typedef enum dao_plan_search_event {
    DAO_PLAN_SEARCH_OPEN,   /* the work counter has ended */
    DAO_PLAN_SEARCH_BETTER, /* there is a layout, with a lower peak than all before */
    DAO_PLAN_SEARCH_BOUND,  /* the bound is higher */
    DAO_PLAN_SEARCH_DONE,   /* no layout has a lower peak than what there is */
} dao_plan_search_event_t;

/* In passes. Looks for layouts with a peak below `below_bytes` (UINT64_MAX: any). The instance outlives it.
   DAO_ERR_UNSUPPORTED for several pools, gaps, lives over the step's boundary, clocks that no times tell
   exactly, and for instances in which too many are alive together; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_search_create(dao_plan_instance_t *instance, uint64_t below_bytes,
                                                  uint64_t seed, dao_plan_work_t *work,
                                                  dao_plan_search_t **out_search);
void dao_plan_search_destroy(dao_plan_search_t *search);

/* Goes on until something has happened or the work counter ends. DAO_ERR_NO_HOST_MEMORY: it can be called
   again. */
DAO_NODISCARD dao_status_t dao_plan_search_step(dao_plan_search_t *search, dao_plan_work_t *work,
                                                dao_plan_search_event_t *out_event);

/* Valid after DAO_PLAN_SEARCH_BETTER: everything is placed. Borrowed, changed by the next step. */
dao_plan_layout_t *dao_plan_search_layout(dao_plan_search_t *search);

/* No layout has a peak below it. */
uint64_t dao_plan_search_bound(const dao_plan_search_t *search);

#endif
