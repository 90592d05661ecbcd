/* SPDX-License-Identifier: Apache-2.0 */
/* One job, one thread:

       executor's thread   hand in ------------------------------> take back
       desk's thread               `-> bound, plan, compile --> done -'                                              */
#include "runtime/executor/learned/desk.h"

#include "allocators/range/range.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"

dao_desk_job_t *dao_desk_job_create(const dao_step_log_t *shape, const uint64_t *kernel_ns)
{
    dao_desk_job_t *job = dao_host_calloc(1, sizeof(*job));
    if (job == NULL) {
        return NULL;
    }
    job->tensors = dao_host_calloc((size_t)shape->role_count + 1, sizeof(*job->tensors));
    job->kernels = dao_host_calloc((size_t)shape->kernel_count + 1, sizeof(*job->kernels));
    job->uses = dao_host_calloc((size_t)shape->use_count + 1, sizeof(*job->uses));
    if (job->tensors == NULL || job->kernels == NULL || job->uses == NULL) {
        dao_desk_job_destroy(job);
        return NULL;
    }
    for (uint32_t i = 0; i < shape->role_count; i++) {
        job->tensors[i].size_bytes = dao_arena_part_bytes(shape->roles[i].size_bytes);
        job->tensors[i].is_persistent = shape->roles[i].is_persistent;
    }
    for (uint32_t i = 0; i < shape->use_count; i++) {
        static_assert((int)DAO_ACCESS_READ == DAO_USE_READ && (int)DAO_ACCESS_WRITE == DAO_USE_WRITE &&
                          (int)DAO_ACCESS_READ_WRITE == DAO_USE_READ_WRITE,
                      "a use is an access");
        job->uses[i] = (dao_swap_use_t){shape->uses[i].role, (dao_access_t)shape->uses[i].kind};
    }
    for (uint32_t i = 0; i < shape->kernel_count; i++) {
        const dao_shape_kernel_t *kernel = &shape->kernels[i];
        job->kernels[i] = (dao_swap_kernel_t){
            .time_ns = kernel_ns[i],
            .workspace_bytes = dao_arena_part_bytes(kernel->workspace_bytes),
            .uses = job->uses + kernel->first_use,
            .use_count = kernel->use_count,
        };
    }
    job->problem = (dao_swap_problem_t){
        .tensors = job->tensors,
        .tensor_count = shape->role_count,
        .kernels = job->kernels,
        .kernel_count = shape->kernel_count,
        .alignment_bytes = DAO_RANGE_GRANULE,
    };
    return job;
}

void dao_desk_job_destroy(dao_desk_job_t *job)
{
    if (job != NULL) {
        dao_course_destroy(job->course);
        dao_host_free(job->tensors);
        dao_host_free(job->kernels);
        dao_host_free(job->uses);
        dao_host_free(job);
    }
}

static bool is_stopping(void *user)
{
    dao_desk_t *desk = user;
    return atomic_load_explicit(&desk->is_stopping, memory_order_relaxed);
}

static void work(dao_desk_t *desk, dao_desk_job_t *job)
{
    job->status = dao_course_create(&job->problem, is_stopping, desk, &job->course);
}

void dao_desk_init(dao_desk_t *desk, bool is_at_once)
{
    *desk = (dao_desk_t){.is_at_once = is_at_once};
    dao_mutex_init(&desk->lock, DAO_RANK_LEAF);
    dao_cond_init(&desk->changed);
    atomic_init(&desk->is_done, false);
    atomic_init(&desk->is_stopping, false);
}

void dao_desk_finish(dao_desk_t *desk)
{
    dao_mutex_lock(&desk->lock);
    atomic_store(&desk->is_stopping, true);
    dao_cond_broadcast(&desk->changed);
    dao_mutex_unlock(&desk->lock);
    if (desk->has_thread) {
        dao_thread_join(&desk->thread);
    }
    dao_desk_job_destroy(desk->job);
    dao_cond_finish(&desk->changed);
    dao_mutex_finish(&desk->lock);
}

static void *run_desk(void *user)
{
    dao_desk_t *desk = user;
    dao_mutex_lock(&desk->lock);
    while (!atomic_load(&desk->is_stopping)) {
        dao_desk_job_t *job = atomic_load(&desk->is_done) ? NULL : desk->job;
        if (job == NULL) {
            dao_cond_wait(&desk->changed, &desk->lock);
            continue;
        }
        dao_mutex_unlock(&desk->lock);
        work(desk, job);
        dao_mutex_lock(&desk->lock);
        atomic_store(&desk->is_done, true);
        dao_cond_broadcast(&desk->changed);
    }
    dao_mutex_unlock(&desk->lock);
    return NULL;
}

dao_status_t dao_desk_hand_in(dao_desk_t *desk, dao_desk_job_t *job)
{
    DAO_ASSERT(desk->job == NULL);
    if (desk->is_at_once) {
        work(desk, job);
        desk->job = job;
        atomic_store(&desk->is_done, true);
        return DAO_OK;
    }
    if (!desk->has_thread) {
        dao_status_t status = dao_thread_start(&desk->thread, "dao-planner", run_desk, desk);
        if (status != DAO_OK) {
            return status;
        }
        desk->has_thread = true;
    }
    dao_mutex_lock(&desk->lock);
    desk->job = job;
    dao_cond_broadcast(&desk->changed);
    dao_mutex_unlock(&desk->lock);
    return DAO_OK;
}

dao_desk_job_t *dao_desk_take_back(dao_desk_t *desk)
{
    if (!atomic_load(&desk->is_done)) {
        return NULL;
    }
    dao_mutex_lock(&desk->lock);
    dao_desk_job_t *job = desk->job;
    desk->job = NULL;
    atomic_store(&desk->is_done, false);
    dao_mutex_unlock(&desk->lock);
    return job;
}
