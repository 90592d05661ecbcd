/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON array of objects, a row each, printed at the end: json-c writes it, and knows how to escape. The
   first failure stays; what comes after it does nothing. */
#ifndef DAO_TOOLS_JSON_ROWS_H
#define DAO_TOOLS_JSON_ROWS_H

#include <json-c/json_types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dao_json_rows {
    struct json_object *rows;
    struct json_object *row; /* the last one */
    bool has_failed;         /* no memory */
} dao_json_rows_t;

void dao_json_rows_init(dao_json_rows_t *rows);
void dao_json_rows_finish(dao_json_rows_t *rows);

/* Begins a row; values go into the last one. */
void dao_json_rows_begin(dao_json_rows_t *rows);
void dao_json_rows_text(dao_json_rows_t *rows, const char *key, const char *text);
void dao_json_rows_count(dao_json_rows_t *rows, const char *key, uint64_t count);
/* An array of counts. */
void dao_json_rows_counts(dao_json_rows_t *rows, const char *key, const uint64_t *counts, size_t count);
void dao_json_rows_decimal(dao_json_rows_t *rows, const char *key, double value, int decimals);
void dao_json_rows_flag(dao_json_rows_t *rows, const char *key, bool flag);
void dao_json_rows_null(dao_json_rows_t *rows, const char *key);

/* Prints the array. False: there was no memory for it, and nothing is printed. */
bool dao_json_rows_print(dao_json_rows_t *rows);

#endif
