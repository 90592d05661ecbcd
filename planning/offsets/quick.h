/* SPDX-License-Identifier: Apache-2.0 */
/* Quick passes over one problem, for callers that place often and need neither a bound nor a report. The
   problem is made ready once, and the best layout is kept. A pass may be repeated: what found no place comes
   first then, the sooner the more often it found none. This is squeaky wheel optimization (Joslin and
   Clements, 1999). */
#ifndef DAO_PLANNING_QUICK_H
#define DAO_PLANNING_QUICK_H

#include "planning/offsets/methods/order.h"
#include "planning/offsets/problem/layout.h"

typedef struct dao_plan_quick_method {
    dao_plan_order_t order; /* not DAO_PLAN_ORDER_OFFSET */
    /* The skyline, whose items are then placed once more by their offsets. Not for DAO_PLAN_ORDER_BREADTH. */
    bool is_skyline;
    /* Else greedily: into the smallest hole that fits, or into the lowest one. */
    bool is_best_fit;
} dao_plan_quick_method_t;

#define DAO_PLAN_QUICK_MISSES_MAX 255u

typedef struct dao_plan_quick {
    dao_plan_instance_t instance;
    uint8_t *misses; /* one an item: passes in which it found no place, up to DAO_PLAN_QUICK_MISSES_MAX */
    uint64_t *ranks; /* one an item: the smaller the sooner */
    bool has_best;
    dao_plan_score_t best;
    /* One a buffer of the problem: the best layout; DAO_PLAN_NOWHERE for a buffer that does not fit. */
    uint64_t *offsets;
} dao_plan_quick_t;

/* Checks and copies a problem. The statuses of dao_planner_create(), and DAO_ERR_STOPPED if it was cancelled;
   on an error there is nothing to finish. */
DAO_NODISCARD dao_status_t dao_plan_quick_init(dao_plan_quick_t *quick, const dao_plan_problem_t *problem,
                                               dao_plan_work_t *work);
void dao_plan_quick_finish(dao_plan_quick_t *quick); /* also one that is all zero */

/* Places all in the order of a method. Ends early once as many bytes are left out as by the best layout, or
   as `left_out_bytes_max`. DAO_ERR_NO_HOST_MEMORY; DAO_ERR_STOPPED if it was cancelled. */
DAO_NODISCARD dao_status_t dao_plan_quick_try(dao_plan_quick_t *quick, const dao_plan_quick_method_t *method,
                                              uint64_t left_out_bytes_max, dao_plan_work_t *work);

/* Goes on from the best layout until everything has a place, up to `count` times: what missed as often comes
   in the order of begins, into the smallest hole that fits. The same statuses. */
DAO_NODISCARD dao_status_t dao_plan_quick_repeat(dao_plan_quick_t *quick, uint32_t count,
                                                 dao_plan_work_t *work);

/* Returns true if everything has a place. */
static inline bool dao_plan_quick_is_complete(const dao_plan_quick_t *quick)
{
    return quick->has_best && quick->best.unplaced_count == 0;
}

#endif
