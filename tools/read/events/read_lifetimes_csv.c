/* SPDX-License-Identifier: Apache-2.0 */
/* The first line says what the columns are; one without a comma is a line of a list already.

       header     id,lower,upper,size      column_of[COLUMN_ID] == 0, column_of[COLUMN_UPPER] == 2, ...
       list       17 0 568 29503488        the same columns, in this order                                 */
#include "tools/read/events/read_lifetimes_internal.h"

#include "base/report/error.h"
#include "tools/base/id_map.h"
#include "tools/read/text/csv_reader.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

typedef enum column {
    COLUMN_ID,
    COLUMN_LOWER,
    COLUMN_UPPER,
    COLUMN_SIZE,
    COLUMN_ALIGNMENT,
    COLUMN_OFFSET,
    COLUMN_GAPS,
    COLUMN_POOL,
    COLUMN_COUNT,
} column_t;

enum { COLUMN_REQUIRED_COUNT = COLUMN_SIZE + 1, COLUMN_NONE = DAO_CSV_FIELD_COUNT_MAX };

/* What a header may call its columns, in capitals, too. */
static const struct {
    const char *name;
    column_t column;
    bool is_inclusive; /* of the upper end */
} names[] = {
    {"id", COLUMN_ID, false},         {"buffer", COLUMN_ID, false},
    {"buffer_id", COLUMN_ID, false},  {"lower", COLUMN_LOWER, false},
    {"start", COLUMN_LOWER, false},   {"begin", COLUMN_LOWER, false},
    {"upper", COLUMN_UPPER, false},   {"end", COLUMN_UPPER, true},
    {"size", COLUMN_SIZE, false},     {"alignment", COLUMN_ALIGNMENT, false},
    {"offset", COLUMN_OFFSET, false}, {"gaps", COLUMN_GAPS, false},
    {"pool", COLUMN_POOL, false},
};

/* What columns are called in messages. */
static const char *const column_texts[COLUMN_COUNT] = {"id",        "lower",  "upper", "size",
                                                       "alignment", "offset", "gaps",  "pool"};

typedef struct lifetimes_reader {
    dao_csv_reader_t csv;
    size_t column_of[COLUMN_COUNT]; /* COLUMN_NONE: the file has none */
    size_t field_count;             /* of every line; 0: at least the required ones */
    bool is_inclusive;
    bool has_lines; /* one at least was read, so that it is known how many clocks there are */
    uint32_t begin_clocks[DAO_PLAN_CLOCK_COUNT_MAX]; /* of the line */
    uint32_t end_clocks[DAO_PLAN_CLOCK_COUNT_MAX];
    dao_id_map_t ids;    /* id -> its line */
    uint64_t gaps_end;   /* of the line's last gap */
    uint64_t unused_end; /* from its begin up to here gaps leave nothing of the line's buffer */
    dao_plan_input_t *lifetimes;
} lifetimes_reader_t;

/* ---- the header ---- */

static dao_status_t take_name(lifetimes_reader_t *reader, size_t field)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcasecmp(reader->csv.fields[field], names[i].name) != 0) {
            continue;
        }
        size_t *column = &reader->column_of[names[i].column];
        if (*column != COLUMN_NONE) {
            return dao_csv_error(&reader->csv, field, "there are two columns for %s",
                                 column_texts[names[i].column]);
        }
        *column = field;
        reader->is_inclusive = reader->is_inclusive || names[i].is_inclusive;
    }
    return DAO_OK;
}

static dao_status_t take_header(lifetimes_reader_t *reader)
{
    dao_status_t status = DAO_OK;
    reader->field_count = reader->csv.field_count;
    for (size_t i = 0; i < reader->field_count && status == DAO_OK; i++) {
        status = take_name(reader, i);
    }
    for (size_t i = 0; i < COLUMN_REQUIRED_COUNT && status == DAO_OK; i++) {
        if (reader->column_of[i] == COLUMN_NONE) {
            status = dao_csv_error(&reader->csv, 0,
                                   "the first line has no column \"%s\": lifetimes have id,lower,upper,size "
                                   "(other forms: docs/formats.md)",
                                   column_texts[i]);
        }
    }
    return status;
}

static void take_list(lifetimes_reader_t *reader)
{
    for (size_t i = 0; i < COLUMN_REQUIRED_COUNT; i++) {
        reader->column_of[i] = i;
    }
    reader->field_count = COLUMN_REQUIRED_COUNT;
}

/* ---- a line ---- */

static dao_status_t read_number(const lifetimes_reader_t *reader, column_t column, uint64_t *out_value)
{
    size_t field = reader->column_of[column];
    return field == COLUMN_NONE ? DAO_OK : dao_csv_u64(&reader->csv, field, column_texts[column], out_value);
}

/* Returns true if a column is there, and not empty in this line. */
static bool is_given(const lifetimes_reader_t *reader, column_t column)
{
    size_t field = reader->column_of[column];
    return field != COLUMN_NONE && reader->csv.fields[field][0] != '\0';
}

static dao_status_t check_id(lifetimes_reader_t *reader)
{
    size_t field = reader->column_of[COLUMN_ID];
    const char *id = reader->csv.fields[field];
    uint64_t line = reader->csv.line;
    bool is_found = false;
    if (id[0] == '\0') {
        return dao_csv_error(&reader->csv, field, "the id is empty");
    }
    dao_status_t status = dao_id_map_add(&reader->ids, id, strlen(id), line, &is_found, &line);
    return status == DAO_OK && is_found
               ? dao_csv_error(&reader->csv, field, "line %" PRIu64 " has this id, too", line)
               : status;
}

/* Makes an inclusive end one that is not. */
static dao_status_t close_life(const lifetimes_reader_t *reader, const char *at, uint64_t *end)
{
    if (!reader->is_inclusive) {
        return DAO_OK;
    }
    if (*end == UINT64_MAX) {
        return dao_csv_error_at(&reader->csv, at, "the end does not fit 64 bits");
    }
    (*end)++;
    return DAO_OK;
}

/* ---- clocks ---- */

/* The clocks of a field; 0: it is a time. */
static uint32_t count_clocks(const char *field)
{
    uint32_t count = 0;
    for (const char *colon = strchr(field, ':'); colon != NULL; colon = strchr(colon + 1, ':')) {
        count++;
    }
    return count == 0 ? 0 : count + 1;
}

/* All lines have the clocks of the first. */
static dao_status_t check_clock_count(lifetimes_reader_t *reader, size_t field)
{
    uint32_t count = count_clocks(reader->csv.fields[field]);
    if (!reader->has_lines) {
        reader->has_lines = true;
        reader->lifetimes->clock_count = count;
    }
    if (count > DAO_PLAN_CLOCK_COUNT_MAX || (count > 0 && reader->is_inclusive)) {
        return dao_csv_error(&reader->csv, field, "%s",
                             reader->is_inclusive ? "an end that is included has no clocks"
                                                  : "there are too many clocks");
    }
    return count == reader->lifetimes->clock_count
               ? DAO_OK
               : dao_csv_error(&reader->csv, field,
                               "this has %" PRIu32 " clocks, and the first line %" PRIu32, count,
                               reader->lifetimes->clock_count);
}

static dao_status_t read_clocks(const lifetimes_reader_t *reader, column_t column, uint32_t *out_clocks)
{
    const char *at = reader->csv.fields[reader->column_of[column]];
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < reader->lifetimes->clock_count && status == DAO_OK; i++) {
        uint64_t value = 0;
        const char *begin = at;
        status = dao_csv_digits(&reader->csv, &at, column_texts[column], &value);
        if (status == DAO_OK && (value > UINT32_MAX || (*at != ':' && *at != '\0'))) {
            status = dao_csv_error_at(&reader->csv, begin, "a clock is a number below 2^32");
        }
        out_clocks[i] = (uint32_t)value;
        at += status == DAO_OK && *at == ':' ? 1 : 0;
    }
    return status;
}

/* Reads a begin and an end in clocks. The buffer's times only tell whether it has a life. */
static dao_status_t read_clock_life(lifetimes_reader_t *reader, dao_plan_buffer_t *buffer)
{
    dao_status_t status = read_clocks(reader, COLUMN_LOWER, reader->begin_clocks);
    if (status == DAO_OK) {
        status = read_clocks(reader, COLUMN_UPPER, reader->end_clocks);
    }
    for (uint32_t i = 0; i < reader->lifetimes->clock_count && status == DAO_OK; i++) {
        if (reader->begin_clocks[i] > reader->end_clocks[i]) {
            status = dao_csv_error(&reader->csv, reader->column_of[COLUMN_UPPER],
                                   "the life ends before it begins");
        }
        buffer->end_time = reader->begin_clocks[i] < reader->end_clocks[i] ? 1 : buffer->end_time;
    }
    return status;
}

static dao_status_t read_life(lifetimes_reader_t *reader, dao_plan_buffer_t *buffer)
{
    size_t lower = reader->column_of[COLUMN_LOWER];
    size_t upper = reader->column_of[COLUMN_UPPER];
    dao_status_t status = check_clock_count(reader, lower);
    if (status == DAO_OK) {
        status = check_clock_count(reader, upper);
    }
    if (status == DAO_OK && reader->lifetimes->clock_count > 0) {
        return read_clock_life(reader, buffer);
    }
    if (status == DAO_OK) {
        status = read_number(reader, COLUMN_LOWER, &buffer->begin_time);
    }
    if (status == DAO_OK) {
        status = read_number(reader, COLUMN_UPPER, &buffer->end_time);
    }
    return status == DAO_OK ? close_life(reader, reader->csv.fields[upper], &buffer->end_time) : status;
}

/* ---- a buffer ---- */

static dao_status_t check_buffer(const lifetimes_reader_t *reader, const dao_plan_buffer_t *buffer,
                                 uint64_t alignment)
{
    const dao_csv_reader_t *csv = &reader->csv;
    if (buffer->end_time < buffer->begin_time) {
        return dao_csv_error(csv, reader->column_of[COLUMN_UPPER], "the life ends before it begins");
    }
    if (buffer->size_bytes > DAO_PLAN_SIZE_MAX) {
        return dao_csv_error(csv, reader->column_of[COLUMN_SIZE], "size is more than %" PRIu64,
                             DAO_PLAN_SIZE_MAX);
    }
    if ((alignment & (alignment - 1)) != 0 || alignment > UINT32_MAX) {
        return dao_csv_error(csv, reader->column_of[COLUMN_ALIGNMENT],
                             "alignment is no power of two below 2^32");
    }
    return DAO_OK;
}

/* Where there is none, or an empty one, the buffer may lie anywhere. */
static dao_status_t read_offset(const lifetimes_reader_t *reader, uint64_t *out_offset)
{
    if (!is_given(reader, COLUMN_OFFSET)) {
        return DAO_OK;
    }
    dao_status_t status = read_number(reader, COLUMN_OFFSET, out_offset);
    return status == DAO_OK && *out_offset > DAO_PLAN_TOTAL_MAX
               ? dao_csv_error(&reader->csv, reader->column_of[COLUMN_OFFSET], "offset is more than %" PRIu64,
                               DAO_PLAN_TOTAL_MAX)
               : status;
}

/* Where there is none, or an empty one, the buffer may be in any. */
static dao_status_t read_pool(const lifetimes_reader_t *reader, uint32_t *out_pool)
{
    uint64_t pool = 0;
    if (!is_given(reader, COLUMN_POOL)) {
        return DAO_OK;
    }
    dao_status_t status = read_number(reader, COLUMN_POOL, &pool);
    if (status == DAO_OK && pool >= DAO_PLAN_POOL_COUNT_MAX) {
        return dao_csv_error(&reader->csv, reader->column_of[COLUMN_POOL], "pools have numbers from 0 to %u",
                             DAO_PLAN_POOL_COUNT_MAX - 1);
    }
    *out_pool = (uint32_t)pool;
    return status;
}

static dao_status_t read_buffer(lifetimes_reader_t *reader, dao_plan_buffer_t *out_buffer)
{
    uint64_t alignment = 0;
    *out_buffer = (dao_plan_buffer_t){.fixed_offset = DAO_PLAN_NOWHERE, .pool = DAO_PLAN_ANY_POOL};
    dao_status_t status = check_id(reader);
    if (status == DAO_OK) {
        status = read_life(reader, out_buffer);
    }
    if (status == DAO_OK) {
        status = read_number(reader, COLUMN_SIZE, &out_buffer->size_bytes);
    }
    if (status == DAO_OK && is_given(reader, COLUMN_ALIGNMENT)) {
        status = read_number(reader, COLUMN_ALIGNMENT, &alignment);
    }
    if (status == DAO_OK) {
        status = check_buffer(reader, out_buffer, alignment);
    }
    out_buffer->alignment_bytes = (uint32_t)alignment;
    if (status == DAO_OK) {
        status = read_offset(reader, &out_buffer->fixed_offset);
    }
    return status == DAO_OK ? read_pool(reader, &out_buffer->pool) : status;
}

/* ---- gaps ---- */

/* Reads `A` MARK `B` at *at. */
static dao_status_t read_pair(const lifetimes_reader_t *reader, const char **at, char mark,
                              uint64_t *out_first, uint64_t *out_second)
{
    dao_status_t status = dao_csv_digits(&reader->csv, at, "the begin of a gap", out_first);
    if (status == DAO_OK && **at != mark) {
        status = dao_csv_error_at(&reader->csv, *at, "a gap is LOWER-UPPER or LOWER-UPPER@FROM:TO");
    }
    if (status == DAO_OK) {
        (*at)++;
        status = dao_csv_digits(&reader->csv, at, "the end of a gap", out_second);
    }
    return status;
}

static dao_status_t read_gap(lifetimes_reader_t *reader, const char **at)
{
    const dao_plan_buffer_t *buffer = &reader->lifetimes->buffers[reader->lifetimes->buffer_count - 1];
    const char *begin = *at;
    dao_plan_gap_t gap = {.high_byte = buffer->size_bytes};
    dao_status_t status = read_pair(reader, at, '-', &gap.begin_time, &gap.end_time);
    if (status == DAO_OK) {
        status = close_life(reader, begin, &gap.end_time);
    }
    if (status == DAO_OK && **at == '@') {
        (*at)++;
        status = read_pair(reader, at, ':', &gap.low_byte, &gap.high_byte);
    }
    if (status == DAO_OK && **at != ' ' && **at != '\0') {
        status = dao_csv_error_at(&reader->csv, *at, "a gap is LOWER-UPPER or LOWER-UPPER@FROM:TO");
    }
    if (status == DAO_OK && (gap.begin_time >= gap.end_time || gap.begin_time < buffer->begin_time ||
                             gap.end_time > buffer->end_time)) {
        status = dao_csv_error_at(&reader->csv, begin, "this is no gap of the buffer's life");
    }
    if (status == DAO_OK && gap.begin_time < reader->gaps_end) {
        status =
            dao_csv_error_at(&reader->csv, begin, "gaps have to be in the order of time, without overlap");
    }
    if (status == DAO_OK && (gap.low_byte >= gap.high_byte || gap.high_byte > buffer->size_bytes)) {
        status = dao_csv_error_at(&reader->csv, begin, "these are no bytes of the buffer");
    }
    reader->gaps_end = gap.end_time;
    if (gap.begin_time == reader->unused_end && gap.low_byte == 0 && gap.high_byte == buffer->size_bytes) {
        reader->unused_end = gap.end_time;
    }
    return status == DAO_OK ? dao_plan_input_add_gap(reader->lifetimes, &gap) : status;
}

/* Reads the gaps of the last buffer. */
static dao_status_t read_gaps(lifetimes_reader_t *reader)
{
    if (reader->column_of[COLUMN_GAPS] == COLUMN_NONE) {
        return DAO_OK;
    }
    const dao_plan_buffer_t *buffer = &reader->lifetimes->buffers[reader->lifetimes->buffer_count - 1];
    const char *at = reader->csv.fields[reader->column_of[COLUMN_GAPS]];
    dao_status_t status = DAO_OK;
    reader->gaps_end = 0;
    reader->unused_end = buffer->begin_time;
    while (status == DAO_OK && *(at += strspn(at, " ")) != '\0') {
        status = reader->lifetimes->clock_count == 0
                     ? read_gap(reader, &at)
                     : dao_csv_error_at(&reader->csv, at, "lives by several clocks have no gaps");
    }
    return status == DAO_OK && reader->unused_end == buffer->end_time
               ? dao_csv_error(&reader->csv, reader->column_of[COLUMN_GAPS], "gaps fill the buffer's life")
               : status;
}

/* ---- the file ---- */

static dao_status_t take_line(lifetimes_reader_t *reader)
{
    dao_plan_buffer_t buffer;
    bool is_added = false;
    if (reader->csv.field_count != reader->field_count) {
        return dao_csv_error(
            &reader->csv, reader->field_count, "the line has %zu fields, and there have to be %zu%s",
            reader->csv.field_count, reader->field_count,
            reader->csv.separator == ' ' ? ": id alloc free size (other forms: docs/formats.md)" : "");
    }
    dao_status_t status = read_buffer(reader, &buffer);
    if (status == DAO_OK) {
        status = dao_plan_input_add(reader->lifetimes, reader->csv.fields[reader->column_of[COLUMN_ID]],
                                    &buffer, &is_added);
    }
    if (status == DAO_OK && is_added && reader->lifetimes->clock_count > 0) {
        status = dao_plan_input_add_clocks(reader->lifetimes, reader->begin_clocks, reader->end_clocks);
    }
    return status == DAO_OK && is_added ? read_gaps(reader) : status;
}

static dao_status_t read_lines(lifetimes_reader_t *reader)
{
    bool has_more = false;
    dao_status_t status = dao_csv_next(&reader->csv, &has_more);
    bool is_list = reader->csv.separator == ' ';
    if (status == DAO_OK && is_list) {
        take_list(reader);
    } else if (status == DAO_OK) {
        status = take_header(reader);
    }
    if (status == DAO_OK && !is_list) {
        status = dao_csv_next(&reader->csv, &has_more);
    }
    while (status == DAO_OK && has_more) {
        if (reader->csv.text_length > 0) { /* an empty line is stepped over */
            status = take_line(reader);
        }
        if (status == DAO_OK) {
            status = dao_csv_next(&reader->csv, &has_more);
        }
    }
    return status;
}

dao_status_t dao_read_lifetimes_lines(const char *path, dao_plan_input_t *lifetimes)
{
    lifetimes_reader_t reader = {.lifetimes = lifetimes};
    dao_status_t status = dao_csv_open(&reader.csv, path, 0);
    if (status != DAO_OK) {
        return status;
    }
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        reader.column_of[i] = COLUMN_NONE;
    }
    dao_id_map_init(&reader.ids);
    status = read_lines(&reader);
    dao_id_map_finish(&reader.ids);
    dao_csv_close(&reader.csv);
    return status;
}
