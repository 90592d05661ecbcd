/* SPDX-License-Identifier: Apache-2.0 */
/* `dao replay FILE`: the recorded steps of a program, each a step at a place that is served from plans.
   How well it is served is printed, a step a row. With --deviate the steps are made: the first one as it is,
   and others that deviate from it. Then all of it is run without plans, too, for what the place takes
   then.                                              */
#include "tools/commands.h"
#include "tools/print/json_rows.h"
#include "tools/read/text/decimal.h"
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

/* Most of --repeats. */
#define REPEATS_MAX 1000u

/* Of --deviate: a share is so many decimal places behind the percent. */
#define SHARE_PLACES 6
#define SHARE_UNITS  1e6

typedef struct settings {
    const char *record;
    const char *serve;
    const char *mode;
    const char *method;
    const char *place;
    const char *deviate;
    const char *kinds;
    const char *repeats;
    const char *seed;
    bool has_keys;
    bool has_segments;
    bool is_trusted;
    bool is_touched;
    bool is_prefaulted;
    bool is_json;
} settings_t;

static const dao_option_t options[] = {
    {"record", "A[..B]", offsetof(settings_t, record), "steps that are recorded, from 1; default 1"},
    {"serve", "A..[B]", offsetof(settings_t, serve), "steps that are served; default all behind those"},
    {"mode", "M", offsetof(settings_t, mode), "offsets (the default) or bins"},
    {"method", "M", offsetof(settings_t, method), "of the planner, for offsets; default best"},
    {"place", "P", offsetof(settings_t, place), "where: cpu (the default), pinned:N or device:N"},
    {"segments", NULL, offsetof(settings_t, has_segments),
     "a device's memory is taken in segments, as where no pages can be mapped"},
    {"trust", NULL, offsetof(settings_t, is_trusted),
     "where the arena is one block a plan serves at once, too, and whatever departs from it"},
    {"keys", NULL, offsetof(settings_t, has_keys),
     "requests have their operator's number in the step as a key"},
    {"deviate", "PERCENT", offsetof(settings_t, deviate),
     "repeat the first step, so many of its events drawn at random deviating"},
    {"kinds", "K,...", offsetof(settings_t, kinds), "how, see above; default all"},
    {"repeats", "N", offsetof(settings_t, repeats), "steps that deviate; default 7"},
    {"seed", "S", offsetof(settings_t, seed), "of what is drawn; default 1"},
    {"touch", NULL, offsetof(settings_t, is_touched), "write to every page of each block, on the host"},
    {"prefault", NULL, offsetof(settings_t, is_prefaulted), "touch the arena when it is made, on the host"},
    {"json", NULL, offsetof(settings_t, is_json), "print a JSON array, an object a step"},
    {NULL, NULL, 0, NULL},
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

/* Reads "A", "A..B" or "A.."; what is missing behind the dots is UINT64_MAX. */
static bool read_span(const char *text, dao_replay_span_t *span)
{
    char *end;
    span->first = strtoull(text, &end, 10);
    bool has_first = text[0] >= '0' && text[0] <= '9';
    span->last = span->first;
    if (strncmp(end, "..", 2) == 0) {
        const char *last = end + 2;
        bool has_last = last[0] >= '0' && last[0] <= '9';
        end = end + 2;
        span->last = has_last ? strtoull(last, &end, 10) : UINT64_MAX;
    }
    return has_first && *end == '\0' && span->first > 0 && span->last >= span->first;
}

static int read_spans(const dao_command_t *command, const settings_t *settings, dao_replay_config_t *config)
{
    const char *record = settings->record != NULL ? settings->record : "1";
    if (!read_span(record, &config->recorded) || config->recorded.last >= UINT32_MAX) {
        return dao_usage_error(command, "--record: \"%.40s\" is not A or A..B, steps from 1", record);
    }
    config->served = (dao_replay_span_t){config->recorded.last + 1, UINT64_MAX};
    if (settings->serve != NULL &&
        (!read_span(settings->serve, &config->served) || config->served.first <= config->recorded.last)) {
        return dao_usage_error(command, "--serve: \"%.40s\" is not A.., A..B or A, behind the recorded steps",
                               settings->serve);
    }
    return DAO_EXIT_OK;
}

/* Reads a number, rounded to so many decimal places; 0: a whole one. */
static bool read_number(const char *text, int places, uint64_t *out_value)
{
    return dao_decimal_is_plain(text) && (places > 0 || strchr(text, '.') == NULL) &&
           dao_decimal_scale(text, places, out_value);
}

static int read_deviation(const dao_command_t *command, const settings_t *settings, replay_t *replay)
{
    dao_deviation_t *deviation = &replay->deviation;
    uint64_t share, repeats = DAO_DEVIATION_REPEATS_DEFAULT;
    if (settings->deviate == NULL) {
        return settings->kinds == NULL && settings->repeats == NULL && settings->seed == NULL
                   ? DAO_EXIT_OK
                   : dao_usage_error(command, "--kinds, --repeats and --seed are for --deviate");
    }
    if (!read_number(settings->deviate, SHARE_PLACES, &share) || share > 100 * (uint64_t)SHARE_UNITS) {
        return dao_usage_error(command, "--deviate: \"%.40s\" is no number from 0 to 100", settings->deviate);
    }
    if (settings->repeats != NULL &&
        (!read_number(settings->repeats, 0, &repeats) || repeats == 0 || repeats > REPEATS_MAX)) {
        return dao_usage_error(command, "--repeats: \"%.40s\" is no number from 1 to %u", settings->repeats,
                               REPEATS_MAX);
    }
    *deviation = (dao_deviation_t){
        .share = (double)share / (100 * SHARE_UNITS), .repeats = (uint32_t)repeats, .seed = 1};
    if (settings->seed != NULL && !read_number(settings->seed, 0, &deviation->seed)) {
        return dao_usage_error(command, "--seed: \"%.40s\" is no number", settings->seed);
    }
    return dao_deviation_kinds_parse(settings->kinds != NULL ? settings->kinds : "all", &deviation->kinds) ==
                   DAO_OK
               ? DAO_EXIT_OK
               : dao_usage_error(command, "--kinds: %s", dao_last_message());
}

static dao_status_t read_place(const settings_t *settings, dao_replay_config_t *config)
{
    dao_step_plan_config_t *step_plan = &config->place_config.step_plan;
    dao_status_t status = DAO_OK;
    config->place = dao_place_of(dao_cpu_place());
    step_plan->mode = DAO_STEP_PLAN_OFFSETS;
    if (settings->place != NULL) {
        status = dao_place_parse(settings->place, &config->place);
    }
    if (status == DAO_OK && settings->mode != NULL) {
        status = dao_step_plan_mode_parse(settings->mode, &step_plan->mode);
    }
    if (status == DAO_OK && settings->method != NULL) {
        status = dao_plan_method_parse(settings->method, &step_plan->method);
    }
    if (status == DAO_OK && step_plan->mode == DAO_STEP_PLAN_OFF) {
        status = dao_error(DAO_ERR_INVALID, "--mode: there is nothing to be seen of off");
    }
    if (status == DAO_OK && settings->is_touched && config->place.kind == DAO_PLACE_KIND_DEVICE) {
        status = dao_error(DAO_ERR_INVALID, "--touch: a device's memory is not touched from here");
    }
    if (status == DAO_OK && settings->is_prefaulted && config->place.kind == DAO_PLACE_KIND_DEVICE) {
        status = dao_error(DAO_ERR_INVALID, "--prefault: a device's memory is not touched from here");
    }
    step_plan->prefault = settings->is_prefaulted;
    step_plan->trusts_program = settings->is_trusted;
    config->place_config.no_page_mapping = settings->has_segments;
    config->has_keys = settings->has_keys;
    config->is_touched = settings->is_touched;
    return status;
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
    if (!replay->has_rows) {
        print_head(replay);
    }
    print_text(replay, row);
    replay->has_rows = true;
}

/* ---- the command ---- */

/* Reads the file, or makes what deviates from it. */
static dao_status_t load(const char *path, replay_t *replay)
{
    dao_event_file_t recorded;
    dao_status_t status = dao_event_file_read(path, &replay->file);
    if (status != DAO_OK || replay->deviation.repeats == 0) {
        return status;
    }
    recorded = replay->file;
    replay->file = (dao_event_file_t){0};
    status = dao_event_file_deviate(&recorded, &replay->deviation, &replay->file);
    dao_event_file_finish(&recorded);
    return status;
}

static dao_status_t replay_file(const char *path, const settings_t *settings, replay_t *replay)
{
    dao_replay_overlaps_t overlaps;
    dao_status_t status = load(path, replay);
    if (status != DAO_OK) {
        return status;
    }
    status = read_place(settings, &replay->config);
    replay->config.is_compared = replay->deviation.repeats > 0;
    if (status == DAO_OK) {
        status = dao_replay_run(&replay->file, &replay->config, print_step, replay, &overlaps);
    }
    if (status == DAO_OK) {
        status = dao_replay_overlaps_check(&overlaps);
    }
    dao_event_file_finish(&replay->file);
    return status;
}

static int run_replay(const dao_command_t *command, int argc, char **argv)
{
    settings_t settings = {0};
    const char *arguments[DAO_ARGUMENT_COUNT_MAX];
    int exit_code;
    if (!dao_options_parse(command, argc, argv, &settings, arguments, &exit_code)) {
        return exit_code;
    }
    replay_t replay = {.is_json = settings.is_json};
    exit_code = read_spans(command, &settings, &replay.config);
    exit_code = exit_code == DAO_EXIT_OK ? read_deviation(command, &settings, &replay) : exit_code;
    if (exit_code != DAO_EXIT_OK) {
        return exit_code;
    }
    if (settings.is_json) {
        dao_json_rows_init(&replay.rows);
    }
    dao_status_t status = replay_file(arguments[0], &settings, &replay);
    exit_code = status == DAO_OK ? DAO_EXIT_OK : dao_failure(command);
    if (status == DAO_OK && settings.is_json && !dao_json_rows_print(&replay.rows)) {
        exit_code = DAO_EXIT_FAILED;
    }
    dao_json_rows_finish(&replay.rows);
    return exit_code;
}

#define KIND_HELP(symbol, name, text) "\n  " name ": " text

const dao_command_t dao_command_replay = {
    .program = "dao",
    .name = "replay",
    .arguments = "FILE",
    .summary = "serve the recorded steps of a program from a plan",
    .details =
        "FILE has the columns " DAO_EVENT_FILE_HEADER ". The steps of --record are recorded, planned, and\n"
        "those of --serve are served: what does not follow the plan gets idle memory of its arena, or memory "
        "beside\n"
        "it. A row a step: the share of requests that the arena served; requests that got the place planned "
        "for\n"
        "them, that did not, and that are in no plan; arena and memory beside it at most, over the most "
        "bytes\n"
        "that were alive at one time; minor page faults. With --deviate also the most that the place took up "
        "to\n"
        "that step, over what it takes without plans. The addresses of all live blocks are held against each "
        "other:\n"
        "two that share a byte are a failure. Kinds of deviations, and what becomes of an "
        "event:" DAO_DEVIATION_LIST(KIND_HELP),
    .options = options,
    .least_arguments = 1,
    .most_arguments = 1,
    .run = run_replay,
};
