/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/timed_program.h"

#include "backends/sim/sim.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

void timed_program_begin(timed_program_t *timed, const dao_executor_config_t *config)
{
    dao_config_t sim = {
        .cpu = {.device_count = 1, .device_bytes = 64 * MIB, .d2h_bytes_per_second = 64 * UNIT * 1000}};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&sim, &dao_sim_bytes_backend_ops), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(config, &timed->executor), DAO_OK);
    program_init(&timed->program, timed->executor);
}

void timed_program_end(timed_program_t *timed)
{
    CU_ASSERT_EQUAL(dao_executor_sync(timed->executor), DAO_OK);
    CU_ASSERT_EQUAL(timed->program.mismatch_count, 0);
    CU_ASSERT_EQUAL(program_count_lost(&timed->program), 0);
    program_drop_all(&timed->program);
    CU_ASSERT_EQUAL(dao_executor_destroy(timed->executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static dao_status_t launch_work(const dao_launch_t *launch, void *user)
{
    const uint64_t *time_ns = user;
    return dao_sim_stream_work(launch->stream->backend, *time_ns);
}

void timed_program_push(timed_program_t *timed, uint64_t *time_ns, uint32_t count)
{
    dao_kernel_t kernel = {.launch = launch_work, .user = time_ns};
    for (uint32_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(dao_executor_push(timed->executor, &kernel), DAO_OK);
    }
}
