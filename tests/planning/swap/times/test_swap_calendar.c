/* SPDX-License-Identifier: Apache-2.0 */
/* Link calendars and free bytes in time, against slow models. */
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

static void short_holes_are_forgotten(void)
{
    dao_swap_calendar_t calendar;
    dao_swap_calendar_init(&calendar, 10);
    CU_ASSERT(dao_swap_calendar_book(&calendar, 100, 20));
    CU_ASSERT(dao_swap_calendar_book(&calendar, 125, 20)); /* 5 are between them */
    CU_ASSERT_EQUAL(calendar.busy_count, 1);
    CU_ASSERT_EQUAL(dao_swap_calendar_find(&calendar, 120, 5), 145);
    CU_ASSERT(dao_swap_calendar_book(&calendar, 160, 20));
    CU_ASSERT_EQUAL(calendar.busy_count, 2);
    CU_ASSERT_EQUAL(dao_swap_calendar_find(&calendar, 120, 12), 145);
    CU_ASSERT_EQUAL(dao_swap_calendar_find(&calendar, 120, 16), 180);
    dao_swap_calendar_finish(&calendar);
}

/* Bytes that are free from each time on. */
static uint64_t take_model(uint64_t *bytes, uint64_t size, uint64_t until, bool last)
{
    uint64_t ready = 0;
    for (uint64_t i = 0; last && i <= until && size > 0; i++) {
        uint64_t time = until - i, part = bytes[time] < size ? bytes[time] : size;
        bytes[time] -= part;
        size -= part;
        ready = part > 0 && time > ready ? time : ready;
    }
    for (uint64_t time = 0; time < TIMES && size > 0; time++) {
        uint64_t part = bytes[time] < size ? bytes[time] : size;
        bytes[time] -= part;
        size -= part;
        ready = part > 0 && time > ready ? time : ready;
    }
    return ready;
}

static void room_is_taken_by_its_time(void)
{
    uint64_t random = dao_test_seed("room", 20260822);
    for (int round = 0; round < 200; round++) {
        uint64_t bytes[TIMES] = {0}, sum = 0;
        dao_swap_room_t room;
        dao_swap_room_init(&room);
        for (int i = 0; i < 150; i++) {
            uint64_t size = 1 + dao_random_next(&random) % 50, time = dao_random_next(&random) % TIMES;
            if (dao_random_next(&random) % 2 == 0 || sum < size) {
                CU_ASSERT(dao_swap_room_give(&room, time, size));
                bytes[time] += size;
                sum += size;
            } else if (dao_random_next(&random) % 2 == 0) {
                CU_ASSERT_EQUAL_FATAL(dao_swap_room_take_first(&room, size),
                                      take_model(bytes, size, 0, false));
                sum -= size;
            } else {
                CU_ASSERT_EQUAL_FATAL(dao_swap_room_take_last(&room, size, time),
                                      take_model(bytes, size, time, true));
                sum -= size;
            }
            CU_ASSERT(dao_swap_room_is_valid(&room));
            CU_ASSERT_EQUAL(room.size_bytes, sum);
        }
        dao_swap_room_finish(&room);
    }
}

static void no_host_memory_changes_nothing(void)
{
    dao_swap_calendar_t calendar;
    dao_swap_room_t room;
    dao_swap_calendar_init(&calendar, 0);
    dao_swap_room_init(&room);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    bool booked = dao_swap_calendar_book(&calendar, 10, 5), given = dao_swap_room_give(&room, 10, 5);
    if (dao_fault_disarm() != 0) {
        CU_ASSERT(!booked && !given);
        CU_ASSERT_EQUAL(calendar.busy_count, 0);
        CU_ASSERT_EQUAL(room.size_bytes, 0);
    }
    dao_swap_calendar_finish(&calendar);
    dao_swap_room_finish(&room);
}

static CU_TestInfo tests[] = {
    {"a calendar gives the earliest hole", a_calendar_gives_the_earliest_hole},
    {"short holes are forgotten", short_holes_are_forgotten},
    {"room is taken by its time", room_is_taken_by_its_time},
    {"no host memory changes nothing", no_host_memory_changes_nothing},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap calendar", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
