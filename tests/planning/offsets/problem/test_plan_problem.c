/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a problem at their limits, and copies of problems. */
#include "base/report/fault.h"
#include "planning/offsets/problem/problem.h"
#include "tests/support/models/plans.h"
#include "tests/support/suite.h"

#include <string.h>

static dao_plan_buffer_t buffer(uint64_t size)
{
    return (dao_plan_buffer_t){
        .end_time = 1, .size_bytes = size, .fixed_offset = DAO_PLAN_NOWHERE, .pool = DAO_PLAN_ANY_POOL};
}

static dao_status_t check_one(dao_plan_buffer_t one)
{
    const dao_plan_problem_t problem = {.buffers = &one, .buffer_count = 1};
    return dao_plan_problem_check(&problem);
}

static void sizes_and_times_have_limits(void)
{
    dao_plan_buffer_t one = buffer(DAO_PLAN_SIZE_MAX);
    CU_ASSERT_EQUAL(check_one(one), DAO_OK);
    one.size_bytes++;
    CU_ASSERT_EQUAL(check_one(one), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(check_one(buffer(0)), DAO_ERR_INVALID);
    one = buffer(1);
    one.begin_time = UINT64_MAX - 1;
    one.end_time = UINT64_MAX;
    CU_ASSERT_EQUAL(check_one(one), DAO_OK);
    one.begin_time = UINT64_MAX;
    CU_ASSERT_EQUAL(check_one(one), DAO_ERR_INVALID);
    one = buffer(1);
    one.alignment_bytes = 1u << 31;
    CU_ASSERT_EQUAL(check_one(one), DAO_OK);
    one.alignment_bytes = 3;
    CU_ASSERT_EQUAL(check_one(one), DAO_ERR_INVALID);
    one = buffer(1);
    one.pool = 1;
    CU_ASSERT_EQUAL(check_one(one), DAO_ERR_INVALID);
}

static void sums_have_limits(void)
{
    enum { COUNT = DAO_PLAN_TOTAL_MAX / DAO_PLAN_SIZE_MAX };
    static dao_plan_buffer_t buffers[COUNT + 1];
    for (size_t i = 0; i <= COUNT; i++) {
        buffers[i] = buffer(DAO_PLAN_SIZE_MAX);
    }
    dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = COUNT};
    CU_ASSERT_EQUAL(dao_plan_problem_check(&problem), DAO_OK);
    problem.buffer_count++;
    CU_ASSERT_EQUAL(dao_plan_problem_check(&problem), DAO_ERR_OVERFLOW);
    dao_plan_buffer_t one = buffer(1);
    one.fixed_offset = DAO_PLAN_TOTAL_MAX - 2;
    CU_ASSERT_EQUAL(check_one(one), DAO_OK); /* its size and its end */
    one.fixed_offset++;
    CU_ASSERT_EQUAL(check_one(one), DAO_ERR_OVERFLOW);
    one.fixed_offset = DAO_PLAN_NOWHERE - 1;
    CU_ASSERT_EQUAL(check_one(one), DAO_ERR_OVERFLOW);
}

static void zeros_stand_for_defaults(void)
{
    dao_plan_buffer_t buffers[] = {buffer(1), buffer(1)};
    const dao_plan_pool_t pools[] = {{0}, {.capacity_bytes = 7}};
    dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = 2};
    CU_ASSERT_EQUAL(dao_plan_alignment(&problem, 0), 1);
    CU_ASSERT_EQUAL(dao_plan_capacity(&problem, 0), UINT64_MAX);
    problem.alignment_bytes = 16;
    buffers[1].alignment_bytes = 2;
    problem.pools = pools;
    problem.pool_count = 2;
    CU_ASSERT_EQUAL(dao_plan_alignment(&problem, 0), 16);
    CU_ASSERT_EQUAL(dao_plan_alignment(&problem, 1), 2);
    CU_ASSERT_EQUAL(dao_plan_capacity(&problem, 0), UINT64_MAX);
    CU_ASSERT_EQUAL(dao_plan_capacity(&problem, 1), 7);
    CU_ASSERT_EQUAL(dao_plan_capacity(&problem, 2), UINT64_MAX);
}

static void a_copy_shares_nothing_with_its_problem(void)
{
    dao_test_plan_t plan;
    dao_plan_problem_copy_t copy;
    uint64_t random = dao_test_seed("copies", 20261122);
    dao_test_plan_make(&plan, DAO_TEST_PLAN_GAPS | DAO_TEST_PLAN_POOLS, 20, 8, &random);
    CU_ASSERT_EQUAL_FATAL(dao_plan_problem_copy_init(&copy, &plan.problem), DAO_OK);
    CU_ASSERT_EQUAL(copy.problem.buffer_count, 20);
    CU_ASSERT(copy.problem.buffers != plan.problem.buffers);
    CU_ASSERT_EQUAL(memcmp(copy.problem.buffers, plan.buffers, 20 * sizeof(plan.buffers[0])), 0);
    CU_ASSERT_EQUAL(memcmp(copy.problem.gaps, plan.gaps, plan.problem.gap_count * sizeof(plan.gaps[0])), 0);
    CU_ASSERT_PTR_NULL(copy.problem.begin_clocks);
    dao_plan_problem_copy_finish(&copy);
    CU_ASSERT_EQUAL(copy.memory.used_bytes, 0);
    dao_plan_problem_copy_finish(&copy); /* also one that is all zero */
    dao_test_plan_make(&plan, DAO_TEST_PLAN_CLOCKS, 20, 8, &random);
    CU_ASSERT_EQUAL_FATAL(dao_plan_problem_copy_init(&copy, &plan.problem), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(copy.problem.end_clocks, plan.end_clocks,
                           20 * plan.problem.clock_count * sizeof(plan.end_clocks[0])),
                    0);
    dao_plan_problem_copy_finish(&copy);
}

static void want_of_memory_leaves_nothing(void)
{
    dao_test_plan_t plan;
    uint64_t random = dao_test_seed("want of memory", 20261122);
    dao_test_plan_make(&plan, DAO_TEST_PLAN_GAPS | DAO_TEST_PLAN_POOLS, 20, 8, &random);
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t skip = 0; status != DAO_OK; skip++) {
        dao_plan_problem_copy_t copy;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        status = dao_plan_problem_copy_init(&copy, &plan.problem);
        CU_ASSERT_EQUAL(dao_fault_disarm() == 0, status == DAO_OK);
        dao_plan_problem_copy_finish(&copy);
        CU_ASSERT_EQUAL(copy.memory.used_bytes, 0);
    }
}

static CU_TestInfo tests[] = {
    {"sizes and times have limits", sizes_and_times_have_limits},
    {"sums have limits", sums_have_limits},
    {"zeros stand for defaults", zeros_stand_for_defaults},
    {"a copy shares nothing with its problem", a_copy_shares_nothing_with_its_problem},
    {"want of memory leaves nothing", want_of_memory_leaves_nothing},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan problem", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
