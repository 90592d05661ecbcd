/* SPDX-License-Identifier: Apache-2.0 */
/* A text that is written to by what the library writes its files with. */
#ifndef DAO_TESTS_RUNTIME_INSPECT_TEXT_H
#define DAO_TESTS_RUNTIME_INSPECT_TEXT_H

#include <dao/status.h>

#include <string.h>

/* A text that grows by what a writer writes. */
typedef struct text {
    char *bytes; /* closed by a zero */
    size_t count;
    size_t room; /* writing more fails */
} text_t;

static inline dao_status_t text_append(const char *bytes, size_t count, void *user)
{
    text_t *text = user;
    if (count > text->room - text->count - 1) {
        return DAO_ERR_IO;
    }
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    text->bytes[text->count] = '\0';
    return DAO_OK;
}

#endif
