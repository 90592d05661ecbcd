/* SPDX-License-Identifier: Apache-2.0 */
/* The set `recompute` of `dao-bench swap`: steps that swap, that run kernels again, and that do both. A row
   has a step, a link and a capacity:

       step          link capacity    swap   again capuchin  hybrid   bound  /bound    gain  plan s bound s
       resnet101     16        50%  12.921   1.100    1.095   1.092 ...

   `swap`, `again`, `capuchin` and `hybrid` are times of plans over that of the kernels, each run once; "-":
   no plan without a copy was found, or Capuchin's runs were too many. Large tensors lie in pages where that
   is quicker than static addresses. `capuchin` has its order of choices, and our copies
   (planning/recompute/published/capuchin.h). `bound` is that of copies and repeated runs together, `/bound`
   the hybrid plan over it, `gain` the swapping plan over the hybrid one. Every step with repeated runs is
   checked. */
#include "base/memory/measure.h"
#include "base/report/error.h"
#include "bench/swap/bench_swap.h"
#include "planning/recompute/recompute_plan.h"
#include "tools/model/step_problem.h"
#include "tools/print/report.h"

#include <dao/dao.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define NS_PER_S   1e9
#define B_PER_GB   UINT64_C(1000000000)
#define LATENCY_NS 10000u

enum { RATIO_BYTES = 16 };

/* Limits of `--check`: what docs/recompute.md says, rounded up. */
#define MEAN_MAX   1.085
#define WORST_MAX  1.352
#define SLOWER_MAX 0.0

static const uint64_t links_gb[] = {16, 50};     /* GB/s each way */
static const unsigned percents[] = {50, 30, 20}; /* of the peak */

static const dao_bench_step_t subjects[] = {
    {"swap-traces/resnet101.tr", NULL},  {"swap-traces/gpt6.7b.tr", NULL},
    {"swap-traces/gpt_adam.tr", NULL},   {"swap-traces/stage_1f1b.tr", NULL},
    {"swap-traces/unet_small.tr", NULL}, {"swap-traces/infer24b_kv.tr", NULL},
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A step over a link with a capacity. */
typedef struct row {
    const dao_bench_step_t *step;
    uint64_t link_gb;
    unsigned percent;
    double swap, again, capuchin, hybrid, bound; /* over the kernels' time; 0: no such plan */
    double plan_s, bound_s;                      /* processor time of the hybrid plan and of its bound */
} row_t;

/* Rows taken together. */
typedef struct sum {
    size_t count, slower_count;
    double log_over_bound, log_gain, worst;
} sum_t;

static double seconds_since(uint64_t begin_ns)
{
    return (double)(dao_measure_thread_ns() - begin_ns) / NS_PER_S;
}

static dao_status_t take_swap(const dao_swap_problem_t *problem, uint64_t *out_step_ns)
{
    dao_swap_plan_t *plan = NULL;
    dao_status_t status = dao_swap_plan_make(problem, NULL, &plan);
    if (status == DAO_OK) {
        *out_step_ns = dao_swap_plan_schedule(plan)->step_ns;
    }
    dao_swap_plan_destroy(plan);
    return status;
}

/* Checks what runs again read, takes the time of a plan that was made with a status, and destroys it. */
static dao_status_t take_checked(const dao_swap_problem_t *problem, dao_status_t status,
                                 dao_recompute_plan_t *plan, uint64_t *out_step_ns)
{
    status = status == DAO_OK ? dao_recompute_check(problem, dao_recompute_plan_step(plan)) : status;
    if (status == DAO_OK) {
        *out_step_ns = dao_recompute_plan_schedule(plan)->step_ns;
    }
    dao_recompute_plan_destroy(plan);
    return status;
}

static dao_status_t take_plan(const dao_swap_problem_t *problem, dao_recompute_mode_t mode,
                              uint64_t *out_step_ns)
{
    const dao_recompute_config_t config = {.mode = mode};
    dao_recompute_plan_t *plan = NULL;
    dao_status_t status = dao_recompute_plan_make(problem, &config, &plan);
    return take_checked(problem, status, plan, out_step_ns);
}

static dao_status_t take_capuchin(const dao_swap_problem_t *problem, uint64_t *out_step_ns)
{
    dao_recompute_plan_t *plan = NULL;
    dao_status_t status = dao_recompute_plan_published(problem, DAO_RECOMPUTE_CAPUCHIN, NULL, &plan);
    return take_checked(problem, status, plan, out_step_ns);
}

/* No such plan is none: its time stays 0. */
static dao_status_t unless_none(dao_status_t status)
{
    return status == DAO_ERR_LIMIT ? DAO_OK : status;
}

static dao_status_t take_row(const dao_swap_problem_t *problem, row_t *row)
{
    uint64_t swap_ns = 0, again_ns = 0, capuchin_ns = 0, hybrid_ns = 0;
    dao_recompute_bound_t bound;
    uint64_t begin_ns = dao_measure_thread_ns();
    dao_status_t status = dao_recompute_find_bound(problem, &bound);
    row->bound_s = seconds_since(begin_ns);
    begin_ns = dao_measure_thread_ns();
    status = status == DAO_OK ? take_plan(problem, DAO_RECOMPUTE_MODE_HYBRID, &hybrid_ns) : status;
    row->plan_s = seconds_since(begin_ns);
    status = status == DAO_OK ? take_swap(problem, &swap_ns) : status;
    status = status == DAO_OK ? unless_none(take_capuchin(problem, &capuchin_ns)) : status;
    status = status == DAO_OK ? unless_none(take_plan(problem, DAO_RECOMPUTE_MODE_ONLY, &again_ns)) : status;
    if (status == DAO_OK) {
        double compute_ns = (double)bound.compute_ns;
        row->swap = (double)swap_ns / compute_ns;
        row->again = (double)again_ns / compute_ns;
        row->capuchin = (double)capuchin_ns / compute_ns;
        row->hybrid = (double)hybrid_ns / compute_ns;
        row->bound = (double)bound.step_ns / compute_ns;
    }
    return status;
}

static void add(sum_t *sum, const row_t *row)
{
    sum->count++;
    sum->log_over_bound += log(row->hybrid / row->bound);
    sum->log_gain += log(row->swap / row->hybrid);
    sum->worst = fmax(sum->worst, row->hybrid / row->bound);
    bool is_slower = row->hybrid > row->swap || (row->again != 0 && row->hybrid > row->again);
    sum->slower_count += is_slower ? 1 : 0;
}

static void add_json(dao_bench_swap_t *bench, const char *name, double ratio)
{
    if (ratio != 0) {
        dao_json_rows_decimal(&bench->json, name, ratio, 4);
    } else {
        dao_json_rows_null(&bench->json, name);
    }
}

static void print_json(dao_bench_swap_t *bench, const row_t *row)
{
    dao_bench_step_json(bench, row->step);
    dao_json_rows_count(&bench->json, "link_bytes_per_second", row->link_gb * B_PER_GB);
    dao_json_rows_count(&bench->json, "capacity_percent", row->percent);
    dao_json_rows_decimal(&bench->json, "swap_ratio", row->swap, 4);
    add_json(bench, "again_ratio", row->again);
    add_json(bench, "capuchin_ratio", row->capuchin);
    dao_json_rows_decimal(&bench->json, "hybrid_ratio", row->hybrid, 4);
    dao_json_rows_decimal(&bench->json, "bound_ratio", row->bound, 4);
    dao_json_rows_decimal(&bench->json, "over_bound_ratio", row->hybrid / row->bound, 4);
    dao_json_rows_decimal(&bench->json, "gain", row->swap / row->hybrid, 4);
    dao_json_rows_decimal(&bench->json, "plan_cpu_s", row->plan_s, 4);
    dao_json_rows_decimal(&bench->json, "bound_cpu_s", row->bound_s, 4);
}

static void write_ratio(double ratio, char text[RATIO_BYTES])
{
    if (ratio != 0) {
        (void)snprintf(text, RATIO_BYTES, "%.3f", ratio);
    } else {
        (void)snprintf(text, RATIO_BYTES, "-");
    }
}

static void print_row(dao_bench_swap_t *bench, const row_t *row)
{
    char name[DAO_BENCH_STEP_NAME_BYTES], again[RATIO_BYTES], capuchin[RATIO_BYTES];
    if (bench->is_json) {
        print_json(bench, row);
        return;
    }
    dao_bench_step_name(row->step, name);
    write_ratio(row->again, again);
    write_ratio(row->capuchin, capuchin);
    printf("%-14s %4" PRIu64 " %7u%% %7.3f %7s %8s %7.3f %7.3f %7.3f %7.3f %7.2f %7.3f\n", name, row->link_gb,
           row->percent, row->swap, again, capuchin, row->hybrid, row->bound, row->hybrid / row->bound,
           row->swap / row->hybrid, row->plan_s, row->bound_s);
    dao_output_flush();
}

static dao_status_t take_rows(dao_bench_swap_t *bench, const dao_bench_step_t *step,
                              dao_swap_problem_t *problem, sum_t *sum)
{
    dao_swap_bound_t whole;
    problem->host = (dao_swap_tier_t){.in_bytes_per_second = B_PER_GB, .latency_ns = LATENCY_NS};
    problem->capacity_bytes = DAO_SWAP_SIZE_MAX;
    problem->page_bytes = DAO_BENCH_PAGE_BYTES;
    dao_status_t status = dao_swap_find_bound(problem, &whole);
    for (size_t i = 0; i < COUNT_OF(links_gb) * COUNT_OF(percents) && status == DAO_OK; i++) {
        row_t row = {.step = step,
                     .link_gb = links_gb[i / COUNT_OF(percents)],
                     .percent = percents[i % COUNT_OF(percents)]};
        problem->host.in_bytes_per_second = row.link_gb * B_PER_GB;
        problem->capacity_bytes = whole.peak_bytes / 100 * row.percent;
        status = take_row(problem, &row);
        if (status == DAO_OK) {
            bench->row_count++;
            add(sum, &row);
            print_row(bench, &row);
        }
    }
    return status;
}

static dao_status_t take_subject(dao_bench_swap_t *bench, const dao_bench_step_t *subject, sum_t *sum)
{
    dao_step_trace_t trace;
    dao_step_problem_t step;
    bool is_there;
    dao_status_t status = dao_bench_step_read(bench, subject, &trace, &is_there);
    if (status != DAO_OK || !is_there) {
        return status;
    }
    status = dao_step_problem_make(&trace, &step);
    if (status == DAO_OK) {
        status = take_rows(bench, subject, &step.problem, sum);
        dao_step_problem_finish(&step);
    }
    dao_step_trace_finish(&trace);
    return status;
}

static void sum_up(dao_bench_swap_t *bench, const sum_t *sum)
{
    if (sum->count == 0) {
        return;
    }
    double mean = exp(sum->log_over_bound / (double)sum->count);
    if (!bench->is_json) {
        printf("%-14s %4s %8s %40s %7.3f %7.3f\n", "mean", "", "", "", mean,
               exp(sum->log_gain / (double)sum->count));
        printf("%-14s %4s %8s %40s %7.3f\n", "worst", "", "", "", sum->worst);
        printf("%zu of %zu cells are slower than swapping alone, or than running again alone\n",
               sum->slower_count, sum->count);
    }
    dao_bench_swap_hold(bench, "recompute", "mean over the bound", mean, MEAN_MAX);
    dao_bench_swap_hold(bench, "recompute", "worst over the bound", sum->worst, WORST_MAX);
    dao_bench_swap_hold(bench, "recompute", "count of cells slower than with one of both alone",
                        (double)sum->slower_count, SLOWER_MAX);
}

dao_status_t dao_bench_swap_recompute(dao_bench_swap_t *bench)
{
    sum_t sum = {0};
    dao_status_t status = DAO_OK;
    if (!bench->is_json) {
        printf("%-14s %4s %8s %7s %7s %8s %7s %7s %7s %7s %7s %7s\n", "step", "link", "capacity", "swap",
               "again", "capuchin", "hybrid", "bound", "/bound", "gain", "plan s", "bound s");
    }
    for (size_t i = 0; i < COUNT_OF(subjects) && status == DAO_OK; i++) {
        status = take_subject(bench, &subjects[i], &sum);
    }
    sum_up(bench, &sum);
    return status;
}
