/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/read/text/word_reader.h"

#include "base/report/error.h"
#include "tools/base/decimal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* Microseconds are kept in whole nanoseconds. */
enum { NS_PLACES = 3 };

dao_status_t dao_word_open(dao_word_reader_t *reader, const char *path, size_t word_bytes_max)
{
    reader->word_bytes_max = word_bytes_max;
    reader->line = reader->column = 1;
    reader->word_length = 0;
    reader->word[0] = '\0';
    return dao_text_source_open(&reader->source, path);
}

void dao_word_close(dao_word_reader_t *reader)
{
    dao_text_source_close(&reader->source);
}

dao_status_t dao_word_error(const dao_word_reader_t *reader, dao_status_t status, const char *format, ...)
{
    char what[DAO_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return dao_error(status, "%s:%" PRIu64 ":%" PRIu64 ": %s", dao_text_source_name(&reader->source),
                     reader->line, reader->column, what);
}

dao_status_t dao_word_place(const dao_word_reader_t *reader, dao_status_t status)
{
    if (status != DAO_OK) {
        dao_error_prefix("%s:%" PRIu64 ":%" PRIu64 ": ", dao_text_source_name(&reader->source), reader->line,
                         reader->column);
    }
    return status;
}

static bool is_line_end(int byte)
{
    return byte == '\n' || byte == '\r' || byte == DAO_TEXT_SOURCE_END;
}

/* Steps over spaces, and notes where the next word begins. */
static dao_status_t skip_spaces(dao_word_reader_t *reader, int *out_byte)
{
    dao_status_t status = dao_text_source_peek(&reader->source, out_byte);
    while (status == DAO_OK && (*out_byte == ' ' || *out_byte == '\t')) {
        dao_text_source_take(&reader->source);
        status = dao_text_source_peek(&reader->source, out_byte);
    }
    reader->line = reader->source.line;
    reader->column = reader->source.column;
    return status;
}

/* Takes bytes up to a space or, for the rest of a line, up to its end. */
static dao_status_t take_text(dao_word_reader_t *reader, bool is_rest)
{
    int byte = DAO_TEXT_SOURCE_END;
    dao_status_t status = skip_spaces(reader, &byte);
    reader->word_length = 0;
    while (status == DAO_OK && !is_line_end(byte) && (is_rest || (byte != ' ' && byte != '\t'))) {
        if (reader->word_length == reader->word_bytes_max) {
            return dao_word_error(reader, DAO_ERR_PARSE, "longer than the limit of %zu bytes",
                                  reader->word_bytes_max);
        }
        if (byte == '\0') {
            return dao_word_error(reader, DAO_ERR_PARSE, "a byte here is zero");
        }
        reader->word[reader->word_length++] = (char)byte;
        dao_text_source_take(&reader->source);
        status = dao_text_source_peek(&reader->source, &byte);
    }
    reader->word[reader->word_length] = '\0';
    return status;
}

dao_status_t dao_word_next(dao_word_reader_t *reader)
{
    return take_text(reader, false);
}

dao_status_t dao_word_rest(dao_word_reader_t *reader)
{
    return take_text(reader, true);
}

dao_status_t dao_word_take(dao_word_reader_t *reader, const char *what)
{
    dao_status_t status = take_text(reader, false);
    return status == DAO_OK && reader->word_length == 0
               ? dao_word_error(reader, DAO_ERR_PARSE, "the line ends here, expected %s", what)
               : status;
}

dao_status_t dao_word_parse_u64(const dao_word_reader_t *reader, const char *text, char end, const char *what,
                                uint64_t *out_value)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return dao_word_error(reader, DAO_ERR_OVERFLOW, "%s: more than 18446744073709551615", what);
        }
        value = value * 10 + digit;
    }
    *out_value = value;
    return at > text && *at == end ? DAO_OK : dao_word_error(reader, DAO_ERR_PARSE, "expected %s", what);
}

dao_status_t dao_word_take_u64(dao_word_reader_t *reader, const char *what, uint64_t *out_value)
{
    dao_status_t status = dao_word_take(reader, what);
    return status == DAO_OK ? dao_word_parse_u64(reader, reader->word, '\0', what, out_value) : status;
}

dao_status_t dao_word_parse_us(const dao_word_reader_t *reader, const char *text, uint64_t *out_ns)
{
    if (!dao_decimal_is_plain(text)) {
        return dao_word_error(reader, DAO_ERR_PARSE, "expected a duration in microseconds, such as 12.5");
    }
    return dao_decimal_scale(text, NS_PLACES, out_ns)
               ? DAO_OK
               : dao_word_error(reader, DAO_ERR_OVERFLOW, "this duration is too long");
}

dao_status_t dao_word_end_line(dao_word_reader_t *reader)
{
    int byte = DAO_TEXT_SOURCE_END;
    dao_status_t status = skip_spaces(reader, &byte);
    if (status == DAO_OK && byte == '\r') {
        dao_text_source_take(&reader->source);
        status = dao_text_source_peek(&reader->source, &byte);
    }
    if (status == DAO_OK && byte == '\n') {
        dao_text_source_take(&reader->source);
    } else if (status == DAO_OK && byte != DAO_TEXT_SOURCE_END) {
        return dao_word_error(reader, DAO_ERR_PARSE, "expected the end of the line");
    }
    return status;
}

dao_status_t dao_word_end_file(dao_word_reader_t *reader)
{
    int byte = 0;
    dao_status_t status = DAO_OK;
    do {
        status = dao_word_end_line(reader);
        status = status == DAO_OK ? dao_text_source_peek(&reader->source, &byte) : status;
    } while (status == DAO_OK && byte != DAO_TEXT_SOURCE_END);
    return status;
}
