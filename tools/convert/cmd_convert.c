/* SPDX-License-Identifier: Apache-2.0 */
/* `dao convert FILE -o OUT`: a file in another form. A form needs a step, or lifetimes, or a history of them
   with a place for each buffer; each is made of the one before it. */
#include "tools/commands.h"
#include "tools/model/history.h"
#include "tools/options/complain.h"
#include "tools/options/shared.h"
#include "tools/plan/plan_write.h"
#include "tools/print/report.h"
#include "tools/read/events/read_lifetimes.h"
#include "tools/read/form/recognise.h"
#include "tools/read/step/read_step.h"
#include "tools/write/out_file.h"
#include "tools/write/write_dao_step.h"
#include "tools/write/writers.h"

#include "base/report/error.h"

#include <stdio.h>
#include <string.h>

/* What is in hand while a file is written. */
typedef struct source {
    bool has_step;
    dao_step_trace_t trace;
    dao_plan_input_t lifetimes;
    dao_history_t history; /* of the step, or of the lifetimes */
} source_t;

static dao_status_t write_step(FILE *file, const source_t *source)
{
    return dao_write_dao_step(file, &source->trace);
}

static dao_status_t write_tr(FILE *file, const source_t *source)
{
    dao_write_tr(file, &source->trace);
    return DAO_OK;
}

static dao_status_t write_lifetimes(FILE *file, const source_t *source)
{
    return dao_plan_write_lines(file, &source->lifetimes, NULL);
}

static dao_status_t write_events(FILE *file, const source_t *source)
{
    return dao_write_events(file, &source->history);
}

static dao_status_t write_snapshot(FILE *file, const source_t *source)
{
    return dao_write_snapshot(file, &source->history);
}

static dao_status_t write_rmm(FILE *file, const source_t *source)
{
    dao_write_rmm(file, &source->history);
    return DAO_OK;
}

static dao_status_t write_chrome(FILE *file, const source_t *source)
{
    return dao_write_chrome_trace(file, &source->history);
}

/* Name, ending of a file's name that chooses it, what it is, needs a step, and who writes it. */
#define FORM_LIST(X)                                                                                         \
    X("dao", ".dao", "a step of dao's own form", true, write_step)                                           \
    X("tr", ".tr", "a step as kernels and their accesses", true, write_tr)                                   \
    X("lifetimes", ".csv", "CSV with id,lower,upper,size", false, write_lifetimes)                           \
    X("events", ".events.csv", "CSV with time_ns,event,id,bytes,op", false, write_events)                    \
    X("snapshot", ".pickle", "a PyTorch memory snapshot, for its viewer", false, write_snapshot)             \
    X("rmm", ".rmm.csv", "RMM's log", false, write_rmm)                                                      \
    X("chrome", ".json", "Chrome's trace events, for Perfetto", false, write_chrome)

typedef struct form {
    const char *name;
    const char *ending;
    const char *about;
    bool needs_step;
    dao_status_t (*write)(FILE *file, const source_t *source);
} form_t;

static const form_t forms[] = {
#define FORM_ROW(name, ending, about, needs_step, write) {name, ending, about, needs_step, write},
    FORM_LIST(FORM_ROW)
#undef FORM_ROW
};

enum { FORM_COUNT = sizeof(forms) / sizeof(forms[0]) };

#define FORM_NAME(name, ending, about, needs_step, write) name,
DAO_OPTION_NAMES(form_at, FORM_LIST(FORM_NAME))

typedef struct settings {
    const char *out;
    const char *batch;
    const char *device;
    uint32_t form;
    bool is_json;
} settings_t;

static const dao_option_t options[] = {
    {.name = "o",
     .type = DAO_OPTION_TYPE_PATH,
     DAO_OPTION_FIELD(settings_t, out),
     .value = "OUT",
     .help = "the file to write; - is standard output"},
    {.name = "to",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, form),
     .value = "FORM",
     .name_at = form_at,
     .help = "one of those above; without it by the ending of OUT"},
    DAO_OPTION_BATCH(settings_t, batch),
    DAO_OPTION_LOG_DEVICE("device", settings_t, device),
    DAO_OPTION_JSON(settings_t, is_json, "say in one JSON object what was written"),
    {.name = NULL},
};

/* Finds the form by the longest ending that OUT has. */
static bool find_form(const char *out, uint32_t *out_form)
{
    size_t longest = 0, length = strlen(out);
    for (uint32_t i = 0; i < FORM_COUNT; i++) {
        size_t bytes = strlen(forms[i].ending);
        if (bytes > longest && length > bytes && strcmp(out + length - bytes, forms[i].ending) == 0) {
            longest = bytes;
            *out_form = i;
        }
    }
    return longest > 0;
}

static dao_status_t check_settings(const dao_arguments_t *arguments, void *user)
{
    settings_t *settings = user;
    if (settings->out == NULL) {
        return dao_error(DAO_ERR_INVALID, "-o OUT is missing: the file to write");
    }
    if (!dao_option_is_given(arguments, "to") && !find_form(settings->out, &settings->form)) {
        return dao_error(DAO_ERR_INVALID, "\"%.60s\" has no ending that tells a form: say --to FORM",
                         settings->out);
    }
    if (settings->is_json && dao_out_file_is_standard(settings->out)) {
        return dao_error(DAO_ERR_INVALID, "-o - and --json would both go to standard output");
    }
    return dao_out_file_check(settings->out, arguments->words[0]);
}

/* ---- the file ---- */

static void finish_source(source_t *source)
{
    dao_history_finish(&source->history);
    dao_plan_input_finish(&source->lifetimes);
    dao_step_trace_finish(&source->trace);
}

static dao_status_t read_source(const char *path, const settings_t *settings, source_t *source)
{
    dao_file_form_t form = DAO_FILE_FORM_JSON_STEP;
    dao_read_choice_t choice = {.batch = settings->batch, .device = settings->device};
    dao_status_t status = dao_recognise_part(path, choice.batch, choice.device, &form);
    if (status != DAO_OK) {
        return status;
    }
    source->has_step = dao_file_form_is_step(form);
    if (source->has_step || forms[settings->form].needs_step) {
        status = dao_read_step(path, settings->batch, &source->trace);
        return status == DAO_OK
                   ? dao_failure_of(path, dao_plan_input_of_step(&source->trace, &source->lifetimes))
                   : status;
    }
    return dao_read_lifetimes(path, &choice, &source->lifetimes);
}

/* Gives the buffers times and places. Lives by several clocks have none, and one form that takes them. */
static dao_status_t make_history(const settings_t *settings, source_t *source)
{
    if (source->lifetimes.clock_count > 0 && forms[settings->form].write == write_lifetimes) {
        return DAO_OK;
    }
    dao_status_t status = source->has_step ? dao_history_of_step(&source->trace, &source->history)
                                           : dao_history_of_lifetimes(&source->lifetimes, &source->history);
    return status == DAO_OK ? dao_history_place(&source->history) : status;
}

static dao_status_t write_file(const settings_t *settings, const source_t *source)
{
    FILE *file = dao_out_file_open(settings->out);
    return file == NULL ? DAO_ERR_IO
                        : dao_out_file_close(file, settings->out, forms[settings->form].write(file, source));
}

static dao_status_t tell(const settings_t *settings, const source_t *source, int *out_exit)
{
    dao_report_t report;
    dao_alloc_trace_t trace;
    dao_report_begin(&report, settings->is_json);
    dao_report_text(&report, "written", "written", settings->out);
    dao_report_text(&report, "form", "form", forms[settings->form].about);
    dao_report_count(&report, "buffers", "buffers", source->lifetimes.buffer_count);
    dao_report_count(&report, "left_out",
                     source->lifetimes.left_out_count > 0 ? "without bytes or a life" : NULL,
                     source->lifetimes.left_out_count);
    dao_status_t status = source->lifetimes.clock_count == 0
                              ? dao_plan_input_replay(&source->lifetimes, false, &trace)
                              : DAO_OK;
    if (status == DAO_OK && source->lifetimes.clock_count == 0) {
        dao_report_bytes(&report, "peak_bytes", "peak", trace.peak_bytes);
        dao_alloc_trace_finish(&trace);
    }
    report.is_json = report.is_json && status == DAO_OK;
    *out_exit = dao_report_end(&report);
    return status;
}

static dao_status_t run_convert(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    const settings_t *settings = user;
    source_t source = {.has_step = false};
    dao_step_trace_init(&source.trace);
    dao_plan_input_init(&source.lifetimes);
    dao_status_t status = read_source(arguments->words[0], settings, &source);
    if (status == DAO_OK) {
        status = dao_failure_of(arguments->words[0], make_history(settings, &source));
    }
    if (status == DAO_OK) {
        status = write_file(settings, &source);
    }
    if (status == DAO_OK && !dao_out_file_is_standard(settings->out)) {
        status = tell(settings, &source, out_exit);
    }
    finish_source(&source);
    return status;
}

#define FORM_HELP(name, ending, about, needs_step, write) "\n  " name " (" ending "): " about

const dao_command_t dao_command_convert = {
    .program = "dao",
    .name = "convert",
    .arguments = "FILE",
    .summary = "write a trace in another form",
    .details = "FILE is whatever dao info knows. The form of OUT is --to, or told by its ending. Buffers of\n"
               "forms with addresses lie where an allocator that fits them well would put them.\n"
               "Forms, each with its ending:" FORM_LIST(FORM_HELP),
    .options = options,
    .least_arguments = 1,
    .most_arguments = 1,
    .settings_bytes = sizeof(settings_t),
    .check = check_settings,
    .run = run_convert,
};
