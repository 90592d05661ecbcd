/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred frees: memory of handles that waits for its stream, and what it is in the way of. */
#include <dao/context.h>
#include <dao/memory.h>
#include <dao/stats.h>
#include <dao/stream.h>

#include "runtime/start/context.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/gate.h"
#include "tests/support/suite.h"

#include <string.h>

/* The built backend, with events that can be made to fail. */
static dao_backend_ops_t table;
static _Atomic bool record_fails;

static dao_status_t record_or_fail(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    return record_fails ? DAO_ERR_BACKEND : dao_backend_ops()->event_record(event, stream);
}

static int runtime_start(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    table = *dao_backend_ops();
    table.event_record = record_or_fail;
    return dao_context_start(&config, &table) != DAO_OK;
}

static int runtime_stop(void)
{
    return dao_finalize() != DAO_OK;
}

/* A stream whose work does not move until the gate opens. */
static dao_stream_t *held_stream(int32_t device_index, dao_gate_t *gate)
{
    dao_stream_t *stream = NULL;
    dao_gate_init(gate);
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(device_index, &stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(device_gate(stream, gate), DAO_OK);
    return stream;
}

static void released_memory_waits_for_its_stream(void)
{
    static const dao_place_t ordered[] = {{DAO_PLACE_KIND_DEVICE, 0}, {DAO_PLACE_KIND_PINNED, 0}};
    for (int i = 0; i < 2; i++) {
        dao_gate_t gate;
        dao_stream_t *stream = held_stream(0, &gate);
        dao_memory_t *memory = NULL;
        dao_stats_t stats;
        size_t used_before = dao_used(ordered[i]);
        CU_ASSERT_EQUAL_FATAL(dao_memory_create(ordered[i], 5000, stream, &memory), DAO_OK);
        size_t used = dao_used(ordered[i]);
        void *address = dao_memory_address(memory);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
        CU_ASSERT_EQUAL(dao_used(ordered[i]), used);
        CU_ASSERT_EQUAL(dao_stats_get(ordered[i], &stats), DAO_OK);
        CU_ASSERT_EQUAL(stats.deferred_count, 1);
        void *other = dao_alloc(ordered[i], 5000); /* work that hangs holds up nobody else */
        CU_ASSERT_PTR_NOT_EQUAL(other, address);
        CU_ASSERT_EQUAL(dao_free(ordered[i], other), DAO_OK);
        dao_gate_open(&gate);
        CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
        CU_ASSERT_EQUAL(dao_used(ordered[i]), used_before);
        CU_ASSERT_EQUAL(dao_stats_get(ordered[i], &stats), DAO_OK);
        CU_ASSERT_EQUAL(stats.deferred_count, 0);
        dao_stream_destroy(stream);
        dao_gate_finish(&gate);
    }
}

static void one_stream_that_hangs_holds_up_no_other(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    dao_gate_t gate;
    dao_stream_t *held = held_stream(0, &gate);
    size_t used_before = dao_used(device);
    for (int i = 0; i < 100; i++) {
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 1000, held, &memory), DAO_OK);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    }
    dao_stream_t *compute = NULL;
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL(dao_stream_get(0, DAO_STREAM_ROLE_COMPUTE, &compute), DAO_OK);
    size_t used_held = dao_used(device);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 1000, compute, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    for (int i = 0; i < 10; i++) {
        CU_ASSERT_EQUAL(dao_stream_synchronize(compute), DAO_OK); /* asks some of those that wait, in turn */
    }
    CU_ASSERT_EQUAL(dao_used(device), used_held);
    dao_gate_open(&gate);
    dao_stream_destroy(held);
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), used_before);
    dao_gate_finish(&gate);
}

static void *open_later(void *user)
{
    dao_sleep_until(dao_clock_ns() + 20 * UINT64_C(1000000));
    dao_gate_open(user);
    return NULL;
}

static void memory_that_waits_for_a_stream_is_not_out_of_memory(void)
{
    dao_place_t device = dao_place_of(dao_device_place(1));
    dao_gate_t gate;
    dao_thread_t thread;
    dao_stream_t *held = held_stream(1, &gate);
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 40 * MIB, held, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "open later", open_later, &gate), DAO_OK);
    void *block = dao_alloc(device, 40 * MIB);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    dao_thread_join(&thread);
    dao_stream_destroy(held);
    dao_gate_finish(&gate);
}

static void memory_that_waits_for_a_stream_is_not_above_a_limit(void)
{
    dao_place_t device = dao_place_of(dao_device_place(1));
    dao_gate_t gate;
    dao_thread_t thread;
    dao_stream_t *held = held_stream(1, &gate);
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 40 * MIB, held, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "open later", open_later, &gate), DAO_OK);
    CU_ASSERT_EQUAL(dao_limit_set(device, 8 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(dao_limit_set(device, 0), DAO_OK);
    dao_thread_join(&thread);
    dao_stream_destroy(held);
    dao_gate_finish(&gate);
}

static void *trim_device(void *user)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    *(dao_status_t *)user = dao_trim(device, 0, NULL);
    return NULL;
}

static void a_thread_that_waits_for_a_stream_holds_up_no_other(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    dao_gate_t gates[2];
    dao_stream_t *streams[2] = {held_stream(0, &gates[0]), held_stream(0, &gates[1])};
    size_t used_before = dao_used(device);
    for (int i = 0; i < 2; i++) {
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, i == 0 ? 1 * MIB : 8 * MIB, streams[i], &memory),
                              DAO_OK);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    }
    dao_status_t trim_status = DAO_ERR_NOT_READY;
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "trim", trim_device, &trim_status), DAO_OK);
    dao_sleep_until(dao_clock_ns() + 20 * UINT64_C(1000000)); /* it waits for the first stream now */
    dao_gate_open(&gates[1]);
    CU_ASSERT_EQUAL(dao_stream_synchronize(streams[1]), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), used_before + 1 * MIB);
    dao_gate_open(&gates[0]);
    dao_thread_join(&thread);
    CU_ASSERT_EQUAL(trim_status, DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), used_before);
    for (int i = 0; i < 2; i++) {
        dao_stream_destroy(streams[i]);
        dao_gate_finish(&gates[i]);
    }
}

static void a_release_waits_where_no_event_can_be_recorded(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    dao_gate_t gate;
    dao_thread_t thread;
    dao_stream_t *held = held_stream(0, &gate);
    dao_memory_t *memory = NULL;
    size_t used_before = dao_used(device);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 1000, held, &memory), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "open later", open_later, &gate), DAO_OK);
    record_fails = true;
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    record_fails = false;
    CU_ASSERT_TRUE(gate.is_open);
    CU_ASSERT_EQUAL(dao_used(device), used_before);
    dao_thread_join(&thread);
    dao_stream_destroy(held);
    dao_gate_finish(&gate);
}

static void pinned_memory_of_another_device_is_freed_later(void)
{
    dao_place_t pinned = dao_place_of(dao_pinned_place(1));
    dao_memory_t *memory = NULL;
    size_t used_before = dao_used(pinned);
    CU_ASSERT_EQUAL(dao_device_get_current(), 0);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(pinned, 1000, NULL, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_synchronize(1), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(pinned), used_before);
    CU_ASSERT_EQUAL(dao_device_get_current(), 0);
}

static CU_TestInfo tests[] = {
    {"released memory waits for its stream", released_memory_waits_for_its_stream},
    {"one stream that hangs holds up no other", one_stream_that_hangs_holds_up_no_other},
    {"memory that waits for a stream is not out of memory",
     memory_that_waits_for_a_stream_is_not_out_of_memory},
    {"memory that waits for a stream is not above a limit",
     memory_that_waits_for_a_stream_is_not_above_a_limit},
    {"a thread that waits for a stream holds up no other",
     a_thread_that_waits_for_a_stream_holds_up_no_other},
    {"a release waits where no event can be recorded", a_release_waits_where_no_event_can_be_recorded},
    {"pinned memory of another device is freed later", pinned_memory_of_another_device_is_freed_later},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"deferred free", runtime_start, runtime_stop, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
