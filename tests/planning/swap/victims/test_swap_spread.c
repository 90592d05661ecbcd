/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps stream, and that their victims are spread over the step. */
#include "planning/swap/victims/swap_cycle.h"
#include "planning/swap/victims/swap_spread.h"
#include "tests/support/models/swap_pass.h"
#include "tests/support/suite.h"

enum { KERNELS = 64, SIZE = 100 };

static swap_step_box_t box;

static bool is_streamed(const swap_pass_t *pass)
{
    bool answer = false;
    CU_ASSERT_EQUAL(dao_swap_is_streamed(&pass->step, &answer), DAO_OK);
    return answer;
}

static void weights_that_are_read_once_are_streamed(void)
{
    swap_pass_t pass;
    swap_step_stream(&box, KERNELS, SIZE, 10);
    box.problem.host.in_bytes_per_second = 1000000000;
    box.problem.capacity_bytes = KERNELS * SIZE / 2;
    swap_pass_begin(&pass, &box, 0);
    CU_ASSERT(is_streamed(&pass));
    swap_pass_end(&pass);
    box.problem.capacity_bytes = KERNELS * SIZE; /* nothing has to leave */
    swap_pass_begin(&pass, &box, 0);
    CU_ASSERT(!is_streamed(&pass));
    swap_pass_end(&pass);
}

static void activations_are_not(void)
{
    swap_pass_t pass;
    swap_step_chain(&box, KERNELS / 2, SIZE, 10);
    box.problem.host.in_bytes_per_second = 1000000000;
    box.problem.capacity_bytes = KERNELS * SIZE / 4;
    swap_pass_begin(&pass, &box, 0);
    CU_ASSERT(!is_streamed(&pass));
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
        CU_ASSERT_EQUAL(dao_swap_spread(&pass.parts, capacity, ahead, pass.decisions), DAO_OK);
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

/* In pages each weight gives the same share, so that little of it is there for a kernel alone. */
static void each_weight_in_pages_gives_some_parts(void)
{
    enum { WEIGHTS = 8, PARTS = 16, PART = 4096 };
    swap_pass_t pass;
    swap_step_stream(&box, WEIGHTS, PARTS * PART, 10);
    box.problem.page_bytes = PART;
    box.problem.host.in_bytes_per_second = 1000000000;
    box.problem.capacity_bytes = WEIGHTS * PARTS * PART * 3 / 4;
    swap_pass_begin(&pass, &box, PART);
    CU_ASSERT_EQUAL(dao_swap_spread(&pass.parts, box.problem.capacity_bytes, 0, pass.decisions), DAO_OK);
    for (uint32_t i = 0; i < pass.step.access_count; i++) {
        uint32_t away = 0;
        for (uint32_t g = pass.parts.first_inactive[i]; g < pass.parts.first_inactive[i + 1]; g++) {
            away += pass.decisions[g].is_away ? 1 : 0;
        }
        CU_ASSERT_EQUAL(away, PARTS / 4);
    }
    swap_pass_end(&pass);
    box.problem.page_bytes = 0;
}

/* What passes twice leaves twice, or stays all the time. */
static void what_leaves_leaves_each_time(void)
{
    uint32_t aways[KERNELS / 2] = {0}, all = 0;
    swap_pass_t pass;
    swap_step_stream(&box, KERNELS, SIZE, 10);
    for (uint32_t k = 0; k < KERNELS; k++) {
        box.uses[k][0].tensor = k % (KERNELS / 2);
    }
    box.problem.host.in_bytes_per_second = 1000000000;
    box.problem.capacity_bytes = KERNELS * SIZE / 4;
    swap_pass_begin(&pass, &box, 0);
    CU_ASSERT(is_streamed(&pass));
    CU_ASSERT_EQUAL(dao_swap_spread(&pass.parts, box.problem.capacity_bytes, 0, pass.decisions), DAO_OK);
    for (uint32_t i = 0; i < pass.step.access_count; i++) {
        aways[pass.step.accesses[i].tensor] += pass.decisions[i].is_away ? 1 : 0;
    }
    for (uint32_t t = 0; t < KERNELS / 2; t++) {
        CU_ASSERT(aways[t] == 0 || aways[t] == 2);
        all += aways[t];
    }
    CU_ASSERT(all >= KERNELS / 4); /* others have no use in this step, and stay or leave alike */
    swap_pass_end(&pass);
}

/* Weights that no kernel writes leave alone if they are enough. */
static void what_is_clean_leaves_first(void)
{
    swap_pass_t pass;
    swap_step_stream(&box, KERNELS, SIZE, 10);
    for (uint32_t k = 0; k < KERNELS; k += 2) {
        box.uses[k][0].access = DAO_ACCESS_READ_WRITE;
    }
    box.problem.host.in_bytes_per_second = 1000000000;
    box.problem.capacity_bytes = KERNELS * SIZE * 3 / 4;
    swap_pass_begin(&pass, &box, 0);
    CU_ASSERT_EQUAL(dao_swap_spread(&pass.parts, box.problem.capacity_bytes, 0, pass.decisions), DAO_OK);
    for (uint32_t i = 0; i < pass.step.access_count; i++) {
        CU_ASSERT(!pass.decisions[i].is_away || !pass.step.accesses[i].writes);
    }
    swap_pass_end(&pass);
}

static CU_TestInfo tests[] = {
    {"weights that are read once are streamed", weights_that_are_read_once_are_streamed},
    {"activations are not", activations_are_not},
    {"victims are spread", victims_are_spread},
    {"each weight in pages gives some parts", each_weight_in_pages_gives_some_parts},
    {"what leaves leaves each time", what_leaves_leaves_each_time},
    {"what is clean leaves first", what_is_clean_leaves_first},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap spread", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
