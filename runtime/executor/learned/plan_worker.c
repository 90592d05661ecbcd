/* SPDX-License-Identifier: Apache-2.0 */
/* One job, one thread:

       executor's thread   submit --------------------------> take
       worker's thread           `-> bound, plan, compile --> done -'

       state     job    is_done   holder of the job
       idle      NULL   no        -
       working   set    no        the worker
       done      set    yes       the executor, by dao_plan_worker_take()

   Invariant: is_done only with a job. A job that is not done is read and written by the worker alone. */
#include "runtime/executor/learned/plan_worker.h"

#include "allocators/range/range.h"
#include "base/log.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/records/tensor.h"

/* A pinned tensor is used by no kernel of the problem, and lives nowhere in it. */
static void describe_tensors(dao_plan_job_t *job, const dao_step_log_t *known,
                             const dao_managed_t *first_pinned)
{
    for (const dao_managed_t *tensor = first_pinned; tensor != NULL; tensor = tensor->pin.next) {
        uint32_t role = dao_step_log_find_role(known, tensor->id);
        if (role != DAO_STEP_LOG_NO_ROLE) {
            job->is_pinned[role] = true;
        }
    }
    for (uint32_t i = 0; i < known->role_count; i++) {
        job->tensors[i].size_bytes =
            job->is_pinned[i] ? DAO_RANGE_GRANULE : dao_device_arena_part_bytes(known->roles[i].size_bytes);
        job->tensors[i].is_persistent = known->roles[i].is_persistent && !job->is_pinned[i];
        job->tensors[i].is_from_file = known->roles[i].has_source && !job->is_pinned[i];
    }
}

/* A kernel that uses a pinned tensor does not run again: what another one wrote there meanwhile is not
   counted. */
static void describe_kernels(dao_plan_job_t *job, const dao_step_log_t *known, const uint64_t *kernel_ns,
                             bool may_repeat)
{
    static_assert((int)DAO_ACCESS_READ == DAO_USE_READ && (int)DAO_ACCESS_WRITE == DAO_USE_WRITE &&
                      (int)DAO_ACCESS_READ_WRITE == DAO_USE_READ_WRITE,
                  "a use is an access");
    dao_swap_use_t *next = job->uses;
    for (uint32_t k = 0; k < known->kernel_count; k++) {
        const dao_step_log_kernel_t *kernel = &known->kernels[k];
        const dao_swap_use_t *first = next;
        for (uint32_t i = kernel->first_use; i < kernel->first_use + kernel->use_count; i++) {
            const dao_step_log_use_t *use = &known->uses[i];
            if (!job->is_pinned[use->role]) {
                *next++ = (dao_swap_use_t){use->role, (dao_access_t)use->kind};
            }
        }
        uint32_t use_count = (uint32_t)(next - first);
        job->kernels[k] = (dao_swap_kernel_t){
            .time_ns = kernel_ns[k],
            .workspace_bytes = dao_device_arena_part_bytes(kernel->workspace_bytes),
            .uses = first,
            .use_count = use_count,
            .is_repeatable = kernel->is_repeatable && may_repeat && use_count == kernel->use_count,
            .stream = kernel->stream_index,
        };
    }
}

dao_plan_job_t *dao_plan_job_create(const dao_step_log_t *known, const uint64_t *kernel_ns, bool may_repeat,
                                    const dao_managed_t *first_pinned)
{
    dao_plan_job_t *job = dao_host_calloc(1, sizeof(*job));
    if (job == NULL) {
        return NULL;
    }
    job->tensors = dao_host_calloc((size_t)known->role_count + 1, sizeof(*job->tensors));
    job->kernels = dao_host_calloc((size_t)known->kernel_count + 1, sizeof(*job->kernels));
    job->uses = dao_host_calloc((size_t)known->use_count + 1, sizeof(*job->uses));
    job->is_pinned = dao_host_calloc((size_t)known->role_count + 1, sizeof(*job->is_pinned));
    if (job->tensors == NULL || job->kernels == NULL || job->uses == NULL || job->is_pinned == NULL) {
        dao_plan_job_destroy(job);
        return NULL;
    }
    describe_tensors(job, known, first_pinned);
    describe_kernels(job, known, kernel_ns, may_repeat);
    job->problem = (dao_swap_problem_t){
        .tensors = job->tensors,
        .tensor_count = known->role_count,
        .kernels = job->kernels,
        .kernel_count = known->kernel_count,
        .alignment_bytes = DAO_RANGE_GRANULE,
    };
    return job;
}

void dao_plan_job_destroy(dao_plan_job_t *job)
{
    if (job != NULL) {
        dao_compiled_plan_destroy(job->plan);
        dao_host_free(job->tensors);
        dao_host_free(job->kernels);
        dao_host_free(job->uses);
        dao_host_free(job->is_pinned);
        dao_host_free(job);
    }
}

static bool is_stopping(void *user)
{
    dao_plan_worker_t *worker = user;
    return atomic_load_explicit(&worker->is_stopping, memory_order_relaxed);
}

/* The plan moves no pinned tensor, and is for these alone. */
static dao_status_t make_plan(dao_plan_job_t *job, const dao_recompute_config_t *config)
{
    dao_status_t status = dao_compiled_plan_create(&job->problem, config, &job->plan);
    for (uint32_t i = 0; status == DAO_OK && i < job->problem.tensor_count; i++) {
        job->plan->roles[i].is_pinned = job->is_pinned[i];
    }
    if (status == DAO_OK) {
        job->plan->pins = job->pins;
    }
    return status;
}

/* Without a worker nothing cancels it. */
static void work(dao_plan_worker_t *worker, dao_plan_job_t *job)
{
    dao_recompute_config_t config = {.mode = job->mode,
                                     .swap = {.addresses = job->addresses,
                                              .work_limit = job->work_limit,
                                              .is_cancelled = worker != NULL ? is_stopping : NULL,
                                              .cancel_user = worker}};
    DAO_ASSERT(job->plan == NULL);
    job->status = make_plan(job, &config);
    if (job->status != DAO_OK || job->plan->schedule->page_count == 0) {
        return;
    }
    job->status = dao_device_window_create(job->pages, job->plan->schedule, &job->plan->window);
    if (job->status != DAO_OK && job->status != DAO_ERR_DEVICE_LOST) {
        dao_log(DAO_LOG_LEVEL_INFO, "a plan has static addresses: %s", dao_last_message());
        dao_compiled_plan_destroy(job->plan);
        job->plan = NULL;
        job->problem.page_bytes = 0;
        config.swap.addresses = job->addresses = DAO_SWAP_ADDRESSES_STATIC;
        job->status = make_plan(job, &config);
    }
}

void dao_plan_job_run(dao_plan_job_t *job)
{
    work(NULL, job);
}

void dao_plan_worker_init(dao_plan_worker_t *worker, bool is_at_once)
{
    *worker = (dao_plan_worker_t){.is_at_once = is_at_once};
    dao_mutex_init(&worker->lock, DAO_RANK_LEAF);
    dao_cond_init(&worker->changed);
    atomic_init(&worker->is_done, false);
    atomic_init(&worker->is_stopping, false);
}

void dao_plan_worker_finish(dao_plan_worker_t *worker)
{
    dao_mutex_lock(&worker->lock);
    atomic_store(&worker->is_stopping, true);
    dao_cond_broadcast(&worker->changed);
    dao_mutex_unlock(&worker->lock);
    if (worker->has_thread) {
        dao_thread_join(&worker->thread);
    }
    dao_plan_job_destroy(worker->job);
    dao_cond_finish(&worker->changed);
    dao_mutex_finish(&worker->lock);
}

static void *run_worker(void *user)
{
    dao_plan_worker_t *worker = user;
    dao_mutex_lock(&worker->lock);
    while (!atomic_load(&worker->is_stopping)) {
        dao_plan_job_t *job = atomic_load(&worker->is_done) ? NULL : worker->job;
        if (job == NULL) {
            dao_cond_wait(&worker->changed, &worker->lock);
            continue;
        }
        dao_mutex_unlock(&worker->lock);
        work(worker, job);
        dao_mutex_lock(&worker->lock);
        DAO_ASSERT(worker->job == job); /* it is taken only once it is done */
        atomic_store(&worker->is_done, true);
        dao_cond_broadcast(&worker->changed);
    }
    dao_mutex_unlock(&worker->lock);
    return NULL;
}

dao_status_t dao_plan_worker_submit(dao_plan_worker_t *worker, dao_plan_job_t *job)
{
    DAO_ASSERT(job != NULL);
    DAO_ASSERT(worker->job == NULL);
    DAO_ASSERT(!atomic_load(&worker->is_done));
    if (!worker->is_at_once && !worker->has_thread) {
        dao_status_t status = dao_thread_start(&worker->thread, "dao-planner", run_worker, worker);
        if (status != DAO_OK) {
            return status;
        }
        worker->has_thread = true;
    }
    dao_mutex_lock(&worker->lock);
    worker->job = job;
    dao_cond_broadcast(&worker->changed);
    dao_mutex_unlock(&worker->lock);
    return DAO_OK;
}

void dao_plan_worker_run(dao_plan_worker_t *worker)
{
    if (worker->is_at_once && worker->job != NULL && !atomic_load(&worker->is_done)) {
        work(worker, worker->job);
        atomic_store(&worker->is_done, true);
    }
}

dao_plan_job_t *dao_plan_worker_take(dao_plan_worker_t *worker)
{
    if (!atomic_load(&worker->is_done)) {
        return NULL;
    }
    dao_mutex_lock(&worker->lock);
    dao_plan_job_t *job = worker->job;
    DAO_ASSERT(job != NULL);
    worker->job = NULL;
    atomic_store(&worker->is_done, false);
    dao_mutex_unlock(&worker->lock);
    return job;
}
