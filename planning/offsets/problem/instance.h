/* SPDX-License-Identifier: Apache-2.0 */
/* A problem as the methods see it: checked, copied, in numbers that are as small as can be.

   Times are numbers of beginnings: only overlaps count, so a time is replaced by how many different
   beginnings lie before it, and an end reaches up to the next beginning.

       times of the problem      10    25 30   40 44      70          a: 10 to 40   b: 25 to 44   c: 44 to 70
       beginnings                |a    |b         |c
       times here                0     1          2                   a: 0 to 2     b: 1 to 2     c: 2 to 3

   An item is a buffer; items are in the order of their beginnings. A piece is a rectangle that an item
   occupies: a time, and bytes counted from the item's offset. Most items are one piece and are it themselves;
   then `pieces` is NULL. A gap, or a life that goes on at the start of the step, makes several.

       item with a gap in its upper half       item that lives on at the start of the step
       high  +-----+   +-----+                 +----+                  +-------+
             |     |   |     |                 |    |                  |       |
       low   +-----+---+-----+                 +----+                  +-------+

   What holds: items and pieces are sorted by begin; begin < end <= time_count; low < high <= size_bytes; an
   item's begin and end are the least and the greatest of its pieces. The sum of all sizes, each rounded up to
   its alignment, and of the largest fixed end of each pool is at most DAO_PLAN_TOTAL_MAX: no sum of the
   methods can overflow. */
#ifndef DAO_PLANNING_INSTANCE_H
#define DAO_PLANNING_INSTANCE_H

#include "planning/offsets/support/memory.h"
#include "planning/offsets/support/work.h"

#include <dao/plan.h>

#define DAO_PLAN_ITEM_ANY_POOL UINT16_MAX

typedef struct dao_plan_item {
    uint64_t size_bytes;
    uint32_t begin;
    uint32_t end;
    uint32_t source; /* its index in the problem */
    uint16_t pool;   /* or DAO_PLAN_ITEM_ANY_POOL */
    uint8_t alignment_log2;
    bool is_fixed;
} dao_plan_item_t;

typedef struct dao_plan_piece {
    uint64_t low;
    uint64_t high;
    uint32_t begin;
    uint32_t end;
    uint32_t item;
} dao_plan_piece_t;

typedef struct dao_plan_instance {
    dao_plan_memory_t memory;
    uint32_t item_count;
    uint32_t piece_count;
    uint32_t time_count; /* times are below it */
    uint32_t pool_count; /* at least 1 */
    dao_plan_item_t *items;
    uint64_t *fixed_offsets;  /* one an item; NULL: none is fixed */
    dao_plan_piece_t *pieces; /* NULL: item i is piece i */
    /* With pieces: those of item i are item_pieces[first_pieces[i] .. first_pieces[i + 1]). */
    uint32_t *item_pieces;
    uint32_t *first_pieces;
    uint32_t clock_count; /* 0: times alone say which items overlap; else they say too many */
    uint32_t *begin_clocks;
    uint32_t *end_clocks;
    uint64_t capacities[DAO_PLAN_POOL_COUNT_MAX]; /* UINT64_MAX: no limit */
    bool has_capacity;                            /* some pool has a limit */
    uint64_t bound_bytes;                         /* no plan with every buffer has a lower peak */
} dao_plan_instance_t;

/* Makes what the methods see of a problem that keeps the rules. DAO_ERR_INVALID for a buffer that is never
   used or too many pieces, DAO_ERR_STOPPED if it was cancelled, DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_instance_init(dao_plan_instance_t *instance,
                                                  const dao_plan_problem_t *problem, dao_plan_work_t *work);

/* Checks a problem, and does the same without an end. Also the other statuses of dao_planner_create(). */
DAO_NODISCARD dao_status_t dao_plan_instance_make(dao_plan_instance_t *instance,
                                                  const dao_plan_problem_t *problem);
void dao_plan_instance_finish(dao_plan_instance_t *instance); /* also one that is all zero */

bool dao_plan_instance_is_valid(const dao_plan_instance_t *instance);

/* Returns true if items are all that there is: no pieces, nothing fixed, no clocks. */
static inline bool dao_plan_instance_is_plain(const dao_plan_instance_t *instance)
{
    return instance->pieces == NULL && instance->fixed_offsets == NULL && instance->clock_count == 0;
}

static inline dao_plan_piece_t dao_plan_instance_piece(const dao_plan_instance_t *instance, uint32_t piece)
{
    if (instance->pieces != NULL) {
        return instance->pieces[piece];
    }
    const dao_plan_item_t *item = &instance->items[piece];
    return (dao_plan_piece_t){
        .high = item->size_bytes, .begin = item->begin, .end = item->end, .item = piece};
}

/* The numbers of an item's pieces: at(i) for i below count. */
static inline uint32_t dao_plan_instance_piece_count(const dao_plan_instance_t *instance, uint32_t item)
{
    return instance->pieces == NULL ? 1 : instance->first_pieces[item + 1] - instance->first_pieces[item];
}

static inline uint32_t dao_plan_instance_piece_at(const dao_plan_instance_t *instance, uint32_t item,
                                                  uint32_t i)
{
    return instance->pieces == NULL ? item : instance->item_pieces[instance->first_pieces[item] + i];
}

/* Returns true if clocks keep two items apart whose times overlap. */
bool dao_plan_instance_is_ordered(const dao_plan_instance_t *instance, uint32_t first, uint32_t second);

#endif
