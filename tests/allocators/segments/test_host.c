/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory: the contract, and what is its own. */
#define _GNU_SOURCE
#include "allocators/segments/host.h"
#include "base/log.h"
#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "tests/contract/allocator_contract.h"
#include "tests/support/sanitizer.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static dao_status_t host_create(dao_allocator_t **out_allocator)
{
    dao_host_config_t config = {.name = "cpu"};
    return dao_host_allocator_create(&config, out_allocator);
}

static void host_destroy(dao_allocator_t *allocator)
{
    allocator->ops->destroy(allocator);
}

static const allocator_contract_t host_contract = {
    .create = host_create,
    .destroy = host_destroy,
    .alignment_bytes = 256,
};

static void memory_of_every_size_can_be_written(void)
{
    dao_allocator_t *allocator = NULL;
    CU_ASSERT_EQUAL_FATAL(host_create(&allocator), DAO_OK);
    for (size_t size_bytes = 1; size_bytes <= 4 * MIB; size_bytes *= 4) {
        void *address = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(allocator, size_bytes, &address), DAO_OK);
        memset(address, 0xa5, size_bytes);
    }
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    host_destroy(allocator);
}

static void large_blocks_share_a_region(void)
{
    dao_allocator_t *allocator = NULL;
    CU_ASSERT_EQUAL_FATAL(host_create(&allocator), DAO_OK);
    for (size_t i = 0; i < 64; i++) {
        void *address = NULL;
        CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 1 * MIB, &address), DAO_OK);
    }
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.grow_count, 5); /* 4, 4, 8, 16 and 32 MiB */
    CU_ASSERT_EQUAL(stats.reserved_bytes, DAO_HOST_REGION_BYTES);
    host_destroy(allocator);
}

static void a_config_sets_the_regions_and_the_limit(void)
{
    dao_allocator_t *allocator = NULL;
    dao_host_config_t config = {
        .name = "cpu", .segment_bytes = 6 * MIB, .initial_bytes = 10 * MIB, .limit_bytes = 20 * MIB};
    CU_ASSERT_EQUAL_FATAL(dao_host_allocator_create(&config, &allocator), DAO_OK);
    void *address = NULL;
    dao_stats_t stats;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 10 * MIB, &address), DAO_OK);
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.reserved_bytes, 10 * MIB);
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 1 * MIB, &address), DAO_OK);
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.reserved_bytes, 16 * MIB);
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 10 * MIB, &address), DAO_ERR_LIMIT);
    host_destroy(allocator);
    config.initial_bytes = 21 * MIB;
    CU_ASSERT_EQUAL(dao_host_allocator_create(&config, &allocator), DAO_ERR_LIMIT);
}

/* ---- where regions lie ---- */

static size_t warned_count;
static char warned_line[256];

static void keep_warning(dao_log_level_t level, const char *message, void *user)
{
    (void)user;
    CU_ASSERT_EQUAL(level, DAO_LOG_LEVEL_WARNING);
    DAO_ASSERT_UNLOCKED();
    warned_count++;
    (void)snprintf(warned_line, sizeof(warned_line), "%s", message);
}

/* Makes an allocator with settings and takes two regions of it, which can be written. */
static dao_allocator_t *regions_with(const dao_host_memory_config_t *settings, char *out_regions[2])
{
    dao_allocator_t *allocator = NULL;
    dao_host_config_t config = {.name = "cpu", .settings = *settings, .segment_bytes = 4 * MIB};
    warned_count = 0;
    dao_log_set(keep_warning, NULL, DAO_LOG_LEVEL_WARNING);
    CU_ASSERT_EQUAL_FATAL(dao_host_allocator_create(&config, &allocator), DAO_OK);
    for (size_t i = 0; i < 2; i++) {
        void *address = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(allocator, 4 * MIB, &address), DAO_OK);
        out_regions[i] = address;
        out_regions[i][0] = 1;
        out_regions[i][4 * MIB - 1] = 1;
    }
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    return allocator;
}

static void finish_regions(dao_allocator_t *allocator)
{
    host_destroy(allocator);
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_ERROR);
}

#define MODE_OF_ADDRESS 2 /* flags of get_mempolicy */

static void regions_lie_where_the_settings_say(void)
{
    static const struct {
        dao_numa_t numa;
        int mode; /* of linux/mempolicy.h */
    } cases[] = {{DAO_NUMA_LOCAL, 4}, {DAO_NUMA_INTERLEAVE, 3}, {DAO_NUMA_NODE, 1}};
    for (size_t i = 0; i < 3; i++) {
        char *regions[2];
        dao_host_memory_config_t settings = {.numa = cases[i].numa};
        dao_allocator_t *allocator = regions_with(&settings, regions);
        int mode = -1;
        unsigned long nodes[32] = {0};
        bool can_ask = syscall(SYS_get_mempolicy, &mode, nodes, 1024, regions[1], MODE_OF_ADDRESS) == 0;
        if (warned_count == 0 && can_ask) {
            CU_ASSERT_EQUAL(mode, cases[i].mode);
            CU_ASSERT_TRUE(cases[i].numa != DAO_NUMA_NODE || nodes[0] == 1);
        } else { /* a container that may not choose: it has said so, once */
            CU_ASSERT_EQUAL(warned_count, 1);
        }
        finish_regions(allocator);
    }
}

static void what_the_system_refuses_is_a_warning(void)
{
    char *regions[2];
    dao_host_memory_config_t settings = {.numa = DAO_NUMA_NODE, .numa_node = DAO_NUMA_NODE_MAX - 1};
    dao_allocator_t *allocator = regions_with(&settings, regions); /* no machine has that node */
    CU_ASSERT_EQUAL(warned_count, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(warned_line, "cpu: the system refuses to choose the NUMA node"));
    finish_regions(allocator);
}

/* Where none are set apart there is a warning and the memory is there; where some are, there is none. */
static void explicit_huge_pages_are_used_or_missed(void)
{
    char *regions[2];
    dao_host_memory_config_t settings = {.huge_pages = DAO_HUGE_PAGES_EXPLICIT};
    dao_allocator_t *allocator = regions_with(&settings, regions);
    CU_ASSERT_TRUE(warned_count <= 1);
    CU_ASSERT_TRUE(warned_count == 0 || strstr(warned_line, "huge pages") != NULL);
    size_t released_bytes = 0;
    for (size_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, regions[i]), DAO_OK);
    }
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(released_bytes, 8 * MIB);
    finish_regions(allocator);
}

/* Returns how many bytes of a region are there. */
static size_t resident_bytes(char *region, size_t size_bytes)
{
    static unsigned char pages[1024];
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), count = 0;
    CU_ASSERT_TRUE_FATAL(size_bytes / page_bytes <= sizeof(pages));
    CU_ASSERT_EQUAL(mincore(region, size_bytes, pages), 0);
    for (size_t i = 0; i < size_bytes / page_bytes; i++) {
        count += pages[i] & 1;
    }
    return count * page_bytes;
}

static void prefaulted_regions_are_there_at_once(void)
{
    for (size_t i = 0; i < 2; i++) {
        char *regions[2];
        dao_host_memory_config_t settings = {.huge_pages = DAO_HUGE_PAGES_NEVER, .prefault = i == 1};
        dao_allocator_t *allocator = regions_with(&settings, regions);
        size_t there_bytes = resident_bytes(regions[0], 4 * MIB);
        CU_ASSERT_EQUAL(there_bytes, i == 1 ? 4 * MIB : 2 * (size_t)sysconf(_SC_PAGESIZE));
        CU_ASSERT_EQUAL(warned_count, 0);
        finish_regions(allocator);
    }
}

/* Regions of 4 MiB; the lower half of the first is freed, while other memory comes and goes. */
static void idle_pages_go_back_and_others_stay(void)
{
    dao_allocator_t *allocator = NULL;
    dao_host_config_t config = {
        .name = "cpu", .settings = {.huge_pages = DAO_HUGE_PAGES_NEVER}, .segment_bytes = 4 * MIB};
    CU_ASSERT_EQUAL_FATAL(dao_host_allocator_create(&config, &allocator), DAO_OK);
    void *blocks[3];
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(allocator, i == 1 ? 2 * MIB : 1 * MIB, &blocks[i]), DAO_OK);
        memset(blocks[i], 1, i == 1 ? 2 * MIB : 1 * MIB);
    }
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, blocks[1]), DAO_OK);
    CU_ASSERT_EQUAL(resident_bytes(blocks[1], 2 * MIB), 2 * MIB);
    for (size_t i = 0; i < 40; i++) { /* half of the hole is used again and again */
        CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(allocator, 1 * MIB, &blocks[0]), DAO_OK);
        memset(blocks[0], 1, 1 * MIB);
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, blocks[0]), DAO_OK);
        CU_ASSERT_TRUE(i < 20 || resident_bytes(blocks[0], 1 * MIB) == 1 * MIB);
    }
    CU_ASSERT_EQUAL(resident_bytes((char *)blocks[1] + 1 * MIB, 1 * MIB), 0);
    CU_ASSERT_EQUAL(*(char *)blocks[2], 1); /* what lives is as it was */
    CU_ASSERT_EQUAL(((char *)blocks[2])[1 * MIB - 1], 1);
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 2 * MIB, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(resident_bytes(blocks[1], 1 * MIB), 1 * MIB); /* all that is idle may stay */
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 1 * MIB, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(resident_bytes(blocks[1], 2 * MIB), 0);
    CU_ASSERT_EQUAL(released_bytes, 0); /* no region has ended */
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    host_destroy(allocator);
}

static CU_TestInfo tests[] = {
    {"idle pages go back and others stay", idle_pages_go_back_and_others_stay},
    {"regions lie where the settings say", regions_lie_where_the_settings_say},
    {"what the system refuses is a warning", what_the_system_refuses_is_a_warning},
    {"explicit huge pages are used or missed", explicit_huge_pages_are_used_or_missed},
    {"prefaulted regions are there at once", prefaulted_regions_are_there_at_once},
    {"a config sets the regions and the limit", a_config_sets_the_regions_and_the_limit},
    {"memory of every size can be written", memory_of_every_size_can_be_written},
    {"large blocks share a region", large_blocks_share_a_region},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    allocator_contract_set(&host_contract);
    CU_SuiteInfo suites[] = {{"host, contract", NULL, NULL, allocator_contract_begin, allocator_contract_end,
                              allocator_contract_tests},
                             {"host", NULL, NULL, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
