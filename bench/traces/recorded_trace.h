/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a trace of allocations from the recorded events of a step: CSV with the columns
   `time_ns,event,id,bytes,op`, where event is alloc, free or step. */
#ifndef DAO_BENCH_RECORDED_TRACE_H
#define DAO_BENCH_RECORDED_TRACE_H

#include "tools/model/alloc_trace.h"

/**
 * Reads MODEL.BATCH.events.csv of a folder. What was alive before its first line is built up first: the
 * tensors that are freed and never allocated in it, and those that the folder's JSON files know and it does
 * not name.
 *
 * @param folder     A folder with a step trace, see dao_read_json_step(), and its events.
 * @param name       Of the trace.
 * @param out_trace  Written only on DAO_OK; the caller owns it, until dao_alloc_trace_finish().
 * @return DAO_OK; DAO_ERR_PARSE, DAO_ERR_OVERFLOW, DAO_ERR_IO with a message `FILE:LINE: what`; what
 *         dao_read_json_step() answers; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: for the files. Cost: memory in proportion to the files.
 */
DAO_NODISCARD dao_status_t dao_alloc_trace_read(const char *folder, const char *name,
                                                dao_alloc_trace_t *out_trace);

#endif
