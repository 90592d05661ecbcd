/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a step trace from its four JSON files. */
#ifndef DAO_TOOLS_READ_JSON_STEP_H
#define DAO_TOOLS_READ_JSON_STEP_H

#include "tools/model/step_trace.h"

/**
 * Reads a trace and packs its workspaces.
 *
 * @param path       A folder with one MODEL.io_info.json, or that file.
 * @param batch      NULL: the only one there is.
 * @param out_trace  Written only on DAO_OK; the caller owns it, until dao_step_trace_finish().
 * @return DAO_OK; DAO_ERR_PARSE, DAO_ERR_OVERFLOW, DAO_ERR_IO with a message `FILE:LINE:COLUMN: what`;
 *         DAO_ERR_INVALID where a choice has to be made; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: for the files. Cost: memory in proportion to the files.
 */
DAO_NODISCARD dao_status_t dao_read_json_step(const char *path, const char *batch,
                                              dao_step_trace_t *out_trace);

#endif
