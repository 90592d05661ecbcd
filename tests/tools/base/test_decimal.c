/* SPDX-License-Identifier: Apache-2.0 */
/* Exact decimals: scaled, rounded to the nearest, refused where they do not fit. */
#include "tests/support/suite.h"
#include "tools/base/decimal.h"

static void decimals_are_scaled_and_rounded(void)
{
    static const struct {
        const char *text;
        int places;
        uint64_t wanted;
    } cases[] = {
        {"0", 0, 0},
        {"12", 0, 12},
        {"12", 3, 12000},
        {"0.5", 0, 1},
        {"0.4999999999999999999999", 0, 0},
        {"0.5", 1, 5},
        {"1.25", 1, 13},
        {"2e3", 0, 2000},
        {"2E-3", 6, 2000},
        {"2.5e+1", 0, 25},
        {"125e-2", 1, 13},
        {"0.000000000000000000000000001", 27, 1},
        {"1e-999999999", 9, 0},
        {"18446744073709551614", 0, UINT64_MAX - 1},
        {"9007199254740993", 0, 9007199254740993}, /* 2^53 + 1, which no double is */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t value = 77;
        CU_ASSERT_TRUE(dao_decimal_scale(cases[i].text, cases[i].places, &value));
        CU_ASSERT_EQUAL(value, cases[i].wanted);
    }
}

static void what_does_not_fit_is_refused(void)
{
    static const char *const texts[] = {"18446744073709551616", "1e20", "99999999999999999999.5",
                                        "1e999999999"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint64_t value = 77;
        CU_ASSERT_FALSE(dao_decimal_scale(texts[i], 0, &value));
        CU_ASSERT_EQUAL(value, 77);
    }
}

static void plain_ones_are_digits_and_a_point(void)
{
    static const char *const plain[] = {"0", "12", "0.5", "12.50", "007"};
    static const char *const others[] = {"",    ".",  "1.", ".5",    "-1",  "+1",
                                         "1e3", " 1", "1 ", "1.2.3", "0x1", "nan"};
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        CU_ASSERT_TRUE(dao_decimal_is_plain(plain[i]));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        CU_ASSERT_FALSE(dao_decimal_is_plain(others[i]));
    }
}

static CU_TestInfo tests[] = {
    {"decimals are scaled and rounded", decimals_are_scaled_and_rounded},
    {"what does not fit is refused", what_does_not_fit_is_refused},
    {"plain ones are digits and a point", plain_ones_are_digits_and_a_point},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"decimal", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
