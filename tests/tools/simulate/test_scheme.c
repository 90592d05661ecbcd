/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of one step for several capacities: with what is known of less memory, more of it is never slower. */
#include "tests/support/models/swap_steps.h"
#include "tests/support/suite.h"
#include "tools/model/step_problem.h"
#include "tools/read/step/read_step.h"
#include "tools/simulate/scheme.h"

enum { ROUNDS = 12, CAPACITIES = 7, STEPS = 4 };

static const swap_step_range_t range = {
    .tensor_max = 40, .kernel_max = 80, .size_max = 4096, .time_max = 3000, .workspace_max = 512};

static swap_step_box_t box;

/* Simulates a first plan. */
static uint64_t step_ns_of(dao_scheme_known_t *known)
{
    const dao_scheme_input_t input = {
        .problem = &box.problem, .step_count = STEPS, .plan_work = 1, .known = known};
    const dao_scheme_t *scheme = NULL;
    dao_scheme_run_t run;
    CU_ASSERT_EQUAL_FATAL(dao_scheme_find("plan", &scheme), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(scheme->run(scheme, &input, &run), DAO_OK);
    CU_ASSERT_EQUAL(run.capacity_bytes, box.problem.capacity_bytes);
    uint64_t step_ns = run.simulation.step_ns;
    dao_simulation_finish(&run.simulation);
    return step_ns;
}

/* Counts the capacities with which a plan alone is slower than one for less memory. With what is known none
   is. */
static size_t count_slower(const dao_swap_bound_t *bound)
{
    dao_scheme_known_t known = {0};
    uint64_t before_ns = UINT64_MAX, alone_before_ns = UINT64_MAX;
    size_t slower_count = 0;
    for (uint32_t i = 0; i < CAPACITIES; i++) {
        box.problem.capacity_bytes =
            bound->least_capacity_bytes + (bound->peak_bytes - bound->least_capacity_bytes) * i / CAPACITIES;
        uint64_t alone_ns = step_ns_of(NULL), now_ns = step_ns_of(&known);
        slower_count += alone_ns > alone_before_ns ? 1 : 0;
        CU_ASSERT(now_ns <= before_ns && now_ns <= alone_ns);
        CU_ASSERT_EQUAL(now_ns, known.step_ns);
        before_ns = now_ns;
        alone_before_ns = alone_ns;
    }
    dao_scheme_known_finish(&known);
    return slower_count;
}

static void more_memory_is_never_slower(void)
{
    uint64_t random = dao_test_seed("scheme", 20261128);
    size_t slower_count = 0;
    for (int round = 0; round < ROUNDS; round++) {
        dao_swap_bound_t bound;
        do {
            swap_step_random(&box, &range, &random);
        } while (box.problem.kernel_count < 20 || box.problem.tensor_count < 10);
        box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = UINT64_C(1000000000), .latency_ns = 10};
        CU_ASSERT_EQUAL_FATAL(dao_swap_find_bound(&box.problem, &bound), DAO_OK);
        slower_count += count_slower(&bound);
    }
    CU_ASSERT(slower_count > 0); /* else nothing is seen here */
}

static uint64_t step_ns_by(const char *name, const dao_swap_problem_t *problem, const dao_step_trace_t *trace)
{
    const dao_scheme_input_t input = {.problem = problem,
                                      .trace = trace,
                                      .threshold = DAO_TRACE_NONE,
                                      .step_count = STEPS,
                                      .plan_work = DAO_SWAP_WORK_DEFAULT / 10};
    const dao_scheme_t *scheme = NULL;
    dao_scheme_run_t run;
    CU_ASSERT_EQUAL_FATAL(dao_scheme_find(name, &scheme), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(scheme->run(scheme, &input, &run), DAO_OK);
    uint64_t step_ns = run.simulation.step_ns;
    dao_simulation_finish(&run.simulation);
    return step_ns;
}

/* Caches of all lengths, each of which grows in each step: what was used last goes around with the step, so
   that by age each goes just before it is needed. A plan moves what does not fit, and hardly more. */
static void caches_that_nearly_fit_cost_little(void)
{
    dao_step_trace_t trace;
    dao_step_problem_t step;
    dao_swap_bound_t bound;
    CU_ASSERT_EQUAL_FATAL(dao_read_step(DAO_TEST_SOURCE_DIR "/examples/traces/decode_kv.tr", NULL, &trace),
                          DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_step_problem_make(&trace, &step), DAO_OK);
    step.problem.host = (dao_swap_tier_t){.in_bytes_per_second = UINT64_C(50000000000), .latency_ns = 10000};
    step.problem.capacity_bytes = DAO_SWAP_SIZE_MAX;
    CU_ASSERT_EQUAL_FATAL(dao_swap_find_bound(&step.problem, &bound), DAO_OK);
    step.problem.capacity_bytes = bound.peak_bytes / 10 * 9;
    CU_ASSERT_EQUAL_FATAL(dao_swap_find_bound(&step.problem, &bound), DAO_OK);
    uint64_t plan_ns = step_ns_by("plan", &step.problem, &trace);
    CU_ASSERT(plan_ns < bound.step_ns + bound.step_ns / 4);
    CU_ASSERT(step_ns_by("lru", &step.problem, &trace) > 5 * plan_ns);
    dao_step_problem_finish(&step);
    dao_step_trace_finish(&trace);
}

static CU_TestInfo tests[] = {
    {"more memory is never slower", more_memory_is_never_slower},
    {"caches that nearly fit cost little", caches_that_nearly_fit_cost_little},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"schemes", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
