/* SPDX-License-Identifier: Apache-2.0 */
/* Plans with kernels that run again: each run reads what it should, on a machine of bytes too; never slower
   than swapping alone; not faster than the bound. And the check of such steps finds what is wrong with one.
 */
#include "base/report/fault.h"
#include "planning/recompute/recompute_plan.h"
#include "tests/support/models/swap_machine.h"
#include "tests/support/models/swap_steps.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <dao/recompute.h>
#include <dao/status.h>

#include <stdio.h>
#include <string.h>

#define NS_PER_S 1000000000u

/* Work for the copies of a plan: that they get better is not what these tests are about. */
#define LITTLE_WORK 50000u

enum { FEW_TRIES = 40 };

static swap_step_box_t box;

static dao_recompute_plan_t *plan_of(dao_recompute_mode_t mode)
{
    const dao_recompute_config_t config = {
        .mode = mode, .try_count = FEW_TRIES, .swap = {.work_limit = LITTLE_WORK}};
    dao_recompute_plan_t *plan = NULL;
    dao_status_t status = dao_recompute_plan_make(&box.problem, &config, &plan);
    if (status != DAO_OK && (mode != DAO_RECOMPUTE_MODE_ONLY || status != DAO_ERR_LIMIT)) {
        printf("%s\n", dao_last_message());
        CU_FAIL_FATAL("no plan");
    }
    return plan;
}

static uint64_t swap_only_ns(void)
{
    const dao_swap_plan_config_t config = {.work_limit = LITTLE_WORK};
    dao_swap_plan_t *plan = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_swap_plan_make(&box.problem, &config, &plan), DAO_OK);
    uint64_t step_ns = dao_swap_plan_schedule(plan)->step_ns;
    dao_swap_plan_destroy(plan);
    return step_ns;
}

static void let_repeat(uint64_t *random)
{
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        box.kernels[k].is_repeatable = random == NULL || dao_random_below(random, 8) != 0;
    }
}

/* What holds for every plan. */
static void check_plan(const dao_recompute_plan_t *plan, uint64_t *random)
{
    const dao_recompute_step_t *step = dao_recompute_plan_step(plan);
    const dao_swap_schedule_t *schedule = dao_recompute_plan_schedule(plan);
    dao_recompute_bound_t bound = {0};
    uint64_t compute_ns = 0;
    uint32_t again = 0;
    CU_ASSERT_EQUAL(dao_recompute_check(&box.problem, step), DAO_OK);
    CU_ASSERT(swap_machine_run(&step->problem, schedule, 3, random));
    CU_ASSERT_EQUAL(dao_recompute_find_bound(&box.problem, &bound), DAO_OK);
    CU_ASSERT(schedule->step_ns >= bound.step_ns);
    CU_ASSERT(schedule->arena_bytes <= box.problem.capacity_bytes);
    for (uint32_t i = 0; i < step->problem.kernel_count; i++) {
        again += step->runs[i].is_again;
        compute_ns += step->problem.kernels[i].time_ns;
    }
    CU_ASSERT_EQUAL(step->again_count, again);
    CU_ASSERT_EQUAL(step->again_ns, compute_ns - bound.compute_ns);
}

/* A forward and a backward run with activations of any size, further reads, weights, and changes in place. */
static void draw_layers(uint64_t *random)
{
    uint32_t layers = (uint32_t)dao_random_between(random, 4, 14);
    swap_step_chain(&box, layers, 1, 1);
    uint32_t weight = box.problem.tensor_count++;
    box.tensors[weight] =
        (dao_swap_tensor_t){.size_bytes = dao_random_between(random, 1, 20), .is_persistent = true};
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        box.kernels[k].time_ns = dao_random_below(random, 10);
        uint32_t layer = k < layers ? k : 2 * layers - 1 - k;
        if (k < layers) {
            box.tensors[k].size_bytes = dao_random_between(random, 1, 60);
        }
        if (k > 0 && k < layers && dao_random_below(random, 6) == 0) {
            box.uses[k][1].access = DAO_ACCESS_READ_WRITE;
        }
        if (layer > 1 && dao_random_below(random, 4) == 0) {
            box.uses[k][box.kernels[k].use_count++] =
                (dao_swap_use_t){(uint32_t)dao_random_below(random, layer - 1), DAO_ACCESS_READ};
        }
        if (dao_random_below(random, 3) == 0) {
            box.uses[k][box.kernels[k].use_count++] = (dao_swap_use_t){
                weight, dao_random_below(random, 8) == 0 ? DAO_ACCESS_READ_WRITE : DAO_ACCESS_READ};
        }
    }
}

static void every_run_reads_what_the_first_one_did(void)
{
    uint64_t random = dao_test_seed("every run reads", 20260911);
    const swap_step_range_t range = {
        .tensor_max = 14, .kernel_max = 24, .size_max = 60, .time_max = 9, .workspace_max = 10};
    int with_runs = 0, faster = 0, alone = 0;
    for (int round = 0; round < TEST_ROUNDS(150); round++) {
        if (round % 4 == 0) {
            swap_step_random(&box, &range, &random);
        } else {
            draw_layers(&random);
        }
        let_repeat(&random);
        box.problem.host.in_bytes_per_second = NS_PER_S / dao_random_between(&random, 1, 30);
        dao_swap_bound_t whole = {0};
        CU_ASSERT_EQUAL_FATAL(dao_swap_find_bound(&box.problem, &whole), DAO_OK);
        box.problem.capacity_bytes =
            whole.least_capacity_bytes +
            (whole.peak_bytes - whole.least_capacity_bytes) * dao_random_below(&random, 8) / 8;
        dao_recompute_plan_t *plan = plan_of(DAO_RECOMPUTE_MODE_HYBRID);
        check_plan(plan, &random);
        uint64_t hybrid_ns = dao_recompute_plan_schedule(plan)->step_ns, swap_ns = swap_only_ns();
        CU_ASSERT(hybrid_ns <= swap_ns);
        with_runs += dao_recompute_plan_step(plan)->again_count > 0;
        faster += hybrid_ns < swap_ns;
        dao_recompute_plan_destroy(plan);
        plan = plan_of(DAO_RECOMPUTE_MODE_ONLY);
        if (plan != NULL) {
            check_plan(plan, &random);
            CU_ASSERT_EQUAL(dao_recompute_plan_schedule(plan)->in_bytes, 0);
            CU_ASSERT_EQUAL(dao_recompute_plan_schedule(plan)->out_bytes, 0);
            CU_ASSERT(hybrid_ns <= dao_recompute_plan_schedule(plan)->step_ns);
            alone += dao_recompute_plan_step(plan)->again_count > 0;
            dao_recompute_plan_destroy(plan);
        }
    }
    printf("%d with repeated runs, %d faster than swapping, %d without copies\n", with_runs, faster, alone);
    CU_ASSERT(with_runs > TEST_ROUNDS(10) && faster > TEST_ROUNDS(10) && alone > 0);
}

/* Returns what the best of others takes, planned as ours is; UINT64_MAX: none gets through. Capuchin is not
   asked where nothing may be copied. */
static uint64_t best_published_ns(bool is_alone)
{
    const dao_swap_plan_config_t config = {.work_limit = LITTLE_WORK};
    uint64_t best_ns = UINT64_MAX;
    for (uint32_t way = 0; way < (is_alone ? DAO_RECOMPUTE_CAPUCHIN : DAO_RECOMPUTE_PUBLISHED_COUNT); way++) {
        dao_recompute_plan_t *plan = NULL;
        dao_status_t status = dao_recompute_plan_published(&box.problem, way, &config, &plan);
        CU_ASSERT_FATAL(status == DAO_OK || status == DAO_ERR_LIMIT);
        const dao_swap_schedule_t *schedule = dao_recompute_plan_schedule(plan);
        bool moves = plan != NULL && schedule->in_bytes + schedule->out_bytes > 0;
        if (plan != NULL && !(is_alone && moves) && schedule->step_ns < best_ns) {
            best_ns = schedule->step_ns;
        }
        dao_recompute_plan_destroy(plan);
    }
    return best_ns;
}

/* A search of one try finds next to nothing, so that others often would be quicker. */
static void no_plan_is_slower_than_what_others_run_again(void)
{
    uint64_t random = dao_test_seed("others", 20261130);
    int equal = 0, alone = 0;
    for (int round = 0; round < 120; round++) {
        draw_layers(&random);
        let_repeat(round % 2 == 0 ? NULL : &random);
        box.problem.host =
            (dao_swap_tier_t){.in_bytes_per_second = NS_PER_S / dao_random_between(&random, 1, 30),
                              .duplex = round % 3 == 0 ? DAO_SWAP_DUPLEX_HALF : DAO_SWAP_DUPLEX_FULL};
        box.problem.host.out_bytes_per_second =
            round % 4 == 0 ? box.problem.host.in_bytes_per_second / 2 + 1 : 0;
        dao_swap_bound_t whole = {0};
        CU_ASSERT_EQUAL_FATAL(dao_swap_find_bound(&box.problem, &whole), DAO_OK);
        box.problem.capacity_bytes =
            whole.least_capacity_bytes +
            (whole.peak_bytes - whole.least_capacity_bytes) * dao_random_below(&random, 8) / 8;
        box.problem.page_bytes = 0;
        for (int mode = 0; mode < 2; mode++) {
            bool is_alone = mode == DAO_RECOMPUTE_MODE_ONLY;
            const dao_recompute_config_t config = {
                .mode = (dao_recompute_mode_t)mode, .try_count = 1, .swap = {.work_limit = LITTLE_WORK}};
            dao_recompute_plan_t *plan = NULL;
            dao_status_t status = dao_recompute_plan_make(&box.problem, &config, &plan);
            CU_ASSERT_FATAL(status == DAO_OK || (is_alone && status == DAO_ERR_LIMIT));
            uint64_t others_ns = best_published_ns(is_alone);
            uint64_t ours_ns = plan != NULL ? dao_recompute_plan_schedule(plan)->step_ns : UINT64_MAX;
            CU_ASSERT(ours_ns <= others_ns);
            equal += ours_ns == others_ns && others_ns != UINT64_MAX;
            alone += is_alone && others_ns != UINT64_MAX;
            dao_recompute_plan_destroy(plan);
        }
    }
    printf("%d equal to others, %d of others without copies\n", equal, alone);
    CU_ASSERT(equal > 10 && alone > 10);
}

/* What leaves goes to the host as far as its limit goes, to a file, or is made again; where copies alone do
   not get through, runs again may. */
static void tiers_keep_their_limits(void)
{
    uint64_t random = dao_test_seed("tiers", 20261124);
    int with_file = 0, with_runs = 0, swap_full = 0, full = 0;
    for (int round = 0; round < TEST_ROUNDS(120); round++) {
        draw_layers(&random);
        let_repeat(&random);
        box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = NS_PER_S / 4,
                                             .limit_bytes = 1 + dao_random_below(&random, 200)};
        box.problem.file = (dao_swap_tier_t){0};
        if (round % 3 != 0) {
            box.problem.file =
                (dao_swap_tier_t){.in_bytes_per_second = NS_PER_S / 20,
                                  .limit_bytes = round % 3 == 1 ? 1 + dao_random_below(&random, 200) : 0};
        }
        dao_swap_bound_t whole = {0};
        CU_ASSERT_EQUAL_FATAL(dao_swap_find_bound(&box.problem, &whole), DAO_OK);
        box.problem.capacity_bytes =
            whole.least_capacity_bytes +
            (whole.peak_bytes - whole.least_capacity_bytes) * dao_random_below(&random, 4) / 6;
        const dao_recompute_config_t config = {.try_count = FEW_TRIES, .swap = {.work_limit = LITTLE_WORK}};
        dao_swap_plan_t *swap = NULL;
        dao_recompute_plan_t *plan = NULL;
        dao_status_t swap_status = dao_swap_plan_make(&box.problem, &config.swap, &swap);
        dao_status_t status = dao_recompute_plan_make(&box.problem, &config, &plan);
        CU_ASSERT(status == DAO_OK || (status == DAO_ERR_HOST_FULL && swap_status == DAO_ERR_HOST_FULL));
        if (status == DAO_OK) {
            const dao_swap_schedule_t *schedule = dao_recompute_plan_schedule(plan);
            uint64_t file_limit = box.problem.file.limit_bytes,
                     machine = random; /* other plans, same steps */
            check_plan(plan, &machine);
            CU_ASSERT(schedule->host_bytes <= box.problem.host.limit_bytes);
            CU_ASSERT(file_limit == 0 || schedule->file_bytes <= file_limit);
            CU_ASSERT(box.problem.file.in_bytes_per_second != 0 || schedule->file_bytes == 0);
            CU_ASSERT(swap == NULL || schedule->step_ns <= dao_swap_plan_schedule(swap)->step_ns);
            with_file += schedule->file_bytes > 0;
            with_runs += dao_recompute_plan_step(plan)->again_count > 0;
            swap_full += swap_status == DAO_ERR_HOST_FULL;
        }
        full += status != DAO_OK;
        dao_recompute_plan_destroy(plan);
        dao_swap_plan_destroy(swap);
    }
    printf("%d with a file, %d with repeated runs, %d where copies alone do not get through, %d refused\n",
           with_file, with_runs, swap_full, full);
    CU_ASSERT(with_file > TEST_ROUNDS(10) && with_runs > TEST_ROUNDS(10) && swap_full > TEST_ROUNDS(5) &&
              full > 0);
    box.problem.host = box.problem.file = (dao_swap_tier_t){0};
}

/* With a slow link a chain keeps some of its activations and makes the others again from these. */
static void a_chain_is_cut_into_segments(void)
{
    enum { LAYERS = 36, KEPT = 14 };
    uint64_t random = dao_test_seed("a chain", 20260912);
    swap_step_chain(&box, LAYERS, 1000, 10);
    let_repeat(NULL);
    box.problem.host.in_bytes_per_second = NS_PER_S / 1000;
    box.problem.capacity_bytes = KEPT * 1000;
    dao_recompute_plan_t *plan = plan_of(DAO_RECOMPUTE_MODE_ONLY);
    CU_ASSERT_PTR_NOT_NULL_FATAL(plan);
    check_plan(plan, &random);
    /* sqrt(n) segments need 2 sqrt(n) activations, and not quite one more forward run */
    CU_ASSERT(dao_recompute_plan_step(plan)->again_count <= LAYERS);
    CU_ASSERT(dao_recompute_plan_step(plan)->again_count >= LAYERS - KEPT);
    dao_recompute_plan_destroy(plan);
}

/* Where no addresses are found for what just fits in bytes, more is made again than bytes ask for. */
static void runs_alone_are_found_where_bytes_just_fit(void)
{
    uint64_t random = dao_test_seed("just fits", 20261123);
    int with_runs = 0;
    for (int round = 0; round < TEST_ROUNDS(60); round++) {
        draw_layers(&random);
        let_repeat(NULL);
        box.problem.host.in_bytes_per_second = NS_PER_S;
        dao_swap_bound_t whole = {0};
        CU_ASSERT_EQUAL_FATAL(dao_swap_find_bound(&box.problem, &whole), DAO_OK);
        box.problem.capacity_bytes = whole.peak_bytes;
        dao_recompute_plan_t *plan = plan_of(DAO_RECOMPUTE_MODE_ONLY);
        if (plan != NULL) {
            check_plan(plan, &random);
            with_runs += dao_recompute_plan_step(plan)->again_count > 0;
            dao_recompute_plan_destroy(plan);
        }
    }
    printf("%d with repeated runs\n", with_runs);
    CU_ASSERT(with_runs > TEST_ROUNDS(10));
}

/* A content that two kernels made, the second in place, is made again by both. */
static void a_change_in_place_is_made_from_the_start(void)
{
    uint64_t random = dao_test_seed("in place", 20260913);
    enum { LAYERS = 8 };
    swap_step_chain(&box, LAYERS, 1000, 10);
    for (uint32_t k = 1; k + 1 < LAYERS; k++) { /* each layer changes what the one before has written */
        box.uses[k][1].access = DAO_ACCESS_READ_WRITE;
    }
    let_repeat(NULL);
    box.problem.host.in_bytes_per_second = NS_PER_S / 1000;
    box.problem.capacity_bytes = 6000;
    dao_recompute_plan_t *plan = plan_of(DAO_RECOMPUTE_MODE_HYBRID);
    check_plan(plan, &random);
    CU_ASSERT(dao_recompute_plan_step(plan)->again_count > 0);
    dao_recompute_plan_destroy(plan);
}

/* A weight is updated between a kernel's first run and when its output is read last. */
static void what_has_been_written_since_is_not_read_again(void)
{
    uint64_t random = dao_test_seed("a weight is updated", 20260914);
    swap_step_chain(&box, 6, 1000, 10);
    uint32_t weight = box.problem.tensor_count++;
    box.tensors[weight] = (dao_swap_tensor_t){.size_bytes = 100, .is_persistent = true};
    for (uint32_t k = 0; k < 6; k++) {
        box.uses[k][box.kernels[k].use_count++] = (dao_swap_use_t){weight, DAO_ACCESS_READ};
    }
    box.uses[6][box.kernels[6].use_count++] = (dao_swap_use_t){weight, DAO_ACCESS_READ_WRITE};
    let_repeat(NULL);
    box.problem.host.in_bytes_per_second = NS_PER_S / 1000;
    box.problem.capacity_bytes = 4200;
    dao_recompute_plan_t *plan = plan_of(DAO_RECOMPUTE_MODE_HYBRID);
    check_plan(plan, &random);
    CU_ASSERT_EQUAL(dao_recompute_plan_step(plan)->again_count, 0);
    dao_recompute_plan_destroy(plan);
}

/*  kernel     0     1     2     3     4     5
    weight 10  R           U                       it is updated, so that 0 cannot run again from then on
    small 10   W-----R
    large 100        W-----------------------R
    other 100                    W-----R

    There is no room for both large ones. The small one is held beyond its last read, and the large one made
    of it once more. `is_less`: else it is as large as what it spares. */
static void make_held(bool is_less)
{
    enum { WEIGHT, SMALL, LARGE, OTHER };
    static const dao_swap_use_t uses[6][2] = {{{WEIGHT, DAO_ACCESS_READ}, {SMALL, DAO_ACCESS_WRITE}},
                                              {{SMALL, DAO_ACCESS_READ}, {LARGE, DAO_ACCESS_WRITE}},
                                              {{WEIGHT, DAO_ACCESS_READ_WRITE}},
                                              {{OTHER, DAO_ACCESS_WRITE}},
                                              {{OTHER, DAO_ACCESS_READ}},
                                              {{LARGE, DAO_ACCESS_READ}}};
    memset(&box, 0, sizeof(box));
    for (uint32_t k = 0; k < 6; k++) {
        memcpy(box.uses[k], uses[k], sizeof(uses[k]));
        box.kernels[k] = (dao_swap_kernel_t){.time_ns = 10, .uses = box.uses[k], .use_count = k < 2 ? 2 : 1};
    }
    for (uint32_t t = 0; t < 4; t++) {
        box.tensors[t] = (dao_swap_tensor_t){.size_bytes = t == LARGE || t == OTHER ? 100 : 10,
                                             .is_persistent = t == WEIGHT};
    }
    box.tensors[SMALL].size_bytes = is_less ? 10 : 100;
    box.problem = (dao_swap_problem_t){.tensors = box.tensors,
                                       .tensor_count = 4,
                                       .kernels = box.kernels,
                                       .kernel_count = 6,
                                       .capacity_bytes = is_less ? 120 : 209,
                                       .host = {.in_bytes_per_second = NS_PER_S / 1000},
                                       .alignment_bytes = 1};
    let_repeat(NULL);
}

static void what_a_content_is_made_of_is_held_where_it_is_less(void)
{
    uint64_t random = dao_test_seed("held", 22);
    make_held(true);
    dao_recompute_plan_t *plan = plan_of(DAO_RECOMPUTE_MODE_HYBRID);
    check_plan(plan, &random);
    CU_ASSERT_EQUAL(dao_recompute_plan_step(plan)->again_count, 1);
    CU_ASSERT_EQUAL(dao_recompute_plan_schedule(plan)->step_ns, 70);
    dao_recompute_plan_destroy(plan);
    make_held(false); /* a byte is copied */
    plan = plan_of(DAO_RECOMPUTE_MODE_HYBRID);
    check_plan(plan, &random);
    CU_ASSERT_EQUAL(dao_recompute_plan_step(plan)->again_count, 0);
    dao_recompute_plan_destroy(plan);
}

/* ---- the check ---- */

/* kernel 0 makes 0 of the weight 2, 1 makes 1 of 0, 0 again into 3, 2 reads 1 and 3 */
static dao_swap_use_t run_uses[4][3];
static dao_swap_kernel_t run_kernels[4];
static dao_swap_tensor_t run_tensors[4];
static dao_recompute_run_t runs[4];
static uint32_t sources[4];

static dao_recompute_step_t short_step(void)
{
    swap_step_chain(&box, 1, 1000, 10);
    box.problem.tensor_count = 3;
    box.problem.kernel_count = 3;
    box.tensors[0] = box.tensors[1] = (dao_swap_tensor_t){.size_bytes = 1000};
    box.tensors[2] = (dao_swap_tensor_t){.size_bytes = 1000, .is_persistent = true};
    const dao_swap_use_t uses[3][3] = {
        {{0, DAO_ACCESS_WRITE}, {2, DAO_ACCESS_READ}},
        {{1, DAO_ACCESS_WRITE}, {0, DAO_ACCESS_READ}},
        {{1, DAO_ACCESS_READ}, {0, DAO_ACCESS_READ}, {2, DAO_ACCESS_READ_WRITE}}};
    const uint32_t counts[3] = {2, 2, 3};
    for (uint32_t k = 0; k < 3; k++) {
        memcpy(box.uses[k], uses[k], sizeof(uses[k]));
        box.kernels[k] = (dao_swap_kernel_t){
            .time_ns = 10, .uses = box.uses[k], .use_count = counts[k], .is_repeatable = k == 0};
    }
    static const uint32_t order[4] = {0, 1, 0, 2};
    for (uint32_t i = 0; i < 4; i++) {
        runs[i] = (dao_recompute_run_t){order[i], i == 2};
        memcpy(run_uses[i], box.uses[order[i]], sizeof(run_uses[i]));
        run_kernels[i] = box.kernels[order[i]];
        run_kernels[i].uses = run_uses[i];
        run_tensors[i] = i < 3 ? box.tensors[i] : box.tensors[0];
        sources[i] = i < 3 ? i : 0;
    }
    run_uses[2][0].tensor = run_uses[3][1].tensor = 3;
    dao_recompute_step_t step = {.problem = box.problem, .runs = runs, .tensor_sources = sources};
    step.problem.tensors = run_tensors;
    step.problem.tensor_count = 4;
    step.problem.kernels = run_kernels;
    step.problem.kernel_count = 4;
    return step;
}

static void the_check_finds_what_is_wrong(void)
{
    dao_recompute_step_t step = short_step();
    CU_ASSERT_EQUAL(dao_recompute_check(&box.problem, &step), DAO_OK);
    step = short_step();
    box.kernels[0].is_repeatable = false;
    CU_ASSERT_EQUAL(dao_recompute_check(&box.problem, &step), DAO_ERR_CORRUPT);
    step = short_step();
    step.problem.kernel_count = 3; /* the last kernel does not run */
    CU_ASSERT_EQUAL(dao_recompute_check(&box.problem, &step), DAO_ERR_CORRUPT);
    step = short_step();
    runs[2].is_again = false; /* a first run twice */
    CU_ASSERT_EQUAL(dao_recompute_check(&box.problem, &step), DAO_ERR_CORRUPT);
    step = short_step();
    run_uses[2][0].tensor = 1; /* written where another content is read */
    CU_ASSERT_EQUAL(dao_recompute_check(&box.problem, &step), DAO_ERR_CORRUPT);
    step = short_step();
    run_uses[1][0].tensor = 3; /* tensor 1 is not made */
    sources[3] = 1;
    CU_ASSERT_EQUAL(dao_recompute_check(&box.problem, &step), DAO_ERR_CORRUPT);
    step = short_step();
    run_kernels[2].time_ns = 9;
    CU_ASSERT_EQUAL(dao_recompute_check(&box.problem, &step), DAO_ERR_CORRUPT);
    step = short_step();
    run_tensors[3].size_bytes = 999;
    CU_ASSERT_EQUAL(dao_recompute_check(&box.problem, &step), DAO_ERR_CORRUPT);
    step = short_step(); /* the weight is updated before the kernel runs again */
    box.uses[1][0] = run_uses[1][0] = (dao_swap_use_t){2, DAO_ACCESS_READ_WRITE};
    CU_ASSERT_EQUAL(dao_recompute_check(&box.problem, &step), DAO_ERR_CORRUPT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "run 2 of kernel 0"));
    CU_ASSERT_EQUAL(dao_recompute_check(NULL, &step), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_recompute_check(&box.problem, NULL), DAO_ERR_INVALID);
}

static void what_cannot_be_planned_is_refused(void)
{
    dao_recompute_plan_t *plan = NULL;
    dao_recompute_config_t config = {.mode = (dao_recompute_mode_t)2};
    swap_step_chain(&box, 4, 1000, 10);
    box.problem.host.in_bytes_per_second = NS_PER_S;
    CU_ASSERT_EQUAL(dao_recompute_plan_make(NULL, NULL, &plan), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_recompute_plan_make(&box.problem, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_recompute_plan_make(&box.problem, &config, &plan), DAO_ERR_INVALID);
    box.problem.capacity_bytes = 1999;
    CU_ASSERT_EQUAL(dao_recompute_plan_make(&box.problem, NULL, &plan), DAO_ERR_KERNEL_TOO_LARGE);
    config.mode = DAO_RECOMPUTE_MODE_ONLY;
    box.problem.capacity_bytes = 2000; /* no kernel may run again */
    CU_ASSERT_EQUAL(dao_recompute_plan_make(&box.problem, &config, &plan), DAO_ERR_LIMIT);
    config = (dao_recompute_config_t){.known_ns = UINT64_MAX}; /* a full host is told, whatever is known */
    box.problem.host.limit_bytes = 1;
    CU_ASSERT_EQUAL(dao_recompute_plan_make(&box.problem, &config, &plan), DAO_ERR_HOST_FULL);
    CU_ASSERT_PTR_NULL(plan);
    CU_ASSERT_PTR_NULL(dao_recompute_plan_step(NULL));
    CU_ASSERT_PTR_NULL(dao_recompute_plan_schedule(NULL));
    dao_recompute_plan_destroy(NULL);
}

typedef struct told {
    uint32_t count, last;
} told_t;

static void take_progress(void *user, uint32_t done)
{
    told_t *told = user;
    CU_ASSERT(done > told->last && done <= DAO_RECOMPUTE_PROGRESS_PARTS);
    told->count++;
    told->last = done;
}

/* What is known rules out what cannot be quicker, and nothing else; the progress only grows. */
static void what_is_known_is_not_planned_again(void)
{
    uint64_t random = dao_test_seed("what is known", 23);
    int planned = 0;
    for (int round = 0; round < TEST_ROUNDS(20); round++) {
        told_t told = {0};
        dao_recompute_plan_t *free_plan, *plan = NULL;
        dao_recompute_bound_t bound = {0};
        swap_step_chain(&box, 6 + (uint32_t)dao_random_below(&random, 6), 1000, 10);
        let_repeat(NULL);
        box.problem.host.in_bytes_per_second = NS_PER_S / (1 + (uint32_t)dao_random_below(&random, 100));
        box.problem.capacity_bytes = 3000;
        free_plan = plan_of(DAO_RECOMPUTE_MODE_HYBRID);
        uint64_t step_ns = dao_recompute_plan_schedule(free_plan)->step_ns;
        dao_recompute_config_t config = {.try_count = FEW_TRIES,
                                         .swap = {.work_limit = LITTLE_WORK},
                                         .known_ns = step_ns + 1,
                                         .on_progress = take_progress,
                                         .progress_user = &told};
        CU_ASSERT_EQUAL_FATAL(dao_recompute_plan_make(&box.problem, &config, &plan), DAO_OK);
        CU_ASSERT_EQUAL(dao_recompute_plan_schedule(plan)->step_ns, step_ns);
        CU_ASSERT(told.count > 3);
        dao_recompute_plan_destroy(plan);
        plan = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_recompute_find_bound(&box.problem, &bound), DAO_OK);
        config = (dao_recompute_config_t){.try_count = FEW_TRIES, .known_ns = bound.step_ns};
        CU_ASSERT_EQUAL(dao_recompute_plan_make(&box.problem, &config, &plan), DAO_ERR_LIMIT);
        CU_ASSERT_PTR_NULL(plan);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "no plan is quicker than"));
        dao_recompute_plan_destroy(free_plan);
        planned += step_ns > bound.step_ns;
    }
    CU_ASSERT(planned > 0);
}

#if defined(DAO_FAULTS)
static void no_host_memory_is_answered(void)
{
    swap_step_chain(&box, 6, 1000, 10);
    let_repeat(NULL);
    box.problem.host.in_bytes_per_second = NS_PER_S / 100;
    box.problem.capacity_bytes = 3000;
    const dao_recompute_config_t config = {.try_count = 2, .swap = {.work_limit = 1}};
    uint32_t points = 0, refusals = 0;
    uint64_t failed;
    do {
        dao_recompute_plan_t *plan = NULL;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, points++, false);
        dao_status_t status = dao_recompute_plan_make(&box.problem, &config, &plan);
        failed = dao_fault_disarm();
        CU_ASSERT(status == DAO_OK || (failed != 0 && status == DAO_ERR_NO_HOST_MEMORY));
        CU_ASSERT_EQUAL(plan != NULL, status == DAO_OK);
        refusals += status != DAO_OK;
        dao_recompute_plan_destroy(plan);
    } while (failed != 0);
    CU_ASSERT(refusals > 40);
}
#endif

static CU_TestInfo tests[] = {
    {"every run reads what the first one did", every_run_reads_what_the_first_one_did},
    {"tiers keep their limits", tiers_keep_their_limits},
    {"a chain is cut into segments", a_chain_is_cut_into_segments},
    {"no plan is slower than what others run again", no_plan_is_slower_than_what_others_run_again},
    {"runs alone are found where bytes just fit", runs_alone_are_found_where_bytes_just_fit},
    {"a change in place is made from the start", a_change_in_place_is_made_from_the_start},
    {"what has been written since is not read again", what_has_been_written_since_is_not_read_again},
    {"what a content is made of is held where it is less",
     what_a_content_is_made_of_is_held_where_it_is_less},
    {"the check finds what is wrong", the_check_finds_what_is_wrong},
    {"what cannot be planned is refused", what_cannot_be_planned_is_refused},
    {"what is known is not planned again", what_is_known_is_not_planned_again},
#if defined(DAO_FAULTS)
    {"no host memory is answered", no_host_memory_is_answered},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"recompute plan", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
