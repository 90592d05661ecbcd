/* SPDX-License-Identifier: Apache-2.0 */
/* Any decisions are made good for a step that repeats, and nothing leaves that may stay. */
#include "base/report/fault.h"
#include "planning/swap/victims/swap_cycle.h"
#include "tests/support/models/swap_pass.h"
#include "tests/support/suite.h"

enum { ROUND_COUNT = 400 };

static swap_step_box_t box;

static void decide_at_random(swap_pass_t *pass, uint64_t *random)
{
    for (uint32_t i = 0; i < pass->step.access_count; i++) {
        const dao_swap_access_t *one = &pass->step.accesses[i];
        for (uint32_t g = pass->parts.first_inactive[i]; g < pass->parts.first_inactive[i + 1]; g++) {
            if (one->inactive_is_live && dao_random_next(random) % 2 == 0) {
                pass->decisions[g] = (dao_swap_decision_t){
                    .is_away = true, .lead = (uint32_t)(dao_random_next(random) % one->inactive_length)};
            }
        }
    }
}

/* Bytes on the device in a kernel, by looking at every part. */
static uint64_t bytes_in(const swap_pass_t *pass, uint32_t kernel)
{
    uint64_t bytes = 0;
    uint32_t count = pass->step.kernel_count;
    for (uint32_t i = 0; i < pass->step.access_count; i++) {
        const dao_swap_access_t *one = &pass->step.accesses[i];
        uint32_t since = (kernel + count - one->kernel) % count, first = pass->parts.first[one->tensor];
        for (uint32_t part = first; part < pass->parts.first[one->tensor + 1]; part++) {
            const dao_swap_decision_t *decision =
                &pass->decisions[pass->parts.first_inactive[i] + part - first];
            bool is_between = since > 0 && since < one->inactive_length && one->inactive_is_live;
            bool is_back = !decision->is_away || since >= one->inactive_length - decision->lead;
            if (since == 0 || (is_between && is_back)) {
                bytes += dao_swap_part_size(&pass->parts, part);
            }
        }
    }
    return bytes;
}

static void every_kernel_fits_afterwards(void)
{
    uint64_t random = dao_test_seed("cycle", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        swap_pass_t pass;
        swap_pass_random(&box, &random);
        swap_pass_begin(&pass, &box, dao_random_next(&random) % 3 * 7);
        uint64_t range = pass.peak_bytes - pass.least_bytes;
        uint64_t capacity = pass.least_bytes + dao_random_next(&random) % 5 * range / 4;
        decide_at_random(&pass, &random);
        CU_ASSERT_EQUAL_FATAL(dao_swap_cycle(&pass.parts, capacity, true, pass.decisions), DAO_OK);
        CU_ASSERT(dao_swap_cycle_is_valid(&pass.parts, capacity, pass.decisions, pass.kernel_bytes));
        for (uint32_t k = 0; k < pass.step.kernel_count; k++) {
            CU_ASSERT_EQUAL(pass.kernel_bytes[k], bytes_in(&pass, k));
            CU_ASSERT(bytes_in(&pass, k) <= capacity);
        }
        swap_pass_end(&pass);
    }
}

static void with_all_of_the_memory_everything_stays(void)
{
    uint64_t random = dao_test_seed("stays", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        swap_pass_t pass;
        swap_pass_random(&box, &random);
        swap_pass_begin(&pass, &box, 0);
        decide_at_random(&pass, &random);
        CU_ASSERT_EQUAL_FATAL(dao_swap_cycle(&pass.parts, pass.peak_bytes, true, pass.decisions), DAO_OK);
        for (uint32_t g = 0; g < pass.parts.inactive_count; g++) {
            CU_ASSERT(!pass.decisions[g].is_away);
        }
        swap_pass_end(&pass);
    }
}

static void too_many_bytes_are_seen(void)
{
    swap_pass_t pass;
    swap_step_chain(&box, 4, 10, 1);
    box.problem.host.in_bytes_per_second = 1000000000;
    swap_pass_begin(&pass, &box, 0);
    CU_ASSERT(dao_swap_cycle_is_valid(&pass.parts, 40, pass.decisions, pass.kernel_bytes));
    CU_ASSERT(!dao_swap_cycle_is_valid(&pass.parts, 39, pass.decisions, pass.kernel_bytes));
    swap_pass_end(&pass);
}

static void want_of_memory_is_said(void)
{
    swap_pass_t pass;
    swap_step_chain(&box, 4, 10, 1);
    box.problem.host.in_bytes_per_second = 1000000000;
    swap_pass_begin(&pass, &box, 0);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, false);
    dao_status_t status = dao_swap_cycle(&pass.parts, 30, true, pass.decisions);
    CU_ASSERT_EQUAL(status, dao_fault_disarm() > 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
    swap_pass_end(&pass);
}

static CU_TestInfo tests[] = {
    {"every kernel fits afterwards", every_kernel_fits_afterwards},
    {"with all of the memory everything stays", with_all_of_the_memory_everything_stays},
    {"too many bytes are seen", too_many_bytes_are_seen},
    {"want of memory is said", want_of_memory_is_said},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap cycle", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
