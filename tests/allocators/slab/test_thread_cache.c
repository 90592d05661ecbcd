/* SPDX-License-Identifier: Apache-2.0 */
/* The small front: the contract over three inner allocators, and what is its own. */
#include "allocators/paged/device_memory.h"
#include "allocators/pages/page_buddy.h"
#include "allocators/segments/host.h"
#include "allocators/slab/magazines.h"
#include "allocators/slab/slab_map.h"
#include "allocators/slab/thread_cache.h"
#include "base/numbers/math.h"
#include "tests/contract/allocator_contract.h"
#include "tests/support/backends/heap_backend.h"

#include <string.h>

#define CAPACITY_BYTES (256 * MIB)

static heap_backend_t *heap;
static dao_allocator_t *inner; /* what the latest front is stacked over */
static size_t small_bytes;     /* of that front; 0: the default */
static const dao_slab_sizes_t *sizes = &dao_slab_device_sizes;

/* ---- the contract ---- */

/* Stacks the front over what was made, or takes that down again. */
static dao_status_t stack(dao_allocator_t **out_allocator)
{
    dao_status_t status = dao_thread_cache_create(inner, "device:0", sizes, small_bytes, out_allocator);
    if (status != DAO_OK) {
        inner->ops->destroy(inner);
    }
    return status;
}

static dao_status_t over_device_create(uint64_t page_bytes, dao_allocator_t **out_allocator)
{
    heap = heap_backend_create(CAPACITY_BYTES, page_bytes);
    if (heap == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_device_memory_config_t config = {
        .ops = heap_backend_ops(heap), .device = heap_backend_device(heap), .name = "device:0"};
    dao_status_t status = dao_device_memory_create(&config, &inner);
    if (status == DAO_OK) {
        status = stack(out_allocator);
    }
    if (status != DAO_OK) {
        CU_ASSERT_TRUE(heap_backend_destroy(heap));
    }
    return status;
}

static dao_status_t over_pages_create(dao_allocator_t **out_allocator)
{
    return over_device_create(DAO_PAGE_BYTES, out_allocator);
}

static dao_status_t over_segments_create(dao_allocator_t **out_allocator)
{
    return over_device_create(0, out_allocator);
}

static void over_device_destroy(dao_allocator_t *slab)
{
    slab->ops->destroy(slab);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
}

static dao_status_t over_host_create(dao_allocator_t **out_allocator)
{
    dao_status_t status = dao_host_allocator_create(&(dao_host_config_t){.name = "cpu"}, &inner);
    return status == DAO_OK ? stack(out_allocator) : status;
}

static void over_host_destroy(dao_allocator_t *slab)
{
    slab->ops->destroy(slab);
}

static void over_pages_begin(void)
{
    static const allocator_contract_t contract = {
        .create = over_pages_create, .destroy = over_device_destroy, .alignment_bytes = 256};
    allocator_contract_begin_on(&contract);
}

static void over_segments_begin(void)
{
    static const allocator_contract_t contract = {
        .create = over_segments_create, .destroy = over_device_destroy, .alignment_bytes = 256};
    allocator_contract_begin_on(&contract);
}

static void large_contract_begin(void)
{
    small_bytes = DAO_SLAB_OBJECT_BYTES_MAX;
    over_pages_begin();
}

static void large_contract_end(void)
{
    allocator_contract_end();
    small_bytes = 0;
}

static void over_host_contract_begin(void)
{
    static const allocator_contract_t contract = {
        .create = over_host_create, .destroy = over_host_destroy, .alignment_bytes = 64};
    sizes = &dao_slab_host_sizes;
    allocator_contract_begin_on(&contract);
}

static void over_host_contract_end(void)
{
    allocator_contract_end();
    sizes = &dao_slab_device_sizes;
}

/* ---- helpers ---- */

static dao_allocator_t *allocator;

static void begin(void)
{
    CU_ASSERT_EQUAL_FATAL(over_pages_create(&allocator), DAO_OK);
}

static void end(void)
{
    over_device_destroy(allocator);
}

static void large_begin(void)
{
    small_bytes = DAO_SLAB_OBJECT_BYTES_MAX;
    begin();
}

static void large_end(void)
{
    end();
    small_bytes = 0;
}

static void host_begin(void)
{
    sizes = &dao_slab_host_sizes;
    CU_ASSERT_EQUAL_FATAL(over_host_create(&allocator), DAO_OK);
}

static void host_end(void)
{
    over_host_destroy(allocator);
    sizes = &dao_slab_device_sizes;
}

static dao_stats_t stats_now(void)
{
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    return stats;
}

static void *take(size_t size_bytes)
{
    void *address = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(allocator, size_bytes, &address), DAO_OK);
    return address;
}

static void give(void *address)
{
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
}

static size_t trim(void)
{
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    return released_bytes;
}

static size_t block_bytes_of(void *address)
{
    dao_block_t block = {0};
    CU_ASSERT_EQUAL(allocator->ops->query(allocator, address, &block), DAO_OK);
    return block.block_bytes;
}

/* ---- what is small ---- */

static void small_blocks_have_the_size_of_their_class(void)
{
    void *addresses[] = {take(1), take(256), take(257), take(3000), take(4 * KIB)};
    static const size_t expected[] = {256, 256, 512, 3072, 4 * KIB};
    for (size_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(block_bytes_of(addresses[i]), expected[i]);
        CU_ASSERT_EQUAL((uintptr_t)addresses[i] % 256, 0);
        give(addresses[i]);
    }
    CU_ASSERT_TRUE(stats_now().cached_bytes > 0);
}

static void small_blocks_leave_the_fast_path_at_most_once_a_batch(void)
{
    void *first = take(1 * KIB);
    CU_ASSERT_EQUAL(stats_now().slow_count, 1);
    for (size_t i = 0; i < 10; i++) {
        void *block = allocator->ops->alloc_fast(allocator, 1 * KIB);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        CU_ASSERT_EQUAL(allocator->ops->free_fast(allocator, block), DAO_OK);
    }
    CU_ASSERT_EQUAL(stats_now().slow_count, 1);
    dao_stream_fence_t idle = {0};
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, first, &idle), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().slow_count, 2);
    CU_ASSERT_TRUE(trim() > 0); /* slabs that come and go are not the program's calls */
    CU_ASSERT_EQUAL(stats_now().slow_count, 2);
}

/* Takes one block and gives it back; returns true if the thread kept it. */
static bool is_kept(const dao_block_request_t *request)
{
    uint64_t before_bytes = stats_now().cached_bytes;
    dao_block_grant_t grant;
    CU_ASSERT_EQUAL_FATAL(allocator->ops->alloc(allocator, request, &grant), DAO_OK);
    CU_ASSERT_TRUE(request->alignment_bytes == 0 || (uintptr_t)grant.address % request->alignment_bytes == 0);
    give(grant.address);
    return stats_now().cached_bytes > before_bytes;
}

static void what_is_not_small_goes_below(void)
{
    CU_ASSERT_TRUE(is_kept(&(dao_block_request_t){.size_bytes = 4 * KIB, .alignment_bytes = 256}));
    CU_ASSERT_FALSE(is_kept(&(dao_block_request_t){.size_bytes = 4 * KIB + 1}));
    CU_ASSERT_FALSE(is_kept(&(dao_block_request_t){.size_bytes = 256, .alignment_bytes = 512}));
    CU_ASSERT_FALSE(is_kept(&(dao_block_request_t){.size_bytes = 1 * MIB, .alignment_bytes = 64 * KIB}));
}

static void what_is_small_can_be_said(void)
{
    CU_ASSERT_TRUE(is_kept(&(dao_block_request_t){.size_bytes = 4 * KIB + 1}));
    CU_ASSERT_TRUE(is_kept(&(dao_block_request_t){.size_bytes = 32 * KIB, .alignment_bytes = 256}));
    CU_ASSERT_FALSE(is_kept(&(dao_block_request_t){.size_bytes = 32 * KIB + 1}));
    void *addresses[] = {take(8 * KIB), take(8 * KIB + 1), take(17 * KIB), take(17 * KIB + 1),
                         take(31 * KIB + 1)};
    static const size_t expected[] = {8 * KIB, 8 * KIB + 512, 17 * KIB, 18 * KIB, 32 * KIB};
    for (size_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(block_bytes_of(addresses[i]), expected[i]);
        give(addresses[i]);
    }
}

static void see_tag(const dao_block_t *block, void *user)
{
    *(uint32_t *)user += block->tag;
}

static void a_block_keeps_its_tag(void)
{
    dao_tag_t tag = 0;
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("slab", &tag), DAO_OK);
    dao_block_request_t request = {.size_bytes = 300, .tag = tag};
    dao_block_grant_t grant;
    CU_ASSERT_EQUAL_FATAL(allocator->ops->alloc(allocator, &request, &grant), DAO_OK);
    dao_block_t block = {0};
    CU_ASSERT_EQUAL(allocator->ops->query(allocator, (char *)grant.address + 299, &block), DAO_OK);
    CU_ASSERT_EQUAL(block.tag, tag);
    CU_ASSERT_EQUAL(block.requested_bytes, 300);
    uint32_t tags = 0;
    allocator->ops->walk(allocator, see_tag, &tags);
    CU_ASSERT_EQUAL(tags, tag);
    give(grant.address);
}

static void a_small_block_takes_an_empty_fence_alone(void)
{
    void *address = take(100);
    dao_stream_fence_t fence = {.streams = 2, .epoch = 1}, empty = {0};
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, address, &fence), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(stats_now().live_count, 1);
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, address, &empty), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
}

/* ---- slabs ---- */

/* What the inner allocator has handed out for `count` blocks of one size. */
static uint64_t bytes_below(size_t size_bytes, size_t count)
{
    static void *addresses[20000];
    for (size_t i = 0; i < count; i++) {
        addresses[i] = take(size_bytes);
    }
    allocator->ops->stats_reset_peaks(allocator, NULL);
    dao_stats_t inner_stats;
    inner->ops->stats_get(inner, &inner_stats);
    for (size_t i = 0; i < count; i++) {
        give(addresses[i]);
    }
    (void)trim();
    return inner_stats.used_bytes;
}

static void slabs_grow_with_what_lives_in_them(void)
{
    CU_ASSERT_EQUAL(bytes_below(256, 1), DAO_SLAB_GRANULE_BYTES);
    CU_ASSERT_EQUAL(bytes_below(3 * KIB, 1), 15 * KIB);
    CU_ASSERT_TRUE(bytes_below(256, 20000) <= 20000 * 256 + 2 * DAO_SLAB_BYTES_MAX);
    CU_ASSERT_TRUE(bytes_below(3 * KIB, 6000) <= 6000 * 3 * KIB + 2 * DAO_SLAB_BYTES_MAX);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
}

static void slabs_are_few(void)
{
    dao_stats_t before, after;
    inner->ops->stats_get(inner, &before);
    (void)bytes_below(256, 20000);
    inner->ops->stats_get(inner, &after);
    CU_ASSERT_TRUE(after.alloc_count - before.alloc_count < 20000 * 256 / DAO_SLAB_BYTES_MAX + 24);
}

static void a_steady_program_takes_no_slab(void)
{
    give(take(4096));
    dao_stats_t before, after;
    inner->ops->stats_get(inner, &before);
    for (size_t i = 0; i < 1000; i++) {
        give(take(4096));
    }
    inner->ops->stats_get(inner, &after);
    CU_ASSERT_EQUAL(after.alloc_count, before.alloc_count);
    CU_ASSERT_EQUAL(stats_now().alloc_count, 1001);
    CU_ASSERT_EQUAL(stats_now().free_count, 1001);
}

static void empty_slabs_go_back(void)
{
    enum { COUNT = 4000 };
    static void *addresses[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        addresses[i] = take(1024);
    }
    for (size_t i = 0; i < COUNT; i++) {
        give(addresses[i]);
    }
    dao_stats_t inner_stats;
    inner->ops->stats_get(inner, &inner_stats);
    /* what the thread keeps may hold a few slabs, and one is spare */
    CU_ASSERT_TRUE(inner_stats.used_bytes <= 8 * DAO_SLAB_BYTES_MAX);
    CU_ASSERT_TRUE(stats_now().cached_bytes > 0);
    (void)trim();
    inner->ops->stats_get(inner, &inner_stats);
    CU_ASSERT_EQUAL(inner_stats.used_bytes, 0);
    CU_ASSERT_EQUAL(stats_now().cached_bytes, 0);
}

static void a_thread_keeps_a_bounded_number_of_bytes(void)
{
    enum { COUNT = 12 };
    void *addresses[DAO_SLAB_CLASS_COUNT][COUNT];
    uint32_t class_count = dao_slab_class_count(sizes);
    for (uint32_t i = 0; i < class_count; i++) {
        for (size_t k = 0; k < COUNT; k++) {
            addresses[i][k] = take(dao_slab_object_bytes(sizes, i));
        }
    }
    for (uint32_t i = 0; i < class_count; i++) {
        for (size_t k = 0; k < COUNT; k++) {
            give(addresses[i][k]);
            CU_ASSERT_TRUE(stats_now().cached_bytes <= sizes->kept_bytes);
        }
    }
    CU_ASSERT_TRUE(stats_now().cached_bytes > sizes->kept_bytes / 4);
}

/* Takes and gives so many blocks of a size that the slabs are asked about 64 times. */
static void visit_slabs(size_t size_bytes)
{
    enum { COUNT = 1024 };
    static void *addresses[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        addresses[i] = take(size_bytes);
    }
    for (size_t i = 0; i < COUNT; i++) {
        give(addresses[i]);
    }
}

/* No other size is used any more: what is kept of it goes, half and half again, and its slabs end. */
static void what_is_idle_goes_back(void)
{
    enum { COUNT = 100 };
    void *addresses[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        addresses[i] = take(1536);
    }
    for (size_t i = 0; i < COUNT; i++) {
        give(addresses[i]);
    }
    visit_slabs(256);
    uint64_t slab_bytes = stats_now().cached_bytes;
    CU_ASSERT_TRUE(slab_bytes >= 10 * (size_t)1536);
    for (size_t i = 0; i < 400; i++) {
        visit_slabs(256);
    }
    CU_ASSERT_TRUE(stats_now().cached_bytes <= 64 * (size_t)256);
    void *address = take(1536); /* from a new slab */
    CU_ASSERT_EQUAL(block_bytes_of(address), 1536);
    give(address);
}

/* ---- wrong frees ---- */

static void free_and_fail(void *address, dao_status_t expected)
{
    dao_stats_t before = stats_now();
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), expected);
    CU_ASSERT_EQUAL(dao_last_status(), expected);
    dao_stats_t after = stats_now();
    CU_ASSERT_EQUAL(memcmp(&before, &after, sizeof(after)), 0);
}

static void wrong_frees_are_told_apart_wherever_the_object_is(void)
{
    char *address = take(3 * KIB); /* the first of five in a slab of 15 KiB */
    free_and_fail(address + 1, DAO_ERR_INTERIOR_POINTER);
    free_and_fail(address + 256, DAO_ERR_INTERIOR_POINTER);
    free_and_fail(address + 3 * KIB - 1, DAO_ERR_INTERIOR_POINTER);
    free_and_fail(address + 15 * KIB, DAO_ERR_DOUBLE_FREE); /* nobody's: free memory below */
    give(address);
    free_and_fail(address, DAO_ERR_DOUBLE_FREE); /* in the magazine */
    free_and_fail(address + 256, DAO_ERR_DOUBLE_FREE);
    char *other = take(3 * KIB); /* out again */
    CU_ASSERT_PTR_EQUAL(other, address);
    give(other);
    dao_allocator_t *own_below = inner;
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, SIZE_MAX, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(own_below->ops->used_get(own_below), 0); /* the slab is gone, its page stays */
    free_and_fail(address, DAO_ERR_DOUBLE_FREE);
    free_and_fail(&released_bytes, DAO_ERR_FOREIGN_POINTER);
    free_and_fail((void *)(uintptr_t)UINT64_C(0xffff800000000000), DAO_ERR_FOREIGN_POINTER);
}

static void a_block_behind_a_slab_is_no_object(void)
{
    enum { COUNT = 40 };
    char *small[COUNT], *large[COUNT];
    for (size_t i = 0; i < COUNT;
         i++) { /* slabs of 15 KiB, and blocks that begin behind them in their granules */
        small[i] = take(3 * KIB - 256 * (i % 4));
        large[i] = take(33 * KIB);
    }
    for (size_t i = 0; i < COUNT; i++) {
        dao_block_t block = {0};
        CU_ASSERT_EQUAL(allocator->ops->query(allocator, large[i] + 100, &block), DAO_OK);
        CU_ASSERT_PTR_EQUAL(block.address, large[i]);
        CU_ASSERT_EQUAL(allocator->ops->query(allocator, small[i] + 2 * KIB, &block), DAO_OK);
        CU_ASSERT_PTR_EQUAL(block.address, small[i]);
        free_and_fail(large[i] + 512, DAO_ERR_INTERIOR_POINTER);
        uint64_t slow_count = stats_now().slow_count;
        CU_ASSERT_EQUAL(allocator->ops->free_fast(allocator, large[i]), DAO_OK);
        CU_ASSERT_EQUAL(stats_now().slow_count, slow_count);
        give(small[i]);
    }
    CU_ASSERT_EQUAL(stats_now().used_bytes, 0);
}

/* ---- pressure ---- */

static bool has_page(const dao_slab_map_t *map, uintptr_t address)
{
    return dao_slab_map_has_page(atomic_load(&map->root), address >> DAO_SLAB_GRANULE_SHIFT);
}

/* Two pages that share a bit: neither hides what the other has. */
static void a_bit_of_pages_is_set_while_one_has_a_slab(void)
{
    dao_slab_map_t map = {.root = NULL};
    dao_slab_map_init(&map);
    const uintptr_t one = (uintptr_t)5 << DAO_SLAB_MAP_PAGE_SHIFT;
    const uintptr_t other = one + ((uintptr_t)DAO_SLAB_MAP_PAGE_COUNT << DAO_SLAB_MAP_PAGE_SHIFT);
    CU_ASSERT_TRUE_FATAL(dao_slab_map_reserve(&map, (void *)one, 1));
    CU_ASSERT_TRUE_FATAL(dao_slab_map_reserve(&map, (void *)other, 1));
    CU_ASSERT_FALSE(has_page(&map, one));
    dao_slab_map_set(&map, (void *)one, 1);
    dao_slab_map_set(&map, (void *)one, 2); /* still one entry */
    dao_slab_map_set(&map, (void *)other, 3);
    CU_ASSERT_EQUAL(dao_slab_map_find(&map, (void *)one), 2);
    CU_ASSERT_EQUAL(dao_slab_map_find(&map, (void *)(other + 1)), 3);
    CU_ASSERT_EQUAL(dao_slab_map_find(&map, (void *)(one + DAO_SLAB_GRANULE_BYTES)), 0);
    CU_ASSERT_FALSE(has_page(&map, one - 1));
    dao_slab_map_set(&map, (void *)one, 0);
    CU_ASSERT_TRUE(has_page(&map, one));
    CU_ASSERT_EQUAL(dao_slab_map_find(&map, (void *)other), 3);
    dao_slab_map_set(&map, (void *)other, 0);
    CU_ASSERT_FALSE(has_page(&map, one));
    dao_slab_map_finish(&map);
}

static void kept_objects_make_room_for_a_large_block(void)
{
    enum { COUNT = 64 };
    void *addresses[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        addresses[i] = take(4 * KIB);
    }
    for (size_t i = 0; i < COUNT; i++) {
        give(addresses[i]);
    }
    CU_ASSERT_TRUE(stats_now().cached_bytes > 0);
    give(take(CAPACITY_BYTES));
    CU_ASSERT_EQUAL(stats_now().failed_count, 0);
    CU_ASSERT_EQUAL(stats_now().cached_bytes, 0);
}

static void a_small_block_fits_where_no_slab_does(void)
{
    size_t hole_bytes = 4 * KIB;
    void *all = take(CAPACITY_BYTES - hole_bytes);
    void *small = take(hole_bytes);
    void *address = &all;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 1, &address), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "1 bytes asked for"));
    CU_ASSERT_EQUAL(stats_now().failed_count, 1);
    CU_ASSERT_EQUAL(stats_now().used_bytes, CAPACITY_BYTES);
    give(small);
    give(take(hole_bytes));
    give(all);
}

static void a_limit_counts_live_objects_alone(void)
{
    void *stays = take(100);
    give(take(4 * KIB));
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 2 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 1 * MIB), DAO_ERR_LIMIT);
    give(stays);
    CU_ASSERT_TRUE(stats_now().cached_bytes > 0);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 1 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
}

/* ---- calls from within ---- */

static const dao_allocator_ops_t *inner_ops; /* as they are */
static bool keeps_within;                    /* the block that is taken from within */
static void *kept_within;

/* As an inner allocator that logs once, whose callback allocates from the front, and may free that again. */
static dao_status_t alloc_with_a_call_from_within(dao_allocator_t *below, const dao_block_request_t *request,
                                                  dao_block_grant_t *out_grant)
{
    below->ops = inner_ops;
    dao_status_t status = below->ops->alloc(below, request, out_grant);
    kept_within = take(100);
    if (!keeps_within) {
        give(kept_within);
    }
    return status;
}

static void take_within(bool keeps)
{
    inner_ops = inner->ops;
    dao_allocator_ops_t calling_ops = *inner_ops;
    calling_ops.alloc = alloc_with_a_call_from_within;
    inner->ops = &calling_ops;
    keeps_within = keeps;
    void *block = take(100);
    CU_ASSERT_PTR_EQUAL(inner->ops, inner_ops);
    CU_ASSERT_EQUAL(stats_now().live_count, keeps ? 2 : 1);
    CU_ASSERT_TRUE(!keeps || block != kept_within);
    give(block);
    if (keeps) {
        give(kept_within);
    }
    (void)trim();
    CU_ASSERT_EQUAL(stats_now().used_bytes, 0);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
}

static void the_inner_allocator_may_cause_calls_of_the_same_thread(void)
{
    take_within(true);
    take_within(false);
}

/* ---- random operations against a model ---- */

#define LIVE_MAX 300u

typedef struct model {
    struct {
        void *address;
        size_t requested_bytes;
    } live[LIVE_MAX];
    size_t count;
    dao_stats_t stats; /* what they have to be; the reserved bytes are not the model's */
} model_t;

static void model_take(model_t *model, size_t size_bytes)
{
    void *address = NULL;
    dao_stats_t *stats = &model->stats;
    if (dao_allocator_alloc(allocator, size_bytes, &address) != DAO_OK) {
        stats->failed_count++;
        return;
    }
    model->live[model->count].address = address;
    model->live[model->count++].requested_bytes = size_bytes;
    stats->alloc_count++;
    stats->requested_bytes += size_bytes;
    stats->used_bytes += block_bytes_of(address);
    stats->peak_requested_bytes = dao_larger(stats->peak_requested_bytes, stats->requested_bytes);
    stats->peak_used_bytes = dao_larger(stats->peak_used_bytes, stats->used_bytes);
}

static void model_give(model_t *model, size_t victim)
{
    dao_stats_t *stats = &model->stats;
    stats->free_count++;
    stats->requested_bytes -= model->live[victim].requested_bytes;
    stats->used_bytes -= block_bytes_of(model->live[victim].address);
    give(model->live[victim].address);
    model->live[victim] = model->live[--model->count];
}

static void model_compare(const model_t *model)
{
    dao_stats_t stats = stats_now();
    const dao_stats_t *expected = &model->stats;
    CU_ASSERT_EQUAL(stats.live_count, model->count);
    CU_ASSERT_EQUAL(stats.alloc_count, expected->alloc_count);
    CU_ASSERT_EQUAL(stats.free_count, expected->free_count);
    CU_ASSERT_EQUAL(stats.failed_count, expected->failed_count);
    CU_ASSERT_EQUAL(stats.requested_bytes, expected->requested_bytes);
    CU_ASSERT_EQUAL(stats.used_bytes, expected->used_bytes);
    CU_ASSERT_TRUE(stats.peak_requested_bytes >= expected->peak_requested_bytes);
    CU_ASSERT_TRUE(stats.peak_used_bytes >= expected->peak_used_bytes);
    CU_ASSERT_TRUE(stats.peak_used_bytes <= stats.peak_reserved_bytes);
    CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), expected->used_bytes);
}

static void model_step(model_t *model, uint64_t *seed, bool grows)
{
    uint64_t dice = dao_random_next(seed) % 1000;
    size_t object_bytes = 1 + (size_t)(dao_random_next(seed) % DAO_SLAB_OBJECT_BYTES_MAX);
    size_t large_bytes = DAO_SLAB_OBJECT_BYTES_MAX + 1 + (size_t)(dao_random_next(seed) % (4 * MIB));
    if (dice == 0) {
        (void)trim();
    } else if (dice < 4) {
        allocator->ops->stats_reset_peaks(allocator, NULL);
        model->stats.peak_requested_bytes = model->stats.requested_bytes;
        model->stats.peak_used_bytes = model->stats.used_bytes;
    } else if (dice < (grows ? 600u : 400u) && model->count < LIVE_MAX) {
        model_take(model, dice % 3 == 0 ? large_bytes : object_bytes);
    } else if (model->count > 0) {
        model_give(model, (size_t)(dao_random_next(seed) % model->count));
    }
}

static void random_operations_are_counted_exactly(void)
{
    static model_t model;
    model = (model_t){.count = 0};
    uint64_t seed = dao_test_seed("slab statistics", 11);
    for (size_t i = 0; i < 12000; i++) {
        model_step(&model, &seed, i / 1500 % 2 == 0);
        if (dao_random_next(&seed) % 8 == 0) {
            model_compare(&model);
        }
    }
    while (model.count > 0) {
        model_give(&model, 0);
    }
    model_compare(&model);
}

/* ---- ordinary memory ---- */

static void blocks_of_the_host_are_multiples_of_64_bytes(void)
{
    static const size_t requested[] = {1, 64, 65, 1024, 1025, 2049, 32 * KIB};
    static const size_t expected[] = {64, 64, 128, 1024, 1152, 2304, 32 * KIB};
    for (size_t i = 0; i < 7; i++) {
        void *address = take(requested[i]);
        CU_ASSERT_EQUAL(block_bytes_of(address), expected[i]);
        CU_ASSERT_EQUAL((uintptr_t)address % 64, 0);
        give(address);
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_ERR_DOUBLE_FREE);
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, (char *)address + 1), DAO_ERR_DOUBLE_FREE);
    }
    dao_block_request_t aligned = {.size_bytes = 100, .alignment_bytes = 4096};
    dao_block_grant_t grant;
    CU_ASSERT_EQUAL(allocator->ops->alloc(allocator, &aligned, &grant), DAO_OK);
    CU_ASSERT_EQUAL((uintptr_t)grant.address % 4096, 0);
    give(grant.address);
}

/* Each block is full of its own number as long as it lives. */
static void blocks_of_the_host_share_no_byte(void)
{
    static unsigned char *blocks[LIVE_MAX];
    static size_t block_bytes[LIVE_MAX];
    uint64_t seed = dao_test_seed("bytes of the host", 7);
    size_t wrong_count = 0;
    for (size_t i = 0; i < 20000; i++) {
        size_t k = (size_t)(dao_random_next(&seed) % LIVE_MAX);
        unsigned char value = (unsigned char)k;
        if (blocks[k] == NULL) {
            block_bytes[k] =
                1 + (size_t)(dao_random_next(&seed) % (dao_random_next(&seed) % 8 == 0 ? 40960 : 600));
            blocks[k] = take(block_bytes[k]);
            memset(blocks[k], value, block_bytes[k]);
            continue;
        }
        wrong_count += blocks[k][0] != value || memcmp(blocks[k], blocks[k] + 1, block_bytes[k] - 1) != 0;
        give(blocks[k]);
        blocks[k] = NULL;
    }
    CU_ASSERT_EQUAL(wrong_count, 0);
    for (size_t k = 0; k < LIVE_MAX; k++) {
        if (blocks[k] != NULL) {
            give(blocks[k]);
        }
        blocks[k] = NULL;
    }
    (void)trim();
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
}

/* ---- failures below ---- */

/* Takes blocks of several sizes, counts those that fail. */
static size_t scenario(void)
{
    enum { COUNT = 60 };
    void *addresses[COUNT];
    size_t failures = 0;
    for (size_t i = 0; i < COUNT; i++) {
        size_t size_bytes = i % 10 == 9 ? 3 * MIB : 512 + 600 * i;
        bool has_failed = dao_allocator_alloc(allocator, size_bytes, &addresses[i]) != DAO_OK;
        addresses[i] = has_failed ? NULL : addresses[i];
        failures += has_failed;
        (void)stats_now();
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (addresses[i] != NULL) {
            give(addresses[i]);
        }
    }
    return failures;
}

static void every_failing_call_of_the_backend_is_survived(void)
{
    uint64_t failed_count = 1;
    for (uint64_t n = 0; failed_count > 0 && n < 1000; n++) {
        heap_backend_fail(heap, HEAP_CALL_COUNT, n, n % 2 == 1);
        size_t failures = scenario();
        failed_count = heap_backend_heal(heap);
        CU_ASSERT_TRUE(failed_count > 0 || failures == 0);
        CU_ASSERT_EQUAL(stats_now().used_bytes, 0);
        (void)trim();
        CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
    }
    CU_ASSERT_EQUAL(failed_count, 0);
}

/* The host's memory of this suite has none. */
static void windows_are_lacking_where_the_inner_has_none(void)
{
    CU_ASSERT_PTR_NULL_FATAL(inner->ops->window_begin);
    CU_ASSERT_PTR_NULL(allocator->ops->window_begin);
    CU_ASSERT_PTR_NULL(allocator->ops->alloc_at);
    CU_ASSERT_PTR_NULL(allocator->ops->window_back);
}

static CU_TestInfo tests[] = {
    {"small blocks have the size of their class", small_blocks_have_the_size_of_their_class},
    {"small blocks leave the fast path at most once a batch",
     small_blocks_leave_the_fast_path_at_most_once_a_batch},
    {"what is not small goes below", what_is_not_small_goes_below},
    {"a block keeps its tag", a_block_keeps_its_tag},
    {"a small block takes an empty fence alone", a_small_block_takes_an_empty_fence_alone},
    {"slabs grow with what lives in them", slabs_grow_with_what_lives_in_them},
    {"slabs are few", slabs_are_few},
    {"a steady program takes no slab", a_steady_program_takes_no_slab},
    {"empty slabs go back", empty_slabs_go_back},
    {"a thread keeps a bounded number of bytes", a_thread_keeps_a_bounded_number_of_bytes},
    {"what is idle goes back", what_is_idle_goes_back},
    {"wrong frees are told apart wherever the object is", wrong_frees_are_told_apart_wherever_the_object_is},
    {"a block behind a slab is no object", a_block_behind_a_slab_is_no_object},
    {"a bit of pages is set while one has a slab", a_bit_of_pages_is_set_while_one_has_a_slab},
    {"kept objects make room for a large block", kept_objects_make_room_for_a_large_block},
    {"a small block fits where no slab does", a_small_block_fits_where_no_slab_does},
    {"a limit counts live objects alone", a_limit_counts_live_objects_alone},
    {"the inner allocator may cause calls of the same thread",
     the_inner_allocator_may_cause_calls_of_the_same_thread},
    {"random operations are counted exactly", random_operations_are_counted_exactly},
    {"every failing call of the backend is survived", every_failing_call_of_the_backend_is_survived},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo large_tests[] = {
    {"what is small can be said", what_is_small_can_be_said},
    {"a thread keeps a bounded number of bytes", a_thread_keeps_a_bounded_number_of_bytes},
    {"random operations are counted exactly", random_operations_are_counted_exactly},
    {"every failing call of the backend is survived", every_failing_call_of_the_backend_is_survived},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo host_tests[] = {
    {"windows are lacking where the inner has none", windows_are_lacking_where_the_inner_has_none},
    {"blocks of the host are multiples of 64 bytes", blocks_of_the_host_are_multiples_of_64_bytes},
    {"blocks of the host share no byte", blocks_of_the_host_share_no_byte},
    {"what is idle goes back", what_is_idle_goes_back},
    {"a thread keeps a bounded number of bytes", a_thread_keeps_a_bounded_number_of_bytes},
    {"random operations are counted exactly", random_operations_are_counted_exactly},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"slab over pages, contract", NULL, NULL, over_pages_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"slab over segments, contract", NULL, NULL, over_segments_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"slab over host, contract", NULL, NULL, over_host_contract_begin,
                              over_host_contract_end, allocator_contract_tests},
                             {"slab", NULL, NULL, begin, end, tests},
                             {"slabs of up to 32 KiB, contract", NULL, NULL, large_contract_begin,
                              large_contract_end, allocator_contract_tests},
                             {"slabs of up to 32 KiB", NULL, NULL, large_begin, large_end, large_tests},
                             {"slabs of the host", NULL, NULL, host_begin, host_end, host_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
