/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a report, as programs get them; the page shows the same. */
#ifndef DAO_TOOLS_REPORT_FIGURES_H
#define DAO_TOOLS_REPORT_FIGURES_H

#include "tools/print/report.h"
#include "tools/report/swap.h"
#include "tools/report/view.h"

/* How many of the largest are told. */
enum { DAO_REPORT_HOLDER_COUNT = 20, DAO_REPORT_GROUP_COUNT = 30 };

/* Puts the figures of a file into the object of a report. `swap` may be NULL. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_report_figures(dao_report_t *report, const dao_report_view_t *view,
                                              const dao_report_swap_t *swap);

#endif
