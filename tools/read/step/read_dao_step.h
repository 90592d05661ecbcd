/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a step in this project's own form, which docs/formats.md tells:

       dao-step 1
       tensor w 9408 tag=weight
       tensor y 3211264
       op aten::conv2d 812.375 module=conv1 pure <x <w >y ^x +t:1048576 -t
       end                                                                   */
#ifndef DAO_TOOLS_READ_DAO_STEP_H
#define DAO_TOOLS_READ_DAO_STEP_H

#include "tools/model/step_trace.h"

/* The first word of such a file. */
#define DAO_STEP_FILE_MARK "dao-step"

/* What an operand begins with, and what it does. */
typedef enum dao_step_sign {
    DAO_STEP_SIGN_READ = '<',
    DAO_STEP_SIGN_CHANGE = '*',    /* in place: reads and writes */
    DAO_STEP_SIGN_OUTPUT = '>',    /* comes to life, and is written */
    DAO_STEP_SIGN_OVERWRITE = '=', /* is written all over and not read */
    DAO_STEP_SIGN_SAVE = '^',
    DAO_STEP_SIGN_ALLOC = '+', /* a temporary begins */
    DAO_STEP_SIGN_FREE = '-',  /* a temporary ends, or a tensor after the operator */
} dao_step_sign_t;

/**
 * Reads a step.
 *
 * @param out_trace  Packed. Written only on DAO_OK; the caller owns it, until dao_step_trace_finish().
 * @return DAO_OK; DAO_ERR_PARSE, DAO_ERR_OVERFLOW, DAO_ERR_IO with a message `FILE:LINE:COLUMN: what`;
 *         DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: for the file. Cost: memory in proportion to the file.
 */
DAO_NODISCARD dao_status_t dao_read_dao_step(const char *path, dao_step_trace_t *out_trace);

#endif
