/* SPDX-License-Identifier: Apache-2.0 */
/* The shadow of a place in pages, against the place itself: the same requests and frees take as many bytes in
   both. */
#include "allocators/paged/device_memory.h"
#include "allocators/paged/page_buddy.h"
#include "allocators/step_plan/shadow.h"
#include "base/report/error.h"
#include "base/report/fault.h"
#include "tests/support/backends/heap_backend.h"
#include "tests/support/suite.h"

#define PAGE           ((size_t)DAO_PAGE_BYTES)
#define CAPACITY_BYTES (256 * PAGE)

enum { BLOCK_COUNT = 300, EVENT_COUNT = 6000 };

static heap_backend_t *heap;
static dao_allocator_t *place;
static dao_shadow_t *shadow;

static dao_shadow_config_t shadow_config(uint64_t initial_bytes, uint64_t limit_bytes)
{
    return (dao_shadow_config_t){.name = "device:0",
                                 .page_bytes = PAGE,
                                 .capacity_bytes = CAPACITY_BYTES,
                                 .initial_bytes = initial_bytes,
                                 .limit_bytes = limit_bytes};
}

static void begin(void)
{
    heap = heap_backend_create(CAPACITY_BYTES, PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(heap);
    dao_device_memory_config_t config = {
        .ops = heap_backend_ops(heap), .device = heap_backend_device(heap), .name = "device:0"};
    dao_shadow_config_t shadow_of = shadow_config(0, 0);
    CU_ASSERT_EQUAL_FATAL(dao_device_memory_create(&config, &place), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_shadow_create(&shadow_of, &shadow), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_TRUE(dao_shadow_is_valid(shadow));
    dao_shadow_destroy(shadow);
    place->ops->destroy(place);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
}

static uint64_t reserved_now(void)
{
    dao_stats_t stats;
    place->ops->stats_get(place, &stats);
    return stats.reserved_bytes;
}

/* Tells whether a shadow could take a block and bind it. */
static bool has_taken(dao_shadow_t *to, size_t size_bytes, size_t alignment_bytes, void *address)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .alignment_bytes = alignment_bytes};
    void *stand_in = dao_shadow_take(to, &request);
    return stand_in != NULL && dao_shadow_bind(to, stand_in, address, size_bytes);
}

static void *take(size_t size_bytes, size_t alignment_bytes)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .alignment_bytes = alignment_bytes};
    dao_block_grant_t grant = {0};
    CU_ASSERT_EQUAL_FATAL(place->ops->alloc(place, &request, &grant), DAO_OK);
    CU_ASSERT_TRUE_FATAL(has_taken(shadow, size_bytes, alignment_bytes, grant.address));
    return grant.address;
}

static void give(void *address)
{
    dao_shadow_free(shadow, address);
    CU_ASSERT_EQUAL(place->ops->free(place, address, NULL), DAO_OK);
}

static uint64_t random_below(uint64_t *random, uint64_t count)
{
    return dao_random_next(random) % count;
}

/* An address that is no block's. */
static void *number(uint64_t value)
{
    return (void *)(uintptr_t)(4096 * value);
}

/* ---- sentences ---- */

static void it_has_what_the_place_has(void)
{
    void *blocks[BLOCK_COUNT] = {NULL};
    uint64_t random = dao_test_seed("test_shadow", 1);
    for (uint32_t i = 0; i < EVENT_COUNT; i++) {
        void **block = &blocks[random_below(&random, BLOCK_COUNT)];
        if (*block != NULL) {
            give(*block);
            *block = NULL;
        } else {
            uint32_t shift = (uint32_t)random_below(&random, 22);
            size_t size_bytes = (size_t)random_below(&random, (uint64_t)1 << shift) + 1;
            *block = take(size_bytes, random_below(&random, 8) == 0 ? 4096 : 0);
        }
        if (random_below(&random, 500) == 0) {
            size_t keep_bytes = (size_t)random_below(&random, 4) * PAGE, released_bytes;
            CU_ASSERT_EQUAL(place->ops->trim(place, keep_bytes, &released_bytes), DAO_OK);
            dao_shadow_trim(shadow, keep_bytes);
        }
        CU_ASSERT_EQUAL_FATAL(dao_shadow_reserved(shadow), reserved_now());
    }
    CU_ASSERT_TRUE(dao_shadow_is_valid(shadow));
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        if (blocks[i] != NULL) {
            give(blocks[i]);
        }
    }
    CU_ASSERT_TRUE(reserved_now() > 0);
}

static void what_came_to_be_nowhere_takes_nothing(void)
{
    dao_block_request_t request = {.size_bytes = 3 * PAGE};
    for (uint32_t i = 0; i < 2; i++) {
        void *stand_in = dao_shadow_take(shadow, &request);
        CU_ASSERT_PTR_NOT_NULL_FATAL(stand_in);
        CU_ASSERT_TRUE(dao_shadow_is_valid(shadow));
        dao_shadow_drop(shadow, stand_in, i * PAGE);
        CU_ASSERT_EQUAL(dao_shadow_reserved(shadow), i * PAGE);
    }
}

static void a_free_that_nobody_saw_is_made_up_for(void)
{
    CU_ASSERT_TRUE(has_taken(shadow, 3 * PAGE, 0, number(1)));
    dao_shadow_free(shadow, number(2)); /* nobody's */
    for (uint32_t i = 0; i < 4; i++) {
        CU_ASSERT_TRUE(has_taken(shadow, 2 * PAGE, 0, number(1))); /* so the one before is gone */
        CU_ASSERT_TRUE(dao_shadow_is_valid(shadow));
        CU_ASSERT_EQUAL(dao_shadow_reserved(shadow), 5 * PAGE);
    }
    dao_shadow_free(shadow, number(1));
    dao_shadow_trim(shadow, 0);
    CU_ASSERT_EQUAL(dao_shadow_reserved(shadow), 0);
}

static void it_keeps_limits_and_leaves_no_error(void)
{
    CU_ASSERT_TRUE(has_taken(shadow, 4 * PAGE, 0, number(1)));
    CU_ASSERT_EQUAL(dao_shadow_limit_set(shadow, 3 * PAGE), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_shadow_limit_set(shadow, 5 * PAGE), DAO_OK);
    (void)dao_error(DAO_ERR_BUSY, "the caller's own");
    CU_ASSERT_FALSE(has_taken(shadow, 2 * PAGE, 0, number(2)));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_BUSY);
    CU_ASSERT_STRING_EQUAL(dao_last_message(), "the caller's own");
    CU_ASSERT_TRUE(has_taken(shadow, PAGE, 0, number(2)));
    dao_shadow_t *other;
    dao_shadow_config_t config = shadow_config(6 * PAGE, 5 * PAGE);
    CU_ASSERT_EQUAL(dao_shadow_create(&config, &other), DAO_ERR_LIMIT);
    config = shadow_config(6 * PAGE, 0);
    CU_ASSERT_EQUAL_FATAL(dao_shadow_create(&config, &other), DAO_OK);
    CU_ASSERT_EQUAL(dao_shadow_reserved(other), 6 * PAGE);
    CU_ASSERT_TRUE(has_taken(other, 6 * PAGE, 0, number(1)));
    CU_ASSERT_EQUAL(dao_shadow_reserved(other), 6 * PAGE);
    dao_shadow_destroy(other); /* with what lives in it */
}

/* Tells whether nothing failed. */
static bool is_whole_run(void)
{
    dao_shadow_t *other;
    dao_shadow_config_t config = shadow_config(PAGE, 0);
    if (dao_shadow_create(&config, &other) != DAO_OK) {
        return false;
    }
    bool is_whole = true;
    for (uint32_t i = 1; i <= BLOCK_COUNT && is_whole; i++) {
        is_whole = has_taken(other, PAGE / 2, 0, number(i));
    }
    CU_ASSERT_TRUE(dao_shadow_is_valid(other));
    dao_shadow_destroy(other);
    return is_whole;
}

static void without_host_memory_it_says_so(void)
{
    bool is_whole = false;
    uint64_t n = 0;
    for (; !is_whole; n++) {
        dao_fault_arm(DAO_FAULT_ANY, n, n % 2 == 1);
        is_whole = is_whole_run();
        uint64_t failed_count = dao_fault_disarm();
        CU_ASSERT_EQUAL_FATAL(is_whole, failed_count == 0);
    }
}

static CU_TestInfo tests[] = {
    {"it has what the place has", it_has_what_the_place_has},
    {"what came to be nowhere takes nothing", what_came_to_be_nowhere_takes_nothing},
    {"a free that nobody saw is made up for", a_free_that_nobody_saw_is_made_up_for},
    {"it keeps limits and leaves no error", it_keeps_limits_and_leaves_no_error},
    {"without host memory it says so", without_host_memory_it_says_so},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"shadow", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
