/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/report/swap.h"

#include "allocators/range/range.h"
#include "base/memory/host.h"
#include "base/report/error.h"

/* Steps that are run; the last is shown, which begins as the one before ends. */
enum { STEP_COUNT = 4 };

static dao_status_t simulate(const dao_report_swap_config_t *config, const dao_step_trace_t *trace,
                             dao_report_swap_t *swap)
{
    dao_swap_problem_t *problem = &swap->step.problem;
    const dao_scheme_t *scheme = NULL;
    dao_scheme_input_t input = {
        .problem = problem, .trace = trace, .threshold = DAO_TRACE_NONE, .step_count = STEP_COUNT};
    dao_status_t status = dao_scheme_find("plan", &scheme);
    if (status == DAO_OK) {
        status = dao_capacity_resolve(config->capacity, swap->fit.peak_bytes, &problem->capacity_bytes);
    }
    if (status == DAO_OK) {
        status = dao_swap_find_bound(problem, &swap->bound);
    }
    if (status == DAO_OK) {
        status = scheme->run(scheme, &input, &swap->run);
        swap->has_run = status == DAO_OK;
    }
    swap->stalls = status == DAO_OK ? dao_host_calloc(problem->kernel_count, sizeof(*swap->stalls)) : NULL;
    if (status == DAO_OK && swap->stalls == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to explain a step");
    }
    if (status == DAO_OK) {
        swap->first_step = swap->run.simulation.step_count - 1;
        dao_find_stalls(&swap->run.simulation, problem->kernel_count, swap->first_step, swap->stalls);
    }
    return status;
}

dao_status_t dao_report_swap_make(const dao_report_swap_config_t *config, const dao_step_trace_t *trace,
                                  dao_report_swap_t *out_swap)
{
    *out_swap = (dao_report_swap_t){.has_run = false};
    dao_status_t status = dao_step_problem_make(trace, &out_swap->step);
    if (status != DAO_OK) {
        return status;
    }
    out_swap->step.problem.page_bytes = DAO_PAGE_BYTES;
    out_swap->step.problem.host = (dao_swap_tier_t){.in_bytes_per_second = config->rate,
                                                    .latency_ns = DAO_STEP_LATENCY_NS,
                                                    .limit_bytes = config->host_bytes};
    status = dao_fit_swap_init(&out_swap->fit, trace, &out_swap->step.problem);
    if (status == DAO_OK) {
        out_swap->fit.is_sketch = true;
        status = dao_fit_swap_sweep(&out_swap->fit, DAO_REPORT_SWEEP_COUNT, out_swap->sweep);
    }
    return status == DAO_OK && config->capacity != NULL ? simulate(config, trace, out_swap) : status;
}

void dao_report_swap_finish(dao_report_swap_t *swap)
{
    dao_simulation_finish(&swap->run.simulation);
    dao_host_free(swap->stalls);
    dao_step_problem_finish(&swap->step);
    *swap = (dao_report_swap_t){.has_run = false};
}
