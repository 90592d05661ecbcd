/* SPDX-License-Identifier: Apache-2.0 */
/* Residency intervals and their addresses. */
#include "base/report/fault.h"
#include "planning/swap/addresses/swap_layout.h"
#include "tests/support/models/swap_pass.h"
#include "tests/support/suite.h"

enum { NS_PER_S = 1000000000 };

static swap_step_box_t box;
static swap_pass_t pass;
static dao_swap_timing_t timing;

/* Six layers of 10 bytes, forwards and backwards; without decisions, or with every other tensor away. */
static void begin(bool has_away)
{
    swap_step_chain(&box, 6, 10, 100);
    box.problem.host.in_bytes_per_second = NS_PER_S;
    swap_pass_begin(&pass, &box, 0);
    for (uint32_t i = 0; has_away && i < pass.step.access_count; i++) {
        const dao_swap_access_t *one = &pass.step.accesses[i];
        pass.decisions[i].is_away = one->inactive_is_live && one->inactive_length > 3;
    }
    CU_ASSERT_EQUAL_FATAL(dao_swap_timing_init(&timing, &pass.parts), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_time(&pass.parts, pass.peak_bytes, pass.decisions, &timing), DAO_OK);
}

static void end(void)
{
    dao_swap_timing_finish(&timing);
    swap_pass_end(&pass);
}

static dao_status_t lay_out(dao_swap_layout_t *layout, uint64_t capacity_bytes)
{
    dao_swap_past_t past;
    dao_swap_past_init(&past);
    return dao_swap_layout_init(layout, &pass.parts, pass.decisions, &timing, capacity_bytes, true, &past);
}

static void with_room_everything_has_an_address(void)
{
    for (int has_away = 0; has_away < 2; has_away++) {
        dao_swap_layout_t layout;
        begin(has_away != 0);
        CU_ASSERT_EQUAL_FATAL(lay_out(&layout, 4 * pass.peak_bytes), DAO_OK);
        CU_ASSERT(layout.unplaced_count == 0 && layout.unplaced_bytes == 0 && !layout.is_repeated);
        CU_ASSERT(layout.arena_bytes <= 4 * pass.peak_bytes);
        for (uint32_t i = 0; i < pass.step.access_count; i++) {
            const dao_swap_residency_t *residency = &layout.residencies[layout.residency_of[i]];
            CU_ASSERT_EQUAL(residency->tensor, pass.step.accesses[i].tensor);
            CU_ASSERT(residency->address_bytes + 10 <= layout.arena_bytes);
            uint32_t next = pass.step.accesses[i].next; /* behind an absence another interval begins */
            bool is_absent = dao_swap_is_absent(&pass.step.accesses[i], &pass.decisions[i]);
            CU_ASSERT(!is_absent || layout.residencies[layout.residency_of[next]].first_access == next);
            CU_ASSERT(is_absent || layout.residency_of[next] == layout.residency_of[i]);
        }
        dao_swap_layout_finish(&layout);
        end();
    }
}

static bool says_stop(void *user)
{
    (void)user;
    return true;
}

static void it_can_be_cancelled(void)
{
    dao_swap_layout_t layout;
    dao_swap_cancel_t cancel = {.is_cancelled = says_stop};
    begin(false);
    pass.step.cancel = &cancel;
    CU_ASSERT_EQUAL(lay_out(&layout, pass.peak_bytes), DAO_ERR_STOPPED);
    end();
}

#if defined(DAO_FAULTS)
/* Assertions allocate, too: a failure may be one of theirs. */
static void want_of_memory_is_said(void)
{
    bool is_complete = false;
    uint32_t said_count = 0;
    begin(true);
    for (uint64_t skip = 0; !is_complete; skip++) {
        dao_swap_layout_t layout;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        dao_status_t status = lay_out(&layout, pass.peak_bytes);
        is_complete = dao_fault_disarm() == 0;
        CU_ASSERT(status == DAO_OK || (status == DAO_ERR_NO_HOST_MEMORY && !is_complete));
        if (status == DAO_OK) {
            dao_swap_layout_finish(&layout);
        }
        said_count += status == DAO_ERR_NO_HOST_MEMORY ? 1 : 0;
    }
    CU_ASSERT(said_count > 0);
    end();
}
#endif

static CU_TestInfo tests[] = {
    {"with room everything has an address", with_room_everything_has_an_address},
    {"it can be cancelled", it_can_be_cancelled},
#if defined(DAO_FAULTS)
    {"want of memory is said", want_of_memory_is_said},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap layout", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
