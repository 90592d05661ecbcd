/* SPDX-License-Identifier: Apache-2.0 */
/* Two looks at a process, and what went on between them. */
#ifndef DAO_TOOLS_LOOK_H
#define DAO_TOOLS_LOOK_H

#include "tools/watch/watched.h"

typedef struct dao_look {
    const dao_watched_t *watched;
    dao_scoreboard_header_t header;
    dao_scores_t scores;   /* the latest */
    dao_scores_t previous; /* the one before; no rows: there was none */
    double seconds;        /* between them; 0 as well if nothing was written meanwhile */
} dao_look_t;

/* Looks once more. As dao_watched_read(). */
DAO_NODISCARD dao_status_t dao_look_again(dao_look_t *look);

/* Returns by how much a counter went up in a second; `value` lies in `row`. */
double dao_look_rate(const dao_look_t *look, const dao_score_row_t *row, const uint64_t *value);

/* Returns how old the figures are, in s. */
double dao_look_age(const dao_look_t *look);

/* Finds the rows of a kind, largest first by the value at `index` of their values; returns their number. */
size_t dao_look_sorted(const dao_look_t *look, dao_score_kind_t kind, size_t index,
                       const dao_score_row_t *out_rows[DAO_SCORE_ROW_COUNT]);

/* Index of a field of a row's values. */
#define DAO_SCORE_INDEX(type, field) (offsetof(type, field) / sizeof(uint64_t))

/* Prints the tables of `dao top`: no line is over 80 columns. */
void dao_top_print(const dao_look_t *look);

/* Prints its JSON. Returns an exit code. */
int dao_top_print_json(const dao_look_t *look);

/* Prints the figures as Prometheus reads them; tags beyond the largest are summed up in the look. */
void dao_metrics_print(dao_look_t *look);

#endif
