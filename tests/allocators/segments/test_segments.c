/* SPDX-License-Identifier: Apache-2.0 */
/* Segments over an upstream that gives addresses in no order: what is placed where, how a set grows and
   shrinks, and random operations against a model. */
#include "allocators/segments/segments.h"
#include "base/report/error.h"
#include "base/report/fault.h"
#include "tests/support/controlled_streams.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

#define UNIT      (2 * MIB)
#define USUAL     (20 * MIB)
#define GIVEN_MAX 4096u

/* ---- the upstream ---- */

typedef struct given {
    uintptr_t address;
    size_t size_bytes;
} given_t;

/* Addresses go up or down by turns, with a random gap, and are aligned to a granule only: nothing is ever
   touched. */
typedef struct upstream {
    given_t given[GIVEN_MAX];
    size_t count;
    uint64_t given_bytes;
    uint64_t capacity_bytes;
    uint64_t seed;
    uintptr_t low, high;
    size_t asked[GIVEN_MAX]; /* sizes that were asked for, a ring */
    size_t take_count;
    size_t give_count;
    uint64_t calls_until_failure; /* of both kinds; UINT64_MAX: none fails */
    dao_status_t failure;
    bool is_aligned; /* addresses are multiples of UNIT */
    bool is_compact; /* addresses are multiples of SLOT_BYTES, and used again */
} upstream_t;

#define SLOT_BYTES (64 * MIB)
#define SLOT_COUNT 64u

static upstream_t upstream;
static controlled_streams_t streams;
static dao_ledger_t ledger;
static dao_segments_t segments;

static bool call_fails(void)
{
    if (upstream.calls_until_failure == 0) {
        return true;
    }
    upstream.calls_until_failure -= upstream.calls_until_failure != UINT64_MAX;
    return false;
}

/* Returns the first slot that nobody has. */
static uintptr_t slot_address(void)
{
    uintptr_t slot = 0;
    for (size_t i = 0; i < upstream.count; i++) {
        if (upstream.given[i].address == ((uintptr_t)1 << 44) + slot * SLOT_BYTES) {
            slot++;
            i = (size_t)-1; /* from the start */
        }
    }
    CU_ASSERT_TRUE(slot < SLOT_COUNT);
    return ((uintptr_t)1 << 44) + slot * SLOT_BYTES;
}

/* Returns an address above all so far or below them, with a random gap; 0: neighbours, which are not
   merged. */
static uintptr_t outer_address(size_t size_bytes)
{
    uint64_t unit = upstream.is_aligned ? UNIT : DAO_RANGE_GRANULE;
    uint64_t gap_bytes = dao_random_next(&upstream.seed) % 8 * unit;
    uint64_t span_bytes = (size_bytes + unit - 1) / unit * unit;
    if (dao_random_next(&upstream.seed) % 2 == 0) {
        upstream.low -= gap_bytes + span_bytes;
        return upstream.low;
    }
    upstream.high += gap_bytes + span_bytes;
    return upstream.high - span_bytes;
}

static dao_status_t take_upstream(void *user, size_t size_bytes, void **out_address)
{
    CU_ASSERT_PTR_EQUAL(user, &upstream);
    upstream.asked[upstream.take_count++ % GIVEN_MAX] = size_bytes;
    if (call_fails()) {
        return dao_error(upstream.failure, "made to fail");
    }
    if (upstream.count == GIVEN_MAX || size_bytes > upstream.capacity_bytes - upstream.given_bytes) {
        return dao_error(DAO_ERR_NO_DEVICE_MEMORY, "nothing is left");
    }
    uintptr_t address = upstream.is_compact ? slot_address() : outer_address(size_bytes);
    upstream.given[upstream.count++] = (given_t){address, size_bytes};
    upstream.given_bytes += size_bytes;
    *out_address = (void *)address;
    return DAO_OK;
}

static dao_status_t give_upstream(void *user, void *address, size_t size_bytes)
{
    CU_ASSERT_PTR_EQUAL(user, &upstream);
    if (call_fails()) {
        return dao_error(upstream.failure, "made to fail");
    }
    upstream.give_count++;
    for (size_t i = 0; i < upstream.count; i++) {
        if (upstream.given[i].address == (uintptr_t)address && upstream.given[i].size_bytes == size_bytes) {
            upstream.given[i] = upstream.given[--upstream.count];
            upstream.given_bytes -= size_bytes;
            return DAO_OK;
        }
    }
    CU_FAIL("given back what was not taken");
    return DAO_ERR_INVALID;
}

/* ---- helpers ---- */

static void begin_with(uint32_t own_share)
{
    uintptr_t middle = (uintptr_t)1 << 50; /* far from both ends */
    memset(&upstream, 0, sizeof(upstream));
    upstream.capacity_bytes = UINT64_MAX;
    upstream.seed = 1;
    upstream.low = middle;
    upstream.high = middle;
    upstream.calls_until_failure = UINT64_MAX;
    upstream.failure = DAO_ERR_NO_DEVICE_MEMORY;
    controlled_streams_begin(&streams);
    CU_ASSERT_EQUAL_FATAL(dao_ledger_init(&ledger, "test"), DAO_OK);
    dao_segments_config_t config = {
        .upstream = {.take = take_upstream, .give = give_upstream, .user = &upstream},
        .unit_bytes = UNIT,
        .minimum_bytes = USUAL,
        .growth_share = 16,
        .own_share = own_share,
        .full_status = DAO_ERR_NO_DEVICE_MEMORY,
        .fences = streams.fences};
    dao_segments_init(&segments, &config, &ledger);
}

static void begin(void)
{
    begin_with(2);
}

static void end(void)
{
    dao_segments_finish(&segments);
    dao_ledger_finish(&ledger);
    controlled_streams_end(&streams);
    CU_ASSERT_EQUAL(upstream.count, 0);
}

static void check(void)
{
    dao_recount_t recount = {0};
    CU_ASSERT_TRUE(dao_segments_is_valid(&segments, &recount));
    CU_ASSERT_TRUE(dao_ledger_matches(&ledger, &recount));
    CU_ASSERT_EQUAL(ledger.stats.reserved_bytes, upstream.given_bytes);
    CU_ASSERT_EQUAL(segments.space.count, upstream.count);
}

static dao_status_t try_take(size_t size_bytes, size_t alignment_bytes, char **out_address)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .alignment_bytes = alignment_bytes};
    dao_block_grant_t grant;
    dao_status_t status = dao_segments_alloc(&segments, &request, &grant);
    if (status == DAO_OK) {
        *out_address = grant.address;
    }
    return status;
}

static char *take(size_t size_bytes)
{
    char *address = NULL;
    CU_ASSERT_EQUAL(try_take(size_bytes, 0, &address), DAO_OK);
    check();
    return address;
}

static void give(char *address)
{
    CU_ASSERT_EQUAL(dao_segments_free(&segments, address, NULL, DAO_BLOCK_OWNER_RAW), DAO_OK);
    check();
}

static size_t last_asked(void)
{
    return upstream.asked[(upstream.take_count - 1) % GIVEN_MAX];
}

/* ---- placement ---- */

static void a_block_gets_the_best_hole_of_all_segments(void)
{
    char *fillers[6], *holes[3];
    for (size_t i = 0; i < 3; i++) { /* three segments, each with one hole of its own size */
        fillers[2 * i] = take(5 * MIB);
        holes[i] = take((4 - i) * MIB);
        fillers[2 * i + 1] = take(20 * MIB - 5 * MIB - (4 - i) * MIB);
    }
    CU_ASSERT_EQUAL(upstream.count, 3);
    for (size_t i = 0; i < 3; i++) {
        give(holes[i]);
    }
    CU_ASSERT_PTR_EQUAL(take(2 * MIB), holes[2]);
    CU_ASSERT_PTR_EQUAL(take(4 * MIB), holes[0]);
    CU_ASSERT_PTR_EQUAL(take(3 * MIB), holes[1]);
    for (size_t i = 0; i < 6; i++) {
        give(fillers[i]);
    }
}

static void where_half_is_used_large_holes_are_kept(void)
{
    ledger.capacity_bytes = 2 * GIB;
    CU_ASSERT_EQUAL_FATAL(dao_segments_take_initial(&segments, 2 * GIB), DAO_OK);
    char *low = take(110 * MIB), *wall = take(1 * MIB), *high = take(100 * MIB), *end_wall = take(1 * MIB);
    CU_ASSERT_TRUE(low < wall && wall < high && high < end_wall);
    give(low);
    give(high);
    CU_ASSERT_PTR_EQUAL(take(100 * MIB), low);
    give(low);
    (void)take(1 * GIB);
    CU_ASSERT_PTR_EQUAL(take(100 * MIB), high);
}

static void the_last_segments_run_empty(void)
{
    enum { COUNT = 200 };
    static char *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = take(1 * MIB);
    }
    CU_ASSERT_EQUAL(upstream.count, 10);
    for (size_t i = 0; i < COUNT; i += 2) { /* half of each segment is free, as singles */
        give(blocks[i]);
    }
    for (size_t i = 0; i < 4 * COUNT; i++) { /* what lives a while moves to the front */
        give(blocks[(2 * i + 1) % COUNT]);
        blocks[(2 * i + 1) % COUNT] = take(1 * MIB);
    }
    CU_ASSERT_EQUAL(dao_segments_trim(&segments, 0), DAO_OK);
    CU_ASSERT_TRUE(upstream.count <= 7);
    check();
}

static void neighbouring_segments_are_not_merged(void)
{
    upstream.is_aligned = true;
    for (size_t i = 0; i < 40; i++) {
        give(take(30 * MIB));
        give(take((32 + i) * MIB));
    }
    for (size_t i = 0; i < upstream.count; i++) { /* whatever their distance, each is one hole */
        CU_ASSERT_TRUE(upstream.given[i].size_bytes <= dao_segments_largest_hole(&segments));
    }
    CU_ASSERT_EQUAL(dao_segments_largest_hole(&segments), 72 * MIB);
    CU_ASSERT_EQUAL(dao_segments_trim(&segments, 0), DAO_OK);
    CU_ASSERT_EQUAL(upstream.count, 0);
}

static void alignments_are_those_of_addresses(void)
{
    static const size_t alignments[] = {1, 256, 4096, 64 * KIB, 2 * MIB, 4 * MIB, 1 * GIB};
    for (size_t round = 0; round < 40; round++) {
        for (size_t i = 0; i < sizeof(alignments) / sizeof(alignments[0]); i++) {
            char *address = NULL;
            CU_ASSERT_EQUAL(try_take(1 + round * 1000, alignments[i], &address), DAO_OK);
            CU_ASSERT_EQUAL((uintptr_t)address % alignments[i], 0);
            check();
            dao_block_t block;
            CU_ASSERT_EQUAL(dao_segments_query(&segments, address + round * 1000, &block), DAO_OK);
            CU_ASSERT_PTR_EQUAL(block.address, address);
        }
    }
    char *address = NULL;
    CU_ASSERT_EQUAL(try_take(1, (size_t)PTRDIFF_MAX / 2 + 1, &address), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(try_take(1, (size_t)PTRDIFF_MAX + 1, &address), DAO_ERR_OVERFLOW);
    check();
}

/* ---- growth ---- */

static void growth_is_a_sixteenth_and_never_doubles(void)
{
    uint64_t reserved_bytes = 0;
    size_t growth_count = 0;
    while (ledger.stats.used_bytes < 4 * GIB) {
        char *address = NULL;
        CU_ASSERT_EQUAL_FATAL(try_take(1 * MIB, 0, &address), DAO_OK);
        if (ledger.stats.reserved_bytes != reserved_bytes) {
            uint64_t grown_bytes = ledger.stats.reserved_bytes - reserved_bytes;
            uint64_t most_bytes = reserved_bytes / 16 > USUAL ? reserved_bytes / 16 + UNIT : USUAL;
            CU_ASSERT_TRUE(grown_bytes <= most_bytes);
            reserved_bytes = ledger.stats.reserved_bytes;
            growth_count++;
        }
    }
    CU_ASSERT_TRUE(growth_count < 80); /* 205 segments of the configured size */
    check();
}

static void equal_blocks_leave_no_rest(void)
{
    static const size_t sizes[] = {1 * MIB, 3 * MIB, 7 * MIB, 9 * MIB, 11 * MIB, 33 * MIB, 300 * MIB};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        while (ledger.stats.used_bytes < 1 * GIB) {
            (void)take(sizes[i]);
        }
        double share = (double)ledger.stats.reserved_bytes / (double)ledger.stats.used_bytes;
        CU_ASSERT_TRUE(share <= 8.0 / 7 * 17 / 16); /* the rest of each, and the last one not full */
        end();
        begin();
    }
}

static void a_large_block_has_a_segment_of_its_own(void)
{
    (void)take(10 * MIB);
    CU_ASSERT_EQUAL(last_asked(), 10 * MIB);
    (void)take(33 * MIB);
    CU_ASSERT_EQUAL(last_asked(), 34 * MIB);
    end();
    begin_with(1); /* none but those that are as large as the usual one */
    (void)take(10 * MIB);
    CU_ASSERT_EQUAL(last_asked(), USUAL);
    (void)take(33 * MIB);
    CU_ASSERT_EQUAL(last_asked(), 34 * MIB);
}

static void an_upstream_that_refuses_is_asked_for_half(void)
{
    upstream.capacity_bytes = 6 * MIB;
    (void)take(1 * MIB);
    static const size_t asked[] = {20 * MIB, 10 * MIB, 6 * MIB};
    CU_ASSERT_EQUAL(upstream.take_count, 3);
    CU_ASSERT_EQUAL(memcmp(asked, upstream.asked, sizeof(asked)), 0);
    upstream.capacity_bytes = 7 * MIB;
    (void)take(5 * MIB);
    CU_ASSERT_EQUAL(upstream.count, 1);
    (void)take(1 * MIB); /* just the block */
    CU_ASSERT_EQUAL(last_asked(), 1 * MIB);
    char *address = NULL;
    CU_ASSERT_EQUAL(try_take(1, 0, &address), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "nothing is left"));
    check();
}

static void free_segments_make_way_for_a_larger_one(void)
{
    upstream.capacity_bytes = 64 * MIB;
    char *blocks[3] = {take(20 * MIB), take(20 * MIB), take(20 * MIB)};
    give(blocks[0]);
    give(blocks[2]);
    (void)take(40 * MIB);
    CU_ASSERT_EQUAL(upstream.give_count, 2);
    char *address = NULL;
    CU_ASSERT_EQUAL(try_take(5 * MIB, 0, &address), DAO_ERR_NO_DEVICE_MEMORY);
    check();
}

static void a_limit_is_never_passed_by_a_byte(void)
{
    CU_ASSERT_EQUAL(dao_segments_limit_set(&segments, 33 * MIB + 256), DAO_OK);
    char *first = take(33 * MIB), *second = take(256);
    CU_ASSERT_EQUAL(ledger.stats.reserved_bytes, 33 * MIB + 256);
    char *address = NULL;
    CU_ASSERT_EQUAL(try_take(1, 0, &address), DAO_ERR_LIMIT);
    give(first);
    CU_ASSERT_EQUAL(dao_segments_limit_set(&segments, 33 * MIB + 255), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(ledger.stats.limit_bytes, 33 * MIB + 256);
    check();
    give(second);
    CU_ASSERT_EQUAL(dao_segments_limit_set(&segments, 33 * MIB + 255), DAO_OK);
    CU_ASSERT_EQUAL(ledger.stats.reserved_bytes, 0);
    check();
}

static void segments_come_and_go_without_an_end(void)
{
    upstream.is_aligned = true;
    for (size_t i = 0; i < 20000; i++) { /* growing ones: 4 GiB at once, 40 TiB in all */
        char *kept = NULL, *passing = NULL;
        CU_ASSERT_EQUAL_FATAL(try_take(UNIT + i % 2048 * UNIT, 0, &kept), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(try_take(2 * UNIT + i % 2048 * UNIT, 0, &passing), DAO_OK);
        CU_ASSERT_EQUAL(dao_segments_free(&segments, kept, NULL, DAO_BLOCK_OWNER_RAW), DAO_OK);
        CU_ASSERT_EQUAL(dao_segments_free(&segments, passing, NULL, DAO_BLOCK_OWNER_RAW), DAO_OK);
        CU_ASSERT_EQUAL(dao_segments_trim(&segments, i % 7 * GIB), DAO_OK);
    }
    check();
}

/* ---- giving back ---- */

static void a_segment_that_is_refused_stays(void)
{
    (void)take(1 * MIB);
    char *blocks[3] = {take(20 * MIB), take(30 * MIB), take(40 * MIB)};
    for (size_t i = 0; i < 3; i++) {
        give(blocks[i]);
    }
    upstream.calls_until_failure = 1;
    upstream.failure = DAO_ERR_BACKEND;
    CU_ASSERT_EQUAL(dao_segments_trim(&segments, 0), DAO_ERR_BACKEND);
    upstream.calls_until_failure = UINT64_MAX;
    CU_ASSERT_EQUAL(upstream.count, 3);
    check();
    CU_ASSERT_EQUAL(dao_segments_trim(&segments, 0), DAO_OK);
    CU_ASSERT_EQUAL(upstream.count, 1);
    check();
}

static void trim_keeps_what_suits_best(void)
{
    char *blocks[4] = {take(20 * MIB), take(30 * MIB), take(40 * MIB), take(60 * MIB)};
    for (size_t i = 0; i < 4; i++) {
        give(blocks[i]);
    }
    CU_ASSERT_EQUAL(dao_segments_trim(&segments, 115 * MIB), DAO_OK); /* 35 too much: the 40 go */
    CU_ASSERT_EQUAL(ledger.stats.reserved_bytes, 110 * MIB);
    CU_ASSERT_EQUAL(dao_segments_trim(&segments, 110 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(ledger.stats.reserved_bytes, 110 * MIB);
    CU_ASSERT_EQUAL(dao_segments_trim(&segments, 10 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(ledger.stats.reserved_bytes, 0);
    check();
}

static void wrong_addresses_are_told_apart(void)
{
    char *low = take(1 * MIB), *high = take(1 * MIB), *other = take(40 * MIB);
    CU_ASSERT_EQUAL(dao_segments_free(&segments, low + 256, NULL, DAO_BLOCK_OWNER_RAW),
                    DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_segments_free(&segments, low + 1, NULL, DAO_BLOCK_OWNER_RAW),
                    DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_segments_free(&segments, (char *)upstream.high + UNIT, NULL, DAO_BLOCK_OWNER_RAW),
                    DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_segments_free(&segments, (char *)upstream.low - 1, NULL, DAO_BLOCK_OWNER_RAW),
                    DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_segments_free(&segments, high + 2 * MIB, NULL, DAO_BLOCK_OWNER_RAW),
                    DAO_ERR_FOREIGN_POINTER); /* never a block */
    give(other);
    CU_ASSERT_EQUAL(dao_segments_free(&segments, other, NULL, DAO_BLOCK_OWNER_RAW), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_segments_trim(&segments, 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_segments_free(&segments, other, NULL, DAO_BLOCK_OWNER_RAW),
                    DAO_ERR_DOUBLE_FREE); /* its segment is gone */
    check();
}

/* ---- streams ---- */

/* Takes a block in the order of stream `index`. */
static dao_block_grant_t take_on(uint32_t index, size_t size_bytes)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .stream = streams.numbers[index]};
    dao_block_grant_t grant = {0};
    CU_ASSERT_EQUAL(dao_segments_alloc(&segments, &request, &grant), DAO_OK);
    check();
    return grant;
}

/* Frees a block behind work of stream `index`. */
static void give_on(uint32_t index, void *address)
{
    dao_stream_fence_t fence = controlled_streams_mark(&streams, index);
    CU_ASSERT_EQUAL(dao_segments_free(&segments, address, &fence, DAO_BLOCK_OWNER_RAW), DAO_OK);
    dao_stream_fences_record(streams.fences, &fence);
    check();
}

static bool fences_stream(const dao_stream_fence_t *fence, uint32_t index)
{
    return (fence->streams >> streams.numbers[index] & 1) != 0;
}

static void a_stream_has_its_own_blocks_back_at_once(void)
{
    void *block = take_on(0, 10 * MIB).address;
    give_on(0, block);
    dao_block_grant_t grant = take_on(0, 10 * MIB);
    CU_ASSERT_PTR_EQUAL(grant.address, block);
    CU_ASSERT_TRUE(fences_stream(&grant.fence, 0)); /* which follows in its own order */
    CU_ASSERT_TRUE(dao_stream_fence_is_own(&grant.fence, streams.numbers[0]));
    CU_ASSERT_EQUAL(upstream.take_count, 1);
}

static void another_stream_is_told_whom_to_wait_for(void)
{
    void *block = take_on(0, 10 * MIB).address;
    give_on(0, block);
    dao_block_grant_t grant = take_on(1, 10 * MIB);
    CU_ASSERT_PTR_EQUAL(grant.address, block);
    CU_ASSERT_TRUE(fences_stream(&grant.fence, 0));
    give_on(1, block);
    controlled_streams_finish(1);
    grant = take_on(2, 10 * MIB); /* done: nothing is left to wait for */
    CU_ASSERT_PTR_EQUAL(grant.address, block);
    CU_ASSERT_TRUE(dao_stream_fence_is_empty(&grant.fence));
}

static void a_request_without_a_stream_gets_idle_memory(void)
{
    void *block = take_on(0, 10 * MIB).address;
    give_on(0, block);
    char *other = take(10 * MIB); /* grows rather than take what is in use */
    CU_ASSERT_PTR_NOT_EQUAL(other, block);
    CU_ASSERT_EQUAL(upstream.take_count, 2);
    CU_ASSERT_EQUAL(ledger.stats.grow_fenced_count, 1);
    upstream.capacity_bytes = upstream.given_bytes;
    char *address = NULL;
    CU_ASSERT_EQUAL(try_take(10 * MIB, 0, &address), DAO_ERR_NO_DEVICE_MEMORY);
    controlled_streams_finish(0);
    CU_ASSERT_PTR_EQUAL(take(10 * MIB), block);
    give(block);
    give(other);
}

static void a_fenced_segment_is_not_given_back(void)
{
    void *block = take_on(0, 40 * MIB).address;
    give_on(0, block);
    CU_ASSERT_EQUAL(dao_segments_trim(&segments, 0), DAO_OK);
    CU_ASSERT_EQUAL(upstream.count, 1);
    CU_ASSERT_EQUAL(dao_segments_limit_set(&segments, 1 * MIB), DAO_ERR_LIMIT);
    controlled_streams_finish(0);
    CU_ASSERT_EQUAL(dao_segments_limit_set(&segments, 1 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(upstream.count, 0);
    check();
}

static void a_block_waits_for_all_streams_that_are_marked_on_it(void)
{
    void *block = take_on(0, 10 * MIB).address;
    dao_stream_fences_share(streams.fences, streams.numbers[1]);
    CU_ASSERT_EQUAL(dao_segments_mark(&segments, block, streams.numbers[1]), DAO_OK);
    CU_ASSERT_EQUAL(dao_segments_mark(&segments, (char *)block + 256, streams.numbers[1]),
                    DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_segments_mark(&segments, &block, streams.numbers[1]), DAO_ERR_FOREIGN_POINTER);
    (void)controlled_streams_mark(&streams, 1); /* its work on the block */
    give_on(0, block);
    CU_ASSERT_EQUAL(dao_segments_mark(&segments, block, streams.numbers[1]), DAO_ERR_FOREIGN_POINTER);
    controlled_streams_finish(0);
    dao_block_grant_t grant = take_on(0, 10 * MIB);
    CU_ASSERT_TRUE(fences_stream(&grant.fence, 1));
    char *plain = take(1 * MIB);
    CU_ASSERT_EQUAL(dao_segments_mark(&segments, plain, streams.numbers[1]), DAO_ERR_UNSUPPORTED);
    give(plain);
    CU_ASSERT_EQUAL(dao_segments_free(&segments, grant.address, NULL, DAO_BLOCK_OWNER_RAW), DAO_OK);
}

static void what_several_streams_hold_is_joined_before_an_error(void)
{
    upstream.capacity_bytes = 20 * MIB;
    void *blocks[4];
    for (uint32_t i = 0; i < 4; i++) {
        blocks[i] = take_on(i, 5 * MIB).address;
    }
    for (uint32_t i = 0; i < 4; i++) {
        give_on(i, blocks[i]);
    }
    dao_block_grant_t grant = take_on(0, 20 * MIB);
    for (uint32_t i = 1; i < 4; i++) {
        CU_ASSERT_TRUE(fences_stream(&grant.fence, i));
    }
    CU_ASSERT_EQUAL(dao_segments_free(&segments, grant.address, NULL, DAO_BLOCK_OWNER_RAW), DAO_OK);
}

/* What the model knows of each 256 KiB of the upstream's slots: the streams that still use it. */
#define CELL_BYTES (256 * KIB)
#define CELL_COUNT (SLOT_BYTES / CELL_BYTES * SLOT_COUNT)

static uint32_t cells[CELL_COUNT];

static uint32_t *cells_of(const void *address)
{
    return &cells[(uintptr_t)address / CELL_BYTES % CELL_COUNT];
}

static void set_cells(const void *address, size_t size_bytes, uint32_t users)
{
    for (size_t i = 0; i < size_bytes / CELL_BYTES; i++) {
        *cells_of((const char *)address + i * CELL_BYTES) = users;
    }
}

static uint32_t users_of(const void *address, size_t size_bytes)
{
    uint32_t users = 0;
    for (size_t i = 0; i < size_bytes / CELL_BYTES; i++) {
        users |= *cells_of((const char *)address + i * CELL_BYTES);
    }
    return users;
}

/* Takes a block for a stream, or for none: CONTROLLED_STREAM_COUNT. Everybody who still uses it is in the
   fence. */
static bool take_checked(uint32_t index, size_t size_bytes, dao_block_grant_t *out_grant)
{
    bool is_plain = index == CONTROLLED_STREAM_COUNT;
    dao_block_request_t request = {.size_bytes = size_bytes, .stream = is_plain ? 0 : streams.numbers[index]};
    dao_status_t status = dao_segments_alloc(&segments, &request, out_grant);
    CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_NO_DEVICE_MEMORY);
    if (status != DAO_OK) {
        return false;
    }
    uint32_t users = users_of(out_grant->address, size_bytes);
    CU_ASSERT_TRUE(!is_plain || (users == 0 && dao_stream_fence_is_empty(&out_grant->fence)));
    for (uint32_t i = 0; i < CONTROLLED_STREAM_COUNT; i++) {
        CU_ASSERT_TRUE(i == index || (users >> i & 1) == 0 || fences_stream(&out_grant->fence, i));
    }
    return true;
}

static void random_streams_never_meet_in_a_block(void)
{
    enum { COUNT = 60 };
    static struct {
        void *address;
        size_t size_bytes;
        uint32_t waits_for; /* the block's first work waits for these streams */
    } blocks[COUNT];
    uint64_t seed = dao_test_seed("segments of streams", 12);
    uint32_t count = 0;
    memset(cells, 0, sizeof(cells));
    upstream.is_compact = true;
    upstream.capacity_bytes = 60 * MIB;
    for (size_t i = 0; i < 20000; i++) {
        uint32_t index = (uint32_t)(dao_random_next(&seed) % (CONTROLLED_STREAM_COUNT + 1));
        uint64_t dice = dao_random_next(&seed) % 100;
        if (dice < 8 && index < CONTROLLED_STREAM_COUNT) {
            controlled_streams_finish(index);
            for (size_t k = 0; k < CELL_COUNT; k++) {
                cells[k] &= ~(1u << index);
            }
        } else if (count < COUNT && dice < 54) {
            size_t size_bytes = (1 + dao_random_next(&seed) % 20) * CELL_BYTES;
            dao_block_grant_t grant;
            if (take_checked(index, size_bytes, &grant)) {
                blocks[count].address = grant.address;
                blocks[count].waits_for = users_of(grant.address, size_bytes);
                blocks[count++].size_bytes = size_bytes;
            }
        } else if (count > 0 && index < CONTROLLED_STREAM_COUNT) {
            size_t victim = (size_t)(dao_random_next(&seed) % count);
            uint32_t users = 1u << index | blocks[victim].waits_for; /* its own work waits for the others' */
            set_cells(blocks[victim].address, blocks[victim].size_bytes, users);
            dao_stream_fence_t fence = {0};
            for (uint32_t k = 0; k < CONTROLLED_STREAM_COUNT; k++) {
                if ((users >> k & 1) != 0) {
                    dao_stream_fence_t part = controlled_streams_mark(&streams, k);
                    dao_stream_fence_join(&fence, &part);
                }
            }
            CU_ASSERT_EQUAL(dao_segments_free(&segments, blocks[victim].address, &fence, DAO_BLOCK_OWNER_RAW),
                            DAO_OK);
            dao_stream_fences_record(streams.fences, &fence);
            blocks[victim] = blocks[--count];
        }
        if (i % 32 == 0) {
            check();
        }
    }
    while (count > 0) {
        CU_ASSERT_EQUAL(dao_segments_free(&segments, blocks[--count].address, NULL, DAO_BLOCK_OWNER_RAW),
                        DAO_OK);
    }
    for (uint32_t i = 0; i < CONTROLLED_STREAM_COUNT; i++) {
        controlled_streams_finish(i);
    }
    CU_ASSERT_EQUAL(dao_segments_trim(&segments, 0), DAO_OK);
    CU_ASSERT_EQUAL(upstream.count, 0);
}

/* ---- random operations ---- */

#define LIVE_MAX 300u

typedef struct live {
    char *address;
    size_t size_bytes;
} live_t;

static size_t random_size(uint64_t *seed)
{
    return 1 + (size_t)(dao_random_next(seed) % ((uint64_t)256 << dao_random_next(seed) % 18));
}

/* Returns true if a block lies in one of the upstream's stretches and apart from all others. */
static bool is_well_placed(const live_t *blocks, size_t count)
{
    const live_t *last = &blocks[count - 1];
    for (size_t i = 0; i + 1 < count; i++) {
        if (blocks[i].address < last->address + last->size_bytes &&
            last->address < blocks[i].address + blocks[i].size_bytes) {
            return false;
        }
    }
    for (size_t i = 0; i < upstream.count; i++) {
        uintptr_t offset = (uintptr_t)last->address - upstream.given[i].address;
        if (offset < upstream.given[i].size_bytes &&
            last->size_bytes <= upstream.given[i].size_bytes - offset) {
            return true;
        }
    }
    return false;
}

static void take_at_random(uint64_t *seed, live_t *blocks, size_t *count)
{
    live_t *block = &blocks[*count];
    size_t alignment_bytes = dao_random_next(seed) % 8 == 0 ? (size_t)1 << dao_random_next(seed) % 24 : 0;
    block->size_bytes = random_size(seed);
    uint64_t hole_bytes = dao_segments_largest_hole(&segments);
    dao_status_t status = try_take(block->size_bytes, alignment_bytes, &block->address);
    if (status == DAO_OK) {
        CU_ASSERT_TRUE(alignment_bytes == 0 || (uintptr_t)block->address % alignment_bytes == 0);
        ++*count;
        CU_ASSERT_TRUE(is_well_placed(blocks, *count));
    } else { /* it must not fail where there is room */
        CU_ASSERT_TRUE(status == DAO_ERR_LIMIT || status == DAO_ERR_NO_DEVICE_MEMORY);
        CU_ASSERT_TRUE(hole_bytes < block->size_bytes + alignment_bytes);
    }
}

static void query_at_random(uint64_t *seed, const live_t *blocks, size_t count)
{
    const live_t *live = &blocks[dao_random_next(seed) % count];
    dao_block_t block = {0};
    char *inside = live->address + dao_random_next(seed) % live->size_bytes;
    CU_ASSERT_EQUAL(dao_segments_query(&segments, inside, &block), DAO_OK);
    CU_ASSERT_PTR_EQUAL(block.address, live->address);
    CU_ASSERT_EQUAL(block.requested_bytes, live->size_bytes);
}

/* What stays below its limit, whatever was refused. */
static void limit_at_random(uint64_t *seed)
{
    uint64_t limit_bytes = dao_random_next(seed) % 2 == 0 ? 0 : (1 + dao_random_next(seed) % 400) * MIB;
    dao_status_t status = dao_segments_limit_set(&segments, limit_bytes);
    CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_LIMIT);
    upstream.capacity_bytes = dao_random_next(seed) % 2 == 0 ? UINT64_MAX : upstream.given_bytes + 30 * MIB;
}

static void random_operations_match_a_model(void)
{
    uint64_t seed = dao_test_seed("segments", 11);
    static live_t blocks[LIVE_MAX];
    size_t count = 0;
    for (size_t i = 0; i < 12000; i++) {
        uint64_t dice = dao_random_next(&seed) % 100;
        bool grows = i / 1500 % 2 == 0;
        if (dice == 0) {
            CU_ASSERT_EQUAL(dao_segments_trim(&segments, dao_random_next(&seed) % 100 * MIB), DAO_OK);
        } else if (dice == 1) {
            limit_at_random(&seed);
        } else if (dice < 5 && count > 0) {
            query_at_random(&seed, blocks, count);
        } else if (count < LIVE_MAX && dice < (grows ? 65u : 40u)) {
            take_at_random(&seed, blocks, &count);
        } else if (count > 0) {
            size_t victim = (size_t)(dao_random_next(&seed) % count);
            CU_ASSERT_EQUAL(dao_segments_free(&segments, blocks[victim].address, NULL, DAO_BLOCK_OWNER_RAW),
                            DAO_OK);
            blocks[victim] = blocks[--count];
        }
        CU_ASSERT_EQUAL(ledger.stats.live_count, count);
        if (i % 16 == 0) {
            check();
        }
    }
    while (count > 0) {
        give(blocks[--count].address);
    }
    CU_ASSERT_EQUAL(dao_segments_trim(&segments, 0), DAO_OK);
    CU_ASSERT_EQUAL(upstream.count, 0);
}

/* ---- failures ---- */

/* Takes, gives, trims and limits; returns the first failure. After each call all is valid. */
static dao_status_t scenario(void)
{
    static char *blocks[60];
    dao_status_t status = DAO_OK;
    size_t count = 0;
    for (size_t i = 0; i < 60 && status == DAO_OK; i++) {
        status = try_take((1 + i % 5 * 7) * MIB + i, i % 9 == 0 ? 4 * MIB : 0, &blocks[i]);
        count += status == DAO_OK;
        check();
        if (i % 3 == 2 && status == DAO_OK) {
            give(blocks[--count]);
            blocks[count] = NULL;
            i = i < 40 ? i : 60;
            status = dao_segments_trim(&segments, 50 * MIB);
            check();
        }
    }
    if (status == DAO_OK) {
        status = dao_segments_limit_set(&segments, ledger.stats.used_bytes + 40 * MIB);
        check();
        status = status == DAO_ERR_LIMIT ? DAO_OK : status; /* free segments are not where the excess is */
    }
    return status;
}

static void every_refusal_of_the_upstream_is_survived(void)
{
    static const dao_status_t failures[] = {DAO_ERR_NO_DEVICE_MEMORY, DAO_ERR_BACKEND};
    for (size_t k = 0; k < 2; k++) {
        dao_status_t status = DAO_ERR_BACKEND;
        for (uint64_t n = 0; status != DAO_OK && n < 500; n++) {
            end();
            begin();
            upstream.failure = failures[k];
            upstream.calls_until_failure = n;
            status = scenario();
            bool has_failed = upstream.calls_until_failure == 0;
            upstream.calls_until_failure = UINT64_MAX;
            CU_ASSERT_TRUE(has_failed || status == DAO_OK);
            give(take(64 * KIB)); /* still of use */
            status = has_failed ? DAO_ERR_BACKEND : status;
        }
        CU_ASSERT_EQUAL(status, DAO_OK);
    }
}

#if defined(DAO_FAULTS)
static void every_lack_of_host_memory_is_survived(void)
{
    uint64_t fired = 1;
    for (uint64_t n = 0; fired > 0 && n < 500; n++) {
        end();
        begin();
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = scenario();
        fired = dao_fault_disarm();
        CU_ASSERT_TRUE(status == DAO_OK || (fired > 0 && status == DAO_ERR_NO_HOST_MEMORY));
        give(take(64 * KIB)); /* still of use */
    }
    CU_ASSERT_EQUAL(fired, 0);
}
#endif

static CU_TestInfo tests[] = {
    {"a block gets the best hole of all segments", a_block_gets_the_best_hole_of_all_segments},
    {"where half is used large holes are kept", where_half_is_used_large_holes_are_kept},
    {"the last segments run empty", the_last_segments_run_empty},
    {"neighbouring segments are not merged", neighbouring_segments_are_not_merged},
    {"alignments are those of addresses", alignments_are_those_of_addresses},
    {"growth is a sixteenth and never doubles", growth_is_a_sixteenth_and_never_doubles},
    {"equal blocks leave no rest", equal_blocks_leave_no_rest},
    {"a large block has a segment of its own", a_large_block_has_a_segment_of_its_own},
    {"an upstream that refuses is asked for half", an_upstream_that_refuses_is_asked_for_half},
    {"free segments make way for a larger one", free_segments_make_way_for_a_larger_one},
    {"a limit is never passed by a byte", a_limit_is_never_passed_by_a_byte},
    {"segments come and go without an end", segments_come_and_go_without_an_end},
    {"a segment that is refused stays", a_segment_that_is_refused_stays},
    {"trim keeps what suits best", trim_keeps_what_suits_best},
    {"wrong addresses are told apart", wrong_addresses_are_told_apart},
    {"a stream has its own blocks back at once", a_stream_has_its_own_blocks_back_at_once},
    {"another stream is told whom to wait for", another_stream_is_told_whom_to_wait_for},
    {"a request without a stream gets idle memory", a_request_without_a_stream_gets_idle_memory},
    {"a fenced segment is not given back", a_fenced_segment_is_not_given_back},
    {"a block waits for all streams that are marked on it",
     a_block_waits_for_all_streams_that_are_marked_on_it},
    {"what several streams hold is joined before an error",
     what_several_streams_hold_is_joined_before_an_error},
    {"random streams never meet in a block", random_streams_never_meet_in_a_block},
    {"random operations match a model", random_operations_match_a_model},
    {"every refusal of the upstream is survived", every_refusal_of_the_upstream_is_survived},
#if defined(DAO_FAULTS)
    {"every lack of host memory is survived", every_lack_of_host_memory_is_survived},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"segments", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
