/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets for the lifetimes of a step that repeats: several methods, several cuts of the step's time, and
   what earlier searches of the same plan have shown. */
#ifndef DAO_PLANNING_SWAP_PLACE_H
#define DAO_PLANNING_SWAP_PLACE_H

#include "planning/swap/step/swap_step.h"

#include <dao/plan.h>

#define DAO_SWAP_PAST_MAX     256u
#define DAO_SWAP_METHOD_COUNT 5u
#define DAO_SWAP_CUT_COUNT    8u

/* What the layouts of a search have taught: which did not fit, as fingerprints, the latest ones; in which
   order methods are best tried; and where the step's time is best cut open. It is for one capacity. */
typedef struct dao_swap_past {
    uint64_t fingerprints[DAO_SWAP_PAST_MAX];
    uint32_t count;                              /* ever; print i is prints[i % DAO_SWAP_PAST_MAX] */
    uint8_t method_order[DAO_SWAP_METHOD_COUNT]; /* the one that was best last comes first */
    uint8_t cuts[DAO_SWAP_CUT_COUNT]; /* in eighths of the step, the one that was best last first */
    uint64_t work;                    /* of all layouts so far, in steps of some 10 ns */
    uint64_t work_end;                /* from this work on each layout is looked for by one method alone */
    uint64_t thorough_end;            /* from this work on nothing is looked for thoroughly */
} dao_swap_past_t;

void dao_swap_past_init(dao_swap_past_t *past);

/* What came of it. */
typedef struct dao_swap_placement {
    bool is_repeated; /* known from the past not to fit: nothing was looked for */
    uint32_t unplaced_count;
    uint64_t unplaced_bytes;
    uint64_t peak_bytes;
} dao_swap_placement_t;

/* Finds offsets for the buffers of a problem with a period and one pool with a capacity. `buffers` are those
   of the problem, their times may be changed. `is_thorough`: what nearly fits and has no gaps is also looked
   for with the time cut open elsewhere, and again with what found no place coming first. `offsets`, one a
   buffer, are written but for what is repeated. DAO_ERR_STOPPED; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_place(const dao_swap_step_t *step, const dao_plan_problem_t *problem,
                                          dao_plan_buffer_t *buffers, bool is_thorough, dao_swap_past_t *past,
                                          uint64_t *offsets, dao_swap_placement_t *out_placement);

#endif
