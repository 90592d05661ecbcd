/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from a step: packed workspaces, the work of each operator, the peak of the whole step.

   Packing keeps the holes of a workspace below its top in an array by offset, no two of them touching:

       0         hole            hole                  top
       | in use |....| in use   |......| in use        |  unlimited

   An alloc takes the lowest hole that is large enough, else space at the top; a free merges with its
   neighbours. */
#include "tools/model/step_trace.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <string.h>

typedef struct hole {
    uint64_t begin;
    uint64_t end;
} hole_t;

typedef struct workspace {
    hole_t holes[DAO_TRACE_TEMPORARY_COUNT_MAX + 1]; /* at most one more than blocks */
    size_t hole_count;
    uint64_t top;
    uint64_t peak;
} workspace_t;

static bool add(uint64_t *sum, uint64_t value)
{
    bool fits = value <= UINT64_MAX - *sum;
    *sum += fits ? value : 0;
    return fits;
}

/* Rounds up to the alignment; false if that does not fit. */
static bool round_up(uint64_t size_bytes, uint64_t *out_bytes)
{
    *out_bytes = size_bytes;
    if (!add(out_bytes, DAO_TRACE_ALIGNMENT_BYTES - 1)) {
        return false;
    }
    *out_bytes -= *out_bytes % DAO_TRACE_ALIGNMENT_BYTES;
    return true;
}

static void remove_hole(workspace_t *space, size_t at)
{
    space->hole_count--;
    memmove(&space->holes[at], &space->holes[at + 1], (space->hole_count - at) * sizeof(hole_t));
}

static bool take_space(workspace_t *space, uint64_t size_bytes, uint64_t *out_offset)
{
    for (size_t i = 0; i < space->hole_count; i++) {
        hole_t *hole = &space->holes[i];
        if (hole->end - hole->begin >= size_bytes) {
            *out_offset = hole->begin;
            hole->begin += size_bytes;
            if (hole->begin == hole->end) {
                remove_hole(space, i);
            }
            return true;
        }
    }
    *out_offset = space->top;
    if (!add(&space->top, size_bytes)) {
        return false;
    }
    space->peak = space->top > space->peak ? space->top : space->peak;
    return true;
}

static void give_space(workspace_t *space, uint64_t begin, uint64_t end)
{
    size_t at = 0;
    while (at < space->hole_count && space->holes[at].begin < begin) {
        at++;
    }
    if (at < space->hole_count && space->holes[at].begin == end) {
        end = space->holes[at].end;
        remove_hole(space, at);
    }
    if (at > 0 && space->holes[at - 1].end == begin) {
        at--;
        begin = space->holes[at].begin;
        remove_hole(space, at);
    }
    if (end == space->top) {
        space->top = begin;
        return;
    }
    memmove(&space->holes[at + 1], &space->holes[at], (space->hole_count - at) * sizeof(hole_t));
    space->holes[at] = (hole_t){begin, end};
    space->hole_count++;
}

static bool pack_operator(dao_step_trace_t *trace, dao_trace_operator_t *op, workspace_t *space)
{
    space->hole_count = 0;
    space->top = space->peak = 0;
    for (size_t i = 0; i < op->events.count; i++) {
        const dao_trace_event_t *event = &trace->events[op->events.begin + i];
        dao_trace_temporary_t *temporary = &trace->temporaries[op->temporaries.begin + event->temporary];
        uint64_t rounded;
        if (!round_up(temporary->size_bytes, &rounded)) {
            return false;
        }
        if (rounded == 0) {
            continue;
        }
        if (!event->is_alloc) {
            give_space(space, temporary->offset_bytes, temporary->offset_bytes + rounded);
        } else if (!take_space(space, rounded, &temporary->offset_bytes)) {
            return false;
        }
    }
    op->workspace_bytes = space->peak;
    return true;
}

static dao_status_t too_much(const dao_step_trace_t *trace, uint32_t index)
{
    return dao_error(DAO_ERR_OVERFLOW, "operator %" PRIu32 " \"%.64s\": sizes add up to more than 2^64 bytes",
                     index, dao_trace_operator_name(trace, index));
}

dao_status_t dao_step_trace_pack(dao_step_trace_t *trace)
{
    workspace_t *space = dao_host_calloc(1, sizeof(*space));
    if (space == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to pack temporaries");
    }
    dao_status_t status = DAO_OK;
    for (size_t i = 0; status == DAO_OK && i < trace->operator_count; i++) {
        if (!pack_operator(trace, &trace->operators[i], space)) {
            status = too_much(trace, (uint32_t)i);
        }
    }
    dao_host_free(space);
    return status;
}

dao_status_t dao_step_trace_work(const dao_step_trace_t *trace, uint32_t index, uint64_t *out_bytes)
{
    const dao_trace_operator_t *op = &trace->operators[index];
    uint64_t sum = op->workspace_bytes;
    for (size_t i = 0; i < op->operands.count; i++) {
        uint32_t tensor = trace->operands[op->operands.begin + i].tensor;
        uint64_t rounded;
        if (!round_up(trace->tensors[tensor].size_bytes, &rounded) || !add(&sum, rounded)) {
            return dao_error(DAO_ERR_OVERFLOW,
                             "operator %" PRIu32 " \"%.64s\", tensor %.32s of %" PRIu64
                             " bytes: the operands add up to more than 2^64 bytes",
                             index, dao_trace_operator_name(trace, index), dao_trace_tensor_id(trace, tensor),
                             trace->tensors[tensor].size_bytes);
        }
    }
    *out_bytes = sum;
    return DAO_OK;
}

/* Bytes alive now and at most, in both ways of counting. */
typedef struct tally {
    uint64_t now, peak;
    uint64_t rounded_now, rounded_peak;
} tally_t;

static bool count_in(tally_t *tally, uint64_t size_bytes)
{
    uint64_t rounded;
    if (!round_up(size_bytes, &rounded) || !add(&tally->now, size_bytes) ||
        !add(&tally->rounded_now, rounded)) {
        return false;
    }
    tally->peak = tally->now > tally->peak ? tally->now : tally->peak;
    tally->rounded_peak = tally->rounded_now > tally->rounded_peak ? tally->rounded_now : tally->rounded_peak;
    return true;
}

static void count_out(tally_t *tally, uint64_t size_bytes)
{
    uint64_t rounded = 0;
    (void)round_up(size_bytes, &rounded); /* it did as it was counted in */
    tally->now -= size_bytes;
    tally->rounded_now -= rounded;
}

/* What is never freed may stay in the count of bytes; rounded ones count what a run needs. */
static bool tally_temporaries(const dao_step_trace_t *trace, const dao_trace_operator_t *op, tally_t *tally)
{
    uint64_t before = tally->now;
    for (size_t i = 0; i < op->events.count; i++) {
        const dao_trace_event_t *event = &trace->events[op->events.begin + i];
        uint64_t size_bytes = trace->temporaries[op->temporaries.begin + event->temporary].size_bytes;
        if (!event->is_alloc) {
            tally->now -= size_bytes;
        } else if (!add(&tally->now, size_bytes)) {
            return false;
        }
        tally->peak = tally->now > tally->peak ? tally->now : tally->peak;
    }
    tally->now = trace->keeps_temporaries ? tally->now : before;
    uint64_t rounded = tally->rounded_now;
    if (!add(&rounded, op->workspace_bytes)) {
        return false;
    }
    tally->rounded_peak = rounded > tally->rounded_peak ? rounded : tally->rounded_peak;
    return true;
}

static bool tally_operator(const dao_step_trace_t *trace, uint32_t index, tally_t *tally)
{
    const dao_trace_operator_t *op = &trace->operators[index];
    for (size_t i = 0; i < op->operands.count; i++) {
        const dao_trace_operand_t *operand = &trace->operands[op->operands.begin + i];
        const dao_trace_tensor_t *tensor = &trace->tensors[operand->tensor];
        if (tensor->producer == index && !count_in(tally, tensor->size_bytes)) {
            return false;
        }
    }
    if (!tally_temporaries(trace, op, tally)) {
        return false;
    }
    for (size_t i = 0; i < op->releases.count; i++) {
        count_out(tally, trace->tensors[trace->releases[op->releases.begin + i]].size_bytes);
    }
    return true;
}

static dao_status_t tally_persistent(const dao_step_trace_t *trace, tally_t *tally,
                                     dao_step_figures_t *figures)
{
    for (size_t i = 0; i < trace->tensor_count; i++) {
        if (trace->tensors[i].producer != DAO_TRACE_NONE) {
            continue;
        }
        if (!count_in(tally, trace->tensors[i].size_bytes)) {
            return dao_error(DAO_ERR_OVERFLOW,
                             "tensor %.32s of %" PRIu64
                             " bytes: what is alive before the step adds up to more "
                             "than 2^64 bytes",
                             dao_trace_tensor_id(trace, (uint32_t)i), trace->tensors[i].size_bytes);
        }
        figures->persistent_count++;
    }
    figures->persistent_bytes = tally->now;
    return DAO_OK;
}

dao_status_t dao_step_trace_figures(const dao_step_trace_t *trace, dao_step_figures_t *out_figures)
{
    dao_step_figures_t figures = {.largest_operator = DAO_TRACE_NONE};
    tally_t tally = {0};
    dao_status_t status = tally_persistent(trace, &tally, &figures);
    for (uint32_t i = 0; status == DAO_OK && i < trace->operator_count; i++) {
        uint64_t work_bytes;
        if (!tally_operator(trace, i, &tally) || !add(&figures.cost_ns, trace->operators[i].cost_ns)) {
            return too_much(trace, i);
        }
        status = dao_step_trace_work(trace, i, &work_bytes);
        if (status == DAO_OK && (i == 0 || work_bytes > figures.largest_work_bytes)) {
            figures.largest_work_bytes = work_bytes;
            figures.largest_operator = i;
        }
    }
    if (status == DAO_OK) {
        figures.peak_bytes = tally.peak;
        figures.rounded_bytes = tally.rounded_peak;
        *out_figures = figures;
    }
    return status;
}
