/* SPDX-License-Identifier: Apache-2.0 */
/* How many calls of the driver all memory of a large device takes, on the loopback driver. */
#include "tests/loopback/loopback.h"
#include "tests/support/suite.h"

#include "runtime/start/context.h"

#include <dao/dao.h>

#include <string.h>

#define DEVICE_BYTES       (UINT64_C(139) * GIB) /* an H200's */
#define ARENA_BYTES        (UINT64_C(138) * GIB)
#define LARGE_PAGE_BYTES   (8 * MIB)
#define SMALL_DEVICE_BYTES (UINT64_C(64) * GIB)
#define SMALL_PAGE_BYTES   (2 * MIB)
#define CALLS_A_PAGE       4 /* created, mapped, destroyed; HIP: each is made reachable */
#define CALLS_A_RUN        2 /* of pages side by side: made reachable, and unmapped */
#define RUN_PAGES          512

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};

static void begin(uint64_t device_bytes)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = device_bytes}};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, loopback_ops()), DAO_OK);
}

static uint64_t reserved_bytes(void)
{
    dao_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_stats_get(device, &stats), DAO_OK);
    return stats.reserved_bytes;
}

/* The first byte takes one page, and gives it back. */
static void expect_page(uint64_t page_bytes)
{
    void *block = dao_alloc(device, 1);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(reserved_bytes(), page_bytes);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_OK);
}

static void an_arena_of_all_memory_takes_few_calls(void)
{
    begin(DEVICE_BYTES);
    expect_page(LARGE_PAGE_BYTES);
    uint64_t before = loopback_call_count();
    void *arena = dao_alloc(device, ARENA_BYTES);
    CU_ASSERT_PTR_NOT_NULL(arena);
    CU_ASSERT_TRUE(reserved_bytes() >= ARENA_BYTES);
    CU_ASSERT_EQUAL(dao_free(device, arena), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(reserved_bytes(), 0);
    uint64_t calls = loopback_call_count() - before;
    uint64_t page_count = ARENA_BYTES / LARGE_PAGE_BYTES;
    CU_ASSERT_TRUE(calls <= page_count * CALLS_A_PAGE + (page_count / RUN_PAGES + 1) * CALLS_A_RUN);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void what_takes_little_has_the_smallest_pages(void)
{
    begin(SMALL_DEVICE_BYTES);
    expect_page(SMALL_PAGE_BYTES);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    begin(SMALL_DEVICE_BYTES + SMALL_PAGE_BYTES);
    expect_page(2 * SMALL_PAGE_BYTES);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    begin(DEVICE_BYTES);
    dao_place_config_t config = {.limit_bytes = 3 * MIB};
    CU_ASSERT_EQUAL(dao_place_configure(device, &config), DAO_OK);
    expect_page(SMALL_PAGE_BYTES);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_limit_below_a_page_is_told(void)
{
    begin(DEVICE_BYTES);
    expect_page(LARGE_PAGE_BYTES);
    CU_ASSERT_EQUAL(dao_limit_set(device, LARGE_PAGE_BYTES - 1), DAO_OK);
    CU_ASSERT_PTR_NULL(dao_alloc(device, 1));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "it needs a limit of at least 8388608 bytes"));
    CU_ASSERT_EQUAL(dao_limit_set(device, LARGE_PAGE_BYTES), DAO_OK);
    expect_page(LARGE_PAGE_BYTES);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

int main(void)
{
    static CU_TestInfo tests[] = {
        {"an arena of all memory takes few calls", an_arena_of_all_memory_takes_few_calls},
        {"what takes little has the smallest pages", what_takes_little_has_the_smallest_pages},
        {"a limit below a page is told", a_limit_below_a_page_is_told},
        CU_TEST_INFO_NULL,
    };
    CU_SuiteInfo suites[] = {{"large devices", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
