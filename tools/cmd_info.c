/* SPDX-License-Identifier: Apache-2.0 */
/* `dao info [FILE]`: what this build is and what devices it sees; or what a file holds. */
#include "tools/commands.h"
#include "tools/options/complain.h"
#include "tools/options/shared.h"
#include "tools/print/print_counts.h"
#include "tools/print/report.h"
#include "tools/read/events/read_events.h"
#include "tools/read/events/read_lifetimes.h"
#include "tools/read/step/read_step.h"

#include "base/report/error.h"

#include <dao/dao.h>

#include <stdio.h>

typedef struct settings {
    bool is_json;
    const char *batch;
    const char *device;
} settings_t;

static const dao_option_t options[] = {
    DAO_OPTION_BATCH(settings_t, batch),
    DAO_OPTION_LOG_DEVICE("device", settings_t, device),
    DAO_OPTION_JSON(settings_t, is_json, "print one JSON object"),
    {.name = NULL},
};

/* Without a file there is nothing to choose from. */
static dao_status_t check_settings(const dao_arguments_t *arguments, void *user)
{
    const settings_t *settings = user;
    if (arguments->words[0] == NULL && (settings->batch != NULL || settings->device != NULL)) {
        return dao_error(DAO_ERR_INVALID, "--%s is for a FILE", settings->batch != NULL ? "batch" : "device");
    }
    return DAO_OK;
}

static dao_status_t report_device(dao_report_t *report, int32_t index)
{
    dao_device_info_t info;
    dao_status_t status = dao_device_query(index, &info);
    if (status != DAO_OK) {
        return status;
    }
    if (!report->is_json) {
        (void)printf("\ndevice %d\n", (int)index);
    }
    dao_report_t device;
    dao_report_begin(&device, report->is_json);
    dao_report_count(&device, "index", NULL, (uint64_t)index);
    dao_report_text(&device, "name", "  name", info.name);
    dao_report_bytes(&device, "total_bytes", "  capacity", info.total_bytes);
    dao_report_bytes(&device, "free_bytes", "  free", info.free_bytes);
    dao_report_bytes(&device, "page_bytes", "  mapped pages", info.page_bytes);
    dao_report_bytes(&device, "alignment_bytes", "  alignment", info.alignment_bytes);
    dao_report_flag(&device, "memory_pools", "  memory pools", info.memory_pools);
    dao_report_flag(&device, "host_accessible", "  host accessible", info.host_accessible);
    if (info.pci_address[0] != '\0') {
        char compute[32];
        (void)snprintf(compute, sizeof(compute), "%d.%d", (int)info.compute_major, (int)info.compute_minor);
        dao_report_text(&device, "pci_address", "  PCI address", info.pci_address);
        dao_report_text(&device, "compute", "  compute version", compute);
        dao_report_count(&device, "multiprocessor_count", "  multiprocessors",
                         (uint64_t)info.multiprocessor_count);
    }
    dao_report_item(report, "devices", &device);
    return DAO_OK;
}

static dao_status_t report_host(dao_report_t *report)
{
    dao_host_stats_t host;
    dao_status_t status = dao_host_stats_get(&host);
    if (status == DAO_OK) {
        dao_report_bytes(report, "host_limit_bytes", host.limit_bytes > 0 ? "host limit" : NULL,
                         host.limit_bytes);
    }
    return status;
}

/* No device is no failure: the tool works without one. */
static dao_status_t report_devices(dao_report_t *report)
{
    int32_t count = 0;
    dao_status_t status = dao_device_count(&count);
    if (status == DAO_ERR_NO_DEVICE) {
        dao_report_count(report, "device_count", "devices", 0);
        dao_report_text(report, "device_error", "reason", dao_last_message());
        return DAO_OK;
    }
    if (status == DAO_OK) {
        dao_report_count(report, "device_count", "devices", (uint64_t)count);
    }
    for (int32_t i = 0; status == DAO_OK && i < count; i++) {
        status = report_device(report, i);
    }
    return status;
}

static dao_status_t report_build(dao_report_t *report)
{
    dao_report_text(report, "version", "version", dao_version());
    dao_report_text(report, "backend", "backend", dao_backend_name());
    dao_status_t status = dao_init(NULL);
    bool is_started = status == DAO_OK;
    status = is_started ? report_host(report) : status;
    if (status == DAO_ERR_NO_DEVICE || status == DAO_OK) {
        status = report_devices(report);
    }
    if (is_started) {
        (void)dao_finalize(); /* nothing was allocated */
    }
    return status;
}

static void report_largest(dao_report_t *report, const dao_step_trace_t *trace,
                           const dao_step_figures_t *figures)
{
    if (figures->largest_operator == DAO_TRACE_NONE) {
        return;
    }
    dao_report_count(report, "largest_operator_index", NULL, figures->largest_operator);
    dao_report_text(report, "largest_operator", "largest operator",
                    dao_trace_operator_name(trace, figures->largest_operator));
}

static void report_form(dao_report_t *report, dao_file_form_t form)
{
    dao_report_text(report, "form", "form", dao_file_form_name(form));
}

static dao_status_t report_step(dao_report_t *report, const char *path, const char *batch,
                                dao_file_form_t form)
{
    dao_step_trace_t trace;
    dao_step_figures_t figures;
    dao_status_t status = dao_read_step(path, batch, &trace);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_failure_of(path, dao_step_trace_figures(&trace, &figures));
    if (status == DAO_OK) {
        report_form(report, form);
        dao_report_text(report, "model", "model", trace.model);
        dao_report_text(report, "batch", "batch", trace.batch);
        dao_report_count(report, "operators", "operators", trace.operator_count);
        dao_report_count(report, "tensors", "tensors", trace.tensor_count);
        dao_report_count(report, "temporaries", "temporaries", trace.temporary_count);
        dao_report_bytes(report, "peak_bytes", "peak", figures.peak_bytes);
        dao_report_bytes(report, "persistent_bytes", "persistent", figures.persistent_bytes);
        dao_report_count(report, "persistent_tensors", "persistent tensors", figures.persistent_count);
        report_largest(report, &trace, &figures);
        dao_report_bytes(report, "smallest_capacity_bytes", "smallest capacity", figures.largest_work_bytes);
        dao_report_time(report, "recorded_s", "recorded time", figures.cost_ns);
        dao_report_count(report, "ignored", trace.ignored_count > 0 ? "ignored entries" : NULL,
                         trace.ignored_count);
    }
    dao_step_trace_finish(&trace);
    return status;
}

static void report_event_device(dao_report_t *report, const dao_life_device_t *device)
{
    const dao_event_file_t *events = &device->events;
    dao_report_text(report, "device", "device", device->name);
    dao_report_count(report, "buffers", "buffers", events->tensor_count);
    dao_report_counts(report, &events->counts);
    dao_report_bytes(report, "peak_bytes", "peak", device->peak_bytes);
    dao_report_bytes(report, "reserved_bytes",
                     events->counts.reserved_bytes > 0 ? "reserved at the end" : NULL,
                     events->counts.reserved_bytes);
}

/* The device that was asked for, or the one with the highest peak; the others in a row each. */
static dao_status_t report_events(dao_report_t *report, const char *path, const char *name,
                                  dao_file_form_t form)
{
    dao_life_log_t log;
    dao_status_t status = dao_read_event_log(path, &log);
    if (status != DAO_OK) {
        return status;
    }
    const dao_life_device_t *device = NULL;
    status = dao_life_log_choose(&log, path, name, &device);
    if (status == DAO_OK) {
        report_form(report, form);
        report_event_device(report, device);
    }
    for (size_t i = 0; i < log.device_count && status == DAO_OK; i++) {
        const dao_life_device_t *other = &log.devices[i];
        char size[DAO_REPORT_SIZE_BYTES];
        dao_report_t item;
        if (other == device) {
            continue;
        }
        dao_report_begin(&item, report->is_json);
        if (report->is_json) {
            report_event_device(&item, other);
        } else {
            dao_report_row("another device", "%s, %zu buffers, peak %s", other->name,
                           other->events.tensor_count, dao_report_size(other->peak_bytes, size));
        }
        dao_report_item(report, "other_devices", &item);
    }
    dao_life_log_finish(&log);
    return status;
}

static dao_status_t report_lifetimes(dao_report_t *report, const char *path, dao_file_form_t form)
{
    dao_plan_input_t lifetimes;
    dao_alloc_trace_t trace;
    dao_status_t status = dao_read_lifetimes(path, &(dao_read_choice_t){0}, &lifetimes);
    if (status != DAO_OK) {
        return status;
    }
    report_form(report, form);
    dao_report_count(report, "buffers", "buffers", lifetimes.buffer_count);
    dao_report_count(report, "left_out", lifetimes.left_out_count > 0 ? "without bytes or a life" : NULL,
                     lifetimes.left_out_count);
    if (lifetimes.clock_count > 0) {
        dao_report_unknown(report, "peak_bytes", "peak", "lives by several clocks have no order");
    } else {
        status = dao_plan_input_replay(&lifetimes, false, &trace);
    }
    if (status == DAO_OK && lifetimes.clock_count == 0) {
        dao_report_bytes(report, "peak_bytes", "peak", trace.peak_bytes);
        dao_alloc_trace_finish(&trace);
    }
    dao_plan_input_finish(&lifetimes);
    return status;
}

/* What a file without a step cannot say is not left to be found out. */
static void report_use(dao_report_t *report)
{
    dao_report_text(report, NULL, "good for", "dao plan, replay, fit, report, convert");
    dao_report_text(report, NULL, "not for", "dao simulate, dao run: record a step, with dao.record()");
}

static dao_status_t report_trace(dao_report_t *report, const char *path, const settings_t *settings)
{
    dao_file_form_t form = DAO_FILE_FORM_JSON_STEP;
    dao_status_t status = dao_recognise_part(path, settings->batch, settings->device, &form);
    if (status != DAO_OK) {
        return status;
    }
    if (dao_file_form_is_step(form)) {
        return report_step(report, path, settings->batch, form);
    }
    bool has_events = dao_file_form_has_events(form);
    status = has_events ? report_events(report, path, settings->device, form)
                        : report_lifetimes(report, path, form);
    if (status == DAO_OK && !report->is_json) {
        report_use(report);
    }
    return status;
}

static dao_status_t run_info(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    const settings_t *settings = user;
    const char *path = arguments->words[0];
    dao_report_t report;
    dao_report_begin(&report, settings->is_json);
    dao_status_t status = path != NULL ? report_trace(&report, path, settings) : report_build(&report);
    report.is_json = report.is_json && status == DAO_OK; /* half an object is none */
    *out_exit = dao_report_end(&report);
    return status;
}

const dao_command_t dao_command_info = {
    .program = "dao",
    .name = "info",
    .arguments = "[FILE]",
    .summary = "show this build and its devices, or what a file holds",
    .details =
        "Without FILE: version, backend and devices. With FILE: its form, its peak, what can be done with\n"
        "it, and of a recorded step the smallest device memory that it can be run in.\n\n"
        "FILE is known by what is in it, packed by gzip or zstd, or not; - is standard input. It is a\n"
        "recorded step (as of `dao help run`); lifetimes (as of `dao help plan`); or allocations and\n"
        "frees: what DAO_RECORD wrote, a PyTorch memory snapshot, profiler trace or memory timeline, what\n"
        "RMM, Umpire or rocprofv3 wrote, or a database of Nsight Systems. docs/formats.md lists all forms.",
    .options = options,
    .most_arguments = 1,
    .settings_bytes = sizeof(settings_t),
    .check = check_settings,
    .run = run_info,
};
