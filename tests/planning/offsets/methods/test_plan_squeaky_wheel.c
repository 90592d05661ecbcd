/* SPDX-License-Identifier: Apache-2.0 */
/* The squeaky wheel: each layout that it finds is valid and better than all before. */
#include "base/report/fault.h"
#include "planning/offsets/methods/squeaky_wheel.h"
#include "tests/support/models/plans.h"
#include "tests/support/suite.h"

enum { ROUND_COUNT = 120, STEP_COUNT = 40, SLICE = 400 };

static const _Atomic bool is_never_cancelled = false;

/* Returns true if the items lie where the problem lets them. */
static bool is_valid(const dao_test_plan_t *plan, const dao_plan_instance_t *instance,
                     const dao_plan_layout_t *layout)
{
    uint64_t offsets[DAO_TEST_PLAN_BUFFERS_MAX];
    uint32_t pools[DAO_TEST_PLAN_BUFFERS_MAX];
    for (uint32_t i = 0; i < instance->item_count; i++) {
        offsets[instance->items[i].source] = layout->offsets[i];
        pools[instance->items[i].source] = dao_plan_layout_pool(layout, i);
    }
    return dao_test_plan_is_valid(&plan->problem, offsets, pools);
}

static void what_it_finds_is_valid_and_better(void)
{
    uint64_t random = dao_test_seed("squeaky wheel", 20261122);
    int found_count = 0;
    for (int round = 0; round < ROUND_COUNT; round++) {
        dao_test_plan_t plan;
        dao_plan_instance_t instance;
        dao_plan_squeaky_wheel_t *wheel = NULL;
        dao_plan_work_t work = {.limit = UINT64_MAX, .is_cancelled = &is_never_cancelled};
        uint32_t features =
            (uint32_t)dao_random_next(&random) % DAO_TEST_PLAN_FEATURES & ~(uint32_t)DAO_TEST_PLAN_FIXED;
        dao_test_plan_make(&plan, features, 2 + dao_random_next(&random) % 30, 20, &random);
        if (dao_plan_instance_make(&instance, &plan.problem) != DAO_OK) {
            continue; /* gaps fill a life */
        }
        uint64_t used_bytes = instance.memory.used_bytes;
        dao_plan_score_t best = {.unplaced_bytes = UINT64_MAX};
        CU_ASSERT_EQUAL_FATAL(dao_plan_squeaky_wheel_create(&instance, (uint64_t)round, &work, &wheel),
                              DAO_OK);
        dao_plan_squeaky_wheel_set_best(wheel, &best);
        for (int step = 0; step < STEP_COUNT && !dao_plan_squeaky_wheel_is_exhausted(wheel); step++) {
            bool is_found = false;
            work.limit = work.used + SLICE;
            CU_ASSERT_EQUAL_FATAL(dao_plan_squeaky_wheel_step(wheel, &work, &is_found), DAO_OK);
            CU_ASSERT(dao_plan_squeaky_wheel_is_valid(wheel));
            if (is_found) {
                dao_plan_work_t free_work = dao_plan_work_unlimited();
                dao_plan_score_t score;
                dao_plan_layout_score(&instance, dao_plan_squeaky_wheel_layout(wheel), &free_work, &score);
                CU_ASSERT(dao_plan_score_is_better(&score, &best));
                CU_ASSERT(is_valid(&plan, &instance, dao_plan_squeaky_wheel_layout(wheel)));
                best = score;
                found_count++;
            }
        }
        dao_plan_squeaky_wheel_destroy(wheel);
        CU_ASSERT_EQUAL(instance.memory.used_bytes, used_bytes);
        dao_plan_instance_finish(&instance);
    }
    CU_ASSERT(found_count > ROUND_COUNT);
}

/* Runs it for so much work and gives the lowest peak. */
static uint64_t peak_of(const dao_plan_problem_t *problem, uint64_t seed, uint64_t slice, uint64_t work_limit)
{
    dao_plan_instance_t instance;
    dao_plan_squeaky_wheel_t *wheel = NULL;
    dao_plan_work_t work = {.limit = UINT64_MAX, .is_cancelled = &is_never_cancelled};
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, problem), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_squeaky_wheel_create(&instance, seed, &work, &wheel), DAO_OK);
    dao_plan_score_t best = {.unplaced_bytes = UINT64_MAX};
    dao_plan_squeaky_wheel_set_best(wheel, &best);
    while (work.used < work_limit) {
        bool is_found = false;
        work.limit = work.used + slice;
        CU_ASSERT_EQUAL_FATAL(dao_plan_squeaky_wheel_step(wheel, &work, &is_found), DAO_OK);
        if (is_found) {
            dao_plan_work_t free_work = dao_plan_work_unlimited();
            dao_plan_layout_score(&instance, dao_plan_squeaky_wheel_layout(wheel), &free_work, &best);
        }
    }
    dao_plan_squeaky_wheel_destroy(wheel);
    dao_plan_instance_finish(&instance);
    return best.peak_bytes;
}

static void equal_seeds_find_the_same(void)
{
    dao_test_plan_t plan;
    uint64_t random = dao_test_seed("seeds", 20261122);
    for (int round = 0; round < 10; round++) {
        dao_test_plan_make(&plan, DAO_TEST_PLAN_ALIGNED, 50, 40, &random);
        CU_ASSERT_EQUAL(peak_of(&plan.problem, 7, SLICE, 20000), peak_of(&plan.problem, 7, SLICE, 20000));
    }
}

static void it_lives_with_want_of_memory(void)
{
    dao_test_plan_t plan;
    uint64_t random = dao_test_seed("want of memory", 20261122);
    dao_test_plan_make(&plan, DAO_TEST_PLAN_CYCLIC, 20, 20, &random);
    bool is_complete = false;
    for (uint64_t skip = 0; !is_complete; skip++) {
        dao_plan_instance_t instance;
        dao_plan_squeaky_wheel_t *wheel = NULL;
        dao_plan_work_t work = {.limit = 20000, .is_cancelled = &is_never_cancelled};
        dao_plan_score_t best = {.unplaced_bytes = UINT64_MAX};
        bool is_found = false;
        CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &plan.problem), DAO_OK);
        uint64_t used_bytes = instance.memory.used_bytes;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        dao_status_t status = dao_plan_squeaky_wheel_create(&instance, 1, &work, &wheel);
        if (status == DAO_OK) {
            dao_plan_squeaky_wheel_set_best(wheel, &best);
        }
        for (int tries = 0; status == DAO_OK && !is_found && tries < 2; tries++) {
            dao_status_t step = dao_plan_squeaky_wheel_step(wheel, &work, &is_found);
            CU_ASSERT(step == DAO_OK || step == DAO_ERR_NO_HOST_MEMORY);
        }
        is_complete = dao_fault_disarm() == 0;
        CU_ASSERT(is_found || (status == DAO_ERR_NO_HOST_MEMORY && !is_complete));
        dao_plan_squeaky_wheel_destroy(wheel);
        CU_ASSERT_EQUAL(instance.memory.used_bytes, used_bytes);
        dao_plan_instance_finish(&instance);
    }
}

static CU_TestInfo tests[] = {
    {"what it finds is valid and better", what_it_finds_is_valid_and_better},
    {"equal seeds find the same", equal_seeds_find_the_same},
    {"it lives with want of memory", it_lives_with_want_of_memory},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan squeaky wheel", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
