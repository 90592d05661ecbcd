/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs on executors of random capacity, on a backend that holds commands back by a seed: every
   operand of every kernel holds the version that a sequential program would have given it. */
#define _GNU_SOURCE
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/state/pins.h"
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
#include <unistd.h>

#define KERNEL_COUNT   150
#define TENSOR_COUNT   20
#define SIZE_MAX_UNITS 40 /* of 256 bytes */

enum { PLANNED_KERNELS = 24, PLANNED_STEPS = 6 };

static uint64_t state;
static program_t program;
static bool is_written[PROGRAM_TENSOR_COUNT_MAX]; /* as of what was pushed */
static size_t capacity_bytes;
static size_t free_bytes; /* of it, below what is pinned */
static uint32_t pin_counts[PROGRAM_TENSOR_COUNT_MAX];
static bool has_sources;
static uint32_t stream_count; /* of compute streams */

static uint64_t below(uint64_t limit)
{
    return dao_random_next(&state) % limit;
}

static size_t part_bytes(size_t size_bytes)
{
    return (size_bytes + 255) / 256 * 256;
}

/* A random tensor that has a handle. */
static uint32_t any_tensor(void)
{
    for (;;) {
        uint32_t tensor = (uint32_t)below(program.tensor_count);
        if (program.tensors[tensor].handle != NULL) {
            return tensor;
        }
    }
}

/* Builds a kernel that fits the arena and reads only what was written. */
static program_kernel_t random_kernel(void)
{
    program_kernel_t kernel = {.name = "random"};
    program.cost_ns =
        below(2) == 0 ? 0 : below(1000000); /* right or wrong, it changes only when things move */
    program.stream_index = stream_count > 1 ? (uint32_t)below(stream_count) : 0;
    size_t need = 0;
    if (below(4) == 0) {
        kernel.workspace_bytes = 1 + (size_t)below(SIZE_MAX_UNITS * 128);
        need = part_bytes(kernel.workspace_bytes);
    }
    uint64_t wanted = 1 + below(PROGRAM_OPERAND_COUNT_MAX);
    for (uint64_t i = 0; i < wanted; i++) {
        uint32_t tensor = any_tensor();
        bool is_named = false;
        for (uint32_t k = 0; k < kernel.operand_count; k++) {
            is_named = is_named || kernel.tensors[k] == tensor;
        }
        size_t bytes = part_bytes(program.tensors[tensor].size_bytes);
        if (is_named || need + bytes > free_bytes) {
            continue;
        }
        need += bytes;
        kernel.tensors[kernel.operand_count] = tensor;
        kernel.accesses[kernel.operand_count] = program.tensors[tensor].is_fixed ? DAO_ACCESS_READ
                                                : is_written[tensor]             ? (dao_access_t)below(3)
                                                                                 : DAO_ACCESS_WRITE;
        kernel.operand_count++;
    }
    return kernel;
}

static void note_written(const program_kernel_t *kernel)
{
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        is_written[kernel->tensors[i]] = true;
    }
}

/* A source of a file that has these bytes, and no name any more. */
static dao_source_t *file_of(const unsigned char *bytes, size_t size_bytes)
{
    dao_source_t *source = NULL;
    char path[] = "/tmp/dao-source-XXXXXX";
    int file = mkstemp(path);
    CU_ASSERT_FATAL(file >= 0 && write(file, bytes, size_bytes) == (ssize_t)size_bytes);
    CU_ASSERT_EQUAL(dao_source_open(path, (dao_source_cache_t)below(3), &source), DAO_OK);
    CU_ASSERT_EQUAL(close(file) + unlink(path), 0);
    return source;
}

/* Makes a tensor, with sources every other one of a file or memory: it has its bytes somewhere in that. */
static void make_tensor(void)
{
    uint32_t number = program.tensor_count;
    size_t size_bytes = 1 + (size_t)below(SIZE_MAX_UNITS * 256);
    dao_source_t *source = NULL;
    if (!has_sources || below(2) == 0) {
        CU_ASSERT_EQUAL_FATAL(program_tensor(&program, size_bytes), number);
        is_written[number] = false;
        return;
    }
    uint64_t offset = below(3 * 4096);
    unsigned char *content = calloc(1, (size_t)offset + size_bytes);
    unsigned char *bytes = program_content(&program, size_bytes);
    CU_ASSERT_FATAL(content != NULL && bytes != NULL);
    if (content != NULL && bytes != NULL) {
        memcpy(content + offset, bytes, size_bytes);
    }
    free(bytes);
    if (below(2) == 0) {
        CU_ASSERT_EQUAL(dao_source_adopt(content, (size_t)offset + size_bytes, free, content, &source),
                        DAO_OK);
    } else {
        source = file_of(content, (size_t)offset + size_bytes);
        free(content);
    }
    CU_ASSERT_EQUAL_FATAL(program_tensor_from(&program, size_bytes, source, offset), number);
    CU_ASSERT_EQUAL(dao_source_release(source), DAO_OK);
    is_written[number] = true;
}

/* Drops a tensor and makes another one, as long as there is room for numbers. */
static void replace_tensor(void)
{
    if (program.tensor_count < PROGRAM_TENSOR_COUNT_MAX) {
        make_tensor();
        uint32_t tensor = any_tensor();
        pin_counts[tensor] = 0;
        program_drop(&program, tensor);
    }
}

/* A step of a few kernels, run twice. Kernels of a step read what the step itself has written, or what was
   there before. */
static void run_random_step(void)
{
    dao_command_list_t *step = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(program.executor, &step), DAO_OK);
    uint64_t count = 1 + below(12);
    for (uint64_t i = 0; i < count; i++) {
        program_kernel_t kernel = random_kernel();
        CU_ASSERT_EQUAL(program_list_push(&program, step, &kernel), DAO_OK);
        note_written(&kernel);
    }
    CU_ASSERT_EQUAL(dao_command_list_run(step), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_run(step), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(program.executor), DAO_OK);
    dao_command_list_destroy(step);
}

/* The executor has run all that was pushed. */
static void note_pins(void)
{
    CU_ASSERT_EQUAL(dao_executor_sync(program.executor), DAO_OK);
    free_bytes = (size_t)dao_pins_free_bytes(&program.executor->engine);
}

static void unpin(uint32_t tensor)
{
    CU_ASSERT_EQUAL(dao_managed_unpin(program.tensors[tensor].handle), DAO_OK);
    pin_counts[tensor]--;
    note_pins();
}

/* Pins a tensor if half of the capacity is left, where all kernels fit that are made. */
static void pin(uint32_t tensor)
{
    size_t bytes = part_bytes(program.tensors[tensor].size_bytes);
    if (pin_counts[tensor] == 0 && free_bytes < bytes + capacity_bytes / 2) {
        CU_ASSERT_EQUAL(dao_managed_unpin(program.tensors[tensor].handle), DAO_ERR_INVALID);
        return;
    }
    void *address = NULL;
    dao_status_t status = dao_managed_pin(program.tensors[tensor].handle, &address);
    CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_HOST_FULL);
    pin_counts[tensor] += status == DAO_OK ? 1 : 0;
    note_pins();
}

static void change_pins(uint32_t tensor)
{
    if (pin_counts[tensor] > 0 && below(2) == 0) {
        unpin(tensor);
    } else {
        pin(tensor);
    }
}

static void unpin_all(void)
{
    for (uint32_t tensor = 0; tensor < program.tensor_count; tensor++) {
        while (pin_counts[tensor] > 0) {
            unpin(tensor);
        }
    }
}

/* Another capacity, in which any kernel of at least one tensor fits. */
static void change_capacity(void)
{
    size_t bytes = 256 * (SIZE_MAX_UNITS + (size_t)below(SIZE_MAX_UNITS * TENSOR_COUNT / 3));
    note_pins();
    if (free_bytes < capacity_bytes) {
        CU_ASSERT_EQUAL(dao_executor_capacity_set(program.executor, bytes), DAO_ERR_BUSY);
    }
    unpin_all();
    CU_ASSERT_EQUAL(dao_executor_capacity_set(program.executor, bytes), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).capacity_bytes, bytes);
    capacity_bytes = bytes;
    free_bytes = bytes;
}

/* The host may be full, and what is pinned on the device leave no room for the bytes. */
static void write_tensor(uint32_t tensor)
{
    dao_status_t status = program_write(&program, tensor);
    note_pins();
    bool has_no_room = status == DAO_ERR_HOST_FULL && free_bytes < capacity_bytes;
    CU_ASSERT(status == (program.tensors[tensor].is_fixed ? DAO_ERR_INVALID : DAO_OK) || has_no_room);
    is_written[tensor] = is_written[tensor] || !has_no_room;
}

static void take_random_action(void)
{
    uint64_t choice = below(100);
    uint32_t tensor = any_tensor();
    if (choice < 4) {
        replace_tensor();
    } else if (choice < 7) {
        run_random_step();
    } else if (choice < 10 && is_written[tensor]) {
        CU_ASSERT_EQUAL(program_read(&program, tensor), DAO_OK);
    } else if (choice < 12) {
        change_capacity();
    } else if (choice < 20) {
        change_pins(tensor);
    } else if (choice < 23) {
        CU_ASSERT_EQUAL(dao_executor_sync(program.executor), DAO_OK); /* so that versions may be read here */
        write_tensor(tensor);
    } else {
        program_kernel_t kernel = random_kernel();
        CU_ASSERT_EQUAL(program_push(&program, &kernel), DAO_OK);
        note_written(&kernel);
    }
}

static double by_id(const dao_victim_t *victim, void *user)
{
    (void)user;
    return (double)(victim->id * 7919 % 13);
}

/* How a program's executor is made, beside its seed. */
typedef struct variant {
    bool with_delays;
    bool with_file; /* pinned memory for a few tensors at most, sometimes for none, and a file behind it */
    bool with_sources;
    bool with_streams; /* kernels on all compute streams that an executor may have */
} variant_t;

/* Streams of the program's, of which each is made or adopted, or NULL: the executor's own. */
static dao_stream_t *made[DAO_EXECUTOR_STREAM_COUNT_MAX], *given[DAO_EXECUTOR_STREAM_COUNT_MAX];

static void make_streams(void)
{
    for (uint32_t i = 0; i < DAO_EXECUTOR_STREAM_COUNT_MAX; i++) {
        uint64_t kind = below(3);
        made[i] = given[i] = NULL;
        if (kind > 0) {
            CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &made[i]), DAO_OK);
            given[i] = made[i];
        }
        if (kind > 1) {
            CU_ASSERT_EQUAL_FATAL(dao_stream_adopt(0, dao_stream_native(made[i]), &given[i]), DAO_OK);
        }
    }
}

static void destroy_streams(void)
{
    for (uint32_t i = 0; i < DAO_EXECUTOR_STREAM_COUNT_MAX; i++) {
        dao_stream_destroy(given[i] != made[i] ? given[i] : NULL);
        dao_stream_destroy(made[i]);
    }
}

static void run_program(uint64_t seed, const variant_t *variant)
{
    bool with_delays = variant->with_delays;
    state = seed;
    fault_config_t faults = {
        .seed = seed, .delay_ns_max = with_delays ? 40000 : 0, .not_ready_max = with_delays ? 3 : 0};
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, fault_backend_wrap(dao_backend_ops(), &faults)), DAO_OK);
    capacity_bytes = 256 * (SIZE_MAX_UNITS + (size_t)below(SIZE_MAX_UNITS * TENSOR_COUNT / 3));
    dao_executor_config_t executor_config = {
        .capacity_bytes = capacity_bytes,
        .queue_kernels = 1 + (uint32_t)below(64),
        .policy = (dao_policy_t)below(DAO_POLICY_USER + 1),
        .score = by_id,
        .in_flight_ns = below(3) == 0 ? 1 + below(100000) : 0,
        .check = TEST_WALKS,
        .stream_count = variant->with_streams ? DAO_EXECUTOR_STREAM_COUNT_MAX : 0,
    };
    stream_count = executor_config.stream_count;
    if (variant->with_streams) {
        make_streams();
        executor_config.streams = given;
    }
    if (variant->with_file) {
        executor_config.host_bytes = 256 * (1 + (size_t)below(SIZE_MAX_UNITS * 4));
        executor_config.file = (dao_file_config_t){.directory = "/tmp",
                                                   .engine = (dao_file_engine_t)below(3),
                                                   .latency_ns = with_delays ? below(20000) : 0};
    }
    dao_executor_t *executor = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&executor_config, &executor), DAO_OK);
    program_init(&program, executor);
    memset(is_written, 0, sizeof(is_written));
    memset(pin_counts, 0, sizeof(pin_counts));
    free_bytes = capacity_bytes;
    has_sources = variant->with_sources;
    for (int i = 0; i < TENSOR_COUNT; i++) {
        make_tensor();
    }
    for (int i = 0; i < KERNEL_COUNT; i++) {
        take_random_action();
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(program.open_count, 0);
    if (variant->with_streams) {
        destroy_streams();
    }
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
}

static uint64_t program_count(void)
{
    return dao_test_is_again() ? TEST_ROUNDS(6) : TEST_ROUNDS(24);
}

static void run_programs(const char *name, uint64_t fallback, const variant_t *variant)
{
    uint64_t seed = dao_test_seed(name, fallback);
    for (uint64_t i = 0; i < program_count(); i++) {
        unsigned failures = CU_get_number_of_failures();
        run_program(seed + i, variant);
        if (CU_get_number_of_failures() != failures) {
            (void)printf("    failed with seed %" PRIu64 "\n", seed + i);
            return;
        }
    }
}

static void every_read_sees_the_version_before_it(void)
{
    run_programs("random programs", 1000, &(variant_t){.with_delays = false});
}

static void delays_change_nothing(void)
{
    run_programs("random programs with delays", 2000, &(variant_t){.with_delays = true});
}

static void a_file_behind_the_host_changes_nothing(void)
{
    run_programs("random programs with a file", 3000, &(variant_t){.with_file = true});
    run_programs("random programs with a file and delays", 4000,
                 &(variant_t){.with_delays = true, .with_file = true});
}

static void sources_change_nothing(void)
{
    run_programs("random programs with sources", 5000, &(variant_t){.with_sources = true});
    run_programs("random programs with sources, a file and delays", 6000,
                 &(variant_t){.with_delays = true, .with_file = true, .with_sources = true});
}

/* What two kernels share keeps its order, whichever streams they are on, and whatever moves meanwhile. */
static void streams_change_nothing(void)
{
    run_programs("random programs with streams", 7000, &(variant_t){.with_streams = true});
    run_programs("random programs with streams and delays", 8000,
                 &(variant_t){.with_streams = true, .with_delays = true});
    run_programs(
        "random programs with streams, delays, sources and a file", 9000,
        &(variant_t){.with_streams = true, .with_delays = true, .with_file = true, .with_sources = true});
}

/* ---- planned steps ---- */

/* A step of random kernels on all streams, that is the same again and again. */
typedef struct planned_step {
    program_kernel_t kernels[PLANNED_KERNELS];
    uint32_t streams[PLANNED_KERNELS];
} planned_step_t;

static void make_planned_step(planned_step_t *step)
{
    dao_command_list_t *list = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(program.executor, &list), DAO_OK);
    for (uint32_t tensor = 0; tensor < program.tensor_count; tensor++) {
        CU_ASSERT_EQUAL(program_write(&program, tensor), DAO_OK);
        is_written[tensor] = true;
    }
    for (int k = 0; k < PLANNED_KERNELS; k++) {
        step->kernels[k] = random_kernel();
        step->streams[k] = program.stream_index;
        CU_ASSERT_EQUAL(program_list_push(&program, list, &step->kernels[k]), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_command_list_plan(list, 1), DAO_OK);
    dao_command_list_destroy(list);
}

/* Returns how many steps followed their plan. */
static uint64_t run_planned_steps(uint64_t seed, bool with_delays)
{
    planned_step_t step;
    fault_config_t faults = {
        .seed = seed, .delay_ns_max = with_delays ? 40000 : 0, .not_ready_max = with_delays ? 3 : 0};
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    dao_executor_t *executor = NULL;
    state = seed;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, fault_backend_wrap(dao_backend_ops(), &faults)), DAO_OK);
    free_bytes = 256 * (SIZE_MAX_UNITS + (size_t)below(SIZE_MAX_UNITS * TENSOR_COUNT / 3));
    stream_count = DAO_EXECUTOR_STREAM_COUNT_MAX;
    dao_executor_config_t executor_config = {
        .capacity_bytes = free_bytes, .stream_count = stream_count, .check = TEST_WALKS};
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&executor_config, &executor), DAO_OK);
    executor->engine.config.keeps_plans = true; /* nothing was pushed yet */
    program_init(&program, executor);
    has_sources = false;
    for (int i = 0; i < TENSOR_COUNT; i++) {
        make_tensor();
    }
    make_planned_step(&step);
    CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
    for (int s = 0; s < PLANNED_STEPS; s++) {
        for (int k = 0; k < PLANNED_KERNELS; k++) {
            program.stream_index = step.streams[k];
            CU_ASSERT_EQUAL(program_push(&program, &step.kernels[k]), DAO_OK);
        }
        CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    uint64_t hit_count = program_stats(&program).plan_hit_count;
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(program.open_count, 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
    return hit_count;
}

static void plans_of_several_streams_change_nothing(void)
{
    uint64_t seed = dao_test_seed("planned steps on all streams", 10000), hit_count = 0;
    for (uint64_t i = 0; i < 2 * program_count(); i++) {
        unsigned failures = CU_get_number_of_failures();
        hit_count += run_planned_steps(seed + i, i % 2 != 0);
        if (CU_get_number_of_failures() != failures) {
            (void)printf("    failed with seed %" PRIu64 "\n", seed + i);
            return;
        }
    }
    CU_ASSERT_TRUE(hit_count > program_count());
}

static CU_TestInfo tests[] = {
    {"plans of several streams change nothing", plans_of_several_streams_change_nothing},
    {"every read sees the version before it", every_read_sees_the_version_before_it},
    {"delays change nothing", delays_change_nothing},
    {"a file behind the host changes nothing", a_file_behind_the_host_changes_nothing},
    {"sources change nothing", sources_change_nothing},
    {"streams change nothing", streams_change_nothing},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"random programs", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
