/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule made by hand is played by its fences to the nanosecond. */
#include "planning/swap/times/swap_replay.h"
#include "tests/support/suite.h"

enum { NS_PER_S = 1000000000 };

#define NOTHING                                                                                              \
    {                                                                                                        \
        .done = {DAO_SWAP_NO_WAIT, DAO_SWAP_NO_WAIT, DAO_SWAP_NO_WAIT, DAO_SWAP_NO_WAIT, DAO_SWAP_NO_WAIT},  \
        .done_beside = {DAO_SWAP_NO_WAIT, DAO_SWAP_NO_WAIT, DAO_SWAP_NO_WAIT},                               \
    }

static const uint64_t times_ns[] = {10, 20};
static dao_swap_tier_t host, file;
static dao_swap_fence_t kernel_after[2];
static dao_swap_copy_t in_copy, out_copy;
static dao_swap_schedule_t schedule;
static dao_swap_stall_t stalls[2];
static dao_swap_play_t play;

/* A copy in of 30 bytes between two kernels: it waits for the first one, and the second one for it. */
static void begin(void)
{
    static const dao_swap_fence_t nothing = NOTHING;
    host = (dao_swap_tier_t){.in_bytes_per_second = NS_PER_S};
    file = (dao_swap_tier_t){0};
    kernel_after[0] = kernel_after[1] = nothing;
    kernel_after[1].done[DAO_SWAP_STREAM_HOST_IN] = 1;
    in_copy = (dao_swap_copy_t){.is_in = true, .size_bytes = 30, .after = nothing};
    in_copy.after.done[DAO_SWAP_STREAM_COMPUTE] = 1;
    out_copy = (dao_swap_copy_t){.size_bytes = 40, .after = nothing};
    schedule = (dao_swap_schedule_t){.kernel_after = kernel_after};
    schedule.copies[DAO_SWAP_STREAM_HOST_IN] = &in_copy;
    schedule.copy_count[DAO_SWAP_STREAM_HOST_IN] = 1;
    play = (dao_swap_play_t){.schedule = &schedule,
                             .kernel_count = 2,
                             .step_count = 4,
                             .kernel_times_ns = times_ns,
                             .host = &host,
                             .file = &file,
                             .stalls = stalls};
}

static void kernels_wait_for_their_copies(void)
{
    dao_swap_replay_t replay;
    begin();
    CU_ASSERT_FATAL(dao_swap_replay(&play, &replay));
    CU_ASSERT_EQUAL(replay.step_ns, 60); /* 10, 30, 20 */
    CU_ASSERT_EQUAL(replay.first_step_ns, 60);
    CU_ASSERT_EQUAL(replay.stall_ns[DAO_SWAP_STREAM_HOST_IN], 30);
    CU_ASSERT_EQUAL(replay.busy_ns[DAO_SWAP_STREAM_COMPUTE], 30);
    CU_ASSERT_EQUAL(replay.busy_ns[DAO_SWAP_STREAM_HOST_IN], 30);
    CU_ASSERT(stalls[0].time_ns == 0 && stalls[1].time_ns == 30);
    CU_ASSERT_EQUAL(stalls[1].stream, DAO_SWAP_STREAM_HOST_IN);
}

/* With 0 the copy waits for all of the step before: it runs beside the first kernel. */
static void fences_count_back_from_the_start_of_the_step(void)
{
    dao_swap_replay_t replay;
    begin();
    in_copy.after.done[DAO_SWAP_STREAM_COMPUTE] = 0;
    CU_ASSERT_FATAL(dao_swap_replay(&play, &replay));
    CU_ASSERT_EQUAL(replay.step_ns, 50);              /* 30, 20 */
    in_copy.after.done[DAO_SWAP_STREAM_COMPUTE] = -1; /* all but the last kernel of the step before */
    CU_ASSERT_FATAL(dao_swap_replay(&play, &replay));
    CU_ASSERT_EQUAL(replay.step_ns, 30); /* it runs beside the second kernel and the first */
}

static void latency_and_other_times_count(void)
{
    static const uint64_t all_times_ns[] = {10, 20, 10, 20, 10, 20, 110, 20};
    dao_swap_replay_t replay;
    begin();
    host.latency_ns = 5;
    CU_ASSERT_FATAL(dao_swap_replay(&play, &replay));
    CU_ASSERT_EQUAL(replay.step_ns, 65);
    play.kernel_times_ns = all_times_ns;
    play.has_all_times = true;
    CU_ASSERT_FATAL(dao_swap_replay(&play, &replay));
    CU_ASSERT_EQUAL(replay.step_ns, 115); /* the mean of the last two */
    CU_ASSERT_EQUAL(replay.first_step_ns, 65);
}

/* Two copies at once over a link that carries as much as one of them alone: each takes twice as long. */
static void a_shared_link_is_shared(void)
{
    dao_swap_replay_t replay;
    begin();
    host.shared_bytes_per_second = NS_PER_S;
    out_copy.size_bytes = 30;
    out_copy.after.done[DAO_SWAP_STREAM_COMPUTE] = 1;
    schedule.copies[DAO_SWAP_STREAM_HOST_OUT] = &out_copy;
    schedule.copy_count[DAO_SWAP_STREAM_HOST_OUT] = 1;
    CU_ASSERT_FATAL(dao_swap_replay(&play, &replay));
    CU_ASSERT_EQUAL(replay.step_ns, 90); /* 10, 60, 20 */
    host.shared_bytes_per_second = 0;
    CU_ASSERT_FATAL(dao_swap_replay(&play, &replay));
    CU_ASSERT_EQUAL(replay.step_ns, 60);
}

static bool is_cancelled(void *user)
{
    (void)user;
    return true;
}

static void it_ends_where_nothing_can_start(void)
{
    dao_swap_replay_t replay = {.step_ns = 1};
    dao_swap_cancel_t cancel = {.is_cancelled = is_cancelled};
    begin();
    in_copy.after.done[DAO_SWAP_STREAM_COMPUTE] = 2; /* the kernel that waits for it */
    CU_ASSERT(!dao_swap_replay(&play, &replay));
    begin();
    play.cancel = &cancel;
    CU_ASSERT(!dao_swap_replay(&play, &replay));
    CU_ASSERT_EQUAL(replay.step_ns, 1); /* nothing is written */
}

static CU_TestInfo tests[] = {
    {"kernels wait for their copies", kernels_wait_for_their_copies},
    {"fences count back from the start of the step", fences_count_back_from_the_start_of_the_step},
    {"latency and other times count", latency_and_other_times_count},
    {"a shared link is shared", a_shared_link_is_shared},
    {"it ends where nothing can start", it_ends_where_nothing_can_start},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap replay", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
