/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of fences.

       entries  | left | in use, done, in use, in use | free |
                       first                          end    capacity

   Streams keep their order, so most entries are done in the order of the queue; one behind an entry that is
   still in use stays until that is done, or until its memory is wanted. So looking costs as much as what has
   left, not as much as what is there.

   Invariant: first <= end <= capacity. */
#include "runtime/executor/streams/fence_queue.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

#include <string.h>

/* Entries that a queue holds at first. */
#define ENTRIES_AT_FIRST 64

static void leave(const dao_fence_queue_t *queue, const dao_fenced_t *entry)
{
    if (queue->leave != NULL) {
        queue->leave(queue->user, entry);
    }
}

void dao_fence_queue_clear(dao_fence_queue_t *queue)
{
    DAO_ASSERT(queue->leave == NULL);
    queue->first = 0;
    queue->end = 0;
}

void dao_fence_queue_finish(dao_fence_queue_t *queue)
{
    for (size_t i = queue->first; i < queue->end; i++) {
        leave(queue, &queue->entries[i]);
    }
    dao_host_free(queue->entries);
    memset(queue, 0, sizeof(*queue));
}

void dao_fence_queue_trim(dao_fence_queue_t *queue, const dao_timeline_t *timeline)
{
    while (queue->first < queue->end && dao_timeline_is_done(timeline, &queue->entries[queue->first].fence)) {
        leave(queue, &queue->entries[queue->first++]);
    }
}

void dao_fence_queue_sweep(dao_fence_queue_t *queue, const dao_timeline_t *timeline)
{
    size_t kept = 0;
    for (size_t i = queue->first; i < queue->end; i++) {
        if (dao_timeline_is_done(timeline, &queue->entries[i].fence)) {
            leave(queue, &queue->entries[i]);
        } else {
            queue->entries[kept++] = queue->entries[i];
        }
    }
    queue->first = 0;
    queue->end = kept;
}

/* At the end of the memory: moves what is left to its begin, and takes more if that is more than half. */
static bool make_room(dao_fence_queue_t *queue, const dao_timeline_t *timeline)
{
    dao_fence_queue_sweep(queue, timeline);
    if (queue->end < queue->capacity && queue->end <= queue->capacity / 2) {
        return true;
    }
    size_t capacity = queue->capacity == 0 ? ENTRIES_AT_FIRST : 2 * queue->capacity;
    dao_fenced_t *entries = dao_host_realloc(queue->entries, capacity, sizeof(*entries));
    if (entries != NULL) {
        queue->entries = entries;
        queue->capacity = capacity;
    }
    return queue->end < queue->capacity;
}

bool dao_fence_queue_push(dao_fence_queue_t *queue, const dao_timeline_t *timeline, const dao_fenced_t *entry)
{
    if (queue->end == queue->capacity && !make_room(queue, timeline)) {
        return false;
    }
    DAO_ASSERT(queue->end < queue->capacity);
    queue->entries[queue->end++] = *entry;
    return true;
}

bool dao_fence_queue_is_valid(const dao_fence_queue_t *queue)
{
    return queue->first <= queue->end && queue->end <= queue->capacity;
}
