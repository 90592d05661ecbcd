/* SPDX-License-Identifier: Apache-2.0 */
/* Whether all items fit into a capacity: a search that finds offsets, or proves that there are none. */
#ifndef DAO_PLANNING_SEARCH_FIT_H
#define DAO_PLANNING_SEARCH_FIT_H

#include "planning/offsets/problem/layout.h"
#include "planning/offsets/search/search_model.h"

typedef struct dao_plan_fit dao_plan_fit_t;

typedef enum dao_plan_fit_end {
    DAO_PLAN_FIT_OPEN,  /* it goes on with the next step */
    DAO_PLAN_FIT_FOUND, /* the offsets are there */
    DAO_PLAN_FIT_NONE,  /* proved: no offsets fit into the capacity */
    DAO_PLAN_FIT_LIMIT, /* the limit of nodes is reached */
} dao_plan_fit_end_t;

/* The model outlives it. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_fit_create(const dao_plan_search_model_t *model,
                                               dao_plan_fit_t **out_fit);
void dao_plan_fit_destroy(dao_plan_fit_t *fit);

/* Begins anew. What failed before at the same capacity is remembered, as far as there is room. `values`, one
   an item: of those that may lie lowest, the one with the largest value is tried first; borrowed until it has
   ended. */
void dao_plan_fit_start(dao_plan_fit_t *fit, dao_plan_units_t capacity, uint64_t node_limit,
                        const double *values);

/* Goes on until it has ended or the work counter has. DAO_ERR_NO_HOST_MEMORY: it can be called again. */
DAO_NODISCARD dao_status_t dao_plan_fit_step(dao_plan_fit_t *fit, dao_plan_work_t *work,
                                             dao_plan_fit_end_t *out_end);

/* Where the items are, after DAO_PLAN_FIT_FOUND. Borrowed. */
const dao_plan_units_t *dao_plan_fit_offsets(const dao_plan_fit_t *fit);

bool dao_plan_fit_is_valid(const dao_plan_fit_t *fit);

#endif
