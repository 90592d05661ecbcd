/* SPDX-License-Identifier: Apache-2.0 */
/* A method works in slices, between which its processor time is looked at. */
#include "tools/plan/plan_contest.h"

#include "tools/base/interrupt.h"
#include "tools/base/progress.h"

#include "base/memory/host.h"
#include "base/memory/measure.h"
#include "base/report/error.h"
#include "tools/plan/plan_pool.h"

#include <string.h>

/* Work of a slice: a few milliseconds. */
#define SLICE_WORK ((uint64_t)1 << 17)

typedef enum contest_strategy {
#define STRATEGY_ENUMERATOR(name, text, about) STRATEGY_##name,
    DAO_PLAN_STRATEGY_LIST(STRATEGY_ENUMERATOR)
#undef STRATEGY_ENUMERATOR
} contest_strategy_t;

static const struct {
    const char *name;
    bool is_method;
    int number; /* a contest_strategy_t, or a dao_plan_method_t */
} ways[] = {
#define STRATEGY_ROW(name, text, about)       {text, false, STRATEGY_##name},
#define METHOD_ROW(number, name, text, about) {text, true, DAO_PLAN_METHOD_##name},
    DAO_PLAN_STRATEGY_LIST(STRATEGY_ROW) DAO_PLAN_METHOD_LIST(METHOD_ROW)
#undef STRATEGY_ROW
#undef METHOD_ROW
};

size_t dao_plan_way_count(void)
{
    return sizeof(ways) / sizeof(ways[0]);
}

const char *dao_plan_way_name(size_t way)
{
    return ways[way].name;
}

bool dao_plan_way_find(const char *name, size_t *out_way)
{
    for (size_t i = 0; i < dao_plan_way_count(); i++) {
        if (strcmp(name, ways[i].name) == 0) {
            *out_way = i;
            return true;
        }
    }
    return false;
}

/* ---- a contest ---- */

/* The bound is in the report of the plan that places nothing. */
static dao_status_t find_bound(const dao_plan_problem_t *problem, uint64_t *out_bytes)
{
    dao_plan_t *plan = NULL;
    dao_plan_report_t report;
    uint64_t *offsets = dao_host_calloc(problem->buffer_count + 1, sizeof(*offsets));
    if (offsets == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu offsets", problem->buffer_count);
    }
    for (size_t i = 0; i < problem->buffer_count; i++) {
        offsets[i] = DAO_PLAN_NOWHERE;
    }
    dao_status_t status = dao_plan_create(problem, offsets, NULL, &plan);
    dao_host_free(offsets);
    if (status == DAO_OK) {
        status = dao_plan_report_get(plan, &report);
        dao_plan_release(plan);
    }
    if (status == DAO_OK) {
        *out_bytes = report.bound_bytes;
    }
    return status;
}

dao_status_t dao_plan_contest_init(dao_plan_contest_t *contest, const dao_plan_input_t *input,
                                   const dao_plan_problem_t *problem)
{
    *contest = (dao_plan_contest_t){.input = input, .problem = dao_plan_input_problem(input)};
    contest->problem.pools = problem->pools;
    contest->problem.pool_count = problem->pool_count;
    contest->problem.is_closed = problem->is_closed;
    contest->problem.period = problem->period;
    contest->problem.margin = problem->margin;
    contest->problem.alignment_bytes = problem->alignment_bytes;
    return find_bound(&contest->problem, &contest->bound_bytes);
}

void dao_plan_contest_finish(dao_plan_contest_t *contest)
{
    if (contest->has_trace) {
        dao_alloc_trace_finish(&contest->trace);
    }
    contest->has_trace = false;
}

/* ---- strategies ---- */

static dao_status_t replay(const dao_alloc_trace_t *trace, contest_strategy_t strategy, uint64_t *out_bytes)
{
    switch (strategy) {
    case STRATEGY_BASELINE:
        return dao_plan_pool_run(trace, DAO_TREE_POOL_MNN, out_bytes);
    case STRATEGY_BASELINE_PYTHON:
        return dao_plan_pool_run(trace, DAO_TREE_POOL_PYTHON, out_bytes);
    case STRATEGY_GOOD_FIT:
        return dao_plan_online_run(trace, false, out_bytes);
    case STRATEGY_ONLINE_BEST_FIT:
        return dao_plan_online_run(trace, true, out_bytes);
    case STRATEGY_ORACLE:
        break;
    }
    *out_bytes = trace->peak_bytes;
    return DAO_OK;
}

static dao_status_t run_strategy(dao_plan_contest_t *contest, contest_strategy_t strategy,
                                 dao_plan_row_t *row)
{
    dao_status_t status = DAO_OK;
    const dao_plan_problem_t *problem = &contest->problem;
    if (problem->clock_count > 0 || problem->period > 0 || problem->margin > 0 || problem->pool_count > 1) {
        return DAO_OK; /* what comes after what is open, or not what the lives say, or there is no one pool */
    }
    if (!contest->has_trace) {
        status = dao_plan_input_replay(contest->input, contest->problem.is_closed, &contest->trace);
        contest->has_trace = status == DAO_OK;
    }
    if (status != DAO_OK) {
        return status;
    }
    uint64_t begin = dao_measure_thread_ns();
    status = replay(&contest->trace, strategy, &row->peak_bytes);
    row->cpu_ns = dao_measure_thread_ns() - begin;
    row->has_peak = status == DAO_OK;
    row->is_proved = row->peak_bytes == row->bound_bytes; /* below it: offsets are fixed, or aligned */
    return status == DAO_ERR_LIMIT ? DAO_OK : status;     /* more than its segment can be: not run, either */
}

/* ---- methods ---- */

/* Takes the planner's plan, if it has one. */
static dao_status_t take_best(dao_planner_t *planner, dao_plan_row_t *row)
{
    dao_plan_report_t report;
    dao_plan_t *plan = NULL;
    dao_status_t status = dao_planner_best(planner, &plan);
    if (status == DAO_ERR_NOT_READY) {
        return DAO_OK;
    }
    if (status == DAO_OK) {
        status = dao_plan_report_get(plan, &report);
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_plan_release(row->plan);
    row->plan = plan;
    row->has_peak = true;
    row->peak_bytes = report.peak_bytes;
    row->bound_bytes = report.bound_bytes;
    row->is_proved = report.is_proved;
    row->unplaced_count = report.unplaced_count;
    row->unplaced_bytes = report.unplaced_bytes;
    row->memory_bytes = report.memory_bytes;
    return DAO_OK;
}

static void note_first(dao_plan_row_t *row, uint64_t begin)
{
    if (row->has_peak && row->first_cpu_ns == 0) {
        row->first_cpu_ns = dao_measure_thread_ns() - begin;
        row->first_peak_bytes = row->peak_bytes;
    }
}

static bool has_time(const dao_plan_contest_t *contest, uint64_t begin)
{
    return contest->budget_ns == 0 || dao_measure_thread_ns() - begin < contest->budget_ns;
}

/* Returns true if there is the plan that was asked for, so that a better one is not; or any, and Ctrl-C asks
   to make do with it. */
static bool is_decided(const dao_plan_contest_t *contest, const dao_plan_row_t *row)
{
    return row->has_peak && ((contest->is_decision && row->unplaced_count == 0) || dao_interrupt_is_asked());
}

static dao_status_t work(const dao_plan_contest_t *contest, dao_planner_t *planner, uint64_t begin,
                         dao_plan_row_t *row)
{
    bool is_done = false;
    dao_status_t status = take_best(planner, row);
    note_first(row, begin);
    dao_progress_phase("planning", contest->budget_ns > 0 ? DAO_PROGRESS_UNIT_NS : DAO_PROGRESS_UNIT_PARTS,
                       contest->budget_ns > 0 ? contest->budget_ns : contest->work_limit);
    while (status == DAO_OK && !is_done && !is_decided(contest, row) && has_time(contest, begin)) {
        status = dao_planner_work(planner, SLICE_WORK, &is_done);
        dao_progress_set(contest->budget_ns > 0 ? dao_measure_thread_ns() - begin
                                                : dao_progress_done() + SLICE_WORK);
        if (status == DAO_OK) {
            status = take_best(planner, row);
            note_first(row, begin);
        }
    }
    return status;
}

static dao_status_t run_method(const dao_plan_contest_t *contest, dao_plan_method_t method,
                               dao_plan_row_t *row)
{
    dao_planner_config_t config = {.method = method, .work_limit = contest->work_limit};
    dao_planner_t *planner = NULL;
    uint64_t begin = dao_measure_thread_ns();
    dao_status_t status = dao_planner_create(&contest->problem, &config, &planner);
    if (status != DAO_OK) {
        return status;
    }
    status = work(contest, planner, begin, row);
    row->cpu_ns = dao_measure_thread_ns() - begin;
    dao_planner_destroy(planner);
    return status;
}

dao_status_t dao_plan_contest_run(dao_plan_contest_t *contest, size_t way, dao_plan_row_t *out_row)
{
    dao_plan_row_t row = {.method = ways[way].name,
                          .buffer_count = contest->input->buffer_count,
                          .bound_bytes = contest->bound_bytes,
                          .pool_count = contest->problem.pool_count == 0 ? 1 : contest->problem.pool_count};
    dao_status_t status = ways[way].is_method
                              ? run_method(contest, (dao_plan_method_t)ways[way].number, &row)
                              : run_strategy(contest, (contest_strategy_t)ways[way].number, &row);
    if (status != DAO_OK) {
        dao_plan_row_finish(&row);
        return status;
    }
    *out_row = row;
    return DAO_OK;
}

void dao_plan_row_finish(dao_plan_row_t *row)
{
    dao_plan_release(row->plan);
    row->plan = NULL;
}

dao_status_t dao_plan_row_verify(const dao_plan_contest_t *contest, const dao_plan_row_t *row)
{
    if (row->plan == NULL) {
        return DAO_OK;
    }
    size_t count = dao_plan_count(row->plan);
    uint32_t *pools = dao_host_calloc(count + 1, sizeof(*pools));
    if (pools == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the pools of %zu buffers", count);
    }
    for (size_t i = 0; i < count; i++) {
        pools[i] = dao_plan_pool(row->plan, i);
    }
    dao_status_t status = dao_plan_check(&contest->problem, dao_plan_offsets(row->plan), pools);
    dao_host_free(pools);
    return status;
}

double dao_plan_row_ratio(const dao_plan_row_t *row)
{
    return row->bound_bytes == 0 ? 1 : (double)row->peak_bytes / (double)row->bound_bytes;
}
