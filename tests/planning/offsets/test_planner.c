/* SPDX-License-Identifier: Apache-2.0 */
/* Methods and portfolio: every plan against the slow model, small ones against all plans there are. */
#include "base/report/error.h"
#include "base/report/fault.h"
#include "planning/offsets/portfolio.h"
#include "tests/support/models/plans.h"
#include "tests/support/sanitizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_ROUNDS  TEST_ROUNDS(1200u)
#define LARGER_ROUNDS TEST_ROUNDS(300u)
#define BOUND_BUFFERS TEST_ROUNDS(1000000u)

static dao_test_plan_t plan;

/* Numbers of methods that are not there yet have no name. */
static bool is_method(int number)
{
    return strcmp(dao_plan_method_name((dao_plan_method_t)number), "unknown") != 0;
}

/* Enough for every method that ends by itself, and for some rounds of those that do not. */
static dao_status_t make_by(dao_plan_method_t method, dao_plan_t **out_made)
{
    bool is_endless = method == DAO_PLAN_METHOD_BEST || method == DAO_PLAN_METHOD_SQUEAKY_WHEEL;
    dao_planner_config_t config = {.method = method};
    config.work_limit = is_endless ? 1000 * plan.problem.buffer_count : 1 << 20;
    return dao_plan_make(&plan.problem, &config, out_made);
}

/* Makes copies of a plan's pools, which the model reads as an array. */
static void pools_of(const dao_plan_t *made, uint32_t *pools)
{
    for (size_t i = 0; i < dao_plan_count(made); i++) {
        pools[i] = dao_plan_pool(made, i);
    }
}

/* Checks a plan by the model and its report by the plan. Ends the test with the round if something is
   wrong. */
static dao_plan_report_t check_plan(const dao_plan_t *made, uint32_t round)
{
    uint32_t pools[DAO_TEST_PLAN_BUFFERS_MAX];
    pools_of(made, pools);
    dao_plan_report_t report;
    CU_ASSERT_EQUAL_FATAL(dao_plan_report_get(made, &report), DAO_OK);
    uint64_t pool_peaks[DAO_TEST_PLAN_POOLS_MAX] = {0}, unplaced_bytes = 0, peak_bytes = 0;
    for (size_t i = 0; i < dao_plan_count(made); i++) {
        uint64_t end = dao_plan_offset(made, i) + plan.buffers[i].size_bytes;
        if (dao_plan_offset(made, i) == DAO_PLAN_NOWHERE) {
            unplaced_bytes += plan.buffers[i].size_bytes;
        } else {
            pool_peaks[pools[i]] = end > pool_peaks[pools[i]] ? end : pool_peaks[pools[i]];
        }
    }
    bool is_right = dao_test_plan_is_valid(&plan.problem, dao_plan_offsets(made), pools);
    for (uint32_t i = 0; i < DAO_TEST_PLAN_POOLS_MAX; i++) {
        peak_bytes += pool_peaks[i];
        is_right = is_right && dao_plan_pool_peak(made, i) == pool_peaks[i];
    }
    is_right = is_right && report.peak_bytes == peak_bytes && report.unplaced_bytes == unplaced_bytes &&
               (report.unplaced_count == 0) == (unplaced_bytes == 0) &&
               (unplaced_bytes > 0 || report.peak_bytes >= report.bound_bytes) &&
               dao_plan_check(&plan.problem, dao_plan_offsets(made), pools) == DAO_OK;
    if (!is_right) {
        (void)printf("    round %" PRIu32 ", %s: peak %" PRIu64 ", bound %" PRIu64 "; %s\n", round,
                     dao_plan_method_name(report.method), report.peak_bytes, report.bound_bytes,
                     dao_last_message());
        CU_FAIL_FATAL("a plan is wrong");
    }
    return report;
}

/* Returns true if the problem has a plan at all: fixed buffers may clash, gaps may fill a life. */
static bool is_possible(void)
{
    dao_planner_t *planner = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, NULL, &planner), DAO_OK);
    dao_status_t status = dao_planner_work(planner, 0, NULL);
    CU_ASSERT(status == DAO_OK || status == DAO_ERR_INVALID);
    dao_planner_destroy(planner);
    return status == DAO_OK;
}

static void small_plans_are_judged_by_all_there_are(void)
{
    uint64_t random = dao_test_seed("small plans", 21);
    size_t planned_count = 0;
    for (uint32_t round = 0; round < SMALL_ROUNDS; round++) {
        uint32_t features = (uint32_t)(dao_random_next(&random) % DAO_TEST_PLAN_FEATURES);
        size_t count = 1 + dao_random_next(&random) % 7;
        dao_test_plan_make(&plan, round % 3 == 0 ? 0 : features, count, 2 + dao_random_next(&random) % 4,
                           &random);
        if (!is_possible()) {
            continue;
        }
        planned_count++;
        dao_plan_t *best = NULL;
        CU_ASSERT_EQUAL_FATAL(make_by(DAO_PLAN_METHOD_BEST, &best), DAO_OK);
        dao_plan_report_t best_report = check_plan(best, round);
        CU_ASSERT_FALSE_FATAL(dao_test_plan_is_beaten(&plan.problem, 0, best_report.bound_bytes));
        if (best_report.is_proved) {
            CU_ASSERT_FALSE_FATAL(dao_test_plan_is_beaten(&plan.problem, 0, best_report.peak_bytes));
        }
        dao_plan_release(best);
        for (int i = 1; i < DAO_PLAN_METHOD_COUNT; i++) {
            if (!is_method(i)) {
                continue;
            }
            dao_plan_t *made = NULL;
            CU_ASSERT_EQUAL_FATAL(make_by((dao_plan_method_t)i, &made), DAO_OK);
            dao_plan_report_t report = check_plan(made, round);
            CU_ASSERT((int)report.method == i ||
                      i == DAO_PLAN_METHOD_SEARCH);                   /* which begins with another one's */
            CU_ASSERT(report.bound_bytes <= best_report.bound_bytes); /* which a search may have raised */
            dao_plan_release(made);
        }
    }
    CU_ASSERT(planned_count > SMALL_ROUNDS / 2);
}

static void larger_plans_are_valid(void)
{
    uint64_t random = dao_test_seed("larger plans", 22);
    for (uint32_t round = 0; round < LARGER_ROUNDS; round++) {
        uint32_t features = (uint32_t)(dao_random_next(&random) % DAO_TEST_PLAN_FEATURES);
        dao_test_plan_make(&plan, features & ~(uint32_t)DAO_TEST_PLAN_FIXED, DAO_TEST_PLAN_BUFFERS_MAX, 100,
                           &random);
        for (int i = 0; i < DAO_PLAN_METHOD_COUNT && is_possible(); i++) {
            if (!is_method(i)) {
                continue;
            }
            dao_plan_t *made = NULL;
            CU_ASSERT_EQUAL_FATAL(make_by((dao_plan_method_t)i, &made), DAO_OK);
            (void)check_plan(made, round);
            dao_plan_release(made);
        }
    }
}

static void an_empty_problem_has_an_empty_plan(void)
{
    const dao_plan_problem_t problem = {0};
    dao_plan_t *made = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_plan_make(&problem, NULL, &made), DAO_OK);
    dao_plan_report_t report;
    CU_ASSERT_EQUAL(dao_plan_report_get(made, &report), DAO_OK);
    CU_ASSERT_EQUAL(report.peak_bytes, 0);
    CU_ASSERT_TRUE(report.is_proved);
    CU_ASSERT_EQUAL(dao_plan_count(made), 0);
    dao_plan_release(made);
}

static void methods_have_names(void)
{
    for (int i = 0; i < DAO_PLAN_METHOD_COUNT; i++) {
        dao_plan_method_t method = DAO_PLAN_METHOD_COUNT;
        if (!is_method(i)) {
            CU_ASSERT_EQUAL(dao_plan_method_parse("unknown", &method), DAO_ERR_INVALID);
            continue;
        }
        CU_ASSERT_EQUAL(dao_plan_method_parse(dao_plan_method_name((dao_plan_method_t)i), &method), DAO_OK);
        CU_ASSERT_EQUAL((int)method, i);
    }
    dao_plan_method_t method = DAO_PLAN_METHOD_COUNT;
    CU_ASSERT_EQUAL(dao_plan_method_parse("worst", &method), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "skyline_area"));
    CU_ASSERT_EQUAL(method, DAO_PLAN_METHOD_COUNT);
    CU_ASSERT_STRING_EQUAL(dao_plan_method_name(DAO_PLAN_METHOD_COUNT), "unknown");
}

static void wrong_arguments_are_refused(void)
{
    uint64_t random = 1;
    dao_test_plan_make(&plan, 0, 4, 8, &random);
    dao_planner_t *planner = NULL;
    dao_plan_t *made = NULL;
    const dao_planner_config_t wrong = {.method = DAO_PLAN_METHOD_COUNT};
    CU_ASSERT_EQUAL(dao_planner_create(&plan.problem, &wrong, &planner), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_planner_create(NULL, NULL, &planner), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_planner_create(&plan.problem, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(planner);
    CU_ASSERT_EQUAL(dao_planner_work(NULL, 1, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_planner_start(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_planner_wait(NULL, 0), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_planner_cancel(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_planner_best(NULL, &made), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_plan_make(&plan.problem, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, NULL, &planner), DAO_OK);
    CU_ASSERT_EQUAL(dao_planner_work(NULL, 0, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_planner_best(planner, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_planner_best(planner, &made), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(dao_planner_wait(planner, 0), DAO_OK); /* it was never started */
    dao_planner_destroy(planner);
    dao_planner_destroy(NULL);
}

static void plans_get_better_alone(void)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        dao_planner_t *planner = NULL;
        dao_test_plan_make_hard(&plan, seed);
        CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, NULL, &planner), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, 0, NULL), DAO_OK);
        uint64_t peak_bytes = UINT64_MAX, bound_bytes = 0, version = 0;
        bool is_done = false;
        for (uint32_t i = 0; i < 200 && !is_done; i++) {
            dao_plan_t *best = NULL;
            CU_ASSERT_EQUAL_FATAL(dao_planner_best(planner, &best), DAO_OK);
            dao_plan_report_t report = check_plan(best, i);
            CU_ASSERT(report.version == version || report.peak_bytes < peak_bytes ||
                      (report.peak_bytes == peak_bytes && report.bound_bytes > bound_bytes));
            peak_bytes = report.peak_bytes;
            bound_bytes = report.bound_bytes;
            version = report.version;
            dao_plan_release(best);
            CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, 500, &is_done), DAO_OK);
        }
        dao_planner_destroy(planner);
    }
}

/* The plan after so much work, in a first slice (0: up to a plan, in the middle of a stretch) and others of
   such a length. */
static dao_plan_t *plan_after(uint64_t work, uint64_t first_slice, uint64_t slice)
{
    const dao_planner_config_t config = {.work_limit = work, .seed = 3};
    dao_planner_t *planner = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
    bool is_done = false;
    for (uint64_t next = first_slice; !is_done; next = slice) {
        CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, next, &is_done), DAO_OK);
    }
    dao_plan_t *made = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_planner_best(planner, &made), DAO_OK);
    dao_planner_destroy(planner);
    return made;
}

static void the_same_work_gives_the_same_plan(void)
{
    static const struct {
        uint64_t first, rest;
    } slices[] = {{0, 60000}, {1, 1}, {0, 5000}, {777, 777}, {0, 100}};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        dao_test_plan_make_hard(&plan, seed);
        uint64_t work = 10000 + 100 * seed; /* the last plans come shortly before */
        size_t way = seed % (sizeof(slices) / sizeof(slices[0]));
        dao_plan_t *left = plan_after(work, UINT64_MAX, UINT64_MAX);
        dao_plan_t *right = plan_after(work, slices[way].first, slices[way].rest);
        CU_ASSERT_EQUAL(memcmp(dao_plan_offsets(left), dao_plan_offsets(right),
                               plan.problem.buffer_count * sizeof(uint64_t)),
                        0);
        dao_plan_report_t left_report, right_report;
        CU_ASSERT_EQUAL(dao_plan_report_get(left, &left_report), DAO_OK);
        CU_ASSERT_EQUAL(dao_plan_report_get(right, &right_report), DAO_OK);
        CU_ASSERT_EQUAL(left_report.work, right_report.work);
        CU_ASSERT(left_report.work <= work + DAO_PLAN_STRETCH_WORK);
        dao_plan_release(left);
        dao_plan_release(right);
    }
}

/* Each alive with its two neighbours, one above the other: where they are fixed, or anywhere. */
static void memory_is_bounded(void)
{
    enum { COUNT = 20000 };
    static dao_plan_buffer_t buffers[COUNT];
    const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = COUNT};
    for (int is_fixed = 0; is_fixed < 2; is_fixed++) {
        for (size_t i = 0; i < COUNT; i++) {
            buffers[i] = (dao_plan_buffer_t){.begin_time = i,
                                             .end_time = i + 2,
                                             .size_bytes = 1 + i % 1000,
                                             .fixed_offset = is_fixed != 0 ? i % 2 * 1000 : DAO_PLAN_NOWHERE,
                                             .pool = DAO_PLAN_ANY_POOL};
        }
        dao_plan_t *made = NULL;
        dao_plan_report_t report;
        CU_ASSERT_EQUAL_FATAL(dao_plan_make(&problem, &(dao_planner_config_t){.work_limit = 100000}, &made),
                              DAO_OK);
        CU_ASSERT_EQUAL(dao_plan_report_get(made, &report), DAO_OK);
        CU_ASSERT(report.memory_bytes <= (uint64_t)150 * COUNT);
        dao_plan_release(made);
    }
}

static void a_cancelled_planner_keeps_its_plan(void)
{
    dao_planner_t *planner = NULL;
    dao_test_plan_make_hard(&plan, 1);
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, NULL, &planner), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_planner_cancel(planner), DAO_OK);
    CU_ASSERT_EQUAL(dao_planner_work(planner, 1000, NULL), DAO_ERR_STOPPED);
    CU_ASSERT_EQUAL(dao_planner_start(planner), DAO_ERR_STOPPED);
    dao_plan_t *best = NULL;
    CU_ASSERT_EQUAL(dao_planner_best(planner, &best), DAO_OK);
    dao_planner_destroy(planner);
    (void)check_plan(best, 0);
    dao_plan_release(best);
}

static void every_failed_allocation_is_told_and_survived(void)
{
    uint64_t random = 31;
    for (int method = 0; method < DAO_PLAN_METHOD_COUNT; method++) {
        dao_test_plan_make(&plan, method % 2 == 0 ? DAO_TEST_PLAN_POOLS | DAO_TEST_PLAN_GAPS : 0, 12, 30,
                           &random);
        uint64_t failed_count = is_method(method) ? 1 : 0;
        for (uint64_t n = 0; failed_count > 0 && is_possible(); n++) {
            dao_plan_t *made = NULL;
            dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
            dao_status_t status = make_by((dao_plan_method_t)method, &made);
            failed_count = dao_fault_disarm();
            CU_ASSERT(status == DAO_OK || (failed_count > 0 && status == DAO_ERR_NO_HOST_MEMORY));
            if (made != NULL) {
                (void)check_plan(made, (uint32_t)n);
            }
            dao_plan_release(made);
        }
    }
}

/* Work that failed goes on with the next call. */
static void a_planner_goes_on_after_a_failed_allocation(void)
{
    dao_test_plan_make_hard(&plan, 2);
    uint64_t failed_count = 1;
    for (uint64_t n = 0; failed_count > 0; n++) {
        const dao_planner_config_t config = {.work_limit = 30000};
        dao_planner_t *planner = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
        bool is_done = false;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = dao_planner_work(planner, UINT64_MAX, &is_done);
        failed_count = dao_fault_disarm();
        CU_ASSERT(status == DAO_OK || status == DAO_ERR_NO_HOST_MEMORY);
        while (!is_done) {
            CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, UINT64_MAX, &is_done), DAO_OK);
        }
        dao_plan_t *best = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_planner_best(planner, &best), DAO_OK);
        (void)check_plan(best, (uint32_t)n);
        dao_plan_release(best);
        dao_planner_destroy(planner);
    }
}

/* The bound of very many buffers, by adding up what is alive at each time. */
static void the_bound_of_a_million_buffers_is_what_is_alive(void)
{
    uint64_t random = 41;
    dao_plan_buffer_t *buffers = calloc(BOUND_BUFFERS, sizeof(*buffers));
    uint64_t *changes = calloc((size_t)2 * BOUND_BUFFERS + 1, sizeof(*changes));
    CU_ASSERT_FATAL(buffers != NULL && changes != NULL);
    for (size_t i = 0; i < BOUND_BUFFERS; i++) {
        dao_plan_buffer_t *buffer = &buffers[i];
        buffer->begin_time = dao_random_next(&random) % BOUND_BUFFERS;
        buffer->end_time = buffer->begin_time + 1 +
                           dao_random_next(&random) % (dao_random_next(&random) % 100 == 0 ? 5000 : 50);
        buffer->size_bytes = 1 + dao_random_next(&random) % (1 << 20);
        buffer->fixed_offset = DAO_PLAN_NOWHERE;
        buffer->pool = DAO_PLAN_ANY_POOL;
        changes[buffer->begin_time] += buffer->size_bytes;
        changes[buffer->end_time] -= buffer->size_bytes;
    }
    uint64_t alive = 0, most = 0;
    for (size_t time = 0; time < 2 * (size_t)BOUND_BUFFERS; time++) {
        alive += changes[time];
        most = alive > most ? alive : most;
    }
    const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = BOUND_BUFFERS};
    dao_planner_t *planner = NULL;
    dao_plan_t *first = NULL;
    dao_plan_report_t report;
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&problem, NULL, &planner), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_planner_best(planner, &first), DAO_OK);
    CU_ASSERT_EQUAL(dao_plan_report_get(first, &report), DAO_OK);
    CU_ASSERT_EQUAL(report.bound_bytes, most);
    CU_ASSERT(report.peak_bytes >= most);
    CU_ASSERT_EQUAL(dao_plan_check(&problem, dao_plan_offsets(first), NULL), DAO_OK);
    dao_plan_release(first);
    dao_planner_destroy(planner);
    free(changes);
    free(buffers);
}

static CU_TestInfo tests[] = {
    {"small plans are judged by all there are", small_plans_are_judged_by_all_there_are},
    {"larger plans are valid", larger_plans_are_valid},
    {"an empty problem has an empty plan", an_empty_problem_has_an_empty_plan},
    {"methods have names", methods_have_names},
    {"wrong arguments are refused", wrong_arguments_are_refused},
    {"plans get better alone", plans_get_better_alone},
    {"the same work gives the same plan", the_same_work_gives_the_same_plan},
    {"memory is bounded", memory_is_bounded},
    {"a cancelled planner keeps its plan", a_cancelled_planner_keeps_its_plan},
    {"every failed allocation is told and survived", every_failed_allocation_is_told_and_survived},
    {"a planner goes on after a failed allocation", a_planner_goes_on_after_a_failed_allocation},
    {"the bound of a million buffers is what is alive", the_bound_of_a_million_buffers_is_what_is_alive},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"planner", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
