/* SPDX-License-Identifier: Apache-2.0 */
/* The n-th call fails, for every n: whatever is refused, by the backend or by the system, once or for good,
   no byte of any tensor is lost, nothing leaks, no counter drifts, and the executor works afterwards. */
#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/start/context.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/program.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIT (16 * KIB)

#define R  DAO_ACCESS_READ
#define W  DAO_ACCESS_WRITE
#define RW DAO_ACCESS_READ_WRITE

/* Most calls that one scenario makes; a loop that goes on longer has a bug. */
#define CALL_COUNT_MAX 5000

/* On a second backend one call of so many fails: a prime, no loop has such a period. */
#define AGAIN_STEP 7

/* What may fail. */
typedef enum source { SOURCE_BACKEND, SOURCE_SYSTEM, SOURCE_COUNT } source_t;

typedef struct scenario {
    const char *name;
    size_t capacity_bytes;
    size_t host_bytes;
    void (*run)(program_t *program); /* pushes work; what is refused is not pushed */
    dao_policy_t policy;
    bool checks_repeatable;
    bool has_file;
    bool is_still; /* the test's thread does all, in less time */
    uint32_t stream_count;
    uint64_t stride; /* each of so many calls fails; 0: each */
} scenario_t;

static uint64_t stride_of(const scenario_t *scenario)
{
    return TEST_CALL_STEP * (scenario->stride != 0 ? scenario->stride : 1) *
           (dao_test_is_again() ? AGAIN_STEP : 1);
}

static dao_status_t executor_create(const scenario_t *scenario, dao_executor_t **out_executor)
{
    const char *directory = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    dao_executor_config_t config = {.capacity_bytes = scenario->capacity_bytes,
                                    .host_bytes = scenario->host_bytes,
                                    .policy = scenario->policy,
                                    .check_repeatable = scenario->checks_repeatable,
                                    .file = {.directory = scenario->has_file ? directory : NULL},
                                    .stream_count = scenario->stream_count,
                                    .check = TEST_WALKS};
    return scenario->is_still ? dao_executor_create_still(&config, out_executor)
                              : dao_executor_create(&config, out_executor);
}

/* Starts the library on a wrapped device of 64 MiB, with nothing armed. */
static void start_context(void)
{
    static const fault_config_t quiet;
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    const dao_backend_ops_t *ops = fault_backend_wrap(dao_backend_ops(), &quiet);
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, ops), DAO_OK);
}

/* For calls that may fail here: what counts is what is left in the end. */
static void ignore(dao_status_t status)
{
    (void)status;
}

static dao_status_t push(program_t *program, uint32_t a, dao_access_t access_a, uint32_t b,
                         dao_access_t access_b)
{
    return program_push(program, &(program_kernel_t){"kernel", 2, {a, b}, {access_a, access_b}, 0, DAO_OK});
}

static bool make(program_t *program, uint32_t count, size_t size_bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t tensor = program_tensor(program, size_bytes);
        if (tensor == UINT32_MAX) {
            return false;
        }
        (void)program_push(program, &(program_kernel_t){"make", 1, {tensor}, {W}, 0, DAO_OK});
    }
    return true;
}

static void run_nothing(program_t *program)
{
    (void)program;
}

static void run_kernels_that_fit(program_t *program)
{
    if (make(program, 3, UNIT)) {
        (void)push(program, 0, R, 1, RW);
        (void)push(program, 1, R, 2, RW);
    }
}

static void run_dirty_evictions(program_t *program)
{
    if (make(program, 6, UNIT)) {
        for (uint32_t i = 0; i < 12; i++) {
            (void)push(program, i % 6, R, (i + 1) % 6, RW);
        }
    }
}

static void run_clean_evictions(program_t *program)
{
    if (make(program, 6, UNIT)) {
        for (uint32_t i = 0; i < 18; i++) {
            (void)push(program, i % 6, R, (i + 2) % 6, R);
        }
    }
}

static void run_writes_and_reads(program_t *program)
{
    for (uint32_t i = 0; i < 5; i++) {
        if (program_tensor(program, UNIT) == UINT32_MAX) {
            return;
        }
        (void)program_write(program, i);
    }
    for (uint32_t i = 0; i < 5; i++) {
        (void)push(program, i, RW, (i + 1) % 5, R);
        (void)program_read(program, i);
    }
}

static void run_full_host(program_t *program)
{
    if (make(program, 6, UNIT)) {
        (void)push(program, 0, RW, 5, R);
        program_drop(program, 3);
        (void)push(program, 1, R, 2, RW);
    }
}

static void run_streams(program_t *program)
{
    if (make(program, 5, UNIT)) {
        for (uint32_t i = 0; i < 9; i++) {
            program->stream_index = i % 3;
            (void)push(program, i % 5, i % 2 == 0 ? R : RW, (i + 2) % 5, RW);
        }
    }
}

static void run_workspaces(program_t *program)
{
    if (make(program, 4, UNIT)) {
        for (uint32_t i = 0; i < 6; i++) {
            (void)program_push(program, &(program_kernel_t){"work", 1, {i % 4}, {RW}, 2 * UNIT, DAO_OK});
        }
    }
}

static void run_compactions(program_t *program)
{
    if (make(program, 4, UNIT) && program_tensor(program, 2 * UNIT) == 4) {
        (void)program_push(program, &(program_kernel_t){"gather", 3, {1, 3, 4}, {R, R, W}, 0, DAO_OK});
        (void)program_push(program, &(program_kernel_t){"scatter", 3, {4, 0, 2}, {R, RW, RW}, 0, DAO_OK});
    }
}

static void run_dropped_handles(program_t *program)
{
    for (uint32_t i = 0; i < 10; i++) {
        if (!make(program, 1, UNIT)) {
            return;
        }
        if (i > 0) {
            (void)push(program, i - 1, R, i, RW);
            program_drop(program, i - 1);
        }
    }
}

static void run_steps(program_t *program)
{
    dao_command_list_t *list = NULL;
    if (!make(program, 3, UNIT) || program_tensor(program, UNIT) != 3 ||
        dao_command_list_create(program->executor, &list) != DAO_OK) {
        return;
    }
    static const program_kernel_t kernels[] = {
        {"forward", 3, {0, 1, 3}, {R, R, W}, 0, DAO_OK},
        {"backward", 3, {3, 2, 0}, {R, RW, RW}, 0, DAO_OK},
    };
    bool is_whole = program_list_push(program, list, &kernels[0]) == DAO_OK &&
                    program_list_push(program, list, &kernels[1]) == DAO_OK &&
                    dao_command_list_discard(list, program->tensors[3].handle) == DAO_OK;
    for (int run = 0; is_whole && run < 3; run++) {
        ignore(dao_command_list_run(list));
    }
    ignore(dao_executor_sync(program->executor));
    program->tensors[3].version = 0; /* a run discards it */
    program_drop(program, 3);
    dao_command_list_destroy(list);
}

static dao_status_t launch_nothing(const dao_launch_t *launch, void *user)
{
    (void)launch;
    (void)user;
    return DAO_OK;
}

static void run_first_touches(program_t *program)
{
    for (int i = 0; i < 4; i++) {
        dao_managed_t *sum = NULL;
        if (dao_managed_create(
                program->executor,
                &(dao_managed_config_t){.name = "sum", .size_bytes = UNIT, .zero_first_touch = true},
                &sum) == DAO_OK) {
            dao_operand_t operand = {sum, RW};
            dao_kernel_t kernel = {.launch = launch_nothing, .operands = &operand, .operand_count = 1};
            ignore(dao_executor_push(program->executor, &kernel));
        }
        (void)make(program, 1, UNIT);
        (void)dao_managed_release(sum);
    }
}

typedef struct generator {
    program_t *program;
    uint32_t first;
} generator_t;

static void *generate(void *user)
{
    generator_t *generator = user;
    for (uint32_t i = 0; i < 6; i++) {
        (void)push(generator->program, generator->first + i % 2, RW, generator->first + (i + 1) % 2, R);
    }
    return NULL;
}

static void run_generator_threads(program_t *program)
{
    if (!make(program, 6, UNIT)) {
        return;
    }
    generator_t generators[3] = {{program, 0}, {program, 2}, {program, 4}};
    dao_thread_t threads[3];
    int started = 0;
    while (started < 3 &&
           dao_thread_start(&threads[started], "generator", generate, &generators[started]) == DAO_OK) {
        started++;
    }
    for (int i = 0; i < started; i++) {
        dao_thread_join(&threads[i]);
    }
}

static void run_other_capacities(program_t *program)
{
    if (make(program, 4, UNIT)) {
        ignore(dao_executor_capacity_set(program->executor, 2 * UNIT));
        (void)push(program, 0, RW, 3, R);
        ignore(dao_executor_capacity_set(program->executor, 5 * UNIT));
        (void)push(program, 1, R, 2, RW);
    }
}

/* A kernel that uses a part of a tensor by a view, and leaves its bytes. */
static void use_part(program_t *program, uint32_t tensor, size_t offset_bytes, dao_access_t access)
{
    dao_managed_t *view = NULL;
    if (dao_managed_view(program->tensors[tensor].handle, offset_bytes, UNIT / 4, &view) == DAO_OK) {
        dao_operand_t operand = {view, access};
        dao_kernel_t kernel = {
            .name = "part", .launch = launch_nothing, .operands = &operand, .operand_count = 1};
        ignore(dao_executor_push(program->executor, &kernel));
        (void)dao_managed_release(view);
    }
}

/* Reads a part of a tensor, and writes back what it has read. */
static void rewrite_part(program_t *program, uint32_t tensor, size_t offset_bytes)
{
    char bytes[UNIT / 4];
    dao_managed_t *handle = program->tensors[tensor].handle;
    if (dao_managed_read_part(handle, offset_bytes, bytes, sizeof(bytes)) == DAO_OK) {
        ignore(dao_managed_write_part(handle, offset_bytes, bytes, sizeof(bytes)));
    }
}

static void run_parts(program_t *program)
{
    for (uint32_t i = 0; i < 4; i++) {
        if (program_tensor(program, UNIT) == UINT32_MAX) {
            return;
        }
        (void)program_write(program, i);
    }
    for (uint32_t i = 0; i < 8; i++) {
        use_part(program, i % 4, (i % 3) * UNIT / 4, i % 2 == 0 ? R : RW);
        rewrite_part(program, i % 4, (i + 1) % 4 * UNIT / 4);
        (void)push(program, (i + 1) % 4, R, (i + 2) % 4, i % 3 == 0 ? RW : R);
        rewrite_part(program, (i + 2) % 4, i % 4 * UNIT / 4);
    }
}

static void run_pins(program_t *program)
{
    for (uint32_t i = 0; i < 4; i++) {
        if (program_tensor(program, UNIT) == UINT32_MAX) {
            return;
        }
        (void)program_write(program, i);
    }
    for (uint32_t i = 0; i < 6; i++) {
        void *address = NULL;
        uint32_t pinned = i % 4;
        use_part(program, (pinned + i / 4) % 4, UNIT / 2, RW);
        bool is_pinned = dao_managed_pin(program->tensors[pinned].handle, &address) == DAO_OK;
        (void)push(program, pinned, R, (i + 1) % 4, RW);
        rewrite_part(program, pinned, UNIT / 4);
        (void)push(program, (i + 2) % 4, R, (i + 3) % 4, RW);
        if (is_pinned) {
            ignore(dao_managed_unpin(program->tensors[pinned].handle));
        }
    }
}

static void run_checked_kernels(program_t *program)
{
    if (!make(program, 4, UNIT)) {
        return;
    }
    for (uint32_t i = 0; i < 4; i++) {
        dao_operand_t operands[] = {{program->tensors[i].handle, R},
                                    {program->tensors[(i + 1) % 4].handle, RW}};
        dao_kernel_t kernel = {.name = "checked",
                               .launch = launch_nothing,
                               .operands = operands,
                               .operand_count = 2,
                               .flags = DAO_KERNEL_REPEATABLE};
        ignore(dao_executor_push(program->executor, &kernel));
    }
}

static void note_status(dao_status_t status, void *user)
{
    *(dao_status_t *)user = status;
}

/* What is read is written back, by calls that wait for nothing. */
static void run_transfers(program_t *program)
{
    static char bytes[4][UNIT];
    static dao_status_t statuses[4];
    if (!make(program, 4, UNIT)) {
        return;
    }
    for (uint32_t i = 0; i < 4; i++) {
        dao_managed_t *handle = program->tensors[i].handle;
        statuses[i] = DAO_ERR_NOT_READY;
        ignore(dao_managed_read_async(handle, 0, bytes[i], UNIT, note_status, &statuses[i]));
        (void)push(program, i, R, (i + 1) % 4, R);
    }
    ignore(dao_executor_sync(program->executor));
    for (uint32_t i = 0; i < 4; i++) {
        size_t offset_bytes = i % 2 * UNIT / 2;
        if (statuses[i] == DAO_OK) {
            ignore(dao_managed_write_async(program->tensors[i].handle, offset_bytes, bytes[i] + offset_bytes,
                                           UNIT - offset_bytes, note_status, &statuses[i]));
        }
    }
    ignore(dao_executor_sync(program->executor));
}

static const scenario_t scenarios[] = {
    {.name = "create and destroy", .capacity_bytes = 4 * UNIT, .run = run_nothing},
    {.name = "kernels that fit", .capacity_bytes = 4 * UNIT, .run = run_kernels_that_fit},
    {.name = "dirty evictions", .capacity_bytes = 3 * UNIT, .run = run_dirty_evictions},
    {.name = "clean evictions", .capacity_bytes = 2 * UNIT, .run = run_clean_evictions},
    {.name = "writes and reads of the program", .capacity_bytes = 2 * UNIT, .run = run_writes_and_reads},
    {.name = "a full host", .capacity_bytes = 3 * UNIT, .host_bytes = 2 * UNIT, .run = run_full_host},
    {.name = "workspaces", .capacity_bytes = 3 * UNIT, .run = run_workspaces},
    {.name = "compactions", .capacity_bytes = 4 * UNIT, .run = run_compactions},
    {.name = "dropped handles", .capacity_bytes = 2 * UNIT, .run = run_dropped_handles},
    {.name = "steps", .capacity_bytes = 3 * UNIT, .run = run_steps},
    {.name = "first touches", .capacity_bytes = 2 * UNIT, .run = run_first_touches},
    {.name = "generator threads", .capacity_bytes = 3 * UNIT, .run = run_generator_threads},
    {.name = "other capacities", .capacity_bytes = 3 * UNIT, .run = run_other_capacities},
    {.name = "parts of tensors", .capacity_bytes = 3 * UNIT, .run = run_parts, .is_still = true, .stride = 5},
    {.name = "pins", .capacity_bytes = 3 * UNIT, .run = run_pins, .is_still = true, .stride = 7},
    {.name = "transfers in the queue",
     .capacity_bytes = 3 * UNIT,
     .run = run_transfers,
     .is_still = true,
     .stride = 3},
    {.name = "several streams",
     .capacity_bytes = 3 * UNIT,
     .run = run_streams,
     .stream_count = 3,
     .is_still = true,
     .stride = 3},
    {.name = "kernels that are checked",
     .capacity_bytes = 3 * UNIT,
     .run = run_checked_kernels,
     .checks_repeatable = true,
     .is_still = true,
     .stride = 3},
    {.name = "a policy of windows",
     .capacity_bytes = 3 * UNIT,
     .run = run_workspaces,
     .policy = DAO_POLICY_WINDOW,
     .is_still = true,
     .stride = 3},
    {.name = "a file",
     .capacity_bytes = 3 * UNIT,
     .host_bytes = UNIT,
     .run = run_parts,
     .has_file = true,
     .is_still = true,
     .stride = 11},
};

static void arm(source_t source, uint64_t skip_count, bool persistent)
{
    if (source == SOURCE_BACKEND) {
        fault_backend_arm(FAULT_CALL_ANY, skip_count, persistent);
    } else {
        dao_fault_arm(DAO_FAULT_ANY, skip_count, persistent);
    }
}

static uint64_t disarm(source_t source)
{
    return source == SOURCE_BACKEND ? fault_backend_disarm() : dao_fault_disarm();
}

/* Runs a scenario with its n-th call failing; the number of calls that failed. */
static uint64_t run_once(const scenario_t *scenario, source_t source, uint64_t n, bool persistent)
{
    start_context();

    dao_executor_t *executor = NULL;
    program_t program;
    arm(source, n, persistent);
    dao_status_t status = executor_create(scenario, &executor);
    if (status == DAO_OK) {
        program_init(&program, executor);
        scenario->run(&program);
        ignore(dao_executor_sync(executor));
    }
    uint64_t fired = disarm(source);
    if (status == DAO_OK) {
        dao_status_t synced = dao_executor_sync(executor);
        CU_ASSERT_TRUE(fired > 0 || synced == DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        CU_ASSERT_EQUAL(program_count_lost(&program), 0);
        CU_ASSERT_EQUAL(program.mismatch_count, 0);
        CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
        CU_ASSERT_EQUAL(program.open_count, 0);
        program_drop_all(&program);
    } else {
        CU_ASSERT_TRUE(fired > 0);
        CU_ASSERT_TRUE(dao_last_message()[0] != '\0');
    }
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
    CU_ASSERT_EQUAL(dao_used(dao_pinned_place(0)), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
    return fired;
}

static void fail_every_call_of(const scenario_t *scenario)
{
    static const char *const source_texts[] = {"backend", "system"};
    for (int source = 0; source < SOURCE_COUNT; source++) {
        for (int persistent = 0; persistent < 2; persistent++) {
            uint64_t n = 0;
            unsigned failures = CU_get_number_of_failures();
            while (n < CALL_COUNT_MAX && run_once(scenario, (source_t)source, n, persistent != 0) > 0) {
                if (CU_get_number_of_failures() != failures) {
                    (void)printf("    %s: %s call %" PRIu64 "%s\n", scenario->name, source_texts[source], n,
                                 persistent != 0 ? " and all after it" : "");
                    return;
                }
                n += stride_of(scenario);
            }
            CU_ASSERT_TRUE(n < CALL_COUNT_MAX);
            (void)printf("    %s: %" PRIu64 " %s calls failed%s\n", scenario->name, n / stride_of(scenario),
                         source_texts[source],
                         persistent != 0 ? ", each with all after it" : ", one at a time");
        }
    }
}

static void no_failing_call_loses_a_tensor(void)
{
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        fail_every_call_of(&scenarios[i]);
    }
}

/* What holds once the device was lost. */
static void check_after_loss(program_t *program)
{
    CU_ASSERT_EQUAL(dao_executor_sync(program->executor), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_TRUE(dao_last_message()[0] != '\0');
    uint32_t before_count = 0;
    CU_ASSERT_EQUAL(program_count_wrong_after_loss(program, &before_count), 0);
    CU_ASSERT_TRUE(before_count <= 3); /* operands of the one kernel */
    uint32_t tensor = program_tensor(program, UNIT);
    if (tensor != UINT32_MAX) {
        dao_executor_stats_t before;
        dao_executor_stats_t after;
        CU_ASSERT_EQUAL(dao_executor_stats_get(program->executor, &before), DAO_OK);
        CU_ASSERT_EQUAL(program_push(program, &(program_kernel_t){"late", 1, {tensor}, {W}, 0, DAO_OK}),
                        DAO_OK);
        CU_ASSERT_EQUAL(program_write(program, tensor), DAO_ERR_DEVICE_LOST);
        CU_ASSERT_EQUAL(dao_executor_stats_get(program->executor, &after), DAO_OK);
        CU_ASSERT_EQUAL(after.skipped_count, before.skipped_count + 1);
        CU_ASSERT_EQUAL(after.kernel_count, before.kernel_count);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(program->executor), DAO_ERR_DEVICE_LOST);
}

/* Runs a scenario whose device is lost at the n-th call; the number of calls that answered so. */
static uint64_t run_and_lose(const scenario_t *scenario, fault_call_t call, uint64_t n, bool persistent)
{
    start_context();
    dao_executor_t *executor = NULL;
    program_t program;
    CU_ASSERT_EQUAL_FATAL(executor_create(scenario, &executor), DAO_OK);
    program_init(&program, executor);
    fault_backend_arm(call, n, persistent);
    scenario->run(&program);
    dao_status_t synced = dao_executor_sync(executor);
    uint64_t fired = persistent ? 0 : fault_backend_disarm();
    if (synced == DAO_ERR_DEVICE_LOST) { /* "a full host" has a failure of its own */
        check_after_loss(&program);
    }
    dao_status_t destroyed = dao_executor_destroy(executor);
    fired = persistent ? fault_backend_disarm() : fired;
    if (synced == DAO_ERR_DEVICE_LOST) {
        CU_ASSERT_TRUE(fired > 0);
        CU_ASSERT_EQUAL(destroyed, DAO_ERR_DEVICE_LOST);
    } else { /* only while it is destroyed, and perhaps when nothing was left to do */
        CU_ASSERT_TRUE(persistent || fired == 0);
        CU_ASSERT_TRUE(destroyed == DAO_OK || (fired > 0 && destroyed == DAO_ERR_DEVICE_LOST));
    }
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    CU_ASSERT_EQUAL(program.open_count, 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
    CU_ASSERT_EQUAL(dao_used(dao_pinned_place(0)), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
    return fired;
}

static void lose_at_every_call(const scenario_t *scenario, fault_call_t call, bool persistent)
{
    unsigned failures = CU_get_number_of_failures();
    for (uint64_t n = 0; n < CALL_COUNT_MAX && run_and_lose(scenario, call, n, persistent) > 0;
         n += stride_of(scenario)) {
        if (CU_get_number_of_failures() != failures) {
            (void)printf("    %s: the device is lost at %s, number %" PRIu64 "%s\n", scenario->name,
                         fault_call_text(call), n, persistent ? ", for good" : "");
            return;
        }
    }
}

/* Whenever the device is lost: every sync says so, kernels are skipped, what the host has can be read,
   nothing leaks. */
static void a_lost_device_takes_only_its_own_bytes(void)
{
    for (size_t i = 1; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        lose_at_every_call(&scenarios[i], (fault_call_t)FAULT_CALL_LOSS, true);
    }
}

/* One answer is enough, even if the device seems to work again. */
static void a_lost_device_stays_lost(void)
{
    static const fault_call_t calls[] = {FAULT_CALL_EVENT_QUERY, FAULT_CALL_EVENT_SYNCHRONIZE,
                                         FAULT_CALL_STREAM_SYNCHRONIZE};
    for (size_t i = 1; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
            lose_at_every_call(&scenarios[i], calls[k], false);
        }
    }
}

/* A write by the program that finds the host full and the device lost leaves the bytes that the host has. */
static void a_write_to_a_lost_device_leaves_the_old_bytes(void)
{
    start_context();
    dao_executor_config_t executor_config = {
        .capacity_bytes = 2 * UNIT, .host_bytes = UNIT, .check = TEST_WALKS};
    dao_executor_t *executor = NULL;
    program_t program;
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&executor_config, &executor), DAO_OK);
    program_init(&program, executor);
    CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), 0);
    CU_ASSERT_EQUAL(program_write(&program, 0), DAO_OK);
    fault_backend_arm(FAULT_CALL_EVENT_SYNCHRONIZE, 0, false);
    ignore(program_write(&program, 0)); /* there is a place on the device, and no other on the host */
    (void)fault_backend_disarm();
    fault_backend_arm((fault_call_t)FAULT_CALL_LOSS, 0, true);
    CU_ASSERT_TRUE(make(&program, 1, UNIT));
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(program_read(&program, 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_ERR_DEVICE_LOST);
    (void)fault_backend_disarm();
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
}

static void a_lost_device_keeps_no_pin(void)
{
    start_context();
    dao_executor_config_t executor_config = {.capacity_bytes = 2 * UNIT, .check = TEST_WALKS};
    dao_executor_t *executor = NULL;
    program_t program;
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&executor_config, &executor), DAO_OK);
    program_init(&program, executor);
    CU_ASSERT_TRUE(make(&program, 1, UNIT));
    CU_ASSERT_EQUAL(dao_managed_pin(program.tensors[0].handle, NULL), DAO_OK);
    fault_backend_arm((fault_call_t)FAULT_CALL_LOSS, 0, true);
    CU_ASSERT_TRUE(make(&program, 1, UNIT));
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(dao_managed_unpin(program.tensors[0].handle), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).pinned_bytes, 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_ERR_DEVICE_LOST);
    (void)fault_backend_disarm();
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
}

/* Another capacity, a plan and tensors with a source need the device: each says that it is lost, and changes
   nothing. */
static void a_lost_device_is_told_by_whatever_needs_it(void)
{
    static const char bytes[UNIT] = {1};
    start_context();
    dao_executor_config_t executor_config = {.capacity_bytes = 2 * UNIT, .check = TEST_WALKS};
    dao_executor_t *executor = NULL;
    dao_command_list_t *list = NULL;
    dao_source_t *source = NULL;
    dao_managed_t *tensor = NULL;
    program_t program;
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&executor_config, &executor), DAO_OK);
    program_init(&program, executor);
    CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), 0);
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_write(list, program.tensors[0].handle, bytes, UNIT), DAO_OK);
    CU_ASSERT_EQUAL(dao_source_adopt(bytes, UNIT, NULL, NULL, &source), DAO_OK);
    fault_backend_arm((fault_call_t)FAULT_CALL_LOSS, 0, true);
    CU_ASSERT_TRUE(make(&program, 1, UNIT));
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, 4 * UNIT), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(program_stats(&program).capacity_bytes, 2 * UNIT);
    CU_ASSERT_EQUAL(dao_command_list_plan(list, 1), DAO_ERR_DEVICE_LOST);
    dao_managed_config_t config = {.size_bytes = UNIT};
    CU_ASSERT_EQUAL(dao_managed_create_from(executor, &config, source, 0, &tensor), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_PTR_NULL(tensor);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK); /* skipped, and the sync says so */
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(program_read(&program, 0), DAO_ERR_DEVICE_LOST);
    dao_command_list_destroy(list);
    CU_ASSERT_EQUAL(dao_source_release(source), DAO_OK);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_ERR_DEVICE_LOST);
    (void)fault_backend_disarm();
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
}

/* A copy that is refused every time: the message names the tensor, its bytes and the kernel. The policy is
   one that copies nothing ahead, so that the kernel is what asks for the copy. */
static void a_copy_that_fails_for_good_is_named(void)
{
    start_context();
    dao_executor_config_t executor_config = {.capacity_bytes = 2 * UNIT, .policy = DAO_POLICY_SIZE};
    dao_executor_t *executor = NULL;
    program_t program;
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&executor_config, &executor), DAO_OK);
    program_init(&program, executor);
    CU_ASSERT_TRUE(make(&program, 2, UNIT));
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    fault_backend_arm(FAULT_CALL_COPY, 0, true);
    CU_ASSERT_TRUE(make(&program, 1, UNIT));
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_COPY_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "tensor 0"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "16384 bytes"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "make"));
    CU_ASSERT_EQUAL(fault_backend_disarm(), 3); /* it was tried again, and not for ever */
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* A copy that is refused once is simply tried again. */
static void a_copy_that_fails_once_is_not_noticed(void)
{
    start_context();
    dao_executor_t *executor = NULL;
    program_t program;
    CU_ASSERT_EQUAL_FATAL(
        dao_executor_create(&(dao_executor_config_t){.capacity_bytes = 2 * UNIT}, &executor), DAO_OK);
    program_init(&program, executor);
    fault_backend_arm(FAULT_CALL_COPY, 0, false);
    run_dirty_evictions(&program);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_disarm(), 1);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static CU_TestInfo tests[] = {
    {"a copy that fails once is not noticed", a_copy_that_fails_once_is_not_noticed},
    {"a copy that fails for good is named", a_copy_that_fails_for_good_is_named},
    {"no failing call loses a tensor", no_failing_call_loses_a_tensor},
    {"a lost device takes only its own bytes", a_lost_device_takes_only_its_own_bytes},
    {"a write to a lost device leaves the old bytes", a_write_to_a_lost_device_leaves_the_old_bytes},
    {"a lost device keeps no pin", a_lost_device_keeps_no_pin},
    {"a lost device is told by whatever needs it", a_lost_device_is_told_by_whatever_needs_it},
    {"a lost device stays lost", a_lost_device_stays_lost},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"executor faults", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
