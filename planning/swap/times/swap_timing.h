/* SPDX-License-Identifier: Apache-2.0 */
/* The pass that gives decisions their times. */
#ifndef DAO_PLANNING_SWAP_TIMING_H
#define DAO_PLANNING_SWAP_TIMING_H

#include "planning/swap/step/swap_parts.h"

/* When a part leaves and comes back in an inactive period; in a dead inactive period when its memory is free
   and taken again. ns since the begin of the step in which the inactive period begins. */
typedef struct dao_swap_moment {
    int64_t free_ns;      /* its room is free */
    int64_t out_begin_ns; /* of the copy out, if there is one */
    int64_t out_end_ns;
    int64_t taken_ns;  /* its room is taken again: its copy in begins, or the kernel that writes it */
    int64_t in_end_ns; /* of the copy in, if there is one */
    bool is_out;       /* has a copy out */
} dao_swap_moment_t;

/* A step that repeats exactly: every step has the same times after its begin. */
typedef struct dao_swap_timing {
    dao_swap_moment_t *moments; /* one an inactive period; of those that are away or dead */
    int64_t *kernel_begin_ns;   /* one a kernel; the first one at 0 or later */
    uint64_t step_ns;
} dao_swap_timing_t;

DAO_NODISCARD dao_status_t dao_swap_timing_init(dao_swap_timing_t *timing, const dao_swap_parts_t *parts);
void dao_swap_timing_finish(dao_swap_timing_t *timing);

/* Both were made for the same parts. */
void dao_swap_timing_copy(dao_swap_timing_t *to, const dao_swap_timing_t *from,
                          const dao_swap_parts_t *parts);

/* Plays steps by decisions that dao_swap_cycle() made good for `capacity_bytes` until they repeat exactly.
   DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_time(const dao_swap_parts_t *parts, uint64_t capacity_bytes,
                                         const dao_swap_decision_t *decisions, dao_swap_timing_t *timing);

/* Moves the begin of each copy in towards the latest time at which no kernel waits for it: by `numerator` of
   `denominator` parts of the way. Room is taken later, so fewer lives overlap; the step takes as long as
   before. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_delay(const dao_swap_parts_t *parts, const dao_swap_decision_t *decisions,
                                          uint32_t numerator, uint32_t denominator,
                                          dao_swap_timing_t *timing);

/* Times for whole tensors on demand: what a kernel uses and is away is copied in, the kernel runs, what
   leaves behind it is copied out unless the tier has its bytes, and only then comes the next one.
   dao_swap_step_give_up(). */
DAO_NODISCARD dao_status_t dao_swap_time_on_demand(const dao_swap_parts_t *parts,
                                                   const dao_swap_decision_t *decisions,
                                                   dao_swap_timing_t *timing);

#endif
