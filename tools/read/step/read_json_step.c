/* SPDX-License-Identifier: Apache-2.0 */
/* Four files make a step. They are read one after the other, each value as it comes:

       tensor_size   id -> bytes                     every size, by its id
       io_info       a list of operators             which ids are tensors, and which operators use them
       resize_info   a list for every operator       which of the ids are temporaries, in order
       cost_info     operator -> milliseconds

   io_info's fields may stand in any order, so an operator's ids are kept with their places until it is
   complete; then the model checks them in the order in which they happen. `temporary` is only checked for its
   form: resize_info says the same and more, and older files have other things there. */
#include "tools/read/step/read_json_step.h"

#include "base/text/printable.h"
#include "tools/base/grow.h"
#include "tools/read/step/trace_files.h"
#include "tools/read/text/json_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ID_BYTES_MAX = 64 };

/* What the files say about an id. */
typedef struct size_entry {
    uint64_t size_bytes;
    uint32_t tensor; /* DAO_TRACE_NONE: no operator names it */
    bool is_temporary;
} size_entry_t;

/* How an operator names a tensor, in the order in which it happens. */
typedef enum mention {
    MENTION_INPUT,
    MENTION_MUTATE,
    MENTION_OUTPUT,
    MENTION_RELEASE,
    MENTION_COUNT,
} id_mention_t;

typedef struct item {
    id_mention_t mention;
    uint32_t tensor;
    dao_json_position_t position;
} item_t;

typedef struct step_reader {
    dao_step_trace_t *trace;
    dao_json_reader_t json;
    dao_id_map_t ids;      /* id -> index of its entry */
    size_entry_t *entries; /* in the order of the ids' text */
    size_t entry_count, entry_capacity;
    item_t *items; /* of the operator that is being read */
    size_t item_count, item_capacity;
    bool is_open; /* json */
} step_reader_t;

static dao_status_t open_file(step_reader_t *reader, const char *path)
{
    dao_status_t status = dao_json_reader_open(&reader->json, path);
    reader->is_open = status == DAO_OK;
    return status;
}

static void close_file(step_reader_t *reader)
{
    if (reader->is_open) {
        dao_json_reader_close(&reader->json);
    }
    reader->is_open = false;
}

static dao_status_t check_id(step_reader_t *reader)
{
    const char *text = reader->json.text;
    bool is_plain = reader->json.text_length >= 1 && reader->json.text_length <= ID_BYTES_MAX;
    for (; is_plain && *text != '\0'; text++) {
        is_plain = *text > ' ' && *text <= '~';
    }
    char quoted[DAO_JSON_QUOTE_BYTES];
    return is_plain ? DAO_OK
                    : dao_json_error(&reader->json, "%s is no id: those are 1 to %d printable characters",
                                     dao_json_quote(reader->json.text, quoted), ID_BYTES_MAX);
}

/* Makes the last token, a whole number or a string, an id in reader->json.text. */
static dao_status_t take_id(step_reader_t *reader)
{
    uint64_t number;
    switch (reader->json.token) {
    case DAO_JSON_TOKEN_NUMBER:
        return dao_json_u64(&reader->json, &number);
    case DAO_JSON_TOKEN_STRING:
        return check_id(reader);
    default:
        return dao_json_error(&reader->json, "expected an id, found %s",
                              dao_json_token_text(reader->json.token));
    }
}

/* Finds the entry of the id in reader->json.text. */
static dao_status_t find_entry(step_reader_t *reader, size_entry_t **out_entry)
{
    uint64_t index;
    if (!dao_id_map_find(&reader->ids, reader->json.text, reader->json.text_length, &index)) {
        return dao_json_error(&reader->json, "id %s has no size in tensor_size", reader->json.text);
    }
    *out_entry = &reader->entries[index];
    return DAO_OK;
}

static dao_status_t add_size(step_reader_t *reader)
{
    size_entry_t *entries =
        dao_tool_grow(reader->entries, &reader->entry_capacity, reader->entry_count, sizeof(*entries));
    if (entries == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    reader->entries = entries;
    uint64_t index;
    bool is_found; /* never: the reader has refused equal keys */
    dao_status_t status = dao_id_map_add(&reader->ids, reader->json.text, reader->json.text_length,
                                         reader->entry_count, &is_found, &index);
    if (status == DAO_OK) {
        entries[reader->entry_count++] = (size_entry_t){.tensor = DAO_TRACE_NONE};
    }
    return status;
}

static dao_status_t read_sizes(step_reader_t *reader)
{
    dao_json_reader_t *json = &reader->json;
    dao_status_t status = dao_json_expect(json, DAO_JSON_TOKEN_OBJECT_BEGIN, "an object of sizes");
    while (status == DAO_OK) {
        status = dao_json_next(json);
        if (status != DAO_OK || json->token == DAO_JSON_TOKEN_OBJECT_END) {
            break;
        }
        status = check_id(reader);
        if (status == DAO_OK) {
            status = add_size(reader);
        }
        if (status == DAO_OK) {
            status = dao_json_expect(json, DAO_JSON_TOKEN_NUMBER, "a size in bytes");
        }
        if (status == DAO_OK) {
            status = dao_json_u64(json, &reader->entries[reader->entry_count - 1].size_bytes);
        }
    }
    return status;
}

static dao_status_t find_tensor(step_reader_t *reader, uint32_t *out_tensor)
{
    size_entry_t *entry;
    dao_status_t status = find_entry(reader, &entry);
    if (status == DAO_OK && entry->tensor == DAO_TRACE_NONE) {
        status =
            dao_step_trace_add_tensor(reader->trace, reader->json.text, entry->size_bytes, &entry->tensor);
    }
    if (status == DAO_OK) {
        *out_tensor = entry->tensor;
    }
    return status;
}

static dao_status_t add_item(step_reader_t *reader, id_mention_t mention)
{
    item_t *items = dao_tool_grow(reader->items, &reader->item_capacity, reader->item_count, sizeof(*items));
    if (items == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    reader->items = items;
    uint32_t tensor;
    dao_status_t status = find_tensor(reader, &tensor);
    if (status == DAO_OK) {
        items[reader->item_count++] = (item_t){mention, tensor, reader->json.position};
    }
    return status;
}

/* Reads a list of ids; MENTION_COUNT only checks their form. */
static dao_status_t read_ids(step_reader_t *reader, id_mention_t mention)
{
    dao_status_t status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_ARRAY_BEGIN, "a list of ids");
    while (status == DAO_OK) {
        status = dao_json_next(&reader->json);
        if (status != DAO_OK || reader->json.token == DAO_JSON_TOKEN_ARRAY_END) {
            break;
        }
        status = take_id(reader);
        if (status == DAO_OK && mention != MENTION_COUNT) {
            status = add_item(reader, mention);
        }
    }
    return status;
}

static dao_status_t read_name(step_reader_t *reader)
{
    dao_status_t status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_STRING, "the operator's name");
    if (status == DAO_OK) {
        dao_make_printable(reader->json.text);
        status = dao_step_trace_add_operator(reader->trace, reader->json.text);
    }
    return status;
}

static dao_status_t read_index(step_reader_t *reader, uint64_t wanted)
{
    uint64_t index = 0;
    dao_status_t status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_NUMBER, "the operator's number");
    if (status == DAO_OK) {
        status = dao_json_u64(&reader->json, &index);
    }
    if (status == DAO_OK && index != wanted) {
        return dao_json_error(&reader->json, "operator %" PRIu64 " says that it is number %" PRIu64, wanted,
                              index);
    }
    return status;
}

/* The fields of an operator. */
enum {
    FIELD_OP,
    FIELD_ID,
    FIELD_INPUTS,
    FIELD_OUTPUTS,
    FIELD_RELEASE,
    FIELD_MUTATES,
    FIELD_TEMPORARY,
    FIELD_COUNT
};

enum {
    REQUIRED_FIELDS =
        1 << FIELD_OP | 1 << FIELD_ID | 1 << FIELD_INPUTS | 1 << FIELD_OUTPUTS | 1 << FIELD_RELEASE
};

static const char *const field_names[FIELD_COUNT] = {"op",      "id",      "inputs",   "outputs",
                                                     "release", "mutates", "temporary"};

static dao_status_t read_field(step_reader_t *reader, unsigned field, uint64_t index)
{
    switch (field) {
    case FIELD_OP:
        return read_name(reader);
    case FIELD_ID:
        return read_index(reader, index);
    case FIELD_INPUTS:
        return read_ids(reader, MENTION_INPUT);
    case FIELD_MUTATES:
        return read_ids(reader, MENTION_MUTATE);
    case FIELD_OUTPUTS:
        return read_ids(reader, MENTION_OUTPUT);
    case FIELD_RELEASE:
        return read_ids(reader, MENTION_RELEASE);
    case FIELD_TEMPORARY:
        return read_ids(reader, MENTION_COUNT);
    default:
        reader->trace->ignored_count++;
        dao_status_t status = dao_json_next(&reader->json);
        return status == DAO_OK ? dao_json_skip(&reader->json) : status;
    }
}

static dao_status_t check_fields(step_reader_t *reader, unsigned seen, uint64_t index)
{
    for (unsigned field = 0; field < FIELD_COUNT; field++) {
        if ((REQUIRED_FIELDS >> field & 1) != 0 && (seen >> field & 1) == 0) {
            return dao_json_error(&reader->json, "operator %" PRIu64 " has no \"%s\"", index,
                                  field_names[field]);
        }
    }
    return DAO_OK;
}

static dao_status_t apply_items(step_reader_t *reader)
{
    static dao_status_t (*const apply[MENTION_COUNT])(dao_step_trace_t *, uint32_t) = {
        dao_step_trace_add_input, dao_step_trace_add_mutate, dao_step_trace_add_output,
        dao_step_trace_add_release};
    for (unsigned mention = 0; mention < MENTION_COUNT; mention++) {
        for (size_t i = 0; i < reader->item_count; i++) {
            const item_t *item = &reader->items[i];
            if (item->mention != mention) {
                continue;
            }
            dao_status_t status = apply[mention](reader->trace, item->tensor);
            if (status != DAO_OK) {
                return dao_json_prefix(&reader->json, item->position, status);
            }
        }
    }
    return DAO_OK;
}

/* Behind the operator's opening brace. */
static dao_status_t read_operator(step_reader_t *reader, uint64_t index)
{
    unsigned seen = 0;
    reader->item_count = 0;
    for (;;) {
        dao_status_t status = dao_json_next(&reader->json);
        if (status != DAO_OK) {
            return status;
        }
        if (reader->json.token == DAO_JSON_TOKEN_OBJECT_END) {
            status = check_fields(reader, seen, index);
            return status == DAO_OK ? apply_items(reader) : status;
        }
        unsigned field = 0;
        while (field < FIELD_COUNT && strcmp(reader->json.text, field_names[field]) != 0) {
            field++;
        }
        seen |= 1u << field;
        status = read_field(reader, field, index);
        if (status != DAO_OK) {
            return status;
        }
    }
}

static dao_status_t read_operators(step_reader_t *reader)
{
    dao_status_t status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_ARRAY_BEGIN, "a list of operators");
    for (uint64_t index = 0; status == DAO_OK; index++) {
        status = dao_json_next(&reader->json);
        if (status != DAO_OK || reader->json.token == DAO_JSON_TOKEN_ARRAY_END) {
            break;
        }
        if (reader->json.token != DAO_JSON_TOKEN_OBJECT_BEGIN) {
            return dao_json_error(&reader->json, "expected an operator, found %s",
                                  dao_json_token_text(reader->json.token));
        }
        status = read_operator(reader, index);
    }
    return status;
}

/* Sizes that no operator names: whole numbers are tensors that live all through the step, others are
   ignored. */
static dao_status_t add_idle_tensors(step_reader_t *reader)
{
    const char *id = reader->ids.text;
    for (size_t i = 0; i < reader->entry_count; i++, id += strlen(id) + 1) {
        size_entry_t *entry = &reader->entries[i];
        if (entry->tensor != DAO_TRACE_NONE || entry->is_temporary) {
            continue;
        }
        if (strspn(id, "0123456789") != strlen(id)) {
            reader->trace->ignored_count++;
            continue;
        }
        dao_status_t status = dao_step_trace_add_tensor(reader->trace, id, entry->size_bytes, &entry->tensor);
        if (status != DAO_OK) {
            return status;
        }
    }
    return DAO_OK;
}

/* Behind `[`: "alloc" or "free", and an id. */
static dao_status_t read_event(step_reader_t *reader, uint32_t index)
{
    dao_json_reader_t *json = &reader->json;
    dao_status_t status = dao_json_expect(json, DAO_JSON_TOKEN_STRING, "\"alloc\" or \"free\"");
    if (status != DAO_OK) {
        return status;
    }
    bool is_alloc = strcmp(json->text, "alloc") == 0;
    if (!is_alloc && strcmp(json->text, "free") != 0) {
        char quoted[DAO_JSON_QUOTE_BYTES];
        return dao_json_error(json, "expected \"alloc\" or \"free\", found %s",
                              dao_json_quote(json->text, quoted));
    }
    status = dao_json_next(json);
    if (status == DAO_OK) {
        status = take_id(reader);
    }
    size_entry_t *entry = NULL;
    if (status == DAO_OK) {
        status = find_entry(reader, &entry);
    }
    if (status != DAO_OK) {
        return status;
    }
    if (entry->tensor != DAO_TRACE_NONE) {
        return dao_json_error(json, "id %s is a tensor of an operator, not a temporary", json->text);
    }
    entry->is_temporary = true;
    status = is_alloc ? dao_step_trace_add_alloc(reader->trace, index, json->text, entry->size_bytes)
                      : dao_step_trace_add_free(reader->trace, index, json->text);
    status = dao_json_prefix(&reader->json, json->position, status);
    return status == DAO_OK ? dao_json_expect(json, DAO_JSON_TOKEN_ARRAY_END, "\"]\"") : status;
}

/* Behind the `[` of an operator. */
static dao_status_t read_events(step_reader_t *reader, uint32_t index)
{
    dao_step_trace_begin_temporaries(reader->trace, index);
    dao_status_t status = DAO_OK;
    while (status == DAO_OK) {
        status = dao_json_next(&reader->json);
        if (status != DAO_OK || reader->json.token == DAO_JSON_TOKEN_ARRAY_END) {
            break;
        }
        if (reader->json.token != DAO_JSON_TOKEN_ARRAY_BEGIN) {
            return dao_json_error(&reader->json, "expected [action, id], found %s",
                                  dao_json_token_text(reader->json.token));
        }
        status = read_event(reader, index);
    }
    return status;
}

static dao_status_t read_temporaries(step_reader_t *reader)
{
    size_t count = reader->trace->operator_count;
    dao_status_t status =
        dao_json_expect(&reader->json, DAO_JSON_TOKEN_ARRAY_BEGIN, "a list for every operator");
    for (size_t index = 0; status == DAO_OK; index++) {
        status = dao_json_next(&reader->json);
        if (status != DAO_OK) {
            break;
        }
        bool is_end = reader->json.token == DAO_JSON_TOKEN_ARRAY_END;
        if (is_end && index == count) {
            break;
        }
        if (is_end || index == count) {
            return dao_json_error(&reader->json, "%s lists than the %zu operators", is_end ? "fewer" : "more",
                                  count);
        }
        if (reader->json.token != DAO_JSON_TOKEN_ARRAY_BEGIN) {
            return dao_json_error(&reader->json, "expected a list of [action, id], found %s",
                                  dao_json_token_text(reader->json.token));
        }
        status = read_events(reader, (uint32_t)index);
    }
    return status;
}

/* Reads the last token, a key, as the number of an operator. */
static dao_status_t take_operator(step_reader_t *reader, uint32_t *out_index)
{
    const char *text = reader->json.text;
    uint64_t index = 0;
    bool is_number = *text != '\0' && (text[0] != '0' || text[1] == '\0');
    for (; is_number && *text != '\0'; text++) {
        is_number = *text >= '0' && *text <= '9' && index <= UINT32_MAX;
        index = index * 10 + (uint64_t)(*text - '0');
    }
    if (!is_number || index >= reader->trace->operator_count) {
        char quoted[DAO_JSON_QUOTE_BYTES];
        return dao_json_error(&reader->json, "%s is none of the %zu operators",
                              dao_json_quote(reader->json.text, quoted), reader->trace->operator_count);
    }
    *out_index = (uint32_t)index;
    return DAO_OK;
}

/* Keys are unique, so as many of them as operators means one for each. */
static dao_status_t read_costs(step_reader_t *reader)
{
    dao_json_reader_t *json = &reader->json;
    size_t count = 0;
    dao_status_t status = dao_json_expect(json, DAO_JSON_TOKEN_OBJECT_BEGIN, "an object of costs");
    for (; status == DAO_OK; count++) {
        status = dao_json_next(json);
        if (status != DAO_OK || json->token == DAO_JSON_TOKEN_OBJECT_END) {
            break;
        }
        uint32_t index = 0;
        status = take_operator(reader, &index);
        if (status == DAO_OK) {
            status = dao_json_expect(json, DAO_JSON_TOKEN_NUMBER, "milliseconds");
        }
        if (status == DAO_OK) {
            status = dao_json_ms_as_ns(json, &reader->trace->operators[index].cost_ns);
        }
    }
    if (status == DAO_OK && count < reader->trace->operator_count) {
        return dao_json_error(json, "%zu costs for %zu operators", count, reader->trace->operator_count);
    }
    return status;
}

static dao_status_t read_file(step_reader_t *reader, const char *path, dao_status_t (*read)(step_reader_t *))
{
    dao_status_t status = open_file(reader, path);
    if (status == DAO_OK) {
        status = read(reader);
    }
    if (status == DAO_OK) {
        status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_END, "the file's end");
    }
    close_file(reader);
    return status;
}

static dao_status_t read_all(step_reader_t *reader, const dao_trace_files_t *files)
{
    dao_status_t status = read_file(reader, files->tensor_size, read_sizes);
    if (status == DAO_OK) {
        status = read_file(reader, files->io_info, read_operators);
    }
    if (status == DAO_OK) {
        status = read_file(reader, files->resize_info, read_temporaries);
    }
    if (status == DAO_OK) {
        status = read_file(reader, files->cost_info, read_costs);
    }
    if (status == DAO_OK) {
        status = add_idle_tensors(reader);
    }
    return status == DAO_OK ? dao_step_trace_pack(reader->trace) : status;
}

dao_status_t dao_read_json_step(const char *path, const char *batch, dao_step_trace_t *out_trace)
{
    dao_trace_files_t *files = dao_host_calloc(1, sizeof(*files));
    step_reader_t *reader = dao_host_calloc(1, sizeof(*reader));
    dao_step_trace_t trace;
    dao_step_trace_init(&trace);
    trace.keeps_temporaries = true;
    dao_status_t status = DAO_OK;
    if (files == NULL || reader == NULL) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "%.200s: no memory to read it", path);
    }
    if (status == DAO_OK) {
        status = dao_trace_files_find(path, batch, files);
    }
    if (status == DAO_OK) {
        reader->trace = &trace;
        dao_id_map_init(&reader->ids);
        status = read_all(reader, files);
        dao_id_map_finish(&reader->ids);
        dao_host_free(reader->entries);
        dao_host_free(reader->items);
    }
    if (status == DAO_OK) {
        dao_step_trace_name(&trace, files->model, strlen(files->model), files->batch);
        *out_trace = trace;
    } else {
        dao_step_trace_finish(&trace);
    }
    dao_host_free(files);
    dao_host_free(reader);
    return status;
}
