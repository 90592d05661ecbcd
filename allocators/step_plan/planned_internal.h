/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of an allocator with step plans, for the files of this folder. What holds between calls is said
   in planned.c, the states of plans in learnt_plans.c, those of the arena in planned_arena.c. */
#ifndef DAO_ALLOCATORS_PLANNED_INTERNAL_H
#define DAO_ALLOCATORS_PLANNED_INTERNAL_H

#include "allocators/accounting/block_map.h"
#include "allocators/range/segment.h"
#include "allocators/step_plan/bins.h"
#include "allocators/step_plan/planned.h"
#include "base/threads/sync.h"
#include "planning/steps/follow.h"
#include "planning/steps/lifetimes.h"
#include "planning/steps/script.h"

/* Steps that are kept: training and evaluation, each with some sequence lengths. As many as the executor
   keeps. */
#define DAO_PLANNED_PLAN_COUNT 8u

/* Plain steps in a row, and those between two attempts to get an arena, are a power of two, at most of this
   one: a program that begins to repeat itself waits for 64 steps at most. */
#define DAO_PLANNED_BACKOFF_SHIFT_MAX 6u

/* The memory that plans lie in: a window of the inner allocator where it has such, whose blocks are the inner
   allocator's own; else one block of it under a range. */
typedef struct dao_planned_arena {
    dao_segment_t segment;  /* as large as the plans ask for; its range is NULL for a window */
    dao_window_t window;    /* or nothing */
    uint64_t touched_bytes; /* of a window, from its begin on: prefaulted */
    dao_ledger_t ledger;    /* of a block: counts what lives in it; a part of the inner allocator's */
    size_t given_bytes;     /* of a block: what it takes of the inner allocator */
    uint64_t take_count;    /* such blocks so far */
    bool is_closed;         /* a block that nothing new goes into, as a larger one is to take its place */
} dao_planned_arena_t;

/* A step that was learnt. All zero: nothing. */
typedef struct dao_learnt_plan {
    dao_script_t *script; /* owned */
    dao_follow_t follow;
    dao_bins_t *bins;       /* owned; NULL: offsets, or not ready */
    uint64_t arena_bytes;   /* that the plan needs; 0 while it is not ready */
    bool is_ready;          /* there are offsets or bins: it may be used */
    uint32_t learnt_count;  /* steps that the script was learnt from */
    uint32_t stable_run;    /* steps in a row that changed nothing in it */
    uint32_t failure_count; /* times that a miss ended its use, in an arena that is a block */
    uint32_t step_count;    /* steps that matched it since it was first learnt */
    uint64_t latest_step;   /* the latest of these; or that in which it was learnt */
    uint64_t known_count;   /* of this step: requests that were found in the script, */
    uint64_t known_bytes;   /* and what they asked for */
} dao_learnt_plan_t;

/* A script whose offsets are being looked for. Counted under `boundary`; the last reference frees it. */
typedef struct dao_planned_learning {
    dao_learnt_plan_t plan; /* owned, and all zero once it was adopted */
    uint32_t number;        /* of the plan whose place it takes */
    dao_planner_t *planner; /* owned; NULL: bins need none */
    uint32_t reference_count;
    bool is_under_way; /* somebody works on it, or has asked for a thread */
    bool is_outdated;  /* a miss has ended the use of the plan before it, in an arena that is a block */
} dao_planned_learning_t;

/* A free that waits for the end of the step. */
typedef struct dao_planned_deferred {
    void *address;
    dao_stream_fence_t fence;
} dao_planned_deferred_t;

/* What the blocks of one step come to, those of earlier ones left out. */
typedef struct dao_planned_own {
    uint64_t live_bytes; /* asked for; its peak is the recording's bound_bytes */
    uint64_t used_bytes; /* rounded up */
    uint64_t peak_used_bytes;
    uint64_t beside_bytes; /* of these, beside the arena */
    uint64_t peak_beside_bytes;
} dao_planned_own_t;

typedef struct dao_planned {
    dao_allocator_t base;
    dao_allocator_ops_t ops; /* without what the inner allocator cannot do */
    dao_allocator_t *inner;
    char *name;
    dao_step_plan_config_t config; /* no default is left open in it */
    dao_stream_fences_t *fences;
    bool is_host_memory;

    /* looked at without a lock */
    _Atomic bool is_open; /* requests belong to a step */
    _Atomic uintptr_t arena_begin;
    _Atomic size_t arena_bytes; /* 0: there is none */
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
    uint64_t arena_retry;             /* no arena is asked for before this step, */
    uint32_t arena_failure_count;     /* as the latest so many attempts failed */
    dao_step_plan_stats_t stats;      /* what has ended */

    dao_spin_t lock; /* rank STEP_PLAN: what requests and frees change */
    /* guarded by both for writing, by either for reading */
    dao_planned_arena_t arena;
    dao_learnt_plan_t plans[DAO_PLANNED_PLAN_COUNT]; /* but for follow, known_count and what bins hand out */
    /* guarded by the lock */
    uint32_t current;              /* the plan that this step follows; DAO_PLANNED_PLAN_COUNT: none */
    uint32_t candidates;           /* a bit for each plan that this step may follow */
    dao_lifetimes_t recordings[2]; /* of the latest two steps, by the last bit of their number */
    uint32_t serial;               /* of the latest one: its number */
    dao_block_map_t tracked;       /* blocks of steps: who they are in their recording */
    uint64_t slot_threads[DAO_LIFETIME_SLOT_COUNT]; /* numbers of threads; 0: nobody has that slot */
    dao_planned_deferred_t *deferred;               /* frees for the end of the step */
    size_t deferred_count, deferred_capacity;
    uint64_t live_bytes;   /* asked for by tracked blocks */
    uint64_t beside_bytes; /* of tracked blocks that lie beside the arena, rounded up */
    dao_planned_own_t own;
    dao_step_counts_t counts; /* of this step */
} dao_planned_t;

static inline dao_planned_t *dao_planned_of(dao_allocator_t *allocator)
{
    return (dao_planned_t *)allocator;
}

static inline uint64_t dao_planned_rounded(uint64_t size_bytes)
{
    return dao_lifetime_units(size_bytes) * DAO_LIFETIME_UNIT_BYTES;
}

/* Exact under the lock; without it, it may be true for an address outside, never false for a live block
   inside. */
static inline bool dao_planned_in_arena(const dao_planned_t *planned, const void *address)
{
    uintptr_t begin = atomic_load_explicit(&planned->arena_begin, memory_order_relaxed);
    return (uintptr_t)address - begin < atomic_load_explicit(&planned->arena_bytes, memory_order_relaxed);
}

/* Returns true if there is memory for plans. */
static inline bool dao_planned_has_arena(const dao_planned_t *planned)
{
    return planned->arena.segment.size_bytes > 0;
}

/* Returns true if the arena's blocks are the inner allocator's own. */
static inline bool dao_planned_has_window(const dao_planned_t *planned)
{
    return planned->arena.window.size_bytes > 0;
}

/* Returns true if the arena is one block, or would be. */
static inline bool dao_planned_has_block(const dao_planned_t *planned)
{
    return planned->inner->ops->window_begin == NULL;
}

/* ---- planned_arena.c: memory of the arena ---- */

/* Takes, replaces or gives back the arena, as the plans that are ready ask for it. The boundary is held, the
   lock is not. */
void dao_planned_arena_fit(dao_planned_t *planned);

/* Returns an arena that is a block back, if nothing lives in it; true if there is none then. The boundary is
   held, the lock is not. */
bool dao_planned_arena_give(dao_planned_t *planned);

/* Takes [offset, ...) of the arena for a request, if it is free: DAO_ERR_LIMIT otherwise, and for the limit
   of the request's tag; DAO_ERR_NO_HOST_MEMORY. The lock is held. */
dao_status_t dao_planned_take_at(dao_planned_t *planned, uint64_t offset_bytes,
                                 const dao_block_request_t *request, dao_block_grant_t *out_grant);

/* The same for any part that is free, of an arena that is a block. */
dao_status_t dao_planned_take_any(dao_planned_t *planned, const dao_block_request_t *request,
                                  dao_block_grant_t *out_grant);

/* ---- learnt_plans.c: the plans of a place ---- */

/* Frees what a plan has; zeroed memory is allowed. */
void dao_learnt_plan_finish(dao_learnt_plan_t *plan);

/* Begins a step: which plan it follows is open. The lock is held. */
void dao_planned_recognise_restart(dao_planned_t *planned);

/* Finds a request, which is counted already, in the plans that the step may follow. out_entries and
   out_counts get what each of these needs to take it back. The lock is held. */
void dao_planned_recognise(dao_planned_t *planned, const dao_lifetime_t *item,
                           uint32_t out_entries[DAO_PLANNED_PLAN_COUNT],
                           uint32_t out_counts[DAO_PLANNED_PLAN_COUNT]);

/* Takes a request back that failed. The lock is held. */
void dao_planned_recognise_undo(dao_planned_t *planned, const dao_lifetime_t *item,
                                const uint32_t entries[DAO_PLANNED_PLAN_COUNT],
                                const uint32_t counts[DAO_PLANNED_PLAN_COUNT]);

/* Looks at how a step has gone, and learns from it. Returns what somebody has to start, with a reference for
   it, or NULL. The boundary is held, the lock is not. */
dao_planned_learning_t *dao_planned_learn(dao_planned_t *planned);

/* Works on what is being learnt, or lets others do so. No lock is held; the caller gives its reference up. */
void dao_planned_learning_start(dao_planned_t *planned, dao_planned_learning_t *learning);

/* Gives up a reference. The last one may wait for the planner. The boundary is held. */
void dao_planned_learning_release(dao_planned_learning_t *learning);

/* Makes a plan usable that has its offsets. The boundary is held; no step is under way. */
void dao_planned_adopt(dao_planned_t *planned);

/* Puts a plan in the place of another one, which is freed, or of all for DAO_PLANNED_PLAN_COUNT. The boundary
   is held, the lock is not. */
void dao_planned_replace(dao_planned_t *planned, uint32_t number, const dao_learnt_plan_t *plan);

/* Makes what using a script with offsets needs, and takes it over in any case. */
DAO_NODISCARD dao_status_t dao_learnt_plan_init(dao_planned_t *planned, dao_script_t *script,
                                                dao_learnt_plan_t *out_plan);

/* ---- boundary_lock.c ---- */

/* Taking `boundary`, and giving it up. The program's functions may be called under it: who shows a plan does,
   and lines of the log come from where the arena does. A thread has one boundary at a time; trying fails if
   it has one. */
void dao_planned_boundary_lock(dao_planned_t *planned);
bool dao_planned_boundary_try_lock(dao_planned_t *planned);
void dao_planned_boundary_unlock(dao_planned_t *planned);

/* Returns the arena back where it can be, between steps. No lock is held. */
void dao_planned_arena_trim(dao_planned_t *planned);

/* ---- planned.c ---- */

/* Frees a block now: as free of dao_allocator_ops_t. */
dao_status_t dao_planned_free_now(dao_planned_t *planned, void *address, dao_stream_fence_t *fence);

/* ---- planned_stats.c: members of the table ---- */

uint64_t dao_planned_used_get(dao_allocator_t *allocator);
void dao_planned_table_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats);
void dao_planned_stats_reset_peaks(dao_allocator_t *allocator);
void dao_planned_table_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user);
void dao_planned_table_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user);
bool dao_planned_is_valid(dao_allocator_t *allocator);

#endif
