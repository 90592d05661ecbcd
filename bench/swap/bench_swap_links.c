/* SPDX-License-Identifier: Apache-2.0 */
/* The set `links` of `dao-bench swap`: what steps take with their plans over their bounds, for recorded
   steps, old and new, over four links. A row has a step and a link, and a column for each capacity:

       step          link     90%    70%    50%    30%    20%   mean  worst slower  plan s
       gpt_adam      50      1.050  1.032 ...

   A plan moves tensors in parts or as a whole, whichever is quicker, and has large ones in pages where that
   is quicker than static addresses; with --static it has those alone. A cell is `slower` if the step takes
   longer in it than with less memory. */
#include "base/memory/measure.h"
#include "bench/swap/bench_swap.h"
#include "tools/model/step_problem.h"
#include "tools/print/report.h"

#include <dao/dao.h>

#include <math.h>
#include <stdio.h>

#define NS_PER_S 1e9

/* A step that takes longer by more than this is slower; less is what a plan's rounding makes. */
#define SLOWER 1.001

/* Limits of `--check`, with pages and without: a hundredth above what docs/swap.md says. */
static const struct {
    double mean, worst;
} limits[] = {{1.031, 1.439}, {1.051, 1.643}};
#define SLOWER_MAX 0.0

static const unsigned percents[] = {90, 70, 50, 30, 20}; /* of the peak */

#define CELL_COUNT (sizeof(percents) / sizeof(percents[0]))

typedef struct link {
    const char *name;
    dao_swap_tier_t tier;
} link_t;

static const link_t links[] = {
    {"50", {.in_bytes_per_second = UINT64_C(50000000000), .latency_ns = 10000}},
    {"16", {.in_bytes_per_second = UINT64_C(16000000000), .latency_ns = 10000}},
    {"50 half",
     {.in_bytes_per_second = UINT64_C(50000000000), .latency_ns = 10000, .duplex = DAO_SWAP_DUPLEX_HALF}},
    {"50/25",
     {.in_bytes_per_second = UINT64_C(50000000000),
      .out_bytes_per_second = UINT64_C(25000000000),
      .latency_ns = 10000}},
};

#define LINK_COUNT (sizeof(links) / sizeof(links[0]))

/* A step, and over how many of the links: the long one has the first alone. */
typedef struct subject {
    dao_bench_step_t step;
    size_t link_count;
} subject_t;

static const subject_t subjects[] = {
    {{"swap-traces/gpt6.7b.tr", NULL}, LINK_COUNT},    {{"swap-traces/infer30b.tr", NULL}, LINK_COUNT},
    {{"swap-traces/resnet101.tr", NULL}, LINK_COUNT},  {{"swap-traces/resnet101slow.tr", NULL}, LINK_COUNT},
    {{"swap-traces/gpt_adam.tr", NULL}, LINK_COUNT},   {{"swap-traces/unet_small.tr", NULL}, LINK_COUNT},
    {{"swap-traces/stage_1f1b.tr", NULL}, LINK_COUNT}, {{"swap-traces/infer24b_kv.tr", NULL}, LINK_COUNT},
    {{"swap-traces/gpt_deep_12k.tr", NULL}, 1},
};

/* Cells taken together. */
typedef struct sum {
    size_t count, slower_count;
    double log_sum, worst, plan_s;
} sum_t;

static void add(sum_t *sum, double ratio)
{
    sum->count++;
    sum->log_sum += log(ratio);
    sum->worst = fmax(sum->worst, ratio);
}

static double mean_of(const sum_t *sum)
{
    return exp(sum->log_sum / (double)sum->count);
}

static dao_status_t take_cell(const dao_swap_problem_t *problem, sum_t *row, double *out_ratio,
                              uint64_t *out_step_ns)
{
    dao_swap_bound_t bound;
    dao_swap_plan_t *plan = NULL;
    dao_status_t status = dao_swap_find_bound(problem, &bound);
    uint64_t begin_ns = dao_measure_thread_ns();
    status = status == DAO_OK ? dao_swap_plan_make(problem, NULL, &plan) : status;
    if (status == DAO_OK) {
        row->plan_s = fmax(row->plan_s, (double)(dao_measure_thread_ns() - begin_ns) / NS_PER_S);
        *out_step_ns = dao_swap_plan_schedule(plan)->step_ns;
        *out_ratio = (double)*out_step_ns / (double)bound.step_ns;
        add(row, *out_ratio);
    }
    dao_swap_plan_destroy(plan);
    return status;
}

static void print_row(dao_bench_swap_t *bench, const subject_t *subject, const link_t *link,
                      const double ratios[CELL_COUNT], const sum_t *row)
{
    char name[DAO_BENCH_STEP_NAME_BYTES], column[16];
    if (bench->is_json) {
        dao_bench_step_json(bench, &subject->step);
        dao_json_rows_text(&bench->json, "link", link->name);
        for (size_t i = 0; i < CELL_COUNT; i++) {
            (void)snprintf(column, sizeof(column), "at_%u", percents[i]);
            dao_json_rows_decimal(&bench->json, column, ratios[i], 4);
        }
        dao_json_rows_decimal(&bench->json, "mean", mean_of(row), 4);
        dao_json_rows_decimal(&bench->json, "worst", row->worst, 4);
        dao_json_rows_count(&bench->json, "slower", row->slower_count);
        dao_json_rows_decimal(&bench->json, "plan_cpu_s", row->plan_s, 4);
        return;
    }
    dao_bench_step_name(&subject->step, name);
    printf("%-14s %-8s", name, link->name);
    for (size_t i = 0; i < CELL_COUNT; i++) {
        printf(" %6.3f", ratios[i]);
    }
    printf(" %6.3f %6.3f %6zu %7.3f\n", mean_of(row), row->worst, row->slower_count, row->plan_s);
    dao_output_flush();
}

/* A step over a link, with less and less memory. */
static dao_status_t take_row(dao_bench_swap_t *bench, const subject_t *subject, const link_t *link,
                             dao_swap_problem_t *problem, uint64_t peak_bytes, sum_t *all)
{
    sum_t row = {0};
    double ratios[CELL_COUNT];
    uint64_t more_ns = 0; /* with more memory */
    dao_status_t status = DAO_OK;
    problem->host = link->tier;
    problem->page_bytes = bench->is_static ? 0 : DAO_BENCH_PAGE_BYTES;
    for (size_t i = 0; i < CELL_COUNT && status == DAO_OK; i++) {
        uint64_t step_ns = 0;
        problem->capacity_bytes = peak_bytes / 100 * percents[i];
        status = take_cell(problem, &row, &ratios[i], &step_ns);
        row.slower_count += (double)more_ns > SLOWER * (double)step_ns ? 1 : 0;
        more_ns = step_ns;
        if (status == DAO_OK) {
            add(all, ratios[i]);
        }
    }
    if (status == DAO_OK) {
        bench->row_count++;
        all->slower_count += row.slower_count;
        print_row(bench, subject, link, ratios, &row);
    }
    return status;
}

static dao_status_t take_subject(dao_bench_swap_t *bench, const subject_t *subject, sum_t sums[LINK_COUNT])
{
    dao_step_trace_t trace;
    dao_step_problem_t step;
    dao_swap_bound_t bound;
    bool is_there;
    dao_status_t status = dao_bench_step_read(bench, &subject->step, &trace, &is_there);
    if (status != DAO_OK || !is_there) {
        return status;
    }
    status = dao_step_problem_make(&trace, &step);
    if (status == DAO_OK) {
        step.problem.host = links[0].tier;
        step.problem.capacity_bytes = DAO_SWAP_SIZE_MAX;
        status = dao_swap_find_bound(&step.problem, &bound);
        for (size_t i = 0; i < subject->link_count && status == DAO_OK; i++) {
            status = take_row(bench, subject, &links[i], &step.problem, bound.peak_bytes, &sums[i]);
        }
        dao_step_problem_finish(&step);
    }
    dao_step_trace_finish(&trace);
    return status;
}

static void print_sum(const char *name, const sum_t *sum)
{
    printf("%-14s %-8s %*s %6.3f %6.3f %6zu\n", "all", name, (int)(7 * CELL_COUNT - 1), "", mean_of(sum),
           sum->worst, sum->slower_count);
}

static void sum_up(dao_bench_swap_t *bench, const sum_t sums[LINK_COUNT])
{
    sum_t all = {0};
    for (size_t i = 0; i < LINK_COUNT; i++) {
        if (sums[i].count > 0 && !bench->is_json) {
            print_sum(links[i].name, &sums[i]);
        }
        all.count += sums[i].count;
        all.slower_count += sums[i].slower_count;
        all.log_sum += sums[i].log_sum;
        all.worst = fmax(all.worst, sums[i].worst);
    }
    if (all.count == 0) {
        return;
    }
    if (!bench->is_json) {
        print_sum("", &all);
    }
    dao_bench_swap_hold(bench, "links", "mean", mean_of(&all), limits[bench->is_static].mean);
    dao_bench_swap_hold(bench, "links", "worst", all.worst, limits[bench->is_static].worst);
    dao_bench_swap_hold(bench, "links", "count of cells slower than with less memory",
                        (double)all.slower_count, SLOWER_MAX);
}

dao_status_t dao_bench_swap_links(dao_bench_swap_t *bench)
{
    sum_t sums[LINK_COUNT] = {{0}};
    dao_status_t status = DAO_OK;
    if (!bench->is_json) {
        printf("%-14s %-8s", "step", "link");
        for (size_t i = 0; i < CELL_COUNT; i++) {
            printf(" %5u%%", percents[i]);
        }
        printf(" %6s %6s %6s %7s\n", "mean", "worst", "slower", "plan s");
    }
    for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]) && status == DAO_OK; i++) {
        status = take_subject(bench, &subjects[i], sums);
    }
    sum_up(bench, sums);
    return status;
}
