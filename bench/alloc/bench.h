/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `dao-bench alloc` share: the allocators, replays, and the figures of one trace with one
   of them. */
#ifndef DAO_TOOLS_BENCH_H
#define DAO_TOOLS_BENCH_H

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

/* The device of the library, one row for each way of keeping its memory; the default comes first.
   peers/bench_device_peer.c */
extern const dao_bench_peer_t dao_bench_strategies[];
extern const size_t dao_bench_strategy_count;

/* Host allocators, the library's host place first: index 0, 1, ... NULL behind the last. One that cannot be
   loaded has no `alloc`. peers/bench_peers.c */
const dao_bench_peer_t *dao_bench_host_peer(size_t index);

/* dao_alloc() at the host place. peers/bench_device_peer.c */
void *dao_bench_host_alloc(size_t size_bytes);
void dao_bench_host_free(void *address);

/* The call that does nothing: what a replay itself costs. */
extern const dao_bench_peer_t dao_bench_empty;
extern const dao_bench_peer_t dao_bench_empty_ordered; /* of one that is ordered */

/* A figure that was not taken, or does not apply. */
#define DAO_BENCH_NONE (-1.0)

/* The figures of a row. Each is DAO_BENCH_NONE where it does not apply. */
#define DAO_BENCH_FIGURE_LIST(X)                                                                             \
    X(ns_per_pair, "processor time, without the empty call; median of the rounds")                           \
    X(lock_ns, "of an uncontended lock and unlock, beside those rounds")                                     \
    X(p99_ns, "of single operations, without the clock and the empty call")                                  \
    X(p999_ns, "the same")                                                                                   \
    X(p9999_ns, "the same")                                                                                  \
    X(max_ns, "the longest of them")                                                                         \
    X(footprint_ratio, "peak reserved over peak live, on a device that is large enough")                     \
    X(capacity_ratio, "smallest device over peak live: one contiguous segment")                              \
    X(capacity_ratio_remap, "the same with page mapping")                                                    \
    X(driver_calls, "of a replay on a device that is large enough, with page mapping")                       \
    X(growth_bytes, "what they took")                                                                        \
    X(steady_calls, "of a second replay behind it")                                                          \
    X(steady_growth_bytes, "what those took")                                                                \
    X(metadata_bytes, "host memory of a live block: after the trace, of many live blocks")                   \
    X(metadata_packed_bytes, "the same before the first free of its steady part")                            \
    X(remapped_pages, "on a device of 1.2 times the peak")                                                   \
    X(threads_ns, "of a pair, several threads together, by the clock on the wall")                           \
    X(threads_scaling, "how many times the pairs of one of them alone they do in the same time")             \
    X(threads_cpu_ratio, "processor time of a pair of theirs, over that of one of them alone")               \
    X(threads_overlap, "the least part of a slice in which all of them ran")                                 \
    X(plain_ns, "of a plain pair of the same trace, beside one in the order of streams")

typedef struct dao_bench_figures {
#define DAO_BENCH_FIGURE(name, text) double name;
    DAO_BENCH_FIGURE_LIST(DAO_BENCH_FIGURE)
#undef DAO_BENCH_FIGURE
} dao_bench_figures_t;

/* ---- bench_replay.c ---- */

/* Carries events out; gives the number of them that were. Fewer than asked for: the allocator refused the
   next one. */
size_t dao_bench_replay(const dao_bench_peer_t *peer, const dao_alloc_event_t *events, size_t event_count,
                        void **slots);

/* Frees what replays have left, and empties all slots. */
void dao_bench_clear(const dao_bench_peer_t *peer, const dao_alloc_trace_t *trace, void **slots);

/* Takes the time of a trace: ns_per_pair, lock_ns, p99_ns to max_ns. */
DAO_NODISCARD dao_status_t dao_bench_speed(const dao_bench_peer_t *peer, const dao_alloc_trace_t *trace,
                                           uint64_t round_count, dao_bench_figures_t *figures);

/* ---- peers/bench_device_peer.c: the device is started for one replay or one measurement and stopped again
 * ---- */

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

/* ---- bench_memory.c ---- */

/* Finds the memory that a trace needs: footprint, capacities, driver calls, remapped pages. */
DAO_NODISCARD dao_status_t dao_bench_memory(const dao_bench_peer_t *peer, const dao_alloc_trace_t *trace,
                                            dao_bench_figures_t *figures);

/* ---- bench_metadata.c ---- */

/* With fewer live blocks than that what else a process holds would be a part of the figure. */
#define DAO_BENCH_METADATA_COUNT_MIN 10000u

/* Measures the host memory of a live block: metadata_bytes and metadata_packed_bytes, where the system tells
   what a process has and the trace has enough blocks. */
DAO_NODISCARD dao_status_t dao_bench_metadata(const dao_bench_peer_t *peer, const dao_alloc_trace_t *trace,
                                              dao_bench_figures_t *figures);

/* ---- bench_cases.c ---- */

/* A figure that is of no trace. */
typedef struct dao_bench_case {
    const char *name;
    const char *text;
    double figure;
    double most;    /* that is allowed */
    bool is_a_time; /* which the load changes */
} dao_bench_case_t;

#define DAO_BENCH_CASE_MAX 16u

/* Holes of the case of a refused request. */
#define DAO_BENCH_HOLE_COUNT 30000u

/* Takes the figures of all cases, that of a refused request among `hole_count` holes. */
DAO_NODISCARD dao_status_t dao_bench_cases(size_t hole_count, dao_bench_case_t out_cases[DAO_BENCH_CASE_MAX],
                                           size_t *out_count);

/* ---- bench_pairs.c ---- */

typedef struct dao_bench_pairs_config {
    uint64_t pair_count;
    uint64_t device_bytes;
    bool has_pages;
} dao_bench_pairs_config_t;

/* Replays what builds a trace up and so many pairs of its steady part, or all if there are fewer. *out_done:
   the pairs that were replayed. */
DAO_NODISCARD dao_status_t dao_bench_pairs(const dao_bench_peer_t *peer, const dao_alloc_trace_t *trace,
                                           const dao_bench_pairs_config_t *config, uint64_t *out_done);

/* ---- bench_threads.c ---- */

/* Takes threads_ns, threads_scaling and threads_cpu_ratio; the i-th thread replays the i-th trace, from the
   first one again behind the last. */
DAO_NODISCARD dao_status_t dao_bench_threads(const dao_bench_peer_t *peer, const dao_alloc_trace_t *traces,
                                             size_t trace_count, size_t thread_count,
                                             dao_bench_figures_t *figures);

#endif
