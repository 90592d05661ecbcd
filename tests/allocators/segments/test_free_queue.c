/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of frees for threads that must not take the owner's lock. */
#include "allocators/segments/free_queue.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"

#define REFUSED ((void *)(uintptr_t)999)

static dao_free_queue_t queue;
static void *given[256];
static size_t given_count;

static void begin(void)
{
    dao_free_queue_init(&queue);
    given_count = 0;
}

static void end(void)
{
    dao_free_queue_finish(&queue);
}

static void *address_of(size_t number)
{
    return (void *)(uintptr_t)(4096 + number * 64);
}

static dao_status_t give(void *user, void *address, dao_block_owner_t owner)
{
    CU_ASSERT_PTR_EQUAL(user, &queue);
    CU_ASSERT_EQUAL(owner, DAO_BLOCK_OWNER_RAW);
    given[given_count++] = address;
    return address == REFUSED ? DAO_ERR_FOREIGN_POINTER : DAO_OK;
}

static void what_was_pushed_is_given_once(void)
{
    CU_ASSERT_EQUAL_FATAL(dao_free_queue_reserve(&queue, 3), DAO_OK);
    for (size_t i = 0; i < 3; i++) {
        dao_free_queue_push(&queue, address_of(i), DAO_BLOCK_OWNER_RAW);
    }
    CU_ASSERT_EQUAL(atomic_load(&queue.pending_count), 3);
    CU_ASSERT_EQUAL(dao_free_queue_reclaim(&queue, DAO_FREE_QUEUE_NONE, give, &queue), DAO_FREE_QUEUE_NONE);
    CU_ASSERT_EQUAL(given_count, 3);
    CU_ASSERT_EQUAL(atomic_load(&queue.pending_count), 0);
    size_t sum = 0;
    for (size_t i = 0; i < given_count; i++) {
        sum += (uintptr_t)given[i];
    }
    CU_ASSERT_EQUAL(sum, (uintptr_t)address_of(0) + (uintptr_t)address_of(1) + (uintptr_t)address_of(2));
    CU_ASSERT_EQUAL(dao_free_queue_take(&queue), DAO_FREE_QUEUE_NONE);
}

static void without_slots_a_push_is_lost_and_counted(void)
{
    dao_free_queue_push(&queue, address_of(1), DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(atomic_load(&queue.lost_count), 1);
    CU_ASSERT_EQUAL(dao_free_queue_reclaim(&queue, DAO_FREE_QUEUE_NONE, give, &queue), DAO_FREE_QUEUE_NONE);
    CU_ASSERT_EQUAL(given_count, 0);
    dao_free_queue_report(&queue, DAO_FREE_QUEUE_NONE, "test");
    CU_ASSERT_EQUAL(atomic_load(&queue.lost_count), 0); /* told once */
}

static void there_is_a_slot_for_every_live_block_and_some_to_spare(void)
{
    size_t live_count = 100;
    CU_ASSERT_EQUAL_FATAL(dao_free_queue_reserve(&queue, live_count), DAO_OK);
    CU_ASSERT_TRUE(queue.slot_count >= live_count + DAO_FREE_QUEUE_SPARE_COUNT);
    for (size_t i = 0; i < live_count + DAO_FREE_QUEUE_SPARE_COUNT; i++) {
        dao_free_queue_push(&queue, address_of(i), DAO_BLOCK_OWNER_RAW);
    }
    CU_ASSERT_EQUAL(atomic_load(&queue.lost_count), 0);
    CU_ASSERT_EQUAL(dao_free_queue_reclaim(&queue, DAO_FREE_QUEUE_NONE, give, &queue), DAO_FREE_QUEUE_NONE);
    CU_ASSERT_EQUAL(given_count, live_count + DAO_FREE_QUEUE_SPARE_COUNT);
}

static void refused_addresses_keep_their_slots_until_they_are_told(void)
{
    CU_ASSERT_EQUAL_FATAL(dao_free_queue_reserve(&queue, 2), DAO_OK);
    dao_free_queue_push(&queue, REFUSED, DAO_BLOCK_OWNER_RAW);
    dao_free_queue_push(&queue, address_of(1), DAO_BLOCK_OWNER_RAW);
    uint32_t wrong = dao_free_queue_reclaim(&queue, DAO_FREE_QUEUE_NONE, give, &queue);
    CU_ASSERT_NOT_EQUAL_FATAL(wrong, DAO_FREE_QUEUE_NONE);
    CU_ASSERT_PTR_EQUAL(dao_free_queue_slot(&queue, wrong)->address, REFUSED);
    CU_ASSERT_EQUAL(dao_free_queue_slot(&queue, wrong)->status, DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(atomic_load(&dao_free_queue_slot(&queue, wrong)->next), DAO_FREE_QUEUE_NONE);
    dao_free_queue_report(&queue, wrong, "test");
    for (size_t i = 0; i < queue.slot_count; i++) { /* all slots are free again */
        dao_free_queue_push(&queue, address_of(i), DAO_BLOCK_OWNER_RAW);
    }
    CU_ASSERT_EQUAL(atomic_load(&queue.lost_count), 0);
    CU_ASSERT_EQUAL(dao_free_queue_reclaim(&queue, DAO_FREE_QUEUE_NONE, give, &queue), DAO_FREE_QUEUE_NONE);
}

#if defined(DAO_FAULTS)
static void without_memory_the_slots_stay_as_they_are(void)
{
    CU_ASSERT_EQUAL_FATAL(dao_free_queue_reserve(&queue, 1), DAO_OK);
    uint32_t slot_count = queue.slot_count;
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    CU_ASSERT_EQUAL(dao_free_queue_reserve(&queue, 10000), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_TRUE(dao_fault_disarm() > 0);
    CU_ASSERT_EQUAL(queue.slot_count, slot_count);
    dao_free_queue_push(&queue, address_of(1), DAO_BLOCK_OWNER_RAW);
    CU_ASSERT_EQUAL(dao_free_queue_reclaim(&queue, DAO_FREE_QUEUE_NONE, give, &queue), DAO_FREE_QUEUE_NONE);
    CU_ASSERT_EQUAL(given_count, 1);
}
#endif

static CU_TestInfo tests[] = {
    {"what was pushed is given once", what_was_pushed_is_given_once},
    {"without slots a push is lost and counted", without_slots_a_push_is_lost_and_counted},
    {"there is a slot for every live block and some to spare",
     there_is_a_slot_for_every_live_block_and_some_to_spare},
    {"refused addresses keep their slots until they are told",
     refused_addresses_keep_their_slots_until_they_are_told},
#if defined(DAO_FAULTS)
    {"without memory the slots stay as they are", without_memory_the_slots_stay_as_they_are},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"free queue", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
