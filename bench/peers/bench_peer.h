/* SPDX-License-Identifier: Apache-2.0 */
/* Who is measured: the library's places, on a device that is started for one replay or one measurement and
   stopped again, and allocators of the host. */
#ifndef DAO_TOOLS_BENCH_PEER_H
#define DAO_TOOLS_BENCH_PEER_H

#include "tools/model/alloc_trace.h"

#include <dao/place_config.h>
#include <dao/stream.h>

/* Devices are searched in steps of a page. */
#define DAO_BENCH_PAGE_BYTES ((uint64_t)2 << 20)

/* A device of so many times the peak is large enough for every strategy. */
#define DAO_BENCH_ROOM_FACTOR 4u

/* An allocator. Those of the host have no capacity: only their time is taken. */
typedef struct dao_bench_peer {
    const char *name;
    bool is_device;          /* dao_alloc() on the device that keeps books; it has to be started */
    bool is_host_place;      /* dao_alloc() at the library's host place; the same */
    bool is_ordered;         /* replayed by alloc_on and free_on, on the streams of the device */
    dao_strategy_t strategy; /* of those */
    void *(*alloc)(size_t size_bytes);
    void (*free)(void *address);
    void *(*alloc_on)(size_t size_bytes, dao_stream_t *stream);
    void (*free_on)(void *address, dao_stream_t *stream);
    const char *why_not; /* of one that has no `alloc` */
} dao_bench_peer_t;

/* Returns true if dao_bench_device_start() comes before a peer's first call. */
static inline bool dao_bench_needs_library(const dao_bench_peer_t *peer)
{
    return peer->is_device || peer->is_host_place;
}

/* The device of the library, one row for each way of keeping its memory; the default comes first.
   bench_device_peer.c */
extern const dao_bench_peer_t dao_bench_strategies[];
extern const size_t dao_bench_strategy_count;

/* Host allocators, the library's host place first: index 0, 1, ... NULL behind the last. One that cannot be
   loaded has no `alloc`. bench_peers.c */
const dao_bench_peer_t *dao_bench_host_peer(size_t index);

/* dao_alloc() at the host place. bench_device_peer.c */
void *dao_bench_host_alloc(size_t size_bytes);
void dao_bench_host_free(void *address);

/* The call that does nothing: what a replay itself costs. */
extern const dao_bench_peer_t dao_bench_empty;
extern const dao_bench_peer_t dao_bench_empty_ordered; /* of one that is ordered */

/* ---- bench_device_peer.c ---- */

/* From the next start on devices have no page mapping, and places grow in segments. */
void dao_bench_segments_set(bool is_on);

/* Returns true if a strategy maps pages where the device has them. */
bool dao_bench_maps_pages(const dao_bench_peer_t *peer);

/* Devices that are started from now on have so many streams, at most DAO_BENCH_STREAM_MAX; and these. */
#define DAO_BENCH_STREAM_MAX 32u
void dao_bench_streams_set(uint32_t count);
dao_stream_t *const *dao_bench_streams(uint32_t *out_count);

/* Says what small_bytes of the device places is from the next start on, for strategies that have slabs; 0 is
   the default. */
void dao_bench_small_set(size_t small_bytes);

/* Without pages the device is one contiguous segment, for strategies that place blocks in ranges. */
DAO_NODISCARD dao_status_t dao_bench_device_start(const dao_bench_peer_t *peer, uint64_t device_bytes,
                                                  bool has_pages);
void dao_bench_device_stop(void);

/* Returns the size of a device that is large enough for a trace. */
uint64_t dao_bench_room(const dao_alloc_trace_t *trace);

#endif
