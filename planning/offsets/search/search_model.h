/* SPDX-License-Identifier: Apache-2.0 */
/* A problem as the exact search sees it: flat arrays over items and sections.

   A section is a longest stretch of time in which nothing ends; its members are the items alive in it.
   Items that overlap do so in a section, so sections replace times.

       item 0  |-----------|                     sections  0: items 0 1
       item 1     |-----|                                  1: items 0 2
       item 2            |------------|                    2: items 2 3
       item 3               .   |--------|
       section |   0    |  1   |   2     |

   A section begins where an item has ended and the next one begins. Items are in the order of their first
   sections: those which begin in section s are first_items[s] up to first_items[s + 1].

   An item that overlaps item i is a member of its first section, or begins in one of its later sections: two
   runs of memory.

   Sizes, offsets and capacities are in units: what divides all sizes and fixed offsets, and fits all
   alignments.

   What holds: first_sections[i] < end_sections[i] <= section_count; first_items is sorted, from 0 to
   item_count; members of a section are in the order of items; sizes are at least 1; sums of sizes and
   alignments stay below DAO_PLAN_UNITS_NOWHERE. */
#ifndef DAO_PLANNING_SEARCH_MODEL_H
#define DAO_PLANNING_SEARCH_MODEL_H

#include "base/report/assert.h"
#include "planning/offsets/problem/instance.h"

typedef int64_t dao_plan_units_t;

/* Where nothing lies: above all offsets, and with a size added no overflow. */
#define DAO_PLAN_UNITS_NOWHERE (INT64_MAX / 2)
static_assert(DAO_PLAN_TOTAL_MAX < DAO_PLAN_UNITS_NOWHERE, "offsets and sums of sizes are below");

#define DAO_PLAN_ITEM_NONE UINT32_MAX

typedef struct dao_plan_search_model {
    dao_plan_memory_t *memory;
    uint64_t unit_bytes;
    uint32_t item_count;
    uint32_t section_count;
    uint32_t *first_sections; /* one an item */
    uint32_t *end_sections;
    dao_plan_units_t *sizes;
    dao_plan_units_t *alignments; /* 1: any multiple of the unit */
    dao_plan_units_t *fixed;      /* DAO_PLAN_UNITS_NOWHERE: not fixed */
    uint32_t *twins;              /* the item before that differs in nothing, or DAO_PLAN_ITEM_NONE */
    uint32_t *next_twins;
    uint32_t *first_items;   /* section_count + 1 of them */
    uint32_t *first_members; /* section_count + 1: members of section s are members[first_members[s] ..) */
    uint32_t *members;
    dao_plan_units_t *totals; /* section_count: the sizes of its members */
    uint32_t *crossings;      /* section_count: items alive on both sides of its beginning */
} dao_plan_search_model_t;

/* Members of all sections together. A node may look at all of them, which is a millisecond then, and with
   more a search would not get far. */
#define DAO_PLAN_SEARCH_MEMBER_COUNT_MAX (UINT32_C(1) << 20)

/* In passes. DAO_ERR_UNSUPPORTED for what the search does not know: several pools, gaps, lives over the
   step's boundary, clocks that no times tell exactly; or for more members than
   DAO_PLAN_SEARCH_MEMBER_COUNT_MAX. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_search_model_init(dao_plan_search_model_t *model,
                                                      dao_plan_instance_t *instance, dao_plan_work_t *work);
void dao_plan_search_model_finish(dao_plan_search_model_t *model); /* also one that is all zero */

bool dao_plan_search_model_is_valid(const dao_plan_search_model_t *model);

/* The least multiple of an item's alignment that is not below. */
static inline dao_plan_units_t dao_plan_search_align(const dao_plan_search_model_t *model, uint32_t item,
                                                     dao_plan_units_t offset)
{
    dao_plan_units_t alignment = model->alignments[item];
    return (offset + alignment - 1) & -alignment;
}

#endif
