/* SPDX-License-Identifier: Apache-2.0 */
/* The wrapping backend: it is a backend like any other while nothing is armed, it fails just what it is told
   to, and it counts what lives. */
#include "backends/cpu/cpu.h"
#include "tests/contract/backend_contract.h"
#include "tests/support/backends/fault_backend.h"

#include <string.h>

static const dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};

/* The contract's subjects. */

static int be_quiet(void)
{
    static const fault_config_t quiet;
    backend_contract_set(fault_backend_wrap(&dao_cpu_backend_ops, &quiet), &config);
    return 0;
}

static int be_slow(void)
{
    fault_config_t slow = {.seed = dao_test_seed("delays", 11), .delay_ns_max = 50000};
    backend_contract_set(fault_backend_wrap(&dao_cpu_backend_ops, &slow), &config);
    return 0;
}

static int be_opaque(void)
{
    static const fault_config_t opaque = {.hide_host_access = true, .hide_pages = true};
    backend_contract_set(fault_backend_wrap(&dao_cpu_backend_ops, &opaque), &config);
    return 0;
}

/* What is its own. */

static const dao_backend_ops_t *ops;
static dao_backend_t *backend;
static dao_backend_device_t *device;

static void open_quiet(void)
{
    static const fault_config_t quiet;
    ops = fault_backend_wrap(&dao_cpu_backend_ops, &quiet);
    NEED(ops->open(&config, &backend));
    NEED(ops->device_open(backend, 0, &device));
}

static void close_quiet(void)
{
    ops->device_close(device);
    ops->close(backend);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
}

static void the_armed_call_fails_once(void)
{
    void *address = NULL;
    fault_backend_arm(FAULT_CALL_MEMORY_ALLOC, 1, false);
    CU_ASSERT_EQUAL(ops->memory_alloc(device, MIB, &address), DAO_OK);
    void *second = NULL;
    CU_ASSERT_EQUAL(ops->memory_alloc(device, MIB, &second), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NULL(second);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "memory_alloc"));
    CU_ASSERT_EQUAL(ops->memory_alloc(device, MIB, &second), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_disarm(), 1);
    CU_ASSERT_EQUAL(fault_backend_calls(FAULT_CALL_MEMORY_ALLOC), 3);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 2);
    CU_ASSERT_EQUAL(ops->memory_free(device, address, MIB), DAO_OK);
    CU_ASSERT_EQUAL(ops->memory_free(device, second, MIB), DAO_OK);
}

static void a_persistent_fault_fails_all_that_follow(void)
{
    void *address = NULL;
    dao_backend_event_t *event = NULL;
    fault_backend_arm(FAULT_CALL_ANY, 0, true);
    CU_ASSERT_EQUAL(ops->pinned_alloc(device, MIB, &address), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_EQUAL(ops->event_create(device, true, &event), DAO_ERR_BACKEND);
    CU_ASSERT_EQUAL(fault_backend_disarm(), 2);
    CU_ASSERT_EQUAL(ops->event_create(device, true, &event), DAO_OK);
    ops->event_destroy(event);
}

static void a_finished_event_may_be_reported_late(void)
{
    close_quiet();
    static const fault_config_t late = {.seed = 5, .not_ready_max = 4};
    ops = fault_backend_wrap(&dao_cpu_backend_ops, &late);
    NEED(ops->open(&config, &backend));
    NEED(ops->device_open(backend, 0, &device));
    dao_backend_stream_t *stream = NULL;
    dao_backend_event_t *event = NULL;
    NEED(ops->stream_create(device, &stream));
    NEED(ops->event_create(device, true, &event));
    int late_count = 0;
    for (int i = 0; i < 50; i++) {
        NEED(ops->event_record(event, stream));
        NEED(ops->event_synchronize(event));
        while (ops->event_query(event) == DAO_ERR_NOT_READY) {
            late_count++;
        }
    }
    CU_ASSERT_TRUE(late_count > 0 && late_count <= 50 * 4);
    ops->event_destroy(event);
    ops->stream_destroy(stream);
}

static CU_TestInfo tests[] = {
    {"the armed call fails once", the_armed_call_fails_once},
    {"a persistent fault fails all that follow", a_persistent_fault_fails_all_that_follow},
    {"a finished event may be reported late", a_finished_event_may_be_reported_late},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"contract: wrapped", be_quiet, NULL, backend_contract_begin, backend_contract_end,
         backend_contract_tests},
        {"contract: wrapped, pages", be_quiet, NULL, backend_contract_begin, backend_contract_end,
         backend_contract_pages_tests},
        {"contract: held back", be_slow, NULL, backend_contract_begin, backend_contract_end,
         backend_contract_tests},
        {"contract: held back, pages", be_slow, NULL, backend_contract_begin, backend_contract_end,
         backend_contract_pages_tests},
        {"contract: opaque", be_opaque, NULL, backend_contract_begin, backend_contract_end,
         backend_contract_tests},
        {"contract: opaque, pages", be_opaque, NULL, backend_contract_begin, backend_contract_end,
         backend_contract_pages_tests},
        {"wrapper", NULL, NULL, open_quiet, close_quiet, tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}
