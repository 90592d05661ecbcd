/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a step in this project's own form (docs/formats.md), which read_dao_step.h reads. */
#ifndef DAO_TOOLS_WRITE_DAO_STEP_H
#define DAO_TOOLS_WRITE_DAO_STEP_H

#include "tools/model/step_trace.h"

#include <stdio.h>

/* Writes a step: read again it is the same, its tensors in the same order. Equal steps are equal texts.
   DAO_ERR_NO_HOST_MEMORY; whether all bytes arrived is for dao_out_file_close(). Cost: O(trace). */
DAO_NODISCARD dao_status_t dao_write_dao_step(FILE *file, const dao_step_trace_t *trace);

#endif
