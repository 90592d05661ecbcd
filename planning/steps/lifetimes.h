/* SPDX-License-Identifier: Apache-2.0 */
/* The lifetimes of one step: what was asked for, in order, and when it was freed. Times count
   allocations: the n-th begins at n, and one that is freed after m allocations ends at m, so that what was
   recorded does not depend on clocks.

   Not thread-safe: the owner locks. */
#ifndef DAO_PLANNING_LIFETIMES_H
#define DAO_PLANNING_LIFETIMES_H

#include <dao/step_plan.h>

/* As an end: not freed so far. */
#define DAO_LIFETIME_OPEN UINT32_MAX

/* As an index: none. */
#define DAO_LIFETIME_NONE UINT32_MAX

/* Threads that are told apart; all others share the last number. */
#define DAO_LIFETIME_SLOT_COUNT 16u

/* Most allocations of a step. */
#define DAO_LIFETIME_COUNT_MAX DAO_STEP_PLAN_ALLOCATION_COUNT_MAX

/* One allocation; it begins at its index. */
typedef struct dao_lifetime {
    uint64_t size_bytes;  /* as asked for */
    uint64_t key;         /* who asked; 0: nobody said */
    uint64_t begin_ticks; /* dao_ticks(), or 0 if no wall time is recorded */
    uint64_t end_ticks;
    uint32_t end; /* in allocations, or DAO_LIFETIME_OPEN */
    uint16_t slot;
    uint8_t alignment_shift; /* 2^n bytes; 0: the place's own */
} dao_lifetime_t;

/* All zero is an empty one without room. */
typedef struct dao_lifetimes {
    dao_lifetime_t *items;
    uint32_t capacity;
    uint32_t count;         /* that are in `items` */
    uint32_t dropped_count; /* that are not */
    uint32_t serial;        /* of the step; the owner's */
    uint64_t bound_bytes;   /* most bytes alive at one time, those from before included */
} dao_lifetimes_t;

/* Makes room to begin with. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_lifetimes_init(dao_lifetimes_t *lifetimes, uint32_t capacity);
void dao_lifetimes_finish(dao_lifetimes_t *lifetimes); /* zeroed memory is allowed */

/* Forgets everything. */
void dao_lifetimes_clear(dao_lifetimes_t *lifetimes, uint32_t serial);

/* Returns an allocation's index; DAO_LIFETIME_NONE without memory for it, and for more than
   DAO_LIFETIME_COUNT_MAX: it is counted as dropped. O(1), amortised. */
uint32_t dao_lifetimes_add(dao_lifetimes_t *lifetimes, const dao_lifetime_t *lifetime);

/* Ends one that is open. O(1). */
void dao_lifetimes_end(dao_lifetimes_t *lifetimes, uint32_t index);

/* Sizes are rounded up so far before they are compared: what takes the same memory is the same. */
#define DAO_LIFETIME_UNIT_BYTES 256u

static inline uint64_t dao_lifetime_units(uint64_t size_bytes)
{
    return size_bytes / DAO_LIFETIME_UNIT_BYTES + (size_bytes % DAO_LIFETIME_UNIT_BYTES != 0);
}

bool dao_lifetimes_is_valid(const dao_lifetimes_t *lifetimes);

#endif
