/* SPDX-License-Identifier: Apache-2.0 */
/* A plan of dao/swap.h for a step of managed tensors, compiled so that following it decides nothing.

   While a plan is followed, it has the device arena: no part of it is in the range allocator but those of
   tensors that the program has pinned. These are above all that the plan has, and no part of it. A plan
   with pages has a window, too, whose mappings are made once, behind the planner: following it makes no call
   of the device for them.

   Records of tensors stay true all the time (where their bytes are, and which operations use them). So the
   executor can leave the plan between any two kernels and go on by itself. A content that the plan gives
   up, but that may still be asked for, is saved first. */
#ifndef DAO_RUNTIME_EXECUTOR_PLAN_FOLLOW_H
#define DAO_RUNTIME_EXECUTOR_PLAN_FOLLOW_H

#include "runtime/executor/core/engine_state.h"
#include "runtime/executor/plans/plan_runs.h"
#include "runtime/executor/records/step_log.h"
#include "runtime/executor/state/plan_role.h"

/* What the plan was made with, to see later whether it still holds. */
typedef struct dao_plan_basis {
    uint64_t compute_ns;
    dao_swap_tier_t host, file;
} dao_plan_basis_t;

struct dao_compiled_plan {
    dao_swap_plan_t *swap_plan; /* NULL: it is that of `runs` */
    dao_plan_runs_t runs;       /* without a plan: no kernel runs again */
    const dao_swap_schedule_t *schedule;
    dao_issue_order_t order;
    /* of each kernel: in the uses of the plan's step, which has none of pinned tensors */
    uint32_t *first_uses;
    uint32_t *drop_first; /* of each operation, and one more: its first drop */
    uint32_t *drops;      /* roles that lie where an operation puts its bytes */
    uint64_t *sequences;  /* numbers of the operations of this step, then of the one before, by lanes */
    dao_plan_role_t *roles;
    uint32_t role_count;
    dao_device_window_t *window; /* its pages; NULL: it has none */
    uint8_t *page_marks;         /* of each page of the arena: scratch of dao_plan_follow_is_valid() */
    dao_plan_basis_t basis;
    uint64_t bound_ns; /* of a step */
    uint64_t pins;     /* of the engine, that the plan was made beside: only with these it is followed */

    uint32_t next;     /* operation of this step that is queued next */
    dao_fence_t extra; /* operations that are not in the plan: everything later waits for them */
};

/* Pages of the arena that a plan with pages has, a begun one too; 0 for others. */
static inline uint32_t dao_compiled_plan_page_max(const dao_compiled_plan_t *plan)
{
    const dao_swap_schedule_t *schedule = plan->schedule;
    return schedule->page_count == 0
               ? 0
               : (uint32_t)(dao_round_up(schedule->arena_bytes, schedule->page_bytes) / schedule->page_bytes);
}

/* The `work_limit` of a plan that is to be there at once: no kernel runs again in it. */
#define DAO_COMPILED_PLAN_FIRST 1u

/* Makes the plan of a step and compiles it: one that runs kernels again, if some may be and it is quicker, or
   if nothing is to be copied. The problem's tensors are roles, the first ones, whose sizes are multiples of
   the range's granule. Tensors move as a whole; the rest of the configuration is the caller's. Pure: any
   thread, nothing shared. What dao_recompute_plan_make() answers; DAO_ERR_UNSUPPORTED for a plan that cannot
   be followed; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_compiled_plan_create(const dao_swap_problem_t *problem,
                                                    const dao_recompute_config_t *config,
                                                    dao_compiled_plan_t **out_plan);

/* It is not followed. NULL is allowed. */
void dao_compiled_plan_destroy(dao_compiled_plan_t *plan);

/* Starts to follow a plan, at the begin of this known step: brings everything where the plan wants it.
   On an error the engine runs on as before: DAO_ERR_HOST_FULL, DAO_ERR_NO_HOST_MEMORY, what copies answer. */
DAO_NODISCARD dao_status_t dao_plan_follow_enter(dao_engine_t *engine, dao_compiled_plan_t *plan,
                                                 const dao_step_log_t *known);

/* Stops following the engine's plan, wherever it is: tensors stay where they are. What was given up is made
   again by dao_again_restore(), before anything else happens to a tensor. */
void dao_plan_follow_leave(dao_engine_t *engine);

/* Before a kernel, the log's latest: queues what the plan has before it and gives every operand its place. On
   an error nothing of the kernel was queued, and the plan has to be left. */
DAO_NODISCARD dao_status_t dao_plan_follow_prepare(dao_engine_t *engine, dao_item_t *item,
                                                   const dao_step_log_t *log, dao_placement_t *out_placement);

/* Behind a kernel that was queued, the log's latest: keeps its item if it runs again later in the step.
   Returns true if so: the item is the plan's. */
bool dao_plan_follow_keep(dao_compiled_plan_t *plan, dao_item_t *item);

/* Behind a kernel that was queued with this number: queues the copies that follow. */
void dao_plan_follow_launched(dao_engine_t *engine, uint64_t sequence);

/* The step has ended: queues the copies that are left; the next one follows the plan too, unless that
   fails. */
void dao_plan_follow_turn(dao_engine_t *engine);

/* Bytes of slots that no tensor uses. */
uint64_t dao_plan_follow_idle_bytes(const dao_compiled_plan_t *plan);

/* Tensors on the device share no byte of the arena, so no page has two of them; roles and tensors name each
   other. */
bool dao_plan_follow_is_valid(const dao_compiled_plan_t *plan);

#endif
