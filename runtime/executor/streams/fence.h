/* SPDX-License-Identifier: Apache-2.0 */
/* Fences as data. Every operation that the executor queues gets a number on its stream. A fence names,
   stream by stream, the last operation that still uses a buffer. Two fences are joined by the greater
   number of each stream, so that fences never need memory. */
#ifndef DAO_RUNTIME_EXECUTOR_FENCE_H
#define DAO_RUNTIME_EXECUTOR_FENCE_H

#include <dao/executor.h>

/* The executor's streams: those of a device by their DAO_STREAM_ROLE_*, further compute streams, and four of
   the file tier, of which two copy between the device and pinned pieces. Those that use the device's memory
   come first. */
#define DAO_TIMELINE_PACED_COUNT         (DAO_STREAM_ROLE_COUNT + (int)DAO_EXECUTOR_STREAM_COUNT_MAX - 1)
#define DAO_TIMELINE_STAGE_IN            ((dao_stream_role_t)DAO_TIMELINE_PACED_COUNT)
#define DAO_TIMELINE_STAGE_OUT           ((dao_stream_role_t)(DAO_TIMELINE_PACED_COUNT + 1))
#define DAO_TIMELINE_DEVICE_STREAM_COUNT (DAO_TIMELINE_PACED_COUNT + 2)
#define DAO_TIMELINE_FILE_OUT            ((dao_stream_role_t)DAO_TIMELINE_DEVICE_STREAM_COUNT)
#define DAO_TIMELINE_FILE_IN             ((dao_stream_role_t)(DAO_TIMELINE_DEVICE_STREAM_COUNT + 1))
#define DAO_TIMELINE_STREAM_COUNT        (DAO_TIMELINE_DEVICE_STREAM_COUNT + 2)

/* The role of a compute stream, by its number in dao_kernel_t. */
static inline dao_stream_role_t dao_timeline_compute(uint32_t stream_index)
{
    return stream_index == 0 ? DAO_STREAM_ROLE_COMPUTE
                             : (dao_stream_role_t)(DAO_STREAM_ROLE_COUNT - 1 + (int)stream_index);
}

typedef struct dao_fence {
    uint64_t sequence[DAO_TIMELINE_STREAM_COUNT]; /* 0: nothing to wait for */
} dao_fence_t;

static inline void dao_fence_add(dao_fence_t *fence, dao_stream_role_t role, uint64_t sequence)
{
    if (sequence > fence->sequence[role]) {
        fence->sequence[role] = sequence;
    }
}

static inline void dao_fence_join(dao_fence_t *fence, const dao_fence_t *other)
{
    for (int role = 0; role < DAO_TIMELINE_STREAM_COUNT; role++) {
        dao_fence_add(fence, (dao_stream_role_t)role, other->sequence[role]);
    }
}

#endif
