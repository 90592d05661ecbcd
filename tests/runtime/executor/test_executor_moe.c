/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose steps differ: the recorded allocations of a mixture of experts, whose sizes follow the
   tokens, as kernels that write what they allocate and read what they free. Every step is learnt by itself;
   all operands are checked. */
#include "backends/sim/sim.h"
#include "runtime/executor/executor_internal.h"
#include "tests/support/models/trace.h"
#include "tests/support/suite.h"
#include "tools/read/events/read_event_file.h"
#include "tools/run/pattern.h"

#include <dao/dao.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    RECORDS_A_STEP = 900, /* as many as the file has of each step */
    SIZE_DIVISOR = 256,
    ROUNDS = 5,
    OPERANDS_MAX = 64,
    WORD_BYTES = 8,
};

/* A kernel on its way: what it checks, then what it writes. */
typedef struct job {
    uint64_t bases[OPERANDS_MAX];
    size_t sizes[OPERANDS_MAX];
    bool is_read[OPERANDS_MAX];
    void *addresses[OPERANDS_MAX];
    uint32_t count;
    dao_managed_t *released[OPERANDS_MAX];
    uint32_t released_count;
} job_t;

static dao_event_file_t events;
static dao_executor_t *executor;
static dao_managed_t **tensors; /* of the file's, those that are alive */
static uint64_t mismatch_count, read_count;

static size_t size_of(uint32_t tensor)
{
    return (size_t)(events.tensors[tensor].size_bytes / SIZE_DIVISOR / WORD_BYTES + 1) * WORD_BYTES;
}

static void run_job(void *user)
{
    job_t *job = user;
    for (uint32_t i = 0; i < job->count; i++) {
        if (job->is_read[i]) {
            mismatch_count += dao_pattern_check(job->addresses[i], job->sizes[i], job->bases[i]);
            read_count++;
        } else {
            dao_pattern_fill(job->addresses[i], job->sizes[i], job->bases[i]);
        }
    }
}

static dao_status_t launch(const dao_launch_t *launch_info, void *user)
{
    job_t *job = user;
    for (uint32_t i = 0; i < job->count; i++) {
        job->addresses[i] = launch_info->addresses[i];
    }
    dao_status_t status = dao_sim_stream_work(launch_info->stream->backend, 1000 + job->sizes[0] / 8);
    return status == DAO_OK ? dao_stream_host_func(launch_info->stream, run_job, job) : status;
}

static void add_operand(job_t *job, dao_operand_t *operands, uint32_t tensor, bool is_read, int round)
{
    if (job->count == OPERANDS_MAX || tensors[tensor] == NULL) {
        return;
    }
    operands[job->count] = (dao_operand_t){tensors[tensor], is_read ? DAO_ACCESS_READ : DAO_ACCESS_WRITE};
    job->is_read[job->count] = is_read;
    job->sizes[job->count] = size_of(tensor);
    job->bases[job->count] = dao_pattern_base(tensor, (uint32_t)round);
    job->count++;
}

/* The records of one operator from `first` on are a kernel; gives the record behind them. */
static size_t push_operator(size_t first, size_t end, int round)
{
    dao_operand_t operands[OPERANDS_MAX];
    job_t *job = calloc(1, sizeof(*job));
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    size_t at = first;
    for (; at < end && dao_event_file_operator(&events, at) == dao_event_file_operator(&events, first);
         at++) {
        uint32_t tensor = events.records[at].tensor;
        dao_managed_config_t config = {.size_bytes = size_of(tensor)};
        if (events.records[at].is_alloc) {
            CU_ASSERT_EQUAL_FATAL(dao_managed_create(executor, &config, &tensors[tensor]), DAO_OK);
            add_operand(job, operands, tensor, false, round);
        } else if (tensors[tensor] != NULL && job->released_count < OPERANDS_MAX) {
            bool is_own = false;
            for (uint32_t i = 0; i < job->count; i++) {
                is_own = is_own || operands[i].tensor == tensors[tensor];
            }
            if (!is_own) {
                add_operand(job, operands, tensor, true, round);
            }
            job->released[job->released_count++] = tensors[tensor];
            tensors[tensor] = NULL;
        }
    }
    dao_kernel_t kernel = {.name = "operator",
                           .launch = launch,
                           .user = job,
                           .drop = free,
                           .operands = operands,
                           .operand_count = job->count};
    uint32_t released_count = job->released_count;
    dao_managed_t *released[OPERANDS_MAX];
    for (uint32_t i = 0; i < released_count; i++) {
        released[i] = job->released[i];
    }
    if (job->count == 0) {
        free(job);
    } else {
        CU_ASSERT_EQUAL_FATAL(dao_executor_push(executor, &kernel), DAO_OK);
    }
    for (uint32_t i = 0; i < released_count; i++) {
        CU_ASSERT_EQUAL(dao_managed_release(released[i]), DAO_OK);
    }
    return at;
}

static void run_step(size_t step, int round)
{
    size_t first = events.steps[step];
    size_t end = first + RECORDS_A_STEP;
    for (size_t at = first; at < end;) {
        at = push_operator(at, end, round);
    }
    CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
    for (size_t i = 0; i < events.tensor_count; i++) {
        CU_ASSERT_EQUAL(dao_managed_release(tensors[i]), DAO_OK); /* NULL is allowed */
        tensors[i] = NULL;
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
}

/* The most bytes that are alive at once in any of the steps. */
static size_t peak_bytes(void)
{
    size_t most = 0;
    for (size_t step = 0; step < events.step_count; step++) {
        size_t live = 0;
        for (size_t at = events.steps[step]; at < events.steps[step] + RECORDS_A_STEP; at++) {
            size_t bytes = (size_of(events.records[at].tensor) + 255) / 256 * 256;
            bool is_alloc = events.records[at].is_alloc;
            live = is_alloc ? live + bytes : live - (bytes < live ? bytes : live);
            most = live > most ? live : most;
        }
    }
    return most;
}

static void steps_that_differ_lose_nothing(void)
{
    CU_ASSERT_EQUAL_FATAL(dao_event_file_read(DAO_TEST_MOE_EVENTS, &events), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(events.step_count, 5);
    tensors = calloc(events.tensor_count, sizeof(dao_managed_t *));
    CU_ASSERT_PTR_NOT_NULL_FATAL(tensors);
    dao_config_t settings = {.cpu = {.device_count = 1,
                                     .device_bytes = 64 * MIB,
                                     .h2d_bytes_per_second = 1000 * MIB,
                                     .d2h_bytes_per_second = 1000 * MIB}};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&settings, &dao_sim_bytes_backend_ops), DAO_OK);
    dao_executor_config_t config = {
        .capacity_bytes = peak_bytes() * 6 / 10, .policy = DAO_POLICY_BELADY, .queue_kernels = 16};
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(&config, &executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
    for (int round = 1; round <= ROUNDS; round++) {
        for (size_t step = 0; step < events.step_count; step++) {
            run_step(step, round);
        }
    }
    dao_executor_stats_t stats;
    CU_ASSERT_EQUAL(dao_executor_stats_get(executor, &stats), DAO_OK);
    (void)printf("    %" PRIu64 " reads, %" PRIu64 " plans, %" PRIu64 " steps followed, %" PRIu64 " left\n",
                 read_count, stats.plan_count, stats.plan_hit_count, stats.deviation_count);
    CU_ASSERT_EQUAL(mismatch_count, 0);
    CU_ASSERT_TRUE(read_count > 0 && stats.eviction_count > 0);
    CU_ASSERT_TRUE(stats.plan_count >= 2);
    CU_ASSERT_TRUE(stats.plan_hit_count >= events.step_count);
    CU_ASSERT_EQUAL(stats.live_tensor_count, 0);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    free(tensors);
    dao_event_file_finish(&events);
}

static CU_TestInfo tests[] = {
    {"steps that differ lose nothing", steps_that_differ_lose_nothing},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"steps that differ", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
