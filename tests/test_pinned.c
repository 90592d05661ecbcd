/* Pinned memory: the contract, regions, and deferred frees. */
#include "allocators/deferred.h"
#include "allocators/pinned.h"
#include "base/log.h"
#include "base/sync.h"
#include "tests/contract/allocator_contract.h"
#include "tests/support/heap_backend.h"

#include <stdio.h>
#include <string.h>

static heap_backend_t *heap;
static dao_allocator_t *allocator;
static dao_pinned_config_t config = {.name = "pinned:0"}; /* of the next allocator */

static dao_status_t pinned_create(dao_allocator_t **out_allocator)
{
    heap = heap_backend_create(16 * MIB, 0);
    if (heap == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    config.ops = heap_backend_ops(heap);
    config.device = heap_backend_device(heap);
    dao_status_t status = dao_pinned_create(&config, out_allocator);
    if (status != DAO_OK) {
        CU_ASSERT_TRUE(heap_backend_destroy(heap));
    }
    return status;
}

static void pinned_destroy(dao_allocator_t *pinned)
{
    pinned->ops->destroy(pinned);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
}

static const allocator_contract_t pinned_contract = {
    .create = pinned_create, .destroy = pinned_destroy, .alignment_bytes = 256};

/* ---- helpers ---- */

static size_t logged_count;
static char logged_line[256];

static void keep_line(dao_log_level_t level, const char *message, void *user)
{
    (void)user;
    CU_ASSERT_EQUAL(level, DAO_LOG_LEVEL_ERROR);
    DAO_ASSERT_UNLOCKED();
    logged_count++;
    (void)snprintf(logged_line, sizeof(logged_line), "%s", message);
}

static void begin(void)
{
    logged_count = 0;
    dao_log_set(keep_line, NULL, DAO_LOG_LEVEL_WARNING);
    CU_ASSERT_EQUAL_FATAL(pinned_create(&allocator), DAO_OK);
}

static void end(void)
{
    pinned_destroy(allocator);
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_ERROR);
}

static dao_stats_t stats_now(void)
{
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.reserved_bytes, heap_backend_pinned_bytes(heap));
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    return stats;
}

static void *take(size_t size_bytes)
{
    void *address = NULL;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, size_bytes, &address), DAO_OK);
    return address;
}

/* ---- regions ---- */

static void sizes_are_not_rounded_to_powers_of_two(void)
{
    (void)take(33 * MIB);
    CU_ASSERT_EQUAL(stats_now().used_bytes, 33 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, DAO_PINNED_REGION_BYTES);
    (void)take(31 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, DAO_PINNED_REGION_BYTES);
    (void)take(65 * MIB);
    CU_ASSERT_EQUAL(stats_now().used_bytes, 129 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, DAO_PINNED_REGION_BYTES + 66 * MIB);
}

static void a_limit_makes_a_region_smaller(void)
{
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 70 * MIB), DAO_OK);
    (void)take(60 * MIB);
    (void)take(5 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 70 * MIB);
    void *address = NULL;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 5 * MIB, &address), DAO_ERR_LIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "pinned:0"));
}

static void memory_can_be_written(void)
{
    char *address = take(3 * MIB);
    memset(address, 0x5a, 3 * MIB);
    CU_ASSERT_EQUAL(address[3 * MIB - 1], 0x5a);
}

/* ---- deferred frees ---- */

static void count_block(const dao_block_t *block, void *user)
{
    (void)block;
    (*(size_t *)user)++;
}

static void a_deferred_block_lives_until_the_queue_is_drained(void)
{
    void *first = take(1 * MIB), *second = take(1 * MIB);
    dao_pinned_free_deferred(allocator, first);
    dao_pinned_free_deferred(allocator, second);
    size_t live_count = 0;
    allocator->ops->walk(allocator, count_block, &live_count);
    CU_ASSERT_EQUAL(live_count, 2);
    dao_pinned_drain(allocator);
    live_count = 0;
    allocator->ops->walk(allocator, count_block, &live_count);
    CU_ASSERT_EQUAL(live_count, 0);
    CU_ASSERT_EQUAL(logged_count, 0);
}

static void every_entry_drains(void)
{
    size_t released_bytes = 0;
    dao_pinned_free_deferred(allocator, take(1 * MIB));
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
    CU_ASSERT_EQUAL(stats_now().deferred_count, 0);
    void *address = take(64 * MIB);
    dao_pinned_free_deferred(allocator, address);
    CU_ASSERT_PTR_EQUAL(take(64 * MIB), address); /* alloc has freed it first */
    dao_pinned_free_deferred(allocator, address);
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(released_bytes, 64 * MIB);
    void *low = take(1 * MIB), *high = take(1 * MIB);
    dao_pinned_free_deferred(allocator, low);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, high), DAO_OK);
    size_t live_count = 0;
    allocator->ops->walk(allocator, count_block, &live_count);
    CU_ASSERT_EQUAL(live_count, 0);
}

static void wrong_deferred_frees_are_logged(void)
{
    int foreign = 0;
    char *address = take(1 * MIB);
    dao_status_t last = dao_last_status();
    dao_pinned_free_deferred(allocator, &foreign);
    dao_pinned_drain(allocator);
    CU_ASSERT_EQUAL(logged_count, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged_line, dao_status_text(DAO_ERR_FOREIGN_POINTER)));
    dao_pinned_free_deferred(allocator, address + 1);
    dao_pinned_drain(allocator);
    CU_ASSERT_EQUAL(logged_count, 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged_line, dao_status_text(DAO_ERR_INTERIOR_POINTER)));
    dao_pinned_free_deferred(allocator, address);
    dao_pinned_free_deferred(allocator, address);
    dao_pinned_drain(allocator);
    CU_ASSERT_EQUAL(logged_count, 3);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged_line, dao_status_text(DAO_ERR_DOUBLE_FREE)));
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
    CU_ASSERT_EQUAL(dao_last_status(), last); /* whoever drains has not failed */
}

static void a_flood_of_wrong_addresses_is_reported(void)
{
    for (size_t i = 0; i < 3 * DAO_DEFERRED_SPARE_COUNT; i++) {
        dao_pinned_free_deferred(allocator, &heap);
    }
    dao_pinned_drain(allocator);
    CU_ASSERT_EQUAL(logged_count, DAO_DEFERRED_SPARE_COUNT + 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged_line, "were lost"));
    dao_pinned_free_deferred(allocator, take(1 * MIB));
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
}

static void every_live_block_has_its_slot(void)
{
    enum { COUNT = 1000 };
    static void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = take(1 + i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        dao_pinned_free_deferred(allocator, blocks[i]);
    }
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
    CU_ASSERT_EQUAL(logged_count, 0);
}

/* One thread allocates and hands over; two threads free what they are handed by deferring it. */
#define HANDED_COUNT 2000u

typedef struct hand_over {
    dao_mutex_t lock;
    void *blocks[HANDED_COUNT];
    size_t given_count;
    size_t taken_count;
} hand_over_t;

static void *free_elsewhere(void *user)
{
    hand_over_t *shared = user;
    for (;;) {
        dao_mutex_lock(&shared->lock);
        void *block = NULL;
        bool is_end = shared->taken_count == HANDED_COUNT;
        if (shared->taken_count < shared->given_count) {
            block = shared->blocks[shared->taken_count++];
            dao_pinned_free_deferred(allocator, block); /* under another lock: it takes none */
        }
        dao_mutex_unlock(&shared->lock);
        if (is_end) {
            return NULL;
        }
        if (block == NULL) {
            dao_thread_yield();
        }
    }
}

static void other_threads_free_without_the_lock(void)
{
    static hand_over_t shared;
    dao_mutex_init(&shared.lock, DAO_RANK_LEAF);
    dao_thread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "free", free_elsewhere, &shared), DAO_OK);
    }
    for (size_t i = 0; i < HANDED_COUNT; i++) {
        void *block = take(1 + i * 37 % 5000);
        memset(block, (int)i, 1);
        dao_mutex_lock(&shared.lock);
        shared.blocks[shared.given_count++] = block;
        dao_mutex_unlock(&shared.lock);
    }
    for (size_t i = 0; i < 2; i++) {
        dao_thread_join(&threads[i]);
    }
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
    CU_ASSERT_EQUAL(stats_now().deferred_count, 0);
    CU_ASSERT_EQUAL(logged_count, 0);
    dao_mutex_finish(&shared.lock);
}

/* Many threads push at once, so that pops of free slots meet. */
static void *push_many(void *user)
{
    void **blocks = user;
    for (size_t i = 0; i < 500; i++) {
        dao_pinned_free_deferred(allocator, blocks[i]);
    }
    return NULL;
}

static void pushes_that_meet_lose_nothing(void)
{
    static void *blocks[4][500];
    dao_thread_t threads[4];
    for (size_t i = 0; i < 4 * 500; i++) {
        blocks[i / 500][i % 500] = take(300);
    }
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "push", push_many, blocks[i]), DAO_OK);
    }
    for (size_t i = 0; i < 100; i++) {
        dao_pinned_drain(allocator);
        dao_thread_yield();
    }
    for (size_t i = 0; i < 4; i++) {
        dao_thread_join(&threads[i]);
    }
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
    CU_ASSERT_EQUAL(stats_now().free_count, 2000);
    CU_ASSERT_EQUAL(logged_count, 0);
}

static void a_config_sets_the_regions_and_the_limit(void)
{
    config.segment_bytes = 6 * MIB;
    config.initial_bytes = 10 * MIB;
    config.limit_bytes = 20 * MIB;
    dao_allocator_t *before = allocator;
    heap_backend_t *heap_before = heap;
    CU_ASSERT_EQUAL_FATAL(pinned_create(&allocator), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 10 * MIB);
    (void)take(10 * MIB);
    CU_ASSERT_EQUAL(stats_now().grow_count, 1);
    (void)take(1 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 16 * MIB);
    void *address = NULL;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 10 * MIB, &address), DAO_ERR_LIMIT);
    pinned_destroy(allocator);
    config.initial_bytes = 21 * MIB;
    CU_ASSERT_EQUAL(pinned_create(&allocator), DAO_ERR_LIMIT);
    config = (dao_pinned_config_t){.name = "pinned:0"};
    allocator = before;
    heap = heap_before;
}

static CU_TestInfo tests[] = {
    {"a config sets the regions and the limit", a_config_sets_the_regions_and_the_limit},
    {"sizes are not rounded to powers of two", sizes_are_not_rounded_to_powers_of_two},
    {"a limit makes a region smaller", a_limit_makes_a_region_smaller},
    {"memory can be written", memory_can_be_written},
    {"a deferred block lives until the queue is drained", a_deferred_block_lives_until_the_queue_is_drained},
    {"every entry drains", every_entry_drains},
    {"wrong deferred frees are logged", wrong_deferred_frees_are_logged},
    {"a flood of wrong addresses is reported", a_flood_of_wrong_addresses_is_reported},
    {"every live block has its slot", every_live_block_has_its_slot},
    {"other threads free without the lock", other_threads_free_without_the_lock},
    {"pushes that meet lose nothing", pushes_that_meet_lose_nothing},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    allocator_contract_set(&pinned_contract);
    CU_SuiteInfo suites[] = {{"pinned, contract", NULL, NULL, allocator_contract_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"pinned", NULL, NULL, begin, end, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
