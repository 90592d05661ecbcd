/* SPDX-License-Identifier: Apache-2.0 */
/* Rows go out at once, the object at the end. json-c writes the object: it knows how to escape. */
#include "tools/print/report.h"

#include "tools/base/exit_code.h"
#include "tools/base/progress.h"
#include "tools/print/json_string.h"

#include "base/numbers/units.h"
#include "base/text/printable.h"

#include <json-c/json.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LABEL_WIDTH = 20, ROW_BYTES = 8192 }; /* more than a path has */

void dao_report_begin(dao_report_t *report, bool is_json)
{
    *report = (dao_report_t){.is_json = is_json};
    if (is_json) {
        report->object = json_object_new_object();
        report->has_failed = report->object == NULL;
    }
}

/* Takes `value` over. */
static void add(dao_report_t *report, const char *key, struct json_object *value)
{
    if (value == NULL || report->object == NULL || json_object_object_add(report->object, key, value) != 0) {
        report->has_failed = true;
        (void)json_object_put(value);
    }
}

void dao_report_row(const char *label, const char *format, ...)
{
    char text[ROW_BYTES];
    va_list arguments;
    dao_progress_hide();
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    dao_make_printable(text); /* names of files, and what stands in them */
    (void)printf("%-*s %s\n", LABEL_WIDTH, label, text);
}

void dao_report_text(dao_report_t *report, const char *key, const char *label, const char *text)
{
    if (report->is_json && key != NULL) {
        add(report, key, dao_json_string(text));
    } else if (!report->is_json && label != NULL) {
        dao_report_row(label, "%s", text);
    }
}

void dao_report_count(dao_report_t *report, const char *key, const char *label, uint64_t count)
{
    if (report->is_json && key != NULL) {
        add(report, key, json_object_new_uint64(count));
    } else if (!report->is_json && label != NULL) {
        dao_report_row(label, "%" PRIu64, count);
    }
}

void dao_report_bytes(dao_report_t *report, const char *key, const char *label, uint64_t size_bytes)
{
    char text[DAO_REPORT_SIZE_BYTES];
    if (report->is_json && key != NULL) {
        add(report, key, json_object_new_uint64(size_bytes));
    } else if (!report->is_json && label != NULL) {
        dao_report_row(label, "%s", dao_report_size(size_bytes, text));
    }
}

void dao_report_flag(dao_report_t *report, const char *key, const char *label, bool flag)
{
    if (report->is_json && key != NULL) {
        add(report, key, json_object_new_boolean(flag));
    } else if (!report->is_json && label != NULL) {
        dao_report_row(label, "%s", flag ? "yes" : "no");
    }
}

void dao_report_begin_list(dao_report_t *report, bool is_json)
{
    *report = (dao_report_t){.is_json = is_json};
    if (is_json) {
        report->object = json_object_new_array();
        report->has_failed = report->object == NULL;
    }
}

/* A number with its decimals as they are printed, not with all that a double has. */
static void add_decimal(dao_report_t *report, const char *key, double value, int decimals)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%.*f", decimals, value);
    add(report, key, json_object_new_double_s(value, text));
}

void dao_report_time(dao_report_t *report, const char *key, const char *label, uint64_t time_ns)
{
    if (report->is_json && key != NULL) {
        add_decimal(report, key, (double)time_ns / 1e9, 9);
    } else if (!report->is_json && label != NULL) {
        dao_report_row(label, "%.3f ms", (double)time_ns / 1e6);
    }
}

void dao_report_ratio(dao_report_t *report, const char *key, const char *label, double ratio)
{
    if (report->is_json && key != NULL) {
        add_decimal(report, key, ratio, 3);
    } else if (!report->is_json && label != NULL) {
        dao_report_row(label, "%.3f", ratio);
    }
}

void dao_report_number(dao_report_t *report, const char *key, double value)
{
    if (report->is_json) {
        add_decimal(report, key, value, 9);
    }
}

void dao_report_unknown(dao_report_t *report, const char *key, const char *label, const char *why)
{
    if (!report->is_json) {
        dao_report_row(label, "%s", why);
    } else if (report->object == NULL || json_object_object_add(report->object, key, NULL) != 0) {
        report->has_failed = true;
    }
}

/* Takes the item's object over. */
static void append(dao_report_t *report, struct json_object *array, dao_report_t *item)
{
    report->has_failed = report->has_failed || item->has_failed;
    if (report->has_failed || json_object_array_add(array, item->object) != 0) {
        report->has_failed = true;
        (void)json_object_put(item->object);
    }
    item->object = NULL;
}

void dao_report_item(dao_report_t *report, const char *key, dao_report_t *item)
{
    struct json_object *array = NULL;
    report->has_failed = report->has_failed || item->has_failed;
    if (!report->is_json || item->object == NULL) {
        return;
    }
    if (!json_object_object_get_ex(report->object, key, &array)) {
        array = json_object_new_array();
        add(report, key, array);
    }
    append(report, array, item);
}

void dao_report_list_item(dao_report_t *report, dao_report_t *item)
{
    if (report->is_json) {
        append(report, report->object, item);
    }
}

const char *dao_report_json(const dao_report_t *report)
{
    return report->has_failed ? NULL
                              : json_object_to_json_string_ext(
                                    report->object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

void dao_report_drop(dao_report_t *report)
{
    (void)json_object_put(report->object);
    report->object = NULL;
}

int dao_report_end(dao_report_t *report)
{
    if (report->is_json && !report->has_failed) {
        const char *text = json_object_to_json_string_ext(report->object, JSON_C_TO_STRING_PRETTY |
                                                                              JSON_C_TO_STRING_NOSLASHESCAPE);
        report->has_failed = text == NULL;
        if (text != NULL) {
            dao_progress_hide();
            (void)puts(text);
        }
    }
    (void)json_object_put(report->object);
    report->object = NULL;
    if (report->has_failed) {
        (void)fprintf(stderr, "dao: no memory for the JSON object\n");
    }
    dao_output_flush();
    return report->has_failed ? DAO_EXIT_FAILED : DAO_EXIT_OK;
}

const char *dao_report_size(uint64_t size_bytes, char out_text[DAO_REPORT_SIZE_BYTES])
{
    char text[DAO_UNITS_TEXT_BYTES];
    if (size_bytes < 1024) {
        (void)snprintf(out_text, DAO_REPORT_SIZE_BYTES, "%" PRIu64, size_bytes);
    } else {
        (void)snprintf(out_text, DAO_REPORT_SIZE_BYTES, "%" PRIu64 " (%s)", size_bytes,
                       dao_units_format_bytes(size_bytes, text));
    }
    return out_text;
}

/* ---- standard output ---- */

/* Why standard output could not be written, while that is known: a later call would not tell again. */
static int output_errno;

void dao_output_flush(void)
{
    if (fflush(stdout) != 0 && output_errno == 0) {
        output_errno = errno;
    }
}

bool dao_output_close(const char *program)
{
    dao_output_flush();
    bool has_failed = ferror(stdout) != 0 || output_errno != 0;
    if (fclose(stdout) != 0 && !has_failed) {
        has_failed = true;
        output_errno = errno;
    }
    if (has_failed) {
        (void)fprintf(stderr, "%s: the output could not be written%s%s\n", program,
                      output_errno != 0 ? ": " : "", output_errno != 0 ? strerror(output_errno) : "");
    }
    return !has_failed;
}
