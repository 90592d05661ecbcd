/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of the planner: each goal can be run, results are held to their limits, looks are timed. */
#include "base/report/fault.h"
#include "bench/plan/bench_plan.h"
#include "bench/plan/plan_looks.h"
#include "tests/support/suite.h"
#include "tools/plan/plan_generate.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void make(const char *text, dao_plan_input_t *out_input)
{
    dao_plan_generate_config_t config;
    CU_ASSERT_EQUAL_FATAL(dao_plan_generate_parse(text, &config), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_generate(&config, out_input), DAO_OK);
}

static void every_goal_can_be_run(void)
{
    size_t way = 0;
    CU_ASSERT(dao_plan_goal_count > 0);
    for (size_t i = 0; i < dao_plan_goal_count; i++) {
        const dao_plan_goal_t *goal = &dao_plan_goals[i];
        dao_plan_generate_config_t config;
        bool is_made = goal->stand_in != NULL && strchr(goal->stand_in, ':') != NULL;
        CU_ASSERT(dao_plan_way_find(goal->method, &way));
        CU_ASSERT(goal->rival == NULL || dao_plan_way_find(goal->rival, &way));
        CU_ASSERT(goal->file != NULL || goal->stand_in != NULL);
        CU_ASSERT(goal->budget_s > 0);
        CU_ASSERT(!is_made || dao_plan_generate_parse(goal->stand_in, &config) == DAO_OK);
        if (goal->stand_in != NULL && !is_made) {
            char file[4096];
            (void)snprintf(file, sizeof(file), "%s/%s", DAO_TEST_SOURCE_DIR, goal->stand_in);
            CU_ASSERT_EQUAL(access(file, R_OK), 0);
        }
    }
}

/* A result that keeps each limit exactly, and breaks one after the other. */
static void results_are_held_to_their_limits(void)
{
    static const dao_plan_goal_t goal = {.peak_most_bytes = 110,
                                         .ratio_most = 1.1,
                                         .first_ratio_most = 1.5,
                                         .first_most_s = 0.5,
                                         .most_s = 1,
                                         .most_us_each = 10,
                                         .bytes_most = 150,
                                         .look_most_ms = 1,
                                         .needs_proof = true};
    static const dao_plan_result_t kept = {.goal = &goal,
                                           .instance = "x",
                                           .is_file = true,
                                           .row = {.buffer_count = 100000,
                                                   .has_peak = true,
                                                   .peak_bytes = 110,
                                                   .bound_bytes = 100,
                                                   .is_proved = true,
                                                   .cpu_ns = 2000000000,
                                                   .first_cpu_ns = 500000000,
                                                   .first_peak_bytes = 150,
                                                   .memory_bytes = 15000000},
                                           .ratio = 1.1,
                                           .speed = 1,
                                           .look_ns = 1000000};
    char text[200];
    CU_ASSERT_EQUAL(dao_plan_result_judge(&kept, text, sizeof(text)), 0);
    CU_ASSERT_STRING_EQUAL(text, "");
    dao_plan_result_t broken = kept;
    broken.ratio = 1.11;
    broken.row.peak_bytes = 111;
    broken.row.is_proved = false;
    broken.row.first_peak_bytes = 151;
    broken.row.memory_bytes++;
    broken.row.cpu_ns++;
    broken.row.first_cpu_ns++;
    broken.look_ns = 1250000;
    CU_ASSERT_EQUAL(dao_plan_result_judge(&broken, text, sizeof(text)), 8);
    CU_ASSERT_STRING_EQUAL(
        text, "ratio over 1.10000, peak over 110, no proof, first plan over 1.50, memory over 150 B "
              "a buffer, time over 2.000 s, first plan after 0.500 s, looks 1.250 ms apart");
    CU_ASSERT_EQUAL(dao_plan_result_judge(&broken, text, 8), 8); /* the text is cut */
    CU_ASSERT_STRING_EQUAL(text, "ratio o");
    broken.row.unplaced_count = 1;
    CU_ASSERT_EQUAL(dao_plan_result_judge(&broken, text, sizeof(text)), 1);
    CU_ASSERT_STRING_EQUAL(text, "it does not fit");
    broken.row.has_peak = false;
    CU_ASSERT_EQUAL(dao_plan_result_judge(&broken, text, sizeof(text)), 1);
    CU_ASSERT_STRING_EQUAL(text, "no plan");
}

/* A tenth of the peer's time, on a machine twice as fast half of that; only on the peer's instance. */
static void peers_times_are_scaled(void)
{
    static const dao_plan_goal_t goal = {.peer_s = 4};
    dao_plan_result_t result = {.goal = &goal,
                                .instance = "x",
                                .is_file = true,
                                .row = {.has_peak = true, .cpu_ns = 300000000},
                                .ratio = 1,
                                .speed = 1};
    char text[160];
    CU_ASSERT_EQUAL(dao_plan_result_judge(&result, text, sizeof(text)), 0);
    result.speed = 2;
    CU_ASSERT_EQUAL(dao_plan_result_judge(&result, text, sizeof(text)), 1);
    CU_ASSERT_STRING_EQUAL(text, "time over 0.200 s");
    result.is_file = false;
    CU_ASSERT_EQUAL(dao_plan_result_judge(&result, text, sizeof(text)), 0);
}

/* The time itself is not checked. Endless work ends with the budget, and finished work before. */
static void looks_are_timed_to_the_end(void)
{
    static const char *const texts[] = {"rnd:20000", "tf:300"};
    static const uint64_t budgets_ns[] = {5000000, UINT64_C(1000000000000)};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        dao_plan_input_t input;
        uint64_t longest_ns = 0;
        make(texts[i], &input);
        dao_plan_problem_t problem = dao_plan_input_problem(&input);
        CU_ASSERT_EQUAL(dao_plan_looks_measure(&problem, DAO_PLAN_METHOD_BEST, budgets_ns[i], &longest_ns),
                        DAO_OK);
        CU_ASSERT(longest_ns > 0);
        dao_fault_arm(DAO_FAULT_ANY, 0, false);
        dao_status_t status =
            dao_plan_looks_measure(&problem, DAO_PLAN_METHOD_BEST, budgets_ns[i], &longest_ns);
        CU_ASSERT_EQUAL(status, dao_fault_disarm() > 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        dao_plan_input_finish(&input);
    }
}

static CU_TestInfo tests[] = {
    {"every goal can be run", every_goal_can_be_run},
    {"results are held to their limits", results_are_held_to_their_limits},
    {"peers' times are scaled", peers_times_are_scaled},
    {"looks are timed to the end", looks_are_timed_to_the_end},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan_goals", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
