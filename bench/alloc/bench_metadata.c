/* SPDX-License-Identifier: Apache-2.0 */
/* The host memory that the library takes for a live block of a device, by what the process has in memory
   before and after:

       | slots | device, first block |  ... builds up ...  | packed |  ... steady part ... | after |
                                     ^ 0                            ^ metadata_packed_bytes        ^ metadata

   The device's own books are taken off. Free pages of malloc() are given back before, so that what is taken
   later is seen. */
#include "bench/alloc/bench.h"
#include "bench/peers/bench_device.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <dao/dao.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 256 };

/* Returns what the process has in memory, without the device's books; 0: the system does not tell. */
static uint64_t resident_bytes(void)
{
    uint64_t kib = 0;
    char line[LINE_BYTES];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file != NULL && kib == 0 && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "Rss: %" SCNu64, &kib) != 1) {
            kib = 0;
        }
    }
    if (file != NULL) {
        (void)fclose(file); /* it was read only */
    }
    return kib == 0 ? 0 : (kib << 10) - dao_bench_device_own_bytes();
}

static double each_bytes(uint64_t before_bytes, uint64_t count)
{
    uint64_t now_bytes = resident_bytes();
    return before_bytes == 0 || now_bytes <= before_bytes
               ? DAO_BENCH_NONE
               : (double)(now_bytes - before_bytes) / (double)count;
}

/* On the device that is started. */
static dao_status_t measure(const dao_bench_peer_t *peer, const dao_alloc_trace_t *trace, void **slots,
                            dao_bench_figures_t *figures)
{
    peer->free(peer->alloc(1)); /* what a place has from its first block on is not counted */
    uint64_t before_bytes = resident_bytes();
    size_t packed = trace->steady_begin;
    size_t done = dao_bench_replay(peer, trace->events, packed, slots);
    uint64_t live_count = 0;
    for (size_t i = 0; i < trace->slot_count; i++) {
        live_count += slots[i] != NULL;
    }
    double packed_bytes = each_bytes(before_bytes, live_count > 0 ? live_count : 1);
    if (done == packed) {
        done += dao_bench_replay(peer, &trace->events[packed], trace->event_count - packed, slots);
    }
    if (done < trace->event_count) {
        return dao_last_status();
    }
    figures->metadata_packed_bytes =
        live_count >= DAO_BENCH_METADATA_COUNT_MIN ? packed_bytes : DAO_BENCH_NONE;
    figures->metadata_bytes = trace->live_count >= DAO_BENCH_METADATA_COUNT_MIN
                                  ? each_bytes(before_bytes, trace->live_count)
                                  : DAO_BENCH_NONE;
    return DAO_OK;
}

dao_status_t dao_bench_metadata(const dao_bench_peer_t *peer, const dao_alloc_trace_t *trace,
                                dao_bench_figures_t *figures)
{
    if (trace->peak_count < DAO_BENCH_METADATA_COUNT_MIN) {
        return DAO_OK;
    }
    void **slots = dao_host_calloc(trace->slot_count, sizeof(*slots));
    if (slots == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu slots", trace->slot_count);
    }
    (void)dao_bench_replay(&dao_bench_empty, trace->events, trace->event_count, slots); /* touches all */
    memset(slots, 0, trace->slot_count * sizeof(*slots));
    dao_host_give_back();
    dao_status_t status = dao_bench_device_start(peer, dao_bench_room(trace), true);
    if (status == DAO_OK) {
        status = measure(peer, trace, slots, figures);
        dao_bench_clear(peer, trace, slots);
        dao_bench_device_stop();
    }
    dao_host_free(slots);
    return status;
}
