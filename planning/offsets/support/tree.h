/* SPDX-License-Identifier: Apache-2.0 */
/* A row of numbers that finds the first one in a range that is small enough.

   Each level above the numbers has the least of every sixteen below it; sixteen of a level are one cache
   line.

       level 1       3               1
       level 0       7 9 3 . .       4 1 8 . .      places 0 to 15, 16 to 31, ...

   What holds: levels[k + 1][i] is the least of levels[k][16 i .. 16 i + 15]; places without a number are
   DAO_PLAN_TREE_NONE; the top level has at most sixteen. */
#ifndef DAO_PLANNING_TREE_H
#define DAO_PLANNING_TREE_H

#include "planning/offsets/support/memory.h"
#include "planning/offsets/support/work.h"

#include <stdbool.h>

#define DAO_PLAN_TREE_NONE       UINT32_MAX
#define DAO_PLAN_TREE_FAN        16u
#define DAO_PLAN_TREE_LEVELS_MAX 8u

typedef struct dao_plan_tree {
    uint32_t *levels[DAO_PLAN_TREE_LEVELS_MAX]; /* parts of one array */
    uint32_t level_count;
    uint32_t count; /* places */
} dao_plan_tree_t;

/* Makes a tree of `count` places without numbers, in a pass. False without memory. */
bool dao_plan_tree_init(dao_plan_tree_t *tree, dao_plan_memory_t *memory, uint32_t count,
                        dao_plan_work_t *work);
void dao_plan_tree_finish(dao_plan_tree_t *tree, dao_plan_memory_t *memory);

/* Puts a number at a place; DAO_PLAN_TREE_NONE takes it away. Cost: O(log count). */
void dao_plan_tree_set(dao_plan_tree_t *tree, uint32_t place, uint32_t number);

/* Returns the first place of [low, high) whose number is at most `most`, below DAO_PLAN_TREE_NONE; `high` if
   there is none. */
uint32_t dao_plan_tree_find(const dao_plan_tree_t *tree, uint32_t low, uint32_t high, uint32_t most);

/* Puts all places at once, in passes, before any is set: the caller has filled levels[0]. */
void dao_plan_tree_build(dao_plan_tree_t *tree, dao_plan_work_t *work);

bool dao_plan_tree_is_valid(const dao_plan_tree_t *tree);

#endif
