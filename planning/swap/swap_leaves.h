/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes leave the device in a step of a schedule, and when. A copy in brings back what left behind the
   last kernel before it that uses the tensor, once the latest copy out before it has ended:

       kernels   W . . R . . . . . R        of one tensor
       copies      out         in
       leaves          x                    behind the first R, whenever the copy out has ended

   A tensor whose next use only writes, or that has none in this step and does not live on, leaves behind its
   use without any copy. */
#ifndef DAO_PLANNING_SWAP_LEAVES_H
#define DAO_PLANNING_SWAP_LEAVES_H

#include "planning/swap/step/swap_step.h"

typedef struct dao_swap_leave {
    uint32_t tensor;
    uint32_t kernel; /* behind which they leave */
    uint64_t offset_bytes;
    uint64_t size_bytes;
    /* Copies of this stream that have to have ended, as a count of the kernel's step: for 0 and less, of the
       one before. DAO_SWAP_STREAM_COMPUTE: none. */
    dao_swap_stream_t stream;
    int64_t done;
    bool is_dead;
    bool is_resident; /* on the device as the first step starts, and to leave in it as if from one before */
} dao_swap_leave_t;

/* Finds all of a step, by kernel. The caller frees them by dao_host_free(); there may be none. Says in
   DAO_ERR_INVALID where the schedule is not of this problem; DAO_ERR_OVERFLOW, DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_leaves_find(const dao_swap_problem_t *problem,
                                                const dao_swap_schedule_t *schedule,
                                                dao_swap_leave_t **out_leaves, uint32_t *out_count);

#endif
