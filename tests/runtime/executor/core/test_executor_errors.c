/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor refuses, and kernels that fail: every failure names its cause, loses nothing and leaves
   the executor usable. */
#include "tests/runtime/executor/core/units.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <string.h>

static void reading_what_was_never_written_is_refused(void)
{
    units_begin(2);
    units_make_written(1);
    dao_managed_t *named = NULL;
    CU_ASSERT_EQUAL_FATAL(units_create((dao_managed_config_t){.name = "weights", .size_bytes = UNIT}, &named),
                          DAO_OK);
    units.tensors[1].handle = named;
    units.tensors[1].size_bytes = UNIT;
    units.tensor_count = 2;
    CU_ASSERT_EQUAL(units_push2("matmul", 0, R, 1, R), DAO_OK);
    CU_ASSERT_EQUAL(units_push1("later", 0, RW), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_ERR_NEVER_WRITTEN);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "weights"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "matmul"));
    CU_ASSERT_EQUAL(units_stats().skipped_count, 1);
    CU_ASSERT_EQUAL(program_read(&units, 1), DAO_ERR_NEVER_WRITTEN);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    units_end();
}

static void a_kernel_that_cannot_fit_is_named_and_the_rest_goes_on(void)
{
    units_begin(2);
    units_make_written(3);
    CU_ASSERT_EQUAL(program_push(&units, &(program_kernel_t){"huge", 3, {0, 1, 2}, {R, R, R}, 0, DAO_OK}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "huge"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "196608"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "131072"));
    CU_ASSERT_EQUAL(program_push(&units, &(program_kernel_t){"space", 1, {0}, {R}, 2 * UNIT, DAO_OK}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_EQUAL(units_push2("fits", 0, R, 2, RW), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    units_end();
}

static void a_full_host_is_named_and_nothing_is_lost(void)
{
    units_config.host_bytes = UNIT;
    units_begin(2);
    units_make_written(3); /* one on the host */
    uint32_t fourth = program_tensor(&units, UNIT);
    CU_ASSERT_EQUAL(units_push1("one more", fourth, W), DAO_OK);
    CU_ASSERT_EQUAL(units_push1("later", 1, RW), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_ERR_HOST_FULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "one more"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "65536"));
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    program_drop(&units, 0);
    CU_ASSERT_EQUAL(units_push1("again", fourth, W), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    units_end();
}

/* Leaves a message in the executor's thread, and answers a code without one. */
static dao_status_t launch_and_answer(const dao_launch_t *launch, void *user)
{
    (void)launch;
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_ERR_REENTRANT);
    return *(const dao_status_t *)user;
}

static void a_failing_launch_without_a_message_gets_nobody_elses(void)
{
    units_begin(2);
    dao_status_t answer = DAO_ERR_UNSUPPORTED;
    dao_kernel_t kernel = {.name = "mute", .launch = launch_and_answer, .user = &answer};
    CU_ASSERT_EQUAL(dao_executor_push(units_executor, &kernel), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_ERR_UNSUPPORTED: the backend cannot do this"));
    units_end();
}

static void a_failing_launch_is_reported_once_and_skips_the_rest(void)
{
    units_begin(2);
    units_make_written(2);
    CU_ASSERT_EQUAL(program_push(&units, &(program_kernel_t){"bad", 1, {0}, {RW}, 0, DAO_ERR_UNSUPPORTED}),
                    DAO_OK);
    CU_ASSERT_EQUAL(program_push(&units, &(program_kernel_t){"worse", 1, {1}, {RW}, 0, DAO_ERR_INVALID}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "bad"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_ERR_UNSUPPORTED"));
    dao_executor_stats_t stats = units_stats();
    CU_ASSERT_EQUAL(stats.skipped_count, 1);
    CU_ASSERT_EQUAL(stats.kernel_count, 2);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    units_end();
}

static void spoil(unsigned char *const *bytes, void *user)
{
    (void)user;
    memset(bytes[0], 0xee, UNIT);
}

/* Queues a part of its work and then reports an error. */
static dao_status_t launch_half(const dao_launch_t *launch, void *user)
{
    (void)user;
    CU_ASSERT_EQUAL(units_launch(launch, spoil, NULL), DAO_OK);
    return DAO_ERR_UNSUPPORTED;
}

/* What a failing kernel did to its part of the device is not taken for the tensor's content if the host has
   that. */
static void a_kernel_that_fails_half_way_leaves_what_the_host_has(void)
{
    units_begin(2);
    CU_ASSERT_EQUAL_FATAL(program_tensor(&units, UNIT), 0);
    CU_ASSERT_EQUAL(program_write(&units, 0), DAO_OK);
    CU_ASSERT_EQUAL(units_push1("fetch", 0, R), DAO_OK); /* now the bytes are on both sides */
    static const dao_access_t accesses[] = {RW, W};
    for (int i = 0; i < 2; i++) {
        dao_operand_t operand = {units.tensors[0].handle, accesses[i]};
        dao_kernel_t kernel = {
            .name = "half", .launch = launch_half, .operands = &operand, .operand_count = 1};
        CU_ASSERT_EQUAL(dao_executor_push(units_executor, &kernel), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_ERR_KERNEL_FAILED);
        CU_ASSERT_EQUAL(units_push1("read", 0, R), DAO_OK);
        CU_ASSERT_EQUAL(program_read(&units, 0), DAO_OK);
    }
    units_end(); /* no kernel has read a wrong byte */
}

static void requests_after_a_failure_wait_for_the_sync(void)
{
    units_begin(2);
    units_make_written(1);
    CU_ASSERT_EQUAL(program_push(&units, &(program_kernel_t){"bad", 1, {0}, {RW}, 0, DAO_ERR_UNSUPPORTED}),
                    DAO_OK);
    CU_ASSERT_EQUAL(program_write(&units, 0), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(program_read(&units, 0), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_EQUAL(program_read(&units, 0), DAO_OK);
    units_end();
}

static void destroy_reports_what_no_sync_did(void)
{
    units_begin(2);
    units_make_written(1);
    CU_ASSERT_EQUAL(program_push(&units, &(program_kernel_t){"bad", 1, {0}, {RW}, 0, DAO_ERR_UNSUPPORTED}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(units_executor), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_EQUAL(units.open_count, 0);
    CU_ASSERT_EQUAL(dao_managed_size(units.tensors[0].handle), UNIT); /* handles outlive the executor */
    CU_ASSERT_EQUAL(program_read(&units, 0), DAO_ERR_STOPPED);
    CU_ASSERT_EQUAL(dao_executor_destroy(units_executor), DAO_ERR_STOPPED);
    program_drop_all(&units);
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
}

static dao_status_t call_back(const dao_launch_t *launch, void *user)
{
    (void)launch;
    dao_status_t *answers = user;
    dao_kernel_t kernel = {.launch = call_back, .user = user};
    unsigned char byte = 0;
    answers[0] = dao_executor_sync(units_executor);
    answers[1] = dao_executor_push(units_executor, &kernel);
    answers[2] = dao_managed_read(units.tensors[0].handle, &byte, UNIT);
    answers[3] = dao_executor_destroy(units_executor);
    answers[4] = dao_finalize();
    return DAO_OK;
}

static void calls_from_the_executors_thread_are_refused(void)
{
    units_begin(1);
    units_make_written(1);
    dao_status_t answers[5] = {DAO_OK, DAO_OK, DAO_OK, DAO_OK, DAO_OK};
    CU_ASSERT_EQUAL(dao_executor_push(units_executor, &(dao_kernel_t){.launch = call_back, .user = answers}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_OK);
    for (int i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(answers[i], DAO_ERR_REENTRANT);
    }
    units_end();
}

static void bad_arguments_are_named(void)
{
    units_begin(1);
    units_make_written(1);
    dao_executor_t *other = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&(dao_executor_config_t){.capacity_bytes = UNIT}, &other),
                          DAO_OK);
    dao_operand_t operand = {units.tensors[0].handle, DAO_ACCESS_READ};
    dao_kernel_t kernel = {.name = "k", .launch = call_back, .operands = &operand, .operand_count = 1};
    CU_ASSERT_EQUAL(dao_executor_push(other, &kernel), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "another executor"));
    kernel.launch = NULL;
    CU_ASSERT_EQUAL(dao_executor_push(units_executor, &kernel), DAO_ERR_INVALID);
    kernel.launch = call_back;
    kernel.operand_count = DAO_OPERAND_COUNT_MAX + 1;
    CU_ASSERT_EQUAL(dao_executor_push(units_executor, &kernel), DAO_ERR_INVALID);
    kernel.operand_count = 1;
    kernel.workspace_bytes = SIZE_MAX;
    CU_ASSERT_EQUAL(dao_executor_push(units_executor, &kernel), DAO_ERR_OVERFLOW);
    kernel.workspace_bytes = 0;
    kernel.operands = NULL;
    CU_ASSERT_EQUAL(dao_executor_push(units_executor, &kernel), DAO_ERR_INVALID);
    operand.tensor = NULL;
    kernel.operands = &operand;
    CU_ASSERT_EQUAL(dao_executor_push(units_executor, &kernel), DAO_ERR_INVALID);
    operand = (dao_operand_t){units.tensors[0].handle, (dao_access_t)9};
    CU_ASSERT_EQUAL(dao_executor_push(units_executor, &kernel), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_executor_push(NULL, &kernel), DAO_ERR_INVALID);
    dao_managed_t *tensor = NULL;
    CU_ASSERT_EQUAL(units_create((dao_managed_config_t){.name = "t", .size_bytes = 0}, &tensor),
                    DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(units_create((dao_managed_config_t){.name = "t", .size_bytes = SIZE_MAX}, &tensor),
                    DAO_ERR_OVERFLOW);
    CU_ASSERT_PTR_NULL(tensor);
    unsigned char byte = 0;
    CU_ASSERT_EQUAL(dao_managed_read(units.tensors[0].handle, &byte, 1), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "65536"));
    CU_ASSERT_EQUAL(dao_managed_read(NULL, &byte, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_write(units.tensors[0].handle, NULL, UNIT), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_retain(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(units_create((dao_managed_config_t){.name = "t", .size_bytes = UNIT}, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_OK); /* its record has died */
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_retain(tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_release(NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(other), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_create(&(dao_executor_config_t){.capacity_bytes = 1}, &other),
                    DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_executor_create(&(dao_executor_config_t){.policy = DAO_POLICY_USER}, &other),
                    DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_executor_create(&(dao_executor_config_t){.device_index = 63}, &other),
                    DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_executor_create(&(dao_executor_config_t){.capacity_bytes = 1024 * GIB}, &other),
                    DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(dao_executor_create(&(dao_executor_config_t){.capacity_bytes = 1024 * GIB + 1}, &other),
                    DAO_ERR_OVERFLOW);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "capacity_bytes is 1099511627777"));
    dao_file_config_t file = {.directory = "/tmp", .limit_bytes = 1024 * GIB + 1};
    CU_ASSERT_EQUAL(
        dao_executor_create(&(dao_executor_config_t){.capacity_bytes = UNIT, .file = file}, &other),
        DAO_ERR_OVERFLOW);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "file.limit_bytes is 1099511627777"));
    units_end();
}

static CU_TestInfo tests[] = {
    {"a failing launch without a message gets nobody else's",
     a_failing_launch_without_a_message_gets_nobody_elses},
    {"reading what was never written is refused", reading_what_was_never_written_is_refused},
    {"a kernel that cannot fit is named and the rest goes on",
     a_kernel_that_cannot_fit_is_named_and_the_rest_goes_on},
    {"a full host is named and nothing is lost", a_full_host_is_named_and_nothing_is_lost},
    {"a failing launch is reported once and skips the rest",
     a_failing_launch_is_reported_once_and_skips_the_rest},
    {"a kernel that fails half way leaves what the host has",
     a_kernel_that_fails_half_way_leaves_what_the_host_has},
    {"requests after a failure wait for the sync", requests_after_a_failure_wait_for_the_sync},
    {"destroy reports what no sync did", destroy_reports_what_no_sync_did},
    {"calls from the executor's thread are refused", calls_from_the_executors_thread_are_refused},
    {"bad arguments are named", bad_arguments_are_named},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"executor errors", units_start_suite, units_end_suite, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
