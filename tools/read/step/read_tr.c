/* SPDX-License-Identifier: Apache-2.0 */
/* A line is a list of words with spaces between them; a name is the rest of its line. Counts in the file are
   checked, not trusted: nothing is allocated by them. */
#include "tools/read/step/read_tr.h"

#include "tools/read/bytes/text_source.h"
#include "tools/read/step/access_list.h"
#include "tools/read/text/decimal.h"
#include "tools/read/text/grow.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Longest word, and longest name. */
enum { WORD_BYTES_MAX = 256 };

/* Microseconds are kept in whole nanoseconds. */
enum { NS_PLACES = 3 };

/* What an access does. */
enum { MODE_READ = 1, MODE_OVERWRITE = 2, MODE_BOTH = 3 };

typedef struct tr_reader {
    dao_text_source_t source;
    uint64_t line, column; /* of the last word */
    char word[WORD_BYTES_MAX + 1];
    size_t word_length;
    dao_id_map_t ids; /* -> the tensor's index in the list */
    dao_access_list_t list;
    uint32_t first_backward;
} tr_reader_t;

/* ---- words ---- */

DAO_PRINTF(3, 4)
static dao_status_t wrong(const tr_reader_t *reader, dao_status_t status, const char *format, ...)
{
    char what[DAO_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return dao_error(status, "%s:%" PRIu64 ":%" PRIu64 ": %s", dao_text_source_name(&reader->source),
                     reader->line, reader->column, what);
}

/* Puts the last word's place before the message of the list. */
static dao_status_t at_word(const tr_reader_t *reader, dao_status_t status)
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
static dao_status_t skip_spaces(tr_reader_t *reader, int *out_byte)
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

/* Takes bytes up to a space or, for a name, up to the line's end. The word may be empty. */
static dao_status_t take_text(tr_reader_t *reader, bool is_name)
{
    int byte = DAO_TEXT_SOURCE_END;
    dao_status_t status = skip_spaces(reader, &byte);
    reader->word_length = 0;
    while (status == DAO_OK && !is_line_end(byte) && (is_name || (byte != ' ' && byte != '\t'))) {
        if (reader->word_length == WORD_BYTES_MAX) {
            return wrong(reader, DAO_ERR_PARSE, "longer than the limit of %d bytes", WORD_BYTES_MAX);
        }
        if (byte == '\0') {
            return wrong(reader, DAO_ERR_PARSE, "a byte here is zero");
        }
        reader->word[reader->word_length++] = (char)byte;
        dao_text_source_take(&reader->source);
        status = dao_text_source_peek(&reader->source, &byte);
    }
    reader->word[reader->word_length] = '\0';
    return status;
}

/* Takes a word that has to be there; `what` says for the message what is expected, "a size in bytes". */
static dao_status_t take_word(tr_reader_t *reader, const char *what)
{
    dao_status_t status = take_text(reader, false);
    return status == DAO_OK && reader->word_length == 0
               ? wrong(reader, DAO_ERR_PARSE, "the line ends here, expected %s", what)
               : status;
}

/* Whole digits from `text` up to `end`. */
static dao_status_t parse_u64(const tr_reader_t *reader, const char *text, char end, const char *what,
                              uint64_t *out_value)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return wrong(reader, DAO_ERR_OVERFLOW, "%s: more than 18446744073709551615", what);
        }
        value = value * 10 + digit;
    }
    *out_value = value;
    return at > text && *at == end ? DAO_OK : wrong(reader, DAO_ERR_PARSE, "expected %s", what);
}

static dao_status_t take_u64(tr_reader_t *reader, const char *what, uint64_t *out_value)
{
    dao_status_t status = take_word(reader, what);
    return status == DAO_OK ? parse_u64(reader, reader->word, '\0', what, out_value) : status;
}

/* The line has no more words. A carriage return before its end is its end, too. */
static dao_status_t end_line(tr_reader_t *reader)
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
        return wrong(reader, DAO_ERR_PARSE, "expected the end of the line");
    }
    return status;
}

/* A line `LETTER count`, up to where more may follow. */
static dao_status_t take_head(tr_reader_t *reader, const char *letter, const char *what, uint64_t *out_count)
{
    dao_status_t status = take_word(reader, what);
    if (status == DAO_OK && strcmp(reader->word, letter) != 0) {
        return wrong(reader, DAO_ERR_PARSE, "expected %s", what);
    }
    return status == DAO_OK ? take_u64(reader, "a count", out_count) : status;
}

/* ---- tensors ---- */

static dao_status_t add_tensor(tr_reader_t *reader, uint64_t id, uint64_t size_bytes, bool is_carried)
{
    char name[WORD_BYTES_MAX + 32];
    char key[32];
    bool is_known = false;
    uint64_t index = reader->list.tensor_count;
    int key_length = snprintf(key, sizeof(key), "%" PRIu64, id);
    (void)snprintf(name, sizeof(name), "%.*s.%s", DAO_TOUCH_NAME_MAX - key_length - 1, reader->word, key);
    dao_status_t status = dao_id_map_add(&reader->ids, key, (size_t)key_length, index, &is_known, &index);
    if (status == DAO_OK && is_known) {
        return wrong(reader, DAO_ERR_PARSE, "tensor %s was there before", key);
    }
    return status == DAO_OK
               ? at_word(reader, dao_access_list_add_tensor(&reader->list, name, size_bytes, is_carried))
               : status;
}

static dao_status_t read_tensor(tr_reader_t *reader)
{
    uint64_t id = 0;
    uint64_t size_bytes = 0;
    uint64_t is_carried = 0;
    dao_status_t status = take_u64(reader, "a tensor's number", &id);
    if (status == DAO_OK) {
        status = take_u64(reader, "a size in bytes", &size_bytes);
    }
    if (status == DAO_OK) {
        status = take_u64(reader, "0 or 1", &is_carried);
    }
    if (status == DAO_OK && is_carried > 1) {
        return wrong(reader, DAO_ERR_PARSE, "expected 0 or 1: whether the tensor is carried between steps");
    }
    if (status == DAO_OK) {
        status = take_text(reader, true);
    }
    if (status == DAO_OK) {
        status = add_tensor(reader, id, size_bytes, is_carried == 1);
    }
    return status == DAO_OK ? end_line(reader) : status;
}

static dao_status_t read_tensors(tr_reader_t *reader)
{
    uint64_t count = 0;
    dao_status_t status = take_head(reader, "T", "T and the number of tensors", &count);
    if (status == DAO_OK) {
        status = end_line(reader);
    }
    for (uint64_t i = 0; status == DAO_OK && i < count; i++) {
        status = read_tensor(reader);
    }
    return status;
}

/* ---- kernels ---- */

static dao_status_t read_access(tr_reader_t *reader)
{
    dao_status_t status = take_word(reader, "a tensor and a mode, such as 7:1");
    if (status != DAO_OK) {
        return status;
    }
    uint64_t id = 0;
    uint64_t mode = 0;
    status = parse_u64(reader, reader->word, ':', "a tensor and a mode, such as 7:1", &id);
    if (status == DAO_OK) {
        const char *behind = strchr(reader->word, ':') + 1;
        status = parse_u64(reader, behind, '\0', "a mode: 1 read, 2 overwrite, 3 both", &mode);
    }
    if (status == DAO_OK && (mode < MODE_READ || mode > MODE_BOTH)) {
        return wrong(reader, DAO_ERR_PARSE, "%" PRIu64 " is no mode: 1 read, 2 overwrite, 3 both", mode);
    }
    char key[32];
    int key_length = snprintf(key, sizeof(key), "%" PRIu64, id);
    uint64_t index = 0;
    if (status == DAO_OK && !dao_id_map_find(&reader->ids, key, (size_t)key_length, &index)) {
        return wrong(reader, DAO_ERR_PARSE, "there is no tensor %s", key);
    }
    return status == DAO_OK
               ? at_word(reader, dao_access_list_add_access(&reader->list, (uint32_t)index,
                                                            mode != MODE_OVERWRITE, mode != MODE_READ))
               : status;
}

static dao_status_t read_kernel(tr_reader_t *reader)
{
    char name[32];
    uint64_t cost_ns = 0;
    uint64_t count = 0;
    dao_status_t status = take_word(reader, "a duration in microseconds");
    if (status == DAO_OK && !dao_decimal_is_plain(reader->word)) {
        return wrong(reader, DAO_ERR_PARSE, "expected a duration in microseconds, such as 12.5");
    }
    if (status == DAO_OK && !dao_decimal_scale(reader->word, NS_PLACES, &cost_ns)) {
        return wrong(reader, DAO_ERR_OVERFLOW, "this duration is too long");
    }
    if (status == DAO_OK) {
        (void)snprintf(name, sizeof(name), "%zu", reader->list.kernel_count);
        status = at_word(reader, dao_access_list_add_kernel(&reader->list, name, cost_ns, 0));
    }
    if (status == DAO_OK) {
        status = take_u64(reader, "a number of accesses", &count);
    }
    for (uint64_t i = 0; status == DAO_OK && i < count; i++) {
        status = read_access(reader);
    }
    return status == DAO_OK ? end_line(reader) : status;
}

static dao_status_t read_kernels(tr_reader_t *reader)
{
    uint64_t count = 0;
    uint64_t first_backward = 0;
    dao_status_t status = take_head(reader, "K", "K and the number of kernels", &count);
    if (status == DAO_OK) {
        status = take_u64(reader, "the first kernel of the backward pass", &first_backward);
    }
    if (status == DAO_OK && first_backward > count) {
        return wrong(reader, DAO_ERR_PARSE, "there are only %" PRIu64 " kernels", count);
    }
    if (status == DAO_OK) {
        status = end_line(reader);
    }
    for (uint64_t i = 0; status == DAO_OK && i < count; i++) {
        status = read_kernel(reader);
    }
    if (status == DAO_OK) {
        reader->first_backward = first_backward < count ? (uint32_t)first_backward : DAO_TRACE_NONE;
    }
    return status;
}

/* ---- the file ---- */

/* Nothing but empty lines may follow. */
static dao_status_t read_end(tr_reader_t *reader)
{
    int byte = 0;
    dao_status_t status = DAO_OK;
    do {
        status = end_line(reader);
        status = status == DAO_OK ? dao_text_source_peek(&reader->source, &byte) : status;
    } while (status == DAO_OK && byte != DAO_TEXT_SOURCE_END);
    return status;
}

static dao_status_t read_all(tr_reader_t *reader, dao_step_trace_t *trace)
{
    dao_status_t status = read_tensors(reader);
    if (status == DAO_OK) {
        status = read_kernels(reader);
    }
    if (status == DAO_OK) {
        status = read_end(reader);
    }
    if (status == DAO_OK) {
        status = dao_access_list_build(&reader->list, trace);
        if (status != DAO_OK) {
            dao_error_prefix("%s: ", dao_text_source_name(&reader->source));
        }
    }
    return status;
}

dao_status_t dao_read_tr(const char *path, dao_step_trace_t *out_trace)
{
    tr_reader_t reader = {.first_backward = DAO_TRACE_NONE};
    dao_step_trace_t trace;
    dao_status_t status = dao_text_source_open(&reader.source, path);
    if (status != DAO_OK) {
        return status;
    }
    dao_id_map_init(&reader.ids);
    dao_access_list_init(&reader.list);
    status = read_all(&reader, &trace);
    dao_id_map_finish(&reader.ids);
    dao_access_list_finish(&reader.list);
    dao_text_source_close(&reader.source);
    if (status == DAO_OK) {
        trace.first_backward = reader.first_backward;
        dao_step_trace_name_file(&trace, path);
        *out_trace = trace;
    }
    return status;
}
