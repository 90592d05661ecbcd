/* SPDX-License-Identifier: Apache-2.0 */
/* What `dao-bench alloc --check`, bench/instructions and the release tests hold the library to: the one table
   of limits. bench/instructions reads it too, a line each. */
#ifndef DAO_TOOLS_BENCH_LIMITS_H
#define DAO_TOOLS_BENCH_LIMITS_H

/* Instructions for a pair of dao_alloc() and dao_free(), every trace. */
#define DAO_BENCH_INSTRUCTIONS_MAX 370

/* The same at the host place, for trace fleet. */
#define DAO_BENCH_INSTRUCTIONS_HOST_MAX 180

/* The same for dao_alloc_async() and dao_free_async() on one idle stream, and on eight in turns, of which
   each free records an event: a2, b1k, c and d, as bench/gate counts them. */
#define DAO_BENCH_INSTRUCTIONS_STREAM_MAX  490
#define DAO_BENCH_INSTRUCTIONS_STREAMS_MAX 770

/* And in percent of a plain pair of the same trace. */
#define DAO_BENCH_STREAM_PERCENT_MAX  150
#define DAO_BENCH_STREAMS_PERCENT_MAX 240

/* The same instructions for b10k, a quarter of whose blocks are small: a stream has no slabs. */
#define DAO_BENCH_INSTRUCTIONS_STREAM_SMALL_MAX  565
#define DAO_BENCH_INSTRUCTIONS_STREAMS_SMALL_MAX 815

/* The same for plain pairs in segments, on a device of four times the peak and of 1.1 times: a2, c and i3. */
#define DAO_BENCH_INSTRUCTIONS_SEGMENTS_MAX       425
#define DAO_BENCH_INSTRUCTIONS_SEGMENTS_TIGHT_MAX 525

/* The same for plain pairs in pages, on a device of 1.1 times the peak: a2 and c. */
#define DAO_BENCH_INSTRUCTIONS_TIGHT_MAX 1150

/* Instructions for a request that is refused while 30,000 holes are almost large enough. */
#define DAO_BENCH_INSTRUCTIONS_REFUSED_MAX 125000

/* Times the instructions to plan a step of four times the kernels, without addresses: 4 log(4 n) / log(n),
   and some more. */
#define DAO_BENCH_INSTRUCTIONS_GROWTH_MAX 6

/* What the cases of `dao-bench alloc --cases` are held to; see bench_cases.c. The first three are times,
   which gates leave out. */
#define DAO_BENCH_COLD_START_MS_MAX 1.0
#define DAO_BENCH_REFUSED_US_MAX    50.0
#define DAO_BENCH_AFTER_ORDERED_MAX 1.1
#define DAO_BENCH_GROWTH_BESIDE_MAX 1.0
#define DAO_BENCH_LARGER_CALLS_MAX  64.0
#define DAO_BENCH_TRIM_CALLS_MAX    1.01 /* one to destroy each page, and one to unmap each run */

/* Trace, or what the names of several begin with, the first that fits; ns of a pair over ns of a lock pair;
   smallest device over peak live without and with page mapping, and of a place that grows
   in segments; host memory of a live block after the build-up. 0: no limit. Last, whether
   pages must be moved where the device is 1.2 times the peak. */
#define DAO_BENCH_LIMIT_LIST(X)                                                                              \
    X("a1", 1.2, 0, 0, 0, 0, false)                                                                          \
    X("a2", 1.6, 0, 0, 0, 0, false)                                                                          \
    X("b1k", 6.5, 1.11, 1.04, 0, 0, false)                                                                   \
    X("b10k", 7.5, 1.07, 1.03, 0, 0, false)                                                                  \
    X("e100k", 0, 0, 0, 0, 40, false)                                                                        \
    X("e1m", 0, 0, 0, 0, 40, false)                                                                          \
    X("cd", 0, 1.004, 1.003, 1.009, 0, false)                                                                \
    X("c", 2.4, 1.004, 1.003, 1.007, 0, false)                                                               \
    X("bert", 0, 1.02, 1.003, 1.06, 0, false)                                                                \
    X("i3", 0, 1.02, 1.003, 1.03, 0, false)                                                                  \
    X("conv", 0, 1.045, 1.05, 0, 0, false)                                                                   \
    X("kvcat", 0, 1.02, 1.035, 0, 0, false)                                                                  \
    X("kvreq", 0, 1.13, 1.14, 0, 0, false)                                                                   \
    X("drift", 0, 1.10, 1.05, 0, 0, false)                                                                   \
    X("huge", 0, 0, 1.02, 0, 0, true)                                                                        \
    X("d", 5, 1.14, 1.02, 0, 0, false)                                                                       \
    X("torch:", 0, 0, 1.02, 0, 0, false)

/* Pages moved on a device of 1.2 times the peak, every other trace. Driver calls are held to one for each
   page of growth: none where nothing grows. */
#define DAO_BENCH_REMAPPED_PAGES_MAX 0

#endif
