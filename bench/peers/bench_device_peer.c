/* SPDX-License-Identifier: Apache-2.0 */
/* The library as one of the measured allocators: its public pointer API on the device that keeps books. */
#include "bench/peers/bench_peer.h"

#include "base/report/assert.h"
#include "bench/peers/bench_device.h"
#include "runtime/start/context.h"

#include <dao/dao.h>

static void *device_alloc(size_t size_bytes)
{
    return dao_alloc(dao_device_place(0), size_bytes);
}

static void device_free(void *address)
{
    (void)dao_free(dao_device_place(0), address); /* a trace frees what it has allocated, once */
}

static void *device_alloc_on(size_t size_bytes, dao_stream_t *stream)
{
    return dao_alloc_async(dao_place_of(dao_device_place(0)), size_bytes, stream);
}

static void device_free_on(void *address, dao_stream_t *stream)
{
    (void)dao_free_async(dao_place_of(dao_device_place(0)), address, stream); /* the same */
}

void *dao_bench_host_alloc(size_t size_bytes)
{
    return dao_alloc(dao_cpu_place(), size_bytes);
}

void dao_bench_host_free(void *address)
{
    (void)dao_free(dao_cpu_place(), address); /* a trace frees what it has allocated, once */
}

const dao_bench_peer_t dao_bench_strategies[] = {
#define STRATEGY_PEER(number, symbol, text, help)                                                            \
    {.name = (text),                                                                                         \
     .is_device = true,                                                                                      \
     .strategy = DAO_STRATEGY_##symbol,                                                                      \
     .alloc = device_alloc,                                                                                  \
     .free = device_free,                                                                                    \
     .alloc_on = device_alloc_on,                                                                            \
     .free_on = device_free_on},
    DAO_STRATEGY_LIST(STRATEGY_PEER)
#undef STRATEGY_PEER
};

const size_t dao_bench_strategy_count = sizeof(dao_bench_strategies) / sizeof(dao_bench_strategies[0]);

static bool places_in_ranges(const dao_bench_peer_t *peer)
{
    return peer->strategy == DAO_STRATEGY_GOOD_FIT || peer->strategy == DAO_STRATEGY_BEST_FIT;
}

static bool in_segments; /* devices that are started have no page mapping, and are not one segment */

void dao_bench_segments_set(bool is_on)
{
    in_segments = is_on;
}

bool dao_bench_maps_pages(const dao_bench_peer_t *peer)
{
    return !in_segments && places_in_ranges(peer);
}

static size_t small_bytes; /* of the places that are started */

void dao_bench_small_set(size_t bytes)
{
    small_bytes = bytes;
}

static uint32_t stream_count; /* of the devices that are started */
static dao_stream_t *streams[DAO_BENCH_STREAM_MAX];

void dao_bench_streams_set(uint32_t count)
{
    DAO_ASSERT(count <= DAO_BENCH_STREAM_MAX);
    stream_count = count;
}

dao_stream_t *const *dao_bench_streams(uint32_t *out_count)
{
    *out_count = stream_count;
    return streams;
}

static dao_status_t create_streams(void)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < stream_count && status == DAO_OK; i++) {
        status = dao_stream_create(0, &streams[i]);
    }
    return status;
}

dao_status_t dao_bench_device_start(const dao_bench_peer_t *peer, uint64_t device_bytes, bool has_pages)
{
    dao_config_t config = {
        .cpu = {.device_bytes = device_bytes, .no_page_mapping = !has_pages || in_segments}};
    bool is_one_piece = !has_pages && dao_bench_maps_pages(peer); /* the others never join what they take */
    dao_place_config_t place = {.strategy = peer->strategy,
                                .small_bytes = places_in_ranges(peer) ? small_bytes : 0,
                                .initial_bytes = is_one_piece ? (size_t)device_bytes : 0};
    dao_status_t status = dao_context_start(&config, &dao_bench_device_ops);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_place_configure(dao_place_of(dao_device_place(0)), &place);
    if (status == DAO_OK) {
        status = create_streams();
    }
    if (status != DAO_OK) {
        dao_bench_device_stop();
    }
    return status;
}

void dao_bench_device_stop(void)
{
    for (uint32_t i = 0; i < DAO_BENCH_STREAM_MAX; i++) {
        dao_stream_destroy(streams[i]);
        streams[i] = NULL;
    }
    (void)dao_finalize(); /* blocks that are still live go with it */
}

uint64_t dao_bench_room(const dao_alloc_trace_t *trace)
{
    return (trace->peak_bytes / DAO_BENCH_PAGE_BYTES + 64) * DAO_BENCH_ROOM_FACTOR * DAO_BENCH_PAGE_BYTES;
}
