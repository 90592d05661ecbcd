/* SPDX-License-Identifier: Apache-2.0 */
/* Two logs of allocations in CSV, whose columns stand in any order, others among them.

       RMM          Thread,Time,Action,Pointer,Size,Stream
                    1,12:00:00.000001,allocate,0x7f00,256,0x0
       rocprofv3    "Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id",...
                    "MEMORY_ALLOCATION","MEMORY_ALLOCATION_ALLOCATE","Agent 0",1024,"0x00007ffb26354000",1,...

   Lines are in the order of time; where a clock goes back it is counted. Sources:
   rmm/mr/device/logging_resource_adaptor.hpp of RMM; the documentation of rocprofv3's
   --memory-allocation-trace. */
#include "tools/read/foreign/foreign.h"

#include "tools/read/text/csv_reader.h"

#include <stdlib.h>
#include <string.h>

#define NS_OF_SECOND UINT64_C(1000000000)

enum { COLUMN_ACTION, COLUMN_POINTER, COLUMN_SIZE, COLUMN_AGENT, COLUMN_TIME, COLUMN_COUNT };

/* A clock that goes back by more than half of this has passed midnight: no date stands beside it. */
#define DAY_NS (UINT64_C(24) * 3600 * NS_OF_SECOND)

typedef struct log_reader {
    dao_csv_reader_t csv;
    const char *const *names; /* of the columns; NULL: the form has none */
    size_t column_of[COLUMN_COUNT];
    size_t field_count; /* of each line */
    uint64_t time_ns;   /* of the day, of the last line */
    dao_life_log_t *log;
} log_reader_t;

/* What an action does. */
typedef enum effect {
    EFFECT_ALLOC,
    EFFECT_FREE,
    EFFECT_REFUSED,
    EFFECT_NONE,
    EFFECT_UNKNOWN,
} effect_t;

bool dao_foreign_address(const char *text, uint64_t *out_address)
{
    if (strcmp(text, "(nil)") == 0 || strcmp(text, "0") == 0) {
        *out_address = 0;
        return true;
    }
    if (strncmp(text, "0x", 2) != 0 || strspn(text + 2, "0123456789abcdefABCDEF") != strlen(text + 2)) {
        return false;
    }
    size_t length = strlen(text + 2);
    *out_address = strtoull(text + 2, NULL, 16);
    return length > 0 && length <= 16;
}

/* ---- lines ---- */

/* Finds a column by its name. DAO_ERR_PARSE if there are two. */
static dao_status_t find_column(log_reader_t *reader, const char *name, size_t *out_field)
{
    *out_field = reader->field_count;
    for (size_t i = 0; name != NULL && i < reader->field_count; i++) {
        if (strcmp(reader->csv.fields[i], name) == 0) {
            if (*out_field < reader->field_count) {
                return dao_csv_error(&reader->csv, i, "the first line has a second column \"%s\"", name);
            }
            *out_field = i;
        }
    }
    return DAO_OK;
}

/* All columns have to be there but that of the time. */
static dao_status_t read_header(log_reader_t *reader)
{
    bool has_more = false;
    dao_status_t status = dao_csv_next(&reader->csv, &has_more);
    if (status == DAO_OK && !has_more) {
        return dao_csv_error(&reader->csv, 0, "the file is empty");
    }
    reader->field_count = reader->csv.field_count;
    for (size_t i = 0; i < COLUMN_COUNT && status == DAO_OK; i++) {
        status = find_column(reader, reader->names[i], &reader->column_of[i]);
        if (status == DAO_OK && reader->names[i] != NULL && i != COLUMN_TIME &&
            reader->column_of[i] == reader->field_count) {
            status = dao_csv_error(&reader->csv, 0, "the first line has no column \"%s\"", reader->names[i]);
        }
    }
    return status;
}

/* Reads bytes; some formatters write a fraction of zeros behind them. */
static dao_status_t read_size(const log_reader_t *reader, uint64_t *out_size)
{
    const char *at = reader->csv.fields[reader->column_of[COLUMN_SIZE]];
    const char *begin = at;
    dao_status_t status = dao_csv_digits(&reader->csv, &at, "the size", out_size);
    if (status == DAO_OK && *at == '.') {
        at += 1 + strspn(at + 1, "0");
    }
    return status == DAO_OK && *at != '\0'
               ? dao_csv_error_at(&reader->csv, begin, "the size is no whole number")
               : status;
}

/* Takes two digits below `end`, and what is behind them if it is one of `marks`. */
static bool take_clock_part(const char **at, unsigned end, const char *marks, uint64_t *value)
{
    const char *text = *at;
    unsigned part = 0;
    for (int i = 0; i < 2; i++, text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        part = part * 10 + (unsigned)(*text - '0');
    }
    *value = *value * 60 + part;
    *at = text + 1;
    return part < end && *text != '\0' && strchr(marks, *text) != NULL;
}

/* Reads HH:MM:SS.ffffff, or with a colon before the fraction; a leap second is the 60th. */
static bool read_clock(const char *text, uint64_t *out_ns)
{
    uint64_t seconds = 0, fraction_ns = 0, unit_ns = NS_OF_SECOND;
    if (!take_clock_part(&text, 24, ":", &seconds) || !take_clock_part(&text, 60, ":", &seconds) ||
        !take_clock_part(&text, 61, ".:", &seconds)) {
        return false;
    }
    for (; *text >= '0' && *text <= '9' && unit_ns > 1; text++) {
        unit_ns /= 10;
        fraction_ns += (uint64_t)(*text - '0') * unit_ns;
    }
    *out_ns = seconds * NS_OF_SECOND + fraction_ns;
    return *text == '\0' && unit_ns < NS_OF_SECOND;
}

/* Looks at the time of a line, where there is one. */
static dao_status_t take_time(log_reader_t *reader, dao_life_counts_t *counts)
{
    size_t column = reader->column_of[COLUMN_TIME];
    uint64_t time_ns = 0;
    if (column == reader->field_count) {
        return DAO_OK;
    }
    if (!read_clock(reader->csv.fields[column], &time_ns)) {
        return dao_csv_error(&reader->csv, column, "this is no time of a day, HH:MM:SS.ffffff");
    }
    counts->backward_count += time_ns < reader->time_ns && reader->time_ns - time_ns <= DAY_NS / 2;
    reader->time_ns = time_ns;
    return DAO_OK;
}

/* Finds the space of a device, one each. */
static dao_status_t find_space(const log_reader_t *reader, const char *device_name, uint32_t *out_space)
{
    dao_status_t status = dao_life_log_device(reader->log, device_name, out_space);
    if (status == DAO_OK && *out_space == reader->log->space_count) {
        status = dao_life_log_space(reader->log, *out_space, DAO_LIFE_KEYS_ADDRESSES, out_space);
    }
    return status;
}

/* A free may not say its device: it is that which has the address. */
static uint32_t space_of_free(const log_reader_t *reader, uint32_t space, uint64_t address)
{
    for (uint32_t i = 0; i < reader->log->space_count; i++) {
        if (dao_life_log_is_live(reader->log, i, address)) {
            return i;
        }
    }
    return space;
}

static dao_status_t take_line(log_reader_t *reader, effect_t (*effect_of)(const char *action))
{
    const dao_csv_reader_t *csv = &reader->csv;
    if (csv->field_count != reader->field_count) {
        return dao_csv_error(csv, csv->field_count, "the line has %zu fields, and the first one %zu",
                             csv->field_count, reader->field_count);
    }
    const char *action = csv->fields[reader->column_of[COLUMN_ACTION]];
    const char *agent =
        reader->names[COLUMN_AGENT] != NULL ? csv->fields[reader->column_of[COLUMN_AGENT]] : "0";
    effect_t effect = effect_of(action);
    uint64_t address = 0, size_bytes = 0;
    uint32_t space = 0;
    dao_status_t status = find_space(
        reader, agent[0] != '\0' || reader->log->device_count == 0 ? agent : reader->log->devices[0].name,
        &space);
    if (status == DAO_OK && effect == EFFECT_UNKNOWN) {
        return dao_csv_error(csv, reader->column_of[COLUMN_ACTION], "this is no action that is known");
    }
    if (status == DAO_OK && !dao_foreign_address(csv->fields[reader->column_of[COLUMN_POINTER]], &address)) {
        return dao_csv_error(csv, reader->column_of[COLUMN_POINTER], "this is no address");
    }
    if (status == DAO_OK) {
        status = read_size(reader, &size_bytes);
    }
    if (status == DAO_OK) {
        status = take_time(reader, dao_life_log_counts(reader->log, space));
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_life_counts_t *counts = dao_life_log_counts(reader->log, space);
    if (effect == EFFECT_REFUSED || effect == EFFECT_NONE || address == 0) {
        *(effect == EFFECT_REFUSED ? &counts->refused_count : &counts->ignored_count) += 1;
        return DAO_OK;
    }
    return effect == EFFECT_ALLOC
               ? dao_life_log_alloc(reader->log, space, address, size_bytes)
               : dao_life_log_free(reader->log, space_of_free(reader, space, address), address, size_bytes);
}

static dao_status_t read_log(const char *path, const char *const names[COLUMN_COUNT],
                             effect_t (*effect_of)(const char *action), dao_life_log_t *log)
{
    log_reader_t reader = {.names = names, .log = log};
    bool has_more = true;
    dao_status_t status = dao_csv_open(&reader.csv, path, ',');
    if (status != DAO_OK) {
        return status;
    }
    status = read_header(&reader);
    while (status == DAO_OK) {
        status = dao_csv_next(&reader.csv, &has_more);
        if (status != DAO_OK || !has_more) {
            break;
        }
        status = reader.csv.text_length > 0 ? take_line(&reader, effect_of) : DAO_OK;
    }
    dao_csv_close(&reader.csv);
    return status;
}

/* ---- the two forms ---- */

static effect_t rmm_effect(const char *action)
{
    return strcmp(action, "allocate") == 0           ? EFFECT_ALLOC
           : strcmp(action, "free") == 0             ? EFFECT_FREE
           : strcmp(action, "allocate failure") == 0 ? EFFECT_REFUSED
                                                     : EFFECT_UNKNOWN;
}

dao_status_t dao_read_rmm(const char *path, dao_life_log_t *log)
{
    static const char *const names[COLUMN_COUNT] = {"Action", "Pointer", "Size", NULL, "Time"};
    return read_log(path, names, rmm_effect, log);
}

/* Virtual memory is told by handles, which are no addresses. */
static effect_t rocprof_effect(const char *action)
{
    return strcmp(action, "MEMORY_ALLOCATION_ALLOCATE") == 0 ? EFFECT_ALLOC
           : strcmp(action, "MEMORY_ALLOCATION_FREE") == 0   ? EFFECT_FREE
           : strstr(action, "VMEM") != NULL                  ? EFFECT_NONE
                                                             : EFFECT_UNKNOWN;
}

dao_status_t dao_read_rocprof(const char *path, dao_life_log_t *log)
{
    static const char *const names[COLUMN_COUNT] = {"Operation", "Address", "Allocation_Size", "Agent_Id",
                                                    NULL};
    return read_log(path, names, rocprof_effect, log);
}
