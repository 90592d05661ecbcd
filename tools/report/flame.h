/* SPDX-License-Identifier: Apache-2.0 */
/* What is alive at the peak as a profile of Speedscope: modules around operators, their bytes as weights. */
#ifndef DAO_TOOLS_REPORT_FLAME_H
#define DAO_TOOLS_REPORT_FLAME_H

#include "tools/report/view.h"

#include <stdio.h>

/* Writes a profile, the largest first. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_report_flame_write(FILE *file, const dao_report_view_t *view);

#endif
