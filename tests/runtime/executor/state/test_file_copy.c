/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor's copy in the file: NONE, WRITING and VALID by themselves, on an executor without a thread. */
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/online/eviction.h"
#include "runtime/executor/state/file_copy.h"
#include "runtime/executor/state/residency.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <stdlib.h>

#define UNIT (4 * KIB)

static dao_executor_t *executor;
static dao_engine_t *engine;
static program_t program;

static void begin(size_t host_bytes)
{
    dao_config_t cpu = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    dao_executor_config_t config = {.capacity_bytes = 8 * UNIT,
                                    .host_bytes = host_bytes,
                                    .file = {.directory = folder},
                                    .on_demand = true};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&cpu, dao_backend_ops()), DAO_OK);
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
    CU_ASSERT_EQUAL(program_stats(&program).file_used_bytes, 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static dao_managed_t *on_host(uint32_t *out_number)
{
    uint32_t number = program_tensor(&program, UNIT);
    CU_ASSERT_NOT_EQUAL_FATAL(number, UINT32_MAX);
    CU_ASSERT_EQUAL(program_write(&program, number), DAO_OK);
    *out_number = number;
    return program.tensors[number].handle;
}

static void fetch(dao_managed_t *tensor)
{
    uint64_t offset = 0;
    CU_ASSERT_EQUAL_FATAL(dao_eviction_take(engine, UNIT, (uint64_t)(uintptr_t)tensor, &offset), DAO_OK);
    dao_residency_land(engine, tensor, offset);
    CU_ASSERT_EQUAL(dao_residency_fetch(engine, tensor), DAO_OK);
}

static dao_managed_t *on_device(uint32_t *out_number)
{
    dao_managed_t *tensor = on_host(out_number);
    fetch(tensor);
    dao_residency_drop_host(engine, tensor);
    return tensor;
}

static void a_save_is_valid_once_its_writes_were_seen(void)
{
    uint32_t number;
    begin(0);
    dao_managed_t *tensor = on_device(&number);
    dao_file_copy_save(engine, tensor);
    CU_ASSERT_NOT_EQUAL(tensor->file_copy, DAO_FILE_COPY_NONE);
    CU_ASSERT_EQUAL(engine->stats.file_write_count, 1);
    if (tensor->file_copy == DAO_FILE_COPY_WRITING) {
        CU_ASSERT_EQUAL(dao_file_copy_await(engine, tensor), DAO_OK);
    }
    CU_ASSERT_EQUAL(tensor->file_copy, DAO_FILE_COPY_VALID);
    CU_ASSERT_TRUE(dao_residency_is_clean(tensor));
    CU_ASSERT_TRUE(dao_file_copy_is_valid(engine));
    end();
}

static void what_the_file_has_comes_back_verified(void)
{
    uint32_t number;
    begin(0);
    dao_managed_t *tensor = on_device(&number);
    dao_file_copy_save(engine, tensor);
    CU_ASSERT_EQUAL(dao_file_copy_await(engine, tensor), DAO_OK);
    dao_residency_drop_device(engine, tensor);
    CU_ASSERT_EQUAL(tensor->residency, DAO_RESIDENCY_FILE);
    fetch(tensor);
    CU_ASSERT_EQUAL(tensor->residency, DAO_RESIDENCY_DEVICE);
    CU_ASSERT_EQUAL(dao_file_copy_verify(engine, tensor), DAO_OK);
    CU_ASSERT_FALSE(tensor->is_unverified);
    CU_ASSERT_EQUAL(tensor->file_copy, DAO_FILE_COPY_VALID); /* it stays beside the device's */
    CU_ASSERT_EQUAL(program_read(&program, number), DAO_OK);
    end();
}

static void an_eviction_waits_for_the_file(void)
{
    uint32_t number;
    begin(0);
    dao_managed_t *tensor = on_device(&number);
    CU_ASSERT_EQUAL(dao_file_copy_evict(engine, tensor), DAO_OK);
    CU_ASSERT_EQUAL(tensor->residency, DAO_RESIDENCY_FILE);
    CU_ASSERT_EQUAL(tensor->file_copy, DAO_FILE_COPY_VALID);
    CU_ASSERT_FALSE(tensor->has_device);
    CU_ASSERT_EQUAL(program_read(&program, number), DAO_OK); /* by dao_file_copy_read() */
    CU_ASSERT_EQUAL(tensor->residency, DAO_RESIDENCY_FILE);
    end();
}

static void a_copy_is_forgotten_with_its_slot(void)
{
    uint32_t number;
    begin(0);
    dao_managed_t *tensor = on_device(&number);
    dao_file_copy_forget(engine, tensor); /* there is none */
    dao_file_copy_save(engine, tensor);
    CU_ASSERT_EQUAL(dao_file_copy_await(engine, tensor), DAO_OK);
    uint64_t version = tensor->file_version;
    CU_ASSERT_EQUAL(program_stats(&program).file_used_bytes, 0); /* statistics are as of the latest item */
    CU_ASSERT_EQUAL(dao_range_used(engine->file_tier.slots.range), UNIT);
    dao_file_copy_forget(engine, tensor);
    CU_ASSERT_EQUAL(tensor->file_copy, DAO_FILE_COPY_NONE);
    CU_ASSERT_TRUE(tensor->file_version > version);
    CU_ASSERT_EQUAL(dao_range_used(engine->file_tier.slots.range), 0);
    end();
}

static void what_is_written_gives_up_its_copy(void)
{
    uint32_t number;
    begin(0);
    dao_managed_t *tensor = on_device(&number);
    dao_file_copy_save(engine, tensor);
    CU_ASSERT_EQUAL(dao_file_copy_await(engine, tensor), DAO_OK);
    CU_ASSERT_EQUAL(program_write(&program, number), DAO_OK);
    CU_ASSERT_EQUAL(tensor->file_copy, DAO_FILE_COPY_NONE);
    CU_ASSERT_EQUAL(program_read(&program, number), DAO_OK);
    end();
}

/* As a pinned tensor comes, or one that was fetched for a kernel that was skipped. Its reads are not waited
   for: the kernel follows them on the device. */
static void a_kernel_overwrites_what_comes_from_the_file(void)
{
    uint32_t number;
    begin(0);
    dao_managed_t *tensor = on_device(&number);
    CU_ASSERT_EQUAL(dao_file_copy_evict(engine, tensor), DAO_OK);
    fetch(tensor);
    CU_ASSERT_TRUE(tensor->is_unverified);
    program_kernel_t kernel = {
        .name = "overwrite", .operand_count = 1, .tensors = {number}, .accesses = {DAO_ACCESS_WRITE}};
    CU_ASSERT_EQUAL(program_push(&program, &kernel), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_FALSE(tensor->is_unverified);
    CU_ASSERT_EQUAL(tensor->file_copy, DAO_FILE_COPY_NONE);
    CU_ASSERT_EQUAL(program_read(&program, number), DAO_OK);
    end();
}

/* A write is begun, waited for, and then the slot is given up: a move each. */
static void room_on_the_host_is_made_move_by_move(void)
{
    uint32_t number;
    bool has_moved = true;
    begin(2 * UNIT);
    dao_managed_t *tensor = on_host(&number);
    CU_ASSERT_EQUAL(dao_file_copy_make_room(engine, UNIT, &has_moved), DAO_OK);
    CU_ASSERT_TRUE(has_moved);
    CU_ASSERT_EQUAL(tensor->file_copy, DAO_FILE_COPY_WRITING);
    CU_ASSERT_EQUAL(engine->writing_bytes, UNIT);
    CU_ASSERT_EQUAL(dao_file_copy_make_room(engine, UNIT, &has_moved), DAO_OK);
    CU_ASSERT_EQUAL(tensor->file_copy, DAO_FILE_COPY_VALID);
    CU_ASSERT_EQUAL(engine->backed_bytes, UNIT);
    CU_ASSERT_EQUAL(engine->writing_bytes, 0);
    CU_ASSERT_EQUAL(tensor->residency, DAO_RESIDENCY_HOST);
    CU_ASSERT_EQUAL(dao_file_copy_make_room(engine, UNIT, &has_moved), DAO_OK);
    CU_ASSERT_EQUAL(tensor->residency, DAO_RESIDENCY_FILE);
    CU_ASSERT_EQUAL(engine->backed_bytes, 0);
    CU_ASSERT_EQUAL(dao_file_copy_make_room(engine, UNIT, &has_moved), DAO_OK);
    CU_ASSERT_FALSE(has_moved); /* nothing is left to do */
    end();
}

static void writes_begin_before_the_host_is_full(void)
{
    enum { TENSORS = 19 };
    uint32_t number;
    begin(20 * UNIT);
    for (int i = 0; i < TENSORS - 2; i++) {
        (void)on_host(&number);
        dao_file_copy_ahead(engine);
        CU_ASSERT_EQUAL(engine->backed_bytes, 0); /* a tenth and more is free */
    }
    (void)on_host(&number);
    (void)on_host(&number);
    dao_file_copy_ahead(engine);
    CU_ASSERT_TRUE(engine->backed_bytes + UNIT >= 20 * UNIT / 100 * DAO_FILE_COPY_HIGH_PERCENT);
    CU_ASSERT_TRUE(dao_file_copy_is_valid(engine));
    end();
}

static CU_TestInfo tests[] = {
    {"a save is valid once its writes were seen", a_save_is_valid_once_its_writes_were_seen},
    {"what the file has comes back verified", what_the_file_has_comes_back_verified},
    {"an eviction waits for the file", an_eviction_waits_for_the_file},
    {"a copy is forgotten with its slot", a_copy_is_forgotten_with_its_slot},
    {"what is written gives up its copy", what_is_written_gives_up_its_copy},
    {"a kernel overwrites what comes from the file", a_kernel_overwrites_what_comes_from_the_file},
    {"room on the host is made move by move", room_on_the_host_is_made_move_by_move},
    {"writes begin before the host is full", writes_begin_before_the_host_is_full},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"file copy", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
