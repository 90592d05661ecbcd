/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of step plans: what is made of the rows of steps, what is over a limit, and that every goal can
   be run. */
#define _GNU_SOURCE
#include "bench/plan/bench_replay.h"
#include "tests/support/models/trace.h"
#include "tests/support/suite.h"
#include "tools/read/events/read_event_file.h"

#include <dao/dao.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXAMPLE DAO_TEST_TRACE "/mobilenet_v2.4.events.csv"

enum { TEXT_BYTES = 200 };

static void every_goal_can_be_run(void)
{
    CU_ASSERT(dao_replay_model_count > 0 && dao_replay_goal_count > 0);
    for (size_t i = 0; i < dao_replay_goal_count; i++) {
        const dao_replay_goal_t *goal = &dao_replay_goals[i];
        dao_place_t place;
        size_t model_count = 0;
        CU_ASSERT_EQUAL(dao_place_parse(goal->place, &place), DAO_OK);
        CU_ASSERT(goal->first_step >= 2);
        CU_ASSERT(goal->reserved_ratio_most > 0 || goal->served_mean_least > 0 ||
                  (goal->served_least > 0 && goal->total_ratio_most > 0));
        for (size_t k = 0; k < dao_replay_model_count; k++) {
            model_count += dao_replay_goal_takes(goal, &dao_replay_models[k]);
        }
        CU_ASSERT(model_count > 0);
    }
    for (size_t k = 0; k < dao_replay_model_count; k++) {
        char file[4096];
        const char *stand_in = dao_replay_models[k].stand_in;
        (void)snprintf(file, sizeof(file), "%s/%s", DAO_TEST_SOURCE_DIR, stand_in != NULL ? stand_in : "");
        CU_ASSERT_EQUAL(access(file, R_OK), 0);
    }
}

/* Each model has its recorded steps where the arena is a window under the limits of its kind, and no
   others. */
static void every_model_has_its_limits(void)
{
    for (size_t k = 0; k < dao_replay_model_count; k++) {
        size_t recorded_count = 0;
        for (size_t i = 0; i < dao_replay_goal_count; i++) {
            const dao_replay_goal_t *goal = &dao_replay_goals[i];
            if (dao_replay_goal_takes(goal, &dao_replay_models[k]) &&
                goal->steps == DAO_REPLAY_STEPS_RECORDED) {
                recorded_count++;
                CU_ASSERT_EQUAL(goal->served_least, dao_replay_models[k].differs ? 0.95 : 0.995);
                CU_ASSERT_EQUAL(goal->total_ratio_most, dao_replay_models[k].differs ? 1.10 : 1.002);
            }
        }
        CU_ASSERT_EQUAL(recorded_count, 2);
    }
}

static void the_worst_of_the_steps_counts(void)
{
    static const dao_replay_goal_t goal = {.first_step = 3, .reserved_ratio_most = 1.05};
    static const dao_replay_row_t rows[2][4] = {
        {{.step = 2, .served = 0, .total_ratio = 9, .reserved_ratio = 9}, /* is not looked at */
         {.step = 3, .served = 0.5, .total_ratio = 1.5, .reserved_ratio = 1.06},
         {.step = 4, .served = 1, .total_ratio = 1.25, .reserved_ratio = 1.07},
         {.step = 5, .served = 1, .total_ratio = 1, .reserved_ratio = 1.01}},
        {{.step = 2, .served = 1, .total_ratio = 1, .reserved_ratio = 1},
         {.step = 3, .served = 1, .total_ratio = 1, .reserved_ratio = 1},
         {.step = 4, .served = 0.75, .total_ratio = 1, .reserved_ratio = 1},
         {.step = 5, .served = 1, .total_ratio = 1, .reserved_ratio = 1.05}}};
    static const dao_replay_overlaps_t overlaps = {.block_count = 100, .overlap_count = 1};
    dao_replay_result_t result = {.goal = &goal, .instance = "x"};
    dao_replay_result_add(&result, rows[0], 4, &overlaps);
    CU_ASSERT_EQUAL(result.served_least, 0.5);
    CU_ASSERT_EQUAL(result.last_ratio, 1.01);
    dao_replay_result_add(&result, rows[1], 4, &overlaps);
    CU_ASSERT_EQUAL(result.step_count, 6);
    CU_ASSERT_EQUAL(result.cell_count, 2);
    CU_ASSERT_EQUAL(result.cells_over, 1);
    CU_ASSERT_EQUAL(result.served_least, 0.5);
    CU_ASSERT_DOUBLE_EQUAL(result.served_sum, 5.25, 1e-9);
    CU_ASSERT_EQUAL(result.total_ratio, 1.5);
    CU_ASSERT_EQUAL(result.reserved_ratio, 1.07);
    CU_ASSERT_EQUAL(result.last_ratio, 1.05);
    CU_ASSERT_EQUAL(result.block_count, 200);
    CU_ASSERT_EQUAL(result.overlap_count, 2);
}

/* A result that keeps each limit exactly, and breaks one after the other. */
static void results_are_held_to_their_limits(void)
{
    static const dao_replay_goal_t goal = {
        .served_least = 0.995, .total_ratio_most = 1.002, .reserved_ratio_most = 1.05};
    static const dao_replay_result_t kept = {.goal = &goal,
                                             .instance = "x",
                                             .step_count = 140,
                                             .cell_count = 20,
                                             .served_least = 0.995,
                                             .total_ratio = 1.002,
                                             .reserved_ratio = 1.05,
                                             .block_count = 1000};
    char text[TEXT_BYTES];
    CU_ASSERT_EQUAL(dao_replay_result_judge(&kept, text, sizeof(text)), 0);
    CU_ASSERT_STRING_EQUAL(text, "");
    dao_replay_result_t broken = kept;
    broken.served_least = 0.9949;
    broken.total_ratio = 1.0021;
    broken.reserved_ratio = 1.0501;
    broken.cells_over = 3;
    broken.overlap_count = 7;
    CU_ASSERT_EQUAL(dao_replay_result_judge(&broken, text, sizeof(text)), 4);
    CU_ASSERT_STRING_EQUAL(text,
                           "served under 0.995, total/bound over 1.002, reserved/alone over 1.05 in 3 of "
                           "20 cells, 7 overlaps");
    CU_ASSERT_EQUAL(dao_replay_result_judge(&broken, text, 8), 4); /* the text is cut */
    CU_ASSERT_STRING_EQUAL(text, "served ");
    dao_replay_goal_describe(&goal, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text,
                           "served at least 0.995, total/bound 1.002, reserved/alone 1.05, no overlaps");
    broken = kept;
    broken.step_count = 0;
    CU_ASSERT_EQUAL(dao_replay_result_judge(&broken, text, sizeof(text)), 1);
    CU_ASSERT_STRING_EQUAL(text, "nothing was looked at");
}

static dao_replay_result_t run(const dao_replay_goal_t *goal, uint64_t budget_ns, uint32_t seed_count)
{
    dao_replay_result_t result = {.goal = goal, .instance = "x"};
    dao_event_file_t file;
    CU_ASSERT_EQUAL_FATAL(dao_event_file_read(EXAMPLE, &file), DAO_OK);
    CU_ASSERT_EQUAL(dao_replay_result_run(&result, &file, budget_ns, seed_count), DAO_OK);
    dao_event_file_finish(&file);
    return result;
}

/* It stands in for the recorded step, and keeps its limits: two requests of each step are new. */
static void the_example_is_served(void)
{
    static const dao_replay_goal_t recorded = {
        .place = "cpu", .first_step = 2, .served_least = 0.995, .total_ratio_most = 1.002};
    static const dao_replay_goal_t equal = {.place = "device:0",
                                            .steps = DAO_REPLAY_STEPS_EQUAL,
                                            .first_step = 10,
                                            .served_least = 0.995,
                                            .total_ratio_most = 1.002};
    char text[TEXT_BYTES];
    dao_replay_result_t result = run(&recorded, 0, 1);
    CU_ASSERT_EQUAL(dao_replay_result_judge(&result, text, sizeof(text)), 0);
    CU_ASSERT_EQUAL(result.step_count, 2);
    CU_ASSERT_EQUAL(result.cell_count, 1);
    CU_ASSERT_EQUAL(result.block_count, 11371);
    CU_ASSERT(result.served_least < 1);
    result = run(&equal, 0, 1);
    CU_ASSERT_EQUAL(dao_replay_result_judge(&result, text, sizeof(text)), 0);
    CU_ASSERT_EQUAL(result.step_count, 4);
    CU_ASSERT_EQUAL(result.served_least, 1);
}

/* What deviates is beside the place without plans: the first cell is always run, and each has seven steps of
   its own. */
static void the_example_deviates(void)
{
    static const dao_replay_goal_t goal = {.place = "device:0",
                                           .steps = DAO_REPLAY_STEPS_DEVIATING,
                                           .first_step = 2,
                                           .reserved_ratio_most = 1.05};
    dao_replay_result_t result = run(&goal, 1, 2);
    CU_ASSERT_EQUAL(result.cell_count, 1);
    CU_ASSERT_EQUAL(result.step_count, 7);
    CU_ASSERT_EQUAL(result.overlap_count, 0);
    CU_ASSERT(result.reserved_ratio > 0 && result.last_ratio > 0 &&
              result.reserved_ratio >= result.last_ratio);
    CU_ASSERT(result.block_count > 2 * 8 * 3780);
}

static void places_that_are_not_here_are_told(void)
{
    static const dao_replay_goal_t host = {.place = "cpu"}, pages = {.place = "device:0"},
                                   none = {.place = "device:63"}, nothing = {.place = "x"};
    CU_ASSERT(dao_replay_goal_has_place(&host) && dao_replay_goal_has_place(&pages));
    CU_ASSERT_FALSE(dao_replay_goal_has_place(&none));
    CU_ASSERT_FALSE(dao_replay_goal_has_place(&nothing));
    CU_ASSERT_EQUAL(setenv("DAO_CPU_NO_PAGE_MAPPING", "1", 1), 0);
    CU_ASSERT_FALSE(dao_replay_goal_has_place(&pages));
    CU_ASSERT_EQUAL(unsetenv("DAO_CPU_NO_PAGE_MAPPING"), 0);
}

static CU_TestInfo tests[] = {
    {"every goal can be run", every_goal_can_be_run},
    {"every model has its limits", every_model_has_its_limits},
    {"the worst of the steps counts", the_worst_of_the_steps_counts},
    {"results are held to their limits", results_are_held_to_their_limits},
    {"the example is served", the_example_is_served},
    {"the example deviates", the_example_deviates},
    {"places that are not here are told", places_that_are_not_here_are_told},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"bench_replay", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
