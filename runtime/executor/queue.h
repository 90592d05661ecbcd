/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded queue between the program's threads and the executor's: any number of producers, one
   consumer. */
#ifndef DAO_RUNTIME_EXECUTOR_QUEUE_H
#define DAO_RUNTIME_EXECUTOR_QUEUE_H

#include "base/threads/sync.h"
#include "runtime/executor/records/item.h"

typedef struct dao_queue {
    dao_mutex_t lock;
    dao_cond_t not_empty;    /* the consumer waits */
    dao_cond_t not_full;     /* producers wait */
    dao_cond_t request_done; /* threads with a request wait */
    dao_item_t *first, *last;
    uint32_t kernel_limit;
    uint64_t kernel_count; /* pushed and not yet finished by the consumer */
    uint64_t turn_count;   /* turns given out: pushes of kernels have room in the order in which they came */
    uint64_t turn;         /* whose turn it is */
    bool is_stopping;      /* nothing more may be pushed */
} dao_queue_t;

void dao_queue_init(dao_queue_t *queue, uint32_t kernel_limit);
void dao_queue_finish(dao_queue_t *queue); /* it is empty */

/* DAO_ERR_STOPPED once nothing more may be pushed. */
DAO_NODISCARD dao_status_t dao_queue_check(dao_queue_t *queue);

/* Adds a chain of items at once, in order. Waits until its `kernel_count` kernels have room, or the queue has
   none at all (a chain may be longer than the limit); later pushes of kernels wait behind it.
   DAO_ERR_STOPPED: nothing was added. */
DAO_NODISCARD dao_status_t dao_queue_push(dao_queue_t *queue, dao_item_t *first, dao_item_t *last,
                                          uint64_t kernel_count);

/* Returns true if dao_queue_push() would not wait, with no other thread pushing. */
bool dao_queue_has_room(dao_queue_t *queue, uint64_t kernel_count);

/* Takes everything; with `wait`, waits for something to come. NULL: nothing is there; with `wait`: and never
   will be. */
dao_item_t *dao_queue_take(dao_queue_t *queue, bool wait);

/* The consumer has finished a kernel. */
void dao_queue_finish_kernel(dao_queue_t *queue);

/* The consumer has answered a request. */
void dao_queue_answer(dao_queue_t *queue, dao_request_t *request);

/* A producer waits for its request. */
void dao_queue_await(dao_queue_t *queue, dao_request_t *request);

/* Refuses what comes from now on. What is in the queue is still taken. Returns false if that is so already.
 */
bool dao_queue_stop(dao_queue_t *queue);

#endif
