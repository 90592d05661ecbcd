/* SPDX-License-Identifier: Apache-2.0 */
/* `dao plan`: places the buffers of a file by every method there is, and tells what each of them needs. */
#include "base/numbers/units.h"
#include "base/report/error.h"
#include "base/text/printable.h"
#include "tools/base/interrupt.h"
#include "tools/base/progress.h"
#include "tools/commands.h"
#include "tools/model/step_problem.h"
#include "tools/options/complain.h"
#include "tools/options/shared.h"
#include "tools/plan/again/plan_again.h"
#include "tools/plan/plan_generate.h"
#include "tools/plan/plan_table.h"
#include "tools/plan/plan_write.h"
#include "tools/print/lines.h"
#include "tools/print/print_counts.h"
#include "tools/read/events/read_lifetimes.h"
#include "tools/write/out_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define POOL_ENDLESS "none" /* in --pools: no limit */

#define RECOMPUTES "is not for --recompute, which places a step's tensors itself"

enum { TITLE_BYTES = 256, CAPACITY_TEXT_BYTES = 40, HEAD_PART_BYTES = 64 };

/* The pools of --pools. */
typedef struct given_pools {
    dao_plan_pool_t items[DAO_PLAN_POOL_COUNT_MAX];
    uint32_t count;
} given_pools_t;

/* What --generate says, and the text, which is the title. */
typedef struct generate {
    const char *text;
    dao_plan_generate_config_t config;
} generate_t;

typedef struct settings {
    uint32_t way; /* all of them: their number */
    uint64_t budget_ns;
    uint64_t work_limit; /* 0: none */
    uint64_t capacity_bytes;
    given_pools_t pools;
    uint64_t alignment_bytes;
    uint64_t period;
    uint64_t margin;
    generate_t generate;
    const char *batch;
    const char *device;
    const char *svg;
    const char *output;
    uint64_t rate, host_bytes; /* of --recompute */
    bool is_recomputed;
    bool is_closed;
    bool is_verified;
    bool is_json;
    bool has_table; /* for people, on standard output */
} settings_t;

/* ---- options ---- */

static const char *method_at(size_t index)
{
    size_t count = dao_plan_way_count();
    return index < count ? dao_plan_way_name(index) : index == count ? "all" : NULL;
}

/* Reads what a pool may hold, from the beginning of `text`. */
static dao_status_t parse_pool(const char *text, size_t length, dao_plan_pool_t *pool)
{
    char capacity[CAPACITY_TEXT_BYTES];
    if (length >= sizeof(capacity)) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" is no number of bytes", text);
    }
    memcpy(capacity, text, length);
    capacity[length] = '\0';
    if (strcmp(capacity, POOL_ENDLESS) == 0) {
        return DAO_OK;
    }
    dao_status_t status = dao_units_parse_bytes(capacity, &pool->capacity_bytes);
    if (status == DAO_OK && (pool->capacity_bytes == 0 || pool->capacity_bytes > DAO_PLAN_TOTAL_MAX)) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" is not from 1 to %" PRIu64 " bytes", capacity,
                         DAO_PLAN_TOTAL_MAX);
    }
    return status;
}

/* Reads "8GiB,none". */
static dao_status_t parse_pools(const char *text, void *field)
{
    given_pools_t *pools = field;
    dao_status_t status = DAO_OK;
    for (const char *at = text; at != NULL && status == DAO_OK;) {
        size_t length = strcspn(at, ",");
        if (pools->count == DAO_PLAN_POOL_COUNT_MAX) {
            return dao_error(DAO_ERR_INVALID, "there can be %u", DAO_PLAN_POOL_COUNT_MAX);
        }
        status = parse_pool(at, length, &pools->items[pools->count++]);
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    return status;
}

static dao_status_t parse_generate(const char *text, void *field)
{
    generate_t *generate = field;
    generate->text = text;
    return dao_plan_generate_parse(text, &generate->config);
}

static const dao_option_t options[] = {
    {.name = "method",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, way),
     .value = "METHOD",
     .preset = "best",
     .name_at = method_at,
     .help = "one of the methods above, or all"},
    {.name = "budget",
     .type = DAO_OPTION_TYPE_SECONDS,
     DAO_OPTION_FIELD(settings_t, budget_ns),
     .value = "S",
     .most = 1000000,
     .preset = "10",
     .help = "seconds of processor time a method; with --work no limit"},
    {.name = "work",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, work_limit),
     .value = "N",
     .least = 1,
     .noun = "number of steps",
     .help = "steps of work a method: equal steps give equal plans"},
    {.name = "capacity",
     .type = DAO_OPTION_TYPE_BYTES,
     DAO_OPTION_FIELD(settings_t, capacity_bytes),
     .value = "BYTES",
     .least = 1,
     .most = DAO_PLAN_TOTAL_MAX,
     .help = "can it be placed in so many? Ends when it is; what does not fit is told"},
    {.name = "pools",
     .type = DAO_OPTION_TYPE_PARSED,
     DAO_OPTION_FIELD(settings_t, pools),
     .value = "BYTES,...",
     .parse = parse_pools,
     .help = "several pools, what each may hold, or none: no limit; buffers fill them in this order"},
    {.name = "align",
     .type = DAO_OPTION_TYPE_BYTES,
     DAO_OPTION_FIELD(settings_t, alignment_bytes),
     .value = "BYTES",
     .least = 1,
     .most = (uint64_t)1 << 31,
     .help = "of every offset that has none of its own, a power of two"},
    {.name = "period",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, period),
     .value = "N",
     .least = 1,
     .most = DAO_PLAN_PERIOD_MAX,
     .noun = "time",
     .help = "the step repeats after N: lives that go beyond it go on at its start"},
    {.name = "margin",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, margin),
     .value = "N",
     .least = 1,
     .noun = "time",
     .help = "every life ends so much later than it says"},
    {.name = "closed",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_closed),
     .help = "lives include their ends"},
    {.name = "generate",
     .type = DAO_OPTION_TYPE_PARSED,
     DAO_OPTION_FIELD(settings_t, generate),
     .value = "K:N[:SEED]",
     .parse = parse_generate,
     .help = "instead of FILE: about N buffers of a kind above"},
    DAO_OPTION_BATCH(settings_t, batch),
    DAO_OPTION_LOG_DEVICE("device", settings_t, device),
    {.name = "verify",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_verified),
     .help = "check every plan once more, by a sweep"},
    {.name = "recompute",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_recomputed),
     .help =
         "plan a recorded step in --capacity: copies to the host, and operators that run again; -o has the "
         "longer step"},
    {.name = "link",
     .type = DAO_OPTION_TYPE_RATE,
     DAO_OPTION_FIELD(settings_t, rate),
     .value = "RATE",
     .least = 1,
     .preset = "50GB/s",
     .help = DAO_OPTION_LINK_WORDS},
    DAO_OPTION_HOST(settings_t, host_bytes),
    {.name = "svg",
     .type = DAO_OPTION_TYPE_PATH,
     DAO_OPTION_FIELD(settings_t, svg),
     .value = "OUT",
     .help = "draw the best plan; - is standard output, instead of the table"},
    {.name = "o",
     .type = DAO_OPTION_TYPE_PATH,
     DAO_OPTION_FIELD(settings_t, output),
     .value = "PLAN",
     .help = "write the best plan as CSV: id, lower, upper, size, offset; pool, if there are several; of "
             "--recompute a step; - is standard output, instead of the table"},
    DAO_OPTION_JSON(settings_t, is_json, "print one JSON array; with --recompute one object"),
    {.name = NULL},
};

static const dao_option_rule_t rules[] = {
    {"capacity", "pools", false, "--capacity or --pools, one of them"},
    {"generate", "batch", false, "--batch is for a FILE"},
    {"generate", "device", false, "--device is for a FILE"},
    {"recompute", "capacity", true, "--recompute needs --capacity"},
    {"recompute", "generate", false, "--recompute needs a FILE, a recorded step"},
    {"recompute", "pools", false, "--pools " RECOMPUTES},
    {"recompute", "method", false, "--method " RECOMPUTES},
    {"recompute", "budget", false, "--budget " RECOMPUTES},
    {"recompute", "work", false, "--work " RECOMPUTES},
    {"recompute", "align", false, "--align " RECOMPUTES},
    {"recompute", "period", false, "--period " RECOMPUTES},
    {"recompute", "margin", false, "--margin " RECOMPUTES},
    {"recompute", "closed", false, "--closed " RECOMPUTES},
    {"recompute", "device", false, "--device " RECOMPUTES},
    {"recompute", "verify", false, "--verify is always done with --recompute"},
    {"recompute", "svg", false, "--svg " RECOMPUTES},
    {"link", "recompute", true, "--link is for --recompute"},
    {"host", "recompute", true, "--host is for --recompute"},
    {.option = NULL},
};

/* The command, its options understood. */
typedef struct planning {
    const settings_t *settings;
    dao_plan_pool_t pools[DAO_PLAN_POOL_COUNT_MAX];
    uint32_t pool_count; /* that the command line gives; 0: as many as the buffers need, without limits */
    dao_plan_problem_t problem;
    char title[TITLE_BYTES];
    dao_plan_table_t table;
    dao_plan_row_t best; /* the best plan so far, if it has one */
} planning_t;

/* ---- the command line ---- */

static dao_status_t check_settings(const dao_arguments_t *arguments, void *user)
{
    settings_t *settings = user;
    const char *path = arguments->words[0];
    if ((path == NULL) == (settings->generate.text == NULL)) {
        return dao_error(DAO_ERR_INVALID,
                         path == NULL ? "FILE or --generate is missing" : "FILE or --generate, one of them");
    }
    if (settings->output != NULL && settings->svg != NULL && strcmp(settings->output, settings->svg) == 0) {
        return dao_error(DAO_ERR_INVALID, "-o and --svg are one file");
    }
    bool has_plan = dao_out_file_is_standard(settings->output);
    bool has_drawing = dao_out_file_is_standard(settings->svg);
    if (has_plan + has_drawing + settings->is_json > 1) {
        return dao_error(DAO_ERR_INVALID, "only one of -o -, --svg - and --json can go to standard output");
    }
    settings->has_table = !(has_plan || has_drawing || settings->is_json);
    if ((settings->alignment_bytes & (settings->alignment_bytes - 1)) != 0) {
        return dao_error(DAO_ERR_INVALID, "--align: \"%" PRIu64 "\" is no power of two",
                         settings->alignment_bytes);
    }
    if (settings->work_limit > 0 && !dao_option_is_given(arguments, "budget")) {
        settings->budget_ns = 0;
    }
    dao_status_t status = dao_out_file_check(settings->output, path);
    return status == DAO_OK ? dao_out_file_check(settings->svg, path) : status;
}

static void set_planning(const settings_t *settings, planning_t *planning)
{
    *planning = (planning_t){.settings = settings, .pool_count = settings->pools.count};
    memcpy(planning->pools, settings->pools.items, sizeof(planning->pools));
    if (settings->capacity_bytes > 0) {
        planning->pools[0].capacity_bytes = settings->capacity_bytes;
        planning->pool_count = 1;
    }
    planning->problem = (dao_plan_problem_t){.pools = planning->pools,
                                             .is_closed = settings->is_closed,
                                             .period = settings->period,
                                             .margin = settings->margin,
                                             .alignment_bytes = (uint32_t)settings->alignment_bytes};
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
    contest->budget_ns = planning->settings->budget_ns;
    contest->work_limit = planning->settings->work_limit;
    contest->is_decision = planning->settings->capacity_bytes > 0;
    for (size_t i = 0; i < dao_plan_way_count() && status == DAO_OK; i++) {
        bool is_wanted = planning->settings->way == dao_plan_way_count() || i == planning->settings->way;
        if (is_wanted && !(dao_interrupt_is_asked() && planning->best.plan != NULL)) {
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
    char pools[HEAD_PART_BYTES] = "", left_out[HEAD_PART_BYTES] = "";
    char counts[DAO_COUNTS_TEXT_BYTES];
    char head[TITLE_BYTES + DAO_COUNTS_TEXT_BYTES + 4 * HEAD_PART_BYTES];
    if (planning->problem.pool_count > 1) {
        (void)snprintf(pools, sizeof(pools), ", %" PRIu32 " pools", planning->problem.pool_count);
    }
    if (input->left_out_count > 0) {
        (void)snprintf(left_out, sizeof(left_out), ", %" PRIu64 " without bytes or a life left out",
                       input->left_out_count);
    }
    dao_format_counts(&input->counts, counts);
    (void)snprintf(head, sizeof(head), "%s: %zu buffers, bound %" PRIu64 " bytes%s%s%s", planning->title,
                   input->buffer_count, bound_bytes, pools, left_out, counts);
    dao_output_words(head, 0, 2);
    (void)putchar('\n');
}

/* For --capacity: what follows from the best plan. */
static void print_decision(const planning_t *planning)
{
    const dao_plan_row_t *best = &planning->best;
    if (planning->settings->capacity_bytes == 0) {
        return;
    }
    const char *answer = best->plan != NULL && best->unplaced_count == 0 ? "everything fits"
                         : planning->pools[0].capacity_bytes < best->bound_bytes
                             ? "it cannot fit"
                             : "no way to fit it was found";
    dao_progress_hide();
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
    if (planning->settings->has_table) {
        print_head(planning, input, contest.bound_bytes);
    }
    status = run_ways(planning, &contest);
    if (status == DAO_OK) {
        status = write_best(planning, input);
    }
    if (status == DAO_OK && planning->settings->has_table) {
        print_decision(planning);
    }
    dao_plan_row_finish(&planning->best);
    dao_plan_contest_finish(&contest);
    return status;
}

static dao_status_t get_input(planning_t *planning, const char *path, dao_plan_input_t *out_input)
{
    if (path == NULL) {
        (void)snprintf(planning->title, sizeof(planning->title), "%s", planning->settings->generate.text);
        return dao_plan_generate(&planning->settings->generate.config, out_input);
    }
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL || slash[1] == '\0' ? path : slash + 1;
    (void)snprintf(planning->title, sizeof(planning->title), "%s", name);
    dao_make_printable(planning->title);
    dao_read_choice_t choice = {.batch = planning->settings->batch, .device = planning->settings->device};
    return dao_read_lifetimes(path, &choice, out_input);
}

static dao_status_t run_again(const char *path, const settings_t *settings, int *out_exit)
{
    const dao_plan_again_config_t config = {.path = path,
                                            .batch = settings->batch,
                                            .capacity_bytes = settings->capacity_bytes,
                                            .host = {.in_bytes_per_second = settings->rate,
                                                     .latency_ns = DAO_STEP_LATENCY_NS,
                                                     .limit_bytes = settings->host_bytes},
                                            .output = settings->output,
                                            .is_json = settings->is_json};
    return dao_plan_again(&config, out_exit);
}

static dao_status_t run_plan(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    const settings_t *settings = user;
    if (settings->is_recomputed) {
        return run_again(arguments->words[0], settings, out_exit);
    }
    planning_t planning;
    dao_plan_input_t input;
    set_planning(settings, &planning);
    dao_status_t status = get_input(&planning, arguments->words[0], &input);
    if (status != DAO_OK) {
        return status;
    }
    dao_plan_table_begin(&planning.table, settings->is_json, settings->has_table);
    dao_interrupt_watch(DAO_INTERRUPT_ASKS);
    status = plan_input(&planning, &input);
    dao_interrupt_unwatch();
    *out_exit = dao_plan_table_end(&planning.table, status != DAO_OK);
    *out_exit = *out_exit == DAO_EXIT_OK && dao_interrupt_is_asked() ? DAO_EXIT_INTERRUPTED : *out_exit;
    dao_plan_input_finish(&input);
    return status;
}

/* A line of the help for each method and each kind. */
#define HELP_WAY(name, text, about)            "  " text ": " about "\n"
#define HELP_METHOD(number, name, text, about) "  " text ": " about "\n"
#define HELP_KIND(name, text, about)           "\n  " text ": " about

#define STRATEGIES_HELP DAO_PLAN_STRATEGY_LIST(HELP_WAY)
#define METHODS_HELP    DAO_PLAN_METHOD_LIST(HELP_METHOD)
#define KINDS_HELP      DAO_PLAN_KIND_LIST(HELP_KIND)

const dao_command_t dao_command_plan = {
    .program = "dao",
    .name = "plan",
    .arguments = "[FILE]",
    .summary = "place buffers of known lives in as little memory as can be",
    .details =
        "FILE has lifetimes, and is known by what is in it: CSV with the columns id, lower, upper, size and\n"
        "perhaps alignment, offset, gaps, pool; a recorded step as `dao run` takes it; the events of a\n"
        "program, our own or a PyTorch memory snapshot, profiler trace or memory timeline, or what RMM,\n"
        "Umpire or rocprofv3 wrote; packed by gzip or zstd, or not; - is standard input.\n\n"
        "Strategies, which see one allocation or free after the other:\n" STRATEGIES_HELP "\n"
        "Methods, which know all lives before:\n" METHODS_HELP "\n"
        "Kinds for --generate:" KINDS_HELP,
    .options = options,
    .rules = rules,
    .least_arguments = 0,
    .most_arguments = 1,
    .settings_bytes = sizeof(settings_t),
    .check = check_settings,
    .run = run_plan,
};
