/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that are made of a source: what moves, what is refused, and that a source that cannot be read costs
   a kernel and nothing else. */
#define _GNU_SOURCE
#include "backends/sim/sim.h"
#include "base/report/fault.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/start/context.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/program.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WEIGHTS = 8,
    UNIT = 16 * 1024,  /* bytes of one, but for a few */
    GAP = 1000,        /* between them, and before the first */
    LINK = 1000000000, /* bytes a second in virtual time */
    CONTENT_BYTES = GAP + WEIGHTS * (UNIT + GAP),
};

static dao_executor_t *executor;
static program_t program;
static char path[256];
static unsigned char content[CONTENT_BYTES]; /* of the file */
static _Atomic int drop_count;

static size_t size_of(uint32_t weight)
{
    return UNIT - 3 * weight;
}

static uint64_t offset_of(uint32_t weight)
{
    return GAP + (uint64_t)weight * (UNIT + GAP);
}

static const char *temporary(void)
{
    return getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
}

/* What tensors 0 .. WEIGHTS - 1 of a program are made of. */
static void make_content(void)
{
    program_init(&program, NULL);
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        program.tensor_count = i;
        unsigned char *bytes = program_content(&program, size_of(i));
        CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
        if (bytes != NULL) {
            memcpy(content + offset_of(i), bytes, size_of(i));
        }
        free(bytes);
    }
}

/* Writes the first bytes of the content to the file. */
static void write_file(size_t size_bytes)
{
    FILE *file = fopen(path, "wbe");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(content, 1, size_bytes, file), size_bytes);
    CU_ASSERT_EQUAL(fclose(file), 0);
}

static void note_drop(void *user)
{
    CU_ASSERT_PTR_EQUAL(user, &drop_count);
    drop_count++;
}

static dao_executor_config_t small(void)
{
    return (dao_executor_config_t){.capacity_bytes = (size_t)4 * UNIT, .check = true};
}

static void begin(const dao_backend_ops_t *ops, const dao_executor_config_t *config, bool is_still)
{
    dao_config_t cpu = {.cpu = {.device_count = 1,
                                .device_bytes = 64 * MIB,
                                .h2d_bytes_per_second = ops == &dao_sim_bytes_backend_ops ? LINK : 0,
                                .d2h_bytes_per_second = ops == &dao_sim_bytes_backend_ops ? LINK : 0}};
    make_content();
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&cpu, ops), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(is_still ? dao_executor_create_still(config, &executor)
                                   : dao_executor_create(config, &executor),
                          DAO_OK);
    program_init(&program, executor);
    (void)snprintf(path, sizeof(path), "%s/dao-weights-XXXXXX", temporary());
    int file = mkstemp(path);
    CU_ASSERT_TRUE_FATAL(file >= 0);
    CU_ASSERT_EQUAL(close(file), 0);
    write_file(CONTENT_BYTES);
    drop_count = 0;
}

static void end(void)
{
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).live_tensor_count, 0);
    CU_ASSERT_EQUAL(program_stats(&program).device_used_bytes, 0);
    CU_ASSERT_EQUAL(program_stats(&program).file_used_bytes, 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    CU_ASSERT_EQUAL(program.open_count, 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(unlink(path), 0);
}

/* Makes the weights of a source, which it releases. */
static void make_weights(dao_source_t *source)
{
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        CU_ASSERT_EQUAL_FATAL(program_tensor_from(&program, size_of(i), source, offset_of(i)), i);
    }
    CU_ASSERT_EQUAL(dao_source_release(source), DAO_OK);
}

static void make_weights_of_file(dao_source_cache_t cache)
{
    dao_source_t *source = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_source_open(path, cache, &source), DAO_OK);
    make_weights(source);
}

static void make_weights_of_memory(void)
{
    dao_source_t *source = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_source_adopt(content, CONTENT_BYTES, note_drop, &drop_count, &source), DAO_OK);
    make_weights(source);
}

/* A kernel that reads a weight and changes a tensor, or writes it where it has no content. */
static dao_status_t use(uint32_t weight, uint32_t activation)
{
    bool is_new = activation == UINT32_MAX;
    program_kernel_t kernel = {.name = "layer",
                               .operand_count = is_new ? 1 : 2,
                               .tensors = {weight, activation},
                               .accesses = {DAO_ACCESS_READ, DAO_ACCESS_READ_WRITE}};
    return program_push(&program, &kernel);
}

static void pass(uint32_t activation)
{
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        CU_ASSERT_EQUAL(use(i, activation), DAO_OK);
    }
}

/* Three passes over weights of which four fit: they come from the source each time and leave for nowhere. */
static void pass_thrice(void)
{
    for (int i = 0; i < 3; i++) {
        pass(UINT32_MAX);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    dao_executor_stats_t stats = program_stats(&program);
    CU_ASSERT_EQUAL(program.read_count, 3 * WEIGHTS);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    CU_ASSERT_TRUE(stats.eviction_count >= WEIGHTS);
    CU_ASSERT_EQUAL(stats.clean_eviction_count, stats.eviction_count);
    CU_ASSERT_EQUAL(stats.out_bytes, 0);
    CU_ASSERT_EQUAL(stats.peak_host_used_bytes, 0);
    CU_ASSERT_EQUAL(stats.file_write_count, 0);
    CU_ASSERT_EQUAL(stats.file_fetch_count, stats.fetch_count);
    CU_ASSERT_EQUAL(stats.in_bytes, stats.file_in_bytes);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
}

static void weights_come_from_their_file_and_leave_for_nowhere(void)
{
    static const dao_source_cache_t caches[] = {DAO_SOURCE_CACHE_USE, DAO_SOURCE_CACHE_BYPASS};
    for (size_t i = 0; i < 2; i++) {
        dao_executor_config_t config = small();
        begin(dao_backend_ops(), &config, false);
        make_weights_of_file(caches[i]);
        CU_ASSERT_EQUAL(unlink(path), 0); /* it is open */
        pass_thrice();
        write_file(CONTENT_BYTES);
        end();
    }
}

static void weights_come_from_memory_that_is_given_back_once(void)
{
    dao_executor_config_t config = small();
    begin(dao_backend_ops(), &config, false);
    make_weights_of_memory();
    pass_thrice();
    CU_ASSERT_EQUAL(drop_count, 0);
    end();
    CU_ASSERT_EQUAL(drop_count, 1);
}

/* What only reads has neither pinned pieces nor streams to write with. */
static void what_reads_sources_writes_nothing(void)
{
    dao_executor_config_t config = small();
    begin(dao_backend_ops(), &config, true);
    size_t before_bytes = dao_used(dao_pinned_place(0));
    make_weights_of_memory();
    const dao_file_tier_t *tier = &executor->engine.file_tier;
    size_t piece_bytes = tier->staging_bytes + 2 * DAO_SOURCE_BLOCK_BYTES;
    size_t pinned_bytes = dao_used(dao_pinned_place(0)) - before_bytes;
    CU_ASSERT_TRUE(pinned_bytes >= DAO_FILE_STAGING_COUNT * piece_bytes);
    CU_ASSERT_TRUE(pinned_bytes < 2 * DAO_FILE_STAGING_COUNT * piece_bytes);
    CU_ASSERT_PTR_NOT_NULL(executor->file_streams[DAO_FILE_READ]);
    CU_ASSERT_PTR_NOT_NULL(executor->staging_streams[DAO_FILE_READ]);
    CU_ASSERT_PTR_NULL(executor->file_streams[DAO_FILE_WRITE]);
    CU_ASSERT_PTR_NULL(executor->staging_streams[DAO_FILE_WRITE]);
    pass_thrice();
    end();
}

/* Of the pinned place, which has a limit: the call says so, and the next one tries again. */
static void pieces_beyond_a_limit_are_refused(void)
{
    dao_executor_config_t config = small();
    dao_source_t *source = NULL;
    begin(dao_backend_ops(), &config, false);
    CU_ASSERT_EQUAL(dao_limit_set(dao_pinned_place(0), 4096), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_source_adopt(content, CONTENT_BYTES, NULL, NULL, &source), DAO_OK);
    CU_ASSERT_EQUAL(program_tensor_from(&program, size_of(0), source, offset_of(0)), UINT32_MAX);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_limit_set(dao_pinned_place(0), 0), DAO_OK);
    make_weights(source);
    pass_thrice();
    end();
}

/* Beside tensors that go to the host and to a file of the executor's. */
static void sources_and_a_file_of_the_executors_share_its_streams(void)
{
    dao_executor_config_t config = small();
    config.host_bytes = UNIT;
    config.file = (dao_file_config_t){.directory = temporary(), .engine = DAO_FILE_ENGINE_THREADS};
    begin(dao_backend_ops(), &config, false);
    make_weights_of_file(DAO_SOURCE_CACHE_BYPASS);
    uint32_t activations[4];
    for (uint32_t i = 0; i < 4; i++) {
        activations[i] = program_tensor(&program, UNIT);
        CU_ASSERT_EQUAL(program_write(&program, activations[i]), DAO_OK);
    }
    for (uint32_t i = 0; i < 12; i++) {
        pass(activations[i % 4]);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_TRUE(program_stats(&program).file_write_count > 0);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

static void note_done(dao_status_t status, void *user)
{
    (void)status;
    (void)user;
    CU_FAIL("a write that was refused is done");
}

static void refuse_writes_of(dao_managed_t *tensor, size_t size_bytes)
{
    static unsigned char bytes[UNIT];
    dao_command_list_t *list = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_write(tensor, bytes, size_bytes), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), path));
    CU_ASSERT_EQUAL(dao_managed_write_part(tensor, 1, bytes, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_write_async(tensor, 0, bytes, 1, note_done, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_write(list, tensor, bytes, size_bytes), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_discard(list, tensor), DAO_ERR_INVALID);
    dao_command_list_destroy(list);
}

static void what_would_write_one_is_refused_before_anything_happens(void)
{
    dao_executor_config_t config = small();
    begin(dao_backend_ops(), &config, false);
    make_weights_of_file(DAO_SOURCE_CACHE_AUTO);
    for (int access = DAO_ACCESS_WRITE; access <= DAO_ACCESS_READ_WRITE; access++) {
        program_kernel_t kernel = {.name = "update",
                                   .operand_count = 2,
                                   .tensors = {1, 2},
                                   .accesses = {DAO_ACCESS_READ, (dao_access_t)access}};
        CU_ASSERT_EQUAL(program_push(&program, &kernel), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "kernel \"update\", operand 1"));
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), path));
    }
    dao_managed_t *view = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_managed_view(program.tensors[3].handle, 10, 100, &view), DAO_OK);
    refuse_writes_of(program.tensors[3].handle, size_of(3));
    refuse_writes_of(view, 100);
    unsigned char bytes[100];
    CU_ASSERT_EQUAL(dao_managed_read(view, bytes, 100), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(bytes, content + offset_of(3) + 10, 100), 0);
    CU_ASSERT_EQUAL(dao_managed_release(view), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).kernel_count, 0);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

static void what_does_not_lie_in_its_source_is_refused(void)
{
    dao_executor_config_t config = small();
    begin(dao_backend_ops(), &config, false);
    dao_source_t *source = NULL;
    dao_managed_t *tensor = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_source_open(path, DAO_SOURCE_CACHE_AUTO, &source), DAO_OK);
    dao_managed_config_t one = {.name = "w", .size_bytes = 10};
    CU_ASSERT_EQUAL(dao_managed_create_from(executor, &one, source, CONTENT_BYTES - 9, &tensor),
                    DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "tensor \"w\" of 10 bytes from byte"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), path));
    CU_ASSERT_EQUAL(dao_managed_create_from(executor, &one, source, UINT64_MAX, &tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_create_from(executor, &one, NULL, 0, &tensor), DAO_ERR_INVALID);
    dao_managed_config_t unnamed = {.size_bytes = 10};
    CU_ASSERT_EQUAL(dao_managed_create_from(executor, &unnamed, source, UINT64_MAX, &tensor),
                    DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "tensor \"(no name)\" of 10 bytes from byte"));
    CU_ASSERT_EQUAL(dao_managed_create_from(NULL, &one, source, 0, &tensor), DAO_ERR_INVALID);
    one.zero_first_touch = true;
    CU_ASSERT_EQUAL(dao_managed_create_from(executor, &one, source, 0, &tensor), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(tensor);
    CU_ASSERT_EQUAL(dao_source_release(source), DAO_OK);
    end();
}

/* A file that lost its end fails the kernel that needs it, and nothing else, until it is whole again. */
static void a_source_that_cannot_be_read_costs_a_kernel(void)
{
    dao_executor_config_t config = small();
    begin(dao_backend_ops(), &config, false);
    make_weights_of_file(DAO_SOURCE_CACHE_AUTO);
    write_file((size_t)offset_of(5));
    CU_ASSERT_EQUAL(use(2, UINT32_MAX), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(use(5, UINT32_MAX), DAO_OK);
    CU_ASSERT_EQUAL(use(1, UINT32_MAX), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_IO);
    char message[1024];
    (void)snprintf(message, sizeof(message), "%s", dao_last_message());
    CU_ASSERT_PTR_NOT_NULL(strstr(message, "kernel \"layer\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(message, path));
    CU_ASSERT_PTR_NOT_NULL(strstr(message, "the source had"));
    unsigned char byte;
    CU_ASSERT_EQUAL(dao_managed_read_part(program.tensors[6].handle, 5, &byte, 1), DAO_ERR_IO);
    CU_ASSERT_EQUAL(dao_managed_read_part(program.tensors[4].handle, 5, &byte, 1), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).skipped_count, 1);
    write_file(CONTENT_BYTES); /* the same file, whole again */
    pass(UINT32_MAX);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

#if defined(DAO_FAULTS)
/* A read of the program's is tried again as one for a kernel is, on the device or not. */
static void a_read_that_fails_once_is_not_noticed(void)
{
    dao_executor_config_t config = small();
    begin(dao_backend_ops(), &config, true);
    make_weights_of_file(DAO_SOURCE_CACHE_USE);
    for (uint64_t failures = 1; failures <= 2; failures++) {
        unsigned char byte = 0;
        dao_fault_arm(DAO_FAULT_FILE_READ, 0, failures == 2);
        CU_ASSERT_EQUAL(dao_managed_read_part(program.tensors[6].handle, 5, &byte, 1),
                        failures == 1 ? DAO_OK : DAO_ERR_IO);
        CU_ASSERT_EQUAL(dao_fault_disarm(), failures);
        CU_ASSERT_TRUE(failures == 2 || byte == content[offset_of(6) + 5]);
    }
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}
#endif

static dao_status_t launch_status;

/* A launch that makes a tensor of the source that it is given. */
static dao_status_t make_one_more(const dao_launch_t *launch, void *user)
{
    dao_managed_t *tensor = NULL;
    (void)launch;
    launch_status =
        dao_managed_create_from(executor, &(dao_managed_config_t){.size_bytes = 10}, user, 0, &tensor);
    CU_ASSERT_EQUAL(dao_managed_release(tensor), DAO_OK);
    return DAO_OK;
}

/* Only the first call for an executor waits for its thread. */
static void the_executors_thread_may_make_all_but_the_first(void)
{
    dao_executor_config_t config = small();
    dao_source_t *source = NULL;
    begin(dao_backend_ops(), &config, false);
    CU_ASSERT_EQUAL_FATAL(dao_source_adopt(content, CONTENT_BYTES, NULL, NULL, &source), DAO_OK);
    dao_kernel_t kernel = {.name = "make", .launch = make_one_more, .user = source};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(launch_status, DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(program_tensor_from(&program, size_of(0), source, offset_of(0)), 0);
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(launch_status, DAO_OK);
    CU_ASSERT_EQUAL(dao_source_release(source), DAO_OK);
    end();
}

static void a_pin_and_another_capacity_treat_them_as_others(void)
{
    dao_executor_config_t config = small();
    void *address = NULL;
    begin(dao_backend_ops(), &config, false);
    make_weights_of_memory();
    CU_ASSERT_EQUAL(dao_managed_pin(program.tensors[7].handle, &address), DAO_OK);
    CU_ASSERT_PTR_NOT_NULL(address);
    pass(UINT32_MAX);
    pass(UINT32_MAX);
    CU_ASSERT_EQUAL(dao_managed_unpin(program.tensors[7].handle), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, (size_t)2 * UNIT), DAO_OK);
    pass(UINT32_MAX);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&program).out_bytes, 0);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
}

static void handles_may_outlive_the_executor(void)
{
    dao_executor_config_t config = small();
    begin(dao_backend_ops(), &config, false);
    make_weights_of_memory();
    CU_ASSERT_EQUAL(use(0, UINT32_MAX), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(drop_count, 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(drop_count, 1);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(unlink(path), 0);
}

/* What reads sources belongs to the start of the library that the executor belongs to. */
static void the_library_may_be_started_anew_meanwhile(void)
{
    for (int is_started = 0; is_started < 2; is_started++) {
        dao_executor_config_t config = small();
        begin(dao_backend_ops(), &config, false);
        CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY); /* it is shut down, and the executor works on */
        if (is_started != 0) {
            CU_ASSERT_EQUAL(dao_init(&(dao_config_t){.cpu = {.device_count = 1, .device_bytes = 64 * MIB}}),
                            DAO_OK);
        }
        make_weights_of_memory();
        for (int i = 0; i < DAO_FILE_DIRECTION_COUNT; i++) {
            dao_stream_t *streams[] = {executor->file_streams[i], executor->staging_streams[i]};
            CU_ASSERT_TRUE(streams[0] == NULL || streams[0]->runtime == executor->runtime);
            CU_ASSERT_TRUE(streams[1] == NULL || streams[1]->runtime == executor->runtime);
        }
        pass(UINT32_MAX);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        CU_ASSERT_EQUAL(program_count_lost(&program), 0);
        if (is_started != 0) {
            CU_ASSERT_EQUAL(dao_finalize(), DAO_OK); /* nothing of this start is live */
        }
        program_drop_all(&program);
        CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
        CU_ASSERT_EQUAL(drop_count, 1);
        CU_ASSERT_EQUAL(unlink(path), 0);
    }
}

/* Once the device is lost the bytes are still where they came from. */
static void a_lost_device_leaves_the_source(void)
{
    dao_executor_config_t config = small();
    fault_config_t faults = {0};
    uint32_t before_count;
    begin(fault_backend_wrap(dao_backend_ops(), &faults), &config, false);
    make_weights_of_file(DAO_SOURCE_CACHE_AUTO);
    pass(UINT32_MAX);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    fault_backend_arm(FAULT_CALL_LOSS, 0, true);
    CU_ASSERT_EQUAL(use(0, UINT32_MAX), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    CU_ASSERT_EQUAL(program_count_wrong_after_loss(&program, &before_count), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_ERR_DEVICE_LOST);
    (void)fault_backend_disarm();
    (void)dao_finalize();
    CU_ASSERT_EQUAL(unlink(path), 0);
}

/* The n-th call of the backend fails: the tensors are not made, or a kernel is refused; all goes on then. */
static bool run_with_fault(uint64_t n)
{
    dao_executor_config_t config = small();
    fault_config_t faults = {0};
    dao_source_t *source = NULL;
    begin(fault_backend_wrap(dao_backend_ops(), &faults), &config, true);
    CU_ASSERT_EQUAL_FATAL(dao_source_open(path, DAO_SOURCE_CACHE_AUTO, &source), DAO_OK);
    fault_backend_arm(FAULT_CALL_ANY, n, false);
    uint32_t first = program_tensor_from(&program, size_of(0), source, offset_of(0));
    if (first == UINT32_MAX) {
        CU_ASSERT_TRUE(strlen(dao_last_message()) > 0);
        CU_ASSERT_FALSE(executor->engine.file_tier.is_there);
    }
    for (uint32_t i = first == UINT32_MAX ? 0 : 1; i < WEIGHTS; i++) {
        CU_ASSERT_EQUAL_FATAL(program_tensor_from(&program, size_of(i), source, offset_of(i)), i);
    }
    CU_ASSERT_EQUAL(dao_source_release(source), DAO_OK);
    pass(UINT32_MAX);
    dao_status_t status = dao_executor_sync(executor);
    CU_ASSERT_TRUE(status == DAO_OK || strlen(dao_last_message()) > 0);
    bool has_fired = fault_backend_disarm() > 0;
    pass(UINT32_MAX);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    end();
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
    return has_fired;
}

static void whatever_is_refused_once_the_executor_goes_on(void)
{
    uint64_t n = 0;
    while (run_with_fault(n)) {
        n += (uint64_t)TEST_CALL_STEP * 5;
    }
    CU_ASSERT_TRUE(n > 20);
}

/* ---- learnt steps ---- */

/* In virtual time: kernels of a millisecond, of which two and an activation fit. */
static const dao_executor_config_t virtual = {
    .capacity_bytes = (size_t)4 * UNIT, .check = true, .file = {.in_bytes_per_second = 100000000}};

static dao_status_t take_time(const dao_launch_t *launch, void *user)
{
    (void)user;
    return dao_sim_stream_work(launch->stream->backend, 1000000);
}

static void run_step(uint32_t activation)
{
    CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
    pass(activation);
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
}

/* A plan takes the weights from their source, too: nothing is put on the host for it. */
static void a_plan_reads_them_where_they_are(void)
{
    begin(&dao_sim_bytes_backend_ops, &virtual, true);
    make_weights_of_memory();
    program.work = take_time;
    uint32_t activation = program_tensor(&program, UNIT / 2);
    CU_ASSERT_EQUAL(program_write(&program, activation), DAO_OK);
    for (int i = 0; i < 12; i++) {
        run_step(activation);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    dao_executor_stats_t before = program_stats(&program);
    CU_ASSERT_TRUE(before.plan_hit_count > 0);
    run_step(activation);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    dao_executor_stats_t after = program_stats(&program);
    CU_ASSERT_EQUAL(after.plan_hit_count, before.plan_hit_count + 1);
    CU_ASSERT_TRUE(after.file_in_bytes > before.file_in_bytes);
    CU_ASSERT_EQUAL(after.file_in_bytes - before.file_in_bytes, after.in_bytes - before.in_bytes);
    CU_ASSERT_EQUAL(after.out_bytes, before.out_bytes);
    CU_ASSERT_EQUAL(after.save_count, 0);
    CU_ASSERT_TRUE(after.peak_host_used_bytes <= UNIT);
    end();
}

/* A list that is planned before its first run knows nothing of the source's speed, and takes no host memory
   for the weights even so. */
static void a_plan_before_the_first_run_reads_them_where_they_are(void)
{
    dao_command_list_t *list = NULL;
    begin(&dao_sim_bytes_backend_ops, &virtual, true);
    make_weights_of_memory();
    program.work = take_time;
    program.cost_ns = 1000000;
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        program_kernel_t kernel = {
            .name = "layer", .operand_count = 1, .tensors = {i}, .accesses = {DAO_ACCESS_READ}};
        CU_ASSERT_EQUAL(program_list_push(&program, list, &kernel), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_command_list_plan(list, 1), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_TRUE(program_stats(&program).file_in_bytes > 0); /* what the plan begins with */
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    }
    dao_executor_stats_t stats = program_stats(&program);
    CU_ASSERT_EQUAL(stats.plan_hit_count, 3);
    CU_ASSERT_EQUAL(stats.out_bytes, 0);
    CU_ASSERT_TRUE(stats.host_used_bytes == 0 && stats.file_in_bytes > 0);
    dao_command_list_destroy(list);
    end();
}

/* The list alone keeps the weights: each run reads them where they are, and they go with it. */
static void a_list_reads_weights_whose_handles_are_gone(void)
{
    dao_command_list_t *list = NULL;
    begin(&dao_sim_bytes_backend_ops, &virtual, true);
    make_weights_of_memory();
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        program_kernel_t kernel = {
            .name = "layer", .operand_count = 1, .tensors = {i}, .accesses = {DAO_ACCESS_READ}};
        CU_ASSERT_EQUAL(program_list_push(&program, list, &kernel), DAO_OK);
        program_drop(&program, i);
    }
    CU_ASSERT_EQUAL(dao_command_list_plan(list, 1), DAO_OK);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    }
    CU_ASSERT_EQUAL(program.read_count, 3 * WEIGHTS);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    CU_ASSERT_EQUAL(drop_count, 0);
    dao_command_list_destroy(list);
    end();
    CU_ASSERT_EQUAL(drop_count, 1);
}

static CU_TestInfo tests[] = {
    {"weights come from their file, and leave for nowhere",
     weights_come_from_their_file_and_leave_for_nowhere},
    {"weights come from memory that is given back once", weights_come_from_memory_that_is_given_back_once},
    {"what reads sources writes nothing", what_reads_sources_writes_nothing},
    {"pieces beyond a limit are refused", pieces_beyond_a_limit_are_refused},
    {"sources and a file of the executor's share its streams",
     sources_and_a_file_of_the_executors_share_its_streams},
    {"what would write one is refused before anything happens",
     what_would_write_one_is_refused_before_anything_happens},
    {"what does not lie in its source is refused", what_does_not_lie_in_its_source_is_refused},
    {"a source that cannot be read costs a kernel", a_source_that_cannot_be_read_costs_a_kernel},
#if defined(DAO_FAULTS)
    {"a read that fails once is not noticed", a_read_that_fails_once_is_not_noticed},
#endif
    {"the executor's thread may make all but the first", the_executors_thread_may_make_all_but_the_first},
    {"a pin and another capacity treat them as others", a_pin_and_another_capacity_treat_them_as_others},
    {"handles may outlive the executor", handles_may_outlive_the_executor},
    {"the library may be started anew meanwhile", the_library_may_be_started_anew_meanwhile},
    {"a lost device leaves the source", a_lost_device_leaves_the_source},
    {"whatever is refused once, the executor goes on", whatever_is_refused_once_the_executor_goes_on},
    {"a plan reads them where they are", a_plan_reads_them_where_they_are},
    {"a plan before the first run reads them where they are",
     a_plan_before_the_first_run_reads_them_where_they_are},
    {"a list reads weights whose handles are gone", a_list_reads_weights_whose_handles_are_gone},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"executor: sources", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
