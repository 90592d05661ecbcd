/* SPDX-License-Identifier: Apache-2.0 */
/* The executor on virtual devices: contents survive every way of making room, and every failure names its
   cause, loses nothing and leaves the executor usable. */
#include "base/threads/sync.h"
#include "runtime/start/context.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/gate.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <stdlib.h>
#include <string.h>

#define UNIT (64 * KIB) /* size of most tensors here */

#define R  DAO_ACCESS_READ
#define W  DAO_ACCESS_WRITE
#define RW DAO_ACCESS_READ_WRITE

static dao_executor_t *executor;
static program_t program;

/* Starts an executor with room for `units` tensors; tests that need other settings change `config` first. */
static dao_executor_config_t config;

static void reset_config(void)
{
    config = (dao_executor_config_t){.check = true};
}

static void begin(size_t units)
{
    config.capacity_bytes = units * UNIT;
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK);
    program_init(&program, executor);
}

/* Every scenario ends so: nothing is wrong, nothing is left. */
static void end(void)
{
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program.open_count, 0);
    dao_executor_stats_t stats;
    CU_ASSERT_EQUAL(dao_executor_stats_get(executor, &stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.live_tensor_count, 0);
    CU_ASSERT_EQUAL(stats.device_used_bytes, 0);
    CU_ASSERT_EQUAL(stats.host_used_bytes, 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
    CU_ASSERT_EQUAL(dao_used(dao_pinned_place(0)), 0);
    reset_config();
}

static dao_executor_stats_t stats_now(void)
{
    dao_executor_stats_t stats;
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_stats_get(executor, &stats), DAO_OK);
    return stats;
}

static dao_status_t push1(const char *name, uint32_t a, dao_access_t access)
{
    return program_push(&program, &(program_kernel_t){name, 1, {a}, {access}, 0, DAO_OK});
}

static dao_status_t push2(const char *name, uint32_t a, dao_access_t access_a, uint32_t b,
                          dao_access_t access_b)
{
    return program_push(&program, &(program_kernel_t){name, 2, {a, b}, {access_a, access_b}, 0, DAO_OK});
}

static dao_status_t create(dao_managed_config_t of, dao_managed_t **out_tensor)
{
    return dao_managed_create(executor, &of, out_tensor);
}

/* Creates `count` tensors of one unit, each written by a kernel. */
static void make_written(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t tensor = program_tensor(&program, UNIT);
        CU_ASSERT_EQUAL_FATAL(tensor, i);
        CU_ASSERT_EQUAL(push1("make", tensor, W), DAO_OK);
    }
}

static void contents_survive_half_the_room(void)
{
    begin(4);
    make_written(8);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 8; i++) {
            CU_ASSERT_EQUAL(push2("mix", i, R, (i + 3) % 8, RW), DAO_OK);
        }
    }
    dao_executor_stats_t stats = stats_now();
    CU_ASSERT_TRUE(stats.eviction_count > 8);
    CU_ASSERT_TRUE(stats.out_bytes >= 4 * UNIT);
    CU_ASSERT_TRUE(stats.peak_device_used_bytes <= 4 * UNIT);
    CU_ASSERT_EQUAL(stats.kernel_count, 32);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

static void every_policy_keeps_the_bytes(void)
{
    for (int policy = 0; policy < DAO_POLICY_USER; policy++) {
        config.policy = (dao_policy_t)policy;
        contents_survive_half_the_room();
    }
}

static void a_tensor_named_twice_counts_once(void)
{
    begin(1);
    make_written(1);
    CU_ASSERT_EQUAL(push2("square", 0, R, 0, R), DAO_OK);
    CU_ASSERT_EQUAL(push2("square in place", 0, RW, 0, RW), DAO_OK);
    program_drop(&program, 0);
    CU_ASSERT_EQUAL(stats_now().device_used_bytes, 0);
    end();
}

typedef struct address_check {
    uint32_t tensor_count;
    bool is_right;
} address_check_t;

static dao_status_t launch_address_check(const dao_launch_t *launch, void *user)
{
    address_check_t *check = user;
    check->is_right = launch->operand_count == DAO_OPERAND_COUNT_MAX;
    for (uint32_t i = 0; i < launch->operand_count;
         i++) { /* the same tensor, the same address; else another one */
        uint32_t first = i % check->tensor_count;
        check->is_right = check->is_right && launch->addresses[i] == launch->addresses[first] &&
                          (first == 0 || launch->addresses[first] != launch->addresses[first - 1]);
    }
    return DAO_OK;
}

static void a_kernel_may_have_thousands_of_operands(void)
{
    enum { TENSORS = 1500 };
    static dao_managed_t *tensors[TENSORS];
    static dao_operand_t operands[DAO_OPERAND_COUNT_MAX];
    begin(8);
    for (uint32_t i = 0; i < TENSORS; i++) {
        CU_ASSERT_EQUAL_FATAL(
            create((dao_managed_config_t){.size_bytes = 100, .zero_first_touch = true}, &tensors[i]), DAO_OK);
    }
    for (uint32_t i = 0; i < DAO_OPERAND_COUNT_MAX; i++) {
        operands[i] = (dao_operand_t){tensors[i % TENSORS], i < TENSORS ? R : W};
    }
    address_check_t check = {.tensor_count = TENSORS};
    dao_kernel_t kernel = {.launch = launch_address_check,
                           .user = &check,
                           .operands = operands,
                           .operand_count = DAO_OPERAND_COUNT_MAX};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_TRUE(check.is_right);
    for (uint32_t i = 0; i < TENSORS; i++) {
        CU_ASSERT_EQUAL(dao_managed_release(tensors[i]), DAO_OK);
    }
    end();
}

static void an_output_that_nobody_reads_is_freed(void)
{
    begin(2);
    make_written(2);
    program_drop(&program, 0);
    dao_executor_stats_t stats = stats_now();
    CU_ASSERT_EQUAL(stats.device_used_bytes, UNIT);
    CU_ASSERT_EQUAL(stats.live_tensor_count, 1);
    end();
}

static void a_dropped_tensor_lives_until_its_last_pending_use(void)
{
    begin(2);
    make_written(2);
    CU_ASSERT_EQUAL(push2("use", 0, R, 1, RW), DAO_OK);
    program_drop(&program, 0);
    CU_ASSERT_EQUAL(push1("after", 1, RW), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().device_used_bytes, UNIT);
    CU_ASSERT_EQUAL(program.read_count, 3);
    end();
}

static void a_write_only_operand_is_not_fetched(void)
{
    config.on_demand = true; /* nothing is copied ahead: every copy is counted */
    begin(1);
    make_written(2); /* making 1 sends 0 to the host */
    CU_ASSERT_EQUAL(stats_now().out_bytes, UNIT);
    CU_ASSERT_EQUAL(push1("overwrite", 0, W), DAO_OK);
    dao_executor_stats_t stats = stats_now();
    CU_ASSERT_EQUAL(stats.in_bytes, 0);
    CU_ASSERT_EQUAL(stats.fetch_count, 0);
    end();
}

static void a_clean_tensor_leaves_without_a_copy(void)
{
    config.on_demand = true; /* nothing is copied ahead: every copy is counted */
    begin(1);
    make_written(2);
    CU_ASSERT_EQUAL(push1("read", 0, R),
                    DAO_OK); /* 1 leaves with a copy, 0 comes back and keeps its host copy */
    uint64_t out_bytes = stats_now().out_bytes;
    CU_ASSERT_EQUAL(out_bytes, 2 * UNIT);
    for (int i = 0; i < 4; i++) { /* from now on both are clean */
        CU_ASSERT_EQUAL(push1("read", 1, R), DAO_OK);
        CU_ASSERT_EQUAL(push1("read", 0, R), DAO_OK);
    }
    dao_executor_stats_t stats = stats_now();
    CU_ASSERT_EQUAL(stats.out_bytes, out_bytes);
    CU_ASSERT_EQUAL(stats.clean_eviction_count, 8);
    CU_ASSERT_EQUAL(push1("change", 0, RW), DAO_OK); /* now its host copy is stale */
    CU_ASSERT_EQUAL(push1("read", 1, R), DAO_OK);
    CU_ASSERT_EQUAL(push1("read", 0, R), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().out_bytes, out_bytes + UNIT);
    end();
}

static void reading_what_was_never_written_is_refused(void)
{
    begin(2);
    make_written(1);
    dao_managed_t *named = NULL;
    CU_ASSERT_EQUAL_FATAL(create((dao_managed_config_t){.name = "weights", .size_bytes = UNIT}, &named),
                          DAO_OK);
    program.tensors[1].handle = named;
    program.tensors[1].size_bytes = UNIT;
    program.tensor_count = 2;
    CU_ASSERT_EQUAL(push2("matmul", 0, R, 1, R), DAO_OK);
    CU_ASSERT_EQUAL(push1("later", 0, RW), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_NEVER_WRITTEN);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "weights"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "matmul"));
    CU_ASSERT_EQUAL(stats_now().skipped_count, 1);
    CU_ASSERT_EQUAL(program_read(&program, 1), DAO_ERR_NEVER_WRITTEN);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

/* A kernel with one operand of one unit. */
static dao_status_t launch_on_unit(const dao_launch_t *launch, device_kernel_t function, void *user)
{
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, launch->device_index};
    device_operand_t operand = {place, launch->addresses[0], UNIT, RW};
    return device_launch(launch->stream, &operand, 1, function, user);
}

static void look_for_zeros(unsigned char *const *bytes, void *user)
{
    *(bool *)user = bytes_are_all(bytes[0], 0, UNIT);
}

static dao_status_t launch_zero_check(const dao_launch_t *launch, void *user)
{
    return launch_on_unit(launch, look_for_zeros, user);
}

static void zeros_are_there_on_first_touch(void)
{
    begin(1);
    make_written(1); /* leaves its bytes in the arena */
    dao_managed_t *sum = NULL;
    CU_ASSERT_EQUAL_FATAL(
        create((dao_managed_config_t){.name = "sum", .size_bytes = UNIT, .zero_first_touch = true}, &sum),
        DAO_OK);
    unsigned char *bytes = malloc(UNIT);
    memset(bytes, 1, UNIT);
    CU_ASSERT_EQUAL(dao_managed_read(sum, bytes, UNIT), DAO_OK); /* without any memory behind it */
    CU_ASSERT_TRUE(bytes_are_all(bytes, 0, UNIT));
    free(bytes);

    bool all_zero = false;
    dao_operand_t operand = {sum, DAO_ACCESS_READ_WRITE};
    dao_kernel_t kernel = {.name = "add",
                           .launch = launch_zero_check,
                           .user = &all_zero,
                           .operands = &operand,
                           .operand_count = 1};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_TRUE(all_zero);
    CU_ASSERT_EQUAL(dao_managed_release(sum), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

static void a_kernel_that_cannot_fit_is_named_and_the_rest_goes_on(void)
{
    begin(2);
    make_written(3);
    CU_ASSERT_EQUAL(program_push(&program, &(program_kernel_t){"huge", 3, {0, 1, 2}, {R, R, R}, 0, DAO_OK}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "huge"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "196608"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "131072"));
    CU_ASSERT_EQUAL(program_push(&program, &(program_kernel_t){"space", 1, {0}, {R}, 2 * UNIT, DAO_OK}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_EQUAL(push2("fits", 0, R, 2, RW), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

static void workspace_belongs_to_one_kernel(void)
{
    begin(3);
    make_written(4);
    for (uint32_t i = 0; i < 12; i++) {
        program_kernel_t kernel = {"work", 1, {i % 4}, {RW}, 2 * UNIT - 100, DAO_OK};
        CU_ASSERT_EQUAL(program_push(&program, &kernel), DAO_OK);
    }
    CU_ASSERT_EQUAL(stats_now().peak_device_used_bytes, 3 * UNIT);
    end();
}

/* Small tensors pinned in the middle of the arena leave holes that are too small for a large one. */
static void operands_that_cut_the_arena_are_put_side_by_side(void)
{
    begin(4);
    make_written(4);                                     /* 0 1 2 3 fill the arena */
    uint32_t large = program_tensor(&program, 2 * UNIT); /* needs two neighbours */
    program_kernel_t kernel = {"gather", 3, {1, 3, large}, {R, R, W}, 0, DAO_OK};
    CU_ASSERT_EQUAL(program_push(&program, &kernel), DAO_OK);
    dao_executor_stats_t stats = stats_now();
    CU_ASSERT_TRUE(stats.compaction_count >= 1);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

static void a_full_host_is_named_and_nothing_is_lost(void)
{
    config.host_bytes = UNIT;
    begin(2);
    make_written(3); /* one on the host */
    uint32_t fourth = program_tensor(&program, UNIT);
    CU_ASSERT_EQUAL(push1("one more", fourth, W), DAO_OK);
    CU_ASSERT_EQUAL(push1("later", 1, RW), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_HOST_FULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "one more"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "65536"));
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop(&program, 0);
    CU_ASSERT_EQUAL(push1("again", fourth, W), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

static void a_full_host_lets_clean_tensors_leave(void)
{
    config.host_bytes = 2 * UNIT;
    begin(2);
    make_written(4); /* 0 and 1 on the host, 2 and 3 dirty on the device: both tiers are full */
    program_drop(&program, 2);
    CU_ASSERT_EQUAL(push1("fetch", 0, R), DAO_OK); /* clean now, its slot still taken */
    CU_ASSERT_EQUAL(push1("fetch", 1, R), DAO_OK); /* 0 can leave, 3 cannot */
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

static void the_program_writes_to_the_device_when_the_host_is_full(void)
{
    config.host_bytes = UNIT;
    begin(2);
    for (uint32_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), i);
        CU_ASSERT_EQUAL(program_write(&program, i), DAO_OK);
    }
    uint32_t fourth = program_tensor(&program, UNIT);
    CU_ASSERT_EQUAL(program_write(&program, fourth), DAO_ERR_HOST_FULL);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    CU_ASSERT_EQUAL(push2("use", 1, RW, 2, RW), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_write(&program, 1), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

static void the_program_overwrites_a_slot_when_all_is_full(void)
{
    config.host_bytes = UNIT;
    begin(1);
    CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), 0);
    CU_ASSERT_EQUAL(program_write(&program, 0), DAO_OK); /* fills the host */
    CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), 1);
    CU_ASSERT_EQUAL(push1("make", 1, W), DAO_OK); /* fills the device */
    CU_ASSERT_EQUAL(program_write(&program, 0), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop(&program, 1);
    CU_ASSERT_EQUAL(push1("fetch", 0, R), DAO_OK); /* now it is on both sides */
    CU_ASSERT_EQUAL(program_write(&program, 0), DAO_OK);
    CU_ASSERT_EQUAL(push1("read", 0, R), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

/* Leaves a message in the executor's thread, and answers a code without one. */
static dao_status_t launch_and_answer(const dao_launch_t *launch, void *user)
{
    (void)launch;
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_REENTRANT);
    return *(const dao_status_t *)user;
}

static void a_failing_launch_without_a_message_gets_nobody_elses(void)
{
    begin(2);
    dao_status_t answer = DAO_ERR_UNSUPPORTED;
    dao_kernel_t kernel = {.name = "mute", .launch = launch_and_answer, .user = &answer};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_ERR_UNSUPPORTED: the backend cannot do this"));
    end();
}

static void a_failing_launch_is_reported_once_and_skips_the_rest(void)
{
    begin(2);
    make_written(2);
    CU_ASSERT_EQUAL(program_push(&program, &(program_kernel_t){"bad", 1, {0}, {RW}, 0, DAO_ERR_UNSUPPORTED}),
                    DAO_OK);
    CU_ASSERT_EQUAL(program_push(&program, &(program_kernel_t){"worse", 1, {1}, {RW}, 0, DAO_ERR_INVALID}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "bad"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_ERR_UNSUPPORTED"));
    dao_executor_stats_t stats = stats_now();
    CU_ASSERT_EQUAL(stats.skipped_count, 1);
    CU_ASSERT_EQUAL(stats.kernel_count, 2);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

static void spoil(unsigned char *const *bytes, void *user)
{
    (void)user;
    memset(bytes[0], 0xee, UNIT);
}

/* Queues a part of its work and then reports an error. */
static dao_status_t launch_half(const dao_launch_t *launch, void *user)
{
    (void)user;
    CU_ASSERT_EQUAL(launch_on_unit(launch, spoil, NULL), DAO_OK);
    return DAO_ERR_UNSUPPORTED;
}

/* What a failing kernel did to its part of the device is not taken for the tensor's content if the host has
   that. */
static void a_kernel_that_fails_half_way_leaves_what_the_host_has(void)
{
    begin(2);
    CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), 0);
    CU_ASSERT_EQUAL(program_write(&program, 0), DAO_OK);
    CU_ASSERT_EQUAL(push1("fetch", 0, R), DAO_OK); /* now the bytes are on both sides */
    static const dao_access_t accesses[] = {RW, W};
    for (int i = 0; i < 2; i++) {
        dao_operand_t operand = {program.tensors[0].handle, accesses[i]};
        dao_kernel_t kernel = {
            .name = "half", .launch = launch_half, .operands = &operand, .operand_count = 1};
        CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_FAILED);
        CU_ASSERT_EQUAL(push1("read", 0, R), DAO_OK);
        CU_ASSERT_EQUAL(program_read(&program, 0), DAO_OK);
    }
    end(); /* no kernel has read a wrong byte */
}

static void requests_after_a_failure_wait_for_the_sync(void)
{
    begin(2);
    make_written(1);
    CU_ASSERT_EQUAL(program_push(&program, &(program_kernel_t){"bad", 1, {0}, {RW}, 0, DAO_ERR_UNSUPPORTED}),
                    DAO_OK);
    CU_ASSERT_EQUAL(program_write(&program, 0), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(program_read(&program, 0), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_EQUAL(program_read(&program, 0), DAO_OK);
    end();
}

static void destroy_reports_what_no_sync_did(void)
{
    begin(2);
    make_written(1);
    CU_ASSERT_EQUAL(program_push(&program, &(program_kernel_t){"bad", 1, {0}, {RW}, 0, DAO_ERR_UNSUPPORTED}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_EQUAL(program.open_count, 0);
    CU_ASSERT_EQUAL(dao_managed_size(program.tensors[0].handle), UNIT); /* handles outlive the executor */
    CU_ASSERT_EQUAL(program_read(&program, 0), DAO_ERR_STOPPED);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_ERR_STOPPED);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
}

static dao_status_t call_back(const dao_launch_t *launch, void *user)
{
    (void)launch;
    dao_status_t *answers = user;
    dao_kernel_t kernel = {.launch = call_back, .user = user};
    unsigned char byte = 0;
    answers[0] = dao_executor_sync(executor);
    answers[1] = dao_executor_push(executor, &kernel);
    answers[2] = dao_managed_read(program.tensors[0].handle, &byte, UNIT);
    answers[3] = dao_executor_destroy(executor);
    answers[4] = dao_finalize();
    return DAO_OK;
}

static void calls_from_the_executors_thread_are_refused(void)
{
    begin(1);
    make_written(1);
    dao_status_t answers[5] = {DAO_OK, DAO_OK, DAO_OK, DAO_OK, DAO_OK};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &(dao_kernel_t){.launch = call_back, .user = answers}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    for (int i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(answers[i], DAO_ERR_REENTRANT);
    }
    end();
}

static void bad_arguments_are_named(void)
{
    begin(1);
    make_written(1);
    dao_executor_t *other = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&(dao_executor_config_t){.capacity_bytes = UNIT}, &other),
                          DAO_OK);
    dao_operand_t operand = {program.tensors[0].handle, DAO_ACCESS_READ};
    dao_kernel_t kernel = {.name = "k", .launch = call_back, .operands = &operand, .operand_count = 1};
    CU_ASSERT_EQUAL(dao_executor_push(other, &kernel), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "another executor"));
    kernel.launch = NULL;
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_ERR_INVALID);
    kernel.launch = call_back;
    kernel.operand_count = DAO_OPERAND_COUNT_MAX + 1;
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_ERR_INVALID);
    kernel.operand_count = 1;
    kernel.workspace_bytes = SIZE_MAX;
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_ERR_OVERFLOW);
    kernel.workspace_bytes = 0;
    kernel.operands = NULL;
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_ERR_INVALID);
    operand.tensor = NULL;
    kernel.operands = &operand;
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_ERR_INVALID);
    operand = (dao_operand_t){program.tensors[0].handle, (dao_access_t)9};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_executor_push(NULL, &kernel), DAO_ERR_INVALID);
    dao_managed_t *tensor = NULL;
    CU_ASSERT_EQUAL(create((dao_managed_config_t){.name = "t", .size_bytes = 0}, &tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(create((dao_managed_config_t){.name = "t", .size_bytes = SIZE_MAX}, &tensor),
                    DAO_ERR_OVERFLOW);
    CU_ASSERT_PTR_NULL(tensor);
    unsigned char byte = 0;
    CU_ASSERT_EQUAL(dao_managed_read(program.tensors[0].handle, &byte, 1), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "65536"));
    CU_ASSERT_EQUAL(dao_managed_read(NULL, &byte, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_write(program.tensors[0].handle, NULL, UNIT), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_retain(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(create((dao_managed_config_t){.name = "t", .size_bytes = UNIT}, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK); /* its record has died */
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_retain(tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_release(NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(other), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_create(&(dao_executor_config_t){.capacity_bytes = 1}, &other),
                    DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_executor_create(&(dao_executor_config_t){.policy = DAO_POLICY_USER}, &other),
                    DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_executor_create(&(dao_executor_config_t){.device_index = 63}, &other),
                    DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_executor_create(&(dao_executor_config_t){.capacity_bytes = 1024 * GIB}, &other),
                    DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(dao_executor_create(&(dao_executor_config_t){.capacity_bytes = 1024 * GIB + 1}, &other),
                    DAO_ERR_OVERFLOW);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "capacity_bytes is 1099511627777"));
    dao_file_config_t file = {.directory = "/tmp", .limit_bytes = 1024 * GIB + 1};
    CU_ASSERT_EQUAL(
        dao_executor_create(&(dao_executor_config_t){.capacity_bytes = UNIT, .file = file}, &other),
        DAO_ERR_OVERFLOW);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "file.limit_bytes is 1099511627777"));
    end();
}

/* A command list is run again and again; what it discards counts as never written. */
static void a_command_list_is_pushed_once_and_run_often(void)
{
    config.policy = DAO_POLICY_BELADY;
    begin(3);
    make_written(2);
    uint32_t middle = program_tensor(&program, UNIT);
    uint32_t large = program_tensor(&program, 2 * UNIT);
    dao_command_list_t *list = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    program_kernel_t kernels[] = {
        {"forward", 2, {0, middle}, {R, W}, 0, DAO_OK},
        {"expand", 2, {middle, large}, {R, W}, 0, DAO_OK},
        {"backward", 2, {large, 1}, {R, RW}, 0, DAO_OK},
        {"update", 2, {0, 1}, {RW, R}, 0, DAO_OK},
    };
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(program_list_push(&program, list, &kernels[i]), DAO_OK);
        if (i == 2) {
            CU_ASSERT_EQUAL(dao_command_list_discard(list, program.tensors[large].handle), DAO_OK);
            CU_ASSERT_EQUAL(dao_command_list_discard(list, program.tensors[middle].handle), DAO_OK);
        }
    }
    for (int run = 0; run < 5; run++) {
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().kernel_count, 2 + 5 * 4);
    CU_ASSERT_EQUAL(program.tensors[0].version, 6);
    CU_ASSERT_EQUAL(program_read(&program, 0), DAO_OK);
    CU_ASSERT_EQUAL(program_read(&program, 1), DAO_OK);
    CU_ASSERT_EQUAL(program_read(&program, middle), DAO_ERR_NEVER_WRITTEN);
    dao_command_list_destroy(list);
    end();
}

/* What is discarded before its next use need not be copied out. */
static void a_discarded_content_is_never_copied(void)
{
    config.on_demand = true; /* nothing is copied ahead: every copy is counted */
    begin(2);
    make_written(1);
    uint32_t middle = program_tensor(&program, UNIT);
    uint32_t other = program_tensor(&program, 2 * UNIT);
    dao_command_list_t *list = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(
        program_list_push(&program, list, &(program_kernel_t){"make", 1, {middle}, {W}, 0, DAO_OK}), DAO_OK);
    CU_ASSERT_EQUAL(
        program_list_push(&program, list, &(program_kernel_t){"other", 1, {other}, {W}, 0, DAO_OK}), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_discard(list, program.tensors[middle].handle), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().out_bytes, UNIT); /* tensor 0 alone */
    dao_command_list_destroy(list);
    end();
}

static dao_status_t launch_gate(const dao_launch_t *launch, void *user)
{
    return device_gate(launch->stream, user);
}

typedef struct generator {
    dao_thread_t thread;
    uint32_t first;
    dao_status_t status;
} generator_t;

static void *generate(void *user)
{
    generator_t *generator = user;
    for (uint32_t i = 0; i < 60 && generator->status == DAO_OK; i++) {
        uint32_t a = generator->first + i % 3;
        uint32_t b = generator->first + (i + 1) % 3;
        generator->status = i < 3 ? push1("make", a, W) : push2("mix", a, R, b, RW);
    }
    return NULL;
}

static void any_number_of_threads_may_push_through_a_queue_of_one(void)
{
    config.queue_kernels = 1;
    begin(4);
    generator_t generators[4] = {{.first = 0}};
    for (uint32_t i = 0; i < 4; i++) {
        generators[i].first = 3 * i;
        for (int k = 0; k < 3; k++) {
            (void)program_tensor(&program, UNIT);
        }
    }
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&generators[i].thread, "generator", generate, &generators[i]),
                              DAO_OK);
    }
    for (int i = 0; i < 4; i++) {
        dao_thread_join(&generators[i].thread);
        CU_ASSERT_EQUAL(generators[i].status, DAO_OK);
    }
    CU_ASSERT_EQUAL(stats_now().kernel_count, 240);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

/* Far more kernels than the streams have numbers for, while the first one holds the device up. */
static void thousands_of_kernels_may_be_in_flight(void)
{
    begin(2);
    make_written(3);
    dao_gate_t gate;
    dao_gate_init(&gate);
    dao_kernel_t kernel = {.name = "hold", .launch = launch_gate, .user = &gate};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
    for (uint32_t i = 0; i < 1000; i++) {
        CU_ASSERT_EQUAL(push2("mix", i % 3, R, (i + 1) % 3, RW), DAO_OK);
    }
    dao_gate_open(&gate);
    for (uint32_t i = 0; i < 3000; i++) {
        CU_ASSERT_EQUAL(push2("mix", i % 3, R, (i + 1) % 3, RW), DAO_OK);
    }
    CU_ASSERT_EQUAL(stats_now().kernel_count, 3 + 1 + 4000);
    dao_gate_finish(&gate);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

static void a_list_may_be_destroyed_while_its_runs_are_queued(void)
{
    begin(2);
    make_written(2);
    dao_gate_t gate;
    dao_gate_init(&gate);
    dao_command_list_t *list = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(
        program_list_push(&program, list, &(program_kernel_t){"mix", 2, {0, 1}, {RW, RW}, 0, DAO_OK}),
        DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_push(executor, &(dao_kernel_t){.launch = launch_gate, .user = &gate}),
                    DAO_OK);
    for (int run = 0; run < 3; run++) {
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    }
    dao_command_list_destroy(list);
    CU_ASSERT_TRUE(program.open_count >= 1); /* its kernel's drop waits for the runs */
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program.open_count, 0);
    CU_ASSERT_EQUAL(program.tensors[0].version, 4);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    dao_gate_finish(&gate);
    end();
}

static void lists_and_handles_outlive_the_executor(void)
{
    begin(2);
    make_written(2);
    dao_command_list_t *list = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(
        program_list_push(&program, list, &(program_kernel_t){"mix", 2, {0, 1}, {R, RW}, 0, DAO_OK}), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    program_drop(&program, 0); /* the list still names it */
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(program.open_count, 1);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_ERR_STOPPED);
    program_drop_all(&program);
    dao_command_list_destroy(list);
    CU_ASSERT_EQUAL(program.open_count, 0);
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
    CU_ASSERT_EQUAL(dao_used(dao_pinned_place(0)), 0);
}

static void *release_one(void *user)
{
    (void)dao_managed_release(user);
    return NULL;
}

static void handles_may_be_dropped_by_several_threads(void)
{
    begin(2);
    make_written(3);
    dao_gate_t gate;
    dao_gate_init(&gate);
    CU_ASSERT_EQUAL(dao_executor_push(executor, &(dao_kernel_t){.launch = launch_gate, .user = &gate}),
                    DAO_OK);
    CU_ASSERT_EQUAL(push2("mix", 0, R, 1, RW), DAO_OK);
    CU_ASSERT_EQUAL(push2("mix", 1, R, 2, RW), DAO_OK);
    dao_managed_t *handle = program.tensors[1].handle;
    dao_thread_t threads[4];
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_managed_retain(handle), DAO_OK);
    }
    for (int i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "release", release_one, handle), DAO_OK);
    }
    for (int i = 0; i < 4; i++) {
        dao_thread_join(&threads[i]);
    }
    program.tensors[1].handle = NULL;
    dao_gate_open(&gate);
    dao_executor_stats_t stats = stats_now();
    CU_ASSERT_EQUAL(stats.live_tensor_count, 2);
    CU_ASSERT_EQUAL(stats.device_used_bytes + stats.host_used_bytes, 2 * UNIT);
    dao_gate_finish(&gate);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

/* The same work on three executors at once, two of them on one device. */
static void executors_do_not_disturb_each_other(void)
{
    static program_t programs[3];
    dao_executor_t *executors[3];
    for (int i = 0; i < 3; i++) {
        dao_executor_config_t each = {.device_index = i / 2, .capacity_bytes = 2 * UNIT, .check = true};
        CU_ASSERT_EQUAL_FATAL(dao_executor_create(&each, &executors[i]), DAO_OK);
        program_init(&programs[i], executors[i]);
        for (uint32_t k = 0; k < 5; k++) {
            CU_ASSERT_EQUAL_FATAL(program_tensor(&programs[i], UNIT), k);
            CU_ASSERT_EQUAL(program_write(&programs[i], k), DAO_OK);
        }
    }
    for (uint32_t k = 0; k < 60; k++) {
        for (int i = 0; i < 3; i++) {
            program_kernel_t kernel = {"mix", 2, {k % 5, (k + 1 + (uint32_t)i) % 5}, {R, RW}, 0, DAO_OK};
            CU_ASSERT_EQUAL(program_push(&programs[i], &kernel), DAO_OK);
        }
    }
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_executor_sync(executors[i]), DAO_OK);
        CU_ASSERT_EQUAL(programs[i].mismatch_count, 0);
        CU_ASSERT_EQUAL(program_count_lost(&programs[i]), 0);
        program_drop_all(&programs[i]);
        CU_ASSERT_EQUAL(dao_executor_destroy(executors[i]), DAO_OK);
        CU_ASSERT_EQUAL(programs[i].open_count, 0);
    }
    for (int device = 0; device < 2; device++) {
        CU_ASSERT_EQUAL(dao_used(dao_device_place(device)), 0);
        CU_ASSERT_EQUAL(dao_used(dao_pinned_place(device)), 0);
    }
}

static int reset_suite(void)
{
    reset_config();
    return dao_init(NULL) == DAO_OK ? 0 : 1;
}

static int close_suite(void)
{
    return dao_finalize() == DAO_OK ? 0 : 1;
}

static CU_TestInfo tests[] = {
    {"contents survive half the room", contents_survive_half_the_room},
    {"every policy keeps the bytes", every_policy_keeps_the_bytes},
    {"a tensor named twice counts once", a_tensor_named_twice_counts_once},
    {"a failing launch without a message gets nobody else's",
     a_failing_launch_without_a_message_gets_nobody_elses},
    {"a kernel may have thousands of operands", a_kernel_may_have_thousands_of_operands},
    {"an output that nobody reads is freed", an_output_that_nobody_reads_is_freed},
    {"a dropped tensor lives until its last pending use", a_dropped_tensor_lives_until_its_last_pending_use},
    {"a write-only operand is not fetched", a_write_only_operand_is_not_fetched},
    {"a clean tensor leaves without a copy", a_clean_tensor_leaves_without_a_copy},
    {"reading what was never written is refused", reading_what_was_never_written_is_refused},
    {"zeros are there on first touch", zeros_are_there_on_first_touch},
    {"a kernel that cannot fit is named and the rest goes on",
     a_kernel_that_cannot_fit_is_named_and_the_rest_goes_on},
    {"workspace belongs to one kernel", workspace_belongs_to_one_kernel},
    {"operands that cut the arena are put side by side", operands_that_cut_the_arena_are_put_side_by_side},
    {"a full host is named and nothing is lost", a_full_host_is_named_and_nothing_is_lost},
    {"a full host lets clean tensors leave", a_full_host_lets_clean_tensors_leave},
    {"the program writes to the device when the host is full",
     the_program_writes_to_the_device_when_the_host_is_full},
    {"the program overwrites a slot when all is full", the_program_overwrites_a_slot_when_all_is_full},
    {"a failing launch is reported once and skips the rest",
     a_failing_launch_is_reported_once_and_skips_the_rest},
    {"a kernel that fails half way leaves what the host has",
     a_kernel_that_fails_half_way_leaves_what_the_host_has},
    {"requests after a failure wait for the sync", requests_after_a_failure_wait_for_the_sync},
    {"destroy reports what no sync did", destroy_reports_what_no_sync_did},
    {"calls from the executor's thread are refused", calls_from_the_executors_thread_are_refused},
    {"bad arguments are named", bad_arguments_are_named},
    {"a command list is pushed once and run often", a_command_list_is_pushed_once_and_run_often},
    {"a discarded content is never copied", a_discarded_content_is_never_copied},
    {"any number of threads may push through a queue of one",
     any_number_of_threads_may_push_through_a_queue_of_one},
    {"thousands of kernels may be in flight", thousands_of_kernels_may_be_in_flight},
    {"a list may be destroyed while its runs are queued", a_list_may_be_destroyed_while_its_runs_are_queued},
    {"lists and handles outlive the executor", lists_and_handles_outlive_the_executor},
    {"handles may be dropped by several threads", handles_may_be_dropped_by_several_threads},
    {"executors do not disturb each other", executors_do_not_disturb_each_other},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"executor", reset_suite, close_suite, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
