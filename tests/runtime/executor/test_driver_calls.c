/* SPDX-License-Identifier: Apache-2.0 */
/* How many calls of the driver a kernel of a followed plan takes, on the loopback driver: those that the
   executor needs (copies, events, waits, the kernel's own), and those around them that ask what is current in
   the thread. */
#include "runtime/executor/executor_internal.h"
#include "tests/loopback/loopback.h"
#include "tests/support/gate.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <stdio.h>

enum {
    LAYERS = 8,
    BYTES = 64 * 1024,
    CAPACITY = 5 * BYTES,
    PATIENCE = 2000, /* steps until a plan is followed */
    SETTLED_STEPS = 12,
    STEPS = 20,
    AROUND_PERCENT = 20, /* of the needed calls, at most */
};

static dao_executor_t *executor;
static dao_managed_t *layers[LAYERS];
static bool does_wander; /* the program's functions leave another device current */

static dao_status_t fill(const dao_launch_t *launch, void *user)
{
    (void)user;
    dao_status_t status = loopback_ops()->fill(launch->stream->backend, launch->addresses[1], 3, BYTES);
    return status != DAO_OK || !does_wander ? status : loopback_choose_device(1);
}

static uint64_t plan_hits(void)
{
    dao_executor_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_executor_stats_get(executor, &stats), DAO_OK);
    return stats.plan_hit_count;
}

static void run_step(void)
{
    for (int i = 0; i + 1 < LAYERS; i++) {
        dao_operand_t operands[] = {{.tensor = layers[i], .access = DAO_ACCESS_READ},
                                    {.tensor = layers[i + 1], .access = DAO_ACCESS_READ_WRITE}};
        dao_kernel_t kernel = {.name = "fill", .launch = fill, .operands = operands, .operand_count = 2};
        CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
}

static void begin(void)
{
    static const unsigned char zeros[BYTES];
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    does_wander = false;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, loopback_ops()), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(
        dao_executor_create(&(dao_executor_config_t){.capacity_bytes = CAPACITY}, &executor), DAO_OK);
    executor->engine.config.keeps_plans = true; /* nothing was pushed yet */
    for (int i = 0; i < LAYERS; i++) {
        CU_ASSERT_EQUAL_FATAL(
            dao_managed_create(executor, &(dao_managed_config_t){.size_bytes = BYTES}, &layers[i]), DAO_OK);
        CU_ASSERT_EQUAL(dao_managed_write(layers[i], zeros, BYTES), DAO_OK);
    }
}

static void end(void)
{
    for (int i = 0; i < LAYERS; i++) {
        CU_ASSERT_EQUAL(dao_managed_release(layers[i]), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void run_until_planned(void)
{
    for (int i = 0; i < PATIENCE && plan_hits() < SETTLED_STEPS; i++) {
        run_step();
    }
    CU_ASSERT_TRUE(plan_hits() >= SETTLED_STEPS);
}

static void a_kernel_of_a_plan_takes_few_calls_that_do_no_work(void)
{
    begin();
    run_until_planned();
    uint64_t needed = loopback_call_count(), around = loopback_around_count(), hits = plan_hits();
    for (int i = 0; i < STEPS; i++) {
        run_step();
    }
    needed = loopback_call_count() - needed;
    around = loopback_around_count() - around;
    double kernels = (double)STEPS * (LAYERS - 1);
    CU_ASSERT_EQUAL(plan_hits() - hits, STEPS);
    (void)printf("    calls of the driver for a kernel: %.2f needed, %.2f around them\n",
                 (double)needed / kernels, (double)around / kernels);
    CU_ASSERT_TRUE(around * 100 <= needed * AROUND_PERCENT);
    end();
}

/* The driver checks each call for its device: a wrong one ends the program. */
static void a_function_that_leaves_another_device_current_harms_nothing(void)
{
    begin();
    does_wander = true;
    run_until_planned();
    static unsigned char bytes[BYTES];
    CU_ASSERT_EQUAL(dao_managed_read(layers[LAYERS - 1], bytes, BYTES), DAO_OK);
    CU_ASSERT_TRUE(bytes[0] == 3 && bytes[BYTES - 1] == 3);
    end();
}

static _Atomic int drop_count;

static void drop_and_wander(void *user)
{
    (void)user;
    CU_ASSERT_EQUAL(loopback_choose_device(1), DAO_OK);
    drop_count++;
}

static dao_status_t launch_gate(const dao_launch_t *launch, void *user)
{
    (void)launch;
    dao_gate_wait(user);
    return DAO_OK;
}

/* Holds the executor's thread up until the gate is open. */
static void hold(dao_gate_t *gate)
{
    dao_gate_init(gate);
    CU_ASSERT_EQUAL(
        dao_executor_push(executor, &(dao_kernel_t){.name = "hold", .launch = launch_gate, .user = gate}),
        DAO_OK);
}

/* What was called on the executor's thread has left another device current; its next copies are checked. */
static void let_go(dao_gate_t *gate)
{
    static unsigned char bytes[BYTES];
    dao_gate_open(gate);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(drop_count, 1);
    run_step();
    CU_ASSERT_EQUAL(dao_managed_read(layers[LAYERS - 1], bytes, BYTES), DAO_OK);
    CU_ASSERT_TRUE(bytes[0] == 3 && bytes[BYTES - 1] == 3);
    dao_gate_finish(gate);
}

/* The list's kernels go with its last run. */
static void a_list_that_leaves_another_device_current_harms_nothing(void)
{
    dao_gate_t gate;
    dao_command_list_t *list = NULL;
    begin();
    drop_count = 0;
    dao_operand_t operands[] = {{.tensor = layers[0], .access = DAO_ACCESS_READ},
                                {.tensor = layers[1], .access = DAO_ACCESS_READ_WRITE}};
    dao_kernel_t kernel = {.launch = fill, .drop = drop_and_wander, .operands = operands, .operand_count = 2};
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_push(list, &kernel), DAO_OK);
    hold(&gate);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    dao_command_list_destroy(list);
    let_go(&gate);
    end();
}

/* The source goes with its tensor. */
static void a_source_that_leaves_another_device_current_harms_nothing(void)
{
    static const unsigned char content[BYTES] = {1};
    dao_gate_t gate;
    dao_source_t *source = NULL;
    dao_managed_t *weights = NULL;
    begin();
    drop_count = 0;
    CU_ASSERT_EQUAL_FATAL(dao_source_adopt(content, BYTES, drop_and_wander, NULL, &source), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(
        dao_managed_create_from(executor, &(dao_managed_config_t){.size_bytes = BYTES}, source, 0, &weights),
        DAO_OK);
    CU_ASSERT_EQUAL(dao_source_release(source), DAO_OK);
    dao_operand_t operands[] = {{.tensor = weights, .access = DAO_ACCESS_READ},
                                {.tensor = layers[1], .access = DAO_ACCESS_READ_WRITE}};
    hold(&gate);
    CU_ASSERT_EQUAL(dao_executor_push(
                        executor, &(dao_kernel_t){.launch = fill, .operands = operands, .operand_count = 2}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(weights), DAO_OK);
    let_go(&gate);
    end();
}

int main(void)
{
    static CU_TestInfo tests[] = {
        {"a kernel of a plan takes few calls that do no work",
         a_kernel_of_a_plan_takes_few_calls_that_do_no_work},
        {"a function that leaves another device current harms nothing",
         a_function_that_leaves_another_device_current_harms_nothing},
        {"a list that leaves another device current harms nothing",
         a_list_that_leaves_another_device_current_harms_nothing},
        {"a source that leaves another device current harms nothing",
         a_source_that_leaves_another_device_current_harms_nothing},
        CU_TEST_INFO_NULL,
    };
    CU_SuiteInfo suites[] = {{"driver calls", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
