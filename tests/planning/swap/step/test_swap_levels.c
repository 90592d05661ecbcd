/* SPDX-License-Identifier: Apache-2.0 */
/* The most bytes of kernels in a row, against an array. */
#include "base/report/fault.h"
#include "planning/swap/step/swap_levels.h"
#include "tests/support/suite.h"

enum { KERNEL_MAX = 40, CHANGE_COUNT = 60, ROUND_COUNT = 200 };

static uint64_t most_in_turn(const uint64_t *bytes, uint32_t kernel_count, uint32_t kernel, uint32_t count)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t one = bytes[(kernel + i) % kernel_count];
        most = one > most ? one : most;
    }
    return most;
}

static void the_most_is_that_of_an_array(void)
{
    uint64_t random = dao_test_seed("levels", 20261123);
    for (int round = 0; round < ROUND_COUNT; round++) {
        uint64_t bytes[KERNEL_MAX];
        uint32_t n = 1 + (uint32_t)(dao_random_next(&random) % KERNEL_MAX);
        for (uint32_t k = 0; k < n; k++) {
            bytes[k] = 1000 + dao_random_next(&random) % 100;
        }
        dao_swap_levels_t levels;
        CU_ASSERT_FATAL(dao_swap_levels_init(&levels, bytes, n));
        for (int i = 0; i < CHANGE_COUNT; i++) {
            uint32_t kernel = (uint32_t)(dao_random_next(&random) % n);
            uint32_t count = (uint32_t)(dao_random_next(&random) % (n + 1));
            int64_t size = (int64_t)(dao_random_next(&random) % 31) - 15;
            CU_ASSERT_EQUAL_FATAL(dao_swap_levels_most(&levels, kernel, count),
                                  most_in_turn(bytes, n, kernel, count));
            dao_swap_levels_add(&levels, kernel, count, size);
            for (uint32_t k = 0; k < count; k++) {
                bytes[(kernel + k) % n] += (uint64_t)size;
            }
            CU_ASSERT(dao_swap_levels_is_valid(&levels));
        }
        dao_swap_levels_finish(&levels);
    }
}

static void without_memory_there_are_none(void)
{
    const uint64_t bytes[] = {1, 2, 3};
    for (uint64_t skip = 0; skip < 2; skip++) {
        dao_swap_levels_t levels;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, true);
        bool is_made = dao_swap_levels_init(&levels, bytes, 3);
        CU_ASSERT_EQUAL(is_made, dao_fault_disarm() == 0);
        dao_swap_levels_finish(&levels);
    }
}

static CU_TestInfo tests[] = {
    {"the most is that of an array", the_most_is_that_of_an_array},
    {"without memory there are none", without_memory_there_are_none},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap levels", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
