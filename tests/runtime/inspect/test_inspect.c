/* SPDX-License-Identifier: Apache-2.0 */
/* Which block has a byte, figures under other tools' names, and the report of what was forgotten. */
#include <dao/dao.h>

#include "runtime/start/context.h"
#include "tests/support/blocks.h"
#include "tests/support/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t device_0 = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t device_9 = {DAO_PLACE_KIND_DEVICE, 9};

/* ---- helpers ---- */

static void begin(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 256 * MIB}};
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_query_finds_the_block_and_its_handles(void)
{
    char *block = take(device_0, 1000);
    dao_block_info_t info;
    CU_ASSERT_EQUAL(dao_block_query(device_0, block + 999, &info), DAO_OK);
    CU_ASSERT_PTR_EQUAL(info.address, block);
    CU_ASSERT_EQUAL(info.size_bytes, 1024);
    CU_ASSERT_EQUAL(info.requested_bytes, 1000);
    CU_ASSERT_EQUAL(info.offset_bytes, 999);
    CU_ASSERT_EQUAL(info.handle_count, 0);
    CU_ASSERT_PTR_NULL(info.handle_address);
    give(device_0, block);
    dao_memory_t *whole, *part;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device_0, 4096, NULL, &whole), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_memory_sub_range(whole, 1024, 512, &part), DAO_OK);
    char *address = dao_memory_address(whole);
    CU_ASSERT_EQUAL(dao_block_query(device_0, address + 1535, &info), DAO_OK);
    CU_ASSERT_EQUAL(info.handle_count, 2);
    CU_ASSERT_PTR_EQUAL(info.handle_address, address + 1024);
    CU_ASSERT_EQUAL(info.handle_bytes, 512);
    dao_memory_t *half; /* the latest one is not the smallest */
    CU_ASSERT_EQUAL_FATAL(dao_memory_sub_range(whole, 0, 2048, &half), DAO_OK);
    CU_ASSERT_EQUAL(dao_block_query(device_0, address + 1535, &info), DAO_OK);
    CU_ASSERT_EQUAL(info.handle_count, 3);
    CU_ASSERT_PTR_EQUAL(info.handle_address, address + 1024);
    CU_ASSERT_EQUAL(dao_memory_release(half), DAO_OK);
    CU_ASSERT_EQUAL(dao_block_query(device_0, address + 1536, &info), DAO_OK);
    CU_ASSERT_EQUAL(info.handle_count, 1);
    CU_ASSERT_PTR_EQUAL(info.handle_address, address);
    CU_ASSERT_EQUAL(dao_block_query(host, address, &info), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_memory_release(part), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(whole), DAO_OK);
}

static void a_query_that_finds_nothing_says_why(void)
{
    dao_block_info_t info = {.size_bytes = 77};
    int foreign = 0;
    CU_ASSERT_EQUAL(dao_block_query(host, &foreign, &info), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_block_query(device_0, &foreign, &info), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_block_query(device_9, &foreign, &info), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_block_query(host, NULL, &info), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_block_query(host, &foreign, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(info.size_bytes, 77);
}

typedef struct figure {
    const char *name;
    uint64_t value;
    uint32_t count; /* times it was seen */
} figure_t;

static figure_t figures[] = {{"allocated_bytes.all.current", 1 << 20, 0},
                             {"allocated_bytes.all.peak", (2 << 20) + 51200, 0},
                             {"active_bytes.all.current", 1 << 20, 0},
                             {"requested_bytes.all.current", (1 << 20) - 1, 0},
                             {"requested_bytes.all.peak", (2 << 20) + 51100, 0},
                             {"reserved_bytes.all.current", 4 << 20, 0},
                             {"reserved_bytes.all.peak", 4 << 20, 0},
                             {"inactive_split_bytes.all.current", 3 << 20, 0},
                             {"allocation.all.current", 1, 0},
                             {"allocation.all.allocated", 3, 0},
                             {"allocation.all.freed", 2, 0},
                             {"active.all.current", 1, 0},
                             {"segment.all.current", 1, 0},
                             {"inactive_split.all.current", 1, 0},
                             {"num_ooms", 1, 0},
                             {"num_device_alloc", 2, 0},
                             {"num_device_free", 0, 0}};

static void see_figure(const char *name, uint64_t value, void *user)
{
    uint32_t *unknown_count = user;
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        if (strcmp(figures[i].name, name) == 0) {
            figures[i].count++;
            CU_ASSERT_EQUAL(value, figures[i].value);
            if (value != figures[i].value) {
                (void)printf("    %s is %" PRIu64 ", not %" PRIu64 "\n", name, value, figures[i].value);
            }
            return;
        }
    }
    (*unknown_count)++;
}

static void figures_have_pytorchs_names(void)
{
    uint32_t unknown_count = 0;
    void *low = take(device_0, 1 * MIB - 1), *small = take(device_0, 51101), *high = take(device_0, 1 * MIB);
    give(device_0, small);
    give(device_0, high);
    CU_ASSERT_PTR_NULL(dao_alloc(device_0, 1 * GIB));
    CU_ASSERT_EQUAL(dao_stats_tree_walk(device_0, see_figure, &unknown_count), DAO_OK);
    CU_ASSERT_EQUAL(unknown_count, 0);
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        CU_ASSERT_EQUAL(figures[i].count, 1);
    }
    give(device_0, low);
    CU_ASSERT_EQUAL(dao_stats_tree_walk(device_0, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stats_tree_walk(device_9, see_figure, &unknown_count), DAO_ERR_NO_DEVICE);
}

/* ---- the report of what was forgotten ---- */

#define LINE_COUNT_MAX 16
#define LINE_BYTES     200

typedef struct lines {
    char texts[LINE_COUNT_MAX][LINE_BYTES];
    uint32_t count;
} lines_t;

static void keep_line(dao_log_level_t level, const char *message, void *user)
{
    lines_t *lines = user;
    if (level == DAO_LOG_LEVEL_WARNING && lines->count < LINE_COUNT_MAX) {
        (void)snprintf(lines->texts[lines->count++], LINE_BYTES, "%s", message);
    }
}

static uint32_t lines_with(const lines_t *lines, const char *text)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < lines->count; i++) {
        count += strstr(lines->texts[i], text) != NULL;
    }
    return count;
}

static void leaks_are_listed_and_summed_up_by_tag(void)
{
    uint32_t first_tag, second_tag;
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("weights", &first_tag), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("gradients", &second_tag), DAO_OK);
    const dao_block_request_t requests[] = {{.size_bytes = 1000, .tag = first_tag},
                                            {.size_bytes = 2000, .tag = first_tag},
                                            {.size_bytes = 3000, .tag = second_tag},
                                            {.size_bytes = 100}};
    static lines_t lines;
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    dao_config_t config = {.cpu = {.device_count = 1},
                           .log_callback = keep_line,
                           .log_user = &lines,
                           .log_level = DAO_LOG_LEVEL_WARNING};
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    dao_runtime_t *runtime;
    CU_ASSERT_EQUAL_FATAL(dao_runtime_acquire(0, &runtime), DAO_OK);
    dao_allocator_t *allocator = dao_runtime_allocator(runtime, DAO_PLACE_KIND_DEVICE);
    for (size_t i = 0; i < 4; i++) {
        dao_block_grant_t grant;
        CU_ASSERT_EQUAL(allocator->ops->alloc(allocator, &requests[i], &grant), DAO_OK);
    }
    dao_runtime_release(runtime);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(lines.count, 6);
    CU_ASSERT_EQUAL(lines_with(&lines, "block of 1024 bytes (1000 asked for) at device:0"), 1);
    CU_ASSERT_EQUAL(lines_with(&lines, ", tag \"weights\""), 2);
    CU_ASSERT_EQUAL(lines_with(&lines, ", tag \"gradients\""), 1);
    CU_ASSERT_EQUAL(lines_with(&lines, "tag \"weights\" at device:0: 2 blocks, 3072 bytes"), 1);
    CU_ASSERT_EQUAL(lines_with(&lines, "tag \"gradients\" at device:0: 1 blocks, 3072 bytes"), 1);
    begin();
}

static CU_TestInfo inspect_tests[] = {
    {"a query finds the block and its handles", a_query_finds_the_block_and_its_handles},
    {"a query that finds nothing says why", a_query_that_finds_nothing_says_why},
    {"figures have PyTorch's names", figures_have_pytorchs_names},
    {"leaks are listed and summed up by tag", leaks_are_listed_and_summed_up_by_tag},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"inspect", NULL, NULL, begin, end, inspect_tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
