/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Running kernels again beside swapping, from numbers alone: what left the device comes back by a copy, or by
 * the kernel that made it, which runs once more on inputs that are there, or are brought back the same way.
 *
 * Which kernels may run again is said by `is_repeatable` of dao_swap_kernel_t. A kernel that changes in place
 * what lives on into the next step never may, whatever it says.
 */
#ifndef DAO_RECOMPUTE_H
#define DAO_RECOMPUTE_H

#include <dao/swap.h>

DAO_BEGIN_DECLS

/**
 * A bound that no schedule beats which copies tensors and runs repeatable kernels again. Not covered:
 * another order of the kernels' first runs, two kernels at once, compressing, another kernel for the same
 * content.
 */
typedef struct dao_recompute_bound {
    uint64_t step_ns;    /**< the greatest one of the three forms below */
    uint64_t compute_ns; /**< sum of kernel times, each run once */
    uint64_t window_ns;  /**< sum over the best cut of the step into windows of kernels */
    uint64_t pair_ns;    /**< with two windows that share contents, as a forward and a backward run do */
    uint64_t cut_ns;     /**< windows again, of which some also count the inputs of what runs again */
    /** The window that adds most to window_ns: kernels first .. first + count - 1, around the step's end.
        Count 0: none takes longer than its kernels. */
    uint32_t window_first_kernel;
    uint32_t window_kernel_count;
    uint64_t window_added_ns; /**< by which it is longer than its kernels */
} dao_recompute_bound_t;

/**
 * Computes the bound of a step. With no repeatable kernel its windows are those of dao_swap_find_bound(), but
 * for limits of the host, which count as none.
 *
 * @param problem    Borrowed.
 * @param out_bound  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID, DAO_ERR_OVERFLOW for a problem beyond its limits; DAO_ERR_KERNEL_TOO_LARGE
 *         where the capacity is less than one kernel needs; DAO_ERR_UNSUPPORTED for kernels on several
 *         compute streams; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(places x (uses + places x log kernels)) with at most 1,024 places;
 *        some 0.1 s for 860 kernels, 0.4 s for 10,700.
 */
DAO_API DAO_NODISCARD dao_status_t dao_recompute_find_bound(const dao_swap_problem_t *problem,
                                                            dao_recompute_bound_t *out_bound);

/** A run of a kernel in a longer step. */
typedef struct dao_recompute_run {
    uint32_t kernel; /**< of the step that the longer one was made of */
    bool is_again;   /**< it is not the first run of that kernel */
} dao_recompute_run_t;

/**
 * A step with repeated runs: each run is a kernel of `problem`, so that it is planned, replayed and simulated
 * as any other step. The tensors of the step that it was made of come first, under their own numbers; behind
 * them, one for each content that a repeated run writes.
 */
typedef struct dao_recompute_step {
    dao_swap_problem_t problem;
    const dao_recompute_run_t *runs; /**< one a kernel of `problem` */
    const uint32_t *tensor_sources;  /**< one a tensor of `problem`: which tensor it stands for */
    uint32_t again_count;            /**< repeated runs */
    uint64_t again_ns;               /**< their time */
} dao_recompute_step_t;

/**
 * Checks a step with repeated runs against the step that it was made of, by carrying values through both:
 * first runs in their order, each once; a repeated run only of a repeatable kernel; each run reads what the
 * first run of its kernel read in the other step; what lives on ends as it does there. But for the check of
 * `problem`, it shares no code with the planner.
 *
 * @param problem  Borrowed: the step that the other one was made of.
 * @param step     Borrowed.
 * @return DAO_OK; DAO_ERR_CORRUPT with a message that names the first run that is wrong; DAO_ERR_INVALID for
 *         NULL, also of a list; DAO_ERR_INVALID, DAO_ERR_OVERFLOW for a problem that is no step;
 *         DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(uses of both).
 */
DAO_API DAO_NODISCARD dao_status_t dao_recompute_check(const dao_swap_problem_t *problem,
                                                       const dao_recompute_step_t *step);

/** What comes back how. */
typedef enum dao_recompute_mode {
    DAO_RECOMPUTE_MODE_HYBRID = 0, /**< by a copy or by running again, whichever makes the shorter step */
    DAO_RECOMPUTE_MODE_ONLY = 1,   /**< by running again alone: nothing is copied */
} dao_recompute_mode_t;

/** How a plan is made. All zero: the defaults. */
typedef struct dao_recompute_config {
    dao_recompute_mode_t mode;
    /** Steps with repeated runs that are weighed by their bound; 0: DAO_RECOMPUTE_TRIES_DEFAULT. Those
       without any copies need no bound: up to four times as many are tried. */
    uint32_t try_count;
    /** For copies. The step without repeated runs gets all of `work_limit`, those with some a part. */
    dao_swap_plan_config_t swap;
    /** A time of a step that is known already: what cannot be quicker, by its bound, is not planned; 0: none.
     */
    uint64_t known_ns;
    /** Called in the calling thread as the plan goes on: `done` of DAO_RECOMPUTE_PROGRESS_PARTS, never less
       than before; a plan may be ready before all are done. It must not wait. NULL: nobody is told. */
    void (*on_progress)(void *progress_user, uint32_t done);
    void *progress_user;
} dao_recompute_config_t;

#define DAO_RECOMPUTE_PROGRESS_PARTS 1000u /**< of all that a plan takes */
#define DAO_RECOMPUTE_TRIES_DEFAULT  200u  /**< steps with repeated runs */

/** A plan, immutable, with one owner, as a dao_swap_plan_t. */
typedef struct dao_recompute_plan dao_recompute_plan_t;

/**
 * Makes a plan: which kernels run again, and the copies of the step with these runs. Never slower than
 * dao_swap_plan_make() with `config->swap`, nor, with copies allowed, than the plan without any, nor than
 * what the published ways that docs/recompute.md names would run again, planned with the same work.
 *
 * @param problem   Borrowed for the call.
 * @param config    Copied; NULL: all defaults.
 * @param out_plan  The caller owns it, until dao_recompute_plan_destroy(); written only on DAO_OK.
 * @return DAO_OK; as dao_swap_plan_make(); DAO_ERR_LIMIT if nothing may be copied and no plan was found then,
 *         or none that may be quicker than `known_ns`; DAO_ERR_UNSUPPORTED for kernels on several compute
 *         streams.
 *
 * Threads: any. Waits: never. Cost: `try_count` bounds of steps, and a half to some three times
 * what dao_swap_plan_make() takes.
 */
DAO_API DAO_NODISCARD dao_status_t dao_recompute_plan_make(const dao_swap_problem_t *problem,
                                                           const dao_recompute_config_t *config,
                                                           dao_recompute_plan_t **out_plan);

/**
 * Frees a plan, its step and its schedule. NULL is allowed.
 *
 * Threads: any, once. Waits: never. Cost: O(1).
 */
DAO_API void dao_recompute_plan_destroy(dao_recompute_plan_t *plan);

/**
 * Returns the step of a plan, with its repeated runs.
 *
 * @return Borrowed, as long as the plan; NULL for NULL.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const dao_recompute_step_t *dao_recompute_plan_step(const dao_recompute_plan_t *plan);

/**
 * Returns the schedule of a plan: copies and addresses for the kernels and tensors of its step.
 *
 * @return Borrowed, as long as the plan; NULL for NULL.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const dao_swap_schedule_t *dao_recompute_plan_schedule(const dao_recompute_plan_t *plan);

DAO_END_DECLS

#endif
