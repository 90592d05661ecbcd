/* SPDX-License-Identifier: Apache-2.0 */
/* Fences as data. Every operation that the executor queues gets a number on its stream. A fence names,
   stream by stream, the last operation that still uses a buffer. Two fences are joined by the greater
   number of each stream, so that fences never need memory. */
#ifndef DAO_RUNTIME_EXECUTOR_FENCE_H
#define DAO_RUNTIME_EXECUTOR_FENCE_H

#include <dao/executor.h>

#include <assert.h>

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

/* Nobody but the functions here touches the fields: each stream that has a number has its bit, and no other
   stream is looked at. {0} is a fence that names nothing. */
typedef struct dao_fence {
    uint64_t numbers[DAO_TIMELINE_STREAM_COUNT]; /* 0: nothing to wait for */
    uint32_t named;                              /* a bit for each stream whose number is not 0 */
} dao_fence_t;

static_assert(DAO_TIMELINE_STREAM_COUNT <= 32, "a fence has a bit for each stream");

/* The operation of a stream that is waited for, and with it all before it; 0: none. */
static inline uint64_t dao_fence_number(const dao_fence_t *fence, dao_stream_role_t role)
{
    return fence->numbers[role];
}

static inline void dao_fence_add(dao_fence_t *fence, dao_stream_role_t role, uint64_t number)
{
    if (number > fence->numbers[role]) {
        fence->numbers[role] = number;
        fence->named |= UINT32_C(1) << role;
    }
}

/* A stream is not waited for. */
static inline void dao_fence_drop(dao_fence_t *fence, dao_stream_role_t role)
{
    fence->numbers[role] = 0;
    fence->named &= ~(UINT32_C(1) << role);
}

/* The streams of a fence one by one: begins with all of them, of which each call takes one out.

       for (uint32_t left = dao_fence_streams(fence); left != 0;) {
           dao_stream_role_t role = dao_fence_next(&left); */
static inline uint32_t dao_fence_streams(const dao_fence_t *fence)
{
    return fence->named;
}

static inline dao_stream_role_t dao_fence_next(uint32_t *streams)
{
    dao_stream_role_t role = (dao_stream_role_t)__builtin_ctz(*streams);
    *streams &= *streams - 1;
    return role;
}

static inline void dao_fence_join(dao_fence_t *fence, const dao_fence_t *other)
{
    for (uint32_t left = dao_fence_streams(other); left != 0;) {
        dao_stream_role_t role = dao_fence_next(&left);
        dao_fence_add(fence, role, other->numbers[role]);
    }
}

#endif
