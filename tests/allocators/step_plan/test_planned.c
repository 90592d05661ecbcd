/* SPDX-License-Identifier: Apache-2.0 */
/* step plans, the allocator: the contract in front of other allocators, what happens to requests that
   keep to the plan and to those that do not, and that no two blocks ever share a byte. */
#include "allocators/paged/device_memory.h"
#include "allocators/paged/host_pages.h"
#include "allocators/pages/page_buddy.h"
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
static dao_status_t device_create(const dao_step_plan_config_t *step_plan, dao_allocator_t **out_allocator)
{
    heap = heap_backend_create(CAPACITY_BYTES, DAO_PAGE_BYTES);
    if (heap == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_allocator_t *inner, *slab;
    dao_device_memory_config_t caching = {
        .ops = heap_backend_ops(heap), .device = heap_backend_device(heap), .name = "device:0"};
    dao_status_t status = dao_device_memory_create(&caching, &inner);
    if (status == DAO_OK &&
        (status = dao_thread_cache_create(inner, "device:0", &dao_slab_device_sizes, 0, &slab)) != DAO_OK) {
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

static const dao_step_plan_config_t small_offsets = {.mode = DAO_STEP_PLAN_OFFSETS, .allocation_count = 1000};

static void begin_with(const dao_step_plan_config_t *step_plan)
{
    CU_ASSERT_EQUAL_FATAL(device_create(step_plan, &allocator), DAO_OK);
}

static void begin(void)
{
    begin_with(&small_offsets);
}

static void end(void)
{
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    device_destroy(allocator);
}

/* ---- the contract: outside of steps, and while one is recorded ---- */

static dao_status_t idle_create(dao_allocator_t **out_allocator)
{
    return device_create(&small_offsets, out_allocator);
}

static dao_status_t recording_create(dao_allocator_t **out_allocator)
{
    dao_status_t status = device_create(&small_offsets, out_allocator);
    return status == DAO_OK ? dao_planned_begin(*out_allocator) : status;
}

static dao_status_t host_create(dao_allocator_t **out_allocator)
{
    dao_allocator_t *inner;
    static const dao_host_memory_config_t settings = {.huge_pages = DAO_HUGE_PAGES_NEVER};
    static dao_host_pages_t pages = {.settings = &settings};
    dao_host_pages_config_t host = {.pages = &pages, .name = "cpu"};
    dao_status_t status = dao_host_pages_create(&host, &inner);
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
        .create = host_create, .destroy = host_destroy, .alignment_bytes = 256};
    allocator_contract_begin_on(&contract);
}

/* ---- helpers ---- */

static uint64_t asked_bytes; /* by take() since the step began */

static void *take(size_t size_bytes)
{
    void *address = NULL;
    asked_bytes += size_bytes;
    CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(allocator, size_bytes, &address), DAO_OK);
    return address;
}

static void give(void *address)
{
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
}

static void step_begin(void)
{
    asked_bytes = 0;
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
enum { LAYER_COUNT = 20, EXTRA_BYTES = 16 << 10 };

static size_t layer_bytes(uint32_t layer, uint32_t part)
{
    return (64 + 4 * layer + 16 * part) * KIB;
}

/* With `extra` a block more at the front. */
static void run_step(bool extra)
{
    void *kept[LAYER_COUNT];
    void *front = extra ? take(EXTRA_BYTES) : NULL;
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

/* The step from which the others are planned. */
static void learn(void)
{
    whole_step(false);
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 0);
}

/* ---- sentences ---- */

static void equal_steps_are_served_whole(void)
{
    learn();
    for (int i = 0; i < 5; i++) {
        whole_step(false);
        dao_step_plan_stats_t stats = stats_now();
        CU_ASSERT_TRUE(stats.has_plan);
        CU_ASSERT_EQUAL(stats.latest.request_count, 4 * LAYER_COUNT);
        CU_ASSERT_EQUAL(stats.latest.hit_count, 4 * LAYER_COUNT);
        CU_ASSERT_EQUAL(stats.latest.requested_bytes, asked_bytes);
        CU_ASSERT_EQUAL(stats.latest.planned_bytes, asked_bytes);
        CU_ASSERT_TRUE(stats.total_bytes <= stats.arena_bytes);
        CU_ASSERT_TRUE(stats.total_bytes <= stats.bound_bytes + stats.bound_bytes / 500);
        CU_ASSERT_EQUAL(stats.plan_count, 1);
    }
    CU_ASSERT_EQUAL(allocator->ops->used_get(allocator), 0);
}

static void a_small_block_more_costs_no_other_its_place(void)
{
    learn();
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
    }
}

static void a_range_in_use_is_not_given_twice(void)
{
    void *kept[LAYER_COUNT];
    learn();
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
    learn();
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

static void what_goes_as_the_next_step_begins_has_a_place(void)
{
    void *last = NULL;
    for (int i = 0; i < 6; i++) {
        step_begin();
        if (last != NULL) {
            give(last);
        }
        run_step(false);
        last = take(5 * MIB);
        step_end();
    }
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT + 1);
    give(last);
}

static void wrong_frees_are_told_apart_in_the_arena(void)
{
    learn();
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
    learn();
    whole_step(false);
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_EQUAL(stats.reserved_bytes, 0);
    CU_ASSERT_TRUE(stats_now().has_plan);
    whole_step(false);
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT);
    CU_ASSERT_EQUAL(allocator->ops->limit_set(allocator, 2 * MIB), DAO_OK);
    step_begin();
    CU_ASSERT_TRUE(stats_now().has_plan);
    give(take(MIB));
    step_end();
    CU_ASSERT_EQUAL(stats_now().failed_count, 0);
}

static void a_plan_that_was_reset_is_none(void)
{
    learn();
    whole_step(false);
    CU_ASSERT_TRUE(stats_now().has_plan);
    CU_ASSERT_EQUAL(dao_planned_reset(allocator), DAO_OK);
    CU_ASSERT_TRUE(stats_now().arena_bytes > 0); /* for the next one */
    CU_ASSERT_FALSE(stats_now().has_plan);
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
    learn();
    step_begin();
    void *block = take(layer_bytes(0, 0));
    dao_planned_enable(allocator, false);
    void *other = take(layer_bytes(0, 1));
    CU_ASSERT_FALSE(dao_planned_in_window(dao_planned_of(allocator), other));
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
        CU_ASSERT_EQUAL(stats_now().learn_count, (uint64_t)(i < 3 ? 0 : i - 2));
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
    for (int i = 0; i < 11; i++) {
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
    enum { TRY_COUNT = 6, BETWEEN = 5, STEP_COUNT = 12 };
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

static void a_step_larger_than_its_room_is_learnt(void)
{
    end();
    begin_with(&(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFFSETS, .allocation_count = 3});
    learn();
    CU_ASSERT_EQUAL(stats_now().latest.dropped_count, 0);
    whole_step(false);
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT);
}

/* Once, late in a program that repeats itself. */
static void a_change_is_learnt_at_once(void)
{
    enum { EQUAL_COUNT = 20 };
    for (uint32_t i = 0; i < EQUAL_COUNT; i++) {
        whole_step(false);
    }
    whole_step(true);
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT);
    whole_step(true);
    CU_ASSERT_EQUAL(stats_now().latest.hit_count, 4 * LAYER_COUNT + 1);
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
    learn();
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
    learn();
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

/* ---- several plans ---- */

/* A step of a shape of its own: other sizes than those of all other shapes. */
static void shape_step(uint32_t shape)
{
    void *blocks[LAYER_COUNT];
    step_begin();
    for (uint32_t i = 0; i < LAYER_COUNT; i++) {
        blocks[i] = take((1 + shape * LAYER_COUNT + i) * 4 * KIB);
    }
    for (uint32_t i = 0; i < LAYER_COUNT; i++) {
        give(blocks[i]);
    }
    step_end();
}

static bool is_planned(uint32_t shape)
{
    shape_step(shape);
    return stats_now().latest.hit_count == LAYER_COUNT;
}

static void one_different_step_leaves_equal_ones_planned(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        shape_step(0);
    }
    CU_ASSERT_FALSE(is_planned(1));
    for (uint32_t i = 0; i < 5; i++) {
        CU_ASSERT_TRUE(is_planned(0));
    }
}

static void eight_learnt_steps_are_recognised(void)
{
    uint64_t seed = dao_test_seed("order of shapes", 3);
    for (uint32_t shape = 0; shape < DAO_PLANNED_PLAN_COUNT; shape++) {
        CU_ASSERT_FALSE(is_planned(shape));
        CU_ASSERT_TRUE(is_planned(shape)); /* which no run of unknown steps comes to */
    }
    for (uint32_t i = 0; i < 40; i++) {
        CU_ASSERT_TRUE(is_planned((uint32_t)(dao_random_next(&seed) % DAO_PLANNED_PLAN_COUNT)));
    }
    CU_ASSERT_EQUAL(stats_now().backoff_count, 0);
}

static void the_plan_that_was_used_least_recently_goes(void)
{
    for (uint32_t shape = 0; shape < DAO_PLANNED_PLAN_COUNT; shape++) {
        shape_step(shape);
        shape_step(shape);
    }
    CU_ASSERT_TRUE(is_planned(0));
    CU_ASSERT_FALSE(is_planned(DAO_PLANNED_PLAN_COUNT)); /* takes the place of shape 1 */
    CU_ASSERT_TRUE(is_planned(DAO_PLANNED_PLAN_COUNT));
    CU_ASSERT_TRUE(is_planned(0));
    CU_ASSERT_FALSE(is_planned(1));
}

/* Behind as many unknown steps as there are plans one is plain, behind two more two, then four, and so on. */
static void steps_that_never_repeat_are_plain_twice_as_many_each_time(void)
{
    uint32_t shape = 0;
    for (; shape < DAO_PLANNED_PLAN_COUNT; shape++) {
        shape_step(shape);
        CU_ASSERT_EQUAL(stats_now().backoff_count, 0);
    }
    uint64_t plain_count = 0;
    for (uint32_t run = 1; run <= 16; run *= 2) {
        for (uint32_t i = 0; i < run; i++) {
            shape_step(shape++);
            CU_ASSERT_EQUAL(stats_now().backoff_count, ++plain_count);
            CU_ASSERT_EQUAL(stats_now().latest.request_count, 0); /* nothing is recorded */
        }
        for (uint32_t i = 0; i < 2; i++) {
            shape_step(shape++);
            CU_ASSERT_EQUAL(stats_now().latest.request_count, LAYER_COUNT);
        }
    }
    uint32_t wait = 0;
    while (!is_planned(shape) && wait < 100) { /* it repeats itself at last */
        wait++;
    }
    CU_ASSERT_EQUAL(wait, 32 + 1); /* that many are plain, and one is learnt */
    CU_ASSERT_FALSE(is_planned(shape + 1));
    CU_ASSERT_TRUE(is_planned(shape + 1)); /* at once: the count begins anew */
}

static void all_plans_are_saved(void)
{
    static text_t text;
    text.length = 0;
    for (uint32_t shape = 0; shape < 3; shape++) {
        shape_step(shape);
    }
    CU_ASSERT_EQUAL(dao_planned_save(allocator, text_add, &text), DAO_OK);
    CU_ASSERT_EQUAL(dao_planned_load(allocator, text.bytes, text.length), DAO_OK);
    for (uint32_t shape = 0; shape < 3; shape++) {
        CU_ASSERT_TRUE(is_planned(shape));
    }
    size_t once = text.length;
    while (text.length < 9 * once / 3) { /* nine plans */
        memcpy(text.bytes + text.length, text.bytes, once);
        text.length += once;
    }
    CU_ASSERT_EQUAL(dao_planned_load(allocator, text.bytes, text.length), DAO_ERR_PARSE);
    CU_ASSERT_TRUE(is_planned(0)); /* all is as it was */
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
        bool is_recorded = stats_now().backoff_count == 0; /* else it knows of fewer */
        CU_ASSERT_TRUE(!is_recorded || dao_planned_of(allocator)->tracked.count == model.count);
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
        dao_status_t status = device_create(&small_offsets, &allocator);
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

#if defined(DAO_FAULTS)

/* Takes and frees a block of each layer; those that fail are left out. */
static void layers(void)
{
    void *blocks[LAYER_COUNT] = {NULL};
    for (uint32_t i = 0; i < LAYER_COUNT; i++) {
        (void)!dao_allocator_alloc(allocator, layer_bytes(i, 0), &blocks[i]);
    }
    for (uint32_t i = 0; i < LAYER_COUNT; i++) {
        if (blocks[i] != NULL) {
            give(blocks[i]);
        }
    }
}

/* So many others live that there is no room to track all blocks; whatever call for memory fails then, all
   bins are whole in the next step. Nothing is learnt meanwhile. */
static void a_block_that_cannot_be_tracked_costs_its_bin_nothing(void)
{
    enum { OTHER_COUNT = 45, OTHER_BYTES = 200 << 10 }; /* 48 fit into a new table of 64 */
    uint64_t fired_count = 1;
    for (uint64_t n = 0; fired_count > 0; n++) {
        void *others[OTHER_COUNT];
        end();
        begin_with(
            &(dao_step_plan_config_t){.mode = DAO_STEP_PLAN_BINS, .allocation_count = 1, .stop_step = 2});
        step_begin();
        layers();
        step_end();
        step_begin();
        for (uint32_t i = 0; i < OTHER_COUNT; i++) {
            others[i] = take(OTHER_BYTES);
        }
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        layers();
        fired_count = dao_fault_disarm();
        for (uint32_t i = 0; i < OTHER_COUNT; i++) {
            give(others[i]);
        }
        step_end();
        step_begin();
        layers();
        step_end();
        CU_ASSERT_EQUAL(stats_now().latest.hit_count, LAYER_COUNT);
    }
}

#endif

static CU_TestInfo tests[] = {
    {"equal steps are served whole", equal_steps_are_served_whole},
    {"a small block more costs no other its place", a_small_block_more_costs_no_other_its_place},
    {"front-shifted steps stay served", front_shifted_steps_stay_served},
    {"a range in use is not given twice", a_range_in_use_is_not_given_twice},
    {"a step that deviates grows the place by little", a_step_that_deviates_grows_the_place_by_little},
    {"blocks may outlive a step", blocks_may_outlive_a_step},
    {"what goes as the next step begins has a place", what_goes_as_the_next_step_begins_has_a_place},
    {"wrong frees are told apart in the arena", wrong_frees_are_told_apart_in_the_arena},
    {"limits and trimming count the arena", limits_and_trimming_count_the_arena},
    {"a plan that was reset is none", a_plan_that_was_reset_is_none},
    {"nested and concurrent steps are one", nested_and_concurrent_steps_are_one},
    {"requests pass by while it is disabled", requests_pass_by_while_it_is_disabled},
    {"counts of steps rule when a plan serves", counts_of_steps_rule_when_a_plan_serves},
    {"frees are retired to the end", frees_are_retired_to_the_end},
    {"requests that fail cost no other its place", requests_that_fail_cost_no_other_its_place},
    {"a step larger than its room is learnt", a_step_larger_than_its_room_is_learnt},
    {"a change is learnt at once", a_change_is_learnt_at_once},
    {"a saved plan serves the first step", a_saved_plan_serves_the_first_step},
    {"a damaged plan is refused", a_damaged_plan_is_refused},
    {"one different step leaves equal ones planned", one_different_step_leaves_equal_ones_planned},
    {"eight learnt steps are recognised", eight_learnt_steps_are_recognised},
    {"the plan that was used least recently goes", the_plan_that_was_used_least_recently_goes},
    {"steps that never repeat are plain, twice as many each time",
     steps_that_never_repeat_are_plain_twice_as_many_each_time},
    {"all plans are saved", all_plans_are_saved},
    {"random deviations never overlap", random_deviations_never_overlap},
    {"every failing allocation is survived", every_failing_allocation_is_survived},
#if defined(DAO_FAULTS)
    {"a block that cannot be tracked costs its bin nothing",
     a_block_that_cannot_be_tracked_costs_its_bin_nothing},
#endif
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
                             {"planned", NULL, NULL, begin, end, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
