/* SPDX-License-Identifier: Apache-2.0 */
/* A replay of so many pairs of dao_alloc() and dao_free(), or of the same in the order of streams, for tools
   that count instructions instead of taking time. */
#include "bench/alloc/bench.h"

#include "base/memory/host.h"
#include "base/report/error.h"

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

dao_status_t dao_bench_pairs(const dao_bench_peer_t *peer, const dao_alloc_trace_t *trace,
                             const dao_bench_pairs_config_t *config, uint64_t *out_done)
{
    size_t end = end_of(trace, config->pair_count, out_done);
    dao_status_t status = dao_bench_device_start(peer, config->device_bytes, true);
    if (status != DAO_OK) {
        return status;
    }
    void **slots = dao_host_calloc(trace->slot_count, sizeof(*slots));
    if (slots == NULL) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for %zu blocks", trace->slot_count);
    } else if (dao_bench_replay(peer, trace->events, end, slots) < end) {
        status = DAO_ERR_NO_DEVICE_MEMORY; /* the allocator has said why */
    }
    dao_host_free(slots);
    dao_bench_device_stop();
    return status;
}
