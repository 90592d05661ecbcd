/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator in front of another one that plans the steps of a program: see <dao/step_plan.h>.
   Requests outside of steps, those that deviate too far, and those of leases go to the inner
   allocator. */
#ifndef DAO_ALLOCATORS_PLANNED_H
#define DAO_ALLOCATORS_PLANNED_H

#include "allocators/allocator.h"

#include <dao/step_plan.h>

/* Requests up to this many bytes are not planned where the mode is bins and the config does not say. */
#define DAO_PLANNED_BINS_SMALL_BYTES ((size_t)32 << 10)

/* Room for so many allocations of a step where the config does not say. */
#define DAO_PLANNED_ALLOCATION_COUNT 65536u

typedef struct dao_planned_config {
    const char *name;                 /* the place, for messages; copied */
    dao_step_plan_config_t step_plan; /* its mode is offsets or bins */
    bool is_host_memory;              /* the arena can be touched from here */
} dao_planned_config_t;

/* Takes over `inner`; if that has no windows, all steps are plain. On failure it stays the caller's.
   DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_planned_create(const dao_planned_config_t *config, dao_allocator_t *inner,
                                              dao_allocator_t **out_allocator);

/* Returns true if an allocator is one that dao_planned_create() made. */
bool dao_is_planned(const dao_allocator_t *allocator);

/* Sets this thread's key, and gives the one before. */
uint64_t dao_planned_key_set(uint64_t key);

/* Returns true if this thread is in one of the calls below, in a function of the program's that they have
   called. */
bool dao_planned_at_boundary(void);

/* Of such an allocator, what <dao/step_plan.h> says. Not at a boundary. */
dao_status_t dao_planned_begin(dao_allocator_t *allocator);
dao_status_t dao_planned_end(dao_allocator_t *allocator);
void dao_planned_enable(dao_allocator_t *allocator, bool is_enabled);
dao_status_t dao_planned_wait(dao_allocator_t *allocator, uint64_t timeout_ns);
dao_status_t dao_planned_reset(dao_allocator_t *allocator);
dao_status_t dao_planned_save(dao_allocator_t *allocator, dao_write_t write, void *user);
dao_status_t dao_planned_load(dao_allocator_t *allocator, const char *text, size_t text_bytes);
void dao_planned_stats_get(dao_allocator_t *allocator, dao_step_plan_stats_t *out_stats);
dao_status_t dao_planned_walk(dao_allocator_t *allocator, dao_step_plan_visit_t visit, void *user);

#endif
