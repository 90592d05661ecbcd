/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel's function is given: its addresses are there as long as its work may read them. */
#include "runtime/start/context.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/gate.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#define UNIT (64 * KIB)

static program_t program;

static dao_status_t launch_gate(const dao_launch_t *launch, void *user)
{
    return device_gate(launch->stream, user);
}

enum { LAUNCH_COUNT = 600, FAILING_LAUNCH = LAUNCH_COUNT - 1 };

/* What a kernel saw as it was launched, and how often its work saw the same. */
typedef struct seen_launch {
    void *const *addresses;
    void *first, *second;
    bool is_failing;
} seen_launch_t;

static _Atomic uint32_t same_count;

static void compare_addresses(void *user)
{
    const seen_launch_t *seen = user;
    bool is_same = seen->addresses[0] == seen->first && seen->addresses[1] == seen->second;
    atomic_fetch_add(&same_count, is_same ? 1u : 0u);
}

static dao_status_t launch_comparison(const dao_launch_t *launch, void *user)
{
    seen_launch_t *seen = user;
    *seen = (seen_launch_t){launch->addresses, launch->addresses[0], launch->addresses[1], seen->is_failing};
    dao_status_t status = dao_stream_host_func(launch->stream, compare_addresses, seen);
    return status == DAO_OK && seen->is_failing ? DAO_ERR_INVALID : status;
}

/* The device is held up until most kernels are launched: their work still finds its addresses, also that of
   one whose function answers an error, though nobody has asked to be told when it ends. */
static void addresses_are_there_until_the_work_has_ended(void)
{
    static seen_launch_t seen[LAUNCH_COUNT];
    dao_executor_t *executor = NULL;
    dao_executor_config_t config = {.capacity_bytes = 3 * UNIT, .check = true};
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK);
    program_init(&program, executor);
    for (uint32_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), i);
        CU_ASSERT_EQUAL(program_write(&program, i), DAO_OK);
    }
    dao_gate_t gate;
    dao_gate_init(&gate);
    dao_kernel_t hold = {.name = "hold", .launch = launch_gate, .user = &gate};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &hold), DAO_OK);
    atomic_store(&same_count, 0u);
    for (uint32_t i = 0; i < LAUNCH_COUNT; i++) {
        dao_operand_t operands[] = {{program.tensors[i % 4].handle, DAO_ACCESS_READ},
                                    {program.tensors[(i + 1) % 4].handle, DAO_ACCESS_READ}};
        seen[i] = (seen_launch_t){.is_failing = i == FAILING_LAUNCH};
        dao_kernel_t kernel = {
            .launch = launch_comparison, .user = &seen[i], .operands = operands, .operand_count = 2};
        CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
        if (i == LAUNCH_COUNT / 2) {
            dao_gate_open(&gate);
        }
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_EQUAL(atomic_load(&same_count), LAUNCH_COUNT);
    dao_gate_finish(&gate);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
}

static CU_TestInfo tests[] = {
    {"addresses are there until the work has ended", addresses_are_there_until_the_work_has_ended},
    CU_TEST_INFO_NULL,
};

static int start(void)
{
    return dao_init(&(dao_config_t){.cpu = {.device_count = 1, .device_bytes = 64 * MIB}}) == DAO_OK ? 0 : 1;
}

static int stop(void)
{
    return dao_finalize() == DAO_OK ? 0 : 1;
}

int main(void)
{
    CU_SuiteInfo suites[] = {{"launch", start, stop, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
