/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fit/fit_swap.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "planning/swap/swap_search.h"
#include "tools/base/progress.h"
#include "tools/simulate/scheme.h"

#include <dao/recompute.h>

/* Steps that are run, as many as dao simulate runs by default. */
enum { STEP_COUNT = 6 };

#define WORK_PARTS 10u

/* With kernels that run again: half of the tries of dao simulate, and so many times the work, a quarter of
   which goes into a longer step (planning/recompute/recompute_plan.c). */
#define AGAIN_TRIES (DAO_RECOMPUTE_TRIES_DEFAULT / 2)
#define AGAIN_PARTS 4u

#define PHASE       "planning for less memory"
#define PHASE_AGAIN "planning with kernels that run again"

dao_status_t dao_fit_swap_init(dao_fit_swap_t *fit, const dao_step_trace_t *trace,
                               const dao_swap_problem_t *problem)
{
    dao_swap_problem_t whole = *problem;
    dao_swap_bound_t bound;
    whole.capacity_bytes = DAO_SWAP_SIZE_MAX;
    dao_status_t status = dao_swap_find_bound(&whole, &bound);
    if (status == DAO_OK) {
        *fit = (dao_fit_swap_t){.trace = trace,
                                .problem = problem,
                                .least_bytes = bound.least_capacity_bytes,
                                .peak_bytes = bound.peak_bytes,
                                .compute_ns = bound.compute_ns,
                                .largest_kernel = bound.least_capacity_kernel};
    }
    return status;
}

/* Returns the capacity of a point, rounded up to what tensors are aligned to. */
static uint64_t capacity_of(const dao_fit_swap_t *fit, uint32_t point)
{
    if (point == DAO_FIT_ASKED) {
        return fit->asked_bytes;
    }
    uint64_t range = fit->peak_bytes > fit->least_bytes ? fit->peak_bytes - fit->least_bytes : 0;
    uint64_t bytes = range / DAO_FIT_GRID * point + range % DAO_FIT_GRID * point / DAO_FIT_GRID;
    return fit->least_bytes +
           (bytes + DAO_TRACE_ALIGNMENT_BYTES - 1) / DAO_TRACE_ALIGNMENT_BYTES * DAO_TRACE_ALIGNMENT_BYTES;
}

static dao_status_t find_bound(const dao_fit_swap_t *fit, uint32_t point, uint64_t *out_ns)
{
    dao_swap_problem_t problem = *fit->problem;
    dao_swap_bound_t bound;
    problem.capacity_bytes = capacity_of(fit, point);
    dao_status_t status = dao_swap_find_bound(&problem, &bound);
    *out_ns = status == DAO_OK ? bound.step_ns : 0;
    return status;
}

/* Work for a plan, `parts` times what DAO_FIT_PLAN_WORK says, and no more than that of dao simulate. */
static uint64_t sketch_work(const dao_swap_problem_t *problem, uint64_t parts)
{
    static const dao_swap_plan_config_t defaults = {0};
    uint64_t work = dao_swap_work_limit(problem, &defaults);
    return dao_smaller(work, parts * dao_larger(work / WORK_PARTS, DAO_FIT_PLAN_WORK));
}

/* Tells how far a plan with kernels that run again is, the part number `*part` of its phase. */
static void tell_progress(void *part, uint32_t done)
{
    dao_progress_set((uint64_t) * (const uint32_t *)part * DAO_RECOMPUTE_PROGRESS_PARTS + done);
}

/* Plans a point by `plan`; with a part of a phase by `hybrid`, if that may be quicker than what is known. A
   refusal is a point without a plan. */
static dao_status_t run_scheme(const dao_fit_swap_t *fit, uint32_t *again_part, uint32_t point,
                               uint64_t known_ns, dao_fit_point_t *out_point)
{
    bool runs_again = again_part != NULL;
    uint64_t work = runs_again ? sketch_work(fit->problem, AGAIN_PARTS)
                               : (fit->is_sketch ? sketch_work(fit->problem, 1) : 0);
    const dao_scheme_t *scheme = NULL;
    dao_swap_problem_t problem = *fit->problem;
    dao_scheme_run_t run;
    problem.capacity_bytes = capacity_of(fit, point);
    *out_point = (dao_fit_point_t){.capacity_bytes = problem.capacity_bytes, .step_ns = UINT64_MAX};
    dao_scheme_input_t input = {.problem = &problem,
                                .trace = fit->trace,
                                .threshold = DAO_TRACE_NONE,
                                .step_count = STEP_COUNT,
                                .plan_work = work,
                                .try_count = AGAIN_TRIES,
                                .known_ns = known_ns,
                                .on_progress = runs_again ? tell_progress : NULL,
                                .progress_user = again_part,
                                .is_cancelled = fit->is_cancelled,
                                .cancel_user = fit->cancel_user};
    dao_status_t status = dao_scheme_find(runs_again ? "hybrid" : "plan", &scheme);
    if (status == DAO_OK) {
        status = scheme->run(scheme, &input, &run);
    }
    if (status == DAO_OK) {
        out_point->step_ns = run.simulation.step_ns;
        out_point->in_bytes = run.simulation.in_bytes;
        out_point->out_bytes = run.simulation.out_bytes;
        out_point->again_count = run.again_count;
        dao_simulation_finish(&run.simulation);
    }
    bool is_refused =
        status == DAO_ERR_LIMIT || status == DAO_ERR_HOST_FULL || status == DAO_ERR_KERNEL_TOO_LARGE;
    return is_refused ? DAO_OK : status;
}

/* Plans one point, once. */
static dao_status_t plan_point(dao_fit_swap_t *fit, uint32_t point)
{
    if (fit->is_planned[point]) {
        return DAO_OK;
    }
    dao_status_t status = run_scheme(fit, NULL, point, 0, &fit->planned[point]);
    fit->is_planned[point] = status == DAO_OK;
    return status;
}

/* The points of the grid below a point are those below this one. */
static uint32_t grid_end(const dao_fit_swap_t *fit, uint32_t point)
{
    return point == DAO_FIT_ASKED ? fit->below_asked + 1 : point;
}

/* The least time of a point and of all below it; if it is stopped, of those that were planned. */
static dao_status_t find_best(dao_fit_swap_t *fit, uint32_t point, dao_fit_point_t *out_point)
{
    dao_fit_point_t best = {.step_ns = UINT64_MAX};
    uint64_t first_bound_ns = 0;
    dao_progress_phase(PHASE, DAO_PROGRESS_UNIT_PARTS, grid_end(fit, point) + 1);
    dao_status_t status = find_bound(fit, point, &first_bound_ns);
    uint64_t bound_ns = first_bound_ns;
    for (uint32_t at = point; status == DAO_OK && bound_ns < best.step_ns; at = grid_end(fit, at) - 1) {
        status = plan_point(fit, at);
        dao_progress_add(1);
        if (status == DAO_OK && fit->planned[at].step_ns < best.step_ns) {
            best = fit->planned[at];
        }
        if (at == 0) {
            break;
        }
        status = status == DAO_OK ? find_bound(fit, grid_end(fit, at) - 1, &bound_ns) : status;
    }
    best.bound_ns = first_bound_ns;
    *out_point = best;
    return status != DAO_OK ? status : best.step_ns == UINT64_MAX ? DAO_ERR_LIMIT : DAO_OK;
}

/* The point of a capacity, or of the peak. False: there is no room for the largest kernel. */
static bool find_point(dao_fit_swap_t *fit, uint64_t capacity_bytes, uint32_t *out_point)
{
    uint32_t point = DAO_FIT_GRID;
    while (point > 0 && capacity_of(fit, point) > capacity_bytes) {
        point--;
    }
    if (capacity_of(fit, point) > capacity_bytes) {
        return false;
    }
    *out_point = point;
    if (point < DAO_FIT_GRID && capacity_of(fit, point) < capacity_bytes) {
        fit->is_planned[DAO_FIT_ASKED] = fit->is_planned[DAO_FIT_ASKED] && fit->asked_bytes == capacity_bytes;
        fit->asked_bytes = capacity_bytes;
        fit->below_asked = point;
        *out_point = DAO_FIT_ASKED;
    }
    return true;
}

dao_status_t dao_fit_swap_at(dao_fit_swap_t *fit, uint64_t capacity_bytes, dao_fit_point_t *out_point)
{
    uint32_t point;
    if (!find_point(fit, capacity_bytes, &point)) {
        return DAO_ERR_LIMIT;
    }
    return find_best(fit, point, out_point);
}

/* The bound of both ways. */
static dao_status_t find_bound_again(const dao_fit_swap_t *fit, uint32_t point, uint64_t *out_ns)
{
    dao_swap_problem_t problem = *fit->problem;
    dao_recompute_bound_t bound;
    problem.capacity_bytes = capacity_of(fit, point);
    dao_status_t status = dao_recompute_find_bound(&problem, &bound);
    *out_ns = status == DAO_OK ? bound.step_ns : 0;
    return status;
}

/* Finds the lowest point from which on up to `point` the bound is below a time: plans of no other one can be
   quicker. */
static dao_status_t find_lowest(const dao_fit_swap_t *fit, uint32_t point, uint64_t step_ns,
                                uint32_t *out_lowest)
{
    dao_status_t status = DAO_OK;
    uint64_t bound_ns = 0;
    *out_lowest = grid_end(fit, point);
    while (status == DAO_OK && *out_lowest > 0) {
        status = find_bound_again(fit, *out_lowest - 1, &bound_ns);
        if (status != DAO_OK || bound_ns >= step_ns) {
            break;
        }
        --*out_lowest;
    }
    return status;
}

/* Plans a point with kernels that run again, as the part number `part` of the phase, and keeps the quicker
   one of it and `best`. */
static dao_status_t plan_again(const dao_fit_swap_t *fit, uint32_t point, uint32_t part,
                               dao_fit_point_t *best)
{
    dao_fit_point_t again;
    tell_progress(&part, 0);
    dao_status_t status = run_scheme(fit, &part, point, best->step_ns, &again);
    *best = status == DAO_OK && again.step_ns <= best->step_ns ? again : *best;
    return status;
}

dao_status_t dao_fit_swap_again_at(dao_fit_swap_t *fit, uint64_t capacity_bytes, dao_fit_point_t *out_point)
{
    uint32_t point, lowest = 0;
    uint64_t bound_ns = 0;
    dao_fit_point_t best;
    if (!find_point(fit, capacity_bytes, &point)) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = find_bound_again(fit, point, &bound_ns);
    if (status != DAO_OK) {
        return status;
    }
    status = find_best(fit, point, &best);
    *out_point = best;
    out_point->bound_ns = bound_ns;
    if (status != DAO_OK && status != DAO_ERR_LIMIT) {
        return status;
    }
    dao_progress_phase(PHASE_AGAIN, DAO_PROGRESS_UNIT_PARTS, DAO_RECOMPUTE_PROGRESS_PARTS);
    status = plan_again(fit, point, 0, &best);
    if (status == DAO_OK) {
        status = find_lowest(fit, point, best.step_ns, &lowest);
    }
    uint32_t end = grid_end(fit, point);
    if (status == DAO_OK && lowest < end) {
        dao_progress_phase(PHASE_AGAIN ", for less memory", DAO_PROGRESS_UNIT_PARTS,
                           (uint64_t)(end - lowest) * DAO_RECOMPUTE_PROGRESS_PARTS);
    }
    for (uint32_t at = end; at-- > lowest && status == DAO_OK;) {
        status = plan_again(fit, at, end - at - 1, &best);
    }
    *out_point = best;
    out_point->bound_ns = bound_ns;
    return status == DAO_OK && best.step_ns == UINT64_MAX ? DAO_ERR_LIMIT : status;
}

/* Finds the smallest point whose bound is short enough, by halves: with less memory no step is shorter.
   DAO_FIT_GRID + 1: there is none. */
static dao_status_t find_first(const dao_fit_swap_t *fit, uint64_t step_ns, uint32_t *out_point)
{
    dao_status_t status = DAO_OK;
    uint32_t low = 0, high = DAO_FIT_GRID + 1;
    while (low < high && status == DAO_OK) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t bound_ns = 0;
        status = find_bound(fit, middle, &bound_ns);
        high = bound_ns <= step_ns ? middle : high;
        low = bound_ns <= step_ns ? low : middle + 1;
    }
    *out_point = low;
    return status;
}

/* The least time of a point and of all below it is short enough from the first point on whose own is. Where
   the bound is too long nothing is planned, and from there on the first plan that does is the answer. */
dao_status_t dao_fit_swap_for(dao_fit_swap_t *fit, uint64_t step_ns, dao_fit_point_t *out_point)
{
    uint32_t point = 0;
    dao_progress_phase(PHASE, DAO_PROGRESS_UNIT_PARTS, DAO_FIT_GRID + 1);
    dao_status_t status = find_first(fit, step_ns, &point);
    for (; point <= DAO_FIT_GRID && status == DAO_OK; point++) {
        dao_progress_set(point);
        status = plan_point(fit, point);
        if (status == DAO_OK && fit->planned[point].step_ns <= step_ns) {
            *out_point = fit->planned[point];
            return find_bound(fit, point, &out_point->bound_ns);
        }
    }
    return status == DAO_OK ? DAO_ERR_LIMIT : status;
}

dao_status_t dao_fit_swap_sweep(dao_fit_swap_t *fit, uint32_t count, dao_fit_point_t *out_points)
{
    dao_status_t status = DAO_OK;
    dao_progress_phase(PHASE, DAO_PROGRESS_UNIT_PARTS, count);
    for (uint32_t i = 0; i < count && status == DAO_OK; i++) {
        dao_progress_set(i);
        uint32_t point = (uint32_t)((uint64_t)DAO_FIT_GRID * i / (count - 1));
        uint64_t bound_ns = 0;
        status = plan_point(fit, point);
        status = status == DAO_OK ? find_bound(fit, point, &bound_ns) : status;
        if (status == DAO_OK) {
            const dao_fit_point_t *own = &fit->planned[point];
            out_points[i] = i > 0 && out_points[i - 1].step_ns < own->step_ns ? out_points[i - 1] : *own;
            out_points[i].capacity_bytes = own->capacity_bytes;
            out_points[i].bound_ns = bound_ns;
        }
    }
    return status;
}
