/* `dao bench swap`: plans of swapped steps against the bound, one row a step and capacity, then a summary.

       setting   steps                          device            link each way    copy
       ours      swap-traces (all .tr files)    90 .. 20 % of peak  50 GB/s         10 us
       g10       steps of G10 (MICRO'23)        40 GiB              15.754 GB/s     10 us

   Ratios are times over the bound. `parts` and `whole` are of plans without addresses, in which bytes are all that counts;
   `placed` is the plan itself with its static addresses within the capacity; `noise` and `link` are that plan played with
   other kernel times and a slower link, over the bound of those. */
#include "base/error.h"
#include "base/measure.h"
#include "tools/json_rows.h"
#include "tools/options.h"
#include "tools/read_step.h"
#include "tools/step_problem.h"

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
    {"set", "S", offsetof(settings_t, set), "ours, g10, or all (the default)"},
    {"data", "DIR", offsetof(settings_t, data), "folder of recorded steps (default: ../shared/data)"},
    {"check", NULL, offsetof(settings_t, is_checked), "fail if a figure is over its limit"},
    {"json", NULL, offsetof(settings_t, is_json), "print one JSON array"},
    {NULL, NULL, 0, NULL},
};

/* A step, and what others need for it as a multiple of its kernels' time; 0: not known. */
typedef struct subject {
    const char *file;
    double published;
} subject_t;

static const subject_t our_subjects[] = {
    {"swap-traces/gpt6.7b.tr", 0},
    {"swap-traces/infer30b.tr", 0},
    {"swap-traces/resnet101.tr", 0},
    {"swap-traces/resnet101slow.tr", 0},
};

/* Times that G10 published, over those of a device that holds everything. */
static const subject_t g10_subjects[] = {
    {"g10/g10_BERT-256.tr", 1.004},         {"g10/g10_BERT-768.tr", 1.571},
    {"g10/g10_BERT-1024.tr", 2.249},        {"g10/g10_VIT-1024.tr", 1.358},
    {"g10/g10_Inceptionv3-1536.tr", 1.023}, {"g10/g10_Inceptionv3-1792.tr", 1.179},
    {"g10/g10_ResNet152-1024.tr", 1.001},   {"g10/g10_ResNet152-1280.tr", 1.016},
    {"g10/g10_SENet154-768.tr", 1.002},     {"g10/g10_SENet154-1024.tr", 1.071},
};

typedef struct group {
    const char *name;
    const subject_t *subjects;
    size_t subject_count;
    uint64_t capacity_bytes; /* 0: fractions of the peak */
    uint64_t bytes_per_s;
} group_t;

static const group_t groups[] = {
    {"ours", our_subjects, sizeof(our_subjects) / sizeof(our_subjects[0]), 0, 50000000000u},
    {"g10", g10_subjects, sizeof(g10_subjects) / sizeof(g10_subjects[0]), (uint64_t)40 << 30, 15754000000u},
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
    const char *file;
    uint32_t percent; /* of the peak; 0: a capacity of its own */
    uint32_t kernel_count;
    uint64_t capacity_bytes;
    dao_swap_bound_t bound;
    double parts, whole, placed, noise, link;
    double gain;    /* published time over ours; 0: none is known */
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
    size_t breach_count;
    dao_json_rows_t json;
} bench_t;

/* ---- figures ---- */

static double seconds_since(uint64_t start_ns)
{
    return (double)(dao_measure_thread_ns() - start_ns) / NS_PER_S;
}

/* A number from 0 to 1, by splitmix64. */
static double draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

/* Multiplies kernel times by lognormal numbers of mean 1. */
static void disturb(const dao_swap_problem_t *problem, dao_swap_kernel_t *kernels)
{
    static const double pi = 3.14159265358979323846;
    uint64_t state = NOISE_SEED;
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        double a = draw(&state), b = draw(&state), normal = sqrt(-2 * log(a)) * cos(2 * pi * b);
        kernels[k] = problem->kernels[k];
        kernels[k].time_ns = (uint64_t)((double)kernels[k].time_ns *
                                        exp(NOISE_SIGMA * normal - NOISE_SIGMA * NOISE_SIGMA / 2));
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
    slower.host.in_bytes_per_s = (uint64_t)((double)slower.host.in_bytes_per_s * SLOWER_LINK);
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

static void hold(bench_t *bench, const row_t *row, const char *what, double figure, double most)
{
    if (bench->settings->is_checked && figure > most) {
        (void)fprintf(stderr, "%s %u%%: %s is %.4f, at most %.4f\n", row->file, row->percent, what, figure,
                      most);
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
    const char *name = strrchr(row->file, '/') + 1;
    if (bench->settings->is_json) {
        dao_json_rows_begin(&bench->json);
        dao_json_rows_text(&bench->json, "step", row->file);
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
    char capacity[16], gain[16] = "-";
    (void)snprintf(capacity, sizeof(capacity), row->percent != 0 ? "%.0f%%" : "%.1f GB",
                   row->percent != 0 ? row->percent : (double)row->capacity_bytes / 1e9);
    if (row->gain != 0) {
        (void)snprintf(gain, sizeof(gain), "%.3f", row->gain);
    }
    printf("%-24s %8s %7.4fs %7.4f %7.4f %7.4f %7.4f %7.4f %7s %7.4f %7.3f\n", name, capacity,
           (double)row->bound.step_ns / NS_PER_S, row->parts, row->whole, row->placed, row->noise, row->link,
           gain, row->bound_s, row->plan_s);
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
    hold(bench, row, "parts", row->parts, is_ours ? 1.06 : 1.03);
    hold(bench, row, "whole", row->whole, 1.10);
    hold(bench, row, "bound's processor time in s", row->bound_s, 0.05);
    if (row->bound.step_ns == row->bound.compute_ns && is_ours) {
        hold(bench, row, "parts of a compute-bound step", row->parts, 1.005);
    }
    if (row->gain != 0) {
        hold(bench, row, "time over the published one", 1 / row->gain, 1);
    }
}

static void hold_sums(bench_t *bench)
{
    const sum_t *all = &bench->sums[SUM_ALL];
    const row_t mean = {.file = bench->group->name};
    if (all->count == 0 || bench->group->capacity_bytes != 0) {
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

static dao_status_t run_cell(bench_t *bench, const subject_t *subject, dao_swap_problem_t *problem,
                             uint32_t percent)
{
    row_t row = {.file = subject->file, .percent = percent};
    dao_status_t status = take_row(problem, subject->published, &row);
    if (status != DAO_OK) {
        return status;
    }
    print_row(bench, &row);
    hold_row(bench, &row);
    add_to_sum(&bench->sums[SUM_ALL], &row);
    if (percent == 80 || percent == 50) {
        add_to_sum(&bench->sums[percent == 80 ? SUM_80 : SUM_50], &row);
    }
    if (row.bound.step_ns == row.bound.compute_ns) {
        add_to_sum(&bench->sums[SUM_COMPUTE], &row);
    }
    return DAO_OK;
}

static dao_status_t run_problem(bench_t *bench, const subject_t *subject, dao_swap_problem_t *problem)
{
    problem->host =
        (dao_swap_tier_t){.in_bytes_per_s = bench->group->bytes_per_s, .latency_ns = LINK_LATENCY_NS};
    problem->capacity_bytes = bench->group->capacity_bytes;
    if (problem->capacity_bytes != 0) {
        return run_cell(bench, subject, problem, 0);
    }
    dao_swap_bound_t bound;
    problem->capacity_bytes = ALL_BYTES;
    dao_status_t status = dao_swap_find_bound(problem, &bound);
    for (uint32_t percent = FRACTION_FIRST; percent >= FRACTION_LAST && status == DAO_OK;
         percent -= FRACTION_STEP) {
        problem->capacity_bytes = bound.peak_bytes / 100 * percent;
        status = run_cell(bench, subject, problem, percent);
    }
    return status;
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
    dao_status_t status = dao_read_step(path, NULL, &trace);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_step_problem_make(&trace, &step);
    if (status == DAO_OK) {
        status = run_problem(bench, subject, &step.problem);
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
        return dao_usage_error(command->name, "--set: \"%.40s\" is none of ours, g10 and all", set);
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
        "Sets: ours, from 90 to 20 % of the peak, 50 GB/s each way, 10 us a copy; g10, 40 GiB, 15.754 GB/s.",
    .options = options,
    .least_arguments = 0,
    .most_arguments = 0,
    .run = run_bench_swap,
};
