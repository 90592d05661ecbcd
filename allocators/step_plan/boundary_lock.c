/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of step boundaries. It is held while the program's functions are called, so each thread knows
   whether it has one: then trying fails, and public calls answer DAO_ERR_REENTRANT. */
#include "allocators/step_plan/planned_internal.h"

static _Thread_local bool is_at_boundary;

void dao_planned_boundary_lock(dao_planned_t *planned)
{
    dao_mutex_lock(&planned->boundary);
    is_at_boundary = true;
}

bool dao_planned_boundary_try_lock(dao_planned_t *planned)
{
    bool is_taken = !is_at_boundary && dao_mutex_try_lock(&planned->boundary);
    is_at_boundary = is_at_boundary || is_taken;
    return is_taken;
}

void dao_planned_boundary_unlock(dao_planned_t *planned)
{
    is_at_boundary = false;
    dao_mutex_unlock(&planned->boundary);
}

bool dao_planned_at_boundary(void)
{
    return is_at_boundary;
}
