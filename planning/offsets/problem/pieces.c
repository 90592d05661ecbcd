/* SPDX-License-Identifier: Apache-2.0 */
/* A problem without clocks, cut into rows. A row is a time in which a buffer occupies bytes.

   The margin, and one tick more for closed lifetimes, is added where a use ends: at the end of a lifetime and
   at the start of a gap. A gap that is shorter than that is ignored. With a period, times behind it are moved
   to the start of the step. A lifetime that would reach into the next one of the same buffer is cut there; a
   gap at its begin gets shorter by as much. */
#include "base/report/error.h"
#include "planning/offsets/problem/instance.h"
#include "planning/offsets/problem/rows.h"

/* Where rows go; with no arrays they are only counted. */
typedef struct cutter {
    dao_plan_rows_t *rows;
    uint64_t period;
    uint64_t extra; /* ticks that a use lasts longer than it says */
    bool is_counting;
} cutter_t;

static uint64_t add_ticks(uint64_t time, uint64_t ticks)
{
    return time > UINT64_MAX - ticks ? UINT64_MAX : time + ticks;
}

static void put(const cutter_t *cutter, uint32_t source, const dao_plan_piece_t *bytes, uint64_t from,
                uint64_t to)
{
    dao_plan_rows_t *rows = cutter->rows;
    uint32_t row = rows->count++;
    if (cutter->is_counting) {
        return;
    }
    rows->begin_times[row] = from;
    rows->end_times[row] = to;
    rows->sources[row] = source;
    rows->lows[row] = bytes->low;
    rows->highs[row] = bytes->high;
}

/* Puts one rectangle, as two where it goes beyond the period. */
static void emit(const cutter_t *cutter, uint32_t source, uint64_t low, uint64_t high, uint64_t from,
                 uint64_t to)
{
    const dao_plan_piece_t bytes = {.low = low, .high = high};
    uint64_t period = cutter->period;
    if (low == high || from == to) {
        return;
    }
    if (period == 0 || to <= period) {
        put(cutter, source, &bytes, from, to);
    } else if (from >= period) {
        put(cutter, source, &bytes, from - period, to - period);
    } else {
        put(cutter, source, &bytes, from, period);
        put(cutter, source, &bytes, 0, to - period);
    }
}

/* Cuts one buffer, whose gaps are the `gap_count` ones from `gaps` on. */
static void cut(const cutter_t *cutter, const dao_plan_buffer_t *buffer, uint32_t source,
                const dao_plan_gap_t *gaps, size_t gap_count)
{
    uint64_t end = add_ticks(buffer->end_time, cutter->extra), overrun = 0;
    if (cutter->period > 0 && end - buffer->begin_time > cutter->period) {
        overrun = end - buffer->begin_time - cutter->period;
        end -= overrun;
    }
    uint64_t at = buffer->begin_time;
    for (size_t i = 0; i < gap_count; i++) {
        const dao_plan_gap_t *gap = &gaps[i];
        bool is_first = gap->begin_time == buffer->begin_time; /* nothing was used before it in this life */
        bool is_last = gap->end_time == buffer->end_time;
        uint64_t delay = !is_first ? cutter->extra : is_last ? 0 : overrun; /* the whole life: never used */
        uint64_t from = add_ticks(gap->begin_time, delay);
        uint64_t to = is_last ? end : gap->end_time;
        if (from < to) {
            uint64_t high = gap->high_byte == 0 ? buffer->size_bytes : gap->high_byte;
            emit(cutter, source, 0, buffer->size_bytes, at, from);
            emit(cutter, source, 0, gap->low_byte, from, to);
            emit(cutter, source, high, buffer->size_bytes, from, to);
            at = to;
        }
    }
    emit(cutter, source, 0, buffer->size_bytes, at, end);
}

static dao_status_t cut_all(const cutter_t *cutter, const dao_plan_problem_t *problem, dao_plan_work_t *work)
{
    size_t gap = 0;
    dao_plan_pass_t pass = {.count = problem->buffer_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            size_t first_gap = gap;
            uint32_t first_row = cutter->rows->count;
            while (gap < problem->gap_count && problem->gaps[gap].buffer == i) {
                gap++;
            }
            const dao_plan_gap_t *gaps = gap == first_gap ? NULL : problem->gaps + first_gap;
            cut(cutter, &problem->buffers[i], (uint32_t)i, gaps, gap - first_gap);
            if (cutter->rows->count == first_row) {
                return dao_error(DAO_ERR_INVALID, "buffer %zu is never used: gaps fill its life", i);
            }
        }
    }
    return DAO_OK;
}

static dao_status_t take_rows(dao_plan_rows_t *rows, dao_plan_memory_t *memory, bool have_bytes)
{
    rows->begin_times = dao_plan_memory_alloc(memory, rows->count, sizeof(*rows->begin_times));
    rows->end_times = dao_plan_memory_alloc(memory, rows->count, sizeof(*rows->end_times));
    bool is_complete = rows->begin_times != NULL && rows->end_times != NULL;
    if (have_bytes) {
        rows->sources = dao_plan_memory_alloc(memory, rows->count, sizeof(*rows->sources));
        rows->lows = dao_plan_memory_alloc(memory, rows->count, sizeof(*rows->lows));
        rows->highs = dao_plan_memory_alloc(memory, rows->count, sizeof(*rows->highs));
        is_complete = is_complete && rows->sources != NULL && rows->lows != NULL && rows->highs != NULL;
    }
    return is_complete ? DAO_OK
                       : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for %u lives", rows->count);
}

/* Every row is a whole buffer, one after the other. */
static dao_status_t cut_nothing(dao_plan_rows_t *rows, const dao_plan_problem_t *problem, uint64_t extra,
                                dao_plan_memory_t *memory, dao_plan_work_t *work)
{
    rows->count = (uint32_t)problem->buffer_count;
    dao_status_t status = take_rows(rows, memory, false);
    dao_plan_pass_t pass = {.count = status == DAO_OK ? rows->count : 0};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            rows->begin_times[i] = problem->buffers[i].begin_time;
            rows->end_times[i] = add_ticks(problem->buffers[i].end_time, extra);
        }
    }
    return status;
}

static dao_status_t cut_clocks(dao_plan_rows_t *rows, const dao_plan_problem_t *problem,
                               dao_plan_memory_t *memory, dao_plan_work_t *work)
{
    rows->count = (uint32_t)problem->buffer_count;
    dao_status_t status = take_rows(rows, memory, false);
    if (status != DAO_OK) {
        return status;
    }
    return dao_plan_clocks_to_times(problem, memory, rows->begin_times, rows->end_times, &rows->is_exact,
                                    work);
}

dao_status_t dao_plan_rows_cut(dao_plan_rows_t *rows, const dao_plan_problem_t *problem,
                               dao_plan_memory_t *memory, dao_plan_work_t *work)
{
    *rows = (dao_plan_rows_t){.is_exact = true};
    if (problem->clock_count > 0) {
        return cut_clocks(rows, problem, memory, work);
    }
    cutter_t cutter = {.rows = rows, .period = problem->period, .is_counting = true};
    cutter.extra = add_ticks(problem->margin, problem->is_closed ? 1 : 0);
    if (problem->gap_count == 0 && problem->period == 0) {
        return cut_nothing(rows, problem, cutter.extra, memory, work);
    }
    if (cutter.period > 0 && cutter.extra > cutter.period) {
        cutter.extra = cutter.period; /* longer than the whole step is no different, and nothing overflows */
    }
    dao_status_t status = cut_all(&cutter, problem, work);
    if (status == DAO_OK && rows->count > DAO_PLAN_BUFFER_COUNT_MAX) {
        status = dao_error(DAO_ERR_INVALID, "gaps and the period make %u pieces, the most is %u", rows->count,
                           DAO_PLAN_BUFFER_COUNT_MAX);
    }
    if (status == DAO_OK) {
        status = take_rows(rows, memory, true);
    }
    if (status == DAO_OK) {
        cutter.is_counting = false;
        rows->count = 0;
        status = cut_all(&cutter, problem, work);
    }
    return status;
}

void dao_plan_rows_finish(dao_plan_rows_t *rows, dao_plan_memory_t *memory)
{
    dao_plan_memory_free(memory, rows->begin_times);
    dao_plan_memory_free(memory, rows->end_times);
    dao_plan_memory_free(memory, rows->sources);
    dao_plan_memory_free(memory, rows->lows);
    dao_plan_memory_free(memory, rows->highs);
    *rows = (dao_plan_rows_t){0};
}
