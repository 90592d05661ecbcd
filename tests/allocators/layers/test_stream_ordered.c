/* SPDX-License-Identifier: Apache-2.0 */
/* Stream order and leases in front of allocators that have neither: the contract of allocators, what each
   sentence says, a model at random, and what fails. Each test runs over every strategy of whole blocks, over
   a hardened one, and over segments, which follow streams themselves. */
#include "allocators/layers/stream_ordered.h"

#include "allocators/layers/hardened.h"
#include "allocators/paged/device_memory.h"
#include "allocators/segments/pinned.h"
#include "allocators/strategies/strategy.h"
#include "base/log.h"
#include "base/report/error.h"
#include "base/report/fault.h"
#include "tests/contract/allocator_contract.h"
#include "tests/support/backends/heap_backend.h"
#include "tests/support/controlled_streams.h"

#include <dao/context.h>

#include <string.h>

#define CAPACITY_BYTES   (256 * MIB)
#define ALIGNMENT_BYTES  256u
#define QUARANTINE_BYTES (256 * KIB)

static heap_backend_t *heap;
static controlled_streams_t streams;
static dao_allocator_t *allocator;

/* ---- what stands behind ---- */

static dao_status_t pinned_take(void *user, size_t size_bytes, void **out_address)
{
    heap_backend_t *from = user;
    return heap_backend_ops(from)->pinned_alloc(heap_backend_device(from), size_bytes, out_address);
}

static dao_status_t pinned_give(void *user, void *address, size_t size_bytes)
{
    heap_backend_t *from = user;
    return heap_backend_ops(from)->pinned_free(heap_backend_device(from), address, size_bytes);
}

static bool bytes_are_out_of_reach;

static dao_status_t test_fill(void *user, void *address, uint8_t value, size_t size_bytes)
{
    (void)user;
    memset(address, value, size_bytes);
    return DAO_OK;
}

static dao_status_t test_scan(void *user, const void *address, uint8_t value, size_t size_bytes,
                              size_t *out_offset)
{
    (void)user;
    if (bytes_are_out_of_reach) {
        return dao_error(DAO_ERR_BACKEND, "the scan failed on purpose");
    }
    const unsigned char *bytes = address;
    size_t offset = 0;
    while (offset < size_bytes && bytes[offset] == value) {
        offset++;
    }
    *out_offset = offset;
    return DAO_OK;
}

static dao_status_t hardened_create(const dao_strategy_config_t *config, dao_allocator_t **out_allocator)
{
    dao_allocator_t *inner = NULL;
    dao_status_t status = dao_binary_buddy_create(config, &inner);
    if (status != DAO_OK) {
        return status;
    }
    dao_hardened_config_t hardened = {.name = "pinned:0",
                                      .flags = DAO_HARDENING_GUARD | DAO_HARDENING_JUNK |
                                               DAO_HARDENING_QUARANTINE | DAO_HARDENING_CHECKSUM,
                                      .quarantine_bytes = QUARANTINE_BYTES,
                                      .bytes = {.fill = test_fill, .scan = test_scan}};
    status = dao_hardened_create(&hardened, inner, out_allocator);
    if (status != DAO_OK) {
        inner->ops->destroy(inner);
    }
    return status;
}

/* Follows streams itself: blocks of leases alone wait in front of it. */
static dao_status_t segmented_create(const dao_strategy_config_t *config, dao_allocator_t **out_allocator)
{
    dao_device_memory_config_t caching = {.ops = heap_backend_ops(heap),
                                          .device = heap_backend_device(heap),
                                          .name = config->name,
                                          .fences = streams.fences,
                                          .segment_bytes = config->segment_bytes,
                                          .limit_bytes = config->limit_bytes};
    return dao_device_memory_create(&caching, out_allocator);
}

typedef struct kind {
    dao_status_t (*create)(const dao_strategy_config_t *config, dao_allocator_t **out_allocator);
    size_t segment_bytes;
    bool is_hardened;
    bool is_uncached;
} kind_t;

enum { BUDDY, CLASSES, SYSTEM, HARDENED, SEGMENTED, KIND_COUNT };

static const kind_t kinds[KIND_COUNT] = {{dao_binary_buddy_create, 1 * MIB, false, false},
                                         {dao_size_class_create, 0, false, false},
                                         {dao_system_create, 0, false, true},
                                         {hardened_create, 1 * MIB, true, false},
                                         {segmented_create, 1 * MIB, false, false}};

static dao_status_t make(const kind_t *kind, size_t limit_bytes, dao_allocator_t **out_allocator)
{
    dao_strategy_config_t config = {.name = "pinned:0",
                                    .upstream = {.take = pinned_take, .give = pinned_give, .user = heap},
                                    .full_status = DAO_ERR_NO_HOST_MEMORY,
                                    .alignment_bytes = ALIGNMENT_BYTES,
                                    .segment_bytes = kind->segment_bytes,
                                    .limit_bytes = limit_bytes};
    dao_allocator_t *inner = NULL;
    dao_status_t status = kind->create(&config, &inner);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_stream_ordered_create(streams.fences, inner, out_allocator);
    if (status != DAO_OK) {
        inner->ops->destroy(inner);
    }
    return status;
}

static dao_status_t create(const kind_t *kind, size_t limit_bytes, dao_allocator_t **out_allocator)
{
    heap = heap_backend_create(CAPACITY_BYTES, 0);
    if (heap == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_status_t status = make(kind, limit_bytes, out_allocator);
    if (status != DAO_OK) {
        CU_ASSERT_TRUE(heap_backend_destroy(heap));
    }
    return status;
}

static void destroy(dao_allocator_t *made)
{
    CU_ASSERT_TRUE(made->ops->is_valid(made));
    made->ops->destroy(made);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
}

static void begin(size_t kind, size_t limit_bytes)
{
    controlled_streams_begin(&streams);
    CU_ASSERT_EQUAL_FATAL(create(&kinds[kind], limit_bytes, &allocator), DAO_OK);
}

static void end(void)
{
    destroy(allocator);
    controlled_streams_end(&streams);
}

/* ---- the contract ---- */

static size_t contract_kind;

static dao_status_t contract_create(dao_allocator_t **out_allocator)
{
    return create(&kinds[contract_kind], 0, out_allocator);
}

static void contract_begin_on(size_t kind)
{
    static allocator_contract_t contracts[KIND_COUNT];
    contract_kind = kind;
    contracts[kind] =
        (allocator_contract_t){.create = contract_create,
                               .destroy = destroy,
                               .alignment_bytes = ALIGNMENT_BYTES,
                               .extra_bytes = kinds[kind].is_hardened ? DAO_HARDENED_GUARD_BYTES : 0,
                               .is_uncached = kinds[kind].is_uncached};
    controlled_streams_begin(&streams);
    allocator_contract_begin_on(&contracts[kind]);
}

static void contract_end(void)
{
    allocator_contract_end();
    controlled_streams_end(&streams);
}

static void buddy_contract_begin(void)
{
    contract_begin_on(BUDDY);
}

static void class_contract_begin(void)
{
    contract_begin_on(CLASSES);
}

static void system_contract_begin(void)
{
    contract_begin_on(SYSTEM);
}

static void segments_contract_begin(void)
{
    contract_begin_on(SEGMENTED);
}

/* ---- helpers ---- */

static dao_stats_t stats_now(void)
{
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    return stats;
}

/* Allocates; `stream`: its place among the told ones, or -1. */
static dao_status_t try_take(size_t size_bytes, int stream, uint32_t lease, dao_block_grant_t *out_grant)
{
    dao_block_request_t request = {
        .size_bytes = size_bytes, .stream = stream < 0 ? 0 : streams.numbers[stream], .lease = lease};
    dao_status_t status = allocator->ops->alloc(allocator, &request, out_grant);
    CU_ASSERT_TRUE(status != DAO_OK || stream >= 0 || dao_stream_fence_is_empty(&out_grant->fence));
    return status;
}

static char *take(size_t size_bytes, int stream, uint32_t lease)
{
    dao_block_grant_t grant = {0};
    CU_ASSERT_EQUAL_FATAL(try_take(size_bytes, stream, lease, &grant), DAO_OK);
    return grant.address;
}

/* Frees behind work of a stream, or -1: nothing uses it. */
static dao_status_t try_give(void *address, int stream)
{
    dao_stream_fence_t fence = {0};
    if (stream >= 0) {
        fence = controlled_streams_mark(&streams, (uint32_t)stream);
    }
    return allocator->ops->free(allocator, address, stream >= 0 ? &fence : NULL);
}

static void give(void *address, int stream)
{
    CU_ASSERT_EQUAL(try_give(address, stream), DAO_OK);
}

static uint32_t lease_begin(void)
{
    uint32_t lease = 0;
    CU_ASSERT_EQUAL_FATAL(allocator->ops->lease_begin(allocator, &lease), DAO_OK);
    return lease;
}

/* ---- streams ---- */

static void a_block_waits_for_its_stream(void)
{
    for (size_t k = 0; k < KIND_COUNT; k++) {
        begin(k, 0);
        char *block = take(100 * KIB, 0, 0);
        uint64_t block_bytes = stats_now().used_bytes;
        CU_ASSERT_TRUE(block_bytes >= 100 * KIB);
        give(block, 0);
        CU_ASSERT_EQUAL(stats_now().used_bytes, 0);
        CU_ASSERT_EQUAL(try_give(block, 0), DAO_ERR_DOUBLE_FREE);
        CU_ASSERT_EQUAL(try_give(block, -1), DAO_ERR_DOUBLE_FREE);
        dao_block_t found;
        CU_ASSERT_EQUAL(allocator->ops->query(allocator, block, &found), DAO_ERR_FOREIGN_POINTER);
        char *plain = take(100 * KIB, -1, 0), *other = take(100 * KIB, 1, 0);
        CU_ASSERT_PTR_NOT_EQUAL(plain, block);
        CU_ASSERT_PTR_NOT_EQUAL(other, block);
        CU_ASSERT_EQUAL(stats_now().used_bytes, 2 * block_bytes);
        give(plain, -1);
        give(other, -1);
        size_t released_bytes;
        CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
        CU_ASSERT_TRUE(stats_now().reserved_bytes >= block_bytes);
        controlled_streams_finish(0);
        CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
        CU_ASSERT_TRUE(released_bytes >= block_bytes);
        CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
        end();
    }
}

static void its_own_stream_has_it_at_once(void)
{
    for (size_t k = 0; k < KIND_COUNT; k++) {
        begin(k, 0);
        char *block = take(100 * KIB, 0, 0), *marked = take(100 * KIB, 0, 0);
        CU_ASSERT_EQUAL(allocator->ops->stream_mark(allocator, marked, streams.numbers[1]), DAO_OK);
        give(marked, 0);
        give(block, 0);
        char *again = take(100 * KIB, 0, 0), *third = take(100 * KIB, 0, 0);
        CU_ASSERT_EQUAL(again == block, !kinds[k].is_hardened); /* which has a quarantine */
        CU_ASSERT_PTR_NOT_EQUAL(third, marked);                 /* the other stream may use it */
        give(again, -1);
        give(third, -1);
        controlled_streams_finish(0);
        controlled_streams_finish(1);
        end();
    }
}

static void where_nothing_else_is_left_another_stream_waits(void)
{
    for (size_t k = 0; k < HARDENED; k++) {
        begin(k, 1 * MIB);
        char *block = take(1 * MIB, 0, 0);
        give(block, 0);
        dao_block_grant_t grant;
        uint64_t failed_count = stats_now().failed_count - allocator->ledger->cured_count;
        CU_ASSERT_EQUAL(try_take(1 * MIB, -1, 0, &grant), DAO_ERR_LIMIT); /* idle memory alone */
        CU_ASSERT_EQUAL_FATAL(try_take(1 * MIB, 1, 0, &grant), DAO_OK);
        CU_ASSERT_PTR_EQUAL(grant.address, block);
        CU_ASSERT_TRUE(grant.fence.streams == UINT64_C(1) << streams.numbers[0]);
        CU_ASSERT_EQUAL(stats_now().failed_count - allocator->ledger->cured_count, failed_count + 1);
        CU_ASSERT_EQUAL(stats_now().used_bytes, 1 * MIB);
        give(block, -1);
        end();
    }
}

static void only_blocks_of_streams_are_marked(void)
{
    for (size_t k = 0; k < KIND_COUNT; k++) {
        begin(k, 0);
        char *block = take(10 * KIB, 0, 0), *plain = take(10 * KIB, -1, 0);
        uint32_t stream = streams.numbers[1];
        CU_ASSERT_EQUAL(allocator->ops->stream_mark(allocator, block + 1, stream), DAO_ERR_INTERIOR_POINTER);
        CU_ASSERT_EQUAL(allocator->ops->stream_mark(allocator, plain, stream), DAO_ERR_UNSUPPORTED);
        CU_ASSERT_EQUAL(allocator->ops->stream_mark(allocator, &block, stream), DAO_ERR_FOREIGN_POINTER);
        dao_block_t found = {0};
        CU_ASSERT_EQUAL(allocator->ops->query(allocator, block + 5, &found), DAO_OK);
        CU_ASSERT_EQUAL(found.stream, streams.numbers[0]);
        CU_ASSERT_EQUAL(try_give(plain + 1, 0), DAO_ERR_INTERIOR_POINTER);
        CU_ASSERT_EQUAL(try_give(&block, 0), DAO_ERR_FOREIGN_POINTER);
        give(plain, 1); /* one of no stream waits as well */
        give(block, -1);
        CU_ASSERT_EQUAL(stats_now().live_count, 0);
        controlled_streams_finish(1);
        end();
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
    for (size_t k = 0; k < KIND_COUNT; k++) {
        begin(k, 0);
        char *block = take(100 * KIB, 0, 0);
        uint64_t block_bytes = stats_now().used_bytes;
        give(block, 0);
        char *live = take(100 * KIB, 1, 0);
        states_t states = {{0}};
        allocator->ops->walk_all(allocator, see, &states);
        CU_ASSERT_EQUAL(states.bytes[DAO_BLOCK_STATE_PENDING], block_bytes);
        CU_ASSERT_EQUAL(states.bytes[DAO_BLOCK_STATE_LIVE], block_bytes);
        give(live, -1);
        controlled_streams_finish(0);
        end();
    }
}

static char *take_aligned(size_t size_bytes, size_t alignment_bytes, int stream)
{
    dao_block_request_t request = {
        .size_bytes = size_bytes, .alignment_bytes = alignment_bytes, .stream = streams.numbers[stream]};
    dao_block_grant_t grant = {0};
    CU_ASSERT_EQUAL_FATAL(allocator->ops->alloc(allocator, &request, &grant), DAO_OK);
    CU_ASSERT_EQUAL((uintptr_t)grant.address % alignment_bytes, 0);
    return grant.address;
}

/* A request that is aligned gets a larger piece, in which it can be so wherever that lies: a plain block is
   refused to it. */
static void a_block_that_is_refused_hides_no_other(void)
{
    begin(SYSTEM, 0);
    char *plain = take(14 * KIB, 0, 0);
    CU_ASSERT_EQUAL_FATAL((uintptr_t)plain % (4 * KIB), 0); /* by itself: so it is offered first */
    char *aligned = take_aligned(14 * KIB, 4 * KIB, 0);
    give(plain, 0);
    give(aligned, 0);
    CU_ASSERT_PTR_EQUAL(take_aligned(14 * KIB, 4 * KIB, 0), aligned);
    CU_ASSERT_PTR_EQUAL(take(14 * KIB, 0, 0), plain);
    give(plain, 0);
    give(aligned, 0);
    end();
}

/* ---- leases ---- */

static void a_lease_keeps_its_addresses(void)
{
    for (size_t k = 0; k < KIND_COUNT; k++) {
        begin(k, 0);
        uint32_t lease = lease_begin(), other = lease_begin();
        char *block = take(100 * KIB, -1, lease), *kept = take(10 * KIB, 0, lease);
        bool has_bytes = k != SEGMENTED; /* the others' memory can be reached */
        memset(block, 0x5a, has_bytes ? 100 * KIB : 0);
        dao_block_lease_stats_t held;
        allocator->ops->lease_stats(allocator, lease, &held);
        CU_ASSERT_EQUAL(held.live_count, 2);
        CU_ASSERT_EQUAL(held.used_bytes, stats_now().used_bytes);
        uint64_t held_bytes = held.held_bytes;
        give(block, -1);
        CU_ASSERT_EQUAL(try_give(block, -1), DAO_ERR_DOUBLE_FREE);
        size_t released_bytes;
        CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
        char *elsewhere[] = {take(100 * KIB, -1, 0), take(100 * KIB, 0, 0), take(100 * KIB, -1, other)};
        for (size_t i = 0; i < 3; i++) {
            CU_ASSERT_PTR_NOT_EQUAL(elsewhere[i], block);
            give(elsewhere[i], -1);
        }
        CU_ASSERT_TRUE(!has_bytes || block[0] == 0x5a); /* the memory is the lease's */
        CU_ASSERT_PTR_EQUAL(take(100 * KIB, -1, lease), block);
        CU_ASSERT_TRUE(!has_bytes || block[100 * KIB - 1] == 0x5a);
        allocator->ops->lease_stats(allocator, lease, &held);
        CU_ASSERT_EQUAL(held.held_bytes, held_bytes);
        CU_ASSERT_EQUAL(held.live_count, 2);
        give(block, -1);
        allocator->ops->lease_end(allocator, lease);
        allocator->ops->lease_end(allocator, other);
        CU_ASSERT_EQUAL(stats_now().live_count, 1);
        give(kept, -1); /* valid until it is freed */
        CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
        CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
        end();
    }
}

static void a_lease_follows_streams(void)
{
    for (size_t k = 0; k < KIND_COUNT; k++) {
        begin(k, 0);
        uint32_t lease = lease_begin();
        char *block = take(100 * KIB, 0, lease);
        give(block, 0);
        CU_ASSERT_PTR_NOT_EQUAL(take(100 * KIB, -1, lease), block);
        CU_ASSERT_PTR_EQUAL(take(100 * KIB, 0, lease), block);
        give(block, 0);
        allocator->ops->lease_end(allocator, lease);
        size_t released_bytes;
        CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
        CU_ASSERT_PTR_NOT_EQUAL(take(100 * KIB, -1, 0), block); /* the stream may use it still */
        controlled_streams_finish(0);
        end(); /* with live blocks */
    }
}

static void beside_a_lease_segments_follow_streams_themselves(void)
{
    begin(SEGMENTED, 0);
    uint32_t lease = lease_begin();
    char *leased = take(100 * KIB, 0, lease);
    char *block = take(100 * KIB, 0, 0), *marked = take(100 * KIB, 0, 0), *end_block = take(10 * KIB, -1, 0);
    CU_ASSERT_EQUAL(allocator->ops->stream_mark(allocator, marked, streams.numbers[1]), DAO_OK);
    CU_ASSERT_EQUAL(allocator->ops->stream_mark(allocator, leased, streams.numbers[1]), DAO_OK);
    give(block, 0);
    give(marked, 0);
    CU_ASSERT_PTR_EQUAL(take(30 * KIB, 0, 0), block); /* a part of what the stream holds */
    give(leased, 0);
    CU_ASSERT_PTR_NOT_EQUAL(take(100 * KIB, 0, lease), leased); /* the other stream may use it */
    controlled_streams_finish(0);
    CU_ASSERT_PTR_NOT_EQUAL(take(100 * KIB, 0, lease), leased);
    controlled_streams_finish(1);
    (void)dao_stream_fences_poll(streams.fences); /* under a lease nobody asks */
    CU_ASSERT_PTR_EQUAL(take(100 * KIB, 0, lease), leased);
    CU_ASSERT_PTR_NOT_EQUAL(take(100 * KIB, 0, 0), leased);
    give(end_block, -1);
    allocator->ops->lease_end(allocator, lease);
    end(); /* with live blocks */
}

static void there_are_eight_leases(void)
{
    begin(BUDDY, 0);
    uint32_t leases[DAO_STREAM_ORDERED_LEASE_MAX], more = 0;
    for (size_t i = 0; i < DAO_STREAM_ORDERED_LEASE_MAX; i++) {
        leases[i] = lease_begin();
    }
    CU_ASSERT_EQUAL(allocator->ops->lease_begin(allocator, &more), DAO_ERR_TOO_MANY);
    char *block = take(10 * KIB, -1, leases[3]);
    allocator->ops->lease_end(allocator, leases[3]);
    CU_ASSERT_EQUAL(lease_begin(), leases[3]);
    give(block, -1); /* of the lease before: it is nobody's */
    dao_block_lease_stats_t held;
    allocator->ops->lease_stats(allocator, leases[3], &held);
    CU_ASSERT_EQUAL(held.held_bytes, 0);
    for (size_t i = 0; i < DAO_STREAM_ORDERED_LEASE_MAX; i++) {
        allocator->ops->lease_end(allocator, leases[i]);
    }
    end();
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
    begin(HARDENED, 0);
    dao_allocator_t *hardened = dao_stream_ordered_behind(allocator);
    CU_ASSERT_TRUE(dao_is_hardened(hardened));
    logged_count = 0;
    dao_log_set(count_log, NULL, DAO_LOG_LEVEL_ERROR);
    unsigned char *fine = (unsigned char *)take(1000, 0, 0), *wrong = (unsigned char *)take(1000, 0, 0);
    CU_ASSERT_EQUAL(fine[0], DAO_HARDENED_JUNK_VALUE);
    memset(fine, 1, 1000);
    memset(wrong, 2, 1000);
    give(fine, 0);
    give(wrong, 0);
    fine[999] = 3;   /* work before the free, that has not run yet */
    wrong[1000] = 4; /* the same, past the end */
    give(take(1000, 1, 0), -1);
    CU_ASSERT_EQUAL(fine[999], 3);
    CU_ASSERT_EQUAL(dao_hardened_check(hardened), DAO_OK);
    controlled_streams_finish(0);
    give(take(1000, 1, 0), -1);
    CU_ASSERT_EQUAL(logged_count, 1);
    CU_ASSERT_EQUAL(fine[999], DAO_HARDENED_FREED_VALUE);
    CU_ASSERT_EQUAL(dao_hardened_check(hardened), DAO_ERR_CORRUPT); /* the damaged one */
    fine[5] = 0;                                                    /* after all: it is in quarantine */
    end();
    CU_ASSERT_EQUAL(logged_count, 2);
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_ERROR);
}

static void bytes_out_of_reach_are_looked_at_later(void)
{
    begin(HARDENED, 0);
    unsigned char *block = (unsigned char *)take(1000, 0, 0);
    memset(block, 1, 1000);
    give(block, 0);
    controlled_streams_finish(0);
    bytes_are_out_of_reach = true;
    size_t released_bytes;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(block[0], 1);
    bytes_are_out_of_reach = false;
    CU_ASSERT_EQUAL(try_give(block, -1), DAO_ERR_DOUBLE_FREE);
    give(take(2000, 1, 0), -1);
    CU_ASSERT_EQUAL(block[0], DAO_HARDENED_FREED_VALUE);
    CU_ASSERT_EQUAL(dao_hardened_check(dao_stream_ordered_behind(allocator)), DAO_OK);
    end();
}

static void only_the_same_size_is_used_again_under_a_lease(void)
{
    begin(HARDENED, 0);
    uint32_t lease = lease_begin();
    char *block = take(1000, -1, lease);
    give(block, -1);
    CU_ASSERT_PTR_NOT_EQUAL(take(999, -1, lease), block); /* its guard would begin elsewhere */
    CU_ASSERT_PTR_EQUAL(take(1000, -1, lease), block);
    memset(block, 1, 1000);
    CU_ASSERT_EQUAL(dao_hardened_check(dao_stream_ordered_behind(allocator)), DAO_OK);
    block[1000] = 0;
    give(block, -1); /* looked at as the lease ends */
    logged_count = 0;
    dao_log_set(count_log, NULL, DAO_LOG_LEVEL_ERROR);
    allocator->ops->lease_end(allocator, lease);
    CU_ASSERT_EQUAL(logged_count, 1);
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_ERROR);
    end();
}

/* ---- the model ---- */

#define MODEL_BLOCK_COUNT 48u
#define MODEL_STEP_COUNT  3000u
#define MODEL_LEASE_COUNT 3u
#define MODEL_SIZE_MAX    (300 * KIB)

/* A block that lives, or that was freed and nobody has been given since. */
typedef struct model_block {
    char *address; /* NULL: none */
    size_t size_bytes;
    bool is_live;
    int stream;                                  /* or -1 */
    uint64_t serial;                             /* of the lease it was allocated under; 0: none */
    uint64_t waits_for[CONTROLLED_STREAM_COUNT]; /* pieces of work of each stream that may use it */
} model_block_t;

typedef struct model {
    uint64_t seed;
    model_block_t blocks[MODEL_BLOCK_COUNT];
    bool is_marked[MODEL_BLOCK_COUNT][CONTROLLED_STREAM_COUNT];
    uint64_t queued[CONTROLLED_STREAM_COUNT], ended[CONTROLLED_STREAM_COUNT]; /* pieces of work */
    uint32_t leases[MODEL_LEASE_COUNT];                                       /* 0: none */
    uint64_t serials[MODEL_LEASE_COUNT];
    uint64_t last_serial;
    uint64_t served_count, reused_count;
} model_t;

static uint32_t pick(model_t *model, uint32_t count)
{
    return (uint32_t)(dao_random_next(&model->seed) % count);
}

static bool lease_lasts(const model_t *model, uint64_t serial)
{
    for (size_t i = 0; i < MODEL_LEASE_COUNT; i++) {
        if (serial != 0 && model->serials[i] == serial) {
            return true;
        }
    }
    return false;
}

/* What a grant may be, given a block that was freed before it and lies in its bytes. */
static void check_reuse(const model_t *model, const model_block_t *freed, const model_block_t *now,
                        const dao_stream_fence_t *fence)
{
    CU_ASSERT_TRUE(!lease_lasts(model, freed->serial) || freed->serial == now->serial);
    for (int i = 0; i < (int)CONTROLLED_STREAM_COUNT; i++) {
        bool is_waited_for = (fence->streams & UINT64_C(1) << streams.numbers[i]) != 0;
        CU_ASSERT_TRUE(freed->waits_for[i] <= model->ended[i] || i == now->stream || is_waited_for);
    }
}

/* Adds a grant. Freed blocks in its bytes are forgotten: whoever has them now waits for what they waited
   for. */
static void model_add(model_t *model, model_block_t *slot, const model_block_t *now,
                      const dao_stream_fence_t *fence)
{
    for (size_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        model_block_t *block = &model->blocks[i];
        bool overlaps = block->address != NULL && block->address < now->address + now->size_bytes &&
                        now->address < block->address + block->size_bytes;
        if (!overlaps) {
            continue;
        }
        CU_ASSERT_FALSE_FATAL(block->is_live);
        check_reuse(model, block, now, fence);
        model->reused_count++;
        *block = (model_block_t){0};
    }
    *slot = *now;
    memset(model->is_marked[slot - model->blocks], 0, sizeof(model->is_marked[0]));
    model->served_count++;
}

static void model_alloc(model_t *model, model_block_t *slot)
{
    uint32_t lease_slot = pick(model, 2 * MODEL_LEASE_COUNT);
    bool is_leased = lease_slot < MODEL_LEASE_COUNT && model->leases[lease_slot] != 0;
    model_block_t now = {.size_bytes = (1 + pick(model, 6)) * MODEL_SIZE_MAX / 6,
                         .is_live = true,
                         .stream = (int)pick(model, CONTROLLED_STREAM_COUNT + 1) - 1,
                         .serial = is_leased ? model->serials[lease_slot] : 0};
    dao_block_grant_t grant = {0};
    dao_status_t status =
        try_take(now.size_bytes, now.stream, is_leased ? model->leases[lease_slot] : 0, &grant);
    CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_LIMIT);
    if (status == DAO_OK) {
        now.address = grant.address;
        model_add(model, slot, &now, &grant.fence);
    }
}

/* Frees a block behind a stream and those that were marked on it; or, once all have ended, at once. */
static void model_free(model_t *model, model_block_t *block)
{
    bool *marks = model->is_marked[block - model->blocks];
    int stream = (int)pick(model, CONTROLLED_STREAM_COUNT + 1) - 1;
    block->is_live = false;
    if (stream >= 0) {
        dao_stream_fence_t fence = controlled_streams_mark(&streams, (uint32_t)stream);
        model->queued[stream]++;
        CU_ASSERT_EQUAL(allocator->ops->free(allocator, block->address, &fence), DAO_OK);
        for (int i = 0; i < (int)CONTROLLED_STREAM_COUNT; i++) {
            bool is_user = i == stream || marks[i];
            block->waits_for[i] = is_user ? model->queued[i] : 0;
            CU_ASSERT_TRUE(!is_user || (fence.streams & UINT64_C(1) << streams.numbers[i]) != 0);
        }
    } else {
        give(block->address, -1);
    }
}

static void model_mark(model_t *model, model_block_t *block)
{
    uint32_t stream = pick(model, CONTROLLED_STREAM_COUNT);
    dao_stream_fences_share(streams.fences, streams.numbers[stream]);
    dao_status_t status = allocator->ops->stream_mark(allocator, block->address, streams.numbers[stream]);
    CU_ASSERT_EQUAL(status, block->stream >= 0 ? DAO_OK : DAO_ERR_UNSUPPORTED);
    model->is_marked[block - model->blocks][stream] |= status == DAO_OK;
}

static void model_lease(model_t *model, uint32_t slot)
{
    if (model->leases[slot] == 0) {
        model->leases[slot] = lease_begin();
        model->serials[slot] = ++model->last_serial;
    } else {
        uint32_t lease = model->leases[slot];
        model->leases[slot] = 0;
        model->serials[slot] = 0;
        allocator->ops->lease_end(allocator, lease);
    }
}

static void model_step(model_t *model)
{
    model_block_t *block = &model->blocks[pick(model, MODEL_BLOCK_COUNT)];
    uint32_t draw = pick(model, 40);
    if (draw == 0) {
        model_lease(model, pick(model, MODEL_LEASE_COUNT));
    } else if (draw < 4) {
        uint32_t stream = pick(model, CONTROLLED_STREAM_COUNT);
        controlled_streams_finish(stream);
        model->ended[stream] = model->queued[stream];
    } else if (draw == 4) {
        size_t released_bytes;
        CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    } else if (!block->is_live) {
        model_alloc(model, block); /* what waited there is checked no more */
    } else if (draw < 10) {
        model_mark(model, block);
    } else {
        model_free(model, block);
    }
}

static void model_check(const model_t *model)
{
    uint64_t requested_bytes = 0, live_count = 0;
    for (size_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        live_count += model->blocks[i].is_live;
        requested_bytes += model->blocks[i].is_live ? model->blocks[i].size_bytes : 0;
    }
    dao_stats_t stats = stats_now();
    CU_ASSERT_EQUAL(stats.live_count, live_count);
    CU_ASSERT_EQUAL(stats.requested_bytes, requested_bytes);
    CU_ASSERT_TRUE(stats.used_bytes >= requested_bytes && stats.reserved_bytes >= stats.used_bytes);
}

static void nobody_gets_what_a_stream_or_a_lease_has(void)
{
    uint64_t seed = dao_test_seed("ordered, model", 91);
    for (size_t k = 0; k < KIND_COUNT; k++) {
        static model_t model;
        model = (model_t){.seed = seed};
        begin(k, 12 * MIB);
        for (size_t i = 0; i < MODEL_STEP_COUNT; i++) {
            model_step(&model);
            model_check(&model);
        }
        CU_ASSERT_TRUE(model.served_count > MODEL_STEP_COUNT / 10);
        CU_ASSERT_TRUE(model.reused_count > 0);
        end(); /* with live blocks, waiting ones and leases */
    }
}

/* ---- failures ---- */

static void what_the_system_does_not_take_back_waits_on(void)
{
    begin(SYSTEM, 0);
    char *block = take(1 * MIB, 0, 0);
    give(block, 0);
    controlled_streams_finish(0);
    heap_backend_fail(heap, HEAP_CALL_PINNED_FREE, 0, false);
    give(take(10 * KIB, 1, 0), -1);
    CU_ASSERT_EQUAL(heap_backend_heal(heap), 1);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 1 * MIB);
    CU_ASSERT_EQUAL(try_give(block, -1), DAO_ERR_DOUBLE_FREE);
    give(take(10 * KIB, 1, 0), -1);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
    end();
}

/* A program of streams and a lease; the first failure. All is given back whatever fails. */
static dao_status_t scenario(uint32_t lease)
{
    dao_block_grant_t grants[6];
    size_t count = 0;
    dao_status_t first = DAO_OK;
    for (int i = 0; i < 6 && first == DAO_OK; i++) {
        first = try_take(10 * KIB, i % 3 - 1, i < 3 ? lease : 0, &grants[count]);
        count += first == DAO_OK;
    }
    for (size_t i = 0; i < count; i++) {
        dao_status_t marked =
            i % 3 == 2 ? allocator->ops->stream_mark(allocator, grants[i].address, streams.numbers[2])
                       : DAO_OK;
        dao_status_t freed = try_give(grants[i].address, i % 2 == 0 ? 1 : -1);
        if (freed == DAO_ERR_UNSUPPORTED) { /* no memory to let it wait: whoever asked waits */
            controlled_streams_finish(1);
            freed = try_give(grants[i].address, -1);
            marked = DAO_ERR_NO_HOST_MEMORY;
        }
        CU_ASSERT_EQUAL(freed, DAO_OK);
        first = first == DAO_OK ? marked : first;
    }
    return first;
}

static void every_lack_of_host_memory_is_survived(void)
{
    for (size_t k = 0; k < KIND_COUNT; k++) {
        uint64_t fired = 1;
        for (uint64_t n = 0; fired > 0 && n < 100; n++) {
            begin(k, 0);
            uint32_t lease = lease_begin();
            dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
            dao_status_t status = scenario(lease);
            fired = dao_fault_disarm();
            CU_ASSERT_TRUE(status == DAO_OK || (fired > 0 && status == DAO_ERR_NO_HOST_MEMORY));
            CU_ASSERT_EQUAL(stats_now().live_count, 0);
            CU_ASSERT_TRUE(stats_now().failed_count <= fired);
            CU_ASSERT_EQUAL(scenario(lease), DAO_OK);
            controlled_streams_finish(1);
            allocator->ops->lease_end(allocator,
                                      lease); /* asks the event of the frees before, if it has one */
            size_t released_bytes;
            CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
            CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
            end();
        }
        CU_ASSERT_EQUAL(fired, 0);
    }
}

static void a_deferred_free_reaches_what_is_behind(void)
{
    static const size_t deferring[] = {BUDDY, CLASSES, SYSTEM};
    for (size_t i = 0; i < sizeof(deferring) / sizeof(deferring[0]); i++) {
        begin(deferring[i], 0);
        char *block = take(64 * KIB, -1, 0);
        dao_pinned_free_deferred(allocator, block, DAO_BLOCK_OWNER_RAW);
        dao_pinned_drain(allocator);
        CU_ASSERT_EQUAL(stats_now().live_count, 0);
        CU_ASSERT_EQUAL(stats_now().free_count, 1);
        CU_ASSERT_EQUAL(try_give(block, -1), DAO_ERR_DOUBLE_FREE);
        end();
    }
    begin(HARDENED, 0);
    CU_ASSERT_PTR_NULL(allocator->ops->free_deferred); /* a hardened block is looked at by its free */
    end();
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
    {"nobody gets what a stream or a lease has", nobody_gets_what_a_stream_or_a_lease_has},
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
