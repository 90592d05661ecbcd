/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that does the transfers of one stream of the file, where a device can wait for a word of memory:
   drivers may run host functions one after the other, whichever streams they are on, so that a transfer in
   one would keep the transfers, and all host functions, of other streams waiting. */
#ifndef DAO_RUNTIME_EXECUTOR_FILE_WORKER_H
#define DAO_RUNTIME_EXECUTOR_FILE_WORKER_H

#include "backends/backend.h"
#include "base/threads/sync.h"

typedef struct dao_file_worker {
    bool is_there; /* false: all else is 0 */
    const dao_backend_ops_t *ops;
    dao_backend_stream_t *stream;
    void (*transfer)(void *user, uint64_t number); /* of the transfer of that number, from 1 up */
    void *user;
    _Atomic uint32_t *word; /* in pinned memory: the low bits of done_count, for the device */
    dao_thread_t thread;
    uint32_t queued_value; /* the word, once all that was queued is done */
    dao_mutex_t lock;      /* of what follows */
    dao_cond_t has_changed;
    uint64_t begun_count; /* transfers that the stream has come to */
    uint64_t done_count;
    bool is_ending;
} dao_file_worker_t;

/* Starts the thread. `word` is in pinned memory, and borrowed as all else is. DAO_ERR_THREAD with a message:
   nothing was made. */
DAO_NODISCARD dao_status_t dao_file_worker_start(dao_file_worker_t *worker, const dao_backend_ops_t *ops,
                                                 dao_backend_stream_t *stream, _Atomic uint32_t *word,
                                                 void (*transfer)(void *user, uint64_t number), void *user);

/* Queues the next transfer, in two steps. First its turn: the thread begins as the stream comes to it; what
   the stream refuses may be tried again. Then the wait, which holds the stream up until it is done: an error
   means that the device has to be given up. */
DAO_NODISCARD dao_status_t dao_file_worker_queue_turn(dao_file_worker_t *worker);
DAO_NODISCARD dao_status_t dao_file_worker_queue_wait(dao_file_worker_t *worker);

/* Ends the thread, behind the transfers that have begun. The stream is gone. One that is not there is
   allowed. */
void dao_file_worker_end(dao_file_worker_t *worker);

#endif
