/* SPDX-License-Identifier: Apache-2.0 */
/* `dao simulate TRACE`: a step in limited memory in virtual time, beside the least time that any scheme could
   need. */
#include "tools/base/progress.h"
#include "tools/commands.h"
#include "tools/model/step_problem.h"
#include "tools/options/complain.h"
#include "tools/options/shared.h"
#include "tools/print/lines.h"
#include "tools/print/report.h"
#include "tools/read/step/read_step.h"
#include "tools/simulate/explain.h"
#include "tools/simulate/scheme.h"
#include "tools/write/out_file.h"

#include "allocators/range/range.h"
#include "base/memory/host.h"
#include "base/numbers/units.h"
#include "base/report/error.h"

#include <dao/recompute.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Capacities of --sweep, from the first down to the last: in percent of the peak, or in bytes. */
typedef struct sweep {
    unsigned first, last;
    uint64_t first_bytes, last_bytes;
} sweep_t;

typedef struct settings {
    dao_capacity_t capacity;
    dao_swap_tier_t host;
    dao_swap_tier_t file;
    uint32_t scheme; /* index into dao_schemes; all of them: that of its end */
    uint64_t step_count, window_kernels, threshold;
    uint64_t in_flight_ns;                        /* 0: the executor's own */
    uint64_t rank_count, shared_bytes_per_second; /* 0: one device with a link of its own */
    sweep_t sweep;                                /* zero: none */
    uint64_t slow_down;                           /* millionths; 0: none is asked for */
    uint64_t time_scale;                          /* millionths */
    const char *batch, *trace_out;
    bool moves_all, keeps_streams;
    bool is_half_duplex, is_static, is_paged;
    bool is_explained, is_json;
} settings_t;

/* Time of a read or write of the file, on top of its bytes. */
#define FILE_LATENCY_NS UINT64_C(100000)

enum { SWEEP_MOST = 100, SWEEP_APART = 10, SWEEP_SIZES = 9, SWEEP_SIZE_BYTES = 40, SWEEP_INDENT = 4 };

/* A terminal has room for the time of the first step as well; and for that of what runs again. */
enum { COLUMNS_WITH_FIRST = 91, COLUMNS_WITH_AGAIN = 102, HEAD_BYTES = 512 };

/* A search for a capacity ends when it is known to this part of the peak. */
#define SEARCH_PARTS 1000

#define SCHEME_NAME(name, meaning, choice, run) name,
DAO_OPTION_NAMES(scheme_at, DAO_SCHEME_LIST(SCHEME_NAME) "all")

/* Reads "8GiB..2GiB". */
static bool parse_sizes(const char *text, sweep_t *out_sweep)
{
    const char *dots = strstr(text, "..");
    char first[SWEEP_SIZE_BYTES];
    if (dots == NULL || dots - text >= SWEEP_SIZE_BYTES) {
        return false;
    }
    (void)snprintf(first, sizeof(first), "%.*s", (int)(dots - text), text);
    return dao_units_parse_bytes(first, &out_sweep->first_bytes) == DAO_OK &&
           dao_units_parse_bytes(dots + 2, &out_sweep->last_bytes) == DAO_OK && out_sweep->last_bytes > 0 &&
           out_sweep->last_bytes <= out_sweep->first_bytes;
}

/* Reads "90%..20%", or sizes with a unit: a number alone is neither. */
static dao_status_t parse_sweep(const char *text, void *field)
{
    sweep_t sweep = {.first = 0};
    int length = 0;
    bool is_percent = sscanf(text, "%3u%%..%3u%%%n", &sweep.first, &sweep.last, &length) == 2 &&
                      (size_t)length == strlen(text) && sweep.first <= SWEEP_MOST && sweep.last >= 1 &&
                      sweep.last <= sweep.first;
    if (!is_percent) {
        sweep.first = sweep.last = 0;
    }
    if (!is_percent && (strspn(text, "0123456789.") == strlen(text) || !parse_sizes(text, &sweep))) {
        return dao_error(DAO_ERR_INVALID,
                         "\"%.40s\" is no range of capacities; write it such as 90%%..20%% or 8GiB..2GiB",
                         text);
    }
    *(sweep_t *)field = sweep;
    return DAO_OK;
}

static const dao_option_t options[] = {
    {.name = "capacity",
     .type = DAO_OPTION_TYPE_CAPACITY,
     DAO_OPTION_FIELD(settings_t, capacity),
     .value = "SIZE",
     .preset = "50%",
     .help = "device memory: 50% of the peak, 37.5%, 40GiB"},
    {.name = "link-in",
     .type = DAO_OPTION_TYPE_RATE,
     DAO_OPTION_FIELD(settings_t, host.in_bytes_per_second),
     .value = "RATE",
     .least = 1,
     .preset = "50GB/s",
     .help = "speed of copies to the device"},
    {.name = "link-out",
     .type = DAO_OPTION_TYPE_RATE,
     DAO_OPTION_FIELD(settings_t, host.out_bytes_per_second),
     .value = "RATE",
     .least = 1,
     .help = "speed of copies to the host; without it that of --link-in"},
    {.name = "latency",
     .type = DAO_OPTION_TYPE_TIME,
     DAO_OPTION_FIELD(settings_t, host.latency_ns),
     .value = "TIME",
     .preset = "10us",
     .help = "of every copy"},
    {.name = "half-duplex",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_half_duplex),
     .help = "one copy at a time, whatever its direction"},
    {.name = "ranks",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, rank_count),
     .value = "N",
     .least = 1,
     .most = DAO_DEVICE_COUNT_MAX,
     .help = "devices that take the same step at the same time, each with a link such as --link-in says"},
    {.name = "shared-host-link",
     .type = DAO_OPTION_TYPE_RATE,
     DAO_OPTION_FIELD(settings_t, shared_bytes_per_second),
     .value = "RATE",
     .least = 1,
     .help = "speed at which the links of all --ranks reach the host's memory, both ways together"},
    DAO_OPTION_STATIC(settings_t, is_static),
    DAO_OPTION_PAGES(settings_t, is_paged),
    {.name = "scheme",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, scheme),
     .value = "SCHEME",
     .name_at = scheme_at,
     .preset = "online",
     .help = "one of those above, or all"},
    {.name = "steps",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, step_count),
     .value = "N",
     .least = 1,
     .most = 1000,
     .preset = "6",
     .help = "steps in a row; not for feature maps"},
    {.name = "window",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, window_kernels),
     .value = "N",
     .least = 1,
     .most = UINT32_MAX,
     .help = "kernels known ahead, by schemes of the executor but plan and plan-whole; without it two steps"},
    {.name = "ahead",
     .type = DAO_OPTION_TYPE_TIME,
     DAO_OPTION_FIELD(settings_t, in_flight_ns),
     .value = "TIME",
     .least = 1,
     .help = "device time of kernels that these queue ahead of the device, at most; without it 1s"},
    {.name = "streams",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, keeps_streams),
     .help =
         "keep the compute streams that the file has operators on: in the executor, and in plans of copies"},
    DAO_OPTION_HOST(settings_t, host.limit_bytes),
    {.name = "file-in",
     .type = DAO_OPTION_TYPE_RATE,
     DAO_OPTION_FIELD(settings_t, file.in_bytes_per_second),
     .value = "RATE",
     .least = 1,
     .help = "speed of reads from a file that takes what --host leaves over, 100us each; without it no file"},
    {.name = "file-out",
     .type = DAO_OPTION_TYPE_RATE,
     DAO_OPTION_FIELD(settings_t, file.out_bytes_per_second),
     .value = "RATE",
     .least = 1,
     .help = "speed of writes to it; without it that of reads"},
    {.name = "sweep",
     .type = DAO_OPTION_TYPE_PARSED,
     DAO_OPTION_FIELD(settings_t, sweep),
     .value = "RANGE",
     .parse = parse_sweep,
     .help = "capacities 90%..20% in steps of 10% of the peak, or 9 sizes from 8GiB to 2GiB: 8GiB..2GiB"},
    {.name = "slow-down",
     .type = DAO_OPTION_TYPE_DECIMAL,
     DAO_OPTION_FIELD(settings_t, slow_down),
     .value = "X",
     .least = 1,
     .most = 1000,
     .noun = "factor",
     .help = "find the smallest capacity at which a step takes X times its kernels, 1.05"},
    {.name = "time-scale",
     .type = DAO_OPTION_TYPE_DECIMAL,
     DAO_OPTION_FIELD(settings_t, time_scale),
     .value = "X",
     .most = 1000,
     .preset = "1",
     .help = "operators take X times their recorded time"},
    {.name = "explain",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_explained),
     .help = "where the time goes, and what would help"},
    {.name = "threshold",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, threshold),
     .value = "N",
     .most = DAO_TRACE_NONE - 1,
     .help = "last operator of the forward pass, for sync, half-sync, async; without it found"},
    {.name = "all-maps",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, moves_all),
     .help = "sync, half-sync, async: every feature map moves, whatever the capacity"},
    DAO_OPTION_BATCH(settings_t, batch),
    DAO_OPTION_RUN_TRACE(settings_t, trace_out),
    DAO_OPTION_JSON(settings_t, is_json, "print a JSON array"),
    {.name = NULL},
};

#define CHOSEN     "--capacity is what --sweep and --slow-down choose"
#define RANKS      "--ranks and --shared-host-link belong together"
#define NEEDS_HOST "--file-in and --file-out need --host: the file takes what that leaves over"

static const dao_option_rule_t rules[] = {
    {"capacity", "sweep", false, CHOSEN},
    {"capacity", "slow-down", false, CHOSEN},
    {"sweep", "slow-down", false, "--sweep and --slow-down both choose the capacity"},
    {"trace", "sweep", false, "--trace is for one capacity, not for --sweep"},
    {"file-in", "host", true, NEEDS_HOST},
    {"file-out", "host", true, NEEDS_HOST},
    {"file-out", "file-in", true, "--file-out needs --file-in"},
    {"ranks", "shared-host-link", true, RANKS},
    {"shared-host-link", "ranks", true, RANKS},
    {"shared-host-link", "half-duplex", false, "--shared-host-link is for links of full duplex"},
    {"streams", "explain", false, "--explain is for kernels one behind the other: leave --streams out"},
    {"streams", "slow-down", false, "--slow-down is for kernels one behind the other: leave --streams out"},
    DAO_OPTION_ADDRESSES_RULE,
    {.option = NULL},
};

/* An option that the only scheme does not look at would be passed over in silence. */
static dao_status_t check_scheme(const dao_arguments_t *arguments, const dao_scheme_t *scheme)
{
    const char *name = scheme->name;
    if (!dao_scheme_moves_maps(scheme) &&
        (dao_option_is_given(arguments, "threshold") || dao_option_is_given(arguments, "all-maps"))) {
        return dao_error(DAO_ERR_INVALID,
                         "--threshold and --all-maps are for feature maps, not for --scheme %s", name);
    }
    if (dao_scheme_moves_maps(scheme) && dao_option_is_given(arguments, "steps")) {
        return dao_error(DAO_ERR_INVALID, "--steps is not for --scheme %s, which runs one step", name);
    }
    if (!dao_scheme_is_executor(scheme) &&
        (dao_option_is_given(arguments, "window") || dao_option_is_given(arguments, "ahead"))) {
        return dao_error(DAO_ERR_INVALID,
                         "--window and --ahead are for schemes of the executor, not for --scheme %s", name);
    }
    if (!dao_scheme_has_streams(scheme) && dao_option_is_given(arguments, "streams")) {
        return dao_error(DAO_ERR_INVALID,
                         "--streams is for schemes of the executor and plans of copies, not for --scheme %s, "
                         "which has one compute stream",
                         name);
    }
    if (!dao_scheme_plans(scheme) &&
        (dao_option_is_given(arguments, "static") || dao_option_is_given(arguments, "pages"))) {
        return dao_error(DAO_ERR_INVALID, DAO_OPTION_ADDRESSES_MISUSE, name);
    }
    return DAO_OK;
}

static dao_status_t check_settings(const dao_arguments_t *arguments, void *user)
{
    const settings_t *settings = user;
    const char *scheme = dao_schemes[settings->scheme].name;
    bool is_planned = scheme != NULL && (strcmp(scheme, "plan") == 0 || strcmp(scheme, "plan-whole") == 0);
    if (settings->rank_count > 0 && !is_planned) {
        return dao_error(DAO_ERR_INVALID, "--ranks is for --scheme plan or plan-whole");
    }
    if (settings->trace_out != NULL && scheme == NULL) {
        return dao_error(DAO_ERR_INVALID, "--trace is for one --scheme");
    }
    dao_status_t status = scheme != NULL ? check_scheme(arguments, &dao_schemes[settings->scheme]) : DAO_OK;
    return status == DAO_OK ? dao_out_file_check(settings->trace_out, arguments->words[0]) : status;
}

/* The command, its options understood. */
typedef struct request {
    const settings_t *settings;
    const dao_step_trace_t *trace;
    dao_step_problem_t step;
    const dao_scheme_t *scheme; /* NULL: all */
    uint32_t step_count, window_kernels, threshold;
    uint64_t in_flight_ns;
    uint32_t *streams; /* of each kernel, numbered; NULL: all are on one */
    uint32_t stream_count;
    double slow_down;       /* 0: none is asked for */
    dao_swap_bound_t whole; /* the bound with memory for everything */
    dao_report_t list;
    bool has_head;  /* of the table */
    bool has_first; /* the table has room for the first step */
    bool has_again; /* and for what runs again, of which there are rows */
} request_t;

/* Takes over what the options say; the table has checked it. */
static void set_request(settings_t *settings, request_t *request)
{
    settings->host.duplex = settings->is_half_duplex ? DAO_SWAP_DUPLEX_HALF : DAO_SWAP_DUPLEX_FULL;
    if (settings->rank_count > 0) { /* all do the same at the same time, so that each has an equal share */
        uint64_t share = settings->shared_bytes_per_second / settings->rank_count;
        settings->host.shared_bytes_per_second = share > 0 ? share : 1;
    }
    settings->file.latency_ns = settings->file.in_bytes_per_second > 0 ? FILE_LATENCY_NS : 0;
    *request = (request_t){
        .settings = settings,
        .scheme = dao_schemes[settings->scheme].name != NULL ? &dao_schemes[settings->scheme] : NULL,
        .step_count = (uint32_t)settings->step_count,
        .window_kernels = (uint32_t)settings->window_kernels,
        .threshold = (uint32_t)settings->threshold,
        .in_flight_ns = settings->in_flight_ns,
        .slow_down = (double)settings->slow_down / (double)DAO_OPTION_MILLIONTHS,
    };
}

/* ---- rows ---- */

/* One scheme at one capacity. */
typedef struct row {
    const dao_scheme_t *scheme;
    dao_swap_problem_t problem;
    dao_swap_bound_t bound;
    dao_scheme_run_t run;
} row_t;

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static double mebibytes(uint64_t size_bytes)
{
    return (double)size_bytes / 1048576;
}

/* Step over bound. A step whose kernels have no times may have a bound of 0, and then there is none. */
static bool has_ratio(const row_t *row)
{
    return row->bound.step_ns > 0;
}

static double ratio_of(const row_t *row)
{
    return (double)row->run.simulation.step_ns / (double)row->bound.step_ns;
}

static double fraction_of(const request_t *request, uint64_t capacity_bytes)
{
    uint64_t peak_bytes = request->whole.peak_bytes;
    return peak_bytes == 0 ? 0 : (double)capacity_bytes / (double)peak_bytes;
}

/* Its kernels are on the trace's streams; all others have one stream. */
static bool has_streams(const request_t *request, const dao_scheme_t *scheme)
{
    return request->streams != NULL && dao_scheme_has_streams(scheme);
}

/* Puts the step's kernels on the streams of a scheme. */
static void place_kernels(const request_t *request, const dao_scheme_t *scheme)
{
    bool is_beside = has_streams(request, scheme);
    for (uint32_t k = 0; k < request->step.problem.kernel_count; k++) {
        request->step.kernels[k].stream = is_beside ? request->streams[k] : 0;
    }
}

static dao_status_t make_row(const request_t *request, const dao_scheme_t *scheme, uint64_t capacity_bytes,
                             dao_scheme_known_t *known, row_t *row)
{
    *row = (row_t){.scheme = scheme, .problem = request->step.problem};
    place_kernels(request, scheme);
    row->problem.capacity_bytes = capacity_bytes;
    row->problem.page_bytes = DAO_PAGE_BYTES;
    dao_scheme_input_t input = {
        .problem = &row->problem,
        .trace = request->trace,
        .threshold = request->threshold,
        .moves_all = request->settings->moves_all,
        .step_count = request->step_count,
        .addresses = DAO_OPTION_ADDRESSES(request->settings->is_static, request->settings->is_paged),
        .window_kernels = request->window_kernels,
        .in_flight_ns = request->in_flight_ns,
        .streams = request->streams,
        .known = known};
    dao_status_t status = scheme->run(scheme, &input, &row->run);
    if (status == DAO_OK) {
        row->problem.capacity_bytes = row->run.capacity_bytes;
        status = dao_swap_find_bound(&row->problem, &row->bound);
    }
    if (status == DAO_OK && row->run.runs_again) {
        dao_recompute_bound_t bound;
        status = dao_recompute_find_bound(&row->problem, &bound);
        row->bound.step_ns = bound.step_ns;
    }
    if (status != DAO_OK) {
        dao_simulation_finish(&row->run.simulation);
    }
    return status;
}

static void report_head(request_t *request, const row_t *row)
{
    const dao_swap_bound_t *whole = &request->whole;
    char peak[DAO_UNITS_TEXT_BYTES];
    char smallest[DAO_UNITS_TEXT_BYTES];
    char compute[DAO_UNITS_TEXT_BYTES];
    char head[HEAD_BYTES];
    (void)snprintf(
        head, sizeof(head),
        "%s, batch %s: %u kernels of %s, peak %s, smallest capacity %s (kernel %u \"%.40s\")",
        request->trace->model, request->trace->batch, request->step.problem.kernel_count,
        dao_units_format_time(whole->compute_ns, compute), dao_units_format_bytes(whole->peak_bytes, peak),
        dao_units_format_bytes(whole->least_capacity_bytes, smallest), whole->least_capacity_kernel,
        dao_trace_operator_name(request->trace, whole->least_capacity_kernel));
    dao_output_words(head, 0, 2);
    if (request->streams != NULL) {
        dao_output_say("kernels on %" PRIu32
                       " compute streams, but where they run again, or maps move by rule",
                       request->stream_count);
    }
    request->has_first = dao_output_columns() >= COLUMNS_WITH_FIRST;
    request->has_again =
        dao_output_columns() >= COLUMNS_WITH_AGAIN && (request->scheme == NULL || row->run.runs_again);
    (void)printf("\n%-15s %7s %8s %10s %10s %6s", "scheme", "of peak", "MiB", "step ms", "bound ms", "ratio");
    if (request->has_first) {
        (void)printf(" %10s", "first ms");
    }
    if (request->has_again) {
        (void)printf(" %10s", "again ms");
    }
    (void)printf(" %8s %8s\n", "MiB in", "MiB out");
    request->has_head = true;
}

static void print_row(request_t *request, const row_t *row)
{
    const dao_simulation_t *simulation = &row->run.simulation;
    char ratio[DAO_REPORT_SIZE_BYTES] = "-";
    if (has_ratio(row)) {
        (void)snprintf(ratio, sizeof(ratio), "%.3f", ratio_of(row));
    }
    dao_progress_hide();
    if (!request->has_head) {
        report_head(request, row);
    }
    (void)printf("%-15s %6.1f%% %8.1f %10.3f %10.3f %6s", row->scheme->name,
                 100 * fraction_of(request, row->run.capacity_bytes), mebibytes(row->run.capacity_bytes),
                 seconds(simulation->step_ns) * 1e3, seconds(row->bound.step_ns) * 1e3, ratio);
    if (request->has_first) {
        (void)printf(" %10.3f", seconds(simulation->first_step_ns) * 1e3);
    }
    if (request->has_again && row->run.runs_again) {
        (void)printf(" %10.3f", seconds(row->run.again_ns) * 1e3);
    } else if (request->has_again) {
        (void)printf(" %10s", "-");
    }
    (void)printf(" %8.1f %8.1f\n", mebibytes(simulation->in_bytes), mebibytes(simulation->out_bytes));
    if (request->slow_down > 0) {
        dao_output_say(
            "the smallest capacity with which steps take at most %.3f times their kernels: here %.3f",
            request->slow_down, (double)simulation->step_ns / (double)simulation->compute_ns);
    }
    dao_output_flush();
}

static void put_row(const request_t *request, const row_t *row, dao_report_t *item)
{
    const dao_simulation_t *simulation = &row->run.simulation;
    dao_report_begin(item, true);
    dao_report_text(item, "scheme", NULL, row->scheme->name);
    dao_report_number(item, "fraction", fraction_of(request, row->run.capacity_bytes));
    dao_report_bytes(item, "capacity_bytes", NULL, row->run.capacity_bytes);
    dao_report_bytes(item, "smallest_capacity_bytes", NULL, row->bound.least_capacity_bytes);
    dao_report_number(item, "step_s", seconds(simulation->step_ns));
    dao_report_number(item, "first_step_s", seconds(simulation->first_step_ns));
    dao_report_number(item, "bound_s", seconds(row->bound.step_ns));
    if (has_ratio(row)) {
        dao_report_number(item, "ratio", ratio_of(row));
    } else {
        dao_report_unknown(item, "ratio", NULL, NULL);
    }
    dao_report_number(item, "compute_s", seconds(simulation->compute_ns));
    if (has_streams(request, row->scheme)) {
        dao_report_count(item, "streams", NULL, request->stream_count);
    }
    if (row->run.runs_again) {
        dao_report_count(item, "again_count", NULL, row->run.again_count);
        dao_report_number(item, "again_s", seconds(row->run.again_ns));
    }
    dao_report_bytes(item, "bytes_in", NULL, simulation->in_bytes);
    dao_report_bytes(item, "bytes_out", NULL, simulation->out_bytes);
    dao_report_number(item, "plan_s", seconds(row->run.plan_ns));
}

/* Writes what runs again. */
static void report_again(const row_t *row)
{
    dao_output_say("%" PRIu32 " kernels run again in %.3f ms, %.1f%% of a step; the bound counts copies and "
                   "kernels that run again",
                   row->run.again_count, (double)row->run.again_ns / 1e6,
                   row->run.simulation.step_ns == 0
                       ? 0
                       : 100 * (double)row->run.again_ns / (double)row->run.simulation.step_ns);
    (void)putchar('\n');
}

/* Tells of a row, and where its time goes if that is asked for and known. */
static dao_status_t report_row(request_t *request, const row_t *row)
{
    const dao_simulation_t *simulation = &row->run.simulation;
    bool is_explained =
        request->settings->is_explained && simulation->kernel_count > 0 && !row->run.runs_again;
    dao_report_t item;
    dao_status_t status = DAO_OK;
    if (request->settings->is_json) {
        put_row(request, row, &item);
        status = is_explained
                     ? dao_explain_report(&item, request->trace, &row->problem, &row->bound, simulation)
                     : DAO_OK;
        dao_report_list_item(&request->list, &item);
        return status;
    }
    print_row(request, row);
    if (request->settings->is_explained && row->run.runs_again) {
        report_again(row);
    } else if (is_explained) {
        status = dao_explain(request->trace, &row->problem, &row->bound, simulation);
    } else if (request->settings->is_explained) {
        (void)printf("  %s has no times of single kernels: nothing can be explained\n\n", row->scheme->name);
    }
    return status;
}

static dao_status_t write_trace(const request_t *request, const row_t *row)
{
    dao_run_spans_t spans = {0};
    if (row->run.simulation.kernel_count == 0) {
        return dao_error(DAO_ERR_UNSUPPORTED, "%s has no times of single kernels: there is no trace of it",
                         row->scheme->name);
    }
    dao_simulation_spans(&row->run.simulation, row->problem.kernel_count, &spans);
    dao_status_t status =
        dao_write_run_trace(request->settings->trace_out, row->scheme->name, request->trace, &spans);
    dao_run_spans_finish(&spans);
    return status;
}

static dao_status_t run_row(request_t *request, const dao_scheme_t *scheme, uint64_t capacity_bytes)
{
    row_t row;
    dao_status_t status = make_row(request, scheme, capacity_bytes, NULL, &row);
    dao_progress_add(1);
    if (status == DAO_OK) {
        status = report_row(request, &row);
        status =
            status == DAO_OK && request->settings->trace_out != NULL ? write_trace(request, &row) : status;
        dao_simulation_finish(&row.run.simulation);
    }
    return status;
}

/* ---- the smallest capacity for a slow-down ---- */

static dao_status_t is_fast_enough(const request_t *request, const dao_scheme_t *scheme,
                                   uint64_t capacity_bytes, bool *out_answer)
{
    row_t row;
    dao_status_t status = make_row(request, scheme, capacity_bytes, NULL, &row);
    if (status == DAO_ERR_LIMIT || status == DAO_ERR_HOST_FULL) {
        *out_answer = false; /* with so little it cannot run at all */
        return DAO_OK;
    }
    if (status == DAO_OK) {
        *out_answer =
            (double)row.run.simulation.step_ns <= request->slow_down * (double)row.run.simulation.compute_ns;
        dao_simulation_finish(&row.run.simulation);
    }
    return status;
}

/* Halves what lies between a capacity that is enough, at first the peak, and one that counts as too small, at
   first what one kernel needs. */
static dao_status_t find_capacity(const request_t *request, const dao_scheme_t *scheme, uint64_t *out_bytes)
{
    uint64_t enough = request->whole.peak_bytes;
    uint64_t too_small = request->whole.least_capacity_bytes;
    uint64_t apart = enough / SEARCH_PARTS + 1;
    bool is_enough = false;
    dao_status_t status = is_fast_enough(request, scheme, enough, &is_enough);
    if (status == DAO_OK && !is_enough) {
        return dao_error(DAO_ERR_LIMIT, "%s takes more than %.3f times the kernels even with all of the peak",
                         scheme->name, request->slow_down);
    }
    while (status == DAO_OK && enough - too_small > apart) {
        uint64_t middle = too_small + (enough - too_small) / 2;
        status = is_fast_enough(request, scheme, middle, &is_enough);
        *(is_enough ? &enough : &too_small) = middle;
    }
    *out_bytes = enough;
    return status;
}

/* ---- the command ---- */

/* Where many rows are asked for, one that cannot be had is told and left out: in the table, or beside a JSON
   array. */
static void tell_left_out(const request_t *request, const dao_scheme_t *scheme, uint64_t capacity_bytes,
                          const char *reason)
{
    double percent = 100 * fraction_of(request, capacity_bytes);
    dao_progress_hide();
    if (request->settings->is_json) {
        (void)fprintf(stderr, "%-15s %6.1f%% left out: %s\n", scheme->name, percent, reason);
        return;
    }
    int column = printf("%-15s %6.1f%% left out: ", scheme->name, percent);
    dao_output_words(reason, column > 0 ? (size_t)column : 0, SWEEP_INDENT);
}

static bool is_refusal(dao_status_t status)
{
    return status == DAO_ERR_LIMIT || status == DAO_ERR_UNSUPPORTED || status == DAO_ERR_HOST_FULL;
}

/* Returns how many capacities a sweep has. */
static uint32_t count_sweep(const sweep_t *sweep)
{
    uint32_t sizes = sweep->first_bytes > sweep->last_bytes ? SWEEP_SIZES : 1;
    return sweep->first > 0 ? (sweep->first - sweep->last) / SWEEP_APART + 1 : sizes;
}

static uint64_t capacity_of_sweep(const sweep_t *sweep, uint64_t peak_bytes, uint32_t index)
{
    if (sweep->first > 0) {
        unsigned percent = sweep->first - index * SWEEP_APART;
        return peak_bytes / 100 * percent + peak_bytes % 100 * percent / 100;
    }
    uint64_t range = sweep->first_bytes - sweep->last_bytes;
    uint64_t parts = SWEEP_SIZES - 1;
    return sweep->first_bytes - (range / parts * index + range % parts * index / parts);
}

/* A row of a sweep, or why it has none. */
typedef struct sweep_row {
    row_t row;
    uint64_t capacity_bytes;
    dao_status_t status;
    bool is_of_less; /* its plan is that of the next row, which owns it */
    char reason[DAO_ERROR_MESSAGE_BYTES];
} sweep_row_t;

static void finish_sweep_row(sweep_row_t *one)
{
    if (!one->is_of_less) {
        dao_simulation_finish(&one->row.run.simulation);
    }
}

/* A plan for less memory that is quicker takes the place of this row's. */
static void take_quicker(sweep_row_t *one, const sweep_row_t *less)
{
    if (one->status == DAO_OK && less->status == DAO_OK &&
        less->row.run.simulation.step_ns < one->row.run.simulation.step_ns) {
        finish_sweep_row(one);
        one->row.run = less->row.run;
        one->row.run.capacity_bytes = one->row.problem.capacity_bytes;
        one->is_of_less = true;
    }
}

static void make_sweep_row(const request_t *request, const dao_scheme_t *scheme, dao_scheme_known_t *known,
                           sweep_row_t *one)
{
    if (one->capacity_bytes < request->whole.least_capacity_bytes) {
        one->status = dao_error(DAO_ERR_LIMIT, "below the smallest capacity");
    } else {
        one->status = make_row(request, scheme, one->capacity_bytes, known, &one->row);
    }
    if (one->status != DAO_OK) {
        (void)snprintf(one->reason, sizeof(one->reason), "%s", dao_last_message());
    }
    dao_progress_add(1);
}

/* Tells of a row, or that it is left out. A failure that is no refusal ends the sweep. */
static dao_status_t tell_sweep_row(request_t *request, const dao_scheme_t *scheme, sweep_row_t *one)
{
    dao_status_t status = one->status;
    if (status == DAO_OK) {
        status = report_row(request, &one->row);
    } else if (is_refusal(status)) {
        tell_left_out(request, scheme, one->capacity_bytes, one->reason);
        status = DAO_OK;
    }
    finish_sweep_row(one);
    return status;
}

/* Each row is told as soon as it is there. */
static dao_status_t sweep_apart(request_t *request, const dao_scheme_t *scheme)
{
    const sweep_t *sweep = &request->settings->sweep;
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < count_sweep(sweep); i++) {
        sweep_row_t one = {.capacity_bytes = capacity_of_sweep(sweep, request->whole.peak_bytes, i)};
        make_sweep_row(request, scheme, NULL, &one);
        status = tell_sweep_row(request, scheme, &one);
    }
    return status;
}

/* From the least capacity on, as a plan for less memory is one for more; told from the most on. */
static dao_status_t sweep_plans(request_t *request, const dao_scheme_t *scheme)
{
    const sweep_t *sweep = &request->settings->sweep;
    uint32_t count = count_sweep(sweep);
    sweep_row_t *rows = dao_host_calloc(count, sizeof(*rows));
    dao_scheme_known_t known = {0};
    dao_status_t status = rows != NULL ? DAO_OK : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a sweep");
    for (uint32_t i = count; status == DAO_OK && i-- > 0;) {
        rows[i].capacity_bytes = capacity_of_sweep(sweep, request->whole.peak_bytes, i);
        make_sweep_row(request, scheme, &known, &rows[i]);
        if (i + 1 < count) {
            take_quicker(&rows[i], &rows[i + 1]);
        }
        status = rows[i].status == DAO_OK || is_refusal(rows[i].status) ? DAO_OK : rows[i].status;
    }
    uint32_t i = 0;
    for (; status == DAO_OK && i < count; i++) {
        status = tell_sweep_row(request, scheme, &rows[i]);
    }
    for (; rows != NULL && i < count; i++) {
        finish_sweep_row(&rows[i]);
    }
    dao_scheme_known_finish(&known);
    dao_host_free(rows);
    return status;
}

/* Schemes of feature maps move what they choose to, whatever the capacity. */
static dao_status_t resolve_capacity(const request_t *request, const dao_scheme_t *scheme, uint64_t *out)
{
    const char *largest = dao_trace_operator_name(request->trace, request->whole.least_capacity_kernel);
    dao_swap_bound_t step = request->whole;
    step.least_capacity_bytes = dao_scheme_moves_maps(scheme) ? 0 : step.least_capacity_bytes;
    return dao_capacity_resolve_for(&request->settings->capacity, &step, largest, out);
}

static dao_status_t run_scheme(request_t *request, const dao_scheme_t *scheme)
{
    uint64_t capacity_bytes = 0;
    if (request->settings->sweep.first > 0 || request->settings->sweep.first_bytes > 0) {
        return dao_scheme_grows(scheme) ? sweep_plans(request, scheme) : sweep_apart(request, scheme);
    }
    dao_status_t status = request->slow_down > 0 ? find_capacity(request, scheme, &capacity_bytes)
                                                 : resolve_capacity(request, scheme, &capacity_bytes);
    status = status == DAO_OK ? run_row(request, scheme, capacity_bytes) : status;
    if (is_refusal(status) && request->scheme == NULL) {
        tell_left_out(request, scheme, capacity_bytes, dao_last_message());
        status = DAO_OK;
    }
    return status;
}

/* Returns how many rows there will be; 0: only the search for a slow-down knows. */
static uint64_t count_rows(const request_t *request)
{
    bool is_sweep = request->settings->sweep.first > 0 || request->settings->sweep.first_bytes > 0;
    uint64_t count = 0;
    for (const dao_scheme_t *scheme = dao_schemes; scheme->name != NULL; scheme++) {
        count += request->scheme == NULL || request->scheme == scheme;
    }
    return request->slow_down > 0 ? 0 : count * (is_sweep ? count_sweep(&request->settings->sweep) : 1);
}

static dao_status_t run_schemes(request_t *request)
{
    request->step.problem.capacity_bytes = DAO_SWAP_SIZE_MAX;
    dao_progress_phase("simulating", DAO_PROGRESS_UNIT_PARTS, count_rows(request));
    dao_status_t status = dao_swap_find_bound(&request->step.problem, &request->whole);
    if (status == DAO_OK && request->slow_down > 0 && request->whole.compute_ns == 0) {
        status = dao_error(DAO_ERR_UNSUPPORTED, "--slow-down is for kernels that take time: those of this "
                                                "step take none");
    }
    if (status != DAO_OK || request->scheme != NULL) {
        return status == DAO_OK ? run_scheme(request, request->scheme) : status;
    }
    for (const dao_scheme_t *scheme = dao_schemes; status == DAO_OK && scheme->name != NULL; scheme++) {
        status = run_scheme(request, scheme);
    }
    return status;
}

static dao_status_t take_streams(request_t *request)
{
    size_t count = request->trace->operator_count;
    request->streams = dao_host_calloc(count, sizeof(*request->streams));
    return request->streams != NULL
               ? dao_trace_number_streams(request->trace, request->streams, &request->stream_count)
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the streams of %zu operators", count);
}

static dao_status_t run_trace(request_t *request, int *out_exit)
{
    dao_status_t status = dao_step_problem_make(request->trace, &request->step);
    if (status != DAO_OK) {
        return status;
    }
    request->step.problem.host = request->settings->host;
    request->step.problem.file = request->settings->file;
    dao_report_begin_list(&request->list, request->settings->is_json);
    status = request->settings->keeps_streams ? take_streams(request) : DAO_OK;
    status = status == DAO_OK ? run_schemes(request) : status;
    dao_host_free(request->streams);
    dao_step_problem_finish(&request->step);
    request->list.is_json = request->list.is_json && status == DAO_OK; /* half a list is none */
    *out_exit = dao_report_end(&request->list);
    return status;
}

static dao_status_t scale_times(dao_step_trace_t *trace, uint64_t millionths)
{
    for (size_t i = 0; i < trace->operator_count; i++) {
        double cost_ns =
            (double)trace->operators[i].cost_ns * (double)millionths / (double)DAO_OPTION_MILLIONTHS;
        if (cost_ns >= 0x1p63) {
            return dao_error(DAO_ERR_OVERFLOW, "operator %zu takes 2^63 ns or more, scaled", i);
        }
        trace->operators[i].cost_ns = (uint64_t)(cost_ns + 0.5);
    }
    return DAO_OK;
}

static dao_status_t run_simulate(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    settings_t *settings = user;
    request_t request;
    dao_step_trace_t trace;
    if (!dao_option_is_given(arguments, "threshold")) {
        settings->threshold = DAO_TRACE_NONE;
    }
    set_request(settings, &request);
    dao_status_t status = dao_read_step(arguments->words[0], settings->batch, &trace);
    if (status != DAO_OK) {
        return status;
    }
    request.trace = &trace;
    if (settings->time_scale !=
        DAO_OPTION_MILLIONTHS) { /* 1 leaves even times as they are that no double holds */
        status = scale_times(&trace, settings->time_scale);
    }
    status = dao_failure_of(arguments->words[0], status == DAO_OK ? run_trace(&request, out_exit) : status);
    dao_step_trace_finish(&trace);
    return status;
}

#define SCHEME_HELP(name, meaning, choice, run) "\n  " name ": " meaning

const dao_command_t dao_command_simulate = {
    .program = "dao",
    .name = "simulate",
    .arguments = "TRACE",
    .summary = "run a recorded step in limited memory in virtual time",
    .details =
        "The step is repeated by the executor itself on a device in virtual time: a step of hours takes\n"
        "moments, and the same arguments print the same, byte for byte. The bound is what no scheme that\n"
        "only moves bytes can beat; the ratio is step over bound.\n" DAO_READ_STEP_HELP "\n\n"
        "Step, bytes and ratio are of a step in the long run, after two (learn: three) to warm up.\n"
        "What lives on from step to step begins on the host; \"first ms\" is the first step, which\n"
        "fetches it. Percentages are of the peak, at which nothing has to move. Schemes:" DAO_SCHEME_LIST(
            SCHEME_HELP),
    .options = options,
    .rules = rules,
    .least_arguments = 1,
    .most_arguments = 1,
    .settings_bytes = sizeof(settings_t),
    .check = check_settings,
    .run = run_simulate,
};
