/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of steps whose kernels are on several compute streams: played byte by byte in any order that their
   fences allow, never below the bound, and no slower than with all kernels on one stream. */
#include "tests/support/models/swap_machine.h"
#include "tests/support/models/swap_steps.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <dao/recompute.h>

#include <stdio.h>
#include <string.h>

#define NS_PER_S 1000000000u

#define R DAO_ACCESS_READ
#define W DAO_ACCESS_WRITE

/* A few dozen changes; and enough of them that it hardly matters what a search has of it. */
#define LITTLE_WORK 100000u
#define MUCH_WORK   2000000u

enum { UNIT = 64, KERNEL_NS = 100 };

static swap_step_box_t box;

static dao_swap_plan_t *plan_with(const dao_swap_plan_config_t *config)
{
    dao_swap_plan_t *plan = NULL;
    dao_status_t status = dao_swap_plan_make(&box.problem, config, &plan);
    if (status != DAO_OK) {
        (void)printf("%s\n", dao_last_message());
    }
    CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
    return plan;
}

static dao_swap_bound_t bound_of(void)
{
    dao_swap_bound_t bound = {0};
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_OK);
    return bound;
}

/* A random step of kernels on random streams, and how its links are. */
static void make_step(uint64_t *random)
{
    const swap_step_range_t range = {
        .tensor_max = 14, .kernel_max = 24, .size_max = 60, .time_max = 100, .workspace_max = 20};
    swap_step_random(&box, &range, random);
    uint32_t count = 2 + (uint32_t)dao_random_below(random, DAO_SWAP_COMPUTE_STREAM_MAX - 1);
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        box.kernels[k].stream = (uint32_t)dao_random_below(random, count);
    }
    box.problem.alignment_bytes = 1;
    box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = NS_PER_S,
                                         .latency_ns = dao_random_next(random) % 3,
                                         .duplex = (dao_swap_duplex_t)(dao_random_next(random) % 2)};
    box.problem.capacity_bytes = DAO_SWAP_SIZE_MAX;
    dao_swap_bound_t bound = bound_of();
    box.problem.capacity_bytes =
        bound.least_capacity_bytes +
        dao_random_next(random) % 8 * (bound.peak_bytes - bound.least_capacity_bytes) / 7;
}

/* What a step takes by the same fences if no kernel runs beside another one. */
static uint64_t step_ns_in_a_row(uint64_t work_limit)
{
    uint32_t streams[SWAP_STEP_KERNEL_MAX];
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        streams[k] = box.kernels[k].stream;
        box.kernels[k].stream = 0;
    }
    const dao_swap_plan_config_t config = {.work_limit = work_limit};
    dao_swap_plan_t *plan = plan_with(&config);
    uint64_t step_ns = dao_swap_plan_schedule(plan)->step_ns;
    dao_swap_plan_destroy(plan);
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        box.kernels[k].stream = streams[k];
    }
    return step_ns;
}

static void every_kernel_finds_its_bytes(void)
{
    uint64_t random = dao_test_seed("streams", 4);
    int with_copies = 0, with_parts = 0, without_addresses = 0, beside = 0;
    for (int round = 0; round < TEST_ROUNDS(200); round++) {
        make_step(&random);
        const dao_swap_plan_config_t config = {
            .granularity = (dao_swap_granularity_t)(dao_random_next(&random) % 3),
            .addresses =
                dao_random_next(&random) % 3 != 0 ? DAO_SWAP_ADDRESSES_STATIC : DAO_SWAP_ADDRESSES_NONE,
            .part_bytes = 8 + dao_random_next(&random) % 20,
            .work_limit = LITTLE_WORK};
        dao_swap_plan_t *plan = plan_with(&config);
        const dao_swap_schedule_t *schedule = dao_swap_plan_schedule(plan);
        CU_ASSERT(schedule->arena_bytes <= box.problem.capacity_bytes);
        CU_ASSERT(schedule->step_ns >= bound_of().step_ns);
        for (int order = 0; order < 3; order++) {
            CU_ASSERT_FATAL(swap_machine_run(&box.problem, schedule, 4, &random));
        }
        with_copies += schedule->in_bytes > 0;
        with_parts += schedule->part_bytes > 0;
        without_addresses += schedule->use_address == NULL;
        beside += schedule->step_ns < bound_of().compute_ns;
        dao_swap_plan_destroy(plan);
    }
    CU_ASSERT(with_copies > TEST_ROUNDS(80) && with_parts > TEST_ROUNDS(30));
    CU_ASSERT(without_addresses > TEST_ROUNDS(30) && beside > TEST_ROUNDS(20));
}

/* ---- times ---- */

/* Kernels of a weight each, with a link that is as fast as they are. */
static void begin(uint32_t kernel_count)
{
    swap_step_stream(&box, kernel_count, UNIT, KERNEL_NS);
    box.problem.alignment_bytes = 1;
    box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = (uint64_t)UNIT * NS_PER_S / KERNEL_NS};
    box.problem.capacity_bytes = (uint64_t)UNIT * kernel_count;
    for (uint32_t k = 0; k < kernel_count; k++) {
        box.kernels[k].stream = k % 2;
    }
}

static void use(uint32_t kernel, uint32_t tensor, dao_access_t access)
{
    box.uses[kernel][box.kernels[kernel].use_count++] = (dao_swap_use_t){tensor, access};
}

static uint64_t step_ns_with(uint64_t work_limit)
{
    const dao_swap_plan_config_t config = {.work_limit = work_limit};
    dao_swap_plan_t *plan = plan_with(&config);
    uint64_t taken_ns = dao_swap_plan_schedule(plan)->step_ns;
    dao_swap_plan_destroy(plan);
    return taken_ns;
}

static uint64_t step_ns(void)
{
    return step_ns_with(LITTLE_WORK);
}

static void kernels_of_two_streams_run_beside_each_other(void)
{
    begin(4);
    CU_ASSERT_EQUAL(step_ns(), 2 * KERNEL_NS);
    CU_ASSERT_EQUAL(bound_of().step_ns, 2 * KERNEL_NS);
    CU_ASSERT_EQUAL(bound_of().compute_ns, 4 * KERNEL_NS);
    box.kernels[1].stream = 0;
    CU_ASSERT_EQUAL(step_ns(), 3 * KERNEL_NS);
    box.kernels[3].stream = 0;
    CU_ASSERT_EQUAL(step_ns(), 4 * KERNEL_NS);
    for (uint32_t k = 0; k < 4; k++) {
        box.kernels[k].stream = 3 - k;
    }
    CU_ASSERT_EQUAL(step_ns(), KERNEL_NS);
}

/* Each kernel reads what the one before it wrote, in the end the first one of the next step as well. */
static void kernels_wait_for_what_they_read(void)
{
    begin(4);
    for (uint32_t k = 0; k < 4; k++) {
        box.uses[k][0].access = W;
        if (k > 0) {
            use(k, k - 1, R);
        }
    }
    for (uint32_t t = 0; t < 4; t++) {
        box.tensors[t].is_persistent = true;
    }
    CU_ASSERT_EQUAL(bound_of().step_ns, 3 * KERNEL_NS); /* the last kernel may run beside the next step */
    CU_ASSERT(step_ns() >= bound_of().step_ns && step_ns() <= 4 * KERNEL_NS);
    use(0, 3, R);
    CU_ASSERT_EQUAL(step_ns(), 4 * KERNEL_NS);
    CU_ASSERT_EQUAL(bound_of().step_ns, 4 * KERNEL_NS);
}

/* A content is overwritten only once kernels of other streams have read it. */
static void writers_wait_for_readers(void)
{
    begin(2);
    box.problem.tensor_count = 1;
    box.kernels[1].time_ns = 10 * KERNEL_NS;
    box.uses[0][0].access = DAO_ACCESS_READ_WRITE;
    box.uses[1][0] = (dao_swap_use_t){0, R};
    CU_ASSERT_EQUAL(step_ns(), 11 * KERNEL_NS);
}

/* Both streams read what one copy brings: neither comes before it. */
static void all_streams_wait_for_a_copy(void)
{
    begin(4);
    box.problem.capacity_bytes = 2 * UNIT;
    for (uint32_t k = 0; k < 4; k++) {
        box.uses[k][0].tensor = k / 2;
        box.kernels[k].time_ns = 1;
    }
    box.problem.tensor_count = 2;
    use(0, 2, R);
    box.problem.tensor_count = 3;
    const dao_swap_plan_config_t config = {.granularity = DAO_SWAP_GRANULARITY_WHOLE};
    dao_swap_plan_t *plan = plan_with(&config);
    const dao_swap_schedule_t *schedule = dao_swap_plan_schedule(plan);
    uint64_t random = 1;
    CU_ASSERT(schedule->copy_count[DAO_SWAP_STREAM_HOST_IN] > 0);
    uint32_t waiting = 0;
    for (uint32_t k = 0; k < 4; k++) {
        waiting += schedule->kernel_after[k].done[DAO_SWAP_STREAM_HOST_IN] != DAO_SWAP_NO_WAIT;
    }
    CU_ASSERT(waiting > schedule->copy_count[DAO_SWAP_STREAM_HOST_IN]);
    CU_ASSERT(swap_machine_run(&box.problem, schedule, 6, &random));
    dao_swap_plan_destroy(plan);
}

/* With all on one stream, whichever it is, a plan is the same. */
static void one_stream_is_one_stream(void)
{
    uint64_t random = dao_test_seed("one stream", 7);
    for (int round = 0; round < TEST_ROUNDS(40); round++) {
        make_step(&random);
        uint64_t in_a_row_ns = step_ns_in_a_row(LITTLE_WORK);
        for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
            box.kernels[k].stream = DAO_SWAP_COMPUTE_STREAM_MAX - 1;
        }
        CU_ASSERT_EQUAL(step_ns(), in_a_row_ns);
    }
}

/* Kernels beside each other never make a step longer, and mostly make it shorter. */
static void streams_spare_time(void)
{
    uint64_t random = dao_test_seed("spared", 11);
    int shorter = 0;
    for (int round = 0; round < TEST_ROUNDS(150); round++) {
        make_step(&random);
        uint64_t beside_ns = step_ns_with(MUCH_WORK), in_a_row_ns = step_ns_in_a_row(MUCH_WORK);
        CU_ASSERT(beside_ns <= in_a_row_ns);
        shorter += beside_ns < in_a_row_ns;
    }
    CU_ASSERT(shorter > TEST_ROUNDS(75));
}

/* While two streams go over weights that do not all fit, the link has half the time that it would have if
   their kernels ran one behind the other: a plan that does not see that moves more than it can. */
static void copies_hide_behind_kernels_of_both_streams(void)
{
    enum { KERNELS = 16, LEAST = 10 };
    for (uint32_t capacity = LEAST; capacity <= KERNELS; capacity++) {
        begin(KERNELS);
        box.problem.capacity_bytes = (uint64_t)UNIT * capacity;
        CU_ASSERT_EQUAL(bound_of().step_ns, KERNELS / 2 * KERNEL_NS);
        CU_ASSERT_EQUAL(step_ns(), KERNELS / 2 * KERNEL_NS);
    }
}

/* The faster streams do not wait for the slower ones, and a step takes what it takes those. */
static void a_step_takes_what_the_slowest_stream_does(void)
{
    begin(6);
    box.kernels[1].time_ns = 7 * KERNEL_NS;
    const dao_swap_plan_config_t config = {.work_limit = LITTLE_WORK};
    dao_swap_plan_t *plan = plan_with(&config);
    dao_swap_replay_t replay;
    dao_swap_stall_t stalls[6];
    const dao_swap_replay_config_t play = {.step_count = 20, .out_stalls = stalls};
    CU_ASSERT_EQUAL(dao_swap_plan_replay(plan, &play, &replay), DAO_OK);
    CU_ASSERT_EQUAL(replay.step_ns, 9 * KERNEL_NS);
    CU_ASSERT_EQUAL(replay.first_step_ns, 9 * KERNEL_NS);
    CU_ASSERT_EQUAL(replay.busy_ns[DAO_SWAP_STREAM_COMPUTE], 12 * KERNEL_NS);
    for (uint32_t k = 0; k < 6; k++) {
        CU_ASSERT_EQUAL(stalls[k].time_ns, 0);
    }
    dao_swap_plan_destroy(plan);
}

/* ---- what is refused ---- */

static void there_are_so_many_streams(void)
{
    dao_swap_plan_t *plan = NULL;
    dao_swap_bound_t bound;
    begin(4);
    box.kernels[2].stream = DAO_SWAP_COMPUTE_STREAM_MAX;
    CU_ASSERT_EQUAL(dao_swap_plan_make(&box.problem, NULL, &plan), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "kernel 2 is on compute stream 4"));
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(plan);
}

static void kernels_run_again_on_one_stream_only(void)
{
    dao_recompute_plan_t *plan = NULL;
    dao_recompute_bound_t bound;
    begin(4);
    CU_ASSERT_EQUAL(dao_recompute_find_bound(&box.problem, &bound), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_recompute_plan_make(&box.problem, NULL, &plan), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "one compute stream"));
    CU_ASSERT_PTR_NULL(plan);
}

static CU_TestInfo tests[] = {
    {"every kernel finds its bytes", every_kernel_finds_its_bytes},
    {"kernels of two streams run beside each other", kernels_of_two_streams_run_beside_each_other},
    {"kernels wait for what they read", kernels_wait_for_what_they_read},
    {"writers wait for readers", writers_wait_for_readers},
    {"all streams wait for a copy", all_streams_wait_for_a_copy},
    {"streams spare time", streams_spare_time},
    {"one stream is one stream", one_stream_is_one_stream},
    {"copies hide behind kernels of both streams", copies_hide_behind_kernels_of_both_streams},
    {"a step takes what the slowest stream does", a_step_takes_what_the_slowest_stream_does},
    {"there are so many streams", there_are_so_many_streams},
    {"kernels run again on one stream only", kernels_run_again_on_one_stream_only},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plans of several compute streams", NULL, NULL, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
