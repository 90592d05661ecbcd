/* SPDX-License-Identifier: Apache-2.0 */
/* Capacities on the command line: exact percentages and sizes. */
#include "tests/support/suite.h"
#include "tools/options/capacity.h"

#include <dao/status.h>

#include <string.h>

/* Reads a capacity and finds its bytes. */
static dao_status_t find_bytes(const char *text, uint64_t peak_bytes, uint64_t *out_bytes)
{
    dao_capacity_t capacity;
    dao_status_t status = dao_capacity_parse(text, &capacity);
    return status == DAO_OK ? dao_capacity_resolve(&capacity, peak_bytes, out_bytes) : status;
}

static void percentages_are_exact(void)
{
    static const struct {
        const char *text;
        uint64_t peak, wanted;
    } cases[] = {
        {"50%", 362281164, 181140582},
        {"100%", 362281164, 362281164},
        {"37.5%", 1000, 375},
        {"1%", 99, 0},
        {"0.000001%", 100000000, 1},
        {"33.333333%", 3000000000, 999999990},
        {"200%", 1000, 2000},
        {"100%", UINT64_MAX, UINT64_MAX},
        {"50%", 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t bytes = 77;
        CU_ASSERT_EQUAL(find_bytes(cases[i].text, cases[i].peak, &bytes), DAO_OK);
        CU_ASSERT_EQUAL(bytes, cases[i].wanted);
    }
}

static void sizes_take_units(void)
{
    uint64_t bytes = 0;
    CU_ASSERT_EQUAL(find_bytes("180MiB", 1, &bytes), DAO_OK);
    CU_ASSERT_EQUAL(bytes, 180 * MIB);
    CU_ASSERT_EQUAL(find_bytes("181140582", 1, &bytes), DAO_OK);
    CU_ASSERT_EQUAL(bytes, 181140582);
}

static void others_are_refused(void)
{
    static const char *const texts[] = {
        "",     "%",    "0%",   "-5%",    "5.%",    ".5%",        "1e2%",
        "5%%",  "5 %",  "nan%", "10001%", "1.2.3%", "0.0000001%", "99999999999999999999999%",
        "lots", "-1MiB"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint64_t bytes = 77;
        CU_ASSERT_NOT_EQUAL(find_bytes(texts[i], 1000, &bytes), DAO_OK);
        CU_ASSERT_EQUAL(bytes, 77);
    }
    uint64_t bytes;
    CU_ASSERT_EQUAL(find_bytes("101%", UINT64_MAX, &bytes), DAO_ERR_OVERFLOW);
}

static CU_TestInfo tests[] = {
    {"percentages are exact", percentages_are_exact},
    {"sizes take units", sizes_take_units},
    {"others are refused", others_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"capacity", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
