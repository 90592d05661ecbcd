/* SPDX-License-Identifier: Apache-2.0 */
/* A content can be made again as long as its kernel may run again and each input has the content that the
   first run read: it is there for a later read, it lives on and no kernel has written it since, or it can
   itself be made again. What is changed in place has to be made from the start: the change has consumed the
   old content. Inputs are written before what is made of them, so one pass over the accesses in their order
   finds all. Only contents of this step count; those of the step before were made of what may be gone. */
#include "planning/recompute/play/recompute_reach.h"

#include "base/memory/host.h"

/* The kernel with which another content takes a tensor over, behind an access: one that writes. */
uint32_t dao_recompute_overwritten_at(const dao_swap_step_t *step, uint32_t access)
{
    uint32_t at = access;
    do {
        if (step->accesses[at].next <= at) {
            return step->kernel_count + 1; /* not in this step */
        }
        at = step->accesses[at].next;
    } while (!step->accesses[at].writes);
    return step->accesses[at].kernel + 1; /* that kernel itself still finds it, but for what it changes */
}

/* Up to where an input is there for a run again: `access` reads it. */
static uint32_t input_end(const dao_recompute_reach_t *reach, const dao_recompute_contents_t *contents,
                          uint32_t access)
{
    const dao_swap_step_t *step = contents->step;
    uint32_t content = dao_recompute_found(contents, access);
    bool is_of_this_step = content != DAO_SWAP_NONE && content < access;
    if (step->accesses[access].writes) { /* changed in place */
        return is_of_this_step ? reach->made_end[content] : 0;
    }
    if (dao_recompute_lives_on(step, step->accesses[access].tensor)) {
        return dao_recompute_overwritten_at(step, access);
    }
    return is_of_this_step ? reach->there_end[content] : 0;
}

static uint32_t find_made_end(const dao_recompute_reach_t *reach, const dao_recompute_contents_t *contents,
                              uint32_t kernel)
{
    const dao_swap_step_t *step = contents->step;
    uint32_t end = contents->is_repeatable[kernel] ? step->kernel_count + 1 : 0;
    for (uint32_t i = step->kernel_access[kernel]; end > 0 && i < step->kernel_access[kernel + 1]; i++) {
        if (step->accesses[i].reads) {
            uint32_t input = input_end(reach, contents, i);
            end = input < end ? input : end;
        }
    }
    return end;
}

dao_status_t dao_recompute_reach_init(dao_recompute_reach_t *reach, const dao_recompute_contents_t *contents)
{
    const dao_swap_step_t *step = contents->step;
    size_t count = (size_t)step->access_count + 1;
    *reach = (dao_recompute_reach_t){.made_end = dao_host_calloc(count, sizeof(*reach->made_end)),
                                     .kept_end = dao_host_calloc(count, sizeof(*reach->kept_end)),
                                     .there_end = dao_host_calloc(count, sizeof(*reach->there_end))};
    if (reach->made_end == NULL || reach->kept_end == NULL || reach->there_end == NULL) {
        dao_recompute_reach_finish(reach);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the runs of a step");
    }
    for (uint32_t k = 0; k < step->kernel_count; k++) {
        uint32_t made_end = find_made_end(reach, contents, k);
        for (uint32_t i = step->kernel_access[k]; i < step->kernel_access[k + 1]; i++) {
            if (!step->accesses[i].writes) {
                continue;
            }
            uint32_t last_read = k + contents->length[i], overwritten = dao_recompute_overwritten_at(step, i);
            uint32_t own_end = made_end < overwritten ? made_end : overwritten;
            reach->made_end[i] = made_end;
            reach->kept_end[i] = overwritten;
            reach->there_end[i] = last_read + 1 > own_end ? last_read + 1 : own_end;
        }
    }
    return DAO_OK;
}

void dao_recompute_reach_finish(dao_recompute_reach_t *reach)
{
    dao_host_free(reach->made_end);
    dao_host_free(reach->kept_end);
    dao_host_free(reach->there_end);
    *reach = (dao_recompute_reach_t){.made_end = NULL};
}
