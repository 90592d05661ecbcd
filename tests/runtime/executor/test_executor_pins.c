/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned tensors stay on the device at one address, whatever else needs memory; what is too much is refused
   with what is pinned. And who leaves first by priority. */
#include "backends/sim/sim.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/state/pins.h"
#include "runtime/start/context.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <stdio.h>
#include <string.h>

#define UNIT (64 * KIB)

#define R  DAO_ACCESS_READ
#define W  DAO_ACCESS_WRITE
#define RW DAO_ACCESS_READ_WRITE

static dao_executor_t *executor;
static program_t program;

static void begin_on(const dao_backend_ops_t *ops, const dao_executor_config_t *changes, size_t units,
                     uint32_t tensor_count)
{
    dao_config_t cpu = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    dao_executor_config_t config = *changes;
    config.capacity_bytes = units * UNIT;
    config.check = true;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&cpu, ops), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(&config, &executor), DAO_OK);
    program_init(&program, executor);
    for (uint32_t i = 0; i < tensor_count; i++) {
        CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), i);
    }
}

static void begin(const dao_executor_config_t *changes, size_t units, uint32_t tensor_count)
{
    begin_on(dao_backend_ops(), changes, units, tensor_count);
}

static void end(void)
{
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    dao_executor_stats_t stats = program_stats(&program);
    CU_ASSERT_EQUAL(stats.device_used_bytes, 0);
    CU_ASSERT_EQUAL(stats.pinned_bytes, 0);
    CU_ASSERT_EQUAL(stats.live_tensor_count, 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static dao_managed_t *handle(uint32_t tensor)
{
    return program.tensors[tensor].handle;
}

static dao_status_t push(uint32_t operand_count, const uint32_t *tensors, dao_access_t access)
{
    program_kernel_t kernel = {.name = "use", .operand_count = operand_count};
    for (uint32_t i = 0; i < operand_count; i++) {
        kernel.tensors[i] = tensors[i];
        kernel.accesses[i] = access;
    }
    return program_push(&program, &kernel);
}

static void use_all(uint32_t tensor_count, dao_access_t access)
{
    for (uint32_t i = 0; i < tensor_count; i++) {
        CU_ASSERT_EQUAL(push(1, &i, access), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
}

static void a_pinned_tensor_stays_at_one_address(void)
{
    void *address = NULL, *again = NULL;
    begin(&(dao_executor_config_t){0}, 4, 8);
    use_all(8, W);
    CU_ASSERT_EQUAL(dao_managed_pin(handle(0), &address), DAO_OK); /* it had left */
    CU_ASSERT_PTR_EQUAL(address, (char *)executor->arena_address + 3 * UNIT);
    CU_ASSERT_EQUAL(program_stats(&program).pinned_bytes, UNIT);
    uint64_t before = program_stats(&program).in_bytes;
    for (int i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(push(1, &(uint32_t){0}, RW), DAO_OK);
        use_all(3, RW); /* with it, all that fits */
        CU_ASSERT_EQUAL(push(3, (uint32_t[]){1, 2, 3}, RW), DAO_OK);
        CU_ASSERT_EQUAL(push(4, (uint32_t[]){0, 4, 5, 6}, R), DAO_OK); /* the others, compacted if need be */
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        CU_ASSERT_TRUE(handle(0)->has_device);
        CU_ASSERT_EQUAL(handle(0)->device_offset_bytes, 3 * UNIT);
    }
    CU_ASSERT_TRUE(program_stats(&program).in_bytes > before); /* of others */
    CU_ASSERT_EQUAL(program_write(&program, 0), DAO_OK);
    CU_ASSERT_TRUE(handle(0)->has_device);
    CU_ASSERT_EQUAL(program_read(&program, 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_pin(handle(0), &again), DAO_OK); /* pins are counted */
    CU_ASSERT_PTR_EQUAL(again, address);
    CU_ASSERT_EQUAL(dao_managed_unpin(handle(0)), DAO_OK);
    use_all(8, R);
    CU_ASSERT_TRUE(handle(0)->has_device);
    CU_ASSERT_EQUAL(dao_managed_unpin(handle(0)), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_unpin(handle(0)), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "is not pinned"));
    CU_ASSERT_EQUAL(push(4, (uint32_t[]){1, 2, 3, 4}, R), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_FALSE(handle(0)->has_device);
    end();
}

static dao_status_t note_address(const dao_launch_t *launch, void *user)
{
    *(void **)user = launch->addresses[0];
    return DAO_OK;
}

/* As an unpin does: what was pushed before finds the tensor where it was pinned, and is refused if it does
   not fit beside it; what is pushed behind has its room. */
static void a_release_takes_the_pin_away_in_its_turn(void)
{
    void *address = NULL, *found = NULL;
    begin(&(dao_executor_config_t){0}, 5, 6);
    use_all(6, W);
    CU_ASSERT_EQUAL(dao_managed_pin(handle(0), &address), DAO_OK);
    for (int i = 0; i < 4; i++) { /* as many as fit beside it, and then others */
        CU_ASSERT_EQUAL(push(4, (uint32_t[]){1, 2, 3, 4}, RW), DAO_OK);
        CU_ASSERT_EQUAL(push(4, (uint32_t[]){2, 3, 4, 5}, RW), DAO_OK);
    }
    dao_operand_t operand = {handle(0), RW};
    dao_kernel_t note = {.launch = note_address, .user = &found, .operands = &operand, .operand_count = 1};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &note), DAO_OK);
    program_drop(&program, 0);
    CU_ASSERT_EQUAL(push(5, (uint32_t[]){1, 2, 3, 4, 5}, RW), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_PTR_EQUAL(found, address);
    CU_ASSERT_EQUAL(program_stats(&program).pinned_bytes, 0);
    CU_ASSERT_EQUAL(dao_managed_pin(handle(1), NULL), DAO_OK);
    CU_ASSERT_TRUE(program_tensor(&program, UNIT) == 6 && program_tensor(&program, UNIT) == 7);
    CU_ASSERT_EQUAL(push(5, (uint32_t[]){2, 3, 4, 5, 6}, W), DAO_OK);
    program_drop(&program, 1);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_EQUAL(program_stats(&program).pinned_bytes, 0);
    end();
}

static void a_tensor_without_a_content_comes_with_its_first(void)
{
    void *address = NULL;
    begin(&(dao_executor_config_t){0}, 4, 6);
    CU_ASSERT_EQUAL(dao_managed_pin(handle(5), &address), DAO_OK);
    CU_ASSERT_FALSE(handle(5)->has_device);
    use_all(5, W); /* one of them where it is going to be */
    CU_ASSERT_EQUAL(push(3, (uint32_t[]){3, 4, 5}, W), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(handle(5)->device_offset_bytes, 3 * UNIT);
    use_all(5, R);
    CU_ASSERT_TRUE(handle(5)->has_device);
    end(); /* its last handle unpins it */
}

static void what_exceeds_the_capacity_alone_is_told_of_that(void)
{
    dao_managed_t *large = NULL;
    static unsigned char bytes[5 * UNIT];
    begin(&(dao_executor_config_t){0}, 4, 1);
    CU_ASSERT_EQUAL_FATAL(
        dao_managed_create(executor, &(dao_managed_config_t){.name = "large", .size_bytes = sizeof(bytes)},
                           &large),
        DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_write(large, bytes, sizeof(bytes)), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_pin(large, NULL), DAO_ERR_LIMIT);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(dao_last_message(), "\"large\" (327680 bytes) cannot be pinned: the capacity is 262144"));
    CU_ASSERT_PTR_NULL(strstr(dao_last_message(), "the largest"));
    CU_ASSERT_EQUAL(dao_managed_release(large), DAO_OK);
    end();
}

static void too_much_is_refused_with_what_is_pinned(void)
{
    begin(&(dao_executor_config_t){0}, 4, 6);
    use_all(6, W);
    for (uint32_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_managed_pin(handle(i), NULL), DAO_OK);
    }
    CU_ASSERT_EQUAL(push(2, (uint32_t[]){3, 4}, R), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "3 pinned tensors have 196608"));
    CU_ASSERT_EQUAL(push(4, (uint32_t[]){0, 1, 2, 3}, R), DAO_OK); /* with theirs, it fits */
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_pin(handle(3), NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_pin(handle(4), NULL), DAO_ERR_LIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "4 pinned tensors have 262144"));
    CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, 8 * UNIT), DAO_ERR_BUSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_managed_unpin()"));
    CU_ASSERT_EQUAL(dao_managed_unpin(handle(1)), DAO_OK); /* a hole between others */
    CU_ASSERT_EQUAL(dao_managed_pin(handle(4), NULL), DAO_OK);
    CU_ASSERT_EQUAL(handle(4)->device_offset_bytes, 2 * UNIT);
    CU_ASSERT_EQUAL(dao_managed_pin(NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_unpin(NULL), DAO_ERR_INVALID);
    end();
}

static void run_step(uint32_t tensor_count, dao_access_t access)
{
    CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
    use_all(tensor_count, access);
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
}

/* Runs steps until one more follows a plan; how many it took. */
static int run_until_followed(uint32_t tensor_count)
{
    uint64_t hits = program_stats(&program).plan_hit_count;
    int count = 0;
    while (program_stats(&program).plan_hit_count == hits && count < 20) {
        run_step(tensor_count, RW);
        count++;
    }
    return count;
}

/* The part of a step that was pushed before follows the plan. */
static void a_release_leaves_the_plan_in_its_turn(void)
{
    begin(&(dao_executor_config_t){0}, 4, 8);
    CU_ASSERT_EQUAL(dao_managed_pin(handle(2), NULL), DAO_OK);
    run_step(8, W);
    CU_ASSERT_TRUE(run_until_followed(8) < 8);
    uint64_t deviations = program_stats(&program).deviation_count;
    for (uint32_t i = 0; i < 8; i++) {
        CU_ASSERT_EQUAL(push(1, &i, RW), DAO_OK);
        if (i == 4) {
            program_drop(&program, 2);
        }
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).deviation_count, deviations + 1);
    CU_ASSERT_EQUAL(program_stats(&program).pinned_bytes, 0);
    end();
}

/* Each set of pinned tensors has a plan of its own; none of them moves. */
static void a_plan_is_followed_beside_them(void)
{
    begin(&(dao_executor_config_t){0}, 4, 8);
    run_step(8, W);
    CU_ASSERT_TRUE(run_until_followed(8) < 6);
    for (uint32_t i = 2; i < 4; i++) {
        CU_ASSERT_TRUE(executor->engine.arena.reserved_count > 0);
        CU_ASSERT_EQUAL(dao_managed_pin(handle(i), NULL), DAO_OK);
        CU_ASSERT_EQUAL(executor->engine.arena.reserved_count, 0); /* the pin has some of that */
        CU_ASSERT_TRUE(run_until_followed(8) < 8);
        uint64_t hits = program_stats(&program).plan_hit_count;
        uint64_t offset_bytes = handle(i)->device_offset_bytes;
        for (int step = 0; step < 4; step++) {
            run_step(8, RW);
            CU_ASSERT_TRUE(handle(i)->has_device);
            CU_ASSERT_EQUAL(handle(i)->device_offset_bytes, offset_bytes);
            CU_ASSERT_PTR_NULL(handle(i)->plan_role);
        }
        CU_ASSERT_EQUAL(program_stats(&program).plan_hit_count, hits + 4);
        CU_ASSERT_TRUE(program_stats(&program).device_used_bytes > (i - 1) * UNIT);
        CU_ASSERT_EQUAL(program_write(&program, i), DAO_OK); /* while the plan is followed */
        CU_ASSERT_EQUAL(program_read(&program, i), DAO_OK);
        run_step(8, RW);
        CU_ASSERT_EQUAL(program_stats(&program).plan_hit_count, hits + 5);
    }
    CU_ASSERT_EQUAL(dao_managed_unpin(handle(3)), DAO_OK);
    CU_ASSERT_TRUE(run_until_followed(8) < 10);
    program_drop(&program, 2); /* its pin goes with the handle, and the step is another one */
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_PTR_NULL(executor->engine.plan);
    CU_ASSERT_EQUAL(program_stats(&program).pinned_bytes, 0);
    end();
}

/* One that is overwritten in each step, and one that has no content before the step. */
static void a_plan_leaves_what_is_overwritten_in_place(void)
{
    begin(&(dao_executor_config_t){0}, 4, 8);
    CU_ASSERT_EQUAL(dao_managed_pin(handle(7), NULL), DAO_OK);
    for (int step = 0; step < 8; step++) {
        CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
        CU_ASSERT_EQUAL(push(1, &(uint32_t){7}, W), DAO_OK);
        use_all(7, step == 0 ? W : RW);
        CU_ASSERT_EQUAL(push(3, (uint32_t[]){5, 6, 7}, RW), DAO_OK); /* of three units below the pin */
        CU_ASSERT_EQUAL(push(4, (uint32_t[]){0, 1, 2, 7}, R), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        CU_ASSERT_EQUAL(handle(7)->device_offset_bytes, 3 * UNIT);
    }
    CU_ASSERT_TRUE(program_stats(&program).plan_hit_count >= 4);
    CU_ASSERT_EQUAL(program_stats(&program).deviation_count, 0);
    end();
}

/* The step's first kernel reads what the step has written to a pinned tensor that it had discarded before. */
static dao_status_t run_rewriting_step(const unsigned char *content)
{
    dao_command_list_t *list = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_discard(list, handle(7)), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_write(list, handle(7), content, UNIT), DAO_OK);
    for (uint32_t i = 0; i < 7; i++) {
        program_kernel_t kernel = {"use", 2, {7, i}, {R, RW}, 0, DAO_OK};
        CU_ASSERT_EQUAL(program_list_push(&program, list, &kernel), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    dao_command_list_destroy(list);
    return dao_executor_sync(executor);
}

/* Whichever copy is refused as often as it is tried: they come where they are pinned, behind the plan then.
 */
static void a_plan_that_cannot_bring_them_is_left(void)
{
    enum { TRIES = 1 + DAO_COPY_RETRY_MAX, COPIES = 8 };
    static unsigned char content[UNIT];
    const fault_config_t quiet = {.seed = 1};
    begin_on(fault_backend_wrap(&dao_sim_bytes_backend_ops, &quiet), &(dao_executor_config_t){0}, 4, 8);
    executor->engine.config.keeps_plans = true;
    use_all(8, W);
    CU_ASSERT_EQUAL(dao_managed_pin(handle(7), NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_read(handle(7), content, UNIT), DAO_OK);
    for (uint64_t n = 0; n < COPIES; n++) {
        uint64_t hits = program_stats(&program).plan_hit_count + 4;
        for (int i = 0; i < 40 && program_stats(&program).plan_hit_count < hits; i++) {
            CU_ASSERT_EQUAL(run_rewriting_step(content), DAO_OK);
        }
        fault_backend_arm_row(FAULT_CALL_COPY, n, TRIES);
        CU_ASSERT_EQUAL(run_rewriting_step(content), DAO_OK);
        CU_ASSERT_EQUAL(fault_backend_disarm(), TRIES);
        CU_ASSERT_EQUAL(handle(7)->device_offset_bytes, 3 * UNIT);
    }
    CU_ASSERT_TRUE(program_stats(&program).deviation_count > 0);
    end();
}

/* A step that is described beside pinned tensors has its plan at once. */
static void a_described_step_is_planned_beside_them(void)
{
    dao_command_list_t *list = NULL;
    begin(&(dao_executor_config_t){0}, 4, 8);
    use_all(8, W);
    CU_ASSERT_EQUAL(dao_managed_pin(handle(1), NULL), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    for (uint32_t i = 0; i < 8; i++) {
        program_kernel_t kernel = {"use", 1, {i}, {RW}, 0, DAO_OK};
        CU_ASSERT_EQUAL(program_list_push(&program, list, &kernel), DAO_OK);
    }
    for (uint64_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_command_list_plan(list, 2), DAO_OK);
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        CU_ASSERT_EQUAL(program_stats(&program).plan_hit_count, i + 1);
        CU_ASSERT_EQUAL(i == 0   ? dao_managed_pin(handle(4), NULL)
                        : i == 1 ? dao_managed_unpin(handle(1))
                                 : DAO_OK,
                        DAO_OK);
    }
    dao_command_list_destroy(list);
    end();
}

/* Pins that come and go with each step are followed where they are those of the plan, and nothing is lost. */
static void pins_that_come_and_go_lose_nothing(void)
{
    uint64_t state = dao_test_seed("pins that come and go", 800);
    for (int round = 0; round < 6; round++) {
        dao_executor_config_t config = {.queue_kernels = 1 + (uint32_t)(dao_random_next(&state) % 12)};
        begin(&config, 5 + (size_t)(dao_random_next(&state) % 3), 8);
        uint32_t pinned = UINT32_MAX;
        run_step(8, W);
        for (int step = 0; step < 24; step++) {
            if (dao_random_next(&state) % 3 == 0) {
                CU_ASSERT_TRUE(pinned == UINT32_MAX || dao_managed_unpin(handle(pinned)) == DAO_OK);
                pinned =
                    dao_random_next(&state) % 2 == 0 ? UINT32_MAX : (uint32_t)(dao_random_next(&state) % 8);
                CU_ASSERT_TRUE(pinned == UINT32_MAX || dao_managed_pin(handle(pinned), NULL) == DAO_OK);
            }
            CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
            for (uint32_t i = 0; i < 8; i++) {
                CU_ASSERT_EQUAL(push(2, (uint32_t[]){i, (i + 3) % 8}, i % 3 == 0 ? R : RW), DAO_OK);
            }
            CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
            CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
            CU_ASSERT_TRUE(pinned == UINT32_MAX || handle(pinned)->has_device);
        }
        CU_ASSERT_TRUE(program_stats(&program).plan_hit_count > 0);
        end();
    }
}

static void a_failure_pins_nothing(void)
{
    begin(&(dao_executor_config_t){.host_bytes = UNIT}, 2, 3);
    CU_ASSERT_EQUAL(push(2, (uint32_t[]){0, 1}, W), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_write(&program, 2), DAO_OK); /* the host is full now */
    CU_ASSERT_EQUAL(dao_managed_pin(handle(2), NULL), DAO_ERR_HOST_FULL);
    CU_ASSERT_EQUAL(program_stats(&program).pinned_bytes, 0);
    CU_ASSERT_EQUAL(push(2, (uint32_t[]){1, 2}, R), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_HOST_FULL);
    CU_ASSERT_EQUAL(push(1, &(uint32_t){0}, W), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    end();
}

/* What has failed is for a sync to say. */
static void a_failure_keeps_no_pin(void)
{
    begin(&(dao_executor_config_t){0}, 2, 1);
    CU_ASSERT_EQUAL(dao_managed_pin(handle(0), NULL), DAO_OK);
    CU_ASSERT_EQUAL(program_push(&program, &(program_kernel_t){"bad", 0, {0}, {0}, 0, DAO_ERR_INVALID}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_unpin(handle(0)), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).pinned_bytes, 0);
    CU_ASSERT_EQUAL(dao_managed_unpin(handle(0)), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_FAILED);
    end();
}

/* Five tensors used once each on a device for four: the one that leaves is that with the lowest priority. */
static void the_lowest_priority_leaves_first(void)
{
    for (int policy = 0; policy < 2; policy++) {
        begin(&(dao_executor_config_t){.policy = (dao_policy_t)policy}, 4, 0);
        for (uint32_t i = 0; i < 5; i++) {
            dao_managed_config_t config = {.size_bytes = UNIT, .priority = i == 1 ? 0 : i == 4 ? 255 : 7};
            program.tensors[i].size_bytes = UNIT;
            CU_ASSERT_EQUAL(dao_managed_create(executor, &config, &program.tensors[i].handle), DAO_OK);
        }
        program.tensor_count = 5;
        use_all(5, W);
        for (uint32_t i = 0; i < 5; i++) {
            CU_ASSERT_EQUAL(handle(i)->has_device, i != 1);
        }
        use_all(2, R); /* 0 is there; 1 comes for the oldest of the others but 0 */
        CU_ASSERT_FALSE(handle(2)->has_device);
        CU_ASSERT_TRUE(handle(4)->has_device);
        end();
    }
    begin(&(dao_executor_config_t){0}, 4, 0);
    dao_managed_t *tensor = NULL;
    dao_managed_config_t config = {.size_bytes = UNIT, .priority = DAO_MANAGED_PRIORITY_MAX + 1};
    CU_ASSERT_EQUAL(dao_managed_create(executor, &config, &tensor), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(tensor);
    end();
}

static CU_TestInfo tests[] = {
    {"a pinned tensor stays at one address", a_pinned_tensor_stays_at_one_address},
    {"a release takes the pin away in its turn", a_release_takes_the_pin_away_in_its_turn},
    {"a release leaves the plan in its turn", a_release_leaves_the_plan_in_its_turn},
    {"a tensor without a content comes with its first", a_tensor_without_a_content_comes_with_its_first},
    {"what exceeds the capacity alone is told of that", what_exceeds_the_capacity_alone_is_told_of_that},
    {"too much is refused with what is pinned", too_much_is_refused_with_what_is_pinned},
    {"a plan is followed beside them", a_plan_is_followed_beside_them},
    {"a plan leaves what is overwritten in place", a_plan_leaves_what_is_overwritten_in_place},
    {"a plan that cannot bring them is left", a_plan_that_cannot_bring_them_is_left},
    {"a described step is planned beside them", a_described_step_is_planned_beside_them},
    {"pins that come and go lose nothing", pins_that_come_and_go_lose_nothing},
    {"a failure pins nothing", a_failure_pins_nothing},
    {"a failure keeps no pin", a_failure_keeps_no_pin},
    {"the lowest priority leaves first", the_lowest_priority_leaves_first},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"pins", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
