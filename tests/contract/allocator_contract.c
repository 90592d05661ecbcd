/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of allocators/allocator.h, sentence by sentence. */
#include "tests/contract/allocator_contract.h"

#include "allocators/accounting/ledger.h"
#include "allocators/accounting/tag_names.h"
#include "allocators/slow_path.h"
#include "base/report/fault.h"
#include "base/threads/sync.h"

#include <stdlib.h>
#include <string.h>

#define LIVE_COUNT_MAX 400u

static const allocator_contract_t *contract;
static dao_allocator_t *allocator;

void allocator_contract_set(const allocator_contract_t *new_contract)
{
    contract = new_contract;
}

void allocator_contract_begin(void)
{
    allocator = NULL;
    CU_ASSERT_EQUAL_FATAL(contract->create(&allocator), DAO_OK);
}

void allocator_contract_begin_on(const allocator_contract_t *new_contract)
{
    allocator_contract_set(new_contract);
    allocator_contract_begin();
}

void allocator_contract_end(void)
{
    if (allocator != NULL) {
        contract->destroy(allocator);
    }
    allocator = NULL;
}

/* ---- helpers ---- */

static dao_stats_t stats_now(void)
{
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), stats.used_bytes);
    return stats;
}

static void sum_block(const dao_block_t *block, void *user)
{
    dao_stats_t *sum = user;
    sum->requested_bytes += block->requested_bytes;
    sum->used_bytes += block->block_bytes;
    sum->live_count++;
}

/* What a walk over all blocks has seen. */
typedef struct walk_sum {
    dao_stats_t live;
    uint64_t all_bytes;
    const char *end; /* of the block before */
    uint32_t gap_count;
} walk_sum_t;

static void sum_any_block(const dao_block_t *block, void *user)
{
    walk_sum_t *sum = user;
    sum->gap_count += !block->begins_segment && block->address != sum->end;
    sum->end = (const char *)block->address + block->block_bytes;
    sum->all_bytes += block->block_bytes;
    if (block->state == DAO_BLOCK_STATE_LIVE) {
        sum_block(block, &sum->live);
    }
}

/* All blocks fill what is reserved. */
static void check_walk_all(const dao_stats_t *stats)
{
    walk_sum_t sum = {0};
    allocator->ops->walk_all(allocator, sum_any_block, &sum);
    CU_ASSERT_EQUAL(sum.gap_count, 0);
    CU_ASSERT_EQUAL(sum.all_bytes, stats->reserved_bytes);
    CU_ASSERT_EQUAL(sum.live.used_bytes, stats->used_bytes);
    CU_ASSERT_EQUAL(sum.live.requested_bytes, stats->requested_bytes);
    CU_ASSERT_EQUAL(sum.live.live_count, stats->live_count);
}

/* The figures that must hold at every point. */
static void check(void)
{
    dao_stats_t stats = stats_now(), sum = {0};
    allocator->ops->walk(allocator, sum_block, &sum);
    CU_ASSERT_EQUAL(stats.used_bytes, sum.used_bytes);
    CU_ASSERT_EQUAL(stats.requested_bytes, sum.requested_bytes);
    CU_ASSERT_EQUAL(stats.live_count, sum.live_count);
    CU_ASSERT_EQUAL(stats.alloc_count - stats.free_count, stats.live_count);
    CU_ASSERT_TRUE(stats.slow_count <= stats.alloc_count + stats.free_count);
    CU_ASSERT_TRUE(stats.grow_pieces_count + stats.grow_fenced_count <= stats.grow_count);
    CU_ASSERT_TRUE(stats.requested_bytes <= stats.used_bytes && stats.used_bytes <= stats.reserved_bytes);
    CU_ASSERT_TRUE(stats.limit_bytes == 0 || stats.peak_reserved_bytes <= stats.limit_bytes);
    check_walk_all(&stats);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
}

static void *take(size_t size_bytes)
{
    void *address = NULL;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, size_bytes, &address), DAO_OK);
    CU_ASSERT_PTR_NOT_NULL(address);
    CU_ASSERT_EQUAL((uintptr_t)address % contract->alignment_bytes, 0);
    check();
    return address;
}

static void give(void *address)
{
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
    check();
}

/* A failing call: the code, a message that names the request, and nothing changed but failed_count. */
static void take_and_fail(size_t size_bytes, dao_status_t expected)
{
    dao_stats_t before = stats_now();
    void *address = &before;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, size_bytes, &address), expected);
    CU_ASSERT_EQUAL(dao_last_status(), expected);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "bytes asked for"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "largest hole"));
    CU_ASSERT_PTR_EQUAL(address, &before);
    dao_stats_t after = stats_now();
    CU_ASSERT_EQUAL(after.failed_count, before.failed_count + 1);
    CU_ASSERT_EQUAL(after.used_bytes, before.used_bytes);
    CU_ASSERT_EQUAL(after.live_count, before.live_count);
    CU_ASSERT_EQUAL(after.reserved_bytes, before.reserved_bytes);
    CU_ASSERT_EQUAL(after.largest_hole_bytes, before.largest_hole_bytes);
    check();
}

/* A free that must be refused and change nothing. */
static void give_and_fail(void *address, dao_status_t expected)
{
    dao_stats_t before = stats_now();
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), expected);
    CU_ASSERT_EQUAL(dao_last_status(), expected);
    dao_stats_t after = stats_now();
    CU_ASSERT_EQUAL(memcmp(&before, &after, sizeof(after)), 0);
    check();
}

/* ---- sentences ---- */

static void an_empty_allocator_holds_nothing(void)
{
    dao_stats_t stats = stats_now(), zero = {0};
    CU_ASSERT_EQUAL(memcmp(&stats, &zero, sizeof(stats)), 0);
    check();
}

static void blocks_are_counted_until_they_are_freed(void)
{
    static const size_t sizes[] = {1, 63, 64, 257, 4 * KIB, 32 * KIB, 32 * KIB + 1, 1 * MIB, 3 * MIB + 5};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    void *addresses[COUNT];
    size_t requested_bytes = 0;
    for (size_t i = 0; i < COUNT; i++) {
        addresses[i] = take(sizes[i]);
        requested_bytes += sizes[i];
        CU_ASSERT_EQUAL(stats_now().requested_bytes, requested_bytes);
        CU_ASSERT_EQUAL(stats_now().live_count, i + 1);
    }
    for (size_t i = 0; i < COUNT; i++) {
        give(addresses[i]);
    }
    CU_ASSERT_EQUAL(stats_now().used_bytes, 0);
    CU_ASSERT_EQUAL(stats_now().free_count, COUNT);
}

static void what_leaves_the_fast_path_is_counted(void)
{
    void *block = take(1 * MIB);
    give(block);
    dao_stats_t first = stats_now();
    CU_ASSERT_EQUAL(first.slow_count, 2);
    CU_ASSERT_EQUAL(first.miss_count, 1);
    CU_ASSERT_EQUAL(first.grow_pieces_count + first.grow_fenced_count, 0);
    block = allocator->ops->alloc_fast(allocator, 1 * MIB); /* NULL: there is no fast path */
    CU_ASSERT_EQUAL(stats_now().slow_count, first.slow_count);
    if (block != NULL) {
        CU_ASSERT_EQUAL(allocator->ops->free_fast(allocator, block), DAO_OK);
    }
    CU_ASSERT_EQUAL(stats_now().miss_count, first.miss_count);
}

static void query_finds_the_block_around_an_address(void)
{
    static const size_t sizes[] = {100, 100 * KIB};
    for (size_t i = 0; i < 2; i++) {
        char *address = take(sizes[i]);
        dao_block_t block = {0};
        CU_ASSERT_EQUAL(allocator->ops->query(allocator, address, &block), DAO_OK);
        CU_ASSERT_PTR_EQUAL(block.address, address);
        CU_ASSERT_EQUAL(block.requested_bytes, sizes[i]);
        CU_ASSERT_TRUE(block.block_bytes >= sizes[i]);
        CU_ASSERT_EQUAL(allocator->ops->query(allocator, address + sizes[i] - 1, &block), DAO_OK);
        CU_ASSERT_PTR_EQUAL(block.address, address);
        give(address);
        CU_ASSERT_EQUAL(allocator->ops->query(allocator, address, &block), DAO_ERR_FOREIGN_POINTER);
    }
    int foreign = 0;
    dao_block_t block = {0};
    CU_ASSERT_EQUAL(allocator->ops->query(allocator, &foreign, &block), DAO_ERR_FOREIGN_POINTER);
}

static void wrong_frees_are_told_apart(void)
{
    static const size_t sizes[] = {1000, 100 * KIB};
    int foreign = 0;
    give_and_fail(&foreign, DAO_ERR_FOREIGN_POINTER);
    for (size_t i = 0; i < 2; i++) {
        char *low = take(sizes[i]), *high = take(sizes[i]);
        give_and_fail(&foreign, DAO_ERR_FOREIGN_POINTER);
        give_and_fail((void *)(uintptr_t)64, DAO_ERR_FOREIGN_POINTER);
        give_and_fail(low + 1, DAO_ERR_INTERIOR_POINTER);
        give_and_fail(low + 512, DAO_ERR_INTERIOR_POINTER);
        give(low);
        give_and_fail(low, DAO_ERR_DOUBLE_FREE);
        give(high);
        give_and_fail(high, DAO_ERR_DOUBLE_FREE);
        give_and_fail(low, DAO_ERR_DOUBLE_FREE);
    }
}

/* An allocator's owner, who goes on where its shortest ways end. */
typedef struct owner {
    uint32_t alloc_count;
    uint32_t free_count;
} owner_t;

static void *alloc_as_owner(void *user, size_t size_bytes)
{
    ((owner_t *)user)->alloc_count++;
    void *address = NULL;
    return size_bytes > 0 && dao_allocator_alloc(allocator, size_bytes, &address) == DAO_OK ? address : NULL;
}

static dao_status_t free_as_owner(void *user, void *address)
{
    ((owner_t *)user)->free_count++;
    return dao_allocator_free(allocator, address);
}

static void the_shortest_ways_end_with_the_owner(void)
{
    static const size_t sizes[] = {1, 4 * KIB, 4 * KIB + 1, 3 * MIB};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    owner_t owner = {0};
    allocator->fallback = (dao_fallback_t){.alloc = alloc_as_owner, .free = free_as_owner, .user = &owner};
    CU_ASSERT_PTR_NULL(allocator->ops->alloc_fast(allocator, 0));
    CU_ASSERT_EQUAL(owner.alloc_count, 1);
    for (size_t i = 0; i < COUNT; i++) {
        char *address = allocator->ops->alloc_fast(allocator, sizes[i]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(address);
        CU_ASSERT_EQUAL(stats_now().requested_bytes, sizes[i]);
        CU_ASSERT_EQUAL(allocator->ops->free_fast(allocator, address + 1), DAO_ERR_INTERIOR_POINTER);
        check();
        CU_ASSERT_EQUAL(allocator->ops->free_fast(allocator, address), DAO_OK);
        CU_ASSERT_EQUAL(allocator->ops->free_fast(allocator, address), DAO_ERR_DOUBLE_FREE);
        check();
    }
    CU_ASSERT_EQUAL(allocator->ops->free_fast(allocator, &owner), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_TRUE(owner.free_count >= 2 * COUNT + 1);
    for (size_t i = 0; i < COUNT; i++) { /* a slow path: every free is the owner's */
        void *address = take(sizes[i]);
        uint32_t before_count = owner.free_count;
        dao_slow_path_begin();
        CU_ASSERT_EQUAL(allocator->ops->free_fast(allocator, address), DAO_OK);
        dao_slow_path_end();
        CU_ASSERT_EQUAL(owner.free_count, before_count + 1);
    }
    check();
}

static void a_size_that_cannot_be_is_an_overflow(void)
{
    take_and_fail(SIZE_MAX, DAO_ERR_OVERFLOW);
    take_and_fail(SIZE_MAX - 255, DAO_ERR_OVERFLOW);
    take_and_fail((size_t)PTRDIFF_MAX + 1, DAO_ERR_OVERFLOW);
    void *address = NULL;
    dao_status_t status = dao_allocator_alloc(allocator, PTRDIFF_MAX, &address);
    CU_ASSERT_TRUE(status == DAO_ERR_NO_DEVICE_MEMORY || status == DAO_ERR_NO_HOST_MEMORY);
    check();
    give(take(1));
}

static void a_limit_holds_exactly(void)
{
    size_t limit_bytes = 8 * MIB;
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, limit_bytes), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().limit_bytes, limit_bytes);
    take_and_fail(8 * MIB + 1, DAO_ERR_LIMIT);
    void *all = take(8 * MIB - contract->extra_bytes);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, limit_bytes);
    take_and_fail(1, DAO_ERR_LIMIT);
    take_and_fail(100 * KIB, DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 8 * MIB - 1), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(stats_now().limit_bytes, limit_bytes);
    give(all);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 4 * MIB), DAO_OK);
    CU_ASSERT_TRUE(stats_now().reserved_bytes <= 4 * MIB);
    allocator->ops->stats_reset_peaks(allocator, NULL);
    take_and_fail(6 * MIB, DAO_ERR_LIMIT);
    give(take(4 * MIB - contract->extra_bytes));
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 0), DAO_OK);
    give(take(16 * MIB));
}

static void cached_memory_makes_room_under_a_limit(void)
{
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 8 * MIB), DAO_OK);
    size_t half_bytes = 4 * MIB - contract->extra_bytes;
    void *halves[] = {take(half_bytes), take(half_bytes)};
    give(halves[0]);
    give(halves[1]);
    give(take(8 * MIB - contract->extra_bytes));
    give(take(1));
}

static void trim_gives_back_what_nothing_lives_in(void)
{
    void *stays = take(100 * KIB);
    void *goes = take(96 * MIB);
    give(goes);
    size_t released_bytes = 0;
    uint64_t reserved_bytes = stats_now().reserved_bytes;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, SIZE_MAX, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(released_bytes, 0);
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, reserved_bytes - released_bytes);
    CU_ASSERT_TRUE(contract->is_uncached ? released_bytes == 0 : released_bytes >= 90 * MIB);
    check();
    give(stays);
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(released_bytes, 0);
    check();
}

static void trim_keeps_no_more_than_it_may(void)
{
    give(take(8 * MIB));
    uint64_t idle_bytes = stats_now().reserved_bytes;
    if (idle_bytes > 0) { /* it caches */
        size_t released_bytes = 0;
        CU_ASSERT_EQUAL(allocator->ops->trim(allocator, (size_t)idle_bytes - 1, &released_bytes), DAO_OK);
        CU_ASSERT_TRUE(released_bytes > 0 && stats_now().reserved_bytes == idle_bytes - released_bytes);
        check();
    }
}

static void peaks_stay_until_they_are_reset(void)
{
    void *small = take(64 * KIB);
    uint64_t small_bytes = stats_now().used_bytes;
    void *large = take(2 * MIB);
    uint64_t both_bytes = stats_now().used_bytes;
    CU_ASSERT_TRUE(small_bytes >= 64 * KIB && both_bytes >= small_bytes + 2 * MIB);
    give(large);
    dao_stats_t stats = stats_now();
    CU_ASSERT_EQUAL(stats.peak_used_bytes, both_bytes);
    CU_ASSERT_EQUAL(stats.peak_requested_bytes, 64 * KIB + 2 * MIB);
    CU_ASSERT_TRUE(stats.peak_reserved_bytes >= stats.peak_used_bytes);
    allocator->ops->stats_reset_peaks(allocator, NULL);
    stats = stats_now();
    CU_ASSERT_EQUAL(stats.peak_used_bytes, small_bytes);
    CU_ASSERT_EQUAL(stats.peak_reserved_bytes, stats.reserved_bytes);
    give(small);
}

static void the_largest_hole_can_be_had_without_growing(void)
{
    void *addresses[8];
    for (size_t i = 0; i < 8; i++) {
        addresses[i] = take((i + 1) * 100 * KIB);
    }
    for (size_t i = 0; i < 8; i += 2) {
        give(addresses[i]);
    }
    dao_stats_t before = stats_now();
    CU_ASSERT_TRUE(contract->is_uncached ? before.largest_hole_bytes == 0
                                         : before.largest_hole_bytes >= 700 * KIB);
    if (!contract->is_uncached) {
        void *hole = take((size_t)before.largest_hole_bytes);
        CU_ASSERT_EQUAL(stats_now().grow_count, before.grow_count);
        CU_ASSERT_EQUAL(stats_now().remap_count, before.remap_count);
        give(hole);
    }
    for (size_t i = 1; i < 8; i += 2) {
        give(addresses[i]);
    }
}

static void destroy_takes_live_blocks_along(void)
{
    (void)take(100);
    (void)take(10 * MIB);
    contract->destroy(allocator); /* checks that nothing has leaked */
    allocator = NULL;
}

/* ---- random operations ---- */

typedef struct live_block {
    char *address;
    size_t size_bytes;
} live_block_t;

static size_t random_size(uint64_t *seed)
{
    uint64_t shift = dao_random_next(seed) % 14;
    return 1 + (size_t)(dao_random_next(seed) % ((uint64_t)256 << shift));
}

static void check_no_overlap(const live_block_t *blocks, size_t count)
{
    const live_block_t *last = &blocks[count - 1];
    for (size_t i = 0; i + 1 < count; i++) {
        CU_ASSERT_TRUE(blocks[i].address + blocks[i].size_bytes <= last->address ||
                       last->address + last->size_bytes <= blocks[i].address);
    }
}

static void random_operations_keep_blocks_apart(void)
{
    uint64_t seed = dao_test_seed("allocator contract", 3);
    static live_block_t blocks[LIVE_COUNT_MAX];
    size_t count = 0, released_bytes = 0;
    for (size_t i = 0; i < 3000; i++) {
        uint64_t dice = dao_random_next(&seed) % 100;
        bool grows = i / 600 % 2 == 0;
        if (dice == 0) {
            CU_ASSERT_EQUAL(
                allocator->ops->trim(allocator, (dao_random_next(&seed) % 8) * MIB, &released_bytes), DAO_OK);
        } else if (count < LIVE_COUNT_MAX && dice < (grows ? 60u : 40u)) {
            size_t size_bytes = random_size(&seed);
            blocks[count++] = (live_block_t){take(size_bytes), size_bytes};
            check_no_overlap(blocks, count);
        } else if (count > 0) {
            size_t victim = (size_t)(dao_random_next(&seed) % count);
            give(blocks[victim].address);
            blocks[victim] = blocks[--count];
        }
    }
    while (count > 0) {
        give(blocks[--count].address);
    }
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
}

/* ---- tags ---- */

#define TAG_COUNT 3u

static uint32_t tag_named(uint32_t index)
{
    static const char *const names[TAG_COUNT] = {"contract a", "contract b", "contract c"};
    uint32_t tag = 0;
    CU_ASSERT_EQUAL_FATAL(dao_tag_names_add(names[index], &tag), DAO_OK);
    return tag;
}

static dao_status_t take_tagged(size_t size_bytes, uint32_t tag, void **out_address)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .tag = tag};
    dao_block_grant_t grant;
    dao_status_t status = allocator->ops->alloc(allocator, &request, &grant);
    *out_address = status == DAO_OK ? grant.address : NULL;
    return status;
}

typedef struct tag_sum {
    uint32_t tag;
    uint64_t used_bytes;
    uint64_t live_count;
} tag_sum_t;

static void sum_tagged(const dao_block_t *block, void *user)
{
    tag_sum_t *sum = user;
    sum->used_bytes += block->tag == sum->tag ? block->block_bytes : 0;
    sum->live_count += block->tag == sum->tag;
}

static void check_tags(void)
{
    CU_ASSERT_PTR_NOT_NULL_FATAL(allocator->ledger);
    for (uint32_t i = 0; i < TAG_COUNT; i++) {
        tag_sum_t sum = {.tag = tag_named(i)};
        allocator->ops->walk(allocator, sum_tagged, &sum);
        dao_tag_stats_t stats;
        dao_tags_stats_get(allocator->ledger->tags, sum.tag, &stats);
        CU_ASSERT_EQUAL(stats.used_bytes, sum.used_bytes);
        CU_ASSERT_EQUAL(stats.live_count, sum.live_count);
    }
    CU_ASSERT_TRUE(dao_tags_is_valid(allocator->ledger->tags));
}

static void blocks_are_counted_for_their_tags(void)
{
    void *addresses[48];
    size_t count = sizeof(addresses) / sizeof(addresses[0]);
    uint64_t state = dao_test_seed("blocks are counted for their tags", 7);
    for (size_t i = 0; i < count; i++) {
        uint32_t index = (uint32_t)(dao_random_next(&state) % (TAG_COUNT + 1));
        uint32_t tag = index == TAG_COUNT ? 0 : tag_named(index);
        size_t size_bytes = (size_t)(dao_random_next(&state) % (96 * KIB)) + 1;
        CU_ASSERT_EQUAL_FATAL(take_tagged(size_bytes, tag, &addresses[i]), DAO_OK);
    }
    check_tags();
    for (size_t i = 0; i < count; i += 2) {
        give(addresses[i]);
    }
    check_tags();
    for (size_t i = 1; i < count; i += 2) {
        give(addresses[i]);
    }
    check_tags();
}

/* Bytes that a request takes. */
static size_t block_bytes_for(size_t size_bytes)
{
    uint64_t before_bytes = stats_now().used_bytes;
    void *address = take(size_bytes);
    size_t block_bytes = (size_t)(stats_now().used_bytes - before_bytes);
    give(address);
    return block_bytes;
}

static void the_limit_of_a_tag_holds_exactly(void)
{
    uint32_t tag = tag_named(0);
    dao_tags_t *tags = allocator->ledger->tags;
    for (size_t size_bytes = 512; size_bytes <= 128 * KIB; size_bytes *= 256) {
        size_t two_bytes = 2 * block_bytes_for(size_bytes);
        CU_ASSERT_EQUAL(dao_tags_limit_set(tags, tag, two_bytes), DAO_OK);
        void *addresses[3];
        CU_ASSERT_EQUAL_FATAL(take_tagged(size_bytes, tag, &addresses[0]), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(take_tagged(size_bytes, tag, &addresses[1]), DAO_OK);
        dao_stats_t before = stats_now();
        CU_ASSERT_EQUAL(take_tagged(1, tag, &addresses[2]), DAO_ERR_LIMIT);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "\"contract a\""));
        CU_ASSERT_EQUAL(stats_now().used_bytes, before.used_bytes);
        CU_ASSERT_EQUAL(stats_now().failed_count, before.failed_count + 1);
        check_tags();
        CU_ASSERT_EQUAL_FATAL(take_tagged(1, tag_named(1), &addresses[2]),
                              DAO_OK); /* it is no limit of others */
        CU_ASSERT_EQUAL(dao_tags_limit_set(tags, tag, two_bytes - 1), DAO_ERR_LIMIT);
        for (int i = 0; i < 3; i++) {
            give(addresses[i]);
        }
        CU_ASSERT_EQUAL(dao_tags_limit_set(tags, tag, 0), DAO_OK);
    }
    check_tags();
}

/* ---- threads ---- */

typedef struct hammer {
    uint64_t seed;
    size_t failures;
} hammer_t;

/* Blocks that either thread may free. */
static _Atomic(void *) passed[4];

static void free_either_way(hammer_t *own, void *address)
{
    dao_status_t status = DAO_OK;
    if (address != NULL) {
        status = dao_random_next(&own->seed) % 2 == 0 ? allocator->ops->free_fast(allocator, address)
                                                      : dao_allocator_free(allocator, address);
    }
    own->failures += status != DAO_OK;
}

static void *alloc_either_way(hammer_t *own)
{
    size_t size_bytes = random_size(&own->seed);
    void *address = dao_random_next(&own->seed) % 2 == 0 ? allocator->ops->alloc_fast(allocator, size_bytes)
                                                         : NULL; /* as where there is no shorter way */
    own->failures += address == NULL && dao_allocator_alloc(allocator, size_bytes, &address) != DAO_OK;
    return address;
}

static void *hammer(void *user)
{
    enum { HELD = 16 };
    hammer_t *own = user;
    void *held[HELD] = {NULL};
    for (size_t i = 0; i < 1500; i++) {
        size_t slot = (size_t)(dao_random_next(&own->seed) % HELD);
        if (held[slot] == NULL) {
            held[slot] = alloc_either_way(own);
        } else {
            bool is_passed = slot < sizeof(passed) / sizeof(passed[0]);
            free_either_way(own, is_passed ? atomic_exchange(&passed[slot], held[slot]) : held[slot]);
            held[slot] = NULL;
        }
        if (i % 256 == 0) {
            dao_stats_t stats;
            size_t released_bytes = 0;
            allocator->ops->stats_get(allocator, &stats);
            own->failures += stats.used_bytes > stats.reserved_bytes;
            own->failures += allocator->ops->trim(allocator, 0, &released_bytes) != DAO_OK;
        }
    }
    for (size_t slot = 0; slot < HELD; slot++) {
        free_either_way(own, held[slot]);
    }
    return NULL;
}

static void two_threads_do_not_harm_each_other(void)
{
    hammer_t hammers[2] = {{.seed = 4}, {.seed = 5}};
    dao_thread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "hammer", hammer, &hammers[i]), DAO_OK);
    }
    for (size_t i = 0; i < 2; i++) {
        dao_thread_join(&threads[i]);
        CU_ASSERT_EQUAL(hammers[i].failures, 0);
    }
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
        free_either_way(&hammers[0], atomic_exchange(&passed[i], NULL));
    }
    CU_ASSERT_EQUAL(hammers[0].failures, 0);
    check();
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
}

/* ---- failures of the host ---- */

#if defined(DAO_FAULTS)

/* Creates an allocator and takes blocks of several sizes; returns the first failure. */
static dao_status_t scenario(void)
{
    dao_status_t status = contract->create(&allocator);
    if (status != DAO_OK) {
        allocator = NULL;
        return status;
    }
    for (size_t i = 0; i < 80 && status == DAO_OK; i++) {
        dao_stats_t before = stats_now();
        void *address = NULL;
        status = dao_allocator_alloc(allocator, i % 8 == 0 ? 1 * MIB : 40 * KIB - 512 * i, &address);
        if (status != DAO_OK) {
            dao_stats_t after = stats_now();
            before.failed_count++;
            before.driver_call_count = after.driver_call_count; /* there and back */
            before.cached_bytes = after.cached_bytes;           /* given back in the attempt */
            CU_ASSERT_EQUAL(memcmp(&before, &after, sizeof(after)), 0);
        }
        check();
    }
    return status;
}

static void every_lack_of_host_memory_is_survived(void)
{
    contract->destroy(allocator);
    allocator = NULL;
    static const dao_fault_t faults[] = {DAO_FAULT_HOST_MEMORY, DAO_FAULT_SYSTEM_MEMORY};
    for (size_t k = 0; k < 2; k++) {
        uint64_t fired = 1;
        for (uint64_t n = 0; fired > 0 && n < 1000; n++) {
            dao_fault_arm(faults[k], n, false);
            dao_status_t status = scenario();
            fired = dao_fault_disarm();
            CU_ASSERT_TRUE(fired > 0 || status == DAO_OK);
            if (allocator != NULL) {
                give(take(64 * KIB)); /* still of use */
                contract->destroy(allocator);
                allocator = NULL;
            }
        }
        CU_ASSERT_EQUAL(fired, 0);
    }
}

#endif

CU_TestInfo allocator_contract_tests[] = {
    {"an empty allocator holds nothing", an_empty_allocator_holds_nothing},
    {"blocks are counted until they are freed", blocks_are_counted_until_they_are_freed},
    {"what leaves the fast path is counted", what_leaves_the_fast_path_is_counted},
    {"query finds the block around an address", query_finds_the_block_around_an_address},
    {"wrong frees are told apart", wrong_frees_are_told_apart},
    {"the shortest ways end with the owner", the_shortest_ways_end_with_the_owner},
    {"a size that cannot be is an overflow", a_size_that_cannot_be_is_an_overflow},
    {"a limit holds exactly", a_limit_holds_exactly},
    {"cached memory makes room under a limit", cached_memory_makes_room_under_a_limit},
    {"trim gives back what nothing lives in", trim_gives_back_what_nothing_lives_in},
    {"trim keeps no more than it may", trim_keeps_no_more_than_it_may},
    {"peaks stay until they are reset", peaks_stay_until_they_are_reset},
    {"the largest hole can be had without growing", the_largest_hole_can_be_had_without_growing},
    {"destroy takes live blocks along", destroy_takes_live_blocks_along},
    {"random operations keep blocks apart", random_operations_keep_blocks_apart},
    {"blocks are counted for their tags", blocks_are_counted_for_their_tags},
    {"the limit of a tag holds exactly", the_limit_of_a_tag_holds_exactly},
    {"two threads do not harm each other", two_threads_do_not_harm_each_other},
#if defined(DAO_FAULTS)
    {"every lack of host memory is survived", every_lack_of_host_memory_is_survived},
#endif
    CU_TEST_INFO_NULL,
};
