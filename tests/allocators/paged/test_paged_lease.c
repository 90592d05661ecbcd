/* SPDX-License-Identifier: Apache-2.0 */
/* Leases of device memory in pages, on a device that watches what is unmapped, and against a model. */
#include "allocators/paged/device_memory.h"
#include "allocators/paged/paged.h"
#include "allocators/pages/page_buddy.h"
#include "base/report/fault.h"
#include "tests/support/backends/heap_backend.h"
#include "tests/support/suite.h"

#include <string.h>

#define PAGE           ((size_t)DAO_PAGE_BYTES)
#define CAPACITY_BYTES (64 * MIB)
#define PAGE_COUNT     ((size_t)(CAPACITY_BYTES / DAO_PAGE_BYTES))

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

static void device_memory_begin(void)
{
    heap = heap_backend_create(CAPACITY_BYTES, PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(heap);
    table = *heap_backend_ops(heap);
    table.pages_unmap = watched_unmap;
    kept_count = 0;
    broken_count = 0;
    dao_device_memory_config_t config = {
        .ops = &table, .device = heap_backend_device(heap), .name = "device:0"};
    CU_ASSERT_EQUAL_FATAL(dao_device_memory_create(&config, &allocator), DAO_OK);
}

static void device_memory_end(void)
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
    char held[64];
    (void)snprintf(held, sizeof(held), "leases keep %zu bytes in pages of %zu", (size_t)(3 * PAGE),
                   (size_t)PAGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), held));
    lease_end(lease);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 2 * PAGE), DAO_OK);
    CU_ASSERT_EQUAL(reserved(), 2 * PAGE);
    void *block = take(0, PAGE + 1);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, PAGE), DAO_ERR_LIMIT);
    (void)snprintf(held, sizeof(held), "live blocks of %zu bytes", (size_t)(PAGE + 256));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), held));
    CU_ASSERT_EQUAL(reserved(), 2 * PAGE); /* all is as before */
    give(block);
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

/* A window, which a place has beside its leases, takes none of them. */
static void an_ended_lease_makes_room_once_it_is_empty(void)
{
    dao_window_t window, none;
    CU_ASSERT_EQUAL(allocator->ops->window_begin(allocator, &window), DAO_OK);
    CU_ASSERT_EQUAL(allocator->ops->window_begin(allocator, &none), DAO_ERR_TOO_MANY);
    uint32_t leases[DAO_PAGED_LEASE_MAX], more = 0;
    void *blocks[DAO_PAGED_LEASE_MAX];
    for (size_t i = 0; i < DAO_PAGED_LEASE_MAX; i++) {
        leases[i] = lease_begin();
        blocks[i] = take(leases[i], PAGE);
    }
    CU_ASSERT_EQUAL(allocator->ops->lease_begin(allocator, &more), DAO_ERR_TOO_MANY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "release leases"));
    lease_end(leases[3]);
    CU_ASSERT_EQUAL(allocator->ops->lease_begin(allocator, &more), DAO_ERR_TOO_MANY); /* its block is live */
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
    dao_device_memory_config_t config = {
        .ops = heap_backend_ops(plain), .device = heap_backend_device(plain), .name = "device:1"};
    dao_allocator_t *segmented;
    CU_ASSERT_EQUAL_FATAL(dao_device_memory_create(&config, &segmented), DAO_OK);
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
    uint64_t pick = dao_random_next(&model->state) % 5;
    block->lease = pick < 3 ? model->leases[pick] : 0;
    block->size_bytes =
        dao_random_next(&model->state) % (dao_random_next(&model->state) % 4 == 0 ? 8 * PAGE : PAGE) + 1;
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
        uint64_t what = dao_random_next(&model.state) % 100;
        model_block_t *block = &model.blocks[dao_random_next(&model.state) % MODEL_BLOCKS];
        if (what < 2) {
            model_lease(&model, &model.leases[dao_random_next(&model.state) % 3]);
        } else if (what < 4) {
            (void)trim();
        } else if (what < 6) {
            ignore(allocator->ops->limit_set(allocator, (dao_random_next(&model.state) % PAGE_COUNT) * PAGE));
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

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"leases of pages", NULL, NULL, device_memory_begin, device_memory_end, arena_tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}
