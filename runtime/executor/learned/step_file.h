/* SPDX-License-Identifier: Apache-2.0 */
/* A known step as a file (base/report/step_form.h). */
#ifndef DAO_RUNTIME_EXECUTOR_STEP_FILE_H
#define DAO_RUNTIME_EXECUTOR_STEP_FILE_H

#include "runtime/executor/records/step_log.h"

/* Writes a closed log to a file that is made anew; kernel_ns are the kernels' measured times, or NULL.
   DAO_ERR_IO with the path and the reason: a file that was made is left empty; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_step_file_write(const dao_step_log_t *log, const uint64_t *kernel_ns,
                                               const char *path);

#endif
