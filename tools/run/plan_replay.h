/* SPDX-License-Identifier: Apache-2.0 */
/* Plays a plan of dao/swap.h on real streams, with events only. The host decides nothing, allocates
   nothing, and waits only when DAO_TIMELINE_DEPTH operations of a stream are in flight. */
#ifndef DAO_TOOLS_PLAN_REPLAY_H
#define DAO_TOOLS_PLAN_REPLAY_H

#include "runtime/executor/plans/issue_order.h"
#include "runtime/executor/streams/timeline.h"
#include "tools/run/plan_replay_file.h"

#include <dao/swap.h>

/* Queues kernel `index` of the step on the compute stream, with the addresses of its uses in the problem's
   order. */
typedef dao_status_t (*dao_plan_replay_launch_t)(uint32_t index, void *const *addresses, void *workspace,
                                                 void *user);

/* Called before a copy of the schedule is queued on its stream, and again behind it: it may queue something
   there. */
typedef dao_status_t (*dao_plan_replay_on_copy_t)(dao_stream_role_t role, const dao_swap_copy_t *copy,
                                                  bool is_behind, void *user);

/* Everything is borrowed and outlives the replay. */
typedef struct dao_plan_replay_config {
    dao_timeline_t *timeline;
    const dao_swap_problem_t *problem;
    const dao_swap_schedule_t *schedule; /* of the problem */
    void *device_address;                /* schedule->arena_bytes */
    void *paged_address;                 /* of its pages, mapped in their order; NULL: it has none */
    void *host_address;                  /* schedule->host_bytes, pinned */
    dao_plan_replay_file_t
        *file; /* of the schedule, its streams in the timeline; NULL where no copy is one with a file */
    dao_plan_replay_launch_t launch;
    dao_plan_replay_on_copy_t on_copy; /* NULL: nobody asks */
    void *user;
} dao_plan_replay_config_t;

typedef struct dao_plan_replay {
    dao_plan_replay_config_t config;
    dao_issue_order_t order;
    /* number of the last operation of the steps before, stream by stream */
    uint64_t base[DAO_TIMELINE_STREAM_COUNT];
    uint64_t first[DAO_TIMELINE_STREAM_COUNT]; /* the same before the first step */
    uint32_t next_use;                         /* of all kernels', that of the next kernel */
    void **addresses;                          /* of one kernel */
} dao_plan_replay_t;

/* DAO_ERR_INVALID for a plan whose step cannot be queued; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_replay_init(dao_plan_replay_t *replay,
                                                const dao_plan_replay_config_t *config);
void dao_plan_replay_finish(dao_plan_replay_t *replay);

/* Puts what lives on over the step's start where the plan wants it; called once, before the first step.
   `read` writes the bytes [offset, offset + size) of a tensor, as a step starts, to an address: in the
   host's memory, or in `staging`, from where they go on at once. `staging` holds each resident part and
   each part that comes from the file. */
typedef void (*dao_plan_replay_read_t)(uint32_t tensor, uint64_t offset_bytes, uint64_t size_bytes,
                                       void *out_bytes, void *user);
DAO_NODISCARD dao_status_t dao_plan_replay_place(dao_plan_replay_t *replay, dao_plan_replay_read_t read,
                                                 void *staging);

/* Queues a step. An error of a launch or of the device leaves the step half queued: nothing more may be
   replayed. */
DAO_NODISCARD dao_status_t dao_plan_replay_step(dao_plan_replay_t *replay);

#endif
