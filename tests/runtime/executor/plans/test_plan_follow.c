/* SPDX-License-Identifier: Apache-2.0 */
/* Following a plan: entered, followed to its end, left between any two kernels, and entered again, with
   every byte in its place. */
#include "backends/sim/sim.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/learned/step_learner.h"
#include "runtime/executor/plans/plan_follow.h"
#include "runtime/executor/state/residency.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#define UNIT (4 * KIB)

enum { TENSORS = 8, CAPACITY_UNITS = 5, STEPS_MAX = 20, KERNEL_NS = 20000 };

static dao_executor_t *executor;
static dao_engine_t *engine;
static program_t program;

static dao_status_t work(const dao_launch_t *launch, void *user)
{
    (void)user;
    return dao_sim_stream_work(dao_stream_native(launch->stream), KERNEL_NS);
}

static void push(uint32_t tensor)
{
    static const char *const names[TENSORS] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    program_kernel_t kernel = {names[tensor], 1, {tensor}, {DAO_ACCESS_READ_WRITE}, 0, DAO_OK};
    CU_ASSERT_EQUAL(program_push(&program, &kernel), DAO_OK);
}

static void end_step(void)
{
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_TRUE(dao_engine_is_valid(engine));
}

static void run_step(void)
{
    for (uint32_t i = 0; i < TENSORS; i++) {
        push(i);
    }
    end_step();
}

/* Returns true if a plan is followed and none that may be better is being made, or there. */
static bool is_settled(void)
{
    const dao_step_learner_t *learner = engine->learner;
    bool is_settled = engine->plan != NULL && learner->submitted == NULL;
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        is_settled = is_settled && learner->known_steps[i]->new_plan == NULL;
    }
    return is_settled;
}

/* Turns over more tensors than fit, until their plan is followed. */
static void begin(void)
{
    dao_config_t sim = {.cpu = {.device_count = 1,
                                .device_bytes = 64 * MIB,
                                .h2d_bytes_per_second = 1000000000,
                                .d2h_bytes_per_second = 1000000000}};
    dao_executor_config_t config = {
        .capacity_bytes = CAPACITY_UNITS * UNIT, .policy = DAO_POLICY_BELADY, .queue_kernels = 2 * TENSORS};
    static const fault_config_t quiet;
    const dao_backend_ops_t *ops = fault_backend_wrap(&dao_sim_bytes_backend_ops, &quiet);
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&sim, ops), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(&config, &executor), DAO_OK);
    engine = &executor->engine;
    program_init(&program, executor);
    program.work = work;
    for (uint32_t i = 0; i < TENSORS; i++) {
        CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), i);
        CU_ASSERT_EQUAL(program_write(&program, i), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
    for (int step = 0; !is_settled() && step < STEPS_MAX; step++) {
        run_step();
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(engine->plan);
}

static void end(void)
{
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_PTR_NULL(engine->plan); /* no tensor is left that it could move */
    CU_ASSERT_EQUAL(program_stats(&program).host_used_bytes, 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_plan_that_is_followed_has_the_arena(void)
{
    begin();
    CU_ASSERT_EQUAL(dao_range_used(engine->arena.range), 0);
    CU_ASSERT_EQUAL(engine->plan->next, 0); /* between two steps */
    CU_ASSERT_TRUE(dao_plan_follow_is_valid(engine->plan));
    for (uint32_t i = 0; i < TENSORS; i++) {
        CU_ASSERT_PTR_NOT_NULL(program.tensors[i].handle->plan_role);
    }
    end();
}

static void each_step_that_ends_as_planned_is_a_hit(void)
{
    begin();
    dao_executor_stats_t before = program_stats(&program);
    for (int i = 0; i < 3; i++) {
        run_step();
    }
    CU_ASSERT_EQUAL(program_stats(&program).plan_hit_count, before.plan_hit_count + 3);
    CU_ASSERT_EQUAL(program_stats(&program).deviation_count, before.deviation_count);
    CU_ASSERT_EQUAL(program_stats(&program).eviction_count, before.eviction_count);
    end();
}

static void leaving_gives_the_arena_back(void)
{
    begin();
    dao_compiled_plan_t *plan = engine->plan;
    dao_plan_follow_leave(engine);
    CU_ASSERT_PTR_NULL(engine->plan);
    uint64_t device_bytes = 0;
    for (uint32_t i = 0; i < TENSORS; i++) {
        CU_ASSERT_PTR_NULL(program.tensors[i].handle->plan_role);
        device_bytes += program.tensors[i].handle->has_device ? UNIT : 0;
    }
    CU_ASSERT_EQUAL(dao_range_used(engine->arena.range), device_bytes);
    CU_ASSERT_EQUAL(dao_plan_follow_idle_bytes(plan), 0);
    CU_ASSERT_EQUAL(engine->stats.deviation_count, 0); /* it was left between two steps */
    CU_ASSERT_TRUE(dao_engine_is_valid(engine));
    run_step(); /* and is entered again */
    CU_ASSERT_PTR_EQUAL(engine->plan, plan);
    end();
}

/* Whichever kernel is another one: the plan is left there, the step goes on, and the next ones are planned
   again. */
static void a_step_may_deviate_at_any_kernel(void)
{
    for (uint32_t at = 0; at < TENSORS; at++) {
        begin();
        for (uint32_t i = 0; i < TENSORS; i++) {
            push(i == at ? (i + 3) % TENSORS : i);
        }
        end_step();
        CU_ASSERT_TRUE(program_stats(&program).deviation_count <= 1);
        run_step();
        run_step();
        CU_ASSERT_PTR_NOT_NULL(engine->plan);
        end();
    }
}

static void a_step_may_end_early(void)
{
    begin();
    push(0);
    push(1);
    end_step();
    CU_ASSERT_EQUAL(program_stats(&program).deviation_count, 1);
    run_step();
    CU_ASSERT_PTR_NOT_NULL(engine->plan);
    end();
}

/* Every content is on the device's place in the plan, on the host, or both; the program may read and write
   them all. */
static void the_program_may_use_tensors_between_steps(void)
{
    begin();
    for (uint32_t i = 0; i < TENSORS; i++) {
        CU_ASSERT_EQUAL(program_read(&program, i), DAO_OK);
        CU_ASSERT_EQUAL(program_write(&program, i), DAO_OK);
    }
    CU_ASSERT_TRUE(dao_engine_is_valid(engine));
    run_step();
    end();
}

/* Leaves the plan with one tensor on the device, away from where the plan begins with it. */
static void leave_and_displace(void)
{
    dao_managed_t *kept = NULL;
    uint64_t offset = 0;
    dao_plan_follow_leave(engine);
    for (uint32_t i = 0; i < TENSORS; i++) {
        dao_managed_t *tensor = program.tensors[i].handle;
        if (kept == NULL && tensor->has_device) {
            kept = tensor;
        } else if (tensor->has_device) {
            CU_ASSERT_EQUAL(dao_residency_evict(engine, tensor), DAO_OK);
        }
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(kept);
    CU_ASSERT_EQUAL_FATAL(dao_device_arena_take(&engine->arena, UNIT, (uint64_t)(uintptr_t)kept, &offset),
                          DAO_OK);
    CU_ASSERT_EQUAL(dao_residency_move(engine, kept, offset), DAO_OK);
}

/* The device is lost at the n-th call of a step that begins by moving a tensor. Returns true if it was. */
static bool lose_while_entering(uint64_t n)
{
    begin();
    leave_and_displace();
    fault_backend_arm((fault_call_t)FAULT_CALL_LOSS, n, true);
    for (uint32_t i = 0; i < TENSORS; i++) {
        push(i);
    }
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    dao_status_t status = dao_executor_sync(executor);
    bool is_lost = fault_backend_disarm() > 0;
    CU_ASSERT_EQUAL(status, is_lost ? DAO_ERR_DEVICE_LOST : DAO_OK);
    CU_ASSERT_TRUE(dao_engine_is_valid(engine));
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), is_lost ? DAO_ERR_DEVICE_LOST : DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
    return is_lost;
}

/* Whichever call hears it: every tensor keeps a place of its own in the arena. */
static void the_device_may_be_lost_while_a_plan_is_entered(void)
{
    uint64_t n = 0;
    while (n < 1000 && lose_while_entering(n)) {
        n++;
    }
    CU_ASSERT_TRUE(n > 10);
    CU_ASSERT_TRUE(n < 1000);
}

static CU_TestInfo tests[] = {
    {"a plan that is followed has the arena", a_plan_that_is_followed_has_the_arena},
    {"each step that ends as planned is a hit", each_step_that_ends_as_planned_is_a_hit},
    {"leaving gives the arena back", leaving_gives_the_arena_back},
    {"a step may deviate at any kernel", a_step_may_deviate_at_any_kernel},
    {"a step may end early", a_step_may_end_early},
    {"the program may use tensors between steps", the_program_may_use_tensors_between_steps},
    {"the device may be lost while a plan is entered", the_device_may_be_lost_while_a_plan_is_entered},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan follow", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
