/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/models/swap_steps.h"

#include "tests/support/suite.h"

#include <string.h>

#define ALL_BYTES ((uint64_t)1 << 40)

static void begin(swap_step_box_t *box, uint32_t tensor_count, uint32_t kernel_count)
{
    memset(box, 0, sizeof(*box));
    box->problem = (dao_swap_problem_t){.tensors = box->tensors,
                                        .tensor_count = tensor_count,
                                        .kernels = box->kernels,
                                        .kernel_count = kernel_count,
                                        .capacity_bytes = ALL_BYTES,
                                        .alignment_bytes = 1};
    for (uint32_t k = 0; k < kernel_count; k++) {
        box->kernels[k].uses = box->uses[k];
    }
}

static void use(swap_step_box_t *box, uint32_t kernel, uint32_t tensor, dao_access_t access)
{
    box->uses[kernel][box->kernels[kernel].use_count++] = (dao_swap_use_t){tensor, access};
}

void swap_step_random(swap_step_box_t *box, const swap_step_range_t *range, uint64_t *random)
{
    uint32_t tensors = 1 + (uint32_t)(dao_random_next(random) % range->tensor_max);
    uint32_t kernels = 1 + (uint32_t)(dao_random_next(random) % range->kernel_max);
    begin(box, tensors, kernels);
    for (uint32_t i = 0; i < tensors; i++) {
        box->tensors[i].size_bytes = 1 + dao_random_next(random) % range->size_max;
        box->tensors[i].is_persistent = dao_random_next(random) % 3 == 0;
    }
    for (uint32_t k = 0; k < kernels; k++) {
        uint64_t count = dao_random_next(random) % (SWAP_STEP_USE_MAX + 1);
        box->kernels[k].time_ns = dao_random_next(random) % (range->time_max + 1);
        if (range->workspace_max != 0 && dao_random_next(random) % 4 == 0) {
            box->kernels[k].workspace_bytes = dao_random_next(random) % (range->workspace_max + 1);
        }
        for (uint64_t i = 0; i < count; i++) { /* near tensors more often: steps have stretches */
            uint32_t tensor = (uint32_t)(dao_random_next(random) % tensors);
            tensor =
                dao_random_next(random) % 2 == 0 ? tensor : (k * tensors / kernels + tensor % 3) % tensors;
            use(box, k, tensor, (dao_access_t)(dao_random_next(random) % 3));
        }
    }
}

void swap_step_chain(swap_step_box_t *box, uint32_t layer_count, uint64_t size_bytes, uint64_t time_ns)
{
    begin(box, layer_count, 2 * layer_count);
    for (uint32_t i = 0; i < layer_count; i++) {
        box->tensors[i].size_bytes = size_bytes;
        box->kernels[i].time_ns = time_ns;
        box->kernels[2 * layer_count - 1 - i].time_ns = time_ns;
        use(box, i, i, DAO_ACCESS_WRITE);
        if (i > 0) {
            use(box, i, i - 1, DAO_ACCESS_READ);
        }
        use(box, 2 * layer_count - 1 - i, i, DAO_ACCESS_READ);
    }
}

void swap_step_stream(swap_step_box_t *box, uint32_t kernel_count, uint64_t size_bytes, uint64_t time_ns)
{
    begin(box, kernel_count, kernel_count);
    for (uint32_t k = 0; k < kernel_count; k++) {
        box->tensors[k] = (dao_swap_tensor_t){.size_bytes = size_bytes, .is_persistent = true};
        box->kernels[k].time_ns = time_ns;
        use(box, k, k, DAO_ACCESS_READ);
    }
}

static bool may_come(const dao_swap_problem_t *problem, swap_bytes_t now, uint32_t tensor)
{
    return !(now.device >> tensor & 1) && (now.host >> tensor & 1) &&
           (uint64_t)__builtin_popcount(now.device) + 1 <= problem->capacity_bytes;
}

static bool may_go(swap_bytes_t now, uint8_t written, uint32_t tensor)
{
    return ((now.device & ~written) >> tensor & 1) && !(now.host >> tensor & 1);
}

/* Number `tensor_count` stands for no copy. */
void swap_bytes_copy(const dao_swap_problem_t *problem, uint32_t tensor_count, swap_bytes_t now,
                     uint8_t written, swap_bytes_see_t see, void *user)
{
    bool is_half = problem->host.duplex == DAO_SWAP_DUPLEX_HALF;
    for (uint32_t in = 0; in <= tensor_count; in++) {
        bool comes = in < tensor_count;
        if (comes && !may_come(problem, now, in)) {
            continue;
        }
        for (uint32_t out = 0; out <= tensor_count; out++) {
            bool goes = out < tensor_count;
            if (goes && (!may_go(now, written, out) || (comes && is_half))) {
                continue;
            }
            swap_bytes_t next = {(uint8_t)(now.device | (comes ? 1u << in : 0)),
                                 (uint8_t)(now.host | (goes ? 1u << out : 0))};
            see(next, user);
        }
    }
}

void swap_bytes_drop(uint32_t tensor_count, swap_bytes_t now, uint8_t used, swap_bytes_see_t see, void *user)
{
    for (uint32_t t = 0; t < tensor_count; t++) {
        if ((now.device & ~used) >> t & 1) {
            see((swap_bytes_t){(uint8_t)(now.device & ~(1u << t)), now.host}, user);
        }
    }
}

bool swap_step_is_bound(uint64_t found_ns, uint64_t least_ns)
{
    return found_ns <= least_ns && found_ns + least_ns / 100 + 1 >= least_ns;
}
