/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor of the step may have several in the longer one, one after the other: its own, and one for each
   time that it is made again. The managed tensor goes from one to the next, so at each moment it has one of
   them:

       longer step    k0 writes T    k1 reads T    k0 again writes T'    k2 reads T'
       managed        T <----------------------->  T' <------------------------->

   A second output that the run again writes as well, though it is still there, is scratch: it gets a place,
   and no tensor. */
#include "runtime/executor/plans/plan_runs.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

bool dao_plan_runs_may_repeat(const dao_swap_problem_t *problem, uint32_t kernel,
                              const uint32_t *writer_counts)
{
    const dao_swap_kernel_t *one = &problem->kernels[kernel];
    bool may_repeat = one->is_repeatable;
    for (uint32_t i = 0; may_repeat && i < one->use_count; i++) {
        uint32_t tensor = one->uses[i].tensor;
        may_repeat = one->uses[i].access == DAO_ACCESS_READ ||
                     (one->uses[i].access == DAO_ACCESS_WRITE && writer_counts[tensor] == 1 &&
                      !problem->tensors[tensor].is_persistent);
    }
    return may_repeat;
}

void dao_plan_runs_finish(dao_plan_runs_t *runs)
{
    for (uint32_t i = 0; runs->kept != NULL && i < runs->kernel_count; i++) {
        DAO_ASSERT(runs->kept[i] == NULL);
    }
    dao_host_free(runs->roles);
    dao_host_free(runs->is_scratch);
    dao_host_free(runs->counts);
    dao_host_free(runs->makers);
    dao_host_free(runs->made_until);
    dao_host_free(runs->kept);
    dao_host_free(runs->scratch);
    dao_recompute_plan_destroy(runs->plan);
    memset(runs, 0, sizeof(*runs));
}

static bool allocate(dao_plan_runs_t *runs, const dao_swap_problem_t *problem)
{
    const dao_swap_problem_t *longer = &runs->step->problem;
    size_t use_count = 1, most_uses = 1;
    for (uint32_t k = 0; k < longer->kernel_count; k++) {
        use_count += longer->kernels[k].use_count;
        most_uses = longer->kernels[k].use_count > most_uses ? longer->kernels[k].use_count : most_uses;
    }
    size_t kernels = (size_t)problem->kernel_count + 1, tensors = (size_t)problem->tensor_count + 1;
    runs->kernel_count = problem->kernel_count;
    runs->roles = dao_host_calloc(use_count, sizeof(*runs->roles));
    runs->is_scratch = dao_host_calloc((size_t)longer->tensor_count + 1, sizeof(*runs->is_scratch));
    runs->counts = dao_host_calloc(kernels, sizeof(*runs->counts));
    runs->makers = dao_host_calloc(tensors, sizeof(*runs->makers));
    runs->made_until = dao_host_calloc(tensors, sizeof(*runs->made_until));
    runs->kept = dao_host_calloc(kernels, sizeof(dao_item_t *));
    runs->scratch = dao_host_calloc(most_uses, sizeof(*runs->scratch));
    return runs->roles != NULL && runs->is_scratch != NULL && runs->counts != NULL && runs->makers != NULL &&
           runs->made_until != NULL && runs->kept != NULL && runs->scratch != NULL;
}

static void list_uses(dao_plan_runs_t *runs)
{
    const dao_swap_problem_t *longer = &runs->step->problem;
    uint32_t count = 0;
    for (uint32_t k = 0; k < longer->kernel_count; k++) {
        for (uint32_t i = 0; i < longer->kernels[k].use_count; i++) {
            const dao_swap_use_t *use = &longer->kernels[k].uses[i];
            runs->roles[count++] = use->tensor;
            /* only until a use reads it */
            runs->is_scratch[use->tensor] = use->access == DAO_ACCESS_WRITE && runs->step->runs[k].is_again;
        }
    }
}

/* Follows the managed tensors through the kernel `index` of the longer step. `now` has for each of them the
   tensor of the longer step that it is. */
static bool pass_kernel(dao_plan_runs_t *runs, uint32_t index, uint32_t operation, uint32_t *now)
{
    const dao_swap_kernel_t *kernel = &runs->step->problem.kernels[index];
    const dao_recompute_run_t *run = &runs->step->runs[index];
    bool is_fit = true;
    for (uint32_t i = 0; is_fit && i < kernel->use_count; i++) {
        uint32_t tensor = kernel->uses[i].tensor, source = runs->step->tensor_sources[tensor];
        bool is_read = kernel->uses[i].access != DAO_ACCESS_WRITE;
        is_fit = is_read ? now[source] == tensor : run->is_again || tensor == source;
        if (is_read) {
            is_fit = is_fit && !(run->is_again && kernel->uses[i].access == DAO_ACCESS_READ_WRITE);
        } else if (!runs->is_scratch[tensor]) {
            now[source] = tensor;
            runs->makers[source] = run->is_again ? run->kernel : runs->makers[source];
            runs->made_until[source] = run->is_again ? operation + 1 : runs->made_until[source];
        }
    }
    runs->counts[run->kernel] += run->is_again ? 1 : 0;
    return is_fit;
}

/* Kernels are in their order among all operations. */
static bool pass_step(dao_plan_runs_t *runs, const dao_swap_problem_t *problem,
                      const dao_issue_order_t *order, uint32_t *now)
{
    bool is_fit = true;
    for (uint32_t i = 0; is_fit && i < order->count; i++) {
        dao_issue_operation_t operation = order->operations[i];
        if (dao_issue_order_streams[operation.stream] == DAO_SWAP_STREAM_COMPUTE) {
            is_fit = pass_kernel(runs, operation.index, i, now);
        }
    }
    for (uint32_t i = 0; is_fit && i < problem->tensor_count; i++) {
        is_fit = now[i] == i || !problem->tensors[i].is_persistent;
    }
    return is_fit;
}

dao_status_t dao_plan_runs_init(dao_plan_runs_t *runs, dao_recompute_plan_t *plan,
                                const dao_swap_problem_t *problem, const dao_issue_order_t *order)
{
    *runs = (dao_plan_runs_t){.plan = plan, .step = dao_recompute_plan_step(plan)};
    uint32_t *now = dao_host_calloc((size_t)problem->tensor_count + 1, sizeof(*now));
    if (now == NULL || !allocate(runs, problem)) {
        dao_host_free(now);
        dao_plan_runs_finish(runs);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the runs of a step's plan");
    }
    list_uses(runs);
    for (uint32_t i = 0; i < problem->tensor_count; i++) {
        now[i] = i;
    }
    bool is_fit = pass_step(runs, problem, order, now);
    dao_host_free(now);
    if (!is_fit) {
        dao_plan_runs_finish(runs);
        return dao_error(DAO_ERR_UNSUPPORTED, "the plan has a tensor in two versions at a time");
    }
    return DAO_OK;
}
