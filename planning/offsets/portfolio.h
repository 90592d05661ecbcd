/* SPDX-License-Identifier: Apache-2.0 */
/* Runs methods one after the other and keeps the best plan. One thread at a time; it knows no clock and no
   lock. */
#ifndef DAO_PLANNING_PORTFOLIO_H
#define DAO_PLANNING_PORTFOLIO_H

#include "planning/offsets/problem/layout.h"

typedef struct dao_plan_portfolio dao_plan_portfolio_t;

/* Steps of a stretch: the work counter's limit is set so far ahead, however much work is asked for. What is
   begun and taken up again costs steps, too, so that stretches at the same places are what makes the same
   plans of all slices. */
#define DAO_PLAN_STRETCH_WORK 4096u

/* Returns true if a number is a method's. */
bool dao_plan_portfolio_knows(dao_plan_method_t method);

/* Checks and copies a problem for a portfolio of one method, or of all of them for DAO_PLAN_METHOD_BEST. The
   statuses of dao_planner_create(). */
DAO_NODISCARD dao_status_t dao_plan_portfolio_create(const dao_plan_problem_t *problem,
                                                     const dao_planner_config_t *config,
                                                     dao_plan_portfolio_t **out_portfolio);
void dao_plan_portfolio_destroy(dao_plan_portfolio_t *portfolio);

/* Goes on until the work counter ends, nothing is left to do, or a better plan was found, which the caller
   then owns; NULL: none. The first steps prepare the problem. The work counter is the same one each time:
   what it has counted is the work that plans report. DAO_ERR_NO_HOST_MEMORY: it can be called again;
   DAO_ERR_INVALID as dao_planner_work(); DAO_ERR_STOPPED if it was cancelled: then it cannot. */
DAO_NODISCARD dao_status_t dao_plan_portfolio_step(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work,
                                                   dao_plan_t **out_plan);

/* Returns true if the bound is met or nothing is left to do. */
bool dao_plan_portfolio_is_done(const dao_plan_portfolio_t *portfolio);

#endif
