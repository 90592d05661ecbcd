/* SPDX-License-Identifier: Apache-2.0 */
/* Growing arrays; every id is closed by a zero in one text.

   Invariants: id_offsets is NULL or has one entry for each buffer; a gap's buffer is not below the one before
   it; with clocks each buffer has its own; a buffer's pool is below pool_count, or any. */
#include "tools/model/plan_input.h"

#include "tools/base/grow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dao_plan_input_init(dao_plan_input_t *lifetimes)
{
    *lifetimes = (dao_plan_input_t){0};
}

void dao_plan_input_finish(dao_plan_input_t *lifetimes)
{
    dao_host_free(lifetimes->buffers);
    dao_host_free(lifetimes->gaps);
    dao_host_free(lifetimes->begin_clocks);
    dao_host_free(lifetimes->end_clocks);
    dao_host_free(lifetimes->id_offsets);
    dao_host_free(lifetimes->ids);
    dao_host_free(lifetimes->labels);
    dao_host_free(lifetimes->operator_times);
    dao_host_free(lifetimes->texts);
    *lifetimes = (dao_plan_input_t){0};
}

static dao_status_t add_id(dao_plan_input_t *lifetimes, const char *id)
{
    size_t *offsets = dao_tool_grow(lifetimes->id_offsets, &lifetimes->id_capacity, lifetimes->buffer_count,
                                    sizeof(*offsets));
    if (offsets == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    lifetimes->id_offsets = offsets;
    offsets[lifetimes->buffer_count] = lifetimes->id_bytes;
    return dao_tool_put_text(&lifetimes->ids, &lifetimes->id_bytes, &lifetimes->id_bytes_capacity, id,
                             strlen(id));
}

dao_status_t dao_plan_input_add(dao_plan_input_t *lifetimes, const char *id, const dao_plan_buffer_t *buffer,
                                bool *out_added)
{
    bool is_added = buffer->size_bytes > 0 && buffer->end_time > buffer->begin_time;
    if (out_added != NULL) {
        *out_added = is_added;
    }
    if (!is_added) {
        lifetimes->left_out_count++;
        return DAO_OK;
    }
    if (lifetimes->buffer_count == UINT32_MAX) {
        return dao_error(DAO_ERR_LIMIT, "there are more than %u buffers", UINT32_MAX);
    }
    dao_plan_buffer_t *buffers = dao_tool_grow(lifetimes->buffers, &lifetimes->buffer_capacity,
                                               lifetimes->buffer_count, sizeof(*buffers));
    if (buffers == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    lifetimes->buffers = buffers;
    dao_status_t status = id == NULL ? DAO_OK : add_id(lifetimes, id);
    if (status == DAO_OK) {
        buffers[lifetimes->buffer_count++] = *buffer;
        if (buffer->pool != DAO_PLAN_ANY_POOL && buffer->pool >= lifetimes->pool_count) {
            lifetimes->pool_count = buffer->pool + 1;
        }
    }
    return status;
}

dao_status_t dao_plan_input_add_gap(dao_plan_input_t *lifetimes, const dao_plan_gap_t *gap)
{
    dao_plan_gap_t *gaps =
        dao_tool_grow(lifetimes->gaps, &lifetimes->gap_capacity, lifetimes->gap_count, sizeof(*gaps));
    if (gaps == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    lifetimes->gaps = gaps;
    gaps[lifetimes->gap_count] = *gap;
    gaps[lifetimes->gap_count++].buffer = lifetimes->buffer_count - 1;
    return DAO_OK;
}

/* ---- labels ---- */

/* A number is the offset among the texts, plus 1. */
dao_status_t dao_plan_input_add_text(dao_plan_input_t *lifetimes, const char *text, size_t *out_number)
{
    *out_number = *text == '\0' ? 0 : lifetimes->text_bytes + 1;
    return *text == '\0' ? DAO_OK
                         : dao_tool_put_text(&lifetimes->texts, &lifetimes->text_bytes,
                                             &lifetimes->text_capacity, text, strlen(text));
}

dao_status_t dao_plan_input_add_label(dao_plan_input_t *lifetimes, const dao_plan_label_t *label)
{
    while (lifetimes->label_count < lifetimes->buffer_count) {
        dao_plan_label_t *labels = dao_tool_grow(lifetimes->labels, &lifetimes->label_capacity,
                                                 lifetimes->label_count, sizeof(*labels));
        if (labels == NULL) {
            return DAO_ERR_NO_HOST_MEMORY;
        }
        lifetimes->labels = labels;
        labels[lifetimes->label_count++] = (dao_plan_label_t){0};
    }
    lifetimes->labels[lifetimes->buffer_count - 1] = *label;
    return DAO_OK;
}

dao_plan_label_t dao_plan_input_label(const dao_plan_input_t *lifetimes, size_t buffer)
{
    return buffer < lifetimes->label_count ? lifetimes->labels[buffer] : (dao_plan_label_t){0};
}

const char *dao_plan_input_text(const dao_plan_input_t *lifetimes, size_t number)
{
    return number == 0 ? "" : lifetimes->texts + number - 1;
}

/* Puts the clocks of the last buffer behind those of the others. */
static dao_status_t put_clocks(const dao_plan_input_t *lifetimes, uint32_t **array, size_t *capacity,
                               const uint32_t *clocks)
{
    size_t count = lifetimes->clock_count;
    size_t used = (lifetimes->buffer_count - 1) * count;
    while (*capacity < used + count) {
        uint32_t *grown = dao_tool_grow(*array, capacity, *capacity, sizeof(*grown));
        if (grown == NULL) {
            return DAO_ERR_NO_HOST_MEMORY;
        }
        *array = grown;
    }
    memcpy(*array + used, clocks, count * sizeof(*clocks));
    return DAO_OK;
}

dao_status_t dao_plan_input_add_clocks(dao_plan_input_t *lifetimes, const uint32_t *begin,
                                       const uint32_t *end)
{
    dao_status_t status =
        put_clocks(lifetimes, &lifetimes->begin_clocks, &lifetimes->begin_clock_capacity, begin);
    if (status == DAO_OK) {
        status = put_clocks(lifetimes, &lifetimes->end_clocks, &lifetimes->end_clock_capacity, end);
    }
    lifetimes->buffer_count -= status == DAO_OK ? 0 : 1;
    return status;
}

dao_plan_problem_t dao_plan_input_problem(const dao_plan_input_t *lifetimes)
{
    return (dao_plan_problem_t){.buffers = lifetimes->buffers,
                                .buffer_count = lifetimes->buffer_count,
                                .gaps = lifetimes->gaps,
                                .gap_count = lifetimes->gap_count,
                                .begin_clocks = lifetimes->begin_clocks,
                                .end_clocks = lifetimes->end_clocks,
                                .clock_count = lifetimes->clock_count};
}

const char *dao_plan_input_id(const dao_plan_input_t *lifetimes, size_t buffer,
                              char number[DAO_PLAN_INPUT_NUMBER_BYTES])
{
    if (lifetimes->id_offsets != NULL) {
        return lifetimes->ids + lifetimes->id_offsets[buffer];
    }
    (void)snprintf(number, DAO_PLAN_INPUT_NUMBER_BYTES, "%zu", buffer);
    return number;
}

/* ---- as allocations and frees ---- */

typedef struct moment {
    uint64_t time;
    uint32_t buffer;
    bool is_alloc;
    bool is_late; /* behind the others of its time */
} moment_t;

static int compare_moments(const void *left, const void *right)
{
    const moment_t *a = left;
    const moment_t *b = right;
    if (a->time != b->time) {
        return a->time < b->time ? -1 : 1;
    }
    if (a->is_late != b->is_late) {
        return a->is_late ? 1 : -1;
    }
    return a->buffer < b->buffer ? -1 : 1;
}

/* `slots` has one for each buffer, `moments` two. */
static dao_status_t replay(const dao_plan_input_t *lifetimes, bool is_closed, moment_t *moments,
                           uint32_t *slots, dao_alloc_trace_t *trace)
{
    for (uint32_t i = 0; i < lifetimes->buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &lifetimes->buffers[i];
        moments[2 * (size_t)i] = (moment_t){buffer->begin_time, i, .is_alloc = true, .is_late = !is_closed};
        moments[2 * (size_t)i + 1] = (moment_t){buffer->end_time, i, .is_late = is_closed};
    }
    qsort(moments, 2 * lifetimes->buffer_count, sizeof(*moments), compare_moments);
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < 2 * lifetimes->buffer_count && status == DAO_OK; i++) {
        uint32_t buffer = moments[i].buffer;
        status = moments[i].is_alloc
                     ? dao_alloc_trace_take(trace, lifetimes->buffers[buffer].size_bytes, &slots[buffer])
                     : dao_alloc_trace_give(trace, slots[buffer]);
    }
    return status;
}

dao_status_t dao_plan_input_replay(const dao_plan_input_t *lifetimes, bool is_closed,
                                   dao_alloc_trace_t *out_trace)
{
    if (lifetimes->clock_count > 0) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "lives by several clocks have no order in which they begin and end");
    }
    moment_t *moments = dao_host_calloc(lifetimes->buffer_count + 1, 2 * sizeof(*moments));
    uint32_t *slots = dao_host_calloc(lifetimes->buffer_count + 1, sizeof(*slots));
    dao_alloc_trace_t trace;
    dao_alloc_trace_init(&trace, "lifetimes");
    dao_status_t status =
        moments != NULL && slots != NULL
            ? replay(lifetimes, is_closed, moments, slots, &trace)
            : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu lifetimes", lifetimes->buffer_count);
    dao_host_free(moments);
    dao_host_free(slots);
    if (status != DAO_OK) {
        dao_alloc_trace_finish(&trace);
        return status;
    }
    *out_trace = trace;
    return DAO_OK;
}
