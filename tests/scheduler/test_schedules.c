/* SPDX-License-Identifier: Apache-2.0 */
/* Small programs of two to four threads under many schedules: contents, books and no thread that waits for
   ever. A failure prints its seed; DAO_TEST_SEED begins there, and leaves out the defects on purpose.
   DAO_TEST_SEEDS says how many seeds each program has. */
#include "base/threads/sync.h"
#include "tests/scheduler/harness_program.h"
#include "tests/scheduler/memory_program.h"
#include "tests/scheduler/runtime_program.h"
#include "tests/scheduler/search.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define MEMORY_SCENARIO(text, threads, ...)                                                                  \
    {                                                                                                        \
        .name = (text), .thread_count = (threads), .begin = memory_program_begin,                            \
        .part = memory_program_part, .end = memory_program_end,                                              \
        .program = &(const memory_program_t){__VA_ARGS__},                                                   \
    }

#define RUNTIME_SCENARIO(text, threads, prefix, first)                                                       \
    {                                                                                                        \
        .name = (text), .thread_count = (threads), .begin = (first), .part = prefix##_program_part,          \
        .end = prefix##_program_end                                                                          \
    }

#define HOST   .place = {DAO_PLACE_KIND_CPU, 0}
#define PINNED .place = {DAO_PLACE_KIND_PINNED, 0}
#define DEVICE .place = {DAO_PLACE_KIND_DEVICE, 0}

static const scenario_t scenarios[] = {
    MEMORY_SCENARIO("raw blocks of the host", 3, HOST, .calls = CALL(PUT) | CALL(TAKE), .call_count = 4,
                    .size_bytes = (size_t)200 << 10),
    MEMORY_SCENARIO("raw blocks of a device", 3, DEVICE, .calls = CALL(PUT) | CALL(TAKE), .call_count = 4,
                    .size_bytes = (size_t)4 << 20),
    MEMORY_SCENARIO("raw blocks in segments", 3, DEVICE, .config = {.no_page_mapping = true},
                    .calls = CALL(PUT) | CALL(TAKE) | CALL(TRIM), .call_count = 4,
                    .size_bytes = (size_t)4 << 20),
    MEMORY_SCENARIO("the first calls at a place", 3, DEVICE, .calls = CALL(PUT) | CALL(TAKE) | CALL(STATS),
                    .call_count = 2, .size_bytes = 8 * KIB, .comes_late = true),
    MEMORY_SCENARIO("small blocks", 3, DEVICE, .calls = CALL(PUT) | CALL(TAKE) | CALL(PASS), .call_count = 5,
                    .size_bytes = 300),
    MEMORY_SCENARIO("small blocks, trimmed", 3, HOST, .calls = CALL(PASS) | CALL(TRIM) | CALL(STATS),
                    .call_count = 4, .size_bytes = 100),
    MEMORY_SCENARIO("wrong frees of small blocks", 3, HOST, .calls = CALL(OWN) | CALL(WRONG),
                    .call_count = 12, .size_bytes = 100),
    MEMORY_SCENARIO("streams", 2, DEVICE, .calls = CALL(ORDER) | CALL(RECORD) | CALL(SYNC), .call_count = 3,
                    .size_bytes = 6 * KIB),
    MEMORY_SCENARIO("streams and plain blocks", 3, DEVICE,
                    .calls = CALL(ORDER) | CALL(PASS) | CALL(SYNC) | CALL(TRIM), .call_count = 3,
                    .size_bytes = (size_t)3 << 20),
    MEMORY_SCENARIO("streams in segments", 2, DEVICE, .config = {.no_page_mapping = true},
                    .calls = CALL(ORDER) | CALL(RECORD) | CALL(PASS), .call_count = 3,
                    .size_bytes = 64 * KIB),
    MEMORY_SCENARIO("books and snapshots", 3, DEVICE,
                    .calls = CALL(PUT) | CALL(TAKE) | CALL(STATS) | CALL(SNAPSHOT) | CALL(EVENTS) | CALL(TAG),
                    .call_count = 4, .size_bytes = 10 * KIB),
    MEMORY_SCENARIO("limits and trims", 3, DEVICE, .calls = CALL(PUT) | CALL(TAKE) | CALL(TRIM) | CALL(LIMIT),
                    .call_count = 4, .size_bytes = (size_t)3 << 20, .limit_bytes = (size_t)8 << 20),
    MEMORY_SCENARIO("callbacks when memory is short", 3, PINNED, .calls = CALL(PUT) | CALL(PASS) | CALL(TRIM),
                    .call_count = 3, .size_bytes = (size_t)3 << 20, .limit_bytes = (size_t)8 << 20,
                    .has_callback = true),
    MEMORY_SCENARIO("leases", 2, DEVICE, .calls = CALL(LEASE) | CALL(PASS) | CALL(TRIM), .call_count = 2,
                    .size_bytes = (size_t)1 << 20),
    MEMORY_SCENARIO("steps", 2, DEVICE, .config = {.step_plan = {.mode = DAO_STEP_PLAN_OFFSETS}},
                    .calls = CALL(STEP) | CALL(PASS), .call_count = 3, .size_bytes = 64 * KIB),
    MEMORY_SCENARIO("steps with deferred frees", 2, DEVICE,
                    .config = {.step_plan = {.mode = DAO_STEP_PLAN_OFFSETS,
                                             .worker = DAO_STEP_PLAN_WORKER_THREAD,
                                             .smallest_bytes = 1,
                                             .defers_frees = true}},
                    .calls = CALL(STEP) | CALL(PUT) | CALL(TAKE) | CALL(STATS), .call_count = 3,
                    .size_bytes = 64 * KIB),
    MEMORY_SCENARIO(
        "hardened", 3, DEVICE,
        .config = {.hardening = DAO_HARDENING_GUARD | DAO_HARDENING_QUARANTINE | DAO_HARDENING_CHECKSUM},
        .calls = CALL(PUT) | CALL(TAKE) | CALL(PASS) | CALL(TRIM), .call_count = 3, .size_bytes = 10 * KIB),
    MEMORY_SCENARIO("whole blocks", 3, DEVICE, .config = {.strategy = DAO_STRATEGY_SIZE_CLASS},
                    .calls = CALL(PUT) | CALL(TAKE) | CALL(TRIM) | CALL(STATS), .call_count = 4,
                    .size_bytes = (size_t)1 << 20),
    RUNTIME_SCENARIO("handles", 3, handle, handle_program_begin),
    RUNTIME_SCENARIO("an executor", 2, executor, executor_program_begin),
    RUNTIME_SCENARIO("an executor of more threads", 4, executor, executor_program_begin),
    RUNTIME_SCENARIO("starts and stops", 3, start, NULL),
    RUNTIME_SCENARIO("a stop among releases", 3, stop, stop_program_begin),
    RUNTIME_SCENARIO("forks", 3, fork, fork_program_begin),
    RUNTIME_SCENARIO("programs of the harness", 3, harness, harness_program_begin),
};

#define SCENARIO_COUNT (sizeof(scenarios) / sizeof(scenarios[0]))

/* Seeds of all scenarios together: 10,500 in dev and tsan. ThreadSanitizer takes 30 times as long. */
#if defined(TEST_HAS_THREAD_SANITIZER)
#define SEED_COUNT UINT64_C(1500)
#else
#define SEED_COUNT UINT64_C(9000)
#endif

static uint64_t number_of(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : fallback;
}

static void no_schedule_breaks(const scenario_t *scenario)
{
    search_t search = {.first_seed = number_of("DAO_TEST_SEED", 0),
                       .count =
                           number_of("DAO_TEST_SEEDS", (SEED_COUNT + SCENARIO_COUNT - 1) / SCENARIO_COUNT)};
    search_result_t result, again;
    search_run(scenario, &search, &result);
    printf("%s: %llu seeds from %llu, %llu events with a choice\n", scenario->name,
           (unsigned long long)result.run_count, (unsigned long long)search.first_seed,
           (unsigned long long)result.contended_count);
    CU_ASSERT_FALSE(result.has_found);
    if (result.has_found) {
        printf("repeat it by: DAO_TEST_SEED=%llu DAO_TEST_SEEDS=1 (status 0x%x)\n",
               (unsigned long long)result.found_seed, (unsigned)result.exit_status);
    }
    search.count = result.run_count < 4 ? result.run_count : 4;
    search.is_quiet = true;
    search_run(scenario, &search, &result);
    search_run(scenario, &search, &again);
    CU_ASSERT_EQUAL(result.hash, again.hash);
}

/* ---- defects on purpose ---- */

typedef struct known_defect {
    baton_defect_t defect;
    uint32_t rank;
    const char *scenario;
    uint64_t seed_count; /* it is found within */
} known_defect_t;

/* Each lock is dropped in turn, additions to counters are split, wakes are lost. */
static const known_defect_t known_defects[] = {
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_STEP_BOUNDARY, "steps", 1000},
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_CONTEXT, "the first calls at a place", 2000},
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_EXECUTOR, "an executor", 1000},
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_RUNTIME, "leases", 1000},
#if defined(TEST_HAS_THREAD_SANITIZER) /* under this lock there is no point at which another thread could    \
                                          run */
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_THREADS, "small blocks", 1000},
#endif
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_LAYER, "hardened", 1000},
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_STEP_PLAN, "steps with deferred frees", 3000},
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_FRONT, "small blocks", 1000},
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_ALLOCATOR, "whole blocks", 1000},
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_STREAM_FENCES, "streams", 1000},
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_BACKEND, "streams", 1000},
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_LEAF, "books and snapshots", 2000},
    {BATON_DEFECT_SPLIT_ADD, 0, "streams", 2000},
    {BATON_DEFECT_SPLIT_ADD, 0, "handles", 2000},
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_LAYER, "programs of the harness", 1000},
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_FRONT, "programs of the harness", 1000},
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_ALLOCATOR, "programs of the harness", 1000},
    {BATON_DEFECT_DROP_LOCK, DAO_RANK_STREAM_FENCES, "programs of the harness", 1000},
    {BATON_DEFECT_SPLIT_ADD, 0, "programs of the harness", 3000},
    {BATON_DEFECT_DROP_WAKE, 0, "an executor", 20},
    {BATON_DEFECT_DROP_WAKE, 0, "streams", 20},
};

static const scenario_t *scenario_named(const char *name)
{
    for (size_t i = 0; i < SCENARIO_COUNT; i++) {
        if (strcmp(scenarios[i].name, name) == 0) {
            return &scenarios[i];
        }
    }
    return NULL;
}

static void defects_on_purpose_are_found(void)
{
    for (size_t i = 0; i < sizeof(known_defects) / sizeof(known_defects[0]); i++) {
        const known_defect_t *known = &known_defects[i];
        search_t search = {
            .count = known->seed_count, .is_quiet = true, .defect = known->defect, .rank = known->rank};
        search_result_t result;
        search_run(scenario_named(known->scenario), &search, &result);
        printf("defect %d of rank %u in \"%s\": %s, %llu of %llu seeds\n", (int)known->defect, known->rank,
               known->scenario, result.has_found ? "found" : "NOT FOUND",
               (unsigned long long)result.run_count, (unsigned long long)known->seed_count);
        CU_ASSERT_TRUE(result.has_found);
    }
}

/* A case: the scenario of its name. */
static void no_schedule_breaks_it(void)
{
    no_schedule_breaks(scenario_named(CU_get_current_test()->pName));
}

int main(int argument_count, char **arguments)
{
    (void)argument_count;
    search_prepare(arguments);
    CU_TestInfo tests[SCENARIO_COUNT + 2] = {{NULL, NULL}};
    for (size_t i = 0; i < SCENARIO_COUNT; i++) {
        tests[i] = (CU_TestInfo){scenarios[i].name, no_schedule_breaks_it};
    }
    if (getenv("DAO_TEST_SEED") == NULL) {
        tests[SCENARIO_COUNT] = (CU_TestInfo){"defects on purpose are found", defects_on_purpose_are_found};
    }
    CU_SuiteInfo suites[] = {{"schedules", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
