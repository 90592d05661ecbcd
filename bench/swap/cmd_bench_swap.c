/* SPDX-License-Identifier: Apache-2.0 */
/* `dao-bench swap`: plans of swapped steps against the bound, one row a step and capacity, then a summary.

       setting   steps                          device            link each way    copy
       ours      swap-traces (four of them)     90 .. 20 % of peak  50 GB/s         10 us
       g10       steps of G10 (MICRO'23)        40 GiB              15.754 GB/s     10 us
       upstream  HeuristicAllocator's profiles  what its scripts    390.3 MB/s,     none
                                                need                one at a time
       links     all of swap-traces, over four links: see bench_swap_links.c
       recompute kernels that run again beside copies: see bench_swap_recompute.c
       again     without copies, beside others: see bench_swap_again.c
       device    steps that are run, see bench_swap_device.c

   Ratios are times over the bound. `parts` and `whole` are of plans without addresses, in which bytes are all
   that counts; `placed` is the plan itself with its static addresses within the capacity; `noise` and `link`
   are that plan played with other kernel times and a slower link, over the bound of those; `first` is a step
   of the executor, without a plan. */
#include "base/memory/measure.h"
#include "base/report/error.h"
#include "bench/commands.h"
#include "bench/swap/bench_swap.h"
#include "tools/model/random.h"
#include "tools/model/step_problem.h"
#include "tools/options/complain.h"
#include "tools/print/report.h"
#include "tools/simulate/forward_end.h"
#include "tools/simulate/scheme.h"
#include "tools/simulate/swap_maps.h"

#include "base/memory/host.h"

#include <dao/dao.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LINK_LATENCY_NS 10000u
#define NOISE_SIGMA     0.3
#define SLOWER_LINK     0.9
#define NS_PER_S        1e9
#define ALL_BYTES       DAO_SWAP_SIZE_MAX

enum { FRACTION_FIRST = 90, FRACTION_LAST = 20, FRACTION_STEP = 10, NOISE_SEED = 1 };

/* A step, and what others need for it as a multiple of its kernels' time; 0: not known. */
typedef struct subject {
    dao_bench_step_t step;
    double published;
} subject_t;

static const subject_t our_subjects[] = {
    {.step = {"swap-traces/gpt6.7b.tr", NULL}},
    {.step = {"swap-traces/infer30b.tr", NULL}},
    {.step = {"swap-traces/resnet101.tr", NULL}},
    {.step = {"swap-traces/resnet101slow.tr", NULL}},
};

/* Times that G10 published, over those of a device that holds everything. */
static const subject_t g10_subjects[] = {
    {.step = {"g10/g10_BERT-256.tr", NULL}, .published = 1.004},
    {.step = {"g10/g10_BERT-768.tr", NULL}, .published = 1.571},
    {.step = {"g10/g10_BERT-1024.tr", NULL}, .published = 2.249},
    {.step = {"g10/g10_VIT-1024.tr", NULL}, .published = 1.358},
    {.step = {"g10/g10_Inceptionv3-1536.tr", NULL}, .published = 1.023},
    {.step = {"g10/g10_Inceptionv3-1792.tr", NULL}, .published = 1.179},
    {.step = {"g10/g10_ResNet152-1024.tr", NULL}, .published = 1.001},
    {.step = {"g10/g10_ResNet152-1280.tr", NULL}, .published = 1.016},
    {.step = {"g10/g10_SENet154-768.tr", NULL}, .published = 1.002},
    {.step = {"g10/g10_SENet154-1024.tr", NULL}, .published = 1.071},
};

static const subject_t upstream_subjects[] = {
    {.step = {"heuristic-allocator/MobilenetV2.io_info.json.gz", "4"}},
    {.step = {"heuristic-allocator/MobilenetV2.io_info.json.gz", "16"}},
};

/* HeuristicAllocator's scripts, and the least gain over each of them. They say themselves what memory they
   need. */
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
    X(link, "the same, a link that is 10 % slower")                                                          \
    X(first, "first step without a plan, by the executor in virtual time")

typedef struct row {
    const subject_t *subject;
    const script_t *script; /* whose memory it has; NULL: of none */
    uint32_t percent;       /* of the peak; 0: a capacity of its own */
    uint32_t kernel_count;
    uint64_t capacity_bytes;
    dao_swap_bound_t bound;
    double parts, whole, placed, noise, link, first;
    double gain;    /* published time, or the script's, over ours; 0: none is known */
    double bound_s; /* processor time of the bound */
    double plan_s;  /* of a plan of one granularity with its addresses, the longer one of two */
} row_t;

enum { SUM_ALL, SUM_80, SUM_50, SUM_COMPUTE, SUM_COUNT };

static const char *const sum_names[SUM_COUNT] = {"all", "80%", "50%", "compute-bound"};

/* Rows taken together. */
typedef struct sum {
    size_t count;
    double log_parts, log_whole, log_placed, log_noise, log_link, log_first;
    row_t worst;
} sum_t;

typedef struct bench {
    dao_bench_swap_t base;
    const group_t *group;
    sum_t sums[SUM_COUNT]; /* of the group at hand */
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

/* Plans by one granularity. Takes disturbed times of the plan if it is the faster one so far. */
static dao_status_t take_grain(const dao_swap_problem_t *problem, dao_swap_granularity_t granularity,
                               row_t *row)
{
    const dao_swap_plan_config_t config = {.granularity = granularity};
    dao_swap_plan_t *plan = NULL;
    uint64_t start_ns = dao_measure_thread_ns();
    dao_status_t status = dao_swap_plan_make(problem, &config, &plan);
    if (status != DAO_OK) {
        return status;
    }
    row->plan_s = fmax(row->plan_s, seconds_since(start_ns));
    const dao_swap_schedule_t *schedule = dao_swap_plan_schedule(plan);
    double bound_ns = (double)row->bound.step_ns, placed = (double)schedule->step_ns / bound_ns;
    *(granularity == DAO_SWAP_GRANULARITY_PARTS ? &row->parts : &row->whole) =
        (double)schedule->fluid_step_ns / bound_ns;
    if (row->placed == 0 || placed < row->placed) {
        row->placed = placed;
        status = replay_with_noise(plan, problem, row);
        status = status == DAO_OK ? replay_with_slower_link(plan, problem, row) : status;
    }
    dao_swap_plan_destroy(plan);
    return status;
}

static dao_status_t take_first_step(const dao_swap_problem_t *problem, row_t *row)
{
    const dao_scheme_input_t input = {.problem = problem, .step_count = 1};
    const dao_scheme_t *online;
    dao_scheme_run_t run;
    dao_status_t status = dao_scheme_find("online", &online);
    status = status == DAO_OK ? online->run(online, &input, &run) : status;
    if (status == DAO_OK) {
        row->first = (double)run.simulation.first_step_ns / (double)row->bound.step_ns;
        dao_simulation_finish(&run.simulation);
    }
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
    status = status == DAO_OK ? take_grain(problem, DAO_SWAP_GRANULARITY_WHOLE, row) : status;
    status = status == DAO_OK ? take_grain(problem, DAO_SWAP_GRANULARITY_PARTS, row) : status;
    status = status == DAO_OK ? take_first_step(problem, row) : status;
    if (status == DAO_OK && published != 0) {
        row->gain = published * (double)row->bound.compute_ns / (row->placed * (double)row->bound.step_ns);
    }
    return status;
}

/* ---- output ---- */

enum { NAME_BYTES = DAO_BENCH_STEP_NAME_BYTES + 16, CAPACITY_BYTES = 32 };

/* The step and the script; "mean" for a row that is none of a step. */
static const char *name_of(const row_t *row, char text[NAME_BYTES])
{
    char step[DAO_BENCH_STEP_NAME_BYTES];
    if (row->subject == NULL) {
        return "mean";
    }
    dao_bench_step_name(&row->subject->step, step);
    (void)snprintf(text, NAME_BYTES, "%s%s%s", step, row->script != NULL ? " " : "",
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
    char name[NAME_BYTES], capacity[CAPACITY_BYTES], text[NAME_BYTES + CAPACITY_BYTES];
    (void)snprintf(text, sizeof(text), "%s %s", name_of(row, name), capacity_of(row, capacity));
    dao_bench_swap_hold(&bench->base, text, what, figure, most);
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
    if (!bench->base.is_json) {
        printf("%-24s %8s %8s", "step", "capacity", "bound");
#define PRINT_HEAD(name, text) printf(" %7s", #name);
        RATIO_LIST(PRINT_HEAD)
#undef PRINT_HEAD
        printf(" %7s %7s %7s\n", "gain", "bound s", "plan s");
    }
}

static void print_row(bench_t *bench, const row_t *row)
{
    if (bench->base.is_json) {
        dao_bench_step_json(&bench->base, &row->subject->step);
        if (row->script != NULL) {
            dao_json_rows_text(&bench->base.json, "script", row->script->name);
        }
        dao_json_rows_count(&bench->base.json, "capacity_bytes", row->capacity_bytes);
        dao_json_rows_count(&bench->base.json, "kernels", row->kernel_count);
        dao_json_rows_decimal(&bench->base.json, "compute_s", (double)row->bound.compute_ns / NS_PER_S, 6);
        dao_json_rows_decimal(&bench->base.json, "bound_s", (double)row->bound.step_ns / NS_PER_S, 6);
#define JSON_RATIO(name, text) dao_json_rows_decimal(&bench->base.json, #name, row->name, 4);
        RATIO_LIST(JSON_RATIO)
#undef JSON_RATIO
        if (row->gain != 0) {
            dao_json_rows_decimal(&bench->base.json, "gain", row->gain, 3);
        } else {
            dao_json_rows_null(&bench->base.json, "gain");
        }
        dao_json_rows_decimal(&bench->base.json, "bound_cpu_s", row->bound_s, 4);
        dao_json_rows_decimal(&bench->base.json, "plan_cpu_s", row->plan_s, 4);
        return;
    }
    char name[NAME_BYTES], capacity[CAPACITY_BYTES], gain[16] = "-";
    if (row->gain != 0) {
        (void)snprintf(gain, sizeof(gain), "%.3f", row->gain);
    }
    printf("%-24s %8s %7.4fs", name_of(row, name), capacity_of(row, capacity),
           (double)row->bound.step_ns / NS_PER_S);
#define PRINT_RATIO(name, text) printf(" %7.4f", row->name);
    RATIO_LIST(PRINT_RATIO)
#undef PRINT_RATIO
    printf(" %7s %7.4f %7.3f\n", gain, row->bound_s, row->plan_s);
    dao_output_flush();
}

static void print_sum(const bench_t *bench, const char *name, const sum_t *sum)
{
    if (sum->count == 0 || bench->base.is_json) {
        return;
    }
    printf("%-24s %8s %8s", name, "mean", "");
#define PRINT_MEAN(name, text) printf(" %7.4f", exp(sum->log_##name / (double)sum->count));
    RATIO_LIST(PRINT_MEAN)
#undef PRINT_MEAN
    printf("\n%-24s %8s %8s", "", "worst", "");
#define PRINT_WORST(name, text) printf(" %7.4f", sum->worst.name);
    RATIO_LIST(PRINT_WORST)
#undef PRINT_WORST
    printf("\n");
}

/* ---- rows ---- */

static void hold_row(bench_t *bench, const row_t *row)
{
    bool is_ours = row->percent != 0;
    hold(bench, row, "parts", row->parts, is_ours ? 1.06 : row->script != NULL ? 1.10 : 1.03);
    hold(bench, row, "whole", row->whole, 1.10);
    hold(bench, row, "the first step", is_ours ? row->first : 0, 1.15);
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
    bench->base.row_count++;
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
    dao_status_t status = dao_forward_end_find(trace, &config.threshold);
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
    dao_step_trace_t trace;
    dao_step_problem_t step;
    bool is_there;
    dao_status_t status = dao_bench_step_read(&bench->base, &subject->step, &trace, &is_there);
    if (status != DAO_OK || !is_there) {
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

static dao_status_t finish(dao_bench_swap_t *bench, dao_status_t status, int *out_exit)
{
    if (bench->is_json) {
        if (status == DAO_OK && !dao_json_rows_print(&bench->json)) {
            status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the JSON text");
        }
        dao_json_rows_finish(&bench->json);
    }
    bool is_empty = bench->is_checked && bench->row_count == 0;
    if (status == DAO_OK && is_empty) {
        (void)fprintf(stderr, "no step is there: nothing was checked\n");
    }
    *out_exit = is_empty || bench->breach_count > 0 ? DAO_EXIT_FAILED : DAO_EXIT_OK;
    return status;
}

/* The sets: the groups, that which is run, and all. */
enum { SET_LINKS = GROUP_COUNT, SET_RECOMPUTE, SET_AGAIN, SET_DEVICE, SET_ALL };

static const char *set_at(size_t index)
{
    return index < GROUP_COUNT      ? groups[index].name
           : index == SET_LINKS     ? "links"
           : index == SET_RECOMPUTE ? "recompute"
           : index == SET_AGAIN     ? "again"
           : index == SET_DEVICE    ? "device"
           : index == SET_ALL       ? "all"
                                    : NULL;
}

typedef struct settings {
    uint32_t set;
    const char *data;
    bool is_checked;
    bool is_static;
    bool is_json;
} settings_t;

static const dao_option_t options[] = {
    {.name = "set",
     .type = DAO_OPTION_TYPE_NAME,
     DAO_OPTION_FIELD(settings_t, set),
     .value = "SET",
     .preset = "all",
     .name_at = set_at,
     .help = "what is measured"},
    {.name = "data",
     .type = DAO_OPTION_TYPE_PATH,
     DAO_OPTION_FIELD(settings_t, data),
     .value = "DIR",
     .preset = "../shared/data",
     .help = "folder of recorded steps"},
    {.name = "static",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_static),
     .help = "links: static addresses alone, as for a device that maps no pages"},
    {.name = "check",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_checked),
     .help = "fail if a figure is over its limit, or none is there"},
    {.name = "json",
     .type = DAO_OPTION_TYPE_FLAG,
     DAO_OPTION_FIELD(settings_t, is_json),
     .help = "print one JSON array"},
    {.name = NULL},
};

static dao_status_t run_sets(bench_t *bench, uint32_t set)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < GROUP_COUNT && status == DAO_OK; i++) {
        if (set == i || set == SET_ALL) {
            status = run_group(bench, &groups[i]);
        }
    }
    bool with_device = set == SET_DEVICE || set == SET_ALL;
    if (status == DAO_OK && (set == SET_LINKS || set == SET_ALL)) {
        status = dao_bench_swap_links(&bench->base);
    }
    if (status == DAO_OK && (set == SET_RECOMPUTE || set == SET_ALL)) {
        status = dao_bench_swap_recompute(&bench->base);
    }
    if (status == DAO_OK && (set == SET_AGAIN || set == SET_ALL)) {
        status = dao_bench_swap_again(&bench->base);
    }
    return status == DAO_OK && with_device ? dao_bench_swap_device(&bench->base) : status;
}

static dao_status_t run_bench_swap(const dao_arguments_t *arguments, void *user, int *out_exit)
{
    const settings_t *settings = user;
    bench_t bench = {.base = {.data = settings->data,
                              .is_checked = settings->is_checked,
                              .is_json = settings->is_json,
                              .is_static = settings->is_static}};
    (void)arguments;
    if (settings->is_json) {
        dao_json_rows_init(&bench.base.json);
    }
    return finish(&bench.base, run_sets(&bench, settings->set), out_exit);
}

const dao_command_t dao_command_bench_swap = {
    .program = "dao-bench",
    .name = "swap",
    .arguments = "",
    .summary = "measure plans of swapped steps against the bound",
    .details =
        "Times over the bound, which no scheme beats that only moves bytes:\n"
        "  parts   tensors move in parts, memory has no addresses\n"
        "  whole   tensors move as a whole, memory has no addresses\n"
        "  placed  the plan itself, with static addresses within the capacity\n"
        "  noise   that plan with kernel times that are lognormal with 0.3\n"
        "  link    that plan with a link that is 10 % slower\n"
        "  first   the first step of the executor, without a plan, in virtual time\n"
        "  gain    published time over that of the plan\n"
        "Sets: ours, from 90 to 20 % of the peak, 50 GB/s each way, 10 us a copy; g10, 40 GiB, 15.754 GB/s;\n"
        "upstream, HeuristicAllocator's profiles in the memory that its scripts need, one link of 390.3 "
        "MB/s;\n"
        "links, the plan itself, with pages of 2 MiB, of all recorded steps over four links, and the cells "
        "that\n"
        "less memory betters;\n"
        "recompute, plans that copy, that run kernels again, and that do both, of six steps over two "
        "links;\n"
        "again, plans that run kernels again without copies, of Checkmate's networks and a recorded step, "
        "beside\n"
        "published ways to choose them, in percent of the kernels' time;\n"
        "device, planned steps that are run, with links of 1 GB/s, and their time over bound, forecast and\n"
        "the plan's replay with the times that were measured: for a machine with nothing else to do.",
    .options = options,
    .least_arguments = 0,
    .most_arguments = 0,
    .settings_bytes = sizeof(settings_t),
    .run = run_bench_swap,
};
