/* SPDX-License-Identifier: Apache-2.0 */
/* Stream order and leases in front of allocators that have neither: the contract of allocators, what each
   sentence says, and what fails. Each test runs over every kind of ordered_kinds.h. */
#include "allocators/accounting/ledger.h"
#include "allocators/layers/hardened.h"
#include "allocators/segments/pinned.h"
#include "base/log.h"
#include "base/report/fault.h"
#include "tests/allocators/layers/ordered_kinds.h"
#include "tests/contract/allocator_contract.h"

#include <string.h>

/* ---- the contract ---- */

static size_t contract_kind;

static dao_status_t contract_create(dao_allocator_t **out_allocator)
{
    return ordered_create(&ordered_kinds[contract_kind], 0, out_allocator);
}

static void contract_begin_on(size_t kind)
{
    static allocator_contract_t contracts[ORDERED_KIND_COUNT];
    contract_kind = kind;
    contracts[kind] =
        (allocator_contract_t){.create = contract_create,
                               .destroy = ordered_destroy,
                               .alignment_bytes = ORDERED_ALIGNMENT_BYTES,
                               .extra_bytes = ordered_kinds[kind].is_hardened ? DAO_HARDENED_GUARD_BYTES : 0,
                               .is_uncached = ordered_kinds[kind].is_uncached};
    controlled_streams_begin(&ordered_streams);
    allocator_contract_begin_on(&contracts[kind]);
}

static void contract_end(void)
{
    allocator_contract_end();
    controlled_streams_end(&ordered_streams);
}

static void buddy_contract_begin(void)
{
    contract_begin_on(ORDERED_BUDDY);
}

static void class_contract_begin(void)
{
    contract_begin_on(ORDERED_CLASSES);
}

static void system_contract_begin(void)
{
    contract_begin_on(ORDERED_SYSTEM);
}

static void segments_contract_begin(void)
{
    contract_begin_on(ORDERED_SEGMENTED);
}

/* ---- streams ---- */

static void a_block_waits_for_its_stream(void)
{
    for (size_t k = 0; k < ORDERED_KIND_COUNT; k++) {
        ordered_begin(k, 0);
        char *block = ordered_take(100 * KIB, 0, 0);
        uint64_t block_bytes = ordered_stats_now().used_bytes;
        CU_ASSERT_TRUE(block_bytes >= 100 * KIB);
        ordered_give(block, 0);
        CU_ASSERT_EQUAL(ordered_stats_now().used_bytes, 0);
        CU_ASSERT_EQUAL(ordered_try_give(block, 0), DAO_ERR_DOUBLE_FREE);
        CU_ASSERT_EQUAL(ordered_try_give(block, -1), DAO_ERR_DOUBLE_FREE);
        dao_block_t found;
        CU_ASSERT_EQUAL(ordered->ops->query(ordered, block, &found), DAO_ERR_FOREIGN_POINTER);
        char *plain = ordered_take(100 * KIB, -1, 0), *other = ordered_take(100 * KIB, 1, 0);
        CU_ASSERT_PTR_NOT_EQUAL(plain, block);
        CU_ASSERT_PTR_NOT_EQUAL(other, block);
        CU_ASSERT_EQUAL(ordered_stats_now().used_bytes, 2 * block_bytes);
        ordered_give(plain, -1);
        ordered_give(other, -1);
        size_t released_bytes;
        CU_ASSERT_EQUAL(ordered->ops->trim(ordered, 0, &released_bytes), DAO_OK);
        CU_ASSERT_TRUE(ordered_stats_now().reserved_bytes >= block_bytes);
        controlled_streams_finish(0);
        CU_ASSERT_EQUAL(ordered->ops->trim(ordered, 0, &released_bytes), DAO_OK);
        CU_ASSERT_TRUE(released_bytes >= block_bytes);
        CU_ASSERT_EQUAL(ordered_stats_now().reserved_bytes, 0);
        ordered_end();
    }
}

static void its_own_stream_has_it_at_once(void)
{
    for (size_t k = 0; k < ORDERED_KIND_COUNT; k++) {
        ordered_begin(k, 0);
        char *block = ordered_take(100 * KIB, 0, 0), *marked = ordered_take(100 * KIB, 0, 0);
        CU_ASSERT_EQUAL(ordered->ops->stream_mark(ordered, marked, ordered_streams.numbers[1]), DAO_OK);
        ordered_give(marked, 0);
        ordered_give(block, 0);
        char *again = ordered_take(100 * KIB, 0, 0), *third = ordered_take(100 * KIB, 0, 0);
        CU_ASSERT_EQUAL(again == block, !ordered_kinds[k].is_hardened); /* which has a quarantine */
        CU_ASSERT_PTR_NOT_EQUAL(third, marked);                         /* the other stream may use it */
        ordered_give(again, -1);
        ordered_give(third, -1);
        controlled_streams_finish(0);
        controlled_streams_finish(1);
        ordered_end();
    }
}

static void where_nothing_else_is_left_another_stream_waits(void)
{
    for (size_t k = 0; k < ORDERED_HARDENED; k++) {
        ordered_begin(k, 1 * MIB);
        char *block = ordered_take(1 * MIB, 0, 0);
        ordered_give(block, 0);
        dao_block_grant_t grant;
        uint64_t failed_count = ordered_stats_now().failed_count - ordered->ledger->cured_count;
        CU_ASSERT_EQUAL(ordered_try_take(1 * MIB, -1, 0, &grant), DAO_ERR_LIMIT); /* idle memory alone */
        CU_ASSERT_EQUAL_FATAL(ordered_try_take(1 * MIB, 1, 0, &grant), DAO_OK);
        CU_ASSERT_PTR_EQUAL(grant.address, block);
        CU_ASSERT_TRUE(grant.fence.streams == UINT64_C(1) << ordered_streams.numbers[0]);
        CU_ASSERT_EQUAL(ordered_stats_now().failed_count - ordered->ledger->cured_count, failed_count + 1);
        CU_ASSERT_EQUAL(ordered_stats_now().used_bytes, 1 * MIB);
        ordered_give(block, -1);
        ordered_end();
    }
}

static void only_blocks_of_streams_are_marked(void)
{
    for (size_t k = 0; k < ORDERED_KIND_COUNT; k++) {
        ordered_begin(k, 0);
        char *block = ordered_take(10 * KIB, 0, 0), *plain = ordered_take(10 * KIB, -1, 0);
        uint32_t stream = ordered_streams.numbers[1];
        CU_ASSERT_EQUAL(ordered->ops->stream_mark(ordered, block + 1, stream), DAO_ERR_INTERIOR_POINTER);
        CU_ASSERT_EQUAL(ordered->ops->stream_mark(ordered, plain, stream), DAO_ERR_UNSUPPORTED);
        CU_ASSERT_EQUAL(ordered->ops->stream_mark(ordered, &block, stream), DAO_ERR_FOREIGN_POINTER);
        dao_block_t found = {0};
        CU_ASSERT_EQUAL(ordered->ops->query(ordered, block + 5, &found), DAO_OK);
        CU_ASSERT_EQUAL(found.stream, ordered_streams.numbers[0]);
        CU_ASSERT_EQUAL(ordered_try_give(plain + 1, 0), DAO_ERR_INTERIOR_POINTER);
        CU_ASSERT_EQUAL(ordered_try_give(&block, 0), DAO_ERR_FOREIGN_POINTER);
        ordered_give(plain, 1); /* one of no stream waits as well */
        ordered_give(block, -1);
        CU_ASSERT_EQUAL(ordered_stats_now().live_count, 0);
        controlled_streams_finish(1);
        ordered_end();
    }
}

typedef struct states {
    uint64_t bytes[3]; /* by dao_block_state_t */
} states_t;

static void see(const dao_block_t *block, void *user)
{
    states_t *states = user;
    states->bytes[block->state] += block->block_bytes;
}

static void what_waits_is_shown_as_pending(void)
{
    for (size_t k = 0; k < ORDERED_KIND_COUNT; k++) {
        ordered_begin(k, 0);
        char *block = ordered_take(100 * KIB, 0, 0);
        uint64_t block_bytes = ordered_stats_now().used_bytes;
        ordered_give(block, 0);
        char *live = ordered_take(100 * KIB, 1, 0);
        states_t states = {{0}};
        ordered->ops->walk_all(ordered, see, &states);
        CU_ASSERT_EQUAL(states.bytes[DAO_BLOCK_STATE_PENDING], block_bytes);
        CU_ASSERT_EQUAL(states.bytes[DAO_BLOCK_STATE_LIVE], block_bytes);
        ordered_give(live, -1);
        controlled_streams_finish(0);
        ordered_end();
    }
}

static char *take_aligned(size_t size_bytes, size_t alignment_bytes, int stream)
{
    dao_block_request_t request = {.size_bytes = size_bytes,
                                   .alignment_bytes = alignment_bytes,
                                   .stream = ordered_streams.numbers[stream]};
    dao_block_grant_t grant = {0};
    CU_ASSERT_EQUAL_FATAL(ordered->ops->alloc(ordered, &request, &grant), DAO_OK);
    CU_ASSERT_EQUAL((uintptr_t)grant.address % alignment_bytes, 0);
    return grant.address;
}

/* A request that is aligned gets a larger piece, in which it can be so wherever that lies: a plain block is
   refused to it. */
static void a_block_that_is_refused_hides_no_other(void)
{
    ordered_begin(ORDERED_SYSTEM, 0);
    char *plain = ordered_take(14 * KIB, 0, 0);
    CU_ASSERT_EQUAL_FATAL((uintptr_t)plain % (4 * KIB), 0); /* by itself: so it is offered first */
    char *aligned = take_aligned(14 * KIB, 4 * KIB, 0);
    ordered_give(plain, 0);
    ordered_give(aligned, 0);
    CU_ASSERT_PTR_EQUAL(take_aligned(14 * KIB, 4 * KIB, 0), aligned);
    CU_ASSERT_PTR_EQUAL(ordered_take(14 * KIB, 0, 0), plain);
    ordered_give(plain, 0);
    ordered_give(aligned, 0);
    ordered_end();
}

/* ---- leases ---- */

static void a_lease_keeps_its_addresses(void)
{
    for (size_t k = 0; k < ORDERED_KIND_COUNT; k++) {
        ordered_begin(k, 0);
        uint32_t lease = ordered_lease_begin(), other = ordered_lease_begin();
        char *block = ordered_take(100 * KIB, -1, lease), *kept = ordered_take(10 * KIB, 0, lease);
        bool has_bytes = k != ORDERED_SEGMENTED; /* the others' memory can be reached */
        memset(block, 0x5a, has_bytes ? 100 * KIB : 0);
        dao_block_lease_stats_t held;
        ordered->ops->lease_stats(ordered, lease, &held);
        CU_ASSERT_EQUAL(held.live_count, 2);
        CU_ASSERT_EQUAL(held.used_bytes, ordered_stats_now().used_bytes);
        uint64_t held_bytes = held.held_bytes;
        ordered_give(block, -1);
        CU_ASSERT_EQUAL(ordered_try_give(block, -1), DAO_ERR_DOUBLE_FREE);
        size_t released_bytes;
        CU_ASSERT_EQUAL(ordered->ops->trim(ordered, 0, &released_bytes), DAO_OK);
        char *elsewhere[] = {ordered_take(100 * KIB, -1, 0), ordered_take(100 * KIB, 0, 0),
                             ordered_take(100 * KIB, -1, other)};
        for (size_t i = 0; i < 3; i++) {
            CU_ASSERT_PTR_NOT_EQUAL(elsewhere[i], block);
            ordered_give(elsewhere[i], -1);
        }
        CU_ASSERT_TRUE(!has_bytes || block[0] == 0x5a); /* the memory is the lease's */
        CU_ASSERT_PTR_EQUAL(ordered_take(100 * KIB, -1, lease), block);
        CU_ASSERT_TRUE(!has_bytes || block[100 * KIB - 1] == 0x5a);
        ordered->ops->lease_stats(ordered, lease, &held);
        CU_ASSERT_EQUAL(held.held_bytes, held_bytes);
        CU_ASSERT_EQUAL(held.live_count, 2);
        ordered_give(block, -1);
        ordered->ops->lease_end(ordered, lease);
        ordered->ops->lease_end(ordered, other);
        CU_ASSERT_EQUAL(ordered_stats_now().live_count, 1);
        ordered_give(kept, -1); /* valid until it is freed */
        CU_ASSERT_EQUAL(ordered->ops->trim(ordered, 0, &released_bytes), DAO_OK);
        CU_ASSERT_EQUAL(ordered_stats_now().reserved_bytes, 0);
        ordered_end();
    }
}

static void a_lease_follows_streams(void)
{
    for (size_t k = 0; k < ORDERED_KIND_COUNT; k++) {
        ordered_begin(k, 0);
        uint32_t lease = ordered_lease_begin();
        char *block = ordered_take(100 * KIB, 0, lease);
        ordered_give(block, 0);
        CU_ASSERT_PTR_NOT_EQUAL(ordered_take(100 * KIB, -1, lease), block);
        CU_ASSERT_PTR_EQUAL(ordered_take(100 * KIB, 0, lease), block);
        ordered_give(block, 0);
        ordered->ops->lease_end(ordered, lease);
        size_t released_bytes;
        CU_ASSERT_EQUAL(ordered->ops->trim(ordered, 0, &released_bytes), DAO_OK);
        CU_ASSERT_PTR_NOT_EQUAL(ordered_take(100 * KIB, -1, 0), block); /* the stream may use it still */
        controlled_streams_finish(0);
        ordered_end(); /* with live blocks */
    }
}

static void beside_a_lease_segments_follow_streams_themselves(void)
{
    ordered_begin(ORDERED_SEGMENTED, 0);
    uint32_t lease = ordered_lease_begin();
    char *leased = ordered_take(100 * KIB, 0, lease);
    char *block = ordered_take(100 * KIB, 0, 0), *marked = ordered_take(100 * KIB, 0, 0),
         *end_block = ordered_take(10 * KIB, -1, 0);
    CU_ASSERT_EQUAL(ordered->ops->stream_mark(ordered, marked, ordered_streams.numbers[1]), DAO_OK);
    CU_ASSERT_EQUAL(ordered->ops->stream_mark(ordered, leased, ordered_streams.numbers[1]), DAO_OK);
    ordered_give(block, 0);
    ordered_give(marked, 0);
    CU_ASSERT_PTR_EQUAL(ordered_take(30 * KIB, 0, 0), block); /* a part of what the stream holds */
    ordered_give(leased, 0);
    CU_ASSERT_PTR_NOT_EQUAL(ordered_take(100 * KIB, 0, lease), leased); /* the other stream may use it */
    controlled_streams_finish(0);
    CU_ASSERT_PTR_NOT_EQUAL(ordered_take(100 * KIB, 0, lease), leased);
    controlled_streams_finish(1);
    (void)dao_stream_fences_poll(ordered_streams.fences); /* under a lease nobody asks */
    CU_ASSERT_PTR_EQUAL(ordered_take(100 * KIB, 0, lease), leased);
    CU_ASSERT_PTR_NOT_EQUAL(ordered_take(100 * KIB, 0, 0), leased);
    ordered_give(end_block, -1);
    ordered->ops->lease_end(ordered, lease);
    ordered_end(); /* with live blocks */
}

static void there_are_eight_leases(void)
{
    ordered_begin(ORDERED_BUDDY, 0);
    uint32_t leases[DAO_STREAM_ORDERED_LEASE_MAX], more = 0;
    for (size_t i = 0; i < DAO_STREAM_ORDERED_LEASE_MAX; i++) {
        leases[i] = ordered_lease_begin();
    }
    CU_ASSERT_EQUAL(ordered->ops->lease_begin(ordered, &more), DAO_ERR_TOO_MANY);
    char *block = ordered_take(10 * KIB, -1, leases[3]);
    ordered->ops->lease_end(ordered, leases[3]);
    CU_ASSERT_EQUAL(ordered_lease_begin(), leases[3]);
    ordered_give(block, -1); /* of the lease before: it is nobody's */
    dao_block_lease_stats_t held;
    ordered->ops->lease_stats(ordered, leases[3], &held);
    CU_ASSERT_EQUAL(held.held_bytes, 0);
    for (size_t i = 0; i < DAO_STREAM_ORDERED_LEASE_MAX; i++) {
        ordered->ops->lease_end(ordered, leases[i]);
    }
    ordered_end();
}

/* ---- hardened ---- */

static unsigned logged_count;

static void count_log(dao_log_level_t level, const char *message, void *user)
{
    (void)level;
    (void)user;
    logged_count += strstr(message, "was written past its end") != NULL ||
                    strstr(message, "was written after its free") != NULL;
}

static void bytes_are_looked_at_when_the_stream_has_passed(void)
{
    ordered_begin(ORDERED_HARDENED, 0);
    dao_allocator_t *hardened = dao_stream_ordered_behind(ordered);
    CU_ASSERT_TRUE(dao_is_hardened(hardened));
    logged_count = 0;
    dao_log_set(count_log, NULL, DAO_LOG_LEVEL_ERROR);
    unsigned char *fine = (unsigned char *)ordered_take(1000, 0, 0),
                  *wrong = (unsigned char *)ordered_take(1000, 0, 0);
    CU_ASSERT_EQUAL(fine[0], DAO_HARDENED_JUNK_VALUE);
    memset(fine, 1, 1000);
    memset(wrong, 2, 1000);
    ordered_give(fine, 0);
    ordered_give(wrong, 0);
    fine[999] = 3;   /* work before the free, that has not run yet */
    wrong[1000] = 4; /* the same, past the end */
    ordered_give(ordered_take(1000, 1, 0), -1);
    CU_ASSERT_EQUAL(fine[999], 3);
    CU_ASSERT_EQUAL(dao_hardened_check(hardened), DAO_OK);
    controlled_streams_finish(0);
    ordered_give(ordered_take(1000, 1, 0), -1);
    CU_ASSERT_EQUAL(logged_count, 1);
    CU_ASSERT_EQUAL(fine[999], DAO_HARDENED_FREED_VALUE);
    CU_ASSERT_EQUAL(dao_hardened_check(hardened), DAO_ERR_CORRUPT); /* the damaged one */
    fine[5] = 0;                                                    /* after all: it is in quarantine */
    ordered_end();
    CU_ASSERT_EQUAL(logged_count, 2);
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_ERROR);
}

static void bytes_out_of_reach_are_looked_at_later(void)
{
    ordered_begin(ORDERED_HARDENED, 0);
    unsigned char *block = (unsigned char *)ordered_take(1000, 0, 0);
    memset(block, 1, 1000);
    ordered_give(block, 0);
    controlled_streams_finish(0);
    ordered_is_out_of_reach = true;
    size_t released_bytes;
    CU_ASSERT_EQUAL(ordered->ops->trim(ordered, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(block[0], 1);
    ordered_is_out_of_reach = false;
    CU_ASSERT_EQUAL(ordered_try_give(block, -1), DAO_ERR_DOUBLE_FREE);
    ordered_give(ordered_take(2000, 1, 0), -1);
    CU_ASSERT_EQUAL(block[0], DAO_HARDENED_FREED_VALUE);
    CU_ASSERT_EQUAL(dao_hardened_check(dao_stream_ordered_behind(ordered)), DAO_OK);
    ordered_end();
}

static void only_the_same_size_is_used_again_under_a_lease(void)
{
    ordered_begin(ORDERED_HARDENED, 0);
    uint32_t lease = ordered_lease_begin();
    char *block = ordered_take(1000, -1, lease);
    ordered_give(block, -1);
    CU_ASSERT_PTR_NOT_EQUAL(ordered_take(999, -1, lease), block); /* its guard would begin elsewhere */
    CU_ASSERT_PTR_EQUAL(ordered_take(1000, -1, lease), block);
    memset(block, 1, 1000);
    CU_ASSERT_EQUAL(dao_hardened_check(dao_stream_ordered_behind(ordered)), DAO_OK);
    block[1000] = 0;
    ordered_give(block, -1); /* looked at as the lease ends */
    logged_count = 0;
    dao_log_set(count_log, NULL, DAO_LOG_LEVEL_ERROR);
    ordered->ops->lease_end(ordered, lease);
    CU_ASSERT_EQUAL(logged_count, 1);
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_ERROR);
    ordered_end();
}

/* ---- failures ---- */

static void what_the_system_does_not_take_back_waits_on(void)
{
    ordered_begin(ORDERED_SYSTEM, 0);
    char *block = ordered_take(1 * MIB, 0, 0);
    ordered_give(block, 0);
    controlled_streams_finish(0);
    heap_backend_fail(ordered_heap, HEAP_CALL_PINNED_FREE, 0, false);
    ordered_give(ordered_take(10 * KIB, 1, 0), -1);
    CU_ASSERT_EQUAL(heap_backend_heal(ordered_heap), 1);
    CU_ASSERT_EQUAL(ordered_stats_now().reserved_bytes, 1 * MIB);
    CU_ASSERT_EQUAL(ordered_try_give(block, -1), DAO_ERR_DOUBLE_FREE);
    ordered_give(ordered_take(10 * KIB, 1, 0), -1);
    CU_ASSERT_EQUAL(ordered_stats_now().reserved_bytes, 0);
    ordered_end();
}

/* A program of streams and a lease; the first failure. All is given back whatever fails. */
static dao_status_t scenario(uint32_t lease)
{
    dao_block_grant_t grants[6];
    size_t count = 0;
    dao_status_t first = DAO_OK;
    for (int i = 0; i < 6 && first == DAO_OK; i++) {
        first = ordered_try_take(10 * KIB, i % 3 - 1, i < 3 ? lease : 0, &grants[count]);
        count += first == DAO_OK;
    }
    for (size_t i = 0; i < count; i++) {
        dao_status_t marked =
            i % 3 == 2 ? ordered->ops->stream_mark(ordered, grants[i].address, ordered_streams.numbers[2])
                       : DAO_OK;
        dao_status_t freed = ordered_try_give(grants[i].address, i % 2 == 0 ? 1 : -1);
        if (freed == DAO_ERR_UNSUPPORTED) { /* no memory to let it wait: whoever asked waits */
            controlled_streams_finish(1);
            freed = ordered_try_give(grants[i].address, -1);
            marked = DAO_ERR_NO_HOST_MEMORY;
        }
        CU_ASSERT_EQUAL(freed, DAO_OK);
        first = first == DAO_OK ? marked : first;
    }
    return first;
}

static void every_lack_of_host_memory_is_survived(void)
{
    for (size_t k = 0; k < ORDERED_KIND_COUNT; k++) {
        uint64_t fired = 1;
        for (uint64_t n = 0; fired > 0 && n < 100; n++) {
            ordered_begin(k, 0);
            uint32_t lease = ordered_lease_begin();
            dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
            dao_status_t status = scenario(lease);
            fired = dao_fault_disarm();
            CU_ASSERT_TRUE(status == DAO_OK || (fired > 0 && status == DAO_ERR_NO_HOST_MEMORY));
            CU_ASSERT_EQUAL(ordered_stats_now().live_count, 0);
            CU_ASSERT_TRUE(ordered_stats_now().failed_count <= fired);
            CU_ASSERT_EQUAL(scenario(lease), DAO_OK);
            controlled_streams_finish(1);
            ordered->ops->lease_end(ordered, lease); /* asks the event of the frees before, if it has one */
            size_t released_bytes;
            CU_ASSERT_EQUAL(ordered->ops->trim(ordered, 0, &released_bytes), DAO_OK);
            CU_ASSERT_EQUAL(ordered_stats_now().reserved_bytes, 0);
            ordered_end();
        }
        CU_ASSERT_EQUAL(fired, 0);
    }
}

static void a_deferred_free_reaches_what_is_behind(void)
{
    static const size_t deferring[] = {ORDERED_BUDDY, ORDERED_CLASSES, ORDERED_SYSTEM};
    for (size_t i = 0; i < sizeof(deferring) / sizeof(deferring[0]); i++) {
        ordered_begin(deferring[i], 0);
        char *block = ordered_take(64 * KIB, -1, 0);
        dao_pinned_free_deferred(ordered, block, DAO_BLOCK_OWNER_RAW);
        dao_pinned_drain(ordered);
        CU_ASSERT_EQUAL(ordered_stats_now().live_count, 0);
        CU_ASSERT_EQUAL(ordered_stats_now().free_count, 1);
        CU_ASSERT_EQUAL(ordered_try_give(block, -1), DAO_ERR_DOUBLE_FREE);
        ordered_end();
    }
    ordered_begin(ORDERED_HARDENED, 0);
    CU_ASSERT_PTR_NULL(ordered->ops->free_deferred); /* a hardened block is looked at by its free */
    ordered_end();
}

static CU_TestInfo tests[] = {
    {"a deferred free reaches what is behind", a_deferred_free_reaches_what_is_behind},
    {"a block waits for its stream", a_block_waits_for_its_stream},
    {"its own stream has it at once", its_own_stream_has_it_at_once},
    {"where nothing else is left another stream waits", where_nothing_else_is_left_another_stream_waits},
    {"only blocks of streams are marked", only_blocks_of_streams_are_marked},
    {"what waits is shown as pending", what_waits_is_shown_as_pending},
    {"a block that is refused hides no other", a_block_that_is_refused_hides_no_other},
    {"a lease keeps its addresses", a_lease_keeps_its_addresses},
    {"a lease follows streams", a_lease_follows_streams},
    {"beside a lease segments follow streams themselves", beside_a_lease_segments_follow_streams_themselves},
    {"there are eight leases", there_are_eight_leases},
    {"bytes are looked at when the stream has passed", bytes_are_looked_at_when_the_stream_has_passed},
    {"bytes out of reach are looked at later", bytes_out_of_reach_are_looked_at_later},
    {"only the same size is used again under a lease", only_the_same_size_is_used_again_under_a_lease},
    {"what the system does not take back waits on", what_the_system_does_not_take_back_waits_on},
    {"every lack of host memory is survived", every_lack_of_host_memory_is_survived},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"ordered binary buddy, contract", NULL, NULL, buddy_contract_begin,
                              contract_end, allocator_contract_tests},
                             {"ordered size classes, contract", NULL, NULL, class_contract_begin,
                              contract_end, allocator_contract_tests},
                             {"ordered pass-through, contract", NULL, NULL, system_contract_begin,
                              contract_end, allocator_contract_tests},
                             {"leases of segments, contract", NULL, NULL, segments_contract_begin,
                              contract_end, allocator_contract_tests},
                             {"ordered", NULL, NULL, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
