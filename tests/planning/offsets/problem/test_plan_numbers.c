/* SPDX-License-Identifier: Apache-2.0 */
/* Times as numbers of beginnings, against slow models. */
#include "planning/offsets/problem/rows.h"
#include "tests/support/suite.h"

#include <dao/plan.h>
#include <string.h>

enum { BUFFER_COUNT = 600, ROUND_COUNT = 40 };

/* Plans a problem by a method, and copies the offsets. */
static void plan_by(const dao_plan_problem_t *problem, dao_plan_method_t method, uint64_t *out_offsets)
{
    const dao_planner_config_t config = {.method = method};
    dao_plan_t *plan = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_plan_make(problem, &config, &plan), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_check(problem, dao_plan_offsets(plan), NULL), DAO_OK);
    memcpy(out_offsets, dao_plan_offsets(plan), problem->buffer_count * sizeof(*out_offsets));
    dao_plan_release(plan);
}

/* Times that lie apart are sorted, where those close together are counted; only who overlaps whom matters. */
static void times_apart_and_close_together_are_the_same(void)
{
    static const uint64_t scales[] = {3, 1000, UINT64_C(1) << 40};
    uint64_t random = dao_test_seed("numbers", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        dao_plan_buffer_t close[BUFFER_COUNT], apart[BUFFER_COUNT];
        uint64_t first = dao_random_next(&random) % 1000, range = 1 + dao_random_next(&random) % BUFFER_COUNT;
        for (size_t i = 0; i < BUFFER_COUNT; i++) {
            close[i] = (dao_plan_buffer_t){.begin_time = first + dao_random_next(&random) % range,
                                           .size_bytes = 1 + dao_random_next(&random) % 100,
                                           .fixed_offset = DAO_PLAN_NOWHERE,
                                           .alignment_bytes = 1u << dao_random_next(&random) % 4,
                                           .pool = DAO_PLAN_ANY_POOL};
            close[i].end_time = close[i].begin_time + 1 + dao_random_next(&random) % (2 * range);
        }
        const dao_plan_problem_t problem = {.buffers = close, .buffer_count = BUFFER_COUNT};
        uint64_t offsets[BUFFER_COUNT], others[BUFFER_COUNT];
        for (size_t scale = 0; scale < sizeof(scales) / sizeof(scales[0]); scale++) {
            const dao_plan_problem_t scaled = {.buffers = apart, .buffer_count = BUFFER_COUNT};
            memcpy(apart, close, sizeof(apart));
            for (size_t i = 0; i < BUFFER_COUNT; i++) {
                apart[i].begin_time *= scales[scale];
                apart[i].end_time *= scales[scale];
            }
            plan_by(&problem, DAO_PLAN_METHOD_SKYLINE_START, offsets);
            plan_by(&scaled, DAO_PLAN_METHOD_SKYLINE_START, others);
            CU_ASSERT_EQUAL_FATAL(memcmp(offsets, others, sizeof(offsets)), 0);
        }
    }
}

static CU_TestInfo tests[] = {
    {"times apart and close together are the same", times_apart_and_close_together_are_the_same},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan numbers", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
