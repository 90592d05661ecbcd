/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned slots: the limit counts slots that copies still use, and a slot is freed only behind them. */
#include "base/report/error.h"
#include "base/report/fault.h"
#include "runtime/executor/tiers/host_tier.h"
#include "tests/support/suite.h"

#include <string.h>

#define SLOT  ((size_t)100)
#define LIMIT (10 * SLOT)

enum { BLOCKS = 64 };

static char blocks[BLOCKS];
static bool is_taken[BLOCKS];
static uint32_t live_count, wait_count;
static dao_timeline_t timeline; /* numbers alone: nothing is ever queued */
static dao_host_tier_t tier;

static dao_status_t fake_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                               dao_block_grant_t *out_grant)
{
    (void)allocator;
    (void)request;
    for (int i = 0; i < BLOCKS; i++) {
        if (!is_taken[i]) {
            is_taken[i] = true;
            live_count++;
            out_grant->address = &blocks[i];
            return DAO_OK;
        }
    }
    return dao_error(DAO_ERR_LIMIT, "no block is left");
}

static dao_status_t fake_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence,
                              dao_block_owner_t owner)
{
    (void)allocator;
    (void)fence;
    CU_ASSERT_EQUAL(owner, DAO_BLOCK_OWNER_POOL);
    size_t index = (size_t)((char *)address - blocks);
    CU_ASSERT_TRUE_FATAL(index < BLOCKS && is_taken[index]);
    is_taken[index] = false;
    live_count--;
    return DAO_OK;
}

static const dao_allocator_ops_t allocator_ops = {
    .name = "fake", .alloc = fake_alloc, .free_owned = fake_free};
static dao_allocator_t allocator = {.ops = &allocator_ops};

static dao_status_t count_wait(dao_backend_event_t *event)
{
    (void)event;
    wait_count++;
    return DAO_OK;
}

static dao_status_t not_ready(dao_backend_event_t *event)
{
    (void)event;
    return DAO_ERR_NOT_READY;
}

static const dao_backend_ops_t ops = {.event_synchronize = count_wait, .event_query = not_ready};

static void begin(uint64_t limit_bytes)
{
    memset(&timeline, 0, sizeof(timeline));
    timeline.ops = &ops;
    timeline.streams[DAO_STREAM_ROLE_D2H].issued = 100;
    wait_count = 0;
    dao_host_tier_init(&tier, &allocator, limit_bytes, false);
}

static void end(void)
{
    timeline.streams[DAO_STREAM_ROLE_D2H].completed = 100;
    dao_host_tier_purge(&tier, &timeline);
    dao_host_tier_finish(&tier);
    CU_ASSERT_EQUAL(live_count, 0);
}

static void *take(void)
{
    void *address = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_host_tier_take(&tier, &timeline, SLOT, &address), DAO_OK);
    return address;
}

static void give(void *address, uint64_t sequence)
{
    dao_fence_t fence = {0};
    dao_fence_add(&fence, DAO_STREAM_ROLE_D2H, sequence);
    CU_ASSERT_EQUAL(dao_host_tier_give(&tier, &timeline, address, SLOT, &fence), DAO_OK);
    CU_ASSERT_TRUE(dao_host_tier_is_valid(&tier));
}

static void a_slot_is_free_at_once_where_nothing_uses_it(void)
{
    begin(LIMIT);
    void *address = take();
    CU_ASSERT_EQUAL(tier.used_bytes, SLOT);
    give(address, 0);
    CU_ASSERT_EQUAL(tier.used_bytes, 0);
    CU_ASSERT_EQUAL(tier.peak_used_bytes, SLOT);
    end();
}

static void a_slot_in_use_is_pending_until_its_copies_are_done(void)
{
    begin(LIMIT);
    give(take(), 5);
    CU_ASSERT_EQUAL(dao_fence_queue_count(&tier.pending), 1);
    CU_ASSERT_EQUAL(tier.used_bytes, SLOT);
    timeline.streams[DAO_STREAM_ROLE_D2H].completed = 4;
    dao_host_tier_purge(&tier, &timeline);
    CU_ASSERT_EQUAL(dao_fence_queue_count(&tier.pending), 1);
    timeline.streams[DAO_STREAM_ROLE_D2H].completed = 5;
    dao_host_tier_purge(&tier, &timeline);
    CU_ASSERT_EQUAL(tier.used_bytes, 0);
    end();
}

static void the_limit_waits_for_pending_slots_and_then_refuses(void)
{
    void *addresses[LIMIT / SLOT];
    void *address = NULL;
    begin(LIMIT);
    for (size_t i = 0; i < LIMIT / SLOT; i++) {
        addresses[i] = take();
    }
    CU_ASSERT_EQUAL(dao_host_tier_take(&tier, &timeline, SLOT, &address), DAO_ERR_HOST_FULL);
    CU_ASSERT_EQUAL(wait_count, 0);
    give(addresses[0], 3);
    addresses[0] = take(); /* behind the copy */
    CU_ASSERT_EQUAL(wait_count, 1);
    CU_ASSERT_EQUAL(timeline.throttle_count, 1);
    CU_ASSERT_EQUAL(dao_host_tier_take(&tier, &timeline, 2 * LIMIT, &address), DAO_ERR_HOST_FULL);
    for (size_t i = 0; i < LIMIT / SLOT; i++) {
        give(addresses[i], 0);
    }
    end();
}

static void room_to_spare_leaves_a_share_free(void)
{
    begin(LIMIT);
    CU_ASSERT_TRUE(dao_host_tier_could_hold(&tier, LIMIT));
    CU_ASSERT_FALSE(dao_host_tier_could_hold(&tier, LIMIT + 1));
    CU_ASSERT_TRUE(dao_host_tier_has_spare(&tier, LIMIT / 100 * (100 - DAO_HOST_TIER_SPARE_PERCENT)));
    CU_ASSERT_FALSE(dao_host_tier_has_spare(&tier, LIMIT / 100 * (100 - DAO_HOST_TIER_SPARE_PERCENT) + 1));
    tier.limit_bytes = 0;
    CU_ASSERT_TRUE(dao_host_tier_has_spare(&tier, SIZE_MAX));
    end();
}

#if defined(DAO_FAULTS)
static void without_memory_for_the_record_the_host_waits(void)
{
    begin(LIMIT);
    void *address = take();
    dao_fence_t fence = {0};
    dao_fence_add(&fence, DAO_STREAM_ROLE_D2H, 8);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    dao_status_t status = dao_host_tier_give(&tier, &timeline, address, SLOT, &fence);
    (void)dao_fault_disarm();
    CU_ASSERT_EQUAL(status, DAO_OK);
    CU_ASSERT_EQUAL(wait_count, 1);
    CU_ASSERT_EQUAL(tier.used_bytes, 0);
    end();
}
#endif

/* Against a model that remembers every slot and its number. */
static void random_slots_are_counted_as_in_a_model(void)
{
    uint64_t seed = dao_test_seed("random slots are counted as in a model", 3);
    void *taken[LIMIT / SLOT];
    uint64_t pending[BLOCKS]; /* numbers of slots given back */
    size_t taken_count = 0, pending_count = 0;
    begin(LIMIT);
    for (int i = 0; i < 5000; i++) {
        bool is_full = taken_count + pending_count == LIMIT / SLOT;
        uint64_t done = timeline.streams[DAO_STREAM_ROLE_D2H].completed;
        if (dao_random_below(&seed, 2) == 0 && !is_full) {
            taken[taken_count++] = take();
        } else if (taken_count > 0) {
            uint64_t sequence = dao_random_between(&seed, 1, timeline.streams[DAO_STREAM_ROLE_D2H].issued);
            give(taken[--taken_count], sequence);
            if (sequence > done) {
                pending[pending_count++] = sequence;
            }
        }
        if (dao_random_below(&seed, 8) == 0) {
            timeline.streams[DAO_STREAM_ROLE_D2H].completed += dao_random_below(&seed, 4);
            timeline.streams[DAO_STREAM_ROLE_D2H].issued =
                timeline.streams[DAO_STREAM_ROLE_D2H].completed + 20;
        }
        done = timeline.streams[DAO_STREAM_ROLE_D2H].completed;
        dao_host_tier_purge(&tier, &timeline);
        size_t kept = 0;
        for (size_t k = 0; k < pending_count; k++) {
            if (pending[k] > done) {
                pending[kept++] = pending[k];
            }
        }
        pending_count = kept;
        CU_ASSERT_EQUAL_FATAL(tier.used_bytes, (taken_count + pending_count) * SLOT);
        CU_ASSERT_EQUAL_FATAL(live_count, taken_count + pending_count);
    }
    while (taken_count > 0) {
        give(taken[--taken_count], 0);
    }
    timeline.streams[DAO_STREAM_ROLE_D2H].completed = timeline.streams[DAO_STREAM_ROLE_D2H].issued;
    dao_host_tier_purge(&tier, &timeline);
    end();
}

static CU_TestInfo tests[] = {
    {"a slot is free at once where nothing uses it", a_slot_is_free_at_once_where_nothing_uses_it},
    {"a slot in use is pending until its copies are done",
     a_slot_in_use_is_pending_until_its_copies_are_done},
    {"the limit waits for pending slots and then refuses",
     the_limit_waits_for_pending_slots_and_then_refuses},
    {"room to spare leaves a share free", room_to_spare_leaves_a_share_free},
#if defined(DAO_FAULTS)
    {"without memory for the record the host waits", without_memory_for_the_record_the_host_waits},
#endif
    {"random slots are counted as in a model", random_slots_are_counted_as_in_a_model},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"host tier", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
