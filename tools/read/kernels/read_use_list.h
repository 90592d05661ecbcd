/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a step from a list of kernels and of the tensors that each uses:

       3 2                          tensors, kernels
       4096 1024 512                a size in bytes for each tensor, on one line or several
       0.25 2 0 1                   milliseconds, tensors, the number of each, from 0
       1.5 2 1 2

   Source of the form: what the profiler of the first DAO executor writes, `*.trace`. */
#ifndef DAO_TOOLS_READ_USE_LIST_H
#define DAO_TOOLS_READ_USE_LIST_H

#include "tools/model/step_trace.h"

/**
 * Reads a list. It does not say who reads and who writes: the first kernel that uses a tensor brings it to
 * life, each later one changes it, and behind the last one it is gone. Tensors and kernels are called by
 * their numbers. The model is the file's name, the batch "1".
 *
 * @param out_trace  Packed. Written only on DAO_OK; the caller owns it, until dao_step_trace_finish().
 * @return DAO_OK; DAO_ERR_PARSE, DAO_ERR_OVERFLOW, DAO_ERR_IO with a message `FILE:LINE:COLUMN: what`;
 *         DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: for the file. Cost: memory in proportion to the file.
 */
DAO_NODISCARD dao_status_t dao_read_use_list(const char *path, dao_step_trace_t *out_trace);

#endif
