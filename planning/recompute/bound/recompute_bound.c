/* SPDX-License-Identifier: Apache-2.0 */
/* The bound of a step that copies and runs kernels again: the greatest one of three forms, windows one after
   the other, a pair of windows with others in the rest of the step, and windows again, of which those that
   decide are weighed with the inputs of what runs again. */
#include <dao/recompute.h>

#include "base/numbers/math.h"
#include "planning/recompute/bound/recompute_deciding.h"
#include "planning/recompute/bound/recompute_pairs.h"
#include "planning/swap/step/swap_fence.h"

/* Writes the window of the best sum that adds most. */
static void report_window(const dao_recompute_windows_t *windows, uint32_t start,
                          dao_recompute_bound_t *bound)
{
    uint32_t m = windows->place_count;
    for (uint32_t end = m; end > 0;) {
        uint32_t begin = windows->from[end];
        if (begin == DAO_RECOMPUTE_NO_PLACE) {
            end--;
            continue;
        }
        uint64_t added_ns = windows->sums_ns[end] - windows->sums_ns[begin];
        if (added_ns > bound->window_added_ns) {
            uint32_t first = windows->first[(start + begin) % m], last = windows->first[(start + end) % m];
            uint32_t n = windows->contents->step->kernel_count;
            bound->window_added_ns = added_ns;
            bound->window_first_kernel = first;
            bound->window_kernel_count = (last + n - first - 1) % n + 1;
        }
        end = begin;
    }
}

static dao_status_t find_forms(const dao_recompute_contents_t *contents, dao_recompute_bound_t *bound)
{
    dao_recompute_windows_t windows;
    dao_recompute_pair_t pair = {.added_ns = 0};
    uint32_t start;
    dao_status_t status = dao_recompute_windows_init(&windows, contents);
    if (status != DAO_OK) {
        return status;
    }
    bound->window_ns = bound->compute_ns + dao_recompute_windows_best(&windows, &start);
    report_window(&windows, start, bound);
    uint64_t decided_ns = 0;
    status = dao_recompute_pairs_best(&windows, &pair);
    status = status == DAO_OK ? dao_recompute_windows_decide(&windows, &decided_ns) : status;
    bound->cut_ns = bound->compute_ns + decided_ns;
    bound->pair_ns = bound->compute_ns + pair.added_ns;
    if (pair.added_ns > 0) {
        uint32_t length = pair.first_length + pair.second_length;
        bound->pair_ns += dao_recompute_windows_sum(&windows, (pair.begin + length) % windows.place_count,
                                                    windows.place_count - length);
    }
    bound->step_ns = dao_larger(bound->window_ns, dao_larger(bound->pair_ns, bound->cut_ns));
    dao_recompute_windows_finish(&windows);
    return status;
}

dao_status_t dao_recompute_find_bound(const dao_swap_problem_t *problem, dao_recompute_bound_t *out_bound)
{
    if (problem == NULL || out_bound == NULL) {
        return dao_error(DAO_ERR_INVALID, "the problem or the place for its bound is NULL");
    }
    dao_swap_problem_t exact = dao_swap_problem_exact(problem);
    dao_swap_step_t step;
    dao_recompute_contents_t contents;
    dao_status_t status = dao_swap_step_init(&step, &exact);
    if (status != DAO_OK) {
        return status;
    }
    if (dao_swap_compute_stream_count(problem) > 1) {
        dao_swap_step_finish(&step);
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "the bound of runs again is one of kernels on one compute stream");
    }
    dao_recompute_bound_t bound = {.compute_ns = step.time_before[step.kernel_count]};
    status = dao_swap_step_check_capacity(&step, exact.capacity_bytes);
    status = status == DAO_OK ? dao_recompute_contents_init(&contents, &step) : status;
    if (status == DAO_OK) {
        status = find_forms(&contents, &bound);
        dao_recompute_contents_finish(&contents);
    }
    dao_swap_step_finish(&step);
    if (status == DAO_OK) {
        *out_bound = bound;
    }
    return status;
}
