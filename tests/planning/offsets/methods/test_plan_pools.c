/* SPDX-License-Identifier: Apache-2.0 */
/* Several pools: what `best` comes to, against all plans that there are. */
#include "base/report/error.h"
#include "base/report/fault.h"
#include "planning/offsets/methods/pools.h"
#include "tests/support/models/plans.h"
#include "tests/support/sanitizer.h"

#include <inttypes.h>
#include <stdio.h>

#define ROUND_COUNT TEST_ROUNDS(480u)

/* More are not split in all ways. */
#define LARGE_COUNT 12u

#define CUT_ROUND_COUNT TEST_ROUNDS(24u)

#define SLICE_ROUND_COUNT TEST_ROUNDS(100u)

/* More than enough for all splits of so few buffers. */
#define WORK_LIMIT 200000u

static dao_test_plan_t plan;

static bool draw_problem(uint64_t *random, uint32_t features)
{
    size_t count = 1 + dao_random_next(random) % 7;
    dao_test_plan_make(&plan, features | DAO_TEST_PLAN_POOLS, count, 2 + dao_random_next(random) % 4, random);
    dao_planner_t *planner = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, NULL, &planner), DAO_OK);
    dao_status_t status = dao_planner_work(planner, 0, NULL); /* fixed buffers may clash */
    dao_planner_destroy(planner);
    return status == DAO_OK && plan.problem.pool_count > 1;
}

static dao_plan_report_t plan_best(void)
{
    const dao_planner_config_t config = {.work_limit = WORK_LIMIT};
    uint32_t pools[DAO_TEST_PLAN_BUFFERS_MAX];
    dao_plan_report_t report;
    dao_plan_t *made = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_plan_make(&plan.problem, &config, &made), DAO_OK);
    for (size_t i = 0; i < dao_plan_count(made); i++) {
        pools[i] = dao_plan_pool(made, i);
    }
    CU_ASSERT_TRUE_FATAL(dao_test_plan_is_valid(&plan.problem, dao_plan_offsets(made), pools));
    CU_ASSERT_EQUAL_FATAL(dao_plan_report_get(made, &report), DAO_OK);
    dao_plan_release(made);
    return report;
}

/* Counts the problems whose best plan is not the best there is. */
static uint32_t count_beaten(const char *name, uint64_t seed, uint32_t without)
{
    uint64_t random = dao_test_seed(name, seed);
    uint32_t beaten_count = 0, planned_count = 0;
    for (uint32_t round = 0; round < ROUND_COUNT; round++) {
        uint32_t features = (uint32_t)(dao_random_next(&random) % DAO_TEST_PLAN_FEATURES) & ~without;
        if (!draw_problem(&random, round % 3 == 0 ? 0 : features)) {
            continue;
        }
        planned_count++;
        dao_plan_report_t report = plan_best();
        bool is_beaten = dao_test_plan_is_beaten(&plan.problem, report.unplaced_bytes, report.peak_bytes);
        if (is_beaten) {
            (void)printf("    round %" PRIu32 ": %" PRIu64 " bytes unplaced, peak %" PRIu64 " is beaten\n",
                         round, report.unplaced_bytes, report.peak_bytes);
            beaten_count++;
        }
        CU_ASSERT_FALSE_FATAL(dao_test_plan_is_beaten(&plan.problem, 0, report.bound_bytes));
        CU_ASSERT((plan.problem.gap_count > 0) || report.unplaced_count > 0 || report.is_proved);
    }
    CU_ASSERT(planned_count > ROUND_COUNT / 4);
    (void)printf("    %" PRIu32 " of %" PRIu32 "\n", beaten_count, planned_count);
    return beaten_count;
}

static void best_is_the_best_there_is(void)
{
    CU_ASSERT_EQUAL(count_beaten("pools", 31, DAO_TEST_PLAN_GAPS), 0);
}

/* Where bytes of a buffer are not used at times, something may be beneath what rests on it: that is not
   looked at. */
static void gaps_are_seldom_in_the_way(void)
{
    CU_ASSERT(count_beaten("pools and gaps", 32, 0) <= ROUND_COUNT / 40);
}

/* More buffers than are split in all ways: each of two pools has room beside what must lie there, at another
   time. */
static void many_go_where_pools_grow_least(void)
{
    enum { FREE_COUNT = 14, COUNT = FREE_COUNT + 2 };
    dao_plan_buffer_t buffers[COUNT];
    const dao_plan_pool_t pools[2] = {{0}};
    const dao_plan_problem_t problem = {
        .buffers = buffers, .buffer_count = COUNT, .pools = pools, .pool_count = 2};
    for (uint64_t i = 0; i < COUNT; i++) {
        bool is_bound = i >= FREE_COUNT;
        buffers[i] = (dao_plan_buffer_t){.begin_time = i == COUNT - 1 ? 0 : 10,
                                         .end_time = i == COUNT - 1 ? 10 : 20,
                                         .size_bytes = is_bound ? 100 : 7,
                                         .fixed_offset = DAO_PLAN_NOWHERE,
                                         .pool = is_bound ? (uint32_t)(i - FREE_COUNT) : DAO_PLAN_ANY_POOL};
    }
    const dao_planner_config_t config = {.work_limit = WORK_LIMIT};
    dao_plan_t *made = NULL;
    dao_plan_report_t report;
    CU_ASSERT_EQUAL_FATAL(dao_plan_make(&problem, &config, &made), DAO_OK);
    CU_ASSERT_EQUAL(dao_plan_report_get(made, &report), DAO_OK);
    CU_ASSERT_EQUAL(report.peak_bytes, 200);
    CU_ASSERT_TRUE(report.is_proved);
    dao_plan_release(made);
}

/* As many buffers as are split in all ways, with alignments and clocks that make many packings. */
static void draw_large(uint64_t *random)
{
    dao_test_plan_make(&plan, DAO_TEST_PLAN_ALIGNED | DAO_TEST_PLAN_POOLS | DAO_TEST_PLAN_CLOCKS, LARGE_COUNT,
                       2000, random);
    plan.problem.pools = plan.pools;
    plan.problem.pool_count = 2;
    for (uint32_t i = 0; i < LARGE_COUNT; i++) {
        plan.buffers[i].pool = i % 4 == 0 ? 0 : DAO_PLAN_ANY_POOL;
    }
}

/* A limit of work ends the planner anywhere before, in or after the splits. */
static void slices_are_all_the_same(void)
{
    static const uint64_t slices[] = {1, 5000, UINT64_MAX};
    uint64_t random = dao_test_seed("slices", 33);
    for (uint32_t round = 0; round < SLICE_ROUND_COUNT; round++) {
        bool is_large = round % 4 == 0;
        uint64_t limit_most = is_large ? 400000 : 20000;
        const dao_planner_config_t config = {.work_limit = 1 + dao_random_next(&random) % limit_most};
        dao_plan_report_t reports[sizeof(slices) / sizeof(slices[0])];
        if (is_large) {
            draw_large(&random);
        } else if (!draw_problem(&random, 0)) {
            continue;
        }
        for (size_t i = 0; i < sizeof(slices) / sizeof(slices[0]); i++) {
            dao_planner_t *planner = NULL;
            dao_plan_t *made = NULL;
            bool is_done = false;
            CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
            while (!is_done) {
                CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, slices[i], &is_done), DAO_OK);
            }
            CU_ASSERT_EQUAL_FATAL(dao_planner_best(planner, &made), DAO_OK);
            CU_ASSERT_EQUAL_FATAL(dao_plan_report_get(made, &reports[i]), DAO_OK);
            dao_plan_release(made);
            dao_planner_destroy(planner);
            CU_ASSERT_EQUAL(reports[i].peak_bytes, reports[0].peak_bytes);
            CU_ASSERT_EQUAL(reports[i].unplaced_bytes, reports[0].unplaced_bytes);
            CU_ASSERT_EQUAL(reports[i].bound_bytes, reports[0].bound_bytes);
            CU_ASSERT_EQUAL(reports[i].work, reports[0].work);
        }
    }
}

/* Splits the plan's buffers with so many placements. A step is no longer than a slice and what is done in one
   go. */
static bool split(uint64_t step_limit, uint64_t slice, uint64_t *offsets, uint32_t *own_pools)
{
    enum { IN_ONE_GO = 3000 };
    dao_plan_instance_t instance;
    dao_plan_pools_t *pools = NULL;
    dao_plan_work_t work = dao_plan_work_unlimited();
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &plan.problem), DAO_OK);
    CU_ASSERT_TRUE_FATAL(dao_plan_pools_knows(&instance));
    CU_ASSERT_EQUAL_FATAL(dao_plan_pools_create(&instance, step_limit, &work, &pools), DAO_OK);
    bool is_done = false;
    while (!is_done) {
        uint64_t used_before = work.used;
        work.limit = slice < UINT64_MAX - work.used ? work.used + slice : UINT64_MAX;
        is_done = dao_plan_pools_step(pools, &work);
        CU_ASSERT_FATAL(work.used > used_before);
        CU_ASSERT_FATAL(slice == UINT64_MAX || work.used - used_before <= slice + IN_ONE_GO);
    }
    const dao_plan_layout_t *layout = dao_plan_pools_layout(pools);
    for (uint32_t i = 0; i < instance.item_count; i++) {
        offsets[instance.items[i].source] = layout->offsets[i];
        own_pools[instance.items[i].source] = dao_plan_layout_pool(layout, i);
    }
    bool is_exact = dao_plan_pools_is_exact(pools);
    dao_plan_pools_destroy(pools);
    dao_plan_instance_finish(&instance);
    return is_exact;
}

/* Returns true if a buffer is placed that is not fixed. */
static bool has_placed(const uint64_t *offsets)
{
    for (size_t i = 0; i < plan.problem.buffer_count; i++) {
        if (plan.buffers[i].fixed_offset == DAO_PLAN_NOWHERE && offsets[i] != DAO_PLAN_NOWHERE) {
            return true;
        }
    }
    return false;
}

/* Whatever was found is a plan, and all that is fixed is in it; a proof is only what had enough. */
static void what_is_cut_off_is_a_plan_but_no_proof(void)
{
    static const uint64_t limits[] = {0, 1, 10, 300, 3000, 10000, DAO_PLAN_POOLS_STEPS_MAX};
    uint64_t random = dao_test_seed("cut off", 35);
    uint32_t cut_count = 0;
    uint64_t offsets[DAO_TEST_PLAN_BUFFERS_MAX], again[DAO_TEST_PLAN_BUFFERS_MAX];
    uint32_t own_pools[DAO_TEST_PLAN_BUFFERS_MAX], pools_again[DAO_TEST_PLAN_BUFFERS_MAX];
    for (uint32_t round = 0; round < CUT_ROUND_COUNT; round++) {
        if (round % 2 == 0) {
            draw_large(&random);
        } else if (!draw_problem(&random, DAO_TEST_PLAN_FIXED | DAO_TEST_PLAN_ALIGNED)) {
            continue;
        }
        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
            bool is_exact = split(limits[i], 100, offsets, own_pools);
            CU_ASSERT_TRUE(dao_test_plan_is_valid(&plan.problem, offsets, own_pools));
            CU_ASSERT(limits[i] > plan.problem.buffer_count || !is_exact);
            cut_count += !is_exact && has_placed(offsets) ? 1 : 0;
            CU_ASSERT(limits[i] < DAO_PLAN_POOLS_STEPS_MAX || is_exact);
            CU_ASSERT_EQUAL(split(limits[i], UINT64_MAX, again, pools_again), is_exact);
            for (size_t k = 0; k < plan.problem.buffer_count; k++) {
                bool is_fixed = plan.buffers[k].fixed_offset != DAO_PLAN_NOWHERE;
                CU_ASSERT(!is_fixed || offsets[k] == plan.buffers[k].fixed_offset);
                CU_ASSERT(offsets[k] == again[k] && own_pools[k] == pools_again[k]);
            }
        }
    }
    CU_ASSERT(cut_count > CUT_ROUND_COUNT / 2); /* what was packed before is not lost */
}

/* Buffers in thousands of pieces would be looked at in pairs: they are left to the other methods. */
static void thousands_of_gaps_are_not_split(void)
{
    enum { COUNT = 4, GAP_COUNT = 5000 };
    static dao_plan_gap_t gaps[COUNT * GAP_COUNT];
    dao_plan_buffer_t buffers[COUNT];
    const dao_plan_pool_t pools[2] = {{16}, {16}};
    for (uint32_t i = 0; i < COUNT; i++) {
        buffers[i] = (dao_plan_buffer_t){.end_time = 4 * GAP_COUNT + 4,
                                         .size_bytes = 8 + i,
                                         .fixed_offset = DAO_PLAN_NOWHERE,
                                         .pool = DAO_PLAN_ANY_POOL};
        for (uint32_t k = 0; k < GAP_COUNT; k++) {
            uint64_t begin = 4 * (uint64_t)k + 1 + i % 2;
            gaps[i * GAP_COUNT + k] =
                (dao_plan_gap_t){.buffer = i, .begin_time = begin, .end_time = begin + 1};
        }
    }
    dao_plan_problem_t problem = {
        .buffers = buffers, .buffer_count = COUNT, .gaps = gaps, .pools = pools, .pool_count = 2};
    dao_plan_instance_t instance;
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &problem), DAO_OK);
    CU_ASSERT_TRUE(dao_plan_pools_knows(&instance));
    dao_plan_instance_finish(&instance);
    problem.gap_count = COUNT * GAP_COUNT;
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &problem), DAO_OK);
    CU_ASSERT_FALSE(dao_plan_pools_knows(&instance));
    dao_plan_instance_finish(&instance);
}

static void fail_each_time_once(void)
{
    dao_plan_report_t wanted = plan_best();
    /* With gaps nothing is proved, and others go on afterwards. */
    const dao_planner_config_t config = {.work_limit =
                                             plan.problem.gap_count > 0 ? WORK_LIMIT / 10 : WORK_LIMIT};
    bool is_over = false;
    for (uint64_t skip = 0; !is_over; skip += TEST_CALL_STEP) {
        dao_planner_t *planner = NULL;
        dao_plan_t *made = NULL;
        dao_plan_report_t report;
        bool is_done = false;
        CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, true);
        dao_status_t status = DAO_OK;
        while (status == DAO_OK && !is_done) {
            status = dao_planner_work(planner, UINT64_MAX, &is_done);
        }
        is_over = dao_fault_disarm() == 0;
        CU_ASSERT_EQUAL(status, is_over ? DAO_OK : DAO_ERR_NO_HOST_MEMORY);
        while (!is_done) {
            CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, UINT64_MAX, &is_done), DAO_OK);
        }
        CU_ASSERT_EQUAL_FATAL(dao_planner_best(planner, &made), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_plan_report_get(made, &report), DAO_OK);
        CU_ASSERT(report.peak_bytes == wanted.peak_bytes || plan.problem.gap_count > 0);
        CU_ASSERT_EQUAL(report.bound_bytes, wanted.bound_bytes);
        dao_plan_release(made);
        dao_planner_destroy(planner);
    }
}

static void without_memory_it_can_be_called_again(void)
{
    static const uint32_t features[] = {0, DAO_TEST_PLAN_FIXED, DAO_TEST_PLAN_ALIGNED, DAO_TEST_PLAN_GAPS,
                                        DAO_TEST_PLAN_FIXED | DAO_TEST_PLAN_ALIGNED | DAO_TEST_PLAN_GAPS};
    uint64_t random = dao_test_seed("pools without memory", 34);
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
        while (!draw_problem(&random, features[i]) || plan.problem.buffer_count < 5) {
        }
        fail_each_time_once();
    }
}

static CU_TestInfo tests[] = {
    {"what is cut off is a plan but no proof", what_is_cut_off_is_a_plan_but_no_proof},
    {"thousands of gaps are not split", thousands_of_gaps_are_not_split},
    {"best is the best there is", best_is_the_best_there_is},
    {"gaps are seldom in the way", gaps_are_seldom_in_the_way},
    {"many go where pools grow least", many_go_where_pools_grow_least},
    {"slices are all the same", slices_are_all_the_same},
    {"without memory it can be called again", without_memory_it_can_be_called_again},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan pools", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
