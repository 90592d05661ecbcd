/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of a device that share one line of its table of stream fences, since there are more of them
   than lines. The crowd has a stream of its own, on which nothing runs. It is made to wait for its members,
   so that an event on it stands for what they had queued:

       member 0   work  free  work
                           \
       member 1   work      \         work  free
                             \                 \
       the crowd's stream     wait . [event] .. wait . [event]

   A member that has freed is waited for before the next event, once; one on which blocks of others are in use
   (is_shared) before every event. Epochs are those of stream_fence.h. The caller has a lock over all calls
   but _open() and _close(). */
#ifndef DAO_ALLOCATORS_STREAM_CROWD_H
#define DAO_ALLOCATORS_STREAM_CROWD_H

#include "backends/backend.h"

typedef struct dao_crowd_member {
    dao_backend_stream_t *stream; /* borrowed; NULL: nobody's */
    uint64_t freed_epoch;         /* of its last free; 0: none that the crowd's stream has to wait for */
    bool is_shared;               /* others free blocks that are in use on it */
} dao_crowd_member_t;

/* All zero: nobody has joined. */
typedef struct dao_stream_crowd {
    dao_backend_stream_t *stream; /* owned; NULL: not opened */
    dao_backend_event_t *event;   /* owned: for waits of the crowd's stream */
    dao_crowd_member_t *members;
    uint32_t slot_count; /* of members */
} dao_stream_crowd_t;

/* Makes a crowd's stream and event, on a device. The backend's answer: nothing was made then. */
DAO_NODISCARD dao_status_t dao_stream_crowd_open(dao_stream_crowd_t *crowd, const dao_backend_ops_t *ops,
                                                 dao_backend_device_t *device);
void dao_stream_crowd_close(dao_stream_crowd_t *crowd, const dao_backend_ops_t *ops); /* open or not */

/* Adds a stream. DAO_ERR_NO_HOST_MEMORY. O(members). */
DAO_NODISCARD dao_status_t dao_stream_crowd_join(dao_stream_crowd_t *crowd, dao_backend_stream_t *stream,
                                                 uint32_t *out_index);

/* Takes one out whose work has finished. */
void dao_stream_crowd_leave(dao_stream_crowd_t *crowd, uint32_t index);

/* Says that the host has waited for the work of a member, and closed an epoch before. */
void dao_stream_crowd_finished(dao_stream_crowd_t *crowd, uint32_t index, uint64_t epoch);

/* Makes the crowd's stream wait for what its members freed behind, and what is shared. DAO_ERR_BUSY without a
   message: one of these is being captured into a graph. DAO_ERR_NOT_READY without a message: one of these is
   gone, so that only the host can wait, for the device. The backend's answer: who was not waited for is next
   time. O(members). */
DAO_NODISCARD dao_status_t dao_stream_crowd_follow(dao_stream_crowd_t *crowd, const dao_backend_ops_t *ops);

#endif
