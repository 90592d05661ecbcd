/* SPDX-License-Identifier: Apache-2.0 */
/* The containers that are open stand in an array: nesting takes no C stack.

   Invariant: open[0 .. depth) are those that the reader is inside of, the innermost last, each with the key
   that its next item belongs to. */
#include "tools/read/foreign/values/json_values.h"

#include "base/report/error.h"
#include "tools/read/text/json_reader.h"

#include <string.h>

typedef struct json_values {
    dao_json_reader_t json;
    dao_value_store_t *store;
    struct {
        dao_value_t container;
        dao_value_t key;
    } open[DAO_JSON_DEPTH_MAX];
    uint32_t depth;
    dao_value_t top;
} json_values_t;

/* Puts a value, which is complete, into the innermost container. */
static dao_status_t put(json_values_t *values, dao_value_t value)
{
    if (values->depth == 0) {
        values->top = value;
        return DAO_OK;
    }
    dao_value_t container = values->open[values->depth - 1].container;
    return container.type == DAO_VALUE_TYPE_LIST
               ? dao_value_hand_over(values->store, container, &value, true)
               : dao_value_set(values->store, container, values->open[values->depth - 1].key, value);
}

static dao_status_t open_container(json_values_t *values, bool is_list)
{
    dao_value_t container;
    dao_status_t status = is_list ? dao_value_make_list(values->store, &container)
                                  : dao_value_make_dict(values->store, &container);
    if (status == DAO_OK) { /* the reader bounds the depth */
        values->open[values->depth].container = container;
        values->open[values->depth++].key = (dao_value_t){0};
    }
    return status;
}

static dao_status_t close_container(json_values_t *values)
{
    dao_value_t container = values->open[--values->depth].container;
    dao_status_t status = dao_value_complete(values->store, &container);
    return status == DAO_OK ? put(values, container) : status;
}

/* Fractions and exponents are kept as numbers that nobody asks for. */
static dao_status_t put_number(json_values_t *values)
{
    const char *text = values->json.text;
    bool is_negative = text[0] == '-';
    dao_value_t value = {.type = DAO_VALUE_TYPE_REAL};
    if (is_negative) {
        value.type = DAO_VALUE_TYPE_NEGATIVE;
    } else if (strspn(text, "0123456789") == strlen(text)) {
        value.type = DAO_VALUE_TYPE_COUNT;
        dao_status_t status = dao_json_u64(&values->json, &value.payload);
        if (status != DAO_OK) {
            return status;
        }
    }
    return put(values, value);
}

static dao_status_t put_text(json_values_t *values)
{
    dao_value_t text;
    dao_status_t status =
        dao_value_make_text(values->store, values->json.text, values->json.text_length, &text);
    return status == DAO_OK ? put(values, text) : status;
}

static dao_status_t take_token(json_values_t *values)
{
    switch (values->json.token) {
    case DAO_JSON_TOKEN_OBJECT_BEGIN:
    case DAO_JSON_TOKEN_ARRAY_BEGIN:
        return open_container(values, values->json.token == DAO_JSON_TOKEN_ARRAY_BEGIN);
    case DAO_JSON_TOKEN_OBJECT_END:
    case DAO_JSON_TOKEN_ARRAY_END:
        return close_container(values);
    case DAO_JSON_TOKEN_KEY:
        return dao_value_make_text(values->store, values->json.text, values->json.text_length,
                                   &values->open[values->depth - 1].key);
    case DAO_JSON_TOKEN_STRING:
        return put_text(values);
    case DAO_JSON_TOKEN_NUMBER:
        return put_number(values);
    case DAO_JSON_TOKEN_TRUE:
    case DAO_JSON_TOKEN_FALSE:
        return put(values, (dao_value_t){.type = DAO_VALUE_TYPE_FLAG,
                                         .payload = values->json.token == DAO_JSON_TOKEN_TRUE});
    default:
        return put(values, (dao_value_t){0});
    }
}

dao_status_t dao_json_values_read(const char *path, dao_value_store_t *store, dao_value_t *out_value)
{
    json_values_t values = {.store = store};
    dao_status_t status = dao_json_reader_open(&values.json, path);
    if (status != DAO_OK) {
        return status;
    }
    do {
        status = dao_json_next(&values.json);
        if (status == DAO_OK && values.json.token != DAO_JSON_TOKEN_END) {
            status = take_token(&values);
        }
    } while (status == DAO_OK && values.json.token != DAO_JSON_TOKEN_END);
    dao_json_reader_close(&values.json);
    *out_value = values.top;
    return status;
}
