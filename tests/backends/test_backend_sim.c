/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual time: the contract of all backends, with bytes in full and without them as far as it can be seen;
   then what is its own: times to the nanosecond, the same ones every time. */
#include "backends/sim/sim.h"
#include "backends/virtual_memory.h"
#include "base/memory/host.h"
#include "base/report/fault.h"
#include "tests/contract/backend_contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the contract ---- */

static const dao_config_t config = {.cpu = {.device_count = 2,
                                            .device_bytes = 64 * MIB,
                                            .h2d_bytes_per_second = UINT64_C(1000000000),
                                            .d2h_bytes_per_second = UINT64_C(500000000),
                                            .copy_latency_ns = 1000}};

static void *hold(dao_backend_stream_t *held)
{
    dao_sim_gate_t *gate = NULL;
    NEED(dao_sim_gate_create(held, &gate));
    return gate;
}

static void await_held(void *gate)
{
    (void)gate; /* nothing goes on before somebody waits */
}

static void open_gate(void *gate)
{
    dao_sim_gate_open(gate);
}

static void drop_gate(void *gate)
{
    dao_sim_gate_destroy(gate);
}

static void pass(dao_backend_device_t *passing, uint64_t duration_ns)
{
    NEED(dao_sim_pass(passing, dao_sim_now_ns(passing) + duration_ns));
}

static const backend_contract_time_t virtual_time = {hold, await_held, open_gate, drop_gate, pass};

static int be_with_bytes(void)
{
    backend_contract_set(&dao_sim_bytes_backend_ops, &config);
    backend_contract_set_time(&virtual_time);
    return 0;
}

static int be_without_bytes(void)
{
    backend_contract_set(&dao_sim_backend_ops, &config);
    backend_contract_set_time(&virtual_time);
    return 0;
}

/* ---- its own ---- */

/* 1 byte a nanosecond in, 1 in 2 out, 10 ns a copy. */
static const dao_cpu_config_t links = {.device_count = 1,
                                       .device_bytes = 64 * MIB,
                                       .h2d_bytes_per_second = UINT64_C(1000000000),
                                       .d2h_bytes_per_second = UINT64_C(500000000),
                                       .copy_latency_ns = 10};

enum { STREAM_COUNT = 3, BLOCK = 65536 };

static const dao_backend_ops_t *ops = &dao_sim_backend_ops;
static dao_backend_t *backend;
static dao_backend_device_t *device;
static dao_backend_stream_t *streams[STREAM_COUNT];
static char *memory, *pinned;

static void open_device(const dao_cpu_config_t *cpu)
{
    dao_config_t settings = {.cpu = *cpu};
    void *address = NULL;
    NEED(ops->open(&settings, &backend));
    NEED(ops->device_open(backend, 0, &device));
    for (int i = 0; i < STREAM_COUNT; i++) {
        NEED(ops->stream_create(device, &streams[i]));
    }
    NEED(ops->memory_alloc(device, BLOCK, &address));
    memory = address;
    NEED(ops->pinned_alloc(device, BLOCK, &address));
    pinned = address;
}

static void open_full(void)
{
    open_device(&links);
}

static void close_device(void)
{
    NEED(ops->pinned_free(device, pinned, BLOCK));
    NEED(ops->memory_free(device, memory, BLOCK));
    for (int i = 0; i < STREAM_COUNT; i++) {
        ops->stream_destroy(streams[i]);
    }
    ops->device_close(device);
    ops->close(backend);
}

static void copy_in(int stream, size_t size_bytes)
{
    NEED(ops->copy(streams[stream], DAO_COPY_KIND_H2D, memory, pinned, size_bytes));
}

static void copy_out(int stream, size_t size_bytes)
{
    NEED(ops->copy(streams[stream], DAO_COPY_KIND_D2H, pinned, memory, size_bytes));
}

static uint64_t finish_ns(int stream)
{
    NEED(ops->stream_synchronize(streams[stream]));
    return dao_sim_now_ns(device);
}

static void time_stands_still_until_somebody_waits(void)
{
    dao_backend_event_t *event = NULL;
    NEED(ops->event_create(device, true, &event));
    NEED(dao_sim_stream_work(streams[0], 700));
    NEED(ops->event_record(event, streams[0]));
    for (int i = 0; i < 10; i++) {
        CU_ASSERT_EQUAL(ops->event_query(event), DAO_ERR_NOT_READY);
    }
    CU_ASSERT_EQUAL(dao_sim_now_ns(device), 0);
    NEED(ops->event_synchronize(event));
    CU_ASSERT_EQUAL(dao_sim_now_ns(device), 700);
    NEED(ops->event_synchronize(event)); /* it has finished: no time goes by */
    CU_ASSERT_EQUAL(dao_sim_now_ns(device), 700);
    ops->event_destroy(event);
}

static void a_copy_takes_latency_and_bytes_over_bandwidth(void)
{
    copy_in(0, 1000);
    CU_ASSERT_EQUAL(finish_ns(0), 1010);
    copy_out(0, 1000);
    CU_ASSERT_EQUAL(finish_ns(0), 3020);
    NEED(ops->copy(streams[0], DAO_COPY_KIND_D2D, memory, memory + 4096, 4096));
    NEED(ops->fill(streams[0], memory, 1, BLOCK));
    CU_ASSERT_EQUAL(finish_ns(0), 3020);
    copy_out(0, 1); /* rounded up */
    CU_ASSERT_EQUAL(finish_ns(0), 3032);
}

static void directions_are_apart_in_full_duplex(void)
{
    copy_in(0, 1000);
    copy_out(1, 1000);
    NEED(dao_sim_stream_work(streams[2], 5000));
    CU_ASSERT_EQUAL(finish_ns(0), 1010);
    CU_ASSERT_EQUAL(finish_ns(1), 2010);
    CU_ASSERT_EQUAL(finish_ns(2), 5000);
}

static void directions_take_turns_in_half_duplex(void)
{
    close_device();
    dao_cpu_config_t half = links;
    half.half_duplex = true;
    open_device(&half);
    copy_in(0, 1000);
    copy_in(0, 1000);
    copy_out(1, 1000); /* comes second, before the stream's next copy comes to the wire */
    CU_ASSERT_EQUAL(finish_ns(1), 3020);
    CU_ASSERT_EQUAL(finish_ns(0), 4030);
}

/* The copy that comes first goes first, not the one that was queued first. */
static void a_wire_is_taken_in_the_order_of_coming(void)
{
    NEED(dao_sim_stream_work(streams[0], 100));
    copy_in(0, 1000);
    copy_in(1, 500);
    CU_ASSERT_EQUAL(finish_ns(1), 510);
    CU_ASSERT_EQUAL(finish_ns(0), 1520);
}

static void an_event_orders_streams_in_time(void)
{
    dao_backend_event_t *event = NULL, *end = NULL;
    int64_t elapsed_ns = 0;
    NEED(ops->event_create(device, true, &event));
    NEED(ops->event_create(device, true, &end));
    copy_in(0, 1000);
    NEED(ops->event_record(event, streams[0]));
    NEED(ops->stream_wait_event(streams[1], event));
    NEED(dao_sim_stream_work(streams[1], 300));
    NEED(ops->event_record(end, streams[1]));
    CU_ASSERT_EQUAL(finish_ns(1), 1310);
    NEED(ops->event_elapsed(event, end, &elapsed_ns));
    CU_ASSERT_EQUAL(elapsed_ns, 300);
    ops->event_destroy(event);
    ops->event_destroy(end);
}

typedef struct moment {
    uint64_t time_ns;
    dao_status_t status;
} moment_t;

static void note_moment(void *user)
{
    moment_t *moment = user;
    moment->time_ns = dao_sim_now_ns(device);
    moment->status = ops->fill(streams[0], memory, 0, 1);
}

static void a_host_function_comes_in_its_time_and_makes_no_call(void)
{
    moment_t moments[2];
    NEED(dao_sim_stream_work(streams[0], 40));
    NEED(ops->host_func(streams[0], note_moment, &moments[0]));
    NEED(dao_sim_stream_work(streams[0], 2));
    NEED(ops->host_func(streams[0], note_moment, &moments[1]));
    CU_ASSERT_EQUAL(finish_ns(0), 42);
    CU_ASSERT_EQUAL(moments[0].time_ns, 40);
    CU_ASSERT_EQUAL(moments[1].time_ns, 42);
    CU_ASSERT_EQUAL(moments[0].status, DAO_ERR_REENTRANT);
}

typedef struct told {
    dao_sim_span_t spans[4];
    int count;
} told_t;

static void note_span(const dao_sim_span_t *span, void *user)
{
    told_t *told = user;
    if (told->count < 4) {
        told->spans[told->count] = *span;
    }
    told->count++;
}

static void check_span(const dao_sim_span_t *span, dao_sim_span_kind_t kind, uint64_t begin_ns,
                       uint64_t end_ns, uint64_t size_bytes)
{
    CU_ASSERT_EQUAL(span->kind, kind);
    CU_ASSERT_EQUAL(span->begin_ns, begin_ns);
    CU_ASSERT_EQUAL(span->end_ns, end_ns);
    CU_ASSERT_EQUAL(span->size_bytes, size_bytes);
}

static void the_span_callback_is_told_what_took_time(void)
{
    told_t told = {.count = 0};
    dao_sim_span_callback_set(device, note_span, &told);
    copy_in(0, 1000);
    copy_in(1, 500); /* waits for the link until 1010 */
    copy_out(2, 100);
    NEED(ops->fill(streams[2], memory, 1, BLOCK)); /* takes no time */
    NEED(dao_sim_stream_work(streams[2], 40));
    CU_ASSERT_EQUAL(finish_ns(1), 1520);
    dao_sim_span_callback_set(device, NULL, NULL);
    copy_in(0, 1000);
    CU_ASSERT_EQUAL(finish_ns(0), 2530);
    CU_ASSERT_EQUAL_FATAL(told.count, 4);
    check_span(&told.spans[0], DAO_SIM_SPAN_OUT, 0, 210, 100);
    check_span(&told.spans[1], DAO_SIM_SPAN_WORK, 210, 250, 0);
    check_span(&told.spans[2], DAO_SIM_SPAN_IN, 0, 1010, 1000);
    check_span(&told.spans[3], DAO_SIM_SPAN_IN, 1010, 1520, 500);
}

static void the_host_may_let_time_pass(void)
{
    NEED(dao_sim_stream_work(streams[0], 100));
    NEED(dao_sim_stream_work(streams[0], 100));
    NEED(dao_sim_pass(device, 150));
    CU_ASSERT_EQUAL(dao_sim_now_ns(device), 150);
    NEED(dao_sim_stream_work(streams[1], 10)); /* queued at 150 */
    CU_ASSERT_EQUAL(finish_ns(1), 160);
    CU_ASSERT_EQUAL(finish_ns(0), 200);
    NEED(dao_sim_pass(device, 10)); /* it never goes back */
    CU_ASSERT_EQUAL(dao_sim_now_ns(device), 200);
}

static void a_wait_that_cannot_end_is_answered(void)
{
    dao_sim_gate_t *gate = NULL;
    NEED(dao_sim_gate_create(streams[0], &gate));
    CU_ASSERT_EQUAL(ops->stream_synchronize(streams[0]), DAO_ERR_BACKEND);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "stands still"));
    CU_ASSERT_EQUAL(ops->device_synchronize(device), DAO_ERR_BACKEND);
    CU_ASSERT_EQUAL(finish_ns(1), 0);
    dao_sim_gate_open(gate);
    CU_ASSERT_EQUAL(ops->device_synchronize(device), DAO_OK);
    dao_sim_gate_destroy(gate);
}

static void a_stream_that_is_destroyed_drops_what_cannot_run(void)
{
    dao_backend_stream_t *stuck = NULL;
    dao_backend_event_t *event = NULL;
    dao_sim_gate_t *gate = NULL;
    NEED(ops->stream_create(device, &stuck));
    NEED(ops->event_create(device, true, &event));
    NEED(dao_sim_gate_create(stuck, &gate));
    NEED(ops->event_record(event, stuck));
    ops->stream_destroy(stuck);
    CU_ASSERT_EQUAL(ops->event_query(event), DAO_OK);
    ops->event_destroy(event);
    dao_sim_gate_destroy(gate);
}

static void wrong_settings_are_refused(void)
{
    static const dao_cpu_config_t wrong[] = {
        {.device_count = -1}, {.device_count = 65}, {.device_bytes = UINT64_MAX}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        dao_config_t settings = {.cpu = wrong[i]};
        dao_backend_t *opened = NULL;
        CU_ASSERT_EQUAL(ops->open(&settings, &opened), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NULL(opened);
    }
    CU_ASSERT_EQUAL(ops->memory_free(device, pinned, BLOCK), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(ops->memory_free(device, memory, BLOCK - 1), DAO_ERR_FOREIGN_POINTER);
}

/* Random work on three streams, with events between them: where each stream is at the end. */
static void run_random_work(uint64_t seed, uint64_t out_times_ns[STREAM_COUNT])
{
    enum { STEPS = 400, EVENTS = 8 };
    dao_backend_event_t *events[EVENTS];
    for (int i = 0; i < EVENTS; i++) {
        NEED(ops->event_create(device, true, &events[i]));
    }
    for (int i = 0; i < STEPS; i++) {
        int stream = (int)(dao_random_next(&seed) % STREAM_COUNT);
        dao_backend_event_t *event = events[dao_random_next(&seed) % EVENTS];
        size_t size_bytes = dao_random_next(&seed) % 5000 + 1;
        switch (dao_random_next(&seed) % 6) {
        case 0:
            copy_in(stream, size_bytes);
            break;
        case 1:
            copy_out(stream, size_bytes);
            break;
        case 2:
            NEED(dao_sim_stream_work(streams[stream], size_bytes));
            break;
        case 3:
            NEED(ops->event_record(event, streams[stream]));
            break;
        case 4:
            NEED(ops->stream_wait_event(streams[stream], event));
            break;
        default:
            if (i % 16 == 0) {
                NEED(ops->event_synchronize(event));
            }
        }
    }
    for (int i = 0; i < STREAM_COUNT; i++) {
        out_times_ns[i] = finish_ns(i);
    }
    for (int i = 0; i < EVENTS; i++) {
        ops->event_destroy(events[i]);
    }
}

static void the_same_calls_give_the_same_times(void)
{
    uint64_t seed = dao_test_seed("same times", 71);
    uint64_t first[STREAM_COUNT], second[STREAM_COUNT];
    for (uint64_t round = 0; round < 20; round++) {
        run_random_work(seed + round, first);
        close_device();
        open_full();
        run_random_work(seed + round, second);
        close_device();
        open_full();
        CU_ASSERT_EQUAL(memcmp(first, second, sizeof(first)), 0);
    }
}

#if defined(DAO_FAULTS)

/* Every call that needs memory, refused once. */
static void every_failing_call_is_answered(void)
{
    uint64_t n = 0;
    for (bool has_fired = true; has_fired && n < 1000; n++) {
        dao_backend_stream_t *stream = NULL;
        dao_backend_event_t *event = NULL;
        void *address = NULL;
        dao_fault_arm(DAO_FAULT_ANY, n, false);
        dao_status_t status = ops->stream_create(device, &stream);
        status = status == DAO_OK ? ops->event_create(device, true, &event) : status;
        status = status == DAO_OK ? ops->memory_alloc(device, BLOCK, &address) : status;
        status = status == DAO_OK ? dao_sim_stream_work(stream, 5) : status;
        status = status == DAO_OK ? ops->event_record(event, stream) : status;
        status = status == DAO_OK ? ops->stream_wait_event(streams[1], event) : status;
        status = status == DAO_OK ? ops->event_record(event, stream) : status;
        has_fired = dao_fault_disarm() > 0;
        CU_ASSERT_EQUAL(status, has_fired ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        CU_ASSERT_EQUAL(ops->device_synchronize(device), DAO_OK);
        if (address != NULL) {
            CU_ASSERT_EQUAL(ops->memory_free(device, address, BLOCK), DAO_OK);
        }
        if (event != NULL) {
            ops->event_destroy(event);
        }
        if (stream != NULL) {
            ops->stream_destroy(stream);
        }
    }
    CU_ASSERT_TRUE(n > 8);
}

#endif

/* A plan of a large model maps more than the system's mappings of a process: addresses alone need none. */
static void pages_without_bytes_are_mapped_without_limit(void)
{
    enum { PAGE_COUNT = 2, RUN_COUNT = DAO_VIRTUAL_ALIAS_RUN_MAX + 1 };
    size_t page_bytes = DAO_VIRTUAL_ALIAS_PAGE_BYTES;
    size_t prepared_bytes = 0;
    void *base = NULL, *address = dao_host_reserve(RUN_COUNT * page_bytes, page_bytes);
    if (address == NULL) {
        printf("    skipped: no %zu bytes of addresses, as under valgrind\n", RUN_COUNT * page_bytes);
        return;
    }
    dao_host_unmap(address, RUN_COUNT * page_bytes);
    uint32_t *pages = malloc(RUN_COUNT * sizeof(*pages));
    CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
    for (uint32_t i = 0; i < RUN_COUNT; i++) {
        pages[i] = (i + 1) % PAGE_COUNT; /* 1, 0, 1, ...: at most two of them follow each other */
    }
    NEED(ops->memory_alloc(device, PAGE_COUNT * page_bytes, &base));
    NEED(ops->alias_prepare(device, base, PAGE_COUNT * page_bytes, &prepared_bytes));
    CU_ASSERT_EQUAL(prepared_bytes, page_bytes);
    CU_ASSERT_EQUAL(ops->alias_map(device, base, page_bytes, pages, RUN_COUNT, &address), DAO_OK);
    CU_ASSERT_EQUAL(ops->alias_unmap(device, address, page_bytes, RUN_COUNT, 0), DAO_OK);
    NEED(ops->memory_free(device, base, PAGE_COUNT * page_bytes));
    free(pages);
}

static CU_TestInfo tests[] = {
    {"time stands still until somebody waits", time_stands_still_until_somebody_waits},
    {"a copy takes latency, and bytes over bandwidth", a_copy_takes_latency_and_bytes_over_bandwidth},
    {"directions are apart in full duplex", directions_are_apart_in_full_duplex},
    {"directions take turns in half duplex", directions_take_turns_in_half_duplex},
    {"a wire is taken in the order of coming", a_wire_is_taken_in_the_order_of_coming},
    {"an event orders streams in time", an_event_orders_streams_in_time},
    {"a host function comes in its time and makes no call",
     a_host_function_comes_in_its_time_and_makes_no_call},
    {"the span callback is told what took time", the_span_callback_is_told_what_took_time},
    {"the host may let time pass", the_host_may_let_time_pass},
    {"a wait that cannot end is answered", a_wait_that_cannot_end_is_answered},
    {"a stream that is destroyed drops what cannot run", a_stream_that_is_destroyed_drops_what_cannot_run},
    {"pages without bytes are mapped without limit", pages_without_bytes_are_mapped_without_limit},
    {"wrong settings are refused", wrong_settings_are_refused},
    {"the same calls give the same times", the_same_calls_give_the_same_times},
#if defined(DAO_FAULTS)
    {"every failing call is answered", every_failing_call_is_answered},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"contract: virtual time, with bytes", be_with_bytes, NULL, backend_contract_begin,
         backend_contract_end, backend_contract_tests},
        {"contract: virtual time, without bytes", be_without_bytes, NULL, backend_contract_begin,
         backend_contract_end, backend_contract_byteless_tests},
        {"sim", NULL, NULL, open_full, close_device, tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}
