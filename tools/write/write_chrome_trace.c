/* SPDX-License-Identifier: Apache-2.0 */
/* An event a line; times in microseconds from the trace's begin. Threads of the one process:

       0        [memory] instants, as torch.profiler writes them
       1 + n    operators of stream n as slices; those of one stream follow each other
       (ids)    buffers, from allocation to free, of the category "tensor"
       counter  bytes alive

   Form: "Trace Event Format" of Chrome, and kineto's [memory] events. */
#include "tools/write/put_text.h"
#include "tools/write/writers.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "tools/base/grow.h"

#include <inttypes.h>

/* Addresses for readers of [memory] events. */
#define BASE_ADDRESS UINT64_C(0x7f0000000000)

#define FIRST_LANE 1u

typedef struct chrome_writer {
    FILE *file;
    const dao_history_t *history;
    uint64_t live_bytes;
    bool has_events;
} chrome_writer_t;

/* Begins an event, up to where its own fields stand. */
static void begin(chrome_writer_t *writer, const char *phase, const char *name, uint64_t time_ns)
{
    (void)fputs(writer->has_events ? ",\n{" : "\n{", writer->file);
    writer->has_events = true;
    (void)fprintf(writer->file, "\"ph\":\"%s\",\"pid\":1,\"name\":", phase);
    dao_put_json(writer->file, name);
    (void)fprintf(writer->file, ",\"ts\":%" PRIu64 ".%03u", time_ns / 1000, (unsigned)(time_ns % 1000));
}

static void put_thread_name(chrome_writer_t *writer, uint32_t thread, const char *name, uint32_t number)
{
    begin(writer, "M", "thread_name", 0);
    (void)fprintf(writer->file, ",\"tid\":%" PRIu32 ",\"args\":{\"name\":\"%s", thread, name);
    if (thread >= FIRST_LANE) {
        (void)fprintf(writer->file, " %" PRIu32, number);
    }
    (void)fputs("\"}}", writer->file);
}

/* ---- operators ---- */

/* The streams, in the order of their first operators, and where the last slice of each ends. */
typedef struct lanes {
    dao_id_map_t numbers; /* stream -> its lane */
    uint64_t *ends_ns;
    size_t count, capacity;
} lanes_t;

/* Finds the lane of a stream, or makes it and writes its name. */
static dao_status_t find_lane(chrome_writer_t *writer, lanes_t *lanes, uint32_t stream, size_t *out_lane)
{
    bool is_known = false;
    uint64_t lane = lanes->count;
    uint64_t *grown = dao_tool_grow(lanes->ends_ns, &lanes->capacity, lanes->count, sizeof(*grown));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    lanes->ends_ns = grown;
    dao_status_t status =
        dao_id_map_add(&lanes->numbers, (const char *)&stream, sizeof(stream), lane, &is_known, &lane);
    if (status == DAO_OK && !is_known) {
        lanes->ends_ns[lanes->count++] = 0;
        put_thread_name(writer, FIRST_LANE + (uint32_t)lane, "stream", stream);
    }
    *out_lane = (size_t)lane;
    return status;
}

static void put_operator(chrome_writer_t *writer, uint32_t index, uint64_t begin_ns, size_t lane)
{
    const dao_step_trace_t *trace = writer->history->trace;
    const dao_trace_operator_t *op = &trace->operators[index];
    begin(writer, "X", dao_trace_operator_name(trace, index), begin_ns);
    dao_put_duration(writer->file, begin_ns, begin_ns + op->cost_ns);
    (void)fprintf(writer->file, ",\"tid\":%zu,\"cat\":\"operator\",\"args\":{\"index\":%" PRIu32,
                  FIRST_LANE + lane, index);
    if (op->module_offset != DAO_TRACE_NO_NAME) {
        (void)fputs(",\"module\":", writer->file);
        dao_put_json(writer->file, dao_trace_name(trace, op->module_offset));
    }
    (void)fputs("}}", writer->file);
}

/* Slices of one thread must not overlap: where recorded times do, an operator is drawn behind the end of the
   one before on its stream. */
static dao_status_t put_lanes(chrome_writer_t *writer, lanes_t *lanes, const uint64_t *begins_ns)
{
    const dao_step_trace_t *trace = writer->history->trace;
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < trace->operator_count && status == DAO_OK; i++) {
        size_t lane = 0;
        status = find_lane(writer, lanes, trace->operators[i].stream, &lane);
        if (status == DAO_OK) {
            uint64_t begin_ns = dao_larger(begins_ns[i], lanes->ends_ns[lane]);
            put_operator(writer, i, begin_ns, lane);
            lanes->ends_ns[lane] = begin_ns + trace->operators[i].cost_ns;
        }
    }
    return status;
}

static dao_status_t put_operators(chrome_writer_t *writer)
{
    const dao_step_trace_t *trace = writer->history->trace;
    lanes_t lanes = {.count = 0};
    uint64_t *begins_ns = dao_host_calloc(trace->operator_count + 1, sizeof(*begins_ns));
    dao_status_t status =
        begins_ns != NULL ? DAO_OK : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to write a trace");
    dao_id_map_init(&lanes.numbers);
    if (status == DAO_OK) {
        dao_history_operator_begins(trace, begins_ns);
        status = put_lanes(writer, &lanes, begins_ns);
    }
    dao_id_map_finish(&lanes.numbers);
    dao_host_free(lanes.ends_ns);
    dao_host_free(begins_ns);
    return status;
}

/* ---- memory ---- */

static void put_number_or_id(chrome_writer_t *writer, const char *phase, uint32_t number, uint64_t time_ns)
{
    const dao_history_buffer_t *buffer = &writer->history->buffers[number];
    char text[DAO_PLAN_INPUT_NUMBER_BYTES];
    (void)snprintf(text, sizeof(text), "%" PRIu32, number);
    begin(writer, phase, buffer->id != NULL ? buffer->id : text, time_ns);
    (void)fprintf(writer->file,
                  ",\"cat\":\"tensor\",\"tid\":0,\"id\":\"0x%" PRIx32 "\",\"args\":{\"bytes\":%" PRIu64,
                  number, buffer->size_bytes);
    if (*buffer->tag != '\0') {
        (void)fputs(",\"category\":", writer->file);
        dao_put_json(writer->file, buffer->tag);
    }
    (void)fputs("}}", writer->file);
}

/* A change of what is alive, for viewers and for readers of torch.profiler's traces. */
static void put_change(chrome_writer_t *writer, uint32_t number, uint64_t time_ns, bool is_alloc)
{
    const dao_history_buffer_t *buffer = &writer->history->buffers[number];
    writer->live_bytes += is_alloc ? buffer->size_bytes : -buffer->size_bytes;
    put_number_or_id(writer, is_alloc ? "b" : "e", number, time_ns);
    begin(writer, "i", "[memory]", time_ns);
    (void)fprintf(writer->file,
                  ",\"s\":\"t\",\"tid\":0,\"args\":{\"Device Type\":1,\"Device Id\":0,\"Bytes\":%s%" PRIu64
                  ",\"Addr\":%" PRIu64 ",\"Total Allocated\":%" PRIu64 "}}",
                  is_alloc ? "" : "-", buffer->size_bytes, BASE_ADDRESS + buffer->offset_bytes,
                  writer->live_bytes);
}

static void put_counter(chrome_writer_t *writer, uint64_t time_ns)
{
    begin(writer, "C", "memory", time_ns);
    (void)fprintf(writer->file, ",\"tid\":0,\"args\":{\"used\":%" PRIu64 "}}", writer->live_bytes);
}

static void put_memory(chrome_writer_t *writer)
{
    const dao_history_t *history = writer->history;
    for (uint32_t i = 0; i < history->buffer_count; i++) {
        if (history->buffers[i].is_before) {
            put_change(writer, i, 0, true);
        }
    }
    if (history->event_count == 0 || history->events[0].time_ns > 0) {
        put_counter(writer, 0);
    }
    for (size_t i = 0; i < history->event_count; i++) {
        const dao_history_event_t *event = &history->events[i];
        put_change(writer, event->buffer, event->time_ns, event->is_alloc);
        if (i + 1 == history->event_count || history->events[i + 1].time_ns != event->time_ns) {
            put_counter(writer, event->time_ns);
        }
    }
    for (uint32_t i = 0; i < history->buffer_count; i++) {
        if (history->buffers[i].is_kept) { /* drawn to the end; nothing is freed there */
            put_number_or_id(writer, "e", i, history->end_ns);
        }
    }
}

dao_status_t dao_write_chrome_trace(FILE *file, const dao_history_t *history)
{
    chrome_writer_t writer = {.file = file, .history = history};
    dao_status_t status = DAO_OK;
    (void)fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"writer\":\"dao convert\"},\"traceEvents\":[",
                file);
    begin(&writer, "M", "process_name", 0);
    (void)fputs(",\"tid\":0,\"args\":{\"name\":", file);
    dao_put_json(file, history->trace != NULL ? history->trace->model : "memory");
    (void)fputs("}}", file);
    put_thread_name(&writer, 0, "memory", 0);
    if (history->trace != NULL) {
        status = put_operators(&writer);
    }
    put_memory(&writer);
    (void)fputs("\n]}\n", file);
    return status;
}
