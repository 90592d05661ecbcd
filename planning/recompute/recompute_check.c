/* SPDX-License-Identifier: Apache-2.0 */
/* Values are carried through both steps: what a kernel writes to a tensor is a hash of the kernel, the
   tensor, and all that it reads. A repeated run that reads a stale or a missing input would write another
   value, and is found as it reads it. */
#include <dao/recompute.h>

#include "base/memory/host.h"
#include "base/numbers/random.h"
#include "base/report/error.h"
#include "planning/swap/step/swap_step.h"

#include <inttypes.h>
#include <string.h>

#define VALUE_NONE UINT64_C(0) /* of a tensor before it is written */

typedef struct checker {
    const dao_swap_problem_t *problem;
    const dao_recompute_step_t *step;
    uint64_t *values; /* of each tensor, in the step that is carried through */
    uint64_t *ends;   /* of each tensor of the problem, as that ends */
    uint64_t *inputs; /* of each kernel of the problem: a hash of what it reads */
    bool *lives_on;   /* of each tensor of the problem: its content goes on into the next step */
    uint32_t next_kernel;
} checker_t;

/* What is kept, or read before it is written, lives on. */
static void find_living(checker_t *checker)
{
    const dao_swap_problem_t *problem = checker->problem;
    for (uint32_t k = problem->kernel_count;
         k-- > 0;) { /* the first kernel that uses a tensor has the last word */
        for (uint32_t u = 0; u < problem->kernels[k].use_count; u++) {
            checker->lives_on[problem->kernels[k].uses[u].tensor] = false;
        }
        for (uint32_t u = 0; u < problem->kernels[k].use_count; u++) {
            const dao_swap_use_t *use = &problem->kernels[k].uses[u];
            checker->lives_on[use->tensor] =
                checker->lives_on[use->tensor] || use->access != DAO_ACCESS_WRITE;
        }
    }
    for (uint32_t t = 0; t < problem->tensor_count; t++) {
        checker->lives_on[t] = checker->lives_on[t] || problem->tensors[t].is_persistent;
    }
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    return dao_random_mix(hash * 3 + word + 1);
}

/* Carries a run through. Returns the hash of what it reads. `sources`: which tensor each one stands for;
   NULL: itself. */
static uint64_t carry(checker_t *checker, const dao_swap_kernel_t *kernel, uint32_t index,
                      const uint32_t *sources)
{
    uint64_t read = index;
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        if (kernel->uses[u].access != DAO_ACCESS_WRITE) {
            read = mix(read, checker->values[kernel->uses[u].tensor]);
        }
    }
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        uint32_t tensor = kernel->uses[u].tensor;
        if (kernel->uses[u].access != DAO_ACCESS_READ) {
            checker->values[tensor] = mix(mix(read, sources != NULL ? sources[tensor] : tensor), index) | 1;
        }
    }
    return read;
}

/* What lives on has a value as a step begins; all else has none. */
static void begin(checker_t *checker, uint32_t tensor_count)
{
    for (uint32_t t = 0; t < tensor_count; t++) {
        checker->values[t] =
            t < checker->problem->tensor_count && checker->lives_on[t] ? mix(t, t) | 1 : VALUE_NONE;
    }
}

/* The lists of a step are there. */
static dao_status_t check_lists(const dao_recompute_step_t *step)
{
    const dao_swap_problem_t *problem = &step->problem;
    bool has_none = problem->tensor_count > 0 && (problem->tensors == NULL || step->tensor_sources == NULL);
    if (has_none || (problem->kernel_count > 0 && (problem->kernels == NULL || step->runs == NULL))) {
        return dao_error(
            DAO_ERR_INVALID,
            "dao_recompute_check: a list of the %s of the longer step, which are %" PRIu32 ", is NULL",
            has_none ? "tensors" : "kernels", has_none ? problem->tensor_count : problem->kernel_count);
    }
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        if (problem->kernels[k].uses == NULL && problem->kernels[k].use_count > 0) {
            return dao_error(DAO_ERR_INVALID,
                             "dao_recompute_check: run %" PRIu32 " names %" PRIu32
                             " tensors, and its list is NULL",
                             k, problem->kernels[k].use_count);
        }
    }
    return DAO_OK;
}

static dao_status_t check_tensors(const checker_t *checker)
{
    const dao_recompute_step_t *step = checker->step;
    const dao_swap_problem_t *problem = checker->problem;
    if (step->problem.tensor_count < problem->tensor_count) {
        return dao_error(DAO_ERR_CORRUPT, "the longer step has %" PRIu32 " tensors of %" PRIu32,
                         step->problem.tensor_count, problem->tensor_count);
    }
    for (uint32_t t = 0; t < step->problem.tensor_count; t++) {
        const dao_swap_tensor_t *tensor = &step->problem.tensors[t];
        uint32_t source = step->tensor_sources[t];
        bool is_first = t < problem->tensor_count;
        if (source >= problem->tensor_count || (is_first && source != t) ||
            tensor->size_bytes != problem->tensors[source].size_bytes ||
            tensor->is_persistent != (is_first && problem->tensors[source].is_persistent) ||
            tensor->is_from_file != (is_first && problem->tensors[source].is_from_file)) {
            return dao_error(DAO_ERR_CORRUPT, "tensor %" PRIu32 " of the longer step stands for none", t);
        }
    }
    return DAO_OK;
}

/* A run is its kernel, with tensors that stand for those of it. */
static bool is_run_of(const checker_t *checker, const dao_swap_kernel_t *run, const dao_swap_kernel_t *kernel)
{
    bool is_same = run->time_ns == kernel->time_ns && run->workspace_bytes == kernel->workspace_bytes &&
                   run->use_count == kernel->use_count;
    for (uint32_t u = 0; is_same && u < run->use_count; u++) {
        is_same = run->uses[u].tensor < checker->step->problem.tensor_count &&
                  checker->step->tensor_sources[run->uses[u].tensor] == kernel->uses[u].tensor &&
                  run->uses[u].access == kernel->uses[u].access;
    }
    return is_same;
}

static dao_status_t check_run(checker_t *checker, uint32_t index)
{
    const dao_swap_problem_t *problem = checker->problem;
    const dao_recompute_run_t *run = &checker->step->runs[index];
    const dao_swap_kernel_t *kernel = &checker->step->problem.kernels[index];
    if (run->kernel >= problem->kernel_count || !is_run_of(checker, kernel, &problem->kernels[run->kernel])) {
        return dao_error(DAO_ERR_CORRUPT, "run %" PRIu32 " is none of kernel %" PRIu32, index, run->kernel);
    }
    if (run->is_again ? !problem->kernels[run->kernel].is_repeatable || run->kernel >= checker->next_kernel
                      : run->kernel != checker->next_kernel++) {
        return dao_error(DAO_ERR_CORRUPT, "run %" PRIu32 ": kernel %" PRIu32 " may not run here", index,
                         run->kernel);
    }
    for (uint32_t u = 0; run->is_again && u < kernel->use_count; u++) {
        const dao_swap_use_t *use = &kernel->uses[u];
        if (use->access != DAO_ACCESS_READ && use->tensor < problem->tensor_count &&
            checker->lives_on[use->tensor]) {
            return dao_error(DAO_ERR_CORRUPT, "run %" PRIu32 " of kernel %" PRIu32 " writes what lives on",
                             index, run->kernel);
        }
    }
    if (carry(checker, kernel, run->kernel, checker->step->tensor_sources) != checker->inputs[run->kernel]) {
        return dao_error(DAO_ERR_CORRUPT,
                         "run %" PRIu32 " of kernel %" PRIu32 " reads something else than the first one did",
                         index, run->kernel);
    }
    return DAO_OK;
}

static dao_status_t check_runs(checker_t *checker)
{
    const dao_swap_problem_t *problem = checker->problem;
    dao_status_t status = DAO_OK;
    find_living(checker);
    begin(checker, problem->tensor_count);
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        checker->inputs[k] = carry(checker, &problem->kernels[k], k, NULL);
    }
    memcpy(checker->ends, checker->values, problem->tensor_count * sizeof(*checker->ends));
    begin(checker, checker->step->problem.tensor_count);
    for (uint32_t i = 0; status == DAO_OK && i < checker->step->problem.kernel_count; i++) {
        status = check_run(checker, i);
    }
    if (status == DAO_OK && checker->next_kernel != problem->kernel_count) {
        status = dao_error(DAO_ERR_CORRUPT, "kernel %" PRIu32 " does not run", checker->next_kernel);
    }
    for (uint32_t t = 0; status == DAO_OK && t < problem->tensor_count; t++) {
        if (checker->lives_on[t] && checker->values[t] != checker->ends[t]) {
            status = dao_error(DAO_ERR_CORRUPT, "tensor %" PRIu32 " ends as something else", t);
        }
    }
    return status;
}

dao_status_t dao_recompute_check(const dao_swap_problem_t *problem, const dao_recompute_step_t *step)
{
    if (problem == NULL || step == NULL) {
        return dao_error_null(__func__, problem == NULL ? "problem" : "step");
    }
    dao_status_t status = dao_swap_step_check_work(problem);
    status = status == DAO_OK ? check_lists(step) : status;
    if (status != DAO_OK) {
        return status;
    }
    checker_t checker = {
        .problem = problem,
        .step = step,
        .values = dao_host_calloc((size_t)step->problem.tensor_count + 1, sizeof(*checker.values)),
        .ends = dao_host_calloc((size_t)problem->tensor_count + 1, sizeof(*checker.ends)),
        .inputs = dao_host_calloc(problem->kernel_count, sizeof(*checker.inputs)),
        .lives_on = dao_host_calloc((size_t)problem->tensor_count + 1, sizeof(*checker.lives_on)),
    };
    if (checker.values == NULL || checker.ends == NULL || checker.inputs == NULL ||
        checker.lives_on == NULL) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to check a step with repeated runs");
    }
    status = status == DAO_OK ? check_tensors(&checker) : status;
    status = status == DAO_OK ? check_runs(&checker) : status;
    dao_host_free(checker.values);
    dao_host_free(checker.ends);
    dao_host_free(checker.inputs);
    dao_host_free(checker.lives_on);
    return status;
}
