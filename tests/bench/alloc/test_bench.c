/* SPDX-License-Identifier: Apache-2.0 */
/* The traces of `dao-bench alloc`, its device that keeps books, and its figures. Times are not looked at. */
#define _GNU_SOURCE
#include "base/memory/host.h"
#include "base/memory/measure.h"
#include "base/report/error.h"
#include "base/report/fault.h"
#include "bench/alloc/bench.h"
#include "bench/alloc/bench_report.h"
#include "bench/peers/bench_device.h"
#include "bench/traces/made_trace.h"
#include "bench/traces/recorded_trace.h"
#include "tests/support/models/trace.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"
#include "tools/read/text/csv_reader.h"

#include <dao/dao.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static dao_alloc_trace_t make(const char *name, uint64_t seed, uint64_t pair_count)
{
    dao_alloc_trace_t trace;
    dao_alloc_trace_config_t config = {.seed = seed, .pair_count = pair_count};
    dao_alloc_trace_init(&trace, name);
    CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_make(name, &config, &trace), DAO_OK);
    return trace;
}

/* ---- traces ---- */

static void every_trace_is_whole(void)
{
    const char *name;
    for (size_t i = 0; (name = dao_alloc_trace_name(i)) != NULL; i++) {
        dao_alloc_trace_t trace = make(name, 7, 4000);
        CU_ASSERT(dao_alloc_trace_is_valid(&trace));
        CU_ASSERT(trace.pair_count >= 4000 && trace.pair_count < 4000 + 1600); /* a step of c is not cut */
        CU_ASSERT_STRING_EQUAL(trace.name, name);
        dao_alloc_trace_finish(&trace);
    }
    CU_ASSERT_EQUAL(dao_alloc_trace_name(20), NULL);
}

static bool is_same(const dao_alloc_trace_t *a, const dao_alloc_trace_t *b)
{
    bool is_equal = a->event_count == b->event_count;
    for (size_t i = 0; is_equal && i < a->event_count; i++) {
        is_equal =
            a->events[i].size_bytes == b->events[i].size_bytes && a->events[i].slot == b->events[i].slot;
    }
    return is_equal;
}

static void the_same_seed_makes_the_same_trace(void)
{
    static const char *const names[] = {"b1k", "c", "cd", "d"};
    for (size_t i = 0; i < 4; i++) {
        dao_alloc_trace_t first = make(names[i], 5, 3000);
        dao_alloc_trace_t again = make(names[i], 5, 3000);
        dao_alloc_trace_t other = make(names[i], 6, 3000);
        CU_ASSERT(is_same(&first, &again));
        CU_ASSERT(!is_same(&first, &other));
        dao_alloc_trace_finish(&first);
        dao_alloc_trace_finish(&again);
        dao_alloc_trace_finish(&other);
    }
}

/* What the traces are described with. Peaks are of the whole length. */
static void live_blocks_are_as_described(void)
{
    static const struct {
        const char *name;
        uint64_t least_count, most_count;
        double least_gib, most_gib;
    } wanted[] = {
        {"a1", 1, 1, 0, 0.001},        {"a2", 64, 64, 0.0625, 0.0625}, {"a3", 64, 64, 1, 1},
        {"b1k", 1000, 1000, 5.8, 7.2}, {"b10k", 10000, 10000, 52, 56}, {"c", 880, 900, 3, 4},
        {"cd", 880, 900, 3.5, 5},      {"d", 600, 760, 15, 22},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        dao_alloc_trace_t trace = make(wanted[i].name, 1, 0);
        double peak_gib = (double)trace.peak_bytes / (double)GIB;
        CU_ASSERT(trace.peak_count >= wanted[i].least_count && trace.peak_count <= wanted[i].most_count);
        CU_ASSERT(peak_gib >= wanted[i].least_gib && peak_gib <= wanted[i].most_gib);
        CU_ASSERT(trace.pair_count >= 300000 && trace.pair_count <= 312000);
        dao_alloc_trace_finish(&trace);
    }
}

/* d is described with its means: some 600 live blocks of 13 GiB. */
static void the_means_of_d_are_as_described(void)
{
    dao_alloc_trace_t trace = make("d", 1, 0);
    uint64_t *slot_bytes = calloc(trace.slot_count, sizeof(*slot_bytes));
    double live_bytes = 0, live_count = 0, sum_bytes = 0, sum_count = 0;
    CU_ASSERT_PTR_NOT_NULL_FATAL(slot_bytes);
    for (size_t i = 0; slot_bytes != NULL && i < trace.event_count; i++) {
        const dao_alloc_event_t *event = &trace.events[i];
        live_bytes += (double)event->size_bytes - (double)slot_bytes[event->slot];
        live_count += event->size_bytes != 0 ? 1 : -1;
        slot_bytes[event->slot] = event->size_bytes;
        sum_bytes += i >= trace.steady_begin ? live_bytes : 0;
        sum_count += i >= trace.steady_begin ? live_count : 0;
    }
    double event_count = (double)(trace.event_count - trace.steady_begin);
    CU_ASSERT_DOUBLE_EQUAL(sum_bytes / event_count / (double)GIB, 13, 1.5);
    CU_ASSERT_DOUBLE_EQUAL(sum_count / event_count, 600, 40);
    free(slot_bytes);
    dao_alloc_trace_finish(&trace);
}

static void a_step_of_c_has_its_pairs_and_leaves_the_parameters(void)
{
    dao_alloc_trace_t trace = make("c", 3, 1);
    CU_ASSERT_EQUAL(trace.steady_begin, 660);
    CU_ASSERT_EQUAL(trace.live_count, 660);
    CU_ASSERT(trace.pair_count > 1500 && trace.pair_count < 1600);
    dao_alloc_trace_finish(&trace);
}

static void shares_divide_the_live_blocks(void)
{
    dao_alloc_trace_t trace;
    dao_alloc_trace_config_t config = {.seed = 1, .pair_count = 100, .share_count = 2};
    CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_make("b1k", &config, &trace), DAO_OK);
    CU_ASSERT_EQUAL(trace.peak_count, 500);
    dao_alloc_trace_finish(&trace);
    CU_ASSERT_EQUAL(dao_alloc_trace_make("nothing", &config, &trace), DAO_ERR_INVALID);
}

static void an_invalid_trace_is_seen(void)
{
    dao_alloc_trace_t trace = make("b1k", 1, 100);
    trace.events[1005].size_bytes = trace.events[1005].size_bytes == 0 ? 1 : 0;
    CU_ASSERT(!dao_alloc_trace_is_valid(&trace));
    dao_alloc_trace_finish(&trace);
}

static void a_trace_without_memory_is_refused(void)
{
    dao_alloc_trace_t trace;
    dao_alloc_trace_config_t config = {.seed = 1, .pair_count = 50};
    uint64_t failed = 1;
    for (uint64_t n = 0; failed > 0; n++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = dao_alloc_trace_make("d", &config, &trace);
        failed = dao_fault_disarm();
        CU_ASSERT_EQUAL(status, failed > 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
    }
    dao_alloc_trace_finish(&trace);
}

/* ---- recorded events ---- */

/* The figures of a step's meta file. */
static uint64_t meta_number(const char *folder, const char *file, const char *key)
{
    char path[4096];
    char line[256];
    uint64_t number = 0;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, file);
    FILE *meta = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(meta);
    while (fgets(line, sizeof(line), meta) != NULL) {
        const char *at = strstr(line, key);
        number = at != NULL ? strtoull(at + strlen(key), NULL, 10) : number;
    }
    (void)fclose(meta);
    return number;
}

/* The batch that is alive before the events is another one than before the step that the meta file is of. */
static void check_recorded(const char *folder, const char *meta)
{
    dao_alloc_trace_t trace;
    CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_read(folder, "torch:x", &trace), DAO_OK);
    CU_ASSERT(dao_alloc_trace_is_valid(&trace));
    uint64_t before_bytes = 0;
    for (size_t i = 0; i < trace.steady_begin; i++) {
        before_bytes += trace.events[i].size_bytes;
    }
    CU_ASSERT_EQUAL(trace.steady_begin, meta_number(folder, meta, "\"persistent\": "));
    CU_ASSERT_EQUAL(trace.peak_bytes - before_bytes, meta_number(folder, meta, "\"peak_live_bytes\": ") -
                                                         meta_number(folder, meta, "\"persistent_bytes\": "));
    CU_ASSERT_EQUAL(trace.event_count - trace.steady_begin, meta_number(folder, meta, "\"events\": "));
    dao_alloc_trace_finish(&trace);
}

static void recorded_events_have_the_recorded_peak(void)
{
    static const struct {
        const char *model, *meta;
    } steps[] = {{"gpt2_small", "gpt2_small.1.meta.json"},
                 {"lstm", "lstm.8.meta.json"},
                 {"moe", "moe.8.meta.json"},
                 {"resnet50", "resnet50.8.meta.json"}};
    check_recorded(DAO_TEST_TRACE, "mobilenet_v2.4.meta.json");
    for (size_t i = 0; i < 4; i++) {
        char folder[4096];
        if (dao_test_shared_trace(steps[i].model, folder, sizeof(folder))) {
            check_recorded(folder, steps[i].meta);
        }
    }
}

/* Writes a folder of a step with one operator and tensors "w" (alive before) and "a", and these events. */
static char *write_step(const char *events)
{
    static char folder[64];
    (void)snprintf(folder, sizeof(folder), "/tmp/dao_test_bench_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    const char *const files[][2] = {
        {"m.io_info.json", "[{\"op\":\"x\",\"id\":0,\"inputs\":[\"7\"],\"outputs\":[\"8\"],\"release\":[]}]"},
        {"m.1.tensor_size.json", "{\"7\":100,\"8\":200}"},
        {"m.1.resize_info.json", "[[]]"},
        {"m.1.cost_info.json", "{\"0\":1}"},
        {"m.1.events.csv", events}};
    for (size_t i = 0; i < 5; i++) {
        char path[256];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, files[i][0]);
        FILE *file = fopen(path, "w");
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        (void)fputs(files[i][1], file);
        (void)fclose(file);
    }
    return folder;
}

static void remove_step(const char *folder)
{
    static const char *const names[] = {"m.io_info.json", "m.1.tensor_size.json", "m.1.resize_info.json",
                                        "m.1.cost_info.json", "m.1.events.csv"};
    for (size_t i = 0; i < 5; i++) {
        char path[256];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

#define HEADER "time_ns,event,id,bytes,op\n"

static void what_was_alive_before_is_built_up(void)
{
    dao_alloc_trace_t trace;
    char *folder =
        write_step(HEADER "0,step,0,0,0\r\n1,alloc,8,200,0\n2,alloc,10,0,0\n3,free,9,50,0\n4,free,8,200,0");
    CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_read(folder, "m", &trace), DAO_OK);
    CU_ASSERT(dao_alloc_trace_is_valid(&trace));
    CU_ASSERT_EQUAL(trace.steady_begin, 2); /* 9, which is freed, and 7, which the JSON files know */
    CU_ASSERT_EQUAL(trace.peak_bytes, 350);
    CU_ASSERT_EQUAL(trace.live_bytes, 100);
    CU_ASSERT_EQUAL(trace.pair_count, 2);
    dao_alloc_trace_finish(&trace);
    remove_step(folder);
}

static void wrong_events_are_told_with_their_line(void)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"a,b\n", "events.csv:1:1: the first line"},
        {"", "events.csv:1:1: the first line"},
        {HEADER "1,alloc,8,200\n", "events.csv:2:14: there have to be five columns"},
        {HEADER "1,alloc,8,200,0,0\n", "events.csv:2:17: there have to be five columns"},
        {HEADER "1,grow,8,200,0\n", "events.csv:2:3: the event is none"},
        {HEADER "1,alloc,8,2x,0\n", "events.csv:2:11: bytes is no whole number"},
        {HEADER "1,alloc,8,,0\n", "events.csv:2:11: bytes is no number"},
        {HEADER "1,alloc,8,18446744073709551616,0\n", "events.csv:2:11: bytes does not fit"},
        {HEADER "1,alloc,8,9,0\n1,alloc,8,9,0\n", "events.csv:3:9: this id was allocated before"},
        {HEADER "1,free,8,9,0\n1,free,8,9,0\n", "events.csv:3:8: this id was freed before"},
        {HEADER "1,alloc,8,9,0\n1,free,8,8,0\n", "events.csv:3:10: this id was allocated with other bytes"},
        {HEADER "1,alloc,8,9,0\n", "nothing is freed"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dao_alloc_trace_t trace;
        char *folder = write_step(cases[i].text);
        CU_ASSERT_EQUAL(dao_alloc_trace_read(folder, "m", &trace), DAO_ERR_PARSE);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), cases[i].wanted));
        remove_step(folder);
    }
}

static void a_line_without_end_is_refused(void)
{
    static char text[2 * DAO_CSV_LINE_BYTES_MAX];
    dao_alloc_trace_t trace;
    memset(text, '1', sizeof(text) - 1);
    memcpy(text, HEADER, sizeof(HEADER) - 1);
    char *folder = write_step(text);
    CU_ASSERT_EQUAL(dao_alloc_trace_read(folder, "m", &trace), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "events.csv:2:65537: the line is too long"));
    remove_step(folder);
}

static void events_without_memory_are_refused(void)
{
    dao_alloc_trace_t trace;
    char *folder = write_step(HEADER "1,alloc,8,200,0\n3,free,9,50,0\n4,free,8,200,0\n");
    uint64_t failed = 1;
    for (uint64_t n = 0; failed > 0; n++) {
        dao_fault_arm(DAO_FAULT_ANY, n, false);
        dao_status_t status = dao_alloc_trace_read(folder, "m", &trace);
        failed = dao_fault_disarm();
        CU_ASSERT_EQUAL(status == DAO_OK, failed == 0);
    }
    dao_alloc_trace_finish(&trace);
    remove_step(folder);
}

/* ---- the device and the figures ---- */

/* One block after the other, none freed: a device of their size is enough, and no smaller one. */
static void the_smallest_device_is_found_exactly(void)
{
    dao_alloc_trace_t trace;
    uint32_t slots[10];
    dao_alloc_trace_init(&trace, "ten");
    for (size_t i = 0; i < 10; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_take(&trace, 2 * MIB, &slots[i]), DAO_OK);
    }
    dao_alloc_trace_steady(&trace);
    CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_give(&trace, slots[4]), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_take(&trace, 2 * MIB, &slots[4]), DAO_OK);
    dao_bench_figures_t figures = dao_bench_figures_none();
    CU_ASSERT_EQUAL(dao_bench_memory(&dao_bench_strategies[0], &trace, &figures), DAO_OK);
    CU_ASSERT_EQUAL(figures.capacity_ratio, 1.0);
    CU_ASSERT_EQUAL(figures.capacity_ratio_remap, 1.0);
    CU_ASSERT_EQUAL(figures.remapped_pages, 0);
    CU_ASSERT(figures.footprint_ratio >= 1.0);
    CU_ASSERT(figures.driver_calls > 0);
    dao_alloc_trace_finish(&trace);
}

/* Pages 0 and 2 of three are freed, then two pages are wanted: with page mapping they need not lie side by
   side. */
static void page_mapping_needs_less(void)
{
    dao_alloc_trace_t trace;
    uint32_t slots[3];
    dao_alloc_trace_init(&trace, "apart");
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_take(&trace, 2 * MIB, &slots[i]), DAO_OK);
    }
    dao_alloc_trace_steady(&trace);
    CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_give(&trace, slots[0]), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_give(&trace, slots[2]), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_take(&trace, 4 * MIB, &slots[0]), DAO_OK);
    dao_bench_figures_t figures = dao_bench_figures_none();
    CU_ASSERT_EQUAL(dao_bench_memory(&dao_bench_strategies[0], &trace, &figures), DAO_OK);
    CU_ASSERT_EQUAL(figures.capacity_ratio_remap, 1.0);
    CU_ASSERT(figures.capacity_ratio > 1.3);
    dao_alloc_trace_finish(&trace);
}

static void the_device_keeps_its_books(void)
{
    uint64_t before_calls = dao_bench_device_calls();
    CU_ASSERT_EQUAL_FATAL(dao_bench_device_start(&dao_bench_strategies[0], 64 * MIB, true), DAO_OK);
    dao_device_info_t info;
    CU_ASSERT_EQUAL(dao_device_query(0, &info), DAO_OK);
    CU_ASSERT_EQUAL(info.total_bytes, 64 * MIB);
    CU_ASSERT_EQUAL(info.page_bytes, 2 * MIB);
    void *block = dao_bench_strategies[0].alloc(32 * MIB);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(dao_device_query(0, &info), DAO_OK);
    CU_ASSERT_EQUAL(info.free_bytes, 32 * MIB);
    CU_ASSERT_PTR_NULL(dao_bench_strategies[0].alloc(64 * MIB));
    dao_bench_strategies[0].free(block);
    CU_ASSERT(dao_bench_device_calls() > before_calls);
    dao_bench_device_stop();
    CU_ASSERT_EQUAL_FATAL(dao_bench_device_start(&dao_bench_strategies[0], 64 * MIB, false), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_query(0, &info), DAO_OK);
    CU_ASSERT_EQUAL(info.page_bytes, 0);
    dao_bench_device_stop();
}

static const dao_bench_case_t *find_case(const dao_bench_case_t *cases, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(cases[i].name, name) == 0) {
            return &cases[i];
        }
    }
    CU_FAIL_FATAL("no such case");
    return NULL;
}

/* What is counted, not timed: calls, moves, growth. */
static void cases_keep_their_limits(void)
{
    static const char *const timed[] = {"cold_start_ms", "refused_us", "after_ordered"};
    dao_bench_case_t cases[DAO_BENCH_CASE_MAX];
    size_t count = 0, counted = 0;
    CU_ASSERT_EQUAL_FATAL(dao_bench_cases(100, cases, &count), DAO_OK);
    for (size_t i = 0; i < count; i++) {
        counted += !cases[i].is_a_time;
        CU_ASSERT_TRUE(cases[i].is_a_time || cases[i].figure <= cases[i].most);
    }
    CU_ASSERT_EQUAL(counted, 5);
    CU_ASSERT_TRUE(find_case(cases, count, "larger_calls")->figure >= 1);
    CU_ASSERT_TRUE(find_case(cases, count, "trim_calls")->figure > 0);
    CU_ASSERT_TRUE(find_case(cases, count, "growth_beside")->figure >= 1);
    for (size_t i = 0; i < sizeof(timed) / sizeof(timed[0]); i++) {
        CU_ASSERT_TRUE(find_case(cases, count, timed[i])->figure > 0);
    }
}

/* While events are held a block that a stream has freed is nobody else's, even if it is the last memory. */
static void held_events_keep_blocks(void)
{
    dao_bench_peer_t peer = dao_bench_strategies[0];
    uint32_t stream_count;
    dao_bench_streams_set(2);
    CU_ASSERT_EQUAL_FATAL(dao_bench_device_start(&peer, 64 * MIB, true), DAO_OK);
    dao_stream_t *const *streams = dao_bench_streams(&stream_count);
    CU_ASSERT_EQUAL(stream_count, 2);
    dao_place_t place = dao_place_of(dao_device_place(0));
    dao_stats_t stats;
    dao_bench_device_hold(true);
    void *block = peer.alloc_on(8 * MIB, streams[1]);
    CU_ASSERT_PTR_NOT_NULL(block);
    peer.free_on(block, streams[1]);
    void *other = peer.alloc(8 * MIB);
    CU_ASSERT_PTR_NOT_NULL(other);
    CU_ASSERT_PTR_NOT_EQUAL(other, block);
    CU_ASSERT_EQUAL(dao_stats_get(place, &stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.reserved_bytes, 16 * MIB);
    dao_bench_device_hold(false);
    peer.free(other);
    dao_bench_device_stop();
    dao_bench_streams_set(0);
}

/* 12,000 blocks of a page: their tables are seen, and are not those of the device's books. */
static void metadata_is_told_of_many_blocks(void)
{
    enum { COUNT = 12000, FEW_COUNT = 100 };
    dao_bench_figures_t figures = dao_bench_figures_none();
    for (size_t count = COUNT; count >= FEW_COUNT; count /= COUNT / FEW_COUNT) {
        dao_alloc_trace_t trace;
        uint32_t slot = 0;
        dao_alloc_trace_init(&trace, "many");
        for (size_t i = 0; i < count; i++) {
            CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_take(&trace, 64 << 10, &slot), DAO_OK);
        }
        dao_alloc_trace_steady(&trace);
        CU_ASSERT_EQUAL(dao_bench_metadata(&dao_bench_strategies[0], &trace, &figures), DAO_OK);
        bool is_told = figures.metadata_packed_bytes != DAO_BENCH_NONE;
        CU_ASSERT_EQUAL(is_told, count == COUNT);
        CU_ASSERT_TRUE(!is_told || (figures.metadata_packed_bytes > 16 && figures.metadata_bytes > 16));
        figures = dao_bench_figures_none();
        dao_alloc_trace_finish(&trace);
    }
}

static void speed_is_taken_of_all_who_are_there(void)
{
    dao_alloc_trace_t trace = make("a2", 1, 2000);
    dao_bench_figures_t figures = dao_bench_figures_none();
    CU_ASSERT_EQUAL_FATAL(dao_bench_device_start(&dao_bench_strategies[0], 3 * trace.peak_bytes, true),
                          DAO_OK);
    CU_ASSERT_EQUAL(dao_bench_speed(&dao_bench_strategies[0], &trace, 3, &figures), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0); /* all is given back */
    dao_bench_device_stop();
    CU_ASSERT(figures.lock_ns > 0);
    CU_ASSERT(figures.p999_ns >= figures.p99_ns && figures.p99_ns >= 0);
    CU_ASSERT(figures.max_ns >= figures.p9999_ns && figures.p9999_ns >= figures.p999_ns);
    dao_alloc_trace_finish(&trace);
}

static void a_device_that_is_too_small_is_told(void)
{
    dao_alloc_trace_t trace = make("b1k", 1, 2000);
    dao_bench_figures_t figures = dao_bench_figures_none();
    CU_ASSERT_EQUAL_FATAL(dao_bench_device_start(&dao_bench_strategies[0], 64 * MIB, true), DAO_OK);
    CU_ASSERT_NOT_EQUAL(dao_bench_speed(&dao_bench_strategies[0], &trace, 3, &figures), DAO_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "good_fit refused a block of trace b1k"));
    dao_bench_device_stop();
    CU_ASSERT_EQUAL(figures.ns_per_pair, DAO_BENCH_NONE);
    dao_alloc_trace_finish(&trace);
}

static void threads_share_a_place(void)
{
    dao_alloc_trace_t traces[2];
    dao_alloc_trace_config_t config = {.seed = 1, .pair_count = 300, .share_count = 16};
    for (size_t i = 0; i < 2; i++, config.seed++) {
        CU_ASSERT_EQUAL_FATAL(dao_alloc_trace_make("b1k", &config, &traces[i]), DAO_OK);
    }
    dao_bench_figures_t figures = dao_bench_figures_none();
    CU_ASSERT_EQUAL(dao_bench_threads(&dao_bench_strategies[0], traces, 2, 3, &figures), DAO_OK);
    CU_ASSERT(figures.threads_overlap >= 0 && figures.threads_overlap <= 1);
    CU_ASSERT(figures.threads_ns > 0 && figures.threads_scaling > 0 && figures.threads_cpu_ratio > 0);
    CU_ASSERT_EQUAL(figures.ns_per_pair, DAO_BENCH_NONE);
    figures = dao_bench_figures_none();
    uint64_t failed = 1, refused_count = 0;
    for (uint64_t n = 0; failed > 0; n += TEST_CALL_STEP + n / 4) { /* rounds are alike */
        dao_fault_arm(DAO_FAULT_THREAD, n, false);
        dao_status_t status = dao_bench_threads(&dao_bench_strategies[0], traces, 2, 2, &figures);
        failed = dao_fault_disarm();
        refused_count += status == DAO_ERR_THREAD;
        CU_ASSERT_TRUE(status == DAO_OK || (status == DAO_ERR_THREAD && failed > 0));
    }
#if defined(DAO_FAULTS)
    CU_ASSERT_TRUE(refused_count > 0); /* not always: a thread may do without magazines */
#else
    CU_ASSERT_EQUAL(refused_count, 0);
#endif
    dao_alloc_trace_finish(&traces[0]);
    dao_alloc_trace_finish(&traces[1]);
}

static void means_lack_what_a_row_lacks(void)
{
    dao_bench_figures_t rows[2] = {dao_bench_figures_none(), dao_bench_figures_none()};
    rows[0].capacity_ratio = 1.0;
    rows[1].capacity_ratio = 1.5;
    rows[1].lock_ns = 5;
    dao_bench_figures_t mean = dao_bench_figures_mean(rows, 2);
    CU_ASSERT_EQUAL(mean.capacity_ratio, 1.25);
    CU_ASSERT_EQUAL(mean.lock_ns, DAO_BENCH_NONE);
    CU_ASSERT_EQUAL(mean.p99_ns, DAO_BENCH_NONE);
}

static void a_breach_of_a_limit_fails(void)
{
    dao_bench_report_t report;
    dao_bench_figures_t figures = dao_bench_figures_none();
    figures.capacity_ratio_remap = 1.03; /* between what the two traces are held to */
    dao_bench_report_begin(&report, true, true, false);
    dao_bench_report_row(&report, "b1k", "good_fit", &figures);
    CU_ASSERT_EQUAL(report.breach_count, 0);
    dao_bench_report_row(&report, "torch:x", "good_fit", &figures);
    CU_ASSERT_EQUAL(report.breach_count, 1);
    figures = dao_bench_figures_none();
    figures.remapped_pages = 1;
    dao_bench_report_row(&report, "a1", "glibc", &figures);
    CU_ASSERT_EQUAL(report.breach_count, 1); /* only good_fit is held to them */
    dao_bench_report_row(&report, "a1", "good_fit", &figures);
    CU_ASSERT_EQUAL(report.breach_count, 2);
    dao_bench_report_row(&report, "huge", "good_fit", &figures);
    CU_ASSERT_EQUAL(report.breach_count, 2); /* whose tensors need pages of each other */
    figures = dao_bench_figures_none();
    figures.metadata_packed_bytes = 41;
    dao_bench_report_row(&report, "e1m", "good_fit", &figures);
    CU_ASSERT_EQUAL(report.breach_count, 3);
    dao_bench_report_case(&report, &(dao_bench_case_t){.name = "a", .figure = 2, .most = 1});
    CU_ASSERT_EQUAL(report.breach_count, 4);
    dao_bench_report_case(&report,
                          &(dao_bench_case_t){.name = "b", .figure = 2, .most = 1, .is_a_time = true});
    CU_ASSERT_EQUAL(report.breach_count, 4);
    dao_bench_report_drop(&report);
}

static void measures_of_the_system_go_on(void)
{
    uint64_t before_ns = dao_measure_thread_ns();
    CU_ASSERT(dao_measure_lock_pairs(100000) > 0);
    CU_ASSERT(dao_measure_thread_ns() > before_ns);
}

static CU_TestInfo trace_tests[] = {
    {"every trace is whole", every_trace_is_whole},
    {"the same seed makes the same trace", the_same_seed_makes_the_same_trace},
    {"live blocks are as described", live_blocks_are_as_described},
    {"the means of d are as described", the_means_of_d_are_as_described},
    {"a step of c has its pairs and leaves the parameters",
     a_step_of_c_has_its_pairs_and_leaves_the_parameters},
    {"shares divide the live blocks", shares_divide_the_live_blocks},
    {"an invalid trace is seen", an_invalid_trace_is_seen},
    {"a trace without memory is refused", a_trace_without_memory_is_refused},
    {"recorded events have the recorded peak", recorded_events_have_the_recorded_peak},
    {"what was alive before is built up", what_was_alive_before_is_built_up},
    {"wrong events are told with their line", wrong_events_are_told_with_their_line},
    {"a line without end is refused", a_line_without_end_is_refused},
    {"events without memory are refused", events_without_memory_are_refused},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo figure_tests[] = {
    {"the smallest device is found exactly", the_smallest_device_is_found_exactly},
    {"page mapping needs less", page_mapping_needs_less},
    {"the device keeps its books", the_device_keeps_its_books},
    {"cases keep their limits", cases_keep_their_limits},
    {"held events keep blocks", held_events_keep_blocks},
    {"metadata is told of many blocks", metadata_is_told_of_many_blocks},
    {"speed is taken of all who are there", speed_is_taken_of_all_who_are_there},
    {"a device that is too small is told", a_device_that_is_too_small_is_told},
    {"threads share a place", threads_share_a_place},
    {"means lack what a row lacks", means_lack_what_a_row_lacks},
    {"a breach of a limit fails", a_breach_of_a_limit_fails},
    {"measures of the system go on", measures_of_the_system_go_on},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"traces", NULL, NULL, NULL, NULL, trace_tests},
                             {"figures", NULL, NULL, NULL, NULL, figure_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
