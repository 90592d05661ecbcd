/* SPDX-License-Identifier: Apache-2.0 */
/* How far the host is ahead of the device, in the device's own time, and what is copied out while it is near.
   On devices in virtual time, with bytes: every wait of the host can be told before. */
#include "backends/sim/sim.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/online/writeback.h"
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

static void make(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t tensor = program_tensor(&program, UNIT);
        CU_ASSERT_NOT_EQUAL_FATAL(tensor, UINT32_MAX);
        program_kernel_t kernel = {"make", 1, {tensor}, {DAO_ACCESS_WRITE}, 0, DAO_OK};
        CU_ASSERT_EQUAL(program_push(&program, &kernel), DAO_OK);
    }
}

/* Eight tensors fill the device; while kernels run that need none of them, those unused for longest are
   copied out up to the mark, and leave for nothing when others come. */
static void near_the_device_victims_are_copied_out_ahead(void)
{
    static uint64_t one_ms = MS;
    dao_executor_config_t config = {
        .capacity_bytes = 8 * UNIT, .queue_kernels = 1, .in_flight_ns = 5 * MS, .check = true};
    begin(&config);
    push_work(&one_ms, FIRST_KERNELS);
    make(8);
    push_work(&one_ms, 200);
    uint64_t high = (8 * DAO_WRITEBACK_HIGH_PERCENT + 99) / 100;
    CU_ASSERT_EQUAL(program_stats(&program).writeback_count, high);
    CU_ASSERT_EQUAL(program_stats(&program).out_bytes, high * UNIT);
    CU_ASSERT_EQUAL(program_stats(&program).eviction_count, 0);
    make(4);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).eviction_count, 4);
    CU_ASSERT_EQUAL(program_stats(&program).clean_eviction_count, 4);
    end();
}

/* Far ahead evictions are queued early enough by themselves, and a host that is nearly full has no room to
   spare. */
static void elsewhere_nothing_is_copied_ahead(void)
{
    static uint64_t one_ms = MS;
    dao_executor_config_t far = {.capacity_bytes = 8 * UNIT, .queue_kernels = 1};
    dao_executor_config_t full = {
        .capacity_bytes = 8 * UNIT, .queue_kernels = 1, .in_flight_ns = 5 * MS, .host_bytes = UNIT};
    const dao_executor_config_t *configs[] = {&far, &full};
    for (int i = 0; i < 2; i++) {
        begin(configs[i]);
        push_work(&one_ms, FIRST_KERNELS);
        make(8);
        push_work(&one_ms, 200);
        CU_ASSERT_EQUAL(program_stats(&program).writeback_count, 0);
        end();
    }
}

static void looks_are_device_time_apart(void)
{
    dao_throttle_t pace = {.kernel_ns = 0};
    CU_ASSERT_TRUE(dao_throttle_wants_look(&pace, 1)); /* nothing is known yet */
    pace.kernel_ns = DAO_THROTTLE_LOOK_NS;
    CU_ASSERT_TRUE(dao_throttle_wants_look(&pace, 1));
    pace.kernel_ns = DAO_THROTTLE_LOOK_NS / 5;
    CU_ASSERT_FALSE(dao_throttle_wants_look(&pace, 4));
    CU_ASSERT_TRUE(dao_throttle_wants_look(&pace, 5));
    pace.kernel_ns = 1;
    CU_ASSERT_FALSE(dao_throttle_wants_look(&pace, DAO_THROTTLE_LOOK_KERNELS_MAX - 1));
    CU_ASSERT_TRUE(dao_throttle_wants_look(&pace, DAO_THROTTLE_LOOK_KERNELS_MAX));
}

static CU_TestInfo tests[] = {
    {"looks are device time apart", looks_are_device_time_apart},
    {"device time bounds what is in flight", device_time_bounds_what_is_in_flight},
    {"a second is the default and the ring the end", a_second_is_the_default_and_the_ring_the_end},
    {"near the device victims are copied out ahead", near_the_device_victims_are_copied_out_ahead},
    {"elsewhere nothing is copied ahead", elsewhere_nothing_is_copied_ahead},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"pace", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
