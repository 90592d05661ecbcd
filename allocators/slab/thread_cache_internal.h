/* SPDX-License-Identifier: Apache-2.0 */
/* What thread_cache.c, thread_visits.c and slab_stats.c share: the front itself, and what a thread does at
 * every call. */
#ifndef DAO_ALLOCATORS_THREAD_CACHE_INTERNAL_H
#define DAO_ALLOCATORS_THREAD_CACHE_INTERNAL_H

#include "allocators/front.h"
#include "allocators/slab/magazines.h"
#include "base/report/assert.h"
#include "base/threads/sync.h"

/* The front. What is written at every call is each thread's own (magazines.h). */
typedef struct dao_thread_cache {
    dao_allocator_t base; /* this and `inner`: dao_front_t */
    dao_allocator_t *inner;
    size_t small_bytes;     /* the largest request that is small */
    _Atomic uint32_t epoch; /* changes when all threads are to flush */
    dao_magazine_owner_t owner;
    dao_allocator_ops_t ops; /* without what the inner allocator has none of */
    char *name;
    _Atomic uint64_t failed_count;
    dao_magazine_counts_t mailed; /* of deferred frees; any thread adds */

    dao_mutex_t lock;
    uint32_t visit_count; /* refills and flushes */
    uint32_t tick;        /* of decay: see thread_visits.c */
    dao_slabs_t slabs;    /* but for what slab.h allows without the lock */
    dao_magazines_t *first;
    dao_magazine_counts_t gone; /* of threads that have ended or have no magazines */
} dao_thread_cache_t;

DAO_FRONT_ASSERT(dao_thread_cache_t);

static inline dao_thread_cache_t *dao_thread_cache_of(dao_allocator_t *allocator)
{
    return (dao_thread_cache_t *)allocator;
}

static inline void dao_thread_cache_lock(dao_thread_cache_t *cache)
{
    dao_mutex_lock(&cache->lock);
    DAO_ASSERT_HEAVY(dao_slabs_is_valid(&cache->slabs));
}

static inline void dao_thread_cache_unlock(dao_thread_cache_t *cache)
{
    DAO_ASSERT_HEAVY(dao_slabs_is_valid(&cache->slabs));
    dao_mutex_unlock(&cache->lock);
}

/* Calls on all threads to flush, or to let it be done; returns the new epoch. */
static inline uint32_t dao_thread_cache_call_locked(dao_thread_cache_t *cache)
{
    uint32_t epoch = atomic_load_explicit(&cache->epoch, memory_order_relaxed) + 1;
    epoch += epoch == DAO_MAGAZINES_EPOCH_NONE;
    atomic_store_explicit(&cache->epoch, epoch, memory_order_relaxed);
    return epoch;
}

/* ---- a thread at the slabs: thread_visits.c ---- */

/* What a magazine is filled from: the slabs that there are, or a new one as well. */
typedef enum dao_refill_from { DAO_REFILL_FROM_SLABS, DAO_REFILL_FROM_ANY } dao_refill_from_t;

/* Gets objects into an empty magazine. False: the slabs have none, and there is to be no new one, or no
   memory for one, or none for its descriptor; the request may still fit below. */
bool dao_thread_cache_refill(dao_thread_cache_t *cache, dao_magazines_t *own, uint32_t class_index,
                             dao_refill_from_t from);

/* Makes room in some magazines, one after the other: half of each goes back to the slabs, or by mail if
   another thread is there. */
void dao_thread_cache_flush_half(dao_thread_cache_t *cache, dao_magazines_t *own, dao_magazine_t *magazine,
                                 uint32_t magazine_count);

/* Follows a call to flush. */
void dao_thread_cache_follow_epoch(dao_thread_cache_t *cache, dao_magazines_t *own);

/* Makes the memory that nobody uses the inner allocator's, and calls on the other threads to flush; tells
   whether there was any. `own`: this thread's, or NULL. */
bool dao_thread_cache_relieve(dao_thread_cache_t *cache, dao_magazines_t *own);

/* Unlocks, and gives the memory of slabs that have ended back; returns true if there were any. */
bool dao_thread_cache_unlock_and_give_back(dao_thread_cache_t *cache);

/* Members of the owner of magazines: a thread comes, and goes. */
void dao_thread_cache_attach(dao_magazine_owner_t *owner, dao_magazines_t *own);
void dao_thread_cache_detach(dao_magazine_owner_t *owner, dao_magazines_t *own);

/* ---- counters ---- */

/* Returns the bytes that a thread keeps. */
uint64_t dao_thread_cache_kept_bytes(const dao_magazines_t *magazines);

/* Adds counts to others. */
void dao_thread_cache_counts_add(dao_magazine_counts_t *sum, const dao_magazine_counts_t *counts);

/* Members of the table: see allocator.h. */
uint64_t dao_thread_cache_used_get(dao_allocator_t *allocator);
void dao_thread_cache_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats);
void dao_thread_cache_stats_reset_peaks(dao_allocator_t *allocator, dao_peaks_t *out_peaks);
bool dao_thread_cache_is_valid(dao_allocator_t *allocator);
void dao_thread_cache_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user);
void dao_thread_cache_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user);

#endif
