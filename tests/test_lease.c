/* Leases: by the allocator's own operations on a device that watches what is unmapped, against a model, and by the public
   calls on the built backend. */
#include <dao/async.h>
#include <dao/context.h>
#include <dao/lease.h>
#include <dao/memory.h>
#include <dao/place_config.h>
#include <dao/stats.h>
#include <dao/stream.h>

#include "allocators/buddy.h"
#include "allocators/caching.h"
#include "allocators/paged.h"
#include "base/fault.h"
#include "base/sync.h"
#include "runtime/runtime_internal.h"
#include "tests/support/gate.h"
#include "tests/support/heap_backend.h"
#include "tests/support/suite.h"

#include <string.h>

#define PAGE           ((size_t)DAO_PAGE_BYTES)
#define CAPACITY_BYTES (64 * MIB)
#define PAGE_COUNT     ((size_t)(CAPACITY_BYTES / DAO_PAGE_BYTES))
#define THREADS        4

/* Takes a status that a test does not care about. */
static void ignore(dao_status_t status)
{
    (void)status;
}

/* ---- a device that watches what is unmapped ---- */

static heap_backend_t *heap;
static dao_backend_ops_t table;
static dao_allocator_t *allocator;

/* Pages that must stay: those that blocks of a lease have touched. */
typedef struct kept_page {
    uintptr_t address;
    uint32_t lease;
} kept_page_t;
static kept_page_t kept[PAGE_COUNT * DAO_PAGED_LEASE_MAX];
static size_t kept_count;
static uint32_t broken_count; /* times that one was unmapped */

static dao_status_t watched_unmap(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    for (size_t i = 0; i < kept_count; i++) {
        broken_count += kept[i].address == (uintptr_t)address;
    }
    return heap_backend_ops(heap)->pages_unmap(device, pages, address);
}

static void caching_begin(void)
{
    heap = heap_backend_create(CAPACITY_BYTES, PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(heap);
    table = *heap_backend_ops(heap);
    table.pages_unmap = watched_unmap;
    kept_count = 0;
    broken_count = 0;
    dao_caching_config_t config = {.ops = &table, .device = heap_backend_device(heap), .name = "device:0"};
    CU_ASSERT_EQUAL_FATAL(dao_caching_create(&config, &allocator), DAO_OK);
}

static void caching_end(void)
{
    kept_count = 0;
    CU_ASSERT_EQUAL(broken_count, 0);
    allocator->ops->destroy(allocator);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
}

static void keep(uint32_t lease, const void *address, size_t size_bytes)
{
    uintptr_t first = (uintptr_t)address / PAGE, last = ((uintptr_t)address + size_bytes - 1) / PAGE;
    for (uintptr_t page = first; page <= last; page++) {
        size_t i = 0;
        while (i < kept_count && kept[i].address != page * PAGE) {
            i++;
        }
        if (i == kept_count) {
            CU_ASSERT_FATAL(kept_count < sizeof(kept) / sizeof(kept[0]));
            kept[kept_count++] = (kept_page_t){.address = page * PAGE, .lease = lease};
        }
        CU_ASSERT_EQUAL(kept[i].lease, lease);
    }
}

static void keep_no_more(uint32_t lease)
{
    size_t left = 0;
    for (size_t i = 0; i < kept_count; i++) {
        if (kept[i].lease != lease) {
            kept[left++] = kept[i];
        }
    }
    kept_count = left;
}

static uint32_t lease_begin(void)
{
    uint32_t lease = 0;
    CU_ASSERT_EQUAL(allocator->ops->lease_begin(allocator, &lease), DAO_OK);
    CU_ASSERT_TRUE(lease > 0);
    return lease;
}

static void lease_end(uint32_t lease)
{
    keep_no_more(lease);
    allocator->ops->lease_end(allocator, lease);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
}

static dao_block_lease_stats_t lease_stats(uint32_t lease)
{
    dao_block_lease_stats_t stats;
    allocator->ops->lease_stats(allocator, lease, &stats);
    return stats;
}

static dao_status_t try_take(uint32_t lease, size_t size_bytes, void **out_address)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .lease = lease};
    dao_block_grant_t grant;
    dao_status_t status = allocator->ops->alloc(allocator, &request, &grant);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    if (status == DAO_OK) {
        *out_address = grant.address;
        if (lease != 0) {
            keep(lease, grant.address, size_bytes);
        }
    }
    return status;
}

static void *take(uint32_t lease, size_t size_bytes)
{
    void *address = NULL;
    CU_ASSERT_EQUAL(try_take(lease, size_bytes, &address), DAO_OK);
    return address;
}

static void give(void *address)
{
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
}

static size_t trim(void)
{
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    return released_bytes;
}

static size_t reserved(void)
{
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.reserved_bytes, heap_backend_device_bytes(heap));
    return stats.reserved_bytes;
}

/* ---- pages stay ---- */

static void a_trim_leaves_what_was_freed_under_a_lease(void)
{
    uint32_t lease = lease_begin();
    void *inside = take(lease, 3 * PAGE), *outside = take(0, 2 * PAGE);
    give(inside);
    give(outside);
    CU_ASSERT_EQUAL(trim(), 2 * PAGE);
    CU_ASSERT_EQUAL(lease_stats(lease).held_bytes, 3 * PAGE);
    CU_ASSERT_EQUAL(lease_stats(lease).used_bytes, 0);
    lease_end(lease);
    CU_ASSERT_EQUAL(trim(), 3 * PAGE);
    CU_ASSERT_EQUAL(reserved(), 0);
}

static void a_limit_does_not_shrink_a_lease(void)
{
    uint32_t lease = lease_begin();
    give(take(lease, 3 * PAGE));
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 2 * PAGE), DAO_ERR_LIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "leases"));
    lease_end(lease);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 2 * PAGE), DAO_OK);
    CU_ASSERT_EQUAL(reserved(), 2 * PAGE);
}

static void others_fail_rather_than_take_the_pages_of_a_lease(void)
{
    uint32_t lease = lease_begin();
    give(take(lease, 8 * PAGE));
    void *most = take(0, CAPACITY_BYTES - 8 * PAGE), *address = NULL;
    CU_ASSERT_EQUAL(try_take(0, PAGE, &address), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(try_take(0, 1, &address), DAO_ERR_NO_DEVICE_MEMORY);
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.largest_hole_bytes, 0);
    CU_ASSERT_EQUAL(lease_stats(lease).held_bytes, 8 * PAGE);
    lease_end(lease);
    void *rest = take(0, 8 * PAGE);
    give(rest);
    give(most);
}

static void a_limit_is_not_met_by_pages_of_a_lease(void)
{
    uint32_t lease = lease_begin();
    give(take(lease, 4 * PAGE));
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 5 * PAGE), DAO_OK);
    void *address = NULL;
    CU_ASSERT_EQUAL(try_take(0, 2 * PAGE, &address), DAO_ERR_LIMIT);
    give(take(lease, 4 * PAGE));
    lease_end(lease);
    give(take(0, 2 * PAGE));
}

static void what_is_free_under_a_lease_is_used_again_by_it_alone(void)
{
    uint32_t lease = lease_begin();
    void *first = take(lease, 2 * PAGE), *second = take(lease, PAGE);
    give(first);
    uint64_t calls = heap_backend_calls(heap, HEAP_CALL_COUNT);
    CU_ASSERT_PTR_EQUAL(take(lease, 2 * PAGE), first);
    CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_COUNT), calls);
    give(first);
    void *other = take(0, PAGE);
    CU_ASSERT_TRUE((char *)other < (char *)first || (char *)other >= (char *)second + PAGE);
    CU_ASSERT_NOT_EQUAL(heap_backend_calls(heap, HEAP_CALL_COUNT), calls);
    give(other);
    give(second);
    lease_end(lease);
}

static void a_lease_grows_by_free_pages_of_others(void)
{
    void *low = take(0, 10 * PAGE), *high = take(0, CAPACITY_BYTES - 10 * PAGE);
    give(low);
    uint32_t lease = lease_begin();
    void *inside = take(lease, 6 * PAGE), *address = NULL;
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.remap_count, 6);
    CU_ASSERT_EQUAL(try_take(lease, 5 * PAGE, &address), DAO_ERR_NO_DEVICE_MEMORY);
    give(inside);
    give(take(lease, 10 * PAGE)); /* four more */
    CU_ASSERT_EQUAL(lease_stats(lease).held_bytes, 10 * PAGE);
    CU_ASSERT_EQUAL(lease_stats(lease).live_count, 0);
    give(high);
    lease_end(lease);
}

static void a_lease_takes_nothing_from_another_one(void)
{
    uint32_t one = lease_begin(), two = lease_begin();
    CU_ASSERT_NOT_EQUAL(one, two);
    give(take(one, CAPACITY_BYTES / 2));
    void *most = take(two, CAPACITY_BYTES / 2), *address = NULL;
    CU_ASSERT_EQUAL(try_take(two, PAGE, &address), DAO_ERR_NO_DEVICE_MEMORY);
    lease_end(one);
    void *more = take(two, PAGE);
    give(most);
    give(more);
    lease_end(two);
}

/* ---- the end of a lease ---- */

static void live_blocks_outlive_their_lease(void)
{
    uint32_t lease = lease_begin();
    void *low = take(lease, 2 * PAGE), *high = take(lease, PAGE);
    give(low);
    lease_end(lease);
    dao_block_t block;
    CU_ASSERT_EQUAL(allocator->ops->query(allocator, high, &block), DAO_OK);
    CU_ASSERT_EQUAL(block.block_bytes, PAGE);
    CU_ASSERT_EQUAL(trim(), 2 * PAGE);
    CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), PAGE);
    give(high);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, high), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(trim(), PAGE);
}

static void an_ended_lease_makes_room_once_it_is_empty(void)
{
    uint32_t leases[DAO_PAGED_LEASE_MAX], more = 0;
    void *blocks[DAO_PAGED_LEASE_MAX];
    for (size_t i = 0; i < DAO_PAGED_LEASE_MAX; i++) {
        leases[i] = lease_begin();
        blocks[i] = take(leases[i], PAGE);
    }
    CU_ASSERT_EQUAL(allocator->ops->lease_begin(allocator, &more), DAO_ERR_LIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "release leases"));
    lease_end(leases[3]);
    CU_ASSERT_EQUAL(allocator->ops->lease_begin(allocator, &more), DAO_ERR_LIMIT); /* its block is live */
    give(blocks[3]);
    CU_ASSERT_EQUAL(lease_begin(), leases[3]);
    CU_ASSERT_EQUAL(lease_stats(leases[3]).used_bytes, 0);
    blocks[3] = take(leases[3], PAGE);
    for (size_t i = 0; i < DAO_PAGED_LEASE_MAX; i++) {
        give(blocks[i]);
        lease_end(leases[i]);
    }
    CU_ASSERT_EQUAL(trim(), DAO_PAGED_LEASE_MAX * PAGE);
}

static void segments_have_no_leases(void)
{
    heap_backend_t *plain = heap_backend_create(CAPACITY_BYTES, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(plain);
    dao_caching_config_t config = {
        .ops = heap_backend_ops(plain), .device = heap_backend_device(plain), .name = "device:1"};
    dao_allocator_t *segmented;
    CU_ASSERT_EQUAL_FATAL(dao_caching_create(&config, &segmented), DAO_OK);
    CU_ASSERT_PTR_NULL(segmented->ops->lease_begin);
    segmented->ops->destroy(segmented);
    CU_ASSERT_TRUE(heap_backend_destroy(plain));
}

/* ---- failures ---- */

/* Grows a lease by new and by moved pages, while the n-th backend call fails. */
static dao_status_t grow_a_lease(uint64_t n, uint64_t *fired)
{
    void *low = take(0, 4 * PAGE), *wall = take(0, PAGE), *address = NULL;
    give(low);
    uint32_t lease = lease_begin();
    void *inside = take(lease, PAGE);
    dao_block_lease_stats_t before = lease_stats(lease);
    size_t used_bytes = (size_t)allocator->ops->used_get(allocator);
    heap_backend_fail(heap, HEAP_CALL_COUNT, n, false);
    dao_status_t status = try_take(lease, 6 * PAGE, &address);
    *fired = heap_backend_heal(heap);
    if (status != DAO_OK) {
        dao_block_lease_stats_t after = lease_stats(lease);
        CU_ASSERT_EQUAL(after.used_bytes, before.used_bytes);
        CU_ASSERT_EQUAL(after.live_count, before.live_count);
        CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), used_bytes);
        address = take(lease, 6 * PAGE);
    }
    give(address);
    give(inside);
    give(wall);
    lease_end(lease);
    (void)trim();
    CU_ASSERT_EQUAL(reserved(), 0);
    return status;
}

static void a_lease_survives_every_refusal_of_the_backend(void)
{
    uint64_t fired = 1;
    for (uint64_t n = 0; fired > 0; n++) {
        dao_status_t status = grow_a_lease(n, &fired);
        CU_ASSERT_TRUE(status == DAO_OK || fired > 0);
        CU_ASSERT_TRUE(n > 2 || fired > 0);
    }
}

static void a_lease_that_could_not_begin_leaves_nothing(void)
{
    uint64_t fired = 1, failed_count = 0;
    for (uint64_t n = 0; fired > 0; n++) {
        uint32_t lease = 0;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = allocator->ops->lease_begin(allocator, &lease);
        fired = dao_fault_disarm();
        failed_count += status != DAO_OK;
        CU_ASSERT_TRUE(status == (fired > 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK));
        CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
        if (status == DAO_OK) {
            CU_ASSERT_EQUAL(lease, 2); /* the first window after the shared one */
            lease_end(lease);
        }
    }
#if defined(DAO_FAULTS)
    CU_ASSERT_TRUE(failed_count > 2);
#endif
}

/* ---- a random test ---- */

#define MODEL_BLOCKS 96

typedef struct model_block {
    char *address; /* NULL: none */
    size_t size_bytes;
    uint32_t lease; /* as of its allocation */
} model_block_t;

typedef struct model {
    model_block_t blocks[MODEL_BLOCKS];
    uint32_t leases[3]; /* 0: none */
    uint64_t state;
} model_t;

static void model_alloc(model_t *model, model_block_t *block)
{
    uint64_t pick = dao_test_random(&model->state) % 5;
    block->lease = pick < 3 ? model->leases[pick] : 0;
    block->size_bytes =
        dao_test_random(&model->state) % (dao_test_random(&model->state) % 4 == 0 ? 8 * PAGE : PAGE) + 1;
    void *address = NULL;
    if (try_take(block->lease, block->size_bytes, &address) != DAO_OK) {
        return;
    }
    block->address = address;
    for (size_t i = 0; i < MODEL_BLOCKS; i++) {
        const model_block_t *other = &model->blocks[i];
        CU_ASSERT_TRUE(other == block || other->address == NULL ||
                       block->address >= other->address + other->size_bytes ||
                       other->address >= block->address + block->size_bytes);
    }
    for (size_t i = 0; i < kept_count && block->lease == 0; i++) { /* not where a lease keeps its pages */
        CU_ASSERT_TRUE(kept[i].address + PAGE <= (uintptr_t)block->address ||
                       (uintptr_t)block->address + block->size_bytes <= kept[i].address);
    }
}

static void model_lease(model_t *model, uint32_t *lease)
{
    if (*lease == 0) {
        uint32_t begun = 0;
        *lease = allocator->ops->lease_begin(allocator, &begun) == DAO_OK ? begun : 0;
    } else {
        lease_end(*lease);
        for (size_t i = 0; i < MODEL_BLOCKS; i++) {
            model->blocks[i].lease = model->blocks[i].lease == *lease ? UINT32_MAX : model->blocks[i].lease;
        }
        *lease = 0;
    }
}

static void model_check(const model_t *model)
{
    for (size_t l = 0; l < 3; l++) {
        uint64_t live_count = 0, kept_pages = 0;
        if (model->leases[l] == 0) {
            continue;
        }
        for (size_t i = 0; i < MODEL_BLOCKS; i++) {
            live_count += model->blocks[i].address != NULL && model->blocks[i].lease == model->leases[l];
        }
        for (size_t i = 0; i < kept_count; i++) {
            kept_pages += kept[i].lease == model->leases[l];
        }
        dao_block_lease_stats_t stats = lease_stats(model->leases[l]);
        CU_ASSERT_EQUAL(stats.live_count, live_count);
        CU_ASSERT_TRUE(stats.held_bytes >= kept_pages * PAGE);
        CU_ASSERT_TRUE(stats.held_bytes >= stats.used_bytes);
    }
    CU_ASSERT_EQUAL(broken_count, 0);
}

static void leases_keep_what_a_model_says(void)
{
    model_t model = {.state = dao_test_seed("leases keep what a model says", 5)};
    for (int step = 0; step < 1500; step++) {
        uint64_t what = dao_test_random(&model.state) % 100;
        model_block_t *block = &model.blocks[dao_test_random(&model.state) % MODEL_BLOCKS];
        if (what < 2) {
            model_lease(&model, &model.leases[dao_test_random(&model.state) % 3]);
        } else if (what < 4) {
            (void)trim();
        } else if (what < 6) {
            ignore(allocator->ops->limit_set(allocator, (dao_test_random(&model.state) % PAGE_COUNT) * PAGE));
        } else if (block->address == NULL) {
            model_alloc(&model, block);
        } else {
            give(block->address);
            block->address = NULL;
        }
        model_check(&model);
    }
    for (size_t l = 0; l < 3; l++) {
        if (model.leases[l] != 0) {
            lease_end(model.leases[l]);
        }
    }
    for (size_t i = 0; i < MODEL_BLOCKS; i++) {
        if (model.blocks[i].address != NULL) {
            give(model.blocks[i].address);
        }
    }
    (void)trim();
    CU_ASSERT_EQUAL(reserved(), 0);
}

/* ---- the public calls ---- */

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t pinned_place = {DAO_PLACE_KIND_PINNED, 0};
static const dao_place_t second_device = {DAO_PLACE_KIND_DEVICE, 1};
static _Atomic uint32_t lease_lines; /* of the log, that name a lease */

static void count_lines(dao_log_level_t level, const char *message, void *user)
{
    (void)level;
    (void)user;
    lease_lines += strstr(message, "live at shutdown: lease at device:0") != NULL;
}

static void library_start(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = CAPACITY_BYTES},
                           .log_callback = count_lines,
                           .log_level = DAO_LOG_LEVEL_WARNING};
    lease_lines = 0;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, dao_backend_ops()), DAO_OK);
}

static void library_stop(void)
{
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(lease_lines, 0);
}

static dao_lease_t *begin_at(dao_place_t place)
{
    dao_lease_t *lease = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_lease_begin(place, &lease), DAO_OK);
    return lease;
}

static dao_lease_stats_t stats_of(dao_lease_t *lease)
{
    dao_lease_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_lease_stats_get(lease, &stats), DAO_OK);
    return stats;
}

static size_t trim_device(void)
{
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(dao_trim(device, 0, &released_bytes), DAO_OK);
    return released_bytes;
}

/* Tells whether all of a block still has a value. */
static bool has_value(const char *address, char value, size_t size_bytes)
{
    return address[0] == value && memcmp(address, address + 1, size_bytes - 1) == 0;
}

static void a_graph_finds_its_addresses_as_it_left_them(void)
{
    dao_lease_t *lease = begin_at(device);
    char *block = dao_alloc(device, 4 * PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    memset(block, 0x5a, 4 * PAGE); /* the memory is the lease's */
    CU_ASSERT_EQUAL(trim_device(), 0);
    void *most = dao_alloc(device, CAPACITY_BYTES - 4 * PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(most);
    memset(most, 1, CAPACITY_BYTES - 4 * PAGE);
    CU_ASSERT_PTR_NULL(dao_alloc(device, 1));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_TRUE(has_value(block, 0x5a, 4 * PAGE));
    CU_ASSERT_EQUAL(dao_lease_enter(lease), DAO_OK);
    CU_ASSERT_PTR_EQUAL(dao_alloc(device, 4 * PAGE), block);
    CU_ASSERT_EQUAL(dao_lease_leave(lease), DAO_OK);
    CU_ASSERT_EQUAL(stats_of(lease).used_bytes, 4 * PAGE);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 1);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    void *last = dao_alloc(device, 4 * PAGE);
    CU_ASSERT_PTR_NOT_NULL(last);
    CU_ASSERT_EQUAL(dao_free(device, last), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, most), DAO_OK);
}

static void handles_and_stream_order_come_from_the_lease(void)
{
    dao_lease_t *lease = begin_at(device);
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, PAGE, NULL, &memory), DAO_OK);
    void *ordered = dao_alloc_async(device, PAGE, NULL);
    void *aligned = dao_alloc_with(device, PAGE, &(dao_alloc_options_t){.alignment_bytes = 64 * KIB});
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 3);
    CU_ASSERT_EQUAL(stats_of(lease).used_bytes, 3 * PAGE);
    void *elsewhere = dao_alloc(second_device, PAGE), *pinned = dao_alloc(pinned_place, 8);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 3);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    void *after = dao_alloc(device, PAGE);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 3);
    CU_ASSERT_EQUAL(dao_used(device), 4 * PAGE);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(device, ordered, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, aligned), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, after), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(second_device, elsewhere), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(pinned_place, pinned), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(device, SIZE_MAX, NULL), DAO_OK); /* waits for the handle's free */
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 0);
    CU_ASSERT_TRUE(stats_of(lease).held_bytes >= 3 * PAGE);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
}

static void a_capture_given_up_leaves_live_blocks(void)
{
    dao_lease_t *lease = begin_at(device);
    void *freed = dao_alloc(device, 2 * PAGE), *live = dao_alloc(device, PAGE);
    CU_ASSERT_EQUAL(dao_free(device, freed), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_OK);
    CU_ASSERT_EQUAL(trim_device(), 2 * PAGE);
    memset(live, 3, PAGE);
    void *other = dao_alloc(device, 2 * PAGE); /* not under the lease any more */
    CU_ASSERT_PTR_NOT_NULL(other);
    CU_ASSERT_EQUAL(dao_free(device, other), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, live), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_ERR_INVALID);
}

static void a_thread_is_under_one_lease_a_place(void)
{
    dao_lease_t *lease = begin_at(device), *other = begin_at(second_device), *none = NULL;
    CU_ASSERT_EQUAL(dao_lease_begin(device, &none), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_lease_enter(lease), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_lease_leave(lease), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_enter(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_begin(device, &none), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_ERR_BUSY);
    void *here = dao_alloc(device, PAGE), *there = dao_alloc(second_device, PAGE);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 1);
    CU_ASSERT_EQUAL(stats_of(other).live_count, 1);
    CU_ASSERT_EQUAL(dao_free(device, here), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(second_device, there), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_leave(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_cancel(other), DAO_OK);
}

static void what_has_no_leases_says_so(void)
{
    static const dao_place_t without[] = {{DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 0}};
    dao_lease_t *lease = NULL;
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(dao_lease_begin(without[i], &lease), DAO_ERR_UNSUPPORTED);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "page mapping"));
    }
    dao_place_config_t plain = {.no_page_mapping = true};
    CU_ASSERT_EQUAL(dao_place_configure(second_device, &plain), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_begin(second_device, &lease), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_lease_begin((dao_place_t){DAO_PLACE_KIND_DEVICE, 2}, &lease), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_lease_begin(device, NULL), DAO_ERR_INVALID);
    dao_lease_stats_t stats;
    CU_ASSERT_EQUAL(dao_lease_commit(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_cancel(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_enter(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_leave(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_retain(NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_release(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_stats_get(NULL, &stats), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(lease);
}

/* ---- retained blocks ---- */

static void a_retained_block_is_freed_when_its_lease_ends(void)
{
    char *weights = dao_alloc(device, PAGE);
    dao_lease_t *lease = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_OK);
    CU_ASSERT_EQUAL(stats_of(lease).retained_count, 1);
    CU_ASSERT_EQUAL(stats_of(lease).retained_bytes, PAGE);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    memset(weights, 7, PAGE);
    CU_ASSERT_EQUAL(dao_free(device, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), PAGE);
    CU_ASSERT_EQUAL(dao_free(device, weights), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_free_async(device, weights, NULL), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(trim_device(), 0);
    CU_ASSERT_TRUE(has_value(weights, 7, PAGE));
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(dao_free(device, weights), DAO_ERR_DOUBLE_FREE);
}

static void a_retained_block_that_nobody_freed_stays(void)
{
    void *weights = dao_alloc(device, PAGE);
    dao_lease_t *lease = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), PAGE);
    CU_ASSERT_EQUAL(dao_free(device, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

static void the_last_of_two_leases_frees_a_retained_block(void)
{
    void *weights = dao_alloc(device, PAGE);
    dao_lease_t *leases[2];
    for (int i = 0; i < 2; i++) {
        leases[i] = begin_at(device);
        CU_ASSERT_EQUAL(dao_lease_commit(leases[i]), DAO_OK);
        CU_ASSERT_EQUAL(dao_lease_retain(leases[i], weights), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_free(device, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(leases[0]), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), PAGE);
    CU_ASSERT_EQUAL(dao_lease_release(leases[1]), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

static void the_memory_of_a_handle_can_be_retained(void)
{
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, PAGE, NULL, &memory), DAO_OK);
    dao_lease_t *lease = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, dao_memory_address(memory)), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(device, SIZE_MAX, NULL), DAO_OK); /* waits for the handle's free */
    CU_ASSERT_EQUAL(dao_used(device), PAGE);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

static _Atomic bool was_open;

static void look_at_gate(void *user)
{
    dao_gate_t *gate = user;
    dao_mutex_lock(&gate->lock);
    was_open = gate->is_open;
    dao_mutex_unlock(&gate->lock);
}

/* The free was in stream order: after the lease has ended the stream holds the block still. */
static void a_retained_block_keeps_the_order_of_its_free(void)
{
    dao_gate_t gate;
    dao_gate_init(&gate);
    dao_stream_t *stream, *other;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &other), DAO_OK);
    void *weights = dao_alloc_async(device, CAPACITY_BYTES, stream);
    CU_ASSERT_PTR_NOT_NULL_FATAL(weights);
    dao_lease_t *lease = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_host_func(stream, dao_gate_wait, &gate), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(device, weights, stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    CU_ASSERT_PTR_EQUAL(dao_alloc_async(device, CAPACITY_BYTES, other), weights);
    CU_ASSERT_EQUAL(dao_stream_host_func(other, look_at_gate, &gate), DAO_OK);
    dao_gate_await_reached(&gate);
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_stream_synchronize(other), DAO_OK);
    CU_ASSERT_TRUE(was_open);
    CU_ASSERT_EQUAL(dao_free_async(device, weights, other), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(other), DAO_OK);
    CU_ASSERT_EQUAL(trim_device(), CAPACITY_BYTES);
    dao_stream_destroy(stream);
    dao_stream_destroy(other);
    dao_gate_finish(&gate);
}

static void only_whole_live_blocks_of_the_place_are_retained(void)
{
    char *block = dao_alloc(device, PAGE);
    void *elsewhere = dao_alloc(second_device, PAGE);
    dao_lease_t *lease = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, block + 256), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, elsewhere), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, NULL), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, block), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(stats_of(lease).retained_count, 0);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(second_device, elsewhere), DAO_OK);
}

#define MANY 200

static void many_blocks_are_retained_and_freed_in_any_order(void)
{
    void *blocks[MANY];
    uint64_t state = dao_test_seed("many blocks are retained", 9);
    for (size_t i = 0; i < MANY; i++) {
        blocks[i] = dao_alloc(device, 256 * (1 + i % 7));
    }
    dao_lease_t *leases[2] = {begin_at(device), NULL};
    CU_ASSERT_EQUAL(dao_lease_commit(leases[0]), DAO_OK);
    leases[1] = begin_at(device);
    size_t freed_first = 0;
    for (size_t i = MANY; i-- > 0;) {
        size_t other = dao_test_random(&state) % (i + 1);
        void *block = blocks[other];
        blocks[other] = blocks[i];
        blocks[i] = block;
        CU_ASSERT_EQUAL(dao_lease_retain(leases[i % 2], block), DAO_OK);
        CU_ASSERT_EQUAL(dao_lease_retain(leases[i % 3 == 0 ? 1 : 0], block), DAO_OK);
        if (i % 5 != 0) {
            CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
            freed_first += i % 2 == 0 && i % 3 != 0;
        }
    }
    dao_stats_t stats;
    CU_ASSERT_EQUAL(dao_lease_release(leases[0]), DAO_OK);
    CU_ASSERT_EQUAL(dao_stats_get(device, &stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.live_count, MANY - freed_first);
    CU_ASSERT_EQUAL(dao_lease_cancel(leases[1]), DAO_OK);
    CU_ASSERT_EQUAL(dao_stats_get(device, &stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.live_count, MANY / 5);
    for (size_t i = 0; i < MANY; i += 5) {
        CU_ASSERT_EQUAL(dao_free(device, blocks[i]), DAO_OK);
    }
}

/* ---- failures, threads, the end of the library ---- */

static dao_status_t capture_once(void)
{
    dao_lease_t *lease = NULL;
    dao_status_t status = dao_lease_begin(device, &lease);
    if (status != DAO_OK) {
        return status;
    }
    void *block = dao_alloc(device, PAGE);
    dao_status_t alloc_status = block != NULL ? DAO_OK : dao_last_status();
    status = block != NULL ? dao_lease_retain(lease, block) : alloc_status;
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_OK);
    return status;
}

static void a_capture_survives_every_shortage_of_host_memory(void)
{
    uint64_t fired = 1, failed_count = 0;
    CU_ASSERT_EQUAL(dao_free(device, dao_alloc(device, PAGE)), DAO_OK); /* the device has started */
    for (uint64_t n = 0; fired > 0; n++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = capture_once();
        fired = dao_fault_disarm();
        failed_count += status != DAO_OK;
        CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_NO_HOST_MEMORY);
        CU_ASSERT_EQUAL(dao_used(device), 0);
    }
#if defined(DAO_FAULTS)
    CU_ASSERT_TRUE(failed_count > 4);
#endif
}

typedef struct worker {
    uint64_t seed;
    dao_lease_t *shared; /* all enter it */
    uint32_t lost_count; /* blocks whose bytes somebody else has written */
} worker_t;

static void capture_and_run(worker_t *worker, char value)
{
    dao_lease_t *lease = NULL;
    if (dao_lease_begin(device, &lease) != DAO_OK) {
        return; /* each thread has one, the limit is above that */
    }
    char *block = dao_alloc(device, 64 * KIB);
    if (block == NULL) {
        ignore(dao_lease_cancel(lease));
        return;
    }
    ignore(dao_free(device, block));
    if (dao_test_random(&worker->seed) % 4 == 0) {
        ignore(dao_lease_cancel(lease));
        return;
    }
    ignore(dao_lease_commit(lease));
    for (int i = 0; i < 20; i++) {
        memset(block, value, 64 * KIB);
        void *other = dao_alloc(device, dao_test_random(&worker->seed) % PAGE + 1);
        if (other != NULL) {
            memset(other, 0x7f, 1);
            ignore(dao_free(device, other));
        }
        if (i % 8 == 0) {
            ignore(dao_trim(device, 0, NULL));
        }
        worker->lost_count += !has_value(block, value, 64 * KIB);
    }
    ignore(dao_lease_release(lease));
}

static void *capture_often(void *user)
{
    worker_t *worker = user;
    for (char round = 0; round < 15; round++) {
        capture_and_run(worker, round);
        if (dao_lease_enter(worker->shared) == DAO_OK) {
            void *block = dao_alloc(device, 4 * KIB);
            ignore(dao_lease_leave(worker->shared));
            if (block != NULL) {
                ignore(dao_lease_retain(worker->shared, block));
                ignore(dao_free(device, block));
            }
        }
    }
    return NULL;
}

static void threads_capture_beside_each_other(void)
{
    worker_t workers[THREADS];
    dao_thread_t threads[THREADS];
    uint64_t state = dao_test_seed("threads capture beside each other", 3);
    dao_lease_t *shared = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_commit(shared), DAO_OK);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker_t){.seed = dao_test_random(&state), .shared = shared};
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "lease", capture_often, &workers[i]), DAO_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        dao_thread_join(&threads[i]);
        CU_ASSERT_EQUAL(workers[i].lost_count, 0);
    }
    CU_ASSERT_EQUAL(stats_of(shared).live_count,
                    (uint64_t)(15 * THREADS)); /* retained, freed by their owners */
    CU_ASSERT_EQUAL(stats_of(shared).retained_count, (uint64_t)(15 * THREADS));
    CU_ASSERT_EQUAL(dao_lease_release(shared), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

typedef struct stranger {
    dao_lease_t *lease;
    dao_status_t commit, cancel, leave, enter, free;
    void *block;
} stranger_t;

static void *meddle(void *user)
{
    stranger_t *stranger = user;
    stranger->commit = dao_lease_commit(stranger->lease);
    stranger->cancel = dao_lease_cancel(stranger->lease);
    stranger->leave = dao_lease_leave(stranger->lease);
    stranger->enter = dao_lease_enter(stranger->lease);
    stranger->free = dao_free(device, stranger->block);
    stranger->block = dao_alloc(device, PAGE);
    return NULL;
}

static void a_capture_is_its_own_threads(void)
{
    stranger_t stranger = {.lease = begin_at(device)};
    stranger.block = dao_alloc(device, PAGE);
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "meddle", meddle, &stranger), DAO_OK);
    dao_thread_join(&thread);
    CU_ASSERT_EQUAL(stranger.commit, DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(stranger.cancel, DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(stranger.leave, DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(stranger.enter, DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(stranger.free, DAO_OK);                  /* any thread frees a block of the lease */
    CU_ASSERT_EQUAL(stats_of(stranger.lease).live_count, 0); /* and allocates outside of it */
    CU_ASSERT_EQUAL(dao_free(device, stranger.block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_cancel(stranger.lease), DAO_OK);
}

static void a_lease_that_is_left_is_reported_and_breaks_nothing(void)
{
    library_start();
    void *weights = dao_alloc(device, PAGE);
    dao_lease_t *lease = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(lease_lines, 1);
    library_start();
    void *block = dao_alloc(device, PAGE); /* under no lease of this start */
    CU_ASSERT_EQUAL(dao_used(device), PAGE);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 0);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_OK);
    library_stop();
}

static CU_TestInfo arena_tests[] = {
    {"a trim leaves what was freed under a lease", a_trim_leaves_what_was_freed_under_a_lease},
    {"a limit does not shrink a lease", a_limit_does_not_shrink_a_lease},
    {"others fail rather than take the pages of a lease", others_fail_rather_than_take_the_pages_of_a_lease},
    {"a limit is not met by pages of a lease", a_limit_is_not_met_by_pages_of_a_lease},
    {"what is free under a lease is used again by it alone",
     what_is_free_under_a_lease_is_used_again_by_it_alone},
    {"a lease grows by free pages of others", a_lease_grows_by_free_pages_of_others},
    {"a lease takes nothing from another one", a_lease_takes_nothing_from_another_one},
    {"live blocks outlive their lease", live_blocks_outlive_their_lease},
    {"an ended lease makes room once it is empty", an_ended_lease_makes_room_once_it_is_empty},
    {"segments have no leases", segments_have_no_leases},
    {"a lease survives every refusal of the backend", a_lease_survives_every_refusal_of_the_backend},
    {"a lease that could not begin leaves nothing", a_lease_that_could_not_begin_leaves_nothing},
    {"leases keep what a model says", leases_keep_what_a_model_says},
    CU_TEST_INFO_NULL};

static CU_TestInfo library_tests[] = {
    {"a graph finds its addresses as it left them", a_graph_finds_its_addresses_as_it_left_them},
    {"handles and stream order come from the lease", handles_and_stream_order_come_from_the_lease},
    {"a capture given up leaves live blocks", a_capture_given_up_leaves_live_blocks},
    {"a thread is under one lease a place", a_thread_is_under_one_lease_a_place},
    {"what has no leases says so", what_has_no_leases_says_so},
    {"a retained block is freed when its lease ends", a_retained_block_is_freed_when_its_lease_ends},
    {"a retained block that nobody freed stays", a_retained_block_that_nobody_freed_stays},
    {"the last of two leases frees a retained block", the_last_of_two_leases_frees_a_retained_block},
    {"the memory of a handle can be retained", the_memory_of_a_handle_can_be_retained},
    {"a retained block keeps the order of its free", a_retained_block_keeps_the_order_of_its_free},
    {"only whole live blocks of the place are retained", only_whole_live_blocks_of_the_place_are_retained},
    {"many blocks are retained and freed in any order", many_blocks_are_retained_and_freed_in_any_order},
    {"a capture survives every shortage of host memory", a_capture_survives_every_shortage_of_host_memory},
    {"threads capture beside each other", threads_capture_beside_each_other},
    {"a capture is its own thread's", a_capture_is_its_own_threads},
    CU_TEST_INFO_NULL};

static CU_TestInfo end_tests[] = {{"a lease that is left is reported and breaks nothing",
                                   a_lease_that_is_left_is_reported_and_breaks_nothing},
                                  CU_TEST_INFO_NULL};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"lease arenas", NULL, NULL, caching_begin, caching_end, arena_tests},
        {"leases", NULL, NULL, library_start, library_stop, library_tests},
        {"leases that are left", NULL, NULL, NULL, NULL, end_tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}
