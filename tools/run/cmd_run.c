/* SPDX-License-Identifier: Apache-2.0 */
/* `dao run TRACE`: executes a step for real in limited memory and says what that cost. */
#include "tools/base/progress.h"
#include "tools/commands.h"
#include "tools/model/step_problem.h"
#include "tools/options/complain.h"
#include "tools/options/shared.h"
#include "tools/print/report.h"
#include "tools/read/step/read_step.h"
#include "tools/run/run_plan.h"
#include "tools/run/run_step.h"
#include "tools/write/out_file.h"

#include "base/memory/available.h"
#include "base/numbers/math.h"
#include "base/numbers/units.h"
#include "base/report/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    dao_run_config_t config; /* but for what the trace and the other settings say */
    dao_capacity_t capacity;
    uint64_t time_scale; /* millionths */
    uint32_t policy, engine, mode, scheme;
    const char *batch, *trace_out;
    dao_run_spans_t spans; /* for trace_out */
    bool is_verified, is_checked, is_repeat_checked, is_static, is_paged;
    bool is_json;
} settings_t;

/* The policies are DAO_POLICY_LIST's without that of a program's own, in whose place all of them are. */
enum { POLICY_ALL = DAO_POLICY_USER };
enum { SCHEME_ONLINE, SCHEME_LEARN, SCHEME_HYBRID, SCHEME_RECOMPUTE, SCHEME_PLAN, SCHEME_DESCRIBED };

static const char *policy_at(size_t index)
{
    return index < POLICY_ALL ? dao_policy_name((dao_policy_t)index) : index == POLICY_ALL ? "all" : NULL;
}

#define ENGINE_NAME(number, name, text, meaning) text,
DAO_OPTION_NAMES(engine_at, DAO_FILE_ENGINE_LIST(ENGINE_NAME))
DAO_OPTION_NAMES(mode_at, "step", "queue")
DAO_OPTION_NAMES(scheme_at, "online", "learn", "hybrid", "recompute", "plan", "described")

static const dao_option_t options[] = {
    {.name = "capacity",
     .type = DAO_OPTION_TYPE_CAPACITY,
     DAO_OPTION_FIELD(settings_t, capacity),
     .value = "SIZE",
     .preset = "50%",
     .help = "device memory: 50% of the peak, 37.5%, 180MiB"},
    {.name = "policy",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, policy),
     .value = "POLICY",
     .name_at = policy_at,
     .preset = "belady",
     .help = "which tensor is evicted"},
    {.name = "link-in",
     .type = DAO_OPTION_TYPE_RATE,
     DAO_OPTION_FIELD(settings_t, config.link_in_bytes_per_second),
     .value = "RATE",
     .least = 1,
     .help = "speed of copies to the device, 12GB/s; cpu backend only"},
    {.name = "link-out",
     .type = DAO_OPTION_TYPE_RATE,
     DAO_OPTION_FIELD(settings_t, config.link_out_bytes_per_second),
     .value = "RATE",
     .least = 1,
     .help = "speed of copies to the host"},
    {.name = "time-scale",
     .type = DAO_OPTION_TYPE_DECIMAL,
     DAO_OPTION_FIELD(settings_t, time_scale),
     .value = "X",
     .most = 1000,
     .preset = "0",
     .help = "operators take at least X times their recorded time"},
    {.name = "host",
     .type = DAO_OPTION_TYPE_BYTES,
     DAO_OPTION_FIELD(settings_t, config.host_bytes),
     .value = "SIZE",
     .least = 1,
     .help = "most pinned host memory to move tensors to; without it no limit"},
    {.name = "file",
     .type = DAO_OPTION_TYPE_PATH,
     DAO_OPTION_FIELD(settings_t, config.file.directory),
     .value = "DIR",
     .help = "where tensors go on to when --host is reached: a file without a name in this directory"},
    {.name = "file-limit",
     .type = DAO_OPTION_TYPE_BYTES,
     DAO_OPTION_FIELD(settings_t, config.file.limit_bytes),
     .value = "SIZE",
     .least = 1,
     .help = "most bytes in it; without it what is free there"},
    {.name = "file-in",
     .type = DAO_OPTION_TYPE_RATE,
     DAO_OPTION_FIELD(settings_t, config.file.in_bytes_per_second),
     .value = "RATE",
     .least = 1,
     .help = "reads from it are held back to this speed"},
    {.name = "file-out",
     .type = DAO_OPTION_TYPE_RATE,
     DAO_OPTION_FIELD(settings_t, config.file.out_bytes_per_second),
     .value = "RATE",
     .least = 1,
     .help = "writes to it are held back to this speed"},
    {.name = "file-engine",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, engine),
     .value = "ENGINE",
     .name_at = engine_at,
     .preset = "auto",
     .help = "auto is io_uring where the kernel offers it"},
    {.name = "mode",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, mode),
     .value = "MODE",
     .name_at = mode_at,
     .preset = "step",
     .help = "all operators are known before, or pushed one by one"},
    {.name = "scheme",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, scheme),
     .value = "SCHEME",
     .name_at = scheme_at,
     .preset = "online",
     .help = "the executor decides, learns steps and plans them by itself, also with operators run again "
             "(hybrid) or these alone, without copies (recompute), or plans the step before it runs "
             "(described); or a plan is replayed"},
    DAO_OPTION_STATIC(settings_t, is_static),
    DAO_OPTION_PAGES(settings_t, is_paged),
    {.name = "streams",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, config.keeps_streams),
     .help = "operators run on the streams that TRACE has them on, at most 4; without it all on one"},
    {.name = "verify",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_verified),
     .help = "read everything back at the end, too"},
    {.name = "check",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_checked),
     .help = "the executor walks all of its structures after every operator: the step time includes it"},
    {.name = "check-repeatable",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_repeat_checked),
     .help = "with --scheme hybrid or recompute: run each operator that may run again twice, and compare "
             "what it writes"},
    DAO_OPTION_BATCH(settings_t, batch),
    DAO_OPTION_RUN_TRACE(settings_t, trace_out),
    DAO_OPTION_JSON(settings_t, is_json, "print one JSON object"),
    {.name = NULL},
};

#define NEEDS_FILE "--file-limit, --file-in, --file-out and --file-engine need --file"

static const dao_option_rule_t rules[] = {
    {"file-limit", "file", true, NEEDS_FILE},
    {"file-in", "file", true, NEEDS_FILE},
    {"file-out", "file", true, NEEDS_FILE},
    {"file-engine", "file", true, NEEDS_FILE},
    {"file", "host", true, "--file needs --host: the file takes what that leaves over"},
    DAO_OPTION_ADDRESSES_RULE,
    {.option = NULL},
};

static bool runs_again(const settings_t *settings)
{
    return settings->scheme == SCHEME_HYBRID || settings->scheme == SCHEME_RECOMPUTE;
}

static bool is_learnt(const settings_t *settings)
{
    return settings->scheme == SCHEME_LEARN || runs_again(settings);
}

/* With a plan nothing is evicted by a policy, and every step is verified. */
static dao_status_t check_settings(const dao_arguments_t *arguments, void *user)
{
    const settings_t *settings = user;
    bool has_mode = dao_option_is_given(arguments, "mode");
    if (is_learnt(settings) && has_mode) {
        return dao_error(DAO_ERR_INVALID, "--mode is not for steps that are learnt");
    }
    if (settings->scheme == SCHEME_DESCRIBED && settings->mode != DAO_RUN_MODE_STEP) {
        return dao_error(DAO_ERR_INVALID, "--mode queue is not for a step that is described before it runs");
    }
    if (runs_again(settings) && dao_option_is_given(arguments, "host")) {
        return dao_error(DAO_ERR_INVALID,
                         "--host is not for --scheme %s: nothing runs again where host memory has a limit",
                         scheme_at(settings->scheme));
    }
    if (!runs_again(settings) && settings->is_repeat_checked) {
        return dao_error(DAO_ERR_INVALID,
                         "--check-repeatable needs --scheme hybrid or recompute: with others nothing runs "
                         "again");
    }
    if (settings->policy == POLICY_ALL && settings->trace_out != NULL) {
        return dao_error(DAO_ERR_INVALID, "--trace is for one policy");
    }
    if (settings->scheme == SCHEME_PLAN && (dao_option_is_given(arguments, "policy") || has_mode ||
                                            settings->is_verified || settings->is_checked)) {
        return dao_error(DAO_ERR_INVALID,
                         "--policy, --mode, --verify and --check are not for a planned step");
    }
    bool is_of_streams = settings->scheme == SCHEME_ONLINE || settings->scheme == SCHEME_LEARN ||
                         settings->scheme == SCHEME_DESCRIBED || settings->scheme == SCHEME_PLAN;
    if (!is_of_streams && settings->config.keeps_streams) {
        return dao_error(
            DAO_ERR_INVALID,
            "--streams is not for --scheme %s, as operators run again on one stream only: leave it "
            "out, or take --scheme learn",
            scheme_at(settings->scheme));
    }
    if (settings->scheme == SCHEME_ONLINE && (settings->is_static || settings->is_paged)) {
        return dao_error(DAO_ERR_INVALID, DAO_OPTION_ADDRESSES_MISUSE, scheme_at(settings->scheme));
    }
    return dao_out_file_check(settings->trace_out, arguments->words[0]);
}

/* Completes the configuration, but for the capacity, which needs the trace. */
static void set_config(settings_t *settings)
{
    dao_run_config_t *config = &settings->config;
    config->policy = settings->policy == POLICY_ALL ? DAO_POLICY_BELADY : (dao_policy_t)settings->policy;
    config->is_read_back = settings->is_verified;
    config->is_walked = settings->is_checked;
    config->is_warmed_up = true;
    config->mode = is_learnt(settings) ? DAO_RUN_MODE_LEARN : (dao_run_mode_t)settings->mode;
    config->runs_again = runs_again(settings);
    config->copies_nothing = settings->scheme == SCHEME_RECOMPUTE;
    config->is_planned_first = settings->scheme == SCHEME_DESCRIBED;
    config->is_repeat_checked = settings->is_repeat_checked;
    config->addresses = DAO_OPTION_ADDRESSES(settings->is_static, settings->is_paged);
    config->spans = settings->trace_out != NULL ? &settings->spans : NULL;
    config->time_scale = (double)settings->time_scale / (double)DAO_OPTION_MILLIONTHS;
    config->file.engine = (dao_file_engine_t)settings->engine;
}

static const char *mode_text(dao_run_mode_t mode)
{
    return mode == DAO_RUN_MODE_STEP ? "step" : mode == DAO_RUN_MODE_QUEUE ? "queue" : "learn";
}

static void report_trace(dao_report_t *report, const dao_step_trace_t *trace, const dao_run_config_t *config,
                         const dao_step_figures_t *figures)
{
    char capacity[DAO_REPORT_SIZE_BYTES];
    dao_report_text(report, "model", "model", trace->model);
    dao_report_text(report, "batch", "batch", trace->batch);
    dao_report_count(report, "operators", "operators", trace->operator_count);
    dao_report_count(report, "tensors", "tensors", trace->tensor_count);
    dao_report_bytes(report, "peak_bytes", "peak", figures->peak_bytes);
    dao_report_bytes(report, "capacity_bytes", NULL, config->capacity_bytes);
    double percent = figures->rounded_bytes == 0
                         ? 0
                         : 100.0 * (double)config->capacity_bytes / (double)figures->rounded_bytes;
    dao_report_ratio(report, "capacity_percent", NULL, percent);
    if (!report->is_json) {
        dao_report_row("capacity", "%s, %.1f%% of the peak",
                       dao_report_size(config->capacity_bytes, capacity), percent);
    }
    dao_report_bytes(report, "smallest_capacity_bytes", "smallest capacity", figures->largest_work_bytes);
    dao_report_text(report, "mode", "mode", mode_text(config->mode));
}

/* ---- a planned step ---- */

/* The file as it was measured, and what goes there and comes back. */
static void report_planned_file(dao_report_t *report, const dao_run_plan_result_t *result)
{
    char in[DAO_UNITS_TEXT_BYTES];
    char out[DAO_UNITS_TEXT_BYTES];
    if (!report->is_json) {
        dao_report_row("file, measured", "%s in, %s out",
                       dao_units_format_rate(result->file.in_bytes_per_second, in),
                       dao_units_format_rate(result->file.out_bytes_per_second, out));
    }
    dao_report_bytes(report, "file_in_bytes_per_second", NULL, result->file.in_bytes_per_second);
    dao_report_bytes(report, "file_out_bytes_per_second", NULL, result->file.out_bytes_per_second);
    dao_report_bytes(report, "file_bytes_in", "  from the file", result->file_in_bytes);
    dao_report_bytes(report, "file_bytes_out", "  to the file", result->file_out_bytes);
    dao_report_time(report, "file_copy_s", "  a copy, besides bytes", result->file_copy_ns);
}

static void report_plan(dao_report_t *report, const dao_run_plan_result_t *result)
{
    char in[DAO_UNITS_TEXT_BYTES];
    char out[DAO_UNITS_TEXT_BYTES];
    char part[DAO_UNITS_TEXT_BYTES];
    dao_report_text(report, "scheme", "scheme", "plan");
    dao_report_bytes(report, "link_in_bytes_per_second", NULL, result->link.in_bytes_per_second);
    dao_report_bytes(report, "link_out_bytes_per_second", NULL, result->link.out_bytes_per_second);
    if (!report->is_json) {
        dao_report_row("link, measured", "%s in, %s out",
                       dao_units_format_rate(result->link.in_bytes_per_second, in),
                       dao_units_format_rate(result->link.out_bytes_per_second, out));
        dao_report_row("tensors move", "%s",
                       result->part_bytes == 0 ? "whole" : dao_units_format_bytes(result->part_bytes, part));
    }
    dao_report_bytes(report, "part_bytes", NULL, result->part_bytes);
    dao_report_bytes(report, "bytes_in", "bytes to the device", result->in_bytes);
    dao_report_bytes(report, "bytes_out", "bytes to the host", result->out_bytes);
    if (result->file.in_bytes_per_second != 0) {
        report_planned_file(report, result);
    }
    dao_report_count(report, "steps", "steps", result->step_count);
    dao_report_count(report, "reads_verified", "reads verified", result->verified_count);
    dao_report_count(report, "mismatches", "mismatches", result->mismatch_count);
    dao_report_time(report, "plan_s", "planning", result->plan_ns);
    dao_report_time(report, "compute_s", "kernels", result->compute_ns);
    dao_report_time(report, "dispatch_s", "kernel to kernel", result->dispatch_ns);
    dao_report_time(report, "copy_s", "copy, besides bytes", result->copy_ns);
    dao_report_time(report, "bound_s", "bound", result->bound.step_ns);
    dao_report_time(report, "forecast_s", "forecast", result->forecast_ns);
    dao_report_time(report, "replayed_s", "replayed", result->replayed_ns);
    dao_report_time(report, "step_s", "step time", result->step_ns);
    dao_report_ratio(report, "ratio", "step / bound",
                     (double)result->step_ns / (double)result->bound.step_ns);
    dao_report_ratio(report, "forecast_ratio", "step / forecast",
                     (double)result->step_ns / (double)result->forecast_ns);
    dao_report_ratio(report, "replayed_ratio", "step / replayed",
                     (double)result->step_ns / (double)result->replayed_ns);
}

static dao_status_t run_planned(const dao_run_config_t *config, const dao_step_trace_t *trace, bool is_json,
                                int *out_exit)
{
    dao_run_plan_config_t planned = {.capacity_bytes = config->capacity_bytes,
                                     .link_in_bytes_per_second = config->link_in_bytes_per_second,
                                     .link_out_bytes_per_second = config->link_out_bytes_per_second,
                                     .host_bytes = config->host_bytes,
                                     .file = config->file,
                                     .time_scale = config->time_scale,
                                     .addresses = config->addresses,
                                     .keeps_streams = config->keeps_streams,
                                     .spans = config->spans};
    dao_run_plan_result_t result;
    dao_status_t status = dao_run_plan(&planned, trace, &result);
    if (status != DAO_OK) {
        return status;
    }
    dao_report_t report;
    dao_report_begin(&report, is_json);
    report_trace(&report, trace, config, &result.figures);
    report_plan(&report, &result);
    *out_exit = dao_report_end(&report);
    if (result.mismatch_count > 0) {
        dao_progress_hide();
        (void)fprintf(stderr, "dao run: plan: content was wrong: %s\n", result.first_mismatch);
        *out_exit = DAO_EXIT_FAILED;
    }
    return DAO_OK;
}

static double ratio_of(const dao_run_result_t *result)
{
    return result->unlimited_ns == 0 ? 0 : (double)result->step_ns / (double)result->unlimited_ns;
}

static void report_times(dao_report_t *report, const dao_run_result_t *result)
{
    dao_report_time(report, "step_s", "step time", result->step_ns);
    if (result->unlimited_ns == 0) {
        dao_report_unknown(report, "unlimited_s", "unlimited memory", "more than this device has");
        return;
    }
    dao_report_time(report, "unlimited_s", "unlimited memory", result->unlimited_ns);
    dao_report_ratio(report, "slowdown", "ratio", ratio_of(result));
}

/* What went to the file and came from it. */
static void report_file(dao_report_t *report, const dao_executor_stats_t *stats)
{
    dao_report_count(report, "file_writes", "written to the file", stats->file_write_count);
    dao_report_count(report, "file_fetches", "read from the file", stats->file_fetch_count);
    dao_report_bytes(report, "file_bytes_out", "bytes to the file", stats->file_out_bytes);
    dao_report_bytes(report, "file_bytes_in", "bytes from the file", stats->file_in_bytes);
    dao_report_bytes(report, "peak_file_bytes", "peak in the file", stats->peak_file_used_bytes);
}

/* What the executor has learnt, and what it lost against the bound in the steps that it measured. */
static void report_learnt(dao_report_t *report, const dao_executor_stats_t *stats)
{
    dao_report_count(report, "plans", "plans", stats->plan_count);
    dao_report_count(report, "paged_plans", "  with tensors in pages", stats->paged_plan_count);
    dao_report_count(report, "mapped_pages", "  pages mapped for them", stats->mapped_page_count);
    dao_report_count(report, "page_calls", "  calls to map and unmap", stats->page_call_count);
    dao_report_count(report, "plan_hits", "  steps that followed one", stats->plan_hit_count);
    dao_report_count(report, "deviations", "  steps that left theirs", stats->deviation_count);
    dao_report_count(report, "better_plans", "  bettered while followed", stats->better_plan_count);
    dao_report_count(report, "replans", "  made anew", stats->replan_count);
    dao_report_count(report, "plans_dropped", "  given up as slower", stats->plan_dropped_count);
    dao_report_count(report, "saves", "  contents saved besides", stats->save_count);
    dao_report_count(report, "runs_again", "  operators run again", stats->again_count);
    dao_report_time(report, "runs_again_s", "  their time", stats->again_ns);
    dao_report_count(report, "measured_steps", "steps measured", stats->measured_step_count);
    dao_report_time(report, "stall_in_s", "  waited for data", stats->stall_in_ns);
    dao_report_time(report, "stall_out_s", "  waited for room", stats->stall_out_ns);
    dao_report_time(report, "stall_host_s", "  waited for the host", stats->stall_host_ns);
    dao_report_time(report, "bound_s", "  bound of those planned", stats->bound_ns);
    dao_report_time(report, "lost_s", "  lost against it", stats->lost_ns);
    dao_report_time(report, "forecast_s", "  forecast of those planned", stats->forecast_ns);
}

static void report_result(dao_report_t *report, const dao_run_config_t *config,
                          const dao_run_result_t *result)
{
    const dao_executor_stats_t *stats = &result->stats;
    dao_report_text(report, "policy", "policy", dao_policy_name(config->policy));
    dao_report_count(report, "streams", config->keeps_streams ? "compute streams" : NULL,
                     result->stream_count);
    dao_report_count(report, "evictions", "evictions", stats->eviction_count);
    dao_report_count(report, "clean_evictions", "  without a copy", stats->clean_eviction_count);
    dao_report_count(report, "fetches", "fetches", stats->fetch_count);
    dao_report_bytes(report, "bytes_in", "bytes to the device", stats->in_bytes);
    dao_report_bytes(report, "bytes_out", "bytes to the host", stats->out_bytes);
    dao_report_bytes(report, "peak_device_bytes", "peak on the device", stats->peak_device_used_bytes);
    dao_report_bytes(report, "peak_host_bytes", "peak on the host", stats->peak_host_used_bytes);
    if (config->file.directory != NULL) {
        report_file(report, stats);
    }
    if (config->mode == DAO_RUN_MODE_LEARN || config->is_planned_first) {
        report_learnt(report, stats);
    }
    dao_report_count(report, "compactions", stats->compaction_count > 0 ? "compactions" : NULL,
                     stats->compaction_count);
    dao_report_count(report, "throttles", NULL, stats->throttle_count);
    dao_report_count(report, "reads_verified", "reads verified", result->verified_count);
    dao_report_count(report, "temporaries_verified", "temporaries verified", result->temporary_count);
    dao_report_count(report, "mismatches", "mismatches",
                     result->mismatch_count + result->unlimited_mismatch_count);
    report_times(report, result);
}

/* Says what was wrong; returns true if anything was. */
static bool complain_of_mismatches(const dao_run_config_t *config, const dao_run_result_t *result)
{
    uint64_t count = result->mismatch_count + result->unlimited_mismatch_count;
    if (count > 0) {
        dao_progress_hide();
        (void)fprintf(stderr, "dao run: policy %s: content was wrong: %s\n", dao_policy_name(config->policy),
                      result->first_mismatch);
    }
    return count > 0;
}

static dao_status_t run_one(const dao_run_config_t *config, const dao_step_trace_t *trace,
                            const dao_step_figures_t *figures, bool is_json, int *out_exit)
{
    dao_run_result_t result;
    dao_status_t status = dao_run_step(config, trace, &result);
    if (status != DAO_OK) {
        return status;
    }
    dao_report_t report;
    dao_report_begin(&report, is_json);
    report_trace(&report, trace, config, figures);
    report_result(&report, config, &result);
    *out_exit = dao_report_end(&report);
    if (complain_of_mismatches(config, &result)) {
        *out_exit = DAO_EXIT_FAILED;
    }
    return DAO_OK;
}

static void print_policy_head(const dao_report_t *report)
{
    if (!report->is_json) {
        dao_progress_hide();
        (void)printf("\n%-18s %10s %14s %14s %12s %8s %11s\n", "policy", "evictions", "MiB in", "MiB out",
                     "step ms", "ratio", "mismatches");
    }
}

static void print_policy_row(const dao_run_config_t *config, const dao_run_result_t *result)
{
    const dao_executor_stats_t *stats = &result->stats;
    dao_progress_hide();
    (void)printf("%-18s %10llu %14.1f %14.1f %12.3f %8.3f %11llu\n", dao_policy_name(config->policy),
                 (unsigned long long)stats->eviction_count, (double)stats->in_bytes / 1048576,
                 (double)stats->out_bytes / 1048576, (double)result->step_ns / 1e6, ratio_of(result),
                 (unsigned long long)result->mismatch_count + result->unlimited_mismatch_count);
    dao_output_flush();
}

/* A row for people or an item of the list, and over the first one what all have in common: a run that is
   refused has printed nothing. */
static void report_policy(dao_report_t *report, const dao_step_trace_t *trace, const dao_run_config_t *config,
                          const dao_run_result_t *result)
{
    if (config->policy == 0) {
        report_trace(report, trace, config, &result->figures);
        print_policy_head(report);
    }
    if (!report->is_json) {
        print_policy_row(config, result);
        return;
    }
    dao_report_t item;
    dao_report_begin(&item, true);
    report_result(&item, config, result);
    dao_report_item(report, "runs", &item);
}

/* One after the other under every policy; the run with unlimited memory is made once. */
static dao_status_t run_all(dao_run_config_t *config, const dao_step_trace_t *trace, bool is_json,
                            int *out_exit)
{
    dao_report_t report;
    uint64_t unlimited_ns = 0;
    bool has_mismatch = false, is_alone = config->is_without_comparison;
    dao_report_begin(&report, is_json);
    for (int policy = 0; policy < DAO_POLICY_USER; policy++) {
        dao_run_result_t result;
        config->policy = (dao_policy_t)policy;
        config->is_without_comparison = is_alone || policy > 0;
        dao_status_t status = dao_run_step(config, trace, &result);
        if (status != DAO_OK) {
            report.is_json = false; /* half an object is none */
            (void)dao_report_end(&report);
            return status;
        }
        unlimited_ns = policy == 0 ? result.unlimited_ns : unlimited_ns;
        result.unlimited_ns = unlimited_ns;
        report_policy(&report, trace, config, &result);
        has_mismatch = complain_of_mismatches(config, &result) || has_mismatch;
    }
    *out_exit = dao_report_end(&report);
    *out_exit = has_mismatch ? DAO_EXIT_FAILED : *out_exit;
    return DAO_OK;
}

static uint64_t sum_saturated(uint64_t left_bytes, uint64_t right_bytes)
{
    return left_bytes > UINT64_MAX - right_bytes ? UINT64_MAX : left_bytes + right_bytes;
}

/* Bytes in memory at most, the device's and the host's: all that is alive; with a file what it leaves over,
   and a tensor on its way there. */
static uint64_t most_bytes_in_memory(const dao_run_config_t *config, const dao_step_trace_t *trace,
                                     const dao_step_figures_t *figures)
{
    uint64_t most_bytes = sum_saturated(config->capacity_bytes, config->host_bytes), largest_bytes = 0;
    for (size_t i = 0; i < trace->tensor_count; i++) {
        largest_bytes = dao_larger(largest_bytes, trace->tensors[i].size_bytes);
    }
    most_bytes = sum_saturated(most_bytes, largest_bytes);
    return config->file.directory != NULL && most_bytes < figures->peak_bytes ? most_bytes
                                                                              : figures->peak_bytes;
}

/* The memory of the machine, or of the container, with that of its device where it has some of its own. */
static dao_status_t find_memory(bool is_virtual, uint64_t *out_bytes)
{
    dao_device_info_t info = {.total_bytes = 0};
    dao_status_t status = is_virtual ? DAO_OK : dao_device_query(0, &info);
    if (status == DAO_OK && !is_virtual) {
        status = dao_finalize(); /* the run starts it with settings of its own */
    }
    *out_bytes = dao_available_memory().total_bytes + info.total_bytes;
    return status;
}

/* Virtual devices are made of the machine's memory, and so is what is moved off any: beyond that the system
   would kill us. A step that needs its file for that has no run with unlimited memory beside it. */
static dao_status_t check_memory(dao_run_config_t *config, const dao_step_trace_t *trace,
                                 const dao_step_figures_t *figures)
{
    bool is_virtual = strcmp(dao_backend_name(), "cpu") == 0;
    uint64_t most_bytes = most_bytes_in_memory(config, trace, figures), total_bytes = 0;
    if (figures->peak_bytes <= dao_available_memory().total_bytes) {
        return DAO_OK;
    }
    dao_status_t status = find_memory(is_virtual, &total_bytes);
    config->is_without_comparison = figures->peak_bytes > total_bytes;
    if (status != DAO_OK || most_bytes <= total_bytes) {
        return status;
    }
    char most[DAO_REPORT_SIZE_BYTES], total[DAO_REPORT_SIZE_BYTES];
    return dao_error(DAO_ERR_NO_HOST_MEMORY,
                     "the step needs %s of memory, wherever they are, and the memory here, %s, is %s; %s",
                     dao_report_size(most_bytes, most),
                     is_virtual ? "which virtual devices are made of" : "the device's included",
                     dao_report_size(total_bytes, total),
                     config->file.directory != NULL
                         ? "give less --capacity and --host, and the rest goes to the file"
                         : "\"dao simulate\" runs it in virtual time");
}

static dao_status_t run_trace(settings_t *settings, const dao_step_trace_t *trace, int *out_exit)
{
    dao_step_figures_t figures;
    dao_run_config_t *config = &settings->config;
    dao_status_t status = dao_step_problem_check(trace);
    if (status == DAO_OK) {
        status = dao_step_trace_figures(trace, &figures);
    }
    if (status == DAO_OK) {
        status = dao_capacity_resolve(&settings->capacity, figures.rounded_bytes, &config->capacity_bytes);
    }
    if (status == DAO_OK) {
        status = check_memory(config, trace, &figures);
    }
    if (status != DAO_OK) {
        return status;
    }
    if (settings->scheme == SCHEME_PLAN) {
        return run_planned(config, trace, settings->is_json, out_exit);
    }
    if (settings->policy == POLICY_ALL) {
        return run_all(config, trace, settings->is_json, out_exit);
    }
    return run_one(config, trace, &figures, settings->is_json, out_exit);
}

static dao_status_t run_run(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    settings_t *settings = user;
    dao_step_trace_t trace;
    set_config(settings);
    dao_status_t status = dao_read_step(arguments->words[0], settings->batch, &trace);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_failure_of(arguments->words[0], run_trace(settings, &trace, out_exit));
    if (status == DAO_OK && settings->trace_out != NULL) {
        status = dao_write_run_trace(settings->trace_out, "dao run", &trace, &settings->spans);
    }
    dao_run_spans_finish(&settings->spans);
    dao_step_trace_finish(&trace);
    return status;
}

const dao_command_t dao_command_run = {
    .program = "dao",
    .name = "run",
    .arguments = "TRACE",
    .summary = "execute a recorded step for real in limited device memory",
    .details =
        "Every operator of TRACE becomes a kernel that checks each byte it reads and writes new ones, so\n"
        "a tensor that was lost, stale or misplaced is seen: then the exit code is 1. The step runs again\n"
        "with unlimited memory to compare.\n" DAO_READ_STEP_HELP "\n\n"
        "Evictions, bytes, reads and times are those of one step, after one to warm up. What was alive\n"
        "before the step, such as weights, begins on the host: fetches and bytes to the device include\n"
        "its first use, in both runs, so both times do. Preparing and checking at the end are outside the\n"
        "times; kernels that check and write every byte are inside. Mismatches are wrong 8-byte words in\n"
        "all that was run. With --scheme learn steps are run in a row; evictions, bytes and the step time\n"
        "are means of the last five. With described the step is planned before it runs, by recorded times\n"
        "and a link that is measured; what the plan begins with comes before the step, which follows it.",
    .options = options,
    .rules = rules,
    .least_arguments = 1,
    .most_arguments = 1,
    .settings_bytes = sizeof(settings_t),
    .check = check_settings,
    .run = run_run,
};
