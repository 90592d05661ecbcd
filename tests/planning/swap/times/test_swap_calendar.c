/* SPDX-License-Identifier: Apache-2.0 */
/* Link calendars against slow models. */
#include "base/report/fault.h"
#include "planning/swap/times/swap_calendar.h"
#include "tests/support/suite.h"

#include <string.h>

#define TIMES 400u

static void a_calendar_gives_the_earliest_hole(void)
{
    uint64_t random = dao_test_seed("earliest hole", 20260821);
    for (int round = 0; round < 200; round++) {
        bool busy[TIMES] = {false};
        dao_swap_calendar_t calendar;
        dao_swap_calendar_init(&calendar, 0);
        for (int i = 0; i < 60; i++) {
            uint64_t from = dao_random_next(&random) % (TIMES / 2), length = 1 + dao_random_next(&random) % 5;
            uint64_t wanted = from;
            for (uint64_t t = from; t < wanted + length; t++) {
                wanted = busy[t] ? t + 1 : wanted;
            }
            CU_ASSERT_EQUAL_FATAL(dao_swap_calendar_find(&calendar, from, length), wanted);
            CU_ASSERT(dao_swap_calendar_book(&calendar, wanted, length));
            CU_ASSERT(dao_swap_calendar_is_valid(&calendar));
            memset(busy + wanted, true, length);
            CU_ASSERT(dao_swap_calendar_end(&calendar) >= wanted + length);
        }
        dao_swap_calendar_finish(&calendar);
    }
}

/* The earliest time by a walk over all intervals. */
static uint64_t find_in_turn(const dao_swap_interval_t *busy, size_t count, uint64_t from, uint64_t length)
{
    for (size_t i = 0; i < count && busy[i].begin_ns < from + length; i++) {
        from = busy[i].end_ns > from ? busy[i].end_ns : from;
    }
    return from;
}

/* Books a time in a sorted array; what it touches becomes one. Returns the count. */
static size_t book_in_turn(dao_swap_interval_t *busy, size_t count, dao_swap_interval_t time, uint64_t near)
{
    size_t kept = 0, at;
    for (size_t i = 0; i < count; i++) {
        if (busy[i].end_ns + near < time.begin_ns || busy[i].begin_ns > time.end_ns + near) {
            busy[kept++] = busy[i];
            continue;
        }
        time.begin_ns = busy[i].begin_ns < time.begin_ns ? busy[i].begin_ns : time.begin_ns;
        time.end_ns = busy[i].end_ns > time.end_ns ? busy[i].end_ns : time.end_ns;
    }
    for (at = kept; at > 0 && busy[at - 1].begin_ns > time.begin_ns; at--) {
        busy[at] = busy[at - 1];
    }
    busy[at] = time;
    return kept + 1;
}

static bool is_like(const dao_swap_calendar_t *calendar, const dao_swap_interval_t *busy, size_t count)
{
    dao_swap_calendar_place_t place = {0, 0};
    const dao_swap_interval_t *one;
    for (size_t i = 0; i < count; i++, place = dao_swap_calendar_next(calendar, place)) {
        one = dao_swap_calendar_at(calendar, place);
        if (one == NULL || one->begin_ns != busy[i].begin_ns || one->end_ns != busy[i].end_ns) {
            return false;
        }
    }
    return dao_swap_calendar_at(calendar, place) == NULL;
}

/* Enough for several groups of blocks, which then melt into few again. */
static void many_blocks_find_what_a_walk_finds(void)
{
    enum { COUNT = 6000, SPAN = 12, LONG = 400 };
    static dao_swap_interval_t busy[COUNT];
    uint64_t random = dao_test_seed("blocks", 20261123);
    for (uint64_t near = 0; near < 2; near++) {
        size_t count = 0;
        dao_swap_calendar_t calendar;
        dao_swap_calendar_init(&calendar, near);
        for (uint32_t i = 0; i < 2 * COUNT; i++) {
            bool is_sparse = i < COUNT; /* then the holes are filled, and some are covered by long ones */
            uint64_t from = dao_random_next(&random) % (SPAN * COUNT);
            uint64_t length = is_sparse ? 1 + i % 3 : 1 + dao_random_next(&random) % SPAN;
            length = i % 97 == 96 && !is_sparse ? LONG : length;
            uint64_t begin = dao_swap_calendar_find(&calendar, from, length);
            CU_ASSERT_EQUAL_FATAL(begin, find_in_turn(busy, count, from, length));
            begin = length == LONG ? from : begin; /* over what is there */
            CU_ASSERT_FATAL(dao_swap_calendar_book(&calendar, begin, length));
            count = book_in_turn(busy, count, (dao_swap_interval_t){begin, begin + length}, near);
            if (i % 512 == 0) {
                CU_ASSERT_FATAL(dao_swap_calendar_is_valid(&calendar));
                CU_ASSERT_FATAL(is_like(&calendar, busy, count));
            }
        }
        CU_ASSERT(dao_swap_calendar_is_valid(&calendar));
        CU_ASSERT(is_like(&calendar, busy, count));
        dao_swap_calendar_finish(&calendar);
    }
}

static void short_holes_are_forgotten(void)
{
    dao_swap_calendar_t calendar;
    dao_swap_calendar_init(&calendar, 10);
    CU_ASSERT(dao_swap_calendar_book(&calendar, 100, 20));
    CU_ASSERT(dao_swap_calendar_book(&calendar, 125, 20)); /* 5 are between them */
    CU_ASSERT_TRUE(is_like(&calendar, (dao_swap_interval_t[]){{100, 145}}, 1));
    CU_ASSERT_EQUAL(dao_swap_calendar_find(&calendar, 120, 5), 145);
    CU_ASSERT(dao_swap_calendar_book(&calendar, 160, 20));
    CU_ASSERT_TRUE(is_like(&calendar, (dao_swap_interval_t[]){{100, 145}, {160, 180}}, 2));
    CU_ASSERT_EQUAL(dao_swap_calendar_find(&calendar, 120, 12), 145);
    CU_ASSERT_EQUAL(dao_swap_calendar_find(&calendar, 120, 16), 180);
    dao_swap_calendar_finish(&calendar);
}

static void no_host_memory_changes_nothing(void)
{
    dao_swap_calendar_t calendar;
    dao_swap_calendar_init(&calendar, 0);
    for (uint64_t skip = 0; skip < 3; skip++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, true);
        bool booked = dao_swap_calendar_book(&calendar, 10, 5);
        if (dao_fault_disarm() != 0) {
            CU_ASSERT(!booked);
            CU_ASSERT_TRUE(is_like(&calendar, NULL, 0));
        }
    }
    dao_swap_calendar_finish(&calendar);
}

static CU_TestInfo tests[] = {
    {"a calendar gives the earliest hole", a_calendar_gives_the_earliest_hole},
    {"many blocks find what a walk finds", many_blocks_find_what_a_walk_finds},
    {"short holes are forgotten", short_holes_are_forgotten},
    {"no host memory changes nothing", no_host_memory_changes_nothing},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap calendar", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
