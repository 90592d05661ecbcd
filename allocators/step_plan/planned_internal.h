/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of an allocator that serves from plans, for the files planned*.c. What holds between calls is
   said in planned.c. */
#ifndef DAO_ALLOCATORS_PLANNED_INTERNAL_H
#define DAO_ALLOCATORS_PLANNED_INTERNAL_H

#include "allocators/accounting/block_map.h"
#include "allocators/range/segment.h"
#include "allocators/step_plan/bins.h"
#include "allocators/step_plan/planned.h"
#include "allocators/step_plan/shadow.h"
#include "base/threads/sync.h"
#include "planning/steps/follow.h"
#include "planning/steps/lifetimes.h"
#include "planning/steps/outlook.h"
#include "planning/steps/script.h"

/* Beside an arena that is a block a place may grow to this part more than it surely had without plans. */
#define DAO_PLANNED_GROWTH_PART 20u

/* What a place had before it was served from a plan for the first time. */
typedef struct dao_planned_usual {
    uint64_t reserved_bytes;
    uint64_t live_bytes; /* most of steps, asked for */
} dao_planned_usual_t;

/* The memory that plans are served from: a window of the inner allocator where it has such, whose blocks are
   the inner allocator's own; else one block of it under a range. */
typedef struct dao_arena {
    dao_segment_t
        segment; /* where plans are served, as large as they ask for; its range is NULL for a window */
    dao_window_t window;       /* or nothing */
    dao_planned_usual_t usual; /* as the first was taken */
    uint64_t touched_bytes;    /* of a window, from its begin on: prefaulted */
    dao_ledger_t ledger;       /* of a block: counts what lives in it; a part of the inner allocator's */
    size_t given_bytes;        /* of a block: what it takes of the inner allocator */
    uint64_t take_count;       /* such blocks so far */
} dao_arena_t;

/* A script that serves, with what using it needs. All zero: there is none. */
typedef struct dao_served {
    dao_script_t *script; /* owned */
    dao_follow_t follow;
    uint64_t arena_bytes;  /* that it needs */
    dao_outlook_t outlook; /* of offsets */
    dao_bins_t *bins;      /* owned; NULL: offsets are served */
} dao_served_t;

/* A script whose offsets are being looked for. Counted under `border`; the last one frees it. */
typedef struct dao_learning {
    dao_script_t *script;   /* owned; NULL once it serves */
    dao_planner_t *planner; /* owned; NULL: bins need none */
    uint32_t reference_count;
    bool is_under_way; /* somebody works on it, or has asked for a thread */
    bool is_outdated;  /* the plan before it was given up meanwhile */
} dao_learning_t;

/* How the program has kept to its plans: step_boundary.c. */
typedef struct dao_course {
    uint32_t learnt_count;  /* steps that the script was learnt from */
    uint32_t stable_run;    /* of these, how many in a row changed nothing */
    uint32_t renewal_count; /* times that they were learnt anew, up to a limit */
    uint32_t doubt_count;   /* changes and plans given up, for which more is to be proved */
    uint64_t next_learn;    /* not before this step */
    uint64_t beside_bytes;  /* most that lay beside the arena in the latest step */
    uint32_t poor_run;      /* steps in a row of which the arena served little */
    bool has_departed; /* from a plan that was given up for that: the next one is to be proved at any place */
    uint64_t rest_until; /* nothing is learnt up to this step */
    uint64_t rest;       /* how long the next rest is */
    uint64_t
        leaving_until; /* the plan is given up as soon as its arena is empty, at this step at the latest; or 0 */
} dao_course_t;

/* Stands for a block in the shadow of the place. All zero: there was none. */
typedef struct dao_stand_in {
    void *address;        /* NULL: the shadow had no room for it, or no memory */
    uint64_t alone_bytes; /* that the shadow had before */
    uint32_t serial;
} dao_stand_in_t;

/* A free that was retired. */
typedef struct dao_put_off {
    void *address;
    dao_stream_fence_t fence;
} dao_put_off_t;

/* What the blocks of one step come to, those of earlier ones left out. */
typedef struct dao_planned_own {
    uint64_t live_bytes; /* asked for; its peak is the recording's bound_bytes */
    uint64_t used_bytes; /* rounded up */
    uint64_t peak_used_bytes;
    uint64_t beside_bytes; /* of these, beside the arena */
    uint64_t peak_beside_bytes;
} dao_planned_own_t;

/* Places in a window that were free, but would have kept memory from others. */
typedef struct dao_planned_refusals {
    uint64_t count; /* in this step */
    uint32_t gap;   /* after a refusal so many requests do not ask for more memory */
    uint32_t left;  /* of these */
} dao_planned_refusals_t;

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
    _Atomic bool is_shadowed; /* there is a shadow */
    _Atomic uint32_t lease_count;
    _Atomic uint64_t small_count; /* of this step */

    dao_mutex_t border; /* rank BORDER: beginning and ending steps */
    dao_cond_t changed; /* a learning is under way no longer */
    /* guarded by it */
    uint32_t depth;  /* steps that have begun and not ended */
    uint64_t number; /* of the latest step, from 1 */
    bool is_enabled;
    dao_learning_t *learning; /* or NULL */
    dao_script_t *learnt;     /* owned: what was learnt and does not serve yet; or NULL */
    dao_course_t course;
    bool is_unsure;       /* the program has not kept to its plan in the latest step, or the plan is new */
    uint64_t fault_count; /* of the process as the step began */
    uint64_t arena_retry; /* no arena is asked for before this step */
    uint64_t arena_gap;
    dao_step_plan_stats_t stats; /* what has ended */

    dao_spin_t lock; /* rank SERVING: what requests and frees change */
    /* guarded by both for writing, by either for reading */
    dao_arena_t arena;
    dao_served_t served;
    /* guarded by the lock */
    dao_lifetimes_t recordings[2]; /* of the latest two steps, by the last bit of their number */
    uint32_t serial;               /* of the latest one: its number */
    dao_block_map_t tracked;       /* blocks of steps: who they are in their recording */
    uint32_t now;                  /* where in the script the program is */
    bool is_steady;                /* the latest steps that were learnt have changed nothing */
    uint64_t others_before;        /* of the step before: no hits, while a plan served */
    uint64_t stray_count; /* of this step: in no plan, or found their place taken; 0 where bins serve */
    bool is_astray;       /* they were too many for places by the plan: planned_arena.c */
    bool has_grown;       /* in this step, for a block beside an arena that is a block */
    bool is_draining;     /* the arena is to be empty at the next border */
    uint64_t lane_threads[DAO_LIFETIME_LANE_COUNT]; /* their numbers; 0: nobody has that lane */
    dao_put_off_t *retire;                          /* frees for the end of the step */
    size_t retired_count, put_off_capacity;
    uint64_t live_bytes;      /* asked for by tracked blocks */
    uint64_t peak_live_bytes; /* ever */
    uint64_t beside_bytes;    /* of tracked blocks that lie beside the arena, rounded up */
    dao_planned_own_t own;
    dao_planned_refusals_t refusals;
    dao_shadow_t *shadow;     /* owned: what the place would have without a plan; or NULL */
    uint32_t shadow_serial;   /* from 1 */
    uint32_t change_count;    /* of limits and trims, which a shadow that is being made may not have seen */
    uint64_t alone_bytes;     /* what the place is known to have had without a plan */
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

/* Tells whether plans can be served now. */
static inline bool dao_planned_has_arena(const dao_planned_t *planned)
{
    return planned->arena.segment.size_bytes > 0;
}

/* Tells whether the arena's blocks are the inner allocator's own. */
static inline bool dao_planned_has_window(const dao_planned_t *planned)
{
    return planned->arena.window.size_bytes > 0;
}

/* ---- planned_arena.c: memory of the arena ---- */

/* Takes an arena of so many bytes from the inner allocator, or where the arena is a block and the place would
   be larger than without plans, of less. The border is held, the lock is not. The inner allocator's answer;
   DAO_ERR_LIMIT: it would be much less; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_planned_arena_take(dao_planned_t *planned, uint64_t size_bytes,
                                                  uint64_t alignment_bytes);

/* Tells whether the arena is to be given back for one of so many bytes: not where it is a part of what the
   plan asks for, and a new one would be hardly larger. The border is held, the lock is not. */
bool dao_planned_arena_is_due(dao_planned_t *planned, uint64_t size_bytes);

/* Tells whether the place would have hardly more than it surely had without a plan even if some buffers as
   large as the largest of a plan lay beside an arena of so many bytes. The border is held, the lock is not.
   */
bool dao_planned_arena_is_safe(dao_planned_t *planned, uint64_t size_bytes, uint64_t largest_bytes);

/* Gives the arena back, if nothing lives in it; tells whether there is none then. The border is held, the
   lock is not. */
bool dao_planned_arena_give(dao_planned_t *planned);

/* Takes [offset, ...) of the arena for a request, if it is free: DAO_ERR_LIMIT otherwise, and for the limit
   of the request's tag; DAO_ERR_BUSY where it would keep memory of a window from others;
   DAO_ERR_NO_HOST_MEMORY. The lock is held. */
dao_status_t dao_planned_take_at(dao_planned_t *planned, uint64_t offset_bytes,
                                 const dao_block_request_t *request, dao_block_grant_t *out_grant);

/* The same for a stretch where, up to a time of the script, nothing larger than `most_harm` is planned; 0:
   nothing at all. */
dao_status_t dao_planned_take_quiet(dao_planned_t *planned, uint32_t until, uint64_t most_harm,
                                    const dao_block_request_t *request, dao_block_grant_t *out_grant);

/* The same for any stretch that is free, whatever is planned for it. */
dao_status_t dao_planned_take_any(dao_planned_t *planned, const dao_block_request_t *request,
                                  dao_block_grant_t *out_grant);

/* Looks at how many requests of the step have strayed: in no plan, or their place was taken; behind a
   hit that was refused its free pages, more closely. A step that keeps so little to its plan is astray:
   it has places no more, as each would be in the way of others, and waste a block, or pages. The lock is
   held. */
void dao_planned_strays_judge(dao_planned_t *planned, bool is_refused);

/* Gives what a place whose arena is a window may have, for a request of a step, before it has clearly
   more than it would have without a plan; UINT64_MAX where the arena is none, or for bins, which are known to
   take more. The lock is held. */
uint64_t dao_planned_window_usual(const dao_planned_t *planned);

/* Tells whether a place whose arena is a window has clearly more than it would have without a plan. The lock
   is not held. */
bool dao_planned_window_costs(dao_planned_t *planned);

/* Gives back, as far as it is idle, what a place has clearly more than it would have without a plan, where
   that is known: what one step took too much is not to be in the way of all that follow. The border is
   held, the lock is not. */
void dao_planned_excess_give(dao_planned_t *planned);

/* Gives how many bytes the place may grow beside an arena that is a block, to have hardly more than it surely
   had without a plan. The lock is not held. */
uint64_t dao_planned_growth_room(dao_planned_t *planned);

/* ---- step_boundary.c ---- */

/* Taking `border`, and giving it up. The program's functions may be called under it: who shows a plan does,
   and lines of the log come from where the arena does. A thread has one border at a time; trying fails if it
   has one. */
void dao_planned_boundary_lock(dao_planned_t *planned);
bool dao_planned_boundary_try_lock(dao_planned_t *planned);
void dao_planned_boundary_unlock(dao_planned_t *planned);

/* Ends what is being learnt. */
void dao_planned_boundary_finish(dao_planned_t *planned);

/* Gives up a script that serves. */
void dao_served_finish(dao_served_t *served);

/* ---- planned.c ---- */

/* Frees a block now: as free of dao_allocator_ops_t. */
dao_status_t dao_planned_free_now(dao_planned_t *planned, void *address, dao_stream_fence_t *fence);

/* ---- planned_shadow.c ---- */

/* Begins or ends the shadow of a place whose plans are served from a window. The border is held, the lock is
   not. */
void dao_planned_shadow_fit(dao_planned_t *planned);

/* Ends it. The lock is held. */
void dao_planned_shadow_end(dao_planned_t *planned);

/* What becomes of a request in the shadow: it is taken, and bound or dropped later. The shadow ends where it
   has no room for what the place had room for, or no memory. The lock is held, also before dao_shadow_free().
   */
dao_stand_in_t dao_planned_shadow_take(dao_planned_t *planned, const dao_block_request_t *request);
void dao_planned_shadow_bind(dao_planned_t *planned, const dao_stand_in_t *stand_in, void *address,
                             size_t size_bytes);
void dao_planned_shadow_drop(dao_planned_t *planned, const dao_stand_in_t *stand_in);

/* Hands a request that no plan is for to the inner allocator, while there is a shadow. The lock is not held.
   */
dao_status_t dao_planned_shadow_alloc(dao_planned_t *planned, const dao_block_request_t *request,
                                      dao_block_grant_t *out_grant);

/* The place gives its cached memory back, or got another limit. The lock is not held. */
void dao_planned_shadow_trim(dao_planned_t *planned, size_t keep_bytes);
void dao_planned_shadow_limit(dao_planned_t *planned, size_t limit_bytes);

/* ---- planned_stats.c: members of the table ---- */

uint64_t dao_planned_used_get(dao_allocator_t *allocator);
void dao_planned_table_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats);
void dao_planned_stats_reset_peaks(dao_allocator_t *allocator);
void dao_planned_table_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user);
void dao_planned_table_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user);
bool dao_planned_is_valid(dao_allocator_t *allocator);

#endif
