/* SPDX-License-Identifier: Apache-2.0 */
/* Betters the decisions of a plan by trying changes. */
#ifndef DAO_PLANNING_SWAP_IMPROVE_H
#define DAO_PLANNING_SWAP_IMPROVE_H

#include "planning/swap/swap_grain.h"

/* When to end, unless time does, and what is wanted of a plan beside its time. */
typedef struct dao_swap_effort {
    uint64_t work_end; /* of dao_swap_work() */
    uint64_t goal_ns;  /* no step is shorter */
    /* Asked of what the grain was timed with, where its step is not longer: whether it may be kept. It may
       change the grain's late times and what it keeps. NULL: yes. */
    dao_status_t (*may_keep)(void *user, dao_swap_grain_t *grain, bool *out_may_keep);
    void *user;
} dao_swap_effort_t;

/* Betters the decisions of a grain that hold for a step that repeats, and that are timed: their step gets
   shorter or stays as it is. Ends with the effort, at the goal, or where no change has helped for long. The
   same arguments give the same decisions unless time ends it. DAO_ERR_NO_HOST_MEMORY, DAO_ERR_STOPPED: the
   grain is to be worked out anew. */
DAO_NODISCARD dao_status_t dao_swap_improve(dao_swap_grain_t *grain, uint64_t capacity_bytes,
                                            const dao_swap_effort_t *effort);

#endif
