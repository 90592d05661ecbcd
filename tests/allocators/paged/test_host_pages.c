/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory in pages: the contract, the budget of all host memory, windows whose idle pages others have. */
#include "allocators/paged/host_pages.h"
#include "base/report/fault.h"
#include "tests/contract/allocator_contract.h"

#include <string.h>

enum { WINDOW_BYTES = 8 * MIB, PAGE_BYTES = 2 * MIB };

static const dao_host_memory_config_t settings;
static dao_budget_t budget;
static dao_host_pages_t pages;

static dao_status_t create_in(size_t page_bytes, dao_allocator_t **out_allocator)
{
    pages = (dao_host_pages_t){.settings = &settings, .budget = &budget};
    dao_host_pages_config_t config = {.pages = &pages, .name = "cpu", .page_bytes = page_bytes};
    return dao_host_pages_create(&config, out_allocator);
}

static dao_status_t create(dao_allocator_t **out_allocator)
{
    return create_in(0, out_allocator);
}

static void destroy(dao_allocator_t *allocator)
{
    allocator->ops->destroy(allocator);
    CU_ASSERT_EQUAL(atomic_load(&budget.used_bytes), 0);
}

static const allocator_contract_t contract = {.create = create, .destroy = destroy, .alignment_bytes = 256};

static dao_allocator_t *create_one(void)
{
    dao_allocator_t *allocator = NULL;
    CU_ASSERT_EQUAL_FATAL(create(&allocator), DAO_OK);
    return allocator;
}

static uint64_t reserved_bytes(dao_allocator_t *allocator)
{
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.reserved_bytes, atomic_load(&budget.used_bytes));
    return stats.reserved_bytes;
}

static void memory_of_every_size_can_be_written(void)
{
    dao_allocator_t *allocator = create_one();
    unsigned char *blocks[12];
    for (size_t i = 0; i < 12; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(allocator, (size_t)4 << 2 * i, (void **)&blocks[i]),
                              DAO_OK);
        memset(blocks[i], (int)i, (size_t)4 << 2 * i);
    }
    for (size_t i = 0; i < 12; i++) {
        CU_ASSERT(blocks[i][0] == i && memcmp(blocks[i], blocks[i] + 1, ((size_t)4 << 2 * i) - 1) == 0);
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, blocks[i]), DAO_OK);
    }
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    destroy(allocator);
}

static char *take(dao_allocator_t *allocator, size_t size_bytes)
{
    void *address = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(allocator, size_bytes, &address), DAO_OK);
    return address;
}

static void give(dao_allocator_t *allocator, void *address)
{
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
}

/* Changes the budget as others who share it do, and trims nothing. */
static void budget_leave(dao_allocator_t *allocator, uint64_t limit_bytes)
{
    size_t released_bytes = 1;
    CU_ASSERT_TRUE(dao_budget_limit_set(&budget, limit_bytes));
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, SIZE_MAX, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(released_bytes, 0);
}

/* A small block keeps out of free pages where the budget leaves little to be taken. */
static void a_trim_sees_what_others_left_of_the_budget(void)
{
    enum { PLACE_PAGES = 64 };
    dao_allocator_t *allocator = create_one();
    char *low = take(allocator, PAGE_BYTES), *wall = take(allocator, PAGE_BYTES + PAGE_BYTES / 2),
         *high = take(allocator, PAGE_BYTES + PAGE_BYTES / 2),
         *rest = take(allocator, (size_t)(PLACE_PAGES - 4) * PAGE_BYTES);
    give(allocator, low);
    give(allocator, high);
    budget_leave(allocator, (uint64_t)PLACE_PAGES * PAGE_BYTES);
    CU_ASSERT_PTR_EQUAL(take(allocator, PAGE_BYTES / 4), high); /* beside what lives in its page */
    give(allocator, high);
    budget_leave(allocator, 0);
    CU_ASSERT_PTR_EQUAL(take(allocator, PAGE_BYTES / 4), low);
    give(allocator, low);
    give(allocator, wall);
    give(allocator, rest);
    destroy(allocator);
}

static void the_budget_of_all_host_memory_holds(void)
{
    dao_allocator_t *allocator = create_one();
    void *first = NULL, *second = NULL;
    CU_ASSERT_TRUE(dao_budget_limit_set(&budget, 3 * PAGE_BYTES));
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 2 * PAGE_BYTES, &first), DAO_OK);
    CU_ASSERT_EQUAL(reserved_bytes(allocator), 2 * PAGE_BYTES);
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 2 * PAGE_BYTES, &second), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(reserved_bytes(allocator), 2 * PAGE_BYTES);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, first), DAO_OK);
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 3 * PAGE_BYTES, &second), DAO_OK);
    CU_ASSERT_EQUAL(reserved_bytes(allocator), 3 * PAGE_BYTES);
    size_t released_bytes;
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, second), DAO_OK);
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(reserved_bytes(allocator), 0);
    CU_ASSERT_TRUE(dao_budget_limit_set(&budget, 0));
    destroy(allocator);
}

static void what_is_idle_in_a_window_others_have(void)
{
    dao_allocator_t *allocator = create_one();
    dao_window_t window;
    dao_block_grant_t grant;
    void *other = NULL;
    CU_ASSERT_EQUAL_FATAL(allocator->ops->window_begin(allocator, &window), DAO_OK);
    CU_ASSERT_FATAL(window.size_bytes >= WINDOW_BYTES);
    dao_block_request_t request = {.size_bytes = WINDOW_BYTES};
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL_FATAL(allocator->ops->alloc_at(allocator, &window, window.address, &request, &grant),
                              DAO_OK);
        memset(grant.address, i, WINDOW_BYTES);
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, grant.address), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(allocator, WINDOW_BYTES, &other), DAO_OK);
        memset(other, i, WINDOW_BYTES);
        CU_ASSERT_EQUAL(reserved_bytes(allocator), WINDOW_BYTES);
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, other), DAO_OK);
    }
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    destroy(allocator);
}

/* Of 16 blocks of 3/4 MiB every second one lives on: the holes have room for what is larger than each of them
   as far as they are whole pages. */
static void small_pages_leave_small_holes(void)
{
    enum { COUNT = 16, BLOCK_BYTES = 3 * MIB / 4, ALL_BYTES = COUNT * BLOCK_BYTES };
    for (int is_small = 0; is_small < 2; is_small++) {
        dao_allocator_t *allocator = NULL;
        char *blocks[COUNT];
        CU_ASSERT_EQUAL_FATAL(create_in(is_small == 1 ? 64 * KIB : 0, &allocator), DAO_OK);
        CU_ASSERT_TRUE(dao_budget_limit_set(&budget, ALL_BYTES));
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = take(allocator, BLOCK_BYTES);
            memset(blocks[i], i, BLOCK_BYTES);
        }
        for (int i = 0; i < COUNT; i += 2) {
            give(allocator, blocks[i]);
        }
        void *large = NULL;
        dao_status_t status = dao_allocator_alloc(allocator, ALL_BYTES / 3, &large);
        CU_ASSERT_EQUAL(status, is_small == 1 ? DAO_OK : DAO_ERR_LIMIT);
        CU_ASSERT_TRUE(reserved_bytes(allocator) <= ALL_BYTES);
        if (status == DAO_OK) {
            memset(large, COUNT, ALL_BYTES / 3);
            give(allocator, large);
        }
        for (int i = 1; i < COUNT; i += 2) {
            CU_ASSERT(blocks[i][0] == i && memcmp(blocks[i], blocks[i] + 1, BLOCK_BYTES - 1) == 0);
            give(allocator, blocks[i]);
        }
        CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
        destroy(allocator);
        CU_ASSERT_TRUE(dao_budget_limit_set(&budget, 0));
    }
}

static void explicit_huge_pages_do_not_suit(void)
{
    dao_host_memory_config_t huge = {.huge_pages = DAO_HUGE_PAGES_EXPLICIT};
    CU_ASSERT_FALSE(dao_host_pages_suit(&huge));
    CU_ASSERT_TRUE(dao_host_pages_suit(&settings));
}

#if defined(DAO_FAULTS)
/* Lets the n-th call for memory fail, for all n until none does; then all from the n-th on. */
static void what_the_system_refuses_is_answered(void)
{
    for (int persistent = 0; persistent < 2; persistent++) {
        dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
        for (uint64_t n = 0; status != DAO_OK; n++) {
            dao_allocator_t *allocator = create_one();
            void *address = NULL;
            dao_fault_arm(DAO_FAULT_ANY, n, persistent != 0);
            status = dao_allocator_alloc(allocator, 2 * PAGE_BYTES, &address);
            (void)dao_fault_disarm();
            CU_ASSERT(status == DAO_OK || status == DAO_ERR_NO_HOST_MEMORY);
            CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
            if (status == DAO_OK) {
                memset(address, 1, 2 * PAGE_BYTES);
                CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
            }
            (void)reserved_bytes(allocator);
            destroy(allocator);
        }
    }
}
#endif

static CU_TestInfo tests[] = {
    {"memory of every size can be written", memory_of_every_size_can_be_written},
    {"the budget of all host memory holds", the_budget_of_all_host_memory_holds},
    {"a trim sees what others left of the budget", a_trim_sees_what_others_left_of_the_budget},
    {"what is idle in a window others have", what_is_idle_in_a_window_others_have},
    {"small pages leave small holes", small_pages_leave_small_holes},
    {"explicit huge pages do not suit", explicit_huge_pages_do_not_suit},
#if defined(DAO_FAULTS)
    {"what the system refuses is answered", what_the_system_refuses_is_answered},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    allocator_contract_set(&contract);
    CU_SuiteInfo suites[] = {{"host in pages, contract", NULL, NULL, allocator_contract_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"host in pages", NULL, NULL, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
