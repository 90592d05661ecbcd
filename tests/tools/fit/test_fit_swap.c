/* SPDX-License-Identifier: Apache-2.0 */
/* How slow a step is in less memory: never slower with more of it, never faster than the bound, the same as
   the scheme `plan` of dao simulate at the capacity that it names; and the smallest memory for a slow-down.
 */
#include "base/report/error.h"
#include "tests/support/suite.h"
#include "tools/fit/fit_swap.h"
#include "tools/read/step/read_step.h"
#include "tools/simulate/scheme.h"

#include <stdio.h>

static dao_step_trace_t trace;
static dao_step_problem_t step;
static dao_fit_swap_t fit;

static int read_trace(void)
{
    if (dao_read_step(DAO_TEST_SOURCE_DIR "/examples/traces/resnet101.tr", NULL, &trace) != DAO_OK ||
        dao_step_problem_make(&trace, &step) != DAO_OK) {
        return 1;
    }
    step.problem.host.in_bytes_per_second = UINT64_C(50000000000);
    step.problem.host.latency_ns = 10000;
    return dao_fit_swap_init(&fit, &trace, &step.problem) != DAO_OK;
}

static int finish_trace(void)
{
    dao_step_problem_finish(&step);
    dao_step_trace_finish(&trace);
    return 0;
}

static void more_memory_is_never_slower(void)
{
    enum { LOOKS = 5 };
    uint64_t last_ns = UINT64_MAX;
    for (uint64_t i = 0; i <= LOOKS; i++) {
        uint64_t capacity_bytes = fit.least_bytes + (fit.peak_bytes - fit.least_bytes) / LOOKS * i;
        dao_fit_point_t point = {0};
        dao_status_t status = dao_fit_swap_at(&fit, capacity_bytes, &point);
        CU_ASSERT_TRUE(status == DAO_OK || (status == DAO_ERR_LIMIT && last_ns == UINT64_MAX));
        if (status == DAO_OK) {
            CU_ASSERT_TRUE(point.capacity_bytes <= capacity_bytes);
            CU_ASSERT_TRUE(point.step_ns <= last_ns);
            CU_ASSERT_TRUE(point.step_ns >= fit.compute_ns);
            last_ns = point.step_ns;
        }
    }
    CU_ASSERT_EQUAL(last_ns, fit.compute_ns); /* with all of the peak nothing moves */
}

static void a_point_is_what_simulate_says(void)
{
    const dao_scheme_t *scheme = NULL;
    dao_swap_problem_t problem = step.problem;
    dao_fit_point_t point;
    dao_scheme_run_t run;
    CU_ASSERT_EQUAL_FATAL(dao_scheme_find("plan", &scheme), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_at(&fit, fit.peak_bytes / 2, &point), DAO_OK);
    problem.capacity_bytes = point.capacity_bytes;
    dao_scheme_input_t input = {
        .problem = &problem, .trace = &trace, .threshold = DAO_TRACE_NONE, .step_count = 6};
    CU_ASSERT_EQUAL_FATAL(scheme->run(scheme, &input, &run), DAO_OK);
    CU_ASSERT_EQUAL(run.simulation.step_ns, point.step_ns);
    CU_ASSERT_EQUAL(run.simulation.in_bytes, point.in_bytes);
    CU_ASSERT_TRUE(point.bound_ns <= point.step_ns);
    dao_simulation_finish(&run.simulation);
}

static void the_smallest_memory_for_a_slow_down_is_found(void)
{
    dao_fit_point_t wish, below;
    uint64_t most_ns = fit.compute_ns + fit.compute_ns / 2;
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_for(&fit, most_ns, &wish), DAO_OK);
    CU_ASSERT_TRUE(wish.step_ns <= most_ns);
    uint64_t apart = (fit.peak_bytes - fit.least_bytes) / DAO_FIT_GRID;
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_at(&fit, wish.capacity_bytes - apart, &below), DAO_OK);
    CU_ASSERT_TRUE(below.step_ns > most_ns);
    CU_ASSERT_EQUAL(dao_fit_swap_for(&fit, fit.compute_ns - 1, &wish), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_fit_swap_at(&fit, fit.least_bytes - 1, &wish), DAO_ERR_LIMIT);
}

static CU_TestInfo tests[] = {
    {"more memory is never slower", more_memory_is_never_slower},
    {"a point is what simulate says", a_point_is_what_simulate_says},
    {"the smallest memory for a slow-down is found", the_smallest_memory_for_a_slow_down_is_found},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"fit_swap", read_trace, finish_trace, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
