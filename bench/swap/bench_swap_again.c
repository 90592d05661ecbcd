/* SPDX-License-Identifier: Apache-2.0 */
/* The set `again` of `dao-bench swap`: steps without any copies, on Checkmate's networks and on a recorded
   step. A row has what kernels that run again add to the time of all kernels, in percent:

       step        at     ours      dtr    class    local      lru ...
       VGG16      90%     0.20 ...

   `-`: it does not get through. Ours is a plan with addresses; the others count bytes alone. `cpu s` is the
   processor time of our plan. */
#include "base/memory/measure.h"
#include "base/report/error.h"
#include "bench/swap/bench_swap.h"
#include "bench/traces/made_step.h"
#include "planning/recompute/published/recompute_baselines.h"
#include "tools/model/step_problem.h"
#include "tools/print/report.h"

#include <dao/dao.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define NS_PER_S 1e9
#define NO_PLAN  (-1.0)

/* Limit of `--check`: our step over that of the best other scheme, which counts bytes alone. */
#define OVER_BEST_MAX 1.002

static const unsigned made_percents[] = {90, 80, 50}, recorded_percents[] = {50, 30, 20};
static const char *const baseline_names[DAO_RECOMPUTE_BASELINE_COUNT] = {
    "dtr", "class", "local", "lru", "largest", "sqrt", "select", "greedy", "knapsack"};
static const dao_bench_step_t recorded = {"swap-traces/resnet101.tr", NULL};

typedef struct row {
    const char *name;
    unsigned percent;
    double ours; /* added to the kernels' time, as a part of it; NO_PLAN */
    double others[DAO_RECOMPUTE_BASELINE_COUNT];
    double plan_s;
} row_t;

static dao_status_t take_ours(const dao_swap_problem_t *problem, row_t *row)
{
    const dao_recompute_config_t config = {.mode = DAO_RECOMPUTE_MODE_ONLY};
    dao_recompute_plan_t *plan = NULL;
    uint64_t begin_ns = dao_measure_thread_ns();
    dao_status_t status = dao_recompute_plan_make(problem, &config, &plan);
    row->plan_s = (double)(dao_measure_thread_ns() - begin_ns) / NS_PER_S;
    row->ours = NO_PLAN;
    if (status == DAO_OK) {
        const dao_recompute_step_t *step = dao_recompute_plan_step(plan);
        uint64_t all_ns = dao_recompute_plan_schedule(plan)->step_ns;
        row->ours = (double)step->again_ns / (double)(all_ns - step->again_ns);
        status = dao_recompute_check(problem, step);
    }
    dao_recompute_plan_destroy(plan);
    return status == DAO_ERR_LIMIT ? DAO_OK : status;
}

static dao_status_t take_others(const dao_swap_problem_t *problem, row_t *row)
{
    dao_status_t status = DAO_OK;
    for (int i = 0; i < DAO_RECOMPUTE_BASELINE_COUNT && status == DAO_OK; i++) {
        dao_recompute_baseline_run_t run;
        status = dao_recompute_baseline(problem, (dao_recompute_baseline_t)i, &run);
        row->others[i] =
            status == DAO_OK ? (double)run.again_ns / (double)(run.step_ns - run.again_ns) : NO_PLAN;
        status = status == DAO_ERR_LIMIT ? DAO_OK : status;
    }
    return status;
}

static double best_of(const row_t *row)
{
    double best = NO_PLAN;
    for (int i = 0; i < DAO_RECOMPUTE_BASELINE_COUNT; i++) {
        bool is_better = row->others[i] != NO_PLAN && (best == NO_PLAN || row->others[i] < best);
        best = is_better ? row->others[i] : best;
    }
    return best;
}

static void print_added(double added)
{
    if (added == NO_PLAN) {
        printf(" %8s", "-");
    } else {
        printf(" %8.2f", 100 * added);
    }
}

static void add_json(dao_bench_swap_t *bench, const char *name, double added)
{
    if (added == NO_PLAN) {
        dao_json_rows_null(&bench->json, name);
    } else {
        dao_json_rows_decimal(&bench->json, name, 100 * added, 3);
    }
}

static void print_row(dao_bench_swap_t *bench, const row_t *row)
{
    if (bench->is_json) {
        dao_json_rows_begin(&bench->json);
        dao_json_rows_text(&bench->json, "step", row->name);
        dao_json_rows_count(&bench->json, "capacity_percent", row->percent);
        add_json(bench, "ours_added_percent", row->ours);
        for (int i = 0; i < DAO_RECOMPUTE_BASELINE_COUNT; i++) {
            char name[48];
            (void)snprintf(name, sizeof(name), "%s_added_percent", baseline_names[i]);
            add_json(bench, name, row->others[i]);
        }
        dao_json_rows_decimal(&bench->json, "plan_cpu_s", row->plan_s, 3);
        return;
    }
    printf("%-9s %3u%%", row->name, row->percent);
    print_added(row->ours);
    for (int i = 0; i < DAO_RECOMPUTE_BASELINE_COUNT; i++) {
        print_added(row->others[i]);
    }
    printf(" %5.2f\n", row->plan_s);
    dao_output_flush();
}

/* Where none of the others gets through ours need not. */
static void hold_row(dao_bench_swap_t *bench, const row_t *row)
{
    double best = best_of(row);
    char name[64];
    (void)snprintf(name, sizeof(name), "%s at %u %%", row->name, row->percent);
    if (best != NO_PLAN) {
        double over = row->ours == NO_PLAN ? INFINITY : (1 + row->ours) / (1 + best);
        dao_bench_swap_hold(bench, name, "time over that of the best other scheme", over, OVER_BEST_MAX);
    }
}

static dao_status_t take_rows(dao_bench_swap_t *bench, const char *name, dao_swap_problem_t *problem,
                              const unsigned percents[3])
{
    dao_swap_bound_t whole;
    problem->host = (dao_swap_tier_t){.in_bytes_per_second = DAO_SWAP_SIZE_MAX}; /* is not used */
    problem->capacity_bytes = DAO_SWAP_SIZE_MAX;
    dao_status_t status = dao_swap_find_bound(problem, &whole);
    for (int i = 0; i < 3 && status == DAO_OK; i++) {
        row_t row = {.name = name, .percent = percents[i]};
        problem->capacity_bytes = whole.peak_bytes / 100 * percents[i];
        if (problem->capacity_bytes < whole.least_capacity_bytes) {
            continue; /* its largest kernel needs more */
        }
        status = take_ours(problem, &row);
        status = status == DAO_OK ? take_others(problem, &row) : status;
        if (status == DAO_OK) {
            bench->row_count++;
            print_row(bench, &row);
            hold_row(bench, &row);
        }
    }
    return status;
}

static dao_status_t take_recorded(dao_bench_swap_t *bench)
{
    dao_step_trace_t trace;
    dao_step_problem_t step;
    bool is_there;
    dao_status_t status = dao_bench_step_read(bench, &recorded, &trace, &is_there);
    if (status != DAO_OK || !is_there) {
        return status;
    }
    status = dao_step_problem_make(&trace, &step);
    if (status == DAO_OK) {
        status = take_rows(bench, "resnet101", &step.problem, recorded_percents);
        dao_step_problem_finish(&step);
    }
    dao_step_trace_finish(&trace);
    return status;
}

dao_status_t dao_bench_swap_again(dao_bench_swap_t *bench)
{
    if (!bench->is_json) {
        printf("%-9s %4s %8s", "step", "at", "ours");
        for (int i = 0; i < DAO_RECOMPUTE_BASELINE_COUNT; i++) {
            printf(" %8s", baseline_names[i]);
        }
        printf(" %5s\n", "cpu s");
    }
    dao_status_t status = take_recorded(bench);
    for (size_t i = 0; dao_made_step_name(i) != NULL && status == DAO_OK; i++) {
        dao_made_step_t step;
        status = dao_made_step(i, &step);
        if (status == DAO_OK) {
            status = take_rows(bench, dao_made_step_name(i), &step.problem, made_percents);
            dao_made_step_finish(&step);
        }
    }
    return status;
}
