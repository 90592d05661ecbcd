/* SPDX-License-Identifier: Apache-2.0 */
/* Counts work, and notices when it is to end.

   A method goes on while dao_plan_work_is_left(). A loop that must run to its end, such as a sort, is a pass:
   stretches of a few thousand elements, with a look at the cancellation before each. A pass that was
   cancelled leaves its output half done, and passes after it end at once. So callers ask
   dao_plan_work_is_cancelled() before they use any of it. Nothing goes on after a cancellation, so nothing
   needs to be resumed. */
#ifndef DAO_PLANNING_WORK_H
#define DAO_PLANNING_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sees each look at a work counter: for tests and measurements of how far apart they are. */
typedef struct dao_plan_observer {
    void (*look)(void *user, uint64_t used); /* work so far */
    void *user;
} dao_plan_observer_t;

typedef struct dao_plan_work {
    uint64_t used;
    uint64_t limit;                      /* the slice ends when `used` has reached it */
    const _Atomic bool *is_cancelled;    /* all ends when it is set; it is never taken back */
    const dao_plan_observer_t *observer; /* NULL: none */
} dao_plan_work_t;

/* Elements of a stretch, and of those that count as a step of work. */
#define DAO_PLAN_STRETCH       2048u
#define DAO_PLAN_PASS_PER_WORK 8u

static inline bool dao_plan_work_is_cancelled(const dao_plan_work_t *work)
{
    if (work->observer != NULL) {
        work->observer->look(work->observer->user, work->used);
    }
    return atomic_load_explicit(work->is_cancelled, memory_order_relaxed);
}

static inline bool dao_plan_work_is_left(const dao_plan_work_t *work)
{
    return work->used < work->limit && !dao_plan_work_is_cancelled(work);
}

/* A pass over [0, count): the stretch at hand is [begin, end). All zero but the count: before the first
   one. */
typedef struct dao_plan_pass {
    size_t count;
    size_t begin;
    size_t end;
} dao_plan_pass_t;

/* Goes to the next stretch. False: the pass is over, or cancelled. */
static inline bool dao_plan_pass_next(dao_plan_pass_t *pass, dao_plan_work_t *work)
{
    pass->begin = pass->end;
    if (pass->begin == pass->count || dao_plan_work_is_cancelled(work)) {
        return false;
    }
    size_t left = pass->count - pass->begin;
    pass->end += left < DAO_PLAN_STRETCH ? left : DAO_PLAN_STRETCH;
    work->used += 1 + (pass->end - pass->begin) / DAO_PLAN_PASS_PER_WORK;
    return true;
}

/* A work counter without a limit, for calls that cannot be cancelled. */
dao_plan_work_t dao_plan_work_unlimited(void);

/* Copies, and fills, in passes. */
void dao_plan_pass_copy(void *to, const void *from, size_t size_bytes, dao_plan_work_t *work);
void dao_plan_pass_fill(void *to, int byte, size_t size_bytes, dao_plan_work_t *work);

#endif
