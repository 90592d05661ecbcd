/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of handles that waits for its stream: in stream order, and deferred, where the stream has no number.
   What it is in the way of. */
#include <dao/async.h>
#include <dao/context.h>
#include <dao/memory.h>
#include <dao/stats.h>
#include <dao/stream.h>

#include "allocators/slow_path.h"
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

static dao_gate_t *awaited_gate;     /* NULL: none is looked at */
static _Atomic bool has_ended_early; /* a stream was destroyed before it was open */

static void stream_destroy_and_look(dao_backend_stream_t *stream)
{
    if (awaited_gate != NULL) {
        dao_mutex_lock(&awaited_gate->lock);
        has_ended_early = has_ended_early || !awaited_gate->is_open;
        dao_mutex_unlock(&awaited_gate->lock);
    }
    dao_backend_ops()->stream_destroy(stream);
}

static _Thread_local bool is_in_host_function; /* says the backend, and answers nothing about work */

static dao_status_t event_query_or_refuse(dao_backend_event_t *event)
{
    return is_in_host_function ? DAO_ERR_REENTRANT : dao_backend_ops()->event_query(event);
}

static dao_status_t event_synchronize_or_refuse(dao_backend_event_t *event)
{
    return is_in_host_function ? DAO_ERR_REENTRANT : dao_backend_ops()->event_synchronize(event);
}

static dao_status_t device_synchronize_or_refuse(dao_backend_device_t *device)
{
    return is_in_host_function ? DAO_ERR_REENTRANT : dao_backend_ops()->device_synchronize(device);
}

static int runtime_start(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    table = *dao_backend_ops();
    table.event_record = record_or_fail;
    table.stream_destroy = stream_destroy_and_look;
    table.event_query = event_query_or_refuse;
    table.event_synchronize = event_synchronize_or_refuse;
    table.device_synchronize = device_synchronize_or_refuse;
    return dao_context_start(&config, &table) != DAO_OK;
}

/* Takes all numbers of a device's streams, so that those of later ones follow none. */
static int take_numbers(int32_t device_index)
{
    dao_runtime_t *runtime = NULL;
    uint32_t number;
    dao_status_t status = dao_runtime_borrow(device_index, &runtime);
    while (status == DAO_OK) {
        status = dao_stream_fences_stream_add(runtime->fences, runtime->streams[0].backend, &number);
    }
    return status != DAO_ERR_TOO_MANY;
}

static int runtime_start_without_numbers(void)
{
    int result = runtime_start();
    table.made_streams_wait_on_host = true; /* so that there is no crowd, where streams share a number */
    for (int32_t i = 0; i < 2 && result == 0; i++) {
        result = take_numbers(i);
    }
    return result;
}

static int runtime_stop(void)
{
    return dao_finalize() != DAO_OK;
}

/* ---- helpers ---- */

static void release_new(dao_place_t place, size_t size_bytes, dao_stream_t *stream)
{
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(place, size_bytes, stream, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
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

static void a_release_waits_for_no_event_that_cannot_be_recorded(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    dao_gate_t gate;
    dao_stream_t *held = held_stream(0, &gate);
    size_t used_before = dao_used(device);
    record_fails = true;
    release_new(device, 1000, held);
    CU_ASSERT_NOT_EQUAL(dao_used(device), used_before);
    record_fails = false;
    CU_ASSERT_NOT_EQUAL(dao_used(device), used_before);
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_stream_synchronize(held), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), used_before);
    dao_stream_destroy(held);
    dao_gate_finish(&gate);
}

static void what_waits_keeps_nobody_from_the_fast_path(void)
{
    dao_place_t device = dao_place_of(dao_device_place(1));
    dao_gate_t gate;
    dao_stream_t *held = held_stream(1, &gate);
    size_t used_before = dao_used(device);
    release_new(device, 1 * MIB, held);
    CU_ASSERT_EQUAL(dao_used(device), used_before + 1 * MIB);
    CU_ASSERT_FALSE(dao_slow_path_is_needed());
    dao_gate_open(&gate);
    dao_stream_destroy(held);
    CU_ASSERT_EQUAL(dao_used(device), used_before);
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

/* ---- in stream order ---- */

static const dao_place_t ordered_places[] = {{DAO_PLACE_KIND_DEVICE, 0}, {DAO_PLACE_KIND_PINNED, 0}};
static const size_t ordered_sizes[] = {100, 4096, 8192, 1 * MIB, 8 * MIB};
#define ORDERED_SIZE_COUNT (sizeof(ordered_sizes) / sizeof(ordered_sizes[0]))

/* A block and a handle that are taken now lie elsewhere. */
static void nobody_gets(dao_place_t place, size_t size_bytes, const void *address, dao_stream_t *stream)
{
    void *plain = dao_alloc(place, size_bytes);
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(place, size_bytes, stream, &memory), DAO_OK);
    CU_ASSERT_PTR_NOT_NULL(plain);
    CU_ASSERT_PTR_NOT_EQUAL(plain, address);
    CU_ASSERT_PTR_NOT_EQUAL(dao_memory_address(memory), address); /* the host may copy into it at once */
    CU_ASSERT_EQUAL(dao_free(place, plain), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
}

/* Releases a handle of `stream`, which `user` uses, too, and whose block goes to nobody before both are done.
   The gate is that of one of them. */
static void is_kept(dao_place_t place, size_t size_bytes, dao_stream_t *stream, dao_stream_t *user)
{
    dao_memory_t *memory = NULL;
    dao_stats_t stats;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(place, size_bytes, stream, &memory), DAO_OK);
    void *address = dao_memory_address(memory);
    size_t used = dao_used(place);
    if (user != stream) {
        CU_ASSERT_EQUAL(dao_record_stream(place, address, user), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_TRUE(dao_used(place) < used); /* as after dao_free_async() */
    CU_ASSERT_EQUAL(dao_stats_get(place, &stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.deferred_count, 0);
    nobody_gets(place, size_bytes, address, stream);
    if (user != stream) {
        nobody_gets(place, size_bytes, address, user);
    }
}

static void released_memory_is_kept_from_others_until_its_streams_are_done(void)
{
    for (int i = 0; i < 2; i++) {
        for (size_t j = 0; j < ORDERED_SIZE_COUNT; j++) {
            dao_gate_t gate;
            dao_stream_t *held = held_stream(0, &gate), *idle = NULL;
            CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &idle), DAO_OK);
            is_kept(ordered_places[i], ordered_sizes[j], held, held);
            is_kept(ordered_places[i], ordered_sizes[j], idle, held);
            dao_gate_open(&gate);
            CU_ASSERT_EQUAL(dao_stream_synchronize(held), DAO_OK);
            dao_stream_destroy(held);
            dao_stream_destroy(idle);
            dao_gate_finish(&gate);
        }
        CU_ASSERT_EQUAL(dao_used(ordered_places[i]), 0);
    }
}

/* What is released on an idle stream is anybody's: no place grows. */
static void memory_of_an_idle_stream_is_used_again(void)
{
    for (int i = 0; i < 2; i++) {
        dao_stats_t before, after;
        release_new(ordered_places[i], 8 * MIB, NULL);
        CU_ASSERT_EQUAL(dao_stats_get(ordered_places[i], &before), DAO_OK);
        for (int j = 0; j < 100; j++) {
            release_new(ordered_places[i], 8 * MIB, NULL);
        }
        CU_ASSERT_EQUAL(dao_stats_get(ordered_places[i], &after), DAO_OK);
        CU_ASSERT_TRUE(after.reserved_bytes <= before.reserved_bytes + 8 * MIB);
    }
}

static void the_owner_alone_frees_it(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 1 * MIB, NULL, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(device, dao_memory_address(memory), NULL), DAO_ERR_NOT_YOURS);
    CU_ASSERT_EQUAL(dao_free(device, dao_memory_address(memory)), DAO_ERR_NOT_YOURS);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

#define THREAD_COUNT 4
#define ROUND_COUNT  200

/* Makes handles and releases those that another thread has made. */
typedef struct exchange {
    _Atomic(dao_memory_t *) slots[THREAD_COUNT * 2];
} exchange_t;

static void *exchange_handles(void *user)
{
    exchange_t *exchange = user;
    dao_place_t device = dao_place_of(dao_device_place(1));
    for (size_t i = 0; i < ROUND_COUNT; i++) {
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL(dao_memory_create(device, 100 + i * 997, NULL, &memory), DAO_OK);
        memory = atomic_exchange(&exchange->slots[i % (THREAD_COUNT * 2)], memory);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    }
    return NULL;
}

static void several_threads_release_what_others_have_made(void)
{
    static exchange_t exchange;
    dao_thread_t threads[THREAD_COUNT];
    for (int i = 0; i < THREAD_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "exchange", exchange_handles, &exchange), DAO_OK);
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        dao_thread_join(&threads[i]);
    }
    for (int i = 0; i < THREAD_COUNT * 2; i++) {
        CU_ASSERT_EQUAL(dao_memory_release(atomic_exchange(&exchange.slots[i], NULL)), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_used(dao_place_of(dao_device_place(1))), 0);
}

/* The device's own stream works on behind dao_finalize(). */
static void the_last_release_after_the_end_waits_for_the_work(void)
{
    dao_memory_t *memory = NULL;
    dao_gate_t gate;
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(ordered_places[0], 1 * MIB, NULL, &memory), DAO_OK);
    dao_stream_t *stream = dao_memory_stream(memory);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY); /* one is alive */
    dao_gate_init(&gate);
    CU_ASSERT_EQUAL_FATAL(device_gate(stream, &gate), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "open later", open_later, &gate), DAO_OK);
    awaited_gate = &gate;
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_FALSE(has_ended_early);
    awaited_gate = NULL;
    dao_thread_join(&thread);
    dao_gate_finish(&gate);
    CU_ASSERT_EQUAL_FATAL(runtime_start(), 0);
}

static void a_host_function_gets_no_memory_that_its_stream_uses(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    dao_gate_t gate;
    dao_stream_t *stream = held_stream(0, &gate);
    size_t used_before = dao_used(device);
    release_new(device, 1 * MIB, stream);
    is_in_host_function = true;
    CU_ASSERT_EQUAL(dao_used(device), used_before + 1 * MIB); /* looks what has ended */
    (void)dao_trim(device, 0, NULL);                          /* waits for it */
    CU_ASSERT_EQUAL(dao_used(device), used_before + 1 * MIB);
    is_in_host_function = false;
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), used_before);
    dao_stream_destroy(stream);
    dao_gate_finish(&gate);
}

static CU_TestInfo ordered_tests[] = {
    {"released memory is kept from others until its streams are done",
     released_memory_is_kept_from_others_until_its_streams_are_done},
    {"memory of an idle stream is used again", memory_of_an_idle_stream_is_used_again},
    {"the owner alone frees it", the_owner_alone_frees_it},
    {"several threads release what others have made", several_threads_release_what_others_have_made},
    {"the last release after the end waits for the work", the_last_release_after_the_end_waits_for_the_work},
    {"memory that waits for a stream is not out of memory",
     memory_that_waits_for_a_stream_is_not_out_of_memory},
    {"memory that waits for a stream is not above a limit",
     memory_that_waits_for_a_stream_is_not_above_a_limit},
    {"pinned memory of another device is freed in order", pinned_memory_of_another_device_is_freed_later},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo tests[] = {
    {"released memory waits for its stream", released_memory_waits_for_its_stream},
    {"one stream that hangs holds up no other", one_stream_that_hangs_holds_up_no_other},
    {"memory that waits for a stream is not out of memory",
     memory_that_waits_for_a_stream_is_not_out_of_memory},
    {"memory that waits for a stream is not above a limit",
     memory_that_waits_for_a_stream_is_not_above_a_limit},
    {"a thread that waits for a stream holds up no other",
     a_thread_that_waits_for_a_stream_holds_up_no_other},
    {"a release waits for no event that cannot be recorded",
     a_release_waits_for_no_event_that_cannot_be_recorded},
    {"a host function gets no memory that its stream uses",
     a_host_function_gets_no_memory_that_its_stream_uses},
    {"what waits keeps nobody from the fast path", what_waits_keeps_nobody_from_the_fast_path},
    {"pinned memory of another device is freed later", pinned_memory_of_another_device_is_freed_later},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"memory of handles in stream order", runtime_start, runtime_stop, NULL, NULL, ordered_tests},
        {"deferred free", runtime_start_without_numbers, runtime_stop, NULL, NULL, tests},
        CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
