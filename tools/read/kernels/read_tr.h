/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a step from a `.tr` file:

       T 2                          tensors that follow
       0 4096 1 weight              id, bytes, 1 if it is carried from step to step, name
       1 1024 0 activation
       K 2 1                        kernels that follow; which of them begins the backward pass, 2: none
       93.4785 2 0:1 1:2            microseconds, accesses, each id:mode: 1 read, 2 overwrite, 3 both
       12.5 2 1:1 0:3 */
#ifndef DAO_TOOLS_READ_TR_H
#define DAO_TOOLS_READ_TR_H

#include "tools/model/step_trace.h"

/**
 * Reads a trace. A tensor's id in the trace is its name, a point, and its number; a kernel is called by its
 * number. The model is the file's name, the batch "1".
 *
 * @param out_trace  Packed. Written only on DAO_OK; the caller owns it, until dao_step_trace_finish().
 * @return DAO_OK; DAO_ERR_PARSE, DAO_ERR_OVERFLOW, DAO_ERR_IO with a message `FILE:LINE:COLUMN: what`;
 *         DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: for the file. Cost: memory in proportion to the file.
 */
DAO_NODISCARD dao_status_t dao_read_tr(const char *path, dao_step_trace_t *out_trace);

#endif
