/* SPDX-License-Identifier: Apache-2.0 */
/* Executors without a thread, and what an executor does before a kernel's turn: both can be counted, as
   nothing runs before a call needs it. */
#include "runtime/executor/executor_internal.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#define UNIT (64 * KIB)

static dao_executor_t *executor;
static program_t program;

static void begin(const dao_executor_config_t *config)
{
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(config, &executor), DAO_OK);
    program_init(&program, executor);
}

static dao_executor_stats_t stats_at_the_end(void)
{
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    return program_stats(&program);
}

static void end(void)
{
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(stats_at_the_end().live_tensor_count, 0);
    CU_ASSERT_EQUAL(program.open_count, 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
    CU_ASSERT_EQUAL(dao_used(dao_pinned_place(0)), 0);
}

static void push(const char *name, uint32_t tensor, dao_access_t access)
{
    CU_ASSERT_EQUAL(program_push(&program, &(program_kernel_t){name, 1, {tensor}, {access}, 0, DAO_OK}),
                    DAO_OK);
}

static void a_still_executor_runs_when_it_is_called(void)
{
    dao_executor_config_t config = {.capacity_bytes = 2 * UNIT, .queue_kernels = 4, .check = true};
    begin(&config);
    for (uint32_t i = 0; i < 3; i++) {
        push("make", program_tensor(&program, UNIT), DAO_ACCESS_WRITE);
    }
    CU_ASSERT_EQUAL(program_stats(&program).kernel_count, 0);
    for (uint32_t i = 0; i < 3; i++) {
        push("later", i, DAO_ACCESS_READ_WRITE);
    }
    CU_ASSERT_EQUAL(program_stats(&program).kernel_count, 2); /* as many as the queue of 4 has no room for */
    CU_ASSERT_EQUAL(stats_at_the_end().kernel_count, 6);
    push("last", 0, DAO_ACCESS_READ_WRITE);
    end();
}

/* Two kernels are queued; when the first has run, what the second reads is on its way already. */
static void operands_are_fetched_before_their_kernel_is_next(void)
{
    for (int on_demand = 0; on_demand <= 1; on_demand++) {
        dao_executor_config_t config = {
            .capacity_bytes = 3 * UNIT, .queue_kernels = 2, .on_demand = on_demand != 0, .check = true};
        begin(&config);
        uint32_t first = program_tensor(&program, UNIT);
        uint32_t second = program_tensor(&program, UNIT);
        CU_ASSERT_EQUAL(program_write(&program, second), DAO_OK);
        push("make", first, DAO_ACCESS_WRITE);
        push("read", second, DAO_ACCESS_READ);
        push("read", first, DAO_ACCESS_READ); /* there was no room: the first one runs */
        CU_ASSERT_EQUAL(program_stats(&program).kernel_count, 1);
        CU_ASSERT_EQUAL(program_stats(&program).fetch_count, on_demand != 0 ? 0 : 1);
        CU_ASSERT_EQUAL(stats_at_the_end().fetch_count, 1);
        end();
    }
}

/* A kernel whose operands do not fit beside what the kernels before it need has to wait for its turn. */
static void what_does_not_fit_beside_the_others_waits(void)
{
    dao_executor_config_t config = {.capacity_bytes = 3 * UNIT, .queue_kernels = 3, .check = true};
    begin(&config);
    for (uint32_t i = 0; i < 2; i++) {
        push("make", program_tensor(&program, UNIT), DAO_ACCESS_WRITE);
    }
    uint32_t large = program_tensor(&program, 2 * UNIT);
    CU_ASSERT_EQUAL(program_write(&program, large), DAO_OK); /* both kernels have run */
    push("first", 0, DAO_ACCESS_READ);
    program_kernel_t both = {"both", 2, {0, 1}, {DAO_ACCESS_READ, DAO_ACCESS_READ}, 0, DAO_OK};
    CU_ASSERT_EQUAL(program_push(&program, &both), DAO_OK);
    push("large", large, DAO_ACCESS_READ);
    push("again", 1, DAO_ACCESS_READ); /* the first one runs; both and large need more than the arena */
    CU_ASSERT_EQUAL(program_stats(&program).kernel_count, 3);
    CU_ASSERT_EQUAL(program_stats(&program).fetch_count, 0);
    CU_ASSERT_EQUAL(stats_at_the_end().kernel_count, 6);
    CU_ASSERT_TRUE(program_stats(&program).fetch_count >= 1);
    end();
}

/* Room that a kernel without operands needs as workspace is none to fetch into. */
static void a_workspace_alone_counts(void)
{
    dao_executor_config_t config = {.capacity_bytes = 6 * UNIT, .queue_kernels = 3, .check = true};
    begin(&config);
    uint32_t first = program_tensor(&program, UNIT);
    uint32_t later = program_tensor(&program, 2 * UNIT);
    CU_ASSERT_EQUAL(program_write(&program, later), DAO_OK);
    push("make", first, DAO_ACCESS_WRITE);
    program_kernel_t scratch = {.name = "scratch", .workspace_bytes = 5 * UNIT};
    CU_ASSERT_EQUAL(program_push(&program, &scratch), DAO_OK);
    push("read", later, DAO_ACCESS_READ);
    push("read", first,
         DAO_ACCESS_READ); /* the first one runs: the third's operand would be in the second's way */
    CU_ASSERT_EQUAL(program_stats(&program).kernel_count, 1);
    CU_ASSERT_EQUAL(program_stats(&program).fetch_count, 0);
    CU_ASSERT_EQUAL(stats_at_the_end().fetch_count, 1);
    CU_ASSERT_EQUAL(program_stats(&program).eviction_count, 0);
    end();
}

/* `late` comes into the last hole, older than all others; then a kernel before its own needs room. */
static void what_came_early_stays_until_its_use(void)
{
    for (dao_policy_t policy = DAO_POLICY_BELADY; policy <= DAO_POLICY_SIZE; policy++) {
        dao_executor_config_t config = {
            .capacity_bytes = 6 * UNIT, .queue_kernels = 3, .policy = policy, .check = true};
        begin(&config);
        uint32_t late = program_tensor(&program, UNIT);
        CU_ASSERT_EQUAL(program_write(&program, late), DAO_OK);
        for (uint32_t i = 0; i < 5; i++) {
            push("make", program_tensor(&program, UNIT), DAO_ACCESS_WRITE);
        }
        push("make", program_tensor(&program, UNIT), DAO_ACCESS_WRITE);
        push("late", late, DAO_ACCESS_READ);
        CU_ASSERT_EQUAL(stats_at_the_end().fetch_count, 1);
        CU_ASSERT_EQUAL(program_stats(&program).eviction_count, 1);
        end();
    }
}

static CU_TestInfo tests[] = {
    {"a still executor runs when it is called", a_still_executor_runs_when_it_is_called},
    {"operands are fetched before their kernel is next", operands_are_fetched_before_their_kernel_is_next},
    {"what does not fit beside the others waits", what_does_not_fit_beside_the_others_waits},
    {"a workspace alone counts", a_workspace_alone_counts},
    {"what came early stays until its use", what_came_early_stays_until_its_use},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"ahead", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
