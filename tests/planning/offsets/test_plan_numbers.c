/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of times and the trees that methods look into, against slow models. */
#include "planning/offsets/support/tree.h"
#include "tests/support/suite.h"

#include <dao/plan.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_COUNT = 700, NUMBER_COUNT = 40, CHANGE_COUNT = 4000, BUFFER_COUNT = 600, ROUND_COUNT = 40 };

/* ---- trees ---- */

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

/* ---- numbers ---- */

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

/* ---- first plans ---- */

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

static CU_TestInfo tests[] = {
    {"a tree finds what the model finds", a_tree_finds_what_the_model_finds},
    {"times apart and close together are the same", times_apart_and_close_together_are_the_same},
    {"first plans are those of the model", first_plans_are_those_of_the_model},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan numbers", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
