/* SPDX-License-Identifier: Apache-2.0 */
/* The worker where plans are made: a job comes back with its plan, and none is waited for as the worker
   closes. */
#include "runtime/executor/learned/plan_worker.h"
#include "runtime/executor/records/tensor.h"
#include "tests/support/suite.h"

#include <string.h>

enum { LAYERS = 24, KERNELS = 2 * LAYERS, TENSOR_BYTES = 1 << 16, KERNEL_NS = 1000, CAPACITY_TENSORS = 8 };

static dao_managed_t tensors[LAYERS + 1];
static dao_step_log_t known;

static void add(dao_managed_t *read, dao_managed_t *write)
{
    dao_use_t uses[2] = {{.tensor = read, .kind = DAO_USE_READ}, {.tensor = write, .kind = DAO_USE_WRITE}};
    dao_item_t item = {.kind = DAO_ITEM_KERNEL, .signature = 1, .uses = uses, .use_count = 2};
    dao_step_log_add(&known, &item);
}

/* A step that writes an activation a layer, and reads them backwards. */
static int make_known(void)
{
    memset(tensors, 0, sizeof(tensors));
    for (uint64_t i = 0; i <= LAYERS; i++) {
        tensors[i].id = i + 1;
        tensors[i].size_bytes = TENSOR_BYTES;
    }
    dao_step_log_init(&known);
    for (int i = 0; i < LAYERS; i++) {
        add(&tensors[i], &tensors[i + 1]);
    }
    for (int i = LAYERS; i > 0; i--) {
        add(&tensors[i], &tensors[i - 1]);
    }
    return dao_step_log_close(&known) ? 0 : 1;
}

static int finish_known(void)
{
    dao_step_log_finish(&known);
    return 0;
}

static dao_plan_job_t *make_job(void)
{
    uint64_t kernel_ns[KERNELS];
    for (int i = 0; i < KERNELS; i++) {
        kernel_ns[i] = KERNEL_NS;
    }
    dao_plan_job_t *job = dao_plan_job_create(&known, kernel_ns, true, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    job->problem.capacity_bytes = (uint64_t)CAPACITY_TENSORS * TENSOR_BYTES;
    job->problem.host.in_bytes_per_second = (uint64_t)1 << 30;
    return job;
}

static void a_job_comes_back_with_its_plan(void)
{
    dao_plan_worker_t worker;
    dao_plan_job_t *job = make_job();
    dao_plan_worker_init(&worker, true);
    CU_ASSERT_PTR_NULL(dao_plan_worker_take(&worker));
    CU_ASSERT_EQUAL(dao_plan_worker_submit(&worker, job), DAO_OK);
    CU_ASSERT_PTR_NULL(dao_plan_worker_take(&worker));
    dao_plan_worker_run(&worker);
    CU_ASSERT_PTR_EQUAL(dao_plan_worker_take(&worker), job);
    CU_ASSERT_EQUAL(job->status, DAO_OK);
    CU_ASSERT_PTR_NOT_NULL(job->plan);
    dao_plan_job_destroy(job);
    dao_plan_worker_finish(&worker);
}

/* Its number in the step is found, whatever number it had in another one since. */
static void a_pinned_tensor_is_found_by_its_number(void)
{
    uint64_t kernel_ns[KERNELS] = {0};
    dao_managed_t pinned = {.id = tensors[LAYERS / 2].id, .log_role = 0, .pin = {.count = 1}};
    dao_plan_job_t *job = dao_plan_job_create(&known, kernel_ns, true, &pinned);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    for (uint32_t role = 0; role < known.role_count; role++) {
        CU_ASSERT_EQUAL(job->is_pinned[role], role == LAYERS / 2);
    }
    dao_plan_job_destroy(job);
}

static void a_plan_is_given_up_as_the_worker_closes(void)
{
    dao_plan_worker_t worker;
    dao_plan_job_t *job = make_job();
    dao_plan_worker_init(&worker, true);
    atomic_store(&worker.is_stopping,
                 true); /* as dao_plan_worker_finish() does while the worker's thread works */
    CU_ASSERT_EQUAL(dao_plan_worker_submit(&worker, job), DAO_OK);
    CU_ASSERT_PTR_NULL(dao_plan_worker_take(&worker));
    dao_plan_worker_run(&worker);
    CU_ASSERT_PTR_EQUAL(dao_plan_worker_take(&worker), job);
    CU_ASSERT_EQUAL(job->status, DAO_ERR_STOPPED);
    CU_ASSERT_PTR_NULL(job->plan);
    dao_plan_job_destroy(job);
    dao_plan_worker_finish(&worker);
}

static void a_worker_closes_wherever_its_thread_is(void)
{
    enum { ROUNDS = 20 };
    for (int round = 0; round < ROUNDS; round++) {
        dao_plan_worker_t worker;
        dao_plan_worker_init(&worker, false);
        CU_ASSERT_EQUAL_FATAL(dao_plan_worker_submit(&worker, make_job()), DAO_OK);
        dao_plan_worker_finish(&worker); /* the job goes with it */
    }
}

static CU_TestInfo tests[] = {
    {"a job comes back with its plan", a_job_comes_back_with_its_plan},
    {"a pinned tensor is found by its number", a_pinned_tensor_is_found_by_its_number},
    {"a plan is given up as the worker closes", a_plan_is_given_up_as_the_worker_closes},
    {"a worker closes wherever its thread is", a_worker_closes_wherever_its_thread_is},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"worker", make_known, finish_known, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
