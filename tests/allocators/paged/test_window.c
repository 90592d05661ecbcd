/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of device memory in pages: blocks lie exactly where they are asked for, memory comes and goes with
   them, and what is idle in pages that are used in part is shown and can be had. */
#include "allocators/paged/device_memory.h"
#include "allocators/paged/page_buddy.h"
#include "allocators/paged/paged.h"
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
    CU_ASSERT_EQUAL(window.waste_limit_bytes, UINT64_MAX);
}

static void end(void)
{
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    allocator->ops->destroy(allocator);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
    controlled_streams_end(&streams);
}

/* Takes bytes of the window under a limit. */
static dao_status_t take(uint64_t offset_bytes, size_t size_bytes, uint64_t waste_limit_bytes)
{
    dao_block_request_t request = {.size_bytes = size_bytes};
    dao_block_grant_t grant = {0};
    window.waste_limit_bytes = waste_limit_bytes;
    dao_status_t status =
        allocator->ops->alloc_at(allocator, &window, window.address + offset_bytes, &request, &grant);
    CU_ASSERT(status != DAO_OK || grant.address == window.address + offset_bytes);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    return status;
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
    CU_ASSERT_EQUAL(take(5 * PAGE, PAGE, UINT64_MAX), DAO_OK);
    CU_ASSERT_EQUAL(take(5 * PAGE + PAGE / 2, PAGE, UINT64_MAX), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(reserved_now(), PAGE);
    give(5 * PAGE);
    CU_ASSERT_EQUAL(take(PAGE, PAGE, UINT64_MAX), DAO_OK); /* with the page that is free now */
    CU_ASSERT_EQUAL(reserved_now(), PAGE);
    give(PAGE);
}

static void without_a_limit_only_what_is_there_is_had(void)
{
    CU_ASSERT_EQUAL(take(0, PAGE / 4, 0), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(reserved_now(), 0);
    CU_ASSERT_EQUAL(take(0, PAGE / 4, UINT64_MAX), DAO_OK);
    CU_ASSERT_EQUAL(take(PAGE / 4, PAGE / 4, 0), DAO_OK);
    CU_ASSERT_EQUAL(take(PAGE / 2, PAGE, 0), DAO_ERR_BUSY); /* half of it lacks its page */
    CU_ASSERT_EQUAL(reserved_now(), PAGE);
    give(0);
    give(PAGE / 4);
}

static void memory_is_brought_without_a_block(void)
{
    CU_ASSERT_EQUAL(allocator->ops->window_back(allocator, &window, 0, 3 * PAGE), DAO_OK);
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.alloc_count + stats.free_count + stats.peak_used_bytes, 0);
    CU_ASSERT_EQUAL(stats.reserved_bytes, 3 * PAGE);
    CU_ASSERT_EQUAL(take(PAGE, 2 * PAGE, 0), DAO_OK); /* it is there */
    CU_ASSERT_EQUAL(allocator->ops->window_back(allocator, &window, 2 * PAGE, PAGE), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(allocator->ops->window_back(allocator, &window, 3 * PAGE, CAPACITY_BYTES),
                    DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(reserved_now(), 3 * PAGE);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    give(PAGE);
}

/* Counts how many blocks of a sixteenth of a page a limit allows, each in a page of its own from the first
   one on. */
static uint32_t count_wasteful(uint32_t first, uint64_t limit_bytes)
{
    uint32_t count = 0;
    while (count < 40 && take((first + 4 * count) * PAGE, PAGE / 16, limit_bytes) == DAO_OK) {
        count++;
    }
    for (uint32_t i = 0; i < count; i++) {
        give((first + 4 * i) * PAGE);
    }
    return count;
}

static void a_place_larger_than_usual_may_waste_less(void)
{
    uint32_t usual_count = count_wasteful(0, 16 * PAGE);
    window.usual_bytes = 0;                              /* whatever it has */
    uint32_t large_count = count_wasteful(2, 16 * PAGE); /* where no pages are left from before */
    CU_ASSERT(usual_count > 16 && usual_count < 24);
    CU_ASSERT(large_count > 2 && large_count < 8); /* beside the limit, some at the edges */
    window.usual_bytes = UINT64_MAX;
}

/* Every fourth page gets a sixteenth of a page, so that most of each is wasted; then the same with whole
   pages. */
static void waste_is_limited_and_whole_pages_are_none(void)
{
    uint64_t limit_bytes = 3 * PAGE;
    uint32_t count = 0;
    while (count < 20 && take(4 * count * PAGE, PAGE / 16, limit_bytes) == DAO_OK) {
        count++;
    }
    CU_ASSERT(count > 3 && count < 8); /* beside the limit, some at the edges */
    CU_ASSERT_EQUAL(take(4 * count * PAGE, PAGE / 16, limit_bytes), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(take(PAGE / 16, PAGE / 16, limit_bytes), DAO_OK); /* that wastes less, not more */
    give(PAGE / 16);
    for (uint32_t i = 0; i < count; i++) {
        give(4 * i * PAGE);
    }
    for (uint32_t i = 0; i < 8; i++) {
        CU_ASSERT_EQUAL(take(4 * i * PAGE, PAGE, 1), DAO_OK);
    }
    for (uint32_t i = 0; i < 8; i++) {
        give(4 * i * PAGE);
    }
}

typedef struct seen {
    uint32_t count;
    uint32_t most; /* to be shown */
    uint64_t offsets[8];
    uint64_t sizes[8];
} seen_t;

static bool see(const dao_idle_t *idle, void *user)
{
    seen_t *seen = user;
    seen->offsets[seen->count] = idle->offset_bytes;
    seen->sizes[seen->count] = idle->size_bytes;
    return ++seen->count < seen->most;
}

static void idle_parts_are_shown_and_can_be_had(void)
{
    seen_t seen = {.most = 8};
    CU_ASSERT_EQUAL(take(PAGE / 2, PAGE / 4, UINT64_MAX), DAO_OK);
    CU_ASSERT_EQUAL(take(9 * PAGE + PAGE / 2, PAGE / 2, UINT64_MAX), DAO_OK);
    allocator->ops->window_walk(allocator, &window, PAGE / 4, see, &seen);
    CU_ASSERT_EQUAL(seen.count, 3); /* below and above the first, below the second */
    uint64_t sum_bytes = 0;
    for (uint32_t i = 0; i < seen.count; i++) {
        sum_bytes += seen.sizes[i];
        CU_ASSERT_EQUAL(take(seen.offsets[i], seen.sizes[i], 0), DAO_OK);
    }
    CU_ASSERT_EQUAL(sum_bytes, 2 * PAGE - PAGE / 4 - PAGE / 2);
    CU_ASSERT_EQUAL(reserved_now(), 2 * PAGE);
    for (uint32_t i = 0; i < seen.count; i++) {
        give(seen.offsets[i]);
    }
    seen = (seen_t){.most = 8};
    allocator->ops->window_walk(allocator, &window, PAGE, see, &seen);
    CU_ASSERT_EQUAL(seen.count, 0); /* no page is idle as a whole */
    seen = (seen_t){.most = 1};
    allocator->ops->window_walk(allocator, &window, 1, see, &seen);
    CU_ASSERT_EQUAL(seen.count, 1);
    give(PAGE / 2);
    give(9 * PAGE + PAGE / 2);
}

/* A place that is taken stays taken, whatever else waits for a stream: asking for memory would not help. */
static void a_taken_place_is_told_as_taken_where_frees_wait(void)
{
    enum { WASTED_COUNT = 8 };
    CU_ASSERT_EQUAL(take(0, PAGE / 2, UINT64_MAX), DAO_OK);
    CU_ASSERT_EQUAL(take(PAGE / 2, PAGE / 2, UINT64_MAX), DAO_OK);
    for (uint32_t i = 1; i <= WASTED_COUNT; i++) {
        CU_ASSERT_EQUAL(take(4 * i * PAGE, PAGE / 16, UINT64_MAX), DAO_OK);
    }
    dao_stream_fence_t fence = controlled_streams_mark(&streams, 0);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, window.address + PAGE / 2, &fence), DAO_OK);
    static const uint64_t limits[] = {0, 1, UINT64_MAX}; /* none, one that is passed, and no limit */
    for (uint32_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(take(0, PAGE / 2, limits[i]), DAO_ERR_LIMIT);        /* lives */
        CU_ASSERT_EQUAL(take(PAGE / 2, PAGE / 2, limits[i]), DAO_ERR_LIMIT); /* waits */
    }
    CU_ASSERT_EQUAL(take(2 * PAGE, PAGE / 4, 0), DAO_ERR_BUSY); /* is free, and lacks its page */
    CU_ASSERT_EQUAL(take(2 * PAGE, PAGE / 4, 1), DAO_ERR_BUSY);
    controlled_streams_finish(0);
    CU_ASSERT_EQUAL(take(0, PAGE / 2, UINT64_MAX), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(take(PAGE / 2, PAGE / 2, UINT64_MAX), DAO_OK);
    give(0);
    give(PAGE / 2);
    for (uint32_t i = 1; i <= WASTED_COUNT; i++) {
        give(4 * i * PAGE);
    }
}

/* Takes a quarter of a page wherever the allocator likes; returns true if that is in the window. */
static bool lies_in_window_beyond(bool takes_windows, uint64_t windows_from_bytes, void **out_address)
{
    dao_block_request_t request = {
        .size_bytes = PAGE / 4, .takes_windows = takes_windows, .windows_from_bytes = windows_from_bytes};
    dao_block_grant_t grant = {0};
    CU_ASSERT_EQUAL_FATAL(allocator->ops->alloc(allocator, &request, &grant), DAO_OK);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    *out_address = grant.address;
    return (uintptr_t)grant.address - (uintptr_t)window.address < window.size_bytes;
}

static bool lies_in_window(bool takes_windows, void **out_address)
{
    return lies_in_window_beyond(takes_windows, 0, out_address);
}

static void what_passes_takes_idle_parts_before_the_place_grows(void)
{
    void *passing, *staying, *second;
    CU_ASSERT_EQUAL(take(3 * PAGE + PAGE / 2, PAGE / 2, UINT64_MAX), DAO_OK);
    CU_ASSERT_TRUE(lies_in_window(true, &passing));
    CU_ASSERT_EQUAL(reserved_now(), PAGE);
    CU_ASSERT_FALSE(lies_in_window(false, &staying));
    CU_ASSERT_EQUAL(reserved_now(), 2 * PAGE);
    CU_ASSERT_FALSE(lies_in_window(true, &second)); /* there is room elsewhere now */
    CU_ASSERT_EQUAL(reserved_now(), 2 * PAGE);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, passing, NULL), DAO_OK);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, staying, NULL), DAO_OK);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, second, NULL), DAO_OK);
    give(3 * PAGE + PAGE / 2);
}

static void idle_parts_are_taken_before_the_place_has_more_than_usual(void)
{
    void *beside, *within;
    CU_ASSERT_EQUAL(take(3 * PAGE + PAGE / 2, PAGE / 2, UINT64_MAX), DAO_OK);
    CU_ASSERT_FALSE(lies_in_window_beyond(true, 2 * PAGE, &beside));
    CU_ASSERT_EQUAL(reserved_now(), 2 * PAGE);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, beside, NULL), DAO_OK);
    size_t released_bytes;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_TRUE(lies_in_window_beyond(true, 2 * PAGE - 1, &within));
    CU_ASSERT_EQUAL(reserved_now(), PAGE);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, within, NULL), DAO_OK);
    give(3 * PAGE + PAGE / 2);
}

static void no_place_in_it_makes_the_whole_larger_than_usual(void)
{
    window.usual_bytes = 2 * PAGE;
    CU_ASSERT_EQUAL(take(0, 2 * PAGE, UINT64_MAX), DAO_OK);
    CU_ASSERT_EQUAL(take(4 * PAGE, PAGE, UINT64_MAX), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(reserved_now(), 2 * PAGE);
    give(0);
    CU_ASSERT_EQUAL(take(4 * PAGE, PAGE, UINT64_MAX), DAO_OK); /* a free page moves there */
    window.usual_bytes = UINT64_MAX;
    CU_ASSERT_EQUAL(take(0, 2 * PAGE, UINT64_MAX), DAO_OK);
    CU_ASSERT_EQUAL(reserved_now(), 3 * PAGE);
    give(0);
    give(4 * PAGE);
}

/* The window has used_limit_bytes for as long as it is asked, free pages being there or not. */
static dao_status_t take_within(uint64_t offset_bytes, size_t size_bytes, uint64_t used_limit_bytes)
{
    window.used_limit_bytes = used_limit_bytes;
    dao_status_t status = take(offset_bytes, size_bytes, UINT64_MAX);
    window.used_limit_bytes = UINT64_MAX;
    return status;
}

static void free_pages_are_taken_up_to_what_may_be_in_use(void)
{
    CU_ASSERT_EQUAL(take_within(0, PAGE / 2, PAGE - 1), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(take_within(0, PAGE / 2, PAGE), DAO_OK);
    CU_ASSERT_EQUAL(take_within(PAGE / 2, PAGE / 4, 0), DAO_OK); /* takes none */
    CU_ASSERT_EQUAL(take_within(PAGE / 2, PAGE / 4, 0), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(take_within(3 * PAGE / 4, PAGE, 2 * PAGE - 1), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(take_within(3 * PAGE / 4, PAGE, 2 * PAGE), DAO_OK);
    give(3 * PAGE / 4);
    CU_ASSERT_EQUAL(reserved_now(), 2 * PAGE);
    CU_ASSERT_EQUAL(take_within(PAGE, PAGE, PAGE), DAO_ERR_BUSY); /* its page is there, and free */
    CU_ASSERT_EQUAL(take_within(PAGE, PAGE, 2 * PAGE), DAO_OK);
    give(PAGE);
    give(PAGE / 2);
    give(0);
}

/* Takes a block where it takes the fewest free pages; returns true if that is in the window. */
static bool lies_with_fewest_pages_in_window(size_t size_bytes, void **out_address)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .takes_fewest_pages = true};
    dao_block_grant_t grant = {0};
    CU_ASSERT_EQUAL_FATAL(allocator->ops->alloc(allocator, &request, &grant), DAO_OK);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    *out_address = grant.address;
    return (uintptr_t)grant.address - (uintptr_t)window.address < window.size_bytes;
}

static void the_fewest_free_pages_may_be_in_it(void)
{
    dao_block_request_t request = {.size_bytes = 2 * PAGE};
    dao_block_grant_t grant;
    void *small, *large;
    CU_ASSERT_EQUAL_FATAL(allocator->ops->alloc(allocator, &request, &grant), DAO_OK);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, grant.address, NULL),
                    DAO_OK); /* two free pages are there */
    CU_ASSERT_EQUAL(take(5 * PAGE, PAGE / 4, UINT64_MAX), DAO_OK);
    CU_ASSERT_TRUE(lies_with_fewest_pages_in_window(PAGE / 4, &small)); /* takes none */
    CU_ASSERT_EQUAL(dao_paged_used_bytes(allocator), PAGE);
    CU_ASSERT_TRUE(lies_with_fewest_pages_in_window(PAGE + PAGE / 4, &large)); /* takes one, elsewhere two */
    CU_ASSERT_EQUAL(dao_paged_used_bytes(allocator), 2 * PAGE);
    CU_ASSERT_EQUAL(reserved_now(), 2 * PAGE);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, small, NULL), DAO_OK);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, large, NULL), DAO_OK);
    give(5 * PAGE);
    CU_ASSERT_FALSE(lies_with_fewest_pages_in_window(PAGE / 4, &small)); /* takes one anywhere */
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, small, NULL), DAO_OK);
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
                                           .takes_fewest_pages = dao_random_next(&random) % 2 == 0};
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
        CU_ASSERT_EQUAL_FATAL(dao_paged_used_bytes(allocator), used_by_hand(blocks, sizes_bytes, count));
    }
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    while (count > 0) {
        CU_ASSERT_EQUAL(allocator->ops->free(allocator, blocks[--count], NULL), DAO_OK);
    }
}

static CU_TestInfo tests[] = {
    {"a block lies where it is asked for", a_block_lies_where_it_is_asked_for},
    {"memory is brought without a block", memory_is_brought_without_a_block},
    {"without a limit only what is there is had", without_a_limit_only_what_is_there_is_had},
    {"a place larger than usual may waste less", a_place_larger_than_usual_may_waste_less},
    {"waste is limited, and whole pages are none", waste_is_limited_and_whole_pages_are_none},
    {"idle parts are shown and can be had", idle_parts_are_shown_and_can_be_had},
    {"what passes takes idle parts before the place grows",
     what_passes_takes_idle_parts_before_the_place_grows},
    {"idle parts are taken before the place has more than usual",
     idle_parts_are_taken_before_the_place_has_more_than_usual},
    {"no place in it makes the whole larger than usual", no_place_in_it_makes_the_whole_larger_than_usual},
    {"free pages are taken up to what may be in use", free_pages_are_taken_up_to_what_may_be_in_use},
    {"the fewest free pages may be in it", the_fewest_free_pages_may_be_in_it},
    {"pages in use are those that blocks lie in", pages_in_use_are_those_that_blocks_lie_in},
    {"a taken place is told as taken where frees wait", a_taken_place_is_told_as_taken_where_frees_wait},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"window", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
