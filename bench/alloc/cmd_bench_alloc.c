/* SPDX-License-Identifier: Apache-2.0 */
/* `dao-bench alloc`: the library's allocators and those of the host, side by side over the same traces. */
#define _GNU_SOURCE
#include "bench/alloc/bench.h"
#include "bench/alloc/bench_report.h"
#include "bench/commands.h"
#include "bench/traces/made_trace.h"
#include "bench/traces/recorded_trace.h"
#include "tools/options/complain.h"
#include "tools/read/step/trace_files.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/numbers/units.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

#include <dao/dao.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TORCH_PREFIX "torch:"

enum { SEED_COUNT_MAX = 16 /* of threads, too */ };

/* Settings, read. */
typedef struct bench {
    const char *trace;    /* NULL: all */
    const char *strategy; /* NULL: all */
    uint64_t seed;
    uint64_t seed_count;
    uint64_t thread_count; /* 0: not by threads */
    uint64_t pair_count;   /* 0: figures; else pairs are replayed, and nothing is measured */
    uint64_t stream_count; /* 0: plain pairs; else pairs in the order of so many, beside plain ones */
    uint64_t round_count;
    uint64_t percent; /* of the peak; 0: ample */
    bool with_speed;
    bool with_memory;
    const char *torch_folder;
    bool needs_torch; /* it was asked for */
    dao_bench_report_t report;
} bench_t;

/* ---- one row ---- */

static bool is_wanted(const bench_t *bench, const char *strategy)
{
    return bench->strategy == NULL || strcmp(bench->strategy, strategy) == 0;
}

/* Returns the bytes of the device for a trace. */
static uint64_t device_bytes(const bench_t *bench, const dao_alloc_trace_t *trace)
{
    return bench->percent == 0 ? dao_bench_room(trace)
                               : dao_round_up(trace->peak_bytes / 100 * bench->percent, DAO_BENCH_PAGE_BYTES);
}

static dao_status_t speed_on_device(const bench_t *bench, const dao_bench_peer_t *peer,
                                    const dao_alloc_trace_t *trace, dao_bench_figures_t *figures)
{
    dao_status_t status = dao_bench_device_start(peer, device_bytes(bench, trace), true);
    if (status == DAO_OK) {
        status = dao_bench_speed(peer, trace, bench->round_count, figures);
        dao_bench_device_stop();
    }
    return status;
}

static dao_status_t take_figures(const bench_t *bench, const dao_bench_peer_t *peer,
                                 const dao_alloc_trace_t *trace, dao_bench_figures_t *figures)
{
    dao_status_t status = DAO_OK;
    if (bench->with_speed) {
        status = dao_bench_needs_library(peer) ? speed_on_device(bench, peer, trace, figures)
                                               : dao_bench_speed(peer, trace, bench->round_count, figures);
    }
    if (status == DAO_OK && bench->with_memory && peer->is_device) {
        status = dao_bench_memory(peer, trace, figures);
    }
    return status;
}

/* The same trace made from several seeds, or a recorded one. */
typedef struct traces {
    dao_alloc_trace_t items[SEED_COUNT_MAX];
    size_t count;
} traces_t;

static dao_status_t run_threads(bench_t *bench, const dao_bench_peer_t *peer, const traces_t *traces)
{
    dao_bench_figures_t figures = dao_bench_figures_none();
    dao_status_t status =
        dao_bench_threads(peer, traces->items, traces->count, (size_t)bench->thread_count, &figures);
    if (status == DAO_OK) {
        dao_bench_report_row(&bench->report, traces->items[0].name, peer->name, &figures);
    }
    return status;
}

/* Prints the pairs that were replayed. */
static dao_status_t run_pairs(const bench_t *bench, const dao_bench_peer_t *peer,
                              const dao_alloc_trace_t *trace)
{
    uint64_t done_count = 0;
    dao_bench_pairs_config_t config = {.pair_count = bench->pair_count,
                                       .device_bytes = device_bytes(bench, trace)};
    dao_status_t status = dao_bench_pairs(peer, trace, &config, &done_count);
    if (status == DAO_OK) {
        (void)printf("%" PRIu64 "\n", done_count);
    }
    return status;
}

/* Returns the peer in the order of the device's streams. */
static dao_bench_peer_t ordered(const dao_bench_peer_t *peer)
{
    dao_bench_peer_t of_streams = *peer;
    of_streams.is_ordered = true;
    return of_streams;
}

/* Takes the time of a trace in the order of streams, and of plain pairs beside it. */
static dao_status_t run_ordered(bench_t *bench, const dao_bench_peer_t *peer, const dao_alloc_trace_t *trace)
{
    dao_bench_peer_t of_streams = ordered(peer);
    dao_bench_figures_t plain = dao_bench_figures_none();
    dao_bench_figures_t figures = dao_bench_figures_none();
    dao_status_t status = speed_on_device(bench, peer, trace, &plain);
    if (status == DAO_OK) {
        status = speed_on_device(bench, &of_streams, trace, &figures);
    }
    if (status == DAO_OK) {
        figures.plain_ns = plain.ns_per_pair;
        dao_bench_report_row(&bench->report, trace->name, peer->name, &figures);
    }
    return status;
}

static dao_status_t run_peer(bench_t *bench, const dao_bench_peer_t *peer, const traces_t *traces)
{
    if (bench->thread_count > 0) {
        return run_threads(bench, peer, traces);
    }
    dao_bench_peer_t of_streams = ordered(peer);
    if (bench->pair_count > 0) {
        return run_pairs(bench, bench->stream_count > 0 ? &of_streams : peer, &traces->items[0]);
    }
    if (bench->stream_count > 0) {
        return run_ordered(bench, peer, &traces->items[0]);
    }
    dao_bench_figures_t rows[SEED_COUNT_MAX];
    for (size_t i = 0; i < traces->count; i++) {
        rows[i] = dao_bench_figures_none();
        dao_status_t status = take_figures(bench, peer, &traces->items[i], &rows[i]);
        if (status != DAO_OK) {
            return status;
        }
    }
    dao_bench_figures_t mean = dao_bench_figures_mean(rows, traces->count);
    dao_bench_report_row(&bench->report, traces->items[0].name, peer->name, &mean);
    return DAO_OK;
}

/* Allocators of the host give each large block a mapping, and write to it: a process has too few of them for
   the largest traces. */
static bool can_play(const dao_alloc_trace_t *trace)
{
    static const uint64_t count_max = 5000;
    return dao_alloc_trace_is_of_host(trace->name) || trace->peak_count <= count_max;
}

static dao_status_t run_host_peer(bench_t *bench, const dao_bench_peer_t *peer, const traces_t *traces)
{
    const char *why_not = peer->alloc == NULL            ? peer->why_not
                          : !can_play(&traces->items[0]) ? "has too few mappings for it"
                                                         : NULL;
    if (why_not == NULL) {
        return run_peer(bench, peer, traces);
    }
    dao_bench_report_skip(&bench->report, traces->items[0].name, peer->name, why_not);
    return DAO_OK;
}

static dao_status_t run_peers(bench_t *bench, const traces_t *traces)
{
    dao_status_t status = DAO_OK;
    bool is_of_host = dao_alloc_trace_is_of_host(traces->items[0].name);
    for (size_t i = 0; i < dao_bench_strategy_count && status == DAO_OK; i++) {
        if (is_wanted(bench, dao_bench_strategies[i].name) && !is_of_host) {
            status = run_peer(bench, &dao_bench_strategies[i], traces);
        }
    }
    const dao_bench_peer_t *peer;
    for (size_t i = 0; status == DAO_OK && (peer = dao_bench_host_peer(i)) != NULL; i++) {
        bool can_replay =
            (bench->with_speed && bench->stream_count == 0) || (bench->pair_count > 0 && peer->is_host_place);
        if (is_wanted(bench, peer->name) && can_replay) {
            status = run_host_peer(bench, peer, traces);
        }
    }
    return status;
}

static dao_status_t run_and_finish(bench_t *bench, traces_t *traces, dao_status_t status)
{
    if (status == DAO_OK) {
        status = run_peers(bench, traces);
    }
    for (size_t i = 0; i < traces->count; i++) {
        dao_alloc_trace_finish(&traces->items[i]);
    }
    return status;
}

/* ---- traces ---- */

static dao_status_t run_made(bench_t *bench, const char *name)
{
    traces_t traces = {.count = 0};
    dao_status_t status = DAO_OK;
    uint64_t count = bench->thread_count > 0 ? bench->thread_count : bench->seed_count;
    while (status == DAO_OK && traces.count < count) {
        dao_alloc_trace_config_t config = {.seed = bench->seed + traces.count,
                                           .share_count = (uint32_t)bench->thread_count,
                                           .pair_count = bench->pair_count};
        status = dao_alloc_trace_make(name, &config, &traces.items[traces.count]);
        traces.count += status == DAO_OK ? 1 : 0;
    }
    return run_and_finish(bench, &traces, status);
}

static dao_status_t model_folder(const bench_t *bench, const char *model, char out_path[DAO_TRACE_PATH_BYTES])
{
    int length = snprintf(out_path, DAO_TRACE_PATH_BYTES, "%s/%s", bench->torch_folder, model);
    return length > 0 && length < DAO_TRACE_PATH_BYTES
               ? DAO_OK
               : dao_error(DAO_ERR_INVALID, "%.200s: the path is too long", bench->torch_folder);
}

static dao_status_t run_torch(bench_t *bench, const char *model)
{
    traces_t traces = {.count = 0};
    char folder[DAO_TRACE_PATH_BYTES];
    char name[64];
    dao_status_t status = model_folder(bench, model, folder);
    if (status == DAO_OK) {
        (void)snprintf(name, sizeof(name), TORCH_PREFIX "%s", model);
        status = dao_alloc_trace_read(folder, name, &traces.items[0]);
        traces.count = status == DAO_OK ? 1 : 0;
    }
    return run_and_finish(bench, &traces, status);
}

static bool is_folder(const bench_t *bench, const char *name)
{
    char path[DAO_TRACE_PATH_BYTES];
    struct stat about;
    return name[0] != '.' && model_folder(bench, name, path) == DAO_OK && stat(path, &about) == 0 &&
           S_ISDIR(about.st_mode);
}

static dao_status_t run_all_torch(bench_t *bench)
{
    struct dirent **entries = NULL;
    int count = scandir(bench->torch_folder, &entries, NULL, alphasort);
    if (count < 0) {
        return bench->needs_torch || errno != ENOENT
                   ? dao_error(DAO_ERR_IO, "%.200s: %s", bench->torch_folder, strerror(errno))
                   : DAO_OK;
    }
    dao_status_t status = DAO_OK;
    for (int i = 0; i < count && status == DAO_OK; i++) {
        if (is_folder(bench, entries[i]->d_name)) {
            status = run_torch(bench, entries[i]->d_name);
        }
    }
    for (int i = 0; i < count; i++) {
        dao_host_free(entries[i]); /* scandir() takes them from the C library, as dao_host_calloc() does */
    }
    dao_host_free(entries);
    return status;
}

static dao_status_t run_traces(bench_t *bench)
{
    size_t prefix_length = strlen(TORCH_PREFIX);
    if (bench->trace != NULL && strncmp(bench->trace, TORCH_PREFIX, prefix_length) == 0) {
        return run_torch(bench, bench->trace + prefix_length);
    }
    dao_status_t status = DAO_OK;
    const char *name;
    for (size_t i = 0; status == DAO_OK && (name = dao_alloc_trace_name(i)) != NULL; i++) {
        if (bench->trace == NULL || strcmp(bench->trace, name) == 0) {
            status = run_made(bench, name);
        }
    }
    return status == DAO_OK && bench->trace == NULL ? run_all_torch(bench) : status;
}

/* ---- an idle thread, so that the system takes its locks ---- */

typedef struct idler {
    dao_thread_t thread;
    dao_mutex_t lock;
    dao_cond_t changed;
    bool is_over;
} idler_t;

static void *idle(void *user)
{
    idler_t *idler = user;
    dao_mutex_lock(&idler->lock);
    while (!idler->is_over) {
        dao_cond_wait(&idler->changed, &idler->lock);
    }
    dao_mutex_unlock(&idler->lock);
    return NULL;
}

static dao_status_t run_beside_idler(bench_t *bench, dao_status_t (*run)(bench_t *bench))
{
    idler_t idler = {.is_over = false};
    dao_mutex_init(&idler.lock, DAO_RANK_LEAF);
    dao_cond_init(&idler.changed);
    dao_status_t status = dao_thread_start(&idler.thread, "idle", idle, &idler);
    if (status == DAO_OK) {
        status = run(bench);
        dao_mutex_lock(&idler.lock);
        idler.is_over = true;
        dao_cond_signal(&idler.changed);
        dao_mutex_unlock(&idler.lock);
        dao_thread_join(&idler.thread);
    }
    dao_cond_finish(&idler.changed);
    dao_mutex_finish(&idler.lock);
    return status;
}

/* ---- settings ---- */

typedef struct settings {
    uint32_t trace, strategy, figures; /* indices of names */
    const char *recorded_trace;        /* of one that no name is of */
    uint64_t round_count;
    uint64_t percent;
    uint64_t seed;
    uint64_t seed_count;
    uint64_t thread_count;
    uint64_t pair_count;
    uint64_t stream_count;
    uint64_t small_bytes;
    const char *torch_folder;
    bool in_segments;
    bool has_cases;
    bool is_checked;
    bool is_json;
} settings_t;

enum { FIGURES_SPEED, FIGURES_MEMORY, FIGURES_ALL };
DAO_OPTION_NAMES(figures_at, "speed", "memory", "all")

static size_t made_count(void)
{
    size_t count = 0;
    while (dao_alloc_trace_name(count) != NULL) {
        count++;
    }
    return count;
}

static const char *trace_at(size_t index)
{
    size_t count = made_count();
    return index < count ? dao_alloc_trace_name(index) : index == count ? "all" : NULL;
}

static size_t host_peer_count(void)
{
    size_t count = 0;
    while (dao_bench_host_peer(count) != NULL) {
        count++;
    }
    return count;
}

static const char *strategy_at(size_t index)
{
    size_t count = dao_bench_strategy_count + host_peer_count();
    if (index >= count) {
        return index == count ? "all" : NULL;
    }
    return index < dao_bench_strategy_count ? dao_bench_strategies[index].name
                                            : dao_bench_host_peer(index - dao_bench_strategy_count)->name;
}

static const dao_option_t options[] = {
    {.name = "trace",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, trace),
     .value = "TRACE",
     .preset = "all",
     .name_at = trace_at,
     .prefix = TORCH_PREFIX,
     .text_offset = offsetof(settings_t, recorded_trace),
     .help = "one of these, torch:MODEL"},
    {.name = "strategy",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, strategy),
     .value = "STRATEGY",
     .preset = "all",
     .name_at = strategy_at,
     .help = "of the library's device, or an allocator of the host"},
    {.name = "figures",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, figures),
     .value = "KIND",
     .preset = "all",
     .name_at = figures_at,
     .help = "what is measured"},
    {.name = "rounds",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, round_count),
     .value = "N",
     .least = 1,
     .most = 10000,
     .preset = "14",
     .help = "timed rounds of about 20,000 pairs"},
    {.name = "percent",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, percent),
     .value = "N",
     .least = 100,
     .most = 1000,
     .help = "speed on a device of so much of the peak; without it ample"},
    {.name = "segments",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, in_segments),
     .help = "the device has no page mapping, and its place grows in segments"},
    {.name = "seed",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, seed),
     .value = "N",
     .preset = "1",
     .help = "of the traces that are made"},
    {.name = "seeds",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, seed_count),
     .value = "N",
     .least = 1,
     .most = SEED_COUNT_MAX,
     .preset = "1",
     .help = "so many traces from that seed on; figures are means"},
    {.name = "threads",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, thread_count),
     .value = "N",
     .least = 2,
     .most = SEED_COUNT_MAX,
     .help = "instead: so many threads at once, which share the live blocks"},
    {.name = "small",
     .type = DAO_OPTION_TYPE_BYTES,
     DAO_OPTION_FIELD(settings_t, small_bytes),
     .value = "SIZE",
     .most = DAO_SMALL_BYTES_MAX,
     .help = "largest block that comes out of slabs, for good_fit and best_fit; without it 4KiB"},
    {.name = "pairs",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, pair_count),
     .value = "N",
     .least = 1,
     .most = 1000000,
     .help = "instead: replay so many pairs of one trace and print how many, to count instructions"},
    {.name = "streams",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, stream_count),
     .value = "N",
     .least = 1,
     .most = DAO_BENCH_STREAM_MAX,
     .help = "dao_alloc_async() and dao_free_async() on so many idle streams, beside plain pairs"},
    {.name = "cases",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, has_cases),
     .help =
         "instead: figures of no trace: cold start, refused requests, what follows streams, large tensors"},
    {.name = "torch-steps",
     .type = DAO_OPTION_TYPE_PATH,
     DAO_OPTION_FIELD(settings_t, torch_folder),
     .value = "DIR",
     .preset = "examples/traces",
     .help = "folder of recorded steps; without it the default, if it is there"},
    {.name = "check",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_checked),
     .help = "fail if a figure of good_fit is over its limit"},
    {.name = "json",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_json),
     .help = "print one JSON array"},
    {.name = NULL},
};

#define OWN_FIGURES "--threads takes figures of its own: without --seeds, --figures, --percent, --check"
#define ONE_WAY     "--streams takes the time of one seed: without --threads, --seeds, --figures, --check"
#define CASES_ALONE "--cases are of good_fit and of no trace: with --check and --json alone"
#define ONE_TRACE   "--pairs is for one --trace: without --threads and --json"

static const dao_option_rule_t rules[] = {
    {"percent", "check", false, "--percent: limits are for an ample device, so without --check"},
    {"threads", "seeds", false, OWN_FIGURES},
    {"threads", "figures", false, OWN_FIGURES},
    {"threads", "percent", false, OWN_FIGURES},
    {"threads", "check", false, OWN_FIGURES},
    {"pairs", "trace", true, ONE_TRACE},
    {"pairs", "threads", false, ONE_TRACE},
    {"pairs", "json", false, ONE_TRACE},
    {"streams", "threads", false, ONE_WAY},
    {"streams", "seeds", false, ONE_WAY},
    {"streams", "figures", false, ONE_WAY},
    {"streams", "check", false, ONE_WAY},
    {"cases", "trace", false, CASES_ALONE},
    {"cases", "strategy", false, CASES_ALONE},
    {"cases", "figures", false, CASES_ALONE},
    {"cases", "threads", false, CASES_ALONE},
    {"cases", "streams", false, CASES_ALONE},
    {"cases", "pairs", false, CASES_ALONE},
    {.option = NULL},
};

static dao_status_t check_settings(const dao_arguments_t *arguments, void *user)
{
    const settings_t *settings = user;
    bool is_one_trace = settings->recorded_trace != NULL || settings->trace < made_count();
    (void)arguments;
    if (settings->percent > 0 && settings->figures == FIGURES_MEMORY) {
        return dao_error(DAO_ERR_INVALID, "--percent is for speed: without --figures memory");
    }
    return settings->pair_count == 0 || is_one_trace ? DAO_OK : dao_error(DAO_ERR_INVALID, ONE_TRACE);
}

static void set_bench(const settings_t *settings, bool needs_torch, bench_t *bench)
{
    bool is_replay = settings->pair_count > 0; /* which measures nothing, and no allocator of the host */
    bool is_every = strategy_at(settings->strategy + 1) == NULL;
    *bench = (bench_t){
        .trace = settings->recorded_trace != NULL ? settings->recorded_trace
                                                  : dao_alloc_trace_name(settings->trace),
        .strategy = !is_every   ? strategy_at(settings->strategy)
                    : is_replay ? strategy_at(0)
                                : NULL,
        .seed = settings->seed,
        .seed_count = settings->seed_count,
        .thread_count = settings->thread_count,
        .pair_count = settings->pair_count,
        .stream_count = settings->stream_count,
        .round_count = settings->round_count,
        .percent = settings->percent,
        .with_speed = settings->figures != FIGURES_MEMORY && !is_replay,
        .with_memory = settings->figures != FIGURES_SPEED,
        .torch_folder = settings->torch_folder,
        .needs_torch = needs_torch,
    };
    dao_bench_small_set((size_t)settings->small_bytes);
    dao_bench_segments_set(settings->in_segments);
    dao_bench_streams_set((uint32_t)settings->stream_count);
}

static dao_status_t run_cases(bench_t *bench)
{
    dao_bench_case_t cases[DAO_BENCH_CASE_MAX];
    size_t count = 0;
    dao_status_t status = dao_bench_cases(DAO_BENCH_HOLE_COUNT, cases, &count);
    for (size_t i = 0; i < count && status == DAO_OK; i++) {
        dao_bench_report_case(&bench->report, &cases[i]);
    }
    return status;
}

static dao_status_t run_bench_alloc(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    const settings_t *settings = user;
    bench_t bench;
    set_bench(settings, dao_option_is_given(arguments, "torch-steps"), &bench);
    if (bench.pair_count > 0) { /* without an idle thread: the library's own instructions are counted */
        return run_traces(&bench);
    }
    dao_bench_report_begin(&bench.report, settings->is_json, settings->is_checked, settings->in_segments);
    dao_status_t status = run_beside_idler(&bench, settings->has_cases ? run_cases : run_traces);
    if (status != DAO_OK) {
        dao_bench_report_drop(&bench.report);
        return status;
    }
    *out_exit = dao_bench_report_end(&bench.report);
    return DAO_OK;
}

const dao_command_t dao_command_bench_alloc = {
    .program = "dao-bench",
    .name = "alloc",
    .arguments = "",
    .summary = "measure allocators: time, tails, memory that a trace needs",
    .details =
        "Replays traces of allocations through dao_alloc() and dao_free() on a device that only keeps\n"
        "books, and through allocators of the host. Traces:\n"
        "  a1 a2 a3        last in, first out: 4 KiB, 1 deep; 1 MiB and 16 MiB, 64 deep\n"
        "  b1k b10k b100k  so many live blocks of random sizes, each pair replaces one\n"
        "  e1k e100k e1m   the same, with sizes that are alike in all three\n"
        "  c cd            a training step of 220 layers; the same with a batch that changes\n"
        "  bert            a training step of an encoder, with sequences of changing length\n"
        "  i3              three inferences of decoders, operation by operation in turns\n"
        "  conv            a training step of a small convolutional network\n"
        "  kvcat kvreq     key and value caches: by concatenation, a token at a time; by request\n"
        "  drift           1,000 live blocks whose sizes drift up and down\n"
        "  huge            one to three tensors of 20 to 60 % of 16 GiB among small ones\n"
        "  d               sizes and lives as in training a large transformer\n"
        "  fleet           50,000 live blocks of the host, sizes as servers ask malloc() for\n"
        "  torch:MODEL     the events of a recorded step in the folder MODEL of --torch-steps",
    .options = options,
    .rules = rules,
    .least_arguments = 0,
    .most_arguments = 0,
    .settings_bytes = sizeof(settings_t),
    .check = check_settings,
    .run = run_bench_alloc,
};
