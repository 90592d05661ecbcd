/* SPDX-License-Identifier: Apache-2.0 */
/* Swapping the feature maps of a training step over one link that does one thing at a time: three schemes
   that decide by rule, without a device's memory in view.

     forward                             | threshold | backward
     ... op i | op i + 1 ...             |           | ... op k - 1 | op k ...
          map out                        |           |         map in

   A feature map is a tensor that the forward pass writes and the backward pass reads. The forward pass
   is operators 0 .. threshold.

     sync        everything waits: an operator, then its maps out; the maps of an operator in, then the
                 operator
     half_sync   maps go out beside the next operator, and come in beside the one before; both ends are
                 waited for
     async       copies queue up first in, first out, and kernels wait only for what they read. A map is
                 called for at the latest begin of an operator from which, as things stand there, no kernel
                 would wait for any

   A map leaves memory when it is out and no forward operator uses it any more; it takes memory again when it
   is called for.

   The same three as HeuristicAllocator's calc_swap2.py does them (dao_swap_maps_by_script) differ: forward
   ends before the threshold; every tensor that is left at its end goes, right after its last use; async calls
   for maps as early as the link is free, and forgets the time of copies that are still queued at the
   threshold; memory is that of a tree_pool. */
#ifndef DAO_TOOLS_SWAP_MAPS_H
#define DAO_TOOLS_SWAP_MAPS_H

#include "tools/model/step_trace.h"
#include "tools/simulate/simulate.h"

typedef enum dao_swap_maps_mode {
    DAO_SWAP_MAPS_SYNC,
    DAO_SWAP_MAPS_HALF_SYNC,
    DAO_SWAP_MAPS_ASYNC,
} dao_swap_maps_mode_t;

typedef struct dao_swap_maps_config {
    dao_swap_maps_mode_t mode;
    uint32_t threshold;
    uint64_t in_bytes_per_second,
        out_bytes_per_second; /* at least 1; one copy at a time, whatever its direction */
    uint64_t latency_ns;
    /* UINT64_MAX: every map goes; else those that are needed last, as few as keep this */
    uint64_t capacity_bytes;
} dao_swap_maps_config_t;

typedef struct dao_swap_maps_result {
    uint64_t step_ns;
    uint64_t compute_ns;
    uint64_t map_count; /* that go */
    uint64_t map_bytes;
    uint64_t peak_bytes; /* of live bytes, sizes as they stand in the trace */
    uint64_t pool_bytes; /* of the tree pool; by script alone */
    uint64_t in_bytes, out_bytes;
} dao_swap_maps_result_t;

/* Runs a step. With `simulation` not NULL its kernels and copies are appended there. DAO_ERR_INVALID for a
   threshold beyond the step; DAO_ERR_LIMIT where even all maps do not keep the capacity;
   DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_maps(const dao_step_trace_t *trace, const dao_swap_maps_config_t *config,
                                         dao_simulation_t *simulation, dao_swap_maps_result_t *out_result);

/* The same as the published scripts do it; capacity_bytes is of no account. */
DAO_NODISCARD dao_status_t dao_swap_maps_by_script(const dao_step_trace_t *trace,
                                                   const dao_swap_maps_config_t *config,
                                                   dao_swap_maps_result_t *out_result);

#endif
