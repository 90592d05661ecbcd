/* SPDX-License-Identifier: Apache-2.0 */
/* check_repeatable: a kernel that is what its flag promises runs twice and nothing else changes; one that
   lies, in whatever way, fails with a message that names it. */
#include "runtime/start/context.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 4096, LAST = BYTES - 1 };

static dao_executor_t *executor;
static dao_managed_t *input, *output;
static _Atomic int run_count;

/* ---- kernels: bytes[0] is read, bytes[1] written ---- */

static void copies(unsigned char *const *bytes, void *user)
{
    (void)user;
    run_count++;
    memcpy(bytes[1], bytes[0], BYTES);
}

static void adds(unsigned char *const *bytes, void *user)
{
    (void)user;
    run_count++;
    for (int i = 0; i < BYTES; i++) {
        bytes[1][i] = (unsigned char)(bytes[1][i] + bytes[0][i]);
    }
}

/* A random number that is not fixed. */
static void draws(unsigned char *const *bytes, void *user)
{
    copies(bytes, user);
    bytes[1][LAST] = (unsigned char)run_count;
}

/* What it has done it does not do again. */
static void writes_once(unsigned char *const *bytes, void *user)
{
    if (run_count == 0) {
        memcpy(bytes[1], bytes[0], BYTES);
    }
    run_count++;
    (void)user;
}

/* ---- pushing them ---- */

typedef struct spec {
    device_kernel_t function;
    dao_access_t access; /* of the output */
    dao_status_t again;  /* that the second launch answers */
    size_t front_bytes;  /* of the output, before the view that the kernel gets; 0: it gets all */
    dao_status_t first;  /* that the first launch answers */
} spec_t;

/* On any device the function finds the output as it lies there, whatever the executor was told. */
static dao_status_t launch(const dao_launch_t *launch, void *user)
{
    const spec_t *spec = user;
    const dao_place_t place = {DAO_PLACE_KIND_DEVICE, launch->device_index};
    const device_operand_t operands[] = {{place, launch->addresses[0], BYTES, DAO_ACCESS_READ},
                                         {place, launch->addresses[1], BYTES, DAO_ACCESS_READ_WRITE}};
    dao_status_t answer = launch->is_again ? spec->again : spec->first;
    return answer != DAO_OK ? answer : device_launch(launch->stream, operands, 2, spec->function, NULL);
}

static dao_status_t push(spec_t *spec, dao_managed_t *written, uint32_t flags)
{
    const dao_operand_t operands[] = {{input, DAO_ACCESS_READ}, {written, spec->access}};
    const dao_kernel_t kernel = {.name = "suspect",
                                 .launch = launch,
                                 .user = spec,
                                 .operands = operands,
                                 .operand_count = 2,
                                 .flags = flags};
    return dao_executor_push(executor, &kernel);
}

/* Runs a kernel once; its input is all 3, its output all 4 before. Returns what the sync answers. */
static dao_status_t run(const spec_t *spec, bool is_checked, uint32_t flags)
{
    static unsigned char bytes[2 * BYTES];
    const size_t output_bytes = spec->front_bytes + BYTES;
    const dao_executor_config_t config = {
        .capacity_bytes = 4 * BYTES, .check = true, .check_repeatable = is_checked};
    const dao_managed_config_t named[] = {{.name = "in", .size_bytes = BYTES},
                                          {.name = "out", .size_bytes = output_bytes}};
    run_count = 0;
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_managed_create(executor, &named[0], &input), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_managed_create(executor, &named[1], &output), DAO_OK);
    memset(bytes, 3, BYTES);
    CU_ASSERT_EQUAL(dao_managed_write(input, bytes, BYTES), DAO_OK);
    memset(bytes, 4, output_bytes);
    CU_ASSERT_EQUAL(dao_managed_write(output, bytes, output_bytes), DAO_OK);
    dao_managed_t *view = NULL;
    CU_ASSERT_EQUAL(dao_managed_view(output, spec->front_bytes, BYTES, &view), DAO_OK);
    spec_t own = *spec;
    CU_ASSERT_EQUAL(push(&own, view, flags), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(view), DAO_OK);
    return dao_executor_sync(executor);
}

static void end(void)
{
    (void)dao_managed_release(input);
    (void)dao_managed_release(output);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
}

static void expect_part(size_t offset_bytes, unsigned char value)
{
    unsigned char bytes[BYTES];
    CU_ASSERT_EQUAL(dao_managed_read_part(output, offset_bytes, bytes, BYTES), DAO_OK);
    CU_ASSERT(bytes_are_all(bytes, value, BYTES));
}

static void expect_output(unsigned char value)
{
    expect_part(0, value);
}

/* ---- the tests ---- */

static void what_keeps_its_promise_runs_twice(void)
{
    const spec_t copy = {copies, DAO_ACCESS_WRITE, DAO_OK, 0, DAO_OK},
                 add = {adds, DAO_ACCESS_READ_WRITE, DAO_OK, 0, DAO_OK};
    CU_ASSERT_EQUAL(run(&copy, true, DAO_KERNEL_REPEATABLE), DAO_OK);
    CU_ASSERT_EQUAL(run_count, 2);
    expect_output(3);
    end();
    CU_ASSERT_EQUAL(run(&add, true, DAO_KERNEL_REPEATABLE), DAO_OK);
    CU_ASSERT_EQUAL(run_count, 2);
    expect_output(7); /* what is changed in place is changed once */
    end();
}

static void what_lies_is_named(void)
{
    static const spec_t liars[] = {
        {draws, DAO_ACCESS_WRITE, DAO_OK, 0, DAO_OK},
        {writes_once, DAO_ACCESS_WRITE, DAO_OK, 0, DAO_OK},
        {adds, DAO_ACCESS_WRITE, DAO_OK, 0, DAO_OK}}; /* it reads what it says it does not */
    static const char *const bytes[] = {"byte 4095 of 4096, 01 at first, 02 then",
                                        "byte 0 of 4096, 03 at first, a5 then",
                                        "byte 0 of 4096, 5d at first, a8 then"};
    for (size_t i = 0; i < sizeof(liars) / sizeof(liars[0]); i++) {
        CU_ASSERT_EQUAL(run(&liars[i], true, DAO_KERNEL_REPEATABLE), DAO_ERR_KERNEL_FAILED);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "\"suspect\""));
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_KERNEL_REPEATABLE"));
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "operand 1 (\"out\")"));
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), bytes[i]));
        end();
    }
}

/* The bytes are counted from the tensor's first one, and none behind its last are touched. */
static void a_view_is_checked_within_its_tensor(void)
{
    const spec_t add = {adds, DAO_ACCESS_READ_WRITE, DAO_OK, BYTES, DAO_OK};
    const spec_t liar = {draws, DAO_ACCESS_WRITE, DAO_OK, BYTES, DAO_OK};
    CU_ASSERT_EQUAL(run(&add, true, DAO_KERNEL_REPEATABLE), DAO_OK);
    CU_ASSERT_EQUAL(run_count, 2);
    expect_part(0, 4);
    expect_part(BYTES, 7);
    end();
    CU_ASSERT_EQUAL(run(&liar, true, DAO_KERNEL_REPEATABLE), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "byte 8191 of 8192, 01 at first, 02 then"));
    end();
}

static void what_is_not_asked_for_is_not_checked(void)
{
    const spec_t liar = {draws, DAO_ACCESS_WRITE, DAO_OK, 0, DAO_OK};
    CU_ASSERT_EQUAL(run(&liar, false, DAO_KERNEL_REPEATABLE), DAO_OK);
    CU_ASSERT_EQUAL(run_count, 1);
    end();
    CU_ASSERT_EQUAL(run(&liar, true, 0), DAO_OK);
    CU_ASSERT_EQUAL(run_count, 1);
    end();
}

static void a_second_launch_that_fails_is_reported(void)
{
    const spec_t failing = {copies, DAO_ACCESS_WRITE, DAO_ERR_UNSUPPORTED, 0, DAO_OK};
    CU_ASSERT_EQUAL(run(&failing, true, DAO_KERNEL_REPEATABLE), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), dao_status_name(DAO_ERR_UNSUPPORTED)));
    end();
}

/* The output is on the device alone, 3 in each byte. */
static void what_fails_leaves_its_tensors_as_they_were(void)
{
    static spec_t failing[] = {{copies, DAO_ACCESS_WRITE, DAO_OK, 0, DAO_ERR_UNSUPPORTED},
                               {adds, DAO_ACCESS_READ_WRITE, DAO_OK, 0, DAO_ERR_UNSUPPORTED},
                               {copies, DAO_ACCESS_WRITE, DAO_ERR_UNSUPPORTED, 0, DAO_OK},
                               {adds, DAO_ACCESS_READ_WRITE, DAO_ERR_UNSUPPORTED, 0, DAO_OK},
                               {draws, DAO_ACCESS_WRITE, DAO_OK, 0, DAO_OK}};
    const spec_t copy = {.function = copies, .access = DAO_ACCESS_WRITE};
    for (size_t i = 0; i < sizeof(failing) / sizeof(failing[0]); i++) {
        CU_ASSERT_EQUAL(run(&copy, true, 0), DAO_OK);
        CU_ASSERT_EQUAL(push(&failing[i], output, DAO_KERNEL_REPEATABLE), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_FAILED);
        expect_output(3);
        end();
    }
}

static CU_TestInfo tests[] = {
    {"what keeps its promise runs twice", what_keeps_its_promise_runs_twice},
    {"what lies is named", what_lies_is_named},
    {"a view is checked within its tensor", a_view_is_checked_within_its_tensor},
    {"what is not asked for is not checked", what_is_not_asked_for_is_not_checked},
    {"a second launch that fails is reported", a_second_launch_that_fails_is_reported},
    {"what fails leaves its tensors as they were", what_fails_leaves_its_tensors_as_they_were},
    CU_TEST_INFO_NULL,
};

static int start(void)
{
    const dao_config_t settings = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    return dao_context_start(&settings, dao_backend_ops()) != DAO_OK;
}

static int stop(void)
{
    return dao_finalize() != DAO_OK;
}

int main(void)
{
    CU_SuiteInfo suites[] = {{"repeat_check", start, stop, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
