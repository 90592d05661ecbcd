/* SPDX-License-Identifier: Apache-2.0 */
/* A result of the planner beside its limits: which it breaks, and its row. Times of peers are scaled by the
   speed of this machine. */
#include "bench/plan/bench_plan.h"

#include "base/memory/measure.h"
#include "tools/print/report.h"
#include "tools/print/text_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 80 };

/* ---- speed ---- */

/* Nanoseconds that the loop took on the machine of the peers' times, which was lent by a provider: one
   virtual processor of an AMD EPYC. */
#define SPEED_REFERENCE_NS 188e6

enum { SPEED_WORD_COUNT = 1 << 14, SPEED_STEP_COUNT = 1 << 27, SPEED_TRY_COUNT = 3 };

static uint64_t run_speed_loop(uint64_t *words)
{
    uint64_t state = 1, sum = 0;
    memset(words, 0, SPEED_WORD_COUNT * sizeof(*words));
    for (uint32_t i = 0; i < SPEED_STEP_COUNT; i++) {
        state ^= state << 13; /* xorshift64 (Marsaglia, 2003) */
        state ^= state >> 7;
        state ^= state << 17;
        uint64_t *word = &words[state % SPEED_WORD_COUNT];
        if (*word < state >> 32) {
            *word = state >> 32;
        } else {
            sum += *word;
        }
    }
    return sum;
}

double dao_bench_plan_speed(void)
{
    static uint64_t words[SPEED_WORD_COUNT];
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < SPEED_TRY_COUNT; i++) {
        uint64_t begin = dao_measure_thread_ns();
        volatile uint64_t sum = run_speed_loop(words); /* so that the loop stays */
        (void)sum;
        uint64_t ns = dao_measure_thread_ns() - begin;
        least_ns = ns < least_ns ? ns : least_ns;
    }
    return SPEED_REFERENCE_NS / (double)least_ns;
}

/* ---- limits ---- */

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static double milliseconds(uint64_t ns)
{
    return (double)ns / 1e6;
}

/* The time that a goal allows for so many buffers; 0: no limit. */
static double most_seconds(const dao_plan_result_t *result)
{
    const dao_plan_goal_t *goal = result->goal;
    if (goal->peer_s > 0) {
        return result->is_file ? goal->peer_s * DAO_PLAN_PEER_PART / result->speed : 0;
    }
    return goal->most_s + goal->most_us_each * 1e-6 * (double)result->row.buffer_count;
}

static void judge_times(const dao_plan_result_t *result, dao_text_list_t *list)
{
    const dao_plan_goal_t *goal = result->goal;
    const dao_plan_row_t *row = &result->row;
    double most_s = most_seconds(result);
    if (most_s > 0 && seconds(row->cpu_ns) > most_s) {
        dao_text_list_add(list, "time over %.3f s", most_s);
    }
    if (goal->first_most_s > 0 && seconds(row->first_cpu_ns) > goal->first_most_s) {
        dao_text_list_add(list, "first plan after %.3f s", seconds(row->first_cpu_ns));
    }
    if (goal->look_most_ms > 0 && milliseconds(result->look_ns) > goal->look_most_ms) {
        dao_text_list_add(list, "looks %.3f ms apart", milliseconds(result->look_ns));
    }
}

size_t dao_plan_result_judge(const dao_plan_result_t *result, char *out_text, size_t text_bytes)
{
    const dao_plan_goal_t *goal = result->goal;
    const dao_plan_row_t *row = &result->row;
    dao_text_list_t list = dao_text_list_begin(out_text, text_bytes);
    if (!row->has_peak || row->unplaced_count > 0) {
        dao_text_list_add(&list, row->has_peak ? "it does not fit" : "no plan");
        return list.count;
    }
    if (goal->ratio_most > 0 && result->ratio > goal->ratio_most) {
        dao_text_list_add(&list, "ratio over %.5f", goal->ratio_most);
    }
    if (goal->peak_most_bytes > 0 && result->is_file && row->peak_bytes > goal->peak_most_bytes) {
        dao_text_list_add(&list, "peak over %" PRIu64, goal->peak_most_bytes);
    }
    if (goal->needs_proof && !row->is_proved) {
        dao_text_list_add(&list, "no proof");
    }
    if (goal->first_ratio_most > 0 &&
        (double)row->first_peak_bytes > goal->first_ratio_most * (double)row->bound_bytes) {
        dao_text_list_add(&list, "first plan over %.2f", goal->first_ratio_most);
    }
    if (goal->bytes_most > 0 && (double)row->memory_bytes > goal->bytes_most * (double)row->buffer_count) {
        dao_text_list_add(&list, "memory over %.0f B a buffer", goal->bytes_most);
    }
    judge_times(result, &list);
    return list.count;
}

void dao_plan_result_describe(const dao_plan_result_t *result, char *out_text, size_t text_bytes)
{
    const dao_plan_goal_t *goal = result->goal;
    dao_text_list_t list = dao_text_list_begin(out_text, text_bytes);
    double most_s = most_seconds(result);
    if (goal->ratio_most > 0) {
        dao_text_list_add(&list, "%.5f", goal->ratio_most);
    }
    if (goal->peak_most_bytes > 0 && result->is_file) {
        dao_text_list_add(&list, "%" PRIu64 " bytes", goal->peak_most_bytes);
    }
    if (goal->needs_proof) {
        dao_text_list_add(&list, "proved");
    }
    if (most_s > 0) {
        dao_text_list_add(&list, "%.3f s", most_s);
    }
    if (goal->first_most_s > 0) {
        dao_text_list_add(&list, "first plan %.2f in %.1f s", goal->first_ratio_most, goal->first_most_s);
    }
    if (goal->bytes_most > 0) {
        dao_text_list_add(&list, "%.0f B a buffer", goal->bytes_most);
    }
    if (goal->look_most_ms > 0) {
        dao_text_list_add(&list, "looks %.1f ms apart", goal->look_most_ms);
    }
}

/* ---- rows ---- */

void dao_plan_result_print(const dao_plan_result_t *result, bool is_first, const char *limits,
                           const char *breaches)
{
    const dao_plan_row_t *row = &result->row;
    const char *slash = strrchr(result->instance, '/');
    const char *name = slash == NULL ? result->instance : slash + 1;
    char first[LINE_BYTES] = "";
    if (is_first) {
        (void)printf("%-10s %-26s %-7s %8s %12s %8s %-6s %9s %8s  %s\n", "figure", "instance", "method",
                     "buffers", "peak bytes", "ratio", "proved", "CPU s", "B/buffer", "at most");
    }
    if (result->goal->first_most_s > 0 && row->has_peak) {
        (void)snprintf(first, sizeof(first), "; first %.4f in %.3f s, looks %.3f ms apart",
                       (double)row->first_peak_bytes / (double)row->bound_bytes, seconds(row->first_cpu_ns),
                       milliseconds(result->look_ns));
    }
    (void)printf("%-10s %-26s %-7s %8zu %12" PRIu64 " %8.5f %-6s %9.4f %8.1f  %s%s%s%s%s\n",
                 result->goal->figure, name, row->method, row->buffer_count, row->peak_bytes, result->ratio,
                 row->is_proved ? "yes" : "no", seconds(row->cpu_ns),
                 (double)row->memory_bytes / (double)row->buffer_count, limits, first,
                 breaches[0] != '\0' ? " [" : "", breaches, breaches[0] != '\0' ? "]" : "");
    dao_output_flush();
}

void dao_plan_result_add_json(const dao_plan_result_t *result, const char *limits, const char *breaches,
                              dao_json_rows_t *json)
{
    const dao_plan_row_t *row = &result->row;
    dao_json_rows_begin(json);
    dao_json_rows_text(json, "figure", result->goal->figure);
    dao_json_rows_text(json, "instance", result->instance);
    dao_json_rows_text(json, "method", row->method);
    dao_json_rows_count(json, "buffers", row->buffer_count);
    dao_json_rows_count(json, "peak_bytes", row->peak_bytes);
    dao_json_rows_count(json, "bound_bytes", row->bound_bytes);
    dao_json_rows_decimal(json, "ratio", result->ratio, 5);
    dao_json_rows_flag(json, "proved", row->is_proved);
    dao_json_rows_decimal(json, "cpu_s", seconds(row->cpu_ns), 6);
    dao_json_rows_decimal(json, "bytes_per_buffer", (double)row->memory_bytes / (double)row->buffer_count, 1);
    dao_json_rows_decimal(json, "first_ratio", (double)row->first_peak_bytes / (double)row->bound_bytes, 5);
    dao_json_rows_decimal(json, "first_cpu_s", seconds(row->first_cpu_ns), 6);
    if (result->look_ns > 0) {
        dao_json_rows_decimal(json, "look_ms", milliseconds(result->look_ns), 3);
    } else {
        dao_json_rows_null(json, "look_ms");
    }
    dao_json_rows_text(json, "at_most", limits);
    dao_json_rows_text(json, "over", breaches);
}
