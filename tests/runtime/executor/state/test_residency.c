/* SPDX-License-Identifier: Apache-2.0 */
/* Residency: each transition by itself, on an executor without a thread; states, copies and bytes are as
   the diagram says. */
#include "backends/sim/sim.h"
#include "base/report/error.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/online/eviction.h"
#include "runtime/executor/state/residency.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#define UNIT (4 * KIB)

enum { CAPACITY_UNITS = 8 };

static dao_executor_t *executor;
static dao_engine_t *engine;
static program_t program;

static void begin(void)
{
    dao_config_t sim = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    dao_executor_config_t config = {.capacity_bytes = CAPACITY_UNITS * UNIT, .on_demand = true};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&sim, &dao_sim_bytes_backend_ops), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(&config, &executor), DAO_OK);
    engine = &executor->engine;
    program_init(&program, executor);
}

static void end(void)
{
    CU_ASSERT_TRUE(dao_engine_is_valid(engine));
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).live_tensor_count, 0);
    CU_ASSERT_EQUAL(program_stats(&program).device_used_bytes, 0);
    CU_ASSERT_EQUAL(program_stats(&program).host_used_bytes, 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* A tensor that the program has written: it is HOST. */
static dao_managed_t *make(uint32_t *out_number)
{
    uint32_t number = program_tensor(&program, UNIT);
    CU_ASSERT_NOT_EQUAL_FATAL(number, UINT32_MAX);
    CU_ASSERT_EQUAL(program_write(&program, number), DAO_OK);
    *out_number = number;
    return program.tensors[number].handle;
}

static void land(dao_managed_t *tensor)
{
    uint64_t offset = 0;
    CU_ASSERT_EQUAL_FATAL(dao_eviction_take(engine, UNIT, (uint64_t)(uintptr_t)tensor, &offset), DAO_OK);
    dao_residency_land(engine, tensor, offset);
    CU_ASSERT_TRUE(dao_residency_is_landing(tensor));
}

static void fetch(dao_managed_t *tensor)
{
    land(tensor);
    CU_ASSERT_EQUAL(dao_residency_fetch(engine, tensor), DAO_OK);
}

/* The state, what it holds, and the bytes. */
static void expect(uint32_t number, dao_residency_t residency)
{
    const dao_managed_t *tensor = program.tensors[number].handle;
    bool has_device = residency == DAO_RESIDENCY_DEVICE || residency == DAO_RESIDENCY_BOTH;
    bool has_host = residency == DAO_RESIDENCY_HOST || residency == DAO_RESIDENCY_BOTH;
    CU_ASSERT_EQUAL(tensor->residency, residency);
    CU_ASSERT_EQUAL(tensor->has_device, has_device);
    CU_ASSERT_EQUAL(tensor->host_address != NULL, has_host);
    CU_ASSERT_TRUE(dao_residency_is_valid(tensor));
    CU_ASSERT_EQUAL(dao_residency_is_clean(tensor), residency == DAO_RESIDENCY_BOTH);
    CU_ASSERT_EQUAL(program_read(&program, number), DAO_OK);
}

static void the_program_writes_to_the_host(void)
{
    uint32_t number;
    begin();
    (void)make(&number);
    expect(number, DAO_RESIDENCY_HOST);
    CU_ASSERT_EQUAL(engine->host_tier.used_bytes, UNIT);
    end();
}

static void a_fetch_keeps_the_hosts_copy(void)
{
    uint32_t number;
    begin();
    fetch(make(&number));
    expect(number, DAO_RESIDENCY_BOTH);
    CU_ASSERT_EQUAL(engine->stats.fetch_count, 1);
    CU_ASSERT_EQUAL(engine->stats.in_bytes, UNIT);
    end();
}

static void either_copy_of_both_may_be_dropped(void)
{
    uint32_t number;
    begin();
    dao_managed_t *tensor = make(&number);
    fetch(tensor);
    dao_residency_drop_device(engine, tensor);
    expect(number, DAO_RESIDENCY_HOST);
    fetch(tensor);
    dao_residency_drop_host(engine, tensor);
    expect(number, DAO_RESIDENCY_DEVICE);
    end();
}

static void a_save_leaves_the_bytes_on_the_device(void)
{
    uint32_t number;
    begin();
    dao_managed_t *tensor = make(&number);
    fetch(tensor);
    dao_residency_drop_host(engine, tensor);
    CU_ASSERT_EQUAL(dao_residency_save(engine, tensor), DAO_OK);
    expect(number, DAO_RESIDENCY_BOTH);
    end();
}

static void an_eviction_copies_only_what_the_host_has_not(void)
{
    uint32_t number;
    begin();
    dao_managed_t *tensor = make(&number);
    fetch(tensor);
    uint64_t out_bytes = engine->stats.out_bytes;
    CU_ASSERT_EQUAL(dao_residency_evict(engine, tensor), DAO_OK);
    CU_ASSERT_EQUAL(engine->stats.out_bytes, out_bytes);
    CU_ASSERT_EQUAL(engine->stats.clean_eviction_count, 1);
    expect(number, DAO_RESIDENCY_HOST);
    fetch(tensor);
    dao_residency_drop_host(engine, tensor);
    out_bytes = engine->stats.out_bytes;
    CU_ASSERT_EQUAL(dao_residency_evict(engine, tensor), DAO_OK);
    CU_ASSERT_EQUAL(engine->stats.out_bytes, out_bytes + UNIT);
    CU_ASSERT_EQUAL(engine->stats.clean_eviction_count, 1);
    expect(number, DAO_RESIDENCY_HOST);
    end();
}

static void what_landed_may_take_off_again(void)
{
    uint32_t number;
    begin();
    dao_managed_t *tensor = make(&number);
    land(tensor);
    CU_ASSERT_FALSE(dao_residency_is_valid(tensor)); /* it is no operand of a kernel */
    dao_residency_unland(engine, tensor);
    expect(number, DAO_RESIDENCY_HOST);
    CU_ASSERT_EQUAL(dao_range_used(engine->arena.range), 0);
    end();
}

static void a_move_takes_the_bytes_along(void)
{
    uint32_t number;
    uint64_t offset = 0;
    begin();
    dao_managed_t *tensor = make(&number);
    fetch(tensor);
    uint64_t former = tensor->device_offset_bytes;
    CU_ASSERT_EQUAL_FATAL(dao_eviction_take(engine, UNIT, (uint64_t)(uintptr_t)tensor, &offset), DAO_OK);
    CU_ASSERT_EQUAL(dao_residency_move(engine, tensor, offset), DAO_OK);
    CU_ASSERT_EQUAL(tensor->device_offset_bytes, offset);
    CU_ASSERT_NOT_EQUAL(offset, former);
    CU_ASSERT_EQUAL(dao_range_used(engine->arena.range), UNIT);
    dao_residency_drop_host(engine, tensor);
    expect(number, DAO_RESIDENCY_DEVICE);
    end();
}

static void zeros_fill_what_was_never_written(void)
{
    begin();
    dao_managed_config_t settings = {.name = "zeros", .size_bytes = UNIT, .zero_first_touch = true};
    dao_managed_t *tensor = NULL;
    unsigned char bytes[UNIT];
    CU_ASSERT_EQUAL_FATAL(dao_managed_create(executor, &settings, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_read(tensor, bytes, UNIT), DAO_OK); /* the executor's table has it now */
    CU_ASSERT_EQUAL(tensor->residency, DAO_RESIDENCY_EMPTY);
    land(tensor);
    CU_ASSERT_EQUAL(dao_residency_zero(engine, tensor), DAO_OK);
    CU_ASSERT_EQUAL(tensor->residency, DAO_RESIDENCY_DEVICE);
    bytes[0] = bytes[UNIT - 1] = 1;
    CU_ASSERT_EQUAL(dao_managed_read(tensor, bytes, UNIT), DAO_OK);
    CU_ASSERT_TRUE(bytes[0] == 0 && bytes[UNIT - 1] == 0);
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    end();
}

static void a_discard_gives_up_every_copy(void)
{
    uint32_t number;
    begin();
    dao_managed_t *tensor = make(&number);
    fetch(tensor);
    dao_residency_discard(engine, tensor);
    CU_ASSERT_EQUAL(tensor->residency, DAO_RESIDENCY_EMPTY);
    CU_ASSERT_TRUE(dao_residency_is_valid(tensor));
    CU_ASSERT_EQUAL(program_read(&program, number), DAO_ERR_NEVER_WRITTEN);
    CU_ASSERT_EQUAL(program_write(&program, number), DAO_OK);
    end();
}

/* One transition that the state allows, chosen at random; the state that has to follow. */
static dao_residency_t step(dao_managed_t *tensor, uint32_t number, uint64_t *seed)
{
    uint64_t choice = dao_random_below(seed, 3);
    switch (tensor->residency) {
    case DAO_RESIDENCY_HOST:
        if (choice == 0) {
            CU_ASSERT_EQUAL(program_write(&program, number), DAO_OK);
            return DAO_RESIDENCY_HOST;
        }
        fetch(tensor);
        return DAO_RESIDENCY_BOTH;
    case DAO_RESIDENCY_BOTH:
        if (choice == 0) {
            dao_residency_drop_host(engine, tensor);
            return DAO_RESIDENCY_DEVICE;
        }
        if (choice == 1) {
            dao_residency_drop_device(engine, tensor);
        } else {
            CU_ASSERT_EQUAL(dao_residency_evict(engine, tensor), DAO_OK);
        }
        return DAO_RESIDENCY_HOST;
    case DAO_RESIDENCY_DEVICE:
        if (choice == 0) {
            CU_ASSERT_EQUAL(dao_residency_save(engine, tensor), DAO_OK);
            return DAO_RESIDENCY_BOTH;
        }
        CU_ASSERT_EQUAL(dao_residency_evict(engine, tensor), DAO_OK);
        return DAO_RESIDENCY_HOST;
    case DAO_RESIDENCY_EMPTY:
    case DAO_RESIDENCY_FILE:
    case DAO_RESIDENCY_PARTIAL: /* in test_executor_spans.c */
        break;
    }
    CU_FAIL("no such state is reached here");
    return tensor->residency;
}

static void random_transitions_keep_every_byte(void)
{
    uint64_t seed = dao_test_seed("random transitions keep every byte", 29);
    enum { TENSORS = CAPACITY_UNITS };
    uint32_t numbers[TENSORS];
    begin();
    for (int i = 0; i < TENSORS; i++) {
        (void)make(&numbers[i]);
    }
    for (int i = 0; i < 600; i++) {
        uint32_t number = numbers[dao_random_below(&seed, TENSORS)];
        dao_residency_t residency = step(program.tensors[number].handle, number, &seed);
        expect(number, residency);
        CU_ASSERT_TRUE_FATAL(dao_engine_is_valid(engine));
    }
    end();
}

static CU_TestInfo tests[] = {
    {"the program writes to the host", the_program_writes_to_the_host},
    {"a fetch keeps the host's copy", a_fetch_keeps_the_hosts_copy},
    {"either copy of both may be dropped", either_copy_of_both_may_be_dropped},
    {"a save leaves the bytes on the device", a_save_leaves_the_bytes_on_the_device},
    {"an eviction copies only what the host has not", an_eviction_copies_only_what_the_host_has_not},
    {"what landed may take off again", what_landed_may_take_off_again},
    {"a move takes the bytes along", a_move_takes_the_bytes_along},
    {"zeros fill what was never written", zeros_fill_what_was_never_written},
    {"a discard gives up every copy", a_discard_gives_up_every_copy},
    {"random transitions keep every byte", random_transitions_keep_every_byte},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"residency", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
