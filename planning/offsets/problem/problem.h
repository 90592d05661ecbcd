/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that a problem keeps, what its zeros stand for, and copies of problems. */
#ifndef DAO_PLANNING_PROBLEM_H
#define DAO_PLANNING_PROBLEM_H

#include "planning/offsets/support/memory.h"
#include "planning/offsets/support/work.h"

#include <dao/plan.h>

/* Checks the rules of a problem. DAO_ERR_INVALID or DAO_ERR_OVERFLOW, with a message that names what breaks
   one. */
DAO_NODISCARD dao_status_t dao_plan_problem_check(const dao_plan_problem_t *problem);

/* A problem with arrays of its own. */
enum { DAO_PLAN_PROBLEM_ARRAY_COUNT = 5 };
typedef struct dao_plan_problem_copy {
    dao_plan_problem_t problem;
    void *arrays[DAO_PLAN_PROBLEM_ARRAY_COUNT]; /* what it points to */
    dao_plan_memory_t memory;
} dao_plan_problem_copy_t;

/* Copies a problem that keeps the rules. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_problem_copy_init(dao_plan_problem_copy_t *copy,
                                                      const dao_plan_problem_t *problem);
void dao_plan_problem_copy_finish(dao_plan_problem_copy_t *copy); /* also one that is all zero */

/* Frees the arrays of a copy until that is cancelled; dao_plan_problem_copy_finish() does the rest. */
void dao_plan_problem_copy_drop(dao_plan_problem_copy_t *copy, dao_plan_work_t *work);

static inline uint64_t dao_plan_alignment(const dao_plan_problem_t *problem, size_t buffer)
{
    uint32_t own = problem->buffers[buffer].alignment_bytes;
    if (own != 0) {
        return own;
    }
    return problem->alignment_bytes == 0 ? 1 : problem->alignment_bytes;
}
uint64_t dao_plan_capacity(const dao_plan_problem_t *problem, uint32_t pool);

#endif
