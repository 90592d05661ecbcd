/* SPDX-License-Identifier: Apache-2.0 */
/* Memory from the library beside the driver's own: pairs of an allocation and a free, and pages. */
#include "bench/gpu/bench_gpu.h"

#include "base/report/error.h"

#include <dao/dao.h>

#include <stdio.h>

#define MIB DAO_BENCH_GPU_MIB

/* AddressSanitizer takes a time for each byte of a block. */
#if defined(__SANITIZE_ADDRESS__)
enum { PAIR_ROUNDS = 200 };
#else
enum { PAIR_ROUNDS = 20000 };
#endif

enum { DRIVER_PAIR_ROUNDS = 200, PAGE_COUNT = 32, PAGE_ROUNDS = 8 };

/* ---- allocation ---- */

static dao_status_t time_driver_pairs(const dao_bench_gpu_t *bench, size_t size_bytes, double *out_ns)
{
    dao_status_t status = DAO_OK;
    uint64_t begin_ns = dao_clock_ns();
    for (int i = 0; i < DRIVER_PAIR_ROUNDS && status == DAO_OK; i++) {
        void *address = NULL;
        status = bench->ops->memory_alloc(bench->device, size_bytes, &address);
        if (status == DAO_OK) {
            status = bench->ops->memory_free(bench->device, address, size_bytes);
        }
    }
    *out_ns = (double)(dao_clock_ns() - begin_ns) / DRIVER_PAIR_ROUNDS;
    return status;
}

/* The same from a pool of the driver's, in stream order, each waited for. */
static dao_status_t time_pool_pairs(const dao_bench_gpu_t *bench, dao_backend_pool_t *pool, size_t size_bytes,
                                    double *out_ns)
{
    dao_status_t status = DAO_OK;
    uint64_t begin_ns = dao_clock_ns();
    for (int i = 0; i < DRIVER_PAIR_ROUNDS && status == DAO_OK; i++) {
        void *address = NULL;
        status = bench->ops->pool_alloc(bench->device, pool, size_bytes, &address);
        if (status == DAO_OK) {
            status = bench->ops->pool_free(bench->device, pool, address);
        }
    }
    *out_ns = (double)(dao_clock_ns() - begin_ns) / DRIVER_PAIR_ROUNDS;
    return status;
}

static dao_status_t time_pairs(const dao_bench_gpu_t *bench, size_t size_bytes, bool is_async, double *out_ns)
{
    dao_device_place_t place = dao_device_place(bench->device_index);
    dao_status_t status = DAO_OK;
    uint64_t begin_ns = 0;
    for (int i = -1; i < PAIR_ROUNDS && status == DAO_OK; i++) {
        begin_ns = i == 0 ? dao_clock_ns() : begin_ns; /* the first pair takes the memory */
        void *address = is_async ? dao_alloc_async(place, size_bytes, NULL) : dao_alloc(place, size_bytes);
        if (address == NULL) {
            status = dao_last_status();
        } else {
            status = is_async ? dao_free_async(place, address, NULL) : dao_free(place, address);
        }
    }
    *out_ns = (double)(dao_clock_ns() - begin_ns) / PAIR_ROUNDS;
    return status;
}

static const struct {
    size_t size_bytes;
    const char *plain;
    const char *async;
} sizes[] = {
    {(size_t)4 << 10, "alloc + free, 4 KiB", "alloc + free async, 4 KiB"},
    {1 * MIB, "alloc + free, 1 MiB", "alloc + free async, 1 MiB"},
    {64 * MIB, "alloc + free, 64 MiB", "alloc + free async, 64 MiB"},
};

#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))

/* Beside a pool of the driver's, where the device has such. */
dao_status_t dao_bench_gpu_pool(dao_bench_gpu_t *bench)
{
    dao_device_info_t info;
    dao_backend_pool_t *pool = NULL;
    dao_status_t status = bench->ops->device_query(bench->device, &info);
    if (status == DAO_OK && info.memory_pools) {
        status = bench->ops->pool_create(bench->device, &pool);
    }
    if (status != DAO_OK || pool == NULL) {
        return status;
    }
    for (size_t i = 0; i < SIZE_COUNT && status == DAO_OK; i++) {
        dao_bench_gpu_row_t row = {
            .figure = sizes[i].async, .unit = "ns", .reference = "the driver's pool, each waited for"};
        status = time_pool_pairs(bench, pool, sizes[i].size_bytes, &row.reference_value);
        if (status == DAO_OK) {
            status = time_pairs(bench, sizes[i].size_bytes, true, &row.value);
        }
        if (status == DAO_OK) {
            dao_bench_gpu_row(bench, &row);
        }
    }
    dao_error_record_t record;
    dao_error_save(&record, status);
    bench->ops->pool_destroy(bench->device, pool);
    return status == DAO_OK ? DAO_OK : dao_error_restore(&record);
}

dao_status_t dao_bench_gpu_allocation(dao_bench_gpu_t *bench)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < SIZE_COUNT && status == DAO_OK; i++) {
        dao_bench_gpu_row_t row = {
            .figure = sizes[i].plain, .unit = "ns", .reference = "the driver's alloc + free"};
        status = time_driver_pairs(bench, sizes[i].size_bytes, &row.reference_value);
        for (int is_async = 0; is_async < 2 && status == DAO_OK; is_async++) {
            row.figure = is_async ? sizes[i].async : sizes[i].plain;
            status = time_pairs(bench, sizes[i].size_bytes, is_async != 0, &row.value);
            if (status == DAO_OK) {
                dao_bench_gpu_row(bench, &row);
            }
        }
    }
    return status;
}

/* ---- pages ---- */

/* Moves all pages, as places do: unmapped one by one, mapped by one call where there is one. */
static dao_status_t move_pages(const dao_bench_gpu_t *bench, dao_backend_pages_t *const *pages, char *from,
                               char *to, size_t page_bytes)
{
    const dao_backend_ops_t *ops = bench->ops;
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < PAGE_COUNT && status == DAO_OK; i++) {
        status = ops->pages_unmap(bench->device, pages[i], from + i * page_bytes);
    }
    if (status == DAO_OK && ops->pages_map_run != NULL) {
        return ops->pages_map_run(bench->device, pages, PAGE_COUNT, to);
    }
    for (size_t i = 0; i < PAGE_COUNT && status == DAO_OK; i++) {
        status = ops->pages_map(bench->device, pages[i], to + i * page_bytes);
    }
    return status;
}

/* Takes pages with their mapping, moves them to the other half of the addresses and back, and gives them
   back. Adds up the time of taking and giving back, and of moving. */
static dao_status_t page_round(const dao_bench_gpu_t *bench, char *addresses, size_t page_bytes,
                               uint64_t *take_ns, uint64_t *move_ns)
{
    const dao_backend_ops_t *ops = bench->ops;
    dao_backend_pages_t *pages[PAGE_COUNT];
    uint64_t begin_ns = dao_clock_ns();
    dao_status_t status = DAO_OK;
    int count = 0;
    for (; count < PAGE_COUNT && status == DAO_OK; count++) {
        status = ops->pages_create(bench->device, page_bytes, &pages[count]);
        if (status != DAO_OK) {
            break;
        }
        status = ops->pages_map(bench->device, pages[count], addresses + (size_t)count * page_bytes);
    }
    *take_ns += dao_clock_ns() - begin_ns;
    begin_ns = dao_clock_ns();
    for (int turn = 0; turn < 2 && status == DAO_OK; turn++) { /* there and back */
        char *from = addresses + (size_t)turn * PAGE_COUNT * page_bytes;
        char *to = addresses + (size_t)(1 - turn) * PAGE_COUNT * page_bytes;
        status = move_pages(bench, pages, from, to, page_bytes);
    }
    *move_ns += dao_clock_ns() - begin_ns;
    begin_ns = dao_clock_ns();
    for (int i = 0; i < count && status == DAO_OK; i++) {
        status = ops->pages_unmap(bench->device, pages[i], addresses + (size_t)i * page_bytes);
        status = status == DAO_OK ? ops->pages_destroy(bench->device, pages[i]) : status;
    }
    *take_ns += dao_clock_ns() - begin_ns;
    return status; /* what a failure leaves goes with the process */
}

dao_status_t dao_bench_gpu_pages(dao_bench_gpu_t *bench)
{
    dao_device_info_t info;
    void *addresses = NULL;
    dao_status_t status = bench->ops->device_query(bench->device, &info);
    if (status != DAO_OK || info.page_bytes == 0) {
        return status; /* a device without virtual memory has no such rows */
    }
    size_t page_bytes = (size_t)info.page_bytes;
    uint64_t take_ns = 0;
    uint64_t move_ns = 0;
    status = bench->ops->address_reserve(bench->device, 2 * PAGE_COUNT * page_bytes, &addresses);
    for (int round = 0; round < PAGE_ROUNDS && status == DAO_OK; round++) {
        status = page_round(bench, addresses, page_bytes, &take_ns, &move_ns);
    }
    if (status == DAO_OK) {
        dao_bench_gpu_row(bench, &(dao_bench_gpu_row_t){
                                     .figure = "a page is moved",
                                     .unit = "us",
                                     .value = (double)move_ns / (2e3 * PAGE_COUNT * PAGE_ROUNDS),
                                     .reference = "a page is taken new",
                                     .reference_value = (double)take_ns / (1e3 * PAGE_COUNT * PAGE_ROUNDS)});
        status = bench->ops->address_release(bench->device, addresses, 2 * PAGE_COUNT * page_bytes);
    }
    return status;
}
