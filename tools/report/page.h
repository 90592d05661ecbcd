/* SPDX-License-Identifier: Apache-2.0 */
/* The page: page/ at build time, data behind it. */
#ifndef DAO_TOOLS_REPORT_PAGE_H
#define DAO_TOOLS_REPORT_PAGE_H

#include "tools/print/report.h"
#include "tools/report/swap.h"
#include "tools/report/view.h"

#include <stdio.h>

/* One file of a page. */
typedef struct dao_report_part {
    const dao_report_view_t *view;
    const dao_report_swap_t *swap; /* NULL: nothing is told of it */
    const char *figures;           /* JSON, as dao_report_figures() makes it */
} dao_report_part_t;

/* Buffers whose names a page carries: the largest. */
enum { DAO_REPORT_NAME_COUNT_MAX = 100000 };

/* Writes a page of one or two files. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_report_page_write(FILE *file, const dao_report_part_t *parts, size_t count);

#endif
