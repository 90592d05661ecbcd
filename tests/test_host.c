/* Host memory: the contract, and what is its own. */
#include "allocators/host.h"
#include "base/fault.h"
#include "tests/contract/allocator_contract.h"

#include <string.h>

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
    .alignment_bytes = 64,
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

static void small_blocks_go_back_to_the_system_at_once(void)
{
    dao_allocator_t *allocator = NULL;
    CU_ASSERT_EQUAL_FATAL(host_create(&allocator), DAO_OK);
    void *address = NULL;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, DAO_HOST_SMALL_BYTES, &address), DAO_OK);
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.reserved_bytes, DAO_HOST_SMALL_BYTES);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.reserved_bytes, 0);
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
    CU_ASSERT_EQUAL(stats.grow_count, 1);
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

#if defined(DAO_FAULTS)
static void a_cached_region_gives_way_to_a_small_block(void)
{
    dao_allocator_t *allocator = NULL;
    CU_ASSERT_EQUAL_FATAL(host_create(&allocator), DAO_OK);
    void *address = NULL;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 1 * MIB, &address), DAO_OK);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, false);
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 100, &address), DAO_OK);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.shrink_count, 1);
    CU_ASSERT_EQUAL(stats.failed_count, 0);
    host_destroy(allocator);
}
#endif

static CU_TestInfo tests[] = {
    {"a config sets the regions and the limit", a_config_sets_the_regions_and_the_limit},
    {"memory of every size can be written", memory_of_every_size_can_be_written},
    {"small blocks go back to the system at once", small_blocks_go_back_to_the_system_at_once},
    {"large blocks share a region", large_blocks_share_a_region},
#if defined(DAO_FAULTS)
    {"a cached region gives way to a small block", a_cached_region_gives_way_to_a_small_block},
#endif
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
