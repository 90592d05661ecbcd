/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/again/longer_step.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WORKSPACE_ID "workspace"

enum { ID_BYTES = 4200 }; /* a word of the form has 4,096 at most */

/* What a trace is made with. */
typedef struct maker {
    const dao_step_trace_t *trace;
    const dao_step_problem_t *step;
    const dao_recompute_step_t *longer;
    dao_step_trace_t *made;
    uint32_t *last_runs; /* of each tensor: run behind which it is released; DAO_TRACE_NONE: it stays */
    bool *is_alive;      /* of each tensor, before the run that is added */
    uint32_t *unused;    /* of each of the trace's tensors: the one here, if no kernel uses it */
} maker_t;

static dao_status_t copy_text(const maker_t *maker, size_t from, size_t *out_offset)
{
    *out_offset = DAO_TRACE_NO_NAME;
    return from == DAO_TRACE_NO_NAME
               ? DAO_OK
               : dao_step_trace_add_text(maker->made, dao_trace_name(maker->trace, from), out_offset);
}

/* Tensors have the numbers of the longer step. */
static dao_status_t add_tensors(const maker_t *maker)
{
    const dao_swap_problem_t *problem = &maker->longer->problem;
    uint32_t first_count = maker->step->problem.tensor_count;
    uint32_t *counts = dao_host_calloc((size_t)first_count + 1, sizeof(*counts));
    dao_status_t status =
        counts != NULL ? DAO_OK : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a longer step");
    for (uint32_t i = 0; status == DAO_OK && i < problem->tensor_count; i++) {
        uint32_t source = maker->longer->tensor_sources[i], tensor;
        const dao_trace_tensor_t *about = &maker->trace->tensors[maker->step->trace_tensors[source]];
        char id[ID_BYTES];
        (void)snprintf(id, sizeof(id), i < first_count ? "%s" : "%s@%" PRIu32,
                       dao_trace_name(maker->trace, about->id_offset), ++counts[source]);
        size_t tag, name;
        status = dao_step_trace_add_tensor(maker->made, id, problem->tensors[i].size_bytes, &tensor);
        status = status == DAO_OK ? copy_text(maker, about->tag_offset, &tag) : status;
        status = status == DAO_OK ? copy_text(maker, about->name_offset, &name) : status;
        if (status == DAO_OK) {
            maker->made->tensors[tensor].tag_offset = tag;
            maker->made->tensors[tensor].name_offset = name;
            maker->is_alive[i] = problem->tensors[i].is_persistent;
        }
    }
    dao_host_free(counts);
    return status;
}

static void find_last_runs(const maker_t *maker)
{
    const dao_swap_problem_t *problem = &maker->longer->problem;
    for (uint32_t i = 0; i < problem->tensor_count; i++) {
        maker->last_runs[i] = DAO_TRACE_NONE;
    }
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        for (uint32_t u = 0; u < problem->kernels[k].use_count; u++) {
            uint32_t tensor = problem->kernels[k].uses[u].tensor;
            maker->last_runs[tensor] = problem->tensors[tensor].is_persistent ? DAO_TRACE_NONE : k;
        }
    }
}

/* What no kernel uses, such as a gradient that an operator drops, takes memory until the trace releases it.
 */
static void find_unused(const maker_t *maker)
{
    const dao_swap_problem_t *problem = &maker->step->problem;
    for (uint32_t t = 0; t < maker->trace->tensor_count; t++) {
        maker->unused[t] = DAO_TRACE_NONE;
    }
    for (uint32_t i = 0; i < problem->tensor_count; i++) {
        maker->unused[maker->step->trace_tensors[i]] = i;
    }
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        for (uint32_t u = 0; u < problem->kernels[k].use_count; u++) {
            maker->unused[maker->step->trace_tensors[problem->kernels[k].uses[u].tensor]] = DAO_TRACE_NONE;
        }
    }
}

/* Accesses of a kind; an output brings its tensor to life, and what is alive is written over. */
static dao_status_t add_accesses(const maker_t *maker, uint32_t run, dao_access_t access, bool is_output)
{
    const dao_swap_kernel_t *kernel = &maker->longer->problem.kernels[run];
    dao_status_t status = DAO_OK;
    for (uint32_t u = 0; status == DAO_OK && u < kernel->use_count; u++) {
        uint32_t tensor = kernel->uses[u].tensor;
        if (kernel->uses[u].access != access) {
            continue;
        }
        if (access == DAO_ACCESS_READ) {
            status = dao_step_trace_add_input(maker->made, tensor);
        } else if (access == DAO_ACCESS_READ_WRITE) {
            status = dao_step_trace_add_mutate(maker->made, tensor);
        } else if (is_output && !maker->is_alive[tensor]) {
            status = dao_step_trace_add_output(maker->made, tensor);
        } else if (!is_output && maker->is_alive[tensor]) {
            status = dao_step_trace_add_overwrite(maker->made, tensor);
        }
    }
    return status;
}

static dao_status_t add_releases(const maker_t *maker, uint32_t run)
{
    const dao_swap_kernel_t *kernel = &maker->longer->problem.kernels[run];
    dao_status_t status = DAO_OK;
    for (uint32_t u = 0; status == DAO_OK && u < kernel->use_count; u++) {
        uint32_t tensor = kernel->uses[u].tensor;
        maker->is_alive[tensor] = true;
        if (maker->last_runs[tensor] == run) {
            maker->last_runs[tensor] = DAO_TRACE_NONE; /* it may be named twice */
            status = dao_step_trace_add_release(maker->made, tensor);
        }
    }
    return status;
}

static dao_status_t release_unused(const maker_t *maker, const dao_trace_operator_t *source)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; status == DAO_OK && i < source->releases.count; i++) {
        uint32_t tensor = maker->unused[maker->trace->releases[source->releases.begin + i]];
        status = tensor != DAO_TRACE_NONE ? dao_step_trace_add_release(maker->made, tensor) : DAO_OK;
    }
    return status;
}

static dao_status_t add_run(const maker_t *maker, uint32_t run)
{
    const dao_swap_kernel_t *kernel = &maker->longer->problem.kernels[run];
    uint32_t index = maker->longer->runs[run].kernel;
    const dao_trace_operator_t *source = &maker->trace->operators[index];
    dao_step_trace_t *made = maker->made;
    dao_status_t status = dao_step_trace_add_operator(made, dao_trace_operator_name(maker->trace, index));
    if (status != DAO_OK) {
        return status;
    }
    size_t module;
    status = copy_text(maker, source->module_offset, &module);
    dao_trace_operator_t *op = &made->operators[run];
    op->module_offset = module;
    op->cost_ns = kernel->time_ns;
    op->is_pure = kernel->is_repeatable;
    if (index == maker->trace->first_backward && !maker->longer->runs[run].is_again) {
        made->first_backward = run;
    }
    status = status == DAO_OK ? add_accesses(maker, run, DAO_ACCESS_READ, false) : status;
    status = status == DAO_OK ? add_accesses(maker, run, DAO_ACCESS_READ_WRITE, false) : status;
    status = status == DAO_OK ? add_accesses(maker, run, DAO_ACCESS_WRITE, true) : status;
    status = status == DAO_OK ? add_accesses(maker, run, DAO_ACCESS_WRITE, false) : status;
    status = status == DAO_OK ? add_releases(maker, run) : status;
    status = status == DAO_OK && !maker->longer->runs[run].is_again ? release_unused(maker, source) : status;
    if (status == DAO_OK) {
        dao_step_trace_begin_temporaries(made, run);
    }
    return status == DAO_OK && kernel->workspace_bytes > 0
               ? dao_step_trace_add_alloc(made, run, WORKSPACE_ID, kernel->workspace_bytes)
               : status;
}

dao_status_t dao_longer_step_make(const dao_step_trace_t *trace, const dao_step_problem_t *step,
                                  const dao_recompute_step_t *longer, dao_step_trace_t *out_trace)
{
    size_t tensors = (size_t)longer->problem.tensor_count + 1;
    maker_t maker = {.trace = trace,
                     .step = step,
                     .longer = longer,
                     .made = out_trace,
                     .last_runs = dao_host_calloc(tensors, sizeof(*maker.last_runs)),
                     .is_alive = dao_host_calloc(tensors, sizeof(*maker.is_alive)),
                     .unused = dao_host_calloc(trace->tensor_count + 1, sizeof(*maker.unused))};
    dao_step_trace_init(out_trace);
    dao_step_trace_name(out_trace, trace->model, strlen(trace->model), trace->batch);
    dao_status_t status = DAO_OK;
    if (maker.last_runs == NULL || maker.is_alive == NULL || maker.unused == NULL) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a longer step");
    }
    if (status == DAO_OK) {
        find_last_runs(&maker);
        find_unused(&maker);
        status = add_tensors(&maker);
    }
    for (uint32_t run = 0; status == DAO_OK && run < longer->problem.kernel_count; run++) {
        status = add_run(&maker, run);
    }
    status = status == DAO_OK ? dao_step_trace_pack(out_trace) : status;
    dao_host_free(maker.last_runs);
    dao_host_free(maker.is_alive);
    dao_host_free(maker.unused);
    if (status != DAO_OK) {
        dao_step_trace_finish(out_trace);
    }
    return status;
}

/* ---- the check ---- */

/* Puts the uses of a kernel into the order of another one with the same tensors. False: they have others. */
static bool order_uses(const dao_swap_kernel_t *like, const dao_swap_kernel_t *kernel, dao_swap_use_t *uses)
{
    for (uint32_t u = 0; u < like->use_count; u++) {
        uint32_t at = u;
        while (at < kernel->use_count && uses[at].tensor != like->uses[u].tensor) {
            at++;
        }
        if (at >= kernel->use_count) {
            return false;
        }
        dao_swap_use_t found = uses[at];
        uses[at] = uses[u];
        uses[u] = found;
    }
    return like->use_count == kernel->use_count;
}

/* The numbers of tensors in a file are those of their first appearance, and their ids tell which is which. */
static dao_status_t check_read(const dao_step_problem_t *step, const dao_recompute_step_t *longer,
                               dao_step_problem_t *read)
{
    dao_swap_use_t *uses = read->uses;
    bool is_same = read->problem.kernel_count == longer->problem.kernel_count &&
                   read->problem.tensor_count == longer->problem.tensor_count;
    for (uint32_t k = 0; is_same && k < read->problem.kernel_count; k++) {
        is_same = order_uses(&longer->problem.kernels[k], &read->kernels[k], uses);
        uses += read->kernels[k].use_count;
    }
    if (!is_same) {
        return dao_error(DAO_ERR_CORRUPT, "the file has other operators or tensors than the plan");
    }
    dao_recompute_step_t again = *longer;
    again.problem = read->problem;
    return dao_recompute_check(&step->problem, &again);
}

dao_status_t dao_longer_step_check(const dao_step_problem_t *step, const dao_recompute_step_t *longer,
                                   const dao_step_trace_t *trace)
{
    dao_step_problem_t read;
    dao_status_t status = dao_step_problem_make(trace, &read);
    if (status == DAO_OK) {
        status = check_read(step, longer, &read);
        dao_step_problem_finish(&read);
    }
    return status;
}
