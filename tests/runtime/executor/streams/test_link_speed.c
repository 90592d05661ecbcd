/* SPDX-License-Identifier: Apache-2.0 */
/* The speed of a link: latency and speed come back from transfers that follow them. */
#include "runtime/executor/streams/link_speed.h"
#include "tests/support/suite.h"

#define GIGABYTE UINT64_C(1000000000)

static void expect(const dao_link_speed_t *link, uint64_t bytes_per_second, uint64_t latency_ns)
{
    uint64_t speed = 0, latency = 0;
    dao_link_speed_fit(link, &speed, &latency);
    CU_ASSERT_DOUBLE_EQUAL((double)speed, (double)bytes_per_second, (double)bytes_per_second / 1000);
    CU_ASSERT_DOUBLE_EQUAL((double)latency, (double)latency_ns, 2 + (double)latency_ns / 1000);
}

static void one_transfer_has_no_latency(void)
{
    dao_link_speed_t link = {0};
    dao_link_speed_note(&link, 1000, 500);
    expect(&link, 2 * GIGABYTE, 0);
}

static void equal_sizes_have_no_latency(void)
{
    dao_link_speed_t link = {0};
    for (int i = 0; i < 10; i++) {
        dao_link_speed_note(&link, 4096, 4096);
    }
    expect(&link, GIGABYTE, 0);
}

static void two_sizes_tell_latency_and_speed(void)
{
    dao_link_speed_t link = {0};
    dao_link_speed_note(&link, 1000, 10000 + 1000);
    dao_link_speed_note(&link, 100000, 10000 + 100000);
    expect(&link, GIGABYTE, 10000);
}

/* Larger transfers that take less time would give a speed below 0. */
static void a_line_that_falls_is_no_line(void)
{
    dao_link_speed_t link = {0};
    dao_link_speed_note(&link, 1000, 3000);
    dao_link_speed_note(&link, 2000, 1000);
    expect(&link, 750000000, 0);
}

static void transfers_without_time_have_the_greatest_speed(void)
{
    dao_link_speed_t link = {0};
    dao_link_speed_note(&link, 1000, 0);
    uint64_t speed = 0, latency = 0;
    dao_link_speed_fit(&link, &speed, &latency);
    CU_ASSERT_EQUAL(speed, GIGABYTE);
    CU_ASSERT_EQUAL(latency, 0);
}

static void random_lines_come_back(void)
{
    uint64_t seed = dao_test_seed("random lines come back", 11);
    for (int round = 0; round < 100; round++) {
        dao_link_speed_t link = {0};
        uint64_t ns_per_kib = dao_random_between(&seed, 20, 20000);
        uint64_t latency_ns = dao_random_below(&seed, 50000);
        for (int i = 0; i < 50; i++) {
            uint64_t kib = dao_random_between(&seed, 1, 4096);
            dao_link_speed_note(&link, kib * KIB, latency_ns + kib * ns_per_kib);
        }
        expect(&link, KIB * GIGABYTE / ns_per_kib, latency_ns);
    }
}

static CU_TestInfo tests[] = {
    {"one transfer has no latency", one_transfer_has_no_latency},
    {"equal sizes have no latency", equal_sizes_have_no_latency},
    {"two sizes tell latency and speed", two_sizes_tell_latency_and_speed},
    {"a line that falls is no line", a_line_that_falls_is_no_line},
    {"transfers without time have the greatest speed", transfers_without_time_have_the_greatest_speed},
    {"random lines come back", random_lines_come_back},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"link speed", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
