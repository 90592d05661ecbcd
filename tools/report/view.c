/* SPDX-License-Identifier: Apache-2.0 */
/* Sums are those after all that happens at a time: frees come first, then allocations. Buffers of the same
   begin stand in the order of the file.

   Invariants of a finished view: order has each buffer once, begins do not fall; a buffer's group is below
   the count of its grouping; the groups of each grouping hold the peak's bytes together. */
#include "tools/report/view.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "tools/base/grow.h"
#include "tools/options/complain.h"
#include "tools/plan/short_plan.h"
#include "tools/read/step/read_step.h"
#include "tools/simulate/forward_end.h"
#include "tools/simulate/swap_maps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Lives, told by their ends alone. */
#define KIND_LIST(X)                                                                                         \
    X(THROUGHOUT, "held throughout")                                                                         \
    X(START, "there at the start, then freed")                                                               \
    X(KEPT, "made here and kept")                                                                            \
    X(SAVED, "saved for backward")                                                                           \
    X(WORKSPACE, "workspace of one operator")                                                                \
    X(PASSING, "made and freed")

typedef enum life_kind {
#define KIND_SYMBOL(symbol, name) KIND_##symbol,
    KIND_LIST(KIND_SYMBOL)
#undef KIND_SYMBOL
} life_kind_t;

static const char *const kind_names[] = {
#define KIND_NAME(symbol, name) name,
    KIND_LIST(KIND_NAME)
#undef KIND_NAME
};

const char *dao_report_grouping_name(dao_report_grouping_t grouping)
{
    static const char *const names[] = {
#define GROUPING_NAME(symbol, name, about) name,
        DAO_REPORT_GROUPING_LIST(GROUPING_NAME)
#undef GROUPING_NAME
    };
    return names[grouping];
}

/* ---- reading ---- */

static dao_status_t read_file(const dao_read_choice_t *choice, dao_report_view_t *view)
{
    dao_status_t status = dao_recognise(view->path, &view->form);
    if (status != DAO_OK) {
        return status;
    }
    /* Of two files each takes the choices that it offers. */
    dao_read_choice_t own = {.has_labels = choice->has_labels};
    own.batch = dao_file_form_has_batches(view->form) ? choice->batch : NULL;
    own.device = dao_file_form_has_events(view->form) ? choice->device : NULL;
    view->has_step = dao_file_form_is_step(view->form);
    if (!view->has_step) {
        return dao_read_lifetimes(view->path, &own, &view->lifetimes);
    }
    status = dao_read_step(view->path, own.batch, &view->trace);
    for (size_t i = 0; i < view->trace.operator_count && status == DAO_OK; i++) {
        view->has_times = view->has_times || view->trace.operators[i].cost_ns > 0;
    }
    return status == DAO_OK
               ? dao_failure_of(view->path, dao_plan_input_of_step(&view->trace, &view->lifetimes))
               : status;
}

static dao_status_t place(dao_report_view_t *view)
{
    dao_plan_report_t report = {.peak_bytes = 0};
    dao_status_t status = dao_short_plan_make(&view->lifetimes, &view->plan, &report);
    view->planned_bytes = report.peak_bytes;
    view->bound_bytes = report.bound_bytes;
    return status;
}

/* ---- the peak ---- */

typedef struct moment {
    uint64_t time;
    uint32_t buffer;
} moment_t;

static int compare_moments(const void *left, const void *right)
{
    const moment_t *a = left;
    const moment_t *b = right;
    if (a->time != b->time) {
        return a->time < b->time ? -1 : 1;
    }
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

static dao_status_t sweep(dao_report_view_t *view, const moment_t *begins, const moment_t *ends)
{
    const dao_plan_input_t *lifetimes = &view->lifetimes;
    uint64_t live_bytes = 0;
    size_t ended = 0;
    for (size_t i = 0; i < lifetimes->buffer_count; i++) {
        for (; ends[ended].time <= begins[i].time; ended++) {
            live_bytes -= lifetimes->buffers[ends[ended].buffer].size_bytes;
        }
        live_bytes += lifetimes->buffers[begins[i].buffer].size_bytes;
        if (live_bytes > DAO_REPORT_NUMBER_MAX) {
            return dao_error(DAO_ERR_OVERFLOW, "%.200s: more than %" PRIu64 " bytes are alive at once",
                             view->path, DAO_REPORT_NUMBER_MAX);
        }
        if (live_bytes > view->peak_bytes) {
            view->peak_bytes = live_bytes;
            view->peak_time = begins[i].time;
        }
        view->order[i] = begins[i].buffer;
    }
    view->first_time = begins[0].time;
    view->last_time = ends[lifetimes->buffer_count - 1].time;
    return view->last_time - view->first_time <= DAO_REPORT_NUMBER_MAX
               ? DAO_OK
               : dao_error(DAO_ERR_OVERFLOW, "%.200s: times reach over more than %" PRIu64, view->path,
                           DAO_REPORT_NUMBER_MAX);
}

static dao_status_t find_peak(dao_report_view_t *view)
{
    const dao_plan_input_t *lifetimes = &view->lifetimes;
    size_t count = lifetimes->buffer_count;
    moment_t *moments = dao_host_calloc(2 * count, sizeof(*moments));
    view->order = dao_host_calloc(count, sizeof(*view->order));
    dao_status_t status = moments != NULL && view->order != NULL ? DAO_OK : DAO_ERR_NO_HOST_MEMORY;
    for (uint32_t i = 0; i < count && status == DAO_OK; i++) {
        moments[i] = (moment_t){lifetimes->buffers[i].begin_time, i};
        moments[count + i] = (moment_t){lifetimes->buffers[i].end_time, i};
    }
    if (status == DAO_OK) {
        qsort(moments, count, sizeof(*moments), compare_moments);
        qsort(moments + count, count, sizeof(*moments), compare_moments);
        status = sweep(view, moments, moments + count);
    }
    dao_host_free(moments);
    return status;
}

/* Returns true if a buffer is alive at the peak. */
static bool is_at_peak(const dao_report_view_t *view, size_t buffer)
{
    const dao_plan_buffer_t *life = &view->lifetimes.buffers[buffer];
    return life->begin_time <= view->peak_time && view->peak_time < life->end_time;
}

/* The last operator that has begun by then. */
static void find_peak_operator(dao_report_view_t *view)
{
    const dao_plan_input_t *lifetimes = &view->lifetimes;
    view->peak_operator = DAO_TRACE_NONE;
    for (uint32_t i = 0; i < lifetimes->operator_count; i++) {
        if (lifetimes->operator_times[i] <= view->peak_time) {
            view->peak_operator = i;
        }
    }
}

typedef struct holder {
    uint64_t size_bytes;
    uint64_t begin_time;
    uint32_t buffer;
} holder_t;

static int compare_holders(const void *left, const void *right)
{
    const holder_t *a = left;
    const holder_t *b = right;
    if (a->size_bytes != b->size_bytes) {
        return a->size_bytes > b->size_bytes ? -1 : 1;
    }
    if (a->begin_time != b->begin_time) {
        return a->begin_time < b->begin_time ? -1 : 1;
    }
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

uint32_t *dao_report_view_holders(const dao_report_view_t *view, size_t *out_count)
{
    size_t count = 0;
    holder_t *holders = dao_host_calloc(view->lifetimes.buffer_count, sizeof(*holders));
    uint32_t *buffers = dao_host_calloc(view->lifetimes.buffer_count, sizeof(*buffers));
    if (holders == NULL || buffers == NULL) {
        dao_host_free(holders);
        dao_host_free(buffers);
        return NULL;
    }
    for (uint32_t i = 0; i < view->lifetimes.buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &view->lifetimes.buffers[i];
        if (is_at_peak(view, i)) {
            holders[count++] = (holder_t){buffer->size_bytes, buffer->begin_time, i};
        }
    }
    qsort(holders, count, sizeof(*holders), compare_holders);
    for (size_t i = 0; i < count; i++) {
        buffers[i] = holders[i].buffer;
    }
    dao_host_free(holders);
    *out_count = count;
    return buffers;
}

/* ---- groups ---- */

/* When the backward pass begins; UINT64_MAX: it is not known, or there is none. */
static uint64_t find_backward(const dao_report_view_t *view)
{
    const dao_plan_input_t *lifetimes = &view->lifetimes;
    uint32_t last_forward = 0;
    if (!view->has_step || dao_forward_end_find(&view->trace, &last_forward) != DAO_OK ||
        last_forward + 1 >= lifetimes->operator_count) {
        return UINT64_MAX;
    }
    return lifetimes->operator_times[last_forward + 1];
}

/* Returns true if a life begins and ends with the same operator. */
static bool is_workspace(const dao_plan_input_t *lifetimes, const dao_plan_buffer_t *buffer, uint32_t *at)
{
    while (*at + 1 < lifetimes->operator_count && lifetimes->operator_times[*at + 1] <= buffer->begin_time) {
        (*at)++;
    }
    return lifetimes->operator_count > 0 &&
           (*at + 1 == lifetimes->operator_count || buffer->end_time < lifetimes->operator_times[*at + 1]);
}

/* `at` is the operator of the begin, and only grows. */
static life_kind_t kind_of(const dao_report_view_t *view, const dao_plan_buffer_t *buffer, uint64_t backward,
                           uint32_t *at)
{
    const dao_plan_input_t *lifetimes = &view->lifetimes;
    bool has_window = lifetimes->window_end != 0;
    bool is_before = has_window && buffer->begin_time == 0;
    bool is_kept = has_window && buffer->end_time == lifetimes->window_end;
    if (is_before || is_kept) {
        return !is_before ? KIND_KEPT : is_kept ? KIND_THROUGHOUT : KIND_START;
    }
    if (is_workspace(lifetimes, buffer, at)) {
        return KIND_WORKSPACE;
    }
    return buffer->begin_time < backward && backward < buffer->end_time ? KIND_SAVED : KIND_PASSING;
}

/* Finds the group of a name, or makes it. */
static dao_status_t find_group(dao_report_groups_t *groups, dao_id_map_t *ids, const char *name,
                               uint32_t *out_group)
{
    uint64_t group = groups->count;
    bool is_known = false;
    dao_status_t status = dao_id_map_add(ids, name, strlen(name), group, &is_known, &group);
    if (status == DAO_OK && !is_known) {
        const char **names =
            dao_tool_grow((void *)groups->names, &groups->capacity, groups->count, sizeof(*names));
        if (names == NULL) {
            return DAO_ERR_NO_HOST_MEMORY;
        }
        groups->names = names;
        names[groups->count++] = name;
    }
    *out_group = (uint32_t)group;
    return status;
}

static const char *name_of(const dao_plan_input_t *lifetimes, uint32_t buffer, dao_report_grouping_t grouping)
{
    dao_plan_label_t label = dao_plan_input_label(lifetimes, buffer);
    bool is_before = lifetimes->window_end != 0 && lifetimes->buffers[buffer].begin_time == 0;
    switch (grouping) {
    case DAO_REPORT_GROUPING_TAG:
        return dao_plan_input_text(lifetimes, label.tag);
    case DAO_REPORT_GROUPING_MODULE:
        return dao_plan_input_text(lifetimes, label.module);
    default:
        return label.maker != 0 ? dao_plan_input_text(lifetimes, label.maker)
               : is_before      ? "before the file begins"
                                : "";
    }
}

/* Returns true if the file says something of a buffer. */
static bool is_told(const dao_plan_input_t *lifetimes, uint32_t buffer, dao_report_grouping_t grouping)
{
    dao_plan_label_t label = dao_plan_input_label(lifetimes, buffer);
    return grouping == DAO_REPORT_GROUPING_KIND ||
           (grouping == DAO_REPORT_GROUPING_TAG      ? label.tag
            : grouping == DAO_REPORT_GROUPING_MODULE ? label.module
                                                     : label.maker) != 0;
}

static dao_status_t sum_groups(const dao_report_view_t *view, dao_report_groups_t *groups)
{
    groups->peak_bytes = dao_host_calloc(groups->count, sizeof(*groups->peak_bytes));
    if (groups->peak_bytes == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    for (size_t i = 0; i < view->lifetimes.buffer_count; i++) {
        groups->peak_bytes[groups->of[i]] += is_at_peak(view, i) ? view->lifetimes.buffers[i].size_bytes : 0;
    }
    return DAO_OK;
}

static dao_status_t make_groups(dao_report_view_t *view, dao_report_grouping_t grouping)
{
    const dao_plan_input_t *lifetimes = &view->lifetimes;
    dao_report_groups_t *groups = &view->groups[grouping];
    uint64_t backward = find_backward(view);
    uint32_t at = 0;
    dao_id_map_t ids;
    groups->of = dao_host_calloc(lifetimes->buffer_count, sizeof(*groups->of));
    dao_status_t status = groups->of != NULL ? DAO_OK : DAO_ERR_NO_HOST_MEMORY;
    dao_id_map_init(&ids);
    for (size_t i = 0; i < lifetimes->buffer_count && status == DAO_OK; i++) {
        uint32_t buffer = view->order[i];
        const char *name = grouping == DAO_REPORT_GROUPING_KIND
                               ? kind_names[kind_of(view, &lifetimes->buffers[buffer], backward, &at)]
                               : name_of(lifetimes, buffer, grouping);
        groups->is_told = groups->is_told || is_told(lifetimes, buffer, grouping);
        status = find_group(groups, &ids, name, &groups->of[buffer]);
    }
    dao_id_map_finish(&ids);
    return status == DAO_OK ? sum_groups(view, groups) : status;
}

/* ---- all of it ---- */

static bool is_valid(const dao_report_view_t *view)
{
    bool is_right = view->peak_bytes <= view->planned_bytes;
    for (size_t k = 0; k < DAO_REPORT_GROUPING_COUNT; k++) {
        uint64_t sum_bytes = 0;
        for (size_t i = 0; i < view->groups[k].count; i++) {
            sum_bytes += view->groups[k].peak_bytes[i];
        }
        is_right = is_right && sum_bytes == view->peak_bytes;
    }
    return is_right;
}

dao_status_t dao_report_view_make(const char *path, const dao_read_choice_t *choice,
                                  dao_report_view_t *out_view)
{
    *out_view = (dao_report_view_t){.path = path};
    dao_step_trace_init(&out_view->trace);
    dao_plan_input_init(&out_view->lifetimes);
    dao_status_t status = read_file(choice, out_view);
    if (status == DAO_OK && out_view->lifetimes.clock_count > 0) {
        return dao_error(DAO_ERR_UNSUPPORTED, "%.200s: lives by several clocks have no picture", path);
    }
    status = status == DAO_OK ? place(out_view) : status;
    status = status == DAO_OK ? find_peak(out_view) : status;
    if (status != DAO_OK) {
        return status;
    }
    find_peak_operator(out_view);
    for (unsigned i = 0; i < DAO_REPORT_GROUPING_COUNT && status == DAO_OK; i++) {
        status = make_groups(out_view, (dao_report_grouping_t)i);
    }
    DAO_ASSERT(status != DAO_OK || is_valid(out_view));
    return status == DAO_ERR_NO_HOST_MEMORY ? dao_error(status, "no memory for a report of %.200s", path)
                                            : status;
}

void dao_report_view_finish(dao_report_view_t *view)
{
    for (size_t i = 0; i < DAO_REPORT_GROUPING_COUNT; i++) {
        dao_host_free(view->groups[i].of);
        dao_host_free((void *)view->groups[i].names);
        dao_host_free(view->groups[i].peak_bytes);
    }
    dao_host_free(view->order);
    dao_plan_release(view->plan);
    dao_plan_input_finish(&view->lifetimes);
    dao_step_trace_finish(&view->trace);
    *view = (dao_report_view_t){.path = NULL};
}
