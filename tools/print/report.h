/* SPDX-License-Identifier: Apache-2.0 */
/* What a command prints: for people rows of a label and a value, for programs one JSON object. Each value is
   given once, so that the two cannot differ. */
#ifndef DAO_TOOLS_REPORT_H
#define DAO_TOOLS_REPORT_H

#include "base/report/format.h"

#include <dao/api.h>

#include <json-c/json_types.h>

typedef struct dao_report {
    bool is_json;
    bool has_failed;            /* no memory for the JSON object */
    struct json_object *object; /* or an array */
} dao_report_t;

void dao_report_begin(dao_report_t *report, bool is_json);

/* In all of these, `key` NULL: only for people; `label` NULL: only for programs. */
void dao_report_text(dao_report_t *report, const char *key, const char *label, const char *text);
void dao_report_count(dao_report_t *report, const char *key, const char *label, uint64_t count);
void dao_report_bytes(dao_report_t *report, const char *key, const char *label, uint64_t size_bytes);
void dao_report_flag(dao_report_t *report, const char *key, const char *label, bool flag);
/* Seconds with nine decimals for programs, milliseconds with three for people. */
void dao_report_time(dao_report_t *report, const char *key, const char *label, uint64_t time_ns);
void dao_report_ratio(dao_report_t *report, const char *key, const char *label, double ratio);
/* With nine decimals; for programs alone. */
void dao_report_number(dao_report_t *report, const char *key, double value);
/* A value that is not known: null for programs, and why for people. */
void dao_report_unknown(dao_report_t *report, const char *key, const char *label, const char *why);
/* A row for people alone. What is not printable of it is replaced, as in all rows. */
DAO_PRINTF(2, 3) void dao_report_row(const char *label, const char *format, ...);
/* An array of the object's, for items that the caller makes as reports of their own. */
void dao_report_item(dao_report_t *report, const char *key, dao_report_t *item);

/* A report that is an array of items for programs, and rows of the caller's for people. */
void dao_report_begin_list(dao_report_t *report, bool is_json);
void dao_report_list_item(dao_report_t *report, dao_report_t *item);

/* Returns the object as JSON, borrowed until it changes; NULL if there was no memory for it. */
const char *dao_report_json(const dao_report_t *report);

/* Gives up the object of a report that is not printed. */
void dao_report_drop(dao_report_t *report);

/* Prints the object, if it is one, and flushes. Returns an exit code: DAO_EXIT_FAILED if there was no memory
   for the object. That standard output cannot be written is for dao_output_close(). */
int dao_report_end(dao_report_t *report);

/* Bytes that hold what dao_report_size() writes. */
enum { DAO_REPORT_SIZE_BYTES = 48 };

/* Writes a size for people: "362281164 (345.5 MiB)". */
const char *dao_report_size(uint64_t size_bytes, char out_text[DAO_REPORT_SIZE_BYTES]);

/* Sends off what was printed so far, before something long or before a complaint. */
void dao_output_flush(void);

/* Closes standard output at the very end. Returns false, with a complaint, if something that was printed did
   not arrive. */
bool dao_output_close(const char *program);

#endif
