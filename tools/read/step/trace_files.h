/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the files of a step trace: MODEL.io_info.json and, for a batch,
   MODEL.BATCH.{tensor_size,resize_info, cost_info}.json beside it, each with ".gz" behind it if it is
   packed. */
#ifndef DAO_TOOLS_TRACE_FILES_H
#define DAO_TOOLS_TRACE_FILES_H

#include <dao/status.h>

enum { DAO_TRACE_PATH_BYTES = 4096 };

typedef struct dao_trace_files {
    char model[128];
    char batch[32];
    char io_info[DAO_TRACE_PATH_BYTES];
    char tensor_size[DAO_TRACE_PATH_BYTES];
    char resize_info[DAO_TRACE_PATH_BYTES];
    char cost_info[DAO_TRACE_PATH_BYTES];
} dao_trace_files_t;

/* `path` is a folder with one io_info.json, or such a file. `batch` NULL: the only one there is.
   DAO_ERR_IO, DAO_ERR_INVALID with a message that lists what there is to choose from. */
DAO_NODISCARD dao_status_t dao_trace_files_find(const char *path, const char *batch,
                                                dao_trace_files_t *out_files);

#endif
