/* SPDX-License-Identifier: Apache-2.0 */
/* The executor beside plain copies: tensors used in turn, and kernels whose tensors are all resident. */
#include "bench/gpu/bench_gpu.h"

#include "base/report/error.h"

#include <dao/dao.h>

#include <stdio.h>

#define MIB DAO_BENCH_GPU_MIB

enum {
    ARENA_TENSORS = 6, /* that fit into the executor's arena */
    RING_TENSORS = 12, /* that its kernels use in turn: none is on the device when its turn comes */
    RING_ROUNDS = 4,
    KERNEL_COUNT = 20000
};

/* ---- copies by the executor ---- */

static dao_status_t launch_nothing(const dao_launch_t *launch, void *user)
{
    (void)launch;
    (void)user;
    return DAO_OK;
}

static dao_status_t push_ring(dao_executor_t *executor, dao_managed_t **tensors, dao_access_t access,
                              int count)
{
    dao_status_t status = DAO_OK;
    for (int i = 0; i < count && status == DAO_OK; i++) {
        dao_operand_t operand = {.tensor = tensors[i % RING_TENSORS], .access = access};
        dao_kernel_t kernel = {
            .name = "turn", .launch = launch_nothing, .operands = &operand, .operand_count = 1};
        status = dao_executor_push(executor, &kernel);
    }
    return status == DAO_OK ? dao_executor_sync(executor) : status;
}

/* Kernels that take no time use tensors in turn, of which half fit: every use is a copy in, and with `writes`
   one out. */
static dao_status_t run_ring(dao_executor_t *executor, dao_managed_t **tensors, bool writes, double *out_rate)
{
    dao_status_t status = push_ring(executor, tensors, DAO_ACCESS_WRITE, RING_TENSORS);
    dao_executor_stats_t before;
    dao_executor_stats_t after;
    status = status == DAO_OK ? push_ring(executor, tensors, DAO_ACCESS_READ, RING_TENSORS) : status;
    status = status == DAO_OK ? dao_executor_stats_get(executor, &before) : status;
    uint64_t begin_ns = dao_clock_ns();
    if (status == DAO_OK) {
        status = push_ring(executor, tensors, writes ? DAO_ACCESS_READ_WRITE : DAO_ACCESS_READ,
                           RING_TENSORS * RING_ROUNDS);
    }
    uint64_t end_ns = dao_clock_ns();
    status = status == DAO_OK ? dao_executor_stats_get(executor, &after) : status;
    if (status == DAO_OK) {
        *out_rate = (double)(after.in_bytes - before.in_bytes) / (double)(end_ns - begin_ns);
    }
    return status;
}

static dao_status_t copy_by_executor(const dao_bench_gpu_t *bench, bool writes, double *out_rate)
{
    dao_executor_config_t config = {.device_index = bench->device_index,
                                    .capacity_bytes = bench->copy_bytes * ARENA_TENSORS};
    dao_managed_config_t tensor = {.size_bytes = bench->copy_bytes};
    dao_managed_t *tensors[RING_TENSORS] = {NULL};
    dao_executor_t *executor = NULL;
    dao_status_t status = dao_executor_create(&config, &executor);
    for (int i = 0; i < RING_TENSORS && status == DAO_OK; i++) {
        status = dao_managed_create(executor, &tensor, &tensors[i]);
    }
    if (status == DAO_OK) {
        status = run_ring(executor, tensors, writes, out_rate);
    }
    dao_error_record_t record;
    dao_error_save(&record, status);
    for (int i = 0; i < RING_TENSORS; i++) {
        if (tensors[i] != NULL) {
            (void)dao_managed_release(tensors[i]);
        }
    }
    if (executor != NULL) {
        (void)dao_executor_destroy(executor);
    }
    return status == DAO_OK ? DAO_OK : dao_error_restore(&record);
}

dao_status_t dao_bench_gpu_copies(dao_bench_gpu_t *bench)
{
    static const struct {
        bool with_in, with_out;
        const char *plain;
        const char *executor; /* NULL: it has no copies out alone */
    } ways[] = {
        {true, false, "plain copies in", "executor, copies in"},
        {false, true, "plain copies out", NULL},
        {true, true, "plain copies, both at once", "executor, in and out at once"},
    };
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && status == DAO_OK; i++) {
        dao_bench_gpu_row_t row = {.figure = ways[i].plain, .unit = "GB/s"};
        status = dao_bench_gpu_copy_plainly(bench, ways[i].with_in, ways[i].with_out, &row.value);
        if (status != DAO_OK) {
            break;
        }
        dao_bench_gpu_row(bench, &row);
        if (ways[i].executor != NULL) {
            row = (dao_bench_gpu_row_t){.figure = ways[i].executor,
                                        .unit = "GB/s",
                                        .reference = ways[i].plain,
                                        .reference_value = row.value};
            status = copy_by_executor(bench, ways[i].with_out, &row.value);
            if (status == DAO_OK) {
                dao_bench_gpu_row(bench, &row);
            }
        }
    }
    return status;
}

/* ---- kernels ---- */

static dao_status_t push_kernels(dao_executor_t *executor, dao_managed_t *tensor)
{
    dao_operand_t operand = {.tensor = tensor, .access = DAO_ACCESS_READ_WRITE};
    dao_kernel_t kernel = {
        .name = "nothing", .launch = launch_nothing, .operands = &operand, .operand_count = 1};
    dao_status_t status = DAO_OK;
    for (int i = 0; i < KERNEL_COUNT && status == DAO_OK; i++) {
        status = dao_executor_push(executor, &kernel);
    }
    return status == DAO_OK ? dao_executor_sync(executor) : status;
}

dao_status_t dao_bench_gpu_kernels(dao_bench_gpu_t *bench)
{
    dao_executor_config_t config = {.device_index = bench->device_index, .capacity_bytes = 4 * MIB};
    dao_managed_config_t tensor_config = {.size_bytes = 1 * MIB, .zero_first_touch = true};
    dao_managed_t *tensor = NULL;
    dao_executor_t *executor = NULL;
    dao_status_t status = dao_executor_create(&config, &executor);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_managed_create(executor, &tensor_config, &tensor);
    uint64_t begin_ns = dao_clock_ns();
    if (status == DAO_OK) {
        status = push_kernels(executor, tensor);
    }
    uint64_t end_ns = dao_clock_ns();
    if (status == DAO_OK) {
        dao_bench_gpu_row(
            bench, &(dao_bench_gpu_row_t){.figure = "a kernel, all resident",
                                          .unit = "us",
                                          .value = (double)(end_ns - begin_ns) / (1e3 * KERNEL_COUNT)});
        status = dao_managed_release(tensor);
    }
    dao_status_t end = dao_executor_destroy(executor);
    return status == DAO_OK ? end : status;
}
