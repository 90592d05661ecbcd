/* SPDX-License-Identifier: Apache-2.0 */
/* What was given back while work could still use it, each with the fence of that work, in the order in which
   it was given back. */
#ifndef DAO_RUNTIME_EXECUTOR_FENCE_QUEUE_H
#define DAO_RUNTIME_EXECUTOR_FENCE_QUEUE_H

#include "runtime/executor/streams/timeline.h"

typedef struct dao_fenced {
    uint64_t begin; /* an offset or an address */
    uint64_t size_bytes;
    dao_fence_t fence;
    uint32_t earlier; /* free for the queue's owner; see fence_map.c */
} dao_fenced_t;

typedef struct dao_fence_queue {
    dao_fenced_t *entries; /* from `first` to below `end` */
    size_t first, end, capacity;
    void (*leave)(void *user,
                  const dao_fenced_t *entry); /* takes over what is in use no more; NULL: nobody */
    void *user;
} dao_fence_queue_t;

static inline size_t dao_fence_queue_count(const dao_fence_queue_t *queue)
{
    return queue->end - queue->first;
}

/* Forgets all entries: the caller keeps their fences. They are of nobody. */
void dao_fence_queue_clear(dao_fence_queue_t *queue);

/* Lets all entries leave, in use or not. */
void dao_fence_queue_finish(dao_fence_queue_t *queue);

/* Adds an entry at the end. Returns false without host memory: nothing has changed but for entries that have
   left. */
bool dao_fence_queue_push(dao_fence_queue_t *queue, const dao_timeline_t *timeline,
                          const dao_fenced_t *entry);

/* Lets the first entries leave, up to one that is in use. Costs as much as those that leave. */
void dao_fence_queue_trim(dao_fence_queue_t *queue, const dao_timeline_t *timeline);

/* Lets all entries leave that are in use no more. */
void dao_fence_queue_sweep(dao_fence_queue_t *queue, const dao_timeline_t *timeline);

bool dao_fence_queue_is_valid(const dao_fence_queue_t *queue);

#endif
