/* SPDX-License-Identifier: Apache-2.0 */
/* Planned steps for real: no word is ever wrong, at any capacity, on threads, in virtual time, and with
   commands held back by seeds. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "backends/sim/sim.h"
#include "base/report/fault.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/models/trace.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"
#include "tools/read/step/read_json_step.h"
#include "tools/run/run_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A part of the example, with small tensors: every structure of the planner is checked in most builds.
   Planning takes longest under ThreadSanitizer, and has one thread, whatever it plans: a plan of little
   memory, in which most is copied, has all threads. */
#if defined(TEST_HAS_THREAD_SANITIZER)
enum { OPERATORS_HERE = 150, HOST_BYTES = 1 << 14, PART_MOST = 0 };
#else
enum { OPERATORS_HERE = 300, HOST_BYTES = 1 << 16, PART_MOST = 2 };
#endif
enum { SIZE_DIVISOR = 64, STEP_COUNT = 4, LATENCY_NS = 2000000 };
enum { CAPACITY_COUNT = TEST_ROUNDS(2), BAD_COUNT = TEST_ROUNDS(3) };

static dao_step_trace_t trace;
static dao_step_figures_t figures;

static int read_example(void)
{
    if (dao_read_json_step(DAO_TEST_TRACE, NULL, &trace) != DAO_OK) {
        return 1;
    }
    for (size_t i = 0; i < trace.tensor_count; i++) {
        trace.tensors[i].size_bytes = (trace.tensors[i].size_bytes + SIZE_DIVISOR - 1) / SIZE_DIVISOR;
    }
    for (size_t i = 0; i < trace.temporary_count; i++) {
        trace.temporaries[i].size_bytes = (trace.temporaries[i].size_bytes + SIZE_DIVISOR - 1) / SIZE_DIVISOR;
    }
    trace.operator_count = OPERATORS_HERE;
    return dao_step_trace_pack(&trace) != DAO_OK || dao_step_trace_figures(&trace, &figures) != DAO_OK;
}

static int forget_example(void)
{
    dao_step_trace_finish(&trace);
    return 0;
}

/* What runs the steps, and where evicted bytes go. */
typedef struct place {
    const dao_backend_ops_t *ops;
    uint64_t host_bytes; /* 0: no limit; else there is a file behind it */
    bool keeps_streams;
} place_t;

static dao_run_plan_config_t config_of(uint64_t capacity_bytes, place_t place)
{
    dao_run_plan_config_t config = {.plan_work = 1, /* what bettering a plan brings is not asked here */
                                    .capacity_bytes = capacity_bytes,
                                    .step_count = STEP_COUNT,
                                    .host_bytes = place.host_bytes,
                                    .keeps_streams = place.keeps_streams,
                                    .ops = place.ops};
    if (place.host_bytes != 0) {
        config.file.directory = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    }
    return config;
}

static void run_at(uint64_t capacity_bytes, place_t place, bool is_roomy)
{
    dao_run_plan_config_t config = config_of(capacity_bytes, place);
    dao_run_plan_result_t result = {0};
    dao_status_t status = dao_run_plan(&config, &trace, &result);
    if (status != DAO_OK || result.mismatch_count > 0) {
        (void)printf("    capacity %" PRIu64 ": %s: %s%s\n", capacity_bytes, dao_status_name(status),
                     status != DAO_OK ? dao_last_message() : "", result.first_mismatch);
    }
    CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
    CU_ASSERT_EQUAL(result.mismatch_count, 0);
    CU_ASSERT_TRUE(result.verified_count >= (uint64_t)STEP_COUNT * OPERATORS_HERE);
    CU_ASSERT_TRUE(!is_roomy || result.in_bytes == 0);
    bool is_least = capacity_bytes == figures.largest_work_bytes; /* more than the host takes has to leave */
    CU_ASSERT_TRUE(place.host_bytes != 0 ? !is_least || result.file_in_bytes > 0 : result.file_in_bytes == 0);
    CU_ASSERT_TRUE(place.keeps_streams || result.bound.step_ns >= result.compute_ns);
    CU_ASSERT_TRUE(result.bound.step_ns > 0 && result.step_ns > 0);
}

/* Enough for everything with its rounding, and down to what the largest operator needs. */
static void at_all_capacities(place_t place)
{
    uint64_t least_bytes = figures.largest_work_bytes;
    uint64_t most_bytes = figures.rounded_bytes;
    run_at(2 * most_bytes, place, true);
    for (int part = PART_MOST; part >= 0; part--) {
        run_at(least_bytes + (most_bytes - least_bytes) / 3 * (uint64_t)part, place, false);
    }
}

static void no_word_is_wrong_on_threads(void)
{
    at_all_capacities((place_t){.ops = NULL});
}

#if !defined(TEST_HAS_THREAD_SANITIZER) /* virtual time has one thread */
static void no_word_is_wrong_in_virtual_time(void)
{
    at_all_capacities((place_t){.ops = &dao_sim_bytes_backend_ops});
}
#endif

static void no_word_is_wrong_when_commands_are_held_back(void)
{
    for (uint64_t seed = 1; seed <= 2; seed++) {
        fault_config_t delays = {
            .seed = seed, .delay_ns_max = 50000, .not_ready_max = 3, .hide_host_access = seed == 2};
        place_t place = {.ops = fault_backend_wrap(dao_backend_ops(), &delays),
                         .host_bytes = seed == 2 ? HOST_BYTES : 0};
        run_at(figures.largest_work_bytes, place, false);
        CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
    }
}

/* Operators on three streams, which wait for each other as the plan says, whoever is late. */
static void no_word_is_wrong_on_several_streams(void)
{
    for (size_t i = 0; i < trace.operator_count; i++) {
        trace.operators[i].stream = (uint32_t)(i * i % 7 % 3);
    }
    run_at(figures.largest_work_bytes, (place_t){.keeps_streams = true}, false);
    fault_config_t delays = {.seed = 3, .delay_ns_max = 50000, .not_ready_max = 3, .hide_host_access = true};
    place_t late = {.ops = fault_backend_wrap(dao_backend_ops(), &delays), .keeps_streams = true};
    run_at(figures.largest_work_bytes, late, false);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
    for (size_t i = 0; i < trace.operator_count; i++) {
        trace.operators[i].stream = 0;
    }
}

/* A host with little room, and a file behind it. */
static void no_word_is_wrong_with_a_file(void)
{
    uint64_t least_bytes = figures.largest_work_bytes;
    run_at(least_bytes, (place_t){.host_bytes = HOST_BYTES}, false);
#if !defined(TEST_HAS_THREAD_SANITIZER)
    for (uint64_t part = 0; part < CAPACITY_COUNT; part++) {
        run_at(least_bytes + (figures.rounded_bytes - least_bytes) / 3 * part,
               (place_t){.ops = &dao_sim_bytes_backend_ops, .host_bytes = HOST_BYTES}, false);
    }
#endif
}

/* A piece takes what the transfer takes, and then what the copy does. */
static void a_piece_of_the_file_takes_a_transfer_and_a_copy(void)
{
    dao_run_plan_config_t config = config_of(2 * figures.rounded_bytes, (place_t){.host_bytes = HOST_BYTES});
    dao_run_plan_result_t result = {.step_ns = 0};
    config.file.latency_ns = LATENCY_NS;
    CU_ASSERT_EQUAL_FATAL(setenv("DAO_CPU_COPY_LATENCY_NS", "2ms", 1), 0);
    CU_ASSERT_EQUAL(dao_run_plan(&config, &trace, &result), DAO_OK);
    CU_ASSERT_EQUAL(unsetenv("DAO_CPU_COPY_LATENCY_NS"), 0);
    CU_ASSERT_TRUE(result.file.latency_ns >= result.link.latency_ns + LATENCY_NS);
}

#if defined(DAO_FAULTS)

/* A transfer that fails ends the run with the disk's reason, whenever it is. */
static void a_bad_disk_is_told(void)
{
    static const dao_fault_t points[] = {DAO_FAULT_FILE_WRITE, DAO_FAULT_FILE_READ};
    for (int i = 0; i < 2; i++) {
        for (uint64_t skip = 0; skip < BAD_COUNT * 100; skip += 100) {
            dao_run_plan_config_t config =
                config_of(figures.largest_work_bytes,
                          (place_t){.ops = &dao_sim_bytes_backend_ops, .host_bytes = HOST_BYTES});
            dao_run_plan_result_t result;
            dao_fault_arm(points[i], skip, true);
            CU_ASSERT_EQUAL(dao_run_plan(&config, &trace, &result), DAO_ERR_IO);
            CU_ASSERT_TRUE(dao_fault_disarm() > 0);
        }
    }
}

#endif

/* The executor comes to a plan by itself, on threads: how soon is not said. */
static void no_word_is_wrong_in_steps_that_are_learnt(void)
{
    uint64_t least_bytes = figures.largest_work_bytes;
    for (uint64_t part = 0; part < CAPACITY_COUNT; part++) {
        dao_run_config_t config = {.capacity_bytes =
                                       least_bytes + (figures.rounded_bytes - least_bytes) / 3 * part,
                                   .mode = DAO_RUN_MODE_LEARN,
                                   .policy = DAO_POLICY_BELADY,
                                   .is_walked = TEST_WALKS && part == 1,
                                   .is_without_comparison = true};
        dao_run_result_t result = {0};
        CU_ASSERT_EQUAL_FATAL(dao_run_step(&config, &trace, &result), DAO_OK);
        CU_ASSERT_EQUAL(result.mismatch_count, 0);
        CU_ASSERT_EQUAL(result.stats.plan_count, 1);
        /* The last step may go without, where three with the plan were slower than one without. */
        CU_ASSERT_TRUE(result.stats.plan_dropped_count <= 1);
        CU_ASSERT_TRUE(result.stats.plan_hit_count + result.stats.plan_dropped_count >=
                       DAO_RUN_ENTER_STEPS + DAO_RUN_FOLLOW_STEPS);
        CU_ASSERT_EQUAL(result.stats.deviation_count, 0);
        CU_ASSERT_EQUAL(result.stats.kernel_count, OPERATORS_HERE);
        /* On threads a step may be measured in vain, if one waits too long. */
        CU_ASSERT_EQUAL(result.stats.bound_ns > 0, result.stats.forecast_ns > 0);
    }
}

static void what_cannot_be_planned_is_refused(void)
{
    dao_run_plan_config_t config = {.capacity_bytes = figures.largest_work_bytes - 256};
    dao_run_plan_result_t result;
    CU_ASSERT_EQUAL(dao_run_plan(&config, &trace, &result), DAO_ERR_KERNEL_TOO_LARGE);
    config.step_count = 1;
    CU_ASSERT_EQUAL(dao_run_plan(&config, &trace, &result), DAO_ERR_INVALID);
}

static CU_TestInfo tests[] = {
    {"no word is wrong on threads", no_word_is_wrong_on_threads},
#if !defined(TEST_HAS_THREAD_SANITIZER)
    {"no word is wrong in virtual time", no_word_is_wrong_in_virtual_time},
#endif
    {"no word is wrong when commands are held back", no_word_is_wrong_when_commands_are_held_back},
    {"no word is wrong on several streams", no_word_is_wrong_on_several_streams},
    {"no word is wrong with a file", no_word_is_wrong_with_a_file},
    {"a piece of the file takes a transfer and a copy", a_piece_of_the_file_takes_a_transfer_and_a_copy},
#if defined(DAO_FAULTS)
    {"a bad disk is told", a_bad_disk_is_told},
#endif
    {"no word is wrong in steps that are learnt", no_word_is_wrong_in_steps_that_are_learnt},
    {"what cannot be planned is refused", what_cannot_be_planned_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"planned steps", read_example, forget_example, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
