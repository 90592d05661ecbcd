/* SPDX-License-Identifier: Apache-2.0 */
/* What leaves so that residency intervals without an address may find one. */
#include "planning/swap/victims/swap_split.h"
#include "tests/support/models/swap_pass.h"
#include "tests/support/suite.h"

enum { NS_PER_S = 1000000000, ROUND_COUNT = 200, MISSING_BYTES = 20 };

static swap_step_box_t box;
static swap_pass_t pass;
static dao_swap_timing_t timing;

/* Six layers of 10 bytes, forwards and backwards, of which nothing leaves. */
static void begin(void)
{
    swap_step_chain(&box, 6, 10, 100);
    box.problem.host.in_bytes_per_second = NS_PER_S;
    swap_pass_begin(&pass, &box, 0);
    CU_ASSERT_EQUAL_FATAL(dao_swap_timing_init(&timing, &pass.parts), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_time(&pass.parts, pass.peak_bytes, pass.decisions, &timing), DAO_OK);
}

static void end(void)
{
    dao_swap_timing_finish(&timing);
    swap_pass_end(&pass);
}

/* Looks for addresses in less memory than what stays needs. */
static dao_status_t lay_out(dao_swap_layout_t *layout, dao_swap_past_t *past)
{
    dao_swap_past_init(past);
    return dao_swap_layout_init(layout, &pass.parts, pass.decisions, &timing, pass.peak_bytes - MISSING_BYTES,
                                true, past);
}

static uint32_t count_away(void)
{
    uint32_t away = 0;
    for (uint32_t g = 0; g < pass.parts.inactive_count; g++) {
        away += pass.decisions[g].is_away ? 1 : 0;
    }
    return away;
}

/* Splitting lets more leave each time, until everything has an address or nothing is left that can leave. */
static void what_finds_none_is_split(void)
{
    begin();
    bool is_split = true;
    for (uint32_t round = 0; is_split && round < ROUND_COUNT; round++) {
        dao_swap_layout_t layout;
        dao_swap_past_t past;
        uint32_t before = count_away();
        CU_ASSERT_EQUAL_FATAL(lay_out(&layout, &past), DAO_OK);
        is_split = dao_swap_split(&pass.parts, &layout, pass.decisions);
        CU_ASSERT(!is_split || layout.unplaced_count > 0);
        CU_ASSERT_EQUAL(is_split, count_away() > before);
        CU_ASSERT(round > 0 || is_split);
        dao_swap_layout_finish(&layout);
        CU_ASSERT_EQUAL_FATAL(dao_swap_time(&pass.parts, pass.peak_bytes, pass.decisions, &timing), DAO_OK);
    }
    CU_ASSERT(!is_split);
    end();
}

static void nothing_is_split_where_all_have_addresses(void)
{
    dao_swap_layout_t layout;
    begin();
    CU_ASSERT_EQUAL_FATAL(dao_swap_layout_init_empty(&layout, &pass.step), DAO_OK);
    CU_ASSERT(!dao_swap_split(&pass.parts, &layout, pass.decisions));
    CU_ASSERT_EQUAL(count_away(), 0);
    dao_swap_layout_finish(&layout);
    end();
}

static bool says_stop(void *user)
{
    (void)user;
    return true;
}

static void it_can_be_cancelled(void)
{
    dao_swap_layout_t layout;
    dao_swap_past_t past;
    dao_swap_cancel_t cancel = {.is_cancelled = says_stop};
    begin();
    CU_ASSERT_EQUAL_FATAL(lay_out(&layout, &past), DAO_OK);
    CU_ASSERT(layout.unplaced_count > 0);
    pass.step.cancel = &cancel;
    CU_ASSERT(!dao_swap_split(&pass.parts, &layout, pass.decisions));
    CU_ASSERT_EQUAL(count_away(), 0);
    dao_swap_layout_finish(&layout);
    end();
}

static CU_TestInfo tests[] = {
    {"what finds none is split", what_finds_none_is_split},
    {"nothing is split where all have addresses", nothing_is_split_where_all_have_addresses},
    {"it can be cancelled", it_can_be_cancelled},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap split", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
