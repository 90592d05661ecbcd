/* SPDX-License-Identifier: Apache-2.0 */
/* What allocators cost in cases that no trace shows: the first block, a refused request, plain pairs behind
   asynchronous ones, tensors that need a place of their own. Each case has a device of its own that keeps
   books. */
#include "bench/alloc/bench.h"
#include "bench/alloc/bench_limits.h"
#include "bench/peers/bench_device.h"

#include "base/memory/host.h"
#include "base/memory/measure.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

#include <dao/dao.h>

enum {
    ROUND_COUNT = 9, /* of times, of which the shortest counts */
    DEPTH = 64,      /* pairs are last in, first out, so many deep */
    REPEAT_COUNT = 40,
    STREAM_COUNT = 8,
};

#define GIB_BYTES ((uint64_t)1 << 30)
#define MIB_BYTES ((uint64_t)1 << 20)
#define KIB_BYTES ((uint64_t)1 << 10)

#define NS_PER_MS 1e6
#define NS_PER_US 1e3

typedef struct cases {
    dao_bench_case_t *items;
    size_t count;
    dao_status_t status; /* the first failure; nothing is done behind it */
} cases_t;

/* The library's default. */
static const dao_bench_peer_t *peer(void)
{
    return &dao_bench_strategies[0];
}

static dao_place_t place(void)
{
    return dao_place_of(dao_device_place(0));
}

static void add(cases_t *cases, const char *name, const char *text, double figure, double most,
                bool is_a_time)
{
    if (cases->status == DAO_OK && cases->count < DAO_BENCH_CASE_MAX) {
        cases->items[cases->count++] = (dao_bench_case_t){
            .name = name, .text = text, .figure = figure, .most = most, .is_a_time = is_a_time};
    }
}

static void start(cases_t *cases, uint64_t device_bytes)
{
    if (cases->status == DAO_OK) {
        cases->status = dao_bench_device_start(peer(), device_bytes, true);
    }
}

/* Takes a block of the device that is started; NULL behind a failure. */
static void *take(cases_t *cases, uint64_t size_bytes)
{
    void *block = cases->status == DAO_OK ? peer()->alloc((size_t)size_bytes) : NULL;
    cases->status = cases->status == DAO_OK && block == NULL ? dao_last_status() : cases->status;
    return block;
}

static void give(void *block)
{
    if (block != NULL) {
        peer()->free(block);
    }
}

static dao_stats_t stats_of(cases_t *cases)
{
    dao_stats_t stats = {0};
    if (cases->status == DAO_OK) {
        cases->status = dao_stats_get(place(), &stats);
    }
    return stats;
}

/* ---- cold start ---- */

static void cold_start(cases_t *cases)
{
    double least_ns = 0;
    for (int i = 0; i < ROUND_COUNT && cases->status == DAO_OK; i++) {
        uint64_t begin_ns = dao_clock_ns();
        start(cases, 80 * GIB_BYTES);
        (void)take(cases, MIB_BYTES);
        double ns = (double)(dao_clock_ns() - begin_ns);
        least_ns = least_ns == 0 || ns < least_ns ? ns : least_ns;
        dao_bench_device_stop();
    }
    add(cases, "cold_start_ms", "start and first block, device of 80 GiB", least_ns / NS_PER_MS,
        DAO_BENCH_COLD_START_MS_MAX, true);
}

/* ---- a refused request ---- */

#define HOLE_BYTES (64 * KIB_BYTES)
#define WALL_BYTES (48 * KIB_BYTES) /* larger than what comes out of slabs */

enum { REFUSAL_COUNT = 100 };

/* Leaves holes of one size between blocks that stay on a full device. */
static void make_holes(cases_t *cases, void **holes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        holes[i] = take(cases, HOLE_BYTES);
        (void)take(cases, WALL_BYTES);
    }
    while (cases->status == DAO_OK && peer()->alloc(MIB_BYTES) != NULL) {
    }
    while (cases->status == DAO_OK && peer()->alloc(HOLE_BYTES) != NULL) {
    }
    for (size_t i = 0; i < count; i++) {
        give(holes[i]);
    }
}

static void refused_request(cases_t *cases, size_t hole_count)
{
    void **holes = dao_host_calloc(hole_count, sizeof(*holes));
    if (holes == NULL) {
        cases->status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu holes", hole_count);
        return;
    }
    start(cases, dao_round_up(hole_count * (HOLE_BYTES + WALL_BYTES), DAO_BENCH_PAGE_BYTES) + 2 * MIB_BYTES);
    make_holes(cases, holes, hole_count);
    dao_host_free(holes);
    double least_ns = 0;
    for (int i = 0; i < REFUSAL_COUNT && cases->status == DAO_OK; i++) {
        uint64_t begin_ns = dao_clock_ns();
        if (peer()->alloc(HOLE_BYTES + KIB_BYTES) != NULL) {
            cases->status = dao_error(DAO_ERR_BACKEND, "a request was served where no hole is as large");
        }
        double ns = (double)(dao_clock_ns() - begin_ns);
        least_ns = least_ns == 0 || ns < least_ns ? ns : least_ns;
    }
    dao_bench_device_stop();
    add(cases, "refused_us", "a refused request, 30,000 holes in its bin", least_ns / NS_PER_US,
        DAO_BENCH_REFUSED_US_MAX, true);
}

/* ---- plain pairs behind asynchronous ones ---- */

static void plain_pairs(cases_t *cases, size_t size_bytes)
{
    void *blocks[DEPTH];
    for (int k = 0; k < REPEAT_COUNT; k++) {
        for (size_t i = 0; i < DEPTH; i++) {
            blocks[i] = take(cases, size_bytes);
        }
        for (size_t i = DEPTH; i > 0; i--) {
            give(blocks[i - 1]);
        }
    }
}

/* Returns the processor time of a plain pair in ns. */
static double plain_ns(cases_t *cases, size_t size_bytes)
{
    double least_ns = 0;
    for (int i = 0; i < ROUND_COUNT; i++) {
        uint64_t begin_ns = dao_measure_thread_ns();
        plain_pairs(cases, size_bytes);
        double ns = (double)(dao_measure_thread_ns() - begin_ns) / (DEPTH * REPEAT_COUNT);
        least_ns = least_ns == 0 || ns < least_ns ? ns : least_ns;
    }
    return least_ns;
}

/* The same blocks on all streams, a slot each in turns. */
static void ordered_pairs(cases_t *cases, size_t size_bytes)
{
    uint32_t stream_count;
    dao_stream_t *const *streams = dao_bench_streams(&stream_count);
    void *blocks[DEPTH];
    for (int k = 0; k < REPEAT_COUNT && cases->status == DAO_OK; k++) {
        for (size_t i = 0; i < DEPTH && cases->status == DAO_OK; i++) {
            blocks[i] = peer()->alloc_on(size_bytes, streams[i % stream_count]);
            cases->status = blocks[i] == NULL ? dao_last_status() : DAO_OK;
        }
        for (size_t i = DEPTH; i > 0 && cases->status == DAO_OK; i--) {
            peer()->free_on(blocks[i - 1], streams[(i - 1) % stream_count]);
        }
    }
}

static void synchronize(cases_t *cases)
{
    uint32_t stream_count;
    dao_stream_t *const *streams = dao_bench_streams(&stream_count);
    for (uint32_t i = 0; i < stream_count && cases->status == DAO_OK; i++) {
        cases->status = dao_stream_synchronize(streams[i]);
    }
}

/* Returns the time of plain pairs once streams that were behind have been synchronized, over that before. */
static double ratio_after(cases_t *cases, size_t size_bytes)
{
    dao_bench_streams_set(STREAM_COUNT);
    start(cases, 16 * GIB_BYTES);
    double before_ns = plain_ns(cases, size_bytes);
    dao_bench_device_hold(true);
    ordered_pairs(cases, size_bytes);
    dao_bench_device_hold(false);
    synchronize(cases);
    double after_ns = plain_ns(cases, size_bytes);
    dao_bench_device_stop();
    dao_bench_streams_set(0);
    return before_ns > 0 ? after_ns / before_ns : 0;
}

/* Returns what a place has after pairs on idle streams, synchronized, and plain ones, over what the first
   plain ones took. */
static double growth_beside(cases_t *cases, size_t size_bytes)
{
    dao_bench_streams_set(STREAM_COUNT);
    start(cases, 16 * GIB_BYTES);
    plain_pairs(cases, size_bytes);
    uint64_t before_bytes = stats_of(cases).reserved_bytes;
    ordered_pairs(cases, size_bytes);
    synchronize(cases);
    plain_pairs(cases, size_bytes);
    uint64_t after_bytes = stats_of(cases).reserved_bytes;
    dao_bench_device_stop();
    dao_bench_streams_set(0);
    return before_bytes > 0 ? (double)after_bytes / (double)before_bytes : 0;
}

static void after_ordered_pairs(cases_t *cases)
{
    static const size_t sizes_bytes[] = {1 << 10, 64 << 10, 1 << 20, 16 << 20};
    double most_ratio = 0, most_growth = 0;
    for (size_t i = 0; i < sizeof(sizes_bytes) / sizeof(sizes_bytes[0]); i++) {
        double ratio = ratio_after(cases, sizes_bytes[i]);
        double growth = growth_beside(cases, sizes_bytes[i]);
        most_ratio = ratio > most_ratio ? ratio : most_ratio;
        most_growth = growth > most_growth ? growth : most_growth;
    }
    add(cases, "after_ordered", "plain pairs after pairs on 8 streams over before, worst of 1 KiB to 16 MiB",
        most_ratio, DAO_BENCH_AFTER_ORDERED_MAX, true);
    add(cases, "growth_beside", "what the place has then, over what it had", most_growth,
        DAO_BENCH_GROWTH_BESIDE_MAX, false);
}

/* ---- tensors that need a place of their own ---- */

/* A tensor of 16 GiB goes, with a block behind it, and one of 64 MiB more is asked for. */
static void larger_again(cases_t *cases)
{
    start(cases, 160 * GIB_BYTES);
    void *wide = take(cases, 16 * GIB_BYTES);
    (void)take(cases, MIB_BYTES);
    give(wide);
    dao_stats_t before = stats_of(cases);
    uint64_t before_calls = dao_bench_device_calls();
    (void)take(cases, 16 * GIB_BYTES + 64 * MIB_BYTES);
    double calls = (double)(dao_bench_device_calls() - before_calls);
    double moved = (double)(stats_of(cases).remap_count - before.remap_count);
    dao_bench_device_stop();
    add(cases, "larger_calls", "driver calls for 16 GiB and 64 MiB where 16 GiB are free, device of 160 GiB",
        calls, DAO_BENCH_LARGER_CALLS_MAX, false);
    add(cases, "larger_moved", "pages moved for it", moved, DAO_BENCH_REMAPPED_PAGES_MAX, false);
}

/* A tensor of 16 GiB goes, and its pages are given back. */
static void trimmed(cases_t *cases)
{
    start(cases, 160 * GIB_BYTES);
    give(take(cases, 16 * GIB_BYTES));
    uint64_t before_calls = dao_bench_device_calls();
    size_t released_bytes = 0;
    if (cases->status == DAO_OK) {
        cases->status = dao_trim(place(), 0, &released_bytes);
    }
    double calls = (double)(dao_bench_device_calls() - before_calls);
    dao_bench_device_stop();
    add(cases, "trim_calls", "driver calls for a page that trimming gives back, 16 GiB side by side",
        released_bytes > 0 ? calls / ((double)released_bytes / DAO_BENCH_PAGE_BYTES) : 0,
        DAO_BENCH_TRIM_CALLS_MAX, false);
}

/* Holes of half a GiB and more, ten GiB in all, none of which is as large. */
static void tensor_among_holes(cases_t *cases)
{
    enum { COUNT = 40 };
    void *blocks[COUNT];
    start(cases, 160 * GIB_BYTES);
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = take(cases, GIB_BYTES / 2 + i * MIB_BYTES);
    }
    for (size_t i = 0; i < COUNT; i += 2) {
        give(blocks[i]);
    }
    dao_stats_t before = stats_of(cases);
    (void)take(cases, GIB_BYTES / 10 * 336);
    double moved = (double)(stats_of(cases).remap_count - before.remap_count);
    dao_bench_device_stop();
    add(cases, "tensor_moved", "pages moved for a tensor of 33.6 GiB where 138 GiB are free", moved,
        DAO_BENCH_REMAPPED_PAGES_MAX, false);
}

dao_status_t dao_bench_cases(size_t hole_count, dao_bench_case_t out_cases[DAO_BENCH_CASE_MAX],
                             size_t *out_count)
{
    cases_t cases = {.items = out_cases};
    cold_start(&cases);
    refused_request(&cases, hole_count);
    after_ordered_pairs(&cases);
    larger_again(&cases);
    trimmed(&cases);
    tensor_among_holes(&cases);
    *out_count = cases.count;
    return cases.status;
}
