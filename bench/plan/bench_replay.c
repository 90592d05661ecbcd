/* SPDX-License-Identifier: Apache-2.0 */
/* A goal is one replay, or where steps deviate one for each cell:

       kinds    all, then each alone
       shares   of the events, in percent
       seeds    1, 2, ...

   A result is made of the rows of all of them that the goal looks
   at.                                                     */
#include "bench/plan/bench_replay.h"

#include "base/memory/host.h"
#include "base/memory/measure.h"
#include "base/report/error.h"
#include "tools/print/text_list.h"
#include "tools/replay/deviate.h"

#include <dao/dao.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Decimal places of shares and ratios in JSON. */
#define RATIO_DECIMALS 6

#define ALL_KINDS ((1u << DAO_DEVIATION_KIND_COUNT) - 1)

enum { STEPS_TEXT_BYTES = 40 };

/* Equal steps: enough that a plan which is made anew would show. */
#define EQUAL_STEP_COUNT 12u

/* Steps of several shapes, and how many shapes: sequence lengths in random order. */
#define SHAPE_STEP_COUNT 40u
#define SHAPE_COUNT      4u

static const double share_percents[] = {0.1, 1, 5, 20, 50};

/* ---- running ---- */

bool dao_replay_goal_takes(const dao_replay_goal_t *goal, const dao_replay_model_t *model)
{
    return model->differs ? !goal->leaves_out_differing : !goal->leaves_out_alike;
}

static bool has_device(dao_place_t place)
{
    int32_t device_count = 0;
    dao_device_info_t info;
    return dao_device_count(&device_count) == DAO_OK && place.index < device_count &&
           dao_device_query(place.index, &info) == DAO_OK && info.page_bytes > 0;
}

bool dao_replay_goal_has_place(const dao_replay_goal_t *goal)
{
    dao_place_t place;
    if (dao_place_parse(goal->place, &place) != DAO_OK) {
        return false;
    }
    if (place.kind == DAO_PLACE_KIND_CPU) {
        return true;
    }
    bool is_here = dao_init(NULL) == DAO_OK && has_device(place);
    return dao_finalize() == DAO_OK && is_here;
}

void dao_replay_result_add(dao_replay_result_t *result, const dao_replay_row_t *rows, size_t row_count,
                           const dao_replay_overlaps_t *overlaps)
{
    double most = result->goal->reserved_ratio_most;
    bool is_over = false;
    for (size_t i = 0; i < row_count; i++) {
        const dao_replay_row_t *row = &rows[i];
        if (row->step < result->goal->first_step) {
            continue;
        }
        result->served_least =
            result->step_count == 0 ? row->served : fmin(result->served_least, row->served);
        result->served_sum += row->served;
        result->reserved_sum += row->reserved_ratio;
        result->total_ratio = fmax(result->total_ratio, row->total_ratio);
        result->reserved_ratio = fmax(result->reserved_ratio, row->reserved_ratio);
        is_over = is_over || (most > 0 && row->reserved_ratio > most);
        result->step_count++;
    }
    if (row_count > 0) {
        result->last_ratio = fmax(result->last_ratio, rows[row_count - 1].reserved_ratio);
    }
    result->cell_count++;
    result->cells_over += is_over ? 1 : 0;
    result->block_count += overlaps->block_count;
    result->overlap_count += overlaps->overlap_count;
}

/* The rows of a cell, as many as the file has steps at most. */
typedef struct cell {
    dao_replay_row_t *rows;
    size_t row_count;
} cell_t;

/* Of dao_replay_visit_t. */
static void visit(const dao_replay_row_t *row, void *user)
{
    cell_t *cell = user;
    cell->rows[cell->row_count++] = *row;
}

static dao_status_t run_cell(dao_replay_result_t *result, const dao_event_file_t *file)
{
    const dao_replay_goal_t *goal = result->goal;
    dao_replay_config_t config = {.place_config = {.step_plan = {.mode = DAO_STEP_PLAN_OFFSETS}},
                                  .recorded = {1, 1},
                                  .served = {2, UINT64_MAX},
                                  .is_compared = goal->reserved_ratio_most > 0};
    cell_t cell = {.rows = dao_host_calloc(file->step_count + 1, sizeof(*cell.rows))};
    dao_replay_overlaps_t overlaps;
    if (cell.rows == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu rows", file->step_count);
    }
    dao_status_t status = dao_place_parse(goal->place, &config.place);
    if (status == DAO_OK) {
        status = dao_replay_run(file, &config, visit, &cell, &overlaps);
    }
    if (status == DAO_OK) {
        dao_replay_result_add(result, cell.rows, cell.row_count, &overlaps);
    }
    dao_host_free(cell.rows);
    return status;
}

/* The file's first step, and others that deviate from it. */
static dao_status_t run_made(dao_replay_result_t *result, const dao_event_file_t *file,
                             const dao_deviation_t *deviation)
{
    dao_event_file_t made;
    dao_status_t status = dao_event_file_deviate(file, deviation, &made);
    if (status == DAO_OK) {
        status = run_cell(result, &made);
        dao_event_file_finish(&made);
    }
    return status;
}

/* The cells of a seed; as far as there is time. */
static dao_status_t run_seed(dao_replay_result_t *result, const dao_event_file_t *file, uint64_t seed,
                             uint64_t end_ns)
{
    dao_status_t status = DAO_OK;
    for (uint32_t kind = 0; kind <= DAO_DEVIATION_KIND_COUNT; kind++) {
        for (size_t i = 0; i < sizeof(share_percents) / sizeof(share_percents[0]); i++) {
            const dao_deviation_t deviation = {.share = share_percents[i] / 100,
                                               .kinds = kind == 0 ? ALL_KINDS : 1u << (kind - 1),
                                               .repeats = DAO_DEVIATION_REPEATS_DEFAULT,
                                               .seed = seed};
            bool has_time = result->cell_count == 0 || dao_measure_thread_ns() < end_ns;
            status = status == DAO_OK && has_time ? run_made(result, file, &deviation) : status;
            result->cells_left_out += has_time ? 0 : 1;
        }
    }
    return status;
}

dao_status_t dao_replay_result_run(dao_replay_result_t *result, const dao_event_file_t *file,
                                   uint64_t budget_ns, uint32_t seed_count)
{
    static const dao_deviation_t none = {.repeats = EQUAL_STEP_COUNT};
    uint64_t end_ns = budget_ns > 0 ? dao_measure_thread_ns() + budget_ns : UINT64_MAX;
    dao_status_t status = DAO_OK;
    switch (result->goal->steps) {
    case DAO_REPLAY_STEPS_RECORDED:
        return run_cell(result, file);
    case DAO_REPLAY_STEPS_EQUAL:
        return run_made(result, file, &none);
    case DAO_REPLAY_STEPS_SHAPES:
    case DAO_REPLAY_STEPS_DEVIATING:
        break;
    }
    for (uint64_t seed = 1; seed <= seed_count && status == DAO_OK; seed++) {
        const dao_deviation_t shapes = {.repeats = SHAPE_STEP_COUNT, .shapes = SHAPE_COUNT, .seed = seed};
        status = result->goal->steps == DAO_REPLAY_STEPS_SHAPES ? run_made(result, file, &shapes)
                                                                : run_seed(result, file, seed, end_ns);
    }
    return status;
}

/* ---- limits ---- */

static double served_mean(const dao_replay_result_t *result)
{
    return result->step_count > 0 ? result->served_sum / (double)result->step_count : 0;
}

static double reserved_mean(const dao_replay_result_t *result)
{
    return result->step_count > 0 ? result->reserved_sum / (double)result->step_count : 0;
}

size_t dao_replay_result_judge(const dao_replay_result_t *result, char *out_text, size_t text_bytes)
{
    const dao_replay_goal_t *goal = result->goal;
    dao_text_list_t list = dao_text_list_begin(out_text, text_bytes);
    if (result->step_count == 0 || result->block_count == 0) {
        dao_text_list_add(&list, "nothing was looked at");
    }
    if (goal->served_least > 0 && result->served_least < goal->served_least) {
        dao_text_list_add(&list, "served under %.3f", goal->served_least);
    }
    if (goal->total_ratio_most > 0 && result->total_ratio > goal->total_ratio_most) {
        dao_text_list_add(&list, "total/bound over %.3f", goal->total_ratio_most);
    }
    if (goal->reserved_ratio_most > 0 && result->reserved_ratio > goal->reserved_ratio_most) {
        dao_text_list_add(&list, "reserved/alone over %.2f in %" PRIu64 " of %" PRIu64 " cells",
                          goal->reserved_ratio_most, result->cells_over, result->cell_count);
    }
    if (goal->served_mean_least > 0 && served_mean(result) < goal->served_mean_least) {
        dao_text_list_add(&list, "mean served under %.2f", goal->served_mean_least);
    }
    if (goal->reserved_mean_most > 0 && reserved_mean(result) > goal->reserved_mean_most) {
        dao_text_list_add(&list, "mean reserved/alone over %.2f", goal->reserved_mean_most);
    }
    if (result->overlap_count > 0) {
        dao_text_list_add(&list, "%" PRIu64 " overlaps", result->overlap_count);
    }
    return list.count;
}

void dao_replay_goal_describe(const dao_replay_goal_t *goal, char *out_text, size_t text_bytes)
{
    dao_text_list_t list = dao_text_list_begin(out_text, text_bytes);
    if (goal->served_least > 0) {
        dao_text_list_add(&list, "served at least %.3f", goal->served_least);
    }
    if (goal->total_ratio_most > 0) {
        dao_text_list_add(&list, "total/bound %.3f", goal->total_ratio_most);
    }
    if (goal->reserved_ratio_most > 0) {
        dao_text_list_add(&list, "reserved/alone %.2f", goal->reserved_ratio_most);
    }
    if (goal->served_mean_least > 0) {
        dao_text_list_add(&list, "mean served at least %.2f", goal->served_mean_least);
    }
    if (goal->reserved_mean_most > 0) {
        dao_text_list_add(&list, "mean reserved/alone %.2f", goal->reserved_mean_most);
    }
    dao_text_list_add(&list, "no overlaps");
}

/* ---- rows ---- */

/* Writes which steps are looked at. */
static void write_steps(const dao_replay_goal_t *goal, char out_text[STEPS_TEXT_BYTES])
{
    static const char *const names[] = {
#define STEPS_NAME(symbol, name) name,
        DAO_REPLAY_STEPS_LIST(STEPS_NAME)
#undef STEPS_NAME
    };
    (void)snprintf(out_text, STEPS_TEXT_BYTES, "%s %" PRIu64 "..", names[goal->steps], goal->first_step);
}

static void print_head(const dao_replay_goal_t *goal)
{
    (void)printf("\n%-10s %-26s %-28s", "figure", "instance", "place");
    if (goal->reserved_ratio_most > 0) {
        (void)printf(" %6s %6s %14s %8s %8s", "cells", "over", "reserved/alone", "at end", "served");
    } else {
        (void)printf(" %-13s %8s %11s", "steps", "served", "total/bound");
    }
    (void)printf(" %9s %8s  %s\n", "blocks", "overlaps", "limits");
}

void dao_replay_result_print(const dao_replay_result_t *result, bool is_first, const char *limits,
                             const char *breaches)
{
    const dao_replay_goal_t *goal = result->goal;
    const char *slash = strrchr(result->instance, '/');
    char steps[STEPS_TEXT_BYTES];
    write_steps(goal, steps);
    if (is_first) {
        print_head(goal);
    }
    (void)printf("%-10s %-26s %-28s", goal->figure, slash == NULL ? result->instance : slash + 1,
                 goal->place);
    if (goal->reserved_ratio_most > 0) {
        (void)printf(" %6" PRIu64 " %6" PRIu64 " %14.4f %8.4f %8.4f", result->cell_count, result->cells_over,
                     result->reserved_ratio, result->last_ratio, served_mean(result));
    } else {
        (void)printf(" %-13s %8.4f %11.4f", steps, result->served_least, result->total_ratio);
    }
    (void)printf(" %9" PRIu64 " %8" PRIu64 "  %s%s%s%s\n", result->block_count, result->overlap_count, limits,
                 breaches[0] != '\0' ? " [" : "", breaches, breaches[0] != '\0' ? "]" : "");
}

void dao_replay_result_add_json(const dao_replay_result_t *result, const char *limits, const char *breaches,
                                dao_json_rows_t *json)
{
    const dao_replay_goal_t *goal = result->goal;
    char steps[STEPS_TEXT_BYTES];
    write_steps(goal, steps);
    dao_json_rows_begin(json);
    dao_json_rows_text(json, "figure", goal->figure);
    dao_json_rows_text(json, "instance", result->instance);
    dao_json_rows_text(json, "place", goal->place);
    dao_json_rows_text(json, "steps_served", steps);
    if (goal->reserved_ratio_most > 0) {
        dao_json_rows_count(json, "cells", result->cell_count);
        dao_json_rows_count(json, "cells_over", result->cells_over);
        dao_json_rows_decimal(json, "reserved_ratio", result->reserved_ratio, RATIO_DECIMALS);
        dao_json_rows_decimal(json, "last_reserved_ratio", result->last_ratio, RATIO_DECIMALS);
        dao_json_rows_decimal(json, "served_mean", served_mean(result), RATIO_DECIMALS);
    } else {
        dao_json_rows_decimal(json, "served", result->served_least, RATIO_DECIMALS);
        dao_json_rows_decimal(json, "total_ratio", result->total_ratio, RATIO_DECIMALS);
        if (goal->served_mean_least > 0) {
            dao_json_rows_decimal(json, "served_mean", served_mean(result), RATIO_DECIMALS);
        }
    }
    dao_json_rows_count(json, "blocks", result->block_count);
    dao_json_rows_count(json, "overlaps", result->overlap_count);
    dao_json_rows_text(json, "at_most", limits);
    dao_json_rows_text(json, "over", breaches);
}
