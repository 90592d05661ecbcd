/* SPDX-License-Identifier: Apache-2.0 */
/* Quick methods one after the other: each leaves what the planner's method of that name leaves, and the best
   of them is kept. */
#include "base/report/fault.h"
#include "planning/offsets/quick.h"
#include "tests/support/suite.h"

#include <dao/plan.h>

#include <stdlib.h>

enum { BUFFERS = 24, ROUNDS = 60, PERIOD = 64 };

typedef struct pair {
    dao_plan_method_t slow;
    dao_plan_quick_method_t quick;
} pair_t;

static const pair_t pairs[] = {
    {DAO_PLAN_METHOD_SKYLINE_START, {.order = DAO_PLAN_ORDER_START, .is_skyline = true}},
    {DAO_PLAN_METHOD_SKYLINE_AREA, {.order = DAO_PLAN_ORDER_AREA, .is_skyline = true}},
    {DAO_PLAN_METHOD_SIZE_FIRST_FIT, {.order = DAO_PLAN_ORDER_SIZE}},
    {DAO_PLAN_METHOD_START_BEST_FIT, {.order = DAO_PLAN_ORDER_START, .is_best_fit = true}},
};

#define PAIR_COUNT (sizeof(pairs) / sizeof(pairs[0]))

typedef struct example {
    dao_plan_buffer_t buffers[BUFFERS];
    dao_plan_pool_t pool;
    dao_plan_problem_t problem;
} example_t;

static uint64_t draw_from(uint64_t *random, uint64_t count)
{
    return dao_random_next(random) % count;
}

/* Buffers of a step that repeats, in a pool that is too small for most of such. */
static void draw(uint64_t *random, example_t *example)
{
    *example = (example_t){.pool = {.capacity_bytes = 100 + draw_from(random, 200)}};
    for (int i = 0; i < BUFFERS; i++) {
        uint64_t begin = draw_from(random, PERIOD);
        example->buffers[i] = (dao_plan_buffer_t){.begin_time = begin,
                                                  .end_time = begin + 1 + draw_from(random, PERIOD / 2),
                                                  .size_bytes = 1 + draw_from(random, 40),
                                                  .fixed_offset = DAO_PLAN_NOWHERE,
                                                  .pool = DAO_PLAN_ANY_POOL};
    }
    example->problem = (dao_plan_problem_t){.buffers = example->buffers,
                                            .buffer_count = BUFFERS,
                                            .pools = &example->pool,
                                            .pool_count = 1,
                                            .period = PERIOD,
                                            .alignment_bytes = 1};
}

static uint64_t unplaced_of(const dao_plan_problem_t *problem, dao_plan_method_t method)
{
    const dao_planner_config_t config = {.method = method};
    dao_plan_t *plan = NULL;
    dao_plan_report_t report;
    CU_ASSERT_EQUAL_FATAL(dao_plan_make(problem, &config, &plan), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_report_get(plan, &report), DAO_OK);
    dao_plan_release(plan);
    return report.unplaced_bytes;
}

static uint64_t left_out(const dao_plan_problem_t *problem, const uint64_t *offsets)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        bytes += offsets[i] == DAO_PLAN_NOWHERE ? problem->buffers[i].size_bytes : 0;
    }
    return bytes;
}

static void the_best_is_kept(void)
{
    uint64_t random = dao_test_seed("quick", 20261121);
    for (int round = 0; round < ROUNDS; round++) {
        example_t example;
        dao_plan_quick_t quick;
        uint64_t least = UINT64_MAX;
        dao_plan_work_t work = dao_plan_work_unlimited();
        draw(&random, &example);
        CU_ASSERT_EQUAL_FATAL(dao_plan_quick_init(&quick, &example.problem, &work), DAO_OK);
        CU_ASSERT(!dao_plan_quick_is_complete(&quick));
        for (size_t i = 0; i < PAIR_COUNT; i++) {
            uint64_t unplaced = unplaced_of(&example.problem, pairs[i].slow);
            least = unplaced < least ? unplaced : least;
            CU_ASSERT_EQUAL_FATAL(dao_plan_quick_try(&quick, &pairs[i].quick, UINT64_MAX, &work), DAO_OK);
            CU_ASSERT_EQUAL(quick.best.unplaced_bytes, least);
            CU_ASSERT_EQUAL(left_out(&example.problem, quick.offsets), least);
            CU_ASSERT_EQUAL(dao_plan_quick_is_complete(&quick), least == 0);
            CU_ASSERT_EQUAL(dao_plan_check(&example.problem, quick.offsets, NULL), DAO_OK);
        }
        CU_ASSERT_EQUAL_FATAL(dao_plan_quick_repeat(&quick, 1 + (uint32_t)round % 8, &work), DAO_OK);
        CU_ASSERT(quick.best.unplaced_bytes <= least);
        CU_ASSERT_EQUAL(left_out(&example.problem, quick.offsets), quick.best.unplaced_bytes);
        CU_ASSERT_EQUAL(dao_plan_check(&example.problem, quick.offsets, NULL), DAO_OK);
        dao_plan_quick_finish(&quick);
    }
}

static void what_found_no_place_comes_first_then(void)
{
    static const dao_plan_buffer_t buffers[] = {
        {.begin_time = 0,
         .end_time = 2,
         .size_bytes = 60,
         .fixed_offset = DAO_PLAN_NOWHERE,
         .pool = DAO_PLAN_ANY_POOL},
        {.begin_time = 1,
         .end_time = 4,
         .size_bytes = 40,
         .fixed_offset = DAO_PLAN_NOWHERE,
         .pool = DAO_PLAN_ANY_POOL},
        {.begin_time = 3,
         .end_time = 5,
         .size_bytes = 60,
         .fixed_offset = DAO_PLAN_NOWHERE,
         .pool = DAO_PLAN_ANY_POOL},
        {.begin_time = 2,
         .end_time = 3,
         .size_bytes = 10,
         .fixed_offset = DAO_PLAN_NOWHERE,
         .pool = DAO_PLAN_ANY_POOL},
        {.begin_time = 2,
         .end_time = 5,
         .size_bytes = 50,
         .fixed_offset = DAO_PLAN_NOWHERE,
         .pool = DAO_PLAN_ANY_POOL},
    };
    static const dao_plan_pool_t pool = {.capacity_bytes = 150};
    static const dao_plan_problem_t problem = {.buffers = buffers,
                                               .buffer_count = sizeof(buffers) / sizeof(buffers[0]),
                                               .pools = &pool,
                                               .pool_count = 1,
                                               .alignment_bytes = 1};
    static const dao_plan_quick_method_t first_fit = {.order = DAO_PLAN_ORDER_START};
    dao_plan_work_t work = dao_plan_work_unlimited();
    dao_plan_quick_t quick;
    CU_ASSERT_EQUAL_FATAL(dao_plan_quick_init(&quick, &problem, &work), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_quick_try(&quick, &first_fit, UINT64_MAX, &work), DAO_OK);
    CU_ASSERT_EQUAL(quick.best.unplaced_bytes,
                    60); /* 40 .. 100 are kept apart by the one that is alive there */
    CU_ASSERT_EQUAL_FATAL(dao_plan_quick_repeat(&quick, 1, &work), DAO_OK);
    CU_ASSERT(dao_plan_quick_is_complete(&quick));
    dao_plan_quick_finish(&quick);
}

/* Half of them live at a time: a pass that looks at these for each one takes at least 1,000 steps for each.
 */
static void many_are_settled_without_looks_at_all_of_each_other(void)
{
    enum { MANY = 17000, MOST_WORK = 100 * MANY };
    uint64_t random = dao_test_seed("many", 20261128), bytes = 0;
    dao_plan_buffer_t *buffers = calloc(MANY, sizeof(*buffers));
    CU_ASSERT_FATAL(buffers != NULL);
    for (uint32_t i = 0; i < MANY; i++) {
        buffers[i] = (dao_plan_buffer_t){.begin_time = i,
                                         .end_time = i + 1 + draw_from(&random, MANY),
                                         .size_bytes = 1 + draw_from(&random, 40),
                                         .fixed_offset = DAO_PLAN_NOWHERE,
                                         .pool = DAO_PLAN_ANY_POOL};
        bytes += buffers[i].size_bytes;
    }
    const dao_plan_pool_t pool = {.capacity_bytes = bytes / 4 * 3};
    const dao_plan_problem_t problem = {.buffers = buffers,
                                        .buffer_count = MANY,
                                        .pools = &pool,
                                        .pool_count = 1,
                                        .period = MANY,
                                        .alignment_bytes = 1};
    dao_plan_work_t work = dao_plan_work_unlimited();
    dao_plan_quick_t quick;
    CU_ASSERT_EQUAL_FATAL(dao_plan_quick_init(&quick, &problem, &work), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_quick_try(&quick, &pairs[0].quick, UINT64_MAX, &work), DAO_OK);
    CU_ASSERT(work.used < MOST_WORK);
    CU_ASSERT(dao_plan_quick_is_complete(&quick));
    CU_ASSERT_EQUAL(dao_plan_check(&problem, quick.offsets, NULL), DAO_OK);
    dao_plan_quick_finish(&quick);
    free(buffers);
}

static void a_cancelled_one_ends(void)
{
    uint64_t random = dao_test_seed("quick", 20261121);
    example_t example;
    _Atomic bool is_cancelled = false;
    dao_plan_work_t work = {.limit = UINT64_MAX, .is_cancelled = &is_cancelled};
    dao_plan_quick_t quick;
    draw(&random, &example);
    CU_ASSERT_EQUAL_FATAL(dao_plan_quick_init(&quick, &example.problem, &work), DAO_OK);
    is_cancelled = true;
    for (size_t i = 0; i < PAIR_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_plan_quick_try(&quick, &pairs[i].quick, UINT64_MAX, &work), DAO_ERR_STOPPED);
    }
    CU_ASSERT(!quick.has_best);
    dao_plan_quick_finish(&quick);
    CU_ASSERT_EQUAL(dao_plan_quick_init(&quick, &example.problem, &work), DAO_ERR_STOPPED);
}

static void without_memory_nothing_is_left(void)
{
    uint64_t random = dao_test_seed("quick", 20261121);
    example_t example;
    draw(&random, &example);
    uint64_t failed = 1;
    for (uint64_t n = 0; failed > 0; n++) {
        dao_plan_quick_t quick;
        dao_plan_work_t work = dao_plan_work_unlimited();
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = dao_plan_quick_init(&quick, &example.problem, &work);
        bool is_made = status == DAO_OK;
        for (size_t i = 0; i < PAIR_COUNT && status == DAO_OK; i++) {
            status = dao_plan_quick_try(&quick, &pairs[i].quick, UINT64_MAX, &work);
        }
        if (status == DAO_OK) {
            status = dao_plan_quick_repeat(&quick, 2, &work);
        }
        failed = dao_fault_disarm();
        CU_ASSERT(status == DAO_ERR_NO_HOST_MEMORY ||
                  status == DAO_OK); /* an assertion's memory may be the one */
        CU_ASSERT(failed > 0 || status == DAO_OK);
        if (is_made) {
            dao_plan_quick_finish(&quick);
        }
    }
}

static CU_TestInfo tests[] = {
    {"the best is kept", the_best_is_kept},
    {"what found no place comes first then", what_found_no_place_comes_first_then},
    {"many are settled without looks at all of each other",
     many_are_settled_without_looks_at_all_of_each_other},
    {"a cancelled one ends", a_cancelled_one_ends},
    {"without memory nothing is left", without_memory_nothing_is_left},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan quick", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
