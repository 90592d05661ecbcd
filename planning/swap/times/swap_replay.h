/* SPDX-License-Identifier: Apache-2.0 */
/* Plays a schedule by its fences. */
#ifndef DAO_PLANNING_SWAP_REPLAY_H
#define DAO_PLANNING_SWAP_REPLAY_H

#include "planning/swap/step/swap_step.h"

/* A schedule and the times that it is played with. */
typedef struct dao_swap_play {
    const dao_swap_schedule_t *schedule;
    uint32_t kernel_count;
    uint32_t step_count;
    const uint64_t *kernel_times_ns; /* of one step, or of all */
    bool has_all_times;
    const uint32_t *kernel_streams; /* the compute stream of each; NULL: all are on one */
    const dao_swap_tier_t *host, *file;
    dao_swap_stall_t *stalls;                  /* may be NULL */
    uint64_t *begin_ns[DAO_SWAP_STREAM_COUNT]; /* may be NULL; of each thing of the stream, in the last step
                                                  but one */
    dao_swap_cancel_t *cancel;                 /* may be NULL */
} dao_swap_play_t;

/* False if it was cancelled, or the fences wait for each other: nothing is written. */
DAO_NODISCARD bool dao_swap_replay(const dao_swap_play_t *play, dao_swap_replay_t *out_replay);

#endif
