/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps stream, and that their victims are spread over the step. */
#include "planning/swap/victims/swap_cycle.h"
#include "planning/swap/victims/swap_spread.h"
#include "tests/support/models/swap_pass.h"
#include "tests/support/suite.h"

enum { KERNELS = 64, SIZE = 100 };

static swap_step_box_t box;

static void weights_that_are_read_once_are_streamed(void)
{
    swap_pass_t pass;
    swap_step_stream(&box, KERNELS, SIZE, 10);
    box.problem.host.in_bytes_per_second = 1000000000;
    box.problem.capacity_bytes = KERNELS * SIZE / 2;
    swap_pass_begin(&pass, &box, 0);
    CU_ASSERT(dao_swap_is_streamed(&pass.step));
    swap_pass_end(&pass);
    box.problem.capacity_bytes = KERNELS * SIZE; /* nothing has to leave */
    swap_pass_begin(&pass, &box, 0);
    CU_ASSERT(!dao_swap_is_streamed(&pass.step));
    swap_pass_end(&pass);
}

static void activations_are_not(void)
{
    swap_pass_t pass;
    swap_step_chain(&box, KERNELS / 2, SIZE, 10);
    box.problem.host.in_bytes_per_second = 1000000000;
    box.problem.capacity_bytes = KERNELS * SIZE / 4;
    swap_pass_begin(&pass, &box, 0);
    CU_ASSERT(!dao_swap_is_streamed(&pass.step));
    swap_pass_end(&pass);
}

/* In each quarter of the step about as many leave, and what stays fits beside what is ahead. */
static void victims_are_spread(void)
{
    for (uint64_t ahead = 0; ahead <= 4 * SIZE; ahead += 2 * SIZE) {
        swap_pass_t pass;
        uint32_t counts[4] = {0}, all = 0;
        uint64_t capacity = KERNELS * SIZE / 2;
        swap_step_stream(&box, KERNELS, SIZE, 10);
        box.problem.host.in_bytes_per_second = 1000000000;
        box.problem.capacity_bytes = capacity;
        swap_pass_begin(&pass, &box, 0);
        dao_swap_spread(&pass.parts, capacity, ahead, pass.decisions);
        for (uint32_t i = 0; i < pass.step.access_count; i++) {
            counts[4 * pass.step.accesses[i].kernel / KERNELS] += pass.decisions[i].is_away ? 1 : 0;
            all += pass.decisions[i].is_away ? 1 : 0;
            CU_ASSERT(pass.decisions[i].lead < pass.step.accesses[i].inactive_length);
        }
        CU_ASSERT_EQUAL(all, KERNELS / 2 + ahead / SIZE);
        for (uint32_t i = 0; i < 4; i++) {
            CU_ASSERT(counts[i] + 1 >= all / 4 && counts[i] <= all / 4 + 1);
        }
        CU_ASSERT_EQUAL(dao_swap_cycle(&pass.parts, capacity, true, pass.decisions), DAO_OK);
        swap_pass_end(&pass);
    }
}

static CU_TestInfo tests[] = {
    {"weights that are read once are streamed", weights_that_are_read_once_are_streamed},
    {"activations are not", activations_are_not},
    {"victims are spread", victims_are_spread},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap spread", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
