/* SPDX-License-Identifier: Apache-2.0 */
/* Command lists: pushed once, run as often as is wanted, each run a step; they hold what they name. */
#include "base/report/fault.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/learned/step_learner.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <string.h>

#define UNIT (4 * KIB)

enum { TENSORS = 3 };

static dao_executor_t *executor;
static dao_command_list_t *list;
static program_t program;

static void begin(void)
{
    dao_config_t cpu = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    dao_executor_config_t config = {.capacity_bytes = 8 * UNIT, .queue_kernels = 64};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&cpu, dao_backend_ops()), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(&config, &executor), DAO_OK);
    program_init(&program, executor);
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    for (uint32_t i = 0; i < TENSORS; i++) {
        CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), i);
    }
}

static void end(void)
{
    dao_command_list_destroy(list);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).live_tensor_count, 0);
    CU_ASSERT_EQUAL(atomic_load(&program.open_count), 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static dao_status_t add(uint32_t tensor, dao_access_t access)
{
    return program_list_push(&program, list, &(program_kernel_t){"k", 1, {tensor}, {access}, 0, DAO_OK});
}

static void each_run_is_a_step(void)
{
    begin();
    CU_ASSERT_EQUAL(add(0, DAO_ACCESS_WRITE), DAO_OK);
    CU_ASSERT_EQUAL(add(0, DAO_ACCESS_READ_WRITE), DAO_OK);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).kernel_count, 6);
    CU_ASSERT_EQUAL(executor->engine.learner->known_step_count, 1);
    CU_ASSERT_EQUAL(executor->engine.learner->known_steps[0]->seen_count, 3);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

static void an_empty_list_runs_at_once(void)
{
    begin();
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    CU_ASSERT_PTR_NULL(executor->queue.first);
    end();
}

static void a_discard_ends_a_content_in_every_run(void)
{
    begin();
    CU_ASSERT_EQUAL(add(0, DAO_ACCESS_WRITE), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_discard(list, program.tensors[0].handle), DAO_OK);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
        CU_ASSERT_EQUAL(program_read(&program, 0), DAO_ERR_NEVER_WRITTEN);
    }
    end();
}

/* Bytes of the program's memory as they are when a run gets there. */
static void a_write_feeds_every_run(void)
{
    static unsigned char input[UNIT];
    static unsigned char output[UNIT];
    begin();
    CU_ASSERT_EQUAL(dao_command_list_write(list, program.tensors[0].handle, input, UNIT), DAO_OK);
    CU_ASSERT_EQUAL(add(1, DAO_ACCESS_WRITE), DAO_OK);
    for (int i = 1; i <= 4; i++) {
        memset(input, i, UNIT);
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        CU_ASSERT_EQUAL(dao_managed_read(program.tensors[0].handle, output, UNIT), DAO_OK);
        CU_ASSERT_EQUAL(memcmp(input, output, UNIT), 0);
    }
    end();
}

/* With a host that is full of another tensor, in front of kernels that are skipped for it. */
static void a_write_that_fails_is_reported_by_the_sync(void)
{
    static const unsigned char input[16 * UNIT];
    begin();
    dao_managed_t *large = NULL;
    dao_managed_config_t settings = {.name = "large", .size_bytes = sizeof(input)};
    CU_ASSERT_EQUAL_FATAL(dao_managed_create(executor, &settings, &large), DAO_OK);
    executor->engine.host_tier.limit_bytes = UNIT; /* and the device has 8 units */
    CU_ASSERT_EQUAL(dao_command_list_write(list, large, input, sizeof(input)), DAO_OK);
    CU_ASSERT_EQUAL(add(1, DAO_ACCESS_WRITE), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_HOST_FULL);
    CU_ASSERT_EQUAL(program_stats(&program).skipped_count, 1);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(large), DAO_OK);
    end();
}

/* As kernels behind a failure are, until it is reported: then the next run writes. */
static void a_write_behind_a_failure_is_skipped(void)
{
    static unsigned char input[UNIT], output[UNIT];
    begin();
    memset(input, 1, UNIT);
    CU_ASSERT_EQUAL(dao_command_list_write(list, program.tensors[0].handle, input, UNIT), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    memset(input, 2, UNIT);
    for (unsigned char i = 1; i <= 2; i++) {
        program_kernel_t kernel = {"k", 1, {1}, {DAO_ACCESS_WRITE}, 0, i == 1 ? DAO_ERR_INVALID : DAO_OK};
        CU_ASSERT_EQUAL(program_push(&program, &kernel), DAO_OK);
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), i == 1 ? DAO_ERR_KERNEL_FAILED : DAO_OK);
        CU_ASSERT_EQUAL(dao_managed_read(program.tensors[0].handle, output, UNIT), DAO_OK);
        CU_ASSERT_EQUAL(output[0], i);
        CU_ASSERT_EQUAL(output[UNIT - 1], i);
    }
    end();
}

/* What the call says is enough, and a granule less is not. */
static void the_least_capacity_is_that_of_the_largest_kernel(void)
{
    size_t bytes = 1;
    begin();
    CU_ASSERT_EQUAL(dao_command_list_least_capacity(list, &bytes), DAO_OK);
    CU_ASSERT_EQUAL(bytes, 0);
    CU_ASSERT_EQUAL(dao_command_list_discard(list, program.tensors[0].handle), DAO_OK); /* takes nothing */
    program_kernel_t pair = {"pair", 2, {0, 1}, {DAO_ACCESS_WRITE, DAO_ACCESS_WRITE}, 100, DAO_OK};
    CU_ASSERT_EQUAL(add(2, DAO_ACCESS_WRITE), DAO_OK);
    CU_ASSERT_EQUAL(program_list_push(&program, list, &pair), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_least_capacity(list, &bytes), DAO_OK);
    CU_ASSERT_EQUAL(bytes, 2 * UNIT + DAO_RANGE_GRANULE);
    end();
    for (int i = 0; i < 2; i++) {
        dao_executor_config_t config = {.capacity_bytes = bytes - (size_t)i * DAO_RANGE_GRANULE};
        dao_config_t cpu = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
        CU_ASSERT_EQUAL_FATAL(dao_context_start(&cpu, dao_backend_ops()), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(&config, &executor), DAO_OK);
        program_init(&program, executor);
        CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), 0);
        CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), 1);
        CU_ASSERT_EQUAL(program_push(&program, &pair), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), i == 0 ? DAO_OK : DAO_ERR_KERNEL_TOO_LARGE);
        list = NULL;
        end();
    }
}

/* The list keeps its tensors, and its runs keep the list. */
static void a_list_goes_with_its_last_run(void)
{
    begin();
    CU_ASSERT_EQUAL(add(0, DAO_ACCESS_WRITE), DAO_OK);
    program_drop(&program, 0);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    dao_command_list_destroy(list);
    list = NULL;
    CU_ASSERT_EQUAL(atomic_load(&program.open_count), 1); /* the run is still queued */
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).kernel_count, 1);
    CU_ASSERT_EQUAL(atomic_load(&program.open_count), 0);
    end();
}

static void a_list_outlives_its_executor(void)
{
    dao_command_list_t *empty;
    begin();
    CU_ASSERT_EQUAL(dao_command_list_create(executor, &empty), DAO_OK);
    CU_ASSERT_EQUAL(add(0, DAO_ACCESS_WRITE), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_run(empty), DAO_ERR_STOPPED);
    dao_command_list_destroy(empty);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_ERR_STOPPED);
    CU_ASSERT_EQUAL(dao_command_list_plan(list, 0), DAO_ERR_STOPPED);
    dao_command_list_destroy(list);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void bad_arguments_are_refused(void)
{
    begin();
    CU_ASSERT_EQUAL(dao_command_list_create(NULL, &list), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_create(executor, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_push(NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_push(list, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_discard(list, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_run(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_write(NULL, program.tensors[0].handle, "", UNIT), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_write(list, NULL, "", UNIT), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_write(list, program.tensors[0].handle, NULL, UNIT), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_write(list, program.tensors[0].handle, "", UNIT - 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_least_capacity(NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_least_capacity(list, NULL), DAO_ERR_INVALID);
    dao_command_list_destroy(NULL);
    dao_executor_t *other = NULL; /* its tensors are not this list's */
    dao_managed_t *tensor = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&(dao_executor_config_t){.capacity_bytes = UNIT}, &other),
                          DAO_OK);
    CU_ASSERT_EQUAL_FATAL(
        dao_managed_create(other, &(dao_managed_config_t){.name = "t", .size_bytes = UNIT}, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_discard(NULL, tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_discard(list, tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_write(list, tensor, "", UNIT), DAO_ERR_INVALID);
    size_t least_bytes = 1;
    CU_ASSERT_EQUAL(dao_command_list_least_capacity(list, &least_bytes), DAO_OK);
    CU_ASSERT_EQUAL(least_bytes, 0); /* nothing was added */
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(other), DAO_OK);
    end();
}

static void no_failing_call_leaves_a_part_of_a_run(void)
{
    begin();
    CU_ASSERT_EQUAL(add(0, DAO_ACCESS_WRITE), DAO_OK);
    CU_ASSERT_EQUAL(add(1, DAO_ACCESS_WRITE), DAO_OK);
    bool has_failed = true;
    for (uint64_t n = 0; has_failed; n++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = dao_command_list_run(list);
        has_failed = dao_fault_disarm() > 0;
        CU_ASSERT_EQUAL(status, has_failed ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        CU_ASSERT_EQUAL(executor->queue.first == NULL, has_failed);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).kernel_count, 2);
    end();
}

static CU_TestInfo tests[] = {
    {"each run is a step", each_run_is_a_step},
    {"an empty list runs at once", an_empty_list_runs_at_once},
    {"a discard ends a content in every run", a_discard_ends_a_content_in_every_run},
    {"a write feeds every run", a_write_feeds_every_run},
    {"a write that fails is reported by the sync", a_write_that_fails_is_reported_by_the_sync},
    {"a write behind a failure is skipped", a_write_behind_a_failure_is_skipped},
    {"the least capacity is that of the largest kernel", the_least_capacity_is_that_of_the_largest_kernel},
    {"a list goes with its last run", a_list_goes_with_its_last_run},
    {"a list outlives its executor", a_list_outlives_its_executor},
    {"bad arguments are refused", bad_arguments_are_refused},
    {"no failing call leaves a part of a run", no_failing_call_leaves_a_part_of_a_run},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"command list", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
