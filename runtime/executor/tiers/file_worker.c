/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers beside a stream.

       stream   [ host function: turn ] [ wait: word >= n ] [ turn ] [ wait: word >= n + 1 ]
       thread                         [ transfer n, word = n ]     [ transfer n + 1, ... ]

   A turn only counts, so host functions of other streams go on at once. Where the device refuses the wait,
   a host function waits for the thread, and where that is refused, too, whoever queues the transfer does.

   Invariants: done_count <= begun_count <= done_count + 1; the word is done_count's low bits as the lock is
   taken and given. */
#include "runtime/executor/tiers/file_worker.h"

#include "base/report/assert.h"

#include <stdatomic.h>
#include <string.h>

static bool is_valid_locked(const dao_file_worker_t *worker)
{
    return worker->done_count <= worker->begun_count && worker->begun_count <= worker->done_count + 1 &&
           atomic_load(worker->word) == (uint32_t)worker->done_count;
}

/* The thread. It ends only with nothing begun: the stream waits for what has. */
static void *run(void *user)
{
    dao_file_worker_t *worker = user;
    dao_mutex_lock(&worker->lock);
    for (;;) {
        while (worker->begun_count == worker->done_count && !worker->is_ending) {
            dao_cond_wait(&worker->has_changed, &worker->lock);
        }
        if (worker->begun_count == worker->done_count) {
            break;
        }
        DAO_ASSERT(is_valid_locked(worker));
        uint64_t number = worker->begun_count;
        dao_mutex_unlock(&worker->lock);
        worker->transfer(worker->user, number);
        dao_mutex_lock(&worker->lock);
        worker->done_count = number;
        atomic_store(worker->word, (uint32_t)number);
        dao_cond_broadcast(&worker->has_changed);
    }
    dao_mutex_unlock(&worker->lock);
    return NULL;
}

dao_status_t dao_file_worker_start(dao_file_worker_t *worker, const dao_backend_ops_t *ops,
                                   dao_backend_stream_t *stream, _Atomic uint32_t *word,
                                   void (*transfer)(void *user, uint64_t number), void *user)
{
    *worker =
        (dao_file_worker_t){.ops = ops, .stream = stream, .word = word, .transfer = transfer, .user = user};
    atomic_store(word, 0);
    dao_mutex_init(&worker->lock, DAO_RANK_LEAF);
    dao_cond_init(&worker->has_changed);
    dao_status_t status = dao_thread_start(&worker->thread, "dao-file", run, worker);
    worker->is_there = status == DAO_OK;
    if (status != DAO_OK) {
        dao_cond_finish(&worker->has_changed);
        dao_mutex_finish(&worker->lock);
    }
    return status;
}

void dao_file_worker_end(dao_file_worker_t *worker)
{
    if (!worker->is_there) {
        return;
    }
    dao_mutex_lock(&worker->lock);
    worker->is_ending = true;
    dao_cond_broadcast(&worker->has_changed);
    dao_mutex_unlock(&worker->lock);
    dao_thread_join(&worker->thread);
    dao_cond_finish(&worker->has_changed);
    dao_mutex_finish(&worker->lock);
    memset(worker, 0, sizeof(*worker));
}

/* ---- what the stream runs ---- */

static void begin_turn(void *user)
{
    dao_file_worker_t *worker = user;
    dao_mutex_lock(&worker->lock);
    worker->begun_count++;
    DAO_ASSERT(is_valid_locked(worker));
    dao_cond_broadcast(&worker->has_changed);
    dao_mutex_unlock(&worker->lock);
}

static void wait_for_turn(void *user)
{
    dao_file_worker_t *worker = user;
    dao_mutex_lock(&worker->lock);
    while (worker->done_count < worker->begun_count) {
        dao_cond_wait(&worker->has_changed, &worker->lock);
    }
    dao_mutex_unlock(&worker->lock);
}

dao_status_t dao_file_worker_queue_turn(dao_file_worker_t *worker)
{
    return worker->ops->host_func(worker->stream, begin_turn, worker);
}

dao_status_t dao_file_worker_queue_wait(dao_file_worker_t *worker)
{
    dao_status_t status =
        worker->ops->stream_wait_word(worker->stream, worker->word, worker->queued_value + 1);
    if (status != DAO_OK && status != DAO_ERR_DEVICE_LOST) {
        status = worker->ops->host_func(worker->stream, wait_for_turn, worker);
    }
    if (status != DAO_OK && status != DAO_ERR_DEVICE_LOST) {
        status = worker->ops->stream_synchronize(worker->stream);
        if (status == DAO_OK) {
            wait_for_turn(worker);
        }
    }
    worker->queued_value += status == DAO_OK ? 1 : 0;
    return status;
}
