/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory with and without page mapping: the contract on both, and what is each one's own. */
#include "allocators/paged/device_memory.h"
#include "allocators/pages/page_buddy.h"
#include "base/report/fault.h"
#include "tests/contract/allocator_contract.h"
#include "tests/support/backends/heap_backend.h"

#include <string.h>

#define CAPACITY_BYTES (256 * MIB)
#define PAGE           ((size_t)DAO_PAGE_BYTES)

static heap_backend_t *heap;
static dao_allocator_t *allocator;
static dao_device_memory_config_t device_memory_config = {.name = "device:0"};

/* ---- the contract, on both ---- */

static dao_status_t create_on(uint64_t page_bytes, dao_allocator_t **out_allocator)
{
    heap = heap_backend_create(CAPACITY_BYTES, page_bytes);
    if (heap == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    device_memory_config.ops = heap_backend_ops(heap);
    device_memory_config.device = heap_backend_device(heap);
    dao_status_t status = dao_device_memory_create(&device_memory_config, out_allocator);
    if (status != DAO_OK) {
        CU_ASSERT_TRUE(heap_backend_destroy(heap));
    }
    return status;
}

static dao_status_t paged_create(dao_allocator_t **out_allocator)
{
    return create_on(64 * KIB, out_allocator); /* smaller than ours: put together to 2 MiB */
}

static dao_status_t segmented_create(dao_allocator_t **out_allocator)
{
    return create_on(0, out_allocator);
}

static void device_destroy(dao_allocator_t *caching)
{
    caching->ops->destroy(caching);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
}

static const allocator_contract_t paged_contract = {
    .create = paged_create, .destroy = device_destroy, .alignment_bytes = 256};
static const allocator_contract_t segmented_contract = {
    .create = segmented_create, .destroy = device_destroy, .alignment_bytes = 256};

static void paged_contract_begin(void)
{
    allocator_contract_begin_on(&paged_contract);
}

static void segmented_contract_begin(void)
{
    allocator_contract_begin_on(&segmented_contract);
}

/* ---- helpers ---- */

static void paged_begin(void)
{
    CU_ASSERT_EQUAL_FATAL(paged_create(&allocator), DAO_OK);
}

static void segmented_begin(void)
{
    CU_ASSERT_EQUAL_FATAL(segmented_create(&allocator), DAO_OK);
}

static void end(void)
{
    device_destroy(allocator);
}

static dao_stats_t stats_now(void)
{
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.reserved_bytes, heap_backend_device_bytes(heap));
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    return stats;
}

static dao_status_t try_take(size_t size_bytes, void **out_address)
{
    dao_status_t status = dao_allocator_alloc(allocator, size_bytes, out_address);
    (void)stats_now();
    return status;
}

static void *take(size_t size_bytes)
{
    void *address = NULL;
    CU_ASSERT_EQUAL(try_take(size_bytes, &address), DAO_OK);
    return address;
}

static void give(void *address)
{
    uint64_t calls = heap_backend_calls(heap, HEAP_CALL_COUNT);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
    CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_COUNT), calls); /* free never asks the backend */
    (void)stats_now();
}

static size_t trim(size_t keep_bytes)
{
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, keep_bytes, &released_bytes), DAO_OK);
    (void)stats_now();
    return released_bytes;
}

/* ---- with page mapping ---- */

static void growth_takes_just_the_pages_that_are_missing(void)
{
    void *first = take(1);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, PAGE);
    void *second = take(PAGE);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 2 * PAGE);
    void *third = take(13 * PAGE);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 15 * PAGE);
    CU_ASSERT_EQUAL(stats_now().grow_count, 3);
    CU_ASSERT_EQUAL(stats_now().grow_pieces_count, 0); /* of pages in use a little is idle, not enough */
    give(first);
    give(second);
    uint64_t slow_count = stats_now().slow_count;
    CU_ASSERT_EQUAL(allocator->ops->free_fast(allocator, third), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().slow_count, slow_count);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 15 * PAGE);
}

static void a_page_is_given_back_when_nothing_lives_in_it(void)
{
    void *blocks[6];
    for (size_t i = 0; i < 6; i++) {
        blocks[i] = take(PAGE / 2);
    }
    give(blocks[2]);
    CU_ASSERT_EQUAL(trim(0), 0); /* its other half lives */
    give(blocks[3]);
    CU_ASSERT_EQUAL(trim(0), PAGE);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 2 * PAGE);
    void *again = take(PAGE);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 3 * PAGE);
    give(again);
    for (size_t i = 0; i < 6; i++) {
        if (i / 2 != 1) {
            give(blocks[i]);
        }
    }
    CU_ASSERT_EQUAL(trim(PAGE + 1), 2 * PAGE);
    CU_ASSERT_EQUAL(trim(0), PAGE);
}

/* Eight blocks of a page each, of which every second one is freed. */
static void take_every_second_page(void *blocks[8])
{
    for (size_t i = 0; i < 8; i++) {
        blocks[i] = take(PAGE);
    }
    for (size_t i = 0; i < 8; i += 2) {
        give(blocks[i]);
    }
    CU_ASSERT_EQUAL(stats_now().largest_hole_bytes, PAGE);
}

static void give_every_second_page(void *blocks[8])
{
    for (size_t i = 1; i < 8; i += 2) {
        give(blocks[i]);
    }
}

static void new_pages_are_taken_before_free_ones_are_moved(void)
{
    void *blocks[8];
    take_every_second_page(blocks);
    void *wide = take(4 * PAGE);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 12 * PAGE);
    CU_ASSERT_EQUAL(stats_now().remap_count, 0);
    CU_ASSERT_EQUAL(stats_now().grow_pieces_count, 1);
    CU_ASSERT_EQUAL(stats_now().miss_count, 9);
    give(wide);
    give_every_second_page(blocks);
}

static void as_many_pages_are_moved_as_cannot_be_taken(void)
{
    void *blocks[8];
    take_every_second_page(blocks);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 10 * PAGE), DAO_OK);
    void *wide = take(4 * PAGE);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 10 * PAGE);
    CU_ASSERT_EQUAL(stats_now().remap_count, 2);
    void *more = take(2 * PAGE);
    CU_ASSERT_EQUAL(stats_now().remap_count, 4);
    CU_ASSERT_EQUAL(stats_now().remap_limit_count, 4);
    CU_ASSERT_EQUAL(stats_now().remap_device_count, 0);
    give(wide);
    give(more);
    give_every_second_page(blocks);
}

static void a_block_goes_where_the_fewest_pages_are_missing(void)
{
    void *low = take(2 * PAGE), *wall = take(PAGE), *high = take(3 * PAGE), *end_wall = take(PAGE);
    give(low);
    CU_ASSERT_EQUAL(trim(0), 2 * PAGE);
    give(high);
    uint64_t calls = heap_backend_calls(heap, HEAP_CALL_COUNT);
    CU_ASSERT_PTR_EQUAL(take(2 * PAGE), high); /* not to the hole of just its size, which has no pages now */
    CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_COUNT), calls);
    give(high);
    give(wall);
    give(end_wall);
}

static void a_better_place_is_aligned_too(void)
{
    void *low = take(2 * PAGE), *wall = take(256), *high = take(3 * PAGE), *end_wall = take(256);
    give(low);
    CU_ASSERT_EQUAL(trim(0), 2 * PAGE);
    give(high);
    dao_block_request_t request = {.size_bytes = PAGE, .alignment_bytes = 4 * KIB};
    dao_block_grant_t grant;
    CU_ASSERT_EQUAL(allocator->ops->alloc(allocator, &request, &grant), DAO_OK);
    CU_ASSERT_EQUAL((uintptr_t)grant.address % (4 * KIB), 0);
    CU_ASSERT_TRUE((char *)grant.address > (char *)wall); /* where the pages are */
    give(grant.address);
    give(wall);
    give(end_wall);
}

/* A limit that leaves little to be taken keeps small blocks out of free pages, as far as others are not much
   higher. */
static void where_memory_is_tight_small_blocks_leave_pages_free(void)
{
    enum { PLACE_PAGES = 64 };
    void *low = take(PAGE), *wall = take(PAGE + PAGE / 2), *high = take(PAGE / 2 + PAGE);
    void *rest = take((PLACE_PAGES - 4) * PAGE);
    give(low);
    give(high);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, PLACE_PAGES * PAGE), DAO_OK);
    CU_ASSERT_PTR_EQUAL(take(PAGE / 4), high); /* beside what lives in its page */
    CU_ASSERT_PTR_EQUAL(take(PAGE), low);
    give(high);
    give(low);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 2 * PLACE_PAGES * PAGE), DAO_OK);
    CU_ASSERT_PTR_EQUAL(take(PAGE / 4), low);
    give(low);
    give(wall);
    give(rest);
}

/* The first place that is tried begins in a page that is missing, and covers half of those that are not. */
static void a_better_place_may_overlap_the_first(void)
{
    void *low = take(PAGE), *middle = take(PAGE + PAGE / 2),
         *rest = take(CAPACITY_BYTES - 2 * PAGE - PAGE / 2);
    give(low);
    CU_ASSERT_EQUAL(trim(0), PAGE);
    heap_backend_take_bytes(heap, PAGE);
    give(middle);
    CU_ASSERT_EQUAL(stats_now().largest_hole_bytes, PAGE + PAGE / 2);
    CU_ASSERT_PTR_EQUAL(take(PAGE + PAGE / 2), middle);
    give(middle);
    give(rest);
    heap_backend_take_bytes(heap, 0);
}

/* ---- a random test: a block is refused only where no place would do ---- */

#define MODEL_PAGES  12u /* of the place's limit */
#define MODEL_UNIT   (PAGE / 8)
#define MODEL_UNITS  (8u * 4u * MODEL_PAGES) /* addresses that blocks lie in */
#define MODEL_BLOCKS 48u
#define MODEL_STEPS  4000u

typedef struct model_block {
    char *address; /* NULL: none */
    size_t unit_count;
} model_block_t;

static char *model_base;
static bool model_is_used[MODEL_UNITS];

static void model_mark(const model_block_t *block, bool is_used)
{
    size_t first = (size_t)(block->address - model_base) / MODEL_UNIT;
    CU_ASSERT_FATAL(first + block->unit_count <= MODEL_UNITS);
    for (size_t unit = first; unit < first + block->unit_count; unit++) {
        CU_ASSERT_NOT_EQUAL(model_is_used[unit], is_used);
        model_is_used[unit] = is_used;
    }
}

/* Returns the number of pages that something lives in, with a block of unit_count from `first` on; SIZE_MAX:
   it is in the way. */
static size_t model_pages_with(size_t first, size_t unit_count)
{
    size_t page_count = 0;
    for (size_t page = 0; page < MODEL_UNITS / 8; page++) {
        bool is_touched = false;
        for (size_t unit = page * 8; unit < (page + 1) * 8; unit++) {
            bool is_own = unit >= first && unit < first + unit_count;
            if (is_own && model_is_used[unit]) {
                return SIZE_MAX;
            }
            is_touched = is_touched || is_own || model_is_used[unit];
        }
        page_count += is_touched;
    }
    return page_count;
}

static bool model_has_place(size_t unit_count)
{
    for (size_t first = 0; first + unit_count <= MODEL_UNITS; first++) {
        if (model_pages_with(first, unit_count) <= MODEL_PAGES) {
            return true;
        }
    }
    return false;
}

static void a_block_is_refused_only_where_no_place_would_do(void)
{
    uint64_t state = dao_test_seed("a_block_is_refused_only_where_no_place_would_do", 81);
    static model_block_t blocks[MODEL_BLOCKS];
    size_t refused_count = 0;
    give(model_base = take(1));
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, MODEL_PAGES * PAGE), DAO_OK);
    for (size_t step = 0; step < MODEL_STEPS; step++) {
        model_block_t *block = &blocks[dao_random_next(&state) % MODEL_BLOCKS];
        if (block->address != NULL) {
            model_mark(block, false);
            give(block->address);
            block->address = NULL;
            continue;
        }
        block->unit_count = dao_random_next(&state) % (dao_random_next(&state) % 4 == 0 ? 32 : 7) + 1;
        void *address = NULL;
        if (try_take(block->unit_count * MODEL_UNIT, &address) == DAO_OK) {
            block->address = address;
            model_mark(block, true);
            CU_ASSERT_TRUE(model_pages_with(0, 0) <= MODEL_PAGES);
        } else {
            refused_count++;
            CU_ASSERT_FALSE(model_has_place(block->unit_count));
        }
    }
    CU_ASSERT_TRUE(refused_count > 0);
    for (size_t i = 0; i < MODEL_BLOCKS; i++) {
        if (blocks[i].address != NULL) {
            model_mark(&blocks[i], false);
            give(blocks[i].address);
            blocks[i].address = NULL;
        }
    }
}

static void all_of_the_device_can_be_used(void)
{
    enum { COUNT = CAPACITY_BYTES / PAGE };
    static void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = take(PAGE);
    }
    void *address = NULL;
    CU_ASSERT_EQUAL(try_take(1, &address), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:0: 1 bytes asked for"));
    for (size_t i = 0; i < COUNT; i += 2) {
        give(blocks[i]);
    }
    void *half = take(CAPACITY_BYTES / 2); /* no two free pages are neighbours */
    CU_ASSERT_EQUAL(stats_now().remap_count, COUNT / 2);
    CU_ASSERT_EQUAL(stats_now().remap_device_count, COUNT / 2);
    CU_ASSERT_EQUAL(stats_now().remap_limit_count, 0);
    give(half);
    for (size_t i = 1; i < COUNT; i += 2) {
        give(blocks[i]);
    }
    give(take(CAPACITY_BYTES));
}

/* A program that repeats itself: blocks of a step whose pages are wanted at two places in turn. */
static void run_step(void)
{
    void *low = take(20 * PAGE), *wall = take(5 * PAGE);
    give(low);
    void *wide = take(24 * PAGE);
    void *many[10];
    for (size_t i = 0; i < 10; i++) {
        many[i] = take(100 * KIB * (i + 1));
    }
    give(wall);
    give(wide);
    for (size_t i = 0; i < 10; i++) {
        give(many[i]);
    }
}

static void a_steady_program_makes_no_backend_calls(void)
{
    for (size_t i = 0; i < 12; i++) {
        run_step();
    }
    uint64_t calls = heap_backend_calls(heap, HEAP_CALL_COUNT);
    for (size_t i = 0; i < 12; i++) {
        run_step();
    }
    CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_COUNT), calls);
}

static void a_limit_is_met_by_moving_pages(void)
{
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 25 * PAGE + 5), DAO_OK);
    for (size_t i = 0; i < 8; i++) {
        void *low = take(20 * PAGE), *wall = take(5 * PAGE);
        give(low);
        void *wide = take(19 * PAGE + 1);
        CU_ASSERT_EQUAL(stats_now().reserved_bytes, 25 * PAGE);
        void *address = NULL;
        CU_ASSERT_EQUAL(try_take(PAGE, &address), DAO_ERR_LIMIT);
        give(wall);
        give(wide);
    }
}

/* Fails every backend call in turn while pages are moved and created for one block. */
static dao_status_t grow_and_move(heap_call_t call, uint64_t n, uint64_t *fired)
{
    void *blocks[6];
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 10 * PAGE), DAO_OK);
    for (size_t i = 0; i < 6; i++) {
        blocks[i] = take(PAGE);
    }
    give(blocks[0]);
    give(blocks[2]);
    give(blocks[4]);
    dao_stats_t before = stats_now();
    heap_backend_fail(heap, call, n, false);
    void *wide = NULL;
    dao_status_t status = try_take(7 * PAGE, &wide);
    *fired = heap_backend_heal(heap);
    if (status != DAO_OK) {
        dao_stats_t after = stats_now();
        before.failed_count++;
        before.grow_count =
            after.grow_count; /* a page that could not be given back at once has been counted */
        before.driver_call_count = after.driver_call_count;
        CU_ASSERT_EQUAL(memcmp(&before, &after, sizeof(after)), 0);
    } else {
        give(wide);
    }
    wide = take(7 * PAGE);
    CU_ASSERT_TRUE(stats_now().reserved_bytes <= 10 * PAGE);
    give(wide);
    give(blocks[1]);
    give(blocks[3]);
    give(blocks[5]);
    CU_ASSERT_EQUAL(trim(0), 10 * PAGE);
    return status;
}

static void a_failure_in_the_middle_of_growth_is_undone(void)
{
    static const heap_call_t calls[] = {HEAP_CALL_PAGES_CREATE, HEAP_CALL_PAGES_MAP, HEAP_CALL_PAGES_UNMAP,
                                        HEAP_CALL_COUNT};
    for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
        uint64_t fired = 1;
        for (uint64_t n = 0; fired > 0 && n < 100; n++) {
            dao_status_t status = grow_and_move(calls[k], n, &fired);
            CU_ASSERT_EQUAL(status == DAO_OK, fired == 0);
            CU_ASSERT_TRUE(status == DAO_OK || dao_last_vendor_code() == 77);
        }
        CU_ASSERT_EQUAL(fired, 0);
    }
}

/* Even the undoing fails: nothing is lost, and all is of use once the backend works again. */
static void a_backend_that_fails_for_good_loses_nothing(void)
{
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 10 * PAGE), DAO_OK);
    for (uint64_t n = 0; n < 20; n++) {
        void *blocks[6];
        for (size_t i = 0; i < 6; i++) {
            blocks[i] = take(PAGE);
        }
        for (size_t i = 0; i < 6; i += 2) {
            give(blocks[i]);
        }
        void *wide = NULL;
        heap_backend_fail(heap, HEAP_CALL_COUNT, n, true);
        dao_status_t status = try_take(7 * PAGE, &wide);
        (void)heap_backend_heal(heap);
        CU_ASSERT_TRUE(stats_now().reserved_bytes <= 10 * PAGE);
        wide = status == DAO_OK ? wide : take(7 * PAGE);
        give(wide);
        for (size_t i = 1; i < 6; i += 2) {
            give(blocks[i]);
        }
        (void)trim(0);
        CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
    }
}

static void a_device_that_others_fill_gives_way_to_moving(void)
{
    void *low = take(4 * PAGE), *wall = take(PAGE), *high = take(4 * PAGE);
    heap_backend_take_bytes(heap, CAPACITY_BYTES - 9 * PAGE);
    give(low);
    give(high);
    void *address = NULL;
    CU_ASSERT_EQUAL(try_take(9 * PAGE, &address), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 9 * PAGE);
    give(take(8 * PAGE));
    CU_ASSERT_TRUE(stats_now().remap_device_count > 0);
    CU_ASSERT_EQUAL(stats_now().remap_device_count, stats_now().remap_count);
    give(wall);
}

static void a_refused_trim_says_so_and_keeps_the_rest(void)
{
    give(take(8 * PAGE));
    heap_backend_fail(heap, HEAP_CALL_PAGES_DESTROY, 3, false);
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_ERR_BACKEND);
    CU_ASSERT_EQUAL(released_bytes, 3 * PAGE);
    (void)heap_backend_heal(heap);
    CU_ASSERT_EQUAL(trim(0), 5 * PAGE);
}

/* ---- without page mapping ---- */

static void segments_have_a_usual_size_and_are_shared(void)
{
    void *blocks[20];
    for (size_t i = 0; i < 20; i++) {
        blocks[i] = take(1 * MIB);
    }
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 20 * MIB);
    CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_MEMORY_ALLOC), 1);
    void *large = take(33 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 54 * MIB);
    give(large);
    for (size_t i = 0; i < 20; i++) {
        give(blocks[i]);
    }
    CU_ASSERT_EQUAL(trim(20 * MIB), 34 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 20 * MIB);
}

static void a_segment_shrinks_to_what_can_be_had(void)
{
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 3 * MIB), DAO_OK);
    void *first = take(1 * MIB);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 3 * MIB);
    give(first);
    CU_ASSERT_EQUAL(trim(0), 3 * MIB);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 0), DAO_OK);
    heap_backend_take_bytes(heap, CAPACITY_BYTES - 1 * MIB);
    give(take(1 * MIB));
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 1 * MIB);
}

static void free_segments_are_given_back_before_an_error(void)
{
    heap_backend_take_bytes(heap, CAPACITY_BYTES - 64 * MIB);
    void *stays = take(18 * MIB), *goes = take(30 * MIB);
    give(goes);
    void *large = take(40 * MIB);
    CU_ASSERT_EQUAL(stats_now().shrink_count, 1);
    void *address = NULL;
    CU_ASSERT_EQUAL(try_take(10 * MIB, &address), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(dao_last_vendor_code(), 77);
    give(large);
    give(stays);
}

static void steady_segments_make_no_backend_calls(void)
{
    run_step();
    uint64_t calls = heap_backend_calls(heap, HEAP_CALL_COUNT);
    for (size_t i = 0; i < 10; i++) {
        run_step();
    }
    CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_COUNT), calls);
}

/* ---- what a config says ---- */

static void config_end(void)
{
    device_memory_config = (dao_device_memory_config_t){.name = "device:0"};
}

static void the_first_memory_is_taken_at_once(void)
{
    for (size_t paged = 0; paged < 2; paged++) {
        device_memory_config.initial_bytes = 40 * MIB;
        CU_ASSERT_EQUAL_FATAL(create_on(paged ? PAGE : 0, &allocator), DAO_OK);
        dao_stats_t stats = stats_now();
        CU_ASSERT_EQUAL(stats.reserved_bytes, 40 * MIB);
        CU_ASSERT_EQUAL(stats.largest_hole_bytes, 40 * MIB);
        CU_ASSERT_EQUAL(stats.grow_count, 1);
        CU_ASSERT_EQUAL(stats.alloc_count, 0);
        uint64_t calls = heap_backend_calls(heap, HEAP_CALL_COUNT);
        give(take(40 * MIB));
        CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_COUNT), calls);
        CU_ASSERT_EQUAL(trim(0), 40 * MIB);
        device_destroy(allocator);
    }
}

static void first_memory_that_cannot_be_had_is_an_error(void)
{
    for (size_t paged = 0; paged < 2; paged++) {
        dao_allocator_t *none = NULL;
        device_memory_config.initial_bytes = CAPACITY_BYTES + 1;
        CU_ASSERT_EQUAL(create_on(paged ? PAGE : 0, &none), DAO_ERR_NO_DEVICE_MEMORY);
        device_memory_config.limit_bytes = 8 * MIB;
        device_memory_config.initial_bytes = 9 * MIB;
        CU_ASSERT_EQUAL(create_on(paged ? PAGE : 0, &none), DAO_ERR_LIMIT);
        device_memory_config.initial_bytes = 8 * MIB;
        CU_ASSERT_EQUAL_FATAL(create_on(paged ? PAGE : 0, &allocator), DAO_OK);
        CU_ASSERT_EQUAL(stats_now().limit_bytes, 8 * MIB);
        CU_ASSERT_EQUAL(try_take(8 * MIB + 1, &(void *){NULL}), DAO_ERR_LIMIT);
        device_destroy(allocator);
        device_memory_config.limit_bytes = 0;
    }
}

static void pages_can_be_left_unused(void)
{
    device_memory_config.no_page_mapping = true;
    device_memory_config.segment_bytes = 6 * MIB;
    CU_ASSERT_EQUAL_FATAL(create_on(PAGE, &allocator), DAO_OK);
    give(take(1 * MIB));
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 6 * MIB);
    CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_COUNT), 1);
    CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_MEMORY_ALLOC), 1);
    device_destroy(allocator);
}

/* Two holes of one bin: the lower one is a little too large, the other just right. */
static void best_fit_takes_the_smallest_hole_that_fits(void)
{
    for (size_t i = 0; i < 4; i++) {
        bool is_best = i / 2 != 0;
        device_memory_config.fit = is_best ? DAO_RANGE_FIT_BEST : DAO_RANGE_FIT_GOOD;
        CU_ASSERT_EQUAL_FATAL(create_on(i % 2 != 0 ? PAGE : 0, &allocator), DAO_OK);
        void *loose = take(2 * MIB + 16 * KIB);
        (void)take(256);
        void *tight = take(2 * MIB);
        (void)take(256);
        give(loose);
        give(tight);
        CU_ASSERT_PTR_EQUAL(take(2 * MIB), is_best ? tight : loose);
        device_destroy(allocator);
    }
}

static CU_TestInfo config_tests[] = {
    {"best fit takes the smallest hole that fits", best_fit_takes_the_smallest_hole_that_fits},
    {"the first memory is taken at once", the_first_memory_is_taken_at_once},
    {"first memory that cannot be had is an error", first_memory_that_cannot_be_had_is_an_error},
    {"pages can be left unused", pages_can_be_left_unused},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo paged_tests[] = {
    {"growth takes just the pages that are missing", growth_takes_just_the_pages_that_are_missing},
    {"a page is given back when nothing lives in it", a_page_is_given_back_when_nothing_lives_in_it},
    {"new pages are taken before free ones are moved", new_pages_are_taken_before_free_ones_are_moved},
    {"as many pages are moved as cannot be taken", as_many_pages_are_moved_as_cannot_be_taken},
    {"a block goes where the fewest pages are missing", a_block_goes_where_the_fewest_pages_are_missing},
    {"a better place is aligned, too", a_better_place_is_aligned_too},
    {"where memory is tight small blocks leave pages free",
     where_memory_is_tight_small_blocks_leave_pages_free},
    {"a better place may overlap the first", a_better_place_may_overlap_the_first},
    {"a block is refused only where no place would do", a_block_is_refused_only_where_no_place_would_do},
    {"all of the device can be used", all_of_the_device_can_be_used},
    {"a steady program makes no backend calls", a_steady_program_makes_no_backend_calls},
    {"a limit is met by moving pages", a_limit_is_met_by_moving_pages},
    {"a failure in the middle of growth is undone", a_failure_in_the_middle_of_growth_is_undone},
    {"a backend that fails for good loses nothing", a_backend_that_fails_for_good_loses_nothing},
    {"a device that others fill gives way to moving", a_device_that_others_fill_gives_way_to_moving},
    {"a refused trim says so and keeps the rest", a_refused_trim_says_so_and_keeps_the_rest},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo segmented_tests[] = {
    {"segments have a usual size and are shared", segments_have_a_usual_size_and_are_shared},
    {"a segment shrinks to what can be had", a_segment_shrinks_to_what_can_be_had},
    {"free segments are given back before an error", free_segments_are_given_back_before_an_error},
    {"steady segments make no backend calls", steady_segments_make_no_backend_calls},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"caching, its config", NULL, NULL, NULL, config_end, config_tests},
                             {"caching with pages, contract", NULL, NULL, paged_contract_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"caching with pages", NULL, NULL, paged_begin, end, paged_tests},
                             {"caching with segments, contract", NULL, NULL, segmented_contract_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"caching with segments", NULL, NULL, segmented_begin, end, segmented_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
