/* SPDX-License-Identifier: Apache-2.0 */
/* Each row goes out at once for people; the array goes out at the end. Breaches of limits are told on
   standard error. */
#include "bench/alloc/bench_report.h"

#include "bench/alloc/bench_limits.h"
#include "tools/options/complain.h"
#include "tools/print/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Limits of a trace; 0: none. */
typedef struct limit {
    const char *trace;
    double lock_pairs; /* ns_per_pair over lock_ns */
    double capacity_ratio;
    double capacity_ratio_remap;
    double capacity_ratio_segments; /* capacity_ratio of a place that grows in segments */
    double metadata_packed_bytes;
    bool must_move; /* pages, on a device of 1.2 times the peak */
} limit_t;

static const limit_t limits[] = {
#define LIMIT_ROW(trace, lock_pairs, capacity, capacity_remap, capacity_segments, metadata, must_move)       \
    {trace, lock_pairs, capacity, capacity_remap, capacity_segments, metadata, must_move},
    DAO_BENCH_LIMIT_LIST(LIMIT_ROW)
#undef LIMIT_ROW
};

/* Limits are those of the default strategy. */
static bool is_held(const char *strategy)
{
    return strcmp(strategy, dao_bench_strategies[0].name) == 0;
}

static const limit_t *find_limit(const char *trace)
{
    static const limit_t none = {.trace = ""};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        size_t length = strlen(limits[i].trace);
        bool is_group = limits[i].trace[length - 1] == ':';
        if (is_group ? strncmp(trace, limits[i].trace, length) == 0 : strcmp(trace, limits[i].trace) == 0) {
            return &limits[i];
        }
    }
    return &none;
}

dao_bench_figures_t dao_bench_figures_none(void)
{
    dao_bench_figures_t none;
#define NO_FIGURE(name, text) none.name = DAO_BENCH_NONE;
    DAO_BENCH_FIGURE_LIST(NO_FIGURE)
#undef NO_FIGURE
    return none;
}

dao_bench_figures_t dao_bench_figures_mean(const dao_bench_figures_t *rows, size_t count)
{
    dao_bench_figures_t mean = rows[0];
    for (size_t i = 1; i < count; i++) {
#define ADD_FIGURE(name, text)                                                                               \
    mean.name = mean.name == DAO_BENCH_NONE || rows[i].name == DAO_BENCH_NONE ? DAO_BENCH_NONE               \
                                                                              : mean.name + rows[i].name;
        DAO_BENCH_FIGURE_LIST(ADD_FIGURE)
#undef ADD_FIGURE
    }
#define DIVIDE_FIGURE(name, text)                                                                            \
    mean.name = mean.name == DAO_BENCH_NONE ? DAO_BENCH_NONE : mean.name / (double)count;
    DAO_BENCH_FIGURE_LIST(DIVIDE_FIGURE)
#undef DIVIDE_FIGURE
    return mean;
}

void dao_bench_report_begin(dao_bench_report_t *report, bool is_json, bool is_checked, bool in_segments)
{
    *report = (dao_bench_report_t){.is_json = is_json, .is_checked = is_checked, .in_segments = in_segments};
    if (is_json) {
        dao_json_rows_init(&report->json);
    }
}

/* ---- limits ---- */

static void hold(dao_bench_report_t *report, const char *trace, const char *what, double figure, double most)
{
    if (figure > most) {
        report->breach_count++;
        (void)fprintf(stderr, "dao-bench: %s: %s is %.4f; at most %.4f is allowed\n", trace, what, figure,
                      most);
    }
}

static double most_capacity(const dao_bench_report_t *report, const limit_t *limit)
{
    return report->in_segments ? limit->capacity_ratio_segments : limit->capacity_ratio;
}

/* A figure that was not taken is below every limit. */
static void hold_limits(dao_bench_report_t *report, const char *trace, const dao_bench_figures_t *figures)
{
    const limit_t *limit = find_limit(trace);
    if (limit->lock_pairs > 0 && figures->lock_ns > 0) {
        hold(report, trace, "ns_per_pair / lock_ns", figures->ns_per_pair / figures->lock_ns,
             limit->lock_pairs);
    }
    if (most_capacity(report, limit) > 0) {
        hold(report, trace, "capacity_ratio", figures->capacity_ratio, most_capacity(report, limit));
    }
    if (limit->capacity_ratio_remap > 0) {
        hold(report, trace, "capacity_ratio_remap", figures->capacity_ratio_remap,
             limit->capacity_ratio_remap);
    }
    if (limit->metadata_packed_bytes > 0) {
        hold(report, trace, "metadata_packed_bytes", figures->metadata_packed_bytes,
             limit->metadata_packed_bytes);
    }
    if (!limit->must_move) {
        hold(report, trace, "remapped_pages", figures->remapped_pages, DAO_BENCH_REMAPPED_PAGES_MAX);
    }
    hold(report, trace, "driver_calls", figures->driver_calls,
         figures->growth_bytes / (double)DAO_BENCH_PAGE_BYTES);
    hold(report, trace, "driver calls of a second replay", figures->steady_calls,
         figures->steady_growth_bytes / (double)DAO_BENCH_PAGE_BYTES);
}

/* ---- JSON ---- */

static void add_figure(dao_json_rows_t *json, const char *key, double figure, int decimals)
{
    if (figure == DAO_BENCH_NONE) {
        dao_json_rows_null(json, key);
    } else {
        dao_json_rows_decimal(json, key, figure, decimals);
    }
}

static void add_row(dao_json_rows_t *json, const char *trace, const char *strategy,
                    const dao_bench_figures_t *figures)
{
    dao_json_rows_begin(json);
    dao_json_rows_text(json, "trace", trace);
    dao_json_rows_text(json, "strategy", strategy);
    add_figure(json, "ns_per_pair", figures->ns_per_pair, 2);
    add_figure(json, "lock_ns", figures->lock_ns, 2);
    add_figure(json, "p99_ns", figures->p99_ns, 0);
    add_figure(json, "p999_ns", figures->p999_ns, 0);
    add_figure(json, "p9999_ns", figures->p9999_ns, 0);
    add_figure(json, "max_ns", figures->max_ns, 0);
    add_figure(json, "footprint_ratio", figures->footprint_ratio, 4);
    add_figure(json, "capacity_ratio", figures->capacity_ratio, 4);
    add_figure(json, "capacity_ratio_remap", figures->capacity_ratio_remap, 4);
    add_figure(json, "driver_calls", figures->driver_calls, 0);
    add_figure(json, "remapped_pages", figures->remapped_pages, 0);
    add_figure(json, "metadata_packed_bytes", figures->metadata_packed_bytes, 1);
    add_figure(json, "metadata_bytes", figures->metadata_bytes, 1);
    if (figures->plain_ns != DAO_BENCH_NONE) {
        add_figure(json, "plain_ns", figures->plain_ns, 2);
    }
    if (figures->threads_ns != DAO_BENCH_NONE) {
        add_figure(json, "threads_ns", figures->threads_ns, 2);
        add_figure(json, "threads_scaling", figures->threads_scaling, 3);
        add_figure(json, "threads_cpu_ratio", figures->threads_cpu_ratio, 3);
        add_figure(json, "threads_overlap", figures->threads_overlap, 3);
    }
}

/* ---- the table ---- */

/* A figure, and behind a slash its limit. */
static void print_figure(int width, double figure, int decimals, double limit)
{
    char text[64] = "-";
    if (figure != DAO_BENCH_NONE) {
        int length = snprintf(text, sizeof(text), "%.*f", decimals, figure);
        if (limit > 0) {
            (void)snprintf(text + length, sizeof(text) - (size_t)length, "/%g", limit);
        }
    }
    (void)printf(" %*s", width, text);
}

static void print_threads(const dao_bench_report_t *report, const char *trace, const char *strategy,
                          const dao_bench_figures_t *figures)
{
    if (report->row_count == 0) {
        (void)printf("%-18s %-12s %9s %9s %9s %9s\n", "trace", "strategy", "ns/pair", "scaling", "cpu",
                     "overlap");
    }
    (void)printf("%-18s %-12s %9.1f %9.2f %9.2f %9.2f\n", trace, strategy, figures->threads_ns,
                 figures->threads_scaling, figures->threads_cpu_ratio, figures->threads_overlap);
    dao_output_flush();
}

static void print_ordered(const dao_bench_report_t *report, const char *trace, const char *strategy,
                          const dao_bench_figures_t *figures)
{
    if (report->row_count == 0) {
        (void)printf("%-18s %-12s %9s %9s %7s %7s %8s %9s %10s %10s\n", "trace", "strategy", "ns/pair",
                     "plain ns", "ratio", "lock ns", "p99 ns", "p99.9 ns", "p99.99 ns", "max ns");
    }
    (void)printf("%-18s %-12s %9.1f %9.1f %7.2f %7.1f %8.0f %9.0f %10.0f %10.0f\n", trace, strategy,
                 figures->ns_per_pair, figures->plain_ns, figures->ns_per_pair / figures->plain_ns,
                 figures->lock_ns, figures->p99_ns, figures->p999_ns, figures->p9999_ns, figures->max_ns);
    dao_output_flush();
}

static void print_row(const dao_bench_report_t *report, const char *trace, const char *strategy,
                      const dao_bench_figures_t *figures)
{
    static const limit_t none = {.trace = ""};
    const limit_t *limit = is_held(strategy) ? find_limit(trace) : &none;
    if (report->row_count == 0) {
        (void)printf("%-18s %-12s %9s %7s %12s %8s %9s %10s %10s %10s %13s %13s %9s %8s %8s %8s\n", "trace",
                     "strategy", "ns/pair", "lock ns", "locks/pair", "p99 ns", "p99.9 ns", "p99.99 ns",
                     "max ns", "footprint", "capacity", "remapping", "driver", "packed B", "meta B",
                     "remapped");
    }
    double locks = figures->lock_ns > 0 ? figures->ns_per_pair / figures->lock_ns : DAO_BENCH_NONE;
    (void)printf("%-18s %-12s", trace, strategy);
    print_figure(9, figures->ns_per_pair, 1, 0);
    print_figure(7, figures->lock_ns, 1, 0);
    print_figure(12, locks, 2, limit->lock_pairs);
    print_figure(8, figures->p99_ns, 0, 0);
    print_figure(9, figures->p999_ns, 0, 0);
    print_figure(10, figures->p9999_ns, 0, 0);
    print_figure(10, figures->max_ns, 0, 0);
    print_figure(10, figures->footprint_ratio, 3, 0);
    print_figure(13, figures->capacity_ratio, 4, most_capacity(report, limit));
    print_figure(13, figures->capacity_ratio_remap, 4, limit->capacity_ratio_remap);
    print_figure(9, figures->driver_calls, 0, 0);
    print_figure(8, figures->metadata_packed_bytes, 1, limit->metadata_packed_bytes);
    print_figure(8, figures->metadata_bytes, 1, 0);
    print_figure(8, figures->remapped_pages, 0, 0);
    (void)putchar('\n');
    dao_output_flush();
}

void dao_bench_report_row(dao_bench_report_t *report, const char *trace, const char *strategy,
                          const dao_bench_figures_t *figures)
{
    if (report->is_checked && is_held(strategy)) {
        hold_limits(report, trace, figures);
    }
    if (report->is_json) {
        add_row(&report->json, trace, strategy, figures);
    } else if (figures->threads_ns != DAO_BENCH_NONE) {
        print_threads(report, trace, strategy, figures);
    } else if (figures->plain_ns != DAO_BENCH_NONE) {
        print_ordered(report, trace, strategy, figures);
    } else {
        report->has_notes = true;
        print_row(report, trace, strategy, figures);
    }
    report->row_count++;
}

void dao_bench_report_case(dao_bench_report_t *report, const dao_bench_case_t *item)
{
    if (report->is_checked && !item->is_a_time) {
        hold(report, "cases", item->name, item->figure, item->most);
    }
    if (report->is_json) {
        dao_json_rows_begin(&report->json);
        dao_json_rows_text(&report->json, "case", item->name);
        add_figure(&report->json, "figure", item->figure, 3);
        add_figure(&report->json, "most", item->most, 3);
    } else {
        (void)printf("%-14s %10.3f, at most %6g: %s\n", item->name, item->figure, item->most, item->text);
        dao_output_flush();
    }
}

void dao_bench_report_skip(dao_bench_report_t *report, const char *trace, const char *strategy,
                           const char *why)
{
    (void)fprintf(report->is_json ? stderr : stdout, "%-18s %-12s skipped: %s %s\n", trace, strategy,
                  strategy, why);
}

int dao_bench_report_end(dao_bench_report_t *report)
{
    bool has_failed = report->is_json && !dao_json_rows_print(&report->json);
    if (report->has_notes) {
        (void)printf("ns: processor time, without the empty call; behind a slash: the limit of good_fit\n");
    }
    if (report->breach_count > 0) {
        (void)fprintf(stderr, "dao-bench: %" PRIu64 " figures are over their limits\n", report->breach_count);
    }
    has_failed = has_failed || report->breach_count > 0;
    dao_bench_report_drop(report);
    return has_failed ? DAO_EXIT_FAILED : DAO_EXIT_OK;
}

void dao_bench_report_drop(dao_bench_report_t *report)
{
    if (report->is_json) {
        dao_json_rows_finish(&report->json);
    }
    dao_output_flush();
}
