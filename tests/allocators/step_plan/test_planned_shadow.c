/* SPDX-License-Identifier: Apache-2.0 */
/* The shadow of a place that is served from plans, against the same place without them: as many bytes for the
   same requests, within steps and outside, and what limits, trims and leases do to it, also while it is
   made. */
#include "allocators/paged/device_memory.h"
#include "allocators/paged/page_buddy.h"
#include "allocators/step_plan/planned.h"
#include "allocators/step_plan/planned_internal.h"
#include "base/threads/sync.h"
#include "tests/support/backends/heap_backend.h"
#include "tests/support/suite.h"

#define PAGE           ((size_t)DAO_PAGE_BYTES)
#define CAPACITY_BYTES (512 * PAGE)

/* Blocks that live at one time in a step, and outside; one request in DEVIATING_PART is not as in other
   steps. */
enum { BLOCK_COUNT = 120, LASTING_COUNT = 20, REQUEST_COUNT = 400, STEP_COUNT = 10, DEVIATING_PART = 20 };

/* A place over a backend of its own. */
typedef struct site {
    heap_backend_t *heap;
    dao_allocator_t *allocator;
} site_t;

static site_t served, alone;

static dao_planned_t *planned(void)
{
    return dao_planned_of(served.allocator);
}

static void make_alone(site_t *site)
{
    site->heap = heap_backend_create(CAPACITY_BYTES, PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(site->heap);
    dao_device_memory_config_t config = {
        .ops = heap_backend_ops(site->heap), .device = heap_backend_device(site->heap), .name = "device:0"};
    CU_ASSERT_EQUAL_FATAL(dao_device_memory_create(&config, &site->allocator), DAO_OK);
}

static void begin(void)
{
    dao_planned_config_t config = {
        .name = "device:0",
        .step_plan = {.mode = DAO_STEP_PLAN_OFFSETS, .allocation_count = 10000, .work_limit = 1}};
    make_alone(&alone);
    make_alone(&served);
    CU_ASSERT_EQUAL_FATAL(dao_planned_create(&config, served.allocator, &served.allocator), DAO_OK);
}

static void unmake(const site_t *site)
{
    CU_ASSERT_TRUE(site->allocator->ops->is_valid(site->allocator));
    site->allocator->ops->destroy(site->allocator);
    CU_ASSERT_TRUE(heap_backend_destroy(site->heap));
}

static void end(void)
{
    unmake(&served);
    unmake(&alone);
}

/* ---- the same at both places ---- */

/* A block at both; NULL: there is none. */
typedef struct twin {
    void *served, *alone;
} twin_t;

static uint64_t reserved_of(const site_t *site)
{
    dao_stats_t stats;
    site->allocator->ops->stats_get(site->allocator, &stats);
    return stats.reserved_bytes;
}

static twin_t take(size_t size_bytes)
{
    twin_t twin = {NULL, NULL};
    CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(served.allocator, size_bytes, &twin.served), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(alone.allocator, size_bytes, &twin.alone), DAO_OK);
    return twin;
}

static void give(twin_t *twin)
{
    if (twin->served != NULL) {
        CU_ASSERT_EQUAL(dao_allocator_free(served.allocator, twin->served), DAO_OK);
        CU_ASSERT_EQUAL(dao_allocator_free(alone.allocator, twin->alone), DAO_OK);
    }
    *twin = (twin_t){NULL, NULL};
}

static void trim_both(size_t keep_bytes)
{
    size_t released_bytes;
    CU_ASSERT_EQUAL(served.allocator->ops->trim(served.allocator, keep_bytes, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(alone.allocator->ops->trim(alone.allocator, keep_bytes, &released_bytes), DAO_OK);
}

/* The shadow says what the other place has. Tells whether there is one. */
static bool is_right(void)
{
    if (planned()->shadow == NULL) {
        return false;
    }
    CU_ASSERT_EQUAL(dao_shadow_reserved(planned()->shadow), reserved_of(&alone));
    return true;
}

/* Allocates and frees; of `part` requests one has a size of its own. */
static void run_requests(uint64_t *random, uint32_t part, twin_t blocks[BLOCK_COUNT])
{
    uint64_t script = 7; /* of what each step asks for */
    for (uint32_t i = 0; i < REQUEST_COUNT; i++) {
        twin_t *block = &blocks[dao_random_next(&script) % BLOCK_COUNT];
        size_t size_bytes = (size_t)(dao_random_next(&script) % (2 * PAGE)) + 1;
        if (part > 0 && dao_random_next(random) % part == 0) {
            size_bytes = (size_t)(dao_random_next(random) % (2 * PAGE)) + 1;
        }
        give(block);
        *block = take(size_bytes);
    }
}

static void run_step(uint64_t *random, uint32_t part)
{
    twin_t blocks[BLOCK_COUNT] = {{NULL, NULL}};
    CU_ASSERT_EQUAL(dao_planned_begin(served.allocator), DAO_OK);
    run_requests(random, part, blocks);
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        give(&blocks[i]);
    }
    CU_ASSERT_EQUAL(dao_planned_end(served.allocator), DAO_OK);
}

/* A step to learn from, and one that begins with a shadow. */
static void get_a_shadow(uint64_t *random)
{
    run_step(random, 0);
    run_step(random, DEVIATING_PART);
    CU_ASSERT_PTR_NOT_NULL_FATAL(planned()->shadow);
}

/* Equal steps, until one keeps to its plan. */
static void run_until_served(uint64_t *random)
{
    enum { STEP_COUNT_MAX = 300 };
    dao_step_plan_stats_t stats = {0};
    for (uint32_t step = 0; stats.latest.hit_count < REQUEST_COUNT && step < STEP_COUNT_MAX; step++) {
        run_step(random, 0);
        dao_planned_stats_get(served.allocator, &stats);
    }
    CU_ASSERT_EQUAL(stats.latest.hit_count, REQUEST_COUNT);
}

/* ---- sentences ---- */

static void it_has_what_the_place_has_without_a_plan(void)
{
    uint64_t random = dao_test_seed("test_planned_shadow", 1);
    twin_t lasting[LASTING_COUNT] = {{NULL, NULL}};
    uint32_t right_count = 0;
    get_a_shadow(&random);
    for (uint32_t step = 0; step < STEP_COUNT; step++) {
        for (uint32_t i = 0; i < LASTING_COUNT / 4; i++) { /* between steps */
            twin_t *block = &lasting[dao_random_next(&random) % LASTING_COUNT];
            give(block);
            *block = take((size_t)(dao_random_next(&random) % (3 * PAGE)) + 1);
        }
        if (step % 2 == 1) {
            trim_both(dao_random_next(&random) % 2 * 40 * PAGE);
        }
        right_count += is_right();
        run_step(&random, DEVIATING_PART);
        right_count += is_right();
    }
    CU_ASSERT_TRUE(right_count >= 5); /* then the plan is given up */
    for (uint32_t i = 0; i < LASTING_COUNT; i++) {
        give(&lasting[i]);
    }
}

static void set_limits(size_t limit_bytes)
{
    CU_ASSERT_EQUAL(served.allocator->ops->limit_set(served.allocator, limit_bytes), DAO_OK);
    CU_ASSERT_EQUAL(alone.allocator->ops->limit_set(alone.allocator, limit_bytes), DAO_OK);
}

static void it_keeps_the_limits_of_the_place(void)
{
    uint64_t random = dao_test_seed("test_planned_shadow", 1);
    void *address;
    get_a_shadow(&random);
    set_limits(8 * PAGE); /* nothing lives: the rest goes back */
    CU_ASSERT_TRUE(is_right());
    CU_ASSERT_EQUAL(dao_shadow_reserved(planned()->shadow), 8 * PAGE);
    CU_ASSERT_EQUAL(dao_allocator_alloc(served.allocator, 9 * PAGE, &address), DAO_ERR_LIMIT);
    set_limits(0);
    twin_t large = take(200 * PAGE);
    CU_ASSERT_TRUE(is_right());
    give(&large);
}

/* Pages of a lease stay where they are, without plans, too: a shadow knows nothing of that. */
static void there_is_none_under_a_lease(void)
{
    uint64_t random = dao_test_seed("test_planned_shadow", 1);
    uint32_t lease;
    get_a_shadow(&random);
    CU_ASSERT_EQUAL_FATAL(served.allocator->ops->lease_begin(served.allocator, &lease), DAO_OK);
    CU_ASSERT_PTR_NULL(planned()->shadow);
    run_step(&random, DEVIATING_PART);
    CU_ASSERT_PTR_NULL(planned()->shadow);
    served.allocator->ops->lease_end(served.allocator, lease);
    run_step(&random, DEVIATING_PART);
    CU_ASSERT_PTR_NOT_NULL(planned()->shadow);
}

/* As long as the program deviates, hits are refused that take more pages than the place has in use without a
   plan; when it does not any more, what was refused is not held against it. */
static void who_keeps_to_the_plan_at_last_is_served(void)
{
    uint64_t random = dao_test_seed("test_planned_shadow", 1);
    get_a_shadow(&random);
    for (uint32_t step = 0; step < 3; step++) {
        run_step(&random, DEVIATING_PART);
    }
    run_until_served(&random);
}

typedef struct interference {
    _Atomic bool is_over;
    bool is_wrong; /* something failed */
} interference_t;

/* Limits, trims and leases of another thread, as fast as they come. */
static void *interfere(void *user)
{
    interference_t *interference = user;
    dao_allocator_t *allocator = served.allocator;
    for (uint32_t i = 0; !atomic_load(&interference->is_over); i++) {
        size_t released_bytes;
        uint32_t lease;
        interference->is_wrong |=
            allocator->ops->trim(allocator, i % 3 * 50 * PAGE, &released_bytes) != DAO_OK ||
            allocator->ops->limit_set(allocator, i % 2 * 400 * PAGE) != DAO_OK;
        if (i % 7 == 0 && allocator->ops->lease_begin(allocator, &lease) == DAO_OK) {
            allocator->ops->lease_end(allocator, lease);
        }
        dao_thread_yield();
    }
    return NULL;
}

static void it_is_made_while_others_change_the_place(void)
{
    uint64_t random = dao_test_seed("test_planned_shadow", 1);
    interference_t interference = {.is_over = false};
    dao_thread_t thread;
    run_step(&random, 0);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "interferes", interfere, &interference), DAO_OK);
    for (uint32_t step = 0; step < STEP_COUNT; step++) {
        run_step(&random, DEVIATING_PART);
        CU_ASSERT_TRUE(served.allocator->ops->is_valid(served.allocator));
    }
    atomic_store(&interference.is_over, true);
    dao_thread_join(&thread);
    CU_ASSERT_FALSE(interference.is_wrong);
    CU_ASSERT_EQUAL(served.allocator->ops->limit_set(served.allocator, 0), DAO_OK);
    run_until_served(&random);
    run_step(&random, DEVIATING_PART);
    CU_ASSERT_PTR_NOT_NULL(planned()->shadow);
}

static CU_TestInfo tests[] = {
    {"it has what the place has without a plan", it_has_what_the_place_has_without_a_plan},
    {"it keeps the limits of the place", it_keeps_the_limits_of_the_place},
    {"there is none under a lease", there_is_none_under_a_lease},
    {"who keeps to the plan at last is served", who_keeps_to_the_plan_at_last_is_served},
    {"it is made while others change the place", it_is_made_while_others_change_the_place},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"planned, its shadow", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
