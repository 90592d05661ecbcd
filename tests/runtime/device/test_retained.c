/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that leases retain: when their frees are retired, and when they are due. */
#include "allocators/slow_path.h"
#include "base/numbers/random.h"
#include "runtime/device/retained.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <string.h>

static dao_retained_t retained;

static void begin(void)
{
    dao_retained_init(&retained, 3);
}

static void end(void)
{
    dao_retained_finish(&retained);
}

static void *at(uintptr_t address)
{
    return (void *)address;
}

static void retain(uintptr_t address)
{
    dao_mutex_lock(&retained.lock);
    CU_ASSERT_EQUAL_FATAL(dao_retained_reserve(&retained), DAO_OK);
    dao_retained_add(&retained, at(address), 256, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_TRUE(dao_retained_is_valid(&retained));
    dao_mutex_unlock(&retained.lock);
}

/* Drops one lease's retention; returns true if the block is due to be freed. */
static bool drop(uintptr_t address, dao_retained_block_t *out_block)
{
    dao_mutex_lock(&retained.lock);
    bool is_due = dao_retained_drop(&retained, at(address), out_block);
    CU_ASSERT_TRUE(dao_retained_is_valid(&retained));
    dao_mutex_unlock(&retained.lock);
    return is_due;
}

static void drop_end(const dao_retained_block_t *back)
{
    dao_mutex_lock(&retained.lock);
    dao_retained_drop_end(&retained, back);
    CU_ASSERT_TRUE(dao_retained_is_valid(&retained));
    dao_mutex_unlock(&retained.lock);
}

static bool retires(uintptr_t address, dao_status_t *out_status)
{
    return dao_retained_retires(&retained, DAO_PLACE_KIND_DEVICE, at(address), NULL, DAO_BLOCK_OWNER_RAW,
                                out_status);
}

static void a_free_is_retired_until_the_last_lease_drops_it(void)
{
    dao_status_t status = DAO_ERR_INVALID;
    dao_retained_block_t block;
    CU_ASSERT_FALSE(retires(0x1000, &status));
    retain(0x1000);
    retain(0x1000);
    CU_ASSERT_FALSE(dao_slow_path_is_needed()); /* only frees at that device look */
    CU_ASSERT_FALSE(retires(0x2000, &status));  /* another block */
    CU_ASSERT_TRUE(retires(0x1000, &status));
    CU_ASSERT_EQUAL(status, DAO_OK);
    CU_ASSERT_TRUE(retires(0x1000, &status));
    CU_ASSERT_EQUAL(status, DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:3: ")); /* the place is named */
    CU_ASSERT_FALSE(drop(0x1000, &block));
    CU_ASSERT_TRUE(drop(0x1000, &block));
    CU_ASSERT_PTR_EQUAL(block.address, at(0x1000));
    drop_end(NULL);
    CU_ASSERT_FALSE(dao_retained_any(&retained));
    CU_ASSERT_FALSE(dao_slow_path_is_needed());
}

static void a_block_that_is_in_use_is_not_due(void)
{
    dao_status_t status;
    dao_retained_block_t block;
    retain(0x1000);
    CU_ASSERT_FALSE(drop(0x1000, &block));
    CU_ASSERT_FALSE(retires(0x1000, &status)); /* its owner frees it as any other */
}

static void memory_of_other_kinds_is_not_retained(void)
{
    dao_status_t status;
    dao_retained_block_t block;
    retain(0x1000);
    CU_ASSERT_FALSE(dao_retained_retires(&retained, DAO_PLACE_KIND_PINNED, at(0x1000), NULL,
                                         DAO_BLOCK_OWNER_RAW, &status));
    CU_ASSERT_FALSE(drop(0x1000, &block));
}

static void a_block_that_could_not_be_freed_comes_back(void)
{
    dao_status_t status;
    dao_retained_block_t block;
    retain(0x1000);
    CU_ASSERT_TRUE(retires(0x1000, &status));
    CU_ASSERT_TRUE(drop(0x1000, &block));
    drop_end(&block);
    CU_ASSERT_TRUE(retires(0x1000, &status));
    CU_ASSERT_EQUAL(status, DAO_ERR_DOUBLE_FREE); /* as before the drop */
    CU_ASSERT_TRUE(drop(0x1000, &block));
    drop_end(NULL);
}

/* ---- a model ---- */

#define BLOCK_COUNT 200u
#define STEP_COUNT  5000u

static void many_blocks_are_found_as_a_model_says(void)
{
    static uint32_t lease_counts[BLOCK_COUNT];
    uint64_t random = 7;
    dao_retained_block_t block;
    for (uint32_t step = 0; step < STEP_COUNT; step++) {
        size_t i = (size_t)dao_random_below(&random, BLOCK_COUNT);
        uintptr_t address = 0x10000 + i * 0x100;
        if (dao_random_below(&random, 2) == 0) {
            retain(address);
            lease_counts[i]++;
        } else if (lease_counts[i] > 0) {
            CU_ASSERT_FALSE(drop(address, &block));
            lease_counts[i]--;
        }
        dao_mutex_lock(&retained.lock);
        const dao_retained_block_t *found = dao_retained_find(&retained, at(address));
        CU_ASSERT_EQUAL(found != NULL, lease_counts[i] > 0);
        CU_ASSERT_TRUE(found == NULL || found->lease_count == lease_counts[i]);
        dao_mutex_unlock(&retained.lock);
    }
    for (size_t i = 0; i < BLOCK_COUNT; i++) {
        for (; lease_counts[i] > 0; lease_counts[i]--) {
            CU_ASSERT_FALSE(drop(0x10000 + i * 0x100, &block));
        }
    }
}

static CU_TestInfo tests[] = {
    {"a free is retired until the last lease drops it", a_free_is_retired_until_the_last_lease_drops_it},
    {"a block that is in use is not due", a_block_that_is_in_use_is_not_due},
    {"memory of other kinds is not retained", memory_of_other_kinds_is_not_retained},
    {"a block that could not be freed comes back", a_block_that_could_not_be_freed_comes_back},
    {"many blocks are found as a model says", many_blocks_are_found_as_a_model_says},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"retained", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
