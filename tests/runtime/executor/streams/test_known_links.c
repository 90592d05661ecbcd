/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of links: what was measured last, as tiers, and whether a plan was made with something else.
 */
#include "runtime/executor/streams/known_links.h"
#include "tests/support/suite.h"

#include <string.h>

#define GIGABYTE    UINT64_C(1000000000)
#define PIECE_BYTES UINT64_C(1000000)

/* Two copies at a speed behind a latency. */
static void copy(dao_link_speed_t *link, uint64_t ns_per_kilobyte, uint64_t latency_ns)
{
    memset(link, 0, sizeof(*link));
    dao_link_speed_note(link, 1000000, latency_ns + 1000 * ns_per_kilobyte);
    dao_link_speed_note(link, 5000000, latency_ns + 5000 * ns_per_kilobyte);
}

/* A profiler that saw copies in both directions; `lost_share` < 0: never at the same time. */
static dao_profiler_t measured(uint64_t in_ns_per_kilobyte, uint64_t out_ns_per_kilobyte, double lost_share)
{
    dao_profiler_t profiler = {.lost_share = lost_share};
    copy(&profiler.links[DAO_STREAM_ROLE_H2D], in_ns_per_kilobyte, 0);
    copy(&profiler.links[DAO_STREAM_ROLE_D2H], out_ns_per_kilobyte, 0);
    return profiler;
}

static void expect_near(uint64_t speed, uint64_t expected)
{
    CU_ASSERT_DOUBLE_EQUAL((double)speed, (double)expected, (double)expected / 1000);
}

static void a_direction_without_copies_is_as_the_other(void)
{
    dao_known_links_t links = {0};
    dao_profiler_t profiler = {.lost_share = -1};
    dao_known_links_note_host(&links, &profiler);
    CU_ASSERT_FALSE(dao_known_links_have_any(&links));
    copy(&profiler.links[DAO_STREAM_ROLE_D2H], 500, 7000);
    dao_known_links_note_host(&links, &profiler);
    CU_ASSERT_TRUE(dao_known_links_have_any(&links));
    expect_near(links.host.in_bytes_per_second, 2 * GIGABYTE);
    expect_near(links.host.out_bytes_per_second, 2 * GIGABYTE);
    expect_near(links.host.latency_ns, 7000);
    CU_ASSERT_EQUAL(links.host.shared_bytes_per_second, 0);
}

/* Directions that lose a quarter while both copy; a step in which they do not meet keeps that in mind. */
static void what_both_lose_is_shared(void)
{
    dao_known_links_t links = {0};
    dao_profiler_t apart = measured(1000, 1000, -1), together = measured(1000, 1000, 0.25);
    dao_known_links_note_host(&links, &together);
    expect_near(links.host.shared_bytes_per_second, GIGABYTE + GIGABYTE / 2);
    dao_known_links_note_host(&links, &apart);
    expect_near(links.host.shared_bytes_per_second, GIGABYTE + GIGABYTE / 2);
    together.lost_share = 0.01; /* within the tolerance */
    dao_known_links_note_host(&links, &together);
    CU_ASSERT_EQUAL(links.host.shared_bytes_per_second, 0);
}

/* Copies that were never alone took part of their time for the other direction: counted once. */
static void crowded_copies_say_nothing_once_sharing_is_known(void)
{
    dao_known_links_t links = {0};
    dao_profiler_t before = measured(1000, 1000, 0.5), crowded = measured(2000, 2000, 0.5);
    dao_known_links_note_host(&links, &before);
    crowded.is_crowded[DAO_STREAM_ROLE_H2D] = crowded.is_crowded[DAO_STREAM_ROLE_D2H] = true;
    dao_known_links_note_host(&links, &crowded);
    expect_near(links.host.in_bytes_per_second, GIGABYTE);
    expect_near(links.host.out_bytes_per_second, GIGABYTE);
    CU_ASSERT_FALSE(dao_known_links_have_changed(&links, &crowded, &links.host, &links.file));
}

/* A piece of 1 MB at 1 GB/s takes 1 ms and as much of latency: half the speed. */
static void pieces_of_a_file_have_the_latency_in_their_speed(void)
{
    dao_known_links_t links = {0};
    dao_link_speed_t in = {0}, nothing = {0};
    CU_ASSERT_FALSE(dao_known_links_note_file(&links, &nothing, &nothing, PIECE_BYTES, 0.5));
    CU_ASSERT_FALSE(dao_known_links_have_any(&links));
    copy(&in, 1000, 1000000);
    CU_ASSERT_TRUE(dao_known_links_note_file(&links, &in, &nothing, PIECE_BYTES, 0.5));
    expect_near(links.file.in_bytes_per_second, GIGABYTE / 2);
    expect_near(links.file.out_bytes_per_second, GIGABYTE / 2);
    expect_near(links.file.latency_ns, 500000);
    CU_ASSERT_EQUAL(links.host.in_bytes_per_second, 0);
}

/* 5 % are within the tolerance, more are not: each direction, both together, the file. */
static void a_plan_with_other_links_has_changed(void)
{
    static const struct {
        uint64_t in_ns, out_ns;
        double lost_share;
        uint64_t file_percent;
        bool has_changed;
    } rows[] = {
        {1000, 1000, -1, 100, false}, {1040, 960, -1, 100, false}, {1060, 1000, -1, 100, true},
        {1000, 940, -1, 100, true},   {1000, 1000, 0, 100, false}, {1000, 1000, 0.2, 100, true},
        {1000, 1000, -1, 96, false},  {1000, 1000, -1, 90, true},
    };
    const dao_swap_tier_t host = {.in_bytes_per_second = GIGABYTE, .out_bytes_per_second = GIGABYTE};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        dao_known_links_t links = {0};
        dao_profiler_t profiler = measured(rows[i].in_ns, rows[i].out_ns, rows[i].lost_share);
        dao_known_links_note_host(&links, &profiler);
        links.file = host;
        links.file.out_bytes_per_second = GIGABYTE / 100 * rows[i].file_percent;
        CU_ASSERT_EQUAL(dao_known_links_have_changed(&links, &profiler, &host, &host), rows[i].has_changed);
    }
}

static CU_TestInfo tests[] = {
    {"a direction without copies is as the other", a_direction_without_copies_is_as_the_other},
    {"what both lose is shared", what_both_lose_is_shared},
    {"crowded copies say nothing once sharing is known", crowded_copies_say_nothing_once_sharing_is_known},
    {"pieces of a file have the latency in their speed", pieces_of_a_file_have_the_latency_in_their_speed},
    {"a plan with other links has changed", a_plan_with_other_links_has_changed},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"known links", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
