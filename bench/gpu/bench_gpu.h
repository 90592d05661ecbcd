/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `dao-bench gpu` share: the device with and without the library, and a row. */
#ifndef DAO_BENCH_GPU_H
#define DAO_BENCH_GPU_H

#include "backends/backend.h"
#include "base/threads/sync.h"
#include "tools/print/json_rows.h"

#define DAO_BENCH_GPU_MIB ((size_t)1 << 20)

typedef struct dao_bench_gpu {
    int32_t device_index;
    size_t copy_bytes;
    bool is_json;
    double unlimited_ms; /* a step of the training without a limit */
    dao_json_rows_t json;
    const dao_backend_ops_t *ops; /* the driver, without the library */
    dao_backend_t *driver;
    dao_backend_device_t *device;
} dao_bench_gpu_t;

/* A figure, and what stands beside it. */
typedef struct dao_bench_gpu_row {
    const char *figure;
    const char *unit;
    double value;
    const char *reference; /* NULL: none */
    double reference_value;
} dao_bench_gpu_row_t;

/* Prints a row, or adds it to the array. gpu_row.c */
void dao_bench_gpu_row(dao_bench_gpu_t *bench, const dao_bench_gpu_row_t *row);

/* Bytes a nanosecond are gigabytes a second. */
static inline double dao_bench_gpu_rate(double bytes, uint64_t begin_ns)
{
    return bytes / (double)(dao_clock_ns() - begin_ns);
}

/* ---- gpu_copies.c ---- */

/* Copies between pinned and device memory, as fast as the link goes, in one direction or in both at once. */
DAO_NODISCARD dao_status_t dao_bench_gpu_copy_plainly(const dao_bench_gpu_t *bench, bool with_in,
                                                      bool with_out, double *out_rate);

/* Each prints its rows: copies of registered memory; queued as a batch; to each peer, before and after it may
   be reached. */
DAO_NODISCARD dao_status_t dao_bench_gpu_registered(dao_bench_gpu_t *bench);
DAO_NODISCARD dao_status_t dao_bench_gpu_batches(dao_bench_gpu_t *bench);
DAO_NODISCARD dao_status_t dao_bench_gpu_peers(dao_bench_gpu_t *bench);

/* ---- gpu_executor.c: copies by the executor, and what a kernel costs the host ---- */

DAO_NODISCARD dao_status_t dao_bench_gpu_copies(dao_bench_gpu_t *bench);
DAO_NODISCARD dao_status_t dao_bench_gpu_kernels(dao_bench_gpu_t *bench);

/* ---- gpu_memory.c: allocations beside the driver's, beside its pool; pages moved and taken new ---- */

DAO_NODISCARD dao_status_t dao_bench_gpu_allocation(dao_bench_gpu_t *bench);
DAO_NODISCARD dao_status_t dao_bench_gpu_pool(dao_bench_gpu_t *bench);
DAO_NODISCARD dao_status_t dao_bench_gpu_pages(dao_bench_gpu_t *bench);

#endif
