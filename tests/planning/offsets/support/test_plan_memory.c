/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's arrays: zeroed, counted, and what they held when they grow, small or in pages of their
   own. */
#include "base/report/fault.h"
#include "planning/offsets/support/memory.h"
#include "tests/support/suite.h"

#include <string.h>

#define SMALL_COUNT 100u
#define LARGE_COUNT ((size_t)1 << 19) /* of eight bytes: pages of their own */

static bool is_zero(const uint64_t *array, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (array[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool is_count(const uint64_t *array, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (array[i] != i) {
            return false;
        }
    }
    return true;
}

static void arrays_are_zeroed_and_counted(void)
{
    static const size_t counts[] = {0, 1, SMALL_COUNT, LARGE_COUNT};
    dao_plan_memory_t memory = {0};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint64_t *array = dao_plan_memory_alloc(&memory, counts[i], sizeof(*array));
        CU_ASSERT_PTR_NOT_NULL_FATAL(array);
        CU_ASSERT(is_zero(array, counts[i]));
        CU_ASSERT(memory.used_bytes >= counts[i] * sizeof(*array));
        memset(array, 0xff,
               counts[i] * sizeof(*array)); /* so that it would not be zero if it were given again */
        dao_plan_memory_free(&memory, array);
        CU_ASSERT_EQUAL(memory.used_bytes, 0);
    }
    CU_ASSERT(memory.most_bytes >= LARGE_COUNT * sizeof(uint64_t));
    CU_ASSERT_PTR_NULL(dao_plan_memory_alloc(&memory, SIZE_MAX / 2, sizeof(uint64_t)));
}

static void what_grows_keeps_what_it_held(void)
{
    dao_plan_memory_t memory = {0};
    uint64_t *array = NULL;
    size_t before = 0;
    for (size_t count = SMALL_COUNT; count < 16 * LARGE_COUNT; count *= 4) {
        array = dao_plan_memory_grow(&memory, array, count, sizeof(*array));
        CU_ASSERT_PTR_NOT_NULL_FATAL(array);
        CU_ASSERT(is_count(array, before));
        for (size_t i = before; i < count; i++) {
            array[i] = i;
        }
        before = count;
    }
    dao_plan_memory_free(&memory, array);
    CU_ASSERT_EQUAL(memory.used_bytes, 0);
}

static void what_cannot_grow_stays(void)
{
    static const size_t counts[] = {SMALL_COUNT, LARGE_COUNT};
    static const dao_fault_t faults[] = {DAO_FAULT_HOST_MEMORY, DAO_FAULT_SYSTEM_MEMORY};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        dao_plan_memory_t memory = {0};
        uint64_t *array = dao_plan_memory_alloc(&memory, counts[i], sizeof(*array));
        CU_ASSERT_PTR_NOT_NULL_FATAL(array);
        for (size_t j = 0; j < counts[i]; j++) {
            array[j] = j;
        }
        uint64_t used_bytes = memory.used_bytes;
        dao_fault_arm(faults[i], 0, true);
        uint64_t *grown = dao_plan_memory_grow(&memory, array, 2 * counts[i], sizeof(*array));
        bool has_failed = dao_fault_disarm() > 0;
        CU_ASSERT_EQUAL(grown == NULL, has_failed);
        array = grown != NULL ? grown : array;
        CU_ASSERT(is_count(array, counts[i]));
        CU_ASSERT(!has_failed || memory.used_bytes == used_bytes);
        dao_plan_memory_free(&memory, array);
        CU_ASSERT_EQUAL(memory.used_bytes, 0);
    }
}

/* What is spent counts until it is trimmed, and a cancelled trimming leaves the rest. */
static void spent_arrays_are_trimmed(void)
{
    dao_plan_memory_t memory = {.is_patient = true};
    _Atomic bool is_cancelled = true;
    dao_plan_work_t cancelled = {.limit = UINT64_MAX, .is_cancelled = &is_cancelled};
    dao_plan_work_t endless = dao_plan_work_unlimited();
    uint64_t *small = dao_plan_memory_alloc(&memory, SMALL_COUNT, sizeof(*small));
    uint64_t *first = dao_plan_memory_alloc(&memory, LARGE_COUNT, sizeof(*first));
    uint64_t *second = dao_plan_memory_alloc(&memory, 2 * LARGE_COUNT, sizeof(*second));
    CU_ASSERT_FATAL(small != NULL && first != NULL && second != NULL);
    dao_plan_memory_free(&memory, small);
    uint64_t used_bytes = memory.used_bytes;
    dao_plan_memory_free(&memory, first);
    dao_plan_memory_free(&memory, second);
    dao_plan_memory_trim(&memory, &cancelled);
    CU_ASSERT_EQUAL(memory.used_bytes, used_bytes);
    dao_plan_memory_trim(&memory, &endless);
    CU_ASSERT_EQUAL(memory.used_bytes, 0);
    CU_ASSERT_PTR_NULL(memory.spent);
}

static CU_TestInfo tests[] = {
    {"arrays are zeroed and counted", arrays_are_zeroed_and_counted},
    {"what grows keeps what it held", what_grows_keeps_what_it_held},
    {"what cannot grow stays", what_cannot_grow_stays},
    {"spent arrays are trimmed", spent_arrays_are_trimmed},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan memory", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
