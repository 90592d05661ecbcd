/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a step from an execution trace of PyTorch (torch.profiler.ExecutionTraceObserver), schema 1.0.1 to
   1.0.3-chakra: JSON with a node an operator call. It says which storage each call reads and writes, not when
   anything was freed, and no times. */
#ifndef DAO_TOOLS_READ_EXECUTION_TRACE_H
#define DAO_TOOLS_READ_EXECUTION_TRACE_H

#include "tools/model/step_trace.h"

/**
 * Reads a trace. A tensor is a storage of the device that has most bytes; what lies on others is counted as
 * ignored. A storage that is first seen as an input is carried from step to step; any other lives from its
 * first to its last mention. Costs are 0.
 *
 * @param out_trace  Packed. Written only on DAO_OK; the caller owns it, until dao_step_trace_finish().
 * @return DAO_OK; DAO_ERR_PARSE, DAO_ERR_OVERFLOW, DAO_ERR_IO with a message `FILE:LINE:COLUMN: what`;
 *         DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: for the file. Cost: memory in proportion to the file.
 */
DAO_NODISCARD dao_status_t dao_read_execution_trace(const char *path, dao_step_trace_t *out_trace);

#endif
