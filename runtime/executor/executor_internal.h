/* SPDX-License-Identifier: Apache-2.0 */
/* The executor behind its handle: shared by executor.c, managed.c and command_list.c. */
#ifndef DAO_RUNTIME_EXECUTOR_EXECUTOR_INTERNAL_H
#define DAO_RUNTIME_EXECUTOR_EXECUTOR_INTERNAL_H

#include "runtime/core/thread.h"
#include "runtime/executor/engine.h"
#include "runtime/executor/queue.h"
#include "runtime/scoreboard/score_source.h"
#include "runtime/start/context.h"

#include <stdatomic.h>

/* What the report of what is left at shutdown calls the streams of an executor. */
#define DAO_EXECUTOR_STREAM_NOUN "stream of an executor"

/* Creates an executor without a thread of its own, a *still* one: its callers run the engine, and only as
   far as the call needs. A push that finds the queue full runs kernels until it fits; a sync or a request
   runs all that was pushed before. So the same calls do the same things in the same order every time: for
   virtual time, and for seeded schedules. */
DAO_NODISCARD dao_status_t dao_executor_create_still(const dao_executor_config_t *config,
                                                     dao_executor_t **out_executor);

struct dao_executor {
    dao_counted_t shared; /* first; held by the creator, every tensor's record and every command list */
    _Atomic uint64_t live_tensor_count;
    _Atomic uint64_t next_tensor_id;
    _Atomic uintptr_t thread_id; /* of the executor's thread; 0 until it runs */
    _Atomic bool reads_sources;  /* it has what tensors with sources need */
    bool is_still;               /* it has no thread */
    uint32_t fork_count;         /* forks before it was made: after one more its thread is not here */
    dao_runtime_t *runtime;
    dao_stream_t *streams[DAO_STREAM_ROLE_COUNT];
    uint32_t stream_count;                                     /* of compute streams; never changes */
    dao_stream_t *more_streams[DAO_EXECUTOR_STREAM_COUNT_MAX]; /* these but the first, by their numbers */
    uint32_t given_streams; /* a bit for each compute stream that is the program's; a reference each */
    /* NULL without file or sources; for sources alone only those that read are there */
    dao_stream_t *file_streams[DAO_FILE_DIRECTION_COUNT];
    dao_stream_t *staging_streams[DAO_FILE_DIRECTION_COUNT]; /* likewise */
    char *file_directory;                                    /* NULL without a file */
    void *arena_address;
    dao_thread_t thread;
    dao_queue_t queue;
    dao_engine_t engine; /* the executor's thread alone, while it runs */
    dao_mutex_t stats_lock;
    dao_executor_stats_t stats; /* guarded by stats_lock: as of the latest item */
    dao_score_source_t score;   /* by which it is watched */
};

/* Returns true in a child of the process that made the executor: its locks may be held for ever there. */
bool dao_executor_is_forked(const dao_executor_t *executor);

/* DAO_ERR_FORKED there. */
DAO_NODISCARD dao_status_t dao_executor_check_process(const dao_executor_t *executor);

/* DAO_ERR_FORKED in a child process; DAO_ERR_REENTRANT on the executor's own thread and in a segment
   callback. */
DAO_NODISCARD dao_status_t dao_executor_check_thread(const dao_executor_t *executor);

/* Makes an item of a kernel, as dao_item_from_kernel(); DAO_ERR_INVALID also for a stream that the executor
   does not have. */
DAO_NODISCARD dao_status_t dao_executor_item(dao_executor_t *executor, const dao_kernel_t *kernel,
                                             dao_item_t **out_item);

/* Pushes a chain of items, as dao_queue_push(); a still executor makes room for it first. */
DAO_NODISCARD dao_status_t dao_executor_queue(dao_executor_t *executor, dao_item_t *first, dao_item_t *last,
                                              uint64_t kernel_count);

/* Pushes a request and waits until it is answered. The item stays the caller's. What the request answered;
   DAO_ERR_STOPPED. */
DAO_NODISCARD dao_status_t dao_executor_ask(dao_executor_t *executor, dao_item_t *item,
                                            dao_request_t *request);

#endif
