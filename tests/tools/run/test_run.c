/* SPDX-License-Identifier: Apache-2.0 */
/* Running steps for real: no word is ever wrong, whatever the capacity, the policy, the links and the delays.
   The example is run with its sizes divided where the build is slow; every structure stays as recorded. */
#include "base/memory/host.h"
#include "base/numbers/random.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/models/trace.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"
#include "tools/read/step/read_json_step.h"
#include "tools/run/run_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Slow builds run fewer cells: the same code under the same orders, only less often. */
#if defined(TEST_HAS_THREAD_SANITIZER)
enum { SIZE_DIVISOR = 256, SEED_COUNT = 1, OTHER_COUNT = 1, FIRST_PERCENT = 2 };
#elif defined(TEST_HAS_ADDRESS_SANITIZER)
enum { SIZE_DIVISOR = 16, SEED_COUNT = 2, OTHER_COUNT = 2, FIRST_PERCENT = 0 };
#else
enum { SIZE_DIVISOR = 8, SEED_COUNT = 3, OTHER_COUNT = 4, FIRST_PERCENT = 0 };
#endif

static dao_step_trace_t trace;
static dao_step_figures_t figures;

static int read_scaled(const char *path, uint64_t divisor)
{
    if (dao_read_json_step(path, NULL, &trace) != DAO_OK) {
        (void)fprintf(stderr, "%s\n", dao_last_message());
        return 1;
    }
    for (size_t i = 0; i < trace.tensor_count; i++) {
        trace.tensors[i].size_bytes = (trace.tensors[i].size_bytes + divisor - 1) / divisor;
    }
    for (size_t i = 0; i < trace.temporary_count; i++) {
        trace.temporaries[i].size_bytes = (trace.temporaries[i].size_bytes + divisor - 1) / divisor;
    }
    return dao_step_trace_pack(&trace) != DAO_OK || dao_step_trace_figures(&trace, &figures) != DAO_OK;
}

static int read_example(void)
{
    return read_scaled(DAO_TEST_TRACE, SIZE_DIVISOR);
}

static int forget_example(void)
{
    dao_step_trace_finish(&trace);
    return 0;
}

static uint64_t capacity_at(unsigned percent)
{
    uint64_t bytes = figures.peak_bytes / 100 * percent;
    return bytes < figures.largest_work_bytes ? figures.largest_work_bytes : bytes;
}

/* Runs the example and expects every word to be right. */
static dao_run_result_t run(dao_run_config_t config)
{
    dao_run_result_t result = {0};
    config.is_read_back = true;
    dao_status_t status = dao_run_step(&config, &trace, &result);
    if (status != DAO_OK || result.mismatch_count > 0 || result.unlimited_mismatch_count > 0) {
        (void)printf("    policy %s, capacity %" PRIu64 ", mode %d: %s: %s%s\n",
                     dao_policy_name(config.policy), config.capacity_bytes, config.mode,
                     dao_status_name(status), status != DAO_OK ? dao_last_message() : "",
                     result.first_mismatch);
        CU_FAIL("a run");
    }
    if (status == DAO_OK) {
        CU_ASSERT_EQUAL(result.stats.kernel_count, trace.operator_count);
        CU_ASSERT_TRUE(config.keeps_streams || result.stream_count == 1);
        CU_ASSERT_EQUAL(result.temporary_count, trace.temporary_count);
        CU_ASSERT_TRUE(result.verified_count > trace.operator_count);
        CU_ASSERT_TRUE(result.stats.peak_device_used_bytes <= config.capacity_bytes);
    }
    return result;
}

static void no_word_is_wrong_at_any_capacity_under_any_policy(void)
{
    static const unsigned percents[] = {90, 70, 50, 0};
    for (int policy = 0; policy < DAO_POLICY_USER; policy++) {
        for (size_t i = FIRST_PERCENT; i < sizeof(percents) / sizeof(percents[0]); i++) {
            dao_run_config_t config = {.capacity_bytes = capacity_at(percents[i]),
                                       .policy = (dao_policy_t)policy,
                                       .is_walked = TEST_WALKS && i == 2 && policy % 2 == 1,
                                       .is_without_comparison = true};
            dao_run_result_t result = run(config);
            CU_ASSERT_TRUE(percents[i] > 70 || result.stats.eviction_count > 0);
        }
    }
}

static void the_run_to_compare_with_moves_nothing(void)
{
    dao_run_config_t config = {.capacity_bytes = capacity_at(70), .policy = DAO_POLICY_BELADY};
    dao_run_result_t result = run(config);
    CU_ASSERT_TRUE(result.unlimited_ns > 0);
    config.capacity_bytes = 2 * figures.rounded_bytes + 2 * figures.largest_work_bytes;
    config.is_without_comparison = true;
    result = run(config);
    CU_ASSERT_EQUAL(result.stats.eviction_count, 0);
    CU_ASSERT_EQUAL(result.stats.out_bytes, 0);
}

static void the_queue_gives_the_same_content(void)
{
    static const dao_policy_t policies[] = {DAO_POLICY_LRU, DAO_POLICY_BELADY, DAO_POLICY_WINDOW};
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        dao_run_config_t config = {.capacity_bytes = capacity_at(50),
                                   .policy = policies[i],
                                   .mode = DAO_RUN_MODE_QUEUE,
                                   .is_without_comparison = true};
        (void)run(config);
    }
}

#if !defined(                                                                                                \
    TEST_HAS_SANITIZER) /* nearly all of it is a search, by one thread, which other suites have there */

/* The first run of a step that is planned before follows its plan. */
static void a_described_step_follows_its_plan(void)
{
    for (unsigned percent = 40; percent <= 80; percent += 40) {
        dao_run_config_t config = {.capacity_bytes = capacity_at(percent),
                                   .is_planned_first = true,
                                   .is_walked = TEST_WALKS && percent == 40,
                                   .is_without_comparison = true};
        dao_run_result_t result = run(config);
        CU_ASSERT_EQUAL(result.stats.plan_count, 1);
        CU_ASSERT_EQUAL(result.stats.plan_hit_count, 1);
        CU_ASSERT_TRUE(result.stats.in_bytes > 0);
    }
}

#endif

/* The step takes at least as long as its copies in either direction, and as its operators. */
static void links_of_limited_speed_change_nothing_but_time(void)
{
    const uint64_t in_rate = 2000 * MIB;
    const uint64_t out_rate = 1000 * MIB;
    dao_run_config_t config = {.capacity_bytes = capacity_at(50),
                               .policy = DAO_POLICY_BELADY,
                               .link_in_bytes_per_second = in_rate,
                               .link_out_bytes_per_second = out_rate,
                               .time_scale = 0.01,
                               .is_without_comparison = true};
    dao_run_result_t result = run(config);
    CU_ASSERT_TRUE((double)result.step_ns >= (double)result.stats.in_bytes * 1e9 / (double)in_rate);
    CU_ASSERT_TRUE((double)result.step_ns >= (double)result.stats.out_bytes * 1e9 / (double)out_rate);
    CU_ASSERT_TRUE((double)result.step_ns >= 0.0099 * (double)figures.cost_ns);
    config.time_scale = 0;
    config.link_in_bytes_per_second = in_rate / 50;
    result = run(config);
    CU_ASSERT_TRUE((double)result.step_ns >= (double)result.stats.in_bytes * 1e9 / (double)in_rate * 50);
}

static void a_file_takes_what_pinned_memory_does_not(void)
{
    dao_run_config_t config = {.capacity_bytes = capacity_at(50),
                               .policy = DAO_POLICY_BELADY,
                               .host_bytes = figures.peak_bytes / 10,
                               .file = {.directory = "/tmp"},
                               .is_without_comparison = true};
    dao_run_result_t result = run(config);
    CU_ASSERT_TRUE(result.stats.file_out_bytes > 0);
    CU_ASSERT_TRUE(result.stats.file_in_bytes > 0);
    CU_ASSERT_TRUE(result.stats.peak_host_used_bytes <= config.host_bytes);
}

static void content_goes_through_pinned_memory_as_well(void)
{
    dao_run_config_t config = {.capacity_bytes = capacity_at(50),
                               .policy = DAO_POLICY_BELADY,
                               .is_staged = true,
                               .is_without_comparison = true};
    (void)run(config);
    config.mode = DAO_RUN_MODE_QUEUE;
    config.policy = DAO_POLICY_SIZE;
    (void)run(config);
}

static void less_than_one_operator_is_refused_by_name(void)
{
    dao_run_config_t config = {.capacity_bytes = figures.largest_work_bytes - 1};
    dao_run_result_t result;
    char wanted[64];
    (void)snprintf(wanted, sizeof(wanted), "operator %" PRIu32 " \"", figures.largest_operator);
    CU_ASSERT_EQUAL(dao_run_step(&config, &trace, &result), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), wanted));
}

static void a_host_that_is_full_is_an_answer(void)
{
    dao_run_config_t config = {.capacity_bytes = capacity_at(50), .host_bytes = 64 * KIB};
    dao_run_result_t result;
    CU_ASSERT_EQUAL(dao_run_step(&config, &trace, &result), DAO_ERR_HOST_FULL);
}

static void random_delays_change_no_content(void)
{
    uint64_t first = dao_test_seed("random delays change no content", 5);
    for (uint64_t seed = first; seed < first + SEED_COUNT; seed++) {
        for (int mode = DAO_RUN_MODE_STEP; mode <= DAO_RUN_MODE_QUEUE; mode++) {
            fault_config_t delays = {
                .seed = seed, .delay_ns_max = 100000, .not_ready_max = 3, .hide_host_access = seed % 3 == 2};
            dao_run_config_t config = {.capacity_bytes = capacity_at(seed % 2 == 0 ? 50 : 35),
                                       .policy = (dao_policy_t)(seed % DAO_POLICY_USER),
                                       .mode = (dao_run_mode_t)mode,
                                       .is_without_comparison = true,
                                       .ops = fault_backend_wrap(dao_backend_ops(), &delays)};
            (void)run(config);
            CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
        }
    }
}

/* Puts operators on so many streams, whose numbers are any; 1: all on one. */
static void spread(uint64_t seed, uint32_t stream_count)
{
    for (size_t i = 0; i < trace.operator_count; i++) {
        trace.operators[i].stream = 7 * (uint32_t)dao_random_below(&seed, stream_count);
    }
}

/* A tensor that several streams use is where each of them needs it, in the order of the step. */
static void operators_on_the_streams_of_the_trace_compute_the_same(void)
{
    uint64_t first = dao_test_seed("operators on the streams of the trace compute the same", 5);
    for (uint64_t seed = first; seed < first + SEED_COUNT; seed++) {
        fault_config_t delays = {
            .seed = seed, .delay_ns_max = 100000, .not_ready_max = 3, .hide_host_access = seed % 3 == 2};
        dao_run_config_t config = {.capacity_bytes = capacity_at(seed % 2 == 0 ? 50 : 35),
                                   .policy = (dao_policy_t)(seed % DAO_POLICY_USER),
                                   .mode = seed % 2 == 0 ? DAO_RUN_MODE_QUEUE : DAO_RUN_MODE_STEP,
                                   .keeps_streams = true,
                                   .is_without_comparison = true,
                                   .ops = fault_backend_wrap(dao_backend_ops(), &delays)};
        uint32_t stream_count = 2 + (uint32_t)(seed % (DAO_EXECUTOR_STREAM_COUNT_MAX - 1));
        spread(seed, stream_count);
        CU_ASSERT_EQUAL(run(config).stream_count, stream_count);
        CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
    }
    spread(first, 1);
}

static void more_streams_than_an_executor_has_are_refused_by_name(void)
{
    dao_run_config_t config = {
        .capacity_bytes = capacity_at(50), .keeps_streams = true, .is_without_comparison = true};
    dao_run_result_t result;
    for (uint32_t i = 0; i <= DAO_EXECUTOR_STREAM_COUNT_MAX; i++) {
        trace.operators[i].stream = i;
    }
    CU_ASSERT_EQUAL(dao_run_step(&config, &trace, &result), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "operator 4 "));
    spread(0, 1);
}

/* The traces beside the project, where they are, with tiny sizes: the order of things is what counts. */
static void other_steps_are_right_as_well(void)
{
    static const char *const names[] = {"resnet50", "moe", "lstm", "gpt2_small"};
    for (size_t i = 0; i < OTHER_COUNT; i++) {
        char path[512];
        if (!dao_test_shared_trace(names[i], path, sizeof(path))) {
            (void)printf("    no %s here: not run\n", names[i]);
            continue;
        }
        forget_example();
        CU_ASSERT_EQUAL_FATAL(read_scaled(path, 4 * SIZE_DIVISOR), 0);
        dao_run_config_t config = {
            .capacity_bytes = capacity_at(50), .policy = DAO_POLICY_BELADY, .is_without_comparison = true};
        (void)run(config);
    }
    forget_example();
    CU_ASSERT_EQUAL_FATAL(read_example(), 0);
}

static CU_TestInfo tests[] = {
    {"no word is wrong at any capacity under any policy", no_word_is_wrong_at_any_capacity_under_any_policy},
    {"the run to compare with moves nothing", the_run_to_compare_with_moves_nothing},
    {"the queue gives the same content", the_queue_gives_the_same_content},
#if !defined(TEST_HAS_SANITIZER)
    {"a described step follows its plan", a_described_step_follows_its_plan},
#endif
    {"links of limited speed change nothing but time", links_of_limited_speed_change_nothing_but_time},
    {"a file takes what pinned memory does not", a_file_takes_what_pinned_memory_does_not},
    {"content goes through pinned memory as well", content_goes_through_pinned_memory_as_well},
    {"less than one operator is refused by name", less_than_one_operator_is_refused_by_name},
    {"a host that is full is an answer", a_host_that_is_full_is_an_answer},
    {"operators on the streams of the trace compute the same",
     operators_on_the_streams_of_the_trace_compute_the_same},
    {"more streams than an executor has are refused by name",
     more_streams_than_an_executor_has_are_refused_by_name},
    {"other steps are right as well", other_steps_are_right_as_well},
    {"random delays change no content", random_delays_change_no_content},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"run", read_example, forget_example, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
