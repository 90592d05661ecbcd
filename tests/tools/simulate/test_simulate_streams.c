/* SPDX-License-Identifier: Apache-2.0 */
/* Steps on several compute streams in virtual time: to the nanosecond where they can be counted by hand, and
   never below their bound. */
#include "planning/swap/bound/swap_streams.h"
#include "tests/support/models/swap_steps.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"
#include "tools/model/step_trace.h"
#include "tools/simulate/simulate.h"

#include <stdio.h>
#include <string.h>

enum { UNIT = 256, KERNEL_NS = 100, ROUNDS = TEST_ROUNDS(60), STEPS = 6 };

static swap_step_box_t box;
static uint32_t streams[SWAP_STEP_KERNEL_MAX];

static dao_simulation_t simulate(const uint32_t *on)
{
    dao_simulate_config_t config = {.policy = DAO_POLICY_BELADY, .step_count = STEPS, .streams = on};
    dao_simulation_t result = {.kernels = NULL};
    dao_status_t status = dao_simulate(&box.problem, &config, &result);
    if (status != DAO_OK) {
        (void)printf("    %s\n", dao_last_message());
    }
    CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
    CU_ASSERT_EQUAL(result.kernel_count, (size_t)(STEPS + 1) * box.problem.kernel_count);
    return result;
}

static uint64_t step_ns(void)
{
    dao_simulation_t result = simulate(streams);
    uint64_t taken_ns = result.step_ns;
    dao_simulation_finish(&result);
    return taken_ns;
}

/* Kernels of a tensor each, with memory for all. */
static void begin(uint32_t kernel_count, dao_access_t access)
{
    swap_step_stream(&box, kernel_count, UNIT, KERNEL_NS);
    box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = UINT64_C(1000000000), .latency_ns = 10};
    box.problem.capacity_bytes = (uint64_t)UNIT * kernel_count;
    for (uint32_t k = 0; k < kernel_count; k++) {
        box.uses[k][0].access = access;
        streams[k] = k % 2;
    }
}

static void kernels_of_two_streams_run_beside_each_other(void)
{
    begin(4, DAO_ACCESS_READ);
    CU_ASSERT_EQUAL(step_ns(), 2 * KERNEL_NS);
    streams[1] = 0;
    CU_ASSERT_EQUAL(step_ns(), 3 * KERNEL_NS);
    dao_simulation_t result = simulate(NULL);
    CU_ASSERT_EQUAL(result.step_ns, 4 * KERNEL_NS);
    dao_simulation_finish(&result);
}

static void kernels_that_share_what_is_written_do_not(void)
{
    begin(4, DAO_ACCESS_READ_WRITE);
    for (uint32_t k = 1; k < 4; k++) {
        box.uses[k][box.kernels[k].use_count++] = (dao_swap_use_t){k - 1, DAO_ACCESS_READ};
    }
    CU_ASSERT_EQUAL(step_ns(), 3 * KERNEL_NS); /* the next step's first one waits for 1 and 2, not for 3 */
    box.uses[0][box.kernels[0].use_count++] = (dao_swap_use_t){3, DAO_ACCESS_READ};
    CU_ASSERT_EQUAL(step_ns(), 4 * KERNEL_NS);
}

/* Kernels are found by their place in the step, in whichever order they end. */
static void each_kernel_has_its_own_span(void)
{
    begin(4, DAO_ACCESS_READ);
    for (uint32_t k = 0; k < 4; k++) {
        box.kernels[k].time_ns = 400 / (k + 1);
        streams[k] = (k + 1) / 2; /* the streams of a step: 0, 1, 1, 2 */
    }
    dao_simulation_t result = simulate(streams);
    for (size_t i = 0; i < result.kernel_count; i++) {
        const dao_sim_span_t *span = &result.kernels[i];
        CU_ASSERT_EQUAL(span->end_ns - span->begin_ns, box.kernels[i % 4].time_ns);
        CU_ASSERT(i % 4 != 2 || span->begin_ns >= result.kernels[i - 1].end_ns);
        CU_ASSERT(i < 4 || span->begin_ns >= result.kernels[i - 4].end_ns);
    }
    dao_simulation_finish(&result);
}

static uint64_t last_end(const dao_simulation_t *result)
{
    uint64_t end_ns = 0;
    for (size_t i = 0; i < result->kernel_count; i++) {
        end_ns = result->kernels[i].end_ns > end_ns ? result->kernels[i].end_ns : end_ns;
    }
    return end_ns;
}

/* A random step of whole units, and the stream of each kernel. */
static void make_step(uint64_t *random)
{
    const swap_step_range_t range = {.tensor_max = 12, .kernel_max = 24, .size_max = 8, .time_max = 3000};
    dao_swap_bound_t bound;
    do {
        swap_step_random(&box, &range, random);
    } while (box.problem.kernel_count < DAO_EXECUTOR_STREAM_COUNT_MAX);
    uint32_t count = 2 + (uint32_t)dao_random_below(random, DAO_EXECUTOR_STREAM_COUNT_MAX - 1);
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        streams[k] = k < count ? k : (uint32_t)dao_random_below(random, count);
    }
    for (uint32_t t = 0; t < box.problem.tensor_count; t++) {
        box.tensors[t].size_bytes *= UNIT;
        box.tensors[t].is_persistent = true; /* it may be read before it is written */
    }
    box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = UINT64_C(1000000000), .latency_ns = 10};
    box.problem.capacity_bytes = DAO_SWAP_SIZE_MAX;
    CU_ASSERT_EQUAL_FATAL(dao_swap_find_bound(&box.problem, &bound), DAO_OK);
    uint64_t room = (bound.peak_bytes - bound.least_capacity_bytes) / UNIT;
    box.problem.capacity_bytes = bound.least_capacity_bytes + UNIT * dao_random_below(random, room + 1);
}

static void no_step_is_below_the_bound(void)
{
    uint64_t random = dao_test_seed("streams", 20261130);
    int beside = 0;
    for (int round = 0; round < ROUNDS; round++) {
        make_step(&random);
        uint64_t bound_ns = 0;
        dao_swap_bound_t in_a_row;
        CU_ASSERT_EQUAL(dao_swap_find_streams_bound(&box.problem, streams, &bound_ns), DAO_OK);
        CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &in_a_row), DAO_OK);
        dao_simulation_t result = simulate(streams);
        CU_ASSERT(last_end(&result) >= STEPS * bound_ns); /* a window may lie across a step's end */
        CU_ASSERT(result.step_ns > 0);
        beside += result.step_ns < in_a_row.step_ns;
        dao_simulation_finish(&result);
    }
    CU_ASSERT(beside > ROUNDS / 20);
}

/* A plan's replay has the times of the same fences on the streams of a device, and none is below the bound.
 */
static void a_plan_takes_what_it_says(void)
{
    uint64_t random = dao_test_seed("plans", 20261129);
    int beside = 0;
    for (int round = 0; round < ROUNDS; round++) {
        dao_swap_plan_t *plan = NULL;
        dao_swap_replay_t replay;
        dao_simulation_t result = {.kernels = NULL};
        const dao_swap_plan_config_t config = {.work_limit = 100000};
        const dao_swap_replay_config_t play = {.step_count = STEPS + 1};
        make_step(&random);
        for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
            box.kernels[k].stream = streams[k];
        }
        dao_swap_bound_t bound;
        CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_swap_plan_make(&box.problem, &config, &plan), DAO_OK);
        CU_ASSERT_EQUAL(dao_swap_plan_replay(plan, &play, &replay), DAO_OK);
        const dao_swap_schedule_t *schedule = dao_swap_plan_schedule(plan);
        CU_ASSERT(schedule->step_ns >= bound.step_ns);
        CU_ASSERT_EQUAL_FATAL(dao_simulate_plan(&box.problem, schedule, STEPS, &result), DAO_OK);
        CU_ASSERT(last_end(&result) >= STEPS * bound.step_ns);
        CU_ASSERT_EQUAL(result.first_step_ns, replay.first_step_ns);
        beside += schedule->step_ns < bound.compute_ns;
        dao_swap_plan_destroy(plan);
        dao_simulation_finish(&result);
    }
    CU_ASSERT(beside > ROUNDS / 4);
}

static void streams_are_numbered_by_their_first_operators(void)
{
    dao_trace_operator_t operators[] = {{.stream = 7}, {.stream = 0}, {.stream = 7},
                                        {.stream = 3}, {.stream = 9}, {.stream = 5}};
    char names[] = "name";
    dao_step_trace_t trace = {.operators = operators, .operator_count = 5, .names = names};
    uint32_t numbers[6] = {0}, count = 0;
    CU_ASSERT_EQUAL(dao_trace_number_streams(&trace, numbers, &count), DAO_OK);
    CU_ASSERT_EQUAL(count, 4);
    CU_ASSERT(numbers[0] == 0 && numbers[1] == 1 && numbers[2] == 0 && numbers[3] == 2 && numbers[4] == 3);
    trace.operator_count = 6;
    CU_ASSERT_EQUAL(dao_trace_number_streams(&trace, numbers, &count), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "operator 5 \"name\""));
}

static CU_TestInfo tests[] = {
    {"kernels of two streams run beside each other", kernels_of_two_streams_run_beside_each_other},
    {"kernels that share what is written do not", kernels_that_share_what_is_written_do_not},
    {"each kernel has its own span", each_kernel_has_its_own_span},
    {"no step is below the bound", no_step_is_below_the_bound},
    {"a plan takes what it says", a_plan_takes_what_it_says},
    {"streams are numbered by their first operators", streams_are_numbered_by_their_first_operators},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"streams in virtual time", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
