/* SPDX-License-Identifier: Apache-2.0 */
/* Numbered operations on the streams of a virtual device. */
#include "backends/cpu/cpu.h"
#include "runtime/executor/streams/timeline.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/gate.h"
#include "tests/support/suite.h"

#define COMPUTE DAO_STREAM_ROLE_COMPUTE
#define D2H     DAO_STREAM_ROLE_D2H
#define H2D     DAO_STREAM_ROLE_H2D

static const dao_backend_ops_t *ops;
static dao_backend_t *backend;
static dao_backend_device_t *device;
static dao_backend_stream_t *streams[DAO_STREAM_ROLE_COUNT];
static dao_timeline_t timeline;
static const dao_fence_t no_fence;

static void start(uint32_t not_ready_max)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    ops = fault_backend_wrap(&dao_cpu_backend_ops,
                             &(fault_config_t){.seed = 1, .not_ready_max = not_ready_max});
    CU_ASSERT_EQUAL_FATAL(ops->open(&config, &backend), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->device_open(backend, 0, &device), DAO_OK);
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(ops->stream_create(device, &streams[i]), DAO_OK);
    }
    dao_timeline_init(&timeline, ops, device, streams);
}

static void finish(void)
{
    (void)fault_backend_disarm();
    CU_ASSERT_TRUE(dao_timeline_is_valid(&timeline));
    CU_ASSERT_EQUAL(dao_timeline_wait_all(&timeline), DAO_OK);
    dao_timeline_finish(&timeline);
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        ops->stream_destroy(streams[i]);
    }
    ops->device_close(device);
    ops->close(backend);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
}

static void do_nothing(void *user)
{
    (void)user;
}

/* Queues an operation behind a fence; its number. */
static uint64_t queue(dao_stream_role_t stream, const dao_fence_t *fence, dao_host_func_t function,
                      void *user)
{
    uint64_t sequence = 0;
    CU_ASSERT_EQUAL_FATAL(dao_timeline_before(&timeline, stream, fence), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->host_func(streams[stream], function, user), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_timeline_after(&timeline, stream, &sequence), DAO_OK);
    return sequence;
}

static dao_fence_t fence_at(dao_stream_role_t stream, uint64_t sequence)
{
    dao_fence_t fence = no_fence;
    dao_fence_add(&fence, stream, sequence);
    return fence;
}

static void a_fence_is_done_when_its_operations_were_seen_to_finish(void)
{
    start(0);
    dao_gate_t gate;
    dao_gate_init(&gate);
    CU_ASSERT_EQUAL(queue(COMPUTE, &no_fence, dao_gate_wait, &gate), 1);
    CU_ASSERT_EQUAL(queue(COMPUTE, &no_fence, do_nothing, NULL), 2);
    dao_fence_t fence = fence_at(COMPUTE, 2);
    CU_ASSERT_EQUAL(dao_timeline_poll(&timeline), DAO_OK);
    CU_ASSERT_FALSE(dao_timeline_is_done(&timeline, &fence));
    CU_ASSERT_TRUE(dao_timeline_is_done(&timeline, &no_fence));
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_timeline_wait(&timeline, &fence), DAO_OK);
    CU_ASSERT_TRUE(dao_timeline_is_done(&timeline, &fence));
    finish();
    dao_gate_finish(&gate);
}

static void a_stream_waits_on_the_device_and_only_once(void)
{
    start(0);
    dao_gate_t gate;
    dao_gate_init(&gate);
    dao_fence_t fence = fence_at(COMPUTE, queue(COMPUTE, &no_fence, dao_gate_wait, &gate));
    dao_fence_t second = fence_at(H2D, queue(H2D, &fence, do_nothing, NULL));
    (void)queue(H2D, &fence, do_nothing, NULL);
    (void)queue(H2D, &second, do_nothing, NULL); /* its own stream is in order anyway */
    CU_ASSERT_EQUAL(fault_backend_calls(FAULT_CALL_STREAM_WAIT_EVENT), 1);
    CU_ASSERT_EQUAL(timeline.throttle_count, 0);
    CU_ASSERT_EQUAL(dao_timeline_poll(&timeline), DAO_OK);
    CU_ASSERT_EQUAL(timeline.streams[H2D].completed, 0);
    dao_gate_open(&gate);
    finish();
    dao_gate_finish(&gate);
}

static void the_host_waits_if_the_device_cannot(void)
{
    start(0);
    dao_fence_t fence = fence_at(COMPUTE, queue(COMPUTE, &no_fence, do_nothing, NULL));
    fault_backend_arm(FAULT_CALL_STREAM_WAIT_EVENT, 0, true);
    (void)queue(D2H, &fence, do_nothing, NULL);
    CU_ASSERT_EQUAL(fault_backend_disarm(), 1);
    CU_ASSERT_EQUAL(timeline.streams[COMPUTE].completed, 1);
    CU_ASSERT_EQUAL(timeline.throttle_count, 1);
    finish();
}

static void an_operation_without_an_event_has_finished_when_it_is_numbered(void)
{
    static const fault_call_t calls[] = {FAULT_CALL_EVENT_CREATE, FAULT_CALL_EVENT_RECORD};
    for (size_t i = 0; i < 2; i++) {
        start(0);
        (void)queue(COMPUTE, &no_fence, do_nothing, NULL);
        fault_backend_arm(calls[i], 0, true);
        CU_ASSERT_EQUAL(queue(COMPUTE, &no_fence, do_nothing, NULL), 2);
        CU_ASSERT_EQUAL(timeline.streams[COMPUTE].completed, 2);
        (void)fault_backend_disarm();
        dao_fence_t fence = fence_at(COMPUTE, queue(COMPUTE, &no_fence, do_nothing, NULL));
        CU_ASSERT_EQUAL(dao_timeline_wait(&timeline, &fence), DAO_OK);
        finish();
    }
}

static void any_number_of_operations_goes_through_the_depth(void)
{
    start(3); /* events are late */
    for (uint64_t i = 1; i <= 4 * DAO_TIMELINE_DEPTH; i++) {
        dao_stream_role_t stream = i % 2 == 0 ? COMPUTE : D2H;
        dao_fence_t fence = {0};
        for (int role = 0; role < DAO_STREAM_ROLE_COUNT; role++) {
            dao_fence_add(&fence, (dao_stream_role_t)role, timeline.streams[role].issued);
        }
        CU_ASSERT_EQUAL(queue(stream, &fence, do_nothing, NULL), (i + 1) / 2);
        CU_ASSERT_TRUE_FATAL(dao_timeline_is_valid(&timeline));
    }
    CU_ASSERT_TRUE(fault_backend_calls(FAULT_CALL_EVENT_CREATE) <= 2 * DAO_TIMELINE_SLOTS);
    finish();
}

static void a_poll_looks_at_all_streams_in_spite_of_an_error(void)
{
    start(0);
    (void)queue(COMPUTE, &no_fence, do_nothing, NULL);
    (void)queue(D2H, &no_fence, do_nothing, NULL);
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        CU_ASSERT_EQUAL(ops->stream_synchronize(streams[i]), DAO_OK);
    }
    fault_backend_arm(FAULT_CALL_EVENT_QUERY, 0, false);
    CU_ASSERT_EQUAL(dao_timeline_poll(&timeline), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(timeline.streams[COMPUTE].completed + timeline.streams[D2H].completed, 1);
    finish();
}

static void a_poll_finds_what_has_finished_and_asks_little(void)
{
    enum { DONE = 400, HELD = 200, ASKED_MAX = 18 }; /* 9 steps ahead, as many back */
    uint64_t asked = 0;
    start(0);
    dao_gate_t gate;
    dao_gate_init(&gate);
    for (int i = 0; i < DONE; i++) {
        (void)queue(COMPUTE, &no_fence, do_nothing, NULL);
    }
    CU_ASSERT_EQUAL(ops->stream_synchronize(streams[COMPUTE]), DAO_OK);
    for (int i = 0; i < HELD; i++) {
        (void)queue(COMPUTE, &no_fence, i == 0 ? dao_gate_wait : do_nothing, i == 0 ? &gate : NULL);
    }
    asked = fault_backend_calls(FAULT_CALL_EVENT_QUERY);
    CU_ASSERT_EQUAL(dao_timeline_poll(&timeline), DAO_OK);
    CU_ASSERT_EQUAL(timeline.streams[COMPUTE].completed, DONE);
    CU_ASSERT_TRUE(fault_backend_calls(FAULT_CALL_EVENT_QUERY) - asked <= ASKED_MAX);
    asked = fault_backend_calls(FAULT_CALL_EVENT_QUERY);
    CU_ASSERT_EQUAL(dao_timeline_poll(&timeline), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_calls(FAULT_CALL_EVENT_QUERY) - asked, 1);
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(ops->stream_synchronize(streams[COMPUTE]), DAO_OK);
    CU_ASSERT_EQUAL(dao_timeline_poll(&timeline), DAO_OK);
    CU_ASSERT_EQUAL(timeline.streams[COMPUTE].completed, DONE + HELD);
    asked = fault_backend_calls(FAULT_CALL_EVENT_QUERY);
    CU_ASSERT_EQUAL(dao_timeline_poll(&timeline), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_calls(FAULT_CALL_EVENT_QUERY), asked); /* nothing is in flight */
    finish();
    dao_gate_finish(&gate);
}

static void a_lost_device_gives_no_number(void)
{
    start(0);
    uint64_t sequence = 77;
    CU_ASSERT_EQUAL(dao_timeline_before(&timeline, COMPUTE, &no_fence), DAO_OK);
    fault_backend_arm((fault_call_t)FAULT_CALL_LOSS, 0, true);
    CU_ASSERT_EQUAL(dao_timeline_after(&timeline, COMPUTE, &sequence), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(sequence, 77);
    CU_ASSERT_EQUAL(timeline.streams[COMPUTE].issued, 0);
    finish();
}

static CU_TestInfo tests[] = {
    {"a fence is done when its operations were seen to finish",
     a_fence_is_done_when_its_operations_were_seen_to_finish},
    {"a stream waits on the device and only once", a_stream_waits_on_the_device_and_only_once},
    {"the host waits if the device cannot", the_host_waits_if_the_device_cannot},
    {"an operation without an event has finished when it is numbered",
     an_operation_without_an_event_has_finished_when_it_is_numbered},
    {"any number of operations goes through the depth", any_number_of_operations_goes_through_the_depth},
    {"a poll looks at all streams in spite of an error", a_poll_looks_at_all_streams_in_spite_of_an_error},
    {"a poll finds what has finished and asks little", a_poll_finds_what_has_finished_and_asks_little},
    {"a lost device gives no number", a_lost_device_gives_no_number},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"timeline", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
