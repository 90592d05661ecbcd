/* SPDX-License-Identifier: Apache-2.0 */
/* One segment: a range by addresses, with words and counters. */
#include "allocators/range/segment.h"
#include "tests/support/suite.h"

#define SIZE       (64 * KIB)
#define PAGE_SHIFT 14u
#define BASE       ((char *)((uintptr_t)1 << 44))

static dao_segment_t segment;
static dao_ledger_t ledger;

static void begin(void)
{
    dao_range_config_t config = {.capacity_bytes = SIZE, .base = (uintptr_t)BASE};
    segment = (dao_segment_t){.address = BASE, .size_bytes = SIZE};
    CU_ASSERT_EQUAL_FATAL(dao_ledger_init(&ledger, "test"), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_range_create(&config, &segment.range), DAO_OK);
}

static void end(void)
{
    dao_recount_t recount = {0};
    CU_ASSERT_TRUE(dao_segment_is_valid(&segment, &recount));
    CU_ASSERT_TRUE(dao_ledger_matches(&ledger, &recount));
    dao_range_destroy(segment.range);
    dao_ledger_finish(&ledger);
}

static char *take(size_t size_bytes, uint32_t stream)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .stream = stream};
    size_t block_bytes = (size_bytes + DAO_RANGE_GRANULE - 1) / DAO_RANGE_GRANULE * DAO_RANGE_GRANULE;
    dao_range_request_t wish = {.size_bytes = block_bytes, .user = dao_word_of(&request), .stream = stream};
    dao_range_grant_t grant;
    CU_ASSERT_EQUAL_FATAL(dao_range_alloc(segment.range, &wish, &grant), DAO_OK);
    dao_ledger_count_alloc(&ledger, &request, block_bytes);
    return BASE + grant.offset_bytes;
}

static dao_status_t give(const void *address)
{
    return dao_segment_free(&segment, &ledger, address, NULL, DAO_BLOCK_OWNER_RAW);
}

static void a_block_is_found_from_within(void)
{
    dao_block_t block;
    char *address = take(300, 0);
    CU_ASSERT_EQUAL(dao_segment_query(&segment, address + 299, &block), DAO_OK);
    CU_ASSERT_PTR_EQUAL(block.address, address);
    CU_ASSERT_EQUAL(block.requested_bytes, 300);
    CU_ASSERT_EQUAL(block.block_bytes, 512);
    CU_ASSERT_EQUAL(dao_segment_query(&segment, address + 512, &block), DAO_ERR_FOREIGN_POINTER);
}

static void wrong_frees_are_told_apart(void)
{
    char *address = take(1024, 0);
    CU_ASSERT_EQUAL(give(address + 256), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(give(BASE + SIZE), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(give(address), DAO_OK);
    CU_ASSERT_EQUAL(give(address), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(ledger.stats.live_count, 0);
}

static void a_block_of_a_stream_alone_is_marked(void)
{
    char *idle = take(256, 0), *streamed = take(256, 3);
    CU_ASSERT_EQUAL(dao_segment_mark(&segment, idle, 5), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_segment_mark(&segment, streamed + 64, 5), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_segment_mark(&segment, BASE + SIZE - 256, 5), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_segment_mark(&segment, streamed, 5), DAO_OK);
    dao_stream_fence_t fence = {.streams = UINT64_C(1) << 3, .epoch = 1};
    CU_ASSERT_EQUAL(dao_segment_free(&segment, &ledger, streamed, &fence, DAO_BLOCK_OWNER_RAW), DAO_OK);
    dao_stream_fence_t all = dao_range_all_fences(segment.range); /* stream 5 may still use it */
    CU_ASSERT_EQUAL(all.streams, UINT64_C(1) << 3 | UINT64_C(1) << 5);
    CU_ASSERT_EQUAL(give(idle), DAO_OK);
}

typedef struct seen {
    size_t bytes[3]; /* by state */
    size_t segment_count;
} seen_t;

static void see(const dao_block_t *block, void *user)
{
    seen_t *seen = user;
    seen->bytes[block->state == DAO_BLOCK_STATE_LIVE   ? 0
                : block->state == DAO_BLOCK_STATE_FREE ? 1
                                                       : 2] += block->block_bytes;
    seen->segment_count += block->begins_segment;
}

static void a_walk_sees_all_of_it(void)
{
    seen_t live = {{0}, 0}, all = {{0}, 0};
    char *address = take(8 * KIB, 0);
    dao_segment_walk(&segment, see, &live);
    CU_ASSERT_EQUAL(live.bytes[0], 8 * KIB);
    CU_ASSERT_EQUAL(live.bytes[1], 0);
    dao_segment_walk_all(&segment, see, &all);
    CU_ASSERT_EQUAL(all.bytes[0] + all.bytes[1], SIZE);
    CU_ASSERT_EQUAL(all.segment_count, 1);
    CU_ASSERT_EQUAL(give(address), DAO_OK);
}

static void a_walk_of_mapped_pages_shows_runs_of_them(void)
{
    uint64_t mapped = 0xb; /* pages 0, 1 and 3 of 16 KiB */
    seen_t seen = {{0}, 0};
    char *address = take(4 * KIB, 0); /* in page 0 */
    dao_segment_walk_mapped(&segment, &mapped, PAGE_SHIFT, see, &seen);
    CU_ASSERT_EQUAL(seen.bytes[0], 4 * KIB);
    CU_ASSERT_EQUAL(seen.bytes[1], 3 * 16 * KIB - 4 * KIB);
    CU_ASSERT_EQUAL(seen.segment_count, 2);
    CU_ASSERT_EQUAL(give(address), DAO_OK);
}

static CU_TestInfo tests[] = {
    {"a block is found from within", a_block_is_found_from_within},
    {"wrong frees are told apart", wrong_frees_are_told_apart},
    {"a block of a stream alone is marked", a_block_of_a_stream_alone_is_marked},
    {"a walk sees all of it", a_walk_sees_all_of_it},
    {"a walk of mapped pages shows runs of them", a_walk_of_mapped_pages_shows_runs_of_them},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"segment", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
