/* SPDX-License-Identifier: Apache-2.0 */
/* The placed pieces, in the order of their lowest byte.

   Where most lifetimes overlap most others, walking over all placed pieces from the bottom up is quicker than
   finding and sorting those that overlap: nothing is sorted, and the first hole that is large enough ends the
   walk. Times lie apart from bytes and are short, so that a few instructions find the entries of a stretch
   that are alive.

   Entries lie in stretches, in the order of a list; a full stretch is split. Where times are too long for 16
   bits, those have them rounded outwards, and who seems to be alive is looked at again.

   What holds: entries ascend by low; each has begin < end and low < high; a stretch has an entry at least,
   and zeros behind its last one. */
#ifndef DAO_PLANNING_SHELF_H
#define DAO_PLANNING_SHELF_H

#include "planning/offsets/support/memory.h"
#include "planning/offsets/support/sort.h"

#include <stdbool.h>

/* Bytes [low, high) at the times [begin, end). */
typedef struct dao_plan_shelf_entry {
    uint64_t low, high;
    uint32_t begin, end;
} dao_plan_shelf_entry_t;

#define DAO_PLAN_SHELF_STRETCH 64u /* entries that are looked at together: a bit each */

typedef struct dao_plan_shelf_stretch {
    dao_plan_shelf_entry_t entries[DAO_PLAN_SHELF_STRETCH];
    int16_t begins[DAO_PLAN_SHELF_STRETCH]; /* signed: what vectors of 16 bits compare at once */
    int16_t ends[DAO_PLAN_SHELF_STRETCH];
    uint32_t count;
} dao_plan_shelf_stretch_t;

typedef struct dao_plan_shelf {
    dao_plan_shelf_stretch_t *stretches;
    uint32_t *order; /* of the stretches, ascending by low */
    uint32_t stretch_count, stretch_capacity;
    uint32_t count, capacity; /* entries */
    uint32_t time_shift;      /* bits that times of 16 bits lack */
} dao_plan_shelf_t;

/* Times at which something needs a place: [begin, end), and [second_begin, second_end), which may be
   empty. */
typedef struct dao_plan_shelf_life {
    uint32_t begin, end;
    uint32_t second_begin, second_end;
} dao_plan_shelf_life_t;

/* For times up to `last_time`. False without memory. */
bool dao_plan_shelf_init(dao_plan_shelf_t *shelf, dao_plan_memory_t *memory, uint32_t capacity,
                         uint32_t last_time);
void dao_plan_shelf_finish(dao_plan_shelf_t *shelf,
                           dao_plan_memory_t *memory); /* also one that is all zero */

/* Puts something where there is room for it. At most `capacity` times. Cost: O(log count), and that
   of moving part of a stretch. */
void dao_plan_shelf_put(dao_plan_shelf_t *shelf, const dao_plan_shelf_entry_t *entry);

/* Finds bytes that are free during a life, at a multiple of the alignment, a power of two: the lowest ones,
   or the lowest ones of the smallest hole; above everything if there is no hole. Cost: O(count). */
uint64_t dao_plan_shelf_find(const dao_plan_shelf_t *shelf, const dao_plan_shelf_life_t *life,
                             uint64_t size_bytes, uint64_t alignment_bytes, bool is_best_fit);

bool dao_plan_shelf_is_valid(const dao_plan_shelf_t *shelf);

#endif
