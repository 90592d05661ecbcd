/* Two passes: the lines become records, then the records become a trace, because only the last line tells which tensors
   were alive before the first one. Ids are keys of a map to tensors; each tensor is allocated at most once.

       first seen by    alive before    then
       alloc            no              live from there to its free, if there is one
       free             yes             live to there
       neither          yes             known from the JSON files; live to the end                                  */
#include "tools/read_events.h"

#include "tools/grow.h"
#include "tools/json_source.h"
#include "tools/read_json_step.h"
#include "tools/trace_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES_MAX = 256, COLUMN_COUNT = 5, SLOT_NONE = UINT32_MAX };

typedef struct tensor {
    uint64_t size_bytes;
    bool is_before; /* alive before the first line */
    bool is_live;   /* while the lines are read */
    uint32_t slot;
} tensor_t;

typedef struct record {
    uint32_t tensor;
    bool is_alloc;
} record_t;

typedef struct reader {
    dao_json_source_t source;
    uint64_t line; /* the one that is looked at */
    char text[LINE_BYTES_MAX + 1];
    char *columns[COLUMN_COUNT];
    dao_id_map_t ids;
    tensor_t *tensors;
    size_t tensor_count, tensor_capacity;
    record_t *records;
    size_t record_count, record_capacity;
} reader_t;

/* ---- lines ---- */

static dao_status_t wrong(const reader_t *reader, const char *what)
{
    return dao_error(DAO_ERR_PARSE, "%s:%" PRIu64 ": %s", dao_json_source_name(&reader->source), reader->line,
                     what);
}

/* Reads a line without its end. False in *out_more: the file has ended. */
static dao_status_t read_line(reader_t *reader, bool *out_more)
{
    size_t length = 0;
    int byte = 0;
    reader->line = reader->source.line;
    for (;;) {
        dao_status_t status = dao_json_source_peek(&reader->source, &byte);
        if (status != DAO_OK) {
            return status;
        }
        if (byte != DAO_JSON_SOURCE_END) {
            dao_json_source_take(&reader->source);
        }
        if (byte == DAO_JSON_SOURCE_END || byte == '\n') {
            break;
        }
        if (length == LINE_BYTES_MAX) {
            return wrong(reader, "the line is too long");
        }
        reader->text[length++] = (char)byte;
    }
    if (length > 0 && reader->text[length - 1] == '\r') {
        length--;
    }
    reader->text[length] = '\0';
    *out_more = byte != DAO_JSON_SOURCE_END || length > 0;
    return strlen(reader->text) == length ? DAO_OK : wrong(reader, "a byte of the line is zero");
}

static dao_status_t split(reader_t *reader)
{
    char *rest = reader->text;
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        reader->columns[i] = rest;
        char *comma = strchr(rest, ',');
        if ((comma == NULL) != (i + 1 == COLUMN_COUNT)) {
            return wrong(reader, "there have to be five columns: time_ns,event,id,bytes,op");
        }
        if (comma != NULL) {
            *comma = '\0';
            rest = comma + 1;
        }
    }
    return DAO_OK;
}

static dao_status_t parse_bytes(const reader_t *reader, const char *text, uint64_t *out_bytes)
{
    uint64_t bytes = 0;
    for (const char *at = text; *at != '\0'; at++) {
        uint64_t digit = (uint64_t)(unsigned char)*at - '0';
        if (digit > 9) {
            return wrong(reader, "bytes is no number");
        }
        if (bytes > (UINT64_MAX - digit) / 10) {
            return wrong(reader, "bytes does not fit 64 bits");
        }
        bytes = bytes * 10 + digit;
    }
    *out_bytes = bytes;
    return *text != '\0' ? DAO_OK : wrong(reader, "bytes is no number");
}

/* ---- tensors and records ---- */

/* Finds a tensor or adds it. */
static dao_status_t find_tensor(reader_t *reader, const char *id, uint64_t size_bytes, uint32_t *out_tensor,
                                bool *out_found)
{
    tensor_t *grown = dao_tool_grow(reader->tensors, &reader->tensor_capacity, reader->tensor_count,
                                    sizeof(*reader->tensors));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    reader->tensors = grown;
    uint64_t index = reader->tensor_count;
    dao_status_t status = dao_id_map_add(&reader->ids, id, strlen(id), index, out_found, &index);
    if (status != DAO_OK) {
        return status;
    }
    if (!*out_found) {
        reader->tensors[reader->tensor_count++] = (tensor_t){.size_bytes = size_bytes, .slot = SLOT_NONE};
    }
    *out_tensor = (uint32_t)index;
    return DAO_OK;
}

static dao_status_t add_record(reader_t *reader, uint32_t tensor, bool is_alloc)
{
    record_t *grown = dao_tool_grow(reader->records, &reader->record_capacity, reader->record_count,
                                    sizeof(*reader->records));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    reader->records = grown;
    reader->records[reader->record_count++] = (record_t){.tensor = tensor, .is_alloc = is_alloc};
    return DAO_OK;
}

static dao_status_t take_event(reader_t *reader, bool is_alloc)
{
    uint64_t size_bytes = 0;
    uint32_t index = 0;
    bool is_known = false;
    dao_status_t status = parse_bytes(reader, reader->columns[3], &size_bytes);
    if (status == DAO_OK) {
        status = find_tensor(reader, reader->columns[2], size_bytes, &index, &is_known);
    }
    if (status != DAO_OK) {
        return status;
    }
    tensor_t *tensor = &reader->tensors[index];
    if (is_alloc && is_known) {
        return wrong(reader, "this id was allocated before");
    }
    if (!is_alloc && is_known && !tensor->is_live) {
        return wrong(reader, "this id was freed before");
    }
    if (tensor->size_bytes != size_bytes) {
        return wrong(reader, "this id was allocated with other bytes");
    }
    tensor->is_before = !is_known && !is_alloc;
    tensor->is_live = is_alloc;
    return add_record(reader, index, is_alloc);
}

static dao_status_t take_line(reader_t *reader)
{
    dao_status_t status = split(reader);
    if (status != DAO_OK || strcmp(reader->columns[1], "step") == 0) {
        return status;
    }
    bool is_alloc = strcmp(reader->columns[1], "alloc") == 0;
    if (!is_alloc && strcmp(reader->columns[1], "free") != 0) {
        return wrong(reader, "the event is none of alloc, free and step");
    }
    return take_event(reader, is_alloc);
}

static dao_status_t read_lines(reader_t *reader)
{
    bool has_more = false;
    dao_status_t status = read_line(reader, &has_more);
    if (status == DAO_OK && strcmp(reader->text, "time_ns,event,id,bytes,op") != 0) {
        status = wrong(reader, "the first line is not time_ns,event,id,bytes,op");
    }
    while (status == DAO_OK) {
        status = read_line(reader, &has_more);
        if (status != DAO_OK || !has_more) {
            break;
        }
        status = take_line(reader);
    }
    return status;
}

/* Adds the tensors that were alive before and that no line names. */
static dao_status_t add_silent(reader_t *reader, const dao_step_trace_t *step)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < step->tensor_count && status == DAO_OK; i++) {
        uint32_t index = 0;
        bool is_known = false;
        if (step->tensors[i].producer == DAO_TRACE_NONE) {
            status = find_tensor(reader, dao_trace_tensor_id(step, i), step->tensors[i].size_bytes, &index,
                                 &is_known);
            if (status == DAO_OK && !is_known) {
                reader->tensors[index].is_before = true;
            }
        }
    }
    return status;
}

/* ---- the trace ---- */

/* Tensors without bytes take no memory. */
static dao_status_t build(reader_t *reader, dao_alloc_trace_t *trace)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < reader->tensor_count && status == DAO_OK; i++) {
        tensor_t *tensor = &reader->tensors[i];
        if (tensor->is_before && tensor->size_bytes > 0) {
            status = dao_alloc_trace_take(trace, tensor->size_bytes, &tensor->slot);
        }
    }
    dao_alloc_trace_steady(trace);
    for (size_t i = 0; i < reader->record_count && status == DAO_OK; i++) {
        tensor_t *tensor = &reader->tensors[reader->records[i].tensor];
        if (tensor->size_bytes > 0) {
            status = reader->records[i].is_alloc
                         ? dao_alloc_trace_take(trace, tensor->size_bytes, &tensor->slot)
                         : dao_alloc_trace_give(trace, tensor->slot);
        }
    }
    if (status == DAO_OK && trace->pair_count == 0) {
        status = dao_error(DAO_ERR_PARSE, "%s: nothing is freed", dao_json_source_name(&reader->source));
    }
    return status;
}

static dao_status_t events_path(const char *folder, const dao_step_trace_t *step,
                                char out_path[DAO_TRACE_PATH_BYTES])
{
    int length =
        snprintf(out_path, DAO_TRACE_PATH_BYTES, "%s/%s.%s.events.csv", folder, step->model, step->batch);
    return length > 0 && length < DAO_TRACE_PATH_BYTES
               ? DAO_OK
               : dao_error(DAO_ERR_INVALID, "%.200s: the path is too long", folder);
}

static dao_status_t read_trace(const char *path, const dao_step_trace_t *step, dao_alloc_trace_t *trace)
{
    reader_t reader = {0};
    dao_status_t status = dao_json_source_open(&reader.source, path);
    if (status != DAO_OK) {
        return status;
    }
    dao_id_map_init(&reader.ids);
    status = read_lines(&reader);
    if (status == DAO_OK) {
        status = add_silent(&reader, step);
    }
    if (status == DAO_OK) {
        status = build(&reader, trace);
    }
    dao_id_map_finish(&reader.ids);
    dao_host_free(reader.tensors);
    dao_host_free(reader.records);
    dao_json_source_close(&reader.source);
    return status;
}

dao_status_t dao_read_events(const char *folder, const char *name, dao_alloc_trace_t *out_trace)
{
    dao_step_trace_t step;
    char path[DAO_TRACE_PATH_BYTES];
    dao_status_t status = dao_read_json_step(folder, NULL, &step);
    if (status != DAO_OK) {
        return status;
    }
    dao_alloc_trace_t trace;
    dao_alloc_trace_init(&trace, name);
    status = events_path(folder, &step, path);
    if (status == DAO_OK) {
        status = read_trace(path, &step, &trace);
    }
    dao_step_trace_finish(&step);
    if (status != DAO_OK) {
        dao_alloc_trace_finish(&trace);
        return status;
    }
    *out_trace = trace;
    return DAO_OK;
}
