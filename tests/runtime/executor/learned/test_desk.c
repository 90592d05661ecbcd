/* SPDX-License-Identifier: Apache-2.0 */
/* The desk where plans are made: a job comes back with its course, and none is waited for as the desk closes.
   */
#include "runtime/executor/learned/desk.h"
#include "runtime/executor/state/managed.h"
#include "tests/support/suite.h"

#include <string.h>

enum { LAYERS = 24, KERNELS = 2 * LAYERS, TENSOR_BYTES = 1 << 16, KERNEL_NS = 1000, CAPACITY_TENSORS = 8 };

static dao_managed_t tensors[LAYERS + 1];
static dao_step_log_t shape;

static void add(dao_managed_t *read, dao_managed_t *write)
{
    dao_use_t uses[2] = {{.tensor = read, .kind = DAO_USE_READ}, {.tensor = write, .kind = DAO_USE_WRITE}};
    dao_item_t item = {.kind = DAO_ITEM_KERNEL, .signature = 1, .uses = uses, .use_count = 2};
    dao_step_log_add(&shape, &item);
}

/* A step that writes an activation a layer, and reads them backwards. */
static int make_shape(void)
{
    memset(tensors, 0, sizeof(tensors));
    for (uint64_t i = 0; i <= LAYERS; i++) {
        tensors[i].id = i + 1;
        tensors[i].size_bytes = TENSOR_BYTES;
    }
    dao_step_log_init(&shape);
    for (int i = 0; i < LAYERS; i++) {
        add(&tensors[i], &tensors[i + 1]);
    }
    for (int i = LAYERS; i > 0; i--) {
        add(&tensors[i], &tensors[i - 1]);
    }
    return dao_step_log_close(&shape) ? 0 : 1;
}

static int finish_shape(void)
{
    dao_step_log_finish(&shape);
    return 0;
}

static dao_desk_job_t *make_job(void)
{
    uint64_t kernel_ns[KERNELS];
    for (int i = 0; i < KERNELS; i++) {
        kernel_ns[i] = KERNEL_NS;
    }
    dao_desk_job_t *job = dao_desk_job_create(&shape, kernel_ns);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    job->problem.capacity_bytes = (uint64_t)CAPACITY_TENSORS * TENSOR_BYTES;
    job->problem.host.in_bytes_per_second = (uint64_t)1 << 30;
    return job;
}

static void a_job_comes_back_with_its_course(void)
{
    dao_desk_t desk;
    dao_desk_job_t *job = make_job();
    dao_desk_init(&desk, true);
    CU_ASSERT_PTR_NULL(dao_desk_take_back(&desk));
    CU_ASSERT_EQUAL(dao_desk_hand_in(&desk, job), DAO_OK);
    CU_ASSERT_PTR_EQUAL(dao_desk_take_back(&desk), job);
    CU_ASSERT_EQUAL(job->status, DAO_OK);
    CU_ASSERT_PTR_NOT_NULL(job->course);
    dao_desk_job_destroy(job);
    dao_desk_finish(&desk);
}

static void a_plan_is_given_up_as_the_desk_closes(void)
{
    dao_desk_t desk;
    dao_desk_job_t *job = make_job();
    dao_desk_init(&desk, true);
    atomic_store(&desk.is_stopping, true); /* as dao_desk_finish() does while the desk's thread works */
    CU_ASSERT_EQUAL(dao_desk_hand_in(&desk, job), DAO_OK);
    CU_ASSERT_PTR_EQUAL(dao_desk_take_back(&desk), job);
    CU_ASSERT_EQUAL(job->status, DAO_ERR_STOPPED);
    CU_ASSERT_PTR_NULL(job->course);
    dao_desk_job_destroy(job);
    dao_desk_finish(&desk);
}

static void a_desk_closes_wherever_its_thread_is(void)
{
    enum { ROUNDS = 20 };
    for (int round = 0; round < ROUNDS; round++) {
        dao_desk_t desk;
        dao_desk_init(&desk, false);
        CU_ASSERT_EQUAL_FATAL(dao_desk_hand_in(&desk, make_job()), DAO_OK);
        dao_desk_finish(&desk); /* the job goes with it */
    }
}

static CU_TestInfo tests[] = {
    {"a job comes back with its course", a_job_comes_back_with_its_course},
    {"a plan is given up as the desk closes", a_plan_is_given_up_as_the_desk_closes},
    {"a desk closes wherever its thread is", a_desk_closes_wherever_its_thread_is},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"desk", make_shape, finish_shape, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
