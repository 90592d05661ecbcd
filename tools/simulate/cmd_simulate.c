/* SPDX-License-Identifier: Apache-2.0 */
/* `dao simulate TRACE`: a step in limited memory in virtual time, beside the least time that any scheme could
   need. */
#include "tools/commands.h"
#include "tools/model/step_problem.h"
#include "tools/options/capacity.h"
#include "tools/print/report.h"
#include "tools/read/step/read_step.h"
#include "tools/simulate/explain.h"
#include "tools/simulate/scheme.h"

#include "base/numbers/units.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    const char *capacity;
    const char *link_in;
    const char *link_out;
    const char *latency;
    const char *host;
    const char *file_in;
    const char *file_out;
    const char *scheme;
    const char *steps;
    const char *window;
    const char *ahead;
    const char *sweep;
    const char *slow_down;
    const char *threshold;
    const char *batch;
    bool moves_all;
    bool is_half_duplex;
    bool is_explained;
    bool is_json;
} settings_t;

static const dao_option_t options[] = {
    {"capacity", "SIZE", offsetof(settings_t, capacity),
     "device memory: 50% of the peak (default), 37.5%, 40GiB"},
    {"link-in", "RATE", offsetof(settings_t, link_in), "speed of copies to the device; 50GB/s"},
    {"link-out", "RATE", offsetof(settings_t, link_out), "speed of copies to the host; as in"},
    {"latency", "TIME", offsetof(settings_t, latency), "of every copy; 10us"},
    {"half-duplex", NULL, offsetof(settings_t, is_half_duplex), "one copy at a time, whatever its direction"},
    {"scheme", "NAME", offsetof(settings_t, scheme), "one of those above, or all; online"},
    {"steps", "N", offsetof(settings_t, steps), "steps in a row, 1 to 1000; 6; not for feature maps"},
    {"window", "N", offsetof(settings_t, window),
     "kernels that are known ahead, by schemes of the executor but plan and plan-whole; two steps"},
    {"ahead", "TIME", offsetof(settings_t, ahead),
     "device time of kernels that these queue ahead of the device, at most; 1s"},
    {"host", "SIZE", offsetof(settings_t, host), "most host memory to move tensors to; no limit"},
    {"file-in", "RATE", offsetof(settings_t, file_in),
     "speed of reads from a file that takes what --host leaves over; 100us each; no file"},
    {"file-out", "RATE", offsetof(settings_t, file_out), "speed of writes to it; as of reads"},
    {"sweep", "RANGE", offsetof(settings_t, sweep), "capacities 90%..20% in steps of 10% of the peak"},
    {"slow-down", "X", offsetof(settings_t, slow_down),
     "find the smallest capacity at which a step takes X times its kernels, 1.05"},
    {"explain", NULL, offsetof(settings_t, is_explained), "where the time goes, and what would help"},
    {"threshold", "N", offsetof(settings_t, threshold),
     "last operator of the forward pass, for sync, half-sync, async; found"},
    {"all-maps", NULL, offsetof(settings_t, moves_all),
     "sync, half-sync, async: every feature map moves, whatever the capacity"},
    {"batch", "B", offsetof(settings_t, batch), "which batch size, if the trace's folder has several"},
    {"json", NULL, offsetof(settings_t, is_json), "print a JSON array"},
    {NULL, NULL, 0, NULL},
};

#define DEFAULT_LINK_BYTES_PER_S UINT64_C(50000000000)
#define DEFAULT_LATENCY_NS       UINT64_C(10000)
#define FILE_LATENCY_NS          UINT64_C(100000)
#define DEFAULT_CAPACITY         "50%"
enum { DEFAULT_STEPS = 6, MOST_STEPS = 1000, SWEEP_MOST = 100, SWEEP_APART = 10 };

/* Greatest --slow-down. */
#define SLOW_DOWN_MAX 1000.0

/* A search for a capacity ends when it is known to this part of the peak. */
#define SEARCH_PARTS 1000

/* The command, its options understood. */
typedef struct request {
    const settings_t *settings;
    const dao_step_trace_t *trace;
    dao_step_problem_t step;
    const dao_scheme_t *scheme; /* NULL: all */
    uint32_t step_count, window_kernels, threshold;
    uint64_t in_flight_ns;
    double slow_down;                     /* 0: none is asked for */
    unsigned first_percent, last_percent; /* of a sweep; 0: none */
    dao_swap_bound_t whole;               /* the bound with memory for everything */
    dao_report_t list;
    bool has_head; /* of the table */
} request_t;

/* ---- options ---- */

static dao_status_t parse_count(const char *text, uint32_t least, uint32_t most, uint32_t *out_count)
{
    uint64_t value;
    if (!dao_option_number(text, 0, least, most, &value)) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" is no number from %" PRIu32 " to %" PRIu32, text, least,
                         most);
    }
    *out_count = (uint32_t)value;
    return DAO_OK;
}

static dao_status_t parse_slow_down(const char *text, double *out_factor)
{
    char *end;
    double value = strtod(text, &end);
    bool is_plain = strspn(text, "0123456789.") == strlen(text);
    if (!is_plain || end == text || *end != '\0' || value < 1 || value > SLOW_DOWN_MAX) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" is no factor from 1 to %.0f, such as 1.05", text,
                         SLOW_DOWN_MAX);
    }
    *out_factor = value;
    return DAO_OK;
}

/* "90%..20%": from the first down to the last. */
static dao_status_t parse_sweep(const char *text, unsigned *out_first, unsigned *out_last)
{
    int length = 0;
    if (sscanf(text, "%3u%%..%3u%%%n", out_first, out_last, &length) != 2 || (size_t)length != strlen(text) ||
        *out_first > SWEEP_MOST || *out_last < 1 || *out_last > *out_first) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" is no range of capacities; write it such as 90%%..20%%",
                         text);
    }
    return DAO_OK;
}

static bool parse_link(const settings_t *settings, dao_swap_tier_t *host, int *out_exit)
{
    *host = (dao_swap_tier_t){
        .in_bytes_per_second = DEFAULT_LINK_BYTES_PER_S,
        .latency_ns = DEFAULT_LATENCY_NS,
        .duplex = settings->is_half_duplex ? DAO_SWAP_DUPLEX_HALF : DAO_SWAP_DUPLEX_FULL,
    };
    return !(
        (settings->link_in != NULL &&
         dao_option_is_bad(&dao_command_simulate, "link-in",
                           dao_option_rate(settings->link_in, &host->in_bytes_per_second), out_exit)) ||
        (settings->link_out != NULL &&
         dao_option_is_bad(&dao_command_simulate, "link-out",
                           dao_option_rate(settings->link_out, &host->out_bytes_per_second), out_exit)) ||
        (settings->latency != NULL &&
         dao_option_is_bad(&dao_command_simulate, "latency",
                           dao_units_parse_time(settings->latency, &host->latency_ns), out_exit)));
}

/* The host's limit, and the file behind it. */
static bool parse_tiers(const settings_t *settings, dao_swap_problem_t *problem, int *out_exit)
{
    dao_swap_tier_t *file = &problem->file;
    if (settings->host == NULL && (settings->file_in != NULL || settings->file_out != NULL)) {
        *out_exit = dao_usage_error(&dao_command_simulate,
                                    "--file-in and --file-out need --host: the file takes what that "
                                    "leaves over");
        return false;
    }
    if (settings->file_in == NULL && settings->file_out != NULL) {
        *out_exit = dao_usage_error(&dao_command_simulate, "--file-out needs --file-in");
        return false;
    }
    file->latency_ns = settings->file_in != NULL ? FILE_LATENCY_NS : 0;
    return !((settings->host != NULL &&
              dao_option_is_bad(&dao_command_simulate, "host",
                                dao_option_bytes(settings->host, &problem->host.limit_bytes), out_exit)) ||
             (settings->file_in != NULL &&
              dao_option_is_bad(&dao_command_simulate, "file-in",
                                dao_option_rate(settings->file_in, &file->in_bytes_per_second), out_exit)) ||
             (settings->file_out != NULL &&
              dao_option_is_bad(&dao_command_simulate, "file-out",
                                dao_option_rate(settings->file_out, &file->out_bytes_per_second), out_exit)));
}

static bool parse_settings(const settings_t *settings, request_t *request, int *out_exit)
{
    const char *scheme = settings->scheme != NULL ? settings->scheme : "online";
    request->settings = settings;
    request->step_count = DEFAULT_STEPS;
    request->threshold = DAO_TRACE_NONE;
    if (settings->capacity != NULL && (settings->sweep != NULL || settings->slow_down != NULL)) {
        *out_exit =
            dao_usage_error(&dao_command_simulate, "--capacity is what --sweep and --slow-down choose");
        return false;
    }
    if (settings->sweep != NULL && settings->slow_down != NULL) {
        *out_exit =
            dao_usage_error(&dao_command_simulate, "--sweep and --slow-down both choose the capacity");
        return false;
    }
    uint64_t unused;
    return !(
        (settings->capacity != NULL &&
         dao_option_is_bad(&dao_command_simulate, "capacity",
                           dao_capacity_parse(settings->capacity, 1, &unused), out_exit)) ||
        (strcmp(scheme, "all") != 0 &&
         dao_option_is_bad(&dao_command_simulate, "scheme", dao_scheme_find(scheme, &request->scheme),
                           out_exit)) ||
        (settings->steps != NULL &&
         dao_option_is_bad(&dao_command_simulate, "steps",
                           parse_count(settings->steps, 1, MOST_STEPS, &request->step_count), out_exit)) ||
        (settings->window != NULL &&
         dao_option_is_bad(&dao_command_simulate, "window",
                           parse_count(settings->window, 1, UINT32_MAX, &request->window_kernels),
                           out_exit)) ||
        (settings->ahead != NULL &&
         dao_option_is_bad(&dao_command_simulate, "ahead",
                           dao_option_time(settings->ahead, &request->in_flight_ns), out_exit)) ||
        (settings->threshold != NULL &&
         dao_option_is_bad(&dao_command_simulate, "threshold",
                           parse_count(settings->threshold, 0, DAO_TRACE_NONE - 1, &request->threshold),
                           out_exit)) ||
        (settings->slow_down != NULL &&
         dao_option_is_bad(&dao_command_simulate, "slow-down",
                           parse_slow_down(settings->slow_down, &request->slow_down), out_exit)) ||
        (settings->sweep != NULL &&
         dao_option_is_bad(&dao_command_simulate, "sweep",
                           parse_sweep(settings->sweep, &request->first_percent, &request->last_percent),
                           out_exit)));
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

static double ratio_of(const row_t *row)
{
    return (double)row->run.simulation.step_ns / (double)row->bound.step_ns;
}

static double fraction_of(const request_t *request, uint64_t capacity_bytes)
{
    return (double)capacity_bytes / (double)request->whole.peak_bytes;
}

static dao_status_t make_row(const request_t *request, const dao_scheme_t *scheme, uint64_t capacity_bytes,
                             row_t *row)
{
    *row = (row_t){.scheme = scheme, .problem = request->step.problem};
    row->problem.capacity_bytes = capacity_bytes;
    dao_scheme_input_t input = {.problem = &row->problem,
                                .trace = request->trace,
                                .threshold = request->threshold,
                                .moves_all = request->settings->moves_all,
                                .step_count = request->step_count,
                                .window_kernels = request->window_kernels,
                                .in_flight_ns = request->in_flight_ns};
    dao_status_t status = scheme->run(scheme, &input, &row->run);
    if (status == DAO_OK) {
        row->problem.capacity_bytes = row->run.capacity_bytes;
        status = dao_swap_find_bound(&row->problem, &row->bound);
    }
    if (status != DAO_OK) {
        dao_simulation_finish(&row->run.simulation);
    }
    return status;
}

static void report_head(request_t *request)
{
    const dao_swap_bound_t *whole = &request->whole;
    char peak[DAO_UNITS_TEXT_BYTES];
    char smallest[DAO_UNITS_TEXT_BYTES];
    char compute[DAO_UNITS_TEXT_BYTES];
    (void)printf("%s, batch %s: %u kernels of %s, peak %s, smallest capacity %s (kernel %u \"%.40s\")\n\n",
                 request->trace->model, request->trace->batch, request->step.problem.kernel_count,
                 dao_units_format_time(whole->compute_ns, compute),
                 dao_units_format_bytes(whole->peak_bytes, peak),
                 dao_units_format_bytes(whole->least_capacity_bytes, smallest), whole->least_capacity_kernel,
                 dao_trace_operator_name(request->trace, whole->least_capacity_kernel));
    (void)printf("%-16s %9s %12s %12s %12s %8s %12s %12s %12s\n", "scheme", "capacity", "MB", "step ms",
                 "bound ms", "ratio", "first ms", "MB in", "MB out");
    request->has_head = true;
}

static void report_row(request_t *request, const row_t *row)
{
    const dao_simulation_t *simulation = &row->run.simulation;
    double fraction = fraction_of(request, row->run.capacity_bytes);
    if (!request->has_head && !request->settings->is_json) {
        report_head(request);
    }
    if (!request->settings->is_json) {
        (void)printf("%-16s %8.1f%% %12.1f %12.3f %12.3f %8.3f %12.3f %12.1f %12.1f\n", row->scheme->name,
                     100 * fraction, (double)row->run.capacity_bytes / 1e6,
                     seconds(simulation->step_ns) * 1e3, seconds(row->bound.step_ns) * 1e3, ratio_of(row),
                     seconds(simulation->first_step_ns) * 1e3, (double)simulation->in_bytes / 1e6,
                     (double)simulation->out_bytes / 1e6);
        dao_output_flush();
        return;
    }
    dao_report_t item;
    dao_report_begin(&item, true);
    dao_report_text(&item, "scheme", NULL, row->scheme->name);
    dao_report_number(&item, "fraction", fraction);
    dao_report_bytes(&item, "capacity_bytes", NULL, row->run.capacity_bytes);
    dao_report_bytes(&item, "smallest_capacity_bytes", NULL, row->bound.least_capacity_bytes);
    dao_report_number(&item, "step_s", seconds(simulation->step_ns));
    dao_report_number(&item, "first_step_s", seconds(simulation->first_step_ns));
    dao_report_number(&item, "bound_s", seconds(row->bound.step_ns));
    dao_report_number(&item, "ratio", ratio_of(row));
    dao_report_number(&item, "compute_s", seconds(simulation->compute_ns));
    dao_report_bytes(&item, "bytes_in", NULL, simulation->in_bytes);
    dao_report_bytes(&item, "bytes_out", NULL, simulation->out_bytes);
    dao_report_number(&item, "plan_s", seconds(row->run.plan_ns));
    dao_report_list_item(&request->list, &item);
}

static dao_status_t run_row(request_t *request, const dao_scheme_t *scheme, uint64_t capacity_bytes)
{
    row_t row;
    dao_status_t status = make_row(request, scheme, capacity_bytes, &row);
    if (status != DAO_OK) {
        return status;
    }
    report_row(request, &row);
    if (request->slow_down > 0 && !request->settings->is_json) {
        (void)printf(
            "  the smallest capacity with which steps take at most %.3f times their kernels: here %.3f\n",
            request->slow_down, (double)row.run.simulation.step_ns / (double)row.run.simulation.compute_ns);
    }
    if (request->settings->is_explained && row.run.simulation.kernel_count > 0) {
        status = dao_explain(request->trace, &row.problem, &row.bound, &row.run.simulation);
    } else if (request->settings->is_explained) {
        (void)printf("  %s has no times of single kernels: nothing can be explained\n\n", scheme->name);
    }
    dao_simulation_finish(&row.run.simulation);
    return status;
}

/* ---- the smallest capacity for a slow-down ---- */

static dao_status_t is_fast_enough(const request_t *request, const dao_scheme_t *scheme,
                                   uint64_t capacity_bytes, bool *out_answer)
{
    row_t row;
    dao_status_t status = make_row(request, scheme, capacity_bytes, &row);
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
    (void)fprintf(request->settings->is_json ? stderr : stdout, "%-16s %8.1f%% left out: %s\n", scheme->name,
                  100 * fraction_of(request, capacity_bytes), reason);
}

static bool is_refusal(dao_status_t status)
{
    return status == DAO_ERR_LIMIT || status == DAO_ERR_UNSUPPORTED || status == DAO_ERR_HOST_FULL;
}

static dao_status_t sweep(request_t *request, const dao_scheme_t *scheme)
{
    uint64_t peak_bytes = request->whole.peak_bytes;
    dao_status_t status = DAO_OK;
    for (unsigned percent = request->first_percent; status == DAO_OK; percent -= SWEEP_APART) {
        uint64_t capacity_bytes = peak_bytes / 100 * percent + peak_bytes % 100 * percent / 100;
        if (capacity_bytes < request->whole.least_capacity_bytes) {
            tell_left_out(request, scheme, capacity_bytes, "below the smallest capacity");
        } else {
            status = run_row(request, scheme, capacity_bytes);
        }
        if (is_refusal(status)) {
            tell_left_out(request, scheme, capacity_bytes, dao_last_message());
            status = DAO_OK;
        }
        if (percent < request->last_percent + SWEEP_APART) {
            break;
        }
    }
    return status;
}

static dao_status_t run_scheme(request_t *request, const dao_scheme_t *scheme)
{
    const char *text = request->settings->capacity != NULL ? request->settings->capacity : DEFAULT_CAPACITY;
    uint64_t capacity_bytes = request->whole.peak_bytes;
    if (request->settings->sweep != NULL) {
        return sweep(request, scheme);
    }
    dao_status_t status = request->slow_down > 0 ? find_capacity(request, scheme, &capacity_bytes)
                                                 : dao_capacity_parse(text, capacity_bytes, &capacity_bytes);
    status = status == DAO_OK ? run_row(request, scheme, capacity_bytes) : status;
    if (is_refusal(status) && request->scheme == NULL) {
        tell_left_out(request, scheme, capacity_bytes, dao_last_message());
        status = DAO_OK;
    }
    return status;
}

static dao_status_t run_schemes(request_t *request)
{
    request->step.problem.capacity_bytes = DAO_SWAP_SIZE_MAX;
    dao_status_t status = dao_swap_find_bound(&request->step.problem, &request->whole);
    if (status != DAO_OK || request->scheme != NULL) {
        return status == DAO_OK ? run_scheme(request, request->scheme) : status;
    }
    for (const dao_scheme_t *scheme = dao_schemes; status == DAO_OK && scheme->name != NULL; scheme++) {
        status = run_scheme(request, scheme);
    }
    return status;
}

static int run_trace(request_t *request)
{
    dao_swap_tier_t host = request->step.problem.host;
    dao_swap_tier_t file = request->step.problem.file;
    dao_status_t status = dao_step_problem_make(request->trace, &request->step);
    if (status != DAO_OK) {
        return dao_failure(&dao_command_simulate);
    }
    request->step.problem.host = host;
    request->step.problem.file = file;
    dao_report_begin_list(&request->list, request->settings->is_json);
    status = run_schemes(request);
    dao_step_problem_finish(&request->step);
    request->list.is_json = request->list.is_json && status == DAO_OK; /* half a list is none */
    int exit_code = dao_report_end(&request->list);
    return status == DAO_OK ? exit_code : dao_failure(&dao_command_simulate);
}

static int run_simulate(const dao_command_t *command, int argc, char **argv)
{
    settings_t settings = {0};
    request_t request = {0};
    const char *arguments[DAO_ARGUMENT_COUNT_MAX];
    int exit_code;
    if (!dao_options_parse(command, argc, argv, &settings, arguments, &exit_code) ||
        !parse_settings(&settings, &request, &exit_code) ||
        !parse_link(&settings, &request.step.problem.host, &exit_code) ||
        !parse_tiers(&settings, &request.step.problem, &exit_code)) {
        return exit_code;
    }
    if (settings.is_explained && settings.is_json) {
        return dao_usage_error(&dao_command_simulate, "--explain writes for people; leave --json out");
    }
    dao_step_trace_t trace;
    if (dao_read_step(arguments[0], settings.batch, &trace) != DAO_OK) {
        return dao_failure(command);
    }
    request.trace = &trace;
    exit_code = run_trace(&request);
    dao_step_trace_finish(&trace);
    return exit_code;
}

#define SCHEME_HELP(name, meaning, choice, run) "\n  " name ": " meaning

const dao_command_t dao_command_simulate = {
    .program = "dao",
    .name = "simulate",
    .arguments = "TRACE",
    .summary = "run a recorded step in limited memory in virtual time, beside the least possible time",
    .details =
        "The step is repeated by the executor itself on a device in virtual time: a step of hours takes\n"
        "moments, and the same arguments print the same, byte for byte. The bound is what no scheme that\n"
        "only moves bytes can beat; the ratio is step over bound.\n" DAO_READ_STEP_HELP "\n\n"
        "Step, bytes and ratio are of a step in the long run, after two (learn: three) to warm up.\n"
        "What lives on from step to step begins on the host; \"first ms\" is the first step, which\n"
        "fetches it. Percentages are of the peak, at which nothing has to move. Schemes:" DAO_SCHEME_LIST(
            SCHEME_HELP),
    .options = options,
    .least_arguments = 1,
    .most_arguments = 1,
    .run = run_simulate,
};
