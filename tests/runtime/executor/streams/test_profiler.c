/* SPDX-License-Identifier: Apache-2.0 */
/* What a step's copies say of the host's link: speed of each direction, and whether they slow each other. In
   virtual time. */
#include "backends/sim/sim.h"
#include "base/numbers/math.h"
#include "runtime/executor/streams/profiler.h"
#include "tests/support/suite.h"

#define H2D DAO_STREAM_ROLE_H2D
#define D2H DAO_STREAM_ROLE_D2H

enum { BLOCK = 1 << 20, SPEED = 1000000000, LATENCY_NS = 1000, COPIES = 12 };

/* Work of the step before that the device still has to do: longer than a copy. */
enum { STEP_BEFORE_NS = 10000000 };

static const dao_backend_ops_t *ops = &dao_sim_backend_ops;
static dao_backend_t *backend;
static dao_backend_device_t *device;
static dao_backend_stream_t *streams[DAO_STREAM_ROLE_COUNT];
static dao_timeline_t timeline;
static dao_profiler_t profiler;
static char *memory, *pinned;

static void open_device(bool is_half_duplex)
{
    dao_config_t settings = {.cpu = {.device_count = 1,
                                     .device_bytes = 64 * MIB,
                                     .h2d_bytes_per_second = SPEED,
                                     .d2h_bytes_per_second = SPEED / 2,
                                     .copy_latency_ns = LATENCY_NS,
                                     .half_duplex = is_half_duplex}};
    void *address = NULL;
    CU_ASSERT_EQUAL_FATAL(ops->open(&settings, &backend), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->device_open(backend, 0, &device), DAO_OK);
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(ops->stream_create(device, &streams[i]), DAO_OK);
    }
    CU_ASSERT_EQUAL_FATAL(ops->memory_alloc(device, BLOCK, &address), DAO_OK);
    memory = address;
    CU_ASSERT_EQUAL_FATAL(ops->pinned_alloc(device, BLOCK, &address), DAO_OK);
    pinned = address;
    dao_timeline_init(&timeline, ops, device, streams);
    dao_profiler_init(&profiler, &timeline);
}

static void begin_step(void)
{
    dao_profiler_start(&profiler);
    CU_ASSERT_EQUAL_FATAL(profiler.state, DAO_PROFILER_RUNNING);
}

static void start(bool is_half_duplex)
{
    open_device(is_half_duplex);
    begin_step();
}

static void finish(void)
{
    dao_profiler_finish(&profiler);
    dao_timeline_finish(&timeline);
    CU_ASSERT_EQUAL(ops->pinned_free(device, pinned, BLOCK), DAO_OK);
    CU_ASSERT_EQUAL(ops->memory_free(device, memory, BLOCK), DAO_OK);
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        ops->stream_destroy(streams[i]);
    }
    ops->device_close(device);
    ops->close(backend);
}

/* Queues a copy behind all of the streams that `fence` names. */
static uint64_t copy(dao_stream_role_t stream, size_t size_bytes, const dao_fence_t *fence)
{
    bool is_in = stream == H2D;
    uint64_t sequence = 0;
    CU_ASSERT_EQUAL_FATAL(dao_timeline_before(&timeline, stream, fence), DAO_OK);
    dao_profiler_before_copy(&profiler, stream, size_bytes);
    CU_ASSERT_EQUAL_FATAL(ops->copy(streams[stream], is_in ? DAO_COPY_KIND_H2D : DAO_COPY_KIND_D2H,
                                    is_in ? memory : pinned, is_in ? pinned : memory, size_bytes),
                          DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_timeline_after(&timeline, stream, &sequence), DAO_OK);
    dao_profiler_after(&profiler, stream);
    return sequence;
}

static size_t size_of(uint32_t i)
{
    return (size_t)(i % 5 + 2) * (BLOCK / 8);
}

/* Copies of one direction, then of the other one, each alone. */
static void copy_one_after_the_other(void)
{
    dao_fence_t fence = {0};
    for (uint32_t i = 0; i < COPIES; i++) {
        uint64_t sequence = copy(H2D, size_of(i), &fence);
        dao_fence_add(&fence, H2D, sequence);
    }
    for (uint32_t i = 0; i < COPIES; i++) {
        (void)copy(D2H, size_of(i), &fence);
    }
    dao_fence_add(&fence, D2H, timeline.streams[D2H].issued);
    (void)copy(H2D, size_of(0), &fence); /* what comes now does not begin before */
}

/* Both directions as fast as they go, from different numbers of bytes. */
static void copy_beside_each_other(void)
{
    static const dao_fence_t no_fence;
    for (uint32_t i = 0; i < COPIES; i++) {
        (void)copy(H2D, size_of(i), &no_fence);
        (void)copy(D2H, size_of(i + 1), &no_fence);
    }
}

static void collect(void)
{
    dao_profiler_stop(&profiler);
    CU_ASSERT_EQUAL(dao_timeline_wait_all(&timeline), DAO_OK);
    dao_profiler_collect(&profiler);
    CU_ASSERT_EQUAL_FATAL(profiler.state, DAO_PROFILER_DONE);
    CU_ASSERT_FALSE(profiler.is_spoilt);
}

static void check_speed(dao_stream_role_t stream, uint64_t bytes_per_second)
{
    uint64_t measured = 0, latency_ns = 0;
    dao_link_speed_fit(&profiler.links[stream], &measured, &latency_ns);
    CU_ASSERT_TRUE(measured >= bytes_per_second / 100 * 99 && measured <= bytes_per_second / 100 * 101);
    CU_ASSERT_TRUE(latency_ns >= LATENCY_NS / 100 * 99 && latency_ns <= LATENCY_NS / 100 * 101);
}

static void directions_with_speeds_of_their_own_lose_nothing(void)
{
    start(false);
    copy_one_after_the_other();
    copy_beside_each_other();
    collect();
    check_speed(H2D, SPEED);
    check_speed(D2H, SPEED / 2);
    CU_ASSERT_DOUBLE_EQUAL(profiler.lost_share, 0, 0.01);
    CU_ASSERT_FALSE(profiler.is_crowded[H2D] || profiler.is_crowded[D2H]);
    finish();
}

static void directions_that_take_turns_lose_half(void)
{
    start(true);
    copy_one_after_the_other();
    copy_beside_each_other();
    collect();
    check_speed(H2D, SPEED); /* waiting for the other direction is no part of it */
    check_speed(D2H, SPEED / 2);
    CU_ASSERT_DOUBLE_EQUAL(profiler.lost_share, 0.5, 0.01);
    finish();
}

static void without_copies_of_both_at_once_nothing_is_said(void)
{
    start(true);
    copy_one_after_the_other();
    collect();
    check_speed(H2D, SPEED);
    check_speed(D2H, SPEED / 2);
    CU_ASSERT_TRUE(profiler.lost_share < 0);
    finish();
}

/* How fast each would be alone is not known then. */
static void without_copies_alone_nothing_is_said(void)
{
    start(true);
    for (uint32_t i = 0; i < COPIES; i++) {
        static const dao_fence_t no_fence;
        (void)copy(H2D, BLOCK, &no_fence);
        (void)copy(D2H, BLOCK / 2, &no_fence);
    }
    collect();
    CU_ASSERT_TRUE(profiler.lost_share < 0);
    CU_ASSERT_TRUE(profiler.links[H2D].count == COPIES && profiler.links[D2H].count == COPIES);
    CU_ASSERT_TRUE(profiler.is_crowded[H2D] && profiler.is_crowded[D2H]);
    finish();
}

/* A copy may end before the device has come to the step at all. */
static void a_host_that_is_ahead_spoils_nothing(void)
{
    static const dao_fence_t no_fence;
    open_device(false);
    CU_ASSERT_EQUAL(ops->delay(streams[DAO_STREAM_ROLE_COMPUTE], STEP_BEFORE_NS), DAO_OK);
    begin_step();
    uint64_t sequence = copy(H2D, BLOCK, &no_fence);
    CU_ASSERT_EQUAL(ops->stream_synchronize(streams[H2D]), DAO_OK);
    CU_ASSERT_EQUAL(dao_timeline_poll(&timeline), DAO_OK);
    CU_ASSERT_EQUAL(timeline.streams[H2D].completed, sequence);
    dao_profiler_collect(&profiler);
    CU_ASSERT_FALSE(profiler.is_spoilt);
    collect();
    CU_ASSERT_EQUAL(profiler.links[H2D].count, 1);
    CU_ASSERT_DOUBLE_EQUAL(profiler.links[H2D].ns, LATENCY_NS + (double)BLOCK * DAO_NS_PER_S / SPEED, 2);
    CU_ASSERT_TRUE(profiler.copies[H2D].spans[0].end_ns < 0);
    finish();
}

static CU_TestInfo tests[] = {
    {"directions with speeds of their own lose nothing", directions_with_speeds_of_their_own_lose_nothing},
    {"directions that take turns lose half", directions_that_take_turns_lose_half},
    {"without copies of both at once nothing is said", without_copies_of_both_at_once_nothing_is_said},
    {"without copies alone nothing is said", without_copies_alone_nothing_is_said},
    {"a host that is ahead spoils nothing", a_host_that_is_ahead_spoils_nothing},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"profiler", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
