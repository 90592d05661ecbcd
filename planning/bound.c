/* The lower bound: bytes that are alive at one moment lie side by side.

   Where all offsets are multiples of one alignment, each buffer takes its size rounded up to it, but for the one on top; so
   the rounded sizes, less the largest rounding, are a bound too. With several pools the peak is the sum of the pools' peaks:
   at least what is alive at one moment, and at least the sum of what each pool must hold at its own worst moment. */
#include "base/error.h"
#include "base/math.h"
#include "planning/instance.h"

#include <string.h>

/* Which rows count, and how. */
typedef struct load {
    const dao_plan_rows_t *rows;
    const dao_plan_problem_t *problem;
    uint32_t pool;           /* rows of buffers that must lie in it alone; DAO_PLAN_ANY_POOL: all */
    uint64_t rounding_bytes; /* a power of two */
} load_t;

static uint64_t larger(uint64_t left, uint64_t right)
{
    return left > right ? left : right;
}

static uint64_t row_bytes(const load_t *load, uint32_t row)
{
    const dao_plan_rows_t *rows = load->rows;
    const dao_plan_buffer_t *buffer = &load->problem->buffers[rows->sources[row]];
    if (load->pool != DAO_PLAN_ANY_POOL && buffer->pool != load->pool) {
        return 0;
    }
    uint64_t bytes = rows->lows == NULL ? buffer->size_bytes : rows->highs[row] - rows->lows[row];
    return dao_round_up(bytes, load->rounding_bytes);
}

/* Gives the most bytes alive at a time. `changes` has one number more than there are times. */
static uint64_t greatest_load(const load_t *load, uint64_t *changes, uint32_t time_count)
{
    memset(changes, 0, ((size_t)time_count + 1) * sizeof(*changes));
    for (uint32_t i = 0; i < load->rows->count; i++) {
        uint64_t bytes = row_bytes(load, i);
        changes[load->rows->begin_times[i]] += bytes;
        changes[load->rows->end_times[i]] -= bytes; /* may wrap; the sums do not */
    }
    uint64_t alive = 0, most = 0;
    for (uint32_t time = 0; time < time_count; time++) {
        alive += changes[time];
        most = larger(most, alive);
    }
    return most;
}

/* The rounded sizes less the largest rounding. Pieces of buffers have no alignment of their own. */
static uint64_t rounded_load(load_t load, uint64_t *changes, uint32_t time_count)
{
    const dao_plan_problem_t *problem = load.problem;
    uint64_t rounding_bytes = problem->buffer_count == 0 ? 1 : UINT64_MAX;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        uint64_t alignment_bytes = dao_plan_alignment(problem, i);
        rounding_bytes = alignment_bytes < rounding_bytes ? alignment_bytes : rounding_bytes;
    }
    if (rounding_bytes == 1 || load.rows->lows != NULL) {
        return 0;
    }
    uint64_t most_added = 0;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        uint64_t size_bytes = problem->buffers[i].size_bytes;
        most_added = larger(most_added, dao_round_up(size_bytes, rounding_bytes) - size_bytes);
    }
    load.rounding_bytes = rounding_bytes;
    return greatest_load(&load, changes, time_count) - most_added;
}

/* What one pool must hold. */
static uint64_t pool_bound(load_t load, uint32_t pool, uint64_t *changes, uint32_t time_count)
{
    bool is_used = false;
    uint64_t bound_bytes = 0;
    for (size_t i = 0; i < load.problem->buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &load.problem->buffers[i];
        bool is_fixed = buffer->fixed_offset != DAO_PLAN_NOWHERE;
        bool is_here = buffer->pool == pool || (is_fixed && pool == 0 && buffer->pool == DAO_PLAN_ANY_POOL);
        is_used = is_used || buffer->pool == pool;
        if (is_here && is_fixed) {
            bound_bytes = larger(bound_bytes, buffer->fixed_offset + buffer->size_bytes);
        }
    }
    load.pool = pool;
    return is_used ? larger(bound_bytes, greatest_load(&load, changes, time_count)) : bound_bytes;
}

dao_status_t dao_plan_bound(const dao_plan_rows_t *rows, const dao_plan_problem_t *problem,
                            uint32_t time_count, dao_plan_memory_t *memory, uint64_t *out_bound)
{
    uint64_t *changes = dao_plan_take(memory, (size_t)time_count + 1, sizeof(*changes));
    if (changes == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the loads of %u times", time_count);
    }
    load_t load = {.rows = rows, .problem = problem, .pool = DAO_PLAN_ANY_POOL, .rounding_bytes = 1};
    uint64_t bound_bytes = greatest_load(&load, changes, time_count);
    uint32_t pool_count = problem->pool_count == 0 ? 1 : problem->pool_count;
    if (pool_count == 1) {
        bound_bytes = larger(bound_bytes, rounded_load(load, changes, time_count));
    }
    uint64_t pool_bytes = 0;
    for (uint32_t pool = 0; pool < pool_count; pool++) {
        pool_bytes += pool_bound(load, pool, changes, time_count);
    }
    dao_plan_give(memory, changes);
    *out_bound = larger(bound_bytes, pool_bytes);
    return DAO_OK;
}
