/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that a problem is cut into, against a model that asks of each byte at each time whether it is used. */
#include "base/report/fault.h"
#include "planning/offsets/problem/rows.h"
#include "tests/support/models/plans.h"
#include "tests/support/suite.h"

#include <string.h>

enum { ROUND_COUNT = 400, SIZE_MAX_BYTES = 6 };

static dao_plan_memory_t memory;
static dao_plan_rows_t rows;

static dao_status_t cut(const dao_plan_problem_t *problem)
{
    dao_plan_work_t work = dao_plan_work_unlimited();
    return dao_plan_rows_cut(&rows, problem, &memory, &work);
}

static void finish(void)
{
    dao_plan_rows_finish(&rows, &memory);
    CU_ASSERT_EQUAL(memory.used_bytes, 0);
}

static dao_plan_buffer_t buffer(uint64_t begin, uint64_t end, uint64_t size)
{
    return (dao_plan_buffer_t){.begin_time = begin,
                               .end_time = end,
                               .size_bytes = size,
                               .fixed_offset = DAO_PLAN_NOWHERE,
                               .pool = DAO_PLAN_ANY_POOL};
}

static bool is_row(uint32_t row, uint64_t begin, uint64_t end, uint64_t low, uint64_t high)
{
    return rows.begin_times[row] == begin && rows.end_times[row] == end && rows.lows[row] == low &&
           rows.highs[row] == high;
}

static void whole_lives_are_rows_of_their_own(void)
{
    const dao_plan_buffer_t buffers[] = {buffer(3, 7, 8), buffer(0, UINT64_MAX, 1)};
    dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = 2, .margin = 2, .is_closed = true};
    CU_ASSERT_EQUAL(cut(&problem), DAO_OK);
    CU_ASSERT(rows.count == 2 && rows.sources == NULL && rows.lows == NULL && rows.is_exact);
    CU_ASSERT_EQUAL(rows.end_times[0], 10);         /* the margin, and one tick for a closed life */
    CU_ASSERT_EQUAL(rows.end_times[1], UINT64_MAX); /* and nothing wraps */
    finish();
    problem.buffer_count = 0;
    CU_ASSERT_EQUAL(cut(&problem), DAO_OK);
    CU_ASSERT_EQUAL(rows.count, 0);
    finish();
}

static void a_gap_cuts_its_bytes_out(void)
{
    const dao_plan_buffer_t buffers[] = {buffer(0, 10, 8)};
    const dao_plan_gap_t gaps[] = {{.begin_time = 2, .end_time = 5, .low_byte = 3, .high_byte = 8}};
    const dao_plan_problem_t problem = {
        .buffers = buffers, .buffer_count = 1, .gaps = gaps, .gap_count = 1, .margin = 1};
    CU_ASSERT_EQUAL(cut(&problem), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(rows.count, 3);
    CU_ASSERT(is_row(0, 0, 3, 0, 8)); /* the use before the gap ends a tick later */
    CU_ASSERT(is_row(1, 3, 5, 0, 3));
    CU_ASSERT(is_row(2, 5, 11, 0, 8));
    finish();
}

static void a_life_goes_on_at_the_start_of_the_step(void)
{
    const dao_plan_buffer_t buffers[] = {buffer(6, 12, 4)};
    const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = 1, .period = 10};
    CU_ASSERT_EQUAL(cut(&problem), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(rows.count, 2);
    CU_ASSERT(is_row(0, 6, 10, 0, 4) && is_row(1, 0, 2, 0, 4));
    finish();
}

static void gaps_that_fill_a_life_are_refused(void)
{
    const dao_plan_buffer_t buffers[] = {buffer(0, 4, 4)};
    const dao_plan_gap_t gaps[] = {{.begin_time = 0, .end_time = 4}};
    const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = 1, .gaps = gaps, .gap_count = 1};
    CU_ASSERT_EQUAL(cut(&problem), DAO_ERR_INVALID);
    finish();
}

/* Returns true if the rows of a buffer hold a byte at a time. */
static bool has(size_t index, uint64_t byte, uint64_t time)
{
    for (uint32_t i = 0; i < rows.count; i++) {
        bool is_its_byte = rows.lows == NULL || (byte >= rows.lows[i] && byte < rows.highs[i]);
        if (dao_plan_rows_source(&rows, i) == index && is_its_byte && time >= rows.begin_times[i] &&
            time < rows.end_times[i]) {
            return true;
        }
    }
    return false;
}

/* Returns true if two buffers at these offsets share a byte at a time. */
static bool do_meet(const dao_plan_problem_t *problem, size_t left, size_t right, uint64_t offset)
{
    for (uint64_t byte = offset; byte < problem->buffers[left].size_bytes; byte++) {
        for (uint64_t time = 0; time < 64; time++) {
            if (byte - offset < problem->buffers[right].size_bytes && has(left, byte, time) &&
                has(right, byte - offset, time)) {
                return true;
            }
        }
    }
    return false;
}

static void rows_meet_where_the_model_says_so(void)
{
    uint64_t random = dao_test_seed("pieces", 20261122);
    uint32_t features[] = {0, DAO_TEST_PLAN_CYCLIC, DAO_TEST_PLAN_GAPS,
                           DAO_TEST_PLAN_GAPS | DAO_TEST_PLAN_CYCLIC | DAO_TEST_PLAN_MARGIN,
                           DAO_TEST_PLAN_CLOSED | DAO_TEST_PLAN_GAPS};
    for (int round = 0; round < ROUND_COUNT; round++) {
        dao_test_plan_t plan;
        dao_test_plan_make(&plan, features[round % 5], 4, SIZE_MAX_BYTES, &random);
        dao_status_t status = cut(&plan.problem);
        CU_ASSERT(status == DAO_OK || status == DAO_ERR_INVALID); /* gaps may fill a life */
        for (size_t i = 0; status == DAO_OK && i < 4; i++) {
            for (size_t k = 0; k < i; k++) {
                for (uint64_t offset = 0; offset < SIZE_MAX_BYTES; offset++) {
                    CU_ASSERT_EQUAL(do_meet(&plan.problem, i, k, offset),
                                    dao_test_plan_do_clash(&plan.problem, i, 0, k, offset));
                }
            }
        }
        finish();
    }
}

static void want_of_memory_is_said(void)
{
    dao_test_plan_t plan;
    uint64_t random = dao_test_seed("want of memory", 20261122);
    dao_test_plan_make(&plan, DAO_TEST_PLAN_CYCLIC, 12, 8, &random);
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t skip = 0; status != DAO_OK; skip++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, true);
        status = cut(&plan.problem);
        CU_ASSERT_EQUAL(dao_fault_disarm() == 0, status == DAO_OK);
        finish();
    }
}

static CU_TestInfo tests[] = {
    {"whole lives are rows of their own", whole_lives_are_rows_of_their_own},
    {"a gap cuts its bytes out", a_gap_cuts_its_bytes_out},
    {"a life goes on at the start of the step", a_life_goes_on_at_the_start_of_the_step},
    {"gaps that fill a life are refused", gaps_that_fill_a_life_are_refused},
    {"rows meet where the model says so", rows_meet_where_the_model_says_so},
    {"want of memory is said", want_of_memory_is_said},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan pieces", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
