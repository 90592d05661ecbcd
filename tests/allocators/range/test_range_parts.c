/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of parts: offsets with something behind them, between gaps. */
#include "allocators/range/range.h"
#include "tests/support/suite.h"

#define PAGE     ((uint64_t)DAO_RANGE_PAGE_BYTES)
#define CAPACITY (64 * PAGE)

static dao_range_t *range;

static void begin(void)
{
    dao_range_config_t config = {.capacity_bytes = CAPACITY, .is_parts = true};
    CU_ASSERT_EQUAL_FATAL(dao_range_create(&config, &range), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_TRUE(dao_range_is_valid(range));
    dao_range_destroy(range);
}

static uint32_t add(uint64_t size_bytes, uint64_t *out_offset_bytes)
{
    dao_range_place_t place;
    CU_ASSERT_EQUAL_FATAL(dao_range_part_find(range, size_bytes, &place), DAO_OK);
    *out_offset_bytes = place.offset_bytes;
    return dao_range_part_add(range, &place, size_bytes);
}

static uint64_t take(uint64_t size_bytes)
{
    dao_range_request_t request = {.size_bytes = size_bytes, .user = 1};
    dao_range_grant_t grant;
    CU_ASSERT_EQUAL_FATAL(dao_range_alloc(range, &request, &grant), DAO_OK);
    return grant.offset_bytes;
}

static void give(uint64_t offset_bytes)
{
    dao_range_block_t block;
    CU_ASSERT_EQUAL(dao_range_free(range, offset_bytes, NULL, &block), DAO_OK);
}

static void without_parts_there_is_no_hole(void)
{
    dao_range_request_t request = {.size_bytes = 256, .user = 1};
    dao_range_grant_t grant;
    CU_ASSERT_EQUAL(dao_range_alloc(range, &request, &grant), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 0);
}

static void parts_share_no_page_and_are_not_merged(void)
{
    uint64_t first, second;
    (void)add(PAGE / 2, &first);
    (void)add(PAGE / 2, &second);
    CU_ASSERT_EQUAL(first % PAGE, 0);
    CU_ASSERT_EQUAL(second % PAGE, 0);
    CU_ASSERT_TRUE(second / PAGE > (first + PAGE / 2 - 1) / PAGE);
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), PAGE / 2);
}

static void a_part_is_free_if_one_hole_fills_it(void)
{
    uint64_t offset_bytes;
    uint32_t part = add(PAGE, &offset_bytes);
    CU_ASSERT_TRUE(dao_range_part_is_free(range, part));
    uint64_t low = take(PAGE / 2), high = take(PAGE / 2);
    give(low);
    CU_ASSERT_FALSE(dao_range_part_is_free(range, part));
    give(high);
    CU_ASSERT_TRUE(dao_range_part_is_free(range, part));
    CU_ASSERT_EQUAL(offset_bytes, low);
}

static void a_removed_part_leaves_one_gap(void)
{
    uint64_t first, second, third, again;
    uint32_t low = add(4 * PAGE, &first);
    uint32_t middle = add(PAGE, &second);
    (void)add(PAGE, &third);
    dao_range_part_remove(range, middle);
    dao_range_part_remove(range, low);
    (void)add(4 * PAGE, &again); /* the lowest place that is large enough */
    CU_ASSERT_EQUAL(again, first);
    CU_ASSERT_TRUE(third > second);
}

static void a_query_sees_the_part_alone(void)
{
    uint64_t offset_bytes;
    dao_range_block_t block;
    uint32_t part = add(PAGE, &offset_bytes);
    CU_ASSERT_EQUAL(dao_range_part_query(range, part, offset_bytes + PAGE - 1, &block), DAO_OK);
    CU_ASSERT_TRUE(block.is_free);
    CU_ASSERT_EQUAL(dao_range_part_query(range, part, offset_bytes + PAGE, &block), DAO_ERR_FOREIGN_POINTER);
    uint64_t used = take(512);
    CU_ASSERT_EQUAL(dao_range_part_query(range, part, used + 300, &block), DAO_OK);
    CU_ASSERT_FALSE(block.is_free);
    CU_ASSERT_EQUAL(block.offset_bytes, used);
    give(used);
}

static void no_part_is_larger_than_the_gaps(void)
{
    dao_range_place_t place;
    CU_ASSERT_EQUAL(dao_range_part_find(range, CAPACITY, &place), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_range_part_find(range, CAPACITY - 2 * PAGE, &place), DAO_OK);
}

static CU_TestInfo tests[] = {
    {"without parts there is no hole", without_parts_there_is_no_hole},
    {"parts share no page and are not merged", parts_share_no_page_and_are_not_merged},
    {"a part is free if one hole fills it", a_part_is_free_if_one_hole_fills_it},
    {"a removed part leaves one gap", a_removed_part_leaves_one_gap},
    {"a query sees the part alone", a_query_sees_the_part_alone},
    {"no part is larger than the gaps", no_part_is_larger_than_the_gaps},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"range, parts", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
