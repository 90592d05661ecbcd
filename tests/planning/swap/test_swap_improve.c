/* SPDX-License-Identifier: Apache-2.0 */
/* A local search betters decisions: they hold, they are never slower, and on small steps they come near the
   best of all. */
#include "planning/swap/swap_improve.h"

#include "base/report/fault.h"
#include "planning/swap/victims/swap_cycle.h"
#include "tests/support/models/swap_pass.h"
#include "tests/support/suite.h"

#include <string.h>

enum { ROUND_COUNT = 60, PERIOD_MAX = 12 };

static swap_step_box_t box;
static swap_pass_t pass;
static dao_swap_grain_t grain;
static dao_swap_cancel_t budget;
static const dao_swap_effort_t endless = {.work_end = UINT64_MAX};

/* Decides and times by the first variant, for a capacity. */
static void begin(uint64_t part_bytes)
{
    swap_pass_begin(&pass, &box, part_bytes);
    budget = (dao_swap_cancel_t){.time_end_ns = UINT64_MAX};
    pass.step.cancel = &budget;
    CU_ASSERT_EQUAL_FATAL(dao_swap_grain_init(&grain, &pass.step, part_bytes), DAO_OK);
}

static void decide(uint64_t capacity_bytes)
{
    CU_ASSERT_EQUAL_FATAL(dao_swap_grain_choose(&grain, 0, capacity_bytes), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_grain_time_choice(&grain, capacity_bytes, true), DAO_OK);
}

static void end(void)
{
    dao_swap_grain_finish(&grain);
    swap_pass_end(&pass);
}

static void decisions_hold_and_are_never_slower(void)
{
    uint64_t random = dao_test_seed("improve", 20260818);
    int better = 0;
    for (int round = 0; round < ROUND_COUNT; round++) {
        swap_pass_random(&box, &random);
        begin(dao_random_next(&random) % 3 * 7);
        uint64_t capacity =
            pass.least_bytes + dao_random_next(&random) % 4 * (pass.peak_bytes - pass.least_bytes) / 4;
        decide(capacity);
        uint64_t before_ns = grain.timing.step_ns;
        CU_ASSERT_EQUAL_FATAL(dao_swap_improve(&grain, capacity, &endless), DAO_OK);
        CU_ASSERT(grain.timing.step_ns <= before_ns);
        better += grain.timing.step_ns < before_ns;
        CU_ASSERT(dao_swap_cycle_is_valid(&grain.parts, capacity, grain.decisions, pass.kernel_bytes));
        uint64_t after_ns = grain.timing.step_ns;
        CU_ASSERT_EQUAL_FATAL(dao_swap_grain_time(&grain, capacity),
                              DAO_OK); /* times are of these decisions */
        CU_ASSERT_EQUAL(grain.timing.step_ns, after_ns);
        end();
    }
    CU_ASSERT(better > ROUND_COUNT / 4);
}

/* The shortest step of all decisions that hold. 0: there are too many. */
static uint64_t best_of_all(uint64_t capacity)
{
    uint32_t periods[PERIOD_MAX], count = 0;
    uint64_t best_ns = UINT64_MAX;
    for (uint32_t i = 0; i < pass.step.access_count; i++) {
        const dao_swap_access_t *one = &pass.step.accesses[i];
        if (one->inactive_is_live && one->inactive_length > 1) {
            if (count == PERIOD_MAX) {
                return 0;
            }
            periods[count++] = i;
        }
    }
    for (uint32_t set = 0; set < 1u << count; set++) {
        memset(grain.decisions, 0, grain.parts.inactive_count * sizeof(*grain.decisions));
        for (uint32_t i = 0; i < count; i++) {
            grain.decisions[periods[i]].is_away = (set >> i & 1) != 0;
        }
        if (dao_swap_cycle_is_valid(&grain.parts, capacity, grain.decisions, pass.kernel_bytes)) {
            CU_ASSERT_EQUAL_FATAL(dao_swap_grain_time(&grain, capacity), DAO_OK);
            best_ns = grain.timing.step_ns < best_ns ? grain.timing.step_ns : best_ns;
        }
    }
    return best_ns;
}

static void small_steps_are_near_the_best_of_all(void)
{
    uint64_t random = dao_test_seed("best of all", 20260819), sum_ns = 0, best_sum_ns = 0;
    const swap_step_range_t range = {.tensor_max = 6, .kernel_max = 8, .size_max = 60, .time_max = 60};
    int found = 0, exact = 0;
    for (int round = 0; round < ROUND_COUNT; round++) {
        swap_step_random(&box, &range, &random);
        box.problem.alignment_bytes = 1;
        box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = 1000000000};
        begin(0);
        uint64_t capacity = pass.least_bytes + (pass.peak_bytes - pass.least_bytes) / 3;
        uint64_t best_ns = best_of_all(capacity);
        if (best_ns != 0) {
            decide(capacity);
            CU_ASSERT_EQUAL_FATAL(dao_swap_improve(&grain, capacity, &endless), DAO_OK);
            sum_ns += grain.timing.step_ns;
            best_sum_ns += best_ns;
            exact += grain.timing.step_ns <= best_ns;
            found++;
        }
        end();
    }
    CU_ASSERT(found > ROUND_COUNT / 2);
    CU_ASSERT(exact >= found * 3 / 4);
    CU_ASSERT(sum_ns <= best_sum_ns + best_sum_ns / 50);
}

static void effort_ends_it(void)
{
    uint64_t random = dao_test_seed("effort", 20260820);
    const swap_step_range_t range = {.tensor_max = 30, .kernel_max = 60, .size_max = 60, .time_max = 40};
    swap_step_random(&box, &range, &random);
    box.problem.alignment_bytes = 1;
    box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = 1000000000};
    begin(0);
    uint64_t capacity = pass.least_bytes + (pass.peak_bytes - pass.least_bytes) / 3;
    decide(capacity);
    dao_swap_effort_t effort = {.work_end = dao_swap_work(&pass.step) + 10000};
    CU_ASSERT_EQUAL_FATAL(dao_swap_improve(&grain, capacity, &effort), DAO_OK);
    CU_ASSERT(dao_swap_work(&pass.step) >= effort.work_end);
    CU_ASSERT(dao_swap_work(&pass.step) < effort.work_end + 200000); /* what was begun is ended */
    uint64_t work = dao_swap_work(&pass.step);
    effort = (dao_swap_effort_t){.work_end = UINT64_MAX, .goal_ns = UINT64_MAX}; /* reached as it begins */
    CU_ASSERT_EQUAL_FATAL(dao_swap_improve(&grain, capacity, &effort), DAO_OK);
    budget.time_end_ns = 0; /* the time is over */
    CU_ASSERT_EQUAL_FATAL(dao_swap_improve(&grain, capacity, &endless), DAO_OK);
    CU_ASSERT(dao_swap_work(&pass.step) < work + 200000);
    end();
}

static void want_of_memory_is_said(void)
{
    uint64_t random = dao_test_seed("want of memory", 20260821);
    for (uint64_t n = 0; n < 8; n++) {
        swap_pass_random(&box, &random);
        begin(0);
        uint64_t capacity = pass.least_bytes + (pass.peak_bytes - pass.least_bytes) / 3;
        decide(capacity);
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = dao_swap_improve(&grain, capacity, &endless);
        CU_ASSERT_EQUAL(status, dao_fault_disarm() > 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        end();
    }
}

static CU_TestInfo tests[] = {
    {"decisions hold and are never slower", decisions_hold_and_are_never_slower},
    {"small steps are near the best of all", small_steps_are_near_the_best_of_all},
    {"effort ends it", effort_ends_it},
    {"want of memory is said", want_of_memory_is_said},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap improve", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
