/* SPDX-License-Identifier: Apache-2.0 */
/* Handles to managed tensors: counted, named, and good for a release after their executor has gone. */
#include "base/report/fault.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/records/tensor.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <string.h>

#define UNIT (4 * KIB)

static dao_executor_t *executor;

static void begin_on(const dao_executor_config_t *config)
{
    dao_config_t cpu = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&cpu, dao_backend_ops()), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(config, &executor), DAO_OK);
}

static void begin(void)
{
    begin_on(&(dao_executor_config_t){.capacity_bytes = 8 * UNIT});
}

static uint64_t live_count(void)
{
    dao_executor_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_stats_get(executor, &stats), DAO_OK);
    return stats.live_tensor_count;
}

static void end(void)
{
    CU_ASSERT_EQUAL(live_count(), 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static dao_managed_t *make(const char *name)
{
    dao_managed_config_t config = {.name = name, .size_bytes = UNIT};
    dao_managed_t *tensor = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_managed_create(executor, &config, &tensor), DAO_OK);
    return tensor;
}

static void a_tensor_goes_with_its_last_handle(void)
{
    begin();
    dao_managed_t *tensor = make("kept");
    CU_ASSERT_EQUAL(dao_managed_retain(tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(live_count(), 1);
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(live_count(), 0);
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_ERR_INVALID); /* its handle is remembered */
    CU_ASSERT_EQUAL(dao_managed_retain(tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_release(NULL), DAO_OK);
    end();
}

static void tensors_have_numbers_sizes_and_names(void)
{
    begin();
    dao_managed_t *named = make("weights");
    dao_managed_t *unnamed = make(NULL);
    CU_ASSERT_EQUAL(dao_managed_id(unnamed), dao_managed_id(named) + 1);
    CU_ASSERT_EQUAL(dao_managed_size(named), UNIT);
    CU_ASSERT_STRING_EQUAL(named->name, "weights");
    CU_ASSERT_STRING_EQUAL(unnamed->name, "tensor 1");
    CU_ASSERT_EQUAL(dao_managed_size(NULL), 0);
    CU_ASSERT_EQUAL(dao_managed_id(NULL), 0);
    CU_ASSERT_EQUAL(dao_managed_release(named), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(unnamed), DAO_OK);
    end();
}

static void a_handle_outlives_its_executor(void)
{
    begin();
    dao_managed_t *tensor = make("left");
    char bytes[UNIT] = {0};
    CU_ASSERT_EQUAL(dao_managed_write(tensor, bytes, UNIT), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(tensor->residency, DAO_RESIDENCY_EMPTY);
    CU_ASSERT_EQUAL(dao_managed_size(tensor), UNIT);
    CU_ASSERT_EQUAL(dao_managed_read(tensor, bytes, UNIT), DAO_ERR_STOPPED);
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK); /* and with it the shell */
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void bytes_go_in_and_out_as_a_whole(void)
{
    char bytes[UNIT], copy[UNIT];
    begin();
    dao_managed_t *tensor = make("whole");
    memset(bytes, 7, sizeof(bytes));
    CU_ASSERT_EQUAL(dao_managed_read(tensor, copy, UNIT), DAO_ERR_NEVER_WRITTEN);
    CU_ASSERT_EQUAL(dao_managed_write(tensor, bytes, UNIT - 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_write(tensor, NULL, UNIT), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_write(tensor, bytes, UNIT), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_read(tensor, copy, UNIT + 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_read(tensor, copy, UNIT), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(bytes, copy, UNIT), 0);
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
    end();
}

static void keep_status(dao_status_t status, void *user)
{
    *(dao_status_t *)user = status;
}

static dao_status_t launch_nothing(const dao_launch_t *info, void *user)
{
    (void)info;
    (void)user;
    return DAO_OK;
}

/* One tensor fills the device, and the host has no room: another one cannot be written. */
static void a_transfer_that_fails_says_so(void)
{
    char bytes[UNIT] = {0};
    dao_status_t never = DAO_OK, full = DAO_OK, behind = DAO_OK, good = DAO_ERR_BUSY;
    begin_on(&(dao_executor_config_t){.capacity_bytes = UNIT, .host_bytes = UNIT / 4});
    dao_managed_t *first = make("first"), *second = make("second");
    dao_operand_t operand = {first, DAO_ACCESS_WRITE};
    dao_kernel_t kernel = {.launch = launch_nothing, .operands = &operand, .operand_count = 1};
    CU_ASSERT_EQUAL(dao_managed_read_async(first, 0, bytes, 10, keep_status, &never), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK); /* a read stops nothing */
    CU_ASSERT_EQUAL(never, DAO_ERR_NEVER_WRITTEN);
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_read_async(first, 0, bytes, 10, keep_status, &good), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_write_async(second, 0, bytes, UNIT, keep_status, &full), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_read_async(first, 0, bytes, 10, keep_status, &behind), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_HOST_FULL);
    CU_ASSERT_EQUAL(good, DAO_OK);
    CU_ASSERT_EQUAL(full, DAO_ERR_HOST_FULL);
    CU_ASSERT_EQUAL(behind, DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_managed_read_async(first, 0, bytes, 10, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_write_async(first, 1, bytes, UNIT, keep_status, &full), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_write_async(NULL, 0, bytes, 1, keep_status, &full), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_release(first), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(second), DAO_OK);
    end();
}

static void what_cannot_be_made_leaves_nothing(void)
{
    dao_managed_t *tensor = NULL;
    dao_managed_config_t empty = {.size_bytes = 0}, huge = {.size_bytes = SIZE_MAX},
                         good = {.size_bytes = UNIT};
    begin();
    CU_ASSERT_EQUAL(dao_managed_create(executor, &empty, &tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_create(executor, &huge, &tensor), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(dao_managed_create(executor, NULL, &tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_create(NULL, &good, &tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_create(executor, &good, NULL), DAO_ERR_INVALID);
    end();
}

#if defined(DAO_FAULTS)
/* Assertions allocate, too: a failure may be one of theirs. */
static void want_of_memory_leaves_nothing(void)
{
    dao_managed_t *tensor = NULL;
    dao_managed_config_t config = {.size_bytes = UNIT, .name = "refused"};
    uint32_t refused_count = 0;
    bool is_complete = false;
    begin();
    for (uint64_t skip = 0; !is_complete; skip++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        dao_status_t status = dao_managed_create(executor, &config, &tensor);
        is_complete = dao_fault_disarm() == 0;
        if (status == DAO_OK) {
            CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
            continue;
        }
        CU_ASSERT_EQUAL(status, DAO_ERR_NO_HOST_MEMORY);
        CU_ASSERT_PTR_NULL(tensor);
        CU_ASSERT_FALSE(is_complete);
        tensor = NULL;
        refused_count++;
    }
    CU_ASSERT(refused_count > 0);
    end();
}

/* ---- calls about a tensor, of which every allocation fails in turn ---- */

static char pattern[UNIT], returned[UNIT];

static dao_status_t view_it(dao_managed_t *tensor)
{
    dao_managed_t *view = NULL;
    dao_status_t status = dao_managed_view(tensor, 1, 2, &view);
    CU_ASSERT_EQUAL(view != NULL, status == DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(view), DAO_OK);
    return status;
}

static dao_status_t write_it(dao_managed_t *tensor)
{
    return dao_managed_write_part(tensor, 3, pattern + 3, UNIT - 3);
}

static dao_status_t read_it(dao_managed_t *tensor)
{
    return dao_managed_read(tensor, returned, UNIT);
}

/* What the call answers, or the transfer. */
static dao_status_t settle(dao_status_t status, dao_status_t told)
{
    dao_status_t synced = dao_executor_sync(executor);
    return status != DAO_OK ? status : told != DAO_OK ? told : synced;
}

static dao_status_t write_it_later(dao_managed_t *tensor)
{
    dao_status_t told = DAO_OK;
    return settle(dao_managed_write_async(tensor, 0, pattern, UNIT, keep_status, &told), told);
}

static dao_status_t read_it_later(dao_managed_t *tensor)
{
    dao_status_t told = DAO_OK;
    return settle(dao_managed_read_async(tensor, 0, returned, UNIT, keep_status, &told), told);
}

static dao_status_t pin_it(dao_managed_t *tensor)
{
    dao_status_t status = dao_managed_pin(tensor, NULL);
    while (status == DAO_OK && dao_managed_unpin(tensor) != DAO_OK) { /* which may want memory, too */
    }
    return status;
}

static dao_status_t use_it(dao_managed_t *tensor)
{
    dao_operand_t operand = {tensor, DAO_ACCESS_READ};
    dao_kernel_t kernel = {.launch = launch_nothing, .operands = &operand, .operand_count = 1};
    return settle(dao_executor_push(executor, &kernel), DAO_OK);
}

static dao_status_t begin_a_step(dao_managed_t *tensor)
{
    (void)tensor;
    return settle(dao_executor_step_begin(executor), DAO_OK);
}

static dao_status_t list_it(dao_managed_t *tensor)
{
    dao_command_list_t *list = NULL;
    dao_status_t status = dao_command_list_create(executor, &list);
    status = status == DAO_OK ? dao_command_list_write(list, tensor, pattern, UNIT) : status;
    status = status == DAO_OK ? dao_command_list_run(list) : status;
    status = settle(status, DAO_OK);
    dao_command_list_destroy(list);
    return status;
}

/* What failed is told, by the call or by the sync behind it, and the bytes are what they were. */
static void no_call_without_memory_loses_a_byte(void)
{
    static dao_status_t (*const calls[])(dao_managed_t * tensor) = {
        view_it, write_it, read_it, write_it_later, read_it_later, pin_it, use_it, begin_a_step, list_it};
    memset(pattern, 5, sizeof(pattern));
    begin();
    dao_managed_t *tensor = make("kept");
    CU_ASSERT_EQUAL(dao_managed_write(tensor, pattern, UNIT), DAO_OK);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        bool has_failed = true;
        for (uint64_t n = 0; has_failed; n++) {
            dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
            dao_status_t status = calls[i](tensor);
            has_failed = dao_fault_disarm() > 0;
            CU_ASSERT_TRUE(status == DAO_OK || has_failed);
            CU_ASSERT_EQUAL(live_count(), 1);
            CU_ASSERT_EQUAL(dao_managed_read(tensor, returned, UNIT), DAO_OK);
            CU_ASSERT_EQUAL(memcmp(returned, pattern, UNIT), 0);
        }
    }
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
    end();
}
#endif

static CU_TestInfo tests[] = {
    {"a tensor goes with its last handle", a_tensor_goes_with_its_last_handle},
    {"tensors have numbers, sizes and names", tensors_have_numbers_sizes_and_names},
    {"a handle outlives its executor", a_handle_outlives_its_executor},
    {"bytes go in and out as a whole", bytes_go_in_and_out_as_a_whole},
    {"a transfer that fails says so", a_transfer_that_fails_says_so},
    {"what cannot be made leaves nothing", what_cannot_be_made_leaves_nothing},
#if defined(DAO_FAULTS)
    {"want of memory leaves nothing", want_of_memory_leaves_nothing},
    {"no call without memory loses a byte", no_call_without_memory_loses_a_byte},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"managed", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
