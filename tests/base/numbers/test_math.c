/* SPDX-License-Identifier: Apache-2.0 */
/* Small arithmetic, at the ends of its ranges. */
#include "base/numbers/math.h"
#include "tests/support/suite.h"

static void powers_of_two_are_recognised(void)
{
    CU_ASSERT_FALSE(dao_is_power_of_two(0));
    CU_ASSERT_TRUE(dao_is_power_of_two(1));
    CU_ASSERT_FALSE(dao_is_power_of_two(3));
    CU_ASSERT_TRUE(dao_is_power_of_two(UINT64_C(1) << 63));
    CU_ASSERT_FALSE(dao_is_power_of_two(UINT64_MAX));
}

static void rounding_up_reaches_the_next_multiple(void)
{
    CU_ASSERT_EQUAL(dao_round_up(0, 8), 0);
    CU_ASSERT_EQUAL(dao_round_up(1, 8), 8);
    CU_ASSERT_EQUAL(dao_round_up(8, 8), 8);
    CU_ASSERT_EQUAL(dao_round_up(9, 1), 9);
    CU_ASSERT_EQUAL(dao_round_up(UINT64_MAX - 7, 8), UINT64_MAX - 7);
}

static void a_ceiling_is_the_next_whole_number(void)
{
    CU_ASSERT_EQUAL(dao_ceil(0), 0);
    CU_ASSERT_EQUAL(dao_ceil(-0.001), 0);
    CU_ASSERT_EQUAL(dao_ceil(1e-300), 1);
    CU_ASSERT_EQUAL(dao_ceil(1), 1);
    CU_ASSERT_EQUAL(dao_ceil(1.0000000000000002), 2);
    CU_ASSERT_EQUAL(dao_ceil(9007199254740991.0), UINT64_C(9007199254740991));
    CU_ASSERT_EQUAL(dao_ceil(18446744073709549568.0),
                    UINT64_C(18446744073709549568)); /* the last below 2^64 */
}

static void sums_saturate(void)
{
    CU_ASSERT_EQUAL(dao_add_capped(1, 2), 3);
    CU_ASSERT_EQUAL(dao_add_capped(UINT64_MAX - 1, 1), UINT64_MAX);
    CU_ASSERT_EQUAL(dao_add_capped(UINT64_MAX, 1), UINT64_MAX);
    CU_ASSERT_EQUAL(dao_larger(3, 5), 5);
    CU_ASSERT_EQUAL(dao_smaller(3, 5), 3);
}

static void a_transfer_takes_its_time_rounded_up(void)
{
    CU_ASSERT_EQUAL(dao_transfer_ns(0, 1), 0);
    CU_ASSERT_EQUAL(dao_transfer_ns(1, DAO_NS_PER_S), 1);
    CU_ASSERT_EQUAL(dao_transfer_ns(1, 2 * DAO_NS_PER_S), 1);
    CU_ASSERT_EQUAL(dao_transfer_ns(UINT64_C(1) << 40, UINT64_C(1) << 40), DAO_NS_PER_S);
    CU_ASSERT_EQUAL(dao_transfer_ns(UINT64_C(1) << 60, UINT64_C(1) << 30),
                    DAO_NS_PER_S << 30); /* by 128 bits */
    CU_ASSERT_EQUAL(dao_transfer_ns(UINT64_MAX, 1), UINT64_MAX);
}

static void a_time_before_the_period_is_in_it(void)
{
    CU_ASSERT_EQUAL(dao_modulo(0, 5), 0);
    CU_ASSERT_EQUAL(dao_modulo(12, 5), 2);
    CU_ASSERT_EQUAL(dao_modulo(-1, 5), 4);
    CU_ASSERT_EQUAL(dao_modulo(-10, 5), 0);
    CU_ASSERT_EQUAL(dao_modulo(INT64_MIN, INT64_MAX), INT64_MAX - 1);
}

static CU_TestInfo tests[] = {
    {"powers of two are recognised", powers_of_two_are_recognised},
    {"rounding up reaches the next multiple", rounding_up_reaches_the_next_multiple},
    {"a ceiling is the next whole number", a_ceiling_is_the_next_whole_number},
    {"sums saturate", sums_saturate},
    {"a transfer takes its time, rounded up", a_transfer_takes_its_time_rounded_up},
    {"a time before the period is in it", a_time_before_the_period_is_in_it},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"math", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
