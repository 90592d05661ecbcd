/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the options' table share: the text of a limit. */
#ifndef DAO_TOOLS_OPTION_VALUE_H
#define DAO_TOOLS_OPTION_VALUE_H

#include "tools/options/options.h"

enum { DAO_OPTION_LIMIT_BYTES = 32 };

/* Writes a limit of an option as the command line has it: bytes with the largest unit that divides them.
   Returns `out_text`. */
const char *dao_option_limit(const dao_option_t *option, uint64_t limit,
                             char out_text[DAO_OPTION_LIMIT_BYTES]);

/* Returns the greatest value that an option takes, in its unit. */
uint64_t dao_option_most(const dao_option_t *option);

/* Returns the size of the field of a type; 0 for DAO_OPTION_TYPE_PARSED, which has any. */
size_t dao_option_type_size(dao_option_type_t type);

#endif
