/* SPDX-License-Identifier: Apache-2.0 */
#include "planning/recompute/bound/recompute_contents.h"

#include "base/memory/host.h"

#include <string.h>

bool dao_recompute_lives_on(const dao_swap_step_t *step, uint32_t tensor)
{
    return tensor < step->problem->tensor_count &&
           (step->problem->tensors[tensor].is_persistent || step->accesses[step->first_access[tensor]].reads);
}

/* A kernel that changes in place what lives on does something else when it runs again. */
static bool may_repeat(const dao_swap_step_t *step, uint32_t kernel)
{
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        if (one->reads && one->writes && dao_recompute_lives_on(step, one->tensor)) {
            return false;
        }
    }
    return step->problem->kernels[kernel].is_repeatable;
}

/* Kernels from one to the first that writes anew what it reads. */
static uint32_t find_fresh_length(const dao_recompute_contents_t *contents, uint32_t kernel)
{
    const dao_swap_step_t *step = contents->step;
    uint32_t n = step->kernel_count, least = n + 1;
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        uint32_t content = step->accesses[i].reads ? dao_recompute_found(contents, i) : DAO_SWAP_NONE;
        if (content != DAO_SWAP_NONE) {
            uint32_t length = (step->accesses[content].kernel + n - kernel - 1) % n + 1;
            least = length < least ? length : least;
        }
    }
    return least;
}

dao_status_t dao_recompute_contents_init(dao_recompute_contents_t *contents, const dao_swap_step_t *step)
{
    size_t kernels = step->kernel_count, accesses = (size_t)step->access_count + 1;
    *contents = (dao_recompute_contents_t){
        .step = step,
        .previous = dao_host_calloc(accesses, sizeof(*contents->previous)),
        .length = dao_host_calloc(accesses, sizeof(*contents->length)),
        .again_bytes = dao_host_calloc(kernels, sizeof(*contents->again_bytes)),
        .fresh_length = dao_host_calloc(kernels, sizeof(*contents->fresh_length)),
        .is_repeatable = dao_host_calloc(kernels, sizeof(*contents->is_repeatable)),
    };
    if (contents->previous == NULL || contents->length == NULL || contents->again_bytes == NULL ||
        contents->fresh_length == NULL || contents->is_repeatable == NULL) {
        dao_recompute_contents_finish(contents);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the contents of a step");
    }
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        uint32_t end;
        contents->previous[one->next] = i;
        contents->length[i] = one->writes ? dao_swap_content_length(step, i, &end) : 0;
        contents->again_bytes[one->kernel] += contents->length[i] != 0 ? step->size_bytes[one->tensor] : 0;
    }
    for (uint32_t k = 0; k < step->kernel_count; k++) {
        contents->is_repeatable[k] = may_repeat(step, k);
        contents->fresh_length[k] = find_fresh_length(contents, k);
    }
    return DAO_OK;
}

void dao_recompute_contents_finish(dao_recompute_contents_t *contents)
{
    dao_host_free(contents->previous);
    dao_host_free(contents->length);
    dao_host_free(contents->again_bytes);
    dao_host_free(contents->fresh_length);
    dao_host_free(contents->is_repeatable);
    memset(contents, 0, sizeof(*contents));
}
