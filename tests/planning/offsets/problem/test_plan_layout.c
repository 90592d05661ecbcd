/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts and what they are compared by. */
#include "base/report/fault.h"
#include "planning/offsets/problem/layout.h"
#include "tests/support/suite.h"

static const dao_plan_buffer_t buffers[] = {
    {.begin_time = 0, .end_time = 2, .size_bytes = 5, .fixed_offset = DAO_PLAN_NOWHERE, .pool = 1},
    {.begin_time = 1, .end_time = 3, .size_bytes = 7, .fixed_offset = 20, .pool = DAO_PLAN_ANY_POOL},
    {.begin_time = 2,
     .end_time = 4,
     .size_bytes = 11,
     .fixed_offset = DAO_PLAN_NOWHERE,
     .pool = DAO_PLAN_ANY_POOL},
};
static const dao_plan_pool_t pools[2] = {{0}};

static dao_plan_instance_t instance;
static dao_plan_layout_t layout;

static void begin(uint32_t pool_count)
{
    static dao_plan_buffer_t copies[3];
    const dao_plan_problem_t problem = {.buffers = pool_count == 1 ? copies : buffers,
                                        .buffer_count = 3,
                                        .pools = pools,
                                        .pool_count = pool_count};
    for (size_t i = 0; i < 3; i++) {
        copies[i] = buffers[i];
        copies[i].pool = DAO_PLAN_ANY_POOL;
    }
    dao_plan_work_t work = dao_plan_work_unlimited();
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &problem), DAO_OK);
    CU_ASSERT_FATAL(dao_plan_layout_init(&layout, &instance, &work));
}

static void end(void)
{
    dao_plan_layout_finish(&layout, &instance);
    CU_ASSERT(layout.offsets == NULL && layout.pools == NULL);
    dao_plan_instance_finish(&instance);
}

static void nothing_is_placed_at_first(void)
{
    begin(1);
    CU_ASSERT_PTR_NULL(layout.pools); /* there is only one */
    for (uint32_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(layout.offsets[i], DAO_PLAN_NOWHERE);
        CU_ASSERT_EQUAL(dao_plan_layout_pool(&layout, i), 0);
    }
    end();
}

static void fixed_items_are_put_where_they_have_to_be(void)
{
    begin(2);
    dao_plan_work_t work = dao_plan_work_unlimited();
    dao_plan_layout_put_fixed(&layout, &instance, &work);
    CU_ASSERT_EQUAL(layout.offsets[0], DAO_PLAN_NOWHERE);
    CU_ASSERT_EQUAL(layout.offsets[1], 20);
    CU_ASSERT_EQUAL(dao_plan_layout_pool(&layout, 1), 0);
    CU_ASSERT_EQUAL(layout.offsets[2], DAO_PLAN_NOWHERE);
    end();
}

static void the_score_is_what_is_left_out_and_the_sum_of_the_peaks(void)
{
    dao_plan_score_t score;
    begin(2);
    dao_plan_work_t work = dao_plan_work_unlimited();
    dao_plan_layout_score(&instance, &layout, &work, &score);
    CU_ASSERT(score.unplaced_bytes == 23 && score.unplaced_count == 3 && score.peak_bytes == 0);
    dao_plan_layout_put(&layout, 0, 100, 1);
    dao_plan_layout_put(&layout, 1, 20, 0);
    dao_plan_layout_score(&instance, &layout, &work, &score);
    CU_ASSERT(score.unplaced_bytes == 11 && score.unplaced_count == 1);
    CU_ASSERT(score.pool_peaks[0] == 27 && score.pool_peaks[1] == 105 && score.peak_bytes == 132);
    end();
}

static void fewer_bytes_left_out_come_before_a_lower_peak(void)
{
    const dao_plan_score_t all_high = {.peak_bytes = 900}, all_low = {.peak_bytes = 800};
    const dao_plan_score_t some = {.unplaced_bytes = 1, .unplaced_count = 1, .peak_bytes = 10};
    CU_ASSERT(dao_plan_score_is_better(&all_low, &all_high));
    CU_ASSERT(!dao_plan_score_is_better(&all_high, &all_low));
    CU_ASSERT(!dao_plan_score_is_better(&all_low, &all_low));
    CU_ASSERT(dao_plan_score_is_better(&all_high, &some));
    CU_ASSERT(!dao_plan_score_is_better(&some, &all_high));
}

static void without_memory_there_is_none(void)
{
    begin(2);
    dao_plan_layout_t other;
    bool is_made = false;
    uint64_t used_bytes = instance.memory.used_bytes;
    for (uint64_t skip = 0; !is_made; skip++) {
        dao_plan_work_t work = dao_plan_work_unlimited();
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, true);
        is_made = dao_plan_layout_init(&other, &instance, &work);
        CU_ASSERT_EQUAL(is_made, dao_fault_disarm() == 0);
        CU_ASSERT(is_made || instance.memory.used_bytes == used_bytes);
    }
    dao_plan_layout_finish(&other, &instance);
    end();
}

static CU_TestInfo tests[] = {
    {"nothing is placed at first", nothing_is_placed_at_first},
    {"fixed items are put where they have to be", fixed_items_are_put_where_they_have_to_be},
    {"the score is what is left out and the sum of the peaks",
     the_score_is_what_is_left_out_and_the_sum_of_the_peaks},
    {"fewer bytes left out come before a lower peak", fewer_bytes_left_out_come_before_a_lower_peak},
    {"without memory there is none", without_memory_there_is_none},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan layout", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
