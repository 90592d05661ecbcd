/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of tensors, numbered tensor by tensor, and their inactive periods, numbered access by access. A
   tensor that no kernel uses has none. */
#include "planning/swap/step/swap_parts.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

/* A tensor that no kernel uses has none. */
static uint64_t count_parts(const dao_swap_parts_t *parts, uint32_t tensor)
{
    uint64_t size = parts->step->size_bytes[tensor];
    if (parts->step->first_access[tensor] == DAO_SWAP_NONE) {
        return 0;
    }
    return parts->part_bytes == 0 ? 1 : (size + parts->part_bytes - 1) / parts->part_bytes;
}

static bool allocate(dao_swap_parts_t *parts)
{
    const dao_swap_step_t *step = parts->step;
    uint64_t count = 0, inactive_count = 0;
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        count += count_parts(parts, t);
    }
    for (uint32_t i = 0; i < step->access_count; i++) {
        inactive_count += count_parts(parts, step->accesses[i].tensor);
    }
    if (inactive_count + count > UINT32_MAX / 2) {
        return false; /* more than there is memory for */
    }
    return (parts->first = dao_host_calloc((size_t)step->tensor_count + 1, sizeof(*parts->first))) != NULL &&
           (parts->first_inactive =
                dao_host_calloc((size_t)step->access_count + 1, sizeof(*parts->first_inactive))) != NULL &&
           (parts->tensor = dao_host_calloc(count > 0 ? count : 1, sizeof(*parts->tensor))) != NULL;
}

dao_status_t dao_swap_parts_init(dao_swap_parts_t *parts, const dao_swap_step_t *step, uint64_t part_bytes)
{
    DAO_ASSERT(part_bytes % step->alignment_bytes == 0);
    *parts = (dao_swap_parts_t){.step = step, .part_bytes = part_bytes};
    if (!allocate(parts)) {
        dao_swap_parts_finish(parts);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the parts of a step's tensors");
    }
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        uint32_t count = (uint32_t)count_parts(parts, t);
        parts->first[t] = parts->count;
        for (uint32_t i = 0; i < count; i++) {
            parts->tensor[parts->count++] = t;
        }
    }
    parts->first[step->tensor_count] = parts->count;
    for (uint32_t i = 0; i < step->access_count; i++) {
        uint32_t tensor = step->accesses[i].tensor;
        parts->first_inactive[i] = parts->inactive_count;
        parts->inactive_count += parts->first[tensor + 1] - parts->first[tensor];
    }
    parts->first_inactive[step->access_count] = parts->inactive_count;
    DAO_ASSERT(parts->inactive_count >= step->access_count); /* a tensor that is used has a part */
    return DAO_OK;
}

void dao_swap_parts_finish(dao_swap_parts_t *parts)
{
    dao_host_free(parts->first);
    dao_host_free(parts->first_inactive);
    dao_host_free(parts->tensor);
    memset(parts, 0, sizeof(*parts));
}
