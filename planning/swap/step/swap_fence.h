/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels in fences, by their compute streams. */
#ifndef DAO_PLANNING_SWAP_FENCE_H
#define DAO_PLANNING_SWAP_FENCE_H

#include <dao/swap.h>

/* What a fence names of a compute stream: a count of all kernels, of which those of the stream are waited
   for. */
static inline int32_t *dao_swap_fence_kernels(dao_swap_fence_t *fence, uint32_t compute)
{
    return compute == 0 ? &fence->done[DAO_SWAP_STREAM_COMPUTE] : &fence->done_beside[compute - 1];
}

static inline int32_t dao_swap_fence_kernels_done(const dao_swap_fence_t *fence, uint32_t compute)
{
    return compute == 0 ? fence->done[DAO_SWAP_STREAM_COMPUTE] : fence->done_beside[compute - 1];
}

/* The kernels that a fence names of any compute stream, for who takes them in their order. */
static inline int32_t dao_swap_fence_all_kernels(const dao_swap_fence_t *fence)
{
    int32_t done = fence->done[DAO_SWAP_STREAM_COMPUTE];
    for (uint32_t i = 0; i < DAO_SWAP_COMPUTE_STREAM_MAX - 1; i++) {
        done = fence->done_beside[i] > done ? fence->done_beside[i] : done;
    }
    return done;
}

/* Compute streams up to the last one that a kernel is on: at least 1. */
static inline uint32_t dao_swap_compute_stream_count(const dao_swap_problem_t *problem)
{
    uint32_t count = 1;
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        count = problem->kernels[k].stream >= count ? problem->kernels[k].stream + 1 : count;
    }
    return count;
}

/* Returns true if kernels are on more than one compute stream. */
static inline bool dao_swap_runs_beside(const dao_swap_problem_t *problem)
{
    uint32_t k = 1;
    while (k < problem->kernel_count && problem->kernels[k].stream == problem->kernels[0].stream) {
        k++;
    }
    return k < problem->kernel_count;
}

#endif
