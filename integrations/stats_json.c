/* SPDX-License-Identifier: Apache-2.0 */
#include "integrations/stats_json.h"

#include <dao/observe.h>
#include <dao/step_plan.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* A text of which the first `room` bytes are kept and all are counted. */
typedef struct text {
    char *bytes;
    size_t room;
    size_t length;
} text_t;

__attribute__((format(printf, 2, 3))) static void text_add(text_t *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t left = text->length < text->room ? text->room - text->length : 0;
    int length = vsnprintf(left > 0 ? text->bytes + text->length : NULL, left, format, arguments);
    va_end(arguments);
    text->length += length > 0 ? (size_t)length : 0;
}

static void add_figure(const char *name, uint64_t value, void *user)
{
    text_t *text = user;
    text_add(text, "%s\"%s\": %" PRIu64, text->length > 1 ? ", " : "", name, value);
}

size_t dao_stats_json_write(dao_place_t place, char *out_text, size_t text_bytes)
{
    text_t text = {.bytes = out_text, .room = out_text != NULL ? text_bytes : 0};
    text_add(&text, "{");
    if (dao_stats_tree_walk(place, add_figure, &text) != DAO_OK) {
        return 0;
    }
    text_add(&text, "}");
    return text.length + 1;
}

size_t dao_step_plan_json_write(dao_place_t place, char *out_text, size_t text_bytes)
{
    text_t text = {.bytes = out_text, .room = out_text != NULL ? text_bytes : 0};
    dao_step_plan_stats_t stats;
    if (dao_step_plan_stats_get(place, &stats) != DAO_OK) {
        return 0;
    }
    text_add(&text, "{");
    add_figure("arena_bytes", stats.arena_bytes, &text);
    add_figure("plan_bytes", stats.plan_bytes, &text);
    add_figure("plan_bound_bytes", stats.plan_bound_bytes, &text);
    add_figure("total_bytes", stats.total_bytes, &text);
#define ADD_COUNT(name, text_of_it) add_figure(#name, stats.latest.name, &text);
    DAO_STEP_COUNTS_LIST(ADD_COUNT)
#undef ADD_COUNT
    text_add(&text, "}");
    return text.length + 1;
}
