/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets for the lifetimes of a step that repeats. */
#include "base/report/fault.h"
#include "planning/swap/addresses/swap_place.h"
#include "tests/support/suite.h"

enum { ROUND_COUNT = 150, COUNT_MAX = 60, PERIOD = 200 };

static const dao_swap_step_t step; /* nobody cancels */
static dao_plan_buffer_t buffers[COUNT_MAX];
static dao_plan_pool_t pool;
static dao_plan_problem_t problem;

static void draw(uint64_t capacity_bytes, uint64_t *random)
{
    pool.capacity_bytes = capacity_bytes;
    problem = (dao_plan_problem_t){.buffers = buffers,
                                   .buffer_count = 1 + dao_random_next(random) % COUNT_MAX,
                                   .pools = &pool,
                                   .pool_count = 1,
                                   .period = PERIOD};
    for (size_t i = 0; i < problem.buffer_count; i++) {
        uint64_t begin = dao_random_next(random) % PERIOD;
        buffers[i] = (dao_plan_buffer_t){.begin_time = begin,
                                         .end_time = begin + 1 + dao_random_next(random) % (PERIOD / 2),
                                         .size_bytes = 1 + dao_random_next(random) % 50,
                                         .fixed_offset = DAO_PLAN_NOWHERE,
                                         .pool = DAO_PLAN_ANY_POOL};
    }
}

static void what_is_placed_keeps_all_rules(void)
{
    uint64_t random = dao_test_seed("place", 20261122);
    int tight_count = 0;
    for (int round = 0; round < ROUND_COUNT; round++) {
        uint64_t offsets[COUNT_MAX], unplaced_bytes = 0;
        dao_plan_buffer_t before[COUNT_MAX];
        dao_swap_past_t past;
        dao_swap_placement_t placement;
        dao_swap_past_init(&past);
        draw(100 + dao_random_next(&random) % 1000, &random);
        for (size_t i = 0; i < problem.buffer_count; i++) {
            before[i] = buffers[i];
        }
        CU_ASSERT_EQUAL_FATAL(
            dao_swap_place(&step, &problem, buffers, round % 2 == 0, &past, offsets, &placement), DAO_OK);
        CU_ASSERT(!placement.is_repeated);
        problem.buffers = before; /* times may have been changed */
        CU_ASSERT_EQUAL(dao_plan_check(&problem, offsets, NULL), DAO_OK);
        for (size_t i = 0; i < problem.buffer_count; i++) {
            unplaced_bytes += offsets[i] == DAO_PLAN_NOWHERE ? before[i].size_bytes : 0;
        }
        CU_ASSERT_EQUAL(placement.unplaced_bytes, unplaced_bytes);
        CU_ASSERT_EQUAL(placement.unplaced_count == 0, unplaced_bytes == 0);
        CU_ASSERT(placement.peak_bytes <= pool.capacity_bytes);
        tight_count += unplaced_bytes > 0 ? 1 : 0;
    }
    CU_ASSERT(tight_count > 0 && tight_count < ROUND_COUNT);
}

static void what_did_not_fit_is_not_looked_for_again(void)
{
    uint64_t random = dao_test_seed("again", 20261122), offsets[COUNT_MAX];
    dao_swap_past_t past;
    dao_swap_placement_t placement;
    dao_swap_past_init(&past);
    draw(20, &random);
    buffers[0].size_bytes = 21;
    CU_ASSERT_EQUAL(dao_swap_place(&step, &problem, buffers, false, &past, offsets, &placement), DAO_OK);
    CU_ASSERT(!placement.is_repeated && placement.unplaced_count > 0);
    uint64_t work = past.work;
    CU_ASSERT(work > 0);
    CU_ASSERT_EQUAL(dao_swap_place(&step, &problem, buffers, false, &past, offsets, &placement), DAO_OK);
    CU_ASSERT(placement.is_repeated);
    CU_ASSERT_EQUAL(past.work, work);
    pool.capacity_bytes = UINT32_MAX; /* another problem */
    CU_ASSERT_EQUAL(dao_swap_place(&step, &problem, buffers, false, &past, offsets, &placement), DAO_OK);
    CU_ASSERT(!placement.is_repeated && placement.unplaced_count == 0);
}

static bool says_stop(void *user)
{
    (void)user;
    return true;
}

/* It asks after so much work: the problem has to be a large one. */
static void it_can_be_cancelled(void)
{
    enum { MANY = 5000 };
    static dao_plan_buffer_t many[MANY];
    static uint64_t offsets[MANY];
    uint64_t random = dao_test_seed("cancelled", 20261122);
    dao_swap_past_t past;
    dao_swap_placement_t placement;
    dao_swap_cancel_t cancel = {.is_cancelled = says_stop};
    const dao_swap_step_t cancelled = {.cancel = &cancel};
    dao_swap_past_init(&past);
    draw(1000, &random);
    for (size_t i = 0; i < MANY; i++) {
        many[i] = buffers[i % problem.buffer_count];
    }
    problem.buffers = many;
    problem.buffer_count = MANY;
    CU_ASSERT_EQUAL(dao_swap_place(&cancelled, &problem, many, true, &past, offsets, &placement),
                    DAO_ERR_STOPPED);
}

#if defined(DAO_FAULTS)
/* Assertions allocate, too: a failure may be one of theirs. */
static void want_of_memory_is_said(void)
{
    uint64_t random = dao_test_seed("want of memory", 20261122), offsets[COUNT_MAX], said_count = 0;
    dao_swap_placement_t placement;
    bool is_complete = false;
    draw(1000, &random);
    for (uint64_t skip = 0; !is_complete; skip++) {
        dao_swap_past_t past;
        dao_swap_past_init(&past);
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        dao_status_t status = dao_swap_place(&step, &problem, buffers, false, &past, offsets, &placement);
        is_complete = dao_fault_disarm() == 0;
        CU_ASSERT(status == DAO_OK || (status == DAO_ERR_NO_HOST_MEMORY && !is_complete));
        said_count += status == DAO_ERR_NO_HOST_MEMORY ? 1 : 0;
    }
    CU_ASSERT(said_count > 0);
}
#endif

static CU_TestInfo tests[] = {
    {"what is placed keeps all rules", what_is_placed_keeps_all_rules},
    {"what did not fit is not looked for again", what_did_not_fit_is_not_looked_for_again},
    {"it can be cancelled", it_can_be_cancelled},
#if defined(DAO_FAULTS)
    {"want of memory is said", want_of_memory_is_said},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap place", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
