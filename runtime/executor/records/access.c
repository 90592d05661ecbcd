/* SPDX-License-Identifier: Apache-2.0 */
/* Access lists.

       tensor: first_use -> [read, 4] -> [write, 9] -> [discard, 9] <- last_use

   Invariants: times never fall along the list, and every use names its tensor; first_use and last_use are
   NULL together. */
#include "runtime/executor/records/access.h"

#include "base/report/assert.h"

void dao_access_append(dao_use_t *use, uint64_t time)
{
    dao_managed_t *tensor = use->tensor;
    DAO_ASSERT(use->next == NULL);
    DAO_ASSERT((tensor->first_use == NULL) == (tensor->last_use == NULL));
    DAO_ASSERT(tensor->last_use == NULL || tensor->last_use->time <= time);
    use->time = time;
    if (tensor->last_use == NULL) {
        tensor->first_use = use;
    } else {
        tensor->last_use->next = use;
    }
    tensor->last_use = use;
}

void dao_access_pop(dao_use_t *use)
{
    dao_managed_t *tensor = use->tensor;
    DAO_ASSERT(tensor->first_use == use);
    tensor->first_use = use->next;
    if (use->next == NULL) {
        DAO_ASSERT(tensor->last_use == use);
        tensor->last_use = NULL;
    }
    use->next = NULL;
    tensor->last_use_time = use->time;
}

uint64_t dao_access_next_use(const dao_managed_t *tensor)
{
    const dao_use_t *next = tensor->first_use;
    return next == NULL || next->kind == DAO_USE_DISCARD ? DAO_TIME_NEVER : next->time;
}

bool dao_access_is_dead(const dao_managed_t *tensor)
{
    const dao_use_t *next = tensor->first_use;
    bool is_unused = next == NULL ? tensor->is_released : next->kind == DAO_USE_DISCARD;
    return is_unused && tensor->hold_count == 0;
}

bool dao_access_is_valid(const dao_managed_t *tensor)
{
    const dao_use_t *last = NULL;
    for (const dao_use_t *use = tensor->first_use; use != NULL; use = use->next) {
        if (use->tensor != tensor || (last != NULL && last->time > use->time)) {
            return false;
        }
        last = use;
    }
    return tensor->last_use == last;
}
