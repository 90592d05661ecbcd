/* SPDX-License-Identifier: Apache-2.0 */
/* The executor on virtual devices: contents survive every way of making room, lists and threads. What fails
   is in test_executor_errors. */
#include "base/threads/sync.h"
#include "tests/runtime/executor/core/units.h"
#include "tests/support/gate.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <stdlib.h>
#include <string.h>

static void contents_survive_half_the_room(void)
{
    units_begin(4);
    units_make_written(8);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 8; i++) {
            CU_ASSERT_EQUAL(units_push2("mix", i, R, (i + 3) % 8, RW), DAO_OK);
        }
    }
    dao_executor_stats_t stats = units_stats();
    CU_ASSERT_TRUE(stats.eviction_count > 8);
    CU_ASSERT_TRUE(stats.out_bytes >= 4 * UNIT);
    CU_ASSERT_TRUE(stats.peak_device_used_bytes <= 4 * UNIT);
    CU_ASSERT_EQUAL(stats.kernel_count, 32);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    units_end();
}

static void every_policy_keeps_the_bytes(void)
{
    for (int policy = 0; policy < DAO_POLICY_USER; policy++) {
        units_config.policy = (dao_policy_t)policy;
        contents_survive_half_the_room();
    }
}

static void a_tensor_named_twice_counts_once(void)
{
    units_begin(1);
    units_make_written(1);
    CU_ASSERT_EQUAL(units_push2("square", 0, R, 0, R), DAO_OK);
    CU_ASSERT_EQUAL(units_push2("square in place", 0, RW, 0, RW), DAO_OK);
    program_drop(&units, 0);
    CU_ASSERT_EQUAL(units_stats().device_used_bytes, 0);
    units_end();
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
    units_begin(8);
    for (uint32_t i = 0; i < TENSORS; i++) {
        CU_ASSERT_EQUAL_FATAL(
            units_create((dao_managed_config_t){.size_bytes = 100, .zero_first_touch = true}, &tensors[i]),
            DAO_OK);
    }
    for (uint32_t i = 0; i < DAO_OPERAND_COUNT_MAX; i++) {
        operands[i] = (dao_operand_t){tensors[i % TENSORS], i < TENSORS ? R : W};
    }
    address_check_t check = {.tensor_count = TENSORS};
    dao_kernel_t kernel = {.launch = launch_address_check,
                           .user = &check,
                           .operands = operands,
                           .operand_count = DAO_OPERAND_COUNT_MAX};
    CU_ASSERT_EQUAL(dao_executor_push(units_executor, &kernel), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_OK);
    CU_ASSERT_TRUE(check.is_right);
    for (uint32_t i = 0; i < TENSORS; i++) {
        CU_ASSERT_EQUAL(dao_managed_release(tensors[i]), DAO_OK);
    }
    units_end();
}

static void an_output_that_nobody_reads_is_freed(void)
{
    units_begin(2);
    units_make_written(2);
    program_drop(&units, 0);
    dao_executor_stats_t stats = units_stats();
    CU_ASSERT_EQUAL(stats.device_used_bytes, UNIT);
    CU_ASSERT_EQUAL(stats.live_tensor_count, 1);
    units_end();
}

static void a_dropped_tensor_lives_until_its_last_pending_use(void)
{
    units_begin(2);
    units_make_written(2);
    CU_ASSERT_EQUAL(units_push2("use", 0, R, 1, RW), DAO_OK);
    program_drop(&units, 0);
    CU_ASSERT_EQUAL(units_push1("after", 1, RW), DAO_OK);
    CU_ASSERT_EQUAL(units_stats().device_used_bytes, UNIT);
    CU_ASSERT_EQUAL(units.read_count, 3);
    units_end();
}

static void a_write_only_operand_is_not_fetched(void)
{
    units_config.on_demand = true; /* nothing is copied ahead: every copy is counted */
    units_begin(1);
    units_make_written(2); /* making 1 sends 0 to the host */
    CU_ASSERT_EQUAL(units_stats().out_bytes, UNIT);
    CU_ASSERT_EQUAL(units_push1("overwrite", 0, W), DAO_OK);
    dao_executor_stats_t stats = units_stats();
    CU_ASSERT_EQUAL(stats.in_bytes, 0);
    CU_ASSERT_EQUAL(stats.fetch_count, 0);
    units_end();
}

static void a_clean_tensor_leaves_without_a_copy(void)
{
    units_config.on_demand = true; /* nothing is copied ahead: every copy is counted */
    units_begin(1);
    units_make_written(2);
    CU_ASSERT_EQUAL(units_push1("read", 0, R),
                    DAO_OK); /* 1 leaves with a copy, 0 comes back and keeps its host copy */
    uint64_t out_bytes = units_stats().out_bytes;
    CU_ASSERT_EQUAL(out_bytes, 2 * UNIT);
    for (int i = 0; i < 4; i++) { /* from now on both are clean */
        CU_ASSERT_EQUAL(units_push1("read", 1, R), DAO_OK);
        CU_ASSERT_EQUAL(units_push1("read", 0, R), DAO_OK);
    }
    dao_executor_stats_t stats = units_stats();
    CU_ASSERT_EQUAL(stats.out_bytes, out_bytes);
    CU_ASSERT_EQUAL(stats.clean_eviction_count, 8);
    CU_ASSERT_EQUAL(units_push1("change", 0, RW), DAO_OK); /* now its host copy is stale */
    CU_ASSERT_EQUAL(units_push1("read", 1, R), DAO_OK);
    CU_ASSERT_EQUAL(units_push1("read", 0, R), DAO_OK);
    CU_ASSERT_EQUAL(units_stats().out_bytes, out_bytes + UNIT);
    units_end();
}

static void look_for_zeros(unsigned char *const *bytes, void *user)
{
    *(bool *)user = bytes_are_all(bytes[0], 0, UNIT);
}

static dao_status_t launch_zero_check(const dao_launch_t *launch, void *user)
{
    return units_launch(launch, look_for_zeros, user);
}

static void zeros_are_there_on_first_touch(void)
{
    units_begin(1);
    units_make_written(1); /* leaves its bytes in the arena */
    dao_managed_t *sum = NULL;
    CU_ASSERT_EQUAL_FATAL(
        units_create((dao_managed_config_t){.name = "sum", .size_bytes = UNIT, .zero_first_touch = true},
                     &sum),
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
    CU_ASSERT_EQUAL(dao_executor_push(units_executor, &kernel), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_OK);
    CU_ASSERT_TRUE(all_zero);
    CU_ASSERT_EQUAL(dao_managed_release(sum), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    units_end();
}

static void workspace_belongs_to_one_kernel(void)
{
    units_begin(3);
    units_make_written(4);
    for (uint32_t i = 0; i < 12; i++) {
        program_kernel_t kernel = {"work", 1, {i % 4}, {RW}, 2 * UNIT - 100, DAO_OK};
        CU_ASSERT_EQUAL(program_push(&units, &kernel), DAO_OK);
    }
    CU_ASSERT_EQUAL(units_stats().peak_device_used_bytes, 3 * UNIT);
    units_end();
}

/* Small tensors pinned in the middle of the arena leave holes that are too small for a large one. */
static void operands_that_cut_the_arena_are_put_side_by_side(void)
{
    units_begin(4);
    units_make_written(4);                             /* 0 1 2 3 fill the arena */
    uint32_t large = program_tensor(&units, 2 * UNIT); /* needs two neighbours */
    program_kernel_t kernel = {"gather", 3, {1, 3, large}, {R, R, W}, 0, DAO_OK};
    CU_ASSERT_EQUAL(program_push(&units, &kernel), DAO_OK);
    dao_executor_stats_t stats = units_stats();
    CU_ASSERT_TRUE(stats.compaction_count >= 1);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    units_end();
}

static void a_full_host_lets_clean_tensors_leave(void)
{
    units_config.host_bytes = 2 * UNIT;
    units_begin(2);
    units_make_written(4); /* 0 and 1 on the host, 2 and 3 dirty on the device: both tiers are full */
    program_drop(&units, 2);
    CU_ASSERT_EQUAL(units_push1("fetch", 0, R), DAO_OK); /* clean now, its slot still taken */
    CU_ASSERT_EQUAL(units_push1("fetch", 1, R), DAO_OK); /* 0 can leave, 3 cannot */
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    units_end();
}

static void the_program_writes_to_the_device_when_the_host_is_full(void)
{
    units_config.host_bytes = UNIT;
    units_begin(2);
    for (uint32_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL_FATAL(program_tensor(&units, UNIT), i);
        CU_ASSERT_EQUAL(program_write(&units, i), DAO_OK);
    }
    uint32_t fourth = program_tensor(&units, UNIT);
    CU_ASSERT_EQUAL(program_write(&units, fourth), DAO_ERR_HOST_FULL);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    CU_ASSERT_EQUAL(units_push2("use", 1, RW, 2, RW), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_OK);
    CU_ASSERT_EQUAL(program_write(&units, 1), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    units_end();
}

static void the_program_overwrites_a_slot_when_all_is_full(void)
{
    units_config.host_bytes = UNIT;
    units_begin(1);
    CU_ASSERT_EQUAL_FATAL(program_tensor(&units, UNIT), 0);
    CU_ASSERT_EQUAL(program_write(&units, 0), DAO_OK); /* fills the host */
    CU_ASSERT_EQUAL_FATAL(program_tensor(&units, UNIT), 1);
    CU_ASSERT_EQUAL(units_push1("make", 1, W), DAO_OK); /* fills the device */
    CU_ASSERT_EQUAL(program_write(&units, 0), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    program_drop(&units, 1);
    CU_ASSERT_EQUAL(units_push1("fetch", 0, R), DAO_OK); /* now it is on both sides */
    CU_ASSERT_EQUAL(program_write(&units, 0), DAO_OK);
    CU_ASSERT_EQUAL(units_push1("read", 0, R), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    units_end();
}

/* A command list is run again and again; what it discards counts as never written. */
static void a_command_list_is_pushed_once_and_run_often(void)
{
    units_config.policy = DAO_POLICY_BELADY;
    units_begin(3);
    units_make_written(2);
    uint32_t middle = program_tensor(&units, UNIT);
    uint32_t large = program_tensor(&units, 2 * UNIT);
    dao_command_list_t *list = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(units_executor, &list), DAO_OK);
    program_kernel_t kernels[] = {
        {"forward", 2, {0, middle}, {R, W}, 0, DAO_OK},
        {"expand", 2, {middle, large}, {R, W}, 0, DAO_OK},
        {"backward", 2, {large, 1}, {R, RW}, 0, DAO_OK},
        {"update", 2, {0, 1}, {RW, R}, 0, DAO_OK},
    };
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(program_list_push(&units, list, &kernels[i]), DAO_OK);
        if (i == 2) {
            CU_ASSERT_EQUAL(dao_command_list_discard(list, units.tensors[large].handle), DAO_OK);
            CU_ASSERT_EQUAL(dao_command_list_discard(list, units.tensors[middle].handle), DAO_OK);
        }
    }
    for (int run = 0; run < 5; run++) {
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_OK);
    CU_ASSERT_EQUAL(units_stats().kernel_count, 2 + 5 * 4);
    CU_ASSERT_EQUAL(units.tensors[0].version, 6);
    CU_ASSERT_EQUAL(program_read(&units, 0), DAO_OK);
    CU_ASSERT_EQUAL(program_read(&units, 1), DAO_OK);
    CU_ASSERT_EQUAL(program_read(&units, middle), DAO_ERR_NEVER_WRITTEN);
    dao_command_list_destroy(list);
    units_end();
}

/* What is discarded before its next use need not be copied out. */
static void a_discarded_content_is_never_copied(void)
{
    units_config.on_demand = true; /* nothing is copied ahead: every copy is counted */
    units_begin(2);
    units_make_written(1);
    uint32_t middle = program_tensor(&units, UNIT);
    uint32_t other = program_tensor(&units, 2 * UNIT);
    dao_command_list_t *list = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(units_executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(program_list_push(&units, list, &(program_kernel_t){"make", 1, {middle}, {W}, 0, DAO_OK}),
                    DAO_OK);
    CU_ASSERT_EQUAL(program_list_push(&units, list, &(program_kernel_t){"other", 1, {other}, {W}, 0, DAO_OK}),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_discard(list, units.tensors[middle].handle), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    CU_ASSERT_EQUAL(units_stats().out_bytes, UNIT); /* tensor 0 alone */
    dao_command_list_destroy(list);
    units_end();
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
        generator->status = i < 3 ? units_push1("make", a, W) : units_push2("mix", a, R, b, RW);
    }
    return NULL;
}

static void any_number_of_threads_may_push_through_a_queue_of_one(void)
{
    units_config.queue_kernels = 1;
    units_begin(4);
    generator_t generators[4] = {{.first = 0}};
    for (uint32_t i = 0; i < 4; i++) {
        generators[i].first = 3 * i;
        for (int k = 0; k < 3; k++) {
            (void)program_tensor(&units, UNIT);
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
    CU_ASSERT_EQUAL(units_stats().kernel_count, 240);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    units_end();
}

/* Far more kernels than the streams have numbers for, while the first one holds the device up. */
static void thousands_of_kernels_may_be_in_flight(void)
{
    units_begin(2);
    units_make_written(3);
    dao_gate_t gate;
    dao_gate_init(&gate);
    dao_kernel_t kernel = {.name = "hold", .launch = launch_gate, .user = &gate};
    CU_ASSERT_EQUAL(dao_executor_push(units_executor, &kernel), DAO_OK);
    for (uint32_t i = 0; i < 1000; i++) {
        CU_ASSERT_EQUAL(units_push2("mix", i % 3, R, (i + 1) % 3, RW), DAO_OK);
    }
    dao_gate_open(&gate);
    for (uint32_t i = 0; i < 3000; i++) {
        CU_ASSERT_EQUAL(units_push2("mix", i % 3, R, (i + 1) % 3, RW), DAO_OK);
    }
    CU_ASSERT_EQUAL(units_stats().kernel_count, 3 + 1 + 4000);
    dao_gate_finish(&gate);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    units_end();
}

static void a_list_may_be_destroyed_while_its_runs_are_queued(void)
{
    units_begin(2);
    units_make_written(2);
    dao_gate_t gate;
    dao_gate_init(&gate);
    dao_command_list_t *list = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(units_executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(
        program_list_push(&units, list, &(program_kernel_t){"mix", 2, {0, 1}, {RW, RW}, 0, DAO_OK}), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_push(units_executor, &(dao_kernel_t){.launch = launch_gate, .user = &gate}),
                    DAO_OK);
    for (int run = 0; run < 3; run++) {
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    }
    dao_command_list_destroy(list);
    CU_ASSERT_TRUE(units.open_count >= 1); /* its kernel's drop waits for the runs */
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_executor_sync(units_executor), DAO_OK);
    CU_ASSERT_EQUAL(units.open_count, 0);
    CU_ASSERT_EQUAL(units.tensors[0].version, 4);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    dao_gate_finish(&gate);
    units_end();
}

static void lists_and_handles_outlive_the_executor(void)
{
    units_begin(2);
    units_make_written(2);
    dao_command_list_t *list = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(units_executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(
        program_list_push(&units, list, &(program_kernel_t){"mix", 2, {0, 1}, {R, RW}, 0, DAO_OK}), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    program_drop(&units, 0); /* the list still names it */
    CU_ASSERT_EQUAL(dao_executor_destroy(units_executor), DAO_OK);
    CU_ASSERT_EQUAL(units.open_count, 1);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_ERR_STOPPED);
    program_drop_all(&units);
    dao_command_list_destroy(list);
    CU_ASSERT_EQUAL(units.open_count, 0);
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
    units_begin(2);
    units_make_written(3);
    dao_gate_t gate;
    dao_gate_init(&gate);
    CU_ASSERT_EQUAL(dao_executor_push(units_executor, &(dao_kernel_t){.launch = launch_gate, .user = &gate}),
                    DAO_OK);
    CU_ASSERT_EQUAL(units_push2("mix", 0, R, 1, RW), DAO_OK);
    CU_ASSERT_EQUAL(units_push2("mix", 1, R, 2, RW), DAO_OK);
    dao_managed_t *handle = units.tensors[1].handle;
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
    units.tensors[1].handle = NULL;
    dao_gate_open(&gate);
    dao_executor_stats_t stats = units_stats();
    CU_ASSERT_EQUAL(stats.live_tensor_count, 2);
    CU_ASSERT_EQUAL(stats.device_used_bytes + stats.host_used_bytes, 2 * UNIT);
    dao_gate_finish(&gate);
    CU_ASSERT_EQUAL(program_count_lost(&units), 0);
    units_end();
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

static CU_TestInfo tests[] = {
    {"contents survive half the room", contents_survive_half_the_room},
    {"every policy keeps the bytes", every_policy_keeps_the_bytes},
    {"a tensor named twice counts once", a_tensor_named_twice_counts_once},
    {"a kernel may have thousands of operands", a_kernel_may_have_thousands_of_operands},
    {"an output that nobody reads is freed", an_output_that_nobody_reads_is_freed},
    {"a dropped tensor lives until its last pending use", a_dropped_tensor_lives_until_its_last_pending_use},
    {"a write-only operand is not fetched", a_write_only_operand_is_not_fetched},
    {"a clean tensor leaves without a copy", a_clean_tensor_leaves_without_a_copy},
    {"zeros are there on first touch", zeros_are_there_on_first_touch},
    {"workspace belongs to one kernel", workspace_belongs_to_one_kernel},
    {"operands that cut the arena are put side by side", operands_that_cut_the_arena_are_put_side_by_side},
    {"a full host lets clean tensors leave", a_full_host_lets_clean_tensors_leave},
    {"the program writes to the device when the host is full",
     the_program_writes_to_the_device_when_the_host_is_full},
    {"the program overwrites a slot when all is full", the_program_overwrites_a_slot_when_all_is_full},
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
    CU_SuiteInfo suites[] = {{"executor", units_start_suite, units_end_suite, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
