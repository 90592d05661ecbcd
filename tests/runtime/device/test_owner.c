/* SPDX-License-Identifier: Apache-2.0 */
/* Owners of blocks: dao_free() refuses what belongs to a handle, an executor or a lease, at every kind of
   place, however it is configured; the owner frees it once, whatever others try meanwhile. */
#include <dao/async.h>
#include <dao/context.h>
#include <dao/executor.h>
#include <dao/lease.h>
#include <dao/memory.h>
#include <dao/place_config.h>
#include <dao/step_plan.h>
#include <dao/stream.h>

#include "base/threads/sync.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

#define KIND_COUNT 3

static const dao_place_t kinds[KIND_COUNT] = {
    {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 0}, {DAO_PLACE_KIND_DEVICE, 0}};

static void start(void)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 128 * MIB}};
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
}

static void stop(void)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_trim(kinds[i], 0, NULL), DAO_OK);
        CU_ASSERT_EQUAL(dao_used(kinds[i]), 0);
    }
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void expect_refused(dao_status_t status, const char *owner)
{
    CU_ASSERT_EQUAL(status, DAO_ERR_NOT_YOURS);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NOT_YOURS);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), owner));
}

static void expect_owner(dao_place_t place, const void *address, dao_block_owner_t owner)
{
    dao_block_info_t info = {0};
    CU_ASSERT_EQUAL(dao_block_query(place, address, &info), DAO_OK);
    CU_ASSERT_EQUAL(info.owner, owner);
}

/* Tries to free a block in each way that a program has. */
static void expect_not_freed(dao_place_t place, void *address, const char *owner)
{
    CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK); /* or a free reclaims what a handle has left */
    size_t used_bytes = dao_used(place);
    expect_refused(dao_free(place, address), owner);
    if (place.kind == DAO_PLACE_KIND_DEVICE) {
        expect_refused(dao_free(dao_device_place(0), address), owner);
    }
    if (place.kind != DAO_PLACE_KIND_CPU && dao_free_async(place, address, NULL) != DAO_ERR_UNSUPPORTED) {
        expect_refused(dao_last_status(), owner);
    }
    CU_ASSERT_EQUAL(dao_used(place), used_bytes);
}

/* A handle's block: nobody else frees it, nobody else gets its bytes, and its last reference frees it. */
static void check_handle(dao_place_t place, size_t size_bytes)
{
    size_t used_before = dao_used(place);
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(place, size_bytes, NULL, &memory), DAO_OK);
    char *address = dao_memory_address(memory);
    expect_owner(place, address, DAO_BLOCK_OWNER_HANDLE);
    expect_not_freed(place, address, "a memory handle");
    if (size_bytes > 1) {
        CU_ASSERT_NOT_EQUAL(dao_free(place, address + 1), DAO_OK);
    }
    char *other = dao_alloc(place, size_bytes);
    CU_ASSERT_TRUE(other + size_bytes <= address || address + size_bytes <= other);
    expect_owner(place, other, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    if (place.kind != DAO_PLACE_KIND_CPU) {
        CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_free(place, other), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(place), used_before);
}

static const size_t sizes[] = {1, 1000, 4096, 100000, 5 * MIB};

static void check_all_sizes(dao_place_t place)
{
    dao_tag_t tag = 0;
    CU_ASSERT_EQUAL(dao_tag_create("owned", &tag), DAO_OK);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check_handle(place, sizes[i]);
        dao_tag_t before = dao_tag_set_current(tag);
        check_handle(place, sizes[i]);
        CU_ASSERT_EQUAL(dao_tag_set_current(before), tag);
    }
}

/* Configures all places alike and checks handles there, outside of a step and within one. */
static void check_config(const dao_place_config_t *config)
{
    start();
    for (int i = 0; i < KIND_COUNT; i++) {
        dao_place_config_t own = *config;
        own.no_page_mapping = config->no_page_mapping && kinds[i].kind == DAO_PLACE_KIND_DEVICE;
        CU_ASSERT_EQUAL_FATAL(dao_place_configure(kinds[i], &own), DAO_OK);
    }
    for (int i = 0; i < KIND_COUNT; i++) {
        check_all_sizes(kinds[i]);
        if (config->step_plan.mode == DAO_STEP_PLAN_DEFAULT) {
            continue;
        }
        for (int step = 0; step < 4; step++) {
            CU_ASSERT_EQUAL(dao_step_begin(kinds[i]), DAO_OK);
            dao_memory_t *memory = NULL;
            CU_ASSERT_EQUAL_FATAL(dao_memory_create(kinds[i], 70000, NULL, &memory), DAO_OK);
            expect_not_freed(kinds[i], dao_memory_address(memory), "a memory handle");
            CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
            CU_ASSERT_EQUAL(dao_step_end(kinds[i]), DAO_OK);
        }
    }
    stop();
}

static void handles_own_their_blocks_whatever_the_config(void)
{
    static const dao_strategy_t strategies[] = {DAO_STRATEGY_GOOD_FIT, DAO_STRATEGY_BEST_FIT,
                                                DAO_STRATEGY_BINARY_BUDDY, DAO_STRATEGY_SIZE_CLASS,
                                                DAO_STRATEGY_SYSTEM};
    static const uint32_t hardenings[] = {0, DAO_HARDENING_CHECKSUM | DAO_HARDENING_GUARD,
                                          DAO_HARDENING_QUARANTINE | DAO_HARDENING_JUNK};
    static const dao_step_plan_config_t step_plans[] = {
        {.mode = DAO_STEP_PLAN_DEFAULT},
        {.mode = DAO_STEP_PLAN_OFFSETS},
        {.mode = DAO_STEP_PLAN_OFFSETS, .defers_frees = true},
        {.mode = DAO_STEP_PLAN_BINS, .defers_frees = true, .smallest_bytes = 1}};
    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++) {
        for (size_t k = 0; k < sizeof(hardenings) / sizeof(hardenings[0]); k++) {
            for (size_t n = 0; n < sizeof(step_plans) / sizeof(step_plans[0]); n++) {
                check_config(&(dao_place_config_t){.strategy = strategies[i],
                                                   .hardening = hardenings[k],
                                                   .no_page_mapping = (i + n) % 2 == 1,
                                                   .step_plan = step_plans[n]});
            }
        }
    }
}

static dao_status_t see_address(const dao_launch_t *launch, void *user)
{
    *(void **)user = launch->addresses[0];
    return dao_stream_fill(launch->stream, launch->addresses[0], 7, 1000);
}

/* Returns the start of the live block around an address. */
static void *block_around(dao_place_t place, const void *address)
{
    dao_block_info_t info = {0};
    CU_ASSERT_EQUAL_FATAL(dao_block_query(place, address, &info), DAO_OK);
    return info.address;
}

static void an_executor_owns_its_arena_and_its_pinned_memory(void)
{
    start();
    void *seen = NULL;
    dao_executor_t *executor = NULL;
    dao_managed_t *tensor = NULL, *other = NULL;
    dao_executor_config_t config = {.capacity_bytes = 1 * MIB};
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK);
    dao_managed_config_t managed = {.name = "w", .size_bytes = 600 * KIB};
    CU_ASSERT_EQUAL_FATAL(dao_managed_create(executor, &managed, &tensor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_managed_create(executor, &managed, &other), DAO_OK);
    dao_managed_t *operands_of[] = {tensor, other, tensor}; /* each drives the other out to pinned memory */
    for (int i = 0; i < 3; i++) {
        dao_operand_t operand = {operands_of[i], DAO_ACCESS_WRITE};
        dao_kernel_t kernel = {
            .name = "k", .launch = see_address, .user = &seen, .operands = &operand, .operand_count = 1};
        CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    }
    void *arena = block_around(kinds[2], seen);
    expect_owner(kinds[2], seen, DAO_BLOCK_OWNER_ARENA);
    expect_not_freed(kinds[2], arena, "an executor's arena");
    dao_snapshot_t *snapshot = NULL;
    size_t count = 0, pool_count = 0;
    CU_ASSERT_EQUAL_FATAL(dao_snapshot_create(kinds[1], &snapshot), DAO_OK);
    const dao_snapshot_block_t *blocks = dao_snapshot_blocks(snapshot, &count);
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].state == DAO_BLOCK_STATE_LIVE) {
            pool_count++;
            expect_not_freed(kinds[1], (void *)(uintptr_t)blocks[i].address, "pool for copies");
        }
    }
    dao_snapshot_destroy(snapshot);
    CU_ASSERT_TRUE(pool_count > 0);
    static unsigned char bytes[600 * KIB];
    CU_ASSERT_EQUAL(dao_managed_read(tensor, bytes, sizeof(bytes)), DAO_OK);
    CU_ASSERT_EQUAL(bytes[999], 7);
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(other), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    stop();
}

static void a_lease_owns_what_it_retains_once_that_is_freed(void)
{
    start();
    dao_lease_t *lease = NULL;
    dao_memory_t *memory = NULL;
    void *raw = dao_alloc(kinds[2], 100000);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(kinds[2], 100000, NULL, &memory), DAO_OK);
    void *owned = dao_memory_address(memory);
    CU_ASSERT_EQUAL_FATAL(dao_lease_begin(kinds[2], &lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, raw), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, owned), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    expect_refused(dao_free(kinds[2], owned), "a memory handle");
    expect_owner(kinds[2], raw, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(dao_free(kinds[2], raw), DAO_OK);
    expect_owner(kinds[2], raw, DAO_BLOCK_OWNER_LEASE);
    CU_ASSERT_EQUAL(dao_free(kinds[2], raw), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK);
    CU_ASSERT_TRUE(dao_used(kinds[2]) >= 200000);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    stop();
}

static void owners_have_texts(void)
{
    CU_ASSERT_STRING_EQUAL(dao_block_owner_text(DAO_BLOCK_OWNER_RAW), "the program");
    CU_ASSERT_STRING_EQUAL(dao_block_owner_text(DAO_BLOCK_OWNER_HANDLE), "a memory handle");
    CU_ASSERT_STRING_EQUAL(dao_block_owner_text((dao_block_owner_t)99), "unknown");
}

/* ---- a wrong free beside the right one ---- */

#define RACE_COUNT TEST_ROUNDS(2000u)

typedef struct race {
    _Atomic(void *) address; /* of the handle that is being released; NULL: the race is over */
    dao_place_t place;
    uint64_t wrong_count; /* frees that were not refused */
} race_t;

static void *free_what_is_not_ours(void *user)
{
    race_t *race = user;
    void *address = NULL;
    while ((address = atomic_load(&race->address)) != NULL) {
        race->wrong_count += dao_free(race->place, address) == DAO_OK;
    }
    return NULL;
}

static void a_wrong_free_beside_the_right_one_changes_nothing(void)
{
    for (int i = 0; i < KIND_COUNT; i++) {
        start();
        race_t race = {.place = kinds[i]};
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_memory_create(kinds[i], 1000, NULL, &memory), DAO_OK);
        atomic_init(&race.address, dao_memory_address(memory));
        dao_thread_t thread;
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "owner", free_what_is_not_ours, &race), DAO_OK);
        for (uint32_t n = 0; n < RACE_COUNT; n++) {
            dao_memory_t *next = NULL;
            CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
            CU_ASSERT_EQUAL_FATAL(dao_memory_create(kinds[i], 1000, NULL, &next), DAO_OK);
            atomic_store(&race.address, dao_memory_address(next));
            memory = next;
        }
        atomic_store(&race.address, NULL);
        dao_thread_join(&thread);
        CU_ASSERT_EQUAL(race.wrong_count, 0);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
        stop();
    }
}

static CU_TestInfo tests[] = {
    {"handles own their blocks, whatever the config", handles_own_their_blocks_whatever_the_config},
    {"an executor owns its arena and its pinned memory", an_executor_owns_its_arena_and_its_pinned_memory},
    {"a lease owns what it retains once that is freed", a_lease_owns_what_it_retains_once_that_is_freed},
    {"owners have texts", owners_have_texts},
    {"a wrong free beside the right one changes nothing", a_wrong_free_beside_the_right_one_changes_nothing},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"owner", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
