/* Quick methods on one problem, one after the other, for who places again and again and wants neither a bound nor a report: the
   problem is made ready once, the best layout is kept, and a greedy method that leaves out as many bytes as that one ends there. */
#ifndef DAO_PLANNING_QUICK_H
#define DAO_PLANNING_QUICK_H

#include "planning/greedy.h"
#include "planning/lowest.h"
#include "planning/plan.h"

typedef enum dao_plan_quick_kind {
    DAO_PLAN_QUICK_LOWEST, /* the lowest place gets the first by the order; then all settle */
    DAO_PLAN_QUICK_FIRST_FIT,
    DAO_PLAN_QUICK_BEST_FIT,
} dao_plan_quick_kind_t;

typedef struct dao_plan_quick_method {
    dao_plan_quick_kind_t kind;
    dao_plan_order_t order; /* not DAO_PLAN_ORDER_OFFSET */
} dao_plan_quick_method_t;

typedef struct dao_plan_quick {
    dao_plan_instance_t instance;
    dao_plan_lowest_t *lowest; /* of the method at hand, or NULL */
    dao_plan_greedy_t *greedy; /* the same; behind the lowest one it settles */
    bool has_best;
    dao_plan_worth_t best;
    uint64_t
        *offsets; /* one a buffer of the problem: the best layout; DAO_PLAN_NOWHERE for what does not fit */
} dao_plan_quick_t;

/* Checks and copies a problem. The statuses of dao_planner_create(); on an error there is nothing to finish. */
DAO_NODISCARD dao_status_t dao_plan_quick_init(dao_plan_quick_t *quick, const dao_plan_problem_t *problem);
void dao_plan_quick_finish(dao_plan_quick_t *quick);

/* Begins with a method. None is at hand: the one before is done. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_quick_begin(dao_plan_quick_t *quick,
                                                const dao_plan_quick_method_t *method);

/* Goes on with the method at hand for about so much work; when it is done, the better layout is kept and none is at hand.
   DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_quick_step(dao_plan_quick_t *quick, uint64_t work, bool *out_is_done);

/* Whether everything has a place. */
static inline bool dao_plan_quick_is_complete(const dao_plan_quick_t *quick)
{
    return quick->has_best && quick->best.unplaced_count == 0;
}

#endif
