/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of `dao plan`: a table for people, or one JSON array for programs. */
#ifndef DAO_TOOLS_PLAN_TABLE_H
#define DAO_TOOLS_PLAN_TABLE_H

#include "tools/plan/plan_contest.h"
#include "tools/print/json_rows.h"

typedef struct dao_plan_table {
    bool is_json;
    bool has_lines; /* for people; neither: the plan itself goes to standard output */
    size_t row_count;
    dao_json_rows_t json;
} dao_plan_table_t;

void dao_plan_table_begin(dao_plan_table_t *table, bool is_json, bool has_lines);
void dao_plan_table_row(dao_plan_table_t *table, const dao_plan_row_t *row);

/* Prints what is left to print, unless `is_dropped`. Returns an exit code. */
int dao_plan_table_end(dao_plan_table_t *table, bool is_dropped);

#endif
