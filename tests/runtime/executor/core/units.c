/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/executor/core/units.h"

#include "tests/support/suite.h"

#include <dao/dao.h>

dao_executor_t *units_executor;
program_t units;
dao_executor_config_t units_config;

static void reset_config(void)
{
    units_config = (dao_executor_config_t){.check = true};
}

int units_start_suite(void)
{
    reset_config();
    return dao_init(NULL) == DAO_OK ? 0 : 1;
}

int units_end_suite(void)
{
    return dao_finalize() == DAO_OK ? 0 : 1;
}

void units_begin(size_t count)
{
    units_config.capacity_bytes = count * UNIT;
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&units_config, &units_executor), DAO_OK);
    program_init(&units, units_executor);
}

void units_end(void)
{
    CU_ASSERT_EQUAL(units.mismatch_count, 0);
    program_drop_all(&units);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_OK);
    CU_ASSERT_EQUAL(units.open_count, 0);
    dao_executor_stats_t stats;
    CU_ASSERT_EQUAL(dao_executor_stats_get(units_executor, &stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.live_tensor_count, 0);
    CU_ASSERT_EQUAL(stats.device_used_bytes, 0);
    CU_ASSERT_EQUAL(stats.host_used_bytes, 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(units_executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
    CU_ASSERT_EQUAL(dao_used(dao_pinned_place(0)), 0);
    reset_config();
}

dao_executor_stats_t units_stats(void)
{
    dao_executor_stats_t stats;
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_stats_get(units_executor, &stats), DAO_OK);
    return stats;
}

dao_status_t units_push1(const char *name, uint32_t a, dao_access_t access)
{
    return program_push(&units, &(program_kernel_t){name, 1, {a}, {access}, 0, DAO_OK});
}

dao_status_t units_push2(const char *name, uint32_t a, dao_access_t access_a, uint32_t b,
                         dao_access_t access_b)
{
    return program_push(&units, &(program_kernel_t){name, 2, {a, b}, {access_a, access_b}, 0, DAO_OK});
}

dao_status_t units_create(dao_managed_config_t of, dao_managed_t **out_tensor)
{
    return dao_managed_create(units_executor, &of, out_tensor);
}

void units_make_written(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t tensor = program_tensor(&units, UNIT);
        CU_ASSERT_EQUAL_FATAL(tensor, i);
        CU_ASSERT_EQUAL(units_push1("make", tensor, DAO_ACCESS_WRITE), DAO_OK);
    }
}

dao_status_t units_launch(const dao_launch_t *launch, device_kernel_t function, void *user)
{
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, launch->device_index};
    device_operand_t operand = {place, launch->addresses[0], UNIT, DAO_ACCESS_READ_WRITE};
    return device_launch(launch->stream, &operand, 1, function, user);
}
