/* SPDX-License-Identifier: Apache-2.0 */
/* How far the host is ahead of the device, in the device's own time. On devices in virtual time: every
   wait of the host can be told before. */
#include "runtime/executor/streams/throttle.h"
#include "tests/support/suite.h"
#include "tests/support/timed_program.h"

#include <dao/dao.h>

static timed_program_t timed;

static uint64_t in_flight(void)
{
    const dao_timeline_stream_t *stream = &timed.executor->engine.timeline.streams[DAO_STREAM_ROLE_COMPUTE];
    return stream->issued - stream->completed;
}

static void device_time_bounds_what_is_in_flight(void)
{
    static uint64_t one_ms = MS, ten_ms = 10 * MS;
    dao_executor_config_t config = {.capacity_bytes = UNIT, .queue_kernels = 1, .in_flight_ns = 40 * MS};
    timed_program_begin(&timed, &config);
    timed_program_push(&timed, &one_ms, FIRST_KERNELS);
    CU_ASSERT_TRUE(in_flight() >= 39 && in_flight() <= 41);
    CU_ASSERT_TRUE(program_stats(&timed.program).throttle_count > 0);
    timed_program_push(&timed, &ten_ms, 1000); /* the mean follows */
    CU_ASSERT_TRUE(in_flight() >= 4 && in_flight() <= 6);
    timed_program_push(&timed, &one_ms, 2000);
    CU_ASSERT_TRUE(in_flight() >= 39 && in_flight() <= 41);
    timed_program_end(&timed);
}

static void a_second_is_the_default_and_the_ring_the_end(void)
{
    static uint64_t four_ms = 4 * MS, one_us = 1000;
    dao_executor_config_t config = {.capacity_bytes = UNIT, .queue_kernels = 1};
    timed_program_begin(&timed, &config);
    timed_program_push(&timed, &four_ms, FIRST_KERNELS);
    CU_ASSERT_TRUE(in_flight() >= 249 && in_flight() <= 251);
    timed_program_push(&timed, &one_us, 5 * FIRST_KERNELS); /* so short that no ring of them fills a second */
    CU_ASSERT_EQUAL(in_flight(), DAO_TIMELINE_DEPTH);
    timed_program_end(&timed);
}

static void looks_are_device_time_apart(void)
{
    dao_throttle_t throttle = {.kernel_ns = 0};
    CU_ASSERT_TRUE(dao_throttle_wants_look(&throttle, 1)); /* nothing is known yet */
    throttle.kernel_ns = DAO_THROTTLE_LOOK_NS;
    CU_ASSERT_TRUE(dao_throttle_wants_look(&throttle, 1));
    throttle.kernel_ns = DAO_THROTTLE_LOOK_NS / 5;
    CU_ASSERT_FALSE(dao_throttle_wants_look(&throttle, 4));
    CU_ASSERT_TRUE(dao_throttle_wants_look(&throttle, 5));
    throttle.kernel_ns = 1;
    CU_ASSERT_FALSE(dao_throttle_wants_look(&throttle, DAO_THROTTLE_LOOK_KERNELS_MAX - 1));
    CU_ASSERT_TRUE(dao_throttle_wants_look(&throttle, DAO_THROTTLE_LOOK_KERNELS_MAX));
}

static CU_TestInfo tests[] = {
    {"looks are device time apart", looks_are_device_time_apart},
    {"device time bounds what is in flight", device_time_bounds_what_is_in_flight},
    {"a second is the default and the ring the end", a_second_is_the_default_and_the_ring_the_end},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"throttle", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
