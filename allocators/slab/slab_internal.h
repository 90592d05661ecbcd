/* SPDX-License-Identifier: Apache-2.0 */
/* What slab.c and slab_stats.c share: the front itself, and what a thread does at every call. */
#ifndef DAO_ALLOCATORS_SLAB_INTERNAL_H
#define DAO_ALLOCATORS_SLAB_INTERNAL_H

#include "allocators/slab/magazines.h"
#include "base/report/assert.h"
#include "base/threads/sync.h"

/* The front. What is written at every call is each thread's own (magazines.h). */
typedef struct dao_front {
    dao_allocator_t base;
    dao_allocator_t *inner;
    size_t small_bytes;     /* the largest request that is small */
    _Atomic uint32_t epoch; /* changes when all threads are to flush */
    dao_magazine_owner_t owner;
    dao_allocator_ops_t ops; /* without stream_mark if the inner allocator has none */
    char *name;
    _Atomic uint64_t failed_count;

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

/* ---- counters ---- */

/* Adds counts to others. */
void dao_front_counts_add(dao_magazine_counts_t *sum, const dao_magazine_counts_t *counts);

/* Members of the table: see allocator.h. */
uint64_t dao_front_used_get(dao_allocator_t *allocator);
void dao_front_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats);
void dao_front_stats_reset_peaks(dao_allocator_t *allocator);
bool dao_front_is_valid(dao_allocator_t *allocator);

#endif
