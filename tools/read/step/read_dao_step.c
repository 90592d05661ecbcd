/* SPDX-License-Identifier: Apache-2.0 */
/* A line at a time, a word at a time. The operands of an operator may stand in any order; they are kept until
   its line ends, and then told to the trace in the order that it asks for. Temporaries keep their order.

   One map has the ids of tensors and of aliases: an alias is its number + ALIAS_ID. */
#include "tools/read/step/read_dao_step.h"

#include "base/report/step_form.h"
#include "base/text/printable.h"
#include "tools/base/grow.h"
#include "tools/read/text/word_reader.h"

#include <inttypes.h>
#include <string.h>

/* The version of the form that is read. */
#define FORM_VERSION UINT64_C(1)

#define ALIAS_ID (UINT64_C(1) << 32)

typedef struct item {
    char sign; /* a dao_step_sign_t */
    uint32_t tensor;
    uint32_t alias;
    uint64_t column;
} item_t;

typedef struct dao_step_reader {
    dao_word_reader_t words;
    dao_id_map_t ids;
    dao_id_map_t texts; /* tags and modules, which recur: text -> its offset in the trace's names */
    dao_step_trace_t *trace;
    item_t *items;
    size_t item_count, item_capacity;
    bool has_model, has_batch;
    bool has_ended;
} dao_step_reader_t;

/* ---- words ---- */

static int hex_digit(char digit)
{
    const char *digits = "0123456789ABCDEF";
    const char *at = digit != '\0' ? strchr(digits, digit) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

/* Replaces %XX by the bytes that they stand for, and what cannot be printed. `text` is in the last word. */
static dao_status_t unescape(const dao_word_reader_t *words, char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        int high = hex_digit(from[1]), low = high >= 0 ? hex_digit(from[2]) : -1;
        if (low < 0 || high * 16 + low == 0) {
            return dao_word_error(words, DAO_ERR_PARSE, "behind %% stand two digits of 0 to 9 and A to F");
        }
        *to++ = (char)(high * 16 + low);
        from += 2;
    }
    *to = '\0';
    dao_make_printable(text);
    return *text != '\0' ? DAO_OK : dao_word_error(words, DAO_ERR_PARSE, "a name here is empty");
}

/* Returns the value of `key=value`; NULL: the word is something else. */
static char *value_of(dao_word_reader_t *words, const char *key)
{
    size_t length = strlen(key);
    bool is_it = strncmp(words->word, key, length) == 0 && words->word[length] == '=';
    return is_it ? words->word + length + 1 : NULL;
}

static dao_status_t unknown_word(const dao_word_reader_t *words, const char *where)
{
    char shown[33];
    (void)strncpy(shown, words->word, sizeof(shown) - 1);
    shown[sizeof(shown) - 1] = '\0';
    dao_make_printable(shown);
    return dao_word_error(words, DAO_ERR_PARSE, "\"%s\" is unknown %s", shown, where);
}

/* Reads a text that many lines have, as the value of a key. */
static dao_status_t take_text(dao_step_reader_t *reader, char *text, size_t *out_offset)
{
    bool is_known = false;
    uint64_t offset = reader->trace->name_bytes;
    dao_status_t status = unescape(&reader->words, text);
    if (status == DAO_OK) {
        status = dao_id_map_add(&reader->texts, text, strlen(text), offset, &is_known, &offset);
    }
    if (status == DAO_OK && !is_known) {
        return dao_step_trace_add_text(reader->trace, text, out_offset);
    }
    *out_offset = (size_t)offset;
    return status;
}

/* ---- tensors ---- */

/* Finds what an id in the last word names; is_there says whether there is such a thing. */
static bool find_id(const dao_step_reader_t *reader, const char *id, uint32_t *out_tensor,
                    uint32_t *out_alias)
{
    uint64_t number = 0;
    if (!dao_id_map_find(&reader->ids, id, strlen(id), &number)) {
        return false;
    }
    *out_alias = number >= ALIAS_ID ? (uint32_t)(number - ALIAS_ID) : DAO_TRACE_NONE;
    *out_tensor = number >= ALIAS_ID ? reader->trace->aliases[*out_alias].tensor : (uint32_t)number;
    return true;
}

static dao_status_t no_tensor(const dao_step_reader_t *reader, const char *id)
{
    return dao_word_error(&reader->words, DAO_ERR_PARSE, "no line before says what tensor %.64s is", id);
}

/* What a line says of a tensor. */
typedef struct tensor_line {
    char id[DAO_WORD_BYTES_MAX + 1];
    uint64_t size_bytes;
    uint64_t offset_bytes;
    uint32_t base; /* of an alias: the tensor that it is a part of; DAO_TRACE_NONE */
    size_t tag_offset, name_offset;
} tensor_line_t;

static dao_status_t take_tensor_word(dao_step_reader_t *reader, tensor_line_t *line)
{
    dao_word_reader_t *words = &reader->words;
    uint32_t alias = DAO_TRACE_NONE;
    char *value;
    if ((value = value_of(words, "tag")) != NULL) {
        return take_text(reader, value, &line->tag_offset);
    }
    if ((value = value_of(words, "name")) != NULL) {
        dao_status_t status = unescape(words, value);
        return status == DAO_OK ? dao_step_trace_add_text(reader->trace, value, &line->name_offset) : status;
    }
    if ((value = value_of(words, "at")) != NULL) {
        return dao_word_parse_u64(words, value, '\0', "an offset in bytes", &line->offset_bytes);
    }
    if ((value = value_of(words, "of")) == NULL) {
        return unknown_word(words, "of a tensor; there are tag=, name=, of=, at=");
    }
    dao_status_t status = unescape(words, value);
    if (status == DAO_OK && !find_id(reader, value, &line->base, &alias)) {
        return no_tensor(reader, value);
    }
    if (status == DAO_OK && alias != DAO_TRACE_NONE) {
        return dao_word_error(words, DAO_ERR_PARSE, "%.64s is an alias itself; name its tensor", value);
    }
    return status;
}

static dao_status_t add_id(dao_step_reader_t *reader, const char *id, uint64_t number)
{
    bool is_known = false;
    dao_status_t status = dao_id_map_add(&reader->ids, id, strlen(id), number, &is_known, &number);
    return status == DAO_OK && is_known
               ? dao_word_error(&reader->words, DAO_ERR_PARSE, "tensor %.64s was there before", id)
               : status;
}

static dao_status_t add_alias(dao_step_reader_t *reader, const tensor_line_t *line)
{
    dao_trace_alias_t alias = {
        .tensor = line->base, .offset_bytes = line->offset_bytes, .size_bytes = line->size_bytes};
    uint32_t index = 0;
    if (line->tag_offset != DAO_TRACE_NO_NAME || line->name_offset != DAO_TRACE_NO_NAME) {
        return dao_word_error(&reader->words, DAO_ERR_PARSE, "an alias has the tag and name of its tensor");
    }
    dao_status_t status = dao_step_trace_add_alias(reader->trace, line->id, &alias, &index);
    return status == DAO_OK ? add_id(reader, line->id, ALIAS_ID + index)
                            : dao_word_place(&reader->words, status);
}

static dao_status_t add_tensor(dao_step_reader_t *reader, const tensor_line_t *line)
{
    uint32_t index = 0;
    if (line->base != DAO_TRACE_NONE) {
        return add_alias(reader, line);
    }
    if (line->offset_bytes != 0) {
        return dao_word_error(&reader->words, DAO_ERR_PARSE, "at= is for a part: of= is missing");
    }
    dao_status_t status = dao_step_trace_add_tensor(reader->trace, line->id, line->size_bytes, &index);
    if (status == DAO_OK) {
        reader->trace->tensors[index].tag_offset = line->tag_offset;
        reader->trace->tensors[index].name_offset = line->name_offset;
        status = add_id(reader, line->id, index);
    }
    return status;
}

static dao_status_t read_tensor(dao_step_reader_t *reader)
{
    tensor_line_t line = {
        .base = DAO_TRACE_NONE, .tag_offset = DAO_TRACE_NO_NAME, .name_offset = DAO_TRACE_NO_NAME};
    dao_word_reader_t *words = &reader->words;
    dao_status_t status = dao_word_take(words, "a tensor's id");
    if (status == DAO_OK) {
        status = unescape(words, words->word);
    }
    if (status == DAO_OK) {
        memcpy(line.id, words->word, strlen(words->word) + 1);
        status = dao_word_take_u64(words, "a size in bytes", &line.size_bytes);
    }
    while (status == DAO_OK) {
        status = dao_word_next(words);
        if (status != DAO_OK || words->word_length == 0) {
            break;
        }
        status = take_tensor_word(reader, &line);
    }
    return status == DAO_OK ? add_tensor(reader, &line) : status;
}

/* ---- operators ---- */

static dao_trace_operator_t *last_operator(dao_step_reader_t *reader)
{
    return &reader->trace->operators[reader->trace->operator_count - 1];
}

/* `+id:bytes` */
static dao_status_t take_alloc(dao_step_reader_t *reader)
{
    dao_word_reader_t *words = &reader->words;
    uint32_t index = (uint32_t)(reader->trace->operator_count - 1), tensor, alias;
    char *colon = strrchr(words->word, ':');
    uint64_t size_bytes = 0;
    if (colon == NULL) {
        return dao_word_error(words, DAO_ERR_PARSE, "expected a temporary and its bytes, such as +t:4096");
    }
    dao_status_t status = dao_word_parse_u64(words, colon + 1, '\0', "a size in bytes", &size_bytes);
    *colon = '\0';
    if (status == DAO_OK) {
        status = unescape(words, words->word + 1);
    }
    if (status == DAO_OK && find_id(reader, words->word + 1, &tensor, &alias)) {
        return dao_word_error(words, DAO_ERR_PARSE, "%.64s is a tensor, not a temporary", words->word + 1);
    }
    return status == DAO_OK ? dao_word_place(words, dao_step_trace_add_alloc(reader->trace, index,
                                                                             words->word + 1, size_bytes))
                            : status;
}

static dao_status_t add_item(dao_step_reader_t *reader, char sign, uint32_t tensor, uint32_t alias)
{
    item_t *items = dao_tool_grow(reader->items, &reader->item_capacity, reader->item_count, sizeof(*items));
    if (items == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    reader->items = items;
    items[reader->item_count++] =
        (item_t){.sign = sign, .tensor = tensor, .alias = alias, .column = reader->words.column};
    return DAO_OK;
}

/* A word with a sign. */
static dao_status_t take_operand(dao_step_reader_t *reader)
{
    dao_word_reader_t *words = &reader->words;
    const char *id = words->word + 1;
    char sign = words->word[0];
    uint32_t tensor = 0, alias = DAO_TRACE_NONE;
    if (sign == DAO_STEP_SIGN_ALLOC) {
        return take_alloc(reader);
    }
    dao_status_t status = unescape(words, words->word + 1);
    if (status != DAO_OK) {
        return status;
    }
    if (!find_id(reader, id, &tensor, &alias)) {
        uint32_t index = (uint32_t)(reader->trace->operator_count - 1);
        return sign == DAO_STEP_SIGN_FREE
                   ? dao_word_place(words, dao_step_trace_add_free(reader->trace, index, id))
                   : no_tensor(reader, id);
    }
    if (alias != DAO_TRACE_NONE && (sign == DAO_STEP_SIGN_OUTPUT || sign == DAO_STEP_SIGN_FREE)) {
        return dao_word_error(words, DAO_ERR_PARSE, "%.64s is an alias, which has no life of its own", id);
    }
    return add_item(reader, sign, tensor, alias);
}

static dao_status_t take_stream(dao_step_reader_t *reader, const char *text)
{
    uint64_t stream = 0;
    dao_status_t status = dao_word_parse_u64(&reader->words, text, '\0', "a stream's number", &stream);
    if (status == DAO_OK && stream > UINT32_MAX) {
        return dao_word_error(&reader->words, DAO_ERR_PARSE, "a stream's number is at most %" PRIu32,
                              UINT32_MAX);
    }
    last_operator(reader)->stream = (uint32_t)stream;
    return status;
}

static dao_status_t take_operator_word(dao_step_reader_t *reader)
{
    dao_word_reader_t *words = &reader->words;
    char *value;
    if (strchr("<>=*^+-", words->word[0]) != NULL) {
        return take_operand(reader);
    }
    if (strcmp(words->word, "pure") == 0) {
        last_operator(reader)->is_pure = true;
        return DAO_OK;
    }
    if ((value = value_of(words, "module")) != NULL) {
        size_t offset = DAO_TRACE_NO_NAME;
        dao_status_t status = take_text(reader, value, &offset);
        last_operator(reader)->module_offset = offset;
        return status;
    }
    if ((value = value_of(words, "stream")) != NULL) {
        return take_stream(reader, value);
    }
    if ((value = value_of(words, "at")) != NULL) {
        return dao_word_parse_us(words, value, &last_operator(reader)->begin_ns);
    }
    return unknown_word(words, "of an operator; there are module=, stream=, at=, pure, and < > = * ^ + -");
}

/* Adds a write of an alias. One that leaves bytes of its tensor as they were changes it in place. */
static dao_status_t overwrite(dao_step_trace_t *trace, const item_t *item)
{
    bool is_whole = item->alias == DAO_TRACE_NONE ||
                    trace->aliases[item->alias].size_bytes == trace->tensors[item->tensor].size_bytes;
    return is_whole ? dao_step_trace_add_overwrite(trace, item->tensor)
                    : dao_step_trace_add_mutate(trace, item->tensor);
}

static dao_status_t apply_item(dao_step_trace_t *trace, const item_t *item)
{
    switch (item->sign) {
    case DAO_STEP_SIGN_READ:
        return dao_step_trace_add_input(trace, item->tensor);
    case DAO_STEP_SIGN_CHANGE:
        return dao_step_trace_add_mutate(trace, item->tensor);
    case DAO_STEP_SIGN_OUTPUT:
        return dao_step_trace_add_output(trace, item->tensor);
    case DAO_STEP_SIGN_OVERWRITE:
        return overwrite(trace, item);
    case DAO_STEP_SIGN_SAVE:
        return dao_step_trace_add_save(trace, item->tensor);
    default:
        return dao_step_trace_add_release(trace, item->tensor);
    }
}

/* In the order that the trace asks for: what was alive, what comes to life, and what goes. */
static dao_status_t apply_items(dao_step_reader_t *reader)
{
    static const char *const phases[] = {"<*=", ">", "^", "-"};
    dao_status_t status = DAO_OK;
    for (size_t phase = 0; phase < sizeof(phases) / sizeof(phases[0]) && status == DAO_OK; phase++) {
        for (size_t i = 0; i < reader->item_count && status == DAO_OK; i++) {
            const item_t *item = &reader->items[i];
            if (strchr(phases[phase], item->sign) != NULL) {
                dao_step_trace_by_alias(reader->trace, item->alias);
                reader->words.column = item->column;
                status = dao_word_place(&reader->words, apply_item(reader->trace, item));
            }
        }
    }
    return status;
}

static dao_status_t read_operator(dao_step_reader_t *reader)
{
    dao_word_reader_t *words = &reader->words;
    uint64_t cost_ns = 0;
    reader->item_count = 0;
    dao_status_t status = dao_word_take(words, "an operator's name");
    if (status == DAO_OK) {
        status = unescape(words, words->word);
    }
    if (status == DAO_OK) {
        status = dao_step_trace_add_operator(reader->trace, words->word);
        if (status == DAO_OK) {
            last_operator(reader)->is_pure = false; /* the file says which are */
        }
    }
    if (status == DAO_OK) {
        status = dao_word_take(words, "a duration in microseconds");
    }
    if (status == DAO_OK) {
        status = dao_word_parse_us(words, words->word, &cost_ns);
        last_operator(reader)->cost_ns = cost_ns;
    }
    while (status == DAO_OK) {
        status = dao_word_next(words);
        if (status != DAO_OK || words->word_length == 0) {
            break;
        }
        status = take_operator_word(reader);
    }
    return status == DAO_OK ? apply_items(reader) : status;
}

/* ---- the file ---- */

/* The rest of a line as the model's name, or as the batch. */
static dao_status_t read_name(dao_step_reader_t *reader, bool is_model)
{
    dao_word_reader_t *words = &reader->words;
    dao_step_trace_t *trace = reader->trace;
    bool *was_read = is_model ? &reader->has_model : &reader->has_batch;
    if (*was_read) {
        return dao_word_error(words, DAO_ERR_PARSE, "the %s was named before", is_model ? "model" : "batch");
    }
    *was_read = true;
    dao_status_t status = dao_word_rest(words);
    if (status == DAO_OK && words->word_length == 0) {
        return dao_word_error(words, DAO_ERR_PARSE, "the line ends here, expected a name");
    }
    if (status == DAO_OK) {
        char batch[sizeof(trace->batch)], model[sizeof(trace->model)];
        memcpy(batch, trace->batch, sizeof(batch));
        memcpy(model, trace->model, sizeof(model));
        dao_step_trace_name(trace, is_model ? words->word : model,
                            is_model ? words->word_length : strlen(model), is_model ? batch : words->word);
    }
    return status;
}

static dao_status_t begin_backward(dao_step_reader_t *reader)
{
    if (reader->trace->first_backward != DAO_TRACE_NONE) {
        return dao_word_error(&reader->words, DAO_ERR_PARSE, "the backward pass has begun before");
    }
    reader->trace->first_backward = (uint32_t)reader->trace->operator_count;
    return DAO_OK;
}

/* A line whose first word was taken. */
static dao_status_t read_line(dao_step_reader_t *reader)
{
    const char *word = reader->words.word;
    if (word[0] == '\0') {
        return DAO_OK;
    }
    if (word[0] == '#') {
        return dao_word_rest(&reader->words);
    }
    if (strcmp(word, "tensor") == 0) {
        return read_tensor(reader);
    }
    if (strcmp(word, "op") == 0) {
        return read_operator(reader);
    }
    if (strcmp(word, "model") == 0 || strcmp(word, "batch") == 0) {
        return read_name(reader, word[0] == 'm');
    }
    if (strcmp(word, "backward") == 0) {
        return begin_backward(reader);
    }
    reader->has_ended = strcmp(word, "end") == 0;
    return reader->has_ended ? DAO_OK
                             : unknown_word(&reader->words, "here; a line begins with model, batch, tensor, "
                                                            "op, backward, end or #");
}

/* `dao-step 1`, behind lines of remarks. */
static dao_status_t read_mark(dao_step_reader_t *reader)
{
    dao_word_reader_t *words = &reader->words;
    uint64_t version = 0;
    dao_status_t status = dao_word_next(words);
    while (status == DAO_OK && words->word[0] == '#') {
        status = dao_word_rest(words);
        status = status == DAO_OK ? dao_word_end_line(words) : status;
        status = status == DAO_OK ? dao_word_next(words) : status;
    }
    if (status == DAO_OK && strcmp(words->word, DAO_STEP_FILE_MARK) != 0) {
        return dao_word_error(words, DAO_ERR_PARSE, "the first line is not " DAO_STEP_FILE_MARK " 1");
    }
    status = status == DAO_OK ? dao_word_take_u64(words, "the form's version", &version) : status;
    if (status == DAO_OK && version != FORM_VERSION) {
        return dao_word_error(words, DAO_ERR_UNSUPPORTED,
                              "the form has version %" PRIu64 ", this program reads %" PRIu64, version,
                              FORM_VERSION);
    }
    return status == DAO_OK ? dao_word_end_line(words) : status;
}

static dao_status_t read_all(dao_step_reader_t *reader)
{
    dao_word_reader_t *words = &reader->words;
    dao_status_t status = read_mark(reader);
    while (status == DAO_OK && !reader->has_ended) {
        int byte = 0;
        status = dao_text_source_peek(&words->source, &byte);
        if (status == DAO_OK && byte == DAO_TEXT_SOURCE_END) {
            words->line = words->source.line;
            words->column = words->source.column;
            return dao_word_error(words, DAO_ERR_PARSE, "the file is cut off: there is no line end");
        }
        status = status == DAO_OK ? dao_word_next(words) : status;
        status = status == DAO_OK ? read_line(reader) : status;
        status = status == DAO_OK ? dao_word_end_line(words) : status;
    }
    status = status == DAO_OK ? dao_word_end_file(words) : status;
    if (status == DAO_OK && reader->trace->first_backward == reader->trace->operator_count) {
        reader->trace->first_backward = DAO_TRACE_NONE;
    }
    return status == DAO_OK ? dao_step_trace_pack(reader->trace) : status;
}

dao_status_t dao_read_dao_step(const char *path, dao_step_trace_t *out_trace)
{
    dao_step_trace_t trace;
    dao_step_reader_t *reader = dao_host_calloc(1, sizeof(*reader));
    if (reader == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%.200s: no memory to read it", path);
    }
    dao_status_t status = dao_word_open(&reader->words, path, DAO_WORD_BYTES_MAX);
    if (status != DAO_OK) {
        dao_host_free(reader);
        return status;
    }
    dao_step_trace_init(&trace);
    dao_step_trace_name_file(&trace, path);
    dao_id_map_init(&reader->ids);
    dao_id_map_init(&reader->texts);
    reader->trace = &trace;
    status = read_all(reader);
    dao_id_map_finish(&reader->ids);
    dao_id_map_finish(&reader->texts);
    dao_host_free(reader->items);
    dao_word_close(&reader->words);
    dao_host_free(reader);
    if (status == DAO_OK) {
        *out_trace = trace;
    } else {
        dao_step_trace_finish(&trace);
    }
    return status;
}
