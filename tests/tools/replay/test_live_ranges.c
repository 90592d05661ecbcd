/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses: one that shares a byte with another is seen, and nothing else is. */
#include "base/report/fault.h"
#include "tests/support/suite.h"
#include "tools/replay/live_ranges.h"

#include <string.h>

enum { MODEL_COUNT = 64, ADDRESS_COUNT = 2000, RANDOM_COUNT = 20000 };

static dao_live_ranges_t live;

static int begin(void)
{
    live = (dao_live_ranges_t){0};
    return 0;
}

static int end(void)
{
    dao_live_ranges_finish(&live);
    return 0;
}

/* Returns the owner that the range shares bytes with, or 0. */
static uint32_t add(uint64_t first, uint64_t last, uint32_t owner)
{
    const dao_live_range_t range = {first, last, owner};
    const dao_live_range_t *other;
    CU_ASSERT_EQUAL_FATAL(dao_live_ranges_add(&live, &range, &other), DAO_OK);
    CU_ASSERT(dao_live_ranges_is_valid(&live));
    return other != NULL ? other->owner : 0;
}

static void what_shares_a_byte_is_seen(void)
{
    dao_live_ranges_finish(&live);
    CU_ASSERT_EQUAL(add(100, 200, 1), 0);
    CU_ASSERT_EQUAL(add(300, 400, 2), 0);
    CU_ASSERT_EQUAL(add(200, 300, 3), 0); /* touching is no sharing */
    CU_ASSERT_EQUAL(add(99, 101, 4), 1);
    CU_ASSERT_EQUAL(add(199, 200, 4), 1);
    CU_ASSERT_EQUAL(add(120, 130, 4), 1);
    CU_ASSERT_EQUAL(add(100, 200, 4), 1);
    CU_ASSERT_EQUAL(add(0, 1000, 4), 1); /* the first of them */
    CU_ASSERT_EQUAL(add(399, 500, 4), 2);
    CU_ASSERT_EQUAL(add(50, 100, 4), 0);
    CU_ASSERT_EQUAL(add(400, 500, 5), 0);
    CU_ASSERT_EQUAL(live.count, 5);
}

static void what_could_not_be_added_removes_nobody(void)
{
    dao_live_ranges_finish(&live);
    CU_ASSERT_EQUAL(add(100, 200, 1), 0);
    CU_ASSERT_EQUAL(add(100, 150, 2), 1);
    dao_live_ranges_remove(&live, 100, 2);
    CU_ASSERT_EQUAL(add(199, 300, 3), 1);
    dao_live_ranges_remove(&live, 150, 1); /* nothing begins there */
    CU_ASSERT_EQUAL(live.count, 1);
    dao_live_ranges_remove(&live, 100, 1);
    CU_ASSERT_EQUAL(live.count, 0);
    CU_ASSERT_EQUAL(add(100, 200, 4), 0);
}

static void what_is_out_of_order_is_not_valid(void)
{
    dao_live_range_t ranges[2] = {{0, 10, 1}, {10, 20, 2}};
    dao_live_ranges_t made = {.ranges = ranges, .count = 2, .capacity = 2};
    CU_ASSERT(dao_live_ranges_is_valid(&made));
    ranges[1].begin = 9;
    CU_ASSERT_FALSE(dao_live_ranges_is_valid(&made));
    ranges[1] = (dao_live_range_t){20, 20, 2};
    CU_ASSERT_FALSE(dao_live_ranges_is_valid(&made));
    made.capacity = 1;
    CU_ASSERT_FALSE(dao_live_ranges_is_valid(&made));
}

/* Beside a table that is searched from end to end. */
static void random_ranges_are_seen_as_by_a_model(void)
{
    uint64_t state = dao_test_seed("live ranges", 1);
    dao_live_range_t model[MODEL_COUNT] = {{0}};
    size_t shared_count = 0;
    dao_live_ranges_finish(&live);
    for (uint32_t i = 0; i < RANDOM_COUNT; i++) {
        dao_live_range_t *slot = &model[dao_random_next(&state) % MODEL_COUNT];
        if (slot->end > 0) {
            dao_live_ranges_remove(&live, slot->begin, slot->owner);
            *slot = (dao_live_range_t){0};
            continue;
        }
        uint64_t first = dao_random_next(&state) % ADDRESS_COUNT;
        uint64_t last = first + 1 + dao_random_next(&state) % 64;
        bool is_shared = false;
        for (size_t k = 0; k < MODEL_COUNT; k++) {
            is_shared = is_shared || (model[k].begin < last && model[k].end > first);
        }
        CU_ASSERT_EQUAL(add(first, last, i + 1) != 0, is_shared);
        shared_count += is_shared;
        if (!is_shared) {
            *slot = (dao_live_range_t){first, last, i + 1};
        }
    }
    CU_ASSERT(shared_count > RANDOM_COUNT / 100);
}

static void no_memory_is_told(void)
{
#if defined(DAO_FAULTS)
    const dao_live_range_t range = {1, 2, 1};
    const dao_live_range_t *other;
    dao_live_ranges_finish(&live);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, false);
    CU_ASSERT_EQUAL(dao_live_ranges_add(&live, &range, &other), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT(dao_fault_disarm() > 0);
    CU_ASSERT_EQUAL(live.count, 0);
    CU_ASSERT_EQUAL(add(1, 2, 1), 0);
#endif
}

static CU_TestInfo tests[] = {
    {"what shares a byte is seen", what_shares_a_byte_is_seen},
    {"what could not be added removes nobody", what_could_not_be_added_removes_nobody},
    {"what is out of order is not valid", what_is_out_of_order_is_not_valid},
    {"random ranges are seen as by a model", random_ranges_are_seen_as_by_a_model},
    {"no memory is told", no_memory_is_told},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"live_ranges", begin, end, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
