/* SPDX-License-Identifier: Apache-2.0 */
/* `dao-bench plan`: takes the figures of plan_goals.c and of replay_goals.c, each on its file or on what
   stands in for it. */
#include "base/report/error.h"
#include "bench/commands.h"
#include "bench/plan/bench_plan.h"
#include "bench/plan/bench_replay.h"
#include "bench/plan/plan_looks.h"
#include "tools/options/complain.h"
#include "tools/plan/plan_generate.h"
#include "tools/print/json_rows.h"
#include "tools/print/report.h"
#include "tools/read/events/read_event_file.h"
#include "tools/read/events/read_lifetimes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, TEXT_BYTES = 200, LOOK_TRY_COUNT = 3 };

typedef struct settings {
    uint32_t figure; /* index of a name */
    const char *data;
    uint64_t budget_ns;
    uint64_t seed_count;
    bool is_checked;
    bool is_json;
} settings_t;

typedef struct bench {
    const settings_t *settings;
    const char *figure; /* NULL: all */
    const char *data;
    uint64_t budget_ns; /* 0: that of each goal */
    double speed;       /* of dao_bench_plan_speed(); 0: no goal has needed it yet */
    uint32_t seed_count;
    const char *replay_figure; /* of the latest row of those of step plans; NULL: there is none */
    size_t row_count;
    size_t breach_count;
    size_t left_out_count;   /* of goals that nothing is here for */
    uint64_t cells_left_out; /* of goals that --budget had no time for */
    dao_json_rows_t json;
} bench_t;

/* ---- goals of the planner ---- */

static void report(bench_t *bench, const dao_plan_result_t *result)
{
    char limits[TEXT_BYTES], breaches[TEXT_BYTES];
    dao_plan_result_describe(result, limits, sizeof(limits));
    bench->breach_count += dao_plan_result_judge(result, breaches, sizeof(breaches)) > 0 ? 1 : 0;
    if (bench->settings->is_json) {
        dao_plan_result_add_json(result, limits, breaches, &bench->json);
    } else {
        dao_plan_result_print(result, bench->row_count == 0, limits, breaches);
    }
    bench->row_count++;
}

/* What is made is called KIND:COUNT:SEED, which no file here is. */
static bool is_made(const char *instance)
{
    return strchr(instance, ':') != NULL;
}

/* Finds a file of the folder of data, or what stands in for it; either may be NULL. False: nothing is
   here. */
static bool find_instance(const bench_t *bench, const char *file, const char *stand_in,
                          char out_path[PATH_BYTES], bool *out_is_file)
{
    int length = file == NULL ? 0 : snprintf(out_path, PATH_BYTES, "%s/%s", bench->data, file);
    *out_is_file = length > 0 && length < PATH_BYTES && access(out_path, R_OK) == 0;
    if (*out_is_file) {
        return true;
    }
    (void)snprintf(out_path, PATH_BYTES, "%s", stand_in != NULL ? stand_in : "");
    return stand_in != NULL && (is_made(stand_in) || access(stand_in, R_OK) == 0);
}

static dao_status_t get_input(const char *instance, dao_plan_input_t *out_input)
{
    dao_plan_generate_config_t config;
    if (!is_made(instance)) {
        return dao_read_lifetimes(instance, &(dao_read_choice_t){0}, out_input);
    }
    dao_status_t status = dao_plan_generate_parse(instance, &config);
    return status == DAO_OK ? dao_plan_generate(&config, out_input) : status;
}

static dao_status_t run_method(dao_plan_contest_t *contest, const char *method, dao_plan_row_t *out_row)
{
    size_t way = 0;
    if (!dao_plan_way_find(method, &way)) {
        return dao_error(DAO_ERR_INVALID, "\"%.40s\" is no method", method);
    }
    dao_status_t status = dao_plan_contest_run(contest, way, out_row);
    if (status == DAO_OK) {
        status = dao_plan_row_verify(contest, out_row);
        dao_plan_row_finish(out_row);
    }
    return status;
}

/* Times the looks of `best`, which has all the others in it. The work of each try is the same: a gap that not
   all of them had was the machine's. */
static dao_status_t run_looks(const dao_plan_contest_t *contest, dao_plan_result_t *result)
{
    dao_status_t status = DAO_OK;
    if (result->goal->look_most_ms == 0) {
        return DAO_OK;
    }
    result->look_ns = UINT64_MAX;
    for (int i = 0; i < LOOK_TRY_COUNT && status == DAO_OK; i++) {
        uint64_t longest_ns = UINT64_MAX;
        status =
            dao_plan_looks_measure(&contest->problem, DAO_PLAN_METHOD_BEST, contest->budget_ns, &longest_ns);
        result->look_ns = longest_ns < result->look_ns ? longest_ns : result->look_ns;
    }
    return status;
}

static dao_status_t run_methods(dao_plan_contest_t *contest, dao_plan_result_t *result)
{
    const dao_plan_goal_t *goal = result->goal;
    dao_plan_row_t rival;
    dao_status_t status = run_method(contest, goal->method, &result->row);
    result->ratio = dao_plan_row_ratio(&result->row);
    if (status == DAO_OK && goal->rival != NULL) {
        status = run_method(contest, goal->rival, &rival);
    }
    if (status == DAO_OK && goal->rival != NULL) {
        result->ratio = (double)result->row.peak_bytes / (double)rival.peak_bytes;
    }
    return status;
}

static dao_status_t run_goal(bench_t *bench, const dao_plan_goal_t *goal, const char *path, bool is_file)
{
    dao_plan_pool_t pool = {.capacity_bytes = goal->capacity_bytes};
    dao_plan_problem_t problem = {.pools = &pool, .pool_count = 1};
    dao_plan_result_t result = {.goal = goal, .is_file = is_file};
    dao_plan_input_t input;
    dao_plan_contest_t contest;
    uint64_t goal_ns = (uint64_t)(goal->budget_s * 1e9);
    result.instance = is_file ? goal->file : path;
    if (goal->peer_s > 0 && bench->speed == 0) {
        bench->speed = dao_bench_plan_speed();
    }
    result.speed = bench->speed;
    dao_status_t status = get_input(path, &input);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_plan_contest_init(&contest, &input, &problem);
    if (status == DAO_OK) {
        contest.budget_ns = bench->budget_ns > 0 && bench->budget_ns < goal_ns ? bench->budget_ns : goal_ns;
        contest.is_decision = goal->capacity_bytes > 0;
        status = run_methods(&contest, &result);
        if (status == DAO_OK) {
            status = run_looks(&contest, &result);
        }
        dao_plan_contest_finish(&contest);
    }
    if (status == DAO_OK) {
        report(bench, &result);
    } else {
        dao_error_prefix("%s: ", result.instance);
    }
    dao_plan_input_finish(&input);
    return status;
}

static bool is_asked_for(const bench_t *bench, const char *figure)
{
    return bench->figure == NULL || strcmp(bench->figure, figure) == 0;
}

static dao_status_t run_plan_goals(bench_t *bench)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < dao_plan_goal_count && status == DAO_OK; i++) {
        const dao_plan_goal_t *goal = &dao_plan_goals[i];
        char path[PATH_BYTES];
        bool is_file = false;
        if (!is_asked_for(bench, goal->figure)) {
            continue;
        }
        if (find_instance(bench, goal->file, goal->stand_in, path, &is_file)) {
            status = run_goal(bench, goal, path, is_file);
        } else {
            bench->left_out_count++;
        }
    }
    return status;
}

/* ---- goals of step plans ---- */

static void report_serve(bench_t *bench, const dao_replay_result_t *result)
{
    char limits[TEXT_BYTES], breaches[TEXT_BYTES];
    const char *figure = result->goal->figure;
    bool is_first = bench->replay_figure == NULL || strcmp(bench->replay_figure, figure) != 0;
    dao_replay_goal_describe(result->goal, limits, sizeof(limits));
    bench->breach_count += dao_replay_result_judge(result, breaches, sizeof(breaches)) > 0 ? 1 : 0;
    if (bench->settings->is_json) {
        dao_replay_result_add_json(result, limits, breaches, &bench->json);
    } else {
        dao_replay_result_print(result, is_first, limits, breaches);
        dao_output_flush();
    }
    bench->replay_figure = figure;
    bench->cells_left_out += result->cells_left_out;
    bench->row_count++;
}

static dao_status_t run_serve_goal(bench_t *bench, const dao_replay_goal_t *goal,
                                   const dao_replay_model_t *model)
{
    char path[PATH_BYTES];
    bool is_file = false;
    dao_event_file_t file;
    if (!find_instance(bench, model->file, model->stand_in, path, &is_file) ||
        !dao_replay_goal_has_place(goal)) {
        bench->left_out_count++;
        return DAO_OK;
    }
    dao_replay_result_t result = {.goal = goal, .instance = is_file ? model->file : path};
    dao_status_t status = dao_event_file_read(path, &file);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_replay_result_run(&result, &file, bench->budget_ns, bench->seed_count);
    dao_event_file_finish(&file);
    if (status == DAO_OK) {
        report_serve(bench, &result);
    } else {
        dao_error_prefix("%s at %s: ", result.instance, goal->place);
    }
    return status;
}

static dao_status_t run_serve_goals(bench_t *bench)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < dao_replay_goal_count; i++) {
        const dao_replay_goal_t *goal = &dao_replay_goals[i];
        for (size_t k = 0; k < dao_replay_model_count && status == DAO_OK; k++) {
            if (is_asked_for(bench, goal->figure) && dao_replay_goal_takes(goal, &dao_replay_models[k])) {
                status = run_serve_goal(bench, goal, &dao_replay_models[k]);
            }
        }
    }
    return status;
}

/* ---- the command ---- */

/* Returns the figure of a goal, of either kind; NULL behind the last one. */
static const char *goal_figure(size_t index)
{
    if (index < dao_plan_goal_count) {
        return dao_plan_goals[index].figure;
    }
    index -= dao_plan_goal_count;
    return index < dao_replay_goal_count ? dao_replay_goals[index].figure : NULL;
}

/* Returns the name of a figure; "all" behind the last one, then NULL. Goals of one figure stand together. */
static const char *figure_at(size_t index)
{
    const char *figure, *before = "";
    for (size_t i = 0; (figure = goal_figure(i)) != NULL; i++, before = figure) {
        if (strcmp(figure, before) != 0 && index-- == 0) {
            return figure;
        }
    }
    return index == 0 ? "all" : NULL;
}

static const dao_option_t options[] = {
    {.name = "figure",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, figure),
     .value = "FIGURE",
     .preset = "all",
     .name_at = figure_at,
     .help = "one of those above, or all"},
    {.name = "data",
     .type = DAO_OPTION_TYPE_PATH,
     DAO_OPTION_FIELD(settings_t, data),
     .value = "DIR",
     .preset = "../shared/data",
     .help = "folder of instances, if it is there"},
    {.name = "budget",
     .type = DAO_OPTION_TYPE_SECONDS,
     DAO_OPTION_FIELD(settings_t, budget_ns),
     .value = "S",
     .most = 1000000,
     .help = "at most so many seconds of processor time a figure"},
    {.name = "seeds",
     .type = DAO_OPTION_TYPE_COUNT,
     DAO_OPTION_FIELD(settings_t, seed_count),
     .value = "N",
     .least = 1,
     .most = 1000,
     .preset = "1",
     .help = "of deviating: replays of each deviation, others drawn"},
    {.name = "check",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_checked),
     .help = "fail if a figure is over its limit"},
    {.name = "json",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_json),
     .help = "print one JSON array"},
    {.name = NULL},
};

/* Returns the figure that is asked for; NULL: all. */
static const char *asked_figure(const settings_t *settings)
{
    return figure_at(settings->figure + 1) != NULL ? figure_at(settings->figure) : NULL;
}

static dao_status_t check_settings(const dao_arguments_t *arguments, void *user)
{
    const settings_t *settings = user;
    const char *figure = asked_figure(settings);
    if (dao_option_is_given(arguments, "data") && access(settings->data, R_OK) != 0) {
        return dao_error(DAO_ERR_INVALID, "--data: \"%.200s\" cannot be read", settings->data);
    }
    if (dao_option_is_given(arguments, "seeds") && figure != NULL && strcmp(figure, "deviating") != 0) {
        return dao_error(DAO_ERR_INVALID, "--seeds is for the figure \"deviating\"");
    }
    return DAO_OK;
}

static void print_sums(const bench_t *bench)
{
    (void)printf("\n%zu figures, %zu over a limit\n", bench->row_count, bench->breach_count);
    if (bench->cells_left_out > 0) {
        (void)printf("%" PRIu64 " cells left out: --budget was over\n", bench->cells_left_out);
    }
    if (bench->left_out_count > 0) {
        (void)printf("%zu left out: their files are not in %s, or their places not here\n",
                     bench->left_out_count, bench->data);
    }
    if (bench->speed > 0) {
        (void)printf("this machine is %.2f times as fast as the one on which MiniMalloc was measured\n",
                     bench->speed);
    }
}

static dao_status_t finish(bench_t *bench, dao_status_t status, int *out_exit)
{
    bool is_printed = true;
    if (bench->settings->is_json) {
        is_printed = status != DAO_OK || dao_json_rows_print(&bench->json);
        dao_json_rows_finish(&bench->json);
    } else if (status == DAO_OK) {
        print_sums(bench);
    }
    dao_output_flush();
    if (status == DAO_OK && bench->row_count == 0) { /* of one figure: others are made, and always there */
        (void)fprintf(stderr,
                      "nothing was measured: no file of \"%s\" is in %s, or its places are not here\n",
                      bench->figure, bench->data);
    }
    bool is_kept = bench->breach_count == 0 && bench->row_count > 0;
    *out_exit = is_printed && (!bench->settings->is_checked || is_kept) ? DAO_EXIT_OK : DAO_EXIT_FAILED;
    return status;
}

static dao_status_t run_bench_plan(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    const settings_t *settings = user;
    bench_t bench = {.settings = settings,
                     .figure = asked_figure(settings),
                     .data = settings->data,
                     .budget_ns = settings->budget_ns,
                     .seed_count = (uint32_t)settings->seed_count};
    (void)arguments;
    if (settings->is_json) {
        dao_json_rows_init(&bench.json);
    }
    dao_status_t status = run_plan_goals(&bench);
    return finish(&bench, status == DAO_OK ? run_serve_goals(&bench) : status, out_exit);
}

const dao_command_t dao_command_bench_plan = {
    .program = "dao-bench",
    .name = "plan",
    .arguments = "",
    .summary = "measure plans: peaks, times, memory, and how well steps follow them",
    .details =
        "Takes figures of the planner, each plan checked, and of step plans, and sets\n"
        "limits beside them:\n"
        "  hard       optimal, and proved, without a capacity\n"
        "  open       the best that is known, without a proof\n"
        "  capacity   found by exact search in a capacity, in a tenth of MiniMalloc's time\n"
        "  recorded   the least there is, on recorded training steps\n"
        "  public     steps of others\n"
        "  synthetic  20,000 buffers that are made\n"
        "  million    a million of them\n"
        "  bins       against the bins of PRMalloc\n"
        "  served     recorded steps, and equal ones, that follow a plan: the worst step\n"
        "  deviating  what a place takes for steps that deviate, over what it takes without plans: the\n"
        "             worst step of 25 cells, and how many have a step over the limit\n"
        "  shapes     steps of several shapes in random order that follow learnt plans\n"
        "All live blocks of these three are compared: none may share a byte with another.\n"
        "Instances that are not there are left out, or others stand in for them.",
    .options = options,
    .least_arguments = 0,
    .most_arguments = 0,
    .settings_bytes = sizeof(settings_t),
    .check = check_settings,
    .run = run_bench_plan,
};
