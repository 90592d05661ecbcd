/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of a JSON file. The open containers are one bit each; what may come next is one of:

       VALUE           a value has to come         (at first, behind a colon, behind a comma in an array)
       VALUE_OR_END    or `]`                      (behind `[`)
       KEY_OR_END      a key or `}`                (behind `{`)
       KEY             a key                       (behind a comma in an object)
       COMMA_OR_END    a comma or the closing one  (behind a value in a container)
       FILE_END        nothing but white space     (behind the outermost value, before the next one)

   Invariant: depth <= DAO_JSON_DEPTH_MAX; bits of object_bits at depth and above are not read. */
#define DAO_JSON_READER_IS_DEFINED_HERE
#include "tools/read/text/json_reader.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { VALUE, VALUE_OR_END, KEY_OR_END, KEY, COMMA_OR_END, FILE_END };

enum { FIRST_TEXT_BYTES = 64 };

const char *dao_json_token_text(dao_json_token_t token)
{
    static const char *const texts[] = {"an object", "\"}\"",    "a list",        "\"]\"",
                                        "a key",     "a string", "a number",      "\"true\"",
                                        "\"false\"", "\"null\"", "the file's end"};
    return texts[token];
}

const char *dao_json_quote(const char *text, char out_quoted[DAO_JSON_QUOTE_BYTES])
{
    size_t length = 0;
    out_quoted[length++] = '"';
    for (; *text != '\0' && length < DAO_JSON_QUOTE_BYTES - 5; text++) {
        bool is_plain = *text >= ' ' && *text <= '~' && *text != '"' && *text != '\\';
        out_quoted[length++] = (char)(is_plain ? *text : '?');
    }
    (void)snprintf(out_quoted + length, DAO_JSON_QUOTE_BYTES - length, *text != '\0' ? "...\"" : "\"");
    return out_quoted;
}

dao_status_t dao_json_error_at(const dao_json_reader_t *reader, dao_json_position_t position,
                               dao_status_t status, const char *format, ...)
{
    char what[DAO_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return dao_error(status, "%s:%" PRIu64 ":%" PRIu64 ": %s", dao_text_source_name(&reader->source),
                     position.line, position.column, what);
}

dao_status_t dao_json_error(const dao_json_reader_t *reader, const char *format, ...)
{
    char what[DAO_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return dao_json_error_at(reader, reader->position, DAO_ERR_PARSE, "%s", what);
}

/* An error at the next byte rather than at the token's begin. */
static dao_status_t error_here(const dao_json_reader_t *reader, const char *what)
{
    dao_json_position_t here = {reader->source.line, reader->source.column};
    (void)dao_json_error_at(reader, here, DAO_ERR_PARSE, "%s", what);
    return DAO_ERR_PARSE;
}

dao_status_t dao_json_reader_open(dao_json_reader_t *reader, const char *path)
{
    memset(reader, 0, sizeof(*reader));
    reader->expected = VALUE;
    reader->position = (dao_json_position_t){1, 1};
    dao_status_t status = dao_text_source_open(&reader->source, path);
    if (status != DAO_OK) {
        return status;
    }
    reader->text = dao_host_calloc(FIRST_TEXT_BYTES, 1);
    if (reader->text == NULL) {
        dao_json_reader_close(reader);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no memory to read it", path);
    }
    reader->text_capacity = FIRST_TEXT_BYTES;
    return DAO_OK;
}

dao_status_t dao_json_prefix(const dao_json_reader_t *reader, dao_json_position_t position,
                             dao_status_t status)
{
    if (status != DAO_OK) {
        dao_error_prefix("%s:%" PRIu64 ":%" PRIu64 ": ", dao_json_name(reader), position.line,
                         position.column);
    }
    return status;
}

const char *dao_json_name(const dao_json_reader_t *reader)
{
    return dao_text_source_name(&reader->source);
}

void dao_json_reader_close(dao_json_reader_t *reader)
{
    dao_text_source_close(&reader->source);
    dao_host_free(reader->text);
    reader->text = NULL;
    for (uint32_t i = 0; i < DAO_JSON_DEPTH_MAX; i++) {
        dao_id_map_finish(&reader->keys[i]);
    }
}

/* Adds a byte to the token's text, which stays closed by a zero. */
static dao_status_t append(dao_json_reader_t *reader, int byte)
{
    if (reader->text_length == DAO_JSON_TEXT_MAX) {
        return dao_json_error(reader, "longer than the limit of %zu bytes", DAO_JSON_TEXT_MAX);
    }
    if (reader->text_length + 2 > reader->text_capacity) {
        size_t capacity = reader->text_capacity * 2;
        char *text = dao_host_realloc(reader->text, capacity, 1);
        if (text == NULL) {
            return dao_json_error_at(reader, reader->position, DAO_ERR_NO_HOST_MEMORY,
                                     "no memory for a text of %zu bytes", capacity);
        }
        reader->text = text;
        reader->text_capacity = capacity;
    }
    reader->text[reader->text_length++] = (char)byte;
    reader->text[reader->text_length] = '\0';
    return DAO_OK;
}

static dao_status_t append_character(dao_json_reader_t *reader, uint32_t character)
{
    unsigned bytes = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    static const uint32_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    dao_status_t status = append(reader, (int)(marks[bytes] | character >> (6 * (bytes - 1))));
    while (status == DAO_OK && --bytes > 0) {
        status = append(reader, (int)(0x80 | (character >> (6 * (bytes - 1)) & 0x3f)));
    }
    return status;
}

/* Four hexadecimal digits. */
static dao_status_t read_hex(dao_json_reader_t *reader, uint32_t *out_value)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        int byte;
        dao_status_t status = dao_text_source_peek(&reader->source, &byte);
        if (status != DAO_OK) {
            return status;
        }
        if (byte >= '0' && byte <= '9') {
            value = value << 4 | (uint32_t)(byte - '0');
        } else if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f' && byte > 0) {
            value = value << 4 | (uint32_t)((byte | 0x20) - 'a' + 10);
        } else {
            return error_here(reader, "\\u needs four hexadecimal digits");
        }
        dao_text_source_take(&reader->source);
    }
    *out_value = value;
    return DAO_OK;
}

/* Takes `wanted` if it comes next. */
static dao_status_t take_if(dao_json_reader_t *reader, int wanted, bool *out_taken)
{
    int byte;
    dao_status_t status = dao_text_source_peek(&reader->source, &byte);
    if (status == DAO_OK) {
        *out_taken = byte == wanted;
        if (byte == wanted) {
            dao_text_source_take(&reader->source);
        }
    }
    return status;
}

/* Behind `\u`: one character, or the two halves of one. */
static dao_status_t read_escaped_character(dao_json_reader_t *reader)
{
    uint32_t character;
    dao_status_t status = read_hex(reader, &character);
    if (status != DAO_OK) {
        return status;
    }
    if (character >= 0xd800 && character < 0xdc00) {
        bool has_backslash = false;
        bool has_u = false;
        uint32_t low = 0;
        status = take_if(reader, '\\', &has_backslash);
        if (status == DAO_OK && has_backslash) {
            status = take_if(reader, 'u', &has_u);
        }
        if (status == DAO_OK && has_u) {
            status = read_hex(reader, &low);
        }
        if (status != DAO_OK) {
            return status;
        }
        if (low < 0xdc00 || low > 0xdfff) {
            return error_here(reader, "half a surrogate pair");
        }
        character = 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00);
    } else if (character >= 0xdc00 && character <= 0xdfff) {
        return error_here(reader, "half a surrogate pair");
    } else if (character == 0) {
        return error_here(reader, "NUL in a string");
    }
    return append_character(reader, character);
}

static dao_status_t read_escape(dao_json_reader_t *reader)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    int byte;
    dao_status_t status = dao_text_source_peek(&reader->source, &byte);
    if (status != DAO_OK) {
        return status;
    }
    if (byte == 'u') {
        dao_text_source_take(&reader->source);
        return read_escaped_character(reader);
    }
    const char *found = byte > 0 ? strchr(from, byte) : NULL;
    if (found == NULL) {
        return error_here(reader, "unknown escape in a string");
    }
    dao_text_source_take(&reader->source);
    return append(reader, to[found - from]);
}

/* One character of several bytes: checks that it is the shortest form of a character. */
static dao_status_t read_utf8(dao_json_reader_t *reader, int first)
{
    unsigned more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (first < 0xc2 || first > 0xf4) {
        return error_here(reader, "not UTF-8");
    }
    dao_json_position_t here = {reader->source.line, reader->source.column};
    uint32_t character = (uint32_t)first & (0x3fu >> more);
    dao_status_t status = append(reader, first);
    dao_text_source_take(&reader->source);
    for (unsigned i = 0; status == DAO_OK && i < more; i++) {
        int byte;
        status = dao_text_source_peek(&reader->source, &byte);
        if (status == DAO_OK && (byte < 0x80 || byte > 0xbf)) {
            return dao_json_error_at(reader, here, DAO_ERR_PARSE, "not UTF-8");
        }
        if (status == DAO_OK) {
            dao_text_source_take(&reader->source);
            character = character << 6 | ((uint32_t)byte & 0x3f);
            status = append(reader, byte);
        }
    }
    if (status == DAO_OK &&
        (character < least[more] || character > 0x10ffff || (character >= 0xd800 && character <= 0xdfff))) {
        return dao_json_error_at(reader, here, DAO_ERR_PARSE, "not UTF-8");
    }
    return status;
}

/* Behind the opening quote, to the closing one. */
static dao_status_t read_string(dao_json_reader_t *reader)
{
    for (;;) {
        int byte;
        dao_status_t status = dao_text_source_peek(&reader->source, &byte);
        if (status != DAO_OK) {
            return status;
        }
        if (byte == DAO_TEXT_SOURCE_END) {
            return dao_json_error(reader, "this string has no closing quote");
        }
        if (byte < 0x20) {
            return error_here(reader, byte == 0 ? "NUL in a string" : "control character in a string");
        }
        if (byte >= 0x80) {
            status = read_utf8(reader, byte);
        } else {
            dao_text_source_take(&reader->source);
            if (byte == '"') {
                return DAO_OK;
            }
            status = byte == '\\' ? read_escape(reader) : append(reader, byte);
        }
        if (status != DAO_OK) {
            return status;
        }
    }
}

/* Takes digits, at least one. */
static dao_status_t read_digits(dao_json_reader_t *reader)
{
    for (bool has_digit = false;; has_digit = true) {
        int byte;
        dao_status_t status = dao_text_source_peek(&reader->source, &byte);
        if (status != DAO_OK) {
            return status;
        }
        if (byte < '0' || byte > '9') {
            return has_digit ? DAO_OK : error_here(reader, "a digit is missing in a number");
        }
        dao_text_source_take(&reader->source);
        status = append(reader, byte);
        if (status != DAO_OK) {
            return status;
        }
    }
}

/* Takes one byte of `set` if it comes next; `out_taken` is 0 if not. */
static dao_status_t read_one_of(dao_json_reader_t *reader, const char *set, int *out_taken)
{
    int byte;
    *out_taken = 0;
    dao_status_t status = dao_text_source_peek(&reader->source, &byte);
    if (status != DAO_OK || byte <= 0 || strchr(set, byte) == NULL) {
        return status;
    }
    dao_text_source_take(&reader->source);
    *out_taken = byte;
    return append(reader, byte);
}

static dao_status_t read_number(dao_json_reader_t *reader)
{
    int taken;
    dao_status_t status = read_one_of(reader, "-", &taken);
    if (status == DAO_OK) {
        status = read_digits(reader);
    }
    const char *digits = reader->text + (reader->text[0] == '-');
    if (status == DAO_OK && digits[0] == '0' && digits[1] != '\0') {
        return dao_json_error(reader, "a number with a leading zero");
    }
    if (status == DAO_OK) {
        status = read_one_of(reader, ".", &taken);
    }
    if (status == DAO_OK && taken != 0) {
        status = read_digits(reader);
    }
    if (status == DAO_OK) {
        status = read_one_of(reader, "eE", &taken);
    }
    if (status == DAO_OK && taken != 0) {
        status = read_one_of(reader, "+-", &taken);
        if (status == DAO_OK) {
            status = read_digits(reader);
        }
    }
    return status;
}

static dao_status_t read_word(dao_json_reader_t *reader)
{
    static const struct {
        const char *word;
        dao_json_token_t token;
    } words[] = {
        {"true", DAO_JSON_TOKEN_TRUE}, {"false", DAO_JSON_TOKEN_FALSE}, {"null", DAO_JSON_TOKEN_NULL}};
    int taken = 1;
    while (taken != 0 && reader->text_length <= DAO_JSON_QUOTE_BYTES) {
        dao_status_t status =
            read_one_of(reader, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", &taken);
        if (status != DAO_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(reader->text, words[i].word) == 0) {
            reader->token = words[i].token;
            return DAO_OK;
        }
    }
    char quoted[DAO_JSON_QUOTE_BYTES];
    return dao_json_error(reader, "%s is no JSON value", dao_json_quote(reader->text, quoted));
}

static dao_status_t skip_white_space(dao_json_reader_t *reader, int *out_byte)
{
    for (;;) {
        dao_status_t status = dao_text_source_peek(&reader->source, out_byte);
        if (status != DAO_OK ||
            (*out_byte != ' ' && *out_byte != '\t' && *out_byte != '\n' && *out_byte != '\r')) {
            return status;
        }
        dao_text_source_take(&reader->source);
    }
}

/* The outermost value or one in a container is complete. */
static void value_ends(dao_json_reader_t *reader)
{
    reader->expected = reader->depth == 0 ? FILE_END : COMMA_OR_END;
}

static bool is_in_object(const dao_json_reader_t *reader)
{
    return reader->depth > 0 && (reader->object_bits >> (reader->depth - 1) & 1) != 0;
}

static dao_status_t open_container(dao_json_reader_t *reader, bool is_object)
{
    if (reader->depth == DAO_JSON_DEPTH_MAX) {
        return dao_json_error(reader, "nested deeper than %d", DAO_JSON_DEPTH_MAX);
    }
    if (is_object) {
        dao_id_map_t *keys = &reader->keys[reader->depth];
        if (keys->slot_count == 0) {
            dao_id_map_finish(keys);
            dao_id_map_init(keys);
        }
        dao_id_map_clear(keys);
    }
    reader->object_bits &= ~((uint64_t)1 << reader->depth);
    reader->object_bits |= (uint64_t)is_object << reader->depth;
    reader->depth++;
    reader->token = is_object ? DAO_JSON_TOKEN_OBJECT_BEGIN : DAO_JSON_TOKEN_ARRAY_BEGIN;
    reader->expected = is_object ? KEY_OR_END : VALUE_OR_END;
    return DAO_OK;
}

/* The begin of a key that is already seen as `"`. */
static dao_status_t read_key(dao_json_reader_t *reader)
{
    dao_text_source_take(&reader->source);
    dao_status_t status = read_string(reader);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t line = reader->position.line < UINT32_MAX ? reader->position.line : UINT32_MAX;
    uint64_t column = reader->position.column < UINT32_MAX ? reader->position.column : UINT32_MAX;
    uint64_t first;
    bool is_found;
    status = dao_id_map_add(&reader->keys[reader->depth - 1], reader->text, reader->text_length,
                            line << 32 | column, &is_found, &first);
    if (status != DAO_OK) {
        return status;
    }
    if (is_found) {
        char quoted[DAO_JSON_QUOTE_BYTES];
        return dao_json_error(reader, "key %s stands here again, first at %" PRIu64 ":%" PRIu64,
                              dao_json_quote(reader->text, quoted), first >> 32, first & UINT32_MAX);
    }
    int byte;
    status = skip_white_space(reader, &byte);
    if (status == DAO_OK && byte != ':') {
        return error_here(reader, "a colon is missing behind a key");
    }
    if (status == DAO_OK) {
        dao_text_source_take(&reader->source);
        reader->token = DAO_JSON_TOKEN_KEY;
        reader->expected = VALUE;
    }
    return status;
}

static dao_status_t unexpected(const dao_json_reader_t *reader, int byte)
{
    static const char *const wanted[] = {
        "a value",      "a value or \"]\"", "a key or \"}\"", "a key", "a comma or the closing bracket",
        "nothing more",
    };
    if (byte == DAO_TEXT_SOURCE_END) {
        return dao_json_error(reader, "the file ends here, expected %s", wanted[reader->expected]);
    }
    if (byte > ' ' && byte <= '~') {
        return dao_json_error(reader, "'%c' found, expected %s", byte, wanted[reader->expected]);
    }
    return dao_json_error(reader, "byte 0x%02x found, expected %s", (unsigned)byte, wanted[reader->expected]);
}

static dao_status_t read_value(dao_json_reader_t *reader, int byte)
{
    dao_status_t status;
    if (byte == '{' || byte == '[') {
        dao_text_source_take(&reader->source);
        return open_container(reader, byte == '{');
    }
    if (byte == '"') {
        dao_text_source_take(&reader->source);
        reader->token = DAO_JSON_TOKEN_STRING;
        status = read_string(reader);
    } else if (byte == '-' || (byte >= '0' && byte <= '9')) {
        reader->token = DAO_JSON_TOKEN_NUMBER;
        status = read_number(reader);
    } else if (byte >= 'A' && byte <= 'z' && byte != '[' && byte != ']' && byte != '\\' && byte != '^' &&
               byte != '_' && byte != '`') {
        status = read_word(reader);
    } else {
        return unexpected(reader, byte);
    }
    value_ends(reader);
    return status;
}

/* Where a value or a key may come as well as the container's end. */
static dao_status_t next_token(dao_json_reader_t *reader, int byte)
{
    bool may_end = reader->expected == VALUE_OR_END || reader->expected == KEY_OR_END ||
                   reader->expected == COMMA_OR_END;
    if (may_end && byte == (is_in_object(reader) ? '}' : ']')) {
        dao_text_source_take(&reader->source);
        reader->token = is_in_object(reader) ? DAO_JSON_TOKEN_OBJECT_END : DAO_JSON_TOKEN_ARRAY_END;
        reader->depth--;
        value_ends(reader);
        return DAO_OK;
    }
    switch (reader->expected) {
    case VALUE:
    case VALUE_OR_END:
        return read_value(reader, byte);
    case KEY_OR_END:
    case KEY:
        return byte == '"' ? read_key(reader) : unexpected(reader, byte);
    case FILE_END:
        reader->token = DAO_JSON_TOKEN_END;
        return byte == DAO_TEXT_SOURCE_END ? DAO_OK : unexpected(reader, byte);
    default:
        return unexpected(reader, byte);
    }
}

dao_status_t dao_json_next(dao_json_reader_t *reader)
{
    int byte;
    reader->text_length = 0;
    reader->text[0] = '\0';
    dao_status_t status = skip_white_space(reader, &byte);
    reader->position = (dao_json_position_t){reader->source.line, reader->source.column};
    if (status == DAO_OK && reader->expected == COMMA_OR_END && byte == ',') {
        dao_text_source_take(&reader->source);
        reader->expected = is_in_object(reader) ? KEY : VALUE;
        status = skip_white_space(reader, &byte);
        reader->position = (dao_json_position_t){reader->source.line, reader->source.column};
    }
    return status == DAO_OK ? next_token(reader, byte) : status;
}

dao_status_t dao_json_next_document(dao_json_reader_t *reader, bool *out_more)
{
    int byte = DAO_TEXT_SOURCE_END;
    dao_status_t status = skip_white_space(reader, &byte);
    *out_more = byte != DAO_TEXT_SOURCE_END;
    reader->position = (dao_json_position_t){reader->source.line, reader->source.column};
    reader->expected = *out_more ? VALUE : FILE_END;
    return status;
}

dao_status_t dao_json_expect(dao_json_reader_t *reader, dao_json_token_t wanted, const char *what)
{
    dao_status_t status = dao_json_next(reader);
    if (status == DAO_OK && reader->token != wanted) {
        return dao_json_error(reader, "expected %s, found %s", what, dao_json_token_text(reader->token));
    }
    return status;
}

dao_status_t dao_json_skip(dao_json_reader_t *reader)
{
    bool is_open =
        reader->token == DAO_JSON_TOKEN_OBJECT_BEGIN || reader->token == DAO_JSON_TOKEN_ARRAY_BEGIN;
    uint32_t outside = reader->depth - (is_open ? 1 : 0);
    dao_status_t status = DAO_OK;
    while (status == DAO_OK && reader->depth > outside) {
        status = dao_json_next(reader);
    }
    return status;
}
