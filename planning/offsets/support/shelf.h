/* SPDX-License-Identifier: Apache-2.0 */
/* The placed pieces, in the order of their lowest byte.

   Where most lifetimes overlap most others, walking over all placed pieces from the bottom up is quicker than
   finding and sorting those that overlap: nothing is sorted, and the first hole that is large enough ends the
   walk. Times lie apart from bytes and are short, so that a few instructions find the entries of a stretch
   that are alive.

   What holds: entries ascend by low; each has begin < end and low < high. */
#ifndef DAO_PLANNING_SHELF_H
#define DAO_PLANNING_SHELF_H

#include "planning/offsets/support/memory.h"
#include "planning/offsets/support/sort.h"

#include <stdbool.h>

/* No time is later. */
#define DAO_PLAN_SHELF_TIME_MAX ((uint32_t)INT16_MAX)

/* Bytes [low, high) at the times [begin, end). */
typedef struct dao_plan_shelf_entry {
    uint64_t low, high;
    uint32_t begin, end;
} dao_plan_shelf_entry_t;

/* Arrays of the entries, ascending by low; behind the last one there are zeros up to the end of a stretch. */
typedef struct dao_plan_shelf {
    dao_plan_span_t *spans;
    int16_t *begins, *ends; /* signed: what vectors of 16 bits compare at once */
    uint32_t count, capacity;
} dao_plan_shelf_t;

/* Times at which something needs a place: [begin, end), and [second_begin, second_end), which may be
   empty. */
typedef struct dao_plan_shelf_life {
    uint32_t begin, end;
    uint32_t second_begin, second_end;
} dao_plan_shelf_life_t;

/* False without memory. */
bool dao_plan_shelf_init(dao_plan_shelf_t *shelf, dao_plan_memory_t *memory, uint32_t capacity);
void dao_plan_shelf_finish(dao_plan_shelf_t *shelf,
                           dao_plan_memory_t *memory); /* also one that is all zero */

/* Puts something where there is room for it. At most `capacity` times. Cost: O(count), a move of memory. */
void dao_plan_shelf_put(dao_plan_shelf_t *shelf, const dao_plan_shelf_entry_t *entry);

/* Finds bytes that are free during a life, at a multiple of the alignment, a power of two: the lowest ones,
   or the lowest ones of the smallest hole; above everything if there is no hole. Cost: O(count). */
uint64_t dao_plan_shelf_find(const dao_plan_shelf_t *shelf, const dao_plan_shelf_life_t *life,
                             uint64_t size_bytes, uint64_t alignment_bytes, bool is_best_fit);

bool dao_plan_shelf_is_valid(const dao_plan_shelf_t *shelf);

#endif
