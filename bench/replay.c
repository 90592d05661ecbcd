/* SPDX-License-Identifier: Apache-2.0 */
/* Replays so many pairs of a trace through dao_alloc() and dao_free() on the device that keeps books, for
   tools that count instead of measuring: `replay TRACE PAIRS SEED [FOLDER]`, with TRACE as in `dao bench
   alloc` or torch:MODEL in FOLDER. Prints the pairs that were replayed behind what builds the trace up. */
#include "base/memory/host.h"
#include "bench/alloc/bench.h"
#include "tools/read/events/read_events.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TORCH_PREFIX "torch:"

static dao_status_t read_trace(const char *name, uint64_t pair_count, uint64_t seed, const char *folder,
                               dao_alloc_trace_t *out_trace)
{
    dao_alloc_trace_config_t config = {.seed = seed, .pair_count = pair_count};
    if (strncmp(name, TORCH_PREFIX, strlen(TORCH_PREFIX)) != 0) {
        return dao_alloc_trace_make(name, &config, out_trace);
    }
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name + strlen(TORCH_PREFIX));
    return dao_read_events(path, name, out_trace);
}

/* Gives the event behind the pair_count-th free of the steady part, and in *out_done how many there were. */
static size_t end_of(const dao_alloc_trace_t *trace, uint64_t pair_count, uint64_t *out_done)
{
    size_t end = trace->steady_begin;
    for (*out_done = 0; end < trace->event_count && *out_done < pair_count; end++) {
        *out_done += trace->events[end].size_bytes == 0 ? 1 : 0;
    }
    return end;
}

static dao_status_t replay(const dao_alloc_trace_t *trace, uint64_t pair_count)
{
    const dao_bench_peer_t *peer = &dao_bench_strategies[0];
    uint64_t done_count = 0;
    size_t end = end_of(trace, pair_count, &done_count);
    dao_status_t status = dao_bench_device_start(peer, dao_bench_room(trace), true);
    if (status != DAO_OK) {
        return status;
    }
    void **slots = dao_host_calloc(trace->slot_count, sizeof(*slots));
    if (slots == NULL || dao_bench_replay(peer, trace->events, end, slots) < end) {
        status = DAO_ERR_NO_DEVICE_MEMORY;
    }
    dao_host_free(slots);
    dao_bench_device_stop();
    (void)printf("%" PRIu64 "\n", done_count);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        (void)fprintf(stderr, "usage: replay TRACE PAIRS SEED [FOLDER]\n");
        return 2;
    }
    dao_alloc_trace_t trace;
    uint64_t pair_count = strtoull(argv[2], NULL, 10);
    dao_status_t status =
        read_trace(argv[1], pair_count, strtoull(argv[3], NULL, 10), argc > 4 ? argv[4] : ".", &trace);
    if (status == DAO_OK) {
        status = replay(&trace, pair_count);
        dao_alloc_trace_finish(&trace);
    }
    if (status != DAO_OK) {
        (void)fprintf(stderr, "replay: %s\n", dao_last_message());
    }
    return status != DAO_OK;
}
