/* What a plan needs to be replayed on the device of a started library: streams, an arena, pinned memory. */
#ifndef DAO_TOOLS_PLAY_PLAN_H
#define DAO_TOOLS_PLAY_PLAN_H

#include "runtime/executor/replay.h"
#include "runtime/runtime_internal.h"

typedef struct dao_player {
    dao_runtime_t *runtime;
    dao_stream_t *streams[DAO_STREAM_ROLE_COUNT];
    void *arena, *host, *staging;
    bool has_timeline;
    dao_timeline_t timeline;
    dao_replay_t replay;
} dao_player_t;

/* Problem and schedule are borrowed and outlive the player; `user` is for launch and watch, which may be NULL. What is made is given up by
   dao_player_finish(), after a failure too. */
DAO_NODISCARD dao_status_t dao_player_create(dao_player_t *player, const dao_swap_problem_t *problem,
                                             const dao_swap_schedule_t *schedule, dao_replay_launch_t launch,
                                             dao_replay_watch_t watch, void *user);

/* Waits for what is queued. */
void dao_player_finish(dao_player_t *player);

#endif
