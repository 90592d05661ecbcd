/* SPDX-License-Identifier: Apache-2.0 */
/* Plays a schedule event by event. The first operation of each stream starts once its fence is met; then time
   goes on to the next end.

   A copy holds its stream for its latency, then moves its bytes. Where both directions of a tier share a
   speed, bytes move at a share of it while both do. So the bytes that are left are kept, and not a fixed end.

   Each compute stream has a lane of its own here. Kernels keep their numbers over all of them, so what a
   lane has done goes up from one of its kernels to the next:

       kernels        0   1   2   3   4   5   0 ...
       their lanes    a   a   b   a   b   a   a
       done           a: 0, 1, 3, 5, 6 ...       b: 2, 4, 8 ...      the first of its kernels that has not
   ended

   Invariants: started[lane] is done[lane], or behind it by one operation of the lane while that runs; a lane
   runs one operation at a time, in order; time never goes back. */
#include "planning/swap/times/swap_replay.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "planning/swap/step/swap_fence.h"
#include "planning/swap/step/swap_tier.h"

#define NEVER      UINT64_MAX
#define NO_KERNEL  ((uint64_t)INT64_MAX) /* done, of a compute stream without kernels */
#define LANE_COUNT (DAO_SWAP_STREAM_COUNT + DAO_SWAP_COMPUTE_STREAM_MAX - 1)

/* What a stream is doing. */
typedef struct stream_state {
    uint64_t done, started; /* things since the first step */
    uint64_t begin_ns, end_ns;
    uint64_t half_ns;    /* end of the kernels of the first half of the steps */
    uint64_t latency_ns; /* of the tier: bytes move from begin_ns + latency_ns on */
    double left_bytes;   /* shared links only */
    double speed;        /* now, in bytes a ns; 0: does not move yet, or has a fixed end */
    bool is_running;
} stream_state_t;

typedef struct replayer {
    const dao_swap_play_t *play;
    stream_state_t streams[LANE_COUNT]; /* those of dao_swap_stream_t, then compute streams 1 and on */
    uint32_t counts[LANE_COUNT];        /* things in a step */
    uint64_t now_ns;
    uint64_t kernels_done; /* the first kernel that has not ended */
    dao_swap_replay_t result;
} replayer_t;

static bool is_compute(uint32_t lane)
{
    return lane == DAO_SWAP_STREAM_COMPUTE || lane >= DAO_SWAP_STREAM_COUNT;
}

/* The lane of a compute stream, and the compute stream of a lane. */
static uint32_t lane_of(uint32_t compute)
{
    return compute == 0 ? (uint32_t)DAO_SWAP_STREAM_COMPUTE : DAO_SWAP_STREAM_COUNT + compute - 1;
}

static uint32_t compute_of(uint32_t lane)
{
    return lane == DAO_SWAP_STREAM_COMPUTE ? 0 : lane - DAO_SWAP_STREAM_COUNT + 1;
}

/* The first kernel of a lane from `kernel` on, counted since the first step; the lane has one. */
static uint64_t next_kernel(const dao_swap_play_t *play, uint32_t lane, uint64_t kernel)
{
    const uint32_t *streams = play->kernel_streams;
    while (streams != NULL && streams[kernel % play->kernel_count] != compute_of(lane)) {
        kernel++;
    }
    return kernel;
}

static const dao_swap_tier_t *tier_of(const replayer_t *replayer, uint32_t stream)
{
    return stream <= DAO_SWAP_STREAM_HOST_OUT ? replayer->play->host : replayer->play->file;
}

static bool fence_is_met(const replayer_t *replayer, const dao_swap_fence_t *fence, uint64_t step)
{
    for (uint32_t lane = 0; lane < LANE_COUNT; lane++) {
        int32_t done =
            is_compute(lane) ? dao_swap_fence_kernels_done(fence, compute_of(lane)) : fence->done[lane];
        int64_t needed = done == DAO_SWAP_NO_WAIT ? 0 : (int64_t)(step * replayer->counts[lane]) + done;
        if (needed > (int64_t)replayer->streams[lane].done) {
            return false;
        }
    }
    return true;
}

/* The stream, among the ones that the fence names, whose needed thing ended last: the one that ends now. */
static dao_swap_stream_t cause_of(const replayer_t *replayer, const dao_swap_fence_t *fence, uint64_t step)
{
    dao_swap_stream_t cause = DAO_SWAP_STREAM_COMPUTE;
    for (uint32_t stream = DAO_SWAP_STREAM_COMPUTE + 1; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        bool just_ended = fence->done[stream] != DAO_SWAP_NO_WAIT && !replayer->streams[stream].is_running &&
                          replayer->streams[stream].end_ns == replayer->now_ns;
        int64_t needed = just_ended ? (int64_t)(step * replayer->counts[stream]) + fence->done[stream] : -1;
        if (needed == (int64_t)replayer->streams[stream].done) {
            cause = (dao_swap_stream_t)stream;
        }
    }
    return cause;
}

static void start_kernel(replayer_t *replayer, stream_state_t *stream)
{
    const dao_swap_play_t *play = replayer->play;
    uint64_t step = stream->started / play->kernel_count;
    uint32_t kernel = (uint32_t)(stream->started % play->kernel_count);
    uint64_t time_ns = play->kernel_times_ns[play->has_all_times ? stream->started : kernel];
    if (step == play->step_count - 1) {
        const dao_swap_stall_t stall = {replayer->now_ns - stream->end_ns,
                                        cause_of(replayer, &play->schedule->kernel_after[kernel], step)};
        replayer->result.stall_ns[stall.stream] += stall.time_ns;
        replayer->result.busy_ns[DAO_SWAP_STREAM_COMPUTE] += time_ns;
        if (play->stalls != NULL) {
            play->stalls[kernel] = stall;
        }
    }
    stream->begin_ns = replayer->now_ns;
    stream->end_ns = replayer->now_ns + time_ns;
}

static void start_copy(replayer_t *replayer, uint32_t index)
{
    stream_state_t *stream = &replayer->streams[index];
    const dao_swap_tier_t *tier = tier_of(replayer, index);
    const dao_swap_copy_t *copy =
        &replayer->play->schedule->copies[index][stream->started % replayer->counts[index]];
    uint64_t length_ns = dao_swap_copy_ns(tier, copy->is_in, copy->size_bytes);
    stream->begin_ns = replayer->now_ns;
    stream->latency_ns = tier->latency_ns;
    stream->left_bytes = (double)copy->size_bytes;
    stream->speed = 0;
    stream->end_ns = dao_swap_is_shared(tier) ? NEVER : replayer->now_ns + length_ns;
    if (stream->started / replayer->counts[index] == replayer->play->step_count - 1) {
        replayer->result.busy_ns[index] += length_ns;
    }
}

/* Starts the stream's next thing if it may. */
static bool start_next(replayer_t *replayer, uint32_t index)
{
    stream_state_t *stream = &replayer->streams[index];
    uint32_t count = replayer->counts[index];
    bool is_kernel = is_compute(index);
    if (stream->is_running || count == 0 || stream->started >= (uint64_t)count * replayer->play->step_count) {
        return false;
    }
    uint32_t at = (uint32_t)(stream->started % count);
    const dao_swap_fence_t *fence = is_kernel ? &replayer->play->schedule->kernel_after[at]
                                              : &replayer->play->schedule->copies[index][at].after;
    if (!fence_is_met(replayer, fence, stream->started / count)) {
        return false;
    }
    if (is_kernel) {
        start_kernel(replayer, stream);
    } else {
        start_copy(replayer, index);
    }
    uint64_t *begin_ns = replayer->play->begin_ns[is_kernel ? (uint32_t)DAO_SWAP_STREAM_COMPUTE : index];
    if (begin_ns != NULL && stream->started / count == replayer->play->step_count - 2) {
        begin_ns[at] = replayer->now_ns;
    }
    DAO_ASSERT(stream->started == stream->done);
    stream->started =
        is_kernel ? next_kernel(replayer->play, index, stream->started + 1) : stream->started + 1;
    stream->is_running = true;
    return true;
}

/* Sets the speeds of a tier whose directions share it, and the ends that follow. */
static void share(replayer_t *replayer, uint32_t in_stream)
{
    const dao_swap_tier_t *tier = tier_of(replayer, in_stream);
    double speeds[2] = {(double)tier->in_bytes_per_second, (double)dao_swap_out_speed(tier)}, sum = 0;
    for (uint32_t i = 0; i < 2; i++) {
        const stream_state_t *stream = &replayer->streams[in_stream + i];
        bool moves = stream->is_running && stream->begin_ns + stream->latency_ns <= replayer->now_ns;
        speeds[i] = moves ? speeds[i] : 0;
        sum += speeds[i];
    }
    double limit = (double)tier->shared_bytes_per_second, scale = sum > limit ? limit / sum : 1;
    for (uint32_t i = 0; i < 2; i++) {
        stream_state_t *stream = &replayer->streams[in_stream + i];
        if (!stream->is_running) {
            continue;
        }
        stream->speed = speeds[i] * scale * 1e-9;
        stream->end_ns =
            stream->speed > 0 ? replayer->now_ns + dao_ceil(stream->left_bytes / stream->speed) : NEVER;
    }
}

/* The next time at which something ends, or begins to move. NEVER if nothing runs. */
static uint64_t next_time(const replayer_t *replayer)
{
    uint64_t next_ns = NEVER;
    for (uint32_t i = 0; i < LANE_COUNT; i++) {
        const stream_state_t *stream = &replayer->streams[i];
        if (stream->is_running) {
            uint64_t time_ns =
                stream->end_ns != NEVER ? stream->end_ns : stream->begin_ns + stream->latency_ns;
            next_ns = time_ns < next_ns ? time_ns : next_ns;
        }
    }
    return next_ns;
}

/* The first kernel that has not ended, of all lanes. */
static uint64_t find_kernels_done(const replayer_t *replayer)
{
    uint64_t done = NO_KERNEL;
    for (uint32_t i = 0; i < DAO_SWAP_COMPUTE_STREAM_MAX; i++) {
        done = dao_smaller(done, replayer->streams[lane_of(i)].done);
    }
    return done;
}

/* A lane has ended a kernel, and comes to the next one. */
static void end_kernel(replayer_t *replayer, stream_state_t *lane, uint64_t before)
{
    uint64_t kernels = replayer->play->kernel_count, half = replayer->play->step_count / 2 * kernels;
    uint64_t all_before = replayer->kernels_done;
    replayer->kernels_done = find_kernels_done(replayer);
    if (all_before < kernels && replayer->kernels_done >= kernels) {
        replayer->result.first_step_ns = replayer->now_ns;
    }
    if (before < half && lane->done >= half) {
        lane->half_ns = replayer->now_ns;
    }
}

/* Moves time on, and ends what ends then. */
static void advance(replayer_t *replayer, uint64_t time_ns)
{
    DAO_ASSERT(time_ns >= replayer->now_ns);
    double passed_ns = (double)(time_ns - replayer->now_ns);
    replayer->now_ns = time_ns;
    for (uint32_t i = 0; i < LANE_COUNT; i++) {
        stream_state_t *stream = &replayer->streams[i];
        stream->left_bytes -= stream->is_running ? stream->speed * passed_ns : 0;
        if (stream->is_running && stream->end_ns == time_ns) {
            uint64_t before = stream->done;
            DAO_ASSERT(stream->started > before);
            stream->is_running = false;
            stream->speed = 0;
            stream->done = stream->started;
            if (is_compute(i)) {
                end_kernel(replayer, stream, before);
            }
        }
    }
}

/* All is before its first operation. */
static replayer_t begin(const dao_swap_play_t *play)
{
    replayer_t replayer = {.play = play};
    for (uint32_t i = 0; i < LANE_COUNT; i++) {
        replayer.counts[i] = is_compute(i) ? play->kernel_count : play->schedule->copy_count[i];
        replayer.streams[i].done = is_compute(i) ? NO_KERNEL : 0;
    }
    for (uint32_t k = play->kernel_count; k-- > 0;) {
        replayer.streams[lane_of(play->kernel_streams != NULL ? play->kernel_streams[k] : 0)].done = k;
    }
    for (uint32_t i = 0; i < LANE_COUNT; i++) {
        replayer.streams[i].started = replayer.streams[i].done;
    }
    return replayer;
}

/* What a step takes in the second half of the steps, on the lane that takes the longest. */
static uint64_t step_ns_of(const replayer_t *replayer)
{
    uint32_t measured = replayer->play->step_count - replayer->play->step_count / 2;
    uint64_t step_ns = 0;
    for (uint32_t i = 0; i < DAO_SWAP_COMPUTE_STREAM_MAX; i++) {
        const stream_state_t *lane = &replayer->streams[lane_of(i)];
        step_ns = dao_larger(step_ns, (lane->end_ns - lane->half_ns + measured / 2) / measured);
    }
    return step_ns;
}

bool dao_swap_replay(const dao_swap_play_t *play, dao_swap_replay_t *out_replay)
{
    replayer_t replayer = begin(play);
    DAO_ASSERT(play->step_count >= 2);
    while (replayer.kernels_done < (uint64_t)play->kernel_count * play->step_count) {
        bool starts = true;
        while (starts) { /* a kernel or copy of no length ends at once, in the next round */
            starts = false;
            for (uint32_t i = 0; i < LANE_COUNT; i++) {
                starts = start_next(&replayer, i) || starts;
            }
        }
        if (dao_swap_is_shared(play->host)) {
            share(&replayer, DAO_SWAP_STREAM_HOST_IN);
        }
        if (dao_swap_is_shared(play->file)) {
            share(&replayer, DAO_SWAP_STREAM_FILE_IN);
        }
        uint64_t next_ns = next_time(&replayer);
        if (next_ns == NEVER || dao_swap_is_cancelled(play->cancel)) {
            return false;
        }
        advance(&replayer, next_ns);
    }
    replayer.result.step_ns = step_ns_of(&replayer);
    *out_replay = replayer.result;
    return true;
}
