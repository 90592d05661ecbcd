/* SPDX-License-Identifier: Apache-2.0 */
/* Eviction: a part of the arena for one tensor, at the cost of those that the policy chooses and no
   others. */
#include "backends/sim/sim.h"
#include "base/report/error.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/online/eviction.h"
#include "runtime/executor/state/residency.h"
#include "runtime/executor/state/victims.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#define UNIT (4 * KIB)

enum { CAPACITY_UNITS = 4 };

static dao_executor_t *executor;
static dao_engine_t *engine;
static program_t program;

/* Tensors that fill the device, the first one unused for longest. */
static void begin(size_t host_bytes)
{
    dao_config_t sim = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    dao_executor_config_t config = {
        .capacity_bytes = CAPACITY_UNITS * UNIT, .host_bytes = host_bytes, .on_demand = true};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&sim, &dao_sim_bytes_backend_ops), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(&config, &executor), DAO_OK);
    engine = &executor->engine;
    program_init(&program, executor);
    for (uint32_t i = 0; i < CAPACITY_UNITS; i++) {
        CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), i);
        program_kernel_t kernel = {"make", 1, {i}, {DAO_ACCESS_WRITE}, 0, DAO_OK};
        CU_ASSERT_EQUAL(program_push(&program, &kernel), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_TRUE(dao_engine_is_valid(engine));
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void give(uint64_t offset)
{
    static const dao_fence_t no_fence;
    dao_range_block_t block;
    CU_ASSERT_EQUAL_FATAL(dao_range_query(engine->arena.range, offset, &block), DAO_OK);
    CU_ASSERT_EQUAL(
        dao_device_arena_give(&engine->arena, &engine->timeline, offset, block.size_bytes, &no_fence),
        DAO_OK);
}

/* Which tensors are on the device, as a mask. */
static unsigned on_device(void)
{
    unsigned mask = 0;
    for (uint32_t i = 0; i < program.tensor_count; i++) {
        mask |= program.tensors[i].handle->has_device ? 1u << i : 0;
    }
    return mask;
}

static void the_victim_is_the_policys(void)
{
    uint64_t offset = UINT64_MAX;
    begin(0);
    CU_ASSERT_EQUAL(dao_eviction_take(engine, UNIT, DAO_OWNER_WORKSPACE, &offset), DAO_OK);
    CU_ASSERT_EQUAL(on_device(), 0xe); /* the first one was unused for longest */
    CU_ASSERT_EQUAL(engine->stats.eviction_count, 1);
    give(offset);
    CU_ASSERT_EQUAL(dao_eviction_take(engine, UNIT, DAO_OWNER_WORKSPACE, &offset), DAO_OK);
    CU_ASSERT_EQUAL(engine->stats.eviction_count, 1); /* there was a hole */
    give(offset);
    end();
}

static void victims_lie_side_by_side(void)
{
    uint64_t offset = UINT64_MAX;
    begin(0);
    CU_ASSERT_EQUAL(dao_eviction_take(engine, 2 * UNIT, DAO_OWNER_WORKSPACE, &offset), DAO_OK);
    CU_ASSERT_EQUAL(on_device(), 0xc);
    give(offset);
    end();
}

static void what_must_stay_leaves_no_room(void)
{
    uint64_t offset = UINT64_MAX;
    begin(0);
    program.tensors[1].handle->is_operand = true;
    CU_ASSERT_EQUAL(dao_eviction_take(engine, 3 * UNIT, DAO_OWNER_WORKSPACE, &offset), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(on_device(), 0xf);
    CU_ASSERT_EQUAL(dao_eviction_take(engine, 2 * UNIT, DAO_OWNER_WORKSPACE, &offset), DAO_OK);
    CU_ASSERT_EQUAL(on_device(), 0x3); /* the window beside it */
    program.tensors[1].handle->is_operand = false;
    give(offset);
    end();
}

/* Tensors 0 to 2 are expected at times 10, 20 and 30; of the last one nobody knows. */
static void an_early_taker_spares_what_is_used_before_it(void)
{
    uint64_t offset = UINT64_MAX;
    begin(0);
    for (uint32_t i = 0; i < 3; i++) {
        program.tensors[i].handle->forecast_time = engine->now + 10 * (i + 1);
        dao_victims_update(engine, program.tensors[i].handle);
    }
    uint64_t early = engine->now + 25;
    CU_ASSERT_EQUAL(dao_eviction_take_early(engine, 3 * UNIT, DAO_OWNER_WORKSPACE, early, &offset),
                    DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(on_device(), 0xf);
    CU_ASSERT_EQUAL(dao_eviction_take_early(engine, 2 * UNIT, DAO_OWNER_WORKSPACE, early, &offset), DAO_OK);
    CU_ASSERT_EQUAL(on_device(), 0x3);
    give(offset);
    end();
}

static void a_full_host_lets_clean_tensors_go_first(void)
{
    uint64_t offset = UINT64_MAX;
    begin(UNIT);
    CU_ASSERT_EQUAL(dao_residency_save(engine, program.tensors[2].handle), DAO_OK);
    CU_ASSERT_EQUAL(dao_eviction_take(engine, UNIT, DAO_OWNER_WORKSPACE, &offset), DAO_OK);
    CU_ASSERT_EQUAL(on_device(), 0xb);
    give(offset);
    end();
}

static void clearing_moves_all_off_the_device(void)
{
    begin(0);
    CU_ASSERT_EQUAL(dao_eviction_clear(engine), DAO_OK);
    CU_ASSERT_EQUAL(on_device(), 0);
    CU_ASSERT_EQUAL(dao_range_used(engine->arena.range), 0);
    CU_ASSERT_EQUAL(dao_eviction_clear(engine), DAO_OK);
    end();
}

static void a_host_without_room_stops_a_clearing_without_loss(void)
{
    begin(2 * UNIT);
    CU_ASSERT_EQUAL(dao_eviction_clear(engine), DAO_ERR_HOST_FULL);
    end(); /* every byte is still there */
}

static CU_TestInfo tests[] = {
    {"the victim is the policy's", the_victim_is_the_policys},
    {"victims lie side by side", victims_lie_side_by_side},
    {"what must stay leaves no room", what_must_stay_leaves_no_room},
    {"an early taker spares what is used before it", an_early_taker_spares_what_is_used_before_it},
    {"a full host lets clean tensors go first", a_full_host_lets_clean_tensors_go_first},
    {"clearing moves all off the device", clearing_moves_all_off_the_device},
    {"a host without room stops a clearing without loss", a_host_without_room_stops_a_clearing_without_loss},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"eviction", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
