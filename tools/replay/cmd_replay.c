/* SPDX-License-Identifier: Apache-2.0 */
/* `dao replay FILE`: the recorded steps of a program, each a step at a place with step plans. How well each
   step follows its plan is printed, a row a step. With --deviate the steps are made: the first one as it is,
   and others that deviate from it. Then all of it is run without plans, too, for what the place takes
   then. */
#include "tools/base/progress.h"
#include "tools/commands.h"
#include "tools/model/history.h"
#include "tools/options/complain.h"
#include "tools/options/shared.h"
#include "tools/print/json_rows.h"
#include "tools/read/events/read_event_file.h"
#include "tools/read/events/read_events.h"
#include "tools/read/events/read_lifetimes.h"
#include "tools/read/form/recognise.h"
#include "tools/replay/deviate.h"
#include "tools/replay/replay_steps.h"

#include "base/report/error.h"

#include <dao/dao.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of shares and ratios in JSON. */
#define RATIO_DECIMALS 9

typedef struct settings {
    dao_replay_span_t recorded;
    dao_replay_span_t served; /* first is 0: all behind those that are recorded */
    uint32_t mode, method;
    dao_place_t place;
    uint64_t deviating; /* percent of the events, in millionths */
    uint32_t kinds;
    uint64_t repeats;
    uint64_t shapes;
    uint64_t seed;
    const char *batch;
    bool has_keys;
    bool is_touched;
    bool is_prefaulted;
    bool is_json;
} settings_t;

/* ---- options ---- */

/* The modes that plan, in the order of their names. */
static const dao_step_plan_mode_t modes[] = {DAO_STEP_PLAN_OFFSETS, DAO_STEP_PLAN_BINS};
DAO_OPTION_NAMES(mode_at, "offsets", "bins")

static const char *method_at(size_t index)
{
    return index < DAO_PLAN_METHOD_COUNT ? dao_plan_method_name((dao_plan_method_t)index) : NULL;
}

/* Reads "A", "A..B" or "A.."; what is missing behind the dots is UINT64_MAX. */
static dao_status_t parse_span(const char *text, void *field)
{
    dao_replay_span_t span;
    char *end;
    bool has_first = text[0] >= '0' && text[0] <= '9';
    span.first = strtoull(text, &end, 10);
    span.last = span.first;
    if (strncmp(end, "..", 2) == 0) {
        const char *last = end + 2;
        bool has_last = last[0] >= '0' && last[0] <= '9';
        end = end + 2;
        span.last = has_last ? strtoull(last, &end, 10) : UINT64_MAX;
    }
    if (!has_first || *end != '\0' || span.first == 0 || span.last < span.first) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" is not A, A..B or A.., steps from 1", text);
    }
    *(dao_replay_span_t *)field = span;
    return DAO_OK;
}

static dao_status_t parse_recorded(const char *text, void *field)
{
    dao_replay_span_t *span = field;
    dao_status_t status = parse_span(text, span);
    return status == DAO_OK && span->last < UINT32_MAX
               ? DAO_OK
               : dao_error(DAO_ERR_INVALID, "\"%.40s\" is not A or A..B, steps from 1", text);
}

static dao_status_t parse_place(const char *text, void *field)
{
    return dao_place_parse(text, field);
}

static dao_status_t parse_kinds(const char *text, void *field)
{
    return dao_deviation_kinds_parse(text, field);
}

static const dao_option_t options[] = {
    {.name = "record",
     .type = DAO_OPTION_TYPE_PARSED,
     DAO_OPTION_FIELD(settings_t, recorded),
     .value = "A[..B]",
     .preset = "1",
     .parse = parse_recorded,
     .help = "steps that are recorded, from 1"},
    {.name = "serve",
     .type = DAO_OPTION_TYPE_PARSED,
     DAO_OPTION_FIELD(settings_t, served),
     .value = "A..[B]",
     .parse = parse_span,
     .help = "steps that follow a plan; without it all behind those"},
    {.name = "mode",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, mode),
     .value = "MODE",
     .preset = "offsets",
     .name_at = mode_at,
     .help = "of the plan"},
    {.name = "method",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, method),
     .value = "METHOD",
     .preset = "best",
     .name_at = method_at,
     .help = "of the planner, for offsets: as of dao plan"},
    {.name = "place",
     .type = DAO_OPTION_TYPE_PARSED,
     DAO_OPTION_FIELD(settings_t, place),
     .value = "PLACE",
     .preset = "cpu",
     .parse = parse_place,
     .help = "where: cpu or device:N"},
    {.name = "keys",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, has_keys),
     .help = "requests have their operator's number in the step as a key"},
    {.name = "deviate",
     .type = DAO_OPTION_TYPE_DECIMAL,
     DAO_OPTION_FIELD(settings_t, deviating),
     .value = "PERCENT",
     .most = 100,
     .help = "repeat the first step, so many of its events drawn at random deviating"},
    {.name = "kinds",
     .type = DAO_OPTION_TYPE_PARSED,
     DAO_OPTION_FIELD(settings_t, kinds),
     .value = "K,...",
     .preset = "all",
     .parse = parse_kinds,
     .help = "how, see above"},
    {.name = "repeats",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, repeats),
     .value = "N",
     .least = 1,
     .most = 1000,
     .preset = "7",
     .help = "steps that deviate"},
    {.name = "shapes",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, shapes),
     .value = "N",
     .least = 1,
     .most = 64,
     .preset = "1",
     .help = "shapes that these have, drawn for each: half to all of the sizes"},
    {.name = "seed",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, seed),
     .value = "S",
     .preset = "1",
     .help = "of what is drawn"},
    {.name = "touch",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_touched),
     .help = "write to every page of each block, on the host"},
    {.name = "prefault",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_prefaulted),
     .help = "touch the arena when it is made, on the host"},
    DAO_OPTION_BATCH(settings_t, batch),
    DAO_OPTION_JSON(settings_t, is_json, "print a JSON array, an object a step"),
    {.name = NULL},
};

#define FOR_DEVIATE "--kinds, --repeats, --shapes and --seed are for --deviate"

static const dao_option_rule_t rules[] = {
    {"kinds", "deviate", true, FOR_DEVIATE},
    {"repeats", "deviate", true, FOR_DEVIATE},
    {"shapes", "deviate", true, FOR_DEVIATE},
    {"seed", "deviate", true, FOR_DEVIATE},
    {.option = NULL},
};

typedef struct replay {
    dao_event_file_t file;
    dao_deviation_t deviation; /* without repeats: the file's own steps */
    dao_replay_config_t config;
    bool is_json;
    bool has_rows; /* one was printed */
    dao_json_rows_t rows;
} replay_t;

/* ---- settings ---- */

static dao_status_t check_settings(const dao_arguments_t *arguments, void *user)
{
    const settings_t *settings = user;
    bool is_device = settings->place.kind == DAO_PLACE_KIND_DEVICE;
    (void)arguments;
    if (settings->served.first != 0 && settings->served.first <= settings->recorded.last) {
        return dao_error(DAO_ERR_INVALID,
                         "--serve: steps are served behind the recorded ones, from %" PRIu64 " on",
                         settings->recorded.last + 1);
    }
    if (is_device && (settings->is_touched || settings->is_prefaulted)) {
        return dao_error(DAO_ERR_INVALID, "--%s: a device's memory is not touched from here",
                         settings->is_touched ? "touch" : "prefault");
    }
    return DAO_OK;
}

static void set_replay(const settings_t *settings, bool is_deviating, replay_t *replay)
{
    dao_replay_config_t *config = &replay->config;
    dao_step_plan_config_t *step_plan = &config->place_config.step_plan;
    config->recorded = settings->recorded;
    config->served = settings->served.first != 0
                         ? settings->served
                         : (dao_replay_span_t){settings->recorded.last + 1, UINT64_MAX};
    config->place = settings->place;
    config->has_keys = settings->has_keys;
    config->is_touched = settings->is_touched;
    config->is_compared = is_deviating;
    step_plan->mode = modes[settings->mode];
    step_plan->method = (dao_plan_method_t)settings->method;
    step_plan->prefault = settings->is_prefaulted;
    if (is_deviating) {
        replay->deviation =
            (dao_deviation_t){.share = (double)settings->deviating / (100 * (double)DAO_OPTION_MILLIONTHS),
                              .kinds = settings->kinds,
                              .repeats = (uint32_t)settings->repeats,
                              .shapes = (uint32_t)settings->shapes,
                              .seed = settings->seed};
    }
}

/* ---- rows ---- */

static void print_head(const replay_t *replay)
{
    (void)printf("%5s %9s %8s %8s %9s %12s %12s%s\n", "step", "served", "hits", "missed", "unplanned",
                 "total/bound", "minor faults", replay->config.is_compared ? " reserved/alone" : "");
}

static void print_text(const replay_t *replay, const dao_replay_row_t *row)
{
    const dao_step_counts_t *counts = &row->counts;
    (void)printf("%5" PRIu64 " %9.4f %8" PRIu64 " %8" PRIu64 " %9" PRIu64 " %12.4f %12" PRIu64, row->step,
                 row->served, counts->hit_count, counts->missed_count,
                 counts->unplanned_count + counts->null_bin_count, row->total_ratio,
                 counts->minor_fault_count);
    if (replay->config.is_compared) {
        (void)printf(" %14.4f", row->reserved_ratio);
    }
    (void)putchar('\n');
}

static void add_json(const replay_t *replay, dao_json_rows_t *rows, const dao_replay_row_t *row)
{
    const dao_step_counts_t *counts = &row->counts;
    dao_json_rows_begin(rows);
    dao_json_rows_count(rows, "step", row->step);
    dao_json_rows_decimal(rows, "served", row->served, RATIO_DECIMALS);
    dao_json_rows_count(rows, "hits", counts->hit_count);
    dao_json_rows_count(rows, "missed", counts->missed_count);
    dao_json_rows_count(rows, "unplanned", counts->unplanned_count + counts->null_bin_count);
    dao_json_rows_decimal(rows, "total_ratio", row->total_ratio, RATIO_DECIMALS);
    dao_json_rows_count(rows, "minor_faults", counts->minor_fault_count);
    if (replay->config.is_compared) {
        dao_json_rows_count(rows, "reserved_bytes", row->reserved_bytes);
        dao_json_rows_count(rows, "alone_bytes", row->alone_bytes);
        dao_json_rows_decimal(rows, "reserved_ratio", row->reserved_ratio, RATIO_DECIMALS);
    }
}

/* Of dao_replay_visit_t. */
static void print_step(const dao_replay_row_t *row, void *user)
{
    replay_t *replay = user;
    if (replay->is_json) {
        add_json(replay, &replay->rows, row);
        return;
    }
    dao_progress_hide();
    if (!replay->has_rows) {
        print_head(replay);
    }
    print_text(replay, row);
    replay->has_rows = true;
}

/* ---- the command ---- */

/* A file that does not say where steps begin is one step, which repeats: as it is, unless it is to deviate.
 */
static dao_status_t take_as_step(const char *path, replay_t *replay)
{
    if (replay->file.record_count == 0) {
        return dao_error(DAO_ERR_UNSUPPORTED, "%.200s: there is no allocation or free in it to replay", path);
    }
    dao_status_t status = dao_event_file_add_step(&replay->file);
    if (status != DAO_OK) {
        return dao_error(status, "no memory for a step");
    }
    replay->file.steps[0] = 0;
    if (replay->deviation.repeats == 0) {
        replay->deviation = (dao_deviation_t){.repeats = DAO_DEVIATION_REPEATS_DEFAULT, .seed = 1};
    }
    if (!replay->is_json) {
        dao_progress_hide();
        (void)printf("no step begins in it: all of it is taken for one that repeats\n\n");
    }
    return DAO_OK;
}

/* Into an empty file: tensors have the numbers of the buffers. */
static dao_status_t add_history(const dao_history_t *history, dao_event_file_t *file)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < history->buffer_count && status == DAO_OK; i++) {
        uint32_t tensor = 0;
        status = dao_event_file_add_tensor(file, history->buffers[i].size_bytes, &tensor);
        if (status == DAO_OK) {
            file->tensors[tensor].is_before = history->buffers[i].is_before;
            file->tensors[tensor].is_live = history->buffers[i].is_kept;
        }
    }
    for (size_t i = 0; i < history->event_count && status == DAO_OK; i++) {
        status = dao_event_file_add_record(file, history->events[i].buffer, history->events[i].is_alloc, 0);
    }
    return status;
}

/* What tells of lives is allocated where they begin, and freed where they end. */
static dao_status_t read_lives(const char *path, const char *batch, dao_event_file_t *out_file)
{
    const dao_read_choice_t choice = {.batch = batch};
    dao_plan_input_t lifetimes;
    dao_history_t history;
    dao_status_t status = dao_read_lifetimes(path, &choice, &lifetimes);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_history_of_lifetimes(&lifetimes, &history);
    if (status == DAO_OK) {
        dao_event_file_init(out_file);
        status = add_history(&history, out_file);
        dao_history_finish(&history);
        if (status != DAO_OK) {
            dao_event_file_finish(out_file);
        }
    }
    if (status != DAO_OK) {
        dao_error_prefix("%.200s: ", path);
    }
    dao_plan_input_finish(&lifetimes);
    return status;
}

static dao_status_t read_file(const char *path, const char *batch, dao_event_file_t *out_file)
{
    dao_file_form_t form;
    dao_status_t status = dao_recognise(path, &form);
    if (status != DAO_OK) {
        return status;
    }
    return dao_file_form_has_events(form) ? dao_read_events(path, NULL, out_file)
                                          : read_lives(path, batch, out_file);
}

/* Reads the file, or makes what deviates from it. */
static dao_status_t load(const char *path, const char *batch, replay_t *replay)
{
    dao_event_file_t recorded;
    dao_status_t status = read_file(path, batch, &replay->file);
    if (status == DAO_OK && replay->file.step_count == 0) {
        status = take_as_step(path, replay);
    }
    if (status != DAO_OK || replay->deviation.repeats == 0) {
        return status;
    }
    recorded = replay->file;
    replay->file = (dao_event_file_t){0};
    status = dao_event_file_deviate(&recorded, &replay->deviation, &replay->file);
    dao_event_file_finish(&recorded);
    return status;
}

static dao_status_t replay_file(const char *path, const char *batch, replay_t *replay)
{
    dao_replay_overlaps_t overlaps;
    dao_status_t status = load(path, batch, replay);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_replay_run(&replay->file, &replay->config, print_step, replay, &overlaps);
    if (status == DAO_OK) {
        status = dao_replay_overlaps_check(&overlaps);
    }
    dao_event_file_finish(&replay->file);
    return status;
}

static dao_status_t run_replay(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    const settings_t *settings = user;
    replay_t replay = {.is_json = settings->is_json};
    set_replay(settings, dao_option_is_given(arguments, "deviate"), &replay);
    if (settings->is_json) {
        dao_json_rows_init(&replay.rows);
    }
    dao_status_t status = replay_file(arguments->words[0], settings->batch, &replay);
    if (status == DAO_OK && settings->is_json && !dao_json_rows_print(&replay.rows)) {
        *out_exit = DAO_EXIT_FAILED;
    }
    dao_json_rows_finish(&replay.rows);
    return status;
}

#define KIND_HELP(symbol, name, text) "\n  " name ": " text

const dao_command_t dao_command_replay = {
    .program = "dao",
    .name = "replay",
    .arguments = "FILE",
    .summary = "run the recorded steps of a program with step plans",
    .details =
        "FILE tells of allocations and frees, or of lives, in any form of dao info; where no step begins in\n"
        "it, it is one that repeats. The steps of --record are recorded and planned, those of --serve "
        "follow\n"
        "the plan: what does not gets idle memory of its arena, or memory beside it. A row a step: the "
        "share\n"
        "of requests that the arena served; requests that got the place planned for them, that did not,\n"
        "and that are in no plan; arena and memory beside it at most, over the most bytes that were alive\n"
        "at one time; minor page faults. With --deviate also the most that the place took up to that\n"
        "step, over what it takes without plans. The addresses of all live blocks are compared: two that\n"
        "share a byte are a failure.\n"
        "Kinds of deviations, and what becomes of an event:" DAO_DEVIATION_LIST(KIND_HELP),
    .options = options,
    .rules = rules,
    .least_arguments = 1,
    .most_arguments = 1,
    .settings_bytes = sizeof(settings_t),
    .check = check_settings,
    .run = run_replay,
};
