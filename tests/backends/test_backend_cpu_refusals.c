/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual devices where the system refuses memory or threads: all is as it was, and the next try works. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/cpu_internal.h"
#include "base/report/error.h"
#include "base/report/fault.h"
#include "tests/contract/backend_contract.h"
#include "tests/support/gate.h"

#include <string.h>

static const dao_backend_ops_t *const ops = &dao_cpu_backend_ops;

static dao_backend_t *backend;
static dao_backend_device_t *device;
static dao_backend_stream_t *stream;

static void open_small_device(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    NEED(ops->open(&config, &backend));
    NEED(ops->device_open(backend, 0, &device));
    NEED(ops->stream_create(device, &stream));
}

static void close_device(void)
{
    ops->stream_destroy(stream);
    ops->device_close(device); /* asserts that nothing is left */
    ops->close(backend);
}

/* A scenario runs with its n-th request refused, n = 0, 1, 2, ... until none is. It
   undoes all it did, whether it succeeds or not; closing the device asserts that nothing is left. */
typedef dao_status_t (*scenario_t)(void);

static bool is_refusal(dao_status_t status)
{
    return status == DAO_ERR_NO_HOST_MEMORY || status == DAO_ERR_THREAD || status == DAO_ERR_BACKEND;
}

/* Returns how many of the scenario's requests could be refused. */
static uint64_t survive(dao_fault_t fault, scenario_t scenario)
{
    for (uint64_t n = 0; n < 1000; n++) {
        dao_fault_arm(fault, n, false);
        dao_status_t status = scenario();
        dao_status_t last = dao_last_status();
        if (dao_fault_disarm() == 0) {
            CU_ASSERT_EQUAL(status, DAO_OK);
            return n;
        }
        CU_ASSERT_TRUE(is_refusal(status));
        CU_ASSERT_EQUAL(last, status);
        CU_ASSERT_EQUAL(scenario(), DAO_OK); /* the next try works */
    }
    CU_FAIL("the scenario never succeeds");
    return 0;
}

static dao_status_t open_and_close(void)
{
    dao_config_t config = {.cpu = {.device_bytes = 64 * MIB}};
    dao_backend_t *opened = NULL;
    dao_status_t status = ops->open(&config, &opened);
    CU_ASSERT_EQUAL(status == DAO_OK, opened != NULL);
    if (status != DAO_OK) {
        return status;
    }
    dao_backend_device_t *opened_device = NULL;
    status = ops->device_open(opened, 0, &opened_device);
    CU_ASSERT_EQUAL(status == DAO_OK, opened_device != NULL);
    if (status == DAO_OK) {
        ops->device_close(opened_device);
    }
    ops->close(opened);
    return status;
}

static uint64_t free_bytes(void)
{
    dao_device_info_t info = {.free_bytes = 0};
    NEED(ops->device_query(device, &info));
    return info.free_bytes;
}

static dao_status_t alloc_and_free(void)
{
    void *memory = NULL, *pinned = NULL;
    dao_status_t status = ops->memory_alloc(device, MIB, &memory);
    if (status == DAO_OK) {
        status = ops->pinned_alloc(device, MIB, &pinned);
        CU_ASSERT_EQUAL(status == DAO_OK, pinned != NULL);
        CU_ASSERT_EQUAL(ops->memory_free(device, memory, MIB), DAO_OK);
    }
    if (pinned != NULL) {
        CU_ASSERT_EQUAL(ops->pinned_free(device, pinned, MIB), DAO_OK);
    }
    CU_ASSERT_EQUAL(free_bytes(), 64 * MIB);
    return status;
}

/* Maps and unmaps; an unmapping that was refused leaves the pages mapped, with their bytes. */
static dao_status_t map_and_unmap(dao_backend_pages_t *pages, char *range)
{
    dao_status_t status = ops->pages_map(device, pages, range);
    if (status != DAO_OK) {
        return status;
    }
    range[0] = 7;
    status = ops->pages_unmap(device, pages, range);
    if (status != DAO_OK) {
        CU_ASSERT_EQUAL(range[0], 7);
        dao_error_record_t refusal;
        dao_error_save(&refusal, status);
        CU_ASSERT_EQUAL(ops->pages_unmap(device, pages, range), DAO_OK);
        (void)dao_error_restore(&refusal);
    }
    return status;
}

static dao_status_t use_pages(void)
{
    void *range = NULL;
    dao_backend_pages_t *pages = NULL;
    dao_status_t status = ops->address_reserve(device, 2 * DAO_CPU_PAGE_BYTES, &range);
    if (status != DAO_OK) {
        return status;
    }
    status = ops->pages_create(device, DAO_CPU_PAGE_BYTES, &pages);
    CU_ASSERT_EQUAL(status == DAO_OK, pages != NULL);
    if (status == DAO_OK) {
        status = map_and_unmap(pages, range);
        CU_ASSERT_EQUAL(ops->pages_destroy(device, pages), DAO_OK);
    }
    CU_ASSERT_EQUAL(ops->address_release(device, range, 2 * DAO_CPU_PAGE_BYTES), DAO_OK);
    CU_ASSERT_EQUAL(free_bytes(), 64 * MIB);
    return status;
}

/* A hundred copies behind a gate make the queue grow; a refused one is left out. */
static dao_status_t copy_behind_a_gate(dao_backend_stream_t *own)
{
    enum { COUNT = 100 };
    static char from[COUNT], to[COUNT];
    dao_gate_t gate;
    dao_gate_init(&gate);
    memset(from, 1, sizeof(from));
    memset(to, 0, sizeof(to));
    int queued_count = 0, arrived_count = 0;
    dao_status_t status = ops->host_func(own, dao_gate_wait, &gate);
    for (int i = 0; i < COUNT && status == DAO_OK; i++) {
        status = ops->copy(own, DAO_COPY_KIND_H2H, &to[i], &from[i], 1);
        queued_count += status == DAO_OK ? 1 : 0;
    }
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(ops->stream_synchronize(own), DAO_OK);
    for (int i = 0; i < COUNT; i++) {
        arrived_count += to[i];
    }
    CU_ASSERT_EQUAL(arrived_count, queued_count);
    dao_gate_finish(&gate);
    return status;
}

static dao_status_t create_a_stream_and_copy(void)
{
    dao_backend_stream_t *own = NULL;
    dao_status_t status = ops->stream_create(device, &own);
    CU_ASSERT_EQUAL(status == DAO_OK, own != NULL);
    if (status == DAO_OK) {
        status = copy_behind_a_gate(own);
        ops->stream_destroy(own);
    }
    return status;
}

/* Records twice and waits; an event whose record was refused stands for what it stood for. */
static dao_status_t record_and_wait(dao_backend_stream_t *own, dao_backend_event_t *event)
{
    dao_status_t status = ops->event_record(event, own);
    if (status != DAO_OK) {
        CU_ASSERT_EQUAL(ops->event_query(event), DAO_OK); /* never recorded */
        return status;
    }
    dao_gate_t gate;
    dao_gate_init(&gate);
    status = ops->host_func(own, dao_gate_wait, &gate);
    if (status == DAO_OK) {
        CU_ASSERT_EQUAL(ops->event_synchronize(event), DAO_OK);
        status = ops->event_record(event, own);
        CU_ASSERT_EQUAL(ops->event_query(event), status == DAO_OK ? DAO_ERR_NOT_READY : DAO_OK);
    }
    if (status == DAO_OK) {
        status = ops->stream_wait_event(stream, event);
    }
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(ops->stream_synchronize(own), DAO_OK);
    CU_ASSERT_EQUAL(ops->stream_synchronize(stream), DAO_OK);
    dao_gate_finish(&gate);
    return status;
}

static dao_status_t use_an_event(void)
{
    dao_backend_stream_t *own = NULL;
    dao_backend_event_t *event = NULL;
    dao_status_t status = ops->stream_create(device, &own);
    if (status != DAO_OK) {
        return status;
    }
    status = ops->event_create(device, true, &event);
    CU_ASSERT_EQUAL(status == DAO_OK, event != NULL);
    if (status == DAO_OK) {
        status = record_and_wait(own, event);
        ops->event_destroy(event);
    }
    ops->stream_destroy(own);
    return status;
}

static void a_refusal_by_the_system_leaves_all_as_it_was(void)
{
    static const struct {
        scenario_t scenario;
        uint64_t least_memory; /* requests of each kind that can be refused, at least */
        uint64_t least_threads;
        uint64_t least_system_memory;
    } cases[] = {
        {open_and_close, 2, 0, 0},           {alloc_and_free, 2, 0, 2}, {use_pages, 1, 0, 4},
        {create_a_stream_and_copy, 3, 1, 0}, {use_an_event, 4, 1, 0},
    };
    open_small_device();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CU_ASSERT_TRUE(survive(DAO_FAULT_HOST_MEMORY, cases[i].scenario) >= cases[i].least_memory);
        CU_ASSERT_TRUE(survive(DAO_FAULT_THREAD, cases[i].scenario) >= cases[i].least_threads);
        CU_ASSERT_TRUE(survive(DAO_FAULT_SYSTEM_MEMORY, cases[i].scenario) >= cases[i].least_system_memory);
    }
    close_device();
}

static void pages_that_the_system_keeps_can_be_given_up(void)
{
    void *address = NULL;
    dao_backend_pages_t *pages = NULL;
    open_small_device();
    NEED(ops->address_reserve(device, DAO_CPU_PAGE_BYTES, &address));
    NEED(ops->pages_create_mapped(device, DAO_CPU_PAGE_BYTES, 1, address, &pages));
    dao_fault_arm(DAO_FAULT_SYSTEM_MEMORY, 0, true);
    CU_ASSERT_EQUAL(ops->pages_unmap(device, pages, address), DAO_ERR_BACKEND);
    CU_ASSERT_EQUAL(ops->pages_destroy(device, pages), DAO_OK);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    NEED(ops->address_release(device, address, DAO_CPU_PAGE_BYTES));
    close_device();
}

static CU_TestInfo tests[] = {
    {"pages that the system keeps can be given up", pages_that_the_system_keeps_can_be_given_up},
    {"a refusal by the system leaves all as it was", a_refusal_by_the_system_leaves_all_as_it_was},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"backend_cpu: refusals", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
