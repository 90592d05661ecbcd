/* SPDX-License-Identifier: Apache-2.0 */
/* Free bytes in time, against a slow model. */
#include "base/report/fault.h"
#include "planning/swap/times/swap_room.h"
#include "tests/support/suite.h"

#define TIMES 400u

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
        bool is_given = round % 2 == 0; /* first, as much as makes several blocks */
        for (int i = 0; i < 450; i++) {
            uint64_t size = 1 + dao_random_next(&random) % 50, time = dao_random_next(&random) % TIMES;
            if ((is_given && i < 300) || dao_random_next(&random) % 2 == 0 || sum < size) {
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
    dao_swap_room_t room;
    dao_swap_room_init(&room);
    for (uint64_t skip = 0; skip < 2; skip++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, true);
        bool given = dao_swap_room_give(&room, 10, 5);
        if (dao_fault_disarm() != 0) {
            CU_ASSERT(!given);
            CU_ASSERT_EQUAL(room.size_bytes, 0);
            CU_ASSERT(dao_swap_room_is_valid(&room));
        }
    }
    dao_swap_room_finish(&room);
}

static CU_TestInfo tests[] = {
    {"room is taken by its time", room_is_taken_by_its_time},
    {"no host memory changes nothing", no_host_memory_changes_nothing},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap room", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
