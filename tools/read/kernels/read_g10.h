/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a step from JSON lines made from the graphs of G10 (MICRO'23): a header, then a line a tensor, then
   a line a kernel in order:

       {"format": "g10-derived 1", "model": "bert", "batch": 256, "cycles_per_second": 1200000000,
        "tensors": 2, "kernels": 1}
       {"tensor": 0, "weight": 0, "size": 4096}
       {"tensor": 1, "weight": 1, "size": 1024}
       {"kernel": 0, "name": "Linear_Forward", "cycles": 37158, "inputs": [0, 1], "outputs": [0],
        "workspace": 0}

   Each of them is one line. */
#ifndef DAO_TOOLS_READ_G10_H
#define DAO_TOOLS_READ_G10_H

#include "tools/model/step_trace.h"

/**
 * Reads a trace. Weights are carried from step to step; a tensor among a kernel's inputs and outputs is
 * changed in place. The backward pass begins with the first kernel whose name has "_Backward" in it.
 *
 * @param out_trace  Packed. Written only on DAO_OK; the caller owns it, until dao_step_trace_finish().
 * @return DAO_OK; DAO_ERR_PARSE, DAO_ERR_OVERFLOW, DAO_ERR_IO with a message `FILE:LINE:COLUMN: what`;
 *         DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: for the file. Cost: memory in proportion to the file.
 */
DAO_NODISCARD dao_status_t dao_read_g10(const char *path, dao_step_trace_t *out_trace);

#endif
