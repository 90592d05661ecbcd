/* SPDX-License-Identifier: Apache-2.0 */
/* The strategies that place whole blocks: the contract on each, and what is each one's own. */
#include "allocators/strategies/strategy.h"

#include "allocators/accounting/tag_names.h"
#include "allocators/segments/pinned.h"
#include "base/log.h"
#include "tests/contract/allocator_contract.h"
#include "tests/support/backends/heap_backend.h"

#include <string.h>

#define CAPACITY_BYTES  (512 * MIB)
#define ALIGNMENT_BYTES 256u

typedef dao_status_t (*create_t)(const dao_strategy_config_t *config, dao_allocator_t **out_allocator);

static heap_backend_t *heap;
static dao_piece_t latest; /* that the upstream gave */
static dao_allocator_t *allocator;
static dao_strategy_config_t config; /* of the next allocator */

/* ---- upstreams ---- */

static dao_status_t device_take(void *user, size_t size_bytes, void **out_address)
{
    heap_backend_t *from = user;
    dao_status_t status =
        heap_backend_ops(from)->memory_alloc(heap_backend_device(from), size_bytes, out_address);
    latest = status == DAO_OK ? (dao_piece_t){*out_address, size_bytes} : latest;
    return status;
}

static dao_status_t device_give(void *user, void *address, size_t size_bytes)
{
    heap_backend_t *from = user;
    return heap_backend_ops(from)->memory_free(heap_backend_device(from), address, size_bytes);
}

static dao_status_t create(create_t make, dao_allocator_t **out_allocator)
{
    heap = heap_backend_create(CAPACITY_BYTES, 0);
    if (heap == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    config.upstream.user = heap;
    dao_status_t status = make(&config, out_allocator);
    if (status != DAO_OK) {
        CU_ASSERT_TRUE(heap_backend_destroy(heap));
    }
    return status;
}

static void destroy(dao_allocator_t *made)
{
    made->ops->destroy(made);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
}

/* Every test begins with it. */
static void config_reset(void)
{
    config = (dao_strategy_config_t){.name = "device:0",
                                     .upstream = {.take = device_take, .give = device_give},
                                     .full_status = DAO_ERR_NO_DEVICE_MEMORY,
                                     .alignment_bytes = ALIGNMENT_BYTES};
}

/* ---- the contract ---- */

static dao_status_t contract_buddy_create(dao_allocator_t **out_allocator)
{
    config_reset();
    config.segment_bytes = 1 * MIB; /* many chunks */
    return create(dao_binary_buddy_create, out_allocator);
}

static dao_status_t contract_class_create(dao_allocator_t **out_allocator)
{
    config_reset();
    return create(dao_size_class_create, out_allocator);
}

static dao_status_t contract_system_create(dao_allocator_t **out_allocator)
{
    config_reset();
    return create(dao_system_create, out_allocator);
}

static const allocator_contract_t buddy_contract = {
    .create = contract_buddy_create, .destroy = destroy, .alignment_bytes = ALIGNMENT_BYTES};
static const allocator_contract_t class_contract = {
    .create = contract_class_create, .destroy = destroy, .alignment_bytes = ALIGNMENT_BYTES};
static const allocator_contract_t system_contract = {.create = contract_system_create,
                                                     .destroy = destroy,
                                                     .alignment_bytes = ALIGNMENT_BYTES,
                                                     .is_uncached = true};

static void buddy_contract_begin(void)
{
    allocator_contract_begin_on(&buddy_contract);
}

static void class_contract_begin(void)
{
    allocator_contract_begin_on(&class_contract);
}

static void system_contract_begin(void)
{
    allocator_contract_begin_on(&system_contract);
}

/* ---- helpers ---- */

static void begin(create_t make)
{
    CU_ASSERT_EQUAL_FATAL(create(make, &allocator), DAO_OK);
}

static void end(void)
{
    destroy(allocator);
}

static dao_stats_t stats_now(void)
{
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    CU_ASSERT_EQUAL(stats.reserved_bytes, heap_backend_device_bytes(heap) + heap_backend_pinned_bytes(heap));
    return stats;
}

static dao_status_t try_take(size_t size_bytes, size_t alignment_bytes, char **out_address)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .alignment_bytes = alignment_bytes};
    dao_block_grant_t grant = {0};
    dao_status_t status = allocator->ops->alloc(allocator, &request, &grant);
    *out_address = status == DAO_OK ? grant.address : NULL;
    (void)stats_now();
    return status;
}

static char *take(size_t size_bytes)
{
    char *address = NULL;
    CU_ASSERT_EQUAL(try_take(size_bytes, 0, &address), DAO_OK);
    return address;
}

/* Bytes that a request takes. */
static size_t block_bytes_for(size_t size_bytes)
{
    uint64_t before_bytes = stats_now().used_bytes;
    char *address = take(size_bytes);
    size_t block_bytes = (size_t)(stats_now().used_bytes - before_bytes);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
    return block_bytes;
}

static void give(char *address)
{
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
    (void)stats_now();
}

static size_t trim(size_t keep_bytes)
{
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, keep_bytes, &released_bytes), DAO_OK);
    (void)stats_now();
    return released_bytes;
}

/* ---- binary buddy ---- */

static void a_block_is_the_next_power_of_two(void)
{
    begin(dao_binary_buddy_create);
    CU_ASSERT_STRING_EQUAL(allocator->ops->name, "binary_buddy");
    CU_ASSERT_EQUAL(block_bytes_for(1), 256);
    CU_ASSERT_EQUAL(block_bytes_for(256), 256);
    CU_ASSERT_EQUAL(block_bytes_for(257), 512);
    CU_ASSERT_EQUAL(block_bytes_for(5 * MIB), 8 * MIB);
    CU_ASSERT_EQUAL(block_bytes_for(64 * MIB), 64 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 64 * MIB);
    CU_ASSERT_EQUAL(block_bytes_for(64 * MIB + 1), 128 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, (64 + 128) * MIB);
    end();
}

static void buddies_merge_and_a_chunk_is_used_again(void)
{
    config.segment_bytes = 4 * MIB;
    begin(dao_binary_buddy_create);
    char *blocks[4];
    for (size_t i = 0; i < 4; i++) {
        blocks[i] = take(1 * MIB);
    }
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 4 * MIB);
    CU_ASSERT_EQUAL(stats_now().largest_hole_bytes, 0);
    give(blocks[1]);
    give(blocks[2]);
    CU_ASSERT_EQUAL(stats_now().largest_hole_bytes, 1 * MIB); /* neighbours, but no buddies */
    give(blocks[0]);
    CU_ASSERT_EQUAL(stats_now().largest_hole_bytes, 2 * MIB);
    give(blocks[3]);
    CU_ASSERT_EQUAL(stats_now().largest_hole_bytes, 4 * MIB);
    uint64_t calls = heap_backend_calls(heap, HEAP_CALL_COUNT);
    give(take(4 * MIB));
    CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_COUNT), calls);
    end();
}

static void trimming_gives_back_whole_free_chunks(void)
{
    config.segment_bytes = 4 * MIB;
    begin(dao_binary_buddy_create);
    char *first = take(4 * MIB), *second = take(4 * MIB), *further = take(4 * MIB), *third = take(1);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 16 * MIB);
    give(first);
    give(second);
    give(further);
    CU_ASSERT_EQUAL(trim(12 * MIB), 0);
    CU_ASSERT_EQUAL(trim(11 * MIB), 4 * MIB);
    CU_ASSERT_EQUAL(trim(4 * MIB), 4 * MIB); /* and not the one that may stay */
    CU_ASSERT_EQUAL(trim(0), 4 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 4 * MIB);
    give(third);
    CU_ASSERT_EQUAL(trim(0), 4 * MIB);
    end();
}

static void a_chunk_shrinks_to_what_can_be_had(void)
{
    config.limit_bytes = 3 * MIB;
    begin(dao_binary_buddy_create);
    give(take(1 * MIB));
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 2 * MIB); /* the largest power of two under the limit */
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 0), DAO_OK);
    (void)trim(0);
    heap_backend_take_bytes(heap, CAPACITY_BYTES - 1 * MIB);
    give(take(600 * KIB));
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 1 * MIB);
    end();
}

static void the_first_memory_is_one_chunk_of_any_size(void)
{
    config.initial_bytes = 3 * MIB + 256;
    begin(dao_binary_buddy_create);
    dao_stats_t stats = stats_now();
    CU_ASSERT_EQUAL(stats.reserved_bytes, 3 * MIB + 256);
    CU_ASSERT_EQUAL(stats.grow_count, 1);
    CU_ASSERT_EQUAL(stats.largest_hole_bytes, 2 * MIB);
    char *blocks[] = {take(2 * MIB), take(1 * MIB), take(1)};
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 3 * MIB + 256);
    CU_ASSERT_EQUAL(stats_now().used_bytes, 3 * MIB + 256);
    for (size_t i = 0; i < 3; i++) {
        give(blocks[i]);
    }
    end();
}

static void a_chunk_beyond_the_tables_has_coarser_units(void)
{
    heap_backend_t *large = heap_backend_create(1024 * GIB, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    config.upstream.user = large;
    CU_ASSERT_EQUAL_FATAL(dao_binary_buddy_create(&config, &allocator), DAO_OK);
    void *huge = NULL, *small = NULL;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 33 * GIB, &huge), DAO_OK);
    CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), 64 * GIB);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, huge), DAO_OK);
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 1, &small), DAO_OK); /* below the unit: another chunk */
    CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), 256);
    CU_ASSERT_EQUAL(heap_backend_device_bytes(large), 64 * GIB + 64 * MIB);
    allocator->ops->destroy(allocator);
    CU_ASSERT_TRUE(heap_backend_destroy(large));
}

/* ---- size classes ---- */

static void a_block_is_the_next_class(void)
{
    static const size_t cases[][2] = {
        {1, 32 * KIB},
        {32 * KIB, 32 * KIB},
        {32 * KIB + 1, 256 * KIB},
        {256 * KIB + 1, 1 * MIB},
        {1 * MIB + 1, 2 * MIB},
        {5 * MIB, 8 * MIB},
        {100 * MIB, 128 * MIB},
        {128 * MIB + 1, 256 * MIB},
        {256 * MIB, 256 * MIB},
        {256 * MIB + 1, 256 * MIB + 256},
    };
    begin(dao_size_class_create);
    CU_ASSERT_STRING_EQUAL(allocator->ops->name, "size_class");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CU_ASSERT_EQUAL(block_bytes_for(cases[i][0]), cases[i][1]);
        (void)trim(0);
    }
    end();
}

static void the_last_block_freed_is_the_first_taken(void)
{
    begin(dao_size_class_create);
    char *low = take(1 * MIB), *high = take(1 * MIB);
    give(low);
    give(high);
    uint64_t calls = heap_backend_calls(heap, HEAP_CALL_COUNT);
    CU_ASSERT_PTR_EQUAL(take(300 * KIB), high);
    CU_ASSERT_PTR_EQUAL(take(900 * KIB), low);
    CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_COUNT), calls);
    end();
}

static void a_larger_block_wastes_at_most_an_eighth(void)
{
    begin(dao_size_class_create);
    give(take(270 * MIB));
    char *same = take(270 * MIB);
    CU_ASSERT_EQUAL(stats_now().grow_count, 1);
    give(same);
    char *close = take(260 * MIB);
    CU_ASSERT_EQUAL(stats_now().used_bytes, 270 * MIB);
    CU_ASSERT_EQUAL(stats_now().grow_count, 1);
    give(close);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 330 * MIB), DAO_OK);
    give(take(320 * MIB));         /* the idle one makes room */
    char *small = take(280 * MIB); /* an eighth of it is 35 MiB: 320 MiB are too many */
    CU_ASSERT_EQUAL(stats_now().used_bytes, 280 * MIB);
    CU_ASSERT_EQUAL(stats_now().grow_count, 3);
    give(small);
    end();
}

static void idle_blocks_give_way(void)
{
    begin(dao_size_class_create);
    char *blocks[3] = {take(32 * KIB), take(1 * MIB), take(4 * MIB)};
    for (size_t i = 0; i < 3; i++) {
        give(blocks[i]);
    }
    CU_ASSERT_EQUAL(trim(4 * MIB + 32 * KIB), 1 * MIB); /* the smallest that suffices */
    heap_backend_take_bytes(heap, CAPACITY_BYTES - 8 * MIB);
    char *wide = take(8 * MIB); /* the device has only that much */
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 8 * MIB);
    give(wide);
    CU_ASSERT_EQUAL(trim(0), 8 * MIB);
    end();
}

/* ---- pass-through ---- */

static void every_block_is_one_call(void)
{
    begin(dao_system_create);
    CU_ASSERT_STRING_EQUAL(allocator->ops->name, "system");
    for (uint64_t i = 1; i <= 5; i++) {
        give(take(1000 * i));
        CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_MEMORY_ALLOC), i);
        CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_MEMORY_FREE), i);
        CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
    }
    end();
}

static void a_free_that_the_system_refuses_changes_nothing(void)
{
    begin(dao_system_create);
    char *block = take(1 * MIB);
    dao_stats_t before = stats_now();
    heap_backend_fail(heap, HEAP_CALL_MEMORY_FREE, 0, false);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, block), DAO_ERR_BACKEND);
    CU_ASSERT_EQUAL(dao_last_vendor_code(), 77);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:0"));
    CU_ASSERT_EQUAL(heap_backend_heal(heap), 1);
    dao_stats_t after = stats_now();
    CU_ASSERT_EQUAL(memcmp(&before, &after, sizeof(after)), 0);
    give(block);
    end();
}

/* ---- all of them ---- */

static const create_t all[] = {dao_binary_buddy_create, dao_size_class_create, dao_system_create};
#define ALL_COUNT (sizeof(all) / sizeof(all[0]))

typedef struct seen {
    uint64_t all_bytes;
    uint64_t requested_bytes;
    const char *end;    /* of the block before */
    uint64_t gap_count; /* blocks that neither begin a segment nor follow the block before */
} seen_t;

static void see(const dao_block_t *block, void *user)
{
    seen_t *seen = user;
    seen->all_bytes += block->block_bytes;
    seen->requested_bytes += block->requested_bytes;
    seen->gap_count += !block->begins_segment && block->address != seen->end;
    seen->end = (const char *)block->address + block->block_bytes;
}

static void any_alignment_can_be_had(void)
{
    for (size_t k = 0; k < ALL_COUNT; k++) {
        begin(all[k]);
        for (size_t alignment_bytes = 64; alignment_bytes <= 8 * MIB; alignment_bytes *= 2) {
            char *blocks[6] = {NULL};
            static const size_t sizes[] = {1, 4096, 100 * KIB, 100 * KIB, 1 * MIB, 3 * MIB};
            for (size_t i = 0; i < 6; i++) {
                CU_ASSERT_EQUAL(try_take(sizes[i], alignment_bytes, &blocks[i]), DAO_OK);
                CU_ASSERT_EQUAL((uintptr_t)blocks[i] % alignment_bytes, 0);
                dao_block_t block = {0};
                CU_ASSERT_EQUAL(allocator->ops->query(allocator, blocks[i] + sizes[i] - 1, &block), DAO_OK);
                CU_ASSERT_PTR_EQUAL(block.address, blocks[i]);
            }
            seen_t seen = {0}; /* blocks that begin behind what their alignment has cost, too */
            allocator->ops->walk_all(allocator, see, &seen);
            CU_ASSERT_EQUAL(seen.all_bytes, stats_now().reserved_bytes);
            CU_ASSERT_EQUAL(seen.requested_bytes, stats_now().requested_bytes);
            CU_ASSERT_EQUAL(seen.gap_count, 0);
            for (size_t i = 0; i < 6; i++) {
                give(blocks[i]);
            }
            (void)trim(0);
        }
        char *none = NULL;
        CU_ASSERT_EQUAL(try_take(1, (size_t)1 << 62, &none), DAO_ERR_NO_DEVICE_MEMORY);
        end();
    }
}

static void see_in_latest(const dao_block_t *block, void *user)
{
    seen_t *seen = user;
    const char *address = block->address;
    CU_ASSERT_TRUE(address >= latest.address &&
                   address + block->block_bytes <= latest.address + latest.size_bytes);
    CU_ASSERT_EQUAL(block->begins_segment, address == latest.address);
    see(block, user);
    CU_ASSERT_TRUE(block->state != DAO_BLOCK_STATE_LIVE || seen->requested_bytes == 3 * MIB);
}

static void a_block_is_shown_inside_of_its_piece(void)
{
    for (size_t k = 0; k < ALL_COUNT; k++) {
        begin(all[k]);
        char *block = NULL; /* behind what its alignment costs: segments begin anywhere */
        CU_ASSERT_EQUAL_FATAL(try_take(3 * MIB, 8 * MIB, &block), DAO_OK);
        seen_t seen = {0};
        allocator->ops->walk_all(allocator, see_in_latest, &seen);
        CU_ASSERT_EQUAL(seen.all_bytes, latest.size_bytes);
        CU_ASSERT_EQUAL(seen.gap_count, 0);
        give(block);
        end();
    }
}

static void a_request_of_any_stream_gets_idle_memory(void)
{
    for (size_t k = 0; k < ALL_COUNT; k++) {
        begin(all[k]);
        dao_block_request_t request = {.size_bytes = 100, .stream = 1};
        dao_block_grant_t grant;
        CU_ASSERT_PTR_NULL(allocator->ops->stream_mark); /* stream_ordered.c's */
        CU_ASSERT_EQUAL(allocator->ops->alloc(allocator, &request, &grant), DAO_OK);
        CU_ASSERT_TRUE(dao_stream_fence_is_empty(&grant.fence));
        dao_block_t block = {0};
        CU_ASSERT_EQUAL(allocator->ops->query(allocator, grant.address, &block), DAO_OK);
        CU_ASSERT_EQUAL(block.stream, 1);
        give(grant.address);
        end();
    }
}

static void a_tag_stays_with_its_block(void)
{
    for (size_t k = 0; k < ALL_COUNT; k++) {
        begin(all[k]);
        uint32_t tag = 0;
        CU_ASSERT_EQUAL_FATAL(dao_tag_names_add("strategies", &tag), DAO_OK);
        dao_block_request_t request = {.size_bytes = 100, .alignment_bytes = 4096, .tag = tag};
        dao_block_grant_t grant;
        CU_ASSERT_EQUAL(allocator->ops->alloc(allocator, &request, &grant), DAO_OK);
        dao_block_t block = {0};
        CU_ASSERT_EQUAL(allocator->ops->query(allocator, grant.address, &block), DAO_OK);
        CU_ASSERT_EQUAL(block.tag, tag);
        dao_tag_stats_t stats;
        dao_tags_stats_get(allocator->ledger->tags, tag, &stats);
        CU_ASSERT_EQUAL(stats.used_bytes, block.block_bytes);
        CU_ASSERT_EQUAL(block.requested_bytes, 100);
        end();
    }
}

/* Far more frees than the ring of latest ones remembers. */
static void an_old_double_free_is_still_known_where_memory_is_kept(void)
{
    for (size_t k = 0; k < ALL_COUNT; k++) {
        begin(all[k]);
        char *old = take(32 * KIB), *blocks[DAO_LEDGER_FREE_COUNT];
        for (size_t i = 0; i < DAO_LEDGER_FREE_COUNT; i++) {
            blocks[i] = take(32 * KIB);
        }
        give(old);
        for (size_t i = 0; i < DAO_LEDGER_FREE_COUNT; i++) {
            give(blocks[i]);
        }
        bool is_kept = all[k] != dao_system_create;
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, old),
                        is_kept ? DAO_ERR_DOUBLE_FREE : DAO_ERR_FOREIGN_POINTER);
        /* no block ever began inside of it */
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, old + 1), DAO_ERR_FOREIGN_POINTER);
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, old + 512), DAO_ERR_FOREIGN_POINTER);
        end();
    }
}

/* What a scenario has met. */
typedef struct outcome {
    dao_status_t status;    /* the first failure that is not the limit's */
    uint64_t call_count;    /* of the kind that is to fail */
    uint64_t refused_count; /* of these */
} outcome_t;

static void busy_step(char **block, uint64_t *seed, outcome_t *outcome)
{
    dao_status_t status = DAO_OK;
    if (dao_random_next(seed) % 8 == 0) {
        size_t released_bytes = 0;
        status = allocator->ops->trim(allocator, 0, &released_bytes);
    } else if (*block == NULL) {
        uint64_t before_bytes = stats_now().used_bytes;
        status = try_take(1 + (size_t)(dao_random_next(seed) % (4 * MIB)), 0, block);
        CU_ASSERT_TRUE(status == DAO_OK || stats_now().used_bytes == before_bytes);
    } else {
        status = dao_allocator_free(allocator, *block);
        *block = status == DAO_OK ? NULL : *block; /* else it is still live */
    }
    if (outcome->status == DAO_OK && status != DAO_ERR_LIMIT) {
        outcome->status = status;
    }
}

/* Takes and frees blocks of many sizes under a limit and trims, then all is healed and given back. */
static outcome_t busy_scenario(uint64_t seed, heap_call_t call)
{
    char *blocks[40] = {NULL};
    outcome_t outcome = {.status = DAO_OK};
    uint64_t before_count = heap_backend_calls(heap, call);
    for (size_t i = 0; i < 200; i++) {
        busy_step(&blocks[dao_random_next(&seed) % 40], &seed, &outcome);
    }
    outcome.call_count = heap_backend_calls(heap, call) - before_count;
    outcome.refused_count = heap_backend_heal(heap);
    for (size_t i = 0; i < 40; i++) {
        if (blocks[i] != NULL) {
            give(blocks[i]);
        }
    }
    CU_ASSERT_EQUAL(stats_now().used_bytes, 0);
    (void)trim(0);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
    return outcome;
}

static void every_refusal_of_the_upstream_is_survived(void)
{
    uint64_t seed = dao_test_seed("refusals of the upstream", 11);
    static const heap_call_t calls[] = {HEAP_CALL_MEMORY_ALLOC, HEAP_CALL_MEMORY_FREE};
    for (size_t k = 0; k < 2 * ALL_COUNT; k++) {
        heap_call_t call = calls[k / ALL_COUNT];
        config.segment_bytes = all[k % ALL_COUNT] == dao_binary_buddy_create ? 1 * MIB : 0;
        config.limit_bytes = 12 * MIB;
        begin(all[k % ALL_COUNT]);
        outcome_t healthy = busy_scenario(seed, call);
        CU_ASSERT_EQUAL(healthy.status, DAO_OK);
        CU_ASSERT_TRUE(healthy.call_count >= 4);
        for (uint64_t n = 0; n < healthy.call_count && n < 40; n++) {
            heap_backend_fail(heap, call, n, false); /* an idle block or a smaller chunk may do instead */
            CU_ASSERT_EQUAL(busy_scenario(seed, call).refused_count, 1);
        }
        heap_backend_fail(heap, call, 3, true);
        CU_ASSERT_NOT_EQUAL(busy_scenario(seed, call).status, DAO_OK);
        end();
    }
}

/* ---- pinned memory ---- */

static unsigned logged_count;

static void count_log(dao_log_level_t level, const char *message, void *user)
{
    (void)level;
    (void)user;
    CU_ASSERT_PTR_NOT_NULL(strstr(message, "deferred free"));
    logged_count++;
}

static void deferred_frees_are_reclaimed_at_the_next_entry(void)
{
    dao_log_set(count_log, NULL, DAO_LOG_LEVEL_ERROR);
    for (size_t k = 0; k < ALL_COUNT; k++) {
        config.upstream =
            (dao_upstream_t){.take = heap_backend_pinned_take, .give = heap_backend_pinned_give};
        config.full_status = DAO_ERR_NO_HOST_MEMORY;
        begin(all[k]);
        logged_count = 0;
        char *first = take(100 * KIB), *second = take(200 * KIB);
        memset(second, 0x5a, 200 * KIB);
        dao_pinned_free_deferred(allocator, first, DAO_BLOCK_OWNER_RAW);
        CU_ASSERT_EQUAL(stats_now().live_count, 1);
        dao_pinned_free_deferred(allocator, first, DAO_BLOCK_OWNER_RAW);
        dao_pinned_drain(allocator);
        CU_ASSERT_EQUAL(logged_count, 1);
        dao_pinned_free_deferred(allocator, second, DAO_BLOCK_OWNER_RAW);
        CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), 0);
        CU_ASSERT_EQUAL(logged_count, 1);
        end();
    }
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_ERROR);
}

static CU_TestInfo buddy_tests[] = {
    {"a block is the next power of two", a_block_is_the_next_power_of_two},
    {"buddies merge and a chunk is used again", buddies_merge_and_a_chunk_is_used_again},
    {"trimming gives back whole free chunks", trimming_gives_back_whole_free_chunks},
    {"a chunk shrinks to what can be had", a_chunk_shrinks_to_what_can_be_had},
    {"the first memory is one chunk of any size", the_first_memory_is_one_chunk_of_any_size},
    {"a chunk beyond the tables has coarser units", a_chunk_beyond_the_tables_has_coarser_units},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo class_tests[] = {
    {"a block is the next class", a_block_is_the_next_class},
    {"the last block freed is the first taken", the_last_block_freed_is_the_first_taken},
    {"a larger block wastes at most an eighth", a_larger_block_wastes_at_most_an_eighth},
    {"idle blocks give way", idle_blocks_give_way},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo system_tests[] = {
    {"every block is one call", every_block_is_one_call},
    {"a free that the system refuses changes nothing", a_free_that_the_system_refuses_changes_nothing},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo all_tests[] = {
    {"any alignment can be had", any_alignment_can_be_had},
    {"a block is shown inside of its piece", a_block_is_shown_inside_of_its_piece},
    {"a request of any stream gets idle memory", a_request_of_any_stream_gets_idle_memory},
    {"a tag stays with its block", a_tag_stays_with_its_block},
    {"an old double free is still known where memory is kept",
     an_old_double_free_is_still_known_where_memory_is_kept},
    {"every refusal of the upstream is survived", every_refusal_of_the_upstream_is_survived},
    {"deferred frees are reclaimed at the next entry", deferred_frees_are_reclaimed_at_the_next_entry},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"binary buddy, contract", NULL, NULL, buddy_contract_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"binary buddy", NULL, NULL, config_reset, NULL, buddy_tests},
                             {"size classes, contract", NULL, NULL, class_contract_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"size classes", NULL, NULL, config_reset, NULL, class_tests},
                             {"pass-through, contract", NULL, NULL, system_contract_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"pass-through", NULL, NULL, config_reset, NULL, system_tests},
                             {"strategies", NULL, NULL, config_reset, NULL, all_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
