/* SPDX-License-Identifier: Apache-2.0 */
/* An event at a time: whatever is first in its lane and whose fence is met starts, then time goes on to the
   next end.

   A copy holds its lane for its latency, then moves its bytes. Where both directions of a tier share a speed,
   bytes move at a share of it as long as both do, so what is left of them is kept instead of a fixed end.

   Invariants: done[lane] <= started[lane] <= done[lane] + 1; a lane runs one thing at a time, in order. */
#include "planning/swap/times/swap_replay.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "planning/swap/step/swap_tier.h"

#define NEVER      UINT64_MAX
#define TIER_COUNT 2u

/* What a lane is doing. */
typedef struct lane_state {
    uint64_t done, started; /* things since the first step */
    uint64_t begin_ns, end_ns;
    uint64_t latency_ns; /* of the tier: bytes move from begin_ns + latency_ns on */
    double left_bytes;   /* shared links only */
    double speed;        /* now, in bytes a ns; 0: does not move yet, or has a fixed end */
    bool is_running;
} lane_state_t;

typedef struct replayer {
    const dao_swap_play_t *play;
    lane_state_t lanes[DAO_SWAP_LANE_COUNT];
    uint32_t counts[DAO_SWAP_LANE_COUNT]; /* things in a step */
    uint64_t now_ns;
    uint64_t half_ns; /* end of the kernels of the first half of the steps */
    dao_swap_replay_t result;
} replayer_t;

static const dao_swap_tier_t *tier_of(const replayer_t *replayer, uint32_t lane)
{
    return lane <= DAO_SWAP_LANE_HOST_OUT ? replayer->play->host : replayer->play->file;
}

static bool fence_is_met(const replayer_t *replayer, const dao_swap_fence_t *fence, uint64_t step)
{
    for (uint32_t lane = 0; lane < DAO_SWAP_LANE_COUNT; lane++) {
        int64_t needed = fence->done[lane] == DAO_SWAP_NO_WAIT
                             ? 0
                             : (int64_t)(step * replayer->counts[lane]) + fence->done[lane];
        if (needed > (int64_t)replayer->lanes[lane].done) {
            return false;
        }
    }
    return true;
}

/* The lane, among the ones that the fence names, whose needed thing ended last: the one that ends now. */
static dao_swap_lane_t cause_of(const replayer_t *replayer, const dao_swap_fence_t *fence, uint64_t step)
{
    dao_swap_lane_t cause = DAO_SWAP_LANE_COMPUTE;
    for (uint32_t lane = DAO_SWAP_LANE_COMPUTE + 1; lane < DAO_SWAP_LANE_COUNT; lane++) {
        bool just_ended = fence->done[lane] != DAO_SWAP_NO_WAIT && !replayer->lanes[lane].is_running &&
                          replayer->lanes[lane].end_ns == replayer->now_ns;
        int64_t needed = just_ended ? (int64_t)(step * replayer->counts[lane]) + fence->done[lane] : -1;
        if (needed == (int64_t)replayer->lanes[lane].done) {
            cause = (dao_swap_lane_t)lane;
        }
    }
    return cause;
}

static void start_kernel(replayer_t *replayer)
{
    const dao_swap_play_t *play = replayer->play;
    lane_state_t *lane = &replayer->lanes[DAO_SWAP_LANE_COMPUTE];
    uint64_t step = lane->started / play->kernel_count;
    uint32_t kernel = (uint32_t)(lane->started % play->kernel_count);
    uint64_t time_ns = play->kernel_times_ns[play->has_all_times ? lane->started : kernel];
    if (step == play->step_count - 1) {
        const dao_swap_stall_t stall = {replayer->now_ns - lane->end_ns,
                                        cause_of(replayer, &play->schedule->kernel_after[kernel], step)};
        replayer->result.stall_ns[stall.lane] += stall.time_ns;
        replayer->result.busy_ns[DAO_SWAP_LANE_COMPUTE] += time_ns;
        if (play->stalls != NULL) {
            play->stalls[kernel] = stall;
        }
    }
    lane->begin_ns = replayer->now_ns;
    lane->end_ns = replayer->now_ns + time_ns;
}

static void start_copy(replayer_t *replayer, uint32_t index)
{
    lane_state_t *lane = &replayer->lanes[index];
    const dao_swap_tier_t *tier = tier_of(replayer, index);
    const dao_swap_copy_t *copy =
        &replayer->play->schedule->copies[index][lane->started % replayer->counts[index]];
    uint64_t length_ns = dao_swap_copy_ns(tier, copy->is_in, copy->size_bytes);
    lane->begin_ns = replayer->now_ns;
    lane->latency_ns = tier->latency_ns;
    lane->left_bytes = (double)copy->size_bytes;
    lane->speed = 0;
    lane->end_ns = dao_swap_is_shared(tier) ? NEVER : replayer->now_ns + length_ns;
    if (lane->started / replayer->counts[index] == replayer->play->step_count - 1) {
        replayer->result.busy_ns[index] += length_ns;
    }
}

/* Starts the lane's next thing if it may. */
static bool start_next(replayer_t *replayer, uint32_t index)
{
    lane_state_t *lane = &replayer->lanes[index];
    uint32_t count = replayer->counts[index];
    if (lane->is_running || count == 0 || lane->started == (uint64_t)count * replayer->play->step_count) {
        return false;
    }
    uint32_t at = (uint32_t)(lane->started % count);
    const dao_swap_fence_t *fence = index == DAO_SWAP_LANE_COMPUTE
                                        ? &replayer->play->schedule->kernel_after[at]
                                        : &replayer->play->schedule->copies[index][at].after;
    if (!fence_is_met(replayer, fence, lane->started / count)) {
        return false;
    }
    if (index == DAO_SWAP_LANE_COMPUTE) {
        start_kernel(replayer);
    } else {
        start_copy(replayer, index);
    }
    if (replayer->play->begin_ns[index] != NULL && lane->started / count == replayer->play->step_count - 2) {
        replayer->play->begin_ns[index][at] = replayer->now_ns;
    }
    lane->started++;
    lane->is_running = true;
    return true;
}

/* Sets the speeds of a tier whose directions share it, and the ends that follow. */
static void share(replayer_t *replayer, uint32_t in_lane)
{
    const dao_swap_tier_t *tier = tier_of(replayer, in_lane);
    double speeds[2] = {(double)tier->in_bytes_per_second, (double)dao_swap_out_speed(tier)}, sum = 0;
    for (uint32_t i = 0; i < 2; i++) {
        const lane_state_t *lane = &replayer->lanes[in_lane + i];
        bool moves = lane->is_running && lane->begin_ns + lane->latency_ns <= replayer->now_ns;
        speeds[i] = moves ? speeds[i] : 0;
        sum += speeds[i];
    }
    double limit = (double)tier->shared_bytes_per_second, scale = sum > limit ? limit / sum : 1;
    for (uint32_t i = 0; i < 2; i++) {
        lane_state_t *lane = &replayer->lanes[in_lane + i];
        if (!lane->is_running) {
            continue;
        }
        lane->speed = speeds[i] * scale * 1e-9;
        lane->end_ns = lane->speed > 0 ? replayer->now_ns + dao_ceil(lane->left_bytes / lane->speed) : NEVER;
    }
}

/* The next time at which something ends, or begins to move. NEVER if nothing runs. */
static uint64_t next_time(const replayer_t *replayer)
{
    uint64_t next_ns = NEVER;
    for (uint32_t i = 0; i < DAO_SWAP_LANE_COUNT; i++) {
        const lane_state_t *lane = &replayer->lanes[i];
        if (lane->is_running) {
            uint64_t time_ns = lane->end_ns != NEVER ? lane->end_ns : lane->begin_ns + lane->latency_ns;
            next_ns = time_ns < next_ns ? time_ns : next_ns;
        }
    }
    return next_ns;
}

static void end_kernel(replayer_t *replayer, uint64_t done)
{
    uint64_t steps = done / replayer->play->kernel_count;
    if (done % replayer->play->kernel_count != 0) {
        return;
    }
    if (steps == 1) {
        replayer->result.first_step_ns = replayer->now_ns;
    }
    if (steps == replayer->play->step_count / 2) {
        replayer->half_ns = replayer->now_ns;
    }
}

/* Moves time on, and ends what ends then. */
static void advance(replayer_t *replayer, uint64_t time_ns)
{
    double passed_ns = (double)(time_ns - replayer->now_ns);
    replayer->now_ns = time_ns;
    for (uint32_t i = 0; i < DAO_SWAP_LANE_COUNT; i++) {
        lane_state_t *lane = &replayer->lanes[i];
        lane->left_bytes -= lane->is_running ? lane->speed * passed_ns : 0;
        if (lane->is_running && lane->end_ns == time_ns) {
            lane->is_running = false;
            lane->speed = 0;
            lane->done++;
            if (i == DAO_SWAP_LANE_COMPUTE) {
                end_kernel(replayer, lane->done);
            }
        }
    }
}

bool dao_swap_replay(const dao_swap_play_t *play, dao_swap_replay_t *out_replay)
{
    replayer_t replayer = {.play = play};
    DAO_ASSERT(play->step_count >= 2);
    replayer.counts[DAO_SWAP_LANE_COMPUTE] = play->kernel_count;
    for (uint32_t i = DAO_SWAP_LANE_COMPUTE + 1; i < DAO_SWAP_LANE_COUNT; i++) {
        replayer.counts[i] = play->schedule->copy_count[i];
    }
    const lane_state_t *compute = &replayer.lanes[DAO_SWAP_LANE_COMPUTE];
    while (compute->done < (uint64_t)play->kernel_count * play->step_count) {
        bool starts = true;
        while (starts) { /* a kernel or copy of no length ends at once, in the next round */
            starts = false;
            for (uint32_t i = 0; i < DAO_SWAP_LANE_COUNT; i++) {
                starts = start_next(&replayer, i) || starts;
            }
        }
        if (dao_swap_is_shared(play->host)) {
            share(&replayer, DAO_SWAP_LANE_HOST_IN);
        }
        if (dao_swap_is_shared(play->file)) {
            share(&replayer, DAO_SWAP_LANE_FILE_IN);
        }
        uint64_t next_ns = next_time(&replayer);
        if (next_ns == NEVER || dao_swap_is_cancelled(play->cancel)) {
            return false;
        }
        advance(&replayer, next_ns);
    }
    uint32_t measured = play->step_count - play->step_count / 2;
    replayer.result.step_ns = (replayer.now_ns - replayer.half_ns + measured / 2) / measured;
    *out_replay = replayer.result;
    return true;
}
