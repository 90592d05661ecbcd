/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that the library queues: plain ones, of registered memory, batches, to peers. */
#include "bench/gpu/bench_gpu.h"

#include "base/report/error.h"

#include <dao/dao.h>

#include <stdio.h>

#define MIB DAO_BENCH_GPU_MIB

enum {
    COPY_ROUNDS = 16,
    BATCH_COUNT = 64,
    BATCH_COPY_BYTES = 16 << 10, /* together no more than the smallest --copy */
    BATCH_ROUNDS = 200,
};

typedef struct copier {
    dao_stream_t *stream;
    void *device_memory;
    void *pinned;
} copier_t;

static dao_status_t copier_open(const dao_bench_gpu_t *bench, copier_t *copier)
{
    copier->device_memory = dao_alloc(dao_device_place(bench->device_index), bench->copy_bytes);
    copier->pinned = copier->device_memory != NULL
                         ? dao_alloc(dao_pinned_place(bench->device_index), bench->copy_bytes)
                         : NULL;
    return copier->pinned != NULL ? dao_stream_create(bench->device_index, &copier->stream)
                                  : dao_last_status();
}

static void copier_close(const dao_bench_gpu_t *bench, copier_t *copier)
{
    dao_stream_destroy(copier->stream);
    (void)dao_free(dao_pinned_place(bench->device_index), copier->pinned);
    (void)dao_free(dao_device_place(bench->device_index), copier->device_memory);
}

static dao_status_t copier_copy(const dao_bench_gpu_t *bench, const copier_t *copier, bool is_in)
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
dao_status_t dao_bench_gpu_copy_plainly(const dao_bench_gpu_t *bench, bool with_in, bool with_out,
                                        double *out_rate)
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
    *out_rate = dao_bench_gpu_rate((double)bench->copy_bytes * COPY_ROUNDS, begin_ns);
    copier_close(bench, &out);
    copier_close(bench, &in);
    return status;
}

/* Copies host memory of the command's own in, registered. The first round warms up. */
static dao_status_t copy_registered(const dao_bench_gpu_t *bench, double *out_rate)
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
    *out_rate = dao_bench_gpu_rate((double)bench->copy_bytes * COPY_ROUNDS, begin_ns);
    copier_close(bench, &copier);
    if (is_registered) {
        dao_status_t end = dao_host_unregister(own);
        status = status == DAO_OK ? end : status;
    }
    (void)dao_free(host, own);
    return status;
}

dao_status_t dao_bench_gpu_registered(dao_bench_gpu_t *bench)
{
    double registered;
    double pinned;
    dao_status_t status = copy_registered(bench, &registered);
    if (status == DAO_ERR_UNSUPPORTED) {
        return DAO_OK; /* the device registers no host memory: there is no row */
    }
    status = status == DAO_OK ? dao_bench_gpu_copy_plainly(bench, true, false, &pinned) : status;
    if (status == DAO_OK) {
        dao_bench_gpu_row(bench, &(dao_bench_gpu_row_t){.figure = "copies in of registered memory",
                                                        .unit = "GB/s",
                                                        .value = registered,
                                                        .reference = "copies in of pinned memory",
                                                        .reference_value = pinned});
    }
    return status;
}

/* Takes the host's time for queueing small copies, as batches or one by one. */
static dao_status_t time_queueing(const dao_bench_gpu_t *bench, const copier_t *copier, bool as_batch,
                                  double *out_us)
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

dao_status_t dao_bench_gpu_batches(dao_bench_gpu_t *bench)
{
    copier_t copier = {NULL, NULL, NULL};
    double batched = 0;
    double single = 0;
    dao_status_t status = copier_open(bench, &copier);
    status = status == DAO_OK ? time_queueing(bench, &copier, true, &batched) : status;
    status = status == DAO_OK ? time_queueing(bench, &copier, false, &single) : status;
    if (status == DAO_OK) {
        dao_bench_gpu_row(bench, &(dao_bench_gpu_row_t){.figure = "host time a copy, batches of 64",
                                                        .unit = "us",
                                                        .value = batched,
                                                        .reference = "queued one by one",
                                                        .reference_value = single});
    }
    copier_close(bench, &copier);
    return status;
}

/* Copies to another device. The first round warms up. */
static dao_status_t copy_to_peer(const dao_bench_gpu_t *bench, const copier_t *copier,
                                 dao_device_place_t peer, void *peer_memory, double *out_rate)
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
    *out_rate = dao_bench_gpu_rate((double)bench->copy_bytes * COPY_ROUNDS, begin_ns);
    return status;
}

static dao_status_t measure_peer(dao_bench_gpu_t *bench, dao_device_place_t peer)
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
        dao_bench_gpu_row(bench, &(dao_bench_gpu_row_t){.figure = "copies to a peer within reach",
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
dao_status_t dao_bench_gpu_peers(dao_bench_gpu_t *bench)
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
