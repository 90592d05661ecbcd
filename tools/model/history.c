/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/model/history.h"

#include "allocators/range/range.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "tools/base/progress.h"

#include <inttypes.h>
#include <stdlib.h>

/* Between two events without times. */
#define STEP_NS UINT64_C(1000)

uint64_t dao_history_rounded(const dao_history_buffer_t *buffer)
{
    return dao_round_up(buffer->size_bytes, DAO_HISTORY_ROUND_BYTES);
}

static dao_status_t make(size_t buffer_count, dao_history_t *history)
{
    history->buffers = dao_host_calloc(buffer_count + 1, sizeof(*history->buffers));
    history->events = dao_host_calloc(buffer_count + 1, 2 * sizeof(*history->events));
    return history->buffers != NULL && history->events != NULL
               ? DAO_OK
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the events of %zu buffers", buffer_count);
}

void dao_history_finish(dao_history_t *history)
{
    dao_host_free(history->buffers);
    dao_host_free(history->events);
    *history = (dao_history_t){0};
}

static void add_event(dao_history_t *history, uint64_t time_ns, uint32_t buffer, uint32_t operator_index,
                      bool is_alloc)
{
    history->events[history->event_count++] = (dao_history_event_t){
        .time_ns = time_ns, .buffer = buffer, .operator_index = operator_index, .is_alloc = is_alloc};
}

/* ---- of a step ---- */

/* A sum that ends at the last time there is. */
static uint64_t later(uint64_t time_ns, uint64_t by_ns)
{
    return by_ns > UINT64_MAX - time_ns ? UINT64_MAX : time_ns + by_ns;
}

void dao_history_operator_begins(const dao_step_trace_t *trace, uint64_t *out_begins_ns)
{
    uint64_t now_ns = 0;
    for (size_t i = 0; i < trace->operator_count; i++) {
        const dao_trace_operator_t *op = &trace->operators[i];
        out_begins_ns[i] = op->begin_ns != DAO_TRACE_NO_TIME ? op->begin_ns : now_ns;
        now_ns = dao_larger(now_ns, later(out_begins_ns[i], op->cost_ns));
    }
    out_begins_ns[trace->operator_count] = now_ns;
}

/* Steps of other streams may begin earlier than the operator before: the order of the file holds. */
typedef struct step_walk {
    dao_history_t *history;
    uint32_t *numbers; /* buffers of tensors, and behind them of temporaries; DAO_TRACE_NONE: none */
    uint64_t now_ns;
} step_walk_t;

static uint32_t add_buffer(step_walk_t *walk, size_t id_offset, size_t tag_offset, uint64_t size_bytes)
{
    dao_history_t *history = walk->history;
    const char *tag = dao_trace_name(history->trace, tag_offset);
    if (size_bytes == 0) {
        return DAO_TRACE_NONE;
    }
    history->has_tags = history->has_tags || *tag != '\0';
    history->buffers[history->buffer_count] =
        (dao_history_buffer_t){.id = dao_trace_name(history->trace, id_offset),
                               .tag = tag,
                               .size_bytes = size_bytes,
                               .is_kept = true};
    return (uint32_t)history->buffer_count++;
}

static void add_change(step_walk_t *walk, uint32_t number, uint32_t operator_index, bool is_alloc)
{
    if (number != DAO_TRACE_NONE) {
        walk->history->buffers[number].is_kept = is_alloc;
        add_event(walk->history, walk->now_ns, number, operator_index, is_alloc);
    }
}

static void add_operator(step_walk_t *walk, uint32_t index, uint64_t begin_ns)
{
    const dao_step_trace_t *trace = walk->history->trace;
    const dao_trace_operator_t *op = &trace->operators[index];
    walk->now_ns = dao_larger(walk->now_ns, begin_ns);
    for (size_t i = op->operands.begin; i < op->operands.begin + op->operands.count; i++) {
        uint32_t tensor = trace->operands[i].tensor;
        if (trace->tensors[tensor].producer == index) {
            add_change(walk, walk->numbers[tensor], index, true);
        }
    }
    for (size_t i = op->events.begin; i < op->events.begin + op->events.count; i++) {
        const dao_trace_event_t *event = &trace->events[i];
        size_t temporary = trace->tensor_count + op->temporaries.begin + event->temporary;
        add_change(walk, walk->numbers[temporary], index, event->is_alloc);
    }
    walk->now_ns = dao_larger(walk->now_ns, later(begin_ns, op->cost_ns));
    size_t left_count = trace->keeps_temporaries ? 0 : op->temporaries.count;
    for (size_t i = op->temporaries.begin; i < op->temporaries.begin + left_count; i++) {
        uint32_t number = walk->numbers[trace->tensor_count + i];
        if (number != DAO_TRACE_NONE && walk->history->buffers[number].is_kept) {
            add_change(walk, number, index, false);
        }
    }
    for (size_t i = op->releases.begin; i < op->releases.begin + op->releases.count; i++) {
        add_change(walk, walk->numbers[trace->releases[i]], index, false);
    }
}

static void add_step(step_walk_t *walk, const uint64_t *begins_ns)
{
    const dao_step_trace_t *trace = walk->history->trace;
    for (size_t i = 0; i < trace->tensor_count; i++) {
        const dao_trace_tensor_t *tensor = &trace->tensors[i];
        uint32_t number = add_buffer(walk, tensor->id_offset, tensor->tag_offset, tensor->size_bytes);
        walk->numbers[i] = number;
        if (number != DAO_TRACE_NONE) {
            walk->history->buffers[number].is_before = tensor->producer == DAO_TRACE_NONE;
        }
    }
    for (size_t i = 0; i < trace->temporary_count; i++) {
        const dao_trace_temporary_t *temporary = &trace->temporaries[i];
        walk->numbers[trace->tensor_count + i] =
            add_buffer(walk, temporary->id_offset, DAO_TRACE_NO_NAME, temporary->size_bytes);
    }
    for (uint32_t i = 0; i < trace->operator_count; i++) {
        add_operator(walk, i, begins_ns[i]);
    }
    walk->history->end_ns = dao_larger(walk->now_ns, begins_ns[trace->operator_count]);
}

dao_status_t dao_history_of_step(const dao_step_trace_t *trace, dao_history_t *out_history)
{
    dao_history_t history = {.trace = trace, .is_timed = true};
    size_t count = trace->tensor_count + trace->temporary_count;
    step_walk_t walk = {.history = &history, .numbers = dao_host_calloc(count + 1, sizeof(uint32_t))};
    uint64_t *begins_ns = dao_host_calloc(trace->operator_count + 1, sizeof(*begins_ns));
    dao_status_t status = make(count, &history);
    if (status == DAO_OK && (walk.numbers == NULL || begins_ns == NULL)) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the events of %zu buffers", count);
    }
    if (status == DAO_OK) {
        dao_history_operator_begins(trace, begins_ns);
        add_step(&walk, begins_ns);
        DAO_ASSERT_HEAVY(dao_history_is_valid(&history));
    }
    dao_host_free(walk.numbers);
    dao_host_free(begins_ns);
    if (status == DAO_OK) {
        *out_history = history;
    } else {
        dao_history_finish(&history);
    }
    return status;
}

/* ---- of lifetimes ---- */

typedef struct moment {
    uint64_t time;
    uint32_t buffer;
    bool is_alloc;
} moment_t;

static int compare_moments(const void *left, const void *right)
{
    const moment_t *a = left;
    const moment_t *b = right;
    if (a->time != b->time) {
        return a->time < b->time ? -1 : 1;
    }
    if (a->is_alloc != b->is_alloc) {
        return a->is_alloc ? 1 : -1;
    }
    return a->buffer < b->buffer ? -1 : 1;
}

static void add_lives(const dao_plan_input_t *lifetimes, moment_t *moments, dao_history_t *history)
{
    size_t count = 0;
    for (size_t i = 0; i < lifetimes->buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &lifetimes->buffers[i];
        bool has_window = lifetimes->window_end != 0;
        dao_history_buffer_t *made = &history->buffers[history->buffer_count++];
        *made = (dao_history_buffer_t){
            .id = lifetimes->id_offsets != NULL ? lifetimes->ids + lifetimes->id_offsets[i] : NULL,
            .tag = "",
            .size_bytes = buffer->size_bytes,
            .is_before = has_window && buffer->begin_time == 0,
            .is_kept = has_window && buffer->end_time == lifetimes->window_end};
        if (!made->is_before) {
            moments[count++] =
                (moment_t){.time = buffer->begin_time, .buffer = (uint32_t)i, .is_alloc = true};
        }
        if (!made->is_kept) {
            moments[count++] = (moment_t){.time = buffer->end_time, .buffer = (uint32_t)i};
        }
    }
    qsort(moments, count, sizeof(*moments), compare_moments);
    for (size_t i = 0; i < count; i++) {
        add_event(history, (i + 1) * STEP_NS, moments[i].buffer, DAO_TRACE_NONE, moments[i].is_alloc);
    }
    history->end_ns = (count + 1) * STEP_NS;
}

dao_status_t dao_history_of_lifetimes(const dao_plan_input_t *lifetimes, dao_history_t *out_history)
{
    if (lifetimes->clock_count > 0) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "lives by several clocks have no order in which they begin and end");
    }
    dao_history_t history = {.trace = NULL};
    moment_t *moments = dao_host_calloc(lifetimes->buffer_count + 1, 2 * sizeof(*moments));
    dao_status_t status = make(lifetimes->buffer_count, &history);
    if (status == DAO_OK && moments == NULL) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu lifetimes", lifetimes->buffer_count);
    }
    if (status == DAO_OK) {
        add_lives(lifetimes, moments, &history);
        DAO_ASSERT_HEAVY(dao_history_is_valid(&history));
    }
    dao_host_free(moments);
    if (status == DAO_OK) {
        *out_history = history;
    } else {
        dao_history_finish(&history);
    }
    return status;
}

/* ---- places ---- */

static dao_status_t place_buffer(dao_history_t *history, dao_range_t *range, uint32_t number)
{
    dao_history_buffer_t *buffer = &history->buffers[number];
    dao_range_request_t request = {.size_bytes = dao_history_rounded(buffer),
                                   .alignment_bytes = DAO_HISTORY_ROUND_BYTES};
    dao_range_grant_t grant;
    dao_status_t status = dao_range_alloc(range, &request, &grant);
    if (status == DAO_ERR_LIMIT) {
        return dao_error(status, "the buffers take more than %" PRIu64 " bytes", DAO_RANGE_CAPACITY_MAX);
    }
    if (status == DAO_OK) {
        buffer->offset_bytes = grant.offset_bytes;
        history->span_bytes = dao_larger(history->span_bytes, grant.offset_bytes + request.size_bytes);
    }
    return status;
}

static dao_status_t place_all(dao_history_t *history, dao_range_t *range)
{
    dao_status_t status = DAO_OK;
    dao_progress_phase("placing", DAO_PROGRESS_UNIT_PARTS, history->event_count);
    for (size_t i = 0; i < history->buffer_count && status == DAO_OK; i++) {
        status = history->buffers[i].is_before ? place_buffer(history, range, (uint32_t)i) : DAO_OK;
    }
    for (size_t i = 0; i < history->event_count && status == DAO_OK; i++) {
        const dao_history_event_t *event = &history->events[i];
        dao_range_block_t block;
        status = event->is_alloc
                     ? place_buffer(history, range, event->buffer)
                     : dao_range_free(range, history->buffers[event->buffer].offset_bytes, NULL, &block);
        dao_progress_add(1);
    }
    return status;
}

dao_status_t dao_history_place(dao_history_t *history)
{
    dao_range_config_t config = {.capacity_bytes = DAO_RANGE_CAPACITY_MAX};
    dao_range_t *range = NULL;
    dao_status_t status = dao_range_create(&config, &range);
    if (status == DAO_OK) {
        history->span_bytes = 0;
        status = place_all(history, range);
        dao_range_destroy(range);
    }
    return status;
}

bool dao_history_is_valid(const dao_history_t *history)
{
    bool *is_live = dao_host_calloc(history->buffer_count + 1, sizeof(bool));
    bool is_valid = true;
    uint64_t last_ns = 0;
    if (is_live == NULL) {
        return true; /* it cannot be looked at */
    }
    for (size_t i = 0; i < history->buffer_count; i++) {
        is_live[i] = history->buffers[i].is_before;
    }
    for (size_t i = 0; i < history->event_count && is_valid; i++) {
        const dao_history_event_t *event = &history->events[i];
        is_valid = event->buffer < history->buffer_count && is_live[event->buffer] != event->is_alloc &&
                   event->time_ns >= last_ns;
        last_ns = event->time_ns;
        if (is_valid) {
            is_live[event->buffer] = event->is_alloc;
        }
    }
    for (size_t i = 0; i < history->buffer_count && is_valid; i++) {
        is_valid = is_live[i] == history->buffers[i].is_kept;
    }
    dao_host_free(is_live);
    return is_valid;
}
