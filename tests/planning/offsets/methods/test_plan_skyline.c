/* SPDX-License-Identifier: Apache-2.0 */
/* The skyline against a slow one that is filled time by time. */
#include "base/report/fault.h"
#include "planning/offsets/methods/skyline.h"
#include "tests/support/models/plans.h"
#include "tests/support/suite.h"

#include <dao/plan.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND_COUNT = 40 };

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

/* What skyline_start is to come to: the lowest time, at its left end the first item that fits between the
   higher ones. */
static void fill_slowly(const dao_plan_buffer_t *buffers, size_t count, size_t time_count, uint64_t *offsets)
{
    uint64_t *heights = calloc(time_count, sizeof(*heights));
    CU_ASSERT_PTR_NOT_NULL_FATAL(heights);
    memset(offsets, 0xff, count * sizeof(*offsets));
    for (size_t left = count; left > 0;) {
        size_t begin = 0;
        for (size_t time = 1; time < time_count; time++) {
            begin = heights[time] < heights[begin] ? time : begin;
        }
        size_t end = begin, found = SIZE_MAX;
        uint64_t height = heights[begin], next = UINT64_MAX;
        while (end < time_count && heights[end] == height) {
            end++;
        }
        for (size_t i = 0; i < count; i++) {
            bool fits = offsets[i] == DAO_PLAN_NOWHERE && buffers[i].begin_time >= begin &&
                        buffers[i].end_time <= end;
            if (fits && (found == SIZE_MAX || buffers[i].begin_time < buffers[found].begin_time)) {
                found = i;
            }
        }
        if (found != SIZE_MAX) {
            uint64_t alignment = buffers[found].alignment_bytes;
            offsets[found] = (height + alignment - 1) / alignment * alignment;
            for (size_t time = buffers[found].begin_time; time < buffers[found].end_time; time++) {
                heights[time] = offsets[found] + buffers[found].size_bytes;
            }
            left--;
            continue;
        }
        next = begin > 0 ? heights[begin - 1] : next;
        next = end < time_count && heights[end] < next ? heights[end] : next;
        CU_ASSERT_NOT_EQUAL_FATAL(next, UINT64_MAX);
        for (size_t time = begin; time < end; time++) {
            heights[time] = next;
        }
    }
    free(heights);
}

/* A few that begin together, and more than are packed. */
static void first_plans_are_those_of_the_model(void)
{
    uint64_t random = dao_test_seed("first plans", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        static const uint64_t ranges[] = {2, 5, 12, 40, 200};
        uint64_t range = ranges[round % 5];
        size_t count = 1 + dao_random_next(&random) % 150;
        dao_plan_buffer_t buffers[150];
        uint64_t offsets[150], wanted[150];
        for (size_t i = 0; i < count; i++) {
            uint64_t begin = i < range ? i : dao_random_next(&random) % range; /* one begins at each time */
            buffers[i] = (dao_plan_buffer_t){.begin_time = begin,
                                             .end_time = begin + 1 + dao_random_next(&random) % range,
                                             .size_bytes = 1 + dao_random_next(&random) % 30,
                                             .fixed_offset = DAO_PLAN_NOWHERE,
                                             .alignment_bytes = 1u << dao_random_next(&random) % 3,
                                             .pool = DAO_PLAN_ANY_POOL};
            uint64_t most = range < count ? range : count;
            buffers[i].end_time = buffers[i].end_time > most ? most : buffers[i].end_time;
        }
        const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = count};
        plan_by(&problem, DAO_PLAN_METHOD_SKYLINE_START, offsets);
        fill_slowly(buffers, count, range < count ? range : count, wanted);
        CU_ASSERT_EQUAL_FATAL(memcmp(offsets, wanted, count * sizeof(*offsets)), 0);
    }
}

/* Makes a layout by the skyline alone, in slices of `slice` steps of work, and checks what its header
   says. */
static void fill(dao_test_plan_t *plan, dao_plan_order_t order, uint64_t slice, uint64_t *out_offsets)
{
    static const _Atomic bool is_never_cancelled = false;
    dao_plan_instance_t instance;
    dao_plan_work_t work = {.limit = UINT64_MAX, .is_cancelled = &is_never_cancelled};
    const dao_plan_skyline_config_t config = {.order = order};
    dao_plan_skyline_t *skyline = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_init(&instance, &plan->problem, &work), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_skyline_create(&instance, &config, &work, &skyline), DAO_OK);
    for (bool is_done = false; !is_done;) {
        work.limit = work.used + slice;
        CU_ASSERT_EQUAL_FATAL(dao_plan_skyline_step(skyline, &work, &is_done), DAO_OK);
        CU_ASSERT(dao_plan_skyline_is_valid(skyline));
    }
    for (uint32_t i = 0; i < instance.item_count; i++) {
        out_offsets[instance.items[i].source] = dao_plan_skyline_layout(skyline)->offsets[i];
    }
    dao_plan_skyline_destroy(skyline);
    dao_plan_instance_finish(&instance);
}

static void slices_of_work_make_the_same_layout(void)
{
    static const dao_plan_order_t orders[] = {DAO_PLAN_ORDER_START, DAO_PLAN_ORDER_DURATION,
                                              DAO_PLAN_ORDER_AREA, DAO_PLAN_ORDER_SIZE};
    uint64_t random = dao_test_seed("slices", 20261122);
    for (int round = 0; round < 2 * ROUND_COUNT; round++) {
        dao_test_plan_t plan;
        uint64_t all[DAO_TEST_PLAN_BUFFERS_MAX], sliced[DAO_TEST_PLAN_BUFFERS_MAX];
        uint64_t count = dao_random_next(&random) % DAO_TEST_PLAN_BUFFERS_MAX;
        dao_test_plan_make(&plan, DAO_TEST_PLAN_ALIGNED, count, 40, &random);
        for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
            fill(&plan, orders[i], UINT32_MAX, all);
            fill(&plan, orders[i], 1, sliced);
            CU_ASSERT(dao_test_plan_is_valid(&plan.problem, all, NULL));
            CU_ASSERT_EQUAL(memcmp(all, sliced, count * sizeof(*all)), 0);
        }
    }
}

/* Weights decide who comes first: of two that live at the same time the heavier one lies below. */
static void weights_turn_the_order_round(void)
{
    const dao_plan_buffer_t buffers[] = {
        {.end_time = 4, .size_bytes = 8, .fixed_offset = DAO_PLAN_NOWHERE, .pool = DAO_PLAN_ANY_POOL},
        {.end_time = 4, .size_bytes = 2, .fixed_offset = DAO_PLAN_NOWHERE, .pool = DAO_PLAN_ANY_POOL},
    };
    const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = 2};
    static const float weights[] = {1.0f, 8.0f};
    for (int is_weighted = 0; is_weighted < 2; is_weighted++) {
        dao_plan_instance_t instance;
        dao_plan_work_t work = dao_plan_work_unlimited();
        const dao_plan_skyline_config_t config = {.order = DAO_PLAN_ORDER_SIZE,
                                                  .weights = is_weighted != 0 ? weights : NULL};
        dao_plan_skyline_t *skyline = NULL;
        bool is_done = false;
        CU_ASSERT_EQUAL_FATAL(dao_plan_instance_init(&instance, &problem, &work), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_plan_skyline_create(&instance, &config, &work, &skyline), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_plan_skyline_step(skyline, &work, &is_done), DAO_OK);
        CU_ASSERT(is_done);
        const uint64_t *offsets = dao_plan_skyline_layout(skyline)->offsets;
        CU_ASSERT_EQUAL(offsets[0], is_weighted != 0 ? 2 : 0);
        CU_ASSERT_EQUAL(offsets[1], is_weighted != 0 ? 0 : 8);
        dao_plan_skyline_destroy(skyline);
        dao_plan_instance_finish(&instance);
    }
}

/* Whichever allocation fails, it is said, nothing is leaked, and the step can be called again. */
static void it_lives_with_want_of_memory(void)
{
    dao_test_plan_t plan;
    uint64_t random = dao_test_seed("want of memory", 20261122);
    dao_test_plan_make(&plan, DAO_TEST_PLAN_FIXED, 24, 40, &random);
    bool is_done = false;
    for (uint64_t skip = 0; !is_done; skip++) {
        dao_plan_instance_t instance;
        dao_plan_work_t work = dao_plan_work_unlimited();
        const dao_plan_skyline_config_t config = {.order = DAO_PLAN_ORDER_AREA};
        dao_plan_skyline_t *skyline = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_plan_instance_init(&instance, &plan.problem, &work), DAO_OK);
        uint64_t used_bytes = instance.memory.used_bytes;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        dao_status_t status = dao_plan_skyline_create(&instance, &config, &work, &skyline);
        CU_ASSERT((status == DAO_OK) == (skyline != NULL));
        for (int tries = 0; status == DAO_OK && !is_done && tries < 2; tries++) {
            dao_status_t step = dao_plan_skyline_step(skyline, &work, &is_done);
            CU_ASSERT(step == DAO_OK || step == DAO_ERR_NO_HOST_MEMORY);
        }
        bool has_failed = dao_fault_disarm() > 0;
        CU_ASSERT(status == DAO_OK || (status == DAO_ERR_NO_HOST_MEMORY && has_failed));
        CU_ASSERT(status != DAO_OK || is_done);
        is_done = is_done && !has_failed;
        dao_plan_skyline_destroy(skyline);
        CU_ASSERT_EQUAL(instance.memory.used_bytes, used_bytes);
        dao_plan_instance_finish(&instance);
    }
}

static CU_TestInfo tests[] = {
    {"first plans are those of the model", first_plans_are_those_of_the_model},
    {"slices of work make the same layout", slices_of_work_make_the_same_layout},
    {"weights turn the order round", weights_turn_the_order_round},
    {"it lives with want of memory", it_lives_with_want_of_memory},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan skyline", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
