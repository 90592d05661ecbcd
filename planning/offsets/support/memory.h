/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's host memory, counted, so that a plan's report can say what it took. */
#ifndef DAO_PLANNING_MEMORY_H
#define DAO_PLANNING_MEMORY_H

#include "planning/offsets/support/work.h"

/* One thread at a time. */
typedef struct dao_plan_memory {
    uint64_t used_bytes;
    uint64_t most_bytes; /* the largest used_bytes so far */
    bool
        is_patient; /* large arrays that are given keep their pages until it is trimmed: giving pages back takes long */
    void *spent; /* the last one of them */
} dao_plan_memory_t;

/* Gives zeroed memory, or NULL. A count of 0 gives memory too, so that NULL means failure alone. */
void *dao_plan_memory_alloc(dao_plan_memory_t *memory, size_t count, size_t size_bytes);

/* Makes what dao_plan_memory_alloc() gave (NULL: nothing yet) larger; what the new bytes hold is open. NULL
   leaves it as it was. */
void *dao_plan_memory_grow(dao_plan_memory_t *memory, void *address, size_t count, size_t size_bytes);

/* Frees what the two above gave; NULL is allowed. */
void dao_plan_memory_free(dao_plan_memory_t *memory, void *address);

/* Gives the pages of spent arrays back to the system, a few at a time, until it is cancelled. */
void dao_plan_memory_trim(dao_plan_memory_t *memory, dao_plan_work_t *work);

#endif
