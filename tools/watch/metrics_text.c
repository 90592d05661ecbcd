/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus' text format 0.0.4: of each metric its help and type once, then its samples together; a series
   once. Units are in the names: bytes, seconds; counters end in _total. No process numbers and no addresses
   as labels; of tags the largest, and the sum of the others. */
#include "tools/watch/look.h"

#include "base/text/utf8.h"

#include <dao/context.h>
#include <dao/place.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Tags that have series of their own at each place, since each series costs storage. */
#define TAG_COUNT_SHOWN 50

/* The number of the row that sums the rest of a place's tags: one of them may have its name, too. */
#define TAG_REST UINT32_MAX

/* A field of statistics. */
typedef struct field {
    const char *name;
    const char *text;
} metric_field_t;

#define FIELD(type, name, text) {#name, text},
static const metric_field_t place_fields[] = {DAO_STATS_LIST(FIELD) DAO_SCORE_PLACE_LIST(FIELD)};
static const metric_field_t tag_fields[] = {DAO_TAG_STATS_LIST(FIELD)};
static const metric_field_t executor_fields[] = {DAO_EXECUTOR_STATS_LIST(FIELD)};
static const metric_field_t process_fields[] = {DAO_SCORE_PROCESS_LIST(FIELD)};
#undef FIELD

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Fields that do not follow the rule: counts that go down as well, and bytes that only go up. */
static const struct {
    const char *field, *metric;
    bool is_counter;
} exceptions[] = {{"live_count", "live_blocks", false},
                  {"deferred_count", "deferred_frees", false},
                  {"stream_count", "streams", false},
                  {"pending_stream_count", "pending_streams", false},
                  {"live_tensor_count", "live_tensors", false},
                  {"plan_count", "plans", false},
                  {"paged_plan_count", "paged_plans", false},
                  {"planning_count", "plans_in_work", false},
                  {"mapped_page_count", "mapped_pages", false},
                  {"in_bytes", "in_bytes_total", true},
                  {"out_bytes", "out_bytes_total", true},
                  {"file_in_bytes", "file_in_bytes_total", true},
                  {"file_out_bytes", "file_out_bytes_total", true}};

enum { METRIC_BYTES = 96 };

/* A metric: what a field is called outside. */
typedef struct metric {
    char name[METRIC_BYTES];
    bool is_counter;
    double scale; /* of its values */
} metric_t;

/* The rule: what is counted in _count goes up, times in _ns too and are seconds, bytes stand for now. */
static metric_t metric_of(const char *prefix, const char *field)
{
    metric_t metric = {.scale = 1};
    for (size_t i = 0; i < COUNT_OF(exceptions); i++) {
        if (strcmp(field, exceptions[i].field) == 0) {
            (void)snprintf(metric.name, METRIC_BYTES, "%s%s", prefix, exceptions[i].metric);
            metric.is_counter = exceptions[i].is_counter;
            return metric;
        }
    }
    const char *end = strrchr(field, '_');
    int stem = (int)(end - field);
    if (strcmp(end, "_count") == 0) {
        metric.is_counter = true;
        (void)snprintf(metric.name, METRIC_BYTES, "%s%.*s_total", prefix, stem, field);
    } else if (strcmp(end, "_ns") == 0) {
        metric.is_counter = true;
        metric.scale = 1e-9;
        (void)snprintf(metric.name, METRIC_BYTES, "%s%.*s_seconds_total", prefix, stem, field);
    } else {
        (void)snprintf(metric.name, METRIC_BYTES, "%s%s", prefix, field);
    }
    return metric;
}

static void print_head(const char *name, bool is_counter, const char *help)
{
    (void)printf("# HELP %s %s\n# TYPE %s %s\n", name, help, name, is_counter ? "counter" : "gauge");
}

/* A value of a label, of UTF-8: backslash and quote are escaped, and it has no line ends. */
static void print_label(const char *name, const char *value)
{
    (void)printf("%s=\"", name);
    const char *character = NULL;
    for (size_t count; (count = dao_utf8_next(&value, &character)) > 0;) {
        if (*character == '\\' || *character == '"') {
            (void)putchar('\\');
        }
        (void)fwrite(character, 1, count, stdout);
    }
    (void)putchar('"');
}

static void print_value(const metric_t *metric, double value)
{
    (void)(metric->scale == 1 ? printf(" %.0f\n", value) : printf(" %.9f\n", value * metric->scale));
}

/* The labels of a row. */
static void print_labels(const dao_score_row_t *row)
{
    char text[DAO_PLACE_TEXT_BYTES];
    if (row->kind == DAO_SCORE_KIND_PROCESS) {
        return;
    }
    (void)putchar('{');
    print_label("place", dao_place_format(row->place, text));
    if (row->kind == DAO_SCORE_KIND_TAG) {
        (void)putchar(',');
        print_label("tag", row->name);
        if (row->number == TAG_REST) {
            (void)fputs(",rest=\"true\"", stdout);
        }
    } else if (row->kind == DAO_SCORE_KIND_EXECUTOR) {
        (void)printf(",executor=\"%" PRIu32 "\"", row->number);
    }
    (void)putchar('}');
}

static void print_field(const dao_look_t *look, dao_score_kind_t kind, const char *prefix,
                        const metric_field_t *field, size_t index)
{
    metric_t metric = metric_of(prefix, field->name);
    bool has_head = false;
    for (uint64_t i = 0; i < look->scores.row_count; i++) {
        const dao_score_row_t *row = &look->scores.rows[i];
        if (row->kind != (uint32_t)kind) {
            continue;
        }
        if (!has_head) {
            print_head(metric.name, metric.is_counter, field->text);
            has_head = true;
        }
        (void)fputs(metric.name, stdout);
        print_labels(row);
        print_value(&metric, (double)row->of.values[index]);
    }
}

static void print_fields(const dao_look_t *look, dao_score_kind_t kind, const char *prefix,
                         const metric_field_t *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].name, "internal_error_count") != 0) { /* the process's, which has its own */
            print_field(look, kind, prefix, &fields[i], i);
        }
    }
}

/* Of the tags of each place the largest stay, in order; the others become one, whose numbers are their
   sums. */
static void tags_bound(dao_look_t *look)
{
    const dao_score_row_t *sorted[DAO_SCORE_ROW_COUNT];
    size_t count =
        dao_look_sorted(look, DAO_SCORE_KIND_TAG, DAO_SCORE_INDEX(dao_tag_stats_t, used_bytes), sorted);
    dao_score_row_t *others[3 * DAO_DEVICE_COUNT_MAX] = {NULL};
    uint32_t shown_counts[3 * DAO_DEVICE_COUNT_MAX] = {0};
    for (size_t i = 0; i < count; i++) {
        dao_score_row_t *row = &look->scores.rows[sorted[i] - look->scores.rows];
        int place = (int)row->place.kind * DAO_DEVICE_COUNT_MAX + row->place.index;
        if (shown_counts[place] < TAG_COUNT_SHOWN) {
            shown_counts[place]++;
            continue;
        }
        dao_score_row_t **other = &others[place];
        if (*other == NULL) {
            *other = row;
            row->number = TAG_REST;
            (void)snprintf(row->name, sizeof(row->name), "other");
            continue;
        }
        for (size_t k = 0; k < COUNT_OF(tag_fields); k++) {
            (*other)->of.values[k] += row->of.values[k];
        }
        row->kind = DAO_SCORE_KIND_END; /* shown nowhere */
    }
}

void dao_metrics_print(dao_look_t *look)
{
    tags_bound(look);
    print_head("dao_build_info", false, "1; the labels say which library it is");
    (void)fputs("dao_build_info{", stdout);
    print_label("version", look->header.library);
    (void)putchar(',');
    print_label("backend", look->header.backend);
    (void)fputs("} 1\n", stdout);
    print_head("dao_age_seconds", false, "how old these figures are");
    (void)printf("dao_age_seconds %.9f\n", dao_look_age(look));
    print_fields(look, DAO_SCORE_KIND_PROCESS, "dao_", process_fields, COUNT_OF(process_fields));
    print_fields(look, DAO_SCORE_KIND_PLACE, "dao_place_", place_fields, COUNT_OF(place_fields));
    print_fields(look, DAO_SCORE_KIND_TAG, "dao_tag_", tag_fields, COUNT_OF(tag_fields));
    print_fields(look, DAO_SCORE_KIND_EXECUTOR, "dao_executor_", executor_fields, COUNT_OF(executor_fields));
}
