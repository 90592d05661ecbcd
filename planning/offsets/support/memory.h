/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's host memory, counted for the report of a plan. */
#ifndef DAO_PLANNING_MEMORY_H
#define DAO_PLANNING_MEMORY_H

#include "planning/offsets/support/work.h"

/* One thread at a time. */
typedef struct dao_plan_memory {
    uint64_t used_bytes;
    uint64_t most_bytes; /* the largest used_bytes so far */
    /* Large arrays that are freed keep their pages until dao_plan_memory_trim(): unmapping takes long. */
    bool is_patient;
    void *spent; /* the last one of these arrays */
} dao_plan_memory_t;

/* Returns zeroed memory, or NULL. A count of 0 gives memory too, so that NULL means failure alone. */
void *dao_plan_memory_alloc(dao_plan_memory_t *memory, size_t count, size_t size_bytes);

/* Makes an array of dao_plan_memory_alloc() larger (NULL: allocates one). The new bytes are not initialized.
   Returns NULL without memory: the array stays as it was. */
void *dao_plan_memory_grow(dao_plan_memory_t *memory, void *address, size_t count, size_t size_bytes);

/* Frees an array of these two; NULL is allowed. */
void dao_plan_memory_free(dao_plan_memory_t *memory, void *address);

/* Returns the pages of spent arrays to the system, a few at a time, until it is cancelled. */
void dao_plan_memory_trim(dao_plan_memory_t *memory, dao_plan_work_t *work);

#endif
