/* SPDX-License-Identifier: Apache-2.0 */
/* What both directions of a link share, against a model that looks at every nanosecond. */
#include "base/report/fault.h"
#include "planning/swap/times/swap_link.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

#define TIMES        2000u
#define BYTES_PER_NS UINT64_C(1000000000)

/* Which direction is busy when: [0] out, [1] in. */
typedef struct link_model {
    bool is_busy[2][TIMES];
    double part[2];
} link_model_t;

/* The earliest interval, by trying every begin. A copy begins where it moves something at once. */
static dao_swap_interval_t find_slowly(const link_model_t *model, int is_in, uint64_t from_ns,
                                       uint64_t length_ns)
{
    const bool *own = model->is_busy[is_in], *other = model->is_busy[!is_in];
    for (uint64_t begin_ns = from_ns; begin_ns < TIMES; begin_ns++) {
        double moved = 0;
        uint64_t end_ns = begin_ns;
        bool is_held_up = other[begin_ns] && model->part[is_in] == 0;
        while (!is_held_up && end_ns < TIMES && !own[end_ns] && moved + 1e-9 < (double)length_ns) {
            moved += other[end_ns++] ? model->part[is_in] : 1;
        }
        if (moved + 1e-9 >= (double)length_ns) {
            return (dao_swap_interval_t){begin_ns, end_ns};
        }
    }
    return (dao_swap_interval_t){TIMES, TIMES};
}

/* Books copies of both directions at random, as the model says. */
static void check_link(const dao_swap_tier_t *tier, double in_part, double out_part)
{
    uint64_t random = dao_test_seed("link", 20261121);
    for (int round = 0; round < 100; round++) {
        link_model_t model = {.part = {out_part, in_part}};
        dao_swap_link_t link;
        dao_swap_link_init(&link, tier);
        for (int i = 0; i < 40; i++) {
            int is_in = (int)(dao_random_next(&random) % 2);
            uint64_t from_ns = dao_random_next(&random) % (TIMES / 4),
                     bytes = 1 + dao_random_next(&random) % 20;
            uint64_t length_ns = dao_swap_copy_ns(tier, is_in != 0, bytes);
            dao_swap_interval_t wanted = find_slowly(&model, is_in, from_ns, length_ns);
            dao_swap_interval_t found = dao_swap_link_find(&link, is_in != 0, from_ns, bytes);
            CU_ASSERT_FATAL(found.end_ns < TIMES);
            CU_ASSERT(found.begin_ns >= from_ns && found.end_ns - found.begin_ns >= length_ns);
            CU_ASSERT_EQUAL_FATAL(found.end_ns, wanted.end_ns);
            CU_ASSERT(dao_swap_link_book(&link, is_in != 0, &found));
            for (uint64_t t = found.begin_ns; t < found.end_ns; t++) {
                CU_ASSERT_FATAL(!model.is_busy[is_in][t]);
                model.is_busy[is_in][t] = true;
            }
            CU_ASSERT(dao_swap_link_end(&link) >= found.end_ns);
        }
        dao_swap_link_finish(&link);
    }
}

static void directions_with_enough_for_both_do_not_mind_each_other(void)
{
    const dao_swap_tier_t tier = {.in_bytes_per_second = BYTES_PER_NS,
                                  .shared_bytes_per_second = 2 * BYTES_PER_NS};
    check_link(&tier, 1, 1);
}

static void a_copy_beside_another_one_has_what_that_leaves(void)
{
    const dao_swap_tier_t tier = {.in_bytes_per_second = 2 * BYTES_PER_NS,
                                  .out_bytes_per_second = BYTES_PER_NS,
                                  .shared_bytes_per_second = 2 * BYTES_PER_NS};
    check_link(&tier, 0.5, 0);
}

static void a_link_that_one_direction_fills_does_one_copy_at_a_time(void)
{
    const dao_swap_tier_t tier = {.in_bytes_per_second = 3 * BYTES_PER_NS,
                                  .shared_bytes_per_second = BYTES_PER_NS};
    CU_ASSERT_EQUAL(dao_swap_copy_ns(&tier, true, 7), 7);
    check_link(&tier, 0, 0);
}

static void half_duplex_is_one_calendar(void)
{
    const dao_swap_tier_t tier = {
        .in_bytes_per_second = BYTES_PER_NS, .latency_ns = 3, .duplex = DAO_SWAP_DUPLEX_HALF};
    dao_swap_link_t link;
    dao_swap_link_init(&link, &tier);
    dao_swap_interval_t in = dao_swap_link_find(&link, true, 10, 5);
    CU_ASSERT(in.begin_ns == 10 && in.end_ns == 18);
    CU_ASSERT(dao_swap_link_book(&link, true, &in));
    dao_swap_interval_t out = dao_swap_link_find(&link, false, 4, 5);
    CU_ASSERT(out.begin_ns == 18 && out.end_ns == 26);
    dao_swap_link_finish(&link);
}

static void no_host_memory_changes_nothing(void)
{
    const dao_swap_tier_t tier = {.in_bytes_per_second = BYTES_PER_NS};
    dao_swap_link_t link;
    dao_swap_link_init(&link, &tier);
    dao_swap_interval_t in = dao_swap_link_find(&link, true, 10, 5);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    bool is_booked = dao_swap_link_book(&link, true, &in);
    CU_ASSERT_EQUAL(is_booked, dao_fault_disarm() == 0);
    CU_ASSERT_EQUAL(dao_swap_link_end(&link), is_booked ? in.end_ns : 0);
    dao_swap_link_finish(&link);
}

static CU_TestInfo tests[] = {
    {"directions with enough for both do not mind each other",
     directions_with_enough_for_both_do_not_mind_each_other},
    {"a copy beside another one has what that leaves", a_copy_beside_another_one_has_what_that_leaves},
    {"a link that one direction fills does one copy at a time",
     a_link_that_one_direction_fills_does_one_copy_at_a_time},
    {"half duplex is one calendar", half_duplex_is_one_calendar},
    {"no host memory changes nothing", no_host_memory_changes_nothing},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap link", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
