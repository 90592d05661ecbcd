/* SPDX-License-Identifier: Apache-2.0 */
/* The tree that methods look into, against a row of numbers. */
#include "base/report/fault.h"
#include "planning/offsets/support/tree.h"
#include "tests/support/suite.h"

#include <string.h>

enum { PLACE_COUNT = 700, NUMBER_COUNT = 40, CHANGE_COUNT = 4000 };

static uint32_t find_slowly(const uint32_t *numbers, uint32_t low, uint32_t high, uint32_t most)
{
    while (low < high && numbers[low] > most) {
        low++;
    }
    return low;
}

/* Numbers from both ends of what there are: a comparison must not see signs. */
static uint32_t draw_number(uint64_t *random)
{
    uint32_t number = (uint32_t)(dao_random_next(random) % NUMBER_COUNT);
    switch (dao_random_next(random) % 3) {
    case 0:
        return DAO_PLAN_TREE_NONE;
    case 1:
        return ~number - 1;
    default:
        return number;
    }
}

static void a_tree_finds_what_the_model_finds(void)
{
    uint64_t random = dao_test_seed("trees", 20261122);
    static const uint32_t counts[] = {1, 15, 16, 17, 255, 257, PLACE_COUNT};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint32_t numbers[PLACE_COUNT], count = counts[i];
        dao_plan_memory_t memory = {0};
        dao_plan_work_t work = dao_plan_work_unlimited();
        dao_plan_tree_t tree;
        memset(numbers, 0xff, sizeof(numbers));
        CU_ASSERT_FATAL(dao_plan_tree_init(&tree, &memory, count, &work));
        for (int change = 0; change < CHANGE_COUNT; change++) {
            uint32_t place = (uint32_t)(dao_random_next(&random) % count);
            numbers[place] = draw_number(&random);
            dao_plan_tree_set(&tree, place, numbers[place]);
            CU_ASSERT_FATAL(dao_plan_tree_is_valid(&tree));
            uint32_t low = (uint32_t)(dao_random_next(&random) % (count + 1));
            uint32_t high = low + (uint32_t)(dao_random_next(&random) % (count + 1 - low));
            uint32_t most = draw_number(&random);
            most -= most == DAO_PLAN_TREE_NONE ? 1 : 0;
            CU_ASSERT_EQUAL_FATAL(dao_plan_tree_find(&tree, low, high, most),
                                  find_slowly(numbers, low, high, most));
        }
        dao_plan_tree_finish(&tree, &memory);
        CU_ASSERT_EQUAL(memory.used_bytes, 0);
    }
}

/* Filling the lowest level and building is the same as setting each place; what lies behind the last place is
   never found. */
static void building_is_setting_each_place(void)
{
    uint64_t random = dao_test_seed("building", 20261122);
    static const uint32_t counts[] = {0, 1, 16, 17, 256, 257, PLACE_COUNT};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint32_t numbers[PLACE_COUNT] = {0}, count = counts[i];
        dao_plan_memory_t memory = {0};
        dao_plan_work_t work = dao_plan_work_unlimited();
        dao_plan_tree_t tree;
        CU_ASSERT_FATAL(dao_plan_tree_init(&tree, &memory, count, &work));
        for (uint32_t place = 0; place < count; place++) {
            numbers[place] = draw_number(&random);
            tree.levels[0][place] = numbers[place];
        }
        dao_plan_tree_build(&tree, &work);
        CU_ASSERT(dao_plan_tree_is_valid(&tree));
        for (uint32_t most = 0; most < NUMBER_COUNT; most++) {
            CU_ASSERT_EQUAL(dao_plan_tree_find(&tree, 0, count, most), find_slowly(numbers, 0, count, most));
        }
        CU_ASSERT_EQUAL(dao_plan_tree_find(&tree, count, count, DAO_PLAN_TREE_NONE - 1), count);
        dao_plan_tree_finish(&tree, &memory);
        CU_ASSERT_EQUAL(memory.used_bytes, 0);
    }
}

static void without_memory_there_is_no_tree(void)
{
    bool is_made = false;
    for (uint64_t skip = 0; !is_made; skip++) {
        dao_plan_memory_t memory = {0};
        dao_plan_work_t work = dao_plan_work_unlimited();
        dao_plan_tree_t tree;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, true);
        is_made = dao_plan_tree_init(&tree, &memory, PLACE_COUNT, &work);
        CU_ASSERT_EQUAL(is_made, dao_fault_disarm() == 0);
        dao_plan_tree_finish(&tree, &memory);
        CU_ASSERT_EQUAL(memory.used_bytes, 0);
    }
}

static CU_TestInfo tests[] = {
    {"a tree finds what the model finds", a_tree_finds_what_the_model_finds},
    {"building is setting each place", building_is_setting_each_place},
    {"without memory there is no tree", without_memory_there_is_no_tree},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan tree", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
