/* SPDX-License-Identifier: Apache-2.0 */
/* Command lists: pushed once, run as often as is wanted, each run a step; they hold what they name. */
#include "base/report/fault.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/learned/step_learner.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

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
    begin();
    CU_ASSERT_EQUAL(add(0, DAO_ACCESS_WRITE), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_ERR_STOPPED);
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
    dao_command_list_destroy(NULL);
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
