/* SPDX-License-Identifier: Apache-2.0 */
/* Makes plans, one at a time, on a thread of its own or on the caller's. */
#ifndef DAO_RUNTIME_EXECUTOR_PLAN_WORKER_H
#define DAO_RUNTIME_EXECUTOR_PLAN_WORKER_H

#include "base/threads/sync.h"
#include "runtime/executor/plans/plan_follow.h"

/* A step to be planned, and what came of it. */
typedef struct dao_plan_job {
    dao_swap_problem_t problem; /* its lists are the job's own */
    dao_swap_tensor_t *tensors;
    dao_swap_kernel_t *kernels;
    dao_swap_use_t *uses;
    bool *is_pinned; /* of each role: its tensor stays on the device, and is no part of the problem */
    uint64_t pins;   /* of the engine */
    dao_device_pages_t *pages; /* what the plan's window is made of, if it gets one */
    dao_recompute_mode_t mode;
    dao_swap_addresses_t addresses;
    uint64_t work_limit; /* as of dao_swap_plan_config_t */
    uint64_t known_ns;   /* what the step takes with the plan that this job made before; 0: with none */
    dao_status_t status;
    dao_compiled_plan_t *plan; /* with DAO_OK */
} dao_plan_job_t;

/* Makes a job of a known step, without its roles whose tensors are pinned: a list of those that are, or NULL.
   Kernel times in nanoseconds; with `may_repeat` kernels may run again that the program says may; tensors
   with a source come from a file, whose link has to have a speed then; the rest of the problem is the
   caller's to fill in. NULL without memory. */
dao_plan_job_t *dao_plan_job_create(const dao_step_log_t *known, const uint64_t *kernel_ns, bool may_repeat,
                                    const dao_managed_t *first_pinned);

/* Does a job that no worker has. */
void dao_plan_job_run(dao_plan_job_t *job);

void dao_plan_job_destroy(dao_plan_job_t *job); /* with its plan, if that is still there; NULL is allowed */

typedef struct dao_plan_worker {
    bool is_at_once; /* dao_plan_worker_run() makes the plans, no thread */
    dao_mutex_t lock;
    dao_cond_t changed;
    dao_thread_t thread; /* started with the first job */
    bool has_thread;
    dao_plan_job_t *job;  /* submitted, and not taken */
    _Atomic bool is_done; /* the job may be taken; until then it, and what it holds, is guarded by the lock */
    _Atomic bool is_stopping; /* set under the lock; the plan that is being made is given up */
} dao_plan_worker_t;

void dao_plan_worker_init(dao_plan_worker_t *worker, bool is_at_once);

/* A plan that is being made is given up: waits for that, a millisecond or some for a large step. */
void dao_plan_worker_finish(dao_plan_worker_t *worker);

/* Submits a job, at most one at a time. DAO_ERR_THREAD: the job is still the caller's. */
DAO_NODISCARD dao_status_t dao_plan_worker_submit(dao_plan_worker_t *worker, dao_plan_job_t *job);

/* Does the submitted job, of a worker that is at once and has one; else nothing. */
void dao_plan_worker_run(dao_plan_worker_t *worker);

/* Returns the job if it is done, else NULL. Never waits. */
dao_plan_job_t *dao_plan_worker_take(dao_plan_worker_t *worker);

#endif
