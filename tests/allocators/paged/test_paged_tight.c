/* SPDX-License-Identifier: Apache-2.0 */
/* Where a block goes in pages where memory is tight: random requests against a model that tries every place,
   by the fast path and by the one for all that a request may ask for. */
#include "allocators/paged/device_memory.h"
#include "base/numbers/math.h"
#include "tests/support/backends/heap_backend.h"
#include "tests/support/suite.h"

#define PAGE       ((uint64_t)DAO_PAGE_BYTES)
#define UNIT       (PAGE / 16) /* of all sizes */
#define PAGE_COUNT 24u         /* all of the device: nothing more can be taken */
#define STEP_COUNT 20000u
#define BLOCKS_MAX 6u /* so that there are at most as many holes as are looked at */

#define WINDOW_BYTES (4 * PAGE_COUNT * PAGE) /* addresses, of which the first have pages */
#define ANY          UINT64_MAX

typedef struct block {
    uint64_t offset_bytes, size_bytes;
} block_t;

static heap_backend_t *heap;
static dao_allocator_t *allocator;
static char *base;
static block_t blocks[BLOCKS_MAX + 1]; /* by address; the last one stands for the end */
static size_t block_count;

/* All pages are mapped, at the lowest addresses. */
static void tight_begin(void)
{
    heap = heap_backend_create(PAGE_COUNT * PAGE, PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(heap);
    dao_device_memory_config_t config = {
        .name = "device:0", .ops = heap_backend_ops(heap), .device = heap_backend_device(heap)};
    CU_ASSERT_EQUAL_FATAL(dao_device_memory_create(&config, &allocator), DAO_OK);
    void *all = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(allocator, PAGE_COUNT * PAGE, &all), DAO_OK);
    base = all;
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, all), DAO_OK);
    block_count = 0;
}

static void tight_end(void)
{
    allocator->ops->destroy(allocator);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
}

/* Returns the pages of [offset, offset + size) that no block lies in. */
static uint64_t pages_taken(uint64_t offset_bytes, uint64_t size_bytes)
{
    uint64_t count = 0;
    for (uint64_t page = offset_bytes / PAGE; page <= (offset_bytes + size_bytes - 1) / PAGE; page++) {
        bool is_kept = false;
        for (size_t i = 0; i < block_count; i++) {
            is_kept = is_kept || (blocks[i].offset_bytes < (page + 1) * PAGE &&
                                  blocks[i].offset_bytes + blocks[i].size_bytes > page * PAGE);
        }
        count += !is_kept;
    }
    return count;
}

/* Returns the cost of a place at an offset of a hole, UINT64_MAX if the hole or the pages do not have it. */
static uint64_t cost_of(const block_t *hole, uint64_t offset_bytes, uint64_t size_bytes)
{
    uint64_t all_bytes = PAGE_COUNT * PAGE, hole_end_bytes = hole->offset_bytes + hole->size_bytes;
    if (offset_bytes < hole->offset_bytes || offset_bytes + size_bytes > hole_end_bytes ||
        offset_bytes + size_bytes > all_bytes) {
        return UINT64_MAX;
    }
    return offset_bytes + (hole->size_bytes - size_bytes) +
           pages_taken(offset_bytes, size_bytes) * (all_bytes / 16);
}

/* Returns the least cost of the places at both ends of all holes; of those at one offset alone, unless that
   is ANY. */
static uint64_t least_cost(uint64_t size_bytes, uint64_t alignment_bytes, uint64_t at_bytes)
{
    uint64_t least = UINT64_MAX, begin_bytes = 0;
    blocks[block_count] = (block_t){.offset_bytes = WINDOW_BYTES};
    for (size_t i = 0; i <= block_count; i++) {
        block_t hole = {.offset_bytes = begin_bytes, .size_bytes = blocks[i].offset_bytes - begin_bytes};
        begin_bytes = blocks[i].offset_bytes + blocks[i].size_bytes;
        if (hole.size_bytes < size_bytes) {
            continue;
        }
        uint64_t front_bytes = dao_round_up(hole.offset_bytes, alignment_bytes);
        uint64_t back_bytes = (blocks[i].offset_bytes - size_bytes) / alignment_bytes * alignment_bytes;
        if (at_bytes == ANY || at_bytes == front_bytes) {
            least = dao_smaller(least, cost_of(&hole, front_bytes, size_bytes));
        }
        if (at_bytes == ANY || at_bytes == back_bytes) {
            least = dao_smaller(least, cost_of(&hole, back_bytes, size_bytes));
        }
    }
    return least;
}

static void enter(uint64_t offset_bytes, uint64_t size_bytes)
{
    size_t place = block_count++;
    for (; place > 0 && blocks[place - 1].offset_bytes > offset_bytes; place--) {
        blocks[place] = blocks[place - 1];
    }
    blocks[place] = (block_t){.offset_bytes = offset_bytes, .size_bytes = size_bytes};
}

static void leave(size_t place)
{
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, base + blocks[place].offset_bytes), DAO_OK);
    block_count--;
    for (; place < block_count; place++) {
        blocks[place] = blocks[place + 1];
    }
}

/* Takes a block, unless no place has pages. */
static bool take(uint64_t size_bytes, uint64_t alignment_bytes, bool is_fast)
{
    uint64_t least = least_cost(size_bytes, alignment_bytes, ANY);
    if (least == UINT64_MAX) {
        return false;
    }
    dao_block_request_t request = {.size_bytes = size_bytes, .alignment_bytes = alignment_bytes};
    dao_block_grant_t grant = {0};
    if (is_fast) {
        grant.address = allocator->ops->alloc_fast(allocator, size_bytes);
    } else {
        CU_ASSERT_EQUAL(allocator->ops->alloc(allocator, &request, &grant), DAO_OK);
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(grant.address);
    uint64_t offset_bytes = (uint64_t)((char *)grant.address - base);
    CU_ASSERT_EQUAL_FATAL(least_cost(size_bytes, alignment_bytes, offset_bytes), least);
    enter(offset_bytes, size_bytes);
    return true;
}

static void a_block_goes_to_a_place_of_the_least_cost(void)
{
    uint64_t random = dao_test_seed("a_block_goes_to_a_place_of_the_least_cost", 22);
    uint64_t calls = heap_backend_calls(heap, HEAP_CALL_COUNT);
    size_t fast_count = 0, aligned_count = 0;
    for (size_t step = 0; step < STEP_COUNT; step++) {
        uint64_t choice = dao_random_next(&random);
        if (block_count == BLOCKS_MAX || (block_count > 0 && choice % 5 == 0)) {
            leave((size_t)(choice >> 8) % block_count);
            continue;
        }
        uint64_t size_bytes = (1 + (choice >> 8) % (6u << (choice >> 16) % 5)) * UNIT;
        bool is_aligned = (choice >> 32) % 4 == 0, is_fast = !is_aligned && (choice >> 32) % 2 == 0;
        bool is_taken =
            take(size_bytes, is_aligned ? UNIT << (choice >> 40) % 5 : DAO_RANGE_GRANULE, is_fast);
        fast_count += is_taken && is_fast;
        aligned_count += is_taken && is_aligned;
    }
    CU_ASSERT_TRUE(fast_count > STEP_COUNT / 10 && aligned_count > STEP_COUNT / 20);
    CU_ASSERT_EQUAL(heap_backend_calls(heap, HEAP_CALL_COUNT), calls);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    while (block_count > 0) {
        leave(0);
    }
}

/* What the fast path cannot do is done in every other way. */
static void sizes_that_no_block_has_are_refused(void)
{
    CU_ASSERT_PTR_NULL(allocator->ops->alloc_fast(allocator, SIZE_MAX));
    CU_ASSERT_PTR_NULL(allocator->ops->alloc_fast(allocator, PAGE_COUNT * PAGE + 1));
    void *all = allocator->ops->alloc_fast(allocator, PAGE_COUNT * PAGE);
    CU_ASSERT_PTR_EQUAL(all, base);
    CU_ASSERT_PTR_NULL(allocator->ops->alloc_fast(allocator, 1));
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, all), DAO_OK);
}

static CU_TestInfo tests[] = {
    {"a block goes to a place of the least cost", a_block_goes_to_a_place_of_the_least_cost},
    {"sizes that no block has are refused", sizes_that_no_block_has_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"pages where memory is tight", NULL, NULL, tight_begin, tight_end, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
