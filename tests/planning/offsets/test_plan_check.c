/* SPDX-License-Identifier: Apache-2.0 */
/* What a problem of offset planning may be, and the check of plans, against a slow model. */
#include "base/report/error.h"
#include "base/report/fault.h"
#include "tests/support/models/plans.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROUND_COUNT 6000u

static dao_test_plan_t plan;

/* Two buffers of 4 bytes, alive together. */
static void make_pair(void)
{
    uint64_t random = 1;
    dao_test_plan_make(&plan, 0, 2, 1, &random);
    for (size_t i = 0; i < 2; i++) {
        plan.buffers[i].begin_time = 10 + i;
        plan.buffers[i].end_time = 20;
        plan.buffers[i].size_bytes = 4;
    }
}

static bool is_refused(dao_status_t expected, const char *part)
{
    const uint64_t offsets[DAO_TEST_PLAN_BUFFERS_MAX] = {0, 4};
    dao_status_t status = dao_plan_check(&plan.problem, offsets, NULL);
    bool is_as_expected = status == expected && strstr(dao_last_message(), part) != NULL;
    if (!is_as_expected) {
        (void)printf("    not \"%s\": %d \"%s\"\n", part, (int)status, dao_last_message());
    }
    return is_as_expected;
}

static void a_problem_that_is_wrong_is_refused_with_its_buffer(void)
{
    make_pair();
    plan.buffers[1].size_bytes = 0;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "buffer 1"));
    make_pair();
    plan.buffers[1].size_bytes = DAO_PLAN_SIZE_MAX + 1;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "buffer 1"));
    make_pair();
    plan.buffers[0].end_time = plan.buffers[0].begin_time;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "buffer 0"));
    make_pair();
    plan.buffers[0].alignment_bytes = 3;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "alignment 3"));
    make_pair();
    plan.problem.alignment_bytes = 24;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "alignment 24"));
    make_pair();
    plan.buffers[1].pool = 1;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "pool 1"));
    make_pair();
    plan.buffers[1].alignment_bytes = 8;
    plan.buffers[1].fixed_offset = 4;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "fixed at 4"));
    make_pair();
    plan.problem.period = 15;
    plan.buffers[0].end_time = 26;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "period of 15"));
    make_pair();
    plan.problem.period =
        DAO_PLAN_PERIOD_MAX + 1; /* a life may reach beyond it, and its margin beyond 2^64 */
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "a period of 4611686018427387905"));
    make_pair();
    plan.problem.buffers = NULL;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "NULL"));
    make_pair();
    plan.problem.pool_count = DAO_PLAN_POOL_COUNT_MAX + 1;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "pools"));
    make_pair();
    plan.problem.buffer_count = (size_t)DAO_PLAN_BUFFER_COUNT_MAX + 1;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "buffers"));
}

static void a_gap_that_is_wrong_is_refused(void)
{
    const dao_plan_gap_t wrong[] = {
        {.buffer = 2, .begin_time = 11, .end_time = 12},
        {.buffer = 0, .begin_time = 9, .end_time = 12},
        {.buffer = 0, .begin_time = 11, .end_time = 21},
        {.buffer = 0, .begin_time = 12, .end_time = 12},
        {.buffer = 0, .begin_time = 11, .end_time = 12, .low_byte = 2, .high_byte = 5},
        {.buffer = 0, .begin_time = 11, .end_time = 12, .low_byte = 2, .high_byte = 2},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        make_pair();
        plan.gaps[0] = wrong[i];
        plan.problem.gap_count = 1;
        CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "gap 0"));
    }
    make_pair();
    plan.gaps[0] = (dao_plan_gap_t){.buffer = 0, .begin_time = 14, .end_time = 16};
    plan.gaps[1] = (dao_plan_gap_t){.buffer = 0, .begin_time = 12, .end_time = 13};
    plan.problem.gap_count = 2;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "gap 1"));
    make_pair();
    plan.gaps[0] = (dao_plan_gap_t){.buffer = 1, .begin_time = 11, .end_time = 20};
    plan.problem.gap_count = 1;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "buffer 1 is never used"));
    plan.problem.period = 20;
    plan.problem.margin = 15; /* would reach into the next life, but nothing ends: nothing was used */
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "buffer 1 is never used"));
}

static void a_margin_is_used_between_gaps_that_touch(void)
{
    make_pair();
    plan.gaps[0] = (dao_plan_gap_t){.buffer = 1, .begin_time = 11, .end_time = 15};
    plan.gaps[1] = (dao_plan_gap_t){.buffer = 1, .begin_time = 15, .end_time = 20};
    plan.problem.gap_count = 2;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "buffer 1 is never used"));
    const uint64_t offsets[DAO_TEST_PLAN_BUFFERS_MAX] = {0, 0};
    plan.problem.margin = 1; /* now its bytes are used at 15, and the other one's at its end */
    plan.buffers[0].end_time = 14;
    CU_ASSERT_EQUAL(dao_plan_check(&plan.problem, offsets, NULL), DAO_OK);
    plan.buffers[0].end_time = 15;
    CU_ASSERT_EQUAL(dao_plan_check(&plan.problem, offsets, NULL), DAO_ERR_INVALID);
}

static void a_margin_goes_round_the_longest_step(void)
{
    make_pair();
    plan.problem.period = DAO_PLAN_PERIOD_MAX;
    plan.problem.margin = 10;
    plan.buffers[0].begin_time = DAO_PLAN_PERIOD_MAX - 1;
    plan.buffers[0].end_time = DAO_PLAN_PERIOD_MAX;
    plan.buffers[1].begin_time = 9;
    const uint64_t offsets[DAO_TEST_PLAN_BUFFERS_MAX] = {0, 0};
    CU_ASSERT_EQUAL(dao_plan_check(&plan.problem, offsets, NULL), DAO_ERR_INVALID);
    plan.buffers[1].begin_time = 10;
    CU_ASSERT_EQUAL(dao_plan_check(&plan.problem, offsets, NULL), DAO_OK);
    plan.problem.margin = UINT64_MAX;
    CU_ASSERT_EQUAL(dao_plan_check(&plan.problem, offsets, NULL), DAO_ERR_INVALID);
}

static void clocks_that_are_wrong_are_refused(void)
{
    make_pair();
    plan.problem.clock_count = 2;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "buffer 0 does not begin before it ends")); /* all are 0 */
    const uint32_t ends[4] = {1, 0, 0, 1};
    memcpy(plan.end_clocks, ends, sizeof(ends));
    plan.problem.margin = 1;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "margin"));
    plan.problem.margin = 0;
    plan.problem.end_clocks = NULL;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "NULL"));
    plan.problem.clock_count = DAO_PLAN_CLOCK_COUNT_MAX + 1;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_INVALID, "clocks"));
}

static void sizes_that_are_too_large_together_are_told(void)
{
    make_pair();
    plan.buffers[0].fixed_offset = DAO_PLAN_TOTAL_MAX;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_OVERFLOW, "exceed"));
    make_pair();
    dao_plan_buffer_t apart[9]; /* one a pool: what is told is the sum of their ends */
    dao_plan_pool_t pools[9] = {{0}};
    for (uint32_t i = 0; i < 9; i++) {
        apart[i] = (dao_plan_buffer_t){
            .end_time = 1, .size_bytes = 1, .fixed_offset = DAO_PLAN_TOTAL_MAX - 100, .pool = i};
    }
    plan.problem = (dao_plan_problem_t){.buffers = apart, .buffer_count = 9, .pools = pools, .pool_count = 9};
    CU_ASSERT_TRUE(is_refused(DAO_ERR_OVERFLOW, "lower offsets"));
    plan.problem.buffer_count = 2;
    CU_ASSERT_TRUE(is_refused(DAO_ERR_OVERFLOW, "of each pool"));
    static dao_plan_buffer_t many[1 << 14];
    dao_plan_problem_t problem = {.buffers = many, .buffer_count = sizeof(many) / sizeof(many[0])};
    for (size_t i = 0; i < problem.buffer_count; i++) {
        many[i] =
            (dao_plan_buffer_t){.end_time = 1, .size_bytes = DAO_PLAN_SIZE_MAX, .pool = DAO_PLAN_ANY_POOL};
        many[i].fixed_offset = DAO_PLAN_NOWHERE;
    }
    dao_plan_t *made = NULL;
    CU_ASSERT_EQUAL(dao_plan_make(&problem, NULL, &made), DAO_ERR_OVERFLOW);
    CU_ASSERT_PTR_NULL(made);
    problem.buffer_count /= 2;
    CU_ASSERT_EQUAL_FATAL(dao_plan_make(&problem, NULL, &made), DAO_OK);
    dao_plan_report_t report;
    CU_ASSERT_EQUAL(dao_plan_report_get(made, &report), DAO_OK);
    CU_ASSERT_EQUAL(report.peak_bytes, DAO_PLAN_TOTAL_MAX);
    CU_ASSERT_TRUE(report.is_proved);
    dao_plan_release(made);
}

static void peaks_of_pools_are_no_more_than_can_be_counted(void)
{
    dao_plan_buffer_t buffers[9];
    dao_plan_pool_t pools[9] = {{0}};
    uint64_t offsets[9];
    uint32_t own_pools[9];
    dao_plan_t *made = NULL;
    dao_plan_report_t report;
    for (uint32_t i = 0; i < 9; i++) {
        buffers[i] = (dao_plan_buffer_t){
            .end_time = 1, .size_bytes = 1, .fixed_offset = DAO_PLAN_NOWHERE, .pool = DAO_PLAN_ANY_POOL};
        offsets[i] = DAO_PLAN_TOTAL_MAX - 1;
        own_pools[i] = i;
    }
    const dao_plan_problem_t problem = {
        .buffers = buffers, .buffer_count = 9, .pools = pools, .pool_count = 9};
    CU_ASSERT_EQUAL_FATAL(dao_plan_create(&problem, offsets, own_pools, &made), DAO_OK);
    CU_ASSERT_EQUAL(dao_plan_report_get(made, &report), DAO_OK);
    CU_ASSERT_EQUAL(report.peak_bytes, UINT64_MAX);
    CU_ASSERT_FALSE(report.is_proved);
    dao_plan_release(made);
    pools[0].capacity_bytes = 1; /* buffer 0 does not fit: the bound is above all that the pools hold */
    buffers[0].size_bytes = 2;
    buffers[0].pool = 0;
    for (uint32_t i = 1; i < 9; i++) {
        pools[i].capacity_bytes = DAO_PLAN_TOTAL_MAX;
    }
    const dao_planner_config_t config = {.work_limit = 2000000};
    made = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_plan_make(&problem, &config, &made), DAO_OK);
    CU_ASSERT_EQUAL(dao_plan_report_get(made, &report), DAO_OK);
    CU_ASSERT_EQUAL(report.unplaced_count, 1);
    CU_ASSERT_EQUAL(report.bound_bytes, UINT64_MAX);
    dao_plan_release(made);
}

static void what_shares_bytes_is_named(void)
{
    make_pair();
    const uint64_t shared[2] = {0, 3}, beside[2] = {0, 4}, nowhere[2] = {0, DAO_PLAN_NOWHERE};
    CU_ASSERT_EQUAL(dao_plan_check(&plan.problem, shared, NULL), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "buffers 0 and 1"));
    CU_ASSERT_EQUAL(dao_plan_check(&plan.problem, beside, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_plan_check(&plan.problem, nowhere, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_plan_check(&plan.problem, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_plan_check(NULL, beside, NULL), DAO_ERR_INVALID);
    const dao_plan_problem_t empty = {0};
    CU_ASSERT_EQUAL(dao_plan_check(&empty, NULL, NULL), DAO_OK);
}

static void a_plan_of_offsets_says_what_they_are_worth(void)
{
    make_pair();
    const uint64_t offsets[2] = {0, 8}, left_out[2] = {DAO_PLAN_NOWHERE, 8}, wrong[2] = {0, 2};
    dao_plan_t *made = NULL;
    CU_ASSERT_EQUAL(dao_plan_create(&plan.problem, wrong, NULL, &made), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(made);
    CU_ASSERT_EQUAL_FATAL(dao_plan_create(&plan.problem, offsets, NULL, &made), DAO_OK);
    dao_plan_report_t report;
    CU_ASSERT_EQUAL(dao_plan_report_get(made, &report), DAO_OK);
    CU_ASSERT_EQUAL(report.peak_bytes, 12);
    CU_ASSERT_EQUAL(report.bound_bytes, 8);
    CU_ASSERT_FALSE(report.is_proved);
    CU_ASSERT_EQUAL(dao_plan_count(made), 2);
    CU_ASSERT_EQUAL(dao_plan_offset(made, 1), 8);
    CU_ASSERT_EQUAL(dao_plan_offset(made, 2), DAO_PLAN_NOWHERE);
    CU_ASSERT_EQUAL(dao_plan_pool(made, 1), 0);
    CU_ASSERT_EQUAL(dao_plan_pool(made, 2), DAO_PLAN_ANY_POOL);
    CU_ASSERT_EQUAL(dao_plan_pool_peak(made, 0), 12);
    CU_ASSERT_EQUAL(dao_plan_pool_peak(made, 1), 0);
    dao_plan_release(made);
    CU_ASSERT_EQUAL_FATAL(dao_plan_create(&plan.problem, left_out, NULL, &made), DAO_OK);
    CU_ASSERT_EQUAL(dao_plan_report_get(made, &report), DAO_OK);
    CU_ASSERT_EQUAL(report.unplaced_bytes, 4);
    CU_ASSERT_EQUAL(report.unplaced_count, 1);
    CU_ASSERT_FALSE(report.is_proved);
    CU_ASSERT_EQUAL(dao_plan_pool(made, 0), DAO_PLAN_ANY_POOL);
    CU_ASSERT_PTR_EQUAL(dao_plan_retain(made), made);
    dao_plan_release(made);
    dao_plan_release(made);
    dao_plan_release(NULL);
    CU_ASSERT_PTR_NULL(dao_plan_offsets(NULL));
}

/* Random offsets that are right about as often as wrong: mostly above each other, now and then anywhere. */
static void random_offsets_are_judged_as_the_model_does(void)
{
    uint64_t random = dao_test_seed("random offsets", 11);
    size_t right_count = 0;
    for (uint32_t round = 0; round < ROUND_COUNT; round++) {
        uint32_t features = (uint32_t)(dao_random_next(&random) % DAO_TEST_PLAN_FEATURES);
        size_t count = 2 + dao_random_next(&random) % 6;
        uint64_t offsets[DAO_TEST_PLAN_BUFFERS_MAX], top = 0;
        uint32_t pools[DAO_TEST_PLAN_BUFFERS_MAX];
        dao_test_plan_make(&plan, features, count, 8, &random);
        dao_plan_pool_t *limits = plan.pools;
        for (size_t i = 0; i < count; i++) {
            uint32_t own_pool = plan.buffers[i].pool;
            bool is_fixed = plan.buffers[i].fixed_offset != DAO_PLAN_NOWHERE;
            pools[i] = own_pool != DAO_PLAN_ANY_POOL ? own_pool : 0;
            bool is_free = dao_random_next(&random) % 4 == 0;
            offsets[i] = is_fixed  ? plan.buffers[i].fixed_offset
                         : is_free ? dao_random_next(&random) % 24 & ~UINT64_C(3)
                                   : top;
            top = (offsets[i] + plan.buffers[i].size_bytes + 3) & ~UINT64_C(3);
            limits[pools[i]].capacity_bytes += limits[pools[i]].capacity_bytes == 0 ? 0 : 4;
        }
        bool is_right = dao_test_plan_is_valid(&plan.problem, offsets, pools);
        dao_status_t status = dao_plan_check(&plan.problem, offsets, pools);
        bool never_used = status == DAO_ERR_INVALID && strstr(dao_last_message(), "never used") != NULL;
        right_count += is_right ? 1 : 0;
        if (!never_used && status != (is_right ? DAO_OK : DAO_ERR_INVALID)) {
            (void)printf("    round %" PRIu32 ", features %#" PRIx32 ": %d \"%s\"\n", round, features,
                         (int)status, dao_last_message());
            CU_FAIL_FATAL("the check and the model differ");
        }
    }
    CU_ASSERT(right_count > ROUND_COUNT / 10 && right_count < ROUND_COUNT / 10 * 9);
}

static void a_check_without_memory_says_so(void)
{
    uint64_t random = 5;
    const uint64_t nowhere[3] = {DAO_PLAN_NOWHERE, DAO_PLAN_NOWHERE, DAO_PLAN_NOWHERE};
    for (uint32_t features = 0; features < DAO_TEST_PLAN_FEATURES; features++) {
        dao_test_plan_make(&plan, features, 3, 8, &random);
        dao_status_t expected = dao_plan_check(&plan.problem, nowhere, NULL);
        uint64_t failed_count = 1;
        for (uint64_t n = 0; failed_count > 0; n++) {
            dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
            dao_status_t status = dao_plan_check(&plan.problem, nowhere, NULL);
            failed_count = dao_fault_disarm();
            CU_ASSERT_EQUAL(status, failed_count > 0 ? DAO_ERR_NO_HOST_MEMORY : expected);
        }
    }
}

static CU_TestInfo tests[] = {
    {"a problem that is wrong is refused with its buffer",
     a_problem_that_is_wrong_is_refused_with_its_buffer},
    {"a gap that is wrong is refused", a_gap_that_is_wrong_is_refused},
    {"a margin is used between gaps that touch", a_margin_is_used_between_gaps_that_touch},
    {"a margin goes round the longest step", a_margin_goes_round_the_longest_step},
    {"clocks that are wrong are refused", clocks_that_are_wrong_are_refused},
    {"sizes that are too large together are told", sizes_that_are_too_large_together_are_told},
    {"peaks of pools are no more than can be counted", peaks_of_pools_are_no_more_than_can_be_counted},
    {"what shares bytes is named", what_shares_bytes_is_named},
    {"a plan of offsets says what they are worth", a_plan_of_offsets_says_what_they_are_worth},
    {"random offsets are judged as the model does", random_offsets_are_judged_as_the_model_does},
    {"a check without memory says so", a_check_without_memory_says_so},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan check", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
