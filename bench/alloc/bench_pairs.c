/* SPDX-License-Identifier: Apache-2.0 */
/* A replay of so many pairs of dao_alloc() and dao_free(), or of the same in the order of streams, for tools
   that count instructions instead of taking time. */
#include "bench/alloc/bench.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <dao/dao.h>

/* Returns the index behind the pair_count-th free of the steady part, and in *out_done how many there
   were. */
static size_t end_of(const dao_alloc_trace_t *trace, uint64_t pair_count, uint64_t *out_done)
{
    size_t end = trace->steady_begin;
    for (*out_done = 0; end < trace->event_count && *out_done < pair_count; end++) {
        *out_done += trace->events[end].size_bytes == 0 ? 1 : 0;
    }
    return end;
}

/* Carries events out in the order of streams, each slot's on one of them; returns the number of events. */
static size_t replay_ordered(dao_stream_t *const *streams, uint32_t stream_count,
                             const dao_alloc_event_t *events, size_t event_count, void **slots)
{
    dao_place_t place = dao_place_of(dao_device_place(0));
    for (size_t i = 0; i < event_count; i++) {
        void **slot = &slots[events[i].slot];
        dao_stream_t *stream = streams[events[i].slot % stream_count];
        if (events[i].size_bytes == 0) {
            (void)dao_free_async(place, *slot, stream); /* a trace frees what it has allocated, once */
        } else if ((*slot = dao_alloc_async(place, (size_t)events[i].size_bytes, stream)) == NULL) {
            return i;
        }
    }
    return event_count;
}

/* The same, with streams of its own. */
static size_t replay_on_streams(uint32_t stream_count, const dao_alloc_event_t *events, size_t event_count,
                                void **slots)
{
    dao_stream_t *streams[DAO_BENCH_STREAM_MAX] = {NULL};
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < stream_count && status == DAO_OK; i++) {
        status = dao_stream_create(0, &streams[i]);
    }
    size_t done_count =
        status == DAO_OK ? replay_ordered(streams, stream_count, events, event_count, slots) : 0;
    for (uint32_t i = 0; i < stream_count; i++) {
        dao_stream_destroy(streams[i]);
    }
    return done_count;
}

static size_t replay(const dao_bench_peer_t *peer, uint32_t stream_count, const dao_alloc_trace_t *trace,
                     size_t event_count, void **slots)
{
    return stream_count > 0 ? replay_on_streams(stream_count, trace->events, event_count, slots)
                            : dao_bench_replay(peer, trace->events, event_count, slots);
}

dao_status_t dao_bench_pairs(const dao_bench_peer_t *peer, const dao_alloc_trace_t *trace,
                             const dao_bench_pairs_config_t *config, uint64_t *out_done)
{
    size_t end = end_of(trace, config->pair_count, out_done);
    dao_status_t status = dao_bench_device_start(peer, config->device_bytes, config->has_pages);
    if (status != DAO_OK) {
        return status;
    }
    void **slots = dao_host_calloc(trace->slot_count, sizeof(*slots));
    if (slots == NULL) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for %zu blocks", trace->slot_count);
    } else if (replay(peer, config->stream_count, trace, end, slots) < end) {
        status = DAO_ERR_NO_DEVICE_MEMORY; /* the allocator has said why */
    }
    dao_host_free(slots);
    dao_bench_device_stop();
    return status;
}
