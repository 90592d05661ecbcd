/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of `dao top`: every field of the statistics under its own name. */
#include "tools/print/report.h"
#include "tools/watch/look.h"

#include <dao/place.h>

#define PUT(type, name, text) dao_report_count(item, #name, NULL, stats->name);

static void put_at(dao_report_t *item, const char *key, dao_place_t place)
{
    char text[DAO_PLACE_TEXT_BYTES];
    dao_report_text(item, key, NULL, dao_place_format(place, text));
}

static void put_place(const dao_look_t *look, const dao_score_row_t *row, dao_report_t *item)
{
    put_at(item, "place", row->place);
    {
        const dao_stats_t *stats = &row->of.place.stats;
        DAO_STATS_LIST(PUT)
        dao_report_number(item, "allocs_per_s", dao_look_rate(look, row, &stats->alloc_count));
        dao_report_number(item, "frees_per_s", dao_look_rate(look, row, &stats->free_count));
    }
    const dao_score_place_t *stats = &row->of.place;
    DAO_SCORE_PLACE_LIST(PUT)
}

static void put_tag(const dao_look_t *look, const dao_score_row_t *row, dao_report_t *item)
{
    const dao_tag_stats_t *stats = &row->of.tag;
    dao_report_text(item, "tag", NULL, row->name);
    put_at(item, "place", row->place);
    DAO_TAG_STATS_LIST(PUT)
    dao_report_number(item, "allocs_per_s", dao_look_rate(look, row, &stats->alloc_count));
}

static void put_executor(const dao_look_t *look, const dao_score_row_t *row, dao_report_t *item)
{
    const dao_executor_stats_t *stats = &row->of.executor;
    dao_report_count(item, "executor", NULL, row->number);
    put_at(item, "device", row->place);
    DAO_EXECUTOR_STATS_LIST(PUT)
    dao_report_number(item, "kernels_per_s", dao_look_rate(look, row, &stats->kernel_count));
    dao_report_number(item, "in_bytes_per_second", dao_look_rate(look, row, &stats->in_bytes));
    dao_report_number(item, "out_bytes_per_second", dao_look_rate(look, row, &stats->out_bytes));
}

int dao_top_print_json(const dao_look_t *look)
{
    dao_report_t report, *item = &report;
    dao_report_begin(&report, true);
    dao_report_count(&report, "pid", NULL, (uint64_t)look->watched->pid);
    dao_report_text(&report, "command", NULL, look->watched->command);
    dao_report_text(&report, "version", NULL, look->header.library);
    dao_report_text(&report, "backend", NULL, look->header.backend);
    dao_report_number(&report, "watched_s", (double)(look->scores.time_ns - look->header.start_ns) / 1e9);
    dao_report_number(&report, "age_s", dao_look_age(look));
    dao_report_number(&report, "interval_s", look->seconds);
    dao_report_count(&report, "left_out", NULL, look->scores.left_out_count);
    const dao_score_process_t *stats = &look->scores.rows[0].of.process;
    DAO_SCORE_PROCESS_LIST(PUT)
    for (uint64_t i = 1; i < look->scores.row_count; i++) {
        const dao_score_row_t *row = &look->scores.rows[i];
        dao_report_t part;
        dao_report_begin(&part, true);
        if (row->kind == DAO_SCORE_KIND_PLACE) {
            put_place(look, row, &part);
        } else if (row->kind == DAO_SCORE_KIND_TAG) {
            put_tag(look, row, &part);
        } else {
            put_executor(look, row, &part);
        }
        dao_report_item(&report,
                        row->kind == DAO_SCORE_KIND_PLACE ? "places"
                        : row->kind == DAO_SCORE_KIND_TAG ? "tags"
                                                          : "executors",
                        &part);
    }
    return dao_report_end(&report);
}
