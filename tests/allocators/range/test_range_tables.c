/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a range: how large they become, and that they shrink. */
#define _DEFAULT_SOURCE
#include "allocators/range/range_internal.h"
#include "tests/support/suite.h"

#include <sys/mman.h>
#include <unistd.h>

static dao_status_t alloc_in(dao_range_t *packed, uint64_t *out_offset_bytes)
{
    dao_range_request_t request = {.size_bytes = 64 * KIB};
    dao_range_grant_t grant = {0};
    dao_status_t status = dao_range_alloc(packed, &request, &grant);
    *out_offset_bytes = grant.offset_bytes;
    return status;
}

static dao_status_t free_in(dao_range_t *packed, uint64_t offset_bytes)
{
    dao_range_block_t block;
    return dao_range_free(packed, offset_bytes, NULL, &block);
}

/* Takes so many blocks of 64 KiB in a row from `packed`. */
static void fill_packed(dao_range_t *packed, uint64_t count, uint64_t *offsets)
{
    uint64_t wrong_count = 0;
    for (uint64_t i = 0; i < count; i++) {
        wrong_count += alloc_in(packed, &offsets[i]) != DAO_OK;
    }
    CU_ASSERT_EQUAL(wrong_count, 0);
}

#if defined(DAO_HEAVY_ASSERTS) /* which look at all blocks in each call */
#define PACKED_COUNT 4000u
#else
#define PACKED_COUNT 100000u
#endif

static uint64_t table_bytes(const dao_range_t *range)
{
    return (uint64_t)range->table_room * sizeof(dao_range_node_t);
}

/* A node has 32 bytes, and at most an eighth of them is unused. */
static void tables_are_as_large_as_the_blocks_need(void)
{
    enum { COUNT = PACKED_COUNT, KEPT = 100, MOST = 38 };
    static uint64_t offsets[COUNT];
    uint64_t far_bytes = (uint64_t)8 << 30; /* behind a hole whose starts are given back */
    dao_range_config_t config = {.capacity_bytes = far_bytes + (uint64_t)COUNT * 64 * KIB};
    dao_range_t *packed = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_range_create(&config, &packed), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_alloc_at(packed, far_bytes, 64 * KIB, 0), DAO_OK);
    for (int round = 0; round < 2; round++) {
        fill_packed(packed, COUNT, offsets);
        uint64_t full_bytes = table_bytes(packed);
        CU_ASSERT_TRUE(full_bytes <= (uint64_t)MOST * COUNT);
        dao_range_shrink(packed);
        CU_ASSERT_EQUAL(table_bytes(packed), full_bytes);
        if (round == 1) {
            dao_range_announce(packed, 3); /* its bins lie behind all blocks, and stay there */
        }
        for (uint64_t i = KEPT; i < COUNT; i++) {
            CU_ASSERT_EQUAL(free_in(packed, offsets[i]), DAO_OK);
        }
        dao_range_shrink(packed);
        CU_ASSERT_TRUE(round == 1 || table_bytes(packed) < full_bytes * 2 / 3);
        CU_ASSERT_TRUE(dao_range_is_valid(packed));
        for (uint64_t i = 0; i < KEPT; i++) {
            CU_ASSERT_EQUAL(free_in(packed, offsets[i]), DAO_OK);
        }
    }
    CU_ASSERT_EQUAL(free_in(packed, far_bytes), DAO_OK);
    CU_ASSERT_TRUE(dao_range_is_valid(packed));
    dao_range_destroy(packed);
}

static size_t resident_bytes(const void *table, size_t size_bytes)
{
    static unsigned char pages[128];
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), sum_bytes = 0;
    CU_ASSERT_TRUE_FATAL(size_bytes <= sizeof(pages) * page_bytes);
    CU_ASSERT_EQUAL(mincore((void *)(uintptr_t)table, size_bytes, pages), 0);
    for (size_t i = 0; i < size_bytes / page_bytes; i++) {
        sum_bytes += (pages[i] & 1u) * page_bytes;
    }
    return sum_bytes;
}

/* 4 KiB of starts are of 64 MiB: a block in each has all of them in memory, until only two blocks are left.
 */
static void starts_in_holes_take_no_memory(void)
{
    enum { COUNT = 128, APART_BYTES = 64 << 20 };
    dao_range_t *range = NULL;
    dao_range_config_t config = {.capacity_bytes = (uint64_t)COUNT * APART_BYTES};
    CU_ASSERT_EQUAL_FATAL(dao_range_create(&config, &range), DAO_OK);
    for (uint64_t i = 0; i < COUNT; i++) {
        CU_ASSERT_EQUAL(dao_range_alloc_at(range, i * APART_BYTES, 64 * KIB, 0), DAO_OK);
    }
    size_t starts_bytes = COUNT * 4 * KIB;
    CU_ASSERT_EQUAL(resident_bytes(range->starts, starts_bytes), starts_bytes);
    for (uint64_t i = 1; i + 1 < COUNT; i++) {
        CU_ASSERT_EQUAL(free_in(range, i * APART_BYTES), DAO_OK);
    }
    dao_range_shrink(range);
    CU_ASSERT_TRUE(resident_bytes(range->starts, starts_bytes) <= starts_bytes / 4); /* by 64 KiB */
    CU_ASSERT_EQUAL(free_in(range, 0), DAO_OK);
    CU_ASSERT_EQUAL(free_in(range, (uint64_t)(COUNT - 1) * APART_BYTES), DAO_OK);
    dao_range_destroy(range);
}

static CU_TestInfo tests[] = {
    {"tables are as large as the blocks need", tables_are_as_large_as_the_blocks_need},
    {"starts in holes take no memory", starts_in_holes_take_no_memory},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"range tables", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
