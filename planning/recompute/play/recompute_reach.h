/* SPDX-License-Identifier: Apache-2.0 */
/* How long the contents of a step can be made again. */
#ifndef DAO_PLANNING_RECOMPUTE_REACH_H
#define DAO_PLANNING_RECOMPUTE_REACH_H

#include "planning/recompute/bound/recompute_contents.h"

typedef struct dao_recompute_reach {
    uint32_t *made_end;  /* of each content: before kernels below this it can be made again; 0: never */
    uint32_t *kept_end;  /* before kernels below this its tensor has it, if it is held */
    uint32_t *there_end; /* the same if a copy of it will do as well, as long as a kernel reads it */
} dao_recompute_reach_t;

/* On an error there is nothing to finish. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_recompute_reach_init(dao_recompute_reach_t *reach,
                                                    const dao_recompute_contents_t *contents);

/* The kernel with which another content takes a tensor over, behind an access, and one more: that kernel
   itself still finds it, but for what it changes. */
uint32_t dao_recompute_overwritten_at(const dao_swap_step_t *step, uint32_t access);

void dao_recompute_reach_finish(dao_recompute_reach_t *reach);

#endif
