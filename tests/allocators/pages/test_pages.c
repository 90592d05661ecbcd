/* SPDX-License-Identifier: Apache-2.0 */
/* Pages behind windows, with a range over each window: growing, moving, giving back, a device that
   refuses. */
#include "allocators/pages/pages.h"
#include "tests/support/backends/heap_backend.h"
#include "tests/support/suite.h"

#define PAGE        ((uint64_t)DAO_PAGE_BYTES)
#define PAGE_COUNT  8u
#define PLACE_COUNT 32u
#define ALL         UINT32_MAX

static heap_backend_t *heap;
static dao_pages_t *pages;
static dao_range_t *range;
static dao_pages_ranges_t ranges;

/* The heap's table with calls for runs, which are one call each, whatever the heap counts. */
static dao_backend_ops_t run_ops;
static uint64_t run_count;
static uint64_t runs_until_failure; /* 0: none fails */

static bool run_fails(void)
{
    run_count++;
    return runs_until_failure > 0 && --runs_until_failure == 0;
}

static dao_status_t map_run(dao_backend_device_t *device, dao_backend_pages_t *const *handles, size_t count,
                            void *address)
{
    if (run_fails()) {
        return DAO_ERR_BACKEND;
    }
    for (size_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(run_ops.pages_map(device, handles[i], (char *)address + i * PAGE), DAO_OK);
    }
    return DAO_OK;
}

static dao_status_t unmap_run(dao_backend_device_t *device, dao_backend_pages_t *const *handles, size_t count,
                              void *address)
{
    if (run_fails()) {
        return DAO_ERR_BACKEND;
    }
    for (size_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(run_ops.pages_unmap(device, handles[i], (char *)address + i * PAGE), DAO_OK);
    }
    return DAO_OK;
}

static void begin_with(bool has_runs)
{
    uint32_t window = 0;
    heap = heap_backend_create(PAGE_COUNT * PAGE, PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(heap);
    run_ops = *heap_backend_ops(heap);
    run_ops.pages_map_run = has_runs ? map_run : NULL;
    run_ops.pages_unmap_run = has_runs ? unmap_run : NULL;
    run_count = runs_until_failure = 0;
    dao_pages_config_t config = {.ops = &run_ops,
                                 .device = heap_backend_device(heap),
                                 .page_bytes = PAGE,
                                 .page_count = PAGE_COUNT,
                                 .place_count = PLACE_COUNT};
    CU_ASSERT_EQUAL_FATAL(dao_pages_create(&config, &pages), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_pages_window_add(pages, &window), DAO_OK);
    CU_ASSERT_EQUAL(window, 0);
    dao_range_config_t range_config = {.capacity_bytes = PLACE_COUNT * PAGE};
    CU_ASSERT_EQUAL_FATAL(dao_range_create(&range_config, &range), DAO_OK);
    ranges = (dao_pages_ranges_t){.ranges = {range}, .count = 1};
}

static void begin(void)
{
    begin_with(false);
}

static void begin_with_runs(void)
{
    begin_with(true);
}

static void end(void)
{
    CU_ASSERT_TRUE(dao_pages_is_valid(pages, &ranges));
    dao_range_destroy(range);
    dao_pages_destroy(pages);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
}

/* Places a block of pages at a place. */
static void place(uint32_t first, uint32_t count)
{
    CU_ASSERT_EQUAL_FATAL(dao_range_alloc_at(range, first * PAGE, count * PAGE, 1), DAO_OK);
}

static void give(uint32_t first)
{
    dao_range_block_t block;
    CU_ASSERT_EQUAL(dao_range_free(range, first * PAGE, NULL, &block), DAO_OK);
}

static dao_status_t back(uint32_t first, uint32_t count, uint32_t new_page_max)
{
    return dao_pages_back(pages, &ranges, 0, first * PAGE, count * PAGE, new_page_max);
}

static void place_and_back(uint32_t first, uint32_t count)
{
    place(first, count);
    CU_ASSERT_EQUAL_FATAL(back(first, count, ALL), DAO_OK);
    CU_ASSERT_EQUAL(dao_pages_missing(pages, 0, first * PAGE, count * PAGE), 0);
}

static void a_block_gets_the_pages_that_it_touches(void)
{
    CU_ASSERT_EQUAL_FATAL(dao_range_alloc_at(range, PAGE / 2, PAGE, 1), DAO_OK);
    CU_ASSERT_EQUAL(dao_pages_missing(pages, 0, PAGE / 2, PAGE), 2);
    CU_ASSERT_EQUAL(dao_pages_back(pages, &ranges, 0, PAGE / 2, PAGE, ALL), DAO_OK);
    CU_ASSERT_EQUAL(dao_pages_count(pages), 2);
    CU_ASSERT_EQUAL(dao_pages_mapped_floor(pages, 0), 2);
    CU_ASSERT_TRUE(dao_pages_are_mapped(dao_pages_mapped(pages, 0), 0, 1));
    CU_ASSERT_FALSE(dao_pages_are_mapped(dao_pages_mapped(pages, 0), 0, 2));
    CU_ASSERT_EQUAL(heap_backend_device_bytes(heap), 2 * PAGE);
}

static void what_is_mapped_costs_no_call(void)
{
    place_and_back(0, 4);
    give(0);
    place(0, 4);
    uint64_t call_count = dao_pages_counts(pages).call_count;
    CU_ASSERT_EQUAL(back(0, 4, 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_pages_counts(pages).call_count, call_count);
}

static void free_pages_move_where_no_new_ones_may_come(void)
{
    place_and_back(0, 4);
    give(0);
    CU_ASSERT_EQUAL(dao_pages_free_count(pages, &ranges), 4);
    place(10, 3);
    CU_ASSERT_EQUAL(back(10, 3, 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_pages_counts(pages).moved_count, 3);
    CU_ASSERT_EQUAL(dao_pages_count(pages), 4);
    CU_ASSERT_EQUAL(dao_pages_mapped_floor(pages, 0), 1); /* those of the highest addresses went */
}

static void pages_that_stay_are_not_moved(void)
{
    place_and_back(0, 4);
    give(0);
    ranges.stays[0] = true;
    CU_ASSERT_EQUAL(dao_pages_free_count(pages, &ranges), 0);
    place(10, 3);
    CU_ASSERT_EQUAL(back(10, 3, 0), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(back(10, 3, 3), DAO_OK);
    CU_ASSERT_EQUAL(dao_pages_count(pages), 7);
}

static void a_full_device_and_a_limit_answer_differently(void)
{
    place_and_back(0, PAGE_COUNT - 1);
    place(16, 2);
    CU_ASSERT_EQUAL(back(16, 2, ALL), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(back(16, 2, 1), DAO_ERR_NO_DEVICE_MEMORY);
    give(16);
    place(16, 1);
    CU_ASSERT_EQUAL(back(16, 1, 0), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_pages_growable(pages, ALL), 1);
    CU_ASSERT_EQUAL(back(16, 1, 1), DAO_OK);
}

static void free_pages_are_given_back_from_the_top(void)
{
    place_and_back(0, 6);
    give(0);
    place(0, 2); /* lives in two of them */
    CU_ASSERT_EQUAL(dao_pages_release(pages, &ranges, 3), DAO_OK);
    CU_ASSERT_EQUAL(dao_pages_count(pages), 3);
    CU_ASSERT_EQUAL(dao_pages_mapped_floor(pages, 0), 3);
    CU_ASSERT_EQUAL(dao_pages_release(pages, &ranges, ALL), DAO_OK);
    CU_ASSERT_EQUAL(dao_pages_count(pages), 2); /* no more are free */
    CU_ASSERT_EQUAL(heap_backend_device_bytes(heap), 2 * PAGE);
}

static void the_largest_hole_is_a_mapped_one(void)
{
    place_and_back(0, 4);
    CU_ASSERT_EQUAL(dao_pages_largest_hole(pages, 0, range), 0);
    give(0);
    CU_ASSERT_EQUAL(dao_pages_largest_hole(pages, 0, range), 4 * PAGE);
}

/* Each call of the device refuses in turn: after each all is as it was, or the call has succeeded. */
static void a_refusal_leaves_all_as_it_was(void)
{
    place_and_back(0, 4);
    give(0);
    bool is_done = false;
    for (uint64_t n = 0; !is_done; n++) {
        place(8, 6); /* four are moved, two are new */
        heap_backend_fail(heap, HEAP_CALL_COUNT, n, false);
        dao_status_t status = back(8, 6, 2);
        is_done = heap_backend_heal(heap) == 0;
        CU_ASSERT_EQUAL(status == DAO_OK, dao_pages_missing(pages, 0, 8 * PAGE, 6 * PAGE) == 0);
        CU_ASSERT_TRUE(!is_done || status == DAO_OK);
        CU_ASSERT_EQUAL(heap_backend_device_bytes(heap), dao_pages_count(pages) * PAGE);
        give(8);
        CU_ASSERT_TRUE(dao_pages_is_valid(pages, &ranges));
        CU_ASSERT_EQUAL(dao_pages_release(pages, &ranges, ALL), DAO_OK);
        CU_ASSERT_EQUAL(dao_pages_count(pages), 0);
        place_and_back(0, 4);
        give(0);
        CU_ASSERT_TRUE_FATAL(n < 100);
    }
}

static void the_largest_hole_ends_with_its_block_and_at_missing_pages(void)
{
    CU_ASSERT_EQUAL(dao_pages_largest_hole(pages, 0, range), 0); /* all is one hole, with nothing behind it */
    place_and_back(0, 3);
    place_and_back(3, 1);
    place_and_back(4, 1);
    give(3);
    CU_ASSERT_EQUAL(dao_pages_largest_hole(pages, 0, range), PAGE); /* with live pages before and behind it */
    place(3, 1);
    give(0);
    CU_ASSERT_EQUAL(dao_pages_largest_hole(pages, 0, range), 3 * PAGE);
    place(6, 1); /* never gets its page */
    give(4);
    CU_ASSERT_EQUAL(dao_pages_largest_hole(pages, 0, range), 3 * PAGE);
    give(3);
    CU_ASSERT_EQUAL(dao_pages_largest_hole(pages, 0, range), 5 * PAGE); /* page 5 is missing */
    give(6);
}

/* ---- a backend that maps and unmaps runs by one call ---- */

static void a_free_stretch_moves_by_two_calls(void)
{
    place_and_back(0, 7);
    give(0);
    place(3, 1); /* between two stretches of three */
    uint64_t calls = dao_pages_counts(pages).call_count;
    place(16, 3);
    CU_ASSERT_EQUAL(back(16, 3, 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_pages_counts(pages).call_count - calls, 2);
    CU_ASSERT_EQUAL(run_count, 2);
    CU_ASSERT_EQUAL(dao_pages_missing(pages, 0, 4 * PAGE, 3 * PAGE), 3); /* the upper one went */
    CU_ASSERT_EQUAL(dao_pages_counts(pages).moved_count, 3);
}

static void a_stretch_is_given_back_by_one_call_to_unmap_it(void)
{
    place_and_back(0, 8);
    give(0);
    uint64_t calls = dao_pages_counts(pages).call_count;
    CU_ASSERT_EQUAL(dao_pages_release(pages, &ranges, 5), DAO_OK);
    CU_ASSERT_EQUAL(dao_pages_counts(pages).call_count - calls, 1 + 5);
    CU_ASSERT_EQUAL(dao_pages_mapped_floor(pages, 0), 3);
    CU_ASSERT_EQUAL(heap_backend_device_bytes(heap), 3 * PAGE);
}

static void a_refused_run_leaves_all_as_it_was(void)
{
    place_and_back(0, 4);
    give(0);
    for (uint64_t n = 1; n <= 2; n++) {
        place(8, 6); /* four are moved, two are new */
        runs_until_failure = n;
        CU_ASSERT_EQUAL(back(8, 6, 2), DAO_ERR_BACKEND);
        give(8);
        CU_ASSERT_TRUE(dao_pages_is_valid(pages, &ranges));
        CU_ASSERT_EQUAL(dao_pages_count(pages), 4);
        CU_ASSERT_EQUAL(dao_pages_missing(pages, 0, 0, 4 * PAGE), 0);
    }
    runs_until_failure = 1;
    CU_ASSERT_EQUAL(dao_pages_release(pages, &ranges, ALL), DAO_ERR_BACKEND);
    CU_ASSERT_EQUAL(dao_pages_count(pages), 4);
    CU_ASSERT_EQUAL(dao_pages_release(pages, &ranges, ALL), DAO_OK);
    CU_ASSERT_EQUAL(dao_pages_count(pages), 0);
}

/* end() destroys the pages, and looks whether the device has them back. */
static void a_run_that_is_refused_at_the_end_is_given_back_page_by_page(void)
{
    place_and_back(0, 4);
    runs_until_failure = 1;
}

static CU_TestInfo run_tests[] = {
    {"a free stretch moves by two calls", a_free_stretch_moves_by_two_calls},
    {"a stretch is given back by one call to unmap it", a_stretch_is_given_back_by_one_call_to_unmap_it},
    {"a refused run leaves all as it was", a_refused_run_leaves_all_as_it_was},
    {"a run that is refused at the end is given back page by page",
     a_run_that_is_refused_at_the_end_is_given_back_page_by_page},
    {"free pages are given back from the top", free_pages_are_given_back_from_the_top},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo tests[] = {
    {"a block gets the pages that it touches", a_block_gets_the_pages_that_it_touches},
    {"the largest hole ends with its block and at missing pages",
     the_largest_hole_ends_with_its_block_and_at_missing_pages},
    {"what is mapped costs no call", what_is_mapped_costs_no_call},
    {"free pages move where no new ones may come", free_pages_move_where_no_new_ones_may_come},
    {"pages that stay are not moved", pages_that_stay_are_not_moved},
    {"a full device and a limit answer differently", a_full_device_and_a_limit_answer_differently},
    {"free pages are given back from the top", free_pages_are_given_back_from_the_top},
    {"the largest hole is a mapped one", the_largest_hole_is_a_mapped_one},
    {"a refusal leaves all as it was", a_refusal_leaves_all_as_it_was},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"pages", NULL, NULL, begin, end, tests},
                             {"pages in runs", NULL, NULL, begin_with_runs, end, run_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
