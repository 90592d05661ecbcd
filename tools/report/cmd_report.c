/* SPDX-License-Identifier: Apache-2.0 */
/* `dao report FILE... -o OUT`: what holds the memory of one or two files, as a page, as figures, or as a
   flame graph. */
#include "tools/commands.h"
#include "tools/fit/link_device.h"
#include "tools/options/complain.h"
#include "tools/options/shared.h"
#include "tools/report/figures.h"
#include "tools/report/flame.h"
#include "tools/report/page.h"
#include "tools/write/out_file.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <string.h>

enum { FILE_COUNT_MAX = 2 };

typedef struct settings {
    const char *out, *flame, *batch, *log_device;
    dao_capacity_t capacity;
    uint64_t rate, host_bytes;
    uint32_t device;
    const char *step_option; /* one that was given and needs a step with times; NULL: none was */
    bool has_capacity;
    bool is_json;
} settings_t;

static const dao_option_t options[] = {
    {.name = "o",
     .type = DAO_OPTION_TYPE_PATH,
     DAO_OPTION_FIELD(settings_t, out),
     .value = "OUT",
     .help = "the page to write, report.html; - is standard output"},
    {.name = "flame",
     .type = DAO_OPTION_TYPE_PATH,
     DAO_OPTION_FIELD(settings_t, flame),
     .value = "OUT",
     .help = "write what is alive at the peak as a profile for Speedscope, of one FILE"},
    {.name = "capacity",
     .type = DAO_OPTION_TYPE_CAPACITY,
     DAO_OPTION_FIELD(settings_t, capacity),
     .value = "SIZE",
     .help = "of a step: also show its copies and stalls in that much memory, 50% of the peak or 8GiB"},
    DAO_OPTION_LINK(settings_t, rate),
    {.name = "device",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, device),
     .value = "DEVICE",
     .name_at = dao_link_device_at,
     .help = "its link; the names are those of dao fit"},
    DAO_OPTION_HOST(settings_t, host_bytes),
    DAO_OPTION_BATCH(settings_t, batch),
    DAO_OPTION_LOG_DEVICE("of", settings_t, log_device),
    DAO_OPTION_JSON(settings_t, is_json, "print the figures of the page, an array with an object a file"),
    {.name = NULL},
};

/* Options that say how a step swaps. */
static const char *const step_options[] = {"capacity", "link", "device", "host", NULL};

static dao_status_t check_settings(const dao_arguments_t *arguments, void *user)
{
    settings_t *settings = user;
    const char *out = settings->out;
    if (out == NULL && settings->flame == NULL && !settings->is_json) {
        return dao_error(DAO_ERR_INVALID, "-o OUT is missing: the page to write");
    }
    if (settings->flame != NULL && arguments->words[1] != NULL) {
        return dao_error(DAO_ERR_INVALID, "--flame is for one FILE");
    }
    if (out != NULL && settings->flame != NULL && strcmp(out, settings->flame) == 0) {
        return dao_error(DAO_ERR_INVALID, "-o and --flame are one file");
    }
    bool has_stdout = dao_out_file_is_standard(out);
    bool has_stdout_flame = dao_out_file_is_standard(settings->flame);
    if (has_stdout + has_stdout_flame + settings->is_json > 1) {
        return dao_error(DAO_ERR_INVALID, "only one of -o -, --flame - and --json can go to standard output");
    }
    settings->step_option = dao_option_first_given(arguments, step_options);
    settings->has_capacity = dao_option_is_given(arguments, "capacity");
    settings->rate = dao_link_rate(arguments, settings->rate, settings->device);
    dao_status_t status = dao_out_file_check(settings->flame, arguments->words[0]);
    for (size_t i = 0; i < 2 && arguments->words[i] != NULL && status == DAO_OK; i++) {
        status = dao_out_file_check(out, arguments->words[i]);
    }
    return status;
}

/* ---- a file ---- */

typedef struct file {
    dao_report_view_t view;
    dao_report_swap_t swap;
    bool has_swap;
    dao_report_t figures;
} file_t;

/* What a file without a step cannot show is not left to be found out. */
static dao_status_t make_swap(const settings_t *settings, file_t *file)
{
    dao_report_swap_config_t config = {.rate = settings->rate,
                                       .host_bytes = settings->host_bytes,
                                       .capacity = settings->has_capacity ? &settings->capacity : NULL};
    if (!file->view.has_times && settings->step_option != NULL) {
        return dao_link_option_error(settings->step_option, file->view.has_step);
    }
    file->has_swap = file->view.has_times;
    return file->has_swap ? dao_report_swap_make(&config, &file->view.trace, &file->swap) : DAO_OK;
}

static dao_status_t make_file(const char *path, const settings_t *settings, file_t *file)
{
    dao_read_choice_t choice = {.batch = settings->batch, .device = settings->log_device, .has_labels = true};
    dao_status_t status = dao_report_view_make(path, &choice, &file->view);
    if (status == DAO_OK) {
        status = dao_failure_of(path, make_swap(settings, file));
    }
    if (status == DAO_OK) {
        dao_report_begin(&file->figures, true);
        status = dao_report_figures(&file->figures, &file->view, file->has_swap ? &file->swap : NULL);
    }
    return status;
}

/* ---- what is written ---- */

static dao_status_t write_page(const char *path, file_t *files, size_t count)
{
    dao_report_part_t parts[FILE_COUNT_MAX];
    for (size_t i = 0; i < count; i++) {
        parts[i] = (dao_report_part_t){.view = &files[i].view,
                                       .swap = files[i].has_swap ? &files[i].swap : NULL,
                                       .figures = dao_report_json(&files[i].figures)};
        if (parts[i].figures == NULL) {
            return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the figures of a page");
        }
    }
    FILE *out = dao_out_file_open(path);
    return out == NULL ? DAO_ERR_IO : dao_out_file_close(out, path, dao_report_page_write(out, parts, count));
}

static dao_status_t write_flame(const char *path, const file_t *file)
{
    FILE *out = dao_out_file_open(path);
    return out == NULL ? DAO_ERR_IO : dao_out_file_close(out, path, dao_report_flame_write(out, &file->view));
}

static void tell(const settings_t *settings, const file_t *files, size_t count)
{
    char size[DAO_REPORT_SIZE_BYTES];
    for (size_t i = 0; i < count; i++) {
        const dao_report_view_t *view = &files[i].view;
        dao_report_row("file", "%s", view->path);
        dao_report_row("  peak", "%s of %zu buffers", dao_report_size(view->peak_bytes, size),
                       view->lifetimes.buffer_count);
    }
    if (settings->out != NULL) {
        dao_report_row("written", "%s", settings->out);
    }
    if (settings->flame != NULL) {
        dao_report_row("written", "%s", settings->flame);
    }
}

static bool is_told(const settings_t *settings)
{
    return !settings->is_json && !dao_out_file_is_standard(settings->out) &&
           !dao_out_file_is_standard(settings->flame);
}

static int print_json(file_t *files, size_t count)
{
    dao_report_t list;
    dao_report_begin_list(&list, true);
    for (size_t i = 0; i < count; i++) {
        dao_report_list_item(&list, &files[i].figures);
    }
    return dao_report_end(&list);
}

static dao_status_t write_all(const settings_t *settings, file_t *files, size_t count, int *out_exit)
{
    dao_status_t status = settings->out != NULL ? write_page(settings->out, files, count) : DAO_OK;
    if (status == DAO_OK && settings->flame != NULL) {
        status = write_flame(settings->flame, &files[0]);
    }
    if (status == DAO_OK && settings->is_json) {
        *out_exit = print_json(files, count);
    }
    if (status == DAO_OK && is_told(settings)) {
        tell(settings, files, count);
    }
    return status;
}

static dao_status_t run_report(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    const settings_t *settings = user;
    size_t count = arguments->words[1] != NULL ? 2 : 1;
    file_t *files = dao_host_calloc(FILE_COUNT_MAX, sizeof(*files));
    dao_status_t status =
        files != NULL ? DAO_OK : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a report");
    if (status == DAO_OK && count == 1) {
        dao_file_form_t form = DAO_FILE_FORM_JSON_STEP;
        status = dao_recognise_part(arguments->words[0], settings->batch, settings->log_device, &form);
    }
    for (size_t i = 0; i < count && status == DAO_OK; i++) {
        status = make_file(arguments->words[i], settings, &files[i]);
    }
    if (status == DAO_OK) {
        status = write_all(settings, files, count, out_exit);
    }
    dao_error_record_t error;
    dao_error_save(&error, status);
    for (size_t i = 0; files != NULL && i < FILE_COUNT_MAX; i++) {
        dao_report_drop(&files[i].figures);
        dao_report_swap_finish(&files[i].swap);
        dao_report_view_finish(&files[i].view);
    }
    dao_host_free(files);
    return status == DAO_OK ? DAO_OK : dao_error_restore(&error);
}

const dao_command_t dao_command_report = {
    .program = "dao",
    .name = "report",
    .arguments = "FILE [FILE]",
    .summary = "show what holds the memory of a trace, as a page",
    .details = "FILE is whatever dao info knows. The page is one file that works without a network: memory\n"
               "over time, what holds it, where a plan puts it; of a step with times also what less memory\n"
               "costs. Two files stand side by side.",
    .options = options,
    .least_arguments = 1,
    .most_arguments = FILE_COUNT_MAX,
    .settings_bytes = sizeof(settings_t),
    .check = check_settings,
    .run = run_report,
};
