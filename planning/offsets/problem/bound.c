/* SPDX-License-Identifier: Apache-2.0 */
/* The lower bound: bytes that are alive at one moment lie side by side.

   A buffer whose offset is a multiple of A starts a slot, which ends at the next multiple. So slots of such
   buffers do not overlap, and what rounding adds, a slot's slack, lies at its end. Another buffer may lie in
   slack, but in that of one slot at most: the next slot begins with its own buffer. So for each alignment A
   that there is, the slots, and of each other buffer what exceeds the greatest slack, lie side by side. Less
   the slack on top, their sum is a bound. Where gaps cut a buffer, its pieces count as others.

   With several pools the peak is the sum of the pools' peaks. It is at least what is alive at one moment, and
   at least the sum over the pools of what each must hold at its own worst moment. */
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/problem/rows.h"

/* Which rows count, and how. */
typedef struct load {
    const dao_plan_rows_t *rows;
    const dao_plan_problem_t *problem;
    dao_plan_work_t *work;
    uint32_t pool;            /* rows of buffers that must lie in it alone; DAO_PLAN_ANY_POOL: all */
    uint64_t alignment_bytes; /* of the slots; 1: every row counts as it is */
    uint64_t slack_bytes;     /* the greatest of a slot */
} load_t;

static uint64_t row_bytes(const load_t *load, uint32_t row)
{
    const dao_plan_rows_t *rows = load->rows;
    uint32_t source = dao_plan_rows_source(rows, row);
    const dao_plan_buffer_t *buffer = &load->problem->buffers[source];
    if (load->pool != DAO_PLAN_ANY_POOL && buffer->pool != load->pool) {
        return 0;
    }
    uint64_t bytes = rows->lows == NULL ? buffer->size_bytes : rows->highs[row] - rows->lows[row];
    bool is_whole = bytes == buffer->size_bytes;
    if (is_whole && dao_plan_alignment(load->problem, source) >= load->alignment_bytes) {
        return dao_round_up(bytes, load->alignment_bytes);
    }
    return bytes > load->slack_bytes ? bytes - load->slack_bytes : 0;
}

/* Adds the rows to the changes of what is alive, where they begin and end. */
static void add_rows(const load_t *load, uint64_t *changes)
{
    dao_plan_pass_t pass = {.count = load->rows->count};
    while (dao_plan_pass_next(&pass, load->work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            uint64_t bytes = row_bytes(load, (uint32_t)i);
            changes[load->rows->begin_times[i]] += bytes;
            changes[load->rows->end_times[i]] -= bytes; /* may wrap; the sums do not */
        }
    }
}

/* Returns the most bytes alive at a time. `changes` has one number more than there are times. */
static uint64_t greatest_load(const load_t *load, uint64_t *changes, uint32_t time_count)
{
    dao_plan_pass_fill(changes, 0, ((size_t)time_count + 1) * sizeof(*changes), load->work);
    add_rows(load, changes);
    uint64_t alive = 0, most = 0;
    dao_plan_pass_t pass = {.count = time_count};
    while (dao_plan_pass_next(&pass, load->work)) {
        for (size_t time = pass.begin; time < pass.end; time++) {
            alive += changes[time];
            most = dao_larger(most, alive);
        }
    }
    return most;
}

#define ALIGNMENT_COUNT 32 /* powers of two that an alignment can be */

/* What is known of the buffers before loads are added up. */
typedef struct buffer_survey {
    bool has_alignment[ALIGNMENT_COUNT];          /* of 2^i; some buffer has it */
    uint64_t slacks[ALIGNMENT_COUNT];             /* the greatest of a slot, for each of these */
    uint64_t fixed_ends[DAO_PLAN_POOL_COUNT_MAX]; /* of each pool */
    bool is_bound_to[DAO_PLAN_POOL_COUNT_MAX];    /* some buffer must lie in the pool */
} buffer_survey_t;

static void look_at_buffer(buffer_survey_t *survey, const dao_plan_problem_t *problem, size_t index)
{
    const dao_plan_buffer_t *buffer = &problem->buffers[index];
    survey->has_alignment[__builtin_ctzll(dao_plan_alignment(problem, index))] = true;
    if (buffer->pool != DAO_PLAN_ANY_POOL) {
        survey->is_bound_to[buffer->pool] = true;
    }
    if (buffer->fixed_offset != DAO_PLAN_NOWHERE) {
        uint64_t *end = &survey->fixed_ends[buffer->pool == DAO_PLAN_ANY_POOL ? 0 : buffer->pool];
        *end = dao_larger(*end, buffer->fixed_offset + buffer->size_bytes);
    }
}

/* Every buffer of the alignment, or of a greater one, starts a slot. */
static uint64_t greatest_slack(const load_t *load, uint64_t alignment_bytes)
{
    const dao_plan_problem_t *problem = load->problem;
    uint64_t slack_bytes = 0;
    dao_plan_pass_t pass = {.count = problem->buffer_count};
    while (dao_plan_pass_next(&pass, load->work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            uint64_t size_bytes = problem->buffers[i].size_bytes;
            if (dao_plan_alignment(problem, i) >= alignment_bytes) {
                slack_bytes = dao_larger(slack_bytes, dao_round_up(size_bytes, alignment_bytes) - size_bytes);
            }
        }
    }
    return slack_bytes;
}

static void look_at_buffers(buffer_survey_t *survey, const load_t *load)
{
    const dao_plan_problem_t *problem = load->problem;
    *survey = (buffer_survey_t){.has_alignment = {false}};
    dao_plan_pass_t pass = {.count = problem->buffer_count};
    while (dao_plan_pass_next(&pass, load->work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            look_at_buffer(survey, problem, i);
        }
    }
    for (int i = 1; i < ALIGNMENT_COUNT && !dao_plan_work_is_cancelled(load->work); i++) {
        survey->slacks[i] = survey->has_alignment[i] ? greatest_slack(load, UINT64_C(1) << i) : 0;
    }
}

/* The greatest bound of all alignments, of `pool_count` pools together. */
static uint64_t bound_of(load_t load, const buffer_survey_t *survey, uint32_t pool_count, uint64_t *changes,
                         uint32_t time_count)
{
    uint64_t bound_bytes = greatest_load(&load, changes, time_count);
    for (int i = 1; i < ALIGNMENT_COUNT && !dao_plan_work_is_cancelled(load.work); i++) {
        if (survey->has_alignment[i]) {
            load.alignment_bytes = UINT64_C(1) << i;
            load.slack_bytes = survey->slacks[i];
            uint64_t load_bytes = greatest_load(&load, changes, time_count);
            uint64_t top_bytes = pool_count * load.slack_bytes;
            bound_bytes = dao_larger(bound_bytes, load_bytes > top_bytes ? load_bytes - top_bytes : 0);
        }
    }
    return bound_bytes;
}

/* What one pool must hold. */
static uint64_t pool_bound(load_t load, const buffer_survey_t *survey, uint32_t pool, uint64_t *changes,
                           uint32_t time_count)
{
    load.pool = pool;
    return survey->is_bound_to[pool]
               ? dao_larger(survey->fixed_ends[pool], bound_of(load, survey, 1, changes, time_count))
               : survey->fixed_ends[pool];
}

dao_status_t dao_plan_bound(const dao_plan_rows_t *rows, const dao_plan_problem_t *problem,
                            uint32_t time_count, dao_plan_memory_t *memory, dao_plan_work_t *work,
                            uint64_t *out_bound)
{
    uint64_t *changes = dao_plan_memory_alloc(memory, (size_t)time_count + 1, sizeof(*changes));
    if (changes == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the loads of %u times", time_count);
    }
    load_t load = {
        .rows = rows, .problem = problem, .work = work, .pool = DAO_PLAN_ANY_POOL, .alignment_bytes = 1};
    buffer_survey_t survey;
    look_at_buffers(&survey, &load);
    uint32_t pool_count = problem->pool_count == 0 ? 1 : problem->pool_count;
    uint64_t bound_bytes = bound_of(load, &survey, pool_count, changes, time_count);
    uint64_t pool_bytes = 0;
    for (uint32_t pool = 0; pool < pool_count; pool++) {
        pool_bytes += pool_bound(load, &survey, pool, changes, time_count);
    }
    dao_plan_memory_free(memory, changes);
    *out_bound = dao_larger(bound_bytes, pool_bytes);
    DAO_ASSERT(*out_bound <= DAO_PLAN_TOTAL_MAX || dao_plan_work_is_cancelled(work));
    return DAO_OK;
}
