/* SPDX-License-Identifier: Apache-2.0 */
/* Growing arrays of the tool, and texts one behind the other. */
#ifndef DAO_TOOLS_GROW_H
#define DAO_TOOLS_GROW_H

#include "base/memory/host.h"
#include "base/report/error.h"

#include <string.h>

/* Makes room for an item behind the first `count` of an array that has room for `*capacity`. Returns the
   array, which may have moved, or NULL with an error: then nothing changed. */
static inline void *dao_tool_grow(void *array, size_t *capacity, size_t count, size_t item_bytes)
{
    if (count < *capacity) {
        return array;
    }
    size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    void *grown = dao_host_realloc(array, wanted, item_bytes);
    if (grown == NULL) {
        (void)dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu items of %zu bytes", wanted, item_bytes);
        return NULL;
    }
    *capacity = wanted;
    return grown;
}

/* Copies a text of so many bytes, and a NUL, behind the `*used_bytes` first ones of an array of texts. */
static inline dao_status_t dao_tool_put_text(char **texts, size_t *used_bytes, size_t *capacity_bytes,
                                             const char *text, size_t length)
{
    while (*capacity_bytes - *used_bytes <= length) {
        char *grown = dao_tool_grow(*texts, capacity_bytes, *capacity_bytes, 1);
        if (grown == NULL) {
            return DAO_ERR_NO_HOST_MEMORY;
        }
        *texts = grown;
    }
    memcpy(*texts + *used_bytes, text, length);
    (*texts)[*used_bytes + length] = '\0';
    *used_bytes += length + 1;
    return DAO_OK;
}

#endif
