/* SPDX-License-Identifier: Apache-2.0 */
/* The executor's streams as sequences of numbered operations, each with an event behind it. */
#ifndef DAO_RUNTIME_EXECUTOR_TIMELINE_H
#define DAO_RUNTIME_EXECUTOR_TIMELINE_H

#include "backends/backend.h"
#include "runtime/executor/streams/fence.h"

/* Events of a stream: those of its latest operations. A power of two. */
#define DAO_TIMELINE_SLOTS 1024u

/* Most operations of a stream in flight; beyond it the host waits for the oldest. Fewer than events, so
   that when an operation is seen to finish, the event of the one before it is still its own: profiler.c
   measures from it. */
#define DAO_TIMELINE_DEPTH (DAO_TIMELINE_SLOTS - 2u)

typedef struct dao_timeline_stream {
    dao_backend_stream_t *backend; /* NULL: the stream is not there, and nothing is queued on it */
    uint64_t issued;               /* number of the latest operation */
    uint64_t recorded;             /* number of the latest one with an event behind it */
    uint64_t completed;            /* all up to this number have finished */
    uint64_t
        waited[DAO_TIMELINE_STREAM_COUNT]; /* this stream already waits for these numbers of the others */
    dao_backend_event_t
        *events[DAO_TIMELINE_SLOTS]; /* of operation n: slot n mod SLOTS; made when first needed */
} dao_timeline_stream_t;

typedef struct dao_timeline {
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device;
    dao_timeline_stream_t streams[DAO_TIMELINE_STREAM_COUNT];
    uint64_t throttle_count; /* times the host had to wait for the device */
} dao_timeline_t;

/* The streams are borrowed and outlive the timeline. */
void dao_timeline_init(dao_timeline_t *timeline, const dao_backend_ops_t *ops, dao_backend_device_t *device,
                       dao_backend_stream_t *const streams[DAO_STREAM_ROLE_COUNT]);

/* Adds a stream of the file tier; the stream is borrowed as the others are. */
void dao_timeline_add_stream(dao_timeline_t *timeline, dao_stream_role_t role, dao_backend_stream_t *stream);

/* Gives up the events; nothing is in flight. */
void dao_timeline_finish(dao_timeline_t *timeline);

/* Before an operation is queued on a stream: makes its later work wait for a fence, on the device, and makes
   sure that the operation can get a number. On an error nothing was queued. The host waits only if
   DAO_TIMELINE_DEPTH operations are in flight or the device cannot wait by itself. */
DAO_NODISCARD dao_status_t dao_timeline_before(dao_timeline_t *timeline, dao_stream_role_t role,
                                               const dao_fence_t *fence);

/* After an operation was queued on a stream: gives it the stream's next number. If no event can be
   recorded, the host waits for the stream instead; an error means that this failed too and the device has
   to be given up. */
DAO_NODISCARD dao_status_t dao_timeline_after(dao_timeline_t *timeline, dao_stream_role_t role,
                                              uint64_t *out_sequence);

/* Looks which operations have finished, on all streams, without waiting. The first error of the work, if
   there is one. */
DAO_NODISCARD dao_status_t dao_timeline_poll(dao_timeline_t *timeline);

/* Returns true if all that a fence names was seen to finish. */
bool dao_timeline_is_done(const dao_timeline_t *timeline, const dao_fence_t *fence);

/* The host waits for a fence, or for everything queued so far. */
DAO_NODISCARD dao_status_t dao_timeline_wait(dao_timeline_t *timeline, const dao_fence_t *fence);
DAO_NODISCARD dao_status_t dao_timeline_wait_all(dao_timeline_t *timeline);

bool dao_timeline_is_valid(const dao_timeline_t *timeline);

#endif
