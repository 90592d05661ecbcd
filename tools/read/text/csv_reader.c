/* SPDX-License-Identifier: Apache-2.0 */
/* A line is read whole, then cut where its separators stand.

       text      a , b 1 , c \0         fields[0..2] point into it; each comma is a zero now

   Quotes are taken off in place, which makes a field shorter, never longer. */
#include "tools/read/text/csv_reader.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/report/format.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 256 };

dao_status_t dao_csv_open(dao_csv_reader_t *reader, const char *path, char separator)
{
    *reader = (dao_csv_reader_t){.separator = separator};
    dao_status_t status = dao_text_source_open(&reader->source, path);
    if (status != DAO_OK) {
        return status;
    }
    reader->text = dao_host_calloc(DAO_CSV_LINE_BYTES_MAX + 1, 1);
    if (reader->text == NULL) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no memory to read it",
                           dao_text_source_name(&reader->source));
        dao_text_source_close(&reader->source);
    }
    return status;
}

void dao_csv_close(dao_csv_reader_t *reader)
{
    dao_text_source_close(&reader->source);
    dao_host_free(reader->text);
    reader->text = NULL;
}

/* The column of a byte of the line, in characters from 1. */
static uint64_t column_of(const dao_csv_reader_t *reader, const char *at)
{
    uint64_t column = 1;
    for (const char *c = reader->text; c < at; c++) {
        column += ((unsigned char)*c & 0xc0) != 0x80; /* not the inside of a UTF-8 character */
    }
    return column;
}

DAO_PRINTF(3, 0)
static dao_status_t error_at(const dao_csv_reader_t *reader, const char *at, const char *format,
                             va_list arguments)
{
    char message[MESSAGE_BYTES];
    (void)vsnprintf(message, sizeof(message), format, arguments);
    return dao_error(DAO_ERR_PARSE, "%s:%" PRIu64 ":%" PRIu64 ": %s", dao_text_source_name(&reader->source),
                     reader->line, column_of(reader, at), message);
}

dao_status_t dao_csv_error_at(const dao_csv_reader_t *reader, const char *at, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    dao_status_t status = error_at(reader, at, format, arguments);
    va_end(arguments);
    return status;
}

dao_status_t dao_csv_error(const dao_csv_reader_t *reader, size_t field, const char *format, ...)
{
    va_list arguments;
    const char *at = field < reader->field_count ? reader->fields[field] : reader->text + reader->text_length;
    va_start(arguments, format);
    dao_status_t status = error_at(reader, at, format, arguments);
    va_end(arguments);
    return status;
}

/* Reads a line without its end into text. */
static dao_status_t read_line(dao_csv_reader_t *reader, bool *out_more)
{
    size_t length = 0;
    int byte = 0;
    reader->line = reader->source.line;
    for (;;) {
        dao_status_t status = dao_text_source_peek(&reader->source, &byte);
        if (status != DAO_OK) {
            return status;
        }
        if (byte != DAO_TEXT_SOURCE_END) {
            dao_text_source_take(&reader->source);
        }
        if (byte == DAO_TEXT_SOURCE_END || byte == '\n') {
            break;
        }
        if (byte == '\0' || length == DAO_CSV_LINE_BYTES_MAX) {
            return dao_csv_error_at(reader, reader->text + length, "%s",
                                    byte == '\0' ? "a byte of the line is zero" : "the line is too long");
        }
        reader->text[length++] = (char)byte;
    }
    *out_more = byte != DAO_TEXT_SOURCE_END || length > 0;
    length -= length > 0 && reader->text[length - 1] == '\r' ? 1 : 0;
    reader->text[length] = '\0';
    reader->text_length = length;
    return DAO_OK;
}

static dao_status_t add_field(dao_csv_reader_t *reader, char *at)
{
    if (reader->field_count == DAO_CSV_FIELD_COUNT_MAX) {
        return dao_csv_error_at(reader, at, "the line has more than %d fields", DAO_CSV_FIELD_COUNT_MAX);
    }
    reader->fields[reader->field_count++] = at;
    return DAO_OK;
}

/* Takes the quotes off the field at `at`, in place: it begins with one, and two of them inside stand for one.
 *out_end gets what follows the closing one. */
static dao_status_t unquote(const dao_csv_reader_t *reader, char *at, char **out_end)
{
    char *to = at;
    char *from = at + 1;
    for (; *from != '\0' && (*from != '"' || from[1] == '"'); from++) {
        from += *from == '"' ? 1 : 0;
        *to++ = *from;
    }
    if (*from == '\0') {
        return dao_csv_error_at(reader, at, "the quotes of this field are not closed on its line");
    }
    *to = '\0';
    *out_end = from + 1;
    return DAO_OK;
}

/* Ends the field at `at` before the blanks that stand at its end. */
static void cut_blanks(const char *at, char *end)
{
    while (end > at && (end[-1] == ' ' || end[-1] == '\t')) {
        *--end = '\0';
    }
}

/* Blanks around a field are no part of it, unless they stand in its quotes. */
static dao_status_t split_at_separators(dao_csv_reader_t *reader)
{
    const char *blanks = reader->separator == '\t' ? " " : " \t";
    char *at = reader->text;
    for (;;) {
        at += strspn(at, blanks);
        char *end = at + strcspn(at, (char[]){reader->separator, '\0'});
        bool is_quoted = *at == '"';
        dao_status_t status = add_field(reader, at);
        if (status == DAO_OK && is_quoted) {
            status = unquote(reader, at, &end);
            end += status == DAO_OK ? strspn(end, blanks) : 0;
        }
        if (status != DAO_OK) {
            return status;
        }
        bool is_last = *end == '\0';
        if (!is_last && *end != reader->separator) {
            return dao_csv_error_at(reader, end, "there is more behind the quotes of a field");
        }
        *end = '\0';
        if (!is_quoted) {
            cut_blanks(at, end);
        }
        if (is_last) {
            return DAO_OK;
        }
        at = end + 1;
    }
}

static dao_status_t split_at_blanks(dao_csv_reader_t *reader)
{
    static const char blanks[] = " \t";
    dao_status_t status = DAO_OK;
    char *at = reader->text;
    while (status == DAO_OK && *(at += strspn(at, blanks)) != '\0') {
        status = add_field(reader, at);
        at += strcspn(at, blanks);
        if (*at != '\0') {
            *at++ = '\0';
        }
    }
    return status;
}

/* Tabs separate the names of a header; in a line of numbers they are blanks like others. */
static char find_separator(const char *line)
{
    bool has_names = line[strcspn(line, "0123456789")] == '\0';
    if (strchr(line, ',') != NULL) {
        return ',';
    }
    if (strchr(line, ';') != NULL) {
        return ';';
    }
    if (has_names && strchr(line, '\t') != NULL) {
        return '\t';
    }
    return ' ';
}

/* Returns true for what may stand before the first line: a remark, or blanks. */
static bool says_nothing(const char *line)
{
    line += strspn(line, " \t");
    return *line == '#' || *line == '\0';
}

dao_status_t dao_csv_next(dao_csv_reader_t *reader, bool *out_more)
{
    dao_status_t status;
    do {
        reader->field_count = 0;
        status = read_line(reader, out_more);
    } while (status == DAO_OK && *out_more && reader->separator == 0 && says_nothing(reader->text));
    if (status != DAO_OK) {
        return status;
    }
    if (reader->separator == 0) {
        reader->separator = find_separator(reader->text);
    }
    return reader->separator == ' ' ? split_at_blanks(reader) : split_at_separators(reader);
}

dao_status_t dao_csv_digits(const dao_csv_reader_t *reader, const char **at, const char *what,
                            uint64_t *out_value)
{
    const char *begin = *at;
    uint64_t value = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        uint64_t digit = (uint64_t)(**at - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return dao_csv_error_at(reader, begin, "%s does not fit 64 bits", what);
        }
        value = value * 10 + digit;
    }
    if (*at == begin) {
        return dao_csv_error_at(reader, begin, "%s is %s", what, *begin == '-' ? "negative" : "no number");
    }
    *out_value = value;
    return DAO_OK;
}

dao_status_t dao_csv_u64(const dao_csv_reader_t *reader, size_t field, const char *what, uint64_t *out_value)
{
    const char *at = reader->fields[field];
    dao_status_t status = dao_csv_digits(reader, &at, what, out_value);
    if (status == DAO_OK && *at != '\0') {
        return dao_csv_error_at(reader, reader->fields[field], "%s is no whole number", what);
    }
    return status;
}
