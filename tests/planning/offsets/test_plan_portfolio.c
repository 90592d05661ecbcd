/* SPDX-License-Identifier: Apache-2.0 */
/* The portfolio: each plan that it finds is valid, better than the one before and reported with its work; and
   plans themselves, counted and read-only. */
#include "base/report/fault.h"
#include "planning/offsets/plan.h"
#include "planning/offsets/portfolio.h"
#include "tests/support/models/plans.h"
#include "tests/support/suite.h"

enum { ROUND_COUNT = 150, WORK_MAX = 60000 };

static const _Atomic bool is_never_cancelled = false;
static dao_test_plan_t problem;

static bool is_valid(const dao_plan_t *plan)
{
    uint64_t offsets[DAO_TEST_PLAN_BUFFERS_MAX];
    uint32_t pools[DAO_TEST_PLAN_BUFFERS_MAX];
    for (size_t i = 0; i < dao_plan_count(plan); i++) {
        offsets[i] = dao_plan_offset(plan, i);
        pools[i] = offsets[i] == DAO_PLAN_NOWHERE ? 0 : dao_plan_pool(plan, i);
    }
    return dao_test_plan_is_valid(&problem.problem, offsets, pools);
}

static void every_plan_is_better_than_the_one_before(void)
{
    uint64_t random = dao_test_seed("portfolio", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        uint32_t features =
            (uint32_t)dao_random_next(&random) % DAO_TEST_PLAN_FEATURES & ~(uint32_t)DAO_TEST_PLAN_FIXED;
        const dao_planner_config_t config = {.seed = (uint64_t)round};
        dao_plan_work_t work = {.is_cancelled = &is_never_cancelled};
        dao_plan_portfolio_t *portfolio = NULL;
        dao_plan_report_t before = {.unplaced_bytes = UINT64_MAX};
        dao_status_t status = DAO_OK;
        dao_test_plan_make(&problem, features, dao_random_next(&random) % 20, 12, &random);
        CU_ASSERT_EQUAL_FATAL(dao_plan_portfolio_create(&problem.problem, &config, &portfolio), DAO_OK);
        while (status == DAO_OK && work.used < WORK_MAX && !dao_plan_portfolio_is_done(portfolio)) {
            dao_plan_t *plan = NULL;
            work.limit = work.used + DAO_PLAN_STRETCH_WORK;
            status = dao_plan_portfolio_step(portfolio, &work, &plan);
            CU_ASSERT(status == DAO_OK ||
                      (status == DAO_ERR_INVALID && (features & DAO_TEST_PLAN_GAPS) != 0));
            if (plan == NULL) {
                continue;
            }
            dao_plan_report_t report;
            CU_ASSERT_EQUAL(dao_plan_report_get(plan, &report), DAO_OK);
            CU_ASSERT(is_valid(plan));
            CU_ASSERT_EQUAL(report.version, before.version + 1);
            CU_ASSERT(report.work >= before.work && report.work <= work.used);
            bool is_better =
                report.unplaced_bytes < before.unplaced_bytes ||
                (report.unplaced_bytes == before.unplaced_bytes && report.peak_bytes < before.peak_bytes);
            CU_ASSERT(is_better || report.bound_bytes > before.bound_bytes);
            CU_ASSERT(report.unplaced_count > 0 || report.peak_bytes >= report.bound_bytes);
            before = report;
            dao_plan_release(plan);
        }
        dao_plan_portfolio_destroy(portfolio);
    }
}

static void methods_that_there_are_are_known(void)
{
    for (int method = 0; method < DAO_PLAN_METHOD_COUNT; method++) {
        CU_ASSERT(dao_plan_portfolio_knows((dao_plan_method_t)method));
    }
    CU_ASSERT(!dao_plan_portfolio_knows(DAO_PLAN_METHOD_COUNT));
    CU_ASSERT(!dao_plan_portfolio_knows((dao_plan_method_t)-1));
}

static void a_cancelled_one_says_so(void)
{
    _Atomic bool is_cancelled = false;
    dao_plan_work_t work = {.limit = 1, .is_cancelled = &is_cancelled};
    const dao_planner_config_t config = {.seed = 1};
    dao_plan_portfolio_t *portfolio = NULL;
    dao_plan_t *plan = NULL;
    uint64_t random = dao_test_seed("cancelled", 20261122);
    dao_test_plan_make(&problem, 0, 40, 40, &random);
    CU_ASSERT_EQUAL_FATAL(dao_plan_portfolio_create(&problem.problem, &config, &portfolio), DAO_OK);
    CU_ASSERT_EQUAL(dao_plan_portfolio_step(portfolio, &work, &plan), DAO_OK);
    is_cancelled = true;
    work.limit = UINT64_MAX;
    dao_status_t status = dao_plan_portfolio_step(portfolio, &work, &plan);
    CU_ASSERT(status == DAO_OK || status == DAO_ERR_STOPPED);
    CU_ASSERT_PTR_NULL(plan);
    CU_ASSERT(!dao_plan_portfolio_is_done(portfolio));
    dao_plan_portfolio_destroy(portfolio);
}

/* Whichever allocation fails, the plans so far stay and the next call goes on. Assertions allocate, too. */
static void it_goes_on_after_want_of_memory(void)
{
    uint64_t random = dao_test_seed("want of memory", 20261122);
    bool is_complete = false;
    dao_test_plan_make(&problem, DAO_TEST_PLAN_POOLS, 12, 12, &random);
    for (uint64_t skip = 0; !is_complete; skip += 1 + skip / 8) {
        const dao_planner_config_t config = {.seed = 1};
        dao_plan_work_t work = {.is_cancelled = &is_never_cancelled};
        dao_plan_portfolio_t *portfolio = NULL;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        dao_status_t status = dao_plan_portfolio_create(&problem.problem, &config, &portfolio);
        CU_ASSERT(status == DAO_OK || status == DAO_ERR_NO_HOST_MEMORY);
        while (status == DAO_OK && work.used < WORK_MAX && !dao_plan_portfolio_is_done(portfolio)) {
            dao_plan_t *plan = NULL;
            work.limit = work.used + DAO_PLAN_STRETCH_WORK;
            dao_status_t step = dao_plan_portfolio_step(portfolio, &work, &plan);
            CU_ASSERT(step == DAO_OK || step == DAO_ERR_NO_HOST_MEMORY);
            CU_ASSERT(plan == NULL || is_valid(plan));
            dao_plan_release(plan);
        }
        is_complete = dao_fault_disarm() == 0;
        dao_plan_portfolio_destroy(portfolio);
    }
}

/* ---- plans ---- */

static void a_plan_of_offsets_is_checked_and_kept(void)
{
    const dao_plan_buffer_t buffers[] = {
        {.end_time = 2, .size_bytes = 10, .fixed_offset = DAO_PLAN_NOWHERE, .pool = DAO_PLAN_ANY_POOL},
        {.end_time = 1, .size_bytes = 20, .fixed_offset = DAO_PLAN_NOWHERE, .pool = DAO_PLAN_ANY_POOL},
        {.begin_time = 1,
         .end_time = 2,
         .size_bytes = 30,
         .fixed_offset = DAO_PLAN_NOWHERE,
         .pool = DAO_PLAN_ANY_POOL},
    };
    const dao_plan_problem_t three = {.buffers = buffers, .buffer_count = 3};
    uint64_t offsets[] = {0, 10, 10};
    dao_plan_t *plan = NULL;
    dao_plan_report_t report;
    CU_ASSERT_EQUAL_FATAL(dao_plan_create(&three, offsets, NULL, &plan), DAO_OK);
    offsets[2] = 9; /* the plan has a copy */
    CU_ASSERT_EQUAL(dao_plan_offset(plan, 2), 10);
    CU_ASSERT_EQUAL(dao_plan_offset(plan, 3), DAO_PLAN_NOWHERE);
    CU_ASSERT_EQUAL(dao_plan_pool(plan, 3), DAO_PLAN_ANY_POOL);
    CU_ASSERT_EQUAL(dao_plan_pool_peak(plan, 0), 40);
    CU_ASSERT_EQUAL(dao_plan_pool_peak(plan, 1), 0);
    CU_ASSERT_EQUAL(dao_plan_report_get(plan, &report), DAO_OK);
    CU_ASSERT(report.is_proved && report.peak_bytes == 40 && report.bound_bytes == 40);
    dao_plan_t *other = NULL;
    CU_ASSERT_EQUAL(dao_plan_create(&three, offsets, NULL, &other), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(other);
    CU_ASSERT_PTR_EQUAL(dao_plan_retain(plan), plan);
    dao_plan_release(plan);
    CU_ASSERT_EQUAL(dao_plan_count(plan), 3); /* a reference is left */
    dao_plan_release(plan);
    dao_plan_release(NULL);
    CU_ASSERT_EQUAL(dao_plan_count(NULL), 0);
}

static void plans_need_memory(void)
{
    uint64_t random = dao_test_seed("plans", 20261122), offsets[20];
    dao_test_plan_make(&problem, 0, 20, 8, &random);
    for (size_t i = 0; i < 20; i++) {
        offsets[i] = 8 * i;
    }
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t skip = 0; status != DAO_OK; skip++) {
        dao_plan_t *plan = NULL;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        status = dao_plan_create(&problem.problem, offsets, NULL, &plan);
        CU_ASSERT_EQUAL(dao_fault_disarm() == 0, status == DAO_OK);
        CU_ASSERT_EQUAL(plan != NULL, status == DAO_OK);
        dao_plan_release(plan);
    }
}

static CU_TestInfo tests[] = {
    {"every plan is better than the one before", every_plan_is_better_than_the_one_before},
    {"methods that there are are known", methods_that_there_are_are_known},
    {"a cancelled one says so", a_cancelled_one_says_so},
    {"it goes on after want of memory", it_goes_on_after_want_of_memory},
    {"a plan of offsets is checked and kept", a_plan_of_offsets_is_checked_and_kept},
    {"plans need memory", plans_need_memory},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan portfolio", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
