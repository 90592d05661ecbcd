/* SPDX-License-Identifier: Apache-2.0 */
/* Victims: nothing leaves where all fits, decisions keep their ranges, and what is chosen can be made
   good. */
#include "base/report/fault.h"
#include "planning/swap/victims/swap_choose.h"
#include "planning/swap/victims/swap_cycle.h"
#include "tests/support/models/swap_pass.h"
#include "tests/support/suite.h"

enum { ROUND_COUNT = 300, STEP_COUNT = 4 };

static const dao_swap_variant_t variants[] = {
    {1, 0, false}, {1, UINT32_MAX, false}, {64, 4, true}, {UINT32_MAX, UINT32_MAX, true}};

static swap_step_box_t box;

static void nothing_leaves_where_all_fits(void)
{
    uint64_t random = dao_test_seed("all fits", 20261122), step_ns;
    for (int round = 0; round < ROUND_COUNT; round++) {
        swap_pass_t pass;
        swap_pass_random(&box, &random);
        swap_pass_begin(&pass, &box, 0);
        const dao_swap_variant_t *variant = &variants[round % 4];
        CU_ASSERT_EQUAL_FATAL(
            dao_swap_choose(&pass.parts, pass.peak_bytes, variant, STEP_COUNT, pass.decisions, &step_ns),
            DAO_OK);
        for (uint32_t g = 0; g < pass.parts.inactive_count; g++) {
            CU_ASSERT(!pass.decisions[g].is_away);
        }
        CU_ASSERT(step_ns >= pass.step.time_before[pass.step.kernel_count]);
        swap_pass_end(&pass);
    }
}

static void decisions_keep_their_ranges(void)
{
    uint64_t random = dao_test_seed("ranges", 20261122), step_ns;
    int away_count = 0;
    for (int round = 0; round < ROUND_COUNT; round++) {
        swap_pass_t pass;
        swap_pass_random(&box, &random);
        swap_pass_begin(&pass, &box, dao_random_next(&random) % 3 * 8);
        uint64_t range = pass.peak_bytes - pass.least_bytes;
        uint64_t capacity = pass.least_bytes + dao_random_next(&random) % 4 * range / 4;
        CU_ASSERT_EQUAL_FATAL(dao_swap_choose(&pass.parts, capacity, &variants[round % 4], STEP_COUNT,
                                              pass.decisions, &step_ns),
                              DAO_OK);
        for (uint32_t i = 0; i < pass.step.access_count; i++) {
            const dao_swap_access_t *one = &pass.step.accesses[i];
            for (uint32_t g = pass.parts.first_inactive[i]; g < pass.parts.first_inactive[i + 1]; g++) {
                CU_ASSERT(!pass.decisions[g].is_away || one->inactive_is_live);
                CU_ASSERT(pass.decisions[g].lead < one->inactive_length);
                CU_ASSERT(!pass.decisions[g].is_file);
                away_count += pass.decisions[g].is_away ? 1 : 0;
            }
        }
        CU_ASSERT_EQUAL(dao_swap_cycle(&pass.parts, capacity, true, pass.decisions), DAO_OK);
        CU_ASSERT(dao_swap_cycle_is_valid(&pass.parts, capacity, pass.decisions, pass.kernel_bytes));
        swap_pass_end(&pass);
    }
    CU_ASSERT(away_count > ROUND_COUNT);
}

/* Of three tensors that are read in turn, the one whose next use is the furthest leaves. */
static void the_furthest_next_use_leaves_first(void)
{
    swap_pass_t pass;
    uint64_t step_ns;
    swap_step_stream(&box, 4, 10, 100);
    box.problem.tensor_count = 3;
    static const uint32_t reads[] = {0, 1, 0, 2};
    for (uint32_t k = 0; k < 4; k++) {
        box.uses[k][0].tensor = reads[k];
    }
    box.problem.host.in_bytes_per_second = 1000000000;
    swap_pass_begin(&pass, &box, 0);
    CU_ASSERT_EQUAL_FATAL(
        dao_swap_choose(&pass.parts, 20, &variants[0], STEP_COUNT, pass.decisions, &step_ns), DAO_OK);
    CU_ASSERT(!pass.decisions[pass.parts.first_inactive[pass.step.first_access[0]]].is_away);
    CU_ASSERT(pass.decisions[pass.parts.first_inactive[pass.step.first_access[1]]].is_away);
    swap_pass_end(&pass);
}

/* Of tensors that are used in turn, every other one changed, those that would have to be copied out stay
   where copies are weighed. */
static void what_is_clean_leaves_before_what_lasts_little_longer(void)
{
    enum { TENSORS = 16, SIZE = 1 << 20 };
    static const dao_swap_variant_t weighs[] = {{1, 0, false}, {1, 0, true}};
    for (uint32_t v = 0; v < 2; v++) {
        swap_pass_t pass;
        uint64_t step_ns;
        uint32_t clean_count = 0, dirty_count = 0;
        swap_step_stream(&box, TENSORS, SIZE, 100);
        for (uint32_t k = 1; k < TENSORS; k += 2) {
            box.uses[k][0].access = DAO_ACCESS_READ_WRITE;
        }
        box.problem.host.in_bytes_per_second = 1000000000;
        swap_pass_begin(&pass, &box, 0);
        CU_ASSERT_EQUAL_FATAL(dao_swap_choose(&pass.parts, (uint64_t)(TENSORS - 3) * SIZE, &weighs[v],
                                              STEP_COUNT, pass.decisions, &step_ns),
                              DAO_OK);
        for (uint32_t i = 0; i < pass.step.access_count; i++) {
            bool is_away = pass.decisions[pass.parts.first_inactive[i]].is_away;
            clean_count += is_away && !pass.step.accesses[i].writes ? 1 : 0;
            dirty_count += is_away && pass.step.accesses[i].writes ? 1 : 0;
        }
        CU_ASSERT(clean_count > 0);
        CU_ASSERT_EQUAL(dirty_count == 0, weighs[v].weighs_copies);
        swap_pass_end(&pass);
    }
}

static void want_of_memory_is_said(void)
{
    swap_pass_t pass;
    uint64_t step_ns;
    swap_step_chain(&box, 8, 100, 10);
    box.problem.host.in_bytes_per_second = 1000000000;
    swap_pass_begin(&pass, &box, 25);
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t skip = 0; status != DAO_OK; skip++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        status = dao_swap_choose(&pass.parts, 300, &variants[2], STEP_COUNT, pass.decisions, &step_ns);
        CU_ASSERT_EQUAL(dao_fault_disarm() == 0, status == DAO_OK);
    }
    swap_pass_end(&pass);
}

static CU_TestInfo tests[] = {
    {"nothing leaves where all fits", nothing_leaves_where_all_fits},
    {"decisions keep their ranges", decisions_keep_their_ranges},
    {"the furthest next use leaves first", the_furthest_next_use_leaves_first},
    {"what is clean leaves before what lasts little longer",
     what_is_clean_leaves_before_what_lasts_little_longer},
    {"want of memory is said", want_of_memory_is_said},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap choose", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
