/* SPDX-License-Identifier: Apache-2.0 */
/* A long run in virtual time comes to rest: where plans make each other look wrong, the executor changes them
   ever less often. And a short one, all of which the host has queued before the device has done anything. */
#include "tests/support/suite.h"
#include "tools/model/step_problem.h"
#include "tools/read/step/read_step.h"
#include "tools/simulate/simulate.h"

#include <inttypes.h>
#include <stdio.h>

enum { STEPS = 320, FEW_STEPS = 8 };

typedef struct optimizer {
    dao_step_trace_t trace;
    dao_step_problem_t step;
    uint64_t peak_bytes;
} optimizer_t;

/* An optimizer's step over a slow link that both directions share. */
static void begin(optimizer_t *optimizer)
{
    dao_swap_bound_t bound;
    dao_swap_problem_t *problem = &optimizer->step.problem;
    CU_ASSERT_EQUAL_FATAL(
        dao_read_step(DAO_TEST_SOURCE_DIR "/tests/tools/simulate/optimizer.dao", NULL, &optimizer->trace),
        DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_step_problem_make(&optimizer->trace, &optimizer->step), DAO_OK);
    problem->host = (dao_swap_tier_t){.in_bytes_per_second = 500000000,
                                      .out_bytes_per_second = 500000000,
                                      .latency_ns = 1000,
                                      .duplex = DAO_SWAP_DUPLEX_HALF};
    problem->capacity_bytes = DAO_SWAP_SIZE_MAX;
    CU_ASSERT_EQUAL_FATAL(dao_swap_find_bound(problem, &bound), DAO_OK);
    optimizer->peak_bytes = bound.peak_bytes;
}

static void end(optimizer_t *optimizer)
{
    dao_step_problem_finish(&optimizer->step);
    dao_step_trace_finish(&optimizer->trace);
}

/* Over a link that both directions share, what an optimizer's step measures of the link depends on its plan.
   Each new plan that loses to the former one costs about 15 steps. */
static void plans_that_lose_are_tried_ever_less_often(void)
{
    optimizer_t optimizer;
    dao_simulation_t result;
    const dao_simulate_config_t config = {.policy = DAO_POLICY_BELADY, .learns = true, .step_count = STEPS};
    begin(&optimizer);
    optimizer.step.problem.capacity_bytes = optimizer.peak_bytes / 100 * 95;
    CU_ASSERT_EQUAL_FATAL(dao_simulate(&optimizer.step.problem, &config, &result), DAO_OK);
    (void)printf("    %" PRIu64 " plans anew, %" PRIu64 " given up, in %d steps\n", result.stats.replan_count,
                 result.stats.plan_dropped_count, STEPS);
    CU_ASSERT_TRUE(result.stats.replan_count > 0);
    CU_ASSERT_TRUE(result.stats.replan_count <= 4);
    dao_simulation_finish(&result);
    end(&optimizer);
}

/* The kernels of all steps fit into the queue: without asking, the speed of the link were never known, and
   what comes early would push out what comes before it. */
static void a_host_far_ahead_learns_how_slow_the_link_is(void)
{
    static const uint32_t percents[] = {98, 95, 90, 80, 60};
    optimizer_t optimizer;
    dao_simulation_t early, demand;
    dao_simulate_config_t config = {.policy = DAO_POLICY_BELADY, .step_count = FEW_STEPS};
    begin(&optimizer);
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
        optimizer.step.problem.capacity_bytes = optimizer.peak_bytes / 100 * percents[i];
        config.on_demand = false;
        CU_ASSERT_EQUAL_FATAL(dao_simulate(&optimizer.step.problem, &config, &early), DAO_OK);
        config.on_demand = true;
        CU_ASSERT_EQUAL_FATAL(dao_simulate(&optimizer.step.problem, &config, &demand), DAO_OK);
        double time = (double)early.step_ns / (double)demand.step_ns;
        double bytes = (double)early.in_bytes / (double)demand.in_bytes;
        (void)printf("    %" PRIu32 " %%: over on demand, time %.3f, bytes in %.3f\n", percents[i], time,
                     bytes);
        CU_ASSERT_TRUE(time < 1.5);
        CU_ASSERT_TRUE(bytes < 1.5);
        dao_simulation_finish(&early);
        dao_simulation_finish(&demand);
    }
    end(&optimizer);
}

static CU_TestInfo tests[] = {
    {"plans that lose are tried ever less often", plans_that_lose_are_tried_ever_less_often},
    {"a host far ahead learns how slow the link is", a_host_far_ahead_learns_how_slow_the_link_is},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"simulate_long", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
