/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what the kernels and copies of one step take, by events in front of them and behind. */
#ifndef DAO_RUNTIME_EXECUTOR_PROFILER_H
#define DAO_RUNTIME_EXECUTOR_PROFILER_H

#include "runtime/executor/streams/link_speed.h"
#include "runtime/executor/streams/timeline.h"

/* Why a kernel began later than the one before it on its stream ended: its data had to come, its memory had
   to become free, the host had not queued it yet, or a kernel of another compute stream had to end. */
typedef enum dao_stall_cause {
    DAO_STALL_CAUSE_IN,
    DAO_STALL_CAUSE_OUT,
    DAO_STALL_CAUSE_HOST,
    DAO_STALL_CAUSE_KERNEL,
    DAO_STALL_CAUSE_COUNT,
} dao_stall_cause_t;

/* A copy of the step, by the device's time from the step's begin on; it may be queued before that. */
typedef struct dao_profiler_span {
    int64_t begin_ns, end_ns;
    uint64_t size_bytes;
} dao_profiler_span_t;

typedef struct dao_profiler_spans {
    dao_profiler_span_t *spans; /* one behind the other */
    uint32_t count, capacity;
} dao_profiler_spans_t;

/* In place of a kernel's number: a run again, whose time is the step's but no kernel's. */
#define DAO_PROFILER_AGAIN UINT32_MAX

/* Of a stream's operation; its number modulo DAO_TIMELINE_SLOTS finds it. */
typedef struct dao_profiler_slot {
    uint64_t sequence; /* 0: it is not measured */
    dao_backend_event_t *begin;
    uint64_t size_bytes; /* of a copy */
    uint32_t kernel;     /* of the step, or DAO_PROFILER_AGAIN */
    dao_fence_t fence;   /* what it had to wait for */
} dao_profiler_slot_t;

typedef enum dao_profiler_state {
    DAO_PROFILER_IDLE,
    DAO_PROFILER_RUNNING,  /* operations that are queued are measured */
    DAO_PROFILER_DRAINING, /* all are queued, not all have finished */
    DAO_PROFILER_DONE,     /* the figures stand */
} dao_profiler_state_t;

typedef struct dao_profiler {
    dao_timeline_t *timeline;
    dao_profiler_state_t state;
    bool is_spoilt; /* something could not be measured */
    dao_profiler_slot_t *slots[DAO_TIMELINE_PACED_COUNT];
    uint64_t next[DAO_TIMELINE_PACED_COUNT]; /* number of the operation that is looked at next */
    uint64_t end[DAO_TIMELINE_PACED_COUNT];  /* while draining: of the last one */
    uint64_t first_kernel;                   /* number of the step's first one on compute stream 0 */

    uint64_t *kernel_ns;
    uint32_t kernel_count, kernel_capacity;
    /* Of each compute stream: from the end of the kernel before the step to the end of its last one. */
    uint64_t lane_ns[DAO_TIMELINE_PACED_COUNT];
    uint64_t step_ns;                                      /* once DONE: the longest of these */
    uint64_t stall_ns[DAO_STALL_CAUSE_COUNT];              /* of all compute streams */
    dao_backend_event_t *origin;                           /* of the spans' times */
    dao_profiler_spans_t copies[DAO_TIMELINE_PACED_COUNT]; /* of H2D and D2H */
    /* Once DONE: of H2D and D2H, the copies that were alone; all copies where is_crowded, as none was. */
    dao_link_speed_t links[DAO_STREAM_ROLE_COUNT];
    bool is_crowded[DAO_STREAM_ROLE_COUNT];
    /* Once DONE: of what both directions move alone, lost while both are under way; below 0: not known. */
    double lost_share;
} dao_profiler_t;

/* The timeline is borrowed. */
void dao_profiler_init(dao_profiler_t *profiler, dao_timeline_t *timeline);

/* Before the timeline is finished; nothing is in flight. */
void dao_profiler_finish(dao_profiler_t *profiler);

/* IDLE -> RUNNING: a step begins. Without memory it stays IDLE. */
void dao_profiler_start(dao_profiler_t *profiler);

/* RUNNING -> DRAINING: the step has ended. */
void dao_profiler_stop(dao_profiler_t *profiler);

/* Any -> IDLE. */
void dao_profiler_reset(dao_profiler_t *profiler);

/* Around an operation that is measured: behind dao_timeline_before() with that fence, and behind
   dao_timeline_after(). */
void dao_profiler_before_kernel(dao_profiler_t *profiler, dao_stream_role_t role, uint32_t kernel,
                                const dao_fence_t *fence);
void dao_profiler_before_copy(dao_profiler_t *profiler, dao_stream_role_t role, uint64_t size_bytes);
void dao_profiler_after(dao_profiler_t *profiler, dao_stream_role_t role);

/* Looks at what was seen to finish, once the device has come to the step; DRAINING -> DONE when that is
   all. */
void dao_profiler_collect(dao_profiler_t *profiler);

/* What is looked at next is not beyond what was issued, and lists are within their capacities. */
bool dao_profiler_is_valid(const dao_profiler_t *profiler);

#endif
