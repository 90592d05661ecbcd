/* SPDX-License-Identifier: Apache-2.0 */
/* Fences of stretches against a model that looks at all of them. */
#include "base/numbers/random.h"
#include "base/report/fault.h"
#include "runtime/executor/tiers/fence_map.h"
#include "tests/support/suite.h"

#include <string.h>

#define COMPUTE DAO_STREAM_ROLE_COMPUTE

enum { ENTRIES = 3000, ROUNDS = 4 };

static dao_fence_map_t map;
static dao_timeline_t timeline;
static dao_fenced_t model[ENTRIES];

static void begin(uint64_t capacity_bytes)
{
    memset(&timeline, 0, sizeof(timeline));
    dao_fence_map_init(&map, capacity_bytes);
}

static bool push(uint64_t number, uint64_t begin_bytes, uint64_t size_bytes)
{
    dao_fenced_t entry = {.begin = begin_bytes, .size_bytes = size_bytes};
    dao_fence_add(&entry.fence, COMPUTE, number + 1);
    model[number] = entry;
    return dao_fence_map_push(&map, &timeline, &entry);
}

/* The latest of the first `count` entries that are in use and have a byte of a stretch. */
static uint64_t expected(uint64_t count, uint64_t begin_bytes, uint64_t end_bytes)
{
    uint64_t latest = 0;
    for (uint64_t i = timeline.streams[COMPUTE].completed; i < count; i++) {
        if (model[i].begin < end_bytes && begin_bytes < model[i].begin + model[i].size_bytes) {
            latest = i + 1;
        }
    }
    return latest;
}

/* The furthest end of these. */
static uint64_t furthest(uint64_t count, uint64_t begin_bytes, uint64_t end_bytes)
{
    uint64_t end = 0;
    for (uint64_t i = timeline.streams[COMPUTE].completed; i < count; i++) {
        uint64_t own_end = model[i].begin + model[i].size_bytes;
        bool is_hit = model[i].begin < end_bytes && begin_bytes < own_end;
        end = is_hit && own_end > end ? own_end : end;
    }
    return end;
}

static void expect(uint64_t count, uint64_t begin_bytes, uint64_t end_bytes)
{
    dao_fence_t fence = {0};
    dao_fence_map_join(&map, begin_bytes, end_bytes, &fence);
    uint64_t done = timeline.streams[COMPUTE].completed;
    uint64_t found = dao_fence_number(&fence, COMPUTE) > done ? dao_fence_number(&fence, COMPUTE) : 0;
    CU_ASSERT_EQUAL_FATAL(found, expected(count, begin_bytes, end_bytes));
    CU_ASSERT_EQUAL_FATAL(
        dao_fence_map_busy_end(&map, &timeline, DAO_STREAM_ROLE_H2D, begin_bytes, end_bytes),
        furthest(count, begin_bytes, end_bytes));
    CU_ASSERT_EQUAL_FATAL(dao_fence_map_busy_end(&map, &timeline, COMPUTE, begin_bytes, end_bytes), 0);
}

static void random_stretches_have_the_fences_of_a_model(void)
{
    static const uint64_t capacities[ROUNDS] = {16, 1000, 65536, UINT64_C(1) << 40};
    uint64_t seed = dao_test_seed("random stretches have the fences of a model", 5);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t capacity = capacities[round];
        begin(capacity);
        for (uint64_t i = 0; i < ENTRIES; i++) {
            uint64_t longest = dao_random_below(&seed, 8) == 0 ? capacity : capacity / 40 + 1;
            uint64_t from = dao_random_below(&seed, capacity);
            uint64_t size =
                dao_random_between(&seed, 1, longest < capacity - from ? longest : capacity - from);
            CU_ASSERT_TRUE(push(i, from, size));
            timeline.streams[COMPUTE].completed +=
                timeline.streams[COMPUTE].completed < i ? dao_random_below(&seed, 3) : 0;
            if (dao_random_below(&seed, 4) == 0) {
                dao_fence_queue_trim(&map.queue, &timeline);
            }
            expect(i + 1, from, from + size);
            from = dao_random_below(&seed, capacity);
            expect(i + 1, from, dao_random_between(&seed, from + 1, capacity));
        }
        dao_fence_map_clear(&map);
        CU_ASSERT_EQUAL(dao_fence_queue_count(&map.queue), 0);
        expect(0, 0, capacity);
        dao_fence_map_finish(&map);
    }
}

#if defined(DAO_FAULTS)
static void a_refused_entry_leaves_all_others(void)
{
    begin(65536);
    for (uint64_t i = 0; i < 64; i++) {
        CU_ASSERT_TRUE(push(i, 64 * i, 64));
    }
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    CU_ASSERT_FALSE(push(64, 0, 64));
    (void)dao_fault_disarm();
    for (uint64_t i = 0; i < 64; i++) {
        expect(64, 64 * i, 64 * i + 64);
    }
    dao_fence_map_finish(&map);
}
#endif

static CU_TestInfo tests[] = {
    {"random stretches have the fences of a model", random_stretches_have_the_fences_of_a_model},
#if defined(DAO_FAULTS)
    {"a refused entry leaves all others", a_refused_entry_leaves_all_others},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"fence map", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
