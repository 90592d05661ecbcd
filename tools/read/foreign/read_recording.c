/* SPDX-License-Identifier: Apache-2.0 */
/* What libdao writes with DAO_RECORD=FILE: the events of all places of a process, as
   runtime/recording/recording.c has them. Threads write when they get to it, so lines are kept and sorted by
   time. A process that was killed, or whose disk was full, may leave a part of a line at the end, which is
   left out. */
#include "tools/read/foreign/foreign.h"

#include "tools/base/grow.h"
#include "tools/read/text/csv_reader.h"

#include <stdlib.h>
#include <string.h>

enum {
    COLUMN_TIME,
    COLUMN_EVENT,
    COLUMN_PLACE,
    COLUMN_ADDRESS,
    COLUMN_BYTES,
    COLUMN_TAG,
    COLUMN_STREAM,
    COLUMN_COUNT
};

static const char *const columns[COLUMN_COUNT] = {"time_ns", "event", "place", "address",
                                                  "bytes",   "tag",   "stream"};

typedef enum line_kind {
    LINE_ALLOC,
    LINE_FREE,
    LINE_REFUSED,
    LINE_TRIM,
    LINE_STEP,
    LINE_KIND_COUNT
} line_kind_t;

static const char *const kinds[LINE_KIND_COUNT] = {"alloc", "free", "refused", "trim", "step"};

typedef struct line {
    uint64_t time_ns;
    uint64_t number; /* in the order of the file */
    uint64_t address, size_bytes;
    uint32_t space;
    uint32_t tag; /* in the texts of its device */
    line_kind_t kind;
} line_t;

typedef struct recording_reader {
    dao_csv_reader_t csv;
    line_t *lines;
    size_t count, capacity;
    dao_life_log_t *log;
} recording_reader_t;

static dao_status_t check_header(recording_reader_t *reader)
{
    bool has_more = false;
    dao_status_t status = dao_csv_next(&reader->csv, &has_more);
    bool is_right = status == DAO_OK && has_more && reader->csv.field_count == COLUMN_COUNT;
    for (size_t i = 0; i < COLUMN_COUNT && is_right; i++) {
        is_right = strcmp(reader->csv.fields[i], columns[i]) == 0;
    }
    return status != DAO_OK || is_right
               ? status
               : dao_csv_error(&reader->csv, 0, "the first line is not that of a recording");
}

/* A place is a device of the log, with one space: both have one number. */
static dao_status_t find_space(recording_reader_t *reader, const char *place, uint32_t *out_space)
{
    dao_status_t status = dao_life_log_device(reader->log, place, out_space);
    return status == DAO_OK && *out_space == reader->log->space_count
               ? dao_life_log_space(reader->log, *out_space, DAO_LIFE_KEYS_ADDRESSES, out_space)
               : status;
}

static dao_status_t read_kind(const dao_csv_reader_t *csv, line_kind_t *out_kind)
{
    for (size_t i = 0; i < LINE_KIND_COUNT; i++) {
        if (strcmp(csv->fields[COLUMN_EVENT], kinds[i]) == 0) {
            *out_kind = (line_kind_t)i;
            return DAO_OK;
        }
    }
    return dao_csv_error(csv, COLUMN_EVENT, "this is no event that is known");
}

static dao_status_t read_line(recording_reader_t *reader, line_t *out_line)
{
    const dao_csv_reader_t *csv = &reader->csv;
    dao_status_t status = dao_csv_u64(csv, COLUMN_TIME, "time_ns", &out_line->time_ns);
    if (status == DAO_OK) {
        status = read_kind(csv, &out_line->kind);
    }
    if (status == DAO_OK && !dao_foreign_address(csv->fields[COLUMN_ADDRESS], &out_line->address)) {
        status = dao_csv_error(csv, COLUMN_ADDRESS, "this is no address");
    }
    if (status == DAO_OK) {
        status = dao_csv_u64(csv, COLUMN_BYTES, "bytes", &out_line->size_bytes);
    }
    if (status == DAO_OK && csv->fields[COLUMN_PLACE][0] == '\0') {
        status = dao_csv_error(csv, COLUMN_PLACE, "the place is empty");
    }
    if (status == DAO_OK) {
        status = find_space(reader, csv->fields[COLUMN_PLACE], &out_line->space);
    }
    if (status == DAO_OK && reader->log->keeps_labels) {
        status = dao_event_file_find_text(dao_life_log_events(reader->log, out_line->space),
                                          csv->fields[COLUMN_TAG], &out_line->tag);
    }
    return status;
}

static dao_status_t keep_line(recording_reader_t *reader, const line_t *line)
{
    line_t *grown = dao_tool_grow(reader->lines, &reader->capacity, reader->count, sizeof(*reader->lines));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    reader->lines = grown;
    grown[reader->count] = *line;
    grown[reader->count].number = reader->count;
    reader->count++;
    return DAO_OK;
}

/* Reads all lines; a short one is wrong unless it is the last. */
static dao_status_t read_lines(recording_reader_t *reader)
{
    bool has_more = true;
    dao_status_t status = dao_csv_next(&reader->csv, &has_more);
    while (status == DAO_OK && has_more) {
        line_t line = {0};
        bool is_whole = reader->csv.field_count == COLUMN_COUNT;
        if (is_whole) {
            status = read_line(reader, &line);
        }
        if (status == DAO_OK && is_whole) {
            status = keep_line(reader, &line);
        }
        if (status == DAO_OK) {
            status = dao_csv_next(&reader->csv, &has_more);
        }
        if (status == DAO_OK && !is_whole && has_more) {
            status = dao_csv_error(&reader->csv, 0, "the line before this one has not %d fields",
                                   (int)COLUMN_COUNT);
        }
    }
    return status;
}

static int by_time(const void *left, const void *right)
{
    const line_t *a = left;
    const line_t *b = right;
    if (a->time_ns != b->time_ns) {
        return a->time_ns < b->time_ns ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

static dao_status_t take_line(dao_life_log_t *log, const line_t *line)
{
    dao_life_counts_t *counts = dao_life_log_counts(log, line->space);
    dao_event_label_t label = {.tag = line->tag};
    dao_status_t status = DAO_OK;
    switch (line->kind) {
    case LINE_ALLOC:
        status = dao_life_log_alloc(log, line->space, line->address, line->size_bytes);
        return status == DAO_OK && label.tag != 0
                   ? dao_life_log_label(log, line->space, line->address, &label)
                   : status;
    case LINE_FREE:
        return dao_life_log_free(log, line->space, line->address, line->size_bytes);
    case LINE_STEP:
        return dao_event_file_add_step(dao_life_log_events(log, line->space));
    case LINE_REFUSED:
        counts->refused_count++;
        return DAO_OK;
    default:
        counts->ignored_count++;
        return DAO_OK;
    }
}

dao_status_t dao_read_recording(const char *path, dao_life_log_t *log)
{
    recording_reader_t reader = {.log = log};
    dao_status_t status = dao_csv_open(&reader.csv, path, ',');
    if (status != DAO_OK) {
        return status;
    }
    status = check_header(&reader);
    if (status == DAO_OK) {
        status = read_lines(&reader);
    }
    dao_csv_close(&reader.csv);
    if (reader.count > 0) {
        qsort(reader.lines, reader.count, sizeof(*reader.lines), by_time);
    }
    for (size_t i = 0; i < reader.count && status == DAO_OK; i++) {
        status = take_line(log, &reader.lines[i]);
    }
    dao_host_free(reader.lines);
    return status;
}
