/* SPDX-License-Identifier: Apache-2.0 */
/* How far the host is ahead of the device, in the device's own time. On devices in virtual time: every
   wait of the host can be told before. */
#include "backends/sim/sim.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/online/throttle.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#define UNIT (64 * KIB)
#define MS   UINT64_C(1000000)

/* More kernels than a stream holds, so that the host has had to wait for some and knows what they take. */
#define FIRST_KERNELS (DAO_TIMELINE_DEPTH + 200)

static dao_executor_t *executor;
static program_t program;

static void begin(const dao_executor_config_t *config)
{
    dao_config_t sim = {
        .cpu = {.device_count = 1, .device_bytes = 64 * MIB, .d2h_bytes_per_second = 64 * UNIT * 1000}};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&sim, &dao_sim_bytes_backend_ops), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(config, &executor), DAO_OK);
    program_init(&program, executor);
}

static void end(void)
{
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static dao_status_t launch_work(const dao_launch_t *launch, void *user)
{
    const uint64_t *time_ns = user;
    return dao_sim_stream_work(launch->stream->backend, *time_ns);
}

static void push_work(uint64_t *time_ns, uint32_t count)
{
    dao_kernel_t kernel = {.launch = launch_work, .user = time_ns};
    for (uint32_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
    }
}

static uint64_t in_flight(void)
{
    const dao_timeline_stream_t *stream = &executor->engine.timeline.streams[DAO_STREAM_ROLE_COMPUTE];
    return stream->issued - stream->completed;
}

static void device_time_bounds_what_is_in_flight(void)
{
    static uint64_t one_ms = MS, ten_ms = 10 * MS;
    dao_executor_config_t config = {.capacity_bytes = UNIT, .queue_kernels = 1, .in_flight_ns = 40 * MS};
    begin(&config);
    push_work(&one_ms, FIRST_KERNELS);
    CU_ASSERT_TRUE(in_flight() >= 39 && in_flight() <= 41);
    CU_ASSERT_TRUE(program_stats(&program).throttle_count > 0);
    push_work(&ten_ms, 1000); /* the mean follows */
    CU_ASSERT_TRUE(in_flight() >= 4 && in_flight() <= 6);
    push_work(&one_ms, 2000);
    CU_ASSERT_TRUE(in_flight() >= 39 && in_flight() <= 41);
    end();
}

static void a_second_is_the_default_and_the_ring_the_end(void)
{
    static uint64_t four_ms = 4 * MS, one_us = 1000;
    dao_executor_config_t config = {.capacity_bytes = UNIT, .queue_kernels = 1};
    begin(&config);
    push_work(&four_ms, FIRST_KERNELS);
    CU_ASSERT_TRUE(in_flight() >= 249 && in_flight() <= 251);
    push_work(&one_us, 5 * FIRST_KERNELS); /* of kernels so short there are never enough for a second */
    CU_ASSERT_EQUAL(in_flight(), DAO_TIMELINE_DEPTH);
    end();
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
