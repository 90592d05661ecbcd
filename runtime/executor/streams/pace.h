/* SPDX-License-Identifier: Apache-2.0 */
/* An estimate of the device's time: when what is queued on its streams will have run. From the costs of
   kernels, the speed of copies, and the same fences that the device waits for. The clock begins with the
   engine; only differences of its times mean something. */
#ifndef DAO_RUNTIME_EXECUTOR_PACE_H
#define DAO_RUNTIME_EXECUTOR_PACE_H

#include "runtime/executor/streams/timeline.h"

typedef struct dao_pace_stream {
    double end_ns;                         /* of its latest operation */
    double ends_ns[DAO_TIMELINE_SLOTS];    /* of operation n: slot n mod SLOTS */
    uint64_t bytes;                        /* of all its copies */
    uint64_t bytes_by[DAO_TIMELINE_SLOTS]; /* up to operation n */
    uint64_t first, last;                  /* operations that were told here without a gap */
    uint64_t seen;                         /* of these, the last whose time was looked at */
    double bytes_per_ns;                   /* of its copies, the most that was seen; 0: not known yet */
} dao_pace_stream_t;

typedef struct dao_pace {
    dao_pace_stream_t streams[DAO_TIMELINE_PACED_COUNT];
} dao_pace_t;

/* An operation of so much time was queued behind a fence. */
void dao_pace_queue(dao_pace_t *pace, dao_stream_role_t role, uint64_t sequence, const dao_fence_t *fence,
                    double cost_ns);

/* The same for a copy. */
void dao_pace_copy(dao_pace_t *pace, dao_stream_role_t role, uint64_t sequence, const dao_fence_t *fence,
                   uint64_t size_bytes);

/* Returns when all that a fence names has run. */
double dao_pace_fence_ns(const dao_pace_t *pace, const dao_fence_t *fence);

/* Returns the time that copies of so many bytes take; 0 while the speed is not known. */
double dao_pace_copy_ns(const dao_pace_t *pace, dao_stream_role_t role, double bytes);

/* Learns the speed of copies that were seen to finish. */
void dao_pace_look(dao_pace_t *pace, const dao_timeline_t *timeline);

#endif
