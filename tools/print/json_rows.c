/* SPDX-License-Identifier: Apache-2.0 */
/* A value that could not be made is NULL, which json-c takes for null: that is a failure unless null was
   meant. */
#include "tools/print/json_rows.h"

#include "tools/base/progress.h"
#include "tools/print/json_string.h"

#include <json-c/json.h>

#include <stdio.h>

void dao_json_rows_init(dao_json_rows_t *rows)
{
    *rows = (dao_json_rows_t){.rows = json_object_new_array()};
    rows->has_failed = rows->rows == NULL;
}

void dao_json_rows_finish(dao_json_rows_t *rows)
{
    (void)json_object_put(rows->rows);
    *rows = (dao_json_rows_t){.rows = NULL};
}

void dao_json_rows_begin(dao_json_rows_t *rows)
{
    rows->row = rows->has_failed ? NULL : json_object_new_object();
    if (rows->row == NULL || json_object_array_add(rows->rows, rows->row) != 0) {
        rows->has_failed = true;
        (void)json_object_put(rows->row);
        rows->row = NULL;
    }
}

/* Takes `value` over. */
static void put(dao_json_rows_t *rows, const char *key, struct json_object *value)
{
    if (rows->row == NULL || json_object_object_add(rows->row, key, value) != 0) {
        rows->has_failed = true;
        (void)json_object_put(value);
    }
}

static void put_value(dao_json_rows_t *rows, const char *key, struct json_object *value)
{
    rows->has_failed = rows->has_failed || value == NULL;
    put(rows, key, value);
}

void dao_json_rows_text(dao_json_rows_t *rows, const char *key, const char *text)
{
    put_value(rows, key, dao_json_string(text));
}

void dao_json_rows_count(dao_json_rows_t *rows, const char *key, uint64_t count)
{
    put_value(rows, key, json_object_new_uint64(count));
}

void dao_json_rows_counts(dao_json_rows_t *rows, const char *key, const uint64_t *counts, size_t count)
{
    struct json_object *array = json_object_new_array();
    for (size_t i = 0; i < count && array != NULL; i++) {
        struct json_object *value = json_object_new_uint64(counts[i]);
        if (value == NULL || json_object_array_add(array, value) != 0) {
            (void)json_object_put(value);
            (void)json_object_put(array);
            array = NULL;
        }
    }
    put_value(rows, key, array);
}

void dao_json_rows_decimal(dao_json_rows_t *rows, const char *key, double value, int decimals)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%.*f", decimals, value);
    put_value(rows, key, json_object_new_double_s(value, text));
}

void dao_json_rows_flag(dao_json_rows_t *rows, const char *key, bool flag)
{
    put_value(rows, key, json_object_new_boolean(flag));
}

void dao_json_rows_null(dao_json_rows_t *rows, const char *key)
{
    put(rows, key, NULL);
}

bool dao_json_rows_print(dao_json_rows_t *rows)
{
    const char *text = rows->has_failed
                           ? NULL
                           : json_object_to_json_string_ext(rows->rows, JSON_C_TO_STRING_PRETTY |
                                                                            JSON_C_TO_STRING_NOSLASHESCAPE);
    if (text == NULL) {
        (void)fprintf(stderr, "dao: no memory for the JSON array\n");
        return false;
    }
    dao_progress_hide();
    (void)puts(text);
    return true;
}
