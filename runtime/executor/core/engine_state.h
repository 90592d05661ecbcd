/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the executor's engine, which engine.h runs and the rooms change. A comment names the file
   whose fields these are. */
#ifndef DAO_RUNTIME_EXECUTOR_ENGINE_STATE_H
#define DAO_RUNTIME_EXECUTOR_ENGINE_STATE_H

#include "runtime/executor/core/demand.h"
#include "runtime/executor/records/item.h"
#include "runtime/executor/streams/pace.h"
#include "runtime/executor/streams/profiler.h"
#include "runtime/executor/streams/throttle.h"
#include "runtime/executor/streams/timeline.h"
#include "runtime/executor/tiers/device_arena.h"
#include "runtime/executor/tiers/file_tier.h"
#include "runtime/executor/tiers/host_tier.h"

#include <dao/recompute.h>

/* Times that a copy is tried again before it counts as failed. */
#define DAO_COPY_RETRY_MAX 2

/* Owner of the arena's part that is a workspace; no tensor's record has this address. */
#define DAO_OWNER_WORKSPACE 1

typedef struct dao_compiled_plan dao_compiled_plan_t; /* plan_follow.h */
typedef struct dao_step_learner dao_step_learner_t;   /* step_learner.h */
typedef struct dao_policy_block dao_policy_block_t;   /* policy.h */

/* Where a kernel's workspace is, and what the kernel waits for besides its operands. */
typedef struct dao_placement {
    bool is_planned; /* by the plan; else the workspace is a part that was taken from the arena */
    bool has_workspace;
    uint64_t workspace_offset;
    size_t workspace_bytes; /* that were taken from the arena */
    dao_fence_t fence;
    bool is_packed;          /* what it takes lies side by side: it fits only so */
    bool is_again;           /* its first run is over */
    const uint64_t *scratch; /* of each use of a run again: where its bytes go if not to its tensor, else
                                DAO_PLAN_NOWHERE; NULL: all go there */
} dao_placement_t;

typedef struct dao_engine_config {
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device;
    int32_t device_index;
    uint32_t stream_count;                                        /* of compute streams, at least 1 */
    dao_stream_t *compute_streams[DAO_EXECUTOR_STREAM_COUNT_MAX]; /* handed to kernels */
    const dao_stream_t *given_streams[DAO_TIMELINE_PACED_COUNT]; /* the program's; NULL: the executor's own */
    dao_backend_stream_t *streams[DAO_STREAM_ROLE_COUNT];
    void *arena_address;
    uint64_t arena_bytes;
    dao_swap_addresses_t addresses; /* that plans may have */
    dao_allocator_t *host;
    uint64_t host_limit_bytes; /* 0: the allocator's own */
    dao_file_config_t file;    /* without a directory: no file, and a tier with the first source */
    dao_backend_stream_t *file_streams[DAO_FILE_DIRECTION_COUNT];
    dao_backend_stream_t *staging_streams[DAO_FILE_DIRECTION_COUNT];
    dao_policy_t policy;
    dao_policy_score_t score;
    void *score_user;
    bool on_demand;
    uint64_t in_flight_ns; /* most device time of kernels in flight */
    bool check;
    bool check_repeatable; /* kernels that are flagged so run twice, and what they write is compared */
    bool learns;           /* steps, and makes plans for them */
    bool plans_at_once;    /* not on a thread of their own */
    bool has_thread;       /* of its own, which stays on the device */
    bool keeps_plans;      /* also those that are slower than the step without */
    dao_recompute_mode_t recompute_mode; /* of plans in which kernels run again */
} dao_engine_config_t;

typedef struct dao_engine {
    dao_engine_config_t config;
    dao_timeline_t timeline;
    dao_throttle_t throttles[DAO_EXECUTOR_STREAM_COUNT_MAX]; /* of the compute streams */
    dao_pace_t pace;
    uint64_t unseen_count; /* kernels since the device was asked what has finished */
    dao_device_arena_t arena;
    dao_device_pages_t pages; /* of the arena, for plans */
    dao_host_tier_t host_tier;
    dao_file_tier_t file_tier;
    uint64_t backed_bytes;           /* file_copy.c: of host slots whose tensor has a slot in the file, too */
    uint64_t writing_bytes;          /* file_copy.c: of these, those whose write was not seen to finish */
    bool is_file_refusing;           /* file_copy.c: a write has failed since the last sync: none is tried */
    dao_error_record_t file_refusal; /* why */

    dao_managed_t *table;                     /* every tensor that has bytes or pending uses */
    dao_item_t *first_item, *last_item;       /* taken in, not yet run */
    dao_item_t *first_retired, *last_retired; /* launched, their drop not yet called */
    dao_item_t *first_kept, *last_kept;       /* again.c: kernels of a plan that was left, in their order */
    const dao_item_t *frontier;               /* prefetch.c: the first that is not admitted; NULL: all are */
    bool is_counted;      /* prefetch.c: the frontier counts, but not all of it is fetched */
    uint64_t early_bytes; /* of tensors that are early */
    double ahead_ns;      /* prefetch.c: cost of the kernels that are admitted and have not run */
    uint64_t next_look;   /* prefetch.c: time of the kernel before which it looks again what is due */
    bool is_due;          /* prefetch.c: something was, at the latest look */
    bool is_writing_back; /* writeback.c: copies have begun, and the high mark is not reached */
    dao_demand_t demand;  /* of what is admitted */
    uint64_t next_time;   /* of the next kernel that is taken in */
    uint64_t now;         /* of the next kernel that is run */

    dao_profiler_t profiler;
    dao_step_learner_t *learner; /* NULL: it learns nothing */
    uint32_t step_kernel;        /* step_learner.c: number of the latest kernel in its step */
    dao_compiled_plan_t *plan;   /* that is followed; NULL: none */
    uint64_t last_forecast;      /* the latest use that was ever expected of a tensor */

    dao_managed_t *first_pinned; /* pins.c: of those that the program keeps on the device, the topmost */
    uint64_t pinned_bytes;       /* pins.c: of the arena, for all of them */
    uint64_t pins;               /* pins.c: tells which they are, and where; 0: none */

    dao_managed_t *first_victim;     /* victims.c: of those on the device, the one that leaves first */
    dao_managed_t *set_aside;        /* victims.c: looked at in a search */
    uint64_t clean_bytes;            /* victims.c: of these that leave without a copy */
    uint64_t search_count;           /* eviction.c */
    dao_policy_block_t *view_blocks; /* scratch of eviction.c */
    size_t view_capacity;

    bool has_failed; /* kernels are skipped until a sync reports the failure */
    bool is_lost;    /* the device is given up: kernels are skipped for good, every sync reports it */
    dao_error_record_t failure; /* what a sync reports: the loss, else the first one since the last sync */
    dao_executor_stats_t stats;
} dao_engine_t;

#endif
