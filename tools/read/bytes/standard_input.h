/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input as a file that can be read several times: once to see what it is, and once more to read
   it. */
#ifndef DAO_TOOLS_STANDARD_INPUT_H
#define DAO_TOOLS_STANDARD_INPUT_H

#include <dao/status.h>

/* Returns true for "-". */
bool dao_path_is_standard_input(const char *path);

/* Opens a copy of all that standard input has, at its beginning. The first call waits for its end. The caller
   closes the file. DAO_ERR_IO with the reason. Threads: one at a time. */
DAO_NODISCARD dao_status_t dao_standard_input_open(int *out_file);

#endif
