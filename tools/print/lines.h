/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of standard output that fit the terminal. */
#ifndef DAO_TOOLS_LINES_H
#define DAO_TOOLS_LINES_H

#include "base/report/format.h"

#include <stddef.h>

/* Returns the columns of the terminal; of anything else, or of one that is very narrow, 80. */
size_t dao_output_columns(void);

/* Prints words in lines, of which the first begins at `column`, where the cursor is; the others at `indent`.
 */
void dao_output_words(const char *text, size_t column, size_t indent);

/* Prints a sentence in lines that are indented by two, the second and later ones by four. What is longer than
   1024 bytes is cut. */
DAO_PRINTF(1, 2) void dao_output_say(const char *format, ...);

#endif
