/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes under a limit, and two threads that share one. */
#include "allocators/accounting/budget.h"
#include "base/threads/sync.h"
#include "tests/support/suite.h"

#define LIMIT_BYTES UINT64_C(1000)
#define TAKE_COUNT  20000u

static dao_budget_t budget;

static void begin(void)
{
    budget = (dao_budget_t){0};
}

static void end(void)
{
    CU_ASSERT_TRUE(dao_budget_is_valid(&budget));
}

static void take(uint64_t size_bytes)
{
    CU_ASSERT_TRUE(dao_budget_take(&budget, size_bytes));
    dao_budget_note(&budget);
}

static void without_a_limit_all_is_had(void)
{
    CU_ASSERT_EQUAL(dao_budget_room(&budget), UINT64_MAX);
    take(UINT64_C(1) << 60);
    CU_ASSERT_EQUAL(dao_budget_room(&budget), UINT64_MAX);
}

static void a_limit_is_reached_exactly(void)
{
    CU_ASSERT_TRUE(dao_budget_limit_set(&budget, LIMIT_BYTES));
    take(LIMIT_BYTES - 1);
    CU_ASSERT_EQUAL(dao_budget_room(&budget), 1);
    CU_ASSERT_FALSE(dao_budget_take(&budget, 2));
    CU_ASSERT_EQUAL(atomic_load(&budget.used_bytes), LIMIT_BYTES - 1);
    take(1);
    CU_ASSERT_EQUAL(dao_budget_room(&budget), 0);
    CU_ASSERT_FALSE(dao_budget_take(&budget, 1));
    dao_budget_give(&budget, LIMIT_BYTES);
    CU_ASSERT_EQUAL(dao_budget_room(&budget), LIMIT_BYTES);
}

static void a_limit_below_what_is_used_is_refused(void)
{
    take(600);
    CU_ASSERT_FALSE(dao_budget_limit_set(&budget, 599));
    CU_ASSERT_EQUAL(dao_budget_room(&budget), UINT64_MAX); /* the old limit: none */
    CU_ASSERT_TRUE(dao_budget_limit_set(&budget, 600));
    CU_ASSERT_FALSE(dao_budget_limit_set(&budget, 1));
    CU_ASSERT_EQUAL(atomic_load(&budget.limit_bytes), 600);
    CU_ASSERT_TRUE(dao_budget_limit_set(&budget, 0));
    take(1);
}

static void the_peak_knows_of_what_was_noted_alone(void)
{
    CU_ASSERT_TRUE(dao_budget_take(&budget, 500));
    CU_ASSERT_EQUAL(atomic_load(&budget.peak_bytes), 0);
    dao_budget_give(&budget, 500); /* could not be had after all */
    take(300);
    dao_budget_give(&budget, 300);
    take(100);
    CU_ASSERT_EQUAL(atomic_load(&budget.peak_bytes), 300);
}

/* Takes and gives as long as the limit lets it; counts what is above the limit, which nothing ever is. */
static void *take_and_give(void *user)
{
    uint64_t *over_count = user;
    for (uint32_t i = 0; i < TAKE_COUNT; i++) {
        uint64_t size_bytes = 1 + i % 700;
        if (dao_budget_take(&budget, size_bytes)) {
            *over_count += atomic_load(&budget.used_bytes) > LIMIT_BYTES;
            dao_budget_note(&budget);
            dao_budget_give(&budget, size_bytes);
        }
    }
    return NULL;
}

static void two_threads_never_exceed_the_limit(void)
{
    uint64_t over_counts[2] = {0, 0};
    CU_ASSERT_TRUE(dao_budget_limit_set(&budget, LIMIT_BYTES));
    dao_thread_t other;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&other, "other", take_and_give, &over_counts[1]), DAO_OK);
    (void)take_and_give(&over_counts[0]);
    dao_thread_join(&other);
    CU_ASSERT_EQUAL(over_counts[0] + over_counts[1], 0);
    CU_ASSERT_EQUAL(atomic_load(&budget.used_bytes), 0);
    CU_ASSERT_TRUE(atomic_load(&budget.peak_bytes) <= LIMIT_BYTES);
}

static CU_TestInfo tests[] = {
    {"without a limit all is had", without_a_limit_all_is_had},
    {"a limit is reached exactly", a_limit_is_reached_exactly},
    {"a limit below what is used is refused", a_limit_below_what_is_used_is_refused},
    {"the peak knows of what was noted alone", the_peak_knows_of_what_was_noted_alone},
    {"two threads never exceed the limit", two_threads_never_exceed_the_limit},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"budget", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
