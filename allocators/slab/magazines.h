/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread keeps for itself of an allocator: small objects for its next requests, and counters that it
   alone writes. Each allocator that has magazines (an owner) has a slot, and each thread a table with a
   pointer a slot. */
#ifndef DAO_ALLOCATORS_MAGAZINES_H
#define DAO_ALLOCATORS_MAGAZINES_H

#include "base/threads/thread_local.h"

#include "allocators/slab/slab.h"

#include <stdalign.h>

/* Owners at one time; one that comes later does without magazines. */
#define DAO_MAGAZINES_OWNER_MAX 128u

/* A thread keeps so many objects of one size as its bytes of dao_slab_sizes_t allow, within these bounds. */
#define DAO_MAGAZINE_OBJECT_MIN 4u
#define DAO_MAGAZINE_OBJECT_MAX 64u

/* Magazines of two threads share no line of a processor's cache. */
#define DAO_MAGAZINES_ALIGNMENT_BYTES 64u

/* Two to a line of a processor's cache. */
#define DAO_MAGAZINE_BYTES 32u

/* Objects of one size. Others than their thread count them at any time, take them as thread_visits.c says,
   and look at them only while nobody allocates or frees. */
typedef struct dao_magazine {
    alignas(DAO_MAGAZINE_BYTES) _Atomic uint32_t count;
    uint32_t capacity;
    dao_slab_item_t *objects; /* the latest last */
    uint32_t object_bytes;
    uint32_t reciprocal; /* of object_bytes: slab.h */
    bool was_refilled;   /* since the thread's last tick; the thread's own */
} dao_magazine_t;

static_assert(sizeof(dao_magazine_t) == DAO_MAGAZINE_BYTES, "an index is a shift");

/* Counts of one thread. A block that one thread allocates and another frees makes one's sums too large and
   the other's too small, even negative: only the sum over all threads says something. Written by the thread
   itself, read by any. */
typedef struct dao_magazine_counts {
    _Atomic int64_t used_bytes;
    _Atomic int64_t requested_bytes;
    _Atomic uint64_t alloc_count;
    _Atomic uint64_t free_count;
    _Atomic uint64_t slow_count; /* of both, those off the fast path */
} dao_magazine_counts_t;

typedef struct dao_thread_table dao_thread_table_t;
typedef struct dao_magazines dao_magazines_t;

struct dao_magazines {
    /* First: none of them lies in two lines, and an index is a shift alone. */
    alignas(DAO_MAGAZINES_ALIGNMENT_BYTES) dao_magazine_t magazines[DAO_SLAB_CLASS_COUNT];

    /* The owner's epoch as of the last flush, or EPOCH_NONE: flush at the next call. */
    _Atomic uint32_t epoch;

    /* The thread is in a call: on the fast path, which calls nobody; on slow ones, where the program's
       callbacks may call again. See thread_visits.c. */
    _Atomic bool is_inside;
    _Atomic uint32_t slow_depth;
    uint32_t tick; /* the owner's, as of this thread's last visit */

    /* Of whoever holds the magazines: the thread inside of a call, else who has the owner's lock. What
       counts.used_bytes is at least while no more than sizes->kept_bytes are kept. */
    int64_t used_floor;

    /* Written by the thread, read by any. */
    dao_magazine_counts_t counts;
    uint32_t call_count;   /* of these counts, as of the owner's last tick; guarded by the owner's lock */
    dao_magazines_t *next; /* of the same owner; guarded by the owner's lock */
    dao_magazines_t *previous;
    dao_thread_table_t *table; /* that points to it */
    dao_slab_item_t objects[];
};

typedef struct dao_magazine_owner dao_magazine_owner_t;
struct dao_magazine_owner {
    uint32_t slot;                 /* DAO_MAGAZINES_OWNER_MAX: none was left */
    const dao_slab_sizes_t *sizes; /* of its objects; borrowed */

    /* Begins and ends a thread's magazines, called in that thread: both link them into what the owner has, or
       unlink them. At the end all objects are to be put back. */
    void (*attach)(dao_magazine_owner_t *owner, dao_magazines_t *magazines);
    void (*detach)(dao_magazine_owner_t *owner, dao_magazines_t *magazines);
};

/* Finds a slot, for an owner whose other members are set. */
void dao_magazines_owner_init(dao_magazine_owner_t *owner);

/* Frees all magazines of an owner, linked by `next` from *first; their threads may live on, and end, at any
   time, which takes theirs off. Nobody uses the owner any more. */
void dao_magazines_owner_finish(dao_magazine_owner_t *owner, dao_magazines_t **first);

/* Returns this thread its magazines of an owner for which it has none yet. NULL without host memory, or
   without a slot. Their epoch is for the owner's attach() to set. */
dao_magazines_t *dao_magazines_create(dao_magazine_owner_t *owner);

/* A thread's pointers to its magazines, by slot. Written by the thread, and by whoever ends an owner. */
struct dao_thread_table {
    _Atomic(dao_magazines_t *)
        own[DAO_MAGAZINES_OWNER_MAX + 1]; /* the last one is always dao_magazines_none */
    int process;                          /* that made it: a child of a fork leaves it alone */
};

/* What a thread has that has no magazines: its epoch is DAO_MAGAZINES_EPOCH_NONE, and nothing else of it is
   ever looked at. So one comparison of epochs says whether a thread may go on. */
extern dao_magazines_t dao_magazines_none;

/* No owner's epoch. */
#define DAO_MAGAZINES_EPOCH_NONE 0u

/* The thread's table; before its first dao_magazines_create() one of dao_magazines_none alone. Eight bytes of
   what the loader keeps for such variables, so that reading it takes two instructions. */
extern DAO_FAST_THREAD_LOCAL dao_thread_table_t *dao_thread_table;

/* Returns this thread's magazines of an owner, &dao_magazines_none if it has none. */
static inline dao_magazines_t *dao_magazines_own(const dao_magazine_owner_t *owner)
{
    return atomic_load_explicit(&dao_thread_table->own[owner->slot], memory_order_relaxed);
}

/* Begins and ends a call of a thread on the fast path, in which nobody else touches its magazines if its
   epoch is the owner's then. What it has done is seen by who finds it outside. */
static inline void dao_magazines_enter(dao_magazines_t *own)
{
    atomic_store_explicit(&own->is_inside, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* the epoch is read later */
}

static inline void dao_magazines_leave(dao_magazines_t *own)
{
    atomic_store_explicit(&own->is_inside, false, memory_order_release);
}

/* The same on a slow path, in which callbacks of the program may come in again. */
static inline void dao_magazines_enter_slow(dao_magazines_t *own)
{
    uint32_t depth = atomic_load_explicit(&own->slow_depth, memory_order_relaxed);
    atomic_store_explicit(&own->slow_depth, depth + 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* the epoch is read later */
}

static inline void dao_magazines_leave_slow(dao_magazines_t *own)
{
    uint32_t depth = atomic_load_explicit(&own->slow_depth, memory_order_relaxed);
    atomic_store_explicit(&own->slow_depth, depth - 1, memory_order_release);
}

/* Returns true if a thread is in a call; if not, what it did in its last one is seen. */
static inline bool dao_magazines_are_entered(const dao_magazines_t *magazines)
{
    return atomic_load_explicit(&magazines->is_inside, memory_order_acquire) ||
           atomic_load_explicit(&magazines->slow_depth, memory_order_acquire) > 0;
}

/* ---- counters that one thread writes ---- */

static inline int64_t dao_count_add(_Atomic int64_t *counter, int64_t change)
{
    int64_t value = atomic_load_explicit(counter, memory_order_relaxed) + change;
    atomic_store_explicit(counter, value, memory_order_relaxed);
    return value;
}

static inline void dao_count_up(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

#endif
