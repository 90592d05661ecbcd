/* SPDX-License-Identifier: Apache-2.0 */
/* How long a step takes in less memory than its peak, planned as a whole (the scheme `plan` of dao simulate,
   with as much work); and if kernels may run again, too (the scheme `hybrid`).

   Capacities are those of a grid from the smallest that the step runs in, which is 0, to its peak, and the
   one that is asked for. More memory is never slower on the grid: a plan for less runs in more as well, so
   that the time at a point is the least of its own plan's and of all points below. Where the bound of a point
   is no better than what is known, no point below can be, and none is planned. */
#ifndef DAO_TOOLS_FIT_SWAP_H
#define DAO_TOOLS_FIT_SWAP_H

#include "tools/model/step_problem.h"

/* Where a link is slow, the bound rules few points out: then each one below is planned. */
enum {
    DAO_FIT_GRID = 32,
    DAO_FIT_ASKED, /* the point of the capacity that was asked for last, where it is none of the grid's */
    DAO_FIT_COUNT
};

/* Least work for a sketch of a plan, some 0.2 s, unless dao simulate puts less into it: then as much. Where
   that puts in more than ten times as much, as for long steps, a sketch gets a tenth of it. */
#define DAO_FIT_PLAN_WORK (DAO_SWAP_WORK_DEFAULT / 10)

typedef struct dao_fit_point {
    uint64_t capacity_bytes; /* that the plan is for */
    uint64_t step_ns;        /* UINT64_MAX: there is no plan */
    uint64_t bound_ns;       /* of any scheme in this capacity */
    uint64_t in_bytes, out_bytes;
    uint32_t again_count; /* kernels that run again */
} dao_fit_point_t;

typedef struct dao_fit_swap {
    const dao_step_trace_t *trace;     /* borrowed */
    const dao_swap_problem_t *problem; /* borrowed; its capacity is not looked at */
    uint64_t least_bytes, peak_bytes;  /* the ends of the grid */
    uint64_t compute_ns;
    uint32_t largest_kernel; /* that least_bytes is for */
    bool is_sketch;          /* set after the begin, for sweeps: plans get DAO_FIT_PLAN_WORK */
    /* NULL, or set after the begin: true ends what is planned, as that of dao_swap_plan_config_t. */
    bool (*is_cancelled)(void *cancel_user);
    void *cancel_user;
    uint64_t asked_bytes;
    uint32_t below_asked; /* the largest point of the grid below it */
    bool is_planned[DAO_FIT_COUNT];
    dao_fit_point_t planned[DAO_FIT_COUNT];
} dao_fit_swap_t;

/* Begins; nothing is to be finished. What dao_swap_find_bound() answers. */
DAO_NODISCARD dao_status_t dao_fit_swap_init(dao_fit_swap_t *fit, const dao_step_trace_t *trace,
                                             const dao_swap_problem_t *problem);

/* Finds the best point that a capacity has room for, its own among them: never slower than `dao simulate
   --scheme plan` with that capacity. DAO_ERR_LIMIT, without a message: it has none for the
   largest kernel. DAO_ERR_STOPPED where `is_cancelled` said so: then it is the best one found so far, and
   its step_ns UINT64_MAX if there is none. Cost: a plan, mostly. */
DAO_NODISCARD dao_status_t dao_fit_swap_at(dao_fit_swap_t *fit, uint64_t capacity_bytes,
                                           dao_fit_point_t *out_point);

/* Plans the point of a capacity once more, with kernels that run again beside the copies, and
   those below it whose bound says that they may be quicker. Of these plans and those of dao_fit_swap_at() the
   quickest one counts, and the bound is that of both. What dao_fit_swap_at() answers. Cost: of
   dao_recompute_plan_make(), and of its search for each point below. */
DAO_NODISCARD dao_status_t dao_fit_swap_again_at(dao_fit_swap_t *fit, uint64_t capacity_bytes,
                                                 dao_fit_point_t *out_point);

/* Finds the smallest point of the grid that takes at most this time. DAO_ERR_LIMIT, without a message: none
   does; DAO_ERR_STOPPED: it is not known. Cost: a plan for each point from the first whose bound is short
   enough up to the answer. */
DAO_NODISCARD dao_status_t dao_fit_swap_for(dao_fit_swap_t *fit, uint64_t step_ns,
                                            dao_fit_point_t *out_point);

/* Writes `count` points, 2 to DAO_FIT_GRID + 1 of them, at even distances from the smallest capacity to the
   peak; each the best of its own and of those below, and without a plan if none of them has one. Cost: a plan
   for each. */
DAO_NODISCARD dao_status_t dao_fit_swap_sweep(dao_fit_swap_t *fit, uint32_t count,
                                              dao_fit_point_t *out_points);

#endif
