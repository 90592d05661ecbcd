/* SPDX-License-Identifier: Apache-2.0 */
/* The learner: steps are learnt, recognized kernel by kernel, left where they deviate, and forgotten in
   their turn. */
#include "backends/sim/sim.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/learned/step_learner.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#define UNIT (4 * KIB)

enum { TENSORS = 4 };

static dao_executor_t *executor;
static dao_step_learner_t *learner;
static program_t program;

/* All tensors fit: nothing is planned. */
static void begin(void)
{
    dao_config_t sim = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    dao_executor_config_t config = {.capacity_bytes = 2 * TENSORS * UNIT, .queue_kernels = 64};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&sim, &dao_sim_bytes_backend_ops), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(&config, &executor), DAO_OK);
    learner = executor->engine.learner;
    CU_ASSERT_PTR_NOT_NULL_FATAL(learner);
    program_init(&program, executor);
    for (uint32_t i = 0; i < TENSORS; i++) {
        CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), i);
        CU_ASSERT_EQUAL(program_write(&program, i), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_TRUE(dao_step_learner_is_valid(learner));
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void push(const char *name, uint32_t tensor)
{
    program_kernel_t kernel = {name, 1, {tensor}, {DAO_ACCESS_READ_WRITE}, 0, DAO_OK};
    CU_ASSERT_EQUAL(program_push(&program, &kernel), DAO_OK);
}

/* A step of so many kernels of one name. */
static void run_step(const char *name, uint32_t kernel_count)
{
    for (uint32_t i = 0; i < kernel_count; i++) {
        push(name, i % TENSORS);
    }
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_TRUE(dao_step_learner_is_valid(learner));
}

static void a_step_is_learnt_once(void)
{
    begin();
    run_step("a", 4);
    CU_ASSERT_EQUAL(learner->known_step_count, 1);
    run_step("a", 4);
    run_step("a", 4);
    CU_ASSERT_EQUAL(learner->known_step_count, 1);
    CU_ASSERT_EQUAL(learner->known_steps[0]->seen_count, 3);
    CU_ASSERT_EQUAL(learner->known_steps[0]->log.kernel_count, 4);
    CU_ASSERT_PTR_EQUAL(learner->known_steps[0]->after, learner->known_steps[0]);
    CU_ASSERT_EQUAL(dao_step_learner_plan_count(learner), 0); /* nothing had to be moved */
    end();
}

static void kernels_before_the_first_boundary_are_no_step(void)
{
    begin();
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    learner->has_boundary = false; /* as it is until the program says where a step begins */
    push("a", 0);
    CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(learner->known_step_count, 0);
    CU_ASSERT_TRUE(learner->has_boundary);
    end();
}

static void boundaries_without_kernels_are_one(void)
{
    begin();
    run_step("a", 2);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    }
    run_step("a", 2);
    CU_ASSERT_EQUAL(learner->step_count, 2);
    CU_ASSERT_EQUAL(learner->known_steps[0]->seen_count, 2);
    end();
}

static void a_known_step_tells_when_tensors_are_used_next(void)
{
    begin();
    run_step("a", 4);
    push("a", 0);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_PTR_EQUAL(learner->now, learner->known_steps[0]);
    uint64_t now = executor->engine.now;
    CU_ASSERT_EQUAL(program.tensors[0].handle->forecast_time, now - 1 + 4); /* in the step behind this one */
    for (uint32_t i = 1; i < 4; i++) {
        push("a", i);
    }
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    end();
}

static void a_kernel_that_is_another_ends_the_recognition(void)
{
    begin();
    run_step("a", 3);
    push("a", 0);
    push("a", 2); /* another tensor than the time before */
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_PTR_NULL(learner->now);
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(learner->known_step_count, 2);
    CU_ASSERT_PTR_EQUAL(learner->known_steps[0]->after, learner->known_steps[1]);
    end();
}

static void steps_that_begin_alike_are_told_apart_by_what_is_queued(void)
{
    begin();
    run_step("a", 2);
    run_step("a", 5);
    run_step("a", 2);
    CU_ASSERT_EQUAL(learner->known_step_count, 2);
    for (uint32_t i = 0; i < 5; i++) {
        push("a", i % TENSORS);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(learner->now->log.kernel_count, 5);
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(learner->known_step_count, 2);
    end();
}

static void the_step_unseen_for_longest_is_forgotten(void)
{
    static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    enum { STEPS = sizeof(names) / sizeof(names[0]) };
    begin();
    for (uint32_t i = 0; i < STEPS; i++) {
        run_step(names[i], 2);
        run_step(names[0], 2); /* it stays */
    }
    CU_ASSERT_EQUAL(learner->known_step_count, DAO_KNOWN_STEP_COUNT_MAX);
    uint64_t step_count = learner->step_count;
    run_step(names[STEPS - 1], 2);
    run_step(names[0], 2);
    CU_ASSERT_EQUAL(learner->step_count, step_count + 2);
    uint64_t seen_most = 0;
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        uint64_t seen = learner->known_steps[i]->seen_count;
        seen_most = seen > seen_most ? seen : seen_most;
    }
    CU_ASSERT_EQUAL(seen_most, STEPS + 2);
    end();
}

/* Describes a step of so many kernels, that does not run. */
static void describe_step(uint32_t kernel_count)
{
    dao_command_list_t *list = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    for (uint32_t i = 0; i < kernel_count; i++) {
        program_kernel_t kernel = {"k", 1, {i % TENSORS}, {DAO_ACCESS_READ_WRITE}, 0, DAO_OK};
        CU_ASSERT_EQUAL(program_list_push(&program, list, &kernel), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_command_list_plan(list, 1), DAO_OK);
    dao_command_list_destroy(list);
}

static void the_step_described_first_is_forgotten(void)
{
    enum { STEPS = DAO_KNOWN_STEP_COUNT_MAX + 2 };
    bool is_known[STEPS + 1] = {false};
    begin();
    for (uint32_t i = 1; i <= STEPS; i++) {
        describe_step(i);
    }
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        is_known[learner->known_steps[i]->log.kernel_count] = true;
    }
    for (uint32_t i = 1; i <= STEPS; i++) {
        CU_ASSERT_EQUAL(is_known[i], i > STEPS - DAO_KNOWN_STEP_COUNT_MAX);
    }
    end();
}

/* The last step that ended is what is written, and what the next one comes behind. */
static void descriptions_leave_the_last_step(void)
{
    enum { STEPS = DAO_KNOWN_STEP_COUNT_MAX + 2 };
    begin();
    run_step("a", STEPS + 1);
    const dao_known_step_t *last = learner->before;
    for (uint32_t i = 1; i <= STEPS; i++) {
        describe_step(i);
        CU_ASSERT_PTR_EQUAL(learner->before, last);
        CU_ASSERT_EQUAL(dao_executor_step_write(executor, dao_test_path), DAO_OK);
    }
    CU_ASSERT_EQUAL(learner->known_step_count, DAO_KNOWN_STEP_COUNT_MAX);
    CU_ASSERT_PTR_NOT_NULL_FATAL(last->after);
    CU_ASSERT_EQUAL(last->after->log.kernel_count, STEPS); /* what was described last is expected next */
    end();
}

static void a_step_with_a_failure_is_not_learnt(void)
{
    begin();
    push("a", 0);
    program_kernel_t bad = {"bad", 1, {1}, {DAO_ACCESS_READ_WRITE}, 0, DAO_ERR_INVALID};
    CU_ASSERT_EQUAL(program_push(&program, &bad), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_EQUAL(learner->known_step_count, 0);
    run_step("a", 2);
    CU_ASSERT_EQUAL(learner->known_step_count, 1);
    end();
}

static CU_TestInfo tests[] = {
    {"a step is learnt once", a_step_is_learnt_once},
    {"kernels before the first boundary are no step", kernels_before_the_first_boundary_are_no_step},
    {"boundaries without kernels are one", boundaries_without_kernels_are_one},
    {"a known step tells when tensors are used next", a_known_step_tells_when_tensors_are_used_next},
    {"a kernel that is another ends the recognition", a_kernel_that_is_another_ends_the_recognition},
    {"steps that begin alike are told apart by what is queued",
     steps_that_begin_alike_are_told_apart_by_what_is_queued},
    {"the step unseen for longest is forgotten", the_step_unseen_for_longest_is_forgotten},
    {"the step described first is forgotten", the_step_described_first_is_forgotten},
    {"descriptions leave the last step", descriptions_leave_the_last_step},
    {"a step with a failure is not learnt", a_step_with_a_failure_is_not_learnt},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"step learner", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
