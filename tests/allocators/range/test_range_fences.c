/* SPDX-License-Identifier: Apache-2.0 */
/* Free parts that streams still use: whose they are, what merges, what settles, and that none of their users
   is ever lost. */
#include "allocators/range/range.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"

#include <string.h>

#define UNIT       DAO_RANGE_GRANULE
#define UNIT_COUNT (1 * MIB / UNIT)

static dao_range_t *range;

/* Holds outlive what is freed: each test has a range of its own. */
static void begin(void)
{
    CU_ASSERT_EQUAL_FATAL(dao_range_create(&(dao_range_config_t){.capacity_bytes = 1 * MIB}, &range), DAO_OK);
}

static void end(void)
{
    dao_range_destroy(range);
}

static dao_stream_fence_t fence_of(uint32_t stream, uint64_t epoch)
{
    return (dao_stream_fence_t){.streams = UINT64_C(1) << stream, .epoch = epoch};
}

static void give_fenced(uint64_t offset_bytes, uint32_t stream, uint64_t epoch)
{
    dao_stream_fence_t fence = fence_of(stream, epoch);
    dao_range_block_t block;
    CU_ASSERT_EQUAL(dao_range_free(range, offset_bytes, &fence, &block), DAO_OK);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
}

/* Takes for a stream; gives UINT64_MAX if there is nothing that it may take. */
static uint64_t take_for(uint64_t size_bytes, uint32_t stream, bool takes_fenced,
                         dao_stream_fence_t *out_fence)
{
    dao_range_request_t request = {
        .size_bytes = size_bytes, .user = 1, .stream = stream, .takes_fenced = takes_fenced};
    dao_range_grant_t grant = {.offset_bytes = UINT64_MAX};
    dao_status_t status = dao_range_alloc(range, &request, &grant);
    CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_LIMIT);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
    *out_fence = grant.fence;
    return status == DAO_OK ? grant.offset_bytes : UINT64_MAX;
}

/* Takes for nobody's stream. */
static uint64_t take(uint64_t size_bytes)
{
    dao_stream_fence_t fence;
    uint64_t offset_bytes = take_for(size_bytes, 0, false, &fence);
    CU_ASSERT_NOT_EQUAL(offset_bytes, UINT64_MAX);
    return offset_bytes;
}

/* By someone who has waited. */
static void give(uint64_t offset_bytes)
{
    dao_range_block_t block;
    CU_ASSERT_EQUAL(dao_range_free(range, offset_bytes, NULL, &block), DAO_OK);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
}

static uint64_t ends_at_epoch_5(uint32_t stream, void *user)
{
    (void)stream;
    (void)user;
    return 5;
}

static void what_a_stream_holds_is_its_own(void)
{
    uint64_t all = take(1 * MIB);
    give_fenced(all, 3, 7);
    CU_ASSERT_TRUE(dao_range_has_fences(range));
    dao_stream_fence_t fence;
    CU_ASSERT_EQUAL(take_for(UNIT, 0, false, &fence), UINT64_MAX);
    CU_ASSERT_EQUAL(take_for(UNIT, 4, false, &fence), UINT64_MAX);
    uint64_t own = take_for(UNIT, 3, false, &fence);
    CU_ASSERT_EQUAL(own, 0);
    CU_ASSERT_EQUAL(fence.streams, 1u << 3);
    uint64_t others = take_for(UNIT, 4, true, &fence);
    CU_ASSERT_EQUAL(others, UNIT);
    CU_ASSERT_EQUAL(fence.streams, 1u << 3);
    CU_ASSERT_EQUAL(fence.epoch, 7);
    give_fenced(own, 3, 8);
    give_fenced(others, 4, 9);
}

static void a_fence_does_not_spread_to_free_neighbours(void)
{
    uint64_t first = take(4 * KIB), second = take(4 * KIB), third = take(4 * KIB);
    give(first);
    give_fenced(second, 1, 1);
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 1 * MIB - 12 * KIB);
    give_fenced(third, 2, 2);
    dao_stream_fence_t fence;
    uint64_t clean = take_for(4 * KIB, 5, false, &fence);
    CU_ASSERT_EQUAL(clean, first);
    give(clean);
    dao_stream_fence_t all = dao_range_all_fences(range);
    CU_ASSERT_EQUAL(all.streams, 1u << 1 | 1u << 2);
    CU_ASSERT_EQUAL(all.epoch, 2);
}

static void what_one_stream_freed_is_merged(void)
{
    uint64_t first = take(4 * KIB), second = take(4 * KIB);
    uint64_t rest = take(dao_range_largest_hole(range));
    give_fenced(second, 1, 2);
    give_fenced(first, 1, 1);
    dao_stream_fence_t fence;
    CU_ASSERT_EQUAL(take_for(8 * KIB, 2, true, &fence), first);
    CU_ASSERT_EQUAL(fence.epoch, 2);
    give(first);
    give(rest);
}

static void settled_fences_are_forgotten_and_merged(void)
{
    uint64_t first = take(4 * KIB), second = take(4 * KIB), third = take(4 * KIB);
    give_fenced(first, 1, 5);
    give_fenced(second, 2, 6);
    give_fenced(third, 3, 4);
    (void)dao_range_settle(range, ends_at_epoch_5, NULL, UINT32_MAX);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 1 * MIB - 8 * KIB);
    dao_stream_fence_t all = dao_range_all_fences(range);
    CU_ASSERT_EQUAL(all.streams, 1u << 2);
}

static uint64_t ends_at_epoch_of_stream(uint32_t stream, void *user)
{
    (void)user;
    return stream;
}

static void each_stream_settles_up_to_its_own_epoch(void)
{
    uint64_t blocks[5], borders[5];
    for (int i = 0; i < 5; i++) {
        blocks[i] = take(4 * KIB);
        borders[i] = take(4 * KIB);
    }
    give_fenced(blocks[0], 4, 4);
    give_fenced(blocks[1], 4, 5);
    give_fenced(blocks[2], 6, 5);
    CU_ASSERT_EQUAL(dao_range_mark(range, blocks[3], 4), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_mark(range, blocks[4], 6), DAO_OK);
    give_fenced(blocks[3], 6, 5); /* of both; only one has passed */
    give_fenced(blocks[4], 7, 6); /* of two that have */
    CU_ASSERT_EQUAL(dao_range_settle(range, ends_at_epoch_of_stream, NULL, UINT32_MAX), 3);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
    CU_ASSERT_EQUAL(dao_range_fenced(range), 8 * KIB);
    dao_stream_fence_t all = dao_range_all_fences(range);
    CU_ASSERT_EQUAL(all.streams, 1u << 4 | 1u << 6);
    for (int i = 0; i < 5; i++) {
        give(borders[i]);
    }
}

static void joined_parts_carry_all_their_users(void)
{
    uint64_t first = take(4 * KIB), second = take(4 * KIB);
    uint64_t rest = take(dao_range_largest_hole(range));
    give_fenced(first, 1, 1);
    give(second);
    dao_stream_fence_t fence;
    CU_ASSERT_EQUAL(take_for(8 * KIB, 2, true, &fence), UINT64_MAX);
    dao_range_join(range);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
    CU_ASSERT_EQUAL(take_for(8 * KIB, 2, true, &fence), first);
    CU_ASSERT_EQUAL(fence.streams, 1u << 1);
    give(first);
    give(rest);
}

static void marked_streams_hold_a_freed_block(void)
{
    uint64_t block = take(4 * KIB);
    CU_ASSERT_EQUAL(dao_range_mark(range, block, 9), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_mark(range, block, 11), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_mark(range, block + UNIT, 9), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_range_mark(range, block + 8 * KIB, 9), DAO_ERR_DOUBLE_FREE);
    dao_stream_fence_t fence = fence_of(1, 3);
    dao_range_block_t freed;
    CU_ASSERT_EQUAL(dao_range_free(range, block, &fence, &freed), DAO_OK);
    CU_ASSERT_EQUAL(fence.streams, 1u << 1 | 1u << 9 | 1u << 11);
    block = take(1 * MIB - 4 * KIB);
    CU_ASSERT_EQUAL(dao_range_mark(range, block, 2), DAO_OK);
    give(block);
    (void)dao_range_settle(range, ends_at_epoch_5, NULL, UINT32_MAX);
    CU_ASSERT_FALSE(dao_range_has_fences(range));
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 1 * MIB);
}

/* Each granule of a free part is held by those who freed it last, or by more. */
static void random_fences_never_get_lost(void)
{
    enum { BLOCKS = 64 };
    uint64_t seed = dao_test_seed("range holds", 1);
    uint64_t offsets[BLOCKS], sizes[BLOCKS];
    static uint64_t held[UNIT_COUNT];
    memset(held, 0, sizeof(held));
    size_t count = 0;
    for (size_t i = 0; i < 4000; i++) {
        uint32_t stream = (uint32_t)(dao_random_next(&seed) % 4);
        if (count < BLOCKS && dao_random_next(&seed) % 2 == 0) {
            dao_stream_fence_t fence;
            uint64_t size_bytes = (1 + dao_random_next(&seed) % 256) * UNIT;
            uint64_t offset_bytes = take_for(size_bytes, stream, stream != 0 && i % 3 == 0, &fence);
            for (uint64_t unit = offset_bytes / UNIT;
                 offset_bytes != UINT64_MAX && unit < (offset_bytes + size_bytes) / UNIT; unit++) {
                uint64_t own = stream != 0 ? UINT64_C(1) << stream : 0;
                CU_ASSERT_EQUAL(held[unit] & ~own & ~fence.streams, 0);
                held[unit] = 0;
            }
            if (offset_bytes != UINT64_MAX) {
                offsets[count] = offset_bytes;
                sizes[count++] = size_bytes;
            }
        } else if (count > 0) {
            size_t victim = dao_random_next(&seed) % count;
            dao_stream_fence_t fence = stream != 0 ? fence_of(stream, i) : (dao_stream_fence_t){0};
            dao_range_block_t block;
            CU_ASSERT_EQUAL(dao_range_free(range, offsets[victim], &fence, &block), DAO_OK);
            for (uint64_t unit = offsets[victim] / UNIT; unit < (offsets[victim] + sizes[victim]) / UNIT;
                 unit++) {
                held[unit] = fence.streams;
            }
            offsets[victim] = offsets[--count];
            sizes[victim] = sizes[count];
        }
        if (i % 97 == 0) {
            dao_range_join(range);
        }
        CU_ASSERT_TRUE_FATAL(dao_range_is_valid(range));
    }
    while (count > 0) {
        give(offsets[--count]);
    }
}

/* Frees every second one of many blocks, in an order of epochs that is not that of the calls. */
static void settling_takes_the_oldest_first(void)
{
    enum { COUNT = 8 };
    static const uint64_t epochs[COUNT] = {2, 3, 1, 8, 4, 9, 5, 7};
    uint64_t freed[COUNT], kept[COUNT];
    dao_range_announce(range, 1);
    for (size_t i = 0; i < COUNT; i++) {
        freed[i] = take(4 * KIB);
        kept[i] = take(4 * KIB);
    }
    for (size_t i = 0; i < COUNT; i++) {
        give_fenced(freed[i], 1, epochs[i]);
    }
    uint64_t rest = take(dao_range_largest_hole(range));
    dao_stream_fence_t fence;
    CU_ASSERT_EQUAL(take_for(4 * KIB, 0, false, &fence), UINT64_MAX);
    CU_ASSERT_EQUAL(dao_range_settle(range, ends_at_epoch_5, NULL, 2), 2);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
    CU_ASSERT_EQUAL(take_for(4 * KIB, 0, false, &fence), freed[0]);
    CU_ASSERT_EQUAL(take_for(4 * KIB, 0, false, &fence), freed[2]);
    CU_ASSERT_EQUAL(take_for(4 * KIB, 0, false, &fence), UINT64_MAX);
    CU_ASSERT_EQUAL(dao_range_settle(range, ends_at_epoch_5, NULL, UINT32_MAX), 3);
    CU_ASSERT_EQUAL(dao_range_settle(range, ends_at_epoch_5, NULL, UINT32_MAX), 0);
    CU_ASSERT_EQUAL(take_for(4 * KIB, 1, false, &fence), freed[1]); /* the lowest, fenced or not */
    CU_ASSERT_EQUAL(dao_range_all_fences(range).epoch, 9);
    give(freed[0]);
    give(freed[1]);
    give(freed[2]);
    give(rest);
    for (size_t i = 0; i < COUNT; i++) {
        give(kept[i]);
    }
}

#if defined(DAO_FAULTS)
static void without_memory_a_stream_does_without_bins(void)
{
    uint64_t block = take(4 * KIB), wall = take(4 * KIB);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    dao_stream_fence_t fence;
    uint64_t own = take_for(4 * KIB, 7, false, &fence);
    CU_ASSERT_TRUE(dao_fault_disarm() > 0);
    CU_ASSERT_NOT_EQUAL(own, UINT64_MAX);
    give_fenced(block, 7, 3);
    CU_ASSERT_EQUAL(take_for(4 * KIB, 8, false, &fence), own + 4 * KIB);
    CU_ASSERT_EQUAL(take_for(4 * KIB, 7, false, &fence), block);
    CU_ASSERT_EQUAL(fence.streams, 1u << 7);
    give_fenced(block, 7, 6);
    dao_range_announce(range, 7);
    give_fenced(own, 7, 4);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
    CU_ASSERT_EQUAL(dao_range_settle(range, ends_at_epoch_5, NULL, UINT32_MAX), 1);
    CU_ASSERT_EQUAL(dao_range_all_fences(range).epoch, 6);
    give(own + 4 * KIB);
    give(wall);
}
#endif

static CU_TestInfo tests[] = {
    {"what a stream holds is its own", what_a_stream_holds_is_its_own},
    {"a fence does not spread to free neighbours", a_fence_does_not_spread_to_free_neighbours},
    {"what one stream freed is merged", what_one_stream_freed_is_merged},
    {"settled fences are forgotten and merged", settled_fences_are_forgotten_and_merged},
    {"each stream settles up to its own epoch", each_stream_settles_up_to_its_own_epoch},
    {"joined parts carry all their users", joined_parts_carry_all_their_users},
    {"marked streams hold a freed block", marked_streams_hold_a_freed_block},
    {"settling takes the oldest first", settling_takes_the_oldest_first},
#if defined(DAO_FAULTS)
    {"without memory a stream does without bins", without_memory_a_stream_does_without_bins},
#endif
    {"random fences never get lost", random_fences_never_get_lost},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"range, fences", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
