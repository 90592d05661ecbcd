/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/short_plan.h"

#include "tools/base/progress.h"
#include "tools/model/step_trace.h"

/* Steps of the planner, some 5 to 50 ns each: a second at most. A plan is there long before. */
#define PLAN_WORK UINT64_C(20000000)

/* Steps between two words of how far it is: some milliseconds. */
#define SLICE_WORK (PLAN_WORK / 128)

static dao_status_t work(dao_planner_t *planner)
{
    bool is_done = false;
    dao_status_t status = DAO_OK;
    dao_progress_phase("planning", DAO_PROGRESS_UNIT_PARTS, PLAN_WORK);
    while (status == DAO_OK && !is_done) {
        status = dao_planner_work(planner, SLICE_WORK, &is_done);
        dao_progress_add(SLICE_WORK);
    }
    return status;
}

dao_status_t dao_short_plan_make(const dao_plan_input_t *lifetimes, dao_plan_t **out_plan,
                                 dao_plan_report_t *out_report)
{
    dao_planner_config_t config = {.method = DAO_PLAN_METHOD_BEST, .work_limit = PLAN_WORK};
    dao_plan_problem_t problem = dao_plan_input_problem(lifetimes);
    const dao_plan_pool_t pools[DAO_PLAN_POOL_COUNT_MAX] = {{0}}; /* without limits */
    dao_planner_t *planner = NULL;
    dao_plan_t *plan = NULL;
    problem.pools = lifetimes->pool_count > 0 ? pools : NULL;
    problem.pool_count = lifetimes->pool_count;
    problem.alignment_bytes = lifetimes->window_end != 0 ? DAO_TRACE_ALIGNMENT_BYTES : 0;
    dao_status_t status = dao_planner_create(&problem, &config, &planner);
    status = status == DAO_OK ? work(planner) : status;
    status = status == DAO_OK ? dao_planner_best(planner, &plan) : status;
    status = status == DAO_OK ? dao_plan_report_get(plan, out_report) : status;
    dao_planner_destroy(planner);
    if (status != DAO_OK) {
        dao_plan_release(plan);
        return status;
    }
    *out_plan = plan;
    return DAO_OK;
}
