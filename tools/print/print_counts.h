/* SPDX-License-Identifier: Apache-2.0 */
/* How the lives of a file were found, as people and programs are told. */
#ifndef DAO_TOOLS_PRINT_COUNTS_H
#define DAO_TOOLS_PRINT_COUNTS_H

#include "tools/model/life_counts.h"
#include "tools/print/report.h"

enum { DAO_COUNTS_TEXT_BYTES = 512 };

/* Writes what goes on with a line: ": 2162 in the window, 222 freed that were older, 225 older and never
   freed"; "" for counts that are all zero. */
void dao_format_counts(const dao_life_counts_t *counts, char text[DAO_COUNTS_TEXT_BYTES]);

/* The same as rows of a report. */
void dao_report_counts(dao_report_t *report, const dao_life_counts_t *counts);

#endif
