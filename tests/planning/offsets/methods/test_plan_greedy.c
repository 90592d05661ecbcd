/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy placement, against a slow one that tries every offset. */
#include "base/report/fault.h"
#include "planning/offsets/methods/greedy.h"
#include "tests/support/models/plans.h"
#include "tests/support/suite.h"

#include <string.h>

enum { ROUND_COUNT = 250, COUNT_MAX = 20, SIZE_MAX_BYTES = 9 };

static dao_test_plan_t plan;

/* Places by the library in slices of `slice` steps of work. */
static dao_status_t place(const dao_plan_greedy_config_t *config, uint64_t slice, uint64_t *out_offsets,
                          uint32_t *out_pools)
{
    static const _Atomic bool is_never_cancelled = false;
    dao_plan_instance_t instance;
    dao_plan_work_t work = {.limit = UINT64_MAX, .is_cancelled = &is_never_cancelled};
    dao_plan_greedy_t *greedy = NULL;
    dao_status_t status = dao_plan_instance_make(&instance, &plan.problem);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t used_bytes = instance.memory.used_bytes;
    CU_ASSERT_EQUAL_FATAL(dao_plan_greedy_create(&instance, config, &work, &greedy), DAO_OK);
    for (bool is_done = false; !is_done;) {
        work.limit = work.used + slice;
        CU_ASSERT_EQUAL_FATAL(dao_plan_greedy_step(greedy, &work, &is_done), DAO_OK);
    }
    const dao_plan_layout_t *layout = dao_plan_greedy_layout(greedy);
    for (uint32_t i = 0; i < instance.item_count; i++) {
        out_offsets[instance.items[i].source] = layout->offsets[i];
        out_pools[instance.items[i].source] = dao_plan_layout_pool(layout, i);
    }
    dao_plan_greedy_destroy(greedy);
    CU_ASSERT_EQUAL(instance.memory.used_bytes, used_bytes);
    dao_plan_instance_finish(&instance);
    return DAO_OK;
}

/* Returns true if a buffer may lie at an offset beside those that are placed. */
static bool is_free(const uint64_t *offsets, size_t index, uint64_t offset)
{
    for (size_t i = 0; i < plan.problem.buffer_count; i++) {
        if (i != index && offsets[i] != DAO_PLAN_NOWHERE &&
            dao_test_plan_do_clash(&plan.problem, index, offset, i, offsets[i])) {
            return false;
        }
    }
    return true;
}

/* By start into the lowest offset that is free, without pools and fixed offsets: what `start_first_fit`
   says. */
static void place_slowly(uint64_t *offsets)
{
    size_t count = plan.problem.buffer_count;
    memset(offsets, 0xff, count * sizeof(*offsets));
    for (size_t placed = 0; placed < count; placed++) {
        size_t next = count;
        for (size_t i = 0; i < count; i++) { /* of equal begins the first one */
            bool comes_first = next == count || plan.buffers[i].begin_time < plan.buffers[next].begin_time;
            next = offsets[i] == DAO_PLAN_NOWHERE && comes_first ? i : next;
        }
        uint64_t alignment = plan.buffers[next].alignment_bytes;
        alignment = alignment == 0 ? plan.problem.alignment_bytes : alignment;
        alignment = alignment == 0 ? 1 : alignment;
        uint64_t offset = 0;
        while (!is_free(offsets, next, offset)) {
            offset += alignment;
        }
        offsets[next] = offset;
    }
}

static void by_start_into_the_lowest_hole_is_what_the_model_does(void)
{
    uint64_t random = dao_test_seed("greedy", 20261122);
    const dao_plan_greedy_config_t config = {.order = DAO_PLAN_ORDER_START};
    for (int round = 0; round < ROUND_COUNT; round++) {
        uint64_t offsets[COUNT_MAX], wanted[COUNT_MAX];
        uint32_t pools[COUNT_MAX];
        dao_test_plan_make(&plan, DAO_TEST_PLAN_ALIGNED | DAO_TEST_PLAN_CLOSED,
                           dao_random_next(&random) % (COUNT_MAX + 1), SIZE_MAX_BYTES, &random);
        CU_ASSERT_EQUAL_FATAL(place(&config, UINT32_MAX, offsets, pools), DAO_OK);
        place_slowly(wanted);
        CU_ASSERT_EQUAL_FATAL(memcmp(offsets, wanted, plan.problem.buffer_count * sizeof(*wanted)), 0);
    }
}

static void every_order_and_slice_makes_a_valid_layout(void)
{
    static const dao_plan_order_t orders[] = {DAO_PLAN_ORDER_START, DAO_PLAN_ORDER_DURATION,
                                              DAO_PLAN_ORDER_AREA, DAO_PLAN_ORDER_SIZE,
                                              DAO_PLAN_ORDER_BREADTH};
    uint64_t random = dao_test_seed("orders", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        uint64_t offsets[COUNT_MAX], sliced[COUNT_MAX];
        uint32_t pools[COUNT_MAX], sliced_pools[COUNT_MAX];
        uint32_t features =
            (uint32_t)dao_random_next(&random) % DAO_TEST_PLAN_FEATURES & ~(uint32_t)DAO_TEST_PLAN_FIXED;
        dao_test_plan_make(&plan, features, 1 + dao_random_next(&random) % COUNT_MAX, SIZE_MAX_BYTES,
                           &random);
        for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
            const dao_plan_greedy_config_t config = {.order = orders[i],
                                                     .is_best_fit = dao_random_next(&random) % 2 == 0,
                                                     .grows_least = dao_random_next(&random) % 2 == 0};
            if (place(&config, UINT32_MAX, offsets, pools) == DAO_OK) {
                CU_ASSERT_EQUAL(place(&config, 1, sliced, sliced_pools), DAO_OK);
                CU_ASSERT(dao_test_plan_is_valid(&plan.problem, offsets, pools));
                CU_ASSERT_EQUAL(memcmp(offsets, sliced, plan.problem.buffer_count * sizeof(*offsets)), 0);
            }
        }
    }
}

/* Two holes, of 4 and of 2 bytes: a buffer of 2 goes into the lower one, or into the smaller one. */
static void the_best_fit_is_the_smallest_hole(void)
{
    static const uint64_t ends[] = {9, 1, 9, 1, 9, 9}, begins[] = {0, 0, 0, 0, 0, 2};
    static const uint64_t sizes[] = {8, 4, 8, 2, 8, 2};
    memset(&plan, 0, sizeof(plan));
    plan.problem = (dao_plan_problem_t){.buffers = plan.buffers, .buffer_count = 6};
    uint64_t at = 0;
    for (size_t i = 0; i < 6; i++) {
        plan.buffers[i] = (dao_plan_buffer_t){.begin_time = begins[i],
                                              .end_time = ends[i],
                                              .size_bytes = sizes[i],
                                              .fixed_offset = i < 5 ? at : DAO_PLAN_NOWHERE};
        at += sizes[i];
    }
    for (int is_best = 0; is_best < 2; is_best++) {
        const dao_plan_greedy_config_t config = {.order = DAO_PLAN_ORDER_START, .is_best_fit = is_best != 0};
        uint64_t offsets[6];
        uint32_t pools[6];
        CU_ASSERT_EQUAL_FATAL(place(&config, UINT32_MAX, offsets, pools), DAO_OK);
        CU_ASSERT_EQUAL(offsets[5], is_best != 0 ? 20 : 8);
    }
}

/* While the other one is there, the second buffer uses its bytes from the fifth on: those lie behind it. */
static void what_a_gap_leaves_free_is_used(void)
{
    static const dao_plan_gap_t gap = {.buffer = 1, .begin_time = 0, .end_time = 1, .high_byte = 4};
    const dao_plan_greedy_config_t config = {.order = DAO_PLAN_ORDER_START};
    uint64_t offsets[2];
    uint32_t pools[2];
    memset(&plan, 0, sizeof(plan));
    plan.problem =
        (dao_plan_problem_t){.buffers = plan.buffers, .buffer_count = 2, .gaps = &gap, .gap_count = 1};
    plan.buffers[0] = (dao_plan_buffer_t){.end_time = 1, .size_bytes = 10, .fixed_offset = DAO_PLAN_NOWHERE};
    plan.buffers[1] = (dao_plan_buffer_t){.end_time = 3, .size_bytes = 8, .fixed_offset = DAO_PLAN_NOWHERE};
    CU_ASSERT_EQUAL_FATAL(place(&config, UINT32_MAX, offsets, pools), DAO_OK);
    CU_ASSERT(offsets[0] == 0 && offsets[1] == 6);
}

static void it_ends_once_too_much_is_left_out(void)
{
    static const dao_plan_pool_t pool = {.capacity_bytes = 10};
    memset(&plan, 0, sizeof(plan));
    plan.problem =
        (dao_plan_problem_t){.buffers = plan.buffers, .buffer_count = 5, .pools = &pool, .pool_count = 1};
    for (size_t i = 0; i < 5; i++) {
        plan.buffers[i] = (dao_plan_buffer_t){.begin_time = i < 4 ? 0 : 5,
                                              .end_time = i < 4 ? 1 : 6,
                                              .size_bytes = 10,
                                              .fixed_offset = DAO_PLAN_NOWHERE};
    }
    dao_plan_greedy_config_t config = {.order = DAO_PLAN_ORDER_START};
    uint64_t offsets[5];
    uint32_t pools[5];
    CU_ASSERT_EQUAL_FATAL(place(&config, UINT32_MAX, offsets, pools), DAO_OK);
    CU_ASSERT(offsets[0] == 0 && offsets[3] == DAO_PLAN_NOWHERE && offsets[4] == 0);
    config.left_out_bytes_max = 20;
    CU_ASSERT_EQUAL_FATAL(place(&config, UINT32_MAX, offsets, pools), DAO_OK);
    CU_ASSERT(offsets[0] == 0 && offsets[4] == DAO_PLAN_NOWHERE);
}

static void it_lives_with_want_of_memory(void)
{
    uint64_t random = dao_test_seed("want of memory", 20261122);
    dao_test_plan_make(&plan, 0, COUNT_MAX, SIZE_MAX_BYTES, &random);
    bool is_complete = false;
    for (uint64_t skip = 0; !is_complete; skip++) {
        const dao_plan_greedy_config_t config = {.order = DAO_PLAN_ORDER_BREADTH};
        dao_plan_instance_t instance;
        dao_plan_work_t work = dao_plan_work_unlimited();
        dao_plan_greedy_t *greedy = NULL;
        bool is_done = false;
        CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &plan.problem), DAO_OK);
        uint64_t used_bytes = instance.memory.used_bytes;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        dao_status_t status = dao_plan_greedy_create(&instance, &config, &work, &greedy);
        for (int tries = 0; status == DAO_OK && !is_done && tries < 2; tries++) {
            dao_status_t step = dao_plan_greedy_step(greedy, &work, &is_done);
            CU_ASSERT(step == DAO_OK || step == DAO_ERR_NO_HOST_MEMORY);
        }
        is_complete = dao_fault_disarm() == 0;
        CU_ASSERT(is_complete ? is_done : status == DAO_ERR_NO_HOST_MEMORY || is_done);
        dao_plan_greedy_destroy(greedy);
        CU_ASSERT_EQUAL(instance.memory.used_bytes, used_bytes);
        dao_plan_instance_finish(&instance);
    }
}

static CU_TestInfo tests[] = {
    {"by start into the lowest hole is what the model does",
     by_start_into_the_lowest_hole_is_what_the_model_does},
    {"every order and slice makes a valid layout", every_order_and_slice_makes_a_valid_layout},
    {"the best fit is the smallest hole", the_best_fit_is_the_smallest_hole},
    {"what a gap leaves free is used", what_a_gap_leaves_free_is_used},
    {"it ends once too much is left out", it_ends_once_too_much_is_left_out},
    {"it lives with want of memory", it_lives_with_want_of_memory},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan greedy", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
