/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `dao-bench alloc` share: replays, and the figures of one trace with one allocator. */
#ifndef DAO_TOOLS_BENCH_H
#define DAO_TOOLS_BENCH_H

#include "bench/peers/bench_peer.h"
#include "tools/model/alloc_trace.h"

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
