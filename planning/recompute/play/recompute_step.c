/* SPDX-License-Identifier: Apache-2.0 */
#include "planning/recompute/play/recompute_step.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

#include <string.h>

/* Makes room in an array for `more` elements behind the first `count`. */
static bool reserve(void **array, uint32_t count, uint32_t more, uint32_t *capacity, size_t size_bytes)
{
    if (more <= *capacity - count) {
        return true;
    }
    uint64_t wanted = ((uint64_t)count + more) * 2;
    void *larger = wanted <= UINT32_MAX ? dao_host_realloc(*array, (size_t)wanted, size_bytes) : NULL;
    if (larger == NULL) {
        return false;
    }
    *array = larger;
    *capacity = (uint32_t)wanted;
    return true;
}

/* The same for two arrays with one capacity. */
static bool reserve_both(void **first, size_t first_bytes, void **second, size_t second_bytes, uint32_t count,
                         uint32_t more, uint32_t *capacity)
{
    uint32_t other = *capacity;
    return reserve(first, count, more, &other, first_bytes) &&
           reserve(second, count, more, capacity, second_bytes);
}

static bool reserve_tensors(dao_recompute_draft_t *draft, uint32_t more)
{
    return reserve_both((void **)&draft->tensors, sizeof(*draft->tensors), (void **)&draft->tensor_sources,
                        sizeof(*draft->tensor_sources), draft->tensor_count, more, &draft->tensor_capacity);
}

dao_status_t dao_recompute_draft_init(dao_recompute_draft_t *draft, const dao_swap_problem_t *problem)
{
    *draft = (dao_recompute_draft_t){.problem = problem};
    if (!reserve_tensors(draft, problem->tensor_count + 1)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a step with repeated runs");
    }
    for (uint32_t i = 0; i < problem->tensor_count; i++) {
        draft->tensors[i] = problem->tensors[i];
        draft->tensor_sources[i] = i;
    }
    dao_recompute_draft_clear(draft);
    return DAO_OK;
}

void dao_recompute_draft_finish(dao_recompute_draft_t *draft)
{
    dao_host_free(draft->tensors);
    dao_host_free(draft->tensor_sources);
    dao_host_free(draft->uses);
    dao_host_free(draft->kernels);
    dao_host_free(draft->runs);
    memset(draft, 0, sizeof(*draft));
}

void dao_recompute_draft_clear(dao_recompute_draft_t *draft)
{
    draft->tensor_count = draft->problem->tensor_count;
    draft->use_count = draft->kernel_count = 0;
    draft->again_ns = 0;
}

bool dao_recompute_draft_add_tensor(dao_recompute_draft_t *draft, uint32_t source, uint32_t *out_tensor)
{
    DAO_ASSERT(source < draft->problem->tensor_count);
    if (!reserve_tensors(draft, 1)) {
        return false;
    }
    draft->tensors[draft->tensor_count] =
        (dao_swap_tensor_t){.size_bytes = draft->problem->tensors[source].size_bytes};
    draft->tensor_sources[draft->tensor_count] = source;
    *out_tensor = draft->tensor_count++;
    return true;
}

bool dao_recompute_draft_add_run(dao_recompute_draft_t *draft, uint32_t kernel, bool is_again,
                                 uint32_t (*operand_at)(const void *user, uint32_t tensor), const void *user)
{
    const dao_swap_kernel_t *source = &draft->problem->kernels[kernel];
    if (!reserve((void **)&draft->uses, draft->use_count, source->use_count, &draft->use_capacity,
                 sizeof(*draft->uses)) ||
        !reserve_both((void **)&draft->kernels, sizeof(*draft->kernels), (void **)&draft->runs,
                      sizeof(*draft->runs), draft->kernel_count, 1, &draft->kernel_capacity)) {
        return false;
    }
    for (uint32_t i = 0; i < source->use_count; i++) {
        draft->uses[draft->use_count++] =
            (dao_swap_use_t){operand_at(user, source->uses[i].tensor), source->uses[i].access};
    }
    draft->kernels[draft->kernel_count] = *source;
    draft->runs[draft->kernel_count++] = (dao_recompute_run_t){.kernel = kernel, .is_again = is_again};
    draft->again_ns += is_again ? source->time_ns : 0;
    return true;
}

static uint32_t same_tensor(const void *user, uint32_t tensor)
{
    (void)user;
    return tensor;
}

bool dao_recompute_draft_add_first(dao_recompute_draft_t *draft, uint32_t kernel)
{
    return dao_recompute_draft_add_run(draft, kernel, false, same_tensor, NULL);
}

dao_swap_problem_t dao_recompute_draft_problem(dao_recompute_draft_t *draft)
{
    dao_swap_problem_t problem = *draft->problem;
    uint32_t use = 0;
    for (uint32_t i = 0; i < draft->kernel_count; i++) {
        draft->kernels[i].uses = draft->uses + use;
        use += draft->kernels[i].use_count;
    }
    DAO_ASSERT(use == draft->use_count);
    problem.tensors = draft->tensors;
    problem.tensor_count = draft->tensor_count;
    problem.kernels = draft->kernels;
    problem.kernel_count = draft->kernel_count;
    return problem;
}
