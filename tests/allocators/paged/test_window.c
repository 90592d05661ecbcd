/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of device memory in pages: blocks lie exactly where they are asked for, memory comes and goes with
   them, and requests under the window's lease lie between. */
#include "allocators/paged/device_memory.h"
#include "allocators/paged/paged_internal.h"
#include "allocators/pages/page_buddy.h"
#include "tests/support/backends/heap_backend.h"
#include "tests/support/controlled_streams.h"
#include "tests/support/suite.h"

#define PAGE           ((size_t)DAO_PAGE_BYTES)
#define CAPACITY_BYTES (32 * PAGE)

static heap_backend_t *heap;
static dao_allocator_t *allocator;
static dao_window_t window;
static controlled_streams_t streams;

static void begin(void)
{
    controlled_streams_begin(&streams);
    heap = heap_backend_create(CAPACITY_BYTES, PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(heap);
    dao_device_memory_config_t config = {.ops = heap_backend_ops(heap),
                                         .device = heap_backend_device(heap),
                                         .name = "device:0",
                                         .fences = streams.fences};
    CU_ASSERT_EQUAL_FATAL(dao_device_memory_create(&config, &allocator), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(allocator->ops->window_begin(allocator, &window), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    allocator->ops->destroy(allocator);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
    controlled_streams_end(&streams);
}

/* Takes bytes of the window in the order of a stream; 0: of none. */
static dao_status_t take_on(uint32_t stream, uint64_t offset_bytes, size_t size_bytes)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .stream = stream};
    dao_block_grant_t grant = {0};
    dao_status_t status =
        allocator->ops->alloc_at(allocator, &window, window.address + offset_bytes, &request, &grant);
    CU_ASSERT(status != DAO_OK || grant.address == window.address + offset_bytes);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    return status;
}

static dao_status_t take(uint64_t offset_bytes, size_t size_bytes)
{
    return take_on(0, offset_bytes, size_bytes);
}

static void give_on(uint32_t index, uint64_t offset_bytes)
{
    dao_stream_fence_t fence = controlled_streams_mark(&streams, index);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, window.address + offset_bytes, &fence), DAO_OK);
}

static void give(uint64_t offset_bytes)
{
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, window.address + offset_bytes, NULL), DAO_OK);
}

static uint64_t reserved_now(void)
{
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    return stats.reserved_bytes;
}

/* ---- sentences ---- */

static void a_block_lies_where_it_is_asked_for(void)
{
    CU_ASSERT_EQUAL(take(5 * PAGE, PAGE), DAO_OK);
    CU_ASSERT_EQUAL(take(5 * PAGE + PAGE / 2, PAGE), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(reserved_now(), PAGE);
    give(5 * PAGE);
    CU_ASSERT_EQUAL(take(PAGE, PAGE), DAO_OK); /* with the page that is free now */
    CU_ASSERT_EQUAL(reserved_now(), PAGE);
    give(PAGE);
}

static void memory_is_brought_without_a_block(void)
{
    CU_ASSERT_EQUAL(allocator->ops->window_back(allocator, &window, 0, 3 * PAGE), DAO_OK);
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.alloc_count + stats.free_count + stats.peak_used_bytes, 0);
    CU_ASSERT_EQUAL(stats.reserved_bytes, 3 * PAGE);
    CU_ASSERT_EQUAL(take(PAGE, 2 * PAGE), DAO_OK); /* it is there */
    CU_ASSERT_EQUAL(allocator->ops->window_back(allocator, &window, 2 * PAGE, PAGE), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(allocator->ops->window_back(allocator, &window, 3 * PAGE, CAPACITY_BYTES),
                    DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(reserved_now(), 3 * PAGE);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    give(PAGE);
}

/* A request under the window's lease lies in the window, beside blocks whose place was said. */
static void a_request_under_its_lease_lies_anywhere_in_it(void)
{
    CU_ASSERT_EQUAL(take(PAGE / 2, PAGE / 4), DAO_OK);
    void *blocks[2];
    for (int i = 0; i < 2; i++) {
        dao_block_request_t request = {.size_bytes = PAGE / 4, .lease = window.lease};
        dao_block_grant_t grant = {0};
        CU_ASSERT_EQUAL_FATAL(allocator->ops->alloc(allocator, &request, &grant), DAO_OK);
        CU_ASSERT_TRUE((uintptr_t)grant.address - (uintptr_t)window.address < PAGE); /* where a page is */
        blocks[i] = grant.address;
    }
    CU_ASSERT_EQUAL(reserved_now(), PAGE);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    give(PAGE / 2);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(allocator->ops->free(allocator, blocks[i], NULL), DAO_OK);
    }
}

/* A place that is taken stays taken, whatever else waits for a stream. */
static void a_taken_place_is_told_as_taken_where_frees_wait(void)
{
    CU_ASSERT_EQUAL(take(0, PAGE / 2), DAO_OK);
    CU_ASSERT_EQUAL(take(PAGE / 2, PAGE / 2), DAO_OK);
    give_on(0, PAGE / 2);
    CU_ASSERT_EQUAL(take(0, PAGE / 2), DAO_ERR_LIMIT);        /* lives */
    CU_ASSERT_EQUAL(take(PAGE / 2, PAGE / 2), DAO_ERR_LIMIT); /* waits */
    controlled_streams_finish(0);
    CU_ASSERT_EQUAL(take(0, PAGE / 2), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(take(PAGE / 2, PAGE / 2), DAO_OK);
    give(0);
    give(PAGE / 2);
}

/* A block over what its stream freed and what was never mapped: what is left is nobody's, and only memory is
   counted as held by a stream. */
static void growth_goes_on_from_what_a_stream_freed(void)
{
    CU_ASSERT_EQUAL(take(0, PAGE), DAO_OK);
    give_on(0, 0);
    CU_ASSERT_EQUAL(take_on(streams.numbers[0], PAGE / 2, PAGE), DAO_OK);
    CU_ASSERT_EQUAL(reserved_now(), 2 * PAGE);
    CU_ASSERT_EQUAL(take(3 * PAGE, PAGE), DAO_OK);
    give(3 * PAGE);
    give_on(0, PAGE / 2);
    /* What cannot be had as a whole is given back with the stream's fence, addresses without memory too. */
    CU_ASSERT_EQUAL(take_on(streams.numbers[0], 0, 2 * CAPACITY_BYTES), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(take_on(streams.numbers[0], 4 * PAGE, PAGE), DAO_OK);
    give(4 * PAGE);
    controlled_streams_finish(0);
}

/* In a shortage a block is placed over what two streams freed. Requests without a stream wait for neither of
   them once there is memory: a wait would be for what this test has not ended. */
static void a_shortage_holds_up_nobody_afterwards(void)
{
    void *blocks[2];
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, PAGE, &blocks[i]), DAO_OK);
    }
    for (uint32_t i = 0; i < 2; i++) {
        dao_stream_fence_t fence = controlled_streams_mark(&streams, i);
        CU_ASSERT_EQUAL(allocator->ops->free(allocator, blocks[i], &fence), DAO_OK);
    }
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 2 * PAGE), DAO_OK);
    dao_block_request_t request = {
        .size_bytes = PAGE + PAGE / 2, .alignment_bytes = PAGE / 2, .stream = streams.numbers[2]};
    dao_block_grant_t grant = {0};
    CU_ASSERT_EQUAL(allocator->ops->alloc(allocator, &request, &grant), DAO_OK);
    CU_ASSERT_EQUAL(grant.fence.streams, UINT64_C(1) << streams.numbers[0] | UINT64_C(1)
                                                                                 << streams.numbers[1]);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 0), DAO_OK);
    void *plain = NULL;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, PAGE, &plain), DAO_OK);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, plain), DAO_OK);
    CU_ASSERT_EQUAL(take(0, PAGE), DAO_OK);
    give(0);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, grant.address), DAO_OK);
    controlled_streams_finish(0);
    controlled_streams_finish(1);
}

/* ---- pages in use ---- */

#define BLOCK_COUNT_MAX 48u

/* The slow way: marks the pages of every block that lives. */
static uint64_t used_by_hand(void *const *blocks, const size_t *sizes_bytes, uint32_t count)
{
    uint64_t used_bytes = 0;
    uintptr_t pages[BLOCK_COUNT_MAX * 8];
    uint32_t page_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uintptr_t last = ((uintptr_t)blocks[i] + sizes_bytes[i] - 1) / PAGE;
        for (uintptr_t page = (uintptr_t)blocks[i] / PAGE; page <= last; page++) {
            uint32_t place = 0;
            while (place < page_count && pages[place] != page) {
                place++;
            }
            if (place == page_count) {
                pages[page_count++] = page;
                used_bytes += PAGE;
            }
        }
    }
    return used_bytes;
}

static void pages_in_use_are_those_that_blocks_lie_in(void)
{
    uint64_t random = dao_test_seed("pages in use", 11);
    void *blocks[BLOCK_COUNT_MAX];
    size_t sizes_bytes[BLOCK_COUNT_MAX];
    uint32_t count = 0;
    for (uint32_t round = 0; round < 4000; round++) {
        if (count < BLOCK_COUNT_MAX && dao_random_next(&random) % 2 == 0) {
            size_t size_bytes =
                DAO_RANGE_GRANULE * (1 + (size_t)(dao_random_next(&random) % (2 * PAGE / DAO_RANGE_GRANULE)));
            dao_block_request_t request = {.size_bytes = size_bytes,
                                           .lease = dao_random_next(&random) % 2 == 0 ? window.lease : 0};
            dao_block_grant_t grant;
            uint64_t offset_bytes =
                dao_random_next(&random) % (120 * PAGE / DAO_RANGE_GRANULE) * DAO_RANGE_GRANULE;
            dao_status_t status =
                dao_random_next(&random) % 2 == 0
                    ? allocator->ops->alloc(allocator, &request, &grant)
                    : allocator->ops->alloc_at(allocator, &window, window.address + offset_bytes, &request,
                                               &grant);
            if (status == DAO_OK) {
                blocks[count] = grant.address;
                sizes_bytes[count++] = size_bytes;
            }
        } else if (count > 0) {
            uint32_t place = (uint32_t)(dao_random_next(&random) % count--);
            CU_ASSERT_EQUAL(allocator->ops->free(allocator, blocks[place], NULL), DAO_OK);
            blocks[place] = blocks[count];
            sizes_bytes[place] = sizes_bytes[count];
        }
        paged_t *paged = dao_paged_of(allocator);
        dao_paged_lock(paged);
        uint64_t used_bytes = dao_paged_used_count(paged) * (uint64_t)PAGE;
        dao_paged_unlock(paged);
        CU_ASSERT_EQUAL_FATAL(used_bytes, used_by_hand(blocks, sizes_bytes, count));
    }
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    while (count > 0) {
        CU_ASSERT_EQUAL(allocator->ops->free(allocator, blocks[--count], NULL), DAO_OK);
    }
}

static CU_TestInfo tests[] = {
    {"a block lies where it is asked for", a_block_lies_where_it_is_asked_for},
    {"memory is brought without a block", memory_is_brought_without_a_block},
    {"a request under its lease lies anywhere in it", a_request_under_its_lease_lies_anywhere_in_it},
    {"pages in use are those that blocks lie in", pages_in_use_are_those_that_blocks_lie_in},
    {"a taken place is told as taken where frees wait", a_taken_place_is_told_as_taken_where_frees_wait},
    {"a shortage holds up nobody afterwards", a_shortage_holds_up_nobody_afterwards},
    {"growth goes on from what a stream freed", growth_goes_on_from_what_a_stream_freed},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"window", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
