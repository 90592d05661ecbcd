/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting of numbers. */
#ifndef DAO_PLANNING_SORT_H
#define DAO_PLANNING_SORT_H

#include "planning/offsets/support/work.h"

typedef struct dao_plan_key {
    uint64_t key;
    uint32_t value;
} dao_plan_key_t;

/* Sorts by key, stable, with scratch memory for as many, in passes. Cost: O(count) for each 11 bits in which
   the keys differ. */
void dao_plan_sort_keys(dao_plan_key_t *keys, dao_plan_key_t *scratch, size_t count, dao_plan_work_t *work);

/* From `low` to `high`, which is not included. */
typedef struct dao_plan_span {
    uint64_t low;
    uint64_t high;
} dao_plan_span_t;

/* Sorts by low, with scratch memory for as many, in passes. Cost: O(count log count). */
void dao_plan_sort_spans(dao_plan_span_t *spans, dao_plan_span_t *scratch, size_t count,
                         dao_plan_work_t *work);

#endif
