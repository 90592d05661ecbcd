/* SPDX-License-Identifier: Apache-2.0 */
/* Published ways to choose what is computed again: with all memory nothing is, none is below the bound, and
   on a chain each does what its paper says. */
#include "planning/recompute/published/recompute_baselines.h"
#include "tests/support/models/swap_steps.h"
#include "tests/support/suite.h"

#include <stdio.h>

#define SLOW_LINK 1u /* bytes a second: the bound of copies and runs again is that of runs again */

static swap_step_box_t box;

static void let_repeat(void)
{
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        box.kernels[k].is_repeatable = true;
    }
    box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = SLOW_LINK};
}

static uint64_t peak_of(void)
{
    dao_swap_bound_t bound = {0};
    box.problem.capacity_bytes = DAO_SWAP_SIZE_MAX;
    CU_ASSERT_EQUAL_FATAL(dao_swap_find_bound(&box.problem, &bound), DAO_OK);
    return bound.peak_bytes;
}

static void with_all_memory_nothing_runs_again(void)
{
    uint64_t random = dao_test_seed("all memory", 20261124);
    const swap_step_range_t range = {.tensor_max = 14, .kernel_max = 24, .size_max = 60, .time_max = 9};
    for (int round = 0; round < 100; round++) {
        swap_step_random(&box, &range, &random);
        let_repeat();
        box.problem.alignment_bytes = 1;
        box.problem.capacity_bytes = peak_of();
        for (int i = 0; i < DAO_RECOMPUTE_BASELINE_COUNT; i++) {
            dao_recompute_baseline_run_t run = {0};
            dao_status_t status = dao_recompute_baseline(&box.problem, (dao_recompute_baseline_t)i, &run);
            /* Those that play keep what lives on for the whole step, which may be too much. The segments are
               at least one. */
            CU_ASSERT(status == DAO_OK || (status == DAO_ERR_LIMIT && i <= DAO_RECOMPUTE_BASELINE_SQRT));
            CU_ASSERT(i <= DAO_RECOMPUTE_BASELINE_SQRT || run.again_count == 0);
        }
    }
}

/* A forward and a backward run of `layers` with activations of random sizes. */
static void draw_chain(uint64_t *random, uint32_t layers)
{
    swap_step_chain(&box, layers, 1, 1);
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        box.kernels[k].time_ns = dao_random_between(random, 1, 9);
        box.tensors[k % layers].size_bytes = dao_random_between(random, 1, 60);
    }
    box.problem.alignment_bytes = 1;
    let_repeat();
}

static void none_is_below_the_bound(void)
{
    uint64_t random = dao_test_seed("below the bound", 20261125);
    int runs[DAO_RECOMPUTE_BASELINE_COUNT] = {0}, again[DAO_RECOMPUTE_BASELINE_COUNT] = {0};
    for (int round = 0; round < 150; round++) {
        draw_chain(&random, (uint32_t)dao_random_between(&random, 6, 40));
        box.problem.capacity_bytes = peak_of() * dao_random_between(&random, 5, 9) / 10;
        dao_recompute_bound_t bound = {0};
        if (dao_recompute_find_bound(&box.problem, &bound) != DAO_OK) {
            continue; /* too little for a kernel */
        }
        for (int i = 0; i < DAO_RECOMPUTE_BASELINE_COUNT; i++) {
            dao_recompute_baseline_run_t run = {0};
            dao_status_t status = dao_recompute_baseline(&box.problem, (dao_recompute_baseline_t)i, &run);
            CU_ASSERT_FATAL(status == DAO_OK || status == DAO_ERR_LIMIT);
            if (status == DAO_OK) {
                CU_ASSERT(run.step_ns >= bound.step_ns);
                CU_ASSERT_EQUAL(run.step_ns, bound.compute_ns + run.again_ns);
                runs[i]++;
                again[i] += run.again_count > 0;
            }
        }
    }
    for (int i = 0; i < DAO_RECOMPUTE_BASELINE_COUNT; i++) {
        printf("    baseline %d: %d got through, %d with runs again\n", i, runs[i], again[i]);
        CU_ASSERT(runs[i] > 50 && again[i] > 30);
    }
}

/* In 100 equal layers ten segments of ten keep ten activations, and one segment at a time besides. */
static void a_chain_of_a_hundred_is_cut_by_its_root(void)
{
    dao_recompute_baseline_run_t run = {0};
    swap_step_chain(&box, 100, 1000, 10);
    box.problem.alignment_bytes = 1;
    let_repeat();
    box.problem.capacity_bytes = 25 * 1000;
    CU_ASSERT_EQUAL_FATAL(dao_recompute_baseline(&box.problem, DAO_RECOMPUTE_BASELINE_SQRT, &run), DAO_OK);
    CU_ASSERT(run.again_count >= 70 && run.again_count < 100); /* less than one more forward run */
    box.problem.capacity_bytes = 12 * 1000;
    CU_ASSERT_EQUAL(dao_recompute_baseline(&box.problem, DAO_RECOMPUTE_BASELINE_SQRT, &run), DAO_ERR_LIMIT);
}

/* Two activations have to go, and time and size say which: each scheme takes another one. */
static void each_takes_what_it_says(void)
{
    dao_recompute_baseline_run_t run = {0};
    swap_step_chain(&box, 8, 100, 10);
    box.problem.alignment_bytes = 1;
    let_repeat();
    box.kernels[2].time_ns = 1;      /* quick to make */
    box.tensors[5].size_bytes = 150; /* large */
    box.kernels[5].time_ns = 50;
    box.problem.capacity_bytes = peak_of() - 1;
    CU_ASSERT_EQUAL(dao_recompute_baseline(&box.problem, DAO_RECOMPUTE_BASELINE_GREEDY, &run), DAO_OK);
    CU_ASSERT_EQUAL(run.again_ns, 1);
    CU_ASSERT_EQUAL(dao_recompute_baseline(&box.problem, DAO_RECOMPUTE_BASELINE_KNAPSACK, &run), DAO_OK);
    CU_ASSERT_EQUAL(run.again_ns, 1);
    CU_ASSERT_EQUAL(dao_recompute_baseline(&box.problem, DAO_RECOMPUTE_BASELINE_DTR, &run), DAO_OK);
    CU_ASSERT_EQUAL(run.again_ns, 1);
    CU_ASSERT_EQUAL(dao_recompute_baseline(&box.problem, DAO_RECOMPUTE_BASELINE_LARGEST, &run), DAO_OK);
    CU_ASSERT_EQUAL(run.again_ns, 50);
    CU_ASSERT_EQUAL(dao_recompute_baseline(&box.problem, DAO_RECOMPUTE_BASELINE_LRU, &run), DAO_OK);
    CU_ASSERT_EQUAL(run.again_ns, 10); /* the first layer */
}

static void too_little_for_a_kernel_is_refused(void)
{
    dao_recompute_baseline_run_t run = {0};
    swap_step_chain(&box, 8, 1000, 10);
    let_repeat();
    box.problem.capacity_bytes = 10;
    for (int i = 0; i < DAO_RECOMPUTE_BASELINE_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_recompute_baseline(&box.problem, (dao_recompute_baseline_t)i, &run),
                        DAO_ERR_KERNEL_TOO_LARGE);
    }
}

/* Two activations fit beside each other, but not beside the weight that the last kernel reads. */
static void what_lives_on_is_there_from_the_begin(void)
{
    dao_recompute_baseline_run_t run = {0};
    swap_step_chain(&box, 4, 1000, 10);
    let_repeat();
    uint32_t weight = box.problem.tensor_count++;
    box.tensors[weight] = (dao_swap_tensor_t){.size_bytes = 1000, .is_persistent = true};
    box.uses[7][box.kernels[7].use_count++] = (dao_swap_use_t){weight, DAO_ACCESS_READ};
    for (int i = 0; i < DAO_RECOMPUTE_BASELINE_COUNT; i++) {
        box.problem.capacity_bytes = 2999;
        CU_ASSERT_EQUAL(dao_recompute_baseline(&box.problem, (dao_recompute_baseline_t)i, &run),
                        DAO_ERR_LIMIT);
    }
    box.problem.capacity_bytes = 3000;
    CU_ASSERT_EQUAL(dao_recompute_baseline(&box.problem, DAO_RECOMPUTE_BASELINE_DTR, &run), DAO_OK);
}

static CU_TestInfo tests[] = {
    {"with all memory nothing runs again", with_all_memory_nothing_runs_again},
    {"none is below the bound", none_is_below_the_bound},
    {"a chain of a hundred is cut by its root", a_chain_of_a_hundred_is_cut_by_its_root},
    {"each takes what it says", each_takes_what_it_says},
    {"too little for a kernel is refused", too_little_for_a_kernel_is_refused},
    {"what lives on is there from the begin", what_lives_on_is_there_from_the_begin},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"recompute baselines", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
