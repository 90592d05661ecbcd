/* SPDX-License-Identifier: Apache-2.0 */
/* The device arena: whoever takes a part learns what its earlier users still have in flight, and nothing
   else. */
#include "base/report/fault.h"
#include "runtime/executor/tiers/device_arena.h"
#include "tests/support/suite.h"

#include <string.h>

#define PART     ((uint64_t)1024)
#define CAPACITY (16 * PART)

static uint64_t wait_count;
static dao_timeline_t timeline; /* numbers alone: nothing is ever queued */
static dao_device_arena_t arena;

static dao_status_t count_wait(dao_backend_event_t *event)
{
    (void)event;
    wait_count++;
    return DAO_OK;
}

static const dao_backend_ops_t ops = {.event_synchronize = count_wait};

static void start(void)
{
    memset(&timeline, 0, sizeof(timeline));
    timeline.ops = &ops;
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        timeline.streams[i].issued = 100;
    }
    wait_count = 0;
    CU_ASSERT_EQUAL_FATAL(dao_device_arena_init(&arena, NULL, CAPACITY), DAO_OK);
}

static void finish(void)
{
    dao_device_arena_finish(&arena);
}

static uint64_t take(uint64_t size_bytes)
{
    uint64_t offset = UINT64_MAX;
    CU_ASSERT_EQUAL_FATAL(dao_device_arena_take(&arena, size_bytes, 1, &offset), DAO_OK);
    return offset;
}

static void give(uint64_t offset, dao_stream_role_t stream, uint64_t sequence)
{
    dao_fence_t fence = {0};
    dao_range_block_t block;
    dao_fence_add(&fence, stream, sequence);
    CU_ASSERT_EQUAL_FATAL(dao_range_query(arena.range, offset, &block), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_arena_give(&arena, &timeline, offset, block.size_bytes, &fence), DAO_OK);
    CU_ASSERT_TRUE(dao_device_arena_is_valid(&arena));
}

/* The number on a stream that the taker of a part has to wait for. */
static uint64_t fence_of(uint64_t offset, uint64_t size_bytes, dao_stream_role_t stream)
{
    dao_fence_t fence = {0};
    dao_device_arena_fence(&arena, offset, size_bytes, &fence);
    return dao_fence_number(&fence, stream);
}

static void a_taker_waits_for_the_users_of_its_part_alone(void)
{
    start();
    uint64_t a = take(PART);
    uint64_t b = take(PART);
    uint64_t c = take(PART);
    give(a, DAO_STREAM_ROLE_COMPUTE, 5);
    give(b, DAO_STREAM_ROLE_D2H, 7);
    CU_ASSERT_EQUAL(fence_of(a, PART, DAO_STREAM_ROLE_COMPUTE), 5);
    CU_ASSERT_EQUAL(fence_of(a, PART, DAO_STREAM_ROLE_D2H), 0);
    CU_ASSERT_EQUAL(fence_of(a + PART - 256, 512, DAO_STREAM_ROLE_COMPUTE),
                    5); /* the end of one, the other's begin */
    CU_ASSERT_EQUAL(fence_of(a + PART - 256, 512, DAO_STREAM_ROLE_D2H), 7);
    CU_ASSERT_EQUAL(fence_of(c, PART, DAO_STREAM_ROLE_D2H), 0);
    give(c, DAO_STREAM_ROLE_COMPUTE, 0);
    finish();
}

/* A part that is taken and given back again by somebody who queued nothing is as busy as before. */
static void a_fence_outlives_the_next_owner(void)
{
    start();
    uint64_t a = take(PART);
    give(a, DAO_STREAM_ROLE_H2D, 9);
    CU_ASSERT_EQUAL(take(2 * PART), a);
    give(a, DAO_STREAM_ROLE_COMPUTE, 0);
    CU_ASSERT_EQUAL(fence_of(a, PART, DAO_STREAM_ROLE_H2D), 9);
    timeline.streams[DAO_STREAM_ROLE_H2D].completed = 9;
    dao_device_arena_purge(&arena, &timeline);
    CU_ASSERT_EQUAL(dao_fence_queue_count(&arena.fences.queue), 0);
    finish();
}

static void fences_that_are_done_make_room_for_new_ones(void)
{
    start();
    for (uint64_t i = 1; i <= 100; i++) {
        give(take(PART), DAO_STREAM_ROLE_COMPUTE, i);
        timeline.streams[DAO_STREAM_ROLE_COMPUTE].completed = i > 10 ? i - 10 : 0;
    }
    CU_ASSERT_EQUAL(arena.fences.queue.capacity, 64);
    CU_ASSERT_EQUAL(fence_of(0, CAPACITY, DAO_STREAM_ROLE_COMPUTE), 100);
    finish();
}

#if defined(DAO_FAULTS)

static void without_memory_for_a_fence_the_host_waits(void)
{
    start();
    uint64_t a = take(PART);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    give(a, DAO_STREAM_ROLE_COMPUTE, 3);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    CU_ASSERT_EQUAL(wait_count, 1);
    CU_ASSERT_EQUAL(timeline.streams[DAO_STREAM_ROLE_COMPUTE].completed, 3);
    CU_ASSERT_EQUAL(dao_fence_queue_count(&arena.fences.queue), 0);
    CU_ASSERT_EQUAL(dao_range_used(arena.range), 0);
    finish();
}

#endif

static void a_full_arena_says_so_and_its_peak_stays(void)
{
    start();
    uint64_t all = take(CAPACITY);
    uint64_t offset = 7;
    CU_ASSERT_EQUAL(dao_device_arena_take(&arena, 1, 1, &offset), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(offset, 7);
    give(all, DAO_STREAM_ROLE_COMPUTE, 0);
    CU_ASSERT_EQUAL(dao_device_arena_take_at(&arena, 3 * PART, PART, 1), DAO_OK);
    CU_ASSERT_EQUAL(arena.peak_used_bytes, CAPACITY);
    give(3 * PART, DAO_STREAM_ROLE_COMPUTE, 0);
    finish();
}

/* Takes a part for one stream that others do not use; UINT64_MAX: there is none. */
static uint64_t take_idle(dao_stream_role_t stream, uint64_t size_bytes)
{
    uint64_t offset = UINT64_MAX;
    dao_status_t status = dao_device_arena_take_idle(&arena, &timeline, stream, size_bytes, 1, &offset);
    CU_ASSERT_EQUAL(status, offset == UINT64_MAX ? DAO_ERR_LIMIT : DAO_OK);
    CU_ASSERT_TRUE(dao_device_arena_is_valid(&arena));
    return offset;
}

static void a_stream_takes_what_others_do_not_use(void)
{
    dao_stream_role_t first = dao_timeline_compute(0), second = dao_timeline_compute(1);
    start();
    timeline.streams[second].issued = 100;
    uint64_t a = take(PART), b = take(PART), c = take(PART), rest = take(CAPACITY - 3 * PART);
    give(a, second, 5);
    give(b, first, 6);
    give(c, first, 7);
    CU_ASSERT_EQUAL(take_idle(first, PART), b); /* within a hole of three parts */
    CU_ASSERT_EQUAL(take_idle(second, PART), a);
    CU_ASSERT_EQUAL(take_idle(second, PART), UINT64_MAX);
    timeline.streams[first].completed = 7;
    CU_ASSERT_EQUAL(take_idle(second, PART - 1), c);
    CU_ASSERT_EQUAL(take_idle(first, 1), UINT64_MAX); /* all is taken */
    give(rest, second, 8);
    CU_ASSERT_EQUAL(take_idle(first, PART), UINT64_MAX);
    CU_ASSERT_EQUAL(take_idle(second, CAPACITY - 3 * PART), rest);
    finish();
}

static CU_TestInfo tests[] = {
    {"a taker waits for the users of its part alone", a_taker_waits_for_the_users_of_its_part_alone},
    {"a fence outlives the next owner", a_fence_outlives_the_next_owner},
    {"fences that are done make room for new ones", fences_that_are_done_make_room_for_new_ones},
    {"a stream takes what others do not use", a_stream_takes_what_others_do_not_use},
#if defined(DAO_FAULTS)
    {"without memory for a fence the host waits", without_memory_for_a_fence_the_host_waits},
#endif
    {"a full arena says so and its peak stays", a_full_arena_says_so_and_its_peak_stays},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"arena", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
