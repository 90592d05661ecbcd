/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on a link that they share: what `dao simulate --ranks` says of a step, beside as many virtual devices
   of the cpu backend that play the same plan at the same time over a link that is held back.

       plan for a share of the link --replayed--> forecast
              |
              +--played by each device, in real time--> its steps

   A busy machine makes the devices slower, never faster, so they are held from below alone: by what the link
   can carry, and by the forecast. That has all ranks in step; devices drift apart, and one computes while
   another copies. */
#include "backends/cpu/cpu.h"
#include "base/numbers/math.h"
#include "base/threads/sync.h"
#include "runtime/start/context.h"
#include "tests/support/suite.h"
#include "tools/run/play_plan.h"

#include <dao/dao.h>

#include <stdio.h>

enum { RANKS = 4, TENSORS = 6, STEPS = 4 };

#define TENSOR_BYTES ((uint64_t)2 << 20)
#define HOST_LINK    UINT64_C(800000000) /* bytes/s of all ranks */
#define KERNEL_NS    UINT64_C(2000000)
#define DEVICE_BYTES ((uint64_t)64 << 20)
#define NEED(call)   CU_ASSERT_EQUAL_FATAL((call), DAO_OK)
#define LEAST_SHARE  0.8 /* of the forecast */
#define LINK_PARTS   20  /* of the link's time: what is left of a copy as the first step ends */
#define ALONE_FASTER 2   /* times, at least, with the whole link for one rank */

static const dao_swap_tensor_t tensors[TENSORS] = {{TENSOR_BYTES, true, false}, {TENSOR_BYTES, true, false},
                                                   {TENSOR_BYTES, true, false}, {TENSOR_BYTES, true, false},
                                                   {TENSOR_BYTES, true, false}, {TENSOR_BYTES, true, false}};
static dao_swap_use_t uses[TENSORS];
static dao_swap_kernel_t kernels[TENSORS];

typedef struct rank {
    dao_player_t player;
    uint64_t ends_ns[(STEPS + 1) * TENSORS];
    uint32_t ended;
} rank_t;

static rank_t ranks[RANKS];

/* Each kernel changes a tensor of its own; half of them fit. */
static dao_swap_problem_t make_problem(uint64_t shared_bytes_per_second)
{
    for (uint32_t i = 0; i < TENSORS; i++) {
        uses[i] = (dao_swap_use_t){i, DAO_ACCESS_READ_WRITE};
        kernels[i] = (dao_swap_kernel_t){.time_ns = KERNEL_NS, .uses = &uses[i], .use_count = 1};
    }
    return (dao_swap_problem_t){.tensors = tensors,
                                .tensor_count = TENSORS,
                                .kernels = kernels,
                                .kernel_count = TENSORS,
                                .capacity_bytes = TENSORS / 2 * TENSOR_BYTES,
                                .host = {.in_bytes_per_second = HOST_LINK,
                                         .out_bytes_per_second = HOST_LINK,
                                         .shared_bytes_per_second = shared_bytes_per_second}};
}

static dao_swap_plan_t *make_plan(const dao_swap_problem_t *problem, uint64_t *out_step_ns)
{
    const dao_swap_plan_config_t config = {.granularity = DAO_SWAP_GRANULARITY_WHOLE};
    const dao_swap_replay_config_t steps = {.step_count = STEPS};
    dao_swap_plan_t *plan = NULL;
    dao_swap_replay_t replay;
    NEED(dao_swap_plan_make(problem, &config, &plan));
    NEED(dao_swap_plan_replay(plan, &steps, &replay));
    *out_step_ns = replay.step_ns;
    return plan;
}

/* A kernel, on its stream's own thread. */
static void run_kernel(void *user)
{
    rank_t *rank = user;
    dao_sleep_until(dao_clock_ns() + KERNEL_NS);
    rank->ends_ns[rank->ended++] = dao_clock_ns();
}

static dao_status_t launch(uint32_t index, void *const *addresses, void *workspace, void *user)
{
    rank_t *rank = user;
    (void)index;
    (void)addresses;
    (void)workspace;
    return dao_cpu_backend_ops.host_func(rank->player.streams[DAO_STREAM_ROLE_COMPUTE]->backend, run_kernel,
                                         rank);
}

static void read_zeros(uint32_t tensor, uint64_t offset_bytes, uint64_t size_bytes, void *out_bytes,
                       void *user)
{
    (void)tensor;
    (void)offset_bytes;
    (void)user;
    memset(out_bytes, 0, size_bytes);
}

/* Returns what a step of the slowest rank takes: the mean of the steps behind the first. */
static uint64_t play(const dao_swap_problem_t *problem, const dao_swap_schedule_t *schedule)
{
    const dao_config_t settings = {.cpu = {.device_count = RANKS,
                                           .device_bytes = DEVICE_BYTES,
                                           .h2d_bytes_per_second = HOST_LINK,
                                           .d2h_bytes_per_second = HOST_LINK,
                                           .host_bytes_per_second = HOST_LINK}};
    uint64_t slowest_ns = 0;
    NEED(dao_context_start(&settings, &dao_cpu_backend_ops));
    for (int32_t i = 0; i < RANKS; i++) {
        ranks[i] = (rank_t){.ended = 0};
        const dao_player_config_t config = {
            .problem = problem, .schedule = schedule, .device = i, .launch = launch, .user = &ranks[i]};
        NEED(dao_player_create(&ranks[i].player, &config));
        NEED(dao_player_place(&ranks[i].player, read_zeros));
    }
    for (int step = 0; step <= STEPS; step++) {
        for (int32_t i = 0; i < RANKS; i++) {
            NEED(dao_player_step(&ranks[i].player));
        }
    }
    for (int32_t i = 0; i < RANKS; i++) {
        NEED(dao_player_wait(&ranks[i].player));
        CU_ASSERT_EQUAL(ranks[i].ended, (STEPS + 1) * TENSORS);
        uint64_t step_ns =
            (ranks[i].ends_ns[(STEPS + 1) * TENSORS - 1] - ranks[i].ends_ns[TENSORS - 1]) / STEPS;
        slowest_ns = step_ns > slowest_ns ? step_ns : slowest_ns;
    }
    for (int32_t i = 0; i < RANKS; i++) {
        dao_player_finish(&ranks[i].player);
    }
    NEED(dao_finalize());
    return slowest_ns;
}

static void ranks_take_what_the_shared_link_leaves_them(void)
{
    uint64_t alone_ns = 0, forecast_ns = 0;
    dao_swap_problem_t problem = make_problem(0);
    dao_swap_plan_destroy(make_plan(&problem, &alone_ns));
    problem = make_problem(HOST_LINK / RANKS);
    dao_swap_plan_t *plan = make_plan(&problem, &forecast_ns);
    const dao_swap_schedule_t *schedule = dao_swap_plan_schedule(plan);
    uint64_t link_ns = dao_transfer_ns(RANKS * (schedule->in_bytes + schedule->out_bytes), HOST_LINK);
    uint64_t step_ns = play(&problem, schedule);
    (void)printf(
        "    %d ranks: step %.2f ms, forecast %.2f ms, of it the link %.2f ms; with a link for each rank "
        "%.2f ms\n",
        RANKS, (double)step_ns / 1e6, (double)forecast_ns / 1e6, (double)link_ns / 1e6,
        (double)alone_ns / 1e6);
    CU_ASSERT_TRUE(forecast_ns >= ALONE_FASTER * alone_ns);
    CU_ASSERT_TRUE(forecast_ns >= link_ns);
    CU_ASSERT_TRUE(step_ns >= link_ns - link_ns / LINK_PARTS);
    CU_ASSERT_TRUE((double)step_ns >= LEAST_SHARE * (double)forecast_ns);
    dao_swap_plan_destroy(plan);
}

static CU_TestInfo tests[] = {
    {"ranks take what the shared link leaves them", ranks_take_what_the_shared_link_leaves_them},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"ranks", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
