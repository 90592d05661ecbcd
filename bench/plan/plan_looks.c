/* SPDX-License-Identifier: Apache-2.0 */
/* An observer of the planner's work counter: each look reads the clock of the thread. */
#include "bench/plan/plan_looks.h"

#include "base/memory/measure.h"
#include "planning/offsets/portfolio.h"

typedef struct looks {
    uint64_t end_ns; /* here the work is cancelled */
    uint64_t last_ns;
    uint64_t longest_ns;
    _Atomic bool is_cancelled;
} looks_t;

static void look(void *user, uint64_t used)
{
    (void)used; /* steps of work are not the time that they take */
    looks_t *looks = user;
    uint64_t now = dao_measure_thread_ns();
    uint64_t gap = now - looks->last_ns;
    looks->longest_ns = gap > looks->longest_ns ? gap : looks->longest_ns;
    looks->is_cancelled = looks->is_cancelled || now >= looks->end_ns;
    looks->last_ns = dao_measure_thread_ns(); /* the clock's own time is in no gap */
}

dao_status_t dao_plan_looks_measure(const dao_plan_problem_t *problem, dao_plan_method_t method,
                                    uint64_t budget_ns, uint64_t *out_longest_ns)
{
    looks_t looks = {0};
    const dao_plan_observer_t observer = {.look = look, .user = &looks};
    const dao_planner_config_t config = {.method = method};
    dao_plan_work_t work = {.is_cancelled = &looks.is_cancelled, .observer = &observer};
    dao_plan_portfolio_t *portfolio = NULL;
    dao_status_t status = dao_plan_portfolio_create(problem, &config, &portfolio);
    if (status != DAO_OK) {
        return status;
    }
    looks.last_ns = dao_measure_thread_ns();
    looks.end_ns = looks.last_ns + budget_ns;
    while (status == DAO_OK && !dao_plan_portfolio_is_done(portfolio) && !looks.is_cancelled) {
        dao_plan_t *plan = NULL;
        if (work.used >= work.limit) {
            work.limit = work.used + DAO_PLAN_STRETCH_WORK;
        }
        status = dao_plan_portfolio_step(portfolio, &work, &plan);
        dao_plan_release(plan);
    }
    look(&looks, work.used);
    dao_plan_portfolio_destroy(portfolio);
    if (status != DAO_OK && status != DAO_ERR_STOPPED) {
        return status;
    }
    *out_longest_ns = looks.longest_ns;
    return DAO_OK;
}
