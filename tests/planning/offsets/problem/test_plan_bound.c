/* SPDX-License-Identifier: Apache-2.0 */
/* The lower bound: exact by hand, and never above the best plan of a small problem. */
#include "base/report/fault.h"
#include "planning/offsets/problem/instance.h"
#include "tests/support/models/plans.h"
#include "tests/support/suite.h"

enum { ROUND_COUNT = 300 };

static dao_plan_buffer_t buffer(uint64_t begin, uint64_t end, uint64_t size, uint32_t alignment)
{
    return (dao_plan_buffer_t){.begin_time = begin,
                               .end_time = end,
                               .size_bytes = size,
                               .fixed_offset = DAO_PLAN_NOWHERE,
                               .alignment_bytes = alignment,
                               .pool = DAO_PLAN_ANY_POOL};
}

static uint64_t bound_of(const dao_plan_problem_t *problem)
{
    dao_plan_instance_t instance;
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, problem), DAO_OK);
    uint64_t bound_bytes = instance.bound_bytes;
    dao_plan_instance_finish(&instance);
    return bound_bytes;
}

static void nothing_needs_nothing(void)
{
    const dao_plan_problem_t problem = {.buffer_count = 0};
    CU_ASSERT_EQUAL(bound_of(&problem), 0);
}

static void what_is_alive_together_counts_together(void)
{
    const dao_plan_buffer_t buffers[] = {buffer(0, 2, 5, 1), buffer(1, 3, 7, 1), buffer(2, 4, 100, 1)};
    dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = 3};
    CU_ASSERT_EQUAL(bound_of(&problem), 107);
    problem.is_closed = true; /* now all three are alive at time 2 */
    CU_ASSERT_EQUAL(bound_of(&problem), 112);
    problem.is_closed = false;
    problem.margin = UINT64_MAX;
    CU_ASSERT_EQUAL(bound_of(&problem), 112);
}

/* Of three buffers of 9 bytes at multiples of 8, two take 16 and the topmost one 9. */
static void alignments_count_but_for_the_one_on_top(void)
{
    const dao_plan_buffer_t buffers[] = {buffer(0, 1, 9, 8), buffer(0, 1, 9, 8), buffer(0, 1, 9, 8)};
    const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = 3};
    CU_ASSERT_EQUAL(bound_of(&problem), 41);
}

/* One buffer that may lie anywhere does not hide that the others start slots of 64 bytes. */
static void each_alignment_has_a_bound_of_its_own(void)
{
    dao_plan_buffer_t buffers[] = {buffer(0, 1, 33, 64), buffer(0, 1, 40, 64), buffer(0, 1, 33, 64),
                                   buffer(0, 1, 10, 1)};
    const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = 4};
    CU_ASSERT_EQUAL(bound_of(&problem), 3 * 64 - 31); /* the fourth lies in slack */
    buffers[3].size_bytes = 100;
    CU_ASSERT_EQUAL(bound_of(&problem), 3 * 64 + 100 - 2 * 31); /* it reaches into slack, 31 bytes at most */
}

static void a_pool_has_a_bound_for_each_alignment(void)
{
    dao_plan_buffer_t buffers[] = {buffer(0, 1, 33, 64), buffer(0, 1, 33, 64), buffer(0, 1, 33, 64)};
    const dao_plan_pool_t pools[2] = {{0}};
    const dao_plan_problem_t problem = {
        .buffers = buffers, .buffer_count = 3, .pools = pools, .pool_count = 2};
    CU_ASSERT_EQUAL(bound_of(&problem), 3 * 64 - 2 * 31); /* one is on top of each pool */
    buffers[0].pool = buffers[1].pool = buffers[2].pool = 1;
    CU_ASSERT_EQUAL(bound_of(&problem), 3 * 64 - 31);
}

/* Bytes of a gap may be another's: the pieces count as they are. */
static void what_gaps_cut_starts_no_slot(void)
{
    const dao_plan_buffer_t buffers[] = {buffer(0, 3, 33, 64), buffer(0, 3, 33, 64), buffer(1, 2, 16, 1)};
    const dao_plan_gap_t gap = {.buffer = 0, .begin_time = 1, .end_time = 2, .low_byte = 8, .high_byte = 33};
    const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = 3, .gaps = &gap, .gap_count = 1};
    CU_ASSERT_EQUAL(bound_of(&problem), 2 * 64 - 31); /* before the gap */
}

static void the_largest_sizes_do_not_overflow(void)
{
    enum { COUNT = 1 << 12 };
    static dao_plan_buffer_t buffers[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        buffers[i] = buffer(0, UINT64_MAX, DAO_PLAN_SIZE_MAX, 1);
    }
    const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = COUNT};
    CU_ASSERT_EQUAL(bound_of(&problem), COUNT * DAO_PLAN_SIZE_MAX);
}

static void what_is_bound_to_pools_counts_apart(void)
{
    dao_plan_buffer_t buffers[] = {buffer(0, 1, 10, 1), buffer(1, 2, 20, 1), buffer(0, 1, 5, 1)};
    const dao_plan_pool_t pools[2] = {{0}};
    const dao_plan_problem_t problem = {
        .buffers = buffers, .buffer_count = 3, .pools = pools, .pool_count = 2};
    CU_ASSERT_EQUAL(bound_of(&problem), 20);
    buffers[0].pool = 0;
    buffers[1].pool = 1;
    CU_ASSERT_EQUAL(bound_of(&problem), 30);
    buffers[2].fixed_offset = 95; /* in pool 0 */
    CU_ASSERT_EQUAL(bound_of(&problem), 120);
}

static void no_plan_is_below_it(void)
{
    uint64_t random = dao_test_seed("bound", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        dao_test_plan_t plan;
        uint32_t features = (uint32_t)dao_random_next(&random) % DAO_TEST_PLAN_FEATURES;
        dao_test_plan_make(&plan, features, 1 + dao_random_next(&random) % 4, 4, &random);
        dao_plan_instance_t instance;
        dao_status_t status = dao_plan_instance_make(&instance, &plan.problem);
        CU_ASSERT(status == DAO_OK || status == DAO_ERR_INVALID);
        if (status == DAO_OK) {
            CU_ASSERT(!dao_test_plan_is_beaten(&plan.problem, 0, instance.bound_bytes));
            dao_plan_instance_finish(&instance);
        }
    }
}

static CU_TestInfo tests[] = {
    {"nothing needs nothing", nothing_needs_nothing},
    {"what is alive together counts together", what_is_alive_together_counts_together},
    {"alignments count but for the one on top", alignments_count_but_for_the_one_on_top},
    {"each alignment has a bound of its own", each_alignment_has_a_bound_of_its_own},
    {"a pool has a bound for each alignment", a_pool_has_a_bound_for_each_alignment},
    {"what gaps cut starts no slot", what_gaps_cut_starts_no_slot},
    {"the largest sizes do not overflow", the_largest_sizes_do_not_overflow},
    {"what is bound to pools counts apart", what_is_bound_to_pools_counts_apart},
    {"no plan is below it", no_plan_is_below_it},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan bound", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
