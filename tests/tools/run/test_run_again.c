/* SPDX-License-Identifier: Apache-2.0 */
/* Learnt steps in which operators run again: every run finds what the first one found. */
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"
#include "tools/base/progress.h"
#include "tools/run/run_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Layers of a chain, forwards and backwards, with a weight that the backward run changes. To copy a tensor
   takes hundreds of times as long as to make it. */
enum { LAYERS = 10, TENSOR_BYTES = 50000, CAPACITY_BYTES = 6 * 51200, LINK_BYTES_PER_S = 10 * 1000 * 1000 };

static dao_step_trace_t trace;

static dao_status_t add_operator_to(dao_step_trace_t *to, const char *name, const uint32_t *inputs,
                                    int input_count)
{
    dao_status_t status = dao_step_trace_add_operator(to, name);
    for (int i = 0; status == DAO_OK && i < input_count; i++) {
        status = dao_step_trace_add_input(to, inputs[i]);
    }
    return status;
}

static dao_status_t add_operator(const char *name, const uint32_t *inputs, int input_count)
{
    return add_operator_to(&trace, name, inputs, input_count);
}

static dao_status_t build(void)
{
    uint32_t weight, layers[LAYERS];
    dao_status_t status = dao_step_trace_add_tensor(&trace, "weight", TENSOR_BYTES, &weight);
    for (uint32_t i = 0; status == DAO_OK && i < LAYERS; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "a%" PRIu32, i);
        status = dao_step_trace_add_tensor(&trace, id, TENSOR_BYTES, &layers[i]);
    }
    for (uint32_t i = 0; status == DAO_OK && i < LAYERS; i++) {
        uint32_t inputs[] = {weight, i > 0 ? layers[i - 1] : 0};
        status = add_operator("forwards", inputs, i > 0 ? 2 : 1);
        status = status == DAO_OK ? dao_step_trace_add_output(&trace, layers[i]) : status;
        trace.operators[trace.operator_count - 1].is_pure = true;
    }
    for (uint32_t i = LAYERS; status == DAO_OK && i-- > 0;) {
        status = add_operator("backwards", &layers[i], 1);
        if (status == DAO_OK && i == 0) {
            status = dao_step_trace_add_mutate(&trace, weight);
        }
        status = status == DAO_OK ? dao_step_trace_add_release(&trace, layers[i]) : status;
        trace.operators[trace.operator_count - 1].is_pure = false;
    }
    return status == DAO_OK ? dao_step_trace_pack(&trace) : status;
}

static int build_trace(void)
{
    dao_step_trace_init(&trace);
    dao_status_t status = build();
    if (status != DAO_OK) {
        (void)printf("%s: %s\n", dao_status_name(status), dao_last_message());
    }
    return status != DAO_OK;
}

static int forget_trace(void)
{
    dao_step_trace_finish(&trace);
    return 0;
}

static dao_run_config_t config_of(uint64_t capacity_bytes)
{
    return (dao_run_config_t){.capacity_bytes = capacity_bytes,
                              .link_in_bytes_per_second = LINK_BYTES_PER_S,
                              .link_out_bytes_per_second = LINK_BYTES_PER_S,
                              .mode = DAO_RUN_MODE_LEARN,
                              .policy = DAO_POLICY_BELADY,
                              .is_read_back = true,
                              .is_walked = TEST_WALKS,
                              .is_without_comparison = true};
}

static dao_run_result_t run_trace(dao_run_config_t config, const dao_step_trace_t *run)
{
    dao_run_result_t result = {0};
    CU_ASSERT_EQUAL_FATAL(dao_run_step(&config, run, &result), DAO_OK);
    CU_ASSERT_EQUAL(result.mismatch_count, 0);
    if (result.mismatch_count > 0) {
        (void)printf("    %s\n", result.first_mismatch);
    }
    CU_ASSERT_EQUAL(result.stats.kernel_count, run->operator_count);
    return result;
}

static dao_run_result_t run_config(dao_run_config_t config)
{
    return run_trace(config, &trace);
}

static dao_run_result_t run(uint64_t capacity_bytes, bool runs_again, bool is_repeat_checked)
{
    dao_run_config_t config = config_of(capacity_bytes);
    config.runs_again = runs_again;
    config.is_repeat_checked = is_repeat_checked;
    return run_config(config);
}

static void what_runs_again_finds_what_it_found(void)
{
    dao_run_result_t copied = run(CAPACITY_BYTES, false, false), again = run(CAPACITY_BYTES, true, false);
    (void)printf("    %" PRIu64 " run again; %" PRIu64 " bytes in, %" PRIu64 " without\n",
                 again.stats.again_count, again.stats.in_bytes, copied.stats.in_bytes);
    CU_ASSERT_EQUAL(copied.stats.again_count, 0);
    CU_ASSERT(again.stats.again_count > 0);
    CU_ASSERT(again.stats.in_bytes < copied.stats.in_bytes);
    CU_ASSERT(again.verified_count > copied.verified_count);
}

/* Each of the layers reads the weight, and all but the first one the layer before. */
static void what_may_run_again_is_run_twice(void)
{
    enum {
        ALL_BYTES = 2 * LAYERS * TENSOR_BYTES,
        STEPS = DAO_RUN_LEARN_STEPS + DAO_RUN_ENTER_STEPS + DAO_RUN_FOLLOW_STEPS,
        READS = 2 * LAYERS - 1
    };
    dao_run_result_t once = run(ALL_BYTES, true, false), twice = run(ALL_BYTES, true, true);
    CU_ASSERT_EQUAL(once.stats.again_count, 0);
    CU_ASSERT_EQUAL(twice.stats.again_count, 0);
    CU_ASSERT_EQUAL(twice.verified_count, once.verified_count + (uint64_t)STEPS * READS);
}

/* All that leaves is made again. Where nothing may be, there is no such plan. */
static void without_copies_all_that_left_runs_again(void)
{
    dao_run_config_t config = config_of(CAPACITY_BYTES);
    config.runs_again = config.copies_nothing = true;
    dao_run_result_t result = run_config(config);
    CU_ASSERT(result.stats.again_count > 0);
    CU_ASSERT_EQUAL(result.stats.plan_count, 1);
    CU_ASSERT_EQUAL(result.stats.plan_dropped_count, 0);
    CU_ASSERT_EQUAL(result.stats.in_bytes, 0);
    CU_ASSERT_EQUAL(result.stats.out_bytes, 0);
    config.runs_again = false;
    CU_ASSERT_EQUAL(dao_run_step(&config, &trace, &result), DAO_ERR_LIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "without copies"));
}

/* Runs again are no part of what is to be done. */
static void progress_ends_where_it_should(void)
{
    dao_run_config_t config = config_of(CAPACITY_BYTES);
    config.runs_again = config.copies_nothing = true;
    config.is_read_back = false; /* the steps are the last phase */
    dao_progress_start();
    dao_run_result_t result = run_config(config);
    uint64_t done = dao_progress_done();
    dao_progress_stop();
    CU_ASSERT(result.stats.again_count > 0);
    CU_ASSERT_EQUAL(done, (uint64_t)(DAO_RUN_LEARN_STEPS + DAO_RUN_ENTER_STEPS + DAO_RUN_FOLLOW_STEPS) *
                              trace.operator_count);
}

enum { WEIGHT, SMALL, LARGE, OTHER, TENSORS };

/* `small` is made of the weight and released when `large` has been made of it; then the weight changes. */
static dao_status_t build_held(dao_step_trace_t *held)
{
    static const char *const names[TENSORS] = {"weight", "small", "large", "other"};
    static const struct {
        uint32_t reads, writes; /* TENSORS: none; both the same: changed in place */
    } operators[] = {{WEIGHT, SMALL},  {SMALL, LARGE},   {WEIGHT, WEIGHT},
                     {TENSORS, OTHER}, {OTHER, TENSORS}, {LARGE, TENSORS}};
    uint32_t ids[TENSORS];
    dao_status_t status = DAO_OK;
    for (uint32_t t = 0; status == DAO_OK && t < TENSORS; t++) {
        uint64_t bytes = t == LARGE || t == OTHER ? 10 * TENSOR_BYTES : TENSOR_BYTES;
        status = dao_step_trace_add_tensor(held, names[t], bytes, &ids[t]);
    }
    for (uint32_t i = 0; status == DAO_OK && i < sizeof(operators) / sizeof(operators[0]); i++) {
        uint32_t reads = operators[i].reads, writes = operators[i].writes;
        bool changes = reads == writes, reads_only = reads < TENSORS && !changes;
        status = add_operator_to(held, "operator", reads_only ? &ids[reads] : NULL, reads_only ? 1 : 0);
        held->operators[held->operator_count - 1].is_pure = reads_only && writes < TENSORS;
        if (status == DAO_OK && changes) {
            status = dao_step_trace_add_mutate(held, ids[writes]);
        } else if (status == DAO_OK && writes < TENSORS) {
            status = dao_step_trace_add_output(held, ids[writes]);
        }
        if (status == DAO_OK && reads_only && reads != WEIGHT) {
            status = dao_step_trace_add_release(held, ids[reads]);
        }
    }
    return status == DAO_OK ? dao_step_trace_pack(held) : status;
}

/* What the program has released is there for a run behind that. */
static void what_was_released_is_held_for_a_run_again(void)
{
    dao_step_trace_t held;
    dao_step_trace_init(&held);
    CU_ASSERT_EQUAL_FATAL(build_held(&held), DAO_OK);
    dao_run_config_t config = config_of(14 * TENSOR_BYTES);
    config.runs_again = true;
    dao_run_result_t result = run_trace(config, &held);
    CU_ASSERT(result.stats.again_count > 0);
    CU_ASSERT_EQUAL(result.stats.in_bytes, 0);
    CU_ASSERT_EQUAL(result.stats.plan_dropped_count, 0);
    dao_step_trace_finish(&held);
}

static CU_TestInfo tests[] = {
    {"what may run again is run twice where that is checked", what_may_run_again_is_run_twice},
    {"what runs again finds what it found", what_runs_again_finds_what_it_found},
    {"without copies all that left runs again", without_copies_all_that_left_runs_again},
    {"progress ends where it should", progress_ends_where_it_should},
    {"what was released is held for a run again", what_was_released_is_held_for_a_run_again},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"run again", build_trace, forget_trace, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
