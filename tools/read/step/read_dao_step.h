/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a step in this project's own form: base/report/step_form.h. */
#ifndef DAO_TOOLS_READ_DAO_STEP_H
#define DAO_TOOLS_READ_DAO_STEP_H

#include "tools/model/step_trace.h"

/**
 * Reads a step.
 *
 * @param out_trace  Packed. Written only on DAO_OK; the caller owns it, until dao_step_trace_finish().
 * @return DAO_OK; DAO_ERR_PARSE, DAO_ERR_OVERFLOW, DAO_ERR_IO with a message `FILE:LINE:COLUMN: what`;
 *         DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: for the file. Cost: memory in proportion to the file.
 */
DAO_NODISCARD dao_status_t dao_read_dao_step(const char *path, dao_step_trace_t *out_trace);

#endif
