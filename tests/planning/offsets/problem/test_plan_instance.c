/* SPDX-License-Identifier: Apache-2.0 */
/* Items and pieces of a problem: overlaps are those of the problem, in numbers that are as small as can
   be. */
#include "base/report/fault.h"
#include "planning/offsets/problem/instance.h"
#include "tests/support/models/plans.h"
#include "tests/support/suite.h"

#include <stdlib.h>

enum { ROUND_COUNT = 500 };

static void the_picture_in_the_header_holds(void)
{
    const dao_plan_buffer_t buffers[] = {
        {.begin_time = 44, .end_time = 70, .size_bytes = 3, .fixed_offset = DAO_PLAN_NOWHERE},
        {.begin_time = 10, .end_time = 40, .size_bytes = 1, .fixed_offset = DAO_PLAN_NOWHERE},
        {.begin_time = 25, .end_time = 44, .size_bytes = 2, .fixed_offset = DAO_PLAN_NOWHERE},
    };
    const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = 3, .alignment_bytes = 64};
    dao_plan_instance_t instance;
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &problem), DAO_OK);
    static const uint32_t sources[] = {1, 2, 0}, begins[] = {0, 1, 2}, ends[] = {2, 2, 3};
    CU_ASSERT(instance.item_count == 3 && instance.piece_count == 3 && instance.time_count == 3);
    CU_ASSERT(dao_plan_instance_is_plain(&instance) && instance.pool_count == 1 && !instance.has_capacity);
    for (uint32_t i = 0; i < 3; i++) {
        const dao_plan_item_t *item = &instance.items[i];
        CU_ASSERT(item->source == sources[i] && item->begin == begins[i] && item->end == ends[i]);
        CU_ASSERT(item->alignment_log2 == 6 && !item->is_fixed && item->pool == 0);
        dao_plan_piece_t piece = dao_plan_instance_piece(&instance, i);
        CU_ASSERT(piece.item == i && piece.low == 0 && piece.high == item->size_bytes);
    }
    dao_plan_instance_finish(&instance);
    CU_ASSERT_EQUAL(instance.memory.used_bytes, 0);
}

static void a_problem_without_buffers_has_no_items(void)
{
    const dao_plan_problem_t problem = {.buffer_count = 0};
    dao_plan_instance_t instance;
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &problem), DAO_OK);
    CU_ASSERT(instance.item_count == 0 && instance.piece_count == 0 && instance.bound_bytes == 0);
    CU_ASSERT(dao_plan_instance_is_valid(&instance));
    dao_plan_instance_finish(&instance);
}

/* Times that are counted, not sorted; arrays of pages. The bound's array is gone before the items come. */
static void it_takes_no_more_than_rows_and_items(void)
{
    enum { COUNT = 200000, SLACK_BYTES = 1 << 16 };
    dao_plan_buffer_t *buffers = calloc(COUNT, sizeof(*buffers));
    CU_ASSERT_PTR_NOT_NULL_FATAL(buffers);
    for (size_t i = 0; i < COUNT; i++) {
        buffers[i] = (dao_plan_buffer_t){
            .begin_time = i, .end_time = i + 2, .size_bytes = 1 + i % 3, .fixed_offset = DAO_PLAN_NOWHERE};
    }
    const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = COUNT};
    size_t row_bytes = 2 * sizeof(uint64_t) + sizeof(uint32_t); /* begin, end and place */
    dao_plan_instance_t instance;
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &problem), DAO_OK);
    CU_ASSERT_EQUAL(instance.bound_bytes, 5);
    CU_ASSERT(instance.memory.most_bytes <= COUNT * (row_bytes + sizeof(dao_plan_item_t)) + SLACK_BYTES);
    dao_plan_instance_finish(&instance);
    free(buffers);
}

/* Returns true if the instance lets two items share bytes at these offsets. */
static bool do_clash(const dao_plan_instance_t *instance, uint32_t left, uint32_t right, uint64_t offset)
{
    for (uint32_t i = 0; i < dao_plan_instance_piece_count(instance, left); i++) {
        dao_plan_piece_t one =
            dao_plan_instance_piece(instance, dao_plan_instance_piece_at(instance, left, i));
        for (uint32_t k = 0; k < dao_plan_instance_piece_count(instance, right); k++) {
            dao_plan_piece_t other =
                dao_plan_instance_piece(instance, dao_plan_instance_piece_at(instance, right, k));
            if (one.begin < other.end && other.begin < one.end && one.low < offset + other.high &&
                offset + other.low < one.high && !dao_plan_instance_is_ordered(instance, left, right)) {
                return true;
            }
        }
    }
    return false;
}

static void pieces_clash_where_the_model_says_so(void)
{
    uint64_t random = dao_test_seed("instance", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        dao_test_plan_t plan;
        dao_plan_instance_t instance;
        uint32_t features = (uint32_t)dao_random_next(&random) % DAO_TEST_PLAN_FEATURES;
        dao_test_plan_make(&plan, features, 1 + dao_random_next(&random) % 6, 6, &random);
        dao_status_t status = dao_plan_instance_make(&instance, &plan.problem);
        CU_ASSERT_FATAL(status == DAO_OK || status == DAO_ERR_INVALID); /* gaps may fill a life */
        if (status != DAO_OK) {
            continue;
        }
        CU_ASSERT(dao_plan_instance_is_valid(&instance));
        for (uint32_t i = 0; i < instance.item_count; i++) {
            for (uint32_t k = 0; k < i; k++) {
                size_t left = instance.items[i].source, right = instance.items[k].source;
                for (uint64_t offset = 0; offset < 6; offset++) {
                    CU_ASSERT_EQUAL(do_clash(&instance, i, k, offset),
                                    dao_test_plan_do_clash(&plan.problem, left, 0, right, offset));
                }
            }
        }
        dao_plan_instance_finish(&instance);
    }
}

static void want_of_memory_leaves_nothing(void)
{
    dao_test_plan_t plan;
    uint64_t random = dao_test_seed("want of memory", 20261122);
    static const uint32_t features[] = {0, DAO_TEST_PLAN_FIXED, DAO_TEST_PLAN_CYCLIC, DAO_TEST_PLAN_CLOCKS};
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
        dao_test_plan_make(&plan, features[i], 20, 8, &random);
        dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
        for (uint64_t skip = 0; status != DAO_OK; skip++) {
            dao_plan_instance_t instance;
            dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
            status = dao_plan_instance_make(&instance, &plan.problem);
            bool has_failed = dao_fault_disarm() > 0;
            CU_ASSERT_EQUAL_FATAL(status, has_failed ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
            CU_ASSERT(status == DAO_OK || instance.memory.used_bytes == 0);
            if (status == DAO_OK) {
                dao_plan_instance_finish(&instance);
            }
        }
    }
}

static void it_can_be_cancelled(void)
{
    dao_test_plan_t plan;
    uint64_t random = dao_test_seed("cancelled", 20261122);
    dao_test_plan_make(&plan, DAO_TEST_PLAN_CYCLIC, 20, 8, &random);
    _Atomic bool is_cancelled = true;
    dao_plan_work_t work = {.limit = UINT64_MAX, .is_cancelled = &is_cancelled};
    dao_plan_instance_t instance;
    CU_ASSERT_NOT_EQUAL(dao_plan_instance_init(&instance, &plan.problem, &work), DAO_OK);
    dao_plan_instance_finish(&instance);
    CU_ASSERT_EQUAL(instance.memory.used_bytes, 0);
}

static CU_TestInfo tests[] = {
    {"the picture in the header holds", the_picture_in_the_header_holds},
    {"a problem without buffers has no items", a_problem_without_buffers_has_no_items},
    {"it takes no more than rows and items", it_takes_no_more_than_rows_and_items},
    {"pieces clash where the model says so", pieces_clash_where_the_model_says_so},
    {"want of memory leaves nothing", want_of_memory_leaves_nothing},
    {"it can be cancelled", it_can_be_cancelled},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan instance", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
