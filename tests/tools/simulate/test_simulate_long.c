/* SPDX-License-Identifier: Apache-2.0 */
/* A long run in virtual time comes to rest: where plans make each other look wrong, the executor changes them
   ever less often. */
#include "tests/support/suite.h"
#include "tools/model/step_problem.h"
#include "tools/read/step/read_step.h"
#include "tools/simulate/simulate.h"

#include <inttypes.h>
#include <stdio.h>

enum { STEPS = 320 };

/* Over a link that both directions share, what an optimizer's step measures of the link depends on its plan.
   Each new plan that loses to the former one costs about 15 steps. */
static void plans_that_lose_are_tried_ever_less_often(void)
{
    dao_step_trace_t trace;
    dao_step_problem_t optimizer;
    dao_swap_bound_t bound;
    dao_simulation_t result;
    const dao_simulate_config_t config = {.policy = DAO_POLICY_BELADY, .learns = true, .step_count = STEPS};
    CU_ASSERT_EQUAL_FATAL(
        dao_read_step(DAO_TEST_SOURCE_DIR "/tests/tools/simulate/optimizer.dao", NULL, &trace), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_step_problem_make(&trace, &optimizer), DAO_OK);
    optimizer.problem.host = (dao_swap_tier_t){.in_bytes_per_second = 500000000,
                                               .out_bytes_per_second = 500000000,
                                               .latency_ns = 1000,
                                               .duplex = DAO_SWAP_DUPLEX_HALF};
    optimizer.problem.capacity_bytes = DAO_SWAP_SIZE_MAX;
    CU_ASSERT_EQUAL_FATAL(dao_swap_find_bound(&optimizer.problem, &bound), DAO_OK);
    optimizer.problem.capacity_bytes = bound.peak_bytes / 100 * 95;
    CU_ASSERT_EQUAL_FATAL(dao_simulate(&optimizer.problem, &config, &result), DAO_OK);
    (void)printf("    %" PRIu64 " plans anew, %" PRIu64 " given up, in %d steps\n", result.stats.replan_count,
                 result.stats.plan_dropped_count, STEPS);
    CU_ASSERT_TRUE(result.stats.replan_count > 0);
    CU_ASSERT_TRUE(result.stats.replan_count <= 4);
    dao_simulation_finish(&result);
    dao_step_problem_finish(&optimizer);
    dao_step_trace_finish(&trace);
}

static CU_TestInfo tests[] = {
    {"plans that lose are tried ever less often", plans_that_lose_are_tried_ever_less_often},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"simulate_long", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
