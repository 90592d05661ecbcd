/* SPDX-License-Identifier: Apache-2.0 */
/* step plans, the allocator: the contract in front of other allocators, what happens to requests that
   keep to the plan and to those that do not, and that no two blocks ever share a byte. */
#include "allocators/paged/device_memory.h"
#include "allocators/paged/page_buddy.h"
#include "allocators/segments/host.h"
#include "allocators/slab/thread_cache.h"
#include "allocators/step_plan/planned.h"
#include "allocators/step_plan/planned_internal.h"
#include "base/report/fault.h"
#include "tests/contract/allocator_contract.h"
#include "tests/support/backends/heap_backend.h"
#include "tests/support/sanitizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_BYTES (256 * MIB)

static heap_backend_t *heap;
static dao_allocator_t *allocator;

/* ---- make ---- */

static dao_status_t stack(const dao_step_plan_config_t *step_plan, dao_allocator_t *inner,
                          dao_allocator_t **out_allocator)
{
    dao_planned_config_t config = {.name = "device:0", .step_plan = *step_plan};
    dao_status_t status = dao_planned_create(&config, inner, out_allocator);
    if (status != DAO_OK) {
        inner->ops->destroy(inner);
    }
    return status;
}

/* In front of slabs over device memory. */
static dao_status_t device_create(const dao_step_plan_config_t *step_plan, uint64_t device_page_bytes,
                                  dao_allocator_t **out_allocator)
{
    heap = heap_backend_create(CAPACITY_BYTES, device_page_bytes);
    if (heap == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_allocator_t *inner, *slab;
    dao_device_memory_config_t caching = {
        .ops = heap_backend_ops(heap), .device = heap_backend_device(heap), .name = "device:0"};
    dao_status_t status = dao_device_memory_create(&caching, &inner);
    if (status == DAO_OK && (status = dao_thread_cache_create(inner, "device:0", 0, &slab)) != DAO_OK) {
        inner->ops->destroy(inner);
    }
    if (status == DAO_OK) {
        status = stack(step_plan, slab, out_allocator);
    }
    if (status != DAO_OK) {
        CU_ASSERT_TRUE(heap_backend_destroy(heap));
    }
    return status;
}

static void device_destroy(dao_allocator_t *planned)
{
    planned->ops->destroy(planned);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
}

static const dao_step_plan_config_t small_offsets = {
    .mode = DAO_STEP_PLAN_OFFSETS, .allocation_count = 1000, .trusts_program = true};

/* 0: the arena is a block; else a window. */
static uint64_t page_bytes = DAO_PAGE_BYTES;

static void begin_with(const dao_step_plan_config_t *step_plan)
{
    CU_ASSERT_EQUAL_FATAL(device_create(step_plan, page_bytes, &allocator), DAO_OK);
}

static void begin(void)
{
    begin_with(&small_offsets);
}

static void begin_over_segments(void)
{
    page_bytes = 0;
    begin();
}

static void end(void)
{
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    device_destroy(allocator);
}

/* ---- the contract: outside of steps, and while one is recorded ---- */

static dao_status_t idle_create(dao_allocator_t **out_allocator)
{
    return device_create(&small_offsets, DAO_PAGE_BYTES, out_allocator);
}

static dao_status_t recording_create(dao_allocator_t **out_allocator)
{
    dao_status_t status = device_create(&small_offsets, 0, out_allocator);
    return status == DAO_OK ? dao_planned_begin(*out_allocator) : status;
}

static dao_status_t host_create(dao_allocator_t **out_allocator)
{
    dao_allocator_t *inner;
    dao_status_t status = dao_host_allocator_create(&(dao_host_config_t){.name = "cpu"}, &inner);
    if (status == DAO_OK) {
        status = stack(&small_offsets, inner, out_allocator);
    }
    return status == DAO_OK ? dao_planned_begin(*out_allocator) : status;
}

static void host_destroy(dao_allocator_t *planned)
{
    planned->ops->destroy(planned);
}

static void idle_begin(void)
{
    static const allocator_contract_t contract = {
        .create = idle_create, .destroy = device_destroy, .alignment_bytes = 256};
    allocator_contract_begin_on(&contract);
}

static void recording_begin(void)
{
    static const allocator_contract_t contract = {
        .create = recording_create, .destroy = device_destroy, .alignment_bytes = 256};
    allocator_contract_begin_on(&contract);
}

static void host_begin(void)
{
    static const allocator_contract_t contract = {
        .create = host_create, .destroy = host_destroy, .alignment_bytes = 64};
    allocator_contract_begin_on(&contract);
}

/* ---- helpers ---- */

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

static void step_begin(void)
{
    CU_ASSERT_EQUAL(dao_planned_begin(allocator), DAO_OK);
}

static void step_end(void)
{
    CU_ASSERT_EQUAL(dao_planned_end(allocator), DAO_OK);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
}

static dao_step_plan_stats_t stats_now(void)
{
    dao_step_plan_stats_t stats;
    dao_planned_stats_get(allocator, &stats);
    return stats;
}

/* A step: pairs of blocks that overlap as in a stack of layers, the last ones freed first. */
enum { LAYER_COUNT = 20 };

static size_t layer_bytes(uint32_t layer, uint32_t part)
{
    return (64 + 4 * layer + 16 * part) * KIB;
}

/* With `extra` a block more at the front. */
static void run_step(bool extra)
{
    void *kept[LAYER_COUNT];
    void *front = extra ? take(3 * MIB) : NULL;
    for (uint32_t i = 0; i < LAYER_COUNT; i++) {
        kept[i] = take(layer_bytes(i, 0));
        void *work = take(layer_bytes(i, 1));
        void *more = take(layer_bytes(i, 2));
        give(work);
        give(more);
    }
    for (uint32_t i = LAYER_COUNT; i-- > 0;) {
        void *gradient = take(layer_bytes(i, 3));
        give(kept[i]);
        give(gradient);
    }
    if (extra) {
        give(front);
    }
}

static void whole_step(bool extra)
{
    step_begin();
    run_step(extra);
    step_end();
}

/* ---- sentences ---- */

static void equal_steps_are_served_whole(void)
{
    whole_step(false);
    CU_ASSERT_FALSE(stats_now().has_plan);
    for (int i = 0; i < 5; i++) {
        whole_step(false);
        dao_step_plan_stats_t stats = stats_now();
        CU_ASSERT_TRUE(stats.has_plan);
        CU_ASSERT_EQUAL(stats.latest.request_count, 4 * LAYER_COUNT);
        CU_ASSERT_EQUAL(stats.latest.hit_count, 4 * LAYER_COUNT);
        CU_ASSERT_TRUE(stats.total_bytes <= stats.arena_bytes);
        CU_ASSERT_TRUE(stats.total_bytes <= stats.bound_bytes + stats.bound_bytes / 500);
        CU_ASSERT_EQUAL(stats.plan_count, 1);
    }
    CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), 0);
}

static void an_extra_block_costs_no_other_its_place(void)
{
    whole_step(false);
    step_begin();
    run_step(true);
    CU_ASSERT_EQUAL(dao_planned_end(allocator), DAO_OK);
    dao_step_plan_stats_t stats = stats_now();
    CU_ASSERT_EQUAL(stats.latest.hit_count, 4 * LAYER_COUNT);
    CU_ASSERT_EQUAL(stats.latest.unplanned_count, 1);
    whole_step(true); /* learnt meanwhile */
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT + 1);
}

/* Ten times the usual step in one, behind a few requests that the first one did not have and that stay to its
   end. */
enum { SHIFTED_ROUND_COUNT = 10, FRONT_COUNT = 3 };

static void shifted_step(uint32_t front_count)
{
    void *front[FRONT_COUNT];
    step_begin();
    for (uint32_t i = 0; i < front_count; i++) {
        front[i] = take(100 + i);
    }
    for (int round = 0; round < SHIFTED_ROUND_COUNT; round++) {
        run_step(false);
    }
    for (uint32_t i = 0; i < front_count; i++) {
        give(front[i]);
    }
    step_end();
}

static void front_shifted_steps_stay_served(void)
{
    shifted_step(0);
    for (uint32_t step = 1; step <= 2 * FRONT_COUNT; step++) {
        shifted_step(step % (FRONT_COUNT + 1));
        dao_step_plan_stats_t stats = stats_now();
        const dao_step_counts_t *counts = &stats.latest;
        uint64_t served_count = counts->hit_count + counts->borrowed_count;
        CU_ASSERT_TRUE(1000 * served_count >= 995 * counts->request_count);
        CU_ASSERT_TRUE(1000 * stats.total_bytes <= 1002 * stats.bound_bytes);
        CU_ASSERT_EQUAL(counts->missed_count, 0);
        CU_ASSERT_EQUAL(stats.plan_count, 1);
    }
}

static void a_range_in_use_is_not_given_twice(void)
{
    void *kept[LAYER_COUNT];
    whole_step(false);
    step_begin();
    for (uint32_t i = 0; i < LAYER_COUNT; i++) { /* what was freed at once is kept now */
        give(take(layer_bytes(i, 0)));
        kept[i] = take(layer_bytes(i, 1));
        give(take(layer_bytes(i, 2)));
    }
    for (uint32_t i = 0; i < LAYER_COUNT; i++) {
        for (uint32_t k = 0; k < i; k++) {
            CU_ASSERT_TRUE((char *)kept[k] + layer_bytes(k, 1) <= (char *)kept[i] ||
                           (char *)kept[i] + layer_bytes(i, 1) <= (char *)kept[k]);
        }
    }
    for (uint32_t i = 0; i < LAYER_COUNT; i++) {
        give(kept[i]);
    }
    step_end();
}

static uint64_t reserved_now(void)
{
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    return stats.reserved_bytes;
}

static void a_step_that_deviates_grows_the_place_by_little(void)
{
    enum { BLOCK_BYTES = 256 << 10, COUNT_MAX = 256 };
    void *blocks[COUNT_MAX];
    uint32_t count = 0;
    whole_step(false);
    step_begin();
    uint64_t before_bytes = reserved_now();
    while (reserved_now() == before_bytes && count < COUNT_MAX) {
        blocks[count++] = take(BLOCK_BYTES);
    }
    CU_ASSERT_EQUAL(reserved_now() - before_bytes, DAO_PAGE_BYTES);
    while (count > 0) {
        give(blocks[--count]);
    }
    step_end();
}

/* The blocks of a step, behind some that are in no plan. */
static void run_step_behind_strays(void)
{
    enum { STRAY_COUNT = 64, STRAY_BYTES = 8000 };
    void *strays[STRAY_COUNT];
    for (uint32_t i = 0; i < STRAY_COUNT; i++) {
        strays[i] = take(STRAY_BYTES + i);
    }
    run_step(false);
    for (uint32_t i = 0; i < STRAY_COUNT; i++) {
        give(strays[i]);
    }
}

/* Steps until it is forgotten that one went astray. */
static void step_often(void)
{
    enum { FORGOTTEN_COUNT = 16 };
    for (uint32_t i = 0; i < FORGOTTEN_COUNT; i++) {
        whole_step(false);
    }
}

/* It is the first one that is served, so that it is known what the place would have without a plan. */
static void a_step_that_strays_from_a_new_plan_has_no_hits_any_more(void)
{
    whole_step(false);
    step_begin();
    CU_ASSERT_PTR_NOT_NULL(dao_planned_of(allocator)->shadow);
    run_step_behind_strays();
    step_end();
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 0);
    step_often();
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT);
}

static void a_step_that_went_astray_is_forgotten(void)
{
    whole_step(false);
    step_begin();
    run_step_behind_strays();
    step_end();
    if (page_bytes == 0) {
        CU_ASSERT_EQUAL(stats_now().latest.hit_count, 0);
        CU_ASSERT_TRUE(stats_now().latest.borrowed_count > 0);
    }
    step_often();
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT);
}

/* A step of a few large blocks, all alive at one time. */
static void large_step(void)
{
    enum { BLOCK_COUNT = 4 };
    void *blocks[BLOCK_COUNT];
    step_begin();
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        blocks[i] = take(16 * MIB);
    }
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        give(blocks[i]);
    }
    step_end();
}

/* Learns a large step, and leaves the place with one segment that has two holes around a block, which it
   gives. */
static void *learn_and_part(size_t front_bytes, size_t back_bytes)
{
    size_t released_bytes;
    large_step();
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    give(take(front_bytes + 4 * MIB + back_bytes));
    CU_ASSERT_EQUAL(reserved_now(), front_bytes + 4 * MIB + back_bytes);
    void *front = take(front_bytes);
    void *middle = take(4 * MIB);
    give(front);
    return middle;
}

static void an_arena_may_be_a_part_of_the_plan(void)
{
    if (page_bytes != 0) { /* a window is as large as the plan */
        return;
    }
    void *middle = learn_and_part(50 * MIB, 0);
    for (int i = 0; i < 8; i++) {
        large_step();
        CU_ASSERT_EQUAL(stats_now().latest.hit_count, 3);
        CU_ASSERT_TRUE(stats_now().arena_bytes > 0 && stats_now().arena_bytes < stats_now().plan_bytes);
        CU_ASSERT_EQUAL(dao_planned_of(allocator)->arena.take_count,
                        1); /* it is not taken again for nothing */
    }
    CU_ASSERT_EQUAL(stats_now().failed_count, 0);
    give(middle);
    for (int i = 0; i < 16; i++) { /* it is looked at now and then */
        large_step();
    }
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4);
    CU_ASSERT_EQUAL(dao_planned_of(allocator)->arena.take_count, 2);
}

static void less_than_half_of_the_plan_is_no_arena(void)
{
    if (page_bytes != 0) { /* a window is as large as the plan */
        return;
    }
    void *middle = learn_and_part(24 * MIB, 24 * MIB);
    large_step();
    CU_ASSERT_EQUAL(stats_now().arena_bytes, 0);
    CU_ASSERT_EQUAL(stats_now().failed_count, 1);
    give(middle);
}

/* A step of one large block, and with `extra` a small one more. */
static void step_of(size_t large_bytes, size_t extra_bytes)
{
    step_begin();
    void *large = take(large_bytes);
    void *extra = extra_bytes > 0 ? take(extra_bytes) : NULL;
    if (extra != NULL) {
        give(extra);
    }
    give(large);
    step_end();
}

/* What lives on beside an arena does not lie in the rest of the arena's last page, so that a larger one takes
   its place. */
static void a_small_block_keeps_no_arena_from_growing(void)
{
    enum { LARGE_BYTES = (67 << 20) + (300 << 10), EXTRA_BYTES = 2200 << 10 };
    size_t released_bytes;
    step_of(LARGE_BYTES, 0);
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    step_begin();
    CU_ASSERT_EQUAL(stats_now().arena_bytes, LARGE_BYTES);
    void *large = take(LARGE_BYTES);
    void *kept = take(8000);
    give(large);
    step_end();
    step_of(LARGE_BYTES, EXTRA_BYTES);
    step_of(LARGE_BYTES, EXTRA_BYTES);
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 2);
    CU_ASSERT_TRUE(stats_now().arena_bytes >= LARGE_BYTES + EXTRA_BYTES);
    CU_ASSERT_TRUE(page_bytes != 0 || reserved_now() <= LARGE_BYTES + EXTRA_BYTES + 2 * DAO_PAGE_BYTES);
    give(kept);
}

/* A plan is replaced while a block of the one before lives, and the next step goes astray, in blocks that
   nobody knows. */
static void an_arena_that_is_to_go_is_not_filled_again(void)
{
    enum { STRAY_COUNT = 64, STRAY_BYTES = 500 << 10 }; /* more than twice what a layer has */
    dao_planned_t *planned = dao_planned_of(allocator);
    void *strays[STRAY_COUNT];
    whole_step(false);
    step_begin();
    void *kept = take(layer_bytes(0, 0));
    CU_ASSERT_TRUE(dao_planned_in_arena(planned, kept));
    run_step(true);
    step_end();
    step_begin();
    CU_ASSERT_EQUAL(planned->is_draining, page_bytes == 0);
    for (uint32_t i = 0; i < STRAY_COUNT; i++) {
        strays[i] = take(STRAY_BYTES + i);
        CU_ASSERT_FALSE(planned->is_draining && dao_planned_in_arena(planned, strays[i]));
    }
    CU_ASSERT_TRUE(planned->is_astray);
    for (uint32_t i = 0; i < STRAY_COUNT; i++) {
        give(strays[i]);
    }
    give(kept);
    step_end();
    step_begin();
    CU_ASSERT_FALSE(planned->is_draining);
    CU_ASSERT_TRUE(stats_now().arena_bytes >= stats_now().plan_bytes);
    step_end();
}

static void blocks_may_outlive_a_step(void)
{
    void *last = NULL;
    for (int i = 0; i < 8; i++) {
        step_begin();
        void *next = take(5 * MIB);
        if (last != NULL) {
            give(last);
        }
        last = next;
        run_step(false);
        step_end();
    }
    CU_ASSERT_TRUE(stats_now().latest.hit_count >= 4 * LAYER_COUNT);
    give(last);
    CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), 0);
}

static void wrong_frees_are_told_apart_in_the_arena(void)
{
    whole_step(false);
    step_begin();
    char *block = take(layer_bytes(0, 0));
    CU_ASSERT_EQUAL(stats_now().has_plan, true);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, block + 256), DAO_ERR_INTERIOR_POINTER);
    give(block);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, block), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, &heap), DAO_ERR_FOREIGN_POINTER);
    step_end();
}

static void limits_and_trimming_count_the_arena(void)
{
    whole_step(false);
    whole_step(false);
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.reserved_bytes, 0);
    CU_ASSERT_FALSE(stats_now().has_plan);
    whole_step(false); /* with a new arena */
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 2 * MIB), DAO_OK);
    step_begin(); /* there is no room for the arena, if it is a block */
    CU_ASSERT_EQUAL(stats_now().has_plan, page_bytes != 0);
    give(take(MIB));
    step_end();
    CU_ASSERT_EQUAL(stats_now().failed_count > 0, page_bytes == 0);
}

static void nested_and_concurrent_steps_are_one(void)
{
    step_begin();
    step_begin();
    run_step(false);
    CU_ASSERT_EQUAL(dao_planned_end(allocator), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().step_count, 0);
    step_end();
    CU_ASSERT_EQUAL(stats_now().step_count, 1);
    CU_ASSERT_EQUAL(dao_planned_end(allocator), DAO_ERR_INVALID);
}

static void requests_pass_by_while_it_is_disabled(void)
{
    whole_step(false);
    step_begin();
    void *block = take(layer_bytes(0, 0));
    dao_planned_enable(allocator, false);
    void *other = take(layer_bytes(0, 1));
    CU_ASSERT_FALSE(dao_planned_in_arena(dao_planned_of(allocator), other));
    give(block);
    give(other);
    step_end();
    whole_step(false);
    CU_ASSERT_EQUAL(stats_now().all.hit_count, 0);
    CU_ASSERT_EQUAL(stats_now().latest.request_count, 0); /* not those of the step before */
    dao_planned_enable(allocator, true);
    whole_step(false);
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT);
}

static void a_plan_that_nobody_keeps_to_is_given_up(void)
{
    whole_step(false);
    whole_step(false);
    for (uint32_t step = 0; step < 12; step++) {
        void *blocks[8];
        step_begin();
        for (uint32_t i = 0; i < 8; i++) { /* nothing of these was ever seen, nor will be again */
            blocks[i] = take((17 + step) * MIB / 2 + i * 4096);
        }
        for (uint32_t i = 0; i < 8; i++) {
            give(blocks[i]);
        }
        step_end();
    }
    CU_ASSERT_TRUE(stats_now().given_up_count > 0 || stats_now().latest.planned_bytes > 0);
}

static void counts_of_steps_rule_when_a_plan_serves(void)
{
    end();
    begin_with(&(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS,
                                         .allocation_count = 1000,
                                         .start_step = 2,
                                         .stable_count = 1,
                                         .max_count = 10});
    for (int i = 1; i <= 5; i++) { /* 3 is new, 4 and 5 change nothing: two in a row are more than one */
        whole_step(false);
        CU_ASSERT_EQUAL(stats_now().learn_count, i < 3 ? 0 : i - 2);
        CU_ASSERT_FALSE(stats_now().has_plan);
    }
    whole_step(false);
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT);
}

static void frees_are_retired_to_the_end(void)
{
    end();
    begin_with(&(dao_step_plan_config_t){
        .mode = DAO_STEP_PLAN_OFFSETS, .allocation_count = 1000, .defers_frees = true});
    for (int i = 0; i < 4; i++) {
        step_begin();
        void *block = take(MIB);
        give(block);
        CU_ASSERT_EQUAL(dao_allocator_free(allocator, block), DAO_ERR_DOUBLE_FREE);
        void *other = take(MIB);
        CU_ASSERT_PTR_NOT_EQUAL(block, other);
        give(other);
        CU_ASSERT_TRUE(allocator->ops->used_get(allocator) >= 2 * MIB);
        step_end();
        CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), 0);
    }
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 2);
}

/* A program that tries larger buffers first, before every few of its requests. */
static void requests_that_fail_cost_no_other_its_place(void)
{
    enum { TRY_COUNT = 6, BETWEEN = 5, STEP_COUNT = 4 };
    void *unused, *blocks[LAYER_COUNT];
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 128 * MIB), DAO_OK);
    for (uint32_t step = 0; step < STEP_COUNT; step++) {
        step_begin();
        for (uint32_t i = 0; i < LAYER_COUNT; i++) {
            for (size_t size_bytes = 200 * MIB; i % BETWEEN == 0 && size_bytes > 200 * MIB - TRY_COUNT * MIB;
                 size_bytes -= MIB) {
                CU_ASSERT_NOT_EQUAL(dao_allocator_alloc(allocator, size_bytes, &unused), DAO_OK);
            }
            blocks[i] = take(layer_bytes(i, 0));
        }
        for (uint32_t i = 0; i < LAYER_COUNT; i++) {
            give(blocks[i]);
        }
        step_end();
        CU_ASSERT_EQUAL(stats_now().latest.hit_count, step == 0 ? 0 : LAYER_COUNT);
        CU_ASSERT_EQUAL(stats_now().latest.request_count, LAYER_COUNT);
    }
}

static void a_step_larger_than_its_room_is_learnt_the_next_time(void)
{
    end();
    begin_with(&(dao_step_plan_config_t){
        .mode = DAO_STEP_PLAN_OFFSETS, .allocation_count = 3 * LAYER_COUNT, .trusts_program = true});
    whole_step(false);
    CU_ASSERT_EQUAL(stats_now().latest.dropped_count, LAYER_COUNT);
    whole_step(false);
    whole_step(false);
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT);
}

/* ---- plans as text ---- */

typedef struct text {
    char bytes[1 << 16];
    size_t length;
} text_t;

static dao_status_t text_add(const char *line, size_t length, void *user)
{
    text_t *text = user;
    CU_ASSERT_FATAL(text->length + length < sizeof(text->bytes));
    memcpy(text->bytes + text->length, line, length);
    text->length += length;
    return DAO_OK;
}

static void a_saved_plan_serves_the_first_step(void)
{
    static text_t text, again;
    text.length = again.length = 0;
    CU_ASSERT_EQUAL(dao_planned_save(allocator, text_add, &text), DAO_ERR_NOT_READY);
    whole_step(false);
    CU_ASSERT_EQUAL(dao_planned_save(allocator, text_add, &text), DAO_OK);
    CU_ASSERT_EQUAL(dao_planned_reset(allocator), DAO_OK);
    CU_ASSERT_EQUAL(dao_planned_load(allocator, text.bytes, text.length), DAO_OK);
    whole_step(false);
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT);
    CU_ASSERT_EQUAL(dao_planned_save(allocator, text_add, &again), DAO_OK);
    CU_ASSERT_EQUAL(text.length, again.length);
    CU_ASSERT_EQUAL(memcmp(text.bytes, again.bytes, text.length), 0);
}

static void a_damaged_plan_is_refused(void)
{
    static text_t text;
    text.length = 0;
    whole_step(false);
    CU_ASSERT_EQUAL(dao_planned_save(allocator, text_add, &text), DAO_OK);
    uint64_t seed = dao_test_seed("damaged plans", 5);
    for (int i = 0; i < 2000; i++) {
        static char damaged[sizeof(text.bytes)];
        memcpy(damaged, text.bytes, text.length);
        size_t at = dao_random_next(&seed) % text.length;
        char value = (char)dao_random_next(&seed);
        size_t length = i % 10 == 0 ? at : text.length;
        bool is_damaged = length < text.length || damaged[at] != value;
        damaged[at] = value;
        CU_ASSERT_EQUAL(dao_planned_load(allocator, damaged, length) != DAO_OK, is_damaged);
    }
    whole_step(false);
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT);
}

/* ---- random deviations, against a model ---- */

enum { MODEL_LIVE_MAX = 64, MODEL_STEP_COUNT = 15 + TEST_ROUNDS(45) };

typedef struct model_block {
    char *address;
    size_t size_bytes;
} model_block_t;

typedef struct model {
    model_block_t live[MODEL_LIVE_MAX];
    size_t count;
    uint64_t live_bytes;
    uint64_t peak_bytes;
    uint64_t overlap_count;
} model_t;

static void model_take(model_t *model, size_t size_bytes)
{
    if (model->count == MODEL_LIVE_MAX) {
        return;
    }
    char *address = take(size_bytes);
    for (size_t i = 0; i < model->count; i++) {
        const model_block_t *other = &model->live[i];
        model->overlap_count +=
            address < other->address + other->size_bytes && other->address < address + size_bytes;
    }
    model->live[model->count++] = (model_block_t){address, size_bytes};
    model->live_bytes += size_bytes;
    model->peak_bytes = model->live_bytes > model->peak_bytes ? model->live_bytes : model->peak_bytes;
}

static void model_give(model_t *model, size_t index)
{
    give(model->live[index].address);
    model->live_bytes -= model->live[index].size_bytes;
    model->live[index] = model->live[--model->count];
}

/* A step of which each request may be left out, come twice, have another size, or be freed late. */
static void model_step(model_t *model, uint64_t *seed, uint64_t deviation)
{
    step_begin();
    for (uint32_t i = 0; i < 4 * LAYER_COUNT; i++) {
        bool deviates = dao_random_next(seed) % 100 < deviation;
        uint64_t kind = dao_random_next(seed) % 4;
        size_t size_bytes = layer_bytes(i % LAYER_COUNT, i / LAYER_COUNT);
        if (!deviates || kind != 0) {
            model_take(model, deviates && kind == 1 ? size_bytes / 2 + dao_random_next(seed) % size_bytes
                                                    : size_bytes);
        }
        if (deviates && kind == 2) {
            model_take(model, size_bytes);
        }
        if (model->count > i % 7 && !(deviates && kind == 3)) {
            model_give(model, deviates ? dao_random_next(seed) % model->count : i % 7 % model->count);
        }
    }
    while (model->count > 2) {
        model_give(model, model->count - 1);
    }
    step_end();
}

static void random_deviations_never_overlap(void)
{
    uint64_t seed = dao_test_seed("deviations", 41);
    model_t model = {0};
    for (int step = 0; step < MODEL_STEP_COUNT; step++) {
        model_step(&model, &seed, step % 3 == 0 ? 0 : step % 3 == 1 ? 5 : 50);
        bool is_recorded = stats_now().given_up_count == 0; /* else it rests, and knows of fewer */
        CU_ASSERT_TRUE(!is_recorded || dao_planned_of(allocator)->live_bytes == model.live_bytes);
    }
    while (model.count > 0) {
        model_give(&model, 0);
    }
    CU_ASSERT_EQUAL(model.overlap_count, 0);
    CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), 0);
    CU_ASSERT_TRUE(stats_now().all.hit_count > 100);
}

/* ---- failures ---- */

static void every_failing_allocation_is_survived(void)
{
    uint64_t fired_count = 1;
    end();
    for (uint64_t n = 0; fired_count > 0 && n < 2000; n++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, n % 2 == 1);
        dao_status_t status = device_create(&small_offsets, page_bytes, &allocator);
        for (int i = 0; status == DAO_OK && i < 4; i++) {
            void *blocks[LAYER_COUNT] = {0};
            CU_ASSERT_EQUAL(dao_planned_begin(allocator), DAO_OK);
            for (uint32_t k = 0; k < LAYER_COUNT; k++) {
                (void)!dao_allocator_alloc(allocator, layer_bytes(k, 0) + (i == 2 ? 4096 : 0), &blocks[k]);
            }
            for (uint32_t k = 0; k < LAYER_COUNT; k++) {
                if (blocks[k] != NULL) {
                    give(blocks[k]);
                }
            }
            CU_ASSERT_EQUAL(dao_planned_end(allocator), DAO_OK);
            CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), 0);
        }
        fired_count = dao_fault_disarm();
        if (status == DAO_OK) {
            CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
            device_destroy(allocator);
        }
    }
    CU_ASSERT_EQUAL(fired_count, 0);
    begin();
}

static CU_TestInfo window_tests[] = {
    {"a step that strays from a new plan has no hits any more",
     a_step_that_strays_from_a_new_plan_has_no_hits_any_more},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo tests[] = {
    {"equal steps are served whole", equal_steps_are_served_whole},
    {"an extra block costs no other its place", an_extra_block_costs_no_other_its_place},
    {"front-shifted steps stay served", front_shifted_steps_stay_served},
    {"a range in use is not given twice", a_range_in_use_is_not_given_twice},
    {"a step that deviates grows the place by little", a_step_that_deviates_grows_the_place_by_little},
    {"a step that went astray is forgotten", a_step_that_went_astray_is_forgotten},
    {"an arena may be a part of the plan", an_arena_may_be_a_part_of_the_plan},
    {"less than half of the plan is no arena", less_than_half_of_the_plan_is_no_arena},
    {"a small block keeps no arena from growing", a_small_block_keeps_no_arena_from_growing},
    {"an arena that is to go is not filled again", an_arena_that_is_to_go_is_not_filled_again},
    {"blocks may outlive a step", blocks_may_outlive_a_step},
    {"wrong frees are told apart in the arena", wrong_frees_are_told_apart_in_the_arena},
    {"limits and trimming count the arena", limits_and_trimming_count_the_arena},
    {"nested and concurrent steps are one", nested_and_concurrent_steps_are_one},
    {"requests pass by while it is disabled", requests_pass_by_while_it_is_disabled},
    {"a plan that nobody keeps to is given up", a_plan_that_nobody_keeps_to_is_given_up},
    {"counts of steps rule when a plan serves", counts_of_steps_rule_when_a_plan_serves},
    {"frees are retired to the end", frees_are_retired_to_the_end},
    {"requests that fail cost no other its place", requests_that_fail_cost_no_other_its_place},
    {"a step larger than its room is learnt the next time",
     a_step_larger_than_its_room_is_learnt_the_next_time},
    {"a saved plan serves the first step", a_saved_plan_serves_the_first_step},
    {"a damaged plan is refused", a_damaged_plan_is_refused},
    {"random deviations never overlap", random_deviations_never_overlap},
    {"every failing allocation is survived", every_failing_allocation_is_survived},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"planned, outside of steps, contract", NULL, NULL, idle_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"planned, recording, contract", NULL, NULL, recording_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"planned over host, recording, contract", NULL, NULL, host_begin,
                              allocator_contract_end, allocator_contract_tests},
                             {"planned, a window", NULL, NULL, begin, end, tests},
                             {"planned, a window, known without plans", NULL, NULL, begin, end, window_tests},
                             {"planned, a block", NULL, NULL, begin_over_segments, end, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
