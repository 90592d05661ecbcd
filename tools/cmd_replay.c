/* `dao replay FILE`: the recorded steps of a program, each an iteration at a place that is served from plans. What was recorded
   asks and frees; how well it is served is printed, a step a row.

       steps before those recorded   run without iterations
       recorded                      a plan serves after the last of them
       between                       pass by the plan
       served                        a row each

   With --deviate the steps are made: the first one as it is, and others that deviate from it. Then all of it is run without
   plans, too, for what the place takes then.                                                                          */
#include "tools/decimal.h"
#include "tools/deviate.h"
#include "tools/json_rows.h"
#include "tools/options.h"

#include "base/error.h"
#include "base/host.h"

#include <dao/dao.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks that are touched are so in every page. */
#define TOUCH_STEP_BYTES ((size_t)4096)

/* Of shares and ratios in JSON. */
#define RATIO_DECIMALS 9

/* Steps that deviate where --repeats does not say, and most of them. */
#define REPEATS_DEFAULT 7u
#define REPEATS_MAX     1000u

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

/* Steps from 1; last is included. */
typedef struct span {
    uint64_t first;
    uint64_t last;
} span_t;

typedef struct replay {
    dao_event_file_t file;
    dao_deviation_t deviation; /* without repeats: the file's own steps */
    uint64_t *alone_bytes;     /* most that the place took up to each step without plans; or NULL */
    bool is_alone;             /* that is being found out */
    void **addresses;          /* of each tensor; NULL: it is not alive here */
    dao_place_t place;
    span_t recorded;
    span_t served;
    bool has_keys;
    bool is_touched;
    bool is_json;
    uint64_t first_operator; /* of the step that is replayed */
    dao_json_rows_t rows;
} replay_t;

/* ---- settings ---- */

/* Reads "A", "A..B" or "A.."; what is missing behind the dots is UINT64_MAX. */
static bool read_span(const char *text, span_t *span)
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

static int read_spans(const char *command, const settings_t *settings, replay_t *replay)
{
    const char *record = settings->record != NULL ? settings->record : "1";
    if (!read_span(record, &replay->recorded) || replay->recorded.last >= UINT32_MAX) {
        return dao_usage_error(command, "--record: \"%.40s\" is not A or A..B, steps from 1", record);
    }
    replay->served = (span_t){replay->recorded.last + 1, UINT64_MAX};
    if (settings->serve != NULL &&
        (!read_span(settings->serve, &replay->served) || replay->served.first <= replay->recorded.last)) {
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

static int read_deviation(const char *command, const settings_t *settings, replay_t *replay)
{
    dao_deviation_t *deviation = &replay->deviation;
    uint64_t share, repeats = REPEATS_DEFAULT;
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

static dao_status_t configure(const settings_t *settings, replay_t *replay)
{
    dao_place_config_t config = {.serving = {.mode = DAO_SERVING_OFFSETS},
                                 .no_page_mapping = settings->has_segments};
    dao_status_t status = DAO_OK;
    replay->place = dao_place_of(dao_cpu_place());
    if (settings->place != NULL) {
        status = dao_place_parse(settings->place, &replay->place);
    }
    if (status == DAO_OK && settings->mode != NULL) {
        status = dao_serving_mode_parse(settings->mode, &config.serving.mode);
    }
    if (status == DAO_OK && settings->method != NULL) {
        status = dao_plan_method_parse(settings->method, &config.serving.method);
    }
    if (status == DAO_OK && config.serving.mode == DAO_SERVING_OFF) {
        status = dao_error(DAO_ERR_INVALID, "--mode: there is nothing to be seen of off");
    }
    if (status == DAO_OK && settings->is_touched && replay->place.kind == DAO_PLACE_KIND_DEVICE) {
        status = dao_error(DAO_ERR_INVALID, "--touch: a device's memory is not touched from here");
    }
    if (status == DAO_OK && settings->is_prefaulted && replay->place.kind == DAO_PLACE_KIND_DEVICE) {
        status = dao_error(DAO_ERR_INVALID, "--prefault: a device's memory is not touched from here");
    }
    config.serving.prefault = settings->is_prefaulted;
    config.serving.trusts_program = settings->is_trusted;
    config.serving.max_count = (uint32_t)(replay->recorded.last - replay->recorded.first);
    if (replay->is_alone) {
        config.serving = (dao_serving_config_t){.mode = DAO_SERVING_OFF};
    }
    return status == DAO_OK ? dao_place_configure(replay->place, &config) : status;
}

/* ---- steps ---- */

static void touch(char *address, uint64_t size_bytes)
{
    for (uint64_t i = 0; i < size_bytes; i += TOUCH_STEP_BYTES) {
        *(volatile char *)(address + i) = 0;
    }
}

static dao_status_t do_record(replay_t *replay, const dao_event_record_t *record)
{
    void **address = &replay->addresses[record->tensor];
    uint64_t size_bytes = replay->file.tensors[record->tensor].size_bytes;
    if (!record->is_alloc) {
        dao_status_t status = dao_free(replay->place, *address); /* NULL: it was alive before the file */
        *address = NULL;
        return status;
    }
    (void)dao_serving_key_set(replay->has_keys ? record->operator_index - replay->first_operator + 1 : 0);
    *address = dao_alloc(replay->place, (size_t)size_bytes);
    if (*address == NULL && size_bytes > 0) {
        return dao_last_status();
    }
    if (replay->is_touched) {
        touch(*address, size_bytes);
    }
    return DAO_OK;
}

/* Replays the records of a step; 0 are those before the first one. */
static dao_status_t do_records(replay_t *replay, uint64_t step)
{
    const dao_event_file_t *file = &replay->file;
    size_t begin = step == 0 ? 0 : file->steps[step - 1];
    size_t end = step < file->step_count ? file->steps[step] : file->record_count;
    dao_status_t status = DAO_OK;
    replay->first_operator = begin < end ? file->records[begin].operator_index : 0;
    for (size_t i = begin; i < end && status == DAO_OK; i++) {
        status = do_record(replay, &file->records[i]);
    }
    return status;
}

/* Gives the most that the place has taken so far. */
static dao_status_t peak_get(const replay_t *replay, uint64_t *out_bytes)
{
    dao_stats_t stats;
    dao_status_t status = dao_stats_get(replay->place, &stats);
    if (status == DAO_OK) {
        *out_bytes = stats.peak_reserved_bytes;
    }
    return status;
}

static dao_status_t print_step(replay_t *replay, uint64_t step)
{
    dao_serving_stats_t stats;
    dao_status_t status = dao_serving_stats_get(replay->place, &stats);
    if (status != DAO_OK) {
        return status;
    }
    const dao_iteration_stats_t *counts = &stats.latest;
    double request_count = counts->request_count > 0 ? (double)counts->request_count : 1;
    double served = (double)(counts->hit_count + counts->borrowed_count) / request_count;
    double ratio = stats.bound_bytes > 0 ? (double)stats.total_bytes / (double)stats.bound_bytes : 1;
    uint64_t reserved_bytes;
    status = peak_get(replay, &reserved_bytes);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t alone_bytes = replay->alone_bytes != NULL ? replay->alone_bytes[step] : 0;
    double reserved_ratio = alone_bytes > 0 ? (double)reserved_bytes / (double)alone_bytes : 1;
    if (!replay->is_json) {
        (void)printf("%5" PRIu64 " %9.4f %8" PRIu64 " %8" PRIu64 " %9" PRIu64 " %12.4f %12" PRIu64, step,
                     served, counts->hit_count, counts->missed_count,
                     counts->unplanned_count + counts->null_bin_count, ratio, counts->minor_fault_count);
        if (replay->alone_bytes != NULL) {
            (void)printf(" %14.4f", reserved_ratio);
        }
        (void)putchar('\n');
        return DAO_OK;
    }
    dao_json_rows_begin(&replay->rows);
    dao_json_rows_count(&replay->rows, "step", step);
    dao_json_rows_decimal(&replay->rows, "served", served, RATIO_DECIMALS);
    dao_json_rows_count(&replay->rows, "hits", counts->hit_count);
    dao_json_rows_count(&replay->rows, "missed", counts->missed_count);
    dao_json_rows_count(&replay->rows, "unplanned", counts->unplanned_count + counts->null_bin_count);
    dao_json_rows_decimal(&replay->rows, "total_ratio", ratio, RATIO_DECIMALS);
    dao_json_rows_count(&replay->rows, "minor_faults", counts->minor_fault_count);
    if (replay->alone_bytes != NULL) {
        dao_json_rows_count(&replay->rows, "reserved_bytes", reserved_bytes);
        dao_json_rows_count(&replay->rows, "alone_bytes", alone_bytes);
        dao_json_rows_decimal(&replay->rows, "reserved_ratio", reserved_ratio, RATIO_DECIMALS);
    }
    return DAO_OK;
}

static bool is_in(span_t span, uint64_t step)
{
    return step >= span.first && step <= span.last;
}

static dao_status_t do_step(replay_t *replay, uint64_t step)
{
    bool is_iteration = !replay->is_alone && (is_in(replay->recorded, step) || is_in(replay->served, step));
    dao_status_t status = is_iteration ? dao_iteration_begin(replay->place) : DAO_OK;
    if (status == DAO_OK) {
        status = do_records(replay, step);
    }
    if (status == DAO_OK && is_iteration) {
        status = dao_iteration_end(replay->place);
    }
    if (status == DAO_OK && replay->is_alone) {
        return peak_get(replay, &replay->alone_bytes[step]);
    }
    return status == DAO_OK && is_in(replay->served, step) ? print_step(replay, step) : status;
}

static void print_head(const replay_t *replay)
{
    (void)printf("%5s %9s %8s %8s %9s %12s %12s%s\n", "step", "served", "hits", "missed", "unplanned",
                 "total/bound", "minor faults", replay->alone_bytes != NULL ? " reserved/alone" : "");
}

static dao_status_t do_steps(replay_t *replay)
{
    if (replay->file.step_count < replay->served.first) {
        return dao_error(DAO_ERR_INVALID, "the file has %zu steps; none is left to be served",
                         replay->file.step_count);
    }
    if (!replay->is_json && !replay->is_alone) {
        print_head(replay);
    }
    dao_status_t status = do_records(replay, 0);
    for (uint64_t step = 1;
         status == DAO_OK && step <= replay->file.step_count && step <= replay->served.last; step++) {
        status = do_step(replay, step);
    }
    for (size_t i = 0; i < replay->file.tensor_count && status == DAO_OK; i++) {
        status = dao_free(replay->place, replay->addresses[i]);
    }
    return status;
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

static dao_status_t make_room(replay_t *replay)
{
    replay->addresses = dao_host_calloc(replay->file.tensor_count + 1, sizeof(*replay->addresses));
    if (replay->deviation.repeats > 0) {
        replay->alone_bytes = dao_host_calloc(replay->file.step_count + 1, sizeof(*replay->alone_bytes));
    }
    bool has_room =
        replay->addresses != NULL && (replay->deviation.repeats == 0 || replay->alone_bytes != NULL);
    return has_room
               ? DAO_OK
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu addresses", replay->file.tensor_count);
}

/* Runs all steps once, with plans or without. */
static dao_status_t run_all(const settings_t *settings, replay_t *replay)
{
    dao_status_t status = dao_init(NULL);
    if (status != DAO_OK) {
        return status;
    }
    status = configure(settings, replay);
    status = status == DAO_OK ? do_steps(replay) : status;
    if (status == DAO_OK) {
        return dao_finalize();
    }
    dao_error_record_t record;
    dao_error_save(&record, status);
    (void)dao_finalize(); /* it complains of blocks that are left, which is no wonder */
    return dao_error_restore(&record);
}

static dao_status_t replay_file(const char *path, const settings_t *settings, replay_t *replay)
{
    dao_status_t status = load(path, replay);
    if (status != DAO_OK) {
        return status;
    }
    status = make_room(replay);
    if (status == DAO_OK && replay->deviation.repeats > 0) {
        replay->is_alone = true;
        status = run_all(settings, replay);
        replay->is_alone = false;
        memset(replay->addresses, 0, replay->file.tensor_count * sizeof(*replay->addresses));
    }
    status = status == DAO_OK ? run_all(settings, replay) : status;
    dao_host_free(replay->addresses);
    dao_host_free(replay->alone_bytes);
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
    replay_t replay = {
        .has_keys = settings.has_keys, .is_touched = settings.is_touched, .is_json = settings.is_json};
    exit_code = read_spans(command->name, &settings, &replay);
    exit_code = exit_code == DAO_EXIT_OK ? read_deviation(command->name, &settings, &replay) : exit_code;
    if (exit_code != DAO_EXIT_OK) {
        return exit_code;
    }
    if (settings.is_json) {
        dao_json_rows_init(&replay.rows);
    }
    dao_status_t status = replay_file(arguments[0], &settings, &replay);
    exit_code = status == DAO_OK ? DAO_EXIT_OK : dao_failure(command->name);
    if (status == DAO_OK && settings.is_json && !dao_json_rows_print(&replay.rows)) {
        exit_code = DAO_EXIT_FAILED;
    }
    dao_json_rows_finish(&replay.rows);
    return exit_code;
}

#define KIND_HELP(symbol, name, text) "\n  " name ": " text

const dao_command_t dao_command_replay = {
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
        "that step, over what it takes without plans. Kinds of deviations, and what becomes of an "
        "event:" DAO_DEVIATION_LIST(KIND_HELP),
    .options = options,
    .least_arguments = 1,
    .most_arguments = 1,
    .run = run_replay,
};
