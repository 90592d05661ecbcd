/* SPDX-License-Identifier: Apache-2.0 */
/* How many calls of the driver all memory of a large device takes, on the loopback driver. */
#include "tests/loopback/loopback.h"
#include "tests/support/suite.h"

#include "runtime/start/context.h"

#include <dao/dao.h>

#define DEVICE_BYTES       (UINT64_C(139) * GIB) /* an H200's */
#define ARENA_BYTES        (UINT64_C(138) * GIB)
#define SMALL_DEVICE_BYTES (64 * MIB)
#define PAGES_MOST         (UINT64_C(1) << 14)
#define CALLS_A_PAGE       4 /* created, mapped, unmapped, destroyed */
#define CALLS_A_RUN        2 /* of 512 pages: access, and its end */

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};

static void begin(size_t device_bytes)
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

static void an_arena_of_all_memory_takes_few_calls(void)
{
    begin(DEVICE_BYTES);
    CU_ASSERT_EQUAL(dao_free(device, dao_alloc(device, 1)), DAO_OK); /* the device starts */
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_OK);
    uint64_t before = loopback_call_count();
    void *arena = dao_alloc(device, ARENA_BYTES);
    CU_ASSERT_PTR_NOT_NULL(arena);
    CU_ASSERT_TRUE(reserved_bytes() >= ARENA_BYTES);
    CU_ASSERT_EQUAL(dao_free(device, arena), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(reserved_bytes(), 0);
    uint64_t calls = loopback_call_count() - before;
    CU_ASSERT_TRUE(calls <= PAGES_MOST * CALLS_A_PAGE + PAGES_MOST / 512 * CALLS_A_RUN);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void small_devices_have_the_smallest_pages(void)
{
    begin(SMALL_DEVICE_BYTES);
    dao_device_info_t info = {0};
    CU_ASSERT_EQUAL(dao_device_query(0, &info), DAO_OK);
    void *block = dao_alloc(device, info.page_bytes);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(reserved_bytes(), info.page_bytes);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

int main(void)
{
    static CU_TestInfo tests[] = {
        {"an arena of all memory takes few calls", an_arena_of_all_memory_takes_few_calls},
        {"small devices have the smallest pages", small_devices_have_the_smallest_pages},
        CU_TEST_INFO_NULL,
    };
    CU_SuiteInfo suites[] = {{"large devices", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
