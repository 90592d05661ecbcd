/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in virtual time: times to the nanosecond where they can be counted by hand, the same ones every time,
   never below the bound. */
#include "base/report/fault.h"
#include "tests/support/models/trace.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"
#include "tools/model/step_problem.h"
#include "tools/read/step/read_step.h"
#include "tools/simulate/explain.h"
#include "tools/simulate/scheme.h"

#include <dao/recompute.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define R  DAO_ACCESS_READ
#define RW DAO_ACCESS_READ_WRITE

enum { CAPACITY_COUNT = TEST_ROUNDS(3) };
enum { SIZE = 1024, KERNEL_NS = 100, IN_NS = SIZE + 10, OUT_NS = 2 * SIZE + 10 };

/* 1 byte a nanosecond in, 1 in 2 out, 10 ns a copy. */
static const dao_swap_tier_t link = {.in_bytes_per_second = UINT64_C(1000000000),
                                     .out_bytes_per_second = UINT64_C(500000000),
                                     .latency_ns = 10};

/* Plans that are not bettered: what that brings is not asked here. */
#define PLAN_WORK 1u
static const dao_swap_plan_config_t quickly = {.work_limit = PLAN_WORK};

/* Two tensors that live on, a kernel each. */
static const dao_swap_tensor_t two_tensors[] = {{SIZE, true, false}, {SIZE, true, false}};
static dao_swap_use_t uses[2];
static dao_swap_kernel_t kernels[2];

static dao_swap_problem_t two_kernels(dao_access_t access, uint64_t capacity_bytes)
{
    for (uint32_t i = 0; i < 2; i++) {
        uses[i] = (dao_swap_use_t){i, access};
        kernels[i] = (dao_swap_kernel_t){.time_ns = KERNEL_NS, .uses = &uses[i], .use_count = 1};
    }
    return (dao_swap_problem_t){.tensors = two_tensors,
                                .tensor_count = 2,
                                .kernels = kernels,
                                .kernel_count = 2,
                                .capacity_bytes = capacity_bytes,
                                .host = link};
}

static dao_simulation_t simulate(const dao_swap_problem_t *problem, dao_policy_t policy)
{
    dao_simulate_config_t config = {.policy = policy, .step_count = 6};
    dao_simulation_t result = {.kernels = NULL};
    dao_status_t status = dao_simulate(problem, &config, &result);
    if (status != DAO_OK) {
        (void)printf("    %s\n", dao_last_message());
    }
    CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
    return result;
}

static void what_fits_is_fetched_once(void)
{
    dao_swap_problem_t problem = two_kernels(R, 2 * SIZE);
    dao_simulation_t result = simulate(&problem, DAO_POLICY_BELADY);
    /* The second copy runs beside the first kernel. */
    CU_ASSERT_EQUAL(result.first_step_ns, 2 * IN_NS + KERNEL_NS);
    CU_ASSERT_EQUAL(result.step_ns, 2 * KERNEL_NS);
    CU_ASSERT_EQUAL(result.compute_ns, 2 * KERNEL_NS);
    CU_ASSERT_EQUAL(result.in_bytes, 0);
    CU_ASSERT_EQUAL(result.out_bytes, 0);
    dao_simulation_finish(&result);
}

/* A host without room: both tensors are in the file. What is read from it runs beside the copy and the kernel
   before. */
static void what_the_host_has_no_room_for_comes_from_the_file(void)
{
    dao_swap_problem_t problem = two_kernels(R, SIZE);
    problem.host.limit_bytes = 10;
    problem.file = link;
    dao_simulation_t result = simulate(&problem, DAO_POLICY_BELADY);
    CU_ASSERT_EQUAL(result.step_ns, 2 * (IN_NS + KERNEL_NS));
    CU_ASSERT_EQUAL(result.in_bytes, 2 * SIZE);
    CU_ASSERT_EQUAL(result.out_bytes, 0);
    CU_ASSERT_EQUAL(result.stats.file_out_bytes, 2 * SIZE); /* once each, in all steps */
    dao_simulation_finish(&result);
    problem.file.in_bytes_per_second /= 2;
    result = simulate(&problem, DAO_POLICY_BELADY);
    CU_ASSERT_EQUAL(result.step_ns, 2 * (2 * SIZE + 10));
    dao_simulation_finish(&result);
}

static void what_was_only_read_is_not_copied_out(void)
{
    dao_swap_problem_t problem = two_kernels(R, SIZE);
    dao_simulation_t result = simulate(&problem, DAO_POLICY_LRU);
    CU_ASSERT_EQUAL(result.step_ns, 2 * (IN_NS + KERNEL_NS));
    CU_ASSERT_EQUAL(result.in_bytes, 2 * SIZE);
    CU_ASSERT_EQUAL(result.out_bytes, 0);
    dao_simulation_finish(&result);
}

static void what_was_written_is_copied_out_before_its_room_is_used(void)
{
    dao_swap_problem_t problem = two_kernels(RW, SIZE);
    for (int duplex = DAO_SWAP_DUPLEX_FULL; duplex <= DAO_SWAP_DUPLEX_HALF; duplex++) {
        problem.host.duplex = (dao_swap_duplex_t)duplex;
        dao_simulation_t result = simulate(&problem, DAO_POLICY_LRU);
        CU_ASSERT_EQUAL(result.step_ns, 2 * (OUT_NS + IN_NS + KERNEL_NS));
        CU_ASSERT_EQUAL(result.in_bytes, 2 * SIZE);
        CU_ASSERT_EQUAL(result.out_bytes, 2 * SIZE);
        dao_simulation_finish(&result);
    }
}

static void stalls_say_what_the_links_do(void)
{
    dao_swap_problem_t problem = two_kernels(RW, SIZE);
    dao_simulation_t result = simulate(&problem, DAO_POLICY_LRU);
    dao_stall_t stalls[2];
    dao_find_stalls(&result, 2, 5, stalls);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(stalls[i].total_ns, OUT_NS + IN_NS);
        CU_ASSERT_EQUAL(stalls[i].in_ns, IN_NS);
        CU_ASSERT_EQUAL(stalls[i].out_ns, OUT_NS);
    }
    dao_find_stalls(&result, 2, 0, stalls);
    CU_ASSERT_EQUAL(stalls[0].total_ns, IN_NS);
    CU_ASSERT_EQUAL(stalls[0].in_ns, IN_NS);
    dao_simulation_finish(&result);
}

/* Spans in the order of their ends; the stall before the second kernel is from 10 to 100. */
static void stalls_say_what_the_file_does(void)
{
    dao_sim_span_t works[] = {{DAO_SIM_SPAN_WORK, 0, 10, 0, NULL}, {DAO_SIM_SPAN_WORK, 100, 110, 0, NULL}};
    dao_sim_span_t copies[] = {{DAO_SIM_SPAN_OUT, 0, 15, 1, NULL},     {DAO_SIM_SPAN_IN, 20, 30, 1, NULL},
                               {DAO_SIM_SPAN_DELAY, 12, 40, 0, NULL},  {DAO_SIM_SPAN_OUT, 25, 45, 1, NULL},
                               {DAO_SIM_SPAN_DELAY, 60, 90, 0, NULL},  {DAO_SIM_SPAN_OUT, 105, 120, 1, NULL},
                               {DAO_SIM_SPAN_DELAY, 95, 130, 0, NULL}, {DAO_SIM_SPAN_IN, 125, 150, 1, NULL}};
    const dao_simulation_t simulation = {
        .kernels = works, .kernel_count = 2, .copies = copies, .copy_count = 8};
    dao_stall_t stalls[2];
    dao_find_stalls(&simulation, 2, 0, stalls);
    CU_ASSERT_EQUAL(stalls[1].total_ns, 90);
    CU_ASSERT_EQUAL(stalls[1].in_ns, 10);           /* 20 to 30 */
    CU_ASSERT_EQUAL(stalls[1].out_ns, 5 + 15);      /* 10 to 15, 30 to 45 */
    CU_ASSERT_EQUAL(stalls[1].file_ns, 5 + 30 + 5); /* 15 to 20, 60 to 90, 95 to 100 */
}

static void what_cannot_run_is_refused(void)
{
    dao_swap_problem_t problem = two_kernels(R, SIZE / 2);
    dao_simulate_config_t config = {.step_count = 1};
    dao_simulation_t result;
    CU_ASSERT_EQUAL(dao_simulate(&problem, &config, &result), DAO_ERR_KERNEL_TOO_LARGE);
    problem.capacity_bytes = SIZE;
    config.step_count = 0;
    CU_ASSERT_EQUAL(dao_simulate(&problem, &config, &result), DAO_ERR_INVALID);
    config.step_count = DAO_SIMULATE_KERNEL_COUNT_MAX;
    CU_ASSERT_EQUAL(dao_simulate(&problem, &config, &result), DAO_ERR_INVALID);
    config.step_count = 1;
    problem.host.shared_bytes_per_second = 1;
    CU_ASSERT_EQUAL(dao_simulate(&problem, &config, &result), DAO_ERR_INVALID);
}

static void without_memory_nothing_is_left_behind(void)
{
    dao_swap_problem_t problem = two_kernels(RW, SIZE);
    dao_simulate_config_t config = {.step_count = 2};
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t n = 0; status != DAO_OK; n++) {
        dao_simulation_t result = {.kernels = NULL};
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        status = dao_simulate(&problem, &config, &result);
        uint64_t fired = dao_fault_disarm();
        CU_ASSERT_TRUE(status == DAO_OK || fired > 0);
        if (status == DAO_OK) {
            CU_ASSERT_EQUAL(result.kernel_count, 3 * 2);
            dao_simulation_finish(&result);
            if (fired > 0) {
                status = DAO_ERR_NO_HOST_MEMORY; /* it did without: go on to the next */
            }
        }
    }
}

/* ---- a recorded step ---- */

/* A part of it, where every structure is checked at every kernel. */
enum { KERNELS_HERE = 800 };

static dao_step_trace_t trace;
static dao_step_problem_t recorded;
static uint64_t peak_bytes, least_bytes;

static int read_example(void)
{
    dao_swap_bound_t bound;
    if (dao_read_step(DAO_TEST_TRACE, NULL, &trace) != DAO_OK ||
        dao_step_problem_make(&trace, &recorded) != DAO_OK) {
        return 1;
    }
    recorded.problem.kernel_count = KERNELS_HERE;
    trace.operator_count = KERNELS_HERE; /* those behind are still there for dao_step_trace_finish() */
    recorded.problem.capacity_bytes = DAO_SWAP_SIZE_MAX;
    recorded.problem.host = link;
    if (dao_swap_find_bound(&recorded.problem, &bound) != DAO_OK) {
        return 1;
    }
    peak_bytes = bound.peak_bytes;
    least_bytes = bound.least_capacity_bytes;
    return 0;
}

static int forget_example(void)
{
    dao_step_problem_finish(&recorded);
    dao_step_trace_finish(&trace);
    return 0;
}

static bool are_the_same(const dao_sim_span_t *first, const dao_sim_span_t *second, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (first[i].kind != second[i].kind || first[i].begin_ns != second[i].begin_ns ||
            first[i].end_ns != second[i].end_ns || first[i].size_bytes != second[i].size_bytes) {
            return false;
        }
    }
    return true;
}

static void every_run_is_the_same(void)
{
    recorded.problem.capacity_bytes = peak_bytes / 2;
    dao_simulation_t first = simulate(&recorded.problem, DAO_POLICY_BELADY);
    dao_simulation_t second = simulate(&recorded.problem, DAO_POLICY_BELADY);
    CU_ASSERT_EQUAL(first.kernel_count, 7 * KERNELS_HERE);
    CU_ASSERT_EQUAL_FATAL(first.kernel_count, second.kernel_count);
    CU_ASSERT_EQUAL_FATAL(first.copy_count, second.copy_count);
    CU_ASSERT_TRUE(first.copy_count > 0);
    CU_ASSERT_TRUE(are_the_same(first.kernels, second.kernels, first.kernel_count));
    CU_ASSERT_TRUE(are_the_same(first.copies, second.copies, first.copy_count));
    CU_ASSERT_EQUAL(memcmp(&first.stats, &second.stats, sizeof(first.stats)), 0);
    dao_simulation_finish(&first);
    dao_simulation_finish(&second);
}

/* How good plans are is not asked of a sanitizer; test_cli has every scheme under one. */
#if !defined(TEST_HAS_SANITIZER)

/* That plans get better with more is not what this is about. */
enum { FEW_TRIES = 4 };

static void no_scheme_is_below_the_bound(void)
{
    for (const dao_scheme_t *scheme = dao_schemes; scheme->name != NULL; scheme++) {
        for (uint64_t capacity = least_bytes; capacity <= peak_bytes;
             capacity += peak_bytes / CAPACITY_COUNT) {
            recorded.problem.capacity_bytes = capacity;
            dao_scheme_input_t input = {.problem = &recorded.problem,
                                        .trace = &trace,
                                        .threshold = DAO_TRACE_NONE,
                                        .step_count = 3,
                                        .plan_work = PLAN_WORK,
                                        .try_count = FEW_TRIES};
            dao_swap_bound_t bound;
            dao_scheme_run_t run;
            dao_status_t status = scheme->run(scheme, &input, &run);
            if (status == DAO_ERR_LIMIT || status == DAO_ERR_UNSUPPORTED) {
                /* Moving feature maps alone is not enough, nor are runs again, and the scripts do not know
                   every step. */
                CU_ASSERT_FATAL(strstr(scheme->name, "sync") != NULL || run.runs_again);
                (void)printf("    skipped: %s with %" PRIu64 " bytes: %s\n", scheme->name, capacity,
                             dao_last_message());
                continue;
            }
            if (status != DAO_OK) {
                (void)printf("    %s: %s\n", scheme->name, dao_last_message());
            }
            CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
            recorded.problem.capacity_bytes = run.capacity_bytes;
            CU_ASSERT_EQUAL_FATAL(dao_swap_find_bound(&recorded.problem, &bound), DAO_OK);
            CU_ASSERT_TRUE(run.simulation.step_ns >= run.simulation.compute_ns);
            if (run.runs_again) {
                dao_recompute_bound_t again;
                CU_ASSERT_EQUAL_FATAL(dao_recompute_find_bound(&recorded.problem, &again), DAO_OK);
                bound.step_ns = again.step_ns;
            }
            CU_ASSERT_TRUE(run.simulation.step_ns >= bound.step_ns);
            CU_ASSERT_TRUE(run.simulation.stats.peak_device_used_bytes <= run.capacity_bytes);
            dao_simulation_finish(&run.simulation);
        }
    }
}

#endif

static dao_simulation_t run_named(const char *name)
{
    const dao_scheme_input_t input = {.problem = &recorded.problem, .trace = &trace, .step_count = 6};
    const dao_scheme_t *scheme = NULL;
    dao_scheme_run_t run;
    CU_ASSERT_EQUAL_FATAL(dao_scheme_find(name, &scheme), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(scheme->run(scheme, &input, &run), DAO_OK);
    return run.simulation;
}

/* With the same look-ahead, fetching before a kernel's turn is no slower over several capacities than at its
   turn, and moves little more: docs/swap.md has the figures of more steps. */
static void what_is_fetched_early_would_be_fetched_anyway(void)
{
    uint64_t in_bytes[2] = {0, 0};
    uint64_t step_ns[2] = {0, 0};
    for (uint64_t percent = 90; percent >= 30; percent -= 20) {
        recorded.problem.capacity_bytes = peak_bytes / 100 * percent;
        dao_simulation_t online = run_named("online");
        dao_simulation_t on_demand = run_named("belady");
        CU_ASSERT_TRUE(on_demand.in_bytes > 0 || online.in_bytes == 0);
        CU_ASSERT_TRUE((double)online.step_ns <= 1.03 * (double)on_demand.step_ns);
        CU_ASSERT_TRUE((double)online.in_bytes <= 1.2 * (double)on_demand.in_bytes);
        in_bytes[0] += online.in_bytes;
        in_bytes[1] += on_demand.in_bytes;
        step_ns[0] += online.step_ns;
        step_ns[1] += on_demand.step_ns;
        dao_simulation_finish(&online);
        dao_simulation_finish(&on_demand);
    }
    (void)printf("    over those on demand: bytes in %.3f, time %.3f\n",
                 (double)in_bytes[0] / (double)in_bytes[1], (double)step_ns[0] / (double)step_ns[1]);
    CU_ASSERT_TRUE(step_ns[0] <= step_ns[1]);
    CU_ASSERT_TRUE((double)in_bytes[0] <= 1.1 * (double)in_bytes[1]);
}

static void compare_plan_with_replay(const dao_swap_problem_t *problem)
{
    dao_swap_plan_t *plan = NULL;
    dao_simulation_t result;
    CU_ASSERT_EQUAL_FATAL(dao_swap_plan_make(problem, &quickly, &plan), DAO_OK);
    const dao_swap_schedule_t *schedule = dao_swap_plan_schedule(plan);
    CU_ASSERT_EQUAL_FATAL(dao_simulate_plan(problem, schedule, 8, &result), DAO_OK);
    uint64_t apart_ns = result.step_ns > schedule->step_ns ? result.step_ns - schedule->step_ns
                                                           : schedule->step_ns - result.step_ns;
    CU_ASSERT_TRUE(apart_ns <= schedule->step_ns / 1000);
    CU_ASSERT_EQUAL(result.in_bytes, schedule->in_bytes);
    CU_ASSERT_EQUAL(result.out_bytes, schedule->out_bytes);
    CU_ASSERT_EQUAL(schedule->file_bytes > 0, problem->file.in_bytes_per_second != 0);
    dao_simulation_finish(&result);
    dao_swap_plan_destroy(plan);
}

/* What the plan says of its own time is what its replay takes: both count the same things in two ways. */
static void a_plan_takes_the_time_that_it_says(void)
{
    for (uint64_t capacity = peak_bytes; capacity > least_bytes; capacity -= peak_bytes / CAPACITY_COUNT) {
        recorded.problem.capacity_bytes = capacity;
        compare_plan_with_replay(&recorded.problem);
    }
}

static void a_plan_with_a_file_takes_the_time_that_it_says(void)
{
    dao_swap_problem_t problem = recorded.problem;
    problem.capacity_bytes = peak_bytes / 2;
    problem.file = problem.host;
    problem.file.in_bytes_per_second /= 2;
    for (uint64_t host_bytes = 1; host_bytes < peak_bytes / 4; host_bytes += peak_bytes / 10) {
        problem.host.limit_bytes = host_bytes;
        compare_plan_with_replay(&problem);
    }
}

/* The executor comes to the plan by itself, with times that it has measured, and then takes the same time in
   every step. */
static void what_is_learnt_is_the_plan(void)
{
    dao_swap_plan_config_t whole = {.granularity = DAO_SWAP_GRANULARITY_WHOLE};
    dao_simulate_config_t config = {.policy = DAO_POLICY_BELADY, .learns = true, .step_count = 8};
    dao_swap_plan_t *plan = NULL;
    dao_simulation_t result;
    recorded.problem.capacity_bytes = peak_bytes / 2;
    CU_ASSERT_EQUAL_FATAL(dao_swap_plan_make(&recorded.problem, &whole, &plan), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_simulate(&recorded.problem, &config, &result), DAO_OK);
    CU_ASSERT_EQUAL(result.stats.plan_count, 1);
    CU_ASSERT_EQUAL(result.stats.plan_hit_count, 7); /* all but the first two, and the one behind */
    CU_ASSERT_EQUAL(result.stats.deviation_count, 0);
    CU_ASSERT_EQUAL(result.stats.replan_count, 0);
    CU_ASSERT_EQUAL(result.stats.save_count, 0);
    CU_ASSERT_TRUE((double)result.step_ns <= 1.05 * (double)dao_swap_plan_schedule(plan)->step_ns);
    dao_simulation_finish(&result);
    dao_swap_plan_destroy(plan);
}

/* Told the step, the executor has its plan with the first one, which takes what later ones take. */
static void a_described_step_follows_its_plan_at_once(void)
{
    dao_simulate_config_t config = {
        .policy = DAO_POLICY_BELADY, .learns = true, .is_described = true, .step_count = 4};
    dao_simulation_t result;
    recorded.problem.capacity_bytes = peak_bytes / 2;
    CU_ASSERT_EQUAL_FATAL(dao_simulate(&recorded.problem, &config, &result), DAO_OK);
    CU_ASSERT_EQUAL(result.stats.plan_hit_count, 5); /* and the one behind */
    CU_ASSERT_EQUAL(result.stats.deviation_count, 0);
    CU_ASSERT_EQUAL(result.stats.replan_count, 0);
    CU_ASSERT_TRUE((double)result.first_step_ns <= 1.05 * (double)result.step_ns);
    dao_simulation_finish(&result);
}

/* A first plan is followed at once, and the executor does not stay with it: a better one takes its place,
   never a worse one. */
static void a_better_plan_takes_the_place_of_the_first(void)
{
    static const dao_swap_plan_config_t first_alone = {.granularity = DAO_SWAP_GRANULARITY_WHOLE,
                                                       .work_limit = 1};
    uint64_t better_count = 0, first_sum_ns = 0, step_sum_ns = 0;
    for (unsigned percent = 40; percent <= 80; percent += 20) {
        dao_simulate_config_t config = {.policy = DAO_POLICY_BELADY, .learns = true, .step_count = 8};
        dao_swap_plan_t *plan = NULL;
        dao_simulation_t result;
        recorded.problem.capacity_bytes = peak_bytes / 100 * percent;
        CU_ASSERT_EQUAL_FATAL(dao_swap_plan_make(&recorded.problem, &first_alone, &plan), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_simulate(&recorded.problem, &config, &result), DAO_OK);
        uint64_t first_ns = dao_swap_plan_schedule(plan)->step_ns;
        (void)printf("    %u %%: %" PRIu64 " ns, %" PRIu64 " with the first plan\n", percent, result.step_ns,
                     first_ns);
        CU_ASSERT_EQUAL(result.stats.plan_hit_count, 7);
        CU_ASSERT_TRUE(result.step_ns <= first_ns + first_ns / 50);
        CU_ASSERT_TRUE(result.stats.better_plan_count <= 1);
        better_count += result.stats.better_plan_count;
        first_sum_ns += first_ns;
        step_sum_ns += result.step_ns;
        dao_simulation_finish(&result);
        dao_swap_plan_destroy(plan);
    }
    CU_ASSERT_TRUE(better_count > 0);
    CU_ASSERT_TRUE(step_sum_ns < first_sum_ns);
}

static void replay_without_memory(const dao_swap_problem_t *problem)
{
    dao_swap_plan_t *plan = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_swap_plan_make(problem, &quickly, &plan), DAO_OK);
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t n = 0; status != DAO_OK; n++) {
        dao_simulation_t result;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        status = dao_simulate_plan(problem, dao_swap_plan_schedule(plan), 2, &result);
        bool has_fired = dao_fault_disarm() > 0;
        if (status == DAO_OK) {
            CU_ASSERT_EQUAL(result.step_ns, 2 * (OUT_NS + IN_NS + KERNEL_NS));
            dao_simulation_finish(&result);
            status = has_fired ? DAO_ERR_NO_HOST_MEMORY : DAO_OK; /* it did without: on to the next */
        }
    }
    dao_swap_plan_destroy(plan);
}

static void a_plan_without_memory_leaves_nothing_behind(void)
{
    dao_swap_problem_t problem = two_kernels(RW, SIZE);
    replay_without_memory(&problem);
    problem.host.limit_bytes = 1; /* all goes to the file, which is as fast */
    problem.file = link;
    replay_without_memory(&problem);
}

static void zero_sized_tensors_are_left_out(void)
{
    CU_ASSERT_TRUE(recorded.problem.tensor_count <= trace.tensor_count);
    for (uint32_t i = 0; i < recorded.problem.tensor_count; i++) {
        uint64_t size_bytes = trace.tensors[recorded.trace_tensors[i]].size_bytes;
        CU_ASSERT_TRUE(size_bytes > 0);
        CU_ASSERT_TRUE(recorded.tensors[i].size_bytes - size_bytes < DAO_TRACE_ALIGNMENT_BYTES);
    }
}

static void schemes_are_found_by_their_names(void)
{
    const dao_scheme_t *scheme = NULL;
    for (const dao_scheme_t *each = dao_schemes; each->name != NULL; each++) {
        CU_ASSERT_EQUAL(dao_scheme_find(each->name, &scheme), DAO_OK);
        CU_ASSERT_PTR_EQUAL(scheme, each);
    }
    CU_ASSERT_EQUAL(dao_scheme_find("best", &scheme), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "online"));
}

static CU_TestInfo by_hand[] = {
    {"what fits is fetched once", what_fits_is_fetched_once},
    {"what was only read is not copied out", what_was_only_read_is_not_copied_out},
    {"what the host has no room for comes from the file", what_the_host_has_no_room_for_comes_from_the_file},
    {"what was written is copied out before its room is used",
     what_was_written_is_copied_out_before_its_room_is_used},
    {"stalls say what the links do", stalls_say_what_the_links_do},
    {"stalls say what the file does", stalls_say_what_the_file_does},
    {"what cannot run is refused", what_cannot_run_is_refused},
    {"without memory nothing is left behind", without_memory_nothing_is_left_behind},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo with_a_recorded_step[] = {
    {"every run is the same", every_run_is_the_same},
#if !defined(TEST_HAS_SANITIZER)
    {"no scheme is below the bound", no_scheme_is_below_the_bound},
#endif
    {"what is fetched early would be fetched anyway", what_is_fetched_early_would_be_fetched_anyway},
    {"a plan takes the time that it says", a_plan_takes_the_time_that_it_says},
    {"a plan with a file takes the time that it says", a_plan_with_a_file_takes_the_time_that_it_says},
    {"a better plan takes the place of the first", a_better_plan_takes_the_place_of_the_first},
    {"what is learnt is the plan", what_is_learnt_is_the_plan},
    {"a described step follows its plan at once", a_described_step_follows_its_plan_at_once},
    {"a plan without memory leaves nothing behind", a_plan_without_memory_leaves_nothing_behind},
    {"zero-sized tensors are left out", zero_sized_tensors_are_left_out},
    {"schemes are found by their names", schemes_are_found_by_their_names},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"by hand", NULL, NULL, NULL, NULL, by_hand},
        {"a recorded step", read_example, forget_example, NULL, NULL, with_a_recorded_step},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}
