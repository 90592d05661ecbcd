/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of `dao top`. Numbers have seven characters at most, names are cut: no line has over 80. */
#include "tools/watch/look.h"

#include "base/text/plural.h"

#include <dao/place.h>

#include <inttypes.h>
#include <stdio.h>

/* Tags and executors of a screen; the rest is summed up. */
#define ROW_COUNT_SHOWN 12

/* Figures that are older are said to be. */
#define OLD_SECONDS 1.0

enum { NUMBER_BYTES = 16 };

/* Writes a number in at most 7 characters: "0", "999", "1.2K", "1023M". */
static const char *scaled(double value, double base, const char *suffixes, char out_text[NUMBER_BYTES])
{
    size_t unit = 0;
    while (value >= base - 0.5 && suffixes[unit] != '\0') {
        value /= base;
        unit++;
    }
    if (unit == 0) {
        (void)snprintf(out_text, NUMBER_BYTES, "%.0f", value);
    } else {
        (void)snprintf(out_text, NUMBER_BYTES, "%.*f%c", value < 100 ? 1 : 0, value, suffixes[unit - 1]);
    }
    return out_text;
}

/* Texts of one line. */
typedef struct line {
    char texts[8][NUMBER_BYTES];
    int count;
} line_t;

static const char *bytes(line_t *line, double value)
{
    return scaled(value, 1024, "KMGTPE", line->texts[line->count++]);
}

static const char *number(line_t *line, double value)
{
    return scaled(value, 1000, "KMGTPE", line->texts[line->count++]);
}

static const char *limit(line_t *line, uint64_t value)
{
    return value > 0 ? bytes(line, (double)value) : "-";
}

static void print_head(const dao_look_t *look)
{
    double age = dao_look_age(look);
    (void)printf("%.31s, process %d: libdao %.15s (%.15s)", look->watched->command, (int)look->watched->pid,
                 look->header.library, look->header.backend);
    if (age > OLD_SECONDS) {
        (void)printf(", %.0f s old", age);
    }
    (void)putchar('\n');
    const dao_score_process_t *process = &look->scores.rows[0].of.process;
    if (process->host_limit_bytes > 0) {
        line_t line = {.count = 0};
        (void)printf("host and pinned memory: %s of at most %s, peak %s\n",
                     bytes(&line, (double)process->host_reserved_bytes),
                     bytes(&line, (double)process->host_limit_bytes),
                     bytes(&line, (double)process->host_peak_reserved_bytes));
    }
    if (process->process_internal_error_count > 0) {
        (void)printf("%" PRIu64 " internal errors: the log has them\n",
                     process->process_internal_error_count);
    }
    if (look->scores.left_out_count > 0) {
        (void)printf("%" PRIu64 " more places, tags or executors found no room\n",
                     look->scores.left_out_count);
    }
}

static void print_place(const dao_look_t *look, const dao_score_row_t *row)
{
    const dao_score_place_t *place = &row->of.place;
    const dao_stats_t *stats = &place->stats;
    char text[DAO_PLACE_TEXT_BYTES];
    line_t line = {.count = 0};
    (void)printf("%-10s %8s %8s %8s %7s %7s %7s %8s %7s\n", dao_place_format(row->place, text),
                 bytes(&line, (double)stats->used_bytes), bytes(&line, (double)stats->peak_used_bytes),
                 bytes(&line, (double)stats->reserved_bytes), limit(&line, stats->limit_bytes),
                 bytes(&line, (double)stats->largest_hole_bytes), number(&line, (double)stats->live_count),
                 number(&line, dao_look_rate(look, row, &stats->alloc_count)),
                 number(&line, (double)stats->failed_count));
    if (place->stream_count > 0 || stats->deferred_count > 0) {
        line = (line_t){.count = 0};
        (void)printf("           %s stream%s, %s of them with frees under way; %s free%s waiting\n",
                     number(&line, (double)place->stream_count), dao_plural(place->stream_count, "s"),
                     number(&line, (double)place->pending_stream_count),
                     number(&line, (double)stats->deferred_count), dao_plural(stats->deferred_count, "s"));
    }
    if (stats->slow_count > 0) {
        line = (line_t){.count = 0};
        (void)printf("           %s slow call%s, %s miss%s; grew %s time%s (fragmentation %s, streams %s)\n",
                     number(&line, (double)stats->slow_count), dao_plural(stats->slow_count, "s"),
                     number(&line, (double)stats->miss_count), dao_plural(stats->miss_count, "es"),
                     number(&line, (double)stats->grow_count), dao_plural(stats->grow_count, "s"),
                     number(&line, (double)stats->grow_pieces_count),
                     number(&line, (double)stats->grow_fenced_count));
    }
}

static void print_places(const dao_look_t *look)
{
    (void)printf("\n%-10s %8s %8s %8s %7s %7s %7s %8s %7s\n", "PLACE", "USED", "PEAK", "RESERVED", "LIMIT",
                 "HOLE", "BLOCKS", "ALLOCS/S", "FAILED");
    for (uint64_t i = 0; i < look->scores.row_count; i++) {
        if (look->scores.rows[i].kind == DAO_SCORE_KIND_PLACE) {
            print_place(look, &look->scores.rows[i]);
        }
    }
}

static void print_rest(const dao_score_row_t *const *rows, size_t count, size_t index, const char *noun)
{
    line_t line = {.count = 0};
    double sum = 0;
    for (size_t i = ROW_COUNT_SHOWN; i < count; i++) {
        sum += (double)rows[i]->of.values[index];
    }
    if (count > ROW_COUNT_SHOWN) {
        (void)printf("%zu more %s hold %s\n", count - ROW_COUNT_SHOWN, noun, bytes(&line, sum));
    }
}

static void print_tags(const dao_look_t *look)
{
    const dao_score_row_t *rows[DAO_SCORE_ROW_COUNT];
    size_t index = DAO_SCORE_INDEX(dao_tag_stats_t, used_bytes);
    size_t count = dao_look_sorted(look, DAO_SCORE_KIND_TAG, index, rows);
    if (count > 0) {
        (void)printf("\n%-19s %-10s %7s %7s %7s %7s %8s %7s\n", "TAG", "AT", "USED", "PEAK", "LIMIT",
                     "BLOCKS", "ALLOCS/S", "REFUSED");
    }
    for (size_t i = 0; i < count && i < ROW_COUNT_SHOWN; i++) {
        const dao_tag_stats_t *tag = &rows[i]->of.tag;
        char text[DAO_PLACE_TEXT_BYTES];
        line_t line = {.count = 0};
        (void)printf("%-19.19s %-10s %7s %7s %7s %7s %8s %7s\n", rows[i]->name,
                     dao_place_format(rows[i]->place, text), bytes(&line, (double)tag->used_bytes),
                     bytes(&line, (double)tag->peak_used_bytes), limit(&line, tag->limit_bytes),
                     number(&line, (double)tag->live_count),
                     number(&line, dao_look_rate(look, rows[i], &tag->alloc_count)),
                     number(&line, (double)tag->refused_count));
    }
    print_rest(rows, count, index, "tags");
}

static void print_executor(const dao_look_t *look, const dao_score_row_t *row)
{
    const dao_executor_stats_t *stats = &row->of.executor;
    char text[DAO_PLACE_TEXT_BYTES];
    line_t line = {.count = 0};
    double stall = 1e-7 * (dao_look_rate(look, row, &stats->stall_in_ns) +
                           dao_look_rate(look, row, &stats->stall_out_ns)); /* ns a second, as percent */
    (void)printf("%-8" PRIu32 " %-10s %7s %7s %9s %7s %7s %4.0f%% %5s %6s\n", row->number,
                 dao_place_format(row->place, text), bytes(&line, (double)stats->capacity_bytes),
                 bytes(&line, (double)stats->device_used_bytes),
                 number(&line, dao_look_rate(look, row, &stats->kernel_count)),
                 bytes(&line, dao_look_rate(look, row, &stats->in_bytes)),
                 bytes(&line, dao_look_rate(look, row, &stats->out_bytes)), stall < 999 ? stall : 999,
                 number(&line, (double)stats->plan_hit_count),
                 number(&line, (double)stats->live_tensor_count));
}

static void print_executors(const dao_look_t *look)
{
    const dao_score_row_t *rows[DAO_SCORE_ROW_COUNT];
    size_t index = DAO_SCORE_INDEX(dao_executor_stats_t, device_used_bytes);
    size_t count = dao_look_sorted(look, DAO_SCORE_KIND_EXECUTOR, index, rows);
    if (count > 0) {
        (void)printf("\n%-8s %-10s %7s %7s %9s %7s %7s %5s %5s %6s\n", "EXECUTOR", "AT", "ARENA", "USED",
                     "KERNELS/S", "IN/S", "OUT/S", "STALL", "HITS", "LIVE");
    }
    for (size_t i = 0; i < count && i < ROW_COUNT_SHOWN; i++) {
        print_executor(look, rows[i]);
    }
    print_rest(rows, count, index, "executors");
}

void dao_top_print(const dao_look_t *look)
{
    print_head(look);
    print_places(look);
    print_tags(look);
    print_executors(look);
}
