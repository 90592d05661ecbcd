/* SPDX-License-Identifier: Apache-2.0 */
/* What stays where tensors come on demand. That the kernels of such steps read what they should is tested
   with what is emitted of them. */
#include "base/numbers/math.h"
#include "base/report/fault.h"
#include "planning/swap/addresses/swap_demand.h"
#include "tests/support/models/swap_pass.h"
#include "tests/support/suite.h"

enum { ROUND_COUNT = 300 };

static swap_step_box_t box;
static swap_pass_t pass;

static void begin(void)
{
    box.problem.host.in_bytes_per_second = DAO_NS_PER_S;
    swap_pass_begin(&pass, &box, 0);
}

static uint32_t count_away(void)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < pass.step.access_count; t++) {
        count += pass.decisions[t].is_away;
    }
    return count;
}

/* Walks what is in `pass`. Returns how often something leaves. */
static uint32_t walk(uint64_t capacity_bytes)
{
    dao_swap_layout_t layout;
    CU_ASSERT_EQUAL_FATAL(dao_swap_demand(&pass.parts, capacity_bytes, pass.decisions, &layout), DAO_OK);
    CU_ASSERT(layout.arena_bytes <= capacity_bytes);
    CU_ASSERT_EQUAL(layout.unplaced_count, 0);
    dao_swap_layout_finish(&layout);
    return count_away();
}

/* A cycle of weights over room for all but some: each but those that stay comes once a step. */
static void a_cycle_leaves_what_is_wanted_last(void)
{
    swap_step_stream(&box, 8, 100, 10);
    begin();
    CU_ASSERT_EQUAL(walk(800), 0);
    CU_ASSERT(walk(700) < 8 && walk(600) < 8); /* some keep their places, the others take turns */
    CU_ASSERT(walk(200) <= 8);
    CU_ASSERT_EQUAL(walk(100), 8);
    swap_pass_end(&pass);
}

/* Forwards and backwards: what was written last is read first, and stays. */
static void a_chain_keeps_its_end(void)
{
    swap_step_chain(&box, 8, 100, 10);
    begin();
    CU_ASSERT_EQUAL(walk(pass.peak_bytes), 0);
    uint64_t lacking = 3;
    CU_ASSERT_EQUAL(walk(pass.peak_bytes - 100 * lacking), lacking);
    swap_pass_end(&pass);
}

/* What is away as all leaves behind each kernel is the most. Where there is a lot of room nothing leaves, but
   for the few steps whose tensors are elsewhere at the end of each lap. */
static void never_more_leaves_than_is_there(void)
{
    uint64_t random = dao_test_seed("demand", 20261130);
    uint32_t away = 0, live = 0, settled = 0;
    for (int round = 0; round < ROUND_COUNT; round++) {
        swap_pass_random(&box, &random);
        swap_pass_begin(&pass, &box, 0);
        uint32_t most = 0;
        for (uint32_t t = 0; t < pass.step.access_count; t++) {
            most += pass.step.accesses[t].inactive_is_live;
        }
        uint32_t tight = walk(pass.least_bytes);
        for (uint32_t t = 0; t < pass.step.access_count; t++) {
            CU_ASSERT(!pass.decisions[t].is_away || pass.step.accesses[t].inactive_is_live);
        }
        CU_ASSERT(tight <= most);
        settled += walk(pass.step.tensor_count * pass.peak_bytes) == 0;
        away += tight;
        live += most;
        swap_pass_end(&pass);
    }
    CU_ASSERT(settled > ROUND_COUNT * 19 / 20);
    CU_ASSERT(away < live); /* something stays also where memory is least */
}

static bool says_stop(void *user)
{
    (void)user;
    return true;
}

static void want_of_memory_and_a_cancel_are_said(void)
{
    dao_swap_layout_t layout;
    dao_swap_cancel_t cancel = {.is_cancelled = says_stop};
    swap_step_chain(&box, 6, 100, 10);
    begin();
    uint64_t failed, skip = 0;
    do {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip++, false);
        dao_status_t status = dao_swap_demand(&pass.parts, pass.least_bytes, pass.decisions, &layout);
        failed = dao_fault_disarm();
        CU_ASSERT_EQUAL(status, failed != 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        CU_ASSERT_EQUAL(layout.residencies == NULL, failed != 0);
    } while (failed != 0);
    dao_swap_layout_finish(&layout);
#if defined(DAO_FAULTS)
    CU_ASSERT(skip > 5);
#endif
    pass.step.cancel = &cancel;
    CU_ASSERT_EQUAL(dao_swap_demand(&pass.parts, pass.least_bytes, pass.decisions, &layout), DAO_ERR_STOPPED);
    swap_pass_end(&pass);
}

static CU_TestInfo tests[] = {
    {"a cycle leaves what is wanted last", a_cycle_leaves_what_is_wanted_last},
    {"a chain keeps its end", a_chain_keeps_its_end},
    {"never more leaves than is there", never_more_leaves_than_is_there},
    {"want of memory and a cancel are said", want_of_memory_and_a_cancel_are_said},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap demand", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
