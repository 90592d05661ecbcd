/* SPDX-License-Identifier: Apache-2.0 */
/* `dao plan`: places the buffers of a file by every method there is, and tells what each of them needs. */
#include "base/numbers/units.h"
#include "base/report/error.h"
#include "tools/commands.h"
#include "tools/plan/plan_generate.h"
#include "tools/plan/plan_table.h"
#include "tools/plan/plan_write.h"
#include "tools/read/events/read_lifetimes.h"
#include "tools/read/text/decimal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BUDGET_DEFAULT_NS UINT64_C(10000000000)
#define BUDGET_MAX_NS     UINT64_C(1000000000000000) /* eleven days */
#define METHOD_DEFAULT    "best"
#define METHOD_ALL        "all"

#define POOL_ENDLESS "none" /* in --pools: no limit */

enum { TITLE_BYTES = 256, NANOSECOND_PLACES = 9, CAPACITY_TEXT_BYTES = 40 };

typedef struct settings {
    const char *method;
    const char *budget;
    const char *work;
    const char *capacity;
    const char *pools;
    const char *alignment;
    const char *period;
    const char *margin;
    const char *generate;
    const char *batch;
    const char *svg;
    const char *output;
    bool is_closed;
    bool is_verified;
    bool is_json;
} settings_t;

static const dao_option_t options[] = {
    {"method", "M", offsetof(settings_t, method), "one of the methods above, or all (default: best)"},
    {"budget", "S", offsetof(settings_t, budget),
     "seconds of processor time a method (default: 10, without --work)"},
    {"work", "N", offsetof(settings_t, work), "steps of work a method: equal steps give equal plans"},
    {"capacity", "BYTES", offsetof(settings_t, capacity),
     "can it be placed in so many? Ends when it is; what does not fit is told"},
    {"pools", "BYTES,...", offsetof(settings_t, pools),
     "several pools, what each may hold, or none: no limit; buffers fill them in this order"},
    {"align", "BYTES", offsetof(settings_t, alignment), "of every offset that has none of its own"},
    {"period", "N", offsetof(settings_t, period),
     "the step repeats after N: lives that go beyond it go on at its start"},
    {"margin", "N", offsetof(settings_t, margin), "every life ends so much later than it says"},
    {"closed", NULL, offsetof(settings_t, is_closed), "lives include their ends"},
    {"generate", "K:N[:SEED]", offsetof(settings_t, generate),
     "instead of FILE: about N buffers of a kind above"},
    {"batch", "B", offsetof(settings_t, batch), "which batch size, if FILE is a step that has several"},
    {"verify", NULL, offsetof(settings_t, is_verified), "check every plan once more, by a sweep"},
    {"svg", "OUT", offsetof(settings_t, svg), "draw the best plan"},
    {"o", "PLAN", offsetof(settings_t, output),
     "write the best plan as CSV: id, lower, upper, size, offset; pool, if there are several"},
    {"json", NULL, offsetof(settings_t, is_json), "print one JSON array"},
    {NULL, NULL, 0, NULL},
};

/* Settings, read. */
typedef struct planning {
    const settings_t *settings;
    bool is_all;
    size_t way; /* else this one */
    uint64_t budget_ns;
    uint64_t work_limit;
    dao_plan_pool_t pools[DAO_PLAN_POOL_COUNT_MAX];
    uint32_t pool_count; /* that the command line gives; 0: as many as the buffers need, without limits */
    dao_plan_generate_config_t generate;
    dao_plan_problem_t problem;
    char title[TITLE_BYTES];
    dao_plan_table_t table;
    dao_plan_row_t best; /* the best plan so far, if it has one */
} planning_t;

/* ---- the command line ---- */

static int wrong(const dao_command_t *command, const char *option)
{
    return dao_usage_error(command, "--%s: %s", option, dao_last_message());
}

static int read_method(const dao_command_t *command, planning_t *planning)
{
    const char *name = planning->settings->method != NULL ? planning->settings->method : METHOD_DEFAULT;
    planning->is_all = strcmp(name, METHOD_ALL) == 0;
    if (planning->is_all || dao_plan_way_find(name, &planning->way)) {
        return DAO_EXIT_OK;
    }
    return dao_usage_error(command, "--method: \"%.40s\" is no method", name);
}

static int read_limits(const dao_command_t *command, planning_t *planning)
{
    const settings_t *settings = planning->settings;
    planning->budget_ns = settings->work == NULL ? BUDGET_DEFAULT_NS : 0;
    if (settings->budget != NULL &&
        (!dao_decimal_is_plain(settings->budget) ||
         !dao_decimal_scale(settings->budget, NANOSECOND_PLACES, &planning->budget_ns) ||
         planning->budget_ns == 0 || planning->budget_ns > BUDGET_MAX_NS)) {
        return dao_usage_error(command, "--budget: \"%.40s\" is no number of seconds from 1e-9 to 1000000",
                               settings->budget);
    }
    if (settings->work != NULL &&
        (strspn(settings->work, "0123456789") != strlen(settings->work) ||
         !dao_decimal_scale(settings->work, 0, &planning->work_limit) || planning->work_limit == 0)) {
        return dao_usage_error(command, "--work: \"%.40s\" is no number of steps", settings->work);
    }
    return DAO_EXIT_OK;
}

static int read_bytes(const dao_command_t *command, const char *option, const char *text, uint64_t most,
                      uint64_t *out_bytes)
{
    if (text == NULL) {
        return DAO_EXIT_OK;
    }
    if (dao_units_parse_bytes(text, out_bytes) != DAO_OK) {
        return wrong(command, option);
    }
    return *out_bytes > 0 && *out_bytes <= most
               ? DAO_EXIT_OK
               : dao_usage_error(command, "--%s: \"%.40s\" is not from 1 to %" PRIu64 " bytes", option, text,
                                 most);
}

static int read_time(const dao_command_t *command, const char *option, const char *text, uint64_t most,
                     uint64_t *out_time)
{
    bool is_read =
        text == NULL || (strspn(text, "0123456789") == strlen(text) && dao_decimal_scale(text, 0, out_time) &&
                         *out_time > 0 && *out_time <= most);
    return is_read ? DAO_EXIT_OK
                   : dao_usage_error(command, "--%s: \"%.40s\" is no time from 1 to %" PRIu64, option, text,
                                     most);
}

/* Reads what a pool of --pools may hold, from the beginning of `text`. */
static int read_capacity(const dao_command_t *command, const char *text, size_t length, uint64_t *out_bytes)
{
    char capacity[CAPACITY_TEXT_BYTES];
    if (length >= sizeof(capacity)) {
        return dao_usage_error(command, "--pools: \"%.40s\" is no number of bytes", text);
    }
    memcpy(capacity, text, length);
    capacity[length] = '\0';
    return strcmp(capacity, POOL_ENDLESS) == 0
               ? DAO_EXIT_OK
               : read_bytes(command, "pools", capacity, DAO_PLAN_TOTAL_MAX, out_bytes);
}

/* Reads the pools of --pools, or the one of --capacity. */
static int read_pools(const dao_command_t *command, planning_t *planning)
{
    const settings_t *settings = planning->settings;
    if (settings->pools == NULL) {
        planning->pool_count = settings->capacity != NULL ? 1 : 0;
        return read_bytes(command, "capacity", settings->capacity, DAO_PLAN_TOTAL_MAX,
                          &planning->pools[0].capacity_bytes);
    }
    if (settings->capacity != NULL) {
        return dao_usage_error(command, "--capacity or --pools, one of them");
    }
    int exit_code = DAO_EXIT_OK;
    for (const char *at = settings->pools; at != NULL && exit_code == DAO_EXIT_OK;) {
        size_t length = strcspn(at, ",");
        if (planning->pool_count == DAO_PLAN_POOL_COUNT_MAX) {
            return dao_usage_error(command, "--pools: there can be %u", DAO_PLAN_POOL_COUNT_MAX);
        }
        exit_code =
            read_capacity(command, at, length, &planning->pools[planning->pool_count++].capacity_bytes);
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    return exit_code;
}

static int read_problem(const dao_command_t *command, planning_t *planning)
{
    const settings_t *settings = planning->settings;
    uint64_t alignment = 0, period = 0, margin = 0;
    int exit_code = read_pools(command, planning);
    if (exit_code == DAO_EXIT_OK) {
        exit_code = read_bytes(command, "align", settings->alignment, UINT32_MAX, &alignment);
    }
    if (exit_code == DAO_EXIT_OK && (alignment & (alignment - 1)) != 0) {
        exit_code = dao_usage_error(command, "--align: \"%.40s\" is no power of two", settings->alignment);
    }
    if (exit_code == DAO_EXIT_OK) {
        exit_code = read_time(command, "period", settings->period, DAO_PLAN_PERIOD_MAX, &period);
    }
    if (exit_code == DAO_EXIT_OK) {
        exit_code = read_time(command, "margin", settings->margin, UINT64_MAX, &margin);
    }
    planning->problem = (dao_plan_problem_t){.pools = planning->pools,
                                             .is_closed = settings->is_closed,
                                             .period = period,
                                             .margin = margin,
                                             .alignment_bytes = (uint32_t)alignment};
    return exit_code;
}

static int read_files(const dao_command_t *command, const char *path, planning_t *planning)
{
    const settings_t *settings = planning->settings;
    if ((path == NULL) == (settings->generate == NULL)) {
        return dao_usage_error(command, path == NULL ? "FILE or --generate is missing"
                                                     : "FILE or --generate, one of them");
    }
    if (settings->generate != NULL && settings->batch != NULL) {
        return dao_usage_error(command, "--batch is for a FILE");
    }
    if (settings->output != NULL && settings->svg != NULL && strcmp(settings->output, settings->svg) == 0) {
        return dao_usage_error(command, "-o and --svg are one file");
    }
    return settings->generate == NULL ||
                   dao_plan_generate_parse(settings->generate, &planning->generate) == DAO_OK
               ? DAO_EXIT_OK
               : wrong(command, "generate");
}

static int read_settings(const dao_command_t *command, const char *path, planning_t *planning)
{
    int exit_code = read_files(command, path, planning);
    if (exit_code == DAO_EXIT_OK) {
        exit_code = read_method(command, planning);
    }
    if (exit_code == DAO_EXIT_OK) {
        exit_code = read_limits(command, planning);
    }
    return exit_code == DAO_EXIT_OK ? read_problem(command, planning) : exit_code;
}

/* ---- the methods ---- */

/* A plan that places more, or as much with a lower peak, becomes the best one. */
static void keep_best(planning_t *planning, dao_plan_row_t *row)
{
    dao_plan_row_t *best = &planning->best;
    bool is_better = row->plan != NULL &&
                     (best->plan == NULL || row->unplaced_bytes < best->unplaced_bytes ||
                      (row->unplaced_bytes == best->unplaced_bytes && row->peak_bytes < best->peak_bytes));
    if (is_better) {
        dao_plan_row_finish(best);
        *best = *row;
    } else {
        dao_plan_row_finish(row);
    }
}

static dao_status_t run_way(planning_t *planning, dao_plan_contest_t *contest, size_t way)
{
    dao_plan_row_t row;
    dao_status_t status = dao_plan_contest_run(contest, way, &row);
    if (status != DAO_OK) {
        dao_error_prefix("%s: ", dao_plan_way_name(way));
        return status;
    }
    if (planning->settings->is_verified) {
        status = dao_plan_row_verify(contest, &row);
    }
    if (status != DAO_OK) {
        dao_error_prefix("%s: ", row.method);
    }
    if (status == DAO_OK) {
        dao_plan_table_row(&planning->table, &row);
    }
    keep_best(planning, &row);
    return status;
}

static dao_status_t run_ways(planning_t *planning, dao_plan_contest_t *contest)
{
    dao_status_t status = DAO_OK;
    contest->budget_ns = planning->budget_ns;
    contest->work_limit = planning->work_limit;
    contest->is_decision = planning->settings->capacity != NULL;
    for (size_t i = 0; i < dao_plan_way_count() && status == DAO_OK; i++) {
        if (planning->is_all || i == planning->way) {
            status = run_way(planning, contest, i);
        }
    }
    return status;
}

/* ---- what comes of it ---- */

static dao_status_t write_best(const planning_t *planning, const dao_plan_input_t *input)
{
    const settings_t *settings = planning->settings;
    dao_status_t status = DAO_OK;
    if (settings->output == NULL && settings->svg == NULL) {
        return DAO_OK;
    }
    if (planning->best.plan == NULL) {
        return dao_error(DAO_ERR_NOT_READY, "there is no plan to write");
    }
    if (settings->output != NULL) {
        status = dao_plan_write(settings->output, input, planning->best.plan);
    }
    if (status == DAO_OK && settings->svg != NULL) {
        char title[TITLE_BYTES + 64];
        (void)snprintf(title, sizeof(title), "%s, %s", planning->title, planning->best.method);
        status = dao_plan_draw(settings->svg, title, input, planning->best.plan);
    }
    return status;
}

static void print_head(const planning_t *planning, const dao_plan_input_t *input, uint64_t bound_bytes)
{
    (void)printf("%s: %zu buffers, bound %" PRIu64 " bytes", planning->title, input->buffer_count,
                 bound_bytes);
    if (planning->problem.pool_count > 1) {
        (void)printf(", %" PRIu32 " pools", planning->problem.pool_count);
    }
    if (input->left_out_count > 0) {
        (void)printf(", %" PRIu64 " without bytes or a life left out", input->left_out_count);
    }
    (void)printf("\n\n");
}

/* For --capacity: what follows from the best plan. */
static void print_decision(const planning_t *planning)
{
    const dao_plan_row_t *best = &planning->best;
    if (planning->settings->capacity == NULL) {
        return;
    }
    const char *answer = best->plan != NULL && best->unplaced_count == 0 ? "everything fits"
                         : planning->pools[0].capacity_bytes < best->bound_bytes
                             ? "it cannot fit"
                             : "no way to fit it was found";
    (void)printf("\n%" PRIu64 " bytes: %s\n", planning->pools[0].capacity_bytes, answer);
}

static dao_status_t plan_input(planning_t *planning, const dao_plan_input_t *input)
{
    dao_plan_contest_t contest;
    uint32_t least_count = input->pool_count > 0 ? input->pool_count : 1;
    planning->problem.pool_count = planning->pool_count > 0 ? planning->pool_count : least_count;
    dao_status_t status = dao_plan_contest_init(&contest, input, &planning->problem);
    if (status != DAO_OK) {
        dao_error_prefix("%s: ", planning->title);
        return status;
    }
    if (!planning->settings->is_json) {
        print_head(planning, input, contest.bound_bytes);
    }
    status = run_ways(planning, &contest);
    if (status == DAO_OK) {
        status = write_best(planning, input);
    }
    if (status == DAO_OK && !planning->settings->is_json) {
        print_decision(planning);
    }
    dao_plan_row_finish(&planning->best);
    dao_plan_contest_finish(&contest);
    return status;
}

static dao_status_t get_input(planning_t *planning, const char *path, dao_plan_input_t *out_input)
{
    if (path == NULL) {
        (void)snprintf(planning->title, sizeof(planning->title), "%s", planning->settings->generate);
        return dao_plan_generate(&planning->generate, out_input);
    }
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL || slash[1] == '\0' ? path : slash + 1;
    (void)snprintf(planning->title, sizeof(planning->title), "%s", name);
    return dao_read_lifetimes(path, planning->settings->batch, out_input);
}

static int run_plan(const dao_command_t *command, int argc, char **argv)
{
    settings_t settings = {0};
    planning_t planning = {.settings = &settings};
    dao_plan_input_t input;
    const char *arguments[DAO_ARGUMENT_COUNT_MAX];
    int exit_code;
    if (!dao_options_parse(command, argc, argv, &settings, arguments, &exit_code)) {
        return exit_code;
    }
    exit_code = read_settings(command, arguments[0], &planning);
    if (exit_code != DAO_EXIT_OK) {
        return exit_code;
    }
    if (get_input(&planning, arguments[0], &input) != DAO_OK) {
        return dao_failure(command);
    }
    dao_plan_table_begin(&planning.table, settings.is_json);
    dao_status_t status = plan_input(&planning, &input);
    exit_code = dao_plan_table_end(&planning.table, status != DAO_OK);
    dao_plan_input_finish(&input);
    return status == DAO_OK ? exit_code : dao_failure(command);
}

/* A line of the help for each method and each kind. */
#define HELP_WAY(name, text, about)            "  " text ": " about "\n"
#define HELP_METHOD(number, name, text, about) "  " text ": " about "\n"
#define HELP_KIND(name, text, about)           "\n  " text ": " about

const dao_command_t dao_command_plan = {
    .program = "dao",
    .name = "plan",
    .arguments = "[FILE]",
    .summary = "place buffers of known lives in as little memory as can be",
    .details = "FILE has lifetimes: CSV with the columns id, lower, upper, size and perhaps "
               "alignment, offset, gaps, pool; "
               "the\n"
               "events of a program; or a recorded step, a folder or one of the files that `dao run` "
               "takes.\n"
               "\nStrategies, which see one allocation or free after the "
               "other:\n" DAO_PLAN_STRATEGY_LIST(HELP_WAY) "\nMethods, which know all lives "
                                                           "before:\n" DAO_PLAN_METHOD_LIST(
                                                               HELP_METHOD) "\nKinds for "
                                                                            "--"
                                                                            "generate"
                                                                            ":" DAO_PLAN_KIND_LIST(HELP_KIND),
    .options = options,
    .least_arguments = 0,
    .most_arguments = 1,
    .run = run_plan,
};
