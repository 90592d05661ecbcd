/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan needs to be replayed on the device of a started library: streams, an arena, pinned memory. */
#ifndef DAO_TOOLS_PLAY_PLAN_H
#define DAO_TOOLS_PLAY_PLAN_H

#include "runtime/executor/tiers/device_window.h"
#include "runtime/start/context.h"
#include "tools/run/plan_replay.h"

typedef struct dao_player {
    int32_t device;
    dao_runtime_t *runtime;
    dao_stream_t *streams[DAO_STREAM_ROLE_COUNT];
    dao_stream_t *beside[DAO_SWAP_COMPUTE_STREAM_MAX]; /* compute streams 1 and on that kernels are on */
    dao_stream_t *file_streams[DAO_FILE_DIRECTION_COUNT];
    void *arena, *host, *staging;
    dao_device_pages_t pages;               /* of the arena */
    dao_device_window_t *window;            /* the schedule's pages; NULL: it has none */
    void *pieces[DAO_FILE_DIRECTION_COUNT]; /* through which bytes go to the file, and come from it */
    dao_plan_replay_file_t file;            /* all zero where the plan has none */
    bool has_timeline;
    dao_timeline_t timeline;
    dao_plan_replay_t replay;
} dao_player_t;

/* Everything is borrowed and outlives the player. */
typedef struct dao_player_config {
    const dao_swap_problem_t *problem;
    const dao_swap_schedule_t *schedule;
    int32_t device;
    dao_file_config_t file; /* where the plan's file is made, and what holds it back */
    dao_plan_replay_launch_t launch;
    dao_plan_replay_on_copy_t on_copy; /* NULL: nobody asks */
    void *user;                        /* of both */
} dao_player_config_t;

/* What is made is given up by dao_player_finish(), after a failure too. */
DAO_NODISCARD dao_status_t dao_player_create(dao_player_t *player, const dao_player_config_t *config);

/* Puts what lives on over the step's start where the plan wants it: dao_plan_replay_place(). */
DAO_NODISCARD dao_status_t dao_player_place(dao_player_t *player, dao_plan_replay_read_t read);

/* Queues a step: dao_plan_replay_step(). */
DAO_NODISCARD dao_status_t dao_player_step(dao_player_t *player);

/* Waits for what is queued. An error of the work, also of the file. */
DAO_NODISCARD dao_status_t dao_player_wait(dao_player_t *player);

/* Waits for what is queued. */
void dao_player_finish(dao_player_t *player);

/* The compute stream on which a kernel of the problem is. */
dao_stream_t *dao_player_compute(const dao_player_t *player, const dao_swap_kernel_t *kernel);

/* Bytes that the copies of a stream move in a step. */
uint64_t dao_player_stream_bytes(const dao_swap_schedule_t *schedule, dao_swap_stream_t stream);

#endif
