/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a text with commas between them, in room that the caller has. */
#ifndef DAO_TOOLS_TEXT_LIST_H
#define DAO_TOOLS_TEXT_LIST_H

#include "base/report/format.h"

#include <stddef.h>

typedef struct dao_text_list {
    char *text;
    size_t bytes; /* of its room; what is longer is cut */
    size_t count; /* parts */
} dao_text_list_t;

/* Begins a list without parts, whose text is "". `bytes` is at least 1. */
dao_text_list_t dao_text_list_begin(char *text, size_t bytes);

DAO_PRINTF(2, 3) void dao_text_list_add(dao_text_list_t *list, const char *format, ...);

#endif
