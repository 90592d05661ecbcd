/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled step on real streams: what a plan of dao/swap.h says, with events only. The host decides
   nothing, allocates nothing and waits only when DAO_TIMELINE_DEPTH operations of a lane are in flight. */
#ifndef DAO_RUNTIME_EXECUTOR_REPLAY_H
#define DAO_RUNTIME_EXECUTOR_REPLAY_H

#include "runtime/executor/learned/order.h"
#include "runtime/executor/replay_file.h"
#include "runtime/executor/tiers/timeline.h"

#include <dao/swap.h>

/* Queues kernel `index` of the step on the compute stream, with the addresses of its uses in the problem's
   order. */
typedef dao_status_t (*dao_replay_launch_t)(uint32_t index, void *const *addresses, void *workspace,
                                            void *user);

/* Called before a copy of the schedule is queued on its lane, and again behind it: it may queue something
   there. */
typedef dao_status_t (*dao_replay_watch_t)(dao_stream_role_t role, const dao_swap_copy_t *copy,
                                           bool is_behind, void *user);

/* Everything is borrowed and outlives the replay. */
typedef struct dao_replay_config {
    dao_timeline_t *timeline;
    const dao_swap_problem_t *problem;
    const dao_swap_schedule_t *schedule; /* of the problem */
    void *device_address;                /* schedule->arena_bytes */
    void *host_address;                  /* schedule->host_bytes, pinned */
    dao_replay_file_t
        *file; /* of the schedule, its lanes in the timeline; NULL where no copy is one with a file */
    dao_replay_launch_t launch;
    dao_replay_watch_t watch; /* NULL: nobody looks at copies */
    void *user;
} dao_replay_config_t;

typedef struct dao_replay {
    dao_replay_config_t config;
    dao_order_t order;
    uint64_t base[DAO_LANE_COUNT];  /* number of the last thing of the steps before, lane by lane */
    uint64_t first[DAO_LANE_COUNT]; /* the same before the first step */
    uint32_t next_use;              /* of all kernels', that of the next kernel */
    void **addresses;               /* of one kernel */
} dao_replay_t;

/* DAO_ERR_INVALID for a plan whose step cannot be queued; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_replay_init(dao_replay_t *replay, const dao_replay_config_t *config);
void dao_replay_finish(dao_replay_t *replay);

/* Puts what lives on over the step's start where the plan wants it: `read` gives the bytes [offset, offset +
   size) of a tensor in its content as a step starts, and is called with the address in the host's memory, or
   in `staging`, which holds each resident part and each part that comes from the file, from where the bytes
   go on at once. Before the first step, once. */
typedef void (*dao_replay_read_t)(uint32_t tensor, uint64_t offset_bytes, uint64_t size_bytes,
                                  void *out_bytes, void *user);
DAO_NODISCARD dao_status_t dao_replay_place(dao_replay_t *replay, dao_replay_read_t read, void *staging);

/* Queues a step. An error of a launch or of the device leaves the step half queued: nothing more may be
   replayed. */
DAO_NODISCARD dao_status_t dao_replay_step(dao_replay_t *replay);

#endif
