/* `dao bench swap`: plans of swapped steps against the bound, one row a step and capacity, then a summary.

       setting   steps                          device            link each way    copy
       ours      swap-traces (all .tr files)    90 .. 20 % of peak  50 GB/s         10 us
       g10       steps of G10 (MICRO'23)        40 GiB              15.754 GB/s     10 us
       upstream  HeuristicAllocator's profiles  what its scripts    390.3 MB/s,     none
                                                need                one at a time

   Ratios are times over the bound. `parts` and `whole` are of plans without addresses, in which bytes are all that counts;
   `placed` is the plan itself with its static addresses within the capacity; `noise` and `link` are that plan played with
   other kernel times and a slower link, over the bound of those. */
#include "base/error.h"
#include "base/measure.h"
#include "tools/json_rows.h"
#include "tools/options.h"
#include "tools/random.h"
#include "tools/read_step.h"
#include "tools/step_problem.h"
#include "tools/swap_maps.h"

#include "base/host.h"

#include <dao/dao.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DATA_DEFAULT    "../shared/data"
#define LINK_LATENCY_NS 10000u
#define NOISE_SIGMA     0.3
#define SLOWER_LINK     0.9
#define NS_PER_S        1e9
#define ALL_BYTES       DAO_SWAP_SIZE_MAX

enum { PATH_BYTES = 4096, FRACTION_FIRST = 90, FRACTION_LAST = 20, FRACTION_STEP = 10, NOISE_SEED = 1 };

typedef struct settings {
    const char *set;
    const char *data;
    bool is_checked;
    bool is_json;
} settings_t;

static const dao_option_t options[] = {
    {"set", "S", offsetof(settings_t, set), "ours, g10, upstream, or all (the default)"},
    {"data", "DIR", offsetof(settings_t, data), "folder of recorded steps (default: ../shared/data)"},
    {"check", NULL, offsetof(settings_t, is_checked), "fail if a figure is over its limit, or none is there"},
    {"json", NULL, offsetof(settings_t, is_json), "print one JSON array"},
    {NULL, NULL, 0, NULL},
};

/* A step, and what others need for it as a multiple of its kernels' time; 0: not known. */
typedef struct subject {
    const char *file;
    double published;
    const char *batch; /* NULL: the file has one */
} subject_t;

static const subject_t our_subjects[] = {
    {.file = "swap-traces/gpt6.7b.tr"},
    {.file = "swap-traces/infer30b.tr"},
    {.file = "swap-traces/resnet101.tr"},
    {.file = "swap-traces/resnet101slow.tr"},
};

/* Times that G10 published, over those of a device that holds everything. */
static const subject_t g10_subjects[] = {
    {.file = "g10/g10_BERT-256.tr", .published = 1.004},
    {.file = "g10/g10_BERT-768.tr", .published = 1.571},
    {.file = "g10/g10_BERT-1024.tr", .published = 2.249},
    {.file = "g10/g10_VIT-1024.tr", .published = 1.358},
    {.file = "g10/g10_Inceptionv3-1536.tr", .published = 1.023},
    {.file = "g10/g10_Inceptionv3-1792.tr", .published = 1.179},
    {.file = "g10/g10_ResNet152-1024.tr", .published = 1.001},
    {.file = "g10/g10_ResNet152-1280.tr", .published = 1.016},
    {.file = "g10/g10_SENet154-768.tr", .published = 1.002},
    {.file = "g10/g10_SENet154-1024.tr", .published = 1.071},
};

static const subject_t upstream_subjects[] = {
    {.file = "heuristic-allocator/MobilenetV2.io_info.json.gz", .batch = "4"},
    {.file = "heuristic-allocator/MobilenetV2.io_info.json.gz", .batch = "16"},
};

/* HeuristicAllocator's scripts, and the least gain over each of them. They say themselves what memory they need. */
typedef struct script {
    const char *name;
    dao_swap_maps_mode_t mode;
    double least_gain;
} script_t;

static const script_t scripts[] = {
    {"async", DAO_SWAP_MAPS_ASYNC, 1.2},
    {"half-sync", DAO_SWAP_MAPS_HALF_SYNC, 1.6},
    {"sync", DAO_SWAP_MAPS_SYNC, 1.6},
};

#define SCRIPT_COUNT (sizeof(scripts) / sizeof(scripts[0]))

/* Where the capacities of a group come from. */
typedef enum capacity_kind { CAPACITY_FRACTIONS, CAPACITY_FIXED, CAPACITY_OF_SCRIPTS } capacity_kind_t;

typedef struct group {
    const char *name;
    const subject_t *subjects;
    size_t subject_count;
    capacity_kind_t kind;
    uint64_t capacity_bytes; /* if it is fixed */
    dao_swap_tier_t link;
} group_t;

static const group_t groups[] = {
    {.name = "ours",
     .subjects = our_subjects,
     .subject_count = sizeof(our_subjects) / sizeof(our_subjects[0]),
     .link = {.in_bytes_per_second = 50000000000u, .latency_ns = LINK_LATENCY_NS}},
    {.name = "g10",
     .subjects = g10_subjects,
     .subject_count = sizeof(g10_subjects) / sizeof(g10_subjects[0]),
     .kind = CAPACITY_FIXED,
     .capacity_bytes = (uint64_t)40 << 30,
     .link = {.in_bytes_per_second = 15754000000u, .latency_ns = LINK_LATENCY_NS}},
    {.name = "upstream",
     .subjects = upstream_subjects,
     .subject_count = sizeof(upstream_subjects) / sizeof(upstream_subjects[0]),
     .kind = CAPACITY_OF_SCRIPTS,
     .link = {.in_bytes_per_second = 390300836u, .duplex = DAO_SWAP_DUPLEX_HALF}},
};

#define GROUP_COUNT (sizeof(groups) / sizeof(groups[0]))

/* Times over the bound. */
#define RATIO_LIST(X)                                                                                        \
    X(parts, "parts of tensors, no addresses")                                                               \
    X(whole, "whole tensors, no addresses")                                                                  \
    X(placed, "with static addresses within the capacity")                                                   \
    X(noise, "the same, kernel times lognormal with 0.3")                                                    \
    X(link, "the same, a link that is 10 % slower")

typedef struct row {
    const subject_t *subject;
    const script_t *script; /* whose memory it has; NULL: nobody's */
    uint32_t percent;       /* of the peak; 0: a capacity of its own */
    uint32_t kernel_count;
    uint64_t capacity_bytes;
    dao_swap_bound_t bound;
    double parts, whole, placed, noise, link;
    double gain;    /* published time, or the script's, over ours; 0: none is known */
    double bound_s; /* processor time of the bound */
    double plan_s;  /* of a plan of one grain with its addresses */
} row_t;

enum { SUM_ALL, SUM_80, SUM_50, SUM_COMPUTE, SUM_COUNT };

static const char *const sum_names[SUM_COUNT] = {"all", "80%", "50%", "compute-bound"};

/* Rows taken together. */
typedef struct sum {
    size_t count;
    double log_parts, log_whole, log_placed, log_noise, log_link;
    row_t worst;
} sum_t;

typedef struct bench {
    const settings_t *settings;
    const char *data;
    const group_t *group;
    sum_t sums[SUM_COUNT]; /* of the group at hand */
    size_t row_count;
    size_t breach_count;
    dao_json_rows_t json;
} bench_t;

/* ---- figures ---- */

static double seconds_since(uint64_t start_ns)
{
    return (double)(dao_measure_thread_ns() - start_ns) / NS_PER_S;
}

/* Multiplies kernel times by lognormal numbers of mean 1. */
static void disturb(const dao_swap_problem_t *problem, dao_swap_kernel_t *kernels)
{
    uint64_t state = NOISE_SEED;
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        double factor = dao_random_log_normal(&state, -NOISE_SIGMA * NOISE_SIGMA / 2, NOISE_SIGMA);
        kernels[k] = problem->kernels[k];
        kernels[k].time_ns = (uint64_t)((double)kernels[k].time_ns * factor);
    }
}

static dao_status_t replay_with_noise(const dao_swap_plan_t *plan, const dao_swap_problem_t *problem,
                                      row_t *row)
{
    enum { STEPS = 8 };
    uint32_t n = problem->kernel_count;
    dao_swap_kernel_t *kernels = dao_host_calloc(n, sizeof(*kernels));
    uint64_t *times_ns = dao_host_calloc((size_t)n * STEPS, sizeof(*times_ns));
    dao_status_t status = kernels != NULL && times_ns != NULL
                              ? DAO_OK
                              : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the times of %u kernels", n);
    if (status == DAO_OK) {
        dao_swap_problem_t disturbed = *problem;
        dao_swap_bound_t bound;
        dao_swap_replay_t replay;
        disturb(problem, kernels);
        disturbed.kernels = kernels;
        for (size_t i = 0; i < (size_t)n * STEPS; i++) {
            times_ns[i] = kernels[i % n].time_ns;
        }
        const dao_swap_replay_config_t config = {.step_count = STEPS, .kernel_times_ns = times_ns};
        status = dao_swap_find_bound(&disturbed, &bound);
        status = status == DAO_OK ? dao_swap_plan_replay(plan, &config, &replay) : status;
        row->noise = status == DAO_OK ? (double)replay.step_ns / (double)bound.step_ns : 0;
    }
    dao_host_free(kernels);
    dao_host_free(times_ns);
    return status;
}

static dao_status_t replay_with_slower_link(const dao_swap_plan_t *plan, const dao_swap_problem_t *problem,
                                            row_t *row)
{
    dao_swap_problem_t slower = *problem;
    dao_swap_bound_t bound;
    dao_swap_replay_t replay;
    slower.host.in_bytes_per_second = (uint64_t)((double)slower.host.in_bytes_per_second * SLOWER_LINK);
    const dao_swap_replay_config_t config = {.host = &slower.host};
    dao_status_t status = dao_swap_find_bound(&slower, &bound);
    status = status == DAO_OK ? dao_swap_plan_replay(plan, &config, &replay) : status;
    row->link = status == DAO_OK ? (double)replay.step_ns / (double)bound.step_ns : 0;
    return status;
}

/* Plans by one grain. Takes disturbed times of the plan if it is the faster one so far. */
static dao_status_t take_grain(const dao_swap_problem_t *problem, dao_swap_grain_t grain, row_t *row)
{
    const dao_swap_plan_config_t config = {.grain = grain};
    dao_swap_plan_t *plan = NULL;
    uint64_t start_ns = dao_measure_thread_ns();
    dao_status_t status = dao_swap_plan_make(problem, &config, &plan);
    if (status != DAO_OK) {
        return status;
    }
    row->plan_s = seconds_since(start_ns);
    const dao_swap_schedule_t *schedule = dao_swap_plan_schedule(plan);
    double bound_ns = (double)row->bound.step_ns, placed = (double)schedule->step_ns / bound_ns;
    *(grain == DAO_SWAP_GRAIN_PARTS ? &row->parts : &row->whole) = (double)schedule->fluid_step_ns / bound_ns;
    if (row->placed == 0 || placed < row->placed) {
        row->placed = placed;
        status = replay_with_noise(plan, problem, row);
        status = status == DAO_OK ? replay_with_slower_link(plan, problem, row) : status;
    }
    dao_swap_plan_destroy(plan);
    return status;
}

/* `published`: what others need, over the kernels' time. */
static dao_status_t take_row(const dao_swap_problem_t *problem, double published, row_t *row)
{
    uint64_t start_ns = dao_measure_thread_ns();
    dao_status_t status = dao_swap_find_bound(problem, &row->bound);
    row->bound_s = seconds_since(start_ns);
    row->kernel_count = problem->kernel_count;
    row->capacity_bytes = problem->capacity_bytes;
    status = status == DAO_OK ? take_grain(problem, DAO_SWAP_GRAIN_WHOLE, row) : status;
    status = status == DAO_OK ? take_grain(problem, DAO_SWAP_GRAIN_PARTS, row) : status;
    if (status == DAO_OK && published != 0) {
        row->gain = published * (double)row->bound.compute_ns / (row->placed * (double)row->bound.step_ns);
    }
    return status;
}

/* ---- output ---- */

enum { NAME_BYTES = 64, CAPACITY_BYTES = 32 };

/* The file's name without its endings, the batch and the script; "mean" for a row that is none of a step. */
static const char *name_of(const row_t *row, char text[NAME_BYTES])
{
    if (row->subject == NULL) {
        return "mean";
    }
    const char *file = strrchr(row->subject->file, '/') + 1, *batch = row->subject->batch;
    const char *end = strstr(file, ".io_info");
    end = end != NULL ? end : strrchr(file, '.');
    (void)snprintf(text, NAME_BYTES, "%.*s%s%s%s%s", (int)(end - file), file, batch != NULL ? "." : "",
                   batch != NULL ? batch : "", row->script != NULL ? " " : "",
                   row->script != NULL ? row->script->name : "");
    return text;
}

static const char *capacity_of(const row_t *row, char text[CAPACITY_BYTES])
{
    if (row->percent != 0) {
        (void)snprintf(text, CAPACITY_BYTES, "%u%%", row->percent);
    } else {
        (void)snprintf(text, CAPACITY_BYTES, "%.3f GB", (double)row->capacity_bytes / 1e9);
    }
    return text;
}

static void hold(bench_t *bench, const row_t *row, const char *what, double figure, double most)
{
    char name[NAME_BYTES], capacity[CAPACITY_BYTES];
    if (bench->settings->is_checked && figure > most) {
        (void)fprintf(stderr, "%s %s: %s is %.4f, at most %.4f\n", name_of(row, name),
                      capacity_of(row, capacity), what, figure, most);
        bench->breach_count++;
    }
}

static void add_to_sum(sum_t *sum, const row_t *row)
{
    if (sum->count++ == 0) {
        sum->worst = *row;
    }
#define ADD_RATIO(name, text)                                                                                \
    sum->log_##name += log(row->name);                                                                       \
    sum->worst.name = row->name > sum->worst.name ? row->name : sum->worst.name;
    RATIO_LIST(ADD_RATIO)
#undef ADD_RATIO
}

static void print_head(const bench_t *bench)
{
    if (!bench->settings->is_json) {
        printf("%-24s %8s %8s %7s %7s %7s %7s %7s %7s %7s %7s\n", "step", "capacity", "bound", "parts",
               "whole", "placed", "noise", "link", "gain", "bound s", "plan s");
    }
}

static void print_row(bench_t *bench, const row_t *row)
{
    if (bench->settings->is_json) {
        dao_json_rows_begin(&bench->json);
        dao_json_rows_text(&bench->json, "step", row->subject->file);
        if (row->subject->batch != NULL) {
            dao_json_rows_text(&bench->json, "batch", row->subject->batch);
        }
        if (row->script != NULL) {
            dao_json_rows_text(&bench->json, "script", row->script->name);
        }
        dao_json_rows_count(&bench->json, "capacity_bytes", row->capacity_bytes);
        dao_json_rows_count(&bench->json, "kernels", row->kernel_count);
        dao_json_rows_decimal(&bench->json, "compute_s", (double)row->bound.compute_ns / NS_PER_S, 6);
        dao_json_rows_decimal(&bench->json, "bound_s", (double)row->bound.step_ns / NS_PER_S, 6);
#define JSON_RATIO(name, text) dao_json_rows_decimal(&bench->json, #name, row->name, 4);
        RATIO_LIST(JSON_RATIO)
#undef JSON_RATIO
        if (row->gain != 0) {
            dao_json_rows_decimal(&bench->json, "gain", row->gain, 3);
        } else {
            dao_json_rows_null(&bench->json, "gain");
        }
        dao_json_rows_decimal(&bench->json, "bound_cpu_s", row->bound_s, 4);
        dao_json_rows_decimal(&bench->json, "plan_cpu_s", row->plan_s, 4);
        return;
    }
    char name[NAME_BYTES], capacity[CAPACITY_BYTES], gain[16] = "-";
    if (row->gain != 0) {
        (void)snprintf(gain, sizeof(gain), "%.3f", row->gain);
    }
    printf("%-24s %8s %7.4fs %7.4f %7.4f %7.4f %7.4f %7.4f %7s %7.4f %7.3f\n", name_of(row, name),
           capacity_of(row, capacity), (double)row->bound.step_ns / NS_PER_S, row->parts, row->whole,
           row->placed, row->noise, row->link, gain, row->bound_s, row->plan_s);
    dao_output_flush();
}

static void print_sum(const bench_t *bench, const char *name, const sum_t *sum)
{
    if (sum->count == 0 || bench->settings->is_json) {
        return;
    }
    double n = (double)sum->count;
    printf("%-24s %8s %8s %7.4f %7.4f %7.4f %7.4f %7.4f\n", name, "mean", "", exp(sum->log_parts / n),
           exp(sum->log_whole / n), exp(sum->log_placed / n), exp(sum->log_noise / n),
           exp(sum->log_link / n));
    printf("%-24s %8s %8s %7.4f %7.4f %7.4f %7.4f %7.4f\n", "", "worst", "", sum->worst.parts,
           sum->worst.whole, sum->worst.placed, sum->worst.noise, sum->worst.link);
}

/* ---- rows ---- */

static void hold_row(bench_t *bench, const row_t *row)
{
    bool is_ours = row->percent != 0;
    hold(bench, row, "parts", row->parts, is_ours ? 1.06 : row->script != NULL ? 1.10 : 1.03);
    hold(bench, row, "whole", row->whole, 1.10);
    hold(bench, row, "bound's processor time in s", row->bound_s, 0.05);
    if (row->bound.step_ns == row->bound.compute_ns && is_ours) {
        hold(bench, row, "parts of a compute-bound step", row->parts, 1.005);
    }
    if (row->gain != 0) {
        hold(bench, row, "time over that of others", 1 / row->gain,
             row->script != NULL ? 1 / row->script->least_gain : 1);
    }
}

static void hold_sums(bench_t *bench)
{
    const sum_t *all = &bench->sums[SUM_ALL];
    const row_t mean = {.percent = 0};
    if (all->count == 0 || bench->group->kind != CAPACITY_FRACTIONS) {
        return;
    }
    hold(bench, &mean, "mean of parts", exp(all->log_parts / (double)all->count), 1.02);
    hold(bench, &mean, "mean of whole", exp(all->log_whole / (double)all->count), 1.03);
    hold(bench, &mean, "mean of placed at 80 %",
         exp(bench->sums[SUM_80].log_placed / (double)bench->sums[SUM_80].count), 1.03);
    hold(bench, &mean, "mean of placed at 50 %",
         exp(bench->sums[SUM_50].log_placed / (double)bench->sums[SUM_50].count), 1.06);
    hold(bench, &mean, "mean with noise over the mean without",
         exp((all->log_noise - all->log_placed) / (double)all->count), 1.02);
    hold(bench, &mean, "mean with a slower link over the mean without",
         exp((all->log_link - all->log_placed) / (double)all->count), 1.05);
}

/* A row, of which the subject, the script and the percentage are given. */
static dao_status_t run_cell(bench_t *bench, const dao_swap_problem_t *problem, double published, row_t row)
{
    dao_status_t status = take_row(problem, published, &row);
    if (status != DAO_OK) {
        return status;
    }
    bench->row_count++;
    print_row(bench, &row);
    hold_row(bench, &row);
    add_to_sum(&bench->sums[SUM_ALL], &row);
    if (row.percent == 80 || row.percent == 50) {
        add_to_sum(&bench->sums[row.percent == 80 ? SUM_80 : SUM_50], &row);
    }
    if (row.bound.step_ns == row.bound.compute_ns) {
        add_to_sum(&bench->sums[SUM_COMPUTE], &row);
    }
    return DAO_OK;
}

static dao_status_t run_fractions(bench_t *bench, const subject_t *subject, dao_swap_problem_t *problem)
{
    dao_swap_bound_t bound;
    problem->capacity_bytes = ALL_BYTES;
    dao_status_t status = dao_swap_find_bound(problem, &bound);
    for (uint32_t percent = FRACTION_FIRST; percent >= FRACTION_LAST && status == DAO_OK;
         percent -= FRACTION_STEP) {
        problem->capacity_bytes = bound.peak_bytes / 100 * percent;
        status =
            run_cell(bench, problem, subject->published, (row_t){.subject = subject, .percent = percent});
    }
    return status;
}

/* In the memory of each script, over its link. */
static dao_status_t run_scripts(bench_t *bench, const subject_t *subject, const dao_step_trace_t *trace,
                                dao_swap_problem_t *problem)
{
    dao_swap_maps_config_t config = {.in_bytes_per_second = problem->host.in_bytes_per_second,
                                     .out_bytes_per_second = problem->host.in_bytes_per_second,
                                     .capacity_bytes = UINT64_MAX};
    dao_status_t status = dao_swap_maps_find_threshold(trace, &config.threshold);
    for (size_t i = 0; i < SCRIPT_COUNT && status == DAO_OK; i++) {
        dao_swap_maps_result_t result;
        config.mode = scripts[i].mode;
        status = dao_swap_maps_by_script(trace, &config, &result);
        if (status == DAO_OK) {
            problem->capacity_bytes = result.pool_bytes;
            status = run_cell(bench, problem, (double)result.step_ns / (double)result.compute_ns,
                              (row_t){.subject = subject, .script = &scripts[i]});
        }
    }
    return status;
}

static dao_status_t run_problem(bench_t *bench, const subject_t *subject, const dao_step_trace_t *trace,
                                dao_swap_problem_t *problem)
{
    problem->host = bench->group->link;
    problem->capacity_bytes = bench->group->capacity_bytes;
    switch (bench->group->kind) {
    case CAPACITY_FRACTIONS:
        return run_fractions(bench, subject, problem);
    case CAPACITY_FIXED:
        return run_cell(bench, problem, subject->published, (row_t){.subject = subject});
    case CAPACITY_OF_SCRIPTS:
        break;
    }
    return run_scripts(bench, subject, trace, problem);
}

static dao_status_t run_subject(bench_t *bench, const subject_t *subject)
{
    char path[PATH_BYTES];
    dao_step_trace_t trace;
    dao_step_problem_t step;
    int length = snprintf(path, sizeof(path), "%s/%s", bench->data, subject->file);
    if (length < 0 || length >= (int)sizeof(path)) {
        return dao_error(DAO_ERR_INVALID, "%.200s: the path is too long", bench->data);
    }
    if (access(path, R_OK) != 0) {
        (void)fprintf(stderr, "%s: not there, left out\n", path);
        return DAO_OK;
    }
    dao_status_t status = dao_read_step(path, subject->batch, &trace);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_step_problem_make(&trace, &step);
    if (status == DAO_OK) {
        status = run_problem(bench, subject, &trace, &step.problem);
        dao_step_problem_finish(&step);
    }
    dao_step_trace_finish(&trace);
    return status;
}

static dao_status_t run_group(bench_t *bench, const group_t *group)
{
    dao_status_t status = DAO_OK;
    bench->group = group;
    memset(bench->sums, 0, sizeof(bench->sums));
    print_head(bench);
    for (size_t i = 0; i < group->subject_count && status == DAO_OK; i++) {
        status = run_subject(bench, &group->subjects[i]);
    }
    for (int i = 0; i < SUM_COUNT && status == DAO_OK; i++) {
        print_sum(bench, sum_names[i], &bench->sums[i]);
    }
    hold_sums(bench);
    return status;
}

static int finish(bench_t *bench, dao_status_t status)
{
    bool is_printed = true;
    if (bench->settings->is_json) {
        is_printed = status != DAO_OK || dao_json_rows_print(&bench->json);
        dao_json_rows_finish(&bench->json);
    }
    if (status != DAO_OK || !is_printed) {
        return dao_failure(dao_command_bench_swap.name);
    }
    if (bench->settings->is_checked && bench->row_count == 0) {
        (void)fprintf(stderr, "no step is there: nothing was checked\n");
        return DAO_EXIT_FAILED;
    }
    return bench->breach_count > 0 ? DAO_EXIT_FAILED : DAO_EXIT_OK;
}

static int run_bench_swap(const dao_command_t *command, int argc, char **argv)
{
    settings_t settings = {0};
    bench_t bench = {.settings = &settings};
    const char *arguments[DAO_ARGUMENT_COUNT_MAX];
    int exit_code;
    if (!dao_options_parse(command, argc, argv, &settings, arguments, &exit_code)) {
        return exit_code;
    }
    const char *set = settings.set != NULL ? settings.set : "all";
    bool is_known = strcmp(set, "all") == 0;
    for (size_t i = 0; i < GROUP_COUNT; i++) {
        is_known = is_known || strcmp(set, groups[i].name) == 0;
    }
    if (!is_known) {
        return dao_usage_error(command->name, "--set: \"%.40s\" is none of ours, g10, upstream and all", set);
    }
    bench.data = settings.data != NULL ? settings.data : DATA_DEFAULT;
    if (settings.is_json) {
        dao_json_rows_init(&bench.json);
    }
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < GROUP_COUNT && status == DAO_OK; i++) {
        if (strcmp(set, "all") == 0 || strcmp(set, groups[i].name) == 0) {
            status = run_group(&bench, &groups[i]);
        }
    }
    return finish(&bench, status);
}

const dao_command_t dao_command_bench_swap = {
    .name = "bench swap",
    .arguments = "",
    .summary = "measure plans of swapped steps against the bound",
    .details =
        "Times over the bound, which no scheme beats that only moves bytes:\n"
        "  parts   tensors move in parts, memory has no addresses\n"
        "  whole   tensors move as a whole, memory has no addresses\n"
        "  placed  the plan itself, with static addresses within the capacity\n"
        "  noise   that plan with kernel times that are lognormal with 0.3\n"
        "  link    that plan with a link that is 10 % slower\n"
        "  gain    published time over that of the plan\n"
        "Sets: ours, from 90 to 20 % of the peak, 50 GB/s each way, 10 us a copy; g10, 40 GiB, 15.754 GB/s;\n"
        "upstream, HeuristicAllocator's profiles in the memory that its scripts need, one link of 390.3 "
        "MB/s.",
    .options = options,
    .least_arguments = 0,
    .most_arguments = 0,
    .run = run_bench_swap,
};
