/* SPDX-License-Identifier: Apache-2.0 */
/* Slices of one thread must not overlap: a span that begins before the one before it on its thread has ended
   goes to the next thread of its lane, "file 2". The last one takes all that is left. */
#include "tools/write/write_run_trace.h"

#include "base/numbers/math.h"
#include "base/report/error.h"
#include "tools/base/grow.h"
#include "tools/write/out_file.h"
#include "tools/write/put_text.h"

#include <inttypes.h>
#include <stdlib.h>

enum { THREAD_COUNT = 8 }; /* of a lane */

void dao_run_spans_add(dao_run_spans_t *spans, const dao_run_span_t *span)
{
    dao_run_span_t *grown = dao_tool_grow(spans->spans, &spans->capacity, spans->count, sizeof(*grown));
    if (grown == NULL) {
        spans->has_failed = true;
        return;
    }
    spans->spans = grown;
    grown[spans->count++] = *span;
}

void dao_run_spans_finish(dao_run_spans_t *spans)
{
    dao_host_free(spans->spans);
    *spans = (dao_run_spans_t){0};
}

static int compare_spans(const void *left, const void *right)
{
    const dao_run_span_t *a = left;
    const dao_run_span_t *b = right;
    if (a->begin_ns != b->begin_ns) {
        return a->begin_ns < b->begin_ns ? -1 : 1;
    }
    return a->end_ns < b->end_ns ? -1 : a->end_ns > b->end_ns;
}

static const char *const lane_names[] = {
#define LANE_NAME(symbol, name) name,
    DAO_RUN_LANE_LIST(LANE_NAME)
#undef LANE_NAME
};

static void put_thread_name(FILE *file, dao_run_lane_t lane, size_t thread)
{
    unsigned tid = (unsigned)lane * THREAD_COUNT + (unsigned)thread;
    (void)fprintf(
        file,
        ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%u,\"ts\":0,\"name\":\"thread_name\",\"args\":{\"name\":\"%s",
        tid, lane_names[lane]);
    if (thread > 0) {
        (void)fprintf(file, " %zu", thread + 1);
    }
    (void)fprintf(file,
                  "\"}},\n{\"ph\":\"M\",\"pid\":1,\"tid\":%u,\"ts\":0,\"name\":\"thread_sort_index\","
                  "\"args\":{\"sort_index\":%u}}",
                  tid, tid);
}

static void put_span(FILE *file, const dao_step_trace_t *trace, const dao_run_span_t *span, size_t thread,
                     uint64_t origin_ns)
{
    uint64_t begin_ns = span->begin_ns - origin_ns;
    bool is_kernel = span->lane == DAO_RUN_LANE_COMPUTE;
    (void)fputs(",\n{\"ph\":\"X\",\"pid\":1,\"name\":", file);
    dao_put_json(file, is_kernel ? dao_trace_operator_name(trace, span->kernel) : lane_names[span->lane]);
    (void)fprintf(file, ",\"tid\":%zu,\"ts\":%" PRIu64 ".%03u", (size_t)span->lane * THREAD_COUNT + thread,
                  begin_ns / 1000, (unsigned)(begin_ns % 1000));
    dao_put_duration(file, begin_ns, span->end_ns - origin_ns);
    (void)fprintf(file, ",\"cat\":\"%s\",\"args\":{", is_kernel ? "kernel" : "copy");
    if (is_kernel) {
        (void)fprintf(file, "\"index\":%" PRIu32, span->kernel);
    } else {
        (void)fprintf(file, "\"bytes\":%" PRIu64, span->size_bytes);
    }
    if (is_kernel && trace->operators[span->kernel].module_offset != DAO_TRACE_NO_NAME) {
        (void)fputs(",\"module\":", file);
        dao_put_json(file, dao_trace_name(trace, trace->operators[span->kernel].module_offset));
    }
    (void)fputs("}}", file);
}

/* Finds the first thread of a lane that is free, or the last. */
static size_t find_thread(const uint64_t ends_ns[THREAD_COUNT], uint64_t begin_ns)
{
    size_t thread = 0;
    while (thread + 1 < THREAD_COUNT && ends_ns[thread] > begin_ns) {
        thread++;
    }
    return thread;
}

static void put_spans(FILE *file, const dao_step_trace_t *trace, const dao_run_spans_t *spans,
                      uint64_t origin_ns, uint64_t end_ns)
{
    uint64_t ends_ns[DAO_RUN_LANE_COUNT][THREAD_COUNT] = {{0}};
    for (size_t i = 0; i < spans->count; i++) {
        dao_run_span_t span = spans->spans[i];
        if (span.end_ns <= origin_ns || span.begin_ns >= end_ns) {
            continue;
        }
        span.begin_ns = dao_larger(span.begin_ns, origin_ns);
        size_t thread = find_thread(ends_ns[span.lane], span.begin_ns);
        if (ends_ns[span.lane][thread] == 0) {
            put_thread_name(file, span.lane, thread);
        }
        span.begin_ns = dao_larger(span.begin_ns, ends_ns[span.lane][thread]);
        span.end_ns = dao_larger(span.begin_ns, span.end_ns);
        ends_ns[span.lane][thread] = span.end_ns;
        put_span(file, trace, &span, thread, origin_ns);
    }
}

static void find_range(const dao_run_spans_t *spans, uint64_t *out_begin_ns, uint64_t *out_end_ns)
{
    *out_begin_ns = UINT64_MAX;
    *out_end_ns = 0;
    for (size_t i = 0; i < spans->count; i++) {
        if (spans->spans[i].lane == DAO_RUN_LANE_COMPUTE) {
            *out_begin_ns =
                spans->spans[i].begin_ns < *out_begin_ns ? spans->spans[i].begin_ns : *out_begin_ns;
            *out_end_ns = dao_larger(*out_end_ns, spans->spans[i].end_ns);
        }
    }
}

dao_status_t dao_write_run_trace(const char *path, const char *title, const dao_step_trace_t *trace,
                                 dao_run_spans_t *spans)
{
    uint64_t begin_ns, end_ns;
    if (spans->has_failed) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the times of kernels and copies");
    }
    FILE *file = dao_out_file_open(path);
    if (file == NULL) {
        return DAO_ERR_IO;
    }
    qsort(spans->spans, spans->count, sizeof(*spans->spans), compare_spans);
    find_range(spans, &begin_ns, &end_ns);
    (void)fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"ts\":0,"
                "\"name\":\"process_name\",\"args\":{\"name\":",
                file);
    dao_put_json(file, title);
    (void)fputs("}}", file);
    put_spans(file, trace, spans, begin_ns, end_ns);
    (void)fputs("\n]}\n", file);
    return dao_out_file_close(file, path, DAO_OK);
}
