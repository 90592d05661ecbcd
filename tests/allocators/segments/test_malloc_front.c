/* SPDX-License-Identifier: Apache-2.0 */
/* Small host blocks behind a table of their addresses. */
#include "allocators/segments/malloc_front.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"

#include <string.h>

static dao_ledger_t ledger;
static dao_malloc_front_t front;

static void begin(void)
{
    CU_ASSERT_EQUAL_FATAL(dao_ledger_init(&ledger, "test"), DAO_OK);
    dao_malloc_front_init(&front, &ledger);
}

static bool is_valid(void)
{
    dao_recount_t recount = {0};
    return dao_malloc_front_is_valid(&front, &recount) && dao_ledger_matches(&ledger, &recount);
}

static void end(void)
{
    CU_ASSERT_TRUE(is_valid());
    dao_malloc_front_finish(&front);
    dao_ledger_finish(&ledger);
}

static char *take(size_t size_bytes)
{
    void *address = NULL;
    dao_block_request_t request = {.size_bytes = size_bytes};
    CU_ASSERT_EQUAL_FATAL(dao_malloc_front_alloc(&front, &request, &address), DAO_OK);
    memset(address, 0x5a, size_bytes); /* it is memory */
    return address;
}

static void blocks_are_rounded_aligned_and_counted(void)
{
    char *address = take(65);
    CU_ASSERT_EQUAL((uintptr_t)address % DAO_MALLOC_FRONT_ALIGNMENT_BYTES, 0);
    CU_ASSERT_EQUAL(ledger.stats.requested_bytes, 65);
    CU_ASSERT_EQUAL(ledger.stats.used_bytes, dao_malloc_front_block_bytes(65));
    CU_ASSERT_EQUAL(ledger.stats.reserved_bytes, ledger.stats.used_bytes);
    CU_ASSERT_EQUAL(dao_malloc_front_free(&front, address, DAO_BLOCK_OWNER_RAW), DAO_OK);
    CU_ASSERT_EQUAL(ledger.stats.reserved_bytes, 0);
}

static void a_wrong_free_is_known_without_a_touch(void)
{
    CU_ASSERT_EQUAL(dao_malloc_front_free(&front, &front, DAO_BLOCK_OWNER_RAW),
                    DAO_ERR_FOREIGN_POINTER); /* no table yet */
    char *address = take(100);
    CU_ASSERT_EQUAL(dao_malloc_front_free(&front, address + 64, DAO_BLOCK_OWNER_RAW),
                    DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_malloc_front_free(&front, address, DAO_BLOCK_OWNER_RAW), DAO_OK);
    CU_ASSERT_EQUAL(dao_malloc_front_free(&front, address, DAO_BLOCK_OWNER_RAW), DAO_ERR_FOREIGN_POINTER);
}

static void a_block_is_found_from_within(void)
{
    dao_block_t block;
    char *address = take(100);
    CU_ASSERT_EQUAL(dao_malloc_front_query(&front, address + 99, &block), DAO_OK);
    CU_ASSERT_PTR_EQUAL(block.address, address);
    CU_ASSERT_EQUAL(block.requested_bytes, 100);
    CU_ASSERT_EQUAL(dao_malloc_front_query(&front, address + 128, &block), DAO_ERR_FOREIGN_POINTER);
}

static void count_block(const dao_block_t *block, void *user)
{
    size_t *bytes = user;
    *bytes += block->requested_bytes;
    CU_ASSERT_TRUE(block->begins_segment);
}

static void many_blocks_are_all_seen(void)
{
    char *addresses[300];
    size_t bytes = 0, seen_bytes = 0;
    for (size_t i = 0; i < 300; i++) {
        addresses[i] = take(i + 1);
        bytes += i + 1;
    }
    CU_ASSERT_TRUE(is_valid());
    dao_malloc_front_walk(&front, count_block, &seen_bytes);
    CU_ASSERT_EQUAL(seen_bytes, bytes);
    for (size_t i = 0; i < 300; i += 2) {
        CU_ASSERT_EQUAL(dao_malloc_front_free(&front, addresses[i], DAO_BLOCK_OWNER_RAW), DAO_OK);
    }
    CU_ASSERT_EQUAL(ledger.stats.live_count, 150);
}

#if defined(DAO_FAULTS)
static void without_memory_nothing_is_counted(void)
{
    for (uint64_t n = 0; n < 2; n++) { /* the table, then the block */
        void *address = NULL;
        dao_block_request_t request = {.size_bytes = 10};
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        CU_ASSERT_EQUAL(dao_malloc_front_alloc(&front, &request, &address), DAO_ERR_NO_HOST_MEMORY);
        CU_ASSERT_TRUE(dao_fault_disarm() > 0);
        CU_ASSERT_EQUAL(ledger.stats.reserved_bytes, 0);
        CU_ASSERT_TRUE(is_valid());
        dao_malloc_front_finish(&front); /* the table may be there */
        dao_malloc_front_init(&front, &ledger);
    }
}
#endif

static CU_TestInfo tests[] = {
    {"blocks are rounded, aligned and counted", blocks_are_rounded_aligned_and_counted},
    {"a wrong free is known without a touch", a_wrong_free_is_known_without_a_touch},
    {"a block is found from within", a_block_is_found_from_within},
    {"many blocks are all seen", many_blocks_are_all_seen},
#if defined(DAO_FAULTS)
    {"without memory nothing is counted", without_memory_nothing_is_counted},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"malloc front", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
