/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of fences: what leaves, and when, against a model; without memory nothing is lost. */
#include "base/numbers/random.h"
#include "base/report/fault.h"
#include "runtime/executor/streams/fence_queue.h"
#include "tests/support/suite.h"

#include <string.h>

enum { ENTRIES = 400 };

static dao_fence_queue_t queue;
static dao_timeline_t timeline;
static uint32_t left_counts[ENTRIES]; /* times that an entry has left */

static void leave(void *user, const dao_fenced_t *entry)
{
    CU_ASSERT_PTR_EQUAL(user, left_counts);
    CU_ASSERT_TRUE_FATAL(entry->begin < ENTRIES);
    left_counts[entry->begin]++;
}

static void begin(void)
{
    memset(&queue, 0, sizeof(queue));
    memset(&timeline, 0, sizeof(timeline));
    memset(left_counts, 0, sizeof(left_counts));
    queue.leave = leave;
    queue.user = left_counts;
}

static dao_fenced_t entry_of(uint64_t number, dao_stream_role_t stream, uint64_t sequence)
{
    dao_fenced_t entry = {.begin = number, .size_bytes = 1};
    dao_fence_add(&entry.fence, stream, sequence);
    return entry;
}

static void push(uint64_t number, dao_stream_role_t stream, uint64_t sequence)
{
    dao_fenced_t entry = entry_of(number, stream, sequence);
    CU_ASSERT_TRUE(dao_fence_queue_push(&queue, &timeline, &entry));
    CU_ASSERT_TRUE(dao_fence_queue_is_valid(&queue));
}

static void a_trim_ends_at_what_is_in_use(void)
{
    begin();
    push(0, DAO_STREAM_ROLE_COMPUTE, 1);
    push(1, DAO_STREAM_ROLE_D2H, 5);
    push(2, DAO_STREAM_ROLE_COMPUTE, 2);
    timeline.streams[DAO_STREAM_ROLE_COMPUTE].completed = 2;
    dao_fence_queue_trim(&queue, &timeline);
    CU_ASSERT_EQUAL(dao_fence_queue_count(&queue), 2);
    CU_ASSERT_TRUE(left_counts[0] == 1 && left_counts[1] == 0 && left_counts[2] == 0);
    dao_fence_queue_sweep(&queue, &timeline);
    CU_ASSERT_EQUAL(dao_fence_queue_count(&queue), 1);
    CU_ASSERT_TRUE(left_counts[1] == 0 && left_counts[2] == 1);
    dao_fence_queue_finish(&queue);
    CU_ASSERT_EQUAL(left_counts[1], 1);
}

static void what_has_left_makes_room(void)
{
    begin();
    for (uint64_t i = 0; i < ENTRIES; i++) {
        push(i, DAO_STREAM_ROLE_COMPUTE, i + 1);
        timeline.streams[DAO_STREAM_ROLE_COMPUTE].completed = i > 10 ? i - 10 : 0;
    }
    CU_ASSERT_EQUAL(queue.capacity, 64); /* for the eleven that are in use */
    dao_fence_queue_finish(&queue);
}

/* Every entry leaves once, and none while it is in use. */
static void random_entries_leave_once_and_not_before_they_are_done(void)
{
    uint64_t seed = dao_test_seed("random entries leave once and not before they are done", 11);
    uint64_t sequences[ENTRIES];
    dao_stream_role_t streams[ENTRIES];
    begin();
    for (uint64_t i = 0; i < ENTRIES; i++) {
        streams[i] = (dao_stream_role_t)dao_random_below(&seed, DAO_STREAM_ROLE_COUNT);
        sequences[i] = dao_random_between(&seed, 1, i + 10);
        push(i, streams[i], sequences[i]);
        dao_timeline_stream_t *stream = &timeline.streams[dao_random_below(&seed, DAO_STREAM_ROLE_COUNT)];
        stream->completed += dao_random_below(&seed, 6);
        uint64_t choice = dao_random_below(&seed, 4);
        if (choice == 0) {
            dao_fence_queue_sweep(&queue, &timeline);
        } else {
            dao_fence_queue_trim(&queue, &timeline);
        }
        for (uint64_t k = 0; k <= i; k++) {
            bool is_done = timeline.streams[streams[k]].completed >= sequences[k];
            CU_ASSERT_TRUE(left_counts[k] <= (is_done ? 1u : 0u));
            CU_ASSERT_TRUE(choice != 0 || left_counts[k] == (is_done ? 1u : 0u));
        }
    }
    dao_fence_queue_finish(&queue);
    for (uint64_t i = 0; i < ENTRIES; i++) {
        CU_ASSERT_EQUAL(left_counts[i], 1);
    }
}

#if defined(DAO_FAULTS)
static void without_memory_the_queue_keeps_what_it_has(void)
{
    begin();
    for (uint64_t i = 0; i < 64; i++) {
        push(i, DAO_STREAM_ROLE_COMPUTE, i + 1);
    }
    dao_fenced_t entry = entry_of(64, DAO_STREAM_ROLE_COMPUTE, 65);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    CU_ASSERT_FALSE(dao_fence_queue_push(&queue, &timeline, &entry));
    CU_ASSERT_EQUAL(dao_fence_queue_count(&queue), 64);
    timeline.streams[DAO_STREAM_ROLE_COMPUTE].completed = 1;
    CU_ASSERT_TRUE(dao_fence_queue_push(&queue, &timeline, &entry)); /* in the place of the first */
    (void)dao_fault_disarm();
    CU_ASSERT_EQUAL(left_counts[0], 1);
    CU_ASSERT_EQUAL(dao_fence_queue_count(&queue), 64);
    dao_fence_queue_finish(&queue);
}
#endif

static CU_TestInfo tests[] = {
    {"a trim ends at what is in use", a_trim_ends_at_what_is_in_use},
    {"what has left makes room", what_has_left_makes_room},
    {"random entries leave once and not before they are done",
     random_entries_leave_once_and_not_before_they_are_done},
#if defined(DAO_FAULTS)
    {"without memory the queue keeps what it has", without_memory_the_queue_keeps_what_it_has},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"fence queue", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
