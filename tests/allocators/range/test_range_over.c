/* SPDX-License-Identifier: Apache-2.0 */
/* What is taken exactly where it was, over however many free parts; and offsets at which no block begins. */
#include "allocators/range/range.h"
#include "tests/support/suite.h"

#define UNIT     DAO_RANGE_GRANULE
#define CAPACITY (64 * UNIT)

static dao_range_t *range;

static void begin(void)
{
    dao_range_config_t config = {.capacity_bytes = CAPACITY};
    CU_ASSERT_EQUAL_FATAL(dao_range_create(&config, &range), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_TRUE(dao_range_is_valid(range));
    dao_range_destroy(range);
}

/* Takes [offset, offset + size), which is free. */
static void take_at(uint64_t offset_bytes, uint64_t size_bytes)
{
    CU_ASSERT_EQUAL_FATAL(dao_range_alloc_at(range, offset_bytes, size_bytes, 1), DAO_OK);
}

/* Frees a block that a stream may still use, as the stream's `epoch`-th work; stream 0 is none. */
static void give(uint64_t offset_bytes, uint32_t stream, uint64_t epoch)
{
    dao_stream_fence_t fence = {.streams = stream > 0 ? UINT64_C(1) << stream : 0, .epoch = epoch};
    dao_range_block_t block;
    CU_ASSERT_EQUAL_FATAL(dao_range_free(range, offset_bytes, stream > 0 ? &fence : NULL, &block), DAO_OK);
}

static dao_status_t take_over(uint64_t offset_bytes, uint64_t size_bytes, uint32_t stream, bool takes_fenced,
                              dao_stream_fence_t *out_fence)
{
    dao_range_request_t request = {
        .size_bytes = size_bytes, .user = 9, .stream = stream, .takes_fenced = takes_fenced};
    *out_fence = (dao_stream_fence_t){0};
    dao_status_t status = dao_range_alloc_over(range, offset_bytes, &request, out_fence);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
    return status;
}

/* Blocks of 4 units at 0, 4, 8 and 12; those of streams 1, 2 and 3 are free, the last one lives. */
static void free_three_parts(void)
{
    for (uint64_t i = 0; i < 4; i++) {
        take_at(i * 4 * UNIT, 4 * UNIT);
    }
    for (uint32_t i = 0; i < 3; i++) {
        give((uint64_t)i * 4 * UNIT, i + 1, 10 - i);
    }
}

static void a_block_over_several_parts_waits_for_all_their_streams(void)
{
    dao_stream_fence_t fence;
    dao_range_block_t block;
    free_three_parts();
    CU_ASSERT_EQUAL(take_over(2 * UNIT, 8 * UNIT - 1, 7, true, &fence), DAO_OK);
    CU_ASSERT_EQUAL(fence.streams, 1u << 1 | 1u << 2 | 1u << 3);
    CU_ASSERT_EQUAL(fence.epoch, 10);
    CU_ASSERT_EQUAL(dao_range_query(range, 2 * UNIT, &block), DAO_OK);
    CU_ASSERT_EQUAL(block.offset_bytes, 2 * UNIT);
    CU_ASSERT_EQUAL(block.size_bytes, 8 * UNIT);
    CU_ASSERT_EQUAL(block.user, 9);
    CU_ASSERT_EQUAL(take_over(0, 2 * UNIT, 7, true, &fence), DAO_OK); /* what is left before it */
    CU_ASSERT_EQUAL(fence.streams & 1u << 1, 1u << 1);
    CU_ASSERT_EQUAL(take_over(10 * UNIT, 2 * UNIT, 7, true, &fence), DAO_OK); /* and behind it */
    CU_ASSERT_EQUAL(fence.streams & 1u << 3, 1u << 3);
}

/* What a block leaves of the parts that it is taken from is fenced as it was: nobody waits for it in vain. */
static void what_is_left_beside_a_block_keeps_its_own_fence(void)
{
    dao_stream_fence_t fence;
    take_at(4 * UNIT, 4 * UNIT);
    give(4 * UNIT, 5, 3);
    CU_ASSERT_EQUAL(dao_range_fenced(range), 4 * UNIT);
    CU_ASSERT_EQUAL(take_over(2 * UNIT, 4 * UNIT, 5, false, &fence), DAO_OK); /* half of it, and before it */
    CU_ASSERT_EQUAL(fence.streams, 1u << 5);
    CU_ASSERT_EQUAL(dao_range_fenced(range), 2 * UNIT);
    CU_ASSERT_EQUAL(take_over(7 * UNIT, 4 * UNIT, 5, false, &fence), DAO_OK); /* and behind it */
    CU_ASSERT_EQUAL(dao_range_fenced(range), UNIT);
    take_at(0, 2 * UNIT);
    take_at(11 * UNIT, CAPACITY - 11 * UNIT);
}

static void one_stream_takes_what_it_fences_and_what_nobody_does(void)
{
    dao_stream_fence_t fence;
    take_at(0, 4 * UNIT);
    take_at(4 * UNIT, 4 * UNIT);
    give(0, 5, 3);
    give(4 * UNIT, 0, 0);
    CU_ASSERT_EQUAL(take_over(0, 8 * UNIT, 6, false, &fence), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(take_over(0, 8 * UNIT, 5, false, &fence), DAO_OK);
    CU_ASSERT_EQUAL(fence.streams, 1u << 5);
    CU_ASSERT_EQUAL(fence.epoch, 3);
}

static void what_is_used_or_not_there_is_refused_and_nothing_changes(void)
{
    dao_stream_fence_t fence;
    free_three_parts();
    CU_ASSERT_EQUAL(take_over(0, 13 * UNIT, 1, true, &fence), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(take_over(13 * UNIT, UNIT, 1, true, &fence), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(take_over(0, 8 * UNIT, 1, false, &fence), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(take_over(CAPACITY, UNIT, 1, true, &fence), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(take_over(CAPACITY - UNIT, UNIT + 1, 1, true, &fence), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(fence.streams, 0);
    CU_ASSERT_EQUAL(take_over(CAPACITY - UNIT, UNIT, 1, true, &fence), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_all_fences(range).streams, 1u << 1 | 1u << 2 | 1u << 3);
}

static void offsets_where_no_block_begins_are_told_apart(void)
{
    dao_range_block_t block;
    take_at(0, 4 * UNIT);
    static const struct {
        uint64_t offset_bytes;
        dao_status_t status;
    } wrong[] = {{UNIT, DAO_ERR_INTERIOR_POINTER},    {1, DAO_ERR_INTERIOR_POINTER},
                 {4 * UNIT, DAO_ERR_DOUBLE_FREE},     {CAPACITY - 1, DAO_ERR_DOUBLE_FREE},
                 {CAPACITY, DAO_ERR_FOREIGN_POINTER}, {UINT64_MAX, DAO_ERR_FOREIGN_POINTER}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint64_t offset_bytes = wrong[i].offset_bytes;
        CU_ASSERT_EQUAL(dao_range_free(range, offset_bytes, NULL, &block), wrong[i].status);
        CU_ASSERT_EQUAL(dao_range_free_marked(range, offset_bytes, 0, NULL, &block), wrong[i].status);
        CU_ASSERT_EQUAL(dao_range_mark(range, offset_bytes, 1), wrong[i].status);
        CU_ASSERT_EQUAL(dao_range_renumber(range, offset_bytes, 7), wrong[i].status);
    }
    CU_ASSERT_EQUAL(dao_range_query(range, CAPACITY, &block), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_range_query(range, UNIT, &block), DAO_OK);
    CU_ASSERT_EQUAL(block.offset_bytes, 0);
    CU_ASSERT_EQUAL(block.user, 1);
}

static bool count_to_two(const dao_range_block_t *block, void *user)
{
    (void)block;
    return ++*(int *)user < 2;
}

static void a_walk_ends_when_its_visitor_has_seen_enough(void)
{
    int count = 0;
    free_three_parts();
    dao_range_walk(range, count_to_two, &count);
    CU_ASSERT_EQUAL(count, 2);
}

static CU_TestInfo tests[] = {
    {"a block over several parts waits for all their streams",
     a_block_over_several_parts_waits_for_all_their_streams},
    {"what is left beside a block keeps its own fence", what_is_left_beside_a_block_keeps_its_own_fence},
    {"one stream takes what it fences and what nobody does",
     one_stream_takes_what_it_fences_and_what_nobody_does},
    {"what is used or not there is refused and nothing changes",
     what_is_used_or_not_there_is_refused_and_nothing_changes},
    {"offsets where no block begins are told apart", offsets_where_no_block_begins_are_told_apart},
    {"a walk ends when its visitor has seen enough", a_walk_ends_when_its_visitor_has_seen_enough},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"range, over parts", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
