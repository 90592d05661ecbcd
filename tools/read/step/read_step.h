/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a step trace from whatever holds it. */
#ifndef DAO_TOOLS_READ_STEP_H
#define DAO_TOOLS_READ_STEP_H

#include "tools/model/step_trace.h"

/* What may stand for TRACE on the command line, for the help of commands. */
#define DAO_READ_STEP_HELP                                                                                   \
    "TRACE is a recorded step: a step of dao's own form; a folder with MODEL.io_info.json and its\n"         \
    "companions; a .tr file; a PyTorch execution trace; JSON lines of G10; a list of kernels. It is known "  \
    "by what is in it;\n"                                                                                    \
    "- is standard input."

/**
 * Reads a trace, whose form recognise.h tells: our own (read_dao_step.h), `.tr` (read_tr.h), a list of
 * kernels (read_use_list.h), JSON lines (read_g10.h), an execution trace (read_execution_trace.h), or the
 * four JSON files of read_json_step.h.
 *
 * @param batch      NULL: the only one there is. DAO_ERR_INVALID for a form that has no batches.
 * @param out_trace  Packed. Written only on DAO_OK; the caller owns it, until dao_step_trace_finish().
 * @return What the reader answers.
 *
 * Threads: any. Waits: for the files. Cost: memory in proportion to the files.
 */
DAO_NODISCARD dao_status_t dao_read_step(const char *path, const char *batch, dao_step_trace_t *out_trace);

#endif
