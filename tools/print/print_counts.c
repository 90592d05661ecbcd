/* SPDX-License-Identifier: Apache-2.0 */
/* One row a count, for both. Counts of what went wrong are left out for people where they are zero. */
#include "tools/print/print_counts.h"

#include "base/report/assert.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct count_row {
    const char *key, *label, *text;
    bool is_always;
    uint64_t count;
} count_row_t;

enum { ROW_COUNT = 9 };

static void make_rows(const dao_life_counts_t *counts, count_row_t out_rows[ROW_COUNT])
{
    const count_row_t rows[ROW_COUNT] = {
        {"in_window", "in the window", "in the window", true, counts->in_window_count},
        {"open", "of those never freed", "of those never freed", false, counts->open_count},
        {"older_freed", "older, freed", "freed that were older", true, counts->older_freed_count},
        {"older_kept", "older, never freed", "older and never freed", true, counts->older_kept_count},
        {"replaced", "frees missing", "whose free is missing", false, counts->replaced_count},
        {"guessed", "frees by size alone", "frees that fitted several blocks of a size", false,
         counts->guessed_count},
        {"refused", "requests refused", "requests refused", false, counts->refused_count},
        {"ignored_events", "other events", "other events", false, counts->ignored_count},
        {"backward", "times that go back", "times that go back", false, counts->backward_count},
    };
    for (size_t i = 0; i < ROW_COUNT; i++) {
        out_rows[i] = rows[i];
    }
}

static bool is_told(const dao_life_counts_t *counts)
{
    return counts->in_window_count > 0 || counts->older_freed_count > 0 || counts->older_kept_count > 0;
}

void dao_format_counts(const dao_life_counts_t *counts, char text[DAO_COUNTS_TEXT_BYTES])
{
    count_row_t rows[ROW_COUNT];
    const char *mark = ": ";
    size_t length = 0;
    make_rows(counts, rows);
    text[0] = '\0';
    for (size_t i = 0; i < ROW_COUNT && is_told(counts); i++) {
        if (rows[i].is_always || rows[i].count > 0) {
            length += (size_t)snprintf(text + length, DAO_COUNTS_TEXT_BYTES - length, "%s%" PRIu64 " %s",
                                       mark, rows[i].count, rows[i].text);
            mark = ", ";
        }
    }
    DAO_ASSERT(length < DAO_COUNTS_TEXT_BYTES); /* nine numbers, and words of this file */
}

void dao_report_counts(dao_report_t *report, const dao_life_counts_t *counts)
{
    count_row_t rows[ROW_COUNT];
    make_rows(counts, rows);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        bool is_shown = rows[i].is_always || rows[i].count > 0;
        dao_report_count(report, rows[i].key, is_shown ? rows[i].label : NULL, rows[i].count);
    }
}
