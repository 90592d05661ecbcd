/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a problem. The message of each names the buffer, gap or pool that breaks it. */
#include "planning/offsets/problem/problem.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "planning/offsets/problem/rows.h"

#include <inttypes.h>
#include <string.h>

uint64_t dao_plan_capacity(const dao_plan_problem_t *problem, uint32_t pool)
{
    if (pool >= problem->pool_count || problem->pools[pool].capacity_bytes == 0) {
        return UINT64_MAX;
    }
    return problem->pools[pool].capacity_bytes;
}

static dao_status_t too_large(size_t buffer)
{
    return dao_error(DAO_ERR_OVERFLOW, "with buffer %zu all sizes together exceed %" PRIu64 " bytes", buffer,
                     DAO_PLAN_TOTAL_MAX);
}

/* What is looked at first: pointers and counts. */
static dao_status_t check_shape(const dao_plan_problem_t *problem)
{
    if (problem->buffer_count > DAO_PLAN_BUFFER_COUNT_MAX || problem->gap_count > DAO_PLAN_BUFFER_COUNT_MAX) {
        return dao_error(DAO_ERR_INVALID, "%zu buffers and %zu gaps, the most is %u of each",
                         problem->buffer_count, problem->gap_count, DAO_PLAN_BUFFER_COUNT_MAX);
    }
    if ((problem->buffers == NULL && problem->buffer_count > 0) ||
        (problem->gaps == NULL && problem->gap_count > 0) ||
        (problem->pools == NULL && problem->pool_count > 0)) {
        return dao_error(DAO_ERR_INVALID, "buffers, gaps or pools are counted, but their array is NULL");
    }
    if (problem->pool_count > DAO_PLAN_POOL_COUNT_MAX) {
        return dao_error(DAO_ERR_INVALID, "%" PRIu32 " pools, the most is %u", problem->pool_count,
                         DAO_PLAN_POOL_COUNT_MAX);
    }
    if (problem->alignment_bytes != 0 && !dao_is_power_of_two(problem->alignment_bytes)) {
        return dao_error(DAO_ERR_INVALID, "the alignment %" PRIu32 " is no power of two",
                         problem->alignment_bytes);
    }
    if (problem->period > DAO_PLAN_PERIOD_MAX) {
        return dao_error(DAO_ERR_INVALID, "a period of %" PRIu64 ", the most is %" PRIu64, problem->period,
                         DAO_PLAN_PERIOD_MAX);
    }
    for (uint32_t i = 0; i < problem->pool_count; i++) {
        if (problem->pools[i].capacity_bytes > DAO_PLAN_TOTAL_MAX) {
            return dao_error(DAO_ERR_OVERFLOW,
                             "pool %" PRIu32 " holds %" PRIu64 " bytes, the most is %" PRIu64, i,
                             problem->pools[i].capacity_bytes, DAO_PLAN_TOTAL_MAX);
        }
    }
    return DAO_OK;
}

static dao_status_t check_clocks(const dao_plan_problem_t *problem)
{
    uint32_t count = problem->clock_count;
    if (count > DAO_PLAN_CLOCK_COUNT_MAX) {
        return dao_error(DAO_ERR_INVALID, "%" PRIu32 " clocks, the most is %u", count,
                         DAO_PLAN_CLOCK_COUNT_MAX);
    }
    if ((problem->begin_clocks == NULL || problem->end_clocks == NULL) && problem->buffer_count > 0) {
        return dao_error(DAO_ERR_INVALID, "%" PRIu32 " clocks are counted, but an array of them is NULL",
                         count);
    }
    if (problem->gap_count > 0 || problem->period > 0 || problem->margin > 0 || problem->is_closed) {
        return dao_error(DAO_ERR_INVALID, "clocks are without gaps, period, margin and closed lives");
    }
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const uint32_t *begin = problem->begin_clocks + i * count;
        const uint32_t *end = problem->end_clocks + i * count;
        if (!dao_plan_clock_is_before(begin, end, count) || dao_plan_clock_is_before(end, begin, count)) {
            return dao_error(DAO_ERR_INVALID, "buffer %zu does not begin before it ends: its clocks say so",
                             i);
        }
    }
    return DAO_OK;
}

static dao_status_t check_life(const dao_plan_problem_t *problem, size_t index)
{
    const dao_plan_buffer_t *buffer = &problem->buffers[index];
    if (buffer->begin_time >= buffer->end_time) {
        return dao_error(DAO_ERR_INVALID,
                         "buffer %zu begins at %" PRIu64 " and ends at %" PRIu64 ": it has to end later",
                         index, buffer->begin_time, buffer->end_time);
    }
    if (problem->period > 0 &&
        (buffer->begin_time >= problem->period || buffer->end_time - buffer->begin_time > problem->period)) {
        return dao_error(DAO_ERR_INVALID,
                         "buffer %zu lives from %" PRIu64 " to %" PRIu64 ": with a period of %" PRIu64
                         " it has to begin before that and to live no longer",
                         index, buffer->begin_time, buffer->end_time, problem->period);
    }
    return DAO_OK;
}

/* Checks where a buffer may lie, and adds what it takes at most to the total. */
static dao_status_t check_place(const dao_plan_problem_t *problem, size_t index, uint64_t *total_bytes,
                                uint64_t *fixed_ends)
{
    const dao_plan_buffer_t *buffer = &problem->buffers[index];
    uint32_t pool_count = problem->pool_count == 0 ? 1 : problem->pool_count;
    uint64_t alignment_bytes = dao_plan_alignment(problem, index);
    if (buffer->size_bytes == 0 || buffer->size_bytes > DAO_PLAN_SIZE_MAX) {
        return dao_error(DAO_ERR_INVALID, "buffer %zu has %" PRIu64 " bytes, it has to be 1 to %" PRIu64,
                         index, buffer->size_bytes, DAO_PLAN_SIZE_MAX);
    }
    if (!dao_is_power_of_two(alignment_bytes)) {
        return dao_error(DAO_ERR_INVALID, "buffer %zu: the alignment %" PRIu64 " is no power of two", index,
                         alignment_bytes);
    }
    if (buffer->pool >= pool_count && buffer->pool != DAO_PLAN_ANY_POOL) {
        return dao_error(DAO_ERR_INVALID, "buffer %zu is for pool %" PRIu32 ", there are %" PRIu32, index,
                         buffer->pool, pool_count);
    }
    *total_bytes += dao_round_up(buffer->size_bytes, alignment_bytes); /* each step is far below 2^64 */
    if (buffer->fixed_offset == DAO_PLAN_NOWHERE) {
        return *total_bytes > DAO_PLAN_TOTAL_MAX ? too_large(index) : DAO_OK;
    }
    if (buffer->fixed_offset % alignment_bytes != 0) {
        return dao_error(DAO_ERR_INVALID,
                         "buffer %zu is fixed at %" PRIu64 ", no multiple of its alignment %" PRIu64, index,
                         buffer->fixed_offset, alignment_bytes);
    }
    if (buffer->fixed_offset > DAO_PLAN_TOTAL_MAX || *total_bytes > DAO_PLAN_TOTAL_MAX) {
        return too_large(index);
    }
    uint64_t end = buffer->fixed_offset + buffer->size_bytes;
    uint32_t pool = buffer->pool == DAO_PLAN_ANY_POOL ? 0 : buffer->pool;
    uint64_t capacity_bytes = dao_plan_capacity(problem, pool);
    if (end > capacity_bytes) {
        return dao_error(DAO_ERR_INVALID, "buffer %zu is fixed up to %" PRIu64 ", its pool holds %" PRIu64,
                         index, end, capacity_bytes);
    }
    fixed_ends[pool] = dao_larger(fixed_ends[pool], end);
    return DAO_OK;
}

/* Peaks are added up over the pools: the sum has a limit, not each alone. */
static dao_status_t check_sums(uint64_t total_bytes, const uint64_t *fixed_ends)
{
    uint64_t fixed_bytes = 0;
    for (uint32_t pool = 0; pool < DAO_PLAN_POOL_COUNT_MAX; pool++) {
        fixed_bytes = dao_add_capped(fixed_bytes, fixed_ends[pool]);
    }
    if (dao_add_capped(total_bytes, fixed_bytes) > DAO_PLAN_TOTAL_MAX) {
        return dao_error(DAO_ERR_OVERFLOW,
                         "all sizes (%" PRIu64 ") and the largest fixed end of each pool (%" PRIu64
                         " together) exceed %" PRIu64 " bytes: fix buffers at lower offsets",
                         total_bytes, fixed_bytes, DAO_PLAN_TOTAL_MAX);
    }
    return DAO_OK;
}

static dao_status_t check_gap(const dao_plan_problem_t *problem, size_t index)
{
    const dao_plan_gap_t *gap = &problem->gaps[index];
    const dao_plan_gap_t *before = index == 0 ? NULL : gap - 1;
    if (gap->buffer >= problem->buffer_count) {
        return dao_error(DAO_ERR_INVALID, "gap %zu is of buffer %zu, there are %zu", index, gap->buffer,
                         problem->buffer_count);
    }
    const dao_plan_buffer_t *buffer = &problem->buffers[gap->buffer];
    if (gap->begin_time >= gap->end_time || gap->begin_time < buffer->begin_time ||
        gap->end_time > buffer->end_time) {
        return dao_error(DAO_ERR_INVALID,
                         "gap %zu lies from %" PRIu64 " to %" PRIu64 ", not within the life of buffer %zu",
                         index, gap->begin_time, gap->end_time, gap->buffer);
    }
    bool is_whole = gap->low_byte == 0 && gap->high_byte == 0;
    if (!is_whole && (gap->low_byte >= gap->high_byte || gap->high_byte > buffer->size_bytes)) {
        return dao_error(DAO_ERR_INVALID,
                         "gap %zu is of bytes %" PRIu64 " to %" PRIu64 ", buffer %zu has %" PRIu64, index,
                         gap->low_byte, gap->high_byte, gap->buffer, buffer->size_bytes);
    }
    if (before != NULL && (before->buffer > gap->buffer ||
                           (before->buffer == gap->buffer && before->end_time > gap->begin_time))) {
        return dao_error(DAO_ERR_INVALID,
                         "gap %zu is out of order: by buffers, a buffer's by time, without overlap", index);
    }
    return DAO_OK;
}

dao_status_t dao_plan_problem_check(const dao_plan_problem_t *problem)
{
    dao_status_t status = check_shape(problem);
    if (status == DAO_OK && problem->clock_count > 0) {
        status = check_clocks(problem);
    }
    uint64_t total_bytes = 0, fixed_ends[DAO_PLAN_POOL_COUNT_MAX] = {0};
    for (size_t i = 0; i < problem->buffer_count && status == DAO_OK; i++) {
        status = problem->clock_count > 0 ? DAO_OK : check_life(problem, i);
        if (status == DAO_OK) {
            status = check_place(problem, i, &total_bytes, fixed_ends);
        }
    }
    if (status == DAO_OK) {
        status = check_sums(total_bytes, fixed_ends);
    }
    for (size_t i = 0; i < problem->gap_count && status == DAO_OK; i++) {
        status = check_gap(problem, i);
    }
    return status;
}

/* ---- copies ---- */

dao_status_t dao_plan_problem_copy_init(dao_plan_problem_copy_t *copy, const dao_plan_problem_t *problem)
{
    size_t count = problem->buffer_count, clock_bytes = problem->clock_count * sizeof(uint32_t);
    const struct {
        const void *array;
        size_t count, size_bytes;
    } from[DAO_PLAN_PROBLEM_ARRAY_COUNT] = {
        {problem->buffers, count, sizeof(*problem->buffers)},
        {problem->gaps, problem->gap_count, sizeof(*problem->gaps)},
        {problem->pools, problem->pool_count, sizeof(*problem->pools)},
        {problem->begin_clocks, clock_bytes == 0 ? 0 : count, clock_bytes},
        {problem->end_clocks, clock_bytes == 0 ? 0 : count, clock_bytes},
    };
    *copy = (dao_plan_problem_copy_t){.problem = *problem, .memory.is_patient = true};
    for (size_t i = 0; i < DAO_PLAN_PROBLEM_ARRAY_COUNT; i++) {
        if (from[i].count == 0) {
            continue;
        }
        copy->arrays[i] = dao_plan_memory_alloc(&copy->memory, from[i].count, from[i].size_bytes);
        if (copy->arrays[i] == NULL) {
            dao_plan_problem_copy_finish(copy);
            return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to copy %zu buffers", count);
        }
        memcpy(copy->arrays[i], from[i].array, from[i].count * from[i].size_bytes);
    }
    copy->problem.buffers = copy->arrays[0];
    copy->problem.gaps = copy->arrays[1];
    copy->problem.pools = copy->arrays[2];
    copy->problem.begin_clocks = copy->arrays[3];
    copy->problem.end_clocks = copy->arrays[4];
    return DAO_OK;
}

void dao_plan_problem_copy_drop(dao_plan_problem_copy_t *copy, dao_plan_work_t *work)
{
    for (size_t i = 0; i < DAO_PLAN_PROBLEM_ARRAY_COUNT; i++) {
        dao_plan_memory_free(&copy->memory, copy->arrays[i]);
        copy->arrays[i] = NULL;
    }
    dao_plan_memory_trim(&copy->memory, work);
}

void dao_plan_problem_copy_finish(dao_plan_problem_copy_t *copy)
{
    dao_plan_work_t endless = dao_plan_work_unlimited();
    dao_plan_problem_copy_drop(copy, &endless);
    *copy = (dao_plan_problem_copy_t){0};
}
