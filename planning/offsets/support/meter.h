/* SPDX-License-Identifier: Apache-2.0 */
/* Counts work, and looks whether it is to end.

   A method goes on while dao_plan_meter_has(). What must run to its end, such as a sort, is a pass: stretches
   of a few thousand elements, before each of which it is looked whether all was cancelled. A pass that was
   cancelled leaves what it fills half done; passes after it end at once, and whoever called them asks
   dao_plan_meter_is_cancelled() before using any of it. Nothing goes on after a cancellation, so nothing
   needs to be taken up again. */
#ifndef DAO_PLANNING_METER_H
#define DAO_PLANNING_METER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sees each look at a meter: for tests and measurements of how far apart they are. */
typedef struct dao_plan_watch {
    void (*look)(void *user, uint64_t used); /* work so far */
    void *user;
} dao_plan_watch_t;

typedef struct dao_plan_meter {
    uint64_t used;
    uint64_t limit;                   /* the slice ends when `used` has reached it */
    const _Atomic bool *is_cancelled; /* all ends when it is set; it is never taken back */
    const dao_plan_watch_t *watch;    /* NULL: nobody */
} dao_plan_meter_t;

/* Elements of a stretch, and of those that count as a step of work. */
#define DAO_PLAN_STRETCH       2048u
#define DAO_PLAN_PASS_PER_WORK 8u

static inline bool dao_plan_meter_is_cancelled(const dao_plan_meter_t *meter)
{
    if (meter->watch != NULL) {
        meter->watch->look(meter->watch->user, meter->used);
    }
    return atomic_load_explicit(meter->is_cancelled, memory_order_relaxed);
}

static inline bool dao_plan_meter_has(const dao_plan_meter_t *meter)
{
    return meter->used < meter->limit && !dao_plan_meter_is_cancelled(meter);
}

/* A pass over [0, count): the stretch at hand is [begin, end). All zero but the count: before the first one.
   */
typedef struct dao_plan_pass {
    size_t count;
    size_t begin;
    size_t end;
} dao_plan_pass_t;

/* Goes to the next stretch. False: the pass is over, or cancelled. */
static inline bool dao_plan_pass_next(dao_plan_pass_t *pass, dao_plan_meter_t *meter)
{
    pass->begin = pass->end;
    if (pass->begin == pass->count || dao_plan_meter_is_cancelled(meter)) {
        return false;
    }
    size_t left = pass->count - pass->begin;
    pass->end += left < DAO_PLAN_STRETCH ? left : DAO_PLAN_STRETCH;
    meter->used += 1 + (pass->end - pass->begin) / DAO_PLAN_PASS_PER_WORK;
    return true;
}

/* A meter without an end, for those who are not let to cancel. */
dao_plan_meter_t dao_plan_meter_endless(void);

/* Copies, and fills, in passes. */
void dao_plan_pass_copy(void *to, const void *from, size_t size_bytes, dao_plan_meter_t *meter);
void dao_plan_pass_fill(void *to, int byte, size_t size_bytes, dao_plan_meter_t *meter);

#endif
