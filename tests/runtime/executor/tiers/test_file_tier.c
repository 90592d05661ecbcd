/* SPDX-License-Identifier: Apache-2.0 */
/* A file behind pinned host memory: tensors go on to it and come back with every byte, on both engines; a
   disk that is full, transfers that come back short and reads that fail lose nothing; time in virtual time is
   what the settings say. */
#include "backends/sim/sim.h"
#include "base/report/fault.h"
#include "runtime/executor/executor_internal.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/program.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define UNIT (64 * KIB)

/* Time of an operation that is to be under way when something else happens. */
#define SLOW_NS UINT64_C(50000000)

#define R  DAO_ACCESS_READ
#define W  DAO_ACCESS_WRITE
#define RW DAO_ACCESS_READ_WRITE

/* Most calls that one scenario makes; a loop that goes on longer has a bug. */
#define CALL_COUNT_MAX 3000

/* From a call that fails to the next one that does: test_executor_faults.c takes more of them. */
enum { CALL_STEP = 4 * TEST_CALL_STEP };

static dao_executor_t *executor;
static program_t program;

static const char *directory(void)
{
    return getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
}

static dao_executor_config_t config_of(size_t device_units, size_t host_bytes, dao_file_engine_t engine)
{
    return (dao_executor_config_t){.capacity_bytes = device_units * UNIT,
                                   .host_bytes = host_bytes,
                                   .file = {.directory = directory(), .engine = engine},
                                   .check = true};
}

static void start_context_with(const fault_config_t *faults)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, fault_backend_wrap(dao_backend_ops(), faults)), DAO_OK);
}

static void start_context(void)
{
    static const fault_config_t quiet;
    start_context_with(&quiet);
}

static void begin(const dao_executor_config_t *config)
{
    start_context();
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(config, &executor), DAO_OK);
    program_init(&program, executor);
}

static void end_context(void)
{
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
    CU_ASSERT_EQUAL(dao_used(dao_pinned_place(0)), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
}

static void end(void)
{
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).live_tensor_count, 0);
    CU_ASSERT_EQUAL(program_stats(&program).file_used_bytes, 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    end_context();
}

static void push(const char *name, uint32_t tensor, dao_access_t access)
{
    CU_ASSERT_EQUAL(program_push(&program, &(program_kernel_t){name, 1, {tensor}, {access}, 0, DAO_OK}),
                    DAO_OK);
}

static void make(uint32_t count, size_t size_bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t tensor = program_tensor(&program, size_bytes);
        CU_ASSERT_NOT_EQUAL_FATAL(tensor, UINT32_MAX);
        push("make", tensor, W);
    }
}

static void read_all(void)
{
    for (uint32_t i = 0; i < program.tensor_count; i++) {
        push("read", i, R);
    }
}

/* ---- what goes and comes ---- */

static void on_both_engines(void (*test)(dao_file_engine_t engine))
{
    test(DAO_FILE_ENGINE_THREADS);
    start_context();
    dao_executor_config_t config = config_of(4, UNIT, DAO_FILE_ENGINE_URING);
    dao_status_t status = dao_executor_create(&config, &executor);
    if (status == DAO_OK) {
        CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    }
    end_context();
    if (status == DAO_ERR_UNSUPPORTED) {
        (void)printf("    without io_uring\n");
        return;
    }
    CU_ASSERT_EQUAL(status, DAO_OK);
    test(DAO_FILE_ENGINE_URING);
}

static void go_and_come_back(dao_file_engine_t engine)
{
    dao_executor_config_t config = config_of(3, 3 * UNIT, engine);
    begin(&config);
    make(16, UNIT);
    read_all();
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    dao_executor_stats_t stats = program_stats(&program);
    CU_ASSERT_TRUE(stats.file_write_count >= 10); /* 16, less what device and host hold */
    CU_ASSERT_TRUE(stats.file_fetch_count > 0);
    CU_ASSERT_EQUAL(stats.file_out_bytes, stats.file_write_count * UNIT);
    CU_ASSERT_EQUAL(stats.file_in_bytes, stats.file_fetch_count * UNIT);
    CU_ASSERT_TRUE(stats.peak_host_used_bytes <= 3 * UNIT);
    CU_ASSERT_TRUE(stats.file_used_bytes > 0 && stats.file_used_bytes <= stats.peak_file_used_bytes);
    CU_ASSERT_EQUAL(stats.file_failure_count, 0);
    for (uint32_t i = 0; i < 16; i++) {
        push("change", i, RW); /* what the file has is not the content any more */
    }
    read_all();
    end();
}

static void tensors_go_on_to_the_file_and_come_back(void)
{
    on_both_engines(go_and_come_back);
}

/* The host's limit is less than any of them, and each is several pinned pieces long. */
static void go_through_the_pieces(dao_file_engine_t engine)
{
    dao_executor_config_t config = config_of(40, 1000, engine);
    begin(&config);
    make(6, 17 * UNIT + 333);
    read_all();
    for (uint32_t i = 0; i < 6; i++) {
        push("change", i, RW);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_TRUE(program_stats(&program).file_write_count >= 4);
    CU_ASSERT_EQUAL(program_stats(&program).peak_host_used_bytes, 0);
    end();
}

static void tensors_larger_than_the_host_go_through_pinned_pieces(void)
{
    on_both_engines(go_through_the_pieces);
}

static void what_the_file_has_is_not_written_again(void)
{
    dao_executor_config_t config = config_of(2, 2 * UNIT, DAO_FILE_ENGINE_AUTO);
    begin(&config);
    make(10, UNIT);
    for (int round = 0; round < 3; round++) {
        read_all();
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    dao_executor_stats_t before = program_stats(&program);
    for (int round = 0; round < 3; round++) {
        read_all();
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_TRUE(before.file_write_count <= 12);
    CU_ASSERT_EQUAL(program_stats(&program).file_out_bytes, before.file_out_bytes);
    CU_ASSERT_TRUE(program_stats(&program).file_in_bytes > before.file_in_bytes);
    end();
}

/* What the program itself writes and reads, while kernels have nothing to do with it. */
static void the_program_writes_and_reads_beyond_the_host(void)
{
    dao_executor_config_t config = config_of(2, 2 * UNIT, DAO_FILE_ENGINE_AUTO);
    begin(&config);
    for (uint32_t i = 0; i < 12; i++) {
        CU_ASSERT_NOT_EQUAL_FATAL(program_tensor(&program, UNIT - i), UINT32_MAX);
        CU_ASSERT_EQUAL(program_write(&program, i), DAO_OK);
    }
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    CU_ASSERT_TRUE(program_stats(&program).file_write_count >= 8);
    for (uint32_t i = 0; i < 12; i++) {
        CU_ASSERT_EQUAL(program_write(&program, i), DAO_OK);
    }
    end();
}

/* ---- what goes wrong ---- */

#if defined(DAO_FAULTS)
/* Writes fail for good: kernels are refused with the reason, what there was is there, and it goes on once
   there is room. */
static void a_full_disk_loses_nothing(void)
{
    dao_executor_config_t config = config_of(3, 3 * UNIT, DAO_FILE_ENGINE_AUTO);
    begin(&config);
    make(5, UNIT);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    dao_fault_arm(DAO_FAULT_FILE_WRITE, 0, true);
    make(6, UNIT);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_HOST_FULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "No space left on device"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), directory()));
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_TRUE(program_stats(&program).file_failure_count > 0);
    CU_ASSERT_TRUE(dao_fault_disarm() > 0);
    make(6, UNIT);
    end();
}
#endif

static void a_file_that_may_not_grow_loses_nothing(void)
{
    for (int engine = DAO_FILE_ENGINE_AUTO; engine <= DAO_FILE_ENGINE_THREADS; engine += 2) {
        dao_executor_config_t config = config_of(3, 3 * UNIT, (dao_file_engine_t)engine);
        begin(&config);
        struct rlimit unlimited;
        CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
        struct rlimit limit = {2 * UNIT + UNIT / 2, unlimited.rlim_max};
        CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
        make(12, UNIT);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_HOST_FULL);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "File too large"));
        CU_ASSERT_EQUAL(program_count_lost(&program), 0);
        CU_ASSERT_EQUAL(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        make(6, UNIT);
        end();
    }
}

/* Where all fits: once the first two have come back to the device, the file need not keep them. */
static void a_full_file_gives_up_what_the_device_has(void)
{
    dao_executor_config_t config = config_of(2, 2 * UNIT, DAO_FILE_ENGINE_AUTO);
    config.file.limit_bytes = 3 * UNIT;
    begin(&config);
    make(6, UNIT); /* two on the device, two on the host, two in the file */
    for (uint32_t i = 0; i < 6; i += 2) {
        program_kernel_t both = {"both", 2, {i, i + 1}, {R, R}, 0, DAO_OK};
        CU_ASSERT_EQUAL(program_push(&program, &both), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    }
    CU_ASSERT_TRUE(program_stats(&program).peak_file_used_bytes <= 3 * UNIT);
    end();
}

static void the_limit_of_the_file_holds(void)
{
    dao_executor_config_t config = config_of(2, 2 * UNIT, DAO_FILE_ENGINE_AUTO);
    config.file.limit_bytes = 3 * UNIT;
    begin(&config);
    make(12, UNIT);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_HOST_FULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "raise its limit"));
    CU_ASSERT_TRUE(program_stats(&program).peak_file_used_bytes <= 3 * UNIT);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    for (uint32_t i = 0; i < 5; i++) {
        program_drop(&program, i); /* so that there is room again */
    }
    make(3, UNIT);
    end();
}

#if defined(DAO_FAULTS)
static void short_transfers_change_nothing(void)
{
    for (uint64_t skip = 0; skip < 3; skip++) {
        dao_executor_config_t config = config_of(3, 2 * UNIT, (dao_file_engine_t)(skip % 3));
        begin(&config);
        dao_fault_arm(DAO_FAULT_FILE_SHORT, skip, true);
        make(10, UNIT);
        read_all();
        end();
        CU_ASSERT_TRUE(dao_fault_disarm() > 0);
    }
}

/* Reads fail for a while: the kernel that needs one is refused by name, all else is as it was, and later the
   bytes come. */
static void a_read_that_fails_concerns_its_tensor_alone(void)
{
    dao_executor_config_t config = config_of(2, 2 * UNIT, DAO_FILE_ENGINE_AUTO);
    begin(&config);
    make(9, UNIT);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    dao_fault_arm(DAO_FAULT_FILE_READ, 0, true);
    push("first", 0, RW); /* the one that was made first has left first */
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "tensor 0"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "Input/output error"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "kernel \"first\""));
    push("other", 8, R);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_read(&program, 0), DAO_ERR_IO);
    CU_ASSERT_EQUAL(program_read(&program, 8), DAO_OK);
    CU_ASSERT_EQUAL(program_write(&program, 1), DAO_OK); /* to write one anew needs no read */
    CU_ASSERT_EQUAL(program_read(&program, 1), DAO_OK);
    CU_ASSERT_TRUE(dao_fault_disarm() > 0);
    push("again", 0, RW);
    end();
}
#endif

/* ---- the n-th call fails ---- */

static void run_scenario(void)
{
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t tensor = program_tensor(&program, i == 5 ? 3 * UNIT : UNIT);
        if (tensor == UINT32_MAX) {
            return;
        }
        (void)program_push(&program, &(program_kernel_t){"make", 1, {tensor}, {W}, 0, DAO_OK});
    }
    for (uint32_t i = 0; i < 8; i++) {
        (void)program_push(&program, &(program_kernel_t){"use", 2, {i, (i + 2) % 8}, {R, RW}, 0, DAO_OK});
    }
    (void)program_read(&program, 0);
}

static void arm(bool is_backend, uint64_t n, bool persistent)
{
    if (is_backend) {
        fault_backend_arm(FAULT_CALL_ANY, n, persistent);
    } else {
        dao_fault_arm(DAO_FAULT_ANY, n, persistent);
    }
}

/* Returns the number of calls that failed. */
static uint64_t run_once(bool is_backend, uint64_t n, bool persistent)
{
    dao_executor_config_t config = config_of(5, 2 * UNIT, DAO_FILE_ENGINE_AUTO);
    start_context();
    arm(is_backend, n, persistent);
    dao_status_t status = dao_executor_create(&config, &executor);
    if (status == DAO_OK) {
        program_init(&program, executor);
        run_scenario();
        status = dao_executor_sync(executor);
        uint64_t fired = is_backend ? fault_backend_disarm() : dao_fault_disarm();
        CU_ASSERT_TRUE(fired > 0 || status == DAO_OK);
        CU_ASSERT_TRUE(dao_executor_sync(executor) == DAO_OK);
        end();
        return fired;
    }
    uint64_t fired = is_backend ? fault_backend_disarm() : dao_fault_disarm();
    CU_ASSERT_TRUE(fired > 0);
    end_context();
    return fired;
}

static void no_failing_call_loses_a_tensor(void)
{
    for (int source = 0; source < 2; source++) {
        for (int persistent = 0; persistent < 2; persistent++) {
            unsigned failures = CU_get_number_of_failures();
            uint64_t n = 0;
            while (n < CALL_COUNT_MAX && run_once(source == 0, n, persistent != 0) > 0) {
                if (CU_get_number_of_failures() != failures) {
                    (void)printf("    %s call %" PRIu64 "%s\n", source == 0 ? "backend" : "system", n,
                                 persistent != 0 ? " and all after it" : "");
                    return;
                }
                n += CALL_STEP;
            }
            CU_ASSERT_TRUE(n < CALL_COUNT_MAX);
        }
    }
}

/* After the loss of the device tensors in the file can still be read. */
static void the_file_outlives_the_device(void)
{
    dao_executor_config_t config = config_of(2, 2 * UNIT, DAO_FILE_ENGINE_AUTO);
    begin(&config);
    make(10, UNIT);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    fault_backend_arm(FAULT_CALL_LOSS, 0, true);
    push("lost", 9, RW);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_DEVICE_LOST);
    uint32_t read_count = 0;
    for (uint32_t i = 0; i < 10; i++) {
        dao_status_t status = program_read(&program, i);
        CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_DEVICE_LOST);
        read_count += status == DAO_OK ? 1 : 0;
    }
    CU_ASSERT_TRUE(read_count >= 7); /* the device held two, perhaps three are written to */
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_ERR_DEVICE_LOST);
    (void)fault_backend_disarm();
    program_drop_all(&program);
    end_context();
}

/* A lost device that cannot be waited for still calls what its streams were given: nothing of it is touched
   then. */
static void a_lost_device_that_runs_on_touches_nothing(void)
{
    static const fault_config_t faults = {.runs_on_when_lost = true};
    dao_executor_config_t config = config_of(2, 6 * UNIT, DAO_FILE_ENGINE_AUTO);
    config.file.latency_ns = SLOW_NS;
    start_context_with(&faults);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK);
    program_init(&program, executor);
    make(8, UNIT); /* the host is full: writes have begun that are not waited for */
    CU_ASSERT_EQUAL(program_read(&program, 7), DAO_OK);
    CU_ASSERT_TRUE(program_stats(&program).file_write_count > 0);
    fault_backend_arm(FAULT_CALL_LOSS, 0, true);
    push("lost", 7, RW);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_ERR_DEVICE_LOST);
    (void)fault_backend_disarm();
    program_drop_all(&program);
    end_context(); /* where an operation has kept its tensor, memory is left */
}

static void settings_are_checked(void)
{
    start_context();
    dao_executor_config_t config = config_of(2, UNIT, DAO_FILE_ENGINE_AUTO);
    config.file.directory = "/nowhere/at/all";
    CU_ASSERT_EQUAL(dao_executor_create(&config, &executor), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "/nowhere/at/all"));
    config.file = (dao_file_config_t){.limit_bytes = 1};
    CU_ASSERT_EQUAL(dao_executor_create(&config, &executor), DAO_ERR_INVALID);
    config.file = (dao_file_config_t){.out_bytes_per_second = 1};
    CU_ASSERT_EQUAL(dao_executor_create(&config, &executor), DAO_ERR_INVALID);
    config.file = (dao_file_config_t){.directory = directory(), .engine = (dao_file_engine_t)3};
    CU_ASSERT_EQUAL(dao_executor_create(&config, &executor), DAO_ERR_INVALID);
    config.file = (dao_file_config_t){.directory = directory(), .limit_bytes = 100};
    CU_ASSERT_EQUAL(dao_executor_create(&config, &executor), DAO_ERR_IO);
    end_context();
}

/* ---- virtual time ---- */

/* Two tensors of a mebibyte, room for one of them on the device and none on the host: the first is written to
   the file at two nanoseconds a byte, as the second comes, and then read at one. */
static void virtual_time_is_what_the_settings_say(void)
{
    for (int has_bytes = 0; has_bytes < 2; has_bytes++) {
        dao_config_t sim = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
        CU_ASSERT_EQUAL_FATAL(
            dao_context_start(&sim, has_bytes != 0 ? &dao_sim_bytes_backend_ops : &dao_sim_backend_ops),
            DAO_OK);
        dao_executor_config_t config = {.capacity_bytes = MIB,
                                        .host_bytes = 1000,
                                        .file = {.directory = directory(),
                                                 .in_bytes_per_second = 1000000000,
                                                 .out_bytes_per_second = 500000000,
                                                 .latency_ns = 1000},
                                        .check = true};
        CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(&config, &executor), DAO_OK);
        dao_managed_t *tensors[2];
        char *bytes = calloc(1, MIB);
        CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
        for (int i = 0; i < 2; i++) {
            dao_managed_config_t settings = {.size_bytes = MIB};
            CU_ASSERT_EQUAL_FATAL(dao_managed_create(executor, &settings, &tensors[i]), DAO_OK);
            memset(bytes, i + 1, MIB);
            CU_ASSERT_EQUAL(dao_managed_write(tensors[i], bytes, MIB),
                            DAO_OK); /* the second makes the first leave */
        }
        uint64_t pieces = MIB / (64 * KIB); /* a sixteenth of the device each */
        dao_backend_device_t *device = executor->runtime->device;
        CU_ASSERT_EQUAL(dao_sim_now_ns(device), 2 * MIB + pieces * 1000);
        CU_ASSERT_EQUAL(dao_managed_read(tensors[0], bytes, MIB), DAO_OK); /* in one piece, to the program */
        CU_ASSERT_EQUAL(dao_sim_now_ns(device), 2 * MIB + pieces * 1000 + MIB + 1000);
        CU_ASSERT_TRUE(has_bytes == 0 || (bytes[0] == 1 && bytes[MIB - 1] == 1));
        for (int i = 0; i < 2; i++) {
            CU_ASSERT_EQUAL(dao_managed_release(tensors[i]), DAO_OK);
        }
        free(bytes);
        CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
        CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    }
}

/* A share of small arenas, at most 16 MiB where a larger share is no more, up to 64 MiB. */
static void pieces_grow_with_the_arena(void)
{
    const uint64_t mib = MIB, gib = 1024 * mib;
    CU_ASSERT_EQUAL(dao_file_tier_piece_bytes(0), DAO_FILE_STAGING_BYTES_MIN);
    CU_ASSERT_EQUAL(dao_file_tier_piece_bytes(mib), mib / 16);
    CU_ASSERT_EQUAL(dao_file_tier_piece_bytes(gib), 16 * mib);
    CU_ASSERT_EQUAL(dao_file_tier_piece_bytes(4 * gib), 16 * mib);
    CU_ASSERT_EQUAL(dao_file_tier_piece_bytes(8 * gib), 32 * mib);
    CU_ASSERT_EQUAL(dao_file_tier_piece_bytes(80 * gib), 64 * mib);
}

/* In whole granules, and no more than a range has, however large the file system is. */
static void slots_are_what_a_range_has(void)
{
    const uint64_t most_bytes = DAO_RANGE_CAPACITY_MAX;
    CU_ASSERT_EQUAL(dao_file_tier_slot_bytes(0), 0);
    CU_ASSERT_EQUAL(dao_file_tier_slot_bytes(DAO_RANGE_GRANULE - 1), 0);
    CU_ASSERT_EQUAL(dao_file_tier_slot_bytes(2 * DAO_RANGE_GRANULE - 1), DAO_RANGE_GRANULE);
    CU_ASSERT_EQUAL(dao_file_tier_slot_bytes(most_bytes - 1), most_bytes - DAO_RANGE_GRANULE);
    CU_ASSERT_EQUAL(dao_file_tier_slot_bytes(most_bytes + DAO_RANGE_GRANULE), most_bytes);
    CU_ASSERT_EQUAL(dao_file_tier_slot_bytes(UINT64_MAX), most_bytes);
}

static CU_TestInfo tests[] = {
    {"slots are what a range has", slots_are_what_a_range_has},
    {"pieces grow with the arena", pieces_grow_with_the_arena},
    {"tensors go on to the file and come back", tensors_go_on_to_the_file_and_come_back},
    {"tensors larger than the host go through pinned pieces",
     tensors_larger_than_the_host_go_through_pinned_pieces},
    {"what the file has is not written again", what_the_file_has_is_not_written_again},
    {"the program writes and reads beyond the host", the_program_writes_and_reads_beyond_the_host},
#if defined(DAO_FAULTS)
    {"a full disk loses nothing", a_full_disk_loses_nothing},
#endif
    {"a file that may not grow loses nothing", a_file_that_may_not_grow_loses_nothing},
    {"a full file gives up what the device has", a_full_file_gives_up_what_the_device_has},
    {"the limit of the file holds", the_limit_of_the_file_holds},
#if defined(DAO_FAULTS)
    {"short transfers change nothing", short_transfers_change_nothing},
    {"a read that fails concerns its tensor alone", a_read_that_fails_concerns_its_tensor_alone},
#endif
    {"no failing call loses a tensor", no_failing_call_loses_a_tensor},
    {"the file outlives the device", the_file_outlives_the_device},
    {"a lost device that runs on touches nothing", a_lost_device_that_runs_on_touches_nothing},
    {"settings are checked", settings_are_checked},
    {"virtual time is what the settings say", virtual_time_is_what_the_settings_say},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"the file tier", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
