/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of an allocator with step plans, for the files of this folder. What holds between calls is said
   in planned.c, the states of plans in learnt_plans.c. */
#ifndef DAO_ALLOCATORS_PLANNED_INTERNAL_H
#define DAO_ALLOCATORS_PLANNED_INTERNAL_H

#include "allocators/accounting/block_map.h"
#include "allocators/front.h"
#include "allocators/step_plan/bins.h"
#include "allocators/step_plan/planned.h"
#include "base/threads/sync.h"
#include "planning/steps/follow.h"
#include "planning/steps/lifetimes.h"
#include "planning/steps/script.h"

/* Steps that are kept: training and evaluation, each with some sequence lengths. As many as the executor
   keeps. */
#define DAO_PLANNED_PLAN_COUNT 8u

/* A step that was learnt. All zero: nothing. */
typedef struct dao_learnt_plan {
    dao_script_t *script; /* owned */
    dao_follow_t follow;
    dao_bins_t *bins;       /* owned; NULL: offsets, or not ready */
    uint64_t arena_bytes;   /* that the plan needs; 0 while it is not ready */
    bool is_ready;          /* there are offsets or bins: it may be used */
    uint32_t learnt_count;  /* steps that were learnt for it: the script is that of the latest */
    uint32_t stable_run;    /* of these, how many in a row asked for the same */
    uint32_t inexact_count; /* steps that matched it and were not all hits, since it was first learnt */
    uint64_t latest_step;   /* that matched it; or that in which it was learnt */
    uint64_t known_count;   /* of this step: requests that were found in the script, */
    uint64_t known_bytes;   /* and what they asked for */
} dao_learnt_plan_t;

/* A plan whose offsets are being looked for. Counted under `boundary`; the last reference frees it. */
typedef struct dao_planned_learning {
    dao_learnt_plan_t plan; /* owned, and all zero once it was adopted */
    uint32_t number;        /* of the plan whose place it takes */
    dao_planner_t *planner; /* owned; NULL: bins need none */
    uint32_t reference_count;
    bool is_under_way; /* somebody works on it, or has asked for a thread */
} dao_planned_learning_t;

/* A free that waits for the end of the step. */
typedef struct dao_planned_deferred {
    void *address;
    dao_stream_fence_t fence;
    dao_block_owner_t owner;
} dao_planned_deferred_t;

/* What the blocks of one step come to, those of earlier ones left out. */
typedef struct dao_planned_own {
    uint64_t live_bytes; /* asked for; its peak is the recording's bound_bytes */
    uint64_t used_bytes; /* rounded up */
    uint64_t peak_used_bytes;
} dao_planned_own_t;

typedef struct dao_planned {
    dao_allocator_t base; /* this and `inner`: dao_front_t */
    dao_allocator_t *inner;
    dao_allocator_ops_t ops; /* without what the inner allocator cannot do */
    char *name;
    dao_step_plan_config_t config; /* no default is left open in it */
    bool is_host_memory;

    /* looked at without a lock */
    _Atomic bool is_open; /* requests belong to a step */
    _Atomic size_t tracked_count;
    _Atomic uint64_t small_count; /* of this step */

    dao_mutex_t boundary; /* rank STEP_BOUNDARY: beginning and ending steps */
    dao_cond_t changed;   /* a learning is under way no longer */
    /* guarded by it */
    uint32_t depth;  /* steps that have begun and not ended */
    uint64_t number; /* of the latest step, from 1 */
    bool is_enabled;
    dao_planned_learning_t *learning; /* or NULL */
    uint32_t bad_run;                 /* steps in a row that matched no plan */
    uint64_t plain_until;             /* steps up to this one are plain */
    uint64_t fault_count;             /* of the process as the step began */
    uint64_t touched_bytes;           /* of the window, from its begin on: prefaulted */
    dao_step_plan_stats_t stats;      /* what has ended */

    dao_spin_t lock; /* rank STEP_PLAN: what requests and frees change */
    /* guarded by both for writing, by either for reading */
    dao_window_t window;  /* of the inner allocator, or nothing */
    uint64_t arena_bytes; /* of it, from its begin on: what the plans ask for; 0: it is not used */
    dao_learnt_plan_t plans[DAO_PLANNED_PLAN_COUNT]; /* but for follow, known_count and what bins hand out */
    /* guarded by the lock */
    uint32_t current;          /* the plan that this step follows; DAO_PLANNED_PLAN_COUNT: none */
    uint32_t candidates;       /* a bit for each plan that this step may follow */
    dao_lifetimes_t recording; /* of the latest step; its serial is the number of that, or 0: forgotten */
    dao_block_map_t tracked;   /* blocks of steps: who they are in their recording */
    uint64_t slot_threads[DAO_LIFETIME_SLOT_COUNT]; /* numbers of threads; 0: nobody has that slot */
    dao_planned_deferred_t *deferred;               /* frees for the end of the step */
    size_t deferred_count, deferred_capacity;
    uint64_t beside_bytes; /* of tracked blocks that lie beside the window, rounded up */
    dao_planned_own_t own;
    dao_step_counts_t counts; /* of this step */
} dao_planned_t;

DAO_FRONT_ASSERT(dao_planned_t);

static inline dao_planned_t *dao_planned_of(dao_allocator_t *allocator)
{
    return (dao_planned_t *)allocator;
}

static inline uint64_t dao_planned_rounded(uint64_t size_bytes)
{
    return dao_lifetime_units(size_bytes) * DAO_LIFETIME_UNIT_BYTES;
}

/* Returns an address's offset in the window; what lies outside has none below its size. The lock is held. */
static inline uint64_t dao_planned_offset(const dao_planned_t *planned, const void *address)
{
    return (uintptr_t)address - (uintptr_t)planned->window.address;
}

static inline bool dao_planned_in_window(const dao_planned_t *planned, const void *address)
{
    return dao_planned_offset(planned, address) < planned->window.size_bytes;
}

/* ---- learnt_plans.c: the plans of a place ---- */

/* Frees what a plan has; zeroed memory is allowed. */
void dao_learnt_plan_finish(dao_learnt_plan_t *plan);

/* Begins a step: which plan it follows is open. The lock is held. */
void dao_planned_recognise_restart(dao_planned_t *planned);

/* Finds a request in the plans that the step may follow. Returns its entry in the one that it follows now.
   The lock is held. */
uint32_t dao_planned_recognise(dao_planned_t *planned, const dao_lifetime_t *item);

/* Looks at how a step has gone, and learns from it. Returns what somebody has to start, with a reference for
   it, or NULL. The boundary is held, the lock is not. */
dao_planned_learning_t *dao_planned_learn(dao_planned_t *planned);

/* Gives up a reference. The last one may wait for the planner. The boundary is held. */
void dao_planned_learning_release(dao_planned_learning_t *learning);

/* Makes a plan usable that has its offsets. The boundary is held; no step is under way. */
void dao_planned_adopt(dao_planned_t *planned);

/* Puts a plan in the place of another one, which is freed. The boundary is held, the lock is not. */
void dao_planned_replace(dao_planned_t *planned, uint32_t number, const dao_learnt_plan_t *plan);

/* Makes what using a plan's script with its offsets needs. A failure leaves the plan to be finished. */
DAO_NODISCARD dao_status_t dao_learnt_plan_make_ready(dao_planned_t *planned, dao_learnt_plan_t *plan);

/* ---- planned.c ---- */

/* Frees a block now: as free of dao_allocator_ops_t. */
dao_status_t dao_planned_free_now(dao_planned_t *planned, void *address, dao_stream_fence_t *fence,
                                  dao_block_owner_t owner);

#endif
