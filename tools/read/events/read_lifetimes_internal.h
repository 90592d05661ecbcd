/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the reader of lifetimes share. */
#ifndef DAO_TOOLS_READ_LIFETIMES_INTERNAL_H
#define DAO_TOOLS_READ_LIFETIMES_INTERNAL_H

#include "tools/model/plan_input.h"

/* Each adds to empty lifetimes, which the caller finishes whatever the answer. */

/* read_lifetimes_csv.c: the lines of a CSV with a header, or of a list. */
DAO_NODISCARD dao_status_t dao_read_lifetimes_lines(const char *path, dao_plan_input_t *lifetimes);

/* read_lifetimes_json.c: an object of lifetimes. */
DAO_NODISCARD dao_status_t dao_read_lifetimes_object(const char *path, dao_plan_input_t *lifetimes);

#endif
