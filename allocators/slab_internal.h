/* What slab.c and slab_stats.c share: the front itself, and what a thread does at every call. */
#ifndef DAO_ALLOCATORS_SLAB_INTERNAL_H
#define DAO_ALLOCATORS_SLAB_INTERNAL_H

#include "allocators/magazines.h"
#include "base/assert.h"
#include "base/sync.h"

/* The front. What is written at every call is each thread's own (magazines.h). */
typedef struct dao_front {
    dao_allocator_t base;
    dao_allocator_t *inner;
    const dao_stats_t
        *view; /* the inner allocator's counters; if it does not show them all zero, and has_view is false */
    bool has_view;
    _Atomic uint32_t epoch; /* changes when all threads are to flush */
    dao_magazine_owner_t owner;
    dao_allocator_ops_t ops; /* without stream_mark if the inner allocator has none */
    char *name;
    _Atomic uint64_t failed_count;
    _Atomic bool is_shared; /* since the reset something was done that no thread's peaks show */

    dao_mutex_t lock;
    dao_slabs_t slabs; /* but for what slabs.h allows without the lock */
    dao_magazines_t *first;
    dao_magazine_counts_t gone; /* of threads that have ended or have no magazines */
} dao_front_t;

static inline dao_front_t *dao_front_of(dao_allocator_t *allocator)
{
    return (dao_front_t *)allocator;
}

static inline void dao_front_lock(dao_front_t *front)
{
    dao_mutex_lock(&front->lock);
    DAO_ASSERT_HEAVY(dao_slabs_is_valid(&front->slabs));
}

static inline void dao_front_unlock(dao_front_t *front)
{
    DAO_ASSERT_HEAVY(dao_slabs_is_valid(&front->slabs));
    dao_mutex_unlock(&front->lock);
}

/* Calls on all threads to flush at their next call; gives the new epoch. */
static inline uint32_t dao_front_call_locked(dao_front_t *front)
{
    uint32_t epoch = atomic_load_explicit(&front->epoch, memory_order_relaxed) + 1;
    epoch += epoch == DAO_MAGAZINES_EPOCH_NONE;
    atomic_store_explicit(&front->epoch, epoch, memory_order_relaxed);
    return epoch;
}

/* ---- peaks ---- */

/* Gives what the inner allocator holds beside slabs, by one of the counters that it shows. */
static inline int64_t dao_front_below(const dao_front_t *front, const uint64_t *field)
{
    return (int64_t)(dao_stats_read(field) -
                     atomic_load_explicit(&front->slabs.slab_bytes, memory_order_relaxed));
}

/* Gives the most that was held since the thread was last in the inner allocator, which holds `below_bytes` beside slabs. */
static inline int64_t dao_front_window_top(const dao_magazine_peak_t *peak, int64_t below_bytes)
{
    return below_bytes + atomic_load_explicit(&peak->outside, memory_order_relaxed) +
           atomic_load_explicit(&peak->window, memory_order_relaxed);
}

/* Looks at what the inner allocator holds, raises the peaks, and begins the windows anew. */
void dao_front_look(const dao_front_t *front, dao_magazines_t *own);

/* The thread is about to enter the inner allocator: it looks if there may be a new peak since its last look. There is none
   if it has handed out and taken back nothing and the inner allocator holds no more than the limits. (Slabs that ended
   meanwhile would make them too high: whoever ends slabs has look_count forget the last look.) */
static inline void dao_front_enter_inner(const dao_front_t *front, dao_magazines_t *own)
{
    atomic_store_explicit(&own->has_entered, true, memory_order_relaxed);
    if (dao_magazines_call_count(own) != own->look_count ||
        (int64_t)dao_stats_read(&front->view->used_bytes) > own->used_peak.limit ||
        (int64_t)dao_stats_read(&front->view->requested_bytes) > own->requested_peak.limit) {
        dao_front_look(front, own);
    }
}

/* Begins a thread's peaks: what it finds is the least of them. */
void dao_front_peaks_begin_locked(const dao_front_t *front, dao_magazines_t *own);

/* ---- counters ---- */

/* Adds counts to others. */
void dao_front_counts_add(dao_magazine_counts_t *sum, const dao_magazine_counts_t *counts);

/* Members of the table: see allocator.h. */
uint64_t dao_front_used_get(dao_allocator_t *allocator);
void dao_front_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats);
void dao_front_stats_reset_peaks(dao_allocator_t *allocator);
bool dao_front_is_valid(dao_allocator_t *allocator);

#endif
