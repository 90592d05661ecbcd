/* SPDX-License-Identifier: Apache-2.0 */
/* Bins while they serve: who gets a block, who lends one, and that none is handed out twice. */
#include "allocators/step_plan/bins.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"

enum { BUFFER_COUNT = 5, RANDOM_COUNT = 2000, OUT_MAX = 64 };

/* Two of 100 KiB and two of 48 KiB are alive at a time; 40 KiB come when 48 KiB are free. */
static const dao_plan_buffer_t buffers[BUFFER_COUNT] = {
    {.begin_time = 0,
     .end_time = 10,
     .size_bytes = 100 * KIB,
     .fixed_offset = DAO_PLAN_NOWHERE,
     .pool = DAO_PLAN_ANY_POOL},
    {.begin_time = 1,
     .end_time = 10,
     .size_bytes = 100 * KIB,
     .fixed_offset = DAO_PLAN_NOWHERE,
     .pool = DAO_PLAN_ANY_POOL},
    {.begin_time = 2,
     .end_time = 5,
     .size_bytes = 48 * KIB,
     .fixed_offset = DAO_PLAN_NOWHERE,
     .pool = DAO_PLAN_ANY_POOL},
    {.begin_time = 3,
     .end_time = 5,
     .size_bytes = 48 * KIB,
     .fixed_offset = DAO_PLAN_NOWHERE,
     .pool = DAO_PLAN_ANY_POOL},
    {.begin_time = 7,
     .end_time = 9,
     .size_bytes = 40 * KIB,
     .fixed_offset = DAO_PLAN_NOWHERE,
     .pool = DAO_PLAN_ANY_POOL},
};

static dao_bins_t *bins;

static void begin(void)
{
    dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = BUFFER_COUNT};
    dao_bin_plan_t plan;
    CU_ASSERT_EQUAL_FATAL(dao_bin_plan_init(&plan, &problem, DAO_BIN_ORDER_BEGIN), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_bins_create(&plan, &bins), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_TRUE(dao_bins_is_valid(bins));
    dao_bins_destroy(bins);
}

static uint64_t take(uint64_t size_bytes)
{
    uint64_t offset_bytes = UINT64_MAX;
    CU_ASSERT_EQUAL(dao_bins_take(bins, size_bytes, &offset_bytes), DAO_BINS_HIT);
    return offset_bytes;
}

static dao_bins_answer_t refusal(uint64_t size_bytes)
{
    uint64_t offset_bytes;
    return dao_bins_take(bins, size_bytes, &offset_bytes);
}

/* ---- sentences ---- */

static void a_bin_lends_to_the_one_that_has_a_right(void)
{
    uint64_t first = take(40 * KIB);
    uint64_t second = take(48 * KIB);
    CU_ASSERT_NOT_EQUAL(first, second);
    CU_ASSERT_TRUE(dao_bins_give(bins, first, false));
    CU_ASSERT_FALSE(dao_bins_give(bins, first, false));
    CU_ASSERT_EQUAL(take(48 * KIB), first);
    CU_ASSERT_TRUE(dao_bins_give(bins, first, false));
    CU_ASSERT_TRUE(dao_bins_give(bins, second, false));
}

static void a_size_without_a_bin_gets_a_block_that_is_not_much_larger(void)
{
    uint64_t first = take(70 * KIB), second = take(60 * KIB);
    CU_ASSERT_EQUAL(refusal(60 * KIB), DAO_BINS_NULL); /* both of 100 KiB are out */
    CU_ASSERT_EQUAL(refusal(100 * KIB), DAO_BINS_MISSED);
    CU_ASSERT_EQUAL(refusal(8 * KIB), DAO_BINS_NULL); /* 40 KiB would be five times as much */
    CU_ASSERT_EQUAL(refusal(101 * KIB + 8 * KIB), DAO_BINS_NULL);
    CU_ASSERT_TRUE(dao_bins_give(bins, first, false));
    CU_ASSERT_EQUAL(take(100 * KIB), first);
    CU_ASSERT_TRUE(dao_bins_give(bins, first, false));
    CU_ASSERT_TRUE(dao_bins_give(bins, second, false));
}

static void what_is_given_to_be_the_last_waits_for_all_others(void)
{
    uint64_t first = take(100 * KIB), second = take(100 * KIB);
    CU_ASSERT_TRUE(dao_bins_give(bins, first, true));
    CU_ASSERT_TRUE(dao_bins_give(bins, second, true));
    CU_ASSERT_EQUAL(take(100 * KIB), first);
    CU_ASSERT_TRUE(dao_bins_give(bins, first, true));
    CU_ASSERT_EQUAL(take(100 * KIB), second);
    CU_ASSERT_TRUE(dao_bins_give(bins, second, false));
    CU_ASSERT_EQUAL(take(100 * KIB), second);
    CU_ASSERT_TRUE(dao_bins_give(bins, second, false));
}

static void no_block_is_handed_out_twice(void)
{
    uint64_t state = dao_test_seed("bins", 1), out[OUT_MAX];
    size_t out_count = 0;
    for (int i = 0; i < RANDOM_COUNT; i++) {
        uint64_t offset_bytes, size_bytes = 1 + dao_random_next(&state) % (120 * KIB);
        if (dao_random_next(&state) % 2 == 0 && out_count > 0) {
            size_t index = dao_random_next(&state) % out_count;
            CU_ASSERT_TRUE(dao_bins_give(bins, out[index], i % 3 == 0));
            out[index] = out[--out_count];
        } else if (dao_bins_take(bins, size_bytes, &offset_bytes) == DAO_BINS_HIT) {
            for (size_t k = 0; k < out_count; k++) {
                CU_ASSERT(out[k] >= offset_bytes + size_bytes || out[k] < offset_bytes);
            }
            CU_ASSERT(offset_bytes + size_bytes <= dao_bins_total_bytes(bins));
            CU_ASSERT_FATAL(out_count < OUT_MAX);
            out[out_count++] = offset_bytes;
        }
        CU_ASSERT_TRUE(dao_bins_is_valid(bins));
    }
}

/* The plan stays its caller's. */
static void without_host_memory_there_are_no_bins(void)
{
    dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = BUFFER_COUNT};
    dao_bin_plan_t plan;
    dao_bins_t *made = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_bin_plan_init(&plan, &problem, DAO_BIN_ORDER_BEGIN), DAO_OK);
    uint64_t skips = 0, fired = 1;
    while (fired > 0) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skips++, false);
        dao_status_t status = dao_bins_create(&plan, &made);
        fired = dao_fault_disarm();
        CU_ASSERT_EQUAL(status, fired > 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        CU_ASSERT_EQUAL_FATAL(made != NULL, fired == 0);
    }
    CU_ASSERT_EQUAL(dao_bins_total_bytes(made), plan.total_bytes);
    dao_bins_destroy(made);
}

static CU_TestInfo tests[] = {
    {"a bin lends to the one that has a right", a_bin_lends_to_the_one_that_has_a_right},
    {"a size without a bin gets a block that is not much larger",
     a_size_without_a_bin_gets_a_block_that_is_not_much_larger},
    {"what is given to be the last waits for all others", what_is_given_to_be_the_last_waits_for_all_others},
    {"no block is handed out twice", no_block_is_handed_out_twice},
    {"without host memory there are no bins", without_host_memory_there_are_no_bins},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"bins", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
