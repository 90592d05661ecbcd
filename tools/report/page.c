/* SPDX-License-Identifier: Apache-2.0 */
/* What stands between the parts of page/page.html, for each file:

       <script type="text/plain" class="head">      JSON: figures, names of groups, buffers and operators
       <script type="text/plain" class="columns">   numbers, one column behind the other:

       of buffers, by their begins    begin - the one before, end - begin, size; what it lies on, offsets by
                                      their unit (page_offsets.h); number - the one before with its sign; 1 if
                                      the head has its name, else 0; its group in each grouping that the head
                                      names
       of operators                   first time - that of the one before; the same of the begin, and the
                                      duration, in ns
       of a simulated step            of kernels begin - end before, duration; of copies in, out, file: count,
                                      begin - begin before with its sign, duration, bytes; of kernels the time
                                      of their stall in which copies in, only out, only the file ran

   page/decode.js reads it. */
#include "tools/report/page.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "tools/model/history.h"
#include "tools/report/page_bytes.h"
#include "tools/report/page_offsets.h"
#include "tools/report/page_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 24 };

/* What keeps a page small. */
typedef struct scale {
    uint64_t unit;        /* of offsets: a divisor of all */
    uint64_t named_bytes; /* larger buffers have names */
} scale_t;

/* ---- the head ---- */

static void put_count(dao_page_bytes_t *page, const char *key, uint64_t count)
{
    char number[NUMBER_BYTES];
    (void)snprintf(number, sizeof(number), "%" PRIu64, count);
    dao_page_put_json(page, key);
    dao_page_put_text(page, ":");
    dao_page_put_text(page, number);
    dao_page_put_text(page, ",");
}

static void put_groupings(dao_page_bytes_t *page, const dao_report_view_t *view)
{
    static const char *const abouts[] = {
#define GROUPING_ABOUT(symbol, name, about) about,
        DAO_REPORT_GROUPING_LIST(GROUPING_ABOUT)
#undef GROUPING_ABOUT
    };
    const char *between = "";
    dao_page_put_text(page, "\"groupings\":[");
    for (unsigned i = 0; i < DAO_REPORT_GROUPING_COUNT; i++) {
        const dao_report_groups_t *groups = &view->groups[i];
        if (!groups->is_told) {
            continue;
        }
        dao_page_put_text(page, between);
        dao_page_put_text(page, "{\"by\":");
        dao_page_put_json(page, dao_report_grouping_name((dao_report_grouping_t)i));
        dao_page_put_text(page, ",\"about\":");
        dao_page_put_json(page, abouts[i]);
        dao_page_put_text(page, ",\"names\":[");
        for (size_t k = 0; k < groups->count; k++) {
            dao_page_put_text(page, k > 0 ? "," : "");
            dao_page_put_json(page, groups->names[k]);
        }
        dao_page_put_text(page, "]}");
        between = ",";
    }
    dao_page_put_text(page, "],");
}

static int compare_sizes(const void *left, const void *right)
{
    const uint64_t *a = left;
    const uint64_t *b = right;
    return *a > *b ? -1 : *a < *b;
}

/* Finds a size so that few enough buffers are larger. */
static dao_status_t find_named_size(const dao_plan_input_t *lifetimes, uint64_t *out_size_bytes)
{
    *out_size_bytes = 0;
    if (lifetimes->buffer_count <= DAO_REPORT_NAME_COUNT_MAX) {
        return DAO_OK;
    }
    uint64_t *sizes = dao_host_calloc(lifetimes->buffer_count, sizeof(*sizes));
    if (sizes == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    for (size_t i = 0; i < lifetimes->buffer_count; i++) {
        sizes[i] = lifetimes->buffers[i].size_bytes;
    }
    qsort(sizes, lifetimes->buffer_count, sizeof(*sizes), compare_sizes);
    *out_size_bytes = sizes[DAO_REPORT_NAME_COUNT_MAX];
    dao_host_free(sizes);
    return DAO_OK;
}

static bool is_named(const dao_plan_input_t *lifetimes, uint32_t buffer, uint64_t named_bytes)
{
    return lifetimes->id_offsets != NULL && lifetimes->buffers[buffer].size_bytes > named_bytes;
}

/* The names of those buffers that have one in the page, by their begins. */
static void put_names(dao_page_bytes_t *page, const dao_report_view_t *view, uint64_t named_bytes)
{
    const dao_plan_input_t *lifetimes = &view->lifetimes;
    const char *between = "";
    dao_page_put_text(page, "\"names\":[");
    for (size_t i = 0; i < lifetimes->buffer_count; i++) {
        if (is_named(lifetimes, view->order[i], named_bytes)) {
            dao_page_put_text(page, between);
            dao_page_put_json(page, lifetimes->ids + lifetimes->id_offsets[view->order[i]]);
            between = ",";
        }
    }
    dao_page_put_text(page, "],");
}

static void put_numbers(dao_page_bytes_t *page, const dao_report_view_t *view, uint64_t named_bytes)
{
    int64_t before = 0;
    for (size_t i = 0; i < view->lifetimes.buffer_count; i++) {
        uint32_t buffer = view->order[i];
        int64_t apart = (int64_t)buffer - before;
        dao_page_put_signed(page, apart);
        dao_page_put_number(page, is_named(&view->lifetimes, buffer, named_bytes) ? 1 : 0);
        before = (int64_t)buffer;
    }
}

static void put_head(dao_page_bytes_t *page, const dao_report_part_t *part, const scale_t *scale)
{
    const dao_report_view_t *view = part->view;
    dao_page_put_text(page, "{");
    put_count(page, "count", view->lifetimes.buffer_count);
    put_count(page, "unit", scale->unit);
    put_count(page, "operator_count", view->has_step ? view->lifetimes.operator_count : 0);
    put_count(page, "has_times", view->has_times ? 1 : 0);
    put_count(page, "kernel_count",
              part->swap != NULL && part->swap->has_run ? part->swap->step.problem.kernel_count : 0);
    put_groupings(page, view);
    put_names(page, view, scale->named_bytes);
    dao_page_put_text(page, "\"operators\":[");
    for (uint32_t i = 0; view->has_step && i < view->trace.operator_count; i++) {
        dao_page_put_text(page, i > 0 ? "," : "");
        dao_page_put_json(page, dao_trace_operator_name(&view->trace, i));
    }
    dao_page_put_text(page, "],\"modules\":[");
    for (uint32_t i = 0; view->has_step && i < view->trace.operator_count; i++) {
        dao_page_put_text(page, i > 0 ? "," : "");
        dao_page_put_json(page, dao_trace_name(&view->trace, view->trace.operators[i].module_offset));
    }
    dao_page_put_text(page, "],\"figures\":");
    dao_page_put_text(page, part->figures);
    dao_page_put_text(page, "}");
}

/* ---- columns ---- */

static void put_buffers(dao_page_bytes_t *page, const dao_report_view_t *view, const scale_t *scale)
{
    const dao_plan_buffer_t *buffers = view->lifetimes.buffers;
    const uint32_t *order = view->order;
    size_t count = view->lifetimes.buffer_count;
    uint64_t *numbers = dao_host_calloc(count, sizeof(*numbers));
    if (numbers == NULL) {
        page->has_failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        numbers[i] =
            buffers[order[i]].begin_time - (i > 0 ? buffers[order[i - 1]].begin_time : view->first_time);
    }
    dao_page_put_column(page, numbers, count);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = buffers[order[i]].end_time - buffers[order[i]].begin_time;
    }
    dao_page_put_column(page, numbers, count);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = buffers[order[i]].size_bytes;
    }
    dao_page_put_column(page, numbers, count);
    dao_page_put_offsets(page, view, scale->unit);
    put_numbers(page, view, scale->named_bytes);
    for (size_t k = 0; k < DAO_REPORT_GROUPING_COUNT; k++) {
        for (size_t i = 0; i < count && view->groups[k].is_told; i++) {
            numbers[i] = view->groups[k].of[order[i]];
        }
        if (view->groups[k].is_told) {
            dao_page_put_column(page, numbers, count);
        }
    }
    dao_host_free(numbers);
}

/* Recorded begins of several streams may go back: the page has them in order. */
static dao_status_t put_operators(dao_page_bytes_t *page, const dao_report_view_t *view)
{
    const dao_plan_input_t *lifetimes = &view->lifetimes;
    const dao_step_trace_t *trace = &view->trace;
    uint64_t before = view->first_time, now_ns = 0;
    uint64_t *begins_ns = dao_host_calloc(trace->operator_count + 1, sizeof(*begins_ns));
    if (begins_ns == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_history_operator_begins(trace, begins_ns);
    for (size_t i = 0; i < trace->operator_count; i++) {
        uint64_t time = dao_larger(lifetimes->operator_times[i], before);
        uint64_t begin_ns = dao_larger(begins_ns[i], now_ns);
        dao_page_put_number(page, time - before);
        dao_page_put_number(page, begin_ns - now_ns);
        dao_page_put_number(page, trace->operators[i].cost_ns);
        before = time;
        now_ns = begin_ns;
    }
    dao_host_free(begins_ns);
    return DAO_OK;
}

/* Copies of a kind that the step's time has a part of. */
static void put_copies(dao_page_bytes_t *page, const dao_simulation_t *simulation, dao_sim_span_kind_t kind,
                       uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t before_ns = begin_ns, count = 0;
    for (int is_put = 0; is_put < 2; is_put++) {
        for (size_t i = 0; i < simulation->copy_count; i++) {
            const dao_sim_span_t *copy = &simulation->copies[i];
            if (copy->kind != kind || copy->end_ns <= begin_ns || copy->begin_ns >= end_ns) {
                continue;
            }
            count += is_put == 0 ? 1 : 0;
            if (is_put == 1) {
                dao_page_put_signed(page, (int64_t)(copy->begin_ns - before_ns));
                dao_page_put_number(page, copy->end_ns - copy->begin_ns);
                dao_page_put_number(page, copy->size_bytes);
                before_ns = copy->begin_ns;
            }
        }
        if (is_put == 0) {
            dao_page_put_number(page, count);
        }
    }
}

static void put_run(dao_page_bytes_t *page, const dao_report_swap_t *swap)
{
    static const dao_sim_span_kind_t kinds[] = {DAO_SIM_SPAN_IN, DAO_SIM_SPAN_OUT, DAO_SIM_SPAN_DELAY};
    const dao_simulation_t *simulation = &swap->run.simulation;
    uint32_t kernel_count = swap->step.problem.kernel_count;
    const dao_sim_span_t *kernels = simulation->kernels + (size_t)swap->first_step * kernel_count;
    uint64_t begin_ns = swap->first_step > 0 ? kernels[-1].end_ns : 0;
    uint64_t end_ns = kernels[kernel_count - 1].end_ns;
    for (uint32_t i = 0; i < kernel_count; i++) {
        const dao_stall_t *stall = &swap->stalls[i];
        dao_page_put_number(page, stall->total_ns);
        dao_page_put_number(page, stall->in_ns);
        dao_page_put_number(page, stall->out_ns);
        dao_page_put_number(page, stall->file_ns);
        dao_page_put_number(page, kernels[i].end_ns - kernels[i].begin_ns);
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        put_copies(page, simulation, kinds[i], begin_ns, end_ns);
    }
}

/* ---- the page ---- */

static dao_status_t put_columns(dao_page_bytes_t *page, const dao_report_part_t *part, const scale_t *scale)
{
    put_buffers(page, part->view, scale);
    dao_status_t status = part->view->has_step ? put_operators(page, part->view) : DAO_OK;
    if (part->swap != NULL && part->swap->has_run) {
        put_run(page, part->swap);
    }
    return status;
}

static dao_status_t write_blob(FILE *file, const char *name, const dao_page_bytes_t *page)
{
    (void)fprintf(file, "<script type=\"text/plain\" class=\"%s\">", name);
    dao_status_t status = dao_page_bytes_write(file, page);
    (void)fputs("</script>\n", file);
    return status;
}

static dao_status_t write_part(FILE *file, const dao_report_part_t *part)
{
    dao_page_bytes_t head = {0}, columns = {0};
    scale_t scale = {.unit = dao_page_offset_unit(part->view)};
    dao_status_t status = find_named_size(&part->view->lifetimes, &scale.named_bytes);
    if (status == DAO_OK) {
        put_head(&head, part, &scale);
        status = put_columns(&columns, part, &scale);
    }
    status = status == DAO_OK ? write_blob(file, "head", &head) : status;
    status = status == DAO_OK ? write_blob(file, "columns", &columns) : status;
    dao_page_bytes_finish(&head);
    dao_page_bytes_finish(&columns);
    return status;
}

dao_status_t dao_report_page_write(FILE *file, const dao_report_part_t *parts, size_t count)
{
    dao_status_t status = DAO_OK;
    (void)fwrite(dao_report_page_begin, 1, dao_report_page_begin_bytes, file);
    for (size_t i = 0; i < count && status == DAO_OK; i++) {
        status = write_part(file, &parts[i]);
    }
    (void)fwrite(dao_report_page_end, 1, dao_report_page_end_bytes, file);
    return status == DAO_ERR_NO_HOST_MEMORY ? dao_error(status, "no memory to write a page") : status;
}
