/* SPDX-License-Identifier: Apache-2.0 */
/* Plays a schedule event by event. The first operation of each stream starts once its fence is met; then time
   goes on to the next end.

   A copy holds its stream for its latency, then moves its bytes. Where both directions of a tier share a
   speed, bytes move at a share of it while both do. So the bytes that are left are kept, and not a fixed end.

   Invariants: done[stream] <= started[stream] <= done[stream] + 1; a stream runs one operation at a time, in
   order; time never goes back. */
#include "planning/swap/times/swap_replay.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "planning/swap/step/swap_tier.h"

#define NEVER      UINT64_MAX
#define TIER_COUNT 2u

/* What a stream is doing. */
typedef struct stream_state {
    uint64_t done, started; /* things since the first step */
    uint64_t begin_ns, end_ns;
    uint64_t latency_ns; /* of the tier: bytes move from begin_ns + latency_ns on */
    double left_bytes;   /* shared links only */
    double speed;        /* now, in bytes a ns; 0: does not move yet, or has a fixed end */
    bool is_running;
} stream_state_t;

typedef struct replayer {
    const dao_swap_play_t *play;
    stream_state_t streams[DAO_SWAP_STREAM_COUNT];
    uint32_t counts[DAO_SWAP_STREAM_COUNT]; /* things in a step */
    uint64_t now_ns;
    uint64_t half_ns; /* end of the kernels of the first half of the steps */
    dao_swap_replay_t result;
} replayer_t;

static const dao_swap_tier_t *tier_of(const replayer_t *replayer, uint32_t stream)
{
    return stream <= DAO_SWAP_STREAM_HOST_OUT ? replayer->play->host : replayer->play->file;
}

static bool fence_is_met(const replayer_t *replayer, const dao_swap_fence_t *fence, uint64_t step)
{
    for (uint32_t stream = 0; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        int64_t needed = fence->done[stream] == DAO_SWAP_NO_WAIT
                             ? 0
                             : (int64_t)(step * replayer->counts[stream]) + fence->done[stream];
        if (needed > (int64_t)replayer->streams[stream].done) {
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

static void start_kernel(replayer_t *replayer)
{
    const dao_swap_play_t *play = replayer->play;
    stream_state_t *stream = &replayer->streams[DAO_SWAP_STREAM_COMPUTE];
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
    if (stream->is_running || count == 0 || stream->started == (uint64_t)count * replayer->play->step_count) {
        return false;
    }
    uint32_t at = (uint32_t)(stream->started % count);
    const dao_swap_fence_t *fence = index == DAO_SWAP_STREAM_COMPUTE
                                        ? &replayer->play->schedule->kernel_after[at]
                                        : &replayer->play->schedule->copies[index][at].after;
    if (!fence_is_met(replayer, fence, stream->started / count)) {
        return false;
    }
    if (index == DAO_SWAP_STREAM_COMPUTE) {
        start_kernel(replayer);
    } else {
        start_copy(replayer, index);
    }
    if (replayer->play->begin_ns[index] != NULL &&
        stream->started / count == replayer->play->step_count - 2) {
        replayer->play->begin_ns[index][at] = replayer->now_ns;
    }
    DAO_ASSERT(stream->started == stream->done);
    stream->started++;
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
    for (uint32_t i = 0; i < DAO_SWAP_STREAM_COUNT; i++) {
        const stream_state_t *stream = &replayer->streams[i];
        if (stream->is_running) {
            uint64_t time_ns =
                stream->end_ns != NEVER ? stream->end_ns : stream->begin_ns + stream->latency_ns;
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
    DAO_ASSERT(time_ns >= replayer->now_ns);
    double passed_ns = (double)(time_ns - replayer->now_ns);
    replayer->now_ns = time_ns;
    for (uint32_t i = 0; i < DAO_SWAP_STREAM_COUNT; i++) {
        stream_state_t *stream = &replayer->streams[i];
        stream->left_bytes -= stream->is_running ? stream->speed * passed_ns : 0;
        if (stream->is_running && stream->end_ns == time_ns) {
            DAO_ASSERT(stream->started == stream->done + 1);
            stream->is_running = false;
            stream->speed = 0;
            stream->done++;
            if (i == DAO_SWAP_STREAM_COMPUTE) {
                end_kernel(replayer, stream->done);
            }
        }
    }
}

bool dao_swap_replay(const dao_swap_play_t *play, dao_swap_replay_t *out_replay)
{
    replayer_t replayer = {.play = play};
    DAO_ASSERT(play->step_count >= 2);
    replayer.counts[DAO_SWAP_STREAM_COMPUTE] = play->kernel_count;
    for (uint32_t i = DAO_SWAP_STREAM_COMPUTE + 1; i < DAO_SWAP_STREAM_COUNT; i++) {
        replayer.counts[i] = play->schedule->copy_count[i];
    }
    const stream_state_t *compute = &replayer.streams[DAO_SWAP_STREAM_COMPUTE];
    while (compute->done < (uint64_t)play->kernel_count * play->step_count) {
        bool starts = true;
        while (starts) { /* a kernel or copy of no length ends at once, in the next round */
            starts = false;
            for (uint32_t i = 0; i < DAO_SWAP_STREAM_COUNT; i++) {
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
    uint32_t measured = play->step_count - play->step_count / 2;
    replayer.result.step_ns = (replayer.now_ns - replayer.half_ns + measured / 2) / measured;
    *out_replay = replayer.result;
    return true;
}
