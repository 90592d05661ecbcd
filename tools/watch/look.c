/* SPDX-License-Identifier: Apache-2.0 */
/* Rows keep their place, number and name while what they show lives; their order may change. */
#include "tools/watch/look.h"

#include "base/threads/sync.h"

#include <string.h>

dao_status_t dao_look_again(dao_look_t *look)
{
    look->previous = look->scores;
    dao_status_t status = dao_watched_read(look->watched, &look->header, &look->scores);
    bool is_later = look->previous.row_count > 0 && look->scores.time_ns > look->previous.time_ns;
    look->seconds = is_later ? (double)(look->scores.time_ns - look->previous.time_ns) / 1e9 : 0;
    return status;
}

/* Returns the row of the look before; NULL: there was none. */
static const dao_score_row_t *previous_of(const dao_look_t *look, const dao_score_row_t *row)
{
    for (uint64_t i = 0; i < look->previous.row_count; i++) {
        const dao_score_row_t *other = &look->previous.rows[i];
        if (other->kind == row->kind && other->number == row->number &&
            dao_place_equal(other->place, row->place) && strcmp(other->name, row->name) == 0) {
            return other;
        }
    }
    return NULL;
}

double dao_look_rate(const dao_look_t *look, const dao_score_row_t *row, const uint64_t *value)
{
    size_t index = (size_t)(value - row->of.values);
    const dao_score_row_t *previous = previous_of(look, row);
    uint64_t before = previous != NULL ? previous->of.values[index] : 0;
    return look->seconds > 0 && *value > before ? (double)(*value - before) / look->seconds : 0;
}

double dao_look_age(const dao_look_t *look)
{
    uint64_t now_ns = dao_clock_ns();
    return now_ns > look->scores.time_ns ? (double)(now_ns - look->scores.time_ns) / 1e9 : 0;
}

size_t dao_look_sorted(const dao_look_t *look, dao_score_kind_t kind, size_t index,
                       const dao_score_row_t *out_rows[DAO_SCORE_ROW_COUNT])
{
    size_t count = 0;
    for (uint64_t i = 0; i < look->scores.row_count; i++) {
        const dao_score_row_t *row = &look->scores.rows[i];
        if (row->kind != (uint32_t)kind) {
            continue;
        }
        size_t at = count++;
        for (; at > 0 && out_rows[at - 1]->of.values[index] < row->of.values[index]; at--) {
            out_rows[at] = out_rows[at - 1];
        }
        out_rows[at] = row;
    }
    return count;
}
