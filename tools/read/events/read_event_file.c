/* SPDX-License-Identifier: Apache-2.0 */
/* Lines become records; ids are keys of a map to tensors, in the order of their first line. Only the last
   line tells which tensors were alive before the first one:

       first seen by    alive before    then
       alloc            no              live from there to its free, if there is one
       free             yes             live to there                                        */
#include "tools/read/events/read_event_file.h"

#include "tools/read/text/csv_reader.h"

#include <string.h>

enum { COLUMN_EVENT = 1, COLUMN_ID = 2, COLUMN_BYTES = 3, COLUMN_OP = 4, COLUMN_COUNT = 5 };

static const char *const columns[COLUMN_COUNT] = {"time_ns", "event", "id", "bytes", "op"};

typedef struct event_reader {
    dao_csv_reader_t csv;
    dao_event_file_t *file;
} event_reader_t;

static dao_status_t take_event(event_reader_t *reader, bool is_alloc)
{
    const dao_csv_reader_t *csv = &reader->csv;
    uint64_t size_bytes = 0, operator_index = 0;
    uint32_t index = 0;
    bool is_known = false;
    dao_status_t status = dao_csv_u64(csv, COLUMN_BYTES, "bytes", &size_bytes);
    if (status == DAO_OK) {
        status = dao_csv_u64(csv, COLUMN_OP, "op", &operator_index);
    }
    if (status == DAO_OK && csv->fields[COLUMN_ID][0] == '\0') {
        status = dao_csv_error(csv, COLUMN_ID, "the id is empty");
    }
    if (status == DAO_OK) {
        status =
            dao_event_file_find_tensor(reader->file, csv->fields[COLUMN_ID], size_bytes, &index, &is_known);
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_event_tensor_t *tensor = &reader->file->tensors[index];
    if (is_alloc && is_known) {
        return dao_csv_error(csv, COLUMN_ID, "this id was allocated before");
    }
    if (!is_alloc && is_known && !tensor->is_live) {
        return dao_csv_error(csv, COLUMN_ID, "this id was freed before");
    }
    if (tensor->size_bytes != size_bytes) {
        return dao_csv_error(csv, COLUMN_BYTES, "this id was allocated with other bytes");
    }
    tensor->is_before = tensor->is_before || (!is_known && !is_alloc);
    tensor->is_live = is_alloc;
    return dao_event_file_add_record(reader->file, index, is_alloc, operator_index);
}

static dao_status_t take_line(event_reader_t *reader)
{
    const dao_csv_reader_t *csv = &reader->csv;
    if (csv->field_count != COLUMN_COUNT) {
        return dao_csv_error(csv, COLUMN_COUNT, "there have to be five columns: " DAO_EVENT_FILE_HEADER);
    }
    const char *event = csv->fields[COLUMN_EVENT];
    bool is_alloc = strcmp(event, "alloc") == 0;
    if (strcmp(event, "step") == 0) {
        return dao_event_file_add_step(reader->file);
    }
    if (!is_alloc && strcmp(event, "free") != 0) {
        return dao_csv_error(csv, COLUMN_EVENT, "the event is none of alloc, free and step");
    }
    return take_event(reader, is_alloc);
}

static dao_status_t check_header(const dao_csv_reader_t *csv)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        if (i >= csv->field_count || strcmp(csv->fields[i], columns[i]) != 0) {
            return dao_csv_error(csv, i, "the first line is not " DAO_EVENT_FILE_HEADER);
        }
    }
    return csv->field_count == COLUMN_COUNT
               ? DAO_OK
               : dao_csv_error(csv, COLUMN_COUNT, "the first line is not " DAO_EVENT_FILE_HEADER);
}

static dao_status_t read_lines(event_reader_t *reader)
{
    bool has_more = false;
    dao_status_t status = dao_csv_next(&reader->csv, &has_more);
    if (status == DAO_OK) {
        status = check_header(&reader->csv);
    }
    while (status == DAO_OK) {
        status = dao_csv_next(&reader->csv, &has_more);
        if (status != DAO_OK || !has_more) {
            break;
        }
        status = take_line(reader);
    }
    return status;
}

dao_status_t dao_event_file_read(const char *path, dao_event_file_t *out_file)
{
    dao_event_file_t file;
    event_reader_t reader = {.file = &file};
    dao_status_t status = dao_csv_open(&reader.csv, path, ',');
    if (status != DAO_OK) {
        return status;
    }
    dao_event_file_init(&file);
    status = read_lines(&reader);
    dao_csv_close(&reader.csv);
    if (status != DAO_OK) {
        dao_event_file_finish(&file);
        return status;
    }
    dao_event_file_count(&file);
    *out_file = file;
    return DAO_OK;
}
