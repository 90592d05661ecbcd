/* SPDX-License-Identifier: Apache-2.0 */
/* Dropping, against tops that are kept tick by tick, and holes that are filled afterwards. */
#include "base/numbers/math.h"
#include "base/report/fault.h"
#include "planning/offsets/methods/drop.h"
#include "planning/offsets/methods/greedy.h"
#include "tests/support/models/plans.h"
#include "tests/support/suite.h"

#include <string.h>

enum { ROUNDS = 200, COUNT_MAX = 30, SIZE_MAX_BYTES = 9, TIMES_MAX = 256 };

static dao_test_plan_t plan;

static void draw_plan(uint64_t *random)
{
    uint32_t features =
        DAO_TEST_PLAN_ALIGNED | DAO_TEST_PLAN_CYCLIC | DAO_TEST_PLAN_CLOSED | DAO_TEST_PLAN_GAPS;
    dao_test_plan_make(&plan, (uint32_t)dao_random_next(random) & features,
                       1 + dao_random_next(random) % COUNT_MAX, SIZE_MAX_BYTES, random);
}

/* The offset of an item on tops that it raises. */
static uint64_t drop_slowly(const dao_plan_instance_t *instance, uint32_t item, uint64_t tops[TIMES_MAX])
{
    uint32_t count = dao_plan_instance_piece_count(instance, item);
    uint64_t offset = 0;
    for (int is_raising = 0; is_raising < 2; is_raising++) {
        for (uint32_t i = 0; i < count; i++) {
            dao_plan_piece_t piece =
                dao_plan_instance_piece(instance, dao_plan_instance_piece_at(instance, item, i));
            for (uint32_t time = piece.begin; time < piece.end; time++) {
                if (is_raising != 0) {
                    tops[time] = dao_larger(tops[time], offset + piece.high);
                } else if (tops[time] > piece.low) {
                    offset = dao_larger(offset, tops[time] - piece.low);
                }
            }
        }
        offset = dao_round_up(offset, UINT64_C(1) << instance->items[item].alignment_log2);
    }
    return offset;
}

static void each_lies_on_the_highest_top_beneath_it(void)
{
    uint64_t random = dao_test_seed("drop", 20261128);
    for (int round = 0; round < ROUNDS; round++) {
        dao_plan_instance_t instance;
        dao_plan_layout_t layout;
        dao_plan_work_t work = dao_plan_work_unlimited();
        uint64_t order[COUNT_MAX], tops[TIMES_MAX] = {0};
        draw_plan(&random);
        CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &plan.problem), DAO_OK);
        CU_ASSERT_FATAL(instance.time_count <= TIMES_MAX && dao_plan_drop_is_possible(&instance));
        CU_ASSERT_FATAL(dao_plan_layout_init(&layout, &instance, &work));
        for (uint32_t i = 0; i < instance.item_count; i++) {
            order[i] = instance.item_count - i; /* the last one first */
        }
        CU_ASSERT_EQUAL_FATAL(dao_plan_drop_items(&instance, order, &work, &layout), DAO_OK);
        for (uint32_t i = instance.item_count; i-- > 0;) {
            CU_ASSERT_EQUAL(layout.offsets[i], drop_slowly(&instance, i, tops));
        }
        dao_plan_layout_finish(&layout, &instance);
        dao_plan_instance_finish(&instance);
    }
}

/* Drops into a pool that is too small for some, and lets these look for holes. Both layouts, by buffer. */
static void drop_and_fill(dao_plan_instance_t *instance, uint64_t *dropped, uint64_t *filled)
{
    dao_plan_layout_t layout;
    dao_plan_work_t work = dao_plan_work_unlimited();
    dao_plan_greedy_t *greedy;
    uint64_t order[COUNT_MAX] = {0};
    bool is_done;
    CU_ASSERT_FATAL(dao_plan_layout_init(&layout, instance, &work));
    CU_ASSERT_EQUAL_FATAL(dao_plan_drop_items(instance, order, &work, &layout), DAO_OK);
    const dao_plan_greedy_config_t config = {
        .order = DAO_PLAN_ORDER_OFFSET, .offsets = layout.offsets, .placed = layout.offsets};
    CU_ASSERT_EQUAL_FATAL(dao_plan_greedy_create(instance, &config, &work, &greedy), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_greedy_step(greedy, &work, &is_done), DAO_OK);
    CU_ASSERT_FATAL(is_done);
    for (uint32_t i = 0; i < instance->item_count; i++) {
        dropped[instance->items[i].source] = layout.offsets[i];
        filled[instance->items[i].source] = dao_plan_greedy_layout(greedy)->offsets[i];
    }
    dao_plan_greedy_destroy(greedy);
    dao_plan_layout_finish(&layout, instance);
}

static void what_finds_no_place_gets_a_hole(void)
{
    static const dao_plan_pool_t pool = {.capacity_bytes = 40};
    uint64_t random = dao_test_seed("fill", 20261128);
    size_t left_count = 0, filled_count = 0;
    for (int round = 0; round < ROUNDS; round++) {
        dao_plan_instance_t instance;
        uint64_t dropped[COUNT_MAX], filled[COUNT_MAX];
        draw_plan(&random);
        plan.problem.pools = &pool;
        plan.problem.pool_count = 1;
        if (dao_plan_instance_make(&instance, &plan.problem) != DAO_OK) {
            continue; /* one alone is too large */
        }
        drop_and_fill(&instance, dropped, filled);
        dao_plan_instance_finish(&instance);
        CU_ASSERT(dao_test_plan_is_valid(&plan.problem, dropped, NULL));
        CU_ASSERT(dao_test_plan_is_valid(&plan.problem, filled, NULL));
        for (size_t i = 0; i < plan.problem.buffer_count; i++) {
            bool is_left = dropped[i] == DAO_PLAN_NOWHERE;
            CU_ASSERT(is_left || dropped[i] == filled[i]);
            left_count += is_left ? 1 : 0;
            filled_count += is_left && filled[i] != DAO_PLAN_NOWHERE ? 1 : 0;
        }
    }
    CU_ASSERT(filled_count > left_count / 8);
}

#if defined(DAO_FAULTS)
static void it_lives_with_want_of_memory(void)
{
    uint64_t random = dao_test_seed("want of memory", 20261128);
    dao_plan_instance_t instance;
    dao_plan_layout_t layout;
    dao_plan_work_t work = dao_plan_work_unlimited();
    uint64_t order[COUNT_MAX] = {0};
    dao_test_plan_make(&plan, 0, COUNT_MAX, SIZE_MAX_BYTES, &random);
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &plan.problem), DAO_OK);
    CU_ASSERT_FATAL(dao_plan_layout_init(&layout, &instance, &work));
    uint64_t used_bytes = instance.memory.used_bytes;
    bool is_complete = false;
    for (uint64_t skip = 0; !is_complete; skip++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        dao_status_t status = dao_plan_drop_items(&instance, order, &work, &layout);
        is_complete = dao_fault_disarm() == 0;
        CU_ASSERT_EQUAL(status, is_complete ? DAO_OK : DAO_ERR_NO_HOST_MEMORY);
        CU_ASSERT_EQUAL(instance.memory.used_bytes, used_bytes);
    }
    dao_plan_layout_finish(&layout, &instance);
    dao_plan_instance_finish(&instance);
}
#endif

static CU_TestInfo tests[] = {
    {"each lies on the highest top beneath it", each_lies_on_the_highest_top_beneath_it},
    {"what finds no place gets a hole", what_finds_no_place_gets_a_hole},
#if defined(DAO_FAULTS)
    {"it lives with want of memory", it_lives_with_want_of_memory},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan drop", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
