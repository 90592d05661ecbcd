/* SPDX-License-Identifier: Apache-2.0 */
/* Vector clocks as times: times overlap wherever the clocks do not order two buffers. */
#include "base/report/fault.h"
#include "planning/offsets/problem/rows.h"
#include "tests/support/models/plans.h"
#include "tests/support/suite.h"

enum { ROUND_COUNT = 400, COUNT_MAX = DAO_TEST_PLAN_BUFFERS_MAX };

static bool is_ordered(const dao_plan_problem_t *problem, size_t left, size_t right)
{
    uint32_t width = problem->clock_count;
    return dao_plan_clock_is_before(problem->end_clocks + left * width, problem->begin_clocks + right * width,
                                    width) ||
           dao_plan_clock_is_before(problem->end_clocks + right * width, problem->begin_clocks + left * width,
                                    width);
}

static void a_clock_is_before_another_in_every_component(void)
{
    const uint32_t low[] = {1, 2, 3}, high[] = {1, 3, 3}, aside[] = {2, 1, 3};
    CU_ASSERT(dao_plan_clock_is_before(low, low, 3));
    CU_ASSERT(dao_plan_clock_is_before(low, high, 3));
    CU_ASSERT(!dao_plan_clock_is_before(high, low, 3));
    CU_ASSERT(!dao_plan_clock_is_before(low, aside, 3));
    CU_ASSERT(!dao_plan_clock_is_before(aside, low, 3));
    CU_ASSERT(dao_plan_clock_is_before(low, high, 0));
    CU_ASSERT(!dao_plan_clock_is_before((uint32_t[]){UINT32_MAX}, (uint32_t[]){0}, 1));
}

static void times_overlap_where_clocks_do_not_order(void)
{
    uint64_t random = dao_test_seed("clocks", 20261122);
    int exact_count = 0;
    for (int round = 0; round < ROUND_COUNT; round++) {
        dao_test_plan_t plan;
        uint64_t begins[COUNT_MAX] = {0}, ends[COUNT_MAX] = {0};
        dao_plan_memory_t memory = {0};
        dao_plan_work_t work = dao_plan_work_unlimited();
        bool is_exact = false;
        size_t count = dao_random_next(&random) % 20;
        dao_test_plan_make(&plan, DAO_TEST_PLAN_CLOCKS, count, 8, &random);
        CU_ASSERT_EQUAL_FATAL(
            dao_plan_clocks_to_times(&plan.problem, &memory, begins, ends, &is_exact, &work), DAO_OK);
        for (size_t i = 0; i < count; i++) {
            CU_ASSERT(begins[i] < ends[i]);
            for (size_t k = 0; k < i; k++) {
                bool do_overlap = begins[i] < ends[k] && begins[k] < ends[i];
                bool may_share = is_ordered(&plan.problem, i, k);
                CU_ASSERT(may_share || do_overlap);
                CU_ASSERT(!is_exact || may_share == !do_overlap);
            }
        }
        exact_count += is_exact ? 1 : 0;
        CU_ASSERT_EQUAL(memory.used_bytes, 0);
    }
    CU_ASSERT(exact_count > ROUND_COUNT / 4 && exact_count < ROUND_COUNT);
}

/* Sums may overlap too seldom, but never too often: for a lower bound. */
static void sums_overlap_only_where_clocks_do_not_order(void)
{
    uint64_t random = dao_test_seed("sums", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        dao_test_plan_t plan;
        uint64_t begins[COUNT_MAX], ends[COUNT_MAX];
        dao_plan_work_t work = dao_plan_work_unlimited();
        size_t count = dao_random_next(&random) % 20;
        dao_test_plan_make(&plan, DAO_TEST_PLAN_CLOCKS, count, 8, &random);
        dao_plan_clocks_to_sums(&plan.problem, begins, ends, &work);
        for (size_t i = 0; i < count; i++) {
            for (size_t k = 0; k < i; k++) {
                bool do_overlap = begins[i] < ends[k] && begins[k] < ends[i];
                CU_ASSERT(!do_overlap || !is_ordered(&plan.problem, i, k));
            }
        }
    }
}

static void one_clock_is_a_time(void)
{
    const uint32_t begins[] = {0, 1, 5}, ends[] = {2, 5, UINT32_MAX};
    dao_plan_buffer_t buffers[3] = {{.size_bytes = 1}, {.size_bytes = 1}, {.size_bytes = 1}};
    const dao_plan_problem_t problem = {
        .buffers = buffers, .buffer_count = 3, .begin_clocks = begins, .end_clocks = ends, .clock_count = 1};
    uint64_t begin_times[3], end_times[3];
    dao_plan_memory_t memory = {0};
    dao_plan_work_t work = dao_plan_work_unlimited();
    bool is_exact = false;
    CU_ASSERT_EQUAL(dao_plan_clocks_to_times(&problem, &memory, begin_times, end_times, &is_exact, &work),
                    DAO_OK);
    CU_ASSERT(is_exact);
    CU_ASSERT(begin_times[1] < end_times[0]);
    CU_ASSERT(end_times[1] <= begin_times[2]);
}

static void want_of_memory_is_said(void)
{
    dao_test_plan_t plan;
    uint64_t random = dao_test_seed("want of memory", 20261122), begins[COUNT_MAX], ends[COUNT_MAX];
    dao_test_plan_make(&plan, DAO_TEST_PLAN_CLOCKS, 12, 8, &random);
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t skip = 0; status != DAO_OK; skip++) {
        dao_plan_memory_t memory = {0};
        dao_plan_work_t work = dao_plan_work_unlimited();
        bool is_exact;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, true);
        status = dao_plan_clocks_to_times(&plan.problem, &memory, begins, ends, &is_exact, &work);
        CU_ASSERT_EQUAL(dao_fault_disarm() == 0, status == DAO_OK);
        CU_ASSERT(status == DAO_OK || status == DAO_ERR_NO_HOST_MEMORY);
        CU_ASSERT_EQUAL(memory.used_bytes, 0);
    }
}

static CU_TestInfo tests[] = {
    {"a clock is before another in every component", a_clock_is_before_another_in_every_component},
    {"times overlap where clocks do not order", times_overlap_where_clocks_do_not_order},
    {"sums overlap only where clocks do not order", sums_overlap_only_where_clocks_do_not_order},
    {"one clock is a time", one_clock_is_a_time},
    {"want of memory is said", want_of_memory_is_said},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan clocks", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
