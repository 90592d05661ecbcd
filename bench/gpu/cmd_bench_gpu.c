/* SPDX-License-Identifier: Apache-2.0 */
/* `dao-bench gpu`: what the library takes from a device and its driver, beside what they give without it.
   Each figure has a reference that is measured in the same run, so that their ratio says more than either:

       copies by the executor      plain copies between pinned and device memory, as fast as the link goes
       copies of registered memory the same
       copies queued as a batch    the same copies, queued one by one
       copies to a peer            the same copies, before the peer may be reached
       dao_alloc() and dao_free()  the driver's own allocation and free, also from its pool in stream order
       a page that is moved        a page that is taken new
       host time a kernel          (none: it has to be small against the kernels)
       a training in less memory   the same training without a limit

   It runs on whatever the command was built for; virtual devices show that it works, not what a GPU does. */
#include "backends/backend.h"
#include "base/report/error.h"
#include "base/threads/sync.h"
#include "bench/commands.h"
#include "bench/gpu/bench_training.h"
#include "tools/print/json_rows.h"
#include "tools/print/report.h"

#include <dao/dao.h>

#include <stdio.h>

#define MIB ((size_t)1 << 20)

enum {
    COPY_ROUNDS = 16,
    ARENA_TENSORS = 6, /* that fit into the executor's arena */
    RING_TENSORS = 12, /* that its kernels use in turn: none is on the device when its turn comes */
    RING_ROUNDS = 4,
    BATCH_COUNT = 64,
    BATCH_COPY_BYTES = 16 << 10, /* together no more than the smallest --copy */
    BATCH_ROUNDS = 200,
    PAIR_ROUNDS = 20000,
    DRIVER_PAIR_ROUNDS = 200,
    PAGE_COUNT = 32,
    PAGE_ROUNDS = 8,
    KERNEL_COUNT = 20000
};

typedef struct settings {
    uint64_t device;
    uint64_t copy_mib;
    const char *training;
    bool is_json;
} settings_t;

static const dao_option_t options[] = {
    {.name = "device",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, device),
     .value = "N",
     .most = DAO_DEVICE_COUNT_MAX - 1,
     .preset = "0",
     .help = "which one"},
    {.name = "copy",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, copy_mib),
     .value = "MIB",
     .least = 1,
     .most = 4096,
     .preset = "64",
     .help = "MiB of a copy"},
    {.name = "training",
     .type = DAO_OPTION_TYPE_TEXT,
     DAO_OPTION_FIELD(settings_t, training),
     .value = "COMMAND",
     .help = "a training to run behind the figures: example_train, with options of its own"},
    {.name = "json",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_json),
     .help = "print one JSON array"},
    {.name = NULL},
};

typedef struct bench {
    int32_t device_index;
    size_t copy_bytes;
    bool is_json;
    double unlimited_ms; /* a step of the training without a limit */
    dao_json_rows_t json;
    const dao_backend_ops_t *ops; /* the driver, without the library */
    dao_backend_t *driver;
    dao_backend_device_t *device;
} bench_t;

/* ---- rows ---- */

typedef struct row {
    const char *figure;
    const char *unit;
    double value;
    const char *reference; /* NULL: none */
    double reference_value;
} row_t;

static void print_row(bench_t *bench, const row_t *row)
{
    if (bench->is_json) {
        dao_json_rows_begin(&bench->json);
        dao_json_rows_text(&bench->json, "figure", row->figure);
        dao_json_rows_text(&bench->json, "unit", row->unit);
        dao_json_rows_decimal(&bench->json, "value", row->value, 3);
        if (row->reference != NULL) {
            dao_json_rows_text(&bench->json, "reference", row->reference);
            dao_json_rows_decimal(&bench->json, "reference_value", row->reference_value, 3);
            dao_json_rows_decimal(&bench->json, "ratio", row->value / row->reference_value, 4);
        }
    } else if (row->reference != NULL) {
        (void)printf("| %-34s | %12.2f %-4s | %-26s | %12.2f | %8.4f |\n", row->figure, row->value, row->unit,
                     row->reference, row->reference_value, row->value / row->reference_value);
    } else {
        (void)printf("| %-34s | %12.2f %-4s | %-26s | %12s | %8s |\n", row->figure, row->value, row->unit, "",
                     "", "");
    }
    dao_output_flush();
}

/* ---- copies ---- */

/* Bytes a nanosecond are gigabytes a second. */
static double rate(double bytes, uint64_t begin_ns)
{
    return bytes / (double)(dao_clock_ns() - begin_ns);
}

typedef struct copier {
    dao_stream_t *stream;
    void *device_memory;
    void *pinned;
} copier_t;

static dao_status_t copier_open(const bench_t *bench, copier_t *copier)
{
    copier->device_memory = dao_alloc(dao_device_place(bench->device_index), bench->copy_bytes);
    copier->pinned = copier->device_memory != NULL
                         ? dao_alloc(dao_pinned_place(bench->device_index), bench->copy_bytes)
                         : NULL;
    return copier->pinned != NULL ? dao_stream_create(bench->device_index, &copier->stream)
                                  : dao_last_status();
}

static void copier_close(const bench_t *bench, copier_t *copier)
{
    dao_stream_destroy(copier->stream);
    (void)dao_free(dao_pinned_place(bench->device_index), copier->pinned);
    (void)dao_free(dao_device_place(bench->device_index), copier->device_memory);
}

static dao_status_t copier_copy(const bench_t *bench, const copier_t *copier, bool is_in)
{
    dao_place_t device = dao_place_of(dao_device_place(bench->device_index));
    dao_place_t pinned = dao_place_of(dao_pinned_place(bench->device_index));
    return is_in ? dao_stream_copy(copier->stream, device, copier->device_memory, pinned, copier->pinned,
                                   bench->copy_bytes)
                 : dao_stream_copy(copier->stream, pinned, copier->pinned, device, copier->device_memory,
                                   bench->copy_bytes);
}

/* Copies both ways, or one way alone, as fast as they go; gives the rate of one of them. The first round
   warms up. */
static dao_status_t copy_plainly(const bench_t *bench, bool with_in, bool with_out, double *out_rate)
{
    copier_t in = {NULL, NULL, NULL};
    copier_t out = {NULL, NULL, NULL};
    dao_status_t status = copier_open(bench, &in);
    status = status == DAO_OK ? copier_open(bench, &out) : status;
    uint64_t begin_ns = 0;
    for (int round = -1; round < COPY_ROUNDS && status == DAO_OK; round++) {
        if (round == 0) {
            status = dao_device_synchronize(bench->device_index);
            begin_ns = dao_clock_ns();
        }
        if (status == DAO_OK && with_in) {
            status = copier_copy(bench, &in, true);
        }
        if (status == DAO_OK && with_out) {
            status = copier_copy(bench, &out, false);
        }
    }
    status = status == DAO_OK ? dao_device_synchronize(bench->device_index) : status;
    *out_rate = rate((double)bench->copy_bytes * COPY_ROUNDS, begin_ns);
    copier_close(bench, &out);
    copier_close(bench, &in);
    return status;
}

/* ---- other copies ---- */

/* Copies host memory of the command's own in, registered. The first round warms up. */
static dao_status_t copy_registered(const bench_t *bench, double *out_rate)
{
    dao_place_t device = dao_place_of(dao_device_place(bench->device_index));
    dao_place_t host = dao_place_of(dao_cpu_place());
    copier_t copier = {NULL, NULL, NULL};
    void *own = dao_alloc(host, bench->copy_bytes);
    dao_status_t status = own != NULL ? copier_open(bench, &copier) : dao_last_status();
    status = status == DAO_OK ? dao_host_register(bench->device_index, own, bench->copy_bytes) : status;
    bool is_registered = status == DAO_OK;
    uint64_t begin_ns = 0;
    for (int round = -1; round < COPY_ROUNDS && status == DAO_OK; round++) {
        if (round == 0) {
            status = dao_stream_synchronize(copier.stream);
            begin_ns = dao_clock_ns();
        }
        status = status == DAO_OK ? dao_stream_copy(copier.stream, device, copier.device_memory, host, own,
                                                    bench->copy_bytes)
                                  : status;
    }
    status = status == DAO_OK ? dao_stream_synchronize(copier.stream) : status;
    *out_rate = rate((double)bench->copy_bytes * COPY_ROUNDS, begin_ns);
    copier_close(bench, &copier);
    if (is_registered) {
        dao_status_t end = dao_host_unregister(own);
        status = status == DAO_OK ? end : status;
    }
    (void)dao_free(host, own);
    return status;
}

static dao_status_t measure_registered(bench_t *bench)
{
    double registered;
    double pinned;
    dao_status_t status = copy_registered(bench, &registered);
    if (status == DAO_ERR_UNSUPPORTED) {
        return DAO_OK; /* the device registers no host memory: there is no row */
    }
    status = status == DAO_OK ? copy_plainly(bench, true, false, &pinned) : status;
    if (status == DAO_OK) {
        print_row(bench, &(row_t){.figure = "copies in of registered memory",
                                  .unit = "GB/s",
                                  .value = registered,
                                  .reference = "copies in of pinned memory",
                                  .reference_value = pinned});
    }
    return status;
}

/* Takes the host's time for queueing small copies, as batches or one by one. */
static dao_status_t time_queueing(const bench_t *bench, const copier_t *copier, bool as_batch, double *out_us)
{
    dao_place_t device = dao_place_of(dao_device_place(bench->device_index));
    dao_place_t pinned = dao_place_of(dao_pinned_place(bench->device_index));
    void *dsts[BATCH_COUNT];
    const void *srcs[BATCH_COUNT];
    size_t sizes[BATCH_COUNT];
    for (size_t i = 0; i < BATCH_COUNT; i++) {
        dsts[i] = (char *)copier->device_memory + i * BATCH_COPY_BYTES;
        srcs[i] = (char *)copier->pinned + i * BATCH_COPY_BYTES;
        sizes[i] = BATCH_COPY_BYTES;
    }
    dao_copy_batch_t batch = {BATCH_COUNT, dsts, srcs, sizes};
    dao_status_t status = DAO_OK;
    uint64_t queueing_ns = 0;
    for (int round = 0; round < BATCH_ROUNDS && status == DAO_OK; round++) {
        uint64_t begin_ns = dao_clock_ns();
        if (as_batch) {
            status = dao_stream_copy_batch(copier->stream, device, pinned, &batch);
        }
        for (size_t i = 0; i < BATCH_COUNT && !as_batch && status == DAO_OK; i++) {
            status = dao_stream_copy(copier->stream, device, dsts[i], pinned, srcs[i], sizes[i]);
        }
        queueing_ns += dao_clock_ns() - begin_ns;
        status = status == DAO_OK ? dao_stream_synchronize(copier->stream) : status;
    }
    *out_us = (double)queueing_ns / (1e3 * BATCH_COUNT * BATCH_ROUNDS);
    return status;
}

static dao_status_t measure_batches(bench_t *bench)
{
    copier_t copier = {NULL, NULL, NULL};
    double batched = 0;
    double single = 0;
    dao_status_t status = copier_open(bench, &copier);
    status = status == DAO_OK ? time_queueing(bench, &copier, true, &batched) : status;
    status = status == DAO_OK ? time_queueing(bench, &copier, false, &single) : status;
    if (status == DAO_OK) {
        print_row(bench, &(row_t){.figure = "host time a copy, batches of 64",
                                  .unit = "us",
                                  .value = batched,
                                  .reference = "queued one by one",
                                  .reference_value = single});
    }
    copier_close(bench, &copier);
    return status;
}

/* Copies to another device. The first round warms up. */
static dao_status_t copy_to_peer(const bench_t *bench, const copier_t *copier, dao_device_place_t peer,
                                 void *peer_memory, double *out_rate)
{
    dao_place_t device = dao_place_of(dao_device_place(bench->device_index));
    dao_status_t status = DAO_OK;
    uint64_t begin_ns = 0;
    for (int round = -1; round < COPY_ROUNDS && status == DAO_OK; round++) {
        if (round == 0) {
            status = dao_stream_synchronize(copier->stream);
            begin_ns = dao_clock_ns();
        }
        status = status == DAO_OK ? dao_stream_copy(copier->stream, dao_place_of(peer), peer_memory, device,
                                                    copier->device_memory, bench->copy_bytes)
                                  : status;
    }
    status = status == DAO_OK ? dao_stream_synchronize(copier->stream) : status;
    *out_rate = rate((double)bench->copy_bytes * COPY_ROUNDS, begin_ns);
    return status;
}

static dao_status_t measure_peer(bench_t *bench, dao_device_place_t peer)
{
    copier_t copier = {NULL, NULL, NULL};
    double before = 0;
    double after = 0;
    void *peer_memory = dao_alloc(peer, bench->copy_bytes);
    dao_status_t status = peer_memory != NULL ? copier_open(bench, &copier) : dao_last_status();
    status = status == DAO_OK ? copy_to_peer(bench, &copier, peer, peer_memory, &before) : status;
    status = status == DAO_OK ? dao_peer_enable(bench->device_index, peer.index) : status;
    status = status == DAO_OK ? copy_to_peer(bench, &copier, peer, peer_memory, &after) : status;
    if (status == DAO_OK) {
        print_row(bench, &(row_t){.figure = "copies to a peer within reach",
                                  .unit = "GB/s",
                                  .value = after,
                                  .reference = "before it was within reach",
                                  .reference_value = before});
    }
    copier_close(bench, &copier);
    (void)dao_free(peer, peer_memory);
    return status;
}

/* With the next device, if there is one that can be reached. */
static dao_status_t measure_peers(bench_t *bench)
{
    int32_t count = 0;
    dao_peer_info_t info = {false, false};
    dao_status_t status = dao_device_count(&count);
    if (status != DAO_OK || count < 2) {
        return status;
    }
    dao_device_place_t peer = dao_device_place((bench->device_index + 1) % count);
    status = dao_peer_query(bench->device_index, peer.index, &info);
    return status == DAO_OK && info.can_reach ? measure_peer(bench, peer) : status;
}

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

static dao_status_t copy_by_executor(const bench_t *bench, bool writes, double *out_rate)
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

static dao_status_t measure_copies(bench_t *bench)
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
        row_t row = {.figure = ways[i].plain, .unit = "GB/s"};
        status = copy_plainly(bench, ways[i].with_in, ways[i].with_out, &row.value);
        if (status != DAO_OK) {
            break;
        }
        print_row(bench, &row);
        if (ways[i].executor != NULL) {
            row = (row_t){.figure = ways[i].executor,
                          .unit = "GB/s",
                          .reference = ways[i].plain,
                          .reference_value = row.value};
            status = copy_by_executor(bench, ways[i].with_out, &row.value);
            if (status == DAO_OK) {
                print_row(bench, &row);
            }
        }
    }
    return status;
}

/* ---- allocation ---- */

static dao_status_t time_driver_pairs(const bench_t *bench, size_t size_bytes, double *out_ns)
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
static dao_status_t time_pool_pairs(const bench_t *bench, dao_backend_pool_t *pool, size_t size_bytes,
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

static dao_status_t time_pairs(const bench_t *bench, size_t size_bytes, bool is_async, double *out_ns)
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
static dao_status_t measure_pool(bench_t *bench)
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
        row_t row = {
            .figure = sizes[i].async, .unit = "ns", .reference = "the driver's pool, each waited for"};
        status = time_pool_pairs(bench, pool, sizes[i].size_bytes, &row.reference_value);
        if (status == DAO_OK) {
            status = time_pairs(bench, sizes[i].size_bytes, true, &row.value);
        }
        if (status == DAO_OK) {
            print_row(bench, &row);
        }
    }
    dao_error_record_t record;
    dao_error_save(&record, status);
    bench->ops->pool_destroy(bench->device, pool);
    return status == DAO_OK ? DAO_OK : dao_error_restore(&record);
}

static dao_status_t measure_allocation(bench_t *bench)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < SIZE_COUNT && status == DAO_OK; i++) {
        row_t row = {.figure = sizes[i].plain, .unit = "ns", .reference = "the driver's alloc + free"};
        status = time_driver_pairs(bench, sizes[i].size_bytes, &row.reference_value);
        for (int is_async = 0; is_async < 2 && status == DAO_OK; is_async++) {
            row.figure = is_async ? sizes[i].async : sizes[i].plain;
            status = time_pairs(bench, sizes[i].size_bytes, is_async != 0, &row.value);
            if (status == DAO_OK) {
                print_row(bench, &row);
            }
        }
    }
    return status;
}

/* ---- pages ---- */

/* Moves all pages, as places do: unmapped one by one, mapped by one call where there is one. */
static dao_status_t move_pages(const bench_t *bench, dao_backend_pages_t *const *pages, char *from, char *to,
                               size_t page_bytes)
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
static dao_status_t page_round(const bench_t *bench, char *addresses, size_t page_bytes, uint64_t *take_ns,
                               uint64_t *move_ns)
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

static dao_status_t measure_pages(bench_t *bench)
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
        print_row(bench, &(row_t){.figure = "a page is moved",
                                  .unit = "us",
                                  .value = (double)move_ns / (2e3 * PAGE_COUNT * PAGE_ROUNDS),
                                  .reference = "a page is taken new",
                                  .reference_value = (double)take_ns / (1e3 * PAGE_COUNT * PAGE_ROUNDS)});
        status = bench->ops->address_release(bench->device, addresses, 2 * PAGE_COUNT * page_bytes);
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

static dao_status_t measure_kernels(bench_t *bench)
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
        print_row(bench, &(row_t){.figure = "a kernel, all resident",
                                  .unit = "us",
                                  .value = (double)(end_ns - begin_ns) / (1e3 * KERNEL_COUNT)});
        status = dao_managed_release(tensor);
    }
    dao_status_t end = dao_executor_destroy(executor);
    return status == DAO_OK ? end : status;
}

/* ---- a training ---- */

static void print_training(const dao_bench_training_row_t *row, void *user)
{
    bench_t *bench = user;
    char figure[64];
    if (row->percent == 0) {
        bench->unlimited_ms = row->step_ms;
        return;
    }
    (void)snprintf(figure, sizeof(figure), "training, %g %% of its peak", row->percent);
    print_row(bench, &(row_t){.figure = figure,
                              .unit = "ms",
                              .value = row->step_ms,
                              .reference = "without a limit",
                              .reference_value = bench->unlimited_ms});
    if (row->over_bound > 0) {
        (void)snprintf(figure, sizeof(figure), "  at %g %%, planned, / bound", row->percent);
        print_row(bench, &(row_t){.figure = figure, .unit = "", .value = row->over_bound});
        (void)snprintf(figure, sizeof(figure), "  at %g %%, planned, / forecast", row->percent);
        print_row(bench, &(row_t){.figure = figure, .unit = "", .value = row->over_forecast});
    }
}

/* ---- the command ---- */

static dao_status_t open_driver(bench_t *bench)
{
    static const dao_config_t defaults;
    bench->ops = dao_backend_ops();
    dao_status_t status = bench->ops->open(&defaults, &bench->driver);
    return status == DAO_OK ? bench->ops->device_open(bench->driver, bench->device_index, &bench->device)
                            : status;
}

static void close_driver(bench_t *bench)
{
    if (bench->device != NULL) {
        bench->ops->device_close(bench->device);
    }
    if (bench->driver != NULL) {
        bench->ops->close(bench->driver);
    }
}

static dao_status_t measure(bench_t *bench)
{
    dao_device_info_t info;
    dao_status_t status = dao_device_query(bench->device_index, &info);
    if (status != DAO_OK) {
        return status;
    }
    if (!bench->is_json) {
        (void)printf("device:%d of the %s backend: %s, %.1f GiB, copies of %zu MiB\n\n",
                     (int)bench->device_index, dao_backend_name(), info.name,
                     (double)info.total_bytes / (double)((uint64_t)1 << 30), bench->copy_bytes / MIB);
        (void)printf("| figure | value | reference | value | ratio |\n| --- | ---: | --- | ---: | ---: |\n");
    }
    status = open_driver(bench);
    status = status == DAO_OK ? measure_copies(bench) : status;
    status = status == DAO_OK ? measure_registered(bench) : status;
    status = status == DAO_OK ? measure_batches(bench) : status;
    status = status == DAO_OK ? measure_peers(bench) : status;
    status = status == DAO_OK ? measure_allocation(bench) : status;
    status = status == DAO_OK ? measure_pool(bench) : status;
    status = status == DAO_OK ? measure_pages(bench) : status;
    status = status == DAO_OK ? measure_kernels(bench) : status;
    dao_error_record_t record;
    dao_error_save(&record, status);
    close_driver(bench);
    return status == DAO_OK ? DAO_OK : dao_error_restore(&record);
}

static dao_status_t run_bench_gpu(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    const settings_t *settings = user;
    bench_t bench = {.device_index = (int32_t)settings->device,
                     .copy_bytes = (size_t)settings->copy_mib * MIB,
                     .is_json = settings->is_json};
    (void)arguments;
    (void)out_exit;
    dao_json_rows_init(&bench.json);
    dao_status_t status = measure(&bench);
    dao_error_record_t record;
    dao_error_save(&record, status);
    (void)dao_finalize(); /* the training has the device for itself */
    status = status == DAO_OK ? DAO_OK : dao_error_restore(&record);
    if (status == DAO_OK && settings->training != NULL) {
        status = dao_bench_training_run(settings->training, print_training, &bench);
    }
    if (status == DAO_OK && bench.is_json && !dao_json_rows_print(&bench.json)) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the JSON text");
    }
    dao_json_rows_finish(&bench.json);
    return status;
}

const dao_command_t dao_command_bench_gpu = {
    .program = "dao-bench",
    .name = "gpu",
    .arguments = "",
    .summary = "what the library takes from a device, beside what its driver gives",
    .details =
        "Each figure stands beside a reference of the same run. Builds for cuda and hip measure the "
        "real device. A training runs in a program of its own: example_train compares a step at some shares "
        "of its own peak with one\n"
        "without a limit, with its bound and its forecast; its losses have to be the same.",
    .options = options,
    .least_arguments = 0,
    .most_arguments = 0,
    .settings_bytes = sizeof(settings_t),
    .run = run_bench_gpu,
};
