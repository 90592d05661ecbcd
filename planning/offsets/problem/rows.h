/* SPDX-License-Identifier: Apache-2.0 */
/* From a problem to an instance, in passes: buffers are cut into rows, clocks become times, times are
   numbered, and the lower bound is taken.

       problem --pieces.c--> rows --clocks.c, numbers.c--> small times --bound.c----> bound
                                                                       --instance.c-> items, pieces */
#ifndef DAO_PLANNING_ROWS_H
#define DAO_PLANNING_ROWS_H

#include "planning/offsets/problem/problem.h"

/* What a problem is cut into before its times are numbered; one piece a row. */
typedef struct dao_plan_rows {
    uint32_t count;
    uint64_t *begin_times;
    uint64_t *end_times;
    uint32_t *sources; /* NULL, and so the next two: row i is buffer i, all of it */
    uint64_t *lows;
    uint64_t *highs;
    bool is_exact; /* times overlap only where buffers must not share bytes; without clocks always */
} dao_plan_rows_t;

static inline uint32_t dao_plan_rows_source(const dao_plan_rows_t *rows, uint32_t row)
{
    return rows->sources == NULL ? row : rows->sources[row];
}

/* pieces.c: cuts a problem into rows. */
DAO_NODISCARD dao_status_t dao_plan_rows_cut(dao_plan_rows_t *rows, const dao_plan_problem_t *problem,
                                             dao_plan_memory_t *memory, dao_plan_work_t *work);
void dao_plan_rows_finish(dao_plan_rows_t *rows, dao_plan_memory_t *memory);

/* clocks.c: finds times for each buffer that overlap wherever the clocks do not order two buffers.
   `out_is_exact`: nowhere else. */
DAO_NODISCARD dao_status_t dao_plan_clocks_to_times(const dao_plan_problem_t *problem,
                                                    dao_plan_memory_t *memory, uint64_t *begin_times,
                                                    uint64_t *end_times, bool *out_is_exact,
                                                    dao_plan_work_t *work);

/* Finds times for each buffer that overlap only where the clocks do not order two buffers, for the bound. */
void dao_plan_clocks_to_sums(const dao_plan_problem_t *problem, uint64_t *begin_times, uint64_t *end_times,
                             dao_plan_work_t *work);
bool dao_plan_clock_is_before(const uint32_t *end_clock, const uint32_t *begin_clock, uint32_t count);

/* numbers.c: replaces the times of rows by numbers of different beginnings. `places`, one a row, gets where
   each row comes in the order of their beginnings. */
DAO_NODISCARD dao_status_t dao_plan_number_times(dao_plan_rows_t *rows, dao_plan_memory_t *memory,
                                                 uint32_t *places, uint32_t *out_time_count,
                                                 dao_plan_work_t *work);

/* bound.c: the lower bound, of rows whose times are numbered and exact, or overlap too seldom. */
DAO_NODISCARD dao_status_t dao_plan_bound(const dao_plan_rows_t *rows, const dao_plan_problem_t *problem,
                                          uint32_t time_count, dao_plan_memory_t *memory,
                                          dao_plan_work_t *work, uint64_t *out_bound);

#endif
