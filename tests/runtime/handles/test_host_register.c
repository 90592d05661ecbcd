/* SPDX-License-Identifier: Apache-2.0 */
/* Registered host memory, and where devices find it and pinned memory. */
#include <dao/dao.h>

#include "base/report/fault.h"
#include "runtime/start/context.h"
#include "tests/runtime/handles/three_devices.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/suite.h"

#include <stdatomic.h>
#include <string.h>

#define THREAD_COUNT 4
#define ROUND_COUNT  100

static const dao_device_place_t near = {0};
static const dao_device_place_t far = {1};
static unsigned char memory[4096];

/* The memory is copied to a device and back, unchanged. */
static void check_copies(dao_device_place_t device)
{
    dao_place_t host = dao_place_of(dao_cpu_place());
    unsigned char back[sizeof(memory)];
    void *there = dao_alloc(device, sizeof(memory));
    CU_ASSERT_PTR_NOT_NULL_FATAL(there);
    for (size_t i = 0; i < sizeof(memory); i++) {
        memory[i] = (unsigned char)(i * 7);
    }
    CU_ASSERT_EQUAL(dao_copy(dao_place_of(device), there, host, memory, sizeof(memory)), DAO_OK);
    CU_ASSERT_EQUAL(dao_copy(host, back, dao_place_of(device), there, sizeof(memory)), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(memory, back, sizeof(memory)), 0);
    CU_ASSERT_EQUAL(dao_free(device, there), DAO_OK);
}

static void registered_memory_is_copied_as_it_was_before(void)
{
    begin();
    CU_ASSERT_EQUAL(dao_host_register(0, memory, sizeof(memory)), DAO_OK);
    check_copies(near);
    check_copies(far);
    CU_ASSERT_EQUAL(dao_host_unregister(memory), DAO_OK);
    check_copies(near);
    CU_ASSERT_EQUAL(dao_host_register(1, memory, sizeof(memory)), DAO_OK);
    CU_ASSERT_EQUAL(dao_host_unregister(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_host_unregister(NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(dao_cpu_place(), memory), DAO_ERR_FOREIGN_POINTER);
    end();
}

static void what_is_registered_is_not_registered_again(void)
{
    begin();
    CU_ASSERT_EQUAL(dao_host_register(0, memory + 1000, 1000), DAO_OK);
    static const struct {
        size_t offset;
        size_t size_bytes;
        dao_status_t status;
    } rows[] = {{1000, 1000, DAO_ERR_BUSY}, {1000, 1, DAO_ERR_BUSY}, {1999, 1, DAO_ERR_BUSY},
                {500, 501, DAO_ERR_BUSY},   {0, 4096, DAO_ERR_BUSY}, {0, 1000, DAO_OK},
                {2000, 96, DAO_OK}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned char *address = memory + rows[i].offset;
        CU_ASSERT_EQUAL(dao_host_register(1, address, rows[i].size_bytes), rows[i].status);
        if (rows[i].status == DAO_OK) {
            CU_ASSERT_EQUAL(dao_host_unregister(address), DAO_OK);
        }
    }
    CU_ASSERT_EQUAL(dao_host_register(1, memory, UINTPTR_MAX - (uintptr_t)memory), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_host_unregister(memory + 999), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_host_unregister(memory + 2000), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_host_unregister(memory + 1001), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_host_unregister(memory + 1999), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_host_unregister(memory + 1000), DAO_OK);
    CU_ASSERT_EQUAL(dao_host_unregister(memory + 1000), DAO_ERR_FOREIGN_POINTER);
    end();
}

static void several_are_given_up_in_any_order(void)
{
    static const size_t order[] = {0, 3, 1, 2};
    begin();
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(dao_host_register((int32_t)i % 2, memory + 1024 * i, 1024), DAO_OK);
    }
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(dao_host_unregister(memory + 1024 * order[i]), DAO_OK);
        CU_ASSERT_EQUAL(dao_host_unregister(memory + 1024 * order[i]), DAO_ERR_FOREIGN_POINTER);
        CU_ASSERT_EQUAL(i == 3 ? DAO_ERR_BUSY : dao_host_register(0, memory + 1024 * order[i + 1], 1),
                        DAO_ERR_BUSY); /* those that stay are there */
    }
    end();
}

static void leave_out_host_memory(dao_backend_ops_t *ops)
{
    ops->host_register = NULL;
    ops->host_unregister = NULL;
    ops->host_device_address = NULL;
}

static void wrong_arguments_are_refused(void)
{
    void *address = NULL;
    begin();
    CU_ASSERT_EQUAL(dao_host_register(0, NULL, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_host_register(0, memory, 0), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_host_register(0, memory, SIZE_MAX), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_host_register(3, memory, 1), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_host_device_address_query(0, NULL, &address), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_host_device_address_query(0, memory, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_host_device_address_query(0, memory, &address), DAO_ERR_FOREIGN_POINTER);
    end();
    CU_ASSERT_EQUAL(dao_host_register(0, memory, 1), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_host_unregister(memory), DAO_ERR_SHUTDOWN);
    begin_without(leave_out_host_memory);
    CU_ASSERT_EQUAL(dao_host_register(0, memory, 1), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_host_device_address_query(0, memory, &address), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NULL(address);
    end();
}

static void devices_find_pinned_and_registered_memory(void)
{
    begin();
    unsigned char *pinned = dao_alloc(dao_pinned_place(1), sizeof(memory));
    CU_ASSERT_PTR_NOT_NULL_FATAL(pinned);
    CU_ASSERT_EQUAL(dao_host_register(0, pinned, 1), DAO_ERR_BUSY); /* it is as good as registered */
    CU_ASSERT_EQUAL(dao_host_register(0, pinned - 1, 2), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_host_register(2, memory, sizeof(memory)), DAO_OK);
    unsigned char *const hosts[] = {pinned, memory};
    for (size_t i = 0; i < 2; i++) {
        void *address = NULL;
        memset(hosts[i], 0, sizeof(memory));
        CU_ASSERT_EQUAL(dao_host_device_address_query(0, hosts[i] + 10, &address), DAO_OK);
        CU_ASSERT_EQUAL(dao_stream_fill(stream_of(near), address, 9, sizeof(memory) - 10), DAO_OK);
        CU_ASSERT_EQUAL(dao_stream_synchronize(stream_of(near)), DAO_OK);
        CU_ASSERT_EQUAL(hosts[i][9], 0);
        CU_ASSERT_EQUAL(hosts[i][10], 9);
        CU_ASSERT_EQUAL(hosts[i][sizeof(memory) - 1], 9);
    }
    CU_ASSERT_EQUAL(dao_host_unregister(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(dao_pinned_place(1), pinned), DAO_OK);
    void *address = NULL;
    CU_ASSERT_EQUAL(dao_host_device_address_query(0, pinned, &address), DAO_ERR_FOREIGN_POINTER);
    end();
}

static int left_count;

static void count_left(dao_log_level_t level, const char *message, void *user)
{
    (void)level;
    (void)user;
    left_count += strstr(message, "live at shutdown: registered memory at cpu, 4096 bytes") != NULL;
}

static void what_is_left_registered_is_reported_and_given_up(void)
{
    dao_config_t loud = config;
    loud.log_callback = count_left;
    loud.log_level = DAO_LOG_LEVEL_WARNING;
    left_count = 0;
    CU_ASSERT_EQUAL_FATAL(dao_init(&loud), DAO_OK);
    CU_ASSERT_EQUAL(dao_host_register(0, memory, sizeof(memory)), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(left_count, 1);
    begin();
    CU_ASSERT_EQUAL(dao_host_register(0, memory, sizeof(memory)), DAO_OK);
    CU_ASSERT_EQUAL(dao_host_unregister(memory), DAO_OK);
    end();
}

static void a_refusal_changes_nothing(void)
{
    void *address = NULL;
    begin_without(NULL);
    fault_backend_arm(FAULT_CALL_HOST_REGISTER, 0, false);
    CU_ASSERT_EQUAL(dao_host_register(0, memory, sizeof(memory)), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_EQUAL(dao_host_unregister(memory), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_host_register(0, memory, sizeof(memory)), DAO_OK);
    fault_backend_arm(FAULT_CALL_HOST_UNREGISTER, 0, false);
    CU_ASSERT_EQUAL(dao_host_unregister(memory), DAO_ERR_BACKEND);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "stays registered"));
    fault_backend_arm(FAULT_CALL_HOST_DEVICE_ADDRESS, 0, false);
    CU_ASSERT_EQUAL(dao_host_device_address_query(0, memory, &address), DAO_ERR_BACKEND);
    CU_ASSERT_EQUAL(dao_host_device_address_query(0, memory, &address), DAO_OK);
    CU_ASSERT_EQUAL(dao_host_unregister(memory), DAO_OK);
    (void)fault_backend_disarm();
    end();
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
}

#if defined(DAO_FAULTS)
static void registering_survives_any_missing_resource(void)
{
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    begin();
    for (uint64_t n = 0; status != DAO_OK && n < 1000; n++) {
        dao_fault_arm(DAO_FAULT_ANY, n, false);
        status = dao_host_register(0, memory, sizeof(memory));
        CU_ASSERT_TRUE(dao_fault_disarm() > 0 || status == DAO_OK);
        CU_ASSERT_TRUE(status == DAO_OK || dao_host_unregister(memory) == DAO_ERR_FOREIGN_POINTER);
    }
    CU_ASSERT_EQUAL(status, DAO_OK);
    CU_ASSERT_EQUAL(dao_host_unregister(memory), DAO_OK);
    end();
}
#endif

static _Atomic int wrong_count;

/* Threads register ranges of which each overlaps its neighbours' half: one of two succeeds, and gives it
   up. */
static void *register_again_and_again(void *user)
{
    unsigned char *address = user;
    for (int round = 0; round < ROUND_COUNT; round++) {
        dao_status_t status = dao_host_register(round % 3, address, 1024);
        bool is_right =
            status == DAO_ERR_BUSY || (status == DAO_OK && dao_host_unregister(address) == DAO_OK);
        atomic_fetch_add(&wrong_count, !is_right);
    }
    return NULL;
}

static void threads_register_side_by_side(void)
{
    dao_thread_t threads[THREAD_COUNT];
    begin();
    for (int i = 0; i < THREAD_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(
            dao_thread_start(&threads[i], "register", register_again_and_again, memory + (size_t)i * 512),
            DAO_OK);
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        dao_thread_join(&threads[i]);
    }
    CU_ASSERT_EQUAL(atomic_load(&wrong_count), 0);
    end();
}

static CU_TestInfo tests[] = {
    {"registered memory is copied as it was before", registered_memory_is_copied_as_it_was_before},
    {"what is registered is not registered again", what_is_registered_is_not_registered_again},
    {"several are given up in any order", several_are_given_up_in_any_order},
    {"wrong arguments are refused", wrong_arguments_are_refused},
    {"devices find pinned and registered memory", devices_find_pinned_and_registered_memory},
    {"what is left registered is reported and given up", what_is_left_registered_is_reported_and_given_up},
    {"a refusal changes nothing", a_refusal_changes_nothing},
#if defined(DAO_FAULTS)
    {"registering survives any missing resource", registering_survives_any_missing_resource},
#endif
    {"threads register side by side", threads_register_side_by_side},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"host register", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
