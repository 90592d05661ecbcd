/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a time, what happened, bytes and a category, without addresses:

       [[-1, 1, 37888, 7], [1712345678901234567, 2, 512, 4], ...]

       1  was there before        2  created        3  moved between categories        4  destroyed

   A life is paired by its size, the latest first. Source of the form: torch/profiler/_memory_profiler.py of
   PyTorch. */
#include "tools/read/foreign/foreign.h"

#include "tools/base/grow.h"
#include "tools/read/text/json_reader.h"
#include "tools/read/text/signed_number.h"

#include <stdlib.h>

enum { ACTION_BEFORE = 1, ACTION_CREATE = 2, ACTION_MOVE = 3, ACTION_DESTROY = 4 };

enum { COLUMN_TIME, COLUMN_ACTION, COLUMN_BYTES, COLUMN_CATEGORY, COLUMN_COUNT };

typedef struct row {
    uint64_t time_ns; /* 0: before the first */
    uint64_t number;  /* in the order of the file */
    uint64_t size_bytes;
    uint32_t action;
} row_t;

typedef struct timeline_reader {
    dao_json_reader_t json;
    row_t *rows;
    size_t count, capacity;
} timeline_reader_t;

static dao_status_t read_number(timeline_reader_t *reader, dao_signed_number_t *out_number)
{
    dao_status_t status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_NUMBER, "a whole number");
    return status == DAO_OK && !dao_signed_number_read(reader->json.text, out_number)
               ? dao_json_error(&reader->json, "this is no whole number of 64 bits")
               : status;
}

static dao_status_t keep_row(timeline_reader_t *reader, const dao_signed_number_t numbers[COLUMN_COUNT])
{
    const dao_signed_number_t *action = &numbers[COLUMN_ACTION];
    if (action->is_negative || action->magnitude < ACTION_BEFORE || action->magnitude > ACTION_DESTROY) {
        return dao_json_error(&reader->json, "the action is none of 1 to 4");
    }
    row_t *grown = dao_tool_grow(reader->rows, &reader->capacity, reader->count, sizeof(*reader->rows));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    reader->rows = grown;
    grown[reader->count] = (row_t){
        .time_ns = numbers[COLUMN_TIME].is_negative ? 0 : numbers[COLUMN_TIME].magnitude,
        .number = reader->count,
        .size_bytes = numbers[COLUMN_BYTES].magnitude,
        .action = (uint32_t)action->magnitude,
    };
    reader->count++;
    return DAO_OK;
}

/* Reads a row, whose bracket was taken. */
static dao_status_t read_row(timeline_reader_t *reader)
{
    dao_signed_number_t numbers[COLUMN_COUNT];
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < COLUMN_COUNT && status == DAO_OK; i++) {
        status = read_number(reader, &numbers[i]);
    }
    if (status == DAO_OK) {
        status = keep_row(reader, numbers);
    }
    return status == DAO_OK ? dao_json_expect(&reader->json, DAO_JSON_TOKEN_ARRAY_END, "four numbers a row")
                            : status;
}

static dao_status_t read_rows(timeline_reader_t *reader)
{
    dao_status_t status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_ARRAY_BEGIN, "a list of rows");
    status = status == DAO_OK ? dao_json_next(&reader->json) : status;
    while (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_ARRAY_BEGIN) {
        status = read_row(reader);
        if (status == DAO_OK) {
            status = dao_json_next(&reader->json);
        }
    }
    if (status == DAO_OK && reader->json.token != DAO_JSON_TOKEN_ARRAY_END) {
        return dao_json_error(&reader->json, "expected a row of four numbers");
    }
    return status == DAO_OK ? dao_json_expect(&reader->json, DAO_JSON_TOKEN_END, "the end of the file")
                            : status;
}

static int by_time(const void *left, const void *right)
{
    const row_t *a = left;
    const row_t *b = right;
    if (a->time_ns != b->time_ns) {
        return a->time_ns < b->time_ns ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

static dao_status_t take_row(dao_life_log_t *log, uint32_t space, const row_t *row)
{
    switch (row->action) {
    case ACTION_BEFORE:
        return dao_life_log_resident(log, space, row->size_bytes, row->size_bytes);
    case ACTION_CREATE:
        return dao_life_log_alloc(log, space, row->size_bytes, row->size_bytes);
    case ACTION_DESTROY:
        return dao_life_log_free(log, space, row->size_bytes, row->size_bytes);
    default:
        dao_life_log_counts(log, space)->ignored_count++;
        return DAO_OK;
    }
}

static dao_status_t take_rows(timeline_reader_t *reader, dao_life_log_t *log)
{
    uint32_t device = 0, space = 0;
    dao_status_t status = dao_life_log_device(log, "0", &device);
    if (status == DAO_OK) {
        status = dao_life_log_space(log, device, DAO_LIFE_KEYS_SIZES, &space);
    }
    if (reader->count > 0) {
        qsort(reader->rows, reader->count, sizeof(*reader->rows), by_time);
    }
    for (size_t i = 0; i < reader->count && status == DAO_OK; i++) {
        status = take_row(log, space, &reader->rows[i]);
    }
    return status;
}

dao_status_t dao_read_memory_timeline(const char *path, dao_life_log_t *log)
{
    timeline_reader_t reader = {0};
    dao_status_t status = dao_json_reader_open(&reader.json, path);
    if (status != DAO_OK) {
        return status;
    }
    status = read_rows(&reader);
    dao_json_reader_close(&reader.json);
    if (status == DAO_OK) {
        status = take_rows(&reader, log);
    }
    dao_host_free(reader.rows);
    return status;
}
