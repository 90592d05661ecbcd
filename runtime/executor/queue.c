/* SPDX-License-Identifier: Apache-2.0 */
/* A linked list under one lock. Two conditions, so that a producer never wakes a producer in the
   consumer's place.

   Invariants: kernel_count is the number of kernels in the list and in the consumer's hands; turn <=
   turn_count; first and last are NULL together. */
#include "runtime/executor/queue.h"

#include "base/report/error.h"

#include <string.h>

void dao_queue_init(dao_queue_t *queue, uint32_t kernel_limit)
{
    memset(queue, 0, sizeof(*queue));
    DAO_ASSERT(kernel_limit > 0);
    queue->kernel_limit = kernel_limit;
    dao_mutex_init(&queue->lock, DAO_RANK_EXECUTOR);
    dao_cond_init(&queue->not_empty);
    dao_cond_init(&queue->not_full);
    dao_cond_init(&queue->request_done);
}

void dao_queue_finish(dao_queue_t *queue)
{
    DAO_ASSERT(queue->first == NULL && queue->kernel_count == 0);
    dao_cond_finish(&queue->request_done);
    dao_cond_finish(&queue->not_full);
    dao_cond_finish(&queue->not_empty);
    dao_mutex_finish(&queue->lock);
}

static bool is_valid_locked(const dao_queue_t *queue)
{
    return (queue->first == NULL) == (queue->last == NULL) && queue->turn <= queue->turn_count;
}

static bool has_room_locked(const dao_queue_t *queue, uint64_t kernel_count)
{
    return queue->kernel_count == 0 || queue->kernel_count + kernel_count <= queue->kernel_limit;
}

bool dao_queue_has_room(dao_queue_t *queue, uint64_t kernel_count)
{
    dao_mutex_lock(&queue->lock);
    bool has_room = has_room_locked(queue, kernel_count);
    dao_mutex_unlock(&queue->lock);
    return has_room;
}

/* Waits for room in the order of the callers, so that short pushes do not keep a long one out for ever. */
static void wait_for_room_locked(dao_queue_t *queue, uint64_t kernel_count)
{
    uint64_t turn = queue->turn_count++;
    while (!queue->is_stopping && (turn != queue->turn || !has_room_locked(queue, kernel_count))) {
        dao_cond_wait(&queue->not_full, &queue->lock);
    }
    queue->turn++;
    DAO_ASSERT(queue->turn <= queue->turn_count);
    if (queue->turn != queue->turn_count) {
        dao_cond_broadcast(&queue->not_full);
    }
}

static dao_status_t check_locked(const dao_queue_t *queue)
{
    return queue->is_stopping ? dao_error(DAO_ERR_STOPPED, "the executor is stopped or being destroyed")
                              : DAO_OK;
}

dao_status_t dao_queue_check(dao_queue_t *queue)
{
    dao_mutex_lock(&queue->lock);
    dao_status_t status = check_locked(queue);
    dao_mutex_unlock(&queue->lock);
    return status;
}

dao_status_t dao_queue_push(dao_queue_t *queue, dao_item_t *first, dao_item_t *last, uint64_t kernel_count)
{
    DAO_ASSERT(first != NULL);
    DAO_ASSERT(last != NULL);
    dao_mutex_lock(&queue->lock);
    DAO_ASSERT(is_valid_locked(queue));
    if (kernel_count > 0) {
        wait_for_room_locked(queue, kernel_count);
    }
    dao_status_t status = check_locked(queue);
    if (status == DAO_OK) {
        last->next = NULL;
        if (queue->last == NULL) {
            queue->first = first;
        } else {
            queue->last->next = first;
        }
        queue->last = last;
        queue->kernel_count += kernel_count;
        dao_cond_signal(&queue->not_empty);
    }
    DAO_ASSERT(is_valid_locked(queue));
    dao_mutex_unlock(&queue->lock);
    return status;
}

dao_item_t *dao_queue_take(dao_queue_t *queue, bool wait)
{
    dao_mutex_lock(&queue->lock);
    while (wait && queue->first == NULL && !queue->is_stopping) {
        dao_cond_wait(&queue->not_empty, &queue->lock);
    }
    DAO_ASSERT(is_valid_locked(queue));
    dao_item_t *first = queue->first;
    queue->first = NULL;
    queue->last = NULL;
    dao_mutex_unlock(&queue->lock);
    return first;
}

void dao_queue_finish_kernel(dao_queue_t *queue)
{
    dao_mutex_lock(&queue->lock);
    DAO_ASSERT(queue->kernel_count > 0);
    queue->kernel_count--;
    dao_cond_broadcast(&queue->not_full); /* chains of several lengths wait */
    dao_mutex_unlock(&queue->lock);
}

void dao_queue_answer(dao_queue_t *queue, dao_request_t *request)
{
    dao_mutex_lock(&queue->lock);
    DAO_ASSERT(!request->is_done);
    request->is_done = true;
    dao_cond_broadcast(&queue->request_done);
    dao_mutex_unlock(&queue->lock);
}

void dao_queue_await(dao_queue_t *queue, dao_request_t *request)
{
    dao_mutex_lock(&queue->lock);
    while (!request->is_done) {
        dao_cond_wait(&queue->request_done, &queue->lock);
    }
    dao_mutex_unlock(&queue->lock);
}

bool dao_queue_stop(dao_queue_t *queue)
{
    dao_mutex_lock(&queue->lock);
    bool is_first = !queue->is_stopping;
    queue->is_stopping = true;
    dao_cond_broadcast(&queue->not_empty);
    dao_cond_broadcast(&queue->not_full);
    dao_mutex_unlock(&queue->lock);
    return is_first;
}
