/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory: the contract, regions, and deferred frees; alone, and with slabs in front. */
#include <dao/dao.h>

#include "allocators/segments/free_queue.h"
#include "allocators/segments/pinned.h"
#include "allocators/slab/thread_cache.h"
#include "base/log.h"
#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "runtime/start/context.h"
#include "tests/contract/allocator_contract.h"
#include "tests/support/backends/heap_backend.h"
#include "tests/support/controlled_streams.h"

#include <stdio.h>
#include <string.h>

static heap_backend_t *heap;
static dao_allocator_t *allocator;
static dao_pinned_config_t config = {.name = "pinned:0",
                                     .segment_bytes = DAO_PINNED_REGION_BYTES}; /* of the next allocator */
static bool has_slabs;                                                          /* in front of it */
static dao_allocator_t *behind_slabs;
static controlled_streams_t streams;

static dao_status_t put_slabs_before(dao_allocator_t **allocator_place)
{
    behind_slabs = *allocator_place;
    dao_status_t status =
        dao_thread_cache_create(behind_slabs, "pinned:0", &dao_slab_device_sizes, 0, allocator_place);
    if (status != DAO_OK) {
        behind_slabs->ops->destroy(behind_slabs);
    }
    return status;
}

static dao_status_t pinned_create(dao_allocator_t **out_allocator)
{
    heap = heap_backend_create(16 * MIB, 0);
    if (heap == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    config.ops = heap_backend_ops(heap);
    config.device = heap_backend_device(heap);
    dao_status_t status = dao_pinned_create(&config, out_allocator);
    if (status == DAO_OK && has_slabs) {
        status = put_slabs_before(out_allocator);
    }
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
    controlled_streams_begin(&streams);
    config.fences = streams.fences;
    dao_log_set(keep_line, NULL, DAO_LOG_LEVEL_WARNING);
    CU_ASSERT_EQUAL_FATAL(pinned_create(&allocator), DAO_OK);
}

static void end(void)
{
    pinned_destroy(allocator);
    controlled_streams_end(&streams);
    config.fences = NULL;
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_ERROR);
}

static void slabs_begin(void)
{
    has_slabs = true;
    begin();
}

static void slabs_end(void)
{
    end();
    has_slabs = false;
}

static void slabs_contract_begin(void)
{
    has_slabs = true;
    allocator_contract_begin();
}

static void slabs_contract_end(void)
{
    allocator_contract_end();
    has_slabs = false;
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
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 66 * MIB); /* two such blocks */
    (void)take(33 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 66 * MIB);
    (void)take(65 * MIB);
    CU_ASSERT_EQUAL(stats_now().used_bytes, 131 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 132 * MIB);
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

static void roundings_waste_less_than_three_percent(void)
{
    /* tensors of a training step: weights, activations, a hidden state, key-value blocks; odd sizes on
       purpose */
    static const size_t sizes[] = {9408 * 4,
                                   36864 * 4,
                                   2359296 * 4,
                                   38597376 * 4 + 12,
                                   768 * 3072 * 4,
                                   50257 * 768 * 2,
                                   8 * 64 * 112 * 112 * 4 + 1,
                                   33 * MIB + 1,
                                   65 * MIB + 5,
                                   129 * MIB + 7,
                                   (size_t)257 << 20};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    uint64_t seed = dao_test_seed("pinned sizes", 21);
    for (size_t i = 0; i < COUNT; i++) {
        (void)take(sizes[i]);
    }
    for (size_t i = 0; i < 300; i++) {
        (void)take(16 * KIB + dao_random_next(&seed) % ((uint64_t)64 * KIB << dao_random_next(&seed) % 8));
    }
    dao_stats_t stats = stats_now();
    CU_ASSERT_TRUE(stats.used_bytes * 100 <= stats.requested_bytes * 103);
}

static void a_fleet_of_equal_blocks_takes_hardly_more_than_it_uses(void)
{
    static const size_t sizes[] = {4 * MIB, 33 * MIB, 66 * MIB, 257 * MIB,
                                   2611 * MIB}; /* the last: 20.4 GiB in eight */
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *blocks[32];
        for (size_t k = 0; k < 32; k++) {
            blocks[k] = take(sizes[i]);
        }
        dao_stats_t stats = stats_now();
        CU_ASSERT_TRUE(stats.reserved_bytes * 100 <= stats.requested_bytes * 103);
        size_t released_bytes = 0;
        for (size_t k = 0; k < 32; k++) {
            CU_ASSERT_EQUAL(dao_allocator_free(allocator, blocks[k]), DAO_OK);
        }
        CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
        CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
    }
}

static void a_region_is_split_and_merged(void)
{
    char *blocks[16];
    for (size_t i = 0; i < 16; i++) {
        blocks[i] = take(4 * MIB);
        CU_ASSERT_PTR_EQUAL(blocks[i], blocks[0] + i * 4 * MIB);
    }
    for (size_t i = 0; i < 16; i++) {
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, blocks[i * 5 % 16]), DAO_OK);
    }
    CU_ASSERT_PTR_EQUAL(take(64 * MIB), blocks[0]);
    CU_ASSERT_EQUAL(stats_now().grow_count, 1);
}

static void trim_gives_back_whole_regions_alone(void)
{
    char *low = take(40 * MIB), *high = take(100 * MIB);
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, high), DAO_OK);
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(released_bytes, 100 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 80 * MIB); /* two blocks of 40 */
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, low), DAO_OK);
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 80 * MIB, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(released_bytes, 0);
}

static void a_backend_with_little_left_gives_a_smaller_region(void)
{
    for (uint64_t refusals = 0; refusals < 7; refusals++) {
        heap_backend_fail(heap, HEAP_CALL_PINNED_ALLOC, 0, true);
        void *address = NULL;
        CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 1 * MIB, &address), DAO_ERR_NO_HOST_MEMORY);
        CU_ASSERT_EQUAL(heap_backend_heal(heap), 7); /* 64, 32, 16, 8, 4, 2, 1 MiB */
        CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
    }
    heap_backend_fail(heap, HEAP_CALL_PINNED_ALLOC, 0, false);
    (void)take(1 * MIB);
    CU_ASSERT_EQUAL(heap_backend_heal(heap), 1);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 32 * MIB);
}

/* ---- blocks that streams still use ---- */

static void a_block_is_reused_behind_its_stream(void)
{
    dao_block_request_t on_first = {.size_bytes = 40 * MIB, .stream = streams.numbers[0]};
    dao_block_request_t on_second = {.size_bytes = 40 * MIB, .stream = streams.numbers[1]};
    dao_block_grant_t grant, again;
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 64 * MIB), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(allocator->ops->alloc(allocator, &on_first, &grant), DAO_OK);
    dao_stream_fence_t fence = controlled_streams_mark(&streams, 0);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, grant.address, &fence), DAO_OK);
    void *plain = NULL;
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 40 * MIB, &plain),
                    DAO_ERR_LIMIT); /* a copy may still read it */
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(released_bytes, 0);
    CU_ASSERT_EQUAL(allocator->ops->alloc(allocator, &on_first, &again), DAO_OK); /* at once */
    CU_ASSERT_PTR_EQUAL(again.address, grant.address);
    CU_ASSERT_TRUE(dao_stream_fence_is_own(&again.fence, streams.numbers[0]));
    fence = controlled_streams_mark(&streams, 0);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, again.address, &fence), DAO_OK);
    CU_ASSERT_EQUAL(allocator->ops->alloc(allocator, &on_second, &again), DAO_OK); /* after a wait */
    CU_ASSERT_EQUAL(again.fence.streams, UINT64_C(1) << streams.numbers[0]);
    CU_ASSERT_EQUAL(allocator->ops->stream_mark(allocator, again.address, streams.numbers[2]), DAO_OK);
    fence = controlled_streams_mark(&streams, 1);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, again.address, &fence), DAO_OK);
    controlled_streams_finish(1);
    controlled_streams_finish(2);
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 40 * MIB, &plain), DAO_OK); /* when it is done */
    CU_ASSERT_PTR_EQUAL(plain, grant.address);
    (void)stats_now();
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
    dao_pinned_free_deferred(allocator, first, DAO_BLOCK_OWNER_RAW);
    dao_pinned_free_deferred(allocator, second, DAO_BLOCK_OWNER_RAW);
    size_t live_count = 0;
    allocator->ops->walk(allocator, count_block, &live_count);
    CU_ASSERT_EQUAL(live_count, 2);
    dao_pinned_drain(allocator);
    live_count = 0;
    allocator->ops->walk(allocator, count_block, &live_count);
    CU_ASSERT_EQUAL(live_count, 0);
    CU_ASSERT_EQUAL(logged_count, 0);
}

/* Every entry, called with a deferred free waiting. */
static void enter_alloc(void *other)
{
    (void)other;
    (void)take(1 * MIB);
}

static void enter_free(void *other)
{
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, other), DAO_OK);
}

static void enter_mark(void *other)
{
    CU_ASSERT_EQUAL(allocator->ops->stream_mark(allocator, other, streams.numbers[0]), DAO_ERR_UNSUPPORTED);
}

static void enter_trim(void *other)
{
    (void)other;
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
}

static void enter_limit(void *other)
{
    (void)other;
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 0), DAO_OK);
}

static void enter_used(void *other)
{
    (void)other;
    CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), 1 * MIB);
}

static void enter_stats(void *other)
{
    (void)other;
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.live_count, 1);
    CU_ASSERT_EQUAL(stats.deferred_count, 0);
}

static void enter_peaks(void *other)
{
    (void)other;
    allocator->ops->stats_reset_peaks(allocator, NULL);
}

static void every_entry_drains(void)
{
    static void (*const entries[])(void *) = {enter_alloc, enter_free, enter_mark,  enter_trim,
                                              enter_limit, enter_used, enter_stats, enter_peaks};
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *deferred = take(1 * MIB), *other = take(1 * MIB);
        dao_pinned_free_deferred(allocator, deferred, DAO_BLOCK_OWNER_RAW);
        entries[i](other);
        size_t live_count = 0;
        allocator->ops->walk(allocator, count_block, &live_count); /* looks without draining */
        CU_ASSERT_EQUAL(live_count, entries[i] == enter_alloc ? 2 : entries[i] == enter_free ? 0 : 1);
        end();
        begin();
    }
}

static size_t live_count_of(dao_allocator_t *pinned)
{
    size_t live_count = 0;
    pinned->ops->walk(pinned, count_block, &live_count);
    return live_count;
}

static void activating_a_device_drains(void)
{
    dao_place_t place = {DAO_PLACE_KIND_PINNED, 0};
    dao_runtime_t *runtime = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_init(NULL), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_runtime_acquire(0, &runtime), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_set_current(1), DAO_OK);
    void *block = dao_alloc(place, 5000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    dao_pinned_free_deferred(runtime->pinned_memory, block, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(live_count_of(runtime->pinned_memory), 1);
    CU_ASSERT_EQUAL(dao_device_set_current(0), DAO_OK);
    CU_ASSERT_EQUAL(live_count_of(runtime->pinned_memory), 0);
    dao_runtime_release(runtime);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    dao_log_set(keep_line, NULL, DAO_LOG_LEVEL_WARNING); /* the library has taken its own callback away */
}

static void a_deferred_region_can_be_given_back_at_once(void)
{
    size_t released_bytes = 0;
    void *address = take(64 * MIB);
    dao_pinned_free_deferred(allocator, address, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_PTR_EQUAL(take(64 * MIB), address); /* alloc has freed it first */
    dao_pinned_free_deferred(allocator, address, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(released_bytes, 64 * MIB);
}

static void wrong_deferred_frees_are_logged(void)
{
    int foreign = 0;
    char *address = take(1 * MIB);
    dao_status_t last = dao_last_status();
    dao_pinned_free_deferred(allocator, &foreign, DAO_BLOCK_OWNER_RAW);
    dao_pinned_drain(allocator);
    CU_ASSERT_EQUAL(logged_count, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged_line, dao_status_text(DAO_ERR_FOREIGN_POINTER)));
    dao_pinned_free_deferred(allocator, address + 1, DAO_BLOCK_OWNER_RAW);
    dao_pinned_drain(allocator);
    CU_ASSERT_EQUAL(logged_count, 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged_line, dao_status_text(DAO_ERR_INTERIOR_POINTER)));
    dao_pinned_free_deferred(allocator, address, DAO_BLOCK_OWNER_RAW);
    dao_pinned_free_deferred(allocator, address, DAO_BLOCK_OWNER_RAW);
    dao_pinned_drain(allocator);
    CU_ASSERT_EQUAL(logged_count, 3);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged_line, dao_status_text(DAO_ERR_DOUBLE_FREE)));
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
    CU_ASSERT_EQUAL(dao_last_status(), last); /* whoever drains has not failed */
}

/* Who looks may hold a lock, as slabs in front do, under which nothing is logged. */
static void a_look_leaves_wrong_frees_to_be_logged(void)
{
    void *address = take(1 * MIB);
    int foreign = 0;
    dao_pinned_free_deferred(allocator, &foreign, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(stats_now().live_count, 1);
    dao_pinned_free_deferred(allocator, (char *)address + 1, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), 1 * MIB);
    CU_ASSERT_EQUAL(logged_count, 0);
    dao_pinned_drain(allocator);
    CU_ASSERT_EQUAL(logged_count, 2);
}

/* The fast paths are slow ones while there is something to log. */
static void what_a_look_left_is_logged_by_the_next_call(void)
{
    int foreign = 0;
    void *address = take(1 * MIB);
    dao_pinned_free_deferred(allocator, &foreign, DAO_BLOCK_OWNER_RAW);
    (void)stats_now();
    CU_ASSERT_EQUAL(logged_count, 0);
    CU_ASSERT_PTR_NULL(allocator->ops->alloc_fast(allocator, 1 * MIB)); /* alloc is to be asked, which logs */
    void *other = take(1 * MIB);
    CU_ASSERT_EQUAL(logged_count, 1);
    dao_pinned_free_deferred(allocator, &foreign, DAO_BLOCK_OWNER_RAW);
    (void)stats_now();
    CU_ASSERT_EQUAL(allocator->ops->free_fast(allocator, address), DAO_OK);
    CU_ASSERT_EQUAL(logged_count, 2);
    CU_ASSERT_EQUAL(allocator->ops->free_fast(allocator, other), DAO_OK);
    CU_ASSERT_EQUAL(logged_count, 2);
}

static void a_flood_of_wrong_addresses_is_reported(void)
{
    for (size_t i = 0; i < 3 * DAO_FREE_QUEUE_SPARE_COUNT; i++) {
        dao_pinned_free_deferred(allocator, &heap, DAO_BLOCK_OWNER_RAW);
    }
    dao_pinned_drain(allocator);
    CU_ASSERT_EQUAL(logged_count, DAO_FREE_QUEUE_SPARE_COUNT + 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged_line, "were lost"));
    dao_pinned_free_deferred(allocator, take(1 * MIB), DAO_BLOCK_OWNER_RAW);
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
        dao_pinned_free_deferred(allocator, blocks[i], DAO_BLOCK_OWNER_RAW);
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
            dao_pinned_free_deferred(allocator, block,
                                     DAO_BLOCK_OWNER_RAW); /* under another lock: it takes none */
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
    shared.given_count = shared.taken_count = 0;
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
        dao_pinned_free_deferred(allocator, blocks[i], DAO_BLOCK_OWNER_RAW);
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
    config = (dao_pinned_config_t){
        .name = "pinned:0", .fences = streams.fences, .segment_bytes = DAO_PINNED_REGION_BYTES};
    allocator = before;
    heap = heap_before;
}

static CU_TestInfo tests[] = {
    {"a config sets the regions and the limit", a_config_sets_the_regions_and_the_limit},
    {"sizes are not rounded to powers of two", sizes_are_not_rounded_to_powers_of_two},
    {"a limit makes a region smaller", a_limit_makes_a_region_smaller},
    {"roundings waste less than three percent", roundings_waste_less_than_three_percent},
    {"a fleet of equal blocks takes hardly more than it uses",
     a_fleet_of_equal_blocks_takes_hardly_more_than_it_uses},
    {"a region is split and merged", a_region_is_split_and_merged},
    {"trim gives back whole regions alone", trim_gives_back_whole_regions_alone},
    {"a backend with little left gives a smaller region", a_backend_with_little_left_gives_a_smaller_region},
    {"a block is reused behind its stream", a_block_is_reused_behind_its_stream},
    {"memory can be written", memory_can_be_written},
    {"a deferred block lives until the queue is drained", a_deferred_block_lives_until_the_queue_is_drained},
    {"every entry drains", every_entry_drains},
    {"activating a device drains", activating_a_device_drains},
    {"a deferred region can be given back at once", a_deferred_region_can_be_given_back_at_once},
    {"wrong deferred frees are logged", wrong_deferred_frees_are_logged},
    {"a look leaves wrong frees to be logged", a_look_leaves_wrong_frees_to_be_logged},
    {"what a look left is logged by the next call", what_a_look_left_is_logged_by_the_next_call},
    {"a flood of wrong addresses is reported", a_flood_of_wrong_addresses_is_reported},
    {"every live block has its slot", every_live_block_has_its_slot},
    {"other threads free without the lock", other_threads_free_without_the_lock},
    {"pushes that meet lose nothing", pushes_that_meet_lose_nothing},
    CU_TEST_INFO_NULL,
};

/* ---- small blocks, out of the slabs in front ---- */

static void a_small_block_comes_from_the_front(void)
{
    CU_ASSERT_PTR_NULL(allocator->ops->alloc_fast(allocator, 100)); /* no slab yet */
    void *address = take(100);
    void *second = allocator->ops->alloc_fast(allocator, 100);
    CU_ASSERT_PTR_NOT_NULL(second);
    CU_ASSERT_EQUAL(allocator->ops->free_fast(allocator, second), DAO_OK);
    CU_ASSERT_PTR_EQUAL(allocator->ops->alloc_fast(allocator, 200), second); /* the thread has kept it */
    CU_ASSERT_EQUAL(stats_now().live_count, 2);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
}

/* Nobody has it before its stream is done: it waits as what it was, and then follows no stream. */
static void a_small_block_takes_no_fence(void)
{
    void *address = take(100);
    dao_stream_fence_t fence = controlled_streams_mark(&streams, 0);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, address, &fence), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(stats_now().live_count, 1);
    CU_ASSERT_PTR_NOT_EQUAL(take(100), address);
    controlled_streams_finish(0);
}

/* The block of a handle counts as free at once, and is in the mail until somebody is at the slabs. */
static void a_deferred_small_block_is_mailed(void)
{
    dao_block_request_t request = {.size_bytes = 4 * KIB, .owner = DAO_BLOCK_OWNER_HANDLE};
    dao_block_grant_t grant;
    CU_ASSERT_EQUAL_FATAL(allocator->ops->alloc(allocator, &request, &grant), DAO_OK);
    uint64_t before_bytes = stats_now().requested_bytes;
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, grant.address), DAO_ERR_NOT_YOURS);
    dao_pinned_free_deferred(allocator, grant.address, DAO_BLOCK_OWNER_HANDLE);
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
    CU_ASSERT_EQUAL(stats_now().free_count, 1);
    CU_ASSERT_EQUAL(stats_now().requested_bytes, before_bytes - 4 * KIB);
    CU_ASSERT_EQUAL(stats_now().used_bytes, 0);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    dao_pinned_drain(allocator);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
    CU_ASSERT_EQUAL(logged_count, 0);
}

static void a_small_block_that_is_freed_twice_is_logged(void)
{
    char *block = take(100), *other = take(100);
    dao_pinned_free_deferred(allocator, block, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(logged_count, 0);
    dao_pinned_free_deferred(allocator, block, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(logged_count, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged_line, dao_status_text(DAO_ERR_DOUBLE_FREE)));
    dao_pinned_free_deferred(allocator, other + 1, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(logged_count, 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged_line, dao_status_text(DAO_ERR_INTERIOR_POINTER)));
    CU_ASSERT_EQUAL(stats_now().live_count, 1);
}

/* A drain alone makes a slab whole again, whose memory others can have then. */
static void a_drain_empties_the_mail(void)
{
    enum { COUNT = 500 };
    static void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = take(4 * KIB);
    }
    uint64_t before_bytes = behind_slabs->ops->used_get(behind_slabs);
    for (size_t i = 0; i < COUNT; i++) {
        dao_pinned_free_deferred(allocator, blocks[i], DAO_BLOCK_OWNER_RAW);
    }
    CU_ASSERT_EQUAL(behind_slabs->ops->used_get(behind_slabs), before_bytes);
    dao_pinned_drain(allocator);
    CU_ASSERT_TRUE(behind_slabs->ops->used_get(behind_slabs) < before_bytes / 4);
}

static void wrong_deferred_frees_of_small_blocks_are_logged(void)
{
    char *address = take(1000);
    dao_pinned_free_deferred(allocator, address + 256, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(logged_count, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged_line, dao_status_text(DAO_ERR_INTERIOR_POINTER)));
    dao_pinned_free_deferred(allocator, address, DAO_BLOCK_OWNER_HANDLE);
    CU_ASSERT_EQUAL(logged_count, 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged_line, dao_status_text(DAO_ERR_NOT_YOURS)));
    dao_pinned_free_deferred(allocator, address, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(logged_count, 2);
    dao_pinned_free_deferred(allocator, address, DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(logged_count, 3);
    CU_ASSERT_PTR_NOT_NULL(strstr(logged_line, dao_status_text(DAO_ERR_DOUBLE_FREE)));
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
}

/* Trims and limits from a thread that keeps nothing. */
static void *trim_and_limit(void *user)
{
    dao_status_t *status = user;
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    *status = allocator->ops->limit_set(allocator, 1 * MIB);
    if (*status != DAO_OK) {
        CU_ASSERT_EQUAL(released_bytes, 0);
        CU_ASSERT_PTR_NULL(strstr(dao_last_message(), "live"));
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "small ones that other threads keep"));
    }
    return NULL;
}

static dao_status_t trim_and_limit_elsewhere(void)
{
    dao_thread_t thread;
    dao_status_t status = DAO_OK;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "trim", trim_and_limit, &status), DAO_OK);
    dao_thread_join(&thread);
    return status;
}

static void keep_a_small_block(void)
{
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, take(100)), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
    CU_ASSERT_TRUE(stats_now().cached_bytes > 0);
}

/* A sandbox may forbid the barrier that this takes. */
static void what_a_waiting_thread_keeps_is_in_nobodys_way(void)
{
    keep_a_small_block();
    CU_ASSERT_EQUAL(trim_and_limit_elsewhere(), dao_threads_barrier() ? DAO_OK : DAO_ERR_LIMIT);
}

#if defined(DAO_FAULTS)

static void without_a_barrier_it_goes_as_that_thread_trims(void)
{
    keep_a_small_block();
    dao_fault_arm(DAO_FAULT_THREADS_BARRIER, 0, true);
    CU_ASSERT_EQUAL(trim_and_limit_elsewhere(), DAO_ERR_LIMIT);
    CU_ASSERT_TRUE(dao_fault_disarm() > 0);
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(released_bytes, 64 * MIB);
    CU_ASSERT_EQUAL(trim_and_limit_elsewhere(), DAO_OK);
}

#endif

static CU_TestInfo small_tests[] = {
    {"a small block comes from the front", a_small_block_comes_from_the_front},
    {"what a waiting thread keeps is in nobody's way", what_a_waiting_thread_keeps_is_in_nobodys_way},
#if defined(DAO_FAULTS)
    {"without a barrier it goes as that thread trims", without_a_barrier_it_goes_as_that_thread_trims},
#endif
    {"a small block takes no fence", a_small_block_takes_no_fence},
    {"a deferred small block is mailed", a_deferred_small_block_is_mailed},
    {"a small block that is freed twice is logged", a_small_block_that_is_freed_twice_is_logged},
    {"a drain empties the mail", a_drain_empties_the_mail},
    {"wrong deferred frees of small blocks are logged", wrong_deferred_frees_of_small_blocks_are_logged},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    allocator_contract_set(&pinned_contract);
    CU_SuiteInfo suites[] = {{"pinned, contract", NULL, NULL, allocator_contract_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"pinned", NULL, NULL, begin, end, tests},
                             {"slabs before pinned, contract", NULL, NULL, slabs_contract_begin,
                              slabs_contract_end, allocator_contract_tests},
                             {"slabs before pinned", NULL, NULL, slabs_begin, slabs_end, tests},
                             {"small pinned blocks", NULL, NULL, slabs_begin, slabs_end, small_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
